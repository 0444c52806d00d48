//! A device with buffers, for tests that launch a kernel and look at what it left.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "code of tests"
)]

use ptx::report::{FindingKind, LaunchReport, Outcome};
use ptx::{LaunchConfig, LaunchError, Limits, Machine, Module, ModuleHandle};

pub use corpus::{Arg, Plain};

/// One device with one module.
pub struct Device {
    pub machine: Machine,
    pub module: Module,
    pub handle: ModuleHandle,
}

impl Device {
    pub fn new(text: &str) -> Self {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("failed to {error}"));
        let mut machine = Machine::new(Limits::default());
        let handle = machine.load(module.clone()).unwrap();
        Self {
            machine,
            module,
            handle,
        }
    }

    /// A labelled buffer with content.
    pub fn buffer<T: Plain>(&mut self, name: &str, values: &[T]) -> u64 {
        let pointer = self.fresh(name, values.len() * T::BYTES);
        let mut bytes = Vec::new();
        for value in values {
            value.put(&mut bytes);
        }
        self.machine.write(pointer, &bytes).unwrap();
        pointer
    }

    /// A labelled buffer nobody initialised.
    pub fn fresh(&mut self, name: &str, bytes: usize) -> u64 {
        let pointer = self.machine.allocate(bytes as u64).unwrap();
        self.machine.label(pointer, name).unwrap();
        pointer
    }

    pub fn read<T: Plain>(&self, pointer: u64, count: usize) -> Vec<T> {
        let mut bytes = vec![0; count * T::BYTES];
        self.machine.read(pointer, &mut bytes).unwrap();
        bytes.chunks(T::BYTES).map(T::get).collect()
    }

    pub fn params(&self, kernel: &str, args: &[Arg]) -> Vec<u8> {
        let info = self
            .module
            .info(self.module.kernel(kernel).expect("the kernel exists"))
            .unwrap();
        let mut params = vec![0; info.param_bytes as usize];
        assert_eq!(info.params.len(), args.len(), "argument count of {kernel}");
        for (param, arg) in info.params.iter().zip(args) {
            let bytes = arg.bytes();
            params[param.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        params
    }

    /// Launches with changes to the usual configuration.
    pub fn try_launch(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        change: impl FnOnce(&mut LaunchConfig<'_>),
    ) -> Result<LaunchReport, LaunchError> {
        let params = self.params(kernel, args);
        let mut config = LaunchConfig::new(grid, block, &params);
        change(&mut config);
        let id = self.module.kernel(kernel).expect("the kernel exists");
        self.machine.launch(self.handle, id, &config)
    }

    /// Launches a kernel that is in order: it must complete, and nothing may be found.
    pub fn honest(
        &mut self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        args: &[Arg],
        change: impl FnOnce(&mut LaunchConfig<'_>),
    ) -> LaunchReport {
        let report = self
            .try_launch(kernel, grid, block, args, change)
            .unwrap_or_else(|error| panic!("{kernel}: failed to {error}"));
        assert!(
            report.outcome == Outcome::Completed && report.findings.is_empty(),
            "{kernel}: {:?}, {:#?}",
            report.outcome,
            report.findings
        );
        report
    }

    pub fn launch(&mut self, kernel: &str, grid: u32, block: u32, args: &[Arg]) -> LaunchReport {
        self.try_launch(kernel, [grid, 1, 1], [block, 1, 1], args, |_| {})
            .unwrap()
    }
}

/// The kinds of a report's findings.
pub fn kinds(report: &LaunchReport) -> Vec<FindingKind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

/// FNV-1a of a text, as `tests/compile` writes it into the PTX.
pub fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |value, byte| {
        (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The source and its digest that a compiled text names in its first line.
pub fn source_of(ptx: &str) -> Option<String> {
    let (source, _) = ptx
        .lines()
        .next()?
        .strip_prefix("// ")?
        .split_once(", NVRTC ")?;
    Some(source.to_owned())
}

/// The frame of a hand-written kernel: three pointers `a`, `b`, `out` in %rd1..%rd3 and the thread number in %r1.
pub fn kernel(body: &str) -> String {
    format!(
        ".version 8.4\n.target sm_89\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out)\n\
         {{\n.reg .pred %p<20>;\n.reg .b16 %h<40>;\n.reg .b32 %r<60>;\n.reg .f32 %f<40>;\n.reg .b64 %rd<40>;\n.reg .f64 %d<60>;\n\
         ld.param.u64 %rd1, [a];\nld.param.u64 %rd2, [b];\nld.param.u64 %rd3, [out];\nmov.u32 %r1, %tid.x;\n{body}\nret;\n}}\n"
    )
}
