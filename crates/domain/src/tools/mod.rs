//! What NVIDIA's tools and the emulated device's own checks say of a kernel, in one form for
//! both: four sanitizer results, and the numbers of a profile with what they suggest.
//!
//! Pure: texts and counters in, values out. How a tool is started is the worker's business. What a
//! tool did not say stays unknown; it never becomes a zero or a pass.

pub mod ncu;
pub mod profile;
pub mod sanitize;
