//! A kernel's profile: metrics, suggestions, and the source with the counters of each line.

use std::collections::BTreeMap;

use domain::device::Device;
use domain::evaluation::StageTime;
use domain::role::LineCounters;
use domain::timing::ModelledLaunch;
use domain::tools::profile::{METRICS, Metric, RuleOutcome, Suggestion};
use domain::verdict::Verdict;
use serde::Serialize;
use worker::evaluate::Profiled;

use super::{against, took};
use crate::terminal::{columns, labelled_time, line, plain};

/// Characters of a source line that are shown.
const SOURCE_WIDTH: usize = 88;

/// A profile.
#[derive(Debug, Serialize)]
pub struct Profile {
    /// The verdict that kept the kernel from running, if one did.
    pub against: Option<Verdict>,
    /// Name of the profiler.
    pub by: String,
    /// Metrics that no tool here provides.
    pub missing: Vec<String>,
    /// Each score case.
    pub cases: Vec<ProfileCase>,
    /// Duration of each stage.
    pub stages: Vec<StageTime>,
}

/// One case.
#[derive(Debug, Serialize)]
pub struct ProfileCase {
    /// Its name.
    pub case: String,
    /// The reason why the case has no profile; then it has no launches.
    pub not_profiled: Option<String>,
    /// Its launches in order.
    pub launches: Vec<ProfileLaunch>,
}

/// One launch.
#[derive(Debug, Serialize)]
pub struct ProfileLaunch {
    /// The kernel.
    pub kernel: String,
    /// The model's time and what bounds it; on the emulated device only.
    pub modelled: Option<ModelledLaunch>,
    /// Every metric; null where it is not available.
    pub metrics: BTreeMap<&'static str, Option<f64>>,
    /// Every rule.
    pub triage: Vec<Suggestion>,
    /// Counters of each source line; on the emulated device only.
    pub lines: Vec<LineCounters>,
}

impl Profile {
    /// Makes the report from the evaluator's result.
    pub fn new(profiled: Profiled) -> Self {
        let cases = profiled.cases.into_iter().map(|case| {
            let (launches, not_profiled) = match case.launches {
                Ok(launches) => (launches, None),
                Err(reason) => (Vec::new(), Some(reason)),
            };
            let launches = launches.into_iter().map(|launch| ProfileLaunch {
                kernel: launch.kernel,
                modelled: launch.facts.and_then(|facts| facts.modelled),
                metrics: METRICS
                    .iter()
                    .map(|metric| (metric.id, launch.values.get(metric.id).copied()))
                    .collect(),
                triage: launch.triage,
                lines: launch.lines,
            });
            ProfileCase {
                case: case.case,
                not_profiled,
                launches: launches.collect(),
            }
        });
        Self {
            cases: cases.collect(),
            against: profiled.partial.against,
            by: profiled.by,
            missing: profiled.missing,
            stages: profiled.partial.stages,
        }
    }

    /// The first reason why a case has no profile.
    pub fn not_profiled(&self) -> Option<&str> {
        let mut reasons = self.cases.iter().map(|case| case.not_profiled.as_deref());
        reasons.find_map(|reason| reason)
    }
}

/// Renders it for a terminal: the numbers of every case, and the listing of the one that takes longest.
pub fn text(profile: &Profile, source: &str, device: &Device) -> String {
    let mut text = summary(profile);
    listing(&mut text, profile, source);
    text.push_str(&format!("by         {}\n", plain(&profile.by)));
    super::device(&mut text, device);
    took(&mut text, &profile.stages);
    text
}

/// The numbers of every case.
pub fn summary(profile: &Profile) -> String {
    let mut text = String::new();
    if profile.against.is_some() {
        against(&mut text, profile.against.as_ref(), "");
    }
    for case in &profile.cases {
        text.push_str(&format!("case       {}\n", plain(&case.case)));
        if let Some(reason) = &case.not_profiled {
            text.push_str(&format!("           NOT PROFILED: {}\n", line(reason, 400)));
        }
        for launch in &case.launches {
            numbers(&mut text, launch);
        }
    }
    text
}

fn numbers(text: &mut String, launch: &ProfileLaunch) {
    text.push_str(&format!("  {}\n", plain(&launch.kernel)));
    if let Some(model) = &launch.modelled {
        text.push_str(&format!(
            "           {}, {:.0}% of it bound by {}\n",
            labelled_time(model.us, true),
            100.0 * model.share,
            plain(&model.bottleneck)
        ));
    }
    let rows = METRICS.iter().map(|metric| {
        let value = launch.metrics.get(metric.id).copied().flatten();
        let value = value.map_or_else(|| "n/a".to_owned(), |value| shown(metric, value));
        vec![metric.title.to_owned(), value]
    });
    text.push_str(&columns(&rows.collect::<Vec<_>>(), 11));
    for suggestion in &launch.triage {
        match &suggestion.applies {
            RuleOutcome::Yes { advice } => {
                text.push_str(&format!("  -> {}: {advice}\n", suggestion.rule));
            }
            RuleOutcome::Unknown { missing } => text.push_str(&format!(
                "   ? {}: not known without {}\n",
                suggestion.rule,
                missing.join(", ")
            )),
            RuleOutcome::No => {}
        }
    }
}

fn shown(metric: &Metric, value: f64) -> String {
    let unit = metric.unit;
    if value.fract() == 0.0 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.2} {unit}")
    }
}

/// The source with the counters of each line, on the case whose launches took longest.
fn listing(text: &mut String, profile: &Profile, source: &str) {
    let tallies = profile
        .cases
        .iter()
        .map(|case| (case, tally(case)))
        .max_by_key(|(_, tally)| tally.values().map(|line| line.instructions).sum::<u64>());
    let Some((case, tally)) = tallies.filter(|(_, tally)| !tally.is_empty()) else {
        return;
    };
    let all = tally.values().map(|line| line.instructions).sum::<u64>();
    text.push_str(&format!(
        "source     what each line took on {}: share of {all} warp instructions; sectors and \
         bank passes beyond the fewest possible\n",
        plain(&case.case)
    ));
    for (number, line_text) in (1_u32..).zip(source.lines()) {
        let took = tally.get(&number);
        let share = took.map(|line| {
            #[expect(clippy::cast_precision_loss, reason = "a share to read")]
            let share = 100.0 * line.instructions as f64 / all as f64;
            format!("{share:5.1}%")
        });
        let excess = took.map(LineTally::excess).unwrap_or_default();
        let shown: String = plain(&line_text.replace('\t', "    "))
            .chars()
            .take(SOURCE_WIDTH)
            .collect();
        let row = format!(
            "{:>6} {excess:<18} {number:>4} | {shown}",
            share.unwrap_or_default()
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
}

/// One line over all launches of a case.
#[derive(Debug, Default)]
struct LineTally {
    instructions: u64,
    sectors: u64,
    passes: u64,
}

impl LineTally {
    /// Possible savings, as far as they fit.
    fn excess(&self) -> String {
        let mut words = Vec::new();
        if self.sectors > 0 {
            words.push(format!("+{} sect", self.sectors));
        }
        if self.passes > 0 {
            words.push(format!("+{} bank", self.passes));
        }
        words.join(" ")
    }
}

fn tally(case: &ProfileCase) -> BTreeMap<u32, LineTally> {
    let mut tally: BTreeMap<u32, LineTally> = BTreeMap::new();
    for line in case.launches.iter().flat_map(|launch| &launch.lines) {
        let count = |name: &str| line.counters.get(name).copied().unwrap_or_default();
        let beyond = |found: &str, ideal: &str| count(found).saturating_sub(count(ideal));
        let entry = tally.entry(line.line).or_default();
        entry.instructions += count("warp_instructions");
        entry.sectors += beyond("global.sectors_read", "global.sectors_read_ideal")
            + beyond("global.sectors_written", "global.sectors_written_ideal");
        entry.passes += beyond("shared.wavefronts", "shared.wavefronts_ideal");
    }
    tally
}
