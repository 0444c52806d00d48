//! Replies of language models: what is found in them, and what their author is told otherwise.

use domain::candidate::KernelSource;
use domain::model::ReplyEnd;
use domain::reply::{Kernel, MAX_REPLY_BYTES, ReplyBases, ReplyForm, Unusable, read};
use proptest::prelude::*;

const PLAN: &str = r#"[[launch]]
kernel = "scale"
grid = ["cdiv(N, 256)"]
block = [256]
args = ["x", "y", "N"]"#;

const CODE: &str = r#"extern "C" __global__ void scale(const float* x, float* y, int N) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < N) y[i] = 2.0f * x[i];
}
"#;

/// A candidate whose code begins with a comment of its own.
fn file(mark: &str) -> String {
    format!("/*---\n{PLAN}\n---*/\n// {mark}\n{CODE}")
}

fn parse(text: &str) -> KernelSource {
    KernelSource::parse("kernel.cu", text).expect("the text parses")
}

fn read_on(text: &str, parent: &str, end: ReplyEnd) -> Result<Kernel, Unusable> {
    let primary = parse(parent);
    read(
        text,
        &ReplyBases {
            file: "reply.cu",
            primary: &primary,
            baseline: &primary,
            end,
        },
    )
}

fn kernel(text: &str) -> Kernel {
    read_on(text, &file("parent"), ReplyEnd::Complete).unwrap_or_else(|why| panic!("{why}\n{text}"))
}

fn unusable(text: &str) -> Unusable {
    match read_on(text, &file("parent"), ReplyEnd::Complete) {
        Err(why) => why,
        Ok(kernel) => panic!("read {kernel:?}"),
    }
}

#[test]
fn a_whole_file_is_found_however_it_is_wrapped() {
    let file = file("child");
    let wrapped = [
        file.clone(),
        format!("\u{feff}\n{file}"),
        format!("Here it is.\n\n```cuda\n{file}```\nEnjoy."),
        format!("```\n{file}\n```"),
        format!(
            "1. Here:\n   ```cuda\n   {}```",
            file.replace('\n', "\n   ")
        ),
        format!("~~~~ cpp\n{file}\n~~~~"),
        format!("```cuda\n{file}```\n").replace('\n', "\r\n"),
        format!("```markdown\nAnswer:\n```cuda\n{file}```\n```"),
        format!("<think>\nfirst ```cuda\n/*---\n</think>\n```cuda\n{file}```"),
        format!("so I thought.</think>\n```cuda\n{file}```"),
        format!("{file}```\nDone."),
        format!("Name: child\n{file}"),
        format!("Compile with:\n```sh\nnvcc\n```\n```cuda\n{file}```"),
        format!(
            "The parent was\n```cuda\n{}```\nand mine is\n```cuda\n{file}```",
            self::file("parent")
        ),
        format!("```cuda\n{file}```\nOnce more:\n```cuda\n{file}```"),
        format!("```cuda\n/*---\n...\n---*/\n```\nand whole:\n```cuda\n{file}```"),
    ];
    for text in wrapped {
        let found = kernel(&text);
        assert_eq!(found.source.trim_end(), file.trim_end(), "{text}");
        assert_eq!(found.form, ReplyForm::Whole);
    }
}

#[test]
fn liberties_are_noted() {
    let file = file("child");
    let cases = [
        (format!("```cuda\n{file}```"), None),
        (
            format!("```sh\nls\n```\n```cuda\n{file}```"),
            Some("beside the whole file"),
        ),
        (format!("<think>x</think>\n{file}"), Some("reasoning")),
        (format!("So:\n{file}"), Some("prose before")),
        (format!("{file}```\nDone."), Some("what follows")),
        (
            format!("```toml\n{PLAN}\n```\n```cuda\n{CODE}```"),
            Some("a block of its own"),
        ),
        (format!("```cuda\n{CODE}```"), Some("given its parent's")),
    ];
    for (text, note) in cases {
        let notes = kernel(&text).notes.join("\n");
        match note {
            None => assert_eq!(notes, ""),
            Some(note) => assert!(notes.contains(note), "{notes:?}\n{text}"),
        }
    }
}

#[test]
fn what_stands_before_the_front_matter_is_moved_behind_it() {
    let file = file("child");
    let found = kernel(&format!("```cuda\n// mine\n#include <mma.h>\n{file}```"));
    let expected = file.replace("---*/\n", "---*/\n// mine\n#include <mma.h>\n");
    assert_eq!(found.source, expected);
    assert_eq!(
        found.notes,
        ["lines before the front matter were moved behind it"]
    );
}

#[test]
fn what_cannot_be_used_is_typed_and_says_what_to_send() {
    let (one, two) = (file("one"), file("two"));
    let cases = [
        (" \n\t".to_owned(), "empty", "the reply is empty"),
        (
            "I cannot help with that.".to_owned(),
            "prose_only",
            "no kernel",
        ),
        (
            "```sh\nnvcc x.cu\n```".to_owned(),
            "prose_only",
            "no kernel",
        ),
        (format!("```cuda\n{one}"), "truncated", "opens in line 1"),
        (
            "<think>\nlet me see".to_owned(),
            "truncated",
            "never closed",
        ),
        (
            format!("```cuda\n{one}```\n```cuda\n{two}```"),
            "several_blocks",
            "2 different",
        ),
        (format!("{one}\n{two}"), "several_blocks", "2 different"),
        (
            "```cuda\n__global__ void other(int a) {}\n```".to_owned(),
            "missing_plan",
            "/*---",
        ),
        (
            format!(
                "```cuda\n{}```",
                CODE.replace("const float* x, float* y", "float* y, const float* x")
            ),
            "missing_plan",
            "does not fit",
        ),
        (
            format!("```cuda\n{CODE}\n__global__ void more() {{}}\n```"),
            "missing_plan",
            "does not fit",
        ),
        (
            format!("```cuda\n{}```", one.replace("grid", "grit")),
            "defective",
            "reply.cu:4",
        ),
        (
            format!("```cuda\n/*---\n{PLAN}\n```"),
            "defective",
            "never closed",
        ),
        ("x".repeat(MAX_REPLY_BYTES + 1), "too_long", "at most"),
        (
            "<<<<<<< SEARCH\nnowhere\n=======\n\n>>>>>>> REPLACE".to_owned(),
            "patch_failed",
            "\"nowhere\"",
        ),
        (
            "```diff\n@@ -1 +1 @@\n-nowhere\n+here\n```".to_owned(),
            "patch_failed",
            "\"nowhere\"",
        ),
    ];
    for (text, kind, words) in cases {
        let why = unusable(&text);
        let json = serde_json::to_value(&why).expect("it is stored as JSON");
        assert_eq!(json["kind"], kind, "{text}");
        assert!(why.to_string().contains(words), "{why}");
        let back: Unusable = serde_json::from_value(json).expect("it is read back");
        assert_eq!(back, why);
    }
}

/// Wherever a reply is cut off, what is left of it is no kernel.
#[test]
fn no_beginning_of_a_fenced_file_is_taken_for_the_file() {
    let reply = format!("Here it is.\n```cuda\n{}```", file("child"));
    for (end, _) in reply.char_indices() {
        let why = unusable(&reply[..end]);
        let before_the_block = end < "Here it is.\n```".len();
        match why {
            Unusable::Empty | Unusable::ProseOnly => assert!(before_the_block, "{end}: {why}"),
            Unusable::Truncated { line } => assert_eq!(line, Some(2)),
            other => panic!("{end}: {other}"),
        }
    }
    assert_eq!(kernel(&reply).source, file("child"));
}

#[test]
fn a_reply_that_ran_into_its_limit_is_truncated_even_if_it_parses() {
    let text = format!("```cuda\n{}```", file("child"));
    let why = read_on(&text, &file("parent"), ReplyEnd::Length).expect_err("cut off");
    assert_eq!(why, Unusable::Truncated { line: None });
}

#[test]
fn title_and_thought_come_from_the_file_or_else_from_the_prose() {
    let idea = "[idea]\ntitle = \"two rows\"\nhypothesis = \"fewer\\nloads\"\n";
    let with_idea = file("child").replace("[[launch]]", &format!("{idea}\n[[launch]]"));
    let prose = "Name: from prose\nThought: prose says";
    let found = kernel(&format!("{prose}\n```cuda\n{with_idea}```"));
    assert_eq!(found.title.as_deref(), Some("two rows"));
    assert_eq!(found.thought.as_deref(), Some("fewer loads"));

    let found = kernel(&format!("```cuda\n{}```\n{prose}", file("child")));
    assert_eq!(found.title.as_deref(), Some("from prose"));
    assert_eq!(found.thought.as_deref(), Some("prose says"));

    // An edit that leaves its parent's idea alone has none.
    let edit = "<<<<<<< SEARCH\n// parent\n=======\n// child\n>>>>>>> REPLACE";
    let parent = with_idea.replace("// child", "// parent");
    let found = read_on(edit, &parent, ReplyEnd::Complete).expect("the edit fits");
    assert_eq!((found.title, found.thought), (None, None));

    // Text before unfenced edits is prose; text inside them is code.
    let labelled = edit.replace("// child", "// Thought: no label\n// child");
    let found = read_on(
        &format!("{prose}\n\n{labelled}"),
        &parent,
        ReplyEnd::Complete,
    );
    let found = found.expect("the edit fits");
    assert_eq!(found.title.as_deref(), Some("from prose"));
    assert_eq!(found.thought.as_deref(), Some("prose says"));
}

#[test]
fn edits_apply_to_the_parent() {
    let hunk = "<<<<<<< SEARCH\n// parent\n=======\n// child\n>>>>>>> REPLACE\n";
    let diff = "--- a/kernel.cu\n+++ b/kernel.cu\n@@ -8,2 +8,2 @@\n-// parent\n+// child\n extern \"C\" __global__ void scale(const float* x, float* y, int N) {\n";
    let cases = [
        (hunk.to_owned(), ReplyForm::SearchReplace),
        (
            format!("Thought: rename.\n```\n{hunk}```"),
            ReplyForm::SearchReplace,
        ),
        (format!("```diff\n{diff}```"), ReplyForm::UnifiedDiff),
        (diff.to_owned(), ReplyForm::UnifiedDiff),
        (format!("```\n{diff}```\n"), ReplyForm::UnifiedDiff),
        (
            diff.replace("@@ -8,2 +8,2 @@", "@@"),
            ReplyForm::UnifiedDiff,
        ),
        (
            diff.replace("-8,2 +8,2", "-80,9 +1,2"),
            ReplyForm::UnifiedDiff,
        ),
    ];
    for (text, form) in cases {
        let found = kernel(&text);
        assert_eq!(found.source, file("child"), "{text}");
        assert_eq!(found.form, form);
    }
}

#[test]
fn a_fenced_task_lets_only_its_regions_change() {
    let fenced =
        format!("/*---\n{PLAN}\n---*/\n#define TWO 2.0f\n// region: body\n{CODE}// endregion\n");
    let inside = fenced.replace("2.0f * x[i]", "x[i] + x[i]");
    let text = format!("```cuda\n{inside}```");
    let found = read_on(&text, &fenced, ReplyEnd::Complete).expect("inside the region");
    assert_eq!(found.source, inside);

    let outside = fenced.replace("TWO 2.0f", "TWO 3.0f");
    for text in [
        format!("```cuda\n{outside}```"),
        "<<<<<<< SEARCH\n#define TWO 2.0f\n=======\n#define TWO 3.0f\n>>>>>>> REPLACE".to_owned(),
    ] {
        let why = read_on(&text, &fenced, ReplyEnd::Complete).expect_err("outside");
        assert!(
            matches!(&why, Unusable::FenceBroken(breach) if breach.line == 8),
            "{why}"
        );
        assert!(
            why.to_string()
                .contains("it must read \"#define TWO 2.0f\""),
            "{why}"
        );
    }
}

/// Pieces that replies are made of, put together in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("```".to_owned()),
        Just("```cuda\n".to_owned()),
        Just("~~~\n".to_owned()),
        Just("/*---\n".to_owned()),
        Just("---*/\n".to_owned()),
        Just("[idea]\ntitle = \"\"\"\n".to_owned()),
        Just("<<<<<<< SEARCH\n".to_owned()),
        Just("=======\n".to_owned()),
        Just(">>>>>>> REPLACE\n".to_owned()),
        Just("@@ -1,0 +99999999999999999999 @@\n".to_owned()),
        Just("@@ -0,0 +0 @@\n".to_owned()),
        Just("-".to_owned()),
        Just("+".to_owned()),
        Just("\n".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("Name:".to_owned()),
        Just("// region: a\n".to_owned()),
        Just("// endregion\n".to_owned()),
        Just(format!("{PLAN}\n")),
        Just(CODE.to_owned()),
        Just(file("parent")),
        Just(file("child")),
        "\\PC{0,12}",
        ".{0,6}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_read_parses(text in pieces()) {
        for end in [ReplyEnd::Complete, ReplyEnd::Length] {
            match read_on(&text, &file("parent"), end) {
                Ok(kernel) => {
                    prop_assert!(KernelSource::parse("kernel.cu", kernel.source).is_ok());
                }
                Err(why) => prop_assert!(!why.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn any_prose_around_one_block_leaves_the_file_as_it_is(
        before in "[^`~<@]{0,80}",
        after in "[^`~<@]{0,80}",
    ) {
        let text = format!("{before}\n```cuda\n{}```\n{after}", file("child"));
        let found = kernel(&text);
        prop_assert_eq!(found.source, file("child"));
    }
}
