//! Structural edits: their texts, and that every task's kernels have some.

use convert::edit::{Donor, edits};
use domain::candidate::KernelSource;

const SOURCE: &str = r#"/*---
[idea]
title = "tile"
[[launch]]
kernel = "k"
grid = ["cdiv(N, TILE)"]
block = [32, 8]
args = ["x", "y"]
---*/
constexpr int TILE = 32;
#define DEPTH 4
__device__ float twice(float value) { return 2.0f * value; }
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float tile[8][32];
    for (int i = 0; i < DEPTH; ++i) {
        tile[threadIdx.y][threadIdx.x] = twice(x[i]);
    }
#pragma unroll
    for (int i = 0; i < TILE; ++i) y[i] = tile[i % 8][i];
}
"#;

fn parse(text: &str) -> KernelSource {
    KernelSource::parse("k.cu", text).expect("a kernel")
}

/// The lines that an edit removes and adds.
fn difference(before: &str, after: &str) -> Vec<String> {
    let gone = before
        .lines()
        .filter(|line| !after.lines().any(|other| other == *line));
    let new = after
        .lines()
        .filter(|line| !before.lines().any(|other| other == *line));
    let gone = gone.map(|line| format!("- {}", line.trim()));
    gone.chain(new.map(|line| format!("+ {}", line.trim())))
        .collect()
}

#[test]
fn each_edit_changes_one_thing() {
    let source = parse(SOURCE);
    let found = edits("k.cu", &source, &[]);
    let found = found.iter().filter(|edit| !edit.name.contains("access"));
    let told = found.map(|edit| {
        let changed = difference(source.text(), edit.source.text());
        format!("{}: {}", edit.name, changed.join(" "))
    });
    let told: Vec<String> = told.collect();
    let wanted = [
        "unroll the loop in line 15 in full: ",
        "unroll the loop in line 15 by 4: + #pragma unroll 4",
        "keep the loop in line 15 rolled: + #pragma unroll 1",
        "unroll the loop in line 19 by 4: - #pragma unroll + #pragma unroll 4",
        "keep the loop in line 19 rolled: - #pragma unroll + #pragma unroll 1",
        "bound the launch of k to its threads: - extern \"C\" __global__ void k(const float* x, float* y) { \
         + extern \"C\" __global__ void __launch_bounds__(32 * 8) k(const float* x, float* y) {",
        "bound the launch of k to its threads and 2 blocks of a multiprocessor: \
         - extern \"C\" __global__ void k(const float* x, float* y) { \
         + extern \"C\" __global__ void __launch_bounds__(32 * 8, 2) k(const float* x, float* y) {",
        "bound the launch of k to its threads and 4 blocks of a multiprocessor: \
         - extern \"C\" __global__ void k(const float* x, float* y) { \
         + extern \"C\" __global__ void __launch_bounds__(32 * 8, 4) k(const float* x, float* y) {",
        "promise that the pointers of k have no aliases: \
         - extern \"C\" __global__ void k(const float* x, float* y) { \
         + extern \"C\" __global__ void k(const float* __restrict__  x, float* __restrict__  y) {",
        "pad the rows of the shared array tile by 1: - __shared__ float tile[8][32]; \
         + __shared__ float tile[8][32 + 1];",
        "pad the rows of the shared array tile by 4: - __shared__ float tile[8][32]; \
         + __shared__ float tile[8][32 + 4];",
        "pad the rows of the shared array tile by 8: - __shared__ float tile[8][32]; \
         + __shared__ float tile[8][32 + 8];",
        "swizzle the columns of the shared array tile: \
         - tile[threadIdx.y][threadIdx.x] = twice(x[i]); \
         - for (int i = 0; i < TILE; ++i) y[i] = tile[i % 8][i]; \
         + tile[threadIdx.y][(threadIdx.x) ^ ((threadIdx.y) % 32)] = twice(x[i]); \
         + for (int i = 0; i < TILE; ++i) y[i] = tile[i % 8][(i) ^ ((i % 8) % 32)];",
        "make TILE tunable: - constexpr int TILE = 32; + [tunables.TILE] + value = 32 \
         + choices = [16, 32, 64]",
        "make DEPTH tunable: - #define DEPTH 4 + [tunables.DEPTH] + value = 4 + choices = [2, 4, 8]",
    ];
    assert_eq!(told, wanted);
}

#[test]
fn a_loop_over_elements_gets_wider_accesses() {
    let source = SOURCE.replace(
        "    for (int i = 0; i < DEPTH; ++i) {\n        tile[threadIdx.y][threadIdx.x] = twice(x[i]);\n    }\n",
        "    const float* from = x + blockIdx.x * DEPTH;
    #pragma unroll 4
    for (int c = threadIdx.x; c < DEPTH; c += blockDim.x) {
        y[blockIdx.x * DEPTH + c] = from[c] + from[c] * x[0];
    }
",
    );
    let source = parse(&source);
    let found = edits("k.cu", &source, &[]);
    let wide = found
        .iter()
        .find(|edit| edit.name == "let the loop in line 17 access 4 elements at a time");
    let text = wide.expect("an edit").source.text();
    let wanted = "    const float* from = x + blockIdx.x * DEPTH;
    if ((DEPTH) % 4 == 0) {
        using Piece_0 = struct __align__(16) { float of[4]; };
        using Piece_1 = struct __align__(16) { float of[4]; };
        for (int first_c = (threadIdx.x) * 4; first_c < DEPTH; first_c += (blockDim.x) * 4) {
            Piece_0 piece_0 = *reinterpret_cast<const Piece_0*>(&from[first_c]);
            Piece_1 piece_1;
    #pragma unroll
            for (int of_piece = 0; of_piece < 4; ++of_piece) {
                {
        piece_1.of[of_piece] = piece_0.of[of_piece] + piece_0.of[of_piece] * x[0];
    }
            }
            *reinterpret_cast<Piece_1*>(&y[blockIdx.x * DEPTH + first_c]) = piece_1;
        }
    } else for (int c = threadIdx.x; c < DEPTH; c += blockDim.x) {
        y[blockIdx.x * DEPTH + c] = from[c] + from[c] * x[0];
    }
";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_loop_that_ends_early_or_steps_over_elements_keeps_its_accesses() {
    let widened = |body: &str| {
        let source = SOURCE.replace("twice(x[i]);", body);
        let found = edits("k.cu", &parse(&source), &[]);
        found
            .iter()
            .filter(|edit| edit.name.contains("line 15 access"))
            .count()
    };
    assert_eq!(widened("twice(x[i]);"), 1);
    for body in [
        "twice(x[2 * i]);",
        "twice(x[i + i]);",
        "twice(x[i]); if (i > 2) break;",
        "twice(x[i]); const float* next = &x[i];",
        "i;",
    ] {
        assert_eq!(widened(body), 0, "{body}");
    }
}

const TILED: &str = r#"/*---
[idea]
title = "tiles"
[[launch]]
kernel = "k"
grid = ["cdiv(N, 32)"]
block = [32]
args = ["x", "y"]
---*/
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float tile[32];
    float sum = 0.0f;
    for (int first = 0; first < 256; first += 32) {
        const int at = first + threadIdx.x;
        tile[threadIdx.x] = at < 200 ? x[at] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; ++i) sum += tile[i];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
"#;

#[test]
fn a_loop_over_tiles_copies_the_next_one_ahead() {
    let found = edits("k.cu", &parse(TILED), &[]);
    let text = |name: &str| {
        let mut named = found.iter().filter(|edit| edit.name == name);
        named.next().expect("an edit").source.text().to_owned()
    };
    let simple = text("copy the tiles of the loop in line 13 one round ahead");
    let wanted = "    __shared__ float tile[2][32];
    float sum = 0.0f;
    const auto copy_tile = [&](int first, int stage_of_tile) {
        const int at = first + threadIdx.x;
        tile[stage_of_tile][threadIdx.x] = at < 200 ? x[at] : 0.0f;
    };
    int current_stage = 0;
    if ((0) < (256)) copy_tile(0, 0);
    for (int first = 0; first < 256; first += 32) {
        __syncthreads();
        if (first + (32) < (256)) copy_tile(first + (32), current_stage ^ 1);
        #pragma unroll
        for (int i = 0; i < 32; ++i) sum += tile[current_stage][i];
        current_stage ^= 1;
    }
";
    assert!(simple.contains(wanted), "{simple}");
    let asynchronous =
        text("copy the tiles of the loop in line 13 one round ahead, asynchronously");
    let copy = "asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4, %2;\" :: \
                \"r\"(static_cast<unsigned>(__cvta_generic_to_shared(&tile[stage_of_tile][threadIdx.x]))), \
                \"l\"(&x[at]), \"r\"((at < 200) ? 4 : 0) : \"memory\");";
    assert!(asynchronous.contains(copy), "{asynchronous}");
    let wait =
        "        asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n        __syncthreads();\n";
    assert!(asynchronous.contains(wait), "{asynchronous}");
}

#[test]
fn a_loop_whose_tiles_have_other_uses_copies_none_ahead() {
    let ahead = |from: &str, to: &str| {
        assert!(TILED.contains(from), "{from}");
        let found = edits("k.cu", &parse(&TILED.replacen(from, to, 1)), &[]);
        let names = found.into_iter().map(|edit| edit.name);
        names.filter(|name| name.contains("ahead")).count()
    };
    assert_eq!(ahead("= sum;", "= sum;"), 2);
    // Values that are computed are no copies of elements.
    assert_eq!(ahead("x[at] :", "2.0f * x[at] :"), 1);
    for (from, to) in [
        ("= sum;", "= sum + tile[0];"),
        ("sum += tile[i];", "sum += tile[i]++;"),
        ("sum += tile[i];", "sum += tile[i] * at;"),
        ("tile[threadIdx.x] =", "sum = 1.0f; tile[threadIdx.x] ="),
        (
            "tile[threadIdx.x] =",
            "__syncthreads(); tile[threadIdx.x] =",
        ),
        (
            "sum += tile[i];",
            "{ sum += tile[i]; if (sum > 1.0f) break; }",
        ),
    ] {
        assert_eq!(ahead(from, to), 0, "{to}");
    }
}

#[test]
fn parts_of_other_sources_are_taken_over() {
    let source = parse(SOURCE);
    let other = SOURCE
        .replace("return 2.0f * value;", "return value + value;")
        .replace("DEPTH 4", "DEPTH 2");
    let other = parse(&other);
    let donors = [Donor {
        name: "02.cu",
        source: &other,
    }];
    let own = edits("k.cu", &source, &[]).len();
    let found = edits("k.cu", &source, &donors);
    let names: Vec<&str> = found[own..].iter().map(|edit| edit.name.as_str()).collect();
    assert_eq!(
        names,
        ["take twice over from 02.cu", "set DEPTH to 2 as in 02.cu"]
    );
    assert!(
        found[own]
            .source
            .text()
            .contains("{ return value + value; }")
    );
    let same = Donor {
        name: "same.cu",
        source: &source,
    };
    assert_eq!(edits("k.cu", &source, &[same]).len(), own);
}

#[test]
fn uses_that_are_no_element_keep_an_array_from_being_swizzled() {
    let text = SOURCE.replace(
        "twice(x[i]);",
        "twice(x[i]); float* row = tile[0]; row[0] = 1.0f;",
    );
    let found = edits("k.cu", &parse(&text), &[]);
    assert!(found.iter().all(|edit| !edit.name.contains("swizzle")));
    assert!(found.iter().any(|edit| edit.name.contains("pad")));
}
