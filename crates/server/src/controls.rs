//! Controls as text: what came of one, and how often a device's comparisons are wrong by all of
//! them.

use domain::control::{Control, ControlTally};
use domain::device::DeviceKind;
use domain::statistics::DecidedComparison;

use crate::terminal::line;

/// The outcome of one control in words.
pub fn control(control: &Control) -> String {
    let percent = |effect: f64| format!("{:+.2}%", 100.0 * effect.exp_m1());
    let gain = |settled: &DecidedComparison| {
        let evidence = &settled.evidence;
        format!(
            "{} ({} to {})",
            percent(evidence.effect),
            percent(evidence.interval.lower),
            percent(evidence.interval.upper)
        )
    };
    match control {
        Control::Unfinished { reason } => format!("not finished: {}", line(reason, 200)),
        Control::Level { screening } => format!("not called faster: {}", gain(screening)),
        Control::Caught { screening, reason } => format!(
            "CALLED FASTER by its screening: {}; its confirmation did not: {}",
            gain(screening),
            line(reason, 200)
        ),
        Control::Undecided { screening, reason } => format!(
            "CALLED FASTER by its screening: {}; its confirmation was not finished: {}",
            gain(screening),
            line(reason, 200)
        ),
        Control::Promoted {
            screening,
            confirmation,
        } => format!(
            "CALLED FASTER by its screening: {}, AND by its confirmation: {}",
            gain(screening),
            gain(confirmation)
        ),
    }
}

/// The error rates that all controls of a device show. Without a control nothing is known about
/// them. Modelled times have no noise, so they need no controls.
pub fn tally(kind: DeviceKind, tally: &ControlTally) -> String {
    let mut text = match tally.screened_at_most.zip(tally.promoted_at_most) {
        None if kind == DeviceKind::Emulated => "none: modelled times have no noise".to_owned(),
        None => "none yet".to_owned(),
        Some((screened, promoted)) => format!(
            "{}: {} screened as faster (at most {}), {} promoted (at most {})",
            tally.made,
            tally.screened,
            at_most(screened),
            tally.promoted,
            at_most(promoted)
        ),
    };
    for (number, what) in [
        (tally.undecided, "undecided"),
        (tally.unfinished, "unfinished"),
    ] {
        if number > 0 {
            text.push_str(&format!("; {number} {what}"));
        }
    }
    text
}

/// An upper bound in percent: rounded down it would be none.
fn at_most(share: f64) -> String {
    format!("{:.2}%", ((1e4 * share).ceil() / 1e2).min(100.0))
}

#[cfg(test)]
mod tests {
    use domain::control::ControlResult::{Caught, Level, Promoted, Undecided, Unfinished};
    use domain::digest::Digest;
    use domain::role::Key;
    use domain::statistics::{ANALYSIS_PAIRS, Cycles, decide_screening};

    use super::*;

    #[test]
    fn a_device_without_controls_has_no_rate() {
        assert_eq!(tally(DeviceKind::Nvidia, &ControlTally::of([])), "none yet");
        let unfinished = ControlTally::of([(Unfinished, 2)]);
        assert_eq!(
            tally(DeviceKind::Nvidia, &unfinished),
            "none yet; 2 unfinished"
        );
    }

    #[test]
    fn a_tally_is_told_with_bounds_that_are_rounded_up() {
        let all = ControlTally::of([
            (Level, 296),
            (Caught, 3),
            (Undecided, 1),
            (Promoted, 0),
            (Unfinished, 5),
        ]);
        assert_eq!(
            tally(DeviceKind::Nvidia, &all),
            "300: 4 screened as faster (at most 3.03%), 0 promoted (at most 1.58%); 1 undecided; 5 unfinished"
        );
        let many = ControlTally::of([(Level, 4_000_000)]);
        assert_eq!(
            tally(DeviceKind::Nvidia, &many),
            "4000000: 0 screened as faster (at most 0.01%), 0 promoted (at most 0.01%)"
        );
        let all_wrong = ControlTally::of([(Promoted, 3)]);
        assert!(tally(DeviceKind::Nvidia, &all_wrong).contains("3 promoted (at most 100.00%)"));
    }

    /// The result of a screening whose rounds all have the same log-ratio.
    fn settled(ratio: f64) -> DecidedComparison {
        let rounds = vec![ratio; ANALYSIS_PAIRS[0] / 2];
        decide_screening(&rounds, &Cycles::Unknown, Key(Digest::of("key"))).unwrap()
    }

    #[test]
    fn what_a_control_says_names_its_confirmation_where_it_needed_one() {
        let reason = || "time\nwas \u{1b}[31mup".to_owned();
        let (none, gain) = (settled(0.0), settled(1.02_f64.ln()));
        let screening = || gain.clone();
        let confirmation = screening();
        for (told, control) in [
            (
                "not finished: time was up",
                Control::Unfinished { reason: reason() },
            ),
            (
                "not called faster: +0.00% (+0.00% to +0.00%)",
                Control::Level { screening: none },
            ),
            (
                "CALLED FASTER by its screening: +2.00% (+2.00% to +2.00%); its confirmation did not: time was up",
                Control::Caught {
                    screening: screening(),
                    reason: reason(),
                },
            ),
            (
                "CALLED FASTER by its screening: +2.00% (+2.00% to +2.00%), AND by its confirmation: +2.00% (+2.00% to +2.00%)",
                Control::Promoted {
                    screening: screening(),
                    confirmation,
                },
            ),
        ] {
            assert_eq!(super::control(&control), told);
        }
    }
}
