//! Recorded search spaces: both formats give the same recording, and defective files are refused with
//! place and remedy.

use domain::recorded::Recording;
use domain::tuner::{Outcome, Point};
use serde_json::json;

/// A hand-written file in Kernel Tuner's format; its times were not measured.
const NATIVE: &str = r#"{
"device_name": "NVIDIA RTX A4000",
"kernel_name": "vector_add",
"problem_size": 1000000,
"tune_params_keys": ["width", "how", "fixed"],
"tune_params": {"width": [128, 64], "how": ["plain", "wide"], "fixed": [1]},
"objective": "time",
"cache": {
"128,plain,1": {"width": 128, "how": "plain", "fixed": 1, "time": 0.5, "times": [0.4, 0.6], "compile_time": 440.0, "verification_time": 0, "framework_time": 2.0},
"64,plain,1": {"width": 64, "how": "plain", "fixed": 1, "time": "RuntimeFailedConfig", "compile_time": 100.0},
"64,wide,1": {"width": 64, "how": "wide", "fixed": 1, "time": 0.25, "times": [0.25]}
}
}"#;

fn parse(text: &str) -> Recording {
    Recording::parse("cache.json", text).expect("the text is whole")
}

fn refusal(text: &str) -> String {
    Recording::parse("cache.json", text)
        .expect_err("the text is defective")
        .to_string()
}

fn all(recording: &Recording) -> Vec<Point> {
    (0..recording.space().len()).collect()
}

#[test]
fn a_cache_of_kernel_tuner_becomes_a_space_with_outcomes() {
    let recording = parse(NATIVE);
    assert_eq!(recording.kernel.as_deref(), Some("vector_add"));
    assert_eq!(recording.device.as_deref(), Some("NVIDIA RTX A4000"));
    let shown: Vec<(String, Outcome)> = all(&recording)
        .into_iter()
        .map(|point| (recording.describe(point), recording.outcome(point)))
        .collect();
    let expected = [
        ("how=plain width=64".to_owned(), Outcome::Invalid),
        ("how=plain width=128".to_owned(), Outcome::Valid(0.5)),
        ("how=wide width=64".to_owned(), Outcome::Valid(0.25)),
    ];
    assert_eq!(shown, expected);
    assert_eq!((recording.optimum_ms(), recording.failed()), (0.25, 1));
    assert_eq!(recording.evaluation_ms(1), 443.0);
    assert_eq!(recording.values(2)["how"], "wide");
}

#[test]
fn the_t4_form_gives_the_same_space() {
    let native = parse(NATIVE);
    let t4 = native.to_t4(&all(&native));
    let read = parse(&t4.to_string());
    assert_eq!(read.to_t4(&all(&read)), t4);
    for point in all(&native) {
        assert_eq!(read.describe(point), native.describe(point));
        assert_eq!(read.outcome(point), native.outcome(point));
        assert_eq!(read.evaluation_ms(point), native.evaluation_ms(point));
    }
    assert_eq!(t4["results"][0]["invalidity"], json!("runtime"));
    assert_eq!(t4["results"][2]["times"]["runtimes"], json!([0.25]));
    let chosen = native.to_t4(&[2]);
    assert_eq!(chosen["results"].as_array().unwrap().len(), 1);
}

#[test]
fn a_session_that_did_not_end_is_read() {
    let unfinished = NATIVE.trim_end_matches("\n}\n}");
    assert_eq!(parse(unfinished), parse(NATIVE));
    assert_eq!(parse(&format!("{unfinished},")), parse(NATIVE));
}

#[test]
fn times_in_other_units_are_refused() {
    let mut t4 = parse(NATIVE).to_t4(&[2]);
    t4["metadata"]["timeunit"] = json!("seconds");
    let refused = refusal(&t4.to_string());
    assert!(
        refused.contains("\"seconds\" is not read (convert"),
        "{refused}"
    );
    t4["metadata"]["timeunit"] = json!("miliseconds");
    assert_eq!(parse(&t4.to_string()).optimum_ms(), 0.25);
}

#[test]
fn defective_files_are_refused_with_place_and_remedy() {
    let without = |from: &str, to: &str| {
        assert!(NATIVE.contains(from), "{from}");
        refusal(&NATIVE.replacen(from, to, 1))
    };
    let cut = &NATIVE[..NATIVE.find("\"times\": [0.4").unwrap() + 12];
    for (refused, parts) in [
        (
            refusal("kernel"),
            vec!["cache.json:1:", "not JSON", "give a cache file"],
        ),
        (refusal(""), vec!["ends early", "again"]),
        (refusal(cut), vec!["cache.json:9:", "ends early"]),
        (
            refusal("{\"a\": 1}"),
            vec!["the schema is unknown", "tune_params_keys", "results"],
        ),
        (refusal("[1]"), vec!["the schema is unknown"]),
        (
            refusal("{\"schema_version\": \"2.0.0\", \"results\": []}"),
            vec!["\"2.0.0\" is unknown", "version 1"],
        ),
        (
            refusal("{\"schema_version\": \"1.0.0\", \"results\": []}"),
            vec!["there is no configuration"],
        ),
        (
            refusal("{\"tune_params_keys\": [], \"cache\": {}}"),
            vec!["there is no configuration"],
        ),
        (
            without("\"time\": 0.25", "\"time\": NaN"),
            vec!["cache.json:11:", "not a number"],
        ),
        (
            without("\"time\": 0.25", "\"time\": -1"),
            vec!["\"64,wide,1\" has the time -1", "leave it out"],
        ),
        (
            without("\"time\": 0.25, ", ""),
            vec!["\"64,wide,1\" has the time null"],
        ),
        (
            without(
                "\"64,wide,1\": {\"width\": 64, \"how\": \"wide\"",
                "\"64,plain,1\": {\"width\": 64, \"how\": \"plain\"",
            ),
            vec!["repeats configuration \"64,plain,1\"", "keep one"],
        ),
        (
            without("\"how\": \"wide\", ", ""),
            vec!["no value for \"how\""],
        ),
        (
            without("\"how\": \"wide\"", "\"how\": [1]"),
            vec!["no single value for \"how\""],
        ),
        (
            refusal(&NATIVE.replace("\"time\": 0", "\"time\": \"InvalidConfig\", \"was\": 0")),
            vec!["all failed"],
        ),
    ] {
        for part in parts {
            assert!(refused.contains(part), "{part:?} is missing in: {refused}");
        }
    }
}
