//! Plain accesses beside atomics on the same words, by warps of one block and by blocks: racy without an order, and no
//! finding with one, or where an atomic checks what was read.

use crate::support::{Arg, Device, kernel, kinds};
use ptx::report::FindingKind;

/// The two parties: warps of one block, or blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Block,
    Grid,
}

/// Runs what the two parties do. `MEET` is a barrier of both.
fn run(place: Place, space: &str, first: &str, second: &str) -> Vec<FindingKind> {
    let (blocks, threads, parties, meet) = match place {
        Place::Block => (1, 64, "setp.ge.u32 %p9, %r1, 32;", "barrier.sync 0;"),
        // Each block counts itself and waits for the other one.
        Place::Grid => (
            2,
            32,
            "mov.u32 %r5, %ctaid.x;\nsetp.eq.u32 %p9, %r5, 1;",
            "setp.ne.u32 %p7, %r1, 0;\n@%p7 bra METn;\nfence.acq_rel.gpu;\natom.global.add.u32 %r11, [%rd1+512], 1;\n\
             WAITn: ld.volatile.global.u32 %r12, [%rd1+512];\nsetp.lt.u32 %p7, %r12, 2;\n@%p7 bra WAITn;\n\
             fence.acq_rel.gpu;\nMETn: bar.sync 0;",
        ),
    };
    let numbered = |text: &str, number: usize| {
        text.replace("MEET", meet)
            .replace("METn", &format!("MET{number}"))
            .replace("WAITn", &format!("WAIT{number}"))
            .replace("AGAIN", &format!("AGAIN{number}"))
            .replace("POLL", &format!("POLL{number}"))
    };
    let body = format!(
        ".shared .align 16 .b8 s[64];\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra READY;\nst.shared.u32 [s], 0;\nREADY: bar.sync 0;\n\
         {parties}\n@%p9 bra SECOND;\n{}\nbra END;\nSECOND: {}\nEND:",
        numbered(first, 1),
        numbered(second, 2),
    )
    .replace("WORD", if space == "shared" { "[s]" } else { "[%rd3]" })
    .replace("SPACE", space);
    let mut device = Device::new(&kernel(&body));
    let zeros = [0_u32; 256];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
    let report = device
        .try_launch("k", [blocks, 1, 1], [threads, 1, 1], &args, |config| {
            config.budget = Some(10_000_000);
            config.cooperative = true;
        })
        .expect("the kernel runs");
    kinds(&report)
}

const ADD: &str = "red.SPACE.add.u32 WORD, 1;";
const READ: &str = "ld.SPACE.u32 %r10, WORD;\nst.global.u32 [%rd3+64], %r10;";
const WRITE: &str = "st.SPACE.u32 WORD, 99;";
const SWAP: &str = "ld.SPACE.u32 %r8, WORD;\nAGAIN: mov.u32 %r10, %r8;\nadd.u32 %r9, %r10, 3;\n\
    atom.SPACE.cas.b32 %r8, WORD, %r10, %r9;\nsetp.ne.u32 %p2, %r8, %r10;\n@%p2 bra AGAIN;";
const FLAG: &str = "fence.acq_rel.gpu;\nst.relaxed.gpu.global.u32 [%rd1+128], 1;";
const SEEN: &str = "POLL: ld.relaxed.gpu.global.u32 %r8, [%rd1+128];\nsetp.eq.u32 %p2, %r8, 0;\n@%p2 bra POLL;\n\
    fence.acq_rel.gpu;";

#[test]
fn plain_accesses_beside_atomics_are_races() {
    for (place, space, kind) in [
        (Place::Block, "global", FindingKind::GlobalRace),
        (Place::Grid, "global", FindingKind::GlobalRace),
        (Place::Block, "shared", FindingKind::SharedRace),
    ] {
        for (first, second) in [
            (ADD.to_owned(), READ.to_owned()),
            (READ.to_owned(), ADD.to_owned()),
            (ADD.to_owned(), WRITE.to_owned()),
            (WRITE.to_owned(), ADD.to_owned()),
            // A barrier does not order accesses that both come behind it.
            (format!("MEET\n{ADD}"), format!("MEET\n{READ}")),
            (format!("MEET\n{READ}"), format!("MEET\n{ADD}")),
            // An atomic orders nothing that was not fenced.
            (WRITE.to_owned(), SWAP.to_owned()),
        ] {
            let found = run(place, space, &first, &second);
            assert!(
                !found.is_empty() && found.iter().all(|found| *found == kind),
                "{place:?}, {space}: {first}\n|| {second}\n{found:?}"
            );
        }
    }
}

#[test]
fn ordered_and_checked_accesses_beside_atomics_are_none() {
    for (place, space) in [
        (Place::Block, "global"),
        (Place::Grid, "global"),
        (Place::Block, "shared"),
    ] {
        for (first, second) in [
            (ADD.to_owned(), ADD.to_owned()),
            (SWAP.to_owned(), SWAP.to_owned()),
            (SWAP.to_owned(), ADD.to_owned()),
            (ADD.to_owned(), SWAP.to_owned()),
            (format!("{ADD}\nMEET"), format!("MEET\n{READ}")),
            (format!("{READ}\nMEET"), format!("MEET\n{ADD}")),
            (format!("{WRITE}\nMEET"), format!("MEET\n{ADD}")),
            (format!("{ADD}\nMEET"), format!("MEET\n{WRITE}")),
            (format!("{ADD}\n{FLAG}"), format!("{SEEN}\n{READ}")),
            (format!("{WRITE}\n{FLAG}"), format!("{SEEN}\n{SWAP}")),
        ] {
            let found = run(place, space, &first, &second);
            assert_eq!(found, [], "{place:?}, {space}: {first}\n|| {second}");
        }
    }
    // A look before an atomic maximum, whose result decides only if the atomic is made. Atomics of the same block do not
    // change what it means.
    let look = "ld.global.u32 %r10, WORD;\nsetp.ge.u32 %p3, %r10, 7;\n@%p3 bra AGAIN;\nred.global.max.u32 WORD, 7;\nAGAIN:";
    for place in [Place::Block, Place::Grid] {
        assert_eq!(run(place, "global", look, look), []);
    }
    // The block that counts itself last takes the counter back.
    let last = "setp.ne.u32 %p3, %r1, 0;\n@%p3 bra AGAIN;\nfence.acq_rel.gpu;\natom.global.add.u32 %r10, WORD, 1;\n\
        setp.ne.u32 %p3, %r10, 1;\n@%p3 bra AGAIN;\nst.global.u32 WORD, 0;\nAGAIN:";
    assert_eq!(run(Place::Grid, "global", last, last), []);
}
