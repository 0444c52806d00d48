//! A parser of server-sent events, as the HTML standard defines them. It does not read their data.

/// The longest line that is taken; a reply's piece has some hundred bytes.
const MAX_LINE: usize = 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// Its type; empty where the stream does not name one.
    pub name: String,
    /// Its data, lines joined by line feeds.
    pub data: String,
}

/// The reason why a stream is not one of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A line is longer than the limit.
    #[error("a line of more than {MAX_LINE} bytes in the event stream")]
    LongLine,
    /// A line is not UTF-8.
    #[error("bytes in the event stream that are not UTF-8")]
    NotText,
}

/// The state between two pieces of a stream.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    /// The last byte was a carriage return, which a line feed may still belong to.
    after_return: bool,
    started: bool,
}

impl Decoder {
    /// The events that these bytes complete.
    ///
    /// # Errors
    /// [`StreamError`]; the stream is of no more use after one.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, StreamError> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => {}
                b'\n' => complete.extend(self.line()?),
                b'\r' => {
                    self.after_return = true;
                    complete.extend(self.line()?);
                }
                _ if self.line.len() >= MAX_LINE => return Err(StreamError::LongLine),
                _ => self.line.push(byte),
            }
        }
        Ok(complete)
    }

    /// Ends the line collected so far; an empty one ends the event.
    fn line(&mut self) -> Result<Option<Event>, StreamError> {
        let bytes = std::mem::take(&mut self.line);
        let line = str::from_utf8(&bytes).map_err(|_| StreamError::NotText)?;
        let line = match line.strip_prefix('\u{feff}') {
            Some(rest) if !self.started => rest,
            _ => line,
        };
        self.started = true;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return Ok(std::mem::take(&mut self.has_data).then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            // A comment, or a field that only browsers use.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, data: &str) -> Event {
        Event {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let text = "\u{feff}: hello\n\nevent: a\ndata: {\"x\":\ndata: 1}\n\nid: 2\r\ndata:\u{e9}\r\n\r\ndata\rdata: b\r\revent: c\n\ndata: never ended";
        let expected = [
            event("a", "{\"x\":\n1}"),
            event("", "\u{e9}"),
            event("", "\nb"),
        ];
        for size in 1..=text.len() {
            let mut decoder = Decoder::default();
            let chunks = text.as_bytes().chunks(size);
            let events: Vec<_> = chunks
                .flat_map(|chunk| decoder.push(chunk).unwrap())
                .collect();
            assert_eq!(events, expected, "in chunks of {size}");
        }
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"data: \xff\n"), Err(StreamError::NotText));
        let mut decoder = Decoder::default();
        let long = vec![b'x'; MAX_LINE + 1];
        assert_eq!(decoder.push(&long), Err(StreamError::LongLine));
    }
}
