//! Disturbances of a device around an execution, which show dependencies that an execution must not have: garbage in
//! shared memory, registers and stacks before it, and other blocks beside it that occupy half of the multiprocessors
//! and rewrite memory between its buffers.
//!
//! On a device that detects uninitialised reads and out-of-bounds accesses this adds no finding, and it must never
//! change a correct result. The module knows no plan and no tensor.

use domain::role::MOST_STACK_BYTES;

use crate::driver::{
    self, Allocation, DriverError, Gpu, Kernel, Module, Shape, SharedWord, Stream,
};
use crate::role_error::RoleError;

/// The kernels, to be compiled for the device's architecture.
pub const SOURCE: &str = include_str!("disturb/disturb.cu");

/// Threads per block of the kernel that leaves garbage: enough to occupy all of a multiprocessor's registers.
const THREADS: u32 = 1024;
/// Words that each of these threads holds in registers, as in `disturb.cu`.
const HELD: u32 = 40;
/// Blocks per multiprocessor, so that second blocks run on multiprocessors that the first ones missed.
const PER_MULTIPROCESSOR: u32 = 2;
/// Blocks on the emulated device, where no garbage is left: a few show that the kernels run.
const EMULATED_BLOCKS: u32 = 2;
/// Threads per block of the kernel that fills stacks: few enough to fill any multiprocessor with such blocks.
const STACK_THREADS: u32 = 512;
/// Stack sizes in bytes for which there is a kernel.
const STACKS: [u32; 5] = [256, 1024, 4096, 16384, MOST_STACK_BYTES];
/// Threads per block of the concurrent kernel.
const CONCURRENT_THREADS: u32 = 256;
/// Number of words that the concurrent kernel rewrites.
const CONCURRENT_WORDS: u32 = 1 << 16;
/// Iterations after which the concurrent kernel ends by itself: some seconds on a device, so that nothing hangs on
/// devices that do not execute two streams concurrently.
const MAX_ITERATIONS: u64 = 1 << 20;
/// Iterations of the concurrent kernel on the emulated device, which finishes each launch before the next.
const EMULATED_MAX_ITERATIONS: u64 = 2;

/// Disturbs one device.
#[derive(Debug)]
pub struct Disturber<'g> {
    gpu: &'g Gpu,
    module: Module,
    /// One word for each block that leaves garbage.
    marks: Allocation,
    multiprocessors: u32,
    /// Number of threads that are resident at once.
    threads: u32,
    /// Most dynamic shared memory of a block, bytes.
    shared_bytes: u32,
    /// True once the device has been found not to execute a second stream concurrently with the first.
    lacks_concurrency: bool,
}

/// Blocks that run concurrently with the launches that follow.
#[derive(Debug)]
pub struct ConcurrentBlocks {
    stream: Stream,
    stop: SharedWord,
    ended_flag: SharedWord,
    /// The memory that they rewrite; it must exist as long as they run.
    _memory: Allocation,
}

impl<'g> Disturber<'g> {
    /// Loads the image of the disturbing kernels.
    ///
    /// # Errors
    /// A [`RoleError`], because no candidate is involved.
    pub fn new(gpu: &'g Gpu, image: &[u8]) -> Result<Self, RoleError> {
        let limits = gpu.describe()?.limits;
        let fault = |refusal: DriverError| refusal.into_role_error("prepare to disturb the device");
        let blocks = PER_MULTIPROCESSOR * limits.sm_count.max(EMULATED_BLOCKS);
        Ok(Self {
            gpu,
            module: Module::load(image).map_err(fault)?,
            marks: Allocation::new(blocks as usize * size_of::<u32>()).map_err(fault)?,
            multiprocessors: limits.sm_count,
            threads: limits.sm_count * limits.threads_per_sm,
            shared_bytes: limits.shared_per_block_optin,
            lacks_concurrency: false,
        })
    }

    /// Fills shared memory and registers of every multiprocessor, and `stack_bytes` bytes of each thread's stack,
    /// with words that depend on the seed, and waits for the end.
    ///
    /// # Errors
    /// A [`RoleError`] where the driver refuses, or where the words that were read back do not match the seed.
    pub fn leave_garbage(&mut self, seed: u64, stack_bytes: u32) -> Result<(), RoleError> {
        let fault = |refusal: DriverError| refusal.into_role_error("leave garbage in the device");
        self.fill_stacks(seed, stack_bytes)
            .and_then(|()| self.launch_garbage(seed, self.blocks()))
            .and_then(|()| self.gpu.synchronize())
            .map_err(fault)?;
        let mut mark = [0; size_of::<u32>()];
        self.marks.read(0, &mut mark).map_err(fault)?;
        self.forget_launches()?;
        let words = self.shared_bytes / 4;
        if u32::from_le_bytes(mark) == first_block_mark(seed, words) {
            Ok(())
        } else {
            Err(RoleError::Job(
                "the garbage that was left in shared memory is not what was written".to_owned(),
            ))
        }
    }

    /// Starts blocks that run concurrently with the launches that follow. None if the device does not execute two
    /// streams concurrently, which is tested first.
    ///
    /// # Errors
    /// A [`RoleError`] where the driver refuses.
    pub fn start_concurrent_blocks(
        &mut self,
        seed: u64,
    ) -> Result<Option<ConcurrentBlocks>, RoleError> {
        let fault =
            |refusal: DriverError| refusal.into_role_error("run blocks beside a candidate's");
        let grid = self.multiprocessors / 2;
        if self.lacks_concurrency || grid == 0 {
            return Ok(None);
        }
        let concurrent = self.start(seed, grid).map_err(fault)?;
        // A launch of this module on the candidate's stream must end while the concurrent blocks are still running.
        self.launch_garbage(seed, 1)
            .and_then(|()| driver::synchronize_own_stream())
            .map_err(fault)?;
        let beside = !concurrent.have_ended();
        self.forget_launches()?;
        if beside {
            return Ok(Some(concurrent));
        }
        self.lacks_concurrency = true;
        concurrent.stop().map_err(fault)?;
        Ok(None)
    }

    fn blocks(&self) -> u32 {
        if self.gpu.emulator().is_some() {
            EMULATED_BLOCKS
        } else {
            PER_MULTIPROCESSOR * self.multiprocessors
        }
    }

    /// Fills the stacks of all threads that can be resident. The driver allocates local memory once for all such
    /// threads, as much as the largest request so far (CUDA Driver API, `CU_CTX_LMEM_RESIZE_TO_MAX`). A stack begins
    /// at the end of its part, so a longer stack covers that of a shorter one.
    fn fill_stacks(&self, seed: u64, bytes: u32) -> Result<(), DriverError> {
        let enough = |stack: &u32| bytes > 0 && *stack >= bytes;
        let Some(bytes) = STACKS.into_iter().find(enough) else {
            return Ok(());
        };
        let blocks = match self.gpu.emulator() {
            Some(_) => EMULATED_BLOCKS,
            None => PER_MULTIPROCESSOR * self.threads.div_ceil(STACK_THREADS),
        };
        let kernel = self.module.kernel(&format!("leave_stack_{bytes}"))?;
        let shape = Shape {
            shared_bytes: 0,
            ..self.shape(blocks, STACK_THREADS)
        };
        kernel.launch(shape, &[seed.to_le_bytes().to_vec()])
    }

    fn launch_garbage(&mut self, seed: u64, blocks: u32) -> Result<(), DriverError> {
        let bytes = blocks as usize * size_of::<u32>();
        self.marks.fill(0, bytes, 0)?;
        let kernel = self.entry("leave_garbage")?;
        let arguments = [
            seed.to_le_bytes().to_vec(),
            (self.shared_bytes / 4).to_le_bytes().to_vec(),
            self.marks.base().to_le_bytes().to_vec(),
        ];
        let shape = self.shape(blocks, THREADS);
        kernel.launch(shape, &arguments)
    }

    fn start(&self, seed: u64, grid: u32) -> Result<ConcurrentBlocks, DriverError> {
        let bytes = CONCURRENT_WORDS as usize * size_of::<u32>();
        let concurrent = ConcurrentBlocks {
            stream: Stream::new()?,
            stop: SharedWord::pinned()?,
            ended_flag: SharedWord::pinned()?,
            _memory: Allocation::new(bytes)?,
        };
        let turns = if self.gpu.emulator().is_some() {
            EMULATED_MAX_ITERATIONS
        } else {
            MAX_ITERATIONS
        };
        let kernel = self.entry("keep_company")?;
        let arguments = [
            seed.to_le_bytes().to_vec(),
            concurrent._memory.base().to_le_bytes().to_vec(),
            CONCURRENT_WORDS.to_le_bytes().to_vec(),
            concurrent.stop.address().to_le_bytes().to_vec(),
            concurrent.ended_flag.address().to_le_bytes().to_vec(),
            turns.to_le_bytes().to_vec(),
        ];
        let shape = self.shape(grid, CONCURRENT_THREADS);
        kernel.launch_beside(shape, &arguments, &concurrent.stream)?;
        Ok(concurrent)
    }

    /// A kernel that may use the largest dynamic shared memory of a block.
    fn entry(&self, name: &str) -> Result<Kernel<'_>, DriverError> {
        let kernel = self.module.kernel(name)?;
        kernel.allow_shared(self.shared_bytes)?;
        Ok(kernel)
    }

    fn shape(&self, blocks: u32, threads: u32) -> Shape {
        Shape {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes: self.shared_bytes,
            cooperative: false,
        }
    }

    /// Removes this module's launches from the emulated device's report, which must contain the candidate's launches
    /// only.
    fn forget_launches(&self) -> Result<(), RoleError> {
        let Some(emulator) = self.gpu.emulator() else {
            return Ok(());
        };
        let reports = emulator.take_reports()?;
        let found = reports.iter().flat_map(|report| &report.findings).next();
        match found {
            None => Ok(()),
            Some(finding) => Err(RoleError::Job(format!(
                "a kernel that disturbs is wrong itself: {}",
                finding.message
            ))),
        }
    }
}

impl ConcurrentBlocks {
    /// Returns true if the blocks have ended, on request or by themselves.
    pub fn have_ended(&self) -> bool {
        self.ended_flag.value() != 0
    }

    /// Makes the blocks end and waits for it.
    ///
    /// # Errors
    /// The driver's error, which may be the error of another launch on the device.
    pub fn stop(mut self) -> Result<(), DriverError> {
        self.stop.set(1);
        self.stream.synchronize()
    }
}

impl Drop for ConcurrentBlocks {
    fn drop(&mut self) {
        self.stop.set(1);
        // The blocks must end before their memory is freed. An error belongs to the launches beside them.
        let _ = self.stream.synchronize();
    }
}

/// The value that the first block must have written, computed on the host.
fn first_block_mark(seed: u64, words: u32) -> u32 {
    let next = |state: u32| state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both halves of the seed are used"
    )]
    let mixed = seed as u32 ^ (seed >> 32) as u32;
    let mut shared = vec![0_u32; words as usize];
    for thread in 0..THREADS.min(words) {
        let mut state = mixed ^ thread.wrapping_mul(2_654_435_761);
        for word in shared
            .iter_mut()
            .skip(thread as usize)
            .step_by(THREADS as usize)
        {
            state = next(state);
            *word = state;
        }
    }
    let stored = |at: u32| shared[(at % words) as usize];
    (0..THREADS)
        .map(|thread| {
            let factor = stored(thread + 1) | 1;
            (0..HELD).fold(0_u32, |sum, i| {
                (sum ^ stored(thread + i * THREADS)).wrapping_mul(factor)
            })
        })
        .fold(0, |all, sum| all ^ sum)
}
