//! The questions that the design left to silicon, each with a small experiment and what its
//! answer means for the evaluator.

mod isolation;
mod tools;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::device::DeviceKind;
use domain::role::experiment::{End, ExperimentReply, Measure};
use domain::statistics::{Arithmetic, deviation, interval, median, quantile};
use serde::Serialize;
use worker::cancel::Cancellation;
use worker::experiment::{self, Seen};

use super::corpus::is_stopped;
use super::{CheckError, Options, Part, Side};

/// How long a process with an endless kernel lives: long enough that the kernel runs.
const ENDLESS: Duration = Duration::from_secs(3);
/// How often a process is killed, and how often one starts undisturbed.
const KILLS: usize = 5;
/// The share of its final time within which a kernel counts as warm.
const WARM: f64 = 0.01;
/// Times over which the warm-up is smoothed.
const SMOOTHED: usize = 9;
/// The limits of the relative L2 error that the evaluator takes for `f32` tasks, strict and with
/// TF32 allowed.
const STRICT_LIMIT: f64 = 4e-5;
const TF32_LIMIT: f64 = 8e-4;
/// How far an honest result and the nearest forbidden one must lie apart.
const SEPARATION: f64 = 4.0;

/// A question with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Its short name.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// What was measured, a line each.
    pub measured: Vec<String>,
    /// How many measurements it rests on.
    pub n: usize,
    /// What it means for the evaluator; none if it was not answered.
    pub conclusion: Option<String>,
    /// Why it was not answered.
    pub not_run: Option<String>,
}

/// What one question found: lines, their number of measurements, and the conclusion.
struct Found {
    measured: Vec<String>,
    n: usize,
    conclusion: String,
}

/// Why a question has no answer.
enum Unanswered {
    NotRun(String),
    Trouble(CheckError),
}

impl From<CheckError> for Unanswered {
    fn from(error: CheckError) -> Self {
        Self::Trouble(error)
    }
}

impl From<worker::supervise::Fault> for Unanswered {
    fn from(fault: worker::supervise::Fault) -> Self {
        Self::Trouble(fault.into())
    }
}

type Asked = Result<Found, Unanswered>;
type Question = (&'static str, &'static str, fn(&Asker<'_>) -> Asked);

const QUESTIONS: [Question; 11] = [
    (
        "guard_pages",
        "Does an access one element behind a buffer that ends at an unmapped page stop the kernel, and a write to memory mapped for reading?",
        |asker| asker.guard_pages(),
    ),
    (
        "host_reach",
        "Can a kernel write to memory of the host process: pageable, page-locked, managed?",
        |asker| asker.host_reach(),
    ),
    (
        "kill_to_usable",
        "How long after a process with a running kernel was killed does a new process get a right answer?",
        |asker| asker.kill_to_usable(),
    ),
    (
        "cache_survival",
        "How much must be written to push a buffer out of the second level cache, also one that asked to be kept?",
        |asker| asker.cache_survival(),
    ),
    (
        "noise",
        "How far apart do two identical kernels seem to be?",
        |asker| asker.noise(),
    ),
    (
        "spin_up",
        "How long does an idle device take until a kernel's time no longer changes?",
        |asker| asker.spin_up(),
    ),
    (
        "clocks",
        "Do events, the host's clock and the device's own timer agree?",
        |asker| asker.clocks(),
    ),
    (
        "tools",
        "Which of NVIDIA's tools are here, and may counters be read?",
        |asker| asker.tools(),
    ),
    (
        "precision",
        "Do the limits of the relative error separate honest single precision from TF32, f16 and bf16 inputs?",
        |asker| asker.precision(),
    ),
    (
        "isolation",
        "How far can processes be kept from the machine without its driver failing?",
        |asker| asker.isolation(),
    ),
    (
        "rates",
        "What does the device do at best, which no candidate can beat?",
        |asker| asker.rates(),
    ),
];

/// Asks what is wanted.
pub(crate) fn ask(
    side: &Side,
    options: &Options,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
    answers: &mut Vec<Answer>,
) -> Result<(), CheckError> {
    let wanted: Vec<&Question> = QUESTIONS
        .iter()
        .filter(|(name, ..)| options.wants(Part::Questions, name))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let (image, _) = side
        .images
        .image(&side.evaluator, &corpus::QUESTIONS, cancellation)?;
    let asker = Asker {
        side,
        image,
        cancellation,
    };
    for (name, question, ask) in wanted {
        progress(&format!("question: {name}"));
        let mut answer = Answer {
            name,
            question,
            measured: Vec::new(),
            n: 0,
            conclusion: None,
            not_run: None,
        };
        match ask(&asker) {
            Ok(found) => {
                answer.measured = found.measured;
                answer.n = found.n;
                answer.conclusion = Some(found.conclusion);
            }
            Err(Unanswered::NotRun(why)) => answer.not_run = Some(why),
            Err(Unanswered::Trouble(error)) => return Err(error),
        }
        answers.push(answer);
    }
    Ok(())
}

struct Asker<'a> {
    side: &'a Side,
    image: PathBuf,
    cancellation: &'a Cancellation,
}

impl Asker<'_> {
    fn is_emulated(&self) -> bool {
        self.side.host().device().kind == DeviceKind::Emulated
    }

    /// One measurement, however it ended.
    fn seen(
        &self,
        what: Measure,
        patience: Option<Duration>,
    ) -> Result<Seen<ExperimentReply>, Unanswered> {
        let host = self.side.host();
        let image = self.image.clone();
        Ok(experiment::measure(
            host,
            what,
            image,
            patience,
            self.cancellation,
        )?)
    }

    /// One measurement that must go through.
    fn reply(&self, what: Measure) -> Result<ExperimentReply, Unanswered> {
        match self.seen(what, None)? {
            Seen::Nothing(how) => Err(Unanswered::NotRun(how)),
            Seen::Answer(reply) if reply.end == End::Completed => Ok(reply),
            Seen::Answer(reply) => Err(Unanswered::NotRun(
                reply.message.unwrap_or_else(|| reply.end.to_string()),
            )),
        }
    }

    /// How a measurement that may be stopped ended, in words.
    fn fate(&self, what: Measure) -> Result<Fate, Unanswered> {
        Ok(match self.seen(what, None)? {
            Seen::Nothing(how) => Fate {
                words: how,
                end: None,
                arrived: false,
                is_refused: false,
            },
            Seen::Answer(reply) => Fate {
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

    fn guard_pages(&self) -> Asked {
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
            let fate = self.fate(what)?;
            let said = if fate.is_refused {
                "the driver does not grant reading alone"
            } else {
                &fate.words
            };
            measured.push(format!("{words}: {said}"));
            stopped.push(fate.is_stopped());
            refused = fate.is_refused;
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
        Ok(Found {
            measured,
            n: 4,
            conclusion: self.labelled(conclusion.to_owned()),
        })
    }

    fn host_reach(&self) -> Asked {
        let mut measured = Vec::new();
        let mut reached = Vec::new();
        for (what, words) in [
            (Measure::ReachPageable, "pageable"),
            (Measure::ReachPinned, "page-locked"),
            (Measure::ReachManaged, "managed"),
        ] {
            let fate = self.fate(what)?;
            measured.push(format!(
                "{words}: {}{}",
                fate.words,
                if fate.arrived {
                    ", the value arrived"
                } else {
                    ""
                }
            ));
            if fate.arrived {
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
        Ok(Found {
            measured,
            n: 3,
            conclusion: self.labelled(conclusion),
        })
    }

    fn kill_to_usable(&self) -> Asked {
        let (mut quiet, mut after) = (Vec::new(), Vec::new());
        for _ in 0..KILLS {
            quiet.push(self.usable()?);
        }
        for _ in 0..KILLS {
            match self.seen(Measure::Endless, Some(ENDLESS))? {
                Seen::Nothing(_) => {}
                Seen::Answer(reply) => {
                    let how = reply.message.unwrap_or_else(|| reply.end.to_string());
                    return Err(Unanswered::NotRun(format!(
                        "the endless kernel ended: {how}"
                    )));
                }
            }
            after.push(self.usable()?);
        }
        let (quiet_s, after_s) = (middle(&quiet), middle(&after));
        let worst = quantile(&after, 1.0).unwrap_or(f64::NAN);
        Ok(Found {
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
    fn usable(&self) -> Result<f64, Unanswered> {
        let begin = Instant::now();
        let reply = self.reply(Measure::Usable)?;
        if first(&reply, "right") == Some(1.0) {
            Ok(begin.elapsed().as_secs_f64())
        } else {
            Err(Unanswered::NotRun(
                "the device gave a wrong answer after a kill: reset it".to_owned(),
            ))
        }
    }

    fn cache_survival(&self) -> Asked {
        if self.is_emulated() {
            return Err(Unanswered::NotRun(
                "the emulated device keeps nothing in its caches from launch to launch".to_owned(),
            ));
        }
        let reply = self.reply(Measure::CacheSurvival)?;
        let l2 = first(&reply, "l2_bytes").unwrap_or(0.0);
        let mut measured = vec![format!("second level cache {:.1} MiB", l2 / 1_048_576.0)];
        let (mut n, mut enough) = (0, Vec::new());
        for kind in ["plain", "kept"] {
            let curve: Vec<(f64, f64)> = reply
                .series
                .iter()
                .filter_map(|(name, cycles)| {
                    let times = name.strip_prefix(&format!("cycles_{kind}_"))?;
                    n += cycles.len();
                    Some((times.parse().ok()?, median(cycles)?))
                })
                .collect();
            let words: Vec<String> = curve
                .iter()
                .map(|(times, cycles)| format!("{times}x: {cycles:.0}"))
                .collect();
            measured.push(format!(
                "cycles per line after writing so many times its size, {kind}: {}",
                words.join(", ")
            ));
            enough.push(flushed_at(&curve));
        }
        let words = |times: Option<f64>| match times {
            Some(times) => format!("{times} times its size"),
            None => "more than was tried".to_owned(),
        };
        let protocol = match enough.as_slice() {
            [Some(plain), Some(kept)] if *plain <= 2.0 && *kept <= 2.0 => {
                "the protocol's flush of twice the cache is enough"
            }
            _ => {
                "the protocol's flush of twice the cache is not enough: rotate inputs over more than the cache"
            }
        };
        Ok(Found {
            measured,
            n,
            conclusion: format!(
                "an ordinary buffer is gone after {}, one that asked to be kept after {}; {protocol}",
                words(enough[0]),
                words(enough[1])
            ),
        })
    }

    fn noise(&self) -> Asked {
        let reply = self.reply(Measure::Noise)?;
        let times = series(&reply, "event_us")?;
        // Blocks of A B B A, so that a drift that is linear over a block cancels.
        let effects: Vec<f64> = times
            .chunks_exact(4)
            .map(|t| 0.5 * ((t[0] * t[3]) / (t[1] * t[2])).ln())
            .collect();
        let spread = deviation(times).unwrap_or(0.0) / middle(times);
        let half = interval(std::slice::from_ref(&effects), 0.01).half_width();
        let half = if half.is_finite() {
            format!("{:.3}%", 100.0 * half)
        } else {
            "unknown: too few blocks".to_owned()
        };
        let margin = "\"faster\" must exceed the larger of 0.5% and three times that";
        Ok(Found {
            measured: vec![
                format!(
                    "one kernel: median {:.2} us, deviation {:.2}%",
                    middle(times),
                    100.0 * spread
                ),
                format!(
                    "effect of a kernel against itself: {:.3}%, half width of its bounds {half}",
                    100.0 * median(&effects).unwrap_or(f64::NAN)
                ),
            ],
            n: effects.len(),
            conclusion: self.labelled(format!(
                "the noise floor of {} blocks is {half}; {margin}",
                effects.len()
            )),
        })
    }

    fn spin_up(&self) -> Asked {
        let reply = self.reply(Measure::SpinUp)?;
        let (times, since) = (series(&reply, "event_us")?, series(&reply, "since_ms")?);
        let warm = warm_from(times);
        let (first_us, last_us) = (times[0], middle(&times[times.len() * 4 / 5..]));
        let conclusion = match warm.and_then(|at| since.get(at)) {
            Some(ms) => format!(
                "times settle {ms:.0} ms after an idle device starts to work; the warm-up of 200 ms to 2 s {}",
                if *ms <= 2000.0 {
                    "covers that"
                } else {
                    "is too short"
                }
            ),
            None => "times did not settle while they were followed: warm up longer".to_owned(),
        };
        Ok(Found {
            measured: vec![format!(
                "first {first_us:.2} us, at the end {last_us:.2} us, ratio {:.3}",
                first_us / last_us
            )],
            n: times.len(),
            conclusion: self.labelled(conclusion),
        })
    }

    fn clocks(&self) -> Asked {
        if self.is_emulated() {
            return Err(Unanswered::NotRun(
                "the emulated device has no time of its own".to_owned(),
            ));
        }
        let reply = self.reply(Measure::Clocks)?;
        let mut measured = Vec::new();
        let (mut n, mut apart, mut overhead) = (0, 0.0_f64, 0.0_f64);
        for span in ["1", "10", "100"] {
            let of = |name: &str| series(&reply, &format!("{name}_{span}"));
            let (event, wall, timer) = (of("event_us")?, of("wall_us")?, of("timer_us")?);
            let cycles = of("cycles")?;
            let difference: Vec<f64> = event.iter().zip(timer).map(|(e, t)| e / t - 1.0).collect();
            let extra: Vec<f64> = wall.iter().zip(event).map(|(w, e)| w - e).collect();
            let mhz: Vec<f64> = cycles.iter().zip(timer).map(|(c, t)| c / t).collect();
            n += event.len();
            apart = apart.max(middle(&difference).abs());
            overhead = overhead.max(middle(&extra));
            measured.push(format!(
                "{span} ms: events {:+.3}% of the device's timer, the host {:.1} us more than events, {:.0} MHz",
                100.0 * middle(&difference),
                middle(&extra),
                middle(&mhz)
            ));
        }
        Ok(Found {
            measured,
            n,
            conclusion: format!(
                "events and the device's timer differ by {:.3}% at most, and the host's clock may exceed events by {overhead:.0} us of overhead",
                100.0 * apart
            ),
        })
    }

    fn tools(&self) -> Asked {
        let tools = tools::look();
        Ok(Found {
            n: tools.len(),
            conclusion: tools::conclusion(&tools),
            measured: tools.iter().map(ToString::to_string).collect(),
        })
    }

    fn precision(&self) -> Asked {
        let reply = self.reply(Measure::Precision)?;
        let worst = |kernel: &str| extreme(&reply, kernel, f64::max);
        let best = |kernel: &str| extreme(&reply, kernel, f64::min);
        let (honest, tf32) = (worst("product_f32"), best("product_tf32"));
        let (tf32_worst, bf16) = (worst("product_tf32"), best("product_bf16"));
        let f16 = best("product_f16");
        let measured = reply
            .series
            .iter()
            .map(|(name, values)| {
                let low = values.iter().copied().fold(f64::INFINITY, f64::min);
                let high = values.iter().copied().fold(0.0, f64::max);
                format!("{name}: {low:.2e} to {high:.2e}")
            })
            .collect();
        let forbidden = tf32.min(f16);
        let strict = verdict_on_limit("strict f32", STRICT_LIMIT, honest, forbidden);
        let relaxed = verdict_on_limit("f32 with TF32", TF32_LIMIT, tf32_worst, bf16);
        Ok(Found {
            measured,
            n: reply.series.values().map(Vec::len).sum(),
            conclusion: self.labelled(format!("{strict}; {relaxed}")),
        })
    }

    fn isolation(&self) -> Asked {
        let host = self.side.host();
        let measured = isolation::measured(host.said(), host.barriers());
        Ok(Found {
            n: measured.len(),
            measured,
            conclusion: self.labelled(isolation::conclusion(host.said(), host.barriers())),
        })
    }

    fn rates(&self) -> Asked {
        let rates = self.side.host().rates().ok_or_else(|| {
            Unanswered::NotRun("its driver could not compile the kernels".to_owned())
        })?;
        let mut measured = vec![
            format!("memory {:.0} GB/s", rates.bytes_per_us / 1e3),
            format!("an empty launch {:.2} us", rates.launch_us),
        ];
        measured.extend(rates.operations_per_us.iter().map(|(arithmetic, rate)| {
            let name = match arithmetic {
                Arithmetic::F64 => "double precision",
                Arithmetic::F32 => "single precision",
                Arithmetic::F16 => "tensor cores, 16-bit operands",
            };
            format!("{name} {:.1} TFLOP/s", rate / 1e6)
        }));
        Ok(Found {
            n: measured.len(),
            measured,
            conclusion: self.labelled(
                "a time that would need more than this is taken for impossible".to_owned(),
            ),
        })
    }

    /// Says of an emulated device's answer that it is one.
    fn labelled(&self, conclusion: String) -> String {
        if self.is_emulated() {
            format!("{conclusion} (emulated: this says nothing about silicon)")
        } else {
            conclusion
        }
    }
}

/// How a kernel that may be stopped ended.
struct Fate {
    words: String,
    end: Option<End>,
    arrived: bool,
    /// Whether the driver did not give what was to be tried.
    is_refused: bool,
}

impl Fate {
    fn is_stopped(&self) -> bool {
        self.end.as_ref().is_some_and(is_stopped)
    }
}

fn first(reply: &ExperimentReply, name: &str) -> Option<f64> {
    reply.series.get(name)?.first().copied()
}

fn series<'a>(reply: &'a ExperimentReply, name: &str) -> Result<&'a [f64], Unanswered> {
    match reply.series.get(name) {
        Some(values) if !values.is_empty() => Ok(values),
        _ => Err(Unanswered::NotRun(format!("the device gave no {name}"))),
    }
}

fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

/// The largest or smallest error of a product over all depths.
fn extreme(reply: &ExperimentReply, kernel: &str, pick: fn(f64, f64) -> f64) -> f64 {
    let prefix = format!("relative_l2_{kernel}_");
    reply
        .series
        .iter()
        .filter(|(name, _)| name.starts_with(&prefix))
        .flat_map(|(_, values)| values.iter().copied())
        .reduce(pick)
        .unwrap_or(f64::NAN)
}

fn verdict_on_limit(class: &str, limit: f64, honest: f64, forbidden: f64) -> String {
    let ratio = forbidden / honest;
    let middle = (forbidden * honest).sqrt();
    let holds = honest <= limit && limit <= forbidden && ratio >= SEPARATION;
    format!(
        "{class}: honest {honest:.1e}, forbidden {forbidden:.1e}, {ratio:.0} times apart, limit {limit:.0e} {}, their geometric mean {middle:.1e}",
        if holds { "holds" } else { "does NOT hold" }
    )
}

/// The smallest flush after which lines come as slowly as after the largest.
fn flushed_at(curve: &[(f64, f64)]) -> Option<f64> {
    let mut sorted = curve.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (warm, cold) = (sorted.first()?.1, sorted.last()?.1);
    // A cache that makes no difference was not measured.
    if cold < 1.2 * warm {
        return None;
    }
    let gone = warm + 0.9 * (cold - warm);
    let at = sorted.iter().position(|(_, cycles)| *cycles >= gone)?;
    Some(sorted[at].0)
}

/// The place from which on smoothed times stay near the last ones.
fn warm_from(times: &[f64]) -> Option<usize> {
    let last = median(&times[times.len() * 4 / 5..])?;
    let smooth: Vec<f64> = times
        .windows(SMOOTHED.min(times.len()))
        .filter_map(median)
        .collect();
    let cold = smooth
        .iter()
        .rposition(|time| (time / last - 1.0).abs() > WARM);
    match cold {
        None => Some(0),
        Some(at) if at + 1 < smooth.len() => Some(at + 1),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmth_begins_where_times_stay_near_the_last() {
        let mut times = vec![20.0; 30];
        times.extend(vec![10.0; 300]);
        let warm = warm_from(&times).unwrap();
        assert!((20..=31).contains(&warm), "{warm}");
        assert_eq!(warm_from(&[5.0; 50]), Some(0));
        let falling: Vec<f64> = (0..100).map(|i| 200.0 - f64::from(i)).collect();
        assert_eq!(warm_from(&falling), None);
    }

    #[test]
    fn a_cache_is_flushed_where_lines_come_as_slowly_as_ever() {
        let curve = [(4.0, 600.0), (0.0, 250.0), (1.0, 320.0), (2.0, 590.0)];
        assert_eq!(flushed_at(&curve), Some(2.0));
        assert_eq!(flushed_at(&[(0.0, 600.0), (4.0, 610.0)]), None);
    }

    #[test]
    fn a_limit_must_lie_between_and_both_far_apart() {
        assert!(verdict_on_limit("x", 4e-5, 1e-6, 3e-4).contains(" holds"));
        for (honest, forbidden) in [(1e-4, 3e-3), (1e-6, 2e-5), (3e-5, 1e-4)] {
            let words = verdict_on_limit("x", 4e-5, honest, forbidden);
            assert!(words.contains("does NOT hold"), "{words}");
        }
    }
}
