//! Kernel launches: checks before the first instruction, execution, error codes of faults, and the journal.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;

use ptx::model::{self, Cache, Footprint, Occupancy, Shape};
use ptx::report::Outcome;
use ptx::{Checks, Fragments, LaunchConfig, LaunchError, Schedule};
use serde::Deserialize;

use crate::code::Code;
use crate::emulator::{JournalEntry, RefusedLaunch};
use crate::handle::{FunctionHandle, StreamHandle};

use super::context::PERSISTING_LIMIT;
use super::{Driver, KernelWork, Work};

/// Registers per thread if neither the caller nor the PTX text tells them.
const ASSUMED_REGISTERS: u32 = 32;

/// Grid and block, per axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dimensions {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
}

/// One launch as the API asks for it.
#[derive(Debug)]
pub struct LaunchRequest<'a> {
    /// The kernel.
    pub function: FunctionHandle,
    /// Grid and block.
    pub dimensions: Dimensions,
    /// Dynamic shared memory per block in bytes.
    pub dynamic_shared: u32,
    /// The stream that it is enqueued on.
    pub stream: StreamHandle,
    /// The parameter block.
    pub parameters: &'a [u8],
    /// True if all blocks must be resident at once.
    pub cooperative: bool,
    /// The addresses whose accesses persist in the L2 cache.
    pub persisting: Range<u64>,
}

impl LaunchRequest<'_> {
    /// The same launch without its stream, to be executed later.
    fn without_stream(&self) -> KernelWork {
        KernelWork {
            function: self.function,
            dimensions: self.dimensions,
            dynamic_shared: self.dynamic_shared,
            parameters: self.parameters.to_vec(),
            cooperative: self.cooperative,
            persisting: self.persisting.clone(),
        }
    }
}

/// Settings of the execution and its checks; changed only by requests of the emulator's interface.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The order of execution.
    pub schedule: Schedule,
    /// The layout of `wmma` fragments.
    pub fragments: Fragments,
    /// The checks that are made.
    pub checks: Checks,
    /// Number of thread instructions after which a launch counts as hanging.
    pub budget: Option<u64>,
    /// Number of host threads that may execute blocks.
    pub threads: usize,
    /// True if reports contain counters.
    pub counters: bool,
    /// The fewest blocks of a launch that are executed; the counters are extrapolated to the rest.
    pub sample: Option<u64>,
    /// Bytes that were read just before each launch, including all that it uses. If set, each launch is modelled a
    /// second time, with the part of these bytes that the L2 cache holds.
    pub read_before: Option<u64>,
    /// The one of the two modelled times that advances the stream's clock.
    pub clock: Clock,
    /// Registers per thread of kernels, by name, as the real compiler reported them.
    pub registers: BTreeMap<String, u32>,
    /// Bytes that each thread's spills store and load, by kernel name, as the real compiler reported them.
    pub spills: BTreeMap<String, u32>,
}

/// The modelled time that advances a stream's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// The time with an empty L2 cache.
    Cold,
    /// The time with an L2 cache that holds what was read before; the cold time if `read_before` is not set.
    Warm,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            schedule: Schedule::Serial,
            fragments: Fragments::Usual,
            checks: Checks::Full,
            budget: None,
            threads: thread::available_parallelism().map_or(1, usize::from),
            counters: true,
            sample: None,
            read_before: None,
            clock: Clock::Cold,
            registers: BTreeMap::new(),
            spills: BTreeMap::new(),
        }
    }
}

/// The error code of a kernel's fault; none if it completed.
fn fault_code(outcome: &Outcome) -> Option<Code> {
    match outcome {
        Outcome::Completed => None,
        Outcome::IllegalAddress => Some(Code::ILLEGAL_ADDRESS),
        Outcome::MisalignedAddress => Some(Code::MISALIGNED_ADDRESS),
        Outcome::Trapped => Some(Code::ILLEGAL_INSTRUCTION),
        Outcome::Asserted => Some(Code::ASSERT),
        Outcome::Deadlock | Outcome::BudgetExhausted => Some(Code::LAUNCH_TIMEOUT),
    }
}

impl Driver {
    /// Executes a kernel. A fault is reported by the next synchronising call, not by this one.
    ///
    /// # Errors
    /// For handles, dimensions or resources with which the kernel cannot be launched on the device, and when the
    /// kernel holds an instruction that the emulated GPU does not implement.
    pub fn launch(&mut self, request: &LaunchRequest<'_>) -> Result<(), Code> {
        self.check_stream(request.stream)?;
        let (footprint, resident_blocks) = self.check_resources(request)?;
        let captured = self.captured(request.stream, || Work::Kernel(request.without_stream()))?;
        if captured || self.pending.is_some() {
            return Ok(());
        }

        let function = self.known_function(request.function)?;
        let kernel = function.kernel;
        let module = self.machine_module(function)?;
        let config = LaunchConfig {
            grid: request.dimensions.grid,
            block: request.dimensions.block,
            dynamic_shared: request.dynamic_shared,
            params: request.parameters,
            cooperative: request.cooperative,
            schedule: self.settings.schedule,
            fragments: self.settings.fragments,
            checks: self.settings.checks,
            budget: self.settings.budget,
            threads: self.settings.threads,
            resident_blocks,
            multiprocessors: self.device.multiprocessors,
            core_mhz: self.device.clocks.core_mhz,
            l2_bytes: self.device.memory.l2_bytes,
            persisting_bytes: self.context_limit(PERSISTING_LIMIT)? as u64,
            persisting: request.persisting.clone(),
            latencies: self.device.latencies,
            sample: self.settings.sample,
        };
        match self.machine.launch(module, kernel, &config) {
            Ok(mut report) => {
                let shape = Shape {
                    grid: request.dimensions.grid,
                    footprint,
                    spilled_bytes: self
                        .settings
                        .spills
                        .get(&report.kernel)
                        .copied()
                        .unwrap_or(0),
                };
                let modelled =
                    |cache| model::modelled(&report.counters, shape, &self.device, cache);
                let cold = modelled(Cache::Cold);
                let read_before = self.settings.read_before;
                let warm = read_before.map(|read_before| modelled(Cache::Warm { read_before }));
                let taken = match (self.settings.clock, &warm) {
                    (Clock::Warm, Some(warm)) => warm,
                    _ => &cold,
                };
                self.spend(request.stream, taken.microseconds);
                self.pending = fault_code(&report.outcome);
                self.call_output.printed.push_str(&report.printed);
                if !self.settings.counters {
                    report.counters = ptx::report::Counters::default();
                }
                let times = matches!(report.outcome, Outcome::Completed).then_some((cold, warm));
                self.journal.record(JournalEntry::ran(report, times));
                Ok(())
            }
            Err(error) => {
                let name = self.function_name(request.function)?;
                self.call_output.remarks.push(format!("failed to {error}"));
                let code = match error {
                    LaunchError::Unsupported { .. } => Code::NOT_SUPPORTED,
                    LaunchError::UnknownKernel => Code::INVALID_HANDLE,
                    LaunchError::Invalid { .. } => Code::INVALID_VALUE,
                    LaunchError::CooperativeTooLarge { .. } => Code::COOPERATIVE_LAUNCH_TOO_LARGE,
                };
                self.journal.record(JournalEntry::refused(RefusedLaunch {
                    kernel: name,
                    grid: request.dimensions.grid,
                    block: request.dimensions.block,
                    shared_bytes: footprint.shared_bytes,
                    error: &error,
                }));
                Err(code)
            }
        }
    }

    /// Checks a launch without executing it.
    ///
    /// # Errors
    /// As [`Self::launch`], except for instructions that the emulated GPU does not implement.
    pub fn check_kernel(&self, request: &LaunchRequest<'_>) -> Result<(), Code> {
        self.usable_context()?;
        self.check_resources(request).map(|_| ())
    }

    /// Checks that the device has the resources for a launch. Returns the resources of one block, and the number of
    /// blocks that are resident at once.
    fn check_resources(&self, request: &LaunchRequest<'_>) -> Result<(Footprint, u32), Code> {
        let footprint = self.check_launch(request)?;
        let occupancy = model::occupancy(footprint, &self.device.limits);
        let resident = occupancy.blocks_per_multiprocessor;
        if resident == 0 {
            return Err(Code::LAUNCH_OUT_OF_RESOURCES);
        }
        let resident_blocks = resident.saturating_mul(self.device.multiprocessors);
        let grid = request.dimensions.grid.iter();
        let blocks: u64 = grid.map(|&n| u64::from(n)).product();
        if request.cooperative && blocks > u64::from(resident_blocks) {
            return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
        }
        Ok((footprint, resident_blocks))
    }

    /// Checks dimensions and resources, and returns the resources of one block.
    fn check_launch(&self, request: &LaunchRequest<'_>) -> Result<Footprint, Code> {
        let function = self.known_function(request.function)?;
        let info = self.kernel_info(function)?;
        let limits = &self.device.limits;
        let Dimensions { grid, block } = request.dimensions;
        let within = |asked: [u32; 3], most: [u32; 3]| {
            asked
                .iter()
                .zip(most)
                .all(|(&asked, most)| (1..=most).contains(&asked))
        };
        if !within(grid, limits.grid) || !within(block, limits.block) {
            return Err(Code::INVALID_VALUE);
        }
        // The product cannot overflow: three axes of at most 1024 each fit 32 bits.
        let threads: u32 = block.iter().product();
        if threads > limits.threads_per_block.min(info.max_threads)
            || info.required_threads.is_some_and(|wanted| wanted != block)
            || request.dynamic_shared > function.max_dynamic_shared
            || request.parameters.len() != info.param_bytes as usize
        {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Footprint {
            threads,
            registers: self.registers_in_block(&info.name, info.registers_estimate, threads),
            shared_bytes: info.static_shared + request.dynamic_shared,
        })
    }

    /// Registers per thread: the number that the real compiler reported, else the estimate from the text.
    pub(super) fn registers_of(&self, kernel: &str, estimate: u32) -> u32 {
        let limit = self.device.limits.registers_per_thread;
        match self.settings.registers.get(kernel) {
            Some(&registers) => registers,
            None if estimate == 0 => ASSUMED_REGISTERS,
            None => estimate.clamp(16, limit),
        }
    }

    /// As [`Self::registers_of`], limited to what a block of this many threads can have. An estimate never refuses a
    /// launch, because a compiler would have used fewer registers or reported an error.
    fn registers_in_block(&self, kernel: &str, estimate: u32, threads: u32) -> u32 {
        let registers = self.registers_of(kernel, estimate);
        if self.settings.registers.contains_key(kernel) {
            return registers;
        }
        // Registers are allocated to whole warps, in steps of eight per thread.
        let lanes = threads.max(1).next_multiple_of(32);
        let fitting = self.device.limits.registers_per_block / lanes / 8 * 8;
        registers.min(fitting.max(8))
    }

    /// Occupancy of a function with blocks of this many threads and this much dynamic shared memory.
    ///
    /// # Errors
    /// When the handle is stale or the block is empty.
    pub fn occupancy(
        &self,
        function: FunctionHandle,
        threads: u32,
        dynamic_shared: u64,
    ) -> Result<Occupancy, Code> {
        self.usable_context()?;
        let info = self.kernel_info(self.known_function(function)?)?;
        if threads == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let dynamic = u32::try_from(dynamic_shared).map_err(|_| Code::INVALID_VALUE)?;
        let mut occupancy = model::occupancy(
            Footprint {
                threads,
                registers: self.registers_in_block(&info.name, info.registers_estimate, threads),
                shared_bytes: info.static_shared.saturating_add(dynamic),
            },
            &self.device.limits,
        );
        if threads > self.device.limits.threads_per_block.min(info.max_threads) {
            occupancy.blocks_per_multiprocessor = 0;
        }
        Ok(occupancy)
    }

    /// Most dynamic shared memory in bytes that a block can have while `blocks` of them are resident on a
    /// multiprocessor.
    ///
    /// # Errors
    /// When the handle is stale, or that many blocks of that many threads do not fit.
    pub fn available_shared(
        &self,
        function: FunctionHandle,
        blocks: u32,
        threads: u32,
    ) -> Result<u64, Code> {
        let without = self.occupancy(function, threads, 0)?;
        if blocks == 0 || blocks > without.blocks_per_multiprocessor {
            return Err(Code::INVALID_VALUE);
        }
        let info = self.kernel_info(self.known_function(function)?)?;
        let limits = &self.device.limits;
        let share = limits.shared_per_multiprocessor / blocks / limits.shared_granularity
            * limits.shared_granularity;
        let per_block = share
            .saturating_sub(limits.shared_reserved_per_block)
            .min(limits.shared_per_block_optin);
        Ok(u64::from(per_block.saturating_sub(info.static_shared)))
    }
}
