//! The limit on the workspaces of a plan.
//!
//! Before every execution workspaces are poisoned, and afterwards compared. On the emulated device
//! they are memory of this machine, and a candidate that asks for a quarter of a gigabyte beside a
//! few kilobytes of tensors keeps it busy for minutes.

use domain::device::DeviceKind;

/// The limit on the emulated device where tensors are small: all workspaces together, bytes.
const SMALL: u64 = 64 << 20;
/// The limit on the emulated device otherwise: this many times the bytes of the case's tensors.
const TIMES: u64 = 16;
/// The share of device memory, as a divisor, that workspaces may take anywhere.
const SHARE: u64 = 2;

/// The reason to reject a plan for the size of its workspaces; none if they fit. Sizes are bytes: the
/// device's memory, all workspaces together, and all tensors of the case.
pub fn reject(kind: DeviceKind, memory: u64, workspaces: u64, tensors: u64) -> Option<String> {
    let share = memory / SHARE;
    let emulated = SMALL.max(tensors.saturating_mul(TIMES));
    let (most, rule) = if kind == DeviceKind::Emulated && emulated < share {
        let rule = "on the emulated device 64 MiB, or 16 times the tensors where that is more";
        (emulated, rule)
    } else {
        (share, "half of the device's memory")
    };
    (workspaces > most).then(|| {
        format!(
            "its workspaces take {workspaces} bytes together, and {most} is the most here ({rule})"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn workspaces_are_bounded_by_the_device_and_by_the_tensors() {
        for (kind, memory, tensors, most) in [
            (DeviceKind::Nvidia, 24 * GIB, 1 << 10, 12 * GIB),
            (DeviceKind::Emulated, 24 * GIB, 1 << 10, SMALL),
            (DeviceKind::Emulated, 24 * GIB, 32 << 20, 512 << 20),
            (DeviceKind::Emulated, 24 * GIB, 4 * GIB, 12 * GIB),
            (DeviceKind::Emulated, 100_000_000, 1 << 10, 50_000_000),
            (DeviceKind::Emulated, 24 * GIB, u64::MAX, 12 * GIB),
        ] {
            assert_eq!(
                reject(kind, memory, most, tensors),
                None,
                "{memory} {tensors}"
            );
            let refused = reject(kind, memory, most + 1, tensors).unwrap();
            assert!(
                refused.contains(&format!("{most} is the most")),
                "{refused}"
            );
        }
    }
}
