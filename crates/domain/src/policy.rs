//! The policy of a task: the features that a candidate may use besides computing, and the review of
//! texts and images for them.
//!
//! The check of the text gives a quick answer before anything is compiled. The check of the image
//! decides, because macros and included code cannot hide anything from it. Neither protects the
//! machine: the confinement of the roles does.

mod image;
mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::task::ToleranceClass;

pub use image::{Review, review_image};
pub use text::find_violations;

/// Constant tables of at most this many bytes are allowed: a lookup table of a normal kernel is small,
/// a table of precomputed answers is not.
pub const TABLE_BYTES: u64 = 4096;

/// The features of an image besides computing, by the names that task files use.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Variables that outlive a launch and are written by a kernel.
    ModuleState,
    /// Variables that host and device share.
    ManagedMemory,
    /// Tables of more than [`TABLE_BYTES`] bytes in all.
    LargeTables,
    /// Printing from kernels.
    DeviceOutput,
    /// Allocating from kernels.
    DeviceHeap,
    /// Launching from kernels.
    DeviceLaunch,
    /// Other symbols that the driver would have to supply.
    ForeignSymbols,
    /// `assert`.
    Assertions,
    /// Kernels that the plan does not launch.
    SpareEntries,
    /// Reading clocks and performance counters.
    ClockReads,
    /// Reading where on the device a thread runs.
    PlacementReads,
    /// Telling caches what to keep or fetch.
    CacheHints,
    /// `nanosleep`.
    Sleep,
    /// Tensor cores.
    TensorOperations,
    /// Letting the next launch begin early.
    ProgrammaticLaunch,
    /// Stopping for a debugger or profiler.
    Breakpoints,
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::ModuleState,
        Self::ManagedMemory,
        Self::LargeTables,
        Self::DeviceOutput,
        Self::DeviceHeap,
        Self::DeviceLaunch,
        Self::ForeignSymbols,
        Self::Assertions,
        Self::SpareEntries,
        Self::ClockReads,
        Self::PlacementReads,
        Self::CacheHints,
        Self::Sleep,
        Self::TensorOperations,
        Self::ProgrammaticLaunch,
        Self::Breakpoints,
    ];

    /// The rule where a task says nothing.
    ///
    /// Features that can carry an answer from one execution to the next, or reach outside the device,
    /// are denied. Features that correct kernels use too are flagged: verified timed executions make
    /// them harmless, but a reader should know of them.
    pub fn usual_rule(self, class: ToleranceClass) -> Rule {
        match self {
            Self::ModuleState
            | Self::ManagedMemory
            | Self::LargeTables
            | Self::DeviceOutput
            | Self::DeviceHeap
            | Self::DeviceLaunch
            | Self::ForeignSymbols
            | Self::ProgrammaticLaunch
            | Self::Breakpoints => Rule::Deny,
            // Tensor cores round binary32 operands.
            Self::TensorOperations if class == ToleranceClass::F32 => Rule::Deny,
            Self::TensorOperations => Rule::Allow,
            Self::Assertions
            | Self::SpareEntries
            | Self::ClockReads
            | Self::PlacementReads
            | Self::CacheHints
            | Self::Sleep => Rule::Flag,
        }
    }
}

/// A task's rule for a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Not worth a word.
    Allow,
    /// Recorded beside the verdict.
    Flag,
    /// A verdict.
    Deny,
}

/// The rules of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    class: ToleranceClass,
    own: BTreeMap<Feature, Rule>,
}

impl Policy {
    /// The usual rules for a class of tolerance, except where the task has its own.
    pub fn new(class: ToleranceClass, own: BTreeMap<Feature, Rule>) -> Self {
        Self { class, own }
    }

    /// The rule on a feature.
    pub fn rule(&self, feature: Feature) -> Rule {
        let own = self.own.get(&feature).copied();
        own.unwrap_or_else(|| feature.usual_rule(self.class))
    }
}
