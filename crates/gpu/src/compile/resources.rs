//! What each kernel needs: from the assembler's report and the parameter lists in the PTX.

use std::collections::BTreeMap;

use domain::role::KernelResources;

/// What the assembler reported of one entry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Report {
    registers: u32,
    spill_bytes: u32,
    stack_bytes: u32,
    shared_bytes: u32,
    constant_bytes: u32,
}

/// A resource the assembler refused to give.
#[derive(Debug, PartialEq, Eq)]
pub struct Excess {
    /// The entry.
    pub kernel: String,
    /// The resource in words.
    pub resource: String,
    /// The most a kernel may use.
    pub limit: u64,
    /// What it asked for.
    pub found: u64,
}

/// The most static shared memory of a block on every architecture, bytes (CUDA C++ Programming
/// Guide, table of technical specifications: more must be asked for dynamically).
const STATIC_SHARED_LIMIT: u64 = 48 << 10;

/// The entries of a module in the order of its PTX.
pub fn kernels(log: &str, ptx: &str) -> Vec<KernelResources> {
    let reports = reports(log);
    entries(ptx)
        .into_iter()
        .map(|(kernel, parameters)| {
            let report = reports.get(kernel.as_str()).copied().unwrap_or_default();
            KernelResources {
                kernel,
                registers: report.registers,
                spill_bytes: report.spill_bytes,
                stack_bytes: report.stack_bytes,
                static_shared_bytes: report.shared_bytes,
                constant_bytes: report.constant_bytes,
                parameters,
            }
        })
        .collect()
}

/// The first resource beyond its limit. The assembler says it in words (`uses too much shared
/// data (0x12 bytes, 0xc000 max)`), or says nothing and only its figures show it.
pub fn excess(log: &str) -> Option<Excess> {
    log.lines().find_map(spoken_excess).or_else(|| {
        reports(log).into_iter().find_map(|(kernel, report)| {
            let found = u64::from(report.shared_bytes);
            (found > STATIC_SHARED_LIMIT).then(|| Excess {
                kernel: kernel.to_owned(),
                resource: "static shared memory".to_owned(),
                limit: STATIC_SHARED_LIMIT,
                found,
            })
        })
    })
}

fn spoken_excess(line: &str) -> Option<Excess> {
    let (head, rest) = line.split_once(" uses too much ")?;
    let (resource, figures) = rest.split_once(" (")?;
    let (found, rest) = figures.split_once(" bytes, ")?;
    let (limit, _) = rest.split_once(" max")?;
    let resource = match resource {
        "shared data" => "static shared memory",
        "global constant data" | "constant data" => "constant memory",
        "parameter space" => "parameter space",
        "local data" | "stack" => "stack memory",
        _ => "memory",
    };
    Some(Excess {
        kernel: head.split('\'').nth(1).unwrap_or("the kernel").to_owned(),
        resource: resource.to_owned(),
        limit: number(limit)?,
        found: number(found)?,
    })
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads the lines that `--ptxas-options=-v` adds. Properties of device functions follow the
/// entry that calls them and are already part of its totals.
fn reports(log: &str) -> BTreeMap<&str, Report> {
    let mut reports: BTreeMap<&str, Report> = BTreeMap::new();
    let mut entry = None;
    let mut function = None;
    for line in log.lines().filter(|line| line.starts_with("ptxas")) {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next();
            function = None;
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = Some(name.trim());
        } else if let Some(kernel) = entry {
            let report = reports.entry(kernel).or_default();
            if line.contains(" bytes stack frame") && function == Some(kernel) {
                report.stack_bytes = before(line, " bytes stack frame");
                report.spill_bytes =
                    before(line, " bytes spill stores") + before(line, " bytes spill loads");
            } else if line.contains(": Used ") {
                report.registers = before(line, " registers");
                report.shared_bytes = before(line, " bytes smem");
                report.stack_bytes = report
                    .stack_bytes
                    .max(before(line, " bytes cumulative stack size"));
                report.constant_bytes = line
                    .split(',')
                    .filter(|part| part.contains(" bytes cmem["))
                    .map(|part| before(part, " bytes cmem["))
                    .sum();
            }
        }
    }
    reports
}

/// The number that stands right before `unit`; 0 where the unit does not occur.
fn before(line: &str, unit: &str) -> u32 {
    line.split_once(unit)
        .and_then(|(head, _)| {
            head.rsplit(|character: char| !character.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

/// Every entry with the sizes of its parameters in bytes.
fn entries(ptx: &str) -> Vec<(String, Vec<u32>)> {
    let mut found = Vec::new();
    for piece in ptx.split(".entry ").skip(1) {
        let name_end = piece
            .find(|character: char| character == '(' || character.is_whitespace())
            .unwrap_or(piece.len());
        let (name, rest) = piece.split_at(name_end);
        let body = rest.find('{').unwrap_or(rest.len());
        let parameters = rest[..body]
            .split(".param ")
            .skip(1)
            .filter_map(parameter_bytes)
            .collect();
        found.push((name.to_owned(), parameters));
    }
    found
}

/// The size of one declaration: `.u64 name`, or `.align 8 .b8 name[16]` for a structure.
fn parameter_bytes(declaration: &str) -> Option<u32> {
    let end = declaration
        .find([',', ')', '\n'])
        .unwrap_or(declaration.len());
    let declaration = &declaration[..end];
    let bits: u32 = declaration
        .split_whitespace()
        .filter_map(|word| {
            let digits = word.trim_start_matches(|character: char| !character.is_ascii_digit());
            let is_type = [".b", ".u", ".s", ".f"]
                .iter()
                .any(|prefix| word.strip_prefix(prefix) == Some(digits));
            is_type.then(|| digits.parse().ok())?
        })
        .next()?;
    let count = declaration
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(Some(1), |(count, _)| count.parse().ok())?;
    Some(bits / 8 * count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 355 bytes gmem, 16 bytes cmem[3], 72 bytes cmem[4]
ptxas info    : Compiling entry function 'k2' for 'sm_89'
ptxas info    : Function properties for k2
ptxas         .     0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 38 registers, used 1 barriers, 512 bytes smem, 376 bytes cmem[0]
ptxas info    : Compiling entry function 'k1' for 'sm_89'
ptxas info    : Function properties for k1
ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 160 bytes cumulative stack size, 412 bytes cmem[0], 152 bytes cmem[2]
ptxas info    : Function properties for helper
ptxas         .     24 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
";
    const PTX: &str = "\
.visible .entry k1(
	.param .u64 .ptr .align 1 k1_param_0,
	.param .align 8 .b8 k1_param_1[16],
	.param .u8 k1_param_2,
	.param .f32 k1_param_3
)
.maxntid 128, 1, 1
{
	ld.param.u64 	%rd1, [k1_param_0];
}
.visible .entry k2()
{
	ret;
}
";

    #[test]
    fn reports_and_parameters_meet_at_the_entry() {
        let kernels = kernels(LOG, PTX);
        assert_eq!(
            kernels,
            [
                KernelResources {
                    kernel: "k1".to_owned(),
                    registers: 40,
                    spill_bytes: 0,
                    stack_bytes: 160,
                    static_shared_bytes: 0,
                    constant_bytes: 564,
                    parameters: vec![8, 16, 1, 4],
                },
                KernelResources {
                    kernel: "k2".to_owned(),
                    registers: 38,
                    spill_bytes: 12,
                    stack_bytes: 0,
                    static_shared_bytes: 512,
                    constant_bytes: 376,
                    parameters: vec![],
                },
            ]
        );
    }

    #[test]
    fn an_excess_is_found_in_words_or_in_figures() {
        let spoken = "ptxas error   : Entry function 'k' uses too much shared data (0xe020 bytes, 0xc000 max)";
        let silent = "\
ptxas info    : Compiling entry function 'k' for 'sm_89'
ptxas info    : Used 10 registers, used 1 barriers, 57376 bytes smem, 360 bytes cmem[0]";
        for log in [spoken, silent] {
            let excess = excess(log).unwrap();
            assert_eq!(
                (
                    excess.kernel.as_str(),
                    excess.resource.as_str(),
                    excess.limit,
                    excess.found
                ),
                ("k", "static shared memory", 49_152, 57_376)
            );
        }
        assert_eq!(super::excess(LOG), None);
    }
}
