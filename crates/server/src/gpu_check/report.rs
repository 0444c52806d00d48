//! The report of a check, as text, as JSON and as Markdown.

use std::fmt::Write as _;

use domain::device::Device;
use domain::statistics::spearman;
use serde::Serialize;
use worker::host::Host;

use super::corpus::{CaseEnd, CaseRow};
use super::questions::Answer;
use super::suite::{KernelRow, VerdictAgreement};
use super::{Options, images::Origin};
use crate::terminal::{columns, line};

/// The parts of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The corpus on both drivers.
    Corpus,
    /// The tasks' kernels against their stated verdicts.
    Suite,
    /// The questions that only silicon answers.
    Questions,
}

/// The report of a check.
#[derive(Debug, Serialize)]
pub struct GpuCheckReport {
    /// This program's version.
    pub version: &'static str,
    /// The day, UTC.
    pub date: String,
    /// The device under test.
    pub device: Device,
    /// The emulated device that it was compared with.
    pub emulated: Device,
    /// True if the device under test is also the emulated one.
    pub self_check: bool,
    /// The compiler of the images.
    pub toolchain: String,
    /// The corpus.
    pub corpus: Vec<CaseRow>,
    /// The tasks' kernels.
    pub suite: Vec<KernelRow>,
    /// The questions.
    pub questions: Vec<Answer>,
    /// Cases that ended differently on the two drivers, and kernels that one accepts and the
    /// other rejects. The goal is none.
    pub disagreements: usize,
    /// Cases that did not end as they must on one of the drivers, and kernels without a verdict.
    pub failures: usize,
    /// Rank correlation of modelled and measured times over the launches of the corpus.
    pub corpus_rank: Option<f64>,
    /// Rank correlation of modelled and measured times over the kernels of a task on one case, the
    /// mean over tasks and cases.
    pub suite_rank: Option<f64>,
}

impl GpuCheckReport {
    pub(super) fn new(checked: &Host, emulated: &Host, options: &Options) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            date: today(),
            device: checked.device().clone(),
            emulated: emulated.device().clone(),
            self_check: options.emulated,
            toolchain: checked.toolchain().to_owned(),
            corpus: Vec::new(),
            suite: Vec::new(),
            questions: Vec::new(),
            disagreements: 0,
            failures: 0,
            corpus_rank: None,
            suite_rank: None,
        }
    }

    /// Counts, once everything is there.
    pub(super) fn conclude(&mut self) {
        let apart = self.corpus.iter().filter(|row| !row.agree).count();
        let suite = |standing: VerdictAgreement| {
            self.suite
                .iter()
                .filter(|row| row.standing == standing)
                .count()
        };
        self.disagreements = apart + suite(VerdictAgreement::Disagree);
        let unlike = self.corpus.iter().filter(|row| row.agree && !row.right);
        self.failures = unlike.count();
        let launches: Vec<(f64, f64)> = self
            .corpus
            .iter()
            .flat_map(|row| &row.launches)
            .filter_map(|times| Some((times.modelled_us?, times.measured_us?)))
            .collect();
        self.corpus_rank = correlation(&launches);
        self.suite_rank = self.mean_rank();
    }

    /// The mean over tasks and their cases of how the model ranks the kernels.
    fn mean_rank(&self) -> Option<f64> {
        let mut groups: std::collections::BTreeMap<(&str, &str), Vec<(f64, f64)>> =
            std::collections::BTreeMap::new();
        for row in &self.suite {
            for times in &row.times {
                groups
                    .entry((row.task.as_str(), times.case.as_str()))
                    .or_default()
                    .push((times.modelled_us, times.measured_us));
            }
        }
        let ranks: Vec<f64> = groups
            .values()
            .filter_map(|pairs| correlation(pairs))
            .collect();
        (!ranks.is_empty()).then(|| ranks.iter().sum::<f64>() / ranks.len() as f64)
    }

    /// The file that this belongs to under `docs/measurements/`.
    pub fn file_name(&self) -> String {
        let device: String = self
            .device
            .name
            .to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        format!("{device}-{}.md", self.date)
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let head = [
            ("device", self.device.to_string()),
            ("compared", self.emulated.to_string()),
            ("driver", version(self.device.driver_version)),
            ("toolchain", self.toolchain.clone()),
            ("date", self.date.clone()),
        ];
        for (name, value) in head {
            let _infallible = writeln!(text, "{name:10} {value}");
        }
        if self.self_check {
            text.push_str(
                "           the emulated driver compared with itself: no statement about silicon\n",
            );
        }
        for (title, body) in self.sections() {
            let _infallible = write!(text, "\n{title}\n\n{body}");
        }
        let _infallible = write!(text, "\n{}\n", self.last_line());
        text
    }

    /// The report for the record.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "# {} on {}\n\nMade by `kernelwright gpu-check`, version {}. Device: {}. Driver {}. Compiler: {}. Compared with: {}.\n",
            self.device.name,
            self.date,
            self.version,
            self.device,
            version(self.device.driver_version),
            self.toolchain,
            self.emulated,
        );
        if self.self_check {
            text.push_str("\nThe emulated driver compared with itself: nothing here is a statement about silicon.\n");
        }
        for (title, body) in self.sections() {
            let _infallible = write!(text, "\n## {title}\n\n```text\n{body}```\n");
        }
        let _infallible = write!(text, "\n{}\n", self.last_line());
        text
    }

    fn sections(&self) -> Vec<(&'static str, String)> {
        let mut sections = Vec::new();
        if !self.corpus.is_empty() {
            sections.push(("Corpus", self.corpus_text()));
        }
        if !self.suite.is_empty() {
            sections.push(("Suite", self.suite_text()));
        }
        if !self.questions.is_empty() {
            sections.push(("Questions", self.questions_text()));
        }
        sections
    }

    fn corpus_text(&self) -> String {
        let rows: Vec<Vec<String>> = self.corpus.iter().map(case_cells).collect();
        let mut text = columns(&rows, 0);
        let disagree = self.corpus.iter().filter(|row| !row.agree).count();
        let identical = self.corpus.iter().filter(|row| {
            row.agree && row.reads.ranges > 0 && row.reads.identical == row.reads.ranges
        });
        let varying = self.corpus.iter().filter(|row| row.varies).count();
        let _infallible = writeln!(
            text,
            "\n{} cases, {disagree} disagreements, {} with the same bits throughout, {varying} whose bits vary from run to run",
            self.corpus.len(),
            identical.count()
        );
        let largest = self
            .corpus
            .iter()
            .filter_map(|row| Some((row, row.difference.as_ref()?)))
            .max_by(|a, b| {
                let share = |one: &super::corpus::Difference| {
                    one.worst / one.tolerance.max(f64::MIN_POSITIVE)
                };
                share(a.1).total_cmp(&share(b.1))
            });
        if let Some((row, difference)) = largest.filter(|(_, one)| one.worst > 0.0) {
            let _infallible = writeln!(
                text,
                "largest numeric difference: {:.2e} in {} of {}, where {:.0e} is allowed against the reference",
                difference.worst, difference.what, row.case, difference.tolerance
            );
        }
        let _infallible = writeln!(
            text,
            "rank correlation of modelled and measured launch times: {}",
            rank(self.corpus_rank)
        );
        text
    }

    fn suite_text(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .suite
            .iter()
            .map(|row| {
                vec![
                    match row.standing {
                        VerdictAgreement::Same => "ok",
                        VerdictAgreement::OtherReason => "ok, other reason",
                        VerdictAgreement::LessStrict => "less strict",
                        VerdictAgreement::Disagree => "DISAGREE",
                        VerdictAgreement::NotRun => "not run",
                    }
                    .to_owned(),
                    format!("{}/{}", row.task, row.file),
                    row.stated.clone(),
                    line(&row.summary, 110),
                ]
            })
            .collect();
        let mut text = columns(&rows, 0);
        let _infallible = writeln!(
            text,
            "\nrank correlation of modelled and measured times within tasks: {}",
            rank(self.suite_rank)
        );
        text
    }

    fn questions_text(&self) -> String {
        let mut text = String::new();
        for (number, answer) in self.questions.iter().enumerate() {
            let _infallible = writeln!(
                text,
                "{}. {} ({})",
                number + 1,
                answer.question,
                answer.name
            );
            for measured in &answer.measured {
                let _infallible = writeln!(text, "   - {}", line(measured, 200));
            }
            let _infallible = match (&answer.conclusion, &answer.not_run) {
                (Some(conclusion), _) => {
                    writeln!(text, "   n = {}: {conclusion}", answer.n)
                }
                (None, Some(why)) => writeln!(text, "   not run ({})", line(why, 200)),
                (None, None) => writeln!(text, "   not run"),
            };
        }
        text
    }

    fn last_line(&self) -> String {
        format!(
            "{} disagreements, {} failures",
            self.disagreements, self.failures
        )
    }
}

fn case_cells(row: &CaseRow) -> Vec<String> {
    let ended = |ended: &CaseEnd| match &ended.message {
        Some(message) if !row.must_be_stopped => format!("{}: {}", ended.how, line(message, 80)),
        _ => ended.how.clone(),
    };
    let state = match (row.agree, row.right) {
        (true, true) => "ok",
        (true, false) => "WRONG on both",
        (false, _) => "DISAGREE",
    };
    let bits = if row.reads.ranges == 0 {
        "-".to_owned()
    } else if row.reads.identical == row.reads.ranges {
        "same bits".to_owned()
    } else {
        format!(
            "{} of {} elements differ",
            row.reads.differing, row.reads.elements
        )
    };
    let image = match row.image {
        Origin::Cubin => "cubin",
        Origin::Ptx => "ptx",
        Origin::Carried => "carried ptx",
    };
    let ends = if row.agree {
        ended(&row.checked)
    } else {
        format!("{}, emulated {}", ended(&row.checked), ended(&row.emulated))
    };
    vec![
        state.to_owned(),
        row.case.clone(),
        image.to_owned(),
        ends,
        bits,
    ]
}

fn rank(rank: Option<f64>) -> String {
    rank.map_or_else(
        || "too few times were measured".to_owned(),
        |rank| format!("{rank:.2}"),
    )
}

/// A driver's version as its maker writes it.
fn version(number: u32) -> String {
    format!("CUDA {}.{}", number / 1000, number % 1000 / 10)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the binary's edge: a report says when it was made"
)]
fn today() -> String {
    chrono::Utc::now().format("%Y-%m-%d").to_string()
}

/// Spearman's coefficient of modelled and measured times. None of fewer than three pairs: any two
/// are in order or not.
fn correlation(pairs: &[(f64, f64)]) -> Option<f64> {
    let (modelled, measured): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    (pairs.len() >= 3).then(|| spearman(&modelled, &measured))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_their_maker_writes_them() {
        assert_eq!(version(13010), "CUDA 13.1");
        assert_eq!(version(12080), "CUDA 12.8");
    }
}
