//! Links a debug build of the program at a fixed address.
//!
//! A debug build has 330,000 addresses that the loader would write into each process at its start: 7 of the 14 ms
//! that a role process takes to start, and an evaluation starts a dozen. What is handed out stays movable, so that
//! the system places it at random addresses.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
