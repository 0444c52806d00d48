//! A generator of wrong and of right kernels, an oracle that proves which is which, and the rates at which the
//! evaluator misjudges them.
//!
//! [`mutation`] changes accepted kernels of `tests/verdict-rates` by the rules of [`rules`], each of which makes a
//! kernel wrong or leaves its meaning alone. [`oracle`] executes every kernel on many shapes and values and compares it
//! with [`mod@reference`], which is plain Rust. It shares the compiler, the launch plan's arithmetic and the emulated
//! machine with the evaluator, and nothing else. [`judgement`] asks the evaluator, and [`tally`] counts.

pub mod judgement;
pub mod mutation;
pub mod oracle;
pub mod reference;
pub mod rules;
pub mod subject;
pub mod tally;
mod tokens;

/// Pseudo-random numbers that are the same everywhere for one seed (`SplitMix64` of Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// The draws of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The draws of one item of a seed's list.
    #[must_use]
    pub fn of_item(seed: u64, item: u64) -> Self {
        let mut mixed = Self(seed ^ item.wrapping_mul(0xd134_2543_de82_ef95));
        mixed.word();
        Self(mixed.word())
    }

    /// 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.word() >> 1).expect("63 bits fit") % end.max(1)
    }

    /// An element of a list that is not empty.
    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Approximately normal, with mean 0 and deviation 1: the sum of twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
