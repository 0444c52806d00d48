// The built dashboard in a real browser, against a stand-in for the service. Screenshots of each
// page go to screenshots/, for people to look at.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";

import { assertFits, launchBrowser, newPage, SCHEMES, SIZES } from "./browser.js";
import { Service } from "./service.js";
import { accept, answer, BEST, candidateId, draft, NOW, promote, propose, RACY, runId, settled, timedInTurn, world } from "./world.js";

let browser;
let service;
let context;
let page;
let complaints;

before(async () => {
  browser = await launchBrowser();
});

after(() => browser?.close());

beforeEach(async () => {
  service = new Service(world());
  await service.start();
});

afterEach(async () => {
  await context?.close();
  await service.stop();
});

async function open(path, options) {
  ({ context, page, complaints } = await newPage(browser, options));
  await page.clock.setFixedTime(NOW);
  await page.goto(service.origin + path);
}

const run = () => `/runs/${service.world.live}`;
const panel = (name) => page.getByRole("region", { name, exact: true });
const node = (ordinal) => page.locator(`a[data-candidate="${candidateId(ordinal)}"]`);

/** The point of the window where a candidate stands in the lineage: its link is there while it has the focus. */
async function placeOf(ordinal) {
  await page.getByRole("group", { name: /^Lineage of/ }).scrollIntoViewIfNeeded();
  await node(ordinal).focus();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  const box = await node(ordinal).boundingBox();
  await node(ordinal).blur();
  return [box.x + box.width / 2, box.y + box.height / 2];
}

/** Makes the page believe that its tab went to the background, or came back. */
function setHidden(hidden) {
  return page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { value, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

describe("each page, in light and dark, on a desk and on a phone", () => {
  const pages = {
    runs: {
      path: () => "/",
      ready: () => panel("Devices").waitFor(),
      async check() {
        assert.equal(await page.locator("tbody tr").count(), 5);
        const live = await page.locator("tbody tr", { hasText: "row-softmax playbook" }).innerText();
        for (const text of ["running", "4.06×", "modelled", "10.2 µs", "18 / 45 trials"]) assert.ok(live.includes(text), `${text} in ${live}`);
        const measured = await page.locator("tbody tr", { hasText: "on the card" }).innerText();
        assert.ok(measured.includes("1.31×") && !measured.includes("modelled"), measured);
        const devices = await panel("Devices").innerText();
        assert.match(devices, /of ada\s+well\s+gets no job until [\d:]+: its last jobs all ended in faults\s+controls: 300, 3 screened as faster \(at most 2\.57 %\), 0 promoted \(at most 1\.00 %\), 1 unfinished/);
        assert.match(devices, /of bob\s+set aside: it does not keep what was written\s+controls: none yet/);
        assert.match(devices, /of cleo\s+well\s+controls: none: modelled times have no noise/);
      },
    },
    run: {
      path: run,
      ready: () => node(BEST).waitFor(),
      async check() {
        assert.equal(await page.locator("h1").innerText(), "row-softmax playbook");
        assert.match(await panel("Verdicts").innerText(), /judged\s+17[\s\S]*1 data race[\s\S]*2 incorrect output[\s\S]*accepted\s+11/);
        assert.match(await node(BEST).getAttribute("aria-label"), /#12 .*step, accepted, 4\.06× modelled, best of the run/);
        assert.match(await panel("Events").innerText(), /live[\s\S]*#16 asynchronous copies\s+out of bounds/);
        for (const name of ["Best so far", "Lineage", "Events"]) {
          assert.equal(await panel(name).locator("header").getByText("modelled").count(), 1, `the badge of ${name}`);
        }
      },
    },
    accepted: {
      path: () => `/candidates/${candidateId(BEST)}`,
      ready: () => panel("Times").waitFor(),
      async check() {
        assert.match(await panel("Times").innerText(), /wide\s+18\.6 µs[\s\S]*4,096 blocks of 128 threads[\s\S]*dram bandwidth, 81 %/);
        assert.match(await panel("Times").innerText(), /wide[\s\S]*warm cache 9\.32 µs, not scored/);
        assert.match(await panel("Hypothesis").innerText(), /1\.40× to 2\.60×[\s\S]*1\.41×\s+modelled\s+as expected/);
        assert.match(await panel("Gates").innerText(), /CTAs per SM[\s\S]*at least 4 CTAs\/SM[\s\S]*8\.83 CTAs\/SM/);
        assert.match(await panel("Resources").innerText(), /softmax\s+40\s+0 B\s+0 B\s+16 B\s+372 B\s+20 B/);
        assert.match(await panel("Checks").innerText(), /all 16 passed/);
        assert.match(await panel("Evaluation").innerText(), /compile 312 ms[\s\S]*NVRTC|NVRTC[\s\S]*compile 312 ms/);
      },
    },
    rejected: {
      path: () => `/candidates/${candidateId(RACY)}`,
      ready: () => panel("Source").waitFor(),
      async check() {
        const verdict = await panel("Verdict").innerText();
        assert.match(verdict, /data race\s+line 39 shared race: thread 33 reads part\[1\]/);
        assert.match(verdict, /block \(3, 0, 0\), thread \(33, 0, 0\) · buffer part, byte 4/);
        const blamed = page.locator("#L39");
        assert.match(await blamed.innerText(), /^39\s*for \(int w = 1; w < WARPS/);
        assert.match(await blamed.locator("+ .note").innerText(), /shared race thread 33 reads/);
        assert.match(await panel("Difference to the parent").innerText(), /\+1 −1 lines[\s\S]*nothing waits for the readers/);
      },
    },
  };
  for (const colorScheme of SCHEMES) {
    for (const size of Object.keys(SIZES)) {
      for (const [name, { path, ready, check }] of Object.entries(pages)) {
        it(`${name}, ${colorScheme}, ${size}`, async () => {
          await open(path(), { colorScheme, size });
          await ready();
          await page.getByText("1 worker").waitFor();
          await page.screenshot({ path: `screenshots/${name}-${colorScheme}-${size}.png`, fullPage: true });
          await check();
          await assertFits(page);
          assert.deepEqual(complaints, []);
        });
      }
    }
  }
});

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

describe("a service that goes away", () => {
  it("is missed at once, and the page continues by itself when it is back", async () => {
    await open(run());
    await panel("Events").getByText("live").waitFor();
    const { port } = service.server.address();
    await service.stop();
    await page.getByText("The service is not reachable.").waitFor();
    await page.screenshot({ path: "screenshots/gone.png" });
    service.emit(accept(service.world, 17, 5.1));
    await service.start(port);
    await page.getByText("The service is not reachable.").waitFor({ state: "detached" });
    await page.locator(".facts").getByText("5.10×").waitFor();
  });

  it("leaves a list that reads again when it is back", async () => {
    await open("/");
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
    const { port } = service.server.address();
    await service.stop();
    await page.getByText("The service is not reachable.").waitFor();
    service.world.runs[0].name = "renamed meanwhile";
    await service.start(port);
    await page.getByRole("link", { name: "renamed meanwhile" }).waitFor();
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

describe("the lineage", () => {
  it("leads to a candidate by a click, and back", async () => {
    await open(run());
    await page.mouse.click(...(await placeOf(RACY)));
    await page.getByRole("heading", { name: "#11 rows in pairs" }).waitFor();
    assert.equal(new URL(page.url()).pathname, `/candidates/${candidateId(RACY)}`);
    await page.goBack();
    await node(RACY).waitFor();
  });

  it("shows a card for the candidate under the pointer", async () => {
    await open(run());
    await page.mouse.move(...(await placeOf(RACY)));
    const card = page.locator(".frame .card").first();
    await card.waitFor();
    assert.match(await card.innerText(), /#11 rows in pairs[\s\S]*data race[\s\S]*line 39: thread 33 reads part\[1\]/);
    await page.screenshot({ path: "screenshots/card.png" });
  });

  it("is walked with the arrow keys", async () => {
    await open(run());
    await node(BEST).focus();
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute("data-candidate"));
    for (const [key, ordinal] of [["ArrowLeft", 10], ["ArrowLeft", 8], ["ArrowDown", RACY], ["Home", 0], ["ArrowRight", 1], ["c", BEST]]) {
      await page.keyboard.press(key);
      assert.equal(await focused(), candidateId(ordinal), key);
    }
    await page.screenshot({ path: "screenshots/focus.png" });
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "#12 one warp a row, no shared memory" }).waitFor();
  });

  it("tells what sanitizers said before a promotion, and what was left out", async () => {
    await open(`/candidates/${candidateId(BEST)}`);
    const box = page.locator(".confirmation");
    await box.waitFor();
    assert.match(await box.innerText(), /memcheck\s+clean[\s\S]*racecheck\s+not run: it did not end in 120 s[\s\S]*many elements\s+not run: memory/);
  });

  it("tells who looked at a measured candidate first, and what came of comparing the incumbent with itself", async () => {
    const wrong = { kind: "caught", screening: settled(0.012, "faster"), reason: "a gain of -0.31% to +0.22%" };
    await open("/");
    await page.route("**/api/v1/candidates/*", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, json: timedInTurn(await response.json(), wrong) });
    });
    await page.goto(`${service.origin}/candidates/${candidateId(BEST)}`);
    await panel("Comparison").waitFor();
    assert.match(await panel("Comparison").innerText(), /Control\s+the incumbent against itself: called faster by its screening, not by its confirmation: a gain of -0\.31% to \+0\.22%/);
    assert.match(await panel("Evaluation").innerText(), /Device\s+NVIDIA L4, nvidia[\s\S]*Pre-screen\s+2 of 31 executions on Emulated L4/);
    assert.deepEqual(complaints, []);
  });

  it("can dim all but the path to the best", async () => {
    await open(run());
    await page.getByRole("button", { name: "Path to the best" }).click();
    const bright = await page.locator("a[data-candidate]").evaluateAll((nodes) => nodes.map((node) => node.getAttribute("data-candidate")));
    assert.deepEqual(bright.sort(), [0, 1, 4, 8, 10, BEST].map(candidateId));
    await page.screenshot({ path: "screenshots/path.png", fullPage: true });
  });
});

describe("a launch", () => {
  it("that got no answer is repeated under its key, a changed one under another", async () => {
    await open("/runs/new");
    await page.route("**/api/v1/runs", (route) => route.abort());
    const launch = page.getByRole("button", { name: "Launch", exact: true });
    const keys = [];
    for (const act of [() => launch.click(), () => page.keyboard.press("Control+Enter"), () => launch.click()]) {
      // The button has its name back when the answer before is there.
      await launch.waitFor();
      if (keys.length === 2) await page.getByLabel("Trials", { exact: true }).fill("7");
      const [request] = await Promise.all([page.waitForRequest("**/api/v1/runs"), act()]);
      keys.push(request.headers()["idempotency-key"]);
      await page.getByRole("alert").getByText("The service does not answer.").waitFor();
    }
    assert.equal(keys[0], keys[1], "the same request");
    assert.notEqual(keys[0], keys[2], "another request");
  });
});

describe("a launch that the service refuses", () => {
  const refusal = (status, title, problems, detail = "") => ({ type: "/problems/refused", title, status, detail, problems });
  const problem = (file, message) => ({ file, line: 0, column: 0, message, fix: "" });
  const field = (name) => page.locator(`[data-field="${name}"]`);

  it("has each problem at its field and only the rest above the form", async () => {
    await open("/runs/new");
    service.refusal = refusal(422, "Invalid request", [
      problem("budget.trials", "a whole number from 1 is needed"),
      problem("promotion.repository", "there is no such repository"),
      problem("promotion.base", "there is no such branch"),
    ]);
    await page.getByRole("button", { name: "Launch", exact: true }).click();
    const alert = page.getByRole("alert");
    await alert.waitFor();
    assert.match(await field("budget.trials").innerText(), /a whole number from 1 is needed/);
    assert.match(await field("promotion.repository").innerText(), /there is no such repository/);
    // The form has no field for the base while no repository is named.
    const above = await alert.innerText();
    assert.match(above, /there is no such branch/);
    assert.doesNotMatch(above, /whole number|no such repository/);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "field-budget-trials");
    await page.screenshot({ path: "screenshots/refused.png", fullPage: true });
    assert.deepEqual(complaints.filter((text) => !text.includes("422")), []);
  });

  it("marks the field of a value that the service cannot read, and of a task that is gone", async () => {
    await open("/runs/new");
    const launch = page.getByRole("button", { name: "Launch", exact: true });
    service.refusal = refusal(400, "Malformed request", [problem("budget.trials", "a whole number from 0 to 4294967295 is needed")]);
    await launch.click();
    await field("budget.trials").getByText("a whole number from 0 to 4294967295").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /See the marked fields/);
    service.refusal = refusal(404, "Unknown task", [], 'no task "row-softmax" is stored here');
    await launch.click();
    await field("task").getByText("no task").waitFor();
    assert.match(await page.getByRole("alert").innerText(), /See the marked fields/);
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

  it("says which worker gets no job, and until when", async () => {
    await open("/");
    const devices = panel("Devices");
    await devices.waitFor();
    assert.match(await devices.innerText(), /of ada\s+well\s+gets no job until [\d:]+: its last jobs all ended in faults/);
    assert.equal(await devices.getByText("gets no job").count(), 1);
    await page.screenshot({ path: "screenshots/suspended.png", fullPage: true });

    for (const worker of service.world.workers) worker.suspended_until = "2026-11-21T14:20:00Z";
    await page.goto(service.origin + run());
    await page.getByRole("status").getByText(/No worker gets jobs before [\d:]+/).waitFor();
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
    assert.match(await page.getByRole("alert").innerText(), /Wrong state\s+the run is completed/);
  });
});

describe("when there is little to show", () => {
  it("an empty list says how to begin", async () => {
    service.world.runs = [];
    await open("/");
    await page.getByText("No runs yet.").waitFor();
    assert.match(await page.locator("main").innerText(), /kernelwright run/);
    await page.screenshot({ path: "screenshots/empty.png" });
  });

  it("a run without candidates says what comes first", async () => {
    await open(`/runs/${runId(1)}`);
    await panel("Lineage").getByText("No candidates yet.").waitFor();
    await panel("Verdicts").getByText("No verdicts yet.").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("a candidate without a verdict says what it waits for", async () => {
    await open(`/candidates/${candidateId(18)}`);
    await panel("Verdict").getByText("queued").waitFor();
    await panel("Source").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("a form without a model says how to configure one, and finds it then", async () => {
    await open("/runs/new");
    await page.getByLabel("Method", { exact: true }).selectOption("insight");
    await page.getByText("No model is configured.").waitFor();
    assert.match(await page.locator("main").innerText(), /models\.toml[\s\S]*kernelwright model check fast/);
    await page.screenshot({ path: "screenshots/no-model.png", fullPage: true });
    service.world.models = [{ name: "fast", api: "openai", model: "fast-1", host: "models.example.com", price: null, context_tokens: 128_000, max_output_tokens: 16_384, concurrency: 4 }];
    await page.getByRole("button", { name: "Look again" }).click();
    await page.getByRole("checkbox", { name: "fast" }).check();
    await page.getByText("only tokens can be limited").waitFor();
    assert.deepEqual(complaints, []);
  });

  it("a form without a task says how to store one", async () => {
    service.world.tasks = [];
    await open("/runs/new");
    await page.getByText("No task is stored yet.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Launch" }).count(), 0);
  });

  it("an unknown run shows the service's own words", async () => {
    await open(`/runs/${runId(99)}`);
    assert.match(await page.getByRole("alert").innerText(), /Unknown run\s+there is no run/);
  });

  it("an unknown address leads back", async () => {
    await open("/somewhere");
    await page.getByRole("link", { name: "All runs" }).click();
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  });

  it("a problem can be retried", async () => {
    service.problem = { type: "/problems/internal", title: "Internal error", status: 500, detail: "see the log for 4711" };
    await open("/");
    await page.getByRole("alert").getByText("see the log for 4711").waitFor();
    await page.screenshot({ path: "screenshots/problem.png" });
    service.problem = null;
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
  });
});

it("a link to a line opens the candidate at that line", async () => {
  await open(`/candidates/${candidateId(BEST)}#L72`);
  const line = page.locator("#L72");
  await line.waitFor();
  assert.match(await line.getAttribute("class"), /target/);
  const [top, height] = await line.evaluate((element) => [element.getBoundingClientRect().top, innerHeight]);
  assert.ok(top >= 0 && top < height, `line 72 is at ${top} px of ${height} px`);
});

it("a browser signs in with a token, and is asked again when its session ends", async () => {
  service.token = "kw_right";
  await open("/runs/new");
  const field = page.getByLabel("Token of this service");
  await field.fill("kw_wrong");
  assert.equal(await field.getAttribute("type"), "password");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("no token of this service has this secret").waitFor();
  await page.screenshot({ path: "screenshots/sign-in.png" });
  await assertFits(page);
  await field.fill("kw_right");
  await page.getByRole("button", { name: "Sign in" }).click();
  // The page that was wanted, not the first one.
  await page.getByRole("button", { name: "Launch" }).waitFor();
  assert.match(await page.getByRole("banner").innerText(), /1 worker[\s\S]*ada \(admin\)/);
  service.signedIn = false;
  await page.goto(`${service.origin}/`);
  await field.waitFor();
  await field.fill("kw_right");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  service.signedIn = false;
  await page.getByRole("link", { name: "row-softmax playbook" }).click();
  await field.waitFor();
  await field.fill("kw_right");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Sign out" }).click();
  await field.waitFor();
  assert.equal(await page.getByRole("link", { name: "row-softmax playbook" }).count(), 0);
});

it("the list is filtered by name, task, method and state", async () => {
  await open("/");
  await page.getByRole("searchbox").fill("attention");
  await page.locator("tbody tr").nth(1).waitFor({ state: "detached" });
  assert.match(await page.locator("tbody").innerText(), /attention-f16 playbook/);
  await page.getByRole("searchbox").fill("nothing like it");
  await page.getByText("No run matches").waitFor();
});
