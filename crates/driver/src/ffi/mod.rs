//! The C functions: thin wrappers that read arguments, lock the one driver of the process, and write results.
//!
//! Every function goes through `process::call`, which applies the fault plan, keeps panics on this side of the
//! boundary and turns the answer into a number. All pointers are wrapped by `pointer`, so that reading and writing
//! through them is checked for null in one place.
#![expect(
    unsafe_code,
    reason = "C callers hand over raw pointers, and exported names must not be mangled"
)]

mod absent;
mod context;
mod device;
mod event;
mod host_memory;
mod kernelwright;
mod launch;
mod library;
mod memory;
mod module;
mod occupancy;
mod pointer;
mod pool;
mod proc_address;
mod process;
mod stream;

/// Declares exported functions. The body sees the driver and answers with success or a code.
macro_rules! entries {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$driver:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::ffi::process::call(stringify!($name), |$driver: &mut $crate::state::Driver| {
                    $body
                })
            }
        )*
    };
}
use entries;
