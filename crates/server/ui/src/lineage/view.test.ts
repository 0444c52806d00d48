import { describe, expect, it } from "vitest";

import { candidate, id } from "../samples";
import { layout } from "./layout";
import { firstFrom, hit, kept, panned, revealed, scale, toFrame, toGraph, whole, zoomed } from "./view";

const frame = { width: 1200, height: 500 };
const large = { width: 12_000, height: 3_000 };
const long = { width: 170_000, height: 400 };

describe("the scale", () => {
  it.each([large, long])("shows all of a graph of $width by $height at the smallest zoom", (graph) => {
    const per = scale(0, graph, frame);
    expect(graph.width * per.x).toBeLessThanOrEqual(frame.width + 1e-6);
    expect(graph.height * per.y).toBeLessThanOrEqual(frame.height + 1e-6);
  });

  it.each([large, long])("is the same along both axes at the largest, for a graph of $width by $height", (graph) => {
    const { x, y } = scale(1, graph, frame);
    expect(x).toBeCloseTo(y, 9);
  });

  it("enlarges no graph that has room", () => {
    expect(scale(0, { width: 300, height: 200 }, frame)).toEqual({ x: 1, y: 1.25 });
  });
});

describe("a view", () => {
  it("keeps the point under the pointer while it zooms", () => {
    const at = { x: 700, y: 260 };
    const before = zoomed(whole(large, frame), large, frame, 3, at);
    const fixed = toGraph(before, large, frame, at);
    const after = toGraph(zoomed(before, large, frame, 1.5, at), large, frame, at);
    expect(after.x).toBeCloseTo(fixed.x, 6);
    expect(after.y).toBeCloseTo(fixed.y, 6);
  });

  it("returns to the whole by zooming out", () => {
    const near = zoomed(whole(large, frame), large, frame, 8, { x: 900, y: 100 });
    expect(zoomed(near, large, frame, 1e-6, { x: 100, y: 400 })).toEqual(whole(large, frame));
  });

  it("never leaves the graph", () => {
    const near = zoomed(whole(large, frame), large, frame, 8, { x: 0, y: 0 });
    expect(panned(near, large, frame, { x: 1e9, y: 1e9 })).toMatchObject({ x: 0, y: 0 });
    const end = panned(near, large, frame, { x: -1e9, y: -1e9 });
    expect(toFrame(end, large, frame, { x: large.width, y: large.height }).x).toBeCloseTo(frame.width, 6);
  });

  it("moves no further than a candidate needs to be seen", () => {
    const near = kept({ zoom: 0.9, x: 5_000, y: 1_000 }, large, frame);
    const inside = toGraph(near, large, frame, { x: 600, y: 250 });
    expect(revealed(near, large, frame, inside, 100)).toEqual(near);
    const shown = toFrame(revealed(near, large, frame, { x: 9_000, y: 1_100 }, 100), large, frame, { x: 9_000, y: 1_100 });
    expect(shown.x).toBeCloseTo(frame.width - 100, 6);
  });
});

describe("a hit", () => {
  const graph = layout([candidate(0), ...[1, 2, 3].map((ordinal) => candidate(ordinal, { generation: 1, parents: [id(0)] }))]);
  const reach = { left: 15, right: 100, beside: 18 };

  it("finds each candidate at its place and on its label", () => {
    for (const place of graph.places) {
      expect(hit(graph, place, reach)).toBe(place);
      expect(hit(graph, { x: place.x + 90, y: place.y + 10 }, reach)).toBe(place);
    }
  });

  it("finds nothing between", () => {
    const [root] = graph.places;
    expect(hit(graph, { x: (root?.x ?? 0) + 130, y: root?.y ?? 0 }, reach)).toBeNull();
    expect(hit(graph, { x: root?.x ?? 0, y: (root?.y ?? 0) + 30 }, reach)).toBeNull();
  });
});

it("finds the first value from a bound", () => {
  expect([0, 2, 3, 9].map((from) => firstFrom([1, 2, 2, 5], from, (value) => value))).toEqual([0, 1, 3, 4]);
});
