//! `cvt` between every pair of types, with every rounding that the ISA gives it.

use super::number::{
    BF16, F16, F32, Float, Int, ROUNDS, Round, S8, S16, S32, S64, U8, U16, U32, U64,
};
use super::{Expect, Form, mask};

const INTS: [Int; 8] = [U8, S8, U16, S16, U32, S32, U64, S64];

/// Bits of the register that holds a type; bytes are in the low half of a short one.
fn register(bits: u32) -> u32 {
    bits.max(16)
}

fn integers(forms: &mut Vec<Form>) {
    for from in INTS {
        for to in INTS {
            for saturate in [false, true] {
                let name = format!(
                    "cvt{}.{}.{}",
                    if saturate { ".sat" } else { "" },
                    to.name,
                    from.name
                );
                let result = register(to.bits);
                forms.push(Form {
                    body: format!("{name} %q, %a;"),
                    name,
                    operands: [register(from.bits); 3],
                    result,
                    values: [from.values(), vec![0], vec![0]],
                    oracle: Box::new(move |[a, ..]| {
                        let value = from.get(a);
                        let value = if saturate {
                            value.clamp(to.lowest(), to.highest())
                        } else {
                            value
                        };
                        // The register holds the value extended by its own sign.
                        Expect::Bits(to.get(to.put(value)) as u64 & mask(result))
                    }),
                });
            }
        }
    }
}

const WHOLE: [(&str, Round); 4] = [
    ("rni", Round::Nearest),
    ("rzi", Round::Zero),
    ("rmi", Round::Down),
    ("rpi", Round::Up),
];

fn whole(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

/// Converts a floating-point number to an integer type: the nearest value of the type; NaN by the ISA's table.
fn to_int(value: f64, to: Int, wide_source: bool) -> u64 {
    if value.is_nan() {
        let zero = !wide_source && to.bits < 64;
        return if zero { 0 } else { 1 << (to.bits - 1) };
    }
    to.put((value as i128).clamp(to.lowest(), to.highest()))
}

fn floats_to_integers(forms: &mut Vec<Form>) {
    for to in [U16, S16, U32, S32, U64, S64] {
        for (word, round) in WHOLE {
            for from in [F32, F16] {
                for flush in [false, true] {
                    if flush && from != F32 {
                        continue;
                    }
                    let name = format!(
                        "cvt.{word}{}.{}.{}",
                        if flush { ".ftz" } else { "" },
                        to.name,
                        from.name
                    );
                    forms.push(Form {
                        body: format!("{name} %q, %a;"),
                        name,
                        operands: [from.bits(); 3],
                        result: to.bits,
                        values: [from.values(), vec![0], vec![0]],
                        oracle: Box::new(move |[a, ..]| {
                            let a = if flush { from.flush(a) } else { a };
                            Expect::Bits(to_int(whole(from.get(a), round), to, false))
                        }),
                    });
                }
            }
            let name = format!("cvt.{word}.{}.f64", to.name);
            forms.push(Form {
                body: format!("{name} %q, %a;"),
                name,
                operands: [64; 3],
                result: to.bits,
                values: [doubles(), vec![0], vec![0]],
                oracle: Box::new(move |[a, ..]| {
                    Expect::Bits(to_int(whole(f64::from_bits(a), round), to, true))
                }),
            });
        }
    }
}

fn doubles() -> Vec<u64> {
    [
        0.0, 0.5, 1.0, 1.5, 2.5, 2.7, 100.0, 65504.0, 65520.0, 1e-5, 1e-8, 1e-40, 1e-46, 3e9, 1e19,
        1e30, 3.4e38, 1e300,
    ]
    .into_iter()
    .chain([
        f64::INFINITY,
        f64::NAN,
        1.0 + f64::EPSILON,
        16_777_217.0,
        0.1,
    ])
    .flat_map(|value: f64| [value.to_bits(), (-value).to_bits()])
    .collect()
}

/// The nearest double of an integer with what it leaves as an odd digit, so that it may be rounded again.
fn odd(value: i128) -> f64 {
    let near = value as f64;
    super::number::to_odd(near, (value - near as i128) as f64)
}

fn integers_to_floats(forms: &mut Vec<Form>) {
    for from in [U16, S16, U32, S32, U64, S64] {
        for (word, round) in ROUNDS {
            for to in [F32, F16] {
                let name = format!("cvt.{word}.{}.{}", to.name, from.name);
                forms.push(Form {
                    body: format!("{name} %q, %a;"),
                    name,
                    operands: [from.bits; 3],
                    result: to.bits(),
                    values: [from.values(), vec![0], vec![0]],
                    oracle: Box::new(move |[a, ..]| Expect::Bits(to.put(odd(from.get(a)), round))),
                });
            }
            let name = format!("cvt.{word}.f64.{}", from.name);
            forms.push(Form {
                body: format!("{name} %q, %a;"),
                name,
                operands: [from.bits; 3],
                result: 64,
                values: [from.values(), vec![0], vec![0]],
                oracle: Box::new(move |[a, ..]| {
                    let value = from.get(a);
                    let near = value as f64;
                    let rest = value - near as i128;
                    let result = match round {
                        Round::Down if rest < 0 => near.next_down(),
                        Round::Up if rest > 0 => near.next_up(),
                        Round::Zero if rest < 0 && near > 0.0 => near.next_down(),
                        Round::Zero if rest > 0 && near < 0.0 => near.next_up(),
                        _ => near,
                    };
                    Expect::Bits(result.to_bits())
                }),
            });
        }
    }
}

/// NaN stays NaN; which one is left open where only the width changes.
fn number(to: Float, value: f64, round: Round) -> Expect {
    if value.is_nan() {
        Expect::Any
    } else {
        Expect::Bits(to.put(value, round))
    }
}

fn floats_to_floats(forms: &mut Vec<Form>) {
    for (word, round) in ROUNDS {
        for flush in [false, true] {
            for saturate in [false, true] {
                let tail = format!(
                    "{}{}",
                    if flush { ".ftz" } else { "" },
                    if saturate { ".sat" } else { "" }
                );
                let name = format!("cvt.{word}{tail}.f32.f64");
                forms.push(Form {
                    body: format!("{name} %q, %a;"),
                    name,
                    operands: [64; 3],
                    result: 32,
                    values: [doubles(), vec![0], vec![0]],
                    oracle: Box::new(move |[a, ..]| {
                        let value = f64::from_bits(a);
                        if saturate && value.is_nan() {
                            return Expect::Bits(0);
                        }
                        let value = if saturate {
                            value.clamp(0.0, 1.0) + 0.0
                        } else {
                            value
                        };
                        match number(F32, value, round) {
                            Expect::Bits(bits) if flush => Expect::Bits(F32.flush(bits)),
                            other => other,
                        }
                    }),
                });
            }
        }
        let mut narrow = |name: String, to: Float, from: Float| {
            forms.push(Form {
                body: format!("{name} %q, %a;"),
                name,
                operands: [from.bits(); 3],
                result: to.bits(),
                values: [from.values(), vec![0], vec![0]],
                oracle: Box::new(move |[a, ..]| number(to, from.get(a & mask(from.bits())), round)),
            });
        };
        if matches!(round, Round::Nearest | Round::Zero) {
            narrow(format!("cvt.{word}.f16.f32"), F16, F32);
            narrow(format!("cvt.{word}.bf16.f32"), BF16, F32);
            for to in [F16, BF16] {
                let name = format!("cvt.{word}.{}x2.f32", to.name);
                forms.push(Form {
                    body: format!("{name} %q, %a, %b;"),
                    name,
                    operands: [32; 3],
                    result: 32,
                    values: [F32.values(), F32.values(), vec![0]],
                    oracle: Box::new(move |[a, b, _]| {
                        let (high, low) = (F32.get(a & mask(32)), F32.get(b & mask(32)));
                        if high.is_nan() || low.is_nan() {
                            return Expect::Any;
                        }
                        Expect::Bits(to.put(high, round) << 16 | to.put(low, round))
                    }),
                });
            }
        }
    }
    for (name, to, from) in [("cvt.f32.f16", F32, F16), ("cvt.f32.bf16", F32, BF16)] {
        forms.push(Form {
            name: name.to_owned(),
            body: format!("{name} %q, %a;"),
            operands: [from.bits(); 3],
            result: to.bits(),
            values: [from.values(), vec![0], vec![0]],
            oracle: Box::new(move |[a, ..]| number(to, from.get(a & mask(16)), Round::Nearest)),
        });
    }
    forms.push(Form {
        name: "cvt.f64.f32".to_owned(),
        body: "cvt.f64.f32 %q, %a;".to_owned(),
        operands: [32; 3],
        result: 64,
        values: [F32.values(), vec![0], vec![0]],
        oracle: Box::new(|[a, ..]| {
            let value = F32.get(a & mask(32));
            if value.is_nan() {
                Expect::Any
            } else {
                Expect::Bits(value.to_bits())
            }
        }),
    });
    for (word, round) in WHOLE {
        for ty in [F32, F16] {
            let n = ty.name;
            forms.push(Form {
                name: format!("cvt.{word}.{n}.{n}"),
                body: format!("cvt.{word}.{n}.{n} %q, %a;"),
                operands: [ty.bits(); 3],
                result: ty.bits(),
                values: [ty.values(), vec![0], vec![0]],
                oracle: Box::new(move |[a, ..]| {
                    number(
                        ty,
                        whole(ty.get(a & mask(ty.bits())), round),
                        Round::Nearest,
                    )
                }),
            });
        }
        forms.push(Form {
            name: format!("cvt.{word}.f64.f64"),
            body: format!("cvt.{word}.f64.f64 %q, %a;"),
            operands: [64; 3],
            result: 64,
            values: [doubles(), vec![0], vec![0]],
            oracle: Box::new(move |[a, ..]| {
                let value = f64::from_bits(a);
                if value.is_nan() {
                    Expect::Any
                } else {
                    Expect::Bits(whole(value, round).to_bits())
                }
            }),
        });
    }
}

pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    integers(&mut forms);
    floats_to_integers(&mut forms);
    integers_to_floats(&mut forms);
    floats_to_floats(&mut forms);
    forms
}
