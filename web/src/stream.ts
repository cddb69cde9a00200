// The server's events. EventSource connects again by itself. Samples that were skipped for a slow page leave a gap.
import { api, Refused, type Job, type Samples } from "./api";
import { h } from "./dom";

export interface Listener {
  job?: (job: Job) => void;
  samples?: (samples: Samples) => void;
  files?: () => void;
  topologies?: () => void;
  connected?: (yes: boolean) => void;
}

const listeners = new Set<Listener>();
let source: EventSource | undefined;
let delay = 1000;

function connect(): void {
  source = new EventSource("/api/v1/stream");
  const on = <T>(name: string, call: (who: Listener, data: T) => void) =>
    source?.addEventListener(name, (event) => {
      const data = JSON.parse((event as MessageEvent<string>).data || "{}") as T;
      for (const who of listeners) call(who, data);
    });
  on<Job>("job", (who, job) => who.job?.(job));
  on<Samples>("samples", (who, samples) => who.samples?.(samples));
  on<object>("files", (who) => who.files?.());
  on<object>("topologies", (who) => who.topologies?.());
  source.onopen = () => { delay = 1000; for (const who of listeners) who.connected?.(true); };
  source.onerror = () => {
    for (const who of listeners) who.connected?.(false);
    // A browser gives up where the answer was no stream, as while the server starts again.
    if (source?.readyState === EventSource.CLOSED) void api.about().catch((error) => error).then((answer) => {
      if (answer instanceof Refused && answer.status === 401) { shutOut(); return; }
      setTimeout(connect, delay);
      delay = Math.min(delay * 2, 15_000);
    });
  };
}

/** The server was started again: only the address that it printed then lets this browser in. */
function shutOut(): void {
  document.body.classList.add("shut-out");
  document.body.prepend(h("p", { id: "shut-out", role: "alert" },
    "narrows web was started again and has another token: open the address that it printed then. What is not saved can be copied from the text first."));
}

/** Receives events until the function that it returns is called. */
export function listen(who: Listener): () => void {
  listeners.add(who);
  if (!source) connect();
  return () => listeners.delete(who);
}
