//! Agreement of two rankings of the same things.

/// Spearman's rank correlation: Pearson's of the ranks, ties sharing their mean rank. Zero where
/// one side does not vary. Both sides have the same length.
pub fn spearman(left: &[f64], right: &[f64]) -> f64 {
    let (left, right) = (ranks(left), ranks(right));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (left_mean, right_mean) = (mean(&left), mean(&right));
    let (mut both, mut of_left, mut of_right) = (0.0, 0.0, 0.0);
    for (a, b) in left.iter().zip(&right) {
        let (a, b) = (a - left_mean, b - right_mean);
        both += a * b;
        of_left += a * a;
        of_right += b * b;
    }
    if of_left == 0.0 || of_right == 0.0 {
        0.0
    } else {
        both / (of_left * of_right).sqrt()
    }
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let same = |at: &&usize| values[**at].total_cmp(&values[order[from]]).is_eq();
        let to = from + order[from..].iter().take_while(same).count();
        let shared = (from + 1 + to) as f64 / 2.0;
        for at in &order[from..to] {
            ranks[*at] = shared;
        }
        from = to;
    }
    ranks
}

/// Kendall's tau-b: pairs in the same order less pairs in the opposite one, over all pairs that
/// are tied on neither side. Zero where one side does not vary.
pub fn kendall(left: &[f64], right: &[f64]) -> f64 {
    let (mut agree, mut only_left, mut only_right) = (0_i64, 0_i64, 0_i64);
    let mut untied = 0_i64;
    for i in 0..left.len() {
        for j in 0..i {
            let a = left[i].total_cmp(&left[j]);
            let b = right[i].total_cmp(&right[j]);
            match (a.is_eq(), b.is_eq()) {
                (true, true) => {}
                (true, false) => only_right += 1,
                (false, true) => only_left += 1,
                (false, false) => {
                    untied += 1;
                    agree += if a == b { 1 } else { -1 };
                }
            }
        }
    }
    let scale = ((untied + only_left) as f64 * (untied + only_right) as f64).sqrt();
    if scale == 0.0 {
        0.0
    } else {
        agree as f64 / scale
    }
}

/// The regret of choosing by the model: the best measured time among its `choices` lowest modelled
/// ones, over the best of all, less one. If there are fewer, all of them are chosen; of equal
/// modelled times the earlier one is.
pub fn regret(measured: &[f64], modelled: &[f64], choices: usize) -> f64 {
    let mut order: Vec<usize> = (0..modelled.len()).collect();
    order.sort_by(|a, b| modelled[*a].total_cmp(&modelled[*b]));
    let best = |indices: &[usize]| {
        indices
            .iter()
            .map(|at| measured[*at])
            .fold(f64::INFINITY, f64::min)
    };
    let chosen = &order[..choices.min(order.len())];
    best(chosen) / best(&order) - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
    }

    #[test]
    fn orders_worked_out_by_hand() {
        let measured = [1.0, 2.0, 3.0, 4.0, 5.0];
        near(spearman(&measured, &[10.0, 20.0, 30.0, 40.0, 50.0]), 1.0);
        near(kendall(&measured, &[10.0, 20.0, 30.0, 40.0, 50.0]), 1.0);
        near(spearman(&measured, &[5.0, 4.0, 3.0, 2.0, 1.0]), -1.0);
        near(kendall(&measured, &[5.0, 4.0, 3.0, 2.0, 1.0]), -1.0);
        // Squared rank differences 1, 1, 0, 1, 1: 1 - 6 x 4 / (5 x 24). Two of ten pairs swapped.
        near(spearman(&measured, &[2.0, 1.0, 3.0, 5.0, 4.0]), 0.8);
        near(kendall(&measured, &[2.0, 1.0, 3.0, 5.0, 4.0]), 0.6);
    }

    #[test]
    fn ties_share_their_rank_and_nothing_varies_without_meaning() {
        near(spearman(&[1.0, 1.0, 2.0, 2.0], &[1.0, 1.0, 2.0, 2.0]), 1.0);
        near(kendall(&[1.0, 1.0, 2.0, 2.0], &[1.0, 1.0, 2.0, 2.0]), 1.0);
        // Ranks 1.5, 1.5, 3 against 1, 2, 3. Of three pairs one is tied on the left.
        near(
            spearman(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]),
            0.75_f64.sqrt(),
        );
        near(
            kendall(&[1.0, 1.0, 2.0], &[1.0, 2.0, 3.0]),
            2.0 / 6.0_f64.sqrt(),
        );
        near(spearman(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
        near(kendall(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn regret_is_what_the_first_choices_lose() {
        let measured = [3.0, 2.0, 4.0, 2.5];
        let modelled = [1.0, 9.0, 2.0, 3.0];
        near(regret(&measured, &modelled, 1), 0.5);
        near(regret(&measured, &modelled, 2), 0.5);
        near(regret(&measured, &modelled, 3), 0.25);
        near(regret(&measured, &modelled, 4), 0.0);
        near(regret(&measured, &modelled, 99), 0.0);
    }
}
