"""What is refused, and how."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS
from test_run import TEXT


def test_a_refusal_is_an_exception_with_the_commands_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(TEXT.replace('cc = "cubic"', 'cc = "cubick"'))
    with pytest.raises(narrows.Refused) as raised:
        narrows.run(file)
    said = subprocess.run([command, "run", str(file)], check=False, capture_output=True, text=True)
    assert said.returncode == 2 and str(raised.value) == said.stderr.strip()
    refused = raised.value
    assert refused.file == str(file) and refused.line == TEXT.splitlines().index('cc = "cubic"') + 1
    assert refused.key == "flow/cubic/cc" and "`cubick`" in refused.found and "`cubic`" in refused.allowed
    assert "did you mean `cubic`?" in str(refused)
    assert isinstance(refused, ValueError) and isinstance(refused, narrows.NarrowsError)


def test_a_refusal_comes_whole_from_another_process() -> None:
    with pytest.raises(narrows.Refused) as raised:
        narrows.run(links=LINKS, flows="cubick")
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is narrows.Refused and str(again) == str(raised.value)
    assert (again.key, again.found, again.line) == (
        raised.value.key, raised.value.found, raised.value.line
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "--link"),
        ({"links": LINKS}, "flow"),
        ({"links": LINKS, "flows": "cubic", "set": {"no/such": 1}}, "no/such"),
        ({"links": LINKS, "flows": "cubic", "engine": "warp"}, "engine: found `warp`"),
        ({"scenario": "no/such/entry"}, "neither"),
        ({"scenario": {"flow": object()}}, "not JSON serializable"),
        ({"scenario": "version = 1\nname = '\ud800'"}, "surrogates"),
        ({"scenario": TEXT, "flows": "cubic"}, "one of both"),
        ({"scenario": "l4s-tests/s1"}, "narrows campaign l4s-tests/s1"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as raised:
        narrows.run(**given)
    assert text in str(raised.value)


def test_a_kernel_that_was_not_built_is_refused_with_what_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    scenario = narrows.scenario(links=LINKS, flows="cubic")
    sweep = {"grid": {"flow/cubic/cc": ["cubic"]}, "store": tmp_path / "store"}
    for call in (
        lambda: narrows.run(scenario, engine="kernel"),
        lambda: narrows.compare(scenario, engine="kernel"),
        lambda: narrows.sweep(scenario, engine="kernel", **sweep),
    ):
        with pytest.raises(narrows.Refused, match="`narrows kernel build` builds one") as raised:
            call()
        assert raised.value.key == "engine" and raised.value.found.startswith("`kernel`: ")


def test_other_errors_have_their_own_classes(tmp_path: Path) -> None:
    with pytest.raises(narrows.Refused, match="is not a results folder"):
        narrows.open(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(narrows.FileFailed, match="run.json cannot be read"):
        narrows.open(tmp_path)
    (tmp_path / "a.pcap").write_bytes(b"no capture")
    with pytest.raises(narrows.FileFailed, match="a.pcap"):
        narrows.packets(tmp_path / "a.pcap")
    with pytest.raises(narrows.FileFailed, match="could not read"):
        narrows.packets(tmp_path / "none.pcap")
    with pytest.raises(narrows.Refused, match="filter: found"):
        narrows.observe(tmp_path / "a.pcap", "tcp prot 443")


def test_the_same_engine_twice_is_no_comparison() -> None:
    scenario = narrows.scenario(links=LINKS, flows="cubic", set={"duration": "2s"})
    with pytest.raises(narrows.Refused, match="two different engines"):
        narrows.compare(scenario, engine="sim", against="sim")
