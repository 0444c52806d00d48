//! Trouble of the surroundings: what keeps a role from doing its job although nobody's kernel
//! is to blame. What a candidate did is never in here; it is data in a reply.

use std::io;
use std::path::{Path, PathBuf};

/// Why a role could not do its job. Messages read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// No NVRTC that the loader can find.
    #[error(
        "load libnvrtc: it is in no folder of LD_LIBRARY_PATH; install it with `pip install --target <folder> nvidia-cuda-nvrtc==13.5.37` and let the setting for the NVRTC folder name <folder>/nvidia/cu13/lib"
    )]
    NoToolchain,
    /// An NVRTC without an entry point we need.
    #[error(
        "find {symbol} in libnvrtc: this version is too old; install nvidia-cuda-nvrtc 13.5 or newer"
    )]
    OldToolchain {
        /// The missing function.
        symbol: &'static str,
    },
    /// NVRTC refused a call that concerns no candidate.
    #[error("{action} with NVRTC: {reason}")]
    Toolchain {
        /// What was asked of it.
        action: String,
        /// Its answer.
        reason: String,
    },
    /// No CUDA driver that the loader can find.
    #[error(
        "load libcuda.so.1: neither an NVIDIA driver is installed nor does LD_LIBRARY_PATH name a folder with Kernelwright's emulated one"
    )]
    NoDriver,
    /// A driver without an entry point we need.
    #[error("find {symbol} in libcuda.so.1: the driver is too old; install 580 or newer")]
    OldDriver {
        /// The missing function.
        symbol: String,
    },
    /// A driver that compiles no PTX, which our own kernels are.
    #[error(
        "{0}: the CUDA driver compiles no PTX; install it with its compiler, libnvidia-ptxjitcompiler"
    )]
    NoPtx(&'static str),
    /// The driver refused a call that no kernel can have caused.
    #[error("{action}: the CUDA driver answered {code} ({name}) to {call}")]
    Driver {
        /// What was being done.
        action: String,
        /// The call.
        call: String,
        /// Its code.
        code: u32,
        /// Its name.
        name: String,
    },
    /// The emulated driver's own interface did not answer as agreed.
    #[error(
        "ask the emulated device to {request}: {reason}; build driver and runner from the same sources"
    )]
    Emulator {
        /// The request.
        request: &'static str,
        /// What was wrong with the answer.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A job that contradicts itself.
    #[error("carry out the job: {0}")]
    Job(String),
    /// The job or reply did not pass the socket.
    #[error("{action} over the role's socket: {reason}")]
    Socket {
        /// Reading the job or sending the reply.
        action: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// The process could not be confined, or is not although it seemed so.
    #[error("confine the process: {0}")]
    Confinement(String),
}

impl RoleError {
    /// A constructor for `map_err` on file operations.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}
