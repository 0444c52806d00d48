//! Matrix fragments: the lane and register of each element, and the number of multiply-adds.
//!
//! The PTX ISA documents the layouts of `mma.sync`. It leaves those of `wmma` unspecified. The machine uses tiled `mma`
//! layouts, as hardware is believed to do, or for a second run a different layout, with which code that assumes the
//! first one fails.

/// An operand of a matrix multiply-add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matrix {
    A,
    B,
    /// C and D.
    Accumulator,
}

/// The type of a matrix's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
    E4m3,
    E5m2,
}

impl Element {
    pub(crate) fn bits(self) -> u32 {
        match self {
            Self::B1 => 1,
            Self::S4 | Self::U4 => 4,
            Self::S8 | Self::U8 | Self::E4m3 | Self::E5m2 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
        }
    }

    /// Elements that share a register.
    pub(crate) fn per_register(self) -> usize {
        (32 / self.bits()).max(1) as usize
    }
}

/// The operation whose results are summed over k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combine {
    Product,
    /// Bits that differ.
    Xor,
    /// Bits that are set in both.
    And,
}

/// The shape of a product: m rows of A, n columns of B, k terms per sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// True if fragments use the alternative layout.
    pub(crate) turned: bool,
}

impl Size {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        Some(Self {
            m: m.parse().ok()?,
            n: n.parse().ok()?,
            k: k.parse().ok()?,
            turned: false,
        })
    }

    pub(crate) fn rows_columns(self, matrix: Matrix) -> (usize, usize) {
        match matrix {
            Matrix::A => (self.m, self.k),
            Matrix::B => (self.k, self.n),
            Matrix::Accumulator => (self.m, self.n),
        }
    }

    /// Distinct elements that a lane holds.
    pub(crate) fn per_lane(self, matrix: Matrix) -> usize {
        let (rows, columns) = self.rows_columns(matrix);
        rows * columns / 32
    }
}

/// The kind of a tensor-core instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TensorKind {
    /// `ldmatrix` of 8x8 halves: 1, 2 or 4 matrices, transposed or not.
    LoadMatrix { count: u8, transposed: bool },
    /// `stmatrix`, the inverse of `ldmatrix`.
    StoreMatrix { count: u8, transposed: bool },
    /// A load of a fragment; `row`: consecutive elements of a row are neighbours in memory.
    Load {
        size: Size,
        matrix: Matrix,
        element: Element,
        row: bool,
    },
    Store {
        size: Size,
        element: Element,
        row: bool,
    },
    MultiplyAdd {
        size: Size,
        a: Element,
        b: Element,
        c: Element,
        d: Element,
        combine: Combine,
        clamp: bool,
        /// Of `wmma`, whose fragments have no documented layout.
        opaque: bool,
    },
}

impl TensorKind {
    /// Multiply-adds of one warp instruction.
    pub(crate) fn macs(self) -> u64 {
        match self {
            Self::MultiplyAdd { size, .. } => (size.m * size.n * size.k) as u64,
            _ => 0,
        }
    }
}

/// Elements of a fragment that a lane moves one by one where those of a register do not lie together; 0 if each has a
/// register of its own.
pub(crate) fn elements_apart(size: Size, matrix: Matrix, element: Element) -> usize {
    match element.per_register() {
        1 => 0,
        _ => size.per_lane(matrix),
    }
}

/// Row and column of the `index`-th element a lane holds.
///
/// A quad of lanes holds neighbouring elements of a row of A (a column of B), eight quads hold eight rows (columns);
/// blocks of 8 rows, then blocks along k, then whole tiles of 16 rows (8 columns) follow each other.
#[inline(always)]
pub(crate) fn element_position(
    size: Size,
    matrix: Matrix,
    element: Element,
    lane: usize,
    index: usize,
) -> (usize, usize) {
    let (lane, index) = if size.turned {
        let registers = size.per_lane(matrix) / element.per_register();
        (turned_lane(lane), turned_index(registers, element, index))
    } else {
        (lane, index)
    };
    let (group, thread) = (lane / 4, lane % 4);
    match matrix {
        Matrix::A => {
            let per = element.per_register();
            let halves = size.m.min(16) / 8;
            let (register, part) = (index / per, index % per);
            let per_tile = halves * (size.k / (4 * per)).max(1);
            let (tile, register) = (register / per_tile, register % per_tile);
            let (block, half) = (register / halves, register % halves);
            (
                tile * 16 + half * 8 + group,
                block * 4 * per + thread * per + part,
            )
        }
        Matrix::B => {
            let per = element.per_register();
            let (register, part) = (index / per, index % per);
            let per_tile = (size.k / (4 * per)).max(1);
            let (tile, block) = (register / per_tile, register % per_tile);
            (block * 4 * per + thread * per + part, tile * 8 + group)
        }
        Matrix::Accumulator => {
            let halves = size.m.min(16) / 8;
            let per_tile = 2 * halves;
            let (tile, index) = (index / per_tile, index % per_tile);
            let tiles_across = size.n / 8;
            let (down, across) = (tile / tiles_across, tile % tiles_across);
            (
                down * 16 + index / 2 * 8 + group,
                across * 8 + thread * 2 + index % 2,
            )
        }
    }
}

/// Row and column of the `index`-th element of every lane.
#[inline(always)]
pub(crate) fn element_positions(
    size: Size,
    matrix: Matrix,
    element: Element,
    index: usize,
) -> [(usize, usize); 32] {
    let per = element.per_register();
    let usual = Size {
        turned: false,
        ..size
    };
    let index = if size.turned {
        turned_index(size.per_lane(matrix) / per, element, index)
    } else {
        index
    };
    // A step from lane 0 to another one is the same for every element.
    let (row, column) = element_position(usual, matrix, element, 0, index);
    let mut positions = [(row, column); 32];
    for (lane, position) in positions.iter_mut().enumerate() {
        let lane = if size.turned { turned_lane(lane) } else { lane };
        let (group, thread) = (lane / 4, lane % 4);
        let (down, across) = match matrix {
            Matrix::A => (group, thread * per),
            Matrix::B => (thread * per, group),
            Matrix::Accumulator => (group, thread * 2),
        };
        position.0 += down;
        position.1 += across;
    }
    positions
}

/// The lane of the usual layout whose positions a lane has in the alternative one.
#[inline(always)]
pub(crate) fn turned_lane(lane: usize) -> usize {
    (lane * 5 % 32) ^ 3
}

/// The register, of so many, of the usual layout whose positions a register has in the alternative one.
#[inline(always)]
pub(crate) fn turned_register(registers: usize, register: usize) -> usize {
    let registers = registers.max(1);
    (register + registers / 2) % registers
}

/// The element of the usual layout whose position an element has in the alternative one.
#[inline(always)]
fn turned_index(registers: usize, element: Element, index: usize) -> usize {
    let per = element.per_register();
    turned_register(registers, index / per) * per + index % per
}

#[cfg(test)]
mod tests {
    use super::*;

    const M16N8K16: Size = size(16, 8, 16);

    const fn size(m: usize, n: usize, k: usize) -> Size {
        Size {
            m,
            n,
            k,
            turned: false,
        }
    }

    #[test]
    fn documented_layouts() {
        // PTX ISA, matrix fragments for mma.m16n8k16 with 16-bit elements.
        assert_eq!(
            element_position(M16N8K16, Matrix::A, Element::F16, 5, 0),
            (1, 2)
        );
        assert_eq!(
            element_position(M16N8K16, Matrix::A, Element::F16, 5, 3),
            (9, 3)
        );
        assert_eq!(
            element_position(M16N8K16, Matrix::A, Element::F16, 5, 4),
            (1, 10)
        );
        assert_eq!(
            element_position(M16N8K16, Matrix::B, Element::F16, 5, 0),
            (2, 1)
        );
        assert_eq!(
            element_position(M16N8K16, Matrix::B, Element::F16, 5, 3),
            (11, 1)
        );
        assert_eq!(
            element_position(M16N8K16, Matrix::Accumulator, Element::F32, 5, 3),
            (9, 3)
        );
        let tf32 = size(16, 8, 8);
        assert_eq!(
            element_position(tf32, Matrix::A, Element::Tf32, 6, 2),
            (1, 6)
        );
        assert_eq!(
            element_position(tf32, Matrix::B, Element::Tf32, 6, 1),
            (6, 1)
        );
        let s8 = size(16, 8, 32);
        assert_eq!(element_position(s8, Matrix::A, Element::S8, 6, 9), (1, 25));
    }

    #[test]
    fn every_element_is_held_exactly_once() {
        let sizes = [(16, 8, 16), (16, 16, 16), (32, 8, 16), (8, 32, 16)];
        for (number, (m, n, k)) in sizes.into_iter().chain(sizes).enumerate() {
            let size = Size {
                turned: number >= sizes.len(),
                ..size(m, n, k)
            };
            for (matrix, element) in [
                (Matrix::A, Element::F16),
                (Matrix::B, Element::F16),
                (Matrix::Accumulator, Element::F32),
            ] {
                let (rows, columns) = size.rows_columns(matrix);
                let mut seen = vec![0; rows * columns];
                for index in 0..size.per_lane(matrix) {
                    let positions = element_positions(size, matrix, element, index);
                    for (lane, position) in positions.into_iter().enumerate() {
                        let (row, column) = element_position(size, matrix, element, lane, index);
                        assert_eq!(
                            position,
                            (row, column),
                            "{size:?} {matrix:?} {lane} {index}"
                        );
                        seen[row * columns + column] += 1;
                    }
                }
                assert!(seen.iter().all(|count| *count == 1), "{size:?} {matrix:?}");
            }
        }
    }
}
