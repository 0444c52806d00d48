//! The diagnosis of one evaluation in a few exact lines, for the author of the next candidate.
//!
//! It holds only fields that the evaluator produced, cleaned and cut. It never holds data that would
//! help to deceive the evaluator: seeds, canaries, cases that only a confirmation uses, the distance
//! of an output from its tolerance, and paths of the machine.

use serde::{Deserialize, Serialize};

use super::profile;
use crate::cleaning;
use crate::digest::Digest;
use crate::evaluation::{Evaluation, GateOutcome, short_number};
use crate::finding::Finding;
use crate::problem::Problem;
use crate::task::Enforce;
use crate::verdict::{
    Acceptance, Access, Diagnostic, Mismatch, Outcome, Severity, Verdict, VerdictKind, WrongElement,
};

/// The most messages of the compiler in a prompt.
const MAX_DIAGNOSTICS: usize = 20;
/// The longest message, characters.
const MAX_MESSAGE: usize = 200;
/// The longest sentence of the evaluator, characters.
const MAX_SENTENCE: usize = 400;
/// The longest quoted source line, characters.
const MAX_CODE: usize = 160;

/// A diagnosis, grouped so that the less important can be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Feedback {
    /// The verdict's kind; none in records of programs that did not tell it of a failed
    /// confirmation.
    pub verdict: Option<VerdictKind>,
    /// The verdict in one sentence.
    pub summary: String,
    /// The positions and reasons, a line each.
    pub details: Vec<String>,
    /// The compiler's messages.
    pub diagnostics: Option<Untrusted>,
    /// The time of each score case and launch, a line each.
    pub times: Vec<String>,
    /// The term of the time model that bounds it, such as `critical_path`; none of a kernel without times.
    #[serde(default)]
    pub bottleneck: Option<String>,
    /// Counters of each kernel and of the hottest source lines, a line each.
    pub counters: Vec<String>,
    /// Gates that are not met, a line each.
    pub unmet: Vec<String>,
}

/// Lines that a candidate's text has a hand in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untrusted {
    /// A word before and after the lines that occurs in none of them, because it is derived from
    /// them.
    pub fence: String,
    /// The lines.
    pub lines: Vec<String>,
}

impl Untrusted {
    fn new(lines: Vec<String>) -> Option<Self> {
        let content = Digest::of_parts(lines.iter().map(|line| line.as_bytes()));
        (!lines.is_empty()).then(|| Self {
            fence: content.short(),
            lines,
        })
    }
}

/// The feedback of an evaluation of `source` for its author.
pub fn feedback(evaluation: &Evaluation, source: &str) -> Feedback {
    let verdict = &evaluation.verdict;
    if !evaluation.may_be_shown() && verdict.acceptance().is_none() {
        let kind = verdict.kind();
        return Feedback {
            verdict: Some(kind),
            summary: format!(
                "passed what is shown, then, on inputs that are not: {}",
                describe_verdict(kind)
            ),
            details: Vec::new(),
            diagnostics: None,
            times: Vec::new(),
            bottleneck: None,
            counters: Vec::new(),
            unmet: Vec::new(),
        };
    }
    let teller = FeedbackWriter { source };
    let timing = verdict.acceptance().map(|acceptance| &acceptance.timing);
    Feedback {
        verdict: Some(verdict.kind()),
        summary: summary(verdict),
        details: teller.details(verdict),
        diagnostics: teller.diagnostics(evaluation),
        times: timing
            .map(|timing| profile::times(timing, evaluation))
            .unwrap_or_default(),
        bottleneck: timing.and_then(|timing| profile::name_bottleneck(timing, evaluation)),
        counters: if timing.is_some() {
            let explanation = evaluation.explanation.as_ref();
            let hottest = explanation
                .map_or(&evaluation.hottest_lines, |explanation| {
                    &explanation.hottest_lines
                })
                .as_ref()
                .map(|hottest| profile::hottest_lines(hottest, |line| teller.quoted(line)));
            let mut lines = profile::counters(evaluation);
            lines.extend(hottest.unwrap_or_default());
            lines
        } else {
            Vec::new()
        },
        unmet: evaluation
            .gates
            .iter()
            .filter(|gate| !gate.met && gate.enforce != Enforce::Advise)
            .map(GateOutcome::shortfall)
            .collect(),
    }
}

/// A verdict's kind as a sentence that discloses nothing about the candidate. The sentence that a
/// [`Verdict`] prints is for people: it includes how far off an output is.
pub fn describe_verdict(kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Accepted => "accepted",
        VerdictKind::ParseRejected => "rejected: the file does not parse",
        VerdictKind::PolicyRejected => "rejected: the text does what is not allowed",
        VerdictKind::GateRejected => "rejected: a gate is not met",
        VerdictKind::CompileRejected => "rejected: it does not compile",
        VerdictKind::CompileTimeout => "rejected: the compiler did not finish in time",
        VerdictKind::CompileResource => "rejected: it needs more of a resource than there is",
        VerdictKind::CompileCrash => "rejected: the compiler crashed on it",
        VerdictKind::LaunchRejected => "rejected: the plan cannot be launched",
        VerdictKind::Unsupported => {
            "not evaluated: the emulated device lacks an instruction, which says nothing against the idea"
        }
        VerdictKind::Timeout => "rejected: it did not finish in time",
        VerdictKind::ExcessiveEffort => {
            "rejected: it executes far more instructions than the baseline"
        }
        VerdictKind::RuntimeFault => "rejected: the device reported an error",
        VerdictKind::RunnerCrash => "rejected: the process that ran it died, twice",
        VerdictKind::OutOfBounds => "rejected: it reads or writes outside every buffer",
        VerdictKind::UninitDependent => "rejected: the result depends on memory that nobody wrote",
        VerdictKind::DataRace => "rejected: two threads conflict without synchronisation",
        VerdictKind::BarrierError => "rejected: not all threads reach the same barrier",
        VerdictKind::InputMutated => "rejected: it changes an input",
        VerdictKind::IncorrectOutput => "rejected: the output is wrong",
        VerdictKind::PrecisionDowngrade => {
            "rejected: the output has the error of a lower precision than the task allows"
        }
        VerdictKind::NonDeterministic => "rejected: the same inputs gave different outputs",
        VerdictKind::ClockMismatch => "rejected: two clocks disagree about its time",
        VerdictKind::PhysicallyImpossible => "rejected: faster than the work can be done at all",
        VerdictKind::Inconclusive => "without a score: too few valid measurements",
        VerdictKind::InvalidRun => "without a score: the measurement was disturbed",
    }
}

/// One sentence on a verdict, with its numbers.
fn summary(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accepted(acceptance) => accepted(acceptance),
        Verdict::GateRejected { gate, limit, found } => format!(
            "rejected: {} is {}, the limit is {}",
            cleaning::clean_line(gate, 60),
            short_number(*found),
            short_number(*limit)
        ),
        Verdict::CompileTimeout { seconds } => {
            format!("rejected: the compiler did not finish within {seconds} s")
        }
        Verdict::RuntimeFault { code, name, .. } => format!(
            "rejected: the device reported error {code} ({})",
            cleaning::clean_line(name, 60)
        ),
        Verdict::OutOfBounds { access, .. } => match access {
            Access::Read => "rejected: it reads outside every buffer".to_owned(),
            Access::Write => "rejected: it writes outside every buffer".to_owned(),
        },
        Verdict::InputMutated { tensor } => {
            format!(
                "rejected: it changes its input {}",
                cleaning::clean_line(tensor, 64)
            )
        }
        other => describe_verdict(other.kind()).to_owned(),
    }
}

fn accepted(acceptance: &Acceptance) -> String {
    let kind = if acceptance.timing.is_modelled() {
        "modelled"
    } else {
        "measured"
    };
    let us = acceptance.timing.geomean_us();
    let mut words = format!("accepted: {us:.5} us {kind}, geometric mean over the score cases");
    if let Some(comparison) = &acceptance.comparison {
        let ratio = comparison.ratio;
        words.push_str(&match comparison.outcome {
            Outcome::Faster => format!("; {ratio:.3} times as fast as the best before it"),
            Outcome::NotFaster => {
                format!("; not faster than the best before it ({ratio:.3} times its speed)")
            }
            Outcome::Unresolved => "; whether it is faster could not be decided".to_owned(),
        });
    }
    words
}

/// Writes the details of a verdict, with the source lines that they refer to.
struct FeedbackWriter<'a> {
    source: &'a str,
}

impl FeedbackWriter<'_> {
    fn details(&self, verdict: &Verdict) -> Vec<String> {
        let said = |text: &str| vec![cleaning::clean_sentence(text, MAX_SENTENCE)];
        match verdict {
            Verdict::ParseRejected { problems } | Verdict::PolicyRejected { problems } => {
                let told = problems.iter().take(MAX_DIAGNOSTICS);
                told.map(|problem| self.problem(problem)).collect()
            }
            Verdict::CompileResource {
                resource,
                limit,
                found,
                message,
            } => {
                let found = found.map_or("more".to_owned(), |found| found.to_string());
                let resource = cleaning::clean_line(resource, 80);
                vec![
                    format!("{resource}: the limit is {limit}, the kernel needs {found}"),
                    cleaning::clean_sentence(message, MAX_SENTENCE),
                ]
            }
            Verdict::Unsupported { opcode, line } => {
                let mut lines = vec![format!("instruction {}", cleaning::clean_line(opcode, 120))];
                lines.extend(line.map(|line| self.quoted(line)));
                lines
            }
            Verdict::Timeout { stage, finding } => {
                let mut lines = said(&format!("while: {stage}"));
                lines.extend(finding.iter().flat_map(|finding| self.finding(finding)));
                lines
            }
            Verdict::ExcessiveEffort {
                stage,
                case,
                finding,
            } => {
                let mut lines = said(&format!("while: {stage}, case {case}"));
                lines.extend(self.finding(finding));
                lines
            }
            Verdict::OutOfBounds {
                finding, reason, ..
            }
            | Verdict::UninitDependent { finding, reason }
            | Verdict::NonDeterministic { finding, reason } => match finding {
                Some(finding) => self.finding(finding),
                None => said(reason),
            },
            Verdict::RuntimeFault { finding, .. } => finding
                .iter()
                .flat_map(|finding| self.finding(finding))
                .collect(),
            Verdict::DataRace { finding } | Verdict::BarrierError { finding } => {
                self.finding(finding)
            }
            Verdict::IncorrectOutput(mismatch) | Verdict::PrecisionDowngrade(mismatch) => {
                wrong(mismatch)
            }
            Verdict::PhysicallyImpossible {
                case,
                floor_us,
                found_us,
            } => vec![format!(
                "{}: {found_us:.5} us, the floor is {floor_us:.5} us",
                cleaning::clean_line(case, 60)
            )],
            Verdict::LaunchRejected { reason }
            | Verdict::Inconclusive { reason }
            | Verdict::InvalidRun { reason } => said(reason),
            Verdict::CompileCrash { how } | Verdict::RunnerCrash { how } => said(how),
            Verdict::Accepted(acceptance) if acceptance.launch_bound => {
                vec!["it takes little more than launching an empty kernel".to_owned()]
            }
            Verdict::Accepted(_)
            | Verdict::GateRejected { .. }
            | Verdict::CompileRejected { .. }
            | Verdict::CompileTimeout { .. }
            | Verdict::InputMutated { .. }
            | Verdict::ClockMismatch { .. } => Vec::new(),
        }
    }

    fn problem(&self, problem: &Problem) -> String {
        let message = cleaning::clean_sentence(&problem.message, MAX_MESSAGE);
        let mut words = match problem.line {
            0 => message,
            line => format!("{}: {message}", self.quoted(line)),
        };
        // A model cannot open the project's documents.
        if !problem.fix.is_empty() && !problem.fix.starts_with("see docs/") {
            words.push_str(&format!(
                "; {}",
                cleaning::clean_sentence(&problem.fix, MAX_MESSAGE)
            ));
        }
        words
    }

    fn finding(&self, finding: &Finding) -> Vec<String> {
        let kernel = cleaning::clean_line(&finding.kernel, 64);
        let occurrences = match finding.occurrences {
            1 => "once".to_owned(),
            number => format!("{number} times"),
        };
        let mut lines = vec![
            cleaning::clean_sentence(&finding.message, MAX_SENTENCE),
            format!(
                "in {kernel}, block {:?}, thread {:?}, {occurrences}",
                finding.block, finding.thread
            ),
        ];
        lines.extend(finding.line.map(|line| self.quoted(line)));
        if let Some(other) = &finding.other {
            let place = format!("against block {:?}, thread {:?}", other.block, other.thread);
            lines.push(match other.line {
                Some(line) => format!("{place}, {}", self.quoted(line)),
                None => place,
            });
        }
        lines
    }

    /// The compiler's messages: errors, or the warnings of what did compile.
    fn diagnostics(&self, evaluation: &Evaluation) -> Option<Untrusted> {
        let all = match &evaluation.verdict {
            Verdict::CompileRejected { diagnostics } => diagnostics,
            _ => &evaluation.diagnostics,
        };
        let told = all.iter().take(MAX_DIAGNOSTICS);
        Untrusted::new(told.map(|diagnostic| self.diagnostic(diagnostic)).collect())
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) -> String {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let message = cleaning::clean_sentence(&diagnostic.message, MAX_MESSAGE);
        match diagnostic.line {
            Some(line) => format!("{}: {severity}: {message}", self.quoted(line)),
            None => format!("{severity}: {message}"),
        }
    }

    /// A line's number with its text.
    fn quoted(&self, line: u32) -> String {
        let text = (line as usize)
            .checked_sub(1)
            .and_then(|index| self.source.lines().nth(index))
            .map(|text| cleaning::clean_line(text, MAX_CODE))
            .filter(|text| !text.is_empty());
        match text {
            Some(text) => format!("line {line} `{text}`"),
            None => format!("line {line}"),
        }
    }
}

/// The wrong elements: the one with the largest error, the first ones, and the parts of the tensor that have some. The
/// error itself stays secret, because it would show how much of the tolerance is left.
fn wrong(mismatch: &Mismatch) -> Vec<String> {
    let (case, tensor) = (
        cleaning::clean_line(&mismatch.case, 60),
        cleaning::clean_line(&mismatch.tensor, 64),
    );
    let inputs = cleaning::clean_line(&mismatch.distribution, 40);
    let element = |wrong: &WrongElement| {
        let index: Vec<_> = wrong.index.iter().map(u64::to_string).collect();
        format!(
            "{tensor}[{}] is {}, expected {}",
            index.join(", "),
            cleaning::clean_line(&wrong.found, 40),
            cleaning::clean_line(&wrong.expected, 40)
        )
    };
    let mut lines = vec![format!("{tensor} on case {case}, {inputs} inputs")];
    if let Some(wrong) = &mismatch.wrong {
        let first = wrong.first.iter().map(element).collect::<Vec<_>>();
        lines.push(format!("{wrong}; the first: {}", first.join("; ")));
    }
    if let Some(worst) = &mismatch.worst {
        let furthest = mismatch.wrong.as_ref().map_or("", |_| "furthest off: ");
        lines.push(format!("{furthest}{}", element(worst)));
    }
    lines
}
