import { expect, it } from "vitest";

import type { Insight, SteeringEntry } from "../api/types";
import { lessons } from "./lessons";

function insight(ordinal: number, thought: string, over: Partial<Insight> = {}): Insight {
  return { candidate: String(ordinal), ordinal, thought, verdict: "accepted", speedup: 1.2, shown: 0, last_shown: null, judged: 0, accepted: 0, wins: 0, uplift: null, edit: null, corrected: null, ...over };
}

it("counts the same thought once, whatever its case and punctuation", () => {
  const found = lessons([insight(4, "Vector loads, 16 bytes."), insight(2, "vector loads 16 bytes"), insight(3, "wider tiles")]);
  expect(found.map(({ thought, sources }) => [thought, sources.map(({ ordinal }) => ordinal)])).toEqual([
    ["vector loads 16 bytes", [2, 4]],
    ["wider tiles", [3]],
  ]);
});

it("tells wins from traps and from what is open, in this order", () => {
  const found = lessons([
    insight(1, "open"),
    insight(2, "slower readers", { uplift: 0.9, judged: 8 }),
    insight(3, "failed", { verdict: "data_race", speedup: null }),
    insight(4, "won", { wins: 2, judged: 3 }),
    insight(5, "unjudged", { verdict: null, speedup: null }),
  ]);
  expect(found.map(({ thought, kind }) => [thought, kind])).toEqual([
    ["won", "win"],
    ["slower readers", "trap"],
    ["failed", "trap"],
    ["open", "open"],
    ["unjudged", "open"],
  ]);
});

it("names the evidence that points both ways", () => {
  const [mixed] = lessons([insight(1, "a"), insight(2, "A", { verdict: "timeout", speedup: null })]);
  expect(mixed?.contradictions).toEqual(["1 accepted, 1 failed"]);
  const [won] = lessons([insight(1, "b", { verdict: "timeout", speedup: null, wins: 1, uplift: 0.9 })]);
  expect(won?.contradictions).toHaveLength(2);
  expect(lessons([insight(1, "c")])[0]?.contradictions).toEqual([]);
});

it("shows how people edited a thought", () => {
  expect(lessons([insight(1, "a"), insight(2, "A", { edit: 3, corrected: "b" })])[0]).toMatchObject({ corrected: "b", isLeftOut: false });
  expect(lessons([insight(1, "a", { edit: 3 }), insight(2, "A")])[0]).toMatchObject({ corrected: null, isLeftOut: false });
  expect(lessons([insight(1, "a", { edit: 3 }), insight(2, "A", { edit: 4 })])[0]).toMatchObject({ corrected: null, isLeftOut: true });
});

it("is pinned by a lasting hint of the same words", () => {
  const hint = (entry: number, text: string, over: object = {}) => ({ entry, kind: "hint", text, prompts: null, at: "2026-11-21T08:00:00Z", actor: "ada", since: 9, withdrawn_by: null, ...over }) as SteeringEntry;
  const pinned = (directions: SteeringEntry[], over: Partial<Insight> = {}) => lessons([insight(1, "wider tiles", over)], directions)[0]?.pinned;
  expect(pinned([])).toBeNull();
  expect(pinned([hint(4, "Wider tiles.")])).toBe(4);
  expect(pinned([hint(4, "wider tiles", { prompts: 3 })])).toBeNull();
  expect(pinned([hint(4, "wider tiles", { withdrawn_by: 5 })])).toBeNull();
  expect(pinned([hint(4, "tiles of 64", {}), hint(6, "other words")], { edit: 2, corrected: "Tiles of 64" })).toBe(4);
});
