//! The search for NVIDIA's run-time compiler on this machine. It is never part of the product: the
//! set-up installs it, a CUDA installation has it, or a setting names it.

use std::path::{Path, PathBuf};

/// The places to search for the compiler, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The library or its folder as the operator named it; if set, nothing else is searched.
    pub setting: Option<PathBuf>,
    /// The folder that the set-up installs into; the libraries are in
    /// `nvrtc-<version>/nvidia/<package>/lib` below it.
    pub cache: PathBuf,
    /// Folders of the loader's path.
    pub library_path: Vec<PathBuf>,
    /// Folders of CUDA installations.
    pub system: Vec<PathBuf>,
}

/// The error of a search that found no compiler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "find the CUDA compiler library libnvrtc.so in {searched}; install it with `./kw preflight`, with \
     `python3 -m pip install --target {}/nvrtc-13.5.37 nvidia-cuda-nvrtc==13.5.37`, or name its folder in KERNELWRIGHT_NVRTC",
    cache.display()
)]
pub struct Missing {
    searched: String,
    cache: PathBuf,
}

/// The library folders of usual CUDA installations.
pub fn system_folders() -> Vec<PathBuf> {
    [
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/targets/x86_64-linux/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
    ]
    .map(PathBuf::from)
    .to_vec()
}

/// Finds the folder with the compiler library and its built-ins; the loader needs the whole folder.
///
/// # Errors
/// [`Missing`], with the folders that were searched and the command that installs it.
pub fn find(search: &Search) -> Result<PathBuf, Missing> {
    let candidates = match &search.setting {
        Some(setting) if setting.is_file() => {
            vec![setting.parent().unwrap_or(Path::new("/")).to_owned()]
        }
        Some(setting) => vec![setting.clone()],
        None => installed(&search.cache)
            .into_iter()
            .chain(search.library_path.iter().cloned())
            .chain(search.system.iter().cloned())
            .collect(),
    };
    if let Some(folder) = candidates.iter().find(|folder| has_compiler(folder)) {
        return Ok(folder.clone());
    }
    let mut searched = candidates;
    if search.setting.is_none() {
        searched.insert(0, search.cache.clone());
    }
    let searched = searched
        .iter()
        .map(|folder| folder.display().to_string())
        .collect::<Vec<_>>()
        .join(", ");
    Err(Missing {
        searched,
        cache: search.cache.clone(),
    })
}

/// The error of a search that found no disassembler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "NVIDIA's disassembler is not in {searched}; install it with `./kw toolchain`, or name it in KERNELWRIGHT_NVDISASM"
)]
pub struct NoDisassembler {
    searched: String,
}

/// Finds NVIDIA's disassembler: as the operator named it, as the set-up installed it, or in a CUDA
/// installation.
///
/// # Errors
/// [`NoDisassembler`], with the folder that was searched.
pub fn disassembler(setting: Option<&Path>, cache: &Path) -> Result<PathBuf, NoDisassembler> {
    let candidates = match setting {
        Some(setting) => vec![setting.to_owned()],
        None => packages(cache, "nvdisasm-")
            .map(|package| package.join("bin/nvdisasm"))
            .chain([PathBuf::from("/usr/local/cuda/bin/nvdisasm")])
            .collect(),
    };
    let found = candidates.iter().find(|program| program.is_file());
    found.cloned().ok_or_else(|| NoDisassembler {
        searched: setting.unwrap_or(cache).display().to_string(),
    })
}

/// The library folders of the compiler's wheels in the cache, the newest version first.
fn installed(cache: &Path) -> Vec<PathBuf> {
    packages(cache, "nvrtc-")
        .map(|package| package.join("lib"))
        .collect()
}

/// The package folders of the wheels installed as `PREFIX<version>`, the newest version first.
fn packages(cache: &Path, prefix: &str) -> impl Iterator<Item = PathBuf> {
    let mut versions = subfolders(cache)
        .into_iter()
        .filter_map(|folder| {
            let name = folder.file_name()?.to_str()?;
            let version = name.strip_prefix(prefix)?;
            let numbers = version
                .split('.')
                .map(|part| part.parse::<u32>().unwrap_or(0))
                .collect::<Vec<_>>();
            Some((numbers, folder))
        })
        .collect::<Vec<_>>();
    versions.sort();
    versions
        .into_iter()
        .rev()
        .flat_map(|(_, folder)| subfolders(&folder.join("nvidia")))
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect::<Vec<_>>();
    folders.sort();
    folders
}

fn has_compiler(folder: &Path) -> bool {
    let names = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect::<Vec<_>>();
    let has = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    has("libnvrtc.so") && has("libnvrtc-builtins.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for name in ["libnvrtc.so.13", "libnvrtc-builtins.so.13.5"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
    }

    fn search(root: &Path) -> Search {
        Search {
            setting: None,
            cache: root.join("cache"),
            library_path: vec![root.join("path")],
            system: vec![root.join("system")],
        }
    }

    #[test]
    fn the_newest_installed_wheel_is_preferred_and_a_setting_overrides_it() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (
            root.path()
                .join("cache/nvrtc-12.9.86/nvidia/cuda_nvrtc/lib"),
            root.path().join("cache/nvrtc-12.10.1/nvidia/cu12/lib"),
        );
        let own = root.path().join("own");
        for folder in [&old, &new, &own] {
            install(folder);
        }
        let mut search = search(root.path());
        assert_eq!(find(&search).unwrap(), new);
        search.setting = Some(own.clone());
        assert_eq!(find(&search).unwrap(), own);
        search.setting = Some(own.join("libnvrtc.so.13"));
        assert_eq!(find(&search).unwrap(), own);
    }

    #[test]
    fn without_a_wheel_the_loaders_path_comes_before_the_system() {
        let root = tempfile::tempdir().unwrap();
        install(&root.path().join("system"));
        assert_eq!(
            find(&search(root.path())).unwrap(),
            root.path().join("system")
        );
        install(&root.path().join("path"));
        assert_eq!(
            find(&search(root.path())).unwrap(),
            root.path().join("path")
        );
    }

    #[test]
    fn the_disassembler_is_the_named_one_or_the_newest_installed() {
        let root = tempfile::tempdir().unwrap();
        let cache = root.path().join("cache");
        let missing = disassembler(None, &cache).unwrap_err().to_string();
        for expected in ["cache", "./kw toolchain", "KERNELWRIGHT_NVDISASM"] {
            assert!(missing.contains(expected), "{missing}");
        }
        let installed = cache.join("nvdisasm-13.5.37/nvidia/cu13/bin/nvdisasm");
        std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
        std::fs::write(&installed, "").unwrap();
        assert_eq!(disassembler(None, &cache).unwrap(), installed);
        let absent = root.path().join("absent");
        let error = disassembler(Some(&absent), &cache).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_missing_compiler_is_reported_with_the_searched_folders_and_a_fix() {
        let root = tempfile::tempdir().unwrap();
        let missing = find(&search(root.path())).unwrap_err().to_string();
        for expected in [
            "cache",
            "path",
            "system",
            "pip install",
            "KERNELWRIGHT_NVRTC",
        ] {
            assert!(missing.contains(expected), "{missing}");
        }
    }
}
