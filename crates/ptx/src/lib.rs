//! Placeholder until the crate's first real module lands.
