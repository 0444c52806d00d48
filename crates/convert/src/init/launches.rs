//! The launch plan of a file: which kernels its host code launches, and what their arguments mean.

use std::collections::{BTreeMap, BTreeSet};

use domain::problem::{Problem, Problems};
use tree_sitter::Node;

use super::Work;
use super::arithmetic::Arith;
use super::source::{Kernel, Launch, Source, children, element_type, line_of};

/// Value of a template parameter or tunable that nothing in the file tells.
const USUAL_BLOCK: i64 = 128;

/// The launches of a file with the values that they depend on.
pub(super) struct FoundPlan {
    pub steps: Vec<FoundStep>,
    /// Dims in the order of their first use.
    pub dims: Vec<FoundDim>,
    pub scalars: Vec<FoundScalar>,
    /// Integer template parameters and their values.
    pub tunables: BTreeMap<String, i64>,
    /// Type template parameters and the types they stand for.
    pub types: BTreeMap<String, String>,
    /// Buffers that host code allocates between launches and never reads back, by name.
    pub private: BTreeSet<String>,
}

pub(super) struct FoundStep {
    pub kernel: String,
    pub grid: [Arith; 3],
    pub block: [Arith; 3],
    pub shared: Arith,
    pub cooperative: bool,
    pub arguments: Vec<Value>,
}

/// The argument of a launch plan for one parameter of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Buffer(String),
    Dim {
        name: String,
        /// True if the parameter has 64 bits.
        wide: bool,
    },
    /// A value that is computed from dims; the kernel computes it itself.
    Derived(Arith),
    Scalar(String),
}

pub(super) struct FoundDim {
    pub name: String,
    pub line: u32,
    /// The value that the file gives it.
    pub value: Option<i64>,
}

pub(super) struct FoundScalar {
    pub name: String,
    pub double: bool,
    pub value: String,
}

/// Finds the launches of the kernel that becomes the baseline.
///
/// # Errors
/// No launch, launches in several functions, or an argument or extent without a meaning.
pub(super) fn find_plan(work: &mut Work<'_>, source: &Source<'_>) -> Result<FoundPlan, Problems> {
    let kernels = source.kernels();
    let launches = choose_launches(work, source, &kernels)?;
    let host = launches.first().and_then(|launch| launch.host);
    let mut finder = Finder {
        definitions: source.constants(),
        source,
        plan: FoundPlan {
            steps: Vec::new(),
            dims: Vec::new(),
            scalars: Vec::new(),
            tunables: BTreeMap::new(),
            types: BTreeMap::new(),
            private: BTreeSet::new(),
        },
        dim_names: BTreeMap::new(),
        buffers: BTreeMap::new(),
        direct: BTreeSet::new(),
        blocks: BTreeMap::new(),
    };
    if let Some(host) = host {
        finder.read_host(host);
    }
    finder.direct = finder.direct_names(&launches, &kernels);
    for launch in &launches {
        let kernel = kernels
            .iter()
            .find(|kernel| kernel.name == launch.kernel)
            .expect("launches of other kernels were left out");
        finder.add_step(work, launch, kernel)?;
    }
    if launches.is_empty() {
        let kernel = chosen_kernel(work, &kernels)?;
        finder.add_unlaunched(work, kernel)?;
    }
    if let Some(host) = host.filter(|_| finder.plan.steps.len() > 1) {
        finder.find_private_buffers(work, host);
    }
    Ok(finder.plan)
}

/// The launches that become the plan.
fn choose_launches<'s>(
    work: &mut Work<'_>,
    source: &'s Source<'_>,
    kernels: &[Kernel<'_>],
) -> Result<Vec<Launch<'s>>, Problem> {
    let wanted = work.request.answers.kernel.clone();
    let defined = |name: &str| kernels.iter().any(|kernel| kernel.name == name);
    if let Some(wanted) = wanted.as_deref().filter(|wanted| !defined(wanted)) {
        let message = format!("there is no kernel {wanted:?} in the file");
        return Err(work.problem(0, message, format!("it defines: {}", names(kernels))));
    }
    let mut launches = source
        .launches()
        .into_iter()
        .filter(|launch| defined(&launch.kernel))
        .filter(|launch| {
            wanted
                .as_deref()
                .is_none_or(|wanted| launch.kernel == wanted)
        })
        .collect::<Vec<_>>();
    let hosts = launches
        .iter()
        .filter_map(|launch| launch.host)
        .map(|host| (host.id(), source.function_name(host)))
        .collect::<BTreeMap<_, _>>();
    if hosts.len() > 1 && wanted.is_none() {
        let hosts = hosts.into_values().collect::<Vec<_>>().join(", ");
        let message = format!("kernels are launched from several functions: {hosts}");
        let fix = format!("choose one with --kernel: {}", names(kernels));
        return Err(work.problem(launches[0].line, message, fix));
    }
    let first = launches
        .first()
        .and_then(|launch| launch.host.map(|host| host.id()));
    launches.retain(|launch| launch.host.map(|host| host.id()) == first);
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for launch in launches {
        if seen.insert(launch.kernel.clone()) {
            kept.push(launch);
        } else {
            work.guess(
                launch.line,
                format!("a further launch of {} is left out", launch.kernel),
            );
        }
    }
    Ok(kept)
}

fn names(kernels: &[Kernel<'_>]) -> String {
    let names = kernels.iter().map(|kernel| kernel.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

fn chosen_kernel<'k, 's>(
    work: &Work<'_>,
    kernels: &'k [Kernel<'s>],
) -> Result<&'k Kernel<'s>, Problem> {
    let wanted = work.request.answers.kernel.as_deref();
    match (wanted, kernels) {
        (None, [kernel]) => Ok(kernel),
        (None, _) => {
            let message = "the file has several kernels and launches none of them";
            let fix = format!("choose one with --kernel: {}", names(kernels));
            Err(work.problem(0, message, fix))
        }
        (Some(wanted), _) => Ok(kernels
            .iter()
            .find(|kernel| kernel.name == wanted)
            .expect("its existence was checked")),
    }
}

struct Finder<'s, 't> {
    source: &'s Source<'t>,
    /// Variables of the host function and constants of the file.
    definitions: BTreeMap<String, Arith>,
    plan: FoundPlan,
    /// Dim by the name of the host's variable.
    dim_names: BTreeMap<String, String>,
    /// Buffer by the name of the host's variable.
    buffers: BTreeMap<String, String>,
    /// Host variables that a launch passes as an integer without change.
    direct: BTreeSet<String>,
    /// Extents of `dim3` variables by name.
    blocks: BTreeMap<String, [Arith; 3]>,
}

impl<'s> Finder<'s, '_> {
    fn read_host(&mut self, host: Node<'s>) {
        let text = self.source.text;
        self.read_vexing_extents(host);
        for (name, value) in self.source.definitions(host) {
            let is_extents = value.kind() == "argument_list"
                || value.kind() == "initializer_list"
                || text[value.byte_range()].starts_with("dim3");
            if is_extents {
                let list = value.child_by_field_name("arguments").unwrap_or(value);
                let extents = self.extents(&children(list, true));
                self.add_extents(name, extents);
            } else {
                self.definitions.insert(name, Arith::read(value, text));
            }
        }
    }

    /// Reads `dim3 name(variable)`, which the grammar takes for the declaration of a function.
    fn read_vexing_extents(&mut self, host: Node<'s>) {
        for node in self.source.all(host) {
            let kind = node
                .child_by_field_name("type")
                .map(|kind| self.source.of(kind));
            let declarator = node.child_by_field_name("declarator");
            let Some(declarator) = declarator.filter(|declarator| {
                kind == Some("dim3") && declarator.kind() == "function_declarator"
            }) else {
                continue;
            };
            let name = declarator.child_by_field_name("declarator");
            let list = declarator.child_by_field_name("parameters");
            if let (Some(name), Some(list)) = (name, list) {
                let extents = self.extents(&children(list, true));
                self.add_extents(self.source.of(name).to_owned(), extents);
            }
        }
    }

    fn add_extents(&mut self, name: String, extents: [Arith; 3]) {
        for (axis, extent) in ["x", "y", "z"].into_iter().zip(&extents) {
            self.definitions
                .insert(format!("{name}.{axis}"), extent.clone());
        }
        self.blocks.insert(name, extents);
    }

    fn extents(&self, nodes: &[Node<'_>]) -> [Arith; 3] {
        let read = |at: usize| {
            nodes.get(at).map_or(Arith::Number(1), |node| {
                Arith::read(*node, self.source.text)
            })
        };
        [read(0), read(1), read(2)]
    }

    /// Names of variables that are passed for integer parameters as they are.
    fn direct_names(&self, launches: &[Launch<'_>], kernels: &[Kernel<'_>]) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for launch in launches {
            let kernel = kernels.iter().find(|kernel| kernel.name == launch.kernel);
            let parameters = kernel.into_iter().flat_map(|kernel| &kernel.parameters);
            for (parameter, argument) in parameters.zip(&launch.arguments) {
                if let (false, Arith::Name(name)) = (
                    parameter.is_pointer,
                    Arith::read(*argument, self.source.text),
                ) {
                    found.insert(name);
                }
            }
        }
        found
    }

    /// The value of a host variable as far as plans can say it. A variable with a number that a
    /// kernel takes stays a variable, because it is a dim.
    fn definition(&self, name: &str) -> Option<Arith> {
        let value = self.definitions.get(name)?;
        let resolved = value.resolve(&|inner| {
            if inner == name {
                None
            } else {
                self.definition(inner)
            }
        });
        let stays = resolved.opaque().is_some()
            || self.direct.contains(name) && matches!(resolved, Arith::Number(_));
        (!stays).then_some(resolved)
    }

    fn add_step(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'s>,
        kernel: &Kernel<'_>,
    ) -> Result<(), Problem> {
        let template = self.instantiate(work, launch, kernel)?;
        if launch.arguments.len() != kernel.parameters.len() {
            let message = format!(
                "the launch of {} has {} arguments and the kernel has {} parameters",
                kernel.name,
                launch.arguments.len(),
                kernel.parameters.len()
            );
            let fix = "list every argument in the launch, or name the kernel with --kernel and say \
                       how it is launched with --grid and --block after removing the launch";
            return Err(work.problem(launch.line, message, fix));
        }
        let mut arguments = Vec::new();
        for (parameter, node) in kernel.parameters.iter().zip(&launch.arguments) {
            let value = if parameter.is_pointer {
                let root = self.root_name(*node);
                Value::Buffer(self.buffer_name(&root, &parameter.name))
            } else {
                self.argument(
                    work,
                    parameter.node,
                    &parameter.name,
                    &parameter.type_name,
                    *node,
                )?
            };
            arguments.push(value);
        }
        let place = format!("the launch of {}", kernel.name);
        let answers = work.request.answers;
        let extents = |option: &str, at: usize| -> Result<[Arith; 3], Problem> {
            let answered = if option == "--grid" {
                &answers.grid
            } else {
                &answers.block
            };
            if let Some(answered) = answered {
                return Ok(answered_extents(answered));
            }
            let Some(node) = launch.configuration.get(at) else {
                let message = format!("{place} has no extents");
                return Err(work.problem(launch.line, message, format!("state {option}")));
            };
            let found = match self.blocks.get(self.source.of(*node)) {
                Some(extents) => extents.clone(),
                None => {
                    let list = node.child_by_field_name("arguments");
                    let is_extents = self.source.of(*node).starts_with("dim3");
                    match list.filter(|_| is_extents) {
                        Some(list) => self.extents(&children(list, true)),
                        None => self.extents(&[*node]),
                    }
                }
            };
            let mut resolved = [Arith::Number(1), Arith::Number(1), Arith::Number(1)];
            for (slot, extent) in resolved.iter_mut().zip(&found) {
                let extent = self.renamed(extent);
                if let Some(text) = extent.opaque() {
                    let message = format!("{place}: the extent {text:?} has no form in a plan");
                    let fix = format!("state the extents, such as {option} 'cdiv(N, 256)'");
                    return Err(work.problem(launch.line, message, fix));
                }
                *slot = extent;
            }
            Ok(resolved)
        };
        let grid = extents("--grid", 0)?;
        let mut block = extents("--block", 1)?;
        let shared = launch
            .configuration
            .get(2)
            .map_or(Arith::Number(0), |node| {
                self.renamed(&Arith::read(*node, self.source.text))
            });
        let shared = match &answers.shared {
            Some(answer) => Arith::from_plan(answer),
            None if shared.opaque().is_some() => {
                let message = format!("{place}: the shared memory has no form in a plan");
                let fix = "state the bytes, such as --shared '4 * C'";
                return Err(work.problem(launch.line, message, fix));
            }
            None => shared,
        };
        self.tie_block(work, launch.line, &template, &mut block);
        let known = self
            .plan
            .dims
            .iter()
            .map(|dim| dim.name.clone())
            .collect::<BTreeSet<_>>();
        let step_names = grid
            .iter()
            .chain(&block)
            .chain([&shared])
            .flat_map(Arith::names);
        for name in step_names.collect::<BTreeSet<_>>() {
            if !known.contains(&name) && !self.plan.tunables.contains_key(&tunable_of(&name)) {
                self.add_dim(&name, launch.line, None);
                work.guess(
                    launch.line,
                    format!(
                        "{name} is a dim, because the launch of {} depends on it",
                        kernel.name
                    ),
                );
            }
        }
        self.plan.steps.push(FoundStep {
            kernel: kernel.name.clone(),
            grid,
            block,
            shared,
            cooperative: launch.cooperative,
            arguments,
        });
        Ok(())
    }

    /// An extent with definitions in place of the host's variables, in the names of dims.
    fn renamed(&self, extent: &Arith) -> Arith {
        let resolved = extent.resolve(&|name| self.definition(name));
        let renamed = resolved.resolve(&|name| {
            let dim = self.dim_names.get(name)?;
            (dim != name).then(|| Arith::Name(dim.clone()))
        });
        renamed.with_ceilings()
    }

    /// Gives every template parameter its argument.
    fn instantiate(
        &mut self,
        work: &mut Work<'_>,
        launch: &Launch<'s>,
        kernel: &Kernel<'_>,
    ) -> Result<Vec<(String, i64)>, Problem> {
        let mut values = Vec::new();
        for (at, parameter) in kernel.template.iter().enumerate() {
            let given = launch.template.get(at).map(|node| self.source.of(*node));
            let name = &parameter.name;
            if parameter.is_type {
                let aliases = self.source.aliases();
                let given = given.map(|given| aliases.get(given).map_or(given, String::as_str));
                let known = given.filter(|given| element_type(given).is_some());
                let answered = self.answered_type(work, kernel, name);
                let chosen = answered.as_deref().or(known).unwrap_or("float").to_owned();
                let reason = if answered.is_some() {
                    "as --tensor says".to_owned()
                } else if known.is_some() {
                    "as the launch says".to_owned()
                } else {
                    "the launch leaves it open; say --tensor NAME=f16 for another type".to_owned()
                };
                work.guess(launch.line, format!("{name} is {chosen}: {reason}"));
                self.plan.types.insert(name.clone(), chosen);
                continue;
            }
            let value = launch.template.get(at).map(|node| {
                Arith::read(*node, self.source.text).resolve(&|name| self.definition(name))
            });
            let value = if let Some(Arith::Number(value)) = value {
                value
            } else {
                let text = given.unwrap_or("nothing");
                work.guess(
                    launch.line,
                    format!(
                        "{name} is {USUAL_BLOCK}: the launch gives it {text}, which is no number"
                    ),
                );
                USUAL_BLOCK
            };
            let tunable = tunable_of(name);
            match self.plan.tunables.insert(tunable.clone(), value) {
                Some(other) if other != value => {
                    let message = format!("{name} is {other} in one kernel and {value} in another");
                    let fix = "rename one of the template parameters";
                    return Err(work.problem(launch.line, message, fix));
                }
                _ => {}
            }
            work.guess(
                launch.line,
                format!("the template parameter {name} becomes the tunable {tunable} = {value}"),
            );
            values.push((tunable, value));
        }
        Ok(values)
    }

    /// The C++ type that an answer gives to a parameter of the type `name`.
    fn answered_type(&self, work: &Work<'_>, kernel: &Kernel<'_>, name: &str) -> Option<String> {
        let parameters = kernel.parameters.iter();
        parameters
            .filter(|parameter| parameter.is_pointer && parameter.type_name == name)
            .find_map(|parameter| work.request.answers.tensors.get(&parameter.name))
            .map(|answer| answer.dtype.c_type().to_owned())
    }

    /// A template argument that is also the number of threads of a block becomes its extent.
    fn tie_block(
        &self,
        work: &mut Work<'_>,
        line: u32,
        template: &[(String, i64)],
        block: &mut [Arith; 3],
    ) {
        let found = template
            .iter()
            .find(|(_, value)| block[0] == Arith::Number(*value) && *value >= 32);
        if let Some((name, value)) = found {
            block[0] = Arith::Name(name.clone());
            work.guess(
                line,
                format!("the block has {name} threads, because both are {value} in the launch"),
            );
        }
    }

    /// The meaning of an argument passed by value.
    fn argument(
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
            self.scalar(
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
            let resolved = value.resolve(&|name| self.definition(name));
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
            Arith::Name(host) => self.definition(host).unwrap_or_else(|| value.clone()),
            _ => value.resolve(&|name| self.definition(name)),
        };
        match &resolved {
            Arith::Name(host) => {
                let known = self.definitions.get(host);
                let number =
                    known.map(|known| known.resolve(&|name| self.definitions.get(name).cloned()));
                let number = match number {
                    Some(Arith::Number(number)) => Some(number),
                    _ => None,
                };
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

    fn add_dim(&mut self, name: &str, line: u32, value: Option<i64>) {
        if !self.plan.dims.iter().any(|dim| dim.name == name) {
            let name = name.to_owned();
            self.plan.dims.push(FoundDim { name, line, value });
        }
    }

    fn scalar(&mut self, work: &mut Work<'_>, name: &str, double: bool, text: &str, line: u32) {
        if self.plan.scalars.iter().any(|scalar| scalar.name == name) {
            return;
        }
        let defined = match self.definitions.get(text) {
            Some(Arith::Opaque(value)) => Some(value.clone()),
            Some(Arith::Number(value)) => Some(value.to_string()),
            _ => None,
        };
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

    /// The host's variable that an argument's address comes from.
    fn root_name(&self, node: Node<'_>) -> String {
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
    fn buffer_name(&mut self, root: &str, parameter: &str) -> String {
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

    /// Adds the plan of a kernel that no host code launches, from the answers alone.
    fn add_unlaunched(&mut self, work: &mut Work<'_>, kernel: &Kernel<'_>) -> Result<(), Problem> {
        let line = line_of(kernel.node);
        let answers = work.request.answers;
        let (Some(grid), Some(block)) = (&answers.grid, &answers.block) else {
            let message = format!("no host code launches {}", kernel.name);
            let fix = "say how it is launched, such as --grid 'cdiv(N, 256)' --block 256";
            return Err(work.problem(line, message, fix));
        };
        if let Some(parameter) = kernel.template.first() {
            let message = format!(
                "nothing gives the template parameter {} a value",
                parameter.name
            );
            let fix = "write a host function that launches the kernel with its template arguments";
            return Err(work.problem(line, message, fix));
        }
        let mut arguments = Vec::new();
        for parameter in &kernel.parameters {
            let name = parameter.name.clone();
            arguments.push(if parameter.is_pointer {
                Value::Buffer(name)
            } else if matches!(parameter.type_name.as_str(), "float" | "double") {
                self.scalar(work, &name, parameter.type_name == "double", "", line);
                Value::Scalar(name)
            } else {
                self.argument(
                    work,
                    parameter.node,
                    &name,
                    &parameter.type_name,
                    parameter.node,
                )?
            });
        }
        let (grid, block) = (answered_extents(grid), answered_extents(block));
        for name in grid.iter().chain(&block).flat_map(Arith::names) {
            self.add_dim(&name, line, None);
        }
        let shared = answers.shared.as_ref();
        self.plan.steps.push(FoundStep {
            kernel: kernel.name.clone(),
            grid,
            block,
            shared: shared.map_or(Arith::Number(0), Arith::from_plan),
            cooperative: false,
            arguments,
        });
        Ok(())
    }

    /// Finds the buffers that the launching function allocates and never copies back.
    fn find_private_buffers(&mut self, work: &mut Work<'_>, host: Node<'s>) {
        let source = self.source;
        let calls = source
            .all(host)
            .into_iter()
            .filter(|node| node.kind() == "call_expression");
        let (mut allocated, mut read_back) = (BTreeMap::new(), BTreeSet::new());
        for call in calls {
            let function = call
                .child_by_field_name("function")
                .map_or("", |node| source.of(node));
            let list = call.child_by_field_name("arguments");
            let arguments = list.map(|list| children(list, true)).unwrap_or_default();
            if function.starts_with("cudaMalloc")
                && let Some(first) = arguments.first()
            {
                let names = source.all(*first).into_iter();
                let name = names.into_iter().rfind(|node| node.kind() == "identifier");
                if let Some(name) = name {
                    allocated.insert(source.of(name).to_owned(), line_of(call));
                }
            }
            if function.starts_with("cudaMemcpy") {
                read_back.extend(arguments.get(1).map(|from| self.root_name(*from)));
            }
        }
        for (root, line) in allocated {
            if let Some(buffer) = self.buffers.get(&root)
                && !read_back.contains(&root)
            {
                work.guess(
                    line,
                    format!("{buffer} is a workspace, because the launching function allocates it"),
                );
                self.plan.private.insert(buffer.clone());
            }
        }
    }
}

/// The tunable of a template parameter. Its name differs from the parameter's, because a macro would
/// replace the same word in other templates.
pub(super) fn tunable_of(parameter: &str) -> String {
    if parameter.starts_with("TUNE_") {
        return parameter.to_owned();
    }
    format!("TUNE_{}", parameter.to_uppercase())
}

/// True for 64 bits, false for 32, none for a type that is no such integer.
fn integer_width(name: &str) -> Option<bool> {
    match element_type(name)? {
        (domain::dtype::Dtype::I32 | domain::dtype::Dtype::U32, 1) => Some(false),
        (domain::dtype::Dtype::I64, 1) => Some(true),
        _ => None,
    }
}

/// Extents as stated, each kept as one name: its text is in the plan's grammar already.
fn answered_extents(extents: &[domain::expr::Expr]) -> [Arith; 3] {
    let mut found = [Arith::Number(1), Arith::Number(1), Arith::Number(1)];
    for (slot, extent) in found.iter_mut().zip(extents) {
        *slot = Arith::from_plan(extent);
    }
    found
}
