// The form of what is selected. Its fields come from the vocabulary; what they take is checked by the server.
import { type Checked, type Declared, type Edit, type Entry, type Finding, type Graph, type GraphElement, type GraphLink, type Parameter, type TableKey, type Vocabulary } from "./api";
import { Rules, type Hits } from "./boxes";
import { completeFrom, suggest } from "./complete";
import { debounced, figure, h, put } from "./dom";
import { own } from "./layout";
import { isBox, kindOf, named, places, split, withValue, withinQueue } from "./words";

export interface FormContext {
  document: string;
  graph: () => Graph | null;
  checked: () => Checked | null;
  vocabulary: () => Vocabulary;
  text: () => string;
  /** Asks the server to edit the text; what it refused, or null. */
  edit: (edits: Edit[], select?: string) => Promise<string | null>;
  select: (key: string) => void;
  connect: (from: string, to: string, what: "link" | "flow") => Promise<string | null>;
  remove: (key: string) => void;
  copy: (key: string) => void;
  /** While a run goes: gives an element other words from now on. */
  change: ((entity: string, words: string) => Promise<string | null>) | null;
  packets: ((entity: string) => void) | null;
  /** What rules of boxes hit. */
  hits: Hits;
  /** How far the run is whose hits these are, in seconds; null where there is none of this text. */
  runAt: () => number | null;
}

/** An element by its key, with where it stands. */
export function elementAt(graph: Graph, key: string): { link: GraphLink; direction: "up" | "down"; index: number; element: GraphElement } | null {
  for (const link of graph.links) for (const direction of ["up", "down"] as const) {
    const index = link[direction].findIndex((element) => (element.entity ?? `link/${link.name}/${direction}/${own(element)}`) === key);
    const element = link[direction][index];
    if (element) return { link, direction, index, element };
    // A box of both directions is named without one.
    const both = link[direction].findIndex((one) => one.entity && one.entity.replace(/\/(up|down)\//, "/") === key);
    const box = link[direction][both];
    if (box) return { link, direction, index: both, element: box };
  }
  return null;
}

/** The parameter that is a rate without a name. */
export function rateOf(text: string, vocabulary: Vocabulary): { kind: Declared; parameter: Parameter } | null {
  const kind = kindOf(split(named(text).words), vocabulary.elements);
  const parameter = kind?.parameters.find((one) => one.kind === "rate" && one.names.length === 0);
  return kind && parameter ? { kind, parameter } : null;
}

/** Parameters of a kind that are shown at once, whether set or not. */
const FEW = 8;

let fields = 0;

export class Form {
  readonly host = h("section", { class: "form", "aria-label": "Form" });
  private key: string | null = null;
  private message = h("p", { class: "refusal", role: "alert" });
  private rules: Rules | null = null;

  constructor(private readonly context: FormContext) {}

  show(key: string | null): void { this.key = key; this.draw(); }
  /** Draws again unless somebody is typing into it or holds its slider. */
  refresh(): void {
    const inside = this.host.contains(document.activeElement) ? document.activeElement : null;
    const field = inside?.getAttribute("data-field");
    if (this.host.querySelector("[data-dirty]") || (inside instanceof HTMLInputElement && inside.type === "range")) return;
    this.draw();
    if (field) this.host.querySelector<HTMLElement>(`[data-field="${CSS.escape(field)}"]`)?.focus();
  }
  /** Shows what rules hit meanwhile. */
  showHits(): void { this.rules?.show(); }
  focus(): void { this.host.querySelector<HTMLElement>("input, select, button")?.focus(); }

  private draw(): void {
    const graph = this.context.graph();
    const key = this.key;
    this.host.hidden = !key || !graph;
    this.rules = null;
    if (!key || !graph) return;
    this.message = h("p", { class: "refusal", role: "alert" });
    const [kind, name = ""] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    const content: (Node | null)[] = [];
    if (kind === "host") {
      const node = graph.nodes.find((one) => one.name === name);
      if (node) content.push(this.head(node.kind, name, key), this.connect(name, graph), this.table(node, node.table || node.kind, !node.table, graph));
    } else if (kind === "link" && !name.includes("/")) {
      const link = graph.links.find((one) => one.name === name);
      if (link) content.push(this.head("link", name, key), this.lanes(link), this.table(link, "link", false, graph));
    } else if (kind === "link") {
      const found = elementAt(graph, key);
      if (found) content.push(...this.element(key, found));
    } else if (kind === "scenario") {
      content.push(h("div", { class: "head" }, h("strong", {}, "Scenario")), this.table({ name: "", line: 1, values: graph.values ?? {} }, kind, false, graph));
    } else {
      const entry: Entry | undefined = graph.flows.find((one) => (one.table || "flow") === kind && one.name === name) ?? graph.others.find((one) => (one.table || one.kind) === kind && one.name === name);
      if (entry) content.push(this.head(kind, name, key), this.table(entry, entry.table || kind, false, graph));
    }
    this.host.hidden = !content.length;
    const found = (this.context.checked()?.findings ?? []).filter((finding) => finding.entity && (finding.entity === key || finding.entity.startsWith(`${key}/`)));
    put(this.host, content[0], this.message, ...found.map(findingLine), ...content.slice(1).filter((node): node is Node => node !== null));
  }

  private async edit(edits: Edit[], select?: string): Promise<boolean> {
    const refused = await this.context.edit(edits, select);
    put(this.message, refused ?? "");
    return refused === null;
  }

  private head(kind: string, name: string, key: string): HTMLElement {
    const unnamed = name.startsWith("#");
    const title = h("input", { type: "text", value: name, class: "title", "aria-label": `Name of this ${kind}`, "data-field": "name", spellcheck: "false", autocomplete: "off" });
    title.addEventListener("change", () => {
      const to = title.value.trim();
      if (to && to !== name) void this.edit([{ op: "rename", table: kind, name, to }], `${kind === "router" ? "host" : kind}/${to}`);
    });
    return h("div", { class: "head" }, h("span", { class: "faint" }, kind), unnamed ? h("strong", {}, name) : title, h("span", { class: "grow" }),
      h("button", { type: "button", onclick: () => this.context.copy(key) }, "Copy"),
      h("button", { type: "button", onclick: () => this.context.remove(key) }, "Remove"));
  }

  private connect(name: string, graph: Graph): HTMLElement | null {
    const others = graph.nodes.filter((node) => node.name !== name);
    if (!others.length) return null;
    const to = h("select", { "aria-label": "Connect to", "data-field": "connect" }, ...others.map((node) => h("option", { value: node.name }, node.name)));
    const go = (what: "link" | "flow") => async () => { const refused = await this.context.connect(name, to.value, what); put(this.message, refused ?? ""); };
    return h("p", { class: "row" }, h("span", { class: "faint" }, "connect to"), to, h("button", { type: "button", onclick: go("link") }, "Link"), h("button", { type: "button", onclick: go("flow") }, "Flow"));
  }

  /** The keys of a table: those that are set or must be, and the others behind a summary. */
  private table(entry: Entry, table: string, absent: boolean, graph: Graph): HTMLElement {
    const top = table === "scenario";
    const declared = this.context.vocabulary().tables.find((one) => one.name === (top ? "" : table));
    const values = entry.values ?? {};
    // A table's name is above its form, and elements are in the drawing.
    const skip = new Set(top ? ["version"] : ["name", "up", "down"]);
    const keys: TableKey[] = (declared?.keys ?? []).filter(({ name }) => !skip.has(name));
    for (const name of Object.keys(values)) if (!skip.has(name) && !keys.some((key) => key.name === name)) keys.push({ name, type: "", summary: "", required: false });
    const row = (key: TableKey) => this.field(key.name, key.summary, this.input(entry, table, absent, key, values[key.name], graph));
    const shown = keys.filter(({ name, required }) => required || name in values);
    const rest = keys.filter((key) => !shown.includes(key));
    return h("div", {}, h("div", { class: "fields" }, ...shown.map(row)),
      rest.length ? h("details", {}, h("summary", {}, `${rest.length} more keys`), h("div", { class: "fields" }, ...rest.map(row))) : null);
  }

  private field(label: string, summary: string, input: HTMLElement): HTMLElement {
    fields += 1;
    input.id = `field-${fields}`;
    input.setAttribute("data-field", label);
    return h("div", { class: "field" }, h("label", { for: input.id, title: summary }, label), input, summary ? h("small", {}, summary) : null);
  }

  private input(entry: Entry, table: string, absent: boolean, key: TableKey, value: unknown, graph: Graph): HTMLElement {
    const give = (next: unknown) => absent
      ? this.edit([{ op: "add", table, values: { name: entry.name, [key.name]: next } }])
      : this.edit([{ op: "set", table, name: entry.name, key: key.name, value: next }]);
    const type = key.type.toLowerCase();
    const vocabulary = this.context.vocabulary();
    const choices = key.values ?? (["from", "to", "opens", "host", "at"].includes(key.name) ? graph.nodes.map(({ name }) => name)
      : type === "boolean" ? ["true", "false"] : []);
    if (choices.length && (type === "boolean" || choices.length < 12) && (value === undefined || choices.includes(String(value)))) {
      const select = h("select", {}, h("option", { value: "" }, ""), ...choices.map((one) => h("option", { value: one, selected: String(value) === one }, one)));
      select.addEventListener("change", () => void give(select.value === "" ? null : type === "boolean" ? select.value === "true" : select.value));
      return select;
    }
    const shown = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
    const input = h("input", { type: "text", value: shown, spellcheck: "false", autocomplete: "off" });
    const words = key.name === "cc" ? vocabulary.controls.map(({ name }) => name) : choices;
    if (words.length) suggest(input, () => words);
    input.addEventListener("change", () => void give(input.value === "" ? null : read(input.value, value, type)));
    return input;
  }

  private lanes(link: GraphLink): HTMLElement {
    const vocabulary = this.context.vocabulary();
    return h("div", { class: "lanes" }, ...(["up", "down"] as const).map((direction) => {
      const [from, to] = direction === "up" ? link.ends : [link.ends[1], link.ends[0]];
      const add = h("select", { "aria-label": `Add an element to ${direction}`, "data-field": `add-${direction}` }, h("option", { value: "" }, "add…"), ...vocabulary.elements.map(({ name }) => h("option", { value: name }, name)));
      add.addEventListener("change", () => {
        const kind = vocabulary.elements.find(({ name }) => name === add.value);
        if (kind) void this.edit([{ op: "element", link: link.name, direction, index: link[direction].length, action: "insert", text: sample(kind) }]);
      });
      return h("div", { class: "row" }, h("span", { class: "faint" }, `${direction}: ${from} → ${to}`),
        ...link[direction].map((element) => h("button", { type: "button", class: "word", title: element.text, onclick: () => this.context.select(element.entity ?? `link/${link.name}/${direction}/${own(element)}`) }, own(element))), add);
    }));
  }

  private element(key: string, { link, direction, index, element }: { link: GraphLink; direction: "up" | "down"; index: number; element: GraphElement }): HTMLElement[] {
    const vocabulary = this.context.vocabulary();
    const at = { op: "element", link: link.name, direction, index } as const;
    const move = (to: number) => h("button", { type: "button", disabled: to < 0 || to >= link[direction].length, "aria-label": to < index ? "Move earlier" : "Move later", onclick: () => void this.edit([{ ...at, action: "move", to }], this.keyAfter(link, direction, element)) }, to < index ? "◂" : "▸");
    const { packets } = this.context;
    const head = h("div", { class: "head" }, h("span", { class: "faint" }, `${link.name} ${direction}`), h("strong", {}, own(element)), h("span", { class: "grow" }),
      packets ? h("button", { type: "button", onclick: () => packets(key) }, "Packets") : null, move(index - 1), move(index + 1),
      h("button", { type: "button", onclick: () => this.context.copy(key) }, "Copy"), h("button", { type: "button", onclick: () => this.context.remove(key) }, "Remove"));
    const replace = (text: string) => this.edit([{ ...at, action: "replace", text }], this.keyAfter(link, direction, element, text));
    const line = h("input", { type: "text", class: "mono", value: element.text, spellcheck: "false", autocomplete: "off" });
    completeWords(line, element, this.context.text, this.context.document);
    line.addEventListener("input", () => { line.dataset["dirty"] = "yes"; });
    line.addEventListener("change", () => { delete line.dataset["dirty"]; if (line.value.trim()) void replace(line.value.trim()); });
    const out: HTMLElement[] = [head, h("div", { class: "fields" }, this.field("words", "all of it, as it stands in the file", line))];
    const slider = this.slider(key, element, replace);
    if (slider) out.push(slider);
    const kind = kindOf(split(named(element.text).words), vocabulary.elements);
    if (kind && isBox(element)) {
      this.rules = this.rulesOf(key, element);
      out.push(h("p", { class: "faint" }, kind.summary), this.rules.host);
    } else if (kind) {
      out.push(h("p", { class: "faint" }, kind.summary), this.parameters(element.text, kind, replace, (text) => text));
      const queue = places(split(named(element.text).words), kind).find(({ parameter }) => parameter.names.includes("queue"));
      if (kind.parameters.some(({ names }) => names.includes("queue"))) {
        const declared = kindOf(split(queue?.value ?? ""), vocabulary.queues);
        const choice = h("select", {}, h("option", { value: "" }, declared || queue ? "" : "pfifo limit 1000"), ...vocabulary.queues.map(({ name }) => h("option", { value: name, selected: declared?.name === name }, name)));
        choice.addEventListener("change", () => void replace(withinQueue(element.text, kind, () => choice.value)));
        out.push(h("div", { class: "fields" }, this.field("queue", declared?.summary ?? "the queue in front of it", choice)));
        if (declared) out.push(this.parameters(queue?.value ?? "", declared, replace, (text) => withinQueue(element.text, kind, () => text)));
      }
    }
    return out;
  }

  private rulesOf(key: string, element: GraphElement): Rules {
    const { document, text, graph, change, hits, runAt } = this.context;
    return new Rules(key, element, {
      document, text, graph, hits, at: runAt(), boxes: this.context.checked()?.boxes ?? [],
      edit: (edits) => this.edit(edits, this.key ?? undefined),
      change: change && (async (entity, words) => {
        const refused = await change(entity, words);
        put(this.message, refused ?? "");
        return refused === null;
      }),
    });
  }

  /** What an element is called after an edit: an unnamed one by its first word. */
  private keyAfter(link: GraphLink, direction: string, element: GraphElement, text = element.text): string {
    const { name, words } = named(text);
    return text === element.text && element.entity ? element.entity : `link/${link.name}/${direction}/${name || (split(words)[0] ?? "")}`;
  }

  private parameters(text: string, kind: Declared, replace: (text: string) => Promise<boolean>, whole: (text: string) => string): HTMLElement {
    const set = places(split(named(text).words), kind);
    const rows = kind.parameters.filter(({ names }) => !names.includes("queue")).map((parameter) => {
      const place = set.find((one) => one.parameter === parameter);
      const give = (value: string | boolean) => void replace(whole(withValue(text, kind, parameter, value)));
      let input: HTMLElement;
      if (parameter.kind === "flag" && parameter.names.length === 1) {
        const box = h("input", { type: "checkbox", checked: place !== undefined });
        box.addEventListener("change", () => give(box.checked));
        input = box;
      } else if (parameter.kind === "flag" || parameter.choices.length) {
        const choices = parameter.kind === "flag" ? parameter.names : parameter.choices;
        const value = parameter.kind === "flag" ? place?.name : place?.value;
        const select = h("select", {}, h("option", { value: "" }, ""), ...choices.map((one) => h("option", { value: one, selected: one === value }, one)));
        select.addEventListener("change", () => give(select.value));
        input = select;
      } else {
        const line = h("input", { type: "text", value: place?.value ?? "", placeholder: parameter.default, spellcheck: "false", autocomplete: "off", title: parameter.allowed });
        line.addEventListener("change", () => give(line.value.trim()));
        input = line;
      }
      return { set: place !== undefined, row: this.field(parameter.usage, [parameter.summary, parameter.allowed ? `takes ${parameter.allowed}` : ""].filter(Boolean).join("; "), input) };
    });
    // A few are shown; of many, those that are set.
    const few = rows.length <= FEW;
    const shown = rows.filter((one) => few || one.set);
    const rest = rows.filter((one) => !few && !one.set);
    return h("div", {}, shown.length ? h("div", { class: "fields" }, ...shown.map(({ row }) => row)) : null,
      rest.length ? h("details", {}, h("summary", {}, `${rest.length} more parameters of ${kind.name}`), h("div", { class: "fields" }, ...rest.map(({ row }) => row))) : null);
  }

  private slider(key: string, element: GraphElement, replace: (text: string) => Promise<boolean>): HTMLElement | null {
    const change = this.context.change;
    return rateSlider(key, element, this.context.vocabulary(), async (text) => {
      if (!change) { await replace(text); return; }
      put(this.message, await change(key, text) ?? "");
    }, change ? "rate from now on" : "rate");
  }
}

/** A slider over two decades around the element's rate; null where it has no fixed one. */
export function rateSlider(key: string, element: GraphElement, vocabulary: Vocabulary, give: (text: string) => Promise<void>, label: string): HTMLElement | null {
  const rate = rateOf(element.text, vocabulary);
  if (!rate || !element.rate_mbit) return null;
  const base = element.rate_mbit;
  const mbit = () => Number((base * 10 ** (Number(input.value) / 100)).toPrecision(3));
  const input = h("input", { type: "range", min: "-100", max: "100", step: "1", value: "0", "aria-label": `${label} of ${key}`, "data-field": "rate-slider", "data-entity": key });
  const shown = h("output", {}, `${figure(base)} Mbit/s`);
  const send = debounced(250, () => void give(withValue(element.text, rate.kind, rate.parameter, `${mbit()}Mbit`)));
  input.addEventListener("input", () => {
    put(shown, `${figure(mbit())} Mbit/s`);
    input.setAttribute("aria-valuetext", `${figure(mbit())} Mbit/s`);
    send();
  });
  return h("p", { class: "row slider" }, h("span", { class: "faint" }, label), input, shown);
}

/** The words with which an element is added: the least that its kind takes. */
export function sample(kind: Declared): string {
  const known: Record<string, string> = { rate: "rate 50Mbit queue dualpi2", netem: "netem delay 10ms", mmb: "mmb ecn-bleach", tap: "tap middle" };
  const need = kind.parameters.filter(({ default: usual, kind: what }) => usual === "" && what !== "flag");
  return known[kind.name] ?? [kind.name, ...need.flatMap(({ names, choices, allowed }) => [...names.slice(0, 1), choices[0] ?? /[\d.]+\w*/.exec(allowed)?.[0] ?? "?"])].join(" ");
}

function findingLine(finding: Finding): HTMLElement {
  return h("p", { class: finding.severity === "error" ? "finding error" : "finding" }, finding.message, finding.hint ? h("small", {}, ` ${finding.hint}`) : null);
}

/** What was typed, as the type that stands there or that the schema names. */
export function read(text: string, before: unknown, type: string): unknown {
  if (typeof before === "string") return text;
  if (typeof before === "number" || /integer|number/.test(type)) { const number = Number(text); return Number.isFinite(number) ? number : text; }
  if (typeof before === "boolean" || (type === "" && /^(true|false)$/.test(text))) return text === "true" ? true : text === "false" ? false : text;
  if (/^[[{]/.test(text)) try { return JSON.parse(text) as unknown; } catch { /* as words */ }
  return text;
}

/** Completes the words of an element where they stand in the text. */
function completeWords(input: HTMLInputElement, element: GraphElement, text: () => string, document: string): void {
  completeFrom(input, (value, caret) => {
    const lines = text().split("\n");
    const line = lines[element.line - 1] ?? "";
    const start = line.indexOf(element.text);
    if (start < 0) return null;
    lines[element.line - 1] = line.slice(0, start) + value + line.slice(start + element.text.length);
    return { text: lines.join("\n"), line: element.line, column: start + caret + 1 };
  }, document);
}
