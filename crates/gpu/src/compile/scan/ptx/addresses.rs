//! The variables of a module that are only read, found by following their addresses through registers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Statement, opcode, starts_identifier, variable};

/// Functions of the driver that only read through their arguments.
const READERS: [&str; 2] = ["vprintf", "__assertfail"];

/// The variables of the module that are only read, determined by following their addresses through registers. An
/// address that reaches a place where it cannot be followed counts as written through.
pub(super) fn read_only(statements: &[Statement<'_>]) -> BTreeSet<String> {
    let variables: BTreeSet<&str> = statements.iter().filter_map(variable).collect();
    let calls_own_functions = statements.iter().any(|statement| {
        let external = statement.first() == Some(&".extern");
        let reads_only = external && READERS.iter().any(|name| statement.contains(name));
        statement.contains(&".func") && !reads_only
    });
    // Registers of different functions may have the same names. Treating them as one register only makes the result
    // more conservative.
    let mut holds: BTreeMap<&str, BTreeSet<&str>> = variables
        .iter()
        .map(|&name| (name, BTreeSet::from([name])))
        .collect();
    // A pointer in a variable's initial value can be loaded and stored through, and addresses are not followed
    // through memory. A list in braces is a separate statement, which `follow` would treat as an unknown instruction
    // with its first word as the opcode.
    let mut written: BTreeSet<&str> = BTreeSet::new();
    for statement in statements {
        let initialiser = match variable(statement) {
            Some(_) => statement.iter().position(|&word| word == "="),
            None => Some(0).filter(|_| variables.contains(statement[0])),
        };
        let named = statement[initialiser.unwrap_or(statement.len())..].iter();
        written.extend(named.filter_map(|word| variables.get(word)));
    }
    loop {
        let before = (
            holds.values().map(BTreeSet::len).sum::<usize>(),
            written.len(),
        );
        for statement in statements.iter().filter(|s| variable(s).is_none()) {
            follow(statement, &mut holds, &mut written, calls_own_functions);
        }
        let after = (
            holds.values().map(BTreeSet::len).sum::<usize>(),
            written.len(),
        );
        if before == after {
            break;
        }
    }
    variables
        .into_iter()
        .filter(|name| !written.contains(name))
        .map(str::to_owned)
        .collect()
}

/// Follows addresses through one statement.
fn follow<'a>(
    statement: &Statement<'a>,
    holds: &mut BTreeMap<&'a str, BTreeSet<&'a str>>,
    written: &mut BTreeSet<&'a str>,
    calls_own_functions: bool,
) {
    let Some(opcode) = opcode(statement) else {
        return;
    };
    let base = opcode.split('.').next().unwrap_or(opcode);
    let operands = || {
        statement
            .iter()
            .skip_while(|&&word| word != opcode)
            .skip(1)
            .copied()
            .filter(|word| word.starts_with('%') || starts_identifier(word))
    };
    let reached: BTreeSet<&str> = operands()
        .filter_map(|word| holds.get(word))
        .flatten()
        .copied()
        .collect();
    if reached.is_empty() {
        return;
    }
    match base {
        // A load yields a value and not the address of its variable.
        "ld" | "ldu" | "prefetch" | "prefetchu" | "setp" | "isspacep" => {}
        "st" if opcode.starts_with("st.param") && !calls_own_functions => {}
        // The driver's own functions only read through their arguments.
        "call" if !calls_own_functions => {}
        "mov" | "cvta" | "cvt" | "add" | "sub" | "mad" | "mul" | "selp" | "and" | "or" | "xor"
        | "shl" | "shr" | "shf" | "min" | "max" | "lop3" | "bfi" | "bfe" | "prmt" => {
            let results = operands()
                .take_while(|word| word.starts_with('%'))
                .collect::<Vec<_>>();
            // The destination comes first; each register of a vector destination may hold the address.
            let count = if statement.contains(&"{") {
                results.len()
            } else {
                1
            };
            for result in results.into_iter().take(count) {
                holds.entry(result).or_default().extend(reached.iter());
            }
        }
        _ => written.extend(reached),
    }
}
