// The page of a run: its table, its curve, its controls, and what it says where little is there.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits, SCHEMES } from "./browser.js";
import { complaints, inEveryLook, node, open, page, panel, placeOf, serve, service, setUp } from "./hooks.js";
import { largeWorld } from "./large.js";
import { BEST, candidateId, promote, RACY, runId, timedInTurn } from "./world.js";

const LARGE = 10_000;

setUp();

const run = () => `/runs/${service.world.live}`;
const table = () => panel("Candidates");
const rows = () => table().locator("tr.row");
const ordinals = async () => (await rows().locator("td.ordinal").allInnerTexts()).map(Number);

it("the run with its verdicts, its lineage and its events, in every look", async () => {
  await open(run());
  await node(BEST).waitFor();
  await page.getByText("1 worker").waitFor();
  await inEveryLook("run", async () => {
    assert.equal(await page.locator("h1").innerText(), "row-softmax playbook");
    assert.match(await panel("Verdicts").innerText(), /judged\s+17[\s\S]*1 data race[\s\S]*2 incorrect output[\s\S]*accepted\s+11/);
    assert.match(await node(BEST).getAttribute("aria-label"), /#12 .*step, accepted, 4\.06× modelled, best of the run/);
    assert.match(await panel("Events").innerText(), /live[\s\S]*#16 asynchronous copies\s+out of bounds/);
    for (const name of ["Best so far", "Lineage", "Events"]) {
      assert.equal(await panel(name).locator("header").getByText("modelled").count(), 1, `the badge of ${name}`);
    }
  });
});

describe("a run without a worker", () => {
  it("says so where the run waits", async () => {
    service.workers = 0;
    await open(run());
    await page.getByText("No worker is attached, so nothing is evaluated.").waitFor();
    assert.match(await page.locator("main").innerText(), /kernelwright worker join http:\/\/127\.0\.0\.1:\d+/);
    await page.goto(`${service.origin}/candidates/${candidateId(18)}`);
    await page.getByText("No worker is attached, so nothing is evaluated.").waitFor();
  });
});

describe("a champion whose confirmation failed", () => {
  it("is nowhere shown as accepted", async () => {
    const champion = service.world.nodes.find((other) => other.ordinal === BEST);
    Object.assign(champion, { best: false, promotion: { state: "refused", reason: "incorrect output on fresh inputs" } });
    await open(run());
    await node(BEST).waitFor();
    assert.match(await node(BEST).getAttribute("aria-label"), /not confirmed/);
    const row = panel("Candidates").locator("tbody tr", { hasText: champion.title });
    assert.match(await row.innerText(), /incorrect output on fresh inputs[\s\S]*not confirmed/);
    assert.match(await page.getByRole("img", { name: /Best speedup so far/ }).getAttribute("aria-label"), /3\.35× by candidate 13/);
    await page.screenshot({ path: "screenshots/not-confirmed.png", fullPage: true });
    await page.mouse.click(...(await placeOf(BEST)));
    assert.match(await panel("Verdict").innerText(), /not confirmed[\s\S]*The confirmation before promotion failed: incorrect output on fresh inputs/);
    assert.deepEqual(complaints, []);
  });

  it("is marked by its event", async () => {
    await open(run());
    await node(BEST).waitFor();
    const event = promote(service.world);
    const refused = { state: "refused", reason: "incorrect output on fresh inputs" };
    event.promotion.state = refused;
    Object.assign(service.world.nodes.find((other) => other.ordinal === BEST), { best: false, promotion: refused });
    service.emit(event);
    await page.locator(`a[data-candidate="${candidateId(BEST)}"][aria-label*="not confirmed"]`).waitFor();
  });
});

describe("the table of candidates", () => {
  it("of a large run has only the rows in sight, and scrolls to the last", async () => {
    await serve(largeWorld(LARGE));
    await open(run());
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
    await serve(largeWorld(LARGE));
    await open(run());
    await rows().first().waitFor();
    await table().getByRole("searchbox").fill("variant 4242");
    await table().getByRole("status").getByText("1 found").waitFor();
    assert.deepEqual(await ordinals(), [4242]);
    assert.ok(service.requests.length < 60, `${service.requests.length} requests`);
    await table().getByRole("searchbox").fill("");
    await table().getByRole("link", { name: /^variant/ }).nth(5).waitFor();
  });

  it("is sorted by a click on a column, and by another the other way", async () => {
    await open(run());
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
    await open(run());
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
    await open(run());
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
  const ticks = () => panel("Best so far").locator("text.axis").allTextContents();

  it("fits its axis to small gains", async () => {
    for (const node of service.world.nodes) if (node.speedup !== null && node.ordinal > 0) node.speedup = 1 + node.ordinal / 100;
    await open(run());
    await node(BEST).waitFor();
    const shown = (await ticks()).filter((text) => text.endsWith("×")).map(parseFloat);
    assert.ok(Math.min(...shown) >= 0.9 && Math.max(...shown) <= 1.2, `ticks ${shown}`);
    assert.ok(shown.length >= 3, `ticks ${shown}`);
    await page.screenshot({ path: "screenshots/small-gains.png", fullPage: true });
  });

  it("runs along candidates, time or cost", async () => {
    for (const node of service.world.nodes) node.cost = node.ordinal === 0 ? null : 0.01;
    await open(run());
    const axis = page.getByRole("group", { name: "Horizontal axis" });
    await axis.getByRole("button", { name: "time" }).click();
    assert.ok((await ticks()).includes("minutes"), `${await ticks()}`);
    await axis.getByRole("button", { name: "cost" }).click();
    assert.ok((await ticks()).includes("dollars"), `${await ticks()}`);
    assert.deepEqual(complaints, []);
  });

  for (const colorScheme of SCHEMES) {
    it(`of a large run shows every candidate, ${colorScheme}`, async () => {
      await serve(largeWorld(LARGE));
      await open(run(), { colorScheme });
      await page.getByRole("img", { name: /Best speedup so far over 10,000 candidates/ }).waitFor();
      await page.screenshot({ path: `screenshots/run-large-${colorScheme}.png`, fullPage: true });
      assert.ok((await panel("Best so far").locator("svg *").count()) < 100, "the marks are no elements");
      await assertFits(page);
    });
  }

  it("is read by the pointer and by the keyboard", async () => {
    await open(run());
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
    const made = service.world;
    for (const node of made.nodes) node.modelled = false;
    await open("/");
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
    await open(`/runs/${runId(1)}`);
    await panel("Best so far").getByText("No candidate was accepted.").waitFor();
    await table().getByText("No candidates.").waitFor();
  });
});

it("a run leads to its failures, its insights and a comparison, and offers its export", async () => {
  await open(run());
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
  // Escape closes it however soon it comes.
  await page.getByText("Export", { exact: true }).evaluate((summary) => {
    summary.click();
    summary.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  });
  await forms.first().waitFor({ state: "hidden" });
  await views.getByRole("link", { name: "Failures" }).click();
  await page.getByRole("heading", { name: "Failures" }).waitFor();
  assert.deepEqual(complaints, []);
});

describe("the keyboard", () => {
  it("Escape takes a question back, and a card away", async () => {
    await open(run());
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Cancel…" }).waitFor();
    await node(RACY).focus();
    await page.locator(".frame .card").first().waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".frame .card").first().waitFor({ state: "detached" });
  });
});

describe("what went wrong beside the candidates", () => {
  it("shows requests whose answer was lost, and what they are counted with", async () => {
    const live = service.world.runs.find(({ id }) => id === service.world.live);
    live.models = [{ name: "fast", weight: 1 }];
    Object.assign(live.spend, { calls: 7, dollars: 0.5, interrupted_calls: 2, interrupted_tokens: 3000, interrupted_dollars: 0.25 });
    await open(run());
    const spend = await panel("Spend").innerText();
    assert.match(spend, /Interrupted\s+2\s+requests without an answer[\s\S]*3,000 tokens and \$0\.25/);
    assert.match(spend, /Dollars\s+\$0\.75/);
    await page.screenshot({ path: "screenshots/interrupted.png", fullPage: true });
    assert.deepEqual(complaints, []);
  });

  it("says why a run promoted nothing, and names no branch that does not exist", async () => {
    await open(`/runs/${runId(1)}`);
    await page.getByRole("status").getByText("Nothing was promoted: the run was cancelled").waitFor();
    const live = service.world.runs.find(({ id }) => id === service.world.live);
    promote(service.world);
    live.promotion = { ...live.promotion, checks: [], state: { state: "refused", reason: "incorrect output on fresh inputs" } };
    await page.goto(service.origin + run());
    const promotion = page.locator(".promotion");
    await promotion.waitFor();
    const text = await promotion.innerText();
    assert.match(text, /Promotion refused[\s\S]*incorrect output on fresh inputs/);
    assert.doesNotMatch(text, /kernelwright\/row-softmax/);
    await page.screenshot({ path: "screenshots/unpromoted.png", fullPage: true });
  });
});

describe("controls", () => {
  it("pause and resume at once", async () => {
    await open(run());
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("paused by request").first().waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("button", { name: "Pause" }).waitFor();
    const posts = service.requests.filter((request) => request.startsWith("POST"));
    assert.deepEqual(posts, [`POST /api/v1${run()}/pause`, `POST /api/v1${run()}/resume`]);
  });

  it("cancel only when asked twice", async () => {
    await open(run());
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    assert.ok(!service.requests.some((request) => request.startsWith("POST")), "nothing was asked of the service");
    await page.getByRole("button", { name: "Cancel…" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await page.locator("h1 + p").getByText("cancelled").waitFor();
    assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
  });

  it("show why the service refused", async () => {
    await open(run());
    await page.getByRole("button", { name: "Pause" }).waitFor();
    service.problem = { type: "/problems/wrong-state", title: "Wrong state", status: 409, detail: "the run is completed; only a running run can be paused" };
    await page.getByRole("button", { name: "Pause" }).click();
    // What else is asked for meanwhile is refused too, and says so in its own place.
    assert.match(await page.locator(".head").getByRole("alert").innerText(), /Wrong state\s+the run is completed/);
  });
});

describe("when there is little to show", () => {
  it("a run without candidates says what comes first, and one that is over expects nothing", async () => {
    service.world.runs.find(({ id }) => id === runId(1)).state = { state: "running" };
    await open(`/runs/${runId(1)}`);
    await panel("Lineage").getByText("No candidates yet. The first will be the task's baseline.").waitFor();
    await panel("Best so far").getByText("No candidate was accepted yet.").waitFor();
    service.world.runs.find(({ id }) => id === runId(1)).state = { state: "cancelled" };
    await page.reload();
    await panel("Lineage").getByText("The run ended without a candidate.").waitFor();
    await panel("Verdicts").getByText("No verdicts.").waitFor();
    await inEveryLook("run-empty", async () => {
      const { height } = await table().boundingBox();
      assert.ok(height < 220, `a table without rows takes ${height} px`);
      assert.doesNotMatch(await page.locator("main").innerText(), /accepted yet/);
    });
  });

  it("an unknown run shows the service's own words", async () => {
    await open(`/runs/${runId(99)}`);
    assert.match(await page.getByRole("alert").innerText(), /Unknown run\s+there is no run/);
  });
});
