// The start page: files of the folder, the catalogue, results.
import { api, reason, type Cells, type DocumentEntry, type Job, type ResultEntry } from "./api";
import { askLine, note } from "./dialogs";
import { h, put } from "./dom";
import { listen } from "./stream";

/** The text that a new scenario begins with; the rest is drawn. */
const NEW = (name: string) => `version  = 1\nname     = ${JSON.stringify(name)}\nduration = "30s"\n`;

/** Results, and runs of the store, that are shown at once; the filter finds the others. */
const SHOWN = 60;
const time = (utc: string) => utc.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");

export const link = (id: string) => `#/${id.split("/").map(encodeURIComponent).join("/")}`;

export function start(host: HTMLElement): () => void {
  let documents: DocumentEntry[] = [];
  let results: ResultEntry[] = [];
  let jobs: Job[] = [];
  let store: Cells = { all: 0, cells: [] };
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter files, catalogue and results", oninput: () => show() });
  const files = h("section", { "aria-label": "Files" });
  const running = h("section", { "aria-label": "Running" });
  const catalogue = h("section", { "aria-label": "Catalogue" });
  const past = h("section", { "aria-label": "Results" });
  const kept = h("section", { "aria-label": "Store" });
  const about = h("p", { class: "faint" });
  put(host,
    h("header", { class: "bar" }, h("h1", { class: "brand" }, h("img", { src: "/icon.svg", alt: "", width: "18", height: "18" }), "Narrows"), h("span", { class: "grow" }), filter,
      h("button", { type: "button", class: "first", onclick: () => void create() }, "New scenario")),
    h("main", { class: "start" }, h("div", { class: "left-column" }, running, files, past, kept), catalogue, about));
  document.title = "Narrows";

  const matches = (...words: (string | undefined)[]) => {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const all = words.join(" ").toLowerCase();
    return wanted.every((word) => all.includes(word));
  };
  const item = ({ id, name, kind, summary }: DocumentEntry) => h("li", {},
    h("a", { href: link(id) }, name), kind === "campaign" ? h("span", { class: "tag" }, "campaign") : null,
    summary ? h("span", { class: "faint" }, summary) : null);
  const section = (host: HTMLElement, title: string, rows: HTMLElement[], empty: string) => put(host,
    h("h2", {}, title, h("small", {}, ` ${rows.length}`)), rows.length ? h("ul", { class: "list" }, ...rows) : h("p", { class: "faint" }, filter.value ? "nothing matches" : empty));

  function show(): void {
    const live = jobs.filter(({ state }) => state === "running" || state === "paused");
    running.hidden = !live.length;
    section(running, "Running", live.map((job) => h("li", {},
      job.document ? h("a", { href: link(job.document) }, job.name) : h("span", {}, job.name), h("span", { class: "tag" }, job.state))), "");
    section(files, "Files", documents.filter(({ source, id, name, summary }) => source === "folder" && matches(id, name, summary)).map(item), "no scenario in this folder yet: begin a new one, or open one of the catalogue");
    const entries = documents.filter(({ source, id, name, summary }) => source === "catalog" && matches(id, name, summary));
    section(catalogue, "Catalogue", entries.map(item), "the catalogue is empty");
    section(past, "Results", results.filter(({ name, engine }) => matches(name, engine)).slice(0, SHOWN).map((result) => {
      const trusted = result.trust === true || result.trust === "yes";
      return h("li", {},
        result.report ? h("a", { href: result.report, target: "_blank", rel: "noopener" }, result.name) : h("span", {}, result.name),
        result.engine ? h("span", { class: "tag" }, result.engine) : null,
        result.complete === false ? h("span", { class: "tag no" }, "incomplete") : result.trust === undefined || result.trust === null ? null
          : h("span", { class: trusted ? "tag yes" : "tag no" }, trusted ? "trust: yes" : "trust: no"),
        result.time ? h("span", { class: "faint" }, time(result.time)) : null);
    }), "no results yet");
    kept.hidden = !store.all;
    section(kept, "Store", store.cells.filter(({ of, engine, version }) => matches(of, engine, version)).slice(0, SHOWN).map((cell) => h("li", {},
      h("a", { href: cell.report, target: "_blank", rel: "noopener" }, cell.of), h("span", { class: "tag" }, cell.engine),
      h("span", { class: "faint" }, `seed ${cell.seed}, ${cell.version}${cell.series ? "" : ", summary alone"}, ${time(cell.time)}`))), "");
    if (store.all > store.cells.length) kept.append(h("p", { class: "faint" }, `the newest ${store.cells.length} of ${store.all.toLocaleString("en")} runs in ${store.folder ?? ""}; narrows store list shows all`));
  }

  async function load(): Promise<void> {
    try {
      const [all, done, now] = await Promise.all([api.documents(), api.results().catch(() => ({ results: [] })), api.jobs().catch(() => ({ jobs: [] }))]);
      documents = all.documents;
      results = done.results;
      jobs = now.jobs;
      show();
    } catch (error) {
      put(files, h("p", { class: "no-text" }, reason(error)));
    }
  }

  async function create(): Promise<void> {
    const given = await askLine("New scenario", "Name of the file, below the folder", "scenario.toml", "Create");
    if (!given) return;
    const name = given.endsWith(".toml") ? given : `${given}.toml`;
    try {
      await api.save(`file/${name}`, NEW(name.split("/").pop()?.replace(/\.toml$/, "") ?? name), null);
      location.hash = link(`file/${name}`);
    } catch (error) { note(reason(error), true); }
  }

  // It changes with campaigns of the command line, and may be large.
  api.store().then((cells) => { store = cells; show(); }).catch(() => undefined);
  void load();
  api.about().then(({ version, folder, engines }) => {
    put(about, `narrows ${version} · ${folder} · `, ...engines.flatMap(({ name, available, why }, place) =>
      [place ? ", " : "", available ? name : h("span", { title: why ?? "" }, `${name} (not here${why ? `: ${why}` : ""})`)]));
  }).catch((error) => put(about, reason(error)));
  return listen({ files: () => void load(), job: () => void load(), connected: (yes) => { if (yes) void load(); } });
}
