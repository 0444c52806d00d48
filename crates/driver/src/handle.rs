//! Typed handles: the values that the API gives to callers as opaque pointers.
//!
//! A handle is a number that is never an address and never used twice, so a stale or foreign one is recognised when
//! it comes back. Its kind is part of the number: an event passed as a stream is as invalid as a random pointer.

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl $name {
            /// The handle of the `serial`-th object of this process.
            pub(crate) fn nth(serial: u64) -> Self {
                Self(BASE | ($kind << 32) | (serial * STEP))
            }
        })*
    };
}

/// Base of all handles, outside of every device address window and of every address that a process of this platform
/// has.
const BASE: u64 = 0x4b00_0000_0000_0000;
/// Distance between handles in bytes, because handles look like aligned pointers.
const STEP: u64 = 16;

handles! {
    /// A context.
    ContextHandle = 1;
    /// A stream. Zero and one are the legacy default stream, two the thread's own.
    StreamHandle = 2;
    /// An event.
    EventHandle = 3;
    /// A module.
    ModuleHandle = 4;
    /// A kernel of a module.
    FunctionHandle = 5;
    /// A memory pool.
    PoolHandle = 6;
    /// A module that is loaded into contexts on demand.
    LibraryHandle = 7;
    /// An unfinished link.
    LinkHandle = 8;
    /// Physical memory without an address (`CUmemGenericAllocationHandle`).
    PhysicalHandle = 9;
    /// A graph of work.
    GraphHandle = 10;
    /// A node of a graph.
    NodeHandle = 11;
    /// A graph that is ready to be launched.
    ExecutableHandle = 12;
    /// An object whose destructor runs when no caller and no graph refers to it any more (`CUuserObject`).
    UserObjectHandle = 13;
}

impl StreamHandle {
    /// The legacy default stream, which waits for and holds back all blocking streams.
    pub const LEGACY: Self = Self(0);
    /// The explicit handle of the same stream (`CU_STREAM_LEGACY`).
    pub const LEGACY_NAMED: Self = Self(1);
    /// The default stream of the calling thread.
    pub const PER_THREAD: Self = Self(2);
}
