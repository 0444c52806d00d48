//! The evaluator's own suite: every kernel of every task against the verdict that it must get, on
//! the driver under test, and the times of the right ones against the model's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::evaluation::{EvaluationRequest, EvaluationStage};
use domain::role::Key;
use domain::task::{Bundle, Task};
use domain::verdict::{Verdict, VerdictKind};
use serde::Serialize;
use worker::cancel::Cancellation;

use super::{CheckError, CheckedDriver, Options, Part};
use crate::bundle;

/// Verdicts that the emulated device proves from a single execution. A GPU shows such an error only
/// by chance.
const PROVED_ONLY_BY_EMULATION: [VerdictKind; 5] = [
    VerdictKind::DataRace,
    VerdictKind::UninitDependent,
    VerdictKind::BarrierError,
    VerdictKind::OutOfBounds,
    VerdictKind::NonDeterministic,
];
/// Verdicts that only a compiler can make.
const MADE_BY_THE_COMPILER: [VerdictKind; 4] = [
    VerdictKind::CompileRejected,
    VerdictKind::CompileTimeout,
    VerdictKind::CompileResource,
    VerdictKind::CompileCrash,
];

/// One kernel of a task.
#[derive(Debug, Serialize)]
pub struct KernelRow {
    /// The task.
    pub task: String,
    /// Its file.
    pub file: String,
    /// The verdict that it states of itself.
    pub stated: String,
    /// The verdict on the driver under test; none if it was not run.
    pub found: Option<String>,
    /// The verdict in a sentence, or why there is none.
    pub summary: String,
    /// The relation of the two verdicts.
    pub standing: VerdictAgreement,
    /// Times by score case, where silicon measured them and it was accepted on both drivers.
    pub times: Vec<CaseTimes>,
}

/// The relation of a verdict to the one that the file states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictAgreement {
    /// Both are of one kind.
    Same,
    /// Both reject, for different reasons.
    OtherReason,
    /// Accepted, where the stated verdict takes a proof that only emulation gives.
    LessStrict,
    /// One accepts and the other rejects.
    Disagree,
    /// There is no verdict.
    NotRun,
}

/// Times of one score case. They are of two kinds and only ever ranked, each among its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseTimes {
    /// The case.
    pub case: String,
    /// On silicon, microseconds.
    pub measured_us: f64,
    /// By the time model, microseconds.
    pub modelled_us: f64,
}

/// Evaluates the selected kernels.
pub(crate) fn compare(
    checked: &CheckedDriver,
    emulated: &CheckedDriver,
    options: &Options,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
    rows: &mut Vec<KernelRow>,
) -> Result<(), CheckError> {
    if !options.parts.contains(&Part::Suite) {
        return Ok(());
    }
    for folder in tasks(options) {
        let Some((bundle, task)) = read(&folder) else {
            progress(&format!("suite: {} is no task folder", folder.display()));
            continue;
        };
        let suite = Suite {
            bundle: &bundle,
            task: &task,
            cancellation,
        };
        for (file, source) in kernels(&task) {
            let name = format!("{}/{file}", task.name);
            if options.wants(Part::Suite, &name) {
                progress(&format!("suite: {name}"));
                rows.push(suite.row(checked, emulated, &file, source)?);
            }
        }
    }
    Ok(())
}

/// The task folders at hand, in order of name.
fn tasks(options: &Options) -> Vec<PathBuf> {
    let root = match &options.pack {
        Some(pack) => pack.tasks(),
        None => options.tasks.clone(),
    };
    folders(&root)
}

/// The folders with a task in them.
pub(crate) fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.join("task.toml").is_file())
        .collect();
    folders.sort();
    folders
}

/// A task folder; none if it does not read.
pub(crate) fn read(folder: &Path) -> Option<(Bundle, Task)> {
    let bundle = bundle::read(folder).ok()?;
    let task = Task::load(&bundle).ok()?;
    Some((bundle, task))
}

/// Every kernel of a task with its file.
pub(crate) fn kernels(task: &Task) -> Vec<(String, &KernelSource)> {
    let others = task.playbook.iter().chain(&task.broken);
    std::iter::once(("baseline.cu".to_owned(), &task.baseline))
        .chain(others.map(|(file, source)| (file.clone(), source)))
        .collect()
}

struct Suite<'a> {
    bundle: &'a Bundle,
    task: &'a Task,
    cancellation: &'a Cancellation,
}

impl Suite<'_> {
    fn row(
        &self,
        checked: &CheckedDriver,
        emulated: &CheckedDriver,
        file: &str,
        source: &KernelSource,
    ) -> Result<KernelRow, CheckError> {
        let stated = source
            .expectation()
            .map_or(VerdictKind::Accepted, |expectation| expectation.verdict);
        let mut row = KernelRow {
            task: self.task.name.clone(),
            file: file.to_owned(),
            stated: stated.to_string(),
            found: None,
            summary: String::new(),
            standing: VerdictAgreement::NotRun,
            times: Vec::new(),
        };
        if !checked.host().has_compiler() && MADE_BY_THE_COMPILER.contains(&stated) {
            row.summary = "the compiler's own verdict, and there is none here".to_owned();
            return Ok(row);
        }
        let verdict = match self.verdict(checked, file, source) {
            Ok(verdict) => verdict,
            Err(fault) if fault.is_cancelled() => return Err(fault.into()),
            Err(fault) => {
                row.summary = format!("failed to {fault}");
                return Ok(row);
            }
        };
        row.found = Some(verdict.kind().to_string());
        row.summary = verdict.to_string();
        row.standing = compare_verdicts(stated, verdict.kind());
        // Modelled times have nothing to be ranked against but measured ones.
        if let Some(acceptance) = verdict.acceptance()
            && !acceptance.timing.is_modelled()
        {
            let other = self.verdict(emulated, file, source);
            let other = other.ok().as_ref().and_then(times_of).unwrap_or_default();
            row.times = acceptance
                .timing
                .cases()
                .into_iter()
                .filter_map(|time| {
                    let case = time.cache.name_of(time.case);
                    Some(CaseTimes {
                        modelled_us: *other.get(&case)?,
                        case,
                        measured_us: time.us,
                    })
                })
                .collect();
        }
        Ok(row)
    }

    fn verdict(
        &self,
        driver: &CheckedDriver,
        file: &str,
        source: &KernelSource,
    ) -> Result<Verdict, worker::evaluate::EvaluateError> {
        let request = EvaluationRequest {
            task: self.bundle.clone(),
            file: file.to_owned(),
            source: source.text().to_owned(),
            configuration: BTreeMap::new(),
            stage: if file == "baseline.cu" {
                EvaluationStage::Baseline
            } else {
                EvaluationStage::Search
            },
            // A fixed key: no candidate here tries to guess inputs, and equal inputs make two
            // machines comparable.
            key: Key(Digest::of(b"gpu-check")),
            incumbent: None,
        };
        let evaluation = driver
            .evaluator
            .evaluate(&request, |_| {}, self.cancellation)?;
        Ok(evaluation.verdict)
    }
}

fn times_of(verdict: &Verdict) -> Option<BTreeMap<String, f64>> {
    let cases = verdict.acceptance()?.timing.cases();
    Some(
        cases
            .into_iter()
            .map(|time| (time.cache.name_of(time.case), time.us))
            .collect(),
    )
}

fn compare_verdicts(stated: VerdictKind, found: VerdictKind) -> VerdictAgreement {
    let accepted = |kind| kind == VerdictKind::Accepted;
    if stated == found {
        VerdictAgreement::Same
    } else if !accepted(stated) && !accepted(found) {
        VerdictAgreement::OtherReason
    } else if accepted(found) && PROVED_ONLY_BY_EMULATION.contains(&stated) {
        VerdictAgreement::LessStrict
    } else {
        VerdictAgreement::Disagree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proofs_of_the_emulator_excuse_an_accepted_kernel() {
        use VerdictKind as V;
        for (stated, found, standing_) in [
            (V::Accepted, V::Accepted, VerdictAgreement::Same),
            (V::DataRace, V::DataRace, VerdictAgreement::Same),
            (
                V::DataRace,
                V::IncorrectOutput,
                VerdictAgreement::OtherReason,
            ),
            (V::DataRace, V::Accepted, VerdictAgreement::LessStrict),
            (V::IncorrectOutput, V::Accepted, VerdictAgreement::Disagree),
            (V::Accepted, V::IncorrectOutput, VerdictAgreement::Disagree),
        ] {
            assert_eq!(
                compare_verdicts(stated, found),
                standing_,
                "{stated}, {found}"
            );
        }
    }
}
