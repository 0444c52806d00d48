//! Loaded images and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::{result, sys};

use super::{DriverError, Stream, accepted, checked, is_exported, missing, note_release};

/// An image on the device.
#[derive(Debug)]
pub struct Module(sys::CUmodule);

/// A kernel of a [`Module`], alive as long as that.
#[derive(Debug)]
pub struct Kernel<'a> {
    function: sys::CUfunction,
    /// Bytes of each parameter in order, as the driver read them from the loaded image.
    parameters: Vec<usize>,
    module: std::marker::PhantomData<&'a Module>,
}

/// A variable of a [`Module`], alive as long as that.
#[derive(Debug)]
pub struct Variable<'a> {
    base: sys::CUdeviceptr,
    bytes: usize,
    module: std::marker::PhantomData<&'a Module>,
}

impl Variable<'_> {
    /// The first address.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Overwrites it from its start.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn write(&self, content: &[u8]) -> Result<(), DriverError> {
        assert!(content.len() <= self.bytes, "a copy stays inside");
        // SAFETY: the variable is alive and at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Reads it from its start.
    ///
    /// # Errors
    /// The driver's error, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn read(&self, content: &mut [u8]) -> Result<(), DriverError> {
        assert!(content.len() <= self.bytes, "a copy stays inside");
        // SAFETY: the variable is alive and at least as long as `content`.
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
            return Err(missing("cuModuleGetGlobal"));
        }
        let (mut base, mut bytes) = (0, 0);
        // SAFETY: the module is alive, the name terminated, and both pointers valid for a write.
        let found = unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut base, &raw mut bytes, self.0, name.as_ptr())
        };
        accepted("cuModuleGetGlobal", found as u32)?;
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
        // SAFETY: the image is terminated and outlives the call, which copies it.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) };
        checked("cuModuleLoadData", module).map(Self)
    }

    /// Finds a kernel and the sizes of its parameters.
    ///
    /// # Errors
    /// The driver's error; "not found" for a name that no kernel can have.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, DriverError> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is alive until `self` goes.
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
        // SAFETY: the module is alive, and no `Kernel` outlives it. A refusal means that the
        // context is broken, which takes the module with it.
        let unloaded = unsafe { result::module::unload(self.0) };
        note_release(checked("cuModuleUnload", unloaded));
    }
}

/// Bytes of each parameter of a function, in order.
fn parameters(function: sys::CUfunction) -> Result<Vec<usize>, DriverError> {
    let mut sizes = Vec::new();
    loop {
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function is alive, since its module is; both pointers are valid for a write;
        // `Gpu::open` has found the symbol.
        let told = unsafe {
            sys::cuFuncGetParamInfo(function, sizes.len(), &raw mut offset, &raw mut bytes)
        };
        if told == sys::CUresult::CUDA_ERROR_INVALID_VALUE {
            return Ok(sizes);
        }
        accepted("cuFuncGetParamInfo", told as u32)?;
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
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Whether the grid synchronises as a whole.
    pub cooperative: bool,
}

impl Kernel<'_> {
    /// Bytes of each parameter in order, as the driver read them from the loaded image.
    pub fn parameters(&self) -> &[usize] {
        &self.parameters
    }

    /// Lets launches ask for up to `bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// The driver's error where the device has less.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), DriverError> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function is alive as long as its module, which this type borrows.
        let set =
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes) };
        checked("cuFuncSetAttribute", set)
    }

    /// Launches on the context's own stream. `arguments` holds each parameter's bytes. The device
    /// checks what the kernel does with addresses among them.
    ///
    /// # Errors
    /// The driver's error. "Invalid value", without a call of the driver, if the arguments are not
    /// as many as the image has parameters, or not of their sizes.
    pub fn launch(&self, shape: Shape, arguments: &[Vec<u8>]) -> Result<(), DriverError> {
        self.enqueue(shape, arguments, ptr::null_mut())
    }

    /// Launches on a stream that runs beside the context's own.
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
        // The driver reads as many bytes behind each pointer as the image has for the parameter.
        let given = arguments.iter().map(Vec::len);
        if !given.eq(self.parameters.iter().copied()) {
            return accepted(
                "cuLaunchKernel",
                sys::CUresult::CUDA_ERROR_INVALID_VALUE as u32,
            );
        }
        let mut pointers: Vec<*mut c_void> = arguments
            .iter()
            .map(|bytes| bytes.as_ptr().cast_mut().cast())
            .collect();
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        if shape.cooperative {
            // SAFETY: the function is alive as long as its module, which `self` borrows. There is a
            // pointer for each parameter of the image, to as many bytes as the driver says that the
            // parameter has, and the driver copies them before it returns. The stream is alive.
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
