//! Kernels for `gemm-f16`. Many choices pay only together: matrix units are fed by large tiles, copies
//! ahead need room, and slices of the inner dimension pay where tiles are few.

use minijinja::context;

use super::{Choices, Defect, Library, MARK, render};

pub(super) const LIBRARY: Library = Library {
    task: "gemm-f16",
    values: [2, 3, 4, 2, 2, 3],
    baseline: Choices([0, 0, 0, 0, 0, 0]),
    parameter: DEPTH,
    relevant,
    has_barrier,
    effective: |choices| choices,
    compose,
};

/// Arithmetic: f32, or matrix units.
const UNIT: usize = 0;
/// Rows and columns of c in a block: 16, 32 or 64.
const TILE: usize = 1;
/// Copies to shared memory: by element, by 16 bytes, or by 16 bytes one or two steps ahead.
const COPIES: usize = 2;
/// Padding of rows in shared memory: none, or 16 bytes.
const PADDING: usize = 3;
/// Inner elements of a step: 16 or 32.
const DEPTH: usize = 4;
/// Slices of the inner dimension, whose sums a second launch adds: 1, 4 or 16.
const SLICES: usize = 5;

fn relevant(term: &str) -> &'static [usize] {
    match term {
        "shared_wavefronts" => &[PADDING, UNIT, TILE],
        "critical_path" | "launch" => &[SLICES, COPIES, DEPTH],
        "dram_bytes" | "l2_bytes" => &[TILE, COPIES],
        _ => &[UNIT, TILE, COPIES],
    }
}

/// A tile of one warp needs none that another would miss.
fn has_barrier(choices: &Choices) -> bool {
    choices.0[UNIT] == 0 || choices.0[TILE] > 0
}

fn compose(choices: &Choices, defect: Option<Defect>, note: &str) -> String {
    let Choices([unit, tile, copies, padding, depth, slices]) = *choices;
    let uses_matrix_units = unit == 1;
    // A warp of the matrix units computes 16 x 16 elements of a small tile and 32 x 32 of the largest.
    let of_warp = if tile == 2 { 32 } else { 16 };
    let tile = 16 << tile;
    let warps = (tile / of_warp) * (tile / of_warp);
    let ahead = copies.saturating_sub(1);
    render(
        include_str!("gemm.cu.jinja"),
        context! {
            mark => MARK,
            choices => choices.to_string(),
            note,
            uses_matrix_units,
            of_warp,
            tile,
            threads => if uses_matrix_units { 32 * warps } else { 256 },
            by_element => copies == 0,
            ahead,
            padding => 8 * padding,
            depth => 16 << depth,
            slices => 1 << (2 * slices),
            semicolon => if defect == Some(Defect::Compile) { "" } else { ";" },
            barrier => if defect == Some(Defect::Race) { "" } else { "__syncthreads();" },
            factor => if defect == Some(Defect::Wrong) { " * 1.01f" } else { "" },
        },
    )
}
