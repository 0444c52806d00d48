//! Functions of hardware or services that the emulated GPU does not have: each answers that it is not supported.
//!
//! Programs that are linked against the driver need the names to be there, whether they call them or not. What else
//! a call could be refused for comes first: no initialisation, no context, a lost context.

use crate::code::Code;

use super::pointer::Host;
use super::process;

macro_rules! absent {
    ($($name:ident,)*) => {
        $(
            /// Not supported.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                _: Host, _: Host, _: Host, _: Host, _: Host, _: Host,
            ) -> u32 {
                // Registers hold as many arguments; reading fewer than were passed is harmless in the C convention.
                process::call(stringify!($name), |driver| {
                    driver.check_context()?;
                    Err(Code::NOT_SUPPORTED)
                })
            }
        )*

        /// Every function of this module by name.
        pub const FUNCTIONS: &[(&str, extern "C" fn(Host, Host, Host, Host, Host, Host) -> u32)] =
            &[$((stringify!($name), $name),)*];
    };
}

absent! {
    // Memory and events shared between processes.
    cuIpcGetMemHandle,
    cuIpcOpenMemHandle_v2,
    cuIpcCloseMemHandle,
    cuIpcGetEventHandle,
    cuIpcOpenEventHandle,
    // Graphs that hold memory, wait for other devices, or decide.
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
    // A profiler's settings, which CUDA 11 gave up.
    cuProfilerInitialize,
    // Other devices.
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
