//! Tests of the library as programs use it: unmodified cudarc finds `libcuda.so.1` on the library path and runs
//! complete programs.

mod child;
mod graphs;
mod plan;
mod raw;
mod safe;

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

/// The kernels of all tests.
const PTX: &str = include_str!("../ptx/basics.ptx");

/// Computes `axpy` on the device through cudarc's safe layer and returns the result.
fn axpy(context: &Arc<CudaContext>) -> Result<Vec<f32>, DriverError> {
    let stream = context.default_stream();
    let module = context.load_module(Ptx::from_src(PTX))?;
    let function = module.load_function("axpy")?;
    let input: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let x = stream.clone_htod(&input)?;
    let mut y = stream.alloc_zeros::<f32>(1000)?;
    let (a, n) = (2.0_f32, 1000_u32);
    let mut launch = stream.launch_builder(&function);
    launch.arg(&x).arg(&mut y).arg(&a).arg(&n);
    // SAFETY: the arguments are the kernel's parameters in order, and the buffers hold 1000 floats.
    unsafe { launch.launch(LaunchConfig::for_num_elems(n)) }?;
    stream.clone_dtoh(&y)
}
