//! The estimate of what a run will take, from earlier runs of the same kind.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{RunRequest, RunView};

/// The most past runs that an estimate rests on, the newest ones.
const MAX_PAST_RUNS: usize = 20;

/// An estimate of what a run will take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunEstimate {
    /// Finished runs of this task by this method and with these models, on which the estimate rests. Where
    /// it is 0 nothing is estimated.
    pub past_runs: u32,
    /// Trials that the estimate is for: those of the budget.
    pub trials: u32,
    /// Calls of models.
    pub calls: Option<Estimated>,
    /// Tokens read and written.
    pub tokens: Option<Estimated>,
    /// Dollars; none where a call had no price.
    pub dollars: Option<Estimated>,
    /// Minutes of running.
    pub minutes: Option<Estimated>,
    /// Seconds of a device.
    pub device_seconds: Option<Estimated>,
}

/// The quartiles of a quantity over past runs, each scaled to the trials of the new one. They do not
/// bound what the run takes: its budget does.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Estimated {
    /// The lower quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile.
    pub high: f64,
}

impl RunEstimate {
    /// Estimates a run from those of the past that are like it: ended, of the same task and method,
    /// and with the same models. `past` begins with the newest.
    pub fn of(request: &RunRequest, past: &[RunView]) -> Self {
        let names = |models: &[crate::search::ModelChoice]| {
            models
                .iter()
                .map(|choice| choice.name.clone())
                .collect::<BTreeSet<_>>()
        };
        let wanted = names(&request.models);
        let like = past
            .iter()
            .filter(|run| run.task == request.task && run.method == request.method)
            .filter(|run| run.state.is_over() && run.trials > 0 && names(&run.models) == wanted)
            .take(MAX_PAST_RUNS)
            .collect::<Vec<_>>();
        let trials = request.budget.trials;
        let scaled = |quantity: &dyn Fn(&RunView) -> Option<f64>| {
            let scale =
                |run: &RunView| Some(quantity(run)? / f64::from(run.trials) * f64::from(trials));
            let values = like
                .iter()
                .map(|run| scale(run))
                .collect::<Option<Vec<_>>>()?;
            Estimated::of(values)
        };
        #[expect(
            clippy::cast_precision_loss,
            reason = "counts of runs are far below 2^53"
        )]
        Self {
            past_runs: u32::try_from(like.len()).unwrap_or(u32::MAX),
            trials,
            calls: scaled(&|run| Some(run.spend.calls as f64)),
            tokens: scaled(&|run| Some(run.spend.usage.total() as f64)),
            dollars: scaled(&|run| {
                (run.spend.unpriced_calls == 0).then(|| run.spend.dollars.as_f64())
            }),
            minutes: scaled(&|run| Some(run.running_ms as f64 / 60_000.0)),
            device_seconds: scaled(&|run| Some(run.spend.device_ms as f64 / 1000.0)),
        }
    }
}

impl Estimated {
    /// The quartiles of some values; none without a value.
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| {
            #[expect(clippy::cast_precision_loss, reason = "at most twenty values")]
            let place = share * last as f64;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in the list"
            )]
            let below = place.floor() as usize;
            let above = (below + 1).min(last);
            values[below] + (values[above] - values[below]) * place.fract()
        };
        Some(Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        })
    }
}
