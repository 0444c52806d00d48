//! Stream capture: enqueued work becomes nodes of a graph instead of being executed.
//!
//! A capture begins in one stream. Other streams join it by waiting for an event that was recorded in it, and must be
//! joined back before it ends. A call that would have to wait for captured work is refused and invalidates the
//! capture. An invalidated capture refuses all work until it is ended, and ending it returns an error, too.

use std::collections::BTreeSet;
use std::thread::ThreadId;

use crate::code::Code;
use crate::handle::{ContextHandle, EventHandle, GraphHandle, NodeHandle, StreamHandle};
use crate::state::Driver;

use super::{Owner, Work};

/// A stream, with the thread for the per-thread default stream, which is a different stream in every thread.
pub(super) type StreamKey = (StreamHandle, Option<ThreadId>);

/// The mode of a capture: whose calls are refused during the capture because it cannot record them
/// (`CUstreamCaptureMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaptureMode {
    /// Calls of all threads.
    #[default]
    Global,
    /// Calls of the thread that captures.
    ThreadLocal,
    /// No calls.
    Relaxed,
}

impl CaptureMode {
    /// The mode with this number.
    ///
    /// # Errors
    /// `INVALID_VALUE` when there is none.
    pub fn from_number(number: u32) -> Result<Self, Code> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

#[derive(Debug)]
pub(super) struct Capture {
    graph: GraphHandle,
    context: ContextHandle,
    origin: StreamKey,
    mode: CaptureMode,
    thread: ThreadId,
    invalidated: bool,
}

impl Capture {
    /// Returns true if this is the graph that is being captured.
    pub(super) fn fills(&self, graph: GraphHandle) -> bool {
        self.graph == graph
    }
}

/// A stream that takes part in a capture.
#[derive(Debug)]
pub(super) struct Member {
    capture: u64,
    /// Dependencies of the next captured node.
    dependencies: Vec<NodeHandle>,
    /// Their handles as numbers, for a caller that asked for them.
    shown: Vec<u64>,
}

/// The capture state of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureState {
    /// The stream is not being captured.
    None,
    /// The stream is being captured.
    Active {
        /// Number of the capture.
        id: u64,
        /// The graph under construction.
        graph: GraphHandle,
        /// Address of the handles of the next node's dependencies, valid until the stream's next call.
        dependencies: u64,
        /// Number of these dependencies.
        count: usize,
    },
    /// The stream is in a capture that was invalidated.
    Invalidated,
}

impl Driver {
    fn stream_key(&self, stream: StreamHandle) -> StreamKey {
        match stream {
            StreamHandle::LEGACY_NAMED => (StreamHandle::LEGACY, None),
            StreamHandle::PER_THREAD => (stream, Some(self.thread)),
            _ => (stream, None),
        }
    }

    /// The capture that takes a stream's work; none if the work is executed.
    pub(in crate::state) fn route(
        &mut self,
        stream: StreamHandle,
    ) -> Result<Option<StreamKey>, Code> {
        let context = self.check_stream(stream)?;
        if self.graphs.launching || self.graphs.captures.is_empty() {
            return Ok(None);
        }
        let stream_key = self.stream_key(stream);
        if let Some(member) = self.graphs.members.get(&stream_key) {
            if self.graphs.captures[&member.capture].invalidated {
                return Err(Code::STREAM_CAPTURE_INVALIDATED);
            }
            return Ok(Some(stream_key));
        }
        self.check_implicit(context, stream_key, true)?;
        Ok(None)
    }

    /// Refuses the legacy stream while a stream that synchronises with it is being captured.
    fn check_implicit(
        &mut self,
        context: ContextHandle,
        stream_key: StreamKey,
        invalidate: bool,
    ) -> Result<(), Code> {
        if stream_key.0 != StreamHandle::LEGACY {
            return Ok(());
        }
        let members = self.graphs.members.iter();
        let blocking: BTreeSet<u64> = members
            .filter(|((stream, _), _)| self.timeline.is_blocking(*stream))
            .map(|(_, member)| member.capture)
            .filter(|capture| self.graphs.captures[capture].context == context)
            .collect();
        if blocking.is_empty() {
            return Ok(());
        }
        if invalidate {
            blocking
                .iter()
                .for_each(|capture| self.invalidate(*capture));
        }
        Err(Code::STREAM_CAPTURE_IMPLICIT)
    }

    fn invalidate(&mut self, capture: u64) {
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.invalidated = true;
        }
    }

    /// Captures work instead of executing it if the stream is being captured. Returns true if it was captured.
    ///
    /// # Errors
    /// When the stream's handle is stale or it cannot take work, or the work itself is refused.
    pub fn captured(
        &mut self,
        stream: StreamHandle,
        work: impl FnOnce() -> Work,
    ) -> Result<bool, Code> {
        let Some(stream_key) = self.route(stream)? else {
            return Ok(false);
        };
        let work = work();
        self.check_work(&work)?;
        self.append_captured(stream_key, work)?;
        Ok(true)
    }

    /// Refuses work that graphs do not support if the stream is being captured.
    ///
    /// # Errors
    /// When it is being captured, or the stream's handle is stale.
    pub fn refuse_capture(&mut self, stream: StreamHandle) -> Result<(), Code> {
        let Some(stream_key) = self.route(stream)? else {
            return Ok(());
        };
        let capture = self.graphs.members[&stream_key].capture;
        self.invalidate(capture);
        Err(Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    pub(super) fn append_captured(
        &mut self,
        stream_key: StreamKey,
        work: Work,
    ) -> Result<(), Code> {
        let member = &self.graphs.members[&stream_key];
        let graph = self.graphs.captures[&member.capture].graph;
        let node = self.append_node(graph, member.dependencies.clone(), work)?;
        let member = self.graphs.members.get_mut(&stream_key);
        member.expect("looked up above").dependencies = vec![node];
        Ok(())
    }

    /// Begins the capture of a stream: into an existing graph, after some of its nodes, or into a new one.
    ///
    /// # Errors
    /// For the legacy stream, for a stream that is already being captured, or when a handle is stale.
    pub fn begin_capture(
        &mut self,
        stream: StreamHandle,
        mode: CaptureMode,
        into: Option<(GraphHandle, Vec<NodeHandle>)>,
    ) -> Result<(), Code> {
        let context = self.check_stream(stream)?;
        let stream_key = self.stream_key(stream);
        if stream_key.0 == StreamHandle::LEGACY {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.graphs.members.contains_key(&stream_key) {
            return Err(Code::ILLEGAL_STATE);
        }
        let (graph, dependencies) = match into {
            Some((graph, dependencies)) => {
                self.graph_of_caller(graph)?;
                self.check_dependencies(graph, &dependencies)?;
                (graph, dependencies)
            }
            None => (self.new_graph(context, Owner::Capture), Vec::new()),
        };
        let id = self.next_serial();
        let capture = Capture {
            graph,
            context,
            origin: stream_key,
            mode,
            thread: self.thread,
            invalidated: false,
        };
        self.graphs.captures.insert(id, capture);
        self.join(stream_key, id, dependencies);
        Ok(())
    }

    fn join(&mut self, stream_key: StreamKey, capture: u64, dependencies: Vec<NodeHandle>) {
        let member = Member {
            capture,
            dependencies,
            shown: Vec::new(),
        };
        self.graphs.members.insert(stream_key, member);
    }

    /// Ends the capture that began in a stream, and returns its graph.
    ///
    /// # Errors
    /// When the stream is not being captured or only joined a capture, when the thread is not the one that began it
    /// (unless its mode is relaxed), and when the capture was invalidated or has streams that were not joined. In the
    /// last two cases the capture is over.
    pub fn end_capture(&mut self, stream: StreamHandle) -> Result<GraphHandle, Code> {
        self.check_stream(stream)?;
        let stream_key = self.stream_key(stream);
        let member = self
            .graphs
            .members
            .get(&stream_key)
            .ok_or(Code::ILLEGAL_STATE)?;
        let id = member.capture;
        let capture = &self.graphs.captures[&id];
        if capture.origin != stream_key {
            self.invalidate(id);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != self.thread {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let verdict = if capture.invalidated {
            Err(Code::STREAM_CAPTURE_INVALIDATED)
        } else if !self.all_joined(id, stream_key) {
            Err(Code::STREAM_CAPTURE_UNJOINED)
        } else {
            Ok(capture.graph)
        };
        self.leave_capture(id, verdict.is_ok());
        verdict
    }

    /// Returns true if the last nodes of all streams of a capture are ancestors of the origin stream's last nodes.
    fn all_joined(&self, id: u64, origin: StreamKey) -> bool {
        let graph = &self.graphs.graphs[&self.graphs.captures[&id].graph];
        let mut reached = BTreeSet::new();
        let mut left = self.graphs.members[&origin].dependencies.clone();
        while let Some(node) = left.pop() {
            if reached.insert(node) {
                left.extend(
                    graph
                        .nodes
                        .get(&node)
                        .map_or(&[][..], |node| &node.dependencies),
                );
            }
        }
        let members = self.graphs.members.values();
        members
            .filter(|member| member.capture == id)
            .flat_map(|member| &member.dependencies)
            .all(|node| reached.contains(node) || !graph.nodes.contains_key(node))
    }

    /// Ends a capture for all its streams. Its graph becomes the caller's, or is dropped if it was new and `keep` is
    /// false.
    fn leave_capture(&mut self, id: u64, keep: bool) {
        self.graphs.members.retain(|_, member| member.capture != id);
        let Some(capture) = self.graphs.captures.remove(&id) else {
            return;
        };
        let graph = self.graphs.graphs.get_mut(&capture.graph);
        if let Some(graph) = graph.filter(|graph| graph.owner == Owner::Capture) {
            graph.owner = Owner::Caller;
            if !keep {
                self.drop_graph(capture.graph);
            }
        }
    }

    /// The capture state of a stream.
    ///
    /// # Errors
    /// When the handle is stale, and for the legacy stream while a stream that synchronises with it is being
    /// captured.
    pub fn capture_state(&mut self, stream: StreamHandle) -> Result<CaptureState, Code> {
        let context = self.check_stream(stream)?;
        let stream_key = self.stream_key(stream);
        let Some(member) = self.graphs.members.get_mut(&stream_key) else {
            self.check_implicit(context, stream_key, false)?;
            return Ok(CaptureState::None);
        };
        let capture = &self.graphs.captures[&member.capture];
        if capture.invalidated {
            return Ok(CaptureState::Invalidated);
        }
        member.shown = member.dependencies.iter().map(|node| node.0).collect();
        Ok(CaptureState::Active {
            id: member.capture,
            graph: capture.graph,
            dependencies: member.shown.as_ptr() as u64,
            count: member.shown.len(),
        })
    }

    /// Adds dependencies to the next captured node, or replaces them.
    ///
    /// # Errors
    /// When the stream is not being captured, or a node is not in its graph.
    pub fn set_capture_dependencies(
        &mut self,
        stream: StreamHandle,
        nodes: &[NodeHandle],
        replace: bool,
    ) -> Result<(), Code> {
        let stream_key = self.route(stream)?.ok_or(Code::ILLEGAL_STATE)?;
        let graph = self.graphs.captures[&self.graphs.members[&stream_key].capture].graph;
        self.check_dependencies(graph, nodes)?;
        let member = self.graphs.members.get_mut(&stream_key);
        let dependencies = &mut member.expect("it was routed").dependencies;
        if replace {
            dependencies.clear();
        }
        union(dependencies, nodes);
        Ok(())
    }

    /// Sets the calling thread's mode and returns the previous one.
    pub fn exchange_capture_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let old = if mode == CaptureMode::Global {
            self.graphs.modes.remove(&self.thread)
        } else {
            self.graphs.modes.insert(self.thread, mode)
        };
        old.unwrap_or_default()
    }

    /// Refuses a call that captures cannot record, as the modes of the captures and of the thread demand.
    pub(in crate::state) fn check_capture_modes(&mut self) -> Result<(), Code> {
        let mode = self.graphs.modes.get(&self.thread);
        let mode = mode.copied().unwrap_or_default();
        let mut refused = false;
        for capture in self.graphs.captures.values_mut() {
            let own = capture.thread == self.thread && capture.mode != CaptureMode::Relaxed;
            let anothers = capture.thread != self.thread && capture.mode == CaptureMode::Global;
            let prohibited = match mode {
                CaptureMode::Global => own || anothers,
                CaptureMode::ThreadLocal => own,
                CaptureMode::Relaxed => false,
            };
            capture.invalidated |= prohibited;
            refused |= prohibited;
        }
        if refused {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Refuses to wait for a captured stream, or for the legacy stream, as every synchronous call does, while a
    /// stream that synchronises with it is captured.
    pub(in crate::state) fn check_waitable(&mut self, stream: StreamHandle) -> Result<(), Code> {
        let context = self.check_stream(stream)?;
        let stream_key = self.stream_key(stream);
        if let Some(member) = self.graphs.members.get(&stream_key) {
            let capture = member.capture;
            self.invalidate(capture);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.check_implicit(context, stream_key, true)
    }

    /// Refuses to wait for a context while one of its streams is being captured.
    pub(in crate::state) fn check_no_capture_in(
        &mut self,
        context: ContextHandle,
    ) -> Result<(), Code> {
        let captures = self.graphs.captures.values_mut();
        let mut refused = false;
        for capture in captures.filter(|capture| capture.context == context) {
            capture.invalidated = true;
            refused = true;
        }
        if refused {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Refuses to query an event that a capture recorded.
    pub(in crate::state) fn check_not_captured(&mut self, event: EventHandle) -> Result<(), Code> {
        let captured = self
            .events
            .get(&event)
            .and_then(|event| event.captured.as_ref());
        let Some((capture, _)) = captured else {
            return Ok(());
        };
        let capture = *capture;
        self.invalidate(capture);
        Err(Code::CAPTURED_EVENT)
    }

    /// The capture of a stream, and the dependencies that an event recorded in it now stands for: those of the
    /// stream's next node.
    pub(in crate::state) fn captured_dependencies(
        &self,
        stream_key: StreamKey,
    ) -> (u64, Vec<NodeHandle>) {
        let member = &self.graphs.members[&stream_key];
        (member.capture, member.dependencies.clone())
    }

    /// Makes a stream wait for an event if the stream or the event is being captured. Returns true if that was so.
    ///
    /// # Errors
    /// When this would merge two captures, or make captured work depend on work that is not captured, or the reverse.
    pub(in crate::state) fn wait_captured(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<bool, Code> {
        let stream_key = self.route(stream)?;
        let found = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?;
        let was_recorded = found.recorded.is_some();
        let Some((other, dependencies)) = found.captured.clone() else {
            // An event that was never recorded is not a dependency.
            if let (Some(stream_key), true) = (stream_key, was_recorded) {
                let capture = self.graphs.members[&stream_key].capture;
                self.invalidate(capture);
                return Err(Code::STREAM_CAPTURE_ISOLATION);
            }
            return Ok(stream_key.is_some());
        };
        match self.graphs.captures.get(&other) {
            None => return Err(Code::CAPTURED_EVENT),
            Some(capture) if capture.invalidated => return Err(Code::STREAM_CAPTURE_INVALIDATED),
            Some(_) => {}
        }
        let Some(stream_key) = stream_key else {
            let stream_key = self.stream_key(stream);
            if stream_key.0 == StreamHandle::LEGACY {
                self.invalidate(other);
                return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
            }
            if self.check_stream(stream)? != self.graphs.captures[&other].context {
                self.invalidate(other);
                return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
            }
            self.join(stream_key, other, dependencies);
            return Ok(true);
        };
        let member = self
            .graphs
            .members
            .get_mut(&stream_key)
            .expect("it was routed");
        if member.capture != other {
            let own = member.capture;
            self.invalidate(own);
            self.invalidate(other);
            return Err(Code::STREAM_CAPTURE_MERGE);
        }
        union(&mut member.dependencies, &dependencies);
        Ok(true)
    }

    /// Removes a destroyed stream from its capture. The capture is over if it began in this stream.
    pub(in crate::state) fn forget_captured(&mut self, stream: StreamHandle) {
        let stream_key = self.stream_key(stream);
        let Some(member) = self.graphs.members.remove(&stream_key) else {
            return;
        };
        let id = member.capture;
        self.invalidate(id);
        if self.graphs.captures[&id].origin == stream_key {
            self.leave_capture(id, false);
        }
    }

    pub(super) fn drop_captures_of(&mut self, context: ContextHandle) {
        let captures = self.graphs.captures.iter();
        let gone: Vec<u64> = captures
            .filter(|(_, capture)| capture.context == context)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            self.leave_capture(id, false);
        }
    }
}

/// Appends the nodes that are not in the list yet.
fn union(nodes: &mut Vec<NodeHandle>, more: &[NodeHandle]) {
    for node in more {
        if !nodes.contains(node) {
            nodes.push(*node);
        }
    }
}
