// Questions and lists above the page, as <dialog>: the browser holds the focus inside and gives it back.
import type { Program } from "./api";
import { h } from "./dom";

function modal<T>(title: string, content: (done: (value: T) => void) => Node[], otherwise: T): Promise<T> {
  return new Promise((resolve) => {
    let value = otherwise;
    const dialog = h("dialog", { "aria-label": title });
    const done = (given: T) => { value = given; dialog.close(); };
    dialog.append(h("h2", {}, title), ...content(done));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(value); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks for one line; null if the answer is no. */
export function askLine(title: string, label: string, value: string, action: string): Promise<string | null> {
  return modal<string | null>(title, (done) => {
    const input = h("input", { type: "text", value, required: true, id: "asked", autocomplete: "off", spellcheck: "false" });
    const form = h("form", { method: "dialog" },
      h("label", { for: "asked" }, label), input,
      h("p", { class: "actions" }, h("button", { type: "button", onclick: () => done(null) }, "Cancel"), h("button", { type: "submit", class: "first" }, action)));
    form.addEventListener("submit", (event) => { event.preventDefault(); if (input.value.trim()) done(input.value.trim()); });
    queueMicrotask(() => input.select());
    return [form];
  }, null);
}

/** Asks to choose one of some answers; null if none was chosen. */
export function choose<T extends string>(title: string, words: string[], answers: [T, string][]): Promise<T | null> {
  return modal<T | null>(title, (done) => [
    ...words.map((text) => h("p", {}, text)),
    h("p", { class: "actions" }, ...answers.map(([value, text], place) =>
      h("button", { type: "button", class: place === answers.length - 1 ? "first" : null, onclick: () => done(value) }, text))),
  ], null);
}

/** Shows the programs that a scenario starts, and asks. */
export function askPrograms(programs: Program[]): Promise<boolean> {
  return modal<boolean>("This scenario starts programs on this machine", (done) => [
    h("p", {}, "They run with the rights of whoever started narrows web. Run them only if you know where the file is from."),
    h("div", { class: "scroll", tabindex: "0" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", {}, "host"), h("th", {}, "program"))),
      h("tbody", {}, ...programs.map(({ host, argv }) => h("tr", {}, h("th", { scope: "row" }, host), h("td", { class: "left" }, h("code", {}, argv.map(quoted).join(" ")))))))),
    h("p", { class: "actions" }, h("button", { type: "button", onclick: () => done(false) }, "Do not run"), h("button", { type: "button", class: "first", onclick: () => done(true) }, "Run these programs")),
  ], false);
}
/** A word as a shell reads it. */
export const quoted = (word: string) => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

const KEYS: [string, string][] = [
  ["Ctrl+S", "save"], ["Ctrl+Z, Ctrl+Shift+Z", "undo, redo: text, drawing and positions"], ["Ctrl+Enter", "run"],
  ["Ctrl+F", "in the text: find and replace"], ["/", "find in the drawing"], ["F6", "drawing, text, form, run in turn"],
  ["arrows", "in the drawing: to the next node, link or element"], ["Enter", "in the drawing: to its form"],
  ["Shift+arrows", "move a node or link"], ["Alt+arrows, + − 0", "pan, zoom in and out, fit"],
  ["Delete", "remove"], ["Ctrl+C, Ctrl+V", "copy a node, link, element or flow"], ["Esc, then Tab", "leave the text"],
  ["Space", "pause or go on (outside of fields)"], ["?", "this list"],
];

/** The list of keys. */
export function showKeys(): Promise<null> {
  return modal<null>("Keys", (done) => [
    h("dl", { class: "keys" }, ...KEYS.flatMap(([keys, what]) => [h("dt", {}, keys), h("dd", {}, what)])),
    h("p", { class: "actions" }, h("button", { type: "button", class: "first", onclick: () => done(null) }, "Close")),
  ], null);
}

/** One line at the foot of the page that goes by itself; it is read aloud. */
export function note(text: string, wrong = false): void {
  const area = document.getElementById("notes") ?? document.body.appendChild(h("div", { id: "notes", role: "status", "aria-live": "polite" }));
  const line = h("div", { class: wrong ? "note wrong" : "note" }, text);
  area.append(line);
  while (area.childElementCount > 4) area.firstElementChild?.remove();
  setTimeout(() => line.remove(), wrong ? 12_000 : 5_000);
}
