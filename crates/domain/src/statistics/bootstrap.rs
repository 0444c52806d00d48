//! The hierarchical bootstrap: the distribution of the effect under resampling of processes, and of
//! rounds within each process.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;

use super::interval::Interval;
use super::summary::sorted;

/// The number of resamples.
pub const RESAMPLES: usize = 10_000;

/// Bounds on the effect of log-ratios grouped by process, each at probability `alpha`, from
/// `resamples` draws: processes with replacement, and rounds with replacement in each.
pub fn bootstrap(
    processes: &[Vec<f64>],
    alpha: f64,
    resamples: usize,
    rng: &mut ChaCha8Rng,
) -> Interval {
    let processes = processes
        .iter()
        .filter(|rounds| !rounds.is_empty())
        .map(|rounds| sorted(rounds))
        .collect::<Vec<_>>();
    if processes.is_empty() || resamples == 0 {
        return Interval::UNKNOWN;
    }
    let mut counts = Vec::new();
    let effects = (0..resamples)
        .map(|_| {
            let sum: f64 = (0..processes.len())
                .map(|_| {
                    let process = &processes[below(processes.len(), rng)];
                    drawn_median(process, &mut counts, rng)
                })
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "there are few processes")]
            let count = processes.len() as f64;
            sum / count
        })
        .collect::<Vec<_>>();
    let effects = sorted(&effects);
    // So many effects at either end have probability `alpha` or less together.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a few thousand"
    )]
    let spare = (alpha.clamp(0.0, 0.5) * effects.len() as f64).floor() as usize;
    Interval {
        lower: effects[spare.saturating_sub(1)],
        upper: effects[effects.len() - spare.max(1)],
    }
}

/// The median of as many draws with replacement from sorted values as there are values. Counts
/// how often each is drawn instead of sorting the draws.
fn drawn_median(sorted: &[f64], counts: &mut Vec<u32>, rng: &mut ChaCha8Rng) -> f64 {
    let n = sorted.len();
    counts.clear();
    counts.resize(n, 0);
    for _ in 0..n {
        counts[below(n, rng)] += 1;
    }
    let mut seen = 0;
    let mut middle = None;
    for (value, count) in sorted.iter().zip(counts.iter()) {
        seen += *count as usize;
        if seen > (n - 1) / 2 && middle.is_none() {
            middle = Some(*value);
        }
        if seen > n / 2 {
            return 0.5 * (middle.unwrap_or(*value) + value);
        }
    }
    unreachable!("as many values are drawn as there are")
}

/// A number below `bound`. The bias of one part in 2^32 / `bound` is far below what a bootstrap
/// can resolve.
fn below(bound: usize, rng: &mut ChaCha8Rng) -> usize {
    let wide = u64::from(rng.next_u32()) * bound as u64;
    usize::try_from(wide >> 32).expect("less than the bound")
}
