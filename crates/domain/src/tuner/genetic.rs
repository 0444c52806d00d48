//! A genetic algorithm.

use std::collections::HashSet;

use rand::RngExt as _;

use super::path::{Endless, Path};
use super::space::Point;

/// Points of a generation.
const POPULATION: usize = 20;
/// Best points that stay in the next generation.
const ELITE: usize = 4;
/// Attempts at a child that has not been asked for yet.
const ATTEMPTS: usize = 10;

/// Breeds generations: two parents drawn by rank, each axis from either, and a mutation of one axis
/// on average. A child that breaks a constraint or exists already is bred again.
pub(super) fn genetic(path: &mut Path<'_>) -> Endless {
    let mut seen = HashSet::new();
    let mut population = Vec::new();
    for _ in 0..POPULATION {
        let mut point = path.space.random(&mut path.rng);
        for _ in 0..ATTEMPTS {
            if seen.insert(point) {
                break;
            }
            point = path.space.random(&mut path.rng);
        }
        population.push((path.cost(point)?, point));
    }
    loop {
        population.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut next = population[..ELITE].to_vec();
        while next.len() < POPULATION {
            let mut child = breed(path, &population);
            for _ in 0..ATTEMPTS {
                if seen.insert(child) {
                    break;
                }
                child = breed(path, &population);
            }
            next.push((path.cost(child)?, child));
        }
        population = next;
    }
}

/// A child of two parents; the square of a uniform number prefers the first ranks.
fn breed(path: &mut Path<'_>, ranked: &[(f64, Point)]) -> Point {
    let draw = |path: &mut Path<'_>| {
        let uniform = path.rng.random::<f64>();
        ranked[((uniform * uniform * ranked.len() as f64) as usize).min(ranked.len() - 1)].1
    };
    let (mother, father) = (draw(path), draw(path));
    let width = path.space.width();
    for _ in 0..ATTEMPTS {
        let mut row = path.space.choices(mother).to_vec();
        for (axis, choice) in row.iter_mut().enumerate() {
            if path.rng.random::<f64>() < 0.5 {
                *choice = path.space.choices(father)[axis];
            }
            if path.rng.random::<f64>() * (width as f64) < 1.0 {
                *choice = path.rng.random_range(0..path.space.extent(axis));
            }
        }
        if let Some(child) = path.space.find(&row) {
            return child;
        }
    }
    path.perturb(mother, 1)
}
