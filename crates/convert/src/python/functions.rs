//! Functions of elements, with the scale of the error that rounding causes in each.
//!
//! The scale of an input is its magnitude. A function passes on the scale of its operand times its
//! derivative, and at least the magnitude of its value; sums add the scales of their terms.

use super::graph::Function;

macro_rules! functions {
    ($($constant:ident $name:literal: $value:literal, $scale:expr;)*) => {
        $(pub(crate) static $constant: Function = Function { name: $name, value: $value, scale: $scale };)*
        /// All functions.
        static ALL: &[&Function] = &[$(&$constant),*];
    };
}

/// The scale of a function whose derivative is a text.
macro_rules! slope {
    ($derivative:literal) => {
        concat!("fmax(fabs($z), fabs(", $derivative, ") * $A)")
    };
}

functions! {
    ABS "abs": "fabs($a)", "$A";
    NEGATE "neg": "-$a", "$A";
    EXP "exp": "exp($a)", slope!("$z");
    EXPM1 "expm1": "expm1($a)", slope!("$z + 1");
    LOG "log": "log($a)", slope!("1 / $a");
    LOG1P "log1p": "log1p($a)", slope!("1 / (1 + $a)");
    SQRT "sqrt": "sqrt($a)", "fmax(fabs($z), fmin(0.5 * $A / $z, sqrt($A)))";
    RSQRT "rsqrt": "real_t(1) / sqrt($a)", slope!("0.5 * $z * $z * $z");
    SQUARE "square": "$a * $a", slope!("2 * $a");
    RECIPROCAL "reciprocal": "real_t(1) / $a", slope!("$z * $z");
    SIN "sin": "sin($a)", slope!("1.0");
    COS "cos": "cos($a)", slope!("1.0");
    TANH "tanh": "tanh($a)", slope!("1 - $z * $z");
    ERF "erf": "erf($a)", slope!("1.1283791670955126 * exp(-$a * $a)");
    // Its exponential is infinite in `f32` where the value is subnormal.
    SIGMOID "sigmoid": "real_t(1) / (real_t(1) + exp(-$a))", "fmax(fmax(fabs($z), 0x1p-102), fabs($z * (1 - $z)) * $A)";
    RELU "relu": "$a < real_t(0) ? real_t(0) : $a", "$A";
    RELU6 "relu6": "fmin(fmax($a, real_t(0)), real_t(6))", "$A";
    GELU "gelu": "real_t(0.5) * $a * (real_t(1) + erf($a * real_t(0.7071067811865476)))", slope!("1.2");
    GELU_TANH "gelu_tanh": "real_t(0.5) * $a * (real_t(1) + tanh(real_t(0.7978845608028654) * ($a + real_t(0.044715) * $a * $a * $a)))", slope!("1.2");
    SILU "silu": "$a / (real_t(1) + exp(-$a))", slope!("1.1");
    MISH "mish": "$a * tanh($a > real_t(20) ? $a : log1p(exp($a)))", slope!("1.1");
    SOFTPLUS "softplus": "$a > real_t(20) ? $a : log1p(exp($a))", slope!("1.0");
    SOFTSIGN "softsign": "$a / (real_t(1) + fabs($a))", slope!("1.0");
    SELU "selu": "real_t(1.0507009873554805) * ($a > real_t(0) ? $a : real_t(1.6732632423543772) * expm1($a))", slope!("1.8");
    ELU "elu": "$a > real_t(0) ? $a : $b * expm1($a)", "fmax(fabs($z), fmax(1.0, fabs($b)) * $A)";
    LEAKY_RELU "leaky_relu": "$a > real_t(0) ? $a : $b * $a", "fmax(1.0, fabs($b)) * $A";
    CLAMP "clamp": "fmin(fmax($a, $b), $c)", "$A";
    HARDSIGMOID "hardsigmoid": "fmin(fmax($a / real_t(6) + real_t(0.5), real_t(0)), real_t(1))", slope!("1.0");
    HARDSWISH "hardswish": "$a * fmin(fmax($a + real_t(3), real_t(0)), real_t(6)) / real_t(6)", slope!("1.5");
    LOGSIGMOID "logsigmoid": "fmin($a, real_t(0)) - log1p(exp(-fabs($a)))", slope!("1.0");
    TANHSHRINK "tanhshrink": "$a - tanh($a)", slope!("2.0");
    ADD "add": "$a + $b", "$A + $B";
    SUBTRACT "sub": "$a - $b", "$A + $B";
    MULTIPLY "mul": "$a * $b", "fmax(fabs($a) * $B, fabs($b) * $A)";
    DIVIDE "div": "$a / $b", "fmax($A, fabs($z) * $B) / fabs($b)";
    MAXIMUM "maximum": "fmax($a, $b)", "fmax($A, $B)";
    MINIMUM "minimum": "fmin($a, $b)", "fmax($A, $B)";
    POWER "pow": "pow($a, $b)", slope!("$z * $b / $a");
    LESS "lt": "real_t($a < $b)", "fabs($z)";
    AT_MOST "le": "real_t($a <= $b)", "fabs($z)";
    GREATER "gt": "real_t($a > $b)", "fabs($z)";
    AT_LEAST "ge": "real_t($a >= $b)", "fabs($z)";
    EQUAL "eq": "real_t($a == $b)", "fabs($z)";
    UNEQUAL "ne": "real_t($a != $b)", "fabs($z)";
    SELECT "where": "$a != real_t(0) ? $b : $c", "$a != 0 ? $B : $C";
}

/// A function of one operand and nothing else, by PyTorch's name.
pub(crate) fn unary(name: &str) -> Option<&'static Function> {
    let name = match name {
        "swish" => "silu",
        "negative" => "neg",
        "absolute" => "abs",
        other => other,
    };
    let own = |function: &&&Function| function.name == name && !function.value.contains("$b");
    ALL.iter().find(own).copied()
}

/// A function of two operands, by PyTorch's name or Python's operator.
pub(crate) fn binary(name: &str) -> Option<&'static Function> {
    Some(match name {
        "+" | "add" => &ADD,
        "-" | "sub" | "subtract" => &SUBTRACT,
        "*" | "mul" | "multiply" => &MULTIPLY,
        "/" | "div" | "divide" | "true_divide" => &DIVIDE,
        "maximum" => &MAXIMUM,
        "minimum" => &MINIMUM,
        "<" | "lt" => &LESS,
        "<=" | "le" => &AT_MOST,
        ">" | "gt" => &GREATER,
        ">=" | "ge" => &AT_LEAST,
        "==" | "eq" => &EQUAL,
        "!=" | "ne" => &UNEQUAL,
        _ => return None,
    })
}
