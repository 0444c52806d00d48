// One run as the dashboard knows it: loaded once, then kept current by the run's events.
//
// An event names what changed and carries a little of it. What it does not carry is read again
// in the smallest portion that the API has: the run itself, or a window of candidates around the
// changed ordinal. The whole lineage is never read twice.
//
// Reads are paced: events of a busy run arrive many times a second, and a page that read after each would keep a
// core of the service busy by itself.

import { ApiError, candidates, control, eventsUrl, health, lineage, run, type Control } from "../api/client";
import { onRecovery } from "../api/reach";
import type { CandidateSummary, RunEvent, RunState, RunView } from "../api/types";
import { Pace } from "./pace";
import { merge, patch, split, type Window } from "./patch";

/** Events kept for the feed. */
const FEED = 400;
/** Changes that arrive within this time are taken over together; of a large run, whose layout takes longer, more. */
const BATCH_MS = 60;
const LARGE = { candidates: 2_000, batch_ms: 500 };
/** The most candidates that are read again at once. */
const PORTION = 100;
/** Pause before a failed request is repeated. */
const RETRY_MS = 2_000;

export type Connection = "connecting" | "live" | "lost" | "ended";

type Timer = ReturnType<typeof setTimeout> | undefined;

export class RunWatch {
  run: RunView | null = $state.raw(null);
  /** By ordinal. */
  nodes: CandidateSummary[] = $state.raw([]);
  truncated = $state(false);
  /** Newest last. */
  events: RunEvent[] = $state.raw([]);
  connection: Connection = $state("connecting");
  error: ApiError | null = $state.raw(null);

  readonly id: string;
  #stream: EventSource | null = null;
  #last = 0;
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
    this.#stopWatching = onRecovery(() => this.#recover());
    try {
      const [view, graph] = await Promise.all([run(this.id), lineage(this.id)]);
      if (this.#closed) return;
      this.run = view;
      this.nodes = graph.nodes;
      this.truncated = graph.truncated;
    } catch (error) {
      this.error = asApiError(error);
      return;
    }
    document.addEventListener("visibilitychange", this.#look);
    this.#look();
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

  /** The service answers again: it may be another process, whose run stands elsewhere. */
  #recover(): void {
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
    const events = this.#arrived;
    this.#arrived = [];
    this.events = [...this.events, ...events].slice(-FEED);
    const { nodes, stale, runChanged } = patch(this.nodes, events, this.truncated);
    this.nodes = nodes;
    this.#owed.run ||= runChanged;
    this.#owed.windows.push(...stale);
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
    if (!this.#closed) this.run = view;
  }

  async #refresh(window: Window): Promise<void> {
    const page = await candidates(this.id, window);
    if (!this.#closed) this.nodes = merge(this.nodes, page.candidates);
  }
}

export function isOver(state: RunState | undefined): boolean {
  return state !== undefined && ["completed", "failed", "cancelled"].includes(state.state);
}

export function asApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(0, "Defect of the dashboard", String(error));
}
