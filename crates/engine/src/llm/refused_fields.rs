//! Fields that a server refused. Models differ in the fields that they accept and only say so in an
//! error, so each refusal is remembered for the life of the process.

use super::config::TokenLimitField;
use super::failure::Report;

/// The changes to requests that a server's refusals require.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RefusedFields {
    pub(super) no_temperature: bool,
    pub(super) no_seed: bool,
    /// Streams are not asked to count their tokens.
    pub(super) no_stream_count: bool,
    pub(super) token_limit_field: Option<TokenLimitField>,
}

/// The fields of a request that a server may refuse.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentFields {
    pub(super) temperature: bool,
    pub(super) seed: bool,
    pub(super) stream_count: bool,
    /// None where the protocol or the configuration leaves no choice.
    pub(super) token_limit_field: Option<TokenLimitField>,
}

impl RefusedFields {
    /// Learns from a refusal. Returns true if the next request will differ.
    pub(super) fn learn(&mut self, sent: SentFields, report: &Report) -> bool {
        if !matches!(report.status, 400 | 422) {
            return false;
        }
        if let Some(field) = sent.token_limit_field
            && self.token_limit_field.is_none()
            && report.refuses_limit(field)
        {
            self.token_limit_field = Some(field.other());
            return true;
        }
        let choices = [
            (sent.temperature, "temperature", &mut self.no_temperature),
            (sent.seed, "seed", &mut self.no_seed),
            (
                sent.stream_count,
                "stream_options",
                &mut self.no_stream_count,
            ),
        ];
        for (sent, field, lesson) in choices {
            if sent && report.names(field) {
                *lesson = true;
                return true;
            }
        }
        false
    }

    /// The refused fields as text, for `model check`.
    pub(super) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.no_temperature {
            words.push("takes no temperature".to_owned());
        }
        if self.no_seed {
            words.push("takes no seed".to_owned());
        }
        if self.no_stream_count {
            words.push("takes no stream_options".to_owned());
        }
        if let Some(field) = self.token_limit_field {
            words.push(format!("wants {}", field.name()));
        }
        words
    }
}

impl TokenLimitField {
    fn other(self) -> Self {
        match self {
            Self::MaxTokens => Self::MaxCompletionTokens,
            Self::MaxCompletionTokens => Self::MaxTokens,
        }
    }
}

impl Report {
    /// Returns true if the refusal names this field of the request.
    fn names(&self, field: &str) -> bool {
        match &self.param {
            Some(param) => {
                param == field
                    || param
                        .strip_prefix(field)
                        .is_some_and(|rest| rest.starts_with('.'))
            }
            None => words(&self.message).any(|word| word == field),
        }
    }

    /// Returns true if the field itself is refused, and not its value.
    fn refuses_limit(&self, field: TokenLimitField) -> bool {
        const REFUSALS: &[&str] = &[
            "unsupported",
            "not supported",
            "unrecognized",
            "unknown",
            "unexpected",
            "extra inputs",
            "not permitted",
            "not allowed",
        ];
        let message = self.message.to_lowercase();
        let names_other = words(&self.message).any(|word| word == field.other().name());
        let is_refusal = REFUSALS.iter().any(|refusal| message.contains(refusal));
        names_other || (is_refusal && self.names(field.name()))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: SentFields = SentFields {
        temperature: true,
        seed: true,
        stream_count: true,
        token_limit_field: Some(TokenLimitField::MaxTokens),
    };

    fn learned(status: u16, body: &str, sent: SentFields) -> Vec<String> {
        let mut refused = RefusedFields::default();
        let report = Report::of_response(status, body.as_bytes());
        let has_learned = refused.learn(sent, &report);
        assert_eq!(has_learned, refused != RefusedFields::default(), "{body}");
        refused.words()
    }

    #[test]
    fn refusals_teach_what_they_are_about() {
        let cases: [(u16, &str, &[&str]); 11] = [
            (
                400,
                r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens","code":"unsupported_parameter"}}"#,
                &["wants max_completion_tokens"],
            ),
            (
                422,
                r#"{"detail":"max_tokens: Extra inputs are not permitted"}"#,
                &["wants max_completion_tokens"],
            ),
            // The value, not the field.
            (
                400,
                r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","param":"max_tokens","code":"invalid_value"}}"#,
                &[],
            ),
            (
                400,
                r#"{"error":{"message":"Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is supported.","param":"temperature","code":"unsupported_value"}}"#,
                &["takes no temperature"],
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` may only be set to 1 when thinking is enabled"}}"#,
                &["takes no temperature"],
            ),
            (
                422,
                r#"{"detail":"seed: Extra inputs are not permitted"}"#,
                &["takes no seed"],
            ),
            (
                400,
                r#"{"error":{"message":"Unknown field","param":"stream_options.include_usage"}}"#,
                &["takes no stream_options"],
            ),
            // Words that only contain a field's name.
            (
                400,
                r#"{"error":{"message":"the seeded temperatures exceed"}}"#,
                &[],
            ),
            // The parameter is another one, although the message mentions this one.
            (
                400,
                r#"{"error":{"message":"messages before temperature","param":"messages"}}"#,
                &[],
            ),
            (500, r#"{"error":{"message":"temperature"}}"#, &[]),
            (429, r#"{"error":{"message":"seed"}}"#, &[]),
        ];
        for (status, body, expected) in cases {
            assert_eq!(learned(status, body, ALL), expected, "{body}");
        }
    }

    #[test]
    fn nothing_is_learned_about_a_field_that_was_not_sent_or_from_two_refusals_that_contradict() {
        let none = SentFields {
            temperature: false,
            ..ALL
        };
        let body = r#"{"error":{"message":"no","param":"temperature"}}"#;
        assert!(learned(400, body, none).is_empty());

        let mut refused = RefusedFields::default();
        let refusal = |field: &str| {
            let body = format!(r#"{{"error":{{"message":"unsupported","param":"{field}"}}}}"#);
            Report::of_response(400, body.as_bytes())
        };
        assert!(refused.learn(ALL, &refusal("max_tokens")));
        let second = SentFields {
            token_limit_field: Some(TokenLimitField::MaxCompletionTokens),
            ..ALL
        };
        assert!(!refused.learn(second, &refusal("max_completion_tokens")));
    }
}
