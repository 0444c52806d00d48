//! Real GPUs as data: what a device has, with the source of each constant.
