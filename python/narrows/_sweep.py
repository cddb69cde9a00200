"""Sweeps: the cells of a campaign, run by whatever takes a call and gives a future."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol, TypedDict

from . import _inputs
from ._calls import Engine, Store, seeds_of, store_of
from ._errors import NarrowsError, Refused, SweepFailed
from ._inputs import Source, Words
from ._narrows import Scenario, SweepData
from ._progress import Follow, Followed
from ._results import Campaign

#: How often futures without callbacks are looked at, in seconds.
_LOOK_S = 0.1
#: Campaigns that a process keeps read.
_MOST_READ = 4


class Executor(Protocol):
    """Whatever has ``submit``: executors of ``concurrent.futures``, a client of Dask, submitit.

    What it returns has ``result()``, and ``done()`` or ``add_done_callback()``.
    """

    def submit(self, fn: Any, /, *args: Any) -> Any: ...


class Task(NamedTuple):
    """What a worker is given: all that cells are a function of, and where they are kept."""

    id: str
    name: str
    text: str | None
    sets: list[str]
    only: list[str]
    seeds: list[int]
    engine: str
    store: str
    version: str


class Outcome(TypedDict):
    """How a cell ended."""

    complete: bool
    error: str | None
    trusted: bool
    digests: list[str] | None


class CellDone(NamedTuple):
    """A cell that has ended.

    ``error`` says why it has no figures, if it failed. ``digests`` are those of its data, one a
    seed; ``taken`` is whether it was in the store before the sweep began.
    """

    name: str
    error: str | None
    digests: list[str]
    taken: bool


_read: dict[str, SweepData] = {}
_reading = threading.Lock()


def _data(task: Task) -> SweepData:
    """The campaign of a task, which a process reads once."""
    with _reading:
        data = _read.get(task.id)
        if data is None:
            source: _inputs.Campaign = {
                "name": task.name, "text": task.text, "sets": task.sets, "only": task.only
            }
            data = SweepData(source, task.seeds, task.engine, Path(task.store))
            while len(_read) >= _MOST_READ:
                _read.pop(next(iter(_read)))
            _read[task.id] = data
    return data


def run_cells(task: Task, indices: Sequence[int]) -> list[str]:
    """Runs cells into the store; called by workers."""
    data = _data(task)
    if data.version != task.version:
        raise NarrowsError(
            f"this worker has narrows {data.version}, and the sweep is of {task.version}: "
            "install the same build on both"
        )
    return [data.run_cell(index) for index in indices]


def sweep(
    what: Source | Scenario | None = None,
    grid: Mapping[str, Sequence[object]] | None = None,
    *,
    links: Words = (),
    flows: Words = (),
    apps: Words = (),
    test: str | None = None,
    set: Mapping[str, object] | None = None,
    metrics: Mapping[str, str] | None = None,
    name: str = "sweep",
    only: Words = (),
    seeds: int | Iterable[int] | None = None,
    engine: Engine = "sim",
    executor: Executor | None = None,
    chunk: int = 1,
    store: Store = None,
    out: str | os.PathLike[str] | None = None,
    each: Callable[[CellDone], object] | None = None,
    progress: Follow = None,
) -> Campaign:
    """Runs every cell of a grid, or of a campaign, and keeps each in a store.

    With ``grid``, ``what`` (or ``links``, ``flows``, …) is a scenario, and each key of the grid a
    value of it by name, ``flow/prague/cc``, or a word in braces in one of the values of ``set``.
    Without one, ``what`` is a campaign.

    Cells are given to ``executor.submit``, ``chunk`` at a time, and run in this process, as many
    at a time as there are processors, without one. Workers need the same build of Narrows and the
    folder ``store`` under the same path. What is in the store is not run again, so that the same
    call goes on after a crash; ``narrows campaign`` takes the same cells. ``each`` is called with
    every cell as it ends.
    """
    source: _inputs.Campaign
    if grid is None:
        if what is None or isinstance(what, Scenario):
            raise Refused(
                "sweep: found a scenario without a grid; allowed: a grid, or a campaign",
                key="sweep", found="a scenario without a grid", allowed="a grid, or a campaign",
            )
        source = _inputs.campaign(what, set=set, only=only)
    else:
        given = dict(set or {})
        templates = {key: _inputs.in_words(value) for key, value in given.items()}
        words = ["{" + key + "}" for key in grid]
        varying = {k: v for k, v in templates.items() if any(word in v for word in words)}
        fixed = {k: v for k, v in templates.items() if k not in varying}
        base = _inputs.scenario(what, links=links, flows=flows, apps=apps, test=test, set=fixed)
        document = _inputs.grid_document(
            base, grid, name=name, set=varying, metrics=metrics or {}
        )
        source = {"name": f"{name}.toml", "text": _inputs.toml_of(document), "sets": [],
                  "only": _inputs.words(only)}
    place = store_of(store)
    if place is None:
        raise Refused(
            "store: found none; allowed: a folder for the cells of the sweep",
            key="store", found="none", allowed="a folder for the cells of the sweep",
        )
    place = Path(os.path.abspath(place))
    data = SweepData(source, seeds_of(seeds), engine, place)
    sweep = _Sweep(data, each)
    with Followed(progress, data.name) as follow:
        sweep.follow = follow
        if executor is None:
            sweep.take()
            sweep.run_here()
        else:
            task = Task(
                id=os.urandom(16).hex(),
                # A worker may be in another folder.
                name=_absolute(source["name"]) if source["text"] is None else source["name"],
                text=source["text"],
                sets=source["sets"],
                only=source["only"],
                seeds=seeds_of(seeds),
                engine=engine,
                store=str(place),
                version=data.version,
            )
            with _reading:
                _read[task.id] = data
            try:
                sweep.take()
                sweep.run_by(executor, task, max(1, chunk))
            finally:
                with _reading:
                    _read.pop(task.id, None)
    indices = list(range(len(sweep.cells)))
    failed = [(done.name, done.error) for done in sweep.done.values() if done.error is not None]
    gathered = Campaign(data.gather(indices, failed, None if out is None else Path(out)))
    gathered.digests = {done.name: done.digests for done in sweep.done.values()}
    return gathered


def _absolute(name: str) -> str:
    return os.path.abspath(name) if os.path.isfile(name) else name


class _Sweep:
    """What of a sweep is done."""

    def __init__(self, data: SweepData, each: Callable[[CellDone], object] | None) -> None:
        self.data = data
        self.each = each
        self.cells = data.cells()
        self.done: dict[int, CellDone] = {}
        self.errors: dict[str, BaseException] = {}
        self.follow: Callable[[float, float, str, str | None], None] | None = None

    def end(self, index: int, outcome: CellDone) -> None:
        self.done[index] = outcome
        if self.each is not None:
            self.each(outcome)
        if self.follow is not None:
            self.follow(float(len(self.done)), float(len(self.cells)), "cells", None)

    def take(self) -> None:
        """What is in the store already."""
        for index, cell in enumerate(self.cells):
            digests = self.data.stored(index)
            if digests is not None:
                self.end(index, CellDone(cell, None, digests, True))

    def left(self) -> list[int]:
        return [index for index in range(len(self.cells)) if index not in self.done]

    def run_here(self) -> None:
        """The cells that are left, by threads of this process."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            self._drive(lambda part: threads.submit(self.data.run_cell, part[0]), 1)
        self._judge()

    def run_by(self, executor: Executor, task: Task, chunk: int) -> None:
        """The cells that are left, by an executor."""
        self._drive(lambda part: executor.submit(run_cells, task, part), chunk)
        self._judge()

    def _drive(self, submit: Callable[[Sequence[int]], Any], chunk: int) -> None:
        left = self.left()
        parts = [left[at : at + chunk] for at in range(0, len(left), chunk)]
        ended: SimpleQueue[int] = SimpleQueue()
        futures: dict[int, Any] = {}
        silent: dict[int, Any] = {}
        try:
            for number, part in enumerate(parts):
                future = submit(part)
                futures[number] = future
                # Those of Dask call it in a thread of the client.
                add = getattr(future, "add_done_callback", None)
                if add is None:
                    silent[number] = future
                else:
                    add(_Ended(ended, number))
            while futures:
                for number in self._next(ended, silent):
                    future = futures.pop(number)
                    silent.pop(number, None)
                    self._collect(parts[number], future)
        except BaseException:
            # Those that run end as soon as they can; those that wait do not begin.
            self.data.cancel()
            for future in futures.values():
                cancel = getattr(future, "cancel", None)
                if cancel is not None:
                    cancel()
            raise

    def _next(self, ended: SimpleQueue[int], silent: dict[int, Any]) -> list[int]:
        """Futures that have ended; waits for one."""
        while True:
            try:
                # Not for ever: Ctrl-C is looked at in between.
                return [ended.get(timeout=_LOOK_S)]
            except Empty:
                found = [number for number, future in silent.items() if future.done()]
                if found:
                    return found

    def _collect(self, part: Sequence[int], future: Any) -> None:
        try:
            result = future.result()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a worker raised is reported
            for index in part:
                self.errors[self.cells[index]] = error
            return
        documents = [result] if isinstance(result, str) else result
        for index, document in zip(part, documents):
            outcome: Outcome = json.loads(document)
            cell = self.cells[index]
            if outcome["error"] is not None:
                self.end(index, CellDone(cell, outcome["error"], [], False))
                continue
            if not outcome["complete"]:
                self.errors[cell] = NarrowsError("it was interrupted")
                continue
            digests = self.data.stored(index)
            if digests is None:
                self.errors[cell] = NarrowsError(
                    "it is not in the store of this process: workers have to see the same folder "
                    "under the same path"
                )
                continue
            self.end(index, CellDone(cell, None, digests, False))

    def _judge(self) -> None:
        if not self.errors:
            return
        name, first = next(iter(self.errors.items()))
        why = str(first) or type(first).__name__
        text = (
            f"{len(self.errors)} of {len(self.cells)} cells did not end; {name}: {why}. "
            "The cells that ended are kept: the same call goes on with the rest."
        )
        raise SweepFailed(text, self.errors) from first


class _Ended:
    """What a future calls when it ends."""

    def __init__(self, ended: SimpleQueue[int], number: int) -> None:
        self.ended = ended
        self.number = number

    def __call__(self, _: object) -> None:
        self.ended.put(self.number)
