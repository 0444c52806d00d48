//! Search spaces that another tuner has measured, read from its files and replayed without a device.
//!
//! Two formats are read: the cache files of Kernel Tuner (`kernel_tuner.util.process_cache`) and the
//! T4 results format of the autotuning community. The same measurements give the same [`Recording`]
//! in both, because axes are ordered by name and configurations by their choices. T4 is written.

mod read;

use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::tuner::{Outcome, Point, Space};

/// Configurations of one kernel on one device, with their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The kernel, where the file says it.
    pub kernel: Option<String>,
    /// The device, where the file says it.
    pub device: Option<String>,
    axes: Vec<Axis>,
    configurations: Vec<Recorded>,
}

/// One tunable.
#[derive(Debug, Clone, PartialEq)]
struct Axis {
    name: String,
    /// Values in ascending order, numbers before texts.
    values: Vec<Value>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq)]
struct Recorded {
    choices: Vec<u16>,
    /// Mean time, milliseconds; none where it failed.
    time_ms: Option<f64>,
    /// The configuration as an element of T4's `results`.
    result: Map<String, Value>,
}

impl Recording {
    /// Reads a cache file of Kernel Tuner or a T4 file, from its text. `file` is the name that a
    /// [`Problem`] shows.
    ///
    /// # Errors
    /// A [`Problem`] where the text is not JSON, has neither schema, holds no configuration with a
    /// time, lists one twice, or gives one neither a positive time nor a reason for its failure.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        read::recording(file, text)
    }

    /// The space of the recorded configurations; a point is a position in the recording.
    pub fn space(&self) -> Space {
        let axes = self.axes.iter().map(Axis::numbers).collect();
        let points = self.configurations.iter().map(|one| one.choices.clone());
        Space::new(axes, points).expect("configurations were checked when they were read")
    }

    /// The recorded outcome of a configuration; its cost is the mean time in milliseconds.
    pub fn outcome(&self, point: Point) -> Outcome {
        match self.configurations[point].time_ms {
            Some(time) => Outcome::Valid(time),
            None => Outcome::Invalid,
        }
    }

    /// The least time of all configurations, milliseconds.
    pub fn optimum_ms(&self) -> f64 {
        let times = self.configurations.iter().filter_map(|one| one.time_ms);
        times.fold(f64::INFINITY, f64::min)
    }

    /// Number of configurations that failed.
    pub fn failed(&self) -> usize {
        let failed = |one: &&Recorded| one.time_ms.is_none();
        self.configurations.iter().filter(failed).count()
    }

    /// Recorded time of evaluating a configuration, milliseconds: compilation, validation, the
    /// tuner's own work, and all timed executions.
    pub fn evaluation_ms(&self, point: Point) -> f64 {
        let Some(Value::Object(times)) = self.configurations[point].result.get("times") else {
            return 0.0;
        };
        let total = |value: &Value| match value {
            Value::Array(all) => all.iter().filter_map(Value::as_f64).sum(),
            one => one.as_f64().unwrap_or(0.0),
        };
        times.values().map(total).sum()
    }

    /// The values of a configuration by tunable, a JSON object.
    pub fn values(&self, point: Point) -> &Value {
        &self.configurations[point].result["configuration"]
    }

    /// A configuration as `name=value` pairs, without the tunables that have one value only.
    pub fn describe(&self, point: Point) -> String {
        let chosen = self.axes.iter().zip(&self.configurations[point].choices);
        let varied = chosen.filter(|(axis, _)| axis.values.len() > 1);
        let pairs = varied.map(|(axis, choice)| {
            let value = match &axis.values[usize::from(*choice)] {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            format!("{}={value}", axis.name)
        });
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// Some configurations as a T4 file, in the given order.
    pub fn to_t4(&self, points: &[Point]) -> Value {
        let results = points
            .iter()
            .map(|point| &self.configurations[*point].result);
        json!({
            "schema_version": "1.0.0",
            "metadata": { "timeunit": "milliseconds" },
            "results": results.collect::<Vec<_>>(),
        })
    }
}

impl Axis {
    /// A number for every value: the value itself, or its position where one is a text.
    fn numbers(&self) -> Vec<f64> {
        let number = |value: &Value| match value {
            Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
            value => value.as_f64(),
        };
        let numbers: Option<Vec<f64>> = self.values.iter().map(number).collect();
        numbers.unwrap_or_else(|| (0..self.values.len()).map(|at| at as f64).collect())
    }
}
