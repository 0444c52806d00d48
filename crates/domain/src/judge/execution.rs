//! Judges one execution by its facts, and two executions of the same inputs by their differences.

use super::InfrastructureFault;
use crate::finding::{Finding, FindingKind};
use crate::plan::{ResolvedPlan, ResolvedStep};
use crate::role::{DeviceFault, Distribution, ExecutionFacts, TensorData, UnwrittenOutput};
use crate::task::{Role, Tolerance};
use crate::verdict::{Access, Mismatch, Verdict, WrongElement};

/// The context of the execution that is judged.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionContext<'a> {
    /// The evaluation's stage in words, such as "smoke".
    pub stage: &'a str,
    /// The case.
    pub case: &'a str,
    /// The inputs.
    pub distribution: Distribution,
    /// The plan.
    pub plan: &'a ResolvedPlan,
    /// The tensors.
    pub tensors: &'a [TensorData],
    /// The tolerance of outputs.
    pub tolerance: &'a Tolerance,
    /// Outputs whose bytes may differ between executions: their values are compared instead.
    pub order_dependent: &'a [String],
}

/// The verdict on one execution, before its outputs are compared; none if the execution has no defect.
///
/// If several defects occurred, a cause is preferred to its consequences: an access out of bounds
/// before the race that it leads to, a race before the undefined value that it leads to, and all of
/// them before the driver's error code.
///
/// # Errors
/// [`InfrastructureFault`] for a driver error that no kernel can cause, and for facts that contradict the plan.
pub fn judge_execution(
    facts: &ExecutionFacts,
    subject: &ExecutionContext<'_>,
) -> Result<Option<Verdict>, InfrastructureFault> {
    if let Some(unsupported) = &facts.unsupported {
        return Ok(Some(Verdict::Unsupported {
            opcode: unsupported.opcode.clone(),
            line: unsupported.line,
        }));
    }
    if let Some(finding) = facts
        .findings
        .iter()
        .min_by_key(|finding| cause_rank(finding.kind))
    {
        return Ok(Some(verdict_of_finding(finding, subject)));
    }
    if let Some(fault) = &facts.fault {
        // The launch that an error belongs to has begun, unless it is the launch that was refused.
        let begun = fault.launch.is_some() && !fault.call.starts_with("cuLaunch");
        let launched = begun || !facts.launches.is_empty();
        return judge_driver_error(fault, launched, subject).map(Some);
    }
    if let Some(tensor) = facts.overrun.first() {
        return Ok(Some(Verdict::OutOfBounds {
            access: Access::Write,
            finding: None,
            reason: format!(
                "the memory beside {tensor} was changed on case {}",
                subject.case
            ),
        }));
    }
    if let Some(tensor) = facts.mutated.first() {
        return Ok(Some(Verdict::InputMutated {
            tensor: tensor.clone(),
        }));
    }
    ensure_plan_was_followed(facts, subject)?;
    if facts.outlasted {
        return Ok(Some(Verdict::Timeout {
            stage: format!("{}, beside other blocks", subject.stage),
            finding: None,
        }));
    }
    Ok(facts
        .unwritten
        .iter()
        .find(|unwritten| unwritten.elements > 0)
        .map(|unwritten| verdict_of_unwritten_output(unwritten, subject)))
}

/// The verdict on an execution of which the emulated device's findings alone may count, since another
/// device is to judge the rest; none if they prove nothing.
///
/// A proof is a broken rule of CUDA that holds for every device: an invalid address, a misused
/// barrier, or a missing order between threads. A trap, too many instructions and wrong values are no
/// proof, because they may be due to the emulated device's model.
pub fn judge_proven_findings(
    facts: &ExecutionFacts,
    subject: &ExecutionContext<'_>,
) -> Option<Verdict> {
    let broken = facts
        .findings
        .iter()
        .filter(|found| breaks_a_rule(found.kind));
    let first = broken.min_by_key(|found| cause_rank(found.kind))?;
    Some(verdict_of_finding(first, subject))
}

fn breaks_a_rule(kind: FindingKind) -> bool {
    match kind {
        FindingKind::OutOfBoundsRead
        | FindingKind::OutOfBoundsWrite
        | FindingKind::Misaligned
        | FindingKind::IllegalAddress
        | FindingKind::Uninitialised
        | FindingKind::SharedRace
        | FindingKind::GlobalRace
        | FindingKind::DivergentBarrier
        | FindingKind::Deadlock => true,
        FindingKind::Hang
        | FindingKind::Trap
        | FindingKind::Assert
        | FindingKind::ScheduleDependent
        | FindingKind::LayoutDependent => false,
    }
}

/// The condition that was varied when an execution was repeated on the same inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatVariation {
    /// None: the same inputs, schedule and memory.
    None,
    /// The emulated device's schedule.
    Schedule,
    /// The assignment of a `wmma` fragment's elements to lanes.
    FragmentLayout {
        /// The line on which the source first uses fragments.
        line: Option<u32>,
    },
    /// The initial contents of outputs and workspaces, the memory around them and their addresses.
    MemoryState,
}

/// The task key that lets executions differ, for the author of the task.
const ALLOWANCE: &str =
    " (a task allows sums in any order, within its tolerance, with contract.order_dependent)";

/// The verdict on two executions of the same inputs; none if all outputs have the same bytes. Outputs
/// whose sums may be taken in any order do not count here.
pub fn judge_repeat(
    first: &ExecutionFacts,
    again: &ExecutionFacts,
    change: RepeatVariation,
    subject: &ExecutionContext<'_>,
) -> Option<Verdict> {
    let (tensor, _) = first
        .outputs
        .iter()
        .filter(|(tensor, _)| !subject.order_dependent.contains(tensor))
        .find(|(tensor, digest)| again.outputs.get(*tensor) != Some(digest))?;
    let case = subject.case;
    Some(match change {
        RepeatVariation::None => Verdict::NonDeterministic {
            reason: format!(
                "{tensor} differs between two executions of case {case} on the same inputs{ALLOWANCE}"
            ),
            finding: None,
        },
        RepeatVariation::Schedule => {
            let reason = format!(
                "{tensor} of case {case} depends on the order in which warps and blocks run; let one \
                 thread add up what is not exact, in a fixed order{ALLOWANCE}"
            );
            verdict_of_dependence(
                FindingKind::ScheduleDependent,
                reason,
                None,
                tensor,
                subject,
            )
        }
        RepeatVariation::FragmentLayout { line } => {
            let reason = format!(
                "{tensor} of case {case} depends on which lane holds which element of a wmma \
                 fragment, which CUDA leaves open; store the fragment to shared memory before \
                 looking at elements by their place"
            );
            verdict_of_dependence(FindingKind::LayoutDependent, reason, line, tensor, subject)
        }
        RepeatVariation::MemoryState => Verdict::UninitDependent {
            finding: None,
            reason: format!(
                "{tensor} of case {case} changes with what outputs and workspaces held before and \
                 with what lies around them"
            ),
        },
    })
}

/// The verdict on a repeat whose values are off, given the verdict on its outputs. The values of an
/// ordinary execution on the same inputs were within the tolerance.
pub fn judge_spread(outputs: Verdict) -> Verdict {
    match outputs {
        Verdict::IncorrectOutput(mismatch) | Verdict::PrecisionDowngrade(mismatch) => {
            Verdict::NonDeterministic {
                reason: format!(
                    "a repeat on the same inputs is off by more than the tolerance, from the reference \
                     or from the execution before it: {mismatch}"
                ),
                finding: None,
            }
        }
        other => other,
    }
}

/// A finding for a dependence on an order or a layout that CUDA does not guarantee. The kernel is known
/// only where the plan has one launch.
fn verdict_of_dependence(
    kind: FindingKind,
    reason: String,
    line: Option<u32>,
    tensor: &str,
    subject: &ExecutionContext<'_>,
) -> Verdict {
    let mut kernels = subject.plan.steps.iter().filter_map(|step| match step {
        ResolvedStep::Kernel(launch) => Some(launch.kernel.as_str()),
        ResolvedStep::Memset { .. } => None,
    });
    let kernel = match (kernels.next(), kernels.next()) {
        (Some(only), None) => only,
        _ => "",
    };
    Verdict::NonDeterministic {
        reason: reason.clone(),
        finding: Some(Finding {
            kind,
            kernel: kernel.to_owned(),
            line,
            block: [0; 3],
            thread: [0; 3],
            buffer: Some(tensor.to_owned()),
            offset: None,
            other: None,
            occurrences: 1,
            message: reason,
        }),
    }
}

/// Causes first: the smaller the rank, the closer to the cause.
fn cause_rank(kind: FindingKind) -> u8 {
    match kind {
        FindingKind::OutOfBoundsWrite => 0,
        FindingKind::OutOfBoundsRead => 1,
        FindingKind::DivergentBarrier => 2,
        FindingKind::Deadlock => 3,
        FindingKind::SharedRace => 4,
        FindingKind::GlobalRace => 5,
        FindingKind::Uninitialised => 6,
        FindingKind::Misaligned => 7,
        FindingKind::IllegalAddress => 8,
        FindingKind::Assert => 9,
        FindingKind::Trap => 10,
        FindingKind::Hang => 11,
        FindingKind::ScheduleDependent => 12,
        FindingKind::LayoutDependent => 13,
    }
}

/// The input whose read-only memory an illegal address belongs to; none if it belongs to no input.
fn written_input(finding: &Finding, subject: &ExecutionContext<'_>) -> Option<String> {
    let buffer = finding.buffer.as_ref()?;
    let mut tensors = subject.tensors.iter();
    let input = tensors.find(|tensor| tensor.name == *buffer && tensor.role == Role::In)?;
    Some(input.name.clone())
}

/// The verdict on a finding, which is a proof.
fn verdict_of_finding(finding: &Finding, subject: &ExecutionContext<'_>) -> Verdict {
    let own = finding.clone();
    let fault = |code, name: &str| Verdict::RuntimeFault {
        code,
        name: name.to_owned(),
        finding: Some(finding.clone()),
    };
    match finding.kind {
        FindingKind::OutOfBoundsRead | FindingKind::OutOfBoundsWrite => Verdict::OutOfBounds {
            access: if finding.kind == FindingKind::OutOfBoundsRead {
                Access::Read
            } else {
                Access::Write
            },
            reason: finding.message.clone(),
            finding: Some(own),
        },
        FindingKind::Misaligned => fault(716, "CUDA_ERROR_MISALIGNED_ADDRESS"),
        FindingKind::IllegalAddress => match written_input(finding, subject) {
            Some(tensor) => Verdict::InputMutated { tensor },
            None => fault(700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        },
        FindingKind::Trap => fault(715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"),
        FindingKind::Assert => fault(710, "CUDA_ERROR_ASSERT"),
        FindingKind::Uninitialised => Verdict::UninitDependent {
            reason: finding.message.clone(),
            finding: Some(own),
        },
        FindingKind::SharedRace | FindingKind::GlobalRace => Verdict::DataRace { finding: own },
        FindingKind::DivergentBarrier | FindingKind::Deadlock => {
            Verdict::BarrierError { finding: own }
        }
        FindingKind::Hang => Verdict::ExcessiveEffort {
            stage: subject.stage.to_owned(),
            case: subject.case.to_owned(),
            finding: own,
        },
        FindingKind::ScheduleDependent | FindingKind::LayoutDependent => {
            Verdict::NonDeterministic {
                reason: finding.message.clone(),
                finding: Some(own),
            }
        }
    }
}

/// Returns true if a kernel can leave this error of the driver behind: illegal address, assertion,
/// stack error, illegal instruction, misaligned address, invalid address space, invalid program
/// counter, launch failure. Codes are those of `CUresult`.
pub fn can_kernel_cause(code: u32) -> bool {
    matches!(code, 700 | 710 | 714..=719)
}

/// Judges an error of the driver. `launched` is true if a kernel of the candidate had been started.
/// Codes are those of `CUresult`.
fn judge_driver_error(
    fault: &DeviceFault,
    launched: bool,
    subject: &ExecutionContext<'_>,
) -> Result<Verdict, InfrastructureFault> {
    let launching = fault.call.starts_with("cuLaunch") || fault.call.starts_with("cuFunc");
    match fault.code {
        code if launched && can_kernel_cause(code) => Ok(Verdict::RuntimeFault {
            code: fault.code,
            name: fault.name.clone(),
            finding: None,
        }),
        // Launch timeout.
        702 if launched => Ok(Verdict::Timeout {
            stage: subject.stage.to_owned(),
            finding: None,
        }),
        // Invalid value, out of memory (of the threads' own), out of resources, cooperative launch
        // too large, not supported: refused before anything ran. An entry that is missing is the source's, too.
        1 | 2 | 701 | 720 | 801 if launching => Ok(launch_rejected(fault, subject)),
        500 if launching || fault.call == "cuModuleGetFunction" => {
            Ok(launch_rejected(fault, subject))
        }
        // Out of memory is the plan's doing only if its workspaces are what does not fit.
        2 if subject.plan.workspace_bytes() > tensor_bytes(subject.tensors) => {
            Ok(launch_rejected(fault, subject))
        }
        // Invalid module text: the emulated device does not know the language of an image that a
        // real assembler accepted.
        218 if fault.call.starts_with("cuModuleLoad") => Ok(Verdict::Unsupported {
            opcode: match &fault.log {
                Some(log) => format!("the module: {log}"),
                None => format!("the module ({})", fault.name),
            },
            line: None,
        }),
        _ => Err(InfrastructureFault(format!(
            "run case {} on the device: {} returned {} ({})",
            subject.case, fault.call, fault.code, fault.name
        ))),
    }
}

fn launch_rejected(fault: &DeviceFault, subject: &ExecutionContext<'_>) -> Verdict {
    let launch = fault
        .launch
        .map(|launch| format!("launch {}, ", launch + 1))
        .unwrap_or_default();
    Verdict::LaunchRejected {
        reason: format!(
            "case {}, {launch}{}: {} ({})",
            subject.case, fault.call, fault.name, fault.code
        ),
    }
}

/// Checks that a complete execution made the plan's launches in order and left every output.
fn ensure_plan_was_followed(
    facts: &ExecutionFacts,
    subject: &ExecutionContext<'_>,
) -> Result<(), InfrastructureFault> {
    let planned = subject
        .plan
        .steps
        .iter()
        .filter_map(|step| match step {
            ResolvedStep::Kernel(launch) => Some((&launch.kernel, launch.grid, launch.block)),
            ResolvedStep::Memset { .. } => None,
        })
        .collect::<Vec<_>>();
    let ran = facts
        .launches
        .iter()
        .map(|launch| (&launch.kernel, launch.grid, launch.block))
        .collect::<Vec<_>>();
    if planned != ran {
        return Err(InfrastructureFault(format!(
            "run case {} as planned: {} launches were planned and {} others ran",
            subject.case,
            planned.len(),
            ran.len()
        )));
    }
    let unread = subject
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::In)
        .find(|tensor| !facts.outputs.contains_key(&tensor.name));
    match unread {
        None => Ok(()),
        Some(tensor) => Err(InfrastructureFault(format!(
            "read {} after case {}: the runner says nothing of it",
            tensor.name, subject.case
        ))),
    }
}

fn verdict_of_unwritten_output(
    unwritten: &UnwrittenOutput,
    subject: &ExecutionContext<'_>,
) -> Verdict {
    let extents = subject
        .tensors
        .iter()
        .find(|tensor| tensor.name == unwritten.tensor)
        .map(|tensor| tensor.extents.as_slice())
        .unwrap_or_default();
    Verdict::IncorrectOutput(Mismatch {
        case: subject.case.to_owned(),
        distribution: subject.distribution.as_str().to_owned(),
        tensor: unwritten.tensor.clone(),
        reason: format!("{} elements were never written", unwritten.elements),
        relative_l2: None,
        allowed_l2: subject.tolerance.relative_l2,
        worst: Some(WrongElement {
            index: unravel_index(unwritten.first, extents),
            found: "not written".to_owned(),
            expected: "a value".to_owned(),
        }),
        wrong: None,
    })
}

/// The index along each axis of a flat index into a contiguous tensor.
pub fn unravel_index(flat: u64, extents: &[u64]) -> Vec<u64> {
    let mut rest = flat;
    let mut index = extents
        .iter()
        .rev()
        .map(|&extent| {
            let along = rest % extent.max(1);
            rest /= extent.max(1);
            along
        })
        .collect::<Vec<_>>();
    index.reverse();
    index
}

fn tensor_bytes(tensors: &[TensorData]) -> u64 {
    tensors
        .iter()
        .map(|tensor| tensor.elements() * tensor.dtype.bytes())
        .sum()
}
