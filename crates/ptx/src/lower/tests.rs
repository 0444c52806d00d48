//! Families without a handler, and the names of variables.

use super::storage::plain_name;
use super::{FAMILIES, Lowering, ReturnTarget, UnsupportedForm};
use crate::ir::Statement;
use crate::parse;

/// Operands that some handler accepts for an opcode of its own.
const OPERANDS: &[&str] = &[
    ";",
    ".L1 [%rd1];",
    ".sync 0;",
    ".sync %r1|%p1, %r2;",
    ".global %p1, %rd1;",
    ".b32 %r1, %r2;",
    ".u32 %r1, %r2, %r3;",
    ".f32 %f1, %f2, %f3;",
    ".pred %p1, %p2;",
    ".init.b64 [%rd1], 1;",
    ".load.a.sync.aligned.row.m16n16k16.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], %r9;",
];

#[test]
fn a_listed_opcode_that_no_handler_lowers_is_unsupported() {
    for operands in OPERANDS {
        let text = format!(
            ".version 8.4\n.target sm_89\n.address_size 64\n.entry k()\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<10>;\n\
             .reg .f32 %f<9>;\n.reg .b64 %rd<9>;\nunlisted{operands}\nret;\n}}\n"
        );
        let tree = parse::parse(&text).expect("the text is PTX");
        let function = &tree.functions[0];
        let body = function.body.as_ref().expect("the kernel has a body");
        let Some(Statement::Instruction(instruction)) = body.first() else {
            panic!("{text}");
        };
        for (family, _) in FAMILIES {
            let mut lowering = Lowering::new(&tree);
            lowering.enter_scope(function, Vec::new(), ReturnTarget::Exit);
            assert_eq!(
                lowering.lower_as(*family, instruction),
                Err(UnsupportedForm),
                "{family:?}: {operands}"
            );
        }
    }
}

#[test]
fn local_statics_lose_their_mangling() {
    assert_eq!(plain_name("_ZZ9attentionE4keys"), "keys");
    assert_eq!(plain_name("_ZZN2ns3fooEvE6buffer_0"), "buffer");
    assert_eq!(plain_name("dynamic"), "dynamic");
    assert_eq!(plain_name("_ZZE"), "_ZZE");
}
