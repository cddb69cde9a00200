"""Matplotlib in the looks of the figures of ``narrows plot``."""

from __future__ import annotations

import importlib
from typing import Any

from . import _narrows


def style() -> dict[str, Any]:
    """Settings for ``matplotlib.pyplot.style.use`` or ``rc_context``.

    The colours are those of the figures, which are distinct under all common forms of colour
    blindness.
    """
    # Matplotlib's, neither of which has to be there.
    cycler: Any = importlib.import_module("cycler").cycler
    flows, ink, axis, grid = _narrows.palette()
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": axis,
        "axes.grid": True,
        "axes.labelcolor": axis,
        "axes.prop_cycle": cycler(color=flows),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": ink,
        "axes.titlelocation": "left",
        "figure.figsize": (6.3, 2.6),
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "grid.color": grid,
        "legend.frameon": False,
        "lines.linewidth": 1.2,
        "savefig.bbox": "tight",
        "text.color": ink,
        "xtick.color": axis,
        "ytick.color": axis,
    }
