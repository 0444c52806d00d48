//! Fenced blocks of a Markdown text, as language models really write them: any indentation, any
//! info string, backticks or tildes, fences inside fences. What is inside a block is not judged.

/// A text cut into its fenced blocks and the prose around them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document<'a> {
    /// Blocks that hold no further block, in order.
    pub blocks: Vec<CodeBlock<'a>>,
    /// Lines outside every block, in order; an empty line where a block stood.
    pub prose: Vec<&'a str>,
    /// Line of the fence that is still open at the end, from 1.
    pub open: Option<u32>,
}

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodeBlock<'a> {
    /// The word after the opening fence, lower case: a language, or nothing.
    pub language: String,
    /// The lines between the fences.
    pub lines: Vec<&'a str>,
}

impl CodeBlock<'_> {
    /// The text between the fences, every line ended.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [*line, "\n"]).collect()
    }

    /// The first line that is not blank.
    pub fn first_line(&self) -> &str {
        self.lines
            .iter()
            .map(|line| line.trim())
            .find(|line| !line.is_empty())
            .unwrap_or("")
    }
}

struct Fence<'a> {
    /// Bytes of white space before it.
    indent: usize,
    mark: u8,
    length: usize,
    info: &'a str,
}

/// Reads a line as a fence: at least three backticks or tildes after any indentation. An info
/// string with a backtick in it is inline code, not a fence.
fn fence(line: &str) -> Option<Fence<'_>> {
    let indent = line.len() - line.trim_start().len();
    let line = line.trim();
    let mark = *line.as_bytes().first()?;
    if !matches!(mark, b'`' | b'~') {
        return None;
    }
    let length = line.bytes().take_while(|byte| *byte == mark).count();
    let info = line[length..].trim();
    (length >= 3 && !info.contains('`')).then_some(Fence {
        indent,
        mark,
        length,
        info,
    })
}

/// Returns true if a line is a fence of any kind.
pub(super) fn is_fence(line: &str) -> bool {
    fence(line).is_some()
}

struct OpenBlock<'a> {
    indent: usize,
    mark: u8,
    length: usize,
    line: u32,
    block: CodeBlock<'a>,
    /// True if a block inside it was seen: then it is a frame, not a block.
    frame: bool,
}

/// Cuts `text` at its fences.
///
/// `CommonMark` knows no fence inside a fence of the same kind, but models write them. A fence with
/// an info string therefore always opens, and one without closes the innermost open block that it
/// fits.
pub(super) fn document(text: &str) -> Document<'_> {
    let mut document = Document::default();
    let mut open: Vec<OpenBlock<'_>> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(fence) = fence(line) else {
            match open.last_mut() {
                Some(inner) => inner.block.lines.push(outdented(line, inner.indent)),
                None => document.prose.push(line),
            }
            continue;
        };
        let closes = open.last().is_some_and(|inner| {
            fence.info.is_empty() && fence.mark == inner.mark && fence.length >= inner.length
        });
        if closes {
            let closed = open.pop().expect("a block is open");
            if !closed.frame {
                document.blocks.push(closed.block);
            }
            if let Some(outer) = open.last_mut() {
                outer.frame = true;
            } else {
                document.prose.push("");
            }
        } else if open.is_empty() || !fence.info.is_empty() {
            let word = fence.info.split([' ', ',', '{', ':']).next().unwrap_or("");
            open.push(OpenBlock {
                indent: fence.indent,
                mark: fence.mark,
                length: fence.length,
                line: number,
                block: CodeBlock {
                    language: word.to_ascii_lowercase(),
                    lines: Vec::new(),
                },
                frame: false,
            });
        } else if let Some(inner) = open.last_mut() {
            // A shorter fence, or one of the other mark: content.
            inner.block.lines.push(outdented(line, inner.indent));
        }
    }
    document.open = open.first().map(|outer| outer.line);
    document
}

/// A line without the white space that its block's fence has before it, as far as it has that.
fn outdented(line: &str, indent: usize) -> &str {
    let own = line.len() - line.trim_start_matches([' ', '\t']).len();
    &line[own.min(indent)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Vec<(String, String)> {
        document(text)
            .blocks
            .iter()
            .map(|block| (block.language.clone(), block.text()))
            .collect()
    }

    #[test]
    fn fences_of_every_kind_are_found() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("```cuda\na\n```", &[("cuda", "a\n")]),
            ("~~~ C++ title=x\na\n~~~~", &[("c++", "a\n")]),
            ("1. so:\n   ````\n   a\n   ````", &[("", "a\n")]),
            ("```\na ``` b\n~~~\n```", &[("", "a ``` b\n~~~\n")]),
            ("````\n```\na\n````", &[("", "```\na\n")]),
            ("a `code` b\n``` x` y", &[]),
            (
                "```markdown\nso\n```cuda\na\n```\nend\n```",
                &[("cuda", "a\n")],
            ),
            ("```a\n1\n```\n```b\n2\n```", &[("a", "1\n"), ("b", "2\n")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected
                .iter()
                .map(|(language, body)| ((*language).to_owned(), (*body).to_owned()))
                .collect();
            assert_eq!(blocks(text), expected, "{text}");
            assert_eq!(document(text).open, None, "{text}");
        }
    }

    #[test]
    fn what_is_never_closed_is_told_with_its_line() {
        assert_eq!(document("so:\n```cuda\na").open, Some(2));
        assert_eq!(document("```cuda\na\n```cuda\nb\n```").open, Some(1));
    }
}
