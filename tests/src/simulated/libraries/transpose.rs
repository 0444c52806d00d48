//! Kernels for `transpose-f32`. Some choices pay only together: padding needs a tile in shared memory, and
//! whole sectors need one, too.

use minijinja::context;

use super::{Choices, Defect, Library, MARK, render};

pub(super) const LIBRARY: Library = Library {
    task: "transpose-f32",
    values: [2, 3, 3, 3, 2, 3],
    baseline: Choices([0, 1, 0, 1, 0, 0]),
    parameter: ROWS,
    relevant,
    has_barrier,
    effective,
    compose,
};

/// Way of an element: straight, or through a tile in shared memory.
const STAGING: usize = 0;
/// Rows and columns of a block's tile: 16, 32 or 64.
const TILE: usize = 1;
/// Columns of the tile in shared memory: plain, with one more, or permuted by the row.
const BANKS: usize = 2;
/// Rows of a block's threads: 4, 8 or 16.
const ROWS: usize = 3;
/// Elements of one access to device memory: one or four.
const WIDTH: usize = 4;
/// Order of the blocks: along the rows of x, down its columns, or along diagonals.
const ORDER: usize = 5;

fn relevant(term: &str) -> &'static [usize] {
    match term {
        "shared_wavefronts" => &[BANKS, TILE],
        "issue" | "integer" | "load_store" | "fp32" => &[WIDTH, ROWS],
        "critical_path" | "launch" => &[ROWS, TILE],
        _ => &[STAGING, ORDER, WIDTH],
    }
}

fn has_barrier(choices: &Choices) -> bool {
    choices.0[STAGING] == 1
}

fn effective(mut choices: Choices) -> Choices {
    if choices.0[STAGING] == 0 {
        choices.0[BANKS] = 0;
    }
    choices
}

fn compose(choices: &Choices, defect: Option<Defect>, note: &str) -> String {
    let Choices([staging, tile, banks, rows, width, order]) = *choices;
    render(
        include_str!("transpose.cu.jinja"),
        context! {
            mark => MARK,
            choices => choices.to_string(),
            note,
            staged => staging == 1,
            tile => 16 << tile,
            banks => ["plain", "padded", "permuted"][usize::from(banks)],
            rows => 4 << rows,
            width => if width == 1 { 4 } else { 1 },
            order => ["rows", "columns", "diagonals"][usize::from(order)],
            semicolon => if defect == Some(Defect::Compile) { "" } else { ";" },
            barrier => if defect == Some(Defect::Race) { "" } else { "__syncthreads();" },
            factor => if defect == Some(Defect::Wrong) { " * 1.01f" } else { "" },
        },
    )
}
