//! The beginning and the end of a child's output, in bounded memory.

use std::collections::VecDeque;

use domain::cleaning;

/// The bytes kept of each stream: half from its beginning, half from its end.
pub const KEPT_BYTES: usize = 64 << 10;

/// The head and the tail of a stream.
#[derive(Debug, Default)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Capture {
    /// Appends the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        let half = KEPT_BYTES / 2;
        let to_head = bytes.len().min(half - self.head.len());
        self.head.extend_from_slice(&bytes[..to_head]);
        self.tail.extend(&bytes[to_head..]);
        let excess = self.tail.len().saturating_sub(half);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// The kept text, with a note where bytes were left out.
    pub fn text(&self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let tail = self.tail.iter().copied().collect::<Vec<_>>();
        let tail = String::from_utf8_lossy(&tail);
        if self.dropped == 0 {
            return format!("{head}{tail}");
        }
        format!("{head}\n[{} bytes left out]\n{tail}", self.dropped)
    }

    /// The last line that is not empty, cleaned, at most 400 characters of it: the process that wrote it
    /// may have run candidate code.
    pub fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(cleaning::clean_line(line, cleaning::SENTENCE_CHARACTERS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = Capture::default();
        capture.push(b"one\n");
        capture.push(b"two\n\n");
        assert_eq!(capture.text(), "one\ntwo\n\n");
        assert_eq!(capture.last_line().as_deref(), Some("two"));
    }

    #[test]
    fn a_last_line_deceives_no_reader() {
        let mut capture = Capture::default();
        capture.push("a\u{1b}[2Jb\u{202e}c\u{200b}d\n".as_bytes());
        assert_eq!(capture.last_line().as_deref(), Some("abcd"));
    }

    #[test]
    fn a_long_stream_keeps_its_two_ends_and_counts_the_rest() {
        let mut capture = Capture::default();
        capture.push(b"begin ");
        for _ in 0..1000 {
            capture.push(&[b'x'; 1000]);
        }
        capture.push(b" end");
        let text = capture.text();
        assert!(text.starts_with("begin x") && text.ends_with("x end"));
        assert!(text.len() < KEPT_BYTES + 100, "{}", text.len());
        assert!(
            text.contains(&format!("[{} bytes left out]", 1_000_010 - KEPT_BYTES)),
            "the note counts what was dropped"
        );
    }
}
