//! The progress of a run that is followed: its events, folded into one line that changes and lines
//! that stay. This module only makes texts; the caller draws them.

use std::fmt::Write as _;

use domain::api::{Event, EventKind, PromotionState, RunState, RunView, Steer};

use crate::terminal::{labelled_time, line, plain};

/// The progress of a run.
#[derive(Debug, Clone)]
pub struct Progress {
    budget: u32,
    trials: u32,
    judged: u32,
    accepted: u32,
    best: Option<String>,
    doing: String,
    state: RunState,
}

impl Progress {
    /// As the run stands.
    pub fn of(run: &RunView) -> Self {
        let mut progress = Self {
            budget: run.budget.trials,
            trials: 0,
            judged: 0,
            accepted: 0,
            best: None,
            doing: String::new(),
            state: run.state.clone(),
        };
        progress.refresh(run);
        progress
    }

    /// Takes over what only the run itself knows: charged trials and the best time.
    pub fn refresh(&mut self, run: &RunView) {
        self.trials = run.trials;
        self.judged = run.verdicts.values().sum();
        let accepted = run.verdicts.iter();
        self.accepted = accepted
            .filter(|(kind, _)| **kind == domain::verdict::VerdictKind::Accepted)
            .map(|(_, count)| count)
            .sum();
        self.best = run.best.as_ref().map(|best| {
            let time = labelled_time(best.time_us, best.modelled);
            format!("{:.2}x, {time} ({})", best.speedup, line(&best.title, 40))
        });
        self.state = run.state.clone();
    }

    /// Takes over one event. The answer is the line that stays, if the event is worth one.
    pub fn absorb(&mut self, event: &Event) -> Option<String> {
        match &event.what {
            EventKind::RunChanged { state } => {
                self.state = state.clone();
                self.doing.clear();
                Some(format!("run {}", plain(&state.to_string())))
            }
            EventKind::Proposed { ordinal, title, .. } => {
                self.doing = format!("#{ordinal} {} is planned", line(title, 40));
                None
            }
            EventKind::Replied {
                ordinal,
                model,
                tokens,
                cost,
                unusable,
                ..
            } => {
                let model = line(model, 40);
                let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
                let paid = format!("{tokens} tokens{cost}");
                match unusable {
                    Some(why) => Some(format!(
                        "#{ordinal} {model} answered ({paid}) without a kernel: {}",
                        line(why, 120)
                    )),
                    None => {
                        self.doing = format!("#{ordinal} written by {model} ({paid})");
                        None
                    }
                }
            }
            EventKind::Unanswered { model, reason, .. } => Some(format!(
                "no answer from {}: {}",
                line(model, 40),
                line(reason, 160)
            )),
            EventKind::Abandoned { reason, .. } => {
                Some(format!("a candidate was given up: {}", line(reason, 120)))
            }
            EventKind::Stage { stage, .. } => {
                self.doing = plain(stage);
                None
            }
            EventKind::Judged {
                ordinal,
                title,
                summary,
                speedup,
                best,
                ..
            } => {
                self.doing.clear();
                let mut text = format!("#{ordinal} {}: ", line(title, 40));
                if let Some(speedup) = speedup {
                    let _infallible = write!(text, "{speedup:.2}x, ");
                }
                text.push_str(&line(summary, 120));
                if *best {
                    text.push_str("  * best so far");
                }
                Some(text)
            }
            EventKind::Requeued { reason, .. } => {
                Some(format!("back to the queue: {}", line(reason, 120)))
            }
            EventKind::Steered { actor, what, .. } => {
                Some(format!("{}: {}", line(actor, 40), describe_steer(what)))
            }
            EventKind::Reevaluated {
                ordinal,
                summary,
                speedup,
                ..
            } => {
                let speedup =
                    speedup.map_or_else(String::new, |speedup| format!("{speedup:.2}x, "));
                let summary = line(summary, 120);
                Some(format!("#{ordinal} evaluated again: {speedup}{summary}"))
            }
            EventKind::Promotion { promotion } => {
                let what = match &promotion.state {
                    PromotionState::Confirming => {
                        self.doing = "confirming the winner with fresh seeds".to_owned();
                        "the winner is confirmed with fresh seeds".to_owned()
                    }
                    PromotionState::Committed { commit } => {
                        format!(
                            "committed {} on {}",
                            short(commit),
                            plain(&promotion.branch)
                        )
                    }
                    PromotionState::Reverted { commit, reason } => {
                        format!("taken back by {}: {}", short(commit), line(reason, 120))
                    }
                    PromotionState::Refused { reason } => {
                        format!("not confirmed: {}", line(reason, 120))
                    }
                    PromotionState::Blocked { reason } => {
                        format!("the repository refused: {}", line(reason, 200))
                    }
                };
                Some(what)
            }
        }
    }

    /// Returns true once the run has ended.
    pub fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// The line that changes.
    pub fn headline(&self) -> String {
        let mut text = format!(
            "trials {}/{}, {} judged, {} accepted; best {}",
            self.trials,
            self.budget,
            self.judged,
            self.accepted,
            self.best.as_deref().unwrap_or("none yet"),
        );
        let doing = if self.doing.is_empty() {
            plain(&self.state.to_string())
        } else {
            self.doing.clone()
        };
        let _infallible = write!(text, "; {doing}");
        text
    }
}

fn short(commit: &str) -> String {
    plain(commit).chars().take(12).collect()
}

/// A direction in words.
pub fn describe_steer(what: &Steer) -> String {
    match what {
        Steer::Hint {
            text,
            prompts: None,
        } => format!("hint: {}", line(text, 160)),
        Steer::Hint {
            text,
            prompts: Some(prompts),
        } => format!("hint for {prompts} prompts: {}", line(text, 160)),
        Steer::Pin { ordinal, .. } => format!("pin #{ordinal}"),
        Steer::Ban {
            ordinal,
            descendants: true,
            ..
        } => format!("ban #{ordinal} and its descendants"),
        Steer::Ban { ordinal, .. } => format!("ban #{ordinal}"),
        Steer::Avoid { idea } => format!("avoid: {}", line(idea, 160)),
        Steer::Insight {
            ordinal,
            text: Some(text),
            ..
        } => format!("insight of #{ordinal}: {}", line(text, 160)),
        Steer::Insight { ordinal, .. } => format!("show no insight of #{ordinal}"),
        Steer::Withdraw { withdrawn } => format!("withdraw entry {withdrawn}"),
        Steer::Budget { before, after } => {
            let limits = |budget| serde_json::to_string(budget).unwrap_or_default();
            format!("budget: {} to {}", limits(before), limits(after))
        }
        Steer::Model { from, to } => {
            format!("model {} takes over from {}", line(to, 40), line(from, 40))
        }
        Steer::Fork { ordinal, fork, .. } => format!("fork {fork} from #{ordinal}"),
        Steer::Reevaluate { ordinal, .. } => format!("evaluate #{ordinal} again"),
        Steer::Promote { ordinal, .. } => format!("promote #{ordinal}"),
    }
}
