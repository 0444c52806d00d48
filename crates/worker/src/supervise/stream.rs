//! An output stream of a child, read without waiting and in bounded pieces.

use std::io::{self, ErrorKind, Read};

use super::capture::Capture;

/// The most bytes that are read of a stream before the deadline is checked again.
const MAX_DRAIN_BYTES: usize = 1 << 20;

/// One of the child's output streams, with the part of it that is kept.
pub struct Stream<S> {
    /// The stream; `None` after its end.
    pub source: Option<S>,
    /// The part that is kept.
    pub capture: Capture,
}

impl<S: Read> Stream<S> {
    /// A stream of which nothing has been read.
    pub fn new(source: S) -> Self {
        Self {
            source: Some(source),
            capture: Capture::default(),
        }
    }

    /// Reads the available bytes, but at most [`MAX_DRAIN_BYTES`], so that a child which prints as fast
    /// as they are read cannot delay the check of the deadline.
    pub fn drain(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        let mut taken = 0;
        while let Some(source) = &mut self.source
            && taken < MAX_DRAIN_BYTES
        {
            match source.read(&mut chunk) {
                Ok(0) => self.source = None,
                Ok(bytes) => {
                    self.capture.push(&chunk[..bytes]);
                    taken += bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
