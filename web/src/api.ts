// The server's answers and requests, as its OpenAPI description has them.

export interface Engine { name: string; available: boolean; why?: string }
export interface About { version: string; folder: string; engines: Engine[] }
export interface DocumentEntry { id: string; name: string; kind: "scenario" | "campaign"; source: "folder" | "catalog"; summary?: string }
export interface Point { x: number; y: number }
export interface Layout { nodes?: Record<string, Point> }
/** Places by name; null where there is none of one's own. */
export type Places = Record<string, Point | null>;
export interface Opened { id: string; kind: "scenario" | "campaign"; text: string; revision: string; writable: boolean; layout: Layout }
export interface Finding { severity: "error" | "note"; line?: number; column?: number; key?: string; entity?: string; message: string; hint?: string }
export type Values = Record<string, unknown>;
export interface Entry { name: string; line: number; table?: string; values?: Values }
export interface GraphNode extends Entry { kind: "host" | "router"; apps: string[]; detail?: string }
export interface GraphElement { name?: string; text: string; kind: string; line: number; entity?: string; rate_mbit?: number }
export interface GraphLink extends Entry { ends: [string, string]; up: GraphElement[]; down: GraphElement[] }
export interface GraphFlow extends Entry { kind: string; from: string; to: string; control?: string }
export interface GraphOther extends Entry { kind: string }
export interface Graph { values?: Values; nodes: GraphNode[]; links: GraphLink[]; flows: GraphFlow[]; others: GraphOther[] }
export interface Program { host: string; argv: string[] }
export interface BoxTime { from_s: number; rules: string[]; all: number }
export interface BoxRules { name: string; source: "words" | "ready" | "file"; times: BoxTime[] }
export interface Checked { findings: Finding[]; graph: Graph | null; duration_s?: number; boxes?: BoxRules[]; programs?: Program[]; programs_digest?: string }
export type Edit =
  | { op: "add"; table: string; values: Values }
  | { op: "set"; table: string; name: string; key: string; value: unknown }
  | { op: "remove"; table: string; name: string }
  | { op: "rename"; table: string; name: string; to: string }
  | { op: "element"; link: string; direction: "up" | "down" | "both"; index: number; action: "insert" | "replace" | "remove" | "move"; text?: string; to?: number };
export interface Parameter { usage: string; names: string[]; kind: string; unit: string; allowed: string; default: string; summary: string; choices: string[] }
export interface Declared { name: string; summary: string; parameters: Parameter[] }
export interface TableKey { name: string; type: string; summary: string; required: boolean; values?: string[] }
export interface Table { name: string; summary?: string; many?: boolean; keys: TableKey[] }
export interface Vocabulary { elements: Declared[]; queues: Declared[]; controls: Declared[]; boxes: Declared[]; tables: Table[] }
export interface Completion { label: string; insert: string; detail?: string }
export interface JobResult { folder: string; digest: string; trust: boolean; verdict: string[]; table: unknown[]; text?: string; report?: string }
export interface Change { at_s?: number; [key: string]: unknown }
export interface Job {
  id: string; kind: "run" | "campaign" | "compare"; name: string; document?: string; engine?: string; seed?: number; speed?: number | null; pace?: boolean;
  state: "running" | "paused" | "done" | "failed" | "cancelled";
  progress: { virtual_s?: number; duration_s?: number; done?: number; total?: number; doing?: string };
  error?: string | { message: string }; result?: JobResult; changes?: Change[];
}
export interface Samples { job: string; t_s: number; values: Record<string, Record<string, number>> }
export interface Packet { id: string | number; t_s: number; flow?: string; place: string; what: string; bytes: number; ecn?: string }
export interface PacketStep { t_s: number; place: string; what: string; detail?: string }
export interface ResultEntry { name: string; engine?: string; trust?: boolean | string; complete?: boolean; time?: string; report?: string }

export interface Cell { name: string; of: string; engine: string; seed: number; version: string; series: boolean; bytes: number; time: string; report: string }
export interface Cells { folder?: string; all: number; cells: Cell[] }
export interface Topology { name: string; document?: string; hosts: { host: string; command: string }[]; down: string }

/** A request that the server refused, with its status and all that it said. */
export class Refused extends Error {
  constructor(readonly status: number, message: string, readonly body: Record<string, unknown>) { super(message); }
  get hint(): string | undefined { return (this.body["error"] as { hint?: string } | undefined)?.hint; }
  get findings(): Finding[] { return (this.body["findings"] as Finding[] | undefined) ?? []; }
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(`/api/v1/${path}`, method === "GET" ? {} : {
      method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body ?? {}),
    });
  } catch {
    throw new Refused(0, "the server does not answer (is `narrows web` still running?)", {});
  }
  const text = await response.text();
  let read: Record<string, unknown> = {};
  try { read = text ? JSON.parse(text) as Record<string, unknown> : {}; } catch { /* the status says it */ }
  if (response.ok) return read as T;
  const error = read["error"] as { message?: string; hint?: string } | undefined;
  const message = error?.message ?? (response.status === 401
    ? "this browser has no leave (open the address that `narrows web` printed)" : `the server answered ${response.status}`);
  throw new Refused(response.status, message, read);
}

/** An id as a path: its slashes stay. */
const path = (id: string) => id.split("/").map(encodeURIComponent).join("/");

export const api = {
  about: () => ask<About>("GET", "about"),
  documents: () => ask<{ documents: DocumentEntry[] }>("GET", "documents"),
  open: (id: string) => ask<Opened>("GET", `documents/${path(id)}`),
  save: (id: string, text: string, revision: string | null) => ask<{ revision: string }>("PUT", `documents/${path(id)}`, { text, revision }),
  layout: (id: string, layout: Layout) => ask<object>("PUT", `layouts/${path(id)}`, layout),
  check: (text: string, document: string) => ask<Checked>("POST", "check", { text, document }),
  edit: (text: string, edits: Edit[], document: string) => ask<Checked & { text: string; along?: string[] }>("POST", "edit", { text, edits, document }),
  vocabulary: () => ask<Vocabulary>("GET", "vocabulary"),
  complete: (text: string, line: number, column: number, document: string) => ask<{ typed?: number; items: Completion[] }>("POST", "complete", { text, line, column, document }),
  start: (job: Values) => ask<{ job: string }>("POST", "jobs", job),
  jobs: () => ask<{ jobs: Job[] }>("GET", "jobs"),
  job: (id: string) => ask<Job>("GET", `jobs/${path(id)}`),
  jobText: (id: string) => ask<{ text: string }>("GET", `jobs/${path(id)}/text`),
  control: (id: string, action: string, more: Values = {}) => ask<object>("POST", `jobs/${path(id)}/control`, { action, ...more }),
  change: (id: string, values: Record<string, string>) => ask<{ at_s: number; text: string }>("POST", `jobs/${path(id)}/change`, { set: values }),
  packets: (id: string, at: number, within: number, place: string) =>
    ask<{ packets: Packet[] }>("GET", `jobs/${path(id)}/packets?at_s=${at}&within_s=${within}&place=${encodeURIComponent(place)}`),
  packet: (id: string, packet: string | number) => ask<{ steps: PacketStep[] }>("GET", `jobs/${path(id)}/packets/${encodeURIComponent(packet)}`),
  forget: (id: string) => ask<object>("DELETE", `jobs/${path(id)}`),
  store: () => ask<Cells>("GET", "store"),
  topologies: () => ask<{ topologies: Topology[] }>("GET", "topologies"),
  results: () => ask<{ results: ResultEntry[] }>("GET", "results"),
};

/** What went wrong, for people. */
export function reason(error: unknown): string {
  if (error instanceof Refused) return error.hint ? `${error.message} (${error.hint})` : error.message;
  return error instanceof Error ? error.message : String(error);
}
