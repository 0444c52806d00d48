//! Graphs: nodes and dependencies. `parameters` reads the parameters of nodes, `node` adds and changes nodes,
//! `executable` instantiates graphs, `capture` captures streams, and `work` executes the work of nodes.

pub mod capture;
pub mod executable;
pub mod node;
mod parameters;
pub mod user_object;
mod work;

pub use work::call_host;

use std::fs;

use crate::code::Code;
use crate::handle::{GraphHandle, NodeHandle};
use crate::state::Driver;

use super::entries;
use super::pointer::{CallerString, Host, In, Out};

/// The data of an edge (`CUgraphEdgeData`) as a number. Only the default kind, all zero, is supported.
type Edge = u64;

fn graph_of(graph: Host) -> GraphHandle {
    GraphHandle(graph.address())
}

fn node_of(node: Host) -> NodeHandle {
    NodeHandle(node.address())
}

/// Reads an array of nodes.
fn list(nodes: In<u64>, count: usize) -> Result<Vec<NodeHandle>, Code> {
    (0..count).map(|at| nodes.at(at).map(NodeHandle)).collect()
}

/// Reads two arrays of nodes as pairs.
fn pairs(from: In<u64>, to: In<u64>, count: usize) -> Result<Vec<(NodeHandle, NodeHandle)>, Code> {
    let pair = |at| Ok((NodeHandle(from.at(at)?), NodeHandle(to.at(at)?)));
    (0..count).map(pair).collect()
}

/// Refuses edges of other kinds than the default.
fn check_edges(edges: In<Edge>, count: usize) -> Result<(), Code> {
    if edges.is_null() {
        return Ok(());
    }
    for at in 0..count {
        if edges.at(at)? != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
    }
    Ok(())
}

/// Writes parallel arrays, up to the caller's capacity, with zeros after the last value. If no array is given, only
/// the number of elements is written.
fn write_arrays(columns: &[(Host, Vec<u64>)], room: Out<usize>) -> Result<(), Code> {
    let count_output = room.required()?;
    let count = columns.first().map_or(0, |(_, values)| values.len());
    let requested: Vec<_> = columns
        .iter()
        .filter(|(array, _)| array.address() != 0)
        .collect();
    if requested.is_empty() {
        return count_output.set(count);
    }
    let room = count_output.get()?;
    let bytes = room.checked_mul(8).ok_or(Code::INVALID_VALUE)?;
    for (array, values) in requested {
        let values = values.iter().copied().chain(std::iter::repeat(0));
        let cells = array.bytes_mut(bytes)?.chunks_exact_mut(8);
        for (cell, value) in cells.zip(values) {
            cell.copy_from_slice(&value.to_le_bytes());
        }
    }
    count_output.set(count.min(room))
}

fn handles(nodes: &[NodeHandle]) -> Vec<u64> {
    nodes.iter().map(|node| node.0).collect()
}

/// The two ends of all edges as parallel arrays.
fn columns(driver: &Driver, graph: Host) -> Result<(Vec<u64>, Vec<u64>), Code> {
    let edges = driver.edges_of(graph_of(graph))?;
    Ok(edges.iter().map(|(from, to)| (from.0, to.0)).unzip())
}

fn plain(count: usize) -> Vec<u64> {
    vec![0; count]
}

entries! {
    /// Creates an empty graph.
    fn cuGraphCreate(graph: Out<u64>, flags: u32) |driver| {
        let graph = graph.required()?;
        driver.check_context()?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        graph.set(driver.create_graph()?.0)
    }

    /// Destroys a graph.
    fn cuGraphDestroy(graph: Host) |driver| { driver.destroy_graph(graph_of(graph)) }

    /// Copies a graph.
    fn cuGraphClone(clone: Out<u64>, original: Host) |driver| {
        let clone = clone.required()?;
        clone.set(driver.clone_graph(graph_of(original))?.0)
    }

    /// The copy of a node in a clone of its graph.
    fn cuGraphNodeFindInClone(found: Out<u64>, node: Host, clone: Host) |driver| {
        let found = found.required()?;
        found.set(driver.find_in_clone(node_of(node), graph_of(clone))?.0)
    }

    /// The kind of a node.
    fn cuGraphNodeGetType(node: Host, kind: Out<u32>) |driver| {
        kind.set(driver.work_of(node_of(node))?.kind())
    }

    /// The graph that contains a node.
    fn cuGraphNodeGetContainingGraph(node: Host, graph: Out<u64>) |driver| {
        graph.set(driver.graph_of(node_of(node))?.0)
    }

    /// The nodes of a graph.
    fn cuGraphGetNodes(graph: Host, nodes: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.nodes_of(graph_of(graph))?);
        write_arrays(&[(nodes, found)], count)
    }

    /// The nodes without dependencies.
    fn cuGraphGetRootNodes(graph: Host, nodes: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.roots_of(graph_of(graph))?);
        write_arrays(&[(nodes, found)], count)
    }

    /// Every dependency of a graph.
    fn cuGraphGetEdges(graph: Host, from: Host, to: Host, count: Out<usize>) |driver| {
        let (sources, targets) = columns(driver, graph)?;
        write_arrays(&[(from, sources), (to, targets)], count)
    }

    /// Every dependency of a graph, with edge data.
    fn cuGraphGetEdges_v2(graph: Host, from: Host, to: Host, edges: Host, count: Out<usize>) |driver| {
        let (sources, targets) = columns(driver, graph)?;
        let between = plain(sources.len());
        write_arrays(&[(from, sources), (to, targets), (edges, between)], count)
    }

    /// The dependencies of a node.
    fn cuGraphNodeGetDependencies(node: Host, dependencies: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.dependencies_of(node_of(node))?);
        write_arrays(&[(dependencies, found)], count)
    }

    /// The dependencies of a node, with edge data.
    fn cuGraphNodeGetDependencies_v2(node: Host, dependencies: Host, edges: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.dependencies_of(node_of(node))?);
        let between = plain(found.len());
        write_arrays(&[(dependencies, found), (edges, between)], count)
    }

    /// The nodes that depend on a node.
    fn cuGraphNodeGetDependentNodes(node: Host, dependents: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.dependents_of(node_of(node))?);
        write_arrays(&[(dependents, found)], count)
    }

    /// The nodes that depend on a node, with edge data.
    fn cuGraphNodeGetDependentNodes_v2(node: Host, dependents: Host, edges: Host, count: Out<usize>) |driver| {
        let found = handles(&driver.dependents_of(node_of(node))?);
        let between = plain(found.len());
        write_arrays(&[(dependents, found), (edges, between)], count)
    }

    /// Adds dependencies between nodes.
    fn cuGraphAddDependencies(graph: Host, from: In<u64>, to: In<u64>, count: usize) |driver| {
        driver.nodes_of(graph_of(graph))?;
        driver.add_dependencies(graph_of(graph), &pairs(from, to, count)?)
    }

    /// Adds dependencies with edge data.
    fn cuGraphAddDependencies_v2(graph: Host, from: In<u64>, to: In<u64>, edges: In<Edge>, count: usize) |driver| {
        driver.nodes_of(graph_of(graph))?;
        check_edges(edges, count)?;
        driver.add_dependencies(graph_of(graph), &pairs(from, to, count)?)
    }

    /// Removes dependencies between nodes.
    fn cuGraphRemoveDependencies(graph: Host, from: In<u64>, to: In<u64>, count: usize) |driver| {
        driver.nodes_of(graph_of(graph))?;
        driver.remove_dependencies(graph_of(graph), &pairs(from, to, count)?)
    }

    /// Removes dependencies with edge data.
    fn cuGraphRemoveDependencies_v2(graph: Host, from: In<u64>, to: In<u64>, edges: In<Edge>, count: usize) |driver| {
        driver.nodes_of(graph_of(graph))?;
        check_edges(edges, count)?;
        driver.remove_dependencies(graph_of(graph), &pairs(from, to, count)?)
    }

    /// Removes a node.
    fn cuGraphDestroyNode(node: Host) |driver| { driver.remove_node(node_of(node)) }

    /// Writes the graph in Graphviz's language. The flags, which select details, are ignored.
    fn cuGraphDebugDotPrint(graph: Host, path: CallerString, _flags: u32) |driver| {
        let path = path.str()?;
        let drawing = driver.draw_graph(graph_of(graph))?;
        fs::write(path, drawing).map_err(|_| Code::OPERATING_SYSTEM)
    }
}
