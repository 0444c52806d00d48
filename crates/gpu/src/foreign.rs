//! Machine code that somebody else compiled, by what it says of itself: for which architecture it
//! is, and what its entries take.
//!
//! A compiler's report and the PTX tell the same of what we compile ourselves; here there is only
//! the file. What it computes is not looked at.

use std::collections::BTreeMap;

use domain::role::KernelResources;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, FileHeader as _, SectionHeader as _};
use object::{LittleEndian, Object, ObjectSection};

/// The machine number of NVIDIA's code (`EM_CUDA`).
const MACHINE: u16 = 190;
/// From this version of the form on, which came with CUDA 13, the architecture stands in the second
/// byte of the flags, before in the first.
const SECOND_BYTE_FROM: u8 = 8;
/// The attribute of an entry that describes one of its parameters (`EIATTR_KPARAM_INFO`), and its
/// form, one with a size (`EIFMT_SVAL`).
const PARAMETER: (u8, u8) = (0x04, 0x17);
/// The size of a parameter stands above these bits of the last word of its description.
const SIZE_SHIFT: u32 = 18;

/// What an image says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Such as 89 for `sm_89`.
    pub architecture: u32,
    /// Its entries by name.
    pub kernels: Vec<KernelResources>,
}

/// Reads machine code; none if it is not NVIDIA's.
pub fn read(cubin: &[u8]) -> Option<Foreign> {
    let file = ElfFile::<FileHeader64<LittleEndian>>::parse(cubin).ok()?;
    let header = file.elf_header();
    if header.e_machine(LittleEndian).0 != MACHINE {
        return None;
    }
    let flags = header.e_flags(LittleEndian).0;
    let architecture = if header.e_ident().abi_version >= SECOND_BYTE_FROM {
        flags >> 8 & 0xff
    } else {
        flags & 0xff
    };
    let mut kernels = Vec::new();
    let mut data = BTreeMap::new();
    for section in file.sections() {
        data.insert(section.name().ok()?.to_owned(), section);
    }
    for (name, section) in &data {
        let Some(kernel) = name.strip_prefix(".text.") else {
            continue;
        };
        // Functions that are no entries take their parameters in registers and describe none.
        let Some(info) = data.get(&format!(".nv.info.{kernel}")) else {
            continue;
        };
        let shared = data.get(&format!(".nv.shared.{kernel}"));
        kernels.push(KernelResources {
            kernel: kernel.to_owned(),
            registers: section.elf_section_header().sh_info(LittleEndian) >> 24,
            spill_bytes: 0,
            stack_bytes: 0,
            static_shared_bytes: shared
                .map_or(Some(0), |shared| u32::try_from(shared.size()).ok())?,
            constant_bytes: 0,
            parameters: parameters(info.data().ok()?)?,
        });
    }
    Some(Foreign {
        architecture,
        kernels,
    })
}

/// The sizes of an entry's parameters in their order; none if the list does not read.
fn parameters(mut info: &[u8]) -> Option<Vec<u32>> {
    let mut sizes = BTreeMap::new();
    while let Some((&[form, attribute, low, high], rest)) = info.split_first_chunk::<4>() {
        let value = usize::from(u16::from_le_bytes([low, high]));
        // Only the form with a size has anything behind these four bytes.
        let (content, rest) = if form == PARAMETER.0 {
            rest.split_at_checked(value)?
        } else {
            rest.split_at(0)
        };
        if (form, attribute) == PARAMETER {
            let (_, place) = content.split_first_chunk::<4>()?;
            let ordinal = u16::from_le_bytes(*place.first_chunk::<2>()?);
            let packed = u32::from_le_bytes(*place.get(4..)?.first_chunk::<4>()?);
            sizes.insert(ordinal, packed >> SIZE_SHIFT);
        }
        info = rest;
    }
    // They are numbered without a gap.
    let whole = sizes
        .keys()
        .copied()
        .eq(0..u16::try_from(sizes.len()).ok()?);
    whole.then(|| sizes.into_values().collect())
}
