//! Reading both formats into one.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value, json};

use super::{Axis, Recorded, Recording};
use crate::problem::Problem;

/// Times at or beyond this, milliseconds, stand for a failure in Kernel Tuner's files.
const NO_TIME: f64 = 1e15;

const KNOWN_SCHEMAS: &str = "give a cache file of Kernel Tuner, which has the keys `tune_params_keys` and `cache`, or a T4 file, which has `schema_version` and `results`";
const RECORD_AGAIN: &str = "record it again, write the reason of its failure, or leave it out";

/// The keys of both formats.
#[derive(Deserialize)]
struct File {
    device_name: Option<String>,
    kernel_name: Option<String>,
    tune_params_keys: Option<Vec<String>>,
    cache: Option<Pairs>,
    schema_version: Option<String>,
    metadata: Option<Map<String, Value>>,
    results: Option<Vec<Map<String, Value>>>,
}

/// The members of an object in the order of the file, repeated keys included.
struct Pairs(Vec<(String, Map<String, Value>)>);

/// A configuration before the axes are known.
struct Draft {
    /// The name that messages use.
    label: String,
    time_ms: Option<f64>,
    result: Map<String, Value>,
}

pub(super) fn recording(file: &str, text: &str) -> Result<Recording, Problem> {
    let whole = |message: String, fix: &str| Problem::whole(file, message, fix);
    let parsed = match serde_json::from_str::<File>(text) {
        Ok(parsed) => parsed,
        // A tuning session that did not end leaves the last braces out.
        Err(error) => serde_json::from_str(&close(text)).map_err(|_| refuse(file, text, &error))?,
    };
    let drafts = match (parsed.cache, parsed.tune_params_keys, parsed.results) {
        (Some(cache), Some(tunables), _) => cache
            .0
            .into_iter()
            .map(|(key, entry)| native(&key, entry, &tunables))
            .collect::<Result<Vec<_>, _>>(),
        (_, _, Some(results)) => {
            let version = parsed.schema_version.unwrap_or_default();
            if !version.starts_with("1.") {
                return Err(whole(
                    format!("the schema version {version:?} is unknown"),
                    "give a T4 file of version 1",
                ));
            }
            if let Some(unit) = foreign_unit(parsed.metadata.as_ref()) {
                return Err(whole(
                    format!("the time unit {unit:?} is not read"),
                    "convert all times to milliseconds and write `milliseconds`",
                ));
            }
            let numbered = results.into_iter().enumerate();
            numbered.map(|(at, result)| t4(at, result)).collect()
        }
        _ => return Err(whole("the schema is unknown".to_owned(), KNOWN_SCHEMAS)),
    }
    .map_err(|message| whole(message, RECORD_AGAIN))?;
    if drafts.is_empty() {
        return Err(whole(
            "there is no configuration".to_owned(),
            "record at least one configuration",
        ));
    }
    if drafts.iter().all(|draft| draft.time_ms.is_none()) {
        return Err(whole(
            "no configuration has a time, all failed".to_owned(),
            "record at least one configuration that runs",
        ));
    }
    let (axes, configurations) = arrange(drafts).map_err(|message| {
        whole(
            message,
            "keep one entry for each configuration, with a value for each tunable",
        )
    })?;
    Ok(Recording {
        kernel: parsed.kernel_name,
        device: parsed.device_name,
        axes,
        configurations,
    })
}

/// The text with the end that an unfinished session did not write.
fn close(text: &str) -> String {
    format!("{}\n}}\n}}", text.trim_end().trim_end_matches(','))
}

/// The problem of a text that cannot be parsed, with its place.
fn refuse(file: &str, text: &str, error: &serde_json::Error) -> Problem {
    let line = u32::try_from(error.line()).unwrap_or(u32::MAX);
    let column = u32::try_from(error.column()).unwrap_or(u32::MAX);
    let around = text
        .lines()
        .nth(error.line().saturating_sub(1))
        .and_then(|line| line.get(error.column().saturating_sub(3)..))
        .unwrap_or_default();
    let start: String = around.chars().take(12).collect();
    let (message, fix) = if start.contains("NaN") || start.contains("Inf") {
        (
            "the value is not a number that JSON knows".to_owned(),
            RECORD_AGAIN,
        )
    } else {
        let shown = error.to_string();
        let reason = shown
            .split(" at line ")
            .next()
            .unwrap_or_default()
            .to_owned();
        match error.classify() {
            Category::Data => (format!("the schema is unknown: {reason}"), KNOWN_SCHEMAS),
            Category::Eof => (
                format!("the JSON text ends early: {reason}"),
                "copy or record the file again",
            ),
            _ => (format!("the text is not JSON: {reason}"), KNOWN_SCHEMAS),
        }
    };
    Problem {
        line,
        column,
        ..Problem::whole(file, message, fix)
    }
}

/// An entry of Kernel Tuner's cache.
fn native(key: &str, mut entry: Map<String, Value>, tunables: &[String]) -> Result<Draft, String> {
    let label = format!("configuration {key:?}");
    let mut configuration = Map::new();
    for tunable in tunables {
        let value = entry
            .remove(tunable)
            .ok_or_else(|| format!("{label} has no value for {tunable:?}"))?;
        configuration.insert(tunable.clone(), value);
    }
    let time = entry.remove("time").unwrap_or(Value::Null);
    let word = match (&time, entry.get("__error__")) {
        (_, Some(Value::String(word))) | (Value::String(word), _) => Some(word.clone()),
        (time, _) if time.as_f64().is_some_and(|time| time >= NO_TIME) => {
            Some("InvalidConfig".to_owned())
        }
        _ => None,
    };
    let time_ms = match &word {
        Some(_) => None,
        None => Some(positive(&label, &time)?),
    };
    let invalidity = match word.as_deref() {
        None => "correct",
        Some("CompilationFailedConfig") => "compile",
        Some("InvalidConfig") => "constraints",
        Some(_) => "runtime",
    };
    let mut times = Map::new();
    for (own, theirs) in [
        ("compilation", "compile_time"),
        ("framework", "framework_time"),
        ("search_algorithm", "strategy_time"),
        ("validation", "verification_time"),
        ("runtimes", "times"),
    ] {
        if let Some(value) = entry.remove(theirs) {
            times.insert(own.to_owned(), value);
        }
    }
    let result = json!({
        "timestamp": entry.remove("timestamp"),
        "configuration": configuration,
        "times": times,
        "invalidity": invalidity,
        "correctness": u8::from(word.is_none()),
        "measurements": [{ "name": "time", "value": time, "unit": "" }],
        "objectives": ["time"],
    });
    let Value::Object(result) = result else {
        unreachable!("the macro was given an object");
    };
    Ok(Draft {
        label,
        time_ms,
        result,
    })
}

/// An element of T4's `results`.
fn t4(at: usize, result: Map<String, Value>) -> Result<Draft, String> {
    let label = format!("results[{at}]");
    let invalidity = result.get("invalidity").and_then(Value::as_str);
    let time_ms = match invalidity {
        None => return Err(format!("{label} has no `invalidity`")),
        Some("correct") => {
            let measured = result.get("measurements").and_then(Value::as_array);
            let time = measured
                .into_iter()
                .flatten()
                .find(|measured| measured.get("name").and_then(Value::as_str) == Some("time"))
                .and_then(|measured| measured.get("value"))
                .ok_or_else(|| format!("{label} has no measurement of the name `time`"))?;
            Some(positive(&label, time)?)
        }
        Some(_) => None,
    };
    if !result.get("configuration").is_some_and(Value::is_object) {
        return Err(format!("{label} has no `configuration`"));
    }
    Ok(Draft {
        label,
        time_ms,
        result,
    })
}

/// The unit of time of a T4 file, if it is not the millisecond; the spelling with one l is the
/// community's own.
fn foreign_unit(metadata: Option<&Map<String, Value>>) -> Option<&str> {
    let unit = metadata?.get("timeunit")?.as_str()?;
    (!["miliseconds", "milliseconds", "ms"].contains(&unit)).then_some(unit)
}

fn positive(label: &str, time: &Value) -> Result<f64, String> {
    match time.as_f64() {
        Some(value) if value > 0.0 => Ok(value),
        _ => Err(format!(
            "{label} has the time {time}, which is not a positive number"
        )),
    }
}

/// The axes that the configurations span, and the configurations in the order of their choices.
fn arrange(drafts: Vec<Draft>) -> Result<(Vec<Axis>, Vec<Recorded>), String> {
    let values_of = |draft: &Draft| match draft.result.get("configuration") {
        Some(Value::Object(values)) => values.clone(),
        _ => Map::new(),
    };
    let mut names: Vec<String> = values_of(&drafts[0]).keys().cloned().collect();
    names.sort();
    let mut axes: Vec<Axis> = Vec::new();
    for name in &names {
        let mut values: Vec<Value> = Vec::new();
        for draft in &drafts {
            let Some(Value::Object(own)) = draft.result.get("configuration") else {
                continue;
            };
            let value = own
                .get(name)
                .ok_or_else(|| format!("{} has no value for {name:?}", draft.label))?;
            if own.len() != names.len() {
                return Err(format!("{} has other tunables than the first", draft.label));
            }
            if value.is_array() || value.is_object() || value.is_null() {
                return Err(format!("{} has no single value for {name:?}", draft.label));
            }
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        values.sort_by(|one, other| {
            let number = |value: &Value| value.as_f64().unwrap_or(f64::INFINITY);
            let numbers = number(one).total_cmp(&number(other));
            numbers.then_with(|| one.to_string().cmp(&other.to_string()))
        });
        if values.len() > usize::from(u16::MAX) {
            return Err(format!(
                "{name:?} has {} values, the most are 65,535",
                values.len()
            ));
        }
        axes.push(Axis {
            name: name.clone(),
            values,
        });
    }
    let mut labels: HashMap<Vec<u16>, String> = HashMap::new();
    let mut configurations = Vec::new();
    for draft in drafts {
        let values = values_of(&draft);
        let mut choices = Vec::new();
        for axis in &axes {
            let at = axis
                .values
                .iter()
                .position(|value| Some(value) == values.get(&axis.name));
            choices.push(
                u16::try_from(at.expect("the axes hold every value")).expect("limited above"),
            );
        }
        if let Some(earlier) = labels.insert(choices.clone(), draft.label.clone()) {
            return Err(format!("{} repeats {earlier}", draft.label));
        }
        configurations.push(Recorded {
            choices,
            time_ms: draft.time_ms,
            result: draft.result,
        });
    }
    configurations.sort_by(|one, other| one.choices.cmp(&other.choices));
    Ok((axes, configurations))
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of configurations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
