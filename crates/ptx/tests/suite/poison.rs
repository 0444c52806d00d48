//! Tests that uninitialised bits are tracked one by one: the initialised half of a word that was packed with an undefined
//! one is as good as before, and the other half stays a finding wherever it goes.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::{FindingKind, Outcome};

/// Runs a body on 32 threads. `%r10`, `%h10` and `%f10` hold what nobody initialised, `%r11` and `%h11` the thread's
/// number; %rd4 and %rd6 are the addresses of the thread's word in `a`, which holds the thread's number too, and `out`.
fn run(body: &str) -> (Vec<FindingKind>, Vec<u32>) {
    let text = kernel(&format!(
        ".shared .align 16 .b8 s[256];\n.local .align 8 .b8 l[16];\nshl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd7, %r2;\n\
         add.s64 %rd4, %rd1, %rd7;\nadd.s64 %rd5, %rd2, %rd7;\nadd.s64 %rd6, %rd3, %rd7;\nld.global.u32 %r10, [%rd5];\n\
         cvt.u16.u32 %h10, %r10;\nmov.b32 %f10, %r10;\nld.global.u32 %r11, [%rd4];\ncvt.u16.u32 %h11, %r11;\n{body}"
    ));
    let mut device = Device::new(&text);
    let words: Vec<u32> = (0..32).collect();
    let (a, b, out) = (
        device.buffer("a", &words),
        device.fresh("b", 128),
        device.fresh("out", 128),
    );
    let args = [Arg::Pointer(a), Arg::Pointer(b), Arg::Pointer(out)];
    let report = device.launch("k", 1, 32, &args);
    assert_eq!(report.outcome, Outcome::Completed, "{body}");
    (kinds(&report), device.read(out, 32))
}

/// Ways to take a part out of a value into `%r20`, and to put parts together; what is found if `%r20` is stored.
struct MemoryPath {
    name: &'static str,
    body: &'static str,
    /// The value that a thread stores; none if it is not initialised.
    value: Option<fn(u32) -> u32>,
}

const fn good(name: &'static str, body: &'static str, value: fn(u32) -> u32) -> MemoryPath {
    MemoryPath {
        name,
        body,
        value: Some(value),
    }
}

const fn bad(name: &'static str, body: &'static str) -> MemoryPath {
    MemoryPath {
        name,
        body,
        value: None,
    }
}

const WAYS: &[MemoryPath] = &[
    good(
        "the lower half of a pair of words",
        "mov.b64 %rd20, {%r11, %r10};\nmov.b64 {%r20, %r21}, %rd20;",
        |t| t,
    ),
    bad(
        "the upper half of a pair of words",
        "mov.b64 %rd20, {%r11, %r10};\nmov.b64 {%r21, %r20}, %rd20;",
    ),
    good(
        "the upper half, by a shift",
        "mov.b64 %rd20, {%r10, %r11};\nshr.u64 %rd20, %rd20, 32;\ncvt.u32.u64 %r20, %rd20;",
        |t| t,
    ),
    bad(
        "the lower half, by a conversion",
        "mov.b64 %rd20, {%r10, %r11};\ncvt.u32.u64 %r20, %rd20;",
    ),
    good(
        "the lower half of a pair of halves",
        "mov.b32 %r21, {%h11, %h10};\nand.b32 %r20, %r21, 0xffff;",
        |t| t,
    ),
    good(
        "the upper half of a pair of halves",
        "mov.b32 %r21, {%h10, %h11};\nshr.u32 %r20, %r21, 16;",
        |t| t,
    ),
    bad(
        "both halves of a pair of halves",
        "mov.b32 %r20, {%h11, %h10};",
    ),
    good(
        "halves taken apart",
        "mov.b32 %r21, {%h11, %h10};\nmov.b32 {%h1, %h2}, %r21;\ncvt.u32.u16 %r20, %h1;",
        |t| t,
    ),
    bad(
        "the wrong half of them",
        "mov.b32 %r21, {%h11, %h10};\nmov.b32 {%h1, %h2}, %r21;\ncvt.u32.u16 %r20, %h2;",
    ),
    good(
        "bytes that prmt picks",
        "prmt.b32 %r20, %r11, %r10, 0x3210;",
        |t| t,
    ),
    good(
        "bytes packed by prmt and picked again",
        "prmt.b32 %r21, %r10, %r11, 0x5410;\nprmt.b32 %r20, %r21, 0, 0x4432;",
        |t| t,
    ),
    bad(
        "one byte too many that prmt picks",
        "prmt.b32 %r20, %r11, %r10, 0x4210;",
    ),
    good(
        "an `and` with false",
        "and.b32 %r21, %r10, 0xff00;\nand.b32 %r21, %r21, 0xff;\nadd.u32 %r20, %r21, %r11;",
        |t| t,
    ),
    bad(
        "an `and` with true",
        "and.b32 %r21, %r10, 1;\nadd.u32 %r20, %r21, %r11;",
    ),
    good(
        "an `or` with true",
        "or.b32 %r21, %r10, -1;\nadd.u32 %r20, %r21, %r11;",
        |t| t.wrapping_sub(1),
    ),
    bad("an `or` with false", "or.b32 %r20, %r10, %r11;"),
    good(
        "an `and` of 64 bits",
        "mov.b64 %rd20, {%r11, %r10};\nand.b64 %rd20, %rd20, 0xffffffff;\nshl.b64 %rd21, %rd20, 32;\nor.b64 %rd20, %rd20, %rd21;\nshr.u64 %rd20, %rd20, 32;\ncvt.u32.u64 %r20, %rd20;",
        |t| t,
    ),
    good(
        "a field inserted and extracted",
        "bfi.b32 %r21, %r11, %r10, 8, 8;\nbfe.u32 %r20, %r21, 8, 8;",
        |t| t,
    ),
    bad(
        "the bits beside the field",
        "bfi.b32 %r21, %r11, %r10, 8, 8;\nbfe.u32 %r20, %r21, 7, 8;",
    ),
    good(
        "a shift out and in",
        "shl.b32 %r21, %r10, 24;\nor.b32 %r21, %r21, %r11;\nand.b32 %r20, %r21, 255;",
        |t| t,
    ),
    bad("a shift by what is not known", "shr.u32 %r20, %r11, %r10;"),
    good(
        "a funnel shift",
        "shf.r.wrap.b32 %r20, %r11, %r10, 0;",
        |t| t,
    ),
    good(
        "a selection of the better one",
        "setp.lt.u32 %p1, %r11, 99;\nselp.b32 %r20, %r11, %r10, %p1;",
        |t| t,
    ),
    bad(
        "a selection of the worse one",
        "setp.lt.u32 %p1, %r11, 9;\nselp.b32 %r20, %r11, %r10, %p1;",
    ),
    good(
        "a choice that makes no difference",
        "setp.lt.u32 %p1, %r10, 9;\nselp.b32 %r20, %r11, %r11, %p1;",
        |t| t,
    ),
    good(
        "a narrowing conversion",
        "bfi.b32 %r21, %r10, %r11, 16, 16;\ncvt.u32.u16 %r20, %h11;\ncvt.u8.u32 %h1, %r21;\ncvt.u32.u16 %r20, %h1;",
        |t| t,
    ),
    bad(
        "a conversion that keeps too much",
        "bfi.b32 %r21, %r10, %r11, 4, 8;\ncvt.u32.u8 %r20, %r21;",
    ),
    good(
        "a logic table",
        "lop3.b32 %r20, %r10, %r11, 0, 0x0c;\nlop3.b32 %r21, %r10, 0, %r11, 0xaa;\nmov.u32 %r20, %r21;",
        |t| t,
    ),
    bad(
        "a difference with itself of two that are not known",
        "shl.b32 %r21, %r10, 1;\nxor.b32 %r20, %r21, %r10;",
    ),
    good(
        "a sum below what is not known",
        "shl.b32 %r21, %r10, 16;\nadd.u32 %r21, %r21, %r11;\nand.b32 %r20, %r21, 0xffff;",
        |t| t,
    ),
    bad(
        "a sum above what is not known",
        "and.b32 %r21, %r10, 1;\nadd.u32 %r21, %r21, %r11;\nshr.u32 %r20, %r21, 8;",
    ),
    good(
        "one of two halves that are added",
        "cvt.rn.f16x2.f32 %r21, %f10, 0f3F800000;\nadd.rn.f16x2 %r21, %r21, %r21;\nand.b32 %r20, %r21, 0xffff;",
        |_| 0x4000,
    ),
    bad(
        "the other one of them",
        "cvt.rn.f16x2.f32 %r21, %f10, 0f3F800000;\nadd.rn.f16x2 %r21, %r21, %r21;\nshr.u32 %r20, %r21, 16;",
    ),
    good(
        "a predicate that false decides",
        "setp.lt.u32 %p1, %r10, 9;\nsetp.gt.u32 %p2, %r11, 99;\nand.pred %p3, %p1, %p2;\nselp.b32 %r20, 1, 0, %p3;",
        |_| 0,
    ),
    good(
        "a predicate that true decides",
        "setp.lt.u32 %p1, %r10, 9;\nsetp.lt.u32 %p2, %r11, 99;\nor.pred %p3, %p1, %p2;\nselp.b32 %r20, 1, 0, %p3;",
        |_| 1,
    ),
    bad(
        "a predicate that nothing decides",
        "setp.lt.u32 %p1, %r10, 9;\nsetp.lt.u32 %p2, %r11, 99;\nand.pred %p3, %p1, %p2;\nselp.b32 %r20, 1, 0, %p3;",
    ),
    good(
        "a byte of shared memory",
        "mov.b32 %r21, {%h11, %h10};\nst.shared.u32 [%r2], %r21;\nld.shared.u16 %h1, [%r2];\ncvt.u32.u16 %r20, %h1;",
        |t| t,
    ),
    bad(
        "the other bytes of shared memory",
        "mov.b32 %r21, {%h11, %h10};\nst.shared.u32 [%r2], %r21;\nld.shared.u16 %h1, [%r2+2];\ncvt.u32.u16 %r20, %h1;",
    ),
    good(
        "bytes that were written, in a word of shared memory",
        "st.shared.u16 [%r2], %h11;\nld.shared.u32 %r21, [%r2];\nand.b32 %r20, %r21, 0xffff;",
        |t| t,
    ),
    good(
        "bytes that were written, on the stack",
        "st.local.u16 [l+2], %h11;\nld.local.u32 %r21, [l];\nshr.u32 %r20, %r21, 16;",
        |t| t,
    ),
    bad(
        "bytes that were not, on the stack",
        "st.local.u16 [l+2], %h11;\nld.local.u32 %r20, [l];",
    ),
    good(
        "half of a word on the stack",
        "mov.b32 %r21, {%h10, %h11};\nst.local.u32 [l], %r21;\nld.local.u16 %h1, [l+2];\ncvt.u32.u16 %r20, %h1;",
        |t| t,
    ),
    good(
        "half of a word that was shuffled",
        "mov.b32 %r21, {%h11, %h10};\nshfl.sync.bfly.b32 %r21, %r21, 1, 31, -1;\nand.b32 %r20, %r21, 0xffff;",
        |t| t ^ 1,
    ),
    bad(
        "the other half of it",
        "mov.b32 %r21, {%h11, %h10};\nshfl.sync.bfly.b32 %r21, %r21, 1, 31, -1;\nshr.u32 %r20, %r21, 16;",
    ),
    good(
        "the known rows of a matrix that was transposed",
        "shr.u32 %r21, %r1, 2;\nand.b32 %r21, %r21, 1;\nsetp.eq.u32 %p1, %r21, 0;\nselp.b32 %r21, %r11, %r10, %p1;\n\
         movmatrix.sync.aligned.m8n8.trans.b16 %r21, %r21;\nand.b32 %r20, %r21, 0xffff;",
        |t| {
            if t / 4 % 2 == 0 {
                8 * (t % 4) + t / 8
            } else {
                0
            }
        },
    ),
    bad(
        "the other rows of it",
        "shr.u32 %r21, %r1, 2;\nand.b32 %r21, %r21, 1;\nsetp.eq.u32 %p1, %r21, 0;\nselp.b32 %r21, %r11, %r10, %p1;\n\
         movmatrix.sync.aligned.m8n8.trans.b16 %r21, %r21;\nshr.u32 %r20, %r21, 16;",
    ),
    bad(
        "the sign of a byte that is not known",
        "shl.b32 %r21, %r10, 15;\nor.b32 %r21, %r21, %r11;\ncvt.s64.s32 %rd20, %r21;\nshr.s64 %rd20, %rd20, 40;\ncvt.u32.u64 %r20, %rd20;",
    ),
];

#[test]
fn poison_follows_the_bits() {
    let mut wrong = Vec::new();
    for way in WAYS {
        let (found, values) = run(&format!("{}\nst.global.u32 [%rd6], %r20;", way.body));
        match way.value {
            Some(value) => {
                let want: Vec<u32> = (0..32).map(value).collect();
                assert_eq!(values, want, "{}", way.name);
                if !found.is_empty() {
                    wrong.push(format!("{}: {found:?}", way.name));
                }
            }
            None if found != [FindingKind::UninitialisedStore] => {
                wrong.push(format!("{}: {found:?}", way.name));
            }
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn branches_and_addresses_depend_on_known_bits_only() {
    let known = "mov.b64 %rd20, {%r11, %r10};\nmov.b64 {%r20, %r21}, %rd20;\nsetp.lt.u32 %p1, %r20, 16;\n\
                 @%p1 bra END;\nst.global.u32 [%rd6], %r11;\nEND:";
    assert_eq!(run(known).0, []);
    let unknown = known.replace("setp.lt.u32 %p1, %r20", "setp.lt.u32 %p1, %r21");
    assert_eq!(run(&unknown).0, [FindingKind::UninitialisedBranch]);
    let address = "mov.b32 %r21, {%h11, %h10};\nand.b32 %r21, %r21, 31;\nshl.b32 %r21, %r21, 2;\n\
                   ld.shared.u32 %r22, [%r2+0];\nst.shared.u32 [%r21], %r11;";
    assert_eq!(run(address).0, []);
    let masked_too_late =
        "and.b32 %r21, %r10, 31;\nshl.b32 %r21, %r21, 2;\nst.shared.u32 [%r21], 5;";
    assert!(
        run(masked_too_late)
            .0
            .contains(&FindingKind::UninitialisedAddress)
    );
}
