//! Causes of bad verdicts as short texts without names and numbers, so that failures with the same
//! cause have the same text and can be counted together.

use crate::finding::FindingKind;
use crate::verdict::{Access, Severity, Verdict};

/// The longest cause, characters.
pub const MAX_CAUSE_CHARACTERS: usize = 160;

/// The cause of a bad verdict: the rule that was broken, or the message with names, places and numbers
/// taken out. None for an acceptance; empty where the verdict's kind says all.
pub fn cause(verdict: &Verdict) -> Option<String> {
    let text = match verdict {
        Verdict::Accepted(_) => return None,
        Verdict::ParseRejected { problems } | Verdict::PolicyRejected { problems } => problems
            .first()
            .map(|problem| without_particulars(&problem.message))
            .unwrap_or_default(),
        Verdict::CompileRejected { diagnostics } => diagnostics
            .iter()
            .find(|diagnostic| diagnostic.severity == Severity::Error)
            .or(diagnostics.first())
            .map(|diagnostic| without_particulars(&diagnostic.message))
            .unwrap_or_default(),
        Verdict::GateRejected { gate, .. } => gate.clone(),
        Verdict::CompileResource { resource, .. } => resource.clone(),
        Verdict::CompileCrash { how } | Verdict::RunnerCrash { how } => without_particulars(how),
        Verdict::Unsupported { opcode, .. } => opcode.clone(),
        Verdict::Timeout { stage, .. } | Verdict::ExcessiveEffort { stage, .. } => stage.clone(),
        Verdict::RuntimeFault { name, .. } => name.clone(),
        Verdict::OutOfBounds { access, .. } => match access {
            Access::Read => "read".to_owned(),
            Access::Write => "write".to_owned(),
        },
        Verdict::DataRace { finding } | Verdict::BarrierError { finding } => {
            kind_words(finding.kind).to_owned()
        }
        Verdict::IncorrectOutput(mismatch) | Verdict::PrecisionDowngrade(mismatch) => {
            without_particulars(&mismatch.reason)
        }
        Verdict::LaunchRejected { reason }
        | Verdict::UninitDependent { reason, .. }
        | Verdict::NonDeterministic { reason, .. }
        | Verdict::ClockMismatch { reason }
        | Verdict::Inconclusive { reason }
        | Verdict::InvalidRun { reason } => without_particulars(reason),
        Verdict::CompileTimeout { .. }
        | Verdict::InputMutated { .. }
        | Verdict::PhysicallyImpossible { .. } => String::new(),
    };
    Some(text.chars().take(MAX_CAUSE_CHARACTERS).collect())
}

fn kind_words(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::OutOfBoundsRead => "read out of bounds",
        FindingKind::OutOfBoundsWrite => "write out of bounds",
        FindingKind::Misaligned => "misaligned address",
        FindingKind::Uninitialised => "uninitialised value",
        FindingKind::SharedRace => "race in shared memory",
        FindingKind::GlobalRace => "race in global memory",
        FindingKind::DivergentBarrier => "divergent barrier",
        FindingKind::Deadlock => "deadlock",
        FindingKind::Hang => "hang",
        FindingKind::Trap => "trap",
        FindingKind::Assert => "failed assertion",
        FindingKind::ScheduleDependent => "depends on the schedule",
        FindingKind::LayoutDependent => "depends on the layout of a fragment",
        FindingKind::IllegalAddress => "illegal address",
    }
}

/// The message with each quoted text as `…`, each number as `N`, and what brackets hold as `…`. A place
/// at its start ("line 44: ") is left out.
pub fn without_particulars(message: &str) -> String {
    let mut plain = String::with_capacity(message.len());
    let mut rest = message.chars().peekable();
    let mut before = ' ';
    while let Some(next) = rest.next() {
        let closing = match next {
            '"' | '`' => Some(next),
            // Within a word it is an apostrophe.
            '\'' if !before.is_alphanumeric() => Some('\''),
            '[' => Some(']'),
            _ => None,
        };
        if let Some(closing) = closing {
            // A quotation that never ends reaches to the end.
            for inner in rest.by_ref() {
                if inner == closing {
                    break;
                }
            }
            plain.push_str(if next == '[' { "[…]" } else { "…" });
            before = closing;
        } else if next.is_ascii_digit() && !is_of_word(before) {
            before = skip_number(&mut rest);
            plain.push('N');
        } else {
            plain.push(next);
            before = next;
        }
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.strip_prefix("line N: ").unwrap_or(&plain).to_owned()
}

/// Returns true after a character with which a digit makes a word, such as `L2` or `%clock64`.
fn is_of_word(before: char) -> bool {
    before.is_alphanumeric() || before == '_' || before == '%'
}

/// Skips the rest of a number: digits, a base, an exponent, and separators between digits. Returns its
/// last character.
fn skip_number(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> char {
    let mut last = '0';
    loop {
        let mut ahead = rest.clone();
        let Some(next) = ahead.next() else {
            return last;
        };
        let joins = matches!(next, '.' | ',') || (matches!(last, 'e' | 'E') && next == '-');
        let between = joins && ahead.next().is_some_and(|digit| digit.is_ascii_digit());
        if !(next.is_ascii_alphanumeric() || between) {
            return last;
        }
        rest.next();
        last = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Diagnostic, VerdictKind};

    #[test]
    fn names_places_and_numbers_do_not_count() {
        for (message, plain) in [
            (
                "line 44: identifier \"running\" is undefined",
                "identifier … is undefined",
            ),
            (
                "relative L2 error 0.41 above 4e-5",
                "relative L2 error N above N",
            ),
            (
                "y[3,512] is 1,024.5, expected 0x1f",
                "y[…] is N, expected N",
            ),
            ("reads a clock (%clock64).", "reads a clock (%clock64)."),
            ("it doesn't fit 3 times 12.", "it doesn't fit N times N."),
            ("no `frob` in 'x'", "no … in …"),
            ("an open \"quotation", "an open …"),
            ("", ""),
        ] {
            assert_eq!(without_particulars(message), plain, "{message}");
        }
    }

    fn rejected(line: u32, name: &str) -> Verdict {
        let message = |severity, message: String| Diagnostic {
            line: Some(line),
            severity,
            message,
        };
        Verdict::CompileRejected {
            diagnostics: vec![
                message(Severity::Warning, format!("variable {line} is unused")),
                message(
                    Severity::Error,
                    format!("identifier \"{name}\" is undefined"),
                ),
            ],
        }
    }

    #[test]
    fn two_errors_of_one_kind_have_one_cause() {
        let one = cause(&rejected(3, "a"));
        assert_eq!(one, cause(&rejected(77, "another")));
        assert_eq!(one.as_deref(), Some("identifier … is undefined"));
    }

    #[test]
    fn a_cause_is_short() {
        let reason = "ä".repeat(1000);
        let verdict = Verdict::LaunchRejected { reason };
        assert_eq!(verdict.kind(), VerdictKind::LaunchRejected);
        let cause = cause(&verdict).unwrap();
        assert_eq!(cause.chars().count(), MAX_CAUSE_CHARACTERS);
    }
}
