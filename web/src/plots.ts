// Plots of a run: one for each quantity, over the run's time, with one legend and one cursor for all.
import uPlot from "uplot";
import type { Graph } from "./api";
import { isRule } from "./boxes";
import { h, put, s, say, figure } from "./dom";
import { Series } from "./series";

interface Quantity { title: string; unit: string; metrics: string[]; scale?: number }

/** What is plotted, in this order; a metric that is none of these has a plot of its own under "more". */
const QUANTITIES: Quantity[] = [
  { title: "Rate", unit: "Mbit/s", metrics: ["goodput_mbit", "throughput_mbit"] },
  { title: "RTT", unit: "ms", metrics: ["rtt_ms"] },
  { title: "cwnd", unit: "segments", metrics: ["cwnd_packets"] },
  { title: "Sojourn time", unit: "ms", metrics: ["sojourn_ms"] },
  { title: "Queue", unit: "kB", metrics: ["backlog_bytes"], scale: 1e-3 },
  { title: "Marks", unit: "packets", metrics: ["marks", "ce_marks"] },
  { title: "Drops", unit: "packets", metrics: ["drops"] },
];
/** Milliseconds between two pictures while a run goes; most of what a page costs is painting. */
export const PICTURE = 400;
/** The same of a run so long that in less time no line grows by a pixel. */
const STILL = 1000;
/** Dashes of flows, as the report pages have them. */
const DASHES: number[][] = [[], [5, 2], [1.5, 1.5], [6, 2, 1.5, 2], [9, 3], [3, 3], [9, 2, 3, 2], [1, 3]];
const FLOWS = 8;

interface Line { name: string; entity: string; metric: string }
interface Plot { quantity: Quantity; figure: HTMLElement; readout: HTMLElement; box: HTMLElement; lines: Line[]; plot: uPlot | null; visible: boolean; width: number; stale: boolean }

export class Plots {
  readonly host = h("div", { class: "plots" });
  readonly legend = h("div", { class: "legend", role: "group", "aria-label": "Series shown" });
  private series = new Series();
  private plots: Plot[] = [];
  private colours = new Map<string, { colour: number; dash: number[] }>();
  private hidden = new Set<string>();
  private more = new Set<string>();
  private readonly moreBox = h("select", { "aria-label": "Plot another quantity", onchange: () => this.addMore() });
  private known = 0;
  private timer = 0;
  private last = 0;
  /** How far the run was in the last picture. */
  private drawn = 0;
  private duration: number | null = null;
  private changes: number[] = [];
  private zoomed = false;
  private readonly dark = matchMedia("(prefers-color-scheme: dark)");
  private readonly seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const plot = this.plots.find(({ figure: box }) => box === entry.target);
      if (plot) { plot.visible = entry.isIntersecting; if (plot.visible) this.later(); }
    }
  });
  private readonly sized = new ResizeObserver(() => { for (const plot of this.plots) this.resize(plot); });

  private readonly end = new AbortController();

  constructor() {
    const { signal } = this.end;
    this.dark.addEventListener("change", () => this.rebuild(), { signal });
    this.sized.observe(this.host);
    // Paper is white: the canvases are drawn again with the colours that they have there.
    addEventListener("beforeprint", () => this.rebuild(true), { signal });
    addEventListener("afterprint", () => this.rebuild(), { signal });
  }

  /** Lets go of all that would keep it. */
  destroy(): void {
    this.end.abort();
    clearTimeout(this.timer);
    this.seen.disconnect();
    this.sized.disconnect();
    for (const { plot } of this.plots) plot?.destroy();
    this.plots = [];
  }

  /** A new run, of a graph whose flows and queues have their colours in its order. */
  reset(graph: Graph | null, duration: number | null): void {
    this.series = new Series();
    this.duration = duration;
    this.changes = [];
    this.zoomed = false;
    this.colours = new Map();
    this.known = 0;
    graph?.flows.forEach(({ name }, place) => this.colour(`flow/${name}`, place));
    this.rebuild();
  }

  private colour(entity: string, flow?: number): { colour: number; dash: number[] } {
    let found = this.colours.get(entity);
    if (!found) {
      const flows = [...this.colours.keys()].filter((name) => name.startsWith("flow/")).length;
      const others = this.colours.size - flows;
      const place = flow ?? flows;
      found = entity.startsWith("flow/")
        ? { colour: place % FLOWS, dash: DASHES[place % FLOWS] ?? [] }
        : { colour: FLOWS + (others * 2) % 9, dash: others >= 3 ? [4, 2] : [] };
      this.colours.set(entity, found);
    }
    return found;
  }

  /** Adds a sample. */
  add(time: number, values: Record<string, Record<string, number>>): void {
    const flat: [string, number][] = [];
    for (const [entity, metrics] of Object.entries(values)) for (const [metric, value] of Object.entries(metrics)) if (!isRule(metric)) flat.push([`${entity} ${metric}`, value]);
    this.series.add(time, flat);
    if (this.series.columns.size !== this.known) { this.known = this.series.columns.size; this.arrange(); }
    this.later();
  }

  /** Takes the series of a results file in place of what was sampled. */
  take(series: Series): void {
    if (!series.times.length) return;
    this.series = series;
    this.known = series.columns.size;
    this.arrange();
    this.later();
  }

  setDuration(duration: number | null): void { if (duration !== this.duration) { this.duration = duration; this.rescale(); } }
  change(at: number): void { this.changes.push(at); this.later(); }

  private later(): void {
    for (const plot of this.plots) plot.stale = true;
    if (this.timer) return;
    this.timer = window.setTimeout(() => { this.timer = 0; requestAnimationFrame(() => this.draw()); }, Math.max(0, this.wait() - (performance.now() - this.last)));
  }

  /** Milliseconds from the last picture until there is a pixel more to see, between the two above. */
  private wait(): number {
    const plot = this.plots.find(({ visible, plot: drawn }) => visible && drawn)?.plot;
    const { min, max } = plot?.scales["x"] ?? {};
    const now = this.series.times[this.series.times.length - 1];
    if (!plot || typeof min !== "number" || typeof max !== "number" || now === undefined) return PICTURE;
    const speed = (now - this.drawn) / (performance.now() - this.last);
    return speed > 0 ? Math.min(STILL, Math.max(PICTURE, (max - min) / plot.width / speed)) : PICTURE;
  }

  private draw(): void {
    this.last = performance.now();
    this.drawn = this.series.times[this.series.times.length - 1] ?? 0;
    if (document.hidden) return;
    for (const plot of this.plots) {
      if (!plot.visible || !plot.stale || !plot.plot) continue;
      plot.stale = false;
      plot.plot.setData(this.data(plot), !this.zoomed);
      if (this.zoomed) plot.plot.redraw();
    }
  }

  private data(plot: Plot): uPlot.AlignedData {
    const scale = plot.quantity.scale ?? 1;
    return [this.series.times, ...plot.lines.map(({ name }) => {
      const column = this.series.columns.get(name) ?? [];
      return scale === 1 ? column : column.map((value) => value === null ? null : value * scale);
    })];
  }

  /** Makes plots for the quantities that there are. */
  private arrange(): void {
    const lines: Line[] = [...this.series.columns.keys()].map((name) => {
      const at = name.lastIndexOf(" ");
      return { name, entity: name.slice(0, at), metric: name.slice(at + 1) };
    });
    const known = new Set(QUANTITIES.flatMap(({ metrics }) => metrics));
    const others = [...new Set(lines.map(({ metric }) => metric))].filter((metric) => !known.has(metric) && metric !== "load").sort();
    const wanted = [...QUANTITIES, ...[...this.more].filter((metric) => others.includes(metric)).map((metric) => ({ title: metric, unit: "", metrics: [metric] }))];
    for (const { plot } of this.plots) plot?.destroy();
    this.plots = [];
    this.seen.disconnect();
    for (const quantity of wanted) {
      // One line for each entity: the first of the quantity's metrics that it has.
      const own = [...new Set(lines.map(({ entity }) => entity))]
        .map((entity) => quantity.metrics.map((metric) => lines.find((line) => line.entity === entity && line.metric === metric)).find(Boolean))
        .filter((line): line is Line => line !== undefined);
      if (!own.length) continue;
      const readout = h("span", { class: "readout" });
      const box = h("div", { class: "plot" });
      const heading = h("h2", {}, quantity.title, quantity.unit ? h("small", {}, ` ${quantity.unit}`) : null, readout);
      this.plots.push({ quantity, lines: own, readout, box, figure: h("figure", { role: "group", "aria-label": `${quantity.title} over time` }, heading, box), plot: null, visible: true, width: 0, stale: true });
    }
    const rest = others.filter((metric) => !this.more.has(metric));
    put(this.moreBox, h("option", { value: "" }, "more quantities…"), ...rest.map((metric) => h("option", { value: metric }, metric)));
    put(this.host, ...this.plots.map(({ figure: box }) => box));
    for (const plot of this.plots) { this.seen.observe(plot.figure); this.build(plot); }
    const flowsFirst = (entity: string) => entity.startsWith("flow/") ? 0 : 1;
    const entities = [...new Set(this.plots.flatMap((plot) => plot.lines.map(({ entity }) => entity)))];
    this.listSeries(entities.sort((a, b) => flowsFirst(a) - flowsFirst(b)), rest.length > 0);
  }

  private addMore(): void {
    if (this.moreBox.value) this.more.add(this.moreBox.value);
    this.arrange();
    this.later();
  }

  private listSeries(entities: string[], more: boolean): void {
    put(this.legend, ...entities.map((entity) => {
      const { colour, dash } = this.colour(entity);
      const button = h("button", { type: "button", class: "key", "aria-pressed": String(!this.hidden.has(entity)), title: `Show or hide ${entity}` },
        s("svg", { width: 22, height: 8, "aria-hidden": "true" }, s("line", { class: `stroke-${colour}`, x1: 1, x2: 21, y1: 4, y2: 4, "stroke-width": 2.2, "stroke-dasharray": dash.join(" ") })),
        entity.replace(/^(flow|link)\//, ""));
      button.addEventListener("click", () => {
        if (!this.hidden.delete(entity)) this.hidden.add(entity);
        button.setAttribute("aria-pressed", String(!this.hidden.has(entity)));
        for (const { plot, lines } of this.plots) lines.forEach((line, place) => { if (line.entity === entity) plot?.setSeries(place + 1, { show: !this.hidden.has(entity) }); });
      });
      return button;
    }), more ? this.moreBox : null);
  }

  private rebuild(paper = false): void {
    if (paper) document.documentElement.classList.add("paper");
    else document.documentElement.classList.remove("paper");
    this.arrange();
    for (const plot of this.plots) plot.plot?.setData(this.data(plot), !this.zoomed);
  }

  private rescale(): void { for (const { plot } of this.plots) if (plot && !this.zoomed) plot.setData(plot.data, true); }

  private resize(plot: Plot): void {
    const width = Math.floor(plot.box.clientWidth);
    if (!plot.plot || !width || width === plot.width) return;
    plot.width = width;
    plot.plot.setSize({ width, height: this.height(plot) });
  }
  private height(plot: Plot): number { return Math.max(96, Math.floor(plot.box.clientHeight) || 130); }

  private build(plot: Plot): void {
    const style = getComputedStyle(document.documentElement);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim();
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const axis: uPlot.Axis = { stroke: colour("faint"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font };
    plot.width = Math.max(120, Math.floor(plot.box.clientWidth));
    const options: uPlot.Options = {
      width: plot.width, height: this.height(plot),
      legend: { show: false },
      padding: [6, 18, 0, 0],
      cursor: { sync: { key: "run" }, points: { size: 5 }, drag: { x: true, y: false }, y: false },
      scales: {
        x: { time: false, range: (_, least, most) => this.zoomed ? [least, most] : [0, this.duration ?? Math.max(1, most || 1)] },
        y: { range: (_, _least, most) => [0, most > 0 ? most * 1.08 : 1] },
      },
      axes: [{ ...axis, size: 22, gap: 4, values: (_, ticks) => ticks.map((tick) => `${tick} s`) }, { ...axis, size: 42, gap: 4, values: (_, ticks) => ticks.map(figure) }],
      series: [{}, ...plot.lines.map(({ entity, name }): uPlot.Series => {
        const look = this.colour(entity);
        return { label: name, stroke: colour(`s${look.colour}`), width: 1.4, dash: look.dash, points: { show: false }, spanGaps: true, show: !this.hidden.has(entity) };
      })],
      hooks: {
        setCursor: [(one) => this.read(plot, one)],
        setSelect: [(one) => { if (one.select.width > 4) this.zoomed = true; }],
        drawAxes: [(one) => this.rules(one, colour("no"))],
      },
    };
    plot.plot = new uPlot(options, this.data(plot), plot.box);
    plot.box.addEventListener("dblclick", () => { this.zoomed = false; this.rescale(); });
  }

  /** A line where something changed. */
  private rules(plot: uPlot, colour: string): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const at of this.changes) {
      const x = Math.round(plot.valToPos(at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  /** The values at the cursor, beside the title. */
  private read(plot: Plot, one: uPlot): void {
    const place = one.cursor.idx;
    if (place === null || place === undefined || (one.cursor.left ?? -1) < 0) { say(plot.readout, ""); return; }
    const at = one.data[0]?.[place];
    const values = plot.lines.map(({ entity }, index) => {
      const value = one.data[index + 1]?.[place];
      return value === null || value === undefined || this.hidden.has(entity) ? "" : `${entity.split("/").pop()} ${figure(value)}`;
    }).filter(Boolean).slice(0, 6);
    say(plot.readout, at === undefined ? "" : `${at.toFixed(2)} s: ${values.join("  ")}`);
  }
}
