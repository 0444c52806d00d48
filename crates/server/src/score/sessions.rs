//! The tuning sessions that one command scores: one that the command line describes, or a file that lists several.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::kernel::{Argument, Geometry};

/// A tuning session with what its cache file does not hold.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its name in the table; the kernel's where none is given.
    pub name: Option<String>,
    /// Its cache file.
    pub cache: PathBuf,
    /// Source of the kernel.
    pub source: PathBuf,
    /// Arguments of the kernel, in order.
    pub arguments: Vec<Argument>,
    /// Folder where the paths of arguments begin.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Extents of the problem, where the cache file does not hold them.
    #[serde(default)]
    pub problem: Vec<u64>,
    /// Names of the tunables that hold the extents of a block.
    #[serde(default = "default_block")]
    pub block: [String; 3],
    /// Tunables whose product divides the problem's first extent; the block's first where none are named.
    pub grid_div_x: Option<Vec<String>>,
    /// The same of the second extent.
    pub grid_div_y: Option<Vec<String>>,
    /// The same of the third extent.
    pub grid_div_z: Option<Vec<String>>,
    /// Device file to model; the one that the cache file names where none is given.
    pub device: Option<String>,
    /// Equal parts of the measured work, of which a modelled launch does one. Above 1 where all of them would take too
    /// long here.
    #[serde(default = "one")]
    pub parts: u32,
    /// The launch that does two of them.
    pub two_parts: Option<TwoParts>,
    /// The reason why the model had seen the session before its first score. Without one the session is held out.
    pub seen: Option<String>,
}

/// The differences of the launch that does two parts of the work from the one that does one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TwoParts {
    /// Source of the kernel; the same where none is given.
    pub source: Option<PathBuf>,
    /// Arguments of the kernel, in order.
    pub arguments: Vec<Argument>,
}

fn default_block() -> [String; 3] {
    ["x", "y", "z"].map(|axis| format!("block_size_{axis}"))
}

fn one() -> u32 {
    1
}

/// A file of sessions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    session: Vec<Session>,
}

/// Errors of reading a file of sessions.
#[derive(Debug, thiserror::Error)]
pub enum SessionsError {
    /// It is no TOML, or its fields are not those of sessions.
    #[error("read the list of sessions: {0}")]
    Malformed(String),
    /// A session has parts without a launch that does two of them, or such a launch without parts.
    #[error(
        "read the list of sessions: parts of {0} must be at least 2 if it has two_parts, and 1 or absent if it has not"
    )]
    Parts(String),
    /// No session has the text that was asked for.
    #[error("find a session whose name or cache file contains {wanted}: the list has {known}")]
    None {
        /// The texts that were asked for.
        wanted: String,
        /// The sessions of the file.
        known: String,
    },
}

impl Session {
    /// Reads the sessions of a file. Its cache files are relative to `list`, the folder of the file; sources and the
    /// files of arguments are relative to `sources`. With any `only`, those alone whose name or cache file contains one
    /// of its texts.
    ///
    /// # Errors
    /// A [`SessionsError`] that says what is wrong.
    pub fn read_all(
        text: &str,
        list: &Path,
        sources: &Path,
        only: &[String],
    ) -> Result<Vec<Self>, SessionsError> {
        let mut sessions = toml::from_str::<File>(text)
            .map_err(|error| SessionsError::Malformed(error.to_string().trim().to_owned()))?
            .session;
        let wrong = |session: &&Self| match session.two_parts {
            Some(_) => session.parts < 2,
            None => session.parts != 1,
        };
        if let Some(session) = sessions.iter().find(wrong) {
            return Err(SessionsError::Parts(session.title()));
        }
        let known = sessions.iter().map(Self::title).collect::<Vec<_>>();
        sessions.retain(|session| {
            let title = session.title();
            only.is_empty() || only.iter().any(|text| title.contains(text.as_str()))
        });
        if sessions.is_empty() {
            return Err(SessionsError::None {
                wanted: format!("{only:?}"),
                known: known.join(", "),
            });
        }
        for session in &mut sessions {
            session.cache = list.join(&session.cache);
            session.source = sources.join(&session.source);
            if let Some(source) = session
                .two_parts
                .as_mut()
                .and_then(|two| two.source.as_mut())
            {
                *source = sources.join(&*source);
            }
            sources.clone_into(&mut session.folder);
        }
        Ok(sessions)
    }

    /// Its name with its cache file, which tells the cards apart.
    fn title(&self) -> String {
        let file = self.cache.display();
        match &self.name {
            Some(name) => format!("{name} ({file})"),
            None => file.to_string(),
        }
    }

    /// The rule for blocks and grids, with the problem's extents as the cache file has them where the session gives none.
    pub fn geometry(&self, recorded: &[u64]) -> Geometry {
        let own = &self.problem;
        Geometry {
            block: self.block.clone(),
            problem: if own.is_empty() { recorded } else { own }.to_vec(),
            divisors: [&self.grid_div_x, &self.grid_div_y, &self.grid_div_z].map(Clone::clone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"
[[session]]
name = "sum"
cache = "sum-a4000.json"
source = "sum.cu"
arguments = ["f32*1024", "f32@values.txt", "i32=3"]
grid_div_x = ["block_size_x", "tile"]
parts = 4
two_parts = { source = "sum-2.cu", arguments = ["f32*2048", "f32@values.txt", "i32=6"] }

[[session]]
cache = "scan-a100.json"
source = "scan.cu"
arguments = ["f32*1024"]
block = ["threads", "y", "z"]
problem = [1024]
seen = "its rates were guessed with it in view"
"#;

    fn read(text: &str, only: &[&str]) -> Result<Vec<Session>, String> {
        let only = only.iter().copied().map(str::to_owned).collect::<Vec<_>>();
        Session::read_all(text, Path::new("list"), Path::new("sources"), &only)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_found_beside_the_list_and_among_the_sources() {
        let sessions = read(LIST, &[]).unwrap();
        let [sum, scan] = &sessions[..] else {
            panic!("two sessions")
        };
        assert_eq!(sum.cache, Path::new("list/sum-a4000.json"));
        assert_eq!(sum.source, Path::new("sources/sum.cu"));
        assert_eq!(sum.folder, Path::new("sources"));
        assert_eq!((sum.parts, scan.parts), (4, 1));
        let two = sum.two_parts.as_ref().unwrap();
        assert_eq!(two.source.as_deref(), Some(Path::new("sources/sum-2.cu")));
        assert_eq!(sum.seen, None);
        assert!(scan.seen.is_some());
    }

    #[test]
    fn the_problem_is_the_recorded_one_unless_the_session_gives_it() {
        let sessions = read(LIST, &[]).unwrap();
        let sum = sessions[0].geometry(&[4096]);
        assert_eq!(sum.problem, [4096]);
        assert_eq!(sum.block, ["block_size_x", "block_size_y", "block_size_z"]);
        assert_eq!(sum.divisors[0].as_ref().unwrap().len(), 2);
        let scan = sessions[1].geometry(&[4096]);
        assert_eq!(scan.problem, [1024]);
        assert_eq!(scan.block, ["threads", "y", "z"]);
    }

    #[test]
    fn a_part_of_the_list_is_named_by_kernel_or_card() {
        assert_eq!(read(LIST, &["sum"]).unwrap().len(), 1);
        assert_eq!(read(LIST, &["a100", "a4000"]).unwrap().len(), 2);
        let refused = read(LIST, &["transpose"]).unwrap_err();
        for part in ["transpose", "sum (sum-a4000.json)", "scan-a100.json"] {
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn wrong_lists_are_refused_with_the_place() {
        let cases = [
            (LIST.replace("arguments", "args"), "args"),
            (LIST.replace("f32*1024", "f32"), "neither a buffer"),
            (
                LIST.replace("parts = 4", "parts = 1"),
                "sum (sum-a4000.json)",
            ),
            (
                LIST.replace("seen = ", "parts = 3\nseen = "),
                "scan-a100.json",
            ),
            (
                LIST.replace("[\"threads\", \"y\", \"z\"]", "[\"threads\"]"),
                "block",
            ),
        ];
        for (text, part) in cases {
            let refused = read(&text, &[]).unwrap_err();
            assert!(refused.contains(part), "{part}: {refused}");
        }
    }
}
