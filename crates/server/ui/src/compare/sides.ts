// A difference as rows of two columns: what was removed stands beside what replaced it.

import type { DiffLine } from "../api/types";

export interface Row {
  left: DiffLine | null;
  right: DiffLine | null;
}

/** Pairs each removed line with the added line at the same position of its change. */
export function sides(lines: readonly DiffLine[]): Row[] {
  const rows: Row[] = [];
  let removed: DiffLine[] = [];
  let added: DiffLine[] = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) {
      rows.push({ left: removed[at] ?? null, right: added[at] ?? null });
    }
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.change === "removed") removed.push(line);
    else if (line.change === "added") added.push(line);
    else {
      flush();
      rows.push({ left: line, right: line });
    }
  }
  flush();
  return rows;
}
