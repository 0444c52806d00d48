import { expect, it } from "vitest";

import { provisionalId } from "./api/provisional";
import { candidatePath, parseRoute, runPath } from "./router.svelte";

const ID = "0193a2f0-0001-7000-8000-000000000005";

it.each([
  ["/", { page: "runs" }],
  ["/runs", { page: "runs" }],
  ["/runs/new", { page: "new" }],
  [`/runs/${ID}`, { page: "run", id: ID }],
  [`/runs/${ID}/`, { page: "run", id: ID }],
  [`/runs/run_${ID}`, { page: "run", id: ID }],
  [`/candidates/cand_${ID}`, { page: "candidate", id: ID }],
  [`/candidates/run_${ID}`, { page: "unknown" }],
  ["/tasks", { page: "tasks" }],
  ["/tasks/row-softmax", { page: "task", name: "row-softmax" }],
  ["/tasks/%zz", { page: "task", name: "%zz" }],
  ["/tasks/a/b", { page: "unknown" }],
  ["/fleet/", { page: "fleet" }],
  ["/failures", { page: "failures" }],
  ["/insights", { page: "insights" }],
  ["/compare", { page: "compare" }],
  ["/leaderboards", { page: "leaderboards" }],
  [`/runs/${ID}/candidates/17`, { page: "numbered", run: ID, ordinal: 17 }],
  [`/runs/${ID}/candidates/x`, { page: "unknown" }],
  ["/runs/5", { page: "unknown" }],
  [`/runs/${ID}/more`, { page: "unknown" }],
])("%s", (path, route) => expect(parseRoute(path)).toEqual(route));

it("makes addresses that it reads again", () => {
  expect(parseRoute(runPath(ID))).toEqual({ page: "run", id: ID });
  expect(candidatePath(ID, 39)).toBe(`/candidates/${ID}#L39`);
  expect(parseRoute(candidatePath(ID))).toEqual({ page: "candidate", id: ID });
  expect(parseRoute(candidatePath(provisionalId(ID, 17)))).toEqual({ page: "numbered", run: ID, ordinal: 17 });
});
