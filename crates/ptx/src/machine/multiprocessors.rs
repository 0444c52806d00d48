//! Which multiprocessor executes which block, for the time model: blocks start in order, each where one has ended.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::report::{BlockWork, BusiestMultiprocessor};

/// The largest grid whose blocks are placed. In larger ones the blocks of a multiprocessor are so many that their work
/// is close to an even share.
pub(super) const MOST_BLOCKS: u64 = 1 << 16;

/// A block that has ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedBlock {
    /// Its index in the grid.
    pub index: u64,
    /// Cycles of its critical path.
    pub cycles: u64,
    pub work: BlockWork,
}

/// Places the blocks of a launch on multiprocessors that hold `resident` blocks each. A block takes the cycles of its
/// critical path, as if nothing competed with it.
pub(super) fn place(
    mut blocks: Vec<&EndedBlock>,
    multiprocessors: u32,
    resident: u64,
) -> BusiestMultiprocessor {
    let multiprocessors = multiprocessors.max(1) as usize;
    let places = multiprocessors * usize::try_from(resident.max(1)).unwrap_or(1);
    blocks.sort_unstable_by_key(|block| block.index);
    // Places that are free at the same time are taken in order, one of each multiprocessor before the second of any.
    let mut free: BinaryHeap<_> = (0..places.min(blocks.len()))
        .map(|place| Reverse((0, place)))
        .collect();
    let mut work = vec![BlockWork::default(); multiprocessors];
    let mut last = 0;
    for block in blocks {
        let Some(Reverse((begin, place))) = free.pop() else {
            break;
        };
        let end = begin + block.cycles;
        last = last.max(end);
        work[place % multiprocessors].combine(&block.work, u64::wrapping_add);
        free.push(Reverse((end, place)));
    }
    let mut most = BlockWork::default();
    for own in &work {
        most.combine(own, u64::max);
    }
    BusiestMultiprocessor {
        work: most,
        cycles: last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks whose cycles and instructions are the given numbers.
    fn ended(cycles: &[u64]) -> Vec<EndedBlock> {
        let block = |(index, &cycles): (usize, &u64)| {
            let mut work = BlockWork::default();
            work.classes.fp32 = cycles;
            EndedBlock {
                index: index as u64,
                cycles,
                work,
            }
        };
        cycles.iter().enumerate().map(block).collect()
    }

    #[test]
    fn a_block_goes_where_one_has_ended_first() {
        for (cycles, resident, last, most) in [
            // Two multiprocessors: 5 and 4 + 1.
            (&[5, 4, 1][..], 1, 5, 5),
            // 1 + 5 and 4: the longest block starts last.
            (&[1, 4, 5], 1, 6, 6),
            // Equal blocks: three rounds, the last of one block.
            (&[7, 7, 7, 7, 7], 1, 21, 21),
            // Two at once on each: the first two are on different multiprocessors.
            (&[9, 8, 2, 1], 2, 9, 11),
            (&[3], 4, 3, 3),
            (&[], 1, 0, 0),
        ] {
            let blocks = ended(cycles);
            let mut shuffled: Vec<&EndedBlock> = blocks.iter().collect();
            shuffled.reverse();
            let busiest = place(shuffled, 2, resident);
            assert_eq!(
                (busiest.cycles, busiest.work.classes.fp32),
                (last, most),
                "{cycles:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn a_launch_takes_no_less_than_its_longest_block_and_an_even_share(
            cycles in proptest::collection::vec(0_u64..1000, 1..60),
            multiprocessors in 1_u32..8,
            resident in 1_u64..4,
        ) {
            let blocks = ended(&cycles);
            let busiest = place(blocks.iter().collect(), multiprocessors, resident);
            let (all, longest) = (cycles.iter().sum::<u64>(), cycles.iter().max().copied().unwrap_or(0));
            let places = u64::from(multiprocessors) * resident;
            assert!(busiest.cycles >= longest.max(all.div_ceil(places)));
            // A block waits only while all places are taken (Graham, 1966).
            assert!(busiest.cycles <= all / places + longest);
            assert!(busiest.work.classes.fp32 >= all.div_ceil(u64::from(multiprocessors)));
        }
    }
}
