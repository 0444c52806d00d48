//! The functions of the contract tests, except the unsupported ones and those of graphs.

use crate::code::Code;

use super::entry::{Argument, FunctionContract, anytime, context, current, driver};
use super::test_process::PTX;

const VALUE: u32 = Code::INVALID_VALUE.0;
const MEMORY: u32 = Code::OUT_OF_MEMORY.0;
const NOT_FOUND: u32 = Code::NOT_FOUND.0;
const NO_FILE: u32 = Code::FILE_NOT_FOUND.0;
const MINUS_ONE: u64 = u32::MAX as u64;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ptx/basics.ptx");

use super::entry::Argument::{
    Access, AttributeBuffers, Attributes, Bytes, Context, CopyParams, CreatedStream, Description,
    Device, Either, Event, FilledLink, Function, Host, HostBytes, HostFunction, Image, Kernel,
    Length, Library, Link, Managed, Mapped, Memory, MemoryProperties, Module, Name, Null, Number,
    OneOf, OptionalContext, OptionalOut, Out, Parameters, Physical, Pinned, Pool, PoolProperties,
    Recorded, Rectangle, Registered, Reserved, SharedForBlock, Stream, Unregistered,
};

const CONTEXT_FLAGS: Argument = OneOf(0, &[(0x100, VALUE), (MINUS_ONE, VALUE)]);
const LIMIT: Argument = OneOf(
    0,
    &[
        (7, Code::UNSUPPORTED_LIMIT.0),
        (MINUS_ONE, Code::UNSUPPORTED_LIMIT.0),
    ],
);
const PREFERENCE: Argument = OneOf(0, &[(4, VALUE), (MINUS_ONE, VALUE)]);
const BANKS: Argument = OneOf(1, &[(3, VALUE), (MINUS_ONE, VALUE)]);
const TEXT_ROOM: Argument = OneOf(64, &[(0, VALUE), (MINUS_ONE, VALUE)]);
const STREAM_FLAGS: Argument = OneOf(1, &[(2, VALUE), (MINUS_ONE, VALUE)]);
const NO_FLAG: Argument = OneOf(0, &[(1, VALUE), (MINUS_ONE, VALUE)]);
const DEVICE_BYTES: Argument = OneOf(64, &[(0, VALUE), (1 << 40, MEMORY), (u64::MAX, MEMORY)]);
const GRANULE: Argument = OneOf(2 << 20, &[(0, VALUE), (1, VALUE), (u64::MAX, VALUE)]);
const TWO_GRANULES: Argument = OneOf(4 << 20, &[(0, VALUE), (1, VALUE), (u64::MAX, VALUE)]);
const COUNT: Argument = OneOf(16, &[(1 << 40, VALUE), (u64::MAX, VALUE)]);
const EXTENT: Argument = OneOf(1, &[(0, VALUE)]);
const SMALL_EXTENT: Argument = OneOf(1, &[(0, VALUE), (65_536, VALUE)]);
const BLOCK_X: Argument = OneOf(32, &[(0, VALUE), (1025, VALUE)]);
const BLOCK_Y: Argument = OneOf(1, &[(0, VALUE), (1025, VALUE)]);
const BLOCK_Z: Argument = OneOf(1, &[(0, VALUE), (65, VALUE)]);
const SHARED: Argument = OneOf(0, &[(1 << 20, VALUE), (MINUS_ONE, VALUE)]);
const OFFSET: Argument = OneOf(0, &[(1 << 20, VALUE), (MINUS_ONE, VALUE)]);
const THREADS: Argument = OneOf(32, &[(0, VALUE), (MINUS_ONE, VALUE)]);
const KERNEL_NAME: Argument = Name("axpy", Some("no such kernel"), NOT_FOUND);
const VARIABLE_NAME: Argument = Name("counter", Some("no such variable"), NOT_FOUND);
const FILE_NAME: Argument = Name(FILE, Some("/no/such/file"), NO_FILE);
const FUNCTION_ATTRIBUTE: Argument = OneOf(0, &[(99, VALUE), (MINUS_ONE, VALUE)]);
const SETTABLE_ATTRIBUTE: Argument = OneOf(8, &[(0, VALUE), (99, VALUE)]);
const DYNAMIC_SHARED: Argument = OneOf(1024, &[(MINUS_ONE, VALUE), (1 << 30, VALUE)]);
const POOL_ATTRIBUTE: Argument = OneOf(4, &[(0, VALUE), (9, VALUE), (MINUS_ONE, VALUE)]);
const ADVICE: Argument = OneOf(1, &[(0, VALUE), (7, VALUE)]);
/// A memory location: the kind in the lower half, its number in the upper half.
const LOCATION: Argument = OneOf(
    1,
    &[
        (0, VALUE),
        (99, VALUE),
        (1 | 1 << 32, Code::INVALID_DEVICE.0),
    ],
);
const DEVICE_OR_HOST: Argument = OneOf(0, &[(1, Code::INVALID_DEVICE.0)]);

/// All functions except the unsupported ones and those of graphs, in the order of the modules.
pub const ENTRIES: &[FunctionContract] = &[
    // Contexts.
    driver("cuDevicePrimaryCtxRetain", &[Out, Device]),
    driver("cuDevicePrimaryCtxRelease", &[Device]),
    driver("cuDevicePrimaryCtxRelease_v2", &[Device]),
    driver("cuDevicePrimaryCtxReset", &[Device]),
    driver("cuDevicePrimaryCtxReset_v2", &[Device]),
    driver("cuDevicePrimaryCtxGetState", &[Device, Out, Out]),
    driver("cuDevicePrimaryCtxSetFlags", &[Device, CONTEXT_FLAGS]),
    driver("cuDevicePrimaryCtxSetFlags_v2", &[Device, CONTEXT_FLAGS]),
    driver("cuCtxCreate_v2", &[Out, CONTEXT_FLAGS, Device]),
    driver(
        "cuCtxCreate_v3",
        &[Out, Null, Number(0), CONTEXT_FLAGS, Device],
    ),
    driver("cuCtxCreate_v4", &[Out, Null, CONTEXT_FLAGS, Device]),
    driver("cuCtxDestroy_v2", &[Context]),
    context("cuCtxAttach", &[Out, NO_FLAG]),
    // The context of this row exists and is not current. `tests/state/contexts.rs` tests detaching the current context.
    driver("cuCtxDetach", &[Context]).returns(Code::INVALID_CONTEXT.0),
    driver("cuCtxPushCurrent_v2", &[Context]),
    current("cuCtxPopCurrent_v2", &[OptionalOut]),
    driver("cuCtxSetCurrent", &[Context]).except(&[(0, "null", 0)]),
    driver("cuCtxGetCurrent", &[Out]),
    context("cuCtxGetDevice", &[Out]),
    driver("cuCtxGetId", &[OptionalContext, Out]),
    driver("cuCtxGetApiVersion", &[OptionalContext, Out]),
    context("cuCtxSynchronize", &[]),
    context("cuCtxGetFlags", &[Out]),
    context("cuCtxSetFlags", &[CONTEXT_FLAGS]),
    context("cuCtxGetLimit", &[Out, LIMIT]),
    context("cuCtxSetLimit", &[LIMIT, Number(4096)]),
    context("cuCtxResetPersistingL2Cache", &[]),
    context("cuCtxGetCacheConfig", &[Out]),
    context("cuCtxSetCacheConfig", &[PREFERENCE]),
    context("cuCtxGetSharedMemConfig", &[Out]),
    context("cuCtxSetSharedMemConfig", &[BANKS]),
    context("cuCtxGetStreamPriorityRange", &[OptionalOut, OptionalOut]),
    context("cuProfilerStart", &[]),
    context("cuProfilerStop", &[]),
    anytime("cuGetExportTable", &[Out, Null]).returns(Code::NOT_SUPPORTED.0),
    // The device.
    anytime("cuInit", &[NO_FLAG]),
    anytime("cuDriverGetVersion", &[Out]),
    anytime("cuGetErrorName", &[OneOf(700, &[(123_456, VALUE)]), Out]),
    anytime("cuGetErrorString", &[OneOf(700, &[(123_456, VALUE)]), Out]),
    driver("cuDeviceGetCount", &[Out]),
    driver("cuDeviceGet", &[Out, Device]),
    driver("cuDeviceGetName", &[Host, TEXT_ROOM, Device]),
    driver("cuDeviceGetUuid", &[Out, Device]),
    driver("cuDeviceGetUuid_v2", &[Out, Device]),
    driver("cuDeviceTotalMem_v2", &[Out, Device]),
    driver(
        "cuDeviceGetAttribute",
        &[Out, OneOf(75, &[(0, VALUE), (10_000, VALUE)]), Device],
    ),
    driver("cuDeviceComputeCapability", &[Out, Out, Device]),
    driver(
        "cuDeviceGetByPCIBusId",
        &[
            Out,
            Name("0000:00:00.0", Some("0000:07:00.0"), Code::INVALID_DEVICE.0),
        ],
    ),
    driver("cuDeviceGetPCIBusId", &[Host, TEXT_ROOM, Device]),
    driver("cuDeviceCanAccessPeer", &[Out, Device, Device]),
    // Events.
    context(
        "cuEventCreate",
        &[
            Out,
            OneOf(
                0,
                &[(6, Code::NOT_SUPPORTED.0), (8, VALUE), (MINUS_ONE, VALUE)],
            ),
        ],
    ),
    context("cuEventRecord", &[Event, Stream]),
    context("cuEventRecordWithFlags", &[Event, Stream, NO_FLAG]),
    context("cuEventSynchronize", &[Event]),
    context("cuEventQuery", &[Event]),
    context("cuEventDestroy_v2", &[Event]),
    context("cuEventElapsedTime", &[Out, Recorded, Recorded]),
    context("cuEventElapsedTime_v2", &[Out, Recorded, Recorded]),
    // Host memory.
    context("cuMemAllocHost_v2", &[Out, HostBytes]),
    context(
        "cuMemHostAlloc",
        &[Out, HostBytes, OneOf(0, &[(8, VALUE), (MINUS_ONE, VALUE)])],
    ),
    context("cuMemFreeHost", &[Pinned]),
    context(
        "cuMemHostRegister_v2",
        &[Unregistered, HostBytes, OneOf(0, &[(16, VALUE)])],
    )
    .except(&[
        (
            1,
            "more than there is",
            Code::HOST_MEMORY_ALREADY_REGISTERED.0,
        ),
        (1, "the largest number", VALUE),
    ]),
    context("cuMemHostUnregister", &[Registered]),
    context("cuMemHostGetDevicePointer_v2", &[Out, Pinned, NO_FLAG]),
    context("cuMemHostGetFlags", &[Out, Pinned]),
    context(
        "cuMemAllocManaged",
        &[
            Out,
            HostBytes,
            OneOf(1, &[(0, VALUE), (4, VALUE), (8, VALUE)]),
        ],
    ),
    context(
        "cuMemPrefetchAsync",
        &[Managed, COUNT, DEVICE_OR_HOST, Stream],
    ),
    context(
        "cuMemPrefetchAsync_v2",
        &[Managed, COUNT, LOCATION, NO_FLAG, Stream],
    ),
    context("cuMemAdvise", &[Managed, COUNT, ADVICE, Number(0)]),
    context("cuMemAdvise_v2", &[Managed, COUNT, ADVICE, Number(1)]),
    context(
        "cuStreamAttachMemAsync",
        &[
            Stream,
            Managed,
            Bytes(0),
            OneOf(1, &[(0, VALUE), (3, VALUE), (8, VALUE)]),
        ],
    ),
    // Launches.
    context(
        "cuLaunchKernel",
        &[
            Function,
            EXTENT,
            SMALL_EXTENT,
            SMALL_EXTENT,
            BLOCK_X,
            BLOCK_Y,
            BLOCK_Z,
            SHARED,
            Stream,
            Parameters,
            Null,
        ],
    ),
    context(
        "cuLaunchCooperativeKernel",
        &[
            Function,
            EXTENT,
            SMALL_EXTENT,
            SMALL_EXTENT,
            BLOCK_X,
            BLOCK_Y,
            BLOCK_Z,
            SHARED,
            Stream,
            Parameters,
        ],
    ),
    context(
        "cuLaunchKernelEx",
        &[Description, Function, Parameters, Null],
    ),
    // Launches with the API from before CUDA 4.
    context(
        "cuFuncSetBlockShape",
        &[Function, BLOCK_X, BLOCK_Y, BLOCK_Z],
    ),
    context("cuFuncSetSharedSize", &[Function, Number(64)]),
    context(
        "cuParamSetSize",
        &[Function, OneOf(24, &[(1 << 16, VALUE), (MINUS_ONE, VALUE)])],
    ),
    context("cuParamSeti", &[Function, OFFSET, Number(7)]),
    context("cuParamSetf", &[Function, OFFSET, Number(7)]),
    context("cuParamSetv", &[Function, OFFSET, Host, Bytes(16)]),
    // No parameters were set, and the kernel has parameters.
    context("cuLaunch", &[Function]).returns(VALUE),
    context("cuLaunchGrid", &[Function, EXTENT, EXTENT]).returns(VALUE),
    context("cuLaunchGridAsync", &[Function, EXTENT, EXTENT, Stream]).returns(VALUE),
    // Libraries.
    driver(
        "cuLibraryLoadData",
        &[Out, Image, Null, Null, Number(0), Null, Null, Number(0)],
    ),
    driver(
        "cuLibraryLoadFromFile",
        &[Out, FILE_NAME, Null, Null, Number(0), Null, Null, Number(0)],
    ),
    driver("cuLibraryUnload", &[Library]),
    driver("cuLibraryGetKernel", &[Out, Library, KERNEL_NAME]),
    driver("cuLibraryGetKernelCount", &[Out, Library]),
    driver("cuLibraryEnumerateKernels", &[Host, Number(4), Library]),
    context("cuLibraryGetModule", &[Out, Library]),
    context(
        "cuLibraryGetGlobal",
        &[OptionalOut, OptionalOut, Library, VARIABLE_NAME],
    ),
    context("cuKernelGetFunction", &[Out, Kernel]),
    context(
        "cuKernelGetAttribute",
        &[Out, FUNCTION_ATTRIBUTE, Kernel, Device],
    ),
    context(
        "cuKernelSetAttribute",
        &[SETTABLE_ATTRIBUTE, DYNAMIC_SHARED, Kernel, Device],
    ),
    driver("cuKernelSetCacheConfig", &[Kernel, PREFERENCE, Device]),
    driver("cuKernelGetName", &[Out, Kernel]),
    context(
        "cuKernelGetParamInfo",
        &[
            Kernel,
            OneOf(0, &[(4, VALUE), (u64::MAX, VALUE)]),
            Out,
            OptionalOut,
        ],
    ),
    // Device memory.
    context("cuMemAlloc_v2", &[Out, DEVICE_BYTES]),
    context(
        "cuMemAllocPitch_v2",
        &[
            Out,
            Out,
            OneOf(10, &[(0, VALUE), (u64::MAX, VALUE)]),
            OneOf(4, &[(0, VALUE), (1 << 60, MEMORY)]),
            OneOf(4, &[(0, VALUE), (3, VALUE)]),
        ],
    ),
    context("cuMemFree_v2", &[Memory]).except(&[(0, "null", 0)]),
    context("cuMemGetInfo_v2", &[OptionalOut, OptionalOut]),
    context(
        "cuMemGetAddressRange_v2",
        &[OptionalOut, OptionalOut, Memory],
    ),
    context("cuMemcpy", &[Either, Either, Bytes(16)]),
    context("cuMemcpyAsync", &[Either, Either, Bytes(16), Stream]),
    context("cuMemcpyHtoD_v2", &[Memory, Host, Bytes(16)]),
    context("cuMemcpyHtoDAsync_v2", &[Memory, Host, Bytes(16), Stream]),
    context("cuMemcpyDtoH_v2", &[Host, Memory, Bytes(16)]),
    context("cuMemcpyDtoHAsync_v2", &[Host, Memory, Bytes(16), Stream]),
    context("cuMemcpyDtoD_v2", &[Memory, Memory, COUNT]),
    context("cuMemcpyDtoDAsync_v2", &[Memory, Memory, COUNT, Stream]),
    context("cuMemcpyPeer", &[Memory, Context, Memory, Context, COUNT]),
    context(
        "cuMemcpyPeerAsync",
        &[Memory, Context, Memory, Context, COUNT, Stream],
    ),
    context("cuMemcpy2D_v2", &[Rectangle]),
    context("cuMemcpy2DUnaligned_v2", &[Rectangle]),
    context("cuMemcpy2DAsync_v2", &[Rectangle, Stream]),
    context("cuMemcpy3D_v2", &[CopyParams]),
    context("cuMemcpy3DAsync_v2", &[CopyParams, Stream]),
    context("cuMemsetD8_v2", &[Memory, Number(7), COUNT]),
    context("cuMemsetD16_v2", &[Memory, Number(7), COUNT]),
    context("cuMemsetD32_v2", &[Memory, Number(7), COUNT]),
    context("cuMemsetD8Async", &[Memory, Number(7), COUNT, Stream]),
    context("cuMemsetD16Async", &[Memory, Number(7), COUNT, Stream]),
    context("cuMemsetD32Async", &[Memory, Number(7), COUNT, Stream]),
    context(
        "cuMemsetD2D8_v2",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            OneOf(2, &[(u64::MAX, VALUE)]),
        ],
    ),
    context(
        "cuMemsetD2D16_v2",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            OneOf(2, &[(u64::MAX, VALUE)]),
        ],
    ),
    context(
        "cuMemsetD2D32_v2",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            OneOf(2, &[(u64::MAX, VALUE)]),
        ],
    ),
    context(
        "cuMemsetD2D8Async",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            Number(2),
            Stream,
        ],
    ),
    context(
        "cuMemsetD2D16Async",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            Number(2),
            Stream,
        ],
    ),
    context(
        "cuMemsetD2D32Async",
        &[
            Memory,
            OneOf(64, &[(1, VALUE)]),
            Number(7),
            COUNT,
            Number(2),
            Stream,
        ],
    ),
    context(
        "cuPointerGetAttribute",
        &[Host, OneOf(2, &[(0, VALUE), (99, VALUE)]), Memory],
    ),
    context(
        "cuPointerGetAttributes",
        &[Length(2), Attributes, AttributeBuffers, Memory],
    )
    // An address without memory has no attributes, which is not an error of this function.
    .except(&[
        (3, "null", 0),
        (3, "garbage", 0),
        (3, "freed memory", 0),
        (3, "a handle", 0),
    ]),
    context(
        "cuPointerSetAttribute",
        &[Host, OneOf(6, &[(1, VALUE), (99, VALUE)]), Memory],
    ),
    // Modules.
    context("cuModuleLoadData", &[Out, Image]),
    context("cuModuleLoadDataEx", &[Out, Image, Number(0), Null, Null]),
    context("cuModuleLoadFatBinary", &[Out, Image]),
    context("cuModuleLoad", &[Out, FILE_NAME]),
    context("cuModuleUnload", &[Module]),
    driver("cuModuleGetLoadingMode", &[Out]),
    context("cuModuleGetFunction", &[Out, Module, KERNEL_NAME]),
    context("cuModuleGetFunctionCount", &[Out, Module]),
    context("cuModuleEnumerateFunctions", &[Host, Number(4), Module]),
    context(
        "cuModuleGetGlobal_v2",
        &[OptionalOut, OptionalOut, Module, VARIABLE_NAME],
    ),
    context("cuFuncGetAttribute", &[Out, FUNCTION_ATTRIBUTE, Function]),
    context(
        "cuFuncSetAttribute",
        &[Function, SETTABLE_ATTRIBUTE, DYNAMIC_SHARED],
    ),
    context("cuFuncSetCacheConfig", &[Function, PREFERENCE]),
    context("cuFuncSetSharedMemConfig", &[Function, BANKS]),
    context("cuFuncGetModule", &[Out, Function]),
    context("cuFuncGetName", &[Out, Function]),
    context(
        "cuFuncGetParamInfo",
        &[
            Function,
            OneOf(0, &[(4, VALUE), (u64::MAX, VALUE)]),
            Out,
            OptionalOut,
        ],
    ),
    context("cuFuncIsLoaded", &[Out, Function]),
    context("cuFuncLoad", &[Function]),
    context("cuLinkCreate_v2", &[Number(0), Null, Null, Out]),
    driver(
        "cuLinkAddData_v2",
        &[
            Link,
            OneOf(1, &[(6, VALUE), (MINUS_ONE, VALUE)]),
            Name(PTX, None, 0),
            Bytes(PTX.len() as u64),
            Null,
            Number(0),
            Null,
            Null,
        ],
    ),
    driver(
        "cuLinkAddFile_v2",
        &[
            Link,
            OneOf(1, &[(6, VALUE), (MINUS_ONE, VALUE)]),
            FILE_NAME,
            Number(0),
            Null,
            Null,
        ],
    ),
    driver("cuLinkComplete", &[FilledLink, Out, OptionalOut]),
    driver("cuLinkDestroy", &[Link]),
    // Occupancy.
    context(
        "cuOccupancyMaxActiveBlocksPerMultiprocessor",
        &[Out, Function, THREADS, Number(0)],
    ),
    context(
        "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
        &[Out, Function, THREADS, Number(0), Number(0)],
    ),
    context(
        "cuOccupancyMaxPotentialBlockSize",
        &[Out, Out, Function, SharedForBlock, Number(0), Number(0)],
    ),
    context(
        "cuOccupancyMaxPotentialBlockSizeWithFlags",
        &[
            Out,
            Out,
            Function,
            SharedForBlock,
            Number(0),
            Number(0),
            Number(0),
        ],
    ),
    context(
        "cuOccupancyAvailableDynamicSMemPerBlock",
        &[
            Out,
            Function,
            OneOf(1, &[(0, VALUE), (1 << 20, VALUE)]),
            THREADS,
        ],
    ),
    // Pools.
    context("cuMemAllocAsync", &[Out, DEVICE_BYTES, Stream]),
    context(
        "cuMemAllocFromPoolAsync",
        &[Out, DEVICE_BYTES, Pool, Stream],
    ),
    context("cuMemFreeAsync", &[Memory, Stream]).except(&[(0, "null", 0)]),
    driver("cuDeviceGetDefaultMemPool", &[Out, Device]),
    driver("cuDeviceGetMemPool", &[Out, Device]),
    driver("cuDeviceSetMemPool", &[Device, Pool]),
    driver("cuMemPoolCreate", &[Out, PoolProperties]),
    driver("cuMemPoolDestroy", &[Pool]),
    driver("cuMemPoolTrimTo", &[Pool, Number(0)]),
    driver("cuMemPoolGetAttribute", &[Pool, POOL_ATTRIBUTE, Host]),
    driver("cuMemPoolSetAttribute", &[Pool, POOL_ATTRIBUTE, Host]),
    // Virtual memory.
    context(
        "cuMemGetAllocationGranularity",
        &[Out, MemoryProperties, Number(0)],
    ),
    context(
        "cuMemAddressReserve",
        &[Out, GRANULE, OneOf(0, &[(3, VALUE)]), Number(0), NO_FLAG],
    ),
    context("cuMemAddressFree", &[Reserved, TWO_GRANULES]),
    context("cuMemCreate", &[Out, GRANULE, MemoryProperties, NO_FLAG]),
    context("cuMemRelease", &[Physical]),
    context("cuMemMap", &[Reserved, GRANULE, NO_FLAG, Physical, NO_FLAG]),
    context("cuMemUnmap", &[Mapped, GRANULE]),
    context(
        "cuMemSetAccess",
        &[Mapped, GRANULE, Access, OneOf(1, &[(0, VALUE), (2, VALUE)])],
    ),
    // Streams.
    context("cuStreamCreate", &[Out, STREAM_FLAGS]),
    context(
        "cuStreamCreateWithPriority",
        &[Out, STREAM_FLAGS, Number(0)],
    ),
    context("cuStreamDestroy_v2", &[CreatedStream]),
    context("cuStreamSynchronize", &[Stream]),
    context("cuStreamQuery", &[Stream]),
    context(
        "cuStreamWaitEvent",
        &[
            Stream,
            Event,
            OneOf(0, &[(1, VALUE), (2, VALUE), (MINUS_ONE, VALUE)]),
        ],
    ),
    context("cuStreamGetFlags", &[Stream, Out]),
    context("cuStreamGetPriority", &[Stream, Out]),
    context("cuStreamGetCtx", &[Stream, Out]),
    context("cuStreamGetId", &[Stream, Out]),
    context("cuLaunchHostFunc", &[Stream, HostFunction, Number(0)]),
    // Look-up of functions.
    anytime(
        "cuGetProcAddress",
        &[
            Name("cuInit", Some("cuNoSuchThing"), NOT_FOUND),
            Out,
            Number(13_000),
            Number(0),
        ],
    ),
    anytime(
        "cuGetProcAddress_v2",
        &[
            Name("cuInit", Some("cuNoSuchThing"), NOT_FOUND),
            Out,
            Number(13_000),
            Number(0),
            OptionalOut,
        ],
    ),
];
