//! Scripts of Kernel Tuner: a call of `tune_kernel` with a kernel in CUDA, its arguments and its tunable parameters.

mod restriction;
mod script;

use std::collections::{BTreeMap, BTreeSet};

use domain::dtype::Dtype;
use domain::expr::Expr;
use domain::plan::Tunable;
use domain::problem::{Problem, Problems};

use super::Imported;
use crate::init::{Stated, StatedArgument, StatedTask, create, parameters_of};
use crate::python::emit::{self, Style};
use crate::python::graph::{Graph, Node, NodeId};
use crate::python::interpret::{Source, Value};
use crate::python::is_reserved;
use crate::python::number::Number;
use restriction::Restriction;
use script::{Call, Script};

/// Threads of a block where the script has no tunable for an axis.
const USUAL_BLOCK: [i64; 3] = [256, 1, 1];
/// The most threads of a block.
const MAX_THREADS: i64 = 1024;
/// The most configurations that are tried in search of one that meets all restrictions.
const MAX_TRIED: usize = 100_000;
const OWN_REFERENCE: &str = "begin with task init and a reference of your own";

/// Reads a script. `files` are the texts beside it, by path.
///
/// # Errors
/// The first thing that cannot become a task, with its line.
pub fn import_kernel_tuner(
    file: &str,
    text: &str,
    name: &str,
    files: &BTreeMap<String, String>,
) -> Result<Imported, Problems> {
    let source = Source::parse(file, text)?;
    let mut script = Script::new(&source, files);
    let call = script.find_call()?;
    let mut reader = Reader {
        script,
        call,
        name,
        notes: BTreeSet::new(),
    };
    reader.read()
}

struct Reader<'s> {
    script: Script<'s>,
    call: Call<'s>,
    name: &'s str,
    notes: BTreeSet<String>,
}

/// The answer that a script states, as nodes of the graph.
struct Answer {
    outputs: Vec<(String, NodeId)>,
    terms: String,
}

impl<'s> Reader<'s> {
    fn read(&mut self) -> Result<Imported, Problems> {
        for absent in ["cmem_args", "texmem_args"] {
            if let Some(node) = self.call.given(absent) {
                let message = format!("{absent} fills memory by name, which no plan does");
                return Err(self.script.refuse(node, message, OWN_REFERENCE).into());
            }
        }
        let kernel = self.text("kernel_name")?;
        let (file, code) = self.kernel_source()?;
        let tunables = self.tunables()?;
        let restrictions = self.restrictions(&tunables);
        let tunables = self.choose(tunables, &restrictions)?;
        let size = self.problem_size()?;
        let grid = self.grid(&size, &tunables)?;
        let (block, mut head) = self.block(&tunables, &code)?;
        for restriction in &restrictions {
            head.push_str(&restriction.lines());
        }
        let shared = self.shared(&tunables)?;
        let parameters = parameters_of(&file, &code, &kernel)?;
        let given = self.value("arguments")?;
        let Value::List(given) = given else {
            return Err(self
                .call
                .refuse(&self.script, "arguments", "is no list")
                .into());
        };
        let mut arguments = Vec::new();
        let (mut tensors, mut constants) = (BTreeMap::new(), BTreeSet::new());
        for (at, value) in given.iter().enumerate() {
            arguments.push(match value {
                Value::Tensor(tensor) => {
                    let (name, dtype) = match parameters.get(at) {
                        Some((name, dtype)) => (name.clone(), dtype.unwrap_or(Dtype::F32)),
                        None => (format!("argument{at}"), Dtype::F32),
                    };
                    let entry = &mut self.script.interpreter.graph.entries[*tensor];
                    if matches!(entry.node, Node::Constant(_)) {
                        constants.insert(name.clone());
                    } else {
                        entry.node = Node::Input(name.clone());
                        entry.dtype = dtype;
                    }
                    let shape = entry.shape.clone();
                    let shape = shape.iter().map(|extent| self.extent(extent));
                    let shape = shape.collect::<Result<Vec<_>, _>>()?;
                    if let Some(other) = tensors.insert(*tensor, name) {
                        let message = format!("passes the array {other} twice");
                        return Err(self.call.refuse(&self.script, "arguments", &message).into());
                    }
                    StatedArgument::Tensor(shape)
                }
                Value::Number(number) if number.whole => {
                    StatedArgument::Whole(self.extent(number)?)
                }
                Value::Number(number) => StatedArgument::Real(number.value),
                _ => {
                    let message =
                        format!("has at place {} no array and no number of numpy", at + 1);
                    return Err(self.call.refuse(&self.script, "arguments", &message).into());
                }
            });
        }
        let answer = self.answer(&parameters, &given);
        let interpreter = &self.script.interpreter;
        let of_arguments = arguments.iter().flat_map(|argument| match argument {
            StatedArgument::Tensor(shape) => shape.as_slice(),
            StatedArgument::Whole(value) => std::slice::from_ref(value),
            StatedArgument::Real(_) => &[],
        });
        let extents = of_arguments.chain(&grid).chain(&shared);
        let used = extents.flat_map(Expr::names).collect::<BTreeSet<_>>();
        let mut dims = interpreter.dims.clone();
        dims.retain(|name, _| used.contains(name.as_str()));
        for name in dims.keys() {
            let taken =
                tensors.values().any(|tensor| tensor == name) || tunables.contains_key(name);
            if taken || is_reserved(name) {
                let message = format!("the name {name} has another meaning in the kernels");
                return Err(Problem::whole(self.script.file(), message, "rename it").into());
            }
        }
        let stated = Stated {
            file: &file,
            text: &code,
            name: self.name,
            kernel: &kernel,
            grid,
            block,
            shared,
            arguments,
            tunables,
            fixed: interpreter.graph.pinned.clone(),
            dims,
            terms: answer.as_ref().ok().map(|answer| answer.terms.clone()),
            head,
        };
        let made = create(&stated)?;
        let mut files = made.task.files.clone();
        let numbers = emit::dims(stated.dims.keys());
        let written = answer.and_then(|answer| {
            fits(&interpreter.graph, &answer, &made, &constants)?;
            let write = |style| {
                emit::write(&interpreter.graph, &answer.outputs, &numbers, style)
                    .map_err(|count| format!("it needs {count} kernels, and a plan has at most 16"))
            };
            Ok([write(Style::Reference)?, write(Style::Check)?])
        });
        match written {
            Ok([reference, check]) => {
                files.insert("reference.cu".to_owned(), reference);
                files.insert("check.cu".to_owned(), check);
            }
            Err(why) => {
                self.notes.insert(format!(
                    "the reference is not written, because {why}: {}",
                    made.task.next
                ));
            }
        }
        for guess in &made.task.guesses {
            self.notes.insert(match guess.line {
                0 => guess.text.clone(),
                line => format!("{file}:{line}: {}", guess.text),
            });
        }
        let context = files.entry("context.md".to_owned()).or_default();
        *context = format!(
            "Imported from the script {} of Kernel Tuner.\n",
            self.script.file()
        );
        for note in &self.notes {
            context.push_str(&format!("- {note}\n"));
        }
        Ok(Imported {
            name: self.name.to_owned(),
            files,
            notes: self.notes.iter().cloned().collect(),
        })
    }

    fn value(&mut self, name: &str) -> Result<Value<'s>, Problem> {
        let Some(node) = self.call.given(name) else {
            let message = format!("tune_kernel gets no {name}");
            return Err(self.script.refuse(self.call.node, message, "pass it"));
        };
        self.script.value(node, &mut self.call.scope)
    }

    fn optional(&mut self, name: &str) -> Result<Value<'s>, Problem> {
        if self.call.given(name).is_some() {
            self.value(name)
        } else {
            Ok(Value::None)
        }
    }

    fn text(&mut self, name: &str) -> Result<String, Problem> {
        match self.value(name)? {
            Value::Text(text) => Ok(text),
            _ => Err(self.call.refuse(&self.script, name, "is no text")),
        }
    }

    /// The kernel's text, and the file where it stands.
    fn kernel_source(&mut self) -> Result<(String, String), Problem> {
        let given = self.text("kernel_source")?;
        let (file, code) = if given.contains('\n') || given.contains('{') {
            (format!("{} (kernel)", self.script.file()), given)
        } else {
            match self.script.interpreter.files.get(&given) {
                Some(code) => (given, code.clone()),
                None => {
                    let message = format!("names the file {given}, which is not beside the script");
                    return Err(self.call.refuse(&self.script, "kernel_source", &message));
                }
            }
        };
        if !code.contains("__global__") {
            let message = "is no CUDA: it has no __global__ function";
            return Err(self.call.refuse(&self.script, "kernel_source", message));
        }
        Ok((file, code))
    }

    fn extent(&self, number: &Number) -> Result<Expr, Problem> {
        Expr::parse(&number.text).map_err(|error| {
            let message = format!("the extent {} has no form in a plan: {error}", number.text);
            self.script.refuse(self.call.node, message, OWN_REFERENCE)
        })
    }

    /// The tunables with their choices, in the order of the script.
    fn tunables(&mut self) -> Result<Vec<(String, Vec<i64>)>, Problem> {
        let Value::Mapping(pairs) = self.value("tune_params")? else {
            return Err(self
                .call
                .refuse(&self.script, "tune_params", "is no dictionary"));
        };
        let mut tunables = Vec::new();
        for (name, value) in pairs {
            let values = match value {
                Value::List(values) => values,
                _ => Vec::new(),
            };
            let numbers = values.iter().map(|value| match value {
                Value::Number(number) => number.whole(),
                Value::Bool(flag) => Some(i64::from(*flag)),
                _ => None,
            });
            let numbers = numbers.collect::<Option<Vec<_>>>().unwrap_or_default();
            if numbers.is_empty() {
                let message =
                    format!("has values of {name} that are no integers, and a tunable is one");
                return Err(self.call.refuse(&self.script, "tune_params", &message));
            }
            tunables.push((name, numbers));
        }
        Ok(tunables)
    }

    /// The restrictions that have a form in C; a note for each other.
    fn restrictions(&mut self, tunables: &[(String, Vec<i64>)]) -> Vec<Restriction> {
        let Some(node) = self.call.given("restrictions") else {
            return Vec::new();
        };
        let mut kept = Vec::new();
        let line = node.start_position().row + 1;
        let texts = match self.value("restrictions") {
            Ok(Value::List(values)) => values,
            _ => {
                let note = format!(
                    "left out: the restrictions on line {line}, which are no list of texts"
                );
                self.notes.insert(note);
                Vec::new()
            }
        };
        for value in texts {
            let read = match &value {
                Value::Text(text) => Restriction::read(text, tunables),
                _ => None,
            };
            match (read, value) {
                (Some(restriction), _) => kept.push(restriction),
                (None, Value::Text(text)) => {
                    self.notes.insert(format!(
                        "left out: the restriction {text:?} on line {line}, which has no form in C"
                    ));
                }
                _ => {}
            }
        }
        kept
    }

    /// The first configuration that meets all restrictions and the limit of a block.
    fn choose(
        &self,
        tunables: Vec<(String, Vec<i64>)>,
        restrictions: &[Restriction],
    ) -> Result<BTreeMap<String, Tunable>, Problem> {
        let mut at = vec![0; tunables.len()];
        for _ in 0..MAX_TRIED {
            let pairs = tunables.iter().zip(&at);
            let values = pairs.map(|((name, choices), at)| (name.clone(), choices[*at]));
            let values = values.collect::<BTreeMap<_, _>>();
            let threads = self.call.block_names(&self.script).into_iter();
            let threads = threads
                .filter_map(|name| values.get(&name))
                .product::<i64>();
            if threads <= MAX_THREADS && restrictions.iter().all(|own| own.is_met(&values)) {
                let tunables = tunables.into_iter().map(|(name, mut choices)| {
                    choices.sort_unstable();
                    choices.dedup();
                    let value = values[&name];
                    (name, Tunable { value, choices })
                });
                return Ok(tunables.collect());
            }
            // The last tunable changes first.
            let mut place = tunables.len();
            while place > 0 {
                place -= 1;
                at[place] += 1;
                if at[place] < tunables[place].1.len() {
                    break;
                }
                at[place] = 0;
                if place == 0 {
                    place = usize::MAX;
                    break;
                }
            }
            if place == usize::MAX || tunables.is_empty() {
                break;
            }
        }
        let message =
            "has no configuration that meets all restrictions and has at most 1024 threads";
        Err(self.call.refuse(&self.script, "tune_params", message))
    }

    fn problem_size(&mut self) -> Result<Vec<Number>, Problem> {
        let values = match self.value("problem_size")? {
            Value::List(values) => values,
            other => vec![other],
        };
        let numbers = values.into_iter().map(|value| match value {
            Value::Number(number) if number.whole => Some(number),
            _ => None,
        });
        let numbers = numbers.collect::<Option<Vec<_>>>();
        numbers
            .filter(|numbers| (1..=3).contains(&numbers.len()))
            .ok_or_else(|| {
                self.call.refuse(
                    &self.script,
                    "problem_size",
                    "is no integer and no tuple of up to three",
                )
            })
    }

    fn grid(
        &mut self,
        size: &[Number],
        tunables: &BTreeMap<String, Tunable>,
    ) -> Result<[Expr; 3], Problem> {
        let mut grid = Vec::new();
        let names = self.call.block_names(&self.script);
        for (axis, option) in ["grid_div_x", "grid_div_y", "grid_div_z"]
            .into_iter()
            .enumerate()
        {
            let divisors = match self.optional(option)? {
                Value::None if tunables.contains_key(&names[axis]) => vec![names[axis].clone()],
                Value::None if axis == 0 => vec![USUAL_BLOCK[0].to_string()],
                Value::None => Vec::new(),
                Value::List(values) => values
                    .into_iter()
                    .map(|value| match value {
                        Value::Text(text) => Ok(format!("({text})")),
                        Value::Number(number) if number.whole => Ok(number.text),
                        _ => Err(self
                            .call
                            .refuse(&self.script, option, "is no list of texts")),
                    })
                    .collect::<Result<Vec<_>, _>>()?,
                _ => {
                    return Err(self
                        .call
                        .refuse(&self.script, option, "is no list of texts"));
                }
            };
            let extent = size.get(axis).map_or("1", |extent| extent.text.as_str());
            let text = if divisors.is_empty() || extent == "1" {
                extent.to_owned()
            } else {
                format!("cdiv({extent}, {})", divisors.join(" * "))
            };
            grid.push(self.expression(option, &text)?);
        }
        let [x, y, z]: [Expr; 3] = grid.try_into().expect("a grid has three axes");
        Ok([x, y, z])
    }

    fn expression(&self, option: &str, text: &str) -> Result<Expr, Problem> {
        Expr::parse(&text.replace("//", "/")).map_err(|error| {
            let message = format!("is {text:?}, which has no form in a plan: {error}");
            self.call.refuse(&self.script, option, &message)
        })
    }

    /// The extents of a block, and lines that define those which are no tunables.
    fn block(
        &mut self,
        tunables: &BTreeMap<String, Tunable>,
        code: &str,
    ) -> Result<([Expr; 3], String), Problem> {
        let (mut block, mut head) = (Vec::new(), "#define kernel_tuner 1\n".to_owned());
        for (name, usual) in self
            .call
            .block_names(&self.script)
            .into_iter()
            .zip(USUAL_BLOCK)
        {
            let text = if tunables.contains_key(&name) {
                name
            } else {
                head.push_str(&format!("#define {name} {usual}\n"));
                usual.to_string()
            };
            block.push(self.expression("tune_params", &text)?);
        }
        if code.contains("grid_size_") {
            let message = "uses grid_size_x, which Kernel Tuner defines for each size";
            return Err(self.call.refuse(&self.script, "kernel_source", message));
        }
        let [x, y, z]: [Expr; 3] = block.try_into().expect("a block has three axes");
        Ok(([x, y, z], head))
    }

    fn shared(&mut self, tunables: &BTreeMap<String, Tunable>) -> Result<Option<Expr>, Problem> {
        let size = match self.optional("smem_args")? {
            Value::None => return Ok(None),
            Value::Mapping(pairs) => pairs.into_iter().find(|(name, _)| name == "size"),
            _ => None,
        };
        let text = match size.map(|(_, size)| size) {
            Some(Value::Text(text)) => text,
            Some(Value::Number(number)) if number.whole => number.text,
            _ => {
                return Err(self
                    .call
                    .refuse(&self.script, "smem_args", "states no size"));
            }
        };
        let size = self.expression("smem_args", &text)?;
        let dims = &self.script.interpreter.dims;
        let known = |name: &&str| tunables.contains_key(*name) || dims.contains_key(*name);
        let unknown = size.names().into_iter().find(|name| !known(name));
        match unknown.map(str::to_owned) {
            Some(name) => {
                let message = format!("names {name}, which is no tunable");
                Err(self.call.refuse(&self.script, "smem_args", &message))
            }
            None => Ok(Some(size)),
        }
    }

    /// The answer that the script computes with numpy; the reason where there is none.
    fn answer(
        &mut self,
        parameters: &[(String, Option<Dtype>)],
        arguments: &[Value<'s>],
    ) -> Result<Answer, String> {
        if self.call.given("answer").is_none() {
            return Err("the script states no answer".to_owned());
        }
        let answers = match self
            .value("answer")
            .map_err(|problem| problem.to_string())?
        {
            Value::List(answers) => answers,
            _ => return Err("answer is no list".to_owned()),
        };
        let graph = &mut self.script.interpreter.graph;
        let mut outputs = Vec::new();
        for (at, answer) in answers.iter().enumerate() {
            let node = match answer {
                Value::None => continue,
                Value::Tensor(node) => *node,
                _ => return Err(format!("answer {} is no array", at + 1)),
            };
            let (Some((name, dtype)), Some(Value::Tensor(buffer))) =
                (parameters.get(at), arguments.get(at))
            else {
                return Err(format!("answer {} belongs to no array", at + 1));
            };
            let dtype = dtype.unwrap_or(Dtype::F32);
            if !matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::F32) {
                return Err(format!("{name} is {dtype}"));
            }
            let (own, wanted) = (graph.shape(node).to_vec(), graph.shape(*buffer).to_vec());
            let same = own.len() == wanted.len()
                && own
                    .iter()
                    .zip(&wanted)
                    .all(|(one, other)| graph.equal(one, other));
            // One number is a vector of one element.
            let is_single = own.is_empty() && wanted.len() == 1 && wanted[0].text == "1";
            if !same && !is_single {
                return Err(format!("the answer for {name} has another shape"));
            }
            let made = graph.copy(node);
            graph.entries[made].dtype = dtype;
            outputs.push((name.clone(), made));
        }
        let terms = graph.terms(outputs.iter().map(|(_, node)| *node));
        Ok(Answer { outputs, terms })
    }
}

/// Checks that the answer is about what the kernel writes and depends on what it reads.
fn fits(
    graph: &Graph,
    answer: &Answer,
    made: &StatedTask,
    constants: &BTreeSet<String>,
) -> Result<(), String> {
    let answered = |name: &String| answer.outputs.iter().any(|(own, _)| own == name);
    for (name, (_, reads, writes)) in &made.tensors {
        if *reads && *writes {
            return Err(format!("the kernel reads {name} and writes to it"));
        }
        if *reads && constants.contains(name) {
            return Err(format!(
                "the kernel reads {name}, whose values the script fixes"
            ));
        }
        if *writes != answered(name) {
            return Err(format!(
                "the answer and the kernel disagree whether {name} is an output"
            ));
        }
    }
    for node in graph.reachable(answer.outputs.iter().map(|(_, node)| *node)) {
        if let Node::Input(name) = &graph.entries[node].node
            && !made.tensors.contains_key(name)
        {
            return Err("the answer depends on values that the kernel does not get".to_owned());
        }
    }
    Ok(())
}
