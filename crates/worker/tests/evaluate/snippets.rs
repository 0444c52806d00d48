//! The code that prompts offer for a bottleneck: kernels made of it are accepted, with every shape of a task.

use std::fs;
use std::path::{Path, PathBuf};

use crate::lab::{Lab, lab};

fn offered() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prompts/snippets")
}

/// A kernel of the folder beside this file, with the code of each snippet in place of the line that names it.
fn kernel(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/evaluate/snippets")
        .join(name);
    let text = fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| match line.strip_prefix("// SNIPPET ") {
            Some(snippet) => fs::read_to_string(offered().join(format!("{snippet}.cuh"))).unwrap(),
            None => format!("{line}\n"),
        });
    lines.collect()
}

#[test]
fn kernels_made_of_every_snippet_are_accepted() {
    let Some(lab) = lab() else { return };
    let kernels = [("reduce-f32", "row-sums.cu"), ("gemm-f16", "product.cu")]
        .map(|(task, name)| (task, name, kernel(name)));
    for file in fs::read_dir(offered()).unwrap() {
        let path = file.unwrap().path();
        let code = fs::read_to_string(&path).unwrap();
        let uses = |source: &String| source.contains(&code);
        assert!(
            kernels.iter().any(|(.., source)| uses(source)),
            "no kernel here uses {}",
            path.display()
        );
    }
    for (task, name, source) in kernels {
        let evaluation = lab.evaluate(&Lab::request(task, name, source));
        let verdict = &evaluation.verdict;
        assert!(verdict.acceptance().is_some(), "{name}: {verdict}");
    }
}
