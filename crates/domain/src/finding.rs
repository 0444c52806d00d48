//! Findings: facts that the emulated device, or a sanitizer, proved about one access or one
//! barrier.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A read outside every buffer.
    OutOfBoundsRead,
    /// A write outside every buffer.
    OutOfBoundsWrite,
    /// An address that is not a multiple of the access width.
    Misaligned,
    /// A value that was never written decides an address, a branch or an output.
    Uninitialised,
    /// Two threads of a block conflict in shared memory.
    SharedRace,
    /// Two blocks conflict in global memory.
    GlobalRace,
    /// Threads of a warp or block reach different barriers.
    DivergentBarrier,
    /// No warp can continue.
    Deadlock,
    /// The instruction budget ran out.
    Hang,
    /// A trap instruction.
    Trap,
    /// A failed `assert`.
    Assert,
    /// The result depends on the order in which warps or blocks run.
    ScheduleDependent,
    /// The result depends on which lane of a warp holds which element of a matrix fragment.
    LayoutDependent,
    /// An access through an address that belongs to no space.
    IllegalAddress,
}

/// One thing that was proved, with the place in the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// The kernel.
    pub kernel: String,
    /// Line in the candidate's file, from 1.
    pub line: Option<u32>,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index in its block.
    pub thread: [u32; 3],
    /// The buffer, where one is concerned.
    pub buffer: Option<String>,
    /// Byte offset from the buffer's start; negative before it.
    pub offset: Option<i64>,
    /// The other party of a conflict.
    pub other: Option<OtherParty>,
    /// The number of occurrences at this line.
    pub occurrences: u64,
    /// One sentence that says what happened and what to do.
    pub message: String,
}

/// The other thread of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OtherParty {
    /// Its block.
    pub block: [u32; 3],
    /// Its thread.
    pub thread: [u32; 3],
    /// Its line in the candidate's file.
    pub line: Option<u32>,
}

/// Returns true if a message names this source line, as most messages of the emulated device do.
pub(crate) fn names_line(message: &str, line: u32) -> bool {
    let name = format!("line {line}");
    message.match_indices(&name).any(|(start, _)| {
        let (before, after) = (&message[..start], &message[start + name.len()..]);
        !before.ends_with("PTX ") && !after.starts_with(|next: char| next.is_ascii_digit())
    })
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line
            && !names_line(&self.message, line)
        {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}
