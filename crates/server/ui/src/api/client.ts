// The only place that speaks HTTP. Answers are values of ./types or an ApiError that a page can
// show as it is.

import { reportReach } from "./reach";
import { parseProvisionalId } from "./provisional";
import { reportSignedOut } from "./session";
import type {
  BestCurve,
  CandidateDetail,
  CandidateComparison,
  CandidatePage,
  FailureMembers,
  FailurePage,
  Fleet,
  CandidateSummary,
  FleetHealth,
  Health,
  Insight,
  Leaderboard,
  LeaderboardPage,
  Lineage,
  LineageColumns,
  LineageGenerations,
  ModelView,
  Problem,
  ProblemDocument,
  PromotionView,
  RunComparison,
  RunEstimate,
  RunPage,
  RunPreview,
  RunRequest,
  RunView,
  SessionView,
  TaskDefinition,
  TaskView,
  VerdictKind,
  WorkerView,
} from "./types";

const BASE = "/api/v1";
const SESSION = "/session";
const NO_CONTENT = 204;
const UNAUTHORIZED = 401;

export type Control = "pause" | "resume" | "finish" | "cancel";

/** An error of a request, in words for a person. `status` is 0 when no answer came at all. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly problems: Problem[] = [],
  ) {
    super(`${title}: ${detail}`);
  }
}

async function request<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await answer(path, init);
  return (response.status === NO_CONTENT ? undefined : await response.json()) as T;
}

/** Sends a request; an answer that reports an error is thrown. */
async function answer(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(BASE + path, { headers: { accept: "application/json" }, ...init });
  } catch {
    reportReach(false);
    throw new ApiError(0, "No answer", "The service does not answer. Check that it runs, then retry.");
  }
  reportReach(true);
  if (!response.ok) {
    if (response.status === UNAUTHORIZED && path !== SESSION) reportSignedOut();
    throw await problemOf(response);
  }
  return response;
}

async function problemOf(response: Response): Promise<ApiError> {
  try {
    const document = (await response.json()) as ProblemDocument;
    return new ApiError(response.status, document.title, document.detail, document.problems);
  } catch {
    return new ApiError(response.status, `HTTP ${response.status}`, "The service answered without saying why.");
  }
}

function query(values: Record<string, string | undefined>): string {
  const set = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

export function runs(cursor?: string): Promise<RunPage> {
  return request(`/runs${query({ cursor })}`);
}

export function run(id: string): Promise<RunView> {
  return request(`/runs/${id}`);
}

export function lineage(id: string): Promise<Lineage> {
  return request(`/runs/${id}/lineage`);
}

/** A slice of a large run's lineage: after a candidate, or of some generations. */
export function lineageColumns(id: string, slice: { cursor?: string; limit?: number; from?: number; to?: number } = {}): Promise<LineageColumns> {
  const text = (value: number | undefined) => (value === undefined ? undefined : String(value));
  return request(`/runs/${id}/lineage/columns${query({ cursor: slice.cursor, limit: text(slice.limit), from_generation: text(slice.from), to_generation: text(slice.to) })}`);
}

export function lineageGenerations(id: string): Promise<LineageGenerations> {
  return request(`/runs/${id}/lineage/generations`);
}

/** The best speedup of a large run, over buckets of its candidates. */
export function bestCurve(id: string): Promise<BestCurve> {
  return request(`/runs/${id}/curve`);
}

export function insights(id: string): Promise<Insight[]> {
  return request(`/runs/${id}/insights`);
}

/** Candidates with successive ordinals; the API's cursor is the ordinal before the first. */
export function candidates(id: string, window: { first: number; size: number }): Promise<CandidatePage> {
  const cursor = window.first === 0 ? undefined : String(window.first - 1);
  return request(`/runs/${id}/candidates${query({ cursor, limit: String(window.size) })}`);
}

/** Candidates that match on the service, the earliest first; one request examines a part of a large run, so several may be sent. */
export async function search(id: string, wanted: { verdict?: string; operator?: string; proposer?: string; text?: string }): Promise<CandidateSummary[]> {
  const [ENOUGH, REQUESTS] = [200, 6];
  const found: CandidateSummary[] = [];
  let cursor: string | undefined;
  for (let sent = 0; sent < REQUESTS && found.length < ENOUGH; sent += 1) {
    const page: CandidatePage = await request(`/runs/${id}/candidates${query({ ...wanted, cursor, limit: String(ENOUGH) })}`);
    found.push(...page.candidates);
    if (!page.next) break;
    cursor = page.next;
  }
  return found;
}

/** A candidate by its id, or by a provisional one, which names its run and its ordinal. */
export async function candidate(id: string): Promise<CandidateDetail> {
  const named = parseProvisionalId(id);
  const known = named ? (await summaryAt(named.run, named.ordinal)).id : id;
  return request(`/candidates/${known}`);
}

/** The candidate with an ordinal. */
export async function summaryAt(run: string, ordinal: number): Promise<CandidateSummary> {
  const [found] = (await candidates(run, { first: ordinal, size: 1 })).candidates;
  if (found?.ordinal !== ordinal) throw new ApiError(404, "Unknown candidate", `The run has no candidate #${ordinal}.`);
  return found;
}

export function health(): Promise<Health> {
  return request("/health");
}

export function control(id: string, action: Control): Promise<RunView> {
  return request(`/runs/${id}/${action}`, { method: "POST" });
}

/** Has the promoted winner evaluated again; what becomes of it arrives as events. */
export function recheck(id: string): Promise<PromotionView> {
  return request(`/runs/${id}/recheck`, { method: "POST" });
}

/** The files of a bundle of evidence, by name. */
export interface Manifest {
  files: Record<string, { digest: string; bytes: number }>;
  /** Files that were left out, each with the reason. */
  left_out: Record<string, string>;
}

export function evidence(digest: string): Promise<Manifest> {
  return request(`/evidence/${digest}`);
}

/** The text of a file of a bundle. */
export async function evidenceFile(digest: string, name: string): Promise<string> {
  return (await answer(`/evidence/${digest}/${encodeURIComponent(name)}`)).text();
}

export function evidenceUrl(digest: string, name: string): string {
  return `${BASE}/evidence/${digest}/${encodeURIComponent(name)}`;
}

export function tasks(): Promise<TaskView[]> {
  return request("/tasks");
}

export function taskDefinition(name: string): Promise<TaskDefinition> {
  return request(`/tasks/${encodeURIComponent(name)}/definition`);
}

export function taskRuns(name: string, cursor?: string): Promise<RunPage> {
  return request(`/tasks/${encodeURIComponent(name)}/runs${query({ cursor, limit: "20" })}`);
}

export function leaderboards(task: string): Promise<Leaderboard[]> {
  return request(`/tasks/${encodeURIComponent(task)}/leaderboards`);
}

export function allLeaderboards({ cursor, limit, entries }: { cursor?: string; limit?: number; entries?: number }): Promise<LeaderboardPage> {
  return request(`/leaderboards${query({ cursor, limit: limit?.toString(), entries: entries?.toString() })}`);
}

export function failures({ run, cursor }: { run?: string; cursor?: string }): Promise<FailurePage> {
  return request(`/failures${query({ run, cursor })}`);
}

export function failureMembers(of: { verdict: VerdictKind; cause: string; run?: string; cursor?: string }): Promise<FailureMembers> {
  return request(`/failures/candidates${query(of)}`);
}

export function compareCandidates(left: string, right: string): Promise<CandidateComparison> {
  return request(`/compare/candidates${query({ left, right })}`);
}

export function compareRuns(left: string, right: string): Promise<RunComparison> {
  return request(`/compare/runs${query({ left, right })}`);
}

export function fleet(): Promise<Fleet> {
  return request("/fleet");
}

/** Has a worker report its job, take no other and leave. */
export function drain(worker: string): Promise<void> {
  return request(`/workers/${worker}/drain`, { method: "POST" });
}

export function workers(): Promise<WorkerView[]> {
  return request("/workers");
}

export function devices(): Promise<FleetHealth> {
  return request("/devices");
}

export function models(): Promise<ModelView[]> {
  return request("/models");
}

/** Reads if the service asks for tokens, and as whom this browser is signed in. */
export function session(): Promise<SessionView> {
  return request(SESSION);
}

/** Exchanges a token for a cookie. */
export function signIn(token: string): Promise<SessionView> {
  return request(SESSION, send({ token }));
}

export function signOut(): Promise<void> {
  return request(SESSION, { method: "DELETE" });
}

function send(value: unknown, headers: Record<string, string> = {}): RequestInit {
  const kinds = { accept: "application/json", "content-type": "application/json" };
  return { method: "POST", headers: { ...kinds, ...headers }, body: JSON.stringify(value) };
}

/** Returns a run's first prompt and an upper estimate of its cost. Starts nothing. */
export function preview(wanted: RunRequest): Promise<RunPreview> {
  return request("/runs/preview", send(wanted));
}

/** Estimates a run from earlier ones of its kind. Starts nothing. */
export function estimate(wanted: RunRequest): Promise<RunEstimate> {
  return request("/runs/estimate", send(wanted));
}

/** Launches a run. The same key always gives the same run, so a request may be repeated. */
export function launch(wanted: RunRequest, key: string): Promise<RunView> {
  return request("/runs", send(wanted, { "idempotency-key": key }));
}

export function recordingUrl(id: string): string {
  return `${BASE}/runs/${id}/recording`;
}

export function eventsUrl(id: string, after: number): string {
  return `${BASE}/runs/${id}/events${query({ after: String(after) })}`;
}
