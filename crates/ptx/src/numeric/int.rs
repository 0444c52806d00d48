//! Integer operations on one lane, generic over width and signedness: the definition the vector forms must match.

/// An integer type of PTX in the low bits of a lane.
pub(crate) trait Int: Copy + Ord {
    const BITS: u32;
    /// Twice the width, or the widest there is.
    type Wide: Int;

    fn take(lane: u64) -> Self;
    /// Zero-extended bits.
    fn give(self) -> u64;
    fn wide(self) -> i128;
    fn from_wide(value: i128) -> Self;
    fn is_zero(self) -> bool {
        self.give() == 0
    }
}

macro_rules! int {
    ($($ty:ty, $unsigned:ty, $wide:ty);*) => {$(
        impl Int for $ty {
            const BITS: u32 = <$ty>::BITS;
            type Wide = $wide;

            #[inline(always)]
            fn take(lane: u64) -> Self {
                lane as Self
            }

            #[inline(always)]
            fn give(self) -> u64 {
                u64::from(self as $unsigned)
            }

            #[inline(always)]
            fn wide(self) -> i128 {
                i128::from(self)
            }

            #[inline(always)]
            fn from_wide(value: i128) -> Self {
                value as Self
            }
        }
    )*};
}

int!(u8, u8, u16; i8, u8, i16; u16, u16, u32; i16, u16, i32; u32, u32, u64; i32, u32, i64; u64, u64, u64; i64, u64, i64);

/// Two operands in the full range of the type, the result truncated to it.
fn on2<T: Int>(v: [u64; 4], f: impl Fn(i128, i128) -> i128) -> u64 {
    T::from_wide(f(T::take(v[0]).wide(), T::take(v[1]).wide())).give()
}

pub(crate) fn add<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a + b)
}

pub(crate) fn sub<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a - b)
}

/// `add.sat.s32`.
pub(crate) fn add_sat<T: Int>(v: [u64; 4]) -> u64 {
    saturate::<T>(T::take(v[0]).wide() + T::take(v[1]).wide())
}

pub(crate) fn sub_sat<T: Int>(v: [u64; 4]) -> u64 {
    saturate::<T>(T::take(v[0]).wide() - T::take(v[1]).wide())
}

/// The nearest signed value of the type.
fn saturate<T: Int>(value: i128) -> u64 {
    let top = (1i128 << (T::BITS - 1)) - 1;
    T::from_wide(value.clamp(-top - 1, top)).give()
}

pub(crate) fn mul_lo<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, i128::wrapping_mul)
}

pub(crate) fn mul_hi<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a.wrapping_mul(b) >> T::BITS)
}

pub(crate) fn mul_wide<T: Int>(v: [u64; 4]) -> u64 {
    T::Wide::from_wide(T::take(v[0]).wide() * T::take(v[1]).wide()).give()
}

pub(crate) fn mad_lo<T: Int>(v: [u64; 4]) -> u64 {
    add::<T>([mul_lo::<T>(v), v[2], 0, 0])
}

pub(crate) fn mad_hi<T: Int>(v: [u64; 4]) -> u64 {
    add::<T>([mul_hi::<T>(v), v[2], 0, 0])
}

/// `mad.hi.sat.s32`.
pub(crate) fn mad_hi_sat<T: Int>(v: [u64; 4]) -> u64 {
    add_sat::<T>([mul_hi::<T>(v), v[2], 0, 0])
}

pub(crate) fn mad_wide<T: Int>(v: [u64; 4]) -> u64 {
    add::<T::Wide>([mul_wide::<T>(v), v[2], 0, 0])
}

fn low24<T: Int>(lane: u64) -> i128 {
    let value = T::take(lane).wide();
    if T::from_wide(-1).wide() < 0 {
        ((value as i32) << 8 >> 8).into()
    } else {
        value & 0xff_ffff
    }
}

pub(crate) fn mul24_lo<T: Int>(v: [u64; 4]) -> u64 {
    T::from_wide(low24::<T>(v[0]) * low24::<T>(v[1])).give()
}

pub(crate) fn mul24_hi<T: Int>(v: [u64; 4]) -> u64 {
    T::from_wide((low24::<T>(v[0]) * low24::<T>(v[1])) >> 16).give()
}

pub(crate) fn mad24_lo<T: Int>(v: [u64; 4]) -> u64 {
    add::<T>([mul24_lo::<T>(v), v[2], 0, 0])
}

pub(crate) fn mad24_hi<T: Int>(v: [u64; 4]) -> u64 {
    add::<T>([mul24_hi::<T>(v), v[2], 0, 0])
}

/// A division by zero gives all ones, as GPUs do.
pub(crate) fn div<T: Int>(v: [u64; 4]) -> u64 {
    if T::take(v[1]).is_zero() {
        T::from_wide(-1).give()
    } else {
        on2::<T>(v, |a, b| a / b)
    }
}

/// A remainder by zero gives the dividend, as GPUs do.
pub(crate) fn rem<T: Int>(v: [u64; 4]) -> u64 {
    if T::take(v[1]).is_zero() {
        T::take(v[0]).give()
    } else {
        on2::<T>(v, |a, b| a % b)
    }
}

pub(crate) fn min<T: Int>(v: [u64; 4]) -> u64 {
    T::take(v[0]).min(T::take(v[1])).give()
}

pub(crate) fn max<T: Int>(v: [u64; 4]) -> u64 {
    T::take(v[0]).max(T::take(v[1])).give()
}

pub(crate) fn abs<T: Int>(v: [u64; 4]) -> u64 {
    T::from_wide(T::take(v[0]).wide().abs()).give()
}

pub(crate) fn neg<T: Int>(v: [u64; 4]) -> u64 {
    T::from_wide(-T::take(v[0]).wide()).give()
}

pub(crate) fn not<T: Int>(v: [u64; 4]) -> u64 {
    T::from_wide(!T::take(v[0]).wide()).give()
}

pub(crate) fn and<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a & b)
}

pub(crate) fn or<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a | b)
}

pub(crate) fn xor<T: Int>(v: [u64; 4]) -> u64 {
    on2::<T>(v, |a, b| a ^ b)
}

/// Logical: the operand is 0 or not.
pub(crate) fn cnot<T: Int>(v: [u64; 4]) -> u64 {
    u64::from(T::take(v[0]).is_zero())
}

/// Distances past the width shift everything out.
pub(crate) fn shl<T: Int>(v: [u64; 4]) -> u64 {
    let by = v[1] as u32;
    if by >= T::BITS {
        0
    } else {
        T::from_wide(T::take(v[0]).wide() << by).give()
    }
}

pub(crate) fn shr<T: Int>(v: [u64; 4]) -> u64 {
    let by = (v[1] as u32).min(T::BITS);
    T::from_wide(T::take(v[0]).wide() >> by).give()
}

pub(crate) fn sad<T: Int>(v: [u64; 4]) -> u64 {
    let distance = (T::take(v[0]).wide() - T::take(v[1]).wide()).abs();
    T::from_wide(distance + T::take(v[2]).wide()).give()
}

pub(crate) fn popc<T: Int>(v: [u64; 4]) -> u64 {
    u64::from(T::take(v[0]).give().count_ones())
}

pub(crate) fn clz<T: Int>(v: [u64; 4]) -> u64 {
    u64::from(T::take(v[0]).give().leading_zeros() - (64 - T::BITS))
}

pub(crate) fn brev<T: Int>(v: [u64; 4]) -> u64 {
    T::take(v[0]).give().reverse_bits() >> (64 - T::BITS)
}

/// The highest bit that differs from the sign; all ones if there is none.
pub(crate) fn bfind<T: Int>(v: [u64; 4]) -> u64 {
    let value = T::take(v[0]).wide();
    let magnitude = if value < 0 { !value } else { value };
    if magnitude == 0 {
        u64::from(u32::MAX)
    } else {
        u64::from(magnitude.ilog2())
    }
}

/// The same as the distance from the top.
pub(crate) fn bfind_shift<T: Int>(v: [u64; 4]) -> u64 {
    match bfind::<T>(v) {
        none if none == u64::from(u32::MAX) => none,
        bit => u64::from(T::BITS) - 1 - bit,
    }
}

/// Bit field extract: a from bit b on, c bits; signed types fill with the field's top bit.
pub(crate) fn bfe<T: Int>(v: [u64; 4]) -> u64 {
    let (pos, len) = ((v[1] & 0xff) as u32, (v[2] & 0xff) as u32);
    let bits = T::take(v[0]).give();
    let signed = T::from_wide(-1).wide() < 0;
    if len == 0 {
        return 0;
    }
    let top = (pos + len - 1).min(T::BITS - 1);
    let fill = signed && bits >> top & 1 == 1;
    let field = if pos >= T::BITS { 0 } else { bits >> pos };
    let width = len.min(T::BITS.saturating_sub(pos));
    let low = if width >= 64 {
        u64::MAX
    } else {
        (1u64 << width) - 1
    };
    let value = if fill { field | !low } else { field & low };
    T::take(value).give()
}

/// Bit field insert: a into b from bit c on, d bits.
pub(crate) fn bfi<T: Int>(v: [u64; 4]) -> u64 {
    let (pos, len) = ((v[2] & 0xff) as u32, (v[3] & 0xff) as u32);
    let target = T::take(v[1]).give();
    if pos >= T::BITS || len == 0 {
        return target;
    }
    let low = if len >= 64 {
        u64::MAX
    } else {
        (1u64 << len) - 1
    };
    let mask = low << pos;
    T::take((target & !mask) | (v[0] << pos & mask)).give()
}

/// A mask of b bits from bit a on; distances clamp, or wrap with `bmsk.wrap`.
pub(crate) fn bmsk_clamp(v: [u64; 4]) -> u64 {
    let (pos, len) = ((v[0] as u32).min(32), (v[1] as u32).min(32));
    let low = (1u64 << len) - 1;
    low << pos & u64::from(u32::MAX)
}

pub(crate) fn bmsk_wrap(v: [u64; 4]) -> u64 {
    bmsk_clamp([v[0] & 31, v[1] & 31, 0, 0])
}

/// The lowest b bits of a, extended by their sign or by zeros; b clamps, or wraps with `szext.wrap`.
pub(crate) fn szext_clamp<T: Int>(v: [u64; 4]) -> u64 {
    let unused = T::BITS - (v[1] as u32).min(T::BITS);
    if unused == T::BITS {
        return 0;
    }
    T::from_wide(T::take(v[0] << unused).wide() >> unused).give()
}

pub(crate) fn szext_wrap<T: Int>(v: [u64; 4]) -> u64 {
    szext_clamp::<T>([v[0], v[1] & 31, 0, 0])
}

pub(crate) fn lop3(v: [u64; 4]) -> u64 {
    let [a, b, c, table] = v;
    (0..8)
        .filter(|row| table >> row & 1 == 1)
        .fold(0, |bits, row| {
            let pick = |value: u64, bit: u64| if row >> bit & 1 == 1 { value } else { !value };
            bits | (pick(a, 2) & pick(b, 1) & pick(c, 0))
        })
        & u64::from(u32::MAX)
}

/// Funnel shifts of {b, a}: the distance wraps or clamps.
pub(crate) fn shf_l_wrap(v: [u64; 4]) -> u64 {
    ((v[1] << 32 | v[0]) << (v[2] & 31)) >> 32
}

pub(crate) fn shf_r_wrap(v: [u64; 4]) -> u64 {
    ((v[1] << 32 | v[0]) >> (v[2] & 31)) & u64::from(u32::MAX)
}

pub(crate) fn shf_l_clamp(v: [u64; 4]) -> u64 {
    (u128::from(v[1] << 32 | v[0]) << v[2].min(32)) as u64 >> 32
}

pub(crate) fn shf_r_clamp(v: [u64; 4]) -> u64 {
    ((v[1] << 32 | v[0]) >> v[2].min(32)) & u64::from(u32::MAX)
}

/// Picks four of eight bytes; a selector's top bit replicates the byte's sign.
pub(crate) fn prmt(v: [u64; 4]) -> u64 {
    let bytes = v[1] << 32 | v[0];
    (0..4).fold(0, |word, lane| {
        let selector = v[2] >> (4 * lane) & 0xf;
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        let byte = if selector & 8 != 0 {
            if byte & 0x80 != 0 { 0xff } else { 0 }
        } else {
            byte
        };
        word | byte << (8 * lane)
    })
}

/// The special modes of `prmt`: selectors computed from the low two bits of c.
pub(crate) fn prmt_mode(selectors: [u16; 4], v: [u64; 4]) -> u64 {
    prmt([v[0], v[1], u64::from(selectors[(v[2] & 3) as usize]), 0])
}

fn dot<A: Int, B: Int, const N: usize>(a: u64, b: u64, c: u64, a_bits: u32, b_from: u32) -> u64 {
    let sum: i128 = (0..N as u32)
        .map(|i| A::take(a >> (i * a_bits)).wide() * B::take(b >> (b_from + i * 8)).wide())
        .sum();
    (sum as u64).wrapping_add(c) & u64::from(u32::MAX)
}

/// The distances between the parts of a and b, as the parts of a word.
pub(crate) fn part_distances<T: Int>(v: [u64; 4]) -> u64 {
    (0..32)
        .step_by(T::BITS as usize)
        .fold(0, |word, at| word | part_distance::<T>(v, at) << at)
}

/// The sum of the distances between the parts of a and b, plus c.
pub(crate) fn sum_part_distances<T: Int>(v: [u64; 4]) -> u64 {
    let distances = (0..32).step_by(T::BITS as usize);
    let sum = distances.map(|at| part_distance::<T>(v, at)).sum::<u64>();
    (sum + v[2]) & u64::from(u32::MAX)
}

fn part_distance<T: Int>(v: [u64; 4], at: usize) -> u64 {
    let part = |word: u64| T::take(word >> at).wide();
    (part(v[0]) - part(v[1])).unsigned_abs() as u64
}

pub(crate) fn dp4a<A: Int, B: Int>(v: [u64; 4]) -> u64 {
    dot::<A, B, 4>(v[0], v[1], v[2], 8, 0)
}

pub(crate) fn dp2a_lo<A: Int, B: Int>(v: [u64; 4]) -> u64 {
    dot::<A, B, 2>(v[0], v[1], v[2], 16, 0)
}

pub(crate) fn dp2a_hi<A: Int, B: Int>(v: [u64; 4]) -> u64 {
    dot::<A, B, 2>(v[0], v[1], v[2], 16, 16)
}

/// Sum and carry out of a + b + carry in.
pub(crate) fn add_carry<T: Int>(v: [u64; 4]) -> (u64, u64) {
    let sum =
        u128::from(T::take(v[0]).give()) + u128::from(T::take(v[1]).give()) + u128::from(v[3] & 1);
    (T::take(sum as u64).give(), (sum >> T::BITS) as u64 & 1)
}

/// Difference and borrow out of a - b - borrow in.
pub(crate) fn sub_borrow<T: Int>(v: [u64; 4]) -> (u64, u64) {
    let difference =
        i128::from(T::take(v[0]).give()) - i128::from(T::take(v[1]).give()) - i128::from(v[3] & 1);
    (T::take(difference as u64).give(), u64::from(difference < 0))
}

/// Low half of a product, plus c, plus carry in.
pub(crate) fn mad_lo_carry<T: Int>(v: [u64; 4]) -> (u64, u64) {
    add_carry::<T>([mul_lo::<T>(v), v[2], 0, v[3]])
}

pub(crate) fn mad_hi_carry<T: Int>(v: [u64; 4]) -> (u64, u64) {
    add_carry::<T>([mul_hi::<T>(v), v[2], 0, v[3]])
}

macro_rules! compare {
    ($($name:ident $op:tt),*) => {$(
        pub(crate) fn $name<T: Int>(v: [u64; 4]) -> u64 {
            u64::from(T::take(v[0]) $op T::take(v[1]))
        }
    )*};
}

compare!(eq ==, ne !=, lt <, le <=, gt >, ge >=);

/// A conversion between integer types: extend or truncate by the source's sign.
pub(crate) fn convert<S: Int, D: Int>(v: [u64; 4]) -> u64 {
    D::from_wide(S::take(v[0]).wide()).give()
}

/// The same, clamped to the destination's range.
pub(crate) fn convert_sat<S: Int, D: Int>(v: [u64; 4]) -> u64 {
    let signed = D::from_wide(-1).wide() < 0;
    let top = if signed {
        (1i128 << (D::BITS - 1)) - 1
    } else {
        (1i128 << D::BITS) - 1
    };
    let bottom = if signed { -top - 1 } else { 0 };
    D::from_wide(S::take(v[0]).wide().clamp(bottom, top)).give()
}

/// Atomic increments wrap at b, decrements restart at b.
pub(crate) fn inc(v: [u64; 4]) -> u64 {
    if v[0] >= v[1] { 0 } else { v[0] + 1 }
}

pub(crate) fn dec(v: [u64; 4]) -> u64 {
    if v[0] == 0 || v[0] > v[1] {
        v[1]
    } else {
        v[0] - 1
    }
}

/// Takes the second operand.
pub(crate) fn exchange(v: [u64; 4]) -> u64 {
    v[1]
}

/// Takes c if the old value equals b.
pub(crate) fn compare_exchange(v: [u64; 4]) -> u64 {
    if v[0] == v[1] { v[2] } else { v[0] }
}
