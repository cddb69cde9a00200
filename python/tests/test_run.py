"""Runs: what they are made of, what they give, and that they are those of the command."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS, SHORT

TEXT = """
version = 1
name = "mine"
duration = "2s"
[[link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 10Mbit queue fq_codel"]
down = ["netem delay 5ms", "bottleneck: rate 10Mbit queue fq_codel"]
[[flow]]
name = "cubic"
from = "client"
to = "server"
cc = "cubic"
"""

DOCUMENT: dict[str, Any] = {
    "duration": "2s",
    "link": [{"name": "access", "ends": ["client", "server"], "up": LINKS, "down": LINKS}],
    "flow": [{"name": "cubic", "from": "client", "to": "server", "cc": "cubic"}],
}


def goodput(run: narrows.Run) -> float:
    return float(run.flows[0]["goodput_mbit"])


def test_the_same_scenario_runs_from_words_text_a_file_and_a_dict(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TEXT)
    words = narrows.run(links=LINKS, flows="cubic", set=SHORT)
    made: list[Any] = [TEXT, file, str(file), DOCUMENT, narrows.scenario(TEXT)]
    assert {goodput(narrows.run(scenario)) for scenario in made} == {goodput(words)}
    assert 8.0 < goodput(words) < 10.0


def test_a_run_has_plain_dicts_series_a_verdict_and_what_the_command_prints(
    short: dict[str, Any],
) -> None:
    run = narrows.run(**short)
    assert [flow["name"] for flow in run.flows] == ["flow/cubic", "flow/second"]
    assert run.summary["flows"] is run.flows
    assert run.complete and run.record["engine"] == "sim" and run.dir is None
    assert "goodput_mbit" in str(run) and "trust: " + run.trust in str(run)
    rtt = run.series("flow/second", "rtt_ms")
    assert len(rtt) == len(rtt.t_s) == len(rtt.value) > 10
    assert all(value >= 10.0 for value in rtt.value.to_list())
    assert ("flow/second", "rtt_ms") in run.tracks
    with pytest.raises(KeyError, match="there is no series 'nothing' of 'flow/second'"):
        run.series("flow/second", "nothing")
    with pytest.raises(KeyError, match="there are .*flow/second"):
        run.series("flow/third", "rtt_ms")


def test_a_run_that_cannot_be_trusted_says_why() -> None:
    # Nothing arrives.
    run = narrows.run(links=["netem loss random 100%", *LINKS], flows="cubic", set=SHORT)
    assert not run.trusted and run.trust.startswith("no, because ")
    grave = [finding for finding in run.findings if finding.weight == "distrust"]
    assert grave and grave[0].line in run.trust
    assert "✗ trust: no" in run._repr_html_()


def test_a_run_writes_the_folder_of_the_command_and_reads_it_again(
    short: dict[str, Any], tmp_path: Path, command: str
) -> None:
    run = narrows.run(**short, seed=7, out=tmp_path / "python")
    assert (tmp_path / "python" / "report.html").is_file()
    words = [command, "run", "--seed", "7", "--set", "duration=2s", "--out", str(tmp_path / "rust")]
    for link in LINKS:
        words += ["--link", link]
    for flow in short["flows"]:
        words += ["--flow", flow]
    subprocess.run(words, check=False, capture_output=True, timeout=300)
    theirs = narrows.open(tmp_path / "rust")
    assert isinstance(theirs, narrows.Run)
    assert run.digest == theirs.digest != ""
    ours = narrows.open(tmp_path / "python")
    assert isinstance(ours, narrows.Run)
    # Files round nothing that a run has.
    assert ours.summary == run.summary == theirs.summary
    assert ours.all_series.to_dict() == run.all_series.to_dict()
    with pytest.raises(narrows.Refused, match="is not empty"):
        narrows.run(**short, out=tmp_path / "python")
    assert "identical, byte for byte" in str(narrows.diff(tmp_path / "python", tmp_path / "rust"))


def test_seeds_decide_and_a_scenario_can_be_set_again() -> None:
    scenario = narrows.scenario(links=LINKS, flows="cubic", set=SHORT)
    assert "duration" in scenario.toml() and scenario.name == "cubic"
    first, second = (narrows.run(scenario, seed=seed) for seed in (1, 2))
    assert first.record["seeds"] == [1] and second.record["seeds"] == [2]
    slower = narrows.run(scenario, set={"link/access/up/bottleneck": "rate 2Mbit"})
    assert goodput(slower) < 2.0 < goodput(first)


def test_a_card_shows_names_as_text_and_a_figure_is_drawn(
    short: dict[str, Any], tmp_path: Path
) -> None:
    run = narrows.run(DOCUMENT, set={"name": "<script>alert(1)</script>"})
    card = run._repr_html_()
    assert "<script>" not in card and "&lt;script&gt;" in card and "goodput_mbit" in card
    figures = narrows.run(**short).figures
    assert "rtt" in figures.names() and len(figures) == len(list(figures))
    assert figures["rtt"]._repr_svg_().startswith("<svg")
    assert figures["rtt"].save(tmp_path / "rtt.png").read_bytes().startswith(b"\x89PNG")
    assert figures["rtt"].save(tmp_path / "rtt.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(narrows.Refused, match="`rtt`") as refused:
        figures["nothing"]
    assert refused.value.key == "figure"
    with pytest.raises(narrows.Refused, match="svg, png, pdf"):
        figures["rtt"].draw("gif")


def test_the_style_is_the_figures_own() -> None:
    pytest.importorskip("cycler")
    colours = [entry["color"] for entry in narrows.style()["axes.prop_cycle"]]
    assert len(colours) == len(set(colours)) == 8
    assert colours[0] in narrows.run(links=LINKS, flows="cubic", set=SHORT).figures["rtt"].svg.lower()


def test_the_version_is_the_commands(command: str) -> None:
    from conftest import say

    assert say(command, "--version").strip() == f"narrows {narrows.__version__}"
