//! Expressions as trees of named operations, for writing them in another notation.

use super::{BinaryOperator, Expr, Function, Node};

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Part<'a> {
    /// A whole number.
    Integer(i64),
    /// A decimal of a scalar expression.
    Decimal(f64),
    /// The name of a dim, a tunable, a constant or a device fact.
    Name(&'a str),
    /// An operation with its operands.
    Operation(Operation, Vec<Part<'a>>),
}

/// The operations of expressions. Operators have one or two operands, [`Operation::Choice`] three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `-a`.
    Negate,
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`; truncates toward zero in integer expressions.
    Divide,
    /// `a % b`; has the sign of `a`.
    Remainder,
    /// `a < b`, which is 1 or 0, as all comparisons.
    Less,
    /// `a <= b`.
    AtMost,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    AtLeast,
    /// `a == b`.
    Equal,
    /// `a != b`.
    Unequal,
    /// `a ? b : c`.
    Choice,
    /// `cdiv(a, b)`: the quotient, rounded up.
    CeilingDivide,
    /// `min(a, b)`.
    Minimum,
    /// `max(a, b)`.
    Maximum,
    /// `sqrt(a)`.
    SquareRoot,
    /// `exp2(a)`.
    PowerOfTwo,
}

impl Operation {
    /// The operator or function in expressions.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Negate => "neg",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Choice => "?",
            Self::CeilingDivide => "cdiv",
            Self::Minimum => "min",
            Self::Maximum => "max",
            Self::SquareRoot => "sqrt",
            Self::PowerOfTwo => "exp2",
        }
    }
}

impl Expr {
    /// The expression as a tree.
    pub fn tree(&self) -> Part<'_> {
        part(&self.root)
    }
}

fn part(node: &Node) -> Part<'_> {
    match node {
        Node::Integer(value) => Part::Integer(*value),
        Node::Decimal(value) => Part::Decimal(*value),
        Node::Name(name) => Part::Name(name),
        Node::Negate(inner) => Part::Operation(Operation::Negate, vec![part(inner)]),
        Node::Binary(operator, left, right) => {
            Part::Operation(binary(*operator), vec![part(left), part(right)])
        }
        Node::Choice(parts) => Part::Operation(Operation::Choice, parts.iter().map(part).collect()),
        Node::Call(function, arguments) => {
            Part::Operation(call(*function), arguments.iter().map(part).collect())
        }
    }
}

fn binary(operator: BinaryOperator) -> Operation {
    match operator {
        BinaryOperator::Add => Operation::Add,
        BinaryOperator::Subtract => Operation::Subtract,
        BinaryOperator::Multiply => Operation::Multiply,
        BinaryOperator::Divide => Operation::Divide,
        BinaryOperator::Remainder => Operation::Remainder,
        BinaryOperator::Less => Operation::Less,
        BinaryOperator::AtMost => Operation::AtMost,
        BinaryOperator::Greater => Operation::Greater,
        BinaryOperator::AtLeast => Operation::AtLeast,
        BinaryOperator::Equal => Operation::Equal,
        BinaryOperator::Unequal => Operation::Unequal,
    }
}

/// The parser turns `ceil(a / b)` into a rounded quotient and `sizeof` into a number.
fn call(function: Function) -> Operation {
    match function {
        Function::CeilingDivide | Function::Ceiling | Function::SizeOf => Operation::CeilingDivide,
        Function::Minimum => Operation::Minimum,
        Function::Maximum => Operation::Maximum,
        Function::SquareRoot => Operation::SquareRoot,
        Function::PowerOfTwo => Operation::PowerOfTwo,
    }
}
