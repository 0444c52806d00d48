//! Kernel Tuner's cache files: every configuration of a kernel that was timed, with its times.
//!
//! The format is Kernel Tuner's own (`kernel_tuner.util.process_cache`): one JSON object whose
//! `cache` maps the values of a configuration, joined by commas, to an object with these values
//! by name and the mean `time` in milliseconds. A tuning session appends to the file and closes
//! it only in the end, so that the last braces may be missing and a comma may be left over. A
//! configuration that failed has a word, such as `"InvalidConfig"`, or a huge number in place of
//! its time.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::json_error;

/// Times at or beyond this, milliseconds, stand for a failure.
const NO_TIME: f64 = 1e15;

/// A cache file.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// The device that was tuned for, in its driver's words.
    pub device: String,
    /// The kernel.
    pub kernel: String,
    /// The problem's extents; empty where the file does not say.
    pub problem: Vec<u64>,
    /// The tunables' names, in the order of the keys.
    pub tunables: Vec<String>,
    /// The configurations in the file's order.
    pub configurations: Vec<Recorded>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its key.
    pub key: String,
    /// Values by tunable, as source text.
    pub values: BTreeMap<String, String>,
    /// The mean time, milliseconds; none where it failed.
    pub time_ms: Option<f64>,
}

/// Errors of reading a cache file.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It is no JSON, not even an unfinished one.
    #[error("read the cache file as JSON: {0}")]
    Json(String),
    /// A configuration lacks one of its tunables.
    #[error("read the cache file: configuration {key:?} has no {tunable:?}")]
    Incomplete {
        /// Its key.
        key: String,
        /// The tunable that is missing.
        tunable: String,
    },
}

#[derive(Deserialize)]
struct File {
    device_name: String,
    kernel_name: String,
    #[serde(default)]
    problem_size: Option<Extents>,
    tune_params_keys: Vec<String>,
    cache: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Extents {
    One(u64),
    Several(Vec<u64>),
    /// Such as an expression in the tunables.
    Other(#[expect(dead_code, reason = "anything else is not used")] Value),
}

impl Cache {
    /// Reads a cache file, closed or not.
    ///
    /// # Errors
    /// A [`CacheError`] that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, CacheError> {
        let file = match serde_json::from_str::<File>(text) {
            Ok(file) => file,
            // The first error is shown, because it describes the file as it is on disk.
            Err(error) => serde_json::from_str(&closed(text))
                .map_err(|_| CacheError::Json(json_error::describe(&error.to_string())))?,
        };
        let configurations = file
            .cache
            .into_iter()
            .map(|(key, entry)| recorded(key, &entry, &file.tune_params_keys))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            device: file.device_name,
            kernel: file.kernel_name,
            problem: match file.problem_size {
                Some(Extents::One(extent)) => vec![extent],
                Some(Extents::Several(extents)) => extents,
                Some(Extents::Other(_)) | None => Vec::new(),
            },
            tunables: file.tune_params_keys,
            configurations,
        })
    }
}

/// The text with the end that an unfinished session did not write.
fn closed(text: &str) -> String {
    format!("{}\n}}\n}}", text.trim_end().trim_end_matches(','))
}

fn recorded(key: String, entry: &Value, tunables: &[String]) -> Result<Recorded, CacheError> {
    let values = tunables
        .iter()
        .map(|tunable| match entry.get(tunable) {
            Some(Value::String(text)) => Ok((tunable.clone(), text.clone())),
            Some(value) => Ok((tunable.clone(), value.to_string())),
            None => Err(CacheError::Incomplete {
                key: key.clone(),
                tunable: tunable.clone(),
            }),
        })
        .collect::<Result<_, _>>()?;
    let time_ms = entry
        .get("time")
        .and_then(Value::as_f64)
        .filter(|time| *time > 0.0 && *time < NO_TIME);
    Ok(Recorded {
        key,
        values,
        time_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hand-written file in the format of Kernel Tuner; its times were not measured.
    const MADE_UP: &str = r#"{
"device_name": "NVIDIA RTX A4000",
"kernel_name": "vector_add",
"problem_size": 1000000,
"tune_params_keys": ["block_size_x", "how"],
"tune_params": {"block_size_x": [128, 256], "how": ["plain", "wide"]},
"objective": "time",
"cache": {
"128,plain": {"block_size_x": 128, "how": "plain", "time": 0.5, "times": [0.4, 0.6], "compile_time": 440.9},
"256,plain": {"block_size_x": 256, "how": "plain", "time": "InvalidConfig", "compile_time": 0},
"128,wide": {"block_size_x": 128, "how": "wide", "time": 1e20},"#;

    #[test]
    fn files_are_read_whether_the_session_ended_or_not() {
        let whole = format!("{}\n}}\n}}", MADE_UP.trim_end_matches(','));
        let cache = Cache::parse(&whole).unwrap();
        assert_eq!(cache.device, "NVIDIA RTX A4000");
        assert_eq!(cache.kernel, "vector_add");
        assert_eq!(cache.problem, [1_000_000]);
        let times: Vec<Option<f64>> = cache
            .configurations
            .iter()
            .map(|recorded| recorded.time_ms)
            .collect();
        assert_eq!(times, [Some(0.5), None, None]);
        assert_eq!(cache.configurations[0].values["how"], "plain");
        assert_eq!(cache.configurations[0].values["block_size_x"], "128");

        for unfinished in [
            MADE_UP.to_owned(),
            format!("{MADE_UP}\n"),
            whole[..whole.len() - 4].to_owned(),
        ] {
            assert_eq!(Cache::parse(&unfinished).unwrap(), cache);
        }
    }

    #[test]
    fn problems_have_any_number_of_extents_or_none_that_is_known() {
        let with = |problem: &str| {
            let text = MADE_UP.replace("\"problem_size\": 1000000,", problem);
            Cache::parse(&text).unwrap().problem
        };
        assert_eq!(with("\"problem_size\": [4096, 2048],"), [4096, 2048]);
        assert_eq!(with(""), [0_u64; 0]);
        assert_eq!(with("\"problem_size\": [\"n\"],"), [0_u64; 0]);
    }

    #[test]
    fn what_is_no_cache_is_refused_with_its_place() {
        let refused = Cache::parse("{\"device_name\": 1}").unwrap_err();
        assert!(refused.to_string().contains("JSON"), "{refused}");
        let missing = MADE_UP.replacen("\"how\": \"plain\", ", "", 1);
        let refused = Cache::parse(&missing).unwrap_err().to_string();
        assert!(
            refused.contains("\"128,plain\" has no \"how\""),
            "{refused}"
        );
    }
}
