//! Splits text into tokens: numbers, names, modifiers, punctuation, each with its position. The lexer knows spelling
//! only.

use crate::module::LoadError;

/// One token and its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    /// From 1.
    pub(crate) line: u32,
    /// From 1.
    pub(crate) column: u32,
    /// True if no whitespace separates it from the token before.
    pub(crate) glued: bool,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind<'a> {
    /// A name: `add`, `%r1`, `$L__BB0_1`, `_`.
    Word(&'a str),
    /// A dotted word without its dot: `.f32`, `.shared::cta`.
    Dotted(&'a str),
    /// An integer literal.
    Integer(u64),
    /// A `0f` literal or a decimal number with a point: bits of a double and of a single.
    Float(f64),
    /// The bits of a `0f` literal.
    Single(u32),
    /// The bits of a `0d` literal.
    Double(u64),
    /// A quoted text without its quotes.
    Text(&'a str),
    /// Any other character.
    Mark(u8),
    /// After the last token.
    End,
}

/// Splits a text. The last token is always [`Kind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, LoadError> {
    Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line: 1,
        line_start: 0,
    }
    .run()
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    line_start: usize,
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn continues_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

impl<'a> Lexer<'a> {
    fn run(mut self) -> Result<Vec<Token<'a>>, LoadError> {
        let mut tokens = Vec::with_capacity(self.bytes.len() / 4);
        loop {
            let before = self.at;
            self.skip_blank()?;
            let glued = before == self.at && before != 0;
            let (line, column) = (self.line, (self.at - self.line_start + 1) as u32);
            let kind = self.next()?;
            tokens.push(Token {
                kind,
                line,
                column,
                glued,
            });
            if kind == Kind::End {
                return Ok(tokens);
            }
        }
    }

    fn error(&self, message: impl Into<String>) -> LoadError {
        LoadError::Syntax {
            line: self.line,
            column: (self.at - self.line_start + 1) as u32,
            message: message.into(),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_blank(&mut self) -> Result<(), LoadError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'\n', _) => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                }
                (b' ' | b'\t' | b'\r', _) => self.at += 1,
                (b'/', b'/') => {
                    while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    self.at += 2;
                    while (self.peek(0), self.peek(1)) != (b'*', b'/') {
                        if self.at >= self.bytes.len() {
                            return Err(self.error("the comment does not end"));
                        }
                        if self.peek(0) == b'\n' {
                            self.line += 1;
                            self.line_start = self.at + 1;
                        }
                        self.at += 1;
                    }
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    fn word_end(&self, from: usize) -> usize {
        let mut end = from;
        while self
            .bytes
            .get(end)
            .is_some_and(|byte| continues_word(*byte))
        {
            end += 1;
        }
        end
    }

    fn next(&mut self) -> Result<Kind<'a>, LoadError> {
        let Some(&first) = self.bytes.get(self.at) else {
            return Ok(Kind::End);
        };
        if starts_word(first) {
            let end = self.word_end(self.at + 1);
            let word = &self.text[self.at..end];
            self.at = end;
            return Ok(Kind::Word(word));
        }
        if first == b'.' && continues_word(self.peek(1)) {
            let mut end = self.word_end(self.at + 1);
            while self.bytes.get(end..end + 2) == Some(b"::") {
                end = self.word_end(end + 2);
            }
            let word = &self.text[self.at + 1..end];
            self.at = end;
            return Ok(Kind::Dotted(word));
        }
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == b'"' {
            let start = self.at + 1;
            let Some(length) = self.bytes[start..].iter().position(|byte| *byte == b'"') else {
                return Err(self.error("the quoted text does not end"));
            };
            let text = &self.text[start..start + length];
            self.line += text.bytes().filter(|byte| *byte == b'\n').count() as u32;
            self.at = start + length + 1;
            return Ok(Kind::Text(text));
        }
        if !first.is_ascii() {
            return Err(self.error("a character outside ASCII"));
        }
        self.at += 1;
        Ok(Kind::Mark(first))
    }

    fn number(&mut self) -> Result<Kind<'a>, LoadError> {
        let end = self.word_end(self.at);
        let word = &self.text[self.at..end];
        if let Some(digits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            let bits = u32::from_str_radix(digits, 16)
                .map_err(|_| self.error("a malformed 0f literal"))?;
            self.at = end;
            return Ok(Kind::Single(bits));
        }
        if let Some(digits) = word.strip_prefix("0d").or_else(|| word.strip_prefix("0D")) {
            let bits = u64::from_str_radix(digits, 16)
                .map_err(|_| self.error("a malformed 0d literal"))?;
            self.at = end;
            return Ok(Kind::Double(bits));
        }
        if self.bytes.get(end) == Some(&b'.')
            && self.bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
        {
            let mut stop = self.word_end(end + 1);
            let exponent_sign = matches!(self.bytes[stop - 1], b'e' | b'E')
                && matches!(self.bytes.get(stop), Some(b'+' | b'-'));
            if exponent_sign {
                stop = self.word_end(stop + 1);
            }
            let value = self.text[self.at..stop]
                .parse()
                .map_err(|_| self.error("a malformed number"))?;
            self.at = stop;
            return Ok(Kind::Float(value));
        }
        let digits = word.strip_suffix('U').unwrap_or(word);
        let value = if let Some(hex) = digits
            .strip_prefix("0x")
            .or_else(|| digits.strip_prefix("0X"))
        {
            u64::from_str_radix(hex, 16)
        } else if let Some(binary) = digits
            .strip_prefix("0b")
            .or_else(|| digits.strip_prefix("0B"))
        {
            u64::from_str_radix(binary, 2)
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8)
        } else {
            digits.parse()
        }
        .map_err(|_| self.error(format!("`{word}` is not a number")))?;
        self.at = end;
        Ok(Kind::Integer(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling() {
        let kinds: Vec<_> = tokens("fma.rn.f32 %f1, 0f3F800000, -12; // tail\n[%rd1+0x10] ld.shared::cta.v2 1.5 0dBFF0000000000000")
            .unwrap()
            .into_iter()
            .map(|token| token.kind)
            .collect();
        assert_eq!(
            kinds,
            [
                Kind::Word("fma"),
                Kind::Dotted("rn"),
                Kind::Dotted("f32"),
                Kind::Word("%f1"),
                Kind::Mark(b','),
                Kind::Single(0x3f80_0000),
                Kind::Mark(b','),
                Kind::Mark(b'-'),
                Kind::Integer(12),
                Kind::Mark(b';'),
                Kind::Mark(b'['),
                Kind::Word("%rd1"),
                Kind::Mark(b'+'),
                Kind::Integer(16),
                Kind::Mark(b']'),
                Kind::Word("ld"),
                Kind::Dotted("shared::cta"),
                Kind::Dotted("v2"),
                Kind::Float(1.5),
                Kind::Double(0xbff0_0000_0000_0000),
                Kind::End
            ]
        );
    }

    #[test]
    fn places_and_errors() {
        let all = tokens("a\n  b").unwrap();
        assert_eq!((all[1].line, all[1].column), (2, 3));
        assert!(tokens("/* no end").is_err());
        assert!(tokens("\"no end").is_err());
        assert!(tokens("0xZZ").is_err());
        assert!(tokens("é").is_err());
    }
}
