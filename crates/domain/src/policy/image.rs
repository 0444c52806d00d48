//! The check of a compiled image against the task's policy.

use std::collections::BTreeSet;

use super::{Feature, Policy, Rule, TABLE_BYTES};
use crate::cleaning;
use crate::problem::Problem;
use crate::role::{Contents, Variable, VariableSpace};

/// The review of an image under a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Review {
    /// Features that the task denies; any of them leads to a verdict.
    pub denied: Vec<Problem>,
    /// Features that the task allows and points out.
    pub flagged: Vec<Problem>,
}

/// One thing found: which feature, where, what to say of it and how to do without.
struct Observation {
    feature: Feature,
    line: u32,
    message: String,
    fix: &'static str,
}

/// Reviews an image. `text` is the source that it was made of, called `file` in messages, and
/// `launched` are the kernels that the plan launches.
pub fn review_image(
    file: &str,
    text: &str,
    contents: &Contents,
    launched: &BTreeSet<&str>,
    policy: &Policy,
) -> Review {
    let mut review = Review::default();
    for observation in observations(text, contents, launched) {
        let list = match policy.rule(observation.feature) {
            Rule::Allow => continue,
            Rule::Flag => &mut review.flagged,
            Rule::Deny => &mut review.denied,
        };
        let mut problem = Problem::whole(file, observation.message, observation.fix);
        problem.line = observation.line;
        if !list.contains(&problem) {
            list.push(problem);
        }
    }
    review
}

fn observations(text: &str, contents: &Contents, launched: &BTreeSet<&str>) -> Vec<Observation> {
    let variables = contents
        .variables
        .iter()
        .filter_map(|variable| state(text, variable));
    let tables = (contents.constant_bytes > TABLE_BYTES).then(|| tables(text, contents));
    let externals = contents
        .externals
        .iter()
        .map(|symbol| external(text, symbol));
    let uses = contents.uses.iter().map(|found| Observation {
        feature: found.feature,
        line: found.line.unwrap_or(0),
        message: format!(
            "the kernel {} ({})",
            describe_use(found.feature),
            cleaning::clean_name(&found.what)
        ),
        fix: remedy(found.feature),
    });
    let spare = contents
        .entries
        .iter()
        .filter(|entry| !launched.contains(entry.as_str()))
        .map(|entry| Observation {
            feature: Feature::SpareEntries,
            line: line_of(text, entry),
            message: format!("the plan does not launch {}", cleaning::clean_name(entry)),
            fix: remedy(Feature::SpareEntries),
        });
    variables
        .chain(tables)
        .chain(externals)
        .chain(uses)
        .chain(spare)
        .collect()
}

/// A variable that can carry something from launch to launch, or to the host.
fn state(text: &str, variable: &Variable) -> Option<Observation> {
    let name = own_name(&variable.name);
    let (feature, message) = if variable.managed {
        let message = format!("{} is shared with the host", cleaning::clean_name(name));
        (Feature::ManagedMemory, message)
    } else if variable.written && variable.space == VariableSpace::Global {
        let message = format!(
            "{} ({} bytes) is written by the kernel and outlives a launch",
            cleaning::clean_name(name),
            variable.bytes
        );
        (Feature::ModuleState, message)
    } else {
        return None;
    };
    Some(Observation {
        feature,
        line: line_of(text, name),
        message,
        fix: remedy(feature),
    })
}

fn tables(text: &str, contents: &Contents) -> Observation {
    let largest = contents
        .variables
        .iter()
        .filter(|variable| variable.initialised && !variable.written)
        .max_by_key(|variable| variable.bytes);
    let name = largest.map_or("", |variable| own_name(&variable.name));
    Observation {
        feature: Feature::LargeTables,
        line: line_of(text, name),
        message: format!(
            "the source holds {} bytes of tables, at most {TABLE_BYTES} are usual",
            contents.constant_bytes
        ),
        fix: remedy(Feature::LargeTables),
    }
}

fn external(text: &str, symbol: &str) -> Observation {
    let (feature, word) = match symbol {
        "vprintf" => (Feature::DeviceOutput, "printf"),
        "malloc" | "free" => (Feature::DeviceHeap, symbol),
        "__assertfail" => (Feature::Assertions, "assert"),
        _ if symbol.starts_with("cuda") || symbol.starts_with("__cuda") => {
            (Feature::DeviceLaunch, symbol)
        }
        _ => (Feature::ForeignSymbols, symbol),
    };
    Observation {
        feature,
        line: line_of(text, word),
        message: format!("the kernel calls {}", cleaning::clean_name(symbol)),
        fix: remedy(feature),
    }
}

fn describe_use(feature: Feature) -> &'static str {
    match feature {
        Feature::ClockReads => "reads a clock or counter",
        Feature::PlacementReads => "reads where on the device it runs",
        Feature::CacheHints => "tells caches what to keep or fetch",
        Feature::Sleep => "sleeps",
        Feature::TensorOperations => "uses tensor cores",
        Feature::ProgrammaticLaunch => "lets the next launch begin early",
        Feature::Breakpoints => "stops for a debugger or profiler",
        _ => "does something of note",
    }
}

fn remedy(feature: Feature) -> &'static str {
    match feature {
        Feature::ModuleState => "keep nothing between launches; use a workspace of the plan",
        Feature::ManagedMemory => "use the arguments and workspaces of the plan",
        Feature::LargeTables => "compute the values, or pass them as an input of the task",
        Feature::DeviceOutput => "kernels do not print; remove printf",
        Feature::DeviceHeap => "use a workspace of the plan",
        Feature::DeviceLaunch => "add a launch to the plan",
        Feature::ForeignSymbols => "define the function in the source",
        Feature::Assertions => "remove assert before the last measurement",
        Feature::SpareEntries => "remove kernels that are not launched",
        Feature::ClockReads => "do without clocks; times are taken outside",
        Feature::PlacementReads => "use block and thread indices",
        Feature::CacheHints => "measure with and without the hint",
        Feature::Sleep => "order work by launches or barriers",
        Feature::TensorOperations => "compute with f32 arithmetic, as the task's class asks",
        Feature::ProgrammaticLaunch => "launches of a plan run one after the other",
        Feature::Breakpoints => "remove the instruction",
    }
}

/// Returns the source name of a mangled symbol such as `_ZZ7productE4kept` or `_ZN4deep5innerE`: the
/// last part that its length precedes (Itanium C++ ABI, 5.1).
fn own_name(name: &str) -> &str {
    let Some(mangled) = name.strip_prefix("_Z") else {
        return name;
    };
    let mut rest = mangled;
    let mut last = name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[at..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - at);
        let after = at + digits;
        let length = rest[at..after].parse().unwrap_or(usize::MAX);
        match rest[after..].split_at_checked(length) {
            Some((part, following)) if length > 0 => {
                last = part;
                rest = following;
            }
            _ => rest = &rest[after..],
        }
    }
    last
}

/// The line on which a variable is declared, or the first that names it; 0 if none does.
fn line_of(text: &str, name: &str) -> u32 {
    const DECLARES: [&str; 4] = ["__device__", "__constant__", "__managed__", "static"];
    if name.is_empty() {
        return 0;
    }
    let names = |line: &str| {
        line.match_indices(name).any(|(at, _)| {
            let part = |c: char| c.is_alphanumeric() || c == '_';
            !line[..at].ends_with(part) && !line[at + name.len()..].starts_with(part)
        })
    };
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let number = |wanted: &dyn Fn(&str) -> bool| {
        text.lines()
            .zip(1_u32..)
            .find(|(line, _)| code(line) && wanted(line))
            .map(|(_, number)| number)
    };
    number(&|line| names(line) && DECLARES.iter().any(|word| line.contains(word)))
        .or_else(|| number(&names))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        for (mangled, name) in [
            ("kept", "kept"),
            ("_ZN4deep5innerE", "inner"),
            ("_ZZ7productE12local_static", "local_static"),
            ("_ZZ7productE4kept_0", "kept"),
            ("_ZL5known", "known"),
            ("_Z", "_Z"),
            ("_Z99x", "_Z99x"),
            ("_ZN18446744073709551616xE", "_ZN18446744073709551616xE"),
        ] {
            assert_eq!(own_name(mangled), name);
        }
    }

    #[test]
    fn a_declaration_is_preferred_to_a_mention() {
        let text = "// kept here\nfloat keptness;\nx = kept;\n__device__ float kept[4];\n";
        assert_eq!(line_of(text, "kept"), 4);
        assert_eq!(line_of("a\nkept = 1;\n", "kept"), 2);
        assert_eq!(line_of(text, "missing"), 0);
        assert_eq!(line_of(text, ""), 0);
    }
}
