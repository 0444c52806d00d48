// Journeys with nothing but the keyboard, against the stand-in. Each stop of the tab key must show that it has the focus.

import assert from "node:assert/strict";
import { it } from "node:test";

import { complaints, open, page, panel, service, setUp } from "./hooks.js";
import { BEST, candidateId, RACY, runId } from "./world.js";

/** The most stops of the tab key between one place of a page and another. */
const STOPS = 120;

setUp();

/** The name of what has the focus, and whether a reader sees that it has. */
function focused() {
  return page.evaluate(() => {
    const element = document.activeElement;
    const label = element.labels?.[0]?.innerText;
    const { outlineStyle, outlineWidth } = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const isInSight = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
    return { name: (element.getAttribute("aria-label") ?? label ?? element.innerText).trim(), isShown: outlineStyle !== "none" && parseFloat(outlineWidth) >= 1, isInSight };
  });
}

/** Presses the tab key until something with this name has the focus. */
async function tabTo(name) {
  const passed = [];
  for (let stop = 0; stop < STOPS; stop += 1) {
    await page.keyboard.press("Tab");
    const now = await focused();
    passed.push(now.name);
    assert.ok(now.isShown, `the focus on "${now.name}" is not seen`);
    assert.ok(now.isInSight, `the focus on "${now.name}" is out of sight`);
    if (name.test(now.name)) return now.name;
  }
  assert.fail(`no ${name} in ${passed.join(" | ")}`);
}

const press = (key) => page.keyboard.press(key);

it("from the runs to the champion and its promotion", async () => {
  await open("/");
  await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  await tabTo(/^Skip to content$/);
  await press("Enter");
  await tabTo(/^row-softmax playbook$/);
  await press("Enter");
  await page.getByRole("group", { name: /^Lineage of/ }).waitFor();
  await tabTo(/^#\d+ .*, (baseline|step|sweep|submit), /);
  await press("Home");
  await press("c");
  await page.waitForFunction(() => document.activeElement.getAttribute("aria-label")?.includes("best of the run"));
  await press("ArrowLeft");
  await page.waitForFunction(() => document.activeElement.getAttribute("aria-label")?.startsWith("#10 "));
  await press("c");
  await page.waitForFunction(() => document.activeElement.getAttribute("aria-label")?.startsWith("#12 "));
  await press("Enter");
  await page.getByRole("heading", { name: "#12 one warp a row" }).waitFor();
  await tabTo(/^Promote…$/);
  await press("Enter");
  await press("Escape");
  assert.match((await focused()).name, /^Promote…$/, "Escape takes the question back");
  await press("Enter");
  await page.getByRole("button", { name: "Confirm and commit" }).waitFor();
  assert.match((await focused()).name, /^Confirm and commit$/);
  await press("Enter");
  await page.getByText("The confirmation was queued.").waitFor();
  assert.deepEqual(service.directions.map(({ body }) => body), [{ candidate: candidateId(BEST) }]);
  await press("g");
  await press("p");
  await page.getByRole("heading", { name: "Promotions" }).waitFor();
  assert.deepEqual(complaints, []);
});

it("two runs of the list are compared", async () => {
  await open("/");
  await page.getByRole("link", { name: "row-softmax playbook" }).waitFor();
  await tabTo(/^Compare row-softmax playbook$/);
  await press("Space");
  await tabTo(/^Compare first try$/);
  await press("Space");
  await page.getByRole("button", { name: "Compare", exact: true, disabled: false }).waitFor();
  await press("Enter");
  await panel("Best so far").waitFor();
  assert.equal(new URL(page.url()).search, `?of=runs&left=${runId(5)}&right=${runId(1)}`);
  assert.deepEqual(complaints, []);
});

it("the difference to the parent is laid out and a finding's line is opened", async () => {
  await open(`/candidates/${candidateId(RACY)}`);
  await panel("Source").waitFor();
  await tabTo(/^line 39$/);
  await press("Enter");
  await page.locator("#L39.target").waitFor();
  await tabTo(/^Side by side$/);
  await press("Space");
  await panel("Difference to the parent").getByRole("button", { name: "Side by side", pressed: true }).waitFor();
});

it("a new run is filled in and launched", async () => {
  await open("/");
  await page.getByRole("link", { name: "New run" }).waitFor();
  await tabTo(/^New run$/);
  await press("Enter");
  await page.getByLabel("Trials", { exact: true }).waitFor();
  await tabTo(/^Method$/);
  await page.keyboard.type("external");
  await tabTo(/^Name$/);
  await page.keyboard.type("by hand");
  await tabTo(/^Trials$/);
  await press("Control+a");
  await page.keyboard.type("7");
  await tabTo(/^Launch$/);
  const [request] = await Promise.all([page.waitForRequest((made) => made.method() === "POST" && made.url().endsWith("/api/v1/runs")), press("Space")]);
  assert.deepEqual(request.postDataJSON(), { task: "row-softmax", method: "external", name: "by hand", budget: { trials: 7 }, seed: 0 });
});
