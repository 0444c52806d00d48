//! Tensor-core instructions and the matrix loads that feed them.

use super::operands::Words;
use super::{Detail, Lowering, Unknown, V};
use crate::code::{Class, File, MemSpace, Op};
use crate::ir::{Instruction, Operand, Ty};
use crate::tensor::{Combine, Element, Matrix, Size, TensorKind};

fn element_named(word: &str) -> Option<Element> {
    Some(match word {
        "f16" => Element::F16,
        "bf16" => Element::Bf16,
        "tf32" => Element::Tf32,
        "f32" => Element::F32,
        "f64" => Element::F64,
        "s8" => Element::S8,
        "u8" => Element::U8,
        "s4" => Element::S4,
        "u4" => Element::U4,
        "b1" => Element::B1,
        "s32" => Element::S32,
        "e4m3" => Element::E4m3,
        "e5m2" => Element::E5m2,
        _ => return None,
    })
}

/// Whether so many registers are a fragment: some 16-bit operands of `wmma` hold everything two or four times.
fn holds(count: usize, needed: usize, matrix: Matrix) -> bool {
    count == needed
        || (matrix != Matrix::Accumulator && (count == 2 * needed || count == 4 * needed))
}

/// Registers that hold every element of a fragment once.
fn registers(size: Size, matrix: Matrix, element: Element) -> usize {
    size.per_lane(matrix) / element.per_register()
}

/// What `mma` may multiply: inputs, accumulator and sizes.
fn known(size: Size, a: Element, b: Element, c: Element, d: Element) -> bool {
    let sizes: &[(usize, usize, usize)] = match (a, b) {
        (Element::F16, Element::F16) => &[(16, 8, 8), (16, 8, 16)],
        (Element::Bf16, Element::Bf16) => &[(16, 8, 8), (16, 8, 16)],
        (Element::Tf32, Element::Tf32) => &[(16, 8, 4), (16, 8, 8)],
        (Element::S8 | Element::U8, Element::S8 | Element::U8) => {
            &[(8, 8, 16), (16, 8, 16), (16, 8, 32)]
        }
        (Element::S4 | Element::U4, Element::S4 | Element::U4) => {
            &[(8, 8, 32), (16, 8, 32), (16, 8, 64)]
        }
        (Element::B1, Element::B1) => &[(8, 8, 128), (16, 8, 128), (16, 8, 256)],
        (Element::E4m3 | Element::E5m2, Element::E4m3 | Element::E5m2) => &[(16, 8, 32)],
        (Element::F64, Element::F64) => &[(8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)],
        _ => return false,
    };
    let accumulates = match a {
        Element::F16 => matches!(
            (c, d),
            (Element::F32, Element::F32) | (Element::F16, Element::F16)
        ),
        Element::S8 | Element::U8 | Element::S4 | Element::U4 | Element::B1 => {
            c == Element::S32 && d == Element::S32
        }
        Element::F64 => c == Element::F64 && d == Element::F64,
        _ => c == Element::F32 && d == Element::F32,
    };
    accumulates && sizes.contains(&(size.m, size.n, size.k))
}

/// The same for `wmma`.
fn known_wmma(size: Size, a: Element, b: Element, c: Element, d: Element) -> bool {
    let wide = [(16, 16, 16), (32, 8, 16), (8, 32, 16)];
    let shape = (size.m, size.n, size.k);
    match (a, b) {
        (Element::F16, Element::F16) => {
            wide.contains(&shape)
                && matches!(c, Element::F16 | Element::F32)
                && matches!(d, Element::F16 | Element::F32)
        }
        (Element::Bf16, Element::Bf16) => {
            wide.contains(&shape) && (c, d) == (Element::F32, Element::F32)
        }
        (Element::Tf32, Element::Tf32) => {
            shape == (16, 16, 8) && (c, d) == (Element::F32, Element::F32)
        }
        (Element::S8, Element::S8) | (Element::U8, Element::U8) => {
            wide.contains(&shape) && (c, d) == (Element::S32, Element::S32)
        }
        (Element::F64, Element::F64) => {
            shape == (8, 8, 4) && (c, d) == (Element::F64, Element::F64)
        }
        _ => false,
    }
}

impl Lowering<'_> {
    pub(super) fn tensor(&mut self, i: &Instruction) -> Result<(), Unknown> {
        let mut words = Words::new(&i.modifiers);
        match i.base.as_str() {
            "ldmatrix" => self.load_matrix(i, words),
            "stmatrix" => self.store_matrix(i, words),
            "mma" => self.mma(i, words),
            "wmma" => {
                if words.take("load") {
                    self.wmma_load(i, words)
                } else if words.take("store") {
                    self.wmma_store(i, words)
                } else if words.take("mma") {
                    self.wmma_mma(i, words)
                } else {
                    Err(Unknown)
                }
            }
            _ => Err(Unknown),
        }
    }

    fn parts(operand: &Operand) -> Vec<&Operand> {
        match operand {
            Operand::Vector(parts) => parts.iter().collect(),
            single => vec![single],
        }
    }

    fn file_of_element(element: Element) -> File {
        if element == Element::F64 {
            File::R64
        } else {
            File::R32
        }
    }

    fn fragment(&mut self, operand: &Operand, element: Element) -> Result<Vec<V>, Unknown> {
        let ty = if element == Element::F64 {
            Ty::B64
        } else {
            Ty::B32
        };
        Self::parts(operand)
            .into_iter()
            .map(|part| self.source(part, ty))
            .collect()
    }

    fn results(&mut self, operand: &Operand, element: Element) -> Result<Vec<V>, Unknown> {
        let file = Self::file_of_element(element);
        Self::parts(operand)
            .into_iter()
            .map(|part| self.destination(part, file))
            .collect()
    }

    /// `.sync.aligned.m8n8.x4[.trans][.shared].b16`: how many matrices, whether transposed, and where.
    fn matrix_words(mut words: Words<'_>) -> Result<(usize, bool, MemSpace), Unknown> {
        let needed =
            words.take("sync") && words.take("aligned") && words.take("m8n8") && words.take("b16");
        let count = words.take_by(|word| match word {
            "x1" => Some(1),
            "x2" => Some(2),
            "x4" => Some(4),
            _ => None,
        });
        let transposed = words.take("trans");
        let space = if words.take("shared") || words.take("shared::cta") {
            MemSpace::Shared
        } else {
            MemSpace::Generic
        };
        words.done()?;
        match (needed, count) {
            (true, Some(count)) => Ok((count, transposed, space)),
            _ => Err(Unknown),
        }
    }

    /// `stmatrix.sync.aligned.m8n8.x4[.trans][.shared].b16 [address], {values}`
    fn store_matrix(&mut self, i: &Instruction, words: Words<'_>) -> Result<(), Unknown> {
        let (count, transposed, space) = Self::matrix_words(words)?;
        let [address, values] = &i.operands[..] else {
            return Err(Unknown);
        };
        let values = self.fragment(values, Element::F16)?;
        if values.len() != count {
            return Err(Unknown);
        }
        let (address, offset) = self.memory_operand(address)?;
        // Scratch for the rows as they will lie in memory.
        let scratch: Vec<V> = (0..4).map(|_| self.fresh(File::R32)).collect();
        let mut s = vec![address, V::NONE];
        s.extend(&values);
        let detail = Detail::Tensor {
            kind: TensorKind::StoreMatrix {
                count: count as u8,
                transposed,
            },
            a: count,
            b: 0,
            c: 0,
            offset,
            space,
        };
        self.draft(Op::Tensor, &scratch, &s, Class::StoreShared, 0, detail);
        Ok(())
    }

    /// `ldmatrix.sync.aligned.m8n8.x4[.trans][.shared].b16 {d}, [address]`
    fn load_matrix(&mut self, i: &Instruction, words: Words<'_>) -> Result<(), Unknown> {
        let (count, transposed, space) = Self::matrix_words(words)?;
        let [d, address] = &i.operands[..] else {
            return Err(Unknown);
        };
        let mut d = self.results(d, Element::F16)?;
        if d.len() != count {
            return Err(Unknown);
        }
        let (address, offset) = self.memory_operand(address)?;
        // Scratch for the rows as they lie in memory.
        for _ in 0..4 {
            let scratch = self.fresh(File::R32);
            d.push(scratch);
        }
        let kind = TensorKind::LoadMatrix {
            count: count as u8,
            transposed,
        };
        let detail = Detail::Tensor {
            kind,
            a: 0,
            b: 0,
            c: 0,
            offset,
            space,
        };
        self.draft(
            Op::LoadMatrix,
            &d,
            &[address, V::NONE],
            Class::LoadShared,
            0,
            detail,
        );
        Ok(())
    }

    /// `mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype[.bitop.popc] d, a, b, c`
    fn mma(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let needed =
            words.take("sync") && words.take("aligned") && words.take("row") && words.take("col");
        let size = words.take_by(Size::parse).ok_or(Unknown)?;
        let clamp = words.take("satfinite");
        let mut types = Vec::new();
        while let Some(element) = words.take_by(element_named) {
            types.push(element);
        }
        let combine = words.take_by(|word| match word {
            "xor" => Some(Combine::Xor),
            "and" => Some(Combine::And),
            _ => None,
        });
        let counts = words.take("popc");
        words.done()?;
        let [d, a, b, c] = types[..] else {
            return Err(Unknown);
        };
        let binary = a == Element::B1;
        if !needed || !known(size, a, b, c, d) || binary != combine.is_some() || binary != counts {
            return Err(Unknown);
        }
        self.multiply_add(
            i,
            TensorKind::MultiplyAdd {
                size,
                a,
                b,
                c,
                d,
                combine: combine.unwrap_or(Combine::Product),
                clamp,
                opaque: false,
            },
        )
    }

    fn multiply_add(&mut self, i: &Instruction, kind: TensorKind) -> Result<(), Unknown> {
        let TensorKind::MultiplyAdd {
            size, a, b, c, d, ..
        } = kind
        else {
            return Err(Unknown);
        };
        let [d_operand, a_operand, b_operand, c_operand] = &i.operands[..] else {
            return Err(Unknown);
        };
        let results = self.results(d_operand, d)?;
        let (a_v, b_v, c_v) = (
            self.fragment(a_operand, a)?,
            self.fragment(b_operand, b)?,
            self.fragment(c_operand, c)?,
        );
        let enough = |list: &[V], matrix, element| {
            holds(list.len(), registers(size, matrix, element), matrix)
        };
        if !(enough(&a_v, Matrix::A, a)
            && enough(&b_v, Matrix::B, b)
            && c_v.len() == registers(size, Matrix::Accumulator, c)
            && results.len() == registers(size, Matrix::Accumulator, d))
        {
            return Err(Unknown);
        }
        let mut s = vec![V::NONE, V::NONE];
        s.extend(&a_v);
        s.extend(&b_v);
        s.extend(&c_v);
        let detail = Detail::Tensor {
            kind,
            a: a_v.len(),
            b: b_v.len(),
            c: c_v.len(),
            offset: 0,
            space: MemSpace::Generic,
        };
        self.draft(Op::Tensor, &results, &s, Class::Tensor, 0, detail);
        Ok(())
    }

    fn wmma_space(words: &mut Words<'_>) -> MemSpace {
        words
            .take_by(|word| match word {
                "shared" | "shared::cta" => Some(MemSpace::Shared),
                "global" => Some(MemSpace::Global),
                _ => None,
            })
            .unwrap_or(MemSpace::Generic)
    }

    /// `wmma.load.{a,b,c}.sync.aligned.{row,col}.shape[.space].type {r}, [address][, stride]`
    fn wmma_load(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let matrix = words
            .take_by(|word| match word {
                "a" => Some(Matrix::A),
                "b" => Some(Matrix::B),
                "c" => Some(Matrix::Accumulator),
                _ => None,
            })
            .ok_or(Unknown)?;
        let (size, row, space, element) = Self::wmma_words(&mut words)?;
        words.done()?;
        let (d, address, stride) = match &i.operands[..] {
            [d, address] => (d, address, None),
            [d, address, stride] => (d, address, Some(stride)),
            _ => return Err(Unknown),
        };
        let mut results = self.results(d, element)?;
        let needed = registers(size, matrix, element);
        if !holds(results.len(), needed, matrix) {
            return Err(Unknown);
        }
        let (address, offset) = self.memory_operand(address)?;
        let (_, columns) = size.rows_columns(matrix);
        let (rows, _) = size.rows_columns(matrix);
        let packed = if row { columns } else { rows };
        let stride = match stride {
            Some(stride) => self.source(stride, Ty::U32)?,
            None => self.constant(File::R32, packed as u64),
        };
        let scratch = self.fresh(Self::file_of_element(element));
        results.push(scratch);
        let kind = TensorKind::Load {
            size,
            matrix,
            element,
            row,
        };
        let class = if space == MemSpace::Shared {
            Class::LoadShared
        } else {
            Class::LoadGlobal
        };
        let detail = Detail::Tensor {
            kind,
            a: 0,
            b: 0,
            c: 0,
            offset,
            space,
        };
        self.draft(Op::Tensor, &results, &[address, stride], class, 0, detail);
        Ok(())
    }

    fn wmma_words(words: &mut Words<'_>) -> Result<(Size, bool, MemSpace, Element), Unknown> {
        let needed = words.take("sync") && words.take("aligned");
        let row = words.take("row");
        let column = words.take("col");
        let size = words.take_by(Size::parse).ok_or(Unknown)?;
        let space = Self::wmma_space(words);
        let element = words.take_by(element_named).ok_or(Unknown)?;
        if !needed || row == column {
            return Err(Unknown);
        }
        Ok((size, row, space, element))
    }

    /// `wmma.store.d.sync.aligned.{row,col}.shape[.space].type [address], {r}[, stride]`
    fn wmma_store(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        if !words.take("d") {
            return Err(Unknown);
        }
        let (size, row, space, element) = Self::wmma_words(&mut words)?;
        words.done()?;
        let (address, values, stride) = match &i.operands[..] {
            [address, values] => (address, values, None),
            [address, values, stride] => (address, values, Some(stride)),
            _ => return Err(Unknown),
        };
        let fragment = self.fragment(values, element)?;
        if fragment.len() != registers(size, Matrix::Accumulator, element) {
            return Err(Unknown);
        }
        let (address, offset) = self.memory_operand(address)?;
        let stride = match stride {
            Some(stride) => self.source(stride, Ty::U32)?,
            None => self.constant(File::R32, if row { size.n } else { size.m } as u64),
        };
        let scratch = self.fresh(Self::file_of_element(element));
        let mut s = vec![address, stride];
        s.extend(&fragment);
        let kind = TensorKind::Store { size, element, row };
        let class = if space == MemSpace::Shared {
            Class::StoreShared
        } else {
            Class::StoreGlobal
        };
        let detail = Detail::Tensor {
            kind,
            a: fragment.len(),
            b: 0,
            c: 0,
            offset,
            space,
        };
        self.draft(Op::Tensor, &[scratch], &s, class, 0, detail);
        Ok(())
    }

    /// `wmma.mma.sync.aligned.alayout.blayout.shape.dtype[.atype.btype].ctype d, a, b, c`
    fn wmma_mma(&mut self, i: &Instruction, mut words: Words<'_>) -> Result<(), Unknown> {
        let needed = words.take("sync") && words.take("aligned");
        // Fragments remember their elements, not their layout in memory.
        for _ in 0..2 {
            if !(words.take("row") || words.take("col")) {
                return Err(Unknown);
            }
        }
        let size = words.take_by(Size::parse).ok_or(Unknown)?;
        let clamp = words.take("satfinite");
        let _ = words.take("rn");
        let mut types = Vec::new();
        while let Some(element) = words.take_by(element_named) {
            types.push(element);
        }
        words.done()?;
        let (a, b, c, d) = match types[..] {
            [d, c] => (Element::F16, Element::F16, c, d),
            [d, a, b, c] => (a, b, c, d),
            _ => return Err(Unknown),
        };
        if !needed || !known_wmma(size, a, b, c, d) {
            return Err(Unknown);
        }
        self.multiply_add(
            i,
            TensorKind::MultiplyAdd {
                size,
                a,
                b,
                c,
                d,
                combine: Combine::Product,
                clamp,
                opaque: true,
            },
        )
    }
}
