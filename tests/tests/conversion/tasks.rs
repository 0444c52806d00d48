//! New tasks from existing kernels, filled in as their owner would, and admitted.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::kernels::{KERNELS, complete, init};

#[test]
fn five_kernels_become_admitted_tasks() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data").to_string_lossy().into_owned();
    for (name, _, _) in KERNELS {
        let task = init(name, folder.path())?;
        let verdict = ["task", "check", &task, "--data", &data];
        let early = lab::kernelwright(&verdict)?;
        ensure!(early.status.code() == Some(1), "{}", early.stdout);
        let next = "next       compiles, reference.cu:";
        ensure!(early.stdout.contains(next), "{}", early.stdout);
        complete(name, &task)?;
        let admitted = lab::kernelwright(&verdict)?;
        let searched = "the task may be searched";
        ensure!(admitted.stdout.contains(searched), "{}", admitted.stdout);
    }
    Ok(())
}

#[test]
fn a_file_that_cannot_become_a_task_leaves_nothing_behind() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("mine.cu");
    fs::write(
        &file,
        "__global__ void k(float* y, int n) { y[threadIdx.x] = n; }\n",
    )?;
    let task = folder.path().join("task");
    let [file, to] = [&file, &task].map(|path| path.to_string_lossy().into_owned());
    let refused = lab::kernelwright(&["task", "init", &file, "--to", &to])?;
    ensure!(refused.status.code() == Some(2), "{}", refused.stderr);
    ensure!(
        refused.stderr.contains("--grid 'cdiv(N, 256)' --block 256"),
        "{}",
        refused.stderr
    );
    ensure!(
        fs::read_dir(folder.path())?.count() == 1,
        "something was left"
    );
    fs::create_dir(&task)?;
    let words = [
        "task", "init", &file, "--to", &to, "--grid", "1", "--block", "n",
    ];
    let refused = lab::kernelwright(&words)?;
    ensure!(
        refused.stderr.contains("it exists; remove it"),
        "{}",
        refused.stderr
    );
    Ok(())
}

#[test]
fn a_kernel_with_its_answer_in_python_is_an_admitted_task_at_once() -> Result<()> {
    if !has_numpy()? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data").to_string_lossy().into_owned();
    for name in ["rms_norm", "rope", "depthwise_conv", "add_norm"] {
        let source = lab::repository()
            .join("crates/convert/tests/kernels")
            .join(name);
        let [kernel, answer] = ["cu", "py"].map(|ending| {
            let path = source.with_extension(ending);
            path.to_string_lossy().into_owned()
        });
        let task = folder.path().join(name).to_string_lossy().into_owned();
        let written = lab::kernelwright(&[
            "task",
            "init",
            &kernel,
            "--reference",
            &answer,
            "--to",
            &task,
        ])?;
        ensure!(written.status.success(), "{}", written.stderr);
        let admitted = lab::kernelwright(&["task", "check", &task, "--data", &data])?;
        let searched = "the task may be searched";
        ensure!(
            admitted.stdout.contains(searched),
            "{name}: {}{}",
            admitted.stdout,
            admitted.stderr
        );
        ensure!(
            admitted.stdout.contains("reference.cu and reference.py"),
            "{}",
            admitted.stdout
        );
    }
    Ok(())
}

/// Returns true if the interpreter of references in Python has `NumPy`. In CI its absence is an error.
fn has_numpy() -> Result<bool> {
    let program = std::env::var_os("KERNELWRIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let found = lab::program(Path::new(&program), &[], &["-c", "import numpy"]);
    let found = found.is_ok_and(|output| output.status.success());
    ensure!(
        found || std::env::var_os("CI").is_none(),
        "there is no NumPy: tests/run installs it"
    );
    if !found {
        println!("skipped: there is no NumPy");
    }
    Ok(found)
}

#[test]
fn a_file_of_a_repository_becomes_a_task_whose_winners_replace_its_region() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tree = folder.path().join("mine");
    fs::create_dir_all(tree.join("src"))?;
    git2::Repository::init(&tree)?;
    let kernel = "#include <cuda_runtime.h>\n// region: fill\n\
         __global__ void fill(float* y, const float* x, int n) {\n    \
         const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = 2.0f * x[i];\n}\n\
         // endregion\nvoid launch(float* y, const float* x, int n) { fill<<<(n + 255) / 256, 256>>>(y, x, n); }\n";
    let file = tree.join("src/fill.cu");
    fs::write(&file, kernel)?;
    let init = |task: &str| {
        let file = file.to_string_lossy().into_owned();
        lab::kernelwright(&["task", "init", &file, "--to", task])
    };
    let inside = tree.join("tasks/fill").to_string_lossy().into_owned();
    let written = init(&inside)?;
    ensure!(written.status.success(), "{}", written.stderr);
    let told = "a winner replaces the region fill of src/fill.cu";
    ensure!(written.stdout.contains(told), "{}", written.stdout);
    let toml = fs::read_to_string(tree.join("tasks/fill/task.toml"))?;
    let table = "[promotion]\nrepository = \"../..\"\npath = \"src/fill.cu\"\nregion = \"fill\"\n";
    ensure!(toml.ends_with(table), "{toml}");
    // Candidates may change the plan, which the owner's marks do not fence.
    let baseline = fs::read_to_string(tree.join("tasks/fill/baseline.cu"))?;
    ensure!(!baseline.contains("region"), "{baseline}");

    let outside = folder
        .path()
        .join("elsewhere")
        .to_string_lossy()
        .into_owned();
    ensure!(init(&outside)?.status.success());
    let toml = fs::read_to_string(folder.path().join("elsewhere/task.toml"))?;
    let absolute = format!("repository = {:?}", tree.canonicalize()?.to_string_lossy());
    ensure!(toml.contains(&absolute), "{toml}");

    fs::write(&file, kernel.replace("// region: fill\n", ""))?;
    let third = folder.path().join("third").to_string_lossy().into_owned();
    let unmarked = init(&third)?;
    ensure!(
        unmarked.stdout.contains("between `// region: NAME`"),
        "{}",
        unmarked.stdout
    );
    ensure!(!fs::read_to_string(folder.path().join("third/task.toml"))?.contains("[promotion]"));
    Ok(())
}

#[test]
fn headers_of_a_project_are_found_and_copied() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
        fs::write(path, text)
    };
    write(
        "kernels/scaled.cu",
        "#include \"half.cuh\"\n#include \"scale.cuh\"\n\
         __global__ void scaled(float* y, const float* x, int n) {\n    \
         const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = scale(half(x[i]));\n}\n\
         void launch(float* y, const float* x, int n) { scaled<<<(n + 255) / 256, 256>>>(y, x, n); }\n",
    )?;
    write(
        "kernels/half.cuh",
        "#pragma once\n#include \"deep/types.h\"\n__device__ inline float half(float x) { return x / number(2); }\n",
    )?;
    write(
        "kernels/deep/types.h",
        "#include <cstdint>\ntypedef int32_t number;\n",
    )?;
    write(
        "common/scale.cuh",
        "__device__ inline float scale(float x) { return 4.0f * x; }\n",
    )?;
    write("right.py", "def reference(x):\n    return 2.0 * x\n")?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (file, task, right) = (path("kernels/scaled.cu"), path("task"), path("right.py"));
    let words = ["task", "init", &file, "--to", &task, "--reference", &right];
    let refused = lab::kernelwright(&words)?;
    ensure!(refused.status.code() == Some(2), "{}", refused.stdout);
    ensure!(refused.stderr.contains("--include"), "{}", refused.stderr);
    let common = path("common");
    let words = [&words[..], &["--include", &common]].concat();
    let written = lab::kernelwright(&words)?;
    ensure!(written.status.success(), "{}", written.stderr);
    for header in ["half.cuh", "scale.cuh", "deep/types.h"] {
        ensure!(
            folder.path().join("task/include").join(header).is_file(),
            "{header}"
        );
    }
    // A header of a header that is not there, one that leaves its folder, and two of one name.
    for (line, expected) in [
        (
            "#include \"gone.h\"",
            "deep/types.h:1: the file includes \"gone.h\"",
        ),
        ("#include \"../half.cuh\"", "without . and .."),
        ("#include \"scale.cuh\"", "rename one of them"),
    ] {
        write("kernels/deep/types.h", line)?;
        write("kernels/deep/scale.cuh", "// another\n")?;
        let to = path("refused");
        let words = ["task", "init", &file, "--to", &to, "--include", &common];
        let refused = lab::kernelwright(&words)?;
        ensure!(
            refused.status.code() == Some(2),
            "{line}: {}",
            refused.stdout
        );
        ensure!(
            refused.stderr.contains(expected),
            "{line}: {}",
            refused.stderr
        );
        ensure!(!Path::new(&to).exists(), "something was left");
    }
    let (kernel, data) = (path("task/baseline.cu"), path("data"));
    let words = ["eval", &kernel, "--task", &task, "--data", &data];
    let evaluated = lab::kernelwright(&words)?;
    ensure!(
        evaluated.status.success(),
        "{}{}",
        evaluated.stdout,
        evaluated.stderr
    );
    Ok(())
}
