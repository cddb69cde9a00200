// The page: which part of it is shown is in the address behind #.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { api, reason } from "./api";
import { h, put } from "./dom";
import { start } from "./start";
import { Workspace } from "./workspace";

// The document has it, with a first word in it, so that something is seen before this program was read.
const host = document.getElementById("page") as HTMLElement;
let leave: () => void = () => undefined;
let turn = 0;

async function show(): Promise<void> {
  turn += 1;
  const mine = turn;
  leave();
  document.getElementById("notes")?.replaceChildren();
  leave = () => undefined;
  const id = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent).join("/");
  if (!id || location.hash === "#") { leave = start(host); return; }
  put(host, h("main", { class: "start" }, h("p", { class: "faint" }, `opening ${id}…`)));
  try {
    const [opened, vocabulary] = await Promise.all([api.open(id), api.vocabulary()]);
    if (mine !== turn) return;
    const workspace = new Workspace(host, opened, vocabulary);
    leave = () => workspace.close();
  } catch (error) {
    if (mine === turn) put(host, h("main", { class: "start" }, h("h1", {}, id), h("p", { class: "no-text", role: "alert" }, reason(error)), h("p", {}, h("a", { href: "#/" }, "All files"))));
  }
}

addEventListener("hashchange", () => void show());
void show();
