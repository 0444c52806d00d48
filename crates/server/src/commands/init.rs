//! `task init`: a new task folder from an existing `.cu` file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use convert::init::{Answers, Guess, NewTask, PythonFile, Request, create_task, included_header};
use domain::patch::{region, regions};
use domain::task::{Bundle, Task};
use engine::promote::repository::work_tree_of;
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
    let mut headers = BTreeMap::new();
    collect_headers(&args.file, &text, &args.include, &mut headers)?;
    let mut task = create_task(&Request {
        file: &file,
        text: &text,
        name: name.as_deref().unwrap_or("task"),
        answers: &answers,
        headers: &headers,
        reference: python
            .as_ref()
            .map(|(file, text)| PythonFile { file, text }),
    })
    .map_err(|problems| Failure::input(anyhow!("make a task of {file}:\n{problems}")))?;
    name_destination(&mut task, &args.file, &text, &folder);
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

/// Reads the headers that a file includes in quotes, and those that they include, as far as they are found beside the
/// including file or in a folder. What is not found is reported when the task is made.
///
/// # Errors
/// Two headers are included by the same name.
fn collect_headers(
    file: &Path,
    text: &str,
    folders: &[PathBuf],
    found: &mut BTreeMap<String, String>,
) -> Result<(), Failure> {
    let own = file.parent().map(Path::to_owned).unwrap_or_default();
    let included = text.lines().filter_map(included_header);
    for (name, _) in included.filter(|(_, is_quoted)| *is_quoted) {
        // A header is a file of the task by the name in the line, which must be its path there.
        if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
            continue;
        }
        let places = [&own].into_iter().chain(folders);
        let mut known = places.filter_map(|folder| {
            let place = folder.join(name);
            Some((fs::read_to_string(&place).ok()?, place))
        });
        let Some((header, place)) = known.next() else {
            continue;
        };
        match found.get(name) {
            None => {
                found.insert(name.to_owned(), header.clone());
                collect_headers(&place, &header, folders, found)?;
            }
            Some(other) if *other == header => {}
            Some(_) => {
                let place = place.display();
                return Err(Failure::input(anyhow!(
                    "copy the header {place}, which {} includes: another one is included as \"{name}\" too; rename one of them",
                    file.display()
                )));
            }
        }
    }
    Ok(())
}

/// Says in `task.toml` which region of the file a winner replaces, if the file is in a git repository and one region
/// holds its kernels.
fn name_destination(task: &mut NewTask, file: &Path, text: &str, folder: &Path) {
    let Some((tree, path)) = place_in_repository(file) else {
        return;
    };
    let has_kernel = |name: &String| region(text, name).is_ok_and(|it| it.contains("__global__"));
    let named = regions(text);
    let with_kernels = named.iter().filter(|name| has_kernel(name));
    let [name] = with_kernels.collect::<Vec<_>>()[..] else {
        task.guesses.push(Guess {
            line: 0,
            text: format!(
                "winners are not committed to {path} of this repository, because not exactly one region holds a \
                 kernel: put the lines that a winner may replace between `// region: NAME` and `// endregion`, \
                 and call again"
            ),
        });
        return;
    };
    let repository = path_from(folder, &tree);
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let table = format!(
        "\n# The lines that a winner replaces, on a branch of this repository.\n[promotion]\nrepository = {}\npath = {}\nregion = {}\n",
        quoted(&repository),
        quoted(&path),
        quoted(name)
    );
    task.files
        .entry("task.toml".to_owned())
        .or_default()
        .push_str(&table);
    task.guesses.push(Guess {
        line: 0,
        text: format!("a winner replaces the region {name} of {path}: that region holds the kernel, and the file is in a git repository"),
    });
}

/// The work tree that a file is in, and its path there; `None` outside of repositories.
fn place_in_repository(file: &Path) -> Option<(PathBuf, String)> {
    let file = file.canonicalize().ok()?;
    let tree = work_tree_of(&file)?.canonicalize().ok()?;
    let path = file.strip_prefix(&tree).ok()?.to_str()?.to_owned();
    Some((tree, path))
}

/// The path of a work tree from a folder that is about to be made: relative if the folder is inside.
fn path_from(folder: &Path, tree: &Path) -> String {
    let depth = || {
        let folder = std::path::absolute(folder).ok()?;
        // Folders that are yet to be made are no links.
        let mut ancestors = folder.ancestors();
        let (known, canonical) = ancestors.find_map(|one| Some((one, one.canonicalize().ok()?)))?;
        let inside = canonical.strip_prefix(tree).ok()?;
        let new = folder.strip_prefix(known).ok()?;
        Some(inside.components().chain(new.components()).count())
    };
    match depth() {
        Some(depth) => vec![".."; depth].join("/"),
        None => tree.to_string_lossy().into_owned(),
    }
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
