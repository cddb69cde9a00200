"""Sweeps: whatever runs the cells, they are the same, and none is run twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS, say
from narrows import _sweep

GRID: dict[str, Any] = {
    "flow/cubic/cc": ["cubic", "prague"],
    "rate": ["5Mbit", "20Mbit"],
}
GIVEN: dict[str, Any] = {
    "links": LINKS,
    "flows": "cubic",
    "set": {"duration": "2s", "link/access/up/bottleneck": "rate {rate} queue fq_codel"},
    "metrics": {"rate_mbit": "goodput_mbit of flow/cubic"},
    "seeds": 2,
}


def sweep(store: Path, **more: Any) -> narrows.Campaign:
    return narrows.sweep(grid=GRID, store=store, **{**GIVEN, **more})


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> narrows.Campaign:
    """The sweep without an executor."""
    place = tmp_path_factory.mktemp("plain")
    return sweep(place / "store", out=place / "out")


def table(campaign: narrows.Campaign) -> dict[str, list[Any]]:
    return campaign.table.to_dict()


def test_a_grid_is_a_campaign_of_its_cells(plain: narrows.Campaign) -> None:
    names = [cell["name"] for cell in plain.cells]
    assert names == ["cubic/5Mbit", "cubic/20Mbit", "prague/5Mbit", "prague/20Mbit"]
    assert plain.complete and plain.passed and plain.errors == {}
    rows = table(plain)
    assert rows["cell"] == [name for name in names for _ in range(2)]
    assert rows["cc"] == ["cubic"] * 4 + ["prague"] * 4 and rows["seed"] == [1, 2] * 4
    assert all(3.0 < rate < 20.0 for rate in rows["value"])
    assert [rate > 10.0 for rate in rows["value"]] == [False, False, True, True] * 2
    run = plain.run("prague/20Mbit")
    assert run.complete and len(run.series("flow/cubic", "rtt_ms")) > 10
    assert "cubic/5Mbit" in plain._repr_html_() and len(plain.figures) > 0
    with pytest.raises(KeyError, match="there is no cell 'x'"):
        plain.run("x")


def test_digests_are_those_of_the_runs_and_of_the_command(
    plain: narrows.Campaign, tmp_path: Path, command: str
) -> None:
    assert all(len(set(digests)) == 2 for digests in plain.digests.values())
    of_folders = {name: plain.run(name).digest for name in plain.digests}
    assert of_folders == {name: digests[0] for name, digests in plain.digests.items()}


def executors() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "threads", lambda: ThreadPoolExecutor(2)
    yield "processes", lambda: ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.mark.parametrize(("make"), [pytest.param(make, id=name) for name, make in executors()])
@pytest.mark.parametrize("chunk", [1, 3])
def test_any_executor_gives_the_same(
    plain: narrows.Campaign, tmp_path: Path, make: Callable[[], Any], chunk: int
) -> None:
    ended: list[narrows.CellDone] = []
    with make() as executor:
        swept = sweep(tmp_path / "s", executor=executor, chunk=chunk, each=ended.append)
    assert swept.digests == plain.digests and table(swept) == table(plain)
    assert sorted(done.name for done in ended) == sorted(plain.digests)
    assert not any(done.taken for done in ended)


class Lazy:
    """An executor like submitit's: its futures say whether they are done, and call nobody."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def submit(self, fn: Any, *args: Any) -> Any:
        self.calls.append(args)

        class Job:
            def done(self) -> bool:
                return True

            def result(self) -> Any:
                return fn(*args)

        return Job()


def test_what_is_in_the_store_is_not_run_again(plain: narrows.Campaign, tmp_path: Path) -> None:
    first, second = Lazy(), Lazy()
    half = sweep(tmp_path / "s", executor=first, only="cubic/*")
    assert len(first.calls) == 2 and len(half.cells) == 2
    ended: list[narrows.CellDone] = []
    whole = sweep(tmp_path / "s", executor=second, each=ended.append)
    assert len(second.calls) == 2 and whole.digests == plain.digests
    assert {done.name for done in ended if done.taken} == set(half.digests)


def test_a_damaged_cell_is_run_again(plain: narrows.Campaign, tmp_path: Path) -> None:
    store = tmp_path / "s"
    sweep(store)
    damaged = sorted(store.rglob("summary.json"))[0]
    damaged.write_bytes(damaged.read_bytes().replace(b"1", b"2"))
    ended: list[narrows.CellDone] = []
    assert sweep(store, each=ended.append).digests == plain.digests
    assert [done.taken for done in ended].count(False) == 1
    assert sweep(store, each=ended.append).digests == plain.digests
    assert [done.taken for done in ended[4:]] == [True] * 4


class Broken:
    """Of an executor that loses calls."""

    def __init__(self, lost: int) -> None:
        self.lost = lost

    def submit(self, fn: Any, *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        if self.lost > 0:
            self.lost -= 1
            future.set_exception(OSError("the worker has gone"))
        else:
            future.set_result(fn(*args))
        return future


def test_a_lost_cell_is_said_and_the_same_call_goes_on(
    plain: narrows.Campaign, tmp_path: Path
) -> None:
    with pytest.raises(narrows.SweepFailed, match="1 of 4 cells did not end; .*has gone") as raised:
        sweep(tmp_path / "s", executor=Broken(1))
    assert list(raised.value.errors) == ["cubic/5Mbit"]
    lazy = Lazy()
    assert sweep(tmp_path / "s", executor=lazy).digests == plain.digests
    assert len(lazy.calls) == 1


def test_workers_with_another_store_or_another_build_are_found_out(tmp_path: Path) -> None:
    class Elsewhere(Lazy):
        """A worker that has another folder where the driver has its store."""

        def submit(self, fn: Any, task: Any, part: Any) -> Any:
            return super().submit(fn, task._replace(id="x", store=str(tmp_path / "other")), part)

    with pytest.raises(narrows.SweepFailed, match="see the same folder"):
        sweep(tmp_path / "s", executor=Elsewhere())

    class Older(Lazy):
        def submit(self, fn: Any, task: Any, part: Any) -> Any:
            return super().submit(fn, task._replace(version="0.0.1"), part)

    with pytest.raises(narrows.SweepFailed, match="and the sweep is of 0.0.1"):
        sweep(tmp_path / "t", executor=Older())


def test_wrong_sweeps_are_refused(tmp_path: Path) -> None:
    for given, text in [
        ({"grid": {}, "set": {}}, "found no axis"),
        ({"grid": None, "links": ()}, "a grid, or a campaign"),
        ({"grid": {"flow/none/cc": ["cubic"]}, "set": {}}, "unknown flow `none`"),
        ({"engine": "live"}, "in no store"),
        ({"only": "none/*"}, "fits none of 4 cells"),
        ({"store": False}, "a folder for the cells"),
    ]:
        with pytest.raises(narrows.Refused) as raised:
            narrows.sweep(**{"grid": GRID, "store": tmp_path / "s", **GIVEN, **given})
        assert text in str(raised.value)


def test_the_command_takes_the_cells_of_a_sweep(tmp_path: Path, command: str) -> None:
    """A file for both: a campaign of the catalogue's shape."""
    file = tmp_path / "mine.toml"
    base = narrows.scenario(links=LINKS, flows="cubic", set={"duration": "2s"}).toml()
    (tmp_path / "base.toml").write_text(base)
    file.write_text(
        'version = 1\nkind = "campaign"\nname = "mine"\nbase = "base.toml"\ncell = "{cc}"\n'
        'axis.cc = ["cubic", "reno"]\nset."flow/cubic/cc" = "{cc}"\nseeds = [1, 2]\n'
    )
    store = tmp_path / "store"
    swept = narrows.sweep(file, store=store, executor=Lazy())
    words = [command, "campaign", str(file), "--store", str(store), "--out", str(tmp_path / "out")]
    said = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    assert "4 of 4 runs were taken from" in said.stderr
    again = narrows.open(tmp_path / "out")
    assert isinstance(again, narrows.Campaign) and table(again) == table(swept)
    # And the other way.
    listed = say(command, "store", "list", "--store", str(store), "--only", "*")
    assert "cubic" in listed


DRIVER = """
import sys
import narrows
sys.path.insert(0, {tests!r})
from test_sweep import sweep, Lazy
def each(done):
    print(done.name, flush=True)
    import time
    time.sleep(600)
sweep({store!r}, executor=Lazy(), each=each)
"""


def test_a_sweep_goes_on_after_its_driver_was_killed(
    plain: narrows.Campaign, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    program = DRIVER.format(tests=str(Path(__file__).parent), store=str(store))
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline().strip() == b"cubic/5Mbit"
        finally:
            driver.kill()
    assert driver.returncode == -signal.SIGKILL
    lazy = Lazy()
    assert sweep(store, executor=lazy).digests == plain.digests
    assert len(lazy.calls) == 3


def test_dask_gives_the_same_though_a_worker_is_killed(
    plain: narrows.Campaign, tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    mark = tmp_path / "killed"

    class Killing:
        """The client of Dask, by which the first cell kills its worker, once."""

        def __init__(self, client: Any) -> None:
            self.client = client

        def submit(self, fn: Any, task: Any, part: Any) -> Any:
            return self.client.submit(run_or_die, str(mark), task, part)

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster, distributed.Client(cluster) as client:
        swept = sweep(tmp_path / "s", executor=Killing(client))
    assert mark.exists()
    assert swept.digests == plain.digests and table(swept) == table(plain)


def run_or_die(mark: str, task: Any, part: Any) -> Any:
    """A cell; the first worker that is asked for one is killed."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return _sweep.run_cells(task, part)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def test_the_adapter_of_ray_gives_futures_of_what_it_is_given(
    monkeypatch: pytest.MonkeyPatch, plain: narrows.Campaign, tmp_path: Path
) -> None:
    """Against a stand-in with the three calls of Ray that it uses."""
    from types import SimpleNamespace

    options: list[dict[str, Any]] = []

    class Reference:
        def __init__(self, value: Any) -> None:
            self.value = value

        def future(self) -> "Future[Any]":
            future: Future[Any] = Future()
            future.set_result(self.value)
            return future

    def remote(**given: Any) -> Any:
        options.append(given)
        return lambda fn: SimpleNamespace(remote=lambda *args: Reference(fn(*args)))

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(remote=remote))
    from narrows.ray import Executor

    swept = sweep(tmp_path / "s", executor=Executor(memory=1))
    assert swept.digests == plain.digests and options == [{"num_cpus": 1, "memory": 1}]
