//! The syntax tree of a `.cu` file: its kernels, launches, constants and functions.

use std::collections::{BTreeMap, BTreeSet};

use domain::dtype::Dtype;
use domain::problem::{Problem, Problems};
use tree_sitter::{Node, Parser, Tree};

use super::arithmetic::Arith;

/// A parsed file.
pub(crate) struct Source<'t> {
    pub text: &'t str,
    tree: Tree,
}

/// A `__global__` function.
pub(crate) struct Kernel<'s> {
    pub name: String,
    /// The function definition.
    pub node: Node<'s>,
    /// The definition with the template header and the linkage around it.
    pub outer: Node<'s>,
    pub template: Vec<TemplateParameter>,
    pub parameters: Vec<Parameter<'s>>,
    pub body: Node<'s>,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateParameter {
    pub name: String,
    pub is_type: bool,
}

/// A parameter of a kernel.
pub(crate) struct Parameter<'s> {
    pub name: String,
    pub node: Node<'s>,
    /// The type without `const`, pointer and `__restrict__`.
    pub type_name: String,
    pub is_pointer: bool,
    pub is_const: bool,
}

/// One launch of a kernel by host code.
pub(crate) struct Launch<'s> {
    pub kernel: String,
    pub template: Vec<Node<'s>>,
    /// Grid, block, dynamic shared memory, stream, as far as given.
    pub configuration: Vec<Node<'s>>,
    pub arguments: Vec<Node<'s>>,
    pub cooperative: bool,
    pub line: u32,
    /// The outermost function around it.
    pub host: Option<Node<'s>>,
}

impl<'t> Source<'t> {
    /// Parses a file and requires that its kernels parse.
    pub fn parse(file: &str, text: &'t str) -> Result<Self, Problems> {
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_cuda::LANGUAGE.into())
            .expect("the grammar and the parser have compatible versions");
        let tree = parser
            .parse(text, None)
            .expect("parsing ends without a result only if it is cancelled");
        let source = Self { text, tree };
        let kernels = source.kernels();
        let defect = source.all(source.root()).into_iter().find(|node| {
            let inside = |kernel: &Kernel<'_>| {
                kernel.node.start_byte() <= node.start_byte()
                    && node.end_byte() <= kernel.node.end_byte()
            };
            (node.is_error() || node.is_missing())
                && (kernels.is_empty() || kernels.iter().any(inside))
        });
        if let Some(node) = defect {
            let near = text[node.byte_range()].lines().next().unwrap_or_default();
            let near = near.chars().take(60).collect::<String>();
            let message = format!("the file does not parse as CUDA C++ near {near:?}");
            let fix = "correct the syntax here; a macro that stands for statements or \
                       declarations must be written out";
            return Err(Problem::at(file, text, node.start_byte(), message, fix).into());
        }
        if kernels.is_empty() {
            let fix = "name a file that defines a __global__ function with its body";
            return Err(Problem::whole(file, "there is no kernel in the file", fix).into());
        }
        Ok(source)
    }

    pub fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    pub fn of(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// A node and everything below it, in the order of the text.
    pub fn all<'s>(&'s self, node: Node<'s>) -> Vec<Node<'s>> {
        let mut found = Vec::new();
        let mut open = vec![node];
        while let Some(node) = open.pop() {
            found.push(node);
            let children = children(node, false);
            open.extend(children.into_iter().rev());
        }
        found
    }

    /// Every `__global__` function with a body.
    pub fn kernels(&self) -> Vec<Kernel<'_>> {
        self.all(self.root())
            .into_iter()
            .filter(|node| node.kind() == "function_definition")
            .filter_map(|node| self.kernel(node))
            .collect()
    }

    fn kernel<'s>(&'s self, node: Node<'s>) -> Option<Kernel<'s>> {
        let body = node.child_by_field_name("body")?;
        let head = &self.text[node.start_byte()..body.start_byte()];
        if !head.contains("__global__") {
            return None;
        }
        let declarator = self
            .all(node.child_by_field_name("declarator")?)
            .into_iter()
            .rfind(|node| {
                node.kind() == "function_declarator" && node.end_byte() <= body.start_byte()
            })?;
        let name = self.of(declarator.child_by_field_name("declarator")?);
        let name = name.rsplit("::").next().unwrap_or(name).trim().to_owned();
        let list = declarator.child_by_field_name("parameters")?;
        let parameters = children(list, true)
            .into_iter()
            .filter(|node| node.kind().contains("parameter_declaration"))
            .filter_map(|node| self.parameter(node))
            .collect();
        let mut outer = node;
        let mut template = Vec::new();
        while let Some(parent) = outer.parent() {
            match parent.kind() {
                "template_declaration" => template = self.template(parent),
                "linkage_specification" => {}
                _ => break,
            }
            outer = parent;
        }
        Some(Kernel {
            name,
            node,
            outer,
            template,
            parameters,
            body,
        })
    }

    fn parameter<'s>(&'s self, node: Node<'s>) -> Option<Parameter<'s>> {
        let declarator = node.child_by_field_name("declarator")?;
        let name = self
            .all(declarator)
            .into_iter()
            .rfind(|node| node.kind() == "identifier")?;
        let direct = children(node, true).into_iter();
        let is_const = direct
            .filter(|child| child.kind() == "type_qualifier")
            .any(|child| self.of(child) == "const");
        Some(Parameter {
            name: self.of(name).to_owned(),
            node,
            type_name: self.of(node.child_by_field_name("type")?).trim().to_owned(),
            is_pointer: declarator.kind() == "pointer_declarator"
                || declarator.kind() == "array_declarator",
            is_const,
        })
    }

    /// The parameters of a template declaration.
    pub fn template(&self, node: Node<'_>) -> Vec<TemplateParameter> {
        let Some(list) = node.child_by_field_name("parameters") else {
            return Vec::new();
        };
        children(list, true)
            .into_iter()
            .filter_map(|parameter| {
                let is_type = parameter.kind().contains("type_parameter");
                let names = self.all(parameter).into_iter().filter(|node| {
                    node.kind() == "identifier" || is_type && node.kind() == "type_identifier"
                });
                let name = names.into_iter().next()?;
                Some(TemplateParameter {
                    name: self.of(name).to_owned(),
                    is_type,
                })
            })
            .collect()
    }

    /// Launches in the order of the text.
    pub fn launches(&self) -> Vec<Launch<'_>> {
        self.all(self.root())
            .into_iter()
            .filter(|node| node.kind() == "call_expression")
            .filter_map(|node| self.launch(node))
            .collect()
    }

    fn launch<'s>(&'s self, node: Node<'s>) -> Option<Launch<'s>> {
        let function = node.child_by_field_name("function")?;
        let arguments = children(node.child_by_field_name("arguments")?, true);
        let host = self.host_function(node);
        let line = line_of(node);
        let triple = children(node, true)
            .into_iter()
            .find(|child| child.kind() == "kernel_call_syntax");
        if let Some(triple) = triple {
            return Some(Launch {
                kernel: self.callee(function),
                template: self.template_arguments(function),
                configuration: children(triple, true),
                arguments,
                cooperative: false,
                line,
                host,
            });
        }
        let cooperative = match self.of(function) {
            "cudaLaunchKernel" => false,
            "cudaLaunchCooperativeKernel" => true,
            _ => return None,
        };
        let [kernel, grid, block, list, ..] = arguments.as_slice() else {
            return None;
        };
        let callee = self
            .all(*kernel)
            .into_iter()
            .rfind(|node| matches!(node.kind(), "identifier" | "template_function"))?;
        let mut configuration = vec![*grid, *block];
        configuration.extend(arguments.get(4));
        Some(Launch {
            kernel: self.callee(callee),
            template: self.template_arguments(*kernel),
            configuration,
            arguments: self.listed_arguments(*list, host?),
            cooperative,
            line,
            host,
        })
    }

    /// The elements of the array of argument addresses that a launch names.
    fn listed_arguments<'s>(&'s self, list: Node<'s>, host: Node<'s>) -> Vec<Node<'s>> {
        let name = self.of(list);
        let declared = self.all(host).into_iter().find_map(|node| {
            let is_it = node.kind() == "init_declarator"
                && self
                    .all(node.child_by_field_name("declarator")?)
                    .iter()
                    .any(|node| node.kind() == "identifier" && self.of(*node) == name);
            is_it.then(|| node.child_by_field_name("value")).flatten()
        });
        let elements = declared
            .map(|list| children(list, true))
            .unwrap_or_default();
        elements
            .into_iter()
            .map(|element| {
                let names = self.all(element).into_iter();
                names
                    .into_iter()
                    .rfind(|node| node.kind() == "identifier")
                    .unwrap_or(element)
            })
            .collect()
    }

    fn callee(&self, function: Node<'_>) -> String {
        let name = self.of(function);
        let name = name.split('<').next().unwrap_or(name);
        name.rsplit("::").next().unwrap_or(name).trim().to_owned()
    }

    fn template_arguments<'s>(&'s self, function: Node<'s>) -> Vec<Node<'s>> {
        self.all(function)
            .into_iter()
            .find(|node| node.kind() == "template_argument_list")
            .map(|list| children(list, true))
            .unwrap_or_default()
    }

    /// The outermost function definition around a node.
    fn host_function<'s>(&self, node: Node<'s>) -> Option<Node<'s>> {
        let mut found = None;
        let mut at = node;
        while let Some(parent) = at.parent() {
            if parent.kind() == "function_definition" {
                found = Some(parent);
            }
            at = parent;
        }
        found
    }

    /// The name of a function definition.
    pub fn function_name(&self, function: Node<'_>) -> String {
        let declarator = function.child_by_field_name("declarator");
        let text = declarator.map_or("", |node| self.of(node));
        let name = text.split('(').next().unwrap_or_default();
        name.trim_start_matches(['*', '&', ' ']).to_owned()
    }

    /// Variables with an initial value below a node that are never assigned again, and the value's
    /// node.
    pub fn definitions<'s>(&'s self, node: Node<'s>) -> BTreeMap<String, Node<'s>> {
        let nodes = self.all(node);
        let changed = self.assigned_names(&nodes);
        let mut found = BTreeMap::new();
        for node in nodes {
            if node.kind() != "init_declarator" {
                continue;
            }
            let declarator = node.child_by_field_name("declarator");
            let value = node.child_by_field_name("value");
            let Some((declarator, value)) = declarator.zip(value) else {
                continue;
            };
            let name = match declarator.kind() {
                "identifier" => self.of(declarator),
                "pointer_declarator" => {
                    let inner = self.all(declarator).into_iter();
                    let Some(inner) = inner.into_iter().rfind(|node| node.kind() == "identifier")
                    else {
                        continue;
                    };
                    self.of(inner)
                }
                _ => continue,
            };
            if !changed.contains(name) {
                found.entry(name.to_owned()).or_insert(value);
            }
        }
        found
    }

    fn assigned_names(&self, nodes: &[Node<'_>]) -> BTreeSet<String> {
        nodes
            .iter()
            .filter_map(|node| match node.kind() {
                "assignment_expression" => node.child_by_field_name("left"),
                "update_expression" => node.child_by_field_name("argument"),
                _ => None,
            })
            .filter(|target| target.kind() == "identifier")
            .map(|target| self.of(target).to_owned())
            .collect()
    }

    /// Integer constants outside functions.
    pub fn constants(&self) -> BTreeMap<String, Arith> {
        let in_function = |node: &Node<'_>| self.host_function(*node).is_some();
        self.all(self.root())
            .into_iter()
            .filter(|node| node.kind() == "declaration" && !in_function(node))
            .flat_map(|node| self.definitions(node))
            .map(|(name, value)| (name, Arith::read(value, self.text)))
            .collect()
    }

    /// Names of types that the file defines by another name.
    pub fn aliases(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for node in self.all(self.root()) {
            let (name, target) = match node.kind() {
                "alias_declaration" => ("name", "type"),
                "type_definition" => ("declarator", "type"),
                _ => continue,
            };
            let pair = node
                .child_by_field_name(name)
                .zip(node.child_by_field_name(target));
            if let Some((name, target)) = pair {
                found.insert(self.of(name).to_owned(), self.of(target).trim().to_owned());
            }
        }
        found
    }
}

/// The children of a node: all, or those that the grammar names.
pub(crate) fn children<'s>(node: Node<'s>, named: bool) -> Vec<Node<'s>> {
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .filter(|child| !named || child.is_named() && child.kind() != "comment")
        .collect()
}

/// The line of a node, from 1.
pub(crate) fn line_of(node: Node<'_>) -> u32 {
    u32::try_from(node.start_position().row + 1).unwrap_or(u32::MAX)
}

/// The element type of a C++ type and the number of elements that one value of it holds.
pub(crate) fn element_type(name: &str) -> Option<(Dtype, i64)> {
    let name = name.rsplit("::").next().unwrap_or(name);
    let words = name.split_whitespace().filter(|word| *word != "const");
    Some(match words.collect::<Vec<_>>().join(" ").as_str() {
        "float" => (Dtype::F32, 1),
        "float2" => (Dtype::F32, 2),
        "float4" => (Dtype::F32, 4),
        "double" => (Dtype::F64, 1),
        "double2" => (Dtype::F64, 2),
        "half" | "__half" | "Half" => (Dtype::F16, 1),
        "half2" | "__half2" => (Dtype::F16, 2),
        "nv_bfloat16" | "__nv_bfloat16" | "BFloat16" | "bfloat16" => (Dtype::Bf16, 1),
        "nv_bfloat162" | "__nv_bfloat162" => (Dtype::Bf16, 2),
        "int8_t" | "signed char" | "char" => (Dtype::I8, 1),
        "char4" => (Dtype::I8, 4),
        "uint8_t" | "unsigned char" => (Dtype::U8, 1),
        "uchar4" => (Dtype::U8, 4),
        "int" | "int32_t" | "signed int" => (Dtype::I32, 1),
        "int2" => (Dtype::I32, 2),
        "int4" => (Dtype::I32, 4),
        "unsigned" | "unsigned int" | "uint32_t" | "uint" => (Dtype::U32, 1),
        "uint4" => (Dtype::U32, 4),
        "long" | "long long" | "int64_t" | "size_t" | "uint64_t" | "ptrdiff_t" | "long int"
        | "unsigned long" | "unsigned long long" | "long long int" | "index_t" => (Dtype::I64, 1),
        _ => return None,
    })
}
