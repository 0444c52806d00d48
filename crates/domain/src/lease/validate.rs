//! Bounds on everything that a worker sends, checked where it comes in.
//!
//! A worker reports texts, counts and times that a candidate influences, and a worker may be defective.
//! A message that passes can be stored, shown, and put into JSON and into a commit. Texts and counts are checked
//! in every field of a message, because the message is walked in its JSON form; times are checked by
//! type.

use serde::Serialize;
use serde_json::Value;

use super::{Registration, Renewal, Report, ReportOutcome};
use crate::evaluation::Evaluation;
use crate::health::HealthReport;
use crate::model::Dollars;
use crate::problem::{Problem, Problems};
use crate::timing::{MAX_TIME_US, MIN_TIME_US, Timing, is_valid_time};

/// The longest text of a message in bytes: ten sentences of the evaluator.
pub const MAX_TEXT_BYTES: usize = 8 << 10;
/// The longest name in bytes: of a stage, a case, a tensor, a kernel, a device or a tool.
pub const MAX_NAME_BYTES: usize = 256;
/// The most elements of one list or map of a message.
pub const MAX_ITEMS: usize = 16 << 10;
/// The highest price of a machine's hour.
const MAX_HOUR_PRICE: Dollars = Dollars::from_nanos(10_000_000_000_000);
/// The fields that hold a name.
const NAMES: [&str; 17] = [
    "bottleneck",
    "buffer",
    "case",
    "device",
    "distribution",
    "gate",
    "kernel",
    "label",
    "name",
    "opcode",
    "phase",
    "resource",
    "stage",
    "tensor",
    "tool",
    "toolchain",
    "uuid",
];
/// The largest ratio of two times, either way.
const MAX_RATIO: f64 = MAX_TIME_US / MIN_TIME_US;
/// The most violations that are listed.
const MAX_PROBLEMS: usize = 20;

impl Registration {
    /// Checks the bounds on every field.
    ///
    /// # Errors
    /// Every field out of bounds.
    pub fn validate(&self) -> Result<(), Problems> {
        let mut violations = Violations::of("registration", self);
        if let Some(price) = self.dollars_per_hour
            && price > MAX_HOUR_PRICE
        {
            violations.add(
                format!("a price of {price} an hour; at most {MAX_HOUR_PRICE} is accepted"),
                "send the price of one hour of one machine",
            );
        }
        violations.finish()
    }
}

impl Renewal {
    /// Checks the bounds on every field.
    ///
    /// # Errors
    /// Every field out of bounds.
    pub fn validate(&self) -> Result<(), Problems> {
        Violations::of("renewal", self).finish()
    }
}

impl HealthReport {
    /// Checks the bounds on every field.
    ///
    /// # Errors
    /// Every field out of bounds.
    pub fn validate(&self) -> Result<(), Problems> {
        Violations::of("health report", self).finish()
    }
}

impl Report {
    /// Checks the bounds on every field, and on every time and ratio of a verdict.
    ///
    /// # Errors
    /// Every field out of bounds.
    pub fn validate(&self) -> Result<(), Problems> {
        let mut violations = Violations::of("report", self);
        if let ReportOutcome::Evaluated { evaluation } = &self.outcome {
            violations.check_evaluation(evaluation);
        }
        violations.finish()
    }
}

/// The violations found in one message.
struct Violations {
    message: &'static str,
    found: Vec<Problem>,
}

impl Violations {
    fn of(message: &'static str, value: &impl Serialize) -> Self {
        let mut violations = Self {
            message,
            found: Vec::new(),
        };
        let value = serde_json::to_value(value).expect("a message has only string keys");
        violations.check_value("", &value);
        violations
    }

    fn finish(self) -> Result<(), Problems> {
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(Problems(self.found))
        }
    }

    fn add(&mut self, message: String, fix: &'static str) {
        if self.found.len() < MAX_PROBLEMS {
            self.found.push(Problem::whole(self.message, message, fix));
        }
    }

    fn check_text(&mut self, field: &str, text: &str) {
        let most = if NAMES.contains(&field) {
            MAX_NAME_BYTES
        } else {
            MAX_TEXT_BYTES
        };
        if text.len() > most {
            let field = if field.len() > MAX_NAME_BYTES {
                "a name"
            } else {
                field
            };
            self.add(
                format!(
                    "{field} has {} bytes; at most {most} are accepted",
                    text.len()
                ),
                "send a shorter text",
            );
        }
    }

    fn check_count(&mut self, field: &str, count: usize) {
        if count > MAX_ITEMS {
            self.add(
                format!("{field} has {count} elements; at most {MAX_ITEMS} are accepted"),
                "send fewer",
            );
        }
    }

    fn check_value(&mut self, field: &str, value: &Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.check_text(field, text),
            Value::Array(items) => {
                self.check_count(field, items.len());
                for item in items {
                    self.check_value(field, item);
                }
            }
            Value::Object(fields) => {
                self.check_count(field, fields.len());
                for (key, value) in fields {
                    self.check_text("name", key);
                    self.check_value(key, value);
                }
            }
        }
    }

    fn check_evaluation(&mut self, evaluation: &Evaluation) {
        if let Some(acceptance) = evaluation.verdict.acceptance() {
            self.check_timing("timing", &acceptance.timing);
            if let Some(comparison) = &acceptance.comparison {
                self.check_ratio("comparison.ratio", comparison.ratio);
            }
        }
        if let Some(measurement) = &evaluation.measurement {
            self.check_timing(
                "measurement.incumbent_timing",
                &measurement.incumbent_timing,
            );
            self.check_ratio("measurement.anchor.ratio", measurement.anchor.ratio);
            if let Some(timing) = &measurement.anchor.timing {
                self.check_timing("measurement.anchor.timing", timing);
            }
        }
        for stage in &evaluation.stages {
            let ms = stage.milliseconds;
            if !(0.0..=MAX_TIME_US / 1e3).contains(&ms) {
                self.add(
                    format!("a stage of {ms} ms"),
                    "send a wall time from 0 to one day",
                );
            }
        }
    }

    fn check_timing(&mut self, field: &str, timing: &Timing) {
        match timing {
            Timing::Measured { cases, unscored } => {
                for time in cases.iter().chain(unscored) {
                    self.check_time(field, time.median_us);
                    for quartile in time.quartiles_us {
                        self.check_time(field, quartile);
                    }
                }
            }
            Timing::Modelled {
                cases, unscored, ..
            } => {
                for time in cases.iter().chain(unscored) {
                    self.check_time(field, time.us);
                    for launch in &time.launches {
                        self.check_time(field, launch.us);
                    }
                }
            }
        }
    }

    fn check_time(&mut self, field: &str, us: f64) {
        if !is_valid_time(us) {
            self.add(
                format!("{field} holds a time of {us:e} us"),
                "send times from 0.001 us to one day",
            );
        }
    }

    fn check_ratio(&mut self, field: &str, ratio: f64) {
        if !(1.0 / MAX_RATIO..=MAX_RATIO).contains(&ratio) {
            self.add(
                format!("{field} is {ratio:e}"),
                "send the ratio of two valid times",
            );
        }
    }
}
