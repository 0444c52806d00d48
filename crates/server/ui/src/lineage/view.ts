// The part of the lineage that its frame shows. The two axes are scaled apart: at the smallest zoom the whole
// graph fills the frame, at the largest a cell has room for its label, and both scales run evenly between.

import type { Layout, Place } from "./layout";

export interface Size {
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export interface View {
  /** Zoom from 0, all of the graph, to 1, the largest. */
  zoom: number;
  /** The point of the graph in the frame's corner. */
  x: number;
  y: number;
}

/** Pixels for each unit of the layout at the largest zoom. */
const LARGEST = 1.3;
/** The most of the scale along each axis of a graph that fits without being reduced. */
const NATURAL: Point = { x: 1, y: 1.25 };
/** Pixels between the frame and a candidate that is brought into view. */
const CLEAR = 40;

/** Pixels for each unit of the layout, along both axes. */
export function scale(zoom: number, graph: Size, frame: Size): Point {
  const between = (room: number, size: number, natural: number) => {
    const whole = Math.min(natural, Math.max(1, room) / Math.max(1, size));
    return whole * (LARGEST / whole) ** zoom;
  };
  return { x: between(frame.width, graph.width, NATURAL.x), y: between(frame.height, graph.height, NATURAL.y) };
}

/** The view of the whole graph. */
export function whole(graph: Size, frame: Size): View {
  return kept({ zoom: 0, x: 0, y: 0 }, graph, frame);
}

/** Keeps the frame filled with the graph; where it is smaller, it begins at the left and is centred in height. */
export function kept(view: View, graph: Size, frame: Size): View {
  const zoom = Math.max(0, Math.min(1, view.zoom));
  const per = scale(zoom, graph, frame);
  const [room, height] = [frame.width / per.x, frame.height / per.y];
  return {
    zoom,
    x: Math.max(0, Math.min(view.x, graph.width - room)),
    y: graph.height <= height ? (graph.height - height) / 2 : Math.max(0, Math.min(view.y, graph.height - height)),
  };
}

export function toGraph(view: View, graph: Size, frame: Size, at: Point): Point {
  const per = scale(view.zoom, graph, frame);
  return { x: view.x + at.x / per.x, y: view.y + at.y / per.y };
}

export function toFrame(view: View, graph: Size, frame: Size, at: Point): Point {
  const per = scale(view.zoom, graph, frame);
  return { x: (at.x - view.x) * per.x, y: (at.y - view.y) * per.y };
}

/** Zooms by a factor of the cells' size, so that the point of the frame stays where it is. */
export function zoomed(view: View, graph: Size, frame: Size, factor: number, at: Point): View {
  const [from, to] = [scale(0, graph, frame), scale(1, graph, frame)];
  // The axis with the wider range reaches its ends at the pace of the factor.
  const range = Math.max(Math.log(to.x / from.x), Math.log(to.y / from.y));
  const zoom = Math.max(0, Math.min(1, view.zoom + Math.log(factor) / range));
  const fixed = toGraph(view, graph, frame, at);
  const per = scale(zoom, graph, frame);
  return kept({ zoom, x: fixed.x - at.x / per.x, y: fixed.y - at.y / per.y }, graph, frame);
}

/** Moves the graph by pixels. */
export function panned(view: View, graph: Size, frame: Size, by: Point): View {
  const per = scale(view.zoom, graph, frame);
  return kept({ ...view, x: view.x - by.x / per.x, y: view.y - by.y / per.y }, graph, frame);
}

/** Moves the graph as little as brings a point into view; `right` is the room that its label wants. */
export function revealed(view: View, graph: Size, frame: Size, at: Point, right: number): View {
  const { x, y } = toFrame(view, graph, frame, at);
  const by = (place: number, low: number, high: number) => (place < low ? low - place : place > high ? Math.min(high - place, 0) : 0);
  const move = {
    x: by(x, CLEAR, Math.max(CLEAR, frame.width - right)),
    y: by(y, CLEAR, Math.max(CLEAR, frame.height - CLEAR)),
  };
  return panned(view, graph, frame, move);
}

/** The distances from a place within which it is hit, in units of the layout. */
export interface Reach {
  left: number;
  right: number;
  beside: number;
}

/** The place at a point of the graph: the nearest in height of those within reach. */
export function hit({ columns }: Layout, at: Point, reach: Reach): Place | null {
  let found: Place | null = null;
  let least = reach.beside;
  for (let index = firstFrom(columns, at.x - reach.right, (column) => column[0]?.x ?? 0); index < columns.length; index += 1) {
    const column = columns[index] ?? [];
    if ((column[0]?.x ?? 0) > at.x + reach.left) break;
    const below = firstFrom(column, at.y, (place) => place.y);
    for (const place of [column[below - 1], column[below]]) {
      if (!place || Math.abs(place.y - at.y) > least) continue;
      found = place;
      least = Math.abs(place.y - at.y);
    }
  }
  return found;
}

/** The index of the first of ascending values that is not below `from`. */
export function firstFrom<T>(items: readonly T[], from: number, value: (item: T) => number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = items[middle];
    if (item !== undefined && value(item) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}
