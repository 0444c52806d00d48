//! The blocks that a launch executes: all of them, or runs of neighbours. And their division into waves: as many
//! consecutive blocks as run at the same time on the device.
//!
//! A sample consists of runs of several waves, because blocks share most data with their neighbours, and because the
//! next wave shows what is used again. Its runs are spread evenly over the grid. Where a survey of single blocks shows
//! that their work differs, the runs lie where the work is: a grid may consist of blocks without work for the most part.

use super::survey::Survey;

/// Waves of each run of a sample: the fewest that show what a wave adds to the two before.
const WAVES_OF_RUN: u64 = 3;
/// The fewest runs of a sample, so that blocks in different parts of the grid are among them.
const LEAST_RUNS: u64 = 2;
/// The most waves of a whole launch. In longer ones a wave is several of the device's.
const MOST_WAVES: u64 = 512;
/// The golden ratio's fraction: its multiples are spread evenly and are in step with no period.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The blocks that a launch executes.
#[derive(Debug, Clone)]
pub(crate) struct ChosenBlocks {
    grid: u64,
    /// The first block of each run, in order.
    starts: Vec<u64>,
    blocks_of_run: u64,
    blocks_of_wave: u64,
}

impl ChosenBlocks {
    /// Chooses among `grid` blocks, of which the device runs `resident` at a time: all, or at least `sample` of them.
    pub(crate) fn new(grid: u64, sample: Option<u64>, resident: u64) -> Self {
        let resident = resident.max(1);
        let blocks_of_run = WAVES_OF_RUN * resident;
        let runs = sample.map(|sample| sample.div_ceil(blocks_of_run).max(LEAST_RUNS));
        match runs.filter(|runs| runs.saturating_mul(blocks_of_run) < grid) {
            Some(runs) => Self {
                grid,
                // Each in the middle of its equal share of the grid.
                starts: (0..runs)
                    .map(|run| (run * grid).div_ceil(runs) + (grid / runs - blocks_of_run) / 2)
                    .collect(),
                blocks_of_run,
                blocks_of_wave: resident,
            },
            None => Self {
                grid,
                starts: vec![0],
                blocks_of_run: grid,
                blocks_of_wave: resident.max(grid.div_ceil(MOST_WAVES)),
            },
        }
    }

    /// `count` single blocks of a grid, at most all: one in each equal share, each time in another part of it.
    pub(crate) fn single(grid: u64, count: u64) -> Self {
        let count = count.clamp(1, grid);
        let starts = (0..count).map(|number| {
            let first = (number * grid).div_ceil(count);
            let length = ((number + 1) * grid).div_ceil(count) - first;
            let part = (number as f64 * GOLDEN).fract();
            first + ((length as f64 * part) as u64).min(length - 1)
        });
        Self {
            grid,
            starts: starts.collect(),
            blocks_of_run: 1,
            blocks_of_wave: 1,
        }
    }

    /// The same number of runs, placed so that as much of the surveyed work lies before each as after the one that
    /// mirrors it.
    pub(crate) fn placed_by(mut self, survey: &Survey) -> Self {
        let runs = self.starts.len() as u64;
        let mut from = 0;
        for (number, start) in (0..runs).zip(&mut self.starts) {
            let part = (number as f64 + 0.5) / runs as f64;
            let middle = survey.block_at(part);
            let latest = self.grid - (runs - number) * self.blocks_of_run;
            *start = middle
                .saturating_sub(self.blocks_of_run / 2)
                .clamp(from, latest);
            from = *start + self.blocks_of_run;
        }
        self
    }

    /// The number of blocks of the grid.
    pub(super) fn grid(&self) -> u64 {
        self.grid
    }

    /// The number of blocks that are executed.
    pub(crate) fn len(&self) -> u64 {
        self.starts.len() as u64 * self.blocks_of_run
    }

    /// Reports whether all blocks are executed.
    pub(crate) fn is_whole(&self) -> bool {
        self.len() == self.grid
    }

    pub(super) fn runs(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn waves_of_run(&self) -> usize {
        self.blocks_of_run.div_ceil(self.blocks_of_wave) as usize
    }

    /// The number of waves of the whole grid.
    pub(super) fn waves_of_grid(&self) -> u64 {
        self.grid.div_ceil(self.blocks_of_wave)
    }

    /// The linear index of the `n`-th block that is executed.
    pub(super) fn block(&self, n: u64) -> u64 {
        self.starts[(n / self.blocks_of_run) as usize] + n % self.blocks_of_run
    }

    /// The number of a block's wave among those that are executed.
    pub(super) fn wave_of(&self, block: u64) -> usize {
        let run = self.starts.partition_point(|start| *start <= block) - 1;
        let wave = (block - self.starts[run]) / self.blocks_of_wave;
        run * self.waves_of_run() + wave as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_apart_and_waves_are_counted_in_order(
            grid in 1_u64..5_000,
            sample in proptest::option::of(0_u64..6_000),
            resident in 0_u64..400,
        ) {
            let chosen = ChosenBlocks::new(grid, sample, resident);
            let blocks = (0..chosen.len()).map(|n| chosen.block(n)).collect::<Vec<_>>();
            prop_assert!(blocks.is_sorted_by(|left, right| left < right));
            prop_assert!(*blocks.last().unwrap() < grid);
            prop_assert!(chosen.len() >= sample.unwrap_or(grid).min(grid));
            let waves = blocks.iter().map(|block| chosen.wave_of(*block)).collect::<Vec<_>>();
            prop_assert!(waves.is_sorted());
            prop_assert_eq!(waves[0], 0);
            prop_assert_eq!(*waves.last().unwrap(), chosen.runs() * chosen.waves_of_run() - 1);
            if chosen.is_whole() {
                prop_assert_eq!(chosen.waves_of_run() as u64, chosen.waves_of_grid());
                prop_assert!(chosen.waves_of_grid() <= MOST_WAVES);
            } else {
                prop_assert_eq!(chosen.waves_of_run() as u64, WAVES_OF_RUN);
            }
        }

        #[test]
        fn runs_lie_apart_where_the_work_is(
            grid in 100_u64..5_000,
            sample in 0_u64..60,
            resident in 1_u64..8,
            from in 0.0_f64..1.0,
            length in 0.01_f64..1.0,
        ) {
            let worked = (grid as f64 * from) as u64..(grid as f64 * (from + length)) as u64 + 1;
            let look_at = |count: u64| -> Vec<(u64, u64)> {
                let single = ChosenBlocks::single(grid, count);
                let blocks = (0..single.len()).map(|n| single.block(n)).collect::<Vec<_>>();
                assert!(blocks.is_sorted_by(|left, right| left < right), "{blocks:?}");
                assert!(*blocks.last().unwrap() < grid);
                let work = |block: &u64| if worked.contains(block) { 1000 } else { 10 };
                blocks.iter().map(|block| (*block, work(block))).collect()
            };
            let Some(survey) = Survey::of_uneven(grid, look_at) else {
                return Ok(());
            };
            let whole = 1000.0 * (0..grid).filter(|block| worked.contains(block)).count() as f64;
            prop_assert!((survey.of_grid() / whole - 1.0).abs() < 0.2, "{} of {whole}", survey.of_grid());
            let even = ChosenBlocks::new(grid, Some(sample), resident);
            let placed = even.clone().placed_by(&survey);
            let blocks = (0..placed.len()).map(|n| placed.block(n)).collect::<Vec<_>>();
            prop_assert_eq!(placed.len(), even.len());
            prop_assert!(blocks.is_sorted_by(|left, right| left < right), "{blocks:?}");
            prop_assert!(*blocks.last().unwrap() < grid);
            prop_assert!(blocks.iter().any(|block| worked.contains(block)), "{blocks:?} {worked:?}");
        }
    }
}
