// The only place that speaks HTTP: openapi-fetch over the types in ./schema, so that a path, a parameter or a body that
// the service does not describe is a type error. Answers are values of ./types or an ApiError that a page can show as it is.

import createClient from "openapi-fetch";

import { parseProvisionalId } from "./provisional";
import { reportReach } from "./reach";
import type { components, paths } from "./schema";
import { reportSignedOut } from "./session";
import type {
  BestCurve,
  CandidateDetail,
  CandidateComparison,
  CandidatePage,
  FailureMembers,
  FailurePage,
  DeviceMonth,
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
  Present,
  Problem,
  ProblemDocument,
  PromotionPage,
  PromotionView,
  RunComparison,
  RunEstimate,
  RunPage,
  RunPreview,
  RunRequest,
  RunView,
  SessionView,
  SteeringEntry,
  TaskDefinition,
  TaskAdmission,
  TaskVersion,
  TaskView,
  VerdictKind,
  WorkerView,
} from "./types";

const BASE = "/api/v1";
const SESSION = `${BASE}/session`;
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

const api = createClient<paths>({ headers: { accept: "application/json" }, fetch: send });

/** Sends a request; an answer that reports an error is thrown. */
async function send(request: Request): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(request);
  } catch {
    reportReach(false);
    throw new ApiError(0, "No answer", "The service does not answer. Check that it runs, then retry.");
  }
  reportReach(true);
  if (!response.ok) {
    if (response.status === UNAUTHORIZED && new URL(request.url).pathname !== SESSION) reportSignedOut();
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

/** The value of an answer. Answers that are no success were thrown by `send`. */
async function value<Answer extends { data?: unknown }>(answer: Promise<Answer>): Promise<Present<NonNullable<Answer["data"]>>> {
  return (await answer).data as Present<NonNullable<Answer["data"]>>;
}

function query(values: Record<string, string | undefined>): string {
  const set = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

/** One page of the runs, newest first; of those with a tag if one is named. */
export function runs(cursor?: string, tag?: string): Promise<RunPage> {
  return value(api.GET("/api/v1/runs", { params: { query: { cursor, tag } } }));
}

/** Replaces the tags of a run. */
export function setTags(id: string, tags: string[]): Promise<RunView> {
  return value(api.PUT("/api/v1/runs/{id}/tags", { params: { path: { id } }, body: { tags } }));
}

export function run(id: string): Promise<RunView> {
  return value(api.GET("/api/v1/runs/{id}", { params: { path: { id } } }));
}

export function lineage(id: string): Promise<Lineage> {
  return value(api.GET("/api/v1/runs/{id}/lineage", { params: { path: { id } } }));
}

/** A slice of a large run's lineage: after a candidate, or of some generations. */
export function lineageColumns(id: string, slice: { cursor?: string; limit?: number; from?: number; to?: number } = {}): Promise<LineageColumns> {
  const { cursor, limit, from, to } = slice;
  return value(api.GET("/api/v1/runs/{id}/lineage/columns", { params: { path: { id }, query: { cursor, limit, from_generation: from, to_generation: to } } }));
}

export function lineageGenerations(id: string): Promise<LineageGenerations> {
  return value(api.GET("/api/v1/runs/{id}/lineage/generations", { params: { path: { id } } }));
}

/** The best speedup of a run, over buckets of its candidates. */
export function bestCurve(id: string, buckets?: number): Promise<BestCurve> {
  return value(api.GET("/api/v1/runs/{id}/curve", { params: { path: { id }, query: { buckets } } }));
}

export function insights(id: string): Promise<Insight[]> {
  return value(api.GET("/api/v1/runs/{id}/insights", { params: { path: { id } } }));
}

/** Candidates with successive ordinals; the API's cursor is the ordinal before the first. */
/** The lessons of a run in Markdown; empty if no candidate with a thought has a verdict. */
export function lessonsOf(id: string): Promise<string> {
  return value(api.GET("/api/v1/runs/{id}/lessons", { params: { path: { id } }, parseAs: "text" }));
}

export function candidates(id: string, window: { first: number; size: number }): Promise<CandidatePage> {
  const cursor = window.first === 0 ? undefined : String(window.first - 1);
  return value(api.GET("/api/v1/runs/{id}/candidates", { params: { path: { id }, query: { cursor, limit: window.size } } }));
}

/** The most candidates that one request reads by their ids. */
const MOST_IDS = 200;

/** Candidates of a run by their ids, the first 200 of them. */
export async function candidatesById(run: string, ids: readonly string[]): Promise<CandidateSummary[]> {
  const some = ids.slice(0, MOST_IDS);
  if (some.length === 0) return [];
  const page = await value(api.GET("/api/v1/runs/{id}/candidates", { params: { path: { id: run }, query: { ids: some.join(","), limit: MOST_IDS } } }));
  return page.candidates;
}

/** The candidate of a run whose code has an identity; null if there is none. */
export async function candidateByDigest(run: string, digest: string): Promise<CandidateSummary | null> {
  const page = await value(api.GET("/api/v1/runs/{id}/candidates", { params: { path: { id: run }, query: { digest, limit: 1 } } }));
  return page.candidates[0] ?? null;
}

/** The filter of a search of candidates. */
export type Wanted = { verdict?: VerdictKind; operator?: string; proposer?: string; text?: string };

/** Candidates that match on the service, the earliest first; one request examines a part of a large run, so several may be sent. */
export async function search(id: string, wanted: Wanted): Promise<CandidateSummary[]> {
  const [ENOUGH, REQUESTS] = [200, 6];
  const found: CandidateSummary[] = [];
  let cursor: string | undefined;
  for (let sent = 0; sent < REQUESTS && found.length < ENOUGH; sent += 1) {
    const page = await value(api.GET("/api/v1/runs/{id}/candidates", { params: { path: { id }, query: { ...wanted, cursor, limit: ENOUGH } } }));
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
  return value(api.GET("/api/v1/candidates/{id}", { params: { path: { id: known } } }));
}

/** The candidate with an ordinal. */
export async function summaryAt(run: string, ordinal: number): Promise<CandidateSummary> {
  const [found] = (await candidates(run, { first: ordinal, size: 1 })).candidates;
  if (found?.ordinal !== ordinal) throw new ApiError(404, "Unknown candidate", `The run has no candidate #${ordinal}.`);
  return found;
}

export function health(): Promise<Health> {
  return value(api.GET("/api/v1/health"));
}

export function control(id: string, action: Control): Promise<RunView> {
  return value(api.POST(`/api/v1/runs/{id}/${action}`, { params: { path: { id } } }));
}

/** Has the promoted winner evaluated again; what becomes of it arrives as events. */
export function recheck(id: string): Promise<PromotionView> {
  return value(api.POST("/api/v1/runs/{id}/recheck", { params: { path: { id } } }));
}

/** The directions that a run was given, the oldest first. */
export function steering(id: string): Promise<SteeringEntry[]> {
  return value(api.GET("/api/v1/runs/{id}/steering", { params: { path: { id } } }));
}

/** Adds a text to the prompts of the next candidates, of so many or until it is withdrawn. */
export function giveHint(id: string, text: string, prompts: number | null): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/hint", { params: { path: { id } }, body: { text, prompts } }));
}

/** Adds an idea that prompts say to avoid. */
export function avoidIdea(id: string, idea: string): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/ban", { params: { path: { id } }, body: { idea, candidate: null, descendants: false } }));
}

/** Bans a candidate, and its descendants if asked, as parent and as champion. */
export function banCandidate(id: string, candidate: string, descendants: boolean): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/ban", { params: { path: { id } }, body: { candidate, descendants, idea: null } }));
}

/** Makes a candidate a parent of every further one. */
export function pin(id: string, candidate: string): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/pin", { params: { path: { id } }, body: { candidate } }));
}

/** Corrects a candidate's thought as prompts show it; null leaves it out of prompts. */
export function editInsight(id: string, candidate: string, text: string | null): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/insight", { params: { path: { id } }, body: { candidate, text } }));
}

/** Withdraws a hint, a pin, a ban, an avoided idea or an edited insight. */
export function withdraw(id: string, entry: number): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/withdraw", { params: { path: { id } }, body: { entry } }));
}

/** New limits of a run; null leaves a limit as it is. */
export type Limits = components["schemas"]["BudgetRequest"];
/** Limits that change nothing. */
export const UNCHANGED: Limits = { trials: null, dollars: null, tokens: null, wall_seconds: null, device_seconds: null, device_dollars: null, floor_percent: null, gain_per_dollar: null, trials_without_gain: null };

/** Changes limits of a run. */
export function changeBudget(id: string, limits: Limits): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/budget", { params: { path: { id } }, body: limits }));
}

/** Replaces a model of a run by another configured one. */
export function replaceModel(id: string, from: string, to: string): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/model", { params: { path: { id } }, body: { from, to } }));
}

export type ForkRequest = components["schemas"]["ForkRequest"];

/** Starts a run from a candidate. The same key always gives the same run, so a request may be repeated. */
export function fork(id: string, wanted: ForkRequest, key: string): Promise<RunView> {
  return value(api.POST("/api/v1/runs/{id}/fork", { params: { path: { id }, header: { "Idempotency-Key": key } }, body: wanted }));
}

/** Evaluates a candidate again; the outcome arrives as an event. */
export function reevaluate(id: string, candidate: string): Promise<SteeringEntry> {
  return value(api.POST("/api/v1/runs/{id}/reevaluate", { params: { path: { id } }, body: { candidate } }));
}

/** Confirms a candidate and, if it holds, commits it. */
export function promote(id: string, candidate: string): Promise<PromotionView> {
  return value(api.POST("/api/v1/runs/{id}/promote", { params: { path: { id } }, body: { candidate } }));
}

/** The files of a bundle of evidence, by name. Its manifest is no value of the API: the service keeps it byte for byte. */
export interface Manifest {
  files: Record<string, { digest: string; bytes: number }>;
  /** Files that were left out, each with the reason. */
  left_out: Record<string, string>;
}

export async function evidence(digest: string): Promise<Manifest> {
  const { data } = await api.GET("/api/v1/evidence/{digest}", { params: { path: { digest } }, parseAs: "text" });
  return JSON.parse(data ?? "") as Manifest;
}

/** The text of a file of a bundle. */
export async function evidenceFile(digest: string, name: string): Promise<string> {
  const { data } = await api.GET("/api/v1/evidence/{digest}/{name}", { params: { path: { digest, name } }, parseAs: "text" });
  return data ?? "";
}

export function evidenceUrl(digest: string, name: string): string {
  return `${BASE}/evidence/${digest}/${encodeURIComponent(name)}`;
}

export function tasks(): Promise<TaskView[]> {
  return value(api.GET("/api/v1/tasks"));
}

export function taskDefinition(name: string): Promise<TaskDefinition> {
  return value(api.GET("/api/v1/tasks/{name}/definition", { params: { path: { name } } }));
}

/** The decisions if a task may be searched, for each upload and kind of device, newest first. */
export function taskAdmissions(name: string): Promise<TaskAdmission[]> {
  return value(api.GET("/api/v1/tasks/{name}/admissions", { params: { path: { name } } }));
}

/** The uploads of a task that differ in any file, newest first. */
export function taskVersions(name: string): Promise<TaskVersion[]> {
  return value(api.GET("/api/v1/tasks/{name}/versions", { params: { path: { name } } }));
}

export function taskRuns(name: string, cursor?: string): Promise<RunPage> {
  return value(api.GET("/api/v1/tasks/{name}/runs", { params: { path: { name }, query: { cursor, limit: 20 } } }));
}

export function leaderboards(task: string): Promise<Leaderboard[]> {
  return value(api.GET("/api/v1/tasks/{name}/leaderboards", { params: { path: { name: task } } }));
}

export function allLeaderboards(page: { cursor?: string; limit?: number; entries?: number }): Promise<LeaderboardPage> {
  return value(api.GET("/api/v1/leaderboards", { params: { query: page } }));
}

export function promotions(of: { state?: PromotionView["state"]["state"]; cursor?: string }): Promise<PromotionPage> {
  return value(api.GET("/api/v1/promotions", { params: { query: of } }));
}

export function failures(of: { run?: string; cursor?: string }): Promise<FailurePage> {
  return value(api.GET("/api/v1/failures", { params: { query: of } }));
}

export function failureMembers(of: { verdict: VerdictKind; cause: string; run?: string; cursor?: string }): Promise<FailureMembers> {
  return value(api.GET("/api/v1/failures/candidates", { params: { query: of } }));
}

export function compareCandidates(left: string, right: string): Promise<CandidateComparison> {
  return value(api.GET("/api/v1/compare/candidates", { params: { query: { left, right } } }));
}

/** Compares two runs; if asked, with what was spent up to each point of their curves, which takes the service longer. */
export function compareRuns(left: string, right: string, spent = false): Promise<RunComparison> {
  return value(api.GET("/api/v1/compare/runs", { params: { query: spent ? { left, right, spent } : { left, right } } }));
}

/** The hours of each worker's device by month, newest first. */
export function deviceMonths(): Promise<DeviceMonth[]> {
  return value(api.GET("/api/v1/fleet/hours"));
}

export function fleet(): Promise<Fleet> {
  return value(api.GET("/api/v1/fleet"));
}

/** Has a worker report its job, take no other and leave. */
export async function drain(worker: string): Promise<void> {
  await api.POST("/api/v1/workers/{id}/drain", { params: { path: { id: worker } } });
}

export function workers(): Promise<WorkerView[]> {
  return value(api.GET("/api/v1/workers"));
}

export function devices(): Promise<FleetHealth> {
  return value(api.GET("/api/v1/devices"));
}

export function models(): Promise<ModelView[]> {
  return value(api.GET("/api/v1/models"));
}

/** Reads if the service asks for tokens, and as whom this browser is signed in. */
export function session(): Promise<SessionView> {
  return value(api.GET("/api/v1/session"));
}

/** Exchanges a token for a cookie. */
export function signIn(token: string): Promise<SessionView> {
  return value(api.POST("/api/v1/session", { body: { token } }));
}

export async function signOut(): Promise<void> {
  await api.DELETE("/api/v1/session");
}

type Asked = components["schemas"]["RunRequest"];

/** Returns a run's first prompt and an upper estimate of its cost. Starts nothing. */
export function preview(wanted: RunRequest): Promise<RunPreview> {
  return value(api.POST("/api/v1/runs/preview", { body: wanted as Asked }));
}

/** Estimates a run from earlier ones of its kind. Starts nothing. */
export function estimate(wanted: RunRequest): Promise<RunEstimate> {
  return value(api.POST("/api/v1/runs/estimate", { body: wanted as Asked }));
}

/** Launches a run. The same key always gives the same run, so a request may be repeated. */
export function launch(wanted: RunRequest, key: string): Promise<RunView> {
  return value(api.POST("/api/v1/runs", { body: wanted as Asked, params: { header: { "Idempotency-Key": key } } }));
}

export function recordingUrl(id: string): string {
  return `${BASE}/runs/${id}/recording`;
}

/** The forms in which a run is exported. */
export type ExportFormat = components["schemas"]["RunExportFormat"];

export function exportUrl(id: string, format: ExportFormat): string {
  return `${BASE}/runs/${id}/export${query({ format })}`;
}

export function eventsUrl(id: string, after: number): string {
  return `${BASE}/runs/${id}/events${query({ after: String(after) })}`;
}
