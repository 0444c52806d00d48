//! Modules, their kernels and variables, libraries, and links.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, c_char};

use ptx::{KernelId, KernelInfo, LoadError, Module};

use crate::code::Code;
use crate::handle::{ContextHandle, FunctionHandle, LibraryHandle, LinkHandle, ModuleHandle};
use crate::image::{self, ImageError};
use crate::link;

use super::Driver;
use super::legacy_launch::LegacyLaunch;

/// An image to load.
pub type Image<'a> = image::Image<'a>;

/// Largest parameter block of a kernel in bytes (CUDA C++ Programming Guide, "Function Parameters", since CUDA 12.1).
const MAX_PARAMETER_BYTES: u32 = 32_764;

/// A module in a context; none for the module of a library, which belongs to no context.
#[derive(Debug)]
pub(super) struct LoadedModule {
    context: Option<ContextHandle>,
    machine: ptx::ModuleHandle,
    functions: HashMap<KernelId, FunctionHandle>,
}

/// A kernel that a caller looked up by name.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) module: ModuleHandle,
    pub(super) kernel: KernelId,
    /// Most dynamic shared memory in bytes that the function may be launched with.
    pub(super) max_dynamic_shared: u32,
    /// Preferred share of shared memory in percent; -1 leaves the choice to the driver.
    pub(super) carveout: i32,
    /// Launch parameters that were set with the API from before CUDA 4.
    pub(super) legacy_launch: LegacyLaunch,
    /// The name as a C string, once a caller has asked for it.
    name: Option<CString>,
}

/// A module that belongs to no context.
#[derive(Debug)]
pub(super) struct Library {
    module: ModuleHandle,
}

/// The texts that were added to a link, and its result.
#[derive(Debug, Default)]
pub(super) struct Link {
    parts: Vec<String>,
    options: LinkOptions,
    /// The finished image: PTX text with a terminating NUL, alive until the link is destroyed.
    image: Option<Vec<u8>>,
}

/// A caller's options for a link.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkOptions {
    /// Most registers per thread, if there is a limit.
    pub registers: Option<u32>,
    /// Address and size in bytes of the caller's buffer for errors, which outlives the link.
    pub error_log: Option<(u64, usize)>,
}

/// Location of one parameter in a kernel's parameter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParameterSlot {
    /// Byte offset in the parameter block.
    pub offset: usize,
    /// Size in bytes.
    pub bytes: usize,
}

impl Driver {
    /// Loads an image into the current context, with a limit of registers per thread if the caller sets one.
    ///
    /// # Errors
    /// The documented code, and a message that says why.
    pub fn load_module(
        &mut self,
        image: Image<'_>,
        registers: Option<u32>,
    ) -> Result<ModuleHandle, ImageError> {
        let context = self.usable_context()?;
        self.check_capture_modes()?;
        self.load_image(image, registers, Some(context))
    }

    /// Loads an image that belongs to no context, as [`Self::load_module`] does.
    ///
    /// # Errors
    /// The documented code, and a message that says why.
    pub fn load_library(
        &mut self,
        image: Image<'_>,
        registers: Option<u32>,
    ) -> Result<LibraryHandle, ImageError> {
        self.check_initialised()?;
        let module = self.load_image(image, registers, None)?;
        let handle = LibraryHandle::nth(self.next_serial());
        self.libraries.insert(handle, Library { module });
        Ok(handle)
    }

    fn load_image(
        &mut self,
        image: Image<'_>,
        registers: Option<u32>,
        context: Option<ContextHandle>,
    ) -> Result<ModuleHandle, ImageError> {
        let mut text = image.ptx(self.device.architecture())?;
        if let Some(registers) = registers {
            text = Cow::Owned(link::limit_registers(&text, registers));
        }
        let module = Module::parse(&text).map_err(|error| match &error {
            LoadError::Syntax { .. } => ImageError::new(Code::INVALID_PTX, error.to_string()),
            LoadError::Unsupported { .. } => {
                ImageError::new(Code::UNSUPPORTED_PTX_VERSION, error.to_string())
            }
        })?;
        for kernel in module.kernels() {
            if kernel.param_bytes > MAX_PARAMETER_BYTES {
                let message = format!(
                    "load the kernel {}: its parameters take {} bytes, a kernel can have {MAX_PARAMETER_BYTES}",
                    kernel.name, kernel.param_bytes
                );
                return Err(ImageError::new(Code::INVALID_PTX, message));
            }
        }
        let machine = self
            .machine
            .load(module)
            .map_err(|error| ImageError::new(Code::OUT_OF_MEMORY, error.to_string()))?;
        let handle = ModuleHandle::nth(self.next_serial());
        self.modules.insert(
            handle,
            LoadedModule {
                context,
                machine,
                functions: HashMap::new(),
            },
        );
        Ok(handle)
    }

    /// Unloads a module; its functions become stale.
    ///
    /// # Errors
    /// When the handle is stale, or the module is a library's.
    pub fn unload_module(&mut self, handle: ModuleHandle) -> Result<(), Code> {
        self.usable_context()?;
        self.check_capture_modes()?;
        if self
            .libraries
            .values()
            .any(|library| library.module == handle)
        {
            return Err(Code::NOT_PERMITTED);
        }
        self.remove_module(handle)
    }

    fn remove_module(&mut self, handle: ModuleHandle) -> Result<(), Code> {
        let module = self.modules.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        for function in module.functions.values() {
            self.functions.remove(function);
        }
        self.machine.unload(module.machine);
        Ok(())
    }

    pub(super) fn unload_modules_of(&mut self, context: ContextHandle) {
        let gone: Vec<ModuleHandle> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == Some(context))
            .map(|(handle, _)| *handle)
            .collect();
        for handle in gone {
            self.remove_module(handle)
                .expect("the handle was just listed");
        }
    }

    /// The module's kernel with this name. The same kernel always gets the same handle.
    ///
    /// # Errors
    /// When the module is stale or has no such kernel.
    pub fn function(&mut self, module: ModuleHandle, name: &str) -> Result<FunctionHandle, Code> {
        self.usable_context()?;
        self.find_function(module, name)
    }

    fn find_function(&mut self, module: ModuleHandle, name: &str) -> Result<FunctionHandle, Code> {
        let loaded = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let code = self
            .machine
            .module(loaded.machine)
            .ok_or(Code::INVALID_HANDLE)?;
        let kernel = code.kernel(name).ok_or(Code::NOT_FOUND)?;
        if let Some(known) = loaded.functions.get(&kernel) {
            return Ok(*known);
        }
        let static_shared = code.info(kernel).ok_or(Code::NOT_FOUND)?.static_shared;
        let max_dynamic_shared = self
            .device
            .limits
            .shared_per_block
            .saturating_sub(static_shared);
        let handle = FunctionHandle::nth(self.next_serial());
        self.functions.insert(
            handle,
            Function {
                module,
                kernel,
                max_dynamic_shared,
                carveout: -1,
                legacy_launch: LegacyLaunch::default(),
                name: None,
            },
        );
        if let Some(loaded) = self.modules.get_mut(&module) {
            loaded.functions.insert(kernel, handle);
        }
        Ok(handle)
    }

    /// The module's kernels, in the order of the text.
    ///
    /// # Errors
    /// When the module is stale.
    pub fn functions_of(&mut self, module: ModuleHandle) -> Result<Vec<FunctionHandle>, Code> {
        self.usable_context()?;
        self.kernels_of(module)
    }

    /// As [`Self::functions_of`], without a current context, because libraries need none.
    ///
    /// # Errors
    /// When the module is stale.
    pub fn kernels_of(&mut self, module: ModuleHandle) -> Result<Vec<FunctionHandle>, Code> {
        let loaded = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let names: Vec<String> = self
            .machine
            .module(loaded.machine)
            .ok_or(Code::INVALID_HANDLE)?
            .kernels()
            .iter()
            .map(|kernel| kernel.name.clone())
            .collect();
        names
            .iter()
            .map(|name| self.find_function(module, name))
            .collect()
    }

    /// Address and size of a module's variable.
    ///
    /// # Errors
    /// When the module is stale or has no such variable.
    pub fn variable(&self, module: ModuleHandle, name: &str) -> Result<(u64, u64), Code> {
        self.usable_context()?;
        let loaded = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        self.machine
            .variable(loaded.machine, name)
            .ok_or(Code::NOT_FOUND)
    }

    /// The module inside a library.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn library_module(&self, library: LibraryHandle) -> Result<ModuleHandle, Code> {
        self.check_initialised()?;
        self.libraries
            .get(&library)
            .map(|library| library.module)
            .ok_or(Code::INVALID_HANDLE)
    }

    /// The library's kernel with this name. A library's kernel is a function here.
    ///
    /// # Errors
    /// When the library is stale or has no such kernel.
    pub fn library_kernel(
        &mut self,
        library: LibraryHandle,
        name: &str,
    ) -> Result<FunctionHandle, Code> {
        let module = self.library_module(library)?;
        self.find_function(module, name)
    }

    /// Unloads a library.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn unload_library(&mut self, library: LibraryHandle) -> Result<(), Code> {
        let module = self.library_module(library)?;
        self.libraries.remove(&library);
        self.remove_module(module)
    }

    /// The module a function belongs to.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn module_of(&self, function: FunctionHandle) -> Result<ModuleHandle, Code> {
        self.known_function(function)
            .map(|function| function.module)
    }

    /// Locations of the function's parameters, in order.
    ///
    /// # Errors
    /// When the handle is stale or of another context.
    pub fn parameters(&self, function: FunctionHandle) -> Result<Vec<ParameterSlot>, Code> {
        self.usable_context()?;
        let info = self.kernel_info(self.known_function(function)?)?;
        Ok(info
            .params
            .iter()
            .map(|param| ParameterSlot {
                offset: param.offset as usize,
                bytes: param.bytes as usize,
            })
            .collect())
    }

    /// Size of the function's parameter block in bytes.
    ///
    /// # Errors
    /// When the handle is stale or of another context.
    pub fn parameter_bytes(&self, function: FunctionHandle) -> Result<usize, Code> {
        let info = self.kernel_info(self.known_function(function)?)?;
        Ok(info.param_bytes as usize)
    }

    /// The function's name as a C string that lives as long as the function.
    ///
    /// # Errors
    /// When the handle is stale or of another context.
    pub fn function_name_text(&mut self, handle: FunctionHandle) -> Result<*const c_char, Code> {
        let name = self.function_name(handle)?;
        let text = CString::new(name).map_err(|_| Code::INVALID_VALUE)?;
        let function = self.known_function_mut(handle)?;
        Ok(function.name.get_or_insert(text).as_ptr())
    }

    /// The function's name as written in the module.
    ///
    /// # Errors
    /// When the handle is stale or of another context.
    pub fn function_name(&self, function: FunctionHandle) -> Result<String, Code> {
        let info = self.kernel_info(self.known_function(function)?)?;
        Ok(info.name.clone())
    }

    /// Checks a function handle against the current context.
    pub(super) fn known_function(&self, handle: FunctionHandle) -> Result<&Function, Code> {
        self.check_initialised()?;
        let function = self.functions.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        let owner = self.modules.get(&function.module).and_then(|m| m.context);
        if owner.is_some() && owner != self.current_context() {
            return Err(Code::INVALID_HANDLE);
        }
        Ok(function)
    }

    pub(super) fn known_function_mut(
        &mut self,
        handle: FunctionHandle,
    ) -> Result<&mut Function, Code> {
        self.known_function(handle)?;
        self.functions.get_mut(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn machine_module(&self, function: &Function) -> Result<ptx::ModuleHandle, Code> {
        self.modules
            .get(&function.module)
            .map(|module| module.machine)
            .ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn kernel_info(&self, function: &Function) -> Result<&KernelInfo, Code> {
        let handle = self.machine_module(function)?;
        self.machine
            .module(handle)
            .and_then(|module| module.info(function.kernel))
            .ok_or(Code::INVALID_HANDLE)
    }

    /// Starts a link.
    ///
    /// # Errors
    /// Without a context.
    pub fn create_link(&mut self, options: LinkOptions) -> Result<LinkHandle, Code> {
        self.usable_context()?;
        let handle = LinkHandle::nth(self.next_serial());
        let link = Link {
            options,
            ..Link::default()
        };
        self.links.insert(handle, link);
        Ok(handle)
    }

    /// Adds an image to a link.
    ///
    /// # Errors
    /// When the link is stale or finished, or the image holds no PTX.
    pub fn add_to_link(&mut self, link: LinkHandle, image: Image<'_>) -> Result<(), ImageError> {
        let text = image.ptx(self.device.architecture())?.into_owned();
        let link = self
            .links
            .get_mut(&link)
            .filter(|link| link.image.is_none())
            .ok_or(Code::INVALID_HANDLE)?;
        link.parts.push(text);
        Ok(())
    }

    /// Finishes a link and returns the image of all its texts. The bytes live until the link is destroyed.
    ///
    /// # Errors
    /// When the link is stale or empty, or its texts cannot be linked.
    pub fn complete_link(&mut self, link: LinkHandle) -> Result<&[u8], ImageError> {
        let link = self.links.get_mut(&link).ok_or(Code::INVALID_HANDLE)?;
        if link.parts.is_empty() {
            return Err(Code::INVALID_VALUE.into());
        }
        if link.image.is_none() {
            let mut text = link::link(&link.parts)
                .map_err(|error| ImageError::new(Code::INVALID_SOURCE, error.to_string()))?;
            if let Some(registers) = link.options.registers {
                text = link::limit_registers(&text, registers);
            }
            text.push('\0');
            link.image = Some(text.into_bytes());
        }
        Ok(link.image.as_deref().unwrap_or_default())
    }

    /// Checks that a link can take more parts.
    ///
    /// # Errors
    /// When it is stale or finished.
    pub fn check_link(&self, link: LinkHandle) -> Result<(), Code> {
        match self.links.get(&link) {
            Some(link) if link.image.is_none() => Ok(()),
            _ => Err(Code::INVALID_HANDLE),
        }
    }

    /// Address and size of the buffer for a link's errors.
    #[must_use]
    pub fn link_log(&self, link: LinkHandle) -> Option<(u64, usize)> {
        self.links.get(&link)?.options.error_log
    }

    /// Destroys a link and its image.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn destroy_link(&mut self, link: LinkHandle) -> Result<(), Code> {
        match self.links.remove(&link) {
            Some(_) => Ok(()),
            None => Err(Code::INVALID_HANDLE),
        }
    }
}
