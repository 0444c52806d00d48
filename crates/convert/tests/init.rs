//! New tasks from five kernels in different styles, and from files that cannot become one.

use std::collections::BTreeMap;

use convert::init::{Answers, DimAnswer, NewTask, PythonFile, Request, TensorAnswer, create_task};
use domain::problem::Problems;
use domain::task::{Bundle, Role, Task};

fn create(text: &str, answers: &Answers) -> Result<NewTask, Problems> {
    create_task(&Request {
        file: "my.cu",
        text,
        name: "mine",
        answers,
        headers: &BTreeMap::new(),
        reference: None,
    })
}

/// A task of a kernel with its right answer in Python.
fn create_with(text: &str, python: &str) -> Result<NewTask, Problems> {
    create_task(&Request {
        file: "my.cu",
        text,
        name: "mine",
        answers: &Answers::default(),
        headers: &BTreeMap::new(),
        reference: Some(PythonFile {
            file: "right.py",
            text: python,
        }),
    })
}

fn answers(tensors: &[&str], dims: &[&str]) -> Answers {
    let tensors = tensors
        .iter()
        .map(|text| TensorAnswer::parse(text).expect("the test states it in the documented form"));
    let dims = dims
        .iter()
        .map(|text| DimAnswer::parse(text).expect("the test states it in the documented form"));
    Answers {
        tensors: tensors.collect(),
        dims: dims.collect(),
        ..Answers::default()
    }
}

fn load(new: &NewTask) -> Task {
    let files = new.files.clone();
    Task::load(&Bundle { files }).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Every tensor as `name: dtype[shape] role`.
fn tensors(task: &Task) -> Vec<String> {
    let shape = |tensor: &domain::task::Tensor| {
        let extents = tensor.shape.iter().map(|extent| extent.text());
        extents.collect::<Vec<_>>().join(", ")
    };
    let role = |role| match role {
        Role::In => "in",
        Role::Out => "out",
        Role::Inout => "inout",
    };
    let tensors = task.tensors.iter();
    tensors
        .map(|tensor| {
            let (name, dtype, role) = (&tensor.name, tensor.dtype, role(tensor.role));
            format!("{name}: {dtype}[{}] {role}", shape(tensor))
        })
        .collect()
}

fn baseline(new: &NewTask) -> &str {
    &new.files["baseline.cu"]
}

fn guessed(new: &NewTask, text: &str) -> bool {
    new.guesses.iter().any(|guess| guess.text.contains(text))
}

#[test]
fn a_template_with_a_namespace_and_a_host_launcher_becomes_a_task() {
    let new = create(include_str!("kernels/rms_norm.cu"), &Answers::default()).unwrap();
    let task = load(&new);
    assert_eq!(
        tensors(&task),
        [
            "x: f32[rows, hidden] in",
            "weight: f32[hidden] in",
            "out: f32[rows, hidden] out"
        ]
    );
    let baseline = baseline(&new);
    assert!(
        baseline.contains("grid = [\"rows\"]\nblock = [\"TUNE_BLOCK\"]"),
        "{baseline}"
    );
    assert!(
        baseline.contains("choices = [64, 128, 256, 512]"),
        "{baseline}"
    );
    assert!(
        baseline.contains("constexpr int BLOCK = TUNE_BLOCK;"),
        "{baseline}"
    );
    assert!(!baseline.contains("cudaStream_t") && !baseline.contains("cuda_runtime.h"));
    assert!(guessed(&new, "T is float: as the launch says"));
    assert!(guessed(&new, "epsilon is 0.00001: a usual value"));
}

#[test]
fn a_type_that_an_answer_names_replaces_the_guess() {
    let text = include_str!("kernels/rms_norm.cu");
    let new = create(text, &answers(&["x=f16"], &["hidden=256:multiple=8"])).unwrap();
    let task = load(&new);
    assert_eq!(tensors(&task)[0], "x: f16[rows, hidden] in");
    assert!(baseline(&new).contains("using T = __half;"));
    assert_eq!(task.free_dims["hidden"].multiple, 8);
    assert!(task.cases.iter().all(|case| case.dims["hidden"] % 8 == 0));
}

#[test]
fn a_torch_extension_becomes_a_task_without_torch() {
    let new = create(include_str!("kernels/rope.cu"), &Answers::default()).unwrap();
    let task = load(&new);
    assert_eq!(
        tensors(&task),
        [
            "query: f32[tokens, heads, 2 * half] in",
            "cos_table: f32[tokens, half] in",
            "sin_table: f32[tokens, half] in",
            "rotated: f32[tokens, heads, 2 * half] out",
        ]
    );
    let baseline = baseline(&new);
    assert!(baseline.contains("grid = [\"cdiv(tokens * heads * half, 128)\"]\nblock = [\"128\"]"));
    assert!(baseline.contains("{ dim = \"tokens\", as = \"i64\" }"));
    for host in ["torch", "ATen", "PYBIND11", "at::cuda"] {
        assert!(!baseline.contains(host), "{host} in {baseline}");
    }
}

#[test]
fn vector_loads_through_casts_give_the_multiple_and_main_gives_the_values() {
    let new = create(include_str!("kernels/gemv_int8.cu"), &Answers::default()).unwrap();
    let task = load(&new);
    assert_eq!(
        tensors(&task),
        [
            "W: i8[M, K] in",
            "x: i8[K] in",
            "row_scale: f32[M] in",
            "y: f32[M] out"
        ]
    );
    assert_eq!(
        (task.free_dims["K"].multiple, task.free_dims["M"].multiple),
        (4, 1)
    );
    let scored = task.case("scored").unwrap();
    assert_eq!((scored.dims["M"], scored.dims["K"]), (512, 1024));
    assert!(baseline(&new).contains("block = [\"32\", \"4\"]"));
}

#[test]
fn macros_and_a_launch_through_variables_are_understood() {
    let new = create(
        include_str!("kernels/depthwise_conv.cu"),
        &Answers::default(),
    )
    .unwrap();
    let task = load(&new);
    assert_eq!(
        tensors(&task),
        [
            "in: f16[N, H, W, C] in",
            "filter: f16[3, 3, C] in",
            "out: f16[N, H, W, C] out"
        ]
    );
    assert!(baseline(&new).contains("grid = [\"cdiv(C, 128)\", \"W\", \"N * H\"]"));
    // The grid's z has at most 65,535 blocks.
    assert_eq!(
        (task.free_dims["N"].most, task.free_dims["H"].most),
        (255, 255)
    );
}

#[test]
fn several_launches_become_one_plan_with_a_workspace() {
    let new = create(include_str!("kernels/scan.cu"), &Answers::default()).unwrap();
    let task = load(&new);
    assert_eq!(tensors(&task), ["input: f32[n] in", "output: f32[n] out"]);
    let plan = task.baseline.plan();
    assert_eq!(plan.steps.len(), 3);
    assert_eq!(
        plan.workspaces["block_sums"].shape[0].text(),
        "cdiv(n, 256)"
    );
    let baseline = baseline(&new);
    assert!(
        baseline.contains("scan_sums(float *sums, int n) {\n    const int blocks ="),
        "{baseline}"
    );
}

#[test]
fn boundary_and_small_shapes_are_added() {
    let new = create(include_str!("kernels/rms_norm.cu"), &Answers::default()).unwrap();
    let task = load(&new);
    let widths = task
        .cases
        .iter()
        .map(|case| (case.name.as_str(), case.dims["hidden"]));
    let widths = widths.collect::<BTreeMap<_, _>>();
    assert_eq!(
        (widths["least"], widths["below-a-warp"], widths["odd"]),
        (1, 31, 129)
    );
}

#[test]
fn the_reference_marks_the_one_line_that_is_missing() {
    let new = create(include_str!("kernels/rms_norm.cu"), &Answers::default()).unwrap();
    let line = new.files["reference.cu"]
        .lines()
        .position(|line| line.starts_with("#error"));
    let expected = format!("reference.cu, line {}", line.unwrap() + 1);
    assert!(new.next.contains(&expected), "{}", new.next);
}

#[test]
fn headers_of_the_project_become_files_of_the_task() {
    let text = "#include <cuda_runtime.h>\n#include \"tile/clamp.cuh\"\n\
         __global__ void fill(float* y, const float* x, int n) {\n    \
         const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = clamped(x[i]);\n}\n\
         void launch(float* y, const float* x, int n) { fill<<<(n + 255) / 256, 256>>>(y, x, n); }\n";
    let clamp_header = "#pragma once\n#include <vector>\n#include <cuda_fp16.h>\n# include \"types.h\"\n\
         __device__ inline float clamped(float x) { return fminf(x, index_t(3)); }\n";
    let types = "#include <cstdint>\ntypedef int32_t index_t;\n";
    let headers = [("tile/clamp.cuh", clamp_header), ("types.h", types)];
    let headers = headers
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into();
    let new = create_task(&Request {
        file: "my.cu",
        text,
        name: "mine",
        answers: &Answers::default(),
        headers: &headers,
        reference: None,
    })
    .unwrap();
    let task = load(&new);
    assert_eq!(task.headers.len(), 2);
    let copied = &task.headers["tile/clamp.cuh"];
    assert!(
        copied.contains("cuda_fp16.h") && copied.contains("types.h"),
        "{copied}"
    );
    assert!(!copied.contains("<vector>"), "{copied}");
    assert_eq!(task.headers["types.h"], "typedef int32_t index_t;\n");
    let baseline = baseline(&new);
    assert!(
        baseline.contains("#include \"tile/clamp.cuh\""),
        "{baseline}"
    );
    assert!(baseline.contains("using int32_t = int;"), "{baseline}");
    assert!(guessed(
        &new,
        "vector is left out of include/tile/clamp.cuh"
    ));
}

#[test]
fn an_answer_in_python_becomes_both_references() {
    let table = [
        (
            include_str!("kernels/rms_norm.cu"),
            include_str!("kernels/rms_norm.py"),
            "out = \"hidden\"",
        ),
        (
            include_str!("kernels/rope.cu"),
            include_str!("kernels/rope.py"),
            "rotated = \"1\"",
        ),
        (
            include_str!("kernels/gemv_int8.cu"),
            include_str!("kernels/gemv_int8.py"),
            "y = \"K\"",
        ),
        (
            include_str!("kernels/depthwise_conv.cu"),
            include_str!("kernels/depthwise_conv.py"),
            "out = \"1\"",
        ),
        (
            include_str!("kernels/scan.cu"),
            include_str!("kernels/scan.py"),
            "output = \"n\"",
        ),
        (
            include_str!("kernels/add_norm.cu"),
            include_str!("kernels/add_norm.py"),
            "y = \"width\"",
        ),
    ];
    for (kernel, python, terms) in table {
        let plain = load(&create(kernel, &Answers::default()).unwrap());
        let new = create_with(kernel, python).unwrap_or_else(|problems| panic!("{problems}"));
        let task = load(&new);
        let reference = &new.files["reference.cu"];
        assert!(!reference.contains("#error"), "{reference}\n{}", new.next);
        assert_eq!(new.files["reference.py"], python);
        assert!(!new.files.contains_key("check.cu"));
        assert!(
            new.files["task.toml"].contains(terms),
            "{}",
            new.files["task.toml"]
        );
        assert!(new.next.contains("kernelwright task check"), "{}", new.next);
        // The translation holds for every value of every dim.
        assert_eq!(task.free_dims, plain.free_dims, "{reference}");
    }
}

#[test]
fn an_output_in_the_place_of_an_input_is_written_after_all_is_read() {
    let new = create_with(
        include_str!("kernels/add_norm.cu"),
        include_str!("kernels/add_norm.py"),
    )
    .unwrap();
    assert_eq!(tensors(&load(&new))[0], "residual: f32[rows, width] inout");
    let reference = &new.files["reference.cu"];
    let mut kernels = reference
        .lines()
        .filter(|line| line.starts_with("kernel = "));
    let last = kernels.next_back().unwrap();
    assert_eq!(last, "kernel = \"reference_residual\"", "{reference}");
    let (_, code) = reference.split_once("void reference_residual(").unwrap();
    assert!(
        code.contains("double* residual") && !code.contains("const double* residual"),
        "{code}"
    );
}

#[test]
fn a_scalar_of_the_kernel_is_an_argument_of_the_reference() {
    let new = create_with(
        include_str!("kernels/rms_norm.cu"),
        include_str!("kernels/rms_norm.py"),
    )
    .unwrap();
    let reference = &new.files["reference.cu"];
    assert!(
        reference.contains("float epsilon") && !reference.contains("1e-5"),
        "{reference}"
    );
}

#[test]
fn a_translation_that_rests_on_a_value_fixes_the_dim() {
    let python = "def reference(input, n):\n    total = input * 0\n    for k in range(n // 2048):\n        total = total + input\n    return total\n";
    let new = create_with(include_str!("kernels/scan.cu"), python).unwrap();
    assert!(
        load(&new).fixed_dims.contains_key("n"),
        "{}",
        new.files["task.toml"]
    );
    assert!(guessed(
        &new,
        "fixed: n, because right.py rests on the value"
    ));
}

#[test]
fn an_answer_without_a_translation_is_kept_as_the_second_reference() {
    let python = "import numpy as np\ndef reference(input):\n    return np.sort(input)\n";
    let new = create_with(include_str!("kernels/scan.cu"), python).unwrap();
    load(&new);
    assert!(new.files["reference.cu"].contains("#error"));
    assert_eq!(new.files["reference.py"], python);
    assert!(new.next.contains("right.py:3:"), "{}", new.next);
    assert!(new.next.contains("reference.cu, line "), "{}", new.next);
}

#[test]
fn a_wrong_answer_in_python_is_refused_with_its_line() {
    let table = [
        (
            "def answer(input):\n    return input\n",
            "it defines no function `reference`",
        ),
        (
            "def reference(input:\n    return input\n",
            "does not parse as Python",
        ),
        (
            "def reference(values):\n    return values\n",
            "right.py:1:15: the parameter values is no input, dim or scalar of the kernel; those are: input, n",
        ),
        (
            "def reference(input):\n    return {'sums': input}\n",
            "it returns no array for output",
        ),
        (
            "def reference(input):\n    return input[1:]\n",
            "it returns output with the shape [(n - 1)], and the kernel writes [n]",
        ),
    ];
    for (python, expected) in table {
        let refused = create_with(include_str!("kernels/scan.cu"), python);
        let problems = refused.expect_err(python).to_string();
        assert!(problems.contains(expected), "{python}\ngave\n{problems}");
    }
}

/// The problems of a text, one a line.
fn refusal(text: &str) -> String {
    create(text, &Answers::default())
        .expect_err("the file must be refused")
        .to_string()
}

#[test]
fn files_that_cannot_become_a_task_are_refused_with_place_and_remedy() {
    let kernel = "__global__ void k(const float* x, float* y, int n) {\n\
                  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = x[i]; }\n";
    let table = [
        ("int main() { return 0; }".to_owned(), "no kernel in the file"),
        (String::new(), "no kernel in the file"),
        ("__global__ void k(float* x { x[0] = 1; }".to_owned(), "my.cu:1:"),
        (kernel.to_owned(), "--grid 'cdiv(N, 256)' --block 256"),
        (
            format!("{kernel}{}", kernel.replace("void k", "void other")),
            "choose one with --kernel: k, other",
        ),
        (
            format!("{kernel}void f(float* x, int n) {{ k<<<blocks_of(n, 3), 256>>>(x, x, n); }}"),
            "my.cu:3: the launch of k: the extent \"blocks_of(n, 3)\" has no form in a plan",
        ),
        (
            format!("{kernel}void f(float* x, int n) {{ k<<<n, 256>>>(x, n); }}"),
            "has 2 arguments and the kernel has 3 parameters",
        ),
        (
            format!(
                "{kernel}void f(float* x, int n) {{ k<<<n, 256>>>(x, x, n); }}\n\
                 void g(float* x, int n) {{ k<<<n, 128>>>(x, x, n); }}"
            ),
            "launched from several functions: f, g",
        ),
        (
            "#include \"mine.h\"\n__global__ void k(float* y) { y[threadIdx.x] = 1; }\n\
             void f(float* y) { k<<<1, 32>>>(y); }"
                .to_owned(),
            "my.cu:1: the file includes \"mine.h\"",
        ),
        (
            "__global__ void k(const float* x, float* y, int n) { y[threadIdx.x] = x[n * n + helper(n)]; }\n\
             void f(float* y, int n) { k<<<1, 32>>>(y, y, n); }"
                .to_owned(),
            "--tensor 'x=f32[...]'",
        ),
        (
            "struct P { float* y; };\n__global__ void k(P p) { p.y[0] = 1; }\nvoid f(P p) { k<<<1, 32>>>(p); }"
                .to_owned(),
            "the parameter p has the type P, which no plan passes",
        ),
        (
            "__global__ void k(const float* x, int n) { float a = x[threadIdx.x]; }\n\
             void f(float* x, int n) { k<<<1, 32>>>(x, n); }"
                .to_owned(),
            "writes to none of its parameters",
        ),
    ];
    for (text, expected) in table {
        let refusal = refusal(&text);
        assert!(refusal.contains(expected), "{text}\ngave\n{refusal}");
    }
}

#[test]
fn answers_about_names_that_do_not_exist_are_refused_with_the_names() {
    let text = include_str!("kernels/scan.cu");
    let refusal = |answers| create(text, &answers).unwrap_err().to_string();
    assert!(refusal(answers(&["z=f32[n]"], &[])).contains("its tensors are: input, output"));
    assert!(refusal(answers(&[], &["m=4"])).contains("its dims are: n"));
    assert!(refusal(answers(&[], &["n=7:multiple=2"])).contains("7 is not among"));
    assert!(
        TensorAnswer::parse("x=f31")
            .unwrap_err()
            .contains("there are f16, bf16")
    );
    assert!(DimAnswer::parse("n=0").is_err() && DimAnswer::parse("n=4:most=5").is_err());
}

#[test]
fn no_prefix_of_a_reference_makes_it_panic() {
    let kernel = include_str!("kernels/depthwise_conv.cu");
    let python = include_str!("kernels/depthwise_conv.py");
    for end in 0..python.len() {
        let _ = create_with(kernel, &python[..end]);
    }
}

#[test]
fn no_prefix_of_a_file_makes_it_panic() {
    for text in [
        include_str!("kernels/rms_norm.cu"),
        include_str!("kernels/rope.cu"),
        include_str!("kernels/gemv_int8.cu"),
        include_str!("kernels/depthwise_conv.cu"),
        include_str!("kernels/scan.cu"),
    ] {
        for end in (0..text.len()).step_by(23) {
            let _ = create(&text[..end], &Answers::default());
        }
    }
}
