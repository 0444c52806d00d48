//! Tests of the grammar and of both evaluations.

use proptest::prelude::*;

use super::*;

fn bindings() -> Bindings {
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
            Expr::parse(text).unwrap().integer(&bindings()),
            Ok(value),
            "{text}"
        );
    }
}

#[test]
fn every_way_to_have_no_value_is_typed() {
    let value = |text: &str| Expr::parse(text).unwrap().integer(&bindings());
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
    let value = |text: &str| Expr::parse(text).unwrap().scalar(&bindings());
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
        let bindings = Bindings::from([("A".to_owned(), a), ("B".to_owned(), b)]);
        let tiles = Expr::parse("cdiv(A, B)").unwrap().integer(&bindings).unwrap();
        prop_assert!(tiles * b >= a && (tiles - 1) * b < a);
    }

    #[test]
    fn no_text_panics(text in ".{0,80}") {
        if let Ok(expr) = Expr::parse(&text) {
            let _ = expr.integer(&bindings());
            let _ = expr.scalar(&bindings());
        }
    }
}
