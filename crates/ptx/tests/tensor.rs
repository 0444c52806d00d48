//! Every shape and format of `mma.sync` against the PTX ISA: the layouts of its fragments are written here once more,
//! as the ISA words them, and the product is worked out element by element.

mod support;

use corpus::Noise;
use ptx::report::Outcome;
use support::{Arg, Device, kernel, kinds};

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
        (64, 4) => (group, thread),
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
        (32 | 64, 4) => (thread, group),
        (32, 8) => (thread + 4 * i, group),
        (16, 8) => (thread * 2 + i, group),
        (16, 16) => (thread * 2 + i % 2 + 8 * (i / 2), group),
        (8, 16) => (thread * 4 + i, group),
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
    add(4, 8, F64, F64, F64, false);
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
