//! The policy on a candidate's text: preprocessor lines that reach outside the given headers or give
//! lines other names, and changes outside the regions that the task's baseline leaves open.
//!
//! The compiler's jail holds without the check of includes, which exists to answer at once and with
//! the line. No macro expands to a directive, so that every `#line` stands in the text.

use crate::candidate::KernelSource;
use crate::patch::outside_regions;
use crate::problem::Problem;
use crate::splice::{Trigraphs, logical_lines};

/// Finds the policy violations of a source, in line order.
pub fn find_violations(file: &str, source: &KernelSource, baseline: &KernelSource) -> Vec<Problem> {
    let text = source.text();
    let mut problems = Vec::new();
    // The meaning of trigraphs depends on the compiler's options, so that both readings count.
    for trigraphs in [Trigraphs::Resolved, Trigraphs::Plain] {
        for (offset, line) in logical_lines(text, trigraphs) {
            if let Some((message, fix)) = violation(&line) {
                let problem = Problem::at(file, text, offset, message, fix);
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
    }
    problems.sort_by_key(|problem| problem.line);
    if let Some(breach) = outside_regions(baseline, source) {
        problems.push(Problem {
            file: file.to_owned(),
            line: breach.line,
            column: 0,
            message: breach.to_string(),
            fix: "change only what stands between region: and endregion".to_owned(),
        });
        problems.sort_by_key(|problem| problem.line);
    }
    problems
}

/// The line without the white space and the comments that it begins with.
fn skip_blanks(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((_, after)) = rest
        .strip_prefix("/*")
        .and_then(|rest| rest.split_once("*/"))
    {
        rest = after.trim_start();
    }
    rest
}

/// Returns true for a line with the directive `#line`, or with its short form `# 12 "name"`. A
/// directive may stand behind a comment that began on an earlier line, so that the text behind every
/// end of a comment counts as well.
fn renames_lines(line: &str) -> bool {
    let ends = line.match_indices("*/").map(|(at, end)| at + end.len());
    std::iter::once(0).chain(ends).any(|begin| {
        let rest = skip_blanks(&line[begin..]);
        let Some(directive) = rest.strip_prefix('#').or_else(|| rest.strip_prefix("%:")) else {
            return false;
        };
        let directive = skip_blanks(directive);
        let rest = directive.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() < directive.len() {
            let rest = skip_blanks(rest);
            return rest.is_empty() || rest.starts_with('"');
        }
        directive
            .strip_prefix("line")
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

fn violation(line: &str) -> Option<(String, &'static str)> {
    const DATA: &str = "write the data as a constant array";
    if line.contains(".incbin") {
        return Some((".incbin reads files into the kernel".to_owned(), DATA));
    }
    if renames_lines(line) {
        return Some((
            "#line gives lines and files other names than those of the source".to_owned(),
            "remove it: messages and findings name the lines of the file",
        ));
    }
    let line = skip_blanks(line);
    let directive = line.strip_prefix('#').or_else(|| line.strip_prefix("%:"))?;
    let directive = skip_blanks(directive);
    if directive.starts_with("embed") {
        return Some(("#embed reads files into the kernel".to_owned(), DATA));
    }
    let target = skip_blanks(directive.strip_prefix("include")?).trim_end();
    let name = target
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .or_else(|| {
            target
                .strip_prefix('"')
                .and_then(|rest| rest.split_once('"'))
        })
        .map(|(name, _)| name);
    match name {
        None => Some((
            "an include that is not a literal file name".to_owned(),
            "write #include <name> or \"name\"",
        )),
        Some(name)
            if name.starts_with('/')
                || name.contains('\\')
                || name.split('/').any(|part| part == "..") =>
        {
            Some((
                format!("the include {name:?} leaves the header folders"),
                "include CUDA's headers or the task's own, by relative name",
            ))
        }
        Some(_) => None,
    }
}
