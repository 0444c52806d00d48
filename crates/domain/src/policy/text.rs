//! The policy on a candidate's text: preprocessor lines that reach outside the given headers, and
//! changes outside the regions that the task's baseline leaves open.
//!
//! The compiler's jail holds without the first check; it exists to answer at once and with the
//! line.

use crate::candidate::KernelSource;
use crate::patch::outside_regions;
use crate::problem::Problem;
use crate::splice::logical_lines;

/// Finds the policy violations of a source, in line order.
pub fn find_violations(file: &str, source: &KernelSource, baseline: &KernelSource) -> Vec<Problem> {
    let text = source.text();
    let mut problems = Vec::new();
    for (offset, line) in logical_lines(text) {
        if let Some((message, fix)) = violation(&line) {
            problems.push(Problem::at(file, text, offset, message, fix));
        }
    }
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

fn violation(line: &str) -> Option<(String, &'static str)> {
    const DATA: &str = "write the data as a constant array";
    if line.contains(".incbin") {
        return Some((".incbin reads files into the kernel".to_owned(), DATA));
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
