//! The keys of a front matter's tables, with other names and misspellings that mean the same.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FrontMatterReader;

/// The keys of a launch, each with other names of the same meaning.
pub(super) const LAUNCH: Keys = &[
    (
        "kernel",
        &["name", "entry", "function", "func", "kernelname"],
    ),
    ("grid", &["griddim", "blocks", "numblocks", "gridsize"]),
    (
        "block",
        &[
            "blockdim",
            "threads",
            "numthreads",
            "threadsperblock",
            "blocksize",
        ],
    ),
    (
        "shared",
        &[
            "smem",
            "shmem",
            "sharedmem",
            "sharedmemory",
            "sharedbytes",
            "smembytes",
            "dynamicshared",
            "dynamicsharedmemory",
            "dynamicsmem",
            "sharedmembytes",
        ],
    ),
    ("cooperative", &["coop"]),
    (
        "l2_persist",
        &[
            "l2persist",
            "l2persisting",
            "persist",
            "persistl2",
            "l2window",
        ],
    ),
    ("args", &["arguments", "params", "parameters", "arg"]),
    ("memset", &[]),
    ("byte", &["bytes", "fill"]),
];
pub(super) const L2_WINDOW: Keys = &[
    (
        "buffer",
        &["tensor", "tensors", "buffers", "name", "workspace"],
    ),
    ("bytes", &["numbytes", "size", "window"]),
    ("hit_ratio", &["hitratio", "ratio"]),
];
pub(super) const WORKSPACE: Keys = &[
    ("dtype", &["type", "ty", "elementtype"]),
    (
        "shape",
        &[
            "size", "elements", "extent", "numel", "count", "length", "dims",
        ],
    ),
];
pub(super) const TUNABLE: Keys = &[
    ("value", &["default", "init", "initial"]),
    ("choices", &["values", "options", "candidates", "range"]),
];
pub(super) const IDEA: Keys = &[
    ("title", &["name", "summary"]),
    (
        "hypothesis",
        &["rationale", "thought", "reason", "why", "description"],
    ),
    ("gain", &["expectedgain", "speedup", "expectedspeedup"]),
];
pub(super) const STEP: Keys = &[("phase", &[]), ("sweep", &[])];
pub(super) const EXPECT: Keys = &[("verdict", &[]), ("code", &[])];
/// Keys that only describe, or ask for something that the compiler decides.
pub(super) const WITHOUT_EFFECT: &[&str] = &[
    "comment",
    "comments",
    "description",
    "note",
    "notes",
    "reason",
    "title",
    "hypothesis",
    "id",
    "label",
    "unit",
    "launchbounds",
    "maxregisters",
    "registers",
    "dtype",
    "type",
];

/// Keys with their other names, in lower case without underscores and hyphens.
pub(super) type Keys = &'static [(&'static str, &'static [&'static str])];

impl FrontMatterReader<'_> {
    /// The values of a table by key, other names and misspellings resolved.
    pub(super) fn fields<'v, 'i>(
        &mut self,
        of: &str,
        keys: Keys,
        table: &'v DeTable<'i>,
    ) -> BTreeMap<&'static str, &'v Spanned<DeValue<'i>>> {
        let mut found = BTreeMap::new();
        let exact = |name: &str| keys.iter().any(|(key, _)| *key == name);
        for (name, value) in table {
            let start = name.span().start;
            let written = name.get_ref().as_ref();
            let taken = |key: &str| table.iter().any(|(name, _)| name.get_ref() == key);
            match find(keys, written) {
                Some(key) if key == written => {
                    found.insert(key, value);
                }
                Some(key) if !taken(key) && !found.contains_key(key) => {
                    self.note(start, written, key);
                    found.insert(key, value);
                }
                _ if is_without_effect(written) && !exact(written) => {
                    self.note_ignored(start, written);
                }
                _ => {
                    let known: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
                    self.refuse(
                        start,
                        format!(
                            "no key is called \"{written}\"; the keys are {}",
                            known.join(", ")
                        ),
                        format!("remove this line: {of} has no such property"),
                    );
                }
            }
        }
        found
    }
}

/// A key in lower case, without underscores and hyphens.
pub(super) fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '_' | '-'));
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

pub(super) fn is_without_effect(name: &str) -> bool {
    WITHOUT_EFFECT.contains(&plain(name).as_str())
}

/// The key that a name means: the key itself, another name of it, or one that differs in one
/// character from exactly one key of more than four.
pub(super) fn find(keys: Keys, name: &str) -> Option<&'static str> {
    let name = plain(name);
    let known = keys
        .iter()
        .find(|(key, others)| *key == name || others.contains(&name.as_str()));
    if let Some((key, _)) = known {
        return Some(key);
    }
    let mut near = keys
        .iter()
        .filter(|(key, _)| key.len() > 4 && differs_in_one(key, &name));
    match (near.next(), near.next()) {
        (Some((key, _)), None) => Some(key),
        _ => None,
    }
}

/// Returns true if one character is inserted, left out or replaced.
fn differs_in_one(one: &str, other: &str) -> bool {
    let common = one.bytes().zip(other.bytes());
    let same = common.take_while(|(a, b)| a == b).count();
    let (one, other) = (&one.as_bytes()[same..], &other.as_bytes()[same..]);
    match one.len().cmp(&other.len()) {
        std::cmp::Ordering::Equal => !one.is_empty() && one[1..] == other[1..],
        std::cmp::Ordering::Less => one == &other[1..],
        std::cmp::Ordering::Greater => &one[1..] == other,
    }
}
