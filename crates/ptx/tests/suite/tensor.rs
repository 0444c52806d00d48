//! Every shape and format of `mma.sync` against the PTX ISA: the layouts of its fragments are written here once more,
//! as the ISA words them, and the product is worked out element by element.

use crate::support::{Arg, Device, kernel, kinds};
use corpus::Noise;
use ptx::Fragments;
use ptx::report::Outcome;

/// A number format: its name, its bits, and the value of a pattern.
#[derive(Clone, Copy)]
struct Format {
    name: &'static str,
    bits: u32,
    value: fn(u64) -> f64,
}

fn float(bits: u64, exponent: u32, mantissa: u32) -> f64 {
    let bias = (1i32 << (exponent - 1)) - 1;
    let fraction = (bits & ((1 << mantissa) - 1)) as f64 / f64::from(1u32 << mantissa);
    let field = (bits >> mantissa) as i32 & ((1 << exponent) - 1);
    let magnitude = if field == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(field - bias)
    };
    if bits >> (mantissa + exponent) & 1 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

const F16: Format = Format {
    name: "f16",
    bits: 16,
    value: |bits| float(bits, 5, 10),
};
const BF16: Format = Format {
    name: "bf16",
    bits: 16,
    value: |bits| float(bits, 8, 7),
};
const TF32: Format = Format {
    name: "tf32",
    bits: 32,
    value: |bits| float(bits & 0xffff_e000, 8, 23),
};
const E4M3: Format = Format {
    name: "e4m3",
    bits: 8,
    value: |bits| float(bits, 4, 3),
};
const E5M2: Format = Format {
    name: "e5m2",
    bits: 8,
    value: |bits| float(bits, 5, 2),
};
const S8: Format = Format {
    name: "s8",
    bits: 8,
    value: |bits| f64::from(bits as i8),
};
const U8: Format = Format {
    name: "u8",
    bits: 8,
    value: |bits| f64::from(bits as u8),
};
const S4: Format = Format {
    name: "s4",
    bits: 4,
    value: |bits| f64::from(((bits << 4) as i8) >> 4),
};
const U4: Format = Format {
    name: "u4",
    bits: 4,
    value: |bits| f64::from(bits as u8 & 15),
};
const F32: Format = Format {
    name: "f32",
    bits: 32,
    value: |bits| f64::from(f32::from_bits(bits as u32)),
};
const S32: Format = Format {
    name: "s32",
    bits: 32,
    value: |bits| f64::from(bits as i32),
};
const F64: Format = Format {
    name: "f64",
    bits: 64,
    value: f64::from_bits,
};

/// Row and column of element `i` of a lane's share of A, as the ISA says for each shape and width.
fn place_a(k: usize, bits: u32, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane / 4, lane % 4);
    match (bits, k) {
        (64, 4) => (group + 8 * i, thread),
        (64, _) => (group + 8 * (i % 2), thread + 4 * (i / 2)),
        (32, 4) => (group + 8 * i, thread),
        (32, 8) => (group + 8 * (i % 2), thread + 4 * (i / 2)),
        (16, 8) => (group + 8 * (i / 2), thread * 2 + i % 2),
        (16, 16) => {
            let upper = (2..4).contains(&i) || i >= 6;
            (
                group + 8 * usize::from(upper),
                thread * 2 + i % 2 + 8 * (i / 4),
            )
        }
        (8, 16) => (group + 8 * (i / 4), thread * 4 + i % 4),
        (4, 32) => (group + 8 * (i / 8), thread * 8 + i % 8),
        (4, 64) => {
            let upper = (8..16).contains(&i) || i >= 24;
            (
                group + 8 * usize::from(upper),
                thread * 8 + i % 8 + 32 * (i / 16),
            )
        }
        (1, 128) => (group + 8 * (i / 32), thread * 32 + i % 32),
        (1, 256) => {
            let upper = (32..64).contains(&i) || i >= 96;
            (
                group + 8 * usize::from(upper),
                thread * 32 + i % 32 + 128 * (i / 64),
            )
        }
        (8, 32) => {
            let upper = (4..8).contains(&i) || i >= 12;
            (
                group + 8 * usize::from(upper),
                thread * 4 + i % 4 + 16 * (i / 8),
            )
        }
        _ => panic!("no such shape"),
    }
}

/// The same for B.
fn place_b(k: usize, bits: u32, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane / 4, lane % 4);
    match (bits, k) {
        (32, 4) => (thread, group),
        (64, _) => (thread + 4 * i, group),
        (32, 8) => (thread + 4 * i, group),
        (16, 8) => (thread * 2 + i, group),
        (16, 16) => (thread * 2 + i % 2 + 8 * (i / 2), group),
        (8, 16) => (thread * 4 + i, group),
        (4, 32) => (thread * 8 + i, group),
        (4, 64) => (thread * 8 + i % 8 + 32 * (i / 8), group),
        (1, 128) => (thread * 32 + i, group),
        (1, 256) => (thread * 32 + i % 32 + 128 * (i / 32), group),
        (8, 32) => (thread * 4 + i % 4 + 16 * (i / 4), group),
        _ => panic!("no such shape"),
    }
}

/// The same for C and D.
fn place_c(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2)
}

/// Patterns without infinities and NaN, of moderate size.
fn pattern(format: Format, noise: &mut Noise) -> u64 {
    let bits = noise.next();
    match format.name {
        "f16" => bits & 0x83ff | (12 + (bits >> 20) % 5) << 10,
        "bf16" => bits & 0x807f | (124 + (bits >> 20) % 5) << 7,
        "tf32" | "f32" => bits & 0x807f_ffff | (124 + (bits >> 40) % 5) << 23,
        "e4m3" => bits & 0x87 | (4 + (bits >> 20) % 6) << 3,
        "e5m2" => bits & 0x83 | (12 + (bits >> 20) % 6) << 2,
        "f64" => bits & 0x800f_ffff_ffff_ffff | (1020 + (bits >> 54) % 5) << 52,
        "s32" => (bits % 2000) as u32 as u64,
        "s4" | "u4" => bits & 0xf,
        _ => bits & 0xff,
    }
}

/// Packs elements into registers of 32 bits, or 64 for doubles.
fn packed(elements: &[u64], format: Format) -> Vec<u32> {
    let mut words = Vec::new();
    let mut bit = 0;
    for element in elements {
        if format.bits == 64 {
            words.extend([*element as u32, (element >> 32) as u32]);
            continue;
        }
        if bit % 32 == 0 {
            words.push(0);
        }
        *words.last_mut().expect("a word was just added") |= (*element as u32) << (bit % 32);
        bit += format.bits;
    }
    words
}

struct Shape {
    size: [usize; 3],
    a: Format,
    b: Format,
    sum: Format,
    saturates: bool,
}

fn shapes() -> Vec<Shape> {
    let mut list = Vec::new();
    let mut add = |k: usize, m: usize, a: Format, b: Format, sum: Format, saturates: bool| {
        list.push(Shape {
            size: [m, 8, k],
            a,
            b,
            sum,
            saturates,
        });
    };
    for k in [8, 16] {
        add(k, 16, F16, F16, F32, false);
        add(k, 16, F16, F16, F16, false);
        add(k, 16, BF16, BF16, F32, false);
    }
    for k in [4, 8] {
        add(k, 16, TF32, TF32, F32, false);
    }
    for k in [16, 32] {
        for (a, b) in [(S8, S8), (U8, U8), (S8, U8), (U8, S8)] {
            add(k, 16, a, b, S32, false);
            add(k, 16, a, b, S32, true);
        }
    }
    for (a, b) in [(E4M3, E4M3), (E5M2, E5M2), (E4M3, E5M2), (E5M2, E4M3)] {
        add(32, 16, a, b, F32, false);
    }
    for (a, b) in [(S8, S8), (U8, S8)] {
        add(16, 8, a, b, S32, false);
    }
    for (a, b) in [(S4, S4), (U4, U4), (S4, U4), (U4, S4)] {
        add(32, 8, a, b, S32, false);
        for k in [32, 64] {
            add(k, 16, a, b, S32, false);
            add(k, 16, a, b, S32, true);
        }
    }
    add(4, 8, F64, F64, F64, false);
    for k in [4, 8, 16] {
        add(k, 16, F64, F64, F64, false);
    }
    list
}

/// Elements of a fragment per lane, and the 32-bit words that hold them.
fn share(rows: usize, columns: usize, format: Format) -> (usize, usize) {
    let elements = rows * columns / 32;
    (elements, elements * format.bits as usize / 32)
}

#[test]
fn every_shape_of_mma_follows_the_isa() {
    let mut noise = Noise(7);
    for Shape {
        size: [m, n, k],
        a,
        b,
        sum,
        saturates,
    } in shapes()
    {
        let name = format!(
            "mma.sync.aligned.m{m}n{n}k{k}.row.col{}.{}.{}.{}.{}",
            if saturates { ".satfinite" } else { "" },
            sum.name,
            a.name,
            b.name,
            sum.name
        );
        let (a_count, a_words) = share(m, k, a);
        let (b_count, b_words) = share(k, n, b);
        let (c_count, c_words) = share(m, n, sum);
        let mut matrix_a = vec![0.0; m * k];
        let mut matrix_b = vec![0.0; k * n];
        let mut matrix_c = vec![0.0; m * n];
        let (mut words_a, mut words_bc) = (Vec::new(), Vec::new());
        for lane in 0..32 {
            let mut fill =
                |count: usize, format: Format, set: &mut dyn FnMut(usize, f64)| -> Vec<u32> {
                    let elements: Vec<u64> =
                        (0..count).map(|_| pattern(format, &mut noise)).collect();
                    for (i, bits) in elements.iter().enumerate() {
                        set(i, (format.value)(*bits));
                    }
                    packed(&elements, format)
                };
            words_a.extend(fill(a_count, a, &mut |i, value| {
                let (row, column) = place_a(k, a.bits, lane, i);
                matrix_a[row * k + column] = value;
            }));
            words_bc.extend(fill(b_count, b, &mut |i, value| {
                let (row, column) = place_b(k, b.bits, lane, i);
                matrix_b[row * n + column] = value;
            }));
            words_bc.extend(fill(c_count, sum, &mut |i, value| {
                let (row, column) = place_c(lane, i);
                matrix_c[row * n + column] = value;
            }));
        }
        // Registers: A, B, C and D one after the other, 32 or 64 bits wide.
        let double = sum.bits == 64;
        let (prefix, step, ty) = if double {
            ("%d", 8, "f64")
        } else {
            ("%r", 4, "b32")
        };
        let per = if double { 2 } else { 1 };
        let list = |from: usize, words: usize| -> String {
            let names: Vec<String> = (from..from + words / per)
                .map(|i| format!("{prefix}{i}"))
                .collect();
            format!("{{{}}}", names.join(", "))
        };
        let (ra, rb) = (5, 5 + a_words);
        let (rc, rd) = (rb + b_words, rb + b_words + c_words);
        let mut body = format!(
            "mul.lo.u32 %r2, %r1, {};\ncvt.u64.u32 %rd4, %r2;\nadd.u64 %rd4, %rd1, %rd4;\n\
             mul.lo.u32 %r2, %r1, {};\ncvt.u64.u32 %rd5, %r2;\nadd.u64 %rd5, %rd2, %rd5;\n\
             mul.lo.u32 %r2, %r1, {};\ncvt.u64.u32 %rd6, %r2;\nadd.u64 %rd6, %rd3, %rd6;\n",
            4 * a_words,
            4 * (b_words + c_words),
            4 * c_words
        );
        for i in 0..a_words / per {
            body += &format!("ld.global.{ty} {prefix}{}, [%rd4+{}];\n", ra + i, i * step);
        }
        for i in 0..b_words / per {
            body += &format!("ld.global.{ty} {prefix}{}, [%rd5+{}];\n", rb + i, i * step);
        }
        for i in 0..c_words / per {
            body += &format!(
                "ld.global.{ty} {prefix}{}, [%rd5+{}];\n",
                rc + i,
                b_words * 4 + i * step
            );
        }
        let vectors = [
            list(rd, c_words),
            list(ra, a_words),
            list(rb, b_words),
            list(rc, c_words),
        ];
        body += &format!("{name} {};\n", vectors.join(", "));
        for i in 0..c_words / per {
            body += &format!("st.global.{ty} [%rd6+{}], {prefix}{};\n", i * step, rd + i);
        }
        let mut device = Device::new(&kernel(&body));
        let out = device.fresh("out", 32 * 4 * c_words);
        let args = [
            Arg::Pointer(device.buffer("a", &words_a)),
            Arg::Pointer(device.buffer("b", &words_bc)),
            Arg::Pointer(out),
        ];
        let report = device
            .try_launch("k", [1, 1, 1], [32, 1, 1], &args, |_| {})
            .unwrap_or_else(|error| panic!("{name}: failed to {error}"));
        assert_eq!(
            (report.outcome.clone(), kinds(&report)),
            (Outcome::Completed, vec![]),
            "{name}"
        );
        assert_eq!(report.counters.total.tensor_macs, (m * n * k) as u64);
        let words: Vec<u32> = device.read(out, 32 * c_words);
        for lane in 0..32 {
            for i in 0..c_count {
                let (row, column) = place_c(lane, i);
                let products = (0..k).map(|t| matrix_a[row * k + t] * matrix_b[t * n + column]);
                let size: f64 =
                    products.clone().map(f64::abs).sum::<f64>() + matrix_c[row * n + column].abs();
                let want = products.sum::<f64>() + matrix_c[row * n + column];
                let own = &words[lane * c_words..(lane + 1) * c_words];
                let bits = match sum.bits {
                    64 => u64::from(own[2 * i]) | u64::from(own[2 * i + 1]) << 32,
                    16 => u64::from(own[i / 2] >> (16 * (i % 2)) & 0xffff),
                    _ => u64::from(own[i]),
                };
                let got = (sum.value)(bits);
                let tolerance = match sum.name {
                    "f16" => 2e-3,
                    "f32" => 2e-6,
                    "f64" => 1e-15,
                    _ => 0.0,
                } * size;
                assert!(
                    (got - want).abs() <= tolerance,
                    "{name}: [{row}][{column}] is {got} instead of {want}"
                );
            }
        }
    }
}

/// Loads, multiplies and stores fragments of `wmma`. Sums are those of single fused multiply-adds in the order of k,
/// rounded once more where the result has 16 bits, in the usual layout of fragments and in the other one.
#[test]
fn products_of_fragments_do_not_depend_on_their_layout() {
    let sizes = [(16, 16, 16, 8, 8), (32, 8, 16, 8, 2), (8, 32, 16, 2, 8)];
    let formats = [
        (F16, F32, F32),
        (F16, F16, F16),
        (F16, F16, F32),
        (F16, F32, F16),
        (BF16, F32, F32),
    ];
    let mut noise = Noise(11);
    for (m, n, k, a_words, b_words) in sizes {
        for (factor, c, d) in formats {
            let shape = format!("m{m}n{n}k{k}");
            let half = factor.name == "f16";
            let factors = if half { "" } else { ".bf16.bf16" };
            let name = format!("{shape}.{}{factors}.{}", d.name, c.name);
            let list = |from: usize, words: usize| -> String {
                let names: Vec<String> = (from..from + words).map(|i| format!("%r{i}")).collect();
                format!("{{{}}}", names.join(", "))
            };
            // Fragments of halves always have eight registers.
            let of = |words: usize| match (half, m, n) {
                (true, ..) => 8,
                (false, 16, 16) => 4,
                _ => words,
            };
            let (ra, rb) = (list(10, of(a_words)), list(20, of(b_words)));
            let (rc, rd) = (
                list(30, 8 * c.bits as usize / 32),
                list(40, 8 * d.bits as usize / 32),
            );
            let (bytes, ty) = (m * n * c.bits as usize / 8, factor.name);
            let body = format!(
                "wmma.load.a.sync.aligned.row.{shape}.global.{ty} {ra}, [%rd1], {k};\n\
                 wmma.load.b.sync.aligned.col.{shape}.global.{ty} {rb}, [%rd2], {k};\n\
                 wmma.load.c.sync.aligned.row.{shape}.global.{} {rc}, [%rd3], {n};\n\
                 wmma.mma.sync.aligned.row.col.{name} {rd}, {ra}, {rb}, {rc};\n\
                 wmma.store.d.sync.aligned.row.{shape}.global.{} [%rd3+{bytes}], {rd}, {n};\n",
                c.name, d.name
            );
            let mut draw = |count: usize, format: Format| -> Vec<u64> {
                (0..count).map(|_| pattern(format, &mut noise)).collect()
            };
            let (left, right, start) = (draw(m * k, factor), draw(n * k, factor), draw(m * n, c));
            let mut whole = packed(&start, c);
            whole.resize((bytes + m * n * d.bits as usize / 8) / 4, 0);
            for fragments in [Fragments::Usual, Fragments::Turned] {
                let mut device = Device::new(&kernel(&body));
                let out = device.buffer("out", &whole);
                let args = [
                    Arg::Pointer(device.buffer("a", &packed(&left, factor))),
                    Arg::Pointer(device.buffer("b", &packed(&right, factor))),
                    Arg::Pointer(out),
                ];
                device.honest("k", [1, 1, 1], [32, 1, 1], &args, |launch| {
                    launch.fragments = fragments;
                });
                let found: Vec<u32> = device.read(out, whole.len());
                for (at, start) in start.iter().enumerate() {
                    let (row, column) = (at / n, at % n);
                    let terms = (0..k).map(|t| (left[row * k + t], right[column * k + t]));
                    let single = |format: Format, bits: u64| (format.value)(bits) as f32;
                    let sum = terms.fold(single(c, *start), |sum, (x, y)| {
                        single(factor, x).mul_add(single(factor, y), sum)
                    });
                    let bit = 8 * bytes + at * d.bits as usize;
                    let word = u64::from(found[bit / 32] >> (bit % 32));
                    let got = single(d, word & ((1 << d.bits) - 1));
                    let rounding = if d.bits == 16 {
                        sum.abs() / 2048.0
                    } else {
                        0.0
                    };
                    assert!(
                        (got - sum).abs() <= rounding,
                        "{name}, {fragments:?}: [{row}][{column}] is {got} instead of {sum}"
                    );
                }
            }
        }
    }
}

#[test]
fn integer_sums_wrap_or_saturate() {
    // 0x7fffff00 + 16 * 127 is past the largest number.
    let wrapped = (0x7fff_ff00u32 + 16 * 127) as i32;
    for (modifier, want) in [("", wrapped), (".satfinite", i32::MAX)] {
        let body = format!(
            "mov.b32 %r5, 0x7f7f7f7f;\nmov.b32 %r6, 0x7f7f7f7f;\nmov.b32 %r7, 0x01010101;\nmov.b32 %r8, 0x7fffff00;\n\
             mma.sync.aligned.m16n8k16.row.col{modifier}.s32.s8.s8.s32 {{%r10,%r11,%r12,%r13}}, {{%r5,%r6}}, {{%r7}}, {{%r8,%r8,%r8,%r8}};\n\
             mul.wide.u32 %rd4, %r1, 4;\nadd.u64 %rd4, %rd3, %rd4;\nst.global.b32 [%rd4], %r10;"
        );
        let mut device = Device::new(&kernel(&body));
        let out = device.fresh("out", 128);
        let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
        device.launch("k", 1, 32, &args);
        assert_eq!(device.read::<i32>(out, 32), [want; 32], "{modifier}");
    }
}

#[test]
fn single_bits_are_combined_and_counted() {
    let mut noise = Noise(11);
    for (m, k) in [(8, 128), (16, 128), (16, 256)] {
        let (a_words, b_words, c_words) = (m * k / 1024, k / 128, m / 4);
        let words_a: Vec<u32> = (0..32 * a_words).map(|_| noise.next() as u32).collect();
        let words_b: Vec<u32> = (0..32 * b_words).map(|_| noise.next() as u32).collect();
        let mut matrix_a = vec![0u32; m * k];
        let mut matrix_b = vec![0u32; k * 8];
        for lane in 0..32 {
            for i in 0..32 * a_words {
                let (row, column) = place_a(k, 1, lane, i);
                matrix_a[row * k + column] = words_a[lane * a_words + i / 32] >> (i % 32) & 1;
            }
            for i in 0..32 * b_words {
                let (row, column) = place_b(k, 1, lane, i);
                matrix_b[row * 8 + column] = words_b[lane * b_words + i / 32] >> (i % 32) & 1;
            }
        }
        let list = |from: usize, count: usize| {
            let names: Vec<String> = (from..from + count).map(|i| format!("%r{i}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        for (operation, combine) in [
            ("xor", (|x, y| x ^ y) as fn(u32, u32) -> u32),
            ("and", |x, y| x & y),
        ] {
            let load = |from: usize, words: usize, pointer: &str| -> String {
                let place = format!(
                    "mul.lo.u32 %r2, %r1, {};\ncvt.u64.u32 %rd4, %r2;\nadd.u64 %rd4, {pointer}, %rd4;\n",
                    4 * words
                );
                let loads = (0..words)
                    .map(|i| format!("ld.global.b32 %r{}, [%rd4+{}];\n", from + i, 4 * i));
                place + &loads.collect::<String>()
            };
            let mut body = load(5, a_words, "%rd1") + &load(15, b_words, "%rd2");
            for i in 0..c_words {
                body += &format!("mov.b32 %r{}, {};\n", 25 + i, 100 * i);
            }
            body += &format!(
                "mma.sync.aligned.m{m}n8k{k}.row.col.s32.b1.b1.s32.{operation}.popc {}, {}, {}, {};\n",
                list(35, c_words),
                list(5, a_words),
                list(15, b_words),
                list(25, c_words)
            );
            body += &format!(
                "mul.lo.u32 %r2, %r1, {};\ncvt.u64.u32 %rd4, %r2;\nadd.u64 %rd4, %rd3, %rd4;\n",
                4 * c_words
            );
            for i in 0..c_words {
                body += &format!("st.global.b32 [%rd4+{}], %r{};\n", 4 * i, 35 + i);
            }
            let mut device = Device::new(&kernel(&body));
            let out = device.fresh("out", 128 * c_words);
            let args = [
                Arg::Pointer(device.buffer("a", &words_a)),
                Arg::Pointer(device.buffer("b", &words_b)),
                Arg::Pointer(out),
            ];
            let report = device.honest("k", [1, 1, 1], [32, 1, 1], &args, |_| {});
            assert_eq!(report.counters.total.tensor_macs, (m * 8 * k) as u64);
            let found: Vec<u32> = device.read(out, 32 * c_words);
            for lane in 0..32 {
                for i in 0..c_words {
                    let (row, column) = place_c(lane, i);
                    let bits =
                        (0..k).map(|t| combine(matrix_a[row * k + t], matrix_b[t * 8 + column]));
                    let want = bits.sum::<u32>() + 100 * i as u32;
                    assert_eq!(
                        found[lane * c_words + i],
                        want,
                        "m{m}k{k} {operation}, lane {lane}"
                    );
                }
            }
        }
    }
}

#[test]
fn matrices_are_stored_as_they_would_be_loaded() {
    // Lane l holds in register q the halves 256 q + 8 g + p and the next one, for g = l / 4 and p = l % 4 * 2: its
    // pair of row g. Row r of matrix q goes to 16 bytes at 128 q + 16 r.
    for count in [1, 2, 4] {
        for transposed in [false, true] {
            let registers: Vec<String> = (0..count).map(|q| format!("%r{}", 10 + q)).collect();
            let mut body = String::from(
                ".shared .align 16 .b8 tile[512];\nmov.u32 %r3, tile;\nshl.b32 %r4, %r1, 4;\nadd.u32 %r4, %r4, %r3;\n\
                 shl.b32 %r5, %r1, 1;\n",
            );
            for q in 0..count {
                // 8 g + p is twice the lane.
                body += &format!(
                    "add.u32 %r6, %r5, {};\nadd.u32 %r7, %r6, 1;\nshl.b32 %r7, %r7, 16;\nor.b32 %r{}, %r6, %r7;\n",
                    256 * q,
                    10 + q
                );
            }
            body += &format!(
                "stmatrix.sync.aligned.m8n8.x{count}{}.shared.b16 [%r4], {{{}}};\nbar.warp.sync 0xffffffff;\n",
                if transposed { ".trans" } else { "" },
                registers.join(", ")
            );
            // The lanes copy all rows out.
            body += &format!(
                "mul.wide.u32 %rd4, %r1, 16;\nadd.u64 %rd4, %rd3, %rd4;\nsetp.lt.u32 %p1, %r1, {};\n\
                 @%p1 ld.shared.v4.b32 {{%r20,%r21,%r22,%r23}}, [%r4];\n\
                 @%p1 st.global.v4.b32 [%rd4], {{%r20,%r21,%r22,%r23}};\n",
                8 * count
            );
            let mut device = Device::new(&kernel(&body));
            let out = device.fresh("out", 512);
            let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
            let report = device.honest("k", [1, 1, 1], [32, 1, 1], &args, |_| {});
            let of = &report.counters.total.shared;
            assert_eq!(of.bytes_written, 128 * count);
            assert_eq!(of.bank_conflicts, 0);
            let found: Vec<u16> = device.read(out, 64 * count as usize);
            for (at, half) in found.into_iter().enumerate() {
                let (matrix, row, column) = (at / 64, at / 8 % 8, at % 8);
                let (row, column) = if transposed {
                    (column, row)
                } else {
                    (row, column)
                };
                assert_eq!(
                    usize::from(half),
                    256 * matrix + 8 * row + column,
                    "x{count}, {transposed}"
                );
            }
        }
    }
}

#[test]
fn a_block_is_alone_in_its_cluster() {
    let body = "mov.u32 %r5, %cluster_ctarank;\nmov.u32 %r6, %cluster_nctarank;\nmov.u32 %r7, %cluster_ctaid.y;\n\
                mov.u32 %r8, %clusterid.x;\nmov.u32 %r9, %ctaid.x;\nsub.u32 %r8, %r8, %r9;\n\
                mov.u32 %r10, %nclusterid.x;\nmad.lo.u32 %r11, %r9, 32, %r1;\nmul.wide.u32 %rd4, %r11, 4;\n\
                add.u64 %rd4, %rd3, %rd4;\nmul.lo.u32 %r5, %r5, 1000;\nadd.u32 %r5, %r5, %r7;\nadd.u32 %r5, %r5, %r8;\n\
                mad.lo.u32 %r5, %r10, 10, %r5;\nadd.u32 %r5, %r5, %r6;\nfence.proxy.async;\n\
                fence.mbarrier_init.release.cluster;\nst.global.u32 [%rd4], %r5;";
    let mut device = Device::new(&kernel(body));
    let out = device.fresh("out", 3 * 128);
    let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
    device.honest("k", [3, 1, 1], [32, 1, 1], &args, |_| {});
    // Three clusters of one block.
    assert_eq!(device.read::<u32>(out, 96), [31; 96]);
}
