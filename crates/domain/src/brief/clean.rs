//! Text that goes to a model without being ours: names, sentences and lines that candidates and
//! compilers have a hand in. It is kept short and loses what could hide in it or steer a terminal.

/// Characters that reorder, hide or join text without being seen: Unicode's bidirectional
/// controls and the zero-width characters.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{061c}'
            | '\u{00ad}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// One line of at most `limit` characters: white space as single blanks, no control characters
/// with the escape sequences that they begin, nothing invisible.
pub(super) fn line(text: &str, limit: usize) -> String {
    let text = without_escapes(text);
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line: String = words
        .join(" ")
        .chars()
        .filter(|&c| !is_invisible(c))
        .collect();
    capped(&line, limit)
}

/// As [`line()`], for sentences of the evaluator: words that are absolute paths are left out, since
/// they speak of the machine and not of the kernel.
pub(super) fn sentence(text: &str, limit: usize) -> String {
    let is_path = |word: &str| {
        let bare = word.trim_start_matches(['"', '\'', '(', '`', '[']);
        bare.strip_prefix('/')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_alphanumeric() || c == '.'))
    };
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| if is_path(word) { "(a path)" } else { word })
        .collect();
    line(&words.join(" "), limit)
}

/// Text of several lines, each as it stands, without control and invisible characters.
pub(super) fn text(text: &str) -> String {
    without_escapes(text)
        .chars()
        .filter(|&c| matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c)))
        .collect()
}

fn capped(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(3)).collect();
    short.push_str("...");
    short
}

/// Without ANSI escape sequences: `ESC [ ... letter`, and `ESC` with one character otherwise.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            kept.push(character);
        } else if characters.next() == Some('[') {
            while characters
                .next_if(|c| c.is_ascii_digit() || matches!(c, ';' | '?' | ' '))
                .is_some()
            {}
            characters.next();
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_steers_is_gone() {
        let cases = [
            ("a\u{1b}[31;1mred\u{1b}[0m b", "ared b"),
            ("if (\u{202e}nimda\u{2069}) \u{200b}x", "if (nimda) x"),
            ("a\r\n\tb\u{0}c\u{7}", "a b c"),
            ("tag\u{e0041}\u{e007f}s", "tags"),
        ];
        for (hostile, clean) in cases {
            assert_eq!(line(hostile, 80), clean);
        }
        assert_eq!(text("a\u{1b}c\n\tb\u{202e}\r\n"), "a\n\tb\n");
        assert_eq!(line("abcdefgh", 6), "abc...");
    }

    #[test]
    fn paths_of_the_machine_stay_here() {
        let told = sentence("read /var/lib/x/k.cu (in \"/home/me\"): a / b", 200);
        assert_eq!(told, "read (a path) (in (a path) a / b");
        assert!(!told.contains("/var") && !told.contains("/home"));
    }
}
