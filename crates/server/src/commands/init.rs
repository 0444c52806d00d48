//! `task init`: a new task folder from an existing `.cu` file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use convert::init::{Answers, NewTask, PythonFile, Request, create_task};
use domain::task::{Bundle, Task};
use serde_json::json;

use super::follow::{print, print_json};
use crate::cli::InitArgs;
use crate::outcome::{Ending, Failure, Outcome};

pub(super) fn init(args: &InitArgs) -> Ending {
    let text = read_text(&args.file)?;
    let python = match &args.reference {
        Some(path) => Some((path.display().to_string(), read_text(path)?)),
        None => None,
    };
    let folder = folder(args)?;
    if folder.exists() {
        let message = "write the task folder {}: it exists; remove it, or name another with --to";
        let message = message.replace("{}", &folder.display().to_string());
        return Err(Failure::input(anyhow!(message)));
    }
    let name = args.name.clone().or_else(|| {
        let name = folder.file_name()?;
        Some(name.to_string_lossy().into_owned())
    });
    let answers = Answers {
        tensors: args.tensors.iter().cloned().collect(),
        dims: args.dims.iter().cloned().collect(),
        kernel: args.kernel.clone(),
        grid: args.grid.clone().map(|extents| extents.0),
        block: args.block.clone().map(|extents| extents.0),
        shared: args.shared.clone(),
    };
    let file = args.file.display().to_string();
    let task = create_task(&Request {
        file: &file,
        text: &text,
        name: name.as_deref().unwrap_or("task"),
        answers: &answers,
        reference: python
            .as_ref()
            .map(|(file, text)| PythonFile { file, text }),
    })
    .map_err(|problems| Failure::input(anyhow!("make a task of {file}:\n{problems}")))?;
    let bundle = Bundle {
        files: task.files.clone(),
    };
    Task::load(&bundle).map_err(|problems| {
        let message = format!(
            "make a task of {file}: what was guessed is no task, so nothing was written; \
             correct the guess with --tensor, --dim, --grid or --block:\n{problems}"
        );
        Failure::input(anyhow!(message))
    })?;
    write_folder(&folder, &task.files).map_err(Failure::input)?;
    if args.json {
        let guesses = task.guesses.iter();
        let guesses = guesses.map(|guess| json!({ "line": guess.line, "text": guess.text }));
        print_json(&json!({
            "folder": folder,
            "guesses": guesses.collect::<Vec<_>>(),
            "next": task.next,
        }))?;
    } else {
        print(&report(&args.file, &folder, &task))?;
    }
    Ok(Outcome::Accepted)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let doing = || format!("read {}", path.display());
    let bytes = fs::read(path).with_context(doing).map_err(Failure::input)?;
    String::from_utf8(bytes)
        .map_err(|_| Failure::input(anyhow!("{}: it is not UTF-8 text", doing())))
}

fn folder(args: &InitArgs) -> Result<PathBuf, Failure> {
    if let Some(folder) = &args.to {
        return Ok(folder.clone());
    }
    let stem = args
        .file
        .file_stem()
        .filter(|_| args.file.extension().is_some());
    stem.map(PathBuf::from).ok_or_else(|| {
        let file = args.file.display();
        Failure::input(anyhow!("name the task folder of {file}: give it with --to"))
    })
}

/// Writes all files to a temporary folder beside the final one, and moves it when it is complete.
pub(super) fn write_folder(
    folder: &Path,
    files: &BTreeMap<String, impl AsRef<[u8]>>,
) -> anyhow::Result<()> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).with_context(|| format!("make the folder {}", parent.display()))?;
    let doing = || format!("write the folder {}", folder.display());
    let temporary = tempfile::Builder::new()
        .prefix(".kernelwright-")
        .tempdir_in(parent)
        .with_context(doing)?;
    let inner = temporary.path().join("complete");
    fs::create_dir(&inner).with_context(doing)?;
    for (path, content) in files {
        let place = inner.join(path);
        fs::create_dir_all(place.parent().unwrap_or(&inner)).with_context(doing)?;
        fs::write(place, content).with_context(doing)?;
    }
    fs::rename(&inner, folder).with_context(doing)
}

fn report(file: &Path, folder: &Path, task: &NewTask) -> String {
    let mut text = String::from("guessed, and why:\n");
    for guess in &task.guesses {
        let place = match guess.line {
            0 => String::new(),
            line => format!("{}:{line}: ", file.display()),
        };
        text.push_str(&format!("  {place}{}\n", guess.text));
    }
    text.push_str(&format!(
        "\nwrote      {}\nnext       {}\n",
        folder.display(),
        task.next
    ));
    text
}
