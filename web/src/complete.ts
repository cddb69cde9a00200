// Completion of a field, as the server completes the text of which its words become a part.
import { api } from "./api";
import { debounced, h, put } from "./dom";

/** Milliseconds after the last key. */
const PAUSE = 120;
/** Words that are offered. */
const MOST = 40;

/** A text with a place in it, both from 1. */
export interface TextAt { text: string; line: number; column: number }

let lists = 0;

/** A field that offers these words. */
export function suggest(input: HTMLInputElement, words: () => string[]): HTMLDataListElement {
  lists += 1;
  const list = h("datalist", { id: `words-${lists}` }, ...words().map((word) => h("option", { value: word })));
  input.setAttribute("list", list.id);
  input.addEventListener("focus", () => { input.after(list); }, { once: true });
  return list;
}

/** Completes a field by the text that `place` makes of what is typed and of where the cursor is. */
export function completeFrom(input: HTMLInputElement, place: (value: string, caret: number) => TextAt | null, document: string): void {
  const list = suggest(input, () => []);
  const ask = debounced(PAUSE, async () => {
    const caret = input.selectionStart ?? input.value.length;
    const at = place(input.value, caret);
    if (!at) return;
    const { items, typed } = await api.complete(at.text, at.line, at.column, document).catch(() => ({ items: [], typed: undefined }));
    const before = typed === undefined ? input.value.slice(0, caret).replace(/[^\s(]*$/, "") : input.value.slice(0, Math.max(0, caret - typed));
    put(list, ...items.slice(0, MOST).map(({ insert, detail }) => h("option", { value: before + insert + input.value.slice(caret), ...(detail ? { label: `${insert} – ${detail}` } : {}) })));
  });
  input.addEventListener("input", ask);
  input.addEventListener("focus", ask);
}
