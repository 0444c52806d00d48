//! Arguments of a launch: names, dims of another type, numbers and expressions.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FrontMatterReader;
use super::values::{float, integer, parts};
use crate::candidate::is_identifier;
use crate::dtype::Dtype;
use crate::expr::Expr;
use crate::plan::{Argument, Number};

const FORMS: &str = "an argument is the name of a tensor, workspace, dim or scalar in quotes, a number, or \
                     { dim = \"N\", as = \"i64\" }, such as args = [\"x\", \"y\", \"N\", 1.0]";

impl FrontMatterReader<'_> {
    /// The arguments of a launch.
    pub(super) fn arguments(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<Argument> {
        match value.get_ref() {
            DeValue::Array(items) => items
                .iter()
                .filter_map(|item| self.argument(item))
                .collect(),
            DeValue::String(list) => {
                let names = parts(list);
                let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                self.note(
                    value.span().start,
                    self.written(value),
                    &format!("[{}]", quoted.join(", ")),
                );
                let names = names.into_iter();
                names.filter_map(|name| self.named(value, name)).collect()
            }
            _ => {
                self.refuse(value.span().start, "args is not a list", FORMS);
                Vec::new()
            }
        }
    }

    fn argument(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Argument> {
        let start = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => self.named(value, text),
            DeValue::Integer(number) => Some(Argument::Number(Number::Whole {
                value: Expr::constant(integer(number)?),
                dtype: Dtype::I32,
            })),
            DeValue::Float(number) => Some(Argument::Number(Number::Real {
                value: float(number)?,
                dtype: Dtype::F32,
            })),
            DeValue::Table(table) => self.typed(start, table),
            other => {
                let message = format!("an argument cannot be a {}", other.type_str());
                self.refuse(start, message, FORMS);
                None
            }
        }
    }

    /// An argument in quotes: a name, a declaration that ends with it, or an expression.
    fn named(&mut self, value: &Spanned<DeValue<'_>>, text: &str) -> Option<Argument> {
        let start = value.span().start;
        let text = text.trim();
        if is_identifier(text) {
            return Some(Argument::Named(text.to_owned()));
        }
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || matches!(c, '*' | '&'))
            .filter(|word| !word.is_empty())
            .collect();
        if let Some((name, types)) = words.split_last()
            && is_identifier(name)
            && types.iter().all(|word| is_identifier(word))
        {
            self.note(start, self.written(value), &format!("\"{name}\""));
            return Some(Argument::Named((*name).to_owned()));
        }
        let decimal = text.trim_end_matches(['f', 'F']);
        if decimal.contains('.')
            && let Some(value) = decimal
                .parse::<f64>()
                .ok()
                .filter(|value| value.is_finite())
        {
            return Some(Argument::Number(Number::Real {
                value,
                dtype: Dtype::F32,
            }));
        }
        match Expr::parse(text) {
            Ok(value) => Some(Argument::Number(Number::Whole {
                value,
                dtype: Dtype::I32,
            })),
            Err(error) => {
                self.refuse(start, format!("{text:?} is no argument: {error}"), FORMS);
                None
            }
        }
    }

    /// An argument with its type: `{ dim = "N", as = "i64" }`, `{ value = 1.0, as = "f64" }`.
    fn typed(&mut self, start: usize, table: &DeTable<'_>) -> Option<Argument> {
        let mut dtype = None;
        let mut given = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "as" | "dtype" | "type" => dtype = Some(self.dtype(value)?),
                "dim" | "name" | "tensor" | "workspace" | "scalar" | "value" | "arg"
                | "literal"
                    if given.is_none() =>
                {
                    given = Some((key.get_ref().to_string(), value));
                }
                other => {
                    let message = format!("no key of an argument is called \"{other}\"");
                    self.refuse(key.span().start, message, FORMS);
                    return None;
                }
            }
        }
        let Some((key, value)) = given else {
            self.refuse(start, "the argument has no dim and no value", FORMS);
            return None;
        };
        if key == "dim" {
            let dim = self.text("dim", value)?;
            let dtype = dtype.unwrap_or(Dtype::I32);
            if !matches!(dtype, Dtype::I32 | Dtype::I64) {
                self.refuse(
                    start,
                    format!("a dim cannot be passed as {dtype}"),
                    format!("use i32 or i64: {{ dim = \"{dim}\", as = \"i64\" }}"),
                );
            }
            return Some(Argument::Dim { dim, dtype });
        }
        let argument = self.argument(value)?;
        match (argument, dtype) {
            (argument, None) => Some(argument),
            (Argument::Named(dim), Some(dtype @ Dtype::I64)) => Some(Argument::Dim { dim, dtype }),
            (Argument::Number(Number::Whole { value, .. }), Some(Dtype::I32 | Dtype::I64)) => {
                let dtype = dtype.unwrap_or(Dtype::I32);
                Some(Argument::Number(Number::Whole { value, dtype }))
            }
            (Argument::Number(number), Some(dtype @ (Dtype::F32 | Dtype::F64))) => {
                let value = match number {
                    Number::Real { value, .. } => Some(value),
                    Number::Whole { value, .. } => value.scalar(&Default::default()).ok(),
                };
                if value.is_none() {
                    self.refuse(start, "a real argument is a number", FORMS);
                }
                Some(Argument::Number(Number::Real {
                    value: value?,
                    dtype,
                }))
            }
            // A tensor has the type of the task, whatever its author adds.
            (named @ Argument::Named(_), Some(_)) => Some(named),
            (_, Some(dtype)) => {
                self.refuse(
                    start,
                    format!("a number cannot be passed as {dtype}"),
                    FORMS,
                );
                None
            }
        }
    }
}
