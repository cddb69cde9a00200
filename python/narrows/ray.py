"""Cells of a sweep on a cluster of Ray: ``narrows.sweep(…, executor=narrows.ray.Executor())``.

Ray has remote functions where the rest has ``submit``; this is the difference.
"""

from __future__ import annotations

import importlib
from typing import Any


class Executor:
    """Gives calls to Ray, each with ``options`` of ``ray.remote``, ``num_cpus=1`` among them."""

    def __init__(self, **options: Any) -> None:
        # Of Ray's nothing is needed before; imports are absolute, so that this is the package.
        self._ray: Any = importlib.import_module("ray")
        self._options = {"num_cpus": 1, **options}
        self._remote: dict[Any, Any] = {}

    def submit(self, fn: Any, /, *args: Any) -> Any:
        """A future of ``concurrent.futures`` for ``fn(*args)``."""
        remote = self._remote.get(fn)
        if remote is None:
            remote = self._remote[fn] = self._ray.remote(**self._options)(fn)
        return remote.remote(*args).future()
