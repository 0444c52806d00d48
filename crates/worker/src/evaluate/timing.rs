//! Times of the score cases, from the facts of their executions.

use std::collections::BTreeMap;

use domain::device::{Device, DeviceKind};
use domain::judge::InfrastructureFault;
use domain::problem::Problem;
use domain::role::ExecutionFacts;
use domain::statistics::{Floor, Rates, is_launch_bound};
use domain::task::{ScoredCache, Task};
use domain::timing::{CacheState, MeasuredTime, ModelledTime, Timing};

/// The times of score cases, in the order of `cases`, each with the facts of its executions. Measured
/// executions that are not timed in turn all begin with a cold cache, whatever is scored.
///
/// # Errors
/// [`InfrastructureFault`] if an execution has no time of the device's kind.
pub fn timing(
    device: &Device,
    label: Option<&str>,
    cases: &[(String, Vec<&ExecutionFacts>)],
    scored: ScoredCache,
) -> Result<Timing, InfrastructureFault> {
    match device.kind {
        DeviceKind::Nvidia => Ok(Timing::Measured {
            cases: cases
                .iter()
                .map(|(case, executions)| measured(case, executions))
                .collect::<Result<_, _>>()?,
            unscored: Vec::new(),
        }),
        DeviceKind::Emulated => Ok(Timing::Modelled {
            device: device.name.clone(),
            label: label.unwrap_or("unlabelled").to_owned(),
            cases: in_states(cases, scored.scored())?,
            unscored: in_states(cases, scored.unscored().as_slice())?,
        }),
    }
}

/// Returns true if every score case takes little more than launching as many empty kernels; false
/// if the device's launch time was not measured. `launches` are the plan's, by case.
pub fn launch_bound(
    timing: &Timing,
    launches: &BTreeMap<String, usize>,
    rates: Option<&Rates>,
) -> bool {
    let Some(rates) = rates else { return false };
    timing.cases().into_iter().all(|time| {
        let launches = launches.get(time.case).copied().unwrap_or_default();
        is_launch_bound(time.us, launches, rates.launch_us)
    })
}

/// The times of the score cases beside the device's shortest possible times; empty if the device's
/// rates are not known.
///
/// # Errors
/// A [`Problem`] of the task.
pub fn floors(task: &Task, timing: &Timing, rates: Option<&Rates>) -> Result<Vec<Floor>, Problem> {
    let Some(rates) = rates else {
        return Ok(Vec::new());
    };
    let times = timing.cases().into_iter();
    times
        .filter_map(|time| Some((task.case(time.case)?, time)))
        .map(|(case, time)| {
            let (name, work) = (case.name.clone(), task.work(case)?);
            Ok(Floor::compute(name, time.cache, work, rates, time.us))
        })
        .collect()
}

/// The modelled times of each case with the cache in each of these states.
fn in_states(
    cases: &[(String, Vec<&ExecutionFacts>)],
    states: &[CacheState],
) -> Result<Vec<ModelledTime>, InfrastructureFault> {
    let entries = cases.iter().flat_map(|(case, executions)| {
        let states = states.iter();
        states.map(move |cache| modelled(case, *cache, executions))
    });
    entries.collect()
}

/// The sum of an execution's launches. One execution is enough, because the model is deterministic.
fn modelled(
    case: &str,
    cache: CacheState,
    executions: &[&ExecutionFacts],
) -> Result<ModelledTime, InfrastructureFault> {
    let missing =
        || InfrastructureFault(format!("model the time of case {case}: a launch has none"));
    let execution = executions.first().ok_or_else(missing)?;
    let launches = execution
        .launches
        .iter()
        .map(|launch| match cache {
            CacheState::Cold => launch.modelled.clone(),
            CacheState::Warm => launch.modelled_warm.clone(),
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(missing)?;
    Ok(ModelledTime {
        case: case.to_owned(),
        cache,
        us: launches.iter().map(|launch| launch.us).sum(),
        launches,
    })
}

/// Median and quartiles over the executions.
fn measured(
    case: &str,
    executions: &[&ExecutionFacts],
) -> Result<MeasuredTime, InfrastructureFault> {
    let mut samples = executions
        .iter()
        .map(|execution| execution.event_us)
        .collect::<Option<Vec<_>>>()
        .filter(|samples| !samples.is_empty())
        .ok_or_else(|| {
            InfrastructureFault(format!("time case {case}: an execution has no event time"))
        })?;
    samples.sort_by(f64::total_cmp);
    Ok(MeasuredTime {
        case: case.to_owned(),
        cache: CacheState::Cold,
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

#[cfg(test)]
mod tests {
    use domain::role::LaunchFacts;
    use domain::timing::ModelledLaunch;

    use super::*;

    fn modelled_launch(us: f64) -> ModelledLaunch {
        ModelledLaunch {
            kernel: "scale".to_owned(),
            us,
            launch_us: 2.0,
            bottleneck: "issue".to_owned(),
            share: 0.5,
        }
    }

    fn execution(launches: &[Option<f64>], event_us: Option<f64>) -> ExecutionFacts {
        let launches = launches.iter().map(|us| LaunchFacts {
            kernel: "scale".to_owned(),
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            modelled: us.map(modelled_launch),
            modelled_warm: us.map(|us| modelled_launch(us / 2.0)),
            modelled_terms: BTreeMap::new(),
            counters: BTreeMap::new(),
        });
        ExecutionFacts {
            id: 0,
            launches: launches.collect(),
            findings: Vec::new(),
            fault: None,
            unsupported: None,
            mutated: Vec::new(),
            overrun: Vec::new(),
            unwritten: Vec::new(),
            event_us,
            outlasted: false,
            unprotected: false,
            outputs: BTreeMap::new(),
        }
    }

    #[test]
    fn a_modelled_time_is_the_sum_of_all_launches_or_nothing() {
        let whole = execution(&[Some(3.0), Some(4.5)], None);
        let partial = execution(&[Some(3.0), None], None);
        for (cache, us) in [(CacheState::Cold, 7.5), (CacheState::Warm, 3.75)] {
            let time = modelled("odd", cache, &[&whole]).unwrap();
            assert!((time.us - us).abs() < 1e-12);
            assert_eq!((time.cache, time.launches.len()), (cache, 2));
            assert!(modelled("odd", cache, &[&partial]).is_err());
            assert!(modelled("odd", cache, &[]).is_err());
        }
    }

    #[test]
    fn each_case_has_a_time_in_every_state_that_is_scored_and_one_beside() {
        let first = execution(&[Some(8.0)], None);
        let second = execution(&[Some(2.0)], None);
        let cases = [
            ("one".to_owned(), vec![&first]),
            ("two".to_owned(), vec![&second]),
        ];
        let told = |states: &[CacheState]| {
            let times = in_states(&cases, states).unwrap();
            let times = times
                .iter()
                .map(|time| (time.cache.name_of(&time.case), time.us));
            times.collect::<Vec<_>>()
        };
        let cold = [("one", 8.0), ("two", 2.0)];
        let warm = [("one (warm cache)", 4.0), ("two (warm cache)", 1.0)];
        let owned = |times: &[(&str, f64)]| {
            let owned = times.iter().map(|(name, us)| ((*name).to_owned(), *us));
            owned.collect::<Vec<_>>()
        };
        for scored in [ScoredCache::Cold, ScoredCache::Warm, ScoredCache::Both] {
            let (counted, beside) = match scored {
                ScoredCache::Cold => (owned(&cold), owned(&warm)),
                ScoredCache::Warm => (owned(&warm), owned(&cold)),
                ScoredCache::Both => (owned(&[cold[0], warm[0], cold[1], warm[1]]), Vec::new()),
            };
            assert_eq!(told(scored.scored()), counted, "{scored:?}");
            assert_eq!(told(scored.unscored().as_slice()), beside, "{scored:?}");
        }
    }

    #[test]
    fn a_measured_time_is_the_median_of_all_executions_or_nothing() {
        let executions = [9.0, 1.0, 3.0, 2.0, 4.0].map(|us| execution(&[], Some(us)));
        let time = measured("odd", &executions.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(time.samples, 5);
        assert!((time.median_us - 3.0).abs() < 1e-12);
        assert!((time.quartiles_us[0] - 2.0).abs() < 1e-12);
        assert!((time.quartiles_us[1] - 4.0).abs() < 1e-12);
        let untimed = execution(&[], None);
        assert!(measured("odd", &[&executions[0], &untimed]).is_err());
        assert!(measured("odd", &[]).is_err());
    }

    #[test]
    fn facts_are_grouped_by_case_in_the_order_of_their_first() {
        let executions = [1.0, 2.0, 3.0].map(|us| execution(&[], Some(us)));
        let grouped = by_case(["b", "a", "b"].into_iter().zip(&executions));
        let names = grouped
            .iter()
            .map(|(case, facts)| (case.as_str(), facts.len()))
            .collect::<Vec<_>>();
        assert_eq!(names, [("b", 2), ("a", 1)]);
    }
}
