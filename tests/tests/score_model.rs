//! `score-model` from a cache file and a source to a score: compiled by the real compiler, run on the emulated device.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// Adds one to every number. With `gap` above 1 the lanes of a warp read `gap` numbers apart, so that each of the eight
/// times as many sectors is fetched for its one number; `order` only renames, and `broken` does not compile.
const SOURCE: &str = r"
__global__ void spread(float *out, const float *in) {
    int lane = blockIdx.x * block_size_x + threadIdx.x;
#if broken
    this is no kernel;
#endif
    float sum = 0.0f;
    for (int turn = 0; turn < turns; turn++) {
        sum += in[((long)lane * gap + (long)turn * 104729) % (1 << 22)];
    }
    out[lane] = sum + 1.0f;
}
";

/// A cache in Kernel Tuner's format, without its closing bracket, as a stopped session leaves it. The times are invented;
/// they grow with the number of reads and with their distance.
fn cache() -> String {
    let entry = |gap: u32, turns: u32, broken: u32, time: Value| {
        let key = format!("128,{gap},{turns},{broken}");
        let values = json!({
            "block_size_x": 128, "gap": gap, "turns": turns, "broken": broken,
            "time": time, "times": [1.0], "compile_time": 250.0, "GFLOP/s": 3.5,
            "timestamp": "2026-11-21 20:00:00+00:00",
        });
        format!("\"{key}\": {values}")
    };
    let entries = [
        entry(1, 4, 0, json!(0.02)),
        entry(8, 32, 0, json!(0.9)),
        entry(1, 32, 0, json!(0.13)),
        entry(8, 4, 0, json!(0.12)),
        entry(2, 32, 0, json!(0.3)),
        entry(1, 4, 1, json!(0.5)),
        entry(4, 4, 0, json!("CompilationFailedConfig")),
        entry(4, 32, 0, json!(1e20)),
    ];
    let keys = r#"["block_size_x", "gap", "turns", "broken"]"#;
    format!(
        "{{\n\"device_name\": \"NVIDIA RTX A4000\",\n\"kernel_name\": \"spread\",\n\"problem_size\": 262144,\n\
         \"tune_params_keys\": {keys},\n\"tune_params\": {{}},\n\"objective\": \"time\",\n\"cache\": {{\n{}",
        entries.join(",\n") + ",\n"
    )
}

#[test]
fn score_model_scores_a_cache_with_its_source() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| -> Result<String> {
        Ok(folder
            .path()
            .join(name)
            .to_str()
            .context("UTF-8")?
            .to_owned())
    };
    let (cache_path, source, data) = (path("cache.json")?, path("spread.cu")?, path("data")?);
    std::fs::write(&cache_path, cache())?;
    std::fs::write(&source, SOURCE)?;
    let words = [
        "score-model",
        &cache_path,
        "--source",
        &source,
        "--arg",
        "f32*262144",
        "--arg",
        "f32*4194304",
        "--blocks",
        "16",
        "--data",
        &data,
    ];
    let finished = lab::kernelwright(&[&words[..], &["--json"]].concat())?;
    ensure!(finished.status.code() == Some(0), "{}", finished.stderr);
    let report: Value = serde_json::from_str(&finished.stdout).context(finished.stdout.clone())?;
    assert_eq!(report["kernel"], "spread");
    assert_eq!(report["measured_on"], "NVIDIA RTX A4000");
    let modelled_as = report["modelled_as"].as_str().context("a name")?;
    ensure!(modelled_as.contains("A4000"), "{modelled_as}");
    assert_eq!(report["unmeasured"], 2, "one failed and one took for ever");

    let configurations = report["configurations"].as_array().context("a list")?;
    assert_eq!(configurations.len(), 6);
    let named = |key: &str| {
        let found = configurations.iter().find(|one| one["key"] == key);
        found.with_context(|| format!("{key} is not told of"))
    };
    let broken = named("128,1,4,1")?;
    assert!(
        broken["modelled"].is_null() && broken["refused"].is_string(),
        "{broken}"
    );
    let time = |key: &str| -> Result<f64> {
        let us = named(key)?["modelled"]["us"].as_f64();
        us.with_context(|| format!("no time for {key}"))
    };
    // Four times as many reads cost time, and so do reads of one number per sector.
    ensure!(time("128,1,32,0")? > time("128,1,4,0")?, "{report}");
    ensure!(time("128,8,4,0")? > 2.0 * time("128,1,4,0")?, "{report}");
    // Less than twice: a wave is taken to fetch each sector once, although its blocks read it at different times.
    ensure!(time("128,8,32,0")? > 1.5 * time("128,1,32,0")?, "{report}");

    let agreement = &report["agreement"];
    assert_eq!(agreement["configurations"], 5);
    let spearman = agreement["spearman"].as_f64().context("a number")?;
    ensure!(spearman >= 0.9, "{report}");
    assert_eq!(
        agreement["regret"]["1"], 0.0,
        "its first choice is the fastest"
    );

    // The text report has the same score, and the reason why one configuration did not run.
    let finished = lab::kernelwright(&words)?;
    ensure!(finished.status.code() == Some(0), "{}", finished.stderr);
    for part in [
        "spread, measured on NVIDIA RTX A4000",
        "could not run",
        "Spearman",
    ] {
        ensure!(
            finished.stdout.contains(part),
            "{part}: {}",
            finished.stdout
        );
    }
    Ok(())
}

#[test]
fn the_sessions_of_a_list_are_scored_in_one_table() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (list, data) = (path("list/sessions.toml"), path("data"));
    for part in ["list", "sources"] {
        std::fs::create_dir(folder.path().join(part))?;
    }
    std::fs::write(path("list/cache.json"), cache())?;
    std::fs::write(path("sources/spread.cu"), SOURCE)?;
    let session = "[[session]]\ncache = \"cache.json\"\nsource = \"spread.cu\"\n\
        arguments = [\"f32*262144\", \"f32*4194304\"]\n";
    let sessions = format!(
        "{session}name = \"near\"\nseen = \"its times are invented\"\n\
         {session}name = \"half\"\ndevice = \"a100\"\nparts = 2\ntwo_parts = {{ arguments = [\"f32*262144\", \"f32*4194304\"] }}\n"
    );
    std::fs::write(&list, sessions)?;
    let sources = path("sources");
    let words = [
        "score-model",
        "--sessions",
        &list,
        "--sources",
        &sources,
        "--blocks",
        "16",
        "--data",
        &data,
    ];

    let finished = lab::kernelwright(&[&words[..], &["--json"]].concat())?;
    ensure!(finished.status.code() == Some(0), "{}", finished.stderr);
    let table: Value = serde_json::from_str(&finished.stdout).context(finished.stdout.clone())?;
    let near = &table["sessions"][0];
    let half = &table["sessions"][1];
    assert_eq!(near["agreement"]["configurations"], 5);
    assert_eq!(near["seen"], "its times are invented");
    ensure!(half["seen"].is_null(), "{half}");
    let modelled_as = half["modelled_as"].as_str().context("a name")?;
    ensure!(modelled_as.contains("A100"), "{modelled_as}");
    let errors = table["errors"].as_array().context("a list")?;
    let counted: u64 = errors
        .iter()
        .filter_map(|one| one["configurations"].as_u64())
        .sum();
    assert_eq!(
        counted, 10,
        "each configuration is bound by one term: {table}"
    );

    let finished = lab::kernelwright(&[&words[..], &["--only", "half"]].concat())?;
    ensure!(finished.status.code() == Some(0), "{}", finished.stderr);
    for part in [
        "half, measured on",
        "launches with 1 and 2 of its 2 equal parts",
        "held out",
        "5 of 6",
    ] {
        ensure!(
            finished.stdout.contains(part),
            "{part}: {}",
            finished.stdout
        );
    }
    ensure!(!finished.stdout.contains("near"), "{}", finished.stdout);

    let finished = lab::kernelwright(&[&words[..], &["--only", "gemm"]].concat())?;
    assert_eq!(finished.status.code(), Some(2));
    ensure!(
        finished.stderr.contains("near (cache.json)"),
        "{}",
        finished.stderr
    );
    Ok(())
}

#[test]
fn an_argument_has_the_numbers_of_a_file() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let source = "__global__ void turn(float *out, const int *turns) {\n\
        float sum = 0.0f;\n\
        for (int turn = 0; turn < turns[1]; turn++) sum = __sinf(sum + turn);\n\
        out[blockIdx.x * block_size_x + threadIdx.x] = sum;\n}\n";
    std::fs::write(path("turn.cu"), source)?;
    let cache = "{\"device_name\": \"NVIDIA RTX A4000\", \"kernel_name\": \"turn\", \"problem_size\": 65536, \
        \"tune_params_keys\": [\"block_size_x\"], \"tune_params\": {}, \"objective\": \"time\", \"cache\": \
        {\"128\": {\"block_size_x\": 128, \"time\": 1.0}}}";
    std::fs::write(path("cache.json"), cache)?;
    let modelled = |numbers: &str| -> Result<f64> {
        std::fs::write(path("turns.txt"), numbers)?;
        let (cache, source, data) = (path("cache.json"), path("turn.cu"), path("data"));
        let turns = format!("i32@{}", path("turns.txt"));
        let words = [
            "score-model",
            &cache,
            "--source",
            &source,
            "--arg",
            "f32*65536",
            "--arg",
            &turns,
            "--data",
            &data,
            "--json",
        ];
        let finished = lab::kernelwright(&words)?;
        ensure!(finished.status.code() == Some(0), "{}", finished.stderr);
        let report: Value = serde_json::from_str(&finished.stdout)?;
        let us = report["configurations"][0]["modelled"]["us"].as_f64();
        us.with_context(|| report.to_string())
    };
    let (few, many) = (modelled("0\n10\n")?, modelled("0\n10000\n")?);
    ensure!(many > 20.0 * few, "{few} and {many} us");
    Ok(())
}
