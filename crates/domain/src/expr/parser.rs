//! The parser of expressions: precedence, calls, comparisons and sizes of types.

use super::{BinaryOperator, ExprError, Function, Node};

/// The deepest nesting of parentheses and calls; protects the parser's stack from hostile input.
const MAX_DEPTH: usize = 32;

/// Comparisons, the longer ones first.
const COMPARISONS: &[(&str, BinaryOperator)] = &[
    ("<=", BinaryOperator::AtMost),
    (">=", BinaryOperator::AtLeast),
    ("==", BinaryOperator::Equal),
    ("!=", BinaryOperator::Unequal),
    ("<", BinaryOperator::Less),
    (">", BinaryOperator::Greater),
];

/// Bytes of the types that `sizeof` takes.
const SIZES: &[(&[&str], i64)] = &[
    (
        &["char", "signed char", "unsigned char", "int8_t", "uint8_t"],
        1,
    ),
    (
        &[
            "half",
            "__half",
            "__nv_bfloat16",
            "short",
            "unsigned short",
            "f16",
            "bf16",
        ],
        2,
    ),
    (
        &[
            "float",
            "int",
            "unsigned",
            "unsigned int",
            "half2",
            "__half2",
            "__nv_bfloat162",
            "f32",
            "i32",
            "u32",
            "int32_t",
            "uint32_t",
        ],
        4,
    ),
    (
        &[
            "double",
            "long long",
            "unsigned long long",
            "float2",
            "int2",
            "f64",
            "i64",
            "size_t",
        ],
        8,
    ),
    (&["float4", "int4", "uint4", "double2"], 16),
];

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Node, ExprError> {
    let mut parser = Parser {
        text,
        offset: 0,
        depth: 0,
    };
    let root = parser.choice()?;
    parser.skip_space();
    if parser.offset < text.len() {
        return Err(parser.unexpected("an operator or the end of the expression"));
    }
    Ok(root)
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    depth: usize,
}

impl Parser<'_> {
    fn choice(&mut self) -> Result<Node, ExprError> {
        let condition = self.comparison()?;
        if self.peek() != Some('?') {
            return Ok(condition);
        }
        self.offset += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let one = self.choice()?;
        self.expect(':')?;
        let other = self.choice()?;
        self.depth -= 1;
        Ok(Node::Choice(Box::new([condition, one, other])))
    }

    fn comparison(&mut self) -> Result<Node, ExprError> {
        let left = self.sum()?;
        self.skip_space();
        let rest = &self.text[self.offset..];
        let found = COMPARISONS.iter().find(|(text, _)| rest.starts_with(text));
        let Some((text, operator)) = found else {
            return Ok(left);
        };
        self.offset += text.len();
        Ok(Node::Binary(
            *operator,
            Box::new(left),
            Box::new(self.sum()?),
        ))
    }

    /// The size of a type in bytes, after the opening parenthesis of `sizeof`.
    fn size_of(&mut self, start: usize) -> Result<Node, ExprError> {
        let end = self.text[self.offset..].find(')');
        let name = end.map(|end| self.text[self.offset..self.offset + end].trim());
        let size = name.and_then(|name| SIZES.iter().find(|(names, _)| names.contains(&name)));
        let Some((_, bytes)) = size else {
            return Err(ExprError::Syntax {
                offset: start,
                message: "sizeof takes the name of a type, such as float or __half".to_owned(),
            });
        };
        self.offset += end.map_or(0, |end| end + 1);
        Ok(Node::Integer(*bytes))
    }

    fn sum(&mut self) -> Result<Node, ExprError> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                Some('+') => BinaryOperator::Add,
                Some('-') => BinaryOperator::Subtract,
                _ => return Ok(left),
            };
            self.offset += 1;
            left = Node::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Node, ExprError> {
        let mut left = self.factor()?;
        loop {
            let operator = match self.peek() {
                Some('*') => BinaryOperator::Multiply,
                Some('/') => BinaryOperator::Divide,
                Some('%') => BinaryOperator::Remainder,
                _ => return Ok(left),
            };
            self.offset += 1;
            // `//` is Python's division of integers.
            if operator == BinaryOperator::Divide && self.text[self.offset..].starts_with('/') {
                self.offset += 1;
            }
            left = Node::Binary(operator, Box::new(left), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Node, ExprError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep());
        }
        let node = match self.peek() {
            Some('-') => {
                self.offset += 1;
                Node::Negate(Box::new(self.factor()?))
            }
            Some('(') => {
                self.offset += 1;
                let inner = self.choice()?;
                self.expect(')')?;
                inner
            }
            Some(c) if c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.name_or_call()?,
            _ => return Err(self.unexpected("a number, a name, a call or a parenthesis")),
        };
        self.depth -= 1;
        Ok(node)
    }

    fn number(&mut self) -> Result<Node, ExprError> {
        let start = self.offset;
        self.take_while(|c| c.is_ascii_digit());
        let decimal = self.text[self.offset..].starts_with('.');
        if decimal {
            self.offset += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        let text = &self.text[start..self.offset];
        let node = if decimal {
            text.parse().ok().map(Node::Decimal)
        } else {
            text.parse().ok().map(Node::Integer)
        };
        node.ok_or_else(|| ExprError::Syntax {
            offset: start,
            message: format!("the number {text} does not fit 64 bits"),
        })
    }

    fn name_or_call(&mut self) -> Result<Node, ExprError> {
        let start = self.offset;
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        let name = self.text[start..self.offset].to_owned();
        if self.peek() != Some('(') {
            return Ok(Node::Name(name));
        }
        let plain: String = name.chars().filter(|c| *c != '_').collect();
        let (function, arity) = match plain.to_ascii_lowercase().as_str() {
            "cdiv" | "ceildiv" | "divceil" | "divup" | "divroundup" => (Function::CeilingDivide, 2),
            "ceil" => (Function::Ceiling, 1),
            "sizeof" => (Function::SizeOf, 1),
            "min" => (Function::Minimum, 2),
            "max" => (Function::Maximum, 2),
            "sqrt" => (Function::SquareRoot, 1),
            "exp2" => (Function::PowerOfTwo, 1),
            _ => {
                return Err(ExprError::Syntax {
                    offset: start,
                    message: format!(
                        "unknown function {name:?}; there are cdiv, min, max, sizeof, sqrt and exp2"
                    ),
                });
            }
        };
        self.expect('(')?;
        if function == Function::SizeOf {
            return self.size_of(start);
        }
        let mut arguments = vec![self.choice()?];
        while self.peek() == Some(',') {
            self.offset += 1;
            arguments.push(self.choice()?);
        }
        self.expect(')')?;
        // The least or greatest of more than two.
        while arguments.len() > 2 && matches!(function, Function::Minimum | Function::Maximum) {
            let rest = arguments.split_off(arguments.len() - 2);
            arguments.push(Node::Call(function, rest));
        }
        if let (Function::Ceiling, [Node::Binary(BinaryOperator::Divide, left, right)]) =
            (function, arguments.as_slice())
        {
            let parts = vec![left.as_ref().clone(), right.as_ref().clone()];
            return Ok(Node::Call(Function::CeilingDivide, parts));
        }
        if function == Function::Ceiling {
            return Err(ExprError::Syntax {
                offset: start,
                message: "ceil takes a quotient; write cdiv(a, b)".to_owned(),
            });
        }
        if arguments.len() != arity {
            return Err(ExprError::Syntax {
                offset: start,
                message: format!("{name} takes {arity} argument(s), not {}", arguments.len()),
            });
        }
        Ok(Node::Call(function, arguments))
    }

    fn skip_space(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, keep: impl Fn(char) -> bool) {
        let rest = &self.text[self.offset..];
        self.offset += rest.find(|c| !keep(c)).unwrap_or(rest.len());
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.offset..].chars().next()
    }

    fn expect(&mut self, wanted: char) -> Result<(), ExprError> {
        if self.peek() == Some(wanted) {
            self.offset += wanted.len_utf8();
            return Ok(());
        }
        Err(self.unexpected(&format!("'{wanted}'")))
    }

    fn too_deep(&self) -> ExprError {
        self.error(format!(
            "an expression nests at most {MAX_DEPTH} levels deep"
        ))
    }

    fn unexpected(&mut self, wanted: &str) -> ExprError {
        let found = self
            .peek()
            .map_or_else(|| "the end".to_owned(), |c| format!("{c:?}"));
        self.error(format!("expected {wanted}, found {found}"))
    }

    fn error(&self, message: String) -> ExprError {
        ExprError::Syntax {
            offset: self.offset,
            message,
        }
    }
}
