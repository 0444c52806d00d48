//! Recording of findings: once per kind and line, with a sentence that a person or a model can act on.

mod causes;

use std::collections::HashMap;

use crate::code::{MemSpace, Op, Program};
use crate::report::{Access, Finding, FindingKind, Location, Outcome, Party, Space, Wait};

/// An error at the time of its detection.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) kind: FindingKind,
    pub(crate) pc: u32,
    pub(crate) block: [u32; 3],
    pub(crate) thread: [u32; 3],
    pub(crate) access: Option<Access>,
    pub(crate) other: Option<Party>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) message: String,
}

/// A finding as it is kept while the launch runs.
#[derive(Debug)]
struct Noted {
    /// The linear index of the block in which it occurred first.
    block: u64,
    /// True if the value concerned was read from shared memory.
    read_shared: bool,
    finding: Finding,
}

/// Findings of one launch (or of one host thread's share of it).
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Noted>,
    seen: HashMap<(FindingKind, Option<u32>, u32), usize>,
    dropped: u64,
    limit: usize,
}

/// The outcome of a launch that a finding of this kind ends; none if the launch continues.
pub(crate) fn outcome_of(kind: FindingKind) -> Option<Outcome> {
    Some(match kind {
        FindingKind::OutOfBoundsRead
        | FindingKind::OutOfBoundsWrite
        | FindingKind::IllegalAddress => Outcome::IllegalAddress,
        FindingKind::Misaligned => Outcome::MisalignedAddress,
        FindingKind::Trap => Outcome::Trapped,
        FindingKind::Assertion => Outcome::Asserted,
        FindingKind::Deadlock => Outcome::Deadlock,
        FindingKind::BudgetExhausted => Outcome::BudgetExhausted,
        FindingKind::UninitialisedAddress
        | FindingKind::UninitialisedBranch
        | FindingKind::UninitialisedStore
        | FindingKind::SharedRace
        | FindingKind::WarpRace
        | FindingKind::UnawaitedCopy
        | FindingKind::GlobalRace
        | FindingKind::DivergentBarrier
        | FindingKind::InvalidOperands => return None,
    })
}

/// The source position of an instruction.
pub(crate) fn location(program: &Program, pc: u32) -> Location {
    let Some(origin) = program.origin.get(pc as usize) else {
        return Location::default();
    };
    Location {
        file: origin
            .place
            .and_then(|place| program.files.get(&place.file).cloned()),
        line: origin.place.map(|place| place.line),
        ptx_line: origin.ptx_line,
    }
}

/// The source position as text for messages.
pub(crate) fn position_text(program: &Program, pc: u32) -> String {
    let at = location(program, pc);
    match at.line {
        Some(line) => format!("line {line}"),
        None => format!("PTX line {}", at.ptx_line),
    }
}

impl Findings {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Counts another occurrence of a recorded finding, so that its message need not be built again.
    pub(crate) fn repeat(&mut self, program: &Program, kind: FindingKind, pc: u32) -> bool {
        let key = Self::key(program, kind, pc);
        match self.seen.get(&key) {
            Some(&index) => {
                self.list[index].finding.occurrences += 1;
                true
            }
            None => false,
        }
    }

    fn key(program: &Program, kind: FindingKind, pc: u32) -> (FindingKind, Option<u32>, u32) {
        let origin = &program.origin[pc as usize];
        match origin.place {
            Some(place) => (kind, Some(place.file), place.line),
            None => (kind, None, origin.ptx_line),
        }
    }

    pub(crate) fn add(
        &mut self,
        program: &Program,
        kernel: &str,
        block_index: u64,
        seen: Observation,
    ) {
        if self.repeat(program, seen.kind, seen.pc) {
            return;
        }
        let fatal = outcome_of(seen.kind).is_some();
        if self.list.len() >= self.limit && !fatal {
            self.dropped += 1;
            return;
        }
        self.seen
            .insert(Self::key(program, seen.kind, seen.pc), self.list.len());
        self.list.push(Noted {
            block: block_index,
            read_shared: reads_shared(program, seen.pc),
            finding: Finding {
                kind: seen.kind,
                fatal,
                kernel: kernel.to_owned(),
                location: location(program, seen.pc),
                block: seen.block,
                thread: seen.thread,
                access: seen.access,
                other: seen.other,
                waits: seen.waits,
                occurrences: 1,
                message: seen.message,
            },
        });
    }

    /// Merges the findings of several host threads in block order, and drops symptoms of recorded causes.
    pub(crate) fn merge(parts: Vec<Self>, limit: usize) -> (Vec<Finding>, u64) {
        let mut dropped = parts.iter().map(|part| part.dropped).sum();
        let mut all: Vec<Noted> = parts.into_iter().flat_map(|part| part.list).collect();
        all.sort_by_key(|noted| noted.block);
        let mut joined: Vec<Noted> = Vec::new();
        for noted in all {
            let same = |other: &&mut Noted| {
                other.finding.kind == noted.finding.kind
                    && causes::same_line(&other.finding.location, &noted.finding.location)
            };
            if let Some(known) = joined.iter_mut().find(same) {
                known.finding.occurrences += noted.finding.occurrences;
            } else if joined.len() < limit || noted.finding.fatal {
                joined.push(noted);
            } else {
                dropped += 1;
            }
        }
        (causes::merge_symptoms(joined), dropped)
    }
}

/// Reports whether an instruction reads, or may read, shared memory.
fn reads_shared(program: &Program, pc: u32) -> bool {
    let inst = program.code[pc as usize];
    let entry = match inst.op {
        Op::Load | Op::Atomic => inst.x,
        Op::LoadMatrix | Op::Tensor => program.tensor[inst.x as usize].memory,
        _ => return false,
    };
    program
        .memory
        .get(entry as usize)
        .is_some_and(|op| matches!(op.space, MemSpace::Shared | MemSpace::Generic))
}

/// The name of a state space in messages.
pub(crate) fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global => "global memory",
        Space::Shared => "shared memory",
        Space::Local => "the thread's stack",
        Space::Constant => "constant memory",
        Space::Parameter => "the parameters",
        Space::Generic => "no memory",
    }
}

/// The buffer of an access as text for messages. Offsets are in bytes, because the element type is unknown.
pub(crate) fn buffer_name(access: &Access) -> String {
    match &access.buffer {
        Some(name) => format!("`{name}`"),
        None => space_name(access.space).to_owned(),
    }
}
