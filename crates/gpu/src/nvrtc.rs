//! A safe wrapper of NVRTC: source and options in; machine code, PTX and log out.
//!
//! cudarc's own wrapper drops the log of a successful compilation, returns no machine code, and panics if the library
//! is missing; this module uses the layer below it. It knows no candidate and judges nothing: `compile` interprets
//! the log.

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;
use std::path::Path;
use std::ptr;

use cudarc::nvrtc::result as nvrtc;
use cudarc::nvrtc::sys;

use crate::role_error::RoleError;

/// The entry points that the calls below need.
const REQUIRED: [&str; 9] = [
    "nvrtcVersion",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcGetPTXSize",
    "nvrtcGetPTX",
];

/// Proof that the library is loaded and has all these entry points.
#[derive(Debug, Clone, Copy)]
pub struct Toolchain {
    version: (c_int, c_int),
}

/// A source with the headers that it may include although they are not files.
#[derive(Debug)]
pub struct Source<'a> {
    /// The text.
    pub text: &'a CStr,
    /// The file name in diagnostics and line information.
    pub name: &'a CStr,
    /// Names and texts of headers.
    pub headers: &'a [(&'a CStr, &'a CStr)],
}

/// The result of a compilation.
#[derive(Debug)]
pub struct Outcome {
    /// The images, or the library's error code.
    pub result: Result<Images, sys::nvrtcResult>,
    /// The compiler's and the assembler's messages.
    pub log: String,
    /// The PTX, if the compiler produced it; the assembler's messages refer to its lines.
    pub refused_ptx: Option<String>,
}

/// Both outputs of one compilation.
#[derive(Debug)]
pub struct Images {
    /// Machine code.
    pub cubin: Vec<u8>,
    /// The PTX that it was assembled from.
    pub ptx: String,
}

impl Toolchain {
    /// Finds the library through the loader.
    ///
    /// # Errors
    /// A [`RoleError`] that names what is missing and how to install it.
    pub fn load() -> Result<Self, RoleError> {
        // SAFETY: this only opens the library; NVRTC's initialisers have no preconditions.
        if !unsafe { sys::is_culib_present() } {
            return Err(RoleError::NoToolchain);
        }
        for symbol in REQUIRED {
            if !is_exported(symbol) {
                return Err(RoleError::OldToolchain { symbol });
            }
        }
        let mut version = (0, 0);
        // SAFETY: both pointers are valid for writes, and the symbol was found above.
        unsafe { sys::nvrtcVersion(&raw mut version.0, &raw mut version.1) }
            .result()
            .map_err(|error| refused("read the version", error))?;
        Ok(Self { version })
    }

    /// Writes the CUDA headers that the library contains into a folder, once. The library itself locks the folder
    /// against a second process and knows what it has written.
    ///
    /// # Errors
    /// A [`RoleError`] if the library contains no headers or cannot write them.
    pub fn install_headers(self, folder: &Path) -> Result<(), RoleError> {
        type Install = unsafe extern "C" fn(*const c_char, c_uint, *mut *const c_char) -> c_uint;
        const SYMBOL: &str = "nvrtcInstallBundledHeaders";
        let path = c_string(
            folder.as_os_str().as_encoded_bytes(),
            "the header folder's name",
        )?;
        // SAFETY: the library is loaded, so `culib` cannot fail. The function is newer than the bindings in use; its
        // type is that of NVIDIA's header since 13.3.
        let install = unsafe { sys::culib().get::<Install>(SYMBOL.as_bytes()) }
            .map_err(|_| RoleError::OldToolchain { symbol: SYMBOL })?;
        let mut message = ptr::null();
        // SAFETY: the path is a C string that outlives the call, and `message` is valid for a write.
        let code = unsafe { install(path.as_ptr(), 0, &raw mut message) };
        if code == 0 {
            return Ok(());
        }
        let reason = if message.is_null() {
            format!("error {code}")
        } else {
            // SAFETY: on an error the library sets the pointer to a C string of its own.
            unsafe { CStr::from_ptr(message) }
                .to_string_lossy()
                .into_owned()
        };
        Err(RoleError::Toolchain {
            action: format!("unpack the CUDA headers into {}", folder.display()),
            reason,
        })
    }

    /// Compiles a source.
    ///
    /// # Errors
    /// A [`RoleError`] only for failures that no source can cause.
    pub fn compile(self, source: &Source<'_>, options: &[String]) -> Result<Outcome, RoleError> {
        let options = options
            .iter()
            .map(|option| c_string(option.as_bytes(), "a compiler option"))
            .collect::<Result<Vec<_>, _>>()?;
        let program = Program::create(source)?;
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("a handful of options");
        // SAFETY: the program exists, and `pointers` holds `count` C strings that outlive the call.
        let compiled =
            unsafe { sys::nvrtcCompileProgram(program.handle, count, pointers.as_ptr()) }.result();
        let log = program.log()?;
        match compiled {
            Ok(()) => Ok(Outcome {
                result: Ok(Images {
                    cubin: program.cubin()?,
                    ptx: program.ptx()?,
                }),
                log,
                refused_ptx: None,
            }),
            Err(nvrtc::NvrtcError(code)) => Ok(Outcome {
                result: Err(code),
                log,
                refused_ptx: program.ptx().ok().filter(|ptx| !ptx.is_empty()),
            }),
        }
    }
}

/// Formats name and version: "NVRTC 13.5".
impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC {}.{}", self.version.0, self.version.1)
    }
}

/// A program of the library, destroyed when this value is dropped.
struct Program {
    handle: sys::nvrtcProgram,
}

impl Program {
    fn create(source: &Source<'_>) -> Result<Self, RoleError> {
        let names: Vec<_> = source
            .headers
            .iter()
            .map(|(name, _)| name.as_ptr())
            .collect();
        let texts: Vec<_> = source
            .headers
            .iter()
            .map(|(_, text)| text.as_ptr())
            .collect();
        let mut handle = ptr::null_mut();
        // SAFETY: all strings are C strings, both arrays hold as many as the count says, and the library copies them
        // before it returns.
        unsafe {
            sys::nvrtcCreateProgram(
                &raw mut handle,
                source.text.as_ptr(),
                source.name.as_ptr(),
                c_int::try_from(names.len()).expect("a handful of headers"),
                texts.as_ptr(),
                names.as_ptr(),
            )
        }
        .result()
        .map_err(|error| refused("create a program", error))?;
        Ok(Self { handle })
    }

    fn log(&self) -> Result<String, RoleError> {
        // SAFETY: the handle exists until `self` is dropped.
        let bytes = unsafe { nvrtc::get_program_log(self.handle) }
            .map_err(|error| refused("read the log", error))?;
        Ok(text(&bytes))
    }

    fn ptx(&self) -> Result<String, RoleError> {
        // SAFETY: the handle exists until `self` is dropped.
        let bytes = unsafe { nvrtc::get_ptx(self.handle) }
            .map_err(|error| refused("read the PTX", error))?;
        Ok(text(&bytes))
    }

    fn cubin(&self) -> Result<Vec<u8>, RoleError> {
        let mut size = 0;
        // SAFETY: the handle exists, and `size` is valid for a write.
        unsafe { sys::nvrtcGetCUBINSize(self.handle, &raw mut size) }
            .result()
            .map_err(|error| refused("read the size of the machine code", error))?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the handle exists, and the buffer has the size that the library reported.
        unsafe { sys::nvrtcGetCUBIN(self.handle, bytes.as_mut_ptr().cast()) }
            .result()
            .map_err(|error| refused("read the machine code", error))?;
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the handle came from `create` and is not used afterwards. A refusal leaks the program until the
        // process ends shortly afterwards.
        let _ = unsafe { nvrtc::destroy_program(self.handle) };
    }
}

fn is_exported(symbol: &str) -> bool {
    // SAFETY: the library is loaded; the symbol is only looked up and never called with this type.
    unsafe { sys::culib().get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_ok()
}

fn refused(action: &str, error: nvrtc::NvrtcError) -> RoleError {
    RoleError::Toolchain {
        action: action.to_owned(),
        reason: format!("{:?}", error.0),
    }
}

fn c_string(bytes: &[u8], what: &str) -> Result<CString, RoleError> {
    CString::new(bytes).map_err(|_| RoleError::Job(format!("{what} holds a zero byte")))
}

/// The text up to the terminating zero.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes
        .iter()
        .map(|&byte| byte.cast_unsigned())
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
