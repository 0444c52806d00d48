//! Numbers as the ISA defines them, in the oracles' own words: integers as `i128`, floating point as exact values
//! that are rounded once.

/// An integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int {
    pub name: &'static str,
    pub bits: u32,
    pub signed: bool,
}

const fn int(name: &'static str, bits: u32, signed: bool) -> Int {
    Int { name, bits, signed }
}

pub const U8: Int = int("u8", 8, false);
pub const S8: Int = int("s8", 8, true);
pub const U16: Int = int("u16", 16, false);
pub const S16: Int = int("s16", 16, true);
pub const U32: Int = int("u32", 32, false);
pub const S32: Int = int("s32", 32, true);
pub const U64: Int = int("u64", 64, false);
pub const S64: Int = int("s64", 64, true);

impl Int {
    pub fn get(self, bits: u64) -> i128 {
        let value = i128::from(bits & super::mask(self.bits));
        if self.signed && value >> (self.bits - 1) & 1 == 1 {
            value - (1 << self.bits)
        } else {
            value
        }
    }

    pub fn put(self, value: i128) -> u64 {
        value as u64 & super::mask(self.bits)
    }

    pub fn lowest(self) -> i128 {
        if self.signed {
            -(1 << (self.bits - 1))
        } else {
            0
        }
    }

    pub fn highest(self) -> i128 {
        (1 << (self.bits - u32::from(self.signed))) - 1
    }

    /// Edge cases and a few more.
    pub fn values(self) -> Vec<u64> {
        let edge = [
            0,
            1,
            2,
            3,
            5,
            31,
            32,
            33,
            100,
            self.highest() - 1,
            self.highest(),
            self.lowest(),
            self.lowest() + 1,
        ];
        let mut values: Vec<u64> = edge.iter().map(|value| self.put(*value)).collect();
        values.extend(
            [0xaaaa_aaaa_aaaa_aaaa, 0x1234_5678_9abc_def0, u64::MAX]
                .map(|bits| bits & super::mask(self.bits)),
        );
        values
    }
}

/// The rounding of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

pub const ROUNDS: [(&str, Round); 4] = [
    ("rn", Round::Nearest),
    ("rz", Round::Zero),
    ("rm", Round::Down),
    ("rp", Round::Up),
];

/// A binary floating-point format of at most 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Float {
    pub name: &'static str,
    pub exponent: u32,
    pub mantissa: u32,
}

pub const F32: Float = Float {
    name: "f32",
    exponent: 8,
    mantissa: 23,
};
pub const F16: Float = Float {
    name: "f16",
    exponent: 5,
    mantissa: 10,
};
pub const BF16: Float = Float {
    name: "bf16",
    exponent: 8,
    mantissa: 7,
};

impl Float {
    pub fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    pub fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.mantissa
    }

    /// The NaN that arithmetic gives.
    pub fn nan(self) -> u64 {
        super::mask(self.bits() - 1)
    }

    pub fn sign(self, bits: u64) -> bool {
        bits >> (self.bits() - 1) & 1 == 1
    }

    pub fn get(self, bits: u64) -> f64 {
        let fraction = (bits & super::mask(self.mantissa)) as f64 / (1u64 << self.mantissa) as f64;
        let field = (bits >> self.mantissa) as i32 & ((1 << self.exponent) - 1);
        let magnitude = if field == (1 << self.exponent) - 1 {
            if fraction == 0.0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        } else if field == 0 {
            fraction * 2f64.powi(1 - self.bias())
        } else {
            (1.0 + fraction) * 2f64.powi(field - self.bias())
        };
        if self.sign(bits) {
            -magnitude
        } else {
            magnitude
        }
    }

    /// Subnormal numbers as zeros of their sign.
    pub fn flush(self, bits: u64) -> u64 {
        let field = bits >> self.mantissa & ((1 << self.exponent) - 1);
        if field == 0 {
            bits & 1 << (self.bits() - 1)
        } else {
            bits
        }
    }

    /// A value rounded once. It must be exact, or rounded to odd in binary64.
    pub fn put(self, value: f64, round: Round) -> u64 {
        if value.is_nan() {
            return self.nan();
        }
        let sign = u64::from(value.is_sign_negative()) << (self.bits() - 1);
        let (magnitude, negative) = (value.abs(), value.is_sign_negative());
        if magnitude.is_infinite() {
            return sign | self.infinity();
        }
        if magnitude == 0.0 {
            return sign;
        }
        let least = 1 - self.bias();
        let own = (magnitude.to_bits() >> 52) as i32 - 1023;
        let exponent = own.max(least);
        let scaled = magnitude * 2f64.powi(self.mantissa as i32 - exponent);
        let (whole, rest) = (scaled.floor(), scaled - scaled.floor());
        let up = match round {
            Round::Nearest => rest > 0.5 || (rest == 0.5 && whole as u64 % 2 == 1),
            Round::Zero => false,
            Round::Down => negative && rest > 0.0,
            Round::Up => !negative && rest > 0.0,
        };
        let digits = whole as u64 + u64::from(up);
        // A carry out of the digits is a carry into the exponent.
        let bits = ((exponent - least) as u64) << self.mantissa;
        let bits = bits + digits;
        if bits < self.infinity() {
            return sign | bits;
        }
        let stays = match round {
            Round::Nearest => false,
            Round::Zero => true,
            Round::Down => !negative,
            Round::Up => negative,
        };
        sign | if stays {
            self.infinity() - 1
        } else {
            self.infinity()
        }
    }

    /// Edge cases and a few more.
    pub fn values(self) -> Vec<u64> {
        let one = self.put(1.0, Round::Nearest);
        let top = 1 << (self.bits() - 1);
        let positive = [
            0,
            1,
            super::mask(self.mantissa),
            1 << self.mantissa,
            one - 1,
            one,
            one + 1,
            self.put(1.5, Round::Nearest),
            self.put(2.5, Round::Nearest),
            self.put(3.0, Round::Nearest),
            self.put(0.3, Round::Nearest),
            self.put(200.0, Round::Nearest),
            self.infinity() - 1,
            self.infinity(),
            self.infinity() + 1,
        ];
        positive
            .iter()
            .flat_map(|bits| [*bits, *bits | top])
            .collect()
    }
}

/// The exact sum of two numbers, rounded to odd: the next rounding is as good as the first.
pub fn sum(a: f64, b: f64) -> f64 {
    let s = a + b;
    if !s.is_finite() {
        return s;
    }
    let other = s - a;
    to_odd(s, (a - (s - other)) + (b - other))
}

/// A rounded value with what the rounding left.
pub fn to_odd(value: f64, rest: f64) -> f64 {
    if rest == 0.0 || value == 0.0 || value.to_bits() & 1 == 1 || !value.is_finite() {
        return value;
    }
    let away = (rest > 0.0) == (value > 0.0);
    f64::from_bits(if away {
        value.to_bits() + 1
    } else {
        value.to_bits() - 1
    })
}

/// The quotient of two numbers of at most 24 digits, rounded to odd.
pub fn quotient(a: f64, b: f64) -> f64 {
    let q = a / b;
    if !q.is_finite() || q == 0.0 {
        return q;
    }
    let rest = (-q).mul_add(b, a);
    to_odd(q, rest * b.signum())
}

/// The root of a number of at most 24 digits, rounded to odd.
pub fn root(a: f64) -> f64 {
    let r = a.sqrt();
    if !r.is_finite() || r == 0.0 {
        return r;
    }
    to_odd(r, (-r).mul_add(r, a))
}
