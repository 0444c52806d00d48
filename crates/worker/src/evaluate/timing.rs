//! Times of the score cases, from the facts of their executions.

use std::collections::BTreeMap;

use domain::device::{Device, DeviceKind};
use domain::judge::Trouble;
use domain::role::ExecutionFacts;
use domain::timing::{MeasuredTime, ModelledTime, Timing};

/// The term of the time model that stands for launching; a plan in which it dominates every
/// launch takes little more than launching empty kernels.
const LAUNCH_TERM: &str = "launch";

/// The times of score cases, in the order of `cases`, each with the facts of its executions.
///
/// # Errors
/// [`Trouble`] if an execution has no time of the device's kind.
pub fn timing(
    device: &Device,
    label: Option<&str>,
    cases: &[(String, Vec<&ExecutionFacts>)],
) -> Result<Timing, Trouble> {
    match device.kind {
        DeviceKind::Nvidia => Ok(Timing::Measured {
            cases: cases
                .iter()
                .map(|(case, executions)| measured(case, executions))
                .collect::<Result<_, _>>()?,
        }),
        DeviceKind::Emulated => Ok(Timing::Modelled {
            device: device.name.clone(),
            label: label.unwrap_or("unlabelled").to_owned(),
            cases: cases
                .iter()
                .map(|(case, executions)| modelled(case, executions))
                .collect::<Result<_, _>>()?,
        }),
    }
}

/// Whether launching is most of the time of every score case. Unknown, hence false, on silicon.
pub fn launch_bound(timing: &Timing) -> bool {
    match timing {
        Timing::Measured { .. } => false,
        Timing::Modelled { cases, .. } => cases
            .iter()
            .flat_map(|case| &case.launches)
            .all(|launch| launch.bottleneck == LAUNCH_TERM),
    }
}

/// The sum of the launches of one execution: the model is deterministic, one is enough.
fn modelled(case: &str, executions: &[&ExecutionFacts]) -> Result<ModelledTime, Trouble> {
    let missing = || Trouble(format!("model the time of case {case}: a launch has none"));
    let execution = executions.first().ok_or_else(missing)?;
    let launches = execution
        .launches
        .iter()
        .map(|launch| launch.modelled.clone())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(missing)?;
    Ok(ModelledTime {
        case: case.to_owned(),
        us: launches.iter().map(|launch| launch.us).sum(),
        launches,
    })
}

/// Median and quartiles over the executions.
fn measured(case: &str, executions: &[&ExecutionFacts]) -> Result<MeasuredTime, Trouble> {
    let mut samples = executions
        .iter()
        .map(|execution| execution.event_us)
        .collect::<Option<Vec<_>>>()
        .filter(|samples| !samples.is_empty())
        .ok_or_else(|| Trouble(format!("time case {case}: an execution has no event time")))?;
    samples.sort_by(f64::total_cmp);
    Ok(MeasuredTime {
        case: case.to_owned(),
        median_us: quantile(&samples, 0.5),
        quartiles_us: [quantile(&samples, 0.25), quantile(&samples, 0.75)],
        samples: u32::try_from(samples.len()).unwrap_or(u32::MAX),
    })
}

/// The quantile of sorted samples, interpolated linearly between neighbours.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are few samples")]
    let position = share * (sorted.len() - 1) as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position is within the samples"
    )]
    let below = position.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let part = position - position.floor();
    sorted[below] + part * (sorted[above] - sorted[below])
}

/// Groups facts by case, keeping the order in which the cases come.
pub fn by_case<'a>(
    facts: impl Iterator<Item = (&'a str, &'a ExecutionFacts)>,
) -> Vec<(String, Vec<&'a ExecutionFacts>)> {
    let mut order = Vec::new();
    let mut grouped = BTreeMap::<&str, Vec<&ExecutionFacts>>::new();
    for (case, execution) in facts {
        if !grouped.contains_key(case) {
            order.push(case);
        }
        grouped.entry(case).or_default().push(execution);
    }
    order
        .into_iter()
        .map(|case| (case.to_owned(), grouped.remove(case).unwrap_or_default()))
        .collect()
}
