//! A worker that joins from a machine which lacks something: what it installs, and what it leaves to others.

#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use domain::api::{RunRequest, RunState};
use domain::search::Method;
use domain::task::Bundle;
use lab::Lab;

/// Writes a program that the worker finds in place of another.
fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The softmax task with a second reference in Python.
fn softmax_in_python() -> Result<Bundle> {
    let mut bundle = lab::small_softmax()?;
    bundle.files.remove("check.cu");
    let reference = "import numpy as np\n\n\ndef reference(x, R, C):\n    e = np.exp(x - x.max(axis=1, keepdims=True))\n    \
                     return {'y': e / e.sum(axis=1, keepdims=True)}\n";
    bundle
        .files
        .insert("reference.py".to_owned(), reference.to_owned());
    Ok(bundle)
}

#[tokio::test]
async fn a_task_that_a_machine_lacks_a_package_for_is_left_to_another() -> Result<()> {
    let named = std::env::var("KERNELWRIGHT_PYTHON");
    let python = named.unwrap_or_else(|_| "python3".to_owned());
    let found = lab::program(Path::new(&python), &[], &["-c", "import numpy"]);
    if !found.is_ok_and(|found| found.status.success()) {
        ensure!(
            std::env::var_os("CI").is_none(),
            "{python} has no NumPy: tests/run installs it"
        );
        println!("skipped: {python} has no NumPy");
        return Ok(());
    }
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let bare = lab.path().join("python-without-packages");
    write_program(&bare, "#!/bin/sh\necho 'no packages here' >&2\nexit 1\n")?;
    let bare = bare.to_str().context("a UTF-8 path")?;
    let lacking = lab.worker_with("lacking", &[("KERNELWRIGHT_PYTHON", bare)])?;
    let refusal = "this worker does not admit tasks with a reference in Python";
    lab.until_logged(&lacking, refusal).await?;

    let request = RunRequest::new("softmax-f32", Method::Playbook);
    let run = lab.launch(&softmax_in_python()?, &request).await?;
    let declined = "failed to use what the task needs";
    lab.until_logged(&lacking, declined).await?;
    lab.until_workers(|workers| {
        let mut declined = workers.iter().flat_map(|worker| &worker.declined);
        declined.any(|one| one.work.contains("Python") && one.reason.contains("no packages here"))
    })
    .await?;
    let server = lab.address()?;
    let list = ["worker", "list", "--server", server.as_str()];
    let listed = lab::kernelwright(&list)?;
    ensure!(
        listed
            .stdout
            .contains("lacking does not admit tasks with a reference in Python"),
        "{listed:?}"
    );
    drop(lacking);
    let _able = lab.worker("able")?;
    let run = lab.finished(run.id).await?;
    let is_completed = matches!(run.state, RunState::Completed { .. });
    ensure!(is_completed, "{}", run.state);
    Ok(())
}

/// A Python that installs the compiler by copying this machine's, and records each request.
fn installing_python(folder: &Path, installed: &Path) -> Result<PathBuf> {
    let path = folder.join("python3");
    let (log, installed) = (folder.join("requests"), installed.display());
    let text = format!(
        r#"#!/bin/sh
[ "$1 $2" = "-m pip" ] || exit 1
[ "$3" = install ] || exit 0
while [ "$1" != --requirement ]; do shift; done
cat "$2" >>'{log}'
case $(cat "$2") in
nvidia-cuda-nvrtc==*) cp -r '{installed}'/nvrtc-* "$4" ;;
*) mkdir -p "$4" ;;
esac
"#,
        log = log.display()
    );
    write_program(&path, &text)?;
    Ok(path)
}

#[tokio::test]
async fn a_machine_without_the_compiler_gets_it_when_it_joins() -> Result<()> {
    let installed = match std::env::var_os("KERNELWRIGHT_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is set")?)
            .join(".cache/kernelwright"),
    };
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let programs = lab.path().join("programs");
    fs::create_dir(&programs)?;
    let path = std::env::var("PATH")?;
    let path = format!("{}:{path}", programs.display());
    let cache = lab.path().join("empty-cache");
    let cache = cache.to_str().context("a UTF-8 path")?;
    let environment = [("PATH", path.as_str()), ("KERNELWRIGHT_CACHE", cache)];

    // Without a network the reason is the package installer's own.
    let offline = "#!/bin/sh\necho 'no route to the index' >&2\n[ \"$3\" != install ]\n";
    write_program(&programs.join("python3"), offline)?;
    let stranded = lab.worker_with("stranded", &environment)?;
    let failed = lab.until_workers(|_| false).await.unwrap_err().to_string();
    for part in [
        "installing NVIDIA's compiler into",
        "no route to the index",
        "pip could not install nvrtc",
        "name its folder in KERNELWRIGHT_NVRTC",
    ] {
        ensure!(failed.contains(part), "{part:?} is not in {failed}");
    }
    drop(stranded);

    installing_python(&programs, &installed)?;
    let _worker = lab.worker_with("fresh", &environment)?;
    let request = RunRequest::new("softmax-f32", Method::Playbook);
    let run = lab.launch(&lab::small_softmax()?, &request).await?;
    let run = lab.finished(run.id).await?;
    let is_completed = matches!(run.state, RunState::Completed { .. });
    ensure!(is_completed, "{}", run.state);
    let requests = fs::read_to_string(programs.join("requests"))?;
    let nvrtc = requests.lines().filter(|line| line.contains("nvrtc"));
    let nvrtc = nvrtc.collect::<Vec<_>>();
    ensure!(
        matches!(nvrtc[..], [one] if one.contains("--hash=sha256:")),
        "one request with a digest, not {requests}"
    );
    Ok(())
}
