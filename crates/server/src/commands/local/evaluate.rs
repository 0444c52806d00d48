//! `evaluate`: the verdict, the decision, and both in git and in the record.
//!
//! The record is written before the commits and completed after them. The commits bear the step's
//! identity, so that the next call recognises the commits of a killed one.

use domain::digest::Digest;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation};
use domain::iteration::{Decision, StepDecision, decide_step};
use domain::timing::Timing;
use engine::promote::worktree::{StepCommits, Worktree, WorktreeError};
use engine::{Clock as _, SystemClock};
use store::{Iteration, IterationState, NewIteration, StepSeries, Store};

use super::Subject;
use crate::cli::EvaluateArgs;
use crate::outcome::{Ending, Failure};
use crate::report::bench::Benched;
use crate::report::step::{Step, text};
use crate::terminal::line;

/// The trailer that says which step a commit belongs to.
const TRAILER: &str = "Kernelwright-Iteration";
/// Characters of a commit's first line.
const SUBJECT: usize = 68;

pub(crate) async fn evaluate(args: EvaluateArgs) -> Ending {
    let mut work = Work::open(&args).await?;
    let step = work.step(&args).await?;
    let ok = step.decision.keeps_change() && step.refused.is_none();
    let outcome = work
        .subject
        .print_result(args.kernel.json, "evaluate", ok, &step, text)?;
    refusal(&step).map_or(Ok(outcome), Err)
}

/// The failure of a decision that could not be committed; none if it was.
pub(super) fn refusal(step: &Step) -> Option<Failure> {
    let reason = step.refused.as_ref()?;
    // A rejected file that cannot be reverted stays as it is; the decision's reason says so already.
    (step.decision != Decision::Revert || step.evaluation.verdict.acceptance().is_some())
        .then(|| Failure::input(anyhow::anyhow!("{reason}")))
}

/// A kernel in a checkout, with its record.
pub(super) struct Work {
    pub subject: Subject,
    pub store: Store,
    worktree: Worktree,
}

/// The results of an evaluation, from which the decision is made.
pub(super) struct StepEvaluation {
    pub evaluation: Evaluation,
    pub bench: Option<Benched>,
    pub speedup: Option<f64>,
    timing: Option<Timing>,
}

impl Work {
    /// Checks the arguments and the checkout before anything is evaluated.
    pub async fn open(args: &EvaluateArgs) -> Result<Self, Failure> {
        if !args.kernel.settings.is_empty() {
            return Err(Failure::input(anyhow::anyhow!(
                "keep a kernel with --set: write the values into the file, which is what is committed"
            )));
        }
        let worktree = Worktree::open(&args.kernel.file).map_err(Failure::input)?;
        let subject = Subject::open(&args.kernel).await?;
        let data = super::super::serve::open(&args.kernel.folder.data)?;
        let store = Store::open(data.database())
            .await
            .map_err(Failure::infrastructure)?;
        let mut work = Self {
            subject,
            store,
            worktree,
        };
        work.recognise().await?;
        Ok(work)
    }

    /// Evaluates, decides, records and commits.
    async fn step(&mut self, args: &EvaluateArgs) -> Result<Step, Failure> {
        let found = self.evaluate_and_measure().await?;
        self.conclude(args, found, None).await
    }

    /// Evaluates the file, and times it if it is accepted.
    pub async fn evaluate_and_measure(&self) -> Result<StepEvaluation, Failure> {
        let request = self.subject.request(&self.subject.configuration)?;
        let evaluation = self.subject.evaluator.evaluate(request).await?;
        if evaluation.verdict.acceptance().is_none() {
            return Ok(StepEvaluation {
                evaluation,
                bench: None,
                speedup: None,
                timing: None,
            });
        }
        let (looked, timed) = self
            .subject
            .ask(|evaluator, request, progress, cancellation| {
                evaluator.measure(request, progress, cancellation)
            })
            .await?;
        let speedup = timed.as_ref().map(|timed| timed.comparison.ratio);
        let timing = timed.as_ref().map(|timed| timed.timing.clone());
        let bench = Benched::new(looked, timed, &self.subject.device());
        Ok(StepEvaluation {
            evaluation,
            bench: Some(bench),
            speedup,
            timing,
        })
    }

    /// Decides, records and commits. `against` is a reason to revert that the verdict does not know.
    pub async fn conclude(
        &mut self,
        args: &EvaluateArgs,
        found: StepEvaluation,
        against: Option<String>,
    ) -> Result<Step, Failure> {
        let line = self.line(found.timing.as_ref());
        let best = self
            .store
            .best_kept(&line)
            .await
            .map_err(Failure::infrastructure)?;
        let target = self.subject.task.objective.target_speedup;
        let best_before = best.as_ref().map(|best| best.speedup);
        let mut decided = decide_step(
            &found.evaluation.verdict,
            &found.evaluation.gates,
            found.speedup,
            best_before,
            target,
        );
        if let Some(reason) = against {
            decided = decided.into_revert(reason);
        }
        let new = NewIteration {
            line,
            branch: self.worktree.branch().to_owned(),
            base: self.worktree.tip(),
            task: self.subject.task.name.clone(),
            hypothesis: args.hypothesis.clone().unwrap_or_default(),
            expected: args.expect,
            speedup: found.speedup,
            gain: decided.gain,
            decision: decided.decision,
            reason: decided.reason.clone(),
            evaluation: found.evaluation.clone(),
        };
        let now = SystemClock.now();
        let (id, number) = self
            .store
            .plan_iteration(&new, now)
            .await
            .map_err(Failure::infrastructure)?;
        let state = self.commit_decision(&new, id, number, &decided).await?;
        self.store
            .settle_iteration(id, &state)
            .await
            .map_err(Failure::infrastructure)?;
        let (commit, revert, refused) = match state {
            IterationState::Done { commit, revert } => (commit, revert, None),
            IterationState::Refused { reason } => (None, None, Some(reason)),
            IterationState::Planned => (None, None, None),
        };
        Ok(Step {
            file: self.worktree.path().to_owned(),
            number,
            hypothesis: new.hypothesis,
            expected: new.expected,
            gain: decided.gain,
            speedup: found.speedup,
            best_before,
            decision: decided.decision,
            reason: decided.reason,
            branch: new.branch,
            commit,
            revert,
            refused,
            evaluation: found.evaluation,
            bench: found.bench,
        })
    }

    /// The steps so far.
    pub async fn iterations(&self) -> Result<Vec<Iteration>, Failure> {
        self.store
            .iterations(&self.checkout(), self.worktree.path())
            .await
            .map_err(Failure::infrastructure)
    }

    fn checkout(&self) -> String {
        self.worktree.folder().display().to_string()
    }

    /// The line of steps whose times can be compared with this kernel's.
    fn line(&self, timing: Option<&Timing>) -> StepSeries {
        let device = self.subject.device();
        let (device, modelled) = match timing {
            Some(Timing::Modelled { device, label, .. }) => (format!("{device} ({label})"), true),
            Some(Timing::Measured { .. }) => (device.name, false),
            None => (
                device.name,
                device.kind == domain::device::DeviceKind::Emulated,
            ),
        };
        StepSeries {
            checkout: self.checkout(),
            path: self.worktree.path().to_owned(),
            task_version: self.subject.task.version,
            evaluator: EVALUATOR_VERSION,
            device,
            modelled,
        }
    }

    /// Commits the kernel, or commits it and takes it back.
    async fn commit_decision(
        &self,
        new: &NewIteration,
        id: i64,
        number: u32,
        decided: &StepDecision,
    ) -> Result<IterationState, Failure> {
        if self.worktree.content() != self.subject.source.as_bytes() {
            return Ok(IterationState::Refused {
                reason: WorktreeError::Changed(self.worktree.path().to_owned()).to_string(),
            });
        }
        let identity = identity(&self.checkout(), self.worktree.path(), id, &new.base);
        let message = message(new, number, &identity);
        let moved = match decided.decision {
            Decision::Keep | Decision::Target if self.worktree.is_changed() => {
                self.worktree.keep(&message)
            }
            // The branch has it already.
            Decision::Keep | Decision::Target => Ok(StepCommits {
                commit: new.base.clone(),
                revert: None,
            }),
            Decision::Revert => {
                let kept = self
                    .store
                    .last_kept(&self.checkout(), self.worktree.path())
                    .await
                    .map_err(Failure::infrastructure)?;
                let revert_message = |given_up: &str| {
                    let path = self.worktree.path();
                    format!(
                        "Take back step {number} on {path}\n\n{}\n\nReverts: {given_up}\n{TRAILER}: {identity}\n",
                        line(&decided.reason, 400)
                    )
                };
                self.worktree
                    .revert(kept.as_deref(), &message, revert_message)
            }
        };
        Ok(match moved {
            Ok(moved) => IterationState::Done {
                commit: Some(moved.commit),
                revert: moved.revert,
            },
            Err(error) => IterationState::Refused {
                reason: format!("{:#}", anyhow::Error::new(error)),
            },
        })
    }

    /// Settles the steps of calls that were killed: by their commits, where these were made.
    async fn recognise(&mut self) -> Result<(), Failure> {
        for own in self.iterations().await? {
            if own.state != IterationState::Planned {
                continue;
            }
            let identity = identity(&self.checkout(), self.worktree.path(), own.id, &own.base);
            let found = self
                .worktree
                .find((TRAILER, &identity))
                .map_err(Failure::infrastructure)?;
            let state = match found {
                Some(StepCommits { commit, revert }) => IterationState::Done {
                    commit: Some(commit),
                    revert,
                },
                None => IterationState::Refused {
                    reason: "the call ended before git was told".to_owned(),
                },
            };
            self.store
                .settle_iteration(own.id, &state)
                .await
                .map_err(Failure::infrastructure)?;
        }
        Ok(())
    }
}

/// The identity of a step, written into its commits and into no others.
fn identity(checkout: &str, path: &str, id: i64, base: &str) -> String {
    let id = id.to_le_bytes();
    let parts = [checkout.as_bytes(), path.as_bytes(), &id, base.as_bytes()];
    Digest::of_parts(parts).to_string()
}

fn message(new: &NewIteration, number: u32, identity: &str) -> String {
    let subject = if new.hypothesis.trim().is_empty() {
        format!("Step {number} on {}", new.line.path)
    } else {
        line(&new.hypothesis, SUBJECT)
    };
    let kind = if new.line.modelled {
        "modelled"
    } else {
        "measured"
    };
    let speedup = new.speedup.map_or_else(String::new, |speedup| {
        format!("Speedup: {speedup:.4} ({kind}, {})\n", new.line.device)
    });
    let expected = new.expected.map_or_else(String::new, |expected| {
        format!("Expected-gain: {expected}\n")
    });
    let gain = new
        .gain
        .map_or_else(String::new, |gain| format!("Gain: {gain:.4}\n"));
    let evidence = new
        .evaluation
        .evidence
        .map_or_else(String::new, |evidence| format!("Evidence: {evidence}\n"));
    format!(
        "{subject}\n\n{}\n\nTask: {} {}\nVerdict: {}\n{speedup}{expected}{gain}{evidence}Decision: {}\n{TRAILER}: {identity}\n",
        line(&new.reason, 400),
        new.task,
        new.line.task_version.short(),
        new.evaluation.verdict.kind(),
        new.decision
    )
}
