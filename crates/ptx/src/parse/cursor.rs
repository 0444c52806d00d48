//! The parser's position among the tokens: the next token, expected tokens and errors with their place.

use super::Parser;
use crate::lex::Kind;
use crate::module::LoadError;

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }

    pub(super) fn peek_after(&self, ahead: usize) -> Kind<'a> {
        self.tokens
            .get(self.at + ahead)
            .map_or(Kind::End, |token| token.kind)
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens[self.at].line
    }

    pub(super) fn next(&mut self) -> Kind<'a> {
        let kind = self.peek();
        if kind != Kind::End {
            self.at += 1;
        }
        kind
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T, LoadError> {
        let token = self.tokens[self.at];
        Err(LoadError::Syntax {
            line: token.line,
            column: token.column,
            message: message.into(),
        })
    }

    pub(super) fn expected<T>(&self, what: &str) -> Result<T, LoadError> {
        self.error(format!("expected {what}, found {}", spelled(self.peek())))
    }

    pub(super) fn accept(&mut self, mark: u8) -> bool {
        let found = self.peek() == Kind::Mark(mark);
        if found {
            self.at += 1;
        }
        found
    }

    pub(super) fn expect(&mut self, mark: u8) -> Result<(), LoadError> {
        if self.accept(mark) {
            Ok(())
        } else {
            self.expected(&format!("`{}`", char::from(mark)))
        }
    }

    pub(super) fn word(&mut self) -> Result<&'a str, LoadError> {
        match self.peek() {
            Kind::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected("a name"),
        }
    }

    pub(super) fn integer(&mut self) -> Result<u64, LoadError> {
        let negative = self.accept(b'-');
        match self.peek() {
            Kind::Integer(value) => {
                self.at += 1;
                Ok(if negative {
                    value.wrapping_neg()
                } else {
                    value
                })
            }
            _ => self.expected("an integer"),
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, LoadError> {
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| self.error(format!("{value} is too large")))
    }

    pub(super) fn accept_dotted(&mut self, word: &str) -> bool {
        let found = self.peek() == Kind::Dotted(word);
        if found {
            self.at += 1;
        }
        found
    }
}

fn spelled(kind: Kind<'_>) -> String {
    match kind {
        Kind::Word(word) => format!("`{word}`"),
        Kind::Dotted(word) => format!("`.{word}`"),
        Kind::Integer(value) => format!("`{value}`"),
        Kind::Float(value) => format!("`{value}`"),
        Kind::Single(bits) => format!("`0f{bits:08X}`"),
        Kind::Double(bits) => format!("`0d{bits:016X}`"),
        Kind::Text(text) => format!("{text:?}"),
        Kind::Mark(mark) => format!("`{}`", char::from(mark)),
        Kind::End => "the end of the text".into(),
    }
}
