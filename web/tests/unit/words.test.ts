import assert from "node:assert/strict";
import { test } from "node:test";
import type { Declared, Parameter } from "../../src/api";
import { difference, fresh, kindOf, named, places, split, withinQueue, withValue } from "../../src/words";

const parameter = (usage: string, kind: string): Parameter => ({
  usage, names: (usage.split(" ")[0] ?? "").split("|").filter((name) => /^[a-z]/.test(name)), kind, unit: "", allowed: "", default: "", summary: "", choices: [],
});
const rate: Declared = { name: "rate", summary: "", parameters: [parameter("RATE", "rate"), parameter("overhead BYTES", "size"), parameter("shaper", "flag"), parameter("queue QUEUE …", "words")] };
const netem: Declared = { name: "netem", summary: "", parameters: [parameter("delay TIME [JITTER [CORRELATION]]", "time"), parameter("ordered", "flag"), parameter("loss P", "percentage")] };
const codel: Declared = { name: "fq_codel", summary: "", parameters: [parameter("flows N", "number"), parameter("ecn|noecn", "flag")] };

test("a line is divided at spaces, and brackets are one word", () => {
  assert.deepEqual(split("by dscp 8 (netem delay 5ms | rate 1Mbit) else (mtu 1400)"), ["by", "dscp", "8", "(netem delay 5ms | rate 1Mbit)", "else", "(mtu 1400)"]);
});

test("an element's own name ends at its colon, and addresses have none", () => {
  assert.deepEqual(named("bottleneck: rate 50Mbit"), { name: "bottleneck", words: "rate 50Mbit" });
  assert.deepEqual(named("mmb add 2001:db8::1 drop"), { name: "", words: "mmb add 2001:db8::1 drop" });
});

test("of kinds that begin alike the longer one is found", () => {
  const kinds = [rate, { ...rate, name: "rate trace" }];
  assert.equal(kindOf(split("rate trace a.csv"), kinds)?.name, "rate trace");
  assert.equal(kindOf(split("rate 5Mbit"), kinds)?.name, "rate");
  assert.equal(kindOf(split("unknown 5"), kinds), undefined);
});

test("parameters are found with and without names, and several words of one stay together", () => {
  assert.deepEqual(places(split("rate 50Mbit overhead 20 queue fq_codel flows 1"), rate).map(({ name, value }) => [name, value]), [["", "50Mbit"], ["overhead", "20"], ["queue", "fq_codel flows 1"]]);
  assert.deepEqual(places(split("netem delay 10ms 2ms 25% ordered loss 1%"), netem).map(({ name, value }) => [name, value]), [["delay", "10ms 2ms 25%"], ["ordered", ""], ["loss", "1%"]]);
});

test("a value is replaced, added before what goes to the end, and taken out", () => {
  const [value, overhead, shaper] = rate.parameters as [Parameter, Parameter, Parameter];
  const text = "bottleneck: rate 50Mbit queue dualpi2";
  assert.equal(withValue(text, rate, value, "20Mbit"), "bottleneck: rate 20Mbit queue dualpi2");
  assert.equal(withValue(text, rate, overhead, "38"), "bottleneck: rate 50Mbit overhead 38 queue dualpi2");
  assert.equal(withValue(withValue(text, rate, shaper, true), rate, shaper, false), text);
  assert.equal(withValue("rate", rate, value, "5Mbit"), "rate 5Mbit");
});

test("a parameter of the queue is set within the queue's words", () => {
  const flows = codel.parameters[0] as Parameter;
  const noecn = codel.parameters[1] as Parameter;
  const set = (text: string, p: Parameter, value: string) => withinQueue(text, rate, (queue) => withValue(queue, codel, p, value));
  assert.equal(set("rate 5Mbit queue fq_codel flows 1", flows, "8"), "rate 5Mbit queue fq_codel flows 8");
  assert.equal(set("rate 5Mbit queue fq_codel flows 1", noecn, "noecn"), "rate 5Mbit queue fq_codel flows 1 noecn");
});

test("fresh names count on from the number that is there", () => {
  assert.equal(fresh("host-1", []), "host-1");
  assert.equal(fresh("host-1", ["host-1", "host-2"]), "host-3");
  assert.equal(fresh("access", ["access"]), "access-2");
});

test("a difference is the one replacement that leads from text to text", () => {
  for (const [from, to] of [["abc", "abc"], ["abc", "axc"], ["aa", "aaa"], ["aaa", "aa"], ["", "x"], ["x", ""], ["rate 50Mbit", "rate 5Mbit"]] as const) {
    const found = difference(from, to);
    if (from === to) assert.equal(found, null);
    else assert.equal(from.slice(0, found?.from) + found?.insert + from.slice(found?.to), to);
  }
});
