//! Integer arithmetic as C++ writes it, reduced to what launch plans can say.

use std::collections::BTreeSet;

use domain::expr::Expr;
use tree_sitter::{Node, Parser};

/// Deepest substitution of names by their definitions.
const MAX_DEPTH: usize = 16;

/// An integer expression over names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Arith {
    Number(i64),
    /// A variable, a parameter, or a component such as `blockIdx.x`.
    Name(String),
    /// `+`, `-`, `*`, `/` or `%`.
    Binary(char, Box<Arith>, Box<Arith>),
    /// `cdiv`, `min` or `max`.
    Call(&'static str, Box<Arith>, Box<Arith>),
    /// C++ that has no form in a plan.
    Opaque(String),
}

impl Arith {
    /// Reads an expression of the syntax tree of `text`.
    pub fn read(node: Node<'_>, text: &str) -> Self {
        let source = || text[node.byte_range()].trim().to_owned();
        let field = |name: &str| node.child_by_field_name(name);
        match node.kind() {
            "number_literal" => {
                number(&source()).map_or_else(|| Self::Opaque(source()), Self::Number)
            }
            "identifier" => Self::Name(source()),
            // A template argument, and a variable in parentheses that the grammar takes for a type.
            "type_descriptor" | "type_identifier" | "parameter_declaration"
                if is_identifier(&source()) =>
            {
                Self::Name(source())
            }
            "true" => Self::Number(1),
            "false" => Self::Number(0),
            "field_expression" => {
                let base = field("argument").filter(|base| base.kind() == "identifier");
                match base {
                    Some(_) if source().matches('.').count() == 1 => Self::Name(source()),
                    _ => Self::Opaque(source()),
                }
            }
            "qualified_identifier" => {
                let last = source().rsplit("::").next().unwrap_or_default().to_owned();
                Self::Name(last)
            }
            "parenthesized_expression" => node
                .named_child(0)
                .map_or_else(|| Self::Opaque(source()), |inner| Self::read(inner, text)),
            "cast_expression" => field("value")
                .map_or_else(|| Self::Opaque(source()), |inner| Self::read(inner, text)),
            "sizeof_expression" => field("type")
                .and_then(|name| size_of_type(text[name.byte_range()].trim()))
                .map_or_else(|| Self::Opaque(source()), Self::Number),
            "binary_expression" => {
                let operator = field("operator").map(|node| &text[node.byte_range()]);
                let sides = field("left").zip(field("right"));
                let Some((operator, (left, right))) = operator.zip(sides) else {
                    return Self::Opaque(source());
                };
                let (left, right) = (Self::read(left, text), Self::read(right, text));
                match (operator, &right) {
                    ("+" | "-" | "*" | "/" | "%", _) => {
                        let operator = operator.chars().next().expect("it has one character");
                        Self::binary(operator, left, right)
                    }
                    ("<<", Self::Number(bits @ 0..=40)) => {
                        Self::binary('*', left, Self::Number(1 << bits))
                    }
                    (">>", Self::Number(bits @ 0..=40)) => {
                        Self::binary('/', left, Self::Number(1 << bits))
                    }
                    _ => Self::Opaque(source()),
                }
            }
            "call_expression" => Self::call(node, text).unwrap_or_else(|| Self::Opaque(source())),
            _ => Self::Opaque(source()),
        }
    }

    /// Reads an expression in the grammar of plans, which is one of C++ as well.
    pub fn from_plan(expression: &Expr) -> Self {
        let text = format!("int x = {};", expression.text());
        let mut parser = Parser::new();
        parser
            .set_language(&tree_sitter_cuda::LANGUAGE.into())
            .expect("the grammar and the parser have compatible versions");
        let tree = parser
            .parse(&text, None)
            .expect("parsing ends without a result only if it is cancelled");
        let mut node = tree.root_node();
        loop {
            if let Some(value) = node.child_by_field_name("value") {
                return Self::read(value, &text);
            }
            let declarator = node.child_by_field_name("declarator");
            match declarator.or_else(|| node.named_child(0)) {
                Some(inner) => node = inner,
                None => return Self::Opaque(expression.text().to_owned()),
            }
        }
    }

    /// Reads a cast, `min`, `max`, or a function whose name says that it divides and rounds up.
    fn call(node: Node<'_>, text: &str) -> Option<Self> {
        let function = node.child_by_field_name("function")?;
        let name = text[function.byte_range()].trim();
        let name = name.split('<').next()?.rsplit("::").next()?.trim();
        let list = node.child_by_field_name("arguments")?;
        let arguments = (0..list.named_child_count())
            .filter_map(|at| list.named_child(u32::try_from(at).ok()?))
            .map(|argument| Self::read(argument, text))
            .collect::<Vec<_>>();
        let casts = [
            "static_cast",
            "int",
            "unsigned",
            "size_t",
            "int64_t",
            "uint32_t",
            "long",
        ];
        let lower = name.to_lowercase().replace('_', "");
        let rounds_up = [
            "cdiv",
            "ceildiv",
            "divup",
            "divceil",
            "ceildivide",
            "divideup",
            "updiv",
        ];
        match <[Self; 2]>::try_from(arguments) {
            Ok([left, right]) => {
                let pair = (Box::new(left), Box::new(right));
                match name {
                    "min" => Some(Self::Call("min", pair.0, pair.1)),
                    "max" => Some(Self::Call("max", pair.0, pair.1)),
                    _ if rounds_up.contains(&lower.as_str()) => {
                        Some(Self::Call("cdiv", pair.0, pair.1))
                    }
                    _ => None,
                }
            }
            Err(mut one) if one.len() == 1 && casts.contains(&name) => one.pop(),
            Err(_) => None,
        }
    }

    /// An operation, computed where both sides are numbers.
    pub fn binary(operator: char, left: Self, right: Self) -> Self {
        if let (Self::Number(left), Self::Number(right)) = (&left, &right) {
            let value = match operator {
                '+' => left.checked_add(*right),
                '-' => left.checked_sub(*right),
                '*' => left.checked_mul(*right),
                '/' => left.checked_div(*right),
                _ => left.checked_rem(*right),
            };
            if let Some(value) = value {
                return Self::Number(value);
            }
        }
        match (operator, &left, &right) {
            ('*' | '/', _, Self::Number(1)) | ('+' | '-', _, Self::Number(0)) => left,
            ('*', Self::Number(1), _) | ('+', Self::Number(0), _) => right,
            _ => Self::Binary(operator, Box::new(left), Box::new(right)),
        }
    }

    /// Replaces names by their definitions, as far as `definition` has any.
    pub fn resolve(&self, definition: &dyn Fn(&str) -> Option<Self>) -> Self {
        self.resolve_at(definition, 0)
    }

    fn resolve_at(&self, definition: &dyn Fn(&str) -> Option<Self>, depth: usize) -> Self {
        let inner = |side: &Self| side.resolve_at(definition, depth);
        match self {
            Self::Name(name) if depth < MAX_DEPTH => match definition(name) {
                Some(value) => value.resolve_at(definition, depth + 1),
                None => self.clone(),
            },
            Self::Binary(operator, left, right) => {
                Self::binary(*operator, inner(left), inner(right))
            }
            Self::Call(function, left, right) => match (inner(left), inner(right)) {
                (Self::Number(left), Self::Number(right)) if right > 0 => {
                    Self::Number(match *function {
                        "min" => left.min(right),
                        "max" => left.max(right),
                        _ => (left + right - 1) / right,
                    })
                }
                (left, right) => Self::Call(function, Box::new(left), Box::new(right)),
            },
            _ => self.clone(),
        }
    }

    /// Names in the expression.
    pub fn names(&self) -> BTreeSet<String> {
        match self {
            Self::Name(name) => BTreeSet::from([name.clone()]),
            Self::Binary(_, left, right) | Self::Call(_, left, right) => {
                let mut names = left.names();
                names.append(&mut right.names());
                names
            }
            Self::Number(_) | Self::Opaque(_) => BTreeSet::new(),
        }
    }

    /// The C++ that has no form in a plan, if there is any.
    pub fn opaque(&self) -> Option<&str> {
        match self {
            Self::Opaque(text) => Some(text),
            Self::Binary(_, left, right) | Self::Call(_, left, right) => {
                left.opaque().or_else(|| right.opaque())
            }
            Self::Number(_) | Self::Name(_) => None,
        }
    }

    /// Recognises `(a + b - 1) / b` and the like as `cdiv(a, b)`.
    pub fn with_ceilings(&self) -> Self {
        match self {
            Self::Binary('/', left, right) => {
                let (left, right) = (left.with_ceilings(), right.with_ceilings());
                match rounded_up(&left, &right) {
                    Some(numerator) => Self::Call("cdiv", Box::new(numerator), Box::new(right)),
                    None => Self::binary('/', left, right),
                }
            }
            Self::Binary(operator, left, right) => {
                Self::binary(*operator, left.with_ceilings(), right.with_ceilings())
            }
            Self::Call(function, left, right) => Self::Call(
                function,
                Box::new(left.with_ceilings()),
                Box::new(right.with_ceilings()),
            ),
            _ => self.clone(),
        }
    }

    /// The text in the grammar of plans. [`Self::opaque`] must be none.
    pub fn to_plan(&self) -> String {
        self.write(0, &|function, left, right| {
            format!("{function}({left}, {right})")
        })
    }

    /// The text in C++.
    pub fn to_cpp(&self) -> String {
        self.write(0, &|function, left, right| match function {
            "cdiv" => format!("(({left}) + ({right}) - 1) / ({right})"),
            _ => format!("{function}({left}, {right})"),
        })
    }

    fn write(&self, outer: u8, call: &dyn Fn(&str, &str, &str) -> String) -> String {
        match self {
            Self::Number(value) => value.to_string(),
            Self::Name(name) => name.clone(),
            Self::Opaque(text) => text.clone(),
            Self::Binary(operator, left, right) => {
                let rank = if matches!(operator, '+' | '-') { 1 } else { 2 };
                let text = format!(
                    "{} {operator} {}",
                    left.write(rank, call),
                    right.write(rank + 1, call)
                );
                if rank < outer {
                    format!("({text})")
                } else {
                    text
                }
            }
            Self::Call(function, left, right) => {
                call(function, &left.write(0, call), &right.write(0, call))
            }
        }
    }
}

/// The `a` of a numerator `a + b - 1` or `a + (b - 1)` over the denominator `b`.
fn rounded_up(numerator: &Arith, denominator: &Arith) -> Option<Arith> {
    let less_one = |value: &Arith| match (value, denominator) {
        (Arith::Number(value), Arith::Number(denominator)) => value + 1 == *denominator,
        (Arith::Binary('-', left, right), _) => {
            **left == *denominator && **right == Arith::Number(1)
        }
        _ => false,
    };
    match numerator {
        Arith::Binary('+', left, right) if less_one(right) => Some((**left).clone()),
        Arith::Binary('-', left, one) if **one == Arith::Number(1) => match &**left {
            Arith::Binary('+', left, right) if **right == *denominator => Some((**left).clone()),
            _ => None,
        },
        _ => None,
    }
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn number(text: &str) -> Option<i64> {
    let text = text.replace('\'', "");
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// The size of a type by its name, bytes.
fn size_of_type(name: &str) -> Option<i64> {
    let name = name.trim_start_matches("const ").trim();
    Some(match name {
        "char" | "int8_t" | "uint8_t" | "bool" | "unsigned char" | "signed char" => 1,
        "half" | "__half" | "__nv_bfloat16" | "nv_bfloat16" | "short" => 2,
        "float" | "int" | "unsigned" | "unsigned int" | "int32_t" | "uint32_t" | "half2" => 4,
        "double" | "float2" | "int64_t" | "size_t" | "long long" => 8,
        "float4" | "int4" | "uint4" => 16,
        _ => return None,
    })
}
