//! Verified kernels in every form of `export`, compiled and launched on the inputs of their verdict. The
//! device is the emulated one: the right answers are computed here, and not by it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::kernels::{complete, init};
use crate::loader::VECTORS;
use crate::vectors::{self, SEED, Vector};

/// The kernels that are exported.
const EXPORTED: [&str; 3] = ["scan", "rms_norm", "gemv_int8"];

/// The forms that are compiled or launched.
const FORMS: [&str; 6] = ["cpp", "plan", "torch", "hub", "solution", "jax"];

/// The name of an exported kernel, with inputs of its confirmation.
type Exported = (&'static str, Vec<Vector>);

/// Exports the baseline of each kernel's task in every form, and writes inputs of its confirmation.
fn export_all(folder: &Path) -> Result<Vec<Exported>> {
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (data, seed) = (path("data"), SEED.to_string());
    let exported = EXPORTED.map(|name| {
        let task = init(name, folder)?;
        complete(name, &task)?;
        if name == "scan" {
            let file = Path::new(&task).join("baseline.cu");
            let plan = fs::read_to_string(&file)?;
            ensure!(plan.contains("\"output\""), "{plan}");
            let window = "[[launch]]\nl2_persist = { buffer = \"output\", bytes = \"4 * n\", hit_ratio = 0.5 }";
            fs::write(&file, plan.replacen("[[launch]]", window, 1))?;
        }
        let (baseline, to) = (
            format!("{task}/baseline.cu"),
            path(&format!("{name}-export")),
        );
        let words = [
            "export", &baseline, "--task", &task, "--to", &to, "--data", &data,
        ];
        let forms = FORMS.map(|form| ["--form", form]).concat();
        let words = [&words[..], &["--seed", &seed], &forms].concat();
        let exported = lab::kernelwright(&words)?;
        let (out, errors) = (&exported.stdout, &exported.stderr);
        ensure!(exported.status.success(), "{out}{errors}");
        ensure!(out.contains("\nproved for "), "{out}");
        Ok((
            name,
            vectors::write(&task, &folder.join(format!("{name}-vectors")))?,
        ))
    });
    exported.into_iter().collect()
}

/// A folder in which programs find the emulated device's driver under the name of NVIDIA's.
fn driver_folder(folder: &Path) -> Result<String> {
    let drivers = folder.join("driver");
    fs::create_dir(&drivers)?;
    let ours = lab::binary().with_file_name("libkernelwright_driver.so");
    std::os::unix::fs::symlink(ours, drivers.join("libcuda.so.1"))?;
    Ok(drivers.to_string_lossy().into_owned())
}

/// One confirmation of each kernel serves all forms.
#[test]
fn every_form_gives_the_right_outputs_and_refuses_what_was_not_executed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let exported = export_all(folder.path())?;
    let drivers = driver_folder(folder.path())?;
    check_cpp(folder.path(), &drivers, &exported).context("the C++ library")?;
    check_plan(folder.path(), &drivers, &exported).context("the plan with its loaders")?;
    check_operators(folder.path(), &drivers, &exported).context("the operator of PyTorch")?;
    check_jax(folder.path(), &drivers, &exported).context("the handler for JAX")
}

/// The folder of one form of an exported kernel.
fn form(folder: &Path, name: &str, form: &str) -> PathBuf {
    folder.join(format!("{name}-export")).join(form)
}

fn verify(exported: &[Exported]) -> Result<()> {
    let mut vectors = exported
        .iter()
        .flat_map(|(name, vectors)| vectors.iter().map(move |vector| (name, vector)));
    vectors.try_for_each(|(name, vector)| vector.verify(name))
}

fn check_cpp(folder: &Path, drivers: &str, exported: &[Exported]) -> Result<()> {
    let mut words = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
        .map(str::to_owned)
        .to_vec();
    for (name, _) in exported {
        let to = form(folder, name, "cpp");
        words.push(format!("-I{}", to.display()));
        words.push(format!("{}/{name}.cpp", to.display()));
    }
    run_program(folder, drivers, exported, words, "export_main.cpp")?;
    // `tests/exports/run` installs CMake and sets the variable.
    let Some(cmake) = std::env::var_os("EXPORT_CMAKE") else {
        println!("not run: the CMake file, because EXPORT_CMAKE is not set");
        return Ok(());
    };
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let (source, build) = (
        text(form(folder, "scan", "cpp")),
        text(folder.join("build")),
    );
    let library = format!("-DCMAKE_LIBRARY_PATH={drivers}");
    for words in [
        &["-S", &source, "-B", &build, &library][..],
        &["--build", &build],
    ] {
        let ran = lab::program(Path::new(&cmake), &[], words)?;
        ensure!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    }
    ensure!(Path::new(&build).join("libscan.a").is_file(), "no library");
    Ok(())
}

/// Compiles the files among a compiler's words with a program of ours that calls them, lets it compute the outputs of
/// all vectors, and verifies them.
fn run_program(
    folder: &Path,
    drivers: &str,
    exported: &[Exported],
    mut words: Vec<String>,
    main: &str,
) -> Result<()> {
    let main = lab::repository().join("tests/tests/conversion").join(main);
    let program = main.with_extension("");
    let program = folder.join(program.file_name().context("the program has a name")?);
    words.push(main.to_string_lossy().into_owned());
    words.push(format!("{drivers}/libcuda.so.1"));
    words.extend(["-o".to_owned(), program.to_string_lossy().into_owned()]);
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let compiled = lab::program(Path::new("c++"), &[], &words)?;
    ensure!(compiled.status.success(), "{}", compiled.stderr);
    let mut words = Vec::new();
    for (name, vectors) in exported {
        for vector in vectors {
            words.extend([
                (*name).to_owned(),
                vector.folder.to_string_lossy().into_owned(),
            ]);
        }
    }
    let words = words.iter().map(String::as_str).collect::<Vec<_>>();
    let ran = lab::program(&program, &[("LD_LIBRARY_PATH", drivers)], &words)?;
    ensure!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    verify(exported)
}

/// Lines with the file beside which a form's files lie, and the folder of each vector.
fn list(folder: &Path, exported: &[Exported], of: &str) -> String {
    let lines = exported.iter().flat_map(|(name, vectors)| {
        let plan = form(folder, name, of).join(format!("{name}.json"));
        let line =
            move |vector: &Vector| format!("{}\t{}\n", plan.display(), vector.folder.display());
        vectors.iter().map(line)
    });
    lines.collect()
}

fn check_plan(folder: &Path, drivers: &str, exported: &[Exported]) -> Result<()> {
    let list = list(folder, exported, "plan");
    let environment = [("LD_LIBRARY_PATH", drivers), (VECTORS, list.as_str())];
    for loader in ["load.py", "load.rs"] {
        let text = fs::read_to_string(form(folder, "scan", "plan").join(loader))?;
        ensure!(text.lines().count() <= 60, "{loader} became longer");
    }
    let words = [
        "--exact",
        "loader::the_rust_loader_launches_what_is_listed",
        "--ignored",
    ];
    let rust = lab::program(&std::env::current_exe()?, &environment, &words)?;
    ensure!(rust.status.success(), "{}{}", rust.stdout, rust.stderr);
    ensure!(rust.stdout.contains("1 passed"), "{}", rust.stdout);
    verify(exported)?;
    // `tests/exports/run` installs cuda-python and sets the variable.
    let Some(python) = std::env::var_os("EXPORT_PYTHON") else {
        println!("not run with the Python loader: EXPORT_PYTHON is not set");
        return Ok(());
    };
    run_script(Path::new(&python), drivers, &list, "export_main.py")?;
    verify(exported)
}

/// The operator runs with a stand-in for PyTorch: by itself, in the layout of Hugging Face's kernels, and through the
/// entry point of a Solution whose sources were unpacked.
fn check_operators(folder: &Path, drivers: &str, exported: &[Exported]) -> Result<()> {
    for of in ["torch", "hub", "solution"] {
        let mut list = String::new();
        for (name, vectors) in exported {
            let form = form(folder, name, of);
            let module = match of {
                "torch" => form.join(format!("{name}.py")),
                "hub" => form.join("build/torch-cuda/__init__.py"),
                _ => unpack_solution(&form, name)?,
            };
            for vector in vectors {
                let (module, vector) = (module.display(), vector.folder.display());
                list.push_str(&format!("{module}\t{vector}\t{name}\n"));
            }
        }
        run_script(Path::new("python3"), drivers, &list, "export_torch.py")?;
        verify(exported).with_context(|| format!("the form {of}"))?;
    }
    Ok(())
}

/// Writes the sources of a Solution beside it. Returns the file of its entry point.
fn unpack_solution(form: &Path, name: &str) -> Result<PathBuf> {
    let solution = fs::read_to_string(form.join(format!("{name}.json")))?;
    let solution: Value = serde_json::from_str(&solution)?;
    for source in solution["sources"].as_array().context("sources")? {
        let path = source["path"].as_str().context("a path")?;
        let content = source["content"].as_str().context("a content")?;
        fs::write(form.join(path), content)?;
    }
    let entry = solution["spec"]["entry_point"].as_str().context("spec")?;
    let (file, function) = entry.split_once("::").context("file::function")?;
    ensure!(function == "run", "{entry}");
    Ok(form.join(file))
}

/// The handlers are compiled against the headers of XLA, and called through its C interface. JAX traces the modules.
fn check_jax(folder: &Path, drivers: &str, exported: &[Exported]) -> Result<()> {
    // `tests/exports/run` installs JAX and sets the variables.
    let (Some(python), Some(headers)) = (
        std::env::var_os("EXPORT_PYTHON"),
        std::env::var_os("EXPORT_XLA"),
    ) else {
        println!("not run: the handlers for JAX, because EXPORT_PYTHON or EXPORT_XLA is not set");
        return Ok(());
    };
    let mut words = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-isystem"]
        .map(str::to_owned)
        .to_vec();
    words.push(headers.to_string_lossy().into_owned());
    for (name, _) in exported {
        let to = form(folder, name, "jax");
        words.push(format!("-I{}", to.display()));
        words.push(format!("{}/{name}.cpp", to.display()));
        words.push(format!("{}/{name}_ffi.cpp", to.display()));
    }
    run_program(folder, drivers, exported, words, "export_jax.cpp")?;
    run_script(
        Path::new(&python),
        drivers,
        &list(folder, exported, "jax"),
        "export_jax.py",
    )
}

/// Runs a script of ours on listed vectors. What it compiles is linked against the emulated device's driver.
fn run_script(python: &Path, drivers: &str, list: &str, script: &str) -> Result<()> {
    let driver = format!("{drivers}/libcuda.so.1");
    let environment = [
        ("LD_LIBRARY_PATH", drivers),
        ("CUDA_DRIVER", driver.as_str()),
        (VECTORS, list),
    ];
    let script = lab::repository()
        .join("tests/tests/conversion")
        .join(script);
    let ran = lab::program(python, &environment, &[&*script.to_string_lossy()])?;
    ensure!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    Ok(())
}

#[test]
fn a_dispatching_launcher_chooses_by_shape_and_falls_back_to_the_baseline() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let task = init("scan", folder.path())?;
    complete("scan", &task)?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (baseline, to, data) = (format!("{task}/baseline.cu"), path("both"), path("data"));
    let other = format!("{baseline}@n <= 100");
    let words = [
        "export", &baseline, "--task", &task, "--to", &to, "--data", &data, "--also", &other,
    ];
    let exported = lab::kernelwright(&words)?;
    ensure!(
        exported.status.success(),
        "{}{}",
        exported.stdout,
        exported.stderr
    );
    let drivers = driver_folder(folder.path())?;
    let sources = ["scan", "scan_1", "scan_2", "scan_3"].map(|name| format!("{to}/{name}.cpp"));
    let main = lab::repository().join("tests/tests/conversion/export_dispatch.cpp");
    let (main, own, program) = (main.to_string_lossy(), format!("-I{to}"), path("program"));
    let (driver, flags) = (
        format!("{drivers}/libcuda.so.1"),
        ["-std=c++17", "-Wall", "-Wextra", "-Werror", &own],
    );
    let mut words = flags.to_vec();
    words.extend(sources.iter().map(String::as_str));
    words.extend([&*main, &driver, "-o", &program]);
    let compiled = lab::program(Path::new("c++"), &[], &words)?;
    ensure!(compiled.status.success(), "{}", compiled.stderr);
    let ran = lab::program(Path::new(&program), &[("LD_LIBRARY_PATH", &drivers)], &[])?;
    ensure!(ran.status.success(), "{}{}", ran.stdout, ran.stderr);
    let unknown = format!("{baseline}@Q < 1");
    let words = [
        "export",
        &baseline,
        "--task",
        &task,
        "--to",
        &path("none"),
        "--data",
        &data,
        "--also",
        &unknown,
    ];
    let refused = lab::kernelwright(&words)?;
    ensure!(
        refused.status.code() == Some(2) && refused.stderr.contains("Q is no dim of scan"),
        "{}",
        refused.stderr
    );
    Ok(())
}

#[test]
fn a_kernel_that_is_not_accepted_is_not_exported() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let task = init("scan", folder.path())?;
    complete("scan", &task)?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let text = fs::read_to_string(Path::new(&task).join("baseline.cu"))?;
    let wrong = text.replace("sums[b] = running;", "sums[b] = 0.0f;");
    ensure!(wrong != text, "the baseline has another line");
    fs::write(path("wrong.cu"), wrong)?;
    let (wrong, to, data) = (path("wrong.cu"), path("out"), path("data"));
    let words = [
        "export", &wrong, "--task", &task, "--to", &to, "--data", &data,
    ];
    let refused = lab::kernelwright(&words)?;
    ensure!(refused.status.code() == Some(1), "{}", refused.stdout);
    let why = "nothing was written, because the kernel was not accepted";
    ensure!(refused.stdout.contains(why), "{}", refused.stdout);
    ensure!(!Path::new(&to).exists(), "something was left");
    Ok(())
}
