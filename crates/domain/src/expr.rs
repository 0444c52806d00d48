//! The little expressions of launch plans and task files: `cdiv(S, BLOCK_M)`, `1 / sqrt(D)`.
//!
//! One grammar, two evaluations. Integer expressions are 64-bit and checked: an overflow or a
//! division by zero is an error, never a wrapped number. Scalar expressions are `f64` and may
//! also use decimals, `sqrt` and `exp2`.

mod notation;
mod parser;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use notation::{Operation, Part};

/// The longest expression in bytes.
const MAX_LENGTH: usize = 512;

/// Values by name, for the names that an expression may use.
pub type Bindings = BTreeMap<String, i64>;

/// A parsed expression. Serialises as the text it was parsed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Expr {
    text: String,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Integer(i64),
    Decimal(f64),
    Name(String),
    Negate(Box<Node>),
    Binary(BinaryOperator, Box<Node>, Box<Node>),
    /// `condition ? one : other`.
    Choice(Box<[Node; 3]>),
    Call(Function, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

impl BinaryOperator {
    /// The result of a comparison; none for arithmetic.
    fn compare<T: PartialOrd>(self, left: &T, right: &T) -> Option<bool> {
        Some(match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder => {
                return None;
            }
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    CeilingDivide,
    Minimum,
    Maximum,
    SquareRoot,
    PowerOfTwo,
    /// The ceiling of a quotient: `ceil(a / b)`.
    Ceiling,
    SizeOf,
}

/// The reasons why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text does not parse; `offset` counts bytes from the expression's start.
    #[error("{message}")]
    Syntax {
        /// Byte offset of the defect in the expression.
        offset: usize,
        /// The defect.
        message: String,
    },
    /// An undefined name.
    #[error("unknown name {name:?} in \"{text}\"; known here: {known}")]
    UnknownName {
        /// The name.
        name: String,
        /// The expression.
        text: String,
        /// The names that exist, comma-separated.
        known: String,
    },
    /// Division or remainder by zero.
    #[error("division by zero in \"{0}\"")]
    DivisionByZero(String),
    /// A result that does not fit 64 bits.
    #[error("\"{0}\" overflows 64-bit integers")]
    Overflow(String),
    /// A decimal, `sqrt` or `exp2` in an integer expression.
    #[error("\"{0}\" must be an integer expression: decimals, sqrt and exp2 are for scalars only")]
    NotInteger(String),
    /// A scalar expression whose value is infinite or not a number.
    #[error("\"{0}\" has no finite value")]
    NotFinite(String),
}

impl Expr {
    /// Parses an expression.
    ///
    /// # Errors
    /// [`ExprError::Syntax`] with the byte offset of the defect.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        if text.len() > MAX_LENGTH {
            return Err(ExprError::Syntax {
                offset: MAX_LENGTH,
                message: format!("an expression has at most {MAX_LENGTH} characters"),
            });
        }
        let root = parser::parse(text)?;
        Ok(Self {
            text: text.to_owned(),
            root,
        })
    }

    /// The constant `value`.
    pub fn constant(value: i64) -> Self {
        Self {
            text: value.to_string(),
            root: Node::Integer(value),
        }
    }

    /// The text the expression was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Every name the expression mentions, sorted, without repeats.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        collect_names(&self.root, &mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The value as a checked 64-bit integer. Division truncates toward zero.
    ///
    /// # Errors
    /// Every [`ExprError`] except `Syntax` and `NotFinite`.
    pub fn integer(&self, bindings: &Bindings) -> Result<i64, ExprError> {
        self.integer_at(&self.root, bindings)
    }

    /// The value as a finite `f64`.
    ///
    /// # Errors
    /// [`ExprError::UnknownName`], [`ExprError::NotFinite`].
    pub fn scalar(&self, bindings: &Bindings) -> Result<f64, ExprError> {
        let value = self.scalar_at(&self.root, bindings)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(ExprError::NotFinite(self.text.clone()))
        }
    }

    fn integer_at(&self, node: &Node, bindings: &Bindings) -> Result<i64, ExprError> {
        let overflow = || ExprError::Overflow(self.text.clone());
        let by_zero = || ExprError::DivisionByZero(self.text.clone());
        match node {
            Node::Integer(value) => Ok(*value),
            Node::Decimal(_) => Err(ExprError::NotInteger(self.text.clone())),
            Node::Name(name) => self.lookup(name, bindings),
            Node::Negate(inner) => self
                .integer_at(inner, bindings)?
                .checked_neg()
                .ok_or_else(overflow),
            Node::Binary(operator, left, right) => {
                let (left, right) = (
                    self.integer_at(left, bindings)?,
                    self.integer_at(right, bindings)?,
                );
                if let Some(truth) = operator.compare(&left, &right) {
                    return Ok(i64::from(truth));
                }
                match operator {
                    BinaryOperator::Add => left.checked_add(right).ok_or_else(overflow),
                    BinaryOperator::Subtract => left.checked_sub(right).ok_or_else(overflow),
                    BinaryOperator::Multiply => left.checked_mul(right).ok_or_else(overflow),
                    BinaryOperator::Divide if right == 0 => Err(by_zero()),
                    BinaryOperator::Divide => left.checked_div(right).ok_or_else(overflow),
                    BinaryOperator::Remainder if right == 0 => Err(by_zero()),
                    _ => left.checked_rem(right).ok_or_else(overflow),
                }
            }
            Node::Choice(parts) => {
                let [condition, one, other] = parts.as_ref();
                let holds = self.integer_at(condition, bindings)? != 0;
                self.integer_at(if holds { one } else { other }, bindings)
            }
            Node::Call(function, arguments) => {
                let values = arguments
                    .iter()
                    .map(|argument| self.integer_at(argument, bindings))
                    .collect::<Result<Vec<_>, _>>()?;
                match (function, values.as_slice()) {
                    (Function::CeilingDivide, [_, 0]) => Err(by_zero()),
                    (Function::CeilingDivide, [left, right]) => {
                        let quotient = left.checked_div(*right).ok_or_else(overflow)?;
                        let inexact = left % right != 0;
                        let upward = inexact && ((*left < 0) == (*right < 0));
                        Ok(quotient + i64::from(upward))
                    }
                    (Function::Minimum, [left, right]) => Ok(*left.min(right)),
                    (Function::Maximum, [left, right]) => Ok(*left.max(right)),
                    _ => Err(ExprError::NotInteger(self.text.clone())),
                }
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "dims are far below 2^53")]
    fn scalar_at(&self, node: &Node, bindings: &Bindings) -> Result<f64, ExprError> {
        Ok(match node {
            Node::Integer(value) => *value as f64,
            Node::Decimal(value) => *value,
            Node::Name(name) => self.lookup(name, bindings)? as f64,
            Node::Negate(inner) => -self.scalar_at(inner, bindings)?,
            Node::Binary(operator, left, right) => {
                let (left, right) = (
                    self.scalar_at(left, bindings)?,
                    self.scalar_at(right, bindings)?,
                );
                if let Some(truth) = operator.compare(&left, &right) {
                    return Ok(f64::from(u8::from(truth)));
                }
                match operator {
                    BinaryOperator::Add => left + right,
                    BinaryOperator::Subtract => left - right,
                    BinaryOperator::Multiply => left * right,
                    BinaryOperator::Divide => left / right,
                    _ => left % right,
                }
            }
            Node::Choice(parts) => {
                let [condition, one, other] = parts.as_ref();
                let holds = self.scalar_at(condition, bindings)? != 0.0;
                self.scalar_at(if holds { one } else { other }, bindings)?
            }
            Node::Call(function, arguments) => {
                let values = arguments
                    .iter()
                    .map(|argument| self.scalar_at(argument, bindings))
                    .collect::<Result<Vec<_>, _>>()?;
                match (function, values.as_slice()) {
                    (Function::CeilingDivide, [left, right]) => (left / right).ceil(),
                    (Function::Minimum, [left, right]) => left.min(*right),
                    (Function::Maximum, [left, right]) => left.max(*right),
                    (Function::SquareRoot, [value]) => value.sqrt(),
                    (Function::PowerOfTwo, [value]) => value.exp2(),
                    _ => return Err(ExprError::NotFinite(self.text.clone())),
                }
            }
        })
    }

    fn lookup(&self, name: &str, bindings: &Bindings) -> Result<i64, ExprError> {
        bindings
            .get(name)
            .copied()
            .ok_or_else(|| ExprError::UnknownName {
                name: name.to_owned(),
                text: self.text.clone(),
                known: bindings
                    .keys()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Expr> for String {
    fn from(expr: Expr) -> Self {
        expr.text
    }
}

impl TryFrom<String> for Expr {
    type Error = ExprError;

    fn try_from(text: String) -> Result<Self, ExprError> {
        Self::parse(&text)
    }
}

fn collect_names<'a>(node: &'a Node, names: &mut Vec<&'a str>) {
    match node {
        Node::Integer(_) | Node::Decimal(_) => {}
        Node::Name(name) => names.push(name),
        Node::Negate(inner) => collect_names(inner, names),
        Node::Binary(_, left, right) => {
            collect_names(left, names);
            collect_names(right, names);
        }
        Node::Choice(parts) => parts.iter().for_each(|node| collect_names(node, names)),
        Node::Call(_, arguments) => arguments.iter().for_each(|node| collect_names(node, names)),
    }
}
