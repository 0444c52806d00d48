//! Declarations of variables and parameters with their initial values.

use super::Parser;
use crate::ir::{Init, StateSpace, Ty, Variable};
use crate::lex::Kind;
use crate::module::LoadError;

/// Most bytes one declared variable may have.
const MAX_VARIABLE_BYTES: u64 = 1 << 32;

/// Deepest nesting of initialisers.
const MAX_NESTING: usize = 16;

impl Parser<'_> {
    /// `.space [.align n] .type name[n][m] [= init];`
    pub(super) fn variable(&mut self, external: bool) -> Result<Variable, LoadError> {
        let line = self.line();
        let space = match self.peek() {
            Kind::Dotted("global") => StateSpace::Global,
            Kind::Dotted("const") => StateSpace::Const,
            Kind::Dotted("shared") => StateSpace::Shared,
            Kind::Dotted("local") => StateSpace::Local,
            Kind::Dotted("param") => StateSpace::Param,
            _ => return self.expected("a state space"),
        };
        self.at += 1;
        let mut variable = self.declarator(space, line)?;
        if self.accept(b'=') {
            variable.init = self.initialiser(variable.element, 0)?;
            if variable.unsized_array {
                variable.bytes = variable.init.len() as u64 * u64::from(variable.element.bytes());
                variable.unsized_array = false;
            }
            if variable.init.len() as u64 * u64::from(variable.element.bytes()) > variable.bytes {
                return self.error(format!(
                    "the initialiser of `{}` is longer than it",
                    variable.name
                ));
            }
        }
        if variable.unsized_array && !(external && space == StateSpace::Shared) {
            return self.error(format!("`{}` has no size", variable.name));
        }
        self.expect(b';')?;
        Ok(variable)
    }

    /// `[.align n] .type [.ptr ..] name[n][m]`
    pub(super) fn declarator(
        &mut self,
        space: StateSpace,
        line: u32,
    ) -> Result<Variable, LoadError> {
        let mut align = None;
        let mut element = None;
        let mut vector = 1;
        loop {
            match self.peek() {
                Kind::Dotted("align") => {
                    self.at += 1;
                    align = Some(self.small()?);
                    if !align.is_some_and(u32::is_power_of_two) {
                        return self.error("an alignment is a power of two");
                    }
                    continue;
                }
                Kind::Dotted("v2") => vector = 2,
                Kind::Dotted("v4") => vector = 4,
                Kind::Dotted("attribute") => {
                    self.at += 1;
                    while !self.accept(b')') {
                        if self.next() == Kind::End {
                            return self.expected("`)`");
                        }
                    }
                    continue;
                }
                Kind::Dotted("ptr" | "global" | "const" | "shared" | "local" | "noinline") => {}
                Kind::Dotted(word) => match Ty::parse(word) {
                    Some(ty) => element = Some(ty),
                    None => return self.expected("a type"),
                },
                _ => break,
            }
            self.at += 1;
        }
        let Some(element) = element else {
            return self.expected("a type");
        };
        let name = self.word()?.to_owned();
        let mut count = u64::from(vector);
        let mut unsized_array = false;
        while self.accept(b'[') {
            if self.accept(b']') {
                unsized_array = true;
                continue;
            }
            let dimension = self.integer()?;
            count = count.saturating_mul(dimension);
            self.expect(b']')?;
        }
        let bytes = count.saturating_mul(u64::from(element.bytes()));
        if bytes > MAX_VARIABLE_BYTES {
            return self.error(format!("`{name}` is too large"));
        }
        Ok(Variable {
            name,
            space,
            align: align.unwrap_or(element.bytes() * vector).max(1),
            bytes: if unsized_array { 0 } else { bytes },
            unsized_array,
            element,
            init: Vec::new(),
            line,
        })
    }

    fn initialiser(&mut self, element: Ty, depth: usize) -> Result<Vec<Init>, LoadError> {
        if depth > MAX_NESTING {
            return self.error("initialisers are nested too deeply");
        }
        if !self.accept(b'{') {
            return Ok(vec![self.initial_value(element)?]);
        }
        let mut values = Vec::new();
        while !self.accept(b'}') {
            if self.peek() == Kind::Mark(b'{') {
                values.extend(self.initialiser(element, depth + 1)?);
            } else {
                values.push(self.initial_value(element)?);
            }
            if !self.accept(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        Ok(values)
    }

    fn initial_value(&mut self, element: Ty) -> Result<Init, LoadError> {
        match self.peek() {
            Kind::Single(bits) => {
                self.at += 1;
                Ok(Init::Bits(u64::from(bits)))
            }
            Kind::Double(bits) => {
                self.at += 1;
                Ok(Init::Bits(bits))
            }
            Kind::Float(value) => {
                self.at += 1;
                Ok(Init::Bits(if element == Ty::F32 {
                    u64::from((value as f32).to_bits())
                } else {
                    value.to_bits()
                }))
            }
            Kind::Word(word) => {
                let generic = word == "generic" && self.peek_after(1) == Kind::Mark(b'(');
                let name = if generic {
                    self.at += 2;
                    let name = self.word()?;
                    self.expect(b')')?;
                    name
                } else {
                    self.word()?
                };
                let offset = if self.accept(b'+') {
                    self.integer()? as i64
                } else {
                    0
                };
                Ok(Init::Named {
                    name: name.to_owned(),
                    offset,
                })
            }
            _ => Ok(Init::Bits(self.integer()?)),
        }
    }
}
