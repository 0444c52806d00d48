// One run as the dashboard knows it: loaded once, then kept current by the run's events.
//
// An event names what changed and carries a little of it. What it does not carry is read again
// in the smallest portion that the API has: the run itself, or a window of candidates around the
// changed ordinal. The whole lineage is never read twice.
//
// Reads are paced: events of a busy run arrive many times a second, and a page that read after each would keep a
// core of the service busy by itself.

import { ApiError, bestCurve, candidates, control, eventsUrl, health, lineage, lineageColumns, lineageGenerations, run, type Control } from "../api/client";
import { onRecovery } from "../api/reach";
import type { BestCurve, CandidateSummary, LineageGenerations, RunEvent, RunState, RunView } from "../api/types";
import { changed, fromColumns, fromCurve, withBest } from "./columns";
import { Pace } from "./pace";
import { merge, patch, split, type Window } from "./patch";

/** Events kept for the feed. */
const FEED = 400;
/** Changes that arrive within this time are taken over together; of a large run, whose layout takes longer, more. */
const BATCH_MS = 60;
const LARGE = { candidates: 2_000, batch_ms: 500 };
/** The most candidates that are read again at once. */
const PORTION = 100;
/** Runs of at most so many candidates are read in full, larger ones in columns up to this many, and the largest by generation. */
const WHOLE = 2_000;
const MOST = 20_000;
/** Past events that the feed begins with. */
const PAST = 150;
/** The longest wait for the candidates before the rest of the page is drawn. */
const LATEST_MS = 400;
/** Pause before a failed request is repeated. */
const RETRY_MS = 2_000;

export type Connection = "connecting" | "live" | "lost" | "ended";

/** What is shown of a run that is too large for its candidates. */
type Totals = [LineageGenerations, BestCurve];

type Timer = ReturnType<typeof setTimeout> | undefined;

export class RunWatch {
  run: RunView | null = $state.raw(null);
  /** By ordinal. */
  nodes: CandidateSummary[] = $state.raw([]);
  /** True once the candidates are read. */
  loaded = $state(false);
  /** True once the candidates are drawn, or take long to read: what is less looked at can be drawn too. */
  drawn = $state(false);
  /** The candidates that are read so far, of a run that takes several answers. */
  progress: { read: number; total: number } | null = $state.raw(null);
  /** True if candidates come in columns, without their words. */
  columns = $state(false);
  /** The totals by generation of a run that is too large for its candidates; null for others. */
  generations: LineageGenerations | null = $state.raw(null);
  /** If a run is too large to read all its candidates: the fastest of each bucket, and the candidates of a bucket. */
  sample: { nodes: CandidateSummary[]; width: number } | null = $state.raw(null);
  /** The generations whose candidates are shown. */
  opened: { from: number; to: number } | null = $state.raw(null);
  /** Newest last. */
  events: RunEvent[] = $state.raw([]);
  connection: Connection = $state("connecting");
  error: ApiError | null = $state.raw(null);

  readonly id: string;
  #stream: EventSource | null = null;
  #last = 0;
  /** The newest event of what was read: events up to it are for the feed alone. */
  #known = 0;
  #arrived: RunEvent[] = [];
  /** Parts that are out of date according to events and have not been read since. */
  #owed: { run: boolean; windows: Window[] } = { run: false, windows: [] };
  readonly #pace = new Pace();
  #batch: Timer;
  #retry: Timer;
  #next: Timer;
  #closed = false;
  #stopWatching: () => void = () => {};

  constructor(id: string) {
    this.id = id;
  }

  async open(): Promise<void> {
    this.error = null;
    this.#stopWatching();
    this.#stopWatching = onRecovery(() => this.refresh());
    // How large a run is comes with the run, so the totals of a large one are asked for beside it; others need none.
    const totals = this.#askTotals();
    totals.catch(() => undefined);
    try {
      const view = await run(this.id);
      if (this.#closed) return;
      this.run = view;
      setTimeout(() => (this.drawn = true), LATEST_MS);
      // Ids count the events of all runs, so the feed may begin with fewer.
      this.#known = view.last_event;
      this.#last = Math.max(0, view.last_event - PAST);
      document.addEventListener("visibilitychange", this.#look);
      this.#look();
      await this.#read(view, totals);
    } catch (error) {
      this.error = asApiError(error);
      return;
    }
    this.loaded = true;
    // What is below the pictures waits for them.
    await drawn();
    this.drawn = true;
    this.#take();
  }

  /** Reads the candidates in the form that their number allows. */
  async #read(view: RunView, totals: Promise<Totals>): Promise<void> {
    const size = Object.values(view.verdicts).reduce((sum, number) => sum + number, view.pending);
    if (size <= WHOLE) {
      const { nodes, truncated } = await lineage(this.id);
      this.nodes = nodes;
      if (!truncated) return;
    }
    this.columns = true;
    if (size > MOST) {
      await this.#showTotals(view, totals);
      return;
    }
    this.nodes = await this.#slices(view);
  }

  #askTotals(): Promise<Totals> {
    return Promise.all([lineageGenerations(this.id), bestCurve(this.id)]);
  }

  /** Shows the totals of a run that is too large for its candidates; the fastest of every bucket stand for them. */
  async #showTotals(view: RunView, totals: Promise<Totals>): Promise<void> {
    const [generations, curve] = await totals;
    if (this.#closed) return;
    this.sample = { nodes: fromCurve(curve, view), width: curve.width };
    this.generations = generations;
  }

  /** Reads the slices of a run, or of some of its generations, as far as they can be shown. */
  async #slices(view: RunView, generations: { from?: number; to?: number } = {}): Promise<CandidateSummary[]> {
    const nodes: CandidateSummary[] = [];
    let cursor: string | undefined;
    do {
      const slice = await lineageColumns(this.id, { ...generations, ...(cursor === undefined ? {} : { cursor }) });
      nodes.push(...fromColumns(slice, view));
      this.progress = { read: nodes.length, total: slice.total };
      cursor = slice.next ?? undefined;
    } while (cursor !== undefined && nodes.length < MOST && !this.#closed);
    this.progress = null;
    return nodes;
  }

  /** Shows the candidates of some generations of a run that is shown by generation; null closes them. */
  async openGenerations(opened: { from: number; to: number } | null): Promise<void> {
    if (this.run === null) return;
    const nodes = opened ? await this.#slices(this.run, opened) : [];
    [this.opened, this.nodes] = [opened, nodes];
  }

  close(): void {
    this.#closed = true;
    this.#stopWatching();
    document.removeEventListener("visibilitychange", this.#look);
    this.#disconnect();
    clearTimeout(this.#batch);
    clearTimeout(this.#retry);
    clearTimeout(this.#next);
  }

  /** Asks the service to pause, resume, finish or cancel the run. */
  async control(action: Control): Promise<void> {
    this.run = await control(this.id, action);
  }

  /** Reads the run again and reopens its events: after the service was away, or when a run that was over goes on. */
  refresh(): void {
    if (this.run === null) {
      void this.open();
      return;
    }
    this.#owed.run = true;
    this.#disconnect();
    this.#look();
    void this.#settle();
  }

  /** A page that nobody sees holds no stream: a browser has few connections to one host. */
  #look = (): void => {
    if (document.hidden) this.#disconnect();
    else if (!this.#stream) this.#connect();
  };

  #disconnect(): void {
    this.#stream?.close();
    this.#stream = null;
  }

  #connect(): void {
    const stream = new EventSource(eventsUrl(this.id, this.#last));
    this.#stream = stream;
    stream.onopen = () => {
      this.connection = "live";
    };
    stream.onmessage = (message: MessageEvent<string>) => {
      const event = JSON.parse(message.data) as RunEvent;
      if (event.id <= this.#last) return;
      this.#last = event.id;
      this.#arrived.push(event);
      this.#batch ??= setTimeout(() => this.#take(), this.nodes.length > LARGE.candidates ? LARGE.batch_ms : BATCH_MS);
    };
    stream.onerror = () => {
      if (isOver(this.run?.state)) {
        stream.close();
        this.connection = "ended";
        return;
      }
      this.connection = "lost";
      // Finds out at once whether the service is gone or only this stream.
      void health().catch(() => undefined);
      // A browser reopens a stream that broke, but not one that was refused.
      if (stream.readyState === EventSource.CLOSED) {
        this.#stream = null;
        this.#again();
      }
    };
  }

  #take(): void {
    this.#batch = undefined;
    // Events that arrive while the candidates are read wait for them.
    if (!this.loaded) return;
    const events = this.#arrived;
    if (events.length === 0) return;
    this.#arrived = [];
    this.events = [...this.events, ...events].slice(-FEED);
    const fresh = events.filter(({ id }) => id > this.#known);
    if (this.columns) {
      const { stale, runChanged } = changed(fresh);
      this.#owed.run ||= runChanged;
      if (this.generations === null) this.#owed.windows.push(...stale);
    } else {
      const { nodes, stale, runChanged } = patch(this.nodes, fresh);
      this.nodes = nodes;
      this.#owed.run ||= runChanged;
      this.#owed.windows.push(...stale);
    }
    this.#settleSoon();
  }

  /** Reads what is owed when the pace allows it. */
  #settleSoon(): void {
    if (this.#closed || (!this.#owed.run && this.#owed.windows.length === 0)) return;
    this.#next ??= setTimeout(() => {
      this.#next = undefined;
      void this.#settle();
    }, this.#pace.wait(performance.now()));
  }

  /** Reads what is owed, at most a portion of the candidates; what cannot be read now stays owed. */
  async #settle(): Promise<void> {
    const { now, later } = split(this.#owed.windows, PORTION);
    const owed = { run: this.#owed.run, windows: now };
    this.#owed = { run: false, windows: later };
    const begin = performance.now();
    const reads = owed.windows.map((window) => this.#refresh(window));
    if (owed.run) reads.push(this.#refreshRun());
    try {
      await Promise.all(reads);
      this.#pace.took(begin, performance.now());
      this.#settleSoon();
    } catch {
      this.#owed.run ||= owed.run;
      this.#owed.windows.unshift(...owed.windows);
      this.#again();
    }
  }

  #again(): void {
    if (this.#closed) return;
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#look();
      void this.#settle();
    }, RETRY_MS);
  }

  async #refreshRun(): Promise<void> {
    const view = await run(this.id);
    if (this.#closed) return;
    this.run = view;
    if (this.generations) await this.#showTotals(view, this.#askTotals());
  }

  async #refresh(window: Window): Promise<void> {
    if (this.columns && this.run) {
      const cursor = window.first === 0 ? {} : { cursor: String(window.first - 1) };
      const slice = await lineageColumns(this.id, { ...cursor, limit: window.size });
      if (!this.#closed) this.nodes = withBest(merge(this.nodes, fromColumns(slice, this.run)), slice.best);
      return;
    }
    const page = await candidates(this.id, window);
    if (!this.#closed) this.nodes = merge(this.nodes, page.candidates);
  }
}

/** Resolves once what changed is drawn; a hidden page draws nothing, and waits for nothing. */
function drawn(): Promise<void> {
  if (document.hidden) return Promise.resolve();
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

export function isOver(state: RunState | undefined): boolean {
  return state !== undefined && ["completed", "failed", "cancelled"].includes(state.state);
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "Defect of the dashboard", String(error));
}
