import assert from "node:assert/strict";
import { test } from "node:test";
import type { Graph, GraphLink } from "../../src/api";
import { besides, lines, place } from "../../src/layout";

const link = (name: string, a: string, b: string, up: string[] = []): GraphLink => ({
  name, ends: [a, b], line: 1, down: [],
  up: up.map((text, index) => ({ text, kind: text.split(" ")[0] ?? "", line: 1, entity: `link/${name}/up/${index}` })),
});
const graph = (links: GraphLink[]): Graph => ({
  links, flows: [], others: [],
  nodes: [...new Set(links.flatMap(({ ends }) => ends))].map((name) => ({ name, kind: "host", line: 1, apps: [] })),
});
const overlap = (boxes: { x: number; y: number; w: number; h: number }[]) => boxes.some((a, i) => boxes.slice(i + 1).some((b) =>
  Math.abs(a.x - b.x) < (a.w + b.w) / 2 - 1 && Math.abs(a.y - b.y) < (a.h + b.h) / 2 - 1));

test("a link with its elements stands between its ends and covers none of them", () => {
  const drawn = graph([link("access", "client", "server", ["netem delay 10ms", "rate 50Mbit queue dualpi2"])]);
  for (const narrow of [false, true]) {
    const placed = place(drawn, narrow);
    const box = placed.boxes.get("access");
    const at = placed.links.get("access");
    assert.ok(box && at && !placed.compact);
    assert.ok(!overlap([...placed.nodes.values(), { ...at, w: box.w, h: box.h }]), `narrow: ${narrow}`);
  }
});

test("the box of a link stands above or below an end that it would lie on", () => {
  const node = (x: number, y: number) => ({ x, y, w: 90, h: 48 });
  const box = { w: 200, h: 100 };
  for (const at of [{ x: 0, y: 0 }, { x: 10, y: 20 }, { x: -10, y: -20 }]) {
    for (const ends of [[node(-60, 0), node(60, 0)], [node(-60, 0), node(60, 90)], [node(0, 0), node(0, 120)]]) {
      const free = besides(at, box, ends);
      assert.ok(!ends.some((end) => overlap([end, { ...free, ...box }])), JSON.stringify({ at, free }));
    }
  }
  assert.deepEqual(besides({ x: 0, y: 0 }, box, [node(-300, 0), node(300, 0)]), { x: 0, y: 0 });
});

test("two links between the same ends are both placed, apart", () => {
  const placed = place(graph([link("one", "a", "b", ["rate 1Mbit"]), link("two", "a", "b", ["rate 2Mbit"])]), false);
  const [one, two] = [placed.links.get("one"), placed.links.get("two")];
  assert.ok(one && two && Math.abs(one.y - two.y) > 40);
});

test("a link whose end is missing is left out", () => {
  const half = graph([link("access", "a", "b")]);
  half.nodes.pop();
  assert.equal(place(half, false).boxes.size, 0);
});

test("large trees and large meshes are placed without a node on another", () => {
  const tree = graph(Array.from({ length: 199 }, (_, i) => link(`l${i}`, `n${Math.floor(i / 4)}`, `n${i + 1}`)));
  const mesh = graph([...tree.links, link("back", "n0", "n150"), link("across", "n7", "n190")]);
  for (const drawn of [tree, mesh]) {
    const placed = place(drawn, false);
    assert.ok(placed.compact);
    assert.equal(placed.nodes.size, 200);
    const centres = new Set([...placed.nodes.values()].map(({ x, y }) => `${Math.round(x)} ${Math.round(y)}`));
    assert.equal(centres.size, 200);
  }
});

test("words of an element take at most two lines", () => {
  const shown = lines({ text: "bottleneck: rate 50Mbit overhead 38 queue fq_codel flows 1 target 1ms interval 20ms", kind: "rate", line: 1 });
  assert.equal(shown.length, 2);
  assert.ok(shown.every((line) => line.length <= 28));
  assert.ok(shown[0]?.startsWith("rate 50Mbit"));
});
