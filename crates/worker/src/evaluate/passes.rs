//! The inputs of each stage: pure functions from a task to lists of passes through the plan.
//!
//! Small cases meet every distribution. In a search, large cases meet the ordinary one only, because the
//! emulated device pays for each element; before a promotion, score cases of any size meet every
//! distribution, because a candidate can recognise the shapes that it is timed on. Everything is drawn from the request's key, so that an evaluation can be repeated.

mod promotion;
mod repetition;
mod targets;

use domain::digest::Digest;
use domain::problem::Problem;
use domain::role::{Alteration, Distribution, ExecutionPurpose, Key, Placement, TensorData};
use domain::seeds::SeedFamily;
use domain::task::{Case, CasePurpose, Role, Task, Tolerance};

pub use self::repetition::Repetition;
use self::targets::DrawTargets;

/// A case whose tensors have at most this many elements together is small: 2^17.
pub(super) const SMALL_ELEMENTS: u64 = 1 << 17;

/// One pass through the plan to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// The case.
    pub case: String,
    /// The seed family that its inputs are drawn from.
    pub family: SeedFamily,
    /// The distribution of the inputs.
    pub distribution: Distribution,
    /// The tensors with their contents.
    pub tensors: Vec<TensorData>,
    /// Seed of the poison in outputs and workspaces before the execution.
    pub poison: u64,
    /// The placement of buffers. Every small case and every edge is executed on bases as weakly aligned
    /// as the task allows and on those that allocators give, because a kernel may tell them apart.
    pub placement: Placement,
    /// Seed of the emulated device's schedule.
    pub schedule: Option<u64>,
    /// The purpose: a check, or a time that counts.
    pub purpose: ExecutionPurpose,
    /// The values that its outputs are compared with.
    pub comparison: ExpectedOutputs,
    /// True if blocks of ours run beside it, on a device that proves nothing.
    pub company: bool,
}

impl Pass {
    /// Returns true if its right answer is exact: inputs are small integers, and the function is linear
    /// in each of them.
    pub fn is_exact(&self, task: &Task) -> bool {
        self.distribution == Distribution::Integers
            && self
                .tensors
                .iter()
                .filter(|tensor| tensor.role != Role::Out)
                .all(|tensor| task.contract.linear_in.contains(&tensor.name))
    }

    /// The tolerance of its outputs. Only normal inputs are like those of the test whose limits a task may state.
    pub fn tolerance(&self, task: &Task) -> Tolerance {
        if self.distribution == Distribution::Normal {
            task.tolerance
        } else {
            task.tolerance.without_allclose()
        }
    }

    /// Returns true if an input holds large values among small ones.
    pub fn has_mixed_magnitudes(&self) -> bool {
        let mut inputs = self.tensors.iter();
        inputs.any(|tensor| tensor.distribution == Distribution::HeavyTail)
    }

    /// The ordinary execution on the same inputs, which a repeat is compared with.
    pub fn original(&self) -> Self {
        Self {
            poison: self.poison.wrapping_add(1),
            placement: Placement::Allocated,
            schedule: None,
            comparison: ExpectedOutputs::Reference,
            company: false,
            ..self.clone()
        }
    }

    /// The same pass with another placement of buffers.
    fn on(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// The identity of its inputs among those of the same evaluation.
    pub fn inputs(&self) -> Inputs {
        let key = self.tensors.first().map(|tensor| tensor.key.0);
        (
            self.case.clone(),
            self.distribution,
            key,
            self.changed_element(),
        )
    }

    /// Elements of all of its tensors.
    pub(super) fn elements(&self) -> u64 {
        let elements = self.tensors.iter().map(TensorData::elements);
        elements.fold(0, u64::saturating_add)
    }

    /// The input of which one element was changed, and that element's flat index.
    pub fn changed_element(&self) -> Option<(String, u64)> {
        self.tensors
            .iter()
            .find_map(|tensor| match tensor.alteration {
                Some(Alteration::ElementReplaced(at)) => Some((tensor.name.clone(), at)),
                _ => None,
            })
    }
}

/// The identity of a pass's inputs within an evaluation: case, distribution, key, and the
/// element that was changed.
pub type Inputs = (String, Distribution, Option<Digest>, Option<(String, u64)>);

/// The values that the outputs of a pass are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedOutputs {
    /// The reference.
    Reference,
    /// The first pass on the same inputs, byte by byte. Nothing else is the same or different.
    Itself,
    /// The first pass on the same inputs, byte by byte. This one runs under another schedule.
    Rescheduled,
    /// The first pass on the same inputs, byte by byte. This one finds the elements of `wmma`
    /// fragments in other lanes.
    Relaid,
    /// The first pass on the same inputs, byte by byte. This one finds other poison.
    Repoisoned,
}

/// The placement of a case that has been executed so often: weak bases and an allocator's in turn.
fn bases(met: usize) -> Placement {
    if met.is_multiple_of(2) {
        Placement::Ending
    } else {
        Placement::Allocated
    }
}

/// Makes the passes of one evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Passes<'a> {
    /// The task.
    pub task: &'a Task,
    /// The key from which those of the families are derived.
    pub key: Key,
    /// The family of all draws. Held-out cases belong to one family only.
    pub family: SeedFamily,
}

impl<'a> Passes<'a> {
    /// The cases that take part, in the task's order: those for checks and scores, held-out ones
    /// where asked for, and the edges that no task file lists.
    pub fn cases(&self) -> impl Iterator<Item = &'a Case> + use<'a> {
        let holdout = self.family == SeedFamily::Promotion;
        self.task.cases.iter().filter(move |case| {
            case.is_for(CasePurpose::Check)
                || case.is_for(CasePurpose::Score)
                || (holdout && case.is_for(CasePurpose::Holdout))
                || case.uses.is_empty()
                || case.is_for(CasePurpose::Drawn)
        })
    }

    /// The edges among the cases.
    fn edges(&self) -> impl Iterator<Item = &'a Case> + use<'a> {
        self.cases().filter(|case| case.uses.is_empty())
    }

    /// The small cases that the task lists; the smallest if none is. Smallest first.
    ///
    /// # Errors
    /// A [`Problem`] of the task: an extent without a value.
    pub fn small_cases(&self) -> Result<Vec<&'a Case>, Problem> {
        let mut sized = self
            .cases()
            .filter(|case| !case.uses.is_empty() && !case.is_for(CasePurpose::Drawn))
            .map(|case| Ok((elements(self.task, case)?, case)))
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

    /// The smoke stage: every small case and every edge once, with ordinary values.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn smoke(&self) -> Result<Vec<Pass>, Problem> {
        self.small_cases()?
            .into_iter()
            .chain(self.edges())
            .map(|case| self.pass(case, Distribution::Normal, 0))
            .collect()
    }

    /// The largest small case again with one element of one input changed, for each input whose
    /// part in some output the task declares: what does not depend on the element must not change.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn sensitivity_checks(&self) -> Result<Vec<Pass>, Problem> {
        self.sensitivity_checks_of(0)
    }

    /// The same with other elements for each round.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn sensitivity_checks_of(&self, round: u32) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let largest = small.last().expect("the smallest case counts as small");
        let original = self.ordinary(largest)?;
        let mut checks = Vec::new();
        for (number, tensor) in original.tensors.iter().enumerate() {
            if tensor.role == Role::Out || !self.is_declared(&tensor.name) {
                continue;
            }
            let drawn = match round {
                0 => self.seed(&["struck", &largest.name, &tensor.name]),
                _ => self.seed(&["struck", &largest.name, &tensor.name, &round.to_string()]),
            };
            let elements = tensor.elements();
            // Tails are where elements are forgotten.
            let at = match drawn % 4 {
                0 => elements - 1,
                1 => 0,
                _ => drawn / 4 % elements,
            };
            let mut check = original.clone();
            check.tensors[number].alteration = Some(Alteration::ElementReplaced(at));
            checks.push(check);
        }
        Ok(checks)
    }

    /// The small cases with every other distribution that applies to the task: all of them, or for
    /// each distribution the largest and one of the others in turn. Every edge meets one of them.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn screen(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let (largest, others) = small
            .split_last()
            .expect("a task has at least one case, and the smallest counts as small");
        let distributions = Distribution::beyond_normal()
            .filter(|distribution| self.applies(*distribution))
            .collect::<Vec<_>>();
        let mut passes = Vec::new();
        for (turn, case) in self.edges().enumerate() {
            let distribution = distributions[turn % distributions.len()];
            let pass = self.pass(case, distribution, turn)?;
            passes.push(pass.on(Placement::Ending));
        }
        for (turn, distribution) in distributions.into_iter().enumerate() {
            // Each case with how often it has been met here.
            let chosen = match extent {
                Extent::All => others.iter().map(|case| (*case, turn)).collect(),
                Extent::Sample if others.is_empty() => Vec::new(),
                Extent::Sample => vec![(others[turn % others.len()], turn / others.len())],
            };
            let all = chosen.into_iter().chain([(*largest, turn)]);
            for (draw, (case, met)) in all.enumerate() {
                let pass = self.pass(case, distribution, turn + draw)?;
                passes.push(pass.on(bases(met)));
            }
        }
        Ok(passes)
    }

    /// The passes of the pre-screen: those of smoke, the largest small case under another schedule, and
    /// those of screen, of each the smallest cases first, so that most is found soonest; then drawn shapes.
    /// Passes that find something only by comparing outputs are left out.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn prescreen(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let mut rescheduled = self.repeats(Extent::Sample)?;
        rescheduled.retain(|pass| pass.comparison == ExpectedOutputs::Rescheduled);
        let mut passes = Vec::new();
        for mut kind in [self.smoke()?, rescheduled, self.screen(extent)?] {
            kind.sort_by_key(Pass::elements);
            passes.extend(kind);
        }
        passes.extend(self.drawn()?);
        Ok(passes)
    }

    /// The passes of the gate: every small case and every edge with ordinary values and with one
    /// distribution each, which the key chooses; or all passes of smoke and screen again.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn gate(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let weakly = |pass: Pass| pass.on(Placement::Ending);
        let mut passes: Vec<Pass> = self.smoke()?.into_iter().map(weakly).collect();
        if extent == Extent::All {
            passes.extend(self.screen(extent)?);
            return Ok(passes);
        }
        let distributions = Distribution::beyond_normal()
            .filter(|distribution| self.applies(*distribution))
            .collect::<Vec<_>>();
        let first = usize::try_from(self.seed(&["gate"]) % distributions.len() as u64)
            .expect("there are few distributions");
        let cases = self.small_cases()?.into_iter().chain(self.edges());
        for (turn, case) in cases.enumerate() {
            let distribution = distributions[(first + turn) % distributions.len()];
            passes.push(self.pass(case, distribution, turn)?);
        }
        Ok(passes)
    }

    /// Returns true if the task declares which outputs depend on an input.
    fn is_declared(&self, input: &str) -> bool {
        let mut declared = self.task.contract.depends.values().flatten();
        declared.any(|dependence| dependence.input == input)
    }

    /// Returns true if a distribution provokes anything in this task.
    fn applies(&self, distribution: Distribution) -> bool {
        distribution.applies(self.task)
    }

    /// The small cases with ordinary values again: under another schedule, with the other layout of
    /// fragments, and over other poison on bases 128 bytes further. All cases, or only the largest.
    ///
    /// No repeat lies on weaker bases, because a kernel that loads as widely as a base allows may add in
    /// another order there. Executions on weak bases are compared with the reference.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn repeats(&self, extent: Extent) -> Result<Vec<Pass>, Problem> {
        let mut small = self.small_cases()?;
        if extent == Extent::Sample {
            small.drain(..small.len() - 1);
        }
        let originals = small
            .into_iter()
            .map(|case| self.ordinary(case))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(originals
            .into_iter()
            .flat_map(|original| {
                let rescheduled = Pass {
                    schedule: Some(self.seed(&["schedule", &original.case])),
                    comparison: ExpectedOutputs::Rescheduled,
                    ..original.clone()
                };
                let relaid = Pass {
                    comparison: ExpectedOutputs::Relaid,
                    ..original.clone()
                };
                let repoisoned = Pass {
                    placement: Placement::Shifted,
                    poison: self.seed(&["other poison", &original.case]),
                    comparison: ExpectedOutputs::Repoisoned,
                    company: true,
                    ..original
                };
                [rescheduled, relaid, repoisoned]
            })
            .collect())
    }

    /// The largest small case repeatedly, over other poison each time and on bases of each kind, with
    /// company and without, for a device that proves nothing and has no second schedule. Outputs on weak
    /// bases are compared with the reference, as in [`Self::repeats`].
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn determinism(&self, count: u64) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let largest = small.last().expect("the smallest case counts as small");
        let original = self.ordinary(largest)?;
        let kinds = [
            Placement::Ending,
            Placement::Allocated,
            Placement::Weakest,
            Placement::Shifted,
        ];
        let repeats = kinds.into_iter().cycle().zip(0..count);
        Ok(repeats
            .map(|(placement, number)| Pass {
                poison: self.seed(&["again", &number.to_string()]),
                placement,
                comparison: match placement {
                    Placement::Allocated | Placement::Shifted => ExpectedOutputs::Itself,
                    _ => ExpectedOutputs::Reference,
                },
                company: (number + number / kinds.len() as u64).is_multiple_of(2),
                ..original.clone()
            })
            .collect())
    }

    /// Each score case on `count` inputs that it is not timed on.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn untimed(&self, count: usize) -> Result<Vec<Pass>, Problem> {
        /// Beyond the numbers of timed draws.
        const FIRST: usize = 1000;
        let cases = self.cases().filter(|case| case.is_for(CasePurpose::Score));
        cases
            .flat_map(|case| (FIRST..FIRST + count).map(move |draw| (case, draw)))
            .map(|(case, draw)| {
                let pass = self.pass(case, Distribution::Normal, draw)?;
                Ok(pass.on(bases(draw)))
            })
            .collect()
    }

    /// The score cases for their time, each on one input, and what [`Self::score`] has besides.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn score_once(&self) -> Result<Vec<Pass>, Problem> {
        self.score(|_| Ok(1))
    }

    /// The score cases for their time, each on as many different inputs as `draws` says, and the cases
    /// that are too large for the earlier stages for their outputs.
    ///
    /// # Errors
    /// A [`Problem`] of the task.
    pub fn score(
        &self,
        draws: impl Fn(&Case) -> Result<u32, Problem>,
    ) -> Result<Vec<Pass>, Problem> {
        let small = self.small_cases()?;
        let mut passes = Vec::new();
        for case in self.cases() {
            if case.is_for(CasePurpose::Score) {
                for draw in 1..=draws(case)? as usize {
                    passes.push(Pass {
                        purpose: ExecutionPurpose::Score,
                        placement: Placement::Ending,
                        ..self.pass(case, Distribution::Normal, draw)?
                    });
                }
            } else if !case.uses.is_empty()
                && !case.is_for(CasePurpose::Drawn)
                && !small.iter().any(|other| other.name == case.name)
            {
                // Too large to be met twice: the key decides.
                let kind = bases(usize::from(self.seed(&["bases", &case.name]) % 2 == 1));
                passes.push(self.pass(case, Distribution::Normal, 0)?.on(kind));
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
        let targets = DrawTargets::new(self.task, draw);
        let tensors = self
            .task
            .tensors
            .iter()
            .map(|tensor| {
                Ok(TensorData {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    extents: self.task.extents(tensor, case)?,
                    role: tensor.role,
                    align: tensor.align,
                    distribution: targets.of(tensor, distribution),
                    key: self.derive(&identity, &tensor.name),
                    alteration: None,
                })
            })
            .collect::<Result<_, Problem>>()?;
        Ok(Pass {
            case: case.name.clone(),
            family: self.family,
            distribution,
            tensors,
            poison: self.seed(&["poison", identity[0], identity[1], identity[2]]),
            placement: Placement::Allocated,
            schedule: None,
            purpose: ExecutionPurpose::Check,
            comparison: ExpectedOutputs::Reference,
            company: false,
        })
    }

    fn derive(&self, identity: &[&str], purpose: &str) -> Key {
        let version = self.task.version.to_string();
        let parts = [&[version.as_str()], identity, &[purpose]].concat();
        self.secret().derive(&parts)
    }

    /// The key from which all draws of this family are derived.
    pub fn secret(&self) -> Key {
        self.family.key(self.key)
    }

    fn seed(&self, parts: &[&str]) -> u64 {
        let Key(digest) = self.derive(parts, "seed");
        first_word(&digest)
    }
}

/// Elements of all tensors of a case together.
///
/// # Errors
/// A [`Problem`] of the task: an extent without a value.
pub(super) fn elements(task: &Task, case: &Case) -> Result<u64, Problem> {
    let mut sum = 0_u64;
    for tensor in &task.tensors {
        let elements = task
            .extents(tensor, case)?
            .iter()
            .fold(1_u64, |product, &extent| product.saturating_mul(extent));
        sum = sum.saturating_add(elements);
    }
    Ok(sum)
}

/// The number of small cases that a stage executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every small case.
    All,
    /// Enough to catch common errors; a promotion executes the rest.
    Sample,
}

pub(super) fn first_word(digest: &Digest) -> u64 {
    let (word, _) = digest
        .bytes()
        .split_first_chunk::<8>()
        .expect("a digest has 32 bytes");
    u64::from_le_bytes(*word)
}
