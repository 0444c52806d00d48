//! Device-side printf and assertions.

use super::access::lanes;
use super::block::Shared;
use super::exec::{Exec, Fatal};
use super::warp::Warp;
use crate::memory::window;
use crate::report::FindingKind;

/// Longest text read from memory.
const MAX_TEXT: u64 = 4096;

/// A byte at a thread's generic address; zero if the address is invalid.
fn byte(exec: &Exec<'_>, block: &Shared, warp: &Warp, lane: usize, address: u64) -> u8 {
    let base = window::of(address);
    let offset = address - base;
    let word = match base {
        window::LOCAL => warp.local.get(offset as usize / 4 * 32 + lane).copied(),
        window::SHARED => block.words.get(offset as usize / 4).copied(),
        window::PARAM => {
            return exec
                .launch
                .params
                .get(offset as usize)
                .copied()
                .unwrap_or(0);
        }
        _ => {
            let mut one = [0];
            return match exec.launch.memory.read(address, &mut one) {
                Ok(()) => one[0],
                Err(_) => 0,
            };
        }
    };
    word.map_or(0, |word| word.to_le_bytes()[offset as usize % 4])
}

fn bytes<const N: usize>(
    exec: &Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    address: u64,
) -> [u8; N] {
    std::array::from_fn(|i| byte(exec, block, warp, lane, address.wrapping_add(i as u64)))
}

fn text(exec: &Exec<'_>, block: &Shared, warp: &Warp, lane: usize, address: u64) -> String {
    let raw: Vec<u8> = (0..MAX_TEXT)
        .map(|i| byte(exec, block, warp, lane, address.wrapping_add(i)))
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&raw).into_owned()
}

/// An argument of the call, from the stack.
fn argument(
    exec: &Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    x: usize,
    index: usize,
) -> u64 {
    match exec.launch.program.calls[x].arguments.get(index) {
        Some(offset) => u64::from_le_bytes(bytes(
            exec,
            block,
            warp,
            lane,
            window::LOCAL
                .wrapping_add(warp.lane(exec.launch.program.calls[x].frame, lane))
                .wrapping_add(u64::from(*offset)),
        )),
        None => 0,
    }
}

/// `vprintf(format, arguments)`.
#[inline(never)]
pub(crate) fn print(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    _pc: u32,
) -> Result<(), Fatal> {
    for lane in lanes(mask) {
        let room = exec
            .launch
            .printed_limit
            .saturating_sub(block.printed.len());
        if room > 0 {
            let format = text(
                exec,
                block,
                warp,
                lane,
                argument(exec, block, warp, lane, x, 0),
            );
            let arguments = argument(exec, block, warp, lane, x, 1);
            let line = formatted(exec, block, warp, lane, &format, arguments, room);
            block.printed.push_str(&line);
        }
        if let Some(result) = exec.launch.program.calls[x].result {
            let at = warp.lane(exec.launch.program.calls[x].frame, lane) as usize + result as usize;
            // A frame beyond the stack was reported when the arguments were stored.
            if let (Some(word), Some(valid)) = (
                warp.local.get_mut(at / 4 * 32 + lane),
                warp.local_valid.get_mut(at..at + 4),
            ) {
                *word = 1;
                for valid in valid {
                    *valid |= 1 << lane;
                }
            }
        }
    }
    Ok(())
}

/// Fills a format with arguments laid out as C varargs: 4 bytes for int, 8 for everything else, naturally aligned.
/// The kernel chooses their address, which may be invalid. Once the text has `room` bytes, no further item is filled in.
fn formatted(
    exec: &Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    format: &str,
    arguments: u64,
    room: usize,
) -> String {
    let mut out = String::new();
    let mut at = 0u64;
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next()
        && out.len() < room
    {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.peek() == Some(&'%') {
            chars.next();
            out.push('%');
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = chars.next_if(|c| "-+ #0".contains(*c)) {
            flags.push(flag);
        }
        let mut number = || {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<usize>().ok().map(|n| n.min(256))
        };
        let width = number();
        let precision = if chars.next_if_eq(&'.').is_some() {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            Some(digits.parse::<usize>().unwrap_or(0).min(256))
        } else {
            None
        };
        let mut long = 0;
        while let Some(size) = chars.next_if(|c| "hlzjtL".contains(*c)) {
            long += u32::from(matches!(size, 'l' | 'z' | 'j' | 't'));
        }
        let mut take = |size: u64| {
            at = at.next_multiple_of(size);
            let address = arguments.wrapping_add(at);
            let value = if size == 4 {
                u64::from(u32::from_le_bytes(bytes(exec, block, warp, lane, address)))
            } else {
                u64::from_le_bytes(bytes(exec, block, warp, lane, address))
            };
            at += size;
            value
        };
        let wide = if long > 0 { 8 } else { 4 };
        let body = match chars.next() {
            Some('d' | 'i') => {
                let bits = take(wide);
                let value = if wide == 8 {
                    bits as i64
                } else {
                    i64::from(bits as u32 as i32)
                };
                if flags.contains('+') && value >= 0 {
                    format!("+{value}")
                } else {
                    value.to_string()
                }
            }
            Some('u') => take(wide).to_string(),
            Some('x') => format!(
                "{}{:x}",
                if flags.contains('#') { "0x" } else { "" },
                take(wide)
            ),
            Some('X') => format!("{:X}", take(wide)),
            Some('o') => format!("{:o}", take(wide)),
            Some('c') => char::from(take(4) as u8).to_string(),
            Some('p') => format!("{:#x}", take(8)),
            Some('s') => {
                let address = take(8);
                text(exec, block, warp, lane, address)
            }
            Some('f' | 'F') => format!("{:.*}", precision.unwrap_or(6), f64::from_bits(take(8))),
            Some('e' | 'E') => format!("{:.*e}", precision.unwrap_or(6), f64::from_bits(take(8))),
            Some('g' | 'G') => format!("{}", f64::from_bits(take(8))),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let width = width.unwrap_or(0);
        if flags.contains('-') {
            out.push_str(&format!("{body:<width$}"));
        } else if flags.contains('0') {
            let (sign, digits) = body.split_at(usize::from(body.starts_with(['-', '+'])));
            out.push_str(sign);
            out.push_str(&format!(
                "{digits:0>width$}",
                width = width.saturating_sub(sign.len())
            ));
        } else {
            out.push_str(&format!("{body:>width$}"));
        }
    }
    out
}

/// `__assertfail(message, file, line, function, char size)`.
#[inline(never)]
pub(crate) fn assert_fail(
    exec: &mut Exec<'_>,
    block: &mut Shared,
    warp: &mut Warp,
    x: usize,
    mask: u32,
    pc: u32,
) -> Result<(), Fatal> {
    let lane = mask.trailing_zeros() as usize & 31;
    let condition = text(
        exec,
        block,
        warp,
        lane,
        argument(exec, block, warp, lane, x, 0),
    );
    let file = text(
        exec,
        block,
        warp,
        lane,
        argument(exec, block, warp, lane, x, 1),
    );
    let line = argument(exec, block, warp, lane, x, 2) as u32;
    let message = format!(
        "the assertion `{condition}` at {file}:{line} failed in thread {:?} of block {:?}",
        exec.thread_of(warp, lane),
        block.coordinates
    );
    let seen = exec.plain(FindingKind::Assertion, pc, block, warp, lane, message);
    exec.find(block, seen)
}
