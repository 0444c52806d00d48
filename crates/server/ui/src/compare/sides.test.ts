import { expect, it } from "vitest";

import type { DiffLine } from "../api/types";
import { sides } from "./sides";

const line = (change: DiffLine["change"], text: string): DiffLine => ({ change, text, old: null, new: null });

it("sets what was removed beside what replaced it", () => {
  const diff = [line("kept", "a"), line("removed", "b"), line("removed", "c"), line("added", "B"), line("kept", "d"), line("added", "e")];
  expect(sides(diff).map(({ left, right }) => [left?.text, right?.text])).toEqual([
    ["a", "a"],
    ["b", "B"],
    ["c", undefined],
    ["d", "d"],
    [undefined, "e"],
  ]);
});
