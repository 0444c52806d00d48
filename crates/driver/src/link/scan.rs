//! Splits a PTX text into module-scope declarations, to the detail that linking needs.

use std::collections::HashMap;

/// The linkage of a declaration: the texts that may refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Visible in its own text only.
    Local,
    /// Visible in all texts.
    Visible,
    /// Visible in all texts; a strong definition takes precedence.
    Weak,
    /// Refers to the definition in another text.
    External,
}

/// The kind of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Variable,
    Function,
}

/// One module-scope declaration.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    pub(super) name: &'a str,
    pub(super) linkage: Linkage,
    pub(super) kind: Kind,
    /// True if this is a definition, false if it only declares the name.
    pub(super) defines: bool,
    /// True if some text has to define the name. Dynamic shared memory needs no definition because the launch
    /// provides it.
    pub(super) needs_definition: bool,
    /// Byte offset of a kernel's body in the text.
    pub(super) kernel_body: Option<usize>,
    /// Indices of the declaration's tokens.
    tokens: std::ops::Range<usize>,
}

/// A PTX text and its declarations.
#[derive(Debug)]
pub(super) struct PtxText<'a> {
    pub(super) version: (u32, u32),
    /// The text of the `.target` directive.
    pub(super) target: &'a str,
    /// The architecture number of the target.
    pub(super) architecture: u32,
    /// Source files: number, and the rest of the directive's line.
    pub(super) files: Vec<(u32, &'a str)>,
    pub(super) declarations: Vec<Declaration<'a>>,
    source: &'a str,
    tokens: Vec<Token<'a>>,
    /// Number of occurrences of each word.
    words: HashMap<&'a str, u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    /// Byte offset in the source.
    at: usize,
}

/// Splits a text into words, dotted words, quoted texts and single characters. Comments are dropped.
fn tokens(source: &str) -> Result<Vec<Token<'_>>, String> {
    let bytes = source.as_bytes();
    let mut list = Vec::new();
    let mut at = 0;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%');
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = if rest.starts_with(b"//") {
            at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            continue;
        } else if rest.starts_with(b"/*") {
            let end = rest.windows(2).skip(2).position(|pair| pair == b"*/");
            at += end.ok_or("a comment does not end")? + 4;
            continue;
        } else if rest[0].is_ascii_whitespace() {
            at += 1;
            continue;
        } else if rest[0] == b'"' {
            let end = rest.iter().skip(1).position(|&b| b == b'"');
            end.ok_or("a quoted text does not end")? + 2
        } else {
            // A leading dot belongs to the word after it.
            let dot = usize::from(rest[0] == b'.');
            let word = rest[dot..].iter().take_while(|&&b| is_word(b)).count();
            // A character that is not ASCII is kept whole; its first byte tells its length.
            let mark = match rest[0] {
                byte if byte.is_ascii() => 1,
                _ => source[at..].chars().next().map_or(1, char::len_utf8),
            };
            if word == 0 { mark } else { dot + word }
        };
        list.push(Token {
            text: &source[at..at + length],
            at,
        });
        at += length;
    }
    Ok(list)
}

impl<'a> PtxText<'a> {
    /// Reads a text. The error describes what is malformed.
    pub(super) fn read(source: &'a str) -> Result<Self, String> {
        let tokens = tokens(source)?;
        let mut words = HashMap::new();
        for token in &tokens {
            *words.entry(token.text).or_insert(0) += 1;
        }
        let mut text = Self {
            version: (0, 0),
            target: "",
            architecture: 0,
            files: Vec::new(),
            declarations: Vec::new(),
            source,
            tokens,
            words,
        };
        let mut at = 0;
        while at < text.tokens.len() {
            at = text.item(at)?;
        }
        Ok(text)
    }

    /// Returns true if a word occurs anywhere besides its one declaration.
    pub(super) fn uses(&self, word: &str) -> bool {
        self.words.get(word).is_some_and(|&count| count > 1)
    }

    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn number(&self, at: usize) -> Result<u32, String> {
        let text = self.token(at);
        text.trim_start_matches('.')
            .parse()
            .map_err(|_| format!("`{text}` is no number"))
    }

    /// The text from the end of a token to the end of its line.
    fn line_after(&self, at: usize) -> &'a str {
        let Some(token) = self.tokens.get(at) else {
            return "";
        };
        let rest = &self.source[token.at + token.text.len()..];
        rest.lines().next().unwrap_or("").trim()
    }

    /// Index of the first token on a later line than this one.
    fn next_line(&self, at: usize) -> usize {
        let end = self.tokens.get(at).map_or(self.source.len(), |token| {
            let rest = &self.source[token.at..];
            token.at + rest.find('\n').unwrap_or(rest.len())
        });
        self.tokens.partition_point(|token| token.at < end)
    }

    /// Reads one directive or declaration and returns the index of the token after it.
    fn item(&mut self, at: usize) -> Result<usize, String> {
        match self.token(at) {
            ".version" => {
                self.version = (self.number(at + 1)?, self.number(at + 2)?);
                Ok(at + 3)
            }
            ".target" => {
                self.target = self.line_after(at).split("//").next().unwrap_or("").trim();
                let digits: String = self
                    .token(at + 1)
                    .chars()
                    .filter(char::is_ascii_digit)
                    .collect();
                self.architecture = digits.parse().unwrap_or(0);
                Ok(self.next_line(at))
            }
            ".address_size" => Ok(at + 2),
            ".file" => {
                self.files
                    .push((self.number(at + 1)?, self.line_after(at + 1)));
                Ok(self.next_line(at))
            }
            // Debug information refers to the labels and files of its own text, so it is dropped.
            ".section" => {
                let open = self.find(at, "{")?;
                self.closing(open)
            }
            ".pragma" | ".alias" => Ok(self.find(at, ";")? + 1),
            ";" => Ok(at + 1),
            word if word.starts_with('.') => self.declaration(at),
            word => Err(format!("`{word}` starts no declaration")),
        }
    }

    fn find(&self, from: usize, mark: &str) -> Result<usize, String> {
        (from..self.tokens.len())
            .find(|&at| self.token(at) == mark)
            .ok_or_else(|| format!("`{mark}` is missing"))
    }

    /// Index of the token after the brace that closes this one.
    fn closing(&self, open: usize) -> Result<usize, String> {
        let mut depth = 0_u32;
        for at in open..self.tokens.len() {
            match self.token(at) {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(at + 1);
            }
        }
        Err("a brace is not closed".into())
    }

    fn declaration(&mut self, start: usize) -> Result<usize, String> {
        let mut linkage = Linkage::Local;
        let mut at = start;
        loop {
            linkage = match self.token(at) {
                ".visible" => Linkage::Visible,
                ".extern" => Linkage::External,
                ".weak" | ".common" => Linkage::Weak,
                _ => break,
            };
            at += 1;
        }
        match self.token(at) {
            word @ (".entry" | ".func") => self.function(start, at, linkage, word == ".entry"),
            ".global" | ".const" | ".shared" | ".tex" => self.variable(start, at, linkage),
            word => Err(format!("`{word}` declares nothing")),
        }
    }

    fn function(
        &mut self,
        start: usize,
        at: usize,
        linkage: Linkage,
        kernel: bool,
    ) -> Result<usize, String> {
        let mut name = at + 1;
        while self.token(name).starts_with('.') {
            name += 1;
        }
        if self.token(name) == "(" {
            name = self.find(name, ")")? + 1;
        }
        let end = (name..self.tokens.len())
            .find(|&at| matches!(self.token(at), "{" | ";"))
            .ok_or("a function has no end")?;
        let defines = self.token(end) == "{";
        let after = if defines { self.closing(end)? } else { end + 1 };
        self.declarations.push(Declaration {
            name: self.token(name),
            linkage,
            kind: Kind::Function,
            defines,
            needs_definition: true,
            kernel_body: (kernel && defines).then(|| self.tokens[end].at),
            tokens: start..after,
        });
        Ok(after)
    }

    fn variable(&mut self, start: usize, at: usize, linkage: Linkage) -> Result<usize, String> {
        let end = self.find(at, ";")?;
        // The name is the last word before a size, an initial value or the end.
        let stop = (at..=end)
            .find(|&at| matches!(self.token(at), "[" | "=" | ";"))
            .unwrap_or(end);
        let name = stop.checked_sub(1).map_or("", |before| self.token(before));
        if name.is_empty() || name.starts_with('.') {
            return Err(format!("`{name}` is no variable's name"));
        }
        self.declarations.push(Declaration {
            name,
            linkage,
            kind: Kind::Variable,
            defines: linkage != Linkage::External,
            needs_definition: self.token(at) != ".shared",
            kernel_body: None,
            tokens: start..end + 1,
        });
        Ok(end + 1)
    }

    /// Copies a declaration into `to`, with names replaced and the numbers of its source files increased by
    /// `file_base`.
    pub(super) fn copy(
        &self,
        declaration: &Declaration<'_>,
        renamed: &HashMap<&str, String>,
        file_base: u32,
        to: &mut String,
    ) {
        let tokens = &self.tokens[declaration.tokens.clone()];
        let mut copied = tokens.first().map_or(0, |token| token.at);
        for (index, token) in tokens.iter().enumerate() {
            let before = index.checked_sub(1).map_or("", |index| tokens[index].text);
            to.push_str(&self.source[copied..token.at]);
            match renamed.get(token.text) {
                Some(name) => to.push_str(name),
                None => match token.text.parse::<u32>() {
                    Ok(file) if matches!(before, ".loc" | "inlined_at") => {
                        to.push_str(&(file + file_base).to_string());
                    }
                    _ => to.push_str(token.text),
                },
            }
            copied = token.at + token.text.len();
        }
    }
}
