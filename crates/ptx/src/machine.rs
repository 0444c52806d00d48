//! The emulated device: its memory, its loaded modules, and launches on them.

pub(crate) mod access;
mod arithmetic;
pub(crate) mod block;
mod block_reads;
mod block_work;
mod chosen_blocks;
mod contention;
mod control;
mod copy;
mod counters;
mod counts;
pub(crate) mod exec;
pub(crate) mod expansion;
pub(crate) mod full_warp;
pub(crate) mod interpret;
mod launch;
mod leftovers;
mod matrix;
mod matrix_access;
mod mbarrier;
mod multiprocessors;
mod pattern;
mod placement;
mod poison;
mod print;
pub(crate) mod run_end;
mod survey;
pub(crate) mod tile;
mod traffic;
pub(crate) mod vector;
pub(crate) mod warp;
mod warpwide;

use std::sync::atomic::{AtomicU32, AtomicU64};

use self::leftovers::Leftovers;
use self::placement::Placement;
use crate::config::{Fragments, LaunchConfig, LaunchError, Limits, Schedule};
use crate::lower::schedule::CriticalPath;
use crate::memory::{HostAccessError, LendError, Memory, OutOfMemory, SECTOR, Unwritten};
use crate::module::{KernelId, Module};
use crate::report::LaunchReport;
use crate::simd::Isa;
use chosen_blocks::ChosenBlocks;
use survey::Survey;

/// A module loaded into one machine. Stale after [`Machine::unload`]; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ModuleHandle(u64);

/// One device: memory and loaded modules. Launches are synchronous.
#[derive(Debug)]
pub struct Machine {
    memory: Memory,
    limits: Limits,
    modules: Vec<Loaded>,
    next_handle: u64,
    launches: u64,
    isa: Isa,
    /// Contents that blocks leave in shared and local memory; none if every block starts with uninitialised memory.
    leftovers: Option<Leftovers>,
}

/// A module in this machine's memory.
#[derive(Debug)]
struct Loaded {
    handle: ModuleHandle,
    module: Module,
    /// Addresses by the module's variable number; 0 for variables outside device memory.
    addresses: Vec<u64>,
}

/// Bytes of a cooperative grid's workspace.
const WORKSPACE_BYTES: u64 = 64;
/// Most threads of a block.
const MAX_THREADS: u64 = 1024;
/// Most shared bytes of a block any supported device has.
const MAX_SHARED: u64 = 228 << 10;

impl Machine {
    /// An empty device.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            memory: Memory::new(limits.memory_bytes),
            limits,
            modules: Vec::new(),
            next_handle: 1,
            launches: 0,
            isa: Isa::detect(),
            leftovers: None,
        }
    }

    /// Keeps the contents of shared and local memory from one block to the next, as GPUs do; reading them is then no
    /// finding. By default every block starts with uninitialised memory.
    pub fn keep_leftovers(&mut self) {
        self.leftovers = Some(Leftovers::default());
    }

    /// Allocates device memory; its bytes are uninitialised. The address is a multiple of 256.
    ///
    /// # Errors
    /// When fewer bytes are free.
    pub fn allocate(&mut self, bytes: u64) -> Result<u64, OutOfMemory> {
        self.memory.allocate(bytes, None, false)
    }

    /// Reserves a range of addresses at a multiple of `align`; none if no room is left.
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        self.memory.reserve(bytes, align)
    }

    /// Allocates memory at an address inside a reserved range.
    ///
    /// # Errors
    /// When the device is full, or something is there already.
    pub fn allocate_at(&mut self, base: u64, bytes: u64) -> Result<(), OutOfMemory> {
        self.memory.allocate_at(base, bytes)
    }

    /// Makes an allocation read-only for kernels and host, or writable again. A kernel that writes to a read-only
    /// allocation ends with a finding.
    ///
    /// # Errors
    /// When no allocation holds the address.
    pub fn seal(&mut self, pointer: u64, sealed: bool) -> Result<(), HostAccessError> {
        self.memory.seal(pointer, sealed)
    }

    /// Frees an allocation by its start address.
    ///
    /// # Errors
    /// When the address starts no live allocation.
    pub fn free(&mut self, pointer: u64) -> Result<(), HostAccessError> {
        self.memory.free(pointer)
    }

    /// Maps host memory into the device's address space at the same address, `base`, for page-locked and managed
    /// memory. Both sides see each other's writes at once; its bytes always count as initialised. `words` is the memory
    /// itself, in 4-byte cells that cover `bytes` bytes.
    ///
    /// # Errors
    /// When the range overlaps another window or wraps around.
    pub fn lend(
        &mut self,
        base: u64,
        bytes: u64,
        words: &'static [AtomicU32],
    ) -> Result<(), LendError> {
        self.memory.lend(base, bytes, words)
    }

    /// Unmaps host memory that [`Self::lend`] mapped; false if no mapping starts at the address.
    pub fn give_back(&mut self, base: u64) -> bool {
        self.memory.give_back(base)
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

    /// Sets the address at which the buffer of kernels begins inside its allocation. From the next launch on, addresses
    /// before it are out of bounds for kernels; the host can still access them. Findings count offsets and sizes from
    /// there.
    ///
    /// # Errors
    /// When no allocation holds it.
    pub fn begin_at(&mut self, pointer: u64) -> Result<(), HostAccessError> {
        self.memory.begin_at(pointer)
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

    /// Makes all that the L2 cache holds ordinary, so that nothing persists in it.
    pub fn reset_persisting(&mut self) {
        self.memory.reset_persisting();
    }

    /// Empties the L2 cache but for what persists in it: the next launch finds nothing else there that was touched before.
    pub fn evict(&mut self) {
        self.memory.evict();
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

    /// The number of uninitialised bytes in the range: never written, or written with an uninitialised value.
    ///
    /// # Errors
    /// When the range leaves its allocation.
    pub fn unwritten(&self, pointer: u64, bytes: u64) -> Result<Unwritten, HostAccessError> {
        self.memory.unwritten(pointer, bytes)
    }

    /// Selects the instruction set of the host for later launches, if the processor has it.
    pub fn use_isa(&mut self, isa: Isa) {
        if isa.is_available() {
            self.isa = isa;
        }
    }

    /// The instruction set launches run with.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Loads a module: places its variables in device memory and initialises them.
    ///
    /// # Errors
    /// When the variables do not fit.
    pub fn load(&mut self, module: Module) -> Result<ModuleHandle, OutOfMemory> {
        let mut addresses = Vec::new();
        for placed in module.placed() {
            if !placed.in_memory {
                addresses.push(0);
                continue;
            }
            match self.memory.allocate(
                placed.info.bytes,
                Some(&placed.info.name),
                placed.info.constant,
            ) {
                Ok(address) => addresses.push(address),
                Err(error) => {
                    self.release(&addresses);
                    return Err(error);
                }
            }
        }
        for (placed, &address) in module.placed().iter().zip(&addresses) {
            if !placed.in_memory {
                continue;
            }
            let mut image = placed.image.clone();
            for (at, variable, offset) in &placed.pointers {
                let value = addresses[*variable]
                    .wrapping_add_signed(*offset)
                    .to_le_bytes();
                if let Some(bytes) = image.get_mut(*at..*at + 8) {
                    bytes.copy_from_slice(&value);
                }
            }
            let rest = placed.info.bytes - image.len() as u64;
            self.memory
                .write(address, &image)
                .and_then(|()| self.memory.fill(address + image.len() as u64, &[0], rest))
                .expect("the image and its zeros have their allocation's size");
        }
        let handle = ModuleHandle(self.next_handle);
        self.next_handle += 1;
        self.modules.push(Loaded {
            handle,
            module,
            addresses,
        });
        Ok(handle)
    }

    fn release(&mut self, addresses: &[u64]) {
        for &address in addresses.iter().filter(|address| **address != 0) {
            self.memory
                .free(address)
                .expect("a module's variables are its own allocations");
        }
    }

    fn loaded(&self, handle: ModuleHandle) -> Option<&Loaded> {
        self.modules.iter().find(|loaded| loaded.handle == handle)
    }

    /// Unloads a module and frees its variables; false if the handle is stale.
    pub fn unload(&mut self, handle: ModuleHandle) -> bool {
        let Some(index) = self
            .modules
            .iter()
            .position(|loaded| loaded.handle == handle)
        else {
            return false;
        };
        let gone = self.modules.remove(index);
        self.release(&gone.addresses);
        true
    }

    /// The module behind a handle.
    #[must_use]
    pub fn module(&self, handle: ModuleHandle) -> Option<&Module> {
        self.loaded(handle).map(|loaded| &loaded.module)
    }

    /// Address and size of a module's variable.
    #[must_use]
    pub fn variable(&self, handle: ModuleHandle, name: &str) -> Option<(u64, u64)> {
        let loaded = self.loaded(handle)?;
        let (placed, address) = loaded
            .module
            .placed()
            .iter()
            .zip(&loaded.addresses)
            .find(|(placed, _)| placed.info.name == name)?;
        placed.in_memory.then_some((*address, placed.info.bytes))
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
        self.launches += 1;
        self.memory
            .persist(config.persisting.clone(), config.persisting_bytes);
        if !config.cooperative {
            return self.launch_with(handle, kernel, config, 0);
        }
        // The CUDA driver gives every cooperative grid a word for its size and a word that counts arrivals.
        let full = |error: OutOfMemory| LaunchError::Invalid {
            kernel: String::new(),
            reason: format!("its grid barrier needs memory: failed to {error}"),
        };
        let workspace = self
            .memory
            .allocate(WORKSPACE_BYTES, Some("the grid's barrier"), false)
            .map_err(full)?;
        let zeros = [0; WORKSPACE_BYTES as usize];
        self.memory
            .write(workspace, &zeros)
            .expect("the workspace has this size");
        let result = self.launch_with(handle, kernel, config, workspace);
        self.memory
            .free(workspace)
            .expect("the workspace was allocated above");
        result
    }

    fn launch_with(
        &self,
        handle: ModuleHandle,
        kernel: KernelId,
        config: &LaunchConfig<'_>,
        workspace: u64,
    ) -> Result<LaunchReport, LaunchError> {
        let loaded = self.loaded(handle).ok_or(LaunchError::UnknownKernel)?;
        let info = loaded
            .module
            .info(kernel)
            .ok_or(LaunchError::UnknownKernel)?;
        let invalid = |reason: String| {
            Err(LaunchError::Invalid {
                kernel: info.name.clone(),
                reason,
            })
        };
        let threads = config.block.iter().map(|n| u64::from(*n)).product::<u64>();
        let blocks = config
            .grid
            .iter()
            .try_fold(1u64, |product, n| product.checked_mul(u64::from(*n)))
            .unwrap_or(0);
        if blocks == 0 || blocks >= 1 << 32 {
            return invalid(format!("a grid of {:?} blocks", config.grid));
        }
        if threads == 0 || threads > MAX_THREADS {
            return invalid(format!(
                "{threads} threads per block; 1 to {MAX_THREADS} are possible"
            ));
        }
        if threads > u64::from(info.max_threads) {
            return invalid(format!(
                "{threads} threads per block; its launch bounds allow {}",
                info.max_threads
            ));
        }
        if let Some(required) = info
            .required_threads
            .filter(|required| *required != config.block)
        {
            return invalid(format!(
                "a block of {:?}; it requires {required:?}",
                config.block
            ));
        }
        let program = loaded.module.program(kernel)?;
        let shared = u64::from(program.static_shared) + u64::from(config.dynamic_shared);
        if shared > MAX_SHARED {
            return invalid(format!(
                "{shared} bytes of shared memory per block; at most {MAX_SHARED} are possible"
            ));
        }
        if config.params.len() < info.param_bytes as usize {
            return invalid(format!(
                "{} parameter bytes; it takes {}",
                config.params.len(),
                info.param_bytes
            ));
        }
        let resident = u64::from(config.resident_blocks);
        let chosen = ChosenBlocks::new(blocks, config.sample, resident);
        if !chosen.is_whole() && (config.cooperative || program.blocks_synchronise) {
            return invalid(
                "a sample of its blocks, which wait for each other: only all of them get anywhere"
                    .to_owned(),
            );
        }
        if config.cooperative && blocks > u64::from(config.resident_blocks) {
            return Err(LaunchError::CooperativeTooLarge {
                kernel: info.name.clone(),
                blocks,
                resident: config.resident_blocks,
            });
        }
        let pointers: Vec<u64> = program
            .writes
            .parameters
            .iter()
            .map(|offset| control::parameter(config.params, *offset))
            .collect();
        let writes = |base: u64, bytes: u64| {
            program.writes.anything
                || (program.writes.variables && loaded.addresses.contains(&base))
                || pointers
                    .iter()
                    .any(|pointer| pointer.wrapping_sub(base) < bytes.max(1))
        };
        let allocations = self.memory.allocations();
        let bytes = allocations.iter().map(|a| a.bytes()).sum::<u64>();
        let communicate = config.cooperative || program.blocks_communicate;
        let critical_path = CriticalPath::of(program, &config.latencies);
        let prepared = |chosen: ChosenBlocks, tells_waves: bool| exec::Launch {
            program,
            kernel: &info.name,
            memory: &self.memory,
            params: config.params,
            grid: config.grid,
            block: config.block,
            shared_bytes: shared as u32,
            dynamic_shared: config.dynamic_shared,
            checks: config.checks,
            budget: config.budget.unwrap_or(u64::MAX),
            spent: AtomicU64::new(0),
            stopped_at: AtomicU64::new(u64::MAX),
            critical_path: &critical_path,
            tracks: allocations
                .iter()
                .map(|a| {
                    let waves = tells_waves.then_some(&chosen);
                    exec::Track::new(a, writes(a.base(), a.bytes()), communicate, waves)
                })
                .collect(),
            chosen,
            tells_waves,
            survey: None,
            variables: &loaded.addresses,
            multiprocessors: config.multiprocessors,
            core_mhz: config.core_mhz,
            parallel: launch::in_parallel(program, config, blocks),
            placement: Placement::new(config, blocks),
            resident_blocks: u64::from(config.resident_blocks),
            latencies: config.latencies,
            number: self.launches,
            alternative_fragments: config.fragments == Fragments::Turned,
            workspace,
            printed_limit: self.limits.printed_bytes,
            leftovers: self.leftovers.as_ref(),
        };
        // A look changes what blocks tell each other in memory, such as the next piece of a work queue.
        let survey = if chosen.is_whole() || program.blocks_communicate {
            None
        } else {
            Survey::of_uneven(blocks, |count| {
                let single = prepared(ChosenBlocks::single(blocks, count), false);
                launch::look_at_blocks(&single, config, self.isa)
            })
        };
        let chosen = match &survey {
            Some(survey) => chosen.placed_by(survey),
            None => chosen,
        };
        let tells_waves = config.schedule == Schedule::Serial
            && chosen.waves_of_grid() > 1
            && (bytes > config.l2_bytes.saturating_sub(config.persisting_bytes)
                || !chosen.is_whole());
        let launch = exec::Launch {
            survey,
            ..prepared(chosen, tells_waves)
        };
        let exceeds = |sectors: u64| sectors * SECTOR > config.l2_bytes;
        if exceeds(self.memory.cached_sectors()) {
            self.memory.evict();
        }
        let report = launch::run(&launch, config, self.isa, self.limits.findings);
        if exceeds(report.counters.cached_sectors) {
            self.memory.evict();
        }
        for track in &launch.tracks {
            track.allocation.cache(track.touched());
        }
        Ok(report)
    }
}
