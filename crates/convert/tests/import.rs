//! Imports of problems that were written after the documents of each format.

#![expect(clippy::unwrap_used, reason = "the tests' own texts are well-formed")]

use std::fs;
use std::path::{Path, PathBuf};

use convert::import::{
    Imported, gpu_mode_reference, import_definition, import_gpu_mode, import_kernel_tuner,
    import_kernelbench,
};
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

fn gpu_mode(folder: &str, name: &str) -> Result<Imported, String> {
    let read = |file: &str| fs::read_to_string(problems(folder).join(name).join(file)).unwrap();
    let text = read("task.yml");
    let reference =
        gpu_mode_reference("task.yml", &text).map_err(|problems| problems.to_string())?;
    import_gpu_mode("task.yml", &text, &reference, &read(&reference), name)
        .map_err(|problems| problems.to_string())
}

/// The names of the files or folders of a folder of problems, without their endings.
fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(problems(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let names = paths.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
    names.collect()
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
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nrows = 8\ncolumns = 64\n\
         def scaled(a):\n    return a * 2\nclass Model(nn.Module):\n    def forward(self, x, y):\n        {body}\n\n\
         def get_inputs():\n    return [torch.randn(rows, columns), torch.randn(columns)]\n"
    );
    import_kernelbench("some.py", &text, "some").map_err(|problems| problems.to_string())
}

#[test]
fn every_problem_becomes_a_task_with_small_and_odd_shapes() {
    let mut tasks = Vec::new();
    for (folder, import) in [
        (
            "kernelbench",
            import as fn(&str, &str) -> Result<Imported, String>,
        ),
        ("gpu_mode", gpu_mode),
    ] {
        for name in names(folder) {
            let imported = import(folder, &name).unwrap_or_else(|problem| panic!("{problem}"));
            let task = load(&imported);
            assert!(task.cases.len() >= 3, "{name}: {:?}", task.cases);
            let holdout = |case: &domain::task::Case| case.is_for(CasePurpose::Holdout);
            assert!(task.cases.iter().any(holdout), "{name}");
            tasks.push(name);
        }
    }
    assert_eq!(tasks.len(), 35);
}

#[test]
fn a_problem_of_gpu_mode_has_the_shapes_of_its_tests_and_benchmarks() {
    let imported = gpu_mode("gpu_mode", "matmul_halves").unwrap();
    let task = load(&imported);
    let of = |purpose| {
        let cases = task.cases.iter().filter(move |case| case.is_for(purpose));
        cases.map(|case| case.dims["k"]).collect::<Vec<_>>()
    };
    assert_eq!(of(CasePurpose::Score), [32]);
    assert!(
        of(CasePurpose::Check).starts_with(&[32, 16, 48]),
        "{:?}",
        task.cases
    );
    // The buffer for the result is no input.
    let added = load(&gpu_mode("gpu_mode", "add_halves").unwrap());
    let names = added.tensors.iter().map(|tensor| tensor.name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["left", "right", "y"]);
    // Tests with another window or another factor are other tasks.
    for (name, note) in [
        ("conv2d_valid", "1 shapes with another kernel than 3"),
        ("swiglu", "the tests or benchmarks on the lines 17"),
    ] {
        let notes = gpu_mode("gpu_mode", name).unwrap().notes.join("\n");
        assert!(
            notes.contains("left out") && notes.contains(note),
            "{name}: {notes}"
        );
    }
}

fn kernel_tuner(folder: &str, name: &str) -> Result<Imported, String> {
    let file = format!("{name}.py");
    let text = fs::read_to_string(problems(folder).join(&file)).unwrap();
    let kernels = fs::read_dir(problems(folder))
        .unwrap()
        .map(|entry| entry.unwrap());
    let kernels = kernels.map(|entry| {
        let text = fs::read_to_string(entry.path()).unwrap();
        (entry.file_name().to_string_lossy().into_owned(), text)
    });
    import_kernel_tuner(&file, &text, name, &kernels.collect())
        .map_err(|problems| problems.to_string())
}

#[test]
fn a_script_of_kernel_tuner_becomes_a_task_with_its_kernel_and_tunables() {
    for (name, dims, tunables) in [
        ("vector_add", vec!["size"], vec![("block_size_x", 32, 8)]),
        (
            "tiled_matmul",
            vec!["problem_size_x", "problem_size_y"],
            vec![
                ("block_size_x", 8, 3),
                ("block_size_y", 8, 3),
                ("rows_per_thread", 1, 3),
            ],
        ),
        ("row_sums", vec!["columns"], vec![("block_size_x", 32, 4)]),
        (
            "saxpy",
            vec!["n"],
            vec![("block_size_x", 64, 3), ("per_thread", 1, 3)],
        ),
        (
            "stencil",
            vec!["height", "width"],
            vec![("block_size_x", 16, 2), ("block_size_y", 2, 3)],
        ),
        (
            "row_maxima",
            vec!["columns", "rows"],
            vec![("block_size_x", 32, 3)],
        ),
    ] {
        let imported =
            kernel_tuner("kernel_tuner", name).unwrap_or_else(|problem| panic!("{problem}"));
        let task = load(&imported);
        assert_eq!(task.free_dims.keys().collect::<Vec<_>>(), dims, "{name}");
        let baseline =
            domain::candidate::KernelSource::parse("baseline.cu", &imported.files["baseline.cu"]);
        let baseline = baseline.unwrap_or_else(|problems| panic!("{name}: {problems}"));
        let found = baseline.plan().tunables.iter();
        let found = found.map(|(name, own)| (name.as_str(), own.value, own.choices.len()));
        assert_eq!(found.collect::<Vec<_>>(), tunables, "{name}");
        let reference = &imported.files["reference.cu"];
        assert!(
            !reference.contains("#error"),
            "{name}: {:?}",
            imported.notes
        );
    }
    // A configuration that breaks a restriction does not compile.
    let matmul = kernel_tuner("kernel_tuner", "tiled_matmul").unwrap();
    let restricted = "#if !(((block_size_x * block_size_y) >= 64))";
    assert!(
        matmul.files["baseline.cu"].contains(restricted),
        "{}",
        matmul.files["baseline.cu"]
    );
}

#[test]
fn a_script_without_an_answer_leaves_the_reference_to_be_written() {
    let imported = kernel_tuner("kernel_tuner_open", "no_answer").unwrap();
    load(&imported);
    assert!(imported.files["reference.cu"].contains("#error"));
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains(
            "the script states no answer: write the right answer into reference.cu, line"
        ),
        "{notes}"
    );
}

#[test]
fn a_refused_script_names_its_line_and_the_reason() {
    for (name, place, reason) in [
        ("constant_memory", ":14:", "cmem_args fills memory by name"),
        (
            "in_a_loop",
            ":1:1",
            "no call of tune_kernel that is always made",
        ),
        (
            "missing_file",
            ":14:22",
            "names the file halve.cu, which is not beside",
        ),
        (
            "no_configuration",
            ":14:37",
            "no configuration that meets all restrictions",
        ),
        ("opencl", ":14:22", "is no CUDA"),
        (
            "texts_as_values",
            ":14:37",
            "has values of layout that are no integers",
        ),
        (
            "too_few_arguments",
            " (kernel):2: ",
            "has 3 parameters and the script passes 2",
        ),
        (
            "unknown_value",
            ":14:9",
            "a name is not understood: load_sizes",
        ),
    ] {
        let problem = kernel_tuner("kernel_tuner_refused", name).unwrap_err();
        assert!(
            problem.contains(place) && problem.contains(reason),
            "{name}: {problem}"
        );
    }
}

#[test]
fn a_refused_problem_of_gpu_mode_names_its_line_and_the_reason() {
    for (name, place, reason) in [
        ("buckets", "reference.py:5:12", "randint makes indices"),
        ("in_cuda", "task.yml:6: ", "its language is cu"),
        ("several_gpus", "task.yml:7: ", "it needs several GPUs"),
        (
            "sort_values",
            "reference.py:9:12",
            "sort works with indices",
        ),
        (
            "unknown_argument",
            "task.yml:19: ",
            "generate_input has no parameter rows",
        ),
    ] {
        let problem = gpu_mode("gpu_mode_refused", name).unwrap_err();
        assert!(
            problem.contains(place) && problem.contains(reason),
            "{problem}"
        );
    }
    for (text, reason) in [
        ("files: [", "task.yml:2: the file does not parse as YAML"),
        ("", "the file is empty"),
        ("lang: py", "task.yml:1: there are no files"),
        (
            "files:\n  - {name: a, source: b}",
            "task.yml:2: files lists no reference.py",
        ),
        ("a: &x 1\nb: *x", "task.yml:2: an alias is not read"),
    ] {
        let problem = gpu_mode_reference("task.yml", text)
            .unwrap_err()
            .to_string();
        assert!(problem.contains(reason), "{text:?}: {problem}");
    }
}

#[test]
fn a_buffer_is_filled_as_a_whole_before_it_is_read() {
    let filled = with_forward(
        "total = torch.empty_like(x)\n        total[...] = x + y\n        return total",
    );
    let names = load(&filled.unwrap()).tensors;
    assert_eq!(
        names
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect::<Vec<_>>(),
        ["x", "y", "y_"]
    );
    for (body, reason) in [
        (
            "x[:] = x + y\n        return x",
            "computed or read is changed in place",
        ),
        (
            "x.copy_(x + y)\n        return x",
            "computed or read is changed in place",
        ),
        (
            "y[:] = x\n        return y",
            "another shape than the buffer",
        ),
        (
            "total = x + y\n        total[...] = y\n        return total",
            "computed or read",
        ),
    ] {
        let problem = with_forward(body).expect_err(body);
        assert!(problem.contains(reason), "{body}: {problem}");
    }
    // `axis` is another name of `dim`.
    let summed = load(&with_forward("return x.sum(axis=1, keepdims=True)").unwrap());
    assert_eq!(summed.contract.error_terms["y_"].text(), "columns");
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
fn an_argument_that_is_not_translated_is_refused_by_name() {
    for (call, argument) in [
        ("torch.add(x, y, alpha=2)", "alpha"),
        ("torch.div(x, x, rounding_mode=\"floor\")", "rounding_mode"),
        ("torch.flip(x, dims=[1])", "dims"),
        ("torch.addmm(x @ x.t(), x, x.t(), beta=2)", "beta"),
        ("F.softplus(x, beta=2.0)", "beta"),
        ("F.softplus(x, 2.0)", "number 2"),
        ("F.normalize(x, p=2.0, out_dtype=3)", "out_dtype"),
        ("F.mse_loss(x, y, size_average=False)", "size_average"),
        (
            "F.avg_pool1d(x, 2, padding=1, count_include_pad=False)",
            "count_include_pad",
        ),
        ("F.max_pool1d(x, 2, ceil_mode=True)", "ceil_mode"),
        (
            "F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)",
            "dropout_p",
        ),
        ("nn.Softplus(2.0)(x)", "number 1"),
        ("nn.Softplus(beta=2.0)(x)", "beta"),
        (
            "nn.Conv1d(rows, rows, 3, padding_mode=\"reflect\")(x.unsqueeze(0))",
            "padding_mode",
        ),
        ("nn.Linear(columns, 4, dtype=torch.float16)(x)", "dtype"),
        ("nn.Flatten(0, 1, 2)(x)", "number 3"),
        ("torch.clamp(x, min=y)", "min"),
        ("scaled(x, factor=2)", "factor"),
        ("scaled(x, 2)", "number 2"),
    ] {
        let problem = with_forward(&format!("return {call}")).expect_err(call);
        assert!(
            problem.contains(&format!("the argument {argument} of ")),
            "{call}: {problem}"
        );
    }
    // An argument that states PyTorch's own default changes nothing.
    for call in [
        "F.max_pool1d(x, 2, ceil_mode=False)",
        "F.avg_pool1d(x, 2, padding=1, count_include_pad=True)",
        "F.scaled_dot_product_attention(x, x, x, dropout_p=0.0)",
        "torch.div(x, x, rounding_mode=None)",
        "torch.sum(x, dim=1, dtype=torch.float32)",
        "x.to(torch.float32, non_blocking=True)",
        "nn.GELU(\"tanh\")(x)",
    ] {
        if let Err(problem) = with_forward(&format!("return {call}")) {
            panic!("{call}: {problem}");
        }
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
fn the_scale_of_an_error_is_computed_with_reals() {
    for body in [
        "torch.sin(x)",
        "torch.nn.functional.softplus(x)",
        "torch.nn.functional.tanhshrink(x)",
    ] {
        let imported = with_forward(&format!("return {body} * y")).unwrap();
        // `fabs` of an integer has several overloads.
        let reference = &imported.files["reference.cu"];
        assert!(
            !["fabs(1)", "fabs(2)"]
                .iter()
                .any(|call| reference.contains(call)),
            "{reference}"
        );
    }
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
