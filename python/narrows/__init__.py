"""Narrows: a laboratory for transport protocols at the bottleneck.

>>> import narrows
>>> run = narrows.run(
...     links=["netem delay 10ms", "rate 50Mbit queue dualpi2"],
...     flows=["prague", "cubic"],
...     set={"duration": "6s"},
... )
>>> run.trust
'yes'
>>> [flow["name"] for flow in run.flows]
['flow/prague', 'flow/cubic']
"""

from pathlib import Path

from . import _narrows
from ._calls import campaign, compare, diff, observe, open, packets, run
from ._errors import (
    Defect,
    FileFailed,
    NarrowsError,
    NoPermission,
    Refused,
    RunFailed,
    SweepFailed,
)
from ._inputs import scenario
from ._narrows import Column, Scenario, Table
from ._progress import Progress
from ._results import Campaign, Comparison, Diff, Figure, Figures, Finding, Observation, Run, Series
from ._style import style
from ._sweep import CellDone, Executor, sweep

# Beside it lies what runs in a kernel in virtual time.
_narrows.loaded_from(Path(str(_narrows.__file__)))

#: Version and commit.
__version__: str = _narrows.version_line()

__all__ = [
    "Campaign",
    "CellDone",
    "Column",
    "Comparison",
    "Defect",
    "Diff",
    "Executor",
    "Figure",
    "Figures",
    "FileFailed",
    "Finding",
    "NarrowsError",
    "NoPermission",
    "Observation",
    "Progress",
    "Refused",
    "Run",
    "RunFailed",
    "Scenario",
    "Series",
    "SweepFailed",
    "Table",
    "campaign",
    "compare",
    "diff",
    "observe",
    "open",
    "packets",
    "run",
    "scenario",
    "style",
    "sweep",
]
