//! The places of a function's variables: stack, shared memory and kernel parameters.

use super::{Lowering, UnsupportedForm};
use crate::ir::{StateSpace, Variable};

/// Maximum stack size per thread in bytes, as on GPUs.
pub(super) const MAX_LOCAL: u32 = 512 << 10;

/// The storage of a variable of a function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Storage {
    Local(u32),
    /// Offset in the frame of a subroutine.
    Frame(u32),
    Shared(u32),
    DynamicShared,
    KernelParam(u32),
}

impl Lowering<'_> {
    /// Reserves stack bytes.
    pub(super) fn stack(&mut self, bytes: u32, align: u32) -> Result<Storage, UnsupportedForm> {
        let used = match self.region {
            None => &mut self.local_bytes,
            Some(region) => &mut self.subroutines[region].bytes,
        };
        let at = used.next_multiple_of(align.max(4));
        *used = at
            .checked_add(bytes)
            .filter(|end| *end <= MAX_LOCAL)
            .ok_or(UnsupportedForm)?;
        Ok(match self.region {
            None => Storage::Local(at),
            Some(_) => Storage::Frame(at),
        })
    }

    pub(super) fn shared(&mut self, variable: &Variable) -> Result<Storage, UnsupportedForm> {
        if variable.unsized_array {
            self.dynamic_align = self.dynamic_align.max(variable.align);
            return Ok(Storage::DynamicShared);
        }
        let at = self.shared_bytes.next_multiple_of(variable.align);
        let bytes = u32::try_from(variable.bytes).map_err(|_| UnsupportedForm)?;
        self.shared_bytes = at
            .checked_add(bytes)
            .filter(|end| *end < 1 << 24)
            .ok_or(UnsupportedForm)?;
        self.shared_names
            .push((at, bytes, plain_name(&variable.name)));
        Ok(Storage::Shared(at))
    }

    pub(super) fn home(&mut self, index: usize) -> Result<Storage, UnsupportedForm> {
        if let Some(home) = self.scope().storage[index] {
            return Ok(home);
        }
        let function = self.scope().function;
        let variable = &function.variables[index];
        let home = match variable.space {
            StateSpace::Shared => self.shared(variable)?,
            _ => self.stack(
                u32::try_from(variable.bytes).map_err(|_| UnsupportedForm)?,
                variable.align,
            )?,
        };
        self.scope_mut().storage[index] = Some(home);
        Ok(home)
    }

    pub(super) fn module_shared(&mut self, index: usize) -> Result<Storage, UnsupportedForm> {
        if let Some(home) = self.shared_homes.get(&index) {
            return Ok(*home);
        }
        let tree = self.tree;
        let home = self.shared(&tree.variables[index])?;
        self.shared_homes.insert(index, home);
        Ok(home)
    }
}

/// The source name of a variable: `_ZZ9attentionE4keys` is `keys` of `attention`.
pub(super) fn plain_name(mangled: &str) -> String {
    let inner = mangled
        .strip_prefix("_ZZ")
        .and_then(|rest| rest.rsplit_once('E'))
        .map(|(_, inner)| inner);
    let name = inner.and_then(|inner| {
        let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = inner[..digits].parse().ok()?;
        inner.get(digits..digits + length)
    });
    name.unwrap_or(mangled).to_owned()
}
