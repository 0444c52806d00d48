//! Parses the body of a function: scopes, registers, labels, line positions and instructions.

use std::collections::HashMap;

use super::Parser;
use crate::ir::{
    Base, Function, Instruction, Operand, SourcePosition, StateSpace, Statement, Symbol, Ty,
};
use crate::lex::Kind;
use crate::module::LoadError;

/// Maximum number of registers of a body; far more than any compiler emits.
const MAX_REGISTERS: usize = 1 << 20;
/// Maximum nesting of scopes and operand braces.
const MAX_DEPTH: usize = 64;

/// The entity that a name refers to in a scope.
#[derive(Debug, Clone, Copy)]
enum Name {
    Register(usize),
    Variable(usize),
    Label(usize),
}

#[derive(Debug, Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Name>,
    /// `%r<8>` declares the names `%r0` to `%r7`, made when first used.
    ranges: Vec<(&'a str, u64, Ty)>,
}

struct Body<'p, 'a> {
    parser: &'p mut Parser<'a>,
    function: &'p mut Function,
    scopes: Vec<Scope<'a>>,
    /// Uses of labels not yet seen in their scope, by placeholder label id.
    forward: Vec<Vec<(&'a str, usize)>>,
    statements: Vec<Statement>,
    place: Option<SourcePosition>,
    /// The call site of each inlined position, by file, line and column.
    callers: HashMap<(u32, u32, u32), (u32, u32, u32)>,
    /// Labels that mean another label.
    aliases: HashMap<usize, usize>,
    pending_tables: Vec<(usize, Vec<usize>)>,
}

/// Parses a body up to and including its closing brace.
pub(super) fn parse<'a>(parser: &mut Parser<'a>, function: &mut Function) -> Result<(), LoadError> {
    let mut outer = Scope::default();
    let names: Vec<String> = function
        .variables
        .iter()
        .map(|variable| variable.name.clone())
        .collect();
    for (index, name) in names.iter().enumerate() {
        // The text outlives the function; find the name's spelling in it through the token it came from.
        if let Some(spelling) =
            parser.tokens[..parser.at]
                .iter()
                .rev()
                .find_map(|token| match token.kind {
                    Kind::Word(word) if word == name => Some(word),
                    _ => None,
                })
        {
            outer.names.insert(spelling, Name::Variable(index));
        }
    }
    let mut body = Body {
        parser,
        function,
        scopes: vec![outer],
        forward: vec![Vec::new()],
        statements: Vec::new(),
        place: None,
        callers: HashMap::new(),
        aliases: HashMap::new(),
        pending_tables: Vec::new(),
    };
    body.run()
}

impl<'a> Body<'_, 'a> {
    fn run(&mut self) -> Result<(), LoadError> {
        while !self.scopes.is_empty() {
            self.statement()?;
        }
        let resolve = |aliases: &HashMap<usize, usize>, mut label: usize| {
            while let Some(&next) = aliases.get(&label) {
                label = next;
            }
            label
        };
        for statement in &mut self.statements {
            let Statement::Instruction(instruction) = statement else {
                continue;
            };
            for operand in &mut instruction.operands {
                if let Operand::Label(label) = operand {
                    *label = resolve(&self.aliases, *label);
                }
            }
        }
        for (name, targets) in &self.pending_tables {
            let targets = targets
                .iter()
                .map(|label| resolve(&self.aliases, *label))
                .collect();
            self.function
                .tables
                .insert(resolve(&self.aliases, *name), targets);
        }
        self.function.body = Some(std::mem::take(&mut self.statements));
        Ok(())
    }

    fn statement(&mut self) -> Result<(), LoadError> {
        match self.parser.peek() {
            Kind::Mark(b'{') => {
                self.parser.at += 1;
                if self.scopes.len() >= MAX_DEPTH {
                    return self.parser.error("scopes are nested too deeply");
                }
                self.scopes.push(Scope::default());
                self.forward.push(Vec::new());
                Ok(())
            }
            Kind::Mark(b'}') => self.close(),
            Kind::Mark(b';') => {
                self.parser.at += 1;
                Ok(())
            }
            Kind::Mark(b'@') => self.instruction(),
            Kind::Dotted("reg") => self.registers(),
            Kind::Dotted("local" | "shared" | "param" | "global" | "const") => self.variable(),
            Kind::Dotted("loc") => self.location(),
            Kind::Dotted("file") => self.parser.file(),
            Kind::Dotted("pragma") => {
                self.parser.at += 1;
                self.parser.next();
                self.parser.expect(b';')
            }
            Kind::Dotted(word) => Err(LoadError::Unsupported {
                feature: format!(".{word}"),
                ptx_line: self.parser.line(),
            }),
            Kind::Word(word) if self.parser.peek_after(1) == Kind::Mark(b':') => {
                self.parser.at += 2;
                self.label(word)
            }
            Kind::Word(_) => self.instruction(),
            _ => self.parser.expected("a statement"),
        }
    }

    fn close(&mut self) -> Result<(), LoadError> {
        self.scopes.pop();
        let unresolved = self.forward.pop().unwrap_or_default();
        match self.forward.last_mut() {
            // A label not found inside may stand in an outer scope further down, or further up.
            Some(outer) => {
                for (name, placeholder) in unresolved {
                    match self
                        .scopes
                        .iter()
                        .rev()
                        .find_map(|scope| scope.names.get(name))
                    {
                        Some(Name::Label(label)) => {
                            self.aliases.insert(placeholder, *label);
                        }
                        _ => outer.push((name, placeholder)),
                    }
                }
            }
            None => {
                if let Some((name, _)) = unresolved.first() {
                    return self.parser.error(format!("`{name}` is not declared"));
                }
            }
        }
        self.parser.at += 1;
        Ok(())
    }

    fn label(&mut self, name: &'a str) -> Result<(), LoadError> {
        let here = self.statements.len();
        let id = self.function.labels.len();
        self.function.labels.push((name.to_owned(), Some(here)));
        let depth = self.scopes.len() - 1;
        if self.scopes[depth]
            .names
            .insert(name, Name::Label(id))
            .is_some()
        {
            return self.parser.error(format!("`{name}` is declared twice"));
        }
        for (waiting, placeholder) in std::mem::take(&mut self.forward[depth]) {
            if waiting == name {
                self.aliases.insert(placeholder, id);
            } else {
                self.forward[depth].push((waiting, placeholder));
            }
        }
        if self.parser.accept_dotted("branchtargets") {
            let mut targets = vec![self.label_use()?];
            while self.parser.accept(b',') {
                targets.push(self.label_use()?);
            }
            self.parser.expect(b';')?;
            self.pending_tables.push((id, targets));
            return Ok(());
        }
        if let Kind::Dotted("calltargets" | "callprototype") = self.parser.peek() {
            // The lowering checks whether the function can be called.
            while !self.parser.accept(b';') {
                if self.parser.next() == Kind::End {
                    return self.parser.expected("`;`");
                }
            }
            return Ok(());
        }
        self.statements.push(Statement::Label);
        Ok(())
    }

    fn label_use(&mut self) -> Result<usize, LoadError> {
        let name = self.parser.word()?;
        Ok(self.label_named(name))
    }

    fn label_named(&mut self, name: &'a str) -> usize {
        if let Some(Name::Label(label)) = self
            .scopes
            .iter()
            .rev()
            .find_map(|scope| scope.names.get(name))
        {
            return *label;
        }
        let placeholder = self.function.labels.len();
        self.function.labels.push((name.to_owned(), None));
        self.forward
            .last_mut()
            .expect("a body has a scope")
            .push((name, placeholder));
        placeholder
    }

    fn registers(&mut self) -> Result<(), LoadError> {
        self.parser.at += 1;
        let Kind::Dotted(word) = self.parser.next() else {
            return self.parser.expected("a type");
        };
        let Some(ty) = Ty::parse(word) else {
            return self.parser.error(format!("`.{word}` is no register type"));
        };
        loop {
            let name = self.parser.word()?;
            let scope = self.scopes.last_mut().expect("a body has a scope");
            if self.parser.accept(b'<') {
                let count = self.parser.integer()?;
                self.parser.expect(b'>')?;
                scope.ranges.push((name, count, ty));
            } else {
                let id = self.function.registers.len();
                self.function.registers.push(ty);
                scope.names.insert(name, Name::Register(id));
            }
            if !self.parser.accept(b',') {
                break;
            }
        }
        self.parser.expect(b';')
    }

    fn variable(&mut self) -> Result<(), LoadError> {
        let start = self.parser.at;
        let variable = self.parser.variable(false)?;
        if matches!(variable.space, StateSpace::Global | StateSpace::Const) {
            let line = variable.line;
            return Err(LoadError::Unsupported {
                feature: "a global variable inside a function".into(),
                ptx_line: line,
            });
        }
        let spelling =
            self.parser.tokens[start..self.parser.at]
                .iter()
                .find_map(|token| match token.kind {
                    Kind::Word(word) if word == variable.name => Some(word),
                    _ => None,
                });
        let index = self.function.variables.len();
        self.function.variables.push(variable);
        if let Some(name) = spelling {
            self.scopes
                .last_mut()
                .expect("a body has a scope")
                .names
                .insert(name, Name::Variable(index));
        }
        Ok(())
    }

    /// `.loc file line column [, function_name label [+n], inlined_at file line column]`
    fn location(&mut self) -> Result<(), LoadError> {
        self.parser.at += 1;
        let here = (
            self.parser.small()?,
            self.parser.small()?,
            self.parser.small()?,
        );
        let mut place = here;
        while self.parser.accept(b',') {
            match self.parser.word()? {
                "function_name" => {
                    self.parser.word()?;
                    if self.parser.accept(b'+') {
                        self.parser.integer()?;
                    }
                }
                "inlined_at" => {
                    let caller = (
                        self.parser.small()?,
                        self.parser.small()?,
                        self.parser.small()?,
                    );
                    self.callers.insert(here, caller);
                    place = caller;
                    // Bounded, because the text could claim that two positions call each other.
                    for _ in 0..MAX_DEPTH {
                        match self.callers.get(&place) {
                            Some(&outer) if outer != place => place = outer,
                            _ => break,
                        }
                    }
                }
                _ => {
                    return self
                        .parser
                        .error("expected `function_name` or `inlined_at`");
                }
            }
        }
        // Line 0 marks code without a line of its own; it keeps the line of the code around it.
        if place.1 != 0 {
            self.place = Some(SourcePosition {
                file: place.0,
                line: place.1,
            });
        }
        Ok(())
    }

    fn instruction(&mut self) -> Result<(), LoadError> {
        let line = self.parser.line();
        let mut guard = None;
        if self.parser.accept(b'@') {
            let negated = self.parser.accept(b'!');
            let name = self.parser.word()?;
            match self.lookup(name)? {
                Some(Name::Register(register)) if self.function.registers[register] == Ty::Pred => {
                    guard = Some((register, negated));
                }
                _ => return self.parser.error(format!("`{name}` is no predicate")),
            }
        }
        let base = self.parser.word()?.to_owned();
        let mut modifiers = Vec::new();
        while let Kind::Dotted(word) = self.parser.peek() {
            if !self.parser.tokens[self.parser.at].glued {
                break;
            }
            modifiers.push(word.to_owned());
            self.parser.at += 1;
        }
        let mut operands = Vec::new();
        if !self.parser.accept(b';') {
            loop {
                operands.push(self.operand(0)?);
                if !self.parser.accept(b',') {
                    break;
                }
            }
            self.parser.expect(b';')?;
        }
        let place = self.place;
        self.statements.push(Statement::Instruction(Instruction {
            guard,
            base,
            modifiers,
            operands,
            line,
            place,
        }));
        Ok(())
    }

    /// Looks up a register or variable; numbered registers are created at their first use.
    fn lookup(&mut self, name: &'a str) -> Result<Option<Name>, LoadError> {
        for depth in (0..self.scopes.len()).rev() {
            if let Some(found) = self.scopes[depth].names.get(name) {
                return Ok(Some(*found));
            }
            let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
            for split in (name.len() - digits)..name.len() {
                let (prefix, number) = name.split_at(split);
                let Some(&(_, count, ty)) = self.scopes[depth]
                    .ranges
                    .iter()
                    .find(|(p, ..)| *p == prefix)
                else {
                    continue;
                };
                if (number.len() > 1 && number.starts_with('0'))
                    || number.parse().is_ok_and(|n: u64| n >= count)
                {
                    continue;
                }
                let id = self.function.registers.len();
                if id >= MAX_REGISTERS {
                    return self.parser.error("too many registers");
                }
                self.function.registers.push(ty);
                self.scopes[depth].names.insert(name, Name::Register(id));
                return Ok(Some(Name::Register(id)));
            }
        }
        Ok(None)
    }

    fn operand(&mut self, depth: usize) -> Result<Operand, LoadError> {
        if depth > 4 {
            return self.parser.error("operands are nested too deeply");
        }
        let first = self.single_operand(depth)?;
        if self.parser.accept(b'|') {
            let second = self.single_operand(depth)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn list(&mut self, close: u8, depth: usize) -> Result<Vec<Operand>, LoadError> {
        let mut list = Vec::new();
        while !self.parser.accept(close) {
            list.push(self.operand(depth + 1)?);
            if !self.parser.accept(b',') {
                self.parser.expect(close)?;
                break;
            }
        }
        Ok(list)
    }

    fn offset(&mut self) -> Result<i64, LoadError> {
        if self.parser.accept(b'+') {
            return Ok(self.parser.integer()? as i64);
        }
        if self.parser.peek() == Kind::Mark(b'-') {
            return Ok(self.parser.integer()? as i64);
        }
        Ok(0)
    }

    /// Reports a name without a declaration: an error, or a declaration of an unsupported kind.
    fn undeclared<T>(&self, name: &str) -> Result<T, LoadError> {
        if self.parser.tree.foreign.contains(name) {
            return Err(LoadError::Unsupported {
                feature: name.to_owned(),
                ptx_line: self.parser.line(),
            });
        }
        self.parser.error(format!("`{name}` is not declared"))
    }

    fn symbol(&mut self, name: &'a str) -> Result<Option<Symbol>, LoadError> {
        Ok(match self.lookup(name)? {
            Some(Name::Variable(index)) => Some(Symbol::Function(index)),
            Some(_) => None,
            None => self
                .parser
                .names
                .get(name)
                .map(|index| Symbol::Module(*index)),
        })
    }

    fn single_operand(&mut self, depth: usize) -> Result<Operand, LoadError> {
        match self.parser.peek() {
            Kind::Mark(b'{') => {
                self.parser.at += 1;
                Ok(Operand::Vector(self.list(b'}', depth)?))
            }
            Kind::Mark(b'(') => {
                self.parser.at += 1;
                Ok(Operand::Tuple(self.list(b')', depth)?))
            }
            Kind::Mark(b'[') => {
                self.parser.at += 1;
                let base = match self.parser.peek() {
                    Kind::Word(name) => {
                        self.parser.at += 1;
                        if let Some(Name::Register(register)) = self.lookup(name)? {
                            Base::Register(register)
                        } else if let Some(symbol) = self.symbol(name)? {
                            Base::Variable(symbol)
                        } else {
                            return self.undeclared(name);
                        }
                    }
                    _ => Base::Absolute,
                };
                let offset = if base == Base::Absolute {
                    self.parser.integer()? as i64
                } else {
                    self.offset()?
                };
                self.parser.expect(b']')?;
                Ok(Operand::Memory(base, offset))
            }
            Kind::Mark(b'!') => {
                self.parser.at += 1;
                let name = self.parser.word()?;
                match self.lookup(name)? {
                    Some(Name::Register(register)) => Ok(Operand::Not(register)),
                    _ => self.parser.error(format!("`{name}` is no register")),
                }
            }
            Kind::Mark(b'-') => match self.parser.peek_after(1) {
                Kind::Float(value) => {
                    self.parser.at += 2;
                    Ok(Operand::Double((-value).to_bits()))
                }
                _ => Ok(Operand::Integer(self.parser.integer()?)),
            },
            Kind::Integer(_) => Ok(Operand::Integer(self.parser.integer()?)),
            Kind::Single(bits) => {
                self.parser.at += 1;
                Ok(Operand::Single(bits))
            }
            Kind::Double(bits) => {
                self.parser.at += 1;
                Ok(Operand::Double(bits))
            }
            Kind::Float(value) => {
                self.parser.at += 1;
                Ok(Operand::Double(value.to_bits()))
            }
            Kind::Word("_") => {
                self.parser.at += 1;
                Ok(Operand::Sink)
            }
            Kind::Word(name) => {
                self.parser.at += 1;
                self.named(name)
            }
            _ => self.parser.expected("an operand"),
        }
    }

    fn named(&mut self, name: &'a str) -> Result<Operand, LoadError> {
        if let Some(Name::Register(register)) = self.lookup(name)? {
            return Ok(Operand::Register(register));
        }
        if let Some(symbol) = self.symbol(name)? {
            return Ok(Operand::Variable(symbol, self.offset()?));
        }
        if self.parser.functions.contains(name) {
            return Ok(Operand::Function(name.to_owned()));
        }
        if let Some(special) = name.strip_prefix('%') {
            let mut special = special.to_owned();
            if let Kind::Dotted(component @ ("x" | "y" | "z" | "w")) = self.parser.peek() {
                self.parser.at += 1;
                special.push('.');
                special.push_str(component);
            }
            return Ok(Operand::Special(special));
        }
        if self.parser.tree.foreign.contains(name) {
            return self.undeclared(name);
        }
        if name == "WARP_SZ" {
            return Ok(Operand::Integer(32));
        }
        Ok(Operand::Label(self.label_named(name)))
    }
}
