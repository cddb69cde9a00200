// The drawing of a scenario: what is selected, moved, found, zoomed. It changes nothing itself: what is to happen to
// the text is asked of the document.
import type { Finding, Graph, Point } from "./api";
import { hitWords, type Hits } from "./boxes";
import { h, s, set } from "./dom";
import { besides, place, type Placed } from "./layout";
import { linkShape, moveLink, moveNode, nodeShape, showChip, showHits, showLoad, type ChipShape, type LinkShape, type NodeShape } from "./shapes";

export interface DrawingEvents {
  selected: (key: string | null) => void;
  opened: (key: string) => void;
  moved: (to: Record<string, Point>, from: Record<string, Point>) => void;
  connect: (from: string, to: string) => void;
  remove: (key: string) => void;
  copy: (key: string) => void;
  paste: () => void;
}

const STEP = 10;

export class Drawing {
  readonly host: HTMLElement;
  private readonly svg: SVGSVGElement;
  private readonly scene = s("g");
  private readonly threads = s("g", { class: "threads" });
  private readonly things = s("g");
  private readonly rubber = s("path", { class: "rubber" });
  private placed: Placed | null = null;
  private graph: Graph | null = null;
  private nodes = new Map<string, NodeShape>();
  private links = new Map<string, LinkShape>();
  private chips = new Map<string, ChipShape>();
  private byNode = new Map<string, LinkShape[]>();
  private positions: Record<string, Point> = {};
  private view = { x: 0, y: 0, k: 1 };
  private focusKey: string | null = null;
  private touched = false;
  private most = new Map<string, number>();
  selection: string | null = null;

  constructor(private readonly events: DrawingEvents) {
    this.svg = s("svg", { class: "canvas", role: "group", "aria-label": "Drawing of the scenario" },
      s("defs", {}, s("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" },
        s("path", { class: "tip", d: "M0 0L8 4L0 8z" }))), this.scene);
    this.scene.append(this.threads, this.things, this.rubber);
    this.host = h("div", { class: "drawing" }, this.svg);
    this.pointers();
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("focusin", (event) => {
      const key = keyOf(event.target);
      if (!key) return;
      this.rove(key);
      if (key !== this.selection) { this.selection = key; this.mark(); this.events.selected(key); }
    });
    new ResizeObserver(() => {
      if (this.touched) return;
      const narrow = this.isNarrow();
      if (this.graph && narrow !== this.wasNarrow) this.show(this.graph, this.positions);
      else this.fit();
    }).observe(this.host);
  }
  private wasNarrow = false;
  private isNarrow(): boolean { return this.host.clientWidth > 0 && this.host.clientWidth < 560; }

  /** Draws a graph. Positions moved by hand override computed ones. */
  show(graph: Graph, positions: Record<string, Point>): void {
    const began = performance.now();
    const first = this.graph === null || this.graph.nodes.length === 0;
    const held = this.svg.contains(document.activeElement) ? keyOf(document.activeElement) : null;
    this.graph = graph;
    this.positions = positions;
    this.wasNarrow = this.isNarrow();
    this.placed = place(graph, this.wasNarrow);
    const { compact } = this.placed;
    this.nodes = new Map();
    this.links = new Map();
    this.chips = new Map();
    this.byNode = new Map(graph.nodes.map(({ name }) => [name, []]));
    const wires: Node[] = [];
    const things: Node[] = [];
    for (const node of graph.nodes) {
      const at = this.placed.nodes.get(node.name);
      if (at) this.nodes.set(node.name, nodeShape(node, { ...at, ...positions[node.name] }, compact));
    }
    for (const [name, box] of this.placed.boxes) {
      const [a, b] = [this.nodes.get(box.link.ends[0]), this.nodes.get(box.link.ends[1])];
      if (!a || !b) continue;
      const shape = linkShape(box, a, b, this.linkAt(name, a, b), compact);
      this.links.set(name, shape);
      this.byNode.get(a.node.name)?.push(shape);
      if (a !== b) this.byNode.get(b.node.name)?.push(shape);
      for (const chip of shape.chips) this.chips.set(chip.chip.key, chip);
      if (!compact) wires.push(...shape.wires.up, ...shape.wires.down);
      things.push(shape.root);
    }
    this.threads.replaceChildren(...wires);
    this.things.replaceChildren(...things, ...[...this.nodes.values()].map(({ group }) => group));
    for (const shape of this.links.values()) for (const direction of ["up", "down"] as const) set(shape.wires[direction][1], "marker-end", "url(#tip)");
    if (this.selection && !this.element(this.selection)) { this.selection = null; this.events.selected(null); }
    this.rove(held ?? this.focusKey ?? this.keys()[0] ?? "");
    this.mark();
    if (held) this.element(held)?.focus();
    if (first || !this.touched) this.fit();
    performance.measure("layout", { start: began });
    if (performance.getEntriesByName("layout").length > 20) performance.clearMeasures("layout");
  }

  /** Takes all positions as they were or are to be: undone, redone, read from the server. */
  setPositions(places: Record<string, Point>): void {
    this.positions = places;
    if (this.graph) this.show(this.graph, this.positions);
  }

  private linkAt(name: string, a: NodeShape, b: NodeShape): Point {
    const own = this.positions[`link/${name}`];
    const auto = this.placed?.links.get(name) ?? { x: 0, y: 0 };
    if (this.placed?.compact) return own ?? { x: (a.at.x + b.at.x) / 2, y: (a.at.y + b.at.y) / 2 };
    const box = this.placed?.boxes.get(name);
    if (own) return box ? besides(own, box, [a.at, b.at]) : own;
    const [a0, b0] = [this.placed?.nodes.get(a.node.name) ?? a.at, this.placed?.nodes.get(b.node.name) ?? b.at];
    const at = { x: auto.x + (a.at.x - a0.x + b.at.x - b0.x) / 2, y: auto.y + (a.at.y - a0.y + b.at.y - b0.y) / 2 };
    return box ? besides(at, box, [a.at, b.at]) : at;
  }

  /** Moves one thing on the screen alone. */
  private drag(key: string, to: Point): void {
    if (key.startsWith("link/")) {
      const shape = this.links.get(key.slice(5));
      if (!shape || shape.line) return;
      this.positions = { ...this.positions, [key]: to };
      shape.at = this.linkAt(key.slice(5), shape.a, shape.b);
      moveLink(shape);
      return;
    }
    const shape = this.nodes.get(key.slice(5));
    if (!shape) return;
    this.positions = { ...this.positions, [shape.node.name]: to };
    shape.at = { ...shape.at, ...to };
    moveNode(shape);
    for (const link of this.byNode.get(shape.node.name) ?? []) {
      link.at = this.linkAt(link.box.link.name, link.a, link.b);
      moveLink(link);
    }
  }

  private at(key: string): Point | null {
    if (key.startsWith("link/")) return this.links.get(key.slice(5))?.at ?? null;
    return this.nodes.get(key.slice(5))?.at ?? null;
  }
  /** The name under which the layout keeps a thing's place. */
  private static stored(key: string): string { return key.startsWith("host/") ? key.slice(5) : key; }

  private keys(): string[] { return [...[...this.nodes.keys()].map((name) => `host/${name}`), ...[...this.links.keys()].map((name) => `link/${name}`), ...this.chips.keys()]; }
  private element(key: string): SVGGElement | null {
    return this.nodes.get(key.replace(/^host\//, ""))?.group ?? this.chips.get(key)?.group ?? (key.startsWith("link/") ? this.links.get(key.slice(5))?.group ?? null : null);
  }

  /** The one thing that Tab comes to. */
  private rove(key: string): void {
    if (this.focusKey) this.element(this.focusKey)?.setAttribute("tabindex", "-1");
    const now = this.element(key) ? key : this.keys()[0] ?? null;
    this.focusKey = now;
    if (now) this.element(now)?.setAttribute("tabindex", "0");
  }

  select(key: string | null, focus = false): void {
    this.selection = key;
    this.mark();
    if (key && focus) { this.reveal(key); this.element(key)?.focus(); }
    this.events.selected(key);
  }

  private mark(): void {
    for (const chosen of this.things.querySelectorAll(".chosen")) chosen.classList.remove("chosen");
    if (this.selection) this.element(this.selection)?.classList.add("chosen");
  }

  /** Marks what findings are about. */
  findings(list: Finding[]): void {
    for (const marked of this.things.querySelectorAll(".wrong, .noted")) marked.classList.remove("wrong", "noted");
    for (const { entity, severity } of list) {
      if (!entity) continue;
      const link = /^link\/[^/]+/.exec(entity)?.[0] ?? "";
      (this.element(entity) ?? this.element(link))?.classList.add(severity === "error" ? "wrong" : "noted");
    }
  }

  /** Marks the nodes that a flow begins and ends at. */
  flow(ends: string[]): void {
    for (const [name, { group }] of this.nodes) group.classList.toggle("end", ends.includes(name));
  }

  /** Marks names that hold `words`; the keys found, in the order of the drawing. */
  find(words: string): string[] {
    const wanted = words.trim().toLowerCase();
    const found = wanted ? this.keys().filter((key) => key.toLowerCase().includes(wanted) || (this.chips.get(key)?.chip.element.text.toLowerCase().includes(wanted) ?? false)) : [];
    const all = new Set(found);
    this.svg.classList.toggle("searching", Boolean(wanted));
    for (const key of this.keys()) this.element(key)?.classList.toggle("found", all.has(key));
    return found;
  }

  /** What a sample says of elements and links, and what rules hit so far. */
  samples(values: Record<string, Record<string, number>>, hits: Hits): void {
    for (const [key, shape] of this.chips) {
      if (shape.chip.box) { showHits(shape, hitWords(hits.of(key))); continue; }
      const value = values[key];
      if (!value) continue;
      const backlog = value["backlog_bytes"] ?? 0;
      const most = Math.max(this.most.get(key) ?? 3000, backlog);
      this.most.set(key, most);
      showChip(shape, value, most);
    }
    for (const shape of this.links.values()) {
      let any: number | undefined;
      for (const direction of ["up", "down"] as const) {
        const loads = shape.box[direction].map(({ key }) => values[key]?.["load"]).filter((load) => load !== undefined);
        const load = loads.length ? Math.max(...loads) : undefined;
        if (load !== undefined) any = Math.max(any ?? 0, load);
        if (load !== undefined && !shape.line) showLoad(shape.wires[direction], load);
      }
      if (shape.line && any !== undefined) showLoad([shape.line], any);
    }
  }

  /** Forgets the latest run. */
  clear(): void {
    this.most.clear();
    for (const shape of this.chips.values()) showChip(shape, undefined, 0);
    for (const shape of this.links.values()) showLoad([...shape.wires.up, ...shape.wires.down, ...(shape.line ? [shape.line] : [])], undefined);
  }

  // The view: pan, zoom, fit.

  private apply(): void { if (!this.svg.hasAttribute("viewBox")) set(this.scene, "transform", `translate(${this.view.x} ${this.view.y}) scale(${this.view.k})`); }

  private bounds(): { x: number; y: number; w: number; h: number } | null {
    let [x1, y1, x2, y2] = [Infinity, Infinity, -Infinity, -Infinity];
    const add = (p: Point, w: number, h: number) => {
      x1 = Math.min(x1, p.x - w / 2); x2 = Math.max(x2, p.x + w / 2);
      y1 = Math.min(y1, p.y - h / 2); y2 = Math.max(y2, p.y + h / 2);
    };
    for (const { at } of this.nodes.values()) add(at, at.w, at.h);
    for (const shape of this.links.values()) if (!shape.line) add(shape.at, shape.box.w + 30, shape.box.h);
    return x1 > x2 ? null : { x: x1, y: y1, w: x2 - x1, h: y2 - y1 };
  }

  /** Shows everything, at most at its natural size and a quarter. */
  fit(): void {
    const bounds = this.bounds();
    const [w, height] = [this.host.clientWidth, this.host.clientHeight];
    if (!bounds || !w || !height) return;
    const margin = 18;
    const k = Math.min(1.25, (w - 2 * margin) / bounds.w, (height - 2 * margin) / bounds.h);
    this.view = { k, x: (w - bounds.w * k) / 2 - bounds.x * k, y: (height - bounds.h * k) / 2 - bounds.y * k };
    this.touched = false;
    this.apply();
  }

  /** On paper everything is shown, as wide as the page. */
  paper(printed: boolean): void {
    const bounds = printed ? this.bounds() : null;
    if (!bounds) { this.svg.removeAttribute("viewBox"); this.apply(); return; }
    const margin = 12;
    set(this.svg, "viewBox", `${bounds.x - margin} ${bounds.y - margin} ${bounds.w + 2 * margin} ${bounds.h + 2 * margin}`);
    this.scene.removeAttribute("transform");
  }

  zoom(factor: number, at: Point = { x: this.host.clientWidth / 2, y: this.host.clientHeight / 2 }): void {
    const k = Math.min(4, Math.max(0.05, this.view.k * factor));
    const by = k / this.view.k;
    this.view = { k, x: at.x - (at.x - this.view.x) * by, y: at.y - (at.y - this.view.y) * by };
    this.touched = true;
    this.apply();
  }

  pan(dx: number, dy: number): void {
    this.view.x += dx;
    this.view.y += dy;
    this.touched = true;
    this.apply();
  }

  /** Brings a thing into view, large enough to be read. */
  reveal(key: string): void {
    const element = this.element(key);
    if (!element) return;
    const [box, frame] = [element.getBoundingClientRect(), this.host.getBoundingClientRect()];
    if (box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom) return;
    this.pan(frame.left + frame.width / 2 - box.left - box.width / 2, frame.top + frame.height / 2 - box.top - box.height / 2);
  }

  private world(event: { clientX: number; clientY: number }): Point {
    const frame = this.host.getBoundingClientRect();
    return { x: (event.clientX - frame.left - this.view.x) / this.view.k, y: (event.clientY - frame.top - this.view.y) / this.view.k };
  }

  private pointers(): void {
    type Hold = { kind: "pan" | "move" | "connect"; key: string; start: Point; from: Point; last: Point; went: boolean };
    let hold: Hold | null = null;
    let frame = 0;
    let next: Point | null = null;
    const fingers = new Map<number, { clientX: number; clientY: number }>();
    let spread = 0;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button > 1) return;
      fingers.set(event.pointerId, { clientX: event.clientX, clientY: event.clientY });
      if (fingers.size === 2) { hold = null; spread = distance(fingers); return; }
      const grip = (event.target as Element).closest("[data-grip]")?.getAttribute("data-grip");
      let key = keyOf(event.target);
      const start = this.world(event);
      const last = { x: event.clientX, y: event.clientY };
      if (key) { this.select(key); this.rove(key); this.element(key)?.focus({ preventScroll: true }); } else if (document.activeElement instanceof SVGElement) document.activeElement.blur();
      // An element moves with its link.
      if (key && this.chips.has(key)) key = `link/${this.linkOf(key)}`;
      const kind = grip ? "connect" : key && event.button === 0 && this.at(key) ? "move" : "pan";
      hold = { kind, key: grip ? `host/${grip}` : key ?? "", start, from: (key && this.at(key)) || { x: 0, y: 0 }, last, went: false };
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (fingers.has(event.pointerId)) fingers.set(event.pointerId, { clientX: event.clientX, clientY: event.clientY });
      if (fingers.size === 2) {
        const now = distance(fingers);
        const box = this.host.getBoundingClientRect();
        const [one, two] = [...fingers.values()];
        if (one && two && spread > 0) this.zoom(now / spread, { x: (one.clientX + two.clientX) / 2 - box.left, y: (one.clientY + two.clientY) / 2 - box.top });
        spread = now;
        return;
      }
      if (!hold) return;
      if (!hold.went && Math.hypot(event.clientX - hold.last.x, event.clientY - hold.last.y) < 4) return;
      hold.went = true;
      if (hold.kind === "pan") {
        this.pan(event.clientX - hold.last.x, event.clientY - hold.last.y);
        hold.last = { x: event.clientX, y: event.clientY };
        return;
      }
      next = this.world(event);
      if (frame) return;
      frame = requestAnimationFrame(() => {
        frame = 0;
        if (!hold || !next) return;
        if (hold.kind === "connect") {
          const from = this.at(hold.key);
          if (from) set(this.rubber, "d", `M${from.x} ${from.y}L${next.x} ${next.y}`);
        } else {
          this.touched = true;
          this.drag(hold.key, { x: Math.round(hold.from.x + next.x - hold.start.x), y: Math.round(hold.from.y + next.y - hold.start.y) });
        }
      });
    });
    const end = (event: PointerEvent) => {
      fingers.delete(event.pointerId);
      const done = hold;
      hold = null;
      next = null;
      set(this.rubber, "d", "");
      if (!done?.went) {
        if (done?.kind === "pan" && !done.key) this.select(null);
        return;
      }
      if (done.kind === "move") {
        const to = this.at(done.key);
        const name = Drawing.stored(done.key);
        if (to) this.events.moved({ [name]: { x: to.x, y: to.y } }, { [name]: { x: done.from.x, y: done.from.y } });
      } else if (done.kind === "connect") {
        const target = keyOf(document.elementFromPoint(event.clientX, event.clientY));
        if (target?.startsWith("host/") && target !== done.key) this.events.connect(done.key.slice(5), target.slice(5));
      }
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
    this.svg.addEventListener("dblclick", (event) => { const key = keyOf(event.target); if (key) this.events.opened(key); });
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = this.host.getBoundingClientRect();
      if (event.ctrlKey || event.metaKey || !event.shiftKey) this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), { x: event.clientX - box.left, y: event.clientY - box.top });
      else this.pan(-event.deltaY, 0);
    }, { passive: false });
  }

  private linkOf(chip: string): string {
    for (const [name, shape] of this.links) if (shape.chips.some((one) => one.chip.key === chip)) return name;
    return "";
  }

  private key(event: KeyboardEvent): void {
    const key = keyOf(event.target);
    const arrows: Record<string, Point> = { ArrowLeft: { x: -1, y: 0 }, ArrowRight: { x: 1, y: 0 }, ArrowUp: { x: 0, y: -1 }, ArrowDown: { x: 0, y: 1 } };
    const way = arrows[event.key];
    const command = event.ctrlKey || event.metaKey;
    if (command && !["c", "v"].includes(event.key)) return;
    if (way && key && event.shiftKey) {
      const from = this.at(key);
      if (from) {
        const to = { x: from.x + way.x * STEP, y: from.y + way.y * STEP };
        this.drag(key, to);
        const name = Drawing.stored(key);
        this.events.moved({ [name]: to }, { [name]: { x: from.x, y: from.y } });
      }
    } else if (way && event.altKey) this.pan(-way.x * 60, -way.y * 60);
    else if (way && key) this.neighbour(key, way);
    else if (event.key === "Enter" && key) this.events.opened(key);
    else if ((event.key === "Delete" || event.key === "Backspace") && key) this.events.remove(key);
    else if (event.key === "Escape") this.select(null);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else if (command && event.key === "c" && key) this.events.copy(key);
    else if (command && event.key === "v") this.events.paste();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Goes to the nearest thing that way. */
  private neighbour(key: string, way: Point): void {
    const centre = (one: string) => {
      const box = this.element(one)?.querySelector(".body, .wire")?.getBoundingClientRect();
      return box ? { x: box.left + box.width / 2, y: box.top + box.height / 2 } : null;
    };
    const from = centre(key);
    if (!from) return;
    let best: { key: string; cost: number } | null = null;
    for (const other of this.keys()) {
      if (other === key) continue;
      const to = centre(other);
      if (!to) continue;
      const along = (to.x - from.x) * way.x + (to.y - from.y) * way.y;
      const aside = Math.abs((to.x - from.x) * way.y) + Math.abs((to.y - from.y) * way.x);
      if (along <= 2) continue;
      const cost = along + 2.5 * aside;
      if (!best || cost < best.cost) best = { key: other, cost };
    }
    if (best) { this.reveal(best.key); this.element(best.key)?.focus(); }
  }

  focus(): void { (this.focusKey ? this.element(this.focusKey) : null)?.focus(); }
}

function keyOf(target: EventTarget | null): string | null {
  return target instanceof Element ? target.closest("[data-key]")?.getAttribute("data-key") ?? null : null;
}

function distance(fingers: Map<number, { clientX: number; clientY: number }>): number {
  const [one, two] = [...fingers.values()];
  return one && two ? Math.hypot(one.clientX - two.clientX, one.clientY - two.clientY) : 0;
}
