//! The bodies of the role processes: compile, disassemble, run, trace, verify, time, watch, clocks, experiment,
//! probe and python. They turn a source into an image, and an image into facts, on the CUDA driver that is loaded.
//!
//! The crate starts no process except NVIDIA's disassembler and the interpreter of references in Python, and knows no run, lease or HTTP. All code that can abort
//! or hang (the compiler, the driver) is called here and nowhere else, inside a child process whose death is a
//! supported outcome. The isolation of such a process is here as well: the rights that it gives up itself
//! ([`confine`]), and the namespaces and the control group that its supervisor creates around it ([`walls`]).

#![deny(unsafe_code)]

pub mod answer_cache;
mod cache;
mod clocks;
mod compile;
pub mod confine;
mod connection;
pub mod cubin;
mod cycles;
mod disassemble;
pub mod disturb;
#[expect(unsafe_code, reason = "the CUDA driver is a C library")]
mod driver;
mod execute;
mod experiment;
mod launch_facts;
#[expect(unsafe_code, reason = "the management library is a C library")]
mod nvml;
#[expect(unsafe_code, reason = "the compiler is a C library")]
mod nvrtc;
mod probe;
mod python;
pub mod role;
mod role_error;
mod run;
mod time;
mod verify;
pub mod walls;
mod watch;

pub use compile::compile;
pub use probe::probe;
pub use role_error::RoleError;
pub use run::run;
pub use verify::verify;
