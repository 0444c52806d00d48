//! Integer arithmetic, bits, comparisons of integers, selections.

use super::number::{Int, S8, S16, S32, S64, U8, U16, U32, U64};
use super::{Expect, Form, mask};

const TYPES: [Int; 6] = [U16, S16, U32, S32, U64, S64];

/// A form whose three operands have one type.
fn plain(
    name: String,
    count: usize,
    ty: Int,
    result: u32,
    f: impl Fn([i128; 3]) -> Option<i128> + 'static,
) -> Form {
    let list = ["%a", "%b", "%c"][..count].join(", ");
    Form {
        body: format!("{name} %q, {list};"),
        name,
        operands: [ty.bits; 3],
        result,
        values: [ty.values(), ty.values(), ty.values()],
        oracle: Box::new(move |raw| match f(raw.map(|bits| ty.get(bits))) {
            Some(value) => Expect::Bits(value as u64 & mask(result)),
            None => Expect::Any,
        }),
    }
}

/// The same on bare bits.
fn bare(
    name: String,
    body: String,
    operands: [u32; 3],
    result: u32,
    f: impl Fn([u64; 3]) -> u64 + 'static,
) -> Form {
    let of = |bits: u32| match bits {
        16 => U16.values(),
        32 => U32.values(),
        _ => U64.values(),
    };
    Form {
        name,
        body,
        operands,
        result,
        values: operands.map(of),
        oracle: Box::new(move |raw| Expect::Bits(f(raw))),
    }
}

/// The middle 24 bits by 24 bits, as `mul24` takes them.
fn low24(ty: Int, value: i128) -> i128 {
    let bits = value & 0xff_ffff;
    if ty.signed && bits >> 23 & 1 == 1 {
        bits - (1 << 24)
    } else {
        bits
    }
}

fn arithmetic(forms: &mut Vec<Form>) {
    for ty in TYPES {
        let (n, w) = (ty.name, ty.bits);
        let mut add = |name: String, count, result, f: fn(Int, [i128; 3]) -> Option<i128>| {
            forms.push(plain(name, count, ty, result, move |v| f(ty, v)));
        };
        add(format!("add.{n}"), 2, w, |_, [a, b, _]| Some(a + b));
        add(format!("sub.{n}"), 2, w, |_, [a, b, _]| Some(a - b));
        add(format!("mul.lo.{n}"), 2, w, |_, [a, b, _]| {
            Some(a.wrapping_mul(b))
        });
        add(format!("mul.hi.{n}"), 2, w, |ty, [a, b, _]| {
            // Products of 64 unsigned bits use all of an u128.
            Some(if ty.signed {
                (a * b) >> ty.bits
            } else {
                ((a as u128 * b as u128) >> ty.bits) as i128
            })
        });
        add(format!("mad.lo.{n}"), 3, w, |_, [a, b, c]| {
            Some(a.wrapping_mul(b).wrapping_add(c))
        });
        add(format!("mad.hi.{n}"), 3, w, |ty, [a, b, c]| {
            let high = if ty.signed {
                (a * b) >> ty.bits
            } else {
                ((a as u128 * b as u128) >> ty.bits) as i128
            };
            Some(high + c)
        });
        add(format!("min.{n}"), 2, w, |_, [a, b, _]| Some(a.min(b)));
        add(format!("max.{n}"), 2, w, |_, [a, b, _]| Some(a.max(b)));
        add(format!("sad.{n}"), 3, w, |_, [a, b, c]| {
            Some(c + (a - b).abs())
        });
        // The ISA leaves a division by zero open; the quotient of the lowest number by -1 is out of range.
        add(format!("div.{n}"), 2, w, |ty, [a, b, _]| {
            (b != 0 && !(ty.signed && a == ty.lowest() && b == -1)).then(|| a / b)
        });
        add(format!("rem.{n}"), 2, w, |ty, [a, b, _]| {
            (b != 0 && !(ty.signed && a == ty.lowest() && b == -1)).then(|| a % b)
        });
        if ty.signed {
            add(format!("abs.{n}"), 1, w, |_, [a, ..]| Some(a.abs()));
            add(format!("neg.{n}"), 1, w, |_, [a, ..]| Some(-a));
        }
        if w < 64 {
            add(format!("mul.wide.{n}"), 2, 2 * w, |_, [a, b, _]| {
                Some(a * b)
            });
            let wide = Int {
                name: "",
                bits: 2 * w,
                signed: ty.signed,
            };
            forms.push(Form {
                name: format!("mad.wide.{n}"),
                body: format!("mad.wide.{n} %q, %a, %b, %c;"),
                operands: [w, w, 2 * w],
                result: 2 * w,
                values: [ty.values(), ty.values(), wide.values()],
                oracle: Box::new(move |[a, b, c]| {
                    Expect::Bits(wide.put(ty.get(a) * ty.get(b) + wide.get(c)))
                }),
            });
        }
        let amount = |raw: u64| (raw & mask(32)).min(200) as u32;
        forms.push(Form {
            operands: [w, 32, 32],
            values: [ty.values(), U32.values(), U32.values()],
            ..bare(
                format!("shr.{n}"),
                format!("shr.{n} %q, %a, %b;"),
                [w, 32, 32],
                w,
                move |[a, b, _]| ty.put(ty.get(a) >> amount(b).min(100)),
            )
        });
    }
    for ty in [U32, S32] {
        let n = ty.name;
        let mut add = |name: &str, count, f: fn(Int, [i128; 3]) -> i128| {
            forms.push(plain(format!("{name}.{n}"), count, ty, 32, move |v| {
                Some(f(ty, v))
            }));
        };
        add("mul24.lo", 2, |ty, [a, b, _]| low24(ty, a) * low24(ty, b));
        add("mul24.hi", 2, |ty, [a, b, _]| {
            (low24(ty, a) * low24(ty, b)) >> 16
        });
        add("mad24.lo", 3, |ty, [a, b, c]| {
            low24(ty, a) * low24(ty, b) + c
        });
        add("mad24.hi", 3, |ty, [a, b, c]| {
            ((low24(ty, a) * low24(ty, b)) >> 16) + c
        });
    }
    let mut saturating = |name: &str, count, f: fn([i128; 3]) -> i128| {
        forms.push(plain(format!("{name}.s32"), count, S32, 32, move |v| {
            Some(f(v).clamp(S32.lowest(), S32.highest()))
        }));
    };
    saturating("add.sat", 2, |[a, b, _]| a + b);
    saturating("sub.sat", 2, |[a, b, _]| a - b);
    saturating("mad.hi.sat", 3, |[a, b, c]| ((a * b) >> 32) + c);
    saturating("mad24.hi.sat", 3, |[a, b, c]| {
        ((low24(S32, a) * low24(S32, b)) >> 16) + c
    });
    for a_ty in [U32, S32] {
        for b_ty in [U32, S32] {
            let part = |ty: Int, bits: u32| match (bits, ty.signed) {
                (8, true) => S8,
                (8, false) => U8,
                (_, true) => S16,
                (_, false) => U16,
            };
            let names = format!("{}.{}", a_ty.name, b_ty.name);
            let out = if a_ty.signed || b_ty.signed { S32 } else { U32 };
            let of = |name: &str| format!("{name}.{names} %q, %a, %b, %c;");
            forms.push(bare(
                format!("dp4a.{names}"),
                of("dp4a"),
                [32; 3],
                32,
                move |[a, b, c]| {
                    let products = (0..4)
                        .map(|i| part(a_ty, 8).get(a >> (8 * i)) * part(b_ty, 8).get(b >> (8 * i)));
                    out.put(products.sum::<i128>() + out.get(c))
                },
            ));
            for (opcode, lanes, width) in [("vabsdiff2", 2, 16u32), ("vabsdiff4", 4, 8)] {
                if a_ty.signed != b_ty.signed {
                    continue;
                }
                let distances = move |a: u64, b: u64| {
                    (0..lanes).map(move |i| {
                        let at = |word: u64| part(a_ty, width).get(word >> (i * width));
                        (at(a) - at(b)).unsigned_abs() as u64
                    })
                };
                let name = format!("{opcode}.u32.{names}");
                let text = format!("{name} %q, %a, %b, %c;");
                forms.push(bare(name.clone(), text, [32; 3], 32, move |[a, b, _]| {
                    let parts = distances(a, b).enumerate();
                    parts.fold(0, |word, (i, distance)| {
                        word | distance << (i as u32 * width)
                    })
                }));
                let name = format!("{name}.add");
                let text = format!("{name} %q, %a, %b, %c;");
                forms.push(bare(name, text, [32; 3], 32, move |[a, b, c]| {
                    (distances(a, b).sum::<u64>() + c) & mask(32)
                }));
            }
            for (half, shift) in [("lo", 0), ("hi", 16)] {
                let name = format!("dp2a.{half}");
                forms.push(bare(
                    format!("{name}.{names}"),
                    of(&name),
                    [32; 3],
                    32,
                    move |[a, b, c]| {
                        let products = (0..2).map(|i| {
                            part(a_ty, 16).get(a >> (16 * i))
                                * part(b_ty, 8).get(b >> (shift + 8 * i))
                        });
                        out.put(products.sum::<i128>() + out.get(c))
                    },
                ));
            }
        }
    }
}

fn bits(forms: &mut Vec<Form>) {
    for w in [16u32, 32, 64] {
        let mut two = |name: &str, f: fn(u64, u64) -> u64| {
            let name = format!("{name}.b{w}");
            forms.push(bare(
                name.clone(),
                format!("{name} %q, %a, %b;"),
                [w, w, w],
                w,
                move |[a, b, _]| f(a, b) & mask(w),
            ));
        };
        two("and", |a, b| a & b);
        two("or", |a, b| a | b);
        two("xor", |a, b| a ^ b);
        let mut one = |name: &str, f: fn(u64) -> u64| {
            let name = format!("{name}.b{w}");
            forms.push(bare(
                name.clone(),
                format!("{name} %q, %a;"),
                [w, w, w],
                w,
                move |[a, ..]| f(a & mask(w)) & mask(w),
            ));
        };
        one("not", |a| !a);
        one("cnot", |a| u64::from(a == 0));
        forms.push(bare(
            format!("shl.b{w}"),
            format!("shl.b{w} %q, %a, %b;"),
            [w, 32, 32],
            w,
            move |[a, b, _]| {
                if b >= u64::from(w) {
                    0
                } else {
                    a << b & mask(w)
                }
            },
        ));
        forms.push(bare(
            format!("shr.b{w}"),
            format!("shr.b{w} %q, %a, %b;"),
            [w, 32, 32],
            w,
            move |[a, b, _]| {
                if b >= u64::from(w) {
                    0
                } else {
                    (a & mask(w)) >> b
                }
            },
        ));
        forms.push(bare(
            format!("selp.b{w}"),
            format!("setp.lt.s32 %p1, %c, 0;\nselp.b{w} %q, %a, %b, %p1;"),
            [w, w, 32],
            w,
            |[a, b, c]| if S32.get(c) < 0 { a } else { b },
        ));
        forms.push(bare(
            format!("slct.b{w}.s32"),
            format!("slct.b{w}.s32 %q, %a, %b, %c;"),
            [w, w, 32],
            w,
            |[a, b, c]| if S32.get(c) >= 0 { a } else { b },
        ));
        forms.push(bare(
            format!("slct.b{w}.f32"),
            format!("slct.b{w}.f32 %q, %a, %b, %c;"),
            [w, w, 32],
            w,
            |[a, b, c]| {
                if f32::from_bits(c as u32) >= 0.0 {
                    a
                } else {
                    b
                }
            },
        ));
    }
    for w in [32u32, 64] {
        let mut one = |name: &str, result: u32, f: Box<dyn Fn(u64) -> u64>| {
            let name = format!("{name}.b{w}");
            forms.push(bare(
                name.clone(),
                format!("{name} %q, %a;"),
                [w, w, w],
                result,
                move |[a, ..]| f(a & mask(w)),
            ));
        };
        one("popc", 32, Box::new(|a| u64::from(a.count_ones())));
        one(
            "clz",
            32,
            Box::new(move |a| u64::from(a.leading_zeros() - (64 - w))),
        );
        one("brev", w, Box::new(move |a| a.reverse_bits() >> (64 - w)));
        forms.push(bare(
            format!("bfi.b{w}"),
            format!("bfi.b{w} %q, %a, %b, 5, 12;"),
            [w, w, 32],
            w,
            |[a, b, _]| b & !(0xfff << 5) | (a & 0xfff) << 5,
        ));
        let c = if w == 32 { "%c" } else { "%r9" };
        let narrow = if w == 32 {
            String::new()
        } else {
            "cvt.u32.u64 %r9, %c;\n".to_owned()
        };
        forms.push(bare(
            format!("bfi.b{w} by registers"),
            format!("{narrow}and.b32 %r10, {c}, 255;\nshr.u32 %r11, {c}, 8;\nand.b32 %r11, %r11, 255;\nbfi.b{w} %q, %a, %b, %r10, %r11;"),
            [w, w, w],
            w,
            move |[a, b, c]| {
                let (from, count) = ((c & 255) as u32, (c >> 8 & 255) as u32);
                (0..w).fold(0, |all, bit| {
                    let taken = bit >= from && bit < from + count;
                    let source = if taken { a >> (bit - from) } else { b >> bit };
                    all | (source & 1) << bit
                })
            },
        ));
    }
    for ty in [U32, S32, U64, S64] {
        let (n, w) = (ty.name, ty.bits);
        let found = move |a: u64| {
            let a = a & mask(w);
            // Of a negative number the highest zero counts.
            let looked = if ty.signed && ty.get(a) < 0 {
                !a & mask(w)
            } else {
                a
            };
            (looked != 0).then(|| 63 - looked.leading_zeros())
        };
        forms.push(bare(
            format!("bfind.{n}"),
            format!("bfind.{n} %q, %a;"),
            [w, w, w],
            32,
            move |[a, ..]| found(a).map_or(mask(32), u64::from),
        ));
        forms.push(bare(
            format!("bfind.shiftamt.{n}"),
            format!("bfind.shiftamt.{n} %q, %a;"),
            [w, w, w],
            32,
            move |[a, ..]| found(a).map_or(mask(32), |at| u64::from(w - 1 - at)),
        ));
        let c = if w == 32 { "%b" } else { "%r9" };
        let narrow = if w == 32 {
            String::new()
        } else {
            "cvt.u32.u64 %r9, %b;\n".to_owned()
        };
        forms.push(bare(
            format!("bfe.{n}"),
            format!("{narrow}and.b32 %r10, {c}, 255;\nshr.u32 %r11, {c}, 8;\nand.b32 %r11, %r11, 255;\nbfe.{n} %q, %a, %r10, %r11;"),
            [w, w, w],
            w,
            move |[a, b, _]| {
                let (from, count) = ((b & 255) as u32, (b >> 8 & 255) as u32);
                let bit = |at: u32| a >> at & 1;
                // The sign is the field's last bit, or the number's where the field goes beyond it.
                let sign = if !ty.signed || count == 0 { 0 } else { bit((from + count - 1).min(w - 1)) };
                (0..w).fold(0, |all, at| {
                    let inside = at < count && from + at < w;
                    all | (if inside { bit(from + at) } else { sign }) << at
                })
            },
        ));
    }
    for (mode, clamp) in [("wrap", false), ("clamp", true)] {
        let amount = move |c: u64| {
            if clamp {
                c.min(32) as u32
            } else {
                (c & 31) as u32
            }
        };
        let both = |a: u64, b: u64| (b & mask(32)) << 32 | a & mask(32);
        let of = |side: &str| format!("shf.{side}.{mode}.b32");
        forms.push(bare(
            of("l"),
            format!("{} %q, %a, %b, %c;", of("l")),
            [32; 3],
            32,
            move |[a, b, c]| (u128::from(both(a, b)) << amount(c) >> 32) as u64 & mask(32),
        ));
        forms.push(bare(
            of("r"),
            format!("{} %q, %a, %b, %c;", of("r")),
            [32; 3],
            32,
            move |[a, b, c]| both(a, b) >> amount(c) & mask(32),
        ));
        forms.push(bare(
            format!("bmsk.{mode}.b32"),
            format!("bmsk.{mode}.b32 %q, %a, %b;"),
            [32; 3],
            32,
            move |[a, b, _]| {
                let (from, count) = if clamp {
                    (a.min(32), b.min(32))
                } else {
                    (a & 31, b & 31)
                };
                (((1u128 << count) - 1) << from) as u64 & mask(32)
            },
        ));
    }
    for ty in [U32, S32] {
        for (mode, clamp) in [("clamp", true), ("wrap", false)] {
            let name = format!("szext.{mode}.{}", ty.name);
            let text = format!("{name} %q, %a, %b;");
            forms.push(bare(name, text, [32; 3], 32, move |[a, b, _]| {
                let count = if clamp { b.min(32) } else { b & 31 };
                let low = (0..count).fold(0, |bits, at| bits | (a >> at & 1) << at);
                let negative = ty.signed && count > 0 && a >> (count - 1) & 1 == 1;
                let above = (count..32).fold(0, |bits, at| bits | 1 << at);
                if negative { low | above } else { low }
            }));
        }
    }
    for table in [0x00u64, 0x80, 0xe8, 0x96, 0xca, 0xff, 0x1e] {
        forms.push(bare(
            format!("lop3.b32 {table:#x}"),
            format!("lop3.b32 %q, %a, %b, %c, {table};"),
            [32; 3],
            32,
            move |[a, b, c]| {
                (0..32).fold(0, |all, bit| {
                    let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1;
                    all | (table >> index & 1) << bit
                })
            },
        ));
    }
    prmt(forms);
}

fn prmt(forms: &mut Vec<Form>) {
    type Pick = fn(u64) -> [u64; 4];
    let modes: [(&str, Option<Pick>); 7] = [
        ("", None),
        (".f4e", Some(|c| std::array::from_fn(|i| c + i as u64))),
        (
            ".b4e",
            Some(|c| std::array::from_fn(|i| (c + 8 - i as u64) % 8)),
        ),
        (".rc8", Some(|c| [c; 4])),
        (".ecl", Some(|c| std::array::from_fn(|i| c.max(i as u64)))),
        (".ecr", Some(|c| std::array::from_fn(|i| c.min(i as u64)))),
        (
            ".rc16",
            Some(|c| std::array::from_fn(|i| c % 2 * 2 + i as u64 % 2)),
        ),
    ];
    for (mode, pick) in modes {
        let name = format!("prmt.b32{mode}");
        forms.push(bare(
            name.clone(),
            format!("{name} %q, %a, %b, %c;"),
            [32; 3],
            32,
            move |[a, b, c]| {
                let bytes = (b & mask(32)) << 32 | a & mask(32);
                (0..4).fold(0, |all, i| {
                    let (at, replicate) = match pick {
                        Some(pick) => (pick(c & 3)[i], false),
                        None => (c >> (4 * i) & 7, c >> (4 * i + 3) & 1 == 1),
                    };
                    let byte = bytes >> (8 * at) & 0xff;
                    let byte = if replicate {
                        if byte >> 7 == 1 { 0xff } else { 0 }
                    } else {
                        byte
                    };
                    all | byte << (8 * i)
                })
            },
        ));
    }
}

fn comparisons(forms: &mut Vec<Form>) {
    type Compare = fn(i128, i128) -> bool;
    let signed: [(&str, Compare); 6] = [
        ("eq", |a, b| a == b),
        ("ne", |a, b| a != b),
        ("lt", |a, b| a < b),
        ("le", |a, b| a <= b),
        ("gt", |a, b| a > b),
        ("ge", |a, b| a >= b),
    ];
    let unsigned: [(&str, Compare); 4] = [
        ("lo", |a, b| a < b),
        ("ls", |a, b| a <= b),
        ("hi", |a, b| a > b),
        ("hs", |a, b| a >= b),
    ];
    for ty in TYPES {
        let (n, w) = (ty.name, ty.bits);
        let more: &[(&str, Compare)] = if ty.signed { &[] } else { &unsigned };
        for (word, compare) in signed.iter().chain(more) {
            let (word, compare) = (*word, *compare);
            let mut add = |name: String, body: String, f: fn(bool, u64) -> u64| {
                forms.push(Form {
                    operands: [w, w, 32],
                    values: [ty.values(), ty.values(), vec![0, 1]],
                    ..bare(name, body, [w, w, 32], 32, move |[a, b, c]| {
                        f(compare(ty.get(a), ty.get(b)), c & 1)
                    })
                });
            };
            let other = "and.b32 %r9, %c, 1;\nsetp.eq.u32 %p3, %r9, 1;\n";
            add(
                format!("setp.{word}.{n}"),
                format!("setp.{word}.{n} %p1, %a, %b;\nselp.b32 %q, 1, 0, %p1;"),
                |t, _| u64::from(t),
            );
            add(
                format!("setp.{word}.{n} p|q"),
                format!("setp.{word}.{n} %p1|%p2, %a, %b;\nselp.b32 %q, 1, 0, %p2;"),
                |t, _| u64::from(!t),
            );
            for (combine, f) in [
                (
                    "and",
                    (|t, c| u64::from(t && c == 1)) as fn(bool, u64) -> u64,
                ),
                ("or", |t, c| u64::from(t || c == 1)),
                ("xor", |t, c| u64::from(t != (c == 1))),
            ] {
                add(
                    format!("setp.{word}.{combine}.{n}"),
                    format!(
                        "{other}setp.{word}.{combine}.{n} %p1, %a, %b, %p3;\nselp.b32 %q, 1, 0, %p1;"
                    ),
                    f,
                );
            }
            add(
                format!("set.{word}.u32.{n}"),
                format!("set.{word}.u32.{n} %q, %a, %b;"),
                |t, _| if t { mask(32) } else { 0 },
            );
            add(
                format!("set.{word}.s32.{n}"),
                format!("set.{word}.s32.{n} %q, %a, %b;"),
                |t, _| if t { mask(32) } else { 0 },
            );
            add(
                format!("set.{word}.f32.{n}"),
                format!("set.{word}.f32.{n} %q, %a, %b;"),
                |t, _| {
                    if t { u64::from(1f32.to_bits()) } else { 0 }
                },
            );
        }
    }
}

pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    arithmetic(&mut forms);
    bits(&mut forms);
    comparisons(&mut forms);
    forms
}
