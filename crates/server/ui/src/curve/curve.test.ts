import { expect, it } from "vitest";

import { candidate, queued } from "../samples";
import { curve, floorSpeedup, inOrder, speedupRange, ticks, timeUnit } from "./curve";

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
    { ordinal: 0, x: 0, speedup: 1 },
    { ordinal: 1, x: 1, speedup: 1.7 },
    { ordinal: 4, x: 4, speedup: 2.5 },
  ]);
});

it("keeps the other verdicts apart and leaves the pending out", () => {
  const { accepted, rejected, last } = curve(nodes, true);
  expect(accepted.map((node) => node.ordinal)).toEqual([0, 1, 3, 4]);
  expect(rejected.map((node) => node.ordinal)).toEqual([2]);
  expect(last).toBe(5);
});

it("never counts a candidate whose confirmation failed", () => {
  const refused = candidate(6, { speedup: 9, promotion: { state: "refused", reason: "incorrect output" } });
  const drawn = curve([...nodes, refused], true);
  expect(drawn.best.at(-1)?.speedup).toBe(2.5);
  expect(drawn.accepted).toContain(refused);
});

it("never puts measured and modelled times on one curve", () => {
  const mixed = [...nodes, candidate(6, { speedup: 9, modelled: false })];
  expect(curve(mixed, true).best.at(-1)?.speedup).toBe(2.5);
  expect(curve(mixed, false).best).toEqual([{ ordinal: 6, x: 6, speedup: 9 }]);
});

it("runs along the time of the verdicts, in their order", () => {
  const late = candidate(1, { speedup: 1.5, judged_at: "2026-11-21T14:02:00Z" });
  const early = candidate(2, { speedup: 1.2, judged_at: "2026-11-21T14:01:00Z" });
  const { best, last } = curve([candidate(0), late, early], true, "time");
  expect(best.map(({ ordinal, x }) => [ordinal, x])).toEqual([
    [0, 20],
    [2, 60],
    [1, 120],
  ]);
  expect(last).toBe(120);
});

it("runs along what the models cost so far", () => {
  const { best } = curve([candidate(0), candidate(1, { cost: 0.25 }), candidate(2, { cost: 0.5, speedup: 2 })], true, "cost");
  expect(best.at(-1)).toEqual({ ordinal: 2, x: 0.75, speedup: 2 });
});

it("fits the range to small gains", () => {
  const { low, high } = speedupRange(curve([candidate(0), candidate(1, { speedup: 1.13 }), candidate(2, { speedup: 0.2 })], true));
  expect(low).toBeGreaterThan(0.9);
  expect(high).toBeLessThan(1.15);
});

it.each([
  [0, 1.25, 4, [0, 0.5, 1]],
  [0, 4.4, 4, [0, 2, 4]],
  [0, 36, 8, [0, 5, 10, 15, 20, 25, 30, 35]],
  [0, 0.03, 3, [0, 0.01, 0.02, 0.03]],
  [0.92, 1.14, 5, [0.95, 1, 1.05, 1.1]],
])("ticks from %d to %d", (low, high, wanted, made) => expect(ticks(low, high, wanted)).toEqual(made));

it.each([
  [90, "seconds"],
  [3_600, "minutes"],
  [36_000, "hours"],
])("labels %d seconds in %s", (seconds, name) => expect(timeUnit(seconds).name).toBe(name));

it("finds the floor's speedup over the baseline, the geometric mean over the cases", () => {
  const floor = (found_us: number, us: number) => ({ case: "wide", cache: "cold" as const, bound: "bytes" as const, found_us, us, resources: [] });
  expect(floorSpeedup({ floors: [floor(40, 10), floor(90, 10)] })).toBeCloseTo(6, 9);
  expect(floorSpeedup({ floors: [] })).toBeNull();
});

it("makes room for a floor that is near, and for no other", () => {
  const drawn = curve(nodes, true);
  expect(speedupRange(drawn, 3).high).toBeGreaterThan(3);
  expect(speedupRange(drawn, 40)).toEqual(speedupRange(drawn));
});

it("reads candidates in the order of the axis, whatever came of them", () => {
  expect(inOrder(curve(nodes, true)).map(({ ordinal }) => ordinal)).toEqual([0, 1, 2, 3, 4]);
});
