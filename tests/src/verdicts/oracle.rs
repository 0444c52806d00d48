//! Proof that a kernel is wrong, by executing it on many shapes, values, schedules, poisons and alignments.
//!
//! Evidence is what a user of the kernel could observe: a launch that does not end well, an output far outside the
//! task's bounds, an input that changed, or outputs that depend on the schedule or on poison. Findings of the emulated
//! machine, such as data races, are no evidence.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use domain::candidate::KernelSource;
use domain::device::Limits as DeviceLimits;
use domain::plan::{Configuration, LaunchPlan, ResolvedArgument, ResolvedStep};
use domain::task::{Role, Task};
use ptx::report::Outcome;
use ptx::{Checks, LaunchConfig, Limits, Machine, Module, ModuleHandle, Schedule};

use super::Draws;
use super::mutation::{Kind, Mutant};
use super::reference::{Answer, Dims, Element, LAWS, Law, answer, covers, draw, error_ratio};
use super::subject::Subject;

/// A kernel is wrong beyond doubt if its error is this many times what the task allows.
const DOUBTLESS: f64 = 32.0;
/// A kernel counts as right if its error is never more than this part of what the task allows.
const COMFORTABLE: f64 = 0.75;
/// Thread instructions of one launch; the slowest accepted kernel needs a hundredth on the largest shape.
const BUDGET: u64 = 1 << 28;
/// Device memory of one execution, bytes.
const MEMORY: u64 = 1 << 30;
/// The number of the first question on a shape that a mutant names; those of the others begin at 0.
const NAMED_TURN: usize = 10_000;
/// Beyond this extent shapes meet normal values only: of others, one thread's sum of 8,192 terms may have nearly the error
/// that a task allows.
const LONG: i64 = 2049;
/// Address space of a buffer before its first byte, so that its alignment can be chosen.
const LEAD: u64 = 256;

/// The oracle's result for a kernel.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// Wrong, with the first observation that shows it.
    Wrong(String),
    /// Right in every execution.
    Right,
    /// Neither: inside the doubtful range, or not executable at all.
    Open(String),
}

/// One execution to be made.
#[derive(Debug, Clone, Copy)]
struct Conditions {
    schedule: Schedule,
    /// Byte that outputs and workspaces hold before.
    poison: u8,
    /// True for addresses as weakly aligned as the task allows.
    weak: bool,
}

const FIRST: Conditions = Conditions {
    schedule: Schedule::Serial,
    poison: 0xa5,
    weak: false,
};

/// Executes a compiled kernel until something proves it wrong.
#[must_use]
pub fn prove(subject: &Subject, mutant: &Mutant, ptx: &str, limits: &DeviceLimits) -> Proof {
    let plan = match KernelSource::parse("candidate.cu", mutant.text.as_str()) {
        Ok(source) => source.plan().clone(),
        Err(problems) => return Proof::Open(format!("its plan does not parse: {problems}")),
    };
    let module = match Module::parse(ptx) {
        Ok(module) => module,
        Err(error) => return Proof::Open(format!("failed to {error}")),
    };
    let mut run = Run {
        subject,
        limits,
        configuration: plan.default_configuration(),
        plan,
        module,
        worst: 0.0,
        largest: (0.0, String::new()),
    };
    match run.examine(mutant) {
        Err(Stop::Wrong(why)) => Proof::Wrong(why),
        Err(Stop::Open(why)) => Proof::Open(why),
        Ok(()) if run.worst <= COMFORTABLE => Proof::Right,
        Ok(()) => Proof::Open(format!(
            "error {:.2} times the bound: {}",
            run.worst, run.largest.1
        )),
    }
}

/// The reason why an examination ended early.
enum Stop {
    Wrong(String),
    Open(String),
}

struct Run<'a> {
    subject: &'a Subject,
    limits: &'a DeviceLimits,
    plan: LaunchPlan,
    configuration: Configuration,
    module: Module,
    worst: f64,
    largest: (f64, String),
}

/// Inputs of one shape with the right answer.
#[derive(Debug)]
struct Question {
    dims: Dims,
    law: Law,
    inputs: Vec<Vec<f64>>,
    answer: Answer,
}

/// The questions of a task that were drawn so far, because all kernels of the task get most of them.
#[derive(Debug, Default)]
pub struct Questions(Mutex<HashMap<(Dims, Law, u64), Arc<Question>>>);

impl Run<'_> {
    fn examine(&mut self, mutant: &Mutant) -> Result<(), Stop> {
        let seeds = match mutant.kind {
            Kind::Wrong => 4,
            Kind::Honest => 2,
        };
        // Listed shapes with every law, one after the other in one process, so that what a kernel keeps in its module
        // shows. Then the same under other conditions.
        let listed: Vec<Dims> = self
            .subject
            .task
            .cases
            .iter()
            .map(|case| case.dims.clone())
            .collect();
        let mut machine = self.machine();
        for (turn, dims) in listed.iter().enumerate() {
            for (number, law) in LAWS.into_iter().enumerate() {
                let Some(question) = self.question(dims, law, (turn * 100 + number) as u64) else {
                    continue;
                };
                self.ask(&mut machine, &question, FIRST)?;
            }
        }
        for dims in &listed {
            let question = self
                .question(dims, Law::Normal, 7)
                .expect("every task covers it");
            self.compare_conditions(&question, seeds)?;
        }
        // Shapes that the mutant names come first, and change nothing about the others, so that kernels of one task
        // share the questions.
        let usual = shapes(&self.subject.task, &[]);
        let mut named = shapes(&self.subject.task, &mutant.witnesses);
        named.retain(|dims| !usual.contains(dims));
        let named = named.iter().zip(NAMED_TURN..);
        for (dims, turn) in named.chain(usual.iter().zip(0..)) {
            let laws: Vec<Law> = LAWS
                .into_iter()
                .filter(|law| covers(self.subject.name, *law))
                .collect();
            let law = if dims.values().any(|&extent| extent > LONG) {
                Law::Normal
            } else {
                laws[turn % laws.len()]
            };
            let question = self
                .question(dims, law, turn as u64)
                .expect("the law is covered");
            if turn % 4 == 0 {
                self.compare_conditions(&question, 1)?;
            } else {
                let conditions = Conditions {
                    weak: turn % 2 == 1,
                    ..FIRST
                };
                self.ask(&mut machine, &question, conditions)?;
            }
        }
        Ok(())
    }

    /// A fresh device with the module.
    fn machine(&self) -> (Machine, ModuleHandle) {
        let mut machine = Machine::new(Limits {
            memory_bytes: MEMORY,
            ..Limits::default()
        });
        let handle = machine
            .load(self.module.clone())
            .expect("the module is small");
        (machine, handle)
    }

    /// Executes on a fresh device under several conditions, which must all give the same bytes.
    fn compare_conditions(&mut self, question: &Question, seeds: u64) -> Result<(), Stop> {
        // On other bases an honest kernel may add in another order, so that bytes are compared on equal ones.
        let weak = question.dims.values().sum::<i64>() % 2 == 1;
        let mut machine = self.machine();
        let first = self.ask(&mut machine, question, Conditions { weak, ..FIRST })?;
        for seed in 0..seeds {
            let mut machine = self.machine();
            machine.0.keep_leftovers();
            let conditions = Conditions {
                schedule: Schedule::Seeded(1 + 977 * seed),
                poison: 0x3c,
                weak,
            };
            let again = self.ask(&mut machine, question, conditions)?;
            if again != first {
                return Err(Stop::Wrong(format!(
                    "other bytes under another schedule or poison: {}",
                    question.words()
                )));
            }
        }
        Ok(())
    }

    /// Draws the inputs of a shape; none if the task's contract does not cover the law.
    fn question(&self, dims: &Dims, law: Law, seed: u64) -> Option<Arc<Question>> {
        if !covers(self.subject.name, law) {
            return None;
        }
        let known = || {
            let known = self.subject.questions.0.lock();
            known.expect("no thread panics with it")
        };
        let key = (dims.clone(), law, seed);
        if let Some(question) = known().get(&key) {
            return Some(Arc::clone(question));
        }
        let question = Arc::new(self.draw(dims, law, seed));
        if seed < NAMED_TURN as u64 {
            known().insert(key, Arc::clone(&question));
        }
        Some(question)
    }

    /// Draws the inputs of a shape and computes the answer.
    fn draw(&self, dims: &Dims, law: Law, seed: u64) -> Question {
        let mut draws = Draws::of_item(0x6f72_6163_6c65, seed);
        let inputs: Vec<_> = self
            .subject
            .task
            .tensors
            .iter()
            .filter(|tensor| tensor.role == Role::In)
            .collect();
        // Gain and shift are no factors: what only one input may have goes to the first.
        let factors = if self.subject.name == "gemm-f32" {
            2
        } else {
            1
        };
        let chosen = draws.below(factors);
        let inputs: Vec<Vec<f64>> = inputs
            .iter()
            .enumerate()
            .map(|(number, tensor)| {
                let elements = elements(&tensor.shape, dims);
                draw(
                    law,
                    element(tensor.dtype),
                    elements,
                    number == chosen,
                    &mut draws,
                )
            })
            .collect();
        Question {
            answer: answer(self.subject.name, dims, &inputs),
            dims: dims.clone(),
            law,
            inputs,
        }
    }

    /// Executes once and compares the output; returns its bytes.
    fn ask(
        &mut self,
        device: &mut (Machine, ModuleHandle),
        question: &Question,
        conditions: Conditions,
    ) -> Result<Vec<u8>, Stop> {
        let wrong = |what: String| Stop::Wrong(format!("{what}: {}", question.words()));
        let bytes = self
            .execute(device, question, conditions)
            .map_err(|stop| match stop {
                Stop::Wrong(what) => wrong(what),
                stop => stop,
            })?;
        let ratio = error_ratio(&self.output_element().decode(&bytes), &question.answer);
        if ratio > DOUBTLESS {
            return Err(wrong(format!("error {ratio:.1} times the bound")));
        }
        if ratio > self.worst {
            self.worst = ratio;
            self.largest = (ratio, question.words());
        }
        Ok(bytes)
    }

    fn output_element(&self) -> Element {
        let output = self
            .subject
            .task
            .tensors
            .iter()
            .find(|tensor| tensor.role == Role::Out);
        element(output.expect("a task has an output").dtype)
    }

    /// Makes one execution. Returns the bytes of the output.
    fn execute(
        &self,
        (machine, handle): &mut (Machine, ModuleHandle),
        question: &Question,
        conditions: Conditions,
    ) -> Result<Vec<u8>, Stop> {
        let task = &self.subject.task;
        let plan = match self
            .plan
            .resolve(task, &question.dims, &self.configuration, self.limits)
        {
            Ok(plan) => plan,
            Err(error) => return Err(Stop::Open(format!("its plan has no values: {error}"))),
        };
        let mut buffers = Buffers::default();
        let mut inputs = question.inputs.iter();
        for tensor in &task.tensors {
            let shift = if conditions.weak {
                tensor.align % LEAD
            } else {
                0
            };
            let kind = element(tensor.dtype);
            let mut bytes = Vec::new();
            if tensor.role == Role::In {
                for value in inputs.next().expect("every input was drawn") {
                    kind.encode(*value, &mut bytes);
                }
            } else {
                bytes =
                    vec![conditions.poison; elements(&tensor.shape, &question.dims) * kind.bytes()];
            }
            buffers.place(machine, &tensor.name, &bytes, shift);
        }
        for workspace in &plan.workspaces {
            let count = usize::try_from(workspace.elements).expect("small");
            let bytes = vec![conditions.poison; count * workspace.dtype.bytes() as usize];
            buffers.place(machine, &workspace.name, &bytes, 0);
        }
        let outcome = self.launch(machine, *handle, &plan.steps, &buffers, conditions);
        let result = match outcome {
            Ok(()) => buffers.output(machine, task, question),
            Err(stop) => Err(stop),
        };
        buffers.free(machine);
        result
    }

    /// Launches the steps of a plan. A launch that does not complete proves the kernel wrong.
    fn launch(
        &self,
        machine: &mut Machine,
        handle: ModuleHandle,
        steps: &[ResolvedStep],
        buffers: &Buffers,
        conditions: Conditions,
    ) -> Result<(), Stop> {
        for step in steps {
            let launch = match step {
                ResolvedStep::Memset { buffer, byte } => {
                    let placed = buffers.named(buffer).map_err(Stop::Open)?;
                    machine
                        .fill(placed.address, &[*byte], placed.bytes)
                        .expect("the buffer has this size");
                    continue;
                }
                ResolvedStep::Kernel(launch) => launch,
            };
            let kernel = self.module.kernel(&launch.kernel);
            let info = kernel.and_then(|kernel| self.module.info(kernel));
            let (Some(kernel), Some(info)) = (kernel, info) else {
                return Err(Stop::Open(format!("there is no kernel {}", launch.kernel)));
            };
            let mut params = vec![0; info.param_bytes as usize];
            for (param, argument) in info.params.iter().zip(&launch.arguments) {
                let bytes = match argument {
                    ResolvedArgument::Buffer(name) => buffers
                        .named(name)
                        .map_err(Stop::Open)?
                        .address
                        .to_le_bytes()
                        .to_vec(),
                    ResolvedArgument::I32(value) => value.to_le_bytes().to_vec(),
                    ResolvedArgument::I64(value) => value.to_le_bytes().to_vec(),
                    ResolvedArgument::F32(value) => value.to_le_bytes().to_vec(),
                    ResolvedArgument::F64(value) => value.to_le_bytes().to_vec(),
                };
                let offset = param.offset as usize;
                if param.bytes as usize != bytes.len() {
                    return Err(Stop::Open(
                        "an argument has another size than its parameter".to_owned(),
                    ));
                }
                params[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            if info.params.len() != launch.arguments.len() {
                return Err(Stop::Open(
                    "the plan gives another number of arguments".to_owned(),
                ));
            }
            let mut config = LaunchConfig::new(launch.grid, launch.block, &params);
            config.dynamic_shared = launch.shared_bytes;
            config.cooperative = launch.cooperative;
            config.schedule = conditions.schedule;
            config.checks = Checks::Off;
            config.budget = Some(BUDGET);
            match machine.launch(handle, kernel, &config) {
                Err(error) => return Err(Stop::Open(format!("failed to {error}"))),
                Ok(report) if report.outcome == Outcome::Completed => {}
                Ok(report) => {
                    return Err(Stop::Wrong(format!(
                        "{} ended with {:?}",
                        launch.kernel, report.outcome
                    )));
                }
            }
        }
        Ok(())
    }
}

impl Question {
    fn words(&self) -> String {
        let dims: Vec<String> = self
            .dims
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{} with {:?} values", dims.join(" "), self.law)
    }
}

/// One buffer on the device.
#[derive(Debug, Clone)]
struct Buffer {
    name: String,
    allocation: u64,
    address: u64,
    bytes: u64,
}

/// Buffers of one execution.
#[derive(Debug, Default)]
struct Buffers(Vec<Buffer>);

impl Buffers {
    fn place(&mut self, machine: &mut Machine, name: &str, content: &[u8], shift: u64) {
        let bytes = content.len() as u64;
        let allocation = machine
            .allocate(LEAD + shift + bytes)
            .expect("shapes are small");
        let address = allocation + LEAD + shift;
        machine.begin_at(address).expect("it is inside");
        machine.write(address, content).expect("it is inside");
        self.0.push(Buffer {
            name: name.to_owned(),
            allocation,
            address,
            bytes,
        });
    }

    fn named(&self, name: &str) -> Result<&Buffer, String> {
        let found = self.0.iter().find(|buffer| buffer.name == name);
        found.ok_or_else(|| format!("there is no buffer {name}"))
    }

    /// Reads the bytes of the output. A changed input proves the kernel wrong.
    fn output(&self, machine: &Machine, task: &Task, question: &Question) -> Result<Vec<u8>, Stop> {
        let mut output = Vec::new();
        let mut inputs = question.inputs.iter();
        for tensor in &task.tensors {
            let buffer = self.named(&tensor.name).map_err(Stop::Open)?;
            let mut found = vec![0; usize::try_from(buffer.bytes).expect("small")];
            machine
                .read(buffer.address, &mut found)
                .expect("it is inside");
            if tensor.role != Role::In {
                output = found;
                continue;
            }
            let mut expected = Vec::new();
            for value in inputs.next().expect("every input was drawn") {
                element(tensor.dtype).encode(*value, &mut expected);
            }
            // A NaN has one encoding here, since all of them were encoded alike.
            if found != expected {
                return Err(Stop::Wrong(format!("input {} changed", tensor.name)));
            }
        }
        Ok(output)
    }

    fn free(&self, machine: &mut Machine) {
        for buffer in &self.0 {
            machine.free(buffer.allocation).expect("it was allocated");
        }
    }
}

fn element(dtype: domain::dtype::Dtype) -> Element {
    use domain::dtype::Dtype;
    match dtype {
        Dtype::F32 => Element::F32,
        Dtype::I8 => Element::I8,
        Dtype::I32 => Element::I32,
        other => panic!("no task here has {other:?}"),
    }
}

fn elements(shape: &[domain::expr::Expr], dims: &Dims) -> usize {
    let extents = shape
        .iter()
        .map(|extent| extent.integer(dims).expect("an extent has a value"));
    extents
        .map(|extent| usize::try_from(extent).expect("extents are positive"))
        .product()
}

/// Sizes around which tiles and warps end.
const EDGES: [i64; 19] = [
    15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 511, 513,
];

/// The shapes of a task in the order in which they are executed: around what a mutant names, at edges, small ones
/// exhaustively, a few large ones, and each dim at its maximum and above half of it.
fn shapes(task: &Task, witnesses: &[i64]) -> Vec<Dims> {
    let names: Vec<&String> = task.free_dims.keys().collect();
    let fixed = task
        .cases
        .first()
        .map(|case| case.dims.clone())
        .unwrap_or_default();
    let mut found: Vec<Dims> = Vec::new();
    let mut add = |values: &[i64]| {
        let mut dims = fixed.clone();
        for (name, value) in names.iter().zip(values) {
            if !task.free_dims[*name].contains(*value) {
                return;
            }
            dims.insert((*name).clone(), *value);
        }
        if !found.contains(&dims) {
            found.push(dims);
        }
    };
    let count = names.len();
    for value in witnesses.iter().copied().chain(EDGES) {
        for at in 0..count {
            let mut values = vec![3; count];
            values[at] = value;
            add(&values);
            let mut values = vec![33; count];
            values[at] = value;
            add(&values);
        }
        if value <= 130 {
            add(&vec![value; count]);
        }
    }
    // Small shapes exhaustively: the dims count up like the digits of a number.
    let most: i64 = if count == 2 { 9 } else { 4 };
    for number in 0..most.pow(u32::try_from(count).expect("few dims")) {
        let mut rest = number;
        let values: Vec<i64> = (0..count)
            .map(|_| {
                let digit = rest % most;
                rest /= most;
                digit + 1
            })
            .collect();
        add(&values);
    }
    for at in 0..count {
        for value in [777, 1000, 1023, 1025, 2049] {
            let mut values = vec![2; count];
            values[at] = value;
            add(&values);
        }
        let most = task.free_dims[names[at]].most;
        for (value, others) in [(most, 2), (most - 1, 1), (most, 17), (most / 2 + 1, 17)] {
            let mut values = vec![others; count];
            values[at] = value;
            add(&values);
        }
        for value in 10..48 {
            let mut values = vec![5; count];
            values[at] = value;
            add(&values);
        }
    }
    found
}

/// The oracle's own check on a task's baseline: `Ok` if the reference agrees with it on every shape.
///
/// # Errors
/// The first observation that is wrong or in doubt, in words.
pub fn ensure_right(
    subject: &Subject,
    mutant: &Mutant,
    ptx: &str,
    limits: &DeviceLimits,
) -> Result<(), String> {
    match prove(subject, mutant, ptx, limits) {
        Proof::Right => Ok(()),
        Proof::Wrong(why) | Proof::Open(why) => Err(why),
    }
}
