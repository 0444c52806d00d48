// Where each candidate stands in the graph. Generations run from left to right; inside one
// generation a sweep stands to the right of the step it varies. Each column is packed on its
// own, every node as near to its primary parent as its neighbours allow.

import type { CandidateSummary } from "../api/types";

/** Distance between two columns and between two rows of one column, in pixels at zoom 1. */
export const COLUMN = 166;
export const ROW = 36;
/** A column longer than this continues beside itself. */
export const COLUMN_ROWS = 32;
const MARGIN = { left: 34, top: 44, right: 140, bottom: 24 };

export interface Place {
  node: CandidateSummary;
  x: number;
  y: number;
  /** The primary parent's place; none for roots and for parents that are not shown. */
  parent: Place | null;
}

export interface Band {
  generation: number;
  /** Left edge and width. */
  x: number;
  width: number;
}

export interface Layout {
  places: Place[];
  byId: Map<string, Place>;
  /** Places of one column from top to bottom, columns from left to right. */
  columns: Place[][];
  bands: Band[];
  width: number;
  height: number;
}

/** Lays out candidates given by ordinal, so that a parent comes before its children. */
export function layout(nodes: readonly CandidateSummary[]): Layout {
  const byId = new Map<string, Place>();
  const ranks = new Map<string, number>();
  const cells = new Map<number, Map<number, Place[]>>();
  for (const node of nodes) {
    const parent = byId.get(node.parents[0] ?? "") ?? null;
    const inside = parent !== null && parent.node.generation === node.generation;
    const rank = inside ? (ranks.get(parent.node.id) ?? 0) + 1 : 0;
    const place: Place = { node, x: 0, y: 0, parent };
    byId.set(node.id, place);
    ranks.set(node.id, rank);
    const generation = entry(cells, node.generation, () => new Map<number, Place[]>());
    entry(generation, rank, () => []).push(place);
  }

  const columns: Place[][] = [];
  const bands: Band[] = [];
  for (const [generation, byRank] of sorted(cells)) {
    const first = columns.length;
    for (const [, members] of sorted(byRank)) {
      for (const column of wrapped(members)) {
        const x = MARGIN.left + columns.length * COLUMN;
        pack(column);
        for (const place of column) place.x = x;
        columns.push(column);
      }
    }
    const x = first * COLUMN;
    bands.push({ generation, x, width: (columns.length - first) * COLUMN });
  }

  const places = [...byId.values()];
  const top = Math.min(0, ...places.map((place) => place.y));
  for (const place of places) place.y += MARGIN.top - top;
  const bottom = Math.max(MARGIN.top, ...places.map((place) => place.y));
  return {
    places,
    byId,
    columns,
    bands,
    width: MARGIN.left + Math.max(0, columns.length - 1) * COLUMN + MARGIN.right,
    height: bottom + MARGIN.bottom,
  };
}

/** Orders a column by its parents' height, siblings by age, and breaks it where it is too long. */
function wrapped(members: Place[]): Place[][] {
  const ordered = members.toSorted(
    (one, other) => (one.parent?.y ?? 0) - (other.parent?.y ?? 0) || one.node.ordinal - other.node.ordinal,
  );
  const parts: Place[][] = [];
  for (let start = 0; start < ordered.length; start += COLUMN_ROWS) {
    parts.push(ordered.slice(start, start + COLUMN_ROWS));
  }
  return parts;
}

/**
 * Sets the heights of one column: one row apart at least, in the given order, with the least
 * sum of squared distances to the wished heights. Overlapping neighbours are merged to blocks
 * that share one offset (pool adjacent violators).
 */
function pack(column: Place[]): void {
  const blocks: { start: number; size: number; offset: number }[] = [];
  wishes(column).forEach((wish, row) => {
    let block = { start: row, size: 1, offset: wish - row * ROW };
    for (let before = blocks.at(-1); before && before.offset >= block.offset; before = blocks.at(-1)) {
      blocks.pop();
      const size = before.size + block.size;
      const offset = (before.offset * before.size + block.offset * block.size) / size;
      block = { start: before.start, size, offset };
    }
    blocks.push(block);
  });
  for (const { start, size, offset } of blocks) {
    for (let row = start; row < start + size; row += 1) {
      const place = column[row];
      if (place) place.y = offset + row * ROW;
    }
  }
}

/** Siblings wish to be centred on their parent. */
function wishes(column: Place[]): number[] {
  const siblings = new Map<Place | null, number>();
  for (const place of column) siblings.set(place.parent, (siblings.get(place.parent) ?? 0) + 1);
  const seen = new Map<Place | null, number>();
  return column.map((place) => {
    const rank = seen.get(place.parent) ?? 0;
    seen.set(place.parent, rank + 1);
    const centre = ((siblings.get(place.parent) ?? 1) - 1) / 2;
    return (place.parent?.y ?? 0) + (rank - centre) * ROW;
  });
}

/** The candidate with its primary ancestors. */
export function ancestry(layout: Layout, id: string | undefined): Set<string> {
  const path = new Set<string>();
  let place = layout.byId.get(id ?? "") ?? null;
  while (place && !path.has(place.node.id)) {
    path.add(place.node.id);
    place = place.parent;
  }
  return path;
}

export type Direction = "left" | "right" | "up" | "down";

/** Where an arrow key leads: to the primary parent, the nearest node of the next column, or a neighbour. */
export function step(layout: Layout, from: Place, direction: Direction): Place {
  const column = layout.columns.findIndex((members) => members.includes(from));
  const members = layout.columns[column] ?? [];
  switch (direction) {
    case "left":
      return from.parent ?? from;
    case "up":
      return members[members.indexOf(from) - 1] ?? from;
    case "down":
      return members[members.indexOf(from) + 1] ?? from;
    case "right": {
      const child = layout.places.find((place) => place.parent === from);
      const next = child ? [child] : (layout.columns[column + 1] ?? []);
      return nearest(next, from.y) ?? from;
    }
  }
}

function nearest(places: Place[], y: number): Place | undefined {
  return places.reduce<Place | undefined>(
    (best, place) => (best && Math.abs(best.y - y) <= Math.abs(place.y - y) ? best : place),
    undefined,
  );
}

/** Length of an edge's bend. What comes before it runs level, between a label's two lines. */
const BEND = 46;

/** A line from a parent to its child. */
export function edge(from: Place, to: Place): string {
  const begin = from.x + COLUMN - BEND;
  const end = from.x + COLUMN - 12;
  const half = (end - begin) / 2;
  return `M${from.x} ${from.y}H${begin}C${begin + half} ${from.y} ${end - half} ${to.y} ${end} ${to.y}H${to.x}`;
}

function entry<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}

function sorted<V>(map: Map<number, V>): [number, V][] {
  return [...map].sort(([one], [other]) => one - other);
}
