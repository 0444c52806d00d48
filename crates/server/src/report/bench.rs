//! The benchmark of a kernel beside its task's baseline, with the occupancy of its launches.

use domain::device::Device;
use domain::evaluation::{CaseLaunches, GateOutcome, StageTime};
use domain::occupancy::{Occupancy, occupancy};
use domain::role::KernelResources;
use domain::timing::{CacheState, CaseTime, Timing};
use domain::verdict::{Comparison, Outcome, Verdict};
use serde::Serialize;
use worker::evaluate::{CandidateTimes, PartialEvaluation, RivalOutcome, Rivalry};

use super::{against, took};
use crate::evaluation_text;
use crate::terminal::{columns, labelled_time, plain};

/// A benchmark.
#[derive(Debug, Serialize)]
pub struct Benched {
    /// The verdict that rejects the kernel, if one does; then there are no times.
    pub against: Option<Verdict>,
    /// Each score case, in each state of the cache that is scored.
    pub cases: Vec<BenchCase>,
    /// Each score case in the state of the cache that is not scored, without its launches, which
    /// are the same.
    pub unscored: Vec<BenchCase>,
    /// Baseline over kernel, geometric mean over the score cases, with its interval.
    pub speedup: Option<Comparison>,
    /// Other solutions of the task.
    pub rivals: Rivals,
    /// True if the times are modelled.
    pub modelled: bool,
    /// The calibration label of the time model.
    pub label: Option<String>,
    /// True if the kernel takes little more time than launching an empty kernel.
    pub launch_bound: bool,
    /// Each launched kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Gates, with the values measured at the launches.
    pub gates: Vec<GateOutcome>,
    /// Duration of each stage.
    pub stages: Vec<StageTime>,
}

/// The task's rivals.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Rivals {
    /// Their number, where their times were not asked for.
    NotAsked(usize),
    /// The result of each.
    Asked(Vec<Rivalry>),
}

/// One score case.
#[derive(Debug, Serialize)]
pub struct BenchCase {
    /// Its name.
    pub case: String,
    /// The state of the cache that it begins with.
    pub cache: CacheState,
    /// The kernel's time, microseconds.
    pub us: f64,
    /// The baseline's time, microseconds.
    pub baseline_us: f64,
    /// Baseline over kernel.
    pub speedup: f64,
    /// The launches as they ran.
    pub launches: Vec<BenchLaunch>,
}

/// One launch as it ran.
#[derive(Debug, Serialize)]
pub struct BenchLaunch {
    /// The kernel.
    pub kernel: String,
    /// Blocks, as the driver was given them.
    pub blocks: u64,
    /// Blocks over the device's multiprocessors.
    pub blocks_per_sm: f64,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Occupancy of a multiprocessor by this launch.
    pub occupancy: Option<Occupancy>,
}

impl Benched {
    /// Makes the report from a partial evaluation.
    pub fn new(looked: PartialEvaluation, timed: Option<CandidateTimes>, device: &Device) -> Self {
        let launches = |case: &str| {
            let ran = looked.launches.iter().find(|ran| ran.case == case);
            ran.map(|ran| seen(ran, &looked.kernels, device))
                .unwrap_or_default()
        };
        let beside = |own: Vec<CaseTime<'_>>, baseline: Vec<CaseTime<'_>>| {
            let both = own.into_iter().zip(baseline);
            let same = both.filter(|(a, b)| (a.case, a.cache) == (b.case, b.cache));
            let cases = same.map(|(own, baseline)| BenchCase {
                case: own.case.to_owned(),
                cache: own.cache,
                us: own.us,
                baseline_us: baseline.us,
                speedup: baseline.us / own.us,
                launches: Vec::new(),
            });
            cases.collect::<Vec<_>>()
        };
        let (mut cases, unscored) = timed.as_ref().map_or_else(Default::default, |timed| {
            (
                beside(timed.timing.cases(), timed.baseline.cases()),
                beside(timed.timing.unscored(), timed.baseline.unscored()),
            )
        });
        for case in &mut cases {
            case.launches = launches(&case.case);
        }
        let label = timed.as_ref().and_then(|timed| match &timed.timing {
            Timing::Modelled { label, .. } => Some(label.clone()),
            Timing::Measured { .. } => None,
        });
        Self {
            cases,
            unscored,
            rivals: Rivals::NotAsked(0),
            modelled: label.is_some(),
            label,
            launch_bound: timed.as_ref().is_some_and(|timed| timed.launch_bound),
            speedup: timed.map(|timed| timed.comparison),
            against: looked.against,
            kernels: looked.kernels,
            gates: looked.gates,
            stages: looked.stages,
        }
    }
}

fn seen(ran: &CaseLaunches, kernels: &[KernelResources], device: &Device) -> Vec<BenchLaunch> {
    let launches = ran.launches.iter().map(|launch| {
        let blocks = launch.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        let threads = launch.block.iter().product::<u32>();
        let resources = kernels.iter().find(|of| of.kernel == launch.kernel);
        #[expect(clippy::cast_precision_loss, reason = "a ratio to read")]
        let blocks_per_sm = blocks as f64 / f64::from(device.limits.sm_count.max(1));
        BenchLaunch {
            kernel: launch.kernel.clone(),
            blocks,
            blocks_per_sm,
            threads,
            shared_bytes: launch.shared_bytes,
            occupancy: resources
                .map(|resources| occupancy(resources, threads, launch.shared_bytes, device)),
        }
    });
    launches.collect()
}

fn comparison_text(speedup: &Comparison, whom: &str) -> String {
    let outcome = match speedup.outcome {
        Outcome::Faster => format!("faster than {whom}"),
        Outcome::NotFaster => format!("not faster than {whom}"),
        Outcome::Unresolved => "not decided within the budget".to_owned(),
    };
    format!(
        "{:.3}x, between {:.3}x and {:.3}x: {outcome}",
        speedup.ratio, speedup.interval[0], speedup.interval[1]
    )
}

fn rivals(text: &mut String, benched: &Benched) {
    let found = match &benched.rivals {
        Rivals::NotAsked(0) => return,
        Rivals::NotAsked(count) => {
            text.push_str(&format!(
                "rivals     {count}, not timed: --rivals times them\n"
            ));
            return;
        }
        Rivals::Asked(found) => found,
    };
    for rival in found {
        let what = rival.what.as_deref().map(plain).unwrap_or_default();
        let name = format!("rival      {} {what}", plain(&rival.file));
        text.push_str(name.trim_end());
        text.push('\n');
        match &rival.outcome {
            RivalOutcome::NotRun { reason } => {
                text.push_str(&format!("           not run: {}\n", plain(reason)));
            }
            RivalOutcome::Timed {
                cases,
                speedup,
                claimed,
            } => {
                let rows = cases.iter().map(|case| {
                    vec![
                        plain(&case.case),
                        format!("rival {}", labelled_time(case.us, benched.modelled)),
                        format!(
                            "this {}",
                            labelled_time(case.candidate_us, benched.modelled)
                        ),
                        format!("{:.3}x", case.us / case.candidate_us),
                    ]
                });
                text.push_str(&columns(&rows.collect::<Vec<_>>(), 11));
                let suffix = comparison_text(speedup, "this rival");
                let by = if *claimed { ", by its own clock" } else { "" };
                text.push_str(&format!("           {suffix}{by}\n"));
            }
        }
    }
}

/// Renders a benchmark for a terminal.
pub fn text(benched: &Benched, device: &Device) -> String {
    let mut text = String::new();
    against(
        &mut text,
        benched.against.as_ref(),
        "nothing on the score cases",
    );
    let mut rows = Vec::new();
    let row = |case: &BenchCase, suffix: &str| {
        vec![
            plain(&case.cache.name_of(&case.case)),
            labelled_time(case.us, benched.modelled),
            format!(
                "baseline {}",
                labelled_time(case.baseline_us, benched.modelled)
            ),
            format!("{:.3}x{suffix}", case.speedup),
        ]
    };
    for case in &benched.cases {
        rows.push(row(case, ""));
        for launch in &case.launches {
            rows.push(vec![
                format!("  {}", plain(&launch.kernel)),
                format!("{} CTAs, {:.1} per SM", launch.blocks, launch.blocks_per_sm),
                format!(
                    "{} threads, {} B shared",
                    launch.threads, launch.shared_bytes
                ),
                launch.occupancy.map_or_else(String::new, |held| {
                    format!(
                        "{} of {} warps resident, limited by {}",
                        held.warps,
                        held.warps_limit,
                        held.limited_by.as_str()
                    )
                }),
            ]);
        }
    }
    rows.extend(
        benched
            .unscored
            .iter()
            .map(|case| row(case, ", not scored")),
    );
    if !rows.is_empty() {
        text.push_str("times\n");
        text.push_str(&columns(&rows, 11));
    }
    if let Some(speedup) = &benched.speedup {
        let suffix = comparison_text(speedup, "the baseline");
        text.push_str(&format!("speedup    {suffix}\n"));
    }
    rivals(&mut text, benched);
    if let Some(label) = &benched.label {
        text.push_str(&format!(
            "model      {}: no clock has seen these times\n",
            plain(label)
        ));
    }
    if benched.launch_bound {
        text.push_str("           little more than launching an empty kernel takes\n");
    }
    evaluation_text::gates(&mut text, &benched.gates);
    evaluation_text::resources(&mut text, &benched.kernels);
    super::device(&mut text, device);
    took(&mut text, &benched.stages);
    text
}
