//! Overruns of one variable of shared memory into its neighbour, and uninitialised values that pass through memory:
//! each broken variant gets its finding, and each correct one none.

use crate::support::{Arg, Device, kernel};
use ptx::report::{Finding, FindingKind};

const VARIABLES: &str = ".shared .align 16 .b8 low[256];\n.shared .align 16 .b8 high[256];\n.extern .shared .align 16 .b8 \
dynamic[];\n.local .align 8 .b8 stack[16];\nshl.b32 %r2, %r1, 2;\nmul.wide.u32 %rd8, %r1, 4;\nadd.u64 %rd9, %rd1, %rd8;\n\
add.u64 %rd10, %rd2, %rd8;\nadd.u64 %rd11, %rd3, %rd8;\n";

/// Runs 64 threads with 256 bytes of dynamic shared memory. `a` is initialised, `b` is not. Returns the text with the
/// findings.
fn run(body: &str) -> (String, Vec<Finding>) {
    let text = kernel(&format!("{VARIABLES}{body}"));
    // Variables without a size are declared outside of functions.
    let text = text.replace(".extern .shared .align 16 .b8 dynamic[];\n", "");
    let text = text.replace(
        ".visible .entry",
        ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry",
    );
    let mut device = Device::new(&text);
    let numbers: Vec<u32> = (0..64).collect();
    let args = [
        Arg::Pointer(device.buffer("a", &numbers)),
        Arg::Pointer(device.fresh("b", 256)),
        Arg::Pointer(device.fresh("out", 256)),
    ];
    let report = device
        .try_launch("k", [1, 1, 1], [64, 1, 1], &args, |config| {
            config.dynamic_shared = 256;
        })
        .expect("the kernel runs");
    (text, report.findings)
}

#[test]
fn an_access_past_a_variable_into_its_neighbour_is_out_of_bounds() {
    use FindingKind::{OutOfBoundsRead, OutOfBoundsWrite};
    let begin =
        "mov.u32 %r3, low;\nadd.u32 %r4, %r3, %r2;\nmov.u32 %r5, high;\nadd.u32 %r6, %r5, %r2;\n";
    for (body, kind) in [
        ("st.shared.u32 [%r4+4], %r1;", OutOfBoundsWrite),
        ("ld.shared.u32 %r7, [%r6+-4];", OutOfBoundsRead),
        ("st.shared.v2.u32 [low+252], {%r1, %r1};", OutOfBoundsWrite),
        ("red.shared.add.u32 [low+256], 1;", OutOfBoundsWrite),
        (
            "cvt.u64.u32 %rd12, %r4;\ncvta.shared.u64 %rd13, %rd12;\nst.u32 [%rd13+4], %r1;",
            OutOfBoundsWrite,
        ),
        // The pointer advances in a loop, one step too far.
        (
            "mov.u32 %r7, low;\nmov.u32 %r8, 0;\nNEXT: st.shared.u32 [%r7], 1;\nadd.u32 %r7, %r7, 4;\nadd.u32 %r8, %r8, 1;\n\
             setp.le.u32 %p1, %r8, 64;\nsetp.eq.and.u32 %p1, %r1, 0, %p1;\n@%p1 bra NEXT;",
            OutOfBoundsWrite,
        ),
        (
            "mov.u32 %r7, dynamic;\nadd.u32 %r7, %r7, %r2;\nst.shared.u32 [%r7+-4], 1;",
            OutOfBoundsWrite,
        ),
        (
            "cp.async.ca.shared.global [%r4+4], [%rd1], 4;",
            OutOfBoundsWrite,
        ),
        (
            "cp.async.ca.shared.global [%r6+-16], [%rd1], 16;",
            OutOfBoundsWrite,
        ),
        // Rows of 16 bytes that begin in the last word of the variable, and one row too early.
        (
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [low+256];",
            OutOfBoundsRead,
        ),
        (
            "and.b32 %r7, %r1, 7;\nshl.b32 %r7, %r7, 4;\nadd.u32 %r7, %r5, %r7;\nldmatrix.sync.aligned.m8n8.x1.shared.b16 \
             {%r8}, [%r7+-16];",
            OutOfBoundsRead,
        ),
    ] {
        let (_, found) = run(&format!("{begin}{body}"));
        let kinds: Vec<FindingKind> = found.iter().map(|finding| finding.kind).collect();
        assert!(kinds.contains(&kind), "{body}: {found:#?}");
    }
    let (_, found) = run(&format!("{begin}st.shared.u32 [%r4+4], %r1;"));
    let access = found[0].access.as_ref().expect("it has an address");
    assert_eq!(access.buffer.as_deref(), Some("low"));
    assert_eq!((access.offset, access.buffer_bytes), (256, Some(256)));
}

#[test]
fn accesses_inside_the_variable_that_they_mean_are_no_finding() {
    let begin =
        "mov.u32 %r3, low;\nadd.u32 %r4, %r3, %r2;\nmov.u32 %r5, high;\nadd.u32 %r6, %r5, %r2;\n";
    for body in [
        "st.shared.u32 [%r4], %r1;\nst.shared.u32 [%r6], %r1;",
        // One of two variables, in turn.
        "setp.lt.u32 %p1, %r1, 32;\nselp.b32 %r7, %r4, %r6, %p1;\nst.shared.u32 [%r7], %r1;",
        // Two buffers that change places.
        "mov.u32 %r7, %r4;\nmov.u32 %r8, %r6;\nmov.u32 %r9, %r7;\nmov.u32 %r7, %r8;\nmov.u32 %r8, %r9;\nst.shared.u32 \
         [%r7], %r1;",
        // The other variable by the distance between both.
        "sub.u32 %r7, %r5, %r3;\nadd.u32 %r8, %r4, %r7;\nst.shared.u32 [%r8], %r1;",
        "xor.b32 %r7, %r3, %r5;\nxor.b32 %r8, %r3, %r7;\nadd.u32 %r8, %r8, %r2;\nst.shared.u32 [%r8], %r1;",
        // An address from the stack.
        "st.local.u32 [stack], %r6;\nst.local.u32 [stack+4], %r4;\nand.b32 %r7, %r1, 1;\nshl.b32 %r7, %r7, 2;\ncvt.u64.u32 \
         %rd12, %r7;\nmov.u64 %rd13, stack;\nadd.u64 %rd13, %rd13, %rd12;\nld.local.u32 %r8, [%rd13];\nsub.u32 %r8, %r8, \
         %r3;\nadd.u32 %r8, %r3, %r8;\nst.shared.u32 [%r8], %r1;",
        "mov.u32 %r7, dynamic;\nadd.u32 %r7, %r7, %r2;\nst.shared.u32 [%r7], 1;",
        "cvt.u64.u32 %rd12, %r6;\ncvta.shared.u64 %rd13, %rd12;\nst.u32 [%rd13], %r1;",
        "cp.async.ca.shared.global [%r4], [%rd9], 4;\ncp.async.wait_all;",
        "st.shared.u32 [%r6], 1;\nbar.sync 0;\nand.b32 %r7, %r1, 7;\nshl.b32 %r7, %r7, 4;\nadd.u32 %r7, %r5, %r7;\n\
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r7+128];",
        // Lanes beyond the first eight name no row that is read.
        "st.shared.u32 [%r6], 1;\nbar.sync 0;\nand.b32 %r7, %r1, 31;\nshl.b32 %r7, %r7, 5;\nadd.u32 %r7, %r5, %r7;\n\
         ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r7];",
    ] {
        let (_, found) = run(&format!("{begin}{body}"));
        assert!(found.is_empty(), "{body}: {found:#?}");
    }
}

#[test]
fn an_uninitialised_value_is_reported_where_it_was_first_read() {
    let through_shared = "mov.u32 %r3, low;\nadd.u32 %r4, %r3, %r2;\nld.global.u32 %r5, [FROM];\nst.shared.u32 [%r4], %r5;\n\
                          bar.sync 0;\nxor.b32 %r6, %r4, 4;\nld.shared.u32 %r7, [%r6];\nadd.u32 %r7, %r7, 1;\n";
    let through_stack =
        "ld.global.u32 %r5, [FROM];\nst.local.u32 [stack], %r5;\nld.local.u32 %r7, [stack];\n";
    for body in [through_shared, through_stack] {
        for (end, kind) in [
            (
                "st.global.u32 [%rd11], %r7;",
                FindingKind::UninitialisedStore,
            ),
            (
                "setp.eq.u32 %p1, %r7, 3;\n@%p1 bra DONE;\nst.global.u32 [%rd11], 1;\nDONE:",
                FindingKind::UninitialisedBranch,
            ),
            (
                "and.b32 %r7, %r7, 60;\ncvt.u64.u32 %rd12, %r7;\nadd.u64 %rd12, %rd1, %rd12;\nld.global.u32 %r8, [%rd12];\n\
                 st.global.u32 [%rd11], %r1;",
                FindingKind::UninitialisedAddress,
            ),
        ] {
            let body = format!("{body}{end}");
            let (text, found) = run(&body.replace("FROM", "%rd10"));
            let line = text
                .lines()
                .position(|line| line.starts_with("ld.global.u32 %r5"))
                .expect("it is there");
            let [finding] = &found[..] else {
                panic!("{body}: {found:#?}");
            };
            assert_eq!(
                (finding.kind, finding.location.ptx_line as usize),
                (kind, line + 1),
                "{body}: {finding:#?}"
            );
            let (_, found) = run(&body.replace("FROM", "%rd9"));
            assert!(found.is_empty(), "{body}: {found:#?}");
        }
    }
    // A value that is overwritten before it is read was never used.
    let (_, found) = run(
        "mov.u32 %r3, low;\nadd.u32 %r4, %r3, %r2;\nld.global.u32 %r5, [%rd10];\nst.shared.u32 [%r4], %r5;\n\
         st.shared.u32 [%r4], %r1;\nld.shared.u32 %r7, [%r4];\nst.global.u32 [%rd11], %r7;",
    );
    assert!(found.is_empty(), "{found:#?}");
}
