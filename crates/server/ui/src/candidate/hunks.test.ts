import { expect, it } from "vitest";

import type { DiffLine } from "../api/types";
import { hunks, pairs, tally } from "./hunks";

function diff(pattern: string): DiffLine[] {
  const changes = { " ": "kept", "+": "added", "-": "removed" } as const;
  return [...pattern].map((sign, at) => ({ change: changes[sign as keyof typeof changes], old: at, new: at, text: sign }));
}

function shape(pattern: string): string[] {
  return hunks(diff(pattern)).map((part) => ("lines" in part ? `${part.lines.length} shown` : `${part.skipped.length} folded`));
}

it.each([
  ["+", ["1 shown"]],
  ["          ", ["10 folded"]],
  ["     +-     ", ["2 folded", "8 shown", "2 folded"]],
  ["+      +", ["8 shown"]],
  ["+       +", ["4 shown", "1 folded", "4 shown"]],
])("folds %j", (pattern, made) => expect(shape(pattern)).toEqual(made));

it("keeps every line once and in order", () => {
  const lines = diff("        +++    --          +     ");
  expect(hunks(lines).flatMap((part) => ("lines" in part ? part.lines : part.skipped))).toEqual(lines);
});

it("counts changes", () => expect(tally(diff(" ++- "))).toEqual({ added: 2, removed: 1 }));

it.each([
  [" -+ ", [" | ", "-|+", " | "]],
  ["--+", ["-|+", "-|"]],
  ["-++", ["-|+", "|+"]],
  ["+ -", ["|+", " | ", "-|"]],
  ["-+-+", ["-|+", "-|+"]],
])("sets %j side by side", (pattern, made) => {
  expect(pairs(diff(pattern)).map(({ old, new: now }) => `${old?.text ?? ""}|${now?.text ?? ""}`)).toEqual(made);
});
