//! The kernels that the simulated author can write: every combination of independent choices, as text.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Error, ensure};
use serde::{Deserialize, Serialize};

/// Number of choices.
pub const AXES: usize = 6;
/// Number of values of each choice, in the order of [`Choices`].
pub const VALUES: [u8; AXES] = [3, 4, 2, 2, 4, 2];

/// Threads that share a row: one, a warp, the block.
pub const MAPPING: usize = 0;
/// Walks over a row: three, two with running sums, three with stored exponentials, or one with the row
/// in registers.
pub const WALKS: usize = 1;
/// Elements of one access: one or four.
pub const WIDTH: usize = 2;
/// Exponential function: exact or fast.
pub const EXPONENTIAL: usize = 3;
/// Threads of a block: 64, 128, 256 or 512.
pub const THREADS: usize = 4;
/// Division of each element by the sum, or one reciprocal.
pub const DIVISION: usize = 5;

/// The value of each choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Choices(pub [u8; AXES]);

impl Choices {
    /// Choices of the task's baseline.
    pub const BASELINE: Self = Self([0, 0, 0, 0, 0, 1]);

    /// Every combination.
    pub fn all() -> impl Iterator<Item = Self> {
        let count: usize = VALUES.iter().map(|values| usize::from(*values)).product();
        (0..count).map(|mut index| {
            let mut choices = [0; AXES];
            for (choice, values) in choices.iter_mut().zip(VALUES) {
                *choice = u8::try_from(index % usize::from(values)).expect("below a u8");
                index /= usize::from(values);
            }
            Self(choices)
        })
    }

    /// Number of choices that differ.
    #[must_use]
    pub fn distance(&self, other: &Self) -> usize {
        let pairs = self.0.iter().zip(other.0);
        pairs.filter(|(one, other)| **one != *other).count()
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&words.join("."))
    }
}

impl From<Choices> for String {
    fn from(choices: Choices) -> Self {
        choices.to_string()
    }
}

impl TryFrom<String> for Choices {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl FromStr for Choices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let values: Vec<u8> = text
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("read the choices {text:?}"))?;
        let choices: [u8; AXES] = values
            .try_into()
            .map_err(|_| Error::msg(format!("{text:?} has not {AXES} choices")))?;
        let inside = choices
            .iter()
            .zip(VALUES)
            .all(|(one, values)| *one < values);
        ensure!(inside, "a choice of {text:?} does not exist");
        Ok(Self(choices))
    }
}

/// A defect that the author put into a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// A missing semicolon.
    Compile,
    /// A missing barrier. Kernels without barriers have [`Defect::Compile`] in its place.
    Race,
    /// A sum that is one percent too large.
    Wrong,
}

/// The mark in front of the choices in code and thoughts.
pub const MARK: &str = "simulated kernel ";

/// Text of the kernel. `note` makes the texts of otherwise equal kernels differ.
#[must_use]
pub fn compose(choices: &Choices, defect: Option<Defect>, note: &str) -> String {
    let Choices([mapping, walks, width, exponential, threads, division]) = *choices;
    let threads = 64 << threads;
    let group = match mapping {
        0 => 1,
        1 => 32,
        _ => threads,
    };
    let defect = match defect {
        Some(Defect::Race) if group <= 32 => Some(Defect::Compile),
        other => other,
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
