//! Findings of illegal accesses, which end the launch.

use super::super::block::Shared;
use super::super::exec::{Exec, Fatal};
use super::super::warp::Warp;
use super::global::access_at;
use super::{AccessKind, Request, lanes};
use crate::check::{buffer_name, position_text};
use crate::report::{Access, FindingKind, Space};

/// Addresses below this are reported as null pointers or integers used as pointers.
const NULL_PAGE: u64 = 1 << 16;

/// Records that a lane's address is in no allocation.
#[cold]
#[inline(never)]
pub(crate) fn outside_global(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
    lane: usize,
    bytes: u32,
) -> Result<(), Fatal> {
    let address = request.list[lane];
    let access = nearest_access(exec, address, bytes);
    if address >= NULL_PAGE {
        return out_of_bounds(
            exec,
            block,
            warp,
            lane,
            access,
            request.access_kind,
            request.pc,
        );
    }
    let message = format!(
        "thread {:?} uses address {address:#x} at {}: a null pointer, or an integer that is none",
        exec.thread_of(warp, lane),
        position_text(exec.launch.program, request.pc)
    );
    let mut seen = exec.plain(
        FindingKind::IllegalAddress,
        request.pc,
        block,
        warp,
        lane,
        message,
    );
    seen.access = Some(Access {
        buffer: None,
        buffer_bytes: None,
        offset: address as i64,
        ..access
    });
    exec.find(block, seen)
}

/// The access relative to the nearest buffer, which may or may not contain it.
fn nearest_access(exec: &Exec<'_>, address: u64, bytes: u32) -> Access {
    let tracks = &exec.launch.tracks;
    let after = tracks.partition_point(|track| track.begin <= address);
    let before = after.checked_sub(1).map(|index| &tracks[index]);
    let behind = tracks.get(after);
    let past = before.map(|track| address.saturating_sub(track.end));
    let short = behind.map(|track| track.begin - address);
    let track = match (past, short) {
        (Some(past), Some(short)) if short < past => behind,
        (Some(_), _) => before,
        (None, _) => behind,
    };
    match track {
        Some(track) => {
            let offset = address.wrapping_sub(track.allocation.base());
            access_at(track, offset, bytes)
        }
        None => Access {
            space: Space::Generic,
            buffer: None,
            pointer: address,
            offset: address as i64,
            buffer_bytes: None,
            bytes,
        },
    }
}

#[cold]
#[inline(never)]
pub(crate) fn out_of_bounds(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    lane: usize,
    access: Access,
    access_kind: AccessKind,
    pc: u32,
) -> Result<(), Fatal> {
    let (kind, does) = match access_kind {
        AccessKind::Load => (FindingKind::OutOfBoundsRead, "reads"),
        AccessKind::Store | AccessKind::Atomic => (FindingKind::OutOfBoundsWrite, "writes"),
    };
    let size = access
        .buffer_bytes
        .map_or_else(String::new, |size| format!(", which has {size} bytes"));
    let message = format!(
        "thread {:?} of block {:?} {does} {} bytes at byte {} of {}{size}, at {}",
        exec.thread_of(warp, lane),
        block.coordinates,
        access.bytes,
        access.offset,
        buffer_name(&access),
        position_text(exec.launch.program, pc),
    );
    let mut seen = exec.plain(kind, pc, block, warp, lane, message);
    seen.access = Some(access);
    exec.find(block, seen)
}

#[cold]
#[inline(never)]
pub(super) fn misaligned(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
    space: Space,
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[request.x];
    let bytes = op.element * op.count;
    let list = request.list;
    let lane = lanes(request.mask)
        .find(|lane| list[*lane] & u64::from(bytes - 1) != 0)
        .unwrap_or(0);
    let access = match space {
        Space::Global => nearest_access(exec, list[lane], bytes),
        Space::Shared => exec.shared_access(list[lane] as u32, bytes),
        _ => Access {
            space,
            buffer: None,
            pointer: list[lane],
            offset: list[lane] as i64,
            buffer_bytes: None,
            bytes,
        },
    };
    let message = format!(
        "thread {:?} accesses {bytes} bytes at byte {} of {} at {}: the address {:#x} is not a multiple of {bytes}",
        exec.thread_of(warp, lane),
        access.offset,
        buffer_name(&access),
        position_text(exec.launch.program, request.pc),
        list[lane],
    );
    let mut seen = exec.plain(
        FindingKind::Misaligned,
        request.pc,
        block,
        warp,
        lane,
        message,
    );
    seen.access = Some(access);
    exec.find(block, seen)
}

#[cold]
#[inline(never)]
pub(super) fn read_only(
    exec: &mut Exec<'_>,
    block: &Shared,
    warp: &Warp,
    request: &Request<'_>,
) -> Result<(), Fatal> {
    let op = &exec.launch.program.memory[request.x];
    let lane = request.mask.trailing_zeros() as usize & 31;
    let access = nearest_access(exec, request.list[lane], op.element * op.count);
    let what = if access.space == Space::Constant {
        "a constant"
    } else {
        "which is mapped for reading only"
    };
    let message = format!(
        "{} writes to {}, {what}",
        position_text(exec.launch.program, request.pc),
        buffer_name(&access)
    );
    let mut seen = exec.plain(
        FindingKind::IllegalAddress,
        request.pc,
        block,
        warp,
        lane,
        message,
    );
    seen.access = Some(access);
    exec.find(block, seen)
}
