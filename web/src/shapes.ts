// The shapes of a drawing: nodes, links with their elements, wires. They are made once for a graph; a move sets
// `transform` and `d` of what moved, a sample sets widths and texts.
import type { GraphNode, Point } from "./api";
import { s, set, say, figure } from "./dom";
import { laneOf, lines, own, type Box, type Chip, type LinkBox } from "./layout";

/** How many packets a queue's picture shows when it is full. */
const SLOTS = 10;

export interface NodeShape { node: GraphNode; group: SVGGElement; at: Box }
export interface ChipShape { chip: Chip; group: SVGGElement; slots: SVGRectElement[]; live: SVGTextElement | null }
export interface LinkShape {
  box: LinkBox; a: NodeShape; b: NodeShape; at: Point; root: SVGGElement; group: SVGGElement; chips: ChipShape[];
  wires: { up: [SVGPathElement, SVGPathElement]; down: [SVGPathElement, SVGPathElement] };
  line: SVGPathElement | null; hit: SVGPathElement | null; inside: SVGGElement; fromLeft: boolean | null;
}

const ruler = document.createElement("canvas").getContext("2d");

/** As much of a text as is no wider than `most`. */
function clip(text: string, most: number, size: number, look: "plain" | "bold" | "mono" = "plain"): string {
  if (!ruler) return text;
  const style = getComputedStyle(document.documentElement);
  const family = look === "mono" ? style.getPropertyValue("--mono") : getComputedStyle(document.body).fontFamily;
  ruler.font = `${look === "bold" ? "600 " : ""}${size}px ${family}`;
  if (ruler.measureText(text).width <= most) return text;
  let length = text.length;
  while (length > 1 && ruler.measureText(`${text.slice(0, length).trimEnd()}…`).width > most) length -= 1;
  return `${text.slice(0, length).trimEnd()}…`;
}

export function nodeShape(node: GraphNode, at: Box, compact: boolean): NodeShape {
  const router = node.kind === "router";
  const words = node.apps.length ? clip(node.apps.join(", "), at.w - 10, 10.5) : router ? "router" : "host";
  const group = s("g", {
    class: `node ${node.kind}`, tabindex: "-1", role: "button", "data-key": `host/${node.name}`,
    "aria-label": `${node.kind} ${node.name}${node.apps.length ? `, with ${node.apps.join(", ")}` : ""}`,
  },
    s("title", {}, `${node.name}: ${node.detail ?? node.kind}${node.apps.length ? `\n${node.apps.join("\n")}` : ""}`),
    s("rect", { class: "body", x: -at.w / 2, y: -at.h / 2, width: at.w, height: at.h, rx: router ? 12 : 4 }),
    s("text", { class: "name", y: compact ? 4 : -3, "text-anchor": "middle" }, clip(node.name, at.w - 10, 13, "bold")),
    compact ? null : s("text", { class: "sub", y: 13, "text-anchor": "middle" }, words),
    s("circle", { class: "grip", cx: at.w / 2, cy: 0, r: 6, "data-grip": node.name }, s("title", {}, "Drag to another node: a link")),
  );
  const shape = { node, group, at };
  moveNode(shape);
  return shape;
}

export function moveNode({ group, at }: NodeShape): void {
  set(group, "transform", `translate(${at.x} ${at.y})`);
}

function chipShape(chip: Chip, link: string): ChipShape {
  const { element, w, h, queue, box } = chip;
  const slots: SVGRectElement[] = [];
  const name = own(element);
  const group = s("g", {
    class: `chip${queue ? " queue" : ""}`, tabindex: "-1", role: "button", "data-key": chip.key,
    "aria-label": `element ${name} of ${link}, ${chip.direction}: ${element.text}`,
  },
    s("title", {}, `${chip.key}: ${element.text}`),
    s("rect", { class: "body", x: 0, y: 0, width: w, height: h, rx: 4 }),
    s("text", { class: "name", x: 8, y: 15 }, clip(name, w - 14, 12, "bold")),
  );
  lines(element).forEach((line, index) => group.append(s("text", { class: "words", x: 8, y: 28 + 13 * index }, clip(line, w - 12, 10, "mono"))));
  let live: SVGTextElement | null = null;
  if (queue) {
    for (let slot = 0; slot < SLOTS; slot += 1) {
      slots.push(s("rect", { class: "slot", x: 8 + 5 * slot, y: h - 14, width: 4, height: 8, rx: 1 }));
    }
    group.append(...slots);
  }
  if (queue || box) {
    live = s("text", { class: "live", x: w - 8, y: h - 6, "text-anchor": "end" });
    group.append(live);
  }
  return { chip, group, slots, live };
}

/** A link: with its elements as a box, or as a line. */
export function linkShape(box: LinkBox, a: NodeShape, b: NodeShape, at: Point, compact: boolean): LinkShape {
  const { link } = box;
  const wire = (direction: "up" | "down") => s("path", { class: `wire ${direction}`, "stroke-width": 1.5 });
  const words = (chips: Chip[]) => chips.map(({ element }) => element.text).join(", then ") || "no element";
  const inside = s("g");
  const group = s("g", {
    class: `link${compact ? " line" : ""}`, tabindex: "-1", role: "button", "data-key": `link/${link.name}`,
    "aria-label": `link ${link.name}: from ${link.ends[0]} to ${link.ends[1]} ${words(box.up)}; back ${words(box.down)}`,
  }, s("title", {}, `link/${link.name}: ${link.ends.join(" – ")}`));
  const shape: LinkShape = {
    // Elements are buttons beside the link's own, not within it.
    box, a, b, at, root: s("g", {}, group, inside), group, chips: [], inside, fromLeft: null, line: null, hit: null,
    wires: { up: [wire("up"), wire("up")], down: [wire("down"), wire("down")] },
  };
  if (compact) {
    shape.line = s("path", { class: "wire", "stroke-width": 1.5 });
    shape.hit = s("path", { class: "hit" });
    group.append(shape.hit, shape.line);
    if (box.up.some(({ queue }) => queue) || box.down.some(({ queue }) => queue)) {
      inside.append(s("rect", { class: "dot", x: -5, y: -4, width: 10, height: 8, rx: 2 }));
    }
  } else {
    group.append(
      s("rect", { class: "body", x: -box.w / 2, y: -box.h / 2, width: box.w, height: box.h, rx: 6 }),
      s("text", { class: "name", x: 0, y: -box.h / 2 + 15, "text-anchor": "middle" }, link.name));
    shape.chips = [...box.up, ...box.down].map((chip) => chipShape(chip, link.name));
  }
  moveLink(shape);
  return shape;
}

/** Where a wire leaves a node on its way to `to`. */
function port(node: Box, to: Point, shift: number): Point & { side: boolean } {
  const [dx, dy] = [to.x - node.x, to.y - node.y];
  if (Math.abs(dx) * node.h >= Math.abs(dy) * node.w * 0.6 && Math.abs(dx) > node.w / 2) {
    return { x: node.x + Math.sign(dx) * node.w / 2, y: node.y + shift, side: true };
  }
  return { x: node.x + shift * 1.6, y: node.y + Math.sign(dy || 1) * node.h / 2, side: false };
}

const curve = (from: Point & { side: boolean }, to: Point & { side: boolean }) => {
  const reach = Math.max(14, Math.hypot(to.x - from.x, to.y - from.y) / 2.4);
  const bend = (p: Point & { side: boolean }, q: Point) => p.side
    ? `${p.x + Math.sign(q.x - p.x || 1) * reach} ${p.y}` : `${p.x} ${p.y + Math.sign(q.y - p.y || 1) * reach}`;
  return `M${from.x} ${from.y}C${bend(from, to)} ${bend(to, from)} ${to.x} ${to.y}`;
};

/** Draws the wires of a link where its ends now are. */
export function moveLink(shape: LinkShape): void {
  const { box, a, b, at, wires } = shape;
  if (shape.line) {
    const d = curve(port(a.at, b.at, 0), port(b.at, a.at, 0));
    set(shape.line, "d", d);
    set(shape.hit as SVGPathElement, "d", d);
    set(shape.inside, "transform", `translate(${at.x} ${at.y})`);
    return;
  }
  set(shape.root, "transform", `translate(${at.x} ${at.y})`);
  const fromLeft = a.at.x <= b.at.x;
  const top = at.y - box.h / 2 + 24;
  const rows = { up: top + box.upH / 2, down: top + box.upH + LANE / 2 + box.downH / 2 };
  if (shape.fromLeft !== fromLeft) {
    shape.fromLeft = fromLeft;
    arrange(shape, rows.up - at.y, rows.down - at.y);
  }
  const [left, right] = [at.x - box.w / 2, at.x + box.w / 2];
  for (const direction of ["up", "down"] as const) {
    const [from, to] = direction === "up" ? [a.at, b.at] : [b.at, a.at];
    const rightward = (direction === "up") === fromLeft;
    const shift = direction === "up" ? -8 : 8;
    const enter = { x: rightward ? left : right, y: rows[direction], side: true };
    const leave = { x: rightward ? right : left, y: rows[direction], side: true };
    // Where an end stands above or below the link, the wire goes around the corner.
    const around = (node: Box, edge: Point) => {
      const side = edge.x < at.x ? -1 : 1;
      const x = edge.x + side * (direction === "up" ? 8 : 14);
      const y = node.y + (direction === "up" ? -7 : 7);
      const r = Math.sign(edge.y - y) * 6;
      const start = node.x + side * node.w / 2;
      return [`M${start} ${y}H${x - side * 6}Q${x} ${y} ${x} ${y + r}V${edge.y - r}Q${x} ${edge.y} ${x - side * 6} ${edge.y}H${edge.x}`,
        `M${edge.x} ${edge.y}H${x - side * 6}Q${x} ${edge.y} ${x} ${edge.y - r}V${y + r}Q${x} ${y} ${x - side * 6} ${y}H${start}`] as const;
    };
    const stacked = (node: Box) => Math.abs(node.y - at.y) > (box.h + node.h) / 2 && Math.abs(node.x - at.x) < (box.w - node.w) / 2;
    if (stacked(from) || stacked(to)) {
      set(wires[direction][0], "d", stacked(from) ? around(from, enter)[0] : curve(port(from, enter, shift), enter));
      set(wires[direction][1], "d", stacked(to) ? around(to, leave)[1] : curve(leave, port(to, leave, shift)));
      continue;
    }
    set(wires[direction][0], "d", curve(port(from, enter, shift), enter));
    set(wires[direction][1], "d", curve(leave, port(to, leave, shift)));
  }
}
const LANE = 12;

/** Places the chips inside a link, and the short wires between them. */
function arrange(shape: LinkShape, upY: number, downY: number): void {
  const { box, inside } = shape;
  inside.replaceChildren();
  for (const [chips, y, left] of [[box.up, upY, shape.fromLeft === true], [box.down, downY, shape.fromLeft !== true]] as const) {
    const placed = laneOf(chips, box.w, left);
    const edges = [-box.w / 2, ...placed.flatMap(({ chip, x }) => [x, x + chip.w]), box.w / 2];
    for (let i = 0; i < edges.length; i += 2) {
      const [x1, x2] = [edges[i] ?? 0, edges[i + 1] ?? 0];
      const tip = left ? x2 : x1;
      inside.append(s("path", { class: "thread", d: `M${x1} ${y}H${x2}` }));
      if (chips.length || i === 0) inside.append(s("path", { class: "tip", d: left ? `M${tip} ${y}l-6 -3.5v7z` : `M${tip} ${y}l6 -3.5v7z` }));
    }
    for (const { chip, x } of placed) {
      const found = shape.chips.find((one) => one.chip === chip);
      if (!found) continue;
      set(found.group, "transform", `translate(${x} ${y - chip.h / 2})`);
      inside.append(found.group);
    }
  }
}

/** What the latest sample says of an element. `most` is the largest backlog so far. */
export function showChip(shape: ChipShape, values: Record<string, number> | undefined, most: number): void {
  const backlog = values?.["backlog_bytes"];
  if (shape.slots.length) {
    const full = backlog === undefined || most <= 0 ? 0 : Math.ceil(SLOTS * backlog / most - 0.02);
    shape.slots.forEach((slot, place) => set(slot, "class", place < full ? "slot full" : "slot"));
  }
  if (!shape.live) return;
  const sojourn = values?.["sojourn_ms"];
  say(shape.live, sojourn !== undefined ? `${figure(sojourn)} ms`
    : backlog !== undefined ? `${figure(backlog / 1000)} kB` : "");
}

/** What the rules of a box hit; nothing before a run. */
export function showHits(shape: ChipShape, words: string): void { if (shape.live) say(shape.live, words); }

/** The width of a wire by its load, 0 to 1. */
export function showLoad(paths: SVGPathElement[], load: number | undefined): void {
  for (const path of paths) {
    set(path, "stroke-width", load === undefined ? "1.5" : (1.5 + 5.5 * Math.min(1, Math.max(0, load))).toFixed(1));
    path.classList.toggle("loaded", load !== undefined && load > 0.01);
  }
}
