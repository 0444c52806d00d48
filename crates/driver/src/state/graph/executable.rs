//! Executables: instantiated graphs, checked for cycles, which can be launched many times.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::code::Code;
use crate::handle::{ContextHandle, ExecutableHandle, GraphHandle, NodeHandle, StreamHandle};
use crate::state::Driver;

use super::{Node, Owner, Work};

/// Flag: on launch, free what a former launch allocated. Graphs here allocate no memory.
const AUTO_FREE: u64 = 1;
/// Flag: upload at once.
const UPLOAD: u64 = 2;
/// Flag: launch from the device, which the emulated device does not support.
const DEVICE_LAUNCH: u64 = 4;
/// Flag: nodes keep their priorities.
const NODE_PRIORITY: u64 = 8;

#[derive(Debug)]
pub(super) struct Executable {
    pub(super) context: ContextHandle,
    /// A copy of the graph, to which no caller has a handle.
    graph: GraphHandle,
    flags: u64,
}

/// The reason why an executable was not updated from a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateError {
    /// The call is refused with this error.
    Refused(Code),
    /// The graph does not match the executable.
    Mismatch(Mismatch),
}

impl From<Code> for UpdateError {
    fn from(code: Code) -> Self {
        Self::Refused(code)
    }
}

impl From<Mismatch> for UpdateError {
    fn from(mismatch: Mismatch) -> Self {
        Self::Mismatch(mismatch)
    }
}

/// The first difference by which a graph does not match an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// The reason, by the API's number (`CUgraphExecUpdateResult`).
    pub result: u32,
    /// The first node of the graph that does not match, if the reason is a node.
    pub node: Option<NodeHandle>,
}

impl Mismatch {
    const TOPOLOGY: u32 = 2;
    const KIND: u32 = 3;
    const PARAMETERS: u32 = 5;
    const ATTRIBUTES: u32 = 8;

    fn of(result: u32, node: NodeHandle) -> Self {
        Self {
            result,
            node: Some(node),
        }
    }
}

/// A graph launch in progress: the remaining steps, and the modelled times at which the others ended.
#[derive(Debug)]
pub struct GraphLaunch {
    stream: StreamHandle,
    began: f64,
    ends: Vec<f64>,
    steps: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    work: Work,
    /// Indices of the steps that this one waits for.
    dependencies: Vec<usize>,
}

impl GraphLaunch {
    /// The stream that the graph is launched on.
    #[must_use]
    pub fn stream(&self) -> StreamHandle {
        self.stream
    }
}

impl Driver {
    /// Instantiates a graph.
    ///
    /// # Errors
    /// When the handle is stale, a flag is unknown or contradicts another, or the nodes depend on each other in a
    /// cycle.
    pub fn instantiate(
        &mut self,
        graph: GraphHandle,
        flags: u64,
        may_upload: bool,
    ) -> Result<ExecutableHandle, Code> {
        let context = self.usable_context()?;
        self.graph_of_caller(graph)?;
        let known = AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY | if may_upload { UPLOAD } else { 0 };
        if flags & !known != 0 || flags & AUTO_FREE != 0 && flags & DEVICE_LAUNCH != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if flags & DEVICE_LAUNCH != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        if !self.is_acyclic(graph) {
            return Err(Code::INVALID_VALUE);
        }
        let graph = self.copy_graph(graph, Owner::Executable)?;
        let handle = ExecutableHandle::nth(self.next_serial());
        let executable = Executable {
            context,
            graph,
            flags,
        };
        self.graphs.executables.insert(handle, executable);
        Ok(handle)
    }

    /// The flags an executable was made with.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn executable_flags(&self, executable: ExecutableHandle) -> Result<u64, Code> {
        Ok(self.executable(executable)?.flags)
    }

    /// Destroys an executable.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn destroy_executable(&mut self, executable: ExecutableHandle) -> Result<(), Code> {
        let graph = self.executable(executable)?.graph;
        self.graphs.executables.remove(&executable);
        self.drop_graph(graph);
        Ok(())
    }

    fn executable(&self, handle: ExecutableHandle) -> Result<&Executable, Code> {
        self.usable_context()?;
        let executable = self.graphs.executables.get(&handle);
        executable.ok_or(Code::INVALID_VALUE)
    }

    /// The copy of a graph's node in an executable.
    fn executable_node_mut(
        &mut self,
        executable: ExecutableHandle,
        node: NodeHandle,
    ) -> Result<&mut Node, Code> {
        let graph = self.executable(executable)?.graph;
        let graph = self.graphs.graphs.get_mut(&graph);
        graph
            .and_then(|graph| {
                graph
                    .nodes
                    .values_mut()
                    .find(|copy| copy.original == Some(node))
            })
            .ok_or(Code::INVALID_VALUE)
    }

    /// Replaces the work of a node of an executable. The graph that it was instantiated from does not change.
    ///
    /// # Errors
    /// When a handle is stale, the work is of another kind or would be refused on a stream, or a kernel would become
    /// cooperative or stop being so.
    pub fn set_executable_work(
        &mut self,
        executable: ExecutableHandle,
        node: NodeHandle,
        work: Work,
    ) -> Result<(), Code> {
        let old = self.executable_node_mut(executable, node)?.work.clone();
        self.check_work(&work)?;
        let work = match (&old, work) {
            (Work::Child(old), Work::Child(new)) => {
                self.compare(*old, new).map_err(|_| Code::INVALID_VALUE)?;
                let copy = self.copy_graph(new, Owner::Node)?;
                self.drop_graph(*old);
                Work::Child(copy)
            }
            (old, new) => {
                changes_of(old, &new).map_err(|_| Code::INVALID_VALUE)?;
                new
            }
        };
        self.executable_node_mut(executable, node)?.work = work;
        Ok(())
    }

    /// Returns true if a node of an executable is enabled.
    ///
    /// # Errors
    /// When a handle is stale, or the node is of a kind that cannot be disabled.
    pub fn is_enabled(
        &mut self,
        executable: ExecutableHandle,
        node: NodeHandle,
    ) -> Result<bool, Code> {
        let node = self.executable_node_mut(executable, node)?;
        match node.work {
            Work::Kernel(_) | Work::Copy(_) | Work::Fill(_) => Ok(node.enabled),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Enables or disables a node of an executable.
    ///
    /// # Errors
    /// As [`Self::is_enabled`].
    pub fn set_enabled(
        &mut self,
        executable: ExecutableHandle,
        node: NodeHandle,
        enabled: bool,
    ) -> Result<(), Code> {
        self.is_enabled(executable, node)?;
        self.executable_node_mut(executable, node)?.enabled = enabled;
        Ok(())
    }

    /// Updates the work of an executable's nodes from a graph of the same topology.
    ///
    /// # Errors
    /// When a handle is stale, or the graph does not match. The executable is unchanged then.
    pub fn update_executable(
        &mut self,
        executable: ExecutableHandle,
        graph: GraphHandle,
    ) -> Result<(), UpdateError> {
        let old = self.executable(executable)?.graph;
        self.graph_of_caller(graph)?;
        self.compare(old, graph)?;
        let enabled: Vec<bool> = {
            let nodes = self.graphs.graphs[&old].nodes.values();
            nodes.map(|node| node.enabled).collect()
        };
        // Callers go on naming the nodes of the graph that the executable was made from.
        let originals: Vec<Option<NodeHandle>> = {
            let nodes = self.graphs.graphs[&old].nodes.values();
            nodes.map(|node| node.original).collect()
        };
        let fresh = self.copy_graph(graph, Owner::Executable)?;
        let nodes = self.graphs.graphs.get_mut(&fresh);
        let nodes = nodes.expect("made above").nodes.values_mut();
        for ((node, enabled), original) in nodes.zip(enabled).zip(originals) {
            node.enabled = enabled;
            node.original = original;
        }
        if let Some(executable) = self.graphs.executables.get_mut(&executable) {
            executable.graph = fresh;
        }
        self.drop_graph(old);
        Ok(())
    }

    /// Compares the nodes and dependencies of two graphs, with nodes paired in order of creation.
    fn compare(&self, old: GraphHandle, new: GraphHandle) -> Result<(), Mismatch> {
        let (old, new) = (
            &self.graphs.graphs[&old].nodes,
            &self.graphs.graphs[&new].nodes,
        );
        if old.len() != new.len() {
            return Err(Mismatch {
                result: Mismatch::TOPOLOGY,
                node: None,
            });
        }
        let pairs: HashMap<NodeHandle, NodeHandle> =
            old.keys().copied().zip(new.keys().copied()).collect();
        for ((_, before), (handle, after)) in old.iter().zip(new) {
            let mut expected: Vec<NodeHandle> =
                before.dependencies.iter().map(|n| pairs[n]).collect();
            let mut found = after.dependencies.clone();
            expected.sort_unstable();
            found.sort_unstable();
            if expected != found {
                return Err(Mismatch::of(Mismatch::TOPOLOGY, *handle));
            }
            match (&before.work, &after.work) {
                (Work::Child(before), Work::Child(after)) => self.compare(*before, *after)?,
                (before, after) => {
                    changes_of(before, after).map_err(|result| Mismatch::of(result, *handle))?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if no node of a graph depends on itself, directly or through others.
    fn is_acyclic(&self, graph: GraphHandle) -> bool {
        let nodes = &self.graphs.graphs[&graph].nodes;
        let inner = nodes.values().all(|node| match node.work {
            Work::Child(child) => self.is_acyclic(child),
            _ => true,
        });
        inner && topological_order(nodes).len() == nodes.len()
    }

    /// Begins the launch of an executable; `None` if the launch was captured.
    ///
    /// # Errors
    /// When a handle is stale, or the stream cannot take work.
    pub fn begin_graph_launch(
        &mut self,
        executable: ExecutableHandle,
        stream: StreamHandle,
    ) -> Result<Option<GraphLaunch>, Code> {
        let graph = self.executable(executable)?.graph;
        if let Some(stream_key) = self.route(stream)? {
            self.append_captured(stream_key, Work::Child(graph))?;
            return Ok(None);
        }
        let mut steps = Vec::new();
        self.append_steps(graph, &[], &mut steps);
        let began = self.moment(stream);
        Ok(Some(GraphLaunch {
            stream,
            began,
            ends: Vec::with_capacity(steps.len()),
            steps: steps.into(),
        }))
    }

    /// Appends a graph's steps in topological order and returns the indices of the steps that no other step waits
    /// for.
    fn append_steps(
        &self,
        graph: GraphHandle,
        entry: &[usize],
        steps: &mut Vec<Step>,
    ) -> Vec<usize> {
        let nodes = &self.graphs.graphs[&graph].nodes;
        let mut numbers = HashMap::new();
        let mut exits: BTreeMap<NodeHandle, usize> = BTreeMap::new();
        for handle in topological_order(nodes) {
            let node = &nodes[&handle];
            let mut dependencies: Vec<usize> = node
                .dependencies
                .iter()
                .map(|dependency| numbers[dependency])
                .collect();
            if dependencies.is_empty() {
                dependencies.extend(entry);
            }
            let work = match &node.work {
                Work::Child(child) => {
                    // An empty step before the inner steps and one after them keep the number of dependencies as
                    // small as the caller declared it.
                    let entry = steps.len();
                    steps.push(Step {
                        work: Work::Empty,
                        dependencies: std::mem::take(&mut dependencies),
                    });
                    dependencies = self.append_steps(*child, &[entry], steps);
                    dependencies.push(entry);
                    Work::Empty
                }
                work if node.enabled => work.clone(),
                _ => Work::Empty,
            };
            for dependency in &node.dependencies {
                exits.remove(dependency);
            }
            numbers.insert(handle, steps.len());
            exits.insert(handle, steps.len());
            steps.push(Step { work, dependencies });
        }
        exits.into_values().collect()
    }

    /// Removes and returns the work of the next step, and sets the stream's clock to the time at which it can begin.
    /// `None` at the end.
    pub fn next_step(&mut self, launch: &mut GraphLaunch) -> Option<Work> {
        let Some(step) = launch.steps.pop_front() else {
            let end = launch.ends.iter().copied().fold(launch.began, f64::max);
            self.set_moment(launch.stream, end);
            return None;
        };
        let ready = step
            .dependencies
            .iter()
            .map(|dependency| launch.ends[*dependency]);
        let ready = ready.fold(launch.began, f64::max);
        self.set_moment(launch.stream, ready);
        Some(step.work)
    }

    /// Records the end of a step.
    pub fn end_step(&mut self, launch: &mut GraphLaunch) {
        launch.ends.push(self.moment(launch.stream));
    }

    /// Executes part of a launch with capture switched off for all streams.
    pub fn without_capture<R>(&mut self, part: impl FnOnce(&mut Self) -> R) -> R {
        self.graphs.launching = true;
        let answer = part(self);
        self.graphs.launching = false;
        answer
    }
}

/// Checks that a node of an executable can take the other work. The error is the API's reason number.
fn changes_of(before: &Work, after: &Work) -> Result<(), u32> {
    match (before, after) {
        (Work::Kernel(before), Work::Kernel(after)) if before.cooperative != after.cooperative => {
            Err(Mismatch::ATTRIBUTES)
        }
        (Work::Copy(before), Work::Copy(after))
            if before.source.memory_type != after.source.memory_type
                || before.destination.memory_type != after.destination.memory_type =>
        {
            Err(Mismatch::PARAMETERS)
        }
        (Work::Fill(before), Work::Fill(after))
            if (before.height > 1 || after.height > 1)
                && (before.width, before.height) != (after.width, after.height) =>
        {
            Err(Mismatch::PARAMETERS)
        }
        _ if before.kind() != after.kind() => Err(Mismatch::KIND),
        _ => Ok(()),
    }
}

/// Nodes in topological order. Nodes of a cycle and those that depend on them are missing.
fn topological_order(nodes: &BTreeMap<NodeHandle, Node>) -> Vec<NodeHandle> {
    let mut waiting: HashMap<NodeHandle, usize> = HashMap::new();
    let mut dependents: HashMap<NodeHandle, Vec<NodeHandle>> = HashMap::new();
    let mut ready = VecDeque::new();
    for (handle, node) in nodes {
        if node.dependencies.is_empty() {
            ready.push_back(*handle);
        }
        waiting.insert(*handle, node.dependencies.len());
        for dependency in &node.dependencies {
            dependents.entry(*dependency).or_default().push(*handle);
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(handle) = ready.pop_front() {
        order.push(handle);
        for dependent in dependents.remove(&handle).unwrap_or_default() {
            let left = waiting.get_mut(&dependent).expect("every node is counted");
            *left -= 1;
            if *left == 0 {
                ready.push_back(dependent);
            }
        }
    }
    order
}
