//! Greedy iterated local search, and the two annealings.

use rand::RngExt as _;

use super::path::{Endless, Path, Pause};
use super::space::Point;

/// Local optima without a gain after which a search starts anew.
const PATIENCE: u32 = 6;

/// Greedy iterated local search: descends, changes a third of the axes of the best local optimum at
/// random, and descends again.
pub(super) fn iterated(path: &mut Path<'_>) -> Endless {
    let kick = (path.space.width() / 3).max(2);
    loop {
        let start = path.space.random(&mut path.rng);
        let mut best = path.descend(start)?;
        let mut without_gain = 0;
        while without_gain < PATIENCE {
            let start = path.perturb(best.0, kick);
            let found = path.descend(start)?;
            if found.1 < best.1 {
                best = found;
                without_gain = 0;
            } else {
                without_gain += 1;
            }
        }
    }
}

/// Simulated annealing: a walk over neighbours that accepts a loss with a probability that falls
/// with the temperature. Restarts from the best point once it is cold.
pub(super) fn annealing(path: &mut Path<'_>) -> Endless {
    let mut point = valid_start(path)?;
    let mut cost = path.cost(point)?;
    let mut best = (point, cost);
    loop {
        let mut temperature = 0.3;
        while temperature > 0.005 {
            let next = path.perturb(point, 1);
            let other = path.cost(next)?;
            if accepts(path, cost, other, temperature) {
                (point, cost) = (next, other);
            }
            if cost < best.1 {
                best = (point, cost);
            }
            temperature *= 0.96;
        }
        (point, cost) = best;
    }
}

/// Dual annealing: jumps in all axes whose lengths have heavy tails and shrink with the
/// temperature, and a descent from every new best point.
pub(super) fn dual_annealing(path: &mut Path<'_>) -> Endless {
    let mut best = {
        let start = valid_start(path)?;
        path.descend(start)?
    };
    loop {
        let (mut point, mut cost) = best;
        for step in 1..200_u32 {
            let temperature = 1.0 / f64::from(step);
            let next = jump(path, point, temperature);
            let other = path.cost(next)?;
            if accepts(path, cost, other, 0.3 * temperature) {
                (point, cost) = (next, other);
            }
            if cost < best.1 {
                best = path.descend(point)?;
                (point, cost) = best;
            }
        }
        let start = path.space.random(&mut path.rng);
        let found = path.descend(start)?;
        if found.1 < best.1 {
            best = found;
        }
    }
}

/// A random point with a valid cost, or the last of twenty.
fn valid_start(path: &mut Path<'_>) -> Result<Point, Pause> {
    let mut point = path.space.random(&mut path.rng);
    for _ in 0..20 {
        if path.cost(point)?.is_finite() {
            break;
        }
        point = path.space.random(&mut path.rng);
    }
    Ok(point)
}

/// Metropolis' rule on the relative loss.
fn accepts(path: &mut Path<'_>, cost: f64, other: f64, temperature: f64) -> bool {
    if other <= cost {
        return true;
    }
    let loss = (other - cost) / cost;
    loss.is_finite() && path.rng.random::<f64>() < (-loss / temperature).exp()
}

/// A point whose distance in every axis is drawn from a Cauchy distribution of the temperature's
/// width, in shares of the axis.
fn jump(path: &mut Path<'_>, point: Point, temperature: f64) -> Point {
    for _ in 0..20 {
        let mut row = path.space.choices(point).to_vec();
        for (axis, choice) in row.iter_mut().enumerate() {
            let extent = f64::from(path.space.extent(axis));
            let angle = std::f64::consts::PI * (path.rng.random::<f64>() - 0.5);
            let moved = f64::from(*choice) + 0.25 * extent * temperature.sqrt() * angle.tan();
            // Folded back at both ends, so that far jumps do not gather there.
            let folded = moved.rem_euclid(2.0 * extent);
            let folded = if folded >= extent {
                2.0 * extent - folded
            } else {
                folded
            };
            *choice = (folded as u16).min(path.space.extent(axis) - 1);
        }
        match path.space.find(&row) {
            Some(found) if found != point => return found,
            _ => {}
        }
    }
    path.perturb(point, 1)
}
