// A run of 100,000 candidates: read by generation, opened where the reader looks, and how much that is.

import assert from "node:assert/strict";
import { before, it } from "node:test";

import { assertFits, SCHEMES, SIZES } from "./browser.js";
import { complaints, page, panel, prepare, serve, service, setUp } from "./hooks.js";
import { largeWorld } from "./large.js";

const SIZE = 100_000;
/** The most that one answer takes, bytes: as the service limits it, before compression. */
const ANSWER = 110_000;

let answers;
let made;

setUp({ standIn: false });

before(() => {
  made = largeWorld(SIZE);
});

async function open(options) {
  await serve(made);
  await prepare({ now: null, ...options });
  answers = [];
  page.on("response", async (response) => {
    if (!response.url().includes("/api/v1/") || response.url().includes("/events")) return;
    // A test may end before the last answer.
    const body = await response.body().catch(() => null);
    if (body) answers.push({ path: new URL(response.url()).pathname, bytes: body.length });
  });
  await page.goto(`${service.origin}/runs/${made.live}`);
}

const bar = () => panel("Lineage").getByRole("button", { name: /^generations? / });

for (const colorScheme of SCHEMES) {
  for (const size of Object.keys(SIZES)) {
    it(`is shown by generation, ${colorScheme}, ${size}`, async (test) => {
      await open({ colorScheme, size });
      await bar().waitFor();
      const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
      await page.screenshot({ path: `screenshots/generations-${colorScheme}-${size}.png`, fullPage: true });
      await assertFits(page);
      const table = panel("Candidates").getByRole("region", { name: "Rows of candidates" });
      const [edge, room] = await table.evaluate((frame) => [[...frame.querySelectorAll("th")].findLast((head) => head.offsetWidth > 0).getBoundingClientRect().right, frame.getBoundingClientRect().left + frame.clientWidth]);
      assert.ok(Math.abs(edge - room) <= 1, `the columns end at ${edge} px of ${room} px`);
      const starts = await panel("Verdicts").locator("svg").evaluateAll((found) => found.map((bar) => Math.round(bar.getBoundingClientRect().left)));
      assert.equal(new Set(starts).size, 1, `the bars begin at ${starts} px`);
      const most = answers.reduce((one, other) => (one.bytes > other.bytes ? one : other));
      const whole = answers.reduce((sum, { bytes }) => sum + bytes, 0);
      test.diagnostic(`first paint after ${painted.toFixed(0)} ms; ${answers.length} answers of ${whole} bytes, the longest ${most.bytes} bytes (${most.path})`);
      assert.ok(most.bytes < ANSWER, `${most.path} takes ${most.bytes} bytes`);
      assert.deepEqual(complaints, []);
    });
  }
}

it("opens a generation by the keyboard, shows a candidate of it, and goes back", async (test) => {
  await open();
  await bar().focus();
  for (const key of ["End", "ArrowLeft"]) await page.keyboard.press(key);
  assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /^generations \d+ to \d+: \d+ candidates, \d+ accepted/);
  answers = [];
  const begin = performance.now();
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: /^Lineage of \d+ candidates/ }).waitFor();
  test.diagnostic(`a bar opened after ${(performance.now() - begin).toFixed(0)} ms: ${answers.map(({ bytes }) => bytes)} bytes`);
  assert.ok(answers.every(({ bytes }) => bytes < ANSWER));
  const link = panel("Candidates").locator("tr.row a").first();
  await panel("Candidates").getByRole("link", { name: /^variant/ }).first().waitFor();
  await page.screenshot({ path: "screenshots/generation-open.png", fullPage: true });
  await panel("Lineage").getByRole("button", { name: "All generations" }).click();
  await bar().waitFor();
  // A click opens the bar under the pointer.
  const frame = await panel("Lineage").locator("rect.area").boundingBox();
  await page.mouse.move(frame.x + frame.width - 2, frame.y + 20);
  const last = /^generations? (?:\d+ to )?(\d+):/.exec(await bar().getAttribute("aria-label"));
  assert.equal(Number(last?.[1]), made.nodes.at(-1).generation);
  await page.mouse.click(frame.x + frame.width - 2, frame.y + 20);
  await page.getByRole("group", { name: /^Lineage of \d+ candidates/ }).waitFor();
  await link.click();
  await page.getByRole("heading", { name: /^#\d+ variant/ }).waitFor();
  assert.match(new URL(page.url()).pathname, /^\/candidates\//);
  assert.deepEqual(complaints, []);
});
