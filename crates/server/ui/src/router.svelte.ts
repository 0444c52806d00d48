// The router: the page of each address, and navigation without loading the document again.

import { parseProvisionalId } from "./api/provisional";

export type Route =
  | { page: "runs" }
  | { page: "new" }
  | { page: "run"; id: string }
  | { page: "candidate"; id: string }
  | { page: "tasks" }
  | { page: "task"; name: string }
  | { page: "leaderboards" }
  | { page: "fleet" }
  | { page: "failures" }
  | { page: "insights" }
  | { page: "promotions" }
  | { page: "compare" }
  | { page: "numbered"; run: string; ordinal: number }
  | { page: "unknown" };

// Ids are printed with a prefix on the command line; addresses take them either way.
const ID = "([0-9a-fA-F-]{36})";
const TASK = /^\/tasks\/([A-Za-z0-9_.%-]+)\/?$/;
/** Pages whose address has no parameter. */
const PLAIN = ["tasks", "leaderboards", "fleet", "failures", "insights", "promotions", "compare"] as const;
const RUN = new RegExp(`^/runs/(?:run_)?${ID}/?$`);
const NUMBERED = new RegExp(`^/runs/(?:run_)?${ID}/candidates/(\\d+)/?$`);
const CANDIDATE = new RegExp(`^/candidates/(?:cand_)?${ID}/?$`);

export function parseRoute(path: string): Route {
  if (path === "/" || path === "/runs" || path === "/runs/") return { page: "runs" };
  if (path === "/runs/new" || path === "/runs/new/") return { page: "new" };
  const plain = PLAIN.find((page) => path === `/${page}` || path === `/${page}/`);
  if (plain) return { page: plain };
  const task = TASK.exec(path)?.[1];
  if (task) return { page: "task", name: decoded(task) };
  const run = RUN.exec(path)?.[1];
  if (run) return { page: "run", id: run };
  const candidate = CANDIDATE.exec(path)?.[1];
  if (candidate) return { page: "candidate", id: candidate };
  const [, of, ordinal] = NUMBERED.exec(path) ?? [];
  if (of && ordinal) return { page: "numbered", run: of, ordinal: Number(ordinal) };
  return { page: "unknown" };
}

/** A part of a path without its escapes; as it is where they are wrong. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function taskPath(name: string): string {
  return `/tasks/${encodeURIComponent(name)}`;
}

/** The form of a new run, with its task chosen. */
export function newRunPath(task: string): string {
  return `/runs/new?task=${encodeURIComponent(task)}`;
}

export function runPath(id: string): string {
  return `/runs/${id}`;
}

/** The page of a candidate; by its run and ordinal where its id is provisional. */
export function candidatePath(id: string, line?: number | null): string {
  const named = parseProvisionalId(id);
  if (named) return `${runPath(named.run)}/candidates/${named.ordinal}`;
  return `/candidates/${id}${line ? `#L${line}` : ""}`;
}

/** Two candidates side by side. */
export function comparePath(left: string, right: string): string {
  return `/compare?left=${left}&right=${right}`;
}

/** Two runs side by side. */
export function compareRunsPath(left: string, right: string): string {
  return `${compareRunPath(left)}&right=${right}`;
}

/** A run beside another one, which the page asks for. */
export function compareRunPath(run: string): string {
  return `/compare?of=runs&left=${run}`;
}

/** The failures, or the insights, of one run. */
export function ofRun(page: "failures" | "insights", run: string): string {
  return `/${page}?run=${run}`;
}

/** The address as the pages see it. */
export class Router {
  route: Route = $state.raw({ page: "unknown" });
  hash = $state("");
  /** The query of the address: filters and selections of the page. */
  search: URLSearchParams = $state.raw(new URLSearchParams());

  constructor() {
    this.#read();
    window.addEventListener("popstate", () => this.#read());
    document.addEventListener("click", (event) => this.#follow(event));
  }

  /** Goes to an address in place of the present one. */
  replace(path: string): void {
    history.replaceState(null, "", path);
    this.#read();
  }

  go(path: string): void {
    history.pushState(null, "", path);
    this.#read();
    if (!location.hash) window.scrollTo(0, 0);
  }

  /** Changes parameters of the present address without a new entry in the history; empty ones are left out. */
  select(values: Record<string, string | null>): void {
    const search = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(values)) {
      if (value) search.set(name, value);
      else search.delete(name);
    }
    const query = search.size === 0 ? "" : `?${search}`;
    history.replaceState(null, "", location.pathname + query + location.hash);
    this.#read();
  }

  #read(): void {
    this.route = parseRoute(location.pathname);
    this.hash = location.hash;
    this.search = new URLSearchParams(location.search);
  }

  /** Follows plain clicks on links of this site; others are left to the browser. */
  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const target = link?.getAttribute("href");
    if (!link || !target?.startsWith("/") || link.hasAttribute("download")) return;
    const path = new URL(target, location.href).pathname;
    if (parseRoute(path).page === "unknown") return;
    event.preventDefault();
    this.go(target);
  }
}
