//! What is done to a device around an execution, to show what the execution depends on and must
//! not: garbage in shared memory, registers and stacks before it, and blocks of our own beside it
//! that occupy half of the multiprocessors and rewrite memory between its buffers.
//!
//! On a device that proves initialisation and bounds this adds nothing and must change nothing. The
//! module knows no plan and no tensor.

use domain::role::MOST_STACK_BYTES;

use crate::driver::{self, Allocation, DriverError, Gpu, Kernel, Module, Shape, Shared, Stream};
use crate::role_error::RoleError;

/// The kernels, to be compiled for the device's architecture.
pub const SOURCE: &str = include_str!("disturb/disturb.cu");

/// Threads of a block that leaves garbage: as many as can hold all of a multiprocessor's registers.
const THREADS: u32 = 1024;
/// Words that each of them holds, as the source has it.
const HELD: u32 = 40;
/// Blocks for each multiprocessor: the second ones find those that the first ones missed.
const PER_MULTIPROCESSOR: u32 = 2;
/// On the emulated device a few blocks show that the kernels run; nothing of theirs is left there.
const EMULATED_BLOCKS: u32 = 2;
/// Threads of a block that fills stacks: few enough for any multiprocessor to be filled with them.
const STACK_THREADS: u32 = 512;
/// Bytes of the stacks that there are kernels to fill.
const STACKS: [u32; 5] = [256, 1024, 4096, 16384, MOST_STACK_BYTES];
/// Threads of a block that keeps company.
const COMPANY_THREADS: u32 = 256;
/// Words that are rewritten.
const COMPANY_WORDS: u32 = 1 << 16;
/// Turns after which company leaves by itself: some seconds of a device, so that nothing hangs where
/// work does not run side by side.
const TURNS: u64 = 1 << 20;
/// The emulated device finishes each launch before the next.
const EMULATED_TURNS: u64 = 2;

/// Disturbs one device.
#[derive(Debug)]
pub struct Disturber<'g> {
    gpu: &'g Gpu,
    module: Module,
    /// One word for each block that leaves garbage.
    marks: Allocation,
    multiprocessors: u32,
    /// Threads that are resident at once.
    threads: u32,
    /// Dynamic shared memory of a block at most, bytes.
    shared_bytes: u32,
    /// Whether work on a second stream has been found not to run beside the first.
    alone: bool,
}

/// Blocks that run beside whatever is launched meanwhile.
#[derive(Debug)]
pub struct Company {
    stream: Stream,
    leave: Shared,
    gone: Shared,
    /// What is rewritten; as long as they run it must stay.
    _memory: Allocation,
}

impl<'g> Disturber<'g> {
    /// Loads our kernels' image.
    ///
    /// # Errors
    /// A [`RoleError`]: nothing here is a candidate's.
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
            alone: false,
        })
    }

    /// Fills shared memory and registers of every multiprocessor with words that depend on the
    /// seed, and so many bytes of the stack of each of its threads, and waits for it.
    ///
    /// # Errors
    /// A [`RoleError`] where the driver refuses, or where the words are not those of the seed.
    pub fn leave_garbage(&mut self, seed: u64, stack_bytes: u32) -> Result<(), RoleError> {
        let fault = |refusal: DriverError| refusal.into_role_error("leave garbage in the device");
        self.fill_stacks(seed, stack_bytes)
            .and_then(|()| self.scatter(seed, self.blocks()))
            .and_then(|()| self.gpu.synchronize())
            .map_err(fault)?;
        let mut mark = [0; size_of::<u32>()];
        self.marks.read(0, &mut mark).map_err(fault)?;
        self.forget_launches()?;
        let words = self.shared_bytes / 4;
        if u32::from_le_bytes(mark) == mark_of_the_first_block(seed, words) {
            Ok(())
        } else {
            Err(RoleError::Job(
                "the garbage that was left in shared memory is not what was written".to_owned(),
            ))
        }
    }

    /// Starts blocks beside whatever follows. None where work on two streams does not run side by
    /// side, which is tried first.
    ///
    /// # Errors
    /// A [`RoleError`] where the driver refuses.
    pub fn accompany(&mut self, seed: u64) -> Result<Option<Company>, RoleError> {
        let fault =
            |refusal: DriverError| refusal.into_role_error("run blocks beside a candidate's");
        let grid = self.multiprocessors / 2;
        if self.alone || grid == 0 {
            return Ok(None);
        }
        let company = self.start(seed, grid).map_err(fault)?;
        // Something of ours, on the candidate's stream: it must end while the company is there.
        self.scatter(seed, 1)
            .and_then(|()| driver::settle())
            .map_err(fault)?;
        let beside = !company.is_gone();
        self.forget_launches()?;
        if beside {
            return Ok(Some(company));
        }
        self.alone = true;
        company.leave().map_err(fault)?;
        Ok(None)
    }

    fn blocks(&self) -> u32 {
        if self.gpu.emulator().is_some() {
            EMULATED_BLOCKS
        } else {
            PER_MULTIPROCESSOR * self.multiprocessors
        }
    }

    /// A stack lies in memory that the driver sets aside for the threads that can be resident, once as
    /// much as the most that was asked for (CUDA Driver API, `CU_CTX_LMEM_RESIZE_TO_MAX`), and
    /// begins at its end: whoever has a longer one covers that of a shorter.
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

    fn scatter(&mut self, seed: u64, blocks: u32) -> Result<(), DriverError> {
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

    fn start(&self, seed: u64, grid: u32) -> Result<Company, DriverError> {
        let bytes = COMPANY_WORDS as usize * size_of::<u32>();
        let company = Company {
            stream: Stream::new()?,
            leave: Shared::pinned()?,
            gone: Shared::pinned()?,
            _memory: Allocation::new(bytes)?,
        };
        let turns = if self.gpu.emulator().is_some() {
            EMULATED_TURNS
        } else {
            TURNS
        };
        let kernel = self.entry("keep_company")?;
        let arguments = [
            seed.to_le_bytes().to_vec(),
            company._memory.base().to_le_bytes().to_vec(),
            COMPANY_WORDS.to_le_bytes().to_vec(),
            company.leave.address().to_le_bytes().to_vec(),
            company.gone.address().to_le_bytes().to_vec(),
            turns.to_le_bytes().to_vec(),
        ];
        let shape = self.shape(grid, COMPANY_THREADS);
        kernel.launch_beside(shape, &arguments, &company.stream)?;
        Ok(company)
    }

    /// An entry that may have all the shared memory that a block can.
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

    /// Takes our launches out of the emulated device's account, which is to be the candidate's
    /// alone.
    fn forget_launches(&self) -> Result<(), RoleError> {
        let Some(emulator) = self.gpu.emulator() else {
            return Ok(());
        };
        let reports = emulator.take()?;
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

impl Company {
    /// Whether it has ended, by being told or by itself.
    pub fn is_gone(&self) -> bool {
        self.gone.value() != 0
    }

    /// Tells it to leave and waits for that.
    ///
    /// # Errors
    /// The driver's error, which may be the error of something else on the device.
    pub fn leave(mut self) -> Result<(), DriverError> {
        self.leave.set(1);
        self.stream.synchronize()
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        self.leave.set(1);
        // Its memory must not go before it. An error is that of whatever was beside it.
        let _ = self.stream.synchronize();
    }
}

/// What the first block must have answered, worked out here.
fn mark_of_the_first_block(seed: u64, words: u32) -> u32 {
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
