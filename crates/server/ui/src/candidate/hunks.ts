// A difference as the parts worth reading: changes with a little of what is around them.

import type { DiffLine } from "../api/types";

export type Part = { lines: DiffLine[] } | { skipped: DiffLine[] };

/** Unchanged lines that are shown around a change. */
const CONTEXT = 3;

/** Folds runs of unchanged lines that are further from a change than the context. */
export function hunks(diff: readonly DiffLine[]): Part[] {
  const near = new Set<number>();
  diff.forEach((line, at) => {
    if (line.change === "kept") return;
    for (let beside = at - CONTEXT; beside <= at + CONTEXT; beside += 1) near.add(beside);
  });
  const parts: Part[] = [];
  diff.forEach((line, at) => {
    const last = parts.at(-1);
    if (near.has(at)) {
      if (last && "lines" in last) last.lines.push(line);
      else parts.push({ lines: [line] });
    } else if (last && "skipped" in last) last.skipped.push(line);
    else parts.push({ skipped: [line] });
  });
  return parts;
}

export function tally(diff: readonly DiffLine[]): { added: number; removed: number } {
  return {
    added: diff.filter((line) => line.change === "added").length,
    removed: diff.filter((line) => line.change === "removed").length,
  };
}
