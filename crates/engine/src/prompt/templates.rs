//! The templates in `prompts/`, part of the binary, with the few filters that they use. What a
//! template is called is its path there.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use domain::digest::Digest;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};

macro_rules! texts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../prompts/", $name)))),*]
    };
}

/// Every template with its text.
const TEMPLATES: &[(&str, &str)] = texts![
    "crossover.j2",
    "eoh.j2",
    "external.j2",
    "free.j2",
    "insight.j2",
    "mutation.j2",
    "parts/answer.j2",
    "parts/device.j2",
    "parts/duplicates.j2",
    "parts/example.cu",
    "parts/history.j2",
    "parts/insights.j2",
    "parts/kernel.j2",
    "parts/order.j2",
    "parts/outcome.j2",
    "parts/plan.j2",
    "parts/snippets.j2",
    "parts/steering.j2",
    "parts/task.j2",
    "repair.j2",
    "reply_repair.j2",
    "system.j2",
    "versions.j2",
];

/// Code that is shown as it stands. It holds assembly, whose braces a template would take for its own.
pub(super) const CODE: &[(&str, &str)] = texts![
    "snippets/async_copies.cuh",
    "snippets/matrix_units.cuh",
    "snippets/split_reduction.cuh",
    "snippets/vector_loads.cuh",
    "snippets/warp_reduction.cuh",
];

/// The environment that renders them: a value that is not there is an error, not a gap.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // A block on a line of its own leaves no line behind.
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build()
        .expect("the default delimiters are valid");
    environment.set_syntax(syntax);
    environment.add_filter("code", code);
    environment.add_filter("decimals", decimals);
    environment.add_filter("kib", kib);
    for (name, text) in TEMPLATES {
        environment
            .add_template(name, text)
            .expect("a test parses every template");
    }
    environment
});

/// Renders a template. Runs of blank lines become one.
pub(super) fn render(name: &str, context: &Value) -> Result<String, minijinja::Error> {
    let text = ENVIRONMENT.get_template(name)?.render(context)?;
    Ok(tidy(&text))
}

/// The version of some templates and pieces of code: a hash of their texts and of every template they include.
pub(super) fn digest(names: &[&str]) -> Digest {
    let mut open: Vec<&str> = names.to_vec();
    let mut included = BTreeSet::new();
    while let Some(name) = open.pop() {
        let mut texts = TEMPLATES.iter().chain(CODE);
        let known = texts.find(|(known, _)| *known == name);
        if let Some((name, text)) = known
            && included.insert((*name, *text))
        {
            open.extend(includes(text));
        }
    }
    Digest::of_parts(
        included
            .iter()
            .flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]),
    )
}

/// The names that a template includes; all of them are literals.
pub(super) fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.split("{% include \"")
        .skip(1)
        .filter_map(|rest| rest.split_once('"').map(|(name, _)| name))
}

/// A fenced block whose fence is longer than any in the code.
#[expect(clippy::needless_pass_by_value, reason = "the signature of a filter")]
fn code(text: String) -> String {
    let longest = text
        .lines()
        .map(|line| line.trim_start().bytes().take_while(|b| *b == b'`').count())
        .max();
    let fence = "`".repeat(longest.map_or(3, |longest| (longest + 1).max(3)));
    format!("{fence}cuda\n{}\n{fence}\n", text.trim_matches('\n'))
}

fn decimals(value: f64, digits: usize) -> String {
    format!("{value:.digits$}")
}

/// Bytes in the largest binary unit that leaves at least one.
#[expect(clippy::cast_precision_loss, reason = "a size to read")]
fn kib(bytes: u64) -> String {
    let (size, unit) = match bytes {
        0..0x10_0000 => (bytes as f64 / f64::from(1 << 10), "KiB"),
        0x10_0000..0x4000_0000 => (bytes as f64 / f64::from(1 << 20), "MiB"),
        _ => (bytes as f64 / f64::from(1 << 30), "GiB"),
    };
    let text = format!("{size:.1}");
    format!("{} {unit}", text.trim_end_matches(".0"))
}

/// Outside code at most one blank line between lines, and one before each heading; none at the
/// ends.
fn tidy(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.trim().lines() {
        let bare = line.trim_start();
        let marks = &bare[..bare.bytes().take_while(|b| *b == b'`').count()];
        match fence {
            None if marks.len() >= 3 => fence = Some(marks),
            Some(open) if marks == open && bare.len() == marks.len() => fence = None,
            _ => {}
        }
        let prose = fence.is_none();
        let heading = prose && line.starts_with(['#']);
        if heading && kept.last().is_some_and(|last| !last.is_empty()) {
            kept.push("");
        }
        let blank = prose && bare.is_empty();
        if !(blank && kept.last().is_some_and(|last| last.is_empty())) {
            kept.push(if prose { line.trim_end() } else { line });
        }
    }
    kept.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file below a folder, relative to it.
    fn files(root: &std::path::Path, folder: &str, into: &mut Vec<String>) {
        let entries = std::fs::read_dir(root.join(folder)).expect("the folder is there");
        for entry in entries {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a plain name");
            let path = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            if entry.path().is_dir() {
                files(root, &path, into);
            } else {
                into.push(path);
            }
        }
    }

    #[test]
    fn every_template_is_known_parses_and_includes_what_there_is() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../prompts");
        let mut found = Vec::new();
        files(&root, "", &mut found);
        found.sort();
        let known: Vec<_> = TEMPLATES.iter().map(|(name, _)| *name).collect();
        let code = CODE.iter().map(|(name, _)| *name);
        let mut all: Vec<_> = known.iter().copied().chain(code).collect();
        all.sort_unstable();
        assert_eq!(found, all);
        for (name, text) in TEMPLATES {
            assert!(ENVIRONMENT.get_template(name).is_ok(), "{name}");
            let literal = includes(text).count();
            assert_eq!(literal, text.matches("{% include").count(), "{name}");
            for included in includes(text) {
                assert!(known.contains(&included), "{name} includes {included}");
            }
        }
    }

    #[test]
    fn a_version_covers_what_is_included() {
        let all = digest(&["system.j2"]);
        assert_eq!(
            all,
            digest(&["system.j2", "parts/plan.j2", "parts/example.cu"])
        );
        assert_ne!(all, digest(&["system.j2", "free.j2"]));
        assert_ne!(digest(&["free.j2"]), digest(&["insight.j2"]));
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_code() {
        assert_eq!(code("a\n".to_owned()), "```cuda\na\n```\n");
        assert_eq!(
            code("// x\n````\n".to_owned()),
            "`````cuda\n// x\n````\n`````\n"
        );
    }

    #[test]
    fn sizes_read_well() {
        let cases = [
            (49_152, "48 KiB"),
            (50_331_648, "48 MiB"),
            (24_152_899_584, "22.5 GiB"),
            (512, "0.5 KiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(kib(bytes), text);
        }
    }

    #[test]
    fn blank_lines_stay_only_inside_code_and_before_headings() {
        assert_eq!(
            tidy("# a\nb\n# c\n```\nd\n# e\n```\n"),
            "# a\nb\n\n# c\n```\nd\n# e\n```\n"
        );
        let text = "\n\na  \n\n\n\nb\n````cuda\nx  \n```\n\n\ny\n````\n\n\nc\n";
        assert_eq!(tidy(text), "a\n\nb\n````cuda\nx  \n```\n\n\ny\n````\n\nc\n");
    }
}
