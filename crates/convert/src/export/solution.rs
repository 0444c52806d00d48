//! A Solution of the family of FlashInfer-Bench: one JSON file with the sources of the PyTorch operator.

use domain::task::Role;
use serde_json::json;

use super::{Export, Files};

/// Writes the Solution. `files` are those of the PyTorch operator, all of which are texts.
pub(super) fn write(export: &Export<'_>, files: &Files) -> String {
    let name = export.name;
    let sources = files.iter().map(
        |(path, content)| json!({ "path": path, "content": String::from_utf8_lossy(content) }),
    );
    let mut sources = sources.collect::<Vec<_>>();
    let inputs = export
        .task
        .tensors
        .iter()
        .filter(|tensor| tensor.role != Role::Out);
    let names = inputs
        .map(|tensor| tensor.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    sources.push(json!({
        "path": "main.py",
        "content": format!(
            "import {name}\n\n\ndef run(*inputs, **named):\n    \"\"\"{names}, in this order or by name.\"\"\"\n    return {name}.{name}(*inputs, **named)\n"
        ),
    }));
    let solution = json!({
        "name": format!("kernelwright_{name}"),
        "definition": export.task.name,
        "description": export.verdict,
        "author": "kernelwright",
        "spec": {
            "language": "python",
            "target_hardware": ["cuda"],
            "entry_point": "main.py::run",
            "dependencies": ["torch"],
            "destination_passing_style": false,
        },
        "sources": sources,
    });
    let mut text =
        serde_json::to_string_pretty(&solution).expect("a JSON value is always JSON text");
    text.push('\n');
    text
}
