//! The meaning of a launch's arguments: buffers, dims, scalars and values that the kernel computes itself.

use domain::problem::Problem;
use tree_sitter::Node;

use super::{Finder, FoundDim, FoundScalar, Value};
use crate::init::Work;
use crate::init::arithmetic::Arith;
use crate::init::source::{element_type, line_of};

impl Finder<'_, '_> {
    /// The meaning of an argument passed by value.
    pub(super) fn argument(
        &mut self,
        work: &mut Work<'_>,
        parameter: Node<'_>,
        name: &str,
        type_name: &str,
        node: Node<'_>,
    ) -> Result<Value, Problem> {
        let line = line_of(node);
        let aliases = self.source.aliases();
        let type_name = aliases.get(type_name).map_or(type_name, String::as_str);
        let type_name = self
            .plan
            .types
            .get(type_name)
            .map_or(type_name, String::as_str);
        if matches!(type_name, "float" | "double") {
            self.add_scalar(
                work,
                name,
                type_name == "double",
                self.source.of(node),
                line,
            );
            return Ok(Value::Scalar(name.to_owned()));
        }
        let value = Arith::read(node, self.source.text);
        let Some(wide) = integer_width(type_name) else {
            let resolved = self.host.resolve(&value);
            if type_name == "bool" && matches!(resolved, Arith::Number(_)) {
                return Ok(Value::Derived(resolved));
            }
            let message =
                format!("the parameter {name} has the type {type_name}, which no plan passes");
            let fix = "pass it as int, long long, float or double, or make it a constant";
            return Err(work.problem(line_of(parameter), message, fix));
        };
        if let Arith::Name(host) = &value
            && let Some(dim) = self.dim_names.get(host)
        {
            let name = dim.clone();
            return Ok(Value::Dim { name, wide });
        }
        let resolved = match &value {
            Arith::Name(host) => self.host.definition(host).unwrap_or_else(|| value.clone()),
            _ => self.host.resolve(&value),
        };
        match &resolved {
            Arith::Name(host) => {
                let number = self.host.number(host);
                let name = self.map_dim(host, name);
                self.add_dim(&name, line, number);
                Ok(Value::Dim { name, wide })
            }
            Arith::Number(number) => {
                self.add_dim(name, line, Some(*number));
                let name = name.to_owned();
                Ok(Value::Dim { name, wide })
            }
            other if other.opaque().is_some() => {
                self.add_dim(name, line, None);
                let name = name.to_owned();
                Ok(Value::Dim { name, wide })
            }
            other => {
                for host in other.names() {
                    let dim = self.map_dim(&host, &host);
                    self.add_dim(&dim, line, None);
                }
                let derived = self.renamed(other);
                work.guess(
                    line,
                    format!(
                        "the parameter {name} is always {}, so the kernel computes it itself",
                        derived.to_plan()
                    ),
                );
                Ok(Value::Derived(derived))
            }
        }
    }

    /// The dim of a host variable; it has the name of the kernel's parameter where that is free.
    fn map_dim(&mut self, host: &str, parameter: &str) -> String {
        if let Some(known) = self.dim_names.get(host) {
            return known.clone();
        }
        let taken = self.plan.dims.iter().any(|dim| dim.name == parameter);
        let name = if taken { host } else { parameter };
        self.dim_names.insert(host.to_owned(), name.to_owned());
        name.to_owned()
    }

    /// Adds a scalar of the plan with the value of its host expression.
    pub(super) fn add_scalar(
        &mut self,
        work: &mut Work<'_>,
        name: &str,
        double: bool,
        text: &str,
        line: u32,
    ) {
        if self.plan.scalars.iter().any(|scalar| scalar.name == name) {
            return;
        }
        let defined = self.host.literal(text);
        let literal = defined
            .as_deref()
            .unwrap_or(text)
            .trim_end_matches(['f', 'F']);
        let lower = name.to_lowercase();
        let (value, reason) = match literal.parse::<f64>() {
            Ok(value) if value >= 0.0 => (value, "as in the launch"),
            _ if lower.contains("eps") => (1e-5, "a usual value, by its name"),
            _ => (1.0, "no line gives it a value; state it in task.toml"),
        };
        let value = format!("{value}");
        work.guess(line, format!("the scalar {name} is {value}: {reason}"));
        let name = name.to_owned();
        self.plan.scalars.push(FoundScalar {
            name,
            double,
            value,
        });
    }

    /// Adds a dim unless there is one of the name.
    pub(super) fn add_dim(&mut self, name: &str, line: u32, value: Option<i64>) {
        if !self.plan.dims.iter().any(|dim| dim.name == name) {
            let name = name.to_owned();
            self.plan.dims.push(FoundDim { name, line, value });
        }
    }

    /// The host's variable that an argument's address comes from.
    pub(super) fn root_name(&self, node: Node<'_>) -> String {
        let names = self.source.all(node).into_iter();
        let mut names = names.filter(|node| node.kind() == "identifier");
        let casts = [
            "reinterpret_cast",
            "static_cast",
            "const_cast",
            "std",
            "thrust",
            "raw_pointer_cast",
        ];
        let first = names.find(|node| !casts.contains(&self.source.of(*node)));
        first.map_or_else(
            || self.source.of(node).to_owned(),
            |node| self.source.of(node).to_owned(),
        )
    }

    /// The buffer of a host variable; it has the name of the first kernel's parameter.
    pub(super) fn buffer_name(&mut self, root: &str, parameter: &str) -> String {
        if let Some(known) = self.buffers.get(root) {
            return known.clone();
        }
        let taken = self.buffers.values().any(|name| name == parameter);
        let name = if taken {
            root.trim_start_matches("d_")
        } else {
            parameter
        };
        self.buffers.insert(root.to_owned(), name.to_owned());
        name.to_owned()
    }
}

/// True for 64 bits, false for 32, none for a type that is no such integer.
fn integer_width(name: &str) -> Option<bool> {
    match element_type(name)? {
        (domain::dtype::Dtype::I32 | domain::dtype::Dtype::U32, 1) => Some(false),
        (domain::dtype::Dtype::I64, 1) => Some(true),
        _ => None,
    }
}
