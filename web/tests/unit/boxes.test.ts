import assert from "node:assert/strict";
import { test } from "node:test";
import { boxName, commands, Hits, hitWords, isRule, written } from "../../src/boxes";
import type { GraphElement } from "../../src/api";

const element = (text: string): GraphElement => ({ text, kind: "mmb", line: 1 });

test("rules that stay are left alone by the commands that make one list of another", () => {
  assert.equal(commands(["a", "b", "c"], ["a", "b", "c"]), "");
  assert.equal(commands(["a", "b", "c"], ["a", "x", "c"]), "del 2; insert 2 x");
  assert.equal(commands(["a", "b", "c"], ["a"]), "del 3; del 2");
  assert.equal(commands(["a"], ["a", "b", "c"]), "b; c");
  assert.equal(commands(["a"], ["b", "c", "a"]), "insert 1 b; insert 2 c");
  assert.equal(commands(["a"], ["b"]), "del 1; b");
  assert.equal(commands(["a", "b"], []), "flush");
  assert.equal(commands(["a", "a"], ["a"]), "del 2");
});

/** What the commands come to, as a box applies them. */
function applied(before: string[], words: string): string[] {
  const rules = [...before];
  for (const command of words.split("; ").filter(Boolean)) {
    const [word, number, ...rest] = command.split(" ");
    if (word === "flush") rules.length = 0;
    else if (word === "del") rules.splice(Number(number) - 1, 1);
    else if (word === "insert") rules.splice(Number(number) - 1, 0, rest.join(" "));
    else rules.push(command);
  }
  return rules;
}

test("the commands come to the rules that were asked for, whatever was there", () => {
  let state = 7;
  const below = (n: number) => { state = (state * 1103515245 + 12345) % 2147483648; return state % n; };
  const list = () => Array.from({ length: below(6) }, () => "abc"[below(3)] ?? "a");
  for (let turn = 0; turn < 2000; turn += 1) {
    const [before, after] = [list(), list()];
    assert.deepEqual(applied(before, commands(before, after)), after, `${before} to ${after}`);
  }
});

test("hits are kept by rule, and a box of both directions is found by either", () => {
  const hits = new Hits();
  hits.take({ "link/a/fw": { rule_1_packets: 1200, rule_1_dropped: 3, load: 1 }, "flow/x": { rtt_ms: 1 } });
  hits.take({ "link/a/fw": { rule_2_packets: 5, rule_2_dropped: 0 } });
  assert.deepEqual(hits.of("link/a/down/fw")?.get(1), { packets: 1200, dropped: 3 });
  assert.equal(hitWords(hits.of("link/a/up/fw")), "1,205 hits, 3 dropped");
  assert.equal(hits.of("flow/x"), undefined);
  hits.forget("link/a/fw");
  assert.equal(hitWords(hits.of("link/a/fw")), "no hit");
  assert.equal(boxName("link/up/down/up"), "link/up/up");
  assert.deepEqual(["rule_12_packets", "rule_x_packets", "marks"].map(isRule), [true, false, false]);
});

test("rules stand in the words, or are named", () => {
  assert.deepEqual(written(element("fw: mmb add all drop;add tcp-syn accept")), ["add all drop", "add tcp-syn accept"]);
  assert.equal(written(element("mmb ecn-bleach")), null);
});
