// The layout of the lineage graph. Generations run from left to right; inside one
// generation a sweep stands to the right of the step it varies. Each column is packed on its
// own, every node as near to its primary parent as its neighbours allow. The islands of a run can have a lane each, so
// that edges between lanes are the resets in which an island began again with the best of another.

import type { CandidateSummary } from "../api/types";

/** Distance between two columns and between two rows of one column, in units of the layout. */
export const COLUMN = 176;
export const ROW = 36;
/** Rows of a column before it continues beside itself, in a graph of up to about a thousand candidates. */
export const COLUMN_ROWS = 32;
/** Height of the band that columns keep to, by that of a full column. */
const BAND = 1.3;
/** Rows of a column for each square root of the candidates, so that a large graph has the shape of its frame. */
const ROWS_PER_ROOT = 0.9;
const MARGIN = { left: 46, top: 44, right: 172, bottom: 24 };
/** The least rows of a column in one lane, and the space between the rows of two lanes. */
const LANE_ROWS = 6;
const LANE_GAP = 2 * ROW;

/** Something that takes up a row of a column: a candidate, or an edge that passes by. */
interface Spot {
  x: number;
  y: number;
  /** The start of the edge that ends here: the parent, or the spot that the edge passed last. */
  from: Spot | null;
  /** Order among those that come from the same spot. */
  rank: number;
  /** Position of its lane; 0 where there are none. */
  lane: number;
}

export interface Place extends Spot {
  node: CandidateSummary;
  /** The primary parent's place; none for roots and for parents that are not shown. */
  parent: Place | null;
}

export interface Band {
  generation: number;
  /** Left edge and width. */
  x: number;
  width: number;
}

/** A strip of the graph with the candidates of one island. */
export interface Lane {
  /** Null for candidates that belong to no island. */
  island: number | null;
  /** Upper edge and height. */
  y: number;
  height: number;
}

/** A further parent and its child. */
export interface Join {
  from: Place;
  to: Place;
}

export interface Layout {
  places: Place[];
  /** Edges from the further parents of candidates. */
  joins: Join[];
  byId: Map<string, Place>;
  /** The ids of primary parents. */
  parents: Set<string>;
  /** Places of one column from top to bottom, columns from left to right. */
  columns: Place[][];
  /** The most rows of a column. */
  rows: number;
  bands: Band[];
  /** From top to bottom; none where islands are not shown apart. */
  lanes: Lane[];
  width: number;
  height: number;
}

/** The places of one step of depth within one generation. */
interface Cell {
  generation: number;
  depth: number;
  places: Place[];
}

/** The islands of a run; none where no candidate has one. The baseline belongs to all, others without an island to none. */
export function islands(nodes: readonly CandidateSummary[]): (number | null)[] {
  const found = new Set(nodes.flatMap(({ island }) => (island === null ? [] : [island])));
  const made: (number | null)[] = [...found].sort((one, other) => one - other);
  if (made.length > 0 && nodes.some(({ island, operator }) => island === null && operator.operator !== "baseline")) made.push(null);
  return made;
}

/** Lays out candidates given by ordinal, so that a parent comes before its children; each of the `strips` gets a lane. */
export function layout(nodes: readonly CandidateSummary[], strips: readonly (number | null)[] = []): Layout {
  const { byId, cells } = sort(nodes, strips);
  const whole = Math.max(COLUMN_ROWS, Math.ceil(ROWS_PER_ROOT * Math.sqrt(nodes.length)));
  const rows = strips.length === 0 ? whole : Math.max(LANE_ROWS, Math.ceil(whole / strips.length));
  const columns: Place[][] = [];
  const bands: Band[] = [];
  const spots: Spot[] = [];
  const edges = new PassingEdges(cells);
  let left = 0;
  cells.forEach((cell, index) => {
    const begin = left;
    for (const column of columnsOf([...cell.places, ...edges.enter(cell, index)], rows, strips.length)) {
      for (const spot of column) spot.x = MARGIN.left + left;
      spots.push(...column);
      // A long column may end in a part that edges only pass.
      const places = column.filter(isPlace);
      if (places.length > 0) columns.push(places);
      left += COLUMN;
    }
    const last = bands.at(-1);
    if (last?.generation === cell.generation) last.width += left - begin;
    else bands.push({ generation: cell.generation, x: begin, width: left - begin });
  });

  const lanes = stack(spots, strips);
  // Loops, because so many arguments would overflow the stack.
  let top = 0;
  for (const spot of spots) top = Math.min(top, spot.y);
  let bottom = MARGIN.top;
  for (const spot of spots) {
    spot.y += MARGIN.top - top;
    bottom = Math.max(bottom, spot.y);
  }
  for (const lane of lanes) lane.y += MARGIN.top - top;
  return {
    places: [...byId.values()],
    joins: joins(byId),
    byId,
    parents: new Set(nodes.flatMap((node) => node.parents.slice(0, 1))),
    columns,
    rows,
    bands,
    lanes,
    width: MARGIN.left + Math.max(0, left - COLUMN) + MARGIN.right,
    height: bottom + MARGIN.bottom,
  };
}

/**
 * The layout of newer versions of the same candidates: places stay and take the new values. Where candidates
 * or lanes were added it is laid out anew.
 */
export function updated(before: Layout | null, nodes: readonly CandidateSummary[], strips: readonly (number | null)[] = []): Layout {
  if (before?.places.length !== nodes.length || before.lanes.length !== strips.length) return layout(nodes, strips);
  if (!before.places.every((place, at) => place.node.id === nodes[at]?.id)) return layout(nodes, strips);
  before.places.forEach((place, at) => {
    place.node = nodes[at] ?? place.node;
  });
  return { ...before };
}

/** Sorts candidates into cells, from left to right. */
function sort(nodes: readonly CandidateSummary[], strips: readonly (number | null)[]): { byId: Map<string, Place>; cells: Cell[] } {
  const middle = Math.floor(strips.length / 2);
  const byId = new Map<string, Place>();
  const depths = new Map<Place, number>();
  const cells = new Map<string, Cell>();
  for (const node of nodes) {
    const parent = byId.get(node.parents[0] ?? "") ?? null;
    const inside = parent !== null && parent.node.generation === node.generation;
    const depth = inside ? (depths.get(parent) ?? 0) + 1 : 0;
    const lane = node.operator.operator === "baseline" ? middle : Math.max(0, strips.indexOf(node.island));
    const place: Place = { node, x: 0, y: 0, parent, from: parent, rank: node.ordinal, lane };
    byId.set(node.id, place);
    depths.set(place, depth);
    const key = `${node.generation}/${depth}`;
    const cell = cells.get(key);
    if (cell) cell.places.push(place);
    else cells.set(key, { generation: node.generation, depth, places: [place] });
  }
  const ordered = [...cells.values()].sort((one, other) => one.generation - other.generation || one.depth - other.depth);
  return { byId, cells: ordered };
}

/** Further parents that are part of the graph; a parent that was drawn twice is drawn once. */
function joins(byId: Map<string, Place>): Join[] {
  return [...byId.values()].flatMap((to) => {
    const further = new Set(to.node.parents.slice(1));
    return [...further].flatMap((id) => {
      const from = byId.get(id);
      return from && from !== to.parent ? [{ from, to }] : [];
    });
  });
}

/** Gives edges that pass a column a row of their own there. Edges of one parent share it. */
class PassingEdges {
  /** The last cell in which a parent has a child. */
  readonly #reach = new Map<Place, { cell: number; rank: number }>();
  /** The last spot of each parent's edges. */
  readonly #front = new Map<Place, Spot>();

  constructor(cells: Cell[]) {
    cells.forEach(({ places }, cell) => {
      for (const { parent, rank } of places) if (parent) this.#reach.set(parent, { cell, rank });
    });
  }

  /** Lets the edges reach a cell: sets where its places come from, and returns what passes by. */
  enter(cell: Cell, index: number): Spot[] {
    for (const place of cell.places) {
      if (place.parent) place.from = this.#front.get(place.parent) ?? place.parent;
    }
    const passing: Spot[] = [];
    for (const [parent, front] of this.#front) {
      const reach = this.#reach.get(parent);
      if (!reach || reach.cell <= index) {
        this.#front.delete(parent);
        continue;
      }
      const spot: Spot = { x: 0, y: 0, from: front, rank: reach.rank, lane: parent.lane };
      this.#front.set(parent, spot);
      passing.push(spot);
    }
    for (const place of cell.places) if (this.#reach.has(place)) this.#front.set(place, place);
    return passing;
  }
}

function isPlace(spot: Spot): spot is Place {
  return "node" in spot;
}

/** The columns of one cell, each from top to bottom. Every lane is packed for itself, around a height of 0. */
function columnsOf(members: Spot[], rows: number, lanes: number): Spot[][] {
  const parts = Array.from({ length: Math.max(1, lanes) }, (_, lane) => wrapped(members.filter((spot) => spot.lane === lane), rows));
  for (const part of parts.flat()) pack(part, (rows * ROW * BAND) / 2);
  const count = Math.max(...parts.map((part) => part.length));
  return Array.from({ length: count }, (_, at) => parts.flatMap((part) => part[at] ?? []));
}

/** Puts the lanes below each other. Without lanes nothing is moved. */
function stack(spots: readonly Spot[], strips: readonly (number | null)[]): Lane[] {
  const reach = strips.map(() => ({ low: 0, high: 0 }));
  for (const { lane, y } of spots) {
    const own = reach[lane];
    if (own) [own.low, own.high] = [Math.min(own.low, y), Math.max(own.high, y)];
  }
  let top = 0;
  const shifts: number[] = [];
  const lanes = strips.map((island, lane) => {
    const { low, high } = reach[lane] ?? { low: 0, high: 0 };
    const height = high - low + LANE_GAP;
    shifts.push(top - low);
    const made = { island, y: top - LANE_GAP / 2, height };
    top += height;
    return made;
  });
  for (const spot of spots) spot.y += shifts[spot.lane] ?? 0;
  return lanes;
}

/** The height that a spot's edge comes from. Heights of other lanes say nothing, so that these edges begin in the middle. */
function origin({ from, lane }: Spot): number {
  return from?.lane === lane ? from.y : 0;
}

/** Orders a column by where its edges come from, and breaks it where it is too long. */
function wrapped(members: Spot[], rows: number): Spot[][] {
  const ordered = members.toSorted((one, other) => origin(one) - origin(other) || one.rank - other.rank);
  const parts: Spot[][] = [];
  for (let start = 0; start < ordered.length; start += rows) {
    parts.push(ordered.slice(start, start + rows));
  }
  return parts;
}

/**
 * Sets the heights of one column: one row apart at least, in the given order, with the least
 * sum of squared distances to the wished heights. Overlapping neighbours are merged to blocks
 * that share one offset (pool adjacent violators). No spot is farther from the middle than `band`.
 */
function pack(column: Spot[], band: number): void {
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
  const highest = Math.max(-band, band - (column.length - 1) * ROW);
  for (const { start, size, offset: wished } of blocks) {
    const offset = Math.max(-band, Math.min(highest, wished));
    for (let row = start; row < start + size; row += 1) {
      const spot = column[row];
      if (spot) spot.y = offset + row * ROW;
    }
  }
}

/** The wished heights: members whose edges come from one spot are centred on it. */
function wishes(column: Spot[]): number[] {
  const siblings = new Map<Spot | null, number>();
  for (const spot of column) siblings.set(spot.from, (siblings.get(spot.from) ?? 0) + 1);
  const seen = new Map<Spot | null, number>();
  return column.map((spot) => {
    const before = seen.get(spot.from) ?? 0;
    seen.set(spot.from, before + 1);
    const centre = ((siblings.get(spot.from) ?? 1) - 1) / 2;
    return origin(spot) + (before - centre) * ROW;
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

/** Returns the candidate that an arrow key leads to: the primary parent, the nearest node of the next column, or a neighbour. */
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

/** The spots of the line from a primary parent to its child, with those where it passes other columns; empty for a root. */
export function route(to: Place): { x: number; y: number }[] {
  if (!to.from) return [];
  const spots: Spot[] = [to];
  for (let spot: Spot | null = to.from; spot; spot = isPlace(spot) ? null : spot.from) spots.push(spot);
  return spots.reverse();
}

/** The spots where the line to a candidate passes other columns. */
export function passes(to: Place): { x: number; y: number }[] {
  const made: Spot[] = [];
  for (let spot = to.from; spot && !isPlace(spot); spot = spot.from) made.push(spot);
  return made;
}
