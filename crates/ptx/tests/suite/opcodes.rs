//! Opcodes in forms that the PTX ISA does not define, which the machine must refuse rather than guess or ignore, and
//! the results of opcodes that no compiled kernel of the corpus uses.

use crate::support::{Arg, Device, kernel};
use ptx::report::Outcome;
use ptx::{LaunchError, LoadError, Module};

/// True if the machine refuses the instruction, either while it parses the text or while it lowers the kernel.
fn is_refused(instruction: &str) -> bool {
    match Module::parse(&kernel(instruction)) {
        Err(LoadError::Syntax { .. } | LoadError::Unsupported { .. }) => true,
        Ok(module) => matches!(module.runnable("k"), Err(LaunchError::Unsupported { .. })),
    }
}

#[test]
fn every_listed_opcode_refuses_an_unknown_modifier() {
    let accepted: Vec<&str> = ptx::opcodes()
        .filter(|opcode| !is_refused(&format!("{opcode}.frobnicate;")))
        .collect();
    assert!(accepted.is_empty(), "{accepted:?}");
}

#[test]
fn a_missing_operand_is_refused() {
    let without_operands = [
        "ret",
        "exit",
        "trap",
        "brkpt",
        "fence",
        "membar",
        "nanosleep",
    ];
    for opcode in ptx::opcodes().filter(|opcode| !without_operands.contains(opcode)) {
        for modifiers in ["", ".f32", ".u32", ".sync", ".pred", ".f16x2.f32", ".L1"] {
            let instruction = format!("{opcode}{modifiers};");
            assert!(is_refused(&instruction), "{instruction}");
        }
    }
}

#[test]
fn cache_hints_are_ignored_only_in_the_forms_of_the_isa() {
    for hint in [
        "prefetch.global.L1 [%rd1];",
        "prefetch.local.L2 [%rd1+16];",
        "prefetch.L2 [%rd1];",
        "prefetch.global.L2::evict_last [%rd1];",
        "prefetch.global.L2::evict_normal [%rd1];",
        "prefetchu.L1 [%rd1];",
        "applypriority.global.L2::evict_normal [%rd1], 128;",
        "applypriority.L2::evict_normal [%rd1], 128;",
        "createpolicy.fractional.L2::evict_last.b64 %rd4, 0.5;",
        "createpolicy.fractional.L2::evict_first.L2::evict_unchanged.b64 %rd4;",
        "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd4, [%rd1], 4096, 8192;",
        "createpolicy.cvt.L2.b64 %rd4, %rd2;",
        "st.global.L2::cache_hint.u32 [%rd1], %r1, %rd2;",
        "red.global.add.L2::cache_hint.u32 [%rd1], %r1, %rd2;",
        "atom.global.add.L2::cache_hint.u32 %r3, [%rd1], %r1, %rd2;",
        "cp.async.cg.shared.global.L2::cache_hint [%r3], [%rd1], 16, %rd2;",
    ] {
        assert!(!is_refused(hint), "{hint}");
    }
    for other in [
        "prefetch [%rd1];",
        "prefetch.global [%rd1];",
        "prefetch.shared.L1 [%rd1];",
        "prefetch.global.L3 [%rd1];",
        "prefetch.global.L1 [%rd1], 128;",
        "prefetchu.L2 [%rd1];",
        "applypriority.global.L2::evict_normal [%rd1];",
        "applypriority.global.L2::evict_first [%rd1], 128;",
        "createpolicy.fractional.L2::evict_never.b64 %rd4, 0.5;",
        "createpolicy.fractional.b64 %rd4, 0.5;",
        "createpolicy.range.L2::evict_last.b64 %rd4, 0.5;",
        "createpolicy.cvt.L2::evict_last.b64 %rd4, %rd2;",
        "ld.global.L2::cache_hint.u32 %r3, [%rd1];",
        "st.global.u32 [%rd1], %r1, %rd2;",
    ] {
        assert!(is_refused(other), "{other}");
    }
}

/// Runs a body with one warp and returns the word that each thread left in %r9. `a` holds the words 100 to 131.
fn results(body: &str) -> Vec<u32> {
    let text = kernel(&format!(
        "shl.b32 %r2, %r1, 2;\ncvt.u64.u32 %rd7, %r2;\nadd.s64 %rd4, %rd1, %rd7;\nadd.s64 %rd6, %rd3, %rd7;\n\
         {body}\nst.global.u32 [%rd6], %r9;"
    ));
    let mut device = Device::new(&text);
    let words: Vec<u32> = (100..132).collect();
    let (a, out) = (device.buffer("a", &words), device.fresh("out", 128));
    let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(out)];
    device.honest("k", [1, 1, 1], [32, 1, 1], &args, |_| {});
    device.read(out, 32)
}

/// The value of each of the 32 lanes.
fn per_lane(value: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(value).collect()
}

#[test]
fn ldu_loads_like_ld() {
    assert_eq!(
        results("ldu.global.u32 %r9, [%rd4];"),
        per_lane(|lane| 100 + lane)
    );
}

#[test]
fn a_load_with_a_policy_of_the_cache_loads_like_one_without() {
    let body = "createpolicy.fractional.L2::evict_first.b64 %rd5, 1.0;\n\
                ld.global.L2::cache_hint.u32 %r9, [%rd4], %rd5;";
    assert_eq!(results(body), per_lane(|lane| 100 + lane));
}

#[test]
fn movmatrix_transposes_eight_rows_of_eight_elements() {
    // The element in row r and column c is 8 r + c; lane l has two of row l / 4.
    let body = "shl.b32 %r3, %r1, 1;\nadd.u32 %r4, %r3, 1;\nshl.b32 %r4, %r4, 16;\nor.b32 %r3, %r3, %r4;\n\
                movmatrix.sync.aligned.m8n8.trans.b16 %r9, %r3;";
    let expected = |lane| {
        let (row, column) = (lane / 4, lane % 4 * 2);
        (8 * column + row) | (8 * (column + 1) + row) << 16
    };
    assert_eq!(results(body), per_lane(expected));
}

#[test]
fn brx_jumps_to_the_entry_of_each_lane() {
    let body = "targets: .branchtargets ZERO, ONE, TWO;\nrem.u32 %r3, %r1, 3;\nbrx.idx %r3, targets;\n\
                ZERO:\nmov.u32 %r9, 10;\nbra DONE;\nONE:\nmov.u32 %r9, 11;\nbra DONE;\nTWO:\nmov.u32 %r9, 12;\n\
                DONE:";
    assert_eq!(results(body), per_lane(|lane| 10 + lane % 3));
}

#[test]
fn elect_chooses_the_lowest_member_for_every_member() {
    let body = "mov.u32 %r9, 99;\nsetp.lt.u32 %p2, %r1, 8;\n@%p2 bra DONE;\n\
                elect.sync %r3|%p1, 0xffffff00;\nselp.u32 %r4, 1000, 0, %p1;\nadd.u32 %r9, %r3, %r4;\nDONE:";
    let expected = |lane| match lane {
        0..8 => 99,
        8 => 1008,
        _ => 8,
    };
    assert_eq!(results(body), per_lane(expected));
}

#[test]
fn isspacep_recognises_the_window_of_each_space() {
    let body = ".shared .align 4 .b8 s[4];\n.local .align 4 .b8 l[4];\nmov.u32 %r9, 0;\n\
                cvta.global.u64 %rd10, %rd1;\nmov.u64 %rd11, s;\ncvta.shared.u64 %rd11, %rd11;\n\
                mov.u64 %rd12, l;\ncvta.local.u64 %rd12, %rd12;\n";
    let spaces = ["global", "shared", "local"];
    for (holder, register) in (0..).zip(["%rd10", "%rd11", "%rd12"]) {
        let tests: String = (0..)
            .zip(spaces)
            .map(|(bit, space)| {
                format!(
                    "isspacep.{space} %p1, {register};\nselp.u32 %r3, {}, 0, %p1;\nor.b32 %r9, %r9, %r3;\n",
                    1 << bit
                )
            })
            .collect();
        assert_eq!(
            results(&format!("{body}{tests}")),
            vec![1 << holder; 32],
            "{register}"
        );
    }
}

#[test]
fn brkpt_ends_the_launch() {
    let mut device = Device::new(&kernel("brkpt;"));
    let args = [Arg::Pointer(0), Arg::Pointer(0), Arg::Pointer(0)];
    assert_eq!(device.launch("k", 1, 1, &args).outcome, Outcome::Trapped);
}
