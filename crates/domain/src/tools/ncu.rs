//! Parsers of Nsight Compute's output: a device's metrics, their values, and the reason why there are
//! none.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::{METRICS, MetricValues};
use crate::cleaning;

/// A kernel as the profiler saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiled {
    /// The kernel.
    pub kernel: String,
    /// Its values by our metrics' names.
    pub values: MetricValues,
}

/// The options of the profiler on this device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Nsight Compute's name for each of our metrics that the device has.
    pub names: BTreeMap<&'static str, &'static str>,
    /// Our metrics that it has not.
    pub missing: Vec<&'static str>,
}

/// Chooses among what `ncu --query-metrics` lists. Facts of the launch are never listed and always
/// there.
pub fn choose(query: &str) -> Choice {
    let listed = query
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.contains("__"))
        .collect::<BTreeSet<_>>();
    let has = |name: &str| {
        let base = name.split('.').next().unwrap_or(name);
        base.starts_with("launch__") || listed.contains(base) || listed.contains(name)
    };
    let mut choice = Choice {
        names: BTreeMap::new(),
        missing: Vec::new(),
    };
    for metric in METRICS {
        match metric.ncu.iter().find(|name| has(name)) {
            Some(name) => {
                choice.names.insert(metric.id, name);
            }
            None => choice.missing.push(metric.id),
        }
    }
    choice
}

/// Reads `--csv --page raw`: a row of names, a row of units, and a row for each kernel.
///
/// # Errors
/// One sentence that says what is wrong, with the fix where there is one.
pub fn read(log: &str, choice: &Choice) -> Result<Vec<Profiled>, String> {
    if let Some(trouble) = trouble(log) {
        return Err(trouble);
    }
    let mut rows = log
        .lines()
        .filter(|line| line.starts_with('"'))
        .map(cells)
        .skip_while(|cells| !cells.iter().any(|cell| cell == "Kernel Name"));
    let header = rows
        .next()
        .ok_or("the profiler printed no table: it saw no kernel")?;
    let column = |name: &str| header.iter().position(|cell| cell == name);
    let kernel = column("Kernel Name").ok_or("the profiler's table has no kernel names")?;
    let kernels = rows
        // The row of units has no kernel.
        .filter(|row| row.get(kernel).is_some_and(|name| !name.is_empty()))
        .map(|row| Profiled {
            kernel: cleaning::clean_name(&row[kernel]),
            values: choice
                .names
                .iter()
                .filter_map(|(id, name)| {
                    let cell = row.get(column(name)?)?;
                    Some(((*id).to_owned(), number(cell)?))
                })
                .collect(),
        })
        .collect::<Vec<_>>();
    if kernels.is_empty() {
        return Err("the profiler's table is empty: it saw no kernel".to_owned());
    }
    Ok(kernels)
}

/// The reason why the profiler gave nothing, if its log states one.
pub fn trouble(log: &str) -> Option<String> {
    if log.contains("ERR_NVGPUCTRPERM") {
        return Some(
            "the driver keeps performance counters from this user: run as root or with CAP_SYS_ADMIN, or load the kernel module with NVreg_RestrictProfilingToAdminUsers=0"
                .to_owned(),
        );
    }
    let line = log
        .lines()
        .find_map(|line| line.strip_prefix("==ERROR=="))?;
    Some(format!(
        "the profiler says: {}",
        cleaning::clean_line(line, cleaning::MESSAGE_CHARACTERS)
    ))
}

/// A number with thousands separators; "n/a" is none.
fn number(cell: &str) -> Option<f64> {
    let bare = cell.replace(',', "");
    bare.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// The cells of one line of CSV; quotes are doubled inside of quotes.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                push(&mut cells, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => push(&mut cells, c),
        }
    }
    cells
}

fn push(cells: &mut [String], c: char) {
    if let Some(cell) = cells.last_mut() {
        cell.push(c);
    }
}
