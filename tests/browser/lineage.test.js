// The lineage in a real browser: empty, small and large, by mouse, keyboard and touch.

import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { assertFits, SCHEMES, SIZES } from "./browser.js";
import { complaints, context, inEveryLook, node, page, panel, placeOf, prepare, serve, service, setUp } from "./hooks.js";
import { largeWorld } from "./large.js";
import { BEST, candidateId, RACY, runId, world } from "./world.js";

const LARGE = 10_000;

setUp({ standIn: false });

async function open(made, { path, ...options } = {}) {
  await serve(made);
  await prepare(options);
  await page.addInitScript(() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) window.shifts.push(...shift.sources.map(({ node }) => node?.parentElement?.closest(".frame") !== null));
    }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(service.origin + (path ?? `/runs/${made.live}`));
}

const lineage = () => panel("Lineage");
const frame = () => page.getByRole("group", { name: /^Lineage of/ });
const focused = () => page.evaluate(() => Number(/^#(\d+) /.exec(document.activeElement?.getAttribute("aria-label") ?? "")?.[1]));

/** The share of the canvas that is not its ground, and a digest of its pixels. */
function picture() {
  return page.evaluate(
    () =>
      new Promise((done) => {
        // After the frame in which what changed is drawn.
        requestAnimationFrame(() =>
          requestAnimationFrame(() => {
            const canvas = document.querySelector('[aria-label^="Lineage of"] canvas');
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const ground = data.slice(0, 3).join();
            let [drawn, digest] = [0, 0];
            for (let at = 0; at < data.length; at += 4) {
              if (data.slice(at, at + 3).join() !== ground) drawn += 1;
              digest = (Math.imul(digest, 31) + data[at] + 3 * data[at + 1] + 7 * data[at + 2]) | 0;
            }
            done({ drawn: drawn / (data.length / 4), digest });
          }),
        );
      }),
  );
}

for (const colorScheme of SCHEMES) {
  for (const size of Object.keys(SIZES)) {
    it(`of ${LARGE} candidates is shown whole, ${colorScheme}, ${size}`, async () => {
      await open(largeWorld(LARGE), { colorScheme, size });
      await frame().waitFor();
      const { drawn } = await picture();
      assert.ok(drawn > 0.1, `${drawn} of the canvas is drawn on`);
      await page.screenshot({ path: `screenshots/lineage-large-${colorScheme}-${size}.png`, fullPage: size === "desktop" });
      await assertFits(page);
      const links = await lineage().getByRole("link").count();
      assert.ok(links > 1 && links < 400, `${links} links`);
      assert.equal(await node(service.world.nodes.find(({ best }) => best).ordinal).count(), 1, "the best is listed");
      assert.deepEqual(complaints, []);
    });
  }
}

for (const size of [40, 600]) {
  it(`of ${size} candidates on islands has a lane for each, in every look`, async () => {
    const made = largeWorld(size, 5);
    await open(made);
    await frame().waitFor();
    await picture();
    const button = lineage().getByRole("button", { name: "Islands" });
    assert.equal(await button.getAttribute("aria-pressed"), "true");
    const { ordinal, island } = made.nodes.find(({ best }) => best);
    assert.match(await node(ordinal).getAttribute("aria-label"), new RegExp(`, island ${island}, best of the run$`));
    await inEveryLook(`islands-${size}`);
    await page.setViewportSize(SIZES.desktop);
    const apart = await picture();
    await button.click();
    assert.notEqual((await picture()).digest, apart.digest, "the islands are drawn together");
    await button.click();
    assert.equal((await picture()).digest, apart.digest);
  });
}

it("of a run without candidates says what comes first", async () => {
  const made = world();
  made.runs.find(({ id }) => id === runId(1)).state = { state: "running" };
  await open(made, { path: `/runs/${runId(1)}` });
  await lineage().getByText("No candidates yet.").waitFor();
  assert.equal(await lineage().locator("canvas").count(), 0);
});

it("moves nothing on the page while candidates arrive", async () => {
  const made = world();
  await open(made);
  await node(BEST).waitFor();
  const box = await frame().boundingBox();
  for (let number = 0; number < 12; number += 1) {
    const added = { ...made.nodes[18], id: candidateId(made.nodes.length), ordinal: made.nodes.length, generation: 5, title: `more ${number}` };
    made.nodes.push(added);
    service.emit({ kind: "proposed", candidate: added.id, ordinal: added.ordinal, title: added.title });
  }
  await node(30).waitFor();
  assert.deepEqual(await frame().boundingBox(), box);
  assert.deepEqual((await page.evaluate(() => window.shifts)).filter(Boolean), [], "nothing in the frame shifts");
});

describe("a small run", () => {
  it("leads to a candidate by a click, and back", async () => {
    await open(world());
    await page.mouse.click(...(await placeOf(RACY)));
    await page.getByRole("heading", { name: "#11 rows in pairs" }).waitFor();
    assert.equal(new URL(page.url()).pathname, `/candidates/${candidateId(RACY)}`);
    await page.goBack();
    await node(RACY).waitFor();
  });

  it("shows a card for the candidate under the pointer", async () => {
    await open(world());
    await page.mouse.move(...(await placeOf(RACY)));
    const card = page.locator(".frame .card").first();
    await card.waitFor();
    assert.match(await card.innerText(), /#11 rows in pairs[\s\S]*data race[\s\S]*line 39: thread 33 reads part\[1\]/);
    await page.screenshot({ path: "screenshots/card.png" });
  });

  it("is walked with the arrow keys", async () => {
    await open(world());
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

  it("can dim all but the path to the best", async () => {
    await open(world());
    await page.getByRole("button", { name: "Path to the best" }).click();
    const bright = await page.locator("a[data-candidate]").evaluateAll((nodes) => nodes.map((node) => node.getAttribute("data-candidate")));
    assert.deepEqual(bright.sort(), [0, 1, 4, 8, 10, BEST].map(candidateId));
    await page.screenshot({ path: "screenshots/path.png", fullPage: true });
  });

  it("can leave out the dead branches, and shows them again", async () => {
    await open(world());
    const numbers = async () => {
      const names = await page.locator("a[data-candidate]").evaluateAll((nodes) => nodes.map((node) => node.getAttribute("aria-label")));
      return names.map((name) => Number(/^#(\d+) /.exec(name)[1])).sort((one, other) => one - other);
    };
    const button = page.getByRole("button", { name: "Hide dead branches" });
    await button.click();
    await page.getByRole("group", { name: "Lineage of 13 candidates by generation" }).waitFor();
    assert.deepEqual(await numbers(), [0, 1, 3, 4, 6, 8, 9, 10, BEST, 13, 14, 17, 18]);
    await page.screenshot({ path: "screenshots/alive.png", fullPage: true });
    await button.click();
    await node(RACY).waitFor({ state: "attached" });
    assert.equal((await numbers()).length, 19);
    assert.deepEqual(complaints, []);
  });
});

describe("the mouse", () => {
  it("zooms with the wheel and Ctrl, drags, and fits again", async () => {
    await open(largeWorld(LARGE));
    await frame().scrollIntoViewIfNeeded();
    const whole = await picture();
    const box = await frame().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await page.keyboard.down("Control");
    for (let turn = 0; turn < 12; turn += 1) await page.mouse.wheel(0, -200);
    await page.keyboard.up("Control");
    const near = await picture();
    assert.notEqual(near.digest, whole.digest);
    await page.screenshot({ path: "screenshots/lineage-near.png" });
    await page.mouse.down();
    await page.mouse.move(box.x + 200, box.y + 60, { steps: 5 });
    await page.mouse.up();
    assert.equal(new URL(page.url()).pathname, `/runs/${service.world.live}`, "a drag opens nothing");
    assert.notEqual((await picture()).digest, near.digest);
    await page.mouse.move(5, 5);
    await lineage().getByRole("button", { name: "Fit" }).click();
    assert.equal((await picture()).digest, whole.digest);
    assert.ok(await lineage().getByRole("button", { name: "Zoom out" }).isDisabled(), "nothing is smaller than the whole");
  });

  it("leaves a plain wheel to the page", async () => {
    await open(world());
    await node(BEST).waitFor();
    const [x, y] = await placeOf(BEST);
    await page.mouse.move(x, y);
    const before = await page.evaluate(() => scrollY);
    await page.mouse.wheel(0, 300);
    await page.waitForFunction((from) => scrollY > from, before);
  });
});

describe("the keyboard", () => {
  it("walks a large lineage, searches it and opens a candidate", async () => {
    await open(largeWorld(LARGE));
    const best = service.world.nodes.find((other) => other.best);
    await node(best.ordinal).focus();
    await page.keyboard.press("ArrowLeft");
    assert.equal(candidateId(await focused()), best.parents[0], "its parent");
    await page.keyboard.press("c");
    assert.equal(await focused(), best.ordinal);
    await lineage().getByRole("searchbox").fill("#777");
    await lineage().getByRole("status").getByText("1", { exact: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".frame .card").getByText("variant 777").waitFor();
    await page.screenshot({ path: "screenshots/lineage-search.png" });
    await lineage().getByRole("searchbox").fill("no such thing");
    await lineage().getByRole("status").getByText("none").waitFor();
    await lineage().getByRole("searchbox").fill("");
    await node(777).focus();
    for (const key of ["+", "+", "+", "0"]) await page.keyboard.press(key);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "#777 variant 777" }).waitFor();
    assert.deepEqual(complaints, []);
  });
});

describe("a finger", () => {
  it("selects first and opens then; two zoom", async () => {
    await open(world(), { size: "phone" });
    await node(BEST).waitFor();
    await frame().scrollIntoViewIfNeeded();
    const [x, y] = await placeOf(RACY);
    const touch = (type, id, at) =>
      page.evaluate(
        ([kind, pointerId, [clientX, clientY]]) =>
          document.querySelector(".frame").dispatchEvent(new PointerEvent(kind, { pointerId, pointerType: "touch", clientX, clientY, bubbles: true, button: 0 })),
        [type, id, at],
      );
    // Events made by a script cannot be captured.
    await page.evaluate(() => (Element.prototype.setPointerCapture = () => undefined));
    const tap = async () => {
      await touch("pointerdown", 7, [x, y]);
      await touch("pointerup", 7, [x, y]);
    };
    await tap();
    await page.locator(".frame .card").getByText("rows in pairs").waitFor();
    const whole = await picture();
    await touch("pointerdown", 7, [x, y]);
    await touch("pointerdown", 8, [x + 20, y]);
    await touch("pointermove", 8, [x + 90, y]);
    await touch("pointerup", 8, [x + 90, y]);
    await touch("pointerup", 7, [x, y]);
    assert.notEqual((await picture()).digest, whole.digest);
    await page.screenshot({ path: "screenshots/lineage-touch.png" });
    await lineage().getByRole("button", { name: "Fit" }).click();
    await tap();
    await page.getByRole("heading", { name: "#11 rows in pairs" }).waitFor();
  });
});

describe("a replay", () => {
  it("shows the run up to a candidate, with the best of that time", async () => {
    await open(world());
    await node(BEST).waitFor();
    await page.getByRole("slider", { name: "Candidates shown" }).fill("9");
    await lineage().getByText("up to #9").waitFor();
    assert.equal(await node(10).count(), 0);
    assert.match(await node(8).getAttribute("aria-label"), /best so far/);
    await page.screenshot({ path: "screenshots/replay.png" });
    await page.getByRole("slider", { name: "Candidates shown" }).fill("18");
    await node(18).waitFor();
    await lineage().getByRole("button", { name: "Replay" }).click();
    await lineage().getByRole("button", { name: "Stop" }).click();
    assert.deepEqual(complaints, []);
  });
});

it("shows the insights that a candidate's prompts held", async () => {
  const made = world();
  made.runs.find(({ id }) => id === made.live).models = [{ name: "fast", weight: 1 }];
  await open(made);
  await page.route("**/api/v1/candidates/*", async (route) => {
    const response = await route.fetch();
    const seen = { best: null, parents: [], insights: [candidateId(3), candidateId(6)], duplicates: [] };
    await route.fulfill({ response, json: { ...(await response.json()), calls: [{ seen }] } });
  });
  await node(BEST).focus();
  const before = await picture();
  await lineage().getByRole("button", { name: "Insights" }).click();
  await node(BEST).focus();
  await page.waitForResponse(/\/api\/v1\/candidates\//).catch(() => undefined);
  assert.notEqual((await picture()).digest, before.digest);
  await page.screenshot({ path: "screenshots/lineage-insights.png" });
});

it(`draws ${LARGE} candidates in frames that are printed here`, async (test) => {
  await open(largeWorld(LARGE));
  await frame().scrollIntoViewIfNeeded();
  await picture();
  const session = await context.newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  /** Processor time of the page's thread, which other work of the machine does not lengthen, ms. */
  const busy = async () => 1000 * (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value;
  const times = async (name, act) => {
    const begin = await busy();
    await page.evaluate(() => {
      window.frames_ms = [];
      let before = performance.now();
      window.counting = true;
      requestAnimationFrame(function count(now) {
        window.frames_ms.push(now - before);
        before = now;
        if (window.counting) requestAnimationFrame(count);
      });
    });
    await act();
    const frames = await page.evaluate(() => {
      window.counting = false;
      return window.frames_ms.slice(1).sort((one, other) => one - other);
    });
    const each = ((await busy()) - begin) / Math.max(1, frames.length);
    const at = (share) => frames[Math.floor(share * (frames.length - 1))]?.toFixed(1);
    test.diagnostic(`${name}: ${frames.length} frames, median ${at(0.5)} ms, 95 % ${at(0.95)} ms, longest ${at(1)} ms; processor time of the page ${each.toFixed(1)} ms a frame`);
  };
  const box = await frame().boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  await page.mouse.move(x, y);
  assert.ok(y < 800, "the pointer is over the lineage");
  await times("zooming from the whole to labels", async () => {
    await page.keyboard.down("Control");
    for (let turn = 0; turn < 40; turn += 1) await page.mouse.wheel(0, -30);
    await page.keyboard.up("Control");
  });
  await times("dragging among labels", async () => {
    await page.mouse.down();
    await page.mouse.move(x - 400, y - 150, { steps: 60 });
    await page.mouse.up();
  });
  await lineage().getByRole("button", { name: "Fit" }).click();
  await lineage().getByRole("button", { name: "Zoom in" }).click();
  await times("dragging among spots", async () => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move(x - 400, y - 150, { steps: 60 });
    await page.mouse.up();
  });
});
