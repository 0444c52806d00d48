//! Graphs: work that is described once and launched many times.
//!
//! A graph is a set of nodes; each has some [`Work`] and dependencies. [`capture`] builds graphs from the work that
//! is enqueued on streams, [`executable`] instantiates them for launching. Handles of graphs and nodes are checked
//! like all others. A caller cannot destroy a graph that a node or an executable owns.

mod capture;
mod executable;
mod user_object;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::thread::ThreadId;

use crate::code::Code;
use crate::handle::{ContextHandle, ExecutableHandle, GraphHandle, NodeHandle, UserObjectHandle};

use super::Driver;

pub use capture::{CaptureMode, CaptureState};
pub use executable::{GraphLaunch, Mismatch, UpdateError};
pub use work::{CopyLocation, CopyWork, FillWork, HostWork, KernelWork, MemoryType, Work};

/// Most nodes of all graphs together, because nested graphs grow quickly; no known program comes near this number.
const MAX_NODES: usize = 1 << 17;

/// All graphs, executables, captures and user objects of the process.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    graphs: BTreeMap<GraphHandle, Graph>,
    /// The graph that contains each node.
    graph_by_node: BTreeMap<NodeHandle, GraphHandle>,
    executables: BTreeMap<ExecutableHandle, executable::Executable>,
    captures: BTreeMap<u64, capture::Capture>,
    /// Streams that take part in a capture.
    members: HashMap<capture::StreamKey, capture::Member>,
    modes: HashMap<ThreadId, CaptureMode>,
    user_objects: BTreeMap<UserObjectHandle, user_object::UserObject>,
    /// True while a graph is being launched: its work is not captured again.
    launching: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Caller,
    Capture,
    Node,
    Executable,
}

#[derive(Debug)]
struct Graph {
    context: ContextHandle,
    owner: Owner,
    /// Nodes in order of creation.
    nodes: BTreeMap<NodeHandle, Node>,
    /// Number of references that the graph holds to each user object.
    user_objects: BTreeMap<UserObjectHandle, u64>,
}

#[derive(Debug)]
struct Node {
    work: Work,
    dependencies: Vec<NodeHandle>,
    /// The node this one was copied from.
    original: Option<NodeHandle>,
    enabled: bool,
    /// Addresses of the kernel's parameters, for a caller that asked for them.
    shown: Vec<u64>,
}

impl Driver {
    /// Creates an empty graph.
    ///
    /// # Errors
    /// Without a context.
    pub fn create_graph(&mut self) -> Result<GraphHandle, Code> {
        let context = self.usable_context()?;
        Ok(self.new_graph(context, Owner::Caller))
    }

    fn new_graph(&mut self, context: ContextHandle, owner: Owner) -> GraphHandle {
        let handle = GraphHandle::nth(self.next_serial());
        self.graphs.graphs.insert(
            handle,
            Graph {
                context,
                owner,
                nodes: BTreeMap::new(),
                user_objects: BTreeMap::new(),
            },
        );
        handle
    }

    /// Destroys a graph with its nodes. Executables made of it stay.
    ///
    /// # Errors
    /// When the handle is stale, or the graph belongs to a node or to a capture.
    pub fn destroy_graph(&mut self, graph: GraphHandle) -> Result<(), Code> {
        let captured = self.graphs.captures.values();
        if self.graph_of_caller(graph)?.owner != Owner::Caller
            || captured.into_iter().any(|capture| capture.fills(graph))
        {
            return Err(Code::INVALID_VALUE);
        }
        self.drop_graph(graph);
        Ok(())
    }

    fn drop_graph(&mut self, handle: GraphHandle) {
        let Some(graph) = self.graphs.graphs.remove(&handle) else {
            return;
        };
        self.drop_references(&graph.user_objects);
        for (node, Node { work, .. }) in graph.nodes {
            self.graphs.graph_by_node.remove(&node);
            if let Work::Child(child) = work {
                self.drop_graph(child);
            }
        }
    }

    /// Copies a graph.
    ///
    /// # Errors
    /// When the handle is stale, or there would be too many nodes.
    pub fn clone_graph(&mut self, graph: GraphHandle) -> Result<GraphHandle, Code> {
        self.graph_of_caller(graph)?;
        self.copy_graph(graph, Owner::Caller)
    }

    fn copy_graph(&mut self, original: GraphHandle, owner: Owner) -> Result<GraphHandle, Code> {
        self.check_node_capacity(self.count_nodes(original))?;
        Ok(self.copy_graph_within_capacity(original, owner))
    }

    /// Copies a graph, whose nodes the caller has checked against the limit.
    fn copy_graph_within_capacity(&mut self, original: GraphHandle, owner: Owner) -> GraphHandle {
        let graph = &self.graphs.graphs[&original];
        let context = graph.context;
        let user_objects = graph.user_objects.clone();
        let nodes: Vec<_> = graph
            .nodes
            .iter()
            .map(|(handle, node)| (*handle, node.work.clone(), node.dependencies.clone()))
            .collect();
        let copy = self.new_graph(context, owner);
        self.add_copied_references(&user_objects);
        if let Some(graph) = self.graphs.graphs.get_mut(&copy) {
            graph.user_objects = user_objects;
        }
        let mut copies = HashMap::new();
        for (handle, ..) in &nodes {
            copies.insert(*handle, NodeHandle::nth(self.next_serial()));
        }
        for (handle, work, dependencies) in nodes {
            let work = match work {
                Work::Child(child) => {
                    Work::Child(self.copy_graph_within_capacity(child, Owner::Node))
                }
                other => other,
            };
            let dependencies = dependencies
                .iter()
                .map(|dependency| copies[dependency])
                .collect();
            self.insert_node(copy, copies[&handle], work, dependencies, Some(handle));
        }
        copy
    }

    /// Number of nodes of a graph, including those of its child graphs.
    fn count_nodes(&self, graph: GraphHandle) -> usize {
        let nodes = self.graphs.graphs[&graph].nodes.values();
        nodes
            .map(|node| match node.work {
                Work::Child(child) => 1 + self.count_nodes(child),
                _ => 1,
            })
            .sum()
    }

    fn check_node_capacity(&self, nodes: usize) -> Result<(), Code> {
        if self.graphs.graph_by_node.len() + nodes > MAX_NODES {
            return Err(Code::OUT_OF_MEMORY);
        }
        Ok(())
    }

    fn insert_node(
        &mut self,
        graph: GraphHandle,
        handle: NodeHandle,
        work: Work,
        dependencies: Vec<NodeHandle>,
        original: Option<NodeHandle>,
    ) {
        let node = Node {
            work,
            dependencies,
            original,
            enabled: true,
            shown: Vec::new(),
        };
        self.graphs.graph_by_node.insert(handle, graph);
        let containing = self.graphs.graphs.get_mut(&graph);
        containing
            .expect("the graph was looked up")
            .nodes
            .insert(handle, node);
    }

    /// Adds a node with dependencies. A graph that becomes a node is copied.
    ///
    /// # Errors
    /// When a handle is stale or named twice, or the work would be refused on a stream.
    pub fn add_node(
        &mut self,
        graph: GraphHandle,
        dependencies: &[NodeHandle],
        work: Work,
    ) -> Result<NodeHandle, Code> {
        self.graph_of_caller(graph)?;
        self.check_dependencies(graph, dependencies)?;
        self.check_work(&work)?;
        self.append_node(graph, dependencies.to_vec(), work)
    }

    fn append_node(
        &mut self,
        graph: GraphHandle,
        dependencies: Vec<NodeHandle>,
        work: Work,
    ) -> Result<NodeHandle, Code> {
        self.check_node_capacity(1)?;
        let work = match work {
            Work::Child(child) => Work::Child(self.copy_graph(child, Owner::Node)?),
            other => other,
        };
        let handle = NodeHandle::nth(self.next_serial());
        self.insert_node(graph, handle, work, dependencies, None);
        Ok(handle)
    }

    /// Checks that nodes are in a graph, and that each is named once.
    fn check_dependencies(
        &self,
        graph: GraphHandle,
        dependencies: &[NodeHandle],
    ) -> Result<(), Code> {
        let mut seen = BTreeSet::new();
        let mut fit = dependencies.iter().map(|dependency| {
            self.graphs.graph_by_node.get(dependency) == Some(&graph) && seen.insert(*dependency)
        });
        if fit.all(|fits| fits) {
            Ok(())
        } else {
            Err(Code::INVALID_VALUE)
        }
    }

    /// Removes a node and its dependencies in both directions.
    ///
    /// # Errors
    /// When the handle is stale, or the graph is being captured.
    pub fn remove_node(&mut self, node: NodeHandle) -> Result<(), Code> {
        let containing = self.graph_of(node)?;
        if self.graphs.captures.values().any(|c| c.fills(containing)) {
            return Err(Code::INVALID_VALUE);
        }
        let graph = self.graphs.graphs.get_mut(&containing);
        let nodes = &mut graph.expect("a node's graph is alive").nodes;
        let gone = nodes.remove(&node);
        for other in nodes.values_mut() {
            other.dependencies.retain(|dependency| *dependency != node);
        }
        self.graphs.graph_by_node.remove(&node);
        if let Some(Work::Child(child)) = gone.map(|gone| gone.work) {
            self.drop_graph(child);
        }
        Ok(())
    }

    /// The nodes of a graph in order of creation.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn nodes_of(&self, graph: GraphHandle) -> Result<Vec<NodeHandle>, Code> {
        Ok(self.graph_of_caller(graph)?.nodes.keys().copied().collect())
    }

    /// The nodes without dependencies.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn roots_of(&self, graph: GraphHandle) -> Result<Vec<NodeHandle>, Code> {
        let nodes = self.graph_of_caller(graph)?.nodes.iter();
        let roots = nodes.filter(|(_, node)| node.dependencies.is_empty());
        Ok(roots.map(|(handle, _)| *handle).collect())
    }

    /// Every dependency: the node that is waited for, and the node that waits.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn edges_of(&self, graph: GraphHandle) -> Result<Vec<(NodeHandle, NodeHandle)>, Code> {
        let nodes = self.graph_of_caller(graph)?.nodes.iter();
        Ok(nodes
            .flat_map(|(handle, node)| {
                node.dependencies
                    .iter()
                    .map(|dependency| (*dependency, *handle))
            })
            .collect())
    }

    /// The dependencies of a node.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn dependencies_of(&self, node: NodeHandle) -> Result<Vec<NodeHandle>, Code> {
        Ok(self.node(node)?.dependencies.clone())
    }

    /// The nodes that depend on a node.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn dependents_of(&self, node: NodeHandle) -> Result<Vec<NodeHandle>, Code> {
        let containing = self.graph_of(node)?;
        let nodes = self.graphs.graphs[&containing].nodes.iter();
        let dependents = nodes.filter(|(_, other)| other.dependencies.contains(&node));
        Ok(dependents.map(|(handle, _)| *handle).collect())
    }

    /// Adds dependencies; in each pair the second node waits for the first.
    ///
    /// # Errors
    /// When a handle is stale, a node would wait for itself, or the dependency exists already.
    pub fn add_dependencies(
        &mut self,
        graph: GraphHandle,
        pairs: &[(NodeHandle, NodeHandle)],
    ) -> Result<(), Code> {
        self.change_dependencies(graph, pairs, |dependencies, from| {
            if dependencies.contains(&from) {
                return Err(Code::INVALID_VALUE);
            }
            dependencies.push(from);
            Ok(())
        })
    }

    /// Removes dependencies, given as pairs.
    ///
    /// # Errors
    /// When a handle is stale, or there is no such dependency.
    pub fn remove_dependencies(
        &mut self,
        graph: GraphHandle,
        pairs: &[(NodeHandle, NodeHandle)],
    ) -> Result<(), Code> {
        self.change_dependencies(graph, pairs, |dependencies, from| {
            let at = dependencies
                .iter()
                .position(|dependency| *dependency == from);
            dependencies.remove(at.ok_or(Code::INVALID_VALUE)?);
            Ok(())
        })
    }

    /// Changes dependencies: either all the given pairs, or none.
    fn change_dependencies(
        &mut self,
        graph: GraphHandle,
        pairs: &[(NodeHandle, NodeHandle)],
        change: impl Fn(&mut Vec<NodeHandle>, NodeHandle) -> Result<(), Code>,
    ) -> Result<(), Code> {
        self.graph_of_caller(graph)?;
        let mut changed: BTreeMap<NodeHandle, Vec<NodeHandle>> = BTreeMap::new();
        for (from, to) in pairs {
            self.check_dependencies(graph, &[*from, *to])?;
            if !changed.contains_key(to) {
                changed.insert(*to, self.dependencies_of(*to)?);
            }
            let dependencies = changed.get_mut(to).expect("inserted above");
            change(dependencies, *from)?;
        }
        for (node, dependencies) in changed {
            self.node_mut(node)?.dependencies = dependencies;
        }
        Ok(())
    }

    /// The work of a node.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn work_of(&self, node: NodeHandle) -> Result<&Work, Code> {
        Ok(&self.node(node)?.work)
    }

    /// Replaces the work of a node by work of the same kind.
    ///
    /// # Errors
    /// When the handle is stale, the kind is another, or the work would be refused on a stream.
    pub fn set_work(&mut self, node: NodeHandle, work: Work) -> Result<(), Code> {
        let kind = self.node(node)?.work.kind();
        self.check_work(&work)?;
        if kind != work.kind() || matches!(work, Work::Child(_)) {
            return Err(Code::INVALID_VALUE);
        }
        self.node_mut(node)?.work = work;
        Ok(())
    }

    /// Address of an array with the addresses of a kernel node's parameters. It is valid until the parameters change.
    ///
    /// # Errors
    /// When the handle is stale, or the node does not launch a kernel.
    pub fn parameter_addresses(&mut self, node: NodeHandle) -> Result<u64, Code> {
        let Work::Kernel(kernel) = self.work_of(node)? else {
            return Err(Code::INVALID_VALUE);
        };
        let block = kernel.parameters.as_ptr() as u64;
        let slots = self.parameters(kernel.function)?;
        let addresses = slots.iter().map(|slot| block + slot.offset as u64);
        let addresses = addresses.collect();
        let node = self.node_mut(node)?;
        node.shown = addresses;
        Ok(node.shown.as_ptr() as u64)
    }

    /// The copy of a node in a copy of its graph.
    ///
    /// # Errors
    /// When a handle is stale, or the one graph is not a copy of the other.
    pub fn find_in_clone(&self, node: NodeHandle, clone: GraphHandle) -> Result<NodeHandle, Code> {
        self.graph_of(node)?;
        self.graph_of_caller(clone)?
            .nodes
            .iter()
            .find(|(_, copy)| copy.original == Some(node))
            .map(|(handle, _)| *handle)
            .ok_or(Code::INVALID_VALUE)
    }

    /// The child graph that a node executes.
    ///
    /// # Errors
    /// When the handle is stale, or the node is not a child graph.
    pub fn child_graph(&self, node: NodeHandle) -> Result<GraphHandle, Code> {
        match self.work_of(node)? {
            Work::Child(graph) => Ok(*graph),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// The graph in Graphviz's language.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn draw_graph(&self, graph: GraphHandle) -> Result<String, Code> {
        let mut text = String::from("digraph {\n");
        for (handle, node) in &self.graph_of_caller(graph)?.nodes {
            let label = match &node.work {
                Work::Kernel(kernel) => self.function_name(kernel.function).unwrap_or_default(),
                other => other.title().to_owned(),
            };
            let label = label.replace('"', "\\\"");
            let _ = writeln!(text, "  n{:x} [label=\"{label}\"];", handle.0);
            for dependency in &node.dependencies {
                let _ = writeln!(text, "  n{:x} -> n{:x};", dependency.0, handle.0);
            }
        }
        text.push_str("}\n");
        Ok(text)
    }

    /// A graph whose handle a caller may use.
    fn graph_of_caller(&self, handle: GraphHandle) -> Result<&Graph, Code> {
        self.usable_context()?;
        let graph = self.graphs.graphs.get(&handle);
        let graph = graph.filter(|graph| !self.is_hidden(graph));
        graph.ok_or(Code::INVALID_VALUE)
    }

    /// Returns true if a graph is part of an executable; callers never get handles of such graphs.
    fn is_hidden(&self, graph: &Graph) -> bool {
        graph.owner == Owner::Executable
    }

    /// The graph that contains a node.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn graph_of(&self, node: NodeHandle) -> Result<GraphHandle, Code> {
        self.usable_context()?;
        let containing = *self
            .graphs
            .graph_by_node
            .get(&node)
            .ok_or(Code::INVALID_VALUE)?;
        self.graph_of_caller(containing)?;
        Ok(containing)
    }

    fn node(&self, handle: NodeHandle) -> Result<&Node, Code> {
        let containing = self.graph_of(handle)?;
        let node = self.graphs.graphs[&containing].nodes.get(&handle);
        node.ok_or(Code::INVALID_VALUE)
    }

    fn node_mut(&mut self, handle: NodeHandle) -> Result<&mut Node, Code> {
        let containing = self.graph_of(handle)?;
        let graph = self.graphs.graphs.get_mut(&containing);
        graph
            .and_then(|graph| graph.nodes.get_mut(&handle))
            .ok_or(Code::INVALID_VALUE)
    }

    /// Drops everything that belongs to a destroyed context.
    pub(super) fn drop_graphs_of(&mut self, context: ContextHandle) {
        self.drop_captures_of(context);
        let executables = &mut self.graphs.executables;
        executables.retain(|_, executable| executable.context != context);
        let gone = self.graphs.graphs.iter();
        let gone: Vec<_> = gone
            .filter(|(_, graph)| graph.context == context)
            .map(|(handle, _)| *handle)
            .collect();
        for graph in gone {
            self.drop_graph(graph);
        }
    }

    /// Numbers of nodes, executables and others, for tests of what is left behind.
    #[cfg(test)]
    pub(crate) fn graph_objects(&self) -> [usize; 4] {
        let graphs = &self.graphs;
        [
            graphs.graphs.len(),
            graphs.graph_by_node.len(),
            graphs.executables.len(),
            graphs.captures.len() + graphs.members.len(),
        ]
    }
}
