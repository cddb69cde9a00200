"""The types say what is there."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import narrows
import pytest

PACKAGE = Path(narrows.__file__).parent
EXAMPLE = Path(__file__).with_name("typed_example.py")

def test_what_is_exported_is_there_and_documented() -> None:
    assert sorted(narrows.__all__) == narrows.__all__
    for name in narrows.__all__:
        assert inspect.getdoc(getattr(narrows, name)), name


def check(*words: str, at: Path | None = None) -> None:
    environment = {**os.environ, "MYPYPATH": ""}
    checked = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=600, env=environment, cwd=at
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_mypy_finds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    options = ["--strict", "--python-version", "3.10", "--cache-dir", str(tmp_path / "cache")]
    shutil.copytree(PACKAGE, tmp_path / "narrows")
    shutil.copy(EXAMPLE, tmp_path)
    check(sys.executable, "-m", "mypy", *options, "narrows", EXAMPLE.name, at=tmp_path)


def test_the_stub_is_that_of_the_module() -> None:
    """Names, arguments and their kinds, in both directions."""
    pytest.importorskip("mypy")
    check(sys.executable, "-m", "mypy.stubtest", "narrows._narrows")


def test_pyright_finds_nothing(tmp_path: Path) -> None:
    pyright = shutil.which(Path(sys.executable).with_name("pyright"))
    if pyright is None:
        pytest.skip("pyright is not installed")
    # It looks below its configuration alone.
    shutil.copytree(PACKAGE, tmp_path / "narrows")
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        '{"typeCheckingMode": "strict", "pythonVersion": "3.10", "reportPrivateUsage": false, '
        '"reportMissingModuleSource": false}'
    )
    check(pyright, "--pythonpath", sys.executable, "-p", str(tmp_path))


def test_the_typed_example_runs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(EXAMPLE)], check=True, timeout=300, cwd=tmp_path)
