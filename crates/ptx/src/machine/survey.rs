//! A survey of a grid before a sample of it is executed: the work of single blocks, which shows whether the blocks of a
//! grid differ. A kernel that launches more blocks than have work would otherwise be counted by a sample of whichever
//! kind of block lies where the sample does.

/// Single blocks that show whether the work differs.
const FIRST: u64 = 64;
/// Blocks with work that a second look is to meet where it differs.
const WITH_WORK: f64 = 128.0;
/// The most blocks of the second look. Most of so many have next to no work.
const MOST: u64 = 4096;
/// Greatest quotient of the most and the least work of blocks that count as even.
const EVEN: f64 = 1.05;
/// Blocks with less than one part in so many of the most work count as blocks without any. What they execute before
/// they end is not counted for the whole grid.
const IDLE_PART: u64 = 10;

/// The work of single blocks of a grid.
#[derive(Debug, Clone)]
pub(crate) struct Survey {
    /// Blocks of the grid.
    grid: u64,
    /// Blocks with the warp instructions that each executed, by block; 0 for those without work.
    work: Vec<(u64, u64)>,
    /// The fewest warp instructions of a block with work.
    least: u64,
}

impl Survey {
    /// Looks at a grid whose blocks differ; none if they do not, or if no block has work. `look_at` executes a number of
    /// single blocks and returns their work.
    pub(crate) fn of_uneven(grid: u64, look_at: impl Fn(u64) -> Vec<(u64, u64)>) -> Option<Self> {
        let first = look_at(FIRST);
        let work = first.iter().map(|(_, work)| *work);
        let (least, most) = (work.clone().min()?, work.max()?);
        if most as f64 <= EVEN * least as f64 {
            return None;
        }
        let first = Self::new(grid, first);
        let share = (first.mean() / most as f64).max(f64::MIN_POSITIVE);
        let count = (WITH_WORK / share).min(MOST as f64) as u64;
        let second = Self::new(grid, look_at(count.max(FIRST)));
        (second.mean() > 0.0).then_some(second)
    }

    fn new(grid: u64, mut work: Vec<(u64, u64)>) -> Self {
        let most = work.iter().map(|(_, work)| *work).max().unwrap_or(0);
        let least = most.div_ceil(IDLE_PART);
        for (_, work) in &mut work {
            *work = if *work < least { 0 } else { *work };
        }
        Self { grid, work, least }
    }

    /// The warp instructions that count of a block that executed so many.
    pub(crate) fn counted(&self, instructions: u64) -> u64 {
        if instructions < self.least {
            0
        } else {
            instructions
        }
    }

    fn mean(&self) -> f64 {
        let sum: u64 = self.work.iter().map(|(_, work)| work).sum();
        sum as f64 / self.work.len().max(1) as f64
    }

    /// The work of the whole grid, warp instructions of blocks with work.
    pub(crate) fn of_grid(&self) -> f64 {
        self.mean() * self.grid as f64
    }

    /// Standard error of that, as a part of it, as if the blocks had been drawn at random. Blocks that are spread evenly
    /// err less.
    pub(crate) fn error(&self) -> f64 {
        let mean = self.mean();
        let squares = self
            .work
            .iter()
            .map(|(_, work)| (*work as f64 - mean).powi(2));
        let count = self.work.len() as f64;
        (squares.sum::<f64>() / (count - 1.0).max(1.0) / count).sqrt() / mean
    }

    /// The block before which a part of the work lies.
    pub(crate) fn block_at(&self, part: f64) -> u64 {
        let all: u64 = self.work.iter().map(|(_, work)| work).sum();
        let mut before = 0;
        for (block, work) in &self.work {
            before += work;
            if before as f64 >= part * all as f64 {
                return *block;
            }
        }
        self.grid - 1
    }
}
