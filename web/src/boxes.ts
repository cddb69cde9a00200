// Boxes by rules: what each rule hit while a run goes, and the form in which rules are written.
import { type BoxRules, type Edit, type Graph, type GraphElement } from "./api";
import { completeFrom } from "./complete";
import { figure, h, say } from "./dom";
import { named, split } from "./words";

/** What a rule applied to since the run began, and what of it it dropped. */
export interface Hit { packets: number; dropped: number }

/** A box of both directions is named without one. */
export const boxName = (key: string) => key.replace(/^(link\/[^/]+)\/(?:up|down)\//, "$1/");

const RULE = /^rule_(\d+)_(packets|dropped)$/;
/** Whether a metric is a rule's count: it is shown at its rule and not plotted. */
export const isRule = (metric: string) => RULE.test(metric);

/** What the rules of all boxes of a run hit, as the latest samples say. */
export class Hits {
  private readonly boxes = new Map<string, Map<number, Hit>>();

  take(values: Record<string, Record<string, number>>): void {
    for (const [entity, metrics] of Object.entries(values)) for (const [metric, value] of Object.entries(metrics)) {
      const found = RULE.exec(metric);
      if (!found) continue;
      let rules = this.boxes.get(entity);
      if (!rules) this.boxes.set(entity, rules = new Map());
      const rule = Number(found[1]);
      const hit = rules.get(rule) ?? { packets: 0, dropped: 0 };
      rules.set(rule, { ...hit, [found[2] ?? "packets"]: value });
    }
  }

  clear(): void { this.boxes.clear(); }
  /** Forgets what rules hit that are no more. */
  forget(box: string): void { this.boxes.delete(box); }

  /** Of a box by the key of its element; its rules from 1. */
  of(key: string): Map<number, Hit> | undefined { return this.boxes.get(key) ?? this.boxes.get(boxName(key)); }
}

/** What a box hit, in a few words. A packet counts for each rule that applied to it. */
export function hitWords(hits: Map<number, Hit> | undefined): string {
  let [packets, dropped] = [0, 0];
  for (const hit of hits?.values() ?? []) { packets += hit.packets; dropped += hit.dropped; }
  return packets ? `${figure(packets)} hits${dropped ? `, ${figure(dropped)} dropped` : ""}` : "no hit";
}

/** The commands that make the rules `after` of `before`; rules that stay keep their counts and connections. */
export function commands(before: string[], after: string[]): string {
  if (!after.length) return before.length ? "flush" : "";
  let start = 0;
  while (start < Math.min(before.length, after.length) && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < Math.min(before.length, after.length) - start && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  const gone = before.length - end - start;
  const remove = Array.from({ length: gone }, (_, place) => `del ${start + gone - place}`);
  const add = after.slice(start, after.length - end).map((rule, place) => end ? `insert ${start + 1 + place} ${rule}` : rule);
  return [...remove, ...add].join("; ");
}

/** The rules that stand in the words of an element; null where they stand elsewhere, by a name. */
export function written(element: GraphElement): string[] | null {
  const words = named(element.text).words.replace(/^mmb\s*/, "");
  return split(words).length > 1 ? words.split(";").map((rule) => rule.trim()).filter(Boolean) : null;
}

export interface RulesContext {
  document: string;
  text: () => string;
  graph: () => Graph | null;
  edit: (edits: Edit[]) => Promise<boolean>;
  /** While a run goes that can be changed: gives a box these words, and says what is refused. */
  change: ((entity: string, words: string) => Promise<boolean>) | null;
  /** How far the run is whose hits there are; null where there is none, or its text is another one. */
  at: number | null;
  hits: Hits;
  boxes: BoxRules[];
}

/** The rules of a box, with what each hit. */
export class Rules {
  readonly host = h("div", { class: "rules" });
  /** Where hits are shown, by their rules. */
  private cells: [HTMLElement, HTMLElement][] = [];
  private readonly fields: HTMLInputElement[] = [];
  private readonly box: BoxRules | undefined;

  constructor(private readonly key: string, private readonly element: GraphElement, private readonly context: RulesContext) {
    const { boxes, at, change } = context;
    this.box = boxes.find(({ name }) => name === key) ?? boxes.find(({ name }) => name === boxName(key));
    const time = this.box?.times.filter(({ from_s: from }) => from <= (at ?? 0)).pop();
    const own = written(element);
    const of = this.box?.source === "file" ? " of the file" : this.box?.source === "ready" ? " of the ready box" : "";
    const since = time && time.from_s > 0 ? ` since ${figure(time.from_s)} s` : "";
    // While a run goes the rules are its rules; after it, those of the text, and what hit is beside them if they are the same.
    if (at !== null && change && time) this.table(`Rules of the run${since}`, time.rules, time.all, "run", true);
    else if (own) {
      const same = time?.from_s === 0 && time.all === own.length;
      this.table("Rules", own, own.length, "text", same);
      if (at !== null && time && !same) this.table(`Rules of the run${since}`, time.rules, time.all, null, true);
    } else if (time) {
      this.table(`Rules${since || of}`, time.rules, time.all, null, true);
      if (at === null && time.rules.length && time.all === time.rules.length) {
        this.host.append(h("p", { class: "row" }, h("button", { type: "button", title: "Writes the rules in the place of their name", onclick: () => void this.toText(time.rules) }, "Edit these rules")));
      }
    }
    this.show();
  }

  private table(title: string, rules: string[], all: number, write: "run" | "text" | null, hits: boolean): void {
    const given = () => this.fields.map(({ value }) => value.trim()).filter(Boolean);
    const row = (rule: string, place: number) => {
      const counts: [HTMLElement, HTMLElement] = [h("td", {}), h("td", {})];
      if (hits && rule) this.cells.push(counts);
      const field = write && this.field(rule, place);
      if (write === "text") field?.addEventListener("change", () => { delete field.dataset["dirty"]; void this.toText(given()); });
      return h("tr", {}, h("th", { scope: "row" }, rule ? String(place + 1) : "+"), h("td", { class: "left" }, field || h("code", {}, rule)), ...counts);
    };
    const rows = rules.map(row);
    const more = all > rules.length ? h("p", { class: "faint" }, `and ${figure(all - rules.length)} more`) : null;
    this.host.append(h("p", { class: "faint" }, title),
      h("table", { "aria-label": title }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "#"), h("th", { scope: "col", class: "left" }, "rule"), h("th", { scope: "col" }, "packets"), h("th", { scope: "col" }, "dropped"))),
        h("tbody", {}, ...rows, write && !more ? row("", rules.length) : null)));
    if (more) this.host.append(more);
    if (write === "run") this.host.append(h("p", { class: "row" }, h("button", { type: "button", onclick: () => void this.toRun(rules, given()) }, "Give the run these rules")));
  }

  /** A field for a rule, or for another one, completed where the element stands in the text. */
  private field(rule: string, place: number): HTMLInputElement {
    const field = h("input", { type: "text", class: "mono", value: rule, spellcheck: "false", autocomplete: "off", "aria-label": rule ? `Rule ${place + 1}` : "Another rule", placeholder: rule ? "" : "add …", "data-field": `rule-${place + 1}` });
    field.addEventListener("input", () => { field.dataset["dirty"] = "yes"; });
    completeFrom(field, (value, caret) => {
      const lines = this.context.text().split("\n");
      const line = lines[this.element.line - 1] ?? "";
      const start = line.indexOf(this.element.text);
      if (start < 0) return null;
      const before = "mmb ";
      lines[this.element.line - 1] = line.slice(0, start) + before + value + line.slice(start + this.element.text.length);
      return { text: lines.join("\n"), line: this.element.line, column: start + before.length + caret + 1 };
    }, this.context.document);
    this.fields.push(field);
    return field;
  }

  private async toRun(before: string[], after: string[]): Promise<void> {
    const words = commands(before, after);
    const box = this.box?.name ?? this.key;
    if (!words || !await this.context.change?.(box, words)) return;
    this.context.hits.forget(box);
    for (const field of this.fields) delete field.dataset["dirty"];
  }

  private async toText(rules: string[]): Promise<void> {
    const { name } = named(this.element.text);
    // A box without rules lets everything pass.
    const text = `${name ? `${name}: ` : ""}mmb ${rules.length ? rules.join("; ") : "add all accept"}`;
    await this.context.edit(this.edits(text));
  }

  /** The element in both directions is one box, and is written the same. */
  private edits(text: string): Edit[] {
    const edits: Edit[] = [];
    for (const link of this.context.graph()?.links ?? []) for (const direction of ["up", "down"] as const) link[direction].forEach((element, index) => {
      const key = element.entity ?? "";
      if (key === this.key || (element.text === this.element.text && boxName(key) === boxName(this.key))) edits.push({ op: "element", link: link.name, direction, index, action: "replace", text });
    });
    return edits;
  }

  /** Shows what the latest sample says. */
  show(): void {
    const hits = this.context.at === null ? undefined : this.context.hits.of(this.key);
    this.cells.forEach(([packets, dropped], place) => {
      const hit = hits?.get(place + 1);
      say(packets, hit ? figure(hit.packets) : "");
      say(dropped, hit ? figure(hit.dropped) : "");
    });
  }
}
