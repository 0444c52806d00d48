//! Modelled times that a kernel must not fake: work that a GPU takes long for, and that one instruction of PTX hides.

use crate::support::{Arg, Device, kernel};
use proptest::prelude::*;
use ptx::model::{Cache, Footprint, Modelled, Shape, Term, modelled};

/// Declarations and addresses that all bodies share: `%rd5` is the thread's own word of `a`, `%r2` its offset.
const HEAD: &str = ".shared .align 16 .b8 s[4096];\n.local .align 8 .b8 l[64];\nmov.u32 %r5, %ctaid.x;\nshl.b32 %r2, %r1, 2;\n\
    cvt.u64.u32 %rd4, %r2;\nadd.s64 %rd5, %rd1, %rd4;\nadd.s64 %rd7, %rd3, %rd4;\nmov.u64 %rd6, c;\nadd.s64 %rd6, %rd6, %rd4;\n\
    add.u32 %r10, %r1, 7;\nadd.u32 %r11, %r1, 3;\ncvt.u64.u32 %rd10, %r10;\ncvt.u64.u32 %rd11, %r11;\n\
    st.shared.u32 [%r2], %r10;\nmov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f3F000000;\n";

/// A launch to be modelled.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    body: &'a str,
    blocks: u32,
    threads: u32,
    spilled_bytes: u32,
}

impl<'a> Run<'a> {
    fn new(body: &'a str, blocks: u32, threads: u32) -> Self {
        Self {
            body,
            blocks,
            threads,
            spilled_bytes: 0,
        }
    }

    fn modelled(self) -> Modelled {
        let l4 = ptx::device::Device::embedded("l4").expect("the L4 is embedded");
        let keep = "st.global.u32 [%rd7], %r10;\nst.global.u64 [%rd3+8192], %rd10;\nst.global.f32 [%rd7], %f1;";
        let text = kernel(&format!("{HEAD}{}\n{keep}", self.body)).replace(
            ".visible .entry",
            ".const .align 4 .b8 c[8192];\n.visible .entry",
        );
        let mut device = Device::new(&text);
        let zeros = [1_u32; 4096];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device
            .try_launch(
                "k",
                [self.blocks, 1, 1],
                [self.threads, 1, 1],
                &args,
                |config| {
                    config.latencies = l4.latencies;
                    config.core_mhz = l4.clocks.core_mhz;
                    config.multiprocessors = l4.multiprocessors;
                    config.resident_blocks = 4 * l4.multiprocessors;
                    config.checks = ptx::Checks::Bounds;
                },
            )
            .unwrap_or_else(|error| panic!("failed to {error}: {text}"));
        let shape = Shape {
            grid: [self.blocks, 1, 1],
            footprint: Footprint {
                threads: self.threads,
                registers: 64,
                shared_bytes: 4096,
            },
            spilled_bytes: self.spilled_bytes,
        };
        modelled(&report.counters, shape, &l4, Cache::Cold)
    }

    /// Modelled time without the cost of a launch.
    fn microseconds(self) -> f64 {
        let time = self.modelled();
        time.microseconds - time.launch_microseconds
    }
}

fn repeated(statement: &str, times: usize) -> String {
    format!("{statement}\n").repeat(times)
}

#[test]
fn divisions_cost_the_instructions_of_which_they_consist() {
    let time = |statement: &str| Run::new(&repeated(statement, 200), 580, 256).microseconds();
    let sum = time("add.u32 %r10, %r10, %r11;");
    let short = time("div.u32 %r10, %r10, %r11;");
    assert!(short > 8.0 * sum, "32 bits: {short} us, a sum {sum} us");
    let by_constant = time("div.u32 %r10, %r10, 3;");
    assert!(by_constant < 2.0 * sum, "{by_constant} us");
    let small = time("rem.u64 %rd10, %rd10, %rd11;");
    let large = "or.b64 %rd12, %rd10, 0x100000000;\nrem.u64 %rd10, %rd12, %rd11;";
    let large = time(large);
    assert!(
        small > short && large > 2.0 * small,
        "{short}, {small}, {large} us"
    );
}

#[test]
fn a_sleeping_warp_takes_the_time_that_it_sleeps() {
    let time = Run::new("nanosleep.u32 200000;", 1, 32).microseconds();
    assert!((200.0..220.0).contains(&time), "{time} us");
    // The PTX ISA ends every sleep after a millisecond.
    let time = Run::new("nanosleep.u32 4000000000;", 1, 32).microseconds();
    assert!((1000.0..1020.0).contains(&time), "{time} us");
}

#[test]
fn values_carried_through_memory_wait_for_it() {
    let rounds = 300;
    let cycles = |statement: &str| {
        Run::new(&repeated(statement, rounds), 1, 32).microseconds() * 2040.0 / rounds as f64
    };
    let add = "add.u32 %r10, %r10, 1;";
    let chain = cycles(&format!(
        "st.shared.u32 [%r2], %r10;\nld.shared.u32 %r10, [%r2];\n{add}"
    ));
    assert!(chain > 23.0, "{chain} cycles");
    let beside = "st.shared.u32 [%r2+2048], %r10;\nld.shared.u32 %r11, [%r2];";
    let beside = cycles(&format!("{beside}\n{add}"));
    assert!(beside < 12.0, "nothing is carried: {beside} cycles");
    let stack = cycles(&format!(
        "st.local.u32 [l], %r10;\nld.local.u32 %r10, [l];\n{add}"
    ));
    assert!(stack > 23.0, "{stack} cycles");
}

#[test]
fn a_loaded_value_is_waited_for_on_every_path() {
    let cycles = |body: &str| Run::new(body, 1, 32).microseconds() * 2040.0;
    let (load, use_it) = (
        "ld.global.u32 %r12, [%rd5];\n",
        "add.u32 %r10, %r10, %r12;\n",
    );
    let plain = cycles(&format!("{load}{use_it}"));
    let around = |chosen: &str| {
        let skip = format!("setp.{chosen}.u32 %p2, %r5, 0;\n@%p2 bra END;\n{use_it}END:\n");
        cycles(&format!("{load}{skip}{use_it}"))
    };
    // Once on either path.
    for time in [around("eq"), around("ne")] {
        assert!(
            time > plain && time < 1.5 * plain,
            "{plain} and {time} cycles"
        );
    }
    let table = format!(
        "mov.u32 %r22, 1;\n{load}TS: .branchtargets OVER, END;\nbrx.idx %r22, TS;\nOVER: bra.uni END;\n\
         {use_it}END:\n{use_it}"
    );
    assert!(
        cycles(&table) > plain,
        "{} and {plain} cycles",
        cycles(&table)
    );
    let rounds = |outer: u32, inner: u32| {
        let inner = format!(
            "mov.u32 %r21, 0;\nIN: {use_it}add.u32 %r21, %r21, 1;\nsetp.lt.u32 %p1, %r21, {inner};\n@%p1 bra IN;\n"
        );
        cycles(&format!(
            "mov.u32 %r20, 0;\nOUT: {load}{inner}add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, {outer};\n@%p1 bra OUT;\n"
        ))
    };
    // The first round of the inner loop waits, and the others do not.
    let (one, two) = (rounds(1, 1), rounds(2, 1));
    assert!(
        one > plain && two - one > 0.9 * plain,
        "{plain}, {one} and {two} cycles"
    );
    let more = rounds(2, 101) - rounds(2, 1);
    assert!(more < 200.0 * 0.2 * plain, "{plain} and {more} cycles");
}

#[test]
fn constants_are_read_one_address_after_another() {
    let time = |address: &str| {
        let body = repeated(&format!("ld.const.u32 %r10, [{address}];"), 200);
        Run::new(&body, 580, 256).microseconds()
    };
    let (same, different) = (time("c"), time("%rd6"));
    assert!(different > 10.0 * same, "{same} and {different} us");
}

#[test]
fn atomics_on_one_word_follow_each_other() {
    let time = |address: &str| {
        let body = repeated(&format!("red.global.add.u32 [{address}], 1;"), 20);
        Run::new(&body, 580, 256).modelled().microseconds
    };
    let (one, own) = (time("%rd3"), time("%rd7"));
    // 580 x 256 x 20 atomics at 2.04 GHz are 1456 us.
    assert!(one > 1456.0 && one < 1700.0, "{one} us");
    assert!(own < 0.1 * one, "{own} us");
}

#[test]
fn work_that_is_all_on_one_multiprocessor_is_not_shared_by_others() {
    let time = |chosen: &str| {
        let work = repeated("fma.rn.f32 %f1, %f1, %f2, %f2;", 1000);
        let body = format!("{chosen}\n@%p1 bra END;\n{work}\nEND:");
        Run::new(&body, 4 * 58, 1024).microseconds()
    };
    let first = time("setp.ge.u32 %p1, %r5, 4;");
    let same = time("rem.u32 %r6, %r5, 58;\nsetp.ne.u32 %p1, %r6, 0;");
    assert!(same > 2.5 * first, "{first} and {same} us");
}

#[test]
fn blocks_that_take_longest_are_best_started_first() {
    // 232 of 290 blocks are resident at once. Their rounds of the loop are 0, 4, 8... to 1,156.
    let time = |number: &str| {
        let rounds = "mov.u32 %r20, 0;\nL: setp.ge.u32 %p1, %r20, %r21;\n@%p1 bra END;\nadd.u32 %r20, %r20, 1;\n\
            mul.lo.u32 %r10, %r10, %r11;\nbra L;\nEND:";
        let body = format!("{number}\nmul.lo.u32 %r21, %r21, 4;\n{rounds}");
        Run::new(&body, 290, 32).modelled()
    };
    let last = time("mov.u32 %r21, %r5;");
    let first = time("sub.u32 %r21, 289, %r5;");
    let path = |time: &Modelled| time.terms[&Term::CriticalPath];
    // Behind the 58 shortest ones start the 58 longest ones, or the other way round.
    assert!(path(&last) > 1.1 * path(&first), "{last:?} {first:?}");
    assert!(last.microseconds > 1.1 * first.microseconds);
    let longest = time("mov.u32 %r21, 289;");
    assert!(
        (path(&longest) / path(&first) - 2.0).abs() < 0.05,
        "{longest:?} {first:?}"
    );
}

#[test]
fn code_that_is_seldom_executed_makes_no_spill_cheaper() {
    let hot = "mov.u32 %r20, 0;\nHOT: add.u32 %r10, %r10, %r11;\nmul.lo.u32 %r11, %r10, %r11;\nxor.b32 %r10, %r10, %r11;\n\
        add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p1, %r20, 500;\n@%p1 bra HOT;\n";
    let diluted = format!("{hot}{}", repeated("add.u32 %r10, %r10, 1;", 300));
    let time = |body| {
        Run {
            spilled_bytes: 64,
            ..Run::new(body, 580, 256)
        }
        .microseconds()
    };
    let (plain, diluted) = (time(hot), time(&diluted));
    assert!(diluted >= plain, "{plain} and {diluted} us");
}

/// Statements of generated kernels; `N` stands for a number of their own. As in a compiler's output, a load writes a
/// register of its own. Only `%r12` is shared, because it is loaded in one statement and used in another.
const STATEMENTS: [&str; 31] = [
    "add.u32 %r10, %r10, %r11;",
    "mul.lo.u32 %r11, %r10, %r11;",
    "fma.rn.f32 %f1, %f1, %f2, %f1;",
    "sqrt.approx.f32 %f1, %f1;",
    "div.u32 %r10, %r10, %r11;\nor.b32 %r11, %r11, 1;",
    "or.b64 %rd11, %rd11, 1;\nrem.s64 %rd10, %rd10, %rd11;",
    "or.b64 %xN, %rd10, 0x500000000;\nor.b64 %rd11, %rd11, 1;\ndiv.u64 %rd10, %xN, %rd11;",
    "cvt.rn.f32.u32 %f2, %r10;",
    "ld.global.u32 %aN, [%rd5];\nadd.u32 %r10, %r10, %aN;",
    "and.b32 %bN, %r2, 1016;\nshl.b32 %bN, %bN, 4;\nand.b32 %bN, %bN, 8188;\ncvt.u64.u32 %yN, %bN;\n\
     add.s64 %yN, %yN, %rd1;\nld.global.u32 %aN, [%yN];\nadd.u32 %r10, %r10, %aN;",
    "ld.global.v4.u32 {%aN, %bN, %cN, %eN}, [%rd1+256];\nadd.u32 %r10, %r10, %eN;",
    "st.global.u32 [%rd7], %r10;",
    "st.shared.u32 [%r2], %r10;\nld.shared.u32 %r10, [%r2];",
    "ld.shared.u32 %aN, [%r2];\nxor.b32 %r10, %r10, %aN;",
    "st.shared.u32 [%r2], %r10;\nbar.sync 0;",
    "st.local.u32 [l], %r10;\nld.local.u32 %r10, [l];",
    "red.global.add.u32 [%rd3+16], 1;",
    "atom.global.add.u32 %aN, [%rd7], 1;",
    "ld.const.u32 %aN, [%rd6];\nadd.u32 %r10, %r10, %aN;",
    "ld.const.u32 %aN, [c+16];",
    "nanosleep.u32 300;",
    "shfl.sync.bfly.b32 %r10, %r10, 1, 31, 0xffffffff;",
    "mov.u32 %iN, 0;\nLN: add.u32 %r10, %r10, %iN;\nadd.u32 %iN, %iN, 1;\nsetp.lt.u32 %p1, %iN, 40;\n@%p1 bra LN;",
    "setp.ne.u32 %p2, %r5, 0;\n@%p2 bra LN;\nmul.lo.u32 %r10, %r10, %r11;\nld.global.u32 %aN, [%rd5+1024];\n\
     add.u32 %r10, %r10, %aN;\nLN:",
    "and.b32 %jN, %r5, 31;\nmov.u32 %iN, 0;\nLN: add.u32 %r10, %r10, %iN;\nadd.u32 %iN, %iN, 1;\n\
     setp.lt.u32 %p1, %iN, %jN;\n@%p1 bra LN;",
    // No block takes the branch around the statement, and then all do.
    "setp.gt.u32 %p2, %r5, 1000;\n@%p2 bra LN;\nmul.lo.u32 %r10, %r10, %r11;\nfma.rn.f32 %f1, %f1, %f2, %f1;\nLN:",
    "setp.lt.u32 %p2, %r5, 1000;\n@%p2 bra LN;\nmul.lo.u32 %r10, %r10, %r11;\nfma.rn.f32 %f1, %f1, %f2, %f1;\nLN:",
    "mov.u32 %iN, 0;\nLN: mov.u32 %jN, 0;\nMN: add.u32 %r10, %r10, %jN;\nadd.u32 %jN, %jN, 1;\n\
     setp.lt.u32 %p1, %jN, 3;\n@%p1 bra MN;\nld.global.u32 %aN, [%rd5];\nadd.u32 %iN, %iN, 1;\n\
     setp.lt.u32 %p1, %iN, 4;\n@%p1 bra LN;\nadd.u32 %r10, %r10, %aN;",
    "ld.global.u32 %r12, [%rd5];",
    "add.u32 %r10, %r10, %r12;",
    "mov.u32 %iN, 0;\nLN: add.u32 %r11, %r11, %iN;\nadd.u32 %iN, %iN, 1;\nsetp.lt.u32 %p1, %iN, 1;\n@%p1 bra LN;",
];

fn program(statements: &[(usize, bool)], with_added: bool) -> String {
    let own = ["a", "b", "c", "e", "i", "j"].map(|name| format!(".reg .b32 %{name}<40>;\n"));
    let declared = own.concat() + ".reg .b64 %x<40>;\n.reg .b64 %y<40>;\n";
    let kept = statements
        .iter()
        .enumerate()
        .filter(|(_, (_, added))| with_added || !added)
        .map(|(number, (statement, _))| {
            STATEMENTS[*statement].replace('N', &number.to_string()) + "\n"
        });
    declared + &kept.collect::<String>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A modelled time has no interval of its own yet, so that added work may not lower it at all.
    #[test]
    fn added_work_never_lowers_a_modelled_time(
        statements in prop::collection::vec((0..STATEMENTS.len(), any::<bool>()), 1..40),
        blocks in prop::sample::select(vec![1_u32, 7, 58, 100, 300]),
        threads in prop::sample::select(vec![32_u32, 64, 256]),
        spilled_bytes in prop::sample::select(vec![0_u32, 16, 200]),
    ) {
        let time = |with_added| {
            let body = program(&statements, with_added);
            Run { spilled_bytes, ..Run::new(&body, blocks, threads) }.modelled()
        };
        let (less, more) = (time(false), time(true));
        prop_assert!(
            more.microseconds >= less.microseconds * (1.0 - 1e-9),
            "{} us, with more work {} us: {:?} {:?}",
            less.microseconds, more.microseconds, less.terms, more.terms
        );
    }
}
