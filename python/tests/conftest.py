"""What the tests run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LINKS = ["netem delay 5ms", "bottleneck: rate 10Mbit queue fq_codel"]
SHORT = {"duration": "2s"}
#: Minutes of processor time, more than any test waits for.
LONG = {"duration": "100000s"}


@pytest.fixture
def short() -> dict[str, Any]:
    """A run of two flows that takes a fraction of a second."""
    return {"links": LINKS, "flows": ["cubic", "second: reno"], "set": SHORT}


@pytest.fixture(autouse=True)
def _no_store_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NARROWS_STORE", str(tmp_path / "store-of-the-environment"))


@pytest.fixture(scope="session")
def command() -> str:
    """The command that the wheel has beside the package."""
    return str(Path(sys.executable).with_name("narrows"))


def say(*words: str) -> str:
    """What a command prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout
