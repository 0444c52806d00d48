//! The reason why a run ends without a promotion, as text for its record.

use domain::margins::{MIN_PROMOTION_SPEEDUP, is_promotable};
use domain::search::{Entry, EntryState, PromotionProgress, RunSnapshot};

/// Returns the reason why a run that ends now promotes nothing; none if its champion is committed.
/// `refused` is the number of candidates whose confirmation failed.
pub(crate) fn why_unpromoted(run: &RunSnapshot<'_>, refused: usize) -> Option<String> {
    if matches!(run.promotion, PromotionProgress::Committed(_)) {
        return None;
    }
    let accepted = run
        .candidates
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, entry)| !run.excluded.contains(&entry.id))
        .filter_map(|(ordinal, entry)| Some((ordinal, entry, entry.speedup()?)));
    let fastest = accepted.reduce(|best, next| if next.2 > best.2 { next } else { best });
    let tried = run.candidates.len().saturating_sub(1);
    Some(match fastest {
        _ if tried == 0 => "no candidate was tried".to_owned(),
        None if !run.steering.banned.is_empty() => {
            "every candidate that was accepted is banned or failed its confirmation".to_owned()
        }
        None if refused > 0 => "no candidate that was accepted passed its confirmation".to_owned(),
        None if tried == 1 => "the only candidate was not accepted".to_owned(),
        None => format!("none of the {tried} candidates was accepted"),
        Some((ordinal, entry, speedup)) => too_slow_or_gated(ordinal, entry, speedup),
    })
}

fn too_slow_or_gated(ordinal: usize, entry: &Entry, speedup: f64) -> String {
    let fastest =
        format!("the fastest candidate, #{ordinal}, has {speedup:.3} times the baseline's speed");
    let meets_gates = matches!(
        entry.state,
        EntryState::Accepted {
            promotable: true,
            ..
        }
    );
    if !is_promotable(speedup) {
        format!("{fastest}, and a promotion needs more than {MIN_PROMOTION_SPEEDUP}")
    } else if meets_gates {
        format!("{fastest}, and the run ended before it was confirmed")
    } else {
        format!("{fastest}, and does not meet every gate that the task sets before a promotion")
    }
}
