//! The numbers that a kernel's PTX compares a dim with. A kernel that treats some extents in another
//! way has such a number at each border between them.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers that are taken from one image at most, those compared with a dim first.
const MAX_CONSTANTS: usize = 12;

/// A register that holds an argument `d` as `(d + added) >> shifted`.
#[derive(Debug, Clone, Copy, Default)]
struct OfArgument {
    added: i64,
    shifted: u32,
}

/// The borders that the PTX suggests, from 2 to `most`: numbers that a scalar argument is compared with,
/// solved for the argument, and then other numbers of comparisons.
pub fn compared_constants(ptx: &str, most: i64) -> BTreeSet<i64> {
    let mut registers: BTreeMap<&str, OfArgument> = BTreeMap::new();
    let (mut of_arguments, mut others) = (BTreeSet::new(), BTreeSet::new());
    for line in ptx.lines() {
        let line = line.trim();
        if line.starts_with(".entry") || line.contains(".entry ") || line.contains(".func ") {
            registers.clear();
        }
        let Some((opcode, operands)) = instruction(line) else {
            continue;
        };
        let known = |at: usize| {
            operands
                .get(at)
                .and_then(|name| registers.get(name))
                .copied()
        };
        let number = |at: usize| operands.get(at).and_then(|text| text.parse::<i64>().ok());
        let kind = opcode.split('.').next().unwrap_or_default();
        match kind {
            "setp" | "min" | "max" | "set" => {
                let Some(found) = number(2) else { continue };
                match known(1) {
                    Some(OfArgument { added, shifted }) => {
                        let scaled = found.checked_shl(shifted).unwrap_or(found);
                        // An unsigned comparison of `d - a` with `b` is two comparisons: with `a`, and with
                        // `a + b`.
                        of_arguments.extend([scaled.saturating_sub(added), -added]);
                    }
                    None if kind == "setp" => {
                        others.insert(found);
                    }
                    None => {}
                }
            }
            _ => {}
        }
        let result = match kind {
            "ld" if opcode.starts_with("ld.param") => Some(OfArgument::default()),
            "mov" | "cvt" | "cvta" => known(1),
            "add" => known(1).zip(number(2)).map(|(of, by)| OfArgument {
                added: of.added.saturating_add(by << of.shifted.min(32)),
                ..of
            }),
            "sub" => known(1).zip(number(2)).map(|(of, by)| OfArgument {
                added: of.added.saturating_sub(by << of.shifted.min(32)),
                ..of
            }),
            "shr" => known(1).zip(number(2)).map(|(of, by)| OfArgument {
                shifted: of.shifted.saturating_add(u32::try_from(by).unwrap_or(0)),
                ..of
            }),
            _ => None,
        };
        if let (Some(result), Some(register)) = (result, operands.first()) {
            registers.insert(register, result);
        }
    }
    let useful = |number: &i64| (2..=most).contains(number);
    // The largest first: small numbers are tiles, which the edges and the tunables have already.
    let first = of_arguments.into_iter().filter(useful).rev();
    let mut constants = first.take(MAX_CONSTANTS).collect::<BTreeSet<_>>();
    for other in others.into_iter().filter(useful).rev() {
        if constants.len() >= MAX_CONSTANTS {
            break;
        }
        constants.insert(other);
    }
    constants
}

/// The opcode of a line and its operands, without the predicate.
fn instruction(line: &str) -> Option<(&str, Vec<&str>)> {
    let line = match line.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace)?.1.trim_start(),
        None => line,
    };
    let (opcode, operands) = line.strip_suffix(';')?.split_once(char::is_whitespace)?;
    let operands = operands.split(',').map(str::trim).collect();
    Some((opcode, operands))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_of_a_dim_are_found_in_every_form_that_a_compiler_gives_them() {
        let ptx = "
.visible .entry softmax(.param .u64 a, .param .u32 b) {
	ld.param.u32 	%r2, [softmax_param_1];
	setp.gt.s32 	%p1, %r2, 1024;
	add.s32 	%r5, %r2, -1025;
	setp.lt.u32 	%p2, %r5, 30975;
	shr.s32 	%r6, %r2, 2;
	setp.eq.s32 	%p3, %r6, 2000;
	@%p1 setp.ne.s32 	%p4, %r9, 77;
	mad.lo.s32 	%r7, %r8, 128, %r2;
}";
        let found = compared_constants(ptx, 40_000);
        for expected in [1024, 1025, 32_000, 8000, 77] {
            assert!(found.contains(&expected), "{expected}: {found:?}");
        }
        assert!(!found.contains(&128));
        assert!(!compared_constants(ptx, 30_000).contains(&32_000));
    }

    #[test]
    fn a_text_that_is_not_ptx_suggests_nothing() {
        for text in [
            "",
            "@",
            "@%p",
            "setp;",
            "setp.gt %p,",
            "add.s32 %r1, %r2, x;",
        ] {
            assert!(compared_constants(text, 100).is_empty(), "{text}");
        }
    }
}
