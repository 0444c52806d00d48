//! The number of repeats and further draws of each stage.

use domain::evaluation::EvaluationStage;

/// The number of repeats on a device that proves nothing, and of further draws of the inputs of each
/// score case. A kernel that is wrong on one input in a hundred passes 64
/// draws in half of all cases and 512 in one of 170.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Executions on the same inputs, beside the first.
    pub repeats: u64,
    /// Draws beyond those that are timed.
    pub draws: usize,
}

impl Repetition {
    /// The repeats and draws of a stage.
    pub fn of(stage: EvaluationStage) -> Self {
        let (repeats, draws) = match stage {
            EvaluationStage::Baseline | EvaluationStage::Search => (20, 0),
            EvaluationStage::Confirmation => (250, 64),
            EvaluationStage::Champion => (1000, 512),
        };
        Self { repeats, draws }
    }
}
