//! The statements of the kernels in a PTX text, without a full parser: what it does not recognise it leaves out.

use std::collections::BTreeSet;

/// A kernel.
#[derive(Debug)]
pub(super) struct PtxKernel<'t> {
    pub(super) name: &'t str,
    pub(super) statements: Vec<Statement>,
}

/// An instruction.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) opcode: String,
    /// The registers that it writes.
    pub(super) results: Vec<String>,
    /// Its other operands.
    pub(super) operands: Vec<String>,
}

/// A scope of braces with the registers that are declared in it.
struct Scope {
    number: usize,
    declared: BTreeSet<String>,
}

/// The kernels of a PTX text.
pub(super) fn entries(ptx: &str) -> Vec<PtxKernel<'_>> {
    let mut entries = Vec::new();
    let mut rest = ptx;
    while let Some(at) = rest.find(".entry ") {
        rest = rest[at + ".entry ".len()..].trim_start();
        let name_end = rest
            .find(|c: char| c == '(' || c.is_whitespace())
            .unwrap_or(rest.len());
        let name = &rest[..name_end];
        let Some(body) = rest.find('{') else { break };
        let (statements, length) = body_statements(&rest[body + 1..]);
        entries.push(PtxKernel { name, statements });
        rest = &rest[body + 1 + length..];
    }
    entries
}

/// The statements up to the brace that closes a body, and the number of bytes before it.
fn body_statements(text: &str) -> (Vec<Statement>, usize) {
    let mut statements = Vec::new();
    let mut scopes: Vec<Scope> = Vec::new();
    let (mut number, mut length) = (0, 0);
    for line in text.split_inclusive('\n') {
        let code = line.split("//").next().unwrap_or_default().trim();
        if [".loc", ".file", ".pragma"]
            .iter()
            .any(|word| code.starts_with(word))
        {
            length += line.len();
            continue;
        }
        // Braces at the beginning of a statement are scopes, others are lists of registers.
        for piece in code.split_inclusive(';') {
            let mut piece = piece.trim();
            loop {
                if let Some(inner) = piece.strip_prefix('{') {
                    number += 1;
                    scopes.push(Scope {
                        number,
                        declared: BTreeSet::new(),
                    });
                    piece = inner.trim_start();
                } else if let Some(outer) = piece.strip_prefix('}') {
                    if scopes.pop().is_none() {
                        return (statements, length);
                    }
                    piece = outer.trim_start();
                } else {
                    break;
                }
            }
            if let Some(declared) = piece.strip_prefix(".reg") {
                if let Some(scope) = scopes.last_mut() {
                    let names = declared.trim_end_matches(';').split(',');
                    let name = |text: &str| text.split_whitespace().last().map(str::to_owned);
                    scope.declared.extend(names.filter_map(name));
                }
            } else {
                statements.extend(statement(piece, &scopes));
            }
        }
        length += line.len();
    }
    (statements, length)
}

/// The instruction of a text that ends with a semicolon.
fn statement(text: &str, scopes: &[Scope]) -> Option<Statement> {
    let text = text.rsplit_once(':').map_or(text, |(_, text)| text).trim();
    let text = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
        None => text,
    };
    let (opcode, operands) = text.strip_suffix(';')?.split_once(char::is_whitespace)?;
    let mut operands = split_operands(operands);
    if operands.is_empty() {
        return None;
    }
    let first = operands.remove(0);
    let results = if first.starts_with('[') {
        Vec::new()
    } else {
        first
            .split(['|', ',', '{', '}', '(', ')'])
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(|name| scoped(name, scopes))
            .collect()
    };
    let operands = operands.iter().map(|name| scoped(name, scopes)).collect();
    Some(Statement {
        opcode: opcode.to_owned(),
        results,
        operands,
    })
}

/// Splits at the commas outside braces, brackets and parentheses.
fn split_operands(text: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_i32, 0);
    let mut operands = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                operands.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    operands.push(text[start..].trim());
    operands.retain(|operand| !operand.is_empty());
    operands
}

/// The name of a register, with the number of the inner scope that declares it.
fn scoped(name: &str, scopes: &[Scope]) -> String {
    let (sign, bare) = match name.strip_prefix('!') {
        Some(bare) => ("!", bare),
        None => ("", name),
    };
    let is_declared = |scope: &&Scope| {
        scope.declared.iter().any(|declared| {
            declared == bare
                || declared.split_once('<').is_some_and(|(prefix, _)| {
                    bare.strip_prefix(prefix)
                        .is_some_and(|number| number.parse::<u32>().is_ok())
                })
        })
    };
    match scopes.iter().rev().find(is_declared) {
        Some(scope) => format!("{sign}{bare}#{}", scope.number),
        None => name.to_owned(),
    }
}

/// The value of an integer literal.
pub(super) fn number(text: &str) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let digits = digits.strip_suffix('U').unwrap_or(digits);
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}
