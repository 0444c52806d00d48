//! The protocol on a role's socket: a framed job to the role, a framed reply from it, and further
//! pairs of both in turn.
//!
//! A frame is its length as a little-endian `u32` and that many bytes of JSON. The child first
//! sends an empty frame, which announces that it is ready; it gets its job only then. An empty
//! frame between job and reply is a tick, whose arrival time is recorded. Ticks come in pairs. The
//! first of each is acknowledged with a byte that the child waits for, so that the work between the
//! two began after the first was recorded, however late the supervisor read it. No call blocks:
//! each sends and receives as much as the socket takes or has at this moment.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use domain::role::MAX_REPLY_BYTES;

/// The most bytes of one read.
const CHUNK: usize = 64 << 10;
const HEADER: usize = 4;
/// The acknowledgement of the first tick of a pair.
const ACKNOWLEDGEMENT: u8 = 1;
/// The most ticks of one child, more than any job has executions.
const MAX_TICKS: usize = 1 << 16;

/// The state of the conversation with one child.
#[derive(Debug)]
pub struct Exchange {
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    ticks: Vec<Instant>,
    announced_ready: bool,
    ready: bool,
    open: bool,
}

impl Exchange {
    /// A conversation that begins with `job`; `None` if it is longer than a frame can be. If
    /// `waits_for_ready`, the job is sent only after the child has announced that it is ready, otherwise
    /// at once.
    pub fn new(job: &[u8], waits_for_ready: bool) -> Option<Self> {
        let length = u32::try_from(job.len()).ok()?;
        Some(Self {
            outgoing: [&length.to_le_bytes(), job].concat(),
            sent: 0,
            incoming: Vec::new(),
            ticks: Vec::new(),
            announced_ready: false,
            ready: !waits_for_ready,
            open: true,
        })
    }

    /// Queues the next job for a child whose reply is complete. Returns false if it does not fit
    /// into a frame.
    pub fn queue_job(&mut self, job: &[u8]) -> bool {
        let Ok(length) = u32::try_from(job.len()) else {
            return false;
        };
        self.incoming.clear();
        self.outgoing.extend_from_slice(&length.to_le_bytes());
        self.outgoing.extend_from_slice(job);
        true
    }

    /// Returns true if bytes of the job are waiting to be sent and may be.
    pub fn sending(&self) -> bool {
        self.open && self.ready && self.sent < self.outgoing.len()
    }

    /// Returns true if the child may receive its job.
    pub fn ready(&self) -> bool {
        self.ready
    }

    /// Returns true if the child may still send bytes.
    pub fn open(&self) -> bool {
        self.open
    }

    /// Sends and receives as much as is possible without waiting.
    pub fn advance(&mut self, socket: &UnixStream) -> io::Result<()> {
        self.send(socket)?;
        self.receive(socket)?;
        // The child may have become ready, or sent a tick that waits for its acknowledgement.
        self.send(socket)
    }

    fn send(&mut self, mut socket: &UnixStream) -> io::Result<()> {
        while self.sending() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The child has closed its end; it may have answered already.
                Err(error) if is_hangup(&error) => {
                    self.sent = self.outgoing.len();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, mut socket: &UnixStream) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK];
        // One byte over the limit is enough to know that a reply is too long.
        while self.open && self.incoming.len() <= HEADER + MAX_REPLY_BYTES {
            match socket.read(&mut chunk) {
                Ok(0) => self.open = false,
                Ok(bytes) => {
                    self.incoming.extend_from_slice(&chunk[..bytes]);
                    self.note_readiness();
                    self.note_ticks(Instant::now());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_hangup(&error) => self.open = false,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn note_readiness(&mut self) {
        if !self.announced_ready && self.incoming.starts_with(&[0; HEADER]) {
            self.incoming.drain(..HEADER);
            (self.announced_ready, self.ready) = (true, true);
        }
    }

    /// Removes the ticks from the front of the received bytes and records their time.
    fn note_ticks(&mut self, now: Instant) {
        if !self.ready {
            return;
        }
        let ticks = self
            .incoming
            .chunks_exact(HEADER)
            .take_while(|header| header.iter().all(|byte| *byte == 0))
            .count();
        self.incoming.drain(..ticks * HEADER);
        let room = MAX_TICKS + 1 - self.ticks.len();
        for _ in 0..ticks.min(room) {
            self.ticks.push(now);
            if self.ticks.len() % 2 == 1 {
                self.outgoing.push(ACKNOWLEDGEMENT);
            }
        }
    }

    /// The arrival time of each tick.
    pub fn ticks(&self) -> &[Instant] {
        &self.ticks
    }

    /// The reply as far as it has arrived.
    pub fn reply(&self) -> Reply<'_> {
        if self.ticks.len() > MAX_TICKS {
            return Reply::Broken(format!("it ticks more than {MAX_TICKS} times"));
        }
        let Some((header, rest)) = self.incoming.split_first_chunk::<HEADER>() else {
            return if self.incoming.is_empty() {
                Reply::Nothing
            } else {
                Reply::Partial
            };
        };
        if !self.ready {
            return Reply::Broken("it speaks before it is ready".to_owned());
        }
        let announced = u32::from_le_bytes(*header) as usize;
        if announced > MAX_REPLY_BYTES {
            return Reply::Broken(format!(
                "it announces {announced} bytes, at most {MAX_REPLY_BYTES} are read"
            ));
        }
        match rest.len().cmp(&announced) {
            std::cmp::Ordering::Less => Reply::Partial,
            std::cmp::Ordering::Equal => Reply::Complete(rest),
            std::cmp::Ordering::Greater => Reply::Broken("more follows after its end".to_owned()),
        }
    }
}

/// The part of a reply that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// No byte has arrived.
    Nothing,
    /// Some bytes have arrived.
    Partial,
    /// The whole reply, without the length in front of it.
    Complete(&'a [u8]),
    /// It breaks the protocol, so that it is refused whatever follows.
    Broken(String),
}

fn is_hangup(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
