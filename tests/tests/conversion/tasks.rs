//! New tasks from existing kernels, filled in as their owner would, and admitted.

use std::fs;

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
