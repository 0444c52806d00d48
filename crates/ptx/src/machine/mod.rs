//! One emulated device: its memory, its loaded modules, and launches on them.

use crate::config::{LaunchConfig, LaunchError, Limits};
use crate::memory::{HostAccessError, Memory, OutOfMemory, Unwritten};
use crate::module::{KernelId, Module};
use crate::report::LaunchReport;

/// A module loaded into one machine. Stale after [`Machine::unload`]; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleHandle(u64);

/// One device: memory and loaded modules. Launches are synchronous.
#[derive(Debug)]
pub struct Machine {
    memory: Memory,
    limits: Limits,
    modules: Vec<(ModuleHandle, Module, Vec<(String, u64, u64)>)>,
    next_handle: u64,
}

impl Machine {
    /// An empty device.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            memory: Memory::new(limits.memory_bytes),
            limits,
            modules: Vec::new(),
            next_handle: 1,
        }
    }

    /// Allocates device memory; its bytes are uninitialised. The address is a multiple of 256.
    ///
    /// # Errors
    /// When fewer bytes are free.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, OutOfMemory> {
        self.memory.allocate(bytes, None, false)
    }

    /// Frees an allocation by its start address.
    ///
    /// # Errors
    /// When the address starts no live allocation.
    pub fn free(&mut self, pointer: u64) -> Result<(), HostAccessError> {
        self.memory.free(pointer)
    }

    /// Bytes in use, and bytes of the device.
    #[must_use]
    pub fn memory_in_use(&self) -> (u64, u64) {
        (self.memory.used(), self.limits.memory_bytes)
    }

    /// Start and size of the live allocation that holds the address.
    #[must_use]
    pub fn allocation_of(&self, pointer: u64) -> Option<(u64, u64)> {
        self.memory.find(pointer).map(|a| (a.base(), a.bytes()))
    }

    /// Names the allocation that holds the address, for findings.
    ///
    /// # Errors
    /// When no allocation holds it.
    pub fn label(&mut self, pointer: u64, name: &str) -> Result<(), HostAccessError> {
        self.memory.label(pointer, name)
    }

    /// Writes from the host; the bytes count as initialised.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn write(&mut self, pointer: u64, data: &[u8]) -> Result<(), HostAccessError> {
        self.memory.write(pointer, data)
    }

    /// Reads to the host, initialised or not.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn read(&self, pointer: u64, data: &mut [u8]) -> Result<(), HostAccessError> {
        self.memory.read(pointer, data)
    }

    /// Repeats a pattern of 1, 2 or 4 bytes `count` times; the bytes count as initialised.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn fill(
        &mut self,
        pointer: u64,
        pattern: &[u8],
        count: u64,
    ) -> Result<(), HostAccessError> {
        self.memory.fill(pointer, pattern, count)
    }

    /// Copies inside the device; uninitialised bytes stay uninitialised. The ranges may overlap.
    ///
    /// # Errors
    /// When a range leaves its allocation.
    pub fn copy(
        &mut self,
        destination: u64,
        source: u64,
        bytes: u64,
    ) -> Result<(), HostAccessError> {
        self.memory.copy(destination, source, bytes)
    }

    /// Marks bytes as uninitialised; their content stays.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn forget(&mut self, pointer: u64, bytes: u64) -> Result<(), HostAccessError> {
        self.memory.forget(pointer, bytes)
    }

    /// How many bytes of the range are not initialised: never written, or written with a value that nobody initialised.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn unwritten(&self, pointer: u64, bytes: u64) -> Result<Unwritten, HostAccessError> {
        self.memory.unwritten(pointer, bytes)
    }

    /// Loads a module: places its variables in device memory and initialises them.
    ///
    /// # Errors
    /// When the variables do not fit.
    pub fn load(&mut self, module: Module) -> Result<ModuleHandle, OutOfMemory> {
        let handle = ModuleHandle(self.next_handle);
        self.next_handle += 1;
        self.modules.push((handle, module, Vec::new()));
        Ok(handle)
    }

    /// Unloads a module and frees its variables; false if the handle is stale.
    pub fn unload(&mut self, handle: ModuleHandle) -> bool {
        let before = self.modules.len();
        self.modules.retain(|(h, ..)| *h != handle);
        self.modules.len() < before
    }

    /// The module behind a handle.
    #[must_use]
    pub fn module(&self, handle: ModuleHandle) -> Option<&Module> {
        self.modules
            .iter()
            .find(|(h, ..)| *h == handle)
            .map(|(_, module, _)| module)
    }

    /// Address and size of a module's variable.
    #[must_use]
    pub fn variable(&self, handle: ModuleHandle, name: &str) -> Option<(u64, u64)> {
        let (.., variables) = self.modules.iter().find(|(h, ..)| *h == handle)?;
        variables
            .iter()
            .find(|(n, ..)| n == name)
            .map(|(_, address, bytes)| (*address, *bytes))
    }

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// When the launch is refused; what goes wrong while it runs is in the report.
    pub fn launch(
        &mut self,
        handle: ModuleHandle,
        kernel: KernelId,
        config: &LaunchConfig<'_>,
    ) -> Result<LaunchReport, LaunchError> {
        let _ = (handle, kernel, config);
        Err(LaunchError::UnknownKernel)
    }
}
