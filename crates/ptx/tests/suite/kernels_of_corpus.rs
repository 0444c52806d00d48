//! The kernels of the crate `corpus` on the machine, each against its reference, under several orders of execution.
//! None may get a finding, because all of them are correct.

mod counted;

use std::collections::BTreeSet;

use corpus::{CASES, Case, Failure, Kind, SOURCES, Session};
use ptx::report::{LaunchReport, Outcome};
use ptx::{Fragments, LaunchConfig, LaunchError, Module, Schedule};

/// Far more than any kernel here needs: what hangs must end.
const BUDGET: u64 = 400_000_000;

/// The machine as the corpus wants a device, with what it reported.
struct Emulated {
    device: crate::support::Device,
    schedule: Schedule,
    fragments: Fragments,
    reports: Vec<LaunchReport>,
}

fn refused(what: impl std::fmt::Display) -> Failure {
    Failure::new(Kind::Refused { code: 1 }, format!("failed to {what}"))
}

impl corpus::Device for Emulated {
    fn allocate(&mut self, name: &str, bytes: usize) -> Result<u64, Failure> {
        Ok(self.device.fresh(name, bytes))
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.device.machine.write(address, bytes).map_err(refused)
    }

    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Failure> {
        self.device.machine.read(address, bytes).map_err(refused)
    }

    fn variable(&mut self, name: &str) -> Result<(u64, usize), Failure> {
        let variable = self.device.machine.variable(self.device.handle, name);
        variable
            .map(|(address, bytes)| (address, bytes as usize))
            .ok_or_else(|| refused(format_args!("find the variable {name}")))
    }

    fn launch(&mut self, launch: &corpus::Launch<'_>) -> Result<(), Failure> {
        let (schedule, fragments) = (self.schedule, self.fragments);
        let change = |config: &mut LaunchConfig<'_>| {
            config.budget = Some(BUDGET);
            config.dynamic_shared = launch.shared_bytes;
            config.cooperative = launch.cooperative;
            config.schedule = schedule;
            config.fragments = fragments;
        };
        let report = self
            .device
            .try_launch(
                launch.kernel,
                launch.grid,
                launch.block,
                launch.arguments,
                change,
            )
            .map_err(refused)?;
        if report.outcome != Outcome::Completed || !report.findings.is_empty() {
            return Err(refused(format_args!(
                "complete {}: {:?}, {:#?}",
                launch.kernel, report.outcome, report.findings
            )));
        }
        self.reports.push(report);
        Ok(())
    }
}

/// The PTX of a source.
fn ptx(source: &str) -> &'static str {
    corpus::source(source).expect("the source is listed").ptx
}

/// A machine with a case's module.
fn emulated(case: &Case, schedule: Schedule, fragments: Fragments) -> Emulated {
    Emulated {
        device: crate::support::Device::new(ptx(case.source)),
        schedule,
        fragments,
        reports: Vec::new(),
    }
}

/// The cases with an answer.
fn honest() -> impl Iterator<Item = &'static Case> {
    CASES.iter().filter(|case| !case.faults)
}

/// Runs a case and gives the reports of its launches and what it read.
fn run(
    name: &str,
    schedule: Schedule,
    fragments: Fragments,
) -> (Vec<LaunchReport>, corpus::Record) {
    let case = CASES
        .iter()
        .find(|case| case.name == name)
        .expect("the case is listed");
    let mut emulated = emulated(case, schedule, fragments);
    let session = Session::new(&mut emulated);
    let ended = case.run(&session);
    let record = session.into_record();
    ended.unwrap_or_else(|failure| panic!("{name}, {schedule:?}, {fragments:?}: {failure}"));
    (emulated.reports, record)
}

#[test]
fn every_case_passes_in_order() {
    let mut launched = BTreeSet::new();
    for case in honest() {
        let (reports, record) = run(case.name, Schedule::Serial, Fragments::Usual);
        assert!(!record.reads.is_empty(), "{} looks at nothing", case.name);
        launched.extend(reports.into_iter().map(|report| report.kernel));
    }
    let kernels: BTreeSet<String> = SOURCES
        .iter()
        .filter(|source| source.name != "faults")
        .flat_map(|source| Module::parse(source.ptx).unwrap().kernels().to_vec())
        .map(|kernel| kernel.name.clone())
        .collect();
    let idle: Vec<&String> = kernels.difference(&launched).collect();
    assert!(idle.is_empty(), "no case launches {idle:?}");
}

#[test]
fn every_case_passes_in_another_order() {
    for case in honest() {
        run(case.name, Schedule::Seeded(7), Fragments::Usual);
    }
}

#[test]
fn every_case_passes_with_another_layout_of_fragments() {
    for case in honest() {
        run(case.name, Schedule::Seeded(13), Fragments::Turned);
    }
}

#[test]
fn what_must_be_stopped_is_stopped() {
    for case in CASES.iter().filter(|case| case.faults) {
        let mut emulated = emulated(case, Schedule::Serial, Fragments::Usual);
        let ended = case.run(&Session::new(&mut emulated));
        let stopped = ended.is_err_and(|failure| matches!(failure.kind, Kind::Refused { .. }));
        assert!(stopped, "{} went through", case.name);
    }
}

#[test]
fn every_kernel_of_the_corpus_is_supported() {
    let mut kernels = 0;
    let mut missing = Vec::new();
    for source in SOURCES {
        let module = Module::parse(source.ptx)
            .unwrap_or_else(|error| panic!("{}: failed to {error}", source.name));
        for kernel in module.kernels() {
            kernels += 1;
            if let Err(LaunchError::Unsupported {
                opcode, ptx_line, ..
            }) = module.runnable(&kernel.name)
            {
                missing.push(format!(
                    "{}, {}: {opcode} (PTX line {ptx_line})",
                    source.name, kernel.name
                ));
            }
        }
    }
    println!(
        "{} of {kernels} kernels of the corpus are supported",
        kernels - missing.len()
    );
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(kernels >= 40, "only {kernels} kernels");
}

#[test]
fn the_list_is_the_folder_and_no_ptx_is_stale() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/kernels");
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".cu").map(str::to_owned))
        .collect();
    let listed: BTreeSet<String> = SOURCES
        .iter()
        .map(|source| source.name.to_owned())
        .collect();
    assert_eq!(there, listed);
    for source in SOURCES {
        let digest = crate::support::digest(source.cuda);
        assert_eq!(
            crate::support::source_of(source.ptx),
            Some(format!("{}.cu {digest:016x}", source.name)),
            "{0}.ptx does not come from this {0}.cu: run crates/ptx/tests/compile",
            source.name
        );
    }
}
