//! The text of a program without what a compiler overlooks: comments and layout.

use crate::splice;

/// The code without comments, with one blank where any white space stood, and with line ends around
/// preprocessor directives only. Texts with the same result are the same program. None where that is not
/// certain: a raw string, an unfinished comment or string, digits apart, trigraphs, digraphs, `__LINE__`.
pub(super) fn normalized(code: &str) -> Option<String> {
    let uncertain = ["R\"", "__LINE__", "??", "%:", "<:", ":>"];
    if uncertain.iter().any(|text| code.contains(text)) {
        return None;
    }
    let lines = splice::logical_lines(code, splice::Trigraphs::Plain);
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let mut out = Normalized::default();
    let joined = lines.join("\n");
    let mut rest = joined.as_str();
    while let Some(next) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            out.blank();
            comment.find("*/")? + 4
        } else if next == '"' || next == '\'' {
            if next == '\'' && out.ends_in_word() {
                return None;
            }
            let length = literal(rest, next)?;
            out.push(&rest[..length]);
            length
        } else {
            match next {
                '\n' => out.line_end(),
                ' ' | '\t' | '\u{b}' | '\u{c}' => out.blank(),
                _ => out.push(&rest[..next.len_utf8()]),
            }
            next.len_utf8()
        };
        rest = &rest[length..];
    }
    Some(out.text)
}

/// Bytes of the string or character literal that a text begins with; none if it does not end on its line.
pub(super) fn literal(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        match next {
            '\n' => return None,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if next == quote => return Some(at + next.len_utf8()),
            _ => {}
        }
    }
    None
}

/// Normalised text that grows.
#[derive(Default)]
struct Normalized {
    text: String,
    /// White space stands before the next character.
    is_apart: bool,
    /// A line end is among it.
    is_new_line: bool,
    /// The last line is a directive.
    is_directive: bool,
}

impl Normalized {
    fn push(&mut self, text: &str) {
        let begins_directive = text.starts_with('#') && (self.is_new_line || self.text.is_empty());
        if self.text.is_empty() {
            // Nothing to stand apart from.
        } else if self.is_new_line && (self.is_directive || begins_directive) {
            self.text.push('\n');
        } else if self.is_apart {
            self.text.push(' ');
        }
        self.is_directive = begins_directive || (self.is_directive && !self.is_new_line);
        (self.is_apart, self.is_new_line) = (false, false);
        self.text.push_str(text);
    }

    fn blank(&mut self) {
        self.is_apart = true;
    }

    fn line_end(&mut self) {
        (self.is_apart, self.is_new_line) = (true, true);
    }

    /// Returns true if a single quote that follows may separate digits, as in 1'000.
    fn ends_in_word(&self) -> bool {
        let last = self.text.chars().next_back();
        !self.is_apart && last.is_some_and(|last| last.is_alphanumeric())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_comments_and_layout_are_one_program() {
        let cases = [
            (
                "int a; // one\nint b;",
                "int a;\n\n\n  int /* two\nlines */ b;",
            ),
            ("a + b", "a\t+\n  b // end"),
            (
                "#define A 1\nint a;",
                "\n#define A /* x\n */ 1 // y\n\n  int a;\n",
            ),
            ("#define A \\\n 1\na", "#define A 1\na"),
            (
                "int a;\n#pragma unroll\nfor",
                "int a; /**/\n#pragma   unroll\nfor",
            ),
            ("x = '\"'; // \"", "x = '\"';"),
        ];
        for (one, other) in cases {
            assert!(normalized(one).is_some(), "{one}");
            assert_eq!(normalized(one), normalized(other), "{one}");
        }
    }

    #[test]
    fn texts_that_a_compiler_tells_apart_differ() {
        let cases = [
            ("a/**/b", "ab"),
            ("a b", "ab"),
            ("\"a  b\"", "\"a b\""),
            ("\"// a\"", "\"// b\""),
            ("\"/* a */\"", "\"\""),
            ("'a' /* '", "'b' /* '"),
            ("#define A\n1", "#define A 1"),
            ("a\n#if B", "a #if B"),
            ("\"\\\"// a\"", "\"\\\"// b\""),
        ];
        for (one, other) in cases {
            let differ = normalized(one).is_none() || normalized(one) != normalized(other);
            assert!(differ, "{one}: {:?}", normalized(one));
        }
    }

    #[test]
    fn an_uncertain_text_has_no_normal_form() {
        let uncertain = [
            "R\"(// a)\"",
            "int a = __LINE__;",
            "%:define A",
            "a ??/",
            "/* open",
            "\"open",
            "'open",
            "1'000",
        ];
        for text in uncertain {
            assert_eq!(normalized(text), None, "{text}");
        }
    }
}
