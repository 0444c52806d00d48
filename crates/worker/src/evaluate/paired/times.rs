//! The times of a comparison for reports: of the scored states of the cache, and of the one that is
//! not scored. Nothing is decided here.

use domain::device::DeviceKind;
use domain::role::TimedCase;
use domain::statistics::{self, Block, PlannedBlock, Round};
use domain::timing::{MeasuredTime, ModelledTime, Timing};

use super::{PairedComparison, TimedRounds, count, max_batch};

/// The number of rounds in the unscored state of the cache. They follow the last interim analysis,
/// in the first process of a comparison. Each kernel gets twice as many times as there are rounds.
const ROUNDS: usize = 4;

impl PairedComparison<'_> {
    /// Chooses the batches of the unscored state: those of the same case in a scored state, as far
    /// as its buffers fit.
    pub(super) fn choose_unscored_batches(&mut self) {
        let l2_bytes = self.roles.host.device().l2_bytes;
        for (name, case) in &mut self.unscored {
            let scored = self.cases.iter().find(|(scored, _)| scored == name);
            let batch = scored.map_or(1, |(_, scored)| scored.batch);
            case.batch = batch.min(max_batch(case, l2_bytes));
        }
    }

    /// Plans the rounds in the unscored state, with the case numbers that jobs use.
    pub(super) fn plan_unscored_rounds(&self, key: domain::role::Key) -> Vec<Vec<PlannedBlock>> {
        if self.unscored.is_empty() {
            return Vec::new();
        }
        let mut rounds =
            statistics::plan_rounds(key.derive(&["beside"]), ROUNDS, self.unscored.len());
        for block in rounds.iter_mut().flatten() {
            block.case += self.cases.len();
        }
        rounds
    }

    /// Returns true if a round belongs to the unscored state.
    pub(super) fn is_unscored(&self, round: &Round) -> bool {
        let mut blocks = round.blocks.iter();
        blocks.any(|block| block.case >= self.cases.len())
    }

    /// A case by its number in jobs.
    pub(super) fn case_by_number(&self, number: usize) -> Option<&(String, TimedCase)> {
        self.cases.iter().chain(&self.unscored).nth(number)
    }

    /// The name of a case in messages.
    pub(super) fn case_name(&self, number: usize) -> String {
        let entry = self.case_by_number(number);
        entry.map_or_else(String::new, |(name, case)| case.cache.name_of(name))
    }

    /// The times of one kernel; `times` selects its two times of a block.
    pub(super) fn timing(&self, taken: &TimedRounds, times: impl Fn(&Block) -> [f64; 2]) -> Timing {
        let measured = |rounds: &[Round], first: usize, cases: &[(String, TimedCase)]| {
            let entries = cases.iter().enumerate();
            let times = entries.map(|(number, (name, case))| {
                let blocks = rounds.iter().flat_map(|round| &round.blocks);
                let own = blocks.filter(|block| block.case == first + number);
                let samples = own.flat_map(&times).filter(|us| us.is_finite());
                let samples = samples.collect::<Vec<_>>();
                let quantile = |share| statistics::quantile(&samples, share).unwrap_or(f64::NAN);
                MeasuredTime {
                    case: name.clone(),
                    cache: case.cache,
                    median_us: quantile(0.5),
                    quartiles_us: [quantile(0.25), quantile(0.75)],
                    samples: count(samples.len()),
                }
            });
            times.collect::<Vec<_>>()
        };
        let cases = measured(&taken.rounds, 0, &self.cases);
        let mut unscored = measured(&taken.unscored, self.cases.len(), &self.unscored);
        // Cases that were not reached within the time limit are left out.
        unscored.retain(|time| time.samples > 0);
        let device = self.roles.host.device();
        match device.kind {
            DeviceKind::Nvidia => Timing::Measured { cases, unscored },
            DeviceKind::Emulated => Timing::Modelled {
                device: device.name.clone(),
                label: taken
                    .label
                    .clone()
                    .unwrap_or_else(|| "unlabelled".to_owned()),
                cases: cases.into_iter().map(modelled).collect(),
                unscored: unscored.into_iter().map(modelled).collect(),
            },
        }
    }
}

/// On the emulated device event times come from the time model.
fn modelled(time: MeasuredTime) -> ModelledTime {
    ModelledTime {
        case: time.case,
        cache: time.cache,
        us: time.median_us,
        launches: Vec::new(),
    }
}
