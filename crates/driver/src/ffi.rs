//! The exported C functions: thin wrappers that read arguments, lock the process's one driver, and write results.
//!
//! Every function goes through `process::call`, which applies the fault plan, catches panics so that they do not
//! cross the C boundary, and converts the result to an error number. All pointers are wrapped by `pointer`, so that
//! null checks of reads and writes are in one place.
#![expect(
    unsafe_code,
    reason = "C callers hand over raw pointers, and exported names must not be mangled"
)]

mod context;
#[cfg(test)]
mod contract;
mod device;
mod event;
mod graph;
mod host_memory;
mod kernelwright;
mod launch;
mod legacy_launch;
mod library;
mod memory;
mod module;
mod nvml;
mod occupancy;
mod pointer;
mod pool;
mod proc_address;
mod process;
mod stream;
mod unsupported;
mod virtual_memory;

/// Declares exported functions. Each body gets the driver and returns success or an error code.
///
/// `anytime` before the functions declares the few that may be called before initialisation.
macro_rules! entries {
    (anytime $($rest:tt)*) => { $crate::ffi::entries! { @call_anytime $($rest)* } };
    (@$serve:ident $($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) |$driver:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::ffi::process::$serve(stringify!($name), |$driver: &mut $crate::state::Driver| {
                    $body
                })
            }
        )*
    };
    ($($rest:tt)*) => { $crate::ffi::entries! { @call $($rest)* } };
}
use entries;
