//! The contents of shared and local memory after a block has exited, which later blocks find there. GPUs clear neither.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::block::Shared;
use super::warp::Warp;

/// The last value of each word of shared and local memory. Blocks on different multiprocessors share one set.
#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    shared: Vec<u32>,
    /// Per warp index; the last word first, because stacks grow down from their end.
    local: BTreeMap<u32, Vec<u32>>,
}

impl Leftovers {
    /// Fills the memory of a starting block with what earlier blocks left, and marks all of it as initialised.
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

    /// Records the memory of a block that has exited.
    pub(super) fn keep(&self, block: &Shared, warps: &[Warp]) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        overwrite(&mut left.shared, block.words.iter());
        for warp in warps {
            let kept = left.local.entry(warp.index).or_default();
            overwrite(kept, warp.local.iter().rev());
        }
    }
}

/// Replaces the first words and keeps the rest.
fn overwrite<'w>(kept: &mut Vec<u32>, words: impl ExactSizeIterator<Item = &'w u32>) {
    kept.resize(kept.len().max(words.len()), u32::MAX);
    for (kept, word) in kept.iter_mut().zip(words) {
        *kept = *word;
    }
}
