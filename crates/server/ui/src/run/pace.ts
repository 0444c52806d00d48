// The pace of repeated reads: at least a pause between two, and longer the longer the service takes to answer, so that
// one page claims a small share of it.

/** The least time from one read to the next. */
const LEAST_MS = 1_000;
/** The most of the time that reads take. */
const SHARE = 0.2;

export class Pace {
  #free = Number.NEGATIVE_INFINITY;

  /** Milliseconds until the next read may begin. */
  wait(now: number): number {
    return Math.max(0, this.#free - now);
  }

  /** Notes a read by its begin and its end. */
  took(begin: number, end: number): void {
    this.#free = Math.max(begin + LEAST_MS, end + (end - begin) * (1 / SHARE - 1));
  }
}
