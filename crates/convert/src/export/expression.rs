//! Expressions of a plan in C++.

use domain::expr::{Expr, Operation, Part};

use super::Export;
use super::cpp::member;

/// A C++ expression of type `std::int64_t` over `dims`. A division by zero gives
/// zero, which the launcher's limits refuse as an extent.
pub(super) fn integer(export: &Export<'_>, expr: &Expr) -> String {
    integer_part(export, &expr.tree())
}

fn integer_part(export: &Export<'_>, part: &Part<'_>) -> String {
    match part {
        Part::Integer(value) => format!("INT64_C({value})"),
        // The candidate's plan was resolved, so that its integer expressions have no decimals.
        Part::Decimal(value) => format!("std::int64_t({value:?})"),
        Part::Name(name) => match export.constant(name) {
            Some(value) => format!("INT64_C({value})"),
            None => format!("dims.{}", member(name)),
        },
        Part::Operation(operation, parts) => {
            let parts = parts.iter().map(|part| integer_part(export, part));
            let parts = parts.collect::<Vec<_>>();
            let both = parts.join(", ");
            match operation {
                Operation::Divide => format!("quotient({both})"),
                Operation::Remainder => format!("remainder({both})"),
                Operation::CeilingDivide => format!("cdiv({both})"),
                Operation::Minimum => format!("std::min<std::int64_t>({both})"),
                Operation::Maximum => format!("std::max<std::int64_t>({both})"),
                other => operator(*other, &parts, "std::int64_t"),
            }
        }
    }
}

/// A C++ expression of type `double` over `dims`.
pub(super) fn real(expr: &Expr) -> String {
    real_part(&expr.tree())
}

fn real_part(part: &Part<'_>) -> String {
    match part {
        Part::Integer(value) => format!("{value}.0"),
        Part::Decimal(value) => format!("{value:?}"),
        Part::Name(name) => format!("double(dims.{})", member(name)),
        Part::Operation(operation, parts) => {
            let parts = parts.iter().map(real_part).collect::<Vec<_>>();
            let all = parts.join(", ");
            match operation {
                Operation::Remainder => format!("std::fmod({all})"),
                Operation::CeilingDivide => format!("std::ceil({})", parts.join(" / ")),
                Operation::Minimum => format!("std::fmin({all})"),
                Operation::Maximum => format!("std::fmax({all})"),
                Operation::SquareRoot => format!("std::sqrt({all})"),
                Operation::PowerOfTwo => format!("std::exp2({all})"),
                other => operator(*other, &parts, "double"),
            }
        }
    }
}

/// An operation that C++ has as an operator. A comparison is converted to the type.
fn operator(operation: Operation, parts: &[String], kind: &str) -> String {
    match (operation, parts) {
        (Operation::Negate, [inner]) => format!("(-{inner})"),
        (Operation::Choice, [condition, one, other]) => {
            format!("({condition} != 0 ? {one} : {other})")
        }
        (Operation::Add | Operation::Subtract | Operation::Multiply | Operation::Divide, _) => {
            format!("({})", parts.join(&format!(" {} ", operation.symbol())))
        }
        _ => format!(
            "{kind}({})",
            parts.join(&format!(" {} ", operation.symbol()))
        ),
    }
}
