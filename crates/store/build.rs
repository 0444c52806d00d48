//! Embedded migrations must be read again when a file is added.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations");
}
