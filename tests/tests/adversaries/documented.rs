//! Tests that the table of modes in `docs/reference/attacks.md` is complete, that each mode has a test
//! whose name begins with its number or that its row names, and that the tests named there and in
//! `docs/reference/status.md` exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::bench::folder;

/// Rows of the table: the mode and all columns.
fn rows(text: &str) -> Vec<(String, Vec<String>)> {
    let mode = |row: &str| {
        let name = row.strip_prefix("| ")?.split(' ').next()?;
        let number = name.strip_prefix(['B', 'C'])?;
        number.parse::<u32>().is_ok().then(|| name.to_owned())
    };
    text.lines()
        .filter_map(|row| {
            let columns = row.split(" | ").map(str::to_owned).collect();
            Some((mode(row)?, columns))
        })
        .collect()
}

/// Appends the texts of all Rust files below a folder.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).expect("the repository is readable") {
        let path = entry.expect("the repository is readable").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&std::fs::read_to_string(&path).expect("sources are text"));
        }
    }
}

/// The texts of all tests that the tables may name.
fn test_sources() -> String {
    let repository = lab::repository();
    let mut code = String::new();
    for folder in [
        "tests/tests",
        "crates/domain/tests",
        "crates/gpu/tests",
        "crates/ptx/tests",
        "crates/server/tests",
        "crates/store/tests",
        "crates/tensors/tests",
        "crates/worker/src",
        "crates/worker/tests",
    ] {
        sources(&repository.join(folder), &mut code);
    }
    code
}

/// The words in backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_test_that_the_status_table_names_exists() {
    let repository = lab::repository();
    let text =
        std::fs::read_to_string(repository.join("docs/reference/status.md")).expect("it exists");
    let code = test_sources();
    let mut found = 0;
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let column = row.rsplit(" | ").next().expect("a row has a column");
        for name in quoted(column) {
            let exists = if name.contains('/') {
                let suite = "crates/server/tests/suite";
                repository.join(name).is_file() || repository.join(suite).join(name).is_file()
            } else if name.ends_with(".rs") {
                let folder = match column.contains("(domain)") {
                    true => "crates/domain/tests/suite",
                    false => "crates/worker/tests/evaluate",
                };
                repository.join(folder).join(name).is_file()
            } else if let Some(module) = name.strip_prefix("domain::") {
                let file = format!("crates/domain/src/{module}.rs");
                repository.join(file).is_file()
            } else {
                // A row may name the number with which the names of an attack's tests begin.
                code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}_"))
            };
            assert!(exists, "no test {name}: {row}");
            found += 1;
        }
    }
    assert!(found > 20, "{found} tests are named");
}

#[test]
fn every_mode_has_its_row_and_its_tests() {
    let repository = lab::repository();
    let text =
        std::fs::read_to_string(repository.join("docs/reference/attacks.md")).expect("it exists");
    let code = test_sources();
    let rows = rows(&text);
    let found = rows
        .iter()
        .map(|(mode, _)| mode.clone())
        .collect::<Vec<_>>();
    let wanted = (1..=54).map(|n| format!("B{n}"));
    let wanted = wanted.chain((1..=16).map(|n| format!("C{n}")));
    assert_eq!(found, wanted.collect::<Vec<_>>());
    for (mode, columns) in &rows {
        let [_, defence, tests] = columns.as_slice() else {
            panic!("{mode} has {} columns", columns.len());
        };
        let named = quoted(tests);
        for test in &named {
            assert!(
                code.contains(&format!("fn {test}()")),
                "{mode}: no test {test}"
            );
        }
        let (kind, number) = mode.split_at(1);
        let prefix = format!("fn {}{number:0>2}_", kind.to_lowercase());
        let shown = code.contains(&prefix) || !named.is_empty() || tests.starts_with("every test");
        let untested = ["not defended", "by construction"]
            .iter()
            .any(|reason| defence.contains(reason));
        assert_eq!(!untested, shown, "{mode}: {defence}, shown by {tests}");
    }
}

#[test]
fn every_adversary_is_used_by_a_test() {
    let mut code = String::new();
    sources(
        &lab::repository().join("tests/tests/adversaries"),
        &mut code,
    );
    let files = std::fs::read_dir(folder())
        .expect("the folder is there")
        .map(|entry| entry.expect("it is readable").file_name())
        .map(|name| name.into_string().expect("names are text"))
        .filter(|name| name.ends_with(".cu"))
        .collect::<BTreeSet<_>>();
    assert!(files.len() > 50, "{} adversaries", files.len());
    let idle = files.iter().filter(|file| !code.contains(file.as_str()));
    assert_eq!(idle.collect::<Vec<_>>(), Vec::<&String>::new());
}
