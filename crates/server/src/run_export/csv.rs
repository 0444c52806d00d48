//! Comma-separated values (RFC 4180) that no spreadsheet takes for formulas.

use domain::api::{CandidateState, CandidateSummary};

/// The columns.
const COLUMNS: [&str; 20] = [
    "ordinal",
    "id",
    "generation",
    "parents",
    "operator",
    "proposer",
    "title",
    "configuration",
    "state",
    "verdict",
    "summary",
    "line",
    "speedup",
    "time_us",
    "modelled",
    "unmet_gates",
    "best",
    "cost_dollars",
    "created_at",
    "judged_at",
];

/// The line with the names of the columns.
pub(super) fn head() -> String {
    format!("{}\r\n", COLUMNS.join(","))
}

/// The line of a candidate.
pub(super) fn row(candidate: &CandidateSummary) -> String {
    let parents = candidate.parents.iter().map(|id| id.uuid().to_string());
    let values = candidate.configuration.iter();
    let values = values.map(|(name, value)| format!("{name}={value}"));
    let gates = candidate.unmet_gates.iter().map(|gate| gate.as_str());
    let fields: [String; COLUMNS.len()] = [
        candidate.ordinal.to_string(),
        candidate.id.uuid().to_string(),
        candidate.generation.to_string(),
        parents.collect::<Vec<_>>().join(" "),
        candidate.operator.as_str().to_owned(),
        text(&candidate.proposer),
        text(&candidate.title),
        text(&values.collect::<Vec<_>>().join(" ")),
        state(candidate).to_owned(),
        optional(candidate.verdict),
        text(candidate.summary.as_deref().unwrap_or_default()),
        optional(candidate.line),
        optional(candidate.speedup),
        optional(candidate.time_us),
        candidate.modelled.to_string(),
        gates.collect::<Vec<_>>().join(" "),
        candidate.best.to_string(),
        optional(candidate.cost.map(|cost| cost.as_f64())),
        candidate.created_at.to_rfc3339(),
        optional(candidate.judged_at.map(|at| at.to_rfc3339())),
    ];
    format!("{}\r\n", fields.map(quoted).join(","))
}

/// The name of a candidate's state.
pub(super) fn state(candidate: &CandidateSummary) -> &'static str {
    match candidate.state {
        CandidateState::Drafting { .. } => "drafting",
        CandidateState::Queued => "queued",
        CandidateState::Evaluating { .. } => "evaluating",
        CandidateState::Evaluated => "evaluated",
        CandidateState::Duplicate { .. } => "duplicate",
        CandidateState::Abandoned { .. } => "abandoned",
    }
}

fn optional<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A text of a model or of a person with an apostrophe before each character that would begin a
/// formula: at the start, and after every separator, because spreadsheets of some languages separate
/// cells at semicolons or tabs.
fn text(text: &str) -> String {
    let mut guarded = String::with_capacity(text.len());
    let mut begins_cell = true;
    for character in text.chars() {
        let is_formula = matches!(
            character,
            '=' | '+' | '-' | '@' | '\u{ff1d}' | '\u{ff0b}' | '\u{ff0d}' | '\u{ff20}'
        );
        if begins_cell && is_formula {
            guarded.push('\'');
        }
        guarded.push(character);
        let separates = matches!(character, ',' | ';' | '\t' | '\n' | '\r' | '"' | '|');
        begins_cell = separates || begins_cell && character.is_whitespace();
    }
    guarded
}

/// A field as RFC 4180 has it.
fn quoted(field: String) -> String {
    if field.contains([',', ';', '"', '\n', '\r', '\t']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_a_text_begins_a_formula() {
        for (given, guarded) in [
            ("=1+1", "'=1+1"),
            ("  @SUM(A1)", "  '@SUM(A1)"),
            ("-2", "'-2"),
            ("+cmd", "'+cmd"),
            ("tile;=HYPERLINK(\"a\")", "tile;'=HYPERLINK(\"a\")"),
            ("a,\t=b", "a,\t'=b"),
            ("\"=c", "\"'=c"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("block-wide sum = faster", "block-wide sum = faster"),
            ("", ""),
        ] {
            assert_eq!(text(given), guarded);
        }
    }

    #[test]
    fn separators_and_quotes_stay_inside_their_field() {
        assert_eq!(quoted("a,\"b\"".to_owned()), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("two\nlines".to_owned()), "\"two\nlines\"");
        assert_eq!(quoted("plain text".to_owned()), "plain text");
    }
}
