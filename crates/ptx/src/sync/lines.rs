//! A set of 128-byte lines of shared memory.

/// log2 of a line's bytes.
const LINE: u32 = 7;

#[derive(Debug, Clone, Default)]
pub(super) struct Lines {
    words: Vec<u64>,
}

impl Lines {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            words: vec![0; (bytes >> LINE) / 64 + 1],
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The bits of a word for the lines from `first` to `last`.
    #[inline(always)]
    fn bits(word: u32, first: u32, last: u32) -> u64 {
        let from = first.saturating_sub(word * 64);
        let to = (last - word * 64).min(63);
        (u64::MAX << from) & (u64::MAX >> (63 - to))
    }

    /// Reports whether any line of the byte range is in the set.
    #[inline(always)]
    pub(super) fn touches(&self, begin: u32, end: u32) -> bool {
        let (first, last) = (begin >> LINE, (end - 1) >> LINE);
        if first / 64 == last / 64 {
            return self.words[(first / 64) as usize] & Self::bits(first / 64, first, last) != 0;
        }
        (first / 64..=last / 64)
            .any(|word| self.words[word as usize] & Self::bits(word, first, last) != 0)
    }

    /// Adds the lines of the byte range.
    #[inline(always)]
    pub(super) fn mark(&mut self, begin: u32, end: u32) {
        let (first, last) = (begin >> LINE, (end - 1) >> LINE);
        for word in first / 64..=last / 64 {
            self.words[word as usize] |= Self::bits(word, first, last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_several_words() {
        let mut lines = Lines::new(64 << 10);
        lines.mark(130, 131);
        assert!(lines.touches(128, 129) && !lines.touches(0, 128) && !lines.touches(256, 300));
        lines.mark(60 * 128, 140 * 128);
        assert!(lines.touches(100 * 128, 100 * 128 + 4) && lines.touches(139 * 128, 139 * 128 + 1));
        assert!(!lines.touches(140 * 128, 150 * 128) && !lines.touches(2 * 128, 60 * 128));
        lines.clear();
        assert!(!lines.touches(0, 64 << 10));
    }
}
