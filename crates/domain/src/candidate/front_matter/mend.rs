//! Correction of front matters that are not TOML, line by line: unquoted names and expressions, tuples,
//! C comments and semicolons, `KEY: VALUE`. The number of lines stays.

use crate::cleaning;
use crate::expr::Expr;

use super::MAX_QUOTED;

/// A corrected front matter.
pub(super) struct Mended {
    pub(super) text: String,
    /// One sentence per changed line.
    pub(super) notes: Vec<String>,
    /// Lines of the file, from 1, that are neither a table nor `KEY = VALUE`, and were left out.
    pub(super) stray: Vec<u32>,
}

/// Corrects what can be corrected. The result may still not be TOML.
pub(super) fn mend(text: &str) -> Mended {
    let mut mender = Mender {
        rest: text,
        out: String::with_capacity(text.len() + 64),
        stray: Vec::new(),
    };
    while !mender.rest.is_empty() {
        mender.statement();
    }
    // Line 1 of the file is the opening fence.
    let lines = text.lines().zip(mender.out.lines()).zip(2_u32..);
    let changed = lines.filter(|((before, after), line)| {
        code(before) != code(after) && !mender.stray.contains(line)
    });
    let quoted = |line: &str| cleaning::clean_line(line.trim(), MAX_QUOTED);
    let notes = changed.map(|((before, after), line)| {
        let (before, after) = (quoted(before), quoted(after));
        format!("line {line}: `{before}` was read as `{after}`")
    });
    Mended {
        notes: notes.collect(),
        stray: mender.stray.clone(),
        text: mender.out,
    }
}

/// A line without a comment that fills it.
fn code(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') || line.starts_with("//") {
        ""
    } else {
        line
    }
}

struct Mender<'a> {
    rest: &'a str,
    out: String,
    stray: Vec<u32>,
}

impl<'a> Mender<'a> {
    /// Copies one statement or empty line.
    fn statement(&mut self) {
        self.copy_while(|c| c.is_whitespace());
        if self.rest.is_empty() || self.comment() {
            return;
        }
        if self.rest.starts_with('[') {
            let line = self.take_line();
            self.out.push_str(&header(line));
            return;
        }
        let line = self.rest.lines().next().unwrap_or_default();
        let end = line.find(['=', ':']);
        let Some(end) = end.filter(|end| !line[..*end].trim().is_empty()) else {
            let lines = self.out.matches('\n').count();
            self.stray
                .push(u32::try_from(lines + 2).unwrap_or(u32::MAX));
            let line = self.take_line();
            self.out.push_str("# ");
            self.out.push_str(line);
            return;
        };
        self.out.push_str(line[..end].trim_end());
        self.out.push_str(" = ");
        self.rest = self.rest[end + 1..].trim_start_matches(['=', ' ', '\t']);
        self.value(true);
        self.rest = self.rest.trim_start_matches([' ', '\t', ';', ',']);
        if !self.rest.is_empty() && !self.rest.starts_with('\n') {
            self.out.push(' ');
            if !self.comment() {
                let line = self.take_line();
                self.out.push_str(line);
            }
        }
    }

    /// Copies a comment, if one begins here, up to the end of its line.
    fn comment(&mut self) -> bool {
        if let Some(rest) = self.rest.strip_prefix("//") {
            self.rest = rest;
            self.out.push('#');
        } else if !self.rest.starts_with('#') {
            return false;
        }
        let line = self.take_line();
        self.out.push_str(line);
        true
    }

    /// Copies a value; `top` is true for the value of a statement, which ends with its line.
    fn value(&mut self, top: bool) {
        match self.rest.chars().next() {
            Some('"' | '\'') => self.string(),
            Some('[') => self.list(']'),
            Some('{') if !self.is_table() => self.list('}'),
            Some('{') => self.table(),
            _ => self.bare(top),
        }
    }

    fn string(&mut self) {
        let quote = &self.rest[..1];
        let triple = quote.repeat(3);
        let (marks, multiline) = if self.rest.starts_with(&triple) {
            (triple.as_str(), true)
        } else {
            (quote, false)
        };
        let mut at = marks.len();
        while at < self.rest.len() {
            let here = &self.rest[at..];
            if here.starts_with(marks) {
                at += marks.len();
                break;
            }
            if here.starts_with('\n') && !multiline {
                break;
            }
            let escaped = usize::from(here.starts_with('\\') && quote == "\"");
            at += here
                .chars()
                .take(1 + escaped)
                .map(char::len_utf8)
                .sum::<usize>();
        }
        let (string, rest) = self.rest.split_at(at);
        self.out.push_str(string);
        self.rest = rest;
    }

    /// Copies a list, whose brackets become square.
    fn list(&mut self, closing: char) {
        self.out.push('[');
        self.rest = &self.rest[1..];
        loop {
            self.copy_while(char::is_whitespace);
            if self.comment() {
                continue;
            }
            if let Some(rest) = self.rest.strip_prefix(closing) {
                self.out.push(']');
                self.rest = rest;
                return;
            }
            if self.rest.is_empty() {
                return;
            }
            let before = self.rest.len();
            self.value(false);
            self.copy_while(|c| matches!(c, ' ' | '\t'));
            let ends = self.rest.starts_with([closing, '\n', '#']) || self.rest.is_empty();
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.out.push(',');
                self.rest = rest;
            } else if !ends && self.rest.len() < before {
                self.out.push(',');
            } else if self.rest.len() == before {
                // A character that no list contains, such as a bracket of another kind.
                self.copy_one();
            }
        }
    }

    /// Returns true if the brace at the cursor opens an inline table.
    fn is_table(&self) -> bool {
        let inside = self.rest.split('}').next().unwrap_or_default();
        inside.contains(['=', ':']) || inside[1..].trim().is_empty()
    }

    fn table(&mut self) {
        self.out.push('{');
        self.rest = &self.rest[1..];
        loop {
            self.copy_while(char::is_whitespace);
            if let Some(rest) = self.rest.strip_prefix('}') {
                self.out.push('}');
                self.rest = rest;
                return;
            }
            let Some(end) = self.rest.find(['=', ':', '}', '\n']) else {
                return;
            };
            if !self.rest[end..].starts_with(['=', ':']) {
                self.copy_one();
                continue;
            }
            let key = self.rest[..end].trim();
            self.out.push_str(key);
            self.out.push_str(" = ");
            self.rest = self.rest[end + 1..].trim_start_matches(['=', ' ', '\t']);
            self.value(false);
            self.copy_while(|c| matches!(c, ' ' | '\t' | ','));
        }
    }

    /// Copies a value without quotes: a number as TOML writes it, a tuple as a list, anything else as
    /// a string.
    fn bare(&mut self, top: bool) {
        let mut depth = 0_usize;
        let mut end = self.rest.len();
        for (at, c) in self.rest.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                '\n' | '#' => {
                    end = at;
                    break;
                }
                ';' if top => {
                    end = at;
                    break;
                }
                ',' | ']' | '}' if !top && depth == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        let mut text = &self.rest[..end];
        // Two slashes divide, as in Python, or begin a comment.
        if let Some(slashes) = text.find("//")
            && Expr::parse(text.trim()).is_err()
        {
            text = &text[..slashes];
        }
        self.rest = &self.rest[text.len()..];
        self.out.push_str(&quoted(text.trim()));
        if self.rest.starts_with(['#', '/']) {
            self.out.push(' ');
        }
    }

    fn copy_while(&mut self, keep: impl Fn(char) -> bool) {
        let end = self.rest.find(|c| !keep(c)).unwrap_or(self.rest.len());
        let (kept, rest) = self.rest.split_at(end);
        self.out.push_str(kept);
        self.rest = rest;
    }

    fn copy_one(&mut self) {
        let mut characters = self.rest.chars();
        self.out.extend(characters.next());
        self.rest = characters.as_str();
    }

    /// Removes the line, up to its end, from what is left.
    fn take_line(&mut self) -> &'a str {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        line
    }
}

/// The header of a table, whose launches are a list.
fn header(line: &str) -> String {
    let trimmed = line.trim_end_matches([' ', '\t', ';', ':', ',']);
    let name = trimmed
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .map(str::trim);
    match name {
        Some(name @ ("launch" | "launches" | "kernel" | "kernels")) => format!("[[{name}]]"),
        Some(_) => trimmed.to_owned(),
        None => line.replacen("//", "#", 1),
    }
}

/// A value without quotes as TOML.
fn quoted(text: &str) -> String {
    match text {
        "True" | "TRUE" => return "true".to_owned(),
        "False" | "FALSE" => return "false".to_owned(),
        "true" | "false" => return text.to_owned(),
        "" => return String::new(),
        _ => {}
    }
    let integer = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if integer.parse::<i64>().is_ok() {
        return integer.trim_start_matches('+').to_owned();
    }
    if is_number(text) {
        return text.to_owned();
    }
    let decimal = text.trim_end_matches(['f', 'F']);
    if decimal.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && decimal.parse::<f64>().is_ok_and(f64::is_finite)
    {
        let value: f64 = decimal.parse().unwrap_or_default();
        return format!("{value:?}");
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns true if TOML reads the text as a number.
fn is_number(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+'))
        && toml::de::DeValue::parse(text)
            .is_ok_and(|value| value.get_ref().is_integer() || value.get_ref().is_float())
}
