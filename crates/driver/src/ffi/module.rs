//! Modules, functions and links.

use std::ffi::c_char;
use std::fs;

use crate::code::Code;
use crate::handle::{FunctionHandle, LinkHandle, ModuleHandle};
use crate::image::{
    self, ARCHIVE_MAGIC, ELF_MAGIC, FAT_HEADER_BYTES, FAT_MAGIC, FAT_WRAPPER_MAGIC, Image,
    ImageError,
};

use crate::state::{Driver, LinkOptions};

use super::context::check_bank_width;
use super::entries;
use super::pointer::{CallerString, Host, In, Out, write_text};
use super::process;

/// Size of a fat binary wrapper (`magic, version, pointer, name`) in bytes.
const WRAPPER_BYTES: usize = 24;

/// Recognises an image by its first bytes. A text ends with NUL, and a fat binary contains its size.
pub fn image_at<'a>(start: Host) -> Result<Image<'a>, Code> {
    // Bytes after a NUL must not be read; a text that short is no image.
    let mut magic = [0; 4];
    for (index, byte) in magic.iter_mut().enumerate() {
        *byte = start.offset(index).bytes(1)?[0];
        if *byte == 0 {
            break;
        }
    }
    match magic {
        ELF_MAGIC => Ok(Image::MachineCode),
        FAT_MAGIC => fat_at(start),
        FAT_WRAPPER_MAGIC => {
            let wrapper = start.bytes(WRAPPER_BYTES)?;
            let pointer = u64::from_le_bytes(wrapper[8..16].try_into().expect("8 bytes"));
            fat_at(Host::at_address(pointer))
        }
        _ => Ok(Image::Ptx(start.text()?.to_bytes())),
    }
}

fn fat_at<'a>(start: Host) -> Result<Image<'a>, Code> {
    let header: &[u8; FAT_HEADER_BYTES] = start
        .bytes(FAT_HEADER_BYTES)?
        .try_into()
        .expect("as many bytes as asked for");
    if header[..4] != FAT_MAGIC {
        return Err(Code::INVALID_IMAGE);
    }
    let bytes = image::fat_bytes(header).ok_or(Code::INVALID_IMAGE)?;
    Ok(Image::Fat(start.bytes(bytes)?))
}

/// Numbers of the compiler options that have an effect. All others tune a compiler that the emulation does not have,
/// and are ignored.
const MAX_REGISTERS: u32 = 0;
const INFO_LOG: u32 = 3;
const INFO_LOG_BYTES: u32 = 4;
const ERROR_LOG: u32 = 5;
const ERROR_LOG_BYTES: u32 = 6;

/// A caller's compiler options. A value is either a pointer or a number in a pointer's place.
#[derive(Clone, Copy)]
pub struct Options {
    pub count: u32,
    pub names: In<u32>,
    pub values: In<Host>,
}

impl Options {
    fn value(self, wanted: u32) -> Option<Host> {
        if self.names.is_null() {
            return None;
        }
        (0..self.count as usize)
            .find(|&index| self.names.at(index) == Ok(wanted))
            .and_then(|index| self.values.at(index).ok())
    }

    /// Most registers per thread, if the options set a limit.
    pub fn registers(self) -> Option<u32> {
        let limit = u32::try_from(self.value(MAX_REGISTERS)?.address()).ok()?;
        (limit > 0).then_some(limit)
    }

    /// Writes a text into the caller's log buffer, if there is one.
    fn log(self, buffer: u32, size: u32, text: &str) {
        if let Some((address, capacity)) = self.buffer(buffer, size) {
            // A log that cannot be written does not change the result of the call.
            let _ = write_text(Host::at_address(address), capacity, text);
        }
    }

    /// Address and size in bytes of a log buffer, if the caller gave one.
    fn buffer(self, buffer: u32, size: u32) -> Option<(u64, usize)> {
        let capacity = usize::try_from(self.value(size)?.address()).ok()?;
        let buffer = self.value(buffer)?;
        (capacity > 0).then_some((buffer.address(), capacity))
    }
}

/// Converts an error to its code, and writes its message to standard error and to the caller's log buffer.
pub fn report_error<T>(answer: Result<T, ImageError>, options: Option<Options>) -> Result<T, Code> {
    if let Some(options) = options {
        options.log(INFO_LOG, INFO_LOG_BYTES, "");
    }
    answer.map_err(|error| {
        if !error.message.is_empty() {
            process::report(&format!("failed to {}", error.message));
        }
        if let Some(options) = options {
            options.log(ERROR_LOG, ERROR_LOG_BYTES, &error.message);
        }
        error.code
    })
}

/// As [`report_error`], for a link, whose log buffer was given when it was created.
fn report_link_error<T>(
    log: Option<(u64, usize)>,
    answer: Result<T, ImageError>,
) -> Result<T, Code> {
    if let (Err(error), Some((address, capacity))) = (&answer, log) {
        let _ = write_text(Host::at_address(address), capacity, &error.message);
    }
    report_error(answer, None)
}

fn function(handle: Host) -> FunctionHandle {
    FunctionHandle(handle.address())
}

/// Checks the kind of a link input. The API has six kinds, from machine code to NVVM.
fn check_kind(kind: u32) -> Result<(), Code> {
    if kind > 5 {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(())
    }
}

/// Adds an image to a link. An archive of machine code adds nothing: it is the compiler's device library, and the
/// linker has PTX of its functions. Functions that it lacks will be reported as unresolved.
fn add(driver: &mut Driver, link: Host, bytes: &[u8]) -> Result<(), Code> {
    let link = LinkHandle(link.address());
    if bytes.starts_with(&ARCHIVE_MAGIC) {
        return driver.check_link(link);
    }
    let log = driver.link_log(link);
    report_link_error(log, driver.add_to_link(link, image_in(bytes)))
}

/// Reads an image file, with a NUL appended as [`image_at`] requires.
pub fn read_image(path: &str) -> Result<Vec<u8>, Code> {
    let mut bytes = fs::read(path).map_err(|_| Code::FILE_NOT_FOUND)?;
    // Texts end with NUL.
    bytes.push(0);
    Ok(bytes)
}

/// Recognises an image in bytes of known length, as [`image_at`] does in memory.
pub fn image_in(bytes: &[u8]) -> Image<'_> {
    match bytes.get(..4) {
        Some(magic) if magic == ELF_MAGIC => Image::MachineCode,
        Some(magic) if magic == FAT_MAGIC => Image::Fat(bytes),
        _ => {
            let end = bytes.iter().position(|&byte| byte == 0);
            Image::Ptx(&bytes[..end.unwrap_or(bytes.len())])
        }
    }
}

entries! {
    /// Loads a module from memory.
    fn cuModuleLoadData(module: Out<u64>, image: Host) |driver| {
        let module = module.required()?;
        let image = image_at(image)?;
        module.set(report_error(driver.load_module(image, None), None)?.0)
    }

    /// Loads a module from memory, with compiler options.
    fn cuModuleLoadDataEx(module: Out<u64>, image: Host, count: u32, names: In<u32>, values: In<Host>) |driver| {
        let module = module.required()?;
        let options = Options { count, names, values };
        let image = image_at(image)?;
        let loaded = driver.load_module(image, options.registers());
        module.set(report_error(loaded, Some(options))?.0)
    }

    /// Loads a module from a fat binary.
    fn cuModuleLoadFatBinary(module: Out<u64>, image: Host) |driver| {
        let module = module.required()?;
        let image = image_at(image)?;
        module.set(report_error(driver.load_module(image, None), None)?.0)
    }

    /// Loads a module from a file.
    fn cuModuleLoad(module: Out<u64>, path: CallerString) |driver| {
        let module = module.required()?;
        driver.check_context()?;
        let bytes = read_image(path.str()?)?;
        module.set(report_error(driver.load_module(image_in(&bytes), None), None)?.0)
    }

    /// Unloads a module.
    fn cuModuleUnload(module: Host) |driver| { driver.unload_module(ModuleHandle(module.address())) }

    /// The mode of loading code: eager.
    fn cuModuleGetLoadingMode(mode: Out<u32>) |_driver| { mode.set(1) }

    /// A module's kernel.
    fn cuModuleGetFunction(function: Out<u64>, module: Host, name: CallerString) |driver| {
        let function = function.required()?;
        function.set(driver.function(ModuleHandle(module.address()), name.str()?)?.0)
    }

    /// Counts a module's kernels.
    fn cuModuleGetFunctionCount(count: Out<u32>, module: Host) |driver| {
        count.set(driver.functions_of(ModuleHandle(module.address()))?.len() as u32)
    }

    /// A module's kernels.
    fn cuModuleEnumerateFunctions(functions: Host, count: u32, module: Host) |driver| {
        let found = driver.functions_of(ModuleHandle(module.address()))?;
        for (index, handle) in found.iter().take(count as usize).enumerate() {
            functions.offset(index * 8).bytes_mut(8)?.copy_from_slice(&handle.0.to_ne_bytes());
        }
        Ok(())
    }

    /// A module's variable.
    fn cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: Host, name: CallerString) |driver| {
        let (start, size) = driver.variable(ModuleHandle(module.address()), name.str()?)?;
        address.set_if_given(start);
        bytes.set_if_given(size as usize);
        Ok(())
    }

    /// An attribute of a function.
    fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, handle: Host) |driver| {
        value.set(driver.function_attribute(attribute, function(handle))?)
    }

    /// Sets an attribute of a function.
    fn cuFuncSetAttribute(handle: Host, attribute: u32, value: i32) |driver| {
        driver.set_function_attribute(function(handle), attribute, value)
    }

    /// Sets the preferred cache split; does nothing, because the emulated GPU has no cache to split.
    fn cuFuncSetCacheConfig(handle: Host, preference: u32) |driver| {
        driver.check_context()?;
        driver.module_of(function(handle))?;
        if preference > 3 { Err(Code::INVALID_VALUE) } else { Ok(()) }
    }

    /// Sets the bank width of shared memory; does nothing, as on every current device.
    fn cuFuncSetSharedMemConfig(handle: Host, width: u32) |driver| {
        driver.check_context()?;
        driver.module_of(function(handle))?;
        check_bank_width(width)
    }

    /// A function's module.
    fn cuFuncGetModule(module: Out<u64>, handle: Host) |driver| {
        driver.check_context()?;
        module.set(driver.module_of(function(handle))?.0)
    }

    /// A function's name as text that lives as long as the module.
    fn cuFuncGetName(name: Out<*const c_char>, handle: Host) |driver| {
        driver.check_context()?;
        let name = name.required()?;
        name.set(driver.function_name_text(function(handle))?)
    }

    /// Offset and size of a function's parameter.
    fn cuFuncGetParamInfo(handle: Host, index: usize, offset: Out<usize>, bytes: Out<usize>) |driver| {
        let slots = driver.parameters(function(handle))?;
        let slot = slots.get(index).ok_or(Code::INVALID_VALUE)?;
        offset.set(slot.offset)?;
        bytes.set_if_given(slot.bytes);
        Ok(())
    }

    /// Reports whether a function's code is loaded: it always is.
    fn cuFuncIsLoaded(state: Out<u32>, handle: Host) |driver| {
        driver.check_context()?;
        driver.module_of(function(handle))?;
        state.set(1)
    }

    /// Loads a function's code; does nothing, because it is loaded already.
    fn cuFuncLoad(handle: Host) |driver| {
        driver.check_context()?;
        driver.module_of(function(handle)).map(|_| ())
    }

    /// Starts a link.
    fn cuLinkCreate_v2(count: u32, names: In<u32>, values: In<Host>, link: Out<u64>) |driver| {
        let link = link.required()?;
        let options = Options { count, names, values };
        let handle = driver.create_link(LinkOptions {
            registers: options.registers(),
            error_log: options.buffer(ERROR_LOG, ERROR_LOG_BYTES),
        })?;
        link.set(handle.0)
    }

    /// Adds an image in memory to a link. Its kind follows from its bytes.
    fn cuLinkAddData_v2(link: Host, kind: u32, data: Host, bytes: usize, _name: CallerString, _count: u32, _names: In<u32>, _values: In<Host>) |driver| {
        check_kind(kind)?;
        add(driver, link, data.bytes(bytes)?)
    }

    /// Adds an image file to a link.
    fn cuLinkAddFile_v2(link: Host, kind: u32, path: CallerString, _count: u32, _names: In<u32>, _values: In<Host>) |driver| {
        check_kind(kind)?;
        let bytes = read_image(path.str()?)?;
        add(driver, link, &bytes)
    }

    /// Finishes a link. The image lives until the link is destroyed.
    fn cuLinkComplete(link: Host, image: Out<*const u8>, bytes: Out<usize>) |driver| {
        let image = image.required()?;
        let link = LinkHandle(link.address());
        let log = driver.link_log(link);
        let finished = report_link_error(log, driver.complete_link(link))?;
        bytes.set_if_given(finished.len());
        image.set(finished.as_ptr())
    }

    /// Destroys a link.
    fn cuLinkDestroy(link: Host) |driver| { driver.destroy_link(LinkHandle(link.address())) }
}
