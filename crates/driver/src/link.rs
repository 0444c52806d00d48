//! Linking of several PTX texts into one, as a device linker does it with machine code.
//!
//! Each text is split into its module-scope declarations. A local name that occurs in another text is renamed. An
//! external declaration is replaced by the definition that it refers to. Of several weak definitions the first is
//! kept. The linker does not interpret instructions: bodies are copied token by token.

mod scan;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use scan::{Declaration, Kind, Linkage, PtxText};

/// Functions that the machine itself implements.
const PROVIDED: [&str; 5] = ["vprintf", "__assertfail", "malloc", "free", "memset"];

/// PTX of functions that the CUDA compiler's device library defines, linked when a text uses one of them.
const RUNTIME: &str = include_str!("link/runtime.ptx");

/// The reason why texts cannot be linked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A text is not well-formed PTX at the level that linking reads.
    #[error("link part {part}: {reason}")]
    Malformed {
        /// Number of the text, from 1.
        part: usize,
        /// Description of the error.
        reason: String,
    },
    /// Two texts define a name that only one may define.
    #[error("link `{name}`: parts {first} and {second} define it")]
    Duplicate {
        /// The name.
        name: String,
        /// Number of the first text that defines it, from 1.
        first: usize,
        /// Number of the second text that defines it.
        second: usize,
    },
    /// A text uses a name that no text defines.
    #[error("link `{name}`, which part {part} declares external: no part defines it")]
    Unresolved {
        /// The name.
        name: String,
        /// Number of the text that uses it, from 1.
        part: usize,
    },
}

/// Links PTX texts. A single text that needs no other is checked for unresolved names and returned unchanged.
///
/// # Errors
/// When a text is malformed, a name is defined twice, or one is not defined at all.
pub fn link(parts: &[String]) -> Result<String, LinkError> {
    let mut texts = parts
        .iter()
        .enumerate()
        .map(|(index, text)| {
            PtxText::read(text).map_err(|reason| LinkError::Malformed {
                part: index + 1,
                reason,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut names = Names::collect(&texts)?;
    let runtime = PtxText::read(RUNTIME).expect("our own text is well-formed");
    let provides = |name: &str| runtime.declarations.iter().any(|d| d.name == name);
    if names.unresolved(&texts).any(|(_, name)| provides(name)) {
        texts.push(runtime);
        names = Names::collect(&texts)?;
    }
    if let Some((part, name)) = names.unresolved(&texts).next() {
        return Err(LinkError::Unresolved {
            name: name.to_owned(),
            part: part + 1,
        });
    }
    match (parts, texts.len()) {
        ([only], 1) => Ok(only.clone()),
        _ => Ok(names.merge(&texts)),
    }
}

/// Adds a limit of registers per thread (`.maxnreg`) to every kernel, as a compiler option does for a whole module.
#[must_use]
pub fn limit_registers(text: &str, most: u32) -> String {
    let Ok(read) = PtxText::read(text) else {
        // Loading this text will report the error.
        return text.to_owned();
    };
    let mut limited = String::with_capacity(text.len() + 64);
    let mut copied = 0;
    for body in read.declarations.iter().filter_map(|d| d.kernel_body) {
        limited.push_str(&text[copied..body]);
        let _ = writeln!(limited, ".maxnreg {most}");
        copied = body;
    }
    limited.push_str(&text[copied..]);
    limited
}

/// The definitions of the names in a link.
struct Names {
    /// The part (from 0) that defines each global name.
    defined: HashMap<String, usize>,
    /// Names that occur at module scope in more than one part.
    shared: HashSet<String>,
}

impl Names {
    fn collect(texts: &[PtxText<'_>]) -> Result<Self, LinkError> {
        let mut defined: HashMap<String, (usize, Linkage)> = HashMap::new();
        let mut first_use: HashMap<&str, usize> = HashMap::new();
        let mut shared = HashSet::new();
        for (part, text) in texts.iter().enumerate() {
            for declaration in &text.declarations {
                let name = declaration.name;
                if *first_use.entry(name).or_insert(part) != part {
                    shared.insert(name.to_owned());
                }
                if !declaration.defines || declaration.linkage == Linkage::Local {
                    continue;
                }
                match defined.get(name) {
                    None => {
                        defined.insert(name.to_owned(), (part, declaration.linkage));
                    }
                    Some((first, Linkage::Visible)) if declaration.linkage == Linkage::Visible => {
                        return Err(LinkError::Duplicate {
                            name: name.to_owned(),
                            first: first + 1,
                            second: part + 1,
                        });
                    }
                    // A strong definition replaces a weak one.
                    Some((_, Linkage::Weak)) if declaration.linkage == Linkage::Visible => {
                        defined.insert(name.to_owned(), (part, Linkage::Visible));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(Self {
            defined: defined
                .into_iter()
                .map(|(name, (part, _))| (name, part))
                .collect(),
            shared,
        })
    }

    /// Names that a part uses and no part defines, each with the part (from 0).
    fn unresolved<'t, 'a>(
        &'t self,
        texts: &'t [PtxText<'a>],
    ) -> impl Iterator<Item = (usize, &'a str)> + use<'t, 'a> {
        texts.iter().enumerate().flat_map(move |(part, text)| {
            text.declarations
                .iter()
                .filter(|d| {
                    d.linkage == Linkage::External
                        && d.needs_definition
                        && text.uses(d.name)
                        && !self.defined.contains_key(d.name)
                        && !PROVIDED.contains(&d.name)
                })
                .map(move |d| (part, d.name))
        })
    }

    /// Returns true if the merged text contains the declaration.
    fn keeps(&self, part: usize, declaration: &Declaration<'_>) -> bool {
        match (declaration.linkage, self.defined.get(declaration.name)) {
            (Linkage::Local, _) | (_, None) => true,
            // A function may be declared before its definition, but a variable may not be declared twice.
            (_, Some(_)) if !declaration.defines => declaration.kind == Kind::Function,
            (_, Some(definer)) => *definer == part,
        }
    }

    /// New names of a part's local declarations in the merged text, for those that have to change.
    fn local_names<'a>(&self, part: usize, text: &PtxText<'a>) -> HashMap<&'a str, String> {
        text.declarations
            .iter()
            .filter(|d| d.linkage == Linkage::Local && self.shared.contains(d.name))
            .map(|d| (d.name, format!("{}$part{}", d.name, part + 1)))
            .collect()
    }

    fn merge(&self, texts: &[PtxText<'_>]) -> String {
        let version = texts.iter().map(|text| text.version).max();
        let target = texts.iter().max_by_key(|text| text.architecture);
        let (major, minor) = version.unwrap_or((8, 0));
        let mut merged = format!(
            ".version {major}.{minor}\n.target {}\n.address_size 64\n",
            target.map_or("sm_80", |text| text.target)
        );
        let mut file_base = 0;
        let mut variables = String::new();
        let mut functions = String::new();
        let mut undefined = HashSet::new();
        for (part, text) in texts.iter().enumerate() {
            let renamed = self.local_names(part, text);
            for (number, rest) in &text.files {
                let _ = writeln!(merged, ".file {} {rest}", number + file_base);
            }
            for declaration in &text.declarations {
                let known = self.defined.contains_key(declaration.name);
                let first = known
                    || declaration.linkage == Linkage::Local
                    || undefined.insert(declaration.name);
                if !first || !self.keeps(part, declaration) {
                    continue;
                }
                let section = match declaration.kind {
                    Kind::Variable => &mut variables,
                    Kind::Function => &mut functions,
                };
                text.copy(declaration, &renamed, file_base, section);
                section.push('\n');
            }
            file_base += text
                .files
                .iter()
                .map(|(number, _)| number + 1)
                .max()
                .unwrap_or(0);
        }
        merged + &variables + &functions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn linked(parts: &[&str]) -> Result<String, LinkError> {
        let parts: Vec<String> = parts.iter().map(|part| format!("{HEAD}{part}")).collect();
        link(&parts)
    }

    fn lines(text: &str) -> Vec<&str> {
        text.lines()
            .filter(|line| !line.trim().is_empty())
            .collect()
    }

    #[test]
    fn one_text_stays_as_it_is() {
        let text = "// a comment\n.visible .entry k()\n{\nret;\n}\n";
        assert_eq!(linked(&[text]).unwrap(), format!("{HEAD}{text}"));
    }

    #[test]
    fn external_declarations_give_way_to_definitions() {
        let user = ".extern .global .align 4 .b8 table[80];\n.extern .func (.param .b32 r) twice (.param .b32 a);\n.visible .entry k()\n{\nmov.u64 %rd1, table;\ncall (r), twice, (a);\nret;\n}\n";
        let owner = ".visible .global .align 4 .b8 table[80] = {1, 2};\n.visible .func (.param .b32 r) twice (.param .b32 a)\n{\nret;\n}\n";
        let text = linked(&[user, owner]).unwrap();
        assert_eq!(text.matches("table[80]").count(), 1);
        let defined = text.find(".visible .global").expect("the definition stays");
        assert!(defined < text.find(".entry k").unwrap(), "before its use");
        assert_eq!(text.matches(".version").count(), 1);
    }

    #[test]
    fn local_names_of_two_texts_do_not_collide() {
        let part =
            ".global .align 4 .u32 count;\n.func add()\n{\nld.global.u32 %r1, [count];\nret;\n}\n";
        let text = linked(&[part, part]).unwrap();
        assert!(text.contains("[count$part1]") && text.contains("[count$part2]"));
        assert!(text.contains(".func add$part2("));
    }

    #[test]
    fn a_weak_definition_gives_way_and_two_strong_ones_are_refused() {
        let weak = ".weak .func f()\n{\ntrap;\n}\n";
        let strong = ".visible .func f()\n{\nret;\n}\n";
        let text = linked(&[weak, strong, weak]).unwrap();
        assert_eq!(lines(&text)[3..], [".visible .func f()", "{", "ret;", "}"]);
        assert_eq!(text.matches("trap").count(), 0);
        let refusal = LinkError::Duplicate {
            name: "f".into(),
            first: 1,
            second: 2,
        };
        assert_eq!(linked(&[strong, strong]), Err(refusal));
    }

    #[test]
    fn an_undefined_name_is_reported() {
        let user = ".extern .func gone();\n.visible .entry k()\n{\ncall gone;\nret;\n}\n";
        let refusal = LinkError::Unresolved {
            name: "gone".into(),
            part: 1,
        };
        assert_eq!(linked(&[user]), Err(refusal));
        // A declaration that no text uses, and a function that the device itself provides.
        assert!(linked(&[".extern .func gone();\n"]).is_ok());
        assert!(linked(&[&user.replace("gone", "vprintf")]).is_ok());
        // Dynamic shared memory has no definition in any text.
        let dynamic = ".extern .shared .align 16 .b8 all[];\n.visible .entry k()\n{\nmov.u32 %r1, all;\nret;\n}\n";
        assert!(linked(&[dynamic]).is_ok());
        let two = linked(&[dynamic, &dynamic.replace(".entry k", ".entry l")]).unwrap();
        assert_eq!(two.matches("all[]").count(), 1);
    }

    #[test]
    fn the_device_library_is_linked_when_it_is_used() {
        let user = ".extern .func (.param .b32 r) cudaCGSynchronize (.param .b64 a, .param .b32 b);\n.visible .entry k()\n{\ncall (r), cudaCGSynchronize, (a, b);\nret;\n}\n";
        let text = linked(&[user]).unwrap();
        assert!(text.contains(".visible .func (.param .b32 result) cudaCGSynchronize("));
        assert!(ptx::Module::parse(RUNTIME).is_ok());
    }

    #[test]
    fn source_lines_keep_their_files() {
        let first = ".file 1 \"a.cu\"\n.visible .entry k()\n{\n.loc 1 3 0\nret;\n}\n";
        let second = first.replace("a.cu", "b.cu").replace(" k(", " l(");
        let text = linked(&[first, &second]).unwrap();
        assert!(
            text.contains(".file 1 \"a.cu\"") && text.contains(".file 3 \"b.cu\""),
            "{text}"
        );
        assert!(
            text.contains(".loc 1 3 0") && text.contains(".loc 3 3 0"),
            "{text}"
        );
    }

    #[test]
    fn names_in_comments_and_texts_are_left_alone() {
        let part = "/* { count */\n.global .u32 count; // count }\n.visible .entry k()\n{\n.pragma \"count {\";\nret;\n}\n";
        let other = part.replace(" k(", " l(");
        let text = linked(&[part, &other]).unwrap();
        assert!(text.contains("\"count {\""));
    }

    #[test]
    fn every_kernel_gets_the_limit_on_registers() {
        let text = format!(
            "{HEAD}.visible .entry k()\n.maxntid 32, 1, 1\n{{\nret;\n}}\n.func f()\n{{\nret;\n}}\n"
        );
        let limited = limit_registers(&text, 38);
        assert!(
            limited.contains(".maxntid 32, 1, 1\n.maxnreg 38\n{"),
            "{limited}"
        );
        assert_eq!(limited.matches(".maxnreg").count(), 1);
    }

    #[test]
    fn malformed_texts_are_refused_with_their_part_number() {
        for part in [
            ".visible .entry k()\n{\n",
            ".global .u32 x",
            ".visible",
            "} ",
        ] {
            let refused = linked(&["", part]);
            assert!(
                matches!(refused, Err(LinkError::Malformed { part: 2, .. })),
                "{part:?}: {refused:?}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_linker_panic(texts in proptest::collection::vec("[.a-z(){};= \n\"/*\\[\\]]{0,80}", 1..3)) {
            let parts: Vec<String> = texts.iter().map(|text| format!("{HEAD}{text}")).collect();
            let _ = link(&parts);
            let _ = limit_registers(&parts[0], 9);
        }
    }
}
