"""The command of the wheel: a process of Python's that behaves as the program of that name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import narrows
import pytest
from conftest import LINKS, LONG, say

LINE = [word for link in LINKS for word in ("--link", link)] + ["--flow", "cubic"]
LASTING = [*LINE, "--set", f"duration={LONG['duration']}"]


def ended(*words: str, **more: str) -> tuple[int, str, str]:
    """Status, and what was printed."""
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=300, env={**os.environ, **more}
    )
    return done.returncode, done.stdout, done.stderr


def test_statuses_are_those_of_the_guide(command: str, tmp_path: Path) -> None:
    short = [*LINE, "--set", "duration=2s", "--out"]
    assert ended(command, "run", *short, str(tmp_path / "out"))[0] == 0
    assert ended(command, "run", *short, str(tmp_path / "out"))[0] == 2
    # Two seconds are no steady window for a path of three seconds.
    late = ["--set", "link/access/up/netem=netem delay 1500ms", "--set", "duration=3s"]
    assert ended(command, "run", *LINE, *late, "--out", str(tmp_path / "late"))[0] == 3
    status, _, said = ended(command, "rum")
    assert status == 2 and "Usage: narrows" in said and "'run'" in said
    assert ended(command, "--version") == (0, f"narrows {narrows.__version__}\n", "")


def test_the_package_run_as_a_module_is_the_command(command: str) -> None:
    module = [sys.executable, "-m", "narrows"]
    assert say(*module, "--help") == say(command, "--help")
    # What a command starts again is started as it was itself.
    for words in ([command], module):
        status, out, said = ended(*words, "up", "no/such/scenario")
        assert (status, out) == (2, "") and "no/such/scenario" in said and "Traceback" not in said


def test_words_that_are_no_text_reach_the_command(command: str) -> None:
    """Which refuses them itself."""
    words = [os.fsencode(command), b"run", b"\xff\xfe.toml"]
    done = subprocess.run(words, check=False, capture_output=True, timeout=300)
    assert done.returncode == 2 and b"invalid UTF-8" in done.stderr, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(command: str, tmp_path: Path, number: int) -> None:
    out = tmp_path / "out"
    words = [command, "run", *LASTING, "--out", str(out)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + 120
            while not (out / "run.json").exists():
                assert process.poll() is None and time.monotonic() < until
                time.sleep(0.01)
            status = Path(f"/proc/{process.pid}/status").read_text()
            process.send_signal(number)
            said = process.communicate(timeout=120)[1]
        finally:
            process.kill()
    assert process.returncode == 130 and "interrupted" in said and "Traceback" not in said
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert facts["Name"] == "narrows"
    # Of signals the program ignores SIGPIPE alone, and so do not those that it starts.
    # Signals from 32 on are those of the C library, and of whoever started this.
    ignored = int(facts["SigIgn"], 16) & ((1 << 31) - 1)
    assert ignored == 1 << (signal.SIGPIPE - 1)


def test_a_reader_that_has_gone_is_no_failure(command: str) -> None:
    with subprocess.Popen([command, "schema"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 141
    # What is written nowhere is not written into a file that has the number of what was closed.
    assert ended("sh", "-c", f"'{command}' list >&- 2>&-")[0] == 0


def test_shells_complete_by_it(command: str) -> None:
    assert say(command, "completion", "bash") == say(sys.executable, "-m", "narrows", "completion", "bash")
    asked = {"NARROWS_COMPLETE": "bash", "_CLAP_COMPLETE_INDEX": "2", "_CLAP_IFS": "\n"}
    status, offered, _ = ended(command, "--", "narrows", "show", "l4s-tests/s", **asked)
    assert status == 0 and "l4s-tests/s1" in offered.splitlines()
