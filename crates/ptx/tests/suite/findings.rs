//! Planted mistakes, each of which must get exactly its finding, and honest code beside them that must get none.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::{FindingKind, Outcome};

/// Runs a body with 64 words in `a`, 64 uninitialised words in `b` and 64 words of output.
fn run(body: &str, blocks: u32, threads: u32) -> ptx::report::LaunchReport {
    let mut device = Device::new(&kernel(body));
    let words: Vec<u32> = (0..64).collect();
    let (a, b, out) = (
        device.buffer("a", &words),
        device.fresh("b", 256),
        device.fresh("out", 256),
    );
    let args = [Arg::Pointer(a), Arg::Pointer(b), Arg::Pointer(out)];
    device
        .try_launch("k", [blocks, 1, 1], [threads, 1, 1], &args, |config| {
            config.budget = Some(3_000_000);
        })
        .expect("the kernel runs")
}

/// The address of this thread's word in each buffer: %rd4, %rd5, %rd6, and its byte offset in %r2.
const MINE: &str = "shl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd7, %r2;\nadd.s64 %rd4, %rd1, %rd7;\nadd.s64 %rd5, %rd2, %rd7;\n\
                    add.s64 %rd6, %rd3, %rd7;\n";

fn mine(body: &str) -> String {
    format!(".shared .align 16 .b8 s[1024];\n{MINE}{body}")
}

/// The mistake in words, the body, blocks, threads, and the expected findings and outcome.
type Mistake<'a> = (&'a str, &'a str, u32, u32, &'a [FindingKind], Outcome);

/// A thread's own word in shared and in local memory, raised by one each time, from what is there.
const COUNTS: &str = "ld.shared.u32 %r3, [%r2];\nadd.u32 %r3, %r3, 1;\nst.shared.u32 [%r2], %r3;\n\
                      ld.local.u32 %r4, [l];\nadd.u32 %r4, %r4, 1;\nst.local.u32 [l], %r4;\n\
                      st.global.u32 [%rd5], %r3;\nst.global.u32 [%rd6], %r4;";

#[test]
fn memory_is_new_to_every_block_unless_it_is_to_keep_what_was_left() {
    let body = mine(&format!(".local .align 4 .b8 l[4];\n{COUNTS}"));
    let mut device = Device::new(&kernel(&body));
    let a = device.buffer("a", &[0_u32; 64]);
    let (shared, local) = (device.fresh("b", 256), device.fresh("out", 256));
    let args = [Arg::Pointer(a), Arg::Pointer(shared), Arg::Pointer(local)];
    let report = device.launch("k", 1, 64, &args);
    assert!(!report.findings.is_empty(), "nobody has written there");
    device.machine.keep_leftovers();
    let mut launch = || {
        device.honest("k", [1, 1, 1], [64, 1, 1], &args, |_| {});
        let [shared, local] = [shared, local].map(|buffer| device.read::<u32>(buffer, 64));
        assert!(shared.iter().chain(&local).all(|count| *count == shared[0]));
        shared[0]
    };
    let first = launch();
    assert_eq!(launch(), first.wrapping_add(1));
    assert_eq!(launch(), first.wrapping_add(2));
}

#[test]
fn planted_mistakes_get_exactly_their_finding() {
    use FindingKind as F;
    let cases: &[Mistake<'_>] = &[
        (
            "read past the end",
            "ld.global.u32 %r3, [%rd4+4];",
            1,
            64,
            &[F::OutOfBoundsRead],
            Outcome::IllegalAddress,
        ),
        (
            "write before the start",
            "st.global.u32 [%rd6+-4], %r1;",
            1,
            32,
            &[F::OutOfBoundsWrite],
            Outcome::IllegalAddress,
        ),
        (
            "null pointer",
            "mov.u64 %rd8, 0;\nld.global.u32 %r3, [%rd8];",
            1,
            1,
            &[F::IllegalAddress],
            Outcome::IllegalAddress,
        ),
        (
            "misaligned",
            "ld.global.v2.u32 {%r3, %r4}, [%rd4];",
            1,
            2,
            &[F::Misaligned],
            Outcome::MisalignedAddress,
        ),
        (
            "half the address space apart, the first lane inside",
            "setp.eq.u32 %p1, %r1, 1;\nadd.s64 %rd8, %rd4, 0x8000000000000000;\nselp.b64 %rd8, %rd8, %rd4, %p1;\n\
             ld.global.u32 %r3, [%rd8];",
            1,
            32,
            &[F::OutOfBoundsRead],
            Outcome::IllegalAddress,
        ),
        (
            "half the address space apart, the first lane outside",
            "setp.eq.u32 %p1, %r1, 0;\nmov.u64 %rd8, 64;\nadd.s64 %rd9, %rd4, 0x8000000000000000;\n\
             selp.b64 %rd8, %rd8, %rd4, %p1;\nsetp.eq.u32 %p1, %r1, 1;\nselp.b64 %rd8, %rd9, %rd8, %p1;\n\
             st.global.u32 [%rd8], %r1;",
            1,
            32,
            &[F::IllegalAddress],
            Outcome::IllegalAddress,
        ),
        (
            "shared, half the address space apart",
            "setp.eq.u32 %p1, %r1, 0;\nmov.u64 %rd8, 16;\nselp.b64 %rd8, -8, %rd8, %p1;\n\
             setp.eq.u32 %p1, %r1, 1;\nselp.b64 %rd8, 0x7ffffffffffffff8, %rd8, %p1;\nst.shared.u32 [%rd8], %r1;",
            1,
            32,
            &[F::OutOfBoundsWrite],
            Outcome::IllegalAddress,
        ),
        (
            "shared out of bounds",
            "st.shared.u32 [%r2+900], %r1;",
            1,
            64,
            &[F::OutOfBoundsWrite],
            Outcome::IllegalAddress,
        ),
        ("trap", "trap;", 1, 1, &[F::Trap], Outcome::Trapped),
        (
            "uninitialised memory reaches the output",
            "ld.global.u32 %r3, [%rd5];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%rd6], %r3;",
            1,
            32,
            &[F::UninitialisedStore],
            Outcome::Completed,
        ),
        (
            "uninitialised shared memory decides a branch",
            "ld.shared.u32 %r3, [%r2];\nsetp.eq.u32 %p1, %r3, 5;\n@%p1 bra END;\nst.global.u32 [%rd6], %r1;\nEND:",
            1,
            32,
            &[F::UninitialisedBranch],
            Outcome::Completed,
        ),
        (
            "an undefined register reaches the output",
            "st.global.u32 [%rd6], %r9;",
            1,
            32,
            &[F::UninitialisedStore],
            Outcome::Completed,
        ),
        (
            "uninitialised address",
            "ld.global.u32 %r3, [%rd5];\nand.b32 %r3, %r3, 60;\ncvt.u64.u32 %rd8, %r3;\nadd.u64 %rd8, %rd3, %rd8;\nst.global.u32 [%rd8], 1;",
            1,
            1,
            &[F::UninitialisedAddress],
            Outcome::Completed,
        ),
        (
            "an asynchronous copy of what another block writes",
            "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 st.global.u32 [%rd5], %r1;\n@%p1 bra END;\n\
             cp.async.ca.shared.global [%r2], [%rd5], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
             ld.shared.u32 %r4, [%r2];\nst.global.u32 [%rd6], %r4;\nEND:",
            2,
            32,
            &[F::GlobalRace],
            Outcome::Completed,
        ),
        (
            "a write to what another block copies asynchronously",
            "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 1;\n@%p1 st.global.u32 [%rd4], %r3;\n@%p1 bra END;\n\
             cp.async.ca.shared.global [%r2], [%rd4], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
             ld.shared.u32 %r4, [%r2];\nst.global.u32 [%rd6], %r4;\nEND:",
            2,
            32,
            &[F::GlobalRace],
            Outcome::Completed,
        ),
        (
            "missing barrier",
            "st.shared.u32 [%r2], %r1;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
            1,
            64,
            // One mistake: that a warp reads too early, and what nobody wrote yet, are the other sides of it.
            &[F::SharedRace],
            Outcome::Completed,
        ),
        (
            "missing warp synchronisation",
            "st.shared.u32 [%r2], %r1;\nxor.b32 %r3, %r2, 4;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
            1,
            32,
            &[F::WarpRace],
            Outcome::Completed,
        ),
        (
            "overwritten before all have read",
            "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.shared.u32 [%r2], 7;\nst.global.u32 [%rd6], %r4;",
            1,
            64,
            // The late warp reads what is overwritten already, and overwrites what the early one read.
            &[F::SharedRace],
            Outcome::Completed,
        ),
        (
            "two blocks write one word",
            "mov.u32 %r3, %ctaid.x;\nst.global.u32 [%rd6], %r3;",
            2,
            1,
            &[F::GlobalRace],
            Outcome::Completed,
        ),
        (
            "one block reads what another writes",
            "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 st.global.u32 [%rd6], 1;\n@!%p1 ld.global.u32 %r4, [%rd6];",
            2,
            1,
            &[F::GlobalRace],
            Outcome::Completed,
        ),
        (
            "warps meet in different barriers",
            "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW: bar.sync 0;\nEND:",
            1,
            64,
            &[F::DivergentBarrier],
            Outcome::Completed,
        ),
        (
            "unequal trip counts",
            "shr.u32 %r3, %r1, 5;\nadd.u32 %r3, %r3, 1;\nL: bar.sync 0;\nsub.u32 %r3, %r3, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra L;",
            1,
            64,
            &[F::DivergentBarrier],
            Outcome::Completed,
        ),
        (
            "a barrier nobody else comes to",
            "bar.sync 1, 96;",
            1,
            64,
            &[F::Deadlock],
            Outcome::Deadlock,
        ),
        (
            "a loop without end",
            "L: add.u32 %r3, %r3, 1;\nbra L;",
            1,
            32,
            &[F::BudgetExhausted],
            Outcome::BudgetExhausted,
        ),
        (
            "a loop without end around a barrier",
            "L: bar.sync 0;\nbra L;",
            1,
            64,
            &[F::BudgetExhausted],
            Outcome::BudgetExhausted,
        ),
        (
            "a copy nobody waited for",
            "cvta.to.global.u64 %rd8, %rd4;\ncp.async.ca.shared.global [%r2], [%rd8], 4;\ncp.async.commit_group;\n\
             ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd6], %r3;",
            1,
            32,
            &[F::UnawaitedCopy],
            Outcome::Completed,
        ),
        (
            "a wait that is one group short",
            "cp.async.ca.shared.global [%r2], [%rd4], 4;\ncp.async.commit_group;\ncp.async.wait_group 1;\n\
             ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd6], %r3;",
            1,
            32,
            &[F::UnawaitedCopy],
            Outcome::Completed,
        ),
        (
            "a shuffle from a lane that is not there",
            "setp.gt.u32 %p1, %r1, 15;\n@%p1 bra END;\nshfl.sync.idx.b32 %r3, %r1, 20, 31, 0xffff;\nst.global.u32 [%rd6], %r3;\nEND:",
            1,
            32,
            &[F::UninitialisedStore],
            Outcome::Completed,
        ),
    ];
    for (name, body, blocks, threads, wants, outcome) in cases {
        let report = run(&mine(body), *blocks, *threads);
        assert_eq!(
            (kinds(&report), &report.outcome),
            (wants.to_vec(), outcome),
            "{name}: {:#?}",
            report.findings
        );
        for finding in &report.findings {
            assert!(
                finding.location.ptx_line > 0 && !finding.message.is_empty(),
                "{name}"
            );
        }
    }
}

#[test]
fn a_missing_block_barrier_is_not_blamed_on_the_warp() {
    // Every thread reads its right neighbour's word: most neighbours are in the same warp, one in 32 is not.
    let report = run(
        &mine(
            "st.shared.u32 [%r2], %r1;\nadd.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 255;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
        ),
        1,
        64,
    );
    let [finding] = &report.findings[..] else {
        panic!("{:#?}", report.findings)
    };
    assert_eq!(finding.kind, FindingKind::SharedRace);
    assert!(
        finding.message.contains("__syncthreads()") && !finding.message.contains("__syncwarp()"),
        "{}",
        finding.message
    );
    assert!(finding.occurrences >= 4, "{}", finding.occurrences);
    // In a block of one warp the same code lacks a warp's synchronisation only.
    let alone = run(
        &mine(
            "st.shared.u32 [%r2], %r1;\nadd.u32 %r3, %r2, 4;\nand.b32 %r3, %r3, 127;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
        ),
        1,
        32,
    );
    assert_eq!(kinds(&alone), [FindingKind::WarpRace]);
}

#[test]
fn two_mistakes_stay_two_findings() {
    // A value that was never written anywhere, beside a missing barrier: neither explains the other.
    let report = run(
        &mine(
            "ld.shared.u32 %r5, [%r2+512];\nst.global.u32 [%rd6], %r5;\nst.shared.u32 [%r2], %r1;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
        ),
        1,
        64,
    );
    assert_eq!(
        kinds(&report),
        [FindingKind::UninitialisedStore, FindingKind::SharedRace]
    );
}

#[test]
fn honest_code_gets_no_finding() {
    let cases: &[(&str, &str, u32, u32)] = &[
        (
            "garbage that a selection masks",
            "ld.global.u32 %r3, [%rd5];\nmul.lo.u32 %r3, %r3, 3;\nsetp.lt.u32 %p1, %r1, 100;\nselp.u32 %r4, %r1, %r3, %p1;\nst.global.u32 [%rd6], %r4;",
            1,
            64,
        ),
        (
            "an address of which nothing uninitialised is left",
            "ld.global.u32 %r3, [%rd5];\nand.b32 %r3, %r3, 0;\ncvt.u64.u32 %rd8, %r3;\nadd.u64 %rd8, %rd3, %rd8;\nst.global.u32 [%rd8], 1;",
            1,
            1,
        ),
        (
            "a barrier between write and read",
            "st.shared.u32 [%r2], %r1;\nbar.sync 0;\nxor.b32 %r3, %r2, 128;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
            1,
            64,
        ),
        (
            "a warp synchronisation between write and read",
            "st.shared.u32 [%r2], %r1;\nbar.warp.sync -1;\nxor.b32 %r3, %r2, 4;\nld.shared.u32 %r4, [%r3];\nst.global.u32 [%rd6], %r4;",
            1,
            64,
        ),
        (
            "everyone writes the same flag",
            "st.shared.u32 [s], 1;\nbar.sync 0;\nld.shared.u32 %r3, [s];\nst.global.u32 [%rd6], %r3;",
            1,
            64,
        ),
        (
            "an early exit before a barrier",
            "setp.gt.u32 %p1, %r1, 40;\n@%p1 exit;\nbar.sync 0;\nst.global.u32 [%rd6], %r1;",
            1,
            64,
        ),
        (
            "halves of the block at barriers of their own",
            "shr.u32 %r3, %r1, 5;\nadd.u32 %r3, %r3, 1;\nbar.sync %r3, 32;\nst.global.u32 [%rd6], %r1;",
            1,
            64,
        ),
        (
            "a lock between lanes of one warp",
            "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra SKIP;\nst.shared.u32 [s], 0;\nSKIP: bar.sync 0;\n\
             TRY: atom.shared.cas.b32 %r3, [s], 0, 1;\nsetp.ne.u32 %p2, %r3, 0;\n@%p2 bra TRY;\natom.shared.exch.b32 %r4, [s], 0;\n\
             st.global.u32 [%rd6], %r1;",
            1,
            32,
        ),
        (
            "blocks that write bytes side by side",
            "mov.u32 %r3, %ctaid.x;\ncvt.u64.u32 %rd8, %r3;\nadd.u64 %rd8, %rd3, %rd8;\nst.global.u8 [%rd8], %r3;",
            8,
            1,
        ),
        (
            "what was there before, through the cache for what nobody writes, beside what is written",
            "add.u64 %rd8, %rd1, 128;\nadd.u64 %rd8, %rd8, %rd7;\nst.global.u32 [%rd8], 7;\nbar.sync 0;\n\
             ld.global.nc.u32 %r3, [%rd4];\nst.global.u32 [%rd6], %r3;",
            1,
            32,
        ),
        (
            "blocks that count for themselves alone, each in a word of its own",
            "mov.u32 %r3, %ctaid.x;\nshl.b32 %r3, %r3, 2;\ncvt.u64.u32 %rd8, %r3;\nadd.u64 %rd8, %rd1, %rd8;\n\
             red.relaxed.cta.global.add.u32 [%rd8], 1;",
            8,
            32,
        ),
        (
            "a copy that was waited for",
            "cp.async.ca.shared.global [%r2], [%rd4], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\n\
             ld.shared.u32 %r3, [%r2];\nst.global.u32 [%rd6], %r3;",
            1,
            32,
        ),
    ];
    for (name, body, blocks, threads) in cases {
        let report = run(&mine(body), *blocks, *threads);
        assert_eq!(
            (kinds(&report), &report.outcome),
            (vec![], &Outcome::Completed),
            "{name}: {:#?}",
            report.findings
        );
    }
}

#[test]
fn a_finding_names_buffer_place_and_thread() {
    let report = run(&mine("ld.global.u32 %r3, [%rd4+8];"), 1, 64);
    let finding = &report.findings[0];
    assert_eq!((finding.block, finding.thread), ([0, 0, 0], [62, 0, 0]));
    let access = finding.access.as_ref().unwrap();
    assert_eq!(
        (
            access.buffer.as_deref(),
            access.offset,
            access.buffer_bytes,
            access.bytes
        ),
        (Some("a"), 256, Some(256), 4)
    );
    assert!(
        finding.message.contains("`a`") && finding.message.contains("256"),
        "{}",
        finding.message
    );
}

#[test]
fn repeated_findings_are_counted_not_listed() {
    let report = run(
        &mine("ld.global.u32 %r3, [%rd5];\nst.global.u32 [%rd6], %r3;"),
        1,
        64,
    );
    assert_eq!(
        (report.findings.len(), report.findings[0].occurrences),
        (1, 2)
    );
}

#[test]
fn text_whose_arguments_lie_nowhere_is_printed_as_zeros() {
    // The last address there is, so that nothing behind it exists either; and the far end of each kind of memory.
    for arguments in [
        "0xfffffffffffffffc",
        "0xfffffffffffffff8",
        "0x7fffffffffffffff",
        "0",
    ] {
        let text = kernel(&format!(
            "{{\n.param .b64 f;\n.param .b64 a;\n.param .b32 r;\nmov.u64 %rd8, format;\ncvta.global.u64 %rd8, %rd8;\n\
             mov.u64 %rd9, {arguments};\nst.param.b64 [f], %rd8;\nst.param.b64 [a], %rd9;\n\
             call.uni (r), vprintf, (f, a);\n}}"
        ))
        .replace(
            ".visible .entry k",
            ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n\
             .global .align 1 .b8 format[12] = {37, 100, 32, 37, 115, 32, 37, 108, 108, 100, 10, 0};\n.visible .entry k",
        );
        let mut device = Device::new(&text);
        let args = [Arg::Pointer(0), Arg::Pointer(0), Arg::Pointer(0)];
        let report = device
            .try_launch("k", [1, 1, 1], [1, 1, 1], &args, |_| {})
            .expect("the kernel runs");
        assert_eq!(report.printed, "0  0\n", "arguments at {arguments}");
    }
}

#[test]
fn unwritten_output_is_known_to_the_host() {
    let mut device = Device::new(&kernel(&mine(
        "setp.lt.u32 %p1, %r1, 10;\n@%p1 st.global.u32 [%rd6], %r1;",
    )));
    let (a, out) = (device.buffer("a", &[0u32; 64]), device.fresh("out", 256));
    let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(out)];
    device.launch("k", 1, 64, &args);
    let missing = device.machine.unwritten(out, 256).unwrap();
    assert_eq!((missing.count, missing.first), (216, Some(40)));
}

#[test]
fn lanes_of_one_warp_wait_for_each_other_at_an_mbarrier() {
    // The first half asks until the second one has arrived, after a long loop.
    let body = mine(
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra READY;\nmbarrier.init.shared.b64 [s], 16;\nREADY: bar.warp.sync -1;\n\
         setp.lt.u32 %p1, %r1, 16;\n@%p1 bra ASK;\nmov.u32 %r3, 0;\n\
         L: add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p2, %r3, 3000;\n@%p2 bra L;\n\
         mbarrier.arrive.shared.b64 %rd20, [s];\nbra END;\n\
         ASK: mbarrier.test_wait.parity.shared.b64 %p3, [s], 0;\n@!%p3 bra ASK;\nEND: st.global.u32 [%rd6], %r1;",
    );
    let report = run(&body, 1, 32);
    assert_eq!(
        (kinds(&report), &report.outcome),
        (vec![], &Outcome::Completed),
        "{:#?}",
        report.findings
    );
}

/// A buffer whose base has less than an allocation's alignment lies some way inside one.
#[test]
fn a_buffer_begins_where_it_was_said_to() {
    let bounded = |body: &str| {
        let mut device = Device::new(&kernel(body));
        let allocation = device.buffer("a", &(0..80).collect::<Vec<u32>>());
        let a = allocation + 20;
        device.machine.begin_at(a).expect("it lies inside");
        let out = device.fresh("out", 256);
        let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(out)];
        let report = device
            .try_launch("k", [1, 1, 1], [32, 1, 1], &args, |_| ())
            .expect("the kernel runs");
        (report, device.read::<u32>(allocation, 80))
    };
    for (body, offset) in [
        ("ld.global.u32 %r3, [%rd4+-4];", -4),
        ("st.global.u32 [%rd4+-4], %r1;", -4),
        ("atom.global.add.u32 %r3, [%rd1+-20], 1;", -20),
        ("cp.async.ca.shared.global [s], [%rd1+-4], 4;", -4),
        ("ld.global.u32 %r3, [%rd4+176];", 300),
    ] {
        let (report, after) = bounded(&mine(body));
        let [finding] = report.findings.as_slice() else {
            panic!("{body}: {:?}", report.findings);
        };
        let access = finding.access.as_ref().expect("it names its memory");
        assert_eq!(
            (access.offset, access.buffer_bytes),
            (offset, Some(300)),
            "{body}"
        );
        let said = format!("at byte {offset} of `a`, which has 300 bytes");
        assert!(finding.message.contains(&said), "{}", finding.message);
        assert_eq!(report.outcome, Outcome::IllegalAddress, "{body}");
        assert_eq!(after, (0..80).collect::<Vec<u32>>(), "{body}");
    }
    let (report, after) = bounded(&mine("st.global.u32 [%rd4], %r1;"));
    assert_eq!(kinds(&report), []);
    assert_eq!(after[4..8], [4, 0, 1, 2]);
}
