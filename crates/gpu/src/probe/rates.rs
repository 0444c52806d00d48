//! Peak rates of the device: memory bandwidth, throughput of each kind of arithmetic, and the time of an empty
//! launch. Lower bounds of times rest on these, so each is the best of several runs of a kernel that does nothing
//! else.
//!
//! The kernels are generated as PTX, because their inner loops repeat one instruction. From compute capability 9.0
//! on, tensor cores reach their peak with `wgmma` only. There this module reports no rate for them, because a rate
//! that is too low would declare correct times impossible.

use std::collections::BTreeMap;

use domain::statistics::{Arithmetic, Rates};

use crate::driver::{Allocation, DriverError, Gpu, Module, Shape, Stopwatch};

/// Bytes that are read on a GPU with enough memory: many times the size of a cache.
const BYTES: usize = 1 << 30;
/// Bytes that are read on the emulated device, which executes each load.
const EMULATED_BYTES: usize = 32 << 20;
/// Iterations of an arithmetic kernel.
const ROUNDS: u32 = 1000;
const EMULATED_ROUNDS: u32 = 48;
/// Runs of each kernel; the first ones raise the device's clock.
const TRIES: usize = 8;
const EMULATED_TRIES: usize = 1;
const THREADS: u32 = 256;
/// Independent chains of each thread or warp, so that no instruction waits for the previous result.
const CHAINS: usize = 8;
/// Instructions of each chain per iteration.
const LINKS: usize = 16;
/// Multiply-adds of one `mma.m16n8k16`.
const MMA: f64 = 16.0 * 8.0 * 16.0;
/// The first major compute capability whose tensor cores do not reach their peak with `mma`.
const WGMMA: u32 = 9;
/// Error codes of a driver that cannot compile this PTX. They say nothing about the device.
const CANNOT_COMPILE: [u32; 5] = [209, 218, 221, 222, 223];

/// Measures the device; none if its driver cannot compile the kernels.
pub fn rates(gpu: &Gpu) -> Result<Option<Rates>, DriverError> {
    let module = match Module::load(text().as_bytes()) {
        Err(refusal) if CANNOT_COMPILE.contains(&refusal.code) => return Ok(None),
        loaded => loaded?,
    };
    let Ok(device) = gpu.describe() else {
        return Ok(None);
    };
    let bench = RateMeasurement {
        module: &module,
        emulated: gpu.emulator().is_some(),
        multiprocessors: device.limits.sm_count,
        out: Allocation::new(16)?,
    };
    let free = usize::try_from(gpu.free_memory()?).unwrap_or(usize::MAX);
    let mut operations_per_us = BTreeMap::from([
        (Arithmetic::F32, bench.arithmetic("f32", 1.0)?),
        (Arithmetic::F64, bench.arithmetic("f64", 1.0)?),
    ]);
    if device.compute_capability.0 < WGMMA {
        // The 32 lanes of a warp execute the instruction together.
        let each = MMA / 32.0;
        operations_per_us.insert(Arithmetic::F16, bench.arithmetic("mma", each)?);
    }
    Ok(Some(Rates {
        bytes_per_us: bench.memory(free / 4)?,
        operations_per_us,
        launch_us: bench.shortest_time("empty", 1, &[])?,
        l2_bytes: device.l2_bytes as f64,
    }))
}

/// The device with the measuring kernels.
struct RateMeasurement<'a> {
    module: &'a Module,
    emulated: bool,
    multiprocessors: u32,
    out: Allocation,
}

impl RateMeasurement<'_> {
    /// Bandwidth of a kernel that reads a buffer of at most `most` bytes, in bytes per microsecond.
    fn memory(&self, most: usize) -> Result<f64, DriverError> {
        let wanted = if self.emulated { EMULATED_BYTES } else { BYTES };
        let blocks = self.multiprocessors * 8;
        // A step is four loads of 16 bytes per thread; the buffer is a whole number of steps.
        let step = blocks as usize * THREADS as usize * 64;
        let steps = (wanted.min(most) / step).max(1);
        let mut buffer = Allocation::new(steps * step)?;
        if self.emulated {
            // The buffer fits the cache, where a fill would leave it.
            buffer.upload(&vec![0; steps * step])?;
        } else {
            buffer.fill(0, steps * step, 0)?;
        }
        let arguments = [
            buffer.base().to_le_bytes().to_vec(),
            self.out.base().to_le_bytes().to_vec(),
            (steps as u32).to_le_bytes().to_vec(),
        ];
        let us = self.shortest_time("read", blocks, &arguments)?;
        Ok((steps * step) as f64 / us)
    }

    /// Throughput of a kernel whose threads do `each` multiply-adds per instruction, in operations per microsecond.
    fn arithmetic(&self, kernel: &str, each: f64) -> Result<f64, DriverError> {
        let rounds = if self.emulated {
            EMULATED_ROUNDS
        } else {
            ROUNDS
        };
        let blocks = self.multiprocessors * 8;
        let arguments = [
            self.out.base().to_le_bytes().to_vec(),
            0_u64.to_le_bytes().to_vec(),
            rounds.to_le_bytes().to_vec(),
        ];
        let us = self.shortest_time(kernel, blocks, &arguments)?;
        let threads = f64::from(blocks) * f64::from(THREADS);
        let instructions = f64::from(rounds) * (CHAINS * LINKS) as f64;
        Ok(2.0 * each * threads * instructions / us)
    }

    /// The shortest event time of a kernel, microseconds.
    fn shortest_time(
        &self,
        kernel: &str,
        blocks: u32,
        arguments: &[Vec<u8>],
    ) -> Result<f64, DriverError> {
        let kernel = self.module.kernel(kernel)?;
        let shape = Shape {
            grid: [blocks, 1, 1],
            block: [THREADS, 1, 1],
            shared_bytes: 0,
            cooperative: false,
        };
        let tries = if self.emulated { EMULATED_TRIES } else { TRIES };
        let mut shortest = f64::INFINITY;
        for _ in 0..tries {
            let watch = Stopwatch::start()?;
            kernel.launch(shape, arguments)?;
            shortest = shortest.min(watch.stop()?);
        }
        Ok(shortest)
    }
}

/// PTX of all kernels.
fn text() -> String {
    let mut text = String::from(
        ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry empty() { ret; }\n",
    );
    text.push_str(READ);
    for kind in ["f32", "f64"] {
        let start = |chain: usize| initialised_register(kind, &format!("%a{chain}"), chain);
        let link = |chain| format!("fma.rn.{kind} %a{chain}, %a{chain}, %a{chain}, %a{chain};\n");
        text.push_str(&chained_kernel(kind, kind, CHAINS, start, link));
    }
    // Four accumulator registers for each chain; the factors are zero.
    let four = |chain: usize| 4 * chain..4 * chain + 4;
    let start = |chain: usize| {
        four(chain)
            .map(|at| initialised_register("f32", &format!("%a{at}"), at))
            .collect()
    };
    let link = |chain: usize| {
        let sums = four(chain).map(|at| format!("%a{at}")).collect::<Vec<_>>();
        let sums = sums.join(", ");
        format!(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \
             {{{sums}}}, {{%z, %z, %z, %z}}, {{%z, %z}}, {{{sums}}};\n"
        )
    };
    text.push_str(&chained_kernel("mma", "f32", 4 * CHAINS, start, link));
    text
}

/// Initialises a register with the seed, which is zero, times a different number per register, because the compiler
/// must treat the chains as different.
fn initialised_register(kind: &str, register: &str, number: usize) -> String {
    let factor = number as f64 + 1.0;
    let literal = match kind {
        "f32" => format!("0f{:08X}", (factor as f32).to_bits()),
        _ => format!("0d{:016X}", factor.to_bits()),
    };
    format!("mul.{kind} {register}, %s, {literal};\n")
}

/// Reads `steps` steps of a buffer, and writes a result only if the sum is not zero, which does not happen because
/// the buffer holds zeros.
const READ: &str = ".visible .entry read(.param .u64 from, .param .u64 out, .param .u32 steps) {
.reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<20>;
ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [steps];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mov.u32 %r5, %nctaid.x;
mad.lo.u32 %r6, %r2, %r3, %r4; mul.lo.u32 %r5, %r5, %r3;
mul.wide.u32 %rd3, %r6, 16; add.u64 %rd1, %rd1, %rd3; mul.wide.u32 %rd4, %r5, 16;
mov.f32 %f1, 0f00000000;
NEXT:
add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd5, %rd4; add.u64 %rd7, %rd6, %rd4;
ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%rd1];
ld.global.v4.f32 {%f6, %f7, %f8, %f9}, [%rd5];
ld.global.v4.f32 {%f10, %f11, %f12, %f13}, [%rd6];
ld.global.v4.f32 {%f14, %f15, %f16, %f17}, [%rd7];
add.u64 %rd1, %rd7, %rd4;
add.f32 %f2, %f2, %f3; add.f32 %f4, %f4, %f5; add.f32 %f6, %f6, %f7; add.f32 %f8, %f8, %f9;
add.f32 %f10, %f10, %f11; add.f32 %f12, %f12, %f13; add.f32 %f14, %f14, %f15; add.f32 %f16, %f16, %f17;
add.f32 %f2, %f2, %f4; add.f32 %f6, %f6, %f8; add.f32 %f10, %f10, %f12; add.f32 %f14, %f14, %f16;
add.f32 %f2, %f2, %f6; add.f32 %f10, %f10, %f14; add.f32 %f2, %f2, %f10; add.f32 %f1, %f1, %f2;
sub.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 0;
@%p1 bra NEXT;
setp.neu.f32 %p2, %f1, 0f00000000;
@%p2 st.global.f32 [%rd2], %f1;
ret;
}
";

/// A kernel that executes the chains link by link in every iteration, and writes a result only if the sum is not
/// zero. `registers` is the number of registers of the chains.
fn chained_kernel(
    name: &str,
    kind: &str,
    registers: usize,
    start: impl Fn(usize) -> String,
    link: impl Fn(usize) -> String,
) -> String {
    let starts = (0..CHAINS).map(start).collect::<String>();
    let links = (0..CHAINS).map(link).collect::<String>().repeat(LINKS);
    let sums = (1..registers)
        .map(|register| format!("add.{kind} %a0, %a0, %a{register};\n"))
        .collect::<String>();
    format!(
        ".visible .entry {name}(.param .u64 out, .param .u64 seed, .param .u32 rounds) {{
.reg .pred %p<3>; .reg .b32 %r<2>; .reg .b32 %z; .reg .b64 %rd<3>;
.reg .{kind} %a<{registers}>; .reg .{kind} %s;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [seed]; ld.param.u32 %r1, [rounds];
cvt.rn.{kind}.u64 %s, %rd2; cvt.u32.u64 %z, %rd2;
{starts}NEXT:
{links}sub.u32 %r1, %r1, 1; setp.ne.u32 %p2, %r1, 0;
@%p2 bra NEXT;
{sums}setp.neu.{kind} %p1, %a0, %s;
@%p1 st.global.{kind} [%rd1], %a0;
ret;
}}
"
    )
}
