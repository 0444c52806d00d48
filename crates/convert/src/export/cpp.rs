//! Parts of the C++ form without logic: the image as arrays and the `CMakeLists.txt`.

use super::Export;

/// The image as byte arrays.
pub(super) fn image(export: &Export<'_>) -> String {
    let (capability, code) = export.machine_code.unwrap_or((0, &[]));
    let mut text = format!("static const int machine_code_capability = {capability};\n");
    // An array must not be empty.
    let code = if code.is_empty() { &[0] } else { code };
    text.push_str(&array("machine_code", code));
    let ptx = [export.ptx.trim_end_matches('\0').as_bytes(), &[0]].concat();
    text.push_str(&array("ptx", &ptx));
    text
}

fn array(name: &str, bytes: &[u8]) -> String {
    // The driver reads the header of machine code as 64-bit words.
    let mut text = format!("alignas(16) static const unsigned char {name}[] = {{");
    for (at, byte) in bytes.iter().enumerate() {
        text.push_str(if at % 24 == 0 { "\n    " } else { "" });
        text.push_str(&format!("{byte},"));
    }
    text.push_str("\n};\n");
    text
}

pub(super) fn cmake(name: &str) -> String {
    format!(
        "cmake_minimum_required(VERSION 3.18)\nproject({name} LANGUAGES CXX)\n\nadd_library({name} STATIC {name}.cpp)\n\
         target_compile_features({name} PUBLIC cxx_std_17)\n\
         target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})\n\n\
         # The driver's library: from a toolkit's stubs where there is no GPU, else as installed.\n\
         find_library(CUDA_DRIVER NAMES cuda libcuda.so.1 PATH_SUFFIXES stubs lib64/stubs REQUIRED)\n\
         target_link_libraries({name} PUBLIC ${{CUDA_DRIVER}})\n"
    )
}

/// Keywords of C++ that a task may use as a name.
const KEYWORDS: &[&str] = &[
    "alignas",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
];

/// The member of a struct for a dim or tensor: its name, with an underscore behind a keyword.
pub(super) fn member(name: &str) -> String {
    if KEYWORDS.contains(&name) {
        return format!("{name}_");
    }
    name.to_owned()
}
