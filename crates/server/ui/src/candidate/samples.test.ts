import { describe, expect, it } from "vitest";

import type { Measurement, Timing } from "../api/types";
import { caseTimes, spread } from "./samples";

const measurement = (rounds: number[][], effect = 0.03) =>
  ({ rounds, settled: { outcome: "faster", evidence: { effect, interval: { lower: effect - 0.01, upper: effect + 0.01 }, margin: 0.005 } } }) as unknown as Measurement;

describe("the rounds of a comparison", () => {
  it("are gains of all processes on one axis with zero and the margin", () => {
    const { rounds, low, high, interval } = spread(measurement([[0.02, 0.05], [0.04]]));
    expect(rounds).toHaveLength(3);
    expect(rounds[0]).toBeCloseTo(0.0202, 4);
    expect(interval[0]).toBeCloseTo(0.0202, 4);
    expect(low).toBeLessThan(0);
    expect(high).toBeGreaterThan(0.051);
  });

  it("may be none", () => {
    const { rounds, low, high } = spread(measurement([], -0.02));
    expect(rounds).toEqual([]);
    expect(low).toBeLessThan(-0.029);
    expect(high).toBeGreaterThan(0.005);
  });
});

describe("the times of the cases", () => {
  const timing = (median_us: number, kind = "measured") => ({ kind, cases: [{ case: "wide", cache: "cold", median_us, quartiles_us: [median_us - 1, median_us + 1], samples: 60 }], unscored: [] }) as unknown as Timing;

  it("stand beside the incumbent's", () => {
    const [found] = caseTimes(timing(10), timing(12));
    expect(found).toMatchObject({ name: "wide", candidate: { median: 10, quartiles: [9, 11] }, incumbent: { median: 12 } });
    expect(found?.low).toBeLessThan(9);
    expect(found?.high).toBeGreaterThan(13);
  });

  it("never mix measured and modelled", () => {
    expect(caseTimes(timing(10), timing(12, "modelled"))).toEqual([]);
    expect(caseTimes(null, timing(12))).toEqual([]);
  });
});
