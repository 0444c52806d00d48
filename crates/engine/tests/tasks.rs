//! The project's own tasks: every configuration that a run may ask for can be written down.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use domain::task::{Bundle, Task};
use engine::configured::with_values;

fn read(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            read(&entry.path(), &format!("{name}/"), files);
        } else {
            files.insert(name, fs::read_to_string(entry.path()).unwrap());
        }
    }
}

#[test]
fn every_choice_of_every_step_can_be_written_into_its_source() {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let mut written = 0;
    for folder in fs::read_dir(kernels).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.join("task.toml").exists() {
            continue;
        }
        let mut files = BTreeMap::new();
        read(&folder, "", &mut files);
        let task = Task::load(&Bundle { files }).unwrap();
        for (file, source) in &task.playbook {
            for (name, tunable) in &source.plan().tunables {
                for choice in &tunable.choices {
                    let mut configuration = source.plan().default_configuration();
                    configuration.insert(name.clone(), *choice);
                    let made = with_values(file, source, &configuration).unwrap();
                    let found = made.plan().default_configuration();
                    assert_eq!(found, configuration, "{file}");
                    let changed = made
                        .text()
                        .lines()
                        .zip(source.text().lines())
                        .filter(|(new, old)| new != old)
                        .count();
                    assert_eq!(changed, usize::from(*choice != tunable.value), "{file}");
                    written += 1;
                }
            }
        }
    }
    assert!(written > 0, "the project's tasks have tunables");
}
