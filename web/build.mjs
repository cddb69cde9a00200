// Builds the page into dist/ (`node build.mjs`), or its unit tests into DIR (`node build.mjs --tests DIR`).
import { build } from "esbuild";
import { cp, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const here = new URL(".", import.meta.url).pathname;

/** What all assets together may weigh when compressed, bytes. */
const BUDGET = 250_000;

if (process.argv[2] === "--tests") {
  const names = await readdir(`${here}tests/unit`);
  await build({
    absWorkingDir: here,
    entryPoints: names.filter((name) => name.endsWith(".test.ts")).map((name) => `tests/unit/${name}`),
    outdir: process.argv[3],
    outExtension: { ".js": ".mjs" },
    bundle: true, platform: "node", format: "esm", target: "node18", logLevel: "warning",
  });
} else {
  const dist = `${here}dist`;
  await rm(dist, { recursive: true, force: true });
  await mkdir(dist);
  await build({
    absWorkingDir: here,
    entryPoints: { page: "src/main.ts" },
    outdir: dist,
    bundle: true, minify: true, format: "esm", target: ["chrome110", "firefox115", "safari16.4"],
    legalComments: "linked", logLevel: "warning",
  });
  await cp(`${here}src/index.html`, `${dist}/index.html`);
  await cp(`${here}src/icon.svg`, `${dist}/icon.svg`);
  await writeFile(`${dist}/LICENCES.txt`, await licences());
  let total = 0;
  for (const name of (await readdir(dist)).sort()) {
    const bytes = await readFile(`${dist}/${name}`);
    const packed = gzipSync(bytes, { level: 9 }).length;
    total += packed;
    console.log(`${name.padEnd(24)} ${String(bytes.length).padStart(8)} bytes, ${String(packed).padStart(7)} compressed`);
  }
  console.log(`${"together".padEnd(24)} ${"".padStart(8)}       , ${String(total).padStart(8)} compressed`);
  if (total > BUDGET) {
    console.error(`the page weighs ${total} bytes compressed, and ${BUDGET} are allowed`);
    process.exit(1);
  }
}

/** The licence of each package that the page is built from. */
async function licences() {
  const lock = JSON.parse(await readFile(`${here}package-lock.json`, "utf8"));
  const shipped = Object.entries(lock.packages).filter(([path, entry]) => path && !entry.dev && !entry.devOptional);
  const texts = [];
  for (const [path, entry] of shipped) {
    const files = await readdir(`${here}${path}`);
    const file = files.find((name) => /^licen[cs]e/i.test(name));
    const text = file ? await readFile(`${here}${path}/${file}`, "utf8") : `${entry.license}\n`;
    texts.push(`${path.replace("node_modules/", "")} ${entry.version}\n\n${text}`);
  }
  return texts.join("\n----\n\n");
}
