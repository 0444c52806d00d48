//! Fuzz tests: PTX texts with a few random changes. Parsing, lowering and execution must end without a panic, in
//! bounded memory.
//!
//! `PROPTEST_CASES=200000 cargo test --test fuzz` looks for longer.

use corpus::Noise;
use proptest::prelude::*;
use ptx::{LaunchConfig, Limits, Machine, Module, Schedule};

/// Short texts first, because most defects do not depend on length.
const TEXTS: &[&str] = &[
    include_str!("../../../corpus/kernels/halves.ptx"),
    include_str!("../../../corpus/kernels/histogram.ptx"),
    include_str!("../../../corpus/kernels/integers.ptx"),
    include_str!("../../../corpus/kernels/handshake.ptx"),
    include_str!("../../../corpus/kernels/wmma.ptx"),
    include_str!("../../../corpus/kernels/pipeline.ptx"),
    include_str!("../../../corpus/kernels/atomics.ptx"),
    include_str!("../../../corpus/kernels/gemm_f64.ptx"),
    include_str!("../../../corpus/kernels/gemm_fp8.ptx"),
    include_str!("../../../corpus/kernels/gemm_int8.ptx"),
    include_str!("../../../corpus/kernels/gemm_bf16.ptx"),
    include_str!("../../../corpus/kernels/calls.ptx"),
    include_str!("../planted/barriers.ptx"),
    include_str!("../planted/copies.ptx"),
];

/// Replacement words that are valid somewhere in PTX.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "31",
    "32",
    "4294967295",
    "18446744073709551615",
    "0x7fffffff",
    "0f7F800000",
    "0dFFF0000000000000",
    "%r1",
    "%rd1",
    "%p1",
    "%f1",
    "%tid.x",
    "%laneid",
    "_",
    "{",
    "}",
    "[%rd1]",
    ".u8",
    ".b64",
    ".f64",
    ".pred",
    ".shared",
    ".v4",
    "bra",
    "ret;",
];

const MARKS: &[u8] = b" ,.;:[]{}()<>%@!|+-_$09azAZ\"/*";

/// Makes random changes to a text.
fn changed(text: &str, noise: &mut Noise, changes: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..changes {
        if lines.is_empty() {
            break;
        }
        let at = (noise.next() % lines.len() as u64) as usize;
        let other = (noise.next() % lines.len() as u64) as usize;
        match noise.next() % 9 {
            0 => {
                lines.remove(at);
            }
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => lines.truncate(at.max(1)),
            4 | 5 => {
                // One word for another.
                let words: Vec<&str> = lines[at].split_inclusive([' ', ',', '\t', '.']).collect();
                let index = (noise.next() % words.len().max(1) as u64) as usize;
                let new = WORDS[(noise.next() % WORDS.len() as u64) as usize];
                lines[at] = words
                    .iter()
                    .enumerate()
                    .map(|(i, word)| if i == index { new } else { word })
                    .collect::<Vec<_>>()
                    .concat();
            }
            6 => {
                // One word of another line of the same text.
                let words: Vec<&str> = lines[other].split_whitespace().collect();
                if !words.is_empty() {
                    let word = words[(noise.next() % words.len() as u64) as usize].to_owned();
                    let cut = lines[at].find(char::is_whitespace).unwrap_or(0);
                    lines[at].insert_str(cut, &format!(" {word} "));
                }
            }
            7 => {
                let mut bytes = lines[at].clone().into_bytes();
                if !bytes.is_empty() {
                    let index = (noise.next() % bytes.len() as u64) as usize;
                    bytes[index] = MARKS[(noise.next() % MARKS.len() as u64) as usize];
                    lines[at] = String::from_utf8_lossy(&bytes).into_owned();
                }
            }
            _ => {
                // A number of another size.
                lines[at] = lines[at]
                    .chars()
                    .map(|c| {
                        if c.is_ascii_digit() && noise.next().is_multiple_of(4) {
                            (b'0' + (noise.next() % 10) as u8) as char
                        } else {
                            c
                        }
                    })
                    .collect();
            }
        }
    }
    lines.join("\n")
}

/// Runs every kernel of a module with a small budget.
fn run(module: &Module, noise: &mut Noise) {
    let mut machine = Machine::new(Limits {
        memory_bytes: 16 << 20,
        ..Limits::default()
    });
    let Ok(handle) = machine.load(module.clone()) else {
        return;
    };
    let Ok(buffer) = machine.allocate(1 << 14) else {
        return;
    };
    machine
        .fill(buffer, &[3, 0, 0, 0], 1 << 11)
        .expect("the buffer is larger");
    for kernel in module.kernels() {
        if kernel.param_bytes > 4096 {
            continue;
        }
        let mut params = vec![0; kernel.param_bytes as usize];
        for param in &kernel.params {
            let value = if param.bytes == 8 {
                buffer
            } else {
                noise.next() % 64
            };
            let bytes = value.to_le_bytes();
            let count = (param.bytes as usize).min(8);
            params[param.offset as usize..][..count].copy_from_slice(&bytes[..count]);
        }
        let mut config = LaunchConfig::new([2, 1, 1], [40, 1, 1], &params);
        config.budget = Some(40_000);
        config.cooperative = noise.next().is_multiple_of(4);
        config.dynamic_shared = (noise.next() % 3 * 512) as u32;
        if noise.next().is_multiple_of(2) {
            config.schedule = Schedule::Seeded(noise.next());
        }
        let id = module.kernel(&kernel.name).expect("the module lists it");
        // Refused, fatal or complete: anything but a panic.
        let _ = machine.launch(handle, id, &config);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_texts_do_no_harm(seed in any::<u64>(), changes in 1usize..6) {
        let mut noise = Noise(seed);
        let text = TEXTS[(noise.next() % TEXTS.len() as u64) as usize];
        if let Ok(module) = Module::parse(&changed(text, &mut noise, changes)) {
            run(&module, &mut noise);
        }
    }

    #[test]
    fn noise_is_refused(text in "[ -~\n]{0,400}") {
        let _ = Module::parse(&text);
        let _ = Module::parse(&format!(".version 8.0\n.target sm_89\n.address_size 64\n{text}"));
        let _ = Module::parse(&format!(".version 8.0\n.target sm_89\n.address_size 64\n.entry k() {{\n{text}\n}}"));
    }
}
