//! Integer and predicate instructions of PTX, evaluated on 64-bit words.

/// An integer type: its width in bits, and its sign. A predicate has one bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Type {
    bits: u32,
    signed: bool,
}

impl Type {
    fn parse(text: &str) -> Option<Self> {
        if text == "pred" {
            return Some(Self {
                bits: 1,
                signed: false,
            });
        }
        let (kind, bits) = text.split_at_checked(1)?;
        let bits = bits
            .parse()
            .ok()
            .filter(|bits| [8, 16, 32, 64].contains(bits))?;
        match kind {
            "s" => Some(Self { bits, signed: true }),
            "u" | "b" => Some(Self {
                bits,
                signed: false,
            }),
            _ => None,
        }
    }

    fn truncate(self, value: u64) -> u64 {
        value & (u64::MAX >> (64 - self.bits))
    }

    /// The number that a word stands for.
    fn number(self, value: u64) -> i128 {
        let value = self.truncate(value);
        if self.signed {
            let unused = 64 - self.bits;
            i128::from((value << unused).cast_signed() >> unused)
        } else {
            i128::from(value)
        }
    }

    fn double(self) -> Self {
        Self {
            bits: (2 * self.bits).min(64),
            ..self
        }
    }
}

/// An order of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Order {
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "lt" | "lo" => Self::Less,
            "le" | "ls" => Self::LessEqual,
            "gt" | "hi" => Self::Greater,
            "ge" | "hs" => Self::GreaterEqual,
            _ => return None,
        })
    }

    fn holds(self, left: i128, right: i128) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterEqual => left >= right,
        }
    }
}

/// Kinds of instructions by their arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Moves and conversions, from a type.
    Convert(Type),
    Add,
    Subtract,
    /// The lower half of a product, plus a third operand if there is one.
    Multiply,
    /// The upper half, plus a third operand if there is one.
    MultiplyUpper,
    /// The whole product, plus a third operand of twice the width if there is one.
    MultiplyWide,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    And,
    Or,
    Xor,
    Not,
    Negate,
    Absolute,
    Minimum,
    Maximum,
    CountOnes,
    LeadingZeros,
    Select,
    Compare(Order),
}

/// An instruction without its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    kind: Kind,
    of: Type,
    /// The logical operation that combines a comparison with a predicate.
    combined: Option<Kind>,
}

impl Operation {
    /// The operation of an opcode; none if it is not of integers or not known.
    pub(super) fn of(opcode: &str) -> Option<Self> {
        let mut words = opcode.split('.');
        let name = words.next()?;
        let words = words.collect::<Vec<_>>();
        let of = Type::parse(words.last()?)?;
        let has = |word: &str| words.contains(&word);
        // Saturation and carries are rare in addresses and sizes.
        if has("sat") || has("cc") {
            return None;
        }
        let mut combined = None;
        let (kind, of) = match name {
            "mov" => (Kind::Convert(of), of),
            "cvt" => (
                Kind::Convert(of),
                Type::parse(words.get(words.len().checked_sub(2)?)?)?,
            ),
            "add" => (Kind::Add, of),
            "sub" => (Kind::Subtract, of),
            "mul" | "mad" if has("wide") => (Kind::MultiplyWide, of),
            "mul" | "mad" if has("hi") => (Kind::MultiplyUpper, of),
            "mul" | "mad" => (Kind::Multiply, of),
            "div" => (Kind::Divide, of),
            "rem" => (Kind::Remainder, of),
            "shl" => (Kind::ShiftLeft, of),
            "shr" => (Kind::ShiftRight, of),
            "and" => (Kind::And, of),
            "or" => (Kind::Or, of),
            "xor" => (Kind::Xor, of),
            "not" => (Kind::Not, of),
            "neg" => (Kind::Negate, of),
            "abs" => (Kind::Absolute, of),
            "min" => (Kind::Minimum, of),
            "max" => (Kind::Maximum, of),
            "popc" => (Kind::CountOnes, of),
            "clz" => (Kind::LeadingZeros, of),
            "selp" => (Kind::Select, of),
            "setp" => {
                combined = match words.get(1).copied() {
                    Some("and") => Some(Kind::And),
                    Some("or") => Some(Kind::Or),
                    Some("xor") => Some(Kind::Xor),
                    _ => None,
                };
                (Kind::Compare(Order::parse(words.first()?)?), of)
            }
            _ => return None,
        };
        Some(Self { kind, of, combined })
    }

    /// Returns true if the result is a predicate.
    pub(super) fn is_condition(self) -> bool {
        matches!(self.kind, Kind::Compare(_)) || self.of.bits == 1
    }

    /// The comparison that a minimum or maximum makes.
    pub(super) fn comparison_of_operands(self) -> Option<Self> {
        matches!(self.kind, Kind::Minimum | Kind::Maximum).then_some(Self {
            kind: Kind::Compare(Order::Less),
            ..self
        })
    }

    /// The result for the first `count` operands; none for a division by zero and for missing operands.
    pub(super) fn evaluate(self, [a, b, c, _]: [u64; 4], count: usize) -> Option<u64> {
        let needed = match self.kind {
            Kind::Convert(_)
            | Kind::Not
            | Kind::Negate
            | Kind::Absolute
            | Kind::CountOnes
            | Kind::LeadingZeros => 1,
            Kind::Select => 3,
            Kind::Compare(_) if self.combined.is_some() => 3,
            _ => 2,
        };
        if count < needed {
            return None;
        }
        let (of, addend) = (
            self.of,
            i128::from(if count > 2 { c.cast_signed() } else { 0 }),
        );
        let (left, right) = (of.number(a), of.number(b));
        let product = left.wrapping_mul(right);
        // A shift by the width or more leaves the sign.
        let shift = of_shift(b);
        let (number, result) = match self.kind {
            Kind::Convert(from) => (from.number(a), of),
            Kind::Add => (left + right, of),
            Kind::Subtract => (left - right, of),
            Kind::Multiply => (product.wrapping_add(addend), of),
            Kind::MultiplyUpper => ((product >> of.bits) + addend, of),
            Kind::MultiplyWide => (product.wrapping_add(addend), of.double()),
            Kind::Divide => (left.checked_div(right)?, of),
            Kind::Remainder => (left.checked_rem(right)?, of),
            Kind::ShiftLeft => (left << shift, of),
            Kind::ShiftRight => (left >> shift, of),
            Kind::And => (left & right, of),
            Kind::Or => (left | right, of),
            Kind::Xor => (left ^ right, of),
            Kind::Not => (!left, of),
            Kind::Negate => (-left, of),
            Kind::Absolute => (left.abs(), of),
            Kind::Minimum => (left.min(right), of),
            Kind::Maximum => (left.max(right), of),
            Kind::CountOnes => (i128::from(of.truncate(a).count_ones()), of),
            Kind::LeadingZeros => {
                let unused = 64 - of.bits;
                (i128::from(of.truncate(a).leading_zeros() - unused), of)
            }
            Kind::Select => (if c & 1 == 1 { left } else { right }, of),
            Kind::Compare(order) => {
                let holds = u64::from(order.holds(left, right));
                return Some(match self.combined {
                    Some(Kind::And) => holds & c,
                    Some(Kind::Or) => holds | c,
                    Some(_) => holds ^ c,
                    None => holds,
                });
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the lower bits are the register's"
        )]
        Some(result.truncate(number as u64))
    }
}

/// The distance of a shift, at most one that moves all 64 bits out of a word.
fn of_shift(distance: u64) -> u32 {
    u32::try_from(distance & 0xffff_ffff).unwrap_or(64).min(64)
}
