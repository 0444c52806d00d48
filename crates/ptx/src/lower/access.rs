//! Loads, stores, atomics and asynchronous copies.

use super::arithmetic::{definition, integer};
use super::operands::{Modifiers, file_of};
use super::{Detail, Lowering, MemoryDetail, UnsupportedForm, VReg};
use crate::code::{Class, File, LaneFn, MemSpace, Op, Reach};
use crate::ir::{Base, Instruction, Operand, Ty};
use crate::numeric::{Mode, int};

fn space_word(word: &str) -> Option<MemSpace> {
    Some(match word {
        "global" => MemSpace::Global,
        "shared" | "shared::cta" => MemSpace::Shared,
        "local" => MemSpace::Local,
        "const" => MemSpace::Const,
        "param" | "param::entry" | "param::func" => MemSpace::Param,
        _ => return None,
    })
}

/// Reports whether a modifier is a cache hint, which changes no result.
fn is_hint(word: &str) -> bool {
    matches!(
        word,
        "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "level::eviction_priority"
    ) || word.starts_with("L1::")
        || word.starts_with("L2::")
}

/// The memory ordering of an access.
struct Ordering {
    /// Volatile, relaxed or stronger.
    ordered: bool,
    volatile: bool,
    release: bool,
    acquire: bool,
    /// The scope.
    reach: Reach,
}

fn load_class(space: MemSpace) -> Class {
    match space {
        MemSpace::Shared => Class::LoadShared,
        MemSpace::Local => Class::Local,
        MemSpace::Const | MemSpace::Param => Class::Constant,
        MemSpace::Global | MemSpace::Generic => Class::LoadGlobal,
    }
}

fn store_class(space: MemSpace) -> Class {
    match space {
        MemSpace::Shared => Class::StoreShared,
        MemSpace::Local => Class::Local,
        _ => Class::StoreGlobal,
    }
}

impl Lowering<'_> {
    pub(super) fn access(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let hint = |word: &String| word == "L2::cache_hint";
        if i.modifiers.iter().any(hint) {
            // The last operand is a policy of the L2 cache, which changes no result.
            let mut without = i.clone();
            let policy = without.operands.pop().ok_or(UnsupportedForm)?;
            self.source(&policy, Ty::B64)?;
            without.modifiers.retain(|word| !hint(word));
            return self.access(&without);
        }
        let modifiers = Modifiers::new(&i.modifiers);
        match i.base.as_str() {
            "ld" | "ldu" => self.load(i, modifiers),
            "st" => self.store(i, modifiers),
            "atom" | "red" => self.atomic(i, modifiers),
            "cp" => self.copy_async(i, modifiers),
            _ => Err(UnsupportedForm),
        }
    }

    /// Cache hints, in the forms of the PTX ISA: `prefetch{.space}.level [a]`, `prefetchu.L1 [a]`,
    /// `applypriority{.global}.L2::evict_normal [a], 128`, and `createpolicy`.
    ///
    /// They change no result, so a hint counts as one issued instruction and does nothing else. An opcode belongs here
    /// only if the ISA lets an implementation ignore it. `discard` does not: its data may be lost.
    pub(super) fn cache_hint(&mut self, i: &Instruction) -> Result<(), UnsupportedForm> {
        let mut modifiers = Modifiers::new(&i.modifiers);
        if i.base == "createpolicy" {
            return self.create_policy(i, modifiers);
        }
        let has_level = match i.base.as_str() {
            "prefetch" => {
                let _ = modifiers.take("global") || modifiers.take("local");
                ["L1", "L2", "L2::evict_last", "L2::evict_normal"]
                    .into_iter()
                    .any(|level| modifiers.take(level))
            }
            "prefetchu" => modifiers.take("L1"),
            "applypriority" => {
                let _ = modifiers.take("global");
                modifiers.take("L2::evict_normal")
            }
            _ => return Err(UnsupportedForm),
        };
        modifiers.done()?;
        let has_operands = match &i.operands[..] {
            [Operand::Memory(..)] => i.base != "applypriority",
            [Operand::Memory(..), Operand::Integer(128)] => i.base == "applypriority",
            _ => false,
        };
        if !(has_level && has_operands) {
            return Err(UnsupportedForm);
        }
        self.emit(Op::Hint, &[], &[], Class::Other);
        Ok(())
    }

    /// `createpolicy.fractional.L2::first{.L2::second}.b64 d{, share}`,
    /// `createpolicy.range{.global}.L2::first{.L2::second}.b64 d, [a], first_bytes, all_bytes` and
    /// `createpolicy.cvt.L2.b64 d, property`. Policies are opaque, and all of them are zero here.
    fn create_policy(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        if modifiers.ty()? != Ty::B64 {
            return Err(UnsupportedForm);
        }
        let kinds = ["fractional", "range", "cvt"];
        let kind = modifiers.take_by(|word| kinds.into_iter().find(|kind| *kind == word));
        let priority = |modifiers: &mut Modifiers<'_>| {
            modifiers.take_by(|word| {
                let priority = word.strip_prefix("L2::evict_")?;
                ["last", "normal", "first", "unchanged"]
                    .contains(&priority)
                    .then_some(())
            })
        };
        let [d, operands @ ..] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let known = match (kind, operands) {
            (Some("fractional"), []) => priority(&mut modifiers).is_some(),
            (Some("fractional"), [share]) => {
                self.source(share, Ty::F32)?;
                priority(&mut modifiers).is_some()
            }
            (Some("range"), [Operand::Memory(..), first, all]) => {
                let _ = modifiers.take("global");
                self.source(first, Ty::U32)?;
                self.source(all, Ty::U32)?;
                priority(&mut modifiers).is_some()
            }
            (Some("cvt"), [property]) => {
                self.source(property, Ty::B64)?;
                modifiers.take("L2")
            }
            _ => false,
        };
        if kind != Some("cvt") {
            let _ = priority(&mut modifiers);
        }
        modifiers.done()?;
        if !known {
            return Err(UnsupportedForm);
        }
        let d = self.destination(d, File::R64)?;
        let policy = self.constant(File::R64, 0);
        self.emit(Op::Mov64, &[d], &[policy], Class::Other);
        Ok(())
    }

    /// Removes the modifiers of ordering and scope. An ordered access without a scope has the scope of the device.
    fn ordering(modifiers: &mut Modifiers<'_>) -> Ordering {
        let both = modifiers.take("acq_rel");
        let release = modifiers.take("release") | both;
        let acquire = modifiers.take("acquire") | both;
        let volatile = modifiers.take("volatile");
        let ordered = volatile | modifiers.take("relaxed") | acquire | release;
        let _ = modifiers.take("weak");
        let reach = if modifiers.take("cta") {
            Reach::Block
        } else {
            let _ = modifiers.take("gpu") | modifiers.take("sys") | modifiers.take("cluster");
            Reach::Device
        };
        Ordering {
            ordered,
            volatile,
            release,
            acquire,
            reach,
        }
    }

    fn space(modifiers: &mut Modifiers<'_>) -> MemSpace {
        modifiers.take_by(space_word).unwrap_or(MemSpace::Generic)
    }

    /// Resolves an address operand to space, register and offset. Kernel parameters stay in parameter space; parameters
    /// of calls are on the stack.
    fn resolve(
        &mut self,
        space: MemSpace,
        operand: &Operand,
    ) -> Result<(MemSpace, VReg, i64, bool), UnsupportedForm> {
        let Operand::Memory(base, offset) = operand else {
            return Err(UnsupportedForm);
        };
        if let (MemSpace::Param, Base::Variable(symbol)) = (space, base) {
            if let Some(at) = self.kernel_parameter(*symbol) {
                let v = self.constant(File::R64, (i64::from(at) + offset) as u64);
                return Ok((MemSpace::Param, v, 0, true));
            }
            let v = self.address(*symbol, *offset, File::R64)?;
            return Ok((MemSpace::Local, v, 0, true));
        }
        let (v, offset) = self.memory_operand(operand)?;
        let space = match (space, base) {
            (MemSpace::Generic, Base::Variable(symbol)) if self.is_module_constant(*symbol) => {
                MemSpace::Const
            }
            _ => space,
        };
        Ok((space, v, offset, false))
    }

    fn elements(operand: &Operand, vector: usize) -> Result<Vec<&Operand>, UnsupportedForm> {
        match operand {
            Operand::Vector(parts) if parts.len() == vector => Ok(parts.iter().collect()),
            Operand::Vector(_) => Err(UnsupportedForm),
            single if vector == 1 => Ok(vec![single]),
            _ => Err(UnsupportedForm),
        }
    }

    fn vector(modifiers: &mut Modifiers<'_>) -> usize {
        if modifiers.take("v2") {
            2
        } else if modifiers.take("v4") {
            4
        } else if modifiers.take("v8") {
            8
        } else {
            1
        }
    }

    fn load(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let Ordering {
            ordered,
            volatile,
            release,
            acquire,
            reach,
        } = Self::ordering(&mut modifiers);
        let vector = Self::vector(&mut modifiers);
        let space = Self::space(&mut modifiers);
        let read_only_path = modifiers.take("nc") | (i.base == "ldu");
        let past_cache = modifiers.take("cg") | modifiers.take("cv");
        while modifiers
            .take_by(|word| is_hint(word).then_some(()))
            .is_some()
        {}
        modifiers.done()?;
        let [d, address] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        if ty == Ty::Pred || ty == Ty::B128 {
            return Err(UnsupportedForm);
        }
        let parameter = match address {
            Operand::Memory(Base::Variable(symbol), offset) if space == MemSpace::Param => self
                .kernel_parameter(*symbol)
                .map(|at| i64::from(at) + offset),
            _ => None,
        };
        let mut d_v = Vec::new();
        let mut keep = 64;
        for part in Self::elements(d, vector)? {
            let declared = self.declared(part).unwrap_or(ty);
            if declared.bits() < ty.bits() || declared == Ty::Pred {
                return Err(UnsupportedForm);
            }
            keep = declared.bits();
            d_v.push(self.destination(part, file_of(declared)?)?);
        }
        if let (Some(at), 1, true) = (parameter, vector, keep == ty.bits()) {
            // The common case: a whole scalar parameter.
            if at >= 0 && matches!(ty.bits(), 32 | 64) {
                let op = if ty.bits() == 32 {
                    Op::Param32
                } else {
                    Op::Param64
                };
                self.emit_x(op, &d_v, &[], Class::Constant, at as u32);
                return Ok(());
            }
        }
        let (space, v, offset, of_call) = self.resolve(space, address)?;
        let class = if of_call && space == MemSpace::Local {
            Class::Move
        } else {
            load_class(space)
        };
        let detail = MemoryDetail {
            space,
            element: ty.bytes(),
            offset,
            signed: ty.signed(),
            keep,
            ordered,
            volatile,
            release,
            acquire,
            reach,
            read_only_path,
            past_cache,
        };
        self.emit_detail(Op::Load, &d_v, &[v], class, 0, Detail::Memory(detail));
        Ok(())
    }

    fn store(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let Ordering {
            ordered,
            volatile,
            release,
            acquire,
            reach,
        } = Self::ordering(&mut modifiers);
        let vector = Self::vector(&mut modifiers);
        let space = Self::space(&mut modifiers);
        while modifiers
            .take_by(|word| is_hint(word).then_some(()))
            .is_some()
        {}
        modifiers.done()?;
        let [address, value] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        if ty == Ty::Pred || ty == Ty::B128 {
            return Err(UnsupportedForm);
        }
        let mut s = Vec::new();
        let (space, v, offset, of_call) = self.resolve(space, address)?;
        if matches!(space, MemSpace::Param | MemSpace::Const) {
            return Err(UnsupportedForm);
        }
        s.push(v);
        for part in Self::elements(value, vector)? {
            let ty = self
                .declared(part)
                .filter(|declared| declared.bits() >= ty.bits())
                .unwrap_or(ty);
            s.push(self.source(part, ty)?);
        }
        let class = if of_call {
            Class::Move
        } else {
            store_class(space)
        };
        let detail = MemoryDetail {
            space,
            element: ty.bytes(),
            offset,
            signed: false,
            keep: 64,
            ordered,
            volatile,
            release,
            acquire,
            reach,
            read_only_path: false,
            past_cache: false,
        };
        self.emit_detail(Op::Store, &[], &s, class, 0, Detail::Memory(detail));
        Ok(())
    }

    /// `atom.sem.scope.space.op.type d, [a], b[, c]` and `red` without d.
    fn atomic(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        let ty = modifiers.ty()?;
        let Ordering {
            release,
            acquire,
            reach,
            ..
        } = Self::ordering(&mut modifiers);
        let space = Self::space(&mut modifiers);
        let _ = modifiers.take("noftz");
        while modifiers
            .take_by(|word| is_hint(word).then_some(()))
            .is_some()
        {}
        let name = modifiers
            .take_by(|word| {
                [
                    "add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas",
                ]
                .into_iter()
                .find(|name| *name == word)
            })
            .ok_or(UnsupportedForm)?;
        modifiers.done()?;
        let combine: LaneFn = match (name, ty) {
            ("exch", _) => int::exchange,
            ("cas", _) => int::compare_exchange,
            ("inc", Ty::U32) => int::inc,
            ("dec", Ty::U32) => int::dec,
            ("add", Ty::F32 | Ty::F64 | Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2)
            | ("min" | "max", Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2) => {
                definition(name, ty, Mode::PLAIN, false).ok_or(UnsupportedForm)?
            }
            ("add", _) => integer!(ty, add).ok_or(UnsupportedForm)?,
            ("min", _) => integer!(ty, min).ok_or(UnsupportedForm)?,
            ("max", _) => integer!(ty, max).ok_or(UnsupportedForm)?,
            ("and", _) => integer!(ty, and).ok_or(UnsupportedForm)?,
            ("or", _) => integer!(ty, or).ok_or(UnsupportedForm)?,
            ("xor", _) => integer!(ty, xor).ok_or(UnsupportedForm)?,
            _ => return Err(UnsupportedForm),
        };
        let returns = i.base == "atom";
        let operands = if returns {
            i.operands.get(1..).ok_or(UnsupportedForm)?
        } else {
            &i.operands[..]
        };
        let file = file_of(ty)?;
        let d = if returns {
            vec![self.destination(Self::operand(&i.operands, 0)?, file)?]
        } else {
            Vec::new()
        };
        let (address, b, c) = match operands {
            [address, b] if name != "cas" => (address, b, None),
            [address, b, c] if name == "cas" => (address, b, Some(c)),
            _ => return Err(UnsupportedForm),
        };
        let (space, v, offset, _) = self.resolve(space, address)?;
        if !matches!(
            space,
            MemSpace::Global | MemSpace::Shared | MemSpace::Generic
        ) {
            return Err(UnsupportedForm);
        }
        let mut s = vec![v, self.source(b, ty)?];
        if let Some(c) = c {
            s.push(self.source(c, ty)?);
        }
        let class = if space == MemSpace::Shared {
            Class::AtomicShared
        } else {
            Class::AtomicGlobal
        };
        let detail = MemoryDetail {
            space,
            element: ty.bytes(),
            offset,
            signed: false,
            keep: ty.bits(),
            ordered: true,
            volatile: false,
            release,
            acquire,
            reach,
            read_only_path: false,
            past_cache: false,
        };
        self.emit_detail(
            Op::Atomic,
            &d,
            &s,
            class,
            0,
            Detail::Atomic(detail, combine),
        );
        Ok(())
    }

    /// `cp.async.{ca,cg}.shared.global [dst], [src], bytes[, source bytes]`, `commit_group`, `wait_group`, `wait_all`.
    fn copy_async(
        &mut self,
        i: &Instruction,
        mut modifiers: Modifiers<'_>,
    ) -> Result<(), UnsupportedForm> {
        if !modifiers.take("async") {
            return Err(UnsupportedForm);
        }
        if modifiers.take("mbarrier") {
            return self.copies_arrive(i, modifiers);
        }
        if modifiers.take("commit_group") {
            modifiers.done()?;
            self.emit(Op::AsyncCommit, &[], &[], Class::Other);
            return Ok(());
        }
        if modifiers.take("wait_all") {
            modifiers.done()?;
            self.emit_x(Op::AsyncWait, &[], &[], Class::Other, u32::MAX);
            return Ok(());
        }
        if modifiers.take("wait_group") {
            modifiers.done()?;
            let [Operand::Integer(groups)] = i.operands[..] else {
                return Err(UnsupportedForm);
            };
            let groups = u32::try_from(groups).map_err(|_| UnsupportedForm)?;
            self.emit_x(Op::AsyncWait, &[], &[], Class::Other, groups);
            return Ok(());
        }
        let whole_lines = modifiers.take("cg");
        let cached = modifiers.take("ca");
        if whole_lines == cached {
            return Err(UnsupportedForm);
        }
        while modifiers
            .take_by(|word| is_hint(word).then_some(()))
            .is_some()
        {}
        if !((modifiers.take("shared") || modifiers.take("shared::cta"))
            && modifiers.take("global"))
        {
            return Err(UnsupportedForm);
        }
        modifiers.done()?;
        let [shared, global, Operand::Integer(bytes), rest @ ..] = &i.operands[..] else {
            return Err(UnsupportedForm);
        };
        let bytes = *bytes as u32;
        if !(bytes == 16 || (cached && (bytes == 4 || bytes == 8))) {
            return Err(UnsupportedForm);
        }
        let (shared, shared_offset) = self.memory_operand(shared)?;
        let (global, global_offset) = self.memory_operand(global)?;
        let (source_bytes, ignore) = match rest {
            [] => (VReg::NONE, VReg::NONE),
            [operand] if self.declared(operand) == Some(Ty::Pred) => {
                let (v, negated) = self.predicate(operand)?;
                (VReg::NONE, if negated { self.negated(v) } else { v })
            }
            [operand] => (self.source(operand, Ty::U32)?, VReg::NONE),
            _ => return Err(UnsupportedForm),
        };
        self.emit_detail(
            Op::AsyncCopy,
            &[],
            &[shared, global, source_bytes, ignore],
            Class::AsyncCopy,
            0,
            Detail::Copy {
                shared_offset,
                global_offset,
                bytes,
                cached,
            },
        );
        Ok(())
    }
}
