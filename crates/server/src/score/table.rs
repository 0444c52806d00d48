//! One table of the scores of several sessions, and how far modelled times are off by what bounds them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use domain::statistics::{median, quantile};
use serde::Serialize;

use super::Score;
use crate::terminal::columns;

/// The limits of an interval leave out this share of the configurations at each end.
const TAIL: f64 = 0.1;

/// Scores of several sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The sessions in the order of their list.
    pub sessions: Vec<Score>,
    /// How far modelled times are off, by the term that dominates them.
    pub errors: Vec<ErrorRange>,
}

/// The error of modelled times that one term dominates.
///
/// An error is the ratio of modelled to measured time over the middle one of its session: a factor that all times of a
/// session share changes no order, and is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorRange {
    /// The term.
    pub bottleneck: String,
    /// Number of configurations that it dominates.
    pub configurations: usize,
    /// Number of kernels that they belong to.
    pub kernels: usize,
    /// The errors between which four of five configurations lie.
    pub range: [f64; 2],
    /// The share of each kernel's configurations that lie in the range of all other kernels; none with one kernel.
    pub covered: Option<f64>,
}

impl Table {
    /// The table of some scores.
    pub fn of(sessions: Vec<Score>) -> Self {
        let errors = error_ranges(&sessions);
        Self { sessions, errors }
    }

    /// The account for a person.
    pub fn text(&self) -> String {
        let head = [
            "session",
            "measured on",
            "split",
            "ran",
            "Spearman",
            "Kendall",
            "first",
            "best of 10",
            "modelled / measured",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for score in &self.sessions {
            rows.push(row(score));
        }
        let mut text = columns(&rows, 0);
        text.push_str(
            "\n\"first\" and \"best of 10\": how much slower than the best of all the model's first choice and the best of \
             its first ten were measured.\n",
        );
        for score in &self.sessions {
            if let Some(seen) = &score.seen {
                let _ = writeln!(
                    text,
                    "seen: {} on {}: {seen}",
                    score.session, score.measured_on
                );
            }
        }
        if self.errors.is_empty() {
            return text;
        }
        let head = [
            "bound by",
            "configurations",
            "kernels",
            "error, four of five",
            "inside the range of other kernels",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for error in &self.errors {
            let [low, high] = error.range;
            rows.push(vec![
                error.bottleneck.clone(),
                error.configurations.to_string(),
                error.kernels.to_string(),
                format!("{low:.2} to {high:.2}"),
                error.covered.map_or_else(|| "-".to_owned(), percent),
            ]);
        }
        text.push_str("\nModelled over measured time, over the middle ratio of its session:\n");
        text.push_str(&columns(&rows, 0));
        text
    }
}

fn row(score: &Score) -> Vec<String> {
    let split = if score.seen.is_some() {
        "seen"
    } else {
        "held out"
    };
    let mut row = vec![
        score.session.clone(),
        score.measured_on.clone(),
        split.to_owned(),
    ];
    let ran = score
        .configurations
        .iter()
        .filter(|one| one.modelled.is_some());
    row.push(format!("{} of {}", ran.count(), score.configurations.len()));
    let Some(agreement) = &score.agreement else {
        row.push("none: fewer than two configurations ran".to_owned());
        return row;
    };
    row.push(format!("{:.3}", agreement.spearman));
    row.push(format!("{:.3}", agreement.kendall));
    row.push(percent(agreement.regret[&1]));
    row.push(percent(agreement.regret[&10]));
    let [lowest, middle, highest] = agreement.ratio;
    row.push(format!("{middle:.2}, {lowest:.2} to {highest:.2}"));
    row
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// The logarithms of errors by term and kernel.
type Errors<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<f64>>>;

fn error_ranges(sessions: &[Score]) -> Vec<ErrorRange> {
    let mut errors = Errors::new();
    for score in sessions {
        let ratios = score.ratios().map(f64::ln).collect::<Vec<_>>();
        let Some(middle) = median(&ratios) else {
            continue;
        };
        let modelled = score
            .configurations
            .iter()
            .filter_map(|one| one.modelled.as_ref());
        for (modelled, ratio) in modelled.zip(ratios) {
            let kernels = errors.entry(&modelled.bottleneck).or_default();
            kernels
                .entry(&score.kernel)
                .or_default()
                .push(ratio - middle);
        }
    }
    errors
        .iter()
        .map(|(bottleneck, kernels)| range_of(bottleneck, kernels))
        .collect()
}

fn range_of(bottleneck: &str, kernels: &BTreeMap<&str, Vec<f64>>) -> ErrorRange {
    let all = kernels.values().flatten().copied().collect::<Vec<_>>();
    let names = kernels.keys().collect::<BTreeSet<_>>();
    let (mut inside, mut tried) = (0, 0);
    for (kernel, errors) in kernels {
        let others = kernels.iter().filter(|(other, _)| *other != kernel);
        let others = others
            .flat_map(|(_, errors)| errors)
            .copied()
            .collect::<Vec<_>>();
        let Some([low, high]) = range(&others) else {
            continue;
        };
        tried += errors.len();
        inside += errors
            .iter()
            .filter(|error| (low..=high).contains(error))
            .count();
    }
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share of some hundred configurations"
    )]
    let covered = (tried > 0).then(|| inside as f64 / tried as f64);
    ErrorRange {
        bottleneck: bottleneck.to_owned(),
        configurations: all.len(),
        kernels: names.len(),
        range: range(&all)
            .expect("a term dominates a configuration")
            .map(f64::exp),
        covered,
    }
}

fn range(errors: &[f64]) -> Option<[f64; 2]> {
    Some([quantile(errors, TAIL)?, quantile(errors, 1.0 - TAIL)?])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{scored, session};
    use super::*;

    #[test]
    fn each_session_is_a_row_with_its_split() {
        let mut seen = session(
            "sum",
            vec![scored("1", 1.0, Ok(1600.0)), scored("2", 2.0, Ok(1700.0))],
        );
        seen.seen = Some("its rates were guessed with it in view".to_owned());
        let held_out = session(
            "scan",
            vec![
                scored("1", 1.0, Ok(1600.0)),
                scored("2", 2.0, Err("no room")),
            ],
        );
        let text = Table::of(vec![seen, held_out]).text();
        let rows = text.lines().collect::<Vec<_>>();
        assert!(
            rows[1].starts_with("sum") && rows[1].contains("seen") && rows[1].contains("2 of 2"),
            "{text}"
        );
        assert!(
            rows[2].contains("held out") && rows[2].contains("1 of 2"),
            "{text}"
        );
        assert!(
            rows[2].ends_with("none: fewer than two configurations ran"),
            "{text}"
        );
        assert!(
            text.contains("seen: sum on a device: its rates were guessed with it in view"),
            "{text}"
        );
    }

    #[test]
    fn a_factor_that_a_session_shares_is_no_error() {
        // All times of one session are modelled at half, and of the other at twice what was measured.
        let half = (1..=9)
            .map(|n| scored("", f64::from(n), Ok(500.0 * f64::from(n))))
            .collect();
        let twice = (1..=9)
            .map(|n| scored("", 0.1 * f64::from(n), Ok(200.0 * f64::from(n))))
            .collect();
        let table = Table::of(vec![session("sum", half), session("scan", twice)]);
        let issue = table
            .errors
            .iter()
            .find(|one| one.bottleneck == "issue")
            .unwrap();
        for limit in issue.range {
            assert!((limit - 1.0).abs() < 1e-9, "{issue:?}");
        }
        assert_eq!(issue.kernels, 2);
    }

    #[test]
    fn a_kernel_is_compared_with_the_range_of_the_others() {
        // Errors of the first kernel lie within 10 %, half of those of the second do.
        let times = |spread: f64| {
            (-10..=10)
                .map(|n| scored("", 1.0, Ok(1000.0 * (spread * f64::from(n) / 10.0).exp())))
                .collect()
        };
        let table = Table::of(vec![
            session("sum", times(0.1)),
            session("scan", times(0.2)),
        ]);
        let [only] = &table.errors[..] else {
            panic!("one term dominates: {:?}", table.errors)
        };
        // 21 of the first lie in the range of the second; 9 of 21 of the second in that of the first, which is 0.08 wide.
        assert_eq!((only.configurations, only.kernels), (42, 2));
        assert!(
            (only.covered.unwrap() - 30.0 / 42.0).abs() < 1e-9,
            "{only:?}"
        );
        assert!(
            Table::of(vec![session("sum", times(0.1))]).errors[0]
                .covered
                .is_none()
        );
    }
}
