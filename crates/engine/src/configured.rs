//! Writing a configuration into a source, so that the file alone defines the evaluated kernel.

use std::ops::Range;

use domain::candidate::KernelSource;
use domain::decode_message::{self, Syntax};
use domain::plan::Configuration;
use domain::problem::{Problem, Problems};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The source with the `value` of each tunable as in `configuration`; nothing else is touched. A tunable
/// that lists choices without a value has its first choice, so that the wanted one is put first there.
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
    let mut changes = Vec::new();
    {
        let front = DeTable::parse(&text[start..end]).map_err(|error| {
            let message = decode_message::describe(error.message(), Syntax::Toml);
            Problem::whole(file, message, "write valid TOML")
        })?;
        let tables = ["tunables", "tunable"].map(|name| front.get_ref().get(name));
        for table in tables.into_iter().flatten() {
            let DeValue::Table(declared) = table.get_ref() else {
                continue;
            };
            for (name, tunable) in declared {
                if let Some(value) = wanted.get(name.get_ref().as_ref()) {
                    changes.extend(rewrite(tunable, *value));
                }
            }
        }
    }
    // From the last to the first, so that the earlier places stay where they are.
    changes.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    for (span, value) in changes {
        text.replace_range(start + span.start..start + span.end, &value);
    }
    let written = KernelSource::parse(file, text)?;
    if written.plan().default_configuration() == wanted {
        Ok(written)
    } else {
        let fix = "declare each tunable once under [tunables]";
        Err(Problem::whole(file, "a value could not be written into its tunable", fix).into())
    }
}

/// The place of a declared tunable's value, and the text that gives it another one.
fn rewrite(tunable: &Spanned<DeValue<'_>>, value: i64) -> Option<(Range<usize>, String)> {
    match tunable.get_ref() {
        DeValue::Integer(_) => Some((tunable.span(), value.to_string())),
        DeValue::Array(choices) => {
            let listed = choices.iter().map(|choice| match choice.get_ref() {
                DeValue::Integer(number) => number.as_str().parse::<i64>().ok(),
                _ => None,
            });
            let mut listed = listed.collect::<Option<Vec<_>>>()?;
            listed.retain(|choice| *choice != value);
            listed.insert(0, value);
            Some((tunable.span(), format!("{listed:?}")))
        }
        DeValue::Table(fields) => {
            // The keys have other names, too: a default, options.
            let field = |is_wanted: fn(&DeValue<'_>) -> bool| {
                let mut values = fields.values();
                values.find(|field| is_wanted(field.get_ref()))
            };
            let stated = fields.get("value");
            let stated = stated.or_else(|| field(|field| matches!(field, DeValue::Integer(_))));
            let place = stated.or_else(|| field(|field| matches!(field, DeValue::Array(_))))?;
            rewrite(place, value)
        }
        _ => None,
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
    fn a_tunable_in_another_form_than_the_documented_one_is_rewritten_where_it_is_toml() {
        for (declared, written) in [
            ("B = 8", Some("B = 8")),
            ("B = [8, 16, 32]", Some("B = [16, 8, 32]")),
            (
                "B = { choices = [8, 16] }",
                Some("B = { choices = [16, 8] }"),
            ),
            (
                "B = { default = 8, options = [8, 16] }",
                Some("B = { default = 16, options = [8, 16] }"),
            ),
            ("B: { value = 8, choices = [8, 16] }", None),
        ] {
            let form = "B = { choices = [16, 8], value = 8 } # 8 is the value";
            let text = SOURCE.replace(form, declared);
            let source = KernelSource::parse("k.cu", &*text).unwrap();
            assert_eq!(
                can_write_values("k.cu", &source),
                written.is_some(),
                "{declared}"
            );
            let Some(written) = written else { continue };
            let mut wanted = source.plan().default_configuration();
            let choices = &source.plan().tunables["B"].choices;
            wanted.insert("B".to_owned(), if choices.contains(&16) { 16 } else { 8 });
            let other = with_values("k.cu", &source, &wanted).unwrap();
            assert_eq!(other.text(), SOURCE.replace(form, written));
            assert_eq!(
                other.candidate_digest(&wanted),
                source.candidate_digest(&wanted),
                "{declared}"
            );
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
