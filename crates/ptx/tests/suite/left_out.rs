//! Lanes that a warp-wide instruction's member mask names and that leave the instruction out.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::FindingKind;

/// Runs one warp.
fn run(body: &str) -> Vec<FindingKind> {
    let mut device = Device::new(&kernel(body));
    let numbers: Vec<u32> = (0..64).collect();
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &numbers)));
    let report = device
        .try_launch("k", [1, 1, 1], [32, 1, 1], &args, |_| {})
        .expect("the kernel runs");
    kinds(&report)
}

const BEGIN: &str = "mul.wide.u32 %rd8, %r1, 4;\nadd.u64 %rd9, %rd3, %rd8;\nmov.u32 %r5, %r1;\nsetp.lt.u32 %p1, %r1, 24;\n\
                     setp.ne.u32 %p3, %r1, 7;\n";

#[test]
fn lanes_left_out_of_a_full_mask_are_found() {
    for instruction in [
        "vote.sync.ballot.b32 %r5, %p3, MASK;",
        "shfl.sync.idx.b32 %r5|%p4, %r1, 0, 31, MASK;",
        "redux.sync.add.u32 %r5, %r1, MASK;",
    ] {
        for (body, expected) in [
            // All lanes store, and eight of them leave the instruction out.
            (
                "@!%p1 bra JOIN;\nINSTRUCTION\nJOIN: st.global.u32 [%rd9], %r5;",
                vec![FindingKind::InvalidOperands],
            ),
            // Those eight return early, or store something else.
            (
                "@!%p1 bra END;\nINSTRUCTION\nst.global.u32 [%rd9], %r5;\nEND:",
                vec![],
            ),
            (
                "@!%p1 bra OTHER;\nINSTRUCTION\nst.global.u32 [%rd9], %r5;\nbra END;\nOTHER: st.global.u32 [%rd9], 0;\nEND:",
                vec![],
            ),
            // They store first, and come to the instruction then.
            (
                "@%p1 bra JOIN;\nst.global.u32 [%rd9+128], 0;\nJOIN: INSTRUCTION\nst.global.u32 [%rd9], %r5;",
                vec![],
            ),
        ] {
            let body = body.replace("INSTRUCTION", &instruction.replace("MASK", "0xffffffff"));
            assert_eq!(run(&format!("{BEGIN}{body}")), expected, "{body}");
        }
        let body = format!(
            "@!%p1 bra JOIN;\n{}\nJOIN: st.global.u32 [%rd9], %r5;",
            instruction.replace("MASK", "0x00ffffff")
        );
        assert_eq!(run(&format!("{BEGIN}{body}")), vec![], "{body}");
    }
}
