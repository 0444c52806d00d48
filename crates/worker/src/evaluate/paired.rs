//! The paired comparison: times a candidate in turn with an incumbent, and with the task's baseline
//! where that is another kernel, and decides which is faster.
//!
//! The times are event times that the process with the images reports. [`check_reply`] checks them, and
//! everything else that the reply claims, against the supervisor's own clock. The decision is
//! statistics.

mod alternation;
mod check_reply;
mod control;
mod decide;
mod process;
mod times;
mod values;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use domain::device::DeviceKind;
use domain::digest::Digest;
use domain::evaluation::EvaluationStage;
use domain::measurement::{Anchored, CaseProtocol, ConditionCoverage, DiscardedRound, Measurement};
use domain::role::{Key, RunnableImage, TimeJob, TimedCase};
use domain::statistics::{
    self, ALPHA, ALTERNATIONS, ANALYSIS_PAIRS, Block, CONFIRMATION, Interval, PlannedBlock, Round,
    TimedKernel, WarmUp, check_regressions, scatter,
};
use domain::timing::{CacheState, Timing};
use domain::verdict::{Comparison, Outcome};

pub use self::alternation::AlternatingComparison;
pub(in crate::evaluate) use self::alternation::AlternationError;
use self::decide::count_analyses;
use self::process::RoundRequest;
pub use self::values::ValueCheck;
use super::error::Stop;
use super::history::HistoryFile;
use super::roles::Roles;

/// Wall time after which a process begins no further round, seconds.
const SECONDS: u32 = 15;
/// Wall time of loading and of all rounds together.
const DEADLINE: Duration = Duration::from_secs(60);
/// The longest batch on the emulated device. Times are exact there whatever the batch, so two
/// executions are enough to test batches.
const EMULATED_BATCH: u32 = 2;

/// Kernels to be timed in turn.
#[derive(Debug, Clone)]
pub struct PairedComparison<'a> {
    /// Identity of the incumbent.
    pub incumbent: Digest,
    /// Incumbent and candidate, and the anchor where it is not the incumbent.
    pub images: BTreeMap<TimedKernel, RunnableImage>,
    /// The score cases by name, each in the states of the cache that are scored.
    pub cases: Vec<(String, TimedCase)>,
    /// The same cases with the cache in the state that is not scored. They are timed a few times,
    /// for the record. Jobs number them after the scored ones.
    pub unscored: Vec<(String, TimedCase)>,
    /// The digests of the candidate's outputs that the reference agreed with, by case and draw; absent
    /// where they were not compared.
    pub verified: BTreeMap<(String, usize), Digest>,
    /// The comparison of values where the task lets sums be taken in any order; `None` where it names no
    /// such output, so that bytes are compared.
    pub values: Option<ValueCheck<'a>>,
    /// The times of the task's baseline in earlier comparisons.
    pub history: HistoryFile,
    /// The key from which orders and poison are drawn.
    pub key: Key,
    /// The stage of the evaluation, which says if a promotion depends on it.
    pub stage: EvaluationStage,
    /// Thread instructions of one launch, on the emulated device.
    pub instructions: u64,
    /// The time after which no further process is begun; `None` if only the rounds are bounded.
    pub until: Option<Instant>,
    /// The roles.
    pub roles: Roles<'a>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The candidate's times.
    pub timing: Timing,
    /// The decision.
    pub comparison: Comparison,
    /// The measurement behind it.
    pub measurement: Measurement,
}

/// The assignment of kernels to the places of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelAssignment {
    /// Each kernel in its own place.
    Pair,
    /// The incumbent in the candidate's place too, so that every difference is noise.
    Control,
    /// The candidate in all places, so that no other kernel shares its process.
    Alone,
}

impl KernelAssignment {
    /// The kernel that runs in a contender's place.
    fn kernel_in(self, place: TimedKernel) -> TimedKernel {
        match self {
            Self::Pair => place,
            Self::Control => TimedKernel::Incumbent,
            Self::Alone => TimedKernel::Candidate,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Pair => "duel",
            Self::Control => "control",
            Self::Alone => "alone",
        }
    }
}

/// The rounds of some processes.
#[derive(Default)]
struct TimedRounds {
    rounds: Vec<Round>,
    /// Rounds in the state of the cache that is not scored.
    unscored: Vec<Round>,
    label: Option<String>,
    sets: Vec<u32>,
    warm_up: Vec<u32>,
}

impl PairedComparison<'_> {
    /// Measures and decides.
    ///
    /// # Errors
    /// [`Stop`] with a verdict on the candidate, or with a fault.
    pub(super) fn measure_and_decide(mut self) -> Result<Compared, Stop> {
        let locked = self.roles.host.lock_clocks();
        self.choose_batches()?;
        self.choose_unscored_batches();
        let confirming = self.stage.decides_promotion();
        let batches = self.cases.iter().map(|(_, case)| case.batch);
        let batches = batches.collect::<Vec<_>>();
        let now = SystemTime::now();
        let usual = self.history.usual_times(&batches, now);
        let further = |rounds: &[Round]| self.count_further_rounds(rounds, &usual);
        let (processes, wanted) = if confirming {
            let rounds = CONFIRMATION.pairs / 2;
            (CONFIRMATION.processes, RoundRequest::exactly(rounds))
        } else {
            let wanted = RoundRequest {
                first: ANALYSIS_PAIRS[0] / 2,
                most: ANALYSIS_PAIRS[ANALYSIS_PAIRS.len() - 1] / 2,
                more: &further,
                unscored: false,
            };
            (1, wanted)
        };
        let (mut taken, mut control, mut alone) = (
            TimedRounds::default(),
            TimedRounds::default(),
            TimedRounds::default(),
        );
        let once = RoundRequest {
            unscored: true,
            ..wanted
        };
        for process in 0..processes {
            let of_pair = if process == 0 { &once } else { &wanted };
            self.measure(KernelAssignment::Pair, process, of_pair, &mut taken)?;
            if confirming {
                // In turn with the other processes, so that all meet the same condition of the
                // device.
                self.measure(KernelAssignment::Control, process, &wanted, &mut control)?;
            }
            if confirming && process < ALTERNATIONS {
                self.measure(KernelAssignment::Alone, process, &wanted, &mut alone)?;
            }
        }
        let kept = self.select_valid_rounds(&taken, &usual)?;
        self.history
            .add_comparison(batches, self.baseline_us(&taken, &kept), now);
        let (settled, noise) = if confirming {
            self.confirm(&kept, &control)?
        } else {
            (self.screen(&kept)?, None)
        };
        let split = if confirming {
            Some(self.compare_separate_processes(&control, &alone, settled.evidence.interval)?)
        } else {
            None
        };
        let regressions = check_regressions(&kept.cases);
        let outcome = match settled.outcome {
            Outcome::Faster if regressions.iter().any(|case| case.blocks) => Outcome::NotFaster,
            other => other,
        };
        let evidence = &settled.evidence;
        Ok(Compared {
            timing: self.timing(&taken, |block| block.candidate_us),
            comparison: Comparison {
                outcome,
                ratio: evidence.effect.exp(),
                interval: exponential(evidence.interval),
            },
            measurement: Measurement {
                incumbent: self.incumbent,
                incumbent_timing: self.timing(&taken, |block| block.incumbent_us),
                analyses: count_analyses(&settled, confirming),
                anchor: Anchored {
                    ratio: statistics::effect(&kept.anchored).map_or(f64::NAN, f64::exp),
                    interval: exponential(statistics::interval(&kept.anchored, ALPHA)),
                    timing: self.images.contains_key(&TimedKernel::Anchor).then(|| {
                        self.timing(&taken, |block| block.anchor_us.unwrap_or([f64::NAN; 2]))
                    }),
                },
                settled,
                rounds: kept.whole,
                timed: count(taken.rounds.len()),
                discarded: kept
                    .discarded
                    .into_iter()
                    .map(|(round, reason)| DiscardedRound {
                        round: count(round),
                        reason,
                    })
                    .collect(),
                regressions,
                noise,
                split,
                watched: ConditionCoverage::of(&taken.rounds),
                locked: locked.is_some(),
                control: None,
                cases: self.protocol(&taken),
            },
        })
    }

    /// Chooses the batch of each case: cases that are too short for the clock are timed in batches.
    fn choose_batches(&mut self) -> Result<(), Stop> {
        let mut first = TimedRounds::default();
        self.measure(
            KernelAssignment::Pair,
            0,
            &RoundRequest::exactly(1),
            &mut first,
        )?;
        let most = match self.roles.host.device().kind {
            DeviceKind::Nvidia => u32::MAX,
            DeviceKind::Emulated => EMULATED_BATCH,
        };
        let l2_bytes = self.roles.host.device().l2_bytes;
        for (number, (_, case)) in self.cases.iter_mut().enumerate() {
            let blocks = first.rounds.iter().flat_map(|round| &round.blocks);
            let times = blocks
                .filter(|block| block.case == number)
                .flat_map(|block| block.incumbent_us.into_iter().chain(block.candidate_us));
            // No batch follows from a time that is missing; the rounds report the fault.
            let shortest = times.fold(f64::INFINITY, f64::min);
            let draws = u32::try_from(case.draws.len()).unwrap_or(u32::MAX);
            case.batch = statistics::batch_size(shortest, draws)
                .min(most)
                .min(max_batch(case, l2_bytes));
        }
        Ok(())
    }

    fn job(
        &self,
        assignment: KernelAssignment,
        with_unscored: bool,
        rounds: Vec<Vec<PlannedBlock>>,
        key: Key,
        outputs: Option<&Path>,
    ) -> TimeJob {
        let places = self
            .images
            .keys()
            .copied()
            .filter(|place| assignment == KernelAssignment::Pair || *place != TimedKernel::Anchor)
            .collect::<Vec<_>>();
        let unscored = self.unscored.iter().filter(|_| with_unscored);
        let cases = self
            .cases
            .iter()
            .chain(unscored)
            .map(|(_, case)| TimedCase {
                plans: places
                    .iter()
                    .map(|place| (*place, case.plans[&assignment.kernel_in(*place)].clone()))
                    .collect(),
                draws: case.draws.clone(),
                cache: case.cache,
                batch: case.batch,
            });
        let Key(seed) = key.derive(&["poison"]);
        let (word, _) = seed
            .bytes()
            .split_first_chunk::<8>()
            .expect("a digest has 32 bytes");
        TimeJob {
            images: places
                .iter()
                .map(|place| (*place, self.images[&assignment.kernel_in(*place)].clone()))
                .collect(),
            cases: cases.collect(),
            rounds,
            warm_up: match self.roles.host.device().kind {
                DeviceKind::Nvidia => WarmUp::MEASURED,
                DeviceKind::Emulated => WarmUp::MODELLED,
            },
            seconds: SECONDS,
            poison: u64::from_le_bytes(*word),
            disturber: self.roles.disturber.map(RunnableImage::from),
            instruction_budget: Some(self.instructions),
            threads: self.roles.host.threads(),
            order_dependent: self
                .values
                .as_ref()
                .zip(outputs)
                .map(|(values, folder)| values.outputs_in(folder)),
        }
    }

    fn protocol(&self, taken: &TimedRounds) -> Vec<CaseProtocol> {
        let cases = self.cases.iter().enumerate();
        cases
            .map(|(number, (name, case))| CaseProtocol {
                case: name.clone(),
                cache: case.cache,
                batch: case.batch,
                sets: taken.sets.get(number).copied().unwrap_or_default(),
                warm_up: taken.warm_up.get(number).copied().unwrap_or_default(),
                scatter: scatter(&ratios(&taken.rounds, number)),
            })
            .collect()
    }
}

fn exponential(interval: Interval) -> [f64; 2] {
    [interval.lower.exp(), interval.upper.exp()]
}

/// The log-ratios of all blocks of a case, invalid ones included.
fn ratios(rounds: &[Round], case: usize) -> Vec<f64> {
    let blocks = rounds.iter().flat_map(|round| &round.blocks);
    let own = blocks.filter(|block| block.case == case);
    own.map(Block::log_ratio)
        .filter(|ratio| ratio.is_finite())
        .collect()
}

/// The longest batch of a case for a cache of `l2_bytes`: with a warm cache all buffers of a batch
/// must fit.
fn max_batch(case: &TimedCase, l2_bytes: u64) -> u32 {
    match case.cache {
        CacheState::Cold => u32::MAX,
        CacheState::Warm => statistics::max_warm_batch(case.set_bytes(), l2_bytes),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
