//! The times of the task's baseline on this device during the last day. A candidate gains nothing
//! by slowing down the baseline that runs beside it, because the baseline is compared with these
//! times.
//!
//! They are kept in the data folder, in one file for each device, driver, task version, baseline
//! and evaluator version. Without the file only that comparison is missing. After a change that
//! makes a device slower or faster, the operator removes the folder, or waits for a day.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::statistics::{self, BaselineHistory};
use serde::{Deserialize, Serialize};

use crate::host::Host;

/// The age beyond which times do not count, because the device may have been moved, cleaned or
/// configured differently since.
const DAY: Duration = Duration::from_hours(24);
/// The folder of these files below the data folder.
const FOLDER: &str = "history";
/// The number of comparisons from which on the usual time of a case is defined.
const FEWEST: usize = 3;
/// The number of comparisons that are kept.
const MOST: usize = 256;

/// The file with the baseline's times of earlier comparisons; without a path where times are
/// modelled.
#[derive(Debug, Clone)]
pub struct HistoryFile(Option<PathBuf>);

/// One comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PastComparison {
    /// The time of the comparison, seconds since 1970.
    at: u64,
    /// Executions between two events, by case. Times of different batch sizes are not comparable.
    batches: Vec<u32>,
    /// The baseline's median time of one execution, by case, microseconds.
    us: Vec<f64>,
}

impl HistoryFile {
    /// The history of a baseline on the host's device.
    pub fn of(host: &Host, task: Digest, baseline: Digest) -> Self {
        let device = host.device();
        let whole = (
            EVALUATOR_VERSION,
            &device.uuid,
            device.driver_version,
            task,
            baseline,
        );
        let identity = Digest::of(serde_json::to_vec(&whole).expect("only text and numbers"));
        let file = host.data().join(format!("{FOLDER}/{identity}.json"));
        Self(host.is_unproved().then_some(file))
    }

    /// The usual time of each case; `None` for a case with too few comparisons.
    pub fn usual_times(&self, batches: &[u32], now: SystemTime) -> BaselineHistory {
        let entries = self.read(now);
        let same = entries.iter().filter(|entry| entry.batches == batches);
        let same = same.collect::<Vec<_>>();
        let baseline_us = (0..batches.len()).map(|case| {
            let times = same.iter().filter_map(|entry| entry.us.get(case).copied());
            let times = times.collect::<Vec<_>>();
            (times.len() >= FEWEST)
                .then(|| statistics::median(&times))
                .flatten()
        });
        BaselineHistory {
            baseline_us: baseline_us.collect(),
        }
    }

    /// Adds the times of a comparison that was not disturbed.
    pub fn add_comparison(&self, batches: Vec<u32>, us: Vec<f64>, now: SystemTime) {
        let Some(file) = &self.0 else { return };
        let mut entries = self.read(now);
        entries.push(PastComparison {
            at: seconds(now),
            batches,
            us,
        });
        let surplus = entries.len().saturating_sub(MOST);
        entries.drain(..surplus);
        let text = serde_json::to_vec(&entries).expect("only numbers");
        let folder = file.with_file_name("");
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| tempfile::NamedTempFile::new_in(&folder))
            .and_then(|place| {
                std::fs::write(place.path(), text)?;
                place.persist(file).map_err(|error| error.error)
            });
        if let Err(error) = written {
            tracing::warn!("failed to remember the baseline's time: {error}");
        }
    }

    /// The entries of the last day; empty if the file is missing or damaged.
    fn read(&self, now: SystemTime) -> Vec<PastComparison> {
        let text = self.0.as_ref().and_then(|file| std::fs::read(file).ok());
        let entries =
            text.and_then(|text| serde_json::from_slice::<Vec<PastComparison>>(&text).ok());
        let mut entries = entries.unwrap_or_default();
        let oldest = seconds(now).saturating_sub(DAY.as_secs());
        entries.retain(|entry| entry.at >= oldest && entry.us.len() == entry.batches.len());
        entries
    }
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_time_needs_three_comparisons_of_the_last_day() {
        let folder = tempfile::tempdir().unwrap();
        let history = HistoryFile(Some(folder.path().join("history/baseline.json")));
        let start = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let usual_times =
            |batches: &[u32], at: SystemTime| history.usual_times(batches, at).baseline_us;
        for (number, us) in [10.0, 12.0, 11.0].into_iter().enumerate() {
            assert_eq!(usual_times(&[1, 4], start), [None, None], "{number}");
            history.add_comparison(vec![1, 4], vec![us, 2.0], start);
        }
        assert_eq!(usual_times(&[1, 4], start), [Some(11.0), Some(2.0)]);
        assert_eq!(usual_times(&[2, 4], start), [None, None], "other batches");
        let later = start + DAY + Duration::from_secs(1);
        assert_eq!(usual_times(&[1, 4], later), [None, None], "a day later");
        std::fs::write(folder.path().join("history/baseline.json"), "damaged").unwrap();
        assert_eq!(usual_times(&[1, 4], start), [None, None]);
        assert_eq!(
            HistoryFile(None).usual_times(&[1], start).baseline_us,
            [None]
        );
    }
}
