//! Tests of functions that cudarc's safe layer does not use, called as C programs call them.

use std::ffi::{c_char, c_void};
use std::ptr::{null_mut, without_provenance_mut};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUmemorytype, CUpointer_attribute, CUresult};

use crate::PTX;
use crate::child::in_child;

const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;

/// Calls a function and expects success.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: the test passes what the function documents.
        assert_eq!(unsafe { $call }, SUCCESS)
    };
}

/// Calls a function and expects an error.
macro_rules! refused {
    ($call:expr, $code:ident) => {
        // SAFETY: the test passes what the function documents, or null.
        assert_eq!(unsafe { $call }, CUresult::$code)
    };
}

fn allocate(bytes: usize) -> u64 {
    let mut address = 0;
    ok!(sys::cuMemAlloc_v2(&raw mut address, bytes));
    address
}

#[test]
fn rectangles_are_copied_and_filled() {
    in_child("raw::rectangles_are_copied_and_filled", &[], || {
        let _context = CudaContext::new(0).expect("a context");
        let (mut address, mut pitch) = (0, 0);
        ok!(sys::cuMemAllocPitch_v2(
            &raw mut address,
            &raw mut pitch,
            10,
            4,
            4
        ));
        assert_eq!(pitch % 512, 0);
        ok!(sys::cuMemsetD2D8_v2(address, pitch, 0xee, 10, 4));
        let source: Vec<u8> = (0..12).collect();
        // Copies two rows of three bytes, from rows of six bytes, to column 2 of row 1.
        let plan = sys::CUDA_MEMCPY2D {
            srcXInBytes: 1,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: source.as_ptr().cast(),
            srcDevice: 0,
            srcArray: null_mut(),
            srcPitch: 6,
            dstXInBytes: 2,
            dstY: 1,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: null_mut(),
            dstDevice: address,
            dstArray: null_mut(),
            dstPitch: pitch,
            WidthInBytes: 3,
            Height: 2,
        };
        ok!(sys::cuMemcpy2D_v2(&raw const plan));
        let mut row = [0_u8; 10];
        for (index, expected) in [
            [0xee; 10],
            [0xee, 0xee, 1, 2, 3, 0xee, 0xee, 0xee, 0xee, 0xee],
            [0xee, 0xee, 7, 8, 9, 0xee, 0xee, 0xee, 0xee, 0xee],
            [0xee; 10],
        ]
        .iter()
        .enumerate()
        {
            let start = address + (index * pitch) as u64;
            ok!(sys::cuMemcpyDtoH_v2(row.as_mut_ptr().cast(), start, 10));
            assert_eq!(row, *expected, "row {index}");
        }
        let narrow = sys::CUDA_MEMCPY2D {
            dstPitch: 2,
            ..plan
        };
        refused!(
            sys::cuMemcpy2D_v2(&raw const narrow),
            CUDA_ERROR_INVALID_VALUE
        );
        ok!(sys::cuMemFree_v2(address));
    });
}

#[test]
fn attributes_of_addresses_name_their_memory() {
    in_child(
        "raw::attributes_of_addresses_name_their_memory",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let device = allocate(1000);
            let mut host: *mut c_void = null_mut();
            ok!(sys::cuMemHostAlloc(&raw mut host, 100, 0));
            let attribute = |attribute, address: u64| {
                let mut value = 0_u64;
                // SAFETY: no attribute is wider than 64 bits.
                let code = unsafe {
                    sys::cuPointerGetAttribute((&raw mut value).cast(), attribute, address)
                };
                (code == SUCCESS).then_some(value)
            };
            use CUpointer_attribute as A;
            let inside = device + 10;
            assert_eq!(
                attribute(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside),
                Some(2)
            );
            assert_eq!(
                attribute(A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside),
                Some(device)
            );
            assert_eq!(
                attribute(A::CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside),
                Some(1000)
            );
            assert_eq!(
                attribute(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host as u64),
                Some(1)
            );
            let stranger = 0_u8;
            assert_eq!(
                attribute(
                    A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                    (&raw const stranger) as u64
                ),
                None
            );
            let (mut base, mut bytes) = (0, 0);
            ok!(sys::cuMemGetAddressRange_v2(
                &raw mut base,
                &raw mut bytes,
                inside
            ));
            assert_eq!((base, bytes), (device, 1000));

            // Copies whose direction follows from the addresses.
            // SAFETY: the memory was just allocated with 100 bytes.
            unsafe { host.cast::<u8>().write_bytes(7, 100) };
            ok!(sys::cuMemcpy(device, host as u64, 100));
            let mut back = [0_u8; 100];
            ok!(sys::cuMemcpy(back.as_mut_ptr() as u64, device, 100));
            assert_eq!(back, [7; 100]);
            ok!(sys::cuMemFreeHost(host));
            refused!(sys::cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
            ok!(sys::cuMemHostRegister_v2(back.as_mut_ptr().cast(), 100, 0));
            refused!(
                sys::cuMemHostRegister_v2(back[50..].as_mut_ptr().cast(), 100, 0),
                CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
            );
            ok!(sys::cuMemHostUnregister(back.as_mut_ptr().cast()));
            refused!(
                sys::cuMemHostUnregister(back.as_mut_ptr().cast()),
                CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
            );
        },
    );
}

/// A module from a link, a packed parameter block, and a launch with attributes.
#[test]
fn a_linked_module_runs_from_a_packed_block() {
    in_child("raw::a_linked_module_runs_from_a_packed_block", &[], || {
        let _context = CudaContext::new(0).expect("a context");
        let mut link = null_mut();
        ok!(sys::cuLinkCreate_v2(
            0,
            null_mut(),
            null_mut(),
            &raw mut link
        ));
        ok!(sys::cuLinkAddData_v2(
            link,
            sys::CUjitInputType::CU_JIT_INPUT_PTX,
            PTX.as_ptr().cast_mut().cast(),
            PTX.len(),
            c"kernels".as_ptr(),
            0,
            null_mut(),
            null_mut(),
        ));
        let (mut image, mut bytes) = (null_mut(), 0);
        ok!(sys::cuLinkComplete(link, &raw mut image, &raw mut bytes));
        let mut module = null_mut();
        ok!(sys::cuModuleLoadData(&raw mut module, image));
        ok!(sys::cuLinkDestroy(link));
        let mut function = null_mut();
        ok!(sys::cuModuleGetFunction(
            &raw mut function,
            module,
            c"through_shared".as_ptr()
        ));

        let address = allocate(256);
        ok!(sys::cuMemsetD32_v2(address, 41, 64));
        let mut packed = address.to_le_bytes();
        let sizes = [packed.len(), 4];
        let place = packed.as_mut_ptr().cast();
        let [mut extra, mut short] = [&sizes[0], &sizes[1]].map(|size| -> [*mut c_void; 5] {
            let size = (&raw const *size).cast_mut().cast();
            [
                without_provenance_mut(1),
                place,
                without_provenance_mut(2),
                size,
                null_mut(),
            ]
        });
        ok!(sys::cuLaunchKernel(
            function,
            1,
            1,
            1,
            64,
            1,
            1,
            256,
            null_mut(),
            null_mut(),
            extra.as_mut_ptr(),
        ));
        let mut pointer = address;
        let mut values: [*mut c_void; 1] = [(&raw mut pointer).cast()];
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { cooperative: 1 },
        };
        let mut config = sys::CUlaunchConfig {
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 64,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 256,
            hStream: null_mut(),
            attrs: &raw mut attribute,
            numAttrs: 1,
        };
        ok!(sys::cuLaunchKernelEx(
            &raw const config,
            function,
            values.as_mut_ptr(),
            null_mut()
        ));
        ok!(sys::cuCtxSynchronize());
        let mut output = [0_u32; 64];
        ok!(sys::cuMemcpyDtoH_v2(
            output.as_mut_ptr().cast(),
            address,
            256
        ));
        assert_eq!(output, [43; 64]);

        // A window that persists in the L2 cache changes nothing else; its numbers are checked.
        let window =
            |bytes: usize, hit_ratio: f32, miss: sys::CUaccessProperty| sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    accessPolicyWindow: sys::CUaccessPolicyWindow {
                        base_ptr: address as *mut c_void,
                        num_bytes: bytes,
                        hitRatio: hit_ratio,
                        hitProp: sys::CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING,
                        missProp: miss,
                    },
                },
            };
        let streaming = sys::CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING;
        let persisting = sys::CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING;
        let mut most = 0;
        ok!(sys::cuDeviceGetAttribute(
            &raw mut most,
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE,
            0
        ));
        let mut usable = window(256, 0.5, streaming);
        config.attrs = &raw mut usable;
        ok!(sys::cuLaunchKernelEx(
            &raw const config,
            function,
            values.as_mut_ptr(),
            null_mut()
        ));
        for mut unusable in [
            window(most as usize + 1, 0.5, streaming),
            window(256, 1.5, streaming),
            window(256, f32::NAN, streaming),
            window(256, 0.5, persisting),
        ] {
            config.attrs = &raw mut unusable;
            refused!(
                sys::cuLaunchKernelEx(&raw const config, function, values.as_mut_ptr(), null_mut()),
                CUDA_ERROR_INVALID_VALUE
            );
        }
        config.attrs = &raw mut attribute;

        // The part for persisting accesses is what the device has at most.
        let limit = sys::CUlimit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE;
        ok!(sys::cuCtxSetLimit(limit, usize::MAX));
        let (mut set_aside, mut largest) = (0, 0);
        ok!(sys::cuCtxGetLimit(&raw mut set_aside, limit));
        ok!(sys::cuDeviceGetAttribute(
            &raw mut largest,
            sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE,
            0
        ));
        assert!(largest > 0);
        assert_eq!(set_aside, largest as usize);
        ok!(sys::cuCtxResetPersistingL2Cache());
        ok!(sys::cuCtxSetLimit(limit, 0));

        // More blocks than are resident at once can run one after another, but cannot wait for each other.
        config.gridDimX = 100_000;
        refused!(
            sys::cuLaunchKernelEx(&raw const config, function, values.as_mut_ptr(), null_mut()),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
        );
        // Parameters are passed in one form or the other, not both.
        refused!(
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                64,
                1,
                1,
                256,
                null_mut(),
                values.as_mut_ptr(),
                extra.as_mut_ptr(),
            ),
            CUDA_ERROR_INVALID_VALUE
        );
        refused!(
            sys::cuLaunchKernel(
                function,
                1,
                1,
                1,
                64,
                1,
                1,
                256,
                null_mut(),
                null_mut(),
                short.as_mut_ptr(),
            ),
            CUDA_ERROR_INVALID_VALUE
        );
    });
}

#[test]
fn a_syntax_error_is_written_to_the_callers_log() {
    in_child(
        "raw::a_syntax_error_is_written_to_the_callers_log",
        &[],
        || {
            let _context = CudaContext::new(0).expect("a context");
            let text =
                c".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry broken( {\n";
            let mut log = [0_u8; 200];
            let mut names = [
                sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
                sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            ];
            let mut values: [*mut c_void; 2] =
                [log.as_mut_ptr().cast(), without_provenance_mut(log.len())];
            let mut module = null_mut();
            refused!(
                sys::cuModuleLoadDataEx(
                    &raw mut module,
                    text.as_ptr().cast(),
                    2,
                    names.as_mut_ptr(),
                    values.as_mut_ptr(),
                ),
                CUDA_ERROR_INVALID_PTX
            );
            let end = log
                .iter()
                .position(|&byte| byte == 0)
                .expect("it is terminated");
            let explained = std::str::from_utf8(&log[..end]).expect("UTF-8");
            assert!(explained.contains("parse PTX at 4:"), "{explained}");
        },
    );
}

#[test]
fn functions_and_variables_have_attributes() {
    in_child("raw::functions_and_variables_have_attributes", &[], || {
        let _context = CudaContext::new(0).expect("a context");
        let text = std::ffi::CString::new(PTX).expect("no NUL");
        let mut module = null_mut();
        ok!(sys::cuModuleLoadData(&raw mut module, text.as_ptr().cast()));
        let mut count = 0;
        ok!(sys::cuModuleGetFunctionCount(&raw mut count, module));
        let mut functions = vec![null_mut(); count as usize];
        ok!(sys::cuModuleEnumerateFunctions(
            functions.as_mut_ptr(),
            count,
            module
        ));
        let names: Vec<String> = functions
            .iter()
            .map(|&function| {
                let mut name: *const c_char = std::ptr::null();
                ok!(sys::cuFuncGetName(&raw mut name, function));
                // SAFETY: the function returned a text.
                unsafe { std::ffi::CStr::from_ptr(name) }
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        let expected = PTX.matches(".entry").count();
        assert_eq!(names.len(), expected);
        assert_eq!(names[0], "axpy");

        let (mut offset, mut bytes) = (0, 0);
        ok!(sys::cuFuncGetParamInfo(
            functions[0],
            2,
            &raw mut offset,
            &raw mut bytes
        ));
        assert_eq!((offset, bytes), (16, 4));
        refused!(
            sys::cuFuncGetParamInfo(functions[0], 4, &raw mut offset, &raw mut bytes),
            CUDA_ERROR_INVALID_VALUE
        );
        let (mut grid, mut block) = (0, 0);
        ok!(sys::cuOccupancyMaxPotentialBlockSize(
            &raw mut grid,
            &raw mut block,
            functions[0],
            None,
            0,
            0,
        ));
        // 48 warps fill a multiprocessor: two blocks of 24.
        assert_eq!((grid, block), (116, 768));
    });
}
