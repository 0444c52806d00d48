//! Tests of the repository's Markdown documents: every link to one of its files leads somewhere, and the index of
//! decisions is complete.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Folders that hold no document of ours.
const FOREIGN: [&str; 3] = ["target", "node_modules", ".git"];

/// The links of one document and the anchors of its headings.
struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

impl Document {
    fn parse(text: &str) -> Self {
        let (mut links, mut anchors) = (Vec::new(), BTreeSet::new());
        let mut heading: Option<String> = None;
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. }) => links.push(dest_url.into_string()),
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::Text(part) | Event::Code(part) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&part);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    anchors.extend(heading.take().map(|title| anchor(&title)));
                }
                _ => {}
            }
        }
        Self { links, anchors }
    }
}

/// The anchor that GitHub gives a heading: its letters in lower case, without punctuation, with hyphens for blanks.
fn anchor(title: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ');
    title
        .to_lowercase()
        .chars()
        .filter(kept)
        .collect::<String>()
        .replace(' ', "-")
}

/// Adds every document below a folder, by its path from the repository's root.
fn read_documents(
    root: &Path,
    folder: &Path,
    documents: &mut BTreeMap<PathBuf, Document>,
) -> Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            if !FOREIGN.iter().any(|name| path.ends_with(name)) {
                read_documents(root, &path, documents)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = std::fs::read_to_string(root.join(&path))
                .with_context(|| path.display().to_string())?;
            documents.insert(path, Document::parse(&text));
        }
    }
    Ok(())
}

/// The path that a link of a document leads to, without `.` and `..`.
fn resolve(document: &Path, link: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    for part in document
        .parent()
        .unwrap_or(Path::new(""))
        .join(link)
        .components()
    {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

#[test]
fn every_link_between_documents_leads_to_a_file_and_a_heading() -> Result<()> {
    let root = lab::repository();
    let mut documents = BTreeMap::new();
    read_documents(&root, Path::new(""), &mut documents)?;
    assert!(documents.contains_key(Path::new("README.md")));
    let mut broken = Vec::new();
    for (path, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                resolve(path, file)
            };
            let leads_to_heading = documents
                .get(&target)
                .is_none_or(|target| heading.is_empty() || target.anchors.contains(heading));
            if !root.join(&target).exists() || !leads_to_heading {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
    Ok(())
}

#[test]
fn the_index_of_decisions_is_the_list_of_its_files() -> Result<()> {
    let folder = lab::repository().join("docs/decisions");
    let mut expected = BTreeSet::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .context("names are text")?;
        if name != "README.md" {
            let text = std::fs::read_to_string(&path)?;
            let title = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("# "))
                .context(name.to_owned())?;
            expected.insert(format!("- [{title}]({name})"));
        }
    }
    let index = std::fs::read_to_string(folder.join("README.md"))?;
    let (head, list) = index.split_once("\n- ").context("the index has a list")?;
    assert!(head.starts_with("# Decisions"), "{head}");
    let found = format!("- {list}")
        .lines()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    assert_eq!(
        found,
        expected.into_iter().collect::<Vec<_>>(),
        "sorted by number"
    );
    Ok(())
}
