"""What a notebook shows of a result."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._results import Campaign, Run

_MOST_ROWS = 20


def _number(value: Any, digits: int = 2) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}" if isinstance(value, float) else escape(str(value))


def _table(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    shown = rows[:_MOST_ROWS]
    body = "".join(
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in shown
    )
    left = len(rows) - len(shown)
    more = f"<p>and {left} more</p>" if left else ""
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>{more}"


def _heading(name: str, trust: str, more: str) -> str:
    mark = "✓" if trust == "yes" else "✗"
    return f"<p><b>{escape(name)}</b> {escape(more)}<br>{mark} trust: {escape(trust)}</p>"


def card(run: Run) -> str:
    """A run: its verdict, its flows and its queues."""
    flows: list[list[str]] = []
    for flow in run.flows:
        rtt: dict[str, Any] = flow.get("rtt_ms") or {}
        flows.append([
            escape(flow["name"].removeprefix("flow/")),
            escape(str(flow.get("cc") or "")),
            _number(flow.get("goodput_mbit")),
            _number(rtt.get("mean")),
            _number(rtt.get("p99")),
            _number(flow.get("retransmissions")),
            _number(flow.get("ce_marks")),
        ])
    queues: list[list[str]] = []
    for queue in run.queues:
        sojourn: dict[str, Any] = queue.get("sojourn_ms") or {}
        used = queue.get("utilisation")
        queues.append([
            escape(queue["name"]),
            _number(None if used is None else 100 * used, 1),
            _number(sojourn.get("p50"), 3),
            _number(sojourn.get("p99"), 3),
        ])
    record = run.record
    more = f"{record['virtual_s']:g} s of network time, engine {record['engine']}"
    parts = [_heading(run.name, run.trust, more)]
    if flows:
        head = ["flow", "cc", "goodput_mbit", "rtt_ms mean", "rtt_ms p99", "retrans", "ce_marks"]
        parts.append(_table(head, flows))
    if queues:
        parts.append(_table(["queue", "used %", "sojourn_ms p50", "sojourn_ms p99"], queues))
    return f'<div class="narrows">{"".join(parts)}</div>'


def campaign_card(campaign: Campaign) -> str:
    """A campaign: its verdict, and the median of each metric in each cell."""
    metrics: list[str] = campaign.result["metrics"]
    rows: list[list[str]] = []
    for cell in campaign.cells:
        by_name = {m["metric"]: m["measured"] for m in cell["metrics"]}
        rows.append([escape(cell["name"]), *(_number(by_name.get(name)) for name in metrics)])
    heading = _heading(campaign.name, campaign.trust, f"{len(rows)} cells")
    return f'<div class="narrows">{heading}{_table(["cell", *metrics], rows)}</div>'
