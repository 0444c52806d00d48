// The set-up that the files of browser tests share: a browser for each file, and for each test a service and a page. Importers see
// the variables as they are at the time, so that tests name them like their own.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach } from "node:test";

import { assertFits, launchBrowser, newPage, SCHEMES, SIZES } from "./browser.js";
import { Service } from "./service.js";
import { NOW, world } from "./world.js";

/** Pixels of a page from its top that a screenshot shows. */
const HIGHEST = 4_000;

export let browser;
/** The stand-in for the service. */
export let service;
export let context;
export let page;
/** Whatever the browser complained about since the page was made. */
export let complaints;

/** Registers the set-up of a file. Each test begins with a stand-in that has the small world, except where a file starts its own services. */
export function setUp({ standIn = true } = {}) {
  before(async () => {
    browser = await launchBrowser();
  });
  after(() => browser?.close());
  if (standIn) beforeEach(() => serve(world()));
  afterEach(async () => {
    await context?.close();
    await service?.stop();
    [context, page, service] = [];
  });
}

/** Starts a stand-in with this world in place of the one before. */
export async function serve(made) {
  await service?.stop();
  service = new Service(made);
  await service.start();
}

/** Makes a page without an address, whose clock stands still unless `now` is null. */
export async function prepare({ now = NOW, ...options } = {}) {
  await context?.close();
  ({ context, page, complaints } = await newPage(browser, options));
  if (now !== null) await page.clock.setFixedTime(now);
}

/** Opens an address of the stand-in in a new page. */
export async function open(path, options) {
  await prepare(options);
  await page.goto(service.origin + path);
}

/** Waits until what a change of the window causes is drawn. */
export function drawn() {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
}

/** Takes a screenshot of the open page in light and dark, on a desk and on a phone, and checks it in each. */
export async function inEveryLook(name, check = () => undefined) {
  for (const colorScheme of SCHEMES) {
    for (const [size, viewport] of Object.entries(SIZES)) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize(viewport);
      await drawn();
      const height = Math.min(HIGHEST, await page.evaluate(() => document.documentElement.scrollHeight));
      await page.screenshot({ path: `screenshots/${name}-${colorScheme}-${size}.png`, fullPage: true, clip: { x: 0, y: 0, width: viewport.width, height } });
      await check();
      await assertFits(page);
    }
  }
  assert.deepEqual(complaints, []);
}

export const panel = (name) => page.getByRole("region", { name, exact: true });

/** The link of a candidate in the lineage. */
export const node = (ordinal) => page.locator(`a[data-candidate][aria-label^="#${ordinal} "]`);

/** The point of the window where a candidate stands in the lineage: its link is there while it has the focus. */
export async function placeOf(ordinal) {
  await page.getByRole("group", { name: /^Lineage of/ }).scrollIntoViewIfNeeded();
  await node(ordinal).focus();
  await page.evaluate(() => new Promise(requestAnimationFrame));
  const box = await node(ordinal).boundingBox();
  await node(ordinal).blur();
  return [box.x + box.width / 2, box.y + box.height / 2];
}
