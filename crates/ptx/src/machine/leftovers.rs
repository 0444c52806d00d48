//! What blocks leave in shared and local memory, kept for those that come later, as a device of silicon does that
//! clears neither.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::block::Shared;
use super::warp::Warp;

/// The last words that were left at each place. A multiprocessor's worth: blocks that come later find what the last
/// one before them left.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    shared: Vec<u32>,
    /// By the number of the warp in its block, last word first: stacks begin at their end.
    local: BTreeMap<u32, Vec<u32>>,
}

impl Leftovers {
    /// Gives a block that starts what others have left there. Nothing of that counts as unwritten.
    pub(super) fn find(&self, block: &mut Shared, warps: &mut [Warp]) {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (word, found) in block.words.iter_mut().zip(&left.shared) {
            *word = *found;
        }
        block.valid.fill(u32::MAX);
        block.invalid = 0;
        for warp in warps {
            let found = left.local.get(&warp.index).into_iter().flatten();
            for (word, found) in warp.local.iter_mut().rev().zip(found) {
                *word = *found;
            }
            warp.local_valid.fill(u32::MAX);
        }
    }

    /// Keeps what a block that is done has left.
    pub(super) fn keep(&self, block: &Shared, warps: &[Warp]) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        overwrite(&mut left.shared, block.words.iter());
        for warp in warps {
            let kept = left.local.entry(warp.index).or_default();
            overwrite(kept, warp.local.iter().rev());
        }
    }
}

/// Replaces the first words, and leaves what lies behind.
fn overwrite<'w>(kept: &mut Vec<u32>, words: impl ExactSizeIterator<Item = &'w u32>) {
    kept.resize(kept.len().max(words.len()), u32::MAX);
    for (kept, word) in kept.iter_mut().zip(words) {
        *kept = *word;
    }
}
