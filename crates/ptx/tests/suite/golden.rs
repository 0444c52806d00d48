//! Golden values for every opcode with every modifier. The ISA's grammar is spelled out here family by family. Each
//! form that the machine accepts is executed on edge cases and random values and compared with an oracle written from
//! the PTX ISA's definition. A form that the machine does not support must be in the list of missing forms, so that
//! none is accepted without a definition and none is lost unnoticed.

mod bits;
mod conversions;
mod doubles;
mod floats;
mod number;

use std::collections::BTreeSet;

use crate::support::{Arg, Device, kernel};
use corpus::Noise;
use ptx::report::Outcome;
use ptx::{Isa, LaunchError, Module};

/// The ISA's statement about one result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expect {
    /// Exactly these bits.
    Bits(u64),
    /// A single or a double within a relative and an absolute error.
    Near(f64, f64, f64),
    /// Unspecified.
    Any,
}

/// The definition of a form: operand bits to the result.
pub type Oracle = Box<dyn Fn([u64; 3]) -> Expect>;

/// One form of an instruction.
pub struct Form {
    /// Opcode with modifiers, for messages and for the list of what is lacking.
    pub name: String,
    /// The statements; `%a`, `%b`, `%c` are the operands and `%q` is the result.
    pub body: String,
    /// Bits of the operands.
    pub operands: [u32; 3],
    /// Bits of the result.
    pub result: u32,
    /// Operand values that are interesting.
    pub values: [Vec<u64>; 3],
    /// Its definition.
    pub oracle: Oracle,
}

/// Reports whether a form is one that the ISA has and the machine does not support. NVRTC emits none of them.
fn is_missing(name: &str) -> bool {
    name == "mad24.hi.sat.s32" || name.contains(".xorsign.abs.")
}

fn mask(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Runs a form on a list of operands; none if the machine lacks it.
fn execute(form: &Form, isa: Isa, inputs: &[[u64; 3]]) -> Option<Vec<u64>> {
    let register = |bits: u32| match bits {
        16 => ".b16",
        64 => ".b64",
        _ => ".b32",
    };
    let load = |name: &str, bits: u32, at: u32| match bits {
        16 => format!("ld.global.u16 {name}, [%rd4+{at}];\n"),
        64 => format!("ld.global.b64 {name}, [%rd4+{at}];\n"),
        _ => format!("ld.global.b32 {name}, [%rd4+{at}];\n"),
    };
    let [a, b, c] = form.operands;
    let text = kernel(&format!(
        ".reg {} %a;\n.reg {} %b;\n.reg {} %c;\n.reg {} %q;\nmul.wide.u32 %rd4, %r1, 24;\nadd.u64 %rd4, %rd4, %rd1;\n\
         mul.wide.u32 %rd6, %r1, 8;\nadd.u64 %rd6, %rd6, %rd3;\n{}{}{}{}\nst.global.{} [%rd6], %q;",
        register(a),
        register(b),
        register(c),
        register(form.result),
        load("%a", a, 0),
        load("%b", b, 8),
        load("%c", c, 16),
        form.body,
        &register(form.result)[1..],
    ));
    let module =
        Module::parse(&text).unwrap_or_else(|error| panic!("{}: failed to {error}", form.name));
    match module.runnable("k") {
        Ok(()) => {}
        Err(LaunchError::Unsupported { .. }) => return None,
        Err(error) => panic!("{}: failed to {error}", form.name),
    }
    let mut device = Device::new(&text);
    device.machine.use_isa(isa);
    let mut results = Vec::new();
    for chunk in inputs.chunks(1024) {
        let flat: Vec<u64> = chunk.iter().flatten().copied().collect();
        let (input, out) = (
            device.buffer("a", &flat),
            device.buffer("out", &vec![0u64; chunk.len()]),
        );
        let args = [Arg::Pointer(input), Arg::Pointer(input), Arg::Pointer(out)];
        let report = device
            .try_launch("k", [1, 1, 1], [chunk.len() as u32, 1, 1], &args, |_| {})
            .unwrap_or_else(|error| panic!("{}: failed to {error}", form.name));
        assert_eq!(report.outcome, Outcome::Completed, "{}", form.name);
        results.extend(device.read::<u64>(out, chunk.len()));
    }
    Some(results)
}

/// Every pair of interesting values, with a third that goes round, and some random ones.
fn inputs(form: &Form, noise: &mut Noise) -> Vec<[u64; 3]> {
    let [a, b, c] = &form.values;
    let mut list = Vec::new();
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            list.push([*x, *y, c[(i * 7 + j) % c.len()]]);
        }
    }
    for _ in 0..64 {
        list.push(std::array::from_fn(|operand| {
            noise.next() & mask(form.operands[operand])
        }));
    }
    list
}

fn agrees(expected: Expect, found: u64, bits: u32) -> bool {
    match expected {
        Expect::Any => true,
        Expect::Bits(want) => found & mask(bits) == want & mask(bits),
        Expect::Near(want, relative, absolute) => {
            let found = if bits == 64 {
                f64::from_bits(found)
            } else {
                f64::from(f32::from_bits(found as u32))
            };
            if want.is_nan() {
                found.is_nan()
            } else if want.is_infinite() || found.is_infinite() {
                want == found
                    || (want.abs() >= f64::from(f32::MAX) && found == want.signum() * f64::INFINITY)
            } else {
                (found - want).abs() <= relative * want.abs() + absolute
            }
        }
    }
}

/// Holds every form of a family against its oracle: how many the machine has.
fn hold(forms: Vec<Form>) -> usize {
    let mut noise = Noise(5);
    let mut held = 0;
    let mut wrong = Vec::new();
    for form in forms {
        let inputs = inputs(&form, &mut noise);
        let Some(found) = execute(&form, Isa::detect(), &inputs) else {
            assert!(
                is_missing(&form.name),
                "{} is not supported, and the list of missing forms does not name it",
                form.name
            );
            continue;
        };
        assert!(
            !is_missing(&form.name),
            "{} is in the list of missing forms, and supported",
            form.name
        );
        held += 1;
        for isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
            assert_eq!(
                execute(&form, *isa, &inputs).as_ref(),
                Some(&found),
                "{}: instruction sets differ: {isa:?}",
                form.name
            );
        }
        let bad = inputs.iter().zip(&found).find_map(|(input, found)| {
            let expected = (form.oracle)(*input);
            (!agrees(expected, *found, form.result)).then_some((input, expected, found))
        });
        if let Some((input, expected, found)) = bad {
            wrong.push(format!(
                "{} of {input:x?}: {found:#x} instead of {expected:x?}",
                form.name
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} forms are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    held
}

/// Each family has more forms than this, so that a list that was built incompletely is noticed.
const MIN_FORMS: usize = 300;

#[test]
fn every_form_is_defined_or_known_to_be_missing() {
    let families = [
        ("integers and bits", bits::forms()),
        ("floating point", floats::forms()),
        ("conversions", conversions::forms()),
    ];
    for (family, forms) in families {
        let all = forms.len();
        let held = hold(forms);
        println!("{family}: {held} of {all} forms hold");
        assert!(held > MIN_FORMS, "{family}: only {held} forms");
    }
}

/// The tests that execute each opcode: the name of a source file, or `corpus` for the compiled kernels of that crate.
const TESTED_IN: &[(&str, &str)] = &[
    (
        "golden",
        "abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma lg2 lop3 mad mad24 \
                max min mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub \
                szext tanh testp vabsdiff2 vabsdiff4 xor",
    ),
    ("arithmetic.rs", "addc madc mov subc"),
    ("tensor.rs", "mma stmatrix"),
    ("counters.rs", "cp ld ldmatrix red st wmma"),
    ("findings.rs", "bar bra exit trap"),
    (
        "opcodes.rs",
        "applypriority brkpt brx createpolicy elect isspacep ldu movmatrix prefetch prefetchu",
    ),
    (
        "corpus",
        "activemask atom barrier call cvta fence match mbarrier membar nanosleep redux ret shfl vote",
    ),
];

/// The text of the tests that [`TESTED_IN`] names.
fn test_text(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = match name {
        "golden" => root.join("tests/suite/golden"),
        "corpus" => root.join("../corpus/kernels"),
        file => {
            return std::fs::read_to_string(root.join("tests/suite").join(file))
                .expect("the test file exists");
        }
    };
    std::fs::read_dir(folder)
        .expect("the folder exists")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| name == "golden" || path.extension().is_some_and(|end| end == "ptx"))
        .map(|path| std::fs::read_to_string(path).expect("the file is text"))
        .collect()
}

#[test]
fn every_opcode_is_tested_where_the_table_says() {
    let tested: BTreeSet<&str> = TESTED_IN
        .iter()
        .flat_map(|(_, opcodes)| opcodes.split_whitespace())
        .collect();
    assert_eq!(ptx::opcodes().collect::<BTreeSet<&str>>(), tested);
    for (name, opcodes) in TESTED_IN {
        // Tests in Rust hold PTX in string literals, where `\\n` would stick to the word behind it.
        let text = test_text(name).replace("\\n", " ");
        let words: BTreeSet<&str> = text
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .collect();
        for opcode in opcodes.split_whitespace() {
            assert!(words.contains(opcode), "{name} does not use {opcode}");
        }
    }
}
