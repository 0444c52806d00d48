//! Exports as texts: every kind of step, argument and expression of a plan.

#![expect(clippy::unwrap_used, reason = "the tests' own texts are well-formed")]

use std::collections::BTreeMap;

use convert::export::Export;
use domain::candidate::KernelSource;
use domain::preconditions::{DimBounds, Preconditions, TensorLimits};
use domain::task::{Bundle, Task};
use serde_json::{Value, json};

const TASK: &str = r#"
name = "fill"
[dims]
N = {}
new = { fixed = 8 }
[[tensor]]
name = "x"
dtype = "f32"
shape = ["N", "new"]
role = "in"
align = 4
[[tensor]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "out"
align = 16
[[scalar]]
name = "scale"
dtype = "f32"
value = "1 / sqrt(N)"
[tolerance]
class = "f32"
[[case]]
name = "small"
dims = { N = 12 }
use = ["check", "score"]
"#;

const PLAN: &str = r#"/*---
[[launch]]
memset = "sums"
byte = 255
[[launch]]
kernel = "k"
grid = ["min(cdiv(N, BLOCK), 2 * SM_COUNT)", "N > 9 ? 1 : N % 3 + 1"]
block = ["BLOCK"]
shared = "4 * BLOCK"
args = ["x", "sums", "N", { dim = "N", as = "i64" }, "scale", "BLOCK", 7, 0.5, "N * 3"]
[workspace.first]
dtype = "i32"
shape = [3]
[workspace.sums]
dtype = "f32"
shape = ["N", "new"]
[tunables.BLOCK]
value = 32
choices = [32, 64]
---*/
extern "C" __global__ void k() {}
"#;

fn load(text: &str) -> (Task, KernelSource) {
    let plain = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = []\n---*/\nk\n";
    let mut files = BTreeMap::from([("task.toml".to_owned(), TASK.to_owned())]);
    for name in ["reference.cu", "check.cu", "baseline.cu"] {
        files.insert(name.to_owned(), plain.to_owned());
    }
    let task = Task::load(&Bundle { files }).unwrap_or_else(|problems| panic!("{problems}"));
    let source = KernelSource::parse("k.cu", text);
    (task, source.unwrap_or_else(|problems| panic!("{problems}")))
}

fn preconditions() -> Preconditions {
    let bounds = |min, max, multiple| DimBounds {
        min,
        max,
        multiple,
        task_max: None,
    };
    let limits = |align, max_elements| TensorLimits {
        align,
        max_elements,
    };
    Preconditions {
        dims: [("N", bounds(4, 400, 4)), ("new", bounds(8, 8, 8))]
            .map(|(name, bounds)| (name.to_owned(), bounds))
            .into(),
        tensors: [("x", limits(4, 3200)), ("y", limits(16, 400))]
            .map(|(name, limits)| (name.to_owned(), limits))
            .into(),
        shapes: 5,
    }
}

fn write(write: impl Fn(&Export<'_>) -> convert::export::Files) -> BTreeMap<String, String> {
    write_kernel(PLAN, write)
}

fn write_kernel(
    text: &str,
    write: impl Fn(&Export<'_>) -> convert::export::Files,
) -> BTreeMap<String, String> {
    let (task, source) = load(text);
    let configuration = BTreeMap::from([("BLOCK".to_owned(), 64)]);
    let files = write(&Export {
        name: "fill",
        task: &task,
        source: &source,
        configuration: &configuration,
        preconditions: &preconditions(),
        ptx: ".version 8.0\n\0",
        machine_code: Some((89, &[1, 2, 3])),
        sm_count: 58,
        verdict: "accepted\n\\",
    });
    let texts = files.into_iter();
    texts
        .map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()))
        .collect()
}

/// The value of a plan's expression, as a loader computes it.
fn value(part: &Value, names: &BTreeMap<&str, i64>) -> i64 {
    if let Some(number) = part.as_i64() {
        return number;
    }
    if let Some(name) = part.as_str() {
        return names[name];
    }
    let parts = part.as_array().unwrap();
    let of = |at: usize| value(&parts[at], names);
    match parts[0].as_str().unwrap() {
        "+" => of(1) + of(2),
        "-" => of(1) - of(2),
        "*" => of(1) * of(2),
        "%" => of(1) % of(2),
        "<" => i64::from(of(1) < of(2)),
        "<=" => i64::from(of(1) <= of(2)),
        "==" => i64::from(of(1) == of(2)),
        "?" => of(if of(1) != 0 { 2 } else { 3 }),
        "min" => of(1).min(of(2)),
        "cdiv" => (of(1) + of(2) - 1) / of(2),
        other => panic!("no loader has the operation {other}"),
    }
}

#[test]
fn a_plan_has_every_step_with_the_values_of_names_that_are_no_dims() {
    let files = write(|export| export.write_plan());
    let names = files.keys().map(String::as_str).collect::<Vec<_>>();
    let wanted = [
        "fill.cu",
        "fill.cubin",
        "fill.json",
        "fill.ptx",
        "load.py",
        "load.rs",
    ];
    assert_eq!(names, wanted);
    assert_eq!(files["fill.ptx"], ".version 8.0\n");
    assert!(files["fill.cu"].contains("#define BLOCK 64\n"));
    let plan: Value = serde_json::from_str(&files["fill.json"]).unwrap();
    let names = BTreeMap::from([
        ("N", 200),
        ("new", 8),
        ("&x", 4096),
        ("&y", 8192),
        ("&", 512),
    ]);
    // Three integers, and 200 rows of eight floats, each a multiple of 256 bytes.
    assert_eq!(value(&plan["workspace_bytes"], &names), 256 + 6400);
    let [memset, launch] = plan["steps"].as_array().unwrap().as_slice() else {
        panic!("{plan}");
    };
    assert_eq!(value(&memset["memset"], &names), 512 + 256);
    assert_eq!(
        (&memset["byte"], value(&memset["bytes"], &names)),
        (&json!(255), 6400)
    );
    let extents = launch["extents"].as_array().unwrap();
    let extents = extents.iter().map(|extent| value(extent, &names));
    assert_eq!(extents.collect::<Vec<_>>(), [4, 1, 1, 64, 1, 1, 256]);
    let few = BTreeMap::from([("N", 5)]);
    assert_eq!(value(&launch["extents"][1], &few), 3);
    let arguments = launch["arguments"].as_array().unwrap();
    let kinds = arguments
        .iter()
        .map(|argument| argument[0].as_str().unwrap());
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            "address", "address", "i32", "i64", "f32", "i32", "i32", "f32", "i32"
        ]
    );
    assert_eq!(arguments[4][1], json!(["/", 1, ["sqrt", "N"]]));
    assert_eq!(value(&arguments[8][1], &names), 600);
}

#[test]
fn a_window_of_the_cache_is_exported_and_other_launchers_know_nothing_of_windows() {
    let plain = write(|export| export.write_cpp());
    assert!(!plain["fill.cpp"].contains("cuLaunchKernelEx"));
    let window = "block = [\"BLOCK\"]\nl2_persist = { buffer = \"sums\", bytes = \"N * 8\", hit_ratio = 0.5 }";
    let text = PLAN.replace("block = [\"BLOCK\"]", window);
    let launcher = &write_kernel(&text, |export| export.write_cpp())["fill.cpp"];
    let address = "static_cast<char*>(workspace) + scratch.offsets[1]";
    assert!(
        launcher.contains(&format!("stream, {{{address}, std::min(")),
        "{launcher}"
    );
    assert!(launcher.contains(", 0.5f})) return reason;"), "{launcher}");
    let plan = &write_kernel(&text, |export| export.write_plan())["fill.json"];
    let plan: Value = serde_json::from_str(plan).unwrap();
    let window = &plan["steps"][1]["l2_persist"];
    let names = BTreeMap::from([("N", 200), ("new", 8), ("&", 512)]);
    assert_eq!(value(&window["address"], &names), 512 + 256);
    assert_eq!(value(&window["bytes"], &names), 1600);
    assert_eq!(window["hit_ratio"], json!(0.5));
}

#[test]
fn a_plan_refuses_what_the_preconditions_exclude() {
    let plan: Value =
        serde_json::from_str(&write(|export| export.write_plan())["fill.json"]).unwrap();
    let good = BTreeMap::from([
        ("N", 200),
        ("new", 8),
        ("&x", 4096),
        ("&y", 8192),
        ("&", 512),
    ]);
    let refused = |name: &'static str, replaced: i64| {
        let mut names = good.clone();
        names.insert(name, replaced);
        let rows = plan["requires"].as_array().unwrap();
        let mut broken = rows.iter().filter(|row| value(&row["holds"], &names) == 0);
        broken
            .next()
            .map(|row| row["else"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused("N", 200), None);
    for (name, replaced, wanted) in [
        ("N", 0, "N must be 4 to 400 by 4"),
        ("N", 404, "N must be 4 to 400 by 4"),
        ("N", 202, "N must be 4 to 400 by 4"),
        ("new", 16, "new must be 8"),
        ("&x", 4098, "x must be device memory aligned to 4 bytes"),
        ("&y", 8196, "y must be device memory aligned to 16 bytes"),
        ("&y", 0, "y must be device memory"),
        (
            "&",
            128,
            "the workspace must be device memory aligned to 256 bytes",
        ),
    ] {
        let found = refused(name, replaced).unwrap_or_default();
        assert!(found.contains(wanted), "{name} = {replaced}: {found}");
    }
}

#[test]
fn cpp_names_no_keyword_and_keeps_comments_in_their_line() {
    let files = write(|export| export.write_cpp());
    let (header, source) = (&files["fill.h"], &files["fill.cpp"]);
    assert!(header.contains("std::int64_t new_ = 8;"), "{header}");
    assert!(header.contains("// accepted  \n"), "{header}");
    assert!(source.contains("dims.new_"), "{source}");
    assert!(
        source.contains(
            "std::min<std::int64_t>(cdiv(dims.N, INT64_C(64)), (INT64_C(2) * INT64_C(58)))"
        ),
        "{source}"
    );
    assert!(
        source.contains("float(")
            || source.contains("static_cast<float>((1.0 / std::sqrt(double(dims.N))))"),
        "{source}"
    );
    assert!(files["fill_image.inc"].contains("machine_code_capability = 89"));
}

#[test]
fn a_pytorch_operator_infers_dims_and_checks_shapes() {
    let files = write(|export| export.write_torch());
    let names = files.keys().map(String::as_str).collect::<Vec<_>>();
    let wanted = [
        "fill.cpp",
        "fill.cu",
        "fill.h",
        "fill.py",
        "fill_c.cpp",
        "fill_image.inc",
    ];
    assert_eq!(names, wanted);
    let module = &files["fill.py"];
    for line in [
        "@torch.library.custom_op(\"kernelwright::fill\", mutates_args=())",
        "def fill(x: torch.Tensor) -> torch.Tensor:",
        "    (N, new) = _dims(x)",
        "    N = x.shape[0]",
        "    if tuple(x.shape) != (N, new,):",
        "    y = torch.empty((N,), dtype=torch.float32, device=x.device)",
        "    _launch((N, new), (x, y,))",
        "@fill.register_fake",
    ] {
        assert!(module.contains(&format!("{line}\n")), "{line}\n{module}");
    }
    let interface = &files["fill_c.cpp"];
    assert!(interface.contains("dims.new_ = values[1];"), "{interface}");
}

#[test]
fn a_solution_holds_every_source_of_the_operator() {
    let files = write(|export| export.write_solution());
    let solution: Value = serde_json::from_str(&files["fill.json"]).unwrap();
    assert_eq!(solution["definition"], "fill");
    assert_eq!(solution["spec"]["entry_point"], "main.py::run");
    let sources = solution["sources"].as_array().unwrap();
    let paths = sources
        .iter()
        .map(|source| source["path"].as_str().unwrap());
    let paths = paths.collect::<Vec<_>>();
    assert!(
        paths.contains(&"fill.py") && paths.contains(&"main.py"),
        "{paths:?}"
    );
}

#[test]
fn a_jax_handler_takes_a_buffer_for_each_tensor() {
    let files = write(|export| export.write_jax());
    let handler = &files["fill_ffi.cpp"];
    for text in [
        ".Arg<ffi::Buffer<ffi::F32>>()\n        .Ret<ffi::Buffer<ffi::F32>>());",
        "dims.N = in_x.dimensions()[0];",
        "dims.new_ = in_x.dimensions()[1];",
        "XLA_FFI_DEFINE_HANDLER_SYMBOL(\n    fill_ffi, call,",
    ] {
        assert!(handler.contains(text), "{text}\n{handler}");
    }
}

#[test]
fn the_layout_of_hugging_face_has_a_unique_namespace() {
    let files = write(|export| export.write_hub());
    let metadata: Value = serde_json::from_str(&files["build/torch-cuda/metadata.json"]).unwrap();
    let id = metadata["id"].as_str().unwrap();
    assert!(id.starts_with("_fill_cuda_"), "{id}");
    let module = &files["build/torch-cuda/__init__.py"];
    assert!(
        module.contains(&format!("custom_op(\"{id}::fill\"")),
        "{module}"
    );
    assert!(files.contains_key("build/torch-cuda/fill.cpp"));
}
