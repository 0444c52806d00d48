//! Messages of JSON parsers in plain words: the position of the value, the problem, and the accepted values.

use domain::decode_message::{self, Syntax};
use domain::problem::Problem;

/// Prefixes that axum writes before the parser's own message.
const PREFIXES: [&str; 4] = [
    "Failed to deserialize the JSON body into the target type: ",
    "Failed to parse the request body as JSON: ",
    "Failed to deserialize query string: ",
    "Failed to deserialize query string into the target type: ",
];

/// Rewrites the message of a JSON or query parser. A message of a form that is not known is passed
/// on as it is, without axum's prefix.
pub fn describe(message: &str) -> String {
    let bare = PREFIXES
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix))
        .unwrap_or(message);
    decode_message::describe_json(bare)
}

/// The problem with one field of a body, if the parser's message names the field: its path, such as
/// `budget.trials`, and what is wrong with it.
pub fn problem(message: &str) -> Option<Problem> {
    let bare = PREFIXES
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix))
        .unwrap_or(message);
    let (path, problem) = decode_message::split_field(decode_message::split_position(bare).0);
    let missing = problem.strip_prefix("missing field ").map(quoted_name);
    let unknown = problem
        .strip_prefix("unknown field ")
        .map(|rest| quoted_name(rest.split(',').next().unwrap_or(rest)));
    let path = match (path, missing) {
        (Some(path), Some(name)) => format!("{path}.{name}"),
        (None, Some(name)) => name.to_owned(),
        (Some(path), None) => path.to_owned(),
        (None, None) => unknown?.to_owned(),
    };
    let message = decode_message::describe(problem, Syntax::Json);
    Some(Problem::whole(&path, message, ""))
}

/// A name of the parser's message without its quotes.
fn quoted_name(text: &str) -> &str {
    text.trim().trim_matches('`')
}

#[cfg(test)]
mod tests {
    use super::describe;

    #[test]
    fn a_message_names_the_place_the_problem_and_what_is_accepted() {
        for (message, expected) in [
            (
                "Failed to deserialize the JSON body into the target type: trials: unknown field `trials`, expected one of `task`, `method` at line 1 column 44",
                "line 1, column 44: trials: no field is called \"trials\"; the fields are task, method",
            ),
            (
                "Failed to deserialize the JSON body into the target type: budget.trials: invalid type: string \"many\", expected u32 at line 2 column 9",
                "line 2, column 9: budget.trials: a whole number from 0 is needed, not string \"many\"",
            ),
            (
                "Failed to deserialize the JSON body into the target type: budget.trials: invalid value: integer `-1`, expected u32 at line 1 column 3",
                "line 1, column 3: budget.trials: a whole number from 0 is needed, not -1",
            ),
            (
                "Failed to deserialize the JSON body into the target type: method: unknown variant `guess`, expected `free` or `full` at line 1 column 3",
                "line 1, column 3: method: \"guess\" is none of free, full",
            ),
            (
                "Failed to deserialize the JSON body into the target type: missing field `task` at line 1 column 2",
                "line 1, column 2: the field \"task\" is missing",
            ),
            (
                "Failed to parse the request body as JSON: EOF while parsing an object at line 1 column 1",
                "line 1, column 1: the JSON ends too early",
            ),
            (
                "Failed to deserialize query string: limit: invalid digit found in string",
                "limit: a whole number from 0 is needed",
            ),
            ("something else", "something else"),
        ] {
            assert_eq!(describe(message), expected);
        }
    }
}
