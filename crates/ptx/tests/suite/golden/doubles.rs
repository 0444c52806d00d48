//! Arithmetic of doubles in every rounding.

use super::number::{ROUNDS, Round};
use super::{Expect, Form};

/// Adds the forms. The nearest result is the host's; in other directions it is that or its neighbour, by the sign of the
/// rounding error.
pub(super) fn add_forms(forms: &mut Vec<Form>) {
    type Nearest = fn([f64; 3]) -> (f64, f64);
    let list: [(&str, usize, Nearest); 7] = [
        ("add", 2, |[a, b, _]| {
            let s = a + b;
            let other = s - a;
            (s, (a - (s - other)) + (b - other))
        }),
        ("sub", 2, |[a, b, _]| {
            let s = a - b;
            let other = s - a;
            (s, (a - (s - other)) + (-b - other))
        }),
        ("mul", 2, |[a, b, _]| (a * b, a.mul_add(b, -(a * b)))),
        ("fma", 3, |[a, b, c]| {
            // The rounding error of the fused sum, by Boldo and Muller: exact for numbers of moderate size.
            let r = a.mul_add(b, c);
            let two_sum = |x: f64, y: f64| {
                let s = x + y;
                let other = s - x;
                (s, (x - (s - other)) + (y - other))
            };
            let (u1, u2) = (a * b, a.mul_add(b, -(a * b)));
            let (alpha1, alpha2) = two_sum(c, u2);
            let (beta1, beta2) = two_sum(u1, alpha1);
            let gamma = (beta1 - r) + beta2;
            (r, gamma + alpha2)
        }),
        ("div", 2, |[a, b, _]| {
            let q = a / b;
            (q, (-q).mul_add(b, a) * b.signum())
        }),
        ("rcp", 1, |[a, ..]| {
            let q = 1.0 / a;
            (q, (-q).mul_add(a, 1.0) * a.signum())
        }),
        ("sqrt", 1, |[a, ..]| {
            let r = a.sqrt();
            (r, (-r).mul_add(r, a))
        }),
    ];
    let values: Vec<u64> = [
        0.0,
        1.0,
        1.5,
        0.3,
        3.0,
        1e10,
        1e-10,
        1.0 + f64::EPSILON,
        4_503_599_627_370_497.5,
        1e-30,
    ]
    .into_iter()
    .flat_map(|value: f64| [value.to_bits(), (-value).to_bits()])
    .collect();
    for (name, count, nearest) in list {
        for (word, round) in ROUNDS {
            let moderate = |value: f64| value == 0.0 || (1e-100..1e100).contains(&value.abs());
            forms.push(Form {
                name: format!("{name}.{word}.f64"),
                body: format!(
                    "{name}.{word}.f64 %q, {};",
                    ["%a", "%b", "%c"][..count].join(", ")
                ),
                operands: [64; 3],
                result: 64,
                values: [values.clone(), values.clone(), values.clone()],
                oracle: Box::new(move |raw| {
                    let operands = raw.map(f64::from_bits);
                    let (value, rest) = nearest(operands);
                    let whole = operands[..count].iter().all(|operand| moderate(*operand))
                        && moderate(value);
                    if value.is_nan() {
                        // PTX does not say which NaN a double operation gives.
                        return Expect::Near(f64::NAN, 0.0, 0.0);
                    }
                    if !whole || rest.is_nan() {
                        return if round == Round::Nearest {
                            Expect::Bits(value.to_bits())
                        } else {
                            Expect::Any
                        };
                    }
                    let result = match round {
                        Round::Nearest => value,
                        Round::Down if rest < 0.0 => value.next_down(),
                        Round::Up if rest > 0.0 => value.next_up(),
                        Round::Zero if rest < 0.0 && value > 0.0 => value.next_down(),
                        Round::Zero if rest > 0.0 && value < 0.0 => value.next_up(),
                        // The sign of an exact zero depends on the direction; singles hold that.
                        Round::Down if value == 0.0 => return Expect::Any,
                        _ => value,
                    };
                    Expect::Bits(result.to_bits())
                }),
            });
        }
    }
}
