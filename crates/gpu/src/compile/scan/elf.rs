//! Reads sections and symbols of machine code.

use domain::digest::Digest;
use domain::role::{Variable, VariableSpace};
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, ElfSection64};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

/// Sections that describe the origin of the code and do not affect its execution.
const DESCRIPTIONS: [&str; 10] = [
    ".debug",
    ".nv_debug",
    ".rel.debug",
    ".rela.debug",
    ".rel.nv_debug",
    ".note",
    ".shstrtab",
    ".strtab",
    ".symtab",
    ".nv.rel.action",
];

/// The contents of machine code.
pub struct Image {
    /// Variables of the module. Whether they are written or managed is not known here.
    pub variables: Vec<Variable>,
    /// Symbols that the driver would have to resolve.
    pub undefined: Vec<String>,
    /// See [`super::Scan::code_digest`].
    pub code_digest: Digest,
}

/// Reads machine code; none if it is not well-formed.
pub fn read(cubin: &[u8]) -> Option<Image> {
    let file = ElfFile::<FileHeader64<LittleEndian>>::parse(cubin).ok()?;
    let mut variables = Vec::new();
    let mut undefined = Vec::new();
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { return None };
        if name.is_empty() || symbol.kind() == SymbolKind::Section {
            continue;
        }
        if symbol.is_undefined() {
            undefined.push(name.to_owned());
            continue;
        }
        let section = symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok());
        let Some((space, initialised)) = section.as_ref().and_then(storage) else {
            continue;
        };
        variables.push(Variable {
            name: name.to_owned(),
            bytes: symbol.size(),
            space,
            initialised,
            written: false,
            managed: false,
        });
    }
    Some(Image {
        variables,
        undefined,
        code_digest: code_digest(&file)?,
    })
}

/// The memory space of a section's variables, and true if they have initial values; none if the section has no
/// variables.
fn storage(section: &ElfSection64<'_, '_, LittleEndian>) -> Option<(VariableSpace, bool)> {
    let name = section.name().ok()?;
    if name == ".nv.global" || name.starts_with(".nv.global.") {
        let initialised = section.kind() != SectionKind::UninitializedData;
        return Some((VariableSpace::Global, initialised));
    }
    // Bank 3 holds the constants of the source; the other banks hold parameters, literals and addresses.
    (name == ".nv.constant3").then_some((VariableSpace::Constant, true))
}

fn code_digest(file: &ElfFile<'_, FileHeader64<LittleEndian>>) -> Option<Digest> {
    let mut parts = Vec::new();
    for section in file.sections() {
        let name = section.name().ok()?;
        if name.is_empty() || DESCRIPTIONS.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        parts.push(name.as_bytes().to_vec());
        parts.push(section.size().to_le_bytes().to_vec());
        parts.push(section.data().ok()?.to_vec());
    }
    Some(Digest::of_parts(parts.iter().map(Vec::as_slice)))
}
