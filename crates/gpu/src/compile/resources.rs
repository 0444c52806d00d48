//! Spills and refused resources, read from the assembler's messages.
//!
//! All other resources of a kernel are in the tables of the machine code (`crate::cubin`); spills are in no table.
//! The text passed here must be the assembler's own part of the log (`super::log::assembler_part`), because a source
//! can make the compiler print lines of any form.

use std::collections::BTreeMap;

use domain::cleaning;
use domain::role::KernelResources;

use super::log::is_continuation;

/// The assembler's report on one kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Report {
    spill_bytes: u32,
    shared_bytes: u32,
}

/// A resource of which a kernel needs more than the assembler allows.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourceExcess {
    /// The entry.
    pub kernel: String,
    /// The resource, in words.
    pub resource: String,
    /// The most that a kernel may use.
    pub limit: u64,
    /// The amount that the kernel needs.
    pub found: u64,
}

/// Most static shared memory of a block on every architecture, bytes (CUDA C++ Programming Guide, table of technical
/// specifications: more must be requested as dynamic shared memory).
const STATIC_SHARED_LIMIT: u64 = 48 << 10;

/// Adds the spills that the assembler reported to the resources from the tables of the machine code.
pub fn with_spills(kernels: Vec<KernelResources>, messages: &str) -> Vec<KernelResources> {
    let reports = reports(messages);
    let with_spills = |kernel: KernelResources| KernelResources {
        spill_bytes: reports
            .get(kernel.kernel.as_str())
            .map_or(0, |report| report.spill_bytes),
        ..kernel
    };
    kernels.into_iter().map(with_spills).collect()
}

/// The first resource beyond its limit. The assembler reports it in words (`uses too much shared data (0x12 bytes,
/// 0xc000 max)`), or only its figures show it.
pub fn excess(messages: &str) -> Option<ResourceExcess> {
    messages
        .lines()
        .filter(|line| !is_continuation(line))
        .find_map(spoken_excess)
        .or_else(|| {
            reports(messages).into_iter().find_map(|(kernel, report)| {
                let found = u64::from(report.shared_bytes);
                (found > STATIC_SHARED_LIMIT).then(|| ResourceExcess {
                    kernel: cleaning::clean_name(kernel),
                    resource: "static shared memory".to_owned(),
                    limit: STATIC_SHARED_LIMIT,
                    found,
                })
            })
        })
}

fn spoken_excess(line: &str) -> Option<ResourceExcess> {
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
    Some(ResourceExcess {
        kernel: cleaning::clean_name(head.split('\'').nth(1).unwrap_or("a_kernel")),
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

/// Reads the lines that `--ptxas-options=-v` adds. Properties of device functions follow the entry that calls them
/// and are included in its totals.
fn reports(messages: &str) -> BTreeMap<&str, Report> {
    let mut reports: BTreeMap<&str, Report> = BTreeMap::new();
    let mut entry = None;
    let mut function = None;
    for line in messages.lines() {
        let begins = !is_continuation(line);
        if begins && let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split('\'').next();
            function = None;
        } else if begins && let Some((_, name)) = line.split_once("Function properties for ") {
            function = Some(name.trim());
        } else if let Some(kernel) = entry {
            let report = reports.entry(kernel).or_default();
            if line.contains(" bytes stack frame") && function == Some(kernel) {
                report.spill_bytes =
                    before(line, " bytes spill stores") + before(line, " bytes spill loads");
            } else if begins && line.contains(": Used ") {
                report.shared_bytes = before(line, " bytes smem");
            }
        }
    }
    reports
}

/// The number directly before `unit`; 0 if the unit does not occur.
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
    #[test]
    fn spills_are_those_of_the_entry_and_not_of_functions_it_calls() {
        let kernel = |name: &str| KernelResources {
            kernel: name.to_owned(),
            registers: 40,
            spill_bytes: 0,
            stack_bytes: 160,
            static_shared_bytes: 0,
            constant_bytes: 564,
            parameters: vec![8],
        };
        let told = with_spills(vec![kernel("k1"), kernel("k2"), kernel("k3")], LOG);
        let spills = told.iter().map(|kernel| kernel.spill_bytes);
        assert_eq!(spills.collect::<Vec<_>>(), [0, 12, 0]);
        assert_eq!((told[0].registers, told[0].stack_bytes), (40, 160));
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
