//! Views of two candidates, or of two runs, side by side.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CandidateSummary, DiffLine, RunView};
use crate::digest::Digest;
use crate::evaluation::{CaseLaunches, Evaluation};
use crate::id::{CandidateId, RunId};
use crate::model::Dollars;
use crate::occupancy::occupancy;
use crate::role::{KernelResources, LaunchFacts};
use crate::timing::{CacheState, Timing};

/// Two candidates side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CandidateComparison {
    /// The first candidate.
    pub left: ComparedCandidate,
    /// The second.
    pub right: ComparedCandidate,
    /// The reason why their times do not compare; none where they do.
    pub incomparable: Option<String>,
    /// The left candidate's time over the right one's, geometric mean over what is scored: above 1
    /// where the right one is faster. From each one's own evaluation, so that no interval belongs to it.
    pub ratio: Option<f64>,
    /// Times of each case and state of the cache.
    pub times: Vec<ComparedTime>,
    /// Resources of each kernel, by name.
    pub kernels: Vec<ComparedKernel>,
    /// Launches of each score case, in order.
    pub launches: Vec<ComparedLaunch>,
    /// The lines of both sources: removed ones are the left candidate's, added ones the right one's.
    pub diff: Vec<DiffLine>,
}

/// One of two candidates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedCandidate {
    /// Its run.
    pub run: RunId,
    /// Its task.
    pub task: String,
    /// The candidate as lists show it.
    #[serde(flatten)]
    pub summary: CandidateSummary,
    /// Version of the task that it was evaluated on.
    pub task_version: Option<Digest>,
    /// Name of the device that it was evaluated on.
    pub device: Option<String>,
    /// The compiler.
    pub toolchain: Option<String>,
    /// Interval of its speedup over the baseline, where both were timed beside each other.
    pub speedup_interval: Option<[f64; 2]>,
}

/// A time of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TimeValue {
    /// Microseconds: the median of a measured time, or the modelled time.
    pub us: f64,
    /// Quartiles of the samples; none where the time is modelled.
    pub quartiles_us: Option<[f64; 2]>,
    /// Executions timed; none where the time is modelled.
    pub samples: Option<u32>,
}

/// The times of one case with the cache in one state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedTime {
    /// The case.
    pub case: String,
    /// The state of the cache.
    pub cache: CacheState,
    /// The left candidate's time.
    pub left: Option<TimeValue>,
    /// The right candidate's.
    pub right: Option<TimeValue>,
    /// The left time over the right one, where they compare.
    pub ratio: Option<f64>,
}

/// The resources of the kernels of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedKernel {
    /// The kernel.
    pub kernel: String,
    /// The left candidate's.
    pub left: Option<KernelResources>,
    /// The right candidate's.
    pub right: Option<KernelResources>,
}

/// A launch with the warps that can be resident.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OccupiedLaunch {
    /// The launch.
    #[serde(flatten)]
    pub launch: LaunchFacts,
    /// Warps that can be resident on a multiprocessor, as a share of the most that it holds; computed
    /// from resources and device. None where these are not known.
    pub occupancy: Option<f64>,
    /// The resource that limits it.
    pub limited_by: Option<String>,
}

/// The launches at one position of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedLaunch {
    /// The case.
    pub case: String,
    /// The left candidate's.
    pub left: Option<OccupiedLaunch>,
    /// The right candidate's.
    pub right: Option<OccupiedLaunch>,
}

/// Two evaluations side by side: their times, resources and launches.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedEvaluations {
    /// The reason why their times do not compare; none where they do.
    pub incomparable: Option<String>,
    /// The left time over the right one.
    pub ratio: Option<f64>,
    /// Times of each case.
    pub times: Vec<ComparedTime>,
    /// Resources of each kernel.
    pub kernels: Vec<ComparedKernel>,
    /// Launches of each case.
    pub launches: Vec<ComparedLaunch>,
}

impl ComparedEvaluations {
    /// Compares two evaluations. Modelled and measured times, and times of different tasks, devices or
    /// models, stand beside each other without a ratio.
    pub fn of(left: Option<&Evaluation>, right: Option<&Evaluation>) -> Self {
        let incomparable = why_incomparable(left, right);
        let (one, other) = (timing(left), timing(right));
        let ratio = one
            .zip(other)
            .filter(|_| incomparable.is_none())
            .and_then(|(left, right)| right.speedup_over(left));
        let mut times = Vec::new();
        for (case, cache) in both(&times_of(one), &times_of(other), |(place, _)| place.clone()) {
            let find = |timing| {
                let mut found = times_of(timing).into_iter();
                found.find_map(|((own, state), value)| {
                    (own == case && state == cache).then_some(value)
                })
            };
            let (left, right): (Option<TimeValue>, Option<TimeValue>) = (find(one), find(other));
            let ratio = left
                .as_ref()
                .zip(right.as_ref())
                .filter(|_| incomparable.is_none())
                .map(|(left, right)| left.us / right.us);
            times.push(ComparedTime {
                case,
                cache,
                left,
                right,
                ratio,
            });
        }
        Self {
            incomparable,
            ratio,
            times,
            kernels: kernels(left, right),
            launches: launches(left, right),
        }
    }
}

fn timing(evaluation: Option<&Evaluation>) -> Option<&Timing> {
    Some(&evaluation?.verdict.acceptance()?.timing)
}

fn why_incomparable(left: Option<&Evaluation>, right: Option<&Evaluation>) -> Option<String> {
    let (Some(left), Some(right)) = (left, right) else {
        return Some("one of them was not evaluated".to_owned());
    };
    let (Some(one), Some(other)) = (timing(Some(left)), timing(Some(right))) else {
        return Some(
            "one of them was not accepted, and only accepted candidates have times".to_owned(),
        );
    };
    if left.task_version != right.task_version {
        return Some("they were evaluated on different versions of a task".to_owned());
    }
    let device =
        |evaluation: &Evaluation| evaluation.device.as_ref().map(|device| device.name.clone());
    if one.is_modelled() != other.is_modelled() {
        return Some("one time is measured and the other modelled".to_owned());
    }
    if device(left) != device(right) {
        return Some("they were evaluated on different devices".to_owned());
    }
    let compares = other.speedup_over(one).is_some();
    (!compares).then(|| "their times are not of the same cases and model".to_owned())
}

type Timed = ((String, CacheState), TimeValue);

fn times_of(timing: Option<&Timing>) -> Vec<Timed> {
    match timing {
        None => Vec::new(),
        Some(Timing::Measured { cases, unscored }) => cases
            .iter()
            .chain(unscored)
            .map(|time| {
                let value = TimeValue {
                    us: time.median_us,
                    quartiles_us: Some(time.quartiles_us),
                    samples: Some(time.samples),
                };
                ((time.case.clone(), time.cache), value)
            })
            .collect(),
        Some(Timing::Modelled {
            cases, unscored, ..
        }) => cases
            .iter()
            .chain(unscored)
            .map(|time| {
                let value = TimeValue {
                    us: time.us,
                    quartiles_us: None,
                    samples: None,
                };
                ((time.case.clone(), time.cache), value)
            })
            .collect(),
    }
}

/// The keys of both lists: those of the left one in its order, then those that only the right one has.
fn both<T, K: PartialEq>(left: &[T], right: &[T], key: impl Fn(&T) -> K) -> Vec<K> {
    let mut keys: Vec<K> = Vec::new();
    for item in left.iter().chain(right) {
        let key = key(item);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

fn kernels(left: Option<&Evaluation>, right: Option<&Evaluation>) -> Vec<ComparedKernel> {
    let of = |evaluation: Option<&Evaluation>| {
        evaluation
            .map(|evaluation| evaluation.kernels.clone())
            .unwrap_or_default()
    };
    let (left, right) = (of(left), of(right));
    let find = |kernels: &[KernelResources], name: &str| {
        kernels.iter().find(|kernel| kernel.kernel == name).cloned()
    };
    both(&left, &right, |kernel| kernel.kernel.clone())
        .into_iter()
        .map(|kernel| ComparedKernel {
            left: find(&left, &kernel),
            right: find(&right, &kernel),
            kernel,
        })
        .collect()
}

fn launches(left: Option<&Evaluation>, right: Option<&Evaluation>) -> Vec<ComparedLaunch> {
    let of = |evaluation: Option<&Evaluation>| {
        evaluation
            .map(|evaluation| evaluation.launches.clone())
            .unwrap_or_default()
    };
    let (ours, theirs) = (of(left), of(right));
    let find = |cases: &[CaseLaunches], name: &str| {
        let case = cases.iter().find(|case| case.case == name);
        case.map(|case| case.launches.clone()).unwrap_or_default()
    };
    let mut compared = Vec::new();
    for case in both(&ours, &theirs, |case| case.case.clone()) {
        let (mut one, mut other) = (
            find(&ours, &case).into_iter(),
            find(&theirs, &case).into_iter(),
        );
        loop {
            let (one, other) = (one.next(), other.next());
            if one.is_none() && other.is_none() {
                break;
            }
            compared.push(ComparedLaunch {
                case: case.clone(),
                left: one.map(|launch| OccupiedLaunch::of(launch, left)),
                right: other.map(|launch| OccupiedLaunch::of(launch, right)),
            });
        }
    }
    compared
}

impl OccupiedLaunch {
    fn of(launch: LaunchFacts, evaluation: Option<&Evaluation>) -> Self {
        let found = evaluation.and_then(|evaluation| {
            let mut kernels = evaluation.kernels.iter();
            let kernel = kernels.find(|kernel| kernel.kernel == launch.kernel)?;
            let threads = launch.block.iter().product();
            let device = evaluation.device.as_ref()?;
            Some(occupancy(kernel, threads, launch.shared_bytes, device))
        });
        Self {
            occupancy: found
                .map(|found| f64::from(found.warps) / f64::from(found.warps_limit.max(1))),
            limited_by: found.map(|found| found.limited_by.as_str().to_owned()),
            launch,
        }
    }
}

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunComparison {
    /// The first run.
    pub left: ComparedRun,
    /// The second.
    pub right: ComparedRun,
    /// The reason why their speedups do not compare; none where they do.
    pub incomparable: Option<String>,
    /// The number of trials that both have made.
    pub equal_trials: u32,
}

/// One of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ComparedRun {
    /// The run.
    pub run: RunView,
    /// Name of the device that its jobs are for; none before the first one was leased.
    pub device: Option<String>,
    /// The candidates that were faster than all before them.
    pub curve: Vec<CurvePoint>,
    /// The best speedup within the trials that both runs have made.
    pub best_at_equal_trials: Option<f64>,
}

/// A candidate that was faster than all before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// Trials up to and including it; 0 is the baseline.
    pub trial: u32,
    /// The candidate.
    pub candidate: CandidateId,
    /// Its position in the run.
    pub ordinal: u32,
    /// The baseline's time over its own.
    pub speedup: f64,
    /// Cost of the candidates up to it, where the request asks for it.
    pub spent: Option<CandidatesCost>,
}

/// The cost of some of a run's candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CandidatesCost {
    /// Price of the answers that they were made of, as far as prices are known.
    pub dollars: Dollars,
    /// Milliseconds for which devices evaluated them.
    pub device_ms: u64,
}

impl RunComparison {
    /// Compares two runs by their curves.
    pub fn of(mut left: ComparedRun, mut right: ComparedRun) -> Self {
        let equal_trials = left.run.trials.min(right.run.trials);
        for side in [&mut left, &mut right] {
            let mut within = side.curve.iter().rev();
            let best = within.find(|point| point.trial <= equal_trials);
            side.best_at_equal_trials = best.map(|point| point.speedup);
        }
        let kind = |side: &ComparedRun| side.run.best.as_ref().map(|best| best.modelled);
        let incomparable = if left.run.task_version != right.run.task_version {
            Some("they search for kernels of different tasks or versions")
        } else if let (Some(one), Some(other)) = (kind(&left), kind(&right))
            && one != other
        {
            Some("one run's times are measured and the other's modelled")
        } else if left.device != right.device {
            Some("they ran on different devices")
        } else {
            None
        };
        Self {
            incomparable: incomparable.map(str::to_owned),
            equal_trials,
            left,
            right,
        }
    }
}
