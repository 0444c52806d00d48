import { expect, it } from "vitest";

import { call, id, reply } from "../samples";
import { shown, totals } from "./calls";

it("sums up what was answered, and says what it could not price", () => {
  const usage = { input: 100, cached: 900, cache_written: 50, output: 30 };
  const calls = [
    call({ reply: reply({ usage, cost: 0.25 }) }),
    call({ turn: 1, reply: reply({ usage, cost: null, usage_estimated: true }) }),
    call({ turn: 2, reply: null }),
  ];
  expect(totals(calls)).toEqual({ replies: 2, read: 2100, written: 60, dollars: 0.25, unpriced: 1, estimated: true });
});

it("sums up nothing", () => {
  expect(totals([])).toEqual({ replies: 0, read: 0, written: 0, dollars: 0, unpriced: 0, estimated: false });
});

it("names each candidate of a part once, and no part without candidates", () => {
  const seen = { best: id(4), parents: [id(2), id(2)], insights: [], duplicates: [id(3), id(5)] };
  expect(shown(seen)).toEqual([
    { name: "best", candidates: [id(4)] },
    { name: "parent", candidates: [id(2)] },
    { name: "repetitions", candidates: [id(3), id(5)] },
  ]);
  expect(shown({ best: null, parents: [id(1), id(2)], insights: [], duplicates: [] })).toEqual([
    { name: "parents", candidates: [id(1), id(2)] },
  ]);
});
