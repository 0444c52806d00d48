// The order of a page's first requests: those of the page start beside the question who is signed in, and
// those that take the service long start after the ones that the page shows first.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { PATIENCE } from "./browser.js";
import { complaints, node, page, panel, prepare, serve, service, setUp } from "./hooks.js";
import { largeWorld } from "./large.js";
import { someInsights, taskName } from "./views.js";
import { accept, BEST, candidateId } from "./world.js";

/** More candidates than a page reads in columns. */
const LARGE = 25_000;
const SESSION = "**/api/v1/session";

setUp();

const run = () => `/runs/${service.world.live}`;
const asked = (end) => service.requests.filter((request) => request === `GET /api/v1${end}`).length;

/** Holds the answers to requests of these addresses back until the returned function is called. */
async function hold(addresses) {
  let release;
  const released = new Promise((done) => (release = done));
  await page.route(addresses, async (route) => {
    await released;
    await route.continue();
  });
  return release;
}

/** Waits until the stand-in has got a request so many times. */
async function untilAsked(end, times = 1) {
  const begin = performance.now();
  while (asked(end) < times) {
    assert.ok(performance.now() - begin < PATIENCE, `${end} was asked ${asked(end)} times, not ${times}`);
    await new Promise((later) => setTimeout(later, 10));
  }
}

/** Opens an address in a page whose requests to `addresses` get no answer yet. */
async function openHolding(addresses, path) {
  await prepare();
  const release = await hold(addresses);
  await page.goto(service.origin + path);
  return release;
}

describe("while the service has not said who is signed in", () => {
  const pages = {
    runs: { path: () => "/", requests: () => ["/runs", "/devices"], shown: () => page.locator("tbody a", { hasText: "row-softmax playbook" }) },
    run: { path: run, requests: () => [run(), `${run()}/lineage`, `${run()}/events`, `${run()}/steering`], shown: () => page.locator("h1", { hasText: "row-softmax playbook" }) },
    candidate: { path: () => `/candidates/${candidateId(BEST)}`, requests: () => [`/candidates/${candidateId(BEST)}`, run()], shown: () => page.locator("section[aria-label=Verdict]") },
    task: { path: () => `/tasks/${taskName}`, requests: () => [`/tasks/${taskName}/definition`], shown: () => page.locator("h2", { hasText: "Tolerance" }) },
    fleet: { path: () => "/fleet", requests: () => ["/fleet"], shown: () => page.locator("tbody tr", { hasText: "cleo" }) },
  };
  for (const [name, { path, requests, shown }] of Object.entries(pages)) {
    it(`the page ${name} asks for all that it shows, and is hidden`, async () => {
      const release = await openHolding(SESSION, path());
      for (const request of requests()) await untilAsked(request);
      await shown().waitFor({ state: "attached" });
      assert.ok(!(await shown().isVisible()), "it is there, and hidden");
      const before = requests().map(asked);
      release();
      await shown().waitFor();
      assert.deepEqual(requests().map(asked), before, "nothing is asked again");
      assert.deepEqual(complaints, []);
    });
  }

  it("a browser without a sign-in sees no page that was refused, and after it the page it wanted", async () => {
    service.token = "kw_right";
    const release = await openHolding(SESSION, run());
    await untilAsked(run());
    const alert = page.locator("main").getByRole("alert");
    await page.locator("main *").first().waitFor({ state: "attached" });
    assert.ok(!(await alert.isVisible()), "no alert is seen");
    release();
    await page.getByLabel("Token of this service").fill("kw_right");
    assert.equal(await alert.count(), 0);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "row-softmax playbook" }).waitFor();
    assert.equal(new URL(page.url()).pathname, run());
  });
});

it("a page is shown also where that question fails", async () => {
  await prepare();
  await page.route(SESSION, (route) => route.fulfill({ status: 500, json: { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" } }));
  await page.goto(service.origin + run());
  await page.getByRole("heading", { name: "row-softmax playbook" }).waitFor();
  await node(BEST).waitFor();
});

describe("the insights of a run", () => {
  const reading = () => panel("Insights").getByText("Loading the insights…");
  const insights = () => asked(`${run()}/insights`);

  /** Makes the live run one that asks a model. */
  function askModels() {
    service.world.runs.find(({ id }) => id === service.world.live).models = [{ name: "fast", weight: 1 }];
    service.world.views = { insights: someInsights(service.world) };
  }

  it("are asked for after the candidates are shown, once, and again after a verdict", async () => {
    askModels();
    const release = await openHolding("**/lineage", run());
    await panel("Lineage").getByText("Reading the candidates…").waitFor();
    await reading().waitFor();
    // Whatever asked at once would have been asked beside the directions.
    await untilAsked(`${run()}/steering`);
    assert.equal(insights(), 0);
    release();
    await panel("Insights").getByText("rows in pairs").waitFor();
    assert.equal(insights(), 1);
    const order = service.requests.filter((request) => /\/(lineage|insights)$/.test(request)).map((request) => request.split("/").at(-1));
    assert.deepEqual(order, ["lineage", "insights"]);
    service.world.views.insights[2].thought = "rows in threes";
    service.emit(accept(service.world, 17, 5.1));
    await panel("Insights").getByText("rows in threes").waitFor();
    assert.equal(insights(), 2);
    assert.deepEqual(complaints, []);
  });

  it("that could not be read say so, and are read after the next verdict", async () => {
    askModels();
    await prepare();
    await page.route("**/insights", (route) => route.fulfill({ status: 500, json: { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" } }));
    await page.goto(service.origin + run());
    await panel("Insights").getByText("see the log for 4711").waitFor();
    await node(BEST).waitFor();
    await page.unroute("**/insights");
    service.emit(accept(service.world, 17, 5.1));
    await panel("Insights").getByText("rows in pairs").waitFor();
    assert.equal(await panel("Insights").getByText("see the log for 4711").count(), 0);
  });

  it("of a run that is shown by generation are asked for after its totals", async () => {
    await serve(largeWorld(LARGE));
    askModels();
    const release = await openHolding("**/lineage/generations", run());
    await reading().waitFor();
    await untilAsked(`${run()}/steering`);
    assert.equal(insights(), 0);
    release();
    await panel("Lineage").getByRole("button", { name: /^generations? / }).first().waitFor();
    await panel("Insights").getByText("No thoughts yet").or(panel("Insights").getByRole("table")).waitFor();
    assert.equal(insights(), 1);
    assert.deepEqual(complaints, []);
  });
});

describe("the totals of a run", () => {
  const TOTALS = ["/lineage/generations", "/curve"];

  it("are asked for beside the run, because its address says which", async () => {
    await serve(largeWorld(LARGE));
    const release = await openHolding(`**/api/v1${run()}`, run());
    for (const part of TOTALS) await untilAsked(run() + part);
    assert.equal(asked(run()), 0, "the run's own answer is not there yet");
    release();
    await panel("Lineage").getByRole("button", { name: /^generations? / }).first().waitFor();
    assert.deepEqual(TOTALS.map((part) => asked(run() + part)), [1, 1]);
    assert.deepEqual(complaints, []);
  });

  it("that fail are no trouble of a run that needs none", async () => {
    await prepare();
    await page.route(/\/(generations|curve)$/, (route) => route.fulfill({ status: 500, json: { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" } }));
    await page.goto(service.origin + run());
    await node(BEST).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });

  it("that fail are shown as trouble of a run that is shown by them, and asked for again", async () => {
    await serve(largeWorld(LARGE));
    await prepare();
    await page.route("**/curve", (route) => route.fulfill({ status: 500, json: { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" } }));
    await page.goto(service.origin + run());
    const alert = page.getByRole("alert");
    await alert.getByText("see the log for 4711").waitFor();
    await page.getByRole("heading", { name: `run of ${LARGE}` }).waitFor();
    await page.unroute("**/curve");
    await alert.getByRole("button", { name: "Try again" }).click();
    await panel("Lineage").getByRole("button", { name: /^generations? / }).first().waitFor();
    assert.equal(await alert.count(), 0);
  });
});

describe("a candidate that is known by its number alone", () => {
  it("is opened from a table that was read in columns, and its address becomes that of its id", async () => {
    await serve(largeWorld(3_000));
    await prepare();
    await page.goto(service.origin + run());
    const link = panel("Candidates").locator("tr.row a").first();
    await link.waitFor();
    const [, ordinal] = /\/runs\/[^/]+\/candidates\/(\d+)$/.exec(await link.getAttribute("href"));
    await link.click();
    await page.getByRole("heading", { name: new RegExp(`^#${ordinal} `) }).waitFor();
    assert.equal(new URL(page.url()).pathname, `/candidates/${candidateId(Number(ordinal))}`);
    await page.goBack();
    await link.waitFor();
    assert.equal(new URL(page.url()).pathname, run(), "the address with the number is no stop on the way back");
    assert.deepEqual(complaints, []);
  });

  it("that is not there is named", async () => {
    await prepare();
    await page.goto(`${service.origin}${run()}/candidates/77`);
    await page.getByRole("alert").getByText("The run has no candidate #77.").waitFor();
  });
});
