//! The sectors of device memory that each wave of blocks touches. They show which repeated accesses are so far apart
//! that a cache has evicted the sector meanwhile.
//!
//! The blocks of a wave run at the same time and find in the cache what one of them fetched, so that a sector counts
//! once for each wave.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::track::{Track, unmarked};
use crate::machine::chosen_blocks::ChosenBlocks;
use crate::report::WorkingSet;

/// Of a large allocation one chunk in so many is observed. A prime number, because with a power of two the observed
/// chunks would lie in the same columns of every row of a matrix.
const SPACING: usize = 17;
/// Size, in chunks, up to which every chunk of an allocation is observed: 1 MiB.
const OBSERVED_WHOLE: usize = 1 << 10;

/// The sectors of one allocation that each wave touched, for all of its chunks or a sample of them. A chunk is 32
/// sectors, which is 1 KiB.
#[derive(Debug)]
pub(crate) struct WaveMarks {
    /// The observed chunks are those whose number is a multiple of this.
    spacing: usize,
    /// Number of observed chunks.
    observed: usize,
    /// A bit for each sector of each observed chunk, for each wave.
    bits: Box<[AtomicU32]>,
}

impl WaveMarks {
    pub(crate) fn new(chunks: usize, chosen: &ChosenBlocks) -> Self {
        let spacing = if chunks > OBSERVED_WHOLE { SPACING } else { 1 };
        let observed = chunks.div_ceil(spacing);
        Self {
            spacing,
            observed,
            bits: unmarked(observed * chosen.runs() * chosen.waves_of_run()),
        }
    }

    /// Marks some sectors of a chunk, as bits, as touched by a wave.
    #[inline(always)]
    pub(super) fn mark(&self, wave: usize, chunk: usize, sectors: u32) {
        let at = if self.spacing == 1 {
            chunk
        } else if chunk.is_multiple_of(SPACING) {
            chunk / SPACING
        } else {
            return;
        };
        let cell = &self.bits[wave * self.observed + at];
        if cell.load(Relaxed) & sectors != sectors {
            cell.fetch_or(sectors, Relaxed);
        }
    }
}

/// For how many waves the sectors of one allocation stayed untouched, as a mean over the runs of the launch.
struct Absences {
    /// Distinct sectors that a run touched.
    touched: f64,
    /// Number of longest stretches of waves of a run that do not touch a sector, by their length, for the sectors that
    /// the run touched.
    stretches: Vec<f64>,
}

impl Absences {
    /// Sums up the marks of an allocation of which `touched` sectors were touched in all, but for those that persist in
    /// the cache.
    fn new(marks: &WaveMarks, touched: u64, persisting: &[u32], chosen: &ChosenBlocks) -> Self {
        let waves = chosen.waves_of_run();
        let mut stretches = vec![0_u64; waves + 1];
        let (mut by_runs, mut by_any) = (0, 0);
        for chunk in 0..marks.observed {
            let mut any = 0;
            let persisting = persisting.get(chunk * marks.spacing).copied();
            let ordinary = !persisting.unwrap_or(0);
            for run in 0..chosen.runs() {
                // For each sector of the chunk the first wave of the run after its last touch.
                let mut free_since = [0_usize; 32];
                let mut all = 0;
                for wave in 0..waves {
                    let row = run * waves + wave;
                    let mut sectors = marks.bits[row * marks.observed + chunk].load(Relaxed);
                    sectors &= ordinary;
                    all |= sectors;
                    while sectors != 0 {
                        let sector = sectors.trailing_zeros() as usize;
                        sectors &= sectors - 1;
                        stretches[wave - free_since[sector]] += 1;
                        free_since[sector] = wave + 1;
                    }
                }
                for (sector, since) in free_since.into_iter().enumerate() {
                    stretches[waves - since] += u64::from(all >> sector & 1);
                }
                by_runs += u64::from(all.count_ones());
                any |= all;
            }
            by_any += u64::from(any.count_ones());
        }
        let weight = touched as f64 / by_any.max(1) as f64 / chosen.runs() as f64;
        let stretches = stretches.into_iter().map(|count| count as f64 * weight);
        Self {
            touched: by_runs as f64 * weight,
            stretches: stretches.collect(),
        }
    }

    /// The mean number of distinct sectors that `length` consecutive waves touch: all but those that are absent from
    /// the whole stretch.
    fn working_set(&self, length: usize) -> f64 {
        let places = (self.stretches.len() - length) as f64;
        let absent = self.stretches.iter().enumerate().skip(length);
        let absent = absent.map(|(waves, count)| count * (waves - length + 1) as f64);
        self.touched - absent.sum::<f64>() / places
    }

    /// The distinct sectors of the whole grid, which has `factor` times the work of the runs, if each further wave adds
    /// as many as the last one of a run does.
    fn of_grid(&self, chosen: &ChosenBlocks, factor: f64) -> f64 {
        let waves = chosen.waves_of_run();
        if chosen.is_whole() {
            return self.touched;
        }
        let last = self.touched - self.working_set(waves - 1);
        let further = (factor * chosen.runs() as f64 - 1.0).max(0.0);
        self.touched + last * further * waves as f64
    }
}

/// The working sets of a launch, and what they say about the distinct sectors of its whole grid.
pub(crate) struct Reuse {
    /// The working sets of 1, 2, 3... waves of a run, at last of all waves of the grid.
    pub(crate) working_sets: Vec<WorkingSet>,
    /// For each track the distinct sectors of the whole grid, as a multiple of those that were touched.
    pub(crate) growth: Vec<f64>,
}

impl Reuse {
    /// `of_work` is the work of the whole grid over that of the executed blocks, where blocks differ.
    pub(crate) fn new(
        tracks: &[Track],
        persisting: &[Range<u64>],
        chosen: &ChosenBlocks,
        of_work: Option<f64>,
    ) -> Self {
        let of_blocks = chosen.grid() as f64 / chosen.len() as f64;
        let factor = of_work.unwrap_or(of_blocks);
        let waves = chosen.waves_of_run();
        let next = |length: &usize| Some(length + (length / 8).max(1));
        let lengths = std::iter::successors(Some(1), next)
            .take_while(|length| *length < waves)
            .chain([waves])
            .collect::<Vec<_>>();
        let mut sums = vec![0.0; lengths.len()];
        let mut of_grid = 0.0;
        let mut growth = Vec::new();
        for track in tracks {
            let persisting = track.allocation.sectors_in(persisting);
            let touched = track.count_touched() - track.count_touched_among(&persisting);
            let Some(marks) = track.waves.as_ref().filter(|_| touched > 0) else {
                growth.push(1.0);
                continue;
            };
            let absences = Absences::new(marks, touched, &persisting, chosen);
            for (sum, length) in sums.iter_mut().zip(&lengths) {
                *sum += absences.working_set(*length);
            }
            let whole = track.allocation.bytes().div_ceil(32) as f64;
            let all = absences
                .of_grid(chosen, factor)
                .clamp(touched as f64, whole);
            of_grid += all;
            growth.push(all / touched as f64);
        }
        let mut working_sets = lengths
            .into_iter()
            .zip(sums)
            .map(|(waves, sectors)| WorkingSet {
                waves: waves as u64,
                sectors: sectors.round() as u64,
            })
            .collect::<Vec<_>>();
        if !chosen.is_whole() {
            let executed = (chosen.runs() * waves) as f64;
            let with_work = of_work.map(|factor| (factor * executed).round() as u64);
            let all = chosen.waves_of_grid();
            working_sets.push(WorkingSet {
                waves: with_work.map_or(all, |waves| waves.min(all)),
                sectors: of_grid.round() as u64,
            });
        }
        Self {
            working_sets,
            growth,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The absences from an allocation of which each wave of a whole launch touches these sectors.
    fn absences(chunks: usize, touches: &[BTreeSet<u64>]) -> Absences {
        let chosen = ChosenBlocks::new(touches.len() as u64, None, 1);
        let marks = WaveMarks::new(chunks, &chosen);
        for (wave, sectors) in touches.iter().enumerate() {
            for sector in sectors {
                marks.mark(wave, (sector / 32) as usize, 1 << (sector % 32));
            }
        }
        let distinct = touches.iter().flatten().collect::<BTreeSet<_>>();
        Absences::new(&marks, distinct.len() as u64, &[], &chosen)
    }

    #[test]
    fn the_sample_of_a_large_matrix_sees_rows_that_are_read_again() {
        // Rows of 16 KiB, two of them for each wave, the second of which the next wave reads again.
        let row = |number: u64| (512 * number)..(512 * (number + 1));
        let touches = (0..128).map(|wave| row(wave).chain(row(wave + 1)).collect());
        let touches = touches.collect::<Vec<BTreeSet<u64>>>();
        let sampled = absences(129 * 16, &touches);
        for (length, rows) in [(1, 2.0), (2, 3.0), (64, 65.0)] {
            let ratio = sampled.working_set(length) / (512.0 * rows);
            assert!((ratio - 1.0).abs() < 0.03, "{length} waves: {ratio}");
        }
    }

    proptest! {
        #[test]
        fn a_working_set_is_the_mean_of_all_stretches(
            touches in proptest::collection::vec(proptest::collection::btree_set(0_u64..70, 0..12), 2..12),
        ) {
            let found = absences(3, &touches);
            for length in 1..=touches.len() {
                let stretches = touches.windows(length);
                let places = stretches.len() as f64;
                let sum = stretches
                    .map(|waves| waves.iter().flatten().collect::<BTreeSet<_>>().len() as f64)
                    .sum::<f64>();
                prop_assert!((found.working_set(length) - sum / places).abs() < 1e-6);
            }
        }
    }
}
