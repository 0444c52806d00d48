//! Counters of launches against counts made by hand: per line and in total, with whole and partial warps.

use crate::support::{Arg, Device, kernel};
use ptx::report::{Counters, LaunchReport, Outcome, Tally, WorkingSet};

/// Runs a body on hand-written PTX with two buffers of 64 KiB that hold zeros, and an output.
fn launch(text: &str, grid: u32, block: u32) -> LaunchReport {
    let mut device = Device::new(text);
    let zeros = vec![0u32; 1 << 14];
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
    let report = device.launch("k", grid, block, &args);
    assert_eq!(report.outcome, Outcome::Completed, "{:#?}", report.findings);
    report
}

/// The totals of one warp. `%r2` is a lane's number, `%r3` the address of 32 KiB of shared memory, all written.
fn counted(body: &str) -> Tally {
    let whole = kernel(&format!(
        ".shared .align 128 .b8 tile[32768];\nmov.u32 %r2, %laneid;\nmov.u32 %r3, tile;\n{body}"
    ));
    launch(&whole, 1, 32).counters.total
}

fn shared(tally: &Tally) -> (u64, u64, u64, u64, u64) {
    let of = &tally.shared;
    assert_eq!(of.bank_conflicts, of.wavefronts - of.wavefronts_ideal);
    (
        of.wavefronts,
        of.wavefronts_ideal,
        of.bank_conflicts,
        of.bytes_read,
        of.bytes_written,
    )
}

#[test]
fn every_kind_of_shared_access_passes_the_banks_as_counted_by_hand() {
    // Address, instruction; wavefronts, ideal, conflicts, bytes read, bytes written.
    let cases = [
        (
            "shl.b32 %r4, %r2, 2;",
            "ld.shared.u32 %r5, [%r4];",
            (1, 1, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 7;",
            "ld.shared.u32 %r5, [%r4];",
            (32, 1, 31, 128, 0),
        ),
        (
            "mul.lo.u32 %r4, %r2, 132;",
            "ld.shared.u32 %r5, [%r4];",
            (1, 1, 0, 128, 0),
        ),
        (
            "mov.u32 %r4, %r3;",
            "ld.shared.u32 %r5, [%r4+64];",
            (1, 1, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 1;",
            "ld.shared.u16 %h1, [%r4];",
            (1, 1, 0, 64, 0),
        ),
        (
            "shl.b32 %r4, %r2, 3;",
            "ld.shared.v2.u32 {%r5,%r6}, [%r4];",
            (2, 2, 0, 256, 0),
        ),
        (
            "shl.b32 %r4, %r2, 3;",
            "ld.shared.u64 %rd9, [%r4];",
            (2, 2, 0, 256, 0),
        ),
        (
            "mov.u32 %r4, %r3;",
            "ld.shared.u64 %rd9, [%r4];",
            (1, 1, 0, 256, 0),
        ),
        (
            "shl.b32 %r4, %r2, 4;",
            "ld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r4];",
            (4, 4, 0, 512, 0),
        ),
        (
            "mov.u32 %r4, %r3;",
            "ld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r4];",
            (2, 2, 0, 512, 0),
        ),
        (
            "shl.b32 %r4, %r2, 7;",
            "ld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r4];",
            (32, 4, 28, 512, 0),
        ),
        (
            "mul.lo.u32 %r4, %r2, 144;",
            "ld.shared.v4.u32 {%r5,%r6,%r7,%r8}, [%r4];",
            (4, 4, 0, 512, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "st.shared.u32 [%r4], %r1;",
            (1, 1, 0, 0, 128),
        ),
        (
            "shl.b32 %r4, %r2, 4;",
            "st.shared.u32 [%r4], %r1;",
            (4, 1, 3, 0, 128),
        ),
        (
            "shl.b32 %r4, %r2, 4;",
            "st.shared.v4.u32 [%r4], {%r1,%r1,%r1,%r1};",
            (4, 4, 0, 0, 512),
        ),
        (
            "mov.u32 %r4, %r3;",
            "red.shared.add.u32 [%r4], 1;",
            (32, 1, 31, 128, 128),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "red.shared.add.u32 [%r4], 1;",
            (1, 1, 0, 128, 128),
        ),
        // A predicate leaves the lower eight lanes.
        (
            "shl.b32 %r4, %r2, 7; setp.lt.u32 %p1, %r2, 8;",
            "@%p1 ld.shared.u32 %r5, [%r4];",
            (8, 1, 7, 32, 0),
        ),
        // Rows of 16 bytes in a row, 128 bytes apart, and 144 bytes apart.
        (
            "shl.b32 %r4, %r2, 4;",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];",
            (4, 4, 0, 512, 0),
        ),
        (
            "shl.b32 %r4, %r2, 7;",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];",
            (32, 4, 28, 512, 0),
        ),
        (
            "mul.lo.u32 %r4, %r2, 144;",
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];",
            (4, 4, 0, 512, 0),
        ),
        (
            "shl.b32 %r4, %r2, 7;",
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5,%r6}, [%r4];",
            (16, 2, 14, 256, 0),
        ),
        (
            "shl.b32 %r4, %r2, 4;",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4];",
            (1, 1, 0, 128, 0),
        ),
        // 128 bytes apart and swizzled: row r keeps its piece p at place p ^ r % 8.
        (
            "shl.b32 %r4, %r2, 7; and.b32 %r9, %r2, 7; shl.b32 %r9, %r9, 4; xor.b32 %r4, %r4, %r9;",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5,%r6,%r7,%r8}, [%r4];",
            (4, 4, 0, 512, 0),
        ),
        // 16 rows of 16 halves: rows of 32 bytes meet every fourth, as they do for ldmatrix; rows of 48 do not.
        (
            "mov.u32 %r4, %r3; mov.u32 %r9, 16;",
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%r4], %r9;",
            (8, 4, 4, 512, 0),
        ),
        (
            "mov.u32 %r4, %r3; mov.u32 %r9, 24;",
            "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%r4], %r9;",
            (4, 4, 0, 512, 0),
        ),
        // Sums in pairs of 8 bytes, rows of 64 bytes: half a warp holds four rows, two and two in the same banks.
        (
            "mov.u32 %r4, %r3; mov.u32 %r9, 16;",
            "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r4], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r9;",
            (16, 8, 8, 0, 1024),
        ),
        // Copies of 16 bytes fill 512 bytes.
        (
            "shl.b32 %r4, %r2, 4; cvt.u64.u32 %rd8, %r4; add.u64 %rd8, %rd8, %rd1;",
            "cp.async.cg.shared.global [%r4], [%rd8], 16; cp.async.wait_all;",
            (4, 4, 0, 0, 512),
        ),
    ];
    for (address, instruction, expected) in cases {
        let place = if address.contains("%r3;") {
            ""
        } else {
            "add.u32 %r4, %r4, %r3;"
        };
        let tally = counted(&format!("{address}\n{place}\n{instruction}"));
        assert_eq!(shared(&tally), expected, "{address} {instruction}");
    }
}

#[test]
fn every_kind_of_global_access_moves_the_sectors_counted_by_hand() {
    // Byte offset of a lane, instruction on [%rd8]; sectors read, ideal, written, ideal; bytes read, bytes written.
    let cases = [
        (
            "shl.b32 %r4, %r2, 2;",
            "ld.global.u32 %r5, [%rd8];",
            (4, 4, 0, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "ld.global.u32 %r5, [%rd8+4];",
            (5, 4, 0, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "ld.global.nc.u32 %r5, [%rd8+32];",
            (4, 4, 0, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 5;",
            "ld.global.u32 %r5, [%rd8];",
            (32, 4, 0, 0, 128, 0),
        ),
        (
            "shl.b32 %r4, %r2, 3;",
            "ld.global.u32 %r5, [%rd8];",
            (8, 4, 0, 0, 128, 0),
        ),
        (
            "mov.u32 %r4, 0;",
            "ld.global.u32 %r5, [%rd8];",
            (1, 1, 0, 0, 4, 0),
        ),
        (
            "shl.b32 %r4, %r2, 4;",
            "ld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd8];",
            (16, 16, 0, 0, 512, 0),
        ),
        (
            "shl.b32 %r4, %r2, 1;",
            "ld.global.u16 %h1, [%rd8];",
            (2, 2, 0, 0, 64, 0),
        ),
        (
            "mov.u32 %r4, %r2;",
            "ld.global.u8 %h1, [%rd8];",
            (1, 1, 0, 0, 32, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2; setp.lt.u32 %p1, %r2, 9;",
            "@%p1 ld.global.u32 %r5, [%rd8];",
            (2, 2, 0, 0, 36, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2; and.b32 %r5, %r2, 1; setp.eq.u32 %p1, %r5, 0;",
            "@%p1 ld.global.u32 %r5, [%rd8];",
            (4, 2, 0, 0, 64, 0),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "st.global.u32 [%rd8], %r1;",
            (0, 0, 4, 4, 0, 128),
        ),
        (
            "shl.b32 %r4, %r2, 6;",
            "st.global.v2.u32 [%rd8], {%r1,%r1};",
            (0, 0, 32, 8, 0, 256),
        ),
        (
            "mov.u32 %r4, 0;",
            "red.global.add.u32 [%rd8], 1;",
            (1, 1, 1, 1, 4, 128),
        ),
        (
            "shl.b32 %r4, %r2, 2;",
            "atom.global.add.u32 %r5, [%rd8], 1;",
            (4, 4, 4, 4, 128, 128),
        ),
        // Of 32 copies of 16 bytes, those of the upper half only fill with zeros.
        (
            "shl.b32 %r4, %r2, 4; add.u32 %r6, %r4, %r3; setp.lt.u32 %p1, %r2, 16; selp.u32 %r7, 16, 0, %p1;",
            "cp.async.cg.shared.global [%r6], [%rd8], 16, %r7; cp.async.wait_all;",
            (8, 8, 0, 0, 256, 0),
        ),
        // Each of the four pieces is 8 rows of 32 bytes.
        (
            "mov.u32 %r4, 0; mov.u32 %r9, 16;",
            "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, [%rd8], %r9;",
            (32, 32, 0, 0, 1024, 0),
        ),
        (
            "mov.u32 %r4, 0; mov.u32 %r9, 16;",
            "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd8], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r9;",
            (0, 0, 32, 32, 0, 1024),
        ),
    ];
    for (offset, instruction, expected) in cases {
        let tally = counted(&format!(
            "{offset}\ncvt.u64.u32 %rd8, %r4;\nadd.u64 %rd8, %rd8, %rd3;\n{instruction}"
        ));
        let of = &tally.global;
        let found = (
            of.sectors_read,
            of.sectors_read_ideal,
            of.sectors_written,
            of.sectors_written_ideal,
            of.bytes_read,
            of.bytes_written,
        );
        assert_eq!(found, expected, "{offset} {instruction}");
    }
}

#[test]
fn tensor_cores_are_counted_by_their_multiply_adds() {
    let shapes = [
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%f5,%f6,%f7,%f8};",
            2048,
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%f5,%f6,%f7,%f8};",
            1024,
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r11,%r12,%r13,%r14}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%r15,%r16,%r17,%r18};",
            4096,
        ),
    ];
    for (instruction, macs) in shapes {
        let tally = counted(&format!("{instruction}\n{instruction}"));
        assert_eq!(tally.tensor_macs, 2 * macs, "{instruction}");
        assert_eq!(tally.classes.tensor, 2);
    }
}

#[test]
fn the_stack_is_counted_by_its_bytes() {
    let body = ".local .align 4 .b8 deep[64];\nmov.u64 %rd4, deep;\nst.local.u32 [%rd4], %r1;\n\
                ld.local.u32 %r5, [%rd4];\nsetp.lt.u32 %p1, %r2, 5;\n@%p1 st.local.u32 [%rd4+8], %r5;";
    let tally = counted(body);
    assert_eq!(tally.local_bytes, 128 + 128 + 20);
    assert_eq!(tally.classes.local, 3);
}

/// Two warps a block, three blocks. Line 12 splits the second warp: its lanes 8 to 31 skip line 13.
const LINES: &str = r#"
.version 8.4
.target sm_89
.address_size 64
.file 1 "steps.cu"
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out)
{
.reg .pred %p<4>;
.reg .b32 %r<20>;
.reg .b64 %rd<20>;
.shared .align 16 .b8 tile[8192];
.loc 1 10 0
ld.param.u64 %rd1, [a];
ld.param.u64 %rd3, [out];
mov.u32 %r1, %tid.x;
.loc 1 11 0
mul.wide.u32 %rd4, %r1, 4;
add.u64 %rd5, %rd1, %rd4;
ld.global.u32 %r2, [%rd5];
.loc 1 12 0
setp.ge.u32 %p1, %r1, 40;
@%p1 bra DONE;
.loc 1 13 0
shl.b32 %r3, %r1, 7;
mov.u32 %r4, tile;
add.u32 %r3, %r3, %r4;
st.shared.u32 [%r3], %r2;
DONE:
.loc 1 14 0
add.u64 %rd6, %rd3, %rd4;
st.global.u32 [%rd6], %r2;
ret;
}
"#;

#[test]
fn each_source_line_has_its_own_account() {
    let counters = launch(LINES, 3, 64).counters;
    assert_eq!(
        (counters.blocks, counters.warps, counters.threads),
        (3, 6, 192)
    );
    let line = |number: u32| {
        let found: Vec<&Tally> = counters
            .lines
            .iter()
            .filter(|line| line.line == number)
            .map(|line| {
                assert_eq!(line.file.as_deref(), Some("steps.cu"));
                &line.tally
            })
            .collect();
        assert_eq!(found.len(), 1, "line {number}");
        found[0]
    };
    let issued = |number| {
        (
            line(number).warp_instructions,
            line(number).thread_instructions,
        )
    };
    assert_eq!(issued(10), (3 * 6, 3 * 192));
    assert_eq!(issued(11), (3 * 6, 3 * 192));
    assert_eq!(issued(12), (2 * 6, 192 + 3 * 24));
    // Only 40 of a block's 64 threads come here.
    assert_eq!(issued(13), (4 * 6, 4 * 3 * 40));
    assert_eq!(issued(14), (3 * 6, 3 * 192));
    assert_eq!(line(12).divergent_branches, 3);
    assert_eq!(counters.total.divergent_branches, 3);

    // Every warp reads 128 bytes side by side; all blocks read the same 256.
    assert_eq!(line(11).global.sectors_read, 4 * 6);
    assert_eq!(line(11).global.sectors_read_ideal, 4 * 6);
    assert_eq!(counters.unique_sectors_read, 8);
    assert_eq!(line(14).global.sectors_written, 4 * 6);
    assert_eq!(counters.unique_sectors_written, 8);
    // A column: 32 lanes of the first warp and 8 of the second, each in the same bank.
    assert_eq!(line(13).shared.wavefronts, 3 * (32 + 8));
    assert_eq!(line(13).shared.wavefronts_ideal, 3 * 2);
    assert_eq!(line(13).shared.bank_conflicts, 3 * (31 + 7));

    let mut sum = Tally::default();
    for line in &counters.lines {
        sum.add(&line.tally);
    }
    assert_eq!(sum, counters.total);
}

#[test]
fn waves_tell_which_sectors_later_blocks_touch_again() {
    // Each block reads 256 bytes of its own, the 256 bytes of the block two before it, and one common sector, and
    // writes 256 bytes of its own.
    let text = kernel(
        "mov.u32 %r2, %ctaid.x;\nshl.b32 %r3, %r2, 6;\nadd.u32 %r4, %r3, %r1;\nmul.wide.u32 %rd4, %r4, 4;\n\
         add.u64 %rd5, %rd1, %rd4;\nld.global.u32 %r5, [%rd5+512];\nld.global.u32 %r6, [%rd5];\n\
         ld.global.u32 %r7, [%rd2];\nadd.u32 %r5, %r5, %r6;\nadd.u32 %r5, %r5, %r7;\n\
         add.u64 %rd6, %rd3, %rd4;\nst.global.u32 [%rd6], %r5;",
    );
    let run = |l2_bytes: u64, resident_blocks: u32, threads: usize| {
        let mut device = Device::new(&text);
        let zeros = vec![0u32; 64 * 18];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device.honest("k", [16, 1, 1], [64, 1, 1], &args, |config| {
            config.l2_bytes = l2_bytes;
            config.resident_blocks = resident_blocks;
            config.threads = threads;
        });
        let sets = report.counters.working_sets;
        sets.iter()
            .map(|f| (f.waves, f.sectors))
            .collect::<Vec<_>>()
    };
    for threads in [1, 3] {
        // Waves of two blocks: 16 sectors written, 32 read and the common one. The next wave reads 16 of them again.
        let expected = (1..=8).map(|waves| (waves, 32 * waves + 16 + 1));
        assert_eq!(run(0, 2, threads), expected.collect::<Vec<_>>());
    }
    assert!(run(0, 16, 1).is_empty(), "one wave");
    assert!(run(1 << 20, 2, 1).is_empty(), "all buffers fit the cache");
}

#[test]
fn a_block_tells_when_it_reads_what_through_the_l1_cache() {
    // Two warps read 256 bytes of their block's own, eight times with 1000 cycles between; then each reads four sectors
    // past the cache.
    let text = kernel(
        "mov.u32 %r2, %ctaid.x;\nshl.b32 %r3, %r2, 6;\nadd.u32 %r4, %r3, %r1;\nmul.wide.u32 %rd4, %r4, 4;\n\
         add.u64 %rd5, %rd1, %rd4;\nmov.u32 %r6, 0;\nLOOP:\nld.global.u32 %r5, [%rd5];\nbar.sync 0;\n\
         nanosleep.u32 1000;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 8;\n@%p1 bra LOOP;\n\
         ld.global.cg.u32 %r5, [%rd5];\nadd.u64 %rd6, %rd3, %rd4;\nst.global.u32 [%rd6], %r5;",
    );
    let run = |threads: usize| {
        let mut device = Device::new(&text);
        let zeros = vec![0u32; 64 * 96];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device.honest("k", [96, 1, 1], [64, 1, 1], &args, |config| {
            config.threads = threads;
            config.core_mhz = 1000;
        });
        report.counters
    };
    let counters = run(1);
    assert_eq!(counters.sectors_read_past_l1, 96 * 8);
    assert_eq!(counters.block_reads, run(3).block_reads);
    let reads = counters.block_reads.expect("blocks read");
    assert_eq!((reads.sectors, reads.distinct_sectors), (64.0, 8.0));
    assert_eq!(reads.cycles, counters.critical_path_mean);
    // In 512 cycles a block reads all of it, or nothing; in 4096, about half its time, it reads all of it.
    let set = |cycles: u64| {
        let mut sets = reads.working_sets.iter();
        sets.find(|set| set.cycles == cycles).expect("told").sectors
    };
    let stretches = |cycles: f64| reads.cycles / cycles;
    assert_eq!(set(512), 64.0 / stretches(512.0));
    assert!((7.0..=10.0).contains(&set(4096)), "{reads:?}");
    assert_eq!(reads.working_sets.last().expect("told").sectors, 8.0);
}

#[test]
fn a_sample_of_the_blocks_is_counted_for_all_of_them() {
    // Every block does the same, so that any sample must give the counts of the whole grid.
    let text = kernel(
        "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r4, %r2, %r3, %r1;\n\
         mul.wide.u32 %rd4, %r4, 4;\nadd.u64 %rd5, %rd1, %rd4;\nld.global.u32 %r5, [%rd5];\n\
         add.u64 %rd6, %rd3, %rd4;\nst.global.u32 [%rd6], %r5;",
    );
    let run = |sample: Option<u64>, threads: usize| {
        let mut device = Device::new(&text);
        let zeros = vec![0u32; 64 * 96];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device.honest("k", [96, 1, 1], [64, 1, 1], &args, |config| {
            config.sample = sample;
            config.threads = threads;
            config.resident_blocks = 4;
            config.l2_bytes = 0;
        });
        report.counters
    };
    let whole = run(None, 1);
    assert_eq!(whole.sampled_blocks, None);
    assert_eq!(whole.unique_sectors_read, 64 * 96 / 8);
    // Runs have three waves of four blocks, and there are at least two.
    for (sample, threads, executed) in [(8, 1, 24), (8, 3, 24), (1, 1, 24), (50, 2, 60)] {
        let mut sampled = run(Some(sample), threads);
        assert_eq!(sampled.sampled_blocks.take(), Some(executed));
        let lengths = sampled.working_sets.iter().map(|set| set.waves);
        assert!(lengths.eq([1, 2, 3, 24]));
        let of_whole = |set: &WorkingSet| whole.working_sets.contains(set);
        assert!(sampled.working_sets.iter().all(of_whole));
        sampled.working_sets = whole.working_sets.clone();
        // A sample does not say which blocks share a multiprocessor.
        assert_eq!(sampled.busiest_multiprocessor, None);
        sampled.busiest_multiprocessor = whole.busiest_multiprocessor.clone();
        assert_eq!(sampled, whole, "{sample} blocks on {threads} threads");
    }
    assert_eq!(run(Some(96), 2), whole);
    assert_eq!(run(Some(1000), 1), whole);
}

#[test]
fn a_sample_of_a_grid_of_which_little_works_is_counted_by_its_work() {
    // The first third of each row of blocks and the first eighth of the rows have work.
    let text = kernel(
        "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ctaid.y;\nsetp.ge.u32 %p1, %r2, 32;\n@%p1 ret;\n\
         setp.ge.u32 %p1, %r3, 32;\n@%p1 ret;\nmad.lo.u32 %r4, %r3, 32, %r2;\n\
         mad.lo.u32 %r4, %r4, 64, %r1;\nmul.wide.u32 %rd4, %r4, 4;\nadd.u64 %rd5, %rd1, %rd4;\n\
         add.u64 %rd6, %rd3, %rd4;\nmov.u32 %r6, 0;\nAGAIN:\nld.global.u32 %r5, [%rd5];\n\
         st.global.u32 [%rd6], %r5;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 1000;\n@%p2 bra AGAIN;",
    );
    let run = |sample: Option<u64>| {
        let mut device = Device::new(&text);
        let zeros = vec![0u32; 64 * 32 * 32];
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &zeros)));
        let report = device.honest("k", [96, 256, 1], [64, 1, 1], &args, |config| {
            config.sample = sample;
            config.resident_blocks = 16;
            config.l2_bytes = 0;
        });
        report.counters
    };
    let (whole, sampled) = (run(None), run(Some(64)));
    assert_eq!(whole.sampling_error_permille, None);
    assert_eq!(sampled.sampled_blocks, Some(96));
    let error = sampled.sampling_error_permille.expect("the blocks differ");
    assert!((1..150).contains(&error), "{error}");
    let within = |name: &str, found: u64, all: u64| {
        let ratio = found as f64 / all as f64;
        assert!((ratio - 1.0).abs() < 0.15, "{name}: {found} of {all}");
    };
    let instructions = |counters: &Counters| counters.total.warp_instructions;
    within("instructions", instructions(&sampled), instructions(&whole));
    let sectors = |counters: &Counters| counters.total.global.sectors_read;
    within("sectors", sectors(&sampled), sectors(&whole));
    within(
        "distinct sectors",
        sampled.unique_sectors_read,
        whole.unique_sectors_read,
    );
    within(
        "working blocks",
        sampled.working_blocks,
        whole.working_blocks,
    );
}

#[test]
fn a_sample_of_blocks_that_share_a_queue_finds_it_full() {
    // Each block takes pieces from a queue until all 600 are taken. A look at single blocks before the sample would
    // leave none for it.
    let text = kernel(
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nNEXT:\natom.global.add.u32 %r3, [%rd3], 1;\n\
         setp.ge.u32 %p1, %r3, 600;\n@%p1 bra END;\nld.global.u32 %r4, [%rd1];\nbra NEXT;\nEND:",
    );
    let run = |sample: Option<u64>| {
        let mut device = Device::new(&text);
        let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &[0u32; 64])));
        let report = device.honest("k", [96, 1, 1], [32, 1, 1], &args, |config| {
            config.sample = sample;
            config.resident_blocks = 4;
        });
        report.counters
    };
    let (whole, sampled) = (run(None), run(Some(24)));
    assert_eq!(whole.total.classes.load_global, 600);
    // The blocks of the sample take all pieces, and stand for four times as many blocks.
    assert_eq!(sampled.sampled_blocks, Some(24));
    assert_eq!(sampled.total.classes.load_global, 2400);
    assert_eq!(sampled.sampling_error_permille, None);
}

#[test]
fn blocks_that_wait_for_each_other_are_not_sampled() {
    let mut device = Device::new(&kernel("st.global.u32 [%rd3], %r1;"));
    let args = ["a", "b", "out"].map(|name| Arg::Pointer(device.buffer(name, &[0u32; 64])));
    let refused = device.try_launch("k", [8, 1, 1], [32, 1, 1], &args, |config| {
        config.cooperative = true;
        config.resident_blocks = 1;
        config.sample = Some(2);
    });
    let reason = refused
        .expect_err("a cooperative grid is whole")
        .to_string();
    assert!(reason.contains("wait for each other"), "{reason}");
}

#[test]
fn the_heaviest_block_is_known_among_many_that_only_end() {
    // Block 3 of 40 adds, loads and multiplies; the others look at their number and go.
    let text = kernel(
        "mov.u32 %r3, %ctaid.x;\nsetp.ne.u32 %p1, %r3, 3;\n@%p1 bra END;\nmov.u32 %r4, 0;\n\
         L: add.u32 %r4, %r4, 1;\nld.global.u32 %r5, [%rd1];\nsetp.lt.u32 %p2, %r4, 100;\n@%p2 bra L;\n\
         st.global.u32 [%rd3], %r5;\nEND:",
    );
    for threads in [1, 4] {
        let mut device = Device::new(&text);
        let (a, out) = (device.buffer("a", &[7u32; 64]), device.fresh("out", 256));
        let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(out)];
        let report = device
            .try_launch("k", [40, 1, 1], [32, 1, 1], &args, |config| {
                config.threads = threads;
            })
            .expect("the kernel runs");
        let (total, heaviest) = (&report.counters.total, &report.counters.heaviest_block);
        assert_eq!(heaviest.classes.load_global, 100, "{threads}");
        assert_eq!(heaviest.classes.load_global, total.classes.load_global);
        assert_eq!(heaviest.classes.store_global, 1);
        assert_eq!(heaviest.sectors, 101);
        assert_eq!(report.counters.working_blocks, 1);
        // Each of the others asks once where it is.
        assert_eq!(heaviest.classes.integer + 39, total.classes.integer);
        assert_eq!(heaviest.classes.branch + 39 * 2, total.classes.branch);
    }
}

#[test]
fn waiting_for_another_block_costs_no_more_than_asking_now_and_then() {
    // Block 0 comes first and asks for a word until block 1 has written it; by a load, and by an atomic.
    for ask in [
        "ld.volatile.global.u32 %r4, [%rd1];",
        "atom.global.add.u32 %r4, [%rd1], 0;",
    ] {
        let text = kernel(&format!(
            "mov.u32 %r3, %ctaid.x;\nsetp.eq.u32 %p1, %r3, 1;\n@%p1 bra TELL;\n\
             L: {ask}\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra L;\nbra END;\n\
             TELL: membar.gl;\natom.global.exch.b32 %r5, [%rd1], 1;\nEND:"
        ));
        let mut device = Device::new(&text);
        let a = device.buffer("a", &[0u32; 8]);
        let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(a)];
        let report = device
            .try_launch("k", [2, 1, 1], [32, 1, 1], &args, |config| {
                config.resident_blocks = 2;
            })
            .expect("the kernel runs");
        assert_eq!(report.outcome, Outcome::Completed, "{:#?}", report.findings);
        let path = report.counters.critical_path_max;
        assert!(path < 10_000, "{ask} {path} cycles");
    }
}

#[test]
fn the_critical_path_has_one_round_of_a_barrier_among_blocks() {
    // Each block counts itself and asks until all have.
    let text = kernel(
        "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\natom.global.add.u32 %r5, [%rd1], 1;\nmov.u32 %r3, %nctaid.x;\n\
         L: add.s64 %rd5, %rd1, 0;\nld.acquire.gpu.global.u32 %r4, [%rd5];\nsetp.lo.u32 %p2, %r4, %r3;\n@%p2 bra L;\nEND:",
    );
    let path = |blocks: u32| {
        let mut device = Device::new(&text);
        let a = device.buffer("a", &[0u32; 8]);
        let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(a)];
        let report = device
            .try_launch("k", [blocks, 1, 1], [32, 1, 1], &args, |config| {
                config.resident_blocks = blocks;
            })
            .expect("the kernel runs");
        assert_eq!(report.outcome, Outcome::Completed, "{:#?}", report.findings);
        report.counters.critical_path_max
    };
    let (alone, among) = (path(1), path(64));
    assert!(among <= alone + 10, "{alone} {among} cycles");
}

/// The critical path in cycles of one warp that runs alone. All its buffers are the same eight zeros.
fn path_of_a_warp(text: &str) -> u64 {
    let mut device = Device::new(text);
    let a = device.buffer("a", &[0u32; 8]);
    let args = [Arg::Pointer(a), Arg::Pointer(a), Arg::Pointer(a)];
    let report = device.launch("k", 1, 32, &args);
    assert_eq!(report.outcome, Outcome::Completed, "{:#?}", report.findings);
    report.counters.critical_path_max
}

#[test]
fn instructions_that_wait_for_a_load_are_issued_one_after_another_behind_it() {
    // The loads of a round wait for nothing, and the sums of the round wait for its loads.
    let path = |sums: usize| {
        let sum = |n: usize| format!("add.u32 %r{}, %r{}, %r4;\n", 10 + n, 10 + n);
        let sums = (0..sums).map(sum).collect::<String>();
        let text = kernel(&format!(
            "mov.u32 %r3, 100;\nL: ld.global.u32 %r4, [%rd1];\n{sums}add.u32 %r3, %r3, -1;\n\
             setp.ne.u32 %p1, %r3, 0;\n@%p1 bra L;"
        ));
        path_of_a_warp(&text)
    };
    // 100 rounds with 32 sums more, each issued in a cycle of its own.
    assert_eq!(path(40) - path(8), 3200);
}

#[test]
fn a_loop_that_counts_its_polls_or_follows_pointers_costs_all_its_rounds() {
    // The word stays 0 in the first; in the second it is the distance to the next one.
    for round in [
        "ld.volatile.global.u32 %r4, [%rd1];\nsetp.ne.u32 %p2, %r4, 0;\n@%p2 bra END;",
        "ld.volatile.global.u32 %r4, [%rd1];\ncvt.u64.u32 %rd5, %r4;\nadd.s64 %rd1, %rd1, %rd5;",
    ] {
        let path = |rounds: u32| {
            let text = kernel(&format!(
                "mov.u32 %r3, {rounds};\nL: {round}\nadd.u32 %r3, %r3, -1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra L;\nEND:"
            ));
            path_of_a_warp(&text)
        };
        let (few, many) = (path(10), path(100));
        assert!(many > 5 * few, "{round}: {few} {many} cycles");
    }
}
