// Reachability of the service, as the last request found it. Every request reports here, so that the
// page says at once when the service is gone, and pages read again when it is back.

type Listener = (reachable: boolean) => void;

const listeners = new Set<Listener>();
let reachable = true;

/** Records whether a request got any answer, and tells the listeners when that changed. */
export function reportReach(now: boolean): void {
  if (now === reachable) return;
  reachable = now;
  for (const listener of [...listeners]) listener(now);
}

/** Calls `listener` on each change. Returns the function that ends this. */
export function watchReach(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls `again` each time that the service answers after it did not. */
export function onRecovery(again: () => void): () => void {
  return watchReach((now) => {
    if (now) again();
  });
}
