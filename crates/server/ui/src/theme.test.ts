// The contrast of the theme's colours, by WCAG 2.2: 4.5 to 1 for text, 3 to 1 for marks, in both schemes.

import { describe, expect, it } from "vitest";

import CSS from "./theme.css?raw";

const SCHEMES = ["light", "dark"] as const;
const COLOURS = new Map([...CSS.matchAll(/--([\w-]+):\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/gi)].map(([, name, light, dark]) => [name, { light, dark }]));

function colour(name: string, scheme: (typeof SCHEMES)[number]): string {
  const value = COLOURS.get(name)?.[scheme];
  if (!value) throw new Error(`the theme has no colour ${name}`);
  return value;
}

function luminance(hex: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return part <= 0.040_45 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return ((high ?? 0) + 0.05) / ((low ?? 0) + 0.05);
}

const TONES = ["good", "early", "wrong", "unsafe", "died", "unsure", "pending"];
const TEXTS: [string, string][] = [
  ...["ink", "soft", "faint"].flatMap((text) => ["paper", "panel", "sunk"].map((ground): [string, string] => [text, ground])),
  ...["panel", "paper"].map((ground): [string, string] => ["accent", ground]),
  ["ink", "accent-soft"],
  ["soft", "good-soft"],
  ["soft", "wrong-soft"],
  ["panel", "accent"],
  ["modelled", "modelled-soft"],
  ["modelled", "panel"],
  ...TONES.flatMap((tone): [string, string][] => [
    [tone, "panel"],
    [tone, `${tone}-soft`],
  ]),
];
const MARKS: [string, string][] = [
  ["focus", "panel"],
  ["focus", "paper"],
  ["crown", "panel"],
  ["ramp-6", "panel"],
];

describe.each(SCHEMES)("in the %s scheme", (scheme) => {
  it.each(TEXTS)("text in %s is read on %s", (text, ground) => {
    expect(contrast(colour(text, scheme), colour(ground, scheme))).toBeGreaterThanOrEqual(4.5);
  });

  it.each(MARKS)("marks in %s are seen on %s", (mark, ground) => {
    expect(contrast(colour(mark, scheme), colour(ground, scheme))).toBeGreaterThanOrEqual(3);
  });

  it("the ramp goes in one direction of lightness, so that it holds for readers who see no hue", () => {
    const steps = Array.from({ length: 7 }, (_, step) => luminance(colour(`ramp-${step}`, scheme)));
    const sorted = [...steps].sort((one, other) => (scheme === "light" ? other - one : one - other));
    expect(steps).toEqual(sorted);
  });
});

it("black on white is 21 to 1", () => {
  expect(contrast("#000000", "#ffffff")).toBeCloseTo(21, 6);
});
