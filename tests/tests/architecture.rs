//! Tests of the dependencies between crates, read from cargo's resolved graph.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Workspace crates that each workspace crate may depend on as a normal dependency.
const ALLOWED: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("convert", &["domain"]),
    ("corpus", &[]),
    ("ptx", &[]),
    ("driver", &["ptx"]),
    ("tensors", &["domain"]),
    ("gpu", &["corpus", "domain", "tensors"]),
    ("store", &["domain"]),
    ("engine", &["convert", "domain", "store"]),
    ("worker", &["domain", "gpu"]),
    (
        "server",
        &[
            "convert", "corpus", "domain", "engine", "gpu", "store", "tensors", "worker",
        ],
    ),
    ("lab", &["domain", "ptx", "worker"]),
];

/// Pairs of a crate and a package that it must not reach, directly or through others.
const UNREACHABLE: &[(&str, &str)] = &[
    ("domain", "tokio"),
    ("domain", "sqlx"),
    ("domain", "reqwest"),
    ("store", "cudarc"),
    ("engine", "cudarc"),
    ("worker", "sqlx"),
    ("gpu", "sqlx"),
    ("gpu", "tokio"),
    ("driver", "cudarc"),
    ("ptx", "tokio"),
];

/// Direct normal dependencies of every package, by package name.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "cargo describes the workspace; no candidate is involved"
    )]
    let output = std::process::Command::new(env!("CARGO"))
        // Only this platform's packages, because a build downloads no others.
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "host-tuple"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let names: BTreeMap<&str, &str> = array(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    array(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| {
            let normal = array(&node["deps"])
                .iter()
                .filter(|dep| {
                    array(&dep["dep_kinds"])
                        .iter()
                        .any(|kind| kind["kind"].is_null())
                })
                .map(|dep| names[text(&dep["pkg"])].to_owned())
                .collect();
            (names[text(&node["id"])].to_owned(), normal)
        })
        .collect()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn reachable(graph: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(name) = open.pop() {
        for dependency in graph.get(&name).into_iter().flatten() {
            if seen.insert(dependency.clone()) {
                open.push(dependency.clone());
            }
        }
    }
    seen
}

#[test]
fn workspace_crates_depend_only_on_allowed_crates() {
    let graph = graph();
    let members: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in ALLOWED {
        let found = graph
            .get(*name)
            .unwrap_or_else(|| panic!("{name} is no workspace crate"));
        for dependency in found
            .iter()
            .filter(|dependency| members.contains(dependency.as_str()))
        {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} depends on {dependency}"
            );
        }
    }
}

#[test]
fn crates_do_not_reach_forbidden_packages() {
    let graph = graph();
    for (from, never) in UNREACHABLE {
        assert!(
            !reachable(&graph, from).contains(*never),
            "{from} reaches {never}"
        );
    }
}

#[test]
fn the_graph_holds_known_dependencies() {
    let graph = graph();
    assert!(reachable(&graph, "server").contains("sqlx"));
    assert!(reachable(&graph, "server").contains("cudarc"));
}
