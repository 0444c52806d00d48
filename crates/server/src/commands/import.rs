//! `task import`: task folders from problems of other projects.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow};
use convert::import::{
    Imported, definition_name, gpu_mode_reference, import_definition, import_gpu_mode,
    import_kernel_tuner, import_kernelbench,
};
use domain::problem::{Problem, Problems};
use domain::task::{Bundle, Task};
use serde::Serialize;

use super::follow::{print, print_json};
use super::init::write_folder;
use crate::cli::{ImportArgs, ImportFormat};
use crate::outcome::{Ending, Failure, Outcome};

/// The most files that are looked at.
const MAX_FILES: usize = 20_000;

/// The result for one problem.
#[derive(Serialize)]
struct Row {
    file: String,
    /// The task folder; none where the problem was refused.
    folder: Option<PathBuf>,
    notes: Vec<String>,
    /// The reason of a refusal, with its line and what to do.
    refused: Option<String>,
}

pub(super) fn import(args: &ImportArgs) -> Ending {
    let files = read_files(&args.path).map_err(Failure::input)?;
    let read = match args.format {
        ImportFormat::Kernelbench => read_kernelbench(&files),
        ImportFormat::FlashinferBench => read_definitions(&files),
        ImportFormat::GpuMode => read_gpu_mode(&files),
        ImportFormat::KernelTuner => read_kernel_tuner(&files).map_err(Failure::input)?,
    };
    if read.is_empty() {
        let message = format!(
            "find problems in {}: there is no file of this format; name the file or folder of your checkout",
            args.path.display()
        );
        return Err(Failure::input(anyhow!(message)));
    }
    let mut rows = Vec::new();
    for (file, result) in read {
        let written = result
            .map_err(|problems| problems.to_string())
            .and_then(|imported| {
                let folder = args.to.join(&imported.name);
                write_task(&folder, &imported).map_err(|error| format!("{error:#}"))?;
                Ok((folder, imported.notes))
            });
        rows.push(match written {
            Ok((folder, notes)) => Row {
                file,
                folder: Some(folder),
                notes,
                refused: None,
            },
            Err(why) => Row {
                file,
                folder: None,
                notes: Vec::new(),
                refused: Some(why),
            },
        });
    }
    if args.json {
        print_json(&rows)?;
    } else {
        print(&report(&rows))?;
    }
    Ok(if rows.iter().any(|row| row.folder.is_some()) {
        Outcome::Accepted
    } else {
        Outcome::NotAccepted
    })
}

/// Writes the folder of a task that its definition accepts.
fn write_task(folder: &Path, imported: &Imported) -> anyhow::Result<()> {
    if folder.exists() {
        return Err(anyhow!(
            "{} exists; remove it, or name another folder with --to",
            folder.display()
        ));
    }
    let bundle = Bundle {
        files: imported.files.clone(),
    };
    Task::load(&bundle).map_err(|problems| anyhow!("what was read is no task: {problems}"))?;
    write_folder(folder, &imported.files)
}

/// The texts of a file, or of all files in a folder, by path.
fn read_files(path: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut texts = BTreeMap::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let doing = || format!("read {}", path.display());
        if path.is_dir() {
            for entry in fs::read_dir(&path).with_context(doing)? {
                let entry = entry.with_context(doing)?;
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                let link = entry.file_type().with_context(doing)?.is_symlink();
                if !hidden && !link {
                    open.push(entry.path());
                }
            }
            continue;
        }
        let known = path.extension().is_some_and(|ending| {
            ["py", "json", "jsonl", "yml", "cu"]
                .iter()
                .any(|known| ending == *known)
        });
        if known {
            let text = String::from_utf8(fs::read(&path).with_context(doing)?);
            texts.insert(
                path.clone(),
                text.map_err(|_| anyhow!("read {}: it is not UTF-8 text", path.display()))?,
            );
        }
        if texts.len() > MAX_FILES {
            return Err(anyhow!(
                "read {}: it has more than {MAX_FILES} files; name a folder in it",
                path.display()
            ));
        }
    }
    Ok(texts)
}

type Read = Vec<(String, Result<Imported, Problems>)>;

fn read_kernelbench(files: &BTreeMap<PathBuf, String>) -> Read {
    let problems = files.iter().filter(|(path, text)| {
        path.extension().is_some_and(|ending| ending == "py")
            && text.contains("class Model")
            && text.contains("def get_inputs")
    });
    let read = problems.map(|(path, text)| {
        let file = path.display().to_string();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let result = import_kernelbench(&file, text, &task_name(&stem));
        (file, result)
    });
    read.collect()
}

fn read_definitions(files: &BTreeMap<PathBuf, String>) -> Read {
    let mut workloads = String::new();
    for (_, text) in files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|ending| ending == "jsonl"))
    {
        workloads.push_str(text);
        workloads.push('\n');
    }
    let mut read = Vec::new();
    for (path, text) in files {
        let Some(name) = definition_name(text)
            .filter(|_| path.extension().is_some_and(|ending| ending == "json"))
        else {
            continue;
        };
        let file = path.display().to_string();
        // A file of its own has its workloads beside it.
        let mut own = workloads.clone();
        if files.len() == 1 {
            let beside = ["workload.jsonl".to_owned(), format!("{name}.jsonl")];
            let beside = beside
                .iter()
                .filter_map(|file| fs::read_to_string(path.with_file_name(file)).ok());
            own = beside.collect();
        }
        let result = import_definition(&file, text, &own).and_then(|imported| {
            let name = task_name(&imported.name);
            if name.is_empty() {
                return Err(Problem::whole(&file, "it has no name", "give it one").into());
            }
            Ok(Imported { name, ..imported })
        });
        read.push((file, result));
    }
    read
}

fn read_gpu_mode(files: &BTreeMap<PathBuf, String>) -> Read {
    let problems = files
        .iter()
        .filter(|(path, _)| path.file_name().is_some_and(|name| name == "task.yml"));
    let read = problems.map(|(path, text)| {
        let file = path.display().to_string();
        let result = gpu_mode_reference(&file, text).and_then(|source| {
            let (reference, text_of_it) = beside(files, path, &source)?;
            let folder = path.canonicalize().unwrap_or_else(|_| path.clone());
            let folder = folder
                .parent()
                .and_then(Path::file_name)
                .unwrap_or_default();
            let name = task_name(&folder.to_string_lossy());
            import_gpu_mode(&file, text, &reference, &text_of_it, &name)
        });
        (file, result)
    });
    read.collect()
}

fn read_kernel_tuner(files: &BTreeMap<PathBuf, String>) -> anyhow::Result<Read> {
    let scripts = files.iter().filter(|(path, text)| {
        path.extension().is_some_and(|ending| ending == "py") && text.contains("tune_kernel(")
    });
    let mut read = Vec::new();
    for (path, text) in scripts {
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        // A script names its kernels by their path from its own folder.
        let beside = read_files(folder)?.into_iter().filter_map(|(path, text)| {
            let path = path.strip_prefix(folder).ok()?;
            Some((path.to_string_lossy().into_owned(), text))
        });
        let file = path.display().to_string();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let result = import_kernel_tuner(&file, text, &task_name(&stem), &beside.collect());
        read.push((file, result));
    }
    Ok(read)
}

/// The name and text of a file that another one names by its path in the same folder or below.
fn beside(
    files: &BTreeMap<PathBuf, String>,
    file: &Path,
    named: &str,
) -> Result<(String, String), Problems> {
    let inside = Path::new(named)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let path = file.with_file_name(named);
    // A problem that is named by its own file has no other files in the list.
    let read = || {
        files
            .get(&path)
            .cloned()
            .or_else(|| fs::read_to_string(&path).ok())
    };
    match inside.then(read).flatten() {
        Some(text) => Ok((path.display().to_string(), text)),
        None => {
            let message = format!("it names the file {named}, which is no text in its folder");
            let fix = "copy the file into the folder, and name it by its path there";
            Err(Problem::whole(&file.display().to_string(), message, fix).into())
        }
    }
}

/// A name as that of a folder.
fn task_name(name: &str) -> String {
    let kept = name.chars().map(|c| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    kept.collect()
}

fn report(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        match (&row.folder, &row.refused) {
            (Some(folder), _) => {
                text.push_str(&format!(
                    "imported   {} to {}\n",
                    row.file,
                    folder.display()
                ));
                for note in &row.notes {
                    text.push_str(&format!("           {note}\n"));
                }
            }
            (None, why) => text.push_str(&format!(
                "REFUSED    {}\n",
                why.as_deref().unwrap_or(&row.file)
            )),
        }
    }
    let imported = rows.iter().filter(|row| row.folder.is_some()).count();
    let refused = rows.len() - imported;
    text.push_str(&format!(
        "\n{imported} of {} problems imported, {refused} refused\n",
        rows.len()
    ));
    if imported > 0 {
        text.push_str("next       call `kernelwright task check` on each folder\n");
    }
    text
}
