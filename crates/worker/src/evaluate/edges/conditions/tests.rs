use super::*;

/// Conditions of a kernel with the arguments R and C, and a grid of R / 4 blocks, whose body is given.
fn conditions(body: &str) -> Conditions {
    let source = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [\"cdiv(R, 4)\"]\nblock = [128]\nargs = [\"x\", \"R\", \"C\"]\n---*/\n";
    let source = KernelSource::parse("k.cu", source).expect("it parses");
    let ptx = format!(
        ".version 9.0\n.visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u32 k_param_1,\n\t.param .u32 k_param_2\n)\n{{\n\
         \t.reg .b32 \t%r<40>;\n\tld.param.u32 \t%r1, [k_param_1];\n\tld.param.u32 \t%r2, [k_param_2];\n{body}\n\tret;\n}}\n\
         .visible .entry other(.param .u32 other_param_0)\n{{\n\tsetp.eq.s32 \t%p1, %r1, 5;\n}}\n"
    );
    Conditions::of(&source, &Configuration::new(), &ptx)
}

/// The outcomes of the last condition for `C` of 1 to 2,000 and 9 rows.
fn widths(body: &str) -> Vec<i64> {
    let conditions = conditions(body);
    let holds = |width: &i64| {
        let dims = BTreeMap::from([("R".to_owned(), 9), ("C".to_owned(), *width)]);
        conditions.outcomes(&dims).last() == Some(&Some(true))
    };
    (1..=2_000).filter(holds).collect()
}

#[test]
fn conditions_of_the_shape_are_evaluated() {
    let every = |from: usize, by: usize| (from as i64..=2_000).step_by(by).collect::<Vec<_>>();
    for (body, expected) in [
        ("setp.eq.s32 %p1, %r2, 777;", vec![777]),
        ("setp.ne.s32 %p1, %r2, 777;\nnot.pred %p2, %p1;", vec![777]),
        // C % 129 == 5, as it is written and as a compiler gives it.
        (
            "rem.s32 %r3, %r2, 129;\nsetp.eq.s32 %p1, %r3, 5;",
            every(5, 129),
        ),
        (
            "mul.hi.s32 %r3, %r2, 2130574327;\nshr.u32 %r4, %r3, 31;\nshr.s32 %r5, %r3, 6;\nadd.s32 %r6, %r5, %r4;\n\
             mul.lo.s32 %r7, %r6, 129;\nsub.s32 %r8, %r2, %r7;\nsetp.eq.s32 %p1, %r8, 5;",
            every(5, 129),
        ),
        // 3 R == C, and R == 9 beside it.
        (
            "mul.lo.s32 %r3, %r1, 3;\nsetp.eq.s32 %p1, %r3, %r2;",
            vec![27],
        ),
        (
            "setp.eq.s32 %p1, %r1, 9;\nsetp.eq.and.s32 %p2|%p3, %r2, 0x1f, %p1;",
            vec![31],
        ),
        // An unsigned comparison of a difference is a range.
        (
            "add.s32 %r3, %r2, -1025;\nsetp.lt.u32 %p1, %r3, 3;",
            vec![1025, 1026, 1027],
        ),
        // Values that a selection or a minimum chose, the grid, and 64 bits.
        (
            "min.s32 %r3, %r2, 4;\nsetp.ne.s32 %p1, %r3, 4;",
            vec![1, 2, 3],
        ),
        (
            "setp.gt.s32 %p1, %r2, 1990;\nselp.b32 %r3, 7, 8, %p1;\nsetp.eq.s32 %p2, %r3, 7;",
            (1991..=2_000).collect(),
        ),
        (
            "mov.u32 %r3, %nctaid.x;\nmad.lo.s32 %r4, %r3, 100, %r2;\nsetp.eq.s32 %p1, %r4, 301;",
            vec![1],
        ),
        (
            "mul.wide.s32 %rd1, %r2, %r2;\nsetp.eq.s64 %p1, %rd1, 1000000;",
            vec![1000],
        ),
        // Inner scopes have registers of their own.
        (
            "{ .reg .pred q; .reg .b32 t<3>; add.u32 t1, %r2, 1; setp.eq.u32 q, t1, 9; selp.u32 %r3, 1, 0, q; }\n\
             { .reg .pred q; .reg .b32 t<3>;\n add.u32 t1, %r2, 2;\n setp.eq.u32 q, t1, 9;\n selp.u32 %r4, 1, 0, q; }",
            vec![7],
        ),
    ] {
        assert_eq!(widths(body), expected, "{body}");
    }
}

#[test]
fn values_of_threads_and_loops_are_left_out_and_their_constants_kept() {
    let body = "mov.u32 %r3, %tid.x;\nsetp.eq.s32 %p1, %r3, 77;\nmov.u32 %r4, %r2;\n$L__BB0_1:\nadd.s32 %r4, %r4, -1;\n\
        setp.ne.s32 %p2, %r4, 13;\n@%p2 bra $L__BB0_1;\nld.global.v2.u32 {%r5, %r6}, [%rd1];\nsetp.eq.s32 %p3, %r6, 99;";
    let conditions = conditions(body);
    let dims = BTreeMap::from([("R".to_owned(), 9), ("C".to_owned(), 77)]);
    assert_eq!(conditions.outcomes(&dims), []);
    let others = conditions.other_constants().iter().copied();
    assert_eq!(others.collect::<Vec<_>>(), [13, 77, 99]);
}

#[test]
fn a_text_that_is_not_ptx_has_no_conditions() {
    for text in [
        "",
        "@",
        "}",
        "{",
        "@%p;",
        "setp;",
        "setp.gt %p,;",
        "add.s32 %r3, %r2, x;\nsetp.eq.s32 %p1, %r3, 1;",
        "div.s32 %r3, %r2, 0;\nsetp.eq.s32 %p1, %r3, 1;",
    ] {
        let holds = widths(text);
        assert!(holds.is_empty(), "{text}: {holds:?}");
    }
    let source = KernelSource::parse(
        "k.cu",
        "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [1]\nargs = []\n---*/\n",
    );
    let source = source.expect("it parses");
    for text in [
        "",
        ".entry ",
        ".entry k",
        ".entry k {",
        "{{{",
        ".entry k(\u{e9}) { mov.u32 \u{e9}, 1; ",
    ] {
        let found = Conditions::of(&source, &Configuration::new(), text);
        assert_eq!(found.outcomes(&BTreeMap::new()), [], "{text}");
    }
}
