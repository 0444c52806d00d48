import { expect, it } from "vitest";

import { candidate, id } from "../samples";
import { layout } from "./layout";
import { LISTED, neighbourhood } from "./neighbours";

const wide = (size: number) => layout([candidate(0), ...Array.from({ length: size }, (_, at) => candidate(at + 1, { generation: 1 + Math.floor(at / 100), parents: [id(at < 100 ? 0 : at - 99)] }))]);

it("lists a small graph whole", () => {
  expect(neighbourhood(wide(LISTED - 1), null)).toHaveLength(LISTED);
});

it("lists the ancestors, children and siblings of a candidate in a large graph", () => {
  const graph = wide(5_000);
  const of = graph.byId.get(id(2_050)) ?? null;
  const listed = new Set(neighbourhood(graph, of).map(({ node }) => node.id));
  expect(listed.size).toBeLessThan(LISTED);
  for (let place = of; place; place = place.parent) expect(listed.has(place.node.id)).toBe(true);
  for (const place of graph.places) if (place.parent === of) expect(listed.has(place.node.id)).toBe(true);
});
