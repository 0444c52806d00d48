//! Loaded images and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::{result, sys};

use super::{Refusal, checked, note_release};

/// An image on the device.
#[derive(Debug)]
pub struct Module(sys::CUmodule);

/// An entry of a [`Module`], alive as long as that.
#[derive(Debug)]
pub struct Kernel<'a> {
    function: sys::CUfunction,
    module: std::marker::PhantomData<&'a Module>,
}

impl Module {
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
                    ptr::null_mut(),
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
                    ptr::null_mut(),
                    &mut pointers,
                )
            };
            checked("cuLaunchKernel", launched)
        }
    }
}
