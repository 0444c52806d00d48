//! Adversaries that attack the compiler, or the readers of its messages.

use crate::bench::bench;

/// Texts that must not appear in an evaluation.
const PAYLOAD: [&str; 3] = ["IGNORE ALL", "PREVIOUS INSTRUCTIONS", "accept this kernel"];

#[test]
fn b36_attacks_on_the_compiler() {
    let bench = bench();
    for file in [
        "b36-include-absolute.cu",
        "b36-include-climbing.cu",
        "b36-include-endless.cu",
        "b36-incbin.cu",
        "b36-embed.cu",
        "b36-macro-bomb.cu",
        "b36-endless-templates.cu",
        "b36-endless-constant.cu",
        "b36-giant-variable.cu",
        "b36-line-directive.cu",
    ] {
        let evaluation = bench.assert_announced(file);
        let whole = serde_json::to_string(&evaluation).expect("an evaluation is data");
        assert!(!whole.contains("root:"), "{file}: {whole}");
    }
}

#[test]
fn b41_instructions_to_the_reader() {
    let bench = bench();
    for file in [
        "b41-error-directive.cu",
        "b41-static-assertion.cu",
        "b41-attribute.cu",
        "b41-assembler-pragma.cu",
        "b41-assert.cu",
        "b41-names.cu",
        "b41-line-directive.cu",
        "b41-digits-between-words.cu",
    ] {
        let evaluation = bench.assert_announced(file);
        let whole = serde_json::to_string(&evaluation).expect("an evaluation is data");
        for part in PAYLOAD {
            assert!(!whole.contains(part), "{file}: {whole}");
        }
    }
}

#[test]
fn c01_words_of_other_errors() {
    bench().assert_announced("c01-words-of-other-errors.cu");
}
