//! Which inputs a candidate meets, stage by stage: pure functions from a task to lists of passes
//! through the plan.
//!
//! Small cases meet every distribution, large ones only the ordinary one, since what a
//! distribution provokes shows on small shapes as well and the emulated device pays for each
//! element. Everything is drawn from the request's key, so that an evaluation can be repeated.

use domain::digest::Digest;
use domain::problem::Problem;
use domain::role::{Distribution, ExecutionPurpose, Key, TensorData};
use domain::task::{Case, Role, Task, Use, Values};

/// A case whose tensors have at most this many elements together is small: 2^17.
const SMALL_ELEMENTS: u64 = 1 << 17;
/// The distributions beyond the ordinary one.
const EXTRAORDINARY: [Distribution; 10] = [
    Distribution::Uniform,
    Distribution::Positive,
    Distribution::Integers,
    Distribution::Large,
    Distribution::Tiny,
    Distribution::HeavyTail,
    Distribution::Ties,
    Distribution::IndexCoded,
    Distribution::Small,
    Distribution::Impulse,
];

/// One pass through the plan to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// The case.
    pub case: String,
    /// What the inputs are like.
    pub distribution: Distribution,
    /// The tensors with their content.
    pub tensors: Vec<TensorData>,
    /// Seed of what outputs and workspaces hold before.
    pub poison: u64,
    /// Seed of the emulated device's schedule.
    pub schedule: Option<u64>,
    /// Whether its time counts.
    pub purpose: ExecutionPurpose,
    /// What its outputs are compared with.
    pub comparison: Against,
}

impl Pass {
    /// Whether its right answer is exact: small integers in, and a function that is linear in each
    /// of its inputs.
    pub fn is_exact(&self, task: &Task) -> bool {
        self.distribution == Distribution::Integers
            && self
                .tensors
                .iter()
                .filter(|tensor| tensor.role != Role::Out)
                .all(|tensor| task.contract.linear_in.contains(&tensor.name))
    }

    /// What tells its inputs from those of other passes of the same evaluation.
    pub fn inputs(&self) -> (String, Distribution, Option<Digest>) {
        let key = self.tensors.first().map(|tensor| tensor.key.0);
        (self.case.clone(), self.distribution, key)
    }
}

/// What the outputs of a pass are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// The reference.
    Reference,
    /// The first pass on the same inputs, byte by byte. This one runs under another schedule.
    Rescheduled,
    /// The first pass on the same inputs, byte by byte. This one finds other poison.
    Repoisoned,
}

/// Makes the passes of one evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Passes<'a> {
    /// The task.
    pub task: &'a Task,
    /// The root of all inputs.
    pub key: Key,
    /// Whether held-out cases take part.
    pub holdout: bool,
}

impl<'a> Passes<'a> {
    /// The cases that take part, in the task's order.
    pub fn cases(&self) -> impl Iterator<Item = &'a Case> + use<'a> {
        let holdout = self.holdout;
        self.task.cases.iter().filter(move |case| {
            case.is_for(Use::Check)
                || case.is_for(Use::Score)
                || (holdout && case.is_for(Use::Holdout))
        })
    }

    /// The small cases; the smallest if none is. Smallest first.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub fn small_cases(&self) -> Result<Vec<&'a Case>, Problem> {
        let mut sized = self
            .cases()
            .map(|case| Ok((self.elements(case)?, case)))
            .collect::<Result<Vec<_>, Problem>>()?;
        sized.sort_by_key(|(elements, _)| *elements);
        let small = sized
            .iter()
            .filter(|(elements, _)| *elements <= SMALL_ELEMENTS)
            .count()
            .max(1);
        Ok(sized
            .into_iter()
            .take(small)
            .map(|(_, case)| case)
            .collect())
    }

    /// A pass with ordinary values.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn ordinary(&self, case: &Case) -> Result<Pass, Problem> {
        self.pass(case, Distribution::Normal, 0)
    }

    /// The first look: every small case once, with ordinary values.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn smoke(&self) -> Result<Vec<Pass>, Problem> {
        self.small_cases()?
            .into_iter()
            .map(|case| self.pass(case, Distribution::Normal, 0))
            .collect()
    }

    /// The small cases with every other distribution: all of them, or for each distribution the
    /// largest and one of the others in turn.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn screen(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let (largest, others) = small
            .split_last()
            .expect("a task has at least one case, and the smallest counts as small");
        let mut passes = Vec::new();
        for (turn, distribution) in EXTRAORDINARY.into_iter().enumerate() {
            let chosen = match extent {
                Extent::All => others.to_vec(),
                Extent::Sample if others.is_empty() => Vec::new(),
                Extent::Sample => vec![others[turn % others.len()]],
            };
            for (draw, case) in chosen.into_iter().chain([*largest]).enumerate() {
                passes.push(self.pass(case, distribution, turn + draw)?);
            }
        }
        Ok(passes)
    }

    /// The passes of the smoke stage again, under another schedule and over other poison: all of
    /// them, or only that of the largest case.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn repeats(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let mut originals = self.smoke()?;
        if extent == Extent::Sample {
            originals.drain(..originals.len() - 1);
        }
        Ok(originals
            .into_iter()
            .flat_map(|original| {
                let rescheduled = Pass {
                    schedule: Some(self.seed(&["schedule", &original.case])),
                    comparison: Against::Rescheduled,
                    ..original.clone()
                };
                let repoisoned = Pass {
                    poison: self.seed(&["other poison", &original.case]),
                    comparison: Against::Repoisoned,
                    ..original
                };
                [rescheduled, repoisoned]
            })
            .collect())
    }

    /// The score cases for their time, each on `draws` different inputs, and the cases that are
    /// too large for the earlier stages for their outputs.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn score(&self, draws: usize) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let mut passes = Vec::new();
        for case in self.cases() {
            if case.is_for(Use::Score) {
                for draw in 1..=draws {
                    passes.push(Pass {
                        purpose: ExecutionPurpose::Score,
                        ..self.pass(case, Distribution::Normal, draw)?
                    });
                }
            } else if !small.iter().any(|other| other.name == case.name) {
                passes.push(self.pass(case, Distribution::Normal, 0)?);
            }
        }
        Ok(passes)
    }

    /// One pass on inputs of its own; `draw` tells apart those of one case and distribution.
    fn pass(&self, case: &Case, distribution: Distribution, draw: usize) -> Result<Pass, Problem> {
        let draw_name = draw.to_string();
        let identity = [
            case.name.as_str(),
            distribution.as_str(),
            draw_name.as_str(),
        ];
        let sensitive = self
            .task
            .tensors
            .iter()
            .filter(|tensor| tensor.role != Role::Out && !self.is_linear(&tensor.name))
            .map(|tensor| tensor.name.as_str())
            .collect::<Vec<_>>();
        let chosen = sensitive.get(draw % sensitive.len().max(1)).copied();
        let linear = &self.task.contract.linear_in;
        let struck = linear.get(draw % linear.len().max(1));
        let tensors = self
            .task
            .tensors
            .iter()
            .map(|tensor| {
                let ordinary = match tensor.values {
                    Values::Normal => Distribution::Normal,
                    Values::Uniform => Distribution::Uniform,
                };
                let provoking =
                    matches!(distribution, Distribution::Large | Distribution::HeavyTail);
                let spared = provoking
                    && !self.is_linear(&tensor.name)
                    && chosen != Some(tensor.name.as_str())
                    || distribution == Distribution::Impulse && struck != Some(&tensor.name);
                Ok(TensorData {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    extents: self.task.extents(tensor, case)?,
                    role: tensor.role,
                    align: tensor.align,
                    distribution: if spared || distribution == Distribution::Normal {
                        ordinary
                    } else {
                        distribution
                    },
                    key: self.derive(&identity, &tensor.name),
                })
            })
            .collect::<Result<_, Problem>>()?;
        Ok(Pass {
            case: case.name.clone(),
            distribution,
            tensors,
            poison: self.seed(&["poison", identity[0], identity[1], identity[2]]),
            schedule: None,
            purpose: ExecutionPurpose::Check,
            comparison: Against::Reference,
        })
    }

    /// A single element among zeros in an input of a non-linear function makes all terms of a sum
    /// equal, and rounding errors of equal terms add up instead of cancelling: honest kernels would
    /// fail. In a linear input, what is zero stays zero.
    ///
    /// Large values in several factors of a non-linear function at once make scores so large that
    /// the accumulator's own rounding decides a softmax: honest kernels would fail. In one such
    /// factor at a time, and in inputs the function is linear in, the forward-error bound holds.
    fn is_linear(&self, tensor: &str) -> bool {
        self.task
            .contract
            .linear_in
            .iter()
            .any(|linear| linear == tensor)
    }

    fn elements(&self, case: &Case) -> Result<u64, Problem> {
        let mut sum = 0_u64;
        for tensor in &self.task.tensors {
            let elements = self
                .task
                .extents(tensor, case)?
                .iter()
                .fold(1_u64, |product, &extent| product.saturating_mul(extent));
            sum = sum.saturating_add(elements);
        }
        Ok(sum)
    }

    fn derive(&self, identity: &[&str], purpose: &str) -> Key {
        let version = self.task.version.to_string();
        let parts = [&[version.as_str()], identity, &[purpose]].concat();
        self.key.derive(&parts)
    }

    fn seed(&self, parts: &[&str]) -> u64 {
        let Key(digest) = self.derive(parts, "seed");
        first_word(&digest)
    }
}

/// How much of what could be asked is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every small case.
    All,
    /// Enough to catch what is wrong often: the search asks the rest before a promotion.
    Sample,
}

fn first_word(digest: &Digest) -> u64 {
    let (word, _) = digest
        .bytes()
        .split_first_chunk::<8>()
        .expect("a digest has 32 bytes");
    u64::from_le_bytes(*word)
}
