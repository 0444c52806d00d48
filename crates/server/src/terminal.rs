//! Text for a terminal. What comes from a candidate or a proposer is shown, never obeyed.

use std::fmt::Write as _;

use domain::cleaning;

/// The text on one line, without what moves the cursor, changes colours, reverses the reading
/// direction or shows nothing.
pub fn plain(text: &str) -> String {
    cleaning::clean_line(text, usize::MAX)
}

/// The text on one line of at most `width` characters; what is cut ends in an ellipsis.
pub fn line(text: &str, width: usize) -> String {
    let clean = plain(text);
    if clean.chars().count() <= width {
        return clean;
    }
    let mut cut: String = clean.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A number with the noun that it counts: `1 reply`, `2 replies`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    let noun = if count == 1 { one } else { many };
    format!("{count} {noun}")
}

/// A time with the unit that suits it, from microseconds.
pub fn time(us: f64) -> String {
    if us >= 1e6 {
        format!("{:.2} s", us / 1e6)
    } else if us >= 1e3 {
        format!("{:.2} ms", us / 1e3)
    } else {
        format!("{us:.2} us")
    }
}

/// A time with the word that says where it comes from.
pub fn labelled_time(us: f64, modelled: bool) -> String {
    let kind = if modelled { "modelled" } else { "measured" };
    format!("{} {kind}", time(us))
}

/// A duration in minutes and seconds.
pub fn clock(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// Rows as aligned columns, each line indented by `indent` spaces and without trailing blanks.
pub fn columns(rows: &[Vec<String>], indent: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (cell, width) in row.iter().zip(&widths) {
            let padding = width - cell.chars().count() + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(padding));
        }
        let _infallible = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_is_plural_unless_one_is_counted() {
        let told = [0, 1, 2].map(|count| counted(count, "reply", "replies"));
        assert_eq!(told, ["0 replies", "1 reply", "2 replies"]);
    }

    #[test]
    fn escape_sequences_and_reversals_do_not_reach_the_terminal() {
        assert_eq!(
            plain("a\u{1b}[31mb\u{202e}c\u{200b}d\u{e0041}\ne"),
            "abcd e"
        );
        assert_eq!(line("a\u{1b}[31mb\u{202e}c\ne", 80), "abc e");
    }

    #[test]
    fn a_long_text_is_cut_to_one_line() {
        assert_eq!(line("one  two\nthree", 80), "one two three");
        assert_eq!(line("one two three", 8), "one two…");
    }

    #[test]
    fn times_carry_a_unit_that_suits_them() {
        let shown = [0.5, 1500.0, 2_500_000.0].map(time);
        assert_eq!(shown, ["0.50 us", "1.50 ms", "2.50 s"]);
    }

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["case".to_owned(), "us".to_owned()],
            vec!["starved".to_owned(), "4.2".to_owned()],
        ];
        assert_eq!(columns(&rows, 2), "  case     us\n  starved  4.2\n");
    }
}
