// The page as a user meets it: a real browser, the real server, the real simulator.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { browser, CAMPAIGN, clean, NARROWS, open, PATIENCE, SCENARIO, served, text, thing, tree, write } from "./rig.mjs";

let chrome;
before(async () => { chrome = await browser(); });
after(async () => { await chrome?.close(); });

/** A test with a server of its own; whatever the browser complains of fails it. */
function page(name, files, run, options = {}) {
  test(name, { timeout: 3 * PATIENCE }, async () => {
    const server = await served(files);
    const { context, page, errors } = await open(chrome, server, options.id ?? "", options.context ?? {});
    try {
      await run(page, server, context);
      assert.deepEqual(errors.filter((error) => !options.allowed?.test(error)), []);
    } finally {
      await context.close();
      await server.close();
    }
  });
}

const started = async (page, speed = "") => {
  await page.getByLabel("Speed").selectOption(speed);
  await page.locator(".run .bar").getByRole("button", { name: "Run", exact: true }).click();
};
const ended = (page) => page.locator(".state", { hasText: /^(done|failed|cancelled)/ }).waitFor({ timeout: 2 * PATIENCE });
const digest = async (page) => {
  await page.getByRole("tab", { name: "Result" }).click();
  return page.locator("#digest").textContent();
};

page("a scenario that is drawn, run, changed while it runs and saved gives the command line the same digest", {}, async (page, server) => {
  await page.getByRole("button", { name: "New scenario" }).click();
  await page.getByLabel("Name of the file").fill("drawn");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".workspace");
  await page.getByRole("button", { name: "Host", exact: true }).click();
  await thing(page, "host/host-1").waitFor();
  await page.getByRole("button", { name: "Host", exact: true }).click();
  await thing(page, "host/host-2").waitFor();
  // A link by the mouse, from the grip of one to the other.
  await thing(page, "host/host-1").click();
  const grip = await thing(page, "host/host-1").locator(".grip").boundingBox();
  const target = await thing(page, "host/host-2").boundingBox();
  await page.mouse.move(grip.x + grip.width / 2, grip.y + grip.height / 2);
  await page.mouse.down();
  await page.mouse.move(target.x + target.width / 2, target.y + target.height / 2, { steps: 5 });
  await page.mouse.up();
  await thing(page, "link/access").waitFor();
  await page.getByLabel("Add an element to up").selectOption("rate");
  await thing(page, "link/access/up/rate").waitFor();
  await thing(page, "link/access/up/rate").click();
  assert.match(await page.locator(".form [data-field=words]").inputValue(), /queue dualpi2/);
  await page.locator(".form [data-field=RATE]").fill("20Mbit");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => document.querySelector(".form [data-field=words]")?.value.includes("20Mbit"));
  // Two flows by the form of the host.
  for (const control of ["prague", "cubic"]) {
    await thing(page, "host/host-1").click();
    await page.getByRole("button", { name: "Flow", exact: true }).click();
    await page.locator(".form [data-field=cc]").waitFor();
    await page.locator(".form [data-field=cc]").fill(control);
    await page.keyboard.press("Tab");
    await page.locator(".things", { hasText: `, ${control}` }).waitFor();
  }
  await clean(page);
  await started(page, "1");
  const slider = page.locator(".sliders input[type=range]").first();
  await slider.waitFor();
  await page.waitForFunction(() => Number(/([\d.]+) s/.exec(document.querySelector(".state").textContent)?.[1]) >= 2);
  for (const quantity of ["Rate", "RTT", "cwnd", "Sojourn time", "Queue"]) {
    await page.getByRole("group", { name: `${quantity} over time` }).locator("canvas").waitFor();
  }
  for (const flow of ["flow-1", "flow-2"]) await page.locator(".legend .key", { hasText: flow }).waitFor();
  const box = await slider.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.35, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  await page.locator(".cm-content", { hasText: "[[change]]" }).waitFor();
  await page.getByLabel("Speed").selectOption("");
  await ended(page);
  const shown = await digest(page);
  assert.match(shown, /\w{16,}/);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.locator(".saved", { hasText: /^saved/ }).waitFor();
  const saved = await readFile(join(server.folder, "drawn.toml"), "utf8");
  assert.match(saved, /\[\[change\]\]/);
  const { stdout } = await server.narrows("run", "drawn.toml", "--out", "again", "--format", "json");
  const record = JSON.parse(await readFile(join(server.folder, "again/run.json"), "utf8"));
  assert.equal(record.digest ?? JSON.parse(stdout).digest, shown);
  await page.reload();
  await thing(page, "link/access/up/rate").waitFor();
  assert.equal((await text(page)).trim(), saved.trim());
});

page("the rate of a bottleneck that has a name is changed with its slider", { "a.toml": SCENARIO.replace("4s", "60s") }, async (page) => {
  await clean(page);
  await started(page, "1");
  const slider = page.locator(".sliders input[type=range]").first();
  await slider.waitFor();
  assert.equal(await slider.getAttribute("data-entity"), "link/access/up/bottleneck");
  // Plots and what stands above them have their places once there are samples.
  await page.waitForFunction(() => parseFloat(document.querySelector(".state").textContent) >= 0.4);
  await slider.hover();
  const box = await slider.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.35, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  await page.locator(".cm-content", { hasText: "[[change]]" }).waitFor();
  assert.match(await text(page), /to = "rate /);
}, { id: "file/a.toml" });

page("the drawing follows the text, a refusal is at its line and at its node, and undo goes over both", { "a.toml": SCENARIO }, async (page) => {
  await thing(page, "link/access/up/bottleneck").waitFor();
  await write(page, SCENARIO.replace("queue dualpi2", "queue coddle"));
  await page.locator(".problems .error").waitFor();
  await page.locator(".chip.wrong, .link.wrong").first().waitFor();
  const line = await page.locator(".problems .error button").first().textContent();
  assert.equal(line, "line 9");
  await page.locator(".cm-lint-marker-error").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await clean(page);
  // An edit in the drawing keeps comments, and the text's history has it.
  await thing(page, "link/access/up/netem").click();
  await page.keyboard.press("Delete");
  await thing(page, "link/access/up/netem").waitFor({ state: "detached" });
  assert.match(await text(page), /# The bottleneck is in the middle\./);
  await page.getByRole("button", { name: "Undo" }).click();
  await thing(page, "link/access/up/netem").waitFor();
  assert.equal((await text(page)).trim(), SCENARIO.trim());
  await page.getByRole("button", { name: "Redo" }).click();
  await thing(page, "link/access/up/netem").waitFor({ state: "detached" });
}, { id: "file/a.toml" });

page("positions go to the layout beside the file, which stays as it was", { "a.toml": SCENARIO }, async (page, server) => {
  await thing(page, "host/client").waitFor();
  const before = await thing(page, "host/client").boundingBox();
  await page.mouse.move(before.x + 20, before.y + 10);
  await page.mouse.down();
  await page.mouse.move(before.x + 60, before.y + 90, { steps: 6 });
  await page.mouse.up();
  const moved = await thing(page, "host/client").getAttribute("transform");
  const layout = join(server.folder, "a.toml.layout.json");
  for (let turn = 0; ; turn += 1) {
    const read = await readFile(layout, "utf8").catch(() => "");
    if (read.includes("client")) break;
    assert.ok(turn < 200, "the layout is written");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.equal(await readFile(join(server.folder, "a.toml"), "utf8"), SCENARIO);
  await page.reload();
  await thing(page, "host/client").waitFor();
  assert.equal(await thing(page, "host/client").getAttribute("transform"), moved);
}, { id: "file/a.toml" });

page("a file that others changed is not overwritten unasked", { "a.toml": SCENARIO }, async (page, server) => {
  await clean(page);
  await write(page, SCENARIO.replace("4s", "5s"));
  const theirs = SCENARIO.replace("4s", "6s");
  await writeFile(join(server.folder, "a.toml"), theirs);
  await page.keyboard.press("Control+s");
  await page.locator(".theirs", { hasText: "Others changed" }).waitFor();
  assert.equal(await readFile(join(server.folder, "a.toml"), "utf8"), theirs);
  await page.getByRole("button", { name: "Take theirs" }).click();
  assert.match(await text(page), /"6s"/);
  await page.getByRole("button", { name: "Undo" }).click();
  assert.match(await text(page), /"5s"/);
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.locator(".saved", { hasText: /^saved/ }).waitFor();
  assert.match(await readFile(join(server.folder, "a.toml"), "utf8"), /"5s"/);
}, { id: "file/a.toml", allowed: /409/ });

page("everything is reached without a mouse", { "a.toml": SCENARIO }, async (page, server) => {
  await page.getByRole("link", { name: "a.toml" }).focus();
  await page.keyboard.press("Enter");
  await clean(page);
  const focused = () => page.evaluate(() => document.activeElement?.closest("[data-key]")?.getAttribute("data-key") ?? document.activeElement?.className ?? "");
  await page.keyboard.press("F6");
  assert.match(String(await focused()), /^(host|link)\//);
  await page.keyboard.press("Escape");
  await thing(page, "host/client").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(String(await focused()), /^link\//);
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement.querySelector(".body")).strokeWidth);
  assert.ok(parseFloat(outline) >= 2, "the focus is seen");
  await thing(page, "link/access/up/bottleneck").focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.querySelector(".form").contains(document.activeElement)));
  await thing(page, "link/access/up/netem").focus();
  await page.keyboard.press("Control+c");
  await page.keyboard.press("Control+v");
  await thing(page, "link/access/up/netem-2").waitFor();
  await thing(page, "link/access/up/netem-2").focus();
  await page.keyboard.press("Delete");
  await thing(page, "link/access/up/netem-2").waitFor({ state: "detached" });
  await thing(page, "host/client").focus();
  await page.keyboard.press("Shift+ArrowDown");
  await page.keyboard.press("/");
  await page.keyboard.type("server");
  await page.keyboard.press("Enter");
  await page.locator(".node.found.chosen").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await ended(page);
  await page.keyboard.press("Control+s");
  await page.locator(".saved", { hasText: /^saved/ }).waitFor();
  assert.match(await readFile(join(server.folder, "a.toml"), "utf8"), /netem delay 10ms/);
});

page("a run is paused, goes on by steps, and its packets are followed", { "a.toml": SCENARIO.replace("4s", "60s") }, async (page) => {
  await clean(page);
  await started(page, "1");
  await page.locator(".state", { hasText: /^[0-9.]+ s of 60 s/ }).waitFor();
  await page.waitForFunction(() => parseFloat(document.querySelector(".state").textContent) >= 0.4);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".state", { hasText: "paused" }).waitFor();
  const at = async () => Number(/([\d.]+) s/.exec(await page.locator(".state").textContent())[1]);
  const before = await at();
  await page.getByRole("button", { name: "Step" }).click();
  await page.waitForFunction((from) => Number(/([\d.]+) s/.exec(document.querySelector(".state").textContent)?.[1]) > from, before);
  await page.getByRole("tab", { name: "Packets" }).click();
  await page.getByLabel("Place").selectOption("link/access/up/bottleneck");
  await page.getByRole("button", { name: "Latest" }).click();
  const first = page.getByRole("button", { name: /^Follow packet/ }).first();
  await first.click();
  await page.getByRole("region", { name: "The way of one packet" }).getByRole("row").nth(2).waitFor();
  assert.match(await page.getByRole("region", { name: "The way of one packet" }).textContent(), /access\/up\/bottleneck/);
  await page.getByRole("button", { name: "Stop" }).click();
  await ended(page);
}, { id: "file/a.toml" });

const FW = `fw: mmb add ip-proto udp drop; add ip-proto tcp mod ip-ttl 60; add tcp-dport 9 drop`;
const WITH_BOX = SCENARIO.replace('"4s"', '"60s"').replace('up   = [', `up   = ["${FW}", `).replace('down = ["netem delay 10ms"]', `down = ["netem delay 10ms", "${FW}"]`);

page("what each rule of a box hits is in the drawing and beside the rule, and a run is given other rules", { "a.toml": WITH_BOX }, async (page) => {
  await clean(page);
  const chip = thing(page, "link/access/up/fw");
  await chip.click();
  const rule = (n) => page.locator(`.rules [data-field=rule-${n}]`);
  assert.equal(await rule(2).inputValue(), "add ip-proto tcp mod ip-ttl 60");
  // Written in both directions, as the box stands in both, and completed by the server.
  await rule(4).fill("add tcp-opt-ms");
  await page.locator(`.rules datalist option[value="add tcp-opt-mss"]`).waitFor({ state: "attached" });
  await rule(4).fill("add ip-proto tcp accept");
  await page.keyboard.press("Tab");
  await rule(5).waitFor();
  await clean(page);
  assert.equal((await text(page)).match(/add ip-proto tcp accept/g).length, 2);
  await started(page, "1");
  await page.waitForFunction(() => /^[\d,]+ hits$/.test(document.querySelector('[data-key="link/access/up/fw"] .live')?.textContent ?? ""));
  assert.equal(await thing(page, "link/access/down/fw").locator(".live").textContent(), await chip.locator(".live").textContent());
  const row = (n) => page.locator(".rules tbody tr").nth(n - 1).locator("td");
  const packets = async (n) => Number((await row(n).nth(1).textContent()).replaceAll(",", ""));
  await page.waitForFunction(() => /\d/.test(document.querySelectorAll(".rules tbody tr")[1]?.querySelectorAll("td")[1].textContent));
  assert.ok(await packets(2) > 0 && await packets(4) > 0);
  assert.equal(await packets(1), 0, "no datagram came");
  // A rule that drops everything comes before the second one.
  await rule(1).fill("add all drop");
  await page.getByRole("button", { name: "Give the run these rules" }).click();
  await page.locator(".cm-content", { hasText: "del 1; insert 1 add all drop" }).waitFor();
  await page.locator(".rules", { hasText: /Rules of the run since/ }).waitFor();
  await page.waitForFunction(() => /dropped$/.test(document.querySelector('[data-key="link/access/up/fw"] .live')?.textContent ?? ""));
  await page.waitForFunction(() => /\d/.test(document.querySelector(".rules tbody tr")?.querySelectorAll("td")[2].textContent));
  await page.getByRole("button", { name: "Stop" }).click();
  await ended(page);
  assert.ok(await packets(1) > 0 || await page.locator(".rules table").count() === 2, "what was hit stays after the run");
}, { id: "file/a.toml" });

page("a ready box shows its rules, and they can be edited in its place", { "a.toml": SCENARIO.replace('down = ["', 'down = ["mmb ecn-bleach", "') }, async (page) => {
  await clean(page);
  await thing(page, "link/access/down/mmb").click();
  await page.locator(".rules", { hasText: "Rules of the ready box" }).waitFor();
  await page.getByRole("button", { name: "Edit these rules" }).click();
  await page.locator(".rules [data-field=rule-1]").waitFor();
  await clean(page);
  assert.match(await text(page), /"mmb add /);
}, { id: "file/a.toml" });

page("name, duration and seed are in a form, too", { "a.toml": SCENARIO }, async (page) => {
  await clean(page);
  await page.getByRole("button", { name: "Scenario", exact: true }).click();
  assert.equal(await page.locator(".form [data-field=name]").inputValue(), "two flows");
  await page.locator(".form [data-field=duration]").fill("7s");
  await page.keyboard.press("Tab");
  await page.locator(".cm-content", { hasText: '"7s"' }).waitFor();
  await page.locator(".form summary").click();
  await page.locator(".form [data-field=seed]").fill("3");
  await page.keyboard.press("Tab");
  await page.locator(".cm-content", { hasText: "seed = 3" }).waitFor();
  await clean(page);
}, { id: "file/a.toml" });

page("runs in the store are listed, and each opens as a page", { "c.toml": CAMPAIGN }, async (page, server, context) => {
  await server.narrows("campaign", "c.toml", "--out", "done", "--store", "narrows/cells");
  await page.reload();
  const kept = page.getByRole("region", { name: "Store" });
  await kept.getByRole("link").nth(1).waitFor();
  const [shown] = await Promise.all([context.waitForEvent("page"), kept.getByRole("link").first().click()]);
  await shown.waitForLoadState();
  assert.match(await shown.locator("body").textContent(), /only/);
});

page("the page has the command that brings a topology up, and while it is up that which enters each host", { "a.toml": SCENARIO.replace("two flows", `page-${process.pid}`) }, async (page, server) => {
  const terminals = page.locator(".terminals");
  await terminals.locator("summary").click();
  await terminals.locator("code", { hasText: `narrows up ${server.folder}/a.toml` }).waitFor();
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await terminals.getByRole("button", { name: /^Copy/ }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `narrows up ${server.folder}/a.toml`);
  try { await server.narrows("up", "a.toml"); } catch (error) {
    console.log(`skipped: the command that enters a host: ${String(error.stderr).split("\n")[0]}`);
    return;
  }
  try {
    await terminals.locator("code", { hasText: `narrows enter page-${process.pid}-client` }).waitFor();
    assert.equal(await terminals.locator("code", { hasText: "narrows enter" }).count(), 2);
  } finally { await server.narrows("down", `page-${process.pid}`); }
  await terminals.locator("code", { hasText: "narrows up" }).waitFor();
}, { id: "file/a.toml" });

page("programs are shown and asked about before they run, and in the simulator none run", { "a.toml": `${SCENARIO}\n[[command]]\nname = "hello"\nhost = "client"\nrun = ["/bin/echo", "hello from a test"]\n` }, async (page) => {
  await page.locator(".things").waitFor();
  await page.locator(".problems", { hasText: /\S/ }).waitFor();
  await page.keyboard.press("Control+Enter");
  await page.locator("#notes", { hasText: "The simulator runs no programs" }).waitFor();
  const dialog = page.locator("dialog[open]");
  assert.equal(await dialog.count(), 0);
  await page.getByRole("button", { name: "Compare" }).click();
  await dialog.waitFor();
  assert.match(await dialog.textContent(), /\/bin\/echo 'hello from a test'/);
  await dialog.getByRole("button", { name: "Do not run" }).click();
  assert.equal(await page.locator(".state").textContent(), "");
}, { id: "file/a.toml" });

page("a campaign shows how many cells are done, and its page", { "c.toml": CAMPAIGN }, async (page) => {
  await clean(page);
  await page.getByRole("button", { name: "Run the campaign" }).click();
  await ended(page);
  assert.match(await page.locator(".state").textContent(), /^done/);
  const report = page.getByRole("link", { name: "Report page" });
  await report.waitFor();
  const [shown] = await Promise.all([page.context().waitForEvent("page"), report.click()]);
  await shown.waitForLoadState();
  assert.match(await shown.locator("body").textContent(), /20Mbit/);
}, { id: "file/c.toml" });

page("two hundred nodes are drawn, found and moved", { "tree.toml": tree(200) }, async (page) => {
  await thing(page, "host/n199").waitFor();
  assert.equal(await page.locator(".canvas .node").count(), 200);
  await page.getByLabel("Find in the drawing").fill("n57");
  await page.keyboard.press("Enter");
  assert.equal(await page.locator(".canvas .node.found").count(), 1);
  const box = await thing(page, "host/n57").boundingBox();
  const before = await thing(page, "host/n57").getAttribute("transform");
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + 80, box.y + 40, { steps: 8 });
  await page.mouse.up();
  assert.notEqual(await thing(page, "host/n57").getAttribute("transform"), before);
}, { id: "file/tree.toml" });

page("on a phone drawing and text are stacked, and nothing is wider than the screen", { "a.toml": SCENARIO }, async (page) => {
  await clean(page);
  await started(page);
  await ended(page);
  const [drawing, editor] = await Promise.all([page.locator(".drawing").boundingBox(), page.locator(".editor").boundingBox()]);
  assert.ok(editor.y >= drawing.y + drawing.height, "one below the other");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= 390);
}, { id: "file/a.toml", context: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } });

page("the page is dark where the reader's system is", { "a.toml": SCENARIO }, async (page) => {
  await clean(page);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), "rgb(21, 24, 28)");
  await page.emulateMedia({ colorScheme: "light" });
  assert.equal(await ground(), "rgb(255, 255, 255)");
}, { id: "file/a.toml", context: { colorScheme: "dark" } });

for (const colorScheme of ["light", "dark"]) {
  page(`axe finds nothing on the ${colorScheme} page`, { "a.toml": SCENARIO.replace("cubic\"\nfrom", "cubic\"\nfrom") }, async (page) => {
    const axe = await readFile(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    const look = async (where) => {
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      assert.deepEqual(violations.map(({ id, nodes }) => `${where}: ${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join("; ")}`), []);
    };
    await look("start");
    await page.getByRole("link", { name: "a.toml" }).click();
    await clean(page);
    await thing(page, "link/access/up/bottleneck").click();
    await look("form");
    await started(page);
    await ended(page);
    await look("plots");
    await page.getByRole("tab", { name: "Packets" }).click();
    await page.getByRole("button", { name: "Latest" }).click();
    await look("packets");
    await page.getByRole("tab", { name: "Result" }).click();
    await look("result");
    await page.getByRole("button", { name: "Keys" }).click();
    await look("keys");
  }, { context: { colorScheme } });
}

page("on paper the whole drawing and the whole text are there, and dark is light", { "a.toml": SCENARIO + "# a line\n".repeat(80) + "# the last line\n" }, async (page) => {
  await thing(page, "link/access").waitFor();
  await page.emulateMedia({ media: "print" });
  await page.locator(".written", { hasText: "# the last line" }).waitFor();
  assert.match(await page.locator(".written").textContent(), /^version/);
  await page.locator(".canvas[viewBox]").waitFor();
  const width = await page.evaluate(() => document.documentElement.clientWidth);
  for (const box of await page.locator(".node .body, .link .body").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().toJSON()))) {
    assert.ok(box.left >= 0 && box.right <= width && box.width > 0, JSON.stringify(box));
  }
  const pre = await page.locator(".written").evaluate((one) => ({ scroll: one.scrollHeight, client: one.clientHeight, wide: one.scrollWidth - one.clientWidth }));
  assert.deepEqual([pre.scroll, pre.wide], [pre.client, 0]);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  await page.emulateMedia({ media: "screen" });
  await page.locator(".canvas:not([viewBox])").waitFor();
  await page.locator(".written").waitFor({ state: "hidden" });
}, { id: "file/a.toml", context: { colorScheme: "dark", viewport: { width: 1280, height: 860 } } });

page("a flow that is chosen by its button is copied and removed by the keys", { "a.toml": SCENARIO }, async (page) => {
  const flow = (name) => page.locator(`.things [data-key="flow/${name}"]`);
  await flow("prague").click();
  await page.keyboard.press("Control+c");
  await page.keyboard.press("Control+v");
  await flow("prague-2").waitFor();
  await flow("cubic").click();
  await page.keyboard.press("Delete");
  await flow("cubic").waitFor({ state: "detached" });
  assert.ok(!/name = "cubic"/.test(await text(page)));
}, { id: "file/a.toml" });

page("a page whose server was started again says which address to open, and asks no more", { "a.toml": SCENARIO }, async (page, server) => {
  await thing(page, "link/access").waitFor();
  await server.again();
  await page.locator("#shut-out", { hasText: "open the address" }).waitFor();
  assert.equal(await page.locator("#shut-out").count(), 1);
}, { id: "file/a.toml", allowed: /401|ERR_|stream|about/ });

page("nodes that are dragged together cover no elements, and are laid out again", { "a.toml": SCENARIO }, async (page) => {
  const box = (key) => thing(page, key).locator(".body").first().boundingBox();
  await thing(page, "host/client").waitFor();
  const [from, to] = [await box("host/client"), await box("host/server")];
  await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
  await page.mouse.down();
  await page.mouse.move(to.x - from.width / 2 - 5, to.y + to.height / 2, { steps: 5 });
  await page.mouse.up();
  const apart = async () => {
    const link = await box("link/access");
    for (const key of ["host/client", "host/server"]) {
      const node = await box(key);
      const over = node.x < link.x + link.width && link.x < node.x + node.width && node.y < link.y + link.height && link.y < node.y + node.height;
      assert.ok(!over, `${key} ${JSON.stringify({ node, link })}`);
    }
  };
  await apart();
  assert.ok((await box("host/client")).x > from.x + 20);
  await page.getByRole("button", { name: "Lay out again" }).click();
  const laid = (await box("host/server")).x - (await box("host/client")).x;
  assert.ok(laid > (to.x - from.x) * 0.8, `${laid}`);
  await page.getByRole("button", { name: "Undo" }).click();
  await apart();
  assert.ok((await box("host/server")).x - (await box("host/client")).x < laid / 2);
}, { id: "file/a.toml" });

page("what is about an element goes with it in one step, and the page says so", { "a.toml": `${SCENARIO}\n[[change]]\nat = "1s"\ntarget = "link/access/up/bottleneck"\nto = "rate 1Mbit"\n` }, async (page) => {
  await thing(page, "link/access/up/bottleneck").click();
  await page.keyboard.press("Delete");
  await page.locator("#notes", { hasText: "removed with it: change of link/access/up/bottleneck at 1s" }).waitFor();
  await clean(page);
  assert.doesNotMatch(await text(page), /\[\[change\]\]/);
  await page.getByRole("button", { name: "Undo" }).click();
  await thing(page, "link/access/up/bottleneck").waitFor();
  assert.match(await text(page), /\[\[change\]\]/);
}, { id: "file/a.toml" });

page("after a reload the speed of what runs is shown, and words fit their nodes", { "a.toml": SCENARIO.replace("4s", "60s") }, async (page) => {
  await clean(page);
  await started(page, "2");
  await page.locator(".state", { hasText: " s of " }).waitFor();
  await page.reload();
  await page.waitForFunction(() => document.querySelector("[aria-label=Speed]")?.value === "2");
  await page.getByRole("button", { name: "Stop" }).click();
  await ended(page);
  for (const id of ["catalog/home/household", "catalog/incast"]) {
    await page.goto(`${new URL(page.url()).origin}/#/${id}`);
    await page.locator("h1", { hasText: id.slice(8) }).waitFor();
    await page.locator(".node .sub").first().waitFor();
    const wide = await page.locator(".node").evaluateAll((all) => all.map((one) => [one.querySelector(".sub")?.getBBox().width ?? 0, one.querySelector(".body").getBBox().width]));
    for (const [words, body] of wide) assert.ok(words <= body, `${words} in ${body}`);
  }
}, { id: "file/a.toml" });

test("the program has the page", async () => {
  const server = await served();
  try {
    const answer = await fetch(new URL("/page.js", server.url), { headers: { Authorization: `Bearer ${new URL(server.url).searchParams.get("token")}` } });
    assert.equal(answer.status, 200, `${NARROWS} was built without the page`);
  } finally { await server.close(); }
});
