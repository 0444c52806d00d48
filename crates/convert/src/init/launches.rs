//! The launch plan of a file: which kernels its host code launches, and what their arguments mean.

mod arguments;
mod choose;
mod host;
mod private_buffers;
mod steps;
mod template;

use std::collections::{BTreeMap, BTreeSet};

use domain::problem::Problems;

use super::Work;
use super::arithmetic::Arith;
use super::source::Source;
use choose::{choose_kernel, choose_launches};
use host::HostVariables;
pub(super) use template::tunable_of;

/// The launches of a file with the values that they depend on.
pub(super) struct FoundPlan {
    pub steps: Vec<FoundStep>,
    /// Dims in the order of their first use.
    pub dims: Vec<FoundDim>,
    pub scalars: Vec<FoundScalar>,
    /// Integer template parameters and their values.
    pub tunables: BTreeMap<String, i64>,
    /// Choices of tunables where they are stated.
    pub choices: BTreeMap<String, Vec<i64>>,
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
        source,
        host: HostVariables::read(source, host, &launches, &kernels),
        plan: FoundPlan {
            steps: Vec::new(),
            dims: Vec::new(),
            scalars: Vec::new(),
            tunables: BTreeMap::new(),
            choices: BTreeMap::new(),
            types: BTreeMap::new(),
            private: BTreeSet::new(),
        },
        dim_names: BTreeMap::new(),
        buffers: BTreeMap::new(),
    };
    for launch in &launches {
        let kernel = kernels
            .iter()
            .find(|kernel| kernel.name == launch.kernel)
            .expect("launches of other kernels were left out");
        finder.add_launch(work, launch, kernel)?;
    }
    if launches.is_empty() {
        let kernel = choose_kernel(work, &kernels)?;
        finder.add_unlaunched(work, kernel)?;
    }
    if let Some(host) = host.filter(|_| finder.plan.steps.len() > 1) {
        finder.find_private_buffers(work, host);
    }
    Ok(finder.plan)
}

/// The plan as far as it is found, and the names that it gives to variables of the host.
struct Finder<'s, 't> {
    source: &'s Source<'t>,
    host: HostVariables<'s, 't>,
    plan: FoundPlan,
    /// Dim by the name of the host's variable.
    dim_names: BTreeMap<String, String>,
    /// Buffer by the name of the host's variable.
    buffers: BTreeMap<String, String>,
}
