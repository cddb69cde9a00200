"""How far a run or a sweep is: for a function of the caller's, or as a bar of tqdm."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple, Union

Call = Callable[[float, float, str, "str | None"], None]


class Progress(NamedTuple):
    """How far it is: ``done`` of ``of``, in ``unit``: ``s`` of network time, ``cells``, ``runs``.

    ``note`` is a line for people, where there is something to say.
    """

    done: float
    of: float
    unit: str
    note: str | None = None


Follow = Union[Callable[[Progress], object], bool, None]


class Followed:
    """``progress`` as the module calls it; a bar is closed at the end."""

    def __init__(self, progress: Follow, what: str) -> None:
        self._bar: Any = None
        self._what = what
        self.call: Call | None = None
        if progress is True:
            # Neither it nor its types have to be there.
            try:
                self._tqdm: Any = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                return
            self.call = self._draw
        elif callable(progress):
            follow = progress

            def call(done: float, of: float, unit: str, note: str | None) -> None:
                follow(Progress(done, of, unit, note))

            self.call = call

    def _draw(self, done: float, of: float, unit: str, note: str | None) -> None:
        if note is not None:
            self._tqdm.write(note)
            return
        if self._bar is None:
            self._bar = self._tqdm(total=of, unit=unit, desc=self._what, leave=False)
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> Call | None:
        return self.call

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
