//! Preparation of the second level cache before a timed batch: flushed by overwriting other memory,
//! or warmed by reading the batch's buffers.
//!
//! No code of a contender takes part, so that the state is the same for all contenders. Reading changes no buffer.

use crate::driver::{Allocation, DriverError, Gpu, Module, Shape};
use crate::execute::ExecuteError;
use crate::role_error::RoleError;

/// Size of the memory that is overwritten, in multiples of the cache.
const FLUSHES: u64 = 2;
/// Threads per block of the reading kernel.
const THREADS: u32 = 256;
/// Most blocks of the reading kernel: enough to keep any device busy.
const BLOCKS: u64 = 4096;
/// Size of a sector in bytes, the smallest unit that the cache holds.
const SECTOR: u64 = 32;
/// Time for which the device is kept busy per queued launch, nanoseconds. An estimate: queueing a launch takes two to
/// five microseconds.
const QUEUEING_NS: u64 = 5_000;
/// Shortest time for which the device is kept busy, nanoseconds.
const LEAST_NS: u64 = 50_000;
/// Shortest busy time on the emulated device, where nothing is queued, nanoseconds.
const EMULATED_NS: u64 = 1_000;
/// Most iterations of the wait, so that it ends even if the device's clock does not advance.
const MAX_ITERATIONS: u32 = 1 << 22;
/// Error codes of a driver that cannot compile PTX.
const CANNOT_COMPILE: [u32; 5] = [209, 218, 221, 222, 223];

/// `read_all` reads one byte of every sector and the last byte, because the first byte may lie in the middle of its
/// sector. `hold` keeps the device busy for a given time.
const KERNELS: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry read_all(.param .u64 from, .param .u64 bytes) {
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [bytes];
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
mad.lo.u32 %r5, %r1, %r2, %r3; mul.lo.u32 %r6, %r4, %r2;
mul.wide.u32 %rd3, %r5, 32; mul.wide.u32 %rd4, %r6, 32;
NEXT:
setp.ge.u64 %p1, %rd3, %rd2;
@%p1 bra LAST;
add.u64 %rd5, %rd1, %rd3;
ld.volatile.global.u8 %r7, [%rd5];
add.u64 %rd3, %rd3, %rd4;
bra NEXT;
LAST:
add.u64 %rd5, %rd1, %rd2;
ld.volatile.global.u8 %r7, [%rd5+-1];
ret;
}
.visible .entry hold(.param .u64 span, .param .u32 turns) {
.reg .pred %p<3>; .reg .b32 %r<2>; .reg .b64 %rd<5>;
ld.param.u64 %rd1, [span]; ld.param.u32 %r1, [turns];
mov.u64 %rd2, %globaltimer;
AGAIN:
mov.u64 %rd3, %globaltimer;
sub.u64 %rd4, %rd3, %rd2;
sub.u32 %r1, %r1, 1; setp.gt.s32 %p1, %r1, 0;
setp.lt.and.u64 %p2, %rd4, %rd1, %p1;
@%p2 bra AGAIN;
ret;
}
";

/// Memory that is overwritten to evict everything else from the cache.
#[derive(Debug)]
pub struct Flush {
    memory: Allocation,
    bytes: usize,
}

impl Flush {
    /// Allocates the memory for a cache of this many bytes.
    ///
    /// # Errors
    /// A [`RoleError`] where the device has not enough memory.
    pub fn new(l2_bytes: u64) -> Result<Self, RoleError> {
        let bytes = usize::try_from(FLUSHES * l2_bytes)
            .map_err(|_| RoleError::Job("the cache is larger than memory".to_owned()))?;
        let memory = Allocation::new(bytes)
            .map_err(|refusal| refusal.into_role_error("make room to flush the cache"))?;
        Ok(Self { memory, bytes })
    }

    /// Starts to overwrite the memory without waiting for the end.
    ///
    /// # Errors
    /// The driver's error.
    pub fn begin(&mut self) -> Result<(), DriverError> {
        self.memory.fill(0, self.bytes, 0x5a)
    }
}

/// Reads memory so that the cache holds it.
#[derive(Debug)]
pub struct Reader {
    module: Module,
}

impl Reader {
    /// Loads the kernels. Returns `None` if the driver cannot compile PTX.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new() -> Result<Option<Self>, DriverError> {
        match Module::load(KERNELS.as_bytes()) {
            Err(refusal) if CANNOT_COMPILE.contains(&refusal.code) => Ok(None),
            loaded => Ok(Some(Self { module: loaded? })),
        }
    }

    /// Reads ranges in this order, each an address with its size in bytes, and waits for the end.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch; a [`RoleError`] where the emulated device
    /// does not remove these launches from its report.
    pub fn read(&self, gpu: &Gpu, ranges: &[(u64, u64)]) -> Result<(), ExecuteError> {
        let launched = ranges
            .iter()
            .filter(|(_, bytes)| *bytes > 0)
            .try_for_each(|(from, bytes)| self.launch_read(*from, *bytes))
            .and_then(|()| gpu.synchronize());
        forget_launches(gpu)?;
        Ok(launched?)
    }

    /// Keeps the device busy while this many launches are queued after this one.
    ///
    /// # Errors
    /// As of [`Self::read`].
    pub fn hold(&self, gpu: &Gpu, launches: usize) -> Result<(), ExecuteError> {
        let span_ns = match gpu.emulator() {
            Some(_) => EMULATED_NS,
            None => (QUEUEING_NS * launches as u64).max(LEAST_NS),
        };
        let launched = self.launch_hold(span_ns);
        forget_launches(gpu)?;
        Ok(launched?)
    }

    fn launch_read(&self, from: u64, bytes: u64) -> Result<(), DriverError> {
        let kernel = self.module.kernel("read_all")?;
        let blocks = bytes.div_ceil(SECTOR * u64::from(THREADS)).min(BLOCKS);
        let blocks = u32::try_from(blocks).expect("at most as many as are allowed");
        let arguments = [from.to_le_bytes().to_vec(), bytes.to_le_bytes().to_vec()];
        kernel.launch(shape(blocks, THREADS), &arguments)
    }

    fn launch_hold(&self, span_ns: u64) -> Result<(), DriverError> {
        let kernel = self.module.kernel("hold")?;
        let arguments = [
            span_ns.to_le_bytes().to_vec(),
            MAX_ITERATIONS.to_le_bytes().to_vec(),
        ];
        kernel.launch(shape(1, 1), &arguments)
    }
}

fn shape(blocks: u32, threads: u32) -> Shape {
    Shape {
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        shared_bytes: 0,
        cooperative: false,
    }
}

/// Removes this module's launches from the emulated device's report, which must contain the candidate's launches
/// only.
fn forget_launches(gpu: &Gpu) -> Result<(), RoleError> {
    match gpu.emulator() {
        Some(emulator) => emulator.take_reports().map(drop),
        None => Ok(()),
    }
}
