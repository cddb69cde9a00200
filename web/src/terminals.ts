// Terminals in the hosts of a topology that `narrows up` has brought up, and the command that does.
import { api, type Topology } from "./api";
import { note, quoted } from "./dialogs";
import { h, put } from "./dom";
import { listen } from "./stream";

/** A command with a button that copies it. */
function command(text: string): HTMLElement {
  const code = h("code", {}, text);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      note(`copied: ${text}`);
    } catch {
      // Browsers give the clipboard to local and encrypted pages alone: there it is one key away.
      getSelection()?.selectAllChildren(code);
      note("it is selected: Ctrl+C copies it");
    }
  };
  return h("span", { class: "command" }, code, h("button", { type: "button", "aria-label": `Copy ${text}`, onclick: () => void copy() }, "Copy"));
}

/** The topologies of a document, as long as they are up. */
export class Terminals {
  readonly host = h("details", { class: "terminals" });
  private up: Topology[] = [];
  private folder = "";
  private readonly stop: () => void;

  constructor(private readonly document: string) {
    this.stop = listen({ topologies: () => void this.load(), connected: (yes) => { if (yes) void this.load(); } });
    void api.about().then(({ folder }) => { this.folder = folder; this.show(); }).catch(() => undefined);
    void this.load();
  }

  close(): void { this.stop(); }

  private async load(): Promise<void> {
    const { topologies } = await api.topologies().catch(() => ({ topologies: [] }));
    this.up = topologies.filter(({ document }) => document === this.document);
    this.show();
  }

  private show(): void {
    const [kind, ...names] = this.document.split("/");
    const file = kind === "file" ? `${this.folder.replace(/\/$/, "")}/${names.join("/")}` : names.join("/");
    if (!this.up.length) {
      put(this.host, h("summary", {}, "Shells in the hosts"), h("p", { class: "faint" }, "The hosts and links of this file as it is saved stay up for your own programs with"), h("p", {}, command(`narrows up ${quoted(file)}`)));
      return;
    }
    put(this.host, h("summary", {}, `Shells in the hosts: ${this.up.map(({ name }) => name).join(", ")} is up`), ...this.up.map(({ name, hosts, down }) =>
      h("table", { "aria-label": `Hosts of ${name}` }, h("tbody", {}, ...hosts.map((one) => h("tr", {}, h("th", { scope: "row" }, one.host), h("td", { class: "left" }, command(one.command)))),
        h("tr", {}, h("th", { scope: "row" }, "take it down"), h("td", { class: "left" }, command(down)))))));
  }
}
