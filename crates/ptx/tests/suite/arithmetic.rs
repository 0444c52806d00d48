//! Golden values per operation: what the PTX ISA says, worked out by hand or by a wider type.

use crate::support::{Arg, Device, kernel};
use proptest::prelude::*;
use ptx::Isa;
use ptx::report::Outcome;

/// Runs `body` over lanes: %a, %b, %c are loaded from three words per lane, %q is stored. The type names the registers.
fn lanes(isa: Isa, ty: &str, out: &str, body: &str, inputs: &[[u64; 3]]) -> Vec<u64> {
    let wide = |ty: &str| ty.contains("64");
    let register = |ty: &str| match ty {
        "b16" => ".b16",
        ty if wide(ty) => ".b64",
        _ => ".b32",
    };
    let (r, q) = (register(ty), register(out));
    // Halves travel in the low bits of words.
    let load = |name: &str, at: usize| match r {
        ".b16" => format!("ld.global.u16 {name}, [%rd4+{at}];\n"),
        ".b64" => format!("ld.global.b64 {name}, [%rd4+{at}];\n"),
        _ => format!("ld.global.b32 {name}, [%rd4+{at}];\n"),
    };
    let store = match q {
        ".b16" => "st.global.u16 [%rd6], %q;",
        ".b64" => "st.global.b64 [%rd6], %q;",
        _ => "st.global.b32 [%rd6], %q;",
    };
    let text = kernel(&format!(
        ".reg {r} %a, %b, %c;\n.reg {q} %q;\nmul.wide.u32 %rd4, %r1, 24;\nadd.u64 %rd4, %rd4, %rd1;\n\
         mul.wide.u32 %rd6, %r1, 8;\nadd.u64 %rd6, %rd6, %rd3;\n{}{}{}{body}\n{store}",
        load("%a", 0),
        load("%b", 8),
        load("%c", 16),
    ));
    let mut device = Device::new(&text);
    device.machine.use_isa(isa);
    let flat: Vec<u64> = inputs.iter().flatten().copied().collect();
    let (a, o) = (
        device.buffer("a", &flat),
        device.buffer("out", &vec![0u64; inputs.len()]),
    );
    let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(o)];
    let report = device
        .try_launch("k", [1, 1, 1], [inputs.len() as u32, 1, 1], &args, |_| {})
        .unwrap_or_else(|error| panic!("{body}: failed to {error}"));
    assert_eq!(report.outcome, Outcome::Completed, "{body}");
    assert!(report.findings.is_empty(), "{body}: {:?}", report.findings);
    device.read(o, inputs.len())
}

/// One lane.
fn one(ty: &str, out: &str, body: &str, input: [u64; 3]) -> u64 {
    lanes(Isa::detect(), ty, out, body, &[input])[0]
}

fn f(value: f32) -> u64 {
    u64::from(value.to_bits())
}

#[test]
fn integers() {
    let m = u64::from(u32::MAX);
    let cases: &[(&str, [u64; 3], u64)] = &[
        ("add.s32 %q, %a, %b;", [m, 2, 0], 1),
        ("add.sat.s32 %q, %a, %b;", [0x7fff_ffff, 5, 0], 0x7fff_ffff),
        ("sub.u32 %q, %a, %b;", [1, 2, 0], m),
        ("mul.lo.u32 %q, %a, %b;", [0x10001, 0x10001, 0], 0x20001),
        ("mul.hi.u32 %q, %a, %b;", [m, m, 0], 0xffff_fffe),
        ("mul.hi.s32 %q, %a, %b;", [m, m, 0], 0),
        ("mad.lo.s32 %q, %a, %b, %c;", [3, 5, m], 14),
        ("mad.hi.u32 %q, %a, %b, %c;", [m, 2, 10], 11),
        ("mul24.lo.u32 %q, %a, %b;", [0xff00_0003, 5, 0], 15),
        (
            "mul24.lo.s32 %q, %a, %b;",
            [0x00ff_ffff, 5, 0],
            (-5i32) as u32 as u64,
        ),
        (
            "div.s32 %q, %a, %b;",
            [(-7i32) as u32 as u64, 2, 0],
            (-3i32) as u32 as u64,
        ),
        ("div.u32 %q, %a, %b;", [7, 0, 0], m),
        ("rem.s32 %q, %a, %b;", [(-7i32) as u32 as u64, 2, 0], m),
        ("abs.s32 %q, %a;", [0x8000_0000, 0, 0], 0x8000_0000),
        ("neg.s32 %q, %a;", [5, 0, 0], (-5i32) as u32 as u64),
        ("min.s32 %q, %a, %b;", [m, 1, 0], m),
        ("max.u32 %q, %a, %b;", [m, 1, 0], m),
        ("sad.s32 %q, %a, %b, %c;", [m, 4, 10], 15),
        ("shl.b32 %q, %a, %b;", [1, 32, 0], 0),
        ("shr.s32 %q, %a, %b;", [0x8000_0000, 40, 0], m),
        ("shr.u32 %q, %a, %b;", [0x8000_0000, 31, 0], 1),
        ("shf.l.wrap.b32 %q, %a, %b, %c;", [0x8000_0001, 0x1, 33], 3),
        ("shf.r.clamp.b32 %q, %a, %b, %c;", [7, 9, 40], 9),
        ("popc.b32 %q, %a;", [0xf0f0, 0, 0], 8),
        ("clz.b32 %q, %a;", [1, 0, 0], 31),
        ("brev.b32 %q, %a;", [1, 0, 0], 0x8000_0000),
        ("bfind.u32 %q, %a;", [0, 0, 0], m),
        ("bfind.s32 %q, %a;", [0xffff_fff0, 0, 0], 3),
        ("bfind.shiftamt.u32 %q, %a;", [16, 0, 0], 27),
        ("bfe.u32 %q, %a, %b, %c;", [0xabcd, 4, 8], 0xbc),
        ("bfe.s32 %q, %a, %b, %c;", [0x80, 4, 4], 0xffff_fff8),
        (
            "bfi.b32 %q, %a, %b, 8, 4;",
            [0x5, 0xffff_ffff, 0],
            0xffff_f5ff,
        ),
        (
            "prmt.b32 %q, %a, %b, %c;",
            [0x3322_1100, 0x7766_5544, 0x0751],
            0x0077_5511 & 0xffff_ffff,
        ),
        (
            "lop3.b32 %q, %a, %b, %c, 0xE8;",
            [0b1100, 0b1010, 0b0110],
            0b1110,
        ),
        (
            "dp4a.s32.s32 %q, %a, %b, %c;",
            [0x01ff_0203, 0x0101_0101, 100],
            105,
        ),
        ("selp.b32 %q, %a, %b, 1;", [3, 4, 0], 3),
        ("slct.u32.s32 %q, %a, %b, %c;", [3, 4, m], 4),
        ("set.lt.u32.s32 %q, %a, %b;", [m, 0, 0], m),
        ("set.lt.f32.u32 %q, %a, %b;", [m, 0, 0], 0),
        ("not.b32 %q, %a;", [0, 0, 0], m),
        ("cnot.b32 %q, %a;", [0, 0, 0], 1),
        ("cvt.s32.s8 %q, %a;", [0x1ff, 0, 0], m),
        ("cvt.sat.u8.s32 %q, %a;", [300, 0, 0], 255),
        ("cvt.u32.u16 %q, %a;", [0x12345, 0, 0], 0x2345),
        ("add.cc.u32 %b, %a, %b;\naddc.u32 %q, %c, 0;", [m, 1, 5], 6),
        ("sub.cc.u32 %b, %a, %b;\nsubc.u32 %q, %c, 0;", [0, 1, 5], 4),
        // (2^32 - 1)^2 + (2^32 - 1): the low words carry one into the high word.
        (
            "mad.lo.cc.u32 %r30, %a, %b, %c;\nmadc.hi.u32 %q, %a, %b, 0;",
            [m, m, m],
            m,
        ),
        (
            "mad.lo.cc.u32 %r30, %a, %b, %c;\nmadc.lo.u32 %q, %a, %c, 7;",
            [m, m, m],
            9,
        ),
        (
            "setp.lt.s32 %p1|%p2, %a, %b;\nselp.b32 %q, 1, 2, %p2;",
            [5, 9, 0],
            2,
        ),
        (
            "setp.eq.and.s32 %p1, %a, %b, 0;\nselp.b32 %q, 1, 2, %p1;",
            [5, 5, 0],
            2,
        ),
        (
            "mov.b32 {%h1, %h2}, %a;\nmov.b32 %q, {%h2, %h1};",
            [0x1234_5678, 0, 0],
            0x5678_1234,
        ),
    ];
    for (body, input, want) in cases {
        assert_eq!(
            one("b32", "b32", body, *input),
            *want,
            "{body} of {input:x?}"
        );
    }
    let wide: &[(&str, [u64; 3], u64)] = &[
        ("add.s64 %q, %a, %b;", [u64::MAX, 2, 0], 1),
        (
            "mul.hi.u64 %q, %a, %b;",
            [u64::MAX, u64::MAX, 0],
            u64::MAX - 1,
        ),
        ("mul.hi.s64 %q, %a, %b;", [u64::MAX, 2, 0], u64::MAX),
        (
            "div.s64 %q, %a, %b;",
            [(-9i64) as u64, 4, 0],
            (-2i64) as u64,
        ),
        ("shr.s64 %q, %a, 70;", [1 << 63, 0, 0], u64::MAX),
        ("bfe.u64 %q, %a, 60, 8;", [0xf << 60, 0, 0], 0xf),
        ("min.u64 %q, %a, %b;", [u64::MAX, 3, 0], 3),
        (
            "mov.b64 {%r2, %r3}, %a;\nmov.b64 %q, {%r3, %r2};",
            [0x1_0000_0002, 0, 0],
            0x2_0000_0001,
        ),
    ];
    for (body, input, want) in wide {
        assert_eq!(
            one("b64", "b64", body, *input),
            *want,
            "{body} of {input:x?}"
        );
    }
    assert_eq!(
        one(
            "b32",
            "b64",
            "mul.wide.s32 %q, %a, %b;",
            [u64::from(u32::MAX), 3, 0]
        ),
        (-3i64) as u64
    );
    assert_eq!(
        one(
            "b16",
            "b32",
            "mul.wide.u16 %q, %a, %b;",
            [0xffff, 0xffff, 0]
        ),
        0xfffe_0001
    );
    assert_eq!(
        one("b16", "b16", "mul.hi.s16 %q, %a, %b;", [0x8000, 0x8000, 0]),
        0x4000
    );
}

#[test]
fn single_precision() {
    let (nan, canonical) = (0x7fc0_1234, 0x7fff_ffff);
    let tiny = u64::from(1u32);
    let one_up = f(1.0f32.next_up());
    let cases: &[(&str, [u64; 3], u64)] = &[
        ("add.f32 %q, %a, %b;", [f(1.5), f(2.25), 0], f(3.75)),
        ("add.f32 %q, %a, %b;", [nan, f(1.0), 0], canonical),
        (
            "add.rz.f32 %q, %a, %b;",
            [f(1.0), f(2f32.powi(-24) * 1.5), 0],
            f(1.0),
        ),
        ("add.rp.f32 %q, %a, %b;", [f(1.0), tiny, 0], one_up),
        ("add.rm.f32 %q, %a, %b;", [f(1.0), f(-1.0), 0], f(-0.0)),
        (
            "sub.rm.f32 %q, %a, %b;",
            [f(1.0), tiny, 0],
            f(1.0f32.next_down()),
        ),
        (
            "mul.rz.f32 %q, %a, %b;",
            [one_up, one_up, 0],
            f(1.0 + 2f32.powi(-22)),
        ),
        ("mul.ftz.f32 %q, %a, %b;", [tiny, f(1.0), 0], 0),
        ("mul.f32 %q, %a, %b;", [tiny, f(1.0), 0], tiny),
        (
            "fma.rn.f32 %q, %a, %b, %c;",
            [one_up, one_up, f(-1.0 - 2f32.powi(-22))],
            f(2f32.powi(-46)),
        ),
        (
            "fma.rm.f32 %q, %a, %b, %c;",
            [one_up, one_up, f(0.0)],
            f(1.0 + 2f32.powi(-22)),
        ),
        (
            "fma.rm.f32 %q, %a, %b, %c;",
            [f(1.0), f(1.0), f(-1.0)],
            f(-0.0),
        ),
        (
            "fma.rp.f32 %q, %a, %b, %c;",
            [one_up, one_up, f(0.0)],
            f((1.0 + 2f32.powi(-22)).next_up()),
        ),
        ("add.sat.f32 %q, %a, %b;", [f(3.0), f(1.0), 0], f(1.0)),
        ("add.sat.f32 %q, %a, %b;", [nan, f(1.0), 0], 0),
        ("div.rn.f32 %q, %a, %b;", [f(1.0), f(3.0), 0], f(1.0 / 3.0)),
        (
            "div.rz.f32 %q, %a, %b;",
            [f(2.0), f(3.0), 0],
            f((2.0f32 / 3.0).next_down()),
        ),
        ("sqrt.rn.f32 %q, %a;", [f(2.0), 0, 0], f(2f32.sqrt())),
        ("rcp.rn.f32 %q, %a;", [f(0.0), 0, 0], f(f32::INFINITY)),
        ("rsqrt.approx.f32 %q, %a;", [f(4.0), 0, 0], f(0.5)),
        ("min.f32 %q, %a, %b;", [nan, f(1.0), 0], f(1.0)),
        ("min.f32 %q, %a, %b;", [f(0.0), f(-0.0), 0], f(-0.0)),
        ("max.NaN.f32 %q, %a, %b;", [nan, f(1.0), 0], canonical),
        ("max.f32 %q, %a, %b;", [f(-0.0), f(0.0), 0], f(0.0)),
        ("abs.f32 %q, %a;", [f(-2.0), 0, 0], f(2.0)),
        ("copysign.f32 %q, %a, %b;", [f(-1.0), f(3.0), 0], f(-3.0)),
        ("ex2.approx.f32 %q, %a;", [f(10.0), 0, 0], f(1024.0)),
        ("ex2.approx.f32 %q, %a;", [f(-149.0), 0, 0], tiny),
        ("ex2.approx.ftz.f32 %q, %a;", [f(-140.0), 0, 0], 0),
        ("ex2.approx.f32 %q, %a;", [f(f32::NEG_INFINITY), 0, 0], 0),
        ("lg2.approx.f32 %q, %a;", [f(8.0), 0, 0], f(3.0)),
        (
            "lg2.approx.f32 %q, %a;",
            [f(0.0), 0, 0],
            f(f32::NEG_INFINITY),
        ),
        ("lg2.approx.f32 %q, %a;", [f(-1.0), 0, 0], canonical),
        ("cos.approx.f32 %q, %a;", [f(0.0), 0, 0], f(1.0)),
        ("tanh.approx.f32 %q, %a;", [f(f32::INFINITY), 0, 0], f(1.0)),
        ("cvt.rni.s32.f32 %q, %a;", [f(2.5), 0, 0], 2),
        (
            "cvt.rzi.s32.f32 %q, %a;",
            [f(-2.9), 0, 0],
            u64::from((-2i32) as u32),
        ),
        (
            "cvt.rmi.s32.f32 %q, %a;",
            [f(-2.1), 0, 0],
            u64::from((-3i32) as u32),
        ),
        ("cvt.rzi.s32.f32 %q, %a;", [f(1e20), 0, 0], 0x7fff_ffff),
        ("cvt.rzi.s32.f32 %q, %a;", [nan, 0, 0], 0),
        ("cvt.rzi.u32.f32 %q, %a;", [f(-5.0), 0, 0], 0),
        ("cvt.rni.f32.f32 %q, %a;", [f(-0.4), 0, 0], f(-0.0)),
        ("cvt.rzi.f32.f32 %q, %a;", [f(-0.9), 0, 0], f(-0.0)),
        ("cvt.rpi.f32.f32 %q, %a;", [f(-0.4), 0, 0], f(-0.0)),
        ("cvt.rmi.f32.f32 %q, %a;", [f(-0.4), 0, 0], f(-1.0)),
        ("cvt.rmi.f32.f32 %q, %a;", [nan, 0, 0], canonical),
        ("cvt.rzi.u32.f32 %q, %a;", [f(1e20), 0, 0], 0xffff_ffff),
        ("cvt.rzi.u32.f32 %q, %a;", [nan, 0, 0], 0),
        ("cvt.sat.f32.f32 %q, %a;", [f(-0.4), 0, 0], 0),
        (
            "cvt.rn.f32.s32 %q, %a;",
            [0x0100_0001, 0, 0],
            f(16_777_216.0),
        ),
        (
            "cvt.rp.f32.u32 %q, %a;",
            [0x0100_0001, 0, 0],
            f(16_777_218.0),
        ),
        ("cvt.rna.tf32.f32 %q, %a;", [0x3f80_1000, 0, 0], 0x3f80_2000),
        (
            "cvt.rn.f16x2.f32 %q, %a, %b;",
            [f(1.0), f(2.0), 0],
            0x3c00_4000,
        ),
        (
            "cvt.rn.bf16x2.f32 %q, %a, %b;",
            [f(1.0), f(2.0), 0],
            0x3f80_4000,
        ),
        (
            "setp.ltu.f32 %p1, %a, %b;\nselp.b32 %q, 1, 0, %p1;",
            [nan, f(1.0), 0],
            1,
        ),
        (
            "setp.ne.f32 %p1, %a, %b;\nselp.b32 %q, 1, 0, %p1;",
            [nan, f(1.0), 0],
            0,
        ),
        (
            "testp.subnormal.f32 %p1, %a;\nselp.b32 %q, 1, 0, %p1;",
            [tiny, 0, 0],
            1,
        ),
    ];
    for (body, input, want) in cases {
        assert_eq!(
            one("b32", "b32", body, *input),
            *want,
            "{body} of {input:x?}"
        );
        for isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
            let found = lanes(*isa, "b32", "b32", body, &[*input])[0];
            assert_eq!(found, *want, "{body} of {input:x?}, {isa:?}");
        }
    }
}

#[test]
fn halves_and_doubles() {
    let half: &[(&str, [u64; 3], u64)] = &[
        ("add.rn.f16 %q, %a, %b;", [0x3c00, 0x4000, 0], 0x4200),
        // 1 + 2^-11 is a tie; the fused product decides it.
        (
            "fma.rn.f16 %q, %a, %b, %c;",
            [0x0401, 0x3800, 0x3c00],
            0x3c00,
        ),
        ("fma.rn.f16 %q, %a, %b, %c;", [0x7bff, 0x7bff, 0], 0x7c00),
        ("mul.f16 %q, %a, %b;", [0x0001, 0x3800, 0], 0),
        ("max.f16 %q, %a, %b;", [0x7e00, 0x3c00, 0], 0x3c00),
        ("neg.f16 %q, %a;", [0x3c00, 0, 0], 0xbc00),
        ("add.rn.bf16 %q, %a, %b;", [0x3f80, 0x3f80, 0], 0x4000),
        ("fma.rn.relu.f16 %q, %a, %b, %c;", [0xbc00, 0x3c00, 0], 0),
        ("cvt.rzi.s16.f16 %q, %a;", [0xc500, 0, 0], 0xfffb),
        ("cvt.rn.f16.s16 %q, %a;", [0xffff, 0, 0], 0xbc00),
    ];
    for (body, input, want) in half {
        assert_eq!(
            one("b16", "b16", body, *input),
            *want,
            "{body} of {input:x?}"
        );
    }
    assert_eq!(
        one("b16", "b32", "cvt.f32.f16 %q, %a;", [0x0001, 0, 0]),
        f(2f32.powi(-24))
    );
    assert_eq!(
        one("b16", "b32", "cvt.rn.f16x2.e4m3x2 %q, %a;", [0x7e38, 0, 0]),
        0x5f00_3c00
    );
    assert_eq!(
        one(
            "b32",
            "b16",
            "cvt.rn.satfinite.e4m3x2.f32 %q, %a, %b;",
            [f(1000.0), f(1.0), 0]
        ),
        0x7e38
    );
    assert_eq!(
        one("b32", "b16", "cvt.rn.f16.f32 %q, %a;", [f(65_520.0), 0, 0]),
        0x7c00
    );
    assert_eq!(
        one("b32", "b16", "cvt.rz.f16.f32 %q, %a;", [f(65_535.0), 0, 0]),
        0x7bff
    );
    let d = f64::to_bits;
    let double: &[(&str, [u64; 3], u64)] = &[
        (
            "fma.rn.f64 %q, %a, %b, %c;",
            [d(3.0), d(4.0), d(5.0)],
            d(17.0),
        ),
        (
            "add.rp.f64 %q, %a, %b;",
            [d(1.0), d(1e-300), 0],
            d(1f64.next_up()),
        ),
        ("div.rn.f64 %q, %a, %b;", [d(1.0), d(3.0), 0], d(1.0 / 3.0)),
        ("min.f64 %q, %a, %b;", [d(f64::NAN), d(2.0), 0], d(2.0)),
        ("cvt.rni.s64.f64 %q, %a;", [d(-2.5), 0, 0], (-2i64) as u64),
        (
            "cvt.rn.f64.u64 %q, %a;",
            [u64::MAX, 0, 0],
            d(18_446_744_073_709_551_616.0),
        ),
        ("cvt.rzi.f64.f64 %q, %a;", [d(2.7), 0, 0], d(2.0)),
    ];
    for (body, input, want) in double {
        assert_eq!(
            one("b64", "b64", body, *input),
            *want,
            "{body} of {input:x?}"
        );
    }
    assert_eq!(
        one(
            "b64",
            "b32",
            "cvt.rz.f32.f64 %q, %a;",
            [d(1.0 - 1e-12), 0, 0]
        ),
        f(1f32.next_down())
    );
}

#[test]
fn approximations_stay_inside_their_documented_errors() {
    let inputs: Vec<[u64; 3]> = (0..1000)
        .map(|i| [f(-20.0 + 0.037 * i as f32), 0, 0])
        .collect();
    let against =
        |body: &str, want: fn(f64) -> f64, relative: f64, absolute: f64, keep: fn(f32) -> bool| {
            let results = lanes(Isa::detect(), "b32", "b32", body, &inputs);
            for (input, result) in inputs.iter().zip(results) {
                let (x, got) = (
                    f32::from_bits(input[0] as u32),
                    f32::from_bits(result as u32),
                );
                if keep(x) {
                    let want = want(f64::from(x));
                    let error = (f64::from(got) - want).abs();
                    assert!(
                        error <= relative * want.abs() + absolute,
                        "{body} of {x}: {got} instead of {want}"
                    );
                }
            }
        };
    let ulp = 2f64.powi(-23);
    against("ex2.approx.f32 %q, %a;", f64::exp2, 2.0 * ulp, 0.0, |_| {
        true
    });
    against(
        "lg2.approx.f32 %q, %a;",
        f64::log2,
        1e-6,
        2f64.powi(-22),
        |x| x > 0.0,
    );
    against(
        "sin.approx.f32 %q, %a;",
        f64::sin,
        0.0,
        2f64.powi(-20),
        |x| x.abs() < std::f32::consts::PI,
    );
    against(
        "cos.approx.f32 %q, %a;",
        f64::cos,
        0.0,
        2f64.powi(-20),
        |x| x.abs() < std::f32::consts::PI,
    );
    against(
        "tanh.approx.f32 %q, %a;",
        f64::tanh,
        2f64.powi(-11),
        0.0,
        |_| true,
    );
    against("rcp.approx.f32 %q, %a;", f64::recip, ulp, 0.0, |x| x != 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The vector forms, on any instruction set, are what scalar code of the host computes.
    #[test]
    fn all_instruction_sets_agree_with_the_host(seed in any::<u64>()) {
        let mut noise = corpus::Noise(seed);
        let inputs: Vec<[u64; 3]> = (0..64).map(|_| std::array::from_fn(|_| noise.next() & 0xffff_ffff)).collect();
        let canon = |value: f32| if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) };
        let g = |bits: u64| f32::from_bits(bits as u32);
        type Oracle<'a> = &'a dyn Fn([u64; 3]) -> u64;
        let cases: [(&str, Oracle<'_>); 14] = [
            ("fma.rn.f32 %q, %a, %b, %c;", &|[a, b, c]| canon(g(a).mul_add(g(b), g(c)))),
            ("mul.f32 %q, %a, %b;", &|[a, b, _]| canon(g(a) * g(b))),
            ("add.f32 %q, %a, %b;", &|[a, b, _]| canon(g(a) + g(b))),
            ("mad.lo.s32 %q, %a, %b, %c;", &|[a, b, c]| u64::from((a as u32).wrapping_mul(b as u32).wrapping_add(c as u32))),
            ("mul.hi.s32 %q, %a, %b;", &|[a, b, _]| u64::from(((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)),
            ("cvt.rzi.s32.f32 %q, %a;", &|[a, ..]| u64::from(g(a) as i32 as u32)),
            ("cvt.rzi.u32.f32 %q, %a;", &|[a, ..]| u64::from(g(a) as u32)),
            ("cvt.rni.f32.f32 %q, %a;", &|[a, ..]| canon(g(a).round_ties_even())),
            ("cvt.rzi.f32.f32 %q, %a;", &|[a, ..]| canon(g(a).trunc())),
            ("cvt.rmi.f32.f32 %q, %a;", &|[a, ..]| canon(g(a).floor())),
            ("cvt.rpi.f32.f32 %q, %a;", &|[a, ..]| canon(g(a).ceil())),
            ("cvt.rn.f32.u16 %q, %a;", &|[a, ..]| canon(f32::from(a as u16))),
            ("cvt.rn.f32.u8 %q, %a;", &|[a, ..]| canon(f32::from(a as u8))),
            ("fma.rn.f16x2 %q, %a, %b, %c;", &|_| 0),
        ];
        for (body, oracle) in cases {
            let fast = lanes(Isa::detect(), "b32", "b32", body, &inputs);
            for isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
                let found = lanes(*isa, "b32", "b32", body, &inputs);
                prop_assert_eq!(&fast, &found, "{}, {:?}", body, isa);
            }
            if !body.contains("f16x2") {
                let want: Vec<u64> = inputs.iter().map(|input| oracle(*input)).collect();
                prop_assert_eq!(&fast, &want, "{}", body);
            }
        }
    }

    /// Nothing in a damaged text may bring the parser or the lowering down.
    #[test]
    fn damaged_texts_never_panic(at in 0usize..6000, with in any::<u8>(), cut in 0usize..400) {
        let mut bytes = include_bytes!("../../../corpus/kernels/pipeline.ptx").to_vec();
        let at = at.min(bytes.len() - 1);
        bytes[at] = with;
        let end = (at + cut).min(bytes.len());
        bytes.drain(at + 1..end.max(at + 1));
        if let Ok(text) = std::str::from_utf8(&bytes) {
            // Either answer will do.
            let _ = ptx::Module::parse(text);
        }
    }
}
