//! The spans of a candidate: its author's calls, its wait for a worker, its evaluation by stages, and its
//! promotion, all below one that begins with the prompt and ends with the verdict.

use chrono::{DateTime, TimeDelta, Utc};
use domain::api::{CandidateDetail, PromotionState, PromotionView};
use domain::evaluation::StageTime;
use domain::id::{CandidateId, RunId, WorkerId};
use domain::trace::{root_span_id, span_id, trace_id};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};

/// An evaluation that a worker began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluating {
    pub(super) run: RunId,
    pub(super) worker: WorkerId,
    pub(super) at: DateTime<Utc>,
}

impl Evaluating {
    /// The span of an evaluation whose worker was lost or gave it back.
    pub(super) fn lost(&self, candidate: CandidateId, end: DateTime<Utc>, reason: &str) -> Span {
        let mut span = self.span(candidate, end);
        span.status = Some(error(reason));
        span
    }

    /// The span of an evaluation that was asked for once more.
    pub(super) fn again(&self, candidate: CandidateId, end: DateTime<Utc>, verdict: &str) -> Span {
        let mut span = self.span(candidate, end);
        let summary = attribute("kernelwright.summary", verdict);
        span.attributes.push(summary);
        span
    }

    fn span(&self, candidate: CandidateId, end: DateTime<Utc>) -> Span {
        // A candidate may be evaluated several times.
        let key = format!("evaluate {}", self.at.timestamp_micros());
        let mut span = child(candidate, &key, "evaluate", self.at, end);
        let worker = attribute("kernelwright.worker", self.worker.to_string());
        span.attributes.push(worker);
        span
    }
}

/// The spans of a candidate that has its verdict, or was given up.
pub(super) fn of_candidate(
    detail: &CandidateDetail,
    evaluating: Option<&Evaluating>,
    end: DateTime<Utc>,
) -> Vec<Span> {
    let mut spans = vec![root(detail, end)];
    spans.extend(of_calls(detail));
    if let Some(evaluating) = evaluating {
        let candidate = detail.summary.id;
        let replies = detail.calls.iter().filter_map(|call| call.reply.as_ref());
        let written = replies.map(|reply| reply.at).max();
        let ready = written.unwrap_or(detail.summary.created_at);
        let ready = ready.min(evaluating.at);
        spans.push(child(candidate, "queue", "queue", ready, evaluating.at));
        let evaluation = evaluating.span(candidate, end);
        let stages = detail.evaluation.iter().flat_map(|one| &one.stages);
        spans.extend(of_stages(candidate, &evaluation, evaluating.at, stages));
        spans.push(evaluation);
    }
    spans
}

/// The span that all others of a candidate are below.
fn root(detail: &CandidateDetail, end: DateTime<Utc>) -> Span {
    let summary = &detail.summary;
    let candidate = summary.id;
    let prompts = detail.calls.iter().map(|call| call.created_at);
    let begin = prompts.min().unwrap_or(end).min(summary.created_at);
    let mut span = child(candidate, "", "candidate", begin, end);
    span.span_id = root_span_id(candidate).to_vec();
    span.parent_span_id.clear();
    span.links = summary.parents.iter().map(|parent| link(*parent)).collect();
    span.attributes = vec![
        attribute("kernelwright.run", detail.run.to_string()),
        attribute("kernelwright.task", detail.task.as_str()),
        attribute("kernelwright.candidate", candidate.to_string()),
        attribute("kernelwright.ordinal", i64::from(summary.ordinal)),
        attribute("kernelwright.operator", summary.operator.as_str()),
        attribute("kernelwright.proposer", summary.proposer.as_str()),
        attribute("kernelwright.title", summary.title.as_str()),
    ];
    match summary.verdict {
        Some(verdict) => {
            let verdict = attribute("kernelwright.verdict", verdict.as_str());
            span.attributes.push(verdict);
        }
        None => {
            let reason = summary.summary.as_deref();
            span.status = Some(error(reason.unwrap_or("given up without a verdict")));
        }
    }
    if let Some(speedup) = summary.speedup {
        span.attributes.extend([
            attribute("kernelwright.speedup", speedup),
            attribute("kernelwright.modelled", summary.modelled),
        ]);
    }
    span
}

/// The spans of the answered calls, with the attributes of OpenTelemetry's conventions for generative AI.
fn of_calls(detail: &CandidateDetail) -> impl Iterator<Item = Span> {
    detail.calls.iter().filter_map(|call| {
        let reply = call.reply.as_ref()?;
        let begin = reply.at - milliseconds(reply.total_ms);
        let key = format!("call {}", call.turn);
        let name = format!("chat {}", call.model);
        let mut span = child(detail.summary.id, &key, &name, begin, reply.at);
        span.kind = SpanKind::Client.into();
        span.attributes = vec![
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.request.model", call.model.as_str()),
            attribute("gen_ai.response.model", reply.answered_by.as_str()),
            attribute("gen_ai.usage.input_tokens", count(reply.usage.input)),
            attribute("gen_ai.usage.output_tokens", count(reply.usage.output)),
            attribute("kernelwright.template", call.template.as_str()),
            attribute("kernelwright.failures", i64::from(call.failures)),
        ];
        span.status = reply.unusable.as_deref().map(error);
        Some(span)
    })
}

/// The stages of an evaluation, which follow each other.
fn of_stages<'a>(
    candidate: CandidateId,
    evaluation: &Span,
    begin: DateTime<Utc>,
    stages: impl Iterator<Item = &'a StageTime>,
) -> Vec<Span> {
    let mut begin = begin;
    let mut spans = Vec::new();
    for (number, stage) in stages.enumerate() {
        let end = begin + milliseconds(stage.milliseconds);
        let key = format!("stage {number}");
        let mut span = child(candidate, &key, &stage.stage, begin, end);
        span.parent_span_id.clone_from(&evaluation.span_id);
        spans.push(span);
        begin = end;
    }
    spans
}

/// The span of a confirmation or re-check that has ended, with what became of the winner.
pub(super) fn of_promotion(
    promotion: &PromotionView,
    evaluating: &Evaluating,
    end: DateTime<Utc>,
) -> Span {
    let mut span = evaluating.span(promotion.candidate, end);
    "confirm".clone_into(&mut span.name);
    let branch = attribute("kernelwright.branch", promotion.branch.as_str());
    span.attributes.push(branch);
    match &promotion.state {
        PromotionState::Confirming => {}
        PromotionState::Committed { commit } => {
            let commit = attribute("vcs.ref.head.revision", commit.as_str());
            span.attributes.push(commit);
        }
        PromotionState::Reverted { reason, .. }
        | PromotionState::Refused { reason }
        | PromotionState::Blocked { reason } => span.status = Some(error(reason)),
    }
    span
}

/// A span below the candidate's own.
fn child(
    candidate: CandidateId,
    key: &str,
    name: &str,
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
) -> Span {
    Span {
        trace_id: trace_id(candidate).to_vec(),
        span_id: span_id(candidate, key).to_vec(),
        parent_span_id: root_span_id(candidate).to_vec(),
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: nanoseconds(begin),
        // Clocks of several machines are never quite the same.
        end_time_unix_nano: nanoseconds(end.max(begin)),
        ..Span::default()
    }
}

/// A link to the trace of another candidate.
fn link(candidate: CandidateId) -> Link {
    Link {
        trace_id: trace_id(candidate).to_vec(),
        span_id: root_span_id(candidate).to_vec(),
        ..Link::default()
    }
}

fn error(reason: &str) -> Status {
    Status {
        code: StatusCode::Error.into(),
        message: reason.to_owned(),
    }
}

/// An attribute of a span or a resource.
pub(super) fn attribute(name: &str, value: impl Into<AttributeValue>) -> KeyValue {
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue {
            value: Some(value.into().0),
        }),
        ..KeyValue::default()
    }
}

/// A text, a number or a truth value.
pub(super) struct AttributeValue(Value);

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self(Value::StringValue(text.to_owned()))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self(Value::StringValue(text))
    }
}

impl From<i64> for AttributeValue {
    fn from(number: i64) -> Self {
        Self(Value::IntValue(number))
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self(Value::DoubleValue(number))
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self(Value::BoolValue(value))
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "no stage and no call takes 300 years"
)]
fn milliseconds(duration: f64) -> TimeDelta {
    TimeDelta::microseconds((duration * 1000.0) as i64)
}

/// Nanoseconds since 1970.
fn nanoseconds(at: DateTime<Utc>) -> u64 {
    let nanoseconds = at.timestamp_nanos_opt().unwrap_or_default();
    u64::try_from(nanoseconds).unwrap_or_default()
}
