//! The statements of a script up to its call of `tune_kernel`. Those that are not understood matter only where
//! their values are used.

use std::collections::BTreeMap;

use domain::problem::Problem;
use tree_sitter::Node;

use crate::python::interpret::{Interpreter, Scope, Source, Value, named};

/// The parameters of `tune_kernel` by position, as far as they are read.
const PARAMETERS: [&str; 10] = [
    "kernel_name",
    "kernel_source",
    "problem_size",
    "arguments",
    "tune_params",
    "grid_div_x",
    "grid_div_y",
    "grid_div_z",
    "restrictions",
    "answer",
];
const BLOCK_NAMES: [&str; 3] = ["block_size_x", "block_size_y", "block_size_z"];

pub(super) struct Script<'s> {
    pub interpreter: Interpreter<'s>,
    /// Defects of assignments, by name.
    failed: BTreeMap<String, Problem>,
}

/// A call of `tune_kernel` with the variables that it sees.
pub(super) struct Call<'s> {
    pub node: Node<'s>,
    pub scope: Scope<'s>,
    arguments: BTreeMap<String, Node<'s>>,
}

impl<'s> Call<'s> {
    /// The argument of a name, unless it is `None`.
    pub fn given(&self, name: &str) -> Option<Node<'s>> {
        self.arguments
            .get(name)
            .copied()
            .filter(|node| node.kind() != "none")
    }

    /// A defect of an argument.
    pub fn refuse(&self, script: &Script<'s>, name: &str, message: &str) -> Problem {
        let node = self.given(name).unwrap_or(self.node);
        let fix = "write it as docs/reference/importers.md says, or begin with task init";
        script.refuse(node, format!("{name} {message}"), fix)
    }

    /// The names of the tunables that are the extents of a block.
    pub fn block_names(&self, script: &Script<'s>) -> [String; 3] {
        let mut names = BLOCK_NAMES.map(str::to_owned);
        if let Some(list) = self.given("block_size_names") {
            let texts = named(list, true).into_iter();
            let texts = texts.map(|node| script.interpreter.source.of(node));
            for (name, text) in names.iter_mut().zip(texts) {
                text.trim_matches(['"', '\'']).clone_into(name);
            }
        }
        names
    }
}

impl<'s> Script<'s> {
    pub fn new(source: &'s Source<'s>, files: &BTreeMap<String, String>) -> Self {
        let mut interpreter = Interpreter::new(source);
        interpreter.is_numpy = true;
        interpreter.files.clone_from(files);
        Self {
            interpreter,
            failed: BTreeMap::new(),
        }
    }

    pub fn file(&self) -> &'s str {
        self.interpreter.source.file
    }

    pub fn refuse(&self, node: Node<'_>, message: impl Into<String>, fix: &str) -> Problem {
        self.interpreter.refuse(node, message, fix)
    }

    /// The value of an expression; for a variable whose assignment was not understood, that defect.
    pub fn value(&mut self, node: Node<'s>, scope: &mut Scope<'s>) -> Result<Value<'s>, Problem> {
        let text = self.interpreter.source.of(node);
        let failed = self
            .failed
            .get(text)
            .filter(|_| !scope.contains_key(text))
            .cloned();
        match failed {
            Some(problem) => Err(problem),
            None => self.interpreter.expression(node, scope),
        }
    }

    /// The first call of `tune_kernel`, in the file or in a function of it.
    pub fn find_call(&mut self) -> Result<Call<'s>, Problem> {
        let root = self.interpreter.source.root();
        if let Some(found) = self.run(root, None)? {
            return Ok(found);
        }
        for function in named(root, true) {
            let body = function.child_by_field_name("body");
            let Some(body) = body.filter(|body| {
                function.kind() == "function_definition" && self.tune_call(*body).is_some()
            }) else {
                continue;
            };
            let mut scope = Scope::new();
            let parameters = function.child_by_field_name("parameters");
            for parameter in parameters.map(|list| named(list, true)).unwrap_or_default() {
                let pair = parameter
                    .child_by_field_name("name")
                    .zip(parameter.child_by_field_name("value"));
                if let Some((name, value)) = pair
                    && let Ok(value) = self.interpreter.expression(value, &mut Scope::new())
                {
                    let name = self.interpreter.source.of(name);
                    let value = self.interpreter.as_dim(name, value);
                    scope.insert(name.to_owned(), value);
                }
            }
            if let Some(found) = self.run(body, Some(scope))? {
                return Ok(found);
            }
        }
        Err(self.refuse(
            root,
            "there is no call of tune_kernel that is always made",
            "name a script that calls it outside of loops and conditions",
        ))
    }

    /// Runs statements until one calls `tune_kernel`. Without a scope they are those of the module.
    fn run(
        &mut self,
        block: Node<'s>,
        scope: Option<Scope<'s>>,
    ) -> Result<Option<Call<'s>>, Problem> {
        let is_module = scope.is_none();
        let mut scope = scope.unwrap_or_else(|| self.interpreter.globals.clone());
        for statement in named(block, true) {
            if let Some(found) = self.step(statement, &mut scope)? {
                return Ok(Some(found));
            }
            if is_module {
                self.interpreter.globals.clone_from(&scope);
            }
        }
        Ok(None)
    }

    fn inside(
        &mut self,
        body: Option<Node<'s>>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Call<'s>>, Problem> {
        for statement in body.map(|body| named(body, true)).unwrap_or_default() {
            if let Some(found) = self.step(statement, scope)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn step(
        &mut self,
        statement: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Call<'s>>, Problem> {
        let source = self.interpreter.source;
        match statement.kind() {
            "if_statement" => {
                let condition = statement.child_by_field_name("condition");
                let is_main = condition.is_some_and(|node| source.of(node).contains("__name__"));
                let truth = condition.map(|node| self.interpreter.truth(node, scope));
                if is_main || matches!(truth, Some(Ok(true))) {
                    return self.inside(statement.child_by_field_name("consequence"), scope);
                }
                let other = statement.child_by_field_name("alternative");
                let body = other.and_then(|other| other.child_by_field_name("body"));
                if matches!(truth, Some(Ok(false))) {
                    self.inside(body, scope)
                } else {
                    Ok(None)
                }
            }
            "with_statement" => {
                for item in self.descendants(statement, "as_pattern") {
                    let parts = named(item, true);
                    if let [value, target] = parts.as_slice()
                        && let Ok(value) = self.interpreter.expression(*value, scope)
                    {
                        scope.insert(source.of(*target).to_owned(), value);
                    }
                }
                self.inside(statement.child_by_field_name("body"), scope)
            }
            "try_statement" => self.inside(statement.child_by_field_name("body"), scope),
            "expression_statement" | "return_statement" => {
                if let Some(call) = self.tune_call(statement) {
                    return self.found(call, scope).map(Some);
                }
                if statement.kind() == "expression_statement" {
                    self.assign(statement, scope);
                }
                Ok(None)
            }
            "function_definition"
            | "class_definition"
            | "import_statement"
            | "import_from_statement" => {
                self.interpreter.statement(statement, scope)?;
                Ok(None)
            }
            _ => {
                if self.interpreter.statement(statement, scope).is_err() {
                    for target in self.descendants(statement, "assignment") {
                        self.forget(target, scope, None);
                    }
                }
                Ok(None)
            }
        }
    }

    /// Carries out an assignment or a call. A name that gets an integer becomes a dim.
    fn assign(&mut self, statement: Node<'s>, scope: &mut Scope<'s>) {
        let inner = statement.named_child(0);
        let target = inner.and_then(|inner| inner.child_by_field_name("left"));
        match self.interpreter.statement(statement, scope) {
            Ok(_) => {
                let Some(target) = target else { return };
                let name = self.interpreter.source.of(target).to_owned();
                self.failed.remove(&name);
                if target.kind() == "identifier"
                    && let Some(value) = scope.get(&name).cloned()
                {
                    let value = self.interpreter.as_dim(&name, value);
                    scope.insert(name, value);
                }
            }
            Err(problem) => {
                if let Some(inner) = inner {
                    self.forget(inner, scope, Some(&problem));
                }
            }
        }
    }

    /// Removes the names that an assignment would have bound.
    fn forget(&mut self, assignment: Node<'s>, scope: &mut Scope<'s>, problem: Option<&Problem>) {
        let Some(target) = assignment.child_by_field_name("left") else {
            return;
        };
        let targets = if target.kind() == "identifier" {
            vec![target]
        } else {
            self.descendants(target, "identifier")
        };
        for target in targets {
            let name = self.interpreter.source.of(target).to_owned();
            scope.remove(&name);
            let unknown = || self.interpreter.unknown(assignment, "a statement");
            let problem = problem.cloned().unwrap_or_else(unknown);
            self.failed.insert(name, problem);
        }
    }

    fn descendants(&self, node: Node<'s>, kind: &str) -> Vec<Node<'s>> {
        let (mut found, mut open) = (Vec::new(), vec![node]);
        while let Some(node) = open.pop() {
            if node.kind() == kind {
                found.push(node);
            }
            open.extend(named(node, true).into_iter().rev());
        }
        found
    }

    fn tune_call(&self, node: Node<'s>) -> Option<Node<'s>> {
        self.descendants(node, "call").into_iter().find(|call| {
            let function = call.child_by_field_name("function");
            let text = function.map_or("", |function| self.interpreter.source.of(function));
            text == "tune_kernel" || text.ends_with(".tune_kernel")
        })
    }

    fn found(&self, call: Node<'s>, scope: &Scope<'s>) -> Result<Call<'s>, Problem> {
        let mut arguments = BTreeMap::new();
        let list = call.child_by_field_name("arguments");
        for (at, argument) in list
            .map(|list| named(list, true))
            .unwrap_or_default()
            .into_iter()
            .enumerate()
        {
            let pair = argument
                .child_by_field_name("name")
                .zip(argument.child_by_field_name("value"));
            match (argument.kind(), pair, PARAMETERS.get(at)) {
                ("keyword_argument", Some((name, value)), _) => {
                    arguments.insert(self.interpreter.source.of(name).to_owned(), value);
                }
                ("list_splat" | "dictionary_splat", ..) | (_, _, None) => {
                    let fix = "name each argument in the call";
                    return Err(self.refuse(
                        argument,
                        "the arguments of tune_kernel are not all named",
                        fix,
                    ));
                }
                (_, _, Some(name)) => {
                    arguments.insert((*name).to_owned(), argument);
                }
            }
        }
        Ok(Call {
            node: call,
            scope: scope.clone(),
            arguments,
        })
    }
}
