//! The connection of a role process: an inherited socket to its supervisor.
//!
//! Job and reply are each sent as a length and JSON, with a nonce that binds them to each other. An empty frame marks
//! a point in time that the supervisor records with its own clock. The module does not know the content of the
//! messages.

use std::env;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use domain::role::{Envelope, MAX_REPLY_BYTES, SOCKET_VARIABLE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::role_error::RoleError;

/// Largest job in bytes. Jobs come from the supervisor; the limit only detects a length that is invalid.
const MAX_JOB_BYTES: usize = 64 << 20;
/// An empty frame. The first one says that the process is ready for its job; each later one is a point in time that
/// the supervisor records with its own clock. The first of each pair of these is answered with one byte.
const EMPTY_FRAME: [u8; 4] = [0; 4];

/// One end of the timed part of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimingMark {
    /// The begin: nothing is timed before the supervisor has recorded it.
    Begin,
    /// The end: everything timed has ended.
    End,
}

/// A socket before its first message.
#[derive(Debug)]
pub struct UnusedConnection {
    socket: File,
}

/// A socket on which a job was received.
#[derive(Debug)]
pub struct Connection {
    socket: File,
    /// The nonce of the last request.
    nonce: String,
}

impl Connection {
    /// The socket that the supervisor passed to this process.
    ///
    /// # Errors
    /// [`RoleError::Socket`] if it passed none.
    #[expect(unsafe_code, reason = "an inherited descriptor has no owner yet")]
    pub fn inherited() -> Result<UnusedConnection, RoleError> {
        let fault = |reason: String| RoleError::Socket {
            action: "receive the job",
            reason,
        };
        let number = env::var(SOCKET_VARIABLE).map_err(|_| {
            fault(format!(
                "{SOCKET_VARIABLE} is not set; roles are started by a worker"
            ))
        })?;
        let number: RawFd = number
            .parse()
            .ok()
            .filter(|&number| number == 0 || number > 2)
            .ok_or_else(|| fault(format!("{SOCKET_VARIABLE} is {number:?}, no descriptor")))?;
        // SAFETY: the supervisor passes this descriptor to this process for this purpose only, and it is taken once.
        // If it is not open, the first read fails.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(UnusedConnection {
            socket: File::from(socket),
        })
    }

    /// Reports a point in time. A supervisor that does not receive it rejects the reply.
    pub fn mark(&mut self, moment: TimingMark) {
        let told = self.socket.write_all(&EMPTY_FRAME);
        if moment == TimingMark::Begin && told.is_ok() {
            let _ = self.socket.read_exact(&mut [0]);
        }
    }

    /// Sends the reply to the last request.
    ///
    /// # Errors
    /// [`RoleError::Socket`].
    pub fn send_reply(&mut self, reply: &impl Serialize) -> Result<(), RoleError> {
        let reply = Envelope {
            nonce: self.nonce.clone(),
            body: reply,
        };
        send(&mut self.socket, &reply)
    }

    /// Sends a reply and receives the next request.
    ///
    /// # Errors
    /// [`RoleError::Socket`].
    pub fn ask<N: DeserializeOwned>(&mut self, reply: &impl Serialize) -> Result<N, RoleError> {
        self.send_reply(reply)?;
        let next: Envelope<N> = receive(&mut self.socket)?;
        self.nonce = next.nonce;
        Ok(next.body)
    }
}

impl UnusedConnection {
    /// Reports that the process is ready, and receives its job.
    ///
    /// # Errors
    /// [`RoleError::Socket`].
    pub fn receive_job<J: DeserializeOwned>(mut self) -> Result<(Connection, J), RoleError> {
        self.socket
            .write_all(&EMPTY_FRAME)
            .map_err(|error| RoleError::Socket {
                action: "say that the role is ready",
                reason: error.to_string(),
            })?;
        let job: Envelope<J> = receive(&mut self.socket)?;
        let connection = Connection {
            socket: self.socket,
            nonce: job.nonce,
        };
        Ok((connection, job.body))
    }
}

fn receive<T: DeserializeOwned>(socket: &mut impl Read) -> Result<T, RoleError> {
    let fault = |reason: String| RoleError::Socket {
        action: "receive the job",
        reason,
    };
    let mut length = [0; 4];
    socket
        .read_exact(&mut length)
        .map_err(|error| fault(error.to_string()))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_JOB_BYTES {
        return Err(fault(format!(
            "it has {length} bytes, at most {MAX_JOB_BYTES} are allowed"
        )));
    }
    let mut text = vec![0; length];
    socket
        .read_exact(&mut text)
        .map_err(|error| fault(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| fault(error.to_string()))
}

fn send(socket: &mut impl Write, reply: &impl Serialize) -> Result<(), RoleError> {
    let fault = |reason: String| RoleError::Socket {
        action: "send the reply",
        reason,
    };
    let text = serde_json::to_vec(reply).map_err(|error| fault(error.to_string()))?;
    let length = u32::try_from(text.len())
        .ok()
        .filter(|_| text.len() <= MAX_REPLY_BYTES)
        .ok_or_else(|| {
            fault(format!(
                "it has {} bytes, at most {MAX_REPLY_BYTES} are allowed",
                text.len()
            ))
        })?;
    socket
        .write_all(&length.to_le_bytes())
        .and_then(|()| socket.write_all(&text))
        .map_err(|error| fault(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_framed_by_their_length_and_bounded() {
        let mut wire = Vec::new();
        send(&mut wire, &"reply").unwrap();
        assert_eq!(wire, b"\x07\0\0\0\"reply\"");
        let read: String = receive(&mut wire.as_slice()).unwrap();
        assert_eq!(read, "reply");

        let long = "x".repeat(MAX_REPLY_BYTES);
        assert!(send(&mut Vec::new(), &long).is_err());
        let endless = u32::MAX.to_le_bytes();
        assert!(receive::<String>(&mut endless.as_slice()).is_err());
        assert!(receive::<String>(&mut &wire[..6]).is_err());
    }
}
