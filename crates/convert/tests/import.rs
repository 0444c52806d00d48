//! Imports of problems that were written after the documents of each format.

#![expect(clippy::unwrap_used, reason = "the tests' own texts are well-formed")]

use std::fs;
use std::path::{Path, PathBuf};

use convert::import::{Imported, import_definition, import_kernelbench};
use domain::task::{Bundle, CasePurpose, Task};

fn problems(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/problems")
        .join(folder)
}

fn import(folder: &str, name: &str) -> Result<Imported, String> {
    let file = format!("{name}.py");
    let text = fs::read_to_string(problems(folder).join(&file)).unwrap();
    import_kernelbench(&file, &text, name).map_err(|problems| problems.to_string())
}

fn load(imported: &Imported) -> Task {
    let files = imported.files.clone();
    Task::load(&Bundle { files }).unwrap_or_else(|problems| panic!("{}: {problems}", imported.name))
}

fn definition(name: &str) -> Result<Imported, String> {
    let file = format!("{name}.json");
    let text = fs::read_to_string(problems("definitions").join(&file)).unwrap();
    let workloads = fs::read_to_string(problems("definitions").join("workloads.jsonl")).unwrap();
    import_definition(&file, &text, &workloads).map_err(|problems| problems.to_string())
}

/// A problem whose `forward` gets `x` of 8 by 64 and `y` of 64 elements.
fn with_forward(body: &str) -> Result<Imported, String> {
    let text = format!(
        "import torch\nimport torch.nn as nn\nrows = 8\ncolumns = 64\nclass Model(nn.Module):\n    def forward(self, x, y):\n        {body}\n\n\
         def get_inputs():\n    return [torch.randn(rows, columns), torch.randn(columns)]\n"
    );
    import_kernelbench("some.py", &text, "some").map_err(|problems| problems.to_string())
}

#[test]
fn every_problem_becomes_a_task_with_small_and_odd_shapes() {
    let mut count = 0;
    for entry in fs::read_dir(problems("kernelbench")).unwrap() {
        let name = entry
            .unwrap()
            .path()
            .file_stem()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let imported = import("kernelbench", &name).unwrap_or_else(|problem| panic!("{problem}"));
        let task = load(&imported);
        assert!(task.cases.len() >= 3, "{name}: {:?}", task.cases);
        assert!(
            task.cases
                .iter()
                .any(|case| case.is_for(CasePurpose::Holdout)),
            "{name}"
        );
        count += 1;
    }
    assert_eq!(count, 15);
}

#[test]
fn a_refused_problem_names_its_line_and_the_reason() {
    for (name, place, reason) in [
        ("argmax", "argmax.py:14:16", "works with indices"),
        (
            "batch_norm",
            "batch_norm.py:13:19",
            "keeps running statistics",
        ),
        (
            "branch",
            "branch.py:14:12",
            "depends on the values of a tensor",
        ),
        ("dropout", "dropout.py:11:21", "no one right answer"),
        (
            "in_place",
            "in_place.py:14:9",
            "add_ changes a tensor in place",
        ),
        ("labels", "labels.py:18:36", "randint makes indices"),
        ("lstm", "lstm.py:11:21", "a network of its own"),
    ] {
        let problem = import("refused", name).unwrap_err();
        assert!(
            problem.contains(place) && problem.contains(reason),
            "{problem}"
        );
    }
}

#[test]
fn a_text_that_is_no_problem_is_refused() {
    for (text, reason) in [
        (
            "class Model(:\n",
            "some.py:1:12: the file does not parse as Python",
        ),
        ("x = 1\n", "there is no class Model"),
        (
            "class Model:\n    pass\n",
            "there is no function get_inputs",
        ),
        (
            "element = 4\nclass Model:\n    pass\n",
            "the name element has another meaning",
        ),
    ] {
        let problem = import_kernelbench("some.py", text, "some")
            .unwrap_err()
            .to_string();
        assert!(problem.contains(reason), "{problem}");
    }
    for (body, reason) in [
        (
            "return x.frobnicate()",
            "the operation frobnicate is not understood",
        ),
        ("return x @ y[:32]", "the extents columns and 32 do not fit"),
        ("return x.view(3, -1)", "another number of elements"),
        ("return x.sum(dim=2)", "the tensor has no such axis"),
        (
            "x[0] = y\n        return x",
            "elements of a tensor are assigned",
        ),
        ("return [x for x in y]", "a sequence is not understood"),
        (
            "for i in range(columns * 2):\n            x = x + y\n        return x",
            "a loop of 128 passes",
        ),
        ("return 1.0", "something else than tensors"),
        ("return torch.ones(rows)", "the answer depends on no input"),
        (
            "for i in range(20):\n            x = torch.softmax(x, dim=1)\n        return x",
            "it needs 41 kernels",
        ),
    ] {
        let problem = with_forward(body).expect_err(body);
        assert!(problem.contains(reason), "{body}: {problem}");
    }
}

#[test]
fn a_dim_varies_where_the_translation_does_not_rest_on_its_value() {
    let free = |task: &Task| task.free_dims.keys().cloned().collect::<Vec<_>>();
    let matmul = load(&import("kernelbench", "matmul").unwrap());
    assert_eq!(free(&matmul), ["K", "M", "N"]);
    assert_eq!(matmul.contract.error_terms["y"].text(), "K");
    let grouped = load(&import("kernelbench", "group_norm").unwrap());
    assert_eq!(
        (free(&grouped), grouped.fixed_dims["channels"]),
        (vec!["batch_size".to_owned(), "size".to_owned()], 12)
    );
    // A window does not fit into less than its size.
    let conv = load(&import("kernelbench", "depthwise_conv").unwrap());
    assert_eq!(conv.free_dims["size"].least, 3);
    let halves = load(&with_forward("return x[:, :32] * y[32:]").unwrap());
    assert_eq!(free(&halves), ["rows"]);
}

#[test]
fn a_definition_has_the_shapes_of_its_workloads() {
    let gemm = definition("gemm_n48_k64").unwrap();
    let task = load(&gemm);
    assert_eq!((task.fixed_dims["N"], task.fixed_dims["K"]), (48, 64));
    let scored = task
        .cases
        .iter()
        .filter(|case| case.is_for(CasePurpose::Score));
    assert_eq!(
        scored.map(|case| case.dims["M"]).collect::<Vec<_>>(),
        [64, 1]
    );
    let norm = definition("fused_add_rmsnorm_h128").unwrap();
    assert!(
        norm.notes[0].contains("1 workloads take values from files"),
        "{:?}",
        norm.notes
    );
    let prefill = load(&definition("gqa_prefill_h4_kv2_d32").unwrap());
    let names = prefill.tensors.iter().map(|tensor| tensor.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["q", "k", "v", "output", "lse"]);
    let problem = definition("paged_decode").unwrap_err();
    assert!(problem.contains("indices is int32"), "{problem}");
}

#[test]
fn a_definition_that_contradicts_itself_is_refused() {
    let text = fs::read_to_string(problems("definitions").join("gemm_n48_k64.json")).unwrap();
    let workload = r#"{"axes": {"M": 4}}"#;
    for (from, to, workloads, reason) in [
        ("", "", "", "it has no workload"),
        ("", "", "{", "line 1 of its workloads is no workload"),
        (
            "",
            "",
            r#"{"axes": {}}"#,
            "a workload gives no value to the axis M",
        ),
        (
            "\"shape\": [\"M\", \"N\"]",
            "\"shape\": [\"N\", \"M\"]",
            workload,
            "C has another shape",
        ),
        ("def run", "def other", workload, "no function run"),
        (
            "return C",
            "return A, C",
            workload,
            "run returns 2 values for 1 outputs",
        ),
        (
            "[\"M\", \"K\"]",
            "[\"M\", \"Q\"]",
            workload,
            "the shape of A names an unknown axis",
        ),
        ("\"axes\"", "\"other\"", workload, "missing field `axes`"),
    ] {
        let changed = if from.is_empty() {
            text.clone()
        } else {
            text.replacen(from, to, 1)
        };
        assert!(from.is_empty() || changed != text, "{from}");
        let problem = import_definition("d.json", &changed, workloads)
            .unwrap_err()
            .to_string();
        assert!(problem.contains(reason), "{problem}");
    }
}
