//! Conversion between Kernelwright's files and code as other projects keep it: an existing `.cu` file
//! to a new task folder. Text in, text out: files, compilers and devices are the caller's.

pub mod init;
