//! The position of a buffer inside its allocation, and the bytes around it.

use std::ops::Range;

use domain::role::Placement;

use crate::driver::Guard;

/// Bytes of secret pattern on either side of a buffer, on a device that does not check bounds.
const RED_ZONE: u64 = 4096;
/// Widest access of the emulated device in bytes; a stricter alignment of a base has no effect on it.
const WIDEST_ACCESS: u64 = 16;
/// Alignment of bases in bytes under [`Placement::Shifted`].
const SHIFT: u64 = 128;

/// The position of a buffer inside its allocation, before the allocation's address is known.
pub(super) struct Layout {
    pub(super) allocated: u64,
    bytes: u64,
    align: u64,
    front: u64,
    /// True if the base is moved until its alignment is exactly `align` and not twice that.
    is_exact: bool,
}

impl Layout {
    /// The layout for a placement, on a device that knows the ends of allocations or on one that does not.
    pub(super) fn of(placement: Placement, knows_bounds: bool, bytes: u64, align: u64) -> Self {
        match (placement, guard(placement)) {
            (_, Some(guard)) => Self::guarded(bytes, align, guard),
            (Placement::Bare, None) => Self::bare(bytes),
            (_, None) if knows_bounds => Self::exact(bytes, align, placement),
            (_, None) => Self::with_red_zones(bytes, align, placement),
        }
    }

    /// The buffer alone, whose base has the alignment of every allocation.
    fn bare(bytes: u64) -> Self {
        Self {
            allocated: bytes,
            bytes,
            align: 1,
            front: 0,
            is_exact: false,
        }
    }

    /// Pattern on both sides, and room to move the base to exactly its alignment.
    fn with_red_zones(bytes: u64, align: u64, placement: Placement) -> Self {
        let align = exact_alignment(align, placement);
        Self {
            allocated: bytes.saturating_add(2 * RED_ZONE + 2 * align),
            bytes,
            align,
            front: RED_ZONE,
            is_exact: placement != Placement::Allocated,
        }
    }

    /// The buffer next to a guard, with no more bytes between them than the alignment demands, and pattern on the
    /// other side.
    fn guarded(bytes: u64, align: u64, guard: Guard) -> Self {
        let align = align.max(1);
        let held = bytes.next_multiple_of(align);
        Self {
            allocated: held.saturating_add(RED_ZONE),
            bytes,
            align,
            front: match guard {
                Guard::Before => 0,
                Guard::Behind => RED_ZONE,
            },
            is_exact: false,
        }
    }

    /// For a device that knows the end of each allocation: no byte after the buffer, and none before it unless its
    /// base is to have less than an allocation's alignment.
    fn exact(bytes: u64, align: u64, placement: Placement) -> Self {
        let align = exact_alignment(align, placement);
        let front = match placement {
            Placement::Weakest | Placement::Shifted => align,
            Placement::Allocated => 0,
            _ if align < WIDEST_ACCESS => align,
            _ => 0,
        };
        Self {
            allocated: bytes.saturating_add(front),
            bytes,
            align,
            front,
            is_exact: front > 0,
        }
    }

    /// The part of an allocation at `base` that the buffer occupies.
    pub(super) fn position(&self, base: u64) -> Range<usize> {
        let latest = self.allocated - self.bytes;
        let weak = |start: &u64| {
            let address = base + start;
            address.is_multiple_of(self.align) && !address.is_multiple_of(2 * self.align)
        };
        let weakest = (self.front..=latest).find(weak);
        let start = weakest.filter(|_| self.is_exact).unwrap_or(self.front);
        let index = |offset: u64| usize::try_from(offset).expect("the allocation was made");
        index(start)..index(start + self.bytes)
    }
}

/// The guard of a placement.
pub(super) fn guard(placement: Placement) -> Option<Guard> {
    match placement {
        Placement::GuardBehind => Some(Guard::Behind),
        Placement::GuardBefore => Some(Guard::Before),
        Placement::Ending
        | Placement::Allocated
        | Placement::Weakest
        | Placement::Shifted
        | Placement::Bare => None,
    }
}

/// The alignment that a base has exactly under a placement.
fn exact_alignment(align: u64, placement: Placement) -> u64 {
    match placement {
        Placement::Shifted => align.max(SHIFT),
        _ => align.max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_buffer_has_exactly_its_alignment_and_pattern_on_both_sides() {
        for (align, placement) in [1, 2, 4, 16, 128, 256, 1024]
            .map(|align| (align, Placement::Weakest))
            .into_iter()
            .chain([(16, Placement::Shifted), (4, Placement::Ending)])
        {
            for base in [0x1000_0000_u64, 0x1000_0100, 0x1000_0200] {
                let layout = Layout::with_red_zones(1000, align, placement);
                let align = exact_alignment(align, placement);
                let inside = layout.position(base);
                let address = base + inside.start as u64;
                assert_eq!(address % align, 0);
                assert_ne!(address % (2 * align), 0);
                assert!(inside.start as u64 >= RED_ZONE);
                assert!(layout.allocated - inside.end as u64 >= RED_ZONE);
                assert_eq!(inside.len(), 1000);
            }
        }
    }

    #[test]
    fn an_allocated_placement_keeps_the_allocators_alignment() {
        for align in [1, 4, 16, 256] {
            let exact = Layout::exact(1000, align, Placement::Allocated);
            let inside = exact.position(0x1000_0000);
            assert_eq!((inside.start, inside.end as u64), (0, exact.allocated));
            let with_red_zones = Layout::with_red_zones(1000, align, Placement::Allocated);
            let inside = with_red_zones.position(0x1000_0000);
            assert!((inside.start as u64).is_multiple_of(256), "{align}");
            assert!(inside.start as u64 >= RED_ZONE);
            assert!(with_red_zones.allocated - inside.end as u64 >= RED_ZONE);
        }
    }

    #[test]
    fn a_guarded_buffer_ends_at_its_guard_up_to_its_alignment() {
        const UNIT: u64 = 2 << 20;
        for (bytes, align) in [(1000, 16), (1000, 1), (1024, 256), (6, 4)] {
            // The allocation ends, or begins, at a multiple of the unit.
            let layout = Layout::guarded(bytes, align, Guard::Behind);
            let base = 8 * UNIT - layout.allocated;
            let inside = layout.position(base);
            let end = base + inside.end as u64;
            assert!((base + inside.start as u64).is_multiple_of(align));
            assert!(
                8 * UNIT - end < align,
                "{bytes} {align}: {}",
                8 * UNIT - end
            );
            assert_eq!(inside.start as u64, RED_ZONE);
            let layout = Layout::guarded(bytes, align, Guard::Before);
            let inside = layout.position(8 * UNIT);
            assert_eq!(inside.start, 0);
            assert!(layout.allocated - inside.end as u64 >= RED_ZONE);
        }
    }

    #[test]
    fn an_exact_buffer_ends_with_its_allocation() {
        for align in [1, 4, 8, 16, 256] {
            let layout = Layout::exact(1000, align, Placement::Ending);
            let inside = layout.position(0x1000_0000);
            assert_eq!(inside.end as u64, layout.allocated);
            assert_eq!(inside.start as u64 % align, 0);
        }
    }

    #[test]
    fn a_weakly_aligned_buffer_ends_with_its_allocation() {
        for (placement, align, start) in [
            (Placement::Ending, 16, 0),
            (Placement::Weakest, 4, 4),
            (Placement::Weakest, 16, 16),
            (Placement::Shifted, 16, 128),
            (Placement::Shifted, 256, 256),
        ] {
            let layout = Layout::exact(1000, align, placement);
            let inside = layout.position(0x1000_0000);
            assert_eq!(inside.start, start, "{placement:?} {align}");
            assert_eq!(inside.end as u64, layout.allocated);
        }
    }
}
