//! Front matters as models and people write them: what has one meaning is read with a note, what has
//! none is refused with every defect at once.

use domain::candidate::KernelSource;
use domain::plan::Configuration;
use proptest::prelude::*;

const PLAN: &str = r#"/*---
[idea]
title = "more rows"
gain = [1.5, 1.5]

[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)", 1]
block = [64]
shared = "N * 4"
args = ["x", "y", "N", 1024, 0.5]

[workspace.part]
dtype = "f32"
shape = ["N"]

[tunables.THREADS]
value = 64
choices = [64]
---*/
extern "C" __global__ void scale(const float* x, float* y, int n, int m, float a) {}
"#;

fn parse(text: &str) -> KernelSource {
    KernelSource::parse("kernel.cu", text).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// Natural mistakes that have one meaning: the documented text, the text as written instead, and the
/// words of the note.
const READ: &[(&str, &str, &str)] = &[
    (
        "block = [64]",
        "block = 64",
        "line 9: `block = 64` was read as `block = [64]`",
    ),
    (
        "block = [64]",
        "block = \"64\"",
        "was read as `block = [64]`",
    ),
    ("block = [64]", "block = 64.0", "was read as `block = [64]`"),
    (
        "block = [64]",
        "block = (64, 1, 1)",
        "was read as `block = [64, 1, 1]`",
    ),
    (
        "block = [64]",
        "block = dim3(64)",
        "was read as `block = [64]`",
    ),
    (
        "block = [64]",
        "block = {64, 1, 1}",
        "line 9: `block = {64, 1, 1}` was read as `block = [64, 1, 1]`",
    ),
    (
        "block = [64]",
        "block = 64, 1, 1",
        "was read as `block = [64, 1, 1]`",
    ),
    (
        "block = [64]",
        "block = { x = 64, y = 1 }",
        "was read as `block = [64, 1]`",
    ),
    ("block = [64]", "block = [64, 1, 1, 1]", ""),
    (
        "block = [64]",
        "block = [64];",
        "line 9: `block = [64];` was read as `block = [64]`",
    ),
    ("block = [64]", "block: [64]", "was read as `block = [64]`"),
    (
        "block = [64]",
        "block = [64u]",
        "was read as `block = [64]`",
    ),
    ("block = [64]", "block = [64] // one warp pair", ""),
    ("block = [64]", "// the block\nblock = [64]", ""),
    (
        "block = [64]",
        "blockDim = [64]",
        "`blockDim` was read as `block`",
    ),
    (
        "block = [64]",
        "threads_per_block = [64]",
        "`threads_per_block` was read as `block`",
    ),
    (
        "block = [64]",
        "blocck = [64]",
        "`blocck` was read as `block`",
    ),
    (
        "block = [64]",
        "block = [64]\nlaunch_bounds = 64",
        "line 10: `launch_bounds` has no effect and was ignored",
    ),
    (
        "block = [64]",
        "block = [64]\ndescription = \"one pass\"",
        "`description` has no effect",
    ),
    (
        "[[launch]]",
        "[launch]",
        "`[launch]` was read as `[[launch]]`",
    ),
    ("[[launch]]", "[[launches]]", ""),
    ("[[launch]]", "[[kernel]]", ""),
    ("[[launch]]", "[launch]:", "was read as `[[launch]]`"),
    (
        "kernel = \"scale\"",
        "kernel = scale",
        "line 7: `kernel = scale` was read as `kernel = \"scale\"`",
    ),
    (
        "kernel = \"scale\"",
        "name = \"scale\"",
        "`name` was read as `kernel`",
    ),
    ("kernel = \"scale\"", "kernel = 'scale'", ""),
    (
        "grid = [\"cdiv(N, 256)\", 1]",
        "grid = [cdiv(N, 256), 1]",
        "was read as `grid = [\"cdiv(N, 256)\", 1]`",
    ),
    (
        "grid = [\"cdiv(N, 256)\", 1]",
        "grid = \"cdiv(N, 256)\"",
        "was read as `grid = [\"cdiv(N, 256)\"]`",
    ),
    (
        "grid = [\"cdiv(N, 256)\", 1]",
        "grid = cdiv(N, 256)",
        "was read as `grid = \"cdiv(N, 256)\"`",
    ),
    (
        "grid = [\"cdiv(N, 256)\", 1]",
        "grid = \"cdiv(N, 256), 1\"",
        "was read as `grid = [\"cdiv(N, 256)\", 1]`",
    ),
    (
        "shared = \"N * 4\"",
        "shared = N * 4",
        "was read as `shared = \"N * 4\"`",
    ),
    (
        "shared = \"N * 4\"",
        "smem = \"N * 4\"",
        "`smem` was read as `shared`",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [x, y, N, 1024, 0.5f]",
        "was read as `args = [\"x\", \"y\", \"N\", 1024, 0.5]`",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [\"x\" \"y\", \"N\", 1024, 0.5]",
        "was read as",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = \"x, y, N, 1024, 0.5\"",
        "was read as",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [\"const float* x\", \"y\", \"int N\", 1024, 0.5]",
        "`\"const float* x\"` was read as `\"x\"`",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [\n  \"x\", // input\n  \"y\",\n  \"N\", 1024, 0.5\n]",
        "",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [\"x\", \"y\", \"N\", { value = 1024, as = \"i32\" }, 0.5]",
        "",
    ),
    (
        "gain = [1.5, 1.5]",
        "gain = 1.5",
        "`gain = 1.5` was read as `gain = [1.5, 1.5]`",
    ),
    (
        "gain = [1.5, 1.5]",
        "gain = \"1.5x\"",
        "was read as `gain = [1.5, 1.5]`",
    ),
    (
        "title = \"more rows\"",
        "title = more rows",
        "was read as `title = \"more rows\"`",
    ),
    (
        "title = \"more rows\"",
        "title = \"more rows\"\nconfidence = 3",
        "`confidence` has no effect",
    ),
    (
        "[tunables.THREADS]\nvalue = 64\nchoices = [64]",
        "[tunables]\nTHREADS = 64",
        "was read as `THREADS = { value = 64, choices = [64] }`",
    ),
    (
        "[tunables.THREADS]\nvalue = 64\nchoices = [64]",
        "[tunables]\nTHREADS = [64]",
        "was read as `THREADS = { value = 64, choices = [64] }`",
    ),
    (
        "[tunables.THREADS]\nvalue = 64\nchoices = [64]",
        "[tunables.THREADS]\nvalue = 64",
        "was read as `THREADS = { value = 64, choices = [64] }`",
    ),
    (
        "[tunables.THREADS]\nvalue = 64\nchoices = [64]",
        "[tunables.THREADS]\ndefault = 64\nvalues = [64]",
        "`values` was read as `choices`",
    ),
    (
        "[tunables.THREADS]\nvalue = 64\nchoices = [64]",
        "[[tunables]]\nname = \"THREADS\"\nvalue = 64\nchoices = [64]",
        "was read as `[tunables.THREADS]`",
    ),
    (
        "value = 64\nchoices = [64]",
        "value = \"64\"\nchoices = [\"64\"]",
        "`\"64\"` was read as `64`",
    ),
    (
        "dtype = \"f32\"",
        "dtype = \"float\"",
        "`float` was read as `f32`",
    ),
    (
        "dtype = \"f32\"",
        "dtype = f32",
        "was read as `dtype = \"f32\"`",
    ),
    (
        "shape = [\"N\"]",
        "shape = \"N\"",
        "was read as `shape = [\"N\"]`",
    ),
    (
        "shape = [\"N\"]",
        "size = [\"N\"]",
        "`size` was read as `shape`",
    ),
    ("[workspace.part]", "[workspaces.part]", ""),
    (
        "[workspace.part]",
        "[[workspace]]\nname = \"part\"",
        "was read as `[workspace.part]`",
    ),
];

#[test]
fn a_plan_with_one_meaning_is_read_with_a_note() {
    for (documented, written, note) in READ {
        assert!(PLAN.contains(documented), "{documented}");
        let expected = parse(PLAN);
        assert_eq!(expected.notes(), [""; 0]);
        let found = parse(&PLAN.replacen(documented, written, 1));
        let steps = |source: &KernelSource| {
            let mut steps = format!("{:?}", source.plan());
            steps = steps.replace("text: \"1\", root: Integer(1)", "");
            steps
        };
        assert_eq!(steps(&found), steps(&expected), "{written}");
        assert_eq!(found.idea(), expected.idea(), "{written}");
        assert_eq!(found.body(), expected.body(), "{written}");
        if !note.is_empty() {
            let notes = found.notes().join("\n");
            assert!(notes.contains(note), "{written}: {notes}");
        }
    }
}

#[test]
fn a_constant_of_the_code_has_its_value_in_the_plan() {
    let with = |definition: &str| {
        let text = PLAN.replacen("block = [64]", "block = [\"WIDTH\"]", 1);
        parse(&format!("{text}{definition}\n"))
    };
    for definition in [
        "#define WIDTH 64",
        "  # define WIDTH (32 * 2) // lanes",
        "constexpr int WIDTH = 64;",
        "static const unsigned WIDTH = 64;",
    ] {
        let source = with(definition);
        assert_eq!(source.plan().constants["WIDTH"], 64, "{definition}");
        assert!(
            source.notes()[0].contains("WIDTH = 64"),
            "{:?}",
            source.notes()
        );
    }
    for ambiguous in [
        "#define WIDTH 64\n#define WIDTH 32",
        "#define WIDTH blockDim.x",
        "int WIDTH = 64;",
    ] {
        assert!(with(ambiguous).plan().constants.is_empty(), "{ambiguous}");
    }
}

/// Expressions as they are written elsewhere, with their values for N = 1000 and F = 3.
#[test]
fn expressions_of_other_languages_have_their_values() {
    let table = [
        ("N > 512 ? 8 : 2", 8),
        ("(N < 512) ? 8 : F == 3 ? 4 : 2", 4),
        ("N // 256", 3),
        ("(N + 255) // 256", 4),
        ("ceil_div(N, 256)", 4),
        ("ceildiv(N, 256)", 4),
        ("div_up(N, 256)", 4),
        ("CEIL_DIV(N, 256)", 4),
        ("ceil(N / 256)", 4),
        ("F * sizeof(float)", 12),
        ("F * sizeof( __half )", 6),
        ("min(N, 512, F)", 3),
        ("max(1, 2, 3, F + 1)", 4),
    ];
    let scope = [("N".to_owned(), 1000), ("F".to_owned(), 3)].into();
    for (text, value) in table {
        let expression =
            domain::expr::Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(expression.integer(&scope), Ok(value), "{text}");
    }
}

/// Mistakes without one meaning: all of them at once, each with its line and a text that can stand there.
#[test]
fn defects_without_one_meaning_are_reported_together() {
    let text = PLAN
        .replacen("block = [64]", "block = [64, 2, 2, 2]\nstream = 1", 1)
        .replacen("grid = [\"cdiv(N, 256)\", 1]", "grid = [pow(N, 2)]", 1)
        .replacen("0.5]", "true]", 1)
        .replacen("dtype = \"f32\"", "dtype = \"complex\"", 1)
        .replacen("shape = [\"N\"]", "init = 0", 1)
        .replacen("value = 64", "value = many", 1);
    let problems = KernelSource::parse("kernel.cu", text)
        .expect_err("it has defects")
        .0;
    let found: Vec<_> = problems
        .iter()
        .map(|problem| (problem.line, problem.message.as_str()))
        .collect();
    let expected = [
        (
            8,
            "unknown function \"pow\"; there are cdiv, min, max, sizeof, sqrt and exp2",
        ),
        (9, "block has 4 extents"),
        (
            10,
            "no key is called \"stream\"; the keys are kernel, grid, block, shared, cooperative, l2_persist, args, memset, byte",
        ),
        (12, "an argument cannot be a boolean"),
        (
            15,
            "\"complex\" is none of f16, bf16, f32, f64, i8, u8, i32, u32, i64",
        ),
        (16, "no key is called \"init\"; the keys are dtype, shape"),
        (19, "value is not a whole number"),
        (14, "the workspace part has no shape"),
    ];
    assert_eq!(found, expected);
    assert!(problems.iter().all(|problem| !problem.fix.is_empty()));
}

/// Texts that are refused, in words that need no document and name no type of the implementation.
const REFUSED: &[(&str, &str)] = &[
    ("block = [64]", "block = []"),
    ("block = [64]", "block = [true]"),
    ("block = [64]", "block = [\"64 +\"]"),
    ("block = [64]", "block = [\"N ? 1\"]"),
    ("block = [64]", "block = [64"),
    ("block = [64]", "block = [1.5]"),
    ("block = [64]", "block"),
    ("block = [64]", "use 64 threads"),
    ("block = [64]", "block = [64]\nblock = [32]"),
    ("block = [64]", "block = [64]\ncluster = [2]"),
    ("block = [64]", ""),
    ("kernel = \"scale\"", "kernel = \"sc ale\""),
    ("kernel = \"scale\"", "kernel = [\"scale\"]"),
    ("kernel = \"scale\"", "kernel = \"scale"),
    ("args = [\"x\", \"y\", \"N\", 1024, 0.5]", ""),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [[\"x\"]]",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [\"x[0]\"]",
    ),
    (
        "args = [\"x\", \"y\", \"N\", 1024, 0.5]",
        "args = [{ dim = \"N\", as = \"f32\" }]",
    ),
    ("[workspace.part]", "[workspace]"),
    ("dtype = \"f32\"", ""),
    ("choices = [64]", "choices = [128]"),
    ("choices = [64]", "choices = \"all\""),
    ("[tunables.THREADS]", "[constants.THREADS]"),
    ("[[launch]]", "[launch"),
    ("[idea]", "[idea]]"),
];

#[test]
fn a_refusal_stands_alone() {
    for (documented, written) in REFUSED {
        assert!(PLAN.contains(documented), "{documented}");
        let text = PLAN.replacen(documented, written, 1);
        let Err(problems) = KernelSource::parse("kernel.cu", text) else {
            panic!("{written} was read");
        };
        for problem in &problems.0 {
            let words = format!("{} {}", problem.message, problem.fix);
            assert!(problem.line > 1, "{written}: {problem}");
            assert!(problem.fix.len() > 5, "{written}: {problem}");
            for stranger in [
                "docs/", ".md", "i64)", "usize", "struct ", "Vec", "Option", "enum ",
            ] {
                assert!(!words.contains(stranger), "{written}: {words}");
            }
        }
    }
}

#[test]
fn a_window_of_the_cache_is_read_in_several_forms() {
    let with = |written: &str| {
        let line = format!("block = [64]\nl2_persist = {written}");
        parse(&PLAN.replacen("block = [64]", &line, 1))
    };
    let documented = with("{ buffer = \"x\", bytes = \"N * 4\", hit_ratio = 1.0 }");
    assert_eq!(documented.notes(), [] as [String; 0]);
    let written = with("{ tensors = [\"x\"], num_bytes = \"N * 4\" }");
    assert_eq!(written.plan(), documented.plan());
    assert!(
        written.notes()[0].contains("`num_bytes` was read as `bytes`"),
        "{:?}",
        written.notes()
    );
    let short = with("\"x\"");
    assert_eq!(short.plan(), with("{ buffer = \"x\" }").plan());
    assert!(short.notes()[0].contains("was read as `l2_persist = { buffer = \"x\" }`"));
}

#[test]
fn leniency_changes_no_byte_of_the_program() {
    let configuration = Configuration::from([("THREADS".into(), 64)]);
    let documented = parse(PLAN);
    for written in [
        "block = 64",
        "block = (64)",
        "block = [64u];",
        "blockDim = 64",
    ] {
        let found = parse(&PLAN.replacen("block = [64]", written, 1));
        assert_eq!(found.compiler_input(), documented.compiler_input());
        assert_eq!(
            found.candidate_digest(&configuration),
            documented.candidate_digest(&configuration),
            "{written}"
        );
    }
}

proptest! {
    /// No text makes the reader panic, and no accepted one changes the program.
    #[test]
    fn no_front_matter_panics(lines in prop::collection::vec(
        prop::sample::select(vec![
            "[[launch]]", "[launch]", "kernel = \"f\"", "kernel = f", "grid = [1", "grid = (N, 2)", "block = 64]",
            "args = [x, \"y\" N]", "args = {1, 2", "} ] )", "= 3", "a = = 3", "'''", "\"\"\"", "x = \"a\\", "[tunables]",
            "T = [1, 2]", "[a.b", "key: {x: 1, y = }", "// note", "# note", "é = ü", ";;", "[workspace.w]", "shape = N,",
        ]), 0..12,
    )) {
        let text = format!("/*---\n{}\n---*/\ncode\n", lines.join("\n"));
        match KernelSource::parse("kernel.cu", text) {
            Ok(source) => prop_assert_eq!(source.body(), "code\n"),
            Err(problems) => prop_assert!(!problems.0.is_empty()),
        }
    }
}
