// Chromium, and pages in it whose complaints are kept.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";

import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const SCHEMES = ["light", "dark"];
export const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };
/** Limit of every wait of a test in milliseconds: compilers may use the processor, too, and a picture of a long page takes it seconds. */
export const PATIENCE = 60_000;

export function launchBrowser() {
  assert.ok(existsSync(CHROMIUM), `no browser at ${CHROMIUM}: install Debian's package chromium, or set CHROMIUM`);
  assert.ok(
    existsSync(new URL("../../crates/server/ui/dist/index.html", import.meta.url)),
    "the dashboard is not built: run npm ci && npm run build in crates/server/ui",
  );
  return chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
}

/** A page of its own context. `complaints` collects whatever the browser complains about. */
export async function newPage(browser, { colorScheme = "light", size = "desktop" } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme, reducedMotion: "reduce", timezoneId: "UTC", locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  return { context, page, complaints };
}

export async function assertFits(page) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(content <= window, `the page is ${content} px wide in a window of ${window} px`);
}

/** Sums up the layout shift of each page that is opened from now on: the share of the window that moved without being asked to, times how far. */
export async function sumLayoutShift(page) {
  await page.addInitScript(() => {
    window.layoutShift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.layoutShift += entry.value;
    }).observe({ type: "layout-shift", buffered: true });
  });
}

/** The sum since the page was opened, once what changed is drawn. */
export function layoutShift(page) {
  return page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(window.layoutShift)))));
}
