//! A pack: one folder with everything that `gpu-check` needs on a machine without compiler,
//! sources and network. The program finds the pack it lies in by itself.
//!
//! ```text
//! kernelwright        this program
//! pack.json           what made it
//! emulated/           our libcuda.so.1, kept where no loader looks by itself
//! builds/             every image, content-addressed as in any data folder
//! tasks/              the task folders
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use domain::decode_message::describe_json;
use domain::evaluation::EVALUATOR_VERSION;
use domain::plan::Configuration;
use serde::{Deserialize, Serialize};
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, Evaluator, Stop};
use worker::host::{Host, Prebuilt, Settings};

use super::suite;
use super::{CheckError, is_wanted, storage};
use crate::terminal::line;

/// File name of the manifest.
const MANIFEST: &str = "pack.json";
const PROGRAM: &str = "kernelwright";
const DRIVER: &str = "emulated/libcuda.so.1";
const BUILDS: &str = "builds";
const TASKS: &str = "tasks";
/// Folders that the evaluator makes and that a pack does not need.
const LEFTOVERS: [&str; 5] = ["driver", "headers", "scratch", "references", "carried"];
/// The most bytes of a pack, because uploads to a machine without network are limited.
pub const PACK_BYTES: u64 = 64 << 20;
/// The devices that get machine code: Ampere of servers and of desks, Ada, Hopper.
pub const ARCHITECTURES: [&str; 4] = ["sm_80", "sm_86", "sm_89", "sm_90"];

/// Errors of reading or making a pack.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The folder holds no pack.
    #[error(
        "read the pack {path}; make one with `kernelwright gpu-check --prepare DIR` on a machine with the compiler"
    )]
    Read {
        /// The manifest.
        path: PathBuf,
        /// The system's or the reader's reason.
        #[source]
        source: io::Error,
    },
    /// Its builds belong to another version of this program.
    #[error(
        "use the pack {path}: it was made for evaluator {found}, this program has {expected}; run the program inside the pack, or prepare it again"
    )]
    Foreign {
        /// Its folder.
        path: PathBuf,
        /// The version that made it.
        found: u32,
        /// Ours.
        expected: u32,
    },
}

/// The manifest of a pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    evaluator: u32,
    prebuilt: Prebuilt,
    architectures: Vec<String>,
}

/// A pack whose manifest was read.
#[derive(Debug, Clone)]
pub struct Pack {
    root: PathBuf,
    manifest: Manifest,
}

/// The result of making a pack.
#[derive(Debug, Clone, Serialize)]
pub struct Prepared {
    /// The folder.
    pub folder: PathBuf,
    /// Sources compiled for each of the architectures.
    pub sources: usize,
    /// The architectures.
    pub architectures: Vec<String>,
    /// Images in all.
    pub images: usize,
    /// Sources that the compiler refuses, as some tasks want it.
    pub refused: Vec<String>,
    /// Bytes of the whole pack, and of its images alone.
    pub bytes: u64,
    /// Bytes of the images alone.
    pub image_bytes: u64,
}

impl Prepared {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let mut text = format!(
            "pack       {}\nsources    {}\nimages     {} for {}, {:.1} MiB\nsize       {:.1} MiB in all\n",
            self.folder.display(),
            self.sources,
            self.images,
            self.architectures.join(", "),
            mib(self.image_bytes),
            mib(self.bytes),
        );
        for refused in &self.refused {
            text.push_str(&format!("refused    {}\n", line(refused, 120)));
        }
        if self.bytes > PACK_BYTES {
            text.push_str(&format!(
                "too large  {:.0} MiB is what such machines take; prepare it with a program built with --release\n",
                mib(PACK_BYTES)
            ));
        }
        text.push_str(&format!(
            "use        copy the folder, then ./{PROGRAM} gpu-check in it\n"
        ));
        text
    }
}

impl Pack {
    /// Reads the pack in a folder.
    ///
    /// # Errors
    /// A [`PackError`].
    pub fn open(folder: &Path) -> Result<Self, PackError> {
        let path = folder.join(MANIFEST);
        let read = |source| PackError::Read {
            path: path.clone(),
            source,
        };
        let root = folder.canonicalize().map_err(read)?;
        let text = fs::read(&path).map_err(read)?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| read(io::Error::other(describe_json(&error.to_string()))))?;
        if manifest.evaluator != EVALUATOR_VERSION {
            return Err(PackError::Foreign {
                path: root,
                found: manifest.evaluator,
                expected: EVALUATOR_VERSION,
            });
        }
        Ok(Self { root, manifest })
    }

    /// The pack that this program lies in.
    pub fn around(executable: &Path) -> Option<Self> {
        Self::open(executable.parent()?).ok()
    }

    pub(super) fn driver(&self) -> PathBuf {
        self.root.join(DRIVER)
    }

    pub(super) fn tasks(&self) -> PathBuf {
        self.root.join(TASKS)
    }

    pub(super) fn prebuilt(&self) -> Prebuilt {
        self.manifest.prebuilt.clone()
    }

    /// Copies the builds to a data folder.
    pub(super) fn unpack(&self, data: &Path) -> Result<(), CheckError> {
        copy(&self.root.join(BUILDS), &data.join(BUILDS))
    }
}

/// The inputs of making a pack.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// The pack's folder; made when missing.
    pub folder: PathBuf,
    /// The folder of the task folders.
    pub tasks: PathBuf,
    /// The devices that get machine code, such as `sm_89`.
    pub architectures: Vec<String>,
    /// Only sources and kernels whose names contain one of these; empty is all.
    pub only: Vec<String>,
}

/// Compiles everything that is wanted and lays a pack out.
///
/// # Errors
/// A [`CheckError`]: no compiler, no disk.
pub fn prepare(
    wanted: &Preparation,
    progress: &dyn Fn(&str),
    cancellation: &Cancellation,
) -> Result<Prepared, CheckError> {
    let folder = &wanted.folder;
    fs::create_dir_all(folder).map_err(storage(folder))?;
    let folder = folder.canonicalize().map_err(storage(folder))?;
    let mut settings = Settings::from_environment(&folder)?;
    settings.emulate = true;
    let executable = settings.executable.clone();
    let host = Host::discover(settings, cancellation)?;
    let driver = host
        .emulated_driver()
        .expect("the host was told to emulate");
    let evaluator = Evaluator::new(host)?;
    let mut made = Prepared {
        folder: folder.clone(),
        sources: 0,
        architectures: wanted.architectures.clone(),
        images: 0,
        refused: Vec::new(),
        bytes: 0,
        image_bytes: 0,
    };
    let sources = corpus::SOURCES.iter().chain([&corpus::QUESTIONS]);
    for source in sources.filter(|source| is_wanted(&wanted.only, source.name)) {
        progress(&format!("compiling {}.cu", source.name));
        let none = BTreeMap::new();
        let work = CompileJob {
            name: source.name,
            text: source.cuda,
            configuration: &none,
            headers: &BTreeMap::new(),
        };
        let has_all = |architecture: &String| {
            let number = architecture.trim_start_matches("sm_").parse::<u32>();
            number.is_ok_and(|number| number >= source.least_architecture())
        };
        let mut architectures = wanted.architectures.clone();
        architectures.retain(has_all);
        work.compile(&evaluator, &architectures, cancellation, &mut made)?;
    }
    progress("compiling disturb.cu");
    let disturb = CompileJob {
        name: "disturb.cu",
        text: gpu::disturb::SOURCE,
        configuration: &BTreeMap::new(),
        headers: &BTreeMap::new(),
    };
    disturb.compile(&evaluator, &wanted.architectures, cancellation, &mut made)?;
    for task_folder in suite::folders(&wanted.tasks) {
        let Some((_, task)) = suite::read(&task_folder) else {
            progress(&format!("{} is no task folder", task_folder.display()));
            continue;
        };
        let mut kernels = suite::kernels(&task);
        kernels.retain(|(file, _)| is_wanted(&wanted.only, &format!("{}/{file}", task.name)));
        if kernels.is_empty() {
            continue;
        }
        // No kernel of a task is judged without its reference.
        kernels.push(("reference.cu".to_owned(), &task.reference));
        for (file, source) in kernels {
            let name = format!("{}/{file}", task.name);
            progress(&format!("compiling {name}"));
            let configuration = source.plan().default_configuration();
            let text = source.compiler_input();
            let work = CompileJob {
                name: &name,
                text: &text,
                configuration: &configuration,
                headers: &task.headers,
            };
            work.compile(&evaluator, &wanted.architectures, cancellation, &mut made)?;
        }
        let name = task_folder.file_name().unwrap_or_default();
        copy(&task_folder, &folder.join(TASKS).join(name))?;
    }
    let manifest = Manifest {
        evaluator: EVALUATOR_VERSION,
        prebuilt: evaluator.host().prebuilt(),
        architectures: wanted.architectures.clone(),
    };
    copy(&executable, &folder.join(PROGRAM))?;
    copy(&driver, &folder.join(DRIVER))?;
    for leftover in LEFTOVERS {
        // A missing folder is no error.
        let _ = fs::remove_dir_all(folder.join(leftover));
    }
    let text = serde_json::to_vec_pretty(&manifest).expect("a manifest has only string keys");
    let path = folder.join(MANIFEST);
    fs::write(&path, text).map_err(storage(&path))?;
    made.image_bytes = size(&folder.join(BUILDS))?;
    made.bytes = size(&folder)?;
    Ok(made)
}

/// A text to compile for every architecture.
struct CompileJob<'a> {
    name: &'a str,
    text: &'a str,
    configuration: &'a Configuration,
    headers: &'a BTreeMap<String, String>,
}

impl CompileJob<'_> {
    fn compile(
        &self,
        evaluator: &Evaluator,
        architectures: &[String],
        cancellation: &Cancellation,
        made: &mut Prepared,
    ) -> Result<(), CheckError> {
        made.sources += 1;
        for architecture in architectures {
            let recipe = CompilationInputs {
                source: self.text,
                configuration: self.configuration,
                headers: self.headers,
                architecture,
            };
            match evaluator.build(&recipe, cancellation) {
                Ok(_) => made.images += 1,
                Err(Stop::Fault(error)) => return Err(error.into()),
                Err(Stop::Verdict(verdict)) => made
                    .refused
                    .push(format!("{} for {architecture}: {verdict}", self.name)),
            }
        }
        Ok(())
    }
}

/// Copies a file or a folder with everything in it, with the rights of the files.
fn copy(from: &Path, to: &Path) -> Result<(), CheckError> {
    if from.is_dir() {
        fs::create_dir_all(to).map_err(storage(to))?;
        for entry in fs::read_dir(from).map_err(storage(from))? {
            let entry = entry.map_err(storage(from))?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(storage(parent))?;
    }
    // A program that runs cannot be written to, but another file can take its name.
    let _ = fs::remove_file(to);
    fs::copy(from, to).map(drop).map_err(storage(to))
}

/// Bytes of all files below a folder.
fn size(folder: &Path) -> Result<u64, CheckError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(storage(folder))? {
        let path = entry.map_err(storage(folder))?.path();
        bytes += if path.is_dir() {
            size(&path)?
        } else {
            fs::metadata(&path).map_err(storage(&path))?.len()
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_of_another_version_is_refused_with_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Pack::open(folder.path()).unwrap_err().to_string();
        assert!(missing.contains("--prepare"), "{missing}");
        let mut manifest = Manifest {
            evaluator: EVALUATOR_VERSION,
            prebuilt: Prebuilt {
                toolchain: "NVRTC 13.5".to_owned(),
                headers: "abc".to_owned(),
            },
            architectures: Vec::new(),
        };
        let mut write = |evaluator: u32| {
            manifest.evaluator = evaluator;
            let text = serde_json::to_vec(&manifest).unwrap();
            fs::write(folder.path().join(MANIFEST), text).unwrap();
        };
        write(EVALUATOR_VERSION);
        let pack = Pack::open(folder.path()).unwrap();
        assert!(pack.driver().ends_with(DRIVER));
        write(EVALUATOR_VERSION + 1);
        let foreign = Pack::open(folder.path()).unwrap_err().to_string();
        assert!(
            foreign.contains(&(EVALUATOR_VERSION + 1).to_string()),
            "{foreign}"
        );
    }

    #[test]
    fn a_manifest_that_does_not_parse_is_described_in_plain_words() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST), r#"{"evaluator": "ten"}"#).unwrap();
        let error = std::error::Error::source(&Pack::open(folder.path()).unwrap_err())
            .expect("a cause")
            .to_string();
        assert_eq!(
            error,
            "line 1, column 19: a whole number from 0 is needed, not string \"ten\""
        );
    }

    #[test]
    fn folders_are_copied_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(from.join("x")).unwrap();
        fs::write(from.join("x/one"), "12345").unwrap();
        copy(&from, &to).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("x/one")).unwrap(), "12345");
        assert_eq!(size(&to).unwrap(), 5);
    }
}
