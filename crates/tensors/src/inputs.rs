//! Contents of tensors: input values and poison, both functions of a key and an element index.
//!
//! The run role and the verify role each generate the bytes themselves, so nothing has to be carried between them,
//! and a candidate cannot predict them without the key. Every draw uses only operations that IEEE 754 defines
//! exactly, so the bytes are the same on every machine. The module knows only the tensor that it is asked for, and no
//! device.

mod normal;

use domain::dtype::Dtype;
use domain::role::{Alteration, Distribution, Key, TensorData};
use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

pub use normal::quantile;

/// Number of elements generated at a time: the working set fits the first-level cache.
const CHUNK: u64 = 2048;
/// Number of rows that are equal to each other in [`Distribution::Ties`].
const EQUAL_ROWS: u64 = 4;
/// Length of one ascending run in [`Distribution::Ties`], in elements.
const RUN: u64 = 8;

/// Magnitude of an element changed by [`Alteration::ElementReplaced`]: large among ordinary values, and exact in every type.
const STRUCK_MAGNITUDE: f64 = 8.0;
/// The distance of consecutive codes of [`Distribution::IndexCoded`] as a share of the range: the golden section, as a
/// fraction. Of all shares it is the one whose multiples stay furthest from whole numbers, so that columns of any width
/// vary like rows.
const STRIDE: (u64, u64) = (6_180_339_887, 10_000_000_000);
/// One in this many elements is NaN or infinite in [`Distribution::Specials`], besides three that always are.
const SPECIAL_IN: f64 = 1e4;

/// The bytes of a whole input tensor, little-endian, in index order.
pub fn bytes(tensor: &TensorData) -> Vec<u8> {
    slice(tensor, 0, tensor.elements())
}

/// The values of a whole input tensor as little-endian binary64, in index order.
pub fn widened_bytes(tensor: &TensorData) -> Vec<u8> {
    let values = decode(tensor.dtype, &bytes(tensor));
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// The bytes of `count` elements from the flat index `first` on; equal to that part of [`bytes`].
pub fn slice(tensor: &TensorData, first: u64, count: u64) -> Vec<u8> {
    let width = tensor.dtype.bytes();
    let capacity = usize::try_from(count * width).expect("a tensor fits the address space");
    let mut out = Vec::with_capacity(capacity);
    let mut stream = Stream::new(tensor);
    let end = first + count;
    let mut at = first;
    let mut values = Vec::with_capacity(CHUNK.min(count) as usize);
    while at < end {
        let until = end.min(at + CHUNK);
        values.clear();
        stream.draw(at, until, &mut values);
        if let Some(alteration) = tensor.alteration {
            alter(alteration, at, &mut values);
        }
        encode(tensor.dtype, &values, &mut out);
        at = until;
    }
    out
}

/// Applies an alteration to the elements from the flat index `first` on.
fn alter(alteration: Alteration, first: u64, values: &mut [f64]) {
    match alteration {
        Alteration::ElementReplaced(at) => {
            let inside = at
                .checked_sub(first)
                .and_then(|at| usize::try_from(at).ok());
            if let Some(value) = inside.and_then(|at| values.get_mut(at)) {
                *value = if *value > 0.0 {
                    -STRUCK_MAGNITUDE
                } else {
                    STRUCK_MAGNITUDE
                };
            }
        }
        Alteration::Rounded(bits) => {
            for value in values {
                *value = rounded(*value, bits);
            }
        }
    }
}

/// A number rounded to this many significant bits, to nearest even, with an unchanged exponent range.
fn rounded(value: f64, bits: u32) -> f64 {
    let dropped = 53_u32.saturating_sub(bits.max(1));
    if dropped == 0 || !value.is_finite() {
        return value;
    }
    let pattern = value.to_bits();
    let tie = 1_u64 << (dropped - 1);
    let odd = pattern >> dropped & 1;
    // A carry out of the significand increments the exponent.
    f64::from_bits((pattern + (tie - 1) + odd) & !((1 << dropped) - 1))
}

/// Pseudorandom bytes that a correct kernel does not write by chance: the content of outputs and workspaces before an
/// execution, and the pattern around buffers. `purpose` separates the uses of one seed.
pub fn poison(seed: u64, purpose: &str, buffer: &str, bytes: usize) -> Vec<u8> {
    let key = Key(domain::digest::Digest::of(seed.to_le_bytes())).derive(&[purpose, buffer]);
    let mut out = vec![0; bytes];
    ChaCha8Rng::from_seed(*key.0.bytes()).fill_bytes(&mut out);
    out
}

/// The random draws of one tensor.
struct Stream<'a> {
    tensor: &'a TensorData,
    generator: ChaCha8Rng,
    words: Vec<u32>,
}

impl<'a> Stream<'a> {
    fn new(tensor: &'a TensorData) -> Self {
        let key = tensor
            .key
            .derive(&["input", &tensor.name, tensor.distribution.as_str()]);
        Self {
            tensor,
            generator: ChaCha8Rng::from_seed(*key.0.bytes()),
            words: Vec::new(),
        }
    }

    /// Reads `count` words of the key stream from the word `first` on.
    fn read(&mut self, first: u64, count: u64) {
        self.generator.set_word_pos(u128::from(first));
        self.words.clear();
        self.words
            .extend((0..count).map(|_| self.generator.next_u32()));
    }

    /// Appends the values of the elements `first..end`.
    fn draw(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        let count = end - first;
        match self.tensor.distribution {
            Distribution::Normal => self.each(first, count, values, standard),
            Distribution::Uniform => self.each(first, count, values, symmetric),
            Distribution::Positive => self.each(first, count, values, unit),
            Distribution::Integers => {
                self.each(first, count, values, |word| {
                    (unit(word) * 5.0).floor() - 2.0
                });
            }
            Distribution::Large => self.each(first, count, values, |word| 100.0 * standard(word)),
            Distribution::Tiny => {
                let scale = 4.0 * smallest_normal(self.tensor.dtype);
                self.each(first, count, values, |word| symmetric(word) * scale);
            }
            Distribution::HeavyTail => {
                self.read(2 * first, 2 * count);
                values.extend(self.words.chunks_exact(2).map(|pair| {
                    let factor = if unit(pair[1]) < 0.01 { 1000.0 } else { 1.0 };
                    factor * standard(pair[0])
                }));
            }
            Distribution::Ties => self.ties(first, end, values),
            Distribution::IndexCoded => self.index_coded(first, end, values),
            Distribution::Small => {
                let scale = small_scale(self.tensor.dtype);
                self.each(first, count, values, |word| scale * standard(word));
            }
            Distribution::Impulse => self.impulse(first, end, values),
            Distribution::Cancellation => self.cancellation(first, end, values),
            Distribution::Huge => {
                let scale = huge_scale(self.tensor.dtype);
                self.each(first, count, values, |word| scale * symmetric(word));
            }
            Distribution::Specials => self.specials(first, end, values),
            Distribution::Shifted => self.shifted(first, end, values),
        }
    }

    fn each(&mut self, first: u64, count: u64, values: &mut Vec<f64>, value: impl Fn(u32) -> f64) {
        self.read(first, count);
        values.extend(self.words.iter().map(|&word| value(word)));
    }

    /// Groups of four equal rows; along a row, runs of eight elements that ascend by eighths. The rows of every third
    /// group have one value each, a small integer, whose sums are exact: a kernel may fail where all elements are equal.
    fn ties(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        let columns = self.tensor.extents.last().copied().unwrap_or(1).max(1);
        let runs = columns.div_ceil(RUN);
        let mut at = first;
        self.read(0, 1);
        let rotation = u64::from(self.words[0] % 3);
        while at < end {
            let (row, column) = (at / columns, at % columns);
            let until = end.min((row + 1) * columns);
            let group = row / EQUAL_ROWS;
            if (group + rotation).is_multiple_of(3) {
                let value = small(group % 5) - 2.0;
                values.extend((at..until).map(|_| value));
                at = until;
                continue;
            }
            let first_run = column / RUN;
            let last_column = column + (until - at);
            self.read(
                row / EQUAL_ROWS * runs + first_run,
                last_column.div_ceil(RUN) - first_run,
            );
            values.extend((column..last_column).map(|column| {
                let run = usize::try_from(column / RUN - first_run).expect("a row fits memory");
                standard(self.words[run]) + small(column % RUN) * 0.125
            }));
            at = until;
        }
    }

    /// Normal draws with deviation 10 around a centre per row: every third row lies around -200, one around 0
    /// and one around 200. The key decides which comes first. One element in eight lies 100 lower, so that a row of
    /// negative numbers spans more than exponentials in binary32 do: a maximum of the numbers' bits takes its lowest
    /// element.
    ///
    /// The largest of a few 10^5 values around -200 is below -150, where a maximum that starts at -50 leaves
    /// nothing of any exponential in binary32. The deviation keeps the squares of a row within 400 times its
    /// variance, so that a variance from the sum of squares is still accurate.
    fn shifted(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        const CENTRES: [f64; 3] = [-200.0, 0.0, 200.0];
        let columns = self.tensor.extents.last().copied().unwrap_or(1).max(1);
        // The words of the elements follow that of the first row's centre.
        self.read(0, 1);
        let rotation = u64::from(self.words[0]);
        self.read(1 + first, end - first);
        values.extend((first..end).zip(&self.words).map(|(flat, &word)| {
            let kind = (flat / columns + rotation) % CENTRES.len() as u64;
            let centre = CENTRES[usize::try_from(kind).expect("it is below three")];
            let lower = if word % 8 == 0 { 100.0 } else { 0.0 };
            centre - lower + 10.0 * standard(word)
        }));
    }

    /// A large number, whose sign alternates along every axis, plus a normal draw.
    fn cancellation(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        let large = cancelling(self.tensor.dtype);
        self.read(first, end - first);
        let extents = &self.tensor.extents;
        values.extend((first..end).zip(&self.words).map(|(flat, &word)| {
            let mut rest = flat;
            let odd = extents.iter().rev().fold(0, |odd, &extent| {
                let along = rest % extent.max(1);
                rest /= extent.max(1);
                odd ^ (along & 1)
            });
            standard(word) + if odd == 1 { -large } else { large }
        }));
    }

    /// Normal draws, except NaN and both infinities: each at one position that the key decides, and more rarely at
    /// others.
    ///
    /// The first rows of the first two matrices get an infinity besides, of opposite sign in one column. Under a causal
    /// mask such a row has a single score. Where both matrices are heads that share their keys, one of the scores is
    /// -infinity, so that a mask of finite size in place of an infinite one shows.
    fn specials(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        const KINDS: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        // The words of the elements follow those of the positions.
        const POSITIONS: u64 = 4;
        self.read(0, POSITIONS);
        let extents = &self.tensor.extents;
        let elements = self.tensor.elements();
        let columns = extents.last().copied().unwrap_or(1).max(1);
        let matrix: u64 = extents.iter().rev().take(2).product();
        let mut places: Vec<(u64, f64)> = std::iter::zip(&self.words, KINDS)
            .map(|(&word, kind)| (u64::from(word) % elements, kind))
            .collect();
        if elements > columns {
            let word = self.words[3];
            let column = u64::from(word) % columns;
            let infinity = KINDS[1 + (word >> 31) as usize];
            places.extend([(column, infinity), (matrix + column, -infinity)]);
        }
        self.read(POSITIONS + 2 * first, 2 * (end - first));
        let drawn = self.words.chunks_exact(2).map(|pair| {
            if unit(pair[1]) < 1.0 / SPECIAL_IN {
                KINDS[pair[0] as usize % KINDS.len()]
            } else {
                standard(pair[0])
            }
        });
        values.extend((first..end).zip(drawn).map(|(index, value)| {
            let chosen = places.iter().find(|(place, _)| *place == index);
            chosen.map_or(value, |(_, special)| *special)
        }));
    }

    /// One element between 1 and 2 among zeros: the last, the first, or any, as the key decides. The ends are chosen
    /// often because kernels with wrong bounds forget elements there.
    fn impulse(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        self.read(0, 3);
        let elements = self.tensor.elements();
        let at = match self.words[0] % 4 {
            0 => elements - 1,
            1 => 0,
            _ => u64::from(self.words[1]) % elements,
        };
        let height = 1.0 + unit(self.words[2]);
        values.extend((first..end).map(|index| if index == at { height } else { 0.0 }));
    }

    /// A code of the flat index, rotated by the key: codes are multiples of the step in -1..1 that the type holds
    /// exactly, or integers. Elements whose distance is no multiple of the modulus, which is prime, have different
    /// codes, so that elements a power of two apart do.
    ///
    /// Consecutive indices are [`STRIDE`] of the range apart. With consecutive codes a row of a small tensor is almost
    /// constant: a copy of its neighbour is then within the tolerance, and the rounding errors of a correct sum add up
    /// instead of cancelling, which no bound that grows with a root of the length allows for.
    fn index_coded(&mut self, first: u64, end: u64, values: &mut Vec<f64>) {
        let (modulus, step) = match self.tensor.dtype {
            Dtype::I8 | Dtype::U8 => (127, 1.0),
            Dtype::Bf16 => (251, 1.0 / 128.0),
            Dtype::F16 => (2039, 1.0 / 1024.0),
            Dtype::F32 | Dtype::F64 => (8_388_593, 1.0 / 4_194_304.0),
            Dtype::I32 | Dtype::U32 | Dtype::I64 => (8_388_593, 1.0),
        };
        self.read(0, 1);
        let rotation = u64::from(self.words[0]);
        let (numerator, denominator) = STRIDE;
        let stride = modulus * numerator / denominator;
        let middle = if step < 1.0 { small(modulus / 2) } else { 0.0 };
        values.extend((first..end).map(|index| {
            let code = (index + rotation) % modulus * stride % modulus;
            (small(code) - middle) * step
        }));
    }
}

/// Uniform in the open interval 0..1, in 2^32 steps.
fn unit(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 4_294_967_296.0
}

/// Uniform in -1..1.
fn symmetric(word: u32) -> f64 {
    2.0 * unit(word) - 1.0
}

/// Normal with mean 0 and standard deviation 1.
fn standard(word: u32) -> f64 {
    quantile(unit(word))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "callers pass numbers far below 2^53"
)]
fn small(number: u64) -> f64 {
    number as f64
}

/// The smallest positive normal number; 1 for integers.
fn smallest_normal(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 2_f64.powi(-14),
        Dtype::Bf16 | Dtype::F32 => f64::from(f32::MIN_POSITIVE),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 => 1.0,
    }
}

/// The large part of [`Distribution::Cancellation`]; a few bits of the type are left for the small part.
fn cancelling(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::Bf16 => 8.0,
        Dtype::F16 | Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 => 32.0,
        Dtype::F32 | Dtype::F64 => 64.0,
    }
}

/// The largest magnitude in [`Distribution::Huge`]: a quarter of the largest number, except that an f32 sum of some
/// thousand products with ordinary numbers must stay finite.
fn huge_scale(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => f64::from(f16::MAX.to_f32()) / 4.0,
        Dtype::Bf16 | Dtype::F32 => 2_f64.powi(110),
        Dtype::F64 => 2_f64.powi(1000),
        Dtype::I8 | Dtype::U8 => 31.0,
        Dtype::I32 | Dtype::U32 | Dtype::I64 => 2_f64.powi(20),
    }
}

/// The factor of normal draws in [`Distribution::Small`]: sums and products of two values are still normal numbers of
/// the type. Integers have no smaller values.
fn small_scale(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F16 => 2_f64.powi(-6),
        Dtype::Bf16 | Dtype::F32 | Dtype::F64 => 2_f64.powi(-20),
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 => 1.0,
    }
}

/// A value rounded to binary32, with a magnitude of at most `most`; an infinity stays infinite.
#[expect(
    clippy::cast_possible_truncation,
    reason = "what is too large for binary32 is capped, as the distributions promise"
)]
fn capped(value: f64, most: f32) -> f32 {
    if value.is_finite() {
        (value as f32).clamp(-most, most)
    } else {
        value as f32
    }
}

/// Appends the values in the type's encoding. A value for a floating type of 32 bits or fewer is first rounded to binary32
/// (that is part of the definition of the distributions) and then, with one rounding to nearest even, to the type. A
/// value that is too large becomes the largest finite value; NaN and infinities are kept.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float to integer casts saturate, which is the capping that the distributions promise"
)]
pub fn encode(dtype: Dtype, values: &[f64], out: &mut Vec<u8>) {
    match dtype {
        Dtype::F16 => out.extend(
            values
                .iter()
                .flat_map(|&value| f16::from_f32(capped(value, f16::MAX.to_f32())).to_le_bytes()),
        ),
        Dtype::Bf16 => out.extend(
            values
                .iter()
                .flat_map(|&value| bf16::from_f32(capped(value, bf16::MAX.to_f32())).to_le_bytes()),
        ),
        Dtype::F32 => out.extend(
            values
                .iter()
                .flat_map(|&value| capped(value, f32::MAX).to_le_bytes()),
        ),
        Dtype::F64 => out.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        Dtype::I8 => out.extend(
            values
                .iter()
                .flat_map(|&value| (value.round() as i8).to_le_bytes()),
        ),
        Dtype::U8 => out.extend(
            values
                .iter()
                .flat_map(|&value| (value.round() as u8).to_le_bytes()),
        ),
        Dtype::I32 => {
            out.extend(
                values
                    .iter()
                    .flat_map(|&value| (value.round() as i32).to_le_bytes()),
            );
        }
        Dtype::U32 => {
            out.extend(
                values
                    .iter()
                    .flat_map(|&value| (value.round() as u32).to_le_bytes()),
            );
        }
        Dtype::I64 => {
            out.extend(
                values
                    .iter()
                    .flat_map(|&value| (value.round() as i64).to_le_bytes()),
            );
        }
    }
}

/// The values of little-endian elements; a trailing part of an element is ignored.
pub fn decode(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let (elements, _) = bytes.as_chunks::<N>();
        elements.iter().map(|&element| value(element)).collect()
    }
    match dtype {
        Dtype::F16 => each(bytes, |element| {
            f64::from(f16::from_le_bytes(element).to_f32())
        }),
        Dtype::Bf16 => each(bytes, |element| {
            f64::from(bf16::from_le_bytes(element).to_f32())
        }),
        Dtype::F32 => each(bytes, |element| f64::from(f32::from_le_bytes(element))),
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::I8 => each(bytes, |element| f64::from(i8::from_le_bytes(element))),
        Dtype::U8 => each(bytes, |element| f64::from(u8::from_le_bytes(element))),
        Dtype::I32 => each(bytes, |element| f64::from(i32::from_le_bytes(element))),
        Dtype::U32 => each(bytes, |element| f64::from(u32::from_le_bytes(element))),
        #[expect(
            clippy::cast_precision_loss,
            reason = "the reference is binary64, so integers beyond 2^53 cannot be told apart anyway"
        )]
        Dtype::I64 => each(bytes, |element| i64::from_le_bytes(element) as f64),
    }
}
