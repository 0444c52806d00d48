//! Files with the outputs of timed executions whose values are compared, because their bytes may differ.

use std::collections::{BTreeMap, BTreeSet};

use domain::digest::Digest;
use domain::role::{KeptExecution, OrderDependentOutputs};
use domain::statistics::TimedKernel;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::sample::OutputBytes;
use crate::role_error::RoleError;
use crate::run;

/// Writes outputs to files: all that differ, up to a number for each case and kernel, and a random sample of them
/// beyond that, in which all have the same chance.
pub(super) struct OutputKeeper<'a> {
    job: &'a OrderDependentOutputs,
    generator: ChaCha8Rng,
    seen: BTreeSet<(KeptExecution, Digest)>,
    samples: BTreeMap<(usize, TimedKernel), KeptSample>,
}

/// The sample of one case and kernel.
#[derive(Default)]
struct KeptSample {
    /// Executions with different outputs so far.
    offered: u64,
    /// Indices of those that are kept.
    kept: Vec<usize>,
}

impl<'a> OutputKeeper<'a> {
    /// `seed` decides which executions are kept if there are too many.
    pub fn new(job: &'a OrderDependentOutputs, seed: u64) -> Self {
        Self {
            job,
            generator: ChaCha8Rng::seed_from_u64(seed),
            seen: BTreeSet::new(),
            samples: BTreeMap::new(),
        }
    }

    /// Writes the outputs of an execution, unless another one on the same inputs had the same or the sample is without
    /// it. `list` gets the execution, or has it in the place of another one.
    pub fn keep(
        &mut self,
        execution: KeptExecution,
        outputs: &OutputBytes,
        list: &mut Vec<KeptExecution>,
    ) -> Result<(), RoleError> {
        let parts = outputs.iter();
        let parts = parts.flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]);
        if !self.seen.insert((execution, Digest::of_parts(parts))) {
            return Ok(());
        }
        let sample = self
            .samples
            .entry((execution.case, execution.contender))
            .or_default();
        sample.offered += 1;
        let index = if sample.kept.len() < self.job.executions {
            sample.kept.push(list.len());
            list.push(execution);
            list.len() - 1
        } else {
            let place = self.generator.next_u64() % sample.offered;
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            let Some(index) = sample.kept.get(place) else {
                return Ok(());
            };
            list[*index] = execution;
            *index
        };
        let folder = self.job.folder.join(index.to_string());
        for (name, bytes) in outputs {
            run::save(&folder, name, bytes)?;
        }
        Ok(())
    }
}
