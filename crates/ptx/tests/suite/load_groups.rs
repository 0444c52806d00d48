//! Groups of loads from shared memory that are checked once. With race detection, which checks each load by itself,
//! findings and counters must be the same.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::{FindingKind, LaunchReport, Outcome};
use ptx::{Checks, Isa};

const THREADS: u32 = 64;

/// The instruction sets of this processor.
fn sets() -> impl Iterator<Item = Isa> {
    Isa::ALL.iter().copied().filter(|isa| isa.is_available())
}

/// Runs a body with 4 KiB of shared memory at `%r3`, whose first `written` bytes hold words that differ. `%r4` is four
/// times the thread's number; what ends in `%f1` is stored.
fn run(written: u32, body: &str, checks: Checks, isa: Isa) -> (LaunchReport, Vec<u32>) {
    let text = kernel(&format!(
        ".shared .align 128 .b8 tile[4096];
         mov.u32 %r3, tile;
         shl.b32 %r4, %r1, 2;
         mov.f32 %f1, 0f00000000;
         add.u32 %r5, %r3, %r4;
         mov.u32 %r6, %r4;
         FILL: setp.ge.u32 %p1, %r6, {written};
         @%p1 bra FULL;
         add.u32 %r7, %r6, 1000;
         cvt.rn.f32.u32 %f2, %r7;
         st.shared.f32 [%r5], %f2;
         add.u32 %r5, %r5, {step};
         add.u32 %r6, %r6, {step};
         bra FILL;
         FULL: bar.sync 0;
         {body}
         mul.wide.u32 %rd4, %r1, 4;
         add.u64 %rd5, %rd3, %rd4;
         st.global.f32 [%rd5], %f1;",
        step = 4 * THREADS,
    ));
    let mut device = Device::new(&text);
    device.machine.use_isa(isa);
    let zeros = vec![0u32; THREADS as usize];
    let out = device.buffer("out", &zeros);
    let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
    let report = device
        .try_launch("k", [2, 1, 1], [THREADS, 1, 1], &args, |config| {
            config.checks = checks;
        })
        .expect("the launch is in order");
    (report, device.read(out, THREADS as usize))
}

/// Loads at these distances behind `%r5`, all added up.
fn loads(distances: &[i32]) -> String {
    distances
        .iter()
        .map(|behind| format!("ld.shared.f32 %f3, [%r5+{behind}];\nadd.f32 %f1, %f1, %f3;\n"))
        .collect()
}

/// The expected output of each thread: the sum of the words that it reads.
fn sums(places: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    (0..THREADS)
        .map(|thread| {
            let words = places(thread).into_iter().map(|at| (at + 1000) as f32);
            words.fold(0.0, |sum, word| sum + word).to_bits()
        })
        .collect()
}

#[test]
fn every_shape_of_addresses_reads_and_counts_as_one_by_one() {
    type Shape = (&'static str, &'static str, fn(u32) -> u32);
    let shapes: &[Shape] = &[
        ("neighbours", "add.u32 %r5, %r3, %r4;", |t| 4 * t),
        ("one word", "add.u32 %r5, %r3, 64;", |_| 64),
        (
            "one word for eight",
            "shr.u32 %r5, %r1, 3; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3;",
            |t| t / 8 * 4,
        ),
        (
            "two rows of sixteen",
            "and.b32 %r5, %r4, 63; add.u32 %r5, %r5, %r3;",
            |t| 4 * t % 64,
        ),
        (
            "one row and one word",
            "max.u32 %r5, %r4, 64; add.u32 %r5, %r5, %r3;",
            |t| (4 * t).max(64),
        ),
        (
            "every second",
            "shl.b32 %r5, %r1, 3; add.u32 %r5, %r5, %r3;",
            |t| 8 * t,
        ),
        (
            "backwards",
            "sub.u32 %r5, 252, %r4; add.u32 %r5, %r5, %r3;",
            |t| 252 - 4 * t,
        ),
    ];
    let distances = [128, 0, 4, 2048, 3000];
    for (name, address, place) in shapes {
        let body = format!("{address}\n{}", loads(&distances));
        let expected = sums(|thread| {
            let at = place(thread);
            distances.iter().map(|behind| at + *behind as u32).collect()
        });
        let (reference, _) = run(4096, &body, Checks::Full, Isa::Portable);
        for isa in sets() {
            for checks in [Checks::Off, Checks::Bounds, Checks::Full] {
                let (report, values) = run(4096, &body, checks, isa);
                assert_eq!(report, reference, "{name}, {checks:?}, {isa:?}");
                assert_eq!(values, expected, "{name}, {checks:?}, {isa:?}");
            }
        }
        assert_eq!(reference.outcome, Outcome::Completed, "{name}");
    }
}

#[test]
fn pairs_and_quads_are_read_whole() {
    for (count, registers) in [(2, "%f3,%f4"), (4, "%f3,%f4,%f5,%f6")] {
        for (name, address) in [
            ("own", "mul.lo.u32 %r5, %r1, 16;"),
            ("one", "mov.u32 %r5, 32;"),
        ] {
            let mut body = format!("{address}\nadd.u32 %r5, %r5, %r3;\n");
            for behind in [0, 16, 1024] {
                body += &format!("ld.shared.v{count}.f32 {{{registers}}}, [%r5+{behind}];\n");
                for register in registers.split(',') {
                    body += &format!("add.f32 %f1, %f1, {register};\n");
                }
            }
            let expected = sums(|thread| {
                let first = if name == "own" { 16 * thread } else { 32 };
                [0, 16, 1024]
                    .iter()
                    .flat_map(|behind| (0..count).map(move |word| first + behind + 4 * word))
                    .collect()
            });
            let (reference, _) = run(4096, &body, Checks::Full, Isa::Portable);
            for isa in sets() {
                let (report, values) = run(4096, &body, Checks::Bounds, isa);
                assert_eq!(report, reference, "{count} {name}, {isa:?}");
                assert_eq!(values, expected, "{count} {name}, {isa:?}");
            }
        }
    }
}

#[test]
fn rows_that_end_early_count_what_was_executed() {
    let own = "add.u32 %r5, %r3, %r4;\n";
    let bodies = [
        // Some lanes alone, in the middle.
        format!(
            "{own}setp.lt.u32 %p2, %r1, 5;\n{}@%p2 add.f32 %f1, %f1, %f1;\n{}",
            loads(&[0, 256]),
            loads(&[512, 768])
        ),
        // No lane, in the middle.
        format!(
            "{own}setp.gt.u32 %p2, %r1, 500;\n{}@%p2 ld.shared.f32 %f1, [%r5+4];\n{}",
            loads(&[0, 256]),
            loads(&[512])
        ),
        // A shuffle in the middle, and a load that only some lanes execute.
        format!(
            "{own}setp.lt.u32 %p2, %r1, 5;\n{}shfl.sync.bfly.b32 %r8, %r4, 16, 31, -1;\n@%p2 ld.shared.f32 %f1, [%r5];\n{}",
            loads(&[0, 256]),
            loads(&[512, 4])
        ),
        // Stores between loads change what the later ones read.
        format!(
            "{own}{}st.shared.f32 [%r5+256], %f1;\nbar.warp.sync -1;\n{}st.shared.f32 [%r5+1024], %f1;\n{}",
            loads(&[0, 512]),
            loads(&[256, 1024]),
            loads(&[1024, 0])
        ),
        // The register moves on between the loads, and the lanes' addresses spread in a loop.
        format!(
            "mov.u32 %r8, 0;\nLOOP: mad.lo.u32 %r5, %r4, %r8, %r3;\n{}add.u32 %r5, %r5, 8;\n{}add.u32 %r8, %r8, 1;\n\
             setp.lt.u32 %p2, %r8, 4;\n@%p2 bra LOOP;",
            loads(&[0, 64]),
            loads(&[0, 64, 128])
        ),
        // Half the lanes take the loop once more.
        format!(
            "mov.u32 %r8, 0;\nand.b32 %r10, %r1, 1;\nadd.u32 %r10, %r10, 3;\nLOOP:\n{own}{}add.u32 %r8, %r8, 1;\n\
             setp.lt.u32 %p2, %r8, %r10;\n@%p2 bra LOOP;\n{}",
            loads(&[0, 64]),
            loads(&[0, 128])
        ),
    ];
    for body in bodies {
        let (reference, expected) = run(4096, &body, Checks::Full, Isa::Portable);
        assert_eq!(reference.outcome, Outcome::Completed, "{body}");
        assert!(reference.findings.is_empty(), "{:#?}", reference.findings);
        for isa in sets() {
            for checks in [Checks::Off, Checks::Bounds] {
                let (report, values) = run(4096, &body, checks, isa);
                assert_eq!(report, reference, "{body}, {checks:?}, {isa:?}");
                assert_eq!(values, expected, "{body}, {checks:?}, {isa:?}");
            }
        }
    }
}

#[test]
fn what_a_later_load_does_wrong_is_found_there() {
    let cases: &[(&str, u32, &[i32], FindingKind)] = &[
        (
            "past the end",
            4096,
            &[0, 256, 4000, 8],
            FindingKind::OutOfBoundsRead,
        ),
        (
            "before the start",
            4096,
            &[0, -4, 8],
            FindingKind::OutOfBoundsRead,
        ),
        (
            "never written",
            2048,
            &[0, 256, 3000, 8],
            FindingKind::UninitialisedStore,
        ),
        ("crooked", 4096, &[0, 258, 8], FindingKind::Misaligned),
    ];
    for (name, written, distances, kind) in cases {
        let body = format!("add.u32 %r5, %r3, %r4;\n{}", loads(distances));
        let (reference, _) = run(*written, &body, Checks::Full, Isa::Portable);
        assert_eq!(kinds(&reference), [*kind], "{name}");
        for isa in sets() {
            let (report, _) = run(*written, &body, Checks::Bounds, isa);
            assert_eq!(report, reference, "{name}, {isa:?}");
        }
    }
}
