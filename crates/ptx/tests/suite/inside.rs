//! Warps of one block that pass values through device memory: racy without an order, and no finding with one.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::FindingKind;

/// Both warps run `before`, then the first one runs `first` and the second one `second`. Lanes of a warp do the same.
fn run(before: &str, first: &str, second: &str, blocks: u32) -> Vec<FindingKind> {
    let body = format!(
        "mov.u32 %r5, %ctaid.x;\nmul.wide.u32 %rd4, %r5, 256;\nadd.s64 %rd1, %rd1, %rd4;\nadd.s64 %rd3, %rd3, %rd4;\n{before}\n\
         setp.ge.u32 %p9, %r1, 32;\n@%p9 bra SECOND;\n{first}\nbra END;\n\
         SECOND: {second}\nEND: bar.sync 1;"
    );
    let mut device = Device::new(&kernel(&body));
    let zeros = [0_u32; 1024];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
    let report = device
        .try_launch("k", [blocks, 1, 1], [64, 1, 1], &args, |config| {
            config.budget = Some(10_000_000);
        })
        .expect("the kernel runs");
    kinds(&report)
}

const POLL: &str =
    "POLL: ld.relaxed.gpu.global.u32 %r8, [%rd1+128];\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;";
const WRITE: &str = "st.global.u32 [%rd3], 7;";
const READ: &str = "ld.global.u32 %r10, [%rd3];\nst.global.u32 [%rd3+64], %r10;";

#[test]
fn values_passed_without_an_order_are_races() {
    for blocks in [1, 3] {
        for (before, first, second) in [
            ("", WRITE.to_owned(), READ.to_owned()),
            ("", READ.to_owned(), WRITE.to_owned()),
            ("", WRITE.to_owned(), "st.global.u32 [%rd3], 8;".to_owned()),
            // A barrier of one warp orders no other.
            (
                "",
                format!("{WRITE}\nbar.sync 2, 32;"),
                format!("bar.sync 3, 32;\n{READ}"),
            ),
            // A flag without a fence.
            (
                "",
                format!("{WRITE}\nst.relaxed.gpu.global.u32 [%rd1+128], 1;"),
                format!("{POLL}\n{READ}"),
            ),
        ] {
            let found = run(before, &first, &second, blocks);
            assert_eq!(
                found,
                [FindingKind::GlobalRace],
                "{blocks} blocks: {first}\n|| {second}"
            );
        }
    }
}

#[test]
fn values_passed_in_order_are_none() {
    let fence = "fence.acq_rel.gpu;";
    for blocks in [1, 3] {
        for (before, first, second) in [
            // Both write the same.
            ("", WRITE.to_owned(), WRITE.to_owned()),
            // Written before a barrier of the block, or of both warps.
            (
                "setp.eq.u32 %p8, %r1, 0;\n@%p8 st.global.u32 [%rd3], %r1;\nbar.sync 0;",
                String::new(),
                READ.to_owned(),
            ),
            (
                "",
                format!("{WRITE}\nbar.sync 2, 64;"),
                format!("bar.sync 2, 64;\n{READ}"),
            ),
            (
                "",
                format!("{WRITE}\nbar.arrive 2, 64;"),
                format!("bar.sync 2, 64;\n{READ}"),
            ),
            // A flag in device memory says that the value is written, with fences or by release and acquire.
            (
                "",
                format!("{WRITE}\n{fence}\nst.relaxed.gpu.global.u32 [%rd1+128], 1;"),
                format!("{POLL}\n{fence}\n{READ}"),
            ),
            (
                "",
                format!("{WRITE}\nst.release.gpu.global.u32 [%rd1+128], 1;"),
                format!("{}\n{READ}", POLL.replace("relaxed", "acquire")),
            ),
            (
                "",
                format!("{WRITE}\n{fence}\natom.global.add.u32 %r9, [%rd1+128], 1;"),
                format!("{POLL}\n{fence}\n{READ}"),
            ),
            // Other bytes of one word.
            (
                "",
                "st.global.u8 [%rd3], %r1;".to_owned(),
                "st.global.u8 [%rd3+1], %r1;\nld.global.u8 %r10, [%rd3+1];".to_owned(),
            ),
            // Volatile and atomic accesses.
            (
                "",
                "st.volatile.global.u32 [%rd3], 7;".to_owned(),
                "ld.volatile.global.u32 %r10, [%rd3];\nsetp.eq.u32 %p3, %r10, 3;\n@%p3 trap;"
                    .to_owned(),
            ),
            (
                "",
                "red.global.add.u32 [%rd3], 7;".to_owned(),
                "red.global.add.u32 [%rd3], 8;".to_owned(),
            ),
        ] {
            let found = run(before, &first, &second, blocks);
            assert_eq!(found, [], "{blocks} blocks: {first}\n|| {second}");
        }
    }
}

/// A block tells another one, which tells the first block's other warp: everything is ordered, through another block.
#[test]
fn an_order_through_another_block_counts() {
    let body = "mov.u32 %r5, %ctaid.x;\nsetp.ne.u32 %p4, %r5, 0;\n@%p4 bra OTHER;\nsetp.eq.u32 %p8, %r1, 0;\n\
        setp.eq.u32 %p9, %r1, 32;\n@%p9 bra SECOND;\n@!%p8 bra END;\nst.global.u32 [%rd3], 7;\nfence.acq_rel.gpu;\n\
        st.relaxed.gpu.global.u32 [%rd1], 1;\nbra END;\n\
        SECOND: ld.relaxed.gpu.global.u32 %r8, [%rd1+64];\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra SECOND;\nfence.acq_rel.gpu;\n\
        ld.global.u32 %r10, [%rd3];\nst.global.u32 [%rd3+64], %r10;\nbra END;\n\
        OTHER: setp.ne.u32 %p5, %r1, 0;\n@%p5 bra END;\nWAIT: ld.relaxed.gpu.global.u32 %r8, [%rd1];\nsetp.eq.u32 %p2, %r8, 0;\n\
        @%p2 bra WAIT;\nfence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd1+64], 1;\nEND:";
    let mut device = Device::new(&kernel(body));
    let zeros = [0_u32; 64];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
    device.honest("k", [2, 1, 1], [64, 1, 1], &args, |config| {
        config.budget = Some(10_000_000);
    });
}
