// A value that a page reads from the API: its loading, its error, and reading it again.

import { ApiError } from "./client";
import { onRecovery } from "./reach";

/** An answer of the API. Between two readings, and after a failed one, the page keeps the last value. */
export class Resource<T> {
  value: T | null = $state.raw(null);
  error: ApiError | null = $state.raw(null);
  loading = $state(false);
  #newest = 0;

  constructor(private readonly read: () => Promise<T>) {}

  /** Reads the value. Of readings that overlap, the latest begun one counts. */
  async load(): Promise<void> {
    const own = ++this.#newest;
    this.loading = true;
    try {
      const value = await this.read();
      if (own !== this.#newest) return;
      this.value = value;
      this.error = null;
    } catch (failure) {
      if (own !== this.#newest) return;
      this.error = failure instanceof ApiError ? failure : new ApiError(0, "Unexpected answer", String(failure));
    } finally {
      if (own === this.#newest) this.loading = false;
    }
  }

  /**
   * Reads the value now, again each time that the service comes back, and every `refreshMs` while
   * the page is looked at. Returns the function that ends this.
   */
  follow(refreshMs?: number): () => void {
    void this.load();
    const timer = refreshMs === undefined ? undefined : setInterval(() => document.hidden || void this.load(), refreshMs);
    const stop = onRecovery(() => void this.load());
    return () => {
      clearInterval(timer);
      stop();
      this.#newest += 1;
    };
  }
}
