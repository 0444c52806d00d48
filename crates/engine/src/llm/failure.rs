//! Classification of servers' error responses. Servers differ in status, format and wording, so the
//! rules go from the most specific sign to the least specific one.

use std::time::Duration;

use serde_json::Value;

use super::error::{LlmError, ModelServer};
use super::key::Key;

/// Characters of a server's message that are kept.
const MAX_MESSAGE: usize = 300;

/// An error as a server reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// The HTTP status, or the one that the error's kind stands for.
    pub(super) status: u16,
    kind: String,
    code: String,
    /// The field of the request that it is about.
    pub(super) param: Option<String>,
    /// The server's message, as received.
    pub(super) message: String,
}

impl Report {
    /// Reads the body of a response whose status is an error.
    pub(super) fn of_response(status: u16, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let mut report = serde_json::from_str::<Value>(&text)
            .map(|body| Self::of_body(&body))
            .unwrap_or_default();
        report.status = status;
        if report.message.is_empty() {
            report.message = text.into_owned();
        }
        report
    }

    /// Reads an error that was sent in place of a reply or of an event.
    pub(super) fn of_reply(body: &Value) -> Self {
        let mut report = Self::of_body(body);
        let named = report
            .code
            .parse()
            .ok()
            .filter(|code| (400..600).contains(code));
        let kind = match report.kind.as_str() {
            "" => report.code.as_str(),
            kind => kind,
        };
        report.status = named.unwrap_or(match kind {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "billing_error" | "insufficient_quota" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" | "rate_limit_exceeded" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => 500,
        });
        report
    }

    fn of_body(body: &Value) -> Self {
        // Some gateways wrap the error in a list.
        let body = body.get(0).unwrap_or(body);
        let error = match &body["error"] {
            Value::Null => body,
            error => error,
        };
        let word = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            error => [&error["message"], &error["detail"]]
                .into_iter()
                .find(|value| !value.is_null())
                .map(|value| match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
                .unwrap_or_default(),
        };
        // Google names the reason in a list of details, and the kind as a status.
        let details = error["details"].as_array();
        let reason = details.and_then(|details| {
            let reasons = details.iter().map(|detail| word(&detail["reason"]));
            reasons.into_iter().find(|reason| !reason.is_empty())
        });
        let kind = reason.unwrap_or_else(|| match word(&error["type"]) {
            kind if kind.is_empty() => word(&error["status"]),
            kind => kind,
        });
        Self {
            status: 0,
            kind,
            code: word(&error["code"]),
            param: error["param"].as_str().map(str::to_owned),
            message,
        }
    }

    fn is_coded(&self, names: &[&str]) -> bool {
        names.contains(&self.kind.as_str()) || names.contains(&self.code.as_str())
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }

    fn is_about_credit(&self) -> bool {
        self.status == 402
            || self.is_coded(&[
                "insufficient_quota",
                "billing_error",
                "insufficient_balance",
            ])
            // "Exceeded your quota" is said of a minute's as well as of an account's.
            || self.says(&["credit balance", "insufficient balance"])
    }

    fn is_about_length(&self) -> bool {
        const CODES: &[&str] = &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "string_above_max_length",
        ];
        const PHRASES: &[&str] = &[
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "input is too long",
            "exceeds the maximum number of tokens",
        ];
        let fits = matches!(self.status, 400 | 413 | 422 | 500);
        self.status == 413 || self.is_coded(CODES) || (fits && self.says(PHRASES))
    }

    fn is_about_content(&self) -> bool {
        self.is_coded(&[
            "content_filter",
            "content_policy_violation",
            "invalid_prompt",
            "refusal",
        ])
    }

    /// The error of a call to `server`. `key` is removed from the message.
    pub(super) fn into_error(
        self,
        server: ModelServer,
        key: Option<&Key>,
        retry_after: Option<Duration>,
    ) -> LlmError {
        let message = printable(&self.message, key);
        let status = self.status;
        if self.is_about_credit() {
            return LlmError::OutOfCredit { server, message };
        }
        if self.is_about_length() {
            return LlmError::ContextTooLong { server, message };
        }
        if status < 500 && self.is_about_content() {
            return LlmError::Refused { server, message };
        }
        match status {
            // Google answers 400 to a key that it does not know.
            400 if self.is_coded(&["API_KEY_INVALID", "API_KEY_EXPIRED"]) => LlmError::Auth {
                server,
                status,
                message,
            },
            401 | 403 => LlmError::Auth {
                server,
                status,
                message,
            },
            429 => LlmError::RateLimited {
                server,
                retry_after,
                message,
            },
            503 | 529 => LlmError::Overloaded {
                server,
                retry_after,
                message,
            },
            408 | 409 | 500 | 502 | 504..=599 => LlmError::Failing {
                server,
                status,
                retry_after,
                message,
            },
            _ => LlmError::Rejected {
                server,
                status,
                message,
            },
        }
    }
}

/// One short line that can be shown anywhere: no control or direction characters, no key.
pub(super) fn printable(text: &str, key: Option<&Key>) -> String {
    let text = key.map_or_else(|| text.to_owned(), |key| key.removed_from(text));
    let mut words = text.split_whitespace();
    let mut line = String::new();
    while line.chars().count() <= MAX_MESSAGE
        && let Some(word) = words.next()
    {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|&c| !is_harmful(c)));
    }
    if line.is_empty() {
        return "it says nothing".to_owned();
    }
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> &'static str {
        let server = ModelServer {
            model: "m".to_owned(),
            host: "h".to_owned(),
        };
        Report::of_response(status, body.as_bytes())
            .into_error(server, None, None)
            .kind()
    }

    #[test]
    fn what_servers_say_means_what_their_documentation_says() {
        let cases = [
            // OpenAI.
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
                "auth",
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached for tokens per min","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
                "rate_limited",
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
                "out_of_credit",
            ),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
                "context_too_long",
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
                "rejected",
            ),
            (
                503,
                r#"{"error":{"message":"The engine is currently overloaded","type":"server_error"}}"#,
                "overloaded",
            ),
            (
                500,
                r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
                "failing",
            ),
            // Google, of a minute's quota.
            (
                429,
                r#"[{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 12s.","status":"RESOURCE_EXHAUSTED"}}]"#,
                "rate_limited",
            ),
            // Azure's filter.
            (
                400,
                r#"{"error":{"code":"content_filter","message":"The response was filtered"}}"#,
                "refused",
            ),
            // Anthropic.
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                "auth",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                "out_of_credit",
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
                "context_too_long",
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
                "context_too_long",
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "overloaded",
            ),
            (
                404,
                r#"{"type":"error","error":{"type":"not_found_error","message":"model: x"}}"#,
                "rejected",
            ),
            // llama.cpp.
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                "context_too_long",
            ),
            // FastAPI, gateways, proxies.
            (
                422,
                r#"{"detail":[{"loc":["body","messages"],"msg":"field required"}]}"#,
                "rejected",
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"unknown name"}}]"#,
                "rejected",
            ),
            (402, "", "out_of_credit"),
            (408, "", "failing"),
            (409, "", "failing"),
            (502, "<html>Bad Gateway</html>", "failing"),
            (307, "", "rejected"),
            (501, "", "rejected"),
        ];
        for (status, body, expected) in cases {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn an_error_in_a_reply_has_the_status_of_its_kind() {
        let cases = [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                529,
            ),
            (r#"{"error":{"code":429,"message":"slow down"}}"#, 429),
            (
                r#"{"error":{"code":"rate_limit_exceeded","message":"slow down"}}"#,
                429,
            ),
            (r#"{"error":"something broke"}"#, 500),
        ];
        for (body, status) in cases {
            let body = serde_json::from_str(body).unwrap();
            assert_eq!(Report::of_reply(&body).status, status, "{body}");
        }
    }

    #[test]
    fn a_message_becomes_one_short_printable_line() {
        let text = "\u{1b}[31mred\u{202e}\n\ntext\u{0}";
        assert_eq!(printable(text, None), "[31mred text");
        assert_eq!(printable("\u{7}", None), "it says nothing");
        let long = printable(&"ä".repeat(1000), None);
        assert_eq!(long.chars().count(), MAX_MESSAGE + 3);
    }
}
