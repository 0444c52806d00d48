//! The difference between a candidate and its parent, line by line.

use domain::api::{Change, DiffLine};
use similar::{ChangeTag, TextDiff};

/// Every line of both texts in reading order, removed lines before the added ones that replace
/// them.
pub fn lines(parent: &str, candidate: &str) -> Vec<DiffLine> {
    TextDiff::from_lines(parent, candidate)
        .iter_all_changes()
        .map(|change| DiffLine {
            change: match change.tag() {
                ChangeTag::Equal => Change::Kept,
                ChangeTag::Insert => Change::Added,
                ChangeTag::Delete => Change::Removed,
            },
            old: change.old_index().map(number),
            new: change.new_index().map(number),
            text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
        })
        .collect()
}

/// Lines count from 1.
fn number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_kept_added_or_removed_with_its_numbers() {
        let told = lines("a\nb\nc\n", "a\nB\nc\nd")
            .into_iter()
            .map(|line| (line.change, line.old, line.new, line.text))
            .collect::<Vec<_>>();
        let wanted = [
            (Change::Kept, Some(1), Some(1), "a".to_owned()),
            (Change::Removed, Some(2), None, "b".to_owned()),
            (Change::Added, None, Some(2), "B".to_owned()),
            (Change::Kept, Some(3), Some(3), "c".to_owned()),
            (Change::Added, None, Some(4), "d".to_owned()),
        ];
        assert_eq!(told, wanted);
    }
}
