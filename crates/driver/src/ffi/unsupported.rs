//! Functions of hardware or services that the emulated GPU does not have; each returns `NOT_SUPPORTED`.
//!
//! Programs that are linked against the driver need these symbols even if they never call them. Errors of the
//! process's state take precedence: no initialisation, no context, a corrupted context.

use crate::code::Code;

use super::pointer::Host;
use super::process;

macro_rules! unsupported {
    ($($name:ident,)*) => {
        $(
            /// Returns `NOT_SUPPORTED`.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                _: Host, _: Host, _: Host, _: Host, _: Host, _: Host,
            ) -> u32 {
                // The declared arguments all fit registers. Reading fewer arguments than were passed is harmless in
                // the C calling convention.
                process::call(stringify!($name), |driver| {
                    driver.check_context()?;
                    Err(Code::NOT_SUPPORTED)
                })
            }
        )*

        /// The functions of this module, by name.
        pub const FUNCTIONS: &[(&str, extern "C" fn(Host, Host, Host, Host, Host, Host) -> u32)] =
            &[$((stringify!($name), $name),)*];
    };
}

unsupported! {
    // Inter-process memory and events.
    cuIpcGetMemHandle,
    cuIpcOpenMemHandle_v2,
    cuIpcCloseMemHandle,
    cuIpcGetEventHandle,
    cuIpcOpenEventHandle,
    // Graph nodes that allocate memory, use external semaphores, or are conditional.
    cuGraphAddMemAllocNode,
    cuGraphMemAllocNodeGetParams,
    cuGraphAddMemFreeNode,
    cuGraphMemFreeNodeGetParams,
    cuDeviceGraphMemTrim,
    cuDeviceGetGraphMemAttribute,
    cuDeviceSetGraphMemAttribute,
    cuGraphAddExternalSemaphoresSignalNode,
    cuGraphAddExternalSemaphoresWaitNode,
    cuGraphAddBatchMemOpNode,
    cuGraphConditionalHandleCreate,
    // Profiler configuration, which CUDA 11 deprecated.
    cuProfilerInitialize,
    // Peer devices.
    cuCtxEnablePeerAccess,
    cuCtxDisablePeerAccess,
    cuDeviceGetP2PAttribute,
    // Arrays, textures and surfaces.
    cuArrayCreate_v2,
    cuArray3DCreate_v2,
    cuArrayDestroy,
    cuArrayGetDescriptor_v2,
    cuArray3DGetDescriptor_v2,
    cuMipmappedArrayCreate,
    cuMipmappedArrayDestroy,
    cuMemcpyDtoA_v2,
    cuMemcpyAtoD_v2,
    cuMemcpyHtoA_v2,
    cuMemcpyAtoH_v2,
    cuMemcpyAtoA_v2,
    cuMemcpyHtoAAsync_v2,
    cuMemcpyAtoHAsync_v2,
    cuMemcpy3DPeer,
    cuMemcpy3DPeerAsync,
    cuTexRefCreate,
    cuTexRefDestroy,
    cuTexRefSetArray,
    cuTexRefSetAddress_v2,
    cuTexRefSetAddress2D_v3,
    cuTexRefSetFormat,
    cuTexRefSetAddressMode,
    cuTexRefSetFilterMode,
    cuTexRefSetFlags,
    cuTexRefGetAddress_v2,
    cuTexRefGetArray,
    cuTexRefGetAddressMode,
    cuTexRefGetFilterMode,
    cuTexRefGetFormat,
    cuTexRefGetFlags,
    cuTexObjectCreate,
    cuTexObjectDestroy,
    cuSurfRefSetArray,
    cuSurfRefGetArray,
    cuSurfObjectCreate,
    cuSurfObjectDestroy,
    cuModuleGetTexRef,
    cuModuleGetSurfRef,
    cuParamSetTexRef,
}
