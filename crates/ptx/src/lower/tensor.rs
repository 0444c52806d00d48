//! Tensor-core instructions and the matrix loads that feed them.

use super::operands::Modifiers;
use super::{Detail, Lowering, UnsupportedForm, VReg};
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

/// Reports whether `count` registers are a fragment: some 16-bit operands of `wmma` hold everything two or four times.
fn holds(count: usize, needed: usize, matrix: Matrix) -> bool {
    count == needed
        || (matrix != Matrix::Accumulator && (count == 2 * needed || count == 4 * needed))
}

/// Registers that hold every element of a fragment once.
fn registers(size: Size, matrix: Matrix, element: Element) -> usize {
    size.per_lane(matrix) / element.per_register()
}

/// Reports whether `mma` has this combination of inputs, accumulator and sizes.
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
    pub(super) fn tensor(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "ldmatrix" => self.load_matrix(i, modifiers),
            "stmatrix" => self.store_matrix(i, modifiers),
            "mma" => self.mma(i, modifiers),
            "wmma" => {
                if modifiers.take("load") {
                    self.wmma_load(i, modifiers)
                } else if modifiers.take("store") {
                    self.wmma_store(i, modifiers)
                } else if modifiers.take("mma") {
                    self.wmma_mma(i, modifiers)
                } else {
                    Err(UnsupportedForm)
                }
            }
            _ => Err(UnsupportedForm),
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

    fn fragment(
        &mut self,
        operand: &Operand,
        element: Element,
    ) -> Result<Vec<VReg>, UnsupportedForm> {
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

    fn results(
        &mut self,
        operand: &Operand,
        element: Element,
    ) -> Result<Vec<VReg>, UnsupportedForm> {
        let file = Self::file_of_element(element);
        Self::parts(operand)
            .into_iter()
            .map(|part| self.destination(part, file))
            .collect()
    }

    /// `.sync.aligned.m8n8.x4[.trans][.shared].b16`: how many matrices, whether transposed, and where.
    fn matrix_words(
        mut modifiers: Modifiers<'_>,
    ) -> Result<(usize, bool, MemSpace), UnsupportedForm> {
        let needed = modifiers.take("sync")
            && modifiers.take("aligned")
            && modifiers.take("m8n8")
            && modifiers.take("b16");
        let count = modifiers.take_by(|word| match word {
            "x1" => Some(1),
            "x2" => Some(2),
            "x4" => Some(4),
            _ => None,
        });
        let transposed = modifiers.take("trans");
        let space = if modifiers.take("shared") || modifiers.take("shared::cta") {
            MemSpace::Shared
        } else {
            MemSpace::Generic
        };
        modifiers.done()?;
        match (needed, count) {
            (true, Some(count)) => Ok((count, transposed, space)),
            _ => Err(UnsupportedForm),
        }
    }

    /// `stmatrix.sync.aligned.m8n8.x4[.trans][.shared].b16 [address], {values}`
    fn store_matrix(
        &mut self,
        i: &Instruction,
        modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let (count, transposed, space) = Self::matrix_words(modifiers)?;
        let [address, values] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let values = self.fragment(values, Element::F16)?;
        if values.len() != count {
            return Err(UnsupportedForm);
        }
        let (address, offset) = self.memory_operand(address)?;
        // Scratch for the rows as they will lie in memory.
        let scratch: Vec<VReg> = (0..4).map(|_| self.new_register(File::R32)).collect();
        let mut s = vec![address, VReg::NONE];
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
        self.emit_detail(Op::Tensor, &scratch, &s, Class::StoreShared, 0, detail);
        Ok(())
    }

    /// `ldmatrix.sync.aligned.m8n8.x4[.trans][.shared].b16 {d}, [address]`
    fn load_matrix(
        &mut self,
        i: &Instruction,
        modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let (count, transposed, space) = Self::matrix_words(modifiers)?;
        let [d, address] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let mut d = self.results(d, Element::F16)?;
        if d.len() != count {
            return Err(UnsupportedForm);
        }
        let (address, offset) = self.memory_operand(address)?;
        // Scratch for the rows as they lie in memory.
        for _ in 0..4 {
            let scratch = self.new_register(File::R32);
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
        self.emit_detail(
            Op::LoadMatrix,
            &d,
            &[address, VReg::NONE],
            Class::LoadShared,
            0,
            detail,
        );
        Ok(())
    }

    /// `mma.sync.aligned.shape.row.col.dtype.atype.btype.ctype[.bitop.popc] d, a, b, c`
    fn mma(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let needed = modifiers.take("sync")
            && modifiers.take("aligned")
            && modifiers.take("row")
            && modifiers.take("col");
        let size = modifiers.take_by(Size::parse).ok_or(UnsupportedForm)?;
        let clamp = modifiers.take("satfinite");
        let mut types = Vec::new();
        while let Some(element) = modifiers.take_by(element_named) {
            types.push(element);
        }
        let combine = modifiers.take_by(|word| match word {
            "xor" => Some(Combine::Xor),
            "and" => Some(Combine::And),
            _ => None,
        });
        let counts = modifiers.take("popc");
        modifiers.done()?;
        let [d, a, b, c] = types[..] else {
            return Err(UnsupportedForm);
        };
        let binary = a == Element::B1;
        if !needed || !known(size, a, b, c, d) || binary != combine.is_some() || binary != counts {
            return Err(UnsupportedForm);
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

    fn multiply_add(&mut self, i: &Instruction, kind: TensorKind) -> Result<(), UnsupportedForm> {
        let TensorKind::MultiplyAdd {
            size, a, b, c, d, ..
        } = kind
        else {
            return Err(UnsupportedForm);
        };
        let [d_operand, a_operand, b_operand, c_operand] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let results = self.results(d_operand, d)?;
        let (a_v, b_v, c_v) = (
            self.fragment(a_operand, a)?,
            self.fragment(b_operand, b)?,
            self.fragment(c_operand, c)?,
        );
        let enough = |list: &[VReg], matrix, element| {
            holds(list.len(), registers(size, matrix, element), matrix)
        };
        if !(enough(&a_v, Matrix::A, a)
            && enough(&b_v, Matrix::B, b)
            && c_v.len() == registers(size, Matrix::Accumulator, c)
            && results.len() == registers(size, Matrix::Accumulator, d))
        {
            return Err(UnsupportedForm);
        }
        let mut s = vec![VReg::NONE, VReg::NONE];
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
        self.emit_detail(Op::Tensor, &results, &s, Class::Tensor, 0, detail);
        Ok(())
    }

    fn wmma_space(modifiers: &mut Modifiers<'_>) -> MemSpace {
        modifiers
            .take_by(|word| match word {
                "shared" | "shared::cta" => Some(MemSpace::Shared),
                "global" => Some(MemSpace::Global),
                _ => None,
            })
            .unwrap_or(MemSpace::Generic)
    }

    /// `wmma.load.{a,b,c}.sync.aligned.{row,col}.shape[.space].type {r}, [address][, stride]`
    fn wmma_load(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let matrix = modifiers
            .take_by(|word| match word {
                "a" => Some(Matrix::A),
                "b" => Some(Matrix::B),
                "c" => Some(Matrix::Accumulator),
                _ => None,
            })
            .ok_or(UnsupportedForm)?;
        let (size, row, space, element) = Self::wmma_words(&mut modifiers)?;
        modifiers.done()?;
        let (d, address, stride) = match &i.operands[..] {
            [d, address] => (d, address, None),
            [d, address, stride] => (d, address, Some(stride)),
            _ => return Err(UnsupportedForm),
        };
        let mut results = self.results(d, element)?;
        let needed = registers(size, matrix, element);
        if !holds(results.len(), needed, matrix) {
            return Err(UnsupportedForm);
        }
        let (address, offset) = self.memory_operand(address)?;
        let (_, columns) = size.rows_columns(matrix);
        let (rows, _) = size.rows_columns(matrix);
        let packed = if row { columns } else { rows };
        let stride = match stride {
            Some(stride) => self.source(stride, Ty::U32)?,
            None => self.constant(File::R32, packed as u64),
        };
        results.extend(self.fragment_scratch(element));
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
        self.emit_detail(Op::Tensor, &results, &[address, stride], class, 0, detail);
        Ok(())
    }

    /// Scratch registers of a fragment's load or store: for the addresses of one register, and for single elements.
    fn fragment_scratch(&mut self, element: Element) -> [VReg; 2] {
        [File::R64, Self::file_of_element(element)].map(|file| self.new_register(file))
    }

    fn wmma_words(
        modifiers: &mut Modifiers<'_>,
    ) -> Result<(Size, bool, MemSpace, Element), UnsupportedForm> {
        let needed = modifiers.take("sync") && modifiers.take("aligned");
        let row = modifiers.take("row");
        let column = modifiers.take("col");
        let size = modifiers.take_by(Size::parse).ok_or(UnsupportedForm)?;
        let space = Self::wmma_space(modifiers);
        let element = modifiers.take_by(element_named).ok_or(UnsupportedForm)?;
        if !needed || row == column {
            return Err(UnsupportedForm);
        }
        Ok((size, row, space, element))
    }

    /// `wmma.store.d.sync.aligned.{row,col}.shape[.space].type [address], {r}[, stride]`
    fn wmma_store(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        if !modifiers.take("d") {
            return Err(UnsupportedForm);
        }
        let (size, row, space, element) = Self::wmma_words(&mut modifiers)?;
        modifiers.done()?;
        let (address, values, stride) = match &i.operands[..] {
            [address, values] => (address, values, None),
            [address, values, stride] => (address, values, Some(stride)),
            _ => return Err(UnsupportedForm),
        };
        let fragment = self.fragment(values, element)?;
        if fragment.len() != registers(size, Matrix::Accumulator, element) {
            return Err(UnsupportedForm);
        }
        let (address, offset) = self.memory_operand(address)?;
        let stride = match stride {
            Some(stride) => self.source(stride, Ty::U32)?,
            None => self.constant(File::R32, if row { size.n } else { size.m } as u64),
        };
        let scratch = self.fragment_scratch(element);
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
        self.emit_detail(Op::Tensor, &scratch, &s, class, 0, detail);
        Ok(())
    }

    /// `wmma.mma.sync.aligned.alayout.blayout.shape.dtype[.atype.btype].ctype d, a, b, c`
    fn wmma_mma(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let needed = modifiers.take("sync") && modifiers.take("aligned");
        // Fragments remember their elements, not their layout in memory.
        for _ in 0..2 {
            if !(modifiers.take("row") || modifiers.take("col")) {
                return Err(UnsupportedForm);
            }
        }
        let size = modifiers.take_by(Size::parse).ok_or(UnsupportedForm)?;
        let clamp = modifiers.take("satfinite");
        let _ = modifiers.take("rn");
        let mut types = Vec::new();
        while let Some(element) = modifiers.take_by(element_named) {
            types.push(element);
        }
        modifiers.done()?;
        let (a, b, c, d) = match types[..] {
            [d, c] => (Element::F16, Element::F16, c, d),
            [d, a, b, c] => (a, b, c, d),
            _ => return Err(UnsupportedForm),
        };
        if !needed || !known_wmma(size, a, b, c, d) {
            return Err(UnsupportedForm);
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
