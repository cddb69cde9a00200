// Where nodes and links stand: computed by dagre, moved by hand. Positions are of centres.
import { Graph as Dagre, layout as run } from "@dagrejs/dagre";
import { isBox } from "./words";
import type { Graph, GraphElement, GraphLink, Point } from "./api";

export interface Box extends Point { w: number; h: number }
export interface Chip { element: GraphElement; direction: "up" | "down"; index: number; key: string; w: number; h: number; queue: boolean; box: boolean }
export interface LinkBox { link: GraphLink; up: Chip[]; down: Chip[]; w: number; h: number; upH: number; downH: number }
export interface Placed { nodes: Map<string, Box>; links: Map<string, Point>; boxes: Map<string, LinkBox>; compact: boolean }

/** From so many links on, a link is a line and not a box with its elements. */
export const MANY_LINKS = 24;
/** Width of a character of a chip's words, of its name and of a node's name. */
const WORD = 6.1, NAME = 6.9, TITLE = 7.7;
const GAP = 18, LANE_GAP = 6;

const isQueue = (element: GraphElement) => /(^|\s)(queue|rate|wifi|switch|cell)(\s|$)/.test(` ${element.text} `);

/** The name of an element within its link. */
export function own(element: GraphElement): string {
  return element.name || element.entity?.split("/").pop() || element.kind || element.text.split(" ")[0] || "";
}

/** The words of an element without its own name, in at most two lines. */
export function lines(element: GraphElement, most = 26): string[] {
  const words = element.text.replace(/^\s*[^\s:()]+:\s+/, "");
  const out: string[] = [""];
  for (const word of words.split(/\s+/)) {
    const last = out.length - 1;
    const line = out[last] ?? "";
    if (line && line.length + 1 + word.length > most) out.push(word);
    else out[last] = line ? `${line} ${word}` : word;
  }
  const clip = (line: string) => line.length > most ? `${line.slice(0, most - 1)}…` : line;
  return out.length > 2 ? [clip(out[0] ?? ""), clip(`${out[1]} …`)] : out.map(clip);
}

function chip(link: GraphLink, direction: "up" | "down", element: GraphElement, index: number): Chip {
  const [queue, box] = [isQueue(element), isBox(element)];
  const text = lines(element);
  const w = Math.max(64, own(element).length * NAME + 18, ...text.map((line) => line.length * WORD + 16), queue || box ? 132 : 0);
  const h = 22 + 13 * text.length + (queue || box ? 17 : 0);
  return { element, direction, index, key: element.entity ?? `link/${link.name}/${direction}/${own(element)}`, w, h, queue, box };
}

export function linkBox(link: GraphLink): LinkBox {
  const lane = (direction: "up" | "down") => link[direction].map((element, index) => chip(link, direction, element, index));
  const [up, down] = [lane("up"), lane("down")];
  const width = (chips: Chip[]) => chips.reduce((sum, { w }) => sum + w + GAP, GAP);
  const height = (chips: Chip[]) => chips.reduce((most, { h }) => Math.max(most, h), 16);
  const [upH, downH] = [height(up), height(down)];
  return { link, up, down, upH, downH, w: Math.max(width(up), width(down), link.name.length * NAME + 30, 60), h: upH + downH + LANE_GAP + 34 };
}

/** Least distance between the box of a link and a node at its end. */
const DISTANCE = 12;

/** Where a link's box is to stand that would lie on one of its ends: above or below both, whichever is nearer. */
export function besides(at: Point, box: { w: number; h: number }, ends: Box[]): Point {
  const on = (y: number) => ends.some((end) => Math.abs(end.x - at.x) < (end.w + box.w) / 2 && Math.abs(end.y - y) < (end.h + box.h) / 2 + DISTANCE);
  if (!on(at.y)) return at;
  const free = ends.flatMap((end) => [-1, 1].map((way) => end.y + way * ((end.h + box.h) / 2 + DISTANCE))).filter((y) => !on(y));
  return { x: at.x, y: free.sort((a, b) => Math.abs(a - at.y) - Math.abs(b - at.y))[0] ?? at.y };
}

/** Places of the chips of a lane within a box of width `w`, in the order of travel from the left or from the right. */
export function laneOf(chips: Chip[], w: number, fromLeft: boolean): { chip: Chip; x: number }[] {
  const order = fromLeft ? chips : [...chips].reverse();
  const room = w - chips.reduce((sum, chip) => sum + chip.w, 0);
  const gap = room / (chips.length + 1);
  let x = -w / 2;
  return order.map((chip) => { const at = x + gap; x = at + chip.w; return { chip, x: at }; });
}

/** Room of a leaf on the outermost ring of a tree, and least distance of rings; the page is wider than high. */
const LEAF = 40, RING = 70, WIDER = 1.55;

/** Places a large tree in rings around its middle; null if the graph is none. Layers would make it one long column. */
function rings(graph: Graph): Map<string, Point> | null {
  const near = new Map<string, string[]>(graph.nodes.map(({ name }) => [name, []]));
  for (const { ends: [a, b] } of graph.links) { near.get(a)?.push(b); near.get(b)?.push(a); }
  if (graph.links.length !== graph.nodes.length - 1) return null;
  // The middle is what remains when leaves are taken off, ring by ring.
  const degree = new Map([...near].map(([name, others]) => [name, others.length]));
  let leaves = [...degree].filter(([, count]) => count <= 1).map(([name]) => name);
  let left = graph.nodes.length;
  while (left > 2 && leaves.length) {
    left -= leaves.length;
    const next: string[] = [];
    for (const leaf of leaves) for (const other of near.get(leaf) ?? []) {
      const count = (degree.get(other) ?? 0) - 1;
      degree.set(other, count);
      if (count === 1) next.push(other);
    }
    leaves = next;
  }
  const root = leaves[0] ?? graph.nodes[0]?.name;
  if (root === undefined) return null;
  const order: { name: string; from: string | null; depth: number }[] = [{ name: root, from: null, depth: 0 }];
  const seen = new Set([root]);
  for (const { name, depth } of order) for (const other of near.get(name) ?? []) {
    if (seen.has(other)) continue;
    seen.add(other);
    order.push({ name: other, from: name, depth: depth + 1 });
  }
  if (seen.size !== graph.nodes.length) return null;
  const weight = new Map<string, number>();
  for (const { name, from } of [...order].reverse()) {
    const own = weight.get(name) ?? 1;
    weight.set(name, own);
    if (from !== null) weight.set(from, (weight.get(from) ?? 0) + own);
  }
  const depth = order[order.length - 1]?.depth ?? 1;
  const ring = Math.max(RING, (weight.get(root) ?? 1) * LEAF / (2 * Math.PI) / Math.max(1, depth));
  const start = new Map([[root, 0]]);
  const out = new Map<string, Point>();
  for (const one of order) {
    const from = start.get(one.name) ?? 0;
    const angle = 2 * Math.PI * (from + (weight.get(one.name) ?? 1) / 2) / (weight.get(root) ?? 1);
    out.set(one.name, { x: Math.round(Math.cos(angle) * ring * one.depth * WIDER), y: Math.round(Math.sin(angle) * ring * one.depth) });
    let next = from;
    for (const other of near.get(one.name) ?? []) if (other !== one.from) { start.set(other, next); next += weight.get(other) ?? 1; }
  }
  return out;
}

/** Places everything. */
export function place(graph: Graph, narrow: boolean): Placed {
  const compact = graph.links.length > MANY_LINKS || graph.nodes.length > 2 * MANY_LINKS;
  const dagre = new Dagre({ multigraph: true });
  dagre.setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: compact ? 14 : 34, ranksep: compact ? 46 : 44, edgesep: 14, marginx: 16, marginy: 16 });
  dagre.setDefaultEdgeLabel(() => ({}));
  const names = new Set(graph.nodes.map(({ name }) => name));
  for (const node of graph.nodes) {
    const apps = Math.max(0, ...node.apps.map((app) => app.length));
    dagre.setNode(node.name, {
      width: Math.max(compact ? 60 : 92, node.name.length * TITLE + 24, compact ? 0 : Math.min(apps, 20) * WORD + 20), height: compact ? 28 : 48,
    });
  }
  const boxes = new Map<string, LinkBox>();
  for (const link of graph.links) {
    if (!names.has(link.ends[0]) || !names.has(link.ends[1])) continue;
    const box = linkBox(link);
    boxes.set(link.name, box);
    dagre.setEdge(link.ends[0], link.ends[1], compact ? {} : { width: box.w, height: box.h, labelpos: "c" }, link.name);
  }
  const tree = compact ? rings(graph) : null;
  if (!tree) run(dagre);
  const nodes = new Map<string, Box>();
  for (const name of dagre.nodes()) {
    const at = dagre.node(name) as { x: number; y: number; width: number; height: number };
    nodes.set(name, { ...(tree?.get(name) ?? { x: at.x, y: at.y }), w: at.width, h: at.height });
  }
  const links = new Map<string, Point>();
  for (const [name, { link }] of boxes) {
    const at = dagre.edge(link.ends[0], link.ends[1], name) as { x?: number; y?: number } | undefined;
    const [a, b] = [nodes.get(link.ends[0]), nodes.get(link.ends[1])];
    if (!a || !b) continue;
    links.set(name, compact || at?.x === undefined || at.y === undefined ? { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 } : { x: at.x, y: at.y });
  }
  return { nodes, links, boxes, compact };
}
