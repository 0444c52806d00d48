//! The rules by which kernels are changed.
//!
//! A rule of [`WRONG`] is meant to make a kernel wrong. It need not succeed: the oracle decides. A rule of [`HONEST`]
//! leaves a kernel's meaning alone. Names in templates that begin with `DRAWN_` stand for numbers and dims that
//! [`super::mutation`] draws.

mod honest;
mod wrong;

pub use honest::HONEST;
pub use wrong::WRONG;

/// The text that a rule is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// One match of the pattern in the CUDA code.
    Code,
    /// Every match of the pattern in the CUDA code.
    WholeCode,
    /// One match in the launch plan.
    Plan,
}

/// Kernels that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// All.
    Any,
    /// Tasks whose outputs are f32.
    Float,
    /// Tasks whose outputs are integers.
    Integer,
    /// Kernels whose blocks have one axis and a multiple of 64 threads.
    PairsOfWarps,
    /// Kernels whose blocks have one axis.
    OneAxis,
}

/// Changes of one class, as patterns with their templates.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Name of the class in the table of results.
    pub class: &'static str,
    /// The text that is changed.
    pub part: Part,
    /// Kernels to which the changes apply.
    pub only: Only,
    /// Text in front of the code, such as a header.
    pub prelude: &'static str,
    /// Pairs of a pattern and the template that replaces it.
    pub changes: &'static [(&'static str, &'static str)],
}

const fn code(
    class: &'static str,
    only: Only,
    changes: &'static [(&'static str, &'static str)],
) -> Rules {
    Rules {
        class,
        part: Part::Code,
        only,
        prelude: "",
        changes,
    }
}

const fn plan(class: &'static str, changes: &'static [(&'static str, &'static str)]) -> Rules {
    Rules {
        class,
        part: Part::Plan,
        only: Only::Any,
        prelude: "",
        changes,
    }
}
