//! Measurement of the multiprocessors' clock frequency. A kernel counts cycles while the device's nanosecond timer
//! advances. Times can be converted to cycles with the result, even where the management library reports no clock.
//!
//! The module does not know what is timed. Its numbers come from a process that ran a candidate, so they are as
//! untrusted as its times.

use crate::driver::{Allocation, DriverError, Gpu, Module, Shape};
use crate::execute::ExecuteError;

/// Duration of a measurement, nanoseconds. The device's timer may advance in steps of a microsecond; counting begins
/// and ends with such a step.
const SPAN_NS: u64 = 50_000;
/// Duration of a measurement on the emulated device, where the timer is exact, nanoseconds.
const EMULATED_SPAN_NS: u64 = 1_000;
/// Most iterations of the wait, so that it ends even if the device's timer does not advance.
const MAX_ITERATIONS: u32 = 1 << 22;
/// Size of a reading in bytes: nanoseconds, then cycles.
const BYTES: usize = 16;
/// Most readings that are kept until they are read.
const ROOM: usize = 1 << 14;
/// Error codes of a driver that cannot compile this PTX. They say nothing about the device.
const CANNOT_COMPILE: [u32; 5] = [209, 218, 221, 222, 223];

const KERNEL: &str = "
.version 7.0
.target sm_70
.address_size 64
.visible .entry count_cycles(.param .u64 out, .param .u64 span, .param .u32 turns) {
.reg .pred %p<4>; .reg .b32 %r<3>; .reg .b64 %rd<10>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [span]; ld.param.u32 %r1, [turns];
mov.u64 %rd3, %globaltimer;
STEP:
mov.u64 %rd4, %globaltimer; mov.u64 %rd5, %clock64;
sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;
setp.eq.and.u64 %p2, %rd4, %rd3, %p1;
@%p2 bra STEP;
SPAN:
mov.u64 %rd6, %globaltimer; mov.u64 %rd7, %clock64;
sub.u64 %rd8, %rd6, %rd4;
sub.u32 %r1, %r1, 1; setp.gt.s32 %p1, %r1, 0;
setp.lt.and.u64 %p2, %rd8, %rd2, %p1;
@%p2 bra SPAN;
sub.u64 %rd9, %rd7, %rd5;
st.global.u64 [%rd1], %rd8; st.global.u64 [%rd1+8], %rd9;
ret;
}
";

/// Measures the clock frequency of one device.
#[derive(Debug)]
pub struct ClockMeter {
    module: Module,
    readings: Allocation,
    /// Number of readings since they were last read.
    started: usize,
    span_ns: u64,
}

impl ClockMeter {
    /// Loads the kernel. None if the driver cannot compile it.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(gpu: &Gpu) -> Result<Option<Self>, DriverError> {
        let module = match Module::load(KERNEL.as_bytes()) {
            Err(refusal) if CANNOT_COMPILE.contains(&refusal.code) => return Ok(None),
            loaded => loaded?,
        };
        Ok(Some(Self {
            module,
            readings: Allocation::new(ROOM * BYTES)?,
            started: 0,
            span_ns: if gpu.emulator().is_some() {
                EMULATED_SPAN_NS
            } else {
                SPAN_NS
            },
        }))
    }

    /// Starts a reading after everything launched so far. If there is no room for another reading, its result is
    /// unknown.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch; a role error where the emulated device does
    /// not remove this launch from its report.
    pub fn start(&mut self, gpu: &Gpu) -> Result<(), ExecuteError> {
        let index = self.started;
        self.started += 1;
        if index >= ROOM {
            return Ok(());
        }
        self.launch(index)?;
        if let Some(emulator) = gpu.emulator() {
            emulator.take_reports()?;
        }
        Ok(())
    }

    fn launch(&self, index: usize) -> Result<(), DriverError> {
        let kernel = self.module.kernel("count_cycles")?;
        let arguments = [
            (self.readings.base() + (index * BYTES) as u64)
                .to_le_bytes()
                .to_vec(),
            self.span_ns.to_le_bytes().to_vec(),
            MAX_ITERATIONS.to_le_bytes().to_vec(),
        ];
        let shape = Shape {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            cooperative: false,
        };
        kernel.launch(shape, &arguments)
    }

    /// The frequency of each reading since the last call, megahertz; none for a reading that failed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn read(&mut self) -> Result<Vec<Option<f64>>, DriverError> {
        let started = std::mem::take(&mut self.started);
        let mut bytes = vec![0; started.min(ROOM) * BYTES];
        self.readings.read(0, &mut bytes)?;
        let (readings, _) = bytes.as_chunks::<8>();
        let clocks = readings.chunks_exact(2).map(|reading| {
            let [nanoseconds, cycles] = [reading[0], reading[1]].map(u64::from_le_bytes);
            // A measurement that was given up has no result.
            (nanoseconds >= self.span_ns).then(|| cycles as f64 * 1e3 / nanoseconds as f64)
        });
        let mut clocks = clocks.collect::<Vec<_>>();
        clocks.resize(started, None);
        Ok(clocks)
    }
}
