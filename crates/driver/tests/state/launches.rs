//! Kernel launches, their faults, resources and modelled times.

use kernelwright_driver::code::Code;
use kernelwright_driver::handle::StreamHandle;
use kernelwright_driver::state::{Dimensions, Driver, EventFlags, LaunchRequest};

use super::{PTX, ask, function, launch_of, ready, run_on_buffer};

/// `axpy` launched with the API from before CUDA 4: y = 2 x + y for three elements.
#[test]
fn a_kernel_is_launched_with_the_legacy_api() {
    let mut driver = ready();
    let axpy = function(&mut driver, "axpy");
    let (x, y) = (
        driver.allocate(12).expect("x"),
        driver.allocate(12).expect("y"),
    );
    let ones: Vec<u8> = [1.0_f32; 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    driver.upload(x, &ones, None).expect("copies");
    driver.upload(y, &ones, None).expect("copies");
    driver.set_block(axpy, [32, 1, 1]).expect("a block");
    let stream = StreamHandle::LEGACY;
    let refused = driver.launch_legacy(axpy, [1, 1], stream);
    assert_eq!(refused, Err(Code::INVALID_VALUE), "no parameters yet");
    driver.set_parameter(axpy, 0, &x.to_le_bytes()).expect("x");
    driver.set_parameter(axpy, 8, &y.to_le_bytes()).expect("y");
    driver
        .set_parameter(axpy, 16, &2.0_f32.to_le_bytes())
        .expect("a");
    driver
        .set_parameter(axpy, 20, &3_u32.to_le_bytes())
        .expect("n");
    driver.set_parameter_bytes(axpy, 24).expect("24 bytes");
    driver
        .launch_legacy(axpy, [1, 1], stream)
        .expect("launches");
    let mut back = [0; 12];
    driver.download(y, &mut back, None).expect("copies");
    assert_eq!(back[8..], 3.0_f32.to_le_bytes());
    for block in [[0, 1, 1], [1, -1, 1], [1, 1, 65]] {
        assert_eq!(driver.set_block(axpy, block), Err(Code::INVALID_VALUE));
    }
    let far = driver.set_parameter(axpy, 40_000, &[0]);
    assert_eq!(far, Err(Code::INVALID_VALUE));
}

#[test]
fn a_kernel_computes_and_is_recorded_in_the_journal() {
    let mut driver = ready();
    let function = function(&mut driver, "axpy");
    let floats = |values: &[f32]| {
        values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let x = driver.allocate(400).expect("x");
    let y = driver.allocate(400).expect("y");
    let input: Vec<f32> = (0..100).map(|i| i as f32).collect();
    driver.upload(x, &floats(&input), None).expect("uploads");
    driver
        .upload(y, &floats(&[1.0; 100]), None)
        .expect("uploads");
    let mut parameters = Vec::new();
    parameters.extend(x.to_le_bytes());
    parameters.extend(y.to_le_bytes());
    parameters.extend(2.0_f32.to_le_bytes());
    parameters.extend(100_u32.to_le_bytes());
    let mut request = launch_of(function, &parameters);
    request.dimensions.grid = [4, 1, 1];
    driver.launch(&request).expect("launches");
    let mut output = vec![0; 400];
    driver.download(y, &mut output, None).expect("downloads");
    let expected: Vec<f32> = input.iter().map(|v| 2.0 * v + 1.0).collect();
    assert_eq!(output, floats(&expected));

    let taken = ask(&mut driver, r#"{"do":"take"}"#);
    for part in [
        r#""kernel":"axpy""#,
        r#""grid":[4,1,1]"#,
        r#""outcome":{"kind":"completed"}"#,
        r#""findings":[]"#,
        r#""label":"uncalibrated""#,
    ] {
        assert!(taken.contains(part), "{part} is not in {taken}");
    }
    assert_eq!(
        ask(&mut driver, r#"{"do":"take"}"#),
        r#"{"launches":[],"dropped":0}"#
    );
}

/// Bytes that a launch left in the L2 cache are not fetched again by the next launch; after the host wrote there, or
/// emptied the cache, they are.
#[test]
fn counters_tell_which_bytes_earlier_work_left_in_the_cache() {
    let mut driver = ready();
    let function = function(&mut driver, "through_shared");
    let buffer = driver.allocate(128).expect("allocates");
    let parameters = buffer.to_le_bytes();
    let cached = |driver: &mut Driver| {
        let request = LaunchRequest {
            dynamic_shared: 128,
            ..launch_of(function, &parameters)
        };
        driver.launch(&request).expect("launches");
        let taken = ask(driver, r#"{"do":"take"}"#);
        let (_, rest) = taken
            .split_once(r#""cached_sectors_read":"#)
            .expect("the counter");
        rest.split(',').next().map(str::to_owned)
    };
    driver.upload(buffer, &[0; 128], None).expect("uploads");
    assert_eq!(cached(&mut driver).as_deref(), Some("0"));
    assert_eq!(cached(&mut driver).as_deref(), Some("4"));
    driver.upload(buffer, &[0; 128], None).expect("uploads");
    assert_eq!(cached(&mut driver).as_deref(), Some("0"));
    assert_eq!(ask(&mut driver, r#"{"do":"evict"}"#), "{}");
    assert_eq!(cached(&mut driver).as_deref(), Some("0"));
    driver.fill(buffer, &[0], 128, None).expect("fills");
    assert_eq!(cached(&mut driver).as_deref(), Some("4"));
}

#[test]
fn each_fault_is_reported_by_every_synchronisation_after_it() {
    let cases = [
        ("astray", Code::ILLEGAL_ADDRESS, "illegal_address"),
        ("crooked", Code::MISALIGNED_ADDRESS, "misaligned_address"),
    ];
    for (kernel, code, kind) in cases {
        let mut driver = ready();
        assert_eq!(run_on_buffer(&mut driver, kernel), Err(code), "{kernel}");
        assert_eq!(
            driver.allocate(4),
            Err(code),
            "{kernel} corrupts the context"
        );
        assert_eq!(driver.synchronise_context(), Err(code));
        let taken = ask(&mut driver, r#"{"do":"take"}"#);
        assert!(
            taken.contains(&format!(r#""outcome":{{"kind":"{kind}"}}"#)),
            "{taken}"
        );
    }
}

#[test]
fn a_trap_and_an_endless_loop_end_as_documented() {
    for (kernel, code) in [
        ("trapped", Code::ILLEGAL_INSTRUCTION),
        ("endless", Code::LAUNCH_TIMEOUT),
    ] {
        let mut driver = ready();
        ask(&mut driver, r#"{"do":"configure","budget":100000}"#);
        let function = function(&mut driver, kernel);
        driver
            .launch(&launch_of(function, &[]))
            .expect("the launch itself succeeds");
        let stream = driver
            .create_stream(0, 0)
            .expect("asynchronous calls still work");
        assert_eq!(driver.synchronise_stream(stream), Err(code), "{kernel}");
        assert_eq!(driver.check_context(), Err(code), "{kernel}");
    }
}

#[test]
fn work_after_a_fault_takes_no_effect() {
    let mut driver = ready();
    let buffer = driver.allocate(4).expect("allocates");
    driver.fill(buffer, &[0], 4, None).expect("fills");
    let function = function(&mut driver, "astray");
    driver
        .launch(&launch_of(function, &buffer.to_le_bytes()))
        .expect("launches");
    driver
        .fill(buffer, &[9], 4, Some(StreamHandle::LEGACY))
        .expect("enqueues");
    let mut bytes = [5; 4];
    assert_eq!(
        driver.download(buffer, &mut bytes, Some(StreamHandle::LEGACY)),
        Err(Code::ILLEGAL_ADDRESS)
    );
    assert_eq!(bytes, [5; 4]);
}

#[test]
fn an_unsupported_instruction_is_named_and_is_no_finding() {
    let mut driver = ready();
    assert_eq!(
        run_on_buffer(&mut driver, "outlandish"),
        Err(Code::NOT_SUPPORTED)
    );
    assert_eq!(driver.synchronise_context(), Ok(()), "the context is sound");
    let taken = ask(&mut driver, r#"{"do":"take"}"#);
    let line = 1 + PTX
        .lines()
        .position(|line| line.contains("conjure.b32"))
        .expect("the line");
    assert!(
        taken.contains(r#""kind":"unsupported","opcode":"conjure.b32""#),
        "{taken}"
    );
    assert!(taken.contains(&format!(r#""ptx_line":{line}"#)), "{taken}");
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let mut driver = ready();
    let function = function(&mut driver, "through_shared");
    let buffer = driver.allocate(4096).expect("allocates");
    driver.fill(buffer, &[0], 4096, None).expect("fills");
    let parameters = buffer.to_le_bytes();
    let with = |grid, block, dynamic_shared| LaunchRequest {
        dimensions: Dimensions { grid, block },
        dynamic_shared,
        ..launch_of(function, &parameters)
    };
    let cases = [
        ([0, 1, 1], [32, 1, 1], 0),
        ([1, 1, 1], [0, 1, 1], 0),
        ([1, 65_536, 1], [1, 1, 1], 0),
        ([1, 1, 1], [2048, 1, 1], 0),
        ([1, 1, 1], [64, 64, 1], 0),
        ([1, 1, 1], [1, 1, 65], 0),
        ([1, 1, 1], [32, 1, 1], 48 * 1024 + 1),
    ];
    for (grid, block, shared) in cases {
        assert_eq!(
            driver.launch(&with(grid, block, shared)),
            Err(Code::INVALID_VALUE),
            "{grid:?} {block:?} {shared}"
        );
    }
    assert_eq!(
        driver.launch(&LaunchRequest {
            parameters: &[],
            ..with([1, 1, 1], [32, 1, 1], 128)
        }),
        Err(Code::INVALID_VALUE),
        "without parameters"
    );
    let mut crowd = with([10_000, 1, 1], [1024, 1, 1], 4096);
    crowd.cooperative = true;
    assert_eq!(
        driver.launch(&crowd),
        Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE)
    );

    // After opting in, more shared memory is allowed, up to the device's limit.
    let optin = 99 * 1024;
    assert_eq!(
        driver.set_function_attribute(function, 8, optin + 1),
        Err(Code::INVALID_VALUE)
    );
    driver
        .set_function_attribute(function, 8, optin)
        .expect("opts in");
    assert_eq!(driver.function_attribute(8, function), Ok(optin));
    driver
        .launch(&with([1, 1, 1], [32, 1, 1], optin as u32))
        .expect("launches");
    driver.synchronise_context().expect("runs");
}

#[test]
fn registers_reported_by_the_compiler_decide_occupancy() {
    let mut driver = ready();
    ask(
        &mut driver,
        r#"{"do":"configure","registers":{"through_shared":128}}"#,
    );
    let function = function(&mut driver, "through_shared");
    assert_eq!(driver.function_attribute(4, function), Ok(128));
    let blocks = |threads| {
        driver
            .occupancy(function, threads, 0)
            .map(|o| o.blocks_per_multiprocessor)
    };
    assert_eq!(blocks(128), Ok(4));
    assert_eq!(blocks(1024), Ok(0));
    let request = LaunchRequest {
        dimensions: Dimensions {
            grid: [1, 1, 1],
            block: [1024, 1, 1],
        },
        ..launch_of(function, &[0; 8])
    };
    assert_eq!(driver.launch(&request), Err(Code::LAUNCH_OUT_OF_RESOURCES));
}

#[test]
fn a_launch_takes_the_modelled_time_of_the_configured_cache_state() {
    let mut driver = ready();
    let axpy = function(&mut driver, "axpy");
    let elements = 1_u32 << 17;
    let bytes = u64::from(elements) * 4;
    let [x, y] = std::array::from_fn(|_| driver.allocate(bytes).expect("allocates"));
    let parameters = [
        x.to_le_bytes().as_slice(),
        &y.to_le_bytes(),
        &2.0_f32.to_le_bytes(),
        &elements.to_le_bytes(),
    ]
    .concat();
    let request = LaunchRequest {
        dimensions: Dimensions {
            grid: [elements / 256, 1, 1],
            block: [256, 1, 1],
        },
        ..launch_of(axpy, &parameters)
    };
    let timed = EventFlags::from_bits(0).expect("flags");
    let [before, after] = std::array::from_fn(|_| driver.create_event(timed).expect("an event"));
    let mut launch = |configure: &str| {
        ask(&mut driver, configure);
        for buffer in [x, y] {
            driver.fill(buffer, &[0], bytes, None).expect("fills");
        }
        ask(&mut driver, r#"{"do":"evict"}"#);
        let stream = StreamHandle::LEGACY;
        driver.record_event(before, stream).expect("records");
        driver.launch(&request).expect("launches");
        driver.record_event(after, stream).expect("records");
        let elapsed = 1e3 * driver.elapsed(before, after).expect("timed");
        let taken = ask(&mut driver, r#"{"do":"take"}"#);
        let taken: serde_json::Value = serde_json::from_str(&taken).expect("JSON");
        let time = |name: &str| taken["launches"][0][name]["microseconds"].as_f64();
        (f64::from(elapsed), time("modelled"), time("modelled_warm"))
    };
    let near = |a: f64, b: Option<f64>| (a / b.expect("a time") - 1.0).abs() < 1e-3;
    let (elapsed, cold, warm) = launch(r#"{"do":"configure","clock":"warm"}"#);
    assert!(
        near(elapsed, cold) && warm.is_none(),
        "nobody said what was read"
    );
    let (elapsed, cold, warm) =
        launch(r#"{"do":"configure","read_before":1048576,"clock":"cold"}"#);
    assert!(near(elapsed, cold) && warm < cold, "{cold:?}, {warm:?}");
    let (elapsed, again, warm) = launch(r#"{"do":"configure","clock":"warm"}"#);
    assert!(near(elapsed, warm) && again == cold);
    // After a gigabyte was read, little of this is left in the cache.
    let (elapsed, _, streaming) = launch(r#"{"do":"configure","read_before":1073741824}"#);
    assert!(near(elapsed, streaming) && streaming > warm && streaming <= cold);
    let (elapsed, _, warm) = launch(r#"{"do":"configure","read_before":null}"#);
    assert!(near(elapsed, cold) && warm.is_none());
}

#[test]
fn events_measure_modelled_time_in_stream_order() {
    let mut driver = ready();
    let timed = EventFlags::from_bits(0).expect("flags");
    let [before, after, other] =
        std::array::from_fn(|_| driver.create_event(timed).expect("an event"));
    assert_eq!(
        driver.elapsed(before, after),
        Err(Code::INVALID_HANDLE),
        "never recorded"
    );
    let one = driver.create_stream(1, 0).expect("a stream");
    let two = driver.create_stream(1, 0).expect("a stream");
    let bytes = 24 << 20;
    let buffer = driver.allocate(bytes).expect("allocates");
    let data = vec![1; bytes as usize];
    driver.record_event(before, one).expect("records");
    driver.upload(buffer, &data, Some(one)).expect("uploads");
    driver.record_event(after, one).expect("records");
    driver.record_event(other, two).expect("records");
    // 24 MiB at 24 GB/s are 1.049 ms.
    let elapsed = driver.elapsed(before, after).expect("timed");
    assert!((1.04..1.07).contains(&elapsed), "{elapsed}");
    assert_eq!(
        driver.elapsed(before, other),
        Ok(0.0),
        "the other stream is idle"
    );
    driver.wait_for_event(two, after).expect("waits");
    driver.record_event(other, two).expect("records");
    assert_eq!(driver.elapsed(before, other), Ok(elapsed));
    let untimed = driver
        .create_event(EventFlags::from_bits(2).expect("flags"))
        .expect("an event");
    driver.record_event(untimed, one).expect("records");
    assert_eq!(driver.elapsed(before, untimed), Err(Code::INVALID_HANDLE));
    assert_eq!(EventFlags::from_bits(64), Err(Code::INVALID_VALUE));
}

/// Fills in stream order are steps of a plan: the launch that follows, or the last one, takes their time. A synchronous
/// fill prepares memory and costs nothing.
#[test]
fn fills_in_stream_order_take_time() {
    let mut driver = ready();
    let function = function(&mut driver, "through_shared");
    let buffer = driver.allocate(1 << 20).expect("allocates");
    let parameters = buffer.to_le_bytes();
    let mut microseconds = |before: Option<StreamHandle>, after: bool| {
        let mut fill = |stream| driver.fill(buffer, &[0], 1 << 20, stream).expect("fills");
        if before.is_some() {
            fill(before);
        }
        fill(None);
        let request = LaunchRequest {
            dynamic_shared: 128,
            ..launch_of(function, &parameters)
        };
        driver.launch(&request).expect("launches");
        if after {
            driver
                .fill(buffer, &[0], 1 << 20, Some(StreamHandle::LEGACY))
                .expect("fills");
        }
        let taken = ask(&mut driver, r#"{"do":"take"}"#);
        let (_, modelled) = taken.split_once(r#""modelled":{"#).expect("a time");
        let (_, rest) = modelled
            .split_once(r#""microseconds":"#)
            .expect("the field");
        let number = rest.split(',').next().expect("a number");
        number.parse::<f64>().expect("a number")
    };
    let alone = microseconds(None, false);
    let filled = microseconds(Some(StreamHandle::LEGACY), false);
    assert!(filled > alone + 2.0, "{alone} and {filled} us");
    assert_eq!(microseconds(None, true), filled);
    assert_eq!(microseconds(None, false), alone);
}
