//! Contexts: the device's primary context, created ones, and the stack of current contexts of each thread.

use crate::code::Code;
use crate::handle::{ContextHandle, StreamHandle};

use super::Driver;

/// Bits of all known flags: scheduling (low three bits), mapped host memory, local memory resize, and three newer
/// ones.
const KNOWN_FLAGS: u32 = 0xff;

/// Flags of a context as the API numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextFlags(u32);

impl ContextFlags {
    /// Checks the flags of a call.
    ///
    /// # Errors
    /// When a bit is set that no flag uses.
    pub fn from_bits(bits: u32) -> Result<Self, Code> {
        if bits & !KNOWN_FLAGS == 0 {
            Ok(Self(bits))
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// The flags as the API numbers them.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }
}

/// Initial values of a context's limits in the API's order: stack bytes, printf buffer bytes, heap bytes, two for
/// nested launches, fetch granularity, and persisting L2 cache size.
const DEFAULT_LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 128, 0];
/// Number of the limit for the part of the L2 cache that is set aside for persisting accesses.
pub(super) const PERSISTING_LIMIT: u32 = 6;

/// The device's primary context, shared by all callers that retain it.
#[derive(Debug, Default)]
pub(super) struct Primary {
    handle: Option<ContextHandle>,
    retained: u32,
    flags: ContextFlags,
}

/// A live context.
#[derive(Debug)]
pub(super) struct Context {
    flags: ContextFlags,
    limits: [usize; 7],
    cache_preference: u32,
    /// Number of callers that attached to it, besides the one that created it.
    attached: u32,
}

impl Context {
    fn new(flags: ContextFlags) -> Self {
        Self {
            flags,
            limits: DEFAULT_LIMITS,
            cache_preference: 0,
            attached: 0,
        }
    }
}

impl Driver {
    /// Retains the primary context, creating it at the first call.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn primary_retain(&mut self, ordinal: i32) -> Result<ContextHandle, Code> {
        self.check_device(ordinal)?;
        self.primary.retained += 1;
        let handle = match self.primary.handle {
            Some(handle) => handle,
            None => {
                let handle = ContextHandle::nth(self.next_serial());
                self.primary.handle = Some(handle);
                handle
            }
        };
        let flags = self.primary.flags;
        self.contexts
            .entry(handle)
            .or_insert_with(|| Context::new(flags));
        Ok(handle)
    }

    /// Releases one retention; the last release destroys the context's resources.
    ///
    /// # Errors
    /// For a wrong device, or when no caller retains it.
    pub fn primary_release(&mut self, ordinal: i32) -> Result<(), Code> {
        self.check_device(ordinal)?;
        let handle = match self.primary.handle {
            Some(handle) if self.primary.retained > 0 => handle,
            _ => return Err(Code::INVALID_CONTEXT),
        };
        self.primary.retained -= 1;
        if self.primary.retained == 0 {
            self.destroy_resources(handle);
        }
        Ok(())
    }

    /// Destroys the primary context's resources even if callers still retain it.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn primary_reset(&mut self, ordinal: i32) -> Result<(), Code> {
        self.check_device(ordinal)?;
        if let Some(handle) = self.primary.handle {
            self.destroy_resources(handle);
        }
        self.primary.retained = 0;
        Ok(())
    }

    /// Flags of the primary context, and true if it is active.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn primary_state(&self, ordinal: i32) -> Result<(ContextFlags, bool), Code> {
        self.check_device(ordinal)?;
        Ok((self.primary.flags, self.primary.retained > 0))
    }

    /// Sets the primary context's flags.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn primary_set_flags(&mut self, ordinal: i32, flags: ContextFlags) -> Result<(), Code> {
        self.check_device(ordinal)?;
        self.primary.flags = flags;
        if let Some(context) = self
            .primary
            .handle
            .and_then(|handle| self.contexts.get_mut(&handle))
        {
            context.flags = flags;
        }
        Ok(())
    }

    /// Creates a context and makes it the calling thread's current one.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn create_context(
        &mut self,
        ordinal: i32,
        flags: ContextFlags,
    ) -> Result<ContextHandle, Code> {
        self.check_device(ordinal)?;
        let handle = ContextHandle::nth(self.next_serial());
        self.contexts.insert(handle, Context::new(flags));
        self.stack().push(handle);
        Ok(handle)
    }

    /// Destroys a created context with everything in it.
    ///
    /// # Errors
    /// When the handle is stale, or the primary context's.
    pub fn destroy_context(&mut self, handle: ContextHandle) -> Result<(), Code> {
        self.known_context(handle)?;
        if self.primary.handle == Some(handle) {
            return Err(Code::INVALID_CONTEXT);
        }
        self.destroy_resources(handle);
        if self.stack().last() == Some(&handle) {
            self.pop_current();
        }
        Ok(())
    }

    /// Adds a reference to the calling thread's context (`cuCtxAttach`).
    ///
    /// # Errors
    /// Without a context.
    pub fn attach_context(&mut self) -> Result<ContextHandle, Code> {
        let handle = self.usable_context()?;
        self.context_mut()?.attached += 1;
        Ok(handle)
    }

    /// Removes a reference to the calling thread's context; removing the last one destroys it.
    ///
    /// # Errors
    /// When the handle is stale, not of the calling thread's context, or the primary context's last.
    pub fn detach_context(&mut self, handle: ContextHandle) -> Result<(), Code> {
        self.known_context(handle)?;
        if self.current_context() != Some(handle) {
            return Err(Code::INVALID_CONTEXT);
        }
        match self.contexts.get_mut(&handle) {
            Some(context) if context.attached > 0 => {
                context.attached -= 1;
                Ok(())
            }
            _ => self.destroy_context(handle),
        }
    }

    /// The calling thread's context.
    #[must_use]
    pub fn current_context(&self) -> Option<ContextHandle> {
        self.current.get(&self.thread)?.last().copied()
    }

    /// Replaces the calling thread's current context; `None` removes it.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn set_current_context(&mut self, handle: Option<ContextHandle>) -> Result<(), Code> {
        self.check_initialised()?;
        if let Some(handle) = handle {
            self.known_context(handle)?;
        }
        self.pop_current();
        if let Some(handle) = handle {
            self.stack().push(handle);
        }
        Ok(())
    }

    /// Puts a context on top of the calling thread's stack.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn push_context(&mut self, handle: ContextHandle) -> Result<(), Code> {
        self.known_context(handle)?;
        self.stack().push(handle);
        Ok(())
    }

    /// Removes and returns the top of the calling thread's stack.
    ///
    /// # Errors
    /// When the stack is empty.
    pub fn pop_context(&mut self) -> Result<ContextHandle, Code> {
        self.check_initialised()?;
        self.pop_current().ok_or(Code::INVALID_CONTEXT)
    }

    /// Checks that work of the calling thread can go to a context.
    ///
    /// # Errors
    /// Without a context, or after a fault.
    pub fn check_context(&self) -> Result<(), Code> {
        self.usable_context().map(|_| ())
    }

    /// Checks that a handle is a live context.
    ///
    /// # Errors
    /// When it is not.
    pub fn known_context(&self, handle: ContextHandle) -> Result<(), Code> {
        self.check_initialised()?;
        if self.contexts.contains_key(&handle) {
            Ok(())
        } else {
            Err(Code::INVALID_CONTEXT)
        }
    }

    /// Waits for all work of the current context.
    ///
    /// # Errors
    /// When a stream of the context is captured; a kernel's fault surfaces here.
    pub fn synchronise_context(&mut self) -> Result<(), Code> {
        let context = self.usable_context()?;
        self.check_no_capture_in(context)?;
        self.check_synchronising_call()?;
        self.timeline.host_waits_for_all();
        Ok(())
    }

    /// Flags of the current context.
    ///
    /// # Errors
    /// Without a context.
    pub fn context_flags(&self) -> Result<ContextFlags, Code> {
        let context = self.usable_context()?;
        Ok(self.contexts[&context].flags)
    }

    /// Sets the flags of the current context.
    ///
    /// # Errors
    /// Without a context.
    pub fn set_context_flags(&mut self, flags: ContextFlags) -> Result<(), Code> {
        self.context_mut()?.flags = flags;
        Ok(())
    }

    /// A resource limit of the current context, by the API's number.
    ///
    /// # Errors
    /// Without a context, or for an unknown limit.
    pub fn context_limit(&self, limit: u32) -> Result<usize, Code> {
        let context = self.usable_context()?;
        self.contexts[&context]
            .limits
            .get(limit as usize)
            .copied()
            .ok_or(Code::UNSUPPORTED_LIMIT)
    }

    /// Sets a resource limit. The emulation uses only the part of the L2 cache for persisting accesses, of which it gives at
    /// most what the device has; the other values are kept and returned.
    ///
    /// # Errors
    /// Without a context, or for an unknown limit.
    pub fn set_context_limit(&mut self, limit: u32, value: usize) -> Result<(), Code> {
        let most = match limit {
            PERSISTING_LIMIT => self.device.memory.l2_persisting_bytes as usize,
            _ => usize::MAX,
        };
        *self
            .context_mut()?
            .limits
            .get_mut(limit as usize)
            .ok_or(Code::UNSUPPORTED_LIMIT)? = value.min(most);
        Ok(())
    }

    /// Makes all that the L2 cache holds ordinary, so that nothing persists in it.
    ///
    /// # Errors
    /// Without a context.
    pub fn reset_persisting(&mut self) -> Result<(), Code> {
        self.check_context()?;
        self.machine.reset_persisting();
        Ok(())
    }

    /// The preferred split between cache and shared memory.
    ///
    /// # Errors
    /// Without a context.
    pub fn cache_preference(&self) -> Result<u32, Code> {
        let context = self.usable_context()?;
        Ok(self.contexts[&context].cache_preference)
    }

    /// Sets the preferred split between cache and shared memory (0 to 3).
    ///
    /// # Errors
    /// Without a context, or for another number.
    pub fn set_cache_preference(&mut self, preference: u32) -> Result<(), Code> {
        if preference > 3 {
            return Err(Code::INVALID_VALUE);
        }
        self.context_mut()?.cache_preference = preference;
        Ok(())
    }

    fn context_mut(&mut self) -> Result<&mut Context, Code> {
        let handle = self.usable_context()?;
        self.contexts.get_mut(&handle).ok_or(Code::INVALID_CONTEXT)
    }

    fn stack(&mut self) -> &mut Vec<ContextHandle> {
        self.current.entry(self.thread).or_default()
    }

    /// Pops the calling thread's context. The entry of a thread without contexts is removed, so that entries of
    /// threads that have ended do not accumulate.
    fn pop_current(&mut self) -> Option<ContextHandle> {
        let left = self.stack().pop();
        if self.stack().is_empty() {
            self.current.remove(&self.thread);
        }
        left
    }

    /// Frees everything that belongs to a context and removes the context.
    fn destroy_resources(&mut self, context: ContextHandle) {
        self.contexts.remove(&context);
        self.drop_graphs_of(context);
        self.free_allocations_of(context);
        self.unload_modules_of(context);
        self.events.retain(|_, event| event.context != context);
        self.timeline.drop_streams_of(context);
    }

    /// Checks a stream handle of a call in this context.
    pub(super) fn known_stream(
        &self,
        context: ContextHandle,
        stream: StreamHandle,
    ) -> Result<(), Code> {
        match self.timeline.context_of(stream) {
            None if stream <= StreamHandle::PER_THREAD => Ok(()),
            Some(owner) if owner == context => Ok(()),
            _ => Err(Code::INVALID_HANDLE),
        }
    }
}
