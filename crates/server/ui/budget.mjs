// Prints the size of the built dashboard as browsers load it, and fails where it is over the budget.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** The most that scripts and styles take on the way to a browser, bytes. */
const BUDGET = 150_000;
const ASSETS = new URL("dist/assets", import.meta.url).pathname;

let size = 0;
for (const name of readdirSync(ASSETS)) size += gzipSync(readFileSync(join(ASSETS, name))).length;
console.log(`The dashboard takes ${(size / 1000).toFixed(1)} kB gzipped, of at most ${BUDGET / 1000} kB.`);
if (size > BUDGET) {
  console.error("error: the dashboard is over its budget");
  process.exit(1);
}
