//! The floor: the least time in which a device can do a case's work.

use domain::statistics::{
    Arithmetic, Bound, Floor, Rates, ResourceFloor, Work, ensure_repeat_agrees, is_launch_bound,
    reason_to_repeat,
};
use domain::timing::CacheState;
use domain::verdict::{Comparison, Outcome};

#[test]
fn the_floor_is_the_worst_of_bytes_operations_and_launching() {
    let rates = Rates {
        bytes_per_us: 300e3,
        operations_per_us: [(Arithmetic::F32, 30e6)].into(),
        launch_us: 2.0,
        l2_bytes: 1e6,
    };
    let in_state = |cache, (read, written, operations)| {
        let work = Work {
            read,
            written,
            operations,
        };
        Floor::compute("one".to_owned(), cache, work, &rates, 50.0)
    };
    let single = |operations| Some((Arithmetic::F32, operations));
    for ((read, written, operations), (us, bound)) in [
        ((3e6, 0.0, None), (10.0, Bound::Bytes)),
        ((3e6, 0.0, single(6e8)), (20.0, Bound::Operations)),
        ((3.0, 0.0, single(6.0)), (2.0, Bound::Launch)),
        // Written bytes may stay in the cache.
        ((3e6, 1e6, None), (10.0, Bound::Bytes)),
        ((3e6, 4e6, None), (20.0, Bound::Bytes)),
        // The device's rate for this arithmetic is unknown.
        (
            (3e6, 0.0, Some((Arithmetic::F64, 1e30))),
            (10.0, Bound::Bytes),
        ),
    ] {
        let floor = in_state(CacheState::Cold, (read, written, operations));
        assert!((floor.us - us).abs() <= 1e-12, "{}, not {us}", floor.us);
        assert_eq!(floor.bound, bound, "{read} {written} {operations:?}");
    }
    // In a warm cache what fits is not fetched, whatever is written; the rest is.
    for ((read, written, operations), (us, bound)) in [
        ((1e6, 1e6, None), (2.0, Bound::Launch)),
        ((0.9e6, 0.5e6, single(6e8)), (20.0, Bound::Operations)),
        ((4e6, 0.0, None), (10.0, Bound::Bytes)),
        ((4e6, 4e6, None), (20.0, Bound::Bytes)),
    ] {
        let floor = in_state(CacheState::Warm, (read, written, operations));
        assert!((floor.us - us).abs() <= 1e-12, "{}, not {us}", floor.us);
        assert_eq!(floor.bound, bound, "{read} {written} {operations:?}");
    }
    // Each resource with a known rate has its own least time and what it was computed from.
    let of = |bound, us, amount| ResourceFloor { bound, us, amount };
    assert_eq!(
        in_state(CacheState::Cold, (3e6, 4e6, single(6e8))).resources,
        [
            of(Bound::Launch, 2.0, None),
            of(Bound::Bytes, 20.0, Some(6e6)),
            of(Bound::Operations, 20.0, Some(6e8)),
        ]
    );
    let unknown = Some((Arithmetic::F64, 1e30));
    assert_eq!(
        in_state(CacheState::Warm, (1e6, 0.0, unknown)).resources,
        [
            of(Bound::Launch, 2.0, None),
            of(Bound::Bytes, 0.0, Some(0.0))
        ]
    );
    let broken = |found_us| {
        let floor = Floor {
            case: "one".to_owned(),
            cache: CacheState::Cold,
            us: 10.0,
            bound: Bound::Bytes,
            found_us,
            resources: Vec::new(),
        };
        floor.is_broken()
    };
    assert!(broken(9.4) && !broken(9.6) && broken(f64::NAN) && broken(0.0));
    // Of several measurements each best counts.
    let again = Rates {
        bytes_per_us: 200e3,
        operations_per_us: [(Arithmetic::F32, 31e6), (Arithmetic::F64, 5e5)].into(),
        launch_us: 1.5,
        l2_bytes: 1e6,
    };
    let best = Rates {
        bytes_per_us: 300e3,
        ..again.clone()
    };
    assert_eq!(rates.clone().best(&again), best);
    assert_eq!(again.best(&rates), best);
    assert!(is_launch_bound(3.0, 1, 2.0) && !is_launch_bound(3.1, 1, 2.0));
    assert!(is_launch_bound(6.0, 2, 2.0), "two launches, little more");
}

#[test]
fn what_is_nearly_too_good_is_timed_again_and_has_to_hold() {
    let comparison = |outcome, interval: [f64; 2]| Comparison {
        outcome,
        ratio: (interval[0] * interval[1]).sqrt(),
        interval,
    };
    let floor = |found_us: f64| Floor {
        case: "large".to_owned(),
        cache: CacheState::Cold,
        us: 100.0,
        bound: Bound::Bytes,
        found_us,
        resources: Vec::new(),
    };
    let usual = comparison(Outcome::Faster, [1.19, 1.21]);
    assert_eq!(reason_to_repeat(&usual, &[]), None);
    assert_eq!(
        reason_to_repeat(&usual, &[floor(111.0), floor(500.0)]),
        None
    );
    let close = reason_to_repeat(&usual, &[floor(500.0), floor(109.0)]).unwrap();
    assert!(
        close.contains("109.00 us") && close.contains("large"),
        "{close}"
    );
    assert!(reason_to_repeat(&usual, &[floor(f64::NAN)]).is_some());
    let leap = comparison(Outcome::Faster, [3.0, 3.1]);
    assert!(
        reason_to_repeat(&leap, &[])
            .unwrap()
            .contains("times as fast")
    );
    assert!(reason_to_repeat(&comparison(Outcome::Faster, [f64::NAN; 2]), &[]).is_some());

    assert_eq!(
        ensure_repeat_agrees(&leap, &comparison(Outcome::Faster, [3.05, 3.2])),
        Ok(())
    );
    assert_eq!(
        ensure_repeat_agrees(&leap, &comparison(Outcome::Faster, [3.11, 3.2])),
        Ok(())
    );
    let gone = ensure_repeat_agrees(&leap, &comparison(Outcome::Faster, [1.0, 1.1])).unwrap_err();
    assert!(gone.contains("3.000 to 3.100"), "{gone}");
    assert!(ensure_repeat_agrees(&leap, &comparison(Outcome::Unresolved, [0.5, 4.0])).is_err());
    assert!(ensure_repeat_agrees(&leap, &comparison(Outcome::Faster, [f64::NAN; 2])).is_err());
    let slow = comparison(Outcome::NotFaster, [0.8, 0.9]);
    assert_eq!(ensure_repeat_agrees(&slow, &slow), Ok(()));
}
