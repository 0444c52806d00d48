//! Access to operands and modifiers for the handlers: registers, addresses, constants, and the modifiers not yet taken.

use super::{Lowering, Storage, UnsupportedForm, VReg};
use crate::code::{Class, File, LaneMask, Op, Special};
use crate::ir::{Base, Operand, StateSpace, Symbol, Ty};
use crate::numeric::{Mode, Rounding};

/// The modifiers of an opcode. A handler takes each one that it knows; what is left makes the form unsupported.
pub(super) struct Modifiers<'a> {
    modifiers: Vec<&'a str>,
}

impl<'a> Modifiers<'a> {
    pub(super) fn new(modifiers: &'a [String]) -> Self {
        Self {
            modifiers: modifiers.iter().map(String::as_str).collect(),
        }
    }

    /// Removes a modifier. Returns true if it was present.
    pub(super) fn take(&mut self, word: &str) -> bool {
        match self.modifiers.iter().position(|w| *w == word) {
            Some(index) => {
                self.modifiers.remove(index);
                true
            }
            None => false,
        }
    }

    /// Removes the first modifier for which the function returns a value, and returns that value.
    pub(super) fn take_by<T>(&mut self, f: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (index, value) = self
            .modifiers
            .iter()
            .enumerate()
            .find_map(|(index, word)| Some((index, f(word)?)))?;
        self.modifiers.remove(index);
        Some(value)
    }

    /// Removes the last modifier, which must be a type.
    pub(super) fn ty(&mut self) -> Result<Ty, UnsupportedForm> {
        let ty = self
            .modifiers
            .last()
            .and_then(|word| Ty::parse(word))
            .ok_or(UnsupportedForm)?;
        self.modifiers.pop();
        Ok(ty)
    }

    /// Fails if a modifier is left.
    pub(super) fn done(&self) -> Result<(), UnsupportedForm> {
        if self.modifiers.is_empty() {
            Ok(())
        } else {
            Err(UnsupportedForm)
        }
    }

    /// Removes the modifiers of rounding, flushing and saturation.
    pub(super) fn mode(&mut self) -> Mode {
        let rounding = self
            .take_by(|word| {
                Some(match word {
                    "rn" | "rni" => Rounding::Nearest,
                    "rz" | "rzi" => Rounding::Zero,
                    "rm" | "rmi" => Rounding::Down,
                    "rp" | "rpi" => Rounding::Up,
                    "rna" => Rounding::Away,
                    _ => return None,
                })
            })
            .unwrap_or(Rounding::Nearest);
        Mode {
            rounding,
            flush: self.take("ftz"),
            saturate: self.take("sat"),
            nan: self.take("NaN"),
            relu: self.take("relu"),
            finite: self.take("satfinite"),
        }
    }
}

pub(super) fn file_of(ty: Ty) -> Result<File, UnsupportedForm> {
    match ty {
        Ty::Pred => Ok(File::Predicate),
        Ty::B128 => Err(UnsupportedForm),
        _ if ty.bits() == 64 => Ok(File::R64),
        _ => Ok(File::R32),
    }
}

impl Lowering<'_> {
    pub(super) fn register(&mut self, register: usize) -> VReg {
        if let Some(v) = self.scope().registers[register] {
            return v;
        }
        let ty = self.scope().function.registers[register];
        // Instructions with 128-bit registers are unsupported, see [`file_of`].
        let file = file_of(ty).unwrap_or(File::R64);
        let v = self.new_register(file);
        self.scope_mut().registers[register] = Some(v);
        v
    }

    /// The declared type of a register operand.
    pub(super) fn declared(&self, operand: &Operand) -> Option<Ty> {
        match operand {
            Operand::Register(register) | Operand::Not(register) => {
                Some(self.scope().function.registers[*register])
            }
            _ => None,
        }
    }

    pub(super) fn constant(&mut self, file: File, bits: u64) -> VReg {
        if let Some(v) = self.constants.get(&(file, bits)) {
            return *v;
        }
        let v = self.new_register(file);
        self.constants.insert((file, bits), v);
        v
    }

    pub(super) fn mode_constant(&mut self, mode: Mode) -> VReg {
        self.constant(File::R64, mode.pack())
    }

    pub(super) fn special(&mut self, file: File, special: Special) -> VReg {
        if let Some(v) = self.specials.get(&(file, special)) {
            return *v;
        }
        let v = self.new_register(file);
        self.specials.insert((file, special), v);
        v
    }

    /// The operand at a position; unsupported if there are fewer.
    pub(super) fn operand(operands: &[Operand], index: usize) -> Result<&Operand, UnsupportedForm> {
        operands.get(index).ok_or(UnsupportedForm)
    }

    /// A destination register; `_` gets a register that is never read.
    pub(super) fn destination(
        &mut self,
        operand: &Operand,
        file: File,
    ) -> Result<VReg, UnsupportedForm> {
        match operand {
            Operand::Register(register) => {
                let v = self.register(*register);
                if self.file(v) == file && self.declared(operand) != Some(Ty::B128) {
                    Ok(v)
                } else {
                    Err(UnsupportedForm)
                }
            }
            Operand::Sink => Ok(self.new_register(file)),
            _ => Err(UnsupportedForm),
        }
    }

    /// A source operand of a type.
    pub(super) fn source(&mut self, operand: &Operand, ty: Ty) -> Result<VReg, UnsupportedForm> {
        let file = file_of(ty)?;
        match operand {
            Operand::Register(register) => {
                let v = self.register(*register);
                if self.declared(operand) == Some(Ty::B128) {
                    return Err(UnsupportedForm);
                }
                if self.file(v) == file {
                    Ok(v)
                } else {
                    Err(UnsupportedForm)
                }
            }
            Operand::Special(name) => {
                if let Some(value) = alone_in_its_cluster(name) {
                    return Ok(self.constant(file, value));
                }
                let special = special_named(name).ok_or(UnsupportedForm)?;
                Ok(self.special(file, special))
            }
            Operand::Variable(symbol, offset) => self.address(*symbol, *offset, file),
            Operand::Function(name) if file == File::R64 => {
                let address = super::subroutine::address(self.tree, name).ok_or(UnsupportedForm)?;
                Ok(self.constant(File::R64, address))
            }
            _ => {
                let bits = immediate(operand, ty).ok_or(UnsupportedForm)?;
                Ok(self.constant(file, bits))
            }
        }
    }

    /// The address of a variable in its own state space; global variables have their place in device memory.
    pub(super) fn address(
        &mut self,
        symbol: Symbol,
        offset: i64,
        file: File,
    ) -> Result<VReg, UnsupportedForm> {
        let home = match symbol {
            Symbol::Function(index) => self.home(index)?,
            Symbol::Module(index) => {
                if self.tree.variables[index].space == StateSpace::Shared {
                    self.module_shared(index)?
                } else {
                    if file != File::R64 {
                        return Err(UnsupportedForm);
                    }
                    if let Some(v) = self.addresses.get(&(index, offset)) {
                        return Ok(*v);
                    }
                    let v = self.new_register(File::R64);
                    self.addresses.insert((index, offset), v);
                    return Ok(v);
                }
            }
        };
        let at = match home {
            Storage::Local(at) | Storage::Shared(at) | Storage::KernelParam(at) => at,
            Storage::Frame(at) => {
                if file != File::R64 {
                    return Err(UnsupportedForm);
                }
                let (pointer, v) = (self.frame_pointer(), self.new_register(File::R64));
                let offset = self.constant(File::R64, (i64::from(at) + offset) as u64);
                self.emit(Op::Add64, &[v], &[pointer, offset], Class::Move);
                return Ok(v);
            }
            Storage::DynamicShared => {
                if let Some(v) = self.dynamic.get(&(file, offset)) {
                    return Ok(*v);
                }
                let v = self.new_register(file);
                self.dynamic.insert((file, offset), v);
                return Ok(v);
            }
        };
        let bits = (i64::from(at) + offset) as u64;
        let bits = if file == File::R32 {
            bits & 0xffff_ffff
        } else {
            bits
        };
        if !matches!(home, Storage::Shared(_)) {
            return Ok(self.constant(file, bits));
        }
        // Not the register of an equal number: the variable of the address is looked up by it.
        if let Some(v) = self.shared_addresses.get(&(file, at, bits)) {
            return Ok(*v);
        }
        let v = self.new_register(file);
        self.shared_addresses.insert((file, at, bits), v);
        Ok(v)
    }

    /// The address register and byte offset of `[base+offset]`.
    pub(super) fn memory_operand(
        &mut self,
        operand: &Operand,
    ) -> Result<(VReg, i64), UnsupportedForm> {
        let Operand::Memory(base, offset) = operand else {
            return Err(UnsupportedForm);
        };
        match base {
            Base::Register(register) => {
                let v = self.register(*register);
                if self.file(v) == File::Predicate {
                    Err(UnsupportedForm)
                } else {
                    Ok((v, *offset))
                }
            }
            Base::Variable(symbol) => Ok((self.address(*symbol, *offset, File::R64)?, 0)),
            Base::Absolute => Ok((self.constant(File::R64, *offset as u64), 0)),
        }
    }
}

/// The bits of an immediate operand of a type.
pub(super) fn immediate(operand: &Operand, ty: Ty) -> Option<u64> {
    let mask = if ty.bits() >= 64 {
        u64::MAX
    } else {
        (1 << ty.bits()) - 1
    };
    match (operand, ty) {
        (Operand::Integer(bits), Ty::F32) => Some(u64::from((*bits as i64 as f32).to_bits())),
        (Operand::Integer(bits), Ty::F64) => Some((*bits as i64 as f64).to_bits()),
        (Operand::Integer(bits), _) => Some(bits & mask),
        (Operand::Single(bits), _) if ty.bits() == 32 => Some(u64::from(*bits)),
        (Operand::Single(bits), Ty::F64) => Some(f64::from(f32::from_bits(*bits)).to_bits()),
        (Operand::Double(bits), Ty::F32) => {
            Some(u64::from((f64::from_bits(*bits) as f32).to_bits()))
        }
        (Operand::Double(bits), _) if ty.bits() == 64 => Some(*bits),
        _ => None,
    }
}

/// Special registers of a block's position in its cluster. Every cluster has one block here; kernels with larger
/// clusters are unsupported.
fn alone_in_its_cluster(name: &str) -> Option<u64> {
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    match base {
        "cluster_ctaid" | "cluster_ctarank" => Some(0),
        "cluster_nctaid" | "cluster_nctarank" => Some(1),
        _ => None,
    }
}

fn special_named(name: &str) -> Option<Special> {
    let axis = |component: &str| match component {
        "x" => Some(0),
        "y" => Some(1),
        "z" => Some(2),
        "w" => Some(3),
        _ => None,
    };
    if let Some((base, component)) = name.split_once('.') {
        let axis = axis(component)?;
        return Some(match base {
            "tid" => Special::Tid(axis),
            "ntid" => Special::Ntid(axis),
            "ctaid" => Special::Ctaid(axis),
            "nctaid" => Special::Nctaid(axis),
            "clusterid" => Special::Ctaid(axis),
            "nclusterid" => Special::Nctaid(axis),
            _ => return None,
        });
    }
    Some(match name {
        "laneid" => Special::LaneId,
        "warpid" => Special::WarpId,
        "nwarpid" => Special::NWarpId,
        "smid" => Special::SmId,
        "nsmid" => Special::NSmId,
        "gridid" => Special::GridId,
        "lanemask_eq" => Special::LaneMask(LaneMask::Eq),
        "lanemask_lt" => Special::LaneMask(LaneMask::Lt),
        "lanemask_le" => Special::LaneMask(LaneMask::Le),
        "lanemask_gt" => Special::LaneMask(LaneMask::Gt),
        "lanemask_ge" => Special::LaneMask(LaneMask::Ge),
        "dynamic_smem_size" => Special::DynamicShared,
        "total_smem_size" => Special::TotalShared,
        name => {
            let number = name.strip_prefix("envreg")?.parse().ok()?;
            if number >= 32 {
                return None;
            }
            Special::Env(number)
        }
    })
}
