// The run page of a large run: its table, its curve, and how little it reads while the run goes on.

import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";

import { assertFits, launchBrowser, newPage, SCHEMES } from "./browser.js";
import { largeWorld } from "./large.js";
import { Service } from "./service.js";
import { accept, candidateId, NOW, propose, runId, timedInTurn, world } from "./world.js";

const LARGE = 10_000;

let browser;
let service;
let context;
let page;
let complaints;

before(async () => {
  browser = await launchBrowser();
});

after(() => browser?.close());

afterEach(async () => {
  await context?.close();
  await service?.stop();
});

async function open(made, { path, ...options } = {}) {
  service = new Service(made);
  await service.start();
  ({ context, page, complaints } = await newPage(browser, options));
  await page.clock.setFixedTime(NOW);
  await page.goto(service.origin + (path ?? `/runs/${made.live}`));
}

const panel = (name) => page.getByRole("region", { name, exact: true });
const table = () => panel("Candidates");
const rows = () => table().locator("tr.row");
const ordinals = async () => (await rows().locator("td.ordinal").allInnerTexts()).map(Number);

describe("the table of candidates", () => {
  it("of a large run has only the rows in sight, and scrolls to the last", async () => {
    await open(largeWorld(LARGE));
    await rows().first().waitFor();
    assert.ok((await rows().count()) < 40, `${await rows().count()} rows`);
    assert.equal(await table().locator("table").getAttribute("aria-rowcount"), String(LARGE + 1));
    await table().getByRole("button", { name: "#", exact: true }).click();
    assert.deepEqual((await ordinals()).slice(0, 3), [0, 1, 2]);
    await table().locator(".frame").evaluate((frame) => (frame.scrollTop = frame.scrollHeight));
    await table().getByRole("link", { name: `variant ${LARGE - 1}`, exact: true }).waitFor();
    assert.ok((await rows().count()) < 40);
    await page.screenshot({ path: "screenshots/table-large.png", fullPage: true });
    assert.deepEqual(complaints, []);
  });

  it("of a large run finds words on the service", async () => {
    await open(largeWorld(LARGE));
    await rows().first().waitFor();
    await table().getByRole("searchbox").fill("variant 4242");
    await table().getByRole("status").getByText("1 found").waitFor();
    assert.deepEqual(await ordinals(), [4242]);
    assert.ok(service.requests.length < 60, `${service.requests.length} requests`);
    await table().getByRole("searchbox").fill("");
    await table().getByRole("link", { name: /^variant/ }).nth(5).waitFor();
  });

  it("is sorted by a click on a column, and by another the other way", async () => {
    await open(world());
    await rows().first().waitFor();
    assert.deepEqual((await ordinals()).slice(0, 3), [12, 13, 10], "fastest first");
    await table().getByRole("button", { name: "Time" }).click();
    assert.deepEqual((await ordinals()).slice(0, 2), [12, 13]);
    assert.equal(await table().locator("th.time").getAttribute("aria-sort"), "ascending");
    await table().getByRole("button", { name: "Time" }).click();
    assert.deepEqual((await ordinals()).slice(0, 2), [14, 0]);
    assert.match(page.url(), /\?sort=-time$/);
  });

  it("is filtered by the funnel, the lists and a text, and a link keeps that", async () => {
    await open(world());
    await panel("Verdicts").getByRole("button", { name: "incorrect output" }).click();
    assert.deepEqual(await ordinals(), [2, 5]);
    assert.equal(await table().getByRole("status").innerText(), "2 of 19");
    const link = page.url();
    await panel("Verdicts").getByRole("button", { name: "accepted" }).click();
    assert.equal((await ordinals()).length, 11);
    await table().getByRole("button", { name: "All", exact: true }).click();
    await table().getByRole("combobox", { name: "Operator" }).selectOption("submit");
    await table().getByRole("searchbox").fill("packed");
    assert.deepEqual(await ordinals(), [18]);
    await table().getByRole("searchbox").fill("no such words");
    await table().getByText("No candidate matches.").waitFor();
    await page.screenshot({ path: "screenshots/table-filtered.png", fullPage: true });
    await page.goto(link);
    await rows().first().waitFor();
    assert.deepEqual(await ordinals(), [2, 5]);
    assert.equal(await panel("Verdicts").getByRole("button", { name: "incorrect output" }).getAttribute("aria-pressed"), "true");
  });

  it("shows the columns that were chosen, also after a reload", async () => {
    await open(world());
    await table().getByText("Columns").click();
    await table().getByLabel("Generation").check();
    await table().getByLabel("Time").uncheck();
    await page.reload();
    await rows().first().waitFor();
    const names = (await table().locator("th").allInnerTexts()).map((name) => name.replace(/\W+$/, ""));
    assert.ok(names.includes("Generation") && !names.includes("Time"), `${names}`);
  });
});

describe("the curve", () => {
  for (const colorScheme of SCHEMES) {
    it(`of a large run shows every candidate, ${colorScheme}`, async () => {
      await open(largeWorld(LARGE), { colorScheme });
      await page.getByRole("img", { name: /Best speedup so far over 10,000 candidates/ }).waitFor();
      await page.screenshot({ path: `screenshots/run-large-${colorScheme}.png`, fullPage: true });
      assert.ok((await panel("Best so far").locator("svg *").count()) < 100, "the marks are no elements");
      await assertFits(page);
    });
  }

  it("is read by the pointer and by the keyboard", async () => {
    await open(world());
    const plot = panel("Best so far").getByRole("slider");
    await plot.focus();
    await page.keyboard.press("End");
    assert.match(await plot.getAttribute("aria-valuetext"), /^#16 asynchronous copies, out of bounds/);
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowRight");
    assert.match(await plot.getAttribute("aria-valuetext"), /^#1 keep the row in registers, accepted, 1\.72×, 24\.2 µs/);
    const box = await panel("Best so far").locator("svg").boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 60);
    await page.screenshot({ path: "screenshots/curve-read.png" });
    await plot.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "#16 asynchronous copies" }).waitFor();
  });

  it("shows the floor, and the interval of a measured best", async () => {
    const made = world();
    for (const node of made.nodes) node.modelled = false;
    await open(made, { path: "/" });
    await page.route("**/api/v1/candidates/*", async (route) => {
      const response = await route.fetch();
      const json = timedInTurn(await response.json(), null);
      json.evaluation.floors = [{ case: "narrow", cache: "cold", bound: "bytes", us: 8, found_us: 41.6 }];
      await route.fulfill({ response, json });
    });
    await page.goto(`${service.origin}/runs/${made.live}`);
    await panel("Best so far").getByText("floor 5.20×").waitFor();
    await panel("Best so far").locator("path.interval").waitFor();
    await page.screenshot({ path: "screenshots/curve-floor.png" });
    assert.deepEqual(complaints, []);
  });

  it("of an empty run says so", async () => {
    await open(world(), { path: `/runs/${runId(1)}` });
    await panel("Best so far").getByText("No candidate was accepted yet.").waitFor();
    await table().getByText("No candidates yet.").waitFor();
  });
});

describe("a page that is left open", () => {
  it("says while its events do not arrive, and goes on where they ended", async () => {
    const made = world();
    await open(made);
    await panel("Events").getByText("live").waitFor();
    await page.route("**/events?**", (route) => route.abort());
    service.dropReaders();
    await page.getByText("Live updates are interrupted").waitFor();
    service.emit(accept(made, 17, 5.1));
    await page.unroute("**/events?**");
    await page.locator(".facts").getByText("5.10×").waitFor();
    await page.getByText("Live updates are interrupted").waitFor({ state: "detached" });
  });

  it("begins with the newest events, not with all of them", async () => {
    const made = world();
    const [stage] = made.events.filter(({ what }) => what.kind === "stage");
    for (let number = 0; number < 5_000; number += 1) made.events.push({ ...stage, id: made.events.length + 1 });
    made.runs.find(({ id }) => id === made.live).last_event = made.events.length;
    await open(made);
    await panel("Events").getByText("live").waitFor();
    assert.ok(service.sent <= 150, `${service.sent} events`);
    assert.equal(service.requests.filter((request) => request.includes("/candidates")).length, 1, "old events cause no reads but that of the floor");
  });

  it("reads the run and its candidates once for many events", async () => {
    const made = world();
    await open(made);
    await panel("Events").getByText("live").waitFor();
    const before = service.requests.length;
    for (let number = 0; number < 40; number += 1) service.emit(propose(made, `burst ${number}`));
    service.emit(accept(made, 17, 5.1));
    await page.locator(".facts").getByText("5.10×").waitFor();
    await page.locator(`a[data-candidate="${candidateId(58)}"]`).waitFor();
    const reads = service.requests.slice(before).filter((request) => !request.endsWith("/health"));
    assert.ok(reads.length <= 6, `${reads.length} reads: ${reads}`);
    assert.ok(!reads.some((request) => request.endsWith("/lineage")), "not the lineage");
  });
});

it("a run leads to its failures, its insights and a comparison, and offers its export", async () => {
  await open(world());
  await rows().first().waitFor();
  const views = page.getByRole("navigation", { name: "Views of this run" });
  const links = await views.getByRole("link").evaluateAll((found) => found.map((link) => link.getAttribute("href")));
  const { live } = service.world;
  assert.deepEqual(links, [`/failures?run=${live}`, `/insights?run=${live}`, `/compare?of=runs&left=${live}`]);
  await page.getByText("Export", { exact: true }).focus();
  await page.keyboard.press("Enter");
  const forms = page.getByRole("link", { name: /^(Report|CSV|JSON lines|Bundle) / });
  assert.equal(await forms.count(), 4);
  assert.equal(await forms.nth(1).getAttribute("href"), `/api/v1/runs/${live}/export?format=csv`);
  await page.keyboard.press("Escape");
  await forms.first().waitFor({ state: "hidden" });
  await views.getByRole("link", { name: "Failures" }).click();
  await page.getByRole("heading", { name: "Failures" }).waitFor();
  assert.deepEqual(complaints, []);
});
