//! `devices`: the health of a service's devices, and their rates of false positives.

use std::fmt::Write as _;

use domain::api::FleetHealth;
use domain::health::Condition;

use super::address;
use super::follow::{print, print_json};
use crate::cli::DevicesArgs;
use crate::controls;
use crate::outcome::{Ending, Outcome};
use crate::terminal::{columns, line};

pub(super) async fn devices(args: DevicesArgs) -> Ending {
    let client = address::client(&args.service)?;
    let fleet = client.devices().await?;
    if args.json {
        print_json(&fleet)?;
    } else {
        print(&report(&fleet))?;
    }
    Ok(Outcome::Accepted)
}

fn report(fleet: &FleetHealth) -> String {
    if fleet.devices.is_empty() {
        return "no worker has joined yet; start one: kernelwright worker join URL\n".to_owned();
    }
    let head = ["worker", "device", "state", "controls"].map(str::to_owned);
    let rows = fleet.devices.iter().map(|device| {
        let state = match &device.condition {
            Condition::Well => "well".to_owned(),
            Condition::Quarantined { reason } => format!("SET ASIDE: {}", line(reason, 80)),
        };
        vec![
            line(&device.worker, 30),
            line(&device.name, 40),
            state,
            controls::tally(device.kind, &device.controls),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.to_vec()).chain(rows).collect();
    let mut text = columns(&rows, 0);
    if fleet.devices.iter().any(|device| device.controls.made > 0) {
        text.push_str(
            "A control compares the incumbent with itself after one comparison in fifty; bounds are \
             one-sided at 95% and about one comparison.\n",
        );
    }
    for poison in &fleet.poison {
        let (candidate, broke) = (poison.candidate.short(), poison.broke);
        let _infallible = writeln!(
            text,
            "candidate {candidate} is lent to nobody: {broke} devices were unwell after it"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use domain::api::{DeviceView, PoisonView};
    use domain::control::{ControlResult, ControlTally};
    use domain::device::DeviceKind;
    use domain::digest::Digest;

    use super::*;

    fn device(worker: &str, condition: Condition, controls: ControlTally) -> DeviceView {
        DeviceView {
            worker: worker.to_owned(),
            uuid: "GPU-1".to_owned(),
            name: "NVIDIA L4".to_owned(),
            kind: DeviceKind::Nvidia,
            condition,
            since: DateTime::UNIX_EPOCH,
            told_at: DateTime::UNIX_EPOCH,
            controls,
        }
    }

    #[test]
    fn every_device_is_told_with_its_state_and_its_controls() {
        let sick = Condition::Quarantined {
            reason: "it forgets".to_owned(),
        };
        let counts = [(ControlResult::Level, 99), (ControlResult::Caught, 1)];
        let mut fleet = FleetHealth {
            devices: vec![device("ada", sick, ControlTally::default())],
            poison: vec![PoisonView {
                candidate: Digest::of("poison"),
                broke: 2,
            }],
        };
        let text = report(&fleet);
        assert!(text.contains("SET ASIDE: it forgets  none yet"), "{text}");
        assert!(text.contains("2 devices were unwell after it"), "{text}");
        assert!(!text.contains('%'), "{text}");
        let emulated = DeviceView {
            kind: DeviceKind::Emulated,
            ..device("cleo", Condition::Well, ControlTally::default())
        };
        fleet.devices.push(emulated);
        let text = report(&fleet);
        assert!(
            text.contains("none: modelled times have no noise"),
            "{text}"
        );
        let well = device("bob", Condition::Well, ControlTally::of(counts));
        fleet.devices.push(well);
        let text = report(&fleet);
        let told = "100: 1 screened as faster (at most 4.66%), 0 promoted (at most 2.96%)";
        assert!(text.contains(told) && text.contains("95%"), "{text}");
        fleet.devices.clear();
        assert!(report(&fleet).contains("worker join"));
    }
}
