//! Counters, printed text and launch errors of the corpus on the machine, where a case fixes them.

use corpus::{Noise, Plain};
use ptx::report::{LaunchReport, Outcome};
use ptx::{Checks, Fragments, Isa, Schedule};

use crate::support::{Arg, Device};

/// The reports of a case and the contents it read, in order.
fn run(name: &str) -> (Vec<LaunchReport>, Vec<Vec<u8>>) {
    let (reports, record) = super::run(name, Schedule::Serial, Fragments::Usual);
    let contents = record.reads.into_iter().map(|read| read.bytes).collect();
    (reports, contents)
}

#[test]
fn work_is_counted_by_class_and_by_line() {
    let (reports, _) = run("row_sums");
    let (counters, rows, columns) = (&reports[0].counters, 5, 300);
    assert_eq!(counters.total.classes.barrier, rows * 4 * 3);
    assert_eq!(counters.unique_sectors_read, rows * columns * 4 / 32 + 1);
    // Each line of the source that executes has its share, and the shares add up.
    let lines = counters
        .lines
        .iter()
        .map(|line| line.tally.warp_instructions);
    assert_eq!(lines.sum::<u64>(), counters.total.warp_instructions);

    let classes = |name| run(name).0[0].counters.total.classes.clone();
    let histogram = classes("histogram_with_atomics_and_votes");
    assert!(histogram.atomic_shared > 0 && histogram.atomic_global > 0);
    let total = |name| run(name).0[0].counters.total.clone();
    assert!(
        total("the_mathematics_library").local_bytes > 0,
        "the powers are on the stack"
    );
    assert_eq!(total("tensor_cores_through_wmma").tensor_macs, 16 * 16 * 48);
    let (heads, length, dim) = (2, 96, 64);
    assert_eq!(
        total("flash_attention_with_fragments_in_registers").tensor_macs,
        heads * 2 * length * length * dim
    );
}

#[test]
fn kernels_print() {
    let (reports, contents) = run("integers_of_all_widths_and_text");
    let mut noise = Noise(7);
    let x: Vec<i32> = (0..50).map(|_| noise.next() as i32).collect();
    let wide = i64::get(&contents[0][5 * 8..6 * 8]);
    assert_eq!(
        reports[0].printed,
        format!("value 5 of x is {wide}, {:5.2}\n", 0.5 * f64::from(x[5]))
    );
    let (reports, contents) = run("a_sort_with_a_stack_and_text");
    let (low, high) = (
        i32::get(&contents[0][30 * 4..31 * 4]),
        i32::get(&contents[0][59 * 4..60 * 4]),
    );
    assert_eq!(
        reports[0].printed,
        format!("thread 1 sorted 30 numbers from {low} to {high}, 1099511627776  99.5%\n")
    );
}

#[test]
fn variables_of_a_module_are_listed() {
    let device = Device::new(super::ptx("handshake"));
    let names: Vec<&str> = device
        .module
        .variables()
        .iter()
        .map(|variable| variable.name.as_str())
        .collect();
    assert_eq!(names, ["arrived", "open"]);
}

#[test]
fn too_few_resident_blocks_hang_and_the_budget_ends_it() {
    let mut device = Device::new(super::ptx("handshake"));
    let x = [0i32; 96];
    let (px, pp, pt) = (
        device.buffer("x", &x),
        device.buffer("partial", &[0i32; 3]),
        device.buffer("total", &[0i32]),
    );
    let args = [Arg::Pointer(px), Arg::Pointer(pp), Arg::Pointer(pt)];
    let report = device
        .try_launch("handshake", [3, 1, 1], [64, 1, 1], &args, |config| {
            config.resident_blocks = 2;
            config.budget = Some(1_000_000);
        })
        .unwrap();
    assert_eq!(report.outcome, Outcome::BudgetExhausted);
    assert!(
        report.findings[0]
            .location
            .line
            .is_some_and(|line| line == 18),
        "{:?}",
        report.findings[0]
    );
}

/// Bytes, counters and findings of the packed halves and the row sums under a configuration.
fn fingerprint(threads: usize, isa: Isa, checks: Checks) -> (Vec<u32>, Vec<u32>, String) {
    let mut device = Device::new(super::ptx("reduce"));
    device.machine.use_isa(isa);
    let x = Noise(8).units(40 * 77);
    let (px, ps) = (device.buffer("x", &x), device.fresh("sums", 160));
    let args = [Arg::Pointer(px), Arg::Pointer(ps), Arg::I32(77)];
    let report = device
        .try_launch("row_sums", [40, 1, 1], [128, 1, 1], &args, |config| {
            config.threads = threads;
            config.checks = checks;
        })
        .expect("the kernel runs");
    let sums = device.read(ps, 40);
    let mut device = Device::new(super::ptx("mathematics"));
    device.machine.use_isa(isa);
    let (x, y): (Vec<f32>, Vec<f64>) = (
        Noise(9).units(64),
        Noise(10).units(64).into_iter().map(f64::from).collect(),
    );
    let (px, py) = (device.buffer("x", &x), device.buffer("y", &y));
    let (ps, pd) = (
        device.fresh("singles", 64 * 20),
        device.fresh("doubles", 64 * 32),
    );
    let args = [
        Arg::Pointer(px),
        Arg::Pointer(ps),
        Arg::Pointer(py),
        Arg::Pointer(pd),
        Arg::I32(8),
    ];
    device.launch("mathematics", 1, 64, &args);
    let mut bits: Vec<u32> = device.read(ps, 64 * 5);
    bits.extend(device.read::<u32>(pd, 64 * 8));
    (
        sums,
        bits,
        serde_json::to_string(&report.counters).expect("counters are plain values"),
    )
}

#[test]
fn the_same_bytes_and_counters_on_any_instruction_set_and_thread_count() {
    let one = fingerprint(1, Isa::detect(), Checks::Full);
    assert_eq!(one, fingerprint(4, Isa::detect(), Checks::Full));
    for isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
        assert_eq!(one, fingerprint(1, *isa, Checks::Full), "{isa:?}");
        assert_eq!(one, fingerprint(3, *isa, Checks::Bounds), "{isa:?}");
    }
}
