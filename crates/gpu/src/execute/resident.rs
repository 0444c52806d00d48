//! Device buffers of one execution: allocation, initial contents, read-only mapping of inputs, and the check of the
//! memory around them afterwards.

use std::ops::Range;

use domain::plan::{ResolvedPlan, ResolvedStep};
use domain::role::Placement;

use super::layout::{Layout, guard};
use super::{ExecuteError, LoadedImage, PassOptions};
use tensors::inputs;

use crate::driver::{Allocation, DriverError};
use crate::role_error::RoleError;

/// A buffer to allocate before a pass.
#[derive(Debug)]
pub struct Buffer {
    /// Name in the plan.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment of the address in bytes.
    pub align: u64,
    /// Content before the first launch; poison if `None`.
    pub content: Option<Vec<u8>>,
    /// True if no launch may change it.
    pub constant: bool,
}

/// A buffer on the device.
#[derive(Debug)]
pub struct DeviceBuffer {
    /// Name in the plan.
    pub name: String,
    pub(super) allocation: Allocation,
    pub(super) constant: bool,
    /// Position of the buffer inside the allocation.
    pub(super) inside: Range<usize>,
    /// True if the emulated device was told the start of the buffer.
    bounded: bool,
    /// Content of the whole allocation before the first launch.
    pub(super) before: Vec<u8>,
}

/// Bytes of a buffer and its surroundings after a pass, compared with those before it.
#[derive(Debug)]
pub struct BufferState {
    all: Vec<u8>,
    inside: Range<usize>,
    /// True if the pattern around the buffer changed.
    pub overrun: bool,
    /// True if the buffer itself changed.
    pub changed: bool,
}

impl LoadedImage<'_> {
    /// Allocates and fills one buffer of a plan. A constant buffer is read-only on the emulated device, and next to a
    /// guard on others, so that a kernel that writes to it is stopped even if it restores the content. A buffer that a
    /// step of the plan fills stays writable; its bytes are compared afterwards. The flag is true if the driver cannot
    /// map memory for reading only.
    pub(super) fn allocate_for_plan(
        &self,
        plan: &ResolvedPlan,
        buffer: Buffer,
        options: PassOptions,
    ) -> Result<(DeviceBuffer, bool), ExecuteError> {
        let mut resident = self.allocate(buffer, options)?;
        let fills = |step: &ResolvedStep| match step {
            ResolvedStep::Memset { buffer, .. } => *buffer == resident.name,
            ResolvedStep::Kernel(_) => false,
        };
        if !resident.constant || plan.steps.iter().any(fills) {
            return Ok((resident, false));
        }
        if guard(options.placement).is_none() {
            if let Some(emulator) = self.gpu.emulator() {
                emulator.seal(resident.allocation.base())?;
            }
            return Ok((resident, false));
        }
        let granted = resident.allocation.make_read_only()?;
        Ok((resident, !granted))
    }

    /// Allocates and fills one buffer.
    pub(super) fn allocate(
        &self,
        buffer: Buffer,
        options: PassOptions,
    ) -> Result<DeviceBuffer, ExecuteError> {
        let emulator = self.gpu.emulator();
        let PassOptions {
            poison, placement, ..
        } = options;
        let Buffer {
            name,
            bytes,
            align,
            content,
            constant,
        } = buffer;
        if content
            .as_ref()
            .is_some_and(|content| content.len() as u64 != bytes)
        {
            let reason = format!("{name} has {bytes} bytes, its content has others");
            return Err(RoleError::Job(reason).into());
        }
        let guard = guard(placement);
        let layout = Layout::of(placement, emulator.is_some(), bytes, align);
        let allocated = usize::try_from(layout.allocated).map_err(|_| {
            RoleError::Job(format!(
                "{name} has {bytes} bytes, more than can be addressed"
            ))
        })?;
        let mut allocation = match guard {
            Some(guard) => self.gpu.allocate_guarded(allocated, guard)?,
            None => Allocation::new(allocated)?,
        };
        let inside = layout.position(allocation.base());
        let zones = inputs::poison(poison, "red zone", &name, allocated - inside.len());
        let (front, back) = zones.split_at(inside.start);
        let held = match &content {
            Some(content) => content,
            None => &inputs::poison(poison, "content", &name, inside.len()),
        };
        let before = [front, held, back].concat();
        // Memory that was never written must stay unwritten for a tool that detects reads of it.
        let bare = placement == Placement::Bare && content.is_none();
        if !bare {
            allocation.upload(&before)?;
        }
        // Next to a guard the guard detects overruns, and the pattern on the other side, as on hardware.
        let bounded = emulator.is_some() && guard.is_none();
        if let Some(emulator) = emulator {
            emulator.label(allocation.base(), &name)?;
            if bounded {
                emulator.set_buffer_start(allocation.base() + inside.start as u64)?;
            }
            if content.is_none() {
                emulator.mark_unwritten(allocation.base(), layout.allocated)?;
            } else if inside.start > 0 {
                // The bytes before the content must not be read.
                emulator.mark_unwritten(allocation.base(), inside.start as u64)?;
            }
        }
        Ok(DeviceBuffer {
            name,
            allocation,
            constant,
            inside,
            bounded,
            before,
        })
    }
}

impl DeviceBuffer {
    /// Address of the buffer.
    pub fn address(&self) -> u64 {
        self.allocation.base() + self.inside.start as u64
    }

    /// Size of the buffer in bytes.
    pub fn bytes(&self) -> u64 {
        self.inside.len() as u64
    }

    /// Offset of the buffer in the range that the device reports as its allocation, bytes.
    pub fn start(&self) -> usize {
        if self.bounded {
            0
        } else {
            self.allocation.leading_bytes() + self.inside.start
        }
    }

    /// The poison or content of the buffer before the pass.
    pub fn before(&self) -> &[u8] {
        &self.before[self.inside.clone()]
    }

    /// Reads the buffer and the pattern around it.
    ///
    /// # Errors
    /// The driver's error.
    pub fn read_back(&self) -> Result<BufferState, DriverError> {
        let all = self.allocation.download()?;
        let Range { start, end } = self.inside;
        Ok(BufferState {
            overrun: all[..start] != self.before[..start] || all[end..] != self.before[end..],
            changed: all[start..end] != self.before[start..end],
            all,
            inside: start..end,
        })
    }
}

impl BufferState {
    /// The buffer's bytes.
    pub fn content(&self) -> &[u8] {
        &self.all[self.inside.clone()]
    }
}

/// The names of the constant buffers whose bytes have changed.
pub(super) fn changed_constants(buffers: &[DeviceBuffer]) -> Result<Vec<String>, DriverError> {
    let mut changed = Vec::new();
    for buffer in buffers.iter().filter(|buffer| buffer.constant) {
        if buffer.read_back()?.changed {
            changed.push(buffer.name.clone());
        }
    }
    Ok(changed)
}
