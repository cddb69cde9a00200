"""The types say what is there."""

from __future__ import annotations

import ast
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import narrows
import pytest
from narrows import _narrows

PACKAGE = Path(narrows.__file__).parent
EXAMPLE = Path(__file__).with_name("typed_example.py")

#: What every object has.
OF_ALL = set(dir(object)) | {"__module__", "__new__", "__weakref__"}


def public(members: Any) -> set[str]:
    return {name for name in members if name not in OF_ALL}


def declared() -> tuple[dict[str, ast.FunctionDef], dict[str, dict[str, ast.FunctionDef]]]:
    """The functions, and the classes with theirs, of the stub."""
    tree = ast.parse((PACKAGE / "_narrows.pyi").read_text())
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    classes = {
        n.name: {m.name: m for m in n.body if isinstance(m, ast.FunctionDef)}
        for n in tree.body
        if isinstance(n, ast.ClassDef)
    }
    return functions, classes


def names(function: ast.FunctionDef) -> list[str]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return [a.arg for a in every if a.arg not in ("self", "cls")]


def test_the_stub_has_the_modules_members_and_no_others() -> None:
    functions, classes = declared()
    own = {n: v for n, v in vars(_narrows).items() if not n.startswith("__")}
    assert {n for n, v in own.items() if inspect.isclass(v)} == set(classes)
    assert {n for n, v in own.items() if not inspect.isclass(v)} == set(functions)
    for name, methods in classes.items():
        here = public(vars(own[name])) - {"__repr__", "__doc__"}
        assert here == public(methods), name


def test_the_stub_has_the_modules_arguments() -> None:
    functions, classes = declared()
    checked = 0
    for name, function in functions.items():
        found = inspect.signature(getattr(_narrows, name)).parameters
        assert list(found) == names(function), name
        checked += 1
    for name, methods in classes.items():
        for method, function in methods.items():
            member = inspect.getattr_static(getattr(_narrows, name), method)
            if inspect.isgetsetdescriptor(member) or method in OF_ALL or method == "__getitem__":
                continue
            given = inspect.signature(getattr(getattr(_narrows, name), method)).parameters
            assert [n for n in given if n != "self"] == names(function), f"{name}.{method}"
            checked += 1
    assert checked > 30


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
