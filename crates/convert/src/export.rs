//! A verified candidate as files that another program builds or loads: the compiled image with a
//! launcher that refuses the shapes and alignments that the verdict does not cover.
//!
//! Every form launches the image that was evaluated, and does not compile the source anew.

mod cpp;
mod dispatch;
mod expression;
mod jax;
mod launcher;
mod plan;
mod python;
mod solution;

use std::collections::BTreeMap;

use domain::candidate::KernelSource;
use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::expr::Expr;
use domain::plan::{Argument, Configuration, Number};
use domain::preconditions::Preconditions;
use domain::task::{Scalar, Task};

pub use dispatch::{Choice, write_dispatch};

/// Bytes to which each workspace is aligned.
const WORKSPACE_ALIGNMENT: u64 = 256;

/// A candidate to export, with the verdict that it has.
#[derive(Debug, Clone)]
pub struct Export<'a> {
    /// Prefix of every name and file: a C identifier.
    pub name: &'a str,
    /// The task.
    pub task: &'a Task,
    /// The candidate.
    pub source: &'a KernelSource,
    /// The values of its tunables.
    pub configuration: &'a Configuration,
    /// The shapes and alignments that the verdict covers.
    pub preconditions: &'a Preconditions,
    /// PTX of the evaluated compilation.
    pub ptx: &'a str,
    /// Machine code of the same compilation with its compute capability, such as 89.
    pub machine_code: Option<(u32, &'a [u8])>,
    /// Multiprocessors of the device that the verdict is from. Exports launch as many blocks as there, on
    /// every device.
    pub sm_count: u32,
    /// The verdict in one line, with device and kind of time.
    pub verdict: &'a str,
}

/// The files of an export by name.
pub type Files = BTreeMap<String, Vec<u8>>;

impl<'a> Export<'a> {
    /// Writes the candidate as a C++ library: header, source, image and `CMakeLists.txt`.
    pub fn write_cpp(&self) -> Files {
        let name = self.name;
        let files = [
            (format!("{name}.h"), launcher::header(self)),
            (format!("{name}.cpp"), launcher::source(self)),
            (format!("{name}_image.inc"), cpp::image(self)),
            (format!("{name}.cu"), self.device_source()),
            ("CMakeLists.txt".to_owned(), cpp::cmake(name)),
        ];
        let bytes = files.map(|(name, text)| (name, text.into_bytes()));
        Files::from(bytes)
    }

    /// Writes the candidate as an image with a plan in JSON, and loaders for Python and Rust.
    pub fn write_plan(&self) -> Files {
        let name = self.name;
        let texts = [
            (format!("{name}.json"), plan::write(self)),
            (
                format!("{name}.ptx"),
                self.ptx.trim_end_matches('\0').to_owned(),
            ),
            (format!("{name}.cu"), self.device_source()),
            (
                "load.py".to_owned(),
                include_str!("../loaders/load.py").to_owned(),
            ),
            (
                "load.rs".to_owned(),
                include_str!("../loaders/load.rs").to_owned(),
            ),
        ];
        let mut files = Files::from(texts.map(|(name, text)| (name, text.into_bytes())));
        if let Some((_, code)) = self.machine_code {
            files.insert(format!("{name}.cubin"), code.to_vec());
        }
        files
    }

    /// Writes the candidate as an operator of PyTorch: a Python module with the source of the library that it
    /// calls.
    pub fn write_torch(&self) -> Files {
        let name = self.name;
        let mut files = self.write_cpp();
        files.remove("CMakeLists.txt");
        files.insert(
            format!("{name}_c.cpp"),
            python::c_interface(self).into_bytes(),
        );
        files.insert(
            format!("{name}.py"),
            python::module(self, "kernelwright").into_bytes(),
        );
        files
    }

    /// Writes the candidate in the layout of Hugging Face's kernels: one build variant for every version of
    /// PyTorch, which compiles its library at the first call. The operator's namespace is unique, so that
    /// several versions can be loaded.
    pub fn write_hub(&self) -> Files {
        let name = self.name;
        let id = format!("_{name}_cuda_{}", Digest::of(self.ptx.as_bytes()).short());
        let mut files = self.write_torch();
        files.remove(&format!("{name}.py"));
        let module = python::module(self, &id);
        files.insert("__init__.py".to_owned(), module.into_bytes());
        files.insert(
            "metadata.json".to_owned(),
            python::metadata(self, &id).into_bytes(),
        );
        let placed = files.into_iter();
        placed
            .map(|(file, content)| (format!("build/torch-cuda/{file}"), content))
            .collect()
    }

    /// Writes the candidate as a Solution of FlashInfer-Bench for the Definition with the task's name.
    pub fn write_solution(&self) -> Files {
        let text = solution::write(self, &self.write_torch());
        Files::from([(format!("{}.json", self.name), text.into_bytes())])
    }

    /// Writes the candidate as a foreign function of JAX: a Python module with the source of its handler.
    pub fn write_jax(&self) -> Files {
        let name = self.name;
        let mut files = self.write_cpp();
        files.remove("CMakeLists.txt");
        files.insert(format!("{name}_ffi.cpp"), jax::handler(self).into_bytes());
        files.insert(format!("{name}.py"), jax::module(self).into_bytes());
        files
    }

    /// The source that the image was compiled from, for readers and for other architectures.
    fn device_source(&self) -> String {
        let verdict = one_line(self.verdict);
        let mut text = format!("// {verdict}\n// Proved for {}.\n", self.preconditions);
        for (name, value) in self.configuration {
            text.push_str(&format!("#define {name} {value}\n"));
        }
        text.push_str(self.source.body());
        text
    }

    /// The value of an integer name of the plan that is no dim.
    fn constant(&self, name: &str) -> Option<i64> {
        if name == "SM_COUNT" {
            return Some(i64::from(self.sm_count));
        }
        let constants = &self.source.plan().constants;
        let value = self
            .configuration
            .get(name)
            .or_else(|| constants.get(name))?;
        Some(*value)
    }

    fn is_dim(&self, name: &str) -> bool {
        self.task.fixed_dims.contains_key(name) || self.task.free_dims.contains_key(name)
    }

    /// The value that a launch passes for an argument of the plan.
    fn value(&self, argument: &'a Argument) -> Value<'a> {
        match argument {
            Argument::Dim { dim, dtype } => Value::Dim(dim, *dtype),
            Argument::Number(Number::Whole { value, dtype }) => Value::Whole(value, *dtype),
            Argument::Number(Number::Real { value, dtype }) => Value::Real(*value, *dtype),
            Argument::Named(name) if self.is_dim(name) => Value::Dim(name, Dtype::I32),
            Argument::Named(name) => {
                let mut scalars = self.task.scalars.iter();
                if let Some(scalar) = scalars.find(|scalar| scalar.name == *name) {
                    return Value::Scalar(scalar);
                }
                let constant = self.constant(name);
                match constant.filter(|_| !self.source.plan().workspaces.contains_key(name)) {
                    Some(value) => Value::Constant(value),
                    None => Value::Buffer(name),
                }
            }
        }
    }
}

/// The value of an argument, before the dims are known.
enum Value<'a> {
    Dim(&'a str, Dtype),
    Scalar(&'a Scalar),
    Whole(&'a Expr, Dtype),
    Real(f64, Dtype),
    Constant(i64),
    /// The address of a tensor or workspace.
    Buffer(&'a str),
}

/// Text without line breaks and backslashes, for a comment that ends with its line.
fn one_line(text: &str) -> String {
    let kept = text.split(|c: char| c.is_control() || c == '\\');
    kept.collect::<Vec<_>>().join(" ")
}
