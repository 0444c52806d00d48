//! Kernels for `histogram-i32`. Some choices pay only together: threads that count much each need counts of
//! their block, and what helps counts in device memory slows others down.

use minijinja::context;

use super::{Choices, Defect, Library, MARK, render};

pub(super) const LIBRARY: Library = Library {
    task: "histogram-i32",
    values: [4, 3, 3, 2, 2, 2],
    baseline: Choices([0, 0, 0, 1, 0, 0]),
    parameter: THREADS,
    relevant,
    has_barrier,
    effective,
    compose,
};

/// Place of the counts: device memory, or shared memory with a copy of the block, of each warp, or of each eighth
/// lane.
const COUNTS: usize = 0;
/// Bytes of one access: 1, 4 or 16.
const WIDTH: usize = 1;
/// Accesses of a thread: 1, 4 or 16.
const ROUNDS: usize = 2;
/// Threads of a block: 128 or 512.
const THREADS: usize = 3;
/// Bytes of a thread that repeat the one before are added together, or not.
const REPEATS: usize = 4;
/// Equal bytes of a warp's lanes are added together, or not.
const LANES: usize = 5;

fn relevant(term: &str) -> &'static [usize] {
    match term {
        "atomic_contention" | "critical_path" | "shared_wavefronts" => &[COUNTS, REPEATS, LANES],
        "issue" | "integer" | "load_store" => &[WIDTH, LANES, REPEATS],
        "launch" => &[ROUNDS, THREADS],
        _ => &[WIDTH, ROUNDS, COUNTS],
    }
}

fn has_barrier(choices: &Choices) -> bool {
    choices.0[COUNTS] > 0
}

/// Bytes that lanes have added together have no repeats.
fn effective(mut choices: Choices) -> Choices {
    if choices.0[LANES] == 1 {
        choices.0[REPEATS] = 0;
    }
    choices
}

fn compose(choices: &Choices, defect: Option<Defect>, note: &str) -> String {
    let Choices([counts, width, rounds, threads, repeats, lanes]) = *choices;
    let threads = 128 << (2 * threads);
    let place = [
        "in device memory",
        "of the block",
        "of each warp",
        "of each eighth lane",
    ];
    render(
        include_str!("histogram.cu.jinja"),
        context! {
            mark => MARK,
            choices => choices.to_string(),
            note,
            place => place[usize::from(counts)],
            copies => [0, 1, threads / 32, 8][usize::from(counts)],
            bin => ["bin", "bin", "threadIdx.x / 32 * BINS + bin", "bin * COPIES + threadIdx.x % COPIES"]
                [usize::from(counts)],
            bin_of_copy => ["", "b", "copy * BINS + b", "b * COPIES + copy"][usize::from(counts)],
            width => 1 << (2 * width),
            rounds => 1 << (2 * rounds),
            threads,
            repeats => repeats == 1,
            lanes => lanes == 1,
            semicolon => if defect == Some(Defect::Compile) { "" } else { ";" },
            barrier => if defect == Some(Defect::Race) { "" } else { "__syncthreads();" },
            more => if defect == Some(Defect::Wrong) { " + (bin == 0)" } else { "" },
        },
    )
}
