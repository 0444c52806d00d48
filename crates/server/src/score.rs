//! Comparison of the emulated device's time model with recorded measurements of auto-tuners.
//!
//! The model is there to rank the variants of one kernel. So it is judged by the order in which it
//! puts configurations that somebody has timed on a real device, and by how much is lost when its
//! first choice is believed. Measurements come from Kernel Tuner's cache files ([`cache`]), the
//! kernel is compiled as Kernel Tuner compiles it ([`kernel`]), and both orders are compared.
//!
//! This module computes only; the command reads files and runs the device.

pub mod cache;
pub mod kernel;
pub mod parts;
pub mod sessions;
pub mod table;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use domain::statistics::{kendall, regret, spearman};
use serde::Serialize;

use crate::terminal::counted;

/// The result of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scored {
    /// The configuration's values in the cache's order, as its key there.
    pub key: String,
    /// Its recorded time, milliseconds.
    pub measured_ms: f64,
    /// The modelled time; none where the configuration cannot run here.
    pub modelled: Option<ModelledResult>,
    /// The reason why it cannot run here.
    pub refused: Option<String>,
}

/// The modelled time of a configuration and what bounds it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelledResult {
    /// The modelled time, microseconds.
    pub us: f64,
    /// The term that dominates.
    pub bottleneck: String,
    /// Its share of the time.
    pub share: f64,
    /// Thread instructions of the whole launch, as counted or scaled up from a sample.
    pub thread_instructions: u64,
    /// Standard error of the counts, as a fraction of them, where the blocks of a sampled grid differ in work.
    pub sampling_error: Option<f64>,
}

/// The comparison of modelled and measured times for one kernel on one device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// The session's name; the kernel's where none was given.
    pub session: String,
    /// The kernel.
    pub kernel: String,
    /// The device that was measured, as the cache names it.
    pub measured_on: String,
    /// The device that was modelled.
    pub modelled_as: String,
    /// Equal parts of the measured work, of which a modelled launch does one and another one two.
    pub parts: u32,
    /// The reason why the model had seen the session before its first score; none if it was held out.
    pub seen: Option<String>,
    /// Configurations of the cache without a time: those that failed when they were tuned.
    pub unmeasured: usize,
    /// Every configuration that was tried here, in the order of their keys.
    pub configurations: Vec<Scored>,
    /// The comparison; none with fewer than two configurations that ran.
    pub agreement: Option<Agreement>,
}

/// The comparison of two orders.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// Configurations with both times.
    pub configurations: usize,
    /// Spearman's rank correlation.
    pub spearman: f64,
    /// Kendall's tau-b.
    pub kendall: f64,
    /// Regret: the slow-down of the best of the model's first 1, 3 and 10 choices against the best
    /// of all, as a fraction.
    pub regret: BTreeMap<usize, f64>,
    /// The lowest, middle and highest ratio of modelled to measured time.
    pub ratio: [f64; 3],
}

/// Numbers of the model's first choices for which the regret is computed.
const CHOICES: [usize; 3] = [1, 3, 10];

impl Score {
    /// Compares modelled with measured times.
    pub fn compare(&mut self) {
        let (measured, modelled): (Vec<f64>, Vec<f64>) = self.both().unzip();
        if measured.len() < 2 {
            self.agreement = None;
            return;
        }
        let mut ratios = self.ratios().collect::<Vec<_>>();
        ratios.sort_by(f64::total_cmp);
        let last = ratios.len() - 1;
        self.agreement = Some(Agreement {
            configurations: measured.len(),
            spearman: spearman(&measured, &modelled),
            kendall: kendall(&measured, &modelled),
            regret: CHOICES
                .into_iter()
                .map(|choices| (choices, regret(&measured, &modelled, choices)))
                .collect(),
            ratio: [ratios[0], ratios[last / 2], ratios[last]],
        });
    }

    /// Measured milliseconds with modelled microseconds.
    fn both(&self) -> impl Iterator<Item = (f64, f64)> {
        self.configurations
            .iter()
            .filter_map(|scored| Some((scored.measured_ms, scored.modelled.as_ref()?.us)))
    }

    /// The ratios of modelled to measured time.
    fn ratios(&self) -> impl Iterator<Item = f64> {
        self.both()
            .map(|(measured_ms, us)| us / (measured_ms * 1e3))
    }

    /// The account for a person.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}, measured on {}, modelled as {}\n",
            self.session, self.measured_on, self.modelled_as
        );
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<14} {value}");
        };
        line(
            "configurations",
            format!(
                "{} measured and tried here, {} in the cache without a time",
                self.configurations.len(),
                self.unmeasured
            ),
        );
        if self.parts > 1 {
            let parts = self.parts;
            line(
                "work",
                format!("modelled from launches with 1 and 2 of its {parts} equal parts"),
            );
        }
        let refused = tally(
            self.configurations
                .iter()
                .filter_map(|scored| scored.refused.as_deref()),
        );
        if !refused.is_empty() {
            line("could not run", refused);
        }
        let modelled = self
            .configurations
            .iter()
            .filter_map(|it| it.modelled.as_ref());
        let errors: Vec<f64> = modelled.filter_map(|one| one.sampling_error).collect();
        if !errors.is_empty() {
            let most = errors.iter().copied().fold(0.0, f64::max);
            line(
                "sampling",
                format!(
                    "blocks differ in work in {}; standard error of their counts at most {:.0} %",
                    counted(errors.len() as u64, "configuration", "configurations"),
                    100.0 * most
                ),
            );
        }
        let Some(agreement) = &self.agreement else {
            line(
                "score",
                "none: fewer than two configurations ran".to_owned(),
            );
            return text;
        };
        line(
            "rank",
            format!(
                "Spearman {:.3}, Kendall {:.3} over {} configurations",
                agreement.spearman, agreement.kendall, agreement.configurations
            ),
        );
        let regrets = agreement.regret.iter().map(|(choices, regret)| {
            let of = if *choices == 1 {
                "first choice".to_owned()
            } else {
                format!("best of {choices}")
            };
            format!("{of} {:.1} % slower than the best", regret * 100.0)
        });
        line("regret", regrets.collect::<Vec<_>>().join("; "));
        let [lowest, middle, highest] = agreement.ratio;
        line(
            "modelled",
            format!("{middle:.2} of the measured time in the middle, {lowest:.2} to {highest:.2}"),
        );
        let bottlenecks = self
            .configurations
            .iter()
            .filter_map(|scored| Some(scored.modelled.as_ref()?.bottleneck.as_str()));
        line("bottlenecks", tally(bottlenecks));
        text
    }
}

/// Words with how often each comes, most frequent first.
fn tally<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let parts = counts
        .into_iter()
        .map(|(word, count)| format!("{word} ({count})"));
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn scored(key: &str, measured_ms: f64, modelled: Result<f64, &str>) -> Scored {
        Scored {
            key: key.to_owned(),
            measured_ms,
            refused: modelled.err().map(str::to_owned),
            modelled: modelled.ok().map(|us| ModelledResult {
                us,
                bottleneck: if us < 1500.0 { "issue" } else { "fp64" }.to_owned(),
                share: 0.9,
                thread_instructions: 1000,
                sampling_error: (us >= 2000.0).then_some(0.08),
            }),
        }
    }

    pub(super) fn session(name: &str, configurations: Vec<Scored>) -> Score {
        let mut score = Score {
            session: name.to_owned(),
            kernel: name.to_owned(),
            measured_on: "a device".to_owned(),
            modelled_as: "its model".to_owned(),
            parts: 1,
            seen: None,
            unmeasured: 2,
            configurations,
            agreement: None,
        };
        score.compare();
        score
    }

    #[test]
    fn only_what_runs_on_both_sides_is_compared() {
        let score = session(
            "made_up",
            vec![
                scored("1", 1.0, Ok(1600.0)),
                scored("2", 2.0, Ok(1000.0)),
                scored("3", 0.1, Err("the assembler refused it")),
                scored("4", 4.0, Ok(2000.0)),
            ],
        );
        let agreement = score.agreement.as_ref().unwrap();
        assert_eq!(agreement.configurations, 3);
        // The first two are the wrong way round.
        assert!((agreement.spearman - 0.5).abs() < 1e-12);
        assert!((agreement.kendall - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!(
            agreement.regret,
            BTreeMap::from([(1, 1.0), (3, 0.0), (10, 0.0)])
        );
        assert_eq!(agreement.ratio, [0.5, 0.5, 1.6]);
        let text = score.text();
        for part in [
            "made_up, measured on a device, modelled as its model",
            "4 measured and tried here, 2 in the cache without a time",
            "the assembler refused it (1)",
            "Spearman 0.500, Kendall 0.333 over 3 configurations",
            "first choice 100.0 % slower than the best",
            "fp64 (2), issue (1)",
            "blocks differ in work in 1 configuration; standard error of their counts at most 8 %",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn one_configuration_has_no_order() {
        let score = session("made_up", vec![scored("1", 1.0, Ok(1600.0))]);
        assert_eq!(score.agreement, None);
        assert!(score.text().contains("none: fewer than two"));
    }
}
