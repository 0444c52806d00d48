//! Integers and reals of a Python source as expressions over the task's dims.

use std::collections::BTreeSet;

use domain::expr::Expr;

/// Values of dims for which extents are compared: odd ones and an even one, so that rounded quotients differ.
const PRIMES: [i64; 13] = [101, 2, 89, 53, 19, 97, 31, 7, 83, 43, 61, 11, 73];
/// The number of comparisons.
const ROUNDS: usize = 5;

/// A number: its value for the imported shape, and its text over the dims. The text of an integer is an
/// expression of a plan and of C++; the text of a real is one of C++, of type `double`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub text: String,
    pub value: f64,
    pub whole: bool,
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
    pub fn integer(value: i64) -> Self {
        Self {
            text: value.to_string(),
            value: value as f64,
            whole: true,
        }
    }

    pub fn real(value: f64) -> Self {
        Self {
            text: if value.is_finite() {
                format!("{value:?}")
            } else if value > 0.0 {
                "INFINITY".to_owned()
            } else {
                "-INFINITY".to_owned()
            },
            value,
            whole: false,
        }
    }

    /// A dim with its value in the imported shape.
    pub fn dim(name: &str, value: i64) -> Self {
        Self {
            text: name.to_owned(),
            ..Self::integer(value)
        }
    }

    /// The value of an integer.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value of an integer was one"
    )]
    pub fn whole(&self) -> Option<i64> {
        self.whole.then_some(self.value as i64)
    }

    /// The names in the text that are not functions of C++.
    pub fn names(&self) -> BTreeSet<String> {
        words(&self.text)
            .filter(|word| !["double", "sqrt", "INFINITY", "pow", "log", "exp"].contains(word))
            .map(str::to_owned)
            .collect()
    }

    pub fn is_literal(&self) -> bool {
        self.names().is_empty()
    }

    /// Returns true if two integers are equal for every value of their dims, as several values show.
    pub fn is_always(&self, other: &Self) -> bool {
        if self.text == other.text {
            return true;
        }
        let names = self
            .names()
            .union(&other.names())
            .cloned()
            .collect::<Vec<_>>();
        !names.is_empty()
            && (0..ROUNDS).all(|round| {
                let values = names.iter().enumerate().map(|(at, name)| {
                    let value = PRIMES[(at * ROUNDS + round) % PRIMES.len()];
                    (name.clone(), value)
                });
                let values = values.collect();
                let value = evaluate(&self.text, &values);
                value.is_some() && value == evaluate(&other.text, &values)
            })
    }

    fn as_double(&self) -> String {
        if self.whole {
            format!("double({})", self.text)
        } else {
            self.text.clone()
        }
    }

    /// The result of a Python operator; `None` for an operator that numbers do not have here.
    pub fn combine(&self, operator: &str, other: &Self) -> Option<Self> {
        let (a, b) = (self.value, other.value);
        let whole = self.whole && other.whole && !["/", "**"].contains(&operator);
        let value = match operator {
            "+" => a + b,
            "-" => a - b,
            "*" => a * b,
            "/" => a / b,
            "//" => (a / b).floor(),
            "%" => a - b * (a / b).floor(),
            "**" => a.powf(b),
            _ => return None,
        };
        let of_wholes = self.whole && other.whole && operator == "**" && b >= 0.0;
        if self.is_literal() && other.is_literal() {
            return Some(if whole || of_wholes {
                Self::integer(Self::truncated(value))
            } else {
                Self::real(value)
            });
        }
        let text = match (operator, whole) {
            ("+", true) if b == 0.0 && other.is_literal() => self.text.clone(),
            ("+", true) if a == 0.0 && self.is_literal() => other.text.clone(),
            ("-", true) if b == 0.0 && other.is_literal() => self.text.clone(),
            ("-", true) if self.without_term(&other.text).is_some() => self
                .without_term(&other.text)
                .unwrap_or_default()
                .to_owned(),
            ("*" | "//", true) if other.text == "1" => self.text.clone(),
            ("*", true) if self.text == "1" => other.text.clone(),
            ("//", true) if self.text == other.text => "1".to_owned(),
            ("//", true) => format!("({} / {})", self.text, other.text),
            (_, true) => format!("({} {operator} {})", self.text, other.text),
            ("**", _) => format!("pow({}, {})", self.as_double(), other.as_double()),
            ("//" | "%", false) => return None,
            _ => format!("({} {operator} {})", self.as_double(), other.as_double()),
        };
        Some(Self { text, value, whole })
    }

    /// The first term of a sum whose second term is a text.
    fn without_term(&self, term: &str) -> Option<&str> {
        let inner = self.text.strip_prefix('(')?.strip_suffix(')')?;
        let rest = inner.strip_suffix(term)?.strip_suffix(" + ")?;
        (!rest.contains(['(', ' '])).then_some(rest)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "callers pass whole numbers"
    )]
    fn truncated(value: f64) -> i64 {
        value as i64
    }

    pub fn negate(&self) -> Self {
        if self.is_literal() {
            return if self.whole {
                Self::integer(-Self::truncated(self.value))
            } else {
                Self::real(-self.value)
            };
        }
        Self {
            text: format!("(-{})", self.text),
            value: -self.value,
            whole: self.whole,
        }
    }

    pub fn square_root(&self) -> Self {
        if self.is_literal() {
            return Self::real(self.value.sqrt());
        }
        Self {
            text: format!("sqrt({})", self.as_double()),
            value: self.value.sqrt(),
            whole: false,
        }
    }

    /// The factors of a product of integers.
    pub fn factors(&self) -> Vec<String> {
        let inner = self
            .text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'));
        let parts = inner.map(|text| text.split(" * ").map(str::to_owned).collect::<Vec<_>>());
        let plain = |part: &String| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match parts {
            Some(parts) if parts.iter().all(plain) => parts,
            _ => vec![self.text.clone()],
        }
    }
}

/// The product of extents.
pub(crate) fn product(extents: &[Number]) -> Number {
    let start = Number::integer(1);
    extents.iter().fold(start, |product, extent| {
        product.combine("*", extent).unwrap_or(product)
    })
}

/// The identifiers in a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
    pieces.filter(|piece| piece.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

/// The value of an integer's text for some values of the dims.
pub(crate) fn evaluate(text: &str, dims: &domain::expr::Bindings) -> Option<i64> {
    Expr::parse(text).ok()?.integer(dims).ok()
}
