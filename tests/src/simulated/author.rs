//! The decisions of the simulated author: which choices to change, and which defects to make.

use anyhow::{Context as _, Result};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

use super::libraries::{AXES, Choices, Defect, Library};

/// The parameters, as in `parameters.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the file documents each parameter")]
pub struct Parameters {
    pub two_changes: f64,
    pub compile_error: f64,
    pub race: f64,
    pub wrong_result: f64,
    pub repaired_with_line: f64,
    pub repaired_without_line: f64,
    pub follows_bottleneck: f64,
    pub follows_insight: f64,
    pub avoids_tried: f64,
    pub task_tokens: u64,
    pub kernel_tokens: u64,
    pub line_tokens: u64,
    pub reply_tokens: u64,
    pub input_price: f64,
    pub output_price: f64,
}

impl Parameters {
    /// Cost of so many tokens read and written, US dollars.
    #[must_use]
    pub fn dollars(&self, read: u64, written: u64) -> f64 {
        (read as f64 * self.input_price + written as f64 * self.output_price) / 1e6
    }
}

/// The author of kernels for one task.
#[derive(Debug, Clone)]
pub struct Author {
    /// The kernels that it can write.
    pub library: &'static Library,
    /// How often it does what.
    pub parameters: Parameters,
}

impl Author {
    /// The author for a task, with the parameters of `parameters.toml`, which is part of the program.
    ///
    /// # Errors
    /// If there is no library for the task, or the file does not parse.
    pub fn of(task: &str) -> Result<Self> {
        let text = include_str!("parameters.toml");
        let parameters = toml::from_str(text);
        Ok(Self {
            library: Library::of(task)?,
            parameters: parameters.context("read the parameters of the simulated author")?,
        })
    }
}

/// The task of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A faster kernel than the first of those shown.
    Improve,
    /// A kernel that merges the first two.
    Merge,
    /// A kernel that differs much from the first.
    Differ,
    /// A kernel unlike the first two.
    Explore,
    /// Other parameters of the first.
    Retune,
    /// The first one without its defect.
    Repair(Defect),
}

/// The parts of a prompt that the author uses.
#[derive(Debug, Clone, PartialEq)]
pub struct Situation {
    /// The task.
    pub step: Step,
    /// The kernels with code, the one to start from first.
    pub kernels: Vec<Choices>,
    /// The term of the time model that bounds the first kernel, if the prompt names it.
    pub bottleneck: Option<String>,
    /// Kernels named as tried.
    pub tried: Vec<Choices>,
    /// Kernels whose thoughts are shown with their speedups.
    pub insights: Vec<(Choices, f64)>,
    /// True if the prompt of a repair names the line of the defect.
    pub names_line: bool,
}

/// A kernel that the author wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Its choices.
    pub choices: Choices,
    /// Its defect, if it has one.
    pub defect: Option<Defect>,
}

/// The kernel that the author writes in a situation.
#[must_use]
pub fn write(author: &Author, situation: &Situation, rng: &mut ChaCha8Rng) -> Written {
    let Author {
        library,
        parameters,
    } = author;
    let start = situation
        .kernels
        .first()
        .copied()
        .unwrap_or(library.baseline);
    if let Step::Repair(defect) = situation.step {
        let mended = if situation.names_line {
            parameters.repaired_with_line
        } else {
            parameters.repaired_without_line
        };
        return Written {
            choices: start,
            defect: Some(defect).filter(|_| !rng.random_bool(mended)),
        };
    }
    let mut choices = changed(author, situation, start, rng);
    // A few tries; a model that sees no other way repeats itself.
    for _ in 0..3 {
        if !situation.tried.contains(&choices) || !rng.random_bool(parameters.avoids_tried) {
            break;
        }
        choices = changed(author, situation, start, rng);
    }
    let changes = choices.distance(&start).max(1);
    let drawn = |probability: f64, rng: &mut ChaCha8Rng| {
        let escaped = (0..changes).all(|_| !rng.random_bool(probability));
        !escaped
    };
    let defect = if drawn(parameters.compile_error, rng) {
        Some(Defect::Compile)
    } else if drawn(parameters.race, rng) {
        Some(Defect::Race)
    } else if drawn(parameters.wrong_result, rng) {
        Some(Defect::Wrong)
    } else {
        None
    };
    Written { choices, defect }
}

fn changed(
    author: &Author,
    situation: &Situation,
    start: Choices,
    rng: &mut ChaCha8Rng,
) -> Choices {
    let Author {
        library,
        parameters,
    } = author;
    let second = situation.kernels.get(1).copied().unwrap_or(start);
    let mut choices = start;
    let changes = 1 + usize::from(rng.random_bool(parameters.two_changes));
    match situation.step {
        Step::Merge => {
            for axis in 0..AXES {
                if rng.random_bool(0.5) {
                    choices.0[axis] = second.0[axis];
                }
            }
            if choices == start || choices == second {
                redraw(library, &mut choices, axis(author, situation, rng), rng);
            }
        }
        Step::Explore => {
            for axis in 0..AXES {
                if choices.0[axis] == second.0[axis] || rng.random_bool(0.5) {
                    redraw(library, &mut choices, axis, rng);
                }
            }
        }
        Step::Retune => redraw(library, &mut choices, library.parameter, rng),
        Step::Improve | Step::Differ | Step::Repair(_) => {
            let more = usize::from(situation.step == Step::Differ);
            for _ in 0..changes + more {
                let axis = axis(author, situation, rng);
                redraw(library, &mut choices, axis, rng);
            }
        }
    }
    let best = situation
        .insights
        .iter()
        .max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((kernel, _)) = best
        && rng.random_bool(parameters.follows_insight)
    {
        let axis = rng.random_range(0..AXES);
        choices.0[axis] = kernel.0[axis];
    }
    library.effective(choices)
}

/// Draws the choice to change: one that the bottleneck depends on, or any.
fn axis(author: &Author, situation: &Situation, rng: &mut ChaCha8Rng) -> usize {
    let Author {
        library,
        parameters,
    } = author;
    let bottleneck = situation.bottleneck.as_deref();
    let relevant = bottleneck.map_or(&[][..], library.relevant);
    if !relevant.is_empty() && rng.random_bool(parameters.follows_bottleneck) {
        relevant[rng.random_range(0..relevant.len())]
    } else {
        rng.random_range(0..AXES)
    }
}

fn redraw(library: &Library, choices: &mut Choices, axis: usize, rng: &mut ChaCha8Rng) {
    let values = library.values[axis];
    let others = values - 1;
    let step = 1 + rng.random_range(0..others);
    choices.0[axis] = (choices.0[axis] + step) % values;
}
