//! Device memory, copies, stale handles and mappings.

use kernelwright_driver::code::Code;
use kernelwright_driver::handle::{EventHandle, PoolHandle, StreamHandle};
use kernelwright_driver::state::{GRANULE, Rights};

use super::{MEMORY, function, launch_of, load, ready};

#[test]
fn memory_calls_refuse_addresses_outside_their_allocations() {
    let mut driver = ready();
    assert_eq!(driver.allocate(0), Err(Code::INVALID_VALUE));
    assert_eq!(driver.allocate(MEMORY + 1), Err(Code::OUT_OF_MEMORY));
    assert_eq!(driver.allocate(u64::MAX), Err(Code::OUT_OF_MEMORY));
    let buffer = driver.allocate(64).expect("allocates");
    let mut bytes = [0; 65];
    let cases = [
        driver.upload(buffer, &bytes, None),
        driver.upload(buffer + 1, &bytes[..64], None),
        driver.upload(8, &bytes[..1], None),
        driver.download(buffer, &mut bytes, None),
        driver.copy(buffer, buffer + 32, 33, None),
        driver.fill(buffer, &[1, 2], 33, None),
        driver.fill(buffer + 1, &[1, 2], 1, None),
        driver.free(buffer + 1),
    ];
    assert!(
        cases.iter().all(|case| *case == Err(Code::INVALID_VALUE)),
        "{cases:?}"
    );
    driver.free(buffer).expect("frees");
    assert_eq!(driver.free(buffer), Err(Code::INVALID_VALUE), "freed twice");
    assert_eq!(driver.free(0), Ok(()), "null is nothing");
    assert_eq!(driver.memory_info().map(|(free, _)| free), Ok(MEMORY));
}

#[test]
fn copies_and_fills_move_the_bytes() {
    let mut driver = ready();
    let buffer = driver.allocate(16).expect("allocates");
    driver.fill(buffer, &[0xab, 0xcd], 8, None).expect("fills");
    driver
        .upload(buffer + 4, &[1, 2, 3], None)
        .expect("uploads");
    driver
        .copy(buffer + 8, buffer + 3, 5, None)
        .expect("copies");
    let mut bytes = [0; 16];
    driver
        .download(buffer, &mut bytes, None)
        .expect("downloads");
    assert_eq!(
        bytes,
        [
            0xab, 0xcd, 0xab, 0xcd, 1, 2, 3, 0xcd, 0xcd, 1, 2, 3, 0xcd, 0xcd, 0xab, 0xcd
        ]
    );
}

#[test]
fn stale_handles_are_recognised() {
    let mut driver = ready();
    let stream = driver.create_stream(1, 0).expect("a stream");
    driver.destroy_stream(stream).expect("destroys");
    assert_eq!(driver.destroy_stream(stream), Err(Code::INVALID_HANDLE));
    assert_eq!(driver.synchronise_stream(stream), Err(Code::INVALID_HANDLE));
    assert_eq!(
        driver.destroy_stream(StreamHandle::LEGACY),
        Err(Code::INVALID_HANDLE)
    );
    let module = load(&mut driver);
    let function = driver.function(module, "axpy").expect("the kernel");
    assert_eq!(
        driver.function(module, "axpy"),
        Ok(function),
        "the same handle again"
    );
    assert_eq!(driver.function(module, "nobody"), Err(Code::NOT_FOUND));
    driver.unload_module(module).expect("unloads");
    assert_eq!(driver.function(module, "axpy"), Err(Code::INVALID_HANDLE));
    assert_eq!(driver.parameters(function), Err(Code::INVALID_HANDLE));
    // A handle of another kind is invalid.
    assert_eq!(
        driver.destroy_event(EventHandle(stream.0)),
        Err(Code::INVALID_HANDLE)
    );
    assert_eq!(driver.check_pool(PoolHandle(1)), Err(Code::INVALID_VALUE));
}

/// The last call determines the access rights of a mapping, for kernels and for the host.
#[test]
fn a_read_only_mapping_can_be_read_and_not_written() {
    let mut driver = ready();
    let base = driver.reserve_addresses(GRANULE, 0).expect("addresses");
    let memory = driver.create_memory(GRANULE).expect("memory");
    driver.map(base, GRANULE, memory).expect("a mapping");
    driver
        .grant_access(base, GRANULE, Rights::ReadWrite)
        .expect("to write");
    driver.upload(base, &[7; 4], None).expect("writes");
    driver
        .grant_access(base, GRANULE, Rights::Read)
        .expect("to read");
    let mut back = [0; 4];
    driver.download(base, &mut back, None).expect("reads");
    assert_eq!(back, [7; 4]);
    let other = driver.allocate(4).expect("allocates");
    driver.copy(other, base, 4, None).expect("copies from it");
    for refused in [
        driver.upload(base, &[8; 4], None),
        driver.fill(base, &[8], 4, None),
        driver.copy(base, other, 4, None),
    ] {
        assert_eq!(refused, Err(Code::INVALID_VALUE));
    }
    driver
        .grant_access(base, GRANULE, Rights::ReadWrite)
        .expect("to write again");
    driver.upload(base, &[9; 4], None).expect("writes");
    driver
        .grant_access(base, GRANULE, Rights::Read)
        .expect("to read");
    let axpy = function(&mut driver, "axpy");
    let mut parameters = [0; 24];
    parameters[..8].copy_from_slice(&other.to_le_bytes());
    parameters[8..16].copy_from_slice(&base.to_le_bytes());
    parameters[20..].copy_from_slice(&1_u32.to_le_bytes());
    let ended = driver
        .launch(&launch_of(axpy, &parameters))
        .and_then(|()| driver.synchronise_context());
    assert_eq!(ended, Err(Code(700)));
}
