//! The real evaluator's result for every kernel of the simulated author, recorded in a file.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use domain::verdict::VerdictKind;
use serde::{Deserialize, Serialize};

use super::libraries::Choices;

/// Result of one kernel without a defect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The verdict.
    pub verdict: VerdictKind,
    /// Modelled time, geometric mean over the score cases, microseconds; if accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub us: Option<f64>,
    /// The term of the time model that takes most of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
}

/// Results of kernels by their choices.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Landscape {
    /// Name of the task.
    pub task: String,
    /// Version of the evaluator that recorded them.
    pub evaluator_version: u32,
    /// The task's version.
    pub task_version: String,
    /// The device.
    pub device: String,
    /// Modelled time of the task's baseline, microseconds.
    pub baseline_us: f64,
    /// The part of that time that the floor takes, geometric mean over the score cases.
    #[serde(default)]
    pub baseline_floor_share: Option<f64>,
    /// The results.
    pub kernels: BTreeMap<Choices, Outcome>,
}

impl Landscape {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read or is no landscape.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))
    }

    /// Writes a file with one line for each kernel.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let head = Self {
            kernels: BTreeMap::new(),
            ..self.clone()
        };
        let lines: Vec<String> = self
            .kernels
            .iter()
            .map(|(choices, found)| {
                Ok(format!(
                    "    \"{choices}\": {}",
                    serde_json::to_string(found)?
                ))
            })
            .collect::<Result<_>>()?;
        let kernels = format!("\"kernels\": {{\n{}\n  }}", lines.join(",\n"));
        let text = serde_json::to_string_pretty(&head)?.replace("\"kernels\": {}", &kernels);
        std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))
    }

    /// Speedup of an accepted kernel over the baseline.
    #[must_use]
    pub fn speedup(&self, choices: &Choices) -> Option<f64> {
        let us = self.kernels.get(choices)?.us?;
        Some(self.baseline_us / us)
    }

    /// The highest speedup.
    #[must_use]
    pub fn optimum(&self) -> f64 {
        let all = self.kernels.keys().filter_map(|one| self.speedup(one));
        all.fold(1.0, f64::max)
    }
}
