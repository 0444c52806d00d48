// Measures the dashboard on the service itself with a run of any size, and prints the figures as tables. A figure beyond
// its goal ends it with status 1.
//
// `cargo run --release -p engine --example synthetic_run -- FOLDER 100000` makes a run; then
// `cargo build --release -p server` and, here, `node scale.js FOLDER`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { cpus } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { launchBrowser, layoutShift, newPage, sumLayoutShift } from "./browser.js";
import { Kernelwright } from "./kernelwright.js";

/** The goals: milliseconds, bytes on the wire, and web-vitals' bound for the layout shift (CLS). */
const GOAL = { first_paint: 200, view: 500, refresh: 100_000, processor: 100, shift: 0.1 };
/** Loads of each view, and requests for each answer. Their medians count. */
const LOADS = 5;
const REQUESTS = 20;
/** Runs of more candidates are shown by generation. */
const MOST = 20_000;
/** Milliseconds of a tick of the kernel's clock of processor times. */
const TICK_MS = 10;
const PROGRAM = process.env.KERNELWRIGHT ?? fileURLToPath(new URL("../../target/release/kernelwright", import.meta.url));

const [folder] = process.argv.slice(2);
assert.ok(folder, "usage: node scale.js FOLDER");

const missed = [];
const median = (values) => values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
const row = (cells) => console.log(`| ${cells.join(" | ")} |`);

/** A figure, marked where it is beyond its goal. */
function judged(name, value, goal, digits = 0) {
  if (value > goal) missed.push(`${name}: ${value.toFixed(digits)}, at most ${goal}`);
  return value > goal ? `**${value.toFixed(digits)}**` : value.toFixed(digits);
}

/** One answer as a browser gets it, compressed. */
function get(url) {
  return new Promise((done, failed) => {
    const begin = performance.now();
    httpRequest(url, { headers: { "accept-encoding": "gzip, br, zstd" } }, (response) => {
      let bytes = 0;
      response.on("data", (chunk) => (bytes += chunk.length));
      response.on("end", () => done({ status: response.statusCode, bytes, ms: performance.now() - begin }));
    })
      .on("error", failed)
      .end();
  });
}

/** Processor time of the service so far, milliseconds. */
function processor(service) {
  const fields = readFileSync(`/proc/${service.child.pid}/stat`, "utf8").split(") ")[1].split(" ");
  return TICK_MS * (Number(fields[11]) + Number(fields[12]));
}

async function measureAnswers(service, paths) {
  row(["answer", "processor ms", "ms", "bytes on the wire"]);
  row(["---", "---", "---", "---"]);
  for (const [name, path] of Object.entries(paths)) {
    const url = `${service.origin}/api/v1${path}`;
    const first = await get(url);
    assert.equal(first.status, 200, url);
    const before = processor(service);
    const times = [];
    for (let request = 0; request < REQUESTS; request += 1) times.push((await get(url)).ms);
    const each = (processor(service) - before) / REQUESTS;
    row([name, judged(`processor time of ${name}`, each, GOAL.processor, 1), median(times).toFixed(1), judged(`bytes of ${name}`, first.bytes, GOAL.refresh)]);
  }
}

/**
 * Runs in the page: notes when an element is first seen that matches the selector and has the text, in milliseconds since
 * the page was opened. It looks before each frame and notes the frame after the one that has drawn the element. A locator's
 * wait cannot tell this: it looks again after 20, 50, 100, 100 and then every 500 ms.
 */
function noteShown({ selector, text }) {
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true }) && element.textContent.includes(text ?? "");
  window.shownAt = null;
  const look = () => {
    const seen = [...document.querySelectorAll(selector)].some(isSeen);
    requestAnimationFrame(seen ? () => (window.shownAt = performance.now()) : look);
  };
  requestAnimationFrame(look);
}

/** The time that `noteShown` noted, once it did. */
async function shownAt(page) {
  return (await page.waitForFunction(() => window.shownAt, null, { polling: "raf" })).jsonValue();
}

/** Loads a view in a page of its own, with nothing in the browser's cache but what the load before left. */
async function load(browser, service, { path, shows, act }) {
  const { context, page, complaints } = await newPage(browser);
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  const answers = new Map();
  let bytes = 0;
  session.on("Network.responseReceived", ({ requestId, response }) => {
    const { pathname } = new URL(response.url);
    if (pathname.startsWith("/api/v1/") && !pathname.endsWith("/events")) answers.set(requestId, pathname);
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => (bytes += answers.has(requestId) ? encodedDataLength : 0));
  await sumLayoutShift(page);
  await page.addInitScript(noteShown, shows);
  await page.goto(service.origin + path, { waitUntil: "commit" });
  let shown = await shownAt(page);
  const painted = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0);
  if (act) {
    await page.evaluate(() => {
      for (const kind of ["pointerdown", "input"]) addEventListener(kind, ({ timeStamp }) => (window.begunAt ??= timeStamp), { capture: true });
    });
    bytes = 0;
    await page.evaluate(noteShown, act.shows);
    await act.does(page);
    shown = (await shownAt(page)) - (await page.evaluate(() => window.begunAt));
  }
  await page.waitForLoadState("load");
  const shift = await layoutShift(page);
  assert.deepEqual(complaints, [], path);
  await context.close();
  return { shown, painted, bytes, shift };
}

async function measureViews(browser, service, views) {
  row(["view", "first paint, ms", "shown, ms", "bytes on the wire", "layout shift"]);
  row(["---", "---", "---", "---", "---"]);
  for (const [name, view] of Object.entries(views)) {
    const loads = [];
    for (let at = 0; at <= LOADS; at += 1) loads.push(await load(browser, service, view));
    // The first warms the service up.
    const of = (value) => median(loads.slice(1).map(value));
    const painted = of((one) => one.painted);
    row([
      name,
      view.act ? "" : judged(`first paint of ${name}`, painted, GOAL.first_paint),
      judged(`time of ${name}`, of((one) => one.shown), GOAL.view),
      judged(`bytes of ${name}`, of((one) => one.bytes), GOAL.refresh),
      judged(`layout shift of ${name}`, Math.max(...loads.map((one) => one.shift)), GOAL.shift, 3),
    ]);
  }
}

const service = await Kernelwright.on(resolve(folder), PROGRAM);
const browser = await launchBrowser();
try {
  const { runs } = await service.get("/runs");
  const size = (one) => Object.values(one.verdicts).reduce((sum, count) => sum + count, one.pending);
  const [run] = runs.toSorted((one, other) => size(other) - size(one));
  const best = run.best.candidate;
  const { candidates: [baseline] } = await service.get(`/runs/${run.id}/candidates?ordinal=0`);
  const { last_generation } = await service.get(`/runs/${run.id}/lineage/generations`);
  console.log(`${run.name}: ${size(run)} candidates, ${cpus().length} cores of ${cpus()[0].model}, Chromium ${browser.version()}\n`);

  const of = `/runs/${run.id}`;
  await measureAnswers(service, {
    run: of,
    runs: "/runs",
    "lineage by generation": `${of}/lineage/generations`,
    "a slice of the lineage": `${of}/lineage/columns?from_generation=${Math.floor(last_generation / 2)}&to_generation=${Math.floor(last_generation / 2)}`,
    "the longest slice": `${of}/lineage/columns`,
    "lineage around the best": `${of}/lineage/columns?around=${(await service.get(`/candidates/${best}`)).ordinal}`,
    curve: `${of}/curve`,
    "100 candidates": `${of}/candidates?limit=100`,
    "candidates by a text": `${of}/candidates?limit=100&text=shuffle`,
    "the fastest": `${of}/candidates?limit=100&order=fastest`,
    candidate: `/candidates/${best}`,
    failures: `/failures?run=${run.id}`,
    insights: `${of}/insights`,
    "compare runs": `/compare/runs?left=${run.id}&right=${run.id}`,
    "compare candidates": `/compare/candidates?left=${baseline.id}&right=${best}`,
    leaderboards: "/leaderboards",
    promotions: "/promotions",
  });
  console.log();

  const region = (name) => ({ selector: `main section[aria-label="${name}"]` });
  const lineage = { selector: 'main [role="group"][aria-label^="Lineage of"]' };
  const bar = (page) => page.getByRole("region", { name: "Lineage", exact: true }).getByRole("button", { name: /^generations? / });
  const opening = {
    shows: { selector: 'main a[data-candidate]' },
    async does(page) {
      await bar(page).press("End");
      await bar(page).click();
    },
  };
  const searching = {
    shows: { selector: 'main section[aria-label="Candidates"] .matched', text: "found" },
    does: (page) => page.getByRole("region", { name: "Candidates", exact: true }).getByRole("searchbox").fill("shuffle"),
  };
  await measureViews(browser, service, {
    runs: { path: "/", shows: { selector: "main td a", text: run.name } },
    run: { path: of, shows: lineage },
    ...(size(run) > MOST ? { "a generation opened": { path: of, shows: lineage, act: opening } } : {}),
    "a word searched": { path: of, shows: lineage, act: searching },
    candidate: { path: `/candidates/${best}`, shows: region("Source") },
    failures: { path: `/failures?run=${run.id}`, shows: { selector: "main article" } },
    insights: { path: `/insights?run=${run.id}`, shows: { selector: "main li" } },
    "compare runs": { path: `/compare?of=runs&left=${run.id}&right=${run.id}`, shows: region("Side by side") },
    "compare candidates": { path: `/compare?left=${baseline.id}&right=${best}`, shows: region("Times") },
    tasks: { path: "/tasks", shows: { selector: "main a", text: run.task } },
    task: { path: `/tasks/${run.task}`, shows: region("Tolerance") },
    leaderboards: { path: "/leaderboards", shows: region(run.task) },
    fleet: { path: "/fleet", shows: { selector: "main dl.figures" } },
    promotions: { path: "/promotions", shows: { selector: "main strong, main article" } },
    "new run": { path: `/runs/new?task=${run.task}`, shows: region("Estimate") },
  });
} finally {
  await browser.close();
  await service.stop();
}
for (const text of missed) console.error(`beyond its goal: ${text}`);
process.exitCode = missed.length > 0 ? 1 : 0;
