//! Parses tokens into a tree of declarations and scopes with resolved names. The parser is strict: syntax that it does
//! not know is an error with its position.
//!
//! It does not know the meaning of any instruction.

mod body;
mod cursor;
mod variable;

use std::collections::{HashMap, HashSet};

use crate::ir::{Function, Init, StateSpace, Tree, Variable};
use crate::lex::{Kind, Token, tokens};
use crate::module::LoadError;

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
