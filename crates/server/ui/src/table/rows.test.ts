import { describe, expect, it } from "vitest";

import { candidate, id, queued } from "../samples";
import { FASTEST_FIRST, fromQuery, NO_FILTER, rows, sortedBy, toQuery, visible } from "./rows";

const refused = { state: "refused" as const, reason: "wrong on fresh inputs" };
const nodes = [
  candidate(0, { title: "baseline" }),
  candidate(1, { speedup: 2, time_us: 20, title: "vector loads", proposer: "fast", operator: { operator: "mutation" }, cost: 0.02 }),
  candidate(2, { speedup: null, time_us: null, verdict: "data_race", title: "pairs", summary: "line 39: thread 33", proposer: "large", operator: { operator: "crossover" }, cost: 0.5 }),
  candidate(3, { speedup: 9, promotion: refused }),
  queued(4, { proposer: "fast", configuration: { WARPS: 8 } }),
];
const ordinals = (filter: Partial<typeof NO_FILTER>, sort = FASTEST_FIRST) => rows(nodes, { ...NO_FILTER, ...filter }, sort).map(({ ordinal }) => ordinal);

describe("the order", () => {
  it("begins with the fastest that may still win", () => {
    expect(ordinals({})).toEqual([1, 0, 3, 2, 4]);
  });

  it.each([
    ["ordinal", [0, 1, 2, 3, 4]],
    ["cost", [2, 1, 0, 3, 4]],
    ["candidate", [0, 3, 4, 2, 1]],
  ] as const)("by %s", (by, expected) => {
    expect(ordinals({}, sortedBy(FASTEST_FIRST, by))).toEqual(expected);
  });

  it("is turned by a second click, with what has no value still last", () => {
    const once = sortedBy(FASTEST_FIRST, "cost");
    expect(ordinals({}, sortedBy(once, "cost"))).toEqual([1, 2, 0, 3, 4]);
  });
});

describe("a filter", () => {
  it.each([
    [{ verdict: "data_race" as const }, [2]],
    [{ verdict: "waiting" as const }, [4]],
    [{ operator: "mutation" }, [1]],
    [{ model: "fast" }, [1, 4]],
    [{ model: "fast", text: "VECTOR" }, [1]],
    [{ text: "thread 33" }, [2]],
    [{ text: "warps=8" }, [4]],
    [{ text: id(3) }, [3]],
    [{ text: "nothing" }, []],
  ])("%j", (filter, expected) => {
    expect(ordinals(filter)).toEqual(expected);
  });
});

describe("the rows that are shown", () => {
  it("are few, whatever the number of candidates", () => {
    expect(visible(0, 480, 40, 100_000)).toEqual({ first: 0, last: 18 });
    expect(visible(40_000, 480, 40, 100_000)).toEqual({ first: 994, last: 1018 });
  });

  it("are none of an empty table, and the last at its end", () => {
    expect(visible(0, 480, 40, 0)).toEqual({ first: 0, last: 0 });
    expect(visible(4_000_000, 480, 40, 100).last).toBe(100);
  });
});

it("an address keeps filter and order", () => {
  const filter = { ...NO_FILTER, verdict: "data_race" as const, text: "a & b" };
  const sort = { by: "cost" as const, descending: true };
  const kept = Object.entries(toQuery(filter, sort)).filter((entry): entry is [string, string] => entry[1] !== null);
  expect(fromQuery(new URLSearchParams(kept))).toEqual({ filter, sort });
  expect(Object.values(toQuery(NO_FILTER, FASTEST_FIRST)).every((value) => value === null)).toBe(true);
  expect(fromQuery(new URLSearchParams("sort=nonsense"))).toEqual({ filter: NO_FILTER, sort: FASTEST_FIRST });
});
