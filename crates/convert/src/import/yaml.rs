//! The tree of a YAML text with the line of each value.

use domain::problem::Problem;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Deepest nesting of sequences and mappings.
const MAX_DEPTH: usize = 32;

/// A value and the line where it begins, from 1.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Yaml {
    pub line: u32,
    pub data: Data,
}

/// The kinds of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    /// A scalar; true if it stood without quotation marks, so that it may be a number.
    Scalar(String, bool),
    Sequence(Vec<Yaml>),
    /// Pairs in the order of the text.
    Mapping(Vec<(Yaml, Yaml)>),
}

impl Yaml {
    /// Parses the first document of a text.
    ///
    /// # Errors
    /// The line that is no YAML, or that uses an alias.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        let mut reader = Reader {
            file,
            parser: Parser::new_from_str(text),
        };
        loop {
            let (event, span) = reader.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    return Err(at_line(file, 1, "the file is empty", "name a task.yml"));
                }
                event => return reader.value(event, span, 0),
            }
        }
    }

    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Data::Mapping(pairs) = &self.data else {
            return None;
        };
        let mut pairs = pairs.iter();
        let pair = pairs.find(|(own, _)| own.text() == Some(key));
        pair.map(|(_, value)| value)
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// The values of a sequence; empty for anything else.
    pub fn items(&self) -> &[Self] {
        match &self.data {
            Data::Sequence(items) => items,
            _ => &[],
        }
    }
}

/// A problem of a line.
pub(super) fn at_line(file: &str, line: u32, message: impl Into<String>, fix: &str) -> Problem {
    Problem {
        line,
        ..Problem::whole(file, message, fix)
    }
}

struct Reader<'t> {
    file: &'t str,
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.parser.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let message = format!("the file does not parse as YAML: {}", error.info());
                let line = number(error.marker().line());
                Err(at_line(self.file, line, message, "correct the syntax here"))
            }
            None => Err(at_line(self.file, 1, "the file ends early", "complete it")),
        }
    }

    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Yaml, Problem> {
        let line = number(span.start.line());
        if depth > MAX_DEPTH {
            let message = format!("values are nested deeper than {MAX_DEPTH} times");
            return Err(at_line(self.file, line, message, "nest them less"));
        }
        let data = match event {
            Event::Scalar(text, style, ..) => {
                Data::Scalar(text.into_owned(), style == ScalarStyle::Plain)
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, span) => items.push(self.value(event, span, depth + 1)?),
                    }
                }
                Data::Sequence(items)
            }
            Event::MappingStart(..) => {
                let mut pairs = Vec::new();
                loop {
                    let key = match self.next()? {
                        (Event::MappingEnd, _) => break,
                        (event, span) => self.value(event, span, depth + 1)?,
                    };
                    let (event, span) = self.next()?;
                    pairs.push((key, self.value(event, span, depth + 1)?));
                }
                Data::Mapping(pairs)
            }
            // A few aliases of aliases stand for more values than fit into memory.
            _ => {
                let message = "an alias is not read";
                return Err(at_line(self.file, line, message, "write the value out"));
            }
        };
        Ok(Yaml { line, data })
    }
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}
