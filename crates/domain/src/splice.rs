//! Line continuations and trigraphs, which a C++ compiler resolves before it looks for comments
//! and directives. A check that reads a source must do the same, or it sees another program.

/// The trigraph for a backslash.
const TRIGRAPH: &str = "??/";

/// The text after a line continuation that `text` begins with: a backslash or its trigraph, blanks,
/// and a line end. GCC and EDG's front end, which NVRTC uses, overlook the blanks. None if `text`
/// begins with something else.
pub(crate) fn strip_splice(text: &str) -> Option<&str> {
    strip_backslash_splice(text).or_else(|| strip_line_end(text.strip_prefix(TRIGRAPH)?))
}

/// As [`strip_splice()`], where trigraphs mean nothing, as since C++17.
fn strip_backslash_splice(text: &str) -> Option<&str> {
    strip_line_end(text.strip_prefix('\\')?)
}

fn strip_line_end(text: &str) -> Option<&str> {
    text.trim_start_matches([' ', '\t', '\u{b}', '\u{c}'])
        .strip_prefix('\n')
}

/// The treatment of trigraphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigraphs {
    /// Replaced, as before C++17.
    Resolved,
    /// Not replaced, as since C++17.
    Plain,
}

/// The logical lines of a text, each with the offset of its first physical line: physical lines are
/// joined at line continuations, and the trigraph for `#` is resolved if trigraphs are.
pub(crate) fn logical_lines(text: &str, trigraphs: Trigraphs) -> Vec<(usize, String)> {
    let are_resolved = trigraphs == Trigraphs::Resolved;
    let splice = if are_resolved {
        strip_splice
    } else {
        strip_backslash_splice
    };
    let mut lines = Vec::new();
    let (mut line, mut begins) = (String::new(), 0);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(after) = splice(rest) {
            rest = after;
        } else if let Some(after) = rest.strip_prefix("??=").filter(|_| are_resolved) {
            line.push('#');
            rest = after;
        } else {
            rest = &rest[next.len_utf8()..];
            if next == '\n' {
                lines.push((begins, std::mem::take(&mut line)));
                begins = text.len() - rest.len();
            } else {
                line.push(next);
            }
        }
    }
    lines.push((begins, line));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_where_a_compiler_joins_them() {
        let joined = |text: &str| {
            let lines = logical_lines(text, Trigraphs::Resolved).into_iter();
            lines.map(|(_, line)| line).collect::<Vec<_>>()
        };
        assert_eq!(joined("a\\\nb\nc"), ["ab", "c"]);
        assert_eq!(joined("a\\ \t\nb"), ["ab"]);
        assert_eq!(joined("a??/\nb"), ["ab"]);
        assert_eq!(joined("a\\\n\\\nb\n"), ["ab", ""]);
        assert_eq!(joined("a\\b\nc"), ["a\\b", "c"]);
        assert_eq!(joined("??=define a"), ["#define a"]);
        assert_eq!(logical_lines("a\\\nb\nc", Trigraphs::Plain)[1].0, 5);
        assert_eq!(logical_lines("a??/\nb", Trigraphs::Plain).len(), 2);
    }
}
