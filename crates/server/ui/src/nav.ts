// The places that the navigation offers, and the keys that lead there: `g`, then a letter.

import type { Route } from "./router.svelte";

export interface Place {
  label: string;
  path: string;
  /** The letter that follows `g`. */
  key: string;
  /** The pages at which this place is the current one. */
  pages: Route["page"][];
}

export const PLACES: Place[] = [
  { label: "Runs", path: "/", key: "r", pages: ["runs", "new", "run", "candidate"] },
  { label: "Tasks", path: "/tasks", key: "t", pages: ["tasks", "task"] },
  { label: "Leaderboards", path: "/leaderboards", key: "l", pages: ["leaderboards"] },
  { label: "Compare", path: "/compare", key: "c", pages: ["compare"] },
  { label: "Failures", path: "/failures", key: "f", pages: ["failures"] },
  { label: "Insights", path: "/insights", key: "i", pages: ["insights"] },
  { label: "Promotions", path: "/promotions", key: "p", pages: ["promotions"] },
  { label: "Fleet", path: "/fleet", key: "w", pages: ["fleet"] },
];

/** The longest pause between `g` and the letter. */
const CHORD_MS = 1_500;

/** A reader of chords: given each key with its time, it answers the path that a chord leads to. */
export class Chords {
  #leader = -Infinity;

  constructor(private readonly places: Place[]) {}

  press(key: string, at: number): string | null {
    const led = at - this.#leader <= CHORD_MS;
    this.#leader = -Infinity;
    if (led) return this.places.find((place) => place.key === key)?.path ?? null;
    if (key === "g") this.#leader = at;
    return null;
  }
}

/** True if a key pressed here is meant for what it is pressed in. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}
