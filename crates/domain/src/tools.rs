//! The results of NVIDIA's tools and of the emulated device's own checks in one form: four
//! sanitizer results, and the numbers of a profile with the suggestions that follow from them.
//!
//! Pure: texts and counters in, values out. How a tool is started is the worker's business. What a
//! tool did not say stays unknown; it never becomes a zero or a pass.

pub mod ncu;
pub mod profile;
pub mod sanitize;
