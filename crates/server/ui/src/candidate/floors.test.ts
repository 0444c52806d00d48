import { describe, expect, it } from "vitest";

import type { Floor } from "../api/types";
import { caseName } from "../words/format";
import { resourceBars, roofline } from "./floors";

/** A device of 300 GB/s and 30 TFLOP/s, whose launch takes 2 µs. */
function floor(moved: number, operations: number | null, found_us: number, over: Partial<Floor> = {}): Floor {
  const resources: Floor["resources"] = [
    { bound: "launch", us: 2, amount: null },
    { bound: "bytes", us: moved / 300e3, amount: moved },
  ];
  if (operations !== null) resources.push({ bound: "operations", us: operations / 30e6, amount: operations });
  const longest = resources.reduce((most, one) => (one.us > most.us ? one : most));
  return { case: "wide", cache: "cold", us: longest.us, bound: longest.bound, found_us, resources, ...over };
}

describe("the resources of a floor", () => {
  it("come longest first, with amount, rate and share of the time found", () => {
    expect(resourceBars(floor(3e6, 6e8, 40))).toEqual([
      { name: "arithmetic", amount: "600 M operations at 30 TFLOP/s", us: 20, share: 0.5, bounds: true },
      { name: "memory", amount: "2.86 MiB at 300 GB/s", us: 10, share: 0.25, bounds: false },
      { name: "one launch", amount: "", us: 2, share: 0.05, bounds: false },
    ]);
  });

  it("leave out what takes no time", () => {
    expect(resourceBars(floor(0, null, 4)).map(({ name }) => name)).toEqual(["one launch"]);
  });

  it("are the bounding one alone in an evaluation of an earlier release", () => {
    expect(resourceBars(floor(3e6, null, 20, { resources: [] }))).toEqual([{ name: "memory", amount: "", us: 10, share: 0.5, bounds: true }]);
  });

  it("belong to a case in a state of the cache", () => {
    expect(caseName(floor(3e6, null, 20))).toBe("wide");
    expect(caseName(floor(3e6, null, 20, { cache: "warm" }))).toBe("wide, warm cache");
  });
});

describe("the roofline", () => {
  it("has a point per case under a roof of bandwidth and peak", () => {
    // 10 operations per byte lie left of the ridge at 100, 1,000 right of it.
    const drawn = roofline([floor(3e6, 3e7, 20), floor(3e6, 3e9, 200)]);
    expect(drawn).toMatchObject({ bandwidth: 300e9, peak: 30e12 });
    const [low, high] = drawn?.points ?? [];
    expect([low?.intensity, low?.found, low?.possible]).toEqual([10, 1.5e12, 3e12]);
    expect([high?.intensity, high?.found, high?.possible]).toEqual([1000, 15e12, 30e12]);
    const [start, ridge, end] = drawn?.roof ?? [];
    expect([start?.[0], end?.[0]]).toEqual([0, 1]);
    expect(start?.[1]).toBeLessThan(ridge?.[1] ?? 0);
    expect(ridge?.[1]).toBe(end?.[1]);
    for (const point of drawn?.points ?? []) {
      expect(point.x).toBeGreaterThan(0);
      expect(point.x).toBeLessThan(1);
      expect(point.y).toBeGreaterThan(0);
      expect(point.y).toBeLessThan(ridge?.[1] ?? 0);
    }
  });

  it("is not drawn without operations, without bytes and for earlier releases", () => {
    expect(roofline([])).toBeNull();
    expect(roofline([floor(3e6, null, 20)])).toBeNull();
    expect(roofline([floor(0, 3e7, 20)])).toBeNull();
    expect(roofline([floor(3e6, 3e7, 20, { resources: [] })])).toBeNull();
  });
});
