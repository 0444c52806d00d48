//! Instructions and special registers in PTX with their source lines, and the variables of the module that may be
//! written.

mod addresses;

use std::collections::BTreeSet;

use domain::policy::Feature;
use domain::role::FeatureUse;

use super::SourceFile;

/// The contents of a PTX text besides arithmetic.
#[derive(Debug, Default)]
pub struct Text {
    /// Uses of features, in order.
    pub uses: Vec<FeatureUse>,
    /// Functions that are declared and not defined.
    pub externals: Vec<String>,
    /// Managed variables, which host and device share.
    pub managed: BTreeSet<String>,
    /// Variables that are only read, as far as all uses of their addresses are known.
    read_only: BTreeSet<String>,
}

impl Text {
    /// Returns true if a kernel may write a variable; also true for a variable whose uses are not all understood.
    pub fn may_write(&self, variable: &str) -> bool {
        !self.read_only.contains(variable)
    }
}

/// Special registers that are features, by prefixes of their names (PTX ISA, "Special Registers").
const REGISTERS: [(&str, Feature); 12] = [
    ("%clock", Feature::ClockReads),
    ("%globaltimer", Feature::ClockReads),
    ("%pm", Feature::ClockReads),
    ("%smid", Feature::PlacementReads),
    ("%nsmid", Feature::PlacementReads),
    ("%warpid", Feature::PlacementReads),
    ("%nwarpid", Feature::PlacementReads),
    ("%gridid", Feature::PlacementReads),
    ("%envreg", Feature::PlacementReads),
    ("%reserved_smem", Feature::PlacementReads),
    ("%total_smem_size", Feature::PlacementReads),
    ("%current_graph_exec", Feature::DeviceLaunch),
];

/// Directives that end at the end of their line.
const LINES: [&str; 5] = [".loc", ".file", ".version", ".target", ".address_size"];

/// Reads the PTX of a source.
///
/// # Errors
/// A sentence for the candidate's author, if the text contains something that the assembler could read in another
/// way.
pub fn read(ptx: &str, source: SourceFile<'_>) -> Result<Text, String> {
    let statements = statements(ptx)?;
    let own = OwnFile::find(&statements, source);
    let mut text = Text::default();
    let mut line = None;
    for statement in &statements {
        if let Some(position) = location(statement, &own) {
            line = position;
            continue;
        }
        record_declarations(statement, &mut text);
        for (feature, what) in features(statement) {
            text.uses.push(FeatureUse {
                feature,
                what,
                line,
            });
        }
    }
    text.read_only = addresses::read_only(&statements);
    Ok(text)
}

/// The source line of a line of PTX, which is that of the last `.loc` before it.
pub fn source_line(ptx: &str, ptx_line: usize, source: SourceFile<'_>) -> Option<u32> {
    let statements = statements(ptx).ok()?;
    let own = OwnFile::find(&statements, source);
    let end = ptx
        .match_indices('\n')
        .nth(ptx_line.checked_sub(1)?)
        .map_or(ptx.len(), |(at, _)| at);
    // A word is a slice of the text, so its address gives its position.
    let position = |statement: &Statement<'_>| {
        let first = statement.first().map_or(ptx.as_ptr(), |word| word.as_ptr());
        first.addr() - ptx.as_ptr().addr()
    };
    statements
        .iter()
        .take_while(|statement| position(statement) < end)
        .filter_map(|statement| location(statement, &own))
        .last()
        .flatten()
}

/// The words of one statement. Punctuation that is not part of a name is a separate word.
type Statement<'a> = Vec<&'a str>;

/// Splits a text into statements at `;`, at braces that do not enclose a vector and, for directives of one line, at
/// line ends. Comments are dropped, and a string is one word.
///
/// # Errors
/// A sentence about a comment or string that does not end, a string with a line break, or a character that is not
/// used in PTX, because the assembler would continue at another position.
fn statements(ptx: &str) -> Result<Vec<Statement<'_>>, String> {
    const MARKS: &str = "[]()=,:@!+-*/<>|&~^?{};";
    let mut all = Vec::new();
    let mut current = Statement::new();
    let mut in_vector = false;
    let mut rest = ptx;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(at) => at + 4,
                None => return Err("the inline assembly holds a comment without an end".to_owned()),
            },
            '"' => match rest[1..].find('"') {
                Some(at) if !rest[1..=at].contains(char::is_control) => at + 2,
                _ => {
                    return Err(
                        "the inline assembly holds a string without an end on its line".to_owned(),
                    );
                }
            },
            '{' if is_instruction(&current) => {
                in_vector = true;
                current.push("{");
                1
            }
            '}' if std::mem::take(&mut in_vector) => {
                current.push("}");
                1
            }
            '\n' | ';' | '{' | '}' => {
                // An instruction may span several lines; a directive that describes lines may not.
                let ends =
                    character != '\n' || current.first().is_some_and(|first| LINES.contains(first));
                if ends && !current.is_empty() {
                    all.push(std::mem::take(&mut current));
                }
                1
            }
            _ if is_name(character) => name_length(rest),
            _ if character.is_whitespace() || MARKS.contains(character) => character.len_utf8(),
            _ => {
                return Err(format!(
                    "the inline assembly holds the character {character:?}, which PTX has no use for"
                ));
            }
        };
        let word = &rest[..length];
        if is_name(character) || character == '"' || "[]()=,:@!".contains(character) {
            current.push(word);
        }
        rest = &rest[length..];
    }
    if !current.is_empty() {
        all.push(current);
    }
    Ok(all)
}

fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_$%.".contains(character)
}

/// Length in bytes of the name at the start of a text. `::` is part of a name, as in `L1::evict_last`.
fn name_length(text: &str) -> usize {
    let mut length = 0;
    loop {
        let rest = &text[length..];
        length += rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        match text[length..].strip_prefix("::") {
            Some(more) if more.starts_with(is_name) => length += 2,
            _ => return length,
        }
    }
}

/// Returns true if an incomplete statement is an instruction and not a directive.
fn is_instruction(statement: &Statement<'_>) -> bool {
    opcode(statement).is_some_and(|opcode| opcode.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// The source file of the candidate.
struct OwnFile<'a> {
    /// Its number in the text, if any line belongs to it.
    number: Option<&'a str>,
    /// Number of its lines, because inline assembly may name lines that do not exist.
    lines: u32,
}

impl<'a> OwnFile<'a> {
    /// Finds the last file with the source's name. The compiler lists files after all code, and so after files that
    /// inline assembly could list.
    fn find(statements: &[Statement<'a>], source: SourceFile<'_>) -> Self {
        let number = statements.iter().rev().find_map(|statement| {
            let [".file", number, name, ..] = statement.as_slice() else {
                return None;
            };
            let name = name.trim_matches('"');
            let own = name == source.name || name.ends_with(&format!("/{}", source.name));
            own.then_some(*number)
        });
        Self {
            number,
            lines: u32::try_from(source.text.lines().count()).unwrap_or(u32::MAX),
        }
    }
}

/// The source line of the following instructions, if the statement is a `.loc`: the candidate's own line, even if a
/// function of a header was inlined into it.
fn location(statement: &Statement<'_>, own: &OwnFile<'_>) -> Option<Option<u32>> {
    let [".loc", file, line, ..] = statement.as_slice() else {
        return None;
    };
    let outer = statement
        .iter()
        .position(|&word| word == "inlined_at")
        .and_then(|at| Some((*statement.get(at + 1)?, *statement.get(at + 2)?)));
    let (file, line) = outer.unwrap_or((file, line));
    let line = line
        .parse()
        .ok()
        .filter(|line| (1..=own.lines).contains(line));
    Some(line.filter(|_| own.number == Some(file)))
}

/// Records declarations of managed variables and external functions.
fn record_declarations(statement: &Statement<'_>, text: &mut Text) {
    if statement.contains(&".managed")
        && let Some(name) = variable(statement)
    {
        text.managed.insert(name.to_owned());
    }
    if statement.first() == Some(&".extern")
        && let Some(at) = statement.iter().position(|&word| word == ".func")
    {
        // The return parameter is in parentheses before the name.
        let mut words = statement[at + 1..].iter();
        if words.clone().next() == Some(&"(") {
            words.find(|&&word| word == ")");
        }
        text.externals.extend(
            words
                .find(|word| starts_identifier(word))
                .map(|&name| name.to_owned()),
        );
    }
}

fn starts_identifier(word: &str) -> bool {
    word.chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || "_$".contains(first))
        && !word.contains('.')
}

/// The name of the variable that a `.global` declaration declares.
fn variable<'a>(statement: &Statement<'a>) -> Option<&'a str> {
    let declares = statement
        .iter()
        .take_while(|&&word| word != "=" && word != "[")
        .any(|&word| word == ".global")
        && !statement.contains(&".param");
    let mut words = statement.iter().take_while(|&&word| word != "=");
    declares.then(|| {
        words
            .find(|word| starts_identifier(word) && !word.chars().all(|c| c.is_ascii_digit()))
            .copied()
    })?
}

/// The opcode of an instruction, after its label and its predicate.
fn opcode<'a>(statement: &Statement<'a>) -> Option<&'a str> {
    let mut words = statement.as_slice();
    loop {
        words = match words {
            [_, ":", rest @ ..] | ["@", "!", _, rest @ ..] | ["@", _, rest @ ..] => rest,
            [opcode, ..] => return Some(opcode),
            [] => return None,
        };
    }
}

/// The features that a statement uses, each with the word that shows it.
fn features(statement: &Statement<'_>) -> Vec<(Feature, String)> {
    let mut found = Vec::new();
    if let Some(opcode) = opcode(statement)
        && let Some(feature) = instruction(opcode)
    {
        found.push((feature, opcode.to_owned()));
    }
    for word in statement {
        let register = REGISTERS
            .iter()
            .find(|(prefix, _)| word.starts_with(prefix) && special(word, prefix));
        if let Some((_, feature)) = register {
            found.push((*feature, (*word).to_owned()));
        }
    }
    found
}

/// Returns true if a word is a special register and not a register that the compiler numbered, such as the predicate
/// `%pm1`.
fn special(word: &str, prefix: &str) -> bool {
    let rest = &word[prefix.len()..];
    match prefix {
        "%clock" => ["", "64", "_hi"].contains(&rest),
        "%smid" | "%nsmid" | "%warpid" | "%nwarpid" | "%gridid" => rest.is_empty(),
        _ => true,
    }
}

fn instruction(opcode: &str) -> Option<Feature> {
    let base = opcode.split('.').next().unwrap_or(opcode);
    let modifier = |wanted: &str| opcode.split('.').any(|part| part.contains(wanted));
    match base {
        "wmma" | "mma" | "wgmma" | "tcgen05" => Some(Feature::TensorOperations),
        "createpolicy" | "prefetch" | "prefetchu" | "discard" | "applypriority" => {
            Some(Feature::CacheHints)
        }
        "ld" | "st" | "cp" | "red" | "atom"
            if ["evict_", "cache_hint", "prefetch"]
                .into_iter()
                .any(modifier) =>
        {
            Some(Feature::CacheHints)
        }
        "nanosleep" => Some(Feature::Sleep),
        "griddepcontrol" => Some(Feature::ProgrammaticLaunch),
        "brkpt" | "pmevent" => Some(Feature::Breakpoints),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 9.0\n.target sm_89\n.address_size 64\n";

    fn text(body: &str) -> Text {
        let ptx = format!(
            "{HEADER}{body}\n.file 1 \"/somewhere/candidate.cu\"\n.file 2 \"/cuda/cuda_fp16.hpp\"\n"
        );
        let source = SourceFile {
            name: "candidate.cu",
            text: &"\n".repeat(99),
        };
        read(&ptx, source).unwrap()
    }

    fn uses(body: &str) -> Vec<(Feature, String, Option<u32>)> {
        text(body)
            .uses
            .into_iter()
            .map(|found| (found.feature, found.what, found.line))
            .collect()
    }

    #[test]
    fn each_feature_is_found_with_its_line() {
        use Feature::{
            Breakpoints, CacheHints, ClockReads, PlacementReads, Sleep, TensorOperations,
        };
        for (instruction, feature, what) in [
            ("mov.u32 %r1, %clock;", ClockReads, "%clock"),
            ("@%p1 mov.u64 %rd1, %clock64;", ClockReads, "%clock64"),
            (
                "$L1: mov.u64 %rd1, %globaltimer;",
                ClockReads,
                "%globaltimer",
            ),
            ("mov.u32 %r1, %smid;", PlacementReads, "%smid"),
            ("nanosleep.u32 %r4;", Sleep, "nanosleep.u32"),
            (
                "prefetch.global.L2 [%rd1];",
                CacheHints,
                "prefetch.global.L2",
            ),
            (
                "createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0;",
                CacheHints,
                "createpolicy.fractional.L2::evict_last.b64",
            ),
            (
                "ld.global.L1::evict_last.u32 %r1, [%rd1];",
                CacheHints,
                "ld.global.L1::evict_last.u32",
            ),
            (
                "@!%p1 wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%rd1];",
                TensorOperations,
                "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
            ),
            ("brkpt;", Breakpoints, "brkpt"),
            (
                "/* hidden */ mov.u32 /* in */ %r1, /* plain */ %clock; // sight",
                ClockReads,
                "%clock",
            ),
        ] {
            let body = format!(".loc 1 7 2\n{{ .reg .u32 t; {instruction} }}");
            let found = uses(&body);
            assert_eq!(found.len(), 1, "{instruction}: {found:?}");
            assert_eq!(found[0].0, feature, "{instruction}");
            assert_eq!(found[0].1, what, "{instruction}");
            assert_eq!(found[0].2, Some(7), "{instruction}");
        }
    }

    #[test]
    fn ordinary_code_uses_no_feature() {
        let body = ".loc 1 7 2\nmov.u32 %r1, %ctaid.x;\nld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];\n\
                    cp.async.cg.shared.global [%r1], [%rd1], 16;\n// %clock\n.pragma \"nounroll %clock\";\n\
                    shfl.sync.bfly.b32 %r3|%p2, %r1, 1, 31, -1;\nbar.sync 0;\natom.global.add.u32 %r1, [%rd1], 1;";
        assert_eq!(uses(body), []);
    }

    #[test]
    fn lines_of_other_files_are_dropped() {
        let inlined =
            ".loc 2 99 1, function_name $L__info_string0, inlined_at 1 20 5\nmov.u32 %r1, %clock;";
        assert_eq!(uses(inlined)[0].2, Some(20));
        assert_eq!(uses(".loc 2 99 1\nmov.u32 %r1, %clock;")[0].2, None);
    }

    #[test]
    fn foreign_functions_and_managed_variables_are_named() {
        let text = text(
            ".extern .func (.param .b32 func_retval0) vprintf\n(\n.param .b64 vprintf_param_0\n)\n;\n\
             .extern .func __assertfail\n(\n.param .b64 p\n)\n.noreturn;\n\
             .global .attribute(.managed) .align 4 .u32 shared_with_host;",
        );
        assert_eq!(text.externals, ["vprintf", "__assertfail"]);
        assert!(text.managed.contains("shared_with_host"));
    }

    #[test]
    fn a_variable_is_read_only_if_no_address_of_it_is_written_through() {
        for (body, may_write) in [
            ("ld.global.u32 %r1, [v];", false),
            (
                "mov.u64 %rd1, v; add.s64 %rd2, %rd1, %rd9; ld.global.nc.f32 %f1, [%rd2];",
                false,
            ),
            (
                "mov.u64 %rd1, v; cvta.global.u64 %rd2, %rd1; st.param.b64 [param0+0], %rd2;",
                false,
            ),
            ("st.global.u32 [v], %r1;", true),
            ("st.global.u32 [v+4], %r1;", true),
            ("@%p1 atom.global.add.u32 %r1, [v], 1;", true),
            ("red.global.add.u32 [v], 1;", true),
            (
                "mov.u64 %rd1, v; cvta.global.u64 %rd2, %rd1; mad.lo.s64 %rd3, %rd4, 4, %rd2; st.u32 [%rd3], %r1;",
                true,
            ),
            // An address that is stored is not followed.
            ("mov.u64 %rd1, v; st.local.u64 [%rd7], %rd1;", true),
            (
                "mov.u64 %rd1, v; cp.async.ca.shared.global [%r1], [%rd1], 4;",
                true,
            ),
        ] {
            let text = text(&format!(".global .align 4 .b8 v[16] = {{1, 2}};\n{body}"));
            assert_eq!(text.may_write("v"), may_write, "{body}");
        }
        assert!(text("ret;").may_write("never record_declarations"));
    }

    #[test]
    fn a_variable_that_an_initialiser_names_counts_as_written() {
        for pointer in [
            ".global .align 8 .u64 p = v;",
            ".global .align 8 .u64 p = generic(v);",
            ".global .align 8 .u64 p = generic(v)+4;",
            ".global .align 8 .u64 p[2] = {0, generic(v)};",
            ".global .align 8 .u64 p[1] = {v};",
            ".global .align 8 .u64 p[4] = {{0, 1}, {v, 0}};",
            ".global .align 1 .b8 p[8] = {0xFF(v), 0xFF00(v)};",
            ".const .align 8 .u64 p[1] = {generic(v)};",
        ] {
            let body = "ld.global.u64 %rd1, [p]; st.global.u32 [%rd1], %r1;";
            let text = text(&format!(".global .align 4 .u32 v;\n{pointer}\n{body}"));
            assert!(text.may_write("v"), "{pointer}");
        }
    }

    #[test]
    fn an_address_given_to_a_function_of_the_source_is_not_followed() {
        let text = text(
            ".global .align 4 .b8 v[16] = {1, 2};\n.func store(.param .b64 p) { st.u32 [%rd1], 1; }\n\
             .entry k() { mov.u64 %rd5, v; st.param.b64 [param0+0], %rd5; call.uni store, (param0); }",
        );
        assert!(text.may_write("v"));
    }
}
