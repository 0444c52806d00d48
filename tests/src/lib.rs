//! The lab: a whole Kernelwright, real processes and all, in a temporary folder.
