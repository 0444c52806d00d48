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

/** One row of a difference side by side; null where a side has no line. */
export interface Pair {
  old: DiffLine | null;
  new: DiffLine | null;
}

/** Sets removed lines beside the added ones that follow them. */
export function pairs(lines: readonly DiffLine[]): Pair[] {
  const made: Pair[] = [];
  let free = 0;
  for (const line of lines) {
    if (line.change === "kept") {
      made.push({ old: line, new: line });
      free = made.length;
    } else if (line.change === "removed") {
      made.push({ old: line, new: null });
    } else {
      const beside = made[free];
      if (beside) beside.new = line;
      else made.push({ old: null, new: line });
      free += 1;
    }
  }
  return made;
}
