//! Parses tokens into a tree of declarations and scopes with resolved names. The parser is strict: syntax that it does
//! not know is an error with its position.
//!
//! It does not know the meaning of any instruction.

mod body;

use std::collections::{HashMap, HashSet};

use crate::ir::{Function, Init, StateSpace, Tree, Ty, Variable};
use crate::lex::{Kind, Token, tokens};
use crate::module::LoadError;

/// Most bytes one declared variable may have.
const MAX_VARIABLE_BYTES: u64 = 1 << 32;

/// Deepest nesting of initialisers.
const MAX_NESTING: usize = 16;

/// Parses a module.
pub(crate) fn parse(text: &str) -> Result<Tree, LoadError> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        tree: Tree::default(),
        names: HashMap::new(),
        functions: HashSet::new(),
    };
    parser.module()?;
    parser.resolve_initialisers()?;
    Ok(parser.tree)
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    tree: Tree,
    /// Module variables by name.
    names: HashMap<String, usize>,
    /// Functions declared so far, the one being read included.
    functions: HashSet<String>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Kind<'a> {
        self.tokens[self.at].kind
    }

    fn peek_after(&self, ahead: usize) -> Kind<'a> {
        self.tokens
            .get(self.at + ahead)
            .map_or(Kind::End, |token| token.kind)
    }

    fn line(&self) -> u32 {
        self.tokens[self.at].line
    }

    fn next(&mut self) -> Kind<'a> {
        let kind = self.peek();
        if kind != Kind::End {
            self.at += 1;
        }
        kind
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, LoadError> {
        let token = self.tokens[self.at];
        Err(LoadError::Syntax {
            line: token.line,
            column: token.column,
            message: message.into(),
        })
    }

    fn expected<T>(&self, what: &str) -> Result<T, LoadError> {
        self.error(format!("expected {what}, found {}", spelled(self.peek())))
    }

    fn accept(&mut self, mark: u8) -> bool {
        let found = self.peek() == Kind::Mark(mark);
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, mark: u8) -> Result<(), LoadError> {
        if self.accept(mark) {
            Ok(())
        } else {
            self.expected(&format!("`{}`", char::from(mark)))
        }
    }

    fn word(&mut self) -> Result<&'a str, LoadError> {
        match self.peek() {
            Kind::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected("a name"),
        }
    }

    fn integer(&mut self) -> Result<u64, LoadError> {
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

    fn small(&mut self) -> Result<u32, LoadError> {
        let value = self.integer()?;
        u32::try_from(value).or_else(|_| self.error(format!("{value} is too large")))
    }

    fn accept_dotted(&mut self, word: &str) -> bool {
        let found = self.peek() == Kind::Dotted(word);
        if found {
            self.at += 1;
        }
        found
    }

    fn module(&mut self) -> Result<(), LoadError> {
        if !self.accept_dotted("version") {
            return self.expected("`.version`, with which every PTX module starts");
        }
        if !matches!(self.peek(), Kind::Float(_) | Kind::Integer(_)) {
            return self.expected("a version such as 8.0");
        }
        self.at += 1;
        loop {
            match self.peek() {
                Kind::End => return Ok(()),
                Kind::Dotted("target") => {
                    self.at += 1;
                    self.word()?;
                    while self.accept(b',') {
                        self.word()?;
                    }
                }
                Kind::Dotted("address_size") => {
                    self.at += 1;
                    let line = self.line();
                    if self.integer()? != 64 {
                        return Err(LoadError::Unsupported {
                            feature: ".address_size 32".into(),
                            ptx_line: line,
                        });
                    }
                }
                Kind::Dotted("file") => self.file()?,
                Kind::Dotted("section") => self.section()?,
                Kind::Dotted("visible" | "extern" | "weak" | "common" | "entry" | "func") => {
                    self.linked()?;
                }
                Kind::Dotted("global" | "const" | "shared") => {
                    let variable = self.variable(false)?;
                    self.declare(variable)?;
                }
                Kind::Dotted("pragma") => {
                    self.at += 1;
                    self.next();
                    self.expect(b';')?;
                }
                Kind::Mark(b';') => self.at += 1,
                // A kernel that uses this declaration is reported as unsupported when it is launched.
                Kind::Dotted(_) => self.foreign()?,
                _ => return self.expected("a directive"),
            }
        }
    }

    fn file(&mut self) -> Result<(), LoadError> {
        self.at += 1;
        let number = self.small()?;
        let Kind::Text(name) = self.next() else {
            return self.expected("a file name in quotes");
        };
        self.tree.files.insert(number, name.to_owned());
        while self.accept(b',') {
            self.integer()?;
        }
        Ok(())
    }

    /// Skips debug data: nothing in it changes what a kernel does.
    fn section(&mut self) -> Result<(), LoadError> {
        self.at += 1;
        self.next();
        self.expect(b'{')?;
        self.skip_braces()
    }

    fn linked(&mut self) -> Result<(), LoadError> {
        let mut external = false;
        loop {
            match self.peek() {
                Kind::Dotted("extern") => external = true,
                Kind::Dotted("visible" | "weak" | "common") => {}
                Kind::Dotted("entry") => {
                    self.at += 1;
                    return self.function(true);
                }
                Kind::Dotted("func") => {
                    self.at += 1;
                    return self.function(false);
                }
                _ => {
                    let variable = self.variable(external)?;
                    return self.declare(variable);
                }
            }
            self.at += 1;
        }
    }

    /// Skips an unsupported declaration up to its semicolon, and records the name.
    fn foreign(&mut self) -> Result<(), LoadError> {
        loop {
            match self.next() {
                Kind::Mark(b';') => return Ok(()),
                Kind::Mark(b'{') => self.skip_braces()?,
                Kind::Word(name) => {
                    self.tree.foreign.insert(name.to_owned());
                }
                Kind::End => return self.expected("`;`"),
                _ => {}
            }
        }
    }

    /// Skips to the brace that closes the one just read.
    fn skip_braces(&mut self) -> Result<(), LoadError> {
        let mut depth = 1;
        while depth > 0 {
            match self.next() {
                Kind::Mark(b'{') => depth += 1,
                Kind::Mark(b'}') => depth -= 1,
                Kind::End => return self.expected("`}`"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Resolves the variables and functions that initialisers name.
    fn resolve_initialisers(&mut self) -> Result<(), LoadError> {
        let functions: HashMap<&str, usize> = self
            .tree
            .functions
            .iter()
            .enumerate()
            .map(|(index, function)| (function.name.as_str(), index))
            .collect();
        for variable in &mut self.tree.variables {
            let line = variable.line;
            for init in &mut variable.init {
                let Init::Named { name, offset } = init else {
                    continue;
                };
                *init = if let Some(&variable) = self.names.get(name.as_str()) {
                    Init::Address {
                        variable,
                        offset: *offset,
                    }
                } else if let Some(&function) = functions.get(name.as_str()) {
                    Init::Function(function)
                } else {
                    return Err(LoadError::Syntax {
                        line,
                        column: 1,
                        message: format!("`{name}` is not declared"),
                    });
                };
            }
        }
        Ok(())
    }

    fn declare(&mut self, variable: Variable) -> Result<(), LoadError> {
        if self
            .names
            .insert(variable.name.clone(), self.tree.variables.len())
            .is_some()
        {
            return self.error(format!("`{}` is declared twice", variable.name));
        }
        self.tree.variables.push(variable);
        Ok(())
    }

    /// `.space [.align n] .type name[n][m] [= init];`
    fn variable(&mut self, external: bool) -> Result<Variable, LoadError> {
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
    fn declarator(&mut self, space: StateSpace, line: u32) -> Result<Variable, LoadError> {
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

    fn parameters(&mut self, function: &mut Function) -> Result<Vec<usize>, LoadError> {
        let mut list = Vec::new();
        if !self.accept(b'(') {
            return Ok(list);
        }
        while !self.accept(b')') {
            let line = self.line();
            match self.peek() {
                Kind::Dotted("param") => self.at += 1,
                Kind::Dotted("reg") => {
                    return Err(LoadError::Unsupported {
                        feature: ".reg parameters".into(),
                        ptx_line: line,
                    });
                }
                _ => return self.expected("`.param`"),
            }
            let variable = self.declarator(StateSpace::Param, line)?;
            list.push(function.variables.len());
            function.variables.push(variable);
            if !self.accept(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(list)
    }

    /// Parses a body. A body that needs an unsupported directive is skipped, and its function marked as unsupported.
    fn body(&mut self, function: &mut Function) -> Result<(), LoadError> {
        let start = self.at;
        match body::parse(self, function) {
            Err(LoadError::Unsupported { feature, ptx_line }) => {
                self.at = start;
                self.skip_braces()?;
                function.refused.get_or_insert((feature, ptx_line));
                function.body = Some(Vec::new());
                Ok(())
            }
            result => result,
        }
    }

    fn function(&mut self, kernel: bool) -> Result<(), LoadError> {
        let mut function = Function {
            name: String::new(),
            kernel,
            returns: Vec::new(),
            params: Vec::new(),
            max_threads: None,
            required_threads: None,
            max_registers: None,
            body: None,
            refused: None,
            variables: Vec::new(),
            registers: Vec::new(),
            labels: Vec::new(),
            tables: HashMap::new(),
        };
        if !kernel && self.peek() == Kind::Mark(b'(') {
            function.returns = self.parameters(&mut function)?;
        }
        function.name = self.word()?.to_owned();
        self.functions.insert(function.name.clone());
        function.params = self.parameters(&mut function)?;
        loop {
            match self.peek() {
                Kind::Dotted(
                    word @ ("maxntid" | "reqntid" | "minnctapersm" | "maxnreg" | "maxnctapersm"),
                ) => {
                    self.at += 1;
                    let mut shape = [1; 3];
                    shape[0] = self.small()?;
                    let mut axis = 1;
                    while self.accept(b',') {
                        let size = self.small()?;
                        if axis < 3 {
                            shape[axis] = size;
                        }
                        axis += 1;
                    }
                    match word {
                        "maxntid" => {
                            function.max_threads =
                                shape.iter().try_fold(1u32, |a, b| a.checked_mul(*b));
                        }
                        "reqntid" => function.required_threads = Some(shape),
                        "maxnreg" => function.max_registers = Some(shape[0]),
                        _ => {}
                    }
                }
                Kind::Dotted("noreturn" | "unified") => self.at += 1,
                Kind::Dotted("pragma") => {
                    self.at += 1;
                    self.next();
                    self.expect(b';')?;
                }
                Kind::Dotted(word) => {
                    let line = self.line();
                    function.refused.get_or_insert((format!(".{word}"), line));
                    while !matches!(self.peek(), Kind::Mark(b'{' | b';') | Kind::End) {
                        self.at += 1;
                    }
                }
                Kind::Mark(b'{') => {
                    self.at += 1;
                    self.body(&mut function)?;
                    break;
                }
                Kind::Mark(b';') => {
                    self.at += 1;
                    break;
                }
                _ => return self.expected("`{` or `;`"),
            }
        }
        // A definition replaces its forward declaration.
        let earlier = self
            .tree
            .functions
            .iter()
            .position(|other| other.name == function.name);
        match earlier {
            Some(index) if self.tree.functions[index].body.is_none() => {
                self.tree.functions[index] = function;
            }
            Some(_) if function.body.is_none() => {}
            Some(_) => return self.error(format!("`{}` is defined twice", function.name)),
            None => self.tree.functions.push(function),
        }
        Ok(())
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
