"""Running, comparing, observing and reading results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Union

from . import _inputs, _narrows
from ._inputs import Sets, Source, Words
from ._narrows import Scenario, Table
from ._progress import Followed, Follow
from ._results import Campaign, Comparison, Diff, Observation, Run

if TYPE_CHECKING:
    Results = Union[Run, Campaign, Comparison]

PathLike = Union[str, "os.PathLike[str]"]
Engine = Literal["sim", "live", "kernel"]
Store = Union[str, "os.PathLike[str]", Literal[False], None]


def run(
    scenario: Source | Scenario | None = None,
    *,
    links: Words = (),
    flows: Words = (),
    apps: Words = (),
    test: str | None = None,
    set: Sets = None,
    seed: int | None = None,
    engine: Engine = "sim",
    out: PathLike | None = None,
    progress: Follow = None,
) -> Run:
    """Runs one scenario.

    The scenario is what :func:`narrows.scenario` takes. Results are in memory, and in the folder
    ``out`` if one is named, which has to be new or empty. ``progress`` is called with a
    :class:`narrows.Progress` as the run advances; ``True`` draws a bar if tqdm is installed.

    Other threads of Python run meanwhile. Ctrl-C ends it.
    """
    checked = _inputs.scenario(
        scenario, links=links, flows=flows, apps=apps, test=test, set=set, seed=seed
    )
    with Followed(progress, checked.name) as follow:
        return Run(_narrows.run(checked, engine=engine, out=_path(out), progress=follow))


def campaign(
    campaign: Source,
    *,
    only: Words = (),
    set: Sets = None,
    seeds: int | Iterable[int] | None = None,
    jobs: int = 0,
    engine: Engine = "sim",
    out: PathLike | None = None,
    store: Store = None,
    fresh: bool = False,
    progress: Follow = None,
) -> Campaign:
    """Runs the cells of a campaign in this process, ``jobs`` at a time.

    ``seeds`` are the seeds of each cell, or how many. What is in ``store`` is not run again: that
    of the command, unless one is named; none if it is ``False``.
    """
    what = _inputs.campaign(campaign, set=set, only=only)
    with Followed(progress, what["name"]) as follow:
        data = _narrows.campaign(
            what,
            engine=engine,
            seeds=seeds_of(seeds),
            jobs=jobs,
            out=_path(out),
            store=store_of(store),
            fresh=fresh,
            progress=follow,
        )
    return Campaign(data)


def compare(
    what: Source | Scenario,
    *,
    engine: Engine = "live",
    against: Engine = "sim",
    only: Words = (),
    set: Sets = None,
    repetitions: int = 3,
    again: int = 2,
    jobs: int = 0,
    out: PathLike | None = None,
    progress: Follow = None,
) -> Comparison:
    """Runs the same in two engines, and says where they differ.

    ``what`` is a scenario, or the name of a campaign, of which ``only`` are the cells. The live
    engine needs root.
    """
    given: Scenario | _inputs.Campaign
    if isinstance(what, Scenario):
        given = _inputs.scenario(what, set=set)
        name = what.name
    else:
        text, name = _inputs.text_and_name(what, "scenario")
        if text is None:
            given = {"name": name, "text": None, "sets": _inputs.sets(set),
                     "only": _inputs.words(only)}
        else:
            given = _inputs.scenario(what, set=set)
    with Followed(progress, name) as follow:
        data = _narrows.compare(
            given,
            engine=engine,
            against=against,
            repetitions=repetitions,
            again=again,
            jobs=jobs,
            out=_path(out),
            progress=follow,
        )
    return Comparison(data)


def observe(
    captures: PathLike | Iterable[PathLike], filter: str = "", *, inner: bool = False
) -> Observation:
    """Round trips and loss of the flows in captures, as ``narrows observe`` has them.

    ``filter`` says which packets, ``tcp port 443``; ``inner`` observes what is inside tunnels.
    """
    paths = [captures] if isinstance(captures, (str, os.PathLike)) else list(captures)
    return Observation(*_narrows.observe([Path(path) for path in paths], filter, inner))


def packets(capture: PathLike) -> Table:
    """The packets of a capture as a table.

    Of a capture that is damaged in the middle the packets before that are there, and a warning
    says where it is.
    """
    table, error = _narrows.packets_of(Path(capture))
    if error is not None:
        import warnings

        warnings.warn(f"{os.fspath(capture)}: {error}; what came before it is there", stacklevel=2)
    return table


def open(dir: PathLike) -> Results:
    """The results in a folder: of a run, a campaign or a comparison."""
    data = _narrows.open_results(Path(dir))
    if isinstance(data, _narrows.RunData):
        return Run(data)
    if isinstance(data, _narrows.CampaignData):
        return Campaign(data)
    return Comparison(data)


def open_run(dir: PathLike) -> Run:
    found = open(dir)
    if not isinstance(found, Run):
        raise TypeError(f"{os.fspath(dir)} holds several runs")
    return found


def diff(a: PathLike, b: PathLike) -> Diff:
    """The differences of two results folders, metric by metric."""
    return Diff(*_narrows.diff(Path(a), Path(b)))


def seeds_of(seeds: int | Iterable[int] | None) -> list[int]:
    if seeds is None:
        return []
    return list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)


def store_of(store: Store) -> Path | None:
    """The store of cells that is meant: the one named, that of the environment, or the user's."""
    if store is False:
        return None
    if store is not None:
        return Path(store)
    of_environment = os.environ.get("NARROWS_STORE")
    if of_environment is not None:
        return Path(of_environment) if of_environment else None
    return _narrows.store_of_user()


def _path(path: PathLike | None) -> Path | None:
    return None if path is None else Path(path)
