//! The source lines that do most of the work that bounds a candidate's time. The emulated device counts the
//! work of each line; silicon does not.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::evaluation::CaseLaunches;
use crate::role::LineCounters;
use crate::timing::Timing;

/// The most lines that are kept.
const MAX_LINES: usize = 5;
/// The least part of a launch's work that makes a line hot. What a line below it could save is lost among the
/// others.
const LEAST_SHARE: f64 = 0.01;

/// The source lines with the most of the work that bounds one launch, the launch in which one term of the time
/// model takes the most time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HottestLines {
    /// The score case.
    pub case: String,
    /// The kernel that was launched.
    pub kernel: String,
    /// The kind of work that the lines are ordered by.
    pub work: LineWork,
    /// At most five lines with at least 1% of the work, the one with the most first.
    pub lines: Vec<HotLine>,
}

/// A source line with its part of a launch's work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HotLine {
    /// Line in the candidate's file, from 1.
    pub line: u32,
    /// The line's part of the launch's work, 0 to 1.
    pub share: f64,
    /// The work over the least that the bytes it moves need, 1 or more; none for instructions, and where no byte
    /// was moved.
    pub times_ideal: Option<f64>,
}

/// A kind of work that is counted for each source line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineWork {
    /// Instructions of warps.
    Instructions,
    /// Sectors of global memory (32 bytes) read and written.
    GlobalSectors,
    /// Passes through the banks of shared memory.
    SharedWavefronts,
}

impl LineWork {
    /// The work of which a term of the time model is made. Terms of arithmetic and latency count instructions,
    /// because no line's part of them is known more exactly.
    fn of_bottleneck(name: &str) -> Self {
        match name {
            "l1_sectors" | "l2_bytes" | "dram_bytes" => Self::GlobalSectors,
            "shared_wavefronts" => Self::SharedWavefronts,
            _ => Self::Instructions,
        }
    }

    fn amount(self, counters: &BTreeMap<String, u64>) -> u64 {
        match self {
            Self::Instructions => count(counters, "warp_instructions"),
            Self::GlobalSectors => {
                count(counters, "global.sectors_read") + count(counters, "global.sectors_written")
            }
            Self::SharedWavefronts => count(counters, "shared.wavefronts"),
        }
    }

    fn ideal(self, counters: &BTreeMap<String, u64>) -> u64 {
        match self {
            Self::Instructions => 0,
            Self::GlobalSectors => {
                count(counters, "global.sectors_read_ideal")
                    + count(counters, "global.sectors_written_ideal")
            }
            Self::SharedWavefronts => count(counters, "shared.wavefronts_ideal"),
        }
    }
}

fn count(counters: &BTreeMap<String, u64>, name: &str) -> u64 {
    counters.get(name).copied().unwrap_or_default()
}

impl HottestLines {
    /// Finds the hottest lines of a candidate with these times and launches. `lines_of` gives the counters of the
    /// source lines of a score case's launch, by the launch's position. None where times are measured, and where
    /// nothing was counted.
    pub fn find<'a>(
        timing: &Timing,
        launches: &[CaseLaunches],
        lines_of: impl FnOnce(&str, usize) -> Option<&'a [LineCounters]>,
    ) -> Option<Self> {
        let (time, bound) = timing.largest_bottleneck()?;
        let position = time.launches.iter().position(|launch| launch == bound)?;
        let ran = launches.iter().find(|ran| ran.case == time.case)?;
        let ran = ran.launches.get(position)?;
        let work = LineWork::of_bottleneck(&bound.bottleneck);
        let all = work.amount(&ran.counters);
        let mut counted: Vec<&LineCounters> = lines_of(&time.case, position)?
            .iter()
            .filter(|line| work.amount(&line.counters) > 0)
            .collect();
        counted.sort_by_key(|line| Reverse(work.amount(&line.counters)));
        counted.truncate(MAX_LINES);
        let lines: Vec<_> = counted
            .into_iter()
            .filter_map(|line| {
                let amount = work.amount(&line.counters);
                Some(HotLine {
                    line: line.line,
                    share: ratio(amount, all)?,
                    times_ideal: ratio(amount, work.ideal(&line.counters)),
                })
            })
            .filter(|line| line.share >= LEAST_SHARE)
            .collect();
        (!lines.is_empty()).then(|| Self {
            case: time.case.clone(),
            kernel: bound.kernel.clone(),
            work,
            lines,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio of counts is read to three digits"
)]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
