//! Waiting for other blocks: it costs a launch nothing of its budget while they work, and a launch in which all wait
//! for each other still ends.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::Schedule;
use ptx::report::{FindingKind, LaunchReport, Outcome};

/// Launches a body on a grid all of whose blocks are resident, on 64 words in each buffer.
fn run(body: &str, blocks: u32, threads: u32, budget: u64, schedule: Schedule) -> LaunchReport {
    let mut device = Device::new(&kernel(body));
    let words = [0_u32; 64];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &words)));
    device
        .try_launch("k", [blocks, 1, 1], [threads, 1, 1], &args, |config| {
            config.resident_blocks = blocks;
            config.budget = Some(budget);
            config.schedule = schedule;
        })
        .expect("the kernel runs")
}

/// Thread instructions of a loop that takes a block so long that the others have to wait for it.
const WORK: &str = "mov.u32 %r20, 0;\nWORK: add.u32 %r20, %r20, 1;\nsetp.lt.u32 %p4, %r20, 400000;\n@%p4 bra WORK;";

/// Every block counts itself and waits until all have come.
fn grid_barrier(poll: &str) -> String {
    format!(
        "mov.u32 %r5, %ctaid.x;\nmov.u32 %r6, %nctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra MEET;\n\
         setp.ne.u32 %p2, %r5, 0;\n@%p2 bra ARRIVE;\n{WORK}\nARRIVE: fence.acq_rel.gpu;\n\
         atom.global.add.u32 %r7, [%rd1], 1;\n{poll}\nfence.acq_rel.gpu;\nMEET: bar.sync 0;"
    )
}

const POLLS: [(&str, &str); 4] = [
    (
        "volatile",
        "POLL: ld.volatile.global.u32 %r8, [%rd1];\nsetp.lt.u32 %p3, %r8, %r6;\n@%p3 bra POLL;",
    ),
    (
        "acquire",
        "POLL: ld.acquire.gpu.global.u32 %r8, [%rd1];\nsetp.lt.u32 %p3, %r8, %r6;\n@%p3 bra POLL;",
    ),
    (
        "atomic, with pauses",
        "POLL: atom.global.add.u32 %r8, [%rd1], 0;\nnanosleep.u32 100;\nsetp.lt.u32 %p3, %r8, %r6;\n@%p3 bra POLL;",
    ),
    (
        "one of two words",
        "POLL: ld.relaxed.gpu.global.u32 %r9, [%rd2];\nld.relaxed.gpu.global.u32 %r8, [%rd1];\nadd.u32 %r8, %r8, %r9;\n\
         setp.lt.u32 %p3, %r8, %r6;\n@%p3 bra POLL;",
    ),
];

#[test]
fn waiting_for_a_block_that_works_costs_nothing() {
    // The one warp that works executes three instructions 400,000 times for one lane; its slices are counted for all.
    let budget = 3 * 400_000 * 64 + 4_000_000;
    for (name, poll) in POLLS {
        for schedule in [Schedule::Serial, Schedule::Seeded(5)] {
            let report = run(&grid_barrier(poll), 116, 64, budget, schedule);
            assert_eq!(
                (kinds(&report), &report.outcome),
                (vec![], &Outcome::Completed),
                "{name}, {schedule:?}: {:#?}",
                report.findings
            );
        }
    }
}

#[test]
fn a_barrier_that_one_block_never_reaches_ends() {
    for (name, poll) in POLLS {
        let body = grid_barrier(poll).replace("@%p2 bra ARRIVE;", "@!%p2 bra END;") + "\nEND:";
        let report = run(&body, 40, 32, 400_000_000, Schedule::Serial);
        assert_eq!(kinds(&report), [FindingKind::BudgetExhausted], "{name}");
    }
}

#[test]
fn blocks_that_wait_for_each_other_end() {
    // Each waits for what the other one writes afterwards.
    let body = "mov.u32 %r5, %ctaid.x;\nshl.b32 %r6, %r5, 2;\nxor.b32 %r7, %r6, 4;\ncvt.u64.u32 %rd8, %r6;\ncvt.u64.u32 %rd9, %r7;\n\
                add.s64 %rd8, %rd1, %rd8;\nadd.s64 %rd9, %rd1, %rd9;\n\
                POLL: ld.volatile.global.u32 %r8, [%rd9];\nsetp.eq.u32 %p1, %r8, 0;\n@%p1 bra POLL;\nst.volatile.global.u32 [%rd8], 1;";
    let report = run(body, 2, 32, 400_000_000, Schedule::Serial);
    assert_eq!(kinds(&report), [FindingKind::BudgetExhausted]);
}

#[test]
fn a_patient_block_that_gives_up_is_not_stopped() {
    // It asks 20,000 times for what nobody writes, and goes on without it.
    let body = "mov.u32 %r20, 0;\nPOLL: ld.volatile.global.u32 %r8, [%rd1];\nadd.u32 %r20, %r20, 1;\nsetp.ne.u32 %p1, %r8, 0;\n\
                @%p1 bra END;\nsetp.lt.u32 %p2, %r20, 20000;\n@%p2 bra POLL;\nEND: st.global.u32 [%rd3], %r20;";
    let report = run(body, 1, 1, 400_000_000, Schedule::Serial);
    assert_eq!(
        (kinds(&report), report.outcome),
        (vec![], Outcome::Completed)
    );
}
