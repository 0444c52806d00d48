//! The kernels of the benchmarks: PTX made by `kernels/compile`, a launch each, and inputs.

use ptx::report::{Counters, Outcome};
use ptx::{Checks, Isa, KernelId, LaunchConfig, Limits, Machine, Module, ModuleHandle};

/// One parameter of a kernel.
#[derive(Debug, Clone, Copy)]
pub enum Parameter {
    /// A buffer of so many bytes, filled with small halves.
    Halves(usize),
    /// A buffer of so many bytes, filled with small floats.
    Floats(usize),
    /// A whole number.
    Number(i32),
    /// A float.
    Float(f32),
}

/// A kernel, its launch and its inputs.
#[derive(Debug)]
pub struct Kernel {
    /// Its name in the table.
    pub name: &'static str,
    text: &'static str,
    entry: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: &'static [Parameter],
}

use Parameter::{Float, Floats, Halves, Number};

macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../kernels/", $name, ".ptx"))
    };
}

/// Sides of the square products.
const FLOAT_SIDE: i32 = 256;
const HALF_SIDE: i32 = 512;
const FLOAT_SQUARE: usize = 4 * (FLOAT_SIDE * FLOAT_SIDE) as usize;
const HALF_SQUARE: usize = 2 * (HALF_SIDE * HALF_SIDE) as usize;
/// Four heads of 512 positions and 64 channels.
const HEADS: usize = 2 * 4 * 512 * 64;

/// The measured kernels.
pub const KERNELS: &[Kernel] = &[
    Kernel {
        name: "gemm, shared tiles",
        text: text!("gemm_shared_tiles"),
        entry: "gemm",
        grid: [16, 16, 1],
        block: [16, 16, 1],
        parameters: &[
            Floats(FLOAT_SQUARE),
            Floats(FLOAT_SQUARE),
            Floats(FLOAT_SQUARE),
            Number(FLOAT_SIDE),
            Number(FLOAT_SIDE),
            Number(FLOAT_SIDE),
        ],
    },
    Kernel {
        name: "gemm, register tiles",
        text: text!("gemm_register_tiles"),
        entry: "gemm",
        grid: [8, 8, 1],
        block: [64, 1, 1],
        parameters: &[
            Floats(FLOAT_SQUARE),
            Floats(FLOAT_SQUARE),
            Floats(FLOAT_SQUARE),
            Number(FLOAT_SIDE),
            Number(FLOAT_SIDE),
            Number(FLOAT_SIDE),
        ],
    },
    Kernel {
        name: "softmax, row in registers",
        text: text!("softmax_row_in_registers"),
        entry: "softmax",
        grid: [512, 1, 1],
        block: [128, 1, 1],
        parameters: &[
            Floats(4 * 512 * 1024),
            Floats(4 * 512 * 1024),
            Number(512),
            Number(1024),
        ],
    },
    Kernel {
        name: "attention, baseline",
        text: text!("attention_baseline"),
        entry: "attention",
        grid: [8, 4, 1],
        block: [64, 1, 1],
        parameters: &[
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Number(512),
            Float(0.125),
        ],
    },
    Kernel {
        name: "attention, shared tiles",
        text: text!("attention_shared_tiles"),
        entry: "attention",
        grid: [8, 4, 1],
        block: [64, 1, 1],
        parameters: &[
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Number(512),
            Float(0.125),
        ],
    },
    Kernel {
        name: "half polynomial",
        text: text!("half_polynomial"),
        entry: "half_polynomial",
        grid: [32, 1, 1],
        block: [256, 1, 1],
        parameters: &[
            Halves(4 * 32 * 256),
            Halves(4 * 32 * 256),
            Number(32 * 256),
            Number(100),
        ],
    },
    Kernel {
        name: "attention, tensor cores",
        text: text!("attention_tensor_cores"),
        entry: "attention_split",
        grid: [32, 2, 4],
        block: [32, 1, 1],
        parameters: &[
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Halves(HEADS),
            Floats(4 * 4 * 512 * 2 * 64),
            Floats(4 * 4 * 512 * 2 * 2),
            Number(512),
            Float(0.125),
        ],
    },
    Kernel {
        name: "gemm, tensor cores",
        text: text!("mma_gemm"),
        entry: "mma_gemm",
        grid: [8, 8, 1],
        block: [128, 1, 1],
        parameters: &[
            Halves(HALF_SQUARE),
            Halves(HALF_SQUARE),
            Floats(2 * HALF_SQUARE),
            Number(HALF_SIDE),
        ],
    },
    Kernel {
        name: "gemm, wmma",
        text: text!("wmma_gemm"),
        entry: "wmma_gemm",
        grid: [8, 8, 1],
        block: [128, 1, 1],
        parameters: &[
            Halves(HALF_SQUARE),
            Halves(HALF_SQUARE),
            Floats(2 * HALF_SQUARE),
            Number(HALF_SIDE),
        ],
    },
];

/// A kernel with its inputs in a machine's memory.
pub struct Prepared {
    machine: Machine,
    handle: ModuleHandle,
    kernel: KernelId,
    block: Vec<u8>,
    launch: &'static Kernel,
}

impl Prepared {
    /// Loads a kernel and writes its inputs.
    pub fn new(launch: &'static Kernel, isa: Isa) -> Self {
        let module = Module::parse(launch.text).expect("the compiler's output");
        let kernel = module.kernel(launch.entry).expect("the source has it");
        let places: Vec<usize> = module
            .info(kernel)
            .expect("it was just found")
            .params
            .iter()
            .map(|parameter| parameter.offset as usize)
            .collect();
        let mut machine = Machine::new(Limits::default());
        machine.use_isa(isa);
        let mut block = Vec::new();
        assert_eq!(places.len(), launch.parameters.len(), "{}", launch.name);
        for (place, parameter) in places.iter().zip(launch.parameters) {
            block.resize(*place, 0);
            block.extend(parameter.bytes(&mut machine));
        }
        let handle = machine.load(module).expect("it fits");
        Self {
            machine,
            handle,
            kernel,
            block,
            launch,
        }
    }

    /// Runs the kernel to its end.
    pub fn launch(&mut self, checks: Checks, threads: usize) -> Counters {
        let config = LaunchConfig {
            checks,
            threads,
            ..LaunchConfig::new(self.launch.grid, self.launch.block, &self.block)
        };
        let report = self
            .machine
            .launch(self.handle, self.kernel, &config)
            .expect("the machine has every instruction");
        assert_eq!(report.outcome, Outcome::Completed, "{:?}", report.findings);
        report.counters
    }
}

impl Parameter {
    /// The parameter's bytes; buffers are allocated and filled.
    fn bytes(self, machine: &mut Machine) -> Vec<u8> {
        match self {
            Self::Number(value) => value.to_le_bytes().to_vec(),
            Self::Float(value) => value.to_le_bytes().to_vec(),
            Self::Halves(bytes) => buffer(machine, bytes, |index| {
                // 0.5 to 1, of either sign.
                let bits = 0x3800 | (index * 37 % 1024) as u16 | ((index % 3 == 0) as u16) << 15;
                bits.to_le_bytes().to_vec()
            }),
            Self::Floats(bytes) => buffer(machine, bytes, |index| {
                let value = (index * 37 % 1024) as f32 / 1024.0 - 0.5;
                value.to_le_bytes().to_vec()
            }),
        }
    }
}

fn buffer(machine: &mut Machine, bytes: usize, element: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let address = machine.allocate(bytes as u64).expect("there is room");
    let mut data: Vec<u8> = (0..).flat_map(element).take(bytes).collect();
    data.truncate(bytes);
    machine
        .write(address, &data)
        .expect("it was just allocated");
    address.to_le_bytes().to_vec()
}
