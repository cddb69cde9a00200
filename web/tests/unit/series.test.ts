import assert from "node:assert/strict";
import { test } from "node:test";
import { readTidy, Series } from "../../src/series";

test("room is bounded, and the whole run stays in view", () => {
  const series = new Series(100);
  for (let i = 0; i < 100_000; i += 1) series.add(i / 20, [["flow/a rtt_ms", i], ["flow/b rtt_ms", -i]]);
  assert.ok(series.times.length <= 100 && series.times.length >= 50, `${series.times.length} samples`);
  assert.ok((series.times[0] ?? 1) < 1);
  assert.ok((series.times[series.times.length - 1] ?? 0) > 4000);
  for (const column of series.columns.values()) assert.equal(column.length, series.times.length);
});

test("counters are added up, also over samples that are not kept", () => {
  const series = new Series(10);
  for (let i = 1; i <= 64; i += 1) series.add(i, [["q marks", 2], ["q sojourn_ms", 7]]);
  const marks = series.columns.get("q marks") ?? [];
  series.times.forEach((time, place) => assert.equal(marks[place], 2 * time));
  assert.equal((series.columns.get("q sojourn_ms") ?? [])[0], 7);
});

test("a series that begins late has gaps before", () => {
  const series = new Series();
  series.add(1, [["a x", 1]]);
  series.add(2, [["b x", 2]]);
  assert.deepEqual([...series.columns], [["a x", [1, null]], ["b x", [null, 2]]]);
});

test("a sample that is not later than the one before is left out", () => {
  const series = new Series();
  series.add(1, [["a x", 1]]);
  series.add(1, [["a x", 2]]);
  assert.deepEqual(series.columns.get("a x"), [1]);
});

test("a series file is read by its lines; what is no number is a gap", () => {
  const series = readTidy("t_s,entity,metric,value\n0.1,flow/a,rtt_ms,20.5\n0.1,flow/b,rtt_ms,\n0.2,flow/a,rtt_ms,21\n0.2,flow/b,rtt_ms,9\n");
  assert.deepEqual(series.times, [0.1, 0.2]);
  assert.deepEqual(series.columns.get("flow/a rtt_ms"), [20.5, 21]);
  assert.deepEqual(series.columns.get("flow/b rtt_ms"), [null, 9]);
});
