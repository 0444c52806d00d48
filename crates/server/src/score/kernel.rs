//! A kernel's configuration as Kernel Tuner launches it: text, block, grid and arguments.
//!
//! The rules are those of its CUDA backends (`kernel_tuner.util.prepare_kernel_string`,
//! `get_grid_dimensions`): tunables are macros in front of the source, except unrolling factors,
//! which a pragma only takes as constants; a source without `extern "C"` is put into it; the grid
//! is the problem over the product of its divisors, rounded up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use domain::digest::Digest;
use domain::dtype::Dtype;
use domain::plan::ResolvedArgument;
use domain::role::{Distribution, Key, TensorData};
use domain::task::Role;
use serde::Deserialize;

/// Alignment of buffers: what CUDA promises of every allocation.
const ALIGN: u64 = 256;

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Argument {
    /// A buffer of so many elements.
    Buffer(Dtype, u64),
    /// A buffer with the numbers of a text file.
    File(Dtype, PathBuf),
    /// A number.
    Number(ResolvedArgument),
}

/// The most numbers that a file of an argument may hold.
const MAX_NUMBERS: usize = 1 << 20;

impl TryFrom<String> for Argument {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Argument {
    type Err = String;

    /// Reads `f32*4096` as a buffer, `f32@shifts.txt` as one with a file's numbers, and `i32=4096` as a number; extents
    /// may be several, such as `f32*4096*4096`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is neither a buffer, such as f32*4096*4096 or f32@values.txt, nor a number, such as i32=4096"
            )
        };
        let dtype = |name: &str| {
            let name = serde_json::Value::String(name.to_owned());
            serde_json::from_value::<Dtype>(name).map_err(|_| wrong())
        };
        if let Some((name, file)) = text.split_once('@') {
            return Ok(Self::File(dtype(name)?, PathBuf::from(file)));
        }
        if let Some((name, value)) = text.split_once('=') {
            let number = match dtype(name)? {
                Dtype::I32 => value.parse().map(ResolvedArgument::I32).ok(),
                Dtype::U32 => value
                    .parse::<u32>()
                    .map(|value| ResolvedArgument::I32(value.cast_signed()))
                    .ok(),
                Dtype::I64 => value.parse().map(ResolvedArgument::I64).ok(),
                Dtype::F32 => value.parse().map(ResolvedArgument::F32).ok(),
                Dtype::F64 => value.parse().map(ResolvedArgument::F64).ok(),
                Dtype::F16 | Dtype::Bf16 | Dtype::I8 | Dtype::U8 => None,
            };
            return number.map(Self::Number).ok_or_else(wrong);
        }
        let (name, extents) = text.split_once('*').ok_or_else(wrong)?;
        let elements = extents
            .split('*')
            .try_fold(1_u64, |product, extent| {
                product.checked_mul(extent.parse().ok()?)
            })
            .filter(|elements| *elements > 0)
            .ok_or_else(wrong)?;
        Ok(Self::Buffer(dtype(name)?, elements))
    }
}

/// The arguments of a launch with its buffers.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// The arguments as a launch takes them.
    pub list: Vec<ResolvedArgument>,
    /// The buffers that they name, with random content.
    pub buffers: Vec<TensorData>,
    /// The content of buffers that come from files, by name.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl Arguments {
    /// Reads the files of the arguments. Relative paths begin at `folder`.
    ///
    /// # Errors
    /// A message that names the file, and the line that holds no number.
    pub fn read(list: &[Argument], folder: &Path) -> Result<Self, String> {
        let mut read = Self {
            list: Vec::new(),
            buffers: Vec::new(),
            values: BTreeMap::new(),
        };
        for (index, argument) in list.iter().enumerate() {
            let name = format!("argument {index}");
            let (dtype, elements) = match argument {
                Argument::Number(number) => {
                    read.list.push(number.clone());
                    continue;
                }
                Argument::Buffer(dtype, elements) => (*dtype, *elements),
                Argument::File(dtype, path) => {
                    let values = numbers(&folder.join(path))?;
                    let elements = values.len() as u64;
                    read.values.insert(name.clone(), values);
                    (*dtype, elements)
                }
            };
            read.buffers.push(TensorData {
                name: name.clone(),
                dtype,
                extents: vec![elements],
                role: Role::Inout,
                align: ALIGN,
                distribution: Distribution::Positive,
                key: Key(Digest::of(&name)),
                alteration: None,
            });
            read.list.push(ResolvedArgument::Buffer(name));
        }
        Ok(read)
    }
}

/// The numbers of a text file, which white space or commas separate.
fn numbers(path: &Path) -> Result<Vec<f64>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("read {shown}: {error}"))?;
    let mut numbers = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.split(|c: char| c.is_whitespace() || c == ',');
        for word in words.filter(|word| !word.is_empty()) {
            let number = word.parse().map_err(|_| {
                format!("read {shown}: line {line} has {word:?}, which is no number")
            })?;
            numbers.push(number);
        }
    }
    if numbers.is_empty() || numbers.len() > MAX_NUMBERS {
        return Err(format!(
            "read {shown}: it has {} numbers; 1 to {MAX_NUMBERS} are possible",
            numbers.len()
        ));
    }
    Ok(numbers)
}

/// The rule by which a kernel's block and grid follow from its tunables.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    /// The tunables of the block's extents.
    pub block: [String; 3],
    /// The problem's extents.
    pub problem: Vec<u64>,
    /// For each axis the tunables or numbers whose product divides the problem; none is the
    /// block's own.
    pub divisors: [Option<Vec<String>>; 3],
}

impl Geometry {
    /// Block and grid of a configuration.
    ///
    /// # Errors
    /// A message that names the missing or wrong value.
    pub fn resolve(
        &self,
        values: &BTreeMap<String, String>,
    ) -> Result<([u32; 3], [u32; 3]), String> {
        let extent = |name: &String, default: u64| match values.get(name) {
            Some(value) => value
                .parse::<u64>()
                .map_err(|_| format!("the tunable {name} is {value}, no whole number")),
            None => Ok(default),
        };
        let mut block = [1; 3];
        let mut grid = [1; 3];
        for axis in 0..3 {
            let own = extent(&self.block[axis], if axis == 0 { 256 } else { 1 })?;
            block[axis] = u32::try_from(own).map_err(|_| format!("a block of {own} threads"))?;
            let Some(problem) = self.problem.get(axis) else {
                continue;
            };
            let divisor = match &self.divisors[axis] {
                None => extent(&self.block[axis], 1)?,
                Some(names) => names.iter().try_fold(1_u64, |product, name| {
                    let factor = match name.parse() {
                        Ok(number) => number,
                        Err(_) if values.contains_key(name) => extent(name, 1)?,
                        Err(_) => return Err(format!("there is no tunable {name}")),
                    };
                    product
                        .checked_mul(factor)
                        .filter(|product| *product > 0)
                        .ok_or_else(|| format!("the divisor {name} is {factor}"))
                })?,
            };
            let blocks = problem.div_ceil(divisor.max(1));
            grid[axis] = u32::try_from(blocks).map_err(|_| format!("a grid of {blocks} blocks"))?;
        }
        Ok((block, grid))
    }
}

/// The text that is compiled for a configuration with this block, whose extents have these names,
/// and this grid.
pub fn text(
    source: &str,
    values: &BTreeMap<String, String>,
    (names, block): (&[String; 3], [u32; 3]),
    grid: [u32; 3],
) -> String {
    let mut text = String::new();
    for (name, extent) in ["x", "y", "z"].into_iter().zip(grid) {
        let _ = writeln!(text, "#define grid_size_{name} {extent}");
    }
    for (name, extent) in names.iter().zip(block) {
        if !values.contains_key(name) {
            let _ = writeln!(text, "#define {name} {extent}");
        }
    }
    let _ = writeln!(text, "#define kernel_tuner 1");
    let mut body = source.to_owned();
    for (name, value) in values {
        if !name.contains("loop_unroll_factor") {
            let _ = writeln!(text, "#define {name} {value}");
        } else if value == "0" {
            body = without_pragma(&body, name);
        } else {
            let _ = writeln!(text, "constexpr int {name} = {value};");
        }
    }
    if body.contains("extern \"C\"") {
        let _ = write!(text, "#line 1\n{body}");
    } else {
        let _ = write!(text, "extern \"C\" {{\n#line 1\n{body}\n}}\n");
    }
    text
}

/// Leaves the compiler to decide about a loop whose unrolling factor is 0.
fn without_pragma(source: &str, factor: &str) -> String {
    let lines = source.split_inclusive('\n').map(|line| {
        let mut words = line.split_whitespace();
        let unrolls = words.next() == Some("#pragma")
            && words.next() == Some("unroll")
            && words.next() == Some(factor);
        if unrolls { "\n" } else { line }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn names() -> [String; 3] {
        ["block_size_x", "block_size_y", "block_size_z"].map(str::to_owned)
    }

    #[test]
    fn arguments_are_buffers_or_numbers() {
        for (text, expected) in [
            ("f32*4096", Argument::Buffer(Dtype::F32, 4096)),
            ("f16*64*64", Argument::Buffer(Dtype::F16, 4096)),
            ("i32=-7", Argument::Number(ResolvedArgument::I32(-7))),
            (
                "u32=4294967295",
                Argument::Number(ResolvedArgument::I32(-1)),
            ),
            ("f32=0.5", Argument::Number(ResolvedArgument::F32(0.5))),
            ("i32@a=b.txt", Argument::File(Dtype::I32, "a=b.txt".into())),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "f32",
            "f32*0",
            "f33*4",
            "i32=x",
            "f16=1",
            "f32*4*y",
            "f32*18446744073709551615*2",
            "f33@values.txt",
        ] {
            assert!(text.parse::<Argument>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_of_a_file_are_separated_by_white_space_and_commas() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.txt");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let list = [
                Argument::Number(ResolvedArgument::I32(1)),
                Argument::File(Dtype::F32, path.clone()),
            ];
            Arguments::read(&list, Path::new(""))
        };
        let arguments = read("1.5, 2\n\n-3e2\t4,").unwrap();
        assert_eq!(arguments.buffers[0].extents, [4]);
        let values = &arguments.values[&arguments.buffers[0].name];
        assert_eq!(values, &[1.5, 2.0, -300.0, 4.0]);
        assert_eq!(arguments.list.len(), 2);

        for (text, word) in [("1\n2 x", "line 2 has \"x\""), (" \n", "0 numbers")] {
            let reason = read(text).unwrap_err();
            assert!(reason.contains(word), "{reason}");
            assert!(reason.contains("values.txt"), "{reason}");
        }
        let absent = Argument::File(Dtype::F32, folder.path().join("absent.txt"));
        let reason = Arguments::read(&[absent], Path::new("")).unwrap_err();
        assert!(reason.contains("absent.txt"), "{reason}");
    }

    #[test]
    fn the_grid_is_the_problem_over_its_divisors() {
        let divided = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect());
        let geometry = Geometry {
            block: names(),
            problem: vec![4096, 100],
            divisors: [divided(&["block_size_x", "tile_size_x"]), None, None],
        };
        let tunables = values(&[
            ("block_size_x", "32"),
            ("block_size_y", "8"),
            ("tile_size_x", "5"),
        ]);
        // 4096 over 160 is 25.6, 100 over 8 is 12.5.
        assert_eq!(geometry.resolve(&tunables), Ok(([32, 8, 1], [26, 13, 1])));
        let plain = Geometry {
            problem: vec![1000],
            divisors: [None, None, None],
            ..geometry.clone()
        };
        assert_eq!(plain.resolve(&values(&[])), Ok(([256, 1, 1], [1000, 1, 1])));
        let strange = Geometry {
            divisors: [divided(&["missing"]), None, None],
            ..geometry
        };
        assert_eq!(
            strange.resolve(&tunables),
            Err("there is no tunable missing".to_owned())
        );
    }

    #[test]
    fn tunables_stand_in_front_and_lines_count_as_the_author_counts_them() {
        let source = "#pragma unroll loop_unroll_factor_t\n#pragma unroll\n__global__ void k() {}";
        let with = |factor: &str| {
            let tunables = values(&[("block_size_x", "64"), ("loop_unroll_factor_t", factor)]);
            text(source, &tunables, (&names(), [64, 1, 1]), [2, 1, 1])
        };
        let unrolled = with("4");
        for line in [
            "#define grid_size_x 2",
            "#define block_size_x 64",
            "#define block_size_y 1",
            "constexpr int loop_unroll_factor_t = 4;",
            "extern \"C\" {",
        ] {
            assert!(
                unrolled.lines().any(|found| found == line),
                "{line}\n{unrolled}"
            );
        }
        assert!(unrolled.ends_with(&format!("#line 1\n{source}\n}}\n")));
        assert!(with("0").contains("#line 1\n\n#pragma unroll\n"));
        let named = text(
            "extern \"C\" __global__ void k() {}",
            &values(&[]),
            (&names(), [1; 3]),
            [1; 3],
        );
        assert!(!named.contains("extern \"C\" {"));
    }
}
