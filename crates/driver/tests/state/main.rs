//! Tests of the driver's state, called directly: the result of each call, and the valid orders of calls.

mod contexts;
mod launches;
mod memory;
mod modules;
mod requests;

use kernelwright_driver::code::Code;
use kernelwright_driver::emulator;
use kernelwright_driver::handle::{FunctionHandle, ModuleHandle, StreamHandle};
use kernelwright_driver::image::Image;
use kernelwright_driver::state::{Dimensions, Driver, LaunchRequest};
use ptx::device::Device;

const PTX: &str = include_str!("../ptx/basics.ptx");
const MEMORY: u64 = 64 << 20;

fn fresh() -> Driver {
    Driver::new(Device::embedded("l4").expect("embedded"), MEMORY)
}

/// A driver with a current context.
fn ready() -> Driver {
    let mut driver = fresh();
    driver.initialise(0).expect("initialises");
    let context = driver.primary_retain(0).expect("retains");
    driver
        .set_current_context(Some(context))
        .expect("makes current");
    driver
}

fn load(driver: &mut Driver) -> ModuleHandle {
    driver
        .load_module(Image::Ptx(PTX.as_bytes()), None)
        .expect("the module loads")
}

fn function(driver: &mut Driver, name: &str) -> FunctionHandle {
    let module = load(driver);
    driver.function(module, name).expect("the kernel is there")
}

fn launch_of(function: FunctionHandle, parameters: &[u8]) -> LaunchRequest<'_> {
    LaunchRequest {
        function,
        dimensions: Dimensions {
            grid: [1, 1, 1],
            block: [32, 1, 1],
        },
        dynamic_shared: 0,
        stream: StreamHandle::LEGACY,
        parameters,
        cooperative: false,
        persisting: 0..0,
    }
}

fn ask(driver: &mut Driver, request: &str) -> String {
    let answer = emulator::answer(driver, request.as_bytes());
    assert!(answer.accepted, "{request}: {}", answer.json);
    emulator::delivered(driver, &answer);
    answer.json
}

/// Runs a kernel that takes one pointer on a buffer of 32 words, and returns the result of the next synchronisation.
fn run_on_buffer(driver: &mut Driver, name: &str) -> Result<(), Code> {
    let function = function(driver, name);
    let buffer = driver.allocate(128)?;
    driver.fill(buffer, &[0], 128, None)?;
    driver.launch(&launch_of(function, &buffer.to_le_bytes()))?;
    driver.synchronise_context()
}
