//! Candidate files: what parses, and where a defect is located.

use domain::candidate::{KernelSource, Technique};
use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::plan::{Argument, Configuration, Step};
use domain::policy;
use domain::verdict::VerdictKind;

const SPLIT: &str = r#"/*---
[idea]
title = "split the keys"
hypothesis = "two blocks cannot fill the device"
gain = [2.0, 6.0]

[step]
phase = "parallelism"
sweep = ["SPLITS"]

[[launch]]
kernel = "partial"
grid = ["cdiv(S, ROWS)", "SPLITS"]
block = [128]
shared = "2 * ROWS * 64"
args = ["x", "part", { dim = "S", as = "i64" }]

[[launch]]
memset = "part"
byte = 255

[workspace.part]
dtype = "f32"
shape = ["S", "SPLITS"]

[tunables.ROWS]
value = 32
choices = [16, 32, 64]
[tunables.SPLITS]
value = 4
choices = [1, 4, 8]
---*/
#include <cuda_fp16.h>
extern "C" __global__ void partial(const __half* x, float* part, long long S) {}
"#;

fn problems(text: &str) -> Vec<String> {
    KernelSource::parse("kernel.cu", text)
        .expect_err("the text is defective")
        .0
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_whole_file_parses_into_its_plan() {
    let source = KernelSource::parse("kernel.cu", SPLIT).unwrap();
    let [Step::Kernel(kernel), Step::Memset { buffer, byte: 255 }] = source.plan().steps.as_slice()
    else {
        panic!("{:?}", source.plan().steps);
    };
    assert_eq!(kernel.kernel, "partial");
    assert_eq!(kernel.grid[0].text(), "cdiv(S, ROWS)");
    assert_eq!(kernel.grid[2].text(), "1");
    assert_eq!(
        kernel.arguments[2],
        Argument::Dim {
            dim: "S".into(),
            dtype: Dtype::I64
        }
    );
    assert_eq!(buffer, "part");
    assert_eq!(source.plan().workspaces["part"].dtype, Dtype::F32);
    assert_eq!(source.idea().unwrap().gain, Some([2.0, 6.0]));
    assert_eq!(source.step().unwrap().sweep, ["SPLITS"]);
}

#[test]
fn windows_line_ends_make_no_difference() {
    let unix = KernelSource::parse("kernel.cu", SPLIT).unwrap();
    let windows = KernelSource::parse("kernel.cu", SPLIT.replace('\n', "\r\n")).unwrap();
    assert_eq!(unix, windows);
}

fn digest(text: &str, overrides: &Configuration) -> Digest {
    let source = KernelSource::parse("kernel.cu", text).expect("the source is valid");
    let configuration = source.configure(overrides);
    source.candidate_digest(&configuration.expect("the tunables are declared"))
}

#[test]
fn the_identity_without_layout_depends_on_code_plan_and_values() {
    let identity = |text: &str, overrides: &Configuration| {
        let source = KernelSource::parse("kernel.cu", text).expect("the source is valid");
        let configuration = source.configure(overrides).expect("they are declared");
        source.identity(&configuration)
    };
    let none = Configuration::new();
    let base = identity(SPLIT, &none);
    let copy = identity(&SPLIT.replace(" {}\n", " {} // nothing\n\n"), &none);
    assert_ne!(base.digest, copy.digest);
    assert_eq!((base.text, base.launches), (copy.text, copy.launches));
    let code = identity(&SPLIT.replace(" {}\n", " { int a; }\n"), &none);
    assert_ne!(base.text, code.text);
    assert_eq!(base.launches, code.launches);
    let window = "block = [128]\nl2_persist = { buffer = \"x\" }";
    let window = identity(&SPLIT.replace("block = [128]", window), &none);
    assert!(base.text != window.text && base.launches != window.launches);
    let plan = identity(&SPLIT.replace("block = [128]", "block = [256]"), &none);
    assert!(base.text != plan.text && base.launches != plan.launches);
}

#[test]
fn the_digest_of_a_plan_without_windows_is_that_of_older_versions() {
    // Databases hold the digests of their candidates.
    let found = digest(SPLIT, &Configuration::new());
    assert_eq!(
        found.to_string(),
        "5286398110e1b924d347ceb44b2cfd9b2000a0864f389823e68ec7de6e53edc1"
    );
}

#[test]
fn the_digest_depends_on_code_plan_and_values_but_not_on_the_idea() {
    let none = Configuration::new();
    let base = digest(SPLIT, &none);
    assert_eq!(
        base,
        digest(&SPLIT.replace("two blocks", "few blocks"), &none)
    );
    assert_ne!(base, digest(&SPLIT.replace(" {}\n", " { }\n"), &none));
    assert_ne!(
        base,
        digest(&SPLIT.replace("block = [128]", "block = [256]"), &none)
    );
    assert_ne!(
        base,
        digest(SPLIT, &Configuration::from([("SPLITS".into(), 8)]))
    );
    let rewritten = SPLIT.replace("value = 4", "value = 8");
    assert_eq!(
        digest(&rewritten, &none),
        digest(SPLIT, &Configuration::from([("SPLITS".into(), 8)]))
    );
}

#[test]
fn sources_that_compile_to_different_bytes_have_different_digests() {
    let none = Configuration::new();
    // Some compilers join lines across blanks behind the backslash, and some do not.
    let endings = [
        "#define F(x) \\\n (x)\n",
        "#define F(x) \\ \n (x)\n",
        "#define F(x) \\\t\n (x)\n",
        "// \\\nint hidden;\n",
        "// \\ \nint hidden;\n",
        "// ??/\nint hidden;\n",
        "// ??/ \nint hidden;\n",
        "const char* raw = R\"(a \n)\";\n",
        "const char* raw = R\"(a\n)\";\n",
        "\n",
        "\n\n",
        " \n",
    ];
    let digests = endings.map(|code| digest(&format!("{SPLIT}{code}"), &none));
    for (index, one) in digests.iter().enumerate() {
        assert_ne!(*one, digest(SPLIT, &none), "{:?}", endings[index]);
        for (other, earlier) in digests[..index].iter().enumerate() {
            assert_ne!(
                one, earlier,
                "{:?} and {:?}",
                endings[index], endings[other]
            );
        }
    }
    // `__LINE__` is part of the program as well.
    let longer = SPLIT.replace("[idea]\n", "[idea]\n\n");
    assert_ne!(digest(&longer, &none), digest(SPLIT, &none));
}

#[test]
fn the_compiler_gets_nothing_of_the_front_matter_but_its_line_ends() {
    let source = KernelSource::parse("kernel.cu", SPLIT).unwrap();
    let code = source.compiler_input();
    let (front, body) = code.split_at(code.len() - source.body().len());
    assert!(front.chars().all(|one| one == '\n'), "{front:?}");
    assert!(body.starts_with("#include <cuda_fp16.h>\n"), "{body:?}");
    // Messages and line tables of the compiler name the lines of the file.
    let line = |text: &str| text.lines().position(|line| line.starts_with("extern"));
    assert_eq!(line(&code), line(source.text()));
}

#[test]
fn the_fences_of_the_front_matter_are_whole_lines() {
    let line_of = |text: &str| {
        let found = KernelSource::parse("kernel.cu", text).expect_err("code beside a fence");
        found.0[0].line
    };
    for opening in [
        "/*--- */ __device__ int hidden; /*\n",
        "/*--- # a comment\n",
        "/*----\n",
        "/*---\\\n",
        "/*---??/\n",
    ] {
        let text = SPLIT.replacen("/*---\n", opening, 1);
        assert_eq!(line_of(&text), 1, "{opening:?}");
    }
    // The end of a comment: plain, behind a line continuation, and behind a trigraph for one.
    for inside in [
        "*/ int hidden; /*",
        "*\\\n/ int hidden; /*",
        "*\\ \t\n/ int hidden; /*",
        "*\\\n\\\n/ int hidden; /*",
        "*??/\n/ int hidden; /*",
        "*??/ \n/ int hidden; /*",
    ] {
        let stated = "hypothesis = \"two blocks cannot fill the device\"\n";
        let text = SPLIT.replacen(stated, &format!("hypothesis = '''{inside}'''\n"), 1);
        assert_ne!(text, SPLIT);
        assert_eq!(line_of(&text), 4, "{inside:?}");
    }
    let closing = SPLIT.lines().zip(1..).find(|(line, _)| *line == "---*/");
    let (_, closing) = closing.unwrap();
    for ending in ["---*/ int hidden;\n", "---*/\\\n", "---*/ //\n"] {
        let text = SPLIT.replacen("---*/\n", ending, 1);
        assert_eq!(line_of(&text), closing, "{ending:?}");
    }
    // Blanks at the end of a fence are no code.
    let spaced = SPLIT
        .replacen("/*---\n", "/*--- \t\n", 1)
        .replacen("---*/\n", "---*/  \n", 1);
    let none = Configuration::new();
    assert_eq!(digest(&spaced, &none), digest(SPLIT, &none));
}

#[test]
fn a_single_carriage_return_ends_a_line() {
    let none = Configuration::new();
    let code = "// note\rint hidden;\n";
    assert_eq!(
        digest(&format!("{SPLIT}{code}"), &none),
        digest(&format!("{SPLIT}{}", code.replace('\r', "\n")), &none)
    );
}

#[test]
fn a_configuration_takes_only_declared_names_and_choices() {
    let source = KernelSource::parse("kernel.cu", SPLIT).unwrap();
    let unknown = source
        .configure(&Configuration::from([("SPLIT".into(), 8)]))
        .unwrap_err();
    assert!(
        unknown.to_string().contains("it declares: ROWS, SPLITS"),
        "{unknown}"
    );
    let foreign = source
        .configure(&Configuration::from([("SPLITS".into(), 3)]))
        .unwrap_err();
    assert!(foreign.to_string().contains("[1, 4, 8]"), "{foreign}");
}

#[test]
fn every_defect_is_reported_with_its_place() {
    let table: &[(&str, &str, &str)] = &[
        (
            "/*---\n",
            "// no plan\n",
            "kernel.cu:1:1: the file does not begin with its launch plan",
        ),
        (
            "---*/\n",
            "\n",
            "kernel.cu:1:1: the front matter is never closed",
        ),
        (
            "cdiv(S, ROWS)",
            "cdiv(S ROWS)",
            "kernel.cu:13:17: expected ')', found 'R'",
        ),
        (
            "block = [128]",
            "block = []",
            "kernel.cu:14:9: block has 0 extents",
        ),
        (
            "block = [128]",
            "block = [1.5]",
            "kernel.cu:14:10: an extent is an integer or an expression",
        ),
        (
            "value = 32",
            "value = 33",
            "kernel.cu:27:9: the value 33 is not among the choices",
        ),
        (
            "byte = 255",
            "grid = [1]",
            "kernel.cu:18:1: a memset takes only memset and byte",
        ),
        (
            "memset = \"part\"\n",
            "",
            "kernel.cu:18:1: a launch that is neither a kernel nor a memset",
        ),
        (
            "as = \"i64\"",
            "as = \"f32\"",
            "kernel.cu:16:22: a dim cannot be passed as f32",
        ),
        (
            "kernel = \"partial\"",
            "kernel = \"par tial\"",
            "kernel.cu:12:10: \"par tial\" is not a C identifier",
        ),
        (
            "dtype = \"f32\"",
            "dtype = \"f31\"",
            "kernel.cu:23:9: \"f31\" is none of ",
        ),
        (
            "byte = 255",
            "stream = 255",
            "kernel.cu:20:1: no key is called \"stream\"; the keys are kernel, grid, ",
        ),
        (
            "shared =",
            "l2_persist = [\"x\", \"part\"]\nshared =",
            "kernel.cu:15:14: a launch has one window of the L2 cache",
        ),
        (
            "shared =",
            "l2_persist = { bytes = 64 }\nshared =",
            "kernel.cu:15:14: l2_persist names no buffer",
        ),
        (
            "shared =",
            "l2_persist = { buffer = \"x\", hit_ratio = 1.5 }\nshared =",
            "kernel.cu:15:42: hit_ratio is no number above 0",
        ),
        ("extern", "\0extern", "kernel.cu:34:1: a NUL byte"),
    ];
    for (honest, defective, expected) in table {
        assert!(SPLIT.contains(honest), "{honest}");
        let found = problems(&SPLIT.replacen(honest, defective, 1));
        assert!(found[0].starts_with(expected), "{defective}: {found:?}");
    }
}

#[test]
fn a_problem_quotes_no_more_than_a_reader_wants_to_see() {
    let names = [
        format!("kernel = \"{}\"", "p".repeat(60_000)),
        format!("\"\\u001b[2J{}\" = 1", "q".repeat(60_000)),
    ];
    for name in names {
        let found = problems(&SPLIT.replacen("kernel = \"partial\"", &name, 1));
        assert!(found[0].len() < 1000, "{} characters", found[0].len());
        assert!(!found[0].contains('\u{1b}'), "{found:?}");
    }
}

#[test]
fn several_defects_are_reported_together() {
    let text = SPLIT
        .replace("block = [128]", "block = []")
        .replace("value = 32", "value = 33");
    assert_eq!(problems(&text).len(), 2);
}

#[test]
fn an_over_long_source_is_refused_before_anything_else() {
    let found = problems(&(SPLIT.to_owned() + &"/".repeat(300 << 10)));
    assert!(found[0].contains("at most 262144"), "{found:?}");
}

#[test]
fn a_broken_variant_states_its_verdict() {
    let text = SPLIT.replace(
        "[idea]",
        "[expect]\nverdict = \"runtime_fault\"\ncode = 716\n\n[idea]",
    );
    let source = KernelSource::parse("kernel.cu", text).unwrap();
    let expected = source.expectation().unwrap();
    assert_eq!(
        (expected.verdict, expected.code),
        (VerdictKind::RuntimeFault, Some(716))
    );
}

#[test]
fn includes_that_leave_the_header_folders_are_policy_violations_with_their_line() {
    let violation = |line: &str| {
        let source = KernelSource::parse("kernel.cu", format!("{SPLIT}{line}\n")).unwrap();
        policy::find_violations("kernel.cu", &source, &source)
            .into_iter()
            .map(|p| p.line)
            .collect::<Vec<_>>()
    };
    for hostile in [
        "#include \"/etc/passwd\"",
        "  # include <../../etc/shadow>",
        "%:include \"/proc/self/environ\"",
        "#include NAME",
        "#embed \"/etc/passwd\"",
        "asm(\".incbin \\\"/etc/passwd\\\"\");",
        "#inc\\\nlude \"/etc/passwd\"",
        "#include \\ \n\"/etc/passwd\"",
        "??=include \"/etc/passwd\"",
        "#inc??/\nlude \"/etc/passwd\"",
        "/* a */ #include \"/etc/passwd\"",
        "# /* a */ include \"/etc/passwd\"",
    ] {
        assert_eq!(violation(hostile), [35], "{hostile}");
    }
    for honest in [
        "#include <mma.h>",
        "#include \"tile.cuh\"",
        "#define N 3",
        "// #pragma",
    ] {
        assert_eq!(violation(honest), [0; 0], "{honest}");
    }
}

#[test]
fn a_change_outside_the_baselines_regions_is_a_policy_violation() {
    let parse = |text: &str| KernelSource::parse("kernel.cu", text).unwrap();
    let fenced = format!("{SPLIT}// region: body\nint a;\n// endregion\nint b;\n");
    let inside = parse(&fenced.replace("int a", "int c"));
    let outside = parse(&fenced.replace("int b", "int c"));
    let baseline = parse(&fenced);
    assert_eq!(policy::find_violations("kernel.cu", &inside, &baseline), []);
    let violations = policy::find_violations("kernel.cu", &outside, &baseline);
    let lines: Vec<_> = violations.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [38], "{violations:?}");
}

#[test]
fn characters_that_nobody_sees_are_no_part_of_a_source() {
    let plain = SPLIT.replace("split the keys", "ab split");
    let hidden = SPLIT.replace("split the keys", "a\u{202e}b \\u001b[31msplit\\u200b\\n");
    let hidden =
        hidden.replace("= [128]", "= \u{2066}[128]\u{200b}") + "// \u{e0041}\u{1b}[31m\u{9b}2J";
    let source = KernelSource::parse("kernel.cu", hidden).unwrap();
    assert_eq!(source.idea().unwrap().title, "ab split");
    assert_eq!(
        source.body(),
        KernelSource::parse("k", plain + "// ").unwrap().body()
    );
    let problem = problems("/*---\n[[launch]]\nkernel = \"a\\u202eb\\u001b[31mc\\n\"\n---*/");
    assert!(
        !problem.concat().contains(['\u{202e}', '\u{1b}', '\n']),
        "{problem:?}"
    );
    // A form feed is white space to a compiler.
    let spaced = format!("{SPLIT}int\u{c}x;\n");
    let source = KernelSource::parse("kernel.cu", spaced).unwrap();
    assert!(source.body().ends_with("int x;\n"), "{}", source.body());
}

#[test]
fn lines_cannot_be_renamed() {
    let baseline = KernelSource::parse("baseline.cu", SPLIT).unwrap();
    for line in [
        "#line 12 \"x\\nk.cu(3): error: forged\"",
        "#line 12",
        "# 12 \"cuda_fp16.h\"",
        "  %:  line 7",
        "??=line 7",
        "/* */ # /* */ li\\\nne 7",
        "/*\n*/ #line 7",
        "// a??/\n#line 7",
    ] {
        let source = KernelSource::parse("kernel.cu", format!("{SPLIT}{line}\n")).unwrap();
        let problems = policy::find_violations("kernel.cu", &source, &baseline);
        // The last two begin on the line after.
        let expected = if line.starts_with("/*\n") || line.starts_with("//") {
            36
        } else {
            35
        };
        assert_eq!(problems.len(), 1, "{line}");
        assert_eq!(problems[0].line, expected, "{line}: {problems:?}");
    }
    for line in [
        "// #line 12",
        "#define line 3",
        "#if 12",
        "#pragma unroll 12",
        "int x = a # 12;",
    ] {
        let source = KernelSource::parse("kernel.cu", format!("{SPLIT}{line}\n")).unwrap();
        let problems = policy::find_violations("kernel.cu", &source, &baseline);
        assert!(problems.is_empty(), "{line}: {problems:?}");
    }
}

#[test]
fn the_technique_is_the_most_specialised_feature_that_the_code_names() {
    let cases = [
        ("y[i] = x[i];", Technique::Threads),
        // Neither comments nor longer words count.
        ("y[i] = x[i]; // __shared__, mma.sync", Technique::Threads),
        ("int gamma = comma;", Technique::Threads),
        ("v += __shfl_xor_sync(~0u, v, 1);", Technique::WarpExchange),
        ("__shared__ float tile[32];", Technique::SharedMemory),
        (
            "__shared__ float tile[32]; v = __shfl_sync(~0u, v, 0);",
            Technique::SharedMemory,
        ),
        (
            "__shared__ float t[32]; asm(\"cp.async.ca.shared.global [%0], [%1], 4;\");",
            Technique::AsyncCopies,
        ),
        ("__pipeline_memcpy_async(a, b, 16);", Technique::AsyncCopies),
        (
            "asm(\"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32\");",
            Technique::TensorCores,
        ),
        (
            "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half> a;",
            Technique::TensorCores,
        ),
    ];
    for (code, technique) in cases {
        let text =
            format!("/*---\n[idea]\ntitle = \"wmma\"\n---*/\n__global__ void k() {{ {code} }}\n");
        assert_eq!(Technique::of(&text), technique, "{code}");
    }
}
