//! Memory of others that a kernel can reach, and the state of a device after a kernel was stopped.

use std::time::{Duration, Instant};

use domain::role::experiment::{End, Measure};
use domain::statistics::quantile;
use worker::experiment::ExperimentOutcome;

use super::{QuestionError, QuestionMeasurements, QuestionResult, QuestionRunner, first, middle};
use crate::gpu_check::corpus::is_stopped;

/// Lifetime of a process with an endless kernel, long enough that the kernel runs.
const ENDLESS: Duration = Duration::from_secs(3);
/// Number of processes that are killed, and of processes that start undisturbed.
const KILLS: usize = 5;

impl QuestionRunner<'_> {
    pub(super) fn guard_pages(&self) -> QuestionResult {
        let inside = self.reply(Measure::GuardInside)?;
        let granule = first(&inside, "granule_bytes").unwrap_or(0.0);
        let mut measured = vec![
            format!("granule {} KiB", granule / 1024.0),
            "last element of the buffer: completed".to_owned(),
        ];
        let (mut stopped, mut refused) = (Vec::new(), false);
        for (what, words) in [
            (Measure::GuardRead, "read one element behind"),
            (Measure::GuardWrite, "write one element behind"),
            (Measure::GuardReadOnly, "write to memory mapped for reading"),
        ] {
            let kernel_end = self.kernel_end(what)?;
            let said = if kernel_end.is_refused {
                "the driver does not grant reading alone"
            } else {
                &kernel_end.words
            };
            measured.push(format!("{words}: {said}"));
            stopped.push(kernel_end.is_stopped());
            refused = kernel_end.is_refused;
        }
        let conclusion = match stopped.as_slice() {
            [true, true, true] => {
                "guard windows stop every access outside; reading alone was granted, and a write to such a mapping is stopped"
            }
            [true, true, false] if refused => {
                "guard windows stop every access outside; reading alone is not granted, so that inputs need their digest"
            }
            [true, true, false] => {
                "guard windows stop every access outside; reading alone was granted and stops no write, so that inputs need their digest"
            }
            _ => {
                "guard windows do not stop every access outside: red zones and digests stay the only guard"
            }
        };
        Ok(QuestionMeasurements {
            measured,
            n: 4,
            conclusion: self.labelled(conclusion.to_owned()),
        })
    }

    pub(super) fn host_reach(&self) -> QuestionResult {
        let mut measured = Vec::new();
        let mut reached = Vec::new();
        for (what, words) in [
            (Measure::ReachPageable, "pageable"),
            (Measure::ReachPinned, "page-locked"),
            (Measure::ReachManaged, "managed"),
        ] {
            let kernel_end = self.kernel_end(what)?;
            measured.push(format!(
                "{words}: {}{}",
                kernel_end.words,
                if kernel_end.arrived {
                    ", the value arrived"
                } else {
                    ""
                }
            ));
            if kernel_end.arrived {
                reached.push(words);
            }
        }
        let conclusion = if reached.contains(&"pageable") {
            "a kernel reaches everything its process holds: no verdict, seed or clock may live in the process that runs it".to_owned()
        } else if reached.is_empty() {
            "a kernel reaches no memory of the host; the verdict stays in another process all the same".to_owned()
        } else {
            format!(
                "a kernel reaches {} memory of its process and nothing else; none of what decides may be kept there",
                reached.join(" and ")
            )
        };
        Ok(QuestionMeasurements {
            measured,
            n: 3,
            conclusion: self.labelled(conclusion),
        })
    }

    pub(super) fn kill_to_usable(&self) -> QuestionResult {
        let (mut quiet, mut after) = (Vec::new(), Vec::new());
        for _ in 0..KILLS {
            quiet.push(self.usable()?);
        }
        for _ in 0..KILLS {
            match self.measure(Measure::Endless, Some(ENDLESS))? {
                ExperimentOutcome::Failed(_) => {}
                ExperimentOutcome::Reply(reply) => {
                    let how = reply.message.unwrap_or_else(|| reply.end.to_string());
                    return Err(QuestionError::NotRun(format!(
                        "the endless kernel ended: {how}"
                    )));
                }
            }
            after.push(self.usable()?);
        }
        let (quiet_s, after_s) = (middle(&quiet), middle(&after));
        let worst = quantile(&after, 1.0).unwrap_or(f64::NAN);
        Ok(QuestionMeasurements {
            measured: vec![
                format!(
                    "undisturbed: median {quiet_s:.3} s from the start of a process to its right answer"
                ),
                format!("after a kill: median {after_s:.3} s, longest {worst:.3} s"),
            ],
            n: 2 * KILLS,
            conclusion: self.labelled(format!(
                "a killed kernel costs {:.3} s more than an undisturbed start; a probe after a kill {} within 15 s",
                after_s - quiet_s,
                if worst < 15.0 {
                    "answers"
                } else {
                    "does not answer"
                }
            )),
        })
    }

    /// Seconds from the start of a process to its right answer.
    fn usable(&self) -> Result<f64, QuestionError> {
        let begin = Instant::now();
        let reply = self.reply(Measure::Usable)?;
        if first(&reply, "right") == Some(1.0) {
            Ok(begin.elapsed().as_secs_f64())
        } else {
            Err(QuestionError::NotRun(
                "the device gave a wrong answer after a kill: reset it".to_owned(),
            ))
        }
    }

    /// The end of a measurement that may be stopped, in words.
    fn kernel_end(&self, what: Measure) -> Result<KernelEnd, QuestionError> {
        Ok(match self.measure(what, None)? {
            ExperimentOutcome::Failed(how) => KernelEnd {
                words: how,
                end: None,
                arrived: false,
                is_refused: false,
            },
            ExperimentOutcome::Reply(reply) => KernelEnd {
                words: match &reply.message {
                    Some(message) => format!("{}, {message}", reply.end),
                    None => reply.end.to_string(),
                },
                arrived: first(&reply, "arrived") == Some(1.0),
                is_refused: first(&reply, "granted") == Some(0.0),
                end: Some(reply.end),
            },
        })
    }
}

/// The end of a kernel that may be stopped.
struct KernelEnd {
    words: String,
    end: Option<End>,
    arrived: bool,
    /// True if the driver refused the memory that was to be tried.
    is_refused: bool,
}

impl KernelEnd {
    fn is_stopped(&self) -> bool {
        self.end.as_ref().is_some_and(is_stopped)
    }
}
