//! Writing a configuration into a source, so that the file alone defines the evaluated kernel.

use std::collections::BTreeMap;

use domain::candidate::KernelSource;
use domain::decode_message::{self, Syntax};
use domain::plan::Configuration;
use domain::problem::{Problem, Problems};
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize)]
struct TunableTables {
    #[serde(default)]
    tunables: BTreeMap<String, DeclaredTunable>,
}

#[derive(Deserialize)]
struct DeclaredTunable {
    value: Spanned<i64>,
}

/// The source with the `value` of each tunable as in `configuration`; nothing else is touched.
///
/// # Errors
/// The configuration is not one of the source's, or the result has another configuration.
pub fn with_values(
    file: &str,
    source: &KernelSource,
    configuration: &Configuration,
) -> Result<KernelSource, Problems> {
    let wanted = source.configure(configuration)?;
    let mut text = source.text().to_owned();
    let start = text.find('\n').map_or(text.len(), |at| at + 1);
    let end = front_end(&text, start);
    let front: TunableTables = toml::from_str(&text[start..end]).map_err(|error| {
        let message = decode_message::describe(error.message(), Syntax::Toml);
        Problem::whole(file, message, "write valid TOML")
    })?;
    let mut spans = front
        .tunables
        .iter()
        .filter_map(|(name, declared)| Some((declared.value.span(), wanted.get(name)?)))
        .collect::<Vec<_>>();
    // From the last to the first, so that the earlier places stay where they are.
    spans.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, value) in spans {
        text.replace_range(start + span.start..start + span.end, &value.to_string());
    }
    let written = KernelSource::parse(file, text)?;
    if written.plan().default_configuration() == wanted {
        Ok(written)
    } else {
        let fix = "declare each tunable once under [tunables]";
        Err(Problem::whole(file, "a value could not be written into its tunable", fix).into())
    }
}

/// Returns true if other values can be written into every tunable of a source. A model may declare one in
/// a form that is read and cannot be rewritten.
pub fn can_write_values(file: &str, source: &KernelSource) -> bool {
    let tunables = source.plan().tunables.iter();
    let others = tunables.map(|(name, tunable)| {
        let mut choices = tunable.choices.iter();
        let other = choices.find(|choice| **choice != tunable.value);
        (name.clone(), *other.unwrap_or(&tunable.value))
    });
    with_values(file, source, &others.collect()).is_ok()
}

/// The offset of the front matter's closing line in a parsed source.
fn front_end(text: &str, start: usize) -> usize {
    let mut offset = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim_end() == "---*/" {
            break;
        }
        offset += line.len();
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\nargs = []\n\
                          [tunables]\nB = { choices = [16, 8], value = 8 } # 8 is the value\n\
                          [tunables.A]\nvalue = 1 # first\nchoices = [1, 200]\n---*/\nint value = 8;\n";

    #[test]
    fn only_the_values_change_and_the_code_keeps_its_identity() {
        let source = KernelSource::parse("k.cu", SOURCE).unwrap();
        let configuration = Configuration::from([("A".to_owned(), 200), ("B".to_owned(), 16)]);
        let written = with_values("k.cu", &source, &configuration).unwrap();
        let wanted = SOURCE
            .replace("value = 1 # first", "value = 200 # first")
            .replace("value = 8 }", "value = 16 }");
        assert_eq!(written.text(), wanted);
        assert_eq!(
            written.candidate_digest(&written.plan().default_configuration()),
            source.candidate_digest(&configuration)
        );
    }

    #[test]
    fn a_tunable_in_another_form_than_the_documented_one_is_not_rewritten() {
        let lenient = SOURCE.replace(
            "B = { choices = [16, 8], value = 8 } # 8 is the value",
            "B = 8",
        );
        for (text, is_writable) in [(SOURCE, true), (&lenient, false)] {
            let source = KernelSource::parse("k.cu", text).unwrap();
            assert_eq!(can_write_values("k.cu", &source), is_writable, "{text}");
        }
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        let source = KernelSource::parse("k.cu", SOURCE).unwrap();
        let configuration = Configuration::from([("A".to_owned(), 7)]);
        let refused = with_values("k.cu", &source, &configuration).unwrap_err();
        assert!(refused.to_string().contains("A = 7"), "{refused}");
    }
}
