"""Tables reach what reads Arrow, and NumPy, without being copied."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import narrows
import pytest
from conftest import LINKS, SHORT


@pytest.fixture
def run(short: dict[str, Any]) -> narrows.Run:
    return narrows.run(**short)


def address(column: narrows.Column) -> int:
    data: tuple[int, bool] = column.__array_interface__["data"]
    assert data[1], "nobody writes into it"
    return data[0]


def test_numpy_sees_the_runs_own_numbers_and_keeps_them(short: dict[str, Any]) -> None:
    np = pytest.importorskip("numpy")
    run = narrows.run(**short)
    series = run.series("flow/cubic", "rtt_ms")
    times, values = np.asarray(series.t_s), np.asarray(series.value)
    assert values.ctypes.data == address(series.value)
    assert address(series.value) == address(run.series("flow/cubic", "rtt_ms").value)
    expected = series.to_dict()
    del run, series
    gc.collect()
    assert values.tolist() == expected["value"] and times.tolist() == expected["t_s"]
    with pytest.raises(ValueError):
        values[0] = 1.0
    with pytest.raises(ValueError):
        values.flags.writeable = True


def test_polars_sees_the_runs_own_numbers(run: narrows.Run) -> None:
    pl = pytest.importorskip("polars")
    series = run.series("flow/cubic", "rtt_ms")
    frame = pl.DataFrame(series)
    assert frame.columns == ["t_s", "value"]
    assert frame["value"].to_list() == series.value.to_list()
    pytest.importorskip("numpy")
    view = frame["value"].to_numpy(allow_copy=False)
    assert view.ctypes.data == address(series.value)
    alone = pl.Series(series.value)
    assert alone.to_list() == series.value.to_list() and alone.name in ("value", "")


def test_pyarrow_pandas_and_duckdb_read_them(run: narrows.Run) -> None:
    pa = pytest.importorskip("pyarrow")
    series = run.series("flow/cubic", "rtt_ms")
    table = pa.table(series)
    table.validate(full=True)
    assert table.column("value").chunk(0).buffers()[1].address == address(series.value)
    everything = pa.table(run.all_series)
    everything.validate(full=True)
    assert everything.schema.names == ["t_s", "entity", "metric", "value"]
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame.from_arrow(run.all_series)
    assert set(frame["entity"]) == {entity for entity, _ in run.tracks}
    duckdb = pytest.importorskip("duckdb")
    rows = everything  # noqa: F841 - DuckDB finds it by its name
    ((count,),) = duckdb.sql("select count(*) from rows where metric = 'rtt_ms'").fetchall()
    assert count == sum(1 for metric in run.all_series.column("metric").to_list() if metric == "rtt_ms")


def test_all_series_are_the_rows_of_the_file(short: dict[str, Any], tmp_path: Path) -> None:
    import csv
    import gzip

    run = narrows.run(**short, out=tmp_path / "out")
    with gzip.open(tmp_path / "out" / "series.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    table = run.all_series.to_dict()
    assert len(rows) == len(run.all_series) == len(table["value"]) > 100
    for name in ("entity", "metric"):
        assert table[name] == [row[name] for row in rows]
    for name in ("t_s", "value"):
        assert table[name] == [float(row[name]) for row in rows]


def test_columns_are_read_like_sequences(run: narrows.Run) -> None:
    column = run.series("flow/cubic", "rtt_ms").value
    values = column.to_list()
    assert column[0] == values[0] and column[-1] == values[-1] == column[len(values) - 1]
    for index in (len(values), -len(values) - 1, 2**62):
        with pytest.raises(IndexError):
            column[index]
    with pytest.raises(KeyError, match="there are t_s, value"):
        run.series("flow/cubic", "rtt_ms").table.column("v")
    with pytest.raises(TypeError, match="holds texts"):
        run.all_series.column("entity").__array_interface__


CAPTURED = {
    "duration": "1s",
    "link": [{
        "name": "access", "ends": ["client", "server"],
        "up": LINKS, "down": LINKS,
    }],
    "flow": [{"name": "cubic", "from": "client", "to": "server", "cc": "cubic", "ecn": True}],
    "capture": [{"name": "seen", "at": "host/server"}],
}


def captured(tmp_path: Path) -> Path:
    narrows.run(CAPTURED, out=tmp_path / "out")
    (file,) = (tmp_path / "out" / "captures").iterdir()
    return file


def test_the_packets_of_a_capture_are_a_table(tmp_path: Path) -> None:
    packets = narrows.packets(captured(tmp_path))
    table = packets.to_dict()
    assert len(packets) == len(table["time_ns"]) > 100
    assert table["time_ns"] == sorted(table["time_ns"])
    assert set(table["protocol"]) == {6} and set(table["ecn"]) <= {0, 1, 2, 3}
    data = [row for row, bytes in enumerate(table["tcp_payload"]) if bytes > 0]
    assert {table["ip_length"][row] for row in data} == {1500}
    # SYN, ECE and CWR of RFC 3168.
    assert table["tcp_flags"][0] & 0xC2 == 0xC2
    assert packets.column("source_port").to_list() == table["source_port"]
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(packets)["source"].to_list() == table["source"]


def test_what_is_absent_is_null(tmp_path: Path) -> None:
    # An Ethernet frame of ARP beside nothing that has an address.
    header = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
    frame = bytes(12) + bytes.fromhex("0806") + bytes(28)
    record = bytes(8) + len(frame).to_bytes(4, "little") * 2
    file = tmp_path / "arp.pcap"
    file.write_bytes(header + record + frame)
    packets = narrows.packets(file)
    assert packets.column("source").to_list() == [None] == packets.column("ttl").to_list()
    assert packets.column("length").to_list() == [42]
    with pytest.raises(TypeError, match="rows without a value"):
        packets.column("ttl").__array_interface__
    pl = pytest.importorskip("polars")
    frame_of = pl.DataFrame(packets)
    assert frame_of["ttl"].null_count() == 1 and frame_of["source"].to_list() == [None]
    file.write_bytes(header + record + frame + record + b"cut")
    with pytest.warns(UserWarning, match="what came before it is there"):
        assert len(narrows.packets(file)) == 1


def test_an_observer_measures_a_capture(tmp_path: Path) -> None:
    file = captured(tmp_path)
    seen = narrows.observe(file)
    assert len(seen.flows) == 1 and len(seen.counters) == 1 and seen.unread == []
    assert {"value", "quantity", "technique"} <= set(seen.estimates[0])
    samples = seen.samples.to_dict()
    assert len(seen.samples) > 10 and set(samples["unit"]) <= {"ms", "packets"}
    assert narrows.observe([file], "udp").flows == []


def test_tables_that_nobody_reads_and_streams_that_are_left_are_freed(run: narrows.Run) -> None:
    for _ in range(100):
        table = run.all_series
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
        table.column("value").__arrow_c_array__()
    assert len(run.all_series.columns) == 4


def test_an_empty_table_is_one(tmp_path: Path) -> None:
    file = tmp_path / "empty.pcap"
    file.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    packets = narrows.packets(file)
    assert len(packets) == 0 and packets.to_dict()["source"] == []
    np = pytest.importorskip("numpy")
    assert np.asarray(packets.column("length")).shape == (0,)
    pl = pytest.importorskip("polars")
    assert pl.DataFrame(packets).shape == (0, 16)


def test_short_runs_have_series_too() -> None:
    run = narrows.run(links=LINKS, flows="cubic", set={**SHORT, "duration": "100ms"})
    assert repr(run.all_series).startswith("<narrows.Table of ")
