// Lines of words, as forms show them. What the words mean is the server's: a line is divided at spaces and
// brackets, and a parameter is found by the names that the vocabulary declares for it.
import type { Declared, Parameter } from "./api";

/** The words of a line; what stands in brackets is one word. */
export function split(text: string): string[] {
  const words: string[] = [];
  let depth = 0;
  let word = "";
  for (const c of text) {
    if (c === " " && depth === 0) {
      if (word) words.push(word);
      word = "";
      continue;
    }
    if (c === "(") depth += 1;
    if (c === ")") depth -= 1;
    word += c;
  }
  if (word) words.push(word);
  return words;
}

/** An element's own name and its words: `bottleneck: rate 50Mbit`. */
export function named(text: string): { name: string; words: string } {
  const found = /^\s*([^\s:()]+):\s+(.*)$/s.exec(text);
  return found ? { name: found[1] ?? "", words: found[2] ?? "" } : { name: "", words: text.trim() };
}

/** Whether an element is a box by rules. */
export const isBox = (element: { text: string }): boolean => split(named(element.text).words)[0] === "mmb";

/** The declared kind that begins a line: the one with most words that fit. */
export function kindOf(words: string[], declared: Declared[]): Declared | undefined {
  const fits = declared.filter(({ name }) => name.split(" ").every((word, place) => words[place] === word));
  return fits.sort((a, b) => b.name.split(" ").length - a.name.split(" ").length)[0];
}

/** Where a parameter's words stand: from its name (or its value) up to but without `to`. */
export interface Place { parameter: Parameter; from: number; to: number; name: string; value: string }

/** Finds the parameters of a kind in a line. Words that no parameter names belong to the one before. */
export function places(words: string[], kind: Declared): Place[] {
  const found: Place[] = [];
  const positional = kind.parameters.filter((parameter) => parameter.names.length === 0);
  const toEnd = (parameter: Parameter) => /…$|\.\.\.$/.test(parameter.usage);
  let at = kind.name.split(" ").length;
  let open: Place | undefined;
  while (at < words.length) {
    const word = words[at] ?? "";
    const parameter = kind.parameters.find(({ names }) => names.includes(word));
    if (parameter) {
      const flag = parameter.kind === "flag";
      const last = flag ? at + 1 : toEnd(parameter) ? words.length : Math.min(at + 2, words.length);
      open = { parameter, from: at, to: last, name: word, value: words.slice(at + 1, last).join(" ") };
      found.push(open);
      at = last;
      continue;
    }
    if (open && !(open.parameter.kind === "flag")) {
      open.to = at + 1;
      open.value = words.slice(open.name ? open.from + 1 : open.from, open.to).join(" ");
    } else {
      const next = positional.shift();
      if (next) {
        open = { parameter: next, from: at, to: at + 1, name: "", value: word };
        found.push(open);
      }
    }
    at += 1;
  }
  return found;
}

/** The line with another value of one parameter; an empty one takes it out. */
export function withValue(text: string, kind: Declared, parameter: Parameter, value: string | boolean): string {
  const { name, words } = named(text);
  const list = split(words);
  const place = places(list, kind).find((found) => found.parameter === parameter);
  const own = parameter.names[0];
  const next: string[] = value === false || value === "" ? []
    : parameter.kind === "flag" ? [typeof value === "string" ? value : own ?? ""]
    : [...(own === undefined ? [] : [place?.name || own]), ...split(String(value))];
  if (place) list.splice(place.from, place.to - place.from, ...next);
  else {
    // Before what goes up to the end of the line, and a value without a name right behind the kind.
    const before = own === undefined ? kind.name.split(" ").length
      : places(list, kind).find((found) => /…$/.test(found.parameter.usage))?.from ?? list.length;
    list.splice(before, 0, ...next);
  }
  return (name ? `${name}: ` : "") + list.join(" ");
}

/** The line with another value of the queue's parameter: the words behind `queue` are a line of their own. */
export function withinQueue(text: string, element: Declared, change: (queue: string) => string): string {
  const parameter = element.parameters.find(({ names }) => names.includes("queue"));
  if (!parameter) return text;
  const found = places(split(named(text).words), element).find((place) => place.parameter === parameter);
  return withValue(text, element, parameter, change(found?.value ?? ""));
}

/** A name that is not taken: `host-3`. */
export function fresh(base: string, taken: Iterable<string>): string {
  const all = new Set(taken);
  const stem = base.replace(/-\d+$/, "");
  if (!all.has(base)) return base;
  for (let n = 2; ; n += 1) if (!all.has(`${stem}-${n}`)) return `${stem}-${n}`;
}

/** The one replacement that makes `to` of `from`, so that cursors and history stay where they were. */
export function difference(from: string, to: string): { from: number; to: number; insert: string } | null {
  if (from === to) return null;
  let start = 0;
  const most = Math.min(from.length, to.length);
  while (start < most && from[start] === to[start]) start += 1;
  let end = 0;
  while (end < most - start && from[from.length - 1 - end] === to[to.length - 1 - end]) end += 1;
  return { from: start, to: from.length - end, insert: to.slice(start, to.length - end) };
}
