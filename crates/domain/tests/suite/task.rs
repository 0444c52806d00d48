//! Task folders: what loads, what is located, and what a plan resolves to.

use std::collections::BTreeMap;

use domain::admission::advise;
use domain::device::Limits;
use domain::plan::{Configuration, ResolvedArgument, ResolvedPlan, ResolvedStep};
use domain::task::{Allclose, Bundle, CasePurpose, Rival, ScoredCache, Task};
use domain::timing::CacheState;

const TASK: &str = r#"name = "scale"
title = "y = a x"

[dims]
N = {}
W = { fixed = 64 }

[[tensor]]
name = "x"
dtype = "f16"
shape = ["N", "W"]
role = "in"

[[tensor]]
name = "y"
dtype = "f32"
shape = ["N", "W"]
role = "out"
align = 4

[[scalar]]
name = "a"
dtype = "f32"
value = "1 / sqrt(W)"

[tolerance]
class = "f32"

[contract]
linear_in = ["x"]
error_scale = { y = "y_scale" }
error_terms = { y = "1" }

[[case]]
name = "small"
dims = { N = 3 }
use = ["check"]
[[case]]
name = "large"
dims = { N = 1000 }
use = ["check", "score"]

[gates.ctas_per_sm]
min = 4
enforce = "phase"

[[phase]]
name = "parallelism"
gates = { ctas_per_sm = { min = 4, enforce = "phase" } }

[objective]
minimise = "geomean"
target_speedup = 1.5
"#;

const KERNEL: &str = r#"/*---
[step]
phase = "parallelism"
sweep = ["ROWS"]
[[launch]]
kernel = "scale"
grid = ["cdiv(N, ROWS)", "min(SM_COUNT, 2)"]
block = ["W"]
shared = "4 * ROWS"
args = ["x", "y", "tmp", "N", { dim = "W", as = "i64" }, "a"]
[workspace.tmp]
dtype = "f32"
shape = ["N", 2]
[tunables.ROWS]
value = 8
choices = [4, 8]
---*/
extern "C" __global__ void scale() {}
"#;

fn limits() -> Limits {
    Limits {
        sm_count: 58,
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [2_147_483_647, 65_535, 65_535],
        shared_per_block: 49_152,
        shared_per_block_optin: 101_376,
        shared_per_sm: 102_400,
        registers_per_block: 65_536,
        registers_per_sm: 65_536,
        threads_per_sm: 1536,
        blocks_per_sm: 24,
    }
}

fn bundle(task: &str, kernel: &str) -> Bundle {
    let files = [
        "reference.cu",
        "check.cu",
        "baseline.cu",
        "playbook/01-rows.cu",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), kernel.to_owned()))
    .chain([("task.toml".to_owned(), task.to_owned())])
    .collect();
    Bundle { files }
}

fn problems(task: &str, kernel: &str) -> Vec<String> {
    let error = Task::load(&bundle(task, kernel)).expect_err("the task is defective");
    error.0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_playbook_file_needs_a_step_whose_phase_the_task_names() {
    let stepless = KERNEL.replace("[step]\nphase = \"parallelism\"\nsweep = [\"ROWS\"]\n", "");
    assert_eq!(
        problems(TASK, &stepless),
        [
            "playbook/01-rows.cu: a playbook file without a table [step] (add [step] with phase = \
          \"NAME\", the name of a [[phase]] of task.toml)"
        ]
    );
    let unnamed = KERNEL.replace("phase = \"parallelism\"", "phase = \"memory\"");
    assert_eq!(
        problems(TASK, &unnamed),
        [
            "playbook/01-rows.cu: unknown phase \"memory\" (name a [[phase]] of task.toml: \
          parallelism)"
        ]
    );
}

#[test]
fn the_limits_of_an_own_test_are_read_or_refused_with_their_line() {
    let with = |limits: &str| {
        let class = "class = \"f32\"";
        TASK.replace(class, &format!("{class}\nallclose = {limits}"))
    };
    let read = Task::load(&bundle(&with("{ atol = 1e-3, rtol = 0.0 }"), KERNEL)).unwrap();
    let limits = Allclose {
        atol: 1e-3,
        rtol: 0.0,
    };
    assert_eq!(read.tolerance.allclose, Some(limits));
    for refused in [
        "{ atol = -1e-3, rtol = 0.0 }",
        "{ atol = 0.0, rtol = 0.0 }",
        "{ atol = inf, rtol = 1e-3 }",
    ] {
        assert_eq!(
            problems(&with(refused), KERNEL),
            [
                "task.toml:28:12: not limits that an output could meet (write the limits of your own test, such as \
                 { atol = 1e-3, rtol = 1e-3 })"
            ]
        );
    }
}

fn resolve(kernel: &str, configuration: &[(&str, i64)]) -> Result<ResolvedPlan, String> {
    let task = Task::load(&bundle(TASK, kernel)).expect("the folder is whole");
    let mut values = task.baseline.plan().default_configuration();
    values.extend(
        configuration
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value)),
    );
    let dims = &task.case("large").expect("the case exists").dims;
    task.baseline
        .plan()
        .resolve(&task, dims, &values, &limits())
        .map_err(|error| error.to_string())
}

#[test]
fn a_whole_folder_loads() {
    let task = Task::load(&bundle(TASK, KERNEL)).unwrap();
    assert_eq!(task.name, "scale");
    assert_eq!(
        task.case("large").unwrap().dims,
        BTreeMap::from([("N".into(), 1000), ("W".into(), 64)])
    );
    assert_eq!(
        task.score_cases()
            .map(|case| case.name.as_str())
            .collect::<Vec<_>>(),
        ["large"]
    );
    assert!(task.case("small").unwrap().is_for(CasePurpose::Check));
    assert_eq!(
        task.extents(&task.tensors[0], task.case("small").unwrap()),
        Ok(vec![3, 64])
    );
    assert_eq!(task.playbook.len(), 1);
}

#[test]
fn the_version_is_the_definition_of_the_right_answer_and_nothing_else() {
    let version = |bundle: &Bundle| Task::load(bundle).unwrap().version;
    let base = bundle(TASK, KERNEL);
    let with = |path: &str, text: &str| {
        let mut changed = base.clone();
        changed.files.insert(path.to_owned(), text.to_owned());
        version(&changed)
    };
    assert_eq!(version(&base), with("context.md", "Know this."));
    assert_eq!(
        version(&base),
        with("baseline.cu", &KERNEL.replace("W\"]", "W\", 1]"))
    );
    assert_ne!(
        version(&base),
        with("reference.cu", &KERNEL.replace("W\"]", "W\", 1]"))
    );
    assert_ne!(version(&base), with("include/tile.cuh", "#define T 1"));
}

#[test]
fn a_plan_resolves_to_numbers() {
    let plan = resolve(KERNEL, &[("ROWS", 4)]).unwrap();
    let [ResolvedStep::Kernel(launch)] = plan.steps.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(launch.grid, [250, 2, 1]);
    assert_eq!(launch.block, [64, 1, 1]);
    assert_eq!(launch.shared_bytes, 16);
    assert_eq!(launch.blocks(), 500);
    assert_eq!(
        launch.arguments,
        [
            ResolvedArgument::Buffer("x".into()),
            ResolvedArgument::Buffer("y".into()),
            ResolvedArgument::Buffer("tmp".into()),
            ResolvedArgument::I32(1000),
            ResolvedArgument::I64(64),
            ResolvedArgument::F32(0.125),
        ]
    );
    assert_eq!(plan.workspaces[0].elements, 2000);
}

#[test]
fn a_window_of_the_cache_reaches_to_the_end_of_its_buffer_at_most() {
    let window = |written: &str| {
        let line = format!("block = [\"W\"]\nl2_persist = {{ {written} }}");
        let plan = resolve(&KERNEL.replacen("block = [\"W\"]", &line, 1), &[])?;
        let persisting = plan.persisting_bytes();
        let [ResolvedStep::Kernel(launch)] = plan.steps.as_slice() else {
            panic!("{plan:?}")
        };
        let window = launch.l2_persist.as_ref();
        Ok::<_, String>((
            window.map(|window| (window.bytes, window.hit_ratio)),
            persisting,
        ))
    };
    // 1000 rows of 64 elements; two workspace elements for each row.
    let whole = 128_000;
    assert_eq!(window("buffer = \"x\""), Ok((Some((whole, 1.0)), whole)));
    assert_eq!(
        window("buffer = \"tmp\", hit_ratio = 0.5"),
        Ok((Some((8000, 0.5)), 4000))
    );
    assert_eq!(
        window("buffer = \"x\", bytes = \"ROWS * 100\""),
        Ok((Some((800, 1.0)), 800))
    );
    assert_eq!(
        window("buffer = \"x\", bytes = \"N * N * N\""),
        Ok((Some((whole, 1.0)), whole))
    );
    assert_eq!(
        window("buffer = \"x\", bytes = 0"),
        Ok((None, 0)),
        "turned off"
    );
    for (written, expected) in [
        (
            "buffer = \"k\"",
            "launch 1 (scale) l2_persist: \"k\" is no tensor",
        ),
        (
            "buffer = \"x\", bytes = \"-1\"",
            "launch 1 (scale) l2_persist.bytes is -1, outside 0..=",
        ),
    ] {
        let error = window(written).expect_err(written);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_plan_beyond_the_device_is_refused_before_anything_runs() {
    let table = [
        (
            "block = [\"W\"]",
            "block = [\"W * 17\"]",
            "launch 1 (scale) block.x is 1088, outside 1..=1024",
        ),
        (
            "block = [\"W\"]",
            "block = [\"W\", 32]",
            "launch 1 (scale) threads per block is 2048, outside 1..=1024",
        ),
        (
            "min(SM_COUNT, 2)",
            "N * N",
            "launch 1 (scale) grid.y is 1000000, outside 1..=65535",
        ),
        (
            "min(SM_COUNT, 2)",
            "N - 1000",
            "launch 1 (scale) grid.y is 0, outside 1..=65535",
        ),
        (
            "4 * ROWS",
            "32 * N * ROWS",
            "launch 1 (scale) shared is 256000, outside 0..=101376",
        ),
        (
            "4 * ROWS",
            "N / (ROWS - 8)",
            "launch 1 (scale) shared: division by zero",
        ),
        (
            "cdiv(N, ROWS)",
            "cdiv(N, COLS)",
            "launch 1 (scale) grid.x: unknown name \"COLS\"",
        ),
        (
            "\"tmp\", \"N\"",
            "\"tmp2\", \"N\"",
            "launch 1 (scale) args: \"tmp2\" is no tensor, workspace, dim or scalar",
        ),
        (
            "[\"N\", 2]",
            "[\"N * N * N\", 4]",
            "workspace tmp in bytes is 16000000000, outside 1..=8589934592",
        ),
        (
            "[workspace.tmp]",
            "[workspace.x]",
            "workspace x: the name \"x\" is in use already",
        ),
        (
            "[tunables.ROWS]",
            "[tunables.W]\nvalue = 1\nchoices = [1]\n[tunables.ROWS]",
            "tunable W: the name \"W\" is in use already",
        ),
        (
            "[tunables.ROWS]",
            "[tunables.SM_COUNT]\nvalue = 1\nchoices = [1]\n[tunables.ROWS]",
            "tunable SM_COUNT: the name \"SM_COUNT\" is in use already",
        ),
    ];
    for (honest, changed, expected) in table {
        assert!(KERNEL.contains(honest), "{honest}");
        let error = resolve(&KERNEL.replacen(honest, changed, 1), &[]).expect_err(changed);
        assert!(error.starts_with(expected), "{changed}: {error}");
    }
}

#[test]
fn a_plan_at_the_limit_resolves() {
    for (honest, changed) in [
        ("block = [\"W\"]", "block = [\"W * 16\"]"),
        ("4 * ROWS", "101376"),
        ("[\"N\", 2]", "[\"N * N * N\", 2]"),
    ] {
        assert!(KERNEL.contains(honest), "{honest}");
        resolve(&KERNEL.replacen(honest, changed, 1), &[]).expect(changed);
    }
}

#[test]
fn every_defect_of_a_task_file_is_reported_with_its_place() {
    let table = [
        (
            "N = {}",
            "N = { fix = 3 }",
            "task.toml:5:7: no key is called \"fix\"; the keys are ",
        ),
        (
            "shape = [\"N\", \"W\"]\nrole = \"in\"",
            "shape = [\"M\", \"W\"]\nrole = \"in\"",
            "task.toml:11:10: unknown dim \"M\"",
        ),
        (
            "role = \"out\"",
            "role = \"in\"",
            "task.toml: the task has no output",
        ),
        (
            "align = 4",
            "align = 2",
            "task.toml:19:9: align cannot be 2",
        ),
        (
            "1 / sqrt(W)",
            "1 / sqrt W",
            "task.toml:24:19: expected an operator",
        ),
        (
            "class = \"f32\"",
            "class = \"f31\"",
            "task.toml:27:9: \"f31\" is none of ",
        ),
        (
            "linear_in = [\"x\"]",
            "linear_in = [\"y\"]",
            "task.toml:30:14: \"y\" is no input",
        ),
        (
            "linear_in = [\"x\"]",
            "order_dependent = [\"x\"]",
            "task.toml:30:20: \"x\" is no output",
        ),
        (
            "dims = { N = 3 }",
            "dims = { N = 3, M = 2 }",
            "task.toml:36:8: unknown dim \"M\"",
        ),
        (
            "dims = { N = 3 }",
            "dims = {}",
            "task.toml:36:8: dim \"N\" has no value",
        ),
        (
            "dims = { N = 3 }",
            "dims = { N = 3, W = 32 }",
            "task.toml:36:8: dim \"W\" is fixed",
        ),
        (
            "dims = { N = 3 }",
            "dims = { N = 0 }",
            "task.toml: tensor x in case small: has the extent 0",
        ),
        (
            "name = \"large\"",
            "name = \"small\"",
            "task.toml:39:8: a second case \"small\"",
        ),
        (
            "use = [\"check\", \"score\"]",
            "use = [\"check\"]",
            "task.toml: no case is scored",
        ),
        (
            "[gates.ctas_per_sm]\nmin = 4",
            "[gates.ctas_per_sm]",
            "task.toml:43:1: a gate without a limit",
        ),
        (
            "name = \"parallelism\"",
            "name = \"memory\"",
            "playbook/01-rows.cu: unknown phase \"parallelism\"",
        ),
        (
            "minimise = \"geomean\"",
            "minimise = \"mean\"",
            "task.toml:52:12: unknown objective \"mean\"",
        ),
        (
            "minimise = \"geomean\"",
            "minimise = \"geomean\"\ncache = \"hot\"",
            "task.toml:53:9: unknown state of the cache \"hot\" (write \"cold\", \"warm\" or \"both\")",
        ),
    ];
    for (honest, defective, expected) in table {
        assert!(TASK.contains(honest), "{honest}");
        let found = problems(&TASK.replacen(honest, defective, 1), KERNEL);
        assert!(
            found.iter().any(|problem| problem.starts_with(expected)),
            "{defective}: {found:#?}"
        );
    }
}

#[test]
fn a_task_says_in_which_states_of_the_cache_it_is_scored() {
    let cold = Task::load(&bundle(TASK, KERNEL)).unwrap();
    assert_eq!(cold.objective.cache, ScoredCache::Cold, "unless it says so");
    for (name, cache, scored) in [
        ("cold", ScoredCache::Cold, &[CacheState::Cold][..]),
        ("warm", ScoredCache::Warm, &[CacheState::Warm]),
        (
            "both",
            ScoredCache::Both,
            &[CacheState::Cold, CacheState::Warm],
        ),
    ] {
        let objective = format!("[objective]\ncache = \"{name}\"");
        let text = TASK.replacen("[objective]", &objective, 1);
        let task = Task::load(&bundle(&text, KERNEL)).unwrap();
        assert_eq!(task.objective.cache, cache);
        assert_eq!(cache.scored(), scored);
        assert!(
            cache
                .unscored()
                .is_none_or(|state| !scored.contains(&state))
        );
        assert_ne!(task.version, cold.version, "no results are mixed");
    }
}

#[test]
fn a_missing_file_and_a_sweep_of_nothing_are_named() {
    let mut incomplete = bundle(TASK, KERNEL);
    incomplete.files.remove("check.cu");
    let found = Task::load(&incomplete).unwrap_err().to_string();
    assert!(found.contains("check.cu: the file is missing"), "{found}");
    let found = problems(
        TASK,
        &KERNEL.replace("sweep = [\"ROWS\"]", "sweep = [\"COLS\"]"),
    );
    assert!(found[0].contains("sweep names \"COLS\""), "{found:?}");
}

#[test]
fn a_second_reference_in_python_takes_the_place_of_the_kernel_and_defines_the_version() {
    let mut files = bundle(TASK, KERNEL);
    files.files.insert(
        "reference.py".to_owned(),
        "def reference(x):\n    return x\n".to_owned(),
    );
    let found = Task::load(&files).unwrap_err().to_string();
    let expected = "reference.py: a second reference beside check.cu";
    assert!(found.contains(expected), "{found}");
    files.files.remove("check.cu");
    let task = Task::load(&files).unwrap();
    assert_eq!(task.check.file(), "reference.py");
    let text = files.files.get_mut("reference.py").unwrap();
    text.push_str("# another formula\n");
    assert_ne!(Task::load(&files).unwrap().version, task.version);
}

#[test]
fn a_value_that_does_not_fit_its_argument_is_refused() {
    let task = Task::load(&bundle(TASK, KERNEL)).unwrap();
    let dims = BTreeMap::from([("N".to_owned(), 1_i64 << 31), ("W".to_owned(), 64)]);
    let kernel = KERNEL
        .replace("shape = [\"N\", 2]", "shape = [2]")
        .replace("cdiv(N, ROWS)", "1");
    let source = domain::candidate::KernelSource::parse("k.cu", kernel).unwrap();
    let values = Configuration::from([("ROWS".into(), 8)]);
    let error = source
        .plan()
        .resolve(&task, &dims, &values, &limits())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("launch 1 (scale) args: dim N is 2147483648"),
        "{error}"
    );
}

#[test]
fn rivals_are_kernels_and_scripts_and_nothing_else() {
    let mut bundle = bundle(TASK, KERNEL);
    let version = Task::load(&bundle).unwrap().version;
    let script = "import rival\n";
    bundle
        .files
        .insert("baselines/library.py".to_owned(), script.to_owned());
    bundle
        .files
        .insert("baselines/extracted.cu".to_owned(), KERNEL.to_owned());
    let task = Task::load(&bundle).unwrap();
    assert_eq!(
        task.version, version,
        "what is right does not depend on them"
    );
    let [
        (kernel, Rival::Kernel(source)),
        (library, Rival::Script(text)),
    ] = &task.rivals[..]
    else {
        panic!("{:?}", task.rivals);
    };
    assert_eq!(kernel, "baselines/extracted.cu");
    assert_eq!(source.text(), KERNEL);
    assert_eq!(
        (library.as_str(), text.as_str()),
        ("baselines/library.py", script)
    );

    bundle
        .files
        .insert("baselines/numbers.csv".to_owned(), "1,2".to_owned());
    let error = Task::load(&bundle).expect_err("a table of numbers is no rival");
    let said = error.to_string();
    assert!(
        said.contains("baselines/numbers.csv") && said.contains(".py"),
        "{said}"
    );
}

#[test]
fn a_task_names_the_file_that_winners_replace() {
    let table = "[promotion]\nrepository = \"..\"\npath = \"src/norm.cu\"\nregion = \"norm\"\n";
    let task = Task::load(&bundle(&format!("{TASK}\n{table}"), KERNEL)).unwrap();
    let stated = task.promotion.unwrap();
    assert_eq!(
        (stated.repository.as_str(), stated.path.as_str()),
        ("..", "src/norm.cu")
    );
    assert_eq!(
        (stated.region.as_deref(), stated.base),
        (Some("norm"), None)
    );
    for (honest, wrong, expected) in [
        (
            "src/norm.cu",
            "/src/norm.cu",
            "not a path inside a repository",
        ),
        (
            "src/norm.cu",
            "../norm.cu",
            "not a path inside a repository",
        ),
        ("\"norm\"", "\" \"", "no region"),
        ("\"..\"", "\"\"", "no repository"),
        ("region", "regions", "regions"),
    ] {
        let found = problems(&format!("{TASK}\n{}", table.replace(honest, wrong)), KERNEL);
        let found = format!("{found:?}");
        assert!(found.contains(expected), "{wrong}: {found}");
    }
}

#[test]
fn advice_says_what_a_task_does_not_state() {
    // Bounds of N, N of the smaller case, the most elements of a small case, whether a shape at an edge was added, and
    // the words of the only advice.
    let table = [
        ("max = 5000", 3, 1 << 15, true, None),
        (
            "",
            3,
            1 << 15,
            true,
            Some("no largest value is stated for N"),
        ),
        (
            "max = 5000",
            3,
            383,
            true,
            Some("the smallest case has 384 elements"),
        ),
        (
            "max = 5000",
            3,
            1 << 15,
            false,
            Some("no shape at the edges"),
        ),
        (
            "max = 5000",
            8,
            1 << 15,
            true,
            Some("state multiple = 8 in [dims]"),
        ),
        ("max = 5000, multiple = 8", 8, 1 << 15, true, None),
    ];
    for (bounds, rows, small, has_edge, expected) in table {
        let text = TASK
            .replace("N = {}", &format!("N = {{ {bounds} }}"))
            .replace("dims = { N = 3 }", &format!("dims = {{ N = {rows} }}"));
        let mut task = Task::load(&bundle(&text, KERNEL)).unwrap();
        if has_edge {
            let mut edge = task.cases[0].clone();
            edge.uses.clear();
            task.cases.push(edge);
        }
        let advice = advise(&task, small);
        assert_eq!(advice.len(), usize::from(expected.is_some()), "{advice:?}");
        if let Some(words) = expected {
            assert!(advice[0].contains(words), "{advice:?}");
        }
    }
}
