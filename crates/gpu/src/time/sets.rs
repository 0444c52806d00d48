//! The sets of buffers of a case, which are used in rotation.

use std::collections::BTreeMap;

use domain::role::{TensorData, TimedCase};
use domain::statistics::{BufferSets, TimedKernel};
use domain::task::Role;
use domain::timing::CacheState;

use tensors::inputs;

use crate::execute::{Buffer, BufferSet, LoadedImage};
use crate::role_error::RoleError;
use crate::run::workspaces;

/// The sets of buffers of one case.
pub struct Sets {
    /// All of them.
    pub all: Vec<BufferSet>,
    /// Preparation of the cache before each batch.
    pub before: CachePreparation,
    /// Index of the set that is used next.
    pub next: usize,
}

/// Preparation of the cache before a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePreparation {
    /// None, because the sets together exceed the cache, so that no execution finds its own buffers in it.
    Nothing,
    /// It is overwritten.
    Flush,
    /// The batch's own buffers are read.
    Read,
}

impl Sets {
    /// Allocates the sets of a case on a device with a cache of `l2_bytes`, using at most `room` bytes. `loaded` may
    /// be any of the images on the device.
    pub fn allocate(
        case: &TimedCase,
        loaded: &LoadedImage<'_>,
        poison: u64,
        l2_bytes: u64,
        room: u64,
    ) -> Result<Self, RoleError> {
        let (bytes, batch) = (case.set_bytes(), case.batch);
        let draws = u32::try_from(case.draws.len()).unwrap_or(u32::MAX);
        if batch > draws {
            let reason = format!("{batch} executions are to be timed together on {draws} inputs");
            return Err(RoleError::Job(reason));
        }
        let plan = match case.cache {
            CacheState::Cold => BufferSets::plan(bytes, batch, draws, l2_bytes, room),
            CacheState::Warm => BufferSets::plan_warm(bytes, batch, draws, room),
        };
        let contents = case
            .draws
            .iter()
            .map(|tensors| tensors.iter().map(content).collect())
            .collect::<Vec<Vec<_>>>();
        let mut all = Vec::new();
        for set in 0..plan.count as usize {
            let draw = set % case.draws.len();
            let tensors = case.draws[draw].iter().zip(&contents[draw]);
            let buffers = tensors.map(|(tensor, content)| Buffer {
                name: tensor.name.clone(),
                bytes: tensor.elements() * tensor.dtype.bytes(),
                align: tensor.align,
                content: content.clone(),
                constant: tensor.role == Role::In,
            });
            let scratch: BTreeMap<TimedKernel, Vec<Buffer>> = case
                .plans
                .iter()
                .map(|(contender, plan)| (*contender, workspaces(plan).collect()))
                .collect();
            let placed = BufferSet::allocate(loaded, buffers.collect(), scratch, poison)
                .map_err(|error| error.into_role_error("make the buffers of a case"))?;
            all.push(placed);
        }
        Ok(Self {
            all,
            before: match (case.cache, plan.flush) {
                (CacheState::Warm, _) => CachePreparation::Read,
                (CacheState::Cold, true) => CachePreparation::Flush,
                (CacheState::Cold, false) => CachePreparation::Nothing,
            },
            next: 0,
        })
    }

    /// The buffers of a contender in these sets: addresses with their sizes in bytes.
    pub fn ranges(&self, contender: TimedKernel, chosen: &[usize]) -> Vec<(u64, u64)> {
        let buffers = chosen
            .iter()
            .flat_map(|set| self.all[*set].buffers(contender));
        buffers
            .map(|buffer| (buffer.address(), buffer.bytes()))
            .collect()
    }
}

/// The bytes of an input; none for an output.
fn content(tensor: &TensorData) -> Option<Vec<u8>> {
    (tensor.role != Role::Out).then(|| inputs::bytes(tensor))
}
