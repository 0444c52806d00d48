//! Reads the functions and classes of a Python module as a graph, without running them. Everything that is
//! not understood is refused with its line.

use std::collections::{BTreeMap, BTreeSet};

use domain::dtype::Dtype;
use domain::expr::Bindings;
use domain::problem::{Problem, Problems};
use tree_sitter::{Node, Parser, Tree};

use super::arguments::Arguments;
use super::graph::{Graph, Node as GraphNode, NodeId};
use super::number::Number;

/// A value of the Python source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'s> {
    None,
    Ellipsis,
    Bool(bool),
    Text(String),
    Number(Number),
    Type(Dtype),
    Tensor(NodeId),
    List(Vec<Value<'s>>),
    Mapping(Vec<(String, Value<'s>)>),
    /// A name of an imported module, such as `torch.nn.functional.relu`.
    Path(String),
    Function(Node<'s>),
    Class(Node<'s>),
    Object(usize),
    Method(Box<Value<'s>>, String),
    Layer(usize),
    /// `start:stop` of a subscript.
    Range(Option<Number>, Option<Number>),
}

/// A layer of `torch.nn` with the arguments of its construction.
#[derive(Debug, Clone)]
pub(crate) struct Layer<'s> {
    pub class: String,
    pub arguments: Arguments<'s>,
    /// The attribute that holds it.
    pub name: String,
    pub weights: BTreeMap<&'static str, NodeId>,
}

/// A parsed Python file.
pub(crate) struct Source<'t> {
    pub file: &'t str,
    pub text: &'t str,
    tree: Tree,
}

impl<'t> Source<'t> {
    pub fn parse(file: &'t str, text: &'t str) -> Result<Self, Problems> {
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_python::LANGUAGE.into())
            .expect("the grammar and the parser have compatible versions");
        let tree = parser
            .parse(text, None)
            .expect("parsing ends without a result only if it is cancelled");
        let source = Self { file, text, tree };
        if source.tree.root_node().has_error() {
            let mut open = vec![source.tree.root_node()];
            let mut first = 0;
            while let Some(node) = open.pop() {
                if node.is_error() || node.is_missing() {
                    first = node.start_byte();
                    break;
                }
                let broken = named(node, false).into_iter().rev();
                open.extend(broken.filter(|node| node.has_error() || node.is_missing()));
            }
            let message = "the file does not parse as Python";
            let fix = "correct the syntax here";
            return Err(Problem::at(file, text, first, message, fix).into());
        }
        Ok(source)
    }

    pub fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    pub fn of(&self, node: Node<'_>) -> &'t str {
        &self.text[node.byte_range()]
    }
}

/// The children of a node: the named ones, without comments, or all.
pub(crate) fn named(node: Node<'_>, only_named: bool) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    let children = node.children(&mut cursor);
    children
        .filter(|child| !only_named || (child.is_named() && child.kind() != "comment"))
        .collect()
}

/// Returns true for a method that changes values of a tensor and no shape, so that it says nothing about an input
/// whose values are drawn.
pub(crate) fn is_in_place(name: &str) -> bool {
    let known = [
        "uniform_", "normal_", "clamp_", "mul_", "div_", "add_", "sub_", "abs_",
    ];
    known.contains(&name)
}

/// The values of names.
pub(crate) type Scope<'s> = BTreeMap<String, Value<'s>>;

/// The interpreter of one file.
pub(crate) struct Interpreter<'s> {
    pub source: &'s Source<'s>,
    pub graph: Graph,
    pub globals: Scope<'s>,
    pub objects: Vec<Scope<'s>>,
    pub layers: Vec<Layer<'s>>,
    /// Tensors that the source draws, in the order of their creation.
    pub drawn: Vec<NodeId>,
    /// Parts of the source that were left out or changed, a sentence each.
    pub notes: BTreeSet<String>,
    /// True while the source makes its inputs, whose types conversions choose.
    pub is_making_inputs: bool,
    /// True if the source computes with numpy, whose names mean something else in part.
    pub is_numpy: bool,
    /// Texts beside the source, by path.
    pub files: BTreeMap<String, String>,
    /// Dims that variables of a script became.
    pub dims: Bindings,
    /// The number of calls that are nested.
    pub depth: usize,
}

impl<'s> Interpreter<'s> {
    pub fn new(source: &'s Source<'s>) -> Self {
        Self {
            source,
            graph: Graph::default(),
            globals: Scope::new(),
            objects: Vec::new(),
            layers: Vec::new(),
            drawn: Vec::new(),
            notes: BTreeSet::new(),
            is_making_inputs: false,
            is_numpy: false,
            files: BTreeMap::new(),
            dims: Bindings::new(),
            depth: 0,
        }
    }

    pub fn refuse(&self, node: Node<'_>, message: impl Into<String>, fix: &str) -> Problem {
        let source = self.source;
        Problem::at(source.file, source.text, node.start_byte(), message, fix)
    }

    pub fn unknown(&self, node: Node<'_>, subject: &str) -> Problem {
        let text = self.source.of(node).lines().next().unwrap_or_default();
        let text = text.chars().take(60).collect::<String>();
        self.refuse(
            node,
            format!("{subject} is not understood: {text}"),
            "write it with operations that docs/reference/importers.md lists, or begin with task init",
        )
    }

    /// The defect of a call with an argument that has no translation: its name, or `number N`.
    pub fn unknown_argument(&self, node: Node<'_>, argument: &str, called: &str) -> Problem {
        self.refuse(
            node,
            format!("the argument {argument} of {called} is not understood"),
            "leave it out, or write what it does with other operations",
        )
    }

    /// Reads the statements of the file: its functions, classes, constants and imports. Integers become
    /// dims.
    pub fn read_module(&mut self, with_dims: bool) -> Result<(), Problem> {
        for statement in named(self.source.root(), true) {
            if statement.kind() == "expression_statement" {
                let Some(inner) = statement.named_child(0) else {
                    continue;
                };
                if inner.kind() != "assignment" {
                    continue;
                }
                let (left, right) = (
                    inner.child_by_field_name("left"),
                    inner.child_by_field_name("right"),
                );
                let (Some(left), Some(right)) = (left, right) else {
                    continue;
                };
                // A global that is not understood matters only where it is used.
                let Ok(mut value) = self.expression(right, &mut Scope::new()) else {
                    continue;
                };
                if let (Value::Number(number), true, "identifier", "integer") =
                    (&value, with_dims, left.kind(), right.kind())
                    && let Some(whole) = number.whole().filter(|whole| *whole >= 1)
                {
                    value = Value::Number(Number::dim(self.source.of(left), whole));
                }
                let mut globals = std::mem::take(&mut self.globals);
                let bound = self.bind(left, value, &mut globals);
                self.globals = globals;
                bound?;
            } else if !matches!(
                statement.kind(),
                "if_statement"
                    | "for_statement"
                    | "while_statement"
                    | "try_statement"
                    | "with_statement"
            ) {
                let mut globals = std::mem::take(&mut self.globals);
                let read = self.statement(statement, &mut globals);
                self.globals = globals;
                read?;
            }
        }
        Ok(())
    }

    pub fn block(
        &mut self,
        block: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        for statement in named(block, true) {
            if let Some(value) = self.statement(statement, scope)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Carries out a statement; the value of a `return`.
    pub fn statement(
        &mut self,
        node: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        match node.kind() {
            "expression_statement" => {
                let Some(inner) = node.named_child(0) else {
                    return Ok(None);
                };
                match inner.kind() {
                    "string" | "concatenated_string" => {}
                    "assignment" => {
                        let (left, right) = (
                            inner.child_by_field_name("left"),
                            inner.child_by_field_name("right"),
                        );
                        if let (Some(left), Some(right)) = (left, right) {
                            let value = self.expression(right, scope)?;
                            self.bind(left, value, scope)?;
                        }
                    }
                    "augmented_assignment" => self.augmented(inner, scope)?,
                    "call" => {
                        let called = inner
                            .child_by_field_name("function")
                            .map(|node| self.source.of(node));
                        let is_init = called
                            .is_some_and(|text| text.starts_with("super(") || text == "print");
                        if !is_init {
                            self.effect(inner, scope)?;
                        }
                    }
                    _ => return Err(self.unknown(inner, "a statement")),
                }
            }
            "return_statement" => {
                return match node.named_child(0) {
                    Some(value) => self.expression(value, scope).map(Some),
                    None => Ok(Some(Value::None)),
                };
            }
            "if_statement" => return self.branch(node, scope),
            "for_statement" => return self.repeat(node, scope),
            "with_statement" => {
                if let Some(body) = node.child_by_field_name("body") {
                    return self.block(body, scope);
                }
            }
            "function_definition" => {
                if let Some(name) = node.child_by_field_name("name") {
                    scope.insert(self.source.of(name).to_owned(), Value::Function(node));
                }
            }
            "class_definition" => {
                if let Some(name) = node.child_by_field_name("name") {
                    scope.insert(self.source.of(name).to_owned(), Value::Class(node));
                }
            }
            "decorated_definition" => {
                if let Some(definition) = node.child_by_field_name("definition") {
                    return self.statement(definition, scope);
                }
            }
            "import_statement" | "import_from_statement" => self.import(node, scope),
            "pass_statement"
            | "assert_statement"
            | "raise_statement"
            | "comment"
            | "delete_statement"
            | "future_import_statement" => {}
            _ => return Err(self.unknown(node, "a statement")),
        }
        Ok(None)
    }

    /// A call whose result is not used: an in-place method.
    fn effect(&mut self, call: Node<'s>, scope: &mut Scope<'s>) -> Result<(), Problem> {
        let function = call.child_by_field_name("function");
        let attribute = function.and_then(|node| node.child_by_field_name("attribute"));
        let name = attribute.map_or("", |node| self.source.of(node));
        match name {
            // Values are drawn by Kernelwright.
            "uniform_" | "normal_" | "manual_seed" | "seed" | "eval" | "cuda" => Ok(()),
            "copy_" => {
                let object = function.and_then(|node| node.child_by_field_name("object"));
                let arguments = self.arguments(call, scope)?;
                match (object, arguments.positional.first()) {
                    (Some(object), Some(value)) => match self.expression(object, scope)? {
                        Value::Tensor(tensor) => self.overwrite(call, tensor, value),
                        _ => Err(self.unknown(call, "a call")),
                    },
                    _ => Err(self.unknown(call, "a call")),
                }
            }
            _ if self.is_making_inputs && is_in_place(name) => Ok(()),
            _ if name.ends_with('_') => Err(self.refuse(
                call,
                format!("{name} changes a tensor in place"),
                "write the function without state, such as x = x.add(y)",
            )),
            _ => self.expression(call, scope).map(|_| ()),
        }
    }

    fn augmented(&mut self, node: Node<'s>, scope: &mut Scope<'s>) -> Result<(), Problem> {
        let parts = (
            node.child_by_field_name("left"),
            node.child_by_field_name("right"),
        );
        let operator = node
            .child_by_field_name("operator")
            .map(|node| self.source.of(node));
        let ((Some(left), Some(right)), Some(operator)) = (parts, operator) else {
            return Err(self.unknown(node, "an assignment"));
        };
        if left.kind() != "identifier" {
            return Err(self.refuse(
                node,
                "a tensor is changed in place",
                "assign the result to a name",
            ));
        }
        let (one, other) = (
            self.expression(left, scope)?,
            self.expression(right, scope)?,
        );
        let value = self.operate(node, operator.trim_end_matches('='), one, other)?;
        self.bind(left, value, scope)
    }

    pub fn bind(
        &mut self,
        target: Node<'s>,
        value: Value<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<(), Problem> {
        match target.kind() {
            "identifier" => {
                scope.insert(self.source.of(target).to_owned(), value);
            }
            "pattern_list" | "tuple_pattern" | "list_pattern" => {
                let targets = named(target, true);
                let values = match value {
                    Value::List(values) if values.len() == targets.len() => values,
                    _ => {
                        return Err(self.refuse(
                            target,
                            "the number of values is not that of the names",
                            "return as many",
                        ));
                    }
                };
                for (target, value) in targets.into_iter().zip(values) {
                    self.bind(target, value, scope)?;
                }
            }
            "attribute" => {
                let object = target.child_by_field_name("object");
                let name = target
                    .child_by_field_name("attribute")
                    .map_or("", |node| self.source.of(node));
                let object = match object {
                    Some(object) => self.expression(object, scope)?,
                    None => Value::None,
                };
                let Value::Object(at) = object else {
                    return Err(self.refuse(
                        target,
                        "an attribute of a tensor is assigned",
                        "leave it out",
                    ));
                };
                match &value {
                    Value::Layer(layer) if self.layers[*layer].name.is_empty() => {
                        name.clone_into(&mut self.layers[*layer].name);
                    }
                    Value::Tensor(tensor) => self.rename(*tensor, name),
                    _ => {}
                }
                self.objects[at].insert(name.to_owned(), value);
            }
            "subscript" => return self.assign_elements(target, value, scope),
            _ => return Err(self.unknown(target, "an assignment")),
        }
        Ok(())
    }

    /// Names a tensor that the source draws.
    fn rename(&mut self, tensor: NodeId, name: &str) {
        let fresh = self.drawn.contains(&tensor);
        if let (GraphNode::Input(own), true) = (&mut self.graph.entries[tensor].node, fresh) {
            name.clone_into(own);
        }
    }

    fn import(&mut self, node: Node<'s>, scope: &mut Scope<'s>) {
        let module = node
            .child_by_field_name("module_name")
            .map(|node| self.source.of(node));
        for child in named(node, true) {
            if Some(self.source.of(child)) == module
                && child.kind() == "dotted_name"
                && node.child_by_field_name("module_name") == Some(child)
            {
                continue;
            }
            let name = child.child_by_field_name("name").unwrap_or(child);
            let alias = child.child_by_field_name("alias");
            let text = self.source.of(name);
            let path = module.map_or_else(|| text.to_owned(), |module| format!("{module}.{text}"));
            match alias {
                Some(alias) => scope.insert(self.source.of(alias).to_owned(), Value::Path(path)),
                None if module.is_some() => scope.insert(text.to_owned(), Value::Path(path)),
                None => {
                    let first = text.split('.').next().unwrap_or(text).to_owned();
                    scope.insert(first.clone(), Value::Path(first))
                }
            };
        }
    }

    fn branch(
        &mut self,
        node: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        if let (Some(condition), Some(body)) = (
            node.child_by_field_name("condition"),
            node.child_by_field_name("consequence"),
        ) {
            if named(body, true)
                .iter()
                .all(|node| node.kind() == "raise_statement")
            {
                return Ok(None);
            }
            if self.truth(condition, scope)? {
                return self.block(body, scope);
            }
        }
        let mut cursor = node.walk();
        let others = node
            .children_by_field_name("alternative", &mut cursor)
            .collect::<Vec<_>>();
        for other in others {
            if other.kind() == "else_clause" {
                if let Some(body) = other.child_by_field_name("body") {
                    return self.block(body, scope);
                }
            } else if let (Some(condition), Some(body)) = (
                other.child_by_field_name("condition"),
                other.child_by_field_name("consequence"),
            ) && self.truth(condition, scope)?
            {
                return self.block(body, scope);
            }
        }
        Ok(None)
    }

    fn repeat(
        &mut self,
        node: Node<'s>,
        scope: &mut Scope<'s>,
    ) -> Result<Option<Value<'s>>, Problem> {
        let parts = (
            node.child_by_field_name("left"),
            node.child_by_field_name("right"),
            node.child_by_field_name("body"),
        );
        let (Some(left), Some(right), Some(body)) = parts else {
            return Ok(None);
        };
        let values = match self.expression(right, scope)? {
            Value::List(values) => values,
            _ => return Err(self.unknown(right, "the sequence of a loop")),
        };
        for value in values {
            self.bind(left, value, scope)?;
            if let Some(value) = self.block(body, scope)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}
