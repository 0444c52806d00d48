import { expect, it } from "vitest";

import { candidate, id, queued } from "../samples";
import { withoutDeadBranches } from "./dead";

const failed = (ordinal: number, parents: number[] = [0]) => candidate(ordinal, { verdict: "incorrect_output", speedup: null, parents: parents.map(id) });
const kept = (nodes: Parameters<typeof withoutDeadBranches>[0]) => withoutDeadBranches(nodes).map(({ ordinal }) => ordinal);

it("drops failed candidates from which nothing accepted descends", () => {
  expect(kept([candidate(0), failed(1), failed(2, [1]), candidate(3, { parents: [id(0)] })])).toEqual([0, 3]);
});

it("keeps failed ancestors of an accepted candidate, through any parent", () => {
  const child = candidate(4, { parents: [id(3), id(2)] });
  expect(kept([candidate(0), failed(1), failed(2, [1]), candidate(3, { parents: [id(0)] }), child])).toEqual([0, 1, 2, 3, 4]);
});

it("keeps what waits for a verdict, and the baseline of a run that failed", () => {
  expect(kept([failed(0, []), failed(1), queued(2, { parents: [id(1)] }), queued(3, { state: { state: "abandoned", message: "no tokens are left" } })])).toEqual([0, 1, 2]);
});
