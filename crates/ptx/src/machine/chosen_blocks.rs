//! The blocks that a launch executes: all of them, or runs of neighbours spread evenly over the grid. And their division
//! into waves: as many consecutive blocks as run at the same time on the device.
//!
//! A sample consists of runs of several waves, because blocks share most data with their neighbours, and because the
//! next wave shows what is used again.

/// Waves of each run of a sample: the fewest that show what a wave adds to the two before.
const WAVES_OF_RUN: u64 = 3;
/// The fewest runs of a sample, so that blocks in different parts of the grid are among them.
const LEAST_RUNS: u64 = 2;
/// The most waves of a whole launch. In longer ones a wave is several of the device's.
const MOST_WAVES: u64 = 512;

/// The blocks that a launch executes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChosenBlocks {
    grid: u64,
    runs: u64,
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
                runs,
                blocks_of_run,
                blocks_of_wave: resident,
            },
            None => Self {
                grid,
                runs: 1,
                blocks_of_run: grid,
                blocks_of_wave: resident.max(grid.div_ceil(MOST_WAVES)),
            },
        }
    }

    /// The number of blocks of the grid.
    pub(super) fn grid(self) -> u64 {
        self.grid
    }

    /// The number of blocks that are executed.
    pub(crate) fn len(self) -> u64 {
        self.runs * self.blocks_of_run
    }

    /// Reports whether all blocks are executed.
    pub(crate) fn is_whole(self) -> bool {
        self.len() == self.grid
    }

    pub(super) fn runs(self) -> usize {
        self.runs as usize
    }

    pub(super) fn waves_of_run(self) -> usize {
        self.blocks_of_run.div_ceil(self.blocks_of_wave) as usize
    }

    /// The number of waves of the whole grid.
    pub(super) fn waves_of_grid(self) -> u64 {
        self.grid.div_ceil(self.blocks_of_wave)
    }

    /// The linear index of the `n`-th block that is executed.
    pub(super) fn block(self, n: u64) -> u64 {
        self.first_block(n / self.blocks_of_run) + n % self.blocks_of_run
    }

    /// The number of a block's wave among those that are executed.
    pub(super) fn wave_of(self, block: u64) -> usize {
        let run = block * self.runs / self.grid;
        let wave = (block - self.first_block(run)) / self.blocks_of_wave;
        run as usize * self.waves_of_run() + wave as usize
    }

    /// The first block of a run, which is in the middle of its equal share of the grid.
    fn first_block(self, run: u64) -> u64 {
        (run * self.grid).div_ceil(self.runs) + (self.grid / self.runs - self.blocks_of_run) / 2
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
    }
}
