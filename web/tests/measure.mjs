// What the page costs: `node tests/measure.mjs`, with NARROWS naming the program. Prints one line for each figure.
//
// - 20 series at 20 Hz: the processor time of all of Chromium's processes over a minute of a run in real time
//   (SECONDS=600 for ten), by how much its heap grew between 5 s, the first third and the end, and whether the run
//   has the digest that it has without a watcher;
// - 200 nodes: how long their layout takes, and pictures a second while one is dragged;
// - the first paint of the list and of a scenario, by a browser without anything kept;
// - what an edit of the text takes until the drawing has it;
// - a change of a rate, by HTTP, of a run that goes on: milliseconds from the request to the first sample after it;
// - the processor time that a run at full speed takes for a second of the network, with one, three and ten watchers
//   and before and after them without: medians of many short stretches of one run.
import { readdirSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { browser, open, SCENARIO, served, thing, tree } from "./browser/rig.mjs";

const SECONDS = Number(process.env.SECONDS ?? 60);
const TICKS = 100; // of a processor's second, as /proc counts (USER_HZ)
const PAIRS = Number(process.env.PAIRS ?? 100); // of stretches with and without watchers

const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** What is asked becomes true within ten minutes. */
async function until(is) {
  const late = performance.now() + 600_000;
  for (let found; performance.now() < late; await sleep(2)) if ((found = await is())) return found;
  throw new Error("it does not come to that");
}

/** Asks the server as a program does, with its token. */
function program(server) {
  const { origin, searchParams } = new URL(server.url);
  const headers = { Authorization: `Bearer ${searchParams.get("token")}`, "Content-Type": "application/json" };
  const ask = async (path, body) => {
    const answer = await fetch(`${origin}/api/v1/${path}`, { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  /** Calls `seen` with the samples of a stream as they come, until the end that is returned. */
  const watch = async (seen) => {
    const ended = new AbortController();
    const stream = await fetch(`${origin}/api/v1/stream`, { headers, signal: ended.signal });
    const reading = (async () => {
      let text = "";
      for await (const piece of stream.body.pipeThrough(new TextDecoderStream())) {
        const events = (text + piece).split("\n\n");
        text = events.pop();
        for (const event of events) {
          const data = /^event: ?samples\ndata: ?(.*)$/m.exec(event)?.[1];
          if (data) seen(data);
        }
      }
    })().catch((error) => { if (!ended.signal.aborted) throw error; });
    return async () => { ended.abort(); await reading; };
  };
  return { ask, watch };
}

/** Processor seconds of the thread of a process that has a name; 0 without one. */
function ofThread(process, name) {
  for (const thread of readdirSync(`/proc/${process}/task`)) {
    try {
      const of = `/proc/${process}/task/${thread}`;
      // Nanoseconds, where stat counts hundredths of a second.
      if (readFileSync(`${of}/comm`, "utf8").trim() === name) return Number(readFileSync(`${of}/schedstat`, "utf8").split(" ")[0]) / 1e9;
    } catch { /* it ended */ }
  }
  return 0;
}

/** Processor seconds of a process and all that it started. */
function spent(root) {
  const rows = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      const words = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      rows.set(Number(pid), { parent: Number(words[1]), ticks: Number(words[11]) + Number(words[12]) });
    } catch { /* it ended */ }
  }
  const mine = new Set([root]);
  for (let grew = true; grew;) {
    grew = false;
    for (const [pid, { parent }] of rows) if (mine.has(parent) && !mine.has(pid)) { mine.add(pid); grew = true; }
  }
  let ticks = 0;
  for (const pid of mine) ticks += rows.get(pid)?.ticks ?? 0;
  return ticks / TICKS;
}

const chrome = await browser(["--enable-precise-memory-info"]);
// The browser is the child of this process that is no `narrows`.
const root = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(Number).find((pid) => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === process.pid && /chrom/.test(stat);
  } catch { return false; }
});

{
  const server = await served({ "a.toml": `${SCENARIO.replace("4s", `${SECONDS + 30}s`)}
[[flow]]
name = "reno"
from = "client"
to   = "server"
cc   = "reno"

[[flow]]
name = "back"
from = "server"
to   = "client"
cc   = "cubic"
`.replace('down = ["netem delay 10ms"]', 'down = ["netem delay 10ms", "bottleneck: rate 10Mbit queue fq_codel"]') });
  const { page, context } = await open(chrome, server, "file/a.toml");
  const cdp = await context.newCDPSession(page);
  const heap = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    return (await cdp.send("Runtime.getHeapUsage")).usedSize / 1e6;
  };
  await page.getByLabel("Speed").selectOption("1");
  await page.locator(".run .bar").getByRole("button", { name: "Run", exact: true }).click();
  await page.waitForTimeout(5000);
  const [processor, clock, first] = [spent(root), performance.now(), await heap()];
  await page.waitForTimeout(SECONDS * 1000 / 3);
  const second = await heap();
  await page.waitForTimeout(SECONDS * 2000 / 3);
  const share = (spent(root) - processor) / ((performance.now() - clock) / 1000);
  const [plots, lines] = await page.evaluate(() => [document.querySelectorAll(".plot canvas").length, document.querySelectorAll(".key").length]);
  console.log(`a run of ${SECONDS} s, ${plots} plots of ${lines} flows and queues: ${(100 * share).toFixed(1)} % of a processor, heap ${first.toFixed(1)}, ${second.toFixed(1)}, ${(await heap()).toFixed(1)} MB`);
  await page.getByLabel("Speed").selectOption("");
  await page.locator(".state", { hasText: /^done/ }).waitFor({ timeout: 600_000 });
  await page.getByRole("tab", { name: "Result" }).click();
  const watched = await page.locator("#digest").textContent();
  await server.narrows("run", "a.toml", "--out", "alone");
  const { digest } = JSON.parse(await readFile(`${server.folder}/alone/run.json`, "utf8"));
  console.log(`its digest ${watched}, ${watched === digest ? "the same" : `and not ${digest} as`} without a watcher`);
  await context.close();
  await server.close();
}
{
  const server = await served({ "tree.toml": tree(200) });
  const { page, context } = await open(chrome, server, "file/tree.toml");
  await thing(page, "host/n199").waitFor();
  const marks = await page.evaluate(() => performance.getEntriesByName("layout").map(({ duration }) => Math.round(duration)));
  console.log(`200 nodes: placed and drawn in ${marks.join(", ")} ms`);
  const box = await thing(page, "host/n1").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.evaluate(() => {
    globalThis.pictures = 0;
    globalThis.went = performance.now();
    const count = () => { globalThis.pictures += 1; requestAnimationFrame(count); };
    requestAnimationFrame(count);
  });
  for (let i = 0; i < 120; i += 1) await page.mouse.move(box.x + 60 * Math.sin(i / 8), box.y + 40 * Math.cos(i / 8));
  const rate = await page.evaluate(() => 1000 * globalThis.pictures / (performance.now() - globalThis.went));
  await page.mouse.up();
  console.log(`200 nodes: ${rate.toFixed(0)} pictures a second while one is dragged`);
  await context.close();
  await server.close();
}
{
  const server = await served({ "a.toml": SCENARIO });
  for (const [what, hash] of [["the list", "/"], ["a scenario", "/#/file/a.toml"]]) {
    const painted = [];
    for (let i = 0; i < 9; i += 1) {
      // The token becomes a cookie; what the browser kept then does not count.
      const { context } = await open(chrome, server);
      const page = await context.newPage();
      await (await context.newCDPSession(page)).send("Network.setCacheDisabled", { cacheDisabled: true });
      await page.goto(new URL(server.url).origin + hash);
      painted.push(await until(() => page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime)));
      await context.close();
    }
    painted.sort((a, b) => a - b);
    console.log(`first paint of ${what}: ${painted[4].toFixed(0)} ms, ${painted[8].toFixed(0)} at most of ${painted.length}`);
  }
  const { page, context } = await open(chrome, server, "file/a.toml");
  await thing(page, "host/client").waitFor();
  const took = [];
  for (let i = 0; i < 9; i += 1) {
    const renamed = SCENARIO.replaceAll('"client"', `"client${i}"`);
    await page.locator(".cm-content").click();
    await page.keyboard.press("Control+a");
    await page.evaluate(() => { globalThis.began = performance.now(); });
    await page.keyboard.insertText(renamed);
    took.push(await page.evaluate((key) => new Promise((resolve) => {
      const look = () => {
        if (document.querySelector(`.canvas [data-key="${key}"]`)) resolve(performance.now() - globalThis.began);
        else requestAnimationFrame(look);
      };
      look();
    }), `host/client${i}`));
  }
  took.sort((a, b) => a - b);
  console.log(`an edit of the text: drawn after ${took[4].toFixed(0)} ms, ${took[8].toFixed(0)} at most`);
  await context.close();
  await server.close();
}
await chrome.close();

{
  const server = await served({ "a.toml": SCENARIO.replace("4s", "100s") });
  const { ask, watch } = program(server);
  const samples = [];
  const end = await watch((data) => samples.push({ at: JSON.parse(data).t_s, came: performance.now() }));
  for (const at of [5, 20, 50]) {
    const { job } = await ask("jobs", { kind: "run", document: "file/a.toml", paused: true });
    await ask(`jobs/${job}/control`, { action: "step", by_s: at });
    await until(async () => (await ask(`jobs/${job}`)).progress.virtual_s >= at - 0.001);
    await ask(`jobs/${job}/control`, { action: "speed", speed: 1 });
    await ask(`jobs/${job}/control`, { action: "resume" });
    await sleep(1000);
    const took = [];
    for (const rate of [10, 25, 15, 30, 12, 35, 18]) {
      const asked = performance.now();
      const { at_s: made } = await ask(`jobs/${job}/change`, { set: { "link/access/up/bottleneck": `rate ${rate}Mbit` } });
      took.push((await until(() => samples.find((sample) => sample.came > asked && sample.at > made))).came - asked);
      await sleep(300);
    }
    took.sort((a, b) => a - b);
    console.log(`a change at ${at} s of a run: seen after ${took[3].toFixed(0)} ms, ${took[6].toFixed(0)} at most`);
    await ask(`jobs/${job}/control`, { action: "stop" });
  }
  await end();
  await server.close();
}
{
  const server = await served({ "a.toml": SCENARIO.replace("4s", "1000000s") });
  const { ask, watch } = program(server);
  const { job } = await ask("jobs", { kind: "run", document: "file/a.toml" });
  const at = async () => {
    const { progress } = await ask(`jobs/${job}`);
    return { reached: progress.virtual_s, processor: ofThread(server.child.pid, `job ${job}`) };
  };
  /** Processor seconds for a second of the network, over a quarter of a second with so many that watch. */
  const cost = async (watchers) => {
    const ends = await Promise.all(Array.from({ length: watchers }, () => watch(() => {})));
    await sleep(60);
    const from = await at();
    await sleep(250);
    const to = await at();
    for (const end of ends) await end();
    return (to.processor - from.processor) / (to.reached - from.reached);
  };
  await sleep(2000);
  for (const watchers of [1, 3, 10]) {
    const ratios = [];
    for (let pair = 0; pair < PAIRS; pair += 1) {
      // A machine's speed drifts: each is held against the mean of those before and after it.
      const before = await cost(0);
      const watched = await cost(watchers);
      ratios.push(2 * watched / (before + await cost(0)));
    }
    ratios.sort((a, b) => a - b);
    const percent = (place) => (100 * (ratios[Math.floor(place * (PAIRS - 1))] - 1)).toFixed(1);
    console.log(`${watchers} watching a run at full speed: ${percent(0.5)} % more of a processor (quartiles of ${PAIRS} ${percent(0.25)} and ${percent(0.75)})`);
  }
  await ask(`jobs/${job}/control`, { action: "stop" });
  await server.close();
}
