//! The generic address space: where shared, local and parameter memory appear among device addresses.

/// Generic address of shared byte 0.
pub(crate) const SHARED: u64 = 0x0000_7000_0000_0000;
/// Generic address of a thread's stack byte 0.
pub(crate) const LOCAL: u64 = 0x0000_7100_0000_0000;
/// Generic address of parameter byte 0.
pub(crate) const PARAM: u64 = 0x0000_7200_0000_0000;
/// Address of the module's first function. The address can be neither read nor written.
pub(crate) const FUNCTION: u64 = 0x0000_7300_0000_0000;
/// Distance between the addresses of two functions.
pub(crate) const FUNCTION_STEP: u64 = 16;
/// Size of each window in bytes.
const SIZE_LOG2: u32 = 40;

/// The start of the window an address is in; 0 for device memory.
#[inline(always)]
pub(crate) fn of(address: u64) -> u64 {
    match address >> SIZE_LOG2 << SIZE_LOG2 {
        base @ (SHARED | LOCAL | PARAM) => base,
        _ => 0,
    }
}
