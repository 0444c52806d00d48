//! The little expressions of launch plans and task files: `cdiv(S, BLOCK_M)`, `1 / sqrt(D)`.
//!
//! One grammar, two evaluations. Integer expressions are 64-bit and checked: an overflow or a
//! division by zero is an error, never a wrapped number. Scalar expressions are `f64` and may
//! also use decimals, `sqrt` and `exp2`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The deepest nesting of parentheses and calls; protects the parser's stack from hostile input.
const MAX_DEPTH: usize = 32;
/// The longest expression in bytes.
const MAX_LENGTH: usize = 512;

/// The names an expression may use, with their values.
pub type Scope = BTreeMap<String, i64>;

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

/// Comparisons, the longer ones first.
const COMPARISONS: &[(&str, BinaryOperator)] = &[
    ("<=", BinaryOperator::AtMost),
    (">=", BinaryOperator::AtLeast),
    ("==", BinaryOperator::Equal),
    ("!=", BinaryOperator::Unequal),
    ("<", BinaryOperator::Less),
    (">", BinaryOperator::Greater),
];
/// Bytes of the types that `sizeof` takes.
const SIZES: &[(&[&str], i64)] = &[
    (
        &["char", "signed char", "unsigned char", "int8_t", "uint8_t"],
        1,
    ),
    (
        &[
            "half",
            "__half",
            "__nv_bfloat16",
            "short",
            "unsigned short",
            "f16",
            "bf16",
        ],
        2,
    ),
    (
        &[
            "float",
            "int",
            "unsigned",
            "unsigned int",
            "half2",
            "__half2",
            "__nv_bfloat162",
            "f32",
            "i32",
            "u32",
            "int32_t",
            "uint32_t",
        ],
        4,
    ),
    (
        &[
            "double",
            "long long",
            "unsigned long long",
            "float2",
            "int2",
            "f64",
            "i64",
            "size_t",
        ],
        8,
    ),
    (&["float4", "int4", "uint4", "double2"], 16),
];

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
        let mut parser = Parser {
            text,
            offset: 0,
            depth: 0,
        };
        let root = parser.choice()?;
        parser.skip_space();
        if parser.offset < text.len() {
            return Err(parser.unexpected("an operator or the end of the expression"));
        }
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
    pub fn integer(&self, scope: &Scope) -> Result<i64, ExprError> {
        self.integer_at(&self.root, scope)
    }

    /// The value as a finite `f64`.
    ///
    /// # Errors
    /// [`ExprError::UnknownName`], [`ExprError::NotFinite`].
    pub fn scalar(&self, scope: &Scope) -> Result<f64, ExprError> {
        let value = self.scalar_at(&self.root, scope)?;
        if value.is_finite() {
            Ok(value)
        } else {
            Err(ExprError::NotFinite(self.text.clone()))
        }
    }

    fn integer_at(&self, node: &Node, scope: &Scope) -> Result<i64, ExprError> {
        let overflow = || ExprError::Overflow(self.text.clone());
        let by_zero = || ExprError::DivisionByZero(self.text.clone());
        match node {
            Node::Integer(value) => Ok(*value),
            Node::Decimal(_) => Err(ExprError::NotInteger(self.text.clone())),
            Node::Name(name) => self.lookup(name, scope),
            Node::Negate(inner) => self
                .integer_at(inner, scope)?
                .checked_neg()
                .ok_or_else(overflow),
            Node::Binary(operator, left, right) => {
                let (left, right) = (
                    self.integer_at(left, scope)?,
                    self.integer_at(right, scope)?,
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
                let holds = self.integer_at(condition, scope)? != 0;
                self.integer_at(if holds { one } else { other }, scope)
            }
            Node::Call(function, arguments) => {
                let values = arguments
                    .iter()
                    .map(|argument| self.integer_at(argument, scope))
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
    fn scalar_at(&self, node: &Node, scope: &Scope) -> Result<f64, ExprError> {
        Ok(match node {
            Node::Integer(value) => *value as f64,
            Node::Decimal(value) => *value,
            Node::Name(name) => self.lookup(name, scope)? as f64,
            Node::Negate(inner) => -self.scalar_at(inner, scope)?,
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.scalar_at(left, scope)?, self.scalar_at(right, scope)?);
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
                let holds = self.scalar_at(condition, scope)? != 0.0;
                self.scalar_at(if holds { one } else { other }, scope)?
            }
            Node::Call(function, arguments) => {
                let values = arguments
                    .iter()
                    .map(|argument| self.scalar_at(argument, scope))
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

    fn lookup(&self, name: &str, scope: &Scope) -> Result<i64, ExprError> {
        scope
            .get(name)
            .copied()
            .ok_or_else(|| ExprError::UnknownName {
                name: name.to_owned(),
                text: self.text.clone(),
                known: scope
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

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
}

impl Parser<'_> {
    fn choice(&mut self) -> Result<Node, ExprError> {
        let condition = self.comparison()?;
        if self.peek() != Some('?') {
            return Ok(condition);
        }
        self.offset += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let one = self.choice()?;
        self.expect(':')?;
        let other = self.choice()?;
        self.depth -= 1;
        Ok(Node::Choice(Box::new([condition, one, other])))
    }

    fn comparison(&mut self) -> Result<Node, ExprError> {
        let left = self.sum()?;
        self.skip_space();
        let rest = &self.text[self.offset..];
        let found = COMPARISONS.iter().find(|(text, _)| rest.starts_with(text));
        let Some((text, operator)) = found else {
            return Ok(left);
        };
        self.offset += text.len();
        Ok(Node::Binary(
            *operator,
            Box::new(left),
            Box::new(self.sum()?),
        ))
    }

    /// The size of a type in bytes, after the opening parenthesis of `sizeof`.
    fn size_of(&mut self, start: usize) -> Result<Node, ExprError> {
        let end = self.text[self.offset..].find(')');
        let name = end.map(|end| self.text[self.offset..self.offset + end].trim());
        let size = name.and_then(|name| SIZES.iter().find(|(names, _)| names.contains(&name)));
        let Some((_, bytes)) = size else {
            return Err(ExprError::Syntax {
                offset: start,
                message: "sizeof takes the name of a type, such as float or __half".to_owned(),
            });
        };
        self.offset += end.map_or(0, |end| end + 1);
        Ok(Node::Integer(*bytes))
    }

    fn sum(&mut self) -> Result<Node, ExprError> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => BinaryOperator::Add,
                Some('-') => BinaryOperator::Subtract,
                _ => return Ok(left),
            };
            self.offset += 1;
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, ExprError> {
        let mut left = self.factor()?;
        loop {
            let operator = match self.peek() {
                Some('*') => BinaryOperator::Multiply,
                Some('/') => BinaryOperator::Divide,
                Some('%') => BinaryOperator::Remainder,
                _ => return Ok(left),
            };
            self.offset += 1;
            // `//` is Python's division of integers.
            if operator == BinaryOperator::Divide && self.text[self.offset..].starts_with('/') {
                self.offset += 1;
            }
            left = Node::Binary(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Node, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let node = match self.peek() {
            Some('-') => {
                self.offset += 1;
                Node::Negate(Box::new(self.factor()?))
            }
            Some('(') => {
                self.offset += 1;
                let inner = self.choice()?;
                self.expect(')')?;
                inner
            }
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.name_or_call()?,
            _ => return Err(self.unexpected("a number, a name, a call or a parenthesis")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, ExprError> {
        let start = self.offset;
        self.take_while(|c| c.is_ascii_digit());
        let decimal = self.text[self.offset..].starts_with('.');
        if decimal {
            self.offset += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let text = &self.text[start..self.offset];
        let node = if decimal {
            text.parse().ok().map(Node::Decimal)
        } else {
            text.parse().ok().map(Node::Integer)
        };
        node.ok_or_else(|| ExprError::Syntax {
            offset: start,
            message: format!("the number {text} does not fit 64 bits"),
        })
    }

    fn name_or_call(&mut self) -> Result<Node, ExprError> {
        let start = self.offset;
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = self.text[start..self.offset].to_owned();
        if self.peek() != Some('(') {
            return Ok(Node::Name(name));
        }
        let plain: String = name.chars().filter(|c| *c != '_').collect();
        let (function, arity) = match plain.to_ascii_lowercase().as_str() {
            "cdiv" | "ceildiv" | "divceil" | "divup" | "divroundup" => (Function::CeilingDivide, 2),
            "ceil" => (Function::Ceiling, 1),
            "sizeof" => (Function::SizeOf, 1),
            "min" => (Function::Minimum, 2),
            "max" => (Function::Maximum, 2),
            "sqrt" => (Function::SquareRoot, 1),
            "exp2" => (Function::PowerOfTwo, 1),
            _ => {
                return Err(ExprError::Syntax {
                    offset: start,
                    message: format!(
                        "unknown function {name:?}; there are cdiv, min, max, sizeof, sqrt and exp2"
                    ),
                });
            }
        };
        self.expect('(')?;
        if function == Function::SizeOf {
            return self.size_of(start);
        }
        let mut arguments = vec![self.choice()?];
        while self.peek() == Some(',') {
            self.offset += 1;
            arguments.push(self.choice()?);
        }
        self.expect(')')?;
        // The least or greatest of more than two.
        while arguments.len() > 2 && matches!(function, Function::Minimum | Function::Maximum) {
            let rest = arguments.split_off(arguments.len() - 2);
            arguments.push(Node::Call(function, rest));
        }
        if let (Function::Ceiling, [Node::Binary(BinaryOperator::Divide, left, right)]) =
            (function, arguments.as_slice())
        {
            let parts = vec![left.as_ref().clone(), right.as_ref().clone()];
            return Ok(Node::Call(Function::CeilingDivide, parts));
        }
        if function == Function::Ceiling {
            return Err(ExprError::Syntax {
                offset: start,
                message: "ceil takes a quotient; write cdiv(a, b)".to_owned(),
            });
        }
        if arguments.len() != arity {
            return Err(ExprError::Syntax {
                offset: start,
                message: format!("{name} takes {arity} argument(s), not {}", arguments.len()),
            });
        }
        Ok(Node::Call(function, arguments))
    }

    fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = &self.text[self.offset..];
        self.offset += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.offset..].chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), ExprError> {
        if self.peek() == Some(wanted) {
            self.offset += wanted.len_utf8();
            return Ok(());
        }
        Err(self.unexpected(&format!("'{wanted}'")))
    }

    fn too_deep(&self) -> ExprError {
        self.error(format!(
            "an expression nests at most {MAX_DEPTH} levels deep"
        ))
    }

    fn unexpected(&mut self, wanted: &str) -> ExprError {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        self.error(format!("expected {wanted}, found {found}"))
    }

    fn error(&self, message: String) -> ExprError {
        ExprError::Syntax {
            offset: self.offset,
            message,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope() -> Scope {
        [("S", 127), ("D", 64), ("BLOCK_M", 32), ("ZERO", 0)]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    #[test]
    fn integers_follow_the_usual_rules() {
        let table = [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("cdiv(S, BLOCK_M)", 4),
            ("cdiv(-7, 2)", -3),
            ("cdiv(7, -2)", -3),
            ("cdiv(-7, -2)", 4),
            ("2 * (BLOCK_M + 2 * 16) * D", 8192),
            ("min(S, 64) % 10", 4),
            ("max(S, 64) / 2 - 1", 62),
            ("--3", 3),
            ("7 - 2 - 1", 4),
        ];
        for (text, value) in table {
            assert_eq!(
                Expr::parse(text).unwrap().integer(&scope()),
                Ok(value),
                "{text}"
            );
        }
    }

    #[test]
    fn every_way_to_have_no_value_is_typed() {
        let value = |text: &str| Expr::parse(text).unwrap().integer(&scope());
        assert!(matches!(
            value("S / ZERO"),
            Err(ExprError::DivisionByZero(_))
        ));
        assert!(matches!(
            value("S % (D - 64)"),
            Err(ExprError::DivisionByZero(_))
        ));
        assert!(matches!(
            value("cdiv(S, ZERO)"),
            Err(ExprError::DivisionByZero(_))
        ));
        assert!(matches!(
            value("9223372036854775807 + S"),
            Err(ExprError::Overflow(_))
        ));
        assert!(matches!(value("sqrt(D)"), Err(ExprError::NotInteger(_))));
        assert!(matches!(value("1.5"), Err(ExprError::NotInteger(_))));
        let error = value("BLOCK_N").unwrap_err().to_string();
        assert!(error.contains("BLOCK_M, D, S, ZERO"), "{error}");
    }

    #[test]
    fn syntax_errors_say_where() {
        for (text, at) in [
            ("1 +", 3),
            ("cdiv(S)", 0),
            ("S $ 2", 2),
            ("(1", 2),
            ("pow(2, 3)", 0),
            ("", 0),
        ] {
            match Expr::parse(text) {
                Err(ExprError::Syntax { offset, .. }) => assert_eq!(offset, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn scalars_are_floating_and_finite() {
        let value = |text: &str| Expr::parse(text).unwrap().scalar(&scope());
        assert_eq!(value("1 / sqrt(D)"), Ok(0.125));
        assert_eq!(value("exp2(3) * 0.5"), Ok(4.0));
        assert!(matches!(value("1 / ZERO"), Err(ExprError::NotFinite(_))));
    }

    #[test]
    fn hostile_depth_is_an_error_not_a_crash() {
        let deep = "(".repeat(400) + "1" + &")".repeat(400);
        assert!(Expr::parse(&deep).is_err());
        assert!(Expr::parse(&"-".repeat(500)).is_err());
    }

    proptest! {
        #[test]
        fn ceiling_division_is_the_smallest_multiple_not_below(a in 0_i64..1 << 40, b in 1_i64..1 << 20) {
            let scope = Scope::from([("A".to_owned(), a), ("B".to_owned(), b)]);
            let tiles = Expr::parse("cdiv(A, B)").unwrap().integer(&scope).unwrap();
            prop_assert!(tiles * b >= a && (tiles - 1) * b < a);
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            if let Ok(expr) = Expr::parse(&text) {
                let _ = expr.integer(&scope());
                let _ = expr.scalar(&scope());
            }
        }
    }
}
