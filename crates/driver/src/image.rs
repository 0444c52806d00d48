//! Images that callers load: PTX text, a fat binary that holds PTX, or machine code.
//!
//! The emulated GPU runs PTX. Machine code is recognised only to be rejected with the documented error and a line
//! that says why.

use std::borrow::Cow;
use std::io::Read as _;

use ruzstd::decoding::StreamingDecoder;

use crate::code::Code;

/// First bytes of an ELF file, which holds machine code.
pub const ELF_MAGIC: [u8; 4] = *b"\x7fELF";
/// First bytes of an archive of object files.
pub const ARCHIVE_MAGIC: [u8; 8] = *b"!<arch>\n";
/// First bytes of a fat binary.
pub const FAT_MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
/// First bytes of the structure that points to a fat binary.
pub const FAT_WRAPPER_MAGIC: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
/// Bytes of a fat binary's own header.
pub const FAT_HEADER_BYTES: usize = 16;

/// Kind of a fat binary's entry that holds PTX.
const ENTRY_PTX: u16 = 1;
/// Flag of an entry compressed with LZ4.
const ENTRY_LZ4: u64 = 0x2000;
/// Flag of an entry compressed with zstd.
const ENTRY_ZSTD: u64 = 0x8000;
/// Largest unpacked size of an entry in bytes.
const ENTRY_LIMIT: usize = 256 << 20;

/// An image to load.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// PTX text without its terminating NUL.
    Ptx(&'a [u8]),
    /// A fat binary from its magic number to its end.
    Fat(&'a [u8]),
    /// An ELF file; its content is not read.
    MachineCode,
}

/// The reason why an image cannot be loaded or linked: the documented error code, and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageError {
    /// The code that the API call returns.
    pub code: Code,
    /// The message for the log; empty if the code is enough.
    pub message: String,
}

impl ImageError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<Code> for ImageError {
    fn from(code: Code) -> Self {
        Self::new(code, "")
    }
}

impl<'a> Image<'a> {
    /// The PTX text of the image for a device of this architecture.
    ///
    /// # Errors
    /// When the image holds no PTX that the device can run.
    pub fn ptx(self, architecture: u32) -> Result<Cow<'a, str>, ImageError> {
        let text = match self {
            Self::Ptx(bytes) => Cow::Borrowed(as_text(bytes)?),
            Self::Fat(bytes) => best_entry(bytes, architecture)?,
            Self::MachineCode => {
                return Err(ImageError::new(
                    Code::NO_BINARY_FOR_GPU,
                    "load machine code: the emulated GPU runs PTX; hand over the PTX text of the same compilation",
                ));
            }
        };
        match target(&text) {
            Some(wanted) if wanted > architecture => Err(ImageError::new(
                Code::NO_BINARY_FOR_GPU,
                format!(
                    "load PTX for sm_{wanted}: the emulated GPU is an sm_{architecture}; compile for sm_{architecture} or older"
                ),
            )),
            _ => Ok(text),
        }
    }
}

fn as_text(bytes: &[u8]) -> Result<&str, ImageError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| ImageError::new(Code::INVALID_IMAGE, "read the image: it is no PTX text"))?;
    if text.trim().is_empty() {
        return Err(ImageError::new(
            Code::INVALID_IMAGE,
            "read the image: it is empty",
        ));
    }
    Ok(text)
}

/// The architecture number of the `.target sm_NN` directive.
fn target(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(".target"))?;
    let digits = line.trim_start().strip_prefix("sm_")?;
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Total size of a fat binary in bytes, from its header.
#[must_use]
pub fn fat_bytes(header: &[u8; FAT_HEADER_BYTES]) -> Option<usize> {
    let header_bytes = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let body = u64::from_le_bytes(header[8..16].try_into().ok()?);
    usize::try_from(body).ok()?.checked_add(header_bytes)
}

/// The PTX of the entry for the highest architecture that this device can run.
fn best_entry(fat: &[u8], architecture: u32) -> Result<Cow<'static, str>, ImageError> {
    let broken = || ImageError::new(Code::INVALID_IMAGE, "read the fat binary: it is cut short");
    let mut rest = fat
        .get(usize::from(read_u16(fat, 6).ok_or_else(broken)?)..)
        .ok_or_else(broken)?;
    let mut best: Option<(u32, Cow<'static, str>)> = None;
    while !rest.is_empty() {
        let entry = FatBinaryEntry::read(rest).ok_or_else(broken)?;
        let usable = entry.kind == ENTRY_PTX
            && entry.architecture <= architecture
            && best
                .as_ref()
                .is_none_or(|(found, _)| entry.architecture > *found);
        if usable {
            let text = entry.text().ok_or_else(broken)?;
            best = Some((entry.architecture, text));
        }
        rest = rest.get(entry.total..).ok_or_else(broken)?;
    }
    match best {
        Some((_, text)) => Ok(text),
        None => Err(ImageError::new(
            Code::NO_BINARY_FOR_GPU,
            format!(
                "load the fat binary: it holds no PTX for sm_{architecture} or older, and the emulated GPU runs PTX"
            ),
        )),
    }
}

/// One entry of a fat binary.
struct FatBinaryEntry<'a> {
    kind: u16,
    architecture: u32,
    flags: u64,
    unpacked_bytes: u64,
    /// Compressed size of the payload in bytes, for compressed entries.
    packed_bytes: usize,
    payload: &'a [u8],
    total: usize,
}

impl<'a> FatBinaryEntry<'a> {
    /// Reads an entry. Field offsets follow public descriptions of the format.
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let header = read_u32(bytes, 4)? as usize;
        let payload = usize::try_from(read_u64(bytes, 8)?).ok()?;
        let total = header.checked_add(payload)?;
        if header < 64 {
            return None;
        }
        Some(Self {
            kind: read_u16(bytes, 0)?,
            packed_bytes: read_u32(bytes, 16)? as usize,
            architecture: read_u32(bytes, 28)?,
            flags: read_u64(bytes, 40)?,
            unpacked_bytes: read_u64(bytes, 56)?,
            payload: bytes.get(header..total)?,
            total,
        })
    }

    /// The payload as text, decompressed if it is compressed; none if it is malformed.
    fn text(&self) -> Option<Cow<'static, str>> {
        let limit = usize::try_from(self.unpacked_bytes)
            .unwrap_or(usize::MAX)
            .min(ENTRY_LIMIT);
        let packed = || self.payload.get(..self.packed_bytes);
        let bytes = if self.flags & ENTRY_ZSTD != 0 {
            unpack_zstd(packed()?, limit)?
        } else if self.flags & ENTRY_LZ4 != 0 {
            unpack_lz4(packed()?, limit)?
        } else {
            self.payload.to_vec()
        };
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let text = std::str::from_utf8(&bytes[..end]).ok()?;
        Some(Cow::Owned(text.to_owned()))
    }
}

/// Decompresses one zstd frame; none if it is malformed or longer than `limit` bytes.
fn unpack_zstd(packed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let window = u64::try_from(ENTRY_LIMIT).unwrap_or(u64::MAX);
    let frame = StreamingDecoder::new_with_max_window_size(packed, window).ok()?;
    let mut unpacked = Vec::new();
    // One byte more than allowed is read, to detect that the frame is longer.
    let most = u64::try_from(limit).ok()?.saturating_add(1);
    frame.take(most).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() <= limit).then_some(unpacked)
}

/// Decompresses one LZ4 block; none if it is malformed or longer than `limit` bytes.
fn unpack_lz4(packed: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut input = packed.iter().copied();
    let mut output = Vec::new();
    loop {
        let token = input.next()?;
        let literals = lz4_length(usize::from(token >> 4), &mut input)?;
        if input.len() < literals || output.len() + literals > limit {
            return None;
        }
        output.extend(input.by_ref().take(literals));
        if input.len() == 0 {
            return Some(output);
        }
        let distance = usize::from(u16::from_le_bytes([input.next()?, input.next()?]));
        let length = lz4_length(usize::from(token & 15), &mut input)? + 4;
        if distance == 0 || distance > output.len() || output.len() + length > limit {
            return None;
        }
        for _ in 0..length {
            output.push(output[output.len() - distance]);
        }
    }
}

/// Reads the rest of an LZ4 length: after a nibble of 15, bytes are added up to and including the first that is not
/// 255.
fn lz4_length(nibble: usize, input: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let more = input.next()?;
            length = length.checked_add(usize::from(more))?;
            if more != 255 {
                break;
            }
        }
    }
    Some(length)
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    fn entry(kind: u16, architecture: u32, flags: u64, payload: &[u8], unpacked: usize) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[28..32].copy_from_slice(&architecture.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&(unpacked as u64).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }

    fn fat(entries: &[Vec<u8>]) -> Vec<u8> {
        let body: Vec<u8> = entries.concat();
        let mut bytes = FAT_MAGIC.to_vec();
        bytes.extend_from_slice(&1_u16.to_le_bytes());
        bytes.extend_from_slice(&16_u16.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn machine_code_is_refused_with_the_documented_code_and_a_reason() {
        let error = Image::MachineCode.ptx(89).expect_err("machine code");
        assert_eq!(error.code, Code::NO_BINARY_FOR_GPU);
        assert!(error.message.contains("PTX"));
    }

    #[test]
    fn ptx_for_a_newer_architecture_is_refused() {
        let newer = TEXT.replace("sm_80", "sm_90a");
        assert!(Image::Ptx(TEXT.as_bytes()).ptx(89).is_ok());
        let error = Image::Ptx(newer.as_bytes()).ptx(89).expect_err("sm_90");
        assert_eq!(error.code, Code::NO_BINARY_FOR_GPU);
    }

    #[test]
    fn a_fat_binary_gives_its_newest_ptx_that_runs() {
        let newest = TEXT.replace("sm_80", "sm_86");
        let image = fat(&[
            entry(2, 89, 0, b"\x7fELF", 0),
            entry(1, 80, 0, TEXT.as_bytes(), 0),
            entry(1, 86, 0, newest.as_bytes(), 0),
            entry(1, 90, 0, b"too new", 0),
        ]);
        assert_eq!(Image::Fat(&image).ptx(89).expect("PTX"), newest);
        let header = image[..16].try_into().expect("16 bytes");
        assert_eq!(fat_bytes(&header), Some(image.len()));
    }

    #[test]
    fn ptx_packed_with_lz4_is_unpacked() {
        // Five literals, a match of nine bytes at distance five, and one final literal.
        let packed = [b"\x55abcde\x05\x00\x10f".as_slice()].concat();
        assert_eq!(
            unpack_lz4(&packed, 64).as_deref(),
            Some(b"abcdeabcdeabcdf".as_slice())
        );
        assert_eq!(unpack_lz4(&packed, 8), None);
    }

    /// `zstd_text` compressed by the reference implementation at level 19.
    const ZSTD: [u8; 99] = *b"\x28\xb5\x2f\xfd\x24\xf2\xb5\x02\x00\x32\x45\x11\x11\x90\x7d\x8c\xae\xc5\xe8\x41\x90\xbb\xea\x1f\x64\x25\x36\xb6\x88\x19\x20\x1d\x53\xc8\x48\x42\xd9\x87\x69\xae\xcd\x07\xc9\xef\x72\xb1\x2a\xe1\xfb\x93\x2c\xde\xa8\x1f\x94\xe3\x6f\xc7\xab\xee\x7d\xd6\xb9\xf5\x20\x20\x35\xaf\xe3\x07\xed\xc2\x0f\xc2\x23\xa7\x35\x5e\xfb\xf4\x07\x05\x00\x00\x17\x80\x1f\xc0\x19\xc0\x85\x21\x8d\x32\x03\x3c\x58\x5f\x72";

    fn zstd_text() -> String {
        let variables = (1..=6).map(|n| format!(".visible .global .u32 counter_{n};\n"));
        TEXT.to_owned() + &variables.collect::<String>()
    }

    #[test]
    fn ptx_packed_with_zstd_is_unpacked_or_refused() {
        let text = zstd_text();
        let image = fat(&[entry(1, 80, ENTRY_ZSTD, &ZSTD, text.len())]);
        assert_eq!(Image::Fat(&image).ptx(89).expect("PTX"), text);
        assert_eq!(unpack_zstd(&ZSTD, text.len() - 1), None);
        for cut in 0..ZSTD.len() {
            assert_eq!(unpack_zstd(&ZSTD[..cut], 4096), None, "{cut} bytes");
        }
        let image = fat(&[entry(1, 80, ENTRY_ZSTD, b"xx", 9)]);
        let error = Image::Fat(&image).ptx(89).expect_err("no zstd");
        assert_eq!(error.code, Code::INVALID_IMAGE);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_readers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Image::Fat(&bytes).ptx(89);
            let _ = Image::Ptx(&bytes).ptx(89);
            for unpacked in [unpack_lz4(&bytes, 1000), unpack_zstd(&bytes, 1000)] {
                prop_assert!(unpacked.is_none_or(|unpacked| unpacked.len() <= 1000));
            }
        }

        #[test]
        fn a_damaged_zstd_frame_does_no_harm(at in 0..ZSTD.len(), byte in any::<u8>()) {
            let mut damaged = ZSTD;
            damaged[at] = byte;
            let unpacked = unpack_zstd(&damaged, 4096);
            prop_assert!(unpacked.is_none_or(|unpacked| unpacked.len() <= 4096));
        }
    }
}
