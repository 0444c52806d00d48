import { describe, expect, it, vi } from "vitest";

import { candidate, id, queued } from "../samples";
import { ancestry, layout } from "./layout";
import { detail, draw, labelRoom, type Scene } from "./draw";
import type { Palette } from "./palette";
import { whole, type View } from "./view";

/** Width of a letter of the test's font, pixels. */
const LETTER = 7;

vi.stubGlobal(
  "Path2D",
  class {
    lines = 0;
    moveTo() {}
    lineTo() {
      this.lines += 1;
    }
    bezierCurveTo() {
      this.lines += 1;
    }
  },
);

interface Text {
  text: string;
  left: number;
  right: number;
  y: number;
}

/** A context that records texts and counts strokes and rectangles. */
function recorder() {
  const texts: Text[] = [];
  const calls = { fillRect: 0, stroke: 0 };
  const known: Record<string, unknown> = {
    fillText: (text: string, x: number, y: number) => texts.push({ text, left: x, right: x + LETTER * text.length, y }),
    measureText: (text: string) => ({ width: LETTER * text.length }),
    fillRect: () => (calls.fillRect += 1),
    stroke: () => (calls.stroke += 1),
  };
  const ctx = new Proxy(known, { get: (of, name) => (name in of ? of[name as string] : () => undefined), set: (of, name, value) => Reflect.set(of, name, value) });
  return { ctx: ctx as unknown as CanvasRenderingContext2D, texts, calls };
}

const colours = new Proxy({ ramp: new Map(), tones: {}, family: "sans" }, { get: (of, name) => Reflect.get(of, name) ?? String(name) }) as unknown as Palette;

function scene(nodes: ReturnType<typeof candidate>[], over: Partial<Scene> = {}): Scene {
  const graph = layout(nodes);
  const frame = { width: 1200, height: 520 };
  return {
    graph,
    view: whole(graph, frame),
    frame,
    palette: colours,
    path: ancestry(graph, nodes.at(-1)?.id),
    bright: null,
    last: Number.POSITIVE_INFINITY,
    best: nodes.at(-1)?.id,
    top: 4,
    current: null,
    hovered: null,
    joins: true,
    insights: [],
    ...over,
  };
}

const long = "WWWWMMMM and a long rest of a title that no column has room for";
const few = Array.from({ length: 24 }, (_, at) => candidate(at, { title: long, generation: Math.ceil(at / 4), parents: at === 0 ? [] : [id(Math.max(0, at - 3))], speedup: at % 3 === 0 ? null : 2, verdict: at % 3 === 0 ? "compile_rejected" : "accepted" }));
const many = Array.from({ length: 10_000 }, (_, at) => candidate(at, { generation: Math.ceil(at / 200), parents: at === 0 ? [] : [id(Math.max(0, at - 150))] }));

describe("labels", () => {
  it.each([0, 0.25, 0.5, 0.75, 1])("stay apart at zoom %d", (zoom) => {
    const { ctx, texts } = recorder();
    const made = scene(few);
    draw(ctx, { ...made, view: { ...made.view, zoom } as View });
    const labels = texts.filter(({ text }) => text.startsWith("#") || text.startsWith("WWW") || text.startsWith("2.00"));
    labels.forEach((one, index) => {
      for (const other of labels.slice(index + 1)) {
        const apart = one.right <= other.left || other.right <= one.left || Math.abs(one.y - other.y) >= 10;
        expect(apart, `${one.text} and ${other.text}`).toBe(true);
      }
    });
    if (zoom === 1) expect(labels.length).toBeGreaterThan(10);
  });

  it("show a speedup in full in columns that are too narrow for the ordinal", () => {
    const { ctx, texts } = recorder();
    const chain = Array.from({ length: 14 }, (_, at) => candidate(at, { generation: at, parents: at === 0 ? [] : [id(at - 1)], speedup: 2 }));
    const made = scene(chain);
    const { column, lines } = detail(made.graph, made.frame, made.view.zoom);
    expect([column < 90, lines]).toEqual([true, 2]);
    draw(ctx, made);
    const heads = texts.filter(({ text }) => text.startsWith("2."));
    expect(heads.map(({ text }) => text)).toEqual(chain.map(() => "2.00×"));
    for (const { left, right } of heads) expect(right - left).toBeLessThan(column);
  });

  it("show a verdict in full where the ordinal has room on the second line", () => {
    const { ctx, texts } = recorder();
    const leaf = [candidate(0), candidate(1, { generation: 1, parents: [id(0)], title: "ITEMS=4", speedup: null, verdict: "incorrect_output" })];
    const frame = { width: 340, height: 520 };
    const made = scene(leaf, { frame, view: whole(layout(leaf), frame) });
    const room = labelRoom(detail(made.graph, made.frame, made.view.zoom), false).width;
    const words = "incorrect output";
    expect([LETTER * words.length <= room, LETTER * `${words} #1`.length > room - 5]).toEqual([true, true]);
    draw(ctx, made);
    const written = texts.map(({ text }) => text);
    expect(written).toContain(words);
    expect(written).toContain("#1 ITEMS=4");
  });

  it("end before the next column", () => {
    const graph = { width: 20_000, height: 3_000 };
    for (let zoom = 0; zoom <= 1; zoom += 0.05) {
      const size = detail(graph, { width: 1200, height: 520 }, zoom);
      if (size.lines === 0) continue;
      const { x, width } = labelRoom(size, false);
      expect(x + width).toBeLessThan(size.column);
    }
  });
});

describe("detail", () => {
  it("goes from spots to shapes to labels", () => {
    const { graph, frame } = scene(many);
    const steps = [0, 0.5, 1].map((zoom) => detail(graph, frame, zoom));
    expect(steps.map(({ shapes }) => shapes)).toEqual([false, true, true]);
    expect(steps.map(({ lines }) => lines)).toEqual([0, expect.any(Number), 2]);
  });

  it("draws ten thousand candidates as spots, in few strokes and without a text for each", () => {
    const { ctx, texts, calls } = recorder();
    draw(ctx, scene(many));
    expect(calls.fillRect).toBeGreaterThanOrEqual(10_000);
    expect(calls.stroke).toBeLessThan(20);
    expect(texts.length).toBeLessThan(100);
  });

  it("draws only what the frame shows", () => {
    const { ctx, texts } = recorder();
    const made = scene(many);
    draw(ctx, { ...made, view: { zoom: 1, x: 4_000, y: 500 } });
    expect(texts.filter(({ text }) => text.startsWith("#")).length).toBeLessThan(120);
  });
});

it("a replay leaves out what came later", () => {
  const { ctx, texts } = recorder();
  // Wide enough for the ordinal beside every speedup.
  const frame = { width: 4_000, height: 520 };
  draw(ctx, scene(few, { last: 7, frame, view: whole(layout(few), frame) }));
  const ordinals = texts.flatMap(({ text }) => /^#(\d+)/.exec(text)?.[1] ?? []).map(Number);
  expect(Math.max(...ordinals)).toBe(7);
  expect(ordinals).toHaveLength(8);
});

it("names each lane at the right edge, once there is room", () => {
  const { ctx, texts } = recorder();
  const nodes = few.map((node) => ({ ...node, operator: { operator: node.ordinal === 0 ? ("baseline" as const) : ("improve" as const) }, island: node.ordinal === 0 ? null : node.ordinal % 2 }));
  const graph = layout(nodes, [0, 1]);
  const frame = { width: 1200, height: 520 };
  draw(ctx, { ...scene(nodes), graph, view: whole(graph, frame) });
  const names = texts.filter(({ text }) => text.startsWith("island"));
  expect(names.map(({ text }) => text)).toEqual(["island 0", "island 1"]);
  expect((names[1]?.y ?? 0) - (names[0]?.y ?? 0)).toBeGreaterThan(100);
});

it("writes the only line of a parent's label above the line to its children", () => {
  const { ctx, texts } = recorder();
  const nodes = Array.from({ length: 22 }, (_, at) => candidate(at, { generation: at === 0 ? 0 : at === 21 ? 2 : 1, parents: at === 0 ? [] : [id(at === 21 ? 10 : 0)], speedup: 2 }));
  const graph = layout(nodes);
  const frame = { width: 600, height: 380 };
  const view = whole(graph, frame);
  expect(detail(graph, frame, view.zoom).lines).toBe(1);
  draw(ctx, scene(nodes, { frame, view }));
  const y = (ordinal: number) => texts.find(({ text }) => text === `#${ordinal}`)?.y ?? Number.NaN;
  expect((y(9) + y(11)) / 2 - y(10)).toBeCloseTo(6);
  expect((y(4) + y(6)) / 2 - y(5)).toBeCloseTo(0);
});

it("draws candidates that wait", () => {
  const { ctx, texts } = recorder();
  draw(ctx, scene([candidate(0), queued(1, { generation: 1, parents: [id(0)] })]));
  expect(texts.map(({ text }) => text)).toContain("queued");
});
