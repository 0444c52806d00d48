// Tells the frame that the service refused a request for lack of a valid sign-in.

type Listener = () => void;

const listeners = new Set<Listener>();

/** Records that the service asks for a sign-in. */
export function reportSignedOut(): void {
  for (const listener of [...listeners]) listener();
}

/** Calls `listener` on each such refusal. Returns the function that ends this. */
export function onSignedOut(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
