//! Loaded images and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::{result, sys};

use super::{Refusal, Stream, accepted, checked, is_exported, missing, note_release};

/// An image on the device.
#[derive(Debug)]
pub struct Module(sys::CUmodule);

/// An entry of a [`Module`], alive as long as that.
#[derive(Debug)]
pub struct Kernel<'a> {
    function: sys::CUfunction,
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
    /// The driver's refusal.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn write(&self, content: &[u8]) -> Result<(), Refusal> {
        assert!(content.len() <= self.bytes, "a copy stays inside");
        // SAFETY: the variable is alive and at least as long as `content`.
        let copied = unsafe { result::memcpy_htod_sync(self.base, content) };
        checked("cuMemcpyHtoD", copied)
    }

    /// Reads it from its start.
    ///
    /// # Errors
    /// The driver's refusal, which may be the error of an earlier launch.
    ///
    /// # Panics
    /// If `content` is longer than the variable.
    pub fn read(&self, content: &mut [u8]) -> Result<(), Refusal> {
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
    /// The driver's refusal; "not found" for a name that no variable can have.
    pub fn variable(&self, name: &str) -> Result<Variable<'_>, Refusal> {
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
    /// The driver's refusal.
    pub fn load(image: &[u8]) -> Result<Self, Refusal> {
        // The driver reads a text up to its terminating zero.
        let image = [image, &[0]].concat();
        // SAFETY: the image is terminated and outlives the call, which copies it.
        let module = unsafe { result::module::load_data(image.as_ptr().cast::<c_void>()) };
        checked("cuModuleLoadData", module).map(Self)
    }

    /// Finds an entry.
    ///
    /// # Errors
    /// The driver's refusal; "not found" for a name that no entry can have.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, Refusal> {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is alive until `self` goes.
        let function = unsafe { result::module::get_function(self.0, name) };
        Ok(Kernel {
            function: checked("cuModuleGetFunction", function)?,
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
    /// Bytes of each parameter of the entry, in order.
    ///
    /// # Errors
    /// The driver's refusal; "not supported" by drivers before 12.4.
    pub fn parameters(&self) -> Result<Vec<usize>, Refusal> {
        if !is_exported("cuFuncGetParamInfo") {
            return Err(missing("cuFuncGetParamInfo"));
        }
        let mut sizes = Vec::new();
        loop {
            let (mut offset, mut bytes) = (0, 0);
            // SAFETY: the function is alive, and both pointers are valid for a write.
            let told = unsafe {
                sys::cuFuncGetParamInfo(self.function, sizes.len(), &raw mut offset, &raw mut bytes)
            };
            if told == sys::CUresult::CUDA_ERROR_INVALID_VALUE {
                return Ok(sizes);
            }
            accepted("cuFuncGetParamInfo", told as u32)?;
            sizes.push(bytes);
        }
    }

    /// Lets launches ask for up to `bytes` of dynamic shared memory.
    ///
    /// # Errors
    /// The driver's refusal where the device has less.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), Refusal> {
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function is alive as long as its module, which this type borrows.
        let set =
            unsafe { result::function::set_function_attribute(self.function, attribute, bytes) };
        checked("cuFuncSetAttribute", set)
    }

    /// Launches on the context's own stream. `arguments` holds each parameter's bytes.
    ///
    /// # Safety
    /// There must be as many arguments as the entry has parameters, each of its parameter's
    /// size. What the kernel does with addresses among them is the device's to check.
    ///
    /// # Errors
    /// The driver's refusal.
    pub unsafe fn launch(&self, shape: Shape, arguments: &[Vec<u8>]) -> Result<(), Refusal> {
        // SAFETY: the caller answers for the arguments.
        unsafe { self.enqueue(shape, arguments, ptr::null_mut()) }
    }

    /// Launches on a stream that runs beside the context's own.
    ///
    /// # Safety
    /// As for [`Self::launch`].
    ///
    /// # Errors
    /// The driver's refusal.
    pub unsafe fn launch_beside(
        &self,
        shape: Shape,
        arguments: &[Vec<u8>],
        stream: &Stream,
    ) -> Result<(), Refusal> {
        // SAFETY: the caller answers for the arguments, and the stream is alive.
        unsafe { self.enqueue(shape, arguments, stream.raw()) }
    }

    unsafe fn enqueue(
        &self,
        shape: Shape,
        arguments: &[Vec<u8>],
        stream: sys::CUstream,
    ) -> Result<(), Refusal> {
        let mut pointers: Vec<*mut c_void> = arguments
            .iter()
            .map(|bytes| bytes.as_ptr().cast_mut().cast())
            .collect();
        let [gx, gy, gz] = shape.grid;
        let [bx, by, bz] = shape.block;
        if shape.cooperative {
            // SAFETY: the function is alive, the caller answers for the arguments, and the
            // driver copies them before it returns.
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
