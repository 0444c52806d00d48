//! Accesses of several warps to one cell that nothing orders with each other.

use super::Stamp;
use super::order::WARPS;

/// The last access of each warp, as stamp and instruction; a stamp of 0 if there is none.
type LastOfWarps = [(Stamp, u32); WARPS];

/// Entries with the last access of each warp. A cell that one warp has accessed alone needs none.
#[derive(Debug, Default)]
pub(super) struct Several {
    entries: Vec<LastOfWarps>,
    /// Numbers of entries that no cell uses.
    free: Vec<u32>,
}

impl Several {
    /// Frees all entries.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.free.clear();
    }

    /// Makes an empty entry and returns its number.
    pub(super) fn add(&mut self) -> u32 {
        if let Some(entry) = self.free.pop() {
            self.entries[entry as usize] = [(0, 0); WARPS];
            return entry;
        }
        self.entries.push([(0, 0); WARPS]);
        self.entries.len() as u32 - 1
    }

    /// Gives an entry back.
    pub(super) fn free(&mut self, entry: u32) {
        self.free.push(entry);
    }

    /// The last access of a warp.
    pub(super) fn get(&self, entry: u32, warp: u32) -> (Stamp, u32) {
        self.entries[entry as usize][warp as usize % WARPS]
    }

    /// Replaces the last access of a warp.
    pub(super) fn set(&mut self, entry: u32, warp: u32, access: (Stamp, u32)) {
        self.entries[entry as usize][warp as usize % WARPS] = access;
    }

    /// The accesses of an entry.
    pub(super) fn of(&self, entry: u32) -> impl Iterator<Item = (Stamp, u32)> {
        self.entries[entry as usize]
            .iter()
            .copied()
            .filter(|(stamp, _)| *stamp != 0)
    }
}
