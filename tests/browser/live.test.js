// A run that goes on while its page is open: what its events change, and what happens when they do not arrive.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { complaints, node, open, page, panel, service, setUp } from "./hooks.js";
import { accept, answer, BEST, candidateId, draft, promote, propose } from "./world.js";

setUp();

const run = () => `/runs/${service.world.live}`;

/** Makes the page believe that its tab went to the background, or came back. */
function setHidden(hidden) {
  return page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

describe("a run that goes on while it is watched", () => {
  it("takes a verdict over from its event, without reading the lineage again", async () => {
    await open(run());
    await node(17).waitFor();
    service.emit(accept(service.world, 17, 5.1));
    await page.locator(".facts").getByText("5.10×").waitFor();
    await page.locator(`a[data-candidate="${candidateId(17)}"][aria-label*="best of the run"]`).waitFor();
    assert.equal(await page.locator('a[data-candidate][aria-label*="best of the run"]').count(), 1, "one best");
    await panel("Events").getByText("5.10×, best so far").waitFor();
    assert.match(await panel("Verdicts").innerText(), /judged\s+18/);
    assert.match(await page.getByRole("img", { name: /Best speedup so far/ }).getAttribute("aria-label"), /5\.10× by candidate 17/);
    const reads = service.requests.filter((request) => request.endsWith("/lineage"));
    assert.equal(reads.length, 1, "the lineage was read once");
    assert.deepEqual(complaints, []);
  });

  it("shows a new candidate at its parent", async () => {
    await open(run());
    await node(BEST).waitFor();
    service.emit(propose(service.world, "cluster of two"));
    await node(19).waitFor();
    assert.match(await node(19).getAttribute("aria-label"), /#19 cluster of two, submit, queued/);
    assert.match(await page.getByRole("group", { name: /Lineage of/ }).getAttribute("aria-label"), /20 candidates/);
  });

  it("follows a candidate that a model writes", async () => {
    await open(run());
    await node(BEST).waitFor();
    service.emit(draft(service.world, "fast"));
    await node(19).waitFor();
    assert.match(await node(19).getAttribute("aria-label"), /#19 crossover by fast, crossover, asking fast$/);
    await panel("Lineage").getByText("crossover", { exact: true }).waitFor();
    await panel("Lineage").getByRole("button", { name: "Crossovers" }).waitFor();
    service.emit({ kind: "unanswered", candidate: candidateId(19), model: "fast", reason: "the server is overloaded" });
    await panel("Events").getByText("fast did not answer: the server is overloaded").waitFor();
    assert.match(await node(19).getAttribute("aria-label"), /no answer from fast: the server is overloaded/);
    await page.screenshot({ path: "screenshots/unanswered.png", fullPage: true });
    service.emit(answer(service.world, 19));
    await panel("Events").getByText("fast answered, 4,321 tokens, $0.0123").waitFor();
    await page.locator(`a[data-candidate="${candidateId(19)}"][aria-label*="queued"]`).waitFor();
    await panel("Spend").getByText("$0.0123").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("shows what nothing will come of", async () => {
    await open(run());
    service.emit(draft(service.world, "fast"));
    await node(19).waitFor();
    service.emit({ kind: "abandoned", candidate: candidateId(19), reason: "the tokens left do not cover it" });
    await panel("Events").getByText("abandoned: the tokens left do not cover it").waitFor();
    assert.match(await node(19).getAttribute("aria-label"), /abandoned/);
  });

  it("misses nothing when the stream breaks", async () => {
    await open(run());
    await panel("Events").getByText("live").waitFor();
    service.dropReaders();
    service.emit(accept(service.world, 17, 5.1));
    await panel("Events").getByText("5.10×, best so far").waitFor();
    await panel("Events").getByText("live").waitFor();
    assert.equal(await panel("Events").getByText("5.10×, best so far").count(), 1, "and repeats nothing");
  });

  it("reads again later what the service would not give at once", async () => {
    await open(run());
    await panel("Events").getByText("live").waitFor();
    service.problem = { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" };
    service.emit(accept(service.world, 17, 5.1));
    await panel("Events").getByText("5.10×, best so far").waitFor();
    assert.equal(await page.locator(".facts").getByText("4.06×").count(), 1, "the run itself could not be read");
    service.problem = null;
    await page.locator(".facts").getByText("5.10×").waitFor();
  });

  it("lets the stream go while nobody looks, and catches up after", async () => {
    await open(run());
    await panel("Events").getByText("live").waitFor();
    const left = service.readerLeft();
    await setHidden(true);
    await left;
    service.emit(accept(service.world, 17, 5.1));
    await setHidden(false);
    await page.locator(".facts").getByText("5.10×").waitFor();
  });

  it("shows a promotion as it proceeds", async () => {
    await open(run());
    await node(BEST).waitFor();
    service.emit(promote(service.world));
    await page.getByText("Champion committed").waitFor();
    assert.match(await page.locator(".promotion").innerText(), /#12 one warp a row[\s\S]*on branch kernelwright\/row-softmax[\s\S]*commit 9fceb02d0ae5[\s\S]*looked at again on NVIDIA L4[^:]*: accepted, 4.61× the baseline's speed[\s\S]*confirmed on NVIDIA L4/);
    await page.screenshot({ path: "screenshots/promotion.png" });
  });
});

describe("a page that is left open", () => {
  it("says while its events do not arrive, and goes on where they ended", async () => {
    const made = service.world;
    await open(run());
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
    const made = service.world;
    const [stage] = made.events.filter(({ what }) => what.kind === "stage");
    for (let number = 0; number < 5_000; number += 1) made.events.push({ ...stage, id: made.events.length + 1 });
    made.runs.find(({ id }) => id === made.live).last_event = made.events.length;
    await open(run());
    await panel("Events").getByText("live").waitFor();
    assert.ok(service.sent <= 150, `${service.sent} events`);
    assert.equal(service.requests.filter((request) => request.includes("/candidates")).length, 1, "old events cause no reads but that of the floor");
  });

  it("reads the run and its candidates once for many events", async () => {
    const made = service.world;
    await open(run());
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
