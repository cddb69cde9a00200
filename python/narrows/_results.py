"""Results, as plain dicts and lists, tables and figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from . import _narrows
from ._narrows import Column, Table


class Finding(NamedTuple):
    """One thing that the verdict found."""

    weight: str
    check: str
    entity: str
    line: str


def findings_of(verdict: dict[str, Any]) -> list[Finding]:
    return [
        Finding(f["weight"], f["check"], f["entity"], f["line"]) for f in verdict["findings"]
    ]


def trust_of(line: str) -> str:
    return line.removeprefix("trust: ")


class Figure:
    """A figure of a result, as ``narrows plot`` draws it."""

    def __init__(self, data: _narrows.RunData | _narrows.CampaignData, name: str, title: str) -> None:
        self._data = data
        self.name = name
        self.title = title

    def draw(self, format: str = "svg", *, width: str = "page") -> bytes:
        """The figure as ``svg``, ``png`` or ``pdf``, as wide as a ``column``, ``page`` or ``screen``."""
        return self._data.draw(self.name, format, width)

    @property
    def svg(self) -> str:
        return self.draw("svg").decode()

    def save(self, path: str | os.PathLike[str], *, width: str = "page") -> Path:
        """Writes it; the ending of ``path`` is its format."""
        path = Path(path)
        path.write_bytes(self.draw(path.suffix.lstrip(".").lower(), width=width))
        return path

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<narrows.Figure {self.name}: {self.title}>"


class Figures:
    """The figures of a result, by name and in their order."""

    def __init__(self, data: _narrows.RunData | _narrows.CampaignData) -> None:
        self._all = {name: Figure(data, name, title) for name, title in data.figures()}
        self._data = data

    def __iter__(self) -> Iterator[Figure]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, name: str) -> Figure:
        found = self._all.get(name)
        if found is None:
            # Refuses it, and says which there are.
            self._data.draw(name, "svg", "page")
            raise KeyError(name)
        return found

    def names(self) -> list[str]:
        return list(self._all)

    def __repr__(self) -> str:
        return f"<narrows.Figures: {', '.join(self._all)}>"


class Series:
    """One metric of one entity over time.

    ``t_s`` are the ends of the intervals, ``value`` the value over each. Both are views of the
    run's own numbers: NumPy (``numpy.asarray``) and what reads Arrow (``polars.DataFrame``,
    ``pyarrow.table``, DuckDB) take them without a copy.
    """

    def __init__(self, entity: str, metric: str, table: Table) -> None:
        self.entity = entity
        self.metric = metric
        self.table = table

    @property
    def t_s(self) -> Column:
        return self.table.column("t_s")

    @property
    def value(self) -> Column:
        return self.table.column("value")

    def __len__(self) -> int:
        return len(self.table)

    def to_dict(self) -> dict[str, list[float]]:
        return self.table.to_dict()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.table.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<narrows.Series {self.metric} of {self.entity}, {len(self)} samples>"


_Data = TypeVar(
    "_Data", bound="_narrows.RunData | _narrows.CampaignData | _narrows.ComparisonData"
)


class _Result(Generic[_Data]):
    """What all results have."""

    def __init__(self, data: _Data) -> None:
        self._data: _Data = data
        self._json: dict[str, Any] | None = None

    def _document(self) -> dict[str, Any]:
        document = self._json
        if document is None:
            document = self._json = json.loads(self._data.json())
        return document

    @property
    def dir(self) -> Path | None:
        """The results folder, if there is one."""
        found = self._document()["dir"]
        return Path(found) if found else None

    @property
    def trusted(self) -> bool:
        """Whether the figures mean what they seem to."""
        return self._data.trusted

    def __str__(self) -> str:
        return self._data.text()


class Run(_Result[_narrows.RunData]):
    """A run's results."""

    @property
    def record(self) -> dict[str, Any]:
        """``run.json``: what ran, on what, and whether it got to its end."""
        found: dict[str, Any] = self._document()["run"]
        return found

    @property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: all figures over the steady window."""
        found: dict[str, Any] = self._document()["summary"]
        return found

    @property
    def flows(self) -> list[dict[str, Any]]:
        """The figures of each flow."""
        found: list[dict[str, Any]] = self.summary["flows"]
        return found

    @property
    def queues(self) -> list[dict[str, Any]]:
        """The figures of each queue."""
        found: list[dict[str, Any]] = self.summary["queues"]
        return found

    @property
    def name(self) -> str:
        return str(self.record["name"])

    @property
    def digest(self) -> str:
        """Of the data files; empty without a results folder."""
        return str(self.record["digest"])

    @property
    def complete(self) -> bool:
        return bool(self.record["complete"])

    @property
    def trust(self) -> str:
        """``yes``, or ``no, because …``."""
        return trust_of(self._data.trust_line)

    @property
    def findings(self) -> list[Finding]:
        """What the verdict found, the grave things first."""
        return findings_of(self.record["verdict"])

    @property
    def tracks(self) -> list[tuple[str, str]]:
        """The entity and the metric of each series."""
        return [(entity, metric) for entity, metric, _ in self._data.tracks()]

    def series(self, entity: str, metric: str) -> Series:
        """One metric over time: ``series("flow/prague", "rtt_ms")``."""
        table = self._data.series(entity, metric)
        if table is None:
            of_entity = [m for e, m, _ in self._data.tracks() if e == entity]
            known = of_entity or sorted({e for e, _, _ in self._data.tracks()})
            what = f"no series {metric!r} of {entity!r}" if of_entity else f"no entity {entity!r}"
            raise KeyError(f"there is {what}; there are {', '.join(known)}")
        return Series(entity, metric, table)

    @property
    def all_series(self) -> Table:
        """Every series: ``t_s``, ``entity``, ``metric``, ``value``, as in ``series.csv.gz``."""
        return self._data.all_series()

    @property
    def figures(self) -> Figures:
        return Figures(self._data)

    def html(self) -> str:
        """The page of the run, which needs no network."""
        return self._data.html()

    def __repr__(self) -> str:
        return f"<narrows.Run {self.name}: {self._data.trust_line}>"

    def _repr_html_(self) -> str:
        from ._card import card

        return card(self)


class Campaign(_Result[_narrows.CampaignData]):
    """A campaign's results."""

    def __init__(self, data: _narrows.CampaignData) -> None:
        super().__init__(data)
        #: Of a sweep the digests of each cell's data, one a seed.
        self.digests: dict[str, list[str]] = {}

    @property
    def record(self) -> dict[str, Any]:
        """``run.json``."""
        found: dict[str, Any] = self._document()["run"]
        return found

    @property
    def result(self) -> dict[str, Any]:
        """``campaign.json``: axes, metrics, cells, checks."""
        found: dict[str, Any] = self._document()["campaign"]
        return found

    @property
    def name(self) -> str:
        return str(self.result["name"])

    @property
    def cells(self) -> list[dict[str, Any]]:
        """The figures of each cell."""
        found: list[dict[str, Any]] = self.result["cells"]
        return found

    @property
    def errors(self) -> dict[str, str]:
        """Why cells have no figures, by their names."""
        return {cell["name"]: cell["error"] for cell in self.cells if cell["error"]}

    @property
    def table(self) -> Table:
        """``cell``, a column for each axis, ``seed``, ``metric``, ``value``, ``published``."""
        return self._data.table()

    @property
    def passed(self) -> bool:
        """Whether every cell ran and every check passed."""
        return self._data.passed

    @property
    def complete(self) -> bool:
        return bool(self.result["complete"])

    @property
    def trust(self) -> str:
        """``yes``, or ``no, because …``."""
        return trust_of(self._data.trust_line)

    @property
    def findings(self) -> list[Finding]:
        return findings_of(self.record["verdict"])

    @property
    def figures(self) -> Figures:
        return Figures(self._data)

    def run(self, cell: str) -> Run:
        """The run of a cell's first seed, from the results folder (``out=``)."""
        from ._calls import open_run

        folder = next((c["folder"] for c in self.cells if c["name"] == cell), None)
        if folder is None:
            raise KeyError(f"there is no cell {cell!r}; there are "
                           + ", ".join(c["name"] for c in self.cells))
        if self.dir is None or not folder:
            raise KeyError(f"the run of {cell!r} was not kept: out= names a folder for all of them")
        return open_run(self.dir / folder)

    def __repr__(self) -> str:
        return f"<narrows.Campaign {self.name}: {len(self.cells)} cells, {self._data.trust_line}>"

    def _repr_html_(self) -> str:
        from ._card import campaign_card

        return campaign_card(self)


class Comparison(_Result[_narrows.ComparisonData]):
    """The same in two engines."""

    @property
    def result(self) -> dict[str, Any]:
        """``compare.json``."""
        found: dict[str, Any] = self._document()["compare"]
        return found

    @property
    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.result["cells"]
        return found

    @property
    def passed(self) -> bool:
        return self._data.passed

    def __repr__(self) -> str:
        return f"<narrows.Comparison {self.result['name']}: {len(self.cells)} cells>"


class Observation:
    """What an observer makes of captures."""

    def __init__(self, samples: Table, rest: str, unread: list[str]) -> None:
        events: list[dict[str, Any]] = json.loads(rest)
        self.samples = samples
        """Every sample: ``t_s``, ``tap``, ``flow``, ``technique``, ``quantity``, ``value``, …"""
        self.estimates = [e for e in events if e["event"] == "estimate"]
        """What the samples of each flow amount to."""
        self.flows = [e for e in events if e["event"] == "end"]
        """What was counted of each flow."""
        self.counters = [e for e in events if e["event"] == "counters"]
        """What passed each point."""
        self.unread = unread
        """What of the captures was not read, a line each."""

    def __repr__(self) -> str:
        return f"<narrows.Observation of {len(self.flows)} flows, {len(self.samples)} samples>"


class Diff:
    """The differences of two results, metric by metric."""

    def __init__(self, document: str, text: str) -> None:
        self.result: dict[str, Any] = json.loads(document)
        self._text = text

    def __str__(self) -> str:
        return self._text
