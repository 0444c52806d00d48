//! Calls to models. Each call that is due is made by a task of its own, at most once at a time. The
//! answer is recorded with its consequence for the candidate. A call is identified by its row, so
//! that the next process repeats the calls of a killed one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::TimeDelta;
use domain::candidate::{Idea, KernelSource};
use domain::causes::with_causes;
use domain::cleaning;
use domain::id::{CallId, RunId};
use domain::model::{Message, Prompt, ReplyEnd, Speaker};
use domain::problem::{Problem, Problems};
use domain::reply::{self, Kernel, ReplyBases, Unusable};
use domain::task::Task;
use store::{Answer, AnswerEffect, DueCall, NewCall, StoreError, WrittenText};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::{Instrument, error, info, info_span, warn};

use crate::intake::{one_line, parse_rejected};
use crate::llm::{CallRequest, LlmError, Position, Reply};
use crate::prompt;
use crate::{Engine, EngineError};

/// The wait after the first failure of a call, besides the client's own retries; doubled by each
/// further failure.
const FIRST_WAIT: TimeDelta = TimeDelta::seconds(5);
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(5);
/// Further turns after replies whose launch plan is defective; other unusable replies get one.
const MENDED_PLANS: u32 = 2;
/// The most bytes of an unusable reply that the next prompt quotes.
const QUOTED: usize = 48 << 10;

/// The calls that are under way in this process.
#[derive(Clone, Default)]
pub(crate) struct CallsInProgress(Arc<Mutex<HashMap<CallId, Requested>>>);

/// A call under way: its run, and its task once that is started.
struct Requested {
    run: RunId,
    task: Option<AbortHandle>,
}

impl CallsInProgress {
    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, Requested>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ids(&self) -> HashSet<CallId> {
        self.calls().keys().copied().collect()
    }

    /// Marks a call as under way; none if it is already.
    fn begin(&self, call: &DueCall) -> Option<CallInProgress> {
        let mut calls = self.calls();
        if calls.contains_key(&call.id) {
            return None;
        }
        let (run, task) = (call.run, None);
        calls.insert(call.id, Requested { run, task });
        Some(CallInProgress {
            calls_in_progress: self.clone(),
            call: call.id,
        })
    }
}

/// A call under way, until it is dropped.
struct CallInProgress {
    calls_in_progress: CallsInProgress,
    call: CallId,
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        self.calls_in_progress.calls().remove(&self.call);
    }
}

impl Engine {
    /// Starts every call that is due, of one run or of all, and aborts those whose candidate no longer
    /// waits for them. Does not wait for answers.
    pub(crate) async fn ask_models(&self, run: Option<RunId>) -> Result<(), EngineError> {
        let under_way = self.calls_in_progress.ids();
        let open = self.store.open_calls(&under_way, run, self.now()).await?;
        for (call, requested) in self.calls_in_progress.calls().iter() {
            // Others were begun after the open calls were listed.
            let was_listed = under_way.contains(call) && run.is_none_or(|run| run == requested.run);
            if was_listed
                && !open.waited_for.contains(call)
                && let Some(task) = &requested.task
            {
                task.abort();
            }
        }
        for call in open.due {
            let Some(call_in_progress) = self.calls_in_progress.begin(&call) else {
                continue;
            };
            let id = call.id;
            let engine = self.clone();
            let span = info_span!("call", run.id = %call.run, candidate.id = %call.candidate);
            let task = tokio::spawn(
                async move {
                    // Dropped last, also when the task is given up or panics.
                    let _call_in_progress = call_in_progress;
                    if let Err(error) = engine.ask(&call).await {
                        error!(
                            error = &error as &dyn std::error::Error,
                            "failed to {error}"
                        );
                    }
                }
                .instrument(span),
            );
            if let Some(requested) = self.calls_in_progress.calls().get_mut(&id) {
                requested.task = Some(task.abort_handle());
            }
        }
        Ok(())
    }

    /// Aborts the calls of a run that this service no longer drives. The service that goes on makes them again.
    pub(crate) fn stop_asking(&self, run: RunId) {
        for requested in self.calls_in_progress.calls().values() {
            if requested.run == run
                && let Some(task) = &requested.task
            {
                task.abort();
            }
        }
    }

    async fn ask(&self, call: &DueCall) -> Result<(), EngineError> {
        // The list that the call was found in can be older than its answer.
        if !self.store.begin_request(call.id, self.now()).await? {
            return Ok(());
        }
        let Some(llm) = self.models.llm(&call.model) else {
            let reason = format!(
                "no model named {:?} is configured; add it to the models file and resume the run",
                call.model
            );
            return self
                .unanswered(call, &reason, true, TimeDelta::zero())
                .await;
        };
        let request = CallRequest {
            prompt: call.prompt.clone(),
            temperature: Some(call.temperature),
            max_output_tokens: None,
            seed: Some(call.seed),
            position: Position {
                ordinal: call.ordinal,
                turn: call.turn,
            },
        };
        let reply = match llm.complete(&request).await {
            Ok(reply) => cleaned(&reply),
            Err(error) => {
                let reason = format!("failed to {}", with_causes(&error));
                let again = wait(call.failures, &error);
                return self
                    .unanswered(call, &reason, error.is_permanent(), again)
                    .await;
            }
        };
        let Err(error) = self.record_answer(call, &reply).await else {
            return Ok(());
        };
        // Asking again would buy the same answer and fail at the same place.
        let reason = format!("its answer cannot be recorded: failed to {error}");
        self.unanswered(call, &reason, true, TimeDelta::zero())
            .await
    }

    /// Records an answer with its consequence. The answer was paid for, so recording is repeated while
    /// the database has errors that may pass.
    async fn record_answer(&self, call: &DueCall, reply: &Reply) -> Result<(), EngineError> {
        let price = self.models.view(&call.model).and_then(|view| view.price);
        let answer = Answer {
            cost: price.map(|price| price.of(reply.usage)),
            text: reply.text.clone(),
            complete: reply.end == ReplyEnd::Complete,
            usage: reply.usage,
            usage_estimated: reply.usage_estimated,
            answered_by: reply.model.clone(),
            request_id: reply.request_id.clone(),
            first_token: reply.first_token,
            total: reply.total,
            attempts: reply.attempts,
        };
        let mut pause = Duration::from_secs(1);
        loop {
            let recorded = async {
                let meaning = self.interpret(call, reply).await?;
                let now = self.now();
                Ok::<_, EngineError>(self.store.answer(call.id, &answer, &meaning, now).await?)
            };
            match recorded.await {
                Ok(_) => {
                    info!(
                        tokens = answer.usage.total(),
                        "model {} wrote candidate {}", call.model, call.ordinal
                    );
                    return Ok(());
                }
                Err(
                    error @ EngineError::Store(
                        StoreError::DiskFull { .. }
                        | StoreError::Busy { .. }
                        | StoreError::Database { .. },
                    ),
                ) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to {error}; keeping the answer and trying again"
                    );
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(30));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn unanswered(
        &self,
        call: &DueCall,
        reason: &str,
        permanent: bool,
        again: TimeDelta,
    ) -> Result<(), EngineError> {
        warn!("model {}: {reason}", call.model);
        let now = self.now();
        Ok(self
            .store
            .unanswered(call.id, reason, permanent, now + again, now)
            .await?)
    }

    /// Reads a reply and decides its consequence for the candidate.
    async fn interpret(&self, call: &DueCall, reply: &Reply) -> Result<AnswerEffect, EngineError> {
        let task = self.task(call.content).await?;
        let primary = self.primary(call, &task).await?;
        let bases = ReplyBases {
            file: FILE,
            primary: &primary,
            baseline: &task.baseline,
            end: reply.end,
        };
        let unusable = match reply::read(&reply.text, &bases) {
            Ok(kernel) => return Ok(written(&primary, kernel)),
            Err(unusable) => unusable,
        };
        let turns = match unusable {
            Unusable::Defective { .. } => MENDED_PLANS,
            _ => 1,
        };
        let next = if call.turn < turns {
            self.further_turn(call, reply, &unusable).await?
        } else {
            None
        };
        Ok(match next {
            Some(next) => AnswerEffect::AskAgain {
                unusable: unusable.to_string(),
                call: Box::new(next),
            },
            None => AnswerEffect::Unusable {
                unusable: unusable.to_string(),
                verdict: Box::new(parse_rejected(&task, problems(&unusable))),
            },
        })
    }

    /// The text that edits in a reply apply to.
    async fn primary(&self, call: &DueCall, task: &Task) -> Result<KernelSource, EngineError> {
        let shown = call.seen.parents.first().copied().or(call.seen.best);
        if let Some(parent) = shown
            && let Ok(source) = KernelSource::parse(FILE, self.record(parent).await?.source.clone())
        {
            return Ok(source);
        }
        Ok(task.baseline.clone())
    }

    /// The call that asks the author of an unusable reply again; none if the budget or the model's
    /// context does not cover it.
    async fn further_turn(
        &self,
        call: &DueCall,
        reply: &Reply,
        unusable: &Unusable,
    ) -> Result<Option<NewCall>, EngineError> {
        let Some(view) = self.models.view(&call.model) else {
            return Ok(None);
        };
        let rendered = prompt::reply_repair(unusable);
        let mut messages = call.prompt.messages.clone();
        messages.push(Message {
            speaker: Speaker::Assistant,
            text: quoted(&reply.text),
        });
        messages.push(Message {
            speaker: Speaker::User,
            text: rendered.text,
        });
        let prompt = Prompt {
            system: call.prompt.system.clone(),
            messages,
        };
        let ceiling = view.ceiling(&prompt);
        if ceiling.usage.total() > view.context_tokens {
            return Ok(None);
        }
        let Some(run) = self.store.run(call.run).await? else {
            return Ok(None);
        };
        if run.budget.forbids(&run.spend, &ceiling).is_some() {
            return Ok(None);
        }
        Ok(Some(NewCall {
            model: call.model.clone(),
            seed: call.seed,
            temperature: call.temperature,
            template: rendered.template,
            template_digest: rendered.digest,
            prompt,
            dropped: Vec::new(),
            seen: call.seen.clone(),
            reserved: ceiling,
        }))
    }
}

/// The reply without characters that a reader does not see.
fn cleaned(reply: &Reply) -> Reply {
    let line = |text: &str| cleaning::clean_line(text, cleaning::SENTENCE_CHARACTERS);
    Reply {
        text: cleaning::clean_source(&reply.text.replace("\r\n", "\n")),
        model: line(&reply.model),
        request_id: reply.request_id.as_deref().map(line),
        ..reply.clone()
    }
}

/// The name of files that models write.
pub(crate) const FILE: &str = "candidate.cu";

fn written(primary: &KernelSource, kernel: Kernel) -> AnswerEffect {
    let source = KernelSource::parse(FILE, kernel.source).expect("reading a reply parsed it");
    let own = source.idea().filter(|idea| primary.idea() != Some(*idea));
    let idea = (kernel.title.is_some() || kernel.thought.is_some()).then(|| Idea {
        title: kernel.title.clone().unwrap_or_default(),
        hypothesis: kernel.thought.clone().unwrap_or_default(),
        gain: own.and_then(|idea| idea.gain),
    });
    let title = [kernel.title.as_deref(), kernel.thought.as_deref()]
        .into_iter()
        .flatten()
        .map(one_line)
        .find(|title| !title.is_empty());
    let configuration = source.plan().default_configuration();
    AnswerEffect::Written {
        text: Box::new(WrittenText {
            title: title.unwrap_or_else(|| "untitled".to_owned()),
            identity: Some(source.identity(&configuration)),
            source: source.text().to_owned(),
            configuration,
            idea,
            verdict: None,
        }),
        notes: kernel.notes,
    }
}

/// The defects of a reply as a verdict lists them.
fn problems(unusable: &Unusable) -> Problems {
    match unusable {
        Unusable::Defective { problems } if !problems.is_empty() => Problems(problems.clone()),
        other => Problems(vec![Problem::whole(
            FILE,
            other.to_string(),
            "answer with one kernel in one fenced code block",
        )]),
    }
}

/// A reply as the next prompt quotes it, cut to [`QUOTED`] bytes.
fn quoted(text: &str) -> String {
    if text.len() <= QUOTED {
        return text.to_owned();
    }
    let end = (0..=QUOTED).rev().find(|at| text.is_char_boundary(*at));
    let kept = &text[..end.unwrap_or(0)];
    format!("{kept}\n[the rest is left out]")
}

/// The wait of a call after a further failure.
fn wait(failures: u32, error: &LlmError) -> TimeDelta {
    let own = FIRST_WAIT * (1 << failures.min(6));
    let asked = error
        .retry_after()
        .and_then(|pause| TimeDelta::from_std(pause).ok());
    own.min(LONGEST_WAIT).max(asked.unwrap_or_default())
}
