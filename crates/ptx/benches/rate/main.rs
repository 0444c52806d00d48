//! The execution rate of real kernels: thread instructions per second by check level and number of threads.
//!
//! `cargo bench -p ptx --bench rate` prints, after Criterion's own lines, a table with the instructions of one
//! launch, the rate at every check level, the ratios between the levels, and the floating-point operations per
//! second of kernels on tensor cores. A calibration loop of fixed work stands at its head: figures of two machines,
//! or of a quiet and a busy one, compare only together with it. `RATE_QUICK=1` skips Criterion and prints the table
//! alone, for every instruction set the processor has. `RATE_ONLY=mma` keeps the kernels whose name contains the word,
//! and `RATE_ISA=avx2` one instruction set.

mod kernels;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput};
use ptx::{Checks, Isa};

use kernels::{KERNELS, Kernel, Prepared};

const LEVELS: [(Checks, &str); 3] = [
    (Checks::Off, "off"),
    (Checks::Bounds, "bounds"),
    (Checks::Full, "full"),
];
/// Launches for one figure of the table; the best counts, as everything else on the machine only makes it slower.
const LAUNCHES: usize = 7;
/// Multiply-adds of the calibration loop: a chain of dependent ones in every lane, which no memory slows down.
const CALIBRATION_ROUNDS: u32 = 10_000_000;

/// Processor time of this thread, so that other load on the host does not count.
fn spent() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Billions of multiply-adds per second in eight dependent chains on one thread.
fn calibration() -> f64 {
    let run = || {
        let mut lanes = black_box([1.5_f32; 8]);
        let (factor, term) = black_box((0.999_9_f32, 0.000_1_f32));
        let start = spent();
        for _ in 0..CALIBRATION_ROUNDS {
            for lane in &mut lanes {
                *lane = *lane * factor + term;
            }
        }
        black_box(lanes);
        spent() - start
    };
    let best = (0..3).map(|_| run()).min().expect("three runs");
    8.0 * f64::from(CALIBRATION_ROUNDS) / best.as_secs_f64() / 1e9
}

/// The shortest processor time of a few launches on one thread.
fn best(prepared: &mut Prepared, checks: Checks) -> Duration {
    (0..LAUNCHES)
        .map(|_| {
            let start = spent();
            prepared.launch(checks, 1);
            spent() - start
        })
        .min()
        .expect("at least one launch")
}

/// The shortest wall-clock time of a few launches on several threads.
fn best_parallel(prepared: &mut Prepared, threads: usize) -> Duration {
    (0..LAUNCHES)
        .map(|_| {
            let start = Instant::now();
            prepared.launch(Checks::Bounds, threads);
            start.elapsed()
        })
        .min()
        .expect("at least one launch")
}

/// The kernels asked for.
fn kernels() -> impl Iterator<Item = &'static Kernel> {
    let only = std::env::var("RATE_ONLY").unwrap_or_default();
    KERNELS
        .iter()
        .filter(move |kernel| kernel.name.contains(&only))
}

fn giga(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e9
}

fn table(isa: Isa) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "\ninstruction set {}; calibration loop {:.2} G multiply-adds/s on one thread",
        isa.name(),
        calibration()
    );
    println!(
        "{:<26} {:>12} {:>7} {:>7} {:>7} {:>11} {:>11} {:>9} {:>8}",
        "kernel",
        "thr. instr.",
        "off",
        "bounds",
        "full",
        "bounds/off",
        "full/bounds",
        "GFLOP/s",
        format!("{threads} thr.")
    );
    for kernel in kernels() {
        let mut prepared = Prepared::new(kernel, isa);
        let counters = prepared.launch(Checks::Bounds, 1);
        let instructions = counters.total.thread_instructions;
        let times = LEVELS.map(|(level, _)| best(&mut prepared, level));
        let parallel = best_parallel(&mut prepared, threads);
        let [off, bounds, full] = times.map(|time| giga(instructions, time));
        // Two operations per multiply-add, with bounds and initialisation checked.
        let flops = match counters.total.tensor_macs {
            0 => "-".to_owned(),
            macs => format!("{:.1}", giga(2 * macs, times[1])),
        };
        println!(
            "{:<26} {instructions:>12} {off:>7.2} {bounds:>7.2} {full:>7.2} {:>11.2} {:>11.2} {flops:>9} {:>8.2}",
            kernel.name,
            times[1].as_secs_f64() / times[0].as_secs_f64(),
            times[2].as_secs_f64() / times[1].as_secs_f64(),
            giga(instructions, parallel)
        );
    }
    println!(
        "rates in G thread instructions/s on one thread; ratios of times; GFLOP/s and several threads with bounds"
    );
}

fn measure(criterion: &mut Criterion, isa: Isa) {
    for kernel in kernels() {
        let mut prepared = Prepared::new(kernel, isa);
        let instructions = prepared.launch(Checks::Off, 1).total.thread_instructions;
        let mut group = criterion.benchmark_group(kernel.name);
        group
            .throughput(Throughput::Elements(instructions))
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        for (level, name) in LEVELS {
            group.bench_function(BenchmarkId::new(isa.name(), name), |bencher| {
                bencher.iter(|| prepared.launch(level, 1));
            });
        }
        group.finish();
    }
}

fn main() {
    let isa = Isa::detect();
    if std::env::var_os("RATE_QUICK").is_none() {
        let mut criterion = Criterion::default().configure_from_args();
        measure(&mut criterion, isa);
        criterion.final_summary();
    }
    let only = std::env::var("RATE_ISA").unwrap_or_default();
    for isa in Isa::ALL {
        if isa.is_available() && isa.name().contains(&only) {
            table(*isa);
        }
    }
}
