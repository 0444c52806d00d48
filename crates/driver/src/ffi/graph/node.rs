//! Nodes by kind: adding them, and reading and changing their parameters.

use crate::code::Code;
use crate::ffi::memory::BoxCopy;
use crate::ffi::pointer::{Host, In, Out};
use crate::handle::EventHandle;
use crate::state::{Driver, Work};

use super::parameters::{AnyNodeParams, FillParams, HostCallParams, KernelParams, KernelParamsV2};
use super::{Edge, check_edges, graph_of, list, node_of};
use crate::ffi::entries;

/// The only kernel node attribute that has an effect.
const ATTRIBUTE_COOPERATIVE: u32 = 2;

/// Adds a node with the work that `work` reads from the caller's parameters.
fn add(
    driver: &mut Driver,
    node: Out<u64>,
    graph: Host,
    (dependencies, count): (In<u64>, usize),
    work: impl FnOnce(&Driver) -> Result<Work, Code>,
) -> Result<(), Code> {
    let node = node.required()?;
    driver.nodes_of(graph_of(graph))?;
    let dependencies = list(dependencies, count)?;
    let work = work(driver)?;
    node.set(driver.add_node(graph_of(graph), &dependencies, work)?.0)
}

/// Changes the work of a node.
fn change(
    driver: &mut Driver,
    node: Host,
    work: impl FnOnce(&Driver, &Work) -> Result<Work, Code>,
) -> Result<(), Code> {
    let node = node_of(node);
    let work = work(driver, driver.work_of(node)?)?;
    driver.set_work(node, work)
}

/// Checks the context of a copy; null is the current context.
pub fn check_copy_context(driver: &Driver, context: Host) -> Result<(), Code> {
    match context.address() {
        0 => driver.check_context(),
        named => driver.known_context(crate::handle::ContextHandle(named)),
    }
}

fn cooperative(work: &mut Work) -> Result<&mut bool, Code> {
    match work {
        Work::Kernel(kernel) => Ok(&mut kernel.cooperative),
        _ => Err(Code::INVALID_VALUE),
    }
}

entries! {
    /// Adds an empty node.
    fn cuGraphAddEmptyNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize) |driver| {
        add(driver, node, graph, (dependencies, count), |_| Ok(Work::Empty))
    }

    /// Adds a kernel node.
    fn cuGraphAddKernelNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, launch: In<KernelParams>) |driver| {
        add(driver, node, graph, (dependencies, count), |driver| {
            KernelParamsV2::from(launch.get()?).work(driver, None)
        })
    }

    /// Adds a kernel node.
    fn cuGraphAddKernelNode_v2(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, launch: In<KernelParamsV2>) |driver| {
        add(driver, node, graph, (dependencies, count), |driver| launch.get()?.work(driver, None))
    }

    /// Adds a copy node.
    fn cuGraphAddMemcpyNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, plan: In<BoxCopy>, context: Host) |driver| {
        add(driver, node, graph, (dependencies, count), |driver| {
            let work = plan.get()?.work()?;
            check_copy_context(driver, context)?;
            Ok(Work::Copy(work))
        })
    }

    /// Adds a fill node.
    fn cuGraphAddMemsetNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, fill: In<FillParams>, context: Host) |driver| {
        add(driver, node, graph, (dependencies, count), |driver| {
            let work = fill.get()?.work();
            check_copy_context(driver, context)?;
            Ok(work)
        })
    }

    /// Adds a host call node.
    fn cuGraphAddHostNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, call: In<HostCallParams>) |driver| {
        add(driver, node, graph, (dependencies, count), |_| Ok(call.get()?.work()))
    }

    /// Adds a node with a copy of another graph.
    fn cuGraphAddChildGraphNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, child: Host) |driver| {
        add(driver, node, graph, (dependencies, count), |_| Ok(Work::Child(graph_of(child))))
    }

    /// Adds a node that records an event.
    fn cuGraphAddEventRecordNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, event: Host) |driver| {
        add(driver, node, graph, (dependencies, count), |_| Ok(Work::Record(EventHandle(event.address()))))
    }

    /// Adds a node that waits for an event.
    fn cuGraphAddEventWaitNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, event: Host) |driver| {
        add(driver, node, graph, (dependencies, count), |_| Ok(Work::Wait(EventHandle(event.address()))))
    }

    /// Adds a node of any kind.
    fn cuGraphAddNode(node: Out<u64>, graph: Host, dependencies: In<u64>, count: usize, params: AnyNodeParams) |driver| {
        add(driver, node, graph, (dependencies, count), |driver| params.work(driver, None))
    }

    /// Adds a node of any kind, with edge data.
    fn cuGraphAddNode_v2(node: Out<u64>, graph: Host, dependencies: In<u64>, edges: In<Edge>, count: usize, params: AnyNodeParams) |driver| {
        driver.check_context()?;
        check_edges(edges, count)?;
        add(driver, node, graph, (dependencies, count), |driver| params.work(driver, None))
    }

    /// Changes the work of a node of any kind.
    fn cuGraphNodeSetParams(node: Host, params: AnyNodeParams) |driver| {
        change(driver, node, |driver, before| params.work(driver, Some(before)))
    }

    /// A kernel node's launch. The parameters' addresses are valid until the parameters change.
    fn cuGraphKernelNodeGetParams(node: Host, launch: Out<KernelParams>) |driver| {
        launch.set(KernelParamsV2::of(driver, node_of(node))?.without_context())
    }

    /// A kernel node's launch. The parameters' addresses are valid until the parameters change.
    fn cuGraphKernelNodeGetParams_v2(node: Host, launch: Out<KernelParamsV2>) |driver| {
        launch.set(KernelParamsV2::of(driver, node_of(node))?)
    }

    /// Changes a kernel node's launch.
    fn cuGraphKernelNodeSetParams(node: Host, launch: In<KernelParams>) |driver| {
        change(driver, node, |driver, before| {
            KernelParamsV2::from(launch.get()?).work(driver, Some(before))
        })
    }

    /// Changes a kernel node's launch.
    fn cuGraphKernelNodeSetParams_v2(node: Host, launch: In<KernelParamsV2>) |driver| {
        change(driver, node, |driver, before| launch.get()?.work(driver, Some(before)))
    }

    /// Reads an attribute of a kernel node; only the cooperative flag is supported.
    fn cuGraphKernelNodeGetAttribute(node: Host, attribute: u32, value: Out<u32>) |driver| {
        let mut work = driver.work_of(node_of(node))?.clone();
        let found = *cooperative(&mut work)?;
        match attribute {
            ATTRIBUTE_COOPERATIVE => value.set(u32::from(found)),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }

    /// Sets an attribute of a kernel node; only the cooperative flag is supported.
    fn cuGraphKernelNodeSetAttribute(node: Host, attribute: u32, value: In<u32>) |driver| {
        change(driver, node, |_, before| {
            let mut work = before.clone();
            let flag = cooperative(&mut work)?;
            match attribute {
                ATTRIBUTE_COOPERATIVE => *flag = value.get()? != 0,
                _ => return Err(Code::NOT_SUPPORTED),
            }
            Ok(work)
        })
    }

    /// Copies the attributes of a kernel node to another.
    fn cuGraphKernelNodeCopyAttributes(to: Host, from: Host) |driver| {
        let mut source = driver.work_of(node_of(from))?.clone();
        let value = *cooperative(&mut source)?;
        change(driver, to, |_, before| {
            let mut work = before.clone();
            *cooperative(&mut work)? = value;
            Ok(work)
        })
    }

    /// A copy node's parameters.
    fn cuGraphMemcpyNodeGetParams(node: Host, plan: Out<BoxCopy>) |driver| {
        match driver.work_of(node_of(node))? {
            Work::Copy(work) => plan.set(BoxCopy::of(work)),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Changes a copy.
    fn cuGraphMemcpyNodeSetParams(node: Host, plan: In<BoxCopy>) |driver| {
        change(driver, node, |_, _| Ok(Work::Copy(plan.get()?.work()?)))
    }

    /// A fill's parameters.
    fn cuGraphMemsetNodeGetParams(node: Host, fill: Out<FillParams>) |driver| {
        fill.set(FillParams::of(driver.work_of(node_of(node))?)?)
    }

    /// Changes a fill.
    fn cuGraphMemsetNodeSetParams(node: Host, fill: In<FillParams>) |driver| {
        change(driver, node, |_, _| Ok(fill.get()?.work()))
    }

    /// A host call node's parameters.
    fn cuGraphHostNodeGetParams(node: Host, call: Out<HostCallParams>) |driver| {
        call.set(HostCallParams::of(driver.work_of(node_of(node))?)?)
    }

    /// Changes a host call.
    fn cuGraphHostNodeSetParams(node: Host, call: In<HostCallParams>) |driver| {
        change(driver, node, |_, _| Ok(call.get()?.work()))
    }

    /// The child graph of a node.
    fn cuGraphChildGraphNodeGetGraph(node: Host, graph: Out<u64>) |driver| {
        graph.set(driver.child_graph(node_of(node))?.0)
    }

    /// The event that a node records.
    fn cuGraphEventRecordNodeGetEvent(node: Host, event: Out<u64>) |driver| {
        match driver.work_of(node_of(node))? {
            Work::Record(found) => event.set(found.0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Changes the event that a node records.
    fn cuGraphEventRecordNodeSetEvent(node: Host, event: Host) |driver| {
        change(driver, node, |_, _| Ok(Work::Record(EventHandle(event.address()))))
    }

    /// The event that a node waits for.
    fn cuGraphEventWaitNodeGetEvent(node: Host, event: Out<u64>) |driver| {
        match driver.work_of(node_of(node))? {
            Work::Wait(found) => event.set(found.0),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Changes the event that a node waits for.
    fn cuGraphEventWaitNodeSetEvent(node: Host, event: Host) |driver| {
        change(driver, node, |_, _| Ok(Work::Wait(EventHandle(event.address()))))
    }
}
