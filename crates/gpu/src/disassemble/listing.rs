//! Parser of the listing of NVIDIA's disassembler: counts of instructions, and uses of features that a policy covers.
//!
//! The text has a section `.text.NAME` for each function, with one instruction per line after its address as a
//! comment. Before instructions of another source line there is a comment with that line; of several such comments
//! the last is the outermost of inlined calls. The names of instructions are in the manual of the CUDA binary
//! utilities, "Instruction Set Reference".

use std::collections::BTreeMap;
use std::fmt::Write as _;

use domain::policy::Feature;
use domain::role::{FeatureUse, KernelCode};

/// Most uses kept of each feature: one is enough to refuse, a few help to find them.
const MAX_USES: usize = 8;
/// Most names of instructions that are counted; the listing has fewer.
const MAX_NAMES: usize = 256;

/// Most bytes of instructions that are kept as text. A reply of a role has room for them.
const MAX_SASS_BYTES: usize = 512 << 10;

/// The content of a listing.
pub(super) struct Listing {
    pub kernels: Vec<KernelCode>,
    /// Uses of features besides arithmetic.
    pub uses: Vec<FeatureUse>,
    /// The text of [`Disassembly::sass`](domain::role::Disassembly).
    pub sass: String,
}

/// Reads a listing. Lines are counted in the file whose name is `source`.
pub(super) fn read(listing: &str, source: &str) -> Listing {
    let mut kernels: Vec<KernelCode> = Vec::new();
    let mut uses: Vec<FeatureUse> = Vec::new();
    let mut sass = String::new();
    let mut left_out = 0_u32;
    let mut line: Option<u32> = None;
    for text in listing.lines().map(str::trim) {
        if let Some(name) = section(text) {
            line = None;
            _ = writeln!(sass, "{name}:");
            kernels.push(KernelCode {
                kernel: name.to_owned(),
                instructions: 0,
                tensor: 0,
                mix: BTreeMap::new(),
            });
        } else if let Some(place) = text.strip_prefix("//## File ") {
            line = own_line(place, source);
        } else if let Some((opcode, operands)) = instruction(text)
            && let Some(kernel) = kernels.last_mut()
        {
            count(kernel, opcode);
            if sass.len() < MAX_SASS_BYTES {
                let number = line.map(|line| line.to_string()).unwrap_or_default();
                _ = writeln!(sass, "{number}\t{}", words(text));
            } else {
                left_out += 1;
            }
            let Some((feature, what)) = feature(opcode, operands) else {
                continue;
            };
            let found = FeatureUse {
                feature,
                what: what.to_owned(),
                line,
            };
            let seen = uses.iter().filter(|one| one.feature == feature).count();
            if seen < MAX_USES && !uses.contains(&found) {
                uses.push(found);
            }
        }
    }
    if left_out > 0 {
        _ = writeln!(sass, "\t// {left_out} further instructions");
    }
    Listing {
        kernels,
        uses,
        sass,
    }
}

/// An instruction with its predicate, without its address and the end mark.
fn words(text: &str) -> &str {
    let (_, rest) = text.split_once("*/").unwrap_or_default();
    rest.trim().trim_end_matches(';').trim_end()
}

/// The release of the tool, such as "V13.5.37".
pub(super) fn release(version: &str) -> String {
    let number = version.split([' ', ',', '\n']).find(|word| {
        let digits = word.strip_prefix('V').unwrap_or_default();
        digits.starts_with(|c: char| c.is_ascii_digit())
    });
    format!("nvdisasm {}", number.unwrap_or("of an unknown release"))
}

/// The name of the function whose section begins here.
fn section(text: &str) -> Option<&str> {
    text.strip_prefix(".text.")?.strip_suffix(':')
}

/// The line of the source in a location: `"FILE", line N`, perhaps followed by the location it was inlined at.
fn own_line(place: &str, source: &str) -> Option<u32> {
    let outermost = place.rsplit(" inlined at ").next()?;
    let (file, rest) = outermost.strip_prefix('"')?.split_once('"')?;
    let own = file.rsplit('/').next() == Some(source);
    let number = rest.trim_start_matches(", line ").trim();
    number.parse().ok().filter(|_| own)
}

/// Name and operands of an instruction, without its predicate.
fn instruction(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.strip_prefix("/*")?.split_once("*/")?;
    let mut rest = rest.trim().trim_end_matches(';').trim_end();
    if let Some(predicated) = rest.strip_prefix('@') {
        rest = predicated.split_once(char::is_whitespace)?.1.trim_start();
    }
    let (opcode, operands) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let name = opcode.starts_with(|c: char| c.is_ascii_uppercase());
    name.then_some((opcode, operands.trim()))
}

fn count(kernel: &mut KernelCode, opcode: &str) {
    let base = base(opcode);
    // Padding of the last line of the instruction cache.
    if base == "NOP" {
        return;
    }
    kernel.instructions += 1;
    kernel.tensor += u32::from(multiplies_matrices(base));
    if kernel.mix.len() < MAX_NAMES || kernel.mix.contains_key(base) {
        *kernel.mix.entry(base.to_owned()).or_default() += 1;
    }
}

fn base(opcode: &str) -> &str {
    opcode.split('.').next().unwrap_or(opcode)
}

/// True for HMMA, IMMA, DMMA, BMMA and QMMA, and their warp-group forms HGMMA, IGMMA, QGMMA and BGMMA. HFMA2.MMA is
/// an ordinary instruction.
fn multiplies_matrices(base: &str) -> bool {
    base.ends_with("MMA") && base != "MMA"
}

/// The feature that an instruction uses, and the part of the instruction that shows it.
fn feature<'a>(opcode: &'a str, operands: &'a str) -> Option<(Feature, &'a str)> {
    let base = base(opcode);
    let has = |modifier: &str| opcode.split('.').any(|part| part == modifier);
    let by_name = match base {
        _ if multiplies_matrices(base) => Some(Feature::TensorOperations),
        "NANOSLEEP" => Some(Feature::Sleep),
        "PREEXIT" | "ACQBULK" => Some(Feature::ProgrammaticLaunch),
        "PMTRIG" => Some(Feature::Breakpoints),
        "BPT" if !has("TRAP") => Some(Feature::Breakpoints),
        "CCTL" | "UCCTL" if ["PF1", "PF1.5", "PF2", "RML2"].into_iter().any(has) => {
            Some(Feature::CacheHints)
        }
        "LD" | "LDG" | "ST" | "STG" | "ATOM" | "ATOMG" | "RED" if has("EL") => {
            Some(Feature::CacheHints)
        }
        _ => None,
    };
    if let Some(feature) = by_name {
        return Some((feature, opcode));
    }
    let register = operands
        .split([',', ' '])
        .find(|operand| operand.starts_with("SR_"))?;
    let feature = match register {
        _ if ["SR_CLOCK", "SR_GLOBALTIMER", "SR_PM"]
            .into_iter()
            .any(|start| register.starts_with(start)) =>
        {
            Feature::ClockReads
        }
        "SR_VIRTUALSMID" | "SR_VIRTID" | "SR_SMID" | "SR_WARPID" => Feature::PlacementReads,
        _ => return None,
    };
    Some((feature, register))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_distinguished_from_ordinary_instructions() {
        let cases = [
            (
                "HMMA.16816.F32 R16, R8.reuse, R12, RZ",
                Some(Feature::TensorOperations),
            ),
            (
                "HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ",
                Some(Feature::TensorOperations),
            ),
            ("HFMA2.MMA R7, -RZ, RZ, 1.875, 0", None),
            ("CS2R.32 R5, SR_CLOCKLO", Some(Feature::ClockReads)),
            ("S2UR UR4, SR_GLOBALTIMERLO", Some(Feature::ClockReads)),
            ("CS2R.32 R7, SR_PM0", Some(Feature::ClockReads)),
            ("S2R R7, SR_VIRTUALSMID", Some(Feature::PlacementReads)),
            ("S2R R0, SR_TID.X", None),
            ("@!P0 NANOSLEEP 0xa", Some(Feature::Sleep)),
            ("CCTL.E.PF2 [R4+0x190]", Some(Feature::CacheHints)),
            ("CCTL.IVALL", None),
            ("LDG.E.EL R0, [R4.64]", Some(Feature::CacheHints)),
            ("LDG.E.EF R6, [R4.64+0x24]", None),
            ("PREEXIT", Some(Feature::ProgrammaticLaunch)),
            ("PMTRIG 0x8", Some(Feature::Breakpoints)),
            ("BPT.TRAP 0x1", None),
            ("BPT.INT 0x1", Some(Feature::Breakpoints)),
        ];
        for (text, expected) in cases {
            let line = format!("        /*01a0*/              {text} ;");
            let (opcode, operands) = instruction(line.trim()).expect("an instruction");
            let found = feature(opcode, operands).map(|(feature, _)| feature);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn an_instruction_belongs_to_the_outermost_line_of_the_source() {
        let listing = "\
.text.k:
\t//## File \"/candidate.cu\", line 3
        /*0000*/                   S2R R0, SR_CLOCKLO ;
\t//## File \"/headers/mma.hpp\", line 91 inlined at \"/candidate.cu\", line 7
\t//## File \"/candidate.cu\", line 7
        /*0010*/              @!P0 HMMA.16816.F32 R16, R8, R12, RZ ;
\t//## File \"/headers/other.hpp\", line 4
        /*0020*/                   NANOSLEEP 0xa ;
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
        /*0040*/                   NOP;
.text.other:
        /*0000*/                   EXIT ;
";
        let Listing {
            kernels,
            uses,
            sass,
        } = read(listing, "candidate.cu");
        assert_eq!(
            sass,
            "k:\n3\tS2R R0, SR_CLOCKLO\n7\t@!P0 HMMA.16816.F32 R16, R8, R12, RZ\n\tNANOSLEEP 0xa\n\
             \tBRA `(.L_x_0)\n\tNOP\nother:\n\tEXIT\n"
        );
        let lines = uses.iter().map(|found| (found.what.as_str(), found.line));
        let expected = [
            ("SR_CLOCKLO", Some(3)),
            ("HMMA.16816.F32", Some(7)),
            ("NANOSLEEP", None),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        let counts = kernels
            .iter()
            .map(|code| (code.kernel.as_str(), code.instructions, code.tensor));
        assert_eq!(counts.collect::<Vec<_>>(), [("k", 4, 1), ("other", 1, 0)]);
        assert_eq!(kernels[0].mix["HMMA"], 1);
    }

    #[test]
    fn the_release_is_found_in_what_the_tool_says() {
        let said = "nvdisasm: NVIDIA (R) CUDA disassembler\nCuda compilation tools, release 13.5, V13.5.37\n";
        assert_eq!(release(said), "nvdisasm V13.5.37");
        assert_eq!(release("?"), "nvdisasm of an unknown release");
    }
}
