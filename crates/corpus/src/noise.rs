//! Pseudo-random numbers, the same on every machine.

/// A `SplitMix64` generator, with the constants of its reference implementation.
#[derive(Debug, Clone)]
pub struct Noise(pub u64);

impl Noise {
    /// The next 64 bits.
    #[expect(
        clippy::should_implement_trait,
        reason = "the numbers never end, and no iterator is wanted"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A value between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    /// `count` values between -1 and 1.
    pub fn units(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}
