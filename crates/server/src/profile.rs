//! Profiles: named services with the files to identify to them, in one configuration file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Environment variable with the path of the file.
pub const CONFIG: &str = "KERNELWRIGHT_CONFIG";

/// Errors of the configuration file. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("read the profiles of {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is no list of profiles.
    #[error(
        "read the profiles of {path}; its keys are `default` and, of each [profiles.NAME], `url`, `token_file` and `ca`"
    )]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The defect with its place.
        source: Box<toml::de::Error>,
    },
    /// No profile has the name.
    #[error(
        "find the profile {name:?} in {path}: it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )]
    Unknown {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// The names in the file.
        known: Vec<String>,
    },
    /// There is no place for the file.
    #[error("find the profile {0:?}: neither {CONFIG} nor HOME is set")]
    Nowhere(String),
}

/// One service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its address.
    pub url: String,
    /// File with the token. Relative paths start from the folder of the configuration file.
    pub token_file: Option<PathBuf>,
    /// Certificate of the authority that signed the service's certificate.
    pub ca: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    default: Option<String>,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// The profile of a name, or the file's default; none if no name is given and there is no default.
///
/// # Errors
/// [`ProfileError`].
pub fn find(name: Option<&str>) -> Result<Option<Profile>, ProfileError> {
    match (file(), name) {
        (Some(path), name) => find_in(&path, name),
        (None, Some(name)) => Err(ProfileError::Nowhere(name.to_owned())),
        (None, None) => Ok(None),
    }
}

/// Finds a profile in one file.
///
/// # Errors
/// [`ProfileError`].
pub fn find_in(path: &Path, name: Option<&str>) -> Result<Option<Profile>, ProfileError> {
    let config = match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str::<Config>(&text).map_err(|source| ProfileError::Malformed {
            path: path.to_owned(),
            source: Box::new(source),
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Config::default(),
        Err(source) => {
            return Err(ProfileError::Unreadable {
                path: path.to_owned(),
                source,
            });
        }
    };
    let Some(name) = name.map(str::to_owned).or(config.default) else {
        return Ok(None);
    };
    let Some(mut profile) = config.profiles.get(&name).cloned() else {
        return Err(ProfileError::Unknown {
            name,
            path: path.to_owned(),
            known: config.profiles.into_keys().collect(),
        });
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    let files = [&mut profile.token_file, &mut profile.ca];
    for file in files.into_iter().flatten() {
        *file = folder.join(&*file);
    }
    Ok(Some(profile))
}

/// The configuration file: as named, else in the user's configuration folder.
fn file() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(path) = named(CONFIG) {
        return Some(path.into());
    }
    let folder = match named("XDG_CONFIG_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(named("HOME")?).join(".config"),
    };
    Some(folder.join("kernelwright/config.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"default = "team"
[profiles.team]
url = "https://kernels.example:8787"
token_file = "team.token"
ca = "/etc/team-ca.pem"
[profiles.here]
url = "http://127.0.0.1:8787"
"#;

    #[test]
    fn a_profile_is_found_by_name_or_by_default_with_paths_beside_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, TEXT).unwrap();
        let team = find_in(&path, None).unwrap().unwrap();
        assert_eq!(team.token_file, Some(folder.path().join("team.token")));
        assert_eq!(team.ca.as_deref(), Some(Path::new("/etc/team-ca.pem")));
        let here = find_in(&path, Some("here")).unwrap().unwrap();
        assert_eq!(
            (here.url.as_str(), here.token_file),
            ("http://127.0.0.1:8787", None)
        );
        let error = find_in(&path, Some("tema")).unwrap_err().to_string();
        assert!(error.contains("it has here, team"), "{error}");
    }

    #[test]
    fn no_file_is_no_profile_and_a_misspelt_key_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        assert_eq!(find_in(&path, None).unwrap(), None);
        std::fs::write(&path, TEXT.replace("token_file", "token")).unwrap();
        assert!(matches!(
            find_in(&path, None),
            Err(ProfileError::Malformed { .. })
        ));
    }
}
