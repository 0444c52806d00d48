import { expect, it } from "vitest";

import { candidate, queued } from "../samples";
import { curve, ticks } from "./curve";

const nodes = [
  candidate(0, { speedup: 1 }),
  candidate(1, { speedup: 1.7 }),
  candidate(2, { speedup: null, verdict: "data_race" }),
  candidate(3, { speedup: 1.2 }),
  candidate(4, { speedup: 2.5 }),
  queued(5),
];

it("rises only where a candidate beats all before it", () => {
  expect(curve(nodes, true).best).toEqual([
    { ordinal: 0, speedup: 1 },
    { ordinal: 1, speedup: 1.7 },
    { ordinal: 4, speedup: 2.5 },
  ]);
});

it("keeps the other verdicts apart and leaves the pending out", () => {
  const { accepted, rejected, last } = curve(nodes, true);
  expect(accepted.map((node) => node.ordinal)).toEqual([0, 1, 3, 4]);
  expect(rejected.map((node) => node.ordinal)).toEqual([2]);
  expect(last).toBe(5);
});

it("never puts measured and modelled times on one curve", () => {
  const mixed = [...nodes, candidate(6, { speedup: 9, modelled: false })];
  expect(curve(mixed, true).best.at(-1)?.speedup).toBe(2.5);
  expect(curve(mixed, false).best).toEqual([{ ordinal: 6, speedup: 9 }]);
});

it.each([
  [1.25, 4, [0, 0.5, 1]],
  [4.4, 4, [0, 2, 4]],
  [36, 8, [0, 5, 10, 15, 20, 25, 30, 35]],
  [0.03, 3, [0, 0.01, 0.02, 0.03]],
])("ticks up to %d", (top, wanted, made) => expect(ticks(top, wanted)).toEqual(made));
