//! Modules, instructions and launches that are refused with a reason.

use crate::support::{Arg, Device, kernel};
use ptx::report::Outcome;
use ptx::{LaunchError, LoadError, Module};

#[test]
fn unknown_instructions_are_refused_by_name_when_launched() {
    let text = kernel("st.global.u32 [%rd3], 1;").replace(
        ".visible .entry k",
        ".visible .entry other()\n{\n.reg .b32 %r<3>;\nfrobnicate.u32 %r1, %r2;\nret;\n}\n.visible .entry k",
    );
    let mut device = Device::new(&text);
    let out = device.fresh("out", 4);
    let args = [Arg::Pointer(out), Arg::Pointer(out), Arg::Pointer(out)];
    assert_eq!(device.launch("k", 1, 1, &args).outcome, Outcome::Completed);
    match device.try_launch("other", [1, 1, 1], [1, 1, 1], &[], |_| {}) {
        Err(LaunchError::Unsupported {
            opcode, ptx_line, ..
        }) => {
            assert_eq!((opcode.as_str(), ptx_line), ("frobnicate.u32", 7));
        }
        other => panic!("{other:?}"),
    }
    // A known instruction with a modifier that is not is no better.
    for line in [
        "add.purple.u32 %r3, %r1, 1;",
        "ld.global.v3.u32 %r3, [%rd1];",
        "shfl.idx.b32 %r3, %r1, 1, 31;",
        // It may destroy what is there, and nothing here does.
        "discard.global.L2 [%rd1], 128;",
    ] {
        let mut device = Device::new(&kernel(line));
        let args = [Arg::Pointer(0), Arg::Pointer(0), Arg::Pointer(0)];
        let result = device.try_launch("k", [1, 1, 1], [1, 1, 1], &args, |_| {});
        assert!(
            matches!(result, Err(LaunchError::Unsupported { .. })),
            "{line}: {result:?}"
        );
    }
}

#[test]
fn texts_that_are_no_module_are_refused_with_their_place() {
    let cases = [
        ("", 1),
        ("hello", 1),
        (
            ".version 8.0\n.target sm_89\n.address_size 64\n.entry k() { bra NOWHERE; }",
            4,
        ),
        (
            ".version 8.0\n.target sm_89\n.address_size 64\n.entry k() {\n mov.u32 %r1, 0\n}",
            6,
        ),
        (
            ".version 8.0\n.target sm_89\n.address_size 64\n.entry k() {",
            4,
        ),
        // Directives at the very end, each without what must follow it.
        (".version", 1),
        (".version 8.0\n.target", 2),
        (".version 8.0\n.pragma", 2),
        (".version 8.0\n.section", 2),
        (".version 8.0\n.file", 2),
        (".version 8.0\n.entry k() .pragma", 2),
        (".version 8.0\n.entry k() .maxntid", 2),
        (".version 8.0\n.global .align", 2),
        (".version 8.0\n.entry k() {\n.pragma", 3),
        (".version 8.0\n.entry k() {\n.loc", 3),
        (".version 8.0\n.entry k() {\n.reg", 3),
    ];
    for (text, want) in cases {
        match Module::parse(text) {
            Err(LoadError::Syntax { line, .. }) => assert_eq!(line, want, "{text:?}"),
            other => panic!("{text:?}: {other:?}"),
        }
    }
    let narrow = ".version 8.0\n.target sm_89\n.address_size 32\n";
    assert!(matches!(
        Module::parse(narrow),
        Err(LoadError::Unsupported { ptx_line: 3, .. })
    ));
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let mut device = Device::new(
        &kernel("st.global.u32 [%rd3], 1;")
            .replace("\n{\n.reg .pred", "\n.maxntid 64\n{\n.reg .pred"),
    );
    let args = [Arg::Pointer(0), Arg::Pointer(0), Arg::Pointer(0)];
    let mut refused = |grid: [u32; 3], block: [u32; 3], shared: u32| {
        device
            .try_launch("k", grid, block, &args, |config| {
                config.dynamic_shared = shared;
            })
            .unwrap_err()
            .to_string()
    };
    assert!(refused([0, 1, 1], [1, 1, 1], 0).contains("grid"));
    assert!(refused([1, 1, 1], [65, 1, 1], 0).contains("launch bounds"));
    assert!(refused([1, 1, 1], [2048, 1, 1], 0).contains("2048 threads"));
    assert!(refused([1, 1, 1], [1, 1, 1], 1 << 20).contains("shared memory"));
    let cooperative = device.try_launch("k", [99, 1, 1], [1, 1, 1], &args, |config| {
        config.cooperative = true;
    });
    assert!(matches!(
        cooperative,
        Err(LaunchError::CooperativeTooLarge {
            blocks: 99,
            resident: 58,
            ..
        })
    ));
}
