//! Messages of JSON and TOML decoders in plain words. The decoders' own messages name Rust types.

/// The syntax of the decoded text. It decides the names of values in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Objects and lists.
    Json,
    /// Tables and arrays.
    Toml,
}

/// Rewrites the message of serde's decoder about one value, without its path and its position. A message of another
/// form is returned as it is.
pub fn describe(message: &str, syntax: Syntax) -> String {
    let (field, fields) = match syntax {
        Syntax::Json => ("field", "fields"),
        Syntax::Toml => ("key", "keys"),
    };
    if let Some(rest) = message.strip_prefix("unknown field ") {
        return match rest.split_once(", ") {
            Some((name, expected)) => format!(
                "no {field} is called {}; the {fields} are {}",
                quoted(name),
                choices(expected)
            ),
            None => format!("no {field} is called {}", quoted(rest)),
        };
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let (value, expected) = rest.split_once(", ").unwrap_or((rest, ""));
        return format!("{} is none of {}", quoted(value), choices(expected));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("the {field} {} is missing", quoted(name));
    }
    if let Some(name) = message.strip_prefix("duplicate field ") {
        return format!("the {field} {} is given twice", quoted(name));
    }
    for prefix in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = message
            .strip_prefix(prefix)
            .and_then(|rest| rest.rsplit_once(", expected "))
        {
            let found = value_name(found, syntax);
            return format!("{} is needed, not {found}", type_name(expected, syntax));
        }
    }
    if message.starts_with("EOF while parsing") {
        return "the JSON ends too early".to_owned();
    }
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "a whole number from 0 is needed"
        }
        "expected value" if syntax == Syntax::Json => "this is not JSON: a value is expected here",
        "expected ident" => "this is not JSON: a value is expected here",
        "trailing characters" => "there is more text after the JSON value",
        "key must be a string" => "the name of a field must be in quotation marks",
        other => other,
    }
    .to_owned()
}

/// Rewrites a whole message of the JSON decoder: its position, the field, and the problem in plain words.
pub fn describe_json(message: &str) -> String {
    let (rest, position) = split_position(message);
    let (field, problem) = split_field(rest);
    let mut text = String::new();
    if let Some((line, column)) = position {
        text.push_str(&format!("line {line}, column {column}: "));
    }
    if let Some(field) = field {
        text.push_str(&format!("{field}: "));
    }
    text.push_str(&describe(problem, Syntax::Json));
    text
}

/// Splits `... at line 1 column 44` into the message and its position.
pub fn split_position(message: &str) -> (&str, Option<(u32, u32)>) {
    let parsed = message.rsplit_once(" at line ").and_then(|(rest, place)| {
        let (line, column) = place.split_once(" column ")?;
        Some((rest, (line.parse().ok()?, column.parse().ok()?)))
    });
    parsed.map_or((message, None), |(rest, position)| (rest, Some(position)))
}

/// Splits `budget.trials: invalid type ...` into the field's path and the problem.
pub fn split_field(message: &str) -> (Option<&str>, &str) {
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

/// The name of a value that serde describes, such as ``string "many"`` or ``integer `-1` ``.
fn value_name(found: &str, syntax: Syntax) -> String {
    let value = found.replace('`', "");
    match (value.as_str(), syntax) {
        ("map", Syntax::Json) => "an object".to_owned(),
        ("map", Syntax::Toml) => "a table".to_owned(),
        ("sequence", Syntax::Json) => "a list".to_owned(),
        ("sequence", Syntax::Toml) => "an array".to_owned(),
        ("unit value", _) => "null".to_owned(),
        _ => value.replace("integer ", "").replace("floating point ", ""),
    }
}

/// The name of a Rust type in the words of a syntax.
fn type_name(expected: &str, syntax: Syntax) -> &str {
    match (expected, syntax) {
        ("u8" | "u16" | "u32" | "u64" | "usize", _) => "a whole number from 0",
        ("i8" | "i16" | "i32" | "i64" | "isize", _) => "a whole number",
        ("f32" | "f64", _) => "a number",
        ("a boolean", _) => "true or false",
        ("a sequence", Syntax::Json) => "a list",
        ("a sequence", Syntax::Toml) => "an array",
        ("a map", Syntax::Json) => "an object",
        ("a map", Syntax::Toml) => "a table",
        (other, Syntax::Json) if other.starts_with("struct ") => "an object",
        (other, Syntax::Toml) if other.starts_with("struct ") => "a table",
        (other, _) => other,
    }
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
