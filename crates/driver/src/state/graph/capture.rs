//! Stream capture: what is enqueued becomes nodes of a graph instead of being done.
//!
//! A capture begins in one stream. Others join it by waiting for an event that was recorded in it, and must be joined
//! back before it ends. What would need a captured stream's work to be over is refused and spoils the capture: it then
//! refuses everything until it is ended, which answers with an error, too.

use std::collections::BTreeSet;
use std::thread::ThreadId;

use crate::code::Code;
use crate::handle::{ContextHandle, EventHandle, GraphHandle, NodeHandle, StreamHandle};
use crate::state::Driver;

use super::{Owner, Work};

/// A stream, and the thread whose it is if every thread has one of that name.
pub(super) type Line = (StreamHandle, Option<ThreadId>);

/// Which calls are refused while a capture goes on because they may not be seen by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaptureMode {
    /// Those of every thread.
    #[default]
    Global,
    /// Those of the thread that captures.
    ThreadLocal,
    /// None.
    Relaxed,
}

impl CaptureMode {
    /// The mode of this number.
    ///
    /// # Errors
    /// When there is none.
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
    origin: Line,
    mode: CaptureMode,
    thread: ThreadId,
    spoilt: bool,
}

impl Capture {
    /// Whether this graph is the one that is being captured.
    pub(super) fn fills(&self, graph: GraphHandle) -> bool {
        self.graph == graph
    }
}

/// A stream's part in a capture.
#[derive(Debug)]
pub(super) struct Member {
    capture: u64,
    /// What the next node waits for.
    needs: Vec<NodeHandle>,
    /// The same as a caller was shown it.
    shown: Vec<u64>,
}

/// What a stream captures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureState {
    /// Nothing.
    None,
    /// A graph.
    Active {
        /// Number of the capture.
        id: u64,
        /// The graph that grows.
        graph: GraphHandle,
        /// Where the handles stand that the next node waits for, until the stream's next call.
        needs: u64,
        /// How many there are.
        count: usize,
    },
    /// A graph that something has spoilt.
    Spoilt,
}

impl Driver {
    fn line(&self, stream: StreamHandle) -> Line {
        match stream {
            StreamHandle::LEGACY_NAMED => (StreamHandle::LEGACY, None),
            StreamHandle::PER_THREAD => (stream, Some(self.thread)),
            _ => (stream, None),
        }
    }

    /// Where work for a stream goes: into a capture, or none if it is done.
    pub(in crate::state) fn route(&mut self, stream: StreamHandle) -> Result<Option<Line>, Code> {
        let context = self.check_stream(stream)?;
        if self.graphs.replaying || self.graphs.captures.is_empty() {
            return Ok(None);
        }
        let line = self.line(stream);
        if let Some(member) = self.graphs.members.get(&line) {
            if self.graphs.captures[&member.capture].spoilt {
                return Err(Code::STREAM_CAPTURE_INVALIDATED);
            }
            return Ok(Some(line));
        }
        self.check_implicit(context, line, true)?;
        Ok(None)
    }

    /// Refuses the legacy stream while a stream that waits for it is captured.
    fn check_implicit(
        &mut self,
        context: ContextHandle,
        line: Line,
        spoil: bool,
    ) -> Result<(), Code> {
        if line.0 != StreamHandle::LEGACY {
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
        if spoil {
            blocking.iter().for_each(|capture| self.spoil(*capture));
        }
        Err(Code::STREAM_CAPTURE_IMPLICIT)
    }

    fn spoil(&mut self, capture: u64) {
        if let Some(capture) = self.graphs.captures.get_mut(&capture) {
            capture.spoilt = true;
        }
    }

    /// Captures work instead of doing it, if the stream is being captured: says whether it was.
    ///
    /// # Errors
    /// When the stream's handle is stale or it can take no work, or the work itself is refused.
    pub fn captured(
        &mut self,
        stream: StreamHandle,
        work: impl FnOnce() -> Work,
    ) -> Result<bool, Code> {
        let Some(line) = self.route(stream)? else {
            return Ok(false);
        };
        let work = work();
        self.check_work(&work)?;
        self.append_captured(line, work)?;
        Ok(true)
    }

    /// Refuses work that no graph can hold, if the stream is being captured.
    ///
    /// # Errors
    /// When it is, or the stream's handle is stale.
    pub fn refuse_capture(&mut self, stream: StreamHandle) -> Result<(), Code> {
        let Some(line) = self.route(stream)? else {
            return Ok(());
        };
        let capture = self.graphs.members[&line].capture;
        self.spoil(capture);
        Err(Code::STREAM_CAPTURE_UNSUPPORTED)
    }

    pub(super) fn append_captured(&mut self, line: Line, work: Work) -> Result<(), Code> {
        let member = &self.graphs.members[&line];
        let graph = self.graphs.captures[&member.capture].graph;
        let node = self.append_node(graph, member.needs.clone(), work)?;
        let member = self.graphs.members.get_mut(&line);
        member.expect("looked up above").needs = vec![node];
        Ok(())
    }

    /// Begins to capture a stream: into a graph that is there, after some of its nodes, or into a new one.
    ///
    /// # Errors
    /// For the legacy stream, for one that is captured already, or when a handle is stale.
    pub fn begin_capture(
        &mut self,
        stream: StreamHandle,
        mode: CaptureMode,
        into: Option<(GraphHandle, Vec<NodeHandle>)>,
    ) -> Result<(), Code> {
        let context = self.check_stream(stream)?;
        let line = self.line(stream);
        if line.0 == StreamHandle::LEGACY {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.graphs.members.contains_key(&line) {
            return Err(Code::ILLEGAL_STATE);
        }
        let (graph, needs) = match into {
            Some((graph, needs)) => {
                self.graph_of_caller(graph)?;
                self.check_needs(graph, &needs)?;
                (graph, needs)
            }
            None => (self.new_graph(context, Owner::Capture), Vec::new()),
        };
        let id = self.next_serial();
        let capture = Capture {
            graph,
            context,
            origin: line,
            mode,
            thread: self.thread,
            spoilt: false,
        };
        self.graphs.captures.insert(id, capture);
        self.join(line, id, needs);
        Ok(())
    }

    fn join(&mut self, line: Line, capture: u64, needs: Vec<NodeHandle>) {
        let member = Member {
            capture,
            needs,
            shown: Vec::new(),
        };
        self.graphs.members.insert(line, member);
    }

    /// Ends the capture that a stream began, and answers with its graph.
    ///
    /// # Errors
    /// When the stream captures nothing or only joined a capture, from another thread than began it (unless it is
    /// relaxed), and when the capture was spoilt or has streams that were not joined. In the last two cases it is over.
    pub fn end_capture(&mut self, stream: StreamHandle) -> Result<GraphHandle, Code> {
        self.check_stream(stream)?;
        let line = self.line(stream);
        let member = self.graphs.members.get(&line).ok_or(Code::ILLEGAL_STATE)?;
        let id = member.capture;
        let capture = &self.graphs.captures[&id];
        if capture.origin != line {
            self.spoil(id);
            return Err(Code::STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != self.thread {
            return Err(Code::STREAM_CAPTURE_WRONG_THREAD);
        }
        let verdict = if capture.spoilt {
            Err(Code::STREAM_CAPTURE_INVALIDATED)
        } else if !self.all_joined(id, line) {
            Err(Code::STREAM_CAPTURE_UNJOINED)
        } else {
            Ok(capture.graph)
        };
        self.leave_capture(id, verdict.is_ok());
        verdict
    }

    /// Whether everything that a capture's streams end with comes before the end of the one it began in.
    fn all_joined(&self, id: u64, origin: Line) -> bool {
        let graph = &self.graphs.graphs[&self.graphs.captures[&id].graph];
        let mut reached = BTreeSet::new();
        let mut left = self.graphs.members[&origin].needs.clone();
        while let Some(node) = left.pop() {
            if reached.insert(node) {
                left.extend(graph.nodes.get(&node).map_or(&[][..], |node| &node.needs));
            }
        }
        let members = self.graphs.members.values();
        members
            .filter(|member| member.capture == id)
            .flat_map(|member| &member.needs)
            .all(|node| reached.contains(node) || !graph.nodes.contains_key(node))
    }

    /// Takes all streams out of a capture. Its graph becomes the caller's, or goes if it never was.
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

    /// What a stream captures.
    ///
    /// # Errors
    /// When the handle is stale; and for the legacy stream while one that waits for it is captured.
    pub fn capture_state(&mut self, stream: StreamHandle) -> Result<CaptureState, Code> {
        let context = self.check_stream(stream)?;
        let line = self.line(stream);
        let Some(member) = self.graphs.members.get_mut(&line) else {
            self.check_implicit(context, line, false)?;
            return Ok(CaptureState::None);
        };
        let capture = &self.graphs.captures[&member.capture];
        if capture.spoilt {
            return Ok(CaptureState::Spoilt);
        }
        member.shown = member.needs.iter().map(|node| node.0).collect();
        Ok(CaptureState::Active {
            id: member.capture,
            graph: capture.graph,
            needs: member.shown.as_ptr() as u64,
            count: member.shown.len(),
        })
    }

    /// Changes what the next captured node waits for: more, or something else.
    ///
    /// # Errors
    /// When the stream captures nothing, or a node is not of its graph.
    pub fn set_capture_needs(
        &mut self,
        stream: StreamHandle,
        nodes: &[NodeHandle],
        replace: bool,
    ) -> Result<(), Code> {
        let line = self.route(stream)?.ok_or(Code::ILLEGAL_STATE)?;
        let graph = self.graphs.captures[&self.graphs.members[&line].capture].graph;
        self.check_needs(graph, nodes)?;
        let member = self.graphs.members.get_mut(&line);
        let needs = &mut member.expect("it was routed").needs;
        if replace {
            needs.clear();
        }
        union(needs, nodes);
        Ok(())
    }

    /// Sets the calling thread's mode; answers with the one it had.
    pub fn exchange_capture_mode(&mut self, mode: CaptureMode) -> CaptureMode {
        let old = if mode == CaptureMode::Global {
            self.graphs.modes.remove(&self.thread)
        } else {
            self.graphs.modes.insert(self.thread, mode)
        };
        old.unwrap_or_default()
    }

    /// Refuses a call that a capture might have to see, as the modes of the capture and the thread demand.
    pub(in crate::state) fn check_unseen(&mut self) -> Result<(), Code> {
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
            capture.spoilt |= prohibited;
            refused |= prohibited;
        }
        if refused {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Refuses to wait for the legacy stream, as every synchronous call does, or for one that is captured.
    pub(in crate::state) fn check_waitable(&mut self, stream: StreamHandle) -> Result<(), Code> {
        let context = self.check_stream(stream)?;
        let line = self.line(stream);
        if let Some(member) = self.graphs.members.get(&line) {
            let capture = member.capture;
            self.spoil(capture);
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        self.check_implicit(context, line, true)
    }

    /// Refuses to wait for a context of which a stream is captured.
    pub(in crate::state) fn check_no_capture_in(
        &mut self,
        context: ContextHandle,
    ) -> Result<(), Code> {
        let captures = self.graphs.captures.values_mut();
        let mut refused = false;
        for capture in captures.filter(|capture| capture.context == context) {
            capture.spoilt = true;
            refused = true;
        }
        if refused {
            return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
        }
        Ok(())
    }

    /// Refuses to ask for the state of an event that a capture recorded.
    pub(in crate::state) fn check_not_captured(&mut self, event: EventHandle) -> Result<(), Code> {
        let captured = self
            .events
            .get(&event)
            .and_then(|event| event.captured.as_ref());
        let Some((capture, _)) = captured else {
            return Ok(());
        };
        let capture = *capture;
        self.spoil(capture);
        Err(Code::CAPTURED_EVENT)
    }

    /// What an event recorded in a captured stream stands for: what the stream's next node would wait for.
    pub(in crate::state) fn captured_needs(&self, line: Line) -> (u64, Vec<NodeHandle>) {
        let member = &self.graphs.members[&line];
        (member.capture, member.needs.clone())
    }

    /// Makes a stream wait for an event where either is captured; says whether that was so.
    ///
    /// # Errors
    /// When that would make two captures one, or a dependency between what is captured and what is not.
    pub(in crate::state) fn wait_captured(
        &mut self,
        stream: StreamHandle,
        event: EventHandle,
    ) -> Result<bool, Code> {
        let line = self.route(stream)?;
        let found = self.events.get(&event).ok_or(Code::INVALID_HANDLE)?;
        let was_recorded = found.recorded.is_some();
        let Some((other, needs)) = found.captured.clone() else {
            // An event that was never recorded is no dependency.
            if let (Some(line), true) = (line, was_recorded) {
                let capture = self.graphs.members[&line].capture;
                self.spoil(capture);
                return Err(Code::STREAM_CAPTURE_ISOLATION);
            }
            return Ok(line.is_some());
        };
        match self.graphs.captures.get(&other) {
            None => return Err(Code::CAPTURED_EVENT),
            Some(capture) if capture.spoilt => return Err(Code::STREAM_CAPTURE_INVALIDATED),
            Some(_) => {}
        }
        let Some(line) = line else {
            let line = self.line(stream);
            if line.0 == StreamHandle::LEGACY {
                self.spoil(other);
                return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
            }
            if self.check_stream(stream)? != self.graphs.captures[&other].context {
                self.spoil(other);
                return Err(Code::STREAM_CAPTURE_UNSUPPORTED);
            }
            self.join(line, other, needs);
            return Ok(true);
        };
        let member = self.graphs.members.get_mut(&line).expect("it was routed");
        if member.capture != other {
            let own = member.capture;
            self.spoil(own);
            self.spoil(other);
            return Err(Code::STREAM_CAPTURE_MERGE);
        }
        union(&mut member.needs, &needs);
        Ok(true)
    }

    /// Takes a stream that is destroyed out of its capture, which is over if it began there.
    pub(in crate::state) fn forget_captured(&mut self, stream: StreamHandle) {
        let line = self.line(stream);
        let Some(member) = self.graphs.members.remove(&line) else {
            return;
        };
        let id = member.capture;
        self.spoil(id);
        if self.graphs.captures[&id].origin == line {
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

/// Adds what is not there yet.
fn union(nodes: &mut Vec<NodeHandle>, more: &[NodeHandle]) {
    for node in more {
        if !nodes.contains(node) {
            nodes.push(*node);
        }
    }
}
