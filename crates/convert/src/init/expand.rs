//! Expansion of a file's own macros in a copy of it that is only analysed. Every line keeps its
//! number.

use std::collections::BTreeMap;

/// A macro of the file; `parameters` is none for one without parentheses.
struct Macro {
    parameters: Option<Vec<String>>,
    body: String,
}

/// Deepest expansion of macros inside macros.
const MAX_DEPTH: usize = 8;
/// Longest text of one expanded line, bytes.
const MAX_LINE: usize = 1 << 16;

/// Replaces the uses of macros that the text defines by their bodies. Definitions stay. Macros whose
/// bodies hold statements, a `#` or a directive are left alone.
pub(super) fn expand_macros(text: &str) -> String {
    let macros = find_macros(text);
    let mut expanded = String::with_capacity(text.len());
    let mut in_directive = false;
    for line in text.split_inclusive('\n') {
        let directive = in_directive || line.trim_start().starts_with('#');
        in_directive = directive && line.trim_end().ends_with('\\');
        if directive {
            expanded.push_str(line);
        } else {
            expanded.push_str(&expand_line(line, &macros, 0));
        }
    }
    expanded
}

fn find_macros(text: &str) -> BTreeMap<String, Macro> {
    let mut macros = BTreeMap::new();
    for line in text.replace("\\\n", " ").lines() {
        let Some(rest) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let Some(rest) = rest.trim_start().strip_prefix("define") else {
            continue;
        };
        let rest = rest.trim();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let (parameters, body) = match after.strip_prefix('(') {
            Some(inner) => {
                let Some((list, body)) = inner.split_once(')') else {
                    continue;
                };
                let names = list.split(',').map(|name| name.trim().to_owned());
                (Some(names.collect()), body)
            }
            None => (None, after),
        };
        let body = body.split("//").next().unwrap_or_default().trim();
        let is_expression =
            !body.is_empty() && !body.contains(['#', ';', '{', '"']) && !body.contains("...");
        if is_expression {
            let body = body.to_owned();
            macros.insert(name.to_owned(), Macro { parameters, body });
        }
    }
    macros
}

fn expand_line(line: &str, macros: &BTreeMap<String, Macro>, depth: usize) -> String {
    if depth > MAX_DEPTH || line.len() > MAX_LINE {
        return line.to_owned();
    }
    let mut expanded = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '"') {
        let (before, word) = rest.split_at(start);
        expanded.push_str(before);
        if let Some(inner) = word.strip_prefix('"') {
            let end = inner.find('"').map_or(word.len(), |at| at + 2);
            expanded.push_str(&word[..end]);
            rest = &word[end..];
            continue;
        }
        let end = word
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        let inside_number = before.ends_with(|c: char| c.is_ascii_alphanumeric());
        match macros.get(name).filter(|_| !inside_number) {
            Some(Macro {
                parameters: None,
                body,
            }) => {
                expanded.push_str(&expand_line(body, macros, depth + 1));
                rest = after;
            }
            Some(Macro {
                parameters: Some(parameters),
                body,
            }) => match split_arguments(after) {
                Some((arguments, tail)) if arguments.len() == parameters.len() => {
                    let replaced = substitute(body, parameters, &arguments);
                    expanded.push_str(&expand_line(&replaced, macros, depth + 1));
                    rest = tail;
                }
                _ => {
                    expanded.push_str(name);
                    rest = after;
                }
            },
            None => {
                expanded.push_str(name);
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// Splits `(a, b) tail` into its arguments and the tail.
fn split_arguments(text: &str) -> Option<(Vec<String>, &str)> {
    let inner = text.trim_start().strip_prefix('(')?;
    let mut arguments = vec![String::new()];
    let mut depth = 0;
    for (at, character) in inner.char_indices() {
        match character {
            ')' if depth == 0 => return Some((arguments, &inner[at + 1..])),
            ',' if depth == 0 => arguments.push(String::new()),
            _ => {
                depth += i32::from(matches!(character, '(' | '['))
                    - i32::from(matches!(character, ')' | ']'));
                arguments.last_mut()?.push(character);
            }
        }
    }
    None
}

fn substitute(body: &str, parameters: &[String], arguments: &[String]) -> String {
    let pairs = parameters.iter().zip(arguments);
    let table = pairs
        .map(|(parameter, argument)| {
            let body = argument.trim().to_owned();
            let parameters = None;
            (parameter.clone(), Macro { parameters, body })
        })
        .collect();
    // Arguments are not expanded again with the parameters' names.
    expand_line(body, &table, MAX_DEPTH)
}
