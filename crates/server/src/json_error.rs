//! Messages of JSON parsers in plain words: where the value is, what is wrong, what is accepted.
//! serde's own messages name Rust types and put the place last.

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
    let (rest, position) = split_position(bare);
    let (field, problem) = split_field(rest);
    let mut text = String::new();
    if let Some((line, column)) = position {
        text.push_str(&format!("line {line}, column {column}: "));
    }
    if let Some(field) = field {
        text.push_str(&format!("{field}: "));
    }
    text.push_str(&in_words(problem));
    text
}

/// Splits `... at line 1 column 44` into the message and its position.
fn split_position(message: &str) -> (&str, Option<(u32, u32)>) {
    let parsed = message.rsplit_once(" at line ").and_then(|(rest, place)| {
        let (line, column) = place.split_once(" column ")?;
        Some((rest, (line.parse().ok()?, column.parse().ok()?)))
    });
    parsed.map_or((message, None), |(rest, position)| (rest, Some(position)))
}

/// Splits `budget.trials: invalid type ...` into the field's path and the problem.
fn split_field(message: &str) -> (Option<&str>, &str) {
    match message.split_once(": ") {
        Some((path, problem)) if is_path(path) => (Some(path), problem),
        _ => (None, message),
    }
}

fn is_path(text: &str) -> bool {
    let part_of_a_path =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']' | '?');
    !text.is_empty() && text.chars().all(part_of_a_path)
}

fn in_words(problem: &str) -> String {
    if let Some(rest) = problem.strip_prefix("unknown field ") {
        return match rest.split_once(", ") {
            Some((name, expected)) => format!(
                "no field is called {}; the fields are {}",
                quoted(name),
                choices(expected)
            ),
            None => format!("no field is called {}", quoted(rest)),
        };
    }
    if let Some(rest) = problem.strip_prefix("unknown variant ") {
        let (value, expected) = rest.split_once(", ").unwrap_or((rest, ""));
        return format!("{} is none of {}", quoted(value), choices(expected));
    }
    if let Some(name) = problem.strip_prefix("missing field ") {
        return format!("the field {} is missing", quoted(name));
    }
    if let Some(name) = problem.strip_prefix("duplicate field ") {
        return format!("the field {} is given twice", quoted(name));
    }
    for prefix in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = problem
            .strip_prefix(prefix)
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            return format!("{} is needed, not {}", kind(expected), plain_value(found));
        }
    }
    if problem.starts_with("EOF while parsing") {
        return "the JSON ends too early".to_owned();
    }
    match problem {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "a whole number from 0 is needed".to_owned()
        }
        "expected value" => "this is not JSON: a value is expected here".to_owned(),
        "trailing characters" => "there is more text after the JSON value".to_owned(),
        "key must be a string" => "the name of a field must be in quotation marks".to_owned(),
        other => other.to_owned(),
    }
}

/// A value that serde describes, such as ``string "many"`` or ``integer `-1` ``.
fn plain_value(found: &str) -> String {
    let value = found.replace('`', "");
    match value.as_str() {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "unit value" => "null".to_owned(),
        _ => value.replace("integer ", "").replace("floating point ", ""),
    }
}

/// The name that a person uses for a Rust type.
fn kind(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") => "an object",
        other => other,
    }
    .to_owned()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.trim_matches('`'))
}

/// The names of ``expected one of `a`, `b` ``.
fn choices(expected: &str) -> String {
    let names = expected
        .trim_start_matches("expected ")
        .trim_start_matches("one of ");
    names.replace('`', "").replace(" or ", ", ")
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
