//! Loaded images and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::{result, sys};

use super::{
    DriverError, PersistingWindow, Stream, check_code, checked, is_exported, record_release_error,
    unsupported_error,
};

/// Most bytes that the driver writes about an image that it cannot load.
const LOG_BYTES: usize = 4096;

/// An image that is loaded on the device.
#[derive(Debug)]
pub struct Module(sys::CUmodule);

/// A kernel of a [`Module`], which it borrows.
#[derive(Debug)]
pub struct Kernel<'a> {
    function: sys::CUfunction,
    /// Size of each parameter in bytes, in order, as the driver read them from the loaded image.
    parameters: Vec<usize>,
    module: std::marker::PhantomData<&'a Module>,
}

/// A variable of a [`Module`], which it borrows.
#[derive(Debug)]
pub struct Variable<'a> {
    base: sys::CUdeviceptr,
    bytes: usize,
    module: std::marker::PhantomData<&'a Module>,
}

impl Variable<'_> {
    /// Address of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Overwrites the variable from its start.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn write(&self, content: &[u8]) -> Result<(), DriverError> {
        assert!(content.len() <= self.bytes, "a copy stays inside");
        // SAFETY: the variable exists and is at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Reads the variable from its start.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn read(&self, content: &mut [u8]) -> Result<(), DriverError> {
        assert!(content.len() <= self.bytes, "a copy stays inside");
        // SAFETY: the variable exists and is at least as long as `content`.
        let copied = unsafe { result::memcpy_dtoh_sync(content, self.base) };
        checked("cuMemcpyDtoH", copied)
    }
}

impl Module {
    /// Finds a variable.
    ///
    /// # Errors
    /// The driver's error; "not found" for a name that no variable can have.
    pub fn variable(&self, name: &str) -> Result<Variable<'_>, DriverError> {
        let name = CString::new(name).unwrap_or_default();
        if !is_exported("cuModuleGetGlobal_v2") {
            return Err(unsupported_error("cuModuleGetGlobal"));
        }
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: the module exists, the name is terminated, and both pointers are valid for a write.
        let found = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut base, &raw mut bytes, self.0, name.as_ptr())
        };
        check_code("cuModuleGetGlobal", found as u32)?;
        Ok(Variable {
            base,
            bytes,
            module: std::marker::PhantomData,
        })
    }

    /// Loads machine code or PTX.
    ///
    /// # Errors
    /// The driver's error.
    pub fn load(image: &[u8]) -> Result<Self, DriverError> {
        // The driver reads a text up to its terminating zero.
        let image = [image, &[0]].concat();
        let mut module = ptr::null_mut();
        let mut log = vec![0_u8; LOG_BYTES];
        let mut options = [
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The size is passed in the pointer itself.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        // SAFETY: the image is terminated and outlives the call, which copies it; `module` is valid for a write, the
        // options and their values for reads, and `log` for as many writes as its size says.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                image.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        check_code("cuModuleLoadDataEx", loaded as u32).map_err(|error| {
            let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
            let text = String::from_utf8_lossy(text).trim().to_owned();
            DriverError {
                log: Some(text).filter(|text| !text.is_empty()),
                ..error
            }
        })?;
        Ok(Self(module))
    }

    /// Finds a kernel and the sizes of its parameters.
    ///
    /// # Errors
    /// The driver's error; "not found" for a name that no kernel can have.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, DriverError> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module exists until `self` is dropped.
        let function = unsafe { result::module::get_function(self.0, name) };
        let function = checked("cuModuleGetFunction", function)?;
        Ok(Kernel {
            function,
            parameters: parameters(function)?,
            module: std::marker::PhantomData,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: the module exists, and no `Kernel` outlives it. A refusal means that the context is broken; the
        // module is then destroyed with it.
        let unloaded = unsafe { result::module::unload(self.0) };
        record_release_error(checked("cuModuleUnload", unloaded));
    }
}

/// Size of each parameter of a function in bytes, in order.
fn parameters(function: sys::CUfunction) -> Result<Vec<usize>, DriverError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function exists, because its module does; both pointers are valid for a write; `Gpu::open` has
        // found the symbol.
        let told = unsafe {
            sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut bytes)
        };
        if told == sys::CUresult::CUDA_ERROR_INVALID_VALUE {
            return Ok(sizes);
        }
        check_code("cuFuncGetParamInfo", told as u32)?;
        sizes.push(bytes);
    }
}

/// The shape of one launch.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    /// True if the blocks synchronise across the grid.
    pub cooperative: bool,
}

impl Kernel<'_> {
    /// Size of each parameter in bytes, in order, as the driver read them from the loaded image.
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Raises the limit of a launch's dynamic shared memory to `bytes`.
    ///
    /// # Errors
    /// The driver's error where the device has less.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function exists as long as its module, which this type borrows.
        let set =
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes) };
        checked("cuFuncSetAttribute", set)
    }

    /// Launches on the context's own stream. `arguments` holds each parameter's bytes. The device checks the kernel's
    /// use of addresses among them.
    ///
    /// # Errors
    /// The driver's error. "Invalid value", without a call of the driver, if the number or the sizes of the arguments
    /// differ from the image's parameters.
    pub fn launch(&self, shape: Shape, arguments: &[Vec<u8>]) -> Result<(), DriverError> {
        self.enqueue(shape, arguments, ptr::null_mut())
    }

    /// Launches as [`Self::launch`], with a window of addresses whose accesses persist in the L2 cache.
    ///
    /// # Errors
    /// As for [`Self::launch`]; "invalid value" too for a window larger than the device's.
    pub fn launch_with_window(
        &self,
        shape: Shape,
        arguments: &[Vec<u8>],
        window: PersistingWindow,
    ) -> Result<(), DriverError> {
        let mut pointers = self.argument_pointers("cuLaunchKernelEx", arguments)?;
        let cooperative = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                cooperative: i32::from(shape.cooperative),
            },
        };
        let mut attributes = [window.attribute(), cooperative];
        let [grid_x, grid_y, grid_z] = shape.grid;
        let [block_x, block_y, block_z] = shape.block;
        let config = sys::CUlaunchConfig {
            gridDimX: grid_x,
            gridDimY: grid_y,
            gridDimZ: grid_z,
            blockDimX: block_x,
            blockDimY: block_y,
            blockDimZ: block_z,
            sharedMemBytes: shape.shared_bytes,
            hStream: ptr::null_mut(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: the function, the pointers and the stream are as in `enqueue`; configuration and attributes live until
        // the call returns. The driver's version, which `Gpu::open` requires, has the function.
        let launched = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check_code("cuLaunchKernelEx", launched as u32)
    }

    /// A pointer to each argument. The driver reads as many bytes through it as the image's parameter has.
    fn argument_pointers(
        &self,
        call: &'static str,
        arguments: &[Vec<u8>],
    ) -> Result<Vec<*mut c_void>, DriverError> {
        let given = arguments.iter().map(Vec::len);
        if !given.eq(self.parameters.iter().copied()) {
            check_code(call, sys::CUresult::CUDA_ERROR_INVALID_VALUE as u32)?;
        }
        let pointers = arguments.iter();
        Ok(pointers
            .map(|bytes| bytes.as_ptr().cast_mut().cast())
            .collect())
    }

    /// Launches on a stream that runs concurrently with the context's own.
    ///
    /// # Errors
    /// As for [`Self::launch`].
    pub fn launch_beside(
        &self,
        shape: Shape,
        arguments: &[Vec<u8>],
        stream: &Stream,
    ) -> Result<(), DriverError> {
        self.enqueue(shape, arguments, stream.raw())
    }

    /// Launches on a stream, which must be the context's own or borrowed from a [`Stream`].
    fn enqueue(
        &self,
        shape: Shape,
        arguments: &[Vec<u8>],
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let mut pointers = self.argument_pointers("cuLaunchKernel", arguments)?;
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        if shape.cooperative {
            // SAFETY: the function exists as long as its module, which `self` borrows. There is a pointer for each
            // parameter of the image, to as many bytes as the driver reports for the parameter, and the driver copies
            // them before it returns. The stream exists.
            let launched = unsafe {
                result::launch_cooperative_kernel(
                    self.function,
                    (gx, gy, gz),
                    (bx, by, bz),
                    shape.shared_bytes,
                    stream,
                    &mut pointers,
                )
            };
            checked("cuLaunchCooperativeKernel", launched)
        } else {
            // SAFETY: as above.
            let launched = unsafe {
                result::launch_kernel(
                    self.function,
                    (gx, gy, gz),
                    (bx, by, bz),
                    shape.shared_bytes,
                    stream,
                    &mut pointers,
                )
            };
            checked("cuLaunchKernel", launched)
        }
    }
}
