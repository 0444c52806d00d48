import { expect, it } from "vitest";

import { Chords, PLACES } from "./nav";
import { parseRoute } from "./router.svelte";

it("leads to the place of a letter after g", () => {
  const chords = new Chords(PLACES);
  expect(chords.press("g", 0)).toBe(null);
  expect(chords.press("r", 100)).toBe("/");
  expect(chords.press("r", 200), "a chord ends with its letter").toBe(null);
});

it("forgets a g that nothing follows in time", () => {
  const chords = new Chords(PLACES);
  chords.press("g", 0);
  expect(chords.press("r", 5_000)).toBe(null);
});

it("has a page and a letter of its own for every place", () => {
  for (const place of PLACES) expect(place.pages, place.path).toContain(parseRoute(place.path).page);
  expect(new Set(PLACES.map(({ key }) => key)).size).toBe(PLACES.length);
});
