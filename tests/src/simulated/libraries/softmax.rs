//! Kernels for `softmax-f32`.

use super::{Choices, Defect, Library, MARK};

pub(super) const LIBRARY: Library = Library {
    task: "softmax-f32",
    values: [3, 4, 2, 2, 4, 2],
    baseline: Choices([0, 0, 0, 0, 0, 1]),
    parameter: THREADS,
    relevant,
    has_barrier,
    effective: |choices| choices,
    compose,
};

/// Threads that share a row: one, a warp, the block.
const MAPPING: usize = 0;
/// Walks over a row: three, two with running sums, three with stored exponentials, or one with the row
/// in registers.
const WALKS: usize = 1;
/// Elements of one access: one or four.
const WIDTH: usize = 2;
/// Exponential function: exact or fast.
const EXPONENTIAL: usize = 3;
/// Threads of a block: 64, 128, 256 or 512.
const THREADS: usize = 4;
/// Division of each element by the sum, or one reciprocal.
const DIVISION: usize = 5;

fn relevant(term: &str) -> &'static [usize] {
    match term {
        "special" | "fp32" | "conversion" => &[EXPONENTIAL, DIVISION, WALKS],
        "issue" | "integer" | "load_store" => &[WIDTH, WALKS, DIVISION],
        "critical_path" | "launch" | "shared_wavefronts" => &[MAPPING, THREADS],
        _ => &[MAPPING, WALKS, WIDTH],
    }
}

/// Only the threads of a block that share a row meet.
fn has_barrier(choices: &Choices) -> bool {
    choices.0[MAPPING] == 2
}

fn compose(choices: &Choices, defect: Option<Defect>, note: &str) -> String {
    let Choices([mapping, walks, width, exponential, threads, division]) = *choices;
    let threads = 64 << threads;
    let group = match mapping {
        0 => 1,
        1 => 32,
        _ => threads,
    };
    let shares = ["one thread", "one warp", "one block"][usize::from(mapping)];
    let way = [
        "three walks over it",
        "two walks with running sums",
        "three walks with stored exponentials",
        "the row in registers",
    ][usize::from(walks)];
    let semicolon = if defect == Some(Defect::Compile) {
        ""
    } else {
        ";"
    };
    let barrier = if defect == Some(Defect::Race) {
        ""
    } else {
        "    __syncthreads();\n"
    };
    let sum = if defect == Some(Defect::Wrong) {
        "join(mass, Sum()) * 1.01f"
    } else {
        "join(mass, Sum())"
    };
    let exponential = ["expf", "__expf"][usize::from(exponential)];
    let scaled = ["/ mass", "* inverse"][usize::from(division)];
    let (width, load, store) = if width == 0 {
        (
            1,
            "    piece.v[0] = from[c];\n".to_owned(),
            "    to[c] = piece.v[0];\n".to_owned(),
        )
    } else {
        (4, WIDE_LOAD.to_owned(), WIDE_STORE.to_owned())
    };
    let join = match group {
        1 => "    return value;\n".to_owned(),
        32 => format!("{SHUFFLES}    return value;\n"),
        _ => format!(
            "    __shared__ float of_warp[THREADS / 32];\n{SHUFFLES}    __syncthreads();\n    \
             if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;\n{barrier}    \
             value = of_warp[0];\n    for (int w = 1; w < THREADS / 32; ++w) value = op(value, of_warp[w]);\n    \
             return value;\n"
        ),
    };
    let body = match walks {
        0 => THREE.to_owned(),
        1 => TWO.to_owned(),
        2 => STORED.to_owned(),
        _ => format!("{REGISTERS}{THREE}"),
    };
    let body = body
        .replace("join(mass, Sum())", sum)
        .replace("SCALED", scaled);
    format!(
        "/*---\n[idea]\ntitle = \"{shares} for a row, {way}\"\nhypothesis = \"{MARK}{choices}: {shares} for a row, \
         {way}, accesses of {width}, {exponential}, {threads} threads.\"\n\n[[launch]]\nkernel = \"softmax\"\n\
         grid = [\"cdiv(R, {rows})\"]\nblock = [{threads}]\nargs = [\"x\", \"y\", \"R\", \"C\"]\n---*/\n\
         // {MARK}{choices}{note}\nconstexpr int THREADS = {threads};\nconstexpr int GROUP = {group};\n\
         constexpr int ROWS = THREADS / GROUP{semicolon}\nconstexpr int WIDTH = {width};\n\
         constexpr unsigned ALL = 0xffffffffu;\n\nstruct Piece {{\n    float v[WIDTH];\n}};\n\n\
         __device__ Piece load(const float* from, int c, int C) {{\n    Piece piece;\n{load}    return piece;\n}}\n\n\
         __device__ void store(float* to, int c, int C, const Piece& piece) {{\n{store}}}\n\n\
         struct Max {{\n    __device__ float operator()(float a, float b) const {{ return fmaxf(a, b); }}\n}};\n\
         struct Sum {{\n    __device__ float operator()(float a, float b) const {{ return a + b; }}\n}};\n\n\
         template <class Op>\n__device__ float join(float value, Op op) {{\n{join}}}\n\n\
         __device__ float exponential(float value) {{ return {exponential}(value); }}\n\n\
         #define FOR_ROW for (int c = lane * WIDTH; c < C; c += GROUP * WIDTH)\n\
         #define FOR_PIECE for (int i = 0; i < WIDTH; ++i)\n\n\
         extern \"C\" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int R, int C) {{\n    \
         const int row = blockIdx.x * ROWS + threadIdx.x / GROUP;\n    if (row >= R) return;\n    \
         const int lane = threadIdx.x % GROUP;\n    const float* from = x + size_t(row) * C;\n    \
         float* to = y + size_t(row) * C;\n    float largest = -INFINITY;\n    float mass = 0.0f;\n{body}}}\n",
        rows = threads / group,
    )
}

const WIDE_LOAD: &str = "    if (C % 4 == 0) {
        const float4 quad = *reinterpret_cast<const float4*>(from + c);
        piece.v[0] = quad.x;
        piece.v[1] = quad.y;
        piece.v[2] = quad.z;
        piece.v[3] = quad.w;
    } else {
        for (int i = 0; i < WIDTH; ++i) piece.v[i] = c + i < C ? from[c + i] : -INFINITY;
    }
";

const WIDE_STORE: &str = "    if (C % 4 == 0) {
        *reinterpret_cast<float4*>(to + c) = make_float4(piece.v[0], piece.v[1], piece.v[2], piece.v[3]);
    } else {
        for (int i = 0; i < WIDTH; ++i) {
            if (c + i < C) to[c + i] = piece.v[i];
        }
    }
";

const SHUFFLES: &str = "    for (int step = 16; step > 0; step /= 2) value = op(value, __shfl_xor_sync(ALL, value, step));\n";

const THREE: &str = "    FOR_ROW {
        const Piece piece = load(from, c, C);
        FOR_PIECE largest = fmaxf(largest, piece.v[i]);
    }
    largest = join(largest, Max());
    FOR_ROW {
        const Piece piece = load(from, c, C);
        FOR_PIECE mass += exponential(piece.v[i] - largest);
    }
    mass = join(mass, Sum());
    const float inverse = 1.0f / mass;
    FOR_ROW {
        Piece piece = load(from, c, C);
        FOR_PIECE piece.v[i] = exponential(piece.v[i] - largest) SCALED;
        store(to, c, C, piece);
    }
";

const TWO: &str = "    FOR_ROW {
        const Piece piece = load(from, c, C);
        float grown = largest;
        FOR_PIECE grown = fmaxf(grown, piece.v[i]);
        if (grown != -INFINITY) {
            mass *= exponential(largest - grown);
            FOR_PIECE mass += exponential(piece.v[i] - grown);
        }
        largest = grown;
    }
    const float own = largest;
    largest = join(own, Max());
    mass *= own == -INFINITY ? 0.0f : exponential(own - largest);
    mass = join(mass, Sum());
    const float inverse = 1.0f / mass;
    FOR_ROW {
        Piece piece = load(from, c, C);
        FOR_PIECE piece.v[i] = exponential(piece.v[i] - largest) SCALED;
        store(to, c, C, piece);
    }
";

const STORED: &str = "    FOR_ROW {
        const Piece piece = load(from, c, C);
        FOR_PIECE largest = fmaxf(largest, piece.v[i]);
    }
    largest = join(largest, Max());
    FOR_ROW {
        Piece piece = load(from, c, C);
        FOR_PIECE {
            piece.v[i] = exponential(piece.v[i] - largest);
            mass += piece.v[i];
        }
        store(to, c, C, piece);
    }
    mass = join(mass, Sum());
    const float inverse = 1.0f / mass;
    FOR_ROW {
        Piece piece = load(to, c, C);
        FOR_PIECE piece.v[i] = piece.v[i] SCALED;
        store(to, c, C, piece);
    }
";

const REGISTERS: &str = "    constexpr int KEPT = 8;
    if (C <= GROUP * WIDTH * KEPT) {
        Piece kept[KEPT];
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            const int c = (lane + k * GROUP) * WIDTH;
            if (c < C) {
                kept[k] = load(from, c, C);
            } else {
                FOR_PIECE kept[k].v[i] = -INFINITY;
            }
            FOR_PIECE largest = fmaxf(largest, kept[k].v[i]);
        }
        largest = join(largest, Max());
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            FOR_PIECE {
                kept[k].v[i] = exponential(kept[k].v[i] - largest);
                mass += kept[k].v[i];
            }
        }
        mass = join(mass, Sum());
        const float inverse = 1.0f / mass;
#pragma unroll
        for (int k = 0; k < KEPT; ++k) {
            const int c = (lane + k * GROUP) * WIDTH;
            FOR_PIECE kept[k].v[i] = kept[k].v[i] SCALED;
            if (c < C) store(to, c, C, kept[k]);
        }
        return;
    }
";
