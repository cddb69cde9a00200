import assert from "node:assert/strict";
import { test } from "node:test";
import lock from "../../package-lock.json";

interface Package { license?: string; dev?: boolean; optional?: boolean }

test("what is built into the page is under a permissive licence, and nothing else is but axe, which only tests use", () => {
  const allowed = new Set(["MIT", "ISC", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "0BSD"]);
  const packages = Object.entries(lock.packages as Record<string, Package>).filter(([path]) => path);
  assert.ok(packages.length > 10);
  const others = packages.filter(([, { license }]) => !allowed.has(license ?? ""));
  assert.deepEqual(others.map(([path, { license, dev }]) => [path, license, dev]), [["node_modules/axe-core", "MPL-2.0", true]]);
});
