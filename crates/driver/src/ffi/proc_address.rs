//! Look-up of functions by name, which newer programs use instead of linking.

use std::ffi::c_void;

use crate::code::Code;

use super::entries;
use super::graph::{capture, executable, node, user_object};
use super::pointer::{CallerString, Out};
use super::{
    context, device, event, graph, host_memory, launch, legacy_launch, library, memory, module,
    occupancy, pool, stream, unsupported, virtual_memory,
};

/// Status: the symbol was found.
const FOUND: u32 = 0;
/// Status: there is no such symbol.
const MISSING: u32 = 1;
/// Status: the symbol exists, but is newer than the requested version.
const TOO_NEW: u32 = 2;

/// Functions whose parameter list changed under one base name, with the CUDA version that introduced each list.
const SINCE: [(&str, i32); 19] = [
    ("cuCtxCreate_v3", 11_040),
    ("cuCtxCreate_v4", 12_050),
    ("cuEventElapsedTime_v2", 12_080),
    ("cuStreamGetCaptureInfo_v3", 12_030),
    ("cuStreamUpdateCaptureDependencies_v2", 12_030),
    ("cuGraphAddKernelNode_v2", 12_000),
    ("cuGraphKernelNodeGetParams_v2", 12_000),
    ("cuGraphKernelNodeSetParams_v2", 12_000),
    ("cuGraphExecKernelNodeSetParams_v2", 12_000),
    ("cuGraphExecUpdate_v2", 12_000),
    ("cuGraphInstantiateWithFlags", 11_040),
    ("cuGraphAddNode_v2", 12_030),
    ("cuGraphGetEdges_v2", 12_030),
    ("cuGraphNodeGetDependencies_v2", 12_030),
    ("cuGraphNodeGetDependentNodes_v2", 12_030),
    ("cuGraphAddDependencies_v2", 12_030),
    ("cuGraphRemoveDependencies_v2", 12_030),
    ("cuMemPrefetchAsync_v2", 13_000),
    ("cuMemAdvise_v2", 13_000),
];

macro_rules! table {
    ($($module:ident::$name:ident,)*) => {
        pub fn table() -> impl Iterator<Item = (&'static str, *const c_void)> {
            [
                ("cuGetProcAddress", cuGetProcAddress as *const c_void),
                ("cuGetProcAddress_v2", cuGetProcAddress_v2 as *const c_void),
                $((stringify!($name), $module::$name as *const c_void),)*
            ]
            .into_iter()
            .chain(unsupported::FUNCTIONS.iter().map(|(name, function)| (*name, *function as *const c_void)))
        }
    };
}

table! {
    context::cuDevicePrimaryCtxRetain,
    context::cuDevicePrimaryCtxRelease,
    context::cuDevicePrimaryCtxRelease_v2,
    context::cuDevicePrimaryCtxReset,
    context::cuDevicePrimaryCtxReset_v2,
    context::cuDevicePrimaryCtxGetState,
    context::cuDevicePrimaryCtxSetFlags,
    context::cuDevicePrimaryCtxSetFlags_v2,
    context::cuCtxCreate_v2,
    context::cuCtxCreate_v3,
    context::cuCtxCreate_v4,
    context::cuCtxDestroy_v2,
    context::cuCtxAttach,
    context::cuCtxDetach,
    context::cuCtxGetCurrent,
    context::cuCtxSetCurrent,
    context::cuCtxPushCurrent_v2,
    context::cuCtxPopCurrent_v2,
    context::cuCtxGetDevice,
    context::cuCtxGetId,
    context::cuCtxGetApiVersion,
    context::cuCtxSynchronize,
    context::cuCtxGetFlags,
    context::cuCtxSetFlags,
    context::cuCtxGetLimit,
    context::cuCtxSetLimit,
    context::cuCtxResetPersistingL2Cache,
    context::cuCtxGetCacheConfig,
    context::cuCtxSetCacheConfig,
    context::cuCtxGetSharedMemConfig,
    context::cuCtxSetSharedMemConfig,
    context::cuCtxGetStreamPriorityRange,
    context::cuProfilerStart,
    context::cuProfilerStop,
    context::cuGetExportTable,
    device::cuInit,
    device::cuDeviceGetCount,
    device::cuDeviceGet,
    device::cuDeviceGetName,
    device::cuDeviceGetUuid,
    device::cuDeviceGetUuid_v2,
    device::cuDeviceTotalMem_v2,
    device::cuDeviceGetAttribute,
    device::cuDeviceComputeCapability,
    device::cuDeviceGetByPCIBusId,
    device::cuDeviceGetPCIBusId,
    device::cuDeviceCanAccessPeer,
    device::cuDriverGetVersion,
    device::cuGetErrorName,
    device::cuGetErrorString,
    event::cuEventCreate,
    event::cuEventRecord,
    event::cuEventRecordWithFlags,
    event::cuEventSynchronize,
    event::cuEventQuery,
    event::cuEventDestroy_v2,
    event::cuEventElapsedTime,
    event::cuEventElapsedTime_v2,
    graph::cuGraphCreate,
    graph::cuGraphDestroy,
    graph::cuGraphClone,
    graph::cuGraphNodeFindInClone,
    graph::cuGraphNodeGetType,
    graph::cuGraphNodeGetContainingGraph,
    graph::cuGraphGetNodes,
    graph::cuGraphGetRootNodes,
    graph::cuGraphGetEdges,
    graph::cuGraphGetEdges_v2,
    graph::cuGraphNodeGetDependencies,
    graph::cuGraphNodeGetDependencies_v2,
    graph::cuGraphNodeGetDependentNodes,
    graph::cuGraphNodeGetDependentNodes_v2,
    graph::cuGraphAddDependencies,
    graph::cuGraphAddDependencies_v2,
    graph::cuGraphRemoveDependencies,
    graph::cuGraphRemoveDependencies_v2,
    graph::cuGraphDestroyNode,
    graph::cuGraphDebugDotPrint,
    node::cuGraphAddEmptyNode,
    node::cuGraphAddKernelNode,
    node::cuGraphAddKernelNode_v2,
    node::cuGraphAddMemcpyNode,
    node::cuGraphAddMemsetNode,
    node::cuGraphAddHostNode,
    node::cuGraphAddChildGraphNode,
    node::cuGraphAddEventRecordNode,
    node::cuGraphAddEventWaitNode,
    node::cuGraphAddNode,
    node::cuGraphAddNode_v2,
    node::cuGraphNodeSetParams,
    node::cuGraphKernelNodeGetParams,
    node::cuGraphKernelNodeGetParams_v2,
    node::cuGraphKernelNodeSetParams,
    node::cuGraphKernelNodeSetParams_v2,
    node::cuGraphKernelNodeGetAttribute,
    node::cuGraphKernelNodeSetAttribute,
    node::cuGraphKernelNodeCopyAttributes,
    node::cuGraphMemcpyNodeGetParams,
    node::cuGraphMemcpyNodeSetParams,
    node::cuGraphMemsetNodeGetParams,
    node::cuGraphMemsetNodeSetParams,
    node::cuGraphHostNodeGetParams,
    node::cuGraphHostNodeSetParams,
    node::cuGraphChildGraphNodeGetGraph,
    node::cuGraphEventRecordNodeGetEvent,
    node::cuGraphEventRecordNodeSetEvent,
    node::cuGraphEventWaitNodeGetEvent,
    node::cuGraphEventWaitNodeSetEvent,
    executable::cuGraphInstantiateWithFlags,
    executable::cuGraphInstantiate_v2,
    executable::cuGraphInstantiateWithParams,
    executable::cuGraphExecGetFlags,
    executable::cuGraphExecDestroy,
    executable::cuGraphUpload,
    executable::cuGraphExecNodeSetParams,
    executable::cuGraphExecKernelNodeSetParams,
    executable::cuGraphExecKernelNodeSetParams_v2,
    executable::cuGraphExecMemcpyNodeSetParams,
    executable::cuGraphExecMemsetNodeSetParams,
    executable::cuGraphExecHostNodeSetParams,
    executable::cuGraphExecChildGraphNodeSetParams,
    executable::cuGraphExecEventRecordNodeSetEvent,
    executable::cuGraphExecEventWaitNodeSetEvent,
    executable::cuGraphNodeSetEnabled,
    executable::cuGraphNodeGetEnabled,
    executable::cuGraphExecUpdate,
    executable::cuGraphExecUpdate_v2,
    executable::cuGraphLaunch,
    user_object::cuUserObjectCreate,
    user_object::cuUserObjectRetain,
    user_object::cuUserObjectRelease,
    user_object::cuGraphRetainUserObject,
    user_object::cuGraphReleaseUserObject,
    capture::cuStreamBeginCapture_v2,
    capture::cuStreamBeginCaptureToGraph,
    capture::cuStreamEndCapture,
    capture::cuStreamIsCapturing,
    capture::cuStreamGetCaptureInfo_v2,
    capture::cuStreamGetCaptureInfo_v3,
    capture::cuStreamUpdateCaptureDependencies,
    capture::cuStreamUpdateCaptureDependencies_v2,
    capture::cuThreadExchangeStreamCaptureMode,
    host_memory::cuMemAllocHost_v2,
    host_memory::cuMemHostAlloc,
    host_memory::cuMemFreeHost,
    host_memory::cuMemHostRegister_v2,
    host_memory::cuMemHostUnregister,
    host_memory::cuMemHostGetDevicePointer_v2,
    host_memory::cuMemHostGetFlags,
    host_memory::cuMemAllocManaged,
    host_memory::cuMemPrefetchAsync,
    host_memory::cuMemPrefetchAsync_v2,
    host_memory::cuMemAdvise,
    host_memory::cuMemAdvise_v2,
    host_memory::cuStreamAttachMemAsync,
    launch::cuLaunchKernel,
    launch::cuLaunchCooperativeKernel,
    launch::cuLaunchKernelEx,
    library::cuLibraryLoadData,
    library::cuLibraryLoadFromFile,
    library::cuLibraryUnload,
    library::cuLibraryGetKernel,
    library::cuLibraryGetKernelCount,
    library::cuLibraryEnumerateKernels,
    library::cuLibraryGetModule,
    library::cuLibraryGetGlobal,
    library::cuKernelGetFunction,
    library::cuKernelGetAttribute,
    library::cuKernelSetAttribute,
    library::cuKernelSetCacheConfig,
    library::cuKernelGetName,
    library::cuKernelGetParamInfo,
    memory::cuMemAlloc_v2,
    memory::cuMemAllocPitch_v2,
    memory::cuMemFree_v2,
    memory::cuMemGetInfo_v2,
    memory::cuMemGetAddressRange_v2,
    memory::cuMemcpy,
    memory::cuMemcpyAsync,
    memory::cuMemcpyHtoD_v2,
    memory::cuMemcpyHtoDAsync_v2,
    memory::cuMemcpyDtoH_v2,
    memory::cuMemcpyDtoHAsync_v2,
    memory::cuMemcpyDtoD_v2,
    memory::cuMemcpyDtoDAsync_v2,
    memory::cuMemcpyPeer,
    memory::cuMemcpyPeerAsync,
    memory::cuMemcpy2D_v2,
    memory::cuMemcpy2DUnaligned_v2,
    memory::cuMemcpy2DAsync_v2,
    memory::cuMemcpy3D_v2,
    memory::cuMemcpy3DAsync_v2,
    memory::cuMemsetD8_v2,
    memory::cuMemsetD16_v2,
    memory::cuMemsetD32_v2,
    memory::cuMemsetD8Async,
    memory::cuMemsetD16Async,
    memory::cuMemsetD32Async,
    memory::cuMemsetD2D8_v2,
    memory::cuMemsetD2D16_v2,
    memory::cuMemsetD2D32_v2,
    memory::cuMemsetD2D8Async,
    memory::cuMemsetD2D16Async,
    memory::cuMemsetD2D32Async,
    memory::cuPointerGetAttribute,
    memory::cuPointerGetAttributes,
    memory::cuPointerSetAttribute,
    module::cuModuleLoadData,
    module::cuModuleLoadDataEx,
    module::cuModuleLoadFatBinary,
    module::cuModuleLoad,
    module::cuModuleUnload,
    module::cuModuleGetLoadingMode,
    module::cuModuleGetFunction,
    module::cuModuleGetFunctionCount,
    module::cuModuleEnumerateFunctions,
    module::cuModuleGetGlobal_v2,
    module::cuFuncGetAttribute,
    module::cuFuncSetAttribute,
    module::cuFuncSetCacheConfig,
    module::cuFuncSetSharedMemConfig,
    module::cuFuncGetModule,
    module::cuFuncGetName,
    module::cuFuncGetParamInfo,
    module::cuFuncIsLoaded,
    module::cuFuncLoad,
    module::cuLinkCreate_v2,
    module::cuLinkAddData_v2,
    module::cuLinkAddFile_v2,
    module::cuLinkComplete,
    module::cuLinkDestroy,
    legacy_launch::cuFuncSetBlockShape,
    legacy_launch::cuFuncSetSharedSize,
    legacy_launch::cuParamSetSize,
    legacy_launch::cuParamSeti,
    legacy_launch::cuParamSetf,
    legacy_launch::cuParamSetv,
    legacy_launch::cuLaunch,
    legacy_launch::cuLaunchGrid,
    legacy_launch::cuLaunchGridAsync,
    occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessor,
    occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
    occupancy::cuOccupancyMaxPotentialBlockSize,
    occupancy::cuOccupancyMaxPotentialBlockSizeWithFlags,
    occupancy::cuOccupancyAvailableDynamicSMemPerBlock,
    virtual_memory::cuMemGetAllocationGranularity,
    virtual_memory::cuMemAddressReserve,
    virtual_memory::cuMemAddressFree,
    virtual_memory::cuMemCreate,
    virtual_memory::cuMemRelease,
    virtual_memory::cuMemMap,
    virtual_memory::cuMemUnmap,
    virtual_memory::cuMemSetAccess,
    pool::cuMemAllocAsync,
    pool::cuMemAllocFromPoolAsync,
    pool::cuMemFreeAsync,
    pool::cuDeviceGetDefaultMemPool,
    pool::cuDeviceGetMemPool,
    pool::cuDeviceSetMemPool,
    pool::cuMemPoolCreate,
    pool::cuMemPoolDestroy,
    pool::cuMemPoolTrimTo,
    pool::cuMemPoolGetAttribute,
    pool::cuMemPoolSetAttribute,
    stream::cuStreamCreate,
    stream::cuStreamCreateWithPriority,
    stream::cuStreamDestroy_v2,
    stream::cuStreamSynchronize,
    stream::cuStreamQuery,
    stream::cuStreamWaitEvent,
    stream::cuStreamGetFlags,
    stream::cuStreamGetPriority,
    stream::cuStreamGetCtx,
    stream::cuStreamGetId,
    stream::cuLaunchHostFunc,
}

/// The result of a look-up.
enum SymbolLookup {
    Function(*const c_void),
    TooNew,
    Missing,
}

/// Finds a function by its exact name, or the newest variant of it that the version has.
fn find(symbol: &str, version: i32) -> SymbolLookup {
    let symbol = match symbol {
        // Since CUDA 12.0 this name refers to another function.
        "cuGraphInstantiate" if version >= 12_000 => "cuGraphInstantiateWithFlags",
        other => other,
    };
    let since = |name: &str| {
        SINCE
            .iter()
            .find(|(newer, _)| *newer == name)
            .map_or(0, |(_, since)| *since)
    };
    let mut newest: Option<(&str, *const c_void)> = None;
    let mut too_new = false;
    for (name, function) in table() {
        let variant = name == symbol
            || name
                .strip_prefix(symbol)
                .is_some_and(|rest| matches!(rest, "_v2" | "_v3" | "_v4"));
        if !variant {
            continue;
        }
        if since(name) > version {
            too_new = true;
        } else if newest.is_none_or(|(known, _)| name > known) {
            newest = Some((name, function));
        }
    }
    match newest {
        Some((_, function)) => SymbolLookup::Function(function),
        None if too_new => SymbolLookup::TooNew,
        None => SymbolLookup::Missing,
    }
}

entries! { anytime
    /// Finds a function by name.
    fn cuGetProcAddress(symbol: CallerString, function: Out<*const c_void>, version: i32, _flags: u64) |_driver| {
        let function = function.required()?;
        match find(symbol.str()?, version) {
            SymbolLookup::Function(found) => function.set(found),
            SymbolLookup::TooNew | SymbolLookup::Missing => {
                function.set(std::ptr::null())?;
                Err(Code::NOT_FOUND)
            }
        }
    }

    /// Finds a function by name and writes the status of the look-up.
    fn cuGetProcAddress_v2(symbol: CallerString, function: Out<*const c_void>, version: i32, _flags: u64, status: Out<u32>) |_driver| {
        let function = function.required()?;
        let (found, how) = match find(symbol.str()?, version) {
            SymbolLookup::Function(found) => (found, FOUND),
            SymbolLookup::TooNew => (std::ptr::null(), TOO_NEW),
            SymbolLookup::Missing => (std::ptr::null(), MISSING),
        };
        status.set_if_given(how);
        function.set(found)?;
        if how == FOUND { Ok(()) } else { Err(Code::NOT_FOUND) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(symbol: &str, version: i32) -> Option<&'static str> {
        match find(symbol, version) {
            SymbolLookup::Function(function) => table()
                .find(|(_, known)| *known == function)
                .map(|(name, _)| name),
            SymbolLookup::TooNew | SymbolLookup::Missing => None,
        }
    }

    #[test]
    fn a_bare_name_finds_the_newest_variant_of_the_version() {
        assert_eq!(name_of("cuMemAlloc", 13_000), Some("cuMemAlloc_v2"));
        assert_eq!(name_of("cuCtxCreate", 11_000), Some("cuCtxCreate_v2"));
        assert_eq!(name_of("cuCtxCreate", 13_000), Some("cuCtxCreate_v4"));
        assert_eq!(name_of("cuMemcpyDtoH_v2", 12_000), Some("cuMemcpyDtoH_v2"));
        assert_eq!(name_of("cuMemcpy", 13_000), Some("cuMemcpy"));
        assert_eq!(
            name_of("cuGraphInstantiate", 13_000),
            Some("cuGraphInstantiateWithFlags")
        );
        assert_eq!(
            name_of("cuGraphInstantiate", 11_000),
            Some("cuGraphInstantiate_v2")
        );
        assert_eq!(name_of("cuNoSuchThing", 13_000), None);
        assert!(matches!(
            find("cuCtxCreate_v4", 12_000),
            SymbolLookup::TooNew
        ));
    }
}
