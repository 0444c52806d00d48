//! Floating-point arithmetic in every rounding, flushing and saturation, with exact oracles; approximations within
//! the errors that the ISA documents.

use super::number::{BF16, F16, F32, Float, ROUNDS, Round, quotient, root, sum};
use super::{Expect, Form, mask};

/// The modifiers of a form.
#[derive(Debug, Clone, Copy)]
struct Mode {
    round: Round,
    flush: bool,
    saturate: bool,
    relu: bool,
}

const PLAIN: Mode = Mode {
    round: Round::Nearest,
    flush: false,
    saturate: false,
    relu: false,
};

/// An exact sum of zeros, or of opposites, has the sign that the direction gives it.
fn signed_zero(value: f64, terms: [f64; 2], round: Round) -> f64 {
    if value != 0.0 {
        return value;
    }
    let [a, b] = terms.map(f64::is_sign_negative);
    if terms == [0.0, 0.0] && a == b {
        return if a { -0.0 } else { 0.0 };
    }
    if round == Round::Down { -0.0 } else { 0.0 }
}

/// One rounding at the end, with what the modifiers do before and after it.
fn finish(ty: Float, mode: Mode, value: f64) -> u64 {
    let bits = ty.put(value, mode.round);
    let bits = if mode.flush && !ty.get(bits).is_nan() {
        ty.flush(bits)
    } else {
        bits
    };
    let value = ty.get(bits);
    if mode.saturate {
        return if value.is_nan() || value <= 0.0 {
            0
        } else if value >= 1.0 {
            ty.put(1.0, Round::Nearest)
        } else {
            bits
        };
    }
    if mode.relu && !value.is_nan() && (value < 0.0 || bits == 1 << (ty.bits() - 1)) {
        return 0;
    }
    bits
}

/// Operands as the operation sees them.
fn seen(ty: Float, mode: Mode, raw: [u64; 3]) -> [f64; 3] {
    raw.map(|bits| {
        let bits = bits & mask(ty.bits());
        ty.get(if mode.flush { ty.flush(bits) } else { bits })
    })
}

type Exact = fn([f64; 3], Round) -> f64;

const ADD: Exact = |[a, b, _], round| signed_zero(sum(a, b), [a, b], round);
const SUB: Exact = |[a, b, _], round| signed_zero(sum(a, -b), [a, -b], round);
const MUL: Exact = |[a, b, _], _| a * b;
const FMA: Exact = |[a, b, c], round| {
    let product = a * b;
    if product.is_nan() || c.is_nan() {
        f64::NAN
    } else if product.is_infinite() {
        product + c
    } else {
        signed_zero(sum(product, c), [product, c], round)
    }
};

fn form(name: String, count: usize, ty: Float, mode: Mode, exact: Exact) -> Form {
    let list = ["%a", "%b", "%c"][..count].join(", ");
    let bits = ty.bits();
    Form {
        body: format!("{name} %q, {list};"),
        name,
        operands: [bits; 3],
        result: bits,
        values: [ty.values(), ty.values(), ty.values()],
        oracle: Box::new(move |raw| {
            let value = exact(seen(ty, mode, raw), mode.round);
            Expect::Bits(finish(ty, mode, value))
        }),
    }
}

/// A packed pair of a form.
fn pair(half: Form, name: String) -> Form {
    let body = half.body.replacen(&half.name, &name, 1);
    let pack = |values: &[u64]| -> Vec<u64> {
        (0..values.len())
            .map(|i| values[i] | values[(i * 5 + 3) % values.len()] << 16)
            .collect()
    };
    let values = [0, 1, 2].map(|operand: usize| pack(&half.values[operand]));
    let oracle = half.oracle;
    Form {
        name,
        body,
        operands: [32; 3],
        result: 32,
        values,
        oracle: Box::new(move |raw| {
            let low = oracle(raw.map(|bits| bits & 0xffff));
            let high = oracle(raw.map(|bits| bits >> 16 & 0xffff));
            match (low, high) {
                (Expect::Bits(low), Expect::Bits(high)) => Expect::Bits(low & 0xffff | high << 16),
                _ => Expect::Any,
            }
        }),
    }
}

fn single(forms: &mut Vec<Form>) {
    let operations: [(&str, usize, Exact, bool); 4] = [
        ("add", 2, ADD, true),
        ("sub", 2, SUB, true),
        ("mul", 2, MUL, true),
        ("fma", 3, FMA, false),
    ];
    for (name, count, exact, implicit) in operations {
        for flush in [false, true] {
            for saturate in [false, true] {
                let tail = format!(
                    "{}{}.f32",
                    if flush { ".ftz" } else { "" },
                    if saturate { ".sat" } else { "" }
                );
                for (word, round) in ROUNDS {
                    let mode = Mode {
                        round,
                        flush,
                        saturate,
                        relu: false,
                    };
                    forms.push(form(
                        format!("{name}.{word}{tail}"),
                        count,
                        F32,
                        mode,
                        exact,
                    ));
                }
                if implicit {
                    let mode = Mode {
                        flush,
                        saturate,
                        ..PLAIN
                    };
                    forms.push(form(format!("{name}{tail}"), count, F32, mode, exact));
                }
            }
        }
    }
    for flush in [false, true] {
        let ftz = if flush { ".ftz" } else { "" };
        for (word, round) in ROUNDS {
            let mode = Mode {
                round,
                flush,
                ..PLAIN
            };
            forms.push(form(
                format!("div.{word}{ftz}.f32"),
                2,
                F32,
                mode,
                |[a, b, _], _| quotient(a, b),
            ));
            forms.push(form(
                format!("rcp.{word}{ftz}.f32"),
                1,
                F32,
                mode,
                |[a, ..], _| quotient(1.0, a),
            ));
            forms.push(form(
                format!("sqrt.{word}{ftz}.f32"),
                1,
                F32,
                mode,
                |[a, ..], _| root(a),
            ));
        }
        let mode = Mode { flush, ..PLAIN };
        signs_and_extremes(forms, F32, "f32", mode, ftz);
    }
}

/// `neg`, `abs`, `min`, `max` with their modifiers.
fn signs_and_extremes(forms: &mut Vec<Form>, ty: Float, suffix: &str, mode: Mode, ftz: &str) {
    let top = 1u64 << (ty.bits() - 1);
    for name in ["neg", "abs"] {
        let mut one = form(format!("{name}{ftz}.{suffix}"), 1, ty, mode, |[a, ..], _| a);
        one.oracle = Box::new(move |[a, ..]| {
            let a = a & mask(ty.bits());
            if ty.get(a).is_nan() {
                // PTX does not say which NaN comes out.
                return Expect::Any;
            }
            let a = if mode.flush { ty.flush(a) } else { a };
            Expect::Bits(if name == "neg" { a ^ top } else { a & !top })
        });
        forms.push(one);
    }
    for name in ["min", "max"] {
        for nan in [false, true] {
            for xorsign in [false, true] {
                let words = format!(
                    "{name}{ftz}{}{}.{suffix}",
                    if nan { ".NaN" } else { "" },
                    if xorsign { ".xorsign.abs" } else { "" }
                );
                let mut two = form(words, 2, ty, mode, |[a, ..], _| a);
                let largest = name == "max";
                two.oracle = Box::new(move |[a, b, _]| {
                    let clean = |bits: u64| {
                        let bits = bits & mask(ty.bits());
                        if mode.flush && !ty.get(bits).is_nan() {
                            ty.flush(bits)
                        } else {
                            bits
                        }
                    };
                    let (a, b) = (clean(a), clean(b));
                    let sign = (a ^ b) & top;
                    let (x, y) = if xorsign {
                        (a & !top, b & !top)
                    } else {
                        (a, b)
                    };
                    let (xn, yn) = (ty.get(x).is_nan(), ty.get(y).is_nan());
                    if xn && yn || nan && (xn || yn) {
                        return Expect::Bits(ty.nan());
                    }
                    // -0 is below +0.
                    let key = |bits: u64| {
                        if bits & top == 0 {
                            bits as i64
                        } else {
                            -((bits & !top) as i64) - 1
                        }
                    };
                    let chosen = match (xn, yn) {
                        (true, _) => y,
                        (_, true) => x,
                        _ if (key(x) > key(y)) == largest => x,
                        _ => y,
                    };
                    Expect::Bits(if xorsign {
                        chosen & !top | sign
                    } else {
                        chosen
                    })
                });
                forms.push(two);
            }
        }
    }
}

/// A form of one half and the packed form of two.
fn both(forms: &mut Vec<Form>, ty: Float, make: &dyn Fn() -> Form) {
    let half = make();
    let name = half
        .name
        .replace(&format!(".{}", ty.name), &format!(".{}x2", ty.name));
    forms.push(pair(half, name));
    forms.push(make());
}

fn halves(forms: &mut Vec<Form>) {
    let operations: [(&str, usize, Exact, &[&str]); 4] = [
        ("add", 2, ADD, &["", ".rn"]),
        ("sub", 2, SUB, &["", ".rn"]),
        ("mul", 2, MUL, &["", ".rn"]),
        ("fma", 3, FMA, &[".rn"]),
    ];
    for ty in [F16, BF16] {
        let n = ty.name;
        let flushes: &[bool] = if n == "f16" { &[false, true] } else { &[false] };
        for &flush in flushes {
            let ftz = if flush { ".ftz" } else { "" };
            let mode = Mode { flush, ..PLAIN };
            for (name, count, exact, roundings) in operations {
                for rounding in roundings {
                    both(forms, ty, &|| {
                        form(format!("{name}{rounding}{ftz}.{n}"), count, ty, mode, exact)
                    });
                    if ty == F16 {
                        let mode = Mode {
                            saturate: true,
                            ..mode
                        };
                        both(forms, ty, &|| {
                            form(
                                format!("{name}{rounding}{ftz}.sat.{n}"),
                                count,
                                ty,
                                mode,
                                exact,
                            )
                        });
                    }
                }
            }
            let relu = Mode { relu: true, ..mode };
            both(forms, ty, &|| {
                form(format!("fma.rn{ftz}.relu.{n}"), 3, ty, relu, FMA)
            });
            let list = || {
                let mut list = Vec::new();
                signs_and_extremes(&mut list, ty, n, mode, ftz);
                list
            };
            for (one, half) in list().into_iter().zip(list()) {
                forms.push(one);
                let name = half.name.replace(&format!(".{n}"), &format!(".{n}x2"));
                forms.push(pair(half, name));
            }
        }
    }
}

/// Approximations of singles within the errors that the ISA gives.
fn approximations(forms: &mut Vec<Form>) {
    type Near = fn([f64; 3]) -> Expect;
    // Subnormal results are right to a few units of the least subnormal number.
    const LEAST: f64 = 1e-44;
    let list: [(&str, usize, Near); 10] = [
        ("div.approx", 2, |[a, b, _]| {
            let size = b.abs();
            if size == 0.0 || (size >= 2f64.powi(-126) && size <= 2f64.powi(126)) {
                Expect::Near(a / b, 2.5e-7, LEAST)
            } else {
                Expect::Any
            }
        }),
        ("div.full", 2, |[a, b, _]| {
            if b.is_infinite() || a.is_infinite() {
                Expect::Any
            } else {
                Expect::Near(a / b, 2.5e-7, LEAST)
            }
        }),
        ("rcp.approx", 1, |[a, ..]| {
            Expect::Near(1.0 / a, 1.2e-7, LEAST)
        }),
        ("sqrt.approx", 1, |[a, ..]| {
            Expect::Near(a.sqrt(), 1.3e-7, 0.0)
        }),
        ("rsqrt.approx", 1, |[a, ..]| {
            Expect::Near(1.0 / a.sqrt(), 1.3e-7, 0.0)
        }),
        ("lg2.approx", 1, |[a, ..]| {
            Expect::Near(a.log2(), 2.4e-7, 2.4e-7)
        }),
        ("ex2.approx", 1, |[a, ..]| {
            Expect::Near(a.exp2(), 2.4e-7, LEAST)
        }),
        ("sin.approx", 1, |[a, ..]| {
            if a.abs() < 3.1 {
                Expect::Near(a.sin(), 0.0, 6.8e-7)
            } else {
                Expect::Any
            }
        }),
        ("cos.approx", 1, |[a, ..]| {
            if a.abs() < 3.1 {
                Expect::Near(a.cos(), 0.0, 6.8e-7)
            } else {
                Expect::Any
            }
        }),
        ("tanh.approx", 1, |[a, ..]| {
            Expect::Near(a.tanh(), 4.9e-4, LEAST)
        }),
    ];
    for (name, count, near) in list {
        for flush in [false, true] {
            if name == "tanh.approx" && flush {
                continue;
            }
            let mode = Mode { flush, ..PLAIN };
            let mut one = form(
                format!("{name}{}.f32", if flush { ".ftz" } else { "" }),
                count,
                F32,
                mode,
                MUL,
            );
            one.oracle = Box::new(move |raw| match near(seen(F32, mode, raw)) {
                Expect::Near(value, relative, absolute) => {
                    // Tiny results become zeros where they are flushed.
                    let lost = if flush { 2f64.powi(-126) } else { 0.0 };
                    Expect::Near(
                        value,
                        relative,
                        absolute
                            + if value.abs() < lost * 1.001 {
                                lost
                            } else {
                                0.0
                            },
                    )
                }
                other => other,
            });
            forms.push(one);
        }
    }
}

/// Comparisons, sign copies and classes of floating-point numbers.
fn comparisons(forms: &mut Vec<Form>) {
    use std::cmp::Ordering::{Equal, Greater, Less};
    // Of numbers that cannot be compared one is NaN.
    type Compare = fn(Option<std::cmp::Ordering>) -> bool;
    let list: [(&str, Compare); 14] = [
        ("eq", |order| order == Some(Equal)),
        ("ne", |order| matches!(order, Some(Less | Greater))),
        ("lt", |order| order == Some(Less)),
        ("le", |order| matches!(order, Some(Less | Equal))),
        ("gt", |order| order == Some(Greater)),
        ("ge", |order| matches!(order, Some(Greater | Equal))),
        ("equ", |order| matches!(order, None | Some(Equal))),
        ("neu", |order| order != Some(Equal)),
        ("ltu", |order| matches!(order, None | Some(Less))),
        ("leu", |order| order != Some(Greater)),
        ("gtu", |order| matches!(order, None | Some(Greater))),
        ("geu", |order| order != Some(Less)),
        ("num", |order| order.is_some()),
        ("nan", |order| order.is_none()),
    ];
    for (word, compare) in list {
        for (ty, flush) in [(F32, false), (F32, true), (F16, false), (BF16, false)] {
            let ftz = if flush { ".ftz" } else { "" };
            let n = ty.name;
            let mode = Mode { flush, ..PLAIN };
            let mut add = |name: String, body: String, one: u64| {
                forms.push(Form {
                    result: 32,
                    body,
                    oracle: Box::new(move |raw| {
                        let [a, b, _] = seen(ty, mode, raw);
                        Expect::Bits(if compare(a.partial_cmp(&b)) { one } else { 0 })
                    }),
                    ..form(name, 2, ty, mode, MUL)
                });
            };
            let setp = format!("setp.{word}{ftz}.{n}");
            add(
                setp.clone(),
                format!("{setp} %p1, %a, %b;\nselp.b32 %q, 1, 0, %p1;"),
                1,
            );
            if n == "f32" {
                let set = format!("set.{word}{ftz}.u32.{n}");
                add(set.clone(), format!("{set} %q, %a, %b;"), mask(32));
                let set = format!("set.{word}{ftz}.f32.{n}");
                add(
                    set.clone(),
                    format!("{set} %q, %a, %b;"),
                    u64::from(1f32.to_bits()),
                );
            }
        }
        let values: Vec<u64> = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1e300,
        ]
        .map(f64::to_bits)
        .to_vec();
        forms.push(Form {
            name: format!("setp.{word}.f64"),
            body: format!("setp.{word}.f64 %p1, %a, %b;\nselp.b32 %q, 1, 0, %p1;"),
            operands: [64; 3],
            result: 32,
            values: [values.clone(), values.clone(), values],
            oracle: Box::new(move |[a, b, _]| {
                Expect::Bits(u64::from(compare(
                    f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
                )))
            }),
        });
    }
    type Class = fn(f32) -> bool;
    let classes: [(&str, Class); 6] = [
        ("finite", |a| a.is_finite()),
        ("infinite", |a| a.is_infinite()),
        ("number", |a| !a.is_nan()),
        ("notanumber", |a| a.is_nan()),
        ("normal", |a| a.is_normal()),
        ("subnormal", |a| a.is_subnormal()),
    ];
    for (word, class) in classes {
        let name = format!("testp.{word}.f32");
        forms.push(Form {
            body: format!("{name} %p1, %a;\nselp.b32 %q, 1, 0, %p1;"),
            oracle: Box::new(move |[a, ..]| {
                Expect::Bits(u64::from(class(f32::from_bits(a as u32))))
            }),
            ..form(name, 1, F32, PLAIN, MUL)
        });
    }
    let mut copy = form("copysign.f32".to_owned(), 2, F32, PLAIN, MUL);
    // The sign is that of the first operand.
    copy.oracle = Box::new(|[a, b, _]| Expect::Bits(b & mask(31) | a & 1 << 31));
    forms.push(copy);
}

pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    single(&mut forms);
    halves(&mut forms);
    approximations(&mut forms);
    super::doubles::add_forms(&mut forms);
    comparisons(&mut forms);
    forms
}
