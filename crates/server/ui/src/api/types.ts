// The HTTP API's values, from the service's own description of it: crates/server/openapi.json.
// `npm run schema` turns that into ./schema, which is committed; nothing here repeats a shape.
//
// Times of day are RFC 3339 texts in UTC; ids are bare UUIDs; digests are 64 hexadecimal digits.

import type { components } from "./schema";

/**
 * The description calls a property optional where the service writes null: it leaves none out but
 * the limits of a budget, the cache's part of a price and the candidate whose verdict was taken over. What may be null
 * stays so.
 */
export type Present<T> = T extends readonly (infer Item)[]
  ? number extends T["length"]
    ? Present<Item>[]
    : { [Index in keyof T]: Present<T[Index]> }
  : T extends object
    ? { [Key in keyof T]-?: Present<Exclude<T[Key], undefined>> }
    : T;

type Value<Name extends keyof components["schemas"]> = Present<components["schemas"][Name]>;

export type VerdictKind = Value<"VerdictKind">;
export type StopReason = Value<"StopReason">;
export type RunState = Value<"RunState">;
export type RunView = Value<"RunView">;
export type RunPage = Value<"RunPage">;
export type SessionView = Value<"SessionView">;
export type PromotionView = Value<"PromotionView">;
export type PromotionEntry = Value<"PromotionEntry">;
export type PromotionPage = Value<"PromotionPage">;
export type Operator = Value<"Operator">;
export type GateSubject = Value<"GateSubject">;
export type CandidateSummary = Value<"CandidateSummary">;
export type CandidatePage = Value<"CandidatePage">;
export type CandidateDetail = Value<"CandidateDetail">;
export type Lineage = Value<"Lineage">;
export type LineageColumns = Value<"LineageColumns">;
export type BestCurve = Value<"Curve">;
export type LineageGenerations = Value<"LineageGenerations">;
export type DiffLine = Value<"DiffLine">;
export type Idea = Value<"Idea">;
export type Finding = Value<"Finding">;
export type Problem = Value<"Problem">;
export type Mismatch = Value<"Mismatch">;
export type Verdict = Value<"Verdict">;
export type Timing = Value<"Timing">;
export type Measurement = Value<"Measurement">;
export type Control = Value<"Control">;
export type ControlTally = Value<"ControlTally">;
export type FleetHealth = Value<"FleetHealth">;
export type Device = Value<"Device">;
export type DeviceKind = Value<"DeviceKind">;
export type KernelResources = Value<"KernelResources">;
export type Floor = Value<"Floor">;
export type GateOutcome = Value<"GateOutcome">;
export type CheckOutcome = Value<"CheckOutcome">;
export type LaunchFacts = Value<"LaunchFacts">;
export type CaseLaunches = Value<"CaseLaunches">;
export type Evaluation = Value<"Evaluation">;
export type Health = Value<"Health">;
export type CandidateState = Value<"CandidateState">;
export type CallView = Value<"CallView">;
export type ReplyView = Value<"ReplyView">;
export type Seen = Value<"Seen">;
export type Insight = Value<"Insight">;
export type Prompt = Value<"Prompt">;
export type Usage = Value<"Usage">;
export type Spend = Value<"Spend">;
export type Budget = Value<"Budget">;
export type Method = Value<"Method">;
export type Evolution = Value<"Evolution">;
export type Strategy = Value<"Strategy">;
export type PromptStyle = Value<"PromptStyle">;
export type ModelChoice = Value<"ModelChoice">;
export type ModelView = Value<"ModelView">;
export type Price = Value<"Price">;
export type WorkerView = Value<"WorkerView">;
export type TaskDefinition = Value<"TaskDefinition">;
export type PhaseView = Value<"PhaseView">;
export type StepView = Value<"StepView">;
export type Leaderboard = Value<"Leaderboard">;
export type LeaderboardPage = Value<"LeaderboardPage">;
export type Fleet = Value<"Fleet">;
export type DeviceMonth = Value<"DeviceMonth">;
export type FleetWorker = Value<"FleetWorker">;
export type FailureCluster = Value<"FailureCluster">;
export type FailureMember = Value<"FailureMember">;
export type FailureMembers = Value<"FailureMembers">;
export type FailurePage = Value<"FailurePage">;
export type CandidateComparison = Value<"CandidateComparison">;
export type ComparedCandidate = Value<"ComparedCandidate">;
export type OccupiedLaunch = Value<"OccupiedLaunch">;
export type TimeValue = Value<"TimeValue">;
export type RunComparison = Value<"RunComparison">;
export type ComparedRun = Value<"ComparedRun">;
export type CurvePoint = Value<"CurvePoint">;
export type RunEstimate = Value<"RunEstimate">;
export type Estimated = Value<"Estimated">;
export type TaskAdmission = Value<"TaskAdmission">;
export type TaskVersion = Value<"TaskVersion">;
export type TaskView = Value<"TaskView">;
export type RunPreview = Value<"RunPreview">;
export type Steer = Value<"Steer">;
export type SteeringEntry = Value<"SteeringEntry">;

type Asked = components["schemas"]["RunRequest"];
/** Fields with a default may be left out of a request: the service fills them in. */
export type RunRequest = Omit<Asked, "budget" | "evolution"> & {
  budget?: Partial<NonNullable<Asked["budget"]>>;
  evolution?: Partial<NonNullable<Asked["evolution"]>>;
};
export type RunEvent = Value<"Event">;
export type EventKind = Value<"EventKind">;
export type ProblemDocument = components["schemas"]["ProblemDocument"];
