//! Executables: instantiated graphs.

use crate::code::Code;
use crate::ffi::memory::BoxCopy;
use crate::ffi::pointer::{Host, In, Out};
use crate::ffi::stream::named;
use crate::ffi::{entries, process};
use crate::handle::{EventHandle, ExecutableHandle};
use crate::state::{Driver, Work};

use super::node::check_copy_context;
use super::parameters::{Any, Call, Fill, Kernel, KernelInContext};
use super::{graph_of, node_of, work};

/// Parameters and result of an instantiation (`CUDA_GRAPH_INSTANTIATE_PARAMS`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Making {
    flags: u64,
    stream: Host,
    node: u64,
    result: u32,
}

/// Result of an update (`CUgraphExecUpdateResultInfo`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct UpdateResult {
    result: u32,
    node: u64,
    from: u64,
}

/// Instantiation result: failed, for the reason that the function returns.
const MAKING_FAILED: u32 = 1;
/// Instantiation result: the graph has a cycle.
const MAKING_INVALID_STRUCTURE: u32 = 2;
/// Instantiation result: the device does not support a flag.
const MAKING_NOT_SUPPORTED: u32 = 3;
/// Update result: failed without a more specific reason.
const UPDATE_FAILED: u32 = 1;

fn executable_of(executable: Host) -> ExecutableHandle {
    ExecutableHandle(executable.address())
}

/// Changes the work of a node of an executable.
fn change(
    driver: &mut Driver,
    executable: Host,
    node: Host,
    work: impl FnOnce(&Driver, &Work) -> Result<Work, Code>,
) -> Result<(), Code> {
    driver.executable_flags(executable_of(executable))?;
    let work = work(driver, driver.work_of(node_of(node))?)?;
    driver.set_frozen_work(executable_of(executable), node_of(node), work)
}

/// Updates an executable from a graph and fills in the result.
fn update(
    driver: &mut Driver,
    executable: Host,
    graph: Host,
    told: &mut UpdateResult,
) -> Result<(), Code> {
    told.result = UPDATE_FAILED;
    match driver.update_executable(executable_of(executable), graph_of(graph))? {
        Ok(()) => {
            told.result = 0;
            Ok(())
        }
        Err(mismatch) => {
            told.result = mismatch.result;
            told.node = mismatch.node.map_or(0, |node| node.0);
            Err(Code::GRAPH_EXEC_UPDATE_FAILURE)
        }
    }
}

const NOTHING_TOLD: UpdateResult = UpdateResult {
    result: 0,
    node: 0,
    from: 0,
};

entries! {
    /// Instantiates a graph.
    fn cuGraphInstantiateWithFlags(executable: Out<u64>, graph: Host, flags: u64) |driver| {
        let executable = executable.required()?;
        executable.set(driver.instantiate(graph_of(graph), flags, false)?.0)
    }

    /// Instantiates a graph. Nothing is written to the log.
    fn cuGraphInstantiate_v2(executable: Out<u64>, graph: Host, node: Out<u64>, _log: Host, _log_bytes: usize) |driver| {
        let executable = executable.required()?;
        node.offer(0);
        executable.set(driver.instantiate(graph_of(graph), 0, false)?.0)
    }

    /// Instantiates a graph and writes the reason of a failure.
    fn cuGraphInstantiateWithParams(executable: Out<u64>, graph: Host, making: Host) |driver| {
        let executable = executable.required()?;
        let place: Out<Making> = Out::at_address(making.address());
        let mut making = In::<Making>::at_address(making.address()).get()?;
        driver.check_stream(named(making.stream))?;
        making.node = 0;
        let made = driver.instantiate(graph_of(graph), making.flags, true);
        making.result = match made {
            Ok(_) => 0,
            Err(Code::NOT_SUPPORTED) => MAKING_NOT_SUPPORTED,
            Err(_) if driver.nodes_of(graph_of(graph)).is_ok() => MAKING_INVALID_STRUCTURE,
            Err(_) => MAKING_FAILED,
        };
        place.set(making)?;
        executable.set(made?.0)
    }

    /// The flags of an executable's instantiation.
    fn cuGraphExecGetFlags(executable: Host, flags: Out<u64>) |driver| {
        flags.set(driver.executable_flags(executable_of(executable))?)
    }

    /// Destroys an executable.
    fn cuGraphExecDestroy(executable: Host) |driver| {
        driver.destroy_executable(executable_of(executable))
    }

    /// Prepares a launch; does nothing.
    fn cuGraphUpload(executable: Host, stream: Host) |driver| {
        driver.executable_flags(executable_of(executable))?;
        driver.check_stream(named(stream))?;
        driver.refuse_capture(named(stream))
    }

    /// Changes the work of a node of any kind.
    fn cuGraphExecNodeSetParams(executable: Host, node: Host, what: Any) |driver| {
        change(driver, executable, node, |driver, before| what.work(driver, Some(before)))
    }

    /// Changes a kernel node's launch.
    fn cuGraphExecKernelNodeSetParams(executable: Host, node: Host, launch: In<Kernel>) |driver| {
        change(driver, executable, node, |driver, before| {
            KernelInContext::from(launch.get()?).work(driver, Some(before))
        })
    }

    /// Changes a kernel node's launch.
    fn cuGraphExecKernelNodeSetParams_v2(executable: Host, node: Host, launch: In<KernelInContext>) |driver| {
        change(driver, executable, node, |driver, before| launch.get()?.work(driver, Some(before)))
    }

    /// Changes a copy.
    fn cuGraphExecMemcpyNodeSetParams(executable: Host, node: Host, plan: In<BoxCopy>, context: Host) |driver| {
        change(driver, executable, node, |driver, _| {
            let work = plan.get()?.work()?;
            check_copy_context(driver, context)?;
            Ok(Work::Copy(work))
        })
    }

    /// Changes a fill.
    fn cuGraphExecMemsetNodeSetParams(executable: Host, node: Host, fill: In<Fill>, context: Host) |driver| {
        change(driver, executable, node, |driver, _| {
            let work = fill.get()?.work();
            check_copy_context(driver, context)?;
            Ok(work)
        })
    }

    /// Changes a host call.
    fn cuGraphExecHostNodeSetParams(executable: Host, node: Host, call: In<Call>) |driver| {
        change(driver, executable, node, |_, _| Ok(call.get()?.work()))
    }

    /// Changes the work of the nodes in a child graph.
    fn cuGraphExecChildGraphNodeSetParams(executable: Host, node: Host, child: Host) |driver| {
        change(driver, executable, node, |_, _| Ok(Work::Child(graph_of(child))))
    }

    /// Changes the event that a node records.
    fn cuGraphExecEventRecordNodeSetEvent(executable: Host, node: Host, event: Host) |driver| {
        change(driver, executable, node, |_, _| Ok(Work::Record(EventHandle(event.address()))))
    }

    /// Changes the event that a node waits for.
    fn cuGraphExecEventWaitNodeSetEvent(executable: Host, node: Host, event: Host) |driver| {
        change(driver, executable, node, |_, _| Ok(Work::Wait(EventHandle(event.address()))))
    }

    /// Enables or disables a node.
    fn cuGraphNodeSetEnabled(executable: Host, node: Host, enabled: u32) |driver| {
        driver.set_enabled(executable_of(executable), node_of(node), enabled != 0)
    }

    /// Reports whether a node is enabled.
    fn cuGraphNodeGetEnabled(executable: Host, node: Host, enabled: Out<u32>) |driver| {
        let enabled = enabled.required()?;
        enabled.set(u32::from(driver.is_enabled(executable_of(executable), node_of(node))?))
    }

    /// Updates an executable from a graph of the same topology.
    fn cuGraphExecUpdate(executable: Host, graph: Host, node: Out<u64>, result: Out<u32>) |driver| {
        let result = result.required()?;
        let mut told = NOTHING_TOLD;
        let done = update(driver, executable, graph, &mut told);
        node.offer(told.node);
        result.set(told.result)?;
        done
    }

    /// Updates an executable from a graph of the same topology.
    fn cuGraphExecUpdate_v2(executable: Host, graph: Host, told: Out<UpdateResult>) |driver| {
        let place = told.required()?;
        let mut told = NOTHING_TOLD;
        let done = update(driver, executable, graph, &mut told);
        place.set(told)?;
        done
    }
}

/// Launches an executable on a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: Host, stream: Host) -> u32 {
    let mut run = None;
    let code = process::call("cuGraphLaunch", |driver| {
        driver.check_context()?;
        run = driver.begin_graph(executable_of(executable), named(stream))?;
        Ok(())
    });
    match run {
        Some(run) => work::launch(run),
        None => code,
    }
}
