import { expect, it } from "vitest";

import type { LineageGenerations } from "../api/types";
import { buckets, most, outlines } from "./buckets";

const data: LineageGenerations = {
  total: 100,
  last_generation: 7,
  width: 3,
  generations: [0, 3, 6],
  first: [0, 40, 80],
  last: [39, 79, 99],
  candidates: [40, 40, 20],
  unjudged: [0, 1, 5],
  accepted: [20, 30, 0],
  fastest: [1.5, 2.25, null],
  links: [[0, 1, 39]],
  path: [60, 7, 0],
};

it("makes bars of the totals", () => {
  expect(buckets(data)).toEqual([
    { from: 0, to: 2, candidates: 40, accepted: 20, rejected: 20, unjudged: 0, fastest: 1.5, onPath: true },
    { from: 3, to: 5, candidates: 40, accepted: 30, rejected: 9, unjudged: 1, fastest: 2.25, onPath: true },
    { from: 6, to: 7, candidates: 20, accepted: 0, rejected: 15, unjudged: 5, fastest: null, onPath: false },
  ]);
});

it("piles each bar from the ground, and joins the parts of one look", () => {
  expect(outlines(buckets(data), 40, 2.25, 80)).toEqual([
    ["ramp-3", "M0 40h0.86v40h-0.86z"],
    ["rejected", "M0 0h0.86v40h-0.86zM1 2h0.86v18h-0.86zM2 50h0.86v30h-0.86z"],
    ["path", "M0 82h1v4h-1zM1 82h1v4h-1z"],
    ["ramp-6", "M1 20h0.86v60h-0.86z"],
    ["unjudged", "M1 0h0.86v2h-0.86zM2 40h0.86v10h-0.86z"],
  ]);
});

it("finds the greatest value, of many too", () => {
  expect(most([])).toBe(0);
  expect(most(Array.from({ length: 300_000 }, (_, at) => at))).toBe(299_999);
});
