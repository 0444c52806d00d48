//! The verdict on a candidate. A verdict is data, however bad; trouble of the infrastructure is a
//! fault, a type of its own elsewhere, and never appears here.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::finding::Finding;
use crate::problem::Problem;
use crate::timing::Timing;

/// The closed list of verdicts. Only `Accepted` carries a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Verdict {
    /// Correct in every execution, inside every rejecting gate, and timed.
    Accepted(Acceptance),
    /// The file or its front matter is malformed.
    ParseRejected {
        /// Every defect.
        problems: Vec<Problem>,
    },
    /// The text does what the task's policy forbids.
    PolicyRejected {
        /// Every violation.
        problems: Vec<Problem>,
    },
    /// A soft gate that rejects was broken.
    GateRejected {
        /// The gate's name in the task file.
        gate: String,
        /// Its limit.
        limit: f64,
        /// The value found.
        found: f64,
    },
    /// The compiler found errors.
    CompileRejected {
        /// Its messages.
        diagnostics: Vec<Diagnostic>,
    },
    /// The compiler did not finish in time.
    CompileTimeout {
        /// The limit in seconds.
        seconds: u32,
    },
    /// The kernel needs more of a resource than the device has.
    CompileResource {
        /// The resource, such as "static shared memory".
        resource: String,
        /// The device's limit.
        limit: u64,
        /// The kernel's need, where the compiler reported it.
        found: Option<u64>,
        /// One sentence.
        message: String,
    },
    /// The compiler itself died.
    CompileCrash {
        /// The way in which it crashed.
        how: String,
    },
    /// The plan cannot be launched: device limits, unknown entry, argument mismatch.
    LaunchRejected {
        /// The defect, its position and the limit.
        reason: String,
    },
    /// The emulated device lacks an instruction. A trial, but no evidence against the idea.
    Unsupported {
        /// The instruction.
        opcode: String,
        /// Source line, where known.
        line: Option<u32>,
    },
    /// The candidate exceeded a deadline.
    Timeout {
        /// The stage in which it happened.
        stage: String,
        /// The position at which it hung. Only rows of evaluators before version 10 have it: what they
        /// called a timeout with a position is now [`Self::ExcessiveEffort`].
        finding: Option<Finding>,
    },
    /// A launch executed more thread instructions than its case allows.
    ExcessiveEffort {
        /// The stage in which it happened.
        stage: String,
        /// The case.
        case: String,
        /// A position that the launch had reached, with the limit in its message.
        finding: Finding,
    },
    /// The device reported an error while the candidate ran.
    RuntimeFault {
        /// The CUDA driver's error code.
        code: u32,
        /// Its name.
        name: String,
        /// The position, if the emulated device could tell.
        finding: Option<Finding>,
    },
    /// The runner died twice on healthy devices.
    RunnerCrash {
        /// The way in which it crashed.
        how: String,
    },
    /// An access outside every buffer.
    OutOfBounds {
        /// Read or write.
        access: Access,
        /// The access; absent where only a red zone or a differing output shows it.
        finding: Option<Finding>,
        /// The observation that shows it.
        reason: String,
    },
    /// The result depends on memory that was never written.
    UninitDependent {
        /// The position, if known.
        finding: Option<Finding>,
        /// The observation that shows it.
        reason: String,
    },
    /// Two threads conflict without synchronisation.
    DataRace {
        /// The two accesses.
        finding: Finding,
    },
    /// A barrier that not all threads reach, or reach in different places.
    BarrierError {
        /// The position and the threads that wait.
        finding: Finding,
    },
    /// An input changed while the candidate ran.
    InputMutated {
        /// The tensor.
        tensor: String,
    },
    /// The output differs from the reference.
    IncorrectOutput(Mismatch),
    /// The output has the error of a lower precision than the task allows.
    PrecisionDowngrade(Mismatch),
    /// The same inputs gave different outputs.
    NonDeterministic {
        /// The observation that shows it.
        reason: String,
        /// The position, if known.
        finding: Option<Finding>,
    },
    /// Two clocks disagree about the execution.
    ClockMismatch {
        /// Both readings.
        reason: String,
    },
    /// Faster than the work's physical floor.
    PhysicallyImpossible {
        /// The case.
        case: String,
        /// The floor in microseconds.
        floor_us: f64,
        /// The time found in microseconds.
        found_us: f64,
    },
    /// Too few valid measurements.
    Inconclusive {
        /// The reason.
        reason: String,
    },
    /// The measurement was disturbed.
    InvalidRun {
        /// The disturbance.
        reason: String,
    },
}

/// The kinds of [`Verdict`], for filters, statistics and expectations.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "each is documented at the verdict of the same name"
)]
pub enum VerdictKind {
    Accepted,
    ParseRejected,
    PolicyRejected,
    GateRejected,
    CompileRejected,
    CompileTimeout,
    CompileResource,
    CompileCrash,
    LaunchRejected,
    Unsupported,
    Timeout,
    ExcessiveEffort,
    RuntimeFault,
    RunnerCrash,
    OutOfBounds,
    UninitDependent,
    DataRace,
    BarrierError,
    InputMutated,
    IncorrectOutput,
    PrecisionDowngrade,
    NonDeterministic,
    ClockMismatch,
    PhysicallyImpossible,
    Inconclusive,
    InvalidRun,
}

impl VerdictKind {
    /// Returns true if the same code gets the verdict again under the same conditions, with other inputs
    /// and at another time. A measured time does not hold again, nor do failures that a machine may have
    /// caused, nor those of the text, which costs nothing to read again.
    pub fn holds_again(self, is_modelled: bool) -> bool {
        match self {
            Self::Accepted => is_modelled,
            Self::GateRejected
            | Self::CompileRejected
            | Self::CompileResource
            | Self::LaunchRejected
            | Self::Unsupported
            | Self::ExcessiveEffort
            | Self::OutOfBounds
            | Self::UninitDependent
            | Self::DataRace
            | Self::BarrierError
            | Self::InputMutated
            | Self::IncorrectOutput
            | Self::PrecisionDowngrade
            | Self::NonDeterministic => true,
            Self::ParseRejected
            | Self::PolicyRejected
            | Self::CompileTimeout
            | Self::CompileCrash
            | Self::Timeout
            | Self::RuntimeFault
            | Self::RunnerCrash
            | Self::ClockMismatch
            | Self::PhysicallyImpossible
            | Self::Inconclusive
            | Self::InvalidRun => false,
        }
    }

    /// The name as the wire and the database carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::ParseRejected => "parse_rejected",
            Self::PolicyRejected => "policy_rejected",
            Self::GateRejected => "gate_rejected",
            Self::CompileRejected => "compile_rejected",
            Self::CompileTimeout => "compile_timeout",
            Self::CompileResource => "compile_resource",
            Self::CompileCrash => "compile_crash",
            Self::LaunchRejected => "launch_rejected",
            Self::Unsupported => "unsupported",
            Self::Timeout => "timeout",
            Self::ExcessiveEffort => "excessive_effort",
            Self::RuntimeFault => "runtime_fault",
            Self::RunnerCrash => "runner_crash",
            Self::OutOfBounds => "out_of_bounds",
            Self::UninitDependent => "uninit_dependent",
            Self::DataRace => "data_race",
            Self::BarrierError => "barrier_error",
            Self::InputMutated => "input_mutated",
            Self::IncorrectOutput => "incorrect_output",
            Self::PrecisionDowngrade => "precision_downgrade",
            Self::NonDeterministic => "non_deterministic",
            Self::ClockMismatch => "clock_mismatch",
            Self::PhysicallyImpossible => "physically_impossible",
            Self::Inconclusive => "inconclusive",
            Self::InvalidRun => "invalid_run",
        }
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The good news.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Acceptance {
    /// Times per score case: measured or modelled, never mixed.
    pub timing: Timing,
    /// Against the incumbent it was evaluated beside; absent when there was none.
    pub comparison: Option<Comparison>,
    /// The execution takes little more than launching an empty kernel does.
    pub launch_bound: bool,
}

/// The outcome of a comparison with the incumbent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// The decision.
    pub outcome: Outcome,
    /// Incumbent's time over candidate's, geometric mean over score cases.
    pub ratio: f64,
    /// Interval of the ratio; for a modelled time both ends equal the ratio.
    pub interval: [f64; 2],
}

/// The decision of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Faster beyond the margin.
    Faster,
    /// Not faster beyond the margin.
    NotFaster,
    /// The budget ended before it could be decided.
    Unresolved,
}

/// One message of the compiler, parsed, capped and stripped of control characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Diagnostic {
    /// Line in the candidate's file, from 1; absent for messages without a place.
    pub line: Option<u32>,
    /// The severity: an error stops the compilation.
    pub severity: Severity,
    /// The message, at most 200 characters.
    pub message: String,
}

/// The severity of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Stops the compilation.
    Error,
    /// Does not.
    Warning,
}

/// The direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read.
    Read,
    /// Written, or updated atomically.
    Write,
}

/// The difference between an output and the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Mismatch {
    /// The case.
    pub case: String,
    /// The input distribution.
    pub distribution: String,
    /// The output tensor.
    pub tensor: String,
    /// The rule that failed, in words.
    pub reason: String,
    /// Relative L2 error over the tensor, where it has a value.
    pub relative_l2: Option<f64>,
    /// The relative L2 error that is allowed.
    pub allowed_l2: f64,
    /// The element that is furthest off.
    pub worst: Option<WrongElement>,
    /// Where the wrong elements are; none in older records, and where no single element is too far off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<WrongElements>,
}

/// The elements of an output that are wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WrongElements {
    /// Their number.
    pub count: u64,
    /// The number of all elements.
    pub elements: u64,
    /// The part of each axis that has some, outermost first; none where it is the whole axis.
    pub spans: Vec<Option<AxisSpan>>,
    /// The first of them in the order of memory, at most four.
    pub first: Vec<WrongElement>,
}

/// Indices along one axis: from the first to the last, in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AxisSpan {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// The step; 1 if neighbours are among them.
    pub step: u64,
}

/// An element of an output that is not what the reference has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WrongElement {
    /// Index along each axis.
    pub index: Vec<u64>,
    /// The candidate's value, as text, so that NaN and infinities survive JSON.
    pub found: String,
    /// The reference's value, as text.
    pub expected: String,
}

impl Verdict {
    /// The verdict's kind in the closed list.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Self::Accepted(_) => VerdictKind::Accepted,
            Self::ParseRejected { .. } => VerdictKind::ParseRejected,
            Self::PolicyRejected { .. } => VerdictKind::PolicyRejected,
            Self::GateRejected { .. } => VerdictKind::GateRejected,
            Self::CompileRejected { .. } => VerdictKind::CompileRejected,
            Self::CompileTimeout { .. } => VerdictKind::CompileTimeout,
            Self::CompileResource { .. } => VerdictKind::CompileResource,
            Self::CompileCrash { .. } => VerdictKind::CompileCrash,
            Self::LaunchRejected { .. } => VerdictKind::LaunchRejected,
            Self::Unsupported { .. } => VerdictKind::Unsupported,
            Self::Timeout { .. } => VerdictKind::Timeout,
            Self::ExcessiveEffort { .. } => VerdictKind::ExcessiveEffort,
            Self::RuntimeFault { .. } => VerdictKind::RuntimeFault,
            Self::RunnerCrash { .. } => VerdictKind::RunnerCrash,
            Self::OutOfBounds { .. } => VerdictKind::OutOfBounds,
            Self::UninitDependent { .. } => VerdictKind::UninitDependent,
            Self::DataRace { .. } => VerdictKind::DataRace,
            Self::BarrierError { .. } => VerdictKind::BarrierError,
            Self::InputMutated { .. } => VerdictKind::InputMutated,
            Self::IncorrectOutput(_) => VerdictKind::IncorrectOutput,
            Self::PrecisionDowngrade(_) => VerdictKind::PrecisionDowngrade,
            Self::NonDeterministic { .. } => VerdictKind::NonDeterministic,
            Self::ClockMismatch { .. } => VerdictKind::ClockMismatch,
            Self::PhysicallyImpossible { .. } => VerdictKind::PhysicallyImpossible,
            Self::Inconclusive { .. } => VerdictKind::Inconclusive,
            Self::InvalidRun { .. } => VerdictKind::InvalidRun,
        }
    }

    /// The acceptance, if it is one.
    pub fn acceptance(&self) -> Option<&Acceptance> {
        match self {
            Self::Accepted(acceptance) => Some(acceptance),
            _ => None,
        }
    }

    /// The emulated device's finding behind it, if there is one.
    pub fn finding(&self) -> Option<&Finding> {
        match self {
            Self::Timeout { finding, .. }
            | Self::RuntimeFault { finding, .. }
            | Self::OutOfBounds { finding, .. }
            | Self::UninitDependent { finding, .. }
            | Self::NonDeterministic { finding, .. } => finding.as_ref(),
            Self::DataRace { finding }
            | Self::BarrierError { finding }
            | Self::ExcessiveEffort { finding, .. } => Some(finding),
            _ => None,
        }
    }

    /// The first source line that the verdict blames, from 1.
    pub fn line(&self) -> Option<u32> {
        match self {
            Self::ParseRejected { problems } | Self::PolicyRejected { problems } => problems
                .first()
                .map(|problem| problem.line)
                .filter(|&line| line > 0),
            Self::CompileRejected { diagnostics } => {
                diagnostics.iter().find_map(|diagnostic| diagnostic.line)
            }
            Self::Unsupported { line, .. } => *line,
            other => other.finding().and_then(|finding| finding.line),
        }
    }

    /// Returns true if the verdict blames a source line: its own, or that of a conflict's other
    /// party, because either of two unordered accesses can be the defect.
    pub fn blames(&self, line: u32) -> bool {
        let other = self.finding().and_then(|finding| finding.other.as_ref());
        [self.line(), other.and_then(|other| other.line)].contains(&Some(line))
    }
}

/// One sentence for a person.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted(acceptance) => write!(f, "accepted, {}", acceptance.timing),
            Self::ParseRejected { problems } => write!(f, "parse rejected: {}", first(problems)),
            Self::PolicyRejected { problems } => write!(f, "policy rejected: {}", first(problems)),
            Self::GateRejected { gate, limit, found } => {
                write!(f, "gate rejected: {gate} is {found}, the limit is {limit}")
            }
            Self::CompileRejected { diagnostics } => match diagnostics.first() {
                Some(Diagnostic {
                    line: Some(line),
                    message,
                    ..
                }) => {
                    write!(f, "does not compile: line {line}: {message}")
                }
                Some(diagnostic) => write!(f, "does not compile: {}", diagnostic.message),
                None => f.write_str("does not compile"),
            },
            Self::CompileTimeout { seconds } => {
                write!(f, "the compiler did not finish in {seconds} s")
            }
            Self::CompileResource { message, .. } => {
                write!(f, "over the device's resources: {message}")
            }
            Self::CompileCrash { how } => write!(f, "the compiler crashed: {how}"),
            Self::LaunchRejected { reason } => write!(f, "launch rejected: {reason}"),
            Self::Unsupported { opcode, .. } => {
                write!(f, "the emulated device does not support {opcode}")
            }
            Self::ExcessiveEffort {
                stage,
                case,
                finding,
            } => write!(
                f,
                "more effort than allowed in {stage}, case {case}: {finding}"
            ),
            // Rows of evaluators before version 10.
            Self::Timeout {
                stage,
                finding: Some(finding),
            } => write!(f, "more effort than allowed in {stage}: {finding}"),
            Self::Timeout {
                stage,
                finding: None,
            } => write!(f, "timed out in {stage}"),
            Self::RuntimeFault {
                code,
                name,
                finding,
            } => {
                write!(f, "runtime fault {code} ({name})")?;
                finding
                    .as_ref()
                    .map_or(Ok(()), |finding| write!(f, ": {finding}"))
            }
            Self::RunnerCrash { how } => write!(f, "the runner crashed: {how}"),
            Self::OutOfBounds {
                access,
                finding,
                reason,
            } => match finding {
                Some(finding) => write!(f, "out of bounds: {finding}"),
                None => {
                    let what = if *access == Access::Read {
                        "read"
                    } else {
                        "write"
                    };
                    write!(f, "out-of-bounds {what}: {reason}")
                }
            },
            Self::UninitDependent { finding, reason } => match finding {
                Some(finding) => write!(f, "depends on uninitialised memory: {finding}"),
                None => write!(f, "depends on uninitialised memory: {reason}"),
            },
            Self::DataRace { finding } => write!(f, "data race: {finding}"),
            Self::BarrierError { finding } => write!(f, "barrier error: {finding}"),
            Self::InputMutated { tensor } => write!(f, "the input {tensor} was changed"),
            Self::IncorrectOutput(mismatch) => write!(f, "incorrect output: {mismatch}"),
            Self::PrecisionDowngrade(mismatch) => write!(f, "precision downgrade: {mismatch}"),
            Self::NonDeterministic { reason, finding } => match finding {
                Some(finding) => write!(f, "not deterministic: {finding}"),
                None => write!(f, "not deterministic: {reason}"),
            },
            Self::ClockMismatch { reason } => write!(f, "clock mismatch: {reason}"),
            Self::PhysicallyImpossible {
                case,
                floor_us,
                found_us,
            } => {
                write!(
                    f,
                    "physically impossible: {found_us:.2} us on {case}, the floor is {floor_us:.2} us"
                )
            }
            Self::Inconclusive { reason } => write!(f, "inconclusive: {reason}"),
            Self::InvalidRun { reason } => write!(f, "invalid run: {reason}"),
        }
    }
}

impl fmt::Display for WrongElements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = if self.count == 1 { "is" } else { "are" };
        write!(
            f,
            "{} of {} elements {are} wrong",
            self.count, self.elements
        )?;
        let spans = self.spans.iter().enumerate();
        let mut spans = spans.filter_map(|(axis, span)| Some((axis, (*span)?)));
        spans.try_for_each(|(axis, span)| write!(f, ", on axis {axis} {span}"))
    }
}

impl fmt::Display for AxisSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            _ if self.from == self.to => write!(f, "at {}", self.from),
            1 => write!(f, "from {} to {}", self.from, self.to),
            step => write!(f, "from {} to {} in steps of {step}", self.from, self.to),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on case {} ({} inputs): {}",
            self.tensor, self.case, self.distribution, self.reason
        )?;
        if let Some(worst) = &self.worst {
            let index = worst
                .index
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(",");
            write!(
                f,
                "; {}[{index}] is {}, expected {}",
                self.tensor, worst.found, worst.expected
            )?;
        }
        match &self.wrong {
            Some(wrong) => write!(f, "; {wrong}"),
            None => Ok(()),
        }
    }
}

fn first(problems: &[Problem]) -> String {
    problems
        .first()
        .map(ToString::to_string)
        .unwrap_or_default()
}
