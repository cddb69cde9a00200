// One open document: its text, its drawing, its form and its runs. There is one state, the text; what is drawn is
// what the server reads in it.
import { api, reason, Refused, type Checked, type Edit, type Entry, type Graph, type Opened, type Places, type Point, type Values, type Vocabulary } from "./api";
import { Hits } from "./boxes";
import { askLine, choose, note, showKeys } from "./dialogs";
import { debounced, h, put, say } from "./dom";
import { Drawing } from "./drawing";
import { Editor } from "./editor";
import { elementAt, Form, sample, type FormContext } from "./forms";
import { complete } from "./graph";
import { PICTURE } from "./plots";
import { goes, Run } from "./run";
import { link as href } from "./start";
import { listen } from "./stream";
import { fresh } from "./words";

/** How long after the last key the text is checked, ms. */
const PAUSE = 150;

type Copied = { what: "element"; text: string } | { what: "table"; table: string; base: string; values: Values };
let copied: Copied | null = null;

export class Workspace {
  private readonly editor: Editor;
  private readonly drawing: Drawing;
  private readonly form: Form;
  private readonly run: Run;
  private checked: Checked | null = null;
  private graph: Graph | null = null;
  private saved: string;
  private revision: string | null;
  private places: Record<string, Point>;
  private selection: string | null = null;
  private readonly hits = new Hits();
  private latest: Record<string, Record<string, number>> = {};
  private picture = 0;
  private edits: Promise<unknown> = Promise.resolve();
  private readonly check = debounced(PAUSE, () => void this.checkNow());
  private readonly keepLayout = debounced(600, () => void api.layout(this.document.id, { nodes: this.places }).catch((error) => note(reason(error), true)));
  private readonly state = h("span", { class: "faint saved", role: "status" });
  private readonly problems = h("div", { class: "problems" });
  private readonly stale = h("p", { class: "stale", role: "status", hidden: true }, "The drawing shows the last text that could be read.");
  private readonly things = h("div", { class: "things", role: "group", "aria-label": "Flows and other tables" });
  /** The whole text, for paper: the editor has no more lines in it than it shows. */
  private readonly written = h("pre", { class: "written" });
  private readonly theirs = h("div", { class: "theirs", role: "alert", hidden: true });
  private readonly undoButton = h("button", { type: "button", onclick: () => this.editor.undo(), title: "Undo (Ctrl+Z)" }, "Undo");
  private readonly redoButton = h("button", { type: "button", onclick: () => this.editor.redo(), title: "Redo (Ctrl+Shift+Z)" }, "Redo");
  private readonly saveButton = h("button", { type: "button", onclick: () => void this.save(), title: "Save (Ctrl+S)" }, "Save");
  private readonly search = h("input", { type: "search", placeholder: "Find", class: "find", "aria-label": "Find in the drawing" });
  private readonly stop: (() => void)[] = [];

  constructor(private readonly host: HTMLElement, private readonly document: Opened, private readonly vocabulary: Vocabulary) {
    this.saved = document.text;
    this.revision = document.revision;
    this.places = document.layout.nodes ?? {};
    this.editor = new Editor(document.text, document.id, {
      changed: () => { this.showState(); this.check(); },
      moved: (places) => this.takePlaces(places),
    });
    this.drawing = new Drawing({
      selected: (key) => this.selected(key),
      opened: (key) => { this.selected(key); this.form.focus(); },
      moved: (to, from) => this.editor.move(to, from),
      connect: (from, to) => void this.connect(from, to, "link").then((refused) => refused && note(refused, true)),
      remove: (key) => void this.remove(key),
      copy: (key) => this.copy(key),
      paste: () => void this.paste(),
    });
    const context: FormContext = { document: document.id,
      graph: () => this.graph, checked: () => this.checked, vocabulary: () => this.vocabulary, text: () => this.editor.text,
      edit: (edits, select) => this.edit(edits, select), select: (key) => this.select(key), connect: (from, to, what) => this.connect(from, to, what),
      remove: (key) => void this.remove(key), copy: (key) => this.copy(key), change: null, packets: null,
      hits: this.hits, runAt: () => this.run.at(this.editor.text),
    };
    this.run = new Run({
      document: document.id, kind: document.kind, text: () => this.editor.text, graph: () => this.graph, checked: () => this.checked, vocabulary: () => this.vocabulary,
      changed: (text, before) => this.takeRunText(text, before),
      sampled: ({ values }) => { this.latest = values; this.hits.take(values); this.picture ||= window.setTimeout(() => this.showSample(), PICTURE); },
      began: () => { this.hits.clear(); this.drawing.clear(); this.form.refresh(); },
      select: (key) => this.select(key),
    });
    const run = this.run;
    Object.defineProperty(context, "change", { get: () => goes(run.job) && run.job?.kind === "run" ? (entity: string, words: string) => run.change(entity, words) : null });
    Object.defineProperty(context, "packets", { get: () => run.job ? (entity: string) => { window.document.getElementById("tab-Packets")?.click(); void run.packets.show(entity); } : null });
    this.form = new Form(context);
    this.build();
    this.listenAll();
    void this.checkNow();
  }

  private build(): void {
    const scenario = this.document.kind === "scenario";
    const name = this.document.id.split("/").slice(1).join("/");
    window.document.title = `${name} – Narrows`;
    const palette = h("div", { class: "palette", role: "toolbar", "aria-label": "Add" },
      h("button", { type: "button", onclick: () => void this.addNode("host") }, "Host"), h("button", { type: "button", onclick: () => void this.addNode("router") }, "Router"),
      this.menu("Element…", this.vocabulary.elements.map(({ name: value, summary }) => [value, summary]), (value) => void this.addElement(value)),
      this.menu("Table…", this.vocabulary.tables.filter(({ name: table, many }) => table && many !== false && !["host", "router", "link"].includes(table)).map(({ name: value, summary }) => [value, summary ?? ""]), (value) => void this.addTable(value)),
      h("button", { type: "button", title: "Name, duration, seed and what else stands above all tables", onclick: () => this.selected("scenario/") }, "Scenario"),
      h("span", { class: "grow" }), this.search,
      h("button", { type: "button", "aria-label": "Zoom out", onclick: () => this.drawing.zoom(0.8) }, "−"), h("button", { type: "button", "aria-label": "Zoom in", onclick: () => this.drawing.zoom(1.25) }, "+"),
      h("button", { type: "button", onclick: () => this.drawing.fit() }, "Fit"),
      h("button", { type: "button", title: "Forgets where nodes and links were moved to (can be undone)", onclick: () => this.layOut() }, "Lay out again"));
    put(this.host,
      h("header", { class: "bar" }, h("a", { href: "#/", class: "brand" }, h("img", { src: "/icon.svg", alt: "", width: "18", height: "18" }), "Narrows"), h("h1", {}, name), this.document.kind === "campaign" ? h("span", { class: "tag" }, "campaign") : null, this.state,
        h("span", { class: "grow" }), this.undoButton, this.redoButton, this.saveButton,
        h("button", { type: "button", onclick: () => void this.saveAs() }, "Save as…"), h("button", { type: "button", onclick: () => void showKeys() }, "Keys")),
      h("main", { class: scenario ? "workspace" : "workspace alone" }, this.theirs,
        scenario ? h("section", { class: "left", "aria-label": "Drawing" }, palette, this.stale, this.drawing.host, this.things, this.form.host) : null,
        h("section", { class: "right", "aria-label": "Text" }, this.editor.host, this.written, this.problems),
        this.run.host));
    this.search.addEventListener("input", () => this.drawing.find(this.search.value));
    let place = 0;
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { this.search.value = ""; this.drawing.find(""); this.drawing.focus(); }
      if (event.key !== "Enter") { place = 0; return; }
      const found = this.drawing.find(this.search.value);
      const key = found[(place + (event.shiftKey ? found.length - 1 : 0)) % Math.max(1, found.length)];
      place += 1;
      if (key) { this.drawing.select(key); this.drawing.reveal(key); }
    });
    this.showState();
  }

  /** A list of words to add, each with its sentence. */
  private menu(title: string, entries: [string, string][], add: (value: string) => void): HTMLElement | null {
    if (!entries.length) return null;
    const select = h("select", { "aria-label": `Add: ${title.replace("…", "")}` }, h("option", { value: "" }, title), ...entries.map(([value, summary]) => h("option", { value, title: summary }, value)));
    select.addEventListener("change", () => { const { value } = select; select.value = ""; if (value) add(value); });
    return select;
  }

  private listenAll(): void {
    this.stop.push(listen({
      job: (job) => { this.run.update(job); this.form.refresh(); },
      samples: (samples) => this.run.samples(samples),
      files: () => void this.lookForOthers(),
      connected: (yes) => { if (yes) void this.run.again(); this.host.classList.toggle("offline", !yes); },
    }));
    const paper = matchMedia("print");
    const printed = (yes: boolean) => { say(this.written, yes ? this.editor.text : ""); this.drawing.paper(yes); };
    // Pages are counted before the media query says that it changed.
    const [before, after, changed] = [() => printed(true), () => printed(false), () => printed(paper.matches)];
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    paper.addEventListener("change", changed);
    this.stop.push(() => { removeEventListener("beforeprint", before); removeEventListener("afterprint", after); paper.removeEventListener("change", changed); });
    const keys = (event: KeyboardEvent) => this.key(event);
    const leaving = (event: BeforeUnloadEvent) => { this.keepLayout.now(); if (this.dirty) event.preventDefault(); };
    addEventListener("keydown", keys);
    addEventListener("beforeunload", leaving);
    this.stop.push(() => removeEventListener("keydown", keys), () => removeEventListener("beforeunload", leaving));
  }

  /** Leaves the document. */
  close(): void {
    this.check.cancel();
    clearTimeout(this.picture);
    this.keepLayout.now();
    for (const stop of this.stop) stop();
    this.editor.destroy();
    this.run.close();
  }

  private takePlaces(places: Places): void {
    const all = Object.entries({ ...this.places, ...places });
    this.places = Object.fromEntries(all.filter((one): one is [string, Point] => one[1] !== null));
    this.drawing.setPositions(this.places);
    this.keepLayout();
    this.showState();
  }

  /** Forgets all places that were given by hand. */
  private layOut(): void {
    const names = Object.keys(this.places);
    if (!names.length) { note("Nothing was moved by hand."); return; }
    this.editor.move(Object.fromEntries(names.map((name) => [name, null])), { ...this.places });
    this.drawing.fit();
  }

  get dirty(): boolean { return this.editor.text !== this.saved; }

  private key(event: KeyboardEvent): void {
    if (window.document.querySelector("dialog[open]")) return;
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    const [first] = event.composedPath();
    const typing = first instanceof HTMLElement && (first.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(first.tagName));
    // The table whose button has the focus; of the drawing's things the drawing sees to keys itself.
    const chosen = first instanceof HTMLElement && this.things.contains(first) ? first.closest<HTMLElement>("[data-key]")?.dataset["key"] : undefined;
    if (command && key === "s") void this.save();
    else if (command && key === "enter") void this.run.start(false);
    else if (command && !typing && key === "z") event.shiftKey ? this.editor.redo() : this.editor.undo();
    else if (command && !typing && key === "y") this.editor.redo();
    else if (command && !typing && key === "f") { this.search.focus(); this.search.select(); }
    else if (command && !typing && key === "v") void this.paste();
    else if (command && key === "c" && chosen && !getSelection()?.toString()) this.copy(chosen);
    else if (/^(Delete|Backspace)$/.test(event.key) && chosen) void this.remove(chosen);
    else if (event.key === "F6") this.nextArea(event.shiftKey ? -1 : 1);
    else if (!typing && event.key === "/") { this.search.focus(); this.search.select(); }
    else if (!typing && event.key === "?") void showKeys();
    else if (!typing && event.key === " " && !(first instanceof HTMLButtonElement) && goes(this.run.job)) void this.run.toggle();
    else return;
    event.preventDefault();
  }

  private nextArea(way: number): void {
    const areas: [HTMLElement, () => void][] = [
      [this.drawing.host, () => this.drawing.focus()], [this.editor.host, () => this.editor.focus()],
      [this.form.host, () => this.form.focus()], [this.run.host, () => this.run.host.querySelector<HTMLElement>("button:not([hidden])")?.focus()],
    ];
    const shown = areas.filter(([host]) => host.isConnected && !host.hidden);
    const place = shown.findIndex(([host]) => host.contains(window.document.activeElement));
    shown[(place + way + shown.length) % shown.length]?.[1]();
  }

  // The text and what the server reads in it.

  private async checkNow(): Promise<void> {
    const text = this.editor.text;
    try {
      const checked = await api.check(text, this.document.id);
      if (text === this.editor.text) this.take(checked);
    } catch (error) { say(this.state, reason(error)); }
  }

  private take(checked: Checked): void {
    this.checked = checked;
    this.stale.hidden = checked.graph !== null || this.document.kind !== "scenario";
    if (checked.graph) {
      this.graph = complete(checked.graph);
      if (this.document.kind === "scenario") this.drawing.show(this.graph, this.places);
    }
    this.drawing.findings(checked.findings);
    this.editor.findings(checked.findings);
    this.listThings();
    this.run.listPlaces();
    this.form.refresh();
    const rows = checked.findings.slice(0, 50).map((finding) => h("li", { class: finding.severity },
      h("button", { type: "button", class: "word", onclick: () => { this.editor.show(finding.line ?? 1, true); this.editor.focus(); } }, finding.line ? `line ${finding.line}` : finding.key ?? "file"), " ", finding.message, finding.hint ? h("small", {}, ` ${finding.hint}`) : null));
    put(this.problems, rows.length ? h("ul", { "aria-label": "Findings" }, ...rows) : h("p", { class: "faint" }, "nothing wrong"));
    this.showState();
  }

  private showState(): void {
    const { writable, kind } = this.document;
    const state = this.dirty ? "not saved" : !writable ? `from the catalogue: save it as a file to keep changes` : "";
    say(this.state, state || (kind === "campaign" ? "" : "saved"));
    this.undoButton.disabled = !this.editor.canUndo;
    this.redoButton.disabled = !this.editor.canRedo;
    this.saveButton.disabled = !this.dirty || !writable;
  }

  /** Asks for an edit of the text. One after the other, each of the text that the one before made. */
  private edit(edits: Edit[], select?: string): Promise<string | null> {
    const run = async (): Promise<string | null> => {
      for (let turn = 0; turn < 3; turn += 1) {
        const before = this.editor.text;
        try {
          const { text, along, ...checked } = await api.edit(before, edits, this.document.id);
          if (this.editor.text !== before) continue;
          if (along?.length) note(`removed with it: ${along.join(", ")}`);
          this.editor.replace(text);
          this.check.cancel();
          if (select) this.selection = select;
          this.take(checked);
          if (select) this.select(select);
          return null;
        } catch (error) { return error instanceof Refused && error.findings[0] ? error.findings[0].message : reason(error); }
      }
      return "the text changed at the same time; try again";
    };
    const result = this.edits.then(run);
    this.edits = result;
    return result;
  }

  private async tell(edits: Edit[], select?: string): Promise<void> {
    const refused = await this.edit(edits, select);
    if (refused) note(refused, true);
  }

  private takeRunText(text: string, before: string): void {
    if (this.editor.text === before) this.editor.replace(text);
    else void choose("The run's text has a change, and so has yours", ["The [[change]] is in the run's text. The text here was edited since the run began."], [["mine", "Keep the text here"], ["run", "Take the run's text (can be undone)"]])
      .then((answer) => { if (answer === "run") this.editor.replace(text); });
  }

  // What is selected.

  private selected(key: string | null): void {
    this.selection = key;
    this.form.show(key);
    const line = key ? this.lineOf(key) : null;
    if (line) this.editor.show(line);
    this.markFlow(key);
  }
  private select(key: string): void { this.drawing.select(key); this.drawing.reveal(key); this.listThings(); }

  private entries(): { key: string; table: string; entry: Entry }[] {
    return [...(this.graph?.flows ?? []).map((entry) => ({ table: entry.table || "flow", entry })), ...(this.graph?.others ?? []).map((entry) => ({ table: entry.table || entry.kind, entry }))]
      .map(({ table, entry }) => ({ key: `${table}/${entry.name}`, table, entry }));
  }

  private lineOf(key: string): number | null {
    if (!this.graph) return null;
    const [kind, name = ""] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    if (kind === "scenario") return 1;
    if (kind === "host") return this.graph.nodes.find((node) => node.name === name)?.line ?? null;
    if (kind === "link") return elementAt(this.graph, key)?.element.line ?? this.graph.links.find((link) => link.name === name)?.line ?? null;
    return this.entries().find((one) => one.key === key)?.entry.line ?? null;
  }

  private markFlow(key: string | null): void {
    const flow = this.graph?.flows.find((one) => `${one.table || "flow"}/${one.name}` === key);
    this.drawing.flow(flow ? [flow.from, flow.to] : []);
    for (const button of this.things.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset["key"] === key));
  }

  /** Flows and other tables that are no nodes: a strip below the drawing. */
  private listThings(): void {
    const flows = new Map(this.graph?.flows.map((flow) => [flow as Entry, flow]) ?? []);
    const held = this.things.contains(window.document.activeElement) ? (window.document.activeElement as HTMLElement).dataset["key"] : undefined;
    put(this.things, ...this.entries().slice(0, 120).map(({ key, table, entry }) => {
      const flow = flows.get(entry);
      return h("button", { type: "button", class: "thing", "data-key": key, "aria-pressed": String(key === this.selection), onclick: () => this.selected(key) },
        h("span", { class: "faint" }, table), ` ${entry.name} `, flow ? h("span", { class: "faint" }, `${flow.from} → ${flow.to}${flow.control ? `, ${flow.control}` : ""}`) : null, h("span", { class: "live" }));
    }));
    if (held) [...this.things.querySelectorAll("button")].find(({ dataset }) => dataset["key"] === held)?.focus();
  }

  /** Shows the latest sample; those that came since the one before are in the plots. */
  private showSample(): void {
    this.picture = 0;
    this.drawing.samples(this.latest, this.hits);
    this.form.showHits();
    this.showFlows(this.latest);
    this.run.showProgress();
  }

  private showFlows(values: Record<string, Record<string, number>>): void {
    for (const button of this.things.querySelectorAll<HTMLElement>("button")) {
      const value = values[button.dataset["key"] ?? ""];
      const rate = value?.["goodput_mbit"];
      const live = button.querySelector(".live");
      if (live && rate !== undefined) say(live, ` ${rate.toFixed(1)} Mbit/s`);
    }
  }

  // Adding, removing, copying.

  private names(table: string): string[] {
    if (table === "host" || table === "router") return this.graph?.nodes.map(({ name }) => name) ?? [];
    if (table === "link") return this.graph?.links.map(({ name }) => name) ?? [];
    return this.entries().map(({ entry }) => entry.name);
  }

  private addNode(table: "host" | "router"): Promise<void> {
    const name = fresh(`${table}-1`, this.names(table));
    return this.tell([{ op: "add", table, values: { name } }], `host/${name}`);
  }

  private async addElement(name: string, words?: string): Promise<void> {
    const kind = this.vocabulary.elements.find((one) => one.name === name);
    const text = words ?? (kind ? sample(kind) : name);
    const at = this.selection && this.graph ? elementAt(this.graph, this.selection) : null;
    const link = at?.link ?? this.graph?.links.find((one) => `link/${one.name}` === this.selection) ?? (this.graph?.links.length === 1 ? this.graph.links[0] : undefined);
    if (!link) { note("Select the link or the element first behind which it is to stand."); return; }
    const direction = at?.direction ?? "up";
    const index = at ? at.index + 1 : link[direction].length;
    const edits: Edit[] = [{ op: "element", link: link.name, direction, index, action: "insert", text }];
    // A box stands in both directions, in the other one where what comes back passes it.
    if (this.vocabulary.boxes.some((box) => box.name === name)) {
      const other = direction === "up" ? "down" : "up";
      edits.push({ op: "element", link: link.name, direction: other, index: Math.min(link[other].length, link[direction].length - index), action: "insert", text });
    }
    await this.tell(edits);
  }

  private async connect(from: string, to: string, what: "link" | "flow"): Promise<string | null> {
    if (what === "link") {
      const name = fresh(this.names("link").length ? "link-1" : "access", this.names("link"));
      return this.edit([{ op: "add", table: "link", values: { name, ends: [from, to], up: ["netem delay 10ms"], down: ["netem delay 10ms"] } }], `link/${name}`);
    }
    const name = fresh("flow-1", this.names("flow"));
    const control = this.vocabulary.controls.find((one) => one.name === "cubic")?.name ?? this.vocabulary.controls[0]?.name ?? "cubic";
    const refused = await this.edit([{ op: "add", table: "flow", values: { name, from, to, cc: control } }]);
    if (refused === null) this.selected(`flow/${name}`);
    return refused;
  }

  private async addTable(table: string): Promise<void> {
    const declared = this.vocabulary.tables.find((one) => one.name === table);
    const name = fresh(`${table}-1`, this.names(table));
    const [first, second] = this.graph?.nodes ?? [];
    const guess: Values = { from: first?.name, to: second?.name, host: first?.name, cc: "cubic", at: "1s" };
    const values: Values = {};
    for (const key of declared?.keys ?? []) {
      if (key.name === "name") values["name"] = name;
      else if ((key.required || (table === "flow" && key.name === "cc")) && guess[key.name] !== undefined) values[key.name] = guess[key.name];
    }
    await this.tell([{ op: "add", table, values }]);
    if (this.entries().some(({ key }) => key === `${table}/${name}`)) this.selected(`${table}/${name}`);
  }

  private async remove(key: string): Promise<void> {
    if (!this.graph) return;
    const [kind, name = ""] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    const at = elementAt(this.graph, key);
    if (at) await this.tell([{ op: "element", link: at.link.name, direction: at.direction, index: at.index, action: "remove" }]);
    else if (kind === "host") {
      const node = this.graph.nodes.find((one) => one.name === name);
      const links = this.graph.links.filter(({ ends }) => ends.includes(name));
      const flows = this.graph.flows.filter((flow) => flow.from === name || flow.to === name);
      if (links.length + flows.length) {
        const answer = await choose(`Remove ${name}?`, [`${[...links.map((one) => `link ${one.name}`), ...flows.map((one) => `flow ${one.name}`)].join(", ")} will be removed with it.`], [["no", "Cancel"], ["yes", "Remove"]]);
        if (answer !== "yes") return;
      }
      await this.tell([{ op: "remove", table: node?.table || "host", name }]);
    } else await this.tell([{ op: "remove", table: kind, name }]);
    if (this.selection === key) this.selected(null);
  }

  private copy(key: string): void {
    if (!this.graph) return;
    const at = elementAt(this.graph, key);
    const [kind, name = ""] = [key.slice(0, key.indexOf("/")), key.slice(key.indexOf("/") + 1)];
    if (at) copied = { what: "element", text: at.element.text };
    else {
      const entry = kind === "host" ? this.graph.nodes.find((one) => one.name === name) : kind === "link" ? this.graph.links.find((one) => one.name === name) : this.entries().find((one) => one.key === key)?.entry;
      if (!entry) return;
      const table = kind === "host" ? entry.table || (entry as { kind?: string }).kind || "host" : kind;
      // An address belongs to one node alone.
      const { ipv4: _4, ipv6: _6, ...values } = entry.values ?? {};
      copied = { what: "table", table, base: name, values };
    }
    note(`copied ${key}`);
  }

  private async paste(): Promise<void> {
    if (!copied) return;
    if (copied.what === "element") { await this.addElement(copied.text.split(" ")[0] ?? "", copied.text); return; }
    const { table, base, values } = copied;
    const name = fresh(/\d$/.test(base) ? base : `${base}-2`, this.names(table));
    await this.tell([{ op: "add", table, values: { ...values, name } }], `${table === "router" ? "host" : table}/${name}`);
  }

  // Saving.

  async save(): Promise<void> {
    if (!this.document.writable) { await this.saveAs(); return; }
    const text = this.editor.text;
    try {
      const { revision } = await api.save(this.document.id, text, this.revision);
      this.revision = revision;
      this.saved = text;
      this.theirs.hidden = true;
      this.showState();
      note("saved");
    } catch (error) {
      const current = error instanceof Refused && error.status === 409 ? error.body["current"] as { text: string; revision: string } | undefined : undefined;
      if (!current) { note(reason(error), true); return; }
      this.conflict(current.text, current.revision);
    }
  }

  private conflict(text: string, revision: string): void {
    this.theirs.hidden = false;
    put(this.theirs, h("span", {}, "Others changed this file since it was opened here. "),
      h("button", { type: "button", onclick: () => { this.revision = revision; this.saved = text; this.editor.replace(text); this.theirs.hidden = true; this.showState(); } }, "Take theirs (can be undone)"),
      h("button", { type: "button", onclick: () => { this.revision = revision; void this.save(); } }, "Overwrite with mine"),
      h("button", { type: "button", onclick: () => void this.saveAs() }, "Save mine as…"));
  }

  private async lookForOthers(): Promise<void> {
    if (!this.document.writable) return;
    const now = await api.open(this.document.id).catch(() => null);
    if (!now || now.revision === this.revision) return;
    if (this.dirty && now.text !== this.editor.text) this.conflict(now.text, now.revision);
    else {
      const news = now.text !== this.editor.text;
      this.revision = now.revision;
      this.saved = now.text;
      this.editor.replace(now.text);
      if (news) note("the file was changed by others, and read again");
      this.showState();
    }
  }

  private async saveAs(): Promise<void> {
    const own = `${this.document.id.split("/").pop()?.replace(/\.toml$/, "") ?? "scenario"}.toml`;
    const given = await askLine("Save as", "Name of the file, below the folder", own, "Save");
    if (!given) return;
    const id = `file/${given.endsWith(".toml") ? given : `${given}.toml`}`;
    try {
      await api.save(id, this.editor.text, null);
      if (Object.keys(this.places).length) await api.layout(id, { nodes: this.places });
      this.saved = this.editor.text;
      location.hash = href(id);
    } catch (error) {
      note(error instanceof Refused && error.status === 409 ? `${given} is there already; choose another name` : reason(error), true);
    }
  }
}
