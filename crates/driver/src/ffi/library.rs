//! Libraries: modules that belong to no context. A library's kernel is a function here.

use std::ffi::c_char;

use crate::code::Code;
use crate::handle::{FunctionHandle, LibraryHandle};

use super::entries;
use super::module::{Options, image_at, image_in, read_image, report_error};
use super::pointer::{CallerString, Host, In, Out};

fn library_of(library: Host) -> LibraryHandle {
    LibraryHandle(library.address())
}

fn kernel_of(kernel: Host) -> FunctionHandle {
    FunctionHandle(kernel.address())
}

entries! {
    /// Loads a library from memory.
    fn cuLibraryLoadData(library: Out<u64>, image: Host, names: In<u32>, values: In<Host>, count: u32, _library_names: In<u32>, _library_values: In<Host>, _library_count: u32) |driver| {
        let library = library.required()?;
        let options = Options { count, names, values };
        let image = image_at(image)?;
        library.set(report_error(driver.load_library(image, options.registers()), Some(options))?.0)
    }

    /// Loads a library from a file.
    fn cuLibraryLoadFromFile(library: Out<u64>, path: CallerString, names: In<u32>, values: In<Host>, count: u32, _library_names: In<u32>, _library_values: In<Host>, _library_count: u32) |driver| {
        let library = library.required()?;
        let options = Options { count, names, values };
        let bytes = read_image(path.str()?)?;
        library.set(report_error(driver.load_library(image_in(&bytes), options.registers()), Some(options))?.0)
    }

    /// Unloads a library.
    fn cuLibraryUnload(library: Host) |driver| { driver.unload_library(library_of(library)) }

    /// A library's kernel.
    fn cuLibraryGetKernel(kernel: Out<u64>, library: Host, name: CallerString) |driver| {
        let kernel = kernel.required()?;
        kernel.set(driver.library_kernel(library_of(library), name.str()?)?.0)
    }

    /// Counts a library's kernels.
    fn cuLibraryGetKernelCount(count: Out<u32>, library: Host) |driver| {
        let module = driver.library_module(library_of(library))?;
        count.set(driver.kernels_of(module)?.len() as u32)
    }

    /// A library's kernels.
    fn cuLibraryEnumerateKernels(kernels: Host, count: u32, library: Host) |driver| {
        let module = driver.library_module(library_of(library))?;
        for (index, handle) in driver.kernels_of(module)?.iter().take(count as usize).enumerate() {
            kernels.offset(index * 8).bytes_mut(8)?.copy_from_slice(&handle.0.to_ne_bytes());
        }
        Ok(())
    }

    /// A library's module.
    fn cuLibraryGetModule(module: Out<u64>, library: Host) |driver| {
        driver.check_context()?;
        module.set(driver.library_module(library_of(library))?.0)
    }

    /// A library's variable.
    fn cuLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: Host, name: CallerString) |driver| {
        let module = driver.library_module(library_of(library))?;
        let (start, size) = driver.variable(module, name.str()?)?;
        address.set_if_given(start);
        bytes.set_if_given(size as usize);
        Ok(())
    }

    /// The function of a kernel, which is the same handle here.
    fn cuKernelGetFunction(function: Out<u64>, kernel: Host) |driver| {
        driver.check_context()?;
        driver.module_of(kernel_of(kernel))?;
        function.set(kernel.address())
    }

    /// An attribute of a kernel.
    fn cuKernelGetAttribute(value: Out<i32>, attribute: u32, kernel: Host, device: i32) |driver| {
        driver.check_device(device)?;
        value.set(driver.function_attribute(attribute, kernel_of(kernel))?)
    }

    /// Sets an attribute of a kernel.
    fn cuKernelSetAttribute(attribute: u32, value: i32, kernel: Host, device: i32) |driver| {
        driver.check_device(device)?;
        driver.set_function_attribute(kernel_of(kernel), attribute, value)
    }

    /// Sets the preferred cache split; does nothing, because the emulated GPU has no cache to split.
    fn cuKernelSetCacheConfig(kernel: Host, preference: u32, device: i32) |driver| {
        driver.check_device(device)?;
        driver.module_of(kernel_of(kernel))?;
        if preference > 3 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    /// A kernel's name as text that lives as long as the module.
    fn cuKernelGetName(name: Out<*const c_char>, kernel: Host) |driver| {
        let name = name.required()?;
        name.set(driver.function_name_text(kernel_of(kernel))?)
    }

    /// Offset and size of a kernel's parameter.
    fn cuKernelGetParamInfo(kernel: Host, index: usize, offset: Out<usize>, bytes: Out<usize>) |driver| {
        let slots = driver.parameters(kernel_of(kernel))?;
        let slot = slots.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.set(slot.offset)?;
        bytes.set_if_given(slot.bytes);
        Ok(())
    }
}
