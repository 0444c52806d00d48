//! Runs a case of the corpus on the loaded driver.

use std::fs;
use std::path::Path;

use corpus::{CASES, Device, Failure, Kind, Launch, Record, Session};
use domain::role::experiment::{
    CaseLaunch, CaseRecord, ComparedNumbers, End, ExperimentReply, ReadBack,
};

use super::{describe_error, reply_with_end};
use crate::driver::{self, Allocation, DriverError, Gpu, Module, Shape, Stopwatch, Variable};
use crate::role_error::RoleError;

/// Dynamic shared memory in bytes that every kernel may use without raising its limit.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// Runs a case `repeats` times and records what the last run read back.
pub fn run(
    gpu: &Gpu,
    image: &[u8],
    name: &str,
    repeats: u32,
    file: &Path,
) -> Result<ExperimentReply, RoleError> {
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| RoleError::Job(format!("{name:?} is no case of the corpus")))?;
    let mut reply = reply_with_end(gpu, End::Completed, None)?;
    let mut before: Option<Record> = None;
    for _ in 0..repeats.max(1) {
        let module = match Module::load(image) {
            Ok(module) => module,
            Err(refusal) => {
                reply.end = End::Refused { code: refusal.code };
                reply.message = Some(describe_error(&refusal));
                break;
            }
        };
        let mut device = Loaded {
            gpu,
            module: &module,
            buffers: Vec::new(),
            variables: Vec::new(),
            launches: Vec::new(),
            fault: None,
        };
        let session = Session::new(&mut device);
        let outcome = case.run(&session);
        let record = session.into_record();
        if let Some(fault) = device.fault {
            return Err(fault);
        }
        keep_shortest(&mut reply.launches, device.launches);
        reply.varies |= before
            .as_ref()
            .is_some_and(|before| before.reads != record.reads);
        before = Some(record);
        if let Err(failure) = outcome {
            reply.end = end(failure.kind);
            reply.message = Some(failure.message);
            break;
        }
    }
    // After a fault of the device nothing can be released; the process ends.
    if reply.end == End::Completed {
        driver::take_release_error()
            .map_err(|refusal| refusal.into_role_error("clear the device"))?;
    }
    let record = before.map(on_disk).unwrap_or(CaseRecord {
        reads: Vec::new(),
        compared: Vec::new(),
    });
    let text = serde_json::to_vec(&record).expect("a record is text and numbers");
    fs::write(file, text).map_err(RoleError::file("write", file))?;
    Ok(reply)
}

fn end(kind: Kind) -> End {
    match kind {
        Kind::Wrong => End::Wrong,
        Kind::Refused { code } => End::Refused { code },
        Kind::Found { kind } => End::Found { finding: kind },
        Kind::Unsupported => End::Unsupported,
    }
}

/// Keeps the shortest time of each launch over several repetitions.
fn keep_shortest(kept: &mut Vec<CaseLaunch>, new: Vec<CaseLaunch>) {
    for (number, launch) in new.into_iter().enumerate() {
        match kept.get_mut(number) {
            Some(first) if first.kernel == launch.kernel => {
                first.event_us = match (first.event_us, launch.event_us) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
            Some(first) => *first = launch,
            None => kept.push(launch),
        }
    }
}

fn on_disk(record: Record) -> CaseRecord {
    let reads = record.reads.into_iter().map(|read| ReadBack {
        buffer: read.buffer,
        element: read.element,
        bytes: read
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    });
    let compared = record.compared.into_iter().map(|numbers| ComparedNumbers {
        what: numbers.what,
        tolerance: numbers.tolerance.to_bits(),
        worst: numbers.worst.to_bits(),
        values: numbers.values.into_iter().map(f64::to_bits).collect(),
    });
    CaseRecord {
        reads: reads.collect(),
        compared: compared.collect(),
    }
}

/// The loaded driver as a device for the corpus.
struct Loaded<'a> {
    gpu: &'a Gpu,
    module: &'a Module,
    buffers: Vec<Allocation>,
    variables: Vec<Variable<'a>>,
    launches: Vec<CaseLaunch>,
    /// A failure that is not an answer of the device.
    fault: Option<RoleError>,
}

fn refused(refusal: &DriverError) -> Failure {
    Failure::new(
        Kind::Refused { code: refusal.code },
        describe_error(refusal),
    )
}

impl Loaded<'_> {
    /// The buffer that holds a range, and the offset of the range in it.
    fn buffer_at(&mut self, address: u64, bytes: usize) -> Option<(&mut Allocation, usize)> {
        self.buffers.iter_mut().find_map(|buffer| {
            let offset = usize::try_from(address.checked_sub(buffer.base())?).ok()?;
            buffer
                .contains_range(offset, bytes)
                .then_some((buffer, offset))
        })
    }

    /// The variable of the module at an address.
    fn variable_at(&self, address: u64, bytes: usize) -> Result<&Variable<'_>, Failure> {
        let variable = self
            .variables
            .iter()
            .find(|variable| variable.base() == address && bytes <= variable.bytes());
        variable.ok_or_else(|| {
            Failure::wrong(format!(
                "the case asks for {bytes} bytes at {address:#x}, where it has none"
            ))
        })
    }

    /// Records a failure of the environment and fails the case with it.
    fn record_fault(&mut self, fault: RoleError) -> Failure {
        let failure = Failure::wrong(format!("failed to {fault}"));
        self.fault = Some(fault);
        failure
    }

    fn start(&self, launch: &Launch<'_>) -> Result<Option<f64>, Failure> {
        let refused = |refusal: DriverError| refused(&refusal);
        let kernel = self.module.kernel(launch.kernel).map_err(refused)?;
        let arguments: Vec<Vec<u8>> = launch.arguments.iter().map(|arg| arg.bytes()).collect();
        let given: Vec<usize> = arguments.iter().map(Vec::len).collect();
        let taken = kernel.parameters();
        if given != taken {
            return Err(Failure::wrong(format!(
                "{} takes arguments of {taken:?} bytes, the case gives {given:?}",
                launch.kernel
            )));
        }
        if launch.shared_bytes > SHARED_WITHOUT_ASKING {
            kernel.allow_shared(launch.shared_bytes).map_err(refused)?;
        }
        let shape = Shape {
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            cooperative: launch.cooperative,
        };
        let watch = match self.gpu.emulator() {
            Some(_) => None,
            None => Some(Stopwatch::start().map_err(refused)?),
        };
        kernel.launch(shape, &arguments).map_err(refused)?;
        let time = watch.map(Stopwatch::stop).transpose().map_err(refused)?;
        self.gpu.synchronize().map_err(refused)?;
        Ok(time)
    }
}

impl Device for Loaded<'_> {
    fn allocate(&mut self, name: &str, bytes: usize) -> Result<u64, Failure> {
        let buffer = Allocation::new(bytes).map_err(|refusal| refused(&refusal))?;
        let address = buffer.base();
        self.buffers.push(buffer);
        if let Some(emulator) = self.gpu.emulator() {
            let named = emulator.label(address, name);
            named.map_err(|fault| self.record_fault(fault))?;
        }
        Ok(address)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        if let Some((buffer, offset)) = self.buffer_at(address, bytes.len()) {
            return buffer
                .write(offset, bytes)
                .map_err(|refusal| refused(&refusal));
        }
        let variable = self.variable_at(address, bytes.len())?;
        variable.write(bytes).map_err(|refusal| refused(&refusal))
    }

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        if let Some((buffer, offset)) = self.buffer_at(address, bytes.len()) {
            return buffer
                .read(offset, bytes)
                .map_err(|refusal| refused(&refusal));
        }
        let variable = self.variable_at(address, bytes.len())?;
        variable.read(bytes).map_err(|refusal| refused(&refusal))
    }

    fn variable(&mut self, name: &str) -> Result<(u64, usize), Failure> {
        let found = self.module.variable(name);
        let variable = found.map_err(|refusal| refused(&refusal))?;
        let place = (variable.base(), variable.bytes());
        self.variables.push(variable);
        Ok(place)
    }

    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Failure> {
        let started = self.start(launch);
        let mut reports = Vec::new();
        if let Some(emulator) = self.gpu.emulator() {
            let taken = emulator.take_reports();
            reports = taken.map_err(|fault| self.record_fault(fault))?;
        }
        let finding = reports.iter().flat_map(|report| &report.findings).next();
        if let Some(report) = reports
            .iter()
            .find(|report| report.outcome.is_unsupported())
        {
            let opcode = report.outcome.opcode.clone().unwrap_or_default();
            return Err(Failure::new(
                Kind::Unsupported,
                format!("{} uses {opcode}", launch.kernel),
            ));
        }
        let event_us = started.map_err(|mut failure| {
            if let Some(finding) = finding {
                failure.message = format!("{}: {}", failure.message, finding.message);
            }
            failure
        })?;
        if let Some(finding) = finding {
            return Err(Failure::new(
                Kind::Found {
                    kind: finding.kind.clone(),
                },
                finding.message.clone(),
            ));
        }
        self.launches.push(CaseLaunch {
            kernel: launch.kernel.to_owned(),
            event_us,
            modelled_us: reports
                .iter()
                .find_map(|report| report.modelled.as_ref())
                .map(|modelled| modelled.microseconds),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(kernel: &str, event_us: f64) -> CaseLaunch {
        CaseLaunch {
            kernel: kernel.to_owned(),
            event_us: Some(event_us),
            modelled_us: None,
        }
    }

    #[test]
    fn the_shortest_time_of_each_launch_is_kept() {
        let mut kept = vec![launch("a", 5.0), launch("b", 1.0)];
        keep_shortest(&mut kept, vec![launch("a", 3.0), launch("b", 2.0)]);
        // The number of launches of a case may depend on the values that it reads.
        keep_shortest(
            &mut kept,
            vec![launch("a", 4.0), launch("c", 9.0), launch("d", 7.0)],
        );
        let times: Vec<(&str, Option<f64>)> = kept
            .iter()
            .map(|launch| (launch.kernel.as_str(), launch.event_us))
            .collect();
        assert_eq!(
            times,
            [("a", Some(3.0)), ("c", Some(9.0)), ("d", Some(7.0))]
        );
    }
}
