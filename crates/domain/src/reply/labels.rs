//! The labelled lines of a reply, such as `Name: ...` and `Thought: ...`, which describe its kernel
//! in prose.

use crate::cleaning;

/// The longest title that is kept, characters.
pub(super) const MAX_TITLE: usize = 120;
/// The longest thought that is kept, characters.
pub(super) const MAX_THOUGHT: usize = 2_000;

const TITLES: &[&str] = &["name", "title"];
const THOUGHTS: &[&str] = &[
    "thought",
    "thoughts",
    "approach",
    "hypothesis",
    "rationale",
    "idea",
];
/// Labels that end the text of the label before them and have no text of their own.
const OTHERS: &[&str] = &["code", "kernel", "gain", "expected gain"];

/// A title and a thought, as far as the prose states them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Stated {
    pub title: Option<String>,
    pub thought: Option<String>,
}

/// Reads the labels of some prose. A title is one line; a thought goes on to the next blank line
/// after its first words, or to the next label.
pub(super) fn stated(prose: &[&str]) -> Stated {
    let mut stated = Stated::default();
    let mut lines = prose.iter().copied().peekable();
    while let Some(line) = lines.next() {
        let Some((label, rest)) = label(line) else {
            continue;
        };
        if TITLES.contains(&label.as_str()) {
            stated.title = stated.title.or_else(|| tidy(rest, MAX_TITLE));
        } else if THOUGHTS.contains(&label.as_str()) {
            let mut words = rest.to_owned();
            while let Some(next) = lines.peek() {
                let ends = next.trim().is_empty() && !words.trim().is_empty();
                if ends || self::label(next).is_some() {
                    break;
                }
                words.push(' ');
                words.push_str(next);
                lines.next();
            }
            stated.thought = stated.thought.or_else(|| tidy(&words, MAX_THOUGHT));
        }
    }
    stated
}

/// Reads `**Name:** rest`, `## Thought`, `- Approach: rest` and the like.
fn label(line: &str) -> Option<(String, &str)> {
    const MARKS: &[char] = &['#', '*', '-', '_', '>', ' ', '\t'];
    let bare = line.trim_start_matches(MARKS);
    let known = |word: &str| {
        let word = word.trim_matches(MARKS).to_ascii_lowercase();
        let all = TITLES.iter().chain(THOUGHTS).chain(OTHERS);
        all.into_iter().any(|known| *known == word).then_some(word)
    };
    if let Some((word, rest)) = bare.split_once(':') {
        return Some((known(word)?, rest.trim_start_matches(MARKS)));
    }
    // A heading needs no colon.
    line.trim_start()
        .starts_with(['#', '*'])
        .then(|| known(bare))
        .flatten()
        .map(|word| (word, ""))
}

/// One clean line without Markdown's quotation marks, at most `limit` characters; none if nothing is
/// left.
pub(super) fn tidy(text: &str, limit: usize) -> Option<String> {
    let line = cleaning::clean_line(text, usize::MAX);
    let line = line.trim_matches(['*', '`', '"', '_', ' ']);
    (!line.is_empty()).then(|| line.chars().take(limit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_in_the_forms_models_use() {
        let cases = [
            (
                "Name: split keys\nThought: more blocks",
                "split keys",
                "more blocks",
            ),
            (
                "**Name:** `split keys`\n\n**Thought:**\n\nmore\nblocks\n\nBye.",
                "split keys",
                "more blocks",
            ),
            (
                "## Name\nname: split keys\n## Approach\nmore blocks\n## Code\nnothing",
                "split keys",
                "more blocks",
            ),
            (
                "- title: split keys\n- Hypothesis: more\n  blocks\n- Gain: 2",
                "split keys",
                "more blocks",
            ),
        ];
        for (text, title, thought) in cases {
            let lines: Vec<&str> = text.lines().collect();
            let expected = Stated {
                title: Some(title.to_owned()),
                thought: Some(thought.to_owned()),
            };
            assert_eq!(stated(&lines), expected, "{text}");
        }
    }

    #[test]
    fn ordinary_prose_states_nothing() {
        let text = "Here is the kernel: it is fast.\nNote: none.\nThe name is secret.";
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(stated(&lines), Stated::default());
    }
}
