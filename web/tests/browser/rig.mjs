// What the tests of the page stand on: a Chromium, and a `narrows web` in a folder of its own.
import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
/** Milliseconds that anything on the page may take in a test; machines of tests are slow. */
export const PATIENCE = 60_000;
/** The program, as cargo built it. */
export const NARROWS = process.env.NARROWS ?? new URL("../../../target/release/narrows", import.meta.url).pathname;

const run = promisify(execFile);

/** A browser; headless, and without its sandbox only for root, whom it refuses. */
export function browser(args = []) {
  if (!CHROMIUM) throw new Error("there is no Chromium (apt-get install chromium)");
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args: ["--disable-dev-shm-usage", ...sandbox, ...args] });
}

/** A folder with these files, served by `narrows web` until `close`. */
export async function served(files = {}) {
  const folder = await mkdtemp(join(tmpdir(), "narrows-page-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const begun = await begin(folder);
  let { child } = begun;
  const end = async () => {
    if (child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.on("exit", resolve));
    child.kill("SIGINT");
    const late = setTimeout(() => child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(late);
  };
  const close = async () => { await end(); await rm(folder, { recursive: true, force: true }); };
  /** Ends the server, and starts another one at the same port. */
  const again = async () => {
    await end();
    ({ child } = await begin(folder, ["--port", new URL(begun.url).port]));
  };
  return { folder, url: begun.url, close, again, child, narrows: (...args) => run(NARROWS, args, { cwd: folder, maxBuffer: 1 << 26 }) };
}

async function begin(folder, options = []) {
  const child = spawn(NARROWS, ["web", "--no-open", ...options, folder], { cwd: folder, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CACHE_HOME: folder } });
  let said = "";
  child.stderr.on("data", (data) => { said += data; });
  const url = await new Promise((resolve, reject) => {
    let out = "";
    child.stdout.on("data", (data) => {
      out += data;
      const found = /http:\/\/\S+/.exec(out);
      if (found) resolve(found[0]);
    });
    child.on("exit", (code) => reject(new Error(`narrows web ended with ${code}: ${said}`)));
    child.on("error", reject);
  });
  return { child, url };
}

/** A page of that server, let in by its token; `errors` are what the browser complained of. */
export async function open(chrome, server, id = "", options = {}) {
  const context = await chrome.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => {
    const { url } = message.location();
    // A browser asks for it by itself, while the token becomes a cookie.
    if (message.type() === "error" && !url.endsWith("/favicon.ico")) errors.push(`${message.text()} ${url}`);
  });
  await page.goto(server.url);
  await page.waitForSelector("main.start:not(.opening)");
  if (id) {
    await page.goto(`${new URL(server.url).origin}/#/${id}`);
    await page.waitForSelector(".workspace");
  }
  return { context, page, errors };
}

/** The text of the document, as the editor has it. */
export const text = (page) => page.evaluate(() => [...document.querySelector(".editor").shadowRoot.querySelectorAll(".cm-line")].map((line) => line.textContent).join("\n"));

/** Writes the text anew, as somebody who types. */
export async function write(page, content) {
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(content);
}

/** Chooses a thing of the drawing. */
export const thing = (page, key) => page.locator(`.canvas [data-key="${key}"]`);

/** Waits until the check of the text has no error. */
export const clean = (page) => page.locator(".problems", { hasText: "nothing wrong" }).waitFor();

export const SCENARIO = `version  = 1
name     = "two flows"
duration = "4s"

# The bottleneck is in the middle.
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms", "bottleneck: rate 20Mbit queue dualpi2"]
down = ["netem delay 10ms"]

[[flow]]
name = "prague"
from = "client"
to   = "server"
cc   = "prague"

[[flow]]
name = "cubic"
from = "client"
to   = "server"
cc   = "cubic"
`;

export const CAMPAIGN = `version = 1
kind = "campaign"
name = "two-rates"
cell = "{rate}"

[axis]
rate = ["10Mbit", "20Mbit"]

[set]
"link/access/up/bottleneck" = "rate {rate} queue fq_codel"

[metric]
goodput_mbit = "goodput_mbit of flow/only"

[scenario]
duration = "3s"

[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 5Mbit queue fq_codel"]
down = ["netem delay 5ms"]

[[scenario.flow]]
name = "only"
from = "client"
to = "server"
cc = "cubic"
`;

/** A tree of so many nodes. */
export function tree(nodes) {
  const links = Array.from({ length: nodes - 1 }, (_, i) => `[[link]]\nname = "l${i + 1}"\nends = ["n${Math.floor(i / 3)}", "n${i + 1}"]\nup = ["netem delay 1ms", "rate 10Mbit"]\n`);
  return `version = 1\nname = "tree"\nduration = "5s"\n\n${links.join("\n")}\n[[flow]]\nname = "far"\nfrom = "n0"\nto = "n${nodes - 1}"\ncc = "cubic"\n`;
}
