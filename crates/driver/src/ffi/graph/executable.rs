//! Executables: instantiated graphs.

use crate::code::Code;
use crate::ffi::memory::BoxCopy;
use crate::ffi::pointer::{Host, In, Out};
use crate::ffi::stream::named;
use crate::ffi::{entries, process};
use crate::handle::{EventHandle, ExecutableHandle};
use crate::state::{Driver, UpdateError, Work};

use super::node::check_copy_context;
use super::parameters::{AnyNodeParams, FillParams, HostCallParams, KernelParams, KernelParamsV2};
use super::{graph_of, node_of, work};

/// Parameters and result of an instantiation (`CUDA_GRAPH_INSTANTIATE_PARAMS`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct InstantiateParams {
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
const INSTANTIATE_FAILED: u32 = 1;
/// Instantiation result: the graph has a cycle.
const INSTANTIATE_INVALID_STRUCTURE: u32 = 2;
/// Instantiation result: the device does not support a flag.
const INSTANTIATE_NOT_SUPPORTED: u32 = 3;
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
    driver.set_executable_work(executable_of(executable), node_of(node), work)
}

/// Updates an executable from a graph and fills in the result.
fn update(
    driver: &mut Driver,
    executable: Host,
    graph: Host,
    result_info: &mut UpdateResult,
) -> Result<(), Code> {
    result_info.result = UPDATE_FAILED;
    match driver.update_executable(executable_of(executable), graph_of(graph)) {
        Ok(()) => {
            result_info.result = 0;
            Ok(())
        }
        Err(UpdateError::Refused(code)) => Err(code),
        Err(UpdateError::Mismatch(mismatch)) => {
            result_info.result = mismatch.result;
            result_info.node = mismatch.node.map_or(0, |node| node.0);
            Err(Code::GRAPH_EXEC_UPDATE_FAILURE)
        }
    }
}

const NO_RESULT: UpdateResult = UpdateResult {
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
        node.set_if_given(0);
        executable.set(driver.instantiate(graph_of(graph), 0, false)?.0)
    }

    /// Instantiates a graph and writes the reason of a failure.
    fn cuGraphInstantiateWithParams(executable: Out<u64>, graph: Host, params: Host) |driver| {
        let executable = executable.required()?;
        let output: Out<InstantiateParams> = Out::at_address(params.address());
        let mut params = In::<InstantiateParams>::at_address(params.address()).get()?;
        driver.check_stream(named(params.stream))?;
        params.node = 0;
        let made = driver.instantiate(graph_of(graph), params.flags, true);
        params.result = match made {
            Ok(_) => 0,
            Err(Code::NOT_SUPPORTED) => INSTANTIATE_NOT_SUPPORTED,
            Err(_) if driver.nodes_of(graph_of(graph)).is_ok() => INSTANTIATE_INVALID_STRUCTURE,
            Err(_) => INSTANTIATE_FAILED,
        };
        output.set(params)?;
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
    fn cuGraphExecNodeSetParams(executable: Host, node: Host, params: AnyNodeParams) |driver| {
        change(driver, executable, node, |driver, before| params.work(driver, Some(before)))
    }

    /// Changes a kernel node's launch.
    fn cuGraphExecKernelNodeSetParams(executable: Host, node: Host, launch: In<KernelParams>) |driver| {
        change(driver, executable, node, |driver, before| {
            KernelParamsV2::from(launch.get()?).work(driver, Some(before))
        })
    }

    /// Changes a kernel node's launch.
    fn cuGraphExecKernelNodeSetParams_v2(executable: Host, node: Host, launch: In<KernelParamsV2>) |driver| {
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
    fn cuGraphExecMemsetNodeSetParams(executable: Host, node: Host, fill: In<FillParams>, context: Host) |driver| {
        change(driver, executable, node, |driver, _| {
            let work = fill.get()?.work();
            check_copy_context(driver, context)?;
            Ok(work)
        })
    }

    /// Changes a host call.
    fn cuGraphExecHostNodeSetParams(executable: Host, node: Host, call: In<HostCallParams>) |driver| {
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
        let mut result_info = NO_RESULT;
        let done = update(driver, executable, graph, &mut result_info);
        node.set_if_given(result_info.node);
        result.set(result_info.result)?;
        done
    }

    /// Updates an executable from a graph of the same topology.
    fn cuGraphExecUpdate_v2(executable: Host, graph: Host, result_info: Out<UpdateResult>) |driver| {
        let output = result_info.required()?;
        let mut result_info = NO_RESULT;
        let done = update(driver, executable, graph, &mut result_info);
        output.set(result_info)?;
        done
    }
}

/// Launches an executable on a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: Host, stream: Host) -> u32 {
    let mut launch = None;
    let code = process::call("cuGraphLaunch", |driver| {
        driver.check_context()?;
        launch = driver.begin_graph_launch(executable_of(executable), named(stream))?;
        Ok(())
    });
    match launch {
        Some(launch) => work::launch(launch),
        None => code,
    }
}
