//! Conversion between Kernelwright's files and code as other projects keep it: an existing `.cu` file
//! to a new task folder, a verified candidate to files that other programs build or load. Text in, text
//! out: files, compilers and devices are the caller's.

pub mod edit;
pub mod export;
pub mod import;
pub mod init;
mod python;
