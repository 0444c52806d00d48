//! `storage`: shows what takes the room of a data folder, of the tables of the database, and of the bucket of the
//! evidence.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use indicatif::BinaryBytes;
use serde::Serialize;
use store::TableSize;
use worker::evaluate::limited_folders;
use worker::host::Settings;

use super::database;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::StorageArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{columns, line};

/// The entries of a data folder, with their content and what removes it.
const CONTENTS: [(&str, &str); 19] = [
    ("kernelwright.db", "database; grows with runs"),
    (
        "kernelwright.db-wal",
        "changes that the database has not taken in yet",
    ),
    ("kernelwright.db-shm", "index of these changes"),
    (
        "promotions.git",
        "winners of runs that name no repository; grows with winners",
    ),
    (
        "builds",
        "images; the oldest are removed and made again when needed",
    ),
    (
        "references",
        "answers of references; the oldest are removed and made again",
    ),
    ("evidence", "bundles of evidence; the oldest are removed"),
    (
        "evidence-keys",
        "keys of the bundles' inputs; the oldest are removed",
    ),
    ("admissions", "results of task checks"),
    ("efforts", "effort of baselines"),
    ("headers", "compiler headers"),
    ("history", "times of baselines"),
    ("health", "state of the device"),
    ("clocks", "locked clocks"),
    ("driver", "links to the emulated driver; removed when done"),
    ("scratch", "folders of running roles; removed when done"),
    ("lock", "held by the running service"),
    ("server.json", "address of the running service"),
    ("installation", "identity of the workers on this folder"),
];

/// The result of `storage`.
#[derive(Debug, PartialEq, Serialize)]
struct Report {
    folder: PathBuf,
    /// Bytes of all entries.
    bytes: u64,
    /// The largest first.
    entries: Vec<Entry>,
    /// The tables of the database with their indexes, the largest first. Empty if the folder has no database and
    /// no other was named.
    tables: Vec<Table>,
    bucket: Option<Bucket>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Table {
    table: String,
    bytes: u64,
}

/// A file or folder at the top of the data folder.
#[derive(Debug, PartialEq, Serialize)]
struct Entry {
    name: String,
    bytes: u64,
    /// The limit beyond which a worker on this folder removes the oldest entries.
    most_bytes: Option<u64>,
    /// None for what this program did not write.
    content: Option<&'static str>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Bucket {
    url: String,
    bundles: u64,
    bytes: u64,
    most_bytes: Option<u64>,
}

pub(super) async fn storage(args: StorageArgs) -> Ending {
    let data = serve::open_existing(&args.folder.data)?;
    let settings = Settings::from_environment(data.root()).map_err(Failure::input)?;
    let entries = read_entries(data.root(), settings.disk_bytes).map_err(|error| {
        let context = format!("read the data folder {}", data.root().display());
        Failure::infrastructure(anyhow::Error::new(error).context(context))
    })?;
    let file = data.database();
    let tables = match &args.database.database {
        Some(url) => store::measure_postgres(url).await,
        None if file.is_file() => store::measure_sqlite(&file).await,
        None => Ok(Vec::new()),
    };
    let tables = tables.map_err(database::failure)?.into_iter();
    let tables = tables.map(|TableSize { table, bytes }| Table { table, bytes });
    let bucket = match &args.evidence.evidence_bucket {
        None => None,
        Some(url) => {
            let store = serve::evidence_store(&args.evidence, &data)?;
            let contents = store.contents().await.map_err(Failure::infrastructure)?;
            Some(Bucket {
                url: url.clone(),
                bundles: contents.bundles,
                bytes: contents.bytes,
                most_bytes: store.most_bytes(),
            })
        }
    };
    let report = Report {
        folder: data.root().to_owned(),
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
        entries,
        tables: tables.collect(),
        bucket,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print(&text(&report))?;
    }
    Ok(Outcome::Accepted)
}

fn read_entries(folder: &Path, disk_bytes: u64) -> io::Result<Vec<Entry>> {
    let limits = limited_folders(disk_bytes);
    let mut entries = Vec::new();
    for found in fs::read_dir(folder)? {
        let found = found?;
        let name = found.file_name().to_string_lossy().into_owned();
        let limit = limits.iter().find(|limit| limit.name == name);
        let content = CONTENTS.iter().find(|(known, _)| *known == name);
        entries.push(Entry {
            bytes: bytes_below(&found.path()),
            most_bytes: limit.map(|limit| limit.most_bytes),
            content: content.map(|(_, content)| *content),
            name,
        });
    }
    entries.sort_by(|one, two| (two.bytes, &one.name).cmp(&(one.bytes, &two.name)));
    Ok(entries)
}

/// The bytes of a file, or of all files below a folder. Entries that go meanwhile count nothing, and
/// links are not followed.
fn bytes_below(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !metadata.is_dir() {
        return metadata.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes_below(&entry.path())).sum()
}

fn text(report: &Report) -> String {
    let head = ["entry", "size", "limit", "content"].map(str::to_owned);
    let rows = report.entries.iter().map(|entry| {
        vec![
            line(&entry.name, 40),
            BinaryBytes(entry.bytes).to_string(),
            limit(entry.most_bytes),
            entry.content.unwrap_or("-").to_owned(),
        ]
    });
    let rows = std::iter::once(head.to_vec())
        .chain(rows)
        .collect::<Vec<_>>();
    let mut text = columns(&rows, 0);
    let whole = BinaryBytes(report.bytes);
    let _infallible = writeln!(text, "{whole} in {}", report.folder.display());
    text += &tables_text(&report.tables);
    if let Some(bucket) = &report.bucket {
        let (bytes, url) = (BinaryBytes(bucket.bytes), &bucket.url);
        let limit = limit(bucket.most_bytes);
        let _infallible = writeln!(
            text,
            "{bytes} in {url}: {} bundles of evidence, limit {limit}",
            bucket.bundles
        );
    }
    text
}

/// The tables that take at least a hundredth of the database.
fn tables_text(tables: &[Table]) -> String {
    let whole: u64 = tables.iter().map(|table| table.bytes).sum();
    if whole == 0 {
        return String::new();
    }
    let head = ["table of the database", "size"].map(str::to_owned);
    let large = tables.iter().filter(|table| table.bytes >= whole / 100);
    let large =
        large.map(|table| vec![line(&table.table, 40), BinaryBytes(table.bytes).to_string()]);
    let rows = std::iter::once(head.to_vec()).chain(large);
    let rows = columns(&rows.collect::<Vec<_>>(), 0);
    let (count, whole) = (tables.len(), BinaryBytes(whole));
    format!("\n{rows}{whole} in the {count} tables of the database\n")
}

fn limit(most_bytes: Option<u64>) -> String {
    most_bytes.map_or_else(|| "none".to_owned(), |bytes| BinaryBytes(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_sizes_and_limits_and_the_largest_is_first() {
        let data = tempfile::tempdir().unwrap();
        let bundle = data.path().join("evidence/a-bundle");
        fs::create_dir_all(&bundle).unwrap();
        fs::write(bundle.join("source.cu"), [0; 3000]).unwrap();
        fs::write(data.path().join("kernelwright.db"), [0; 100]).unwrap();
        fs::write(data.path().join("notes"), [0; 7]).unwrap();
        let entries = read_entries(data.path(), 7 << 30).unwrap();
        let found = entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.bytes, entry.most_bytes))
            .collect::<Vec<_>>();
        let expected = [
            ("evidence", 3000, Some(2 << 30)),
            ("kernelwright.db", 100, None),
            ("notes", 7, None),
        ];
        assert_eq!(found, expected);
        let text = text(&Report {
            folder: PathBuf::from("data"),
            bytes: 3107,
            entries,
            tables: [("calls", 9_000), ("runs", 1_000), ("users", 10)]
                .map(|(table, bytes)| Table {
                    table: table.to_owned(),
                    bytes,
                })
                .into(),
            bucket: Some(Bucket {
                url: "s3://evidence".to_owned(),
                bundles: 2,
                bytes: 2048,
                most_bytes: None,
            }),
        });
        let lines = text.lines().collect::<Vec<_>>();
        assert!(lines[1].contains("2.93 KiB  2.00 GiB"), "{text}");
        assert!(
            lines[3].starts_with("notes") && lines[3].ends_with('-'),
            "{text}"
        );
        assert_eq!(lines[4], "3.03 KiB in data");
        let tables = [
            "",
            "table of the database  size",
            "calls                  8.79 KiB",
            "runs                   1000 B",
            "9.78 KiB in the 3 tables of the database",
        ];
        assert_eq!(lines[5..10], tables);
        assert_eq!(
            lines[10],
            "2.00 KiB in s3://evidence: 2 bundles of evidence, limit none"
        );
    }

    #[test]
    fn every_folder_with_a_limit_is_described() {
        for limited in limited_folders(7) {
            assert!(CONTENTS.iter().any(|(name, _)| *name == limited.name));
        }
    }
}
