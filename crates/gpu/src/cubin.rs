//! Machine code for one architecture, described by its own tables: the kernels that it holds, the
//! sizes of their parameters, and the registers, stack and shared memory that they need.
//!
//! The assembler writes these tables and the driver uses them. A source cannot change them through comments or
//! messages, as it can change the text of the PTX and the compiler's log. The numbers of attributes and their forms
//! are those that `cuobjdump -elf` prints by name.

use std::collections::BTreeMap;

use domain::role::KernelResources;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, FileHeader as _, SectionHeader as _, Sym as _};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};

/// The machine number of NVIDIA's code (`EM_CUDA`).
const MACHINE: u16 = 190;
/// First ABI version, that of CUDA 13, with the architecture in the second byte of the flags. Older
/// versions have it in the first byte.
const SECOND_BYTE_FROM: u8 = 8;
/// The flag of a symbol that is a kernel, in `st_other` (`STO_CUDA_ENTRY`).
const KERNEL_SYMBOL: u8 = 0x10;
/// Prefix of the section that holds the code of the function named behind it.
const CODE: &str = ".text.";
/// Form of an attribute that is followed by a size and as many bytes (`EIFMT_SVAL`).
const SIZED: u8 = 0x04;
/// Stack frame of one function (`EIATTR_FRAME_SIZE`).
const FRAME_BYTES: u8 = 0x11;
/// Stack of a kernel with all functions that it calls (`EIATTR_MIN_STACK_SIZE`).
const STACK_BYTES: u8 = 0x12;
/// One parameter of a kernel (`EIATTR_KPARAM_INFO`), its size in the upper bits of the last word.
const PARAMETER: u8 = 0x17;
/// One parameter of a kernel with more than 4 KB of parameters (`EIATTR_KPARAM_INFO_V2`), its size in
/// the lower half of the last word.
const LARGE_PARAMETER: u8 = 0x45;
/// Registers of a function's threads (`EIATTR_REGCOUNT`).
const REGISTERS: u8 = 0x2f;
/// Banks of constant memory that a kernel can have a section for.
const CONSTANT_BANKS: u32 = 18;
/// The value for a kernel with recursive calls, whose stack the assembler cannot determine.
const UNKNOWN_STACK: u32 = u32::MAX;
/// Bits of the last word of [`PARAMETER`] below the size.
const SIZE_SHIFT: u32 = 18;
/// Bits of the last word of [`LARGE_PARAMETER`] that are the size.
const LARGE_SIZE_MASK: u32 = 0xffff;
/// First architecture whose blocks have shared memory for the system at the start of their own, and
/// its size in bytes. The section counts it and the assembler's report does not.
const SYSTEM_SHARED: (u32, u64) = (90, 1024);

/// Description of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cubin {
    /// Such as 89 for `sm_89`.
    pub architecture: u32,
    /// Its kernels by name. Spills are not in the tables and are 0.
    pub kernels: Vec<KernelResources>,
}

/// Reads the tables of an image.
///
/// Returns `None` if it is not NVIDIA's machine code for one architecture, if its tables contradict
/// themselves, or if two kernels have one name.
pub fn read(cubin: &[u8]) -> Option<Cubin> {
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
    let mut sections = BTreeMap::new();
    for section in file.sections() {
        sections.insert(section.name().ok()?.to_owned(), section);
    }
    let data = |name: &str| match sections.get(name) {
        Some(section) => section.data().ok(),
        None => Some(&[][..]),
    };
    let functions = FunctionTable::read(data(".nv.info")?)?;
    let mut kernels = BTreeMap::new();
    for symbol in file.symbols() {
        if symbol.elf_symbol().st_other().0 & KERNEL_SYMBOL == 0 || symbol.is_undefined() {
            continue;
        }
        let name = symbol.name().ok()?;
        let code = sections.get(&format!("{CODE}{name}"))?;
        let index = u32::try_from(symbol.index().0).ok()?;
        let bytes_of = |section: String| sections.get(&section).map_or(0, ObjectSection::size);
        let shared = bytes_of(format!(".nv.shared.{name}"));
        let (first, reserved) = SYSTEM_SHARED;
        let shared = if architecture >= first {
            shared.saturating_sub(reserved)
        } else {
            shared
        };
        let constants: u64 = (0..CONSTANT_BANKS)
            .map(|bank| bytes_of(format!(".nv.constant{bank}.{name}")))
            .sum();
        let kernel = KernelResources {
            kernel: name.to_owned(),
            registers: functions.registers.get(&index).copied().unwrap_or_else(|| {
                // In images without `EIATTR_REGCOUNT` the number is in the section's header.
                code.elf_section_header().sh_info(LittleEndian) >> 24
            }),
            spill_bytes: 0,
            stack_bytes: functions.stack_bytes(index),
            static_shared_bytes: u32::try_from(shared).ok()?,
            constant_bytes: u32::try_from(constants).ok()?,
            parameters: parameters(data(&format!(".nv.info.{name}"))?)?,
        };
        if kernels.insert(name.to_owned(), kernel).is_some() {
            return None;
        }
    }
    Some(Cubin {
        architecture,
        kernels: kernels.into_values().collect(),
    })
}

/// Attributes of functions, by the index of their symbol.
#[derive(Debug, Default)]
struct FunctionTable {
    registers: BTreeMap<u32, u32>,
    frames: BTreeMap<u32, u32>,
    stacks: BTreeMap<u32, u32>,
}

impl FunctionTable {
    fn read(info: &[u8]) -> Option<Self> {
        let mut table = Self::default();
        for attribute in attributes(info)? {
            let of_one_function = match attribute.number {
                REGISTERS => &mut table.registers,
                FRAME_BYTES => &mut table.frames,
                STACK_BYTES => &mut table.stacks,
                _ => continue,
            };
            let (symbol, value) = attribute.content.split_first_chunk::<4>()?;
            let value = value.first_chunk::<4>()?;
            of_one_function.insert(u32::from_le_bytes(*symbol), u32::from_le_bytes(*value));
        }
        Some(table)
    }

    /// Bytes of a kernel's stack; those of its own frame if it calls itself.
    fn stack_bytes(&self, symbol: u32) -> u32 {
        let frame = self.frames.get(&symbol).copied().unwrap_or_default();
        match self.stacks.get(&symbol) {
            Some(&UNKNOWN_STACK) | None => frame,
            Some(&stack) => stack.max(frame),
        }
    }
}

/// One attribute with its content, which only the form [`SIZED`] has.
struct Attribute<'a> {
    number: u8,
    content: &'a [u8],
}

/// The sized attributes of a section; `None` if the list ends inside one.
fn attributes(mut info: &[u8]) -> Option<Vec<Attribute<'_>>> {
    let mut found = Vec::new();
    while let Some((&[form, number, low, high], rest)) = info.split_first_chunk::<4>() {
        if form != SIZED {
            info = rest;
            continue;
        }
        let bytes = usize::from(u16::from_le_bytes([low, high]));
        let (content, rest) = rest.split_at_checked(bytes)?;
        found.push(Attribute { number, content });
        info = rest;
    }
    Some(found)
}

/// The sizes of a kernel's parameters in order; `None` if one is missing or occurs twice.
fn parameters(info: &[u8]) -> Option<Vec<u32>> {
    let mut sizes = BTreeMap::new();
    for attribute in attributes(info)? {
        if ![PARAMETER, LARGE_PARAMETER].contains(&attribute.number) {
            continue;
        }
        let (_, position) = attribute.content.split_first_chunk::<4>()?;
        let ordinal = u16::from_le_bytes(*position.first_chunk::<2>()?);
        let packed = u32::from_le_bytes(*position.get(4..)?.first_chunk::<4>()?);
        let size = match attribute.number {
            PARAMETER => packed >> SIZE_SHIFT,
            _ => packed & LARGE_SIZE_MASK,
        };
        if sizes.insert(ordinal, size).is_some() {
            return None;
        }
    }
    let count = u16::try_from(sizes.len()).ok()?;
    let complete = sizes.keys().copied().eq(0..count);
    complete.then(|| sizes.into_values().collect())
}
