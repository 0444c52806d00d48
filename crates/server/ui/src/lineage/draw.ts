// Draws the lineage on a canvas, with as much of each candidate as its cell has room for: a label, a shape with a
// mark, or a spot. Only what the frame shows is drawn, and strokes of one style are drawn together.

import type { CandidateSummary } from "../api/types";
import { speedup } from "../words/format";
import { lacksKernel, MARKS, promotionFailure, standing, type Standing } from "../words/verdicts";
import { fitted } from "./fit";
import { COLUMN, ROW, route, type Join, type Layout, type Place } from "./layout";
import type { Palette } from "./palette";
import { rampStep } from "./ramp";
import { outline } from "./shapes";
import { firstFrom, scale, type Point, type Size, type View } from "./view";

export interface Scene {
  graph: Layout;
  view: View;
  frame: Size;
  palette: Palette;
  /** The best candidate with its primary ancestors. */
  path: ReadonlySet<string>;
  /** The ids of the candidates that stand out; all where none are named. */
  bright: ReadonlySet<string> | null;
  /** Candidates with a larger ordinal are not shown. */
  last: number;
  best: string | undefined;
  /** The speedup at the end of the ramp. */
  top: number;
  current: string | null;
  hovered: string | null;
  /** True to draw the lines from further parents. */
  joins: boolean;
  /** Lines from the candidates whose insights a prompt showed. */
  insights: Join[];
}

/** The parts of a candidate that its cell has room for. */
export interface Detail {
  /** Pixels of a column and of a row. */
  column: number;
  row: number;
  radius: number;
  /** Lines of the label. */
  lines: 0 | 1 | 2;
  /** True for the operator's shape; else a spot. */
  shapes: boolean;
}

const RADIUS = 9;
/** The least cells, in pixels, for two lines of a label, for one, and for a shape. */
const LABELLED = { column: 78, row: 26 };
const BRIEF = { column: 66, row: 15 };
const SHAPED = { column: 14, row: 14 };
/** Opacity of what does not stand out. */
const DIM = 0.18;
/** Lines of a graph without shapes that are drawn at full strength; more are drawn the fainter. */
const STRONG_LINES = 1_200;
const TAU = 2 * Math.PI;

export function detail(graph: Size, frame: Size, zoom: number): Detail {
  const per = scale(zoom, graph, frame);
  const [column, row] = [COLUMN * per.x, ROW * per.y];
  const fits = (least: { column: number; row: number }) => column >= least.column && row >= least.row;
  return {
    column,
    row,
    radius: Math.max(0.9, Math.min(RADIUS, 0.4 * row, 0.34 * column)),
    lines: fits(LABELLED) ? 2 : fits(BRIEF) ? 1 : 0,
    shapes: fits(SHAPED),
  };
}

/** The begin of a label beside its node, and its greatest width, in pixels: edges leave a parent before its column ends. */
export function labelRoom({ column, radius }: Detail, isParent: boolean): { x: number; width: number } {
  const x = radius + 7;
  return { x, width: Math.max(20, column - x - (isParent ? bend(column) + 4 : radius + 10)) };
}

/** Length of an edge's bend in pixels. What comes before it runs level, between a label's two lines. */
function bend(column: number): number {
  return Math.min(46, 0.45 * column);
}

const texts = new Map<string, string>();

/** `text` cut to a width; kept, because measuring texts takes longer than drawing them. */
function cut(ctx: CanvasRenderingContext2D, text: string, width: number): string {
  const key = `${ctx.font}|${Math.round(width)}|${text}`;
  let known = texts.get(key);
  if (known === undefined) {
    if (texts.size > 5_000) texts.clear();
    known = fitted(text, Math.round(width), (part) => ctx.measureText(part).width);
    texts.set(key, known);
  }
  return known;
}

export function draw(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { graph, view, frame, palette } = scene;
  const per = scale(view.zoom, graph, frame);
  const size = detail(graph, frame, view.zoom);
  const at = ({ x, y }: Point): Point => ({ x: (x - view.x) * per.x, y: (y - view.y) * per.y });

  ctx.globalAlpha = 1;
  ctx.fillStyle = palette.panel;
  ctx.fillRect(0, 0, frame.width, frame.height);
  bands(ctx, scene, per);
  lanes(ctx, scene, per);
  if (scene.joins) joins(ctx, graph.joins, scene, at, palette.soft, [3, 3]);
  edges(ctx, scene, at, size);
  joins(ctx, scene.insights, scene, at, palette.insight, [6, 3]);
  const places = visible(scene, size, per);
  if (size.shapes) shapes(ctx, places, scene, at, size);
  else spots(ctx, places, scene, at, size);
  crown(ctx, scene, at, size);
  if (size.lines > 0) labels(ctx, places, scene, at, size);
  generations(ctx, scene, per);
  laneNames(ctx, scene, per);
  ring(ctx, scene, at, size);
}

function bands(ctx: CanvasRenderingContext2D, { graph, view, frame, palette }: Scene, per: Point): void {
  ctx.fillStyle = palette.sunk;
  graph.bands.forEach((band, index) => {
    if (index % 2 === 0) return;
    const width = index === graph.bands.length - 1 ? frame.width : band.width * per.x;
    ctx.fillRect((band.x - view.x) * per.x, 0, width, frame.height);
  });
}

/** The lines between lanes, which begin after the baseline, because that belongs to all islands. */
function lanes(ctx: CanvasRenderingContext2D, { graph, view, frame, palette }: Scene, per: Point): void {
  const from = Math.max(0, ((graph.bands[1]?.x ?? 0) - view.x) * per.x);
  ctx.strokeStyle = palette.strong;
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 4]);
  ctx.beginPath();
  for (const { y } of graph.lanes.slice(1)) {
    const at = Math.round((y - view.y) * per.y) + 0.5;
    ctx.moveTo(from, at);
    ctx.lineTo(frame.width, at);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

/** The least height in pixels of a lane that is named. */
const NAMED = 16;

/** The highest line of a lane's name, in pixels: above it stand the names of the generations. */
const FIRST_NAME = 29;

/** The names of the lanes at the right edge, in the space above the first row of each. */
function laneNames(ctx: CanvasRenderingContext2D, { graph, view, frame, palette }: Scene, per: Point): void {
  ctx.font = `11px ${palette.family}`;
  ctx.textAlign = "right";
  ctx.lineJoin = "round";
  ctx.lineWidth = 4;
  ctx.strokeStyle = palette.panel;
  ctx.fillStyle = palette.soft;
  for (const { island, y, height } of graph.lanes) {
    const [upper, lower] = [Math.max(0, (y - view.y) * per.y), Math.min(frame.height, (y + height - view.y) * per.y)];
    if (lower - upper < NAMED) continue;
    const words = island === null ? "no island" : `island ${island}`;
    const at = Math.max(FIRST_NAME, upper + 13);
    ctx.strokeText(words, frame.width - 6, at);
    ctx.fillText(words, frame.width - 6, at);
  }
}

/** The names of the generations, over what stands at the upper edge; those without room are left out. */
function generations(ctx: CanvasRenderingContext2D, { graph, view, frame, palette }: Scene, per: Point): void {
  ctx.font = `11px ${palette.family}`;
  ctx.textAlign = "left";
  ctx.lineJoin = "round";
  ctx.lineWidth = 4;
  ctx.strokeStyle = palette.panel;
  ctx.fillStyle = palette.soft;
  let free = -1;
  graph.bands.forEach((band, index) => {
    const left = (band.x - view.x) * per.x;
    const width = index === graph.bands.length - 1 ? frame.width - left : band.width * per.x;
    if (left + width < 0 || left > frame.width) return;
    const name = band.generation === 0 ? "baseline" : `generation ${band.generation}`;
    const words = [name, String(band.generation)].find((text) => ctx.measureText(text).width + 8 <= width);
    const x = Math.max(4, left + Math.min(12, 0.1 * width));
    if (!words || x < free) return;
    ctx.strokeText(words, x, 15);
    ctx.fillText(words, x, 15);
    free = x + ctx.measureText(words).width + 8;
  });
}

function isShown(place: Place, { last }: Scene): boolean {
  return place.node.ordinal <= last;
}

function visible(scene: Scene, { column, row }: Detail, per: Point): Place[] {
  const { graph, view, frame } = scene;
  const made: Place[] = [];
  // A node left of the frame may still have its label in it.
  const left = view.x - column / per.x;
  const right = view.x + frame.width / per.x + 20 / per.x;
  const top = view.y - row / per.y;
  const bottom = view.y + (frame.height + row) / per.y;
  for (let index = firstFrom(graph.columns, left, (places) => places[0]?.x ?? 0); index < graph.columns.length; index += 1) {
    const places = graph.columns[index] ?? [];
    if ((places[0]?.x ?? 0) > right) break;
    for (let at = firstFrom(places, top, (place) => place.y); at < places.length; at += 1) {
      const place = places[at];
      if (!place || place.y > bottom) break;
      if (isShown(place, scene)) made.push(place);
    }
  }
  return made;
}

function edges(ctx: CanvasRenderingContext2D, scene: Scene, at: (point: Point) => Point, size: Detail): void {
  const { graph, view, frame, palette, path, bright } = scene;
  const per = scale(view.zoom, graph, frame);
  const [right, bottom] = [view.x + frame.width / per.x, view.y + frame.height / per.y];
  const plain = new Path2D();
  const dim = new Path2D();
  const champion = new Path2D();
  for (const place of graph.places) {
    const { parent } = place;
    if (!parent || place.node.ordinal > scene.last) continue;
    // The bends reach one row beyond what they join at most.
    if (place.x < view.x || parent.x > right) continue;
    const passes = place.from !== parent;
    if (!passes && ((place.y < view.y && parent.y < view.y) || (place.y > bottom && parent.y > bottom))) continue;
    const line = path.has(place.node.id) ? champion : bright && !(bright.has(place.node.id) && bright.has(parent.node.id)) ? dim : plain;
    if (size.shapes) bent(line, place, at, size.column);
    else straight(line, at(parent), at(place));
  }
  ctx.setLineDash([]);
  ctx.strokeStyle = palette.strong;
  ctx.lineWidth = size.shapes ? 1.2 : 0.6;
  ctx.globalAlpha = size.shapes ? 1 : Math.max(0.16, Math.min(0.8, STRONG_LINES / graph.places.length));
  ctx.stroke(plain);
  ctx.globalAlpha *= DIM;
  ctx.stroke(dim);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = palette.crown;
  ctx.lineWidth = 2.4;
  ctx.lineJoin = "round";
  ctx.stroke(champion);
}

function straight(line: Path2D, from: Point, to: Point): void {
  line.moveTo(from.x, from.y);
  line.lineTo(to.x, to.y);
}

/** The line from a primary parent to its child, level beside labels and bent before each column. */
function bent(line: Path2D, place: Place, at: (point: Point) => Point, column: number): void {
  const [first, ...rest] = route(place);
  if (!first) return;
  let before = at(first);
  line.moveTo(before.x, before.y);
  for (const spot of rest) {
    const here = at(spot);
    const begin = before.x + column - bend(column);
    const end = before.x + column - Math.min(12, 0.1 * column);
    const middle = (begin + end) / 2;
    line.lineTo(begin, before.y);
    line.bezierCurveTo(middle, before.y, middle, here.y, end, here.y);
    line.lineTo(here.x, here.y);
    before = here;
  }
}

/** Lines that may cross what stands between, so they are light; they arrive from above or below. */
function joins(ctx: CanvasRenderingContext2D, lines: Join[], scene: Scene, at: (point: Point) => Point, colour: string, dash: number[]): void {
  const path = new Path2D();
  for (const { from, to } of lines) {
    if (!isShown(from, scene) || !isShown(to, scene)) continue;
    const [begin, end] = [at(from), at(to)];
    if (Math.max(begin.x, end.x) < 0 || Math.min(begin.x, end.x) > scene.frame.width) continue;
    const side = begin.y > end.y ? 1 : -1;
    const arrival = end.y + side * 10;
    const reach = Math.max(16, Math.abs(end.x - begin.x) / 2);
    path.moveTo(begin.x, begin.y);
    path.bezierCurveTo(begin.x + reach, begin.y, end.x - 6, arrival + side * 22, end.x, arrival);
  }
  ctx.setLineDash(dash);
  ctx.globalAlpha = 0.8;
  ctx.strokeStyle = colour;
  ctx.lineWidth = 1.2;
  ctx.stroke(path);
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

/** The fill of a candidate: its speedup, or for one without a time that of the ground. */
function fill(node: CandidateSummary, { palette, top }: Scene): string {
  return node.speedup === null ? palette.panel : (palette.ramp.get(rampStep(node.speedup, top)) ?? palette.panel);
}

/** Colours of spots, kept while palette and ramp stay, because they take longer to choose than to draw. */
let chosen: { palette: Palette | null; top: number; colours: WeakMap<CandidateSummary, string> } = { palette: null, top: 0, colours: new WeakMap() };

function spotColour(node: CandidateSummary, scene: Scene): string {
  const { palette, top } = scene;
  if (chosen.palette !== palette || chosen.top !== top) chosen = { palette, top, colours: new WeakMap() };
  let colour = chosen.colours.get(node);
  if (colour === undefined) {
    colour = node.speedup === null ? palette.tones[standing(node).tone] : fill(node, scene);
    chosen.colours.set(node, colour);
  }
  return colour;
}

/** Spots of one look, as successive coordinates. */
interface Spots {
  colour: string;
  isThin: boolean;
  isDim: boolean;
  at: number[];
}

/** Spots in small cells: full ones for candidates with a time, narrow ones in the verdict's colour for the others. */
function spots(ctx: CanvasRenderingContext2D, places: Place[], scene: Scene, at: (point: Point) => Point, { column, row }: Detail): void {
  const { bright } = scene;
  const width = Math.max(1, Math.min(9, 0.62 * column));
  const height = Math.max(1, Math.min(9, 0.8 * row));
  const groups: Spots[] = [];
  for (const place of places) {
    const { node } = place;
    const colour = spotColour(node, scene);
    const isThin = node.speedup === null;
    const isDim = bright !== null && !bright.has(node.id);
    let group = groups.find((other) => other.colour === colour && other.isThin === isThin && other.isDim === isDim);
    if (!group) {
      group = { colour, isThin, isDim, at: [] };
      groups.push(group);
    }
    const { x, y } = at(place);
    group.at.push(x, y);
  }
  for (const { colour, isThin, isDim, at: points } of groups) {
    ctx.globalAlpha = isDim ? DIM : 1;
    ctx.fillStyle = colour;
    const h = isThin ? Math.max(0.8, height * 0.3) : height;
    for (let index = 0; index < points.length; index += 2) ctx.fillRect((points[index] ?? 0) - width / 2, (points[index + 1] ?? 0) - h / 2, width, h);
  }
  ctx.globalAlpha = 1;
}

const outlines = new Map<string, Path2D>();

function shape(operator: CandidateSummary["operator"]["operator"], radius: number): Path2D {
  const key = `${operator}${radius.toFixed(1)}`;
  let path = outlines.get(key);
  if (!path) {
    path = new Path2D(outline(operator, radius));
    if (outlines.size > 500) outlines.clear();
    outlines.set(key, path);
  }
  return path;
}

function shapes(ctx: CanvasRenderingContext2D, places: Place[], scene: Scene, at: (point: Point) => Point, { radius }: Detail): void {
  const { bright, palette, hovered } = scene;
  ctx.textAlign = "center";
  ctx.lineJoin = "miter";
  for (const place of places) {
    const { node } = place;
    const stand = standing(node);
    const { x, y } = at(place);
    ctx.globalAlpha = bright && !bright.has(node.id) ? DIM : 1;
    ctx.translate(x, y);
    ctx.fillStyle = fill(node, scene);
    ctx.strokeStyle = palette.tones[stand.tone];
    ctx.lineWidth = node.id === hovered ? 3 : Math.min(1.8, 0.3 * radius);
    const isWaiting = stand.tone === "pending" || lacksKernel(node);
    ctx.setLineDash(isWaiting ? [3, 2.4] : []);
    const path = shape(node.operator.operator, radius);
    ctx.fill(path);
    ctx.stroke(path);
    if (stand.tone !== "good" && radius >= 6) {
      ctx.fillStyle = palette.tones[stand.tone];
      ctx.font = `600 ${Math.round(radius * 1.2)}px ui-monospace, monospace`;
      ctx.fillText(MARKS[stand.tone], 0, 0.42 * radius);
    }
    ctx.translate(-x, -y);
  }
  ctx.setLineDash([]);
  ctx.globalAlpha = 1;
}

function crown(ctx: CanvasRenderingContext2D, scene: Scene, at: (point: Point) => Point, { radius }: Detail): void {
  const place = scene.graph.byId.get(scene.best ?? "");
  if (!place || !isShown(place, scene)) return;
  const { x, y } = at(place);
  const big = Math.max(radius, 5);
  ctx.translate(x, y - big + RADIUS);
  ctx.fillStyle = scene.palette.crown;
  ctx.strokeStyle = scene.palette.panel;
  ctx.lineWidth = 2;
  const path = new Path2D("M-7 -13 -8 -20 -3.5 -16.5 0 -21.5 3.5 -16.5 8 -20 7 -13Z");
  ctx.stroke(path);
  ctx.fill(path);
  ctx.translate(-x, -y + big - RADIUS);
}

/** Space between the first line of a label and the ordinal after it. */
const GAP = 5;

/** The first line of a label: the speedup, or the verdict. */
export function headline(node: CandidateSummary, stand: Standing): string {
  return node.speedup !== null && !promotionFailure(node) ? speedup(node.speedup) : stand.label;
}

function labels(ctx: CanvasRenderingContext2D, places: Place[], scene: Scene, at: (point: Point) => Point, size: Detail): void {
  const { palette, bright } = scene;
  ctx.textAlign = "left";
  ctx.lineJoin = "round";
  ctx.lineWidth = 2.5;
  // Edges to other rows may pass behind the end of a label.
  const write = (text: string, x: number, y: number, colour: string) => {
    ctx.strokeStyle = palette.panel;
    ctx.strokeText(text, x, y);
    ctx.fillStyle = colour;
    ctx.fillText(text, x, y);
  };
  for (const place of places) {
    const { node } = place;
    const stand = standing(node);
    const { x, y } = at(place);
    const isParent = scene.graph.parents.has(node.id);
    const room = labelRoom(size, isParent);
    ctx.globalAlpha = bright && !bright.has(node.id) ? DIM : 1;
    const ordinal = `#${node.ordinal}`;
    ctx.font = `12px ${palette.family}`;
    const used = ctx.measureText(ordinal).width;
    ctx.font = `${stand.tone === "pending" ? 400 : 600} 12px ${palette.family}`;
    const head = headline(node, stand);
    // Where only one of them has room, the speedup or verdict stands alone, because it says most. A second line takes the ordinal.
    const long = ctx.measureText(head).width;
    const isAlone = long > room.width - GAP - used && (size.lines === 2 || long <= room.width || head.endsWith("×"));
    const what = isAlone && head.endsWith("×") ? head : cut(ctx, head, isAlone ? room.width : room.width - GAP - used);
    // The line to its children runs below the words, or between the two lines of them.
    const first = size.lines === 2 ? y - 5 : isParent ? y - 2 : y + 4;
    write(what, x + room.x, first, stand.tone === "pending" ? palette.soft : palette.ink);
    if (!isAlone) {
      const end = x + room.x + ctx.measureText(what).width + GAP;
      ctx.font = `12px ${palette.family}`;
      write(ordinal, end, first, palette.faint);
    }
    if (size.lines === 2) {
      ctx.font = `10.5px ${palette.family}`;
      write(cut(ctx, isAlone ? `${ordinal} ${node.title}` : node.title, room.width), x + room.x, y + 13.5, palette.soft);
    }
  }
  ctx.globalAlpha = 1;
}

/** Rings around the candidates that the keyboard and the pointer are at. */
function ring(ctx: CanvasRenderingContext2D, scene: Scene, at: (point: Point) => Point, { radius }: Detail): void {
  for (const [id, colour] of [[scene.hovered, scene.palette.ink], [scene.current, scene.palette.focus]] as const) {
    const place = scene.graph.byId.get(id ?? "");
    if (!place || !isShown(place, scene)) continue;
    const { x, y } = at(place);
    ctx.beginPath();
    ctx.arc(x, y, Math.max(radius, 3) + 4.5, 0, TAU);
    ctx.strokeStyle = colour;
    ctx.lineWidth = id === scene.current ? 2 : 1;
    ctx.stroke();
  }
}
