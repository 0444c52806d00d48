//! Conflicts of accesses in shared memory, and the synchronisation that orders them.

use super::*;

fn by(warp: u32) -> Accessor {
    Accessor { warp, pc: 7 }
}

fn reading(relative: &[u64; 32], lane: u32, offset: u32) -> Reading<'_> {
    Reading {
        op: 0,
        version: 0,
        relative,
        first: offset,
        begin: offset,
        end: offset + 4,
        bytes: 4,
        mask: 1 << lane,
        checked_by_swap: false,
        data: false,
    }
}

fn write(shadow: &mut Shadow, lane: usize, offset: u32, by: Accessor) -> Option<Conflict> {
    shadow.before_write(offset, offset + 4);
    shadow.write(lane, offset, 4, false, by)
}

#[test]
fn a_barrier_orders_warps_and_nothing_else_does() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    assert_eq!(write(&mut shadow, 3, 8, by(0)), None);
    let conflict = shadow
        .read(&reading(&zero, 1, 8), by(1))
        .expect("no barrier lies between");
    assert_eq!(
        (conflict.other, conflict.same_warp, conflict.other_wrote),
        (Some(3), false, true)
    );
    shadow.block_barrier();
    assert_eq!(shadow.read(&reading(&zero, 1, 8), by(1)), None);
    let conflict = write(&mut shadow, 0, 8, by(0)).expect("the read came after the barrier");
    assert_eq!((conflict.other, conflict.other_wrote), (Some(33), false));
}

#[test]
fn a_warp_synchronisation_orders_lanes() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    assert_eq!(write(&mut shadow, 3, 8, by(0)), None);
    assert!(
        shadow
            .read(&reading(&zero, 4, 8), by(0))
            .is_some_and(|conflict| conflict.same_warp)
    );
    assert_eq!(shadow.read(&reading(&zero, 3, 8), by(0)), None);
    shadow.warp_sync(0);
    shadow.warp_sync(1);
    assert_eq!(shadow.read(&reading(&zero, 4, 8), by(0)), None);
    assert!(shadow.read(&reading(&zero, 4, 8), by(1)).is_some());
}

#[test]
fn a_hand_over_orders_those_who_take_part() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    assert_eq!(write(&mut shadow, 3, 8, by(0)), None);
    shadow.arrive(0, 100);
    assert_eq!(write(&mut shadow, 3, 12, by(0)), None);
    // The wait ends when the phase is complete, not before.
    shadow.pass_mbarrier(1, 100);
    assert!(shadow.read(&reading(&zero, 1, 8), by(1)).is_some());
    shadow.complete_phase(100);
    shadow.pass_mbarrier(1, 100);
    assert_eq!(shadow.read(&reading(&zero, 1, 8), by(1)), None);
    // Accesses after the arrival are not ordered, and a third warp did not wait.
    assert!(shadow.read(&reading(&zero, 1, 12), by(1)).is_some());
    assert!(shadow.read(&reading(&zero, 1, 8), by(2)).is_some());
    // A signal without a fence orders nothing; what the fence covered is handed on by who saw it.
    shadow.signal(1, 104);
    shadow.observe(2, 104);
    assert!(shadow.read(&reading(&zero, 1, 8), by(2)).is_some());
    shadow.fence(1);
    shadow.signal(1, 104);
    shadow.observe(2, 104);
    assert_eq!(shadow.read(&reading(&zero, 1, 8), by(2)), None);
}

#[test]
fn atomics_conflict_with_plain_accesses_only() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    shadow.before_write(0, 4);
    assert_eq!(shadow.atomic(0, 0, 4, by(0)), None);
    assert_eq!(shadow.atomic(1, 0, 4, by(1)), None);
    assert!(shadow.read(&reading(&zero, 0, 0), by(2)).is_some());
    shadow.block_barrier();
    assert_eq!(shadow.read(&reading(&zero, 0, 0), by(2)), None);
    shadow.before_write(0, 4);
    assert!(
        shadow
            .atomic(1, 0, 4, by(1))
            .is_some_and(|conflict| !conflict.other_wrote)
    );
}

#[test]
fn a_copy_in_flight_is_not_ordered_with_its_own_thread() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    shadow.before_write(0, 4);
    shadow.record_signalled_copy(5, 0, 4, by(0));
    assert!(
        shadow
            .read(&reading(&zero, 5, 0), by(0))
            .is_some_and(|conflict| conflict.in_flight)
    );
    shadow.arrive(0, 64);
    shadow.complete_phase(64);
    shadow.pass_mbarrier(0, 64);
    assert_eq!(shadow.read(&reading(&zero, 5, 0), by(0)), None);
}

#[test]
fn several_readers_all_count() {
    let zero = [0; 32];
    let mut shadow = Shadow::new(256, 4, 1);
    assert_eq!(shadow.read(&reading(&zero, 0, 0), by(0)), None);
    assert_eq!(shadow.read(&reading(&zero, 0, 0), by(1)), None);
    // Thread 32 read last, but thread 0 read as well.
    assert!(write(&mut shadow, 0, 0, by(1)).is_some());
}

#[test]
fn writing_what_is_there_already_is_no_conflict() {
    let mut shadow = Shadow::new(256, 4, 1);
    assert_eq!(write(&mut shadow, 0, 0, by(0)), None);
    shadow.before_write(0, 4);
    assert_eq!(shadow.write(1, 0, 4, true, by(0)), None);
    assert!(write(&mut shadow, 2, 0, by(0)).is_some());
}

#[test]
fn a_warp_writes_at_once_only_where_nothing_is_in_doubt() {
    let spread: [u64; 32] = std::array::from_fn(|lane| 4 * lane as u64);
    let mut shadow = Shadow::new(256, 4, 1);
    let all = |shadow: &mut Shadow, warp: u32| {
        let touched = shadow.before_write(0, 128);
        shadow.write_apart(0, &spread, 4, touched, by(warp))
    };
    assert!(all(&mut shadow, 0));
    // Its lanes have not met since, although each writes its own word again.
    assert!(!all(&mut shadow, 0));
    shadow.warp_sync(0);
    assert!(all(&mut shadow, 0));
    // Each word is its lane's: reading a neighbour's is a conflict, and so is what another warp does.
    let zero = [0; 32];
    assert!(shadow.read(&reading(&zero, 1, 8), by(0)).is_some());
    assert!(shadow.read(&reading(&zero, 1, 8), by(1)).is_some());
    shadow.warp_sync(0);
    assert!(!all(&mut shadow, 1));
    shadow.block_barrier();
    assert!(all(&mut shadow, 1));
    assert_eq!(
        shadow.read(&reading(&zero, 3, 4), by(0)).map(|c| c.other),
        Some(Some(33))
    );
}
