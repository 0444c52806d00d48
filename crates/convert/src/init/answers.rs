//! Facts that the owner of a kernel states, in place of guesses: `x=f16[R, C]`, `C=1024:multiple=8`.

use std::collections::BTreeMap;

use domain::dtype::Dtype;
use domain::expr::Expr;

/// Facts by name. Empty means: guess everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// Tensors by the name of their kernel parameter.
    pub tensors: BTreeMap<String, TensorAnswer>,
    /// Dims by name.
    pub dims: BTreeMap<String, DimAnswer>,
    /// The kernel, where the file has several.
    pub kernel: Option<String>,
    /// Blocks in x, y, z.
    pub grid: Option<Vec<Expr>>,
    /// Threads of a block in x, y, z.
    pub block: Option<Vec<Expr>>,
    /// Dynamic shared memory of a block, bytes.
    pub shared: Option<Expr>,
}

/// The type and shape of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorAnswer {
    /// Element type.
    pub dtype: Dtype,
    /// Extents, outermost first; empty where only the type is stated.
    pub shape: Vec<Expr>,
}

/// The values of a dim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DimAnswer {
    /// Value in the scored case.
    pub value: i64,
    /// The only value that the dim has.
    pub fixed: bool,
    /// Smallest value.
    pub min: Option<i64>,
    /// Largest value.
    pub max: Option<i64>,
    /// All values are multiples of this.
    pub multiple: Option<i64>,
}

const TYPES: [(&str, Dtype); 9] = [
    ("f16", Dtype::F16),
    ("bf16", Dtype::Bf16),
    ("f32", Dtype::F32),
    ("f64", Dtype::F64),
    ("i8", Dtype::I8),
    ("u8", Dtype::U8),
    ("i32", Dtype::I32),
    ("u32", Dtype::U32),
    ("i64", Dtype::I64),
];

impl TensorAnswer {
    /// Parses `NAME=DTYPE[EXTENT, ...]`, or `NAME=DTYPE` for the type alone.
    ///
    /// # Errors
    /// A sentence with the defect and the form that is expected.
    pub fn parse(text: &str) -> Result<(String, Self), String> {
        let form = "write NAME=DTYPE[EXTENT, ...], such as x=f32[R, C]";
        let (name, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} has no '='; {form}"))?;
        let (dtype, shape) = match rest.split_once('[') {
            Some((dtype, shape)) => {
                let shape = shape
                    .strip_suffix(']')
                    .ok_or_else(|| format!("{text:?} does not end in ']'; {form}"))?;
                (dtype, parse_list(shape)?)
            }
            None => (rest, Vec::new()),
        };
        let dtype = TYPES
            .iter()
            .find(|(known, _)| *known == dtype.trim())
            .map(|(_, dtype)| *dtype)
            .ok_or_else(|| {
                let known = TYPES.map(|(name, _)| name).join(", ");
                format!("{dtype:?} is no element type; there are {known}")
            })?;
        Ok((name.trim().to_owned(), Self { dtype, shape }))
    }
}

impl DimAnswer {
    /// Parses `NAME=VALUE`, with `:fixed`, `:min=N`, `:max=N` and `:multiple=N` after it.
    ///
    /// # Errors
    /// A sentence with the defect and the form that is expected.
    pub fn parse(text: &str) -> Result<(String, Self), String> {
        let form = "write NAME=VALUE, and after it :fixed, or :min=N, :max=N and :multiple=N";
        let (name, rest) = text
            .split_once('=')
            .ok_or_else(|| format!("{text:?} has no '='; {form}"))?;
        let number = |text: &str| {
            let value = text.trim().parse::<i64>().ok().filter(|value| *value >= 1);
            value.ok_or_else(|| format!("{text:?} is no integer of at least 1; {form}"))
        };
        let mut parts = rest.split(':');
        let mut answer = Self {
            value: number(parts.next().unwrap_or_default())?,
            ..Self::default()
        };
        for part in parts {
            match part.split_once('=') {
                None if part == "fixed" => answer.fixed = true,
                Some(("min", value)) => answer.min = Some(number(value)?),
                Some(("max", value)) => answer.max = Some(number(value)?),
                Some(("multiple", value)) => answer.multiple = Some(number(value)?),
                _ => return Err(format!("{part:?} is unknown; {form}")),
            }
        }
        Ok((name.trim().to_owned(), answer))
    }
}

/// Parses expressions separated by commas that stand outside parentheses.
///
/// # Errors
/// A sentence with the expression that has no meaning.
pub fn parse_list(text: &str) -> Result<Vec<Expr>, String> {
    let mut parts = vec![String::new()];
    let mut depth = 0_i32;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts
            .last_mut()
            .expect("there is always a part")
            .push(character);
    }
    parts
        .iter()
        .map(|part| {
            let part = part.trim();
            Expr::parse(part).map_err(|error| format!("{part:?}: {error}"))
        })
        .collect()
}
