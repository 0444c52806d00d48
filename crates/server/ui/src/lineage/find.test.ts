import { expect, it } from "vitest";

import { candidate, id } from "../samples";
import { bestUpTo, matches } from "./find";

const node = candidate(12, { title: "16-byte loads", proposer: "fast", operator: { operator: "mutation" }, verdict: "data_race", speedup: null });

it.each([
  ["", true],
  ["#12", true],
  ["#1", false],
  ["12", true],
  [id(12).slice(0, 8), true],
  [`cand_${id(12)}`, true],
  ["BYTE", true],
  ["fast", true],
  ["mutation", true],
  ["data race", true],
  ["vector", false],
])("searching %j", (wanted, found) => {
  expect(matches(node, wanted)).toBe(found);
});

it("a replay's best is the fastest so far that was not refused", () => {
  const refused = { state: "refused" as const, reason: "wrong" };
  const nodes = [candidate(0), candidate(1, { speedup: 2 }), candidate(2, { speedup: 9, promotion: refused }), candidate(3, { speedup: 3 })];
  expect([0, 1, 2, 3].map((last) => bestUpTo(nodes, last)?.ordinal)).toEqual([0, 1, 1, 3]);
  expect(bestUpTo([], 5)).toBeUndefined();
});
