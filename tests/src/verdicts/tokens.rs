//! Tokens of our own CUDA text, and patterns over them.
//!
//! A pattern is CUDA text with captures: `$n...` matches one number, `$i...` one name, and any other `$...` the
//! shortest sequence of tokens with balanced brackets and without `;` outside of them. A marker such as `/*@out*/` in
//! a kernel is a token, which is left out of the text that is compiled.

use std::collections::BTreeMap;
use std::ops::Range;

/// One token with the blanks and comments before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    before: String,
    pub text: String,
}

const LONG_OPERATORS: [&str; 22] = [
    "<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "%=",
    "^=", "&=", "|=", "++", "--", "->", "::",
];

/// Splits a text into tokens; also the blanks at its end, as a token without text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut before = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            before.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let length = length_of_token(rest, first);
        let (token, after) = rest.split_at(length);
        let comment =
            token.starts_with("//") || (token.starts_with("/*") && !token.starts_with("/*@"));
        // A directive of the preprocessor is not changed either.
        if comment || first == '#' {
            before.push_str(token);
        } else {
            found.push(Token {
                before: std::mem::take(&mut before),
                text: token.to_owned(),
            });
        }
        rest = after;
    }
    found.push(Token {
        before,
        text: String::new(),
    });
    found
}

fn length_of_token(rest: &str, first: char) -> usize {
    if rest.starts_with("//") || first == '#' {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if first.is_ascii_alphanumeric() || first == '_' || first == '$' {
        let number = first.is_ascii_digit();
        let end = rest[1..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || (number && c == '.')));
        let mut end = end.map_or(rest.len(), |end| end + 1);
        // The sign of an exponent belongs to the number, such as 1e-5f.
        if number && rest[..end].ends_with('e') && rest[end..].starts_with(['-', '+']) {
            let digits = rest[end + 1..].find(|c: char| !c.is_ascii_alphanumeric());
            end += 1 + digits.unwrap_or(rest.len() - end - 1);
        }
        return end;
    }
    LONG_OPERATORS
        .iter()
        .find(|operator| rest.starts_with(**operator))
        .map_or(first.len_utf8(), |operator| operator.len())
}

/// The text of tokens without markers.
pub(super) fn text(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        text.push_str(&token.before);
        if !token.text.starts_with("/*@") {
            text.push_str(&token.text);
        }
    }
    text
}

/// The matched tokens of each capture.
pub(super) type Captures = BTreeMap<String, Range<usize>>;

/// Matches a pattern at a position; the captures and the position behind the match.
pub(super) fn match_at(
    pattern: &[Token],
    subject: &[Token],
    at: usize,
) -> Option<(Captures, usize)> {
    let mut captures = Captures::new();
    let end = match_rest(pattern, subject, at, &mut captures)?;
    Some((captures, end))
}

fn match_rest(
    pattern: &[Token],
    subject: &[Token],
    at: usize,
    captures: &mut Captures,
) -> Option<usize> {
    let Some((wanted, later)) = pattern.split_first() else {
        return Some(at);
    };
    if wanted.text.is_empty() {
        return match_rest(later, subject, at, captures);
    }
    let found = subject.get(at)?;
    if !wanted.text.starts_with('$') {
        return (wanted.text == found.text)
            .then(|| match_rest(later, subject, at + 1, captures))
            .flatten();
    }
    let first = found.text.chars().next()?;
    let single = match wanted.text.as_bytes().get(1) {
        Some(b'n') => Some(first.is_ascii_digit()),
        Some(b'i') => Some(first.is_ascii_alphabetic() || first == '_'),
        _ => None,
    };
    if let Some(fits) = single {
        if !fits {
            return None;
        }
        captures.insert(wanted.text.clone(), at..at + 1);
        return match_rest(later, subject, at + 1, captures);
    }
    let mut depth = 0_u32;
    for end in at + 1..subject.len() {
        match subject[end - 1].text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.checked_sub(1)?,
            ";" if depth == 0 => return None,
            _ => {}
        }
        if depth > 0 {
            continue;
        }
        captures.insert(wanted.text.clone(), at..end);
        let mut tried = captures.clone();
        if let Some(end) = match_rest(later, subject, end, &mut tried) {
            *captures = tried;
            return Some(end);
        }
    }
    None
}

/// Replaces `range` of a subject by a template with captures.
pub(super) fn replace(
    subject: &[Token],
    range: Range<usize>,
    template: &[Token],
    captures: &Captures,
) -> Vec<Token> {
    let mut result = subject[..range.start].to_vec();
    for token in template {
        match captures.get(&token.text) {
            Some(captured) => {
                let begin = result.len();
                result.extend_from_slice(&subject[captured.clone()]);
                if let Some(first) = result.get_mut(begin) {
                    first.before.insert_str(0, &token.before);
                }
            }
            None if token.text.is_empty() => {}
            None => result.push(token.clone()),
        }
    }
    // Blanks and comments before the match stay, so that lines keep their numbers.
    let before = &subject[range.start].before;
    if let Some(first) = result.get_mut(range.start) {
        first.before.insert_str(0, before);
    }
    let begin = result.len();
    result.extend_from_slice(&subject[range.end..]);
    if begin == range.start
        && let Some(first) = result.get_mut(begin)
    {
        first.before.insert_str(0, before);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_not_changed_stays_as_it_is() {
        let source = "// c\n#include <a.h>\nfloat f(int i) { return x[i + 1] * 1e-5f; }\n";
        assert_eq!(text(&tokens(source)), source);
    }

    #[test]
    fn captures_are_balanced_and_as_short_as_possible() {
        let subject = tokens("y[size_t(n) * M + m] = f(a, b);");
        let pattern = tokens("[ $e ] = $v ;");
        let (captures, end) = match_at(&pattern, &subject, 1).expect("it matches");
        assert_eq!(end, subject.len() - 1);
        let template = tokens("[($e) + 1] = $v;");
        let changed = replace(&subject, 1..end, &template, &captures);
        assert_eq!(text(&changed), "y[(size_t(n) * M + m) + 1] =  f(a, b);");
    }

    #[test]
    fn a_marker_is_matched_and_not_compiled() {
        let subject = tokens("/*@out*/ y[0] = 1;");
        assert!(match_at(&tokens("/*@out*/ $p = $e ;"), &subject, 0).is_some());
        assert_eq!(text(&subject), " y[0] = 1;");
    }
}
