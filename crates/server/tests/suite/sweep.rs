//! `sweep --recorded`: the tuner on a recorded space.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A cache of 64 configurations in Kernel Tuner's format; the times are made up.
fn cache() -> String {
    let mut entries = Vec::new();
    for x in [16_i32, 32, 64, 128] {
        for y in [1_i32, 2, 4, 8] {
            for unroll in [0_i32, 1, 2, 4] {
                let time = if x * y > 256 {
                    "\"RuntimeFailedConfig\"".to_owned()
                } else {
                    let distance = f64::from((x - 64).abs()) / 16.0
                        + f64::from((y - 2).abs() + (unroll - 4).abs());
                    (1.0 + distance).to_string()
                };
                entries.push(format!(
                    "\"{x},{y},{unroll}\": {{\"x\": {x}, \"y\": {y}, \"unroll\": {unroll}, \"time\": {time}, \"compile_time\": 500}}"
                ));
            }
        }
    }
    format!(
        "{{\"device_name\": \"Handmade\", \"kernel_name\": \"made_up\", \"tune_params_keys\": [\"x\", \"y\", \"unroll\"], \"cache\": {{{}}}}}",
        entries.join(",\n")
    )
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn sweep(folder: &Path, file: &str, options: &[&str]) -> Output {
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts the program as a user does"
    )]
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
    command
        .current_dir(folder)
        .args(["sweep", "--recorded", file])
        .args(options)
        .output()
        .unwrap()
}

fn shown(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_search_of_a_recorded_space_shows_its_progress_and_repeats() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cache.json.gz"), gzip(&cache())).unwrap();
    let text = shown(&sweep(
        folder.path(),
        "cache.json.gz",
        &["--budget", "64", "--seed", "3"],
    ));
    for part in [
        "made_up on Handmade: 64 recorded configurations, 12 of them failed",
        "surrogate, seed 3",
        "evaluations",
        "100.00%",
        "unroll=4 x=64 y=2",
        "64 evaluations, 12 of them failed: best 1.00 ms, 100.00% of the optimum 1.00 ms",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    let again = sweep(
        folder.path(),
        "cache.json.gz",
        &["--budget", "64", "--seed", "3"],
    );
    assert_eq!(shown(&again), text);
}

#[test]
fn evaluated_configurations_are_written_as_t4_and_searched_again_alike() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cache.json"), cache()).unwrap();
    let everything = [
        "--strategy",
        "exhaustive",
        "--budget",
        "100",
        "--t4",
        "t4.json",
    ];
    shown(&sweep(folder.path(), "cache.json", &everything));
    for strategy in ["greedy", "genetic", "surrogate"] {
        let options = ["--strategy", strategy, "--budget", "30"];
        let table = |file: &str| {
            let text = shown(&sweep(folder.path(), file, &options));
            text.split_once("\n\n").unwrap().1.to_owned()
        };
        assert_eq!(table("t4.json"), table("cache.json"), "{strategy}");
    }
}

#[test]
fn defective_recordings_are_refused_with_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let whole = gzip(&cache());
    fs::write(folder.path().join("cut.json.gz"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.path().join("bytes"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(
        folder.path().join("nan.json"),
        cache().replacen("\"time\": 1", "\"time\": NaN, \"was\": 1", 1),
    )
    .unwrap();
    for (file, parts) in [
        ("missing.json", ["missing.json", "No such file"]),
        ("cut.json.gz", ["cut.json.gz", "copy it again"]),
        ("bytes", ["bytes", "neither text in UTF-8 nor a gzip file"]),
        ("nan.json", ["nan.json:", "not a number"]),
    ] {
        let output = sweep(folder.path(), file, &[]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{message}");
        for part in parts {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
    }
    fs::write(folder.path().join("cache.json"), cache()).unwrap();
    let refused = sweep(folder.path(), "cache.json", &["--budget", "0"]);
    assert_eq!(refused.status.code(), Some(2));
}
