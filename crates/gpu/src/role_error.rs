//! Faults of the environment: the reasons why a role cannot do its job although no kernel is at fault. The behaviour
//! of a candidate is never one of them; it is data in a reply.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a role could not do its job. Messages are read after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// The loader finds no NVRTC.
    #[error(
        "load libnvrtc: it is in no folder of LD_LIBRARY_PATH; install it with `pip install --target <folder> nvidia-cuda-nvrtc==13.5.37` and let the setting for the NVRTC folder name <folder>/nvidia/cu13/lib"
    )]
    NoToolchain,
    /// NVRTC lacks a required entry point.
    #[error(
        "find {symbol} in libnvrtc: this version is too old; install nvidia-cuda-nvrtc 13.5 or newer"
    )]
    OldToolchain {
        /// The missing function.
        symbol: &'static str,
    },
    /// NVRTC refused a call that does not depend on a candidate.
    #[error("{action} with NVRTC: {reason}")]
    Toolchain {
        /// The attempted action.
        action: String,
        /// NVRTC's answer.
        reason: String,
    },
    /// The loader finds no CUDA driver.
    #[error(
        "load libcuda.so.1: neither an NVIDIA driver is installed nor does LD_LIBRARY_PATH name a folder with Kernelwright's emulated one"
    )]
    NoDriver,
    /// The driver lacks a required entry point.
    #[error("find {symbol} in libcuda.so.1: the driver is too old; install 580 or newer")]
    OldDriver {
        /// The missing function.
        symbol: String,
    },
    /// The driver does not compile PTX, which is the form of this project's own kernels.
    #[error(
        "{0}: the CUDA driver compiles no PTX; install it with its compiler, libnvidia-ptxjitcompiler"
    )]
    NoPtx(&'static str),
    /// The driver refused a call that no kernel can have affected.
    #[error("{action}: the CUDA driver answered {code} ({name}) to {call}")]
    Driver {
        /// The attempted action.
        action: String,
        /// Name of the function.
        call: String,
        /// The driver's error code.
        code: u32,
        /// Name of the error code.
        name: String,
    },
    /// The emulated driver's own interface did not answer as specified.
    #[error(
        "ask the emulated device to {request}: {reason}; build driver and runner from the same sources"
    )]
    Emulator {
        /// The request.
        request: &'static str,
        /// The defect of the answer.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{action} {}: {source}", path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The job contradicts itself.
    #[error("carry out the job: {0}")]
    Job(String),
    /// The job or the reply could not be transferred over the socket.
    #[error("{action} over the role's socket: {reason}")]
    Socket {
        /// The attempted action: reading the job or sending the reply.
        action: &'static str,
        /// The cause.
        reason: String,
    },
    /// The process could not be confined, or a confinement that was granted does not hold.
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
