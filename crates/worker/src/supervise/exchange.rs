//! The conversation on a role's socket: one framed job out, one framed reply back, and perhaps
//! further ones in turn.
//!
//! A frame is its length as a little-endian u32 and that many bytes of JSON. The child begins with
//! a frame of no bytes: it is ready, and only now is it told its job. A frame of no bytes between
//! job and reply is a tick: the moment it arrives is noted. Ticks come in pairs, and the first
//! of each is answered with a byte that the child waits for: what it does between the two began
//! after the first was noted, however late we looked. Nothing here blocks: each call moves what
//! the socket takes or has at this moment.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use domain::role::MAX_REPLY_BYTES;

/// Bytes read at one go.
const CHUNK: usize = 64 << 10;
const HEADER: usize = 4;
/// The answer to the first tick of a pair.
const ANSWER: u8 = 1;
/// The most ticks of one child: no job has so many executions.
const MAX_TICKS: usize = 1 << 16;

/// How far the conversation has come.
#[derive(Debug)]
pub struct Exchange {
    outgoing: Vec<u8>,
    sent: usize,
    incoming: Vec<u8>,
    ticks: Vec<Instant>,
    greeted: bool,
    ready: bool,
    open: bool,
}

impl Exchange {
    /// A conversation about this job; none if the job is longer than a frame can be. A child that
    /// is `expected` to greet is told its job only then; any other gets it at once.
    pub fn new(job: &[u8], expected: bool) -> Option<Self> {
        let length = u32::try_from(job.len()).ok()?;
        Some(Self {
            outgoing: [&length.to_le_bytes(), job].concat(),
            sent: 0,
            incoming: Vec::new(),
            ticks: Vec::new(),
            greeted: false,
            ready: !expected,
            open: true,
        })
    }

    /// Asks something further of a child whose reply is complete. Whether it fits a frame.
    pub fn go_on(&mut self, job: &[u8]) -> bool {
        let Ok(length) = u32::try_from(job.len()) else {
            return false;
        };
        self.incoming.clear();
        self.outgoing.extend_from_slice(&length.to_le_bytes());
        self.outgoing.extend_from_slice(job);
        true
    }

    /// Whether part of the job can be sent.
    pub fn sending(&self) -> bool {
        self.open && self.ready && self.sent < self.outgoing.len()
    }

    /// Whether the child may know its job.
    pub fn ready(&self) -> bool {
        self.ready
    }

    /// Whether the child may still say something.
    pub fn open(&self) -> bool {
        self.open
    }

    /// Sends and receives what can be without waiting.
    pub fn advance(&mut self, socket: &UnixStream) -> io::Result<()> {
        self.send(socket)?;
        self.receive(socket)?;
        // The child may have become ready, or sent a tick that wants its answer at once.
        self.send(socket)
    }

    fn send(&mut self, mut socket: &UnixStream) -> io::Result<()> {
        while self.sending() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The child does not want to hear the rest; it may have answered already.
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
        // One byte too many is enough to know that a reply is too long.
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
        if !self.greeted && self.incoming.starts_with(&[0; HEADER]) {
            self.incoming.drain(..HEADER);
            (self.greeted, self.ready) = (true, true);
        }
    }

    /// Takes the ticks off the front of what has arrived.
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
                self.outgoing.push(ANSWER);
            }
        }
    }

    /// When each tick arrived.
    pub fn ticks(&self) -> &[Instant] {
        &self.ticks
    }

    /// What the child has said so far.
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

/// What has arrived of a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// No byte.
    Nothing,
    /// Some of it.
    Partial,
    /// All of it, without its length.
    Complete(&'a [u8]),
    /// It breaks the rules, so that it is refused whatever follows.
    Broken(String),
}

fn is_hangup(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}
