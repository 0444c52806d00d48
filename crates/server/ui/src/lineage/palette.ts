// The theme's colours as a canvas needs them. Custom properties hold light-dark(), which only a property of an
// element resolves, so each colour is read from a probe.

import type { Tone } from "../words/verdicts";
import { RAMP_STEPS, type RampStep } from "./ramp";

export interface Palette {
  panel: string;
  sunk: string;
  ink: string;
  soft: string;
  faint: string;
  rule: string;
  strong: string;
  accent: string;
  focus: string;
  crown: string;
  insight: string;
  ramp: Map<RampStep, string>;
  tones: Record<Tone, string>;
  /** The page's font. */
  family: string;
}

const TONES: Tone[] = ["good", "early", "wrong", "unsafe", "died", "unsure", "pending"];

export function palette(within: HTMLElement): Palette {
  const probe = within.ownerDocument.createElement("i");
  within.append(probe);
  const colour = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const ramp = new Map<RampStep, string>([["slow", colour("ramp-slow")]]);
  for (let step = 0; step < RAMP_STEPS; step += 1) ramp.set(step, colour(`ramp-${step}`));
  const read: Palette = {
    panel: colour("panel"),
    sunk: colour("sunk"),
    ink: colour("ink"),
    soft: colour("soft"),
    faint: colour("faint"),
    rule: colour("rule"),
    strong: colour("rule-strong"),
    accent: colour("accent"),
    focus: colour("focus"),
    crown: colour("crown"),
    insight: colour("modelled"),
    ramp,
    tones: Object.fromEntries(TONES.map((tone) => [tone, colour(tone)])) as Record<Tone, string>,
    family: getComputedStyle(within).fontFamily,
  };
  probe.remove();
  return read;
}

/** Calls `change` when the page's colours may have changed. Returns the function that ends this. */
export function onColours(change: () => void): () => void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", change);
  const observer = new MutationObserver(change);
  observer.observe(document.documentElement, { attributes: true });
  return () => {
    dark.removeEventListener("change", change);
    observer.disconnect();
  };
}
