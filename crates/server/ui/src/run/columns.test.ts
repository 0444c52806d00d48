import { expect, it } from "vitest";

import type { LineageColumns } from "../api/types";
import { event, id, runView } from "../samples";
import { parseProvisionalId, provisionalId } from "../api/provisional";
import { changed, fromColumns, fromCurve, withBest } from "./columns";

const COLUMNS: LineageColumns = {
  total: 4,
  last_generation: 2,
  best: 1,
  ordinals: [0, 1, 2, 3],
  generations: [0, 1, 1, 2],
  islands: [null, 0, 4, 4],
  parents: [null, 0, 0, 1],
  further_parents: [[3, 2]],
  operator_names: ["baseline", "mutation", "crossover"],
  operators: [0, 1, 1, 2],
  outcome_names: ["accepted", "data_race", "pending"],
  outcomes: [0, 0, 1, 2],
  duplicates: [2],
  speedups: [1, 2.5, null, null],
  seconds: [10, 20, 30, 40],
  next: null,
};

it("makes candidates of columns", () => {
  const run = runView({ created_at: "2026-11-21T14:00:00Z", best: { candidate: id(1), title: "two", speedup: 2.5, interval: null, time_us: 16, modelled: true } });
  const nodes = fromColumns(COLUMNS, run);
  expect(nodes.map(({ ordinal, verdict, speedup, best }) => [ordinal, verdict, speedup, best])).toEqual([
    [0, "accepted", 1, false],
    [1, "accepted", 2.5, true],
    [2, "data_race", null, false],
    [3, null, null, false],
  ]);
  expect(nodes.map(({ island }) => island)).toEqual([null, 0, 4, 4]);
  expect(fromColumns({ ...COLUMNS, islands: [] }, run)[3]?.island).toBeNull();
  expect(nodes[3]).toMatchObject({ parents: [provisionalId(run.id, 1), provisionalId(run.id, 2)], operator: { operator: "crossover" }, state: { state: "queued" } });
  expect(nodes[2]?.state.state).toBe("duplicate");
  expect(nodes[1]).toMatchObject({ modelled: true, judged_at: "2026-11-21T14:00:20.000Z" });
  expect(parseProvisionalId(nodes[1]?.id ?? "")).toEqual({ run: run.id, ordinal: 1 });
  expect(parseProvisionalId(id(1))).toBeNull();
});

it("reads again the candidates that events name by their ordinal", () => {
  const judged = { kind: "judged" as const, candidate: id(7), ordinal: 7, title: "x", verdict: "timeout" as const, summary: "x", speedup: null, best: false };
  const proposed = { kind: "proposed" as const, candidate: id(3), ordinal: 3, title: "x" };
  const stage = { kind: "stage" as const, candidate: id(9), stage: "compile", worker: id(1) };
  expect(changed([event(1, judged), event(2, proposed), event(3, judged)])).toEqual({ stale: [{ first: 3, size: 1 }, { first: 7, size: 1 }], runChanged: true });
  expect(changed([event(1, stage)])).toEqual({ stale: [], runChanged: false });
});

it("gives the crown to one candidate", () => {
  const nodes = withBest(fromColumns(COLUMNS, runView()), 0);
  expect(nodes.filter(({ best }) => best).map(({ ordinal }) => ordinal)).toEqual([0]);
});

it("takes the fastest of each bucket of a curve", () => {
  const curve = {
    total: 40,
    width: 10,
    ordinals: [0, 10, 20, 30],
    accepted: [3, 0, 4, 1],
    fastest: [1.5, null, 2.5, 2],
    fastest_ordinals: [7, null, 22, 30],
    fastest_seconds: [70, null, 220, 300],
    best: [1.5, 1.5, 2.5, 2.5],
  };
  const nodes = fromCurve(curve, runView({ created_at: "2026-11-21T14:00:00Z" }));
  expect(nodes.map(({ ordinal, speedup, best }) => [ordinal, speedup, best])).toEqual([
    [7, 1.5, false],
    [22, 2.5, true],
    [30, 2, false],
  ]);
  expect(nodes[0]?.judged_at).toBe("2026-11-21T14:01:10.000Z");
});
