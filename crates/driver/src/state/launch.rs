//! Launches: what is refused before the first instruction, how a fault becomes an error, and what is written down.

use std::collections::BTreeMap;
use std::thread;

use ptx::model::{self, Cache, Footprint, Occupancy, Shape};
use ptx::report::Outcome;
use ptx::{Checks, Fragments, LaunchConfig, LaunchError, Schedule};
use serde::Deserialize;

use crate::code::Code;
use crate::emulator::{Entry, Refused};
use crate::handle::{FunctionHandle, StreamHandle};

use super::{Driver, KernelWork, Work};

/// Registers per thread where neither the caller nor the PTX text says anything.
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
    /// Where it is enqueued.
    pub stream: StreamHandle,
    /// The parameter block.
    pub parameters: &'a [u8],
    /// Whether all blocks must be resident at once.
    pub cooperative: bool,
}

impl LaunchRequest<'_> {
    /// The same launch, to be done later.
    fn without_stream(&self) -> KernelWork {
        KernelWork {
            function: self.function,
            dimensions: self.dimensions,
            dynamic_shared: self.dynamic_shared,
            parameters: self.parameters.to_vec(),
            cooperative: self.cooperative,
        }
    }
}

/// How kernels are executed and checked; changed by the emulator's own requests only.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The order of execution.
    pub schedule: Schedule,
    /// The layout of `wmma` fragments.
    pub fragments: Fragments,
    /// What is proved.
    pub checks: Checks,
    /// Thread instructions after which a launch counts as hanging.
    pub budget: Option<u64>,
    /// Host threads that may run blocks.
    pub threads: usize,
    /// Whether reports carry counters.
    pub counters: bool,
    /// Blocks of a launch that run at most, the rest being taken to count the same.
    pub sample: Option<u64>,
    /// Bytes that are taken to have been read just before each launch, all that it uses among them. With it launches
    /// are modelled a second time, with what of that the second level cache holds.
    pub read_before: Option<u64>,
    /// Which of the two times a launch takes.
    pub clock: Clock,
    /// Registers per thread of kernels, by name, as the real compiler reported them.
    pub registers: BTreeMap<String, u32>,
    /// Bytes that each thread's spills store and load, by kernel, as the real compiler reported them.
    pub spills: BTreeMap<String, u32>,
}

/// Which modelled time moves a stream's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// That of a launch which finds an empty second level cache.
    Cold,
    /// That of a launch which finds there what was read before; the other where nobody said what was.
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

/// The error a fault of the kernel turns into, if it is one.
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
    /// Runs a kernel. A fault is reported by the next synchronising call, not by this one.
    ///
    /// # Errors
    /// For handles, dimensions or resources the kernel or the device cannot be launched with; and when the kernel
    /// holds an instruction the emulated GPU does not have.
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
                self.said.printed.push_str(&report.printed);
                if !self.settings.counters {
                    report.counters = ptx::report::Counters::default();
                }
                let times = matches!(report.outcome, Outcome::Completed).then_some((cold, warm));
                self.journal.record(Entry::ran(report, times));
                Ok(())
            }
            Err(error) => {
                let name = self.function_name(request.function)?;
                self.said.remarks.push(format!("failed to {error}"));
                let code = match error {
                    LaunchError::Unsupported { .. } => Code::NOT_SUPPORTED,
                    LaunchError::UnknownKernel => Code::INVALID_HANDLE,
                    LaunchError::Invalid { .. } => Code::INVALID_VALUE,
                    LaunchError::CooperativeTooLarge { .. } => Code::COOPERATIVE_LAUNCH_TOO_LARGE,
                };
                self.journal.record(Entry::refused(Refused {
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

    /// Checks a launch without launching.
    ///
    /// # Errors
    /// What [`Self::launch`] would refuse it with, but for instructions that the emulated GPU does not have.
    pub fn check_kernel(&self, request: &LaunchRequest<'_>) -> Result<(), Code> {
        self.usable()?;
        self.check_resources(request).map(|_| ())
    }

    /// Checks that the device has room for a launch; answers with what one block takes, and how many of them are
    /// resident at once.
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

    /// Checks dimensions and resources; answers with what one block takes.
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
        // Three axes of at most 1024 each fit 32 bits.
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

    /// Registers per thread: what the real compiler said, else the estimate from the text.
    pub(super) fn registers_of(&self, kernel: &str, estimate: u32) -> u32 {
        let limit = self.device.limits.registers_per_thread;
        match self.settings.registers.get(kernel) {
            Some(&registers) => registers,
            None if estimate == 0 => ASSUMED_REGISTERS,
            None => estimate.clamp(16, limit),
        }
    }

    /// As [`Self::registers_of`], for a block of so many threads. No launch is refused for an estimate: a compiler
    /// would have found a way, or had said so.
    fn registers_in_block(&self, kernel: &str, estimate: u32, threads: u32) -> u32 {
        let registers = self.registers_of(kernel, estimate);
        if self.settings.registers.contains_key(kernel) {
            return registers;
        }
        // Warps get whole registers of all their lanes, in steps of eight.
        let lanes = threads.max(1).next_multiple_of(32);
        let fitting = self.device.limits.registers_per_block / lanes / 8 * 8;
        registers.min(fitting.max(8))
    }

    /// Residency of a function's blocks of this many threads and this much dynamic shared memory.
    ///
    /// # Errors
    /// When the handle is stale or the block is empty.
    pub fn occupancy(
        &self,
        function: FunctionHandle,
        threads: u32,
        dynamic_shared: u64,
    ) -> Result<Occupancy, Code> {
        self.usable()?;
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

    /// Dynamic shared memory that a block can have while `blocks` of them are resident on a multiprocessor.
    ///
    /// # Errors
    /// When the handle is stale, or not so many blocks of so many threads fit.
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
