//! Measurements of a device's properties. This module reports numbers and does not interpret them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use corpus::Noise;
use domain::role::experiment::{End, ExperimentReply, Measure};

use super::{describe_error, reply_with_end};
use crate::driver::{
    Allocation, DriverError, Gpu, Kernel, MappedMemory, Module, Shape, SharedWord, Stopwatch,
};
use crate::role_error::RoleError;

/// Bytes that a kernel reads when it is timed against itself, and also the number that it writes: more than a large
/// cache holds, including what lies between two launches.
const STREAM_BYTES: usize = 64 << 20;
/// Bytes that the kernel reads on the emulated device, which executes each access.
const EMULATED_STREAM_BYTES: usize = 1 << 20;
/// Number of times of one kernel against itself.
const NOISE_SAMPLES: usize = 480;
const EMULATED_SAMPLES: usize = 32;
/// Duration over which kernel times are recorded after the device was idle.
const SPIN_UP: Duration = Duration::from_millis(2500);
/// Idle time before that.
const IDLE: Duration = Duration::from_secs(2);
/// Distance between two links of the pointer chain that is followed through the cache: one cache line, bytes.
const LINE: usize = 128;
/// Size of that chain in bytes: small compared with any L2 cache.
const CHAIN_BYTES: usize = 1 << 20;
/// Amounts by which the cache is overwritten, in multiples of its size.
const FLUSHES: [f64; 6] = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0];
/// Repetitions of each pass through the chain.
const WALKS: usize = 9;
/// Durations of the kernels that every clock measures, nanoseconds.
const SPANS: [i64; 3] = [1_000_000, 10_000_000, 100_000_000];
/// Repetitions of each duration.
const SPAN_SAMPLES: usize = 10;
/// Rows and columns of the matrix products whose errors are measured.
const SIDE: usize = 64;
/// Inner dimensions of the matrix products.
const DEPTHS: [usize; 3] = [256, 1024, 8192];
const EMULATED_DEPTHS: [usize; 1] = [256];
/// Kernels of the matrix products: name, rows and columns per block, threads per block.
const PRODUCTS: [(&str, u32, u32, u32); 4] = [
    ("product_f32", 1, 32, 32),
    ("product_tf32", 16, 16, 32),
    ("product_f16", 16, 16, 32),
    ("product_bf16", 16, 16, 32),
];

type Series = BTreeMap<String, Vec<f64>>;

/// Performs one measurement.
pub fn measure(gpu: &Gpu, image: &[u8], what: Measure) -> Result<ExperimentReply, RoleError> {
    let measured = Module::load(image).and_then(|module| {
        let bench = Measurement {
            gpu,
            module: &module,
        };
        bench.measure(what)
    });
    let mut reply = reply_with_end(gpu, End::Completed, None)?;
    match measured {
        Ok(series) => reply.series = series,
        Err(refusal) => {
            reply.end = End::Refused { code: refusal.code };
            reply.message = Some(describe_error(&refusal));
        }
    }
    Ok(reply)
}

/// The device with the measuring kernels.
struct Measurement<'a> {
    gpu: &'a Gpu,
    module: &'a Module,
}

impl Measurement<'_> {
    fn measure(&self, what: Measure) -> Result<Series, DriverError> {
        match what {
            Measure::GuardInside => self.guard(-1, false, false),
            Measure::GuardRead => self.guard(0, false, false),
            Measure::GuardWrite => self.guard(0, true, false),
            Measure::GuardReadOnly => self.guard(-1, true, true),
            Measure::ReachPageable => self.reach(&SharedWord::pageable()),
            Measure::ReachPinned => self.reach(&SharedWord::pinned()?),
            Measure::ReachManaged => self.reach(&SharedWord::managed()?),
            Measure::Endless => self.endless(),
            Measure::Usable => self.usable(),
            Measure::CacheSurvival => self.cache(),
            Measure::Noise => self.noise(),
            Measure::SpinUp => self.spin_up(),
            Measure::Clocks => self.clocks(),
            Measure::Precision => self.precision(),
        }
    }

    fn is_emulated(&self) -> bool {
        self.gpu.emulator().is_some()
    }

    /// Accesses the element at this offset from the end of the mapping, in elements.
    fn guard(&self, place: i64, write: bool, read_only: bool) -> Result<Series, DriverError> {
        let mapped = MappedMemory::new(self.gpu)?;
        let out = Allocation::new(4)?;
        if read_only && !mapped.make_read_only(self.gpu)? {
            return Ok(one("granted", 0.0));
        }
        let end = (mapped.bytes() / 4) as i64;
        self.touch(mapped.base(), end + place, write, out.base())?;
        Ok(one("granule_bytes", mapped.bytes() as f64))
    }

    /// Writes to host memory by its address and reports whether the value arrived.
    fn reach(&self, shared: &SharedWord) -> Result<Series, DriverError> {
        let mut series = one(
            "pageable_memory_access",
            f64::from(u8::from(self.gpu.can_access_pageable_memory()?)),
        );
        let out = Allocation::new(4)?;
        self.touch(shared.address(), 0, true, out.base())?;
        series.insert(
            "arrived".to_owned(),
            vec![f64::from(u8::from(shared.value() == 77))],
        );
        Ok(series)
    }

    fn touch(&self, buffer: u64, element: i64, write: bool, out: u64) -> Result<(), DriverError> {
        let arguments = vec![
            word(buffer),
            word(element),
            word(i32::from(write)),
            word(out),
        ];
        self.ready("touch", arguments)?.launch([1, 1], 1)?;
        self.gpu.synchronize()
    }

    fn endless(&self) -> Result<Series, DriverError> {
        let mut flag = Allocation::new(4)?;
        flag.upload(&[0; 4])?;
        let kernel = self.ready("endless", vec![word(flag.base())])?;
        kernel.launch([64, 1], 32)?;
        self.gpu.synchronize()?;
        Ok(Series::new())
    }

    /// Launches a small kernel and checks its result.
    fn usable(&self) -> Result<Series, DriverError> {
        let count = 1024_usize;
        let x: Vec<u8> = (0..4 * count)
            .flat_map(|i| (i as f32).to_le_bytes())
            .collect();
        let (mut from, to) = (Allocation::new(x.len())?, Allocation::new(x.len())?);
        from.upload(&x)?;
        let arguments = vec![word(from.base()), word(to.base()), word(count as i32)];
        self.ready("stream", arguments)?.launch([4, 1], 256)?;
        self.gpu.synchronize()?;
        let right = to
            .download()?
            .chunks_exact(4)
            .enumerate()
            .all(|(i, bytes)| single(bytes) == 2.0 * i as f32 + 1.0);
        Ok(one("right", f64::from(u8::from(right))))
    }

    /// Times one kernel repeatedly while `go_on` returns true for the number of times and the elapsed time.
    fn stream_times(
        &self,
        mut go_on: impl FnMut(usize, Duration) -> bool,
    ) -> Result<(Vec<f64>, Vec<f64>), DriverError> {
        let bytes = if self.is_emulated() {
            EMULATED_STREAM_BYTES
        } else {
            STREAM_BYTES
        };
        let (mut from, to) = (Allocation::new(bytes)?, Allocation::new(bytes)?);
        let mut noise = Noise(1);
        let content: Vec<u8> = (0..bytes / 4)
            .flat_map(|_| noise.unit().to_le_bytes())
            .collect();
        from.upload(&content)?;
        let arguments = vec![
            word(from.base()),
            word(to.base()),
            word((bytes / 16) as i32),
        ];
        let kernel = self.ready("stream", arguments)?;
        if !self.is_emulated() {
            std::thread::sleep(IDLE);
        }
        let (mut times, mut since) = (Vec::new(), Vec::new());
        let begin = Instant::now();
        while go_on(times.len(), begin.elapsed()) {
            since.push(begin.elapsed().as_secs_f64() * 1e3);
            let watch = Stopwatch::start()?;
            kernel.launch([1024, 1], 256)?;
            times.push(watch.stop()?);
        }
        Ok((times, since))
    }

    fn noise(&self) -> Result<Series, DriverError> {
        let samples = if self.is_emulated() {
            EMULATED_SAMPLES
        } else {
            NOISE_SAMPLES
        };
        // The first half warms up and is discarded.
        let (mut times, _) = self.stream_times(|done, _| done < 2 * samples)?;
        Ok(one_series("event_us", times.split_off(samples)))
    }

    fn spin_up(&self) -> Result<Series, DriverError> {
        let emulated = self.is_emulated();
        let (times, since) = self.stream_times(|done, elapsed| {
            if emulated {
                done < EMULATED_SAMPLES
            } else {
                elapsed < SPIN_UP
            }
        })?;
        let mut series = one_series("event_us", times);
        series.insert("since_ms".to_owned(), since);
        Ok(series)
    }

    /// Cycles of a pass through a buffer after the cache was overwritten, with and without a hint to keep the buffer.
    fn cache(&self) -> Result<Series, DriverError> {
        let l2 = self
            .gpu
            .describe()
            .map_or(0, |device| usize::try_from(device.l2_bytes).unwrap_or(0));
        let steps = CHAIN_BYTES / LINE;
        // Each line holds the index of the next, in an order that no prefetcher predicts.
        let mut order: Vec<usize> = (1..steps).collect();
        let mut noise = Noise(2);
        for i in (1..order.len()).rev() {
            order.swap(
                i,
                usize::try_from(noise.next() % (i as u64 + 1)).unwrap_or(0),
            );
        }
        let mut content = vec![0_u8; CHAIN_BYTES];
        let mut at = 0;
        for next in order.into_iter().chain([0]) {
            let place = u32::try_from(next * LINE / 4).unwrap_or(0);
            content[at * LINE..at * LINE + 4].copy_from_slice(&place.to_le_bytes());
            at = next;
        }
        let mut chain = Allocation::new(CHAIN_BYTES)?;
        chain.upload(&content)?;
        let most = (l2 as f64 * FLUSHES[FLUSHES.len() - 1]) as usize;
        let mut flush = Allocation::new(most)?;
        let (cycles, last) = (Allocation::new(8)?, Allocation::new(4)?);
        let walk = |keep: bool| -> Result<f64, DriverError> {
            let arguments = vec![
                word(chain.base()),
                word(steps as i32),
                word(i32::from(keep)),
                word(cycles.base()),
                word(last.base()),
            ];
            self.ready("walk", arguments)?.launch([1, 1], 1)?;
            self.gpu.synchronize()?;
            let mut counted = [0; 8];
            cycles.read(0, &mut counted)?;
            Ok(i64::from_le_bytes(counted) as f64 / steps as f64)
        };
        let mut series = one("l2_bytes", l2 as f64);
        for keep in [false, true] {
            let kind = if keep { "kept" } else { "plain" };
            for times in FLUSHES {
                let mut found = Vec::with_capacity(WALKS);
                for _ in 0..WALKS {
                    walk(keep)?;
                    let bytes = (l2 as f64 * times) as usize;
                    if bytes > 0 {
                        flush.fill(0, bytes, 0x5a)?;
                    }
                    self.gpu.synchronize()?;
                    found.push(walk(false)?);
                }
                series.insert(format!("cycles_{kind}_{times}"), found);
            }
        }
        Ok(series)
    }

    /// Measures one duration by events, by the host, and by the device's timer and cycle counter.
    fn clocks(&self) -> Result<Series, DriverError> {
        let counted = Allocation::new(16)?;
        let mut series = Series::new();
        for span in SPANS {
            let kernel = self.ready("spin", vec![word(span), word(counted.base())])?;
            for sample in 0..=SPAN_SAMPLES {
                self.gpu.synchronize()?;
                let begin = Instant::now();
                let watch = Stopwatch::start()?;
                kernel.launch([1, 1], 1)?;
                let event = watch.stop()?;
                let wall = begin.elapsed().as_secs_f64() * 1e6;
                let mut bytes = [0; 16];
                counted.read(0, &mut bytes)?;
                let timer = i64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
                let cycles = i64::from_le_bytes(bytes[8..].try_into().expect("eight bytes"));
                // The first kernel of each duration warms up.
                if sample > 0 {
                    let values = [
                        ("event_us", event),
                        ("wall_us", wall),
                        ("timer_us", timer as f64 / 1e3),
                        ("cycles", cycles as f64),
                    ];
                    for (name, value) in values {
                        let name = format!("{name}_{}", span / 1_000_000);
                        series.entry(name).or_default().push(value);
                    }
                }
            }
        }
        Ok(series)
    }

    /// Relative L2 errors of matrix products, compared with sums in double precision of the same inputs.
    fn precision(&self) -> Result<Series, DriverError> {
        let depths: &[usize] = if self.is_emulated() {
            &EMULATED_DEPTHS
        } else {
            &DEPTHS
        };
        let mut series = Series::new();
        for &depth in depths {
            for seed in 0..4 {
                let mut noise = Noise(10 + seed);
                // The sum of twelve uniform numbers is nearly normal.
                let mut normal = |count: usize| -> Vec<f32> {
                    (0..count)
                        .map(|_| noise.units(12).iter().sum::<f32>() / 2.0)
                        .collect()
                };
                let (a, b) = (normal(SIDE * depth), normal(depth * SIDE));
                let want = product(&a, &b, depth);
                for (kernel, rows, columns, threads) in PRODUCTS {
                    let got = self.product(kernel, [rows, columns, threads], &a, &b, depth)?;
                    let name = format!("relative_l2_{kernel}_{depth}");
                    series
                        .entry(name)
                        .or_default()
                        .push(relative_l2(&got, &want));
                }
            }
        }
        Ok(series)
    }

    fn product(
        &self,
        kernel: &str,
        [rows, columns, threads]: [u32; 3],
        a: &[f32],
        b: &[f32],
        depth: usize,
    ) -> Result<Vec<f32>, DriverError> {
        let upload = |values: &[f32]| -> Result<Allocation, DriverError> {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let mut buffer = Allocation::new(bytes.len())?;
            buffer.upload(&bytes)?;
            Ok(buffer)
        };
        let (a, b) = (upload(a)?, upload(b)?);
        let c = Allocation::new(4 * SIDE * SIDE)?;
        let arguments = vec![
            word(a.base()),
            word(b.base()),
            word(c.base()),
            word(SIDE as i32),
            word(depth as i32),
        ];
        let grid = [SIDE as u32 / columns, SIDE as u32 / rows];
        self.ready(kernel, arguments)?.launch(grid, threads)?;
        self.gpu.synchronize()?;
        Ok(c.download()?.chunks_exact(4).map(single).collect())
    }

    /// Looks up a kernel and checks the sizes of its arguments.
    fn ready(&self, kernel: &str, arguments: Vec<Vec<u8>>) -> Result<Ready<'_>, DriverError> {
        let kernel = self.module.kernel(kernel)?;
        let given: Vec<usize> = arguments.iter().map(Vec::len).collect();
        assert_eq!(
            given,
            kernel.parameters(),
            "our own kernels get what they take"
        );
        Ok(Ready { kernel, arguments })
    }
}

/// A kernel whose arguments match its parameters.
struct Ready<'a> {
    kernel: Kernel<'a>,
    arguments: Vec<Vec<u8>>,
}

impl Ready<'_> {
    fn launch(&self, grid: [u32; 2], threads: u32) -> Result<(), DriverError> {
        let shape = Shape {
            grid: [grid[0], grid[1], 1],
            block: [threads, 1, 1],
            shared_bytes: 0,
            cooperative: false,
        };
        self.kernel.launch(shape, &self.arguments)
    }
}

/// A value as the bytes of an argument.
fn word<T: corpus::Plain>(value: T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

fn single(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

fn one(name: &str, value: f64) -> Series {
    one_series(name, vec![value])
}

fn one_series(name: &str, values: Vec<f64>) -> Series {
    Series::from([(name.to_owned(), values)])
}

/// The product of a matrix of `SIDE` rows and a matrix of `SIDE` columns.
fn product(a: &[f32], b: &[f32], depth: usize) -> Vec<f64> {
    let mut c = vec![0.0; SIDE * SIDE];
    for row in 0..SIDE {
        for t in 0..depth {
            let left = f64::from(a[row * depth + t]);
            for column in 0..SIDE {
                c[row * SIDE + column] += left * f64::from(b[t * SIDE + column]);
            }
        }
    }
    c
}

fn relative_l2(got: &[f32], want: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, want) in got.iter().zip(want) {
        error += (f64::from(*got) - want).powi(2);
        norm += want.powi(2);
    }
    (error / norm).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_error_is_the_ratio_of_norms() {
        assert_eq!(relative_l2(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert!((relative_l2(&[0.0, 4.0], &[3.0, 4.0]) - 0.6).abs() < 1e-12);
    }

    #[test]
    fn a_product_of_ones_is_its_depth() {
        let ones = vec![1.0; SIDE * 5];
        assert_eq!(product(&ones, &ones, 5), vec![5.0; SIDE * SIDE]);
    }
}
