//! Verdicts on outputs that were compared with the reference.

use domain::judge::{self, ComparedOutput};
use domain::role::{Distribution, OutputComparison};
use domain::task::{Tolerance, ToleranceClass};
use domain::verdict::{Verdict, VerdictKind};
use proptest::prelude::*;

fn close() -> OutputComparison {
    OutputComparison {
        id: 0,
        tensor: "y".to_owned(),
        relative_l2: Some(2e-4),
        worst_ratio: Some(0.5),
        worst: None,
        wrong: None,
        special_mismatches: 0,
        beyond_bound: 0,
        elements: 30,
    }
}

fn together(facts: &[OutputComparison], tolerance: &Tolerance) -> Option<Verdict> {
    let compared = facts
        .iter()
        .map(|facts| ComparedOutput {
            facts,
            case: "odd",
            distribution: Distribution::Normal,
        })
        .collect::<Vec<_>>();
    judge::judge_outputs(&compared, tolerance)
}

fn compared(facts: &OutputComparison) -> Option<VerdictKind> {
    let tolerance = ToleranceClass::F16OutF32Acc.tolerance();
    together(std::slice::from_ref(facts), &tolerance).map(|verdict| verdict.kind())
}

#[test]
fn an_output_passes_only_if_every_rule_holds() {
    use VerdictKind::{IncorrectOutput, PrecisionDowngrade};
    type Change = fn(&mut OutputComparison);
    let table: [(&str, Change, Option<VerdictKind>); 11] = [
        ("close", |_| {}, None),
        (
            "no norm but every element near",
            |c| c.relative_l2 = None,
            None,
        ),
        (
            "nothing compared",
            |c| c.elements = 0,
            Some(IncorrectOutput),
        ),
        (
            "a NaN too many",
            |c| c.special_mismatches = 1,
            Some(IncorrectOutput),
        ),
        (
            "one element off",
            |c| c.beyond_bound = 1,
            Some(IncorrectOutput),
        ),
        (
            "a ratio that is NaN",
            |c| c.worst_ratio = Some(f64::NAN),
            Some(IncorrectOutput),
        ),
        (
            "a norm that is NaN",
            |c| c.relative_l2 = Some(f64::NAN),
            Some(IncorrectOutput),
        ),
        (
            "off as a whole, a little",
            |c| c.relative_l2 = Some(2.4e-3),
            Some(PrecisionDowngrade),
        ),
        (
            "off as a whole, far",
            |c| c.relative_l2 = Some(0.5),
            Some(IncorrectOutput),
        ),
        (
            "off as a whole and some elements beyond",
            |c| {
                c.relative_l2 = Some(2.4e-3);
                c.beyond_bound = 3;
                c.worst_ratio = Some(2.0);
            },
            Some(PrecisionDowngrade),
        ),
        (
            "off as a whole and an element far off",
            |c| {
                c.relative_l2 = Some(2.4e-3);
                c.beyond_bound = 1;
                c.worst_ratio = Some(300.0);
            },
            Some(IncorrectOutput),
        ),
    ];
    for (name, change, expected) in table {
        let mut facts = close();
        change(&mut facts);
        assert_eq!(compared(&facts), expected, "{name}");
    }
}

#[test]
fn operands_of_f32_that_are_rounded_to_f16_or_bf16_are_a_downgrade() {
    let tolerance = ToleranceClass::F32.tolerance();
    let judged = |relative_l2, worst_ratio| {
        let facts = OutputComparison {
            relative_l2: Some(relative_l2),
            worst_ratio: Some(worst_ratio),
            beyond_bound: 30,
            ..close()
        };
        together(&[facts], &tolerance).unwrap().kind()
    };
    // Operands rounded to f16, and the last of eight terms dropped.
    assert_eq!(judged(2.9e-4, 900.0), VerdictKind::PrecisionDowngrade);
    // Operands rounded to bf16.
    assert_eq!(judged(2.3e-3, 7200.0), VerdictKind::PrecisionDowngrade);
    assert_eq!(judged(0.35, 1e6), VerdictKind::IncorrectOutput);
}

#[test]
fn a_downgrade_is_told_by_all_outputs_together_and_not_by_the_draw_of_one_element() {
    let tolerance = ToleranceClass::F32.tolerance();
    let off = |elements, relative_l2, worst_ratio| OutputComparison {
        relative_l2: Some(relative_l2),
        worst_ratio: Some(worst_ratio),
        beyond_bound: elements,
        elements,
        ..close()
    };
    let product = off(4000, 2.9e-4, 900.0);
    // One product of two rounded operands: from far inside the norm to beyond what is called near.
    for error in [1e-6, 4.1e-5, 9e-4, 1.3e-3] {
        let single = off(1, error, 1400.0);
        let verdict = together(&[single, product.clone()], &tolerance).unwrap();
        let Verdict::PrecisionDowngrade(mismatch) = verdict else {
            panic!("{error}: {verdict}");
        };
        assert_eq!(mismatch.relative_l2, product.relative_l2, "the telling one");
    }
    let wrong = off(4000, 0.35, 1e6);
    let both = together(&[product, wrong], &tolerance).unwrap();
    assert_eq!(both.kind(), VerdictKind::IncorrectOutput);
}

proptest! {
    #[test]
    fn nothing_worse_than_the_tolerance_ever_passes(
        relative_l2 in proptest::option::of(proptest::num::f64::ANY),
        worst_ratio in proptest::option::of(proptest::num::f64::ANY),
        special_mismatches in 0_u64..3,
        beyond_bound in 0_u64..3,
    ) {
        let facts = OutputComparison {
            relative_l2,
            worst_ratio,
            special_mismatches,
            beyond_bound,
            ..close()
        };
        let acceptable = special_mismatches == 0
            && beyond_bound == 0
            && relative_l2.is_none_or(|error| error <= 5e-4)
            && worst_ratio.is_none_or(|ratio| ratio <= 1.0);
        prop_assert_eq!(compared(&facts).is_none(), acceptable);
    }
}
