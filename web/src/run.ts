// A run: how it is started and steered, its plots while it goes, what it gave.
import { api, reason, Refused, type Checked, type Engine, type Graph, type Job, type JobResult, type Program, type Samples, type Vocabulary } from "./api";
import { askPrograms, note } from "./dialogs";
import { figure, h, put, say } from "./dom";
import { rateSlider } from "./forms";
import { own } from "./layout";
import { Packets } from "./packets";
import { Plots } from "./plots";
import { readTidy } from "./series";
import { Terminals } from "./terminals";
import { named } from "./words";

/** Virtual seconds of one press of "Step". */
const STEP = 0.1;
/** Largest series file that the page reads, bytes compressed. */
const LARGEST = 8_000_000;
/** Sliders of at most so many bottlenecks stand above the plots. */
const SLIDERS = 4;

export interface RunContext {
  document: string;
  kind: "scenario" | "campaign";
  text: () => string;
  graph: () => Graph | null;
  checked: () => Checked | null;
  vocabulary: () => Vocabulary;
  /** The run's text after a change. */
  changed: (text: string, before: string) => void;
  sampled: (samples: Samples) => void;
  began: () => void;
  select: (key: string) => void;
}

export const goes = (job: Job | null) => job?.state === "running" || job?.state === "paused";

export class Run {
  readonly host = h("section", { class: "run", "aria-label": "Run" });
  readonly packets: Packets;
  private readonly plots = new Plots();
  private readonly engine = h("select", { "aria-label": "Engine" });
  private readonly seed = h("input", { type: "number", min: "0", step: "1", class: "short", placeholder: "1", "aria-label": "Seed" });
  private readonly speed = h("select", { "aria-label": "Speed" }, ...([["", "as fast as it goes"], ["0.1", "0.1 s a second"], ["0.5", "0.5 s a second"], ["1", "real time"], ["2", "2 s a second"], ["5", "5 s a second"], ["10", "10 s a second"]] as const)
    .map(([value, text]) => h("option", { value }, text)));
  private readonly go = h("button", { type: "button", class: "first", onclick: () => void this.start(false) }, "Run");
  private readonly pause = h("button", { type: "button", onclick: () => void this.toggle() }, "Pause");
  private readonly step = h("button", { type: "button", title: `Goes on for ${STEP} s of the run's time`, onclick: () => void this.oneStep() }, "Step");
  private readonly stop = h("button", { type: "button", onclick: () => void this.control("stop") }, "Stop");
  private readonly compare = h("button", { type: "button", title: "Runs it in two engines and shows where they differ", onclick: () => void this.start(false, "compare") }, "Compare");
  private readonly progress = h("progress", { max: "1", "aria-label": "Progress" });
  private readonly state = h("span", { class: "state" });
  /** What is read aloud: changes of state, and not the time. */
  private readonly spoken = h("span", { class: "spoken", role: "status" });
  private readonly sliders = h("div", { class: "sliders" });
  private readonly terminals: Terminals | null;
  private readonly result = h("div", { class: "result" });
  private readonly tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Views of the run" });
  private readonly panes: Record<string, HTMLElement>;
  private text = "";
  job: Job | null = null;
  private now = 0;
  /** When the latest change was made. */
  private changed = 0;

  constructor(private readonly context: RunContext) {
    this.packets = new Packets(() => this.now, (place) => this.context.select(place));
    const plots = h("div", {}, this.plots.legend, this.plots.host);
    this.panes = { Plots: plots, Packets: this.packets.host, Result: this.result };
    for (const [name, pane] of Object.entries(this.panes)) {
      pane.id = `pane-${name}`;
      pane.setAttribute("role", "tabpanel");
      pane.setAttribute("aria-labelledby", `tab-${name}`);
      this.tabs.append(h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": pane.id, onclick: () => this.tab(name) }, name));
    }
    this.tabs.addEventListener("keydown", (event) => {
      const way = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const names = Object.keys(this.panes);
      const place = [...this.tabs.children].indexOf(document.activeElement as Element);
      if (!way || place < 0) return;
      this.tab(names[(place + way + names.length) % names.length] ?? "Plots");
      (this.tabs.children[(place + way + names.length) % names.length] as HTMLElement).focus();
    });
    const scenario = context.kind === "scenario";
    this.terminals = scenario ? new Terminals(context.document) : null;
    put(this.host, h("div", { class: "bar" },
      scenario ? this.engine : null, scenario ? h("label", {}, h("span", { class: "faint" }, "seed "), this.seed) : null, scenario ? this.speed : null,
      this.go, this.pause, scenario ? this.step : null, this.stop, scenario ? this.compare : null, this.progress, this.state, this.spoken, h("span", { class: "grow" }), this.tabs),
      this.sliders, this.terminals?.host, ...Object.values(this.panes));
    this.speed.addEventListener("change", () => { if (goes(this.job)) void this.control("speed", { speed: this.speedNow() }); });
    this.tab(scenario ? "Plots" : "Result");
    this.show();
    void api.about().then(({ engines }) => this.setEngines(engines)).catch(() => this.setEngines([]));
    void this.attach();
  }

  private setEngines(engines: Engine[]): void {
    const all = engines.length ? engines : [{ name: "sim", available: true }];
    put(this.engine, ...all.map(({ name, available, ...rest }) => h("option", { value: name, disabled: !available, title: "why" in rest ? rest.why : undefined }, available ? name : `${name} (not here)`)));
    const first = all.find(({ available }) => available);
    if (first) this.engine.value = all.some(({ name, available }) => name === "sim" && available) ? "sim" : first.name;
  }

  private tab(name: string): void {
    for (const [other, pane] of Object.entries(this.panes)) pane.hidden = other !== name;
    for (const tab of this.tabs.children) {
      const on = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(on));
      tab.setAttribute("tabindex", on ? "0" : "-1");
    }
  }

  /** How far it is, if it is a run of this text; null if not. */
  at(text: string): number | null {
    const changes = (this.job?.changes ?? []).map(({ at_s: at }) => at ?? 0);
    return this.job?.kind === "run" && text === this.text ? Math.max(this.now, this.changed, ...changes) : null;
  }

  /** Leaves it; what runs goes on. */
  close(): void { this.plots.destroy(); this.terminals?.close(); }

  /** Shows a speed that was not chosen here. */
  private showSpeed(speed: number | null): void {
    const value = speed === null ? "" : String(speed);
    if (![...this.speed.options].some((option) => option.value === value)) this.speed.append(h("option", { value }, `${value} s a second`));
    this.speed.value = value;
  }

  private speedNow(): number | null { return this.speed.value === "" ? null : Number(this.speed.value); }

  /** Goes on with what already runs of this document: the page was loaded again. */
  private async attach(): Promise<void> {
    const { jobs } = await api.jobs().catch(() => ({ jobs: [] }));
    const own = jobs.filter((job) => job.document === this.context.document);
    const found = own.find(goes) ?? own[own.length - 1];
    if (!found || this.job) return;
    const [job, { text }] = await Promise.all([api.job(found.id).catch(() => found), api.jobText(found.id).catch(() => ({ text: this.context.text() }))]);
    this.text = text;
    this.begin(job);
    if (goes(job) && job.changes?.length && text !== this.context.text()) this.context.changed(text, this.context.text());
  }

  async start(paused: boolean, kind: "run" | "campaign" | "compare" = this.context.kind === "campaign" ? "campaign" : "run", agreed?: string): Promise<void> {
    if (goes(this.job)) { note("A run of this document goes; stop it first."); return; }
    const checked = this.context.checked();
    let programs = agreed;
    const simulated = kind === "campaign" || kind === "run" && this.engine.value === "sim";
    if (checked?.programs?.length && kind === "run" && simulated) {
      note("The simulator runs no programs: choose another engine, or take [[command]] out.", true);
      return;
    }
    if (!programs && checked?.programs?.length && !simulated) {
      if (!await askPrograms(checked.programs)) return;
      programs = checked.programs_digest;
    }
    const text = this.context.text();
    try {
      const body = { kind, document: this.context.document, text, ...(programs ? { programs } : {}) };
      const { job } = await api.start(kind === "campaign" ? body : {
        ...body, ...(this.engine.value && kind === "run" ? { engine: this.engine.value } : {}), ...(this.seed.value === "" ? {} : { seed: Number(this.seed.value) }), ...(kind === "run" ? { speed: this.speedNow(), paused } : {}),
      });
      this.text = text;
      const now = await api.job(job).catch(() => ({ id: job, kind, name: "", state: "running", progress: {} } as Job));
      this.begin(now);
    } catch (error) {
      if (error instanceof Refused && error.status === 409 && !agreed) {
        const list = error.body["programs"] as Program[] | undefined;
        const digest = error.body["programs_digest"] as string | undefined;
        if (list && digest) { if (await askPrograms(list)) await this.start(paused, kind, digest); return; }
      }
      const first = error instanceof Refused ? error.findings.find(({ severity }) => severity === "error") : undefined;
      note(first ? `line ${first.line ?? "?"}: ${first.message}` : reason(error), true);
    }
  }

  private begin(job: Job): void {
    this.job = job;
    if (goes(job)) this.showSpeed(job.speed ?? null);
    this.now = 0;
    this.changed = 0;
    this.plots.reset(this.context.graph(), this.duration(job));
    this.context.began();
    put(this.result);
    for (const { at_s: at } of job.changes ?? []) if (typeof at === "number") this.plots.change(at);
    if (job.kind !== "campaign") this.tab("Plots");
    this.update(job);
    this.listSliders();
  }

  private duration(job: Job): number | null { return job.progress.duration_s ?? this.context.checked()?.duration_s ?? null; }

  /** The server said how it stands. */
  update(job: Job): void {
    if (this.job?.id !== job.id) return;
    const ended = !goes(job);
    const before = this.job;
    this.job = { ...before, ...job };
    if (job.speed !== before.speed && goes(job)) this.showSpeed(job.speed ?? null);
    this.now = Math.max(this.now, job.progress.virtual_s ?? 0);
    this.plots.setDuration(this.duration(this.job));
    this.show();
    if (ended && (before.result === undefined || before === job)) void this.finish();
  }

  samples(samples: Samples): void {
    if (samples.job !== this.job?.id) return;
    this.now = samples.t_s;
    this.plots.add(samples.t_s, samples.values);
    this.context.sampled(samples);
  }

  /** The connection is there again: what was missed is asked for. */
  async again(): Promise<void> {
    if (!this.job || !goes(this.job)) return;
    try { this.update(await api.job(this.job.id)); }
    catch (error) { if (error instanceof Refused && error.status === 404) { this.job = { ...this.job, state: "failed", error: "the server was started again, and the run is gone" }; this.show(); } }
  }

  private async finish(): Promise<void> {
    const id = this.job?.id;
    if (!id) return;
    const job = await api.job(id).catch(() => null);
    if (!job || this.job?.id !== id) return;
    this.job = { ...this.job, ...job };
    this.show();
    this.showResult();
    this.listSliders();
    if (job.kind === "run" && job.result?.report) await this.takeSeries(job.result.report, id);
  }

  /** The run's own series are finer than what was sampled while it went. */
  private async takeSeries(report: string, id: string): Promise<void> {
    try {
      const response = await fetch(report.replace(/[^/]*$/, "series.csv.gz"));
      if (!response.ok || !response.body || Number(response.headers.get("content-length") ?? 0) > LARGEST) return;
      const bytes = new Uint8Array(await response.arrayBuffer());
      const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
      const text = packed ? await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text() : new TextDecoder().decode(bytes);
      if (this.job?.id === id) this.plots.take(readTidy(text));
    } catch { /* what was sampled stays */ }
  }

  private async control(action: string, more: Record<string, unknown> = {}): Promise<void> {
    if (!this.job) return;
    try { await api.control(this.job.id, action, more); } catch (error) { note(reason(error), true); }
  }

  async toggle(): Promise<void> { await this.control(this.job?.state === "paused" ? "resume" : "pause"); }

  private async oneStep(): Promise<void> {
    if (!goes(this.job)) { await this.start(true); if (!goes(this.job)) return; }
    await this.control("step", { by_s: STEP });
  }

  /** Gives an element other words from now on; the name that may stand before them stays. */
  async change(entity: string, words: string): Promise<string | null> {
    if (!this.job || !goes(this.job)) return "nothing runs";
    try {
      const before = this.text;
      const { at_s: at, text } = await api.change(this.job.id, { [entity]: named(words).words });
      this.text = text;
      this.changed = at;
      this.plots.change(at);
      this.context.changed(text, before);
      return null;
    } catch (error) { return reason(error); }
  }

  private show(): void {
    const job = this.job;
    const on = goes(job);
    this.go.hidden = on;
    this.go.textContent = this.context.kind === "campaign" ? "Run the campaign" : "Run";
    this.pause.hidden = !on || this.context.kind === "campaign" || job?.kind !== "run" || job.pace === false;
    this.stop.hidden = !on;
    this.step.hidden = on && (job?.kind !== "run" || job.pace === false);
    this.compare.hidden = on;
    this.pause.textContent = job?.state === "paused" ? "Go on" : "Pause";
    this.progress.hidden = !on;
    for (const input of [this.engine, this.seed]) input.disabled = on;
    this.listPlaces();
    this.host.classList.toggle("idle", !job);
    this.showProgress();
  }

  /** Packets are looked for at the elements that the text now has. */
  listPlaces(): void {
    const elements = (this.context.graph()?.links ?? []).flatMap((link) => [...link.up, ...link.down].map((element) => element.entity ?? "")).filter(Boolean);
    this.packets.setJob(this.job?.id ?? null, [...new Set(elements)]);
  }

  /** How far it is. */
  showProgress(): void {
    const job = this.job;
    if (!job) { say(this.state, ""); return; }
    const { done, total, duration_s: duration, doing, virtual_s: reached } = job.progress;
    const of = duration ?? this.context.checked()?.duration_s;
    if (total) this.progress.value = (done ?? 0) / total;
    else if (of) this.progress.value = Math.min(1, this.now / of);
    const error = typeof job.error === "string" ? job.error : job.error?.message;
    // Of a comparison each run has a time of its own; in the simulator several go at once, and none says its time.
    const at = job.kind === "compare" ? reached ?? 0 : this.now;
    const time = `${at.toFixed(at < 100 ? 1 : 0)} s${of ? ` of ${figure(of)} s` : ""}`;
    const words = [total ? `${done ?? 0} of ${total} ${job.kind === "campaign" ? "cells" : "runs"}` : "", doing ?? "", doing ? at ? time : "" : total ? "" : time].filter(Boolean).join("; ");
    say(this.state, goes(job) ? `${job.state === "paused" ? "paused, " : ""}${words}` : job.state === "done" ? `done${job.result ? `, trust: ${job.result.trust ? "yes" : "no"}` : ""}` : error ? `${job.state}: ${error}` : job.state);
    say(this.spoken, goes(job) ? job.state : this.state.textContent ?? "");
    this.state.classList.toggle("no-text", job.state === "failed");
  }

  private listSliders(): void {
    const graph = this.context.graph();
    const vocabulary = this.context.vocabulary();
    if (!goes(this.job) || this.job?.kind !== "run" || this.job.pace === false || !graph) { put(this.sliders); return; }
    const rows: HTMLElement[] = [];
    for (const link of graph.links) for (const direction of ["up", "down"] as const) for (const element of link[direction]) {
      const entity = element.entity ?? `link/${link.name}/${direction}/${own(element)}`;
      if (rows.length >= SLIDERS) continue;
      const slider = rateSlider(entity, element, vocabulary, async (words) => {
        const refused = await this.change(entity, words);
        if (refused) note(refused, true);
      }, entity.replace(/^link\//, ""));
      if (slider) rows.push(slider);
    }
    put(this.sliders, ...rows);
  }

  private showResult(): void {
    const job = this.job;
    if (!job) return;
    const { result } = job;
    const error = typeof job.error === "string" ? job.error : job.error?.message;
    if (!result) { put(this.result, h("p", { class: error ? "no-text" : "faint" }, error ?? job.state)); return; }
    const [line = `trust: ${result.trust ? "yes" : "no"}`, ...notes] = result.verdict;
    put(this.result,
      h("div", { class: `verdict ${result.trust ? "yes" : "no"}` }, h("strong", {}, line),
        notes.length ? h("ul", {}, ...notes.map((note) => h("li", {}, note))) : null),
      h("p", { class: "row" }, result.report ? h("a", { href: result.report, target: "_blank", rel: "noopener" }, "Report page") : null,
        ...(result.digest ? [h("span", { class: "faint" }, "digest "), h("code", { id: "digest" }, result.digest)] : []), h("span", { class: "faint" }, result.folder)),
      result.text ? h("pre", { tabindex: "0", role: "region", "aria-label": "Table of the run" }, result.text) : table(result));
    if (this.context.kind === "campaign" || job.kind !== "run") this.tab("Result");
  }
}

/** The table of a result, whose rows are lines, lists or objects. */
function table({ table: rows }: JobResult): HTMLElement | null {
  if (!Array.isArray(rows) || !rows.length) return null;
  if (typeof rows[0] === "string") return h("pre", { tabindex: "0" }, rows.join("\n"));
  const cells = (value: unknown): string => typeof value === "number" ? figure(value) : value === null || value === undefined ? "" : typeof value === "object" ? Object.entries(value).map(([key, one]) => `${key} ${cells(one)}`).join(", ") : String(value);
  const keys = Array.isArray(rows[0]) ? null : [...new Set(rows.flatMap((row) => Object.keys(row as object)))];
  const row = (list: unknown[]) => h("tr", {}, ...list.map((value, place) => h(place ? "td" : "th", place ? { class: typeof value === "string" ? "left" : null } : { scope: "row" }, cells(value))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of the run" }, h("table", {},
    keys ? h("thead", {}, h("tr", {}, ...keys.map((key) => h("th", {}, key)))) : null,
    h("tbody", {}, ...rows.map((one) => row(keys ? keys.map((key) => (one as Record<string, unknown>)[key]) : one as unknown[])))));
}
