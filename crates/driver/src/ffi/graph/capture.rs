//! Stream capture.

use crate::code::Code;
use crate::ffi::entries;
use crate::ffi::pointer::{Host, In, Out};
use crate::ffi::stream::named;
use crate::state::{CaptureMode, CaptureState, Driver};

use super::{Edge, check_edges, graph_of, list};

/// Flag: replace the dependencies of the next node instead of adding to them.
const REPLACE: u32 = 1;

/// Output locations of a query about a capture.
struct CaptureQuery {
    status: Out<u32>,
    id: Out<u64>,
    graph: Out<u64>,
    dependencies: Out<u64>,
    count: Out<usize>,
}

impl CaptureQuery {
    fn answer(self, driver: &mut Driver, stream: Host) -> Result<bool, Code> {
        let status = self.status.required()?;
        match driver.capture_state(named(stream))? {
            CaptureState::None => status.set(0).map(|()| false),
            CaptureState::Invalidated => status.set(2).map(|()| false),
            CaptureState::Active {
                id,
                graph,
                dependencies,
                count,
            } => {
                self.id.set_if_given(id);
                self.graph.set_if_given(graph.0);
                self.dependencies.set_if_given(dependencies);
                self.count.set_if_given(count);
                status.set(1).map(|()| true)
            }
        }
    }
}

entries! {
    /// Begins the capture of a stream.
    fn cuStreamBeginCapture_v2(stream: Host, mode: u32) |driver| {
        driver.check_stream(named(stream))?;
        driver.begin_capture(named(stream), CaptureMode::from_number(mode)?, None)
    }

    /// Begins the capture of a stream into an existing graph.
    fn cuStreamBeginCaptureToGraph(stream: Host, graph: Host, dependencies: In<u64>, edges: In<Edge>, count: usize, mode: u32) |driver| {
        driver.check_stream(named(stream))?;
        driver.nodes_of(graph_of(graph))?;
        let mode = CaptureMode::from_number(mode)?;
        check_edges(edges, count)?;
        let into = (graph_of(graph), list(dependencies, count)?);
        driver.begin_capture(named(stream), mode, Some(into))
    }

    /// Ends a capture.
    fn cuStreamEndCapture(stream: Host, graph: Out<u64>) |driver| {
        let output = graph.required()?;
        driver.check_stream(named(stream))?;
        output.set(0)?;
        output.set(driver.end_capture(named(stream))?.0)
    }

    /// Reports whether a stream is being captured.
    fn cuStreamIsCapturing(stream: Host, status: Out<u32>) |driver| {
        let nowhere = Out::at_address(0);
        let query = CaptureQuery { status, id: nowhere, graph: nowhere, dependencies: nowhere, count: Out::at_address(0) };
        query.answer(driver, stream).map(|_| ())
    }

    /// State of a stream's capture.
    fn cuStreamGetCaptureInfo_v2(stream: Host, status: Out<u32>, id: Out<u64>, graph: Out<u64>, dependencies: Out<u64>, count: Out<usize>) |driver| {
        CaptureQuery { status, id, graph, dependencies, count }.answer(driver, stream).map(|_| ())
    }

    /// State of a stream's capture, with edge data: always null, because all edges are of the default kind.
    fn cuStreamGetCaptureInfo_v3(stream: Host, status: Out<u32>, id: Out<u64>, graph: Out<u64>, dependencies: Out<u64>, edges: Out<u64>, count: Out<usize>) |driver| {
        let query = CaptureQuery { status, id, graph, dependencies, count };
        if query.answer(driver, stream)? {
            edges.set_if_given(0);
        }
        Ok(())
    }

    /// Changes the dependencies of the next captured node.
    fn cuStreamUpdateCaptureDependencies(stream: Host, nodes: In<u64>, count: usize, flags: u32) |driver| {
        update(driver, stream, (nodes, count), flags)
    }

    /// Changes the dependencies of the next captured node, with edge data.
    fn cuStreamUpdateCaptureDependencies_v2(stream: Host, nodes: In<u64>, edges: In<Edge>, count: usize, flags: u32) |driver| {
        driver.check_stream(named(stream))?;
        check_edges(edges, count)?;
        update(driver, stream, (nodes, count), flags)
    }

    /// Exchanges the calling thread's capture mode.
    fn cuThreadExchangeStreamCaptureMode(mode: Host) |driver| {
        driver.check_context()?;
        let output: Out<u32> = Out::at_address(mode.address());
        let mode = CaptureMode::from_number(In::<u32>::at_address(mode.address()).get()?)?;
        output.set(driver.exchange_capture_mode(mode) as u32)
    }
}

fn update(
    driver: &mut Driver,
    stream: Host,
    (nodes, count): (In<u64>, usize),
    flags: u32,
) -> Result<(), Code> {
    driver.check_stream(named(stream))?;
    if flags > REPLACE {
        return Err(Code::INVALID_VALUE);
    }
    driver.set_capture_dependencies(named(stream), &list(nodes, count)?, flags == REPLACE)
}
