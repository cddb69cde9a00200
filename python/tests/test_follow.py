"""Runs are followed and ended, and other threads run meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS, LONG, SHORT

ENDLESS: dict[str, Any] = {"links": LINKS, "flows": "cubic", "set": LONG}


class Enough(Exception):
    pass


def test_progress_rises_to_the_end(short: dict[str, Any]) -> None:
    seen: list[narrows.Progress] = []
    narrows.run(**{**short, "set": {"duration": "60s"}}, progress=seen.append)
    assert seen and all(p.unit == "s" and p.of == 60.0 for p in seen)
    assert [p.done for p in seen] == sorted(p.done for p in seen)


def test_an_exception_of_the_callers_ends_the_run() -> None:
    def enough(progress: narrows.Progress) -> None:
        if progress.done > 0:
            raise Enough

    with pytest.raises(Enough):
        narrows.run(**ENDLESS, progress=enough)


def test_progress_is_drawn_if_tqdm_is_there(short: dict[str, Any], capsys: Any) -> None:
    pytest.importorskip("tqdm")
    narrows.run(**{**short, "set": {"duration": "60s"}}, progress=True)
    assert "cubic" in capsys.readouterr().err


def test_other_threads_run_meanwhile() -> None:
    begun, seen = threading.Event(), threading.Event()

    def follow(_: narrows.Progress) -> None:
        begun.set()
        if seen.is_set():
            raise Enough

    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(narrows.run, **ENDLESS, progress=follow)
        # This thread could not go on if the run held the interpreter's lock.
        assert begun.wait(timeout=120)
        seen.set()
        with pytest.raises(Enough):
            run.result(timeout=120)


def test_runs_in_threads_are_those_that_run_alone(short: dict[str, Any]) -> None:
    alone = [narrows.run(**short, seed=seed).summary for seed in range(1, 5)]
    with ThreadPoolExecutor(4) as threads:
        runs = [threads.submit(narrows.run, **short, seed=seed) for seed in range(1, 5)]
        assert [run.result(timeout=300).summary for run in runs] == alone


INTERRUPTED = """
import sys, narrows
def begun(progress):
    print("begun", flush=True)
try:
    narrows.{call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(narrows.run(links={links!r}, flows="cubic", set={short!r}).complete)
"""

CALLS = {
    "run": "run(links={links!r}, flows='cubic', set={long!r}, progress=begun)",
    "sweep": "sweep(links={links!r}, flows='cubic', grid={{'duration': ['1s', '100000s']}}, "
    "store={store!r}, each=begun)",
}


def test_ctrl_c_ends_a_run_and_the_next_one_is_whole(tmp_path: Path) -> None:
    for name in ("run", "sweep"):
        call = CALLS[name].format(links=LINKS, long=LONG, store=str(tmp_path / "store"))
        program = INTERRUPTED.format(call=call, links=LINKS, short=SHORT)
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "begun\n", name
                os.kill(process.pid, signal.SIGINT)
                # What is printed until it ends; a run that went on would take hours.
                rest, _ = process.communicate(timeout=120)
                assert rest.replace("begun\n", "") == "interrupted\nTrue\n", name
                assert process.returncode == 0
            finally:
                process.kill()
