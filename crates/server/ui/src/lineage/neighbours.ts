// The candidates that are listed beside the canvas: all of a small graph, else those near the selected one, so that a
// screen reader walks from each to its parents, its children and its siblings.

import type { Layout, Place } from "./layout";

/** Graphs of at most so many candidates are listed whole. */
export const LISTED = 300;
/** The most children, and the most siblings to each side, that are listed in a larger one. */
const NEAR = 40;

export function neighbourhood(graph: Layout, of: Place | null): Place[] {
  if (graph.places.length <= LISTED) return graph.places;
  const made = new Set<Place>(graph.places.slice(0, 1));
  for (let place = of; place && made.size < LISTED / 2; place = place.parent) made.add(place);
  if (of) {
    const column = graph.columns.find((places) => places[0]?.x === of.x) ?? [];
    const at = column.indexOf(of);
    for (const place of column.slice(Math.max(0, at - NEAR), at + NEAR + 1)) made.add(place);
    let children = 0;
    for (const place of graph.places) {
      if (children >= NEAR) break;
      if (place.parent !== of) continue;
      made.add(place);
      children += 1;
    }
  }
  return [...made].sort((one, other) => one.node.ordinal - other.node.ordinal);
}
