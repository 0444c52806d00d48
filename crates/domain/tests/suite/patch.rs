//! Edits: what applies, what does not and why, and which lines may change at all.

use domain::candidate::KernelSource;
use domain::patch::{
    HunkError, PatchError, RegionDefect, RegionViolation, outside_regions, region, replace_region,
    search_replace, unified,
};
use proptest::prelude::*;
use similar::TextDiff;

const TEXT: &str = "one\n  two  \nthree\n\none\nfour\n";

fn block(before: &str, after: &str) -> String {
    format!("<<<<<<< SEARCH\n{before}=======\n{after}>>>>>>> REPLACE\n")
}

#[test]
fn blocks_replace_lines_where_they_stand_once() {
    let cases = [
        (block("three\n", "3\n"), "one\n  two  \n3\n\none\nfour\n", 0),
        (block("one\nfour\n", ""), "one\n  two  \nthree\n\n", 0),
        (block("  two\n", "2\n"), "one\n2\nthree\n\none\nfour\n", 0),
        (block("\ntwo\nthree\n\n", "2\n"), "one\n2\n\none\nfour\n", 1),
        (
            block("three\n", "3\n")
                + "then\n"
                + &block("3\n", "III\nIV\n")
                + &block("four\n", "4\n"),
            "one\n  two  \nIII\nIV\n\none\n4\n",
            0,
        ),
    ];
    for (edits, expected, notes) in cases {
        let patched = search_replace(TEXT, &edits).expect("the edits fit");
        assert_eq!(patched.text, expected, "{edits}");
        assert_eq!(patched.notes.len(), notes, "{edits}");
    }
}

#[test]
fn blocks_that_do_not_fit_say_which_and_why() {
    let cases = [
        (block("one\n", "1\n"), 1, "lines 1, 5"),
        (block("", "1\n"), 1, "which lines it replaces"),
        (block("\n", "1\n"), 1, "which lines it replaces"),
        (
            block("three\n", "3\n") + &block("one\n  two\nfive\n", ""),
            2,
            "has \"3\" in line 3 where \"five\" was expected",
        ),
        (block("six\n", ""), 1, "\"six\" on; quote lines exactly"),
        (
            block("one\n", "").replace("=======\n", ""),
            1,
            "======= line is missing",
        ),
        (
            block("one\n", "").replace(">>>>>>> REPLACE\n", ""),
            1,
            ">>>>>>> REPLACE line is missing",
        ),
        (
            block("three\n", "").replace(">>>>>>> REPLACE\n", &block("four\n", "")),
            1,
            "another block opens",
        ),
        ("three\n".to_owned(), 1, "no <<<<<<< SEARCH line"),
    ];
    for (edits, hunk, words) in cases {
        let error = search_replace(TEXT, &edits).expect_err("the edits do not fit");
        assert_eq!(error.hunk, hunk, "{edits}");
        assert!(error.to_string().contains(words), "{error}\n{edits}");
    }
}

#[test]
fn a_diffs_line_number_decides_between_places_and_nothing_else() {
    let hunk = |header: &str| format!("{header}\n-one\n+1\n");
    for (header, expected) in [
        ("@@ -1 +1 @@", "1\n  two  \nthree\n\none\nfour\n"),
        (
            "@@ -5,1 +5,1 @@ void f()",
            "one\n  two  \nthree\n\n1\nfour\n",
        ),
    ] {
        assert_eq!(
            unified(TEXT, &hunk(header)).expect("the line decides").text,
            expected
        );
    }
    for header in ["@@", "@@ -3 +3 @@", "@@ -x +y @@"] {
        let error = unified(TEXT, &hunk(header)).expect_err("two places");
        assert_eq!(error.why, HunkError::Ambiguous { lines: vec![1, 5] });
    }
    // The lines that an earlier hunk added are counted.
    let both = "@@ -1,2 +1,4 @@\n one\n+a\n+b\n   two  \n@@ -5 +7 @@\n-one\n+1\n";
    let expected = "one\na\nb\n  two  \nthree\n\n1\nfour\n";
    assert_eq!(unified(TEXT, both).expect("both fit").text, expected);
}

#[test]
fn a_diff_is_read_as_models_write_it() {
    let cases = [
        // Context without its blank, a header of another tool, a remark on the last line.
        (
            "diff --git a/x b/x\nindex 1..2\n--- a/x\n+++ b/x\n@@\nthree\n\n-one\n+1\n four\n\\ No newline at end of file\n",
            "one\n  two  \nthree\n\n1\nfour\n",
        ),
        // Blank lines between hunks.
        (
            "@@ -3 +3 @@\n-three\n+3\n\n\n@@ -6 +6 @@\n-four\n+4\n",
            "one\n  two  \n3\n\none\n4\n",
        ),
        // Lines that stand nowhere but in the new text.
        (
            "@@ -6,0 +7,1 @@\n+five\n",
            "one\n  two  \nthree\n\none\nfour\nfive\n",
        ),
    ];
    for (diff, expected) in cases {
        assert_eq!(
            unified(TEXT, diff).expect("the diff fits").text,
            expected,
            "{diff}"
        );
    }
    for (diff, words) in [
        ("--- a\n+++ b\n", "no @@ line"),
        ("@@ -1 +1 @@\n one\n", "changes nothing"),
        ("@@ @@\n+five\n", "which lines it replaces"),
    ] {
        let error = unified(TEXT, diff).expect_err("the diff does not fit");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_hostile_patch_is_answered_in_linear_work() {
    let base = "a\n".repeat(100_000);
    let before = "a\n".repeat(99_999) + "b\n";
    let error = search_replace(&base, &block(&before, "")).expect_err("b stands nowhere");
    assert!(matches!(error.why, HunkError::NotFound { .. }), "{error}");
    let many = block("b\n", "").repeat(201);
    let error = search_replace("b\n", &many).expect_err("too many");
    assert!(
        matches!(
            error,
            PatchError {
                hunk: 201,
                why: HunkError::Malformed { .. }
            }
        ),
        "{error}"
    );
}

fn fenced(front: &str, body: &str) -> KernelSource {
    let text = format!(
        "/*---\n[[launch]]\nkernel = \"f\"\ngrid = [1]\nargs = [\"x\"]\n{front}\n---*/\n{body}"
    );
    KernelSource::parse("kernel.cu", text).expect("the text parses")
}

const OPEN_BLOCK: &str = "# region: block\nblock = [32]\n# endregion";
const BODY: &str = "a\n// region: body\nb\n// endregion\nc\n";

#[test]
fn changes_outside_the_regions_are_named_with_their_line() {
    let base = fenced(OPEN_BLOCK, BODY);
    let idea = "[idea]\ntitle = \"x\"\nhypothesis = \"y\"\n";
    let allowed = [
        (OPEN_BLOCK, BODY),
        (OPEN_BLOCK, "a\n// region: body\n\nx\ny\n// endregion\nc"),
        (OPEN_BLOCK, "a  \n// region: body  \n// endregion\nc\n"),
        (
            "# region: block\nblock = [64]\nshared = 8\n# endregion",
            BODY,
        ),
        ("block = [32] # the same plan\n", BODY),
    ];
    for (front, body) in allowed {
        for front in [front.to_owned(), format!("{front}\n{idea}")] {
            let new = fenced(&front, body);
            assert_eq!(outside_regions(&base, &new), None, "{}", new.text());
        }
    }
    let refused = [
        (
            OPEN_BLOCK,
            "x\n// region: body\nb\n// endregion\nc\n",
            10,
            None,
            Some("a"),
        ),
        (
            OPEN_BLOCK,
            "a\n// region: body\nb\n// endregion\nx\n",
            14,
            Some("body"),
            Some("c"),
        ),
        (
            OPEN_BLOCK,
            "a\n// region: body\nb\n// endregion\nc\nd\n",
            15,
            Some("body"),
            None,
        ),
        (
            OPEN_BLOCK,
            "a\n// region: body\nb\n",
            12,
            None,
            Some("// endregion"),
        ),
        (
            OPEN_BLOCK,
            "a\n// region: other\nb\n// endregion\nc\n",
            11,
            None,
            Some("// region: body"),
        ),
        (
            OPEN_BLOCK,
            "a\n// region: body\n// endregion\nx\n// region: body\n// endregion\nc\n",
            13,
            Some("body"),
            Some("c"),
        ),
        ("block = [64]", BODY, 6, None, Some("# region: block")),
        (
            "# region: block\nblock = [32]\n# endregion\n[tunables.N]\nvalue = 1\nchoices = [1]",
            BODY,
            9,
            Some("block"),
            None,
        ),
    ];
    for (front, body, line, after, expected) in refused {
        let new = fenced(front, body);
        let breach = RegionViolation {
            line,
            after: after.map(str::to_owned),
            expected: expected.map(str::to_owned),
        };
        assert_eq!(outside_regions(&base, &new), Some(breach), "{}", new.text());
    }
    let tunable = "[tunables.N]\nvalue = 1\nchoices = [1, 2]";
    let front = format!("{OPEN_BLOCK}\n{tunable}");
    let base = fenced(&front, BODY);
    let chosen = fenced(&front.replace("value = 1", "value = 2"), BODY);
    assert_eq!(outside_regions(&base, &chosen), None, "a sweep chooses");
    let wider = fenced(&front.replace("[1, 2]", "[1, 2, 3]"), BODY);
    assert!(outside_regions(&base, &wider).is_some());

    let free = fenced("block = [32]", "a\n");
    assert_eq!(outside_regions(&free, &base), None);
}

fn lines() -> impl Strategy<Value = String> {
    // Few different lines, so that places are ambiguous without their numbers.
    let line = prop::sample::select(vec!["a", "b", "  c", "", "d {", "}", "e"]);
    prop::collection::vec(line, 1..30).prop_map(|lines| lines.join("\n") + "\n")
}

proptest! {
    /// An independent implementation writes the diff, ours applies it.
    #[test]
    fn a_diff_of_two_texts_turns_one_into_the_other(old in lines(), new in lines()) {
        prop_assume!(old != new);
        let diff = TextDiff::from_lines(&old, &new).unified_diff().header("a", "b").to_string();
        let patched = unified(&old, &diff).map_err(|error| TestCaseError::fail(format!("{error}\n{diff}")))?;
        prop_assert_eq!(patched.text, new);
    }

    #[test]
    fn no_patch_panics(base in "[ab\n]{0,40}", edits in "(<<<<<<< SEARCH\n|=======\n|>>>>>>> REPLACE\n|@@ -[0-9]{1,2},[0-9] \\+1 @@\n|[-+ ab\n]){0,12}") {
        let found = [search_replace(&base, &edits), unified(&base, &edits)];
        for error in found.into_iter().filter_map(Result::err) {
            prop_assert!(error.hunk > 0);
        }
    }
}

#[test]
fn a_region_of_any_text_is_found_and_replaced_with_the_line_ends_of_the_text() {
    let text = "a\n// region: one\nb\nc\n// endregion\nd\n//region: two\n// endregion\n";
    assert_eq!(region(text, "one"), Ok("b\nc\n"));
    assert_eq!(region(text, "two"), Ok(""));
    let replaced = replace_region(text, "two", "e\nf").unwrap();
    assert_eq!(replaced, text.replace("two\n", "two\ne\nf\n"));
    let windows = text.replace('\n', "\r\n");
    let replaced = replace_region(&windows, "one", "x\n").unwrap();
    assert_eq!(replaced, windows.replace("b\r\nc\r\n", "x\r\n"));
    for (text, name, defect) in [
        (text.replace("one", "two"), "two", RegionDefect::Repeated),
        (text.replace("// endregion", ""), "one", RegionDefect::Open),
        (
            text.replacen("// endregion", "", 1),
            "one",
            RegionDefect::Open,
        ),
        (text.to_owned(), "three", RegionDefect::Missing),
        (String::new(), "one", RegionDefect::Missing),
    ] {
        assert_eq!(region(&text, name), Err(defect), "{text}");
        assert_eq!(replace_region(&text, name, "x"), Err(defect), "{text}");
    }
}
