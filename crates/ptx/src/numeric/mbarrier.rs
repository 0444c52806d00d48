//! The 64-bit state of an mbarrier object: pending arrivals, expected arrivals per phase, and the phase number.
//!
//! The PTX ISA does not define the layout; programs see it only as the token that an arrival returns.

const COUNT_BITS: u32 = 20;
/// Maximum number of arrivals that a phase can expect.
pub(crate) const MAX_COUNT: u64 = (1 << COUNT_BITS) - 1;
const EXPECTED: u32 = COUNT_BITS;
const PHASE: u32 = 2 * COUNT_BITS;

/// The state of an initialised object.
pub(crate) fn fresh(count: u64) -> u64 {
    count << EXPECTED | count
}

/// Pending arrivals.
pub(crate) fn pending(state: u64) -> u64 {
    state & MAX_COUNT
}

fn expected(state: u64) -> u64 {
    state >> EXPECTED & MAX_COUNT
}

fn phase(state: u64) -> u64 {
    state >> PHASE
}

/// After some arrivals; `None` if more come than the phase expects.
pub(crate) fn arrive(state: u64, count: u64, drop: bool) -> Option<u64> {
    let left = pending(state).checked_sub(count)?;
    let wanted = if drop {
        expected(state).checked_sub(count)?
    } else {
        expected(state)
    };
    let (left, turn) = if left == 0 { (wanted, 1) } else { (left, 0) };
    Some((phase(state) + turn) << PHASE | wanted << EXPECTED | left)
}

/// Reports whether the phase of a token is complete.
pub(crate) fn is_past(state: u64, token: u64) -> bool {
    phase(state) != phase(token)
}

/// Reports whether the phase of a parity is complete, that is, whether a phase of the other parity is current.
pub(crate) fn is_past_parity(state: u64, parity: u64) -> bool {
    phase(state) & 1 != parity & 1
}

/// `mbarrier.pending_count`.
pub(crate) fn pending_lane(v: [u64; 4]) -> u64 {
    pending(v[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_turn_over() {
        let start = fresh(2);
        let one = arrive(start, 1, false).unwrap();
        assert_eq!((pending(one), is_past(one, start)), (1, false));
        let two = arrive(one, 1, false).unwrap();
        assert_eq!((pending(two), is_past(two, start)), (2, true));
        assert!(is_past_parity(two, 0) && !is_past_parity(two, 1));
        // A thread that drops out is not expected in the next phase.
        let less = arrive(two, 1, true).unwrap();
        let next = arrive(less, 1, false).unwrap();
        assert_eq!(pending(next), 1);
        assert_eq!(arrive(next, 2, false), None);
    }
}
