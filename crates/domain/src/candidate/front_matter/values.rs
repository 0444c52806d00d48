//! Values of a front matter: integers, extents, names and element types, in the forms that authors
//! write.

use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeValue};

use super::FrontMatterReader;
use crate::dtype::Dtype;
use crate::expr::{Expr, ExprError};

/// The remedy for an expression that does not parse.
const EXPRESSION: &str = "an extent is an integer, or an expression in quotes over the task's dims, the \
                          tunables and SM_COUNT with + - * / %, cdiv(a, b), min, max, sizeof(type), \
                          parentheses, and a < b ? c : d, such as grid = [\"cdiv(N, 256)\", 1]";

impl FrontMatterReader<'_> {
    /// An expression; 1 where it is defective.
    pub(super) fn expr(&mut self, value: &Spanned<DeValue<'_>>) -> Expr {
        let start = value.span().start;
        let text = match value.get_ref() {
            DeValue::String(text) => text,
            other => {
                if let Some(number) = whole_number(other) {
                    if other.is_float() {
                        self.note(start, self.written(value), &number.to_string());
                    }
                    return Expr::constant(number);
                }
                let message = format!(
                    "an extent is an integer or an expression in quotes, not a {}",
                    other.type_str()
                );
                self.refuse(start, message, EXPRESSION);
                return Expr::constant(1);
            }
        };
        Expr::parse(text).unwrap_or_else(|error| {
            // A string's text begins one character after its opening quote.
            let inside = match &error {
                ExprError::Syntax { offset, .. } => offset + 1,
                _ => 0,
            };
            self.refuse(start + inside, error.to_string(), EXPRESSION);
            Expr::constant(1)
        })
    }

    /// One to three extents; missing ones are 1.
    pub(super) fn extents(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> [Expr; 3] {
        let start = value.span().start;
        let mut found = self.expressions(key, value);
        while found.len() > 3 && found.last().is_some_and(|last| last.text() == "1") {
            found.pop();
        }
        if found.is_empty() || found.len() > 3 {
            self.refuse(
                start,
                format!("{key} has {} extents", found.len()),
                format!("write {key} = [x], [x, y] or [x, y, z], such as {key} = [128]"),
            );
            found.truncate(3);
        }
        let mut found = found.into_iter();
        [(); 3].map(|()| found.next().unwrap_or_else(|| Expr::constant(1)))
    }

    /// A list of expressions: an array, one value alone, a list within quotes, or a table with `x`,
    /// `y` and `z`.
    pub(super) fn expressions(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Vec<Expr> {
        let start = value.span().start;
        let list = |texts: &[String]| format!("{key} = [{}]", texts.join(", "));
        match value.get_ref() {
            DeValue::Array(items) => items.iter().map(|item| self.expr(item)).collect(),
            DeValue::Table(table) => {
                let axes: Vec<_> = ["x", "y", "z"]
                    .iter()
                    .filter_map(|axis| table.iter().find(|(name, _)| name.get_ref() == axis))
                    .map(|(_, value)| self.expr(value))
                    .collect();
                if axes.len() != table.len() {
                    let fix = format!("write {key} = [x, y, z]");
                    self.refuse(start, format!("{key} is not a list of extents"), fix);
                }
                self.note(
                    start,
                    key,
                    &list(&axes.iter().map(quoted).collect::<Vec<_>>()),
                );
                axes
            }
            DeValue::String(text) => {
                let parts = parts(text);
                let found = match parts.as_slice() {
                    [one] if *one == text.as_ref() => vec![constant(self.expr(value))],
                    parts => {
                        let mut found = Vec::new();
                        for part in parts {
                            match Expr::parse(part) {
                                Ok(one) => found.push(constant(one)),
                                Err(error) => self.refuse(start, error.to_string(), EXPRESSION),
                            }
                        }
                        found
                    }
                };
                let written = format!("{key} = {}", self.written(value));
                self.note(
                    start,
                    &written,
                    &list(&found.iter().map(quoted).collect::<Vec<_>>()),
                );
                found
            }
            _ => {
                let one = self.expr(value);
                let written = format!("{key} = {}", self.written(value));
                self.note(start, &written, &list(&[quoted(&one)]));
                vec![one]
            }
        }
    }

    /// An integer: a number, a truth value, or a constant expression in quotes.
    pub(super) fn integer(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<i64> {
        let found = match value.get_ref() {
            DeValue::Boolean(truth) => Some(i64::from(*truth)),
            DeValue::String(text) => {
                let expression = Expr::parse(text).ok();
                expression.and_then(|expression| expression.integer(&Default::default()).ok())
            }
            other => whole_number(other),
        };
        let start = value.span().start;
        match found {
            Some(number) if !value.get_ref().is_integer() => {
                self.note(start, self.written(value), &number.to_string());
            }
            Some(_) => {}
            None => {
                let fix = format!("write {key} as a whole number, without quotes");
                self.refuse(start, format!("{key} is not a whole number"), fix);
            }
        }
        found
    }

    /// A text; a number or truth value in its place is taken as written.
    pub(super) fn text(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Array(_) | DeValue::Table(_) => {
                let fix = format!("write {key} = \"...\"");
                self.refuse(value.span().start, format!("{key} is not a text"), fix);
                None
            }
            _ => Some(self.written(value).to_owned()),
        }
    }

    /// An element type by its name here, in CUDA C++ or in Python's libraries.
    pub(super) fn dtype(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Dtype> {
        let name = self.text("dtype", value)?;
        let start = value.span().start;
        let Some(dtype) = dtype(&name) else {
            let message =
                format!("\"{name}\" is none of f16, bf16, f32, f64, i8, u8, i32, u32, i64");
            self.refuse(
                start,
                message,
                "write an element type, such as dtype = \"f32\"",
            );
            return None;
        };
        if dtype.to_string() != name {
            self.note(start, &name, &dtype.to_string());
        }
        Some(dtype)
    }
}

/// A whole number, also where it is written as a decimal.
fn whole_number(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => float(number)
            .filter(|value| value.fract() == 0.0 && value.abs() < 9e15)
            .map(|value| {
                #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
                let whole = value as i64;
                whole
            }),
        _ => None,
    }
}

/// The value of a number, whole or not.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "an expected speedup is small")]
        DeValue::Integer(number) => integer(number).map(|value| value as f64),
        DeValue::Float(number) => float(number),
        _ => None,
    }
}

pub(super) fn integer(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
}

pub(super) fn float(number: &DeFloat<'_>) -> Option<f64> {
    let value: f64 = number.as_str().replace('_', "").parse().ok()?;
    value.is_finite().then_some(value)
}

/// An expression of numbers alone as its value, because `(64)` means 64.
fn constant(expr: Expr) -> Expr {
    match expr.integer(&Default::default()) {
        Ok(value) => Expr::constant(value),
        Err(_) => expr,
    }
}

fn quoted(expr: &Expr) -> String {
    match expr.text().parse::<i64>() {
        Ok(number) => number.to_string(),
        Err(_) => format!("\"{expr}\""),
    }
}

/// The parts of a list in quotes: `N, 1`, `(N, 1)`, `[N, 1]`, `dim3(N, 1)`.
pub(super) fn parts(text: &str) -> Vec<&str> {
    let text = text.trim();
    let bare = text.strip_prefix("dim3").map_or(text, str::trim_start);
    let inside = [('(', ')'), ('[', ']'), ('{', '}')]
        .into_iter()
        .find_map(|(open, close)| bare.strip_prefix(open)?.strip_suffix(close));
    // The parentheses may be those of an expression: `(N + 1) / (2)`.
    let split_inside = inside.map(split).filter(|parts| {
        (parts.len() > 1 || bare.len() < text.len() || bare.starts_with('['))
            && parts.iter().all(|part| is_balanced(part))
    });
    split_inside.unwrap_or_else(|| split(text))
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let separates = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    let parts = text.split(separates).map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

fn dtype(name: &str) -> Option<Dtype> {
    let plain = name.trim().to_ascii_lowercase();
    let plain = plain.trim_start_matches("torch.").trim_start_matches("__");
    Some(match plain {
        "f16" | "half" | "fp16" | "float16" => Dtype::F16,
        "bf16" | "nv_bfloat16" | "bfloat16" => Dtype::Bf16,
        "f32" | "float" | "fp32" | "float32" | "single" => Dtype::F32,
        "f64" | "double" | "fp64" | "float64" => Dtype::F64,
        "i8" | "int8" | "int8_t" | "signed char" => Dtype::I8,
        "u8" | "uint8" | "uint8_t" | "unsigned char" | "byte" => Dtype::U8,
        "i32" | "int" | "int32" | "int32_t" => Dtype::I32,
        "u32" | "uint" | "uint32" | "uint32_t" | "unsigned" | "unsigned int" => Dtype::U32,
        "i64" | "int64" | "int64_t" | "long long" => Dtype::I64,
        _ => return None,
    })
}
