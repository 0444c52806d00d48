import { describe, expect, it } from "vitest";

import { candidate, id } from "../samples";
import { ancestry, COLUMN, COLUMN_ROWS, islands, layout, passes, route, ROW, step, updated } from "./layout";

function child(ordinal: number, generation: number, parent: number) {
  return candidate(ordinal, { generation, parents: [id(parent)] });
}

/** A step with a sweep, and a next step bred from the last of the sweep. */
const nodes = [
  candidate(0),
  child(1, 1, 0),
  child(2, 1, 1),
  child(3, 1, 1),
  child(4, 1, 1),
  child(5, 2, 4),
];

function place(graph: ReturnType<typeof layout>, ordinal: number) {
  const found = graph.byId.get(id(ordinal));
  if (!found) throw new Error(`candidate ${ordinal} has no place`);
  return found;
}

describe("columns", () => {
  const graph = layout(nodes);

  it("put a sweep to the right of its step, within the generation", () => {
    const [baseline, first, swept, next] = [0, 1, 2, 5].map((ordinal) => place(graph, ordinal).x);
    expect([first, swept, next].map((x) => (x ?? 0) - (baseline ?? 0))).toEqual([COLUMN, 2 * COLUMN, 3 * COLUMN]);
    expect(graph.bands.map(({ generation, width }) => [generation, width / COLUMN])).toEqual([
      [0, 1],
      [1, 2],
      [2, 1],
    ]);
  });

  it("centre siblings on their parent", () => {
    expect(place(graph, 3).y).toBe(place(graph, 1).y);
    expect(place(graph, 4).y - place(graph, 2).y).toBe(2 * ROW);
  });

  it("draw an only child level with its parent", () => {
    expect(place(graph, 5).y).toBe(place(graph, 4).y);
  });
});

/** Random trees by a small generator, so that every run sees the same ones. */
function forest(size: number, seed: number) {
  let state = seed;
  const random = (below: number) => {
    state = (state * 16_807) % 2_147_483_647;
    return Math.floor((state / 2_147_483_647) * below);
  };
  const made = [candidate(0)];
  for (let ordinal = 1; ordinal < size; ordinal += 1) {
    const parent = made[random(made.length)] ?? made[0];
    const generation = (parent?.generation ?? 0) + random(2);
    made.push(child(ordinal, generation, parent?.ordinal ?? 0));
  }
  return made;
}

it.each([1, 2, 3, 4, 5])("never lets two nodes of forest %d overlap, nor a child stand left of its parent", (seed) => {
  const graph = layout(forest(300, seed));
  expect(graph.places).toHaveLength(300);
  for (const column of graph.columns) {
    expect(column.length).toBeLessThanOrEqual(COLUMN_ROWS);
    column.reduce((above, below) => {
      expect(below.y - above.y).toBeGreaterThanOrEqual(ROW - 1e-6);
      expect(below.x).toBe(above.x);
      return below;
    });
  }
  for (const { x, y, parent } of graph.places) {
    if (parent) expect(x).toBeGreaterThan(parent.x);
    expect(y).toBeGreaterThanOrEqual(0);
    expect(x).toBeLessThan(graph.width);
    expect(y).toBeLessThan(graph.height);
  }
});

it.each([1, 2, 3])("never draws an edge of forest %d over a candidate that it does not concern", (seed) => {
  const graph = layout(forest(120, seed));
  let passed = 0;
  for (const place of graph.places) {
    for (const { x, y } of passes(place)) {
      passed += 1;
      const near = graph.places.filter((other) => other.x === x && Math.abs(other.y - y) < ROW - 1e-6);
      expect(near).toEqual([]);
    }
  }
  expect(passed).toBeGreaterThan(10);
});

it("leads the edge to the next step past the sweep of the one before", () => {
  const graph = layout([...nodes, child(6, 2, 1)]);
  expect(passes(place(graph, 6)).map(({ x }) => x)).toEqual([place(graph, 2).x]);
  expect(route(place(graph, 0))).toEqual([]);
  expect(route(place(graph, 6)).map(({ x }) => x)).toEqual([1, 2, 6].map((ordinal) => place(graph, ordinal).x));
});

it("breaks a long sweep into columns side by side", () => {
  const sweep = Array.from({ length: COLUMN_ROWS + 1 }, (_, index) => child(index + 1, 0, 0));
  const graph = layout([candidate(0), ...sweep]);
  expect(graph.columns.map((column) => column.length)).toEqual([1, COLUMN_ROWS, 1]);
});

it("shows a candidate whose parent is not part of the graph as a root", () => {
  expect(place(layout([child(7, 3, 2)]), 7).parent).toBeNull();
});

describe("further parents", () => {
  const bred = (parents: number[]) => candidate(6, { generation: 3, parents: parents.map(id), operator: { operator: "crossover" } });

  it("are joined to their child, which stands where its primary parent puts it", () => {
    const graph = layout([...nodes, bred([5, 2])]);
    expect(graph.joins.map(({ from, to }) => [from.node.ordinal, to.node.ordinal])).toEqual([[2, 6]]);
    expect(place(graph, 6)).toMatchObject({ parent: place(graph, 5), y: place(graph, 5).y });
  });

  it.each([
    ["drawn twice", [5, 5]],
    ["not part of the graph", [5, 77]],
  ])("that are %s make no second line", (_, parents) => {
    expect(layout([...nodes, bred(parents)]).joins).toEqual([]);
  });
});

it.each([1_000, 10_000])("gives a graph of %d candidates about the shape of its frame", (size) => {
  const graph = layout(forest(size, 1));
  const ratio = (0.35 * graph.width) / graph.height;
  expect(ratio).toBeGreaterThan(0.7);
  expect(ratio).toBeLessThan(6);
});

describe("lanes", () => {
  /** Candidates of three islands, each bred from its own but for one reset. */
  const apart = forest(400, 5).map((node) => ({ ...node, operator: { operator: node.ordinal === 0 ? ("baseline" as const) : ("improve" as const) }, island: node.ordinal === 0 ? null : node.ordinal % 3 }));
  const graph = layout(apart, islands(apart));

  it("hold the candidates of one island each, without overlap", () => {
    expect(graph.lanes.map(({ island }) => island)).toEqual([0, 1, 2]);
    for (const { node, y } of graph.places.slice(1)) {
      const lane = graph.lanes[node.island ?? -1];
      expect(y).toBeGreaterThan(lane?.y ?? Number.NaN);
      expect(y).toBeLessThan((lane?.y ?? Number.NaN) + (lane?.height ?? 0));
    }
    graph.lanes.slice(1).forEach(({ y }, at) => expect(y).toBeCloseTo((graph.lanes[at]?.y ?? 0) + (graph.lanes[at]?.height ?? 0)));
  });

  it("keep columns in order from top to bottom, a row apart", () => {
    for (const column of graph.columns) {
      expect(new Set(column.map(({ x }) => x)).size).toBe(1);
      column.slice(1).forEach(({ y }, at) => expect(y - (column[at]?.y ?? 0)).toBeGreaterThanOrEqual(ROW - 1e-6));
    }
  });

  it("have one of their own for candidates of no island besides the baseline", () => {
    expect(islands(nodes)).toEqual([]);
    expect(islands([...apart, child(400, 9, 0)])).toEqual([0, 1, 2, null]);
  });

  it("are added and taken away without changing the candidates", () => {
    const together = updated(graph, apart);
    expect(together.lanes).toEqual([]);
    expect(together.places.map(({ x, y }) => [x, y])).toEqual(layout(apart).places.map(({ x, y }) => [x, y]));
    expect(updated(together, apart, [0, 1, 2]).lanes).toHaveLength(3);
  });
});

it("keeps the places of candidates that only changed", () => {
  const before = layout(nodes);
  const at = before.places.map(({ x, y }) => [x, y]);
  const after = updated(before, nodes.map((node) => ({ ...node, title: "renamed" })));
  expect(after.places.map(({ x, y }) => [x, y])).toEqual(at);
  expect(after.places[3]?.node.title).toBe("renamed");
  expect(updated(after, [...nodes, child(6, 2, 1)]).places).toHaveLength(7);
});

it("lays out nothing", () => {
  expect(layout([]).places).toEqual([]);
});

it("follows primary parents up to the baseline", () => {
  expect([...ancestry(layout(nodes), id(5))]).toEqual([id(5), id(4), id(1), id(0)]);
  expect(ancestry(layout(nodes), undefined).size).toBe(0);
});

describe("arrow keys", () => {
  const graph = layout(nodes);
  it.each([
    [5, "left", 4],
    [0, "left", 0],
    [0, "right", 1],
    [2, "down", 3],
    [3, "up", 2],
    [4, "down", 4],
    [2, "right", 5],
    [5, "right", 5],
  ] as const)("from candidate %d %s to candidate %d", (from, direction, to) => {
    expect(step(graph, place(graph, from), direction).node.ordinal).toBe(to);
  });
});
