//! Adoption of the parent's launch plan by a kernel that came without one.
//!
//! A plan is adopted only where it certainly belongs: the same entries with the same parameters,
//! names included, since two pointers of one type may have changed places.

use std::collections::BTreeMap;

use crate::candidate::KernelSource;

/// Qualifiers that change no argument.
const QUALIFIERS: &[&str] = &["const", "__restrict__", "__restrict", "volatile"];
/// Qualifiers with an argument list of their own that may stand between a kernel's type and its
/// name.
const BOUNDS: &[&str] = &[
    "__launch_bounds__",
    "__cluster_dims__",
    "__maxnreg__",
    "__block_size__",
];

/// The parent's front matter followed by `code`, if the plan fits the code.
pub(super) fn adopted(parent: &KernelSource, code: &str) -> Option<String> {
    let wanted = entries(parent.body());
    if wanted.is_empty() || entries(code) != wanted {
        return None;
    }
    let (front, _) = parent
        .text()
        .split_at(parent.text().len() - parent.body().len());
    let code = code.trim_start_matches(['\n', '\r']);
    Some(format!("{}\n{code}", front.trim_end()))
}

/// Returns true if a text defines a kernel.
pub(super) fn has_kernel(code: &str) -> bool {
    !entries(code).is_empty()
}

/// Every `__global__` function with its parameters, as tokens without qualifiers.
fn entries(code: &str) -> BTreeMap<String, Vec<String>> {
    let tokens = tokens(code);
    let mut entries = BTreeMap::new();
    for (at, _) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| *token == "__global__")
    {
        if let Some((name, parameters)) = signature(&tokens[at + 1..]) {
            entries.insert(name.to_owned(), parameters);
        }
    }
    entries
}

/// The name and the parameters of the function whose tokens follow `__global__`.
fn signature(tokens: &[String]) -> Option<(&str, Vec<String>)> {
    let mut rest = tokens;
    loop {
        let open = rest
            .iter()
            .position(|token| matches!(token.as_str(), "(" | "{" | ";"))?;
        if rest[open] != "(" || open == 0 {
            return None;
        }
        let close = closing(rest, open)?;
        let name = rest[open - 1].as_str();
        if BOUNDS.contains(&name) {
            rest = &rest[close + 1..];
            continue;
        }
        let parameters = rest[open + 1..close]
            .iter()
            .filter(|token| !QUALIFIERS.contains(&token.as_str()))
            .cloned()
            .collect();
        return Some((name, parameters));
    }
}

fn closing(tokens: &[String], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" => depth += 1,
            ")" if depth == 1 => return Some(at),
            ")" => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Identifiers, numbers and single punctuation characters, without comments and literals.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else if matches!(first, '"' | '\'') {
            literal(rest, first)
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The longest literal that is recognised, characters: an end to look for keeps the whole linear.
const MAX_LITERAL: usize = 4_096;

/// The bytes of a literal that `rest` begins with; a quote that is not closed on its line is
/// a lone character, as the separator in `1'000` is.
fn literal(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1).take(MAX_LITERAL) {
        match c {
            '\n' => break,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_past_comments_literals_and_bounds() {
        let code = r#"
            // __global__ void gone(int a) {}
            const char* s = "__global__ void text(int a)";
            int big = 1'000;
            extern "C" __global__ void __launch_bounds__(WARPS * (32), 2)
            real(const float* __restrict__ x, /* rows */ int N) { f(x); }
        "#;
        let expected = ["float", "*", "x", ",", "int", "N"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            entries(code),
            BTreeMap::from([("real".to_owned(), expected)])
        );
    }

    #[test]
    fn unfinished_code_has_no_entry() {
        for code in [
            "__global__",
            "__global__ void f(",
            "__global__ void f;",
            "__global__ (",
        ] {
            assert!(!has_kernel(code), "{code}");
        }
    }
}
