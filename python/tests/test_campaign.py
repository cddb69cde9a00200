"""Campaigns and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS

CAMPAIGN: dict[str, Any] = {
    "name": "two",
    "cell": "{cc}",
    "axis": {"cc": ["cubic", "reno"]},
    "set": {"flow/one/cc": "{cc}"},
    "metric": {"rate_mbit": "goodput_mbit of flow/one"},
    "check": [{"id": "fills", "text": "the link is full", "holds": "rate_mbit[*] > {limit}"}],
    "scenario": {
        "duration": "2s",
        "link": [{"name": "access", "ends": ["client", "server"], "up": LINKS, "down": LINKS}],
        "flow": [{"name": "one", "from": "client", "to": "server", "cc": "cubic"}],
    },
}


def campaign(limit: int) -> dict[str, Any]:
    (check,) = CAMPAIGN["check"]
    return {**CAMPAIGN, "check": [{**check, "holds": f"rate_mbit[*] > {limit}"}]}


def test_a_campaign_is_run_judged_and_read_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ran = narrows.campaign(campaign(8), seeds=2, store=store, out=tmp_path / "out")
    assert ran.passed and ran.complete and [cell["name"] for cell in ran.cells] == ["cubic", "reno"]
    assert "rate_mbit" in str(ran) and ran.run("reno").complete
    again = narrows.open(tmp_path / "out")
    assert isinstance(again, narrows.Campaign)
    assert again.table.to_dict() == ran.table.to_dict()
    assert again.figures.names() == ran.figures.names()
    failed = narrows.campaign(campaign(11), store=store)
    assert not failed.passed and failed.dir is None
    with pytest.raises(KeyError, match="out= names a folder"):
        failed.run("reno")


def test_cells_come_from_the_store_unless_fresh(tmp_path: Path) -> None:
    notes: list[str] = []

    def follow(progress: narrows.Progress) -> None:
        if progress.note is not None:
            notes.append(progress.note)

    given: dict[str, Any] = {"store": tmp_path / "store", "progress": follow}
    narrows.campaign(campaign(8), **given)
    assert notes == []
    narrows.campaign(campaign(9), **given)
    assert len(notes) == 1 and notes[0].startswith("2 of 2 runs were taken from")
    narrows.campaign(campaign(8), **given, fresh=True)
    narrows.campaign(campaign(8), progress=follow, store=False)
    assert len(notes) == 1


def test_only_some_cells_and_other_values() -> None:
    ran = narrows.campaign(campaign(8), only="r*", set={"duration": "1s"}, store=False)
    assert [cell["name"] for cell in ran.cells] == ["reno"]
    with pytest.raises(narrows.Refused, match="collection"):
        narrows.campaign("l4s-tests/risk")
    with pytest.raises(narrows.Refused, match="several campaigns"):
        narrows.campaign("l4s-tests/*")
