//! The text of a program without the names of its local variables.

use std::collections::BTreeMap;

/// Words after which a name is declared.
const TYPES: &[&str] = &[
    "auto",
    "bool",
    "char",
    "double",
    "float",
    "int",
    "long",
    "short",
    "signed",
    "unsigned",
    "float2",
    "float3",
    "float4",
    "int2",
    "int3",
    "int4",
    "uint2",
    "uint3",
    "uint4",
    "half",
    "half2",
    "__half",
    "__half2",
    "__nv_bfloat16",
    "__nv_bfloat162",
    "size_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
];

/// Words and signs that may stand between a type and the name.
const BETWEEN: &[&str] = &["*", "&", "const", "volatile", "__restrict__", "__restrict"];

/// Code that is [normalized](super::normalized) with parameters and local variables named by the order in which they
/// first occur, as `@0`, `@1` and so on, which no C++ name can be.
///
/// Programs with the same result differ in such names only. A name is kept unless each of its uses stands where a
/// declaration of it holds, so that none can mean something of a header or of file scope; and where a directive, a
/// member or a name of `macros` is written alike. Keeping a name is always right: it only tells two texts apart.
pub(super) fn with_numbered_locals<'a>(
    code: &str,
    macros: impl IntoIterator<Item = &'a String>,
) -> String {
    let tokens = tokens(code);
    let mut names: BTreeMap<&str, Name> = BTreeMap::new();
    for name in macros {
        names.entry(name).or_default().is_kept = true;
    }
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Directive => {
                // Pasted tokens make names that no token shows.
                if token.text.contains("##") {
                    return code.to_owned();
                }
                for word in words(token.text) {
                    names.entry(word).or_default().is_kept = true;
                }
            }
            Kind::Word => {
                let name = names.entry(token.text).or_default();
                if is_word_of_language(token.text) || is_member(&tokens, at) {
                    name.is_kept = true;
                } else if let Some(end) = declared_until(&tokens, at) {
                    name.holds_until = name.holds_until.max(end);
                } else if at >= name.holds_until {
                    name.is_kept = true;
                }
            }
            Kind::Other => {}
        }
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut numbered = String::with_capacity(code.len());
    for token in &tokens {
        let is_local = token.kind == Kind::Word
            && names
                .get(token.text)
                .is_some_and(|name| !name.is_kept && name.holds_until > 0);
        numbered.push_str(token.space);
        if is_local {
            let next = numbers.len();
            let number = numbers.entry(token.text).or_insert(next);
            numbered.push_str(&format!("@{number}"));
        } else {
            numbered.push_str(token.text);
        }
    }
    numbered
}

/// The uses of a name up to some token.
#[derive(Default)]
struct Name {
    /// The token before which its last declaration ends to hold.
    holds_until: usize,
    /// It has a use that is not known to mean a local variable.
    is_kept: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An identifier or a keyword.
    Word,
    /// A line that begins with `#`.
    Directive,
    /// A number, a literal or one character.
    Other,
}

struct Token<'a> {
    kind: Kind,
    /// The white space before it.
    space: &'a str,
    text: &'a str,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = code;
    let mut begins_line = true;
    while !rest.is_empty() {
        let blank = rest.len() - rest.trim_start().len();
        let (space, text) = rest.split_at(blank);
        begins_line |= space.contains('\n');
        let Some(first) = text.chars().next() else {
            break;
        };
        let (kind, length) = if first == '#' && begins_line {
            (Kind::Directive, text.find('\n').unwrap_or(text.len()))
        } else if first == '"' || first == '\'' {
            let length = super::normalized::literal(text, first);
            (Kind::Other, length.unwrap_or(text.len()))
        } else if is_of_word(first) {
            let end = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
            let kind = if first.is_ascii_digit() {
                Kind::Other
            } else {
                Kind::Word
            };
            (kind, end)
        } else {
            (Kind::Other, first.len_utf8())
        };
        begins_line = false;
        let (text, after) = text.split_at(length);
        tokens.push(Token { kind, space, text });
        rest = after;
    }
    tokens
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || character == '$'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_of_word(c))
        .filter(|word| !word.is_empty())
}

/// Returns true for words that stand where a name could, such as `int` in `unsigned int`, and for names that compilers
/// reserve.
fn is_word_of_language(word: &str) -> bool {
    TYPES.contains(&word) || BETWEEN.contains(&word) || word == "operator" || word.starts_with("__")
}

/// Returns true if the name belongs to an object, a type or a namespace, or is a designator.
fn is_member(tokens: &[Token<'_>], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|at| tokens[at].text);
    before(1) == Some(".")
        || (before(2) == Some("-") && before(1) == Some(">"))
        || (before(2) == Some(":") && before(1) == Some(":"))
}

/// The token before which a declaration ends to hold, if the name at `at` is declared there as a parameter or a local
/// variable.
fn declared_until(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let is_declared = matches!(
        tokens.get(at + 1)?.text,
        "=" | ";" | "," | "[" | ")" | "{" | ":"
    );
    let mut before = tokens[..at].iter().rev();
    let type_word = before.find(|token| !BETWEEN.contains(&token.text))?;
    if !is_declared || !TYPES.contains(&type_word.text) {
        return None;
    }
    // Outwards: a parenthesis that is open makes it a parameter or the variable of a loop.
    let mut depth = 0_usize;
    for token in tokens[..at].iter().rev() {
        match token.text {
            ")" | "}" => depth += 1,
            "(" | "{" if depth > 0 => depth -= 1,
            "(" => return Some(end_of_statement(tokens, at)),
            "{" => return Some(end_of_group(tokens, at)),
            _ => {}
        }
    }
    None
}

/// The end of the block or the parentheses that the token at `from` stands in.
fn end_of_group(tokens: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "(" | "{" => depth += 1,
            ")" | "}" if depth == 0 => return at,
            ")" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

/// The end of the block or the statement that follows the parentheses in which the token at `from` stands.
fn end_of_statement(tokens: &[Token<'_>], from: usize) -> usize {
    let mut at = end_of_group(tokens, from) + 1;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" | "}" => return at,
            "{" => return end_of_group(tokens, at + 1),
            "(" => at = end_of_group(tokens, at + 1) + 1,
            _ => at += 1,
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(code: &str) -> String {
        with_numbered_locals(code, &["N".to_owned()])
    }

    #[test]
    fn programs_that_differ_in_names_of_locals_are_one() {
        let cases = [
            (
                "void k(const float* x, int n) { for (int i = 0; i < n; ++i) y(x[i]); }",
                "void k(const float* in, int len) { for (int j = 0; j < len; ++j) y(in[j]); }",
            ),
            (
                "void k() { __shared__ float tile[32]; float4 v{}; tile[0] = v.x; }",
                "void k() { __shared__ float rows[32]; float4 w{}; rows[0] = w.x; }",
            ),
            (
                "void k() { auto f = [&](int a) { return a + 1; }; f(1); }",
                "void k() { auto f = [&](int b) { return b + 1; }; f(1); }",
            ),
            (
                "void k(float s) { if (s > 0) { float s = 1; g(s); } }",
                "void k(float t) { if (t > 0) { float t = 1; g(t); } }",
            ),
        ];
        for (one, other) in cases {
            assert_eq!(numbered(one), numbered(other));
        }
    }

    #[test]
    fn programs_that_differ_in_more_stay_apart() {
        let cases = [
            // Other variables are used.
            (
                "void k(int a, int b) { g(a, b); }",
                "void k(int a, int b) { g(b, a); }",
            ),
            // The name means something of file scope before and after.
            (
                "void k() { { int a = 1; g(a); } g(a); }",
                "void k() { { int b = 1; g(b); } g(b); }",
            ),
            (
                "void k() { g(a); int a = 1; }",
                "void k() { g(b); int b = 1; }",
            ),
            (
                "void k() { for (int a = 0; a < 4; ++a) g(a); g(a); }",
                "void k() { for (int b = 0; b < 4; ++b) g(b); g(b); }",
            ),
            (
                "int a = 1; void k() { g(a); }",
                "int b = 1; void k() { g(b); }",
            ),
            // A word of a type is no name.
            (
                "void k(float* y) { y[0] = (unsigned int)g(); }",
                "void k(float* y) { y[0] = (unsigned char)g(); }",
            ),
            (
                "float g(float* __restrict__, float);",
                "float g(float* const, float);",
            ),
            // Members, directives and macros keep their names.
            (
                "void k(float x) { g(x, p.x); }",
                "void k(float y) { g(y, p.x); }",
            ),
            (
                "#define AT(i) data[i]\nvoid k(int data) { g(AT(0)); }",
                "#define AT(i) data[i]\nvoid k(int other) { g(AT(0)); }",
            ),
            ("void k() { int N = 1; }", "void k() { int M = 1; }"),
            (
                "#define P(a) a##1\nvoid k(int a, int a1) { g(P(a)); }",
                "#define P(a) a##1\nvoid k(int b, int a1) { g(P(b)); }",
            ),
        ];
        for (one, other) in cases {
            assert_ne!(numbered(one), numbered(other));
        }
    }

    #[test]
    fn a_text_without_locals_stays_as_it_is() {
        let code = "#include <mma.h>\nconstexpr int A = 1;\nvoid k() { g(\"int a;\", 'a', 1.0f); }";
        assert_eq!(numbered(code), code);
    }
}
