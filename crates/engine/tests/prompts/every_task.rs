//! Prompts of every task in the repository: what each must say, and what none may mention.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use domain::brief::{CandidateBrief, Context};
use domain::search::PromptStyle;
use domain::task::{Bundle, Task};
use engine::prompt::{Kind, render};

use crate::{ROOM, STYLES, external, whole, world};

fn read(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            read(root, &path, files);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let name = path.strip_prefix(root).expect("inside").display();
            files.insert(name.to_string(), text);
        }
    }
}

fn tasks() -> Vec<Task> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels");
    let folders = fs::read_dir(root).expect("the folder is there");
    let mut folders: Vec<PathBuf> = folders
        .map(|entry| entry.expect("an entry").path())
        .collect();
    folders.retain(|path| path.join("task.toml").is_file());
    folders.sort();
    let load = |folder: PathBuf| {
        let mut files = BTreeMap::new();
        read(&folder, &folder, &mut files);
        Task::load(&Bundle { files }).expect("the task is right")
    };
    folders.into_iter().map(load).collect()
}

fn context(task: &Task) -> Context {
    let mut context = Context::new(task, Some(&world::device()));
    context.toolchain = Some("NVRTC 13.5".to_owned());
    let shown = |name: &str| {
        let text = task.baseline.text();
        CandidateBrief::new(name, "baseline", None, text, None, None)
    };
    context.best = Some(shown("#0"));
    context.parents = vec![shown("#1"), shown("#2")];
    context
}

fn prompt(kind: &Kind, style: PromptStyle, context: &Context) -> String {
    let rendered = render(kind, style, context, ROOM);
    whole(
        &rendered
            .unwrap_or_else(|error| panic!("failed to {error}"))
            .prompt,
    )
}

fn kinds() -> [Kind; 6] {
    [
        Kind::Free,
        Kind::InsightInit,
        Kind::FullCrossover,
        Kind::FullMutation,
        Kind::Repair,
        external(),
    ]
}

/// Calls `check` with every prompt of every task.
fn each(change: fn(&mut Context), check: impl Fn(&Task, &Kind, &str)) {
    let tasks = tasks();
    assert!(tasks.len() >= 3);
    for task in &tasks {
        let mut context = context(task);
        change(&mut context);
        for kind in kinds() {
            for style in STYLES {
                check(task, &kind, &prompt(&kind, style, &context));
            }
        }
    }
}

#[test]
fn every_prompt_has_the_requirements_in_numbers() {
    each(
        |_| {},
        |task, kind, text| {
            let name = &task.name;
            let limit = format!("relative L2 error at most {:e}", task.tolerance.relative_l2);
            for needed in [
                task.reference.body().trim(),
                &limit,
                "NVRTC 13.5, the language CUDA C++ as C++17",
                "99% normal, 1% a thousand times larger",
                "goes into a workspace of u32 that a `memset` step sets to 0 first",
            ] {
                assert!(text.contains(needed), "{name} {kind:?} lacks {needed:?}");
            }
            for (dim, range) in &task.free_dims {
                let words = format!(
                    "- `{dim}`, as `int`: dim, {} to {}",
                    range.least, range.most
                );
                assert!(text.contains(&words), "{name} {kind:?} lacks {words:?}");
            }
            let specials = text.contains("a few NaN and infinities");
            assert_eq!(specials, !task.contract.specials_in.is_empty(), "{name}");
        },
    );
}

#[test]
fn no_prompt_names_a_file_that_its_reader_cannot_open() {
    each(
        |_| {},
        |task, kind, text| {
            let own = ["plan.j2", "example.cu"];
            for stranger in [
                "playbook/",
                "broken/",
                "baselines/",
                "docs/",
                ".md",
                "task.toml",
            ] {
                assert!(
                    !text.contains(stranger),
                    "{} {kind:?}: {stranger}",
                    task.name
                );
            }
            assert!(own.iter().all(|name| !text.contains(name)));
        },
    );
}

#[test]
fn a_denied_feature_is_offered_nowhere() {
    let mut denied = 0;
    let without_advice = |context: &mut Context| {
        // The words of the task's own author, which may say why a unit does not help.
        context.seeds.clear();
        context.task.text.clear();
    };
    each(without_advice, |task, kind, text| {
        if context(task).task.tensor_cores {
            return;
        }
        let text = text.to_lowercase();
        for line in text
            .lines()
            .filter(|line| !line.contains("matrix instructions"))
        {
            for word in ["tensor core", "wmma", "wgmma", "tf32"] {
                assert!(!line.contains(word), "{} {kind:?}: {line}", task.name);
            }
        }
    });
    for task in tasks() {
        denied += usize::from(!context(&task).task.tensor_cores);
    }
    assert!(denied >= 2, "the tasks in f32 deny tensor cores");
}

#[test]
fn without_insights_no_prompt_speaks_of_them() {
    let without = |context: &mut Context| {
        context.seeds.clear();
        context.task.text.clear();
    };
    each(without, |task, kind, text| {
        let text = text.to_lowercase();
        assert!(!text.contains("insight"), "{} {kind:?}", task.name);
    });
}

#[test]
fn only_a_target_that_is_not_reached_is_named() {
    let at = |speedup: Option<f64>, kind: &Kind| {
        let tasks = tasks();
        let attention = tasks.iter().find(|task| task.name == "attention-f16");
        let task = attention.expect("the library has the task");
        let mut context = context(task);
        if let Some(best) = &mut context.best {
            best.speedup = speedup;
        }
        prompt(kind, PromptStyle::Standard, &context)
    };
    let kind = Kind::FullMutation;
    assert!(at(None, &kind).contains("The next target is 1.5 times the baseline's speed"));
    let later = at(Some(5.0), &kind);
    assert!(later.contains("The next target is 8.0 times"), "{later}");
    assert!(!later.contains("1.5 times"));
    for kind in kinds() {
        assert!(!at(Some(1e6), &kind).contains("target"), "{kind:?}");
    }
}
