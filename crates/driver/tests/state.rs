//! Tests of the driver's state, called directly: the result of each call, and the valid orders of calls.

use std::thread;

use kernelwright_driver::code::Code;
use kernelwright_driver::emulator;
use kernelwright_driver::handle::{
    ContextHandle, EventHandle, FunctionHandle, ModuleHandle, PoolHandle, StreamHandle,
};
use kernelwright_driver::image::Image;
use kernelwright_driver::state::{
    ContextFlags, Dimensions, Driver, EventFlags, GRANULE, LaunchRequest, Rights,
};
use ptx::device::Device;

const PTX: &str = include_str!("ptx/basics.ptx");
const MEMORY: u64 = 64 << 20;

fn fresh() -> Driver {
    Driver::new(Device::embedded("l4").expect("embedded"), MEMORY)
}

/// A driver with a current context.
fn ready() -> Driver {
    let mut driver = fresh();
    driver.initialise(0).expect("initialises");
    let context = driver.primary_retain(0).expect("retains");
    driver
        .set_current_context(Some(context))
        .expect("makes current");
    driver
}

fn load(driver: &mut Driver) -> ModuleHandle {
    driver
        .load_module(Image::Ptx(PTX.as_bytes()), None)
        .expect("the module loads")
}

fn function(driver: &mut Driver, name: &str) -> FunctionHandle {
    let module = load(driver);
    driver.function(module, name).expect("the kernel is there")
}

fn launch_of(function: FunctionHandle, parameters: &[u8]) -> LaunchRequest<'_> {
    LaunchRequest {
        function,
        dimensions: Dimensions {
            grid: [1, 1, 1],
            block: [32, 1, 1],
        },
        dynamic_shared: 0,
        stream: StreamHandle::LEGACY,
        parameters,
        cooperative: false,
    }
}

fn ask(driver: &mut Driver, request: &str) -> String {
    let answer = emulator::answer(driver, request.as_bytes());
    assert!(answer.accepted, "{request}: {}", answer.json);
    emulator::delivered(driver, &answer);
    answer.json
}

/// Runs a kernel that takes one pointer on a buffer of 32 words, and returns the result of the next synchronisation.
fn run_on_buffer(driver: &mut Driver, name: &str) -> Result<(), Code> {
    let function = function(driver, name);
    let buffer = driver.allocate(128)?;
    driver.fill(buffer, &[0], 128, None)?;
    driver.launch(&launch_of(function, &buffer.to_le_bytes()))?;
    driver.synchronise_context()
}

#[test]
fn nothing_works_before_initialisation_or_without_a_context() {
    let mut driver = fresh();
    assert_eq!(driver.check_device(0), Err(Code::NOT_INITIALIZED));
    assert_eq!(driver.allocate(4), Err(Code::NOT_INITIALIZED));
    assert_eq!(driver.initialise(1), Err(Code::INVALID_VALUE));
    driver.initialise(0).expect("initialises");
    assert_eq!(driver.check_device(1), Err(Code::INVALID_DEVICE));
    assert_eq!(driver.allocate(4), Err(Code::INVALID_CONTEXT));
    assert_eq!(
        driver.set_current_context(Some(ContextHandle(77))),
        Err(Code::INVALID_CONTEXT)
    );
}

#[test]
fn the_primary_context_exists_while_it_is_retained() {
    let mut driver = ready();
    let again = driver.primary_retain(0).expect("retains");
    assert_eq!(driver.current_context(), Some(again));
    let buffer = driver.allocate(16).expect("allocates");
    driver.primary_release(0).expect("one left");
    assert!(driver.address_range(buffer).is_ok());
    driver.primary_release(0).expect("none left");
    assert_eq!(driver.allocate(4), Err(Code::CONTEXT_IS_DESTROYED));
    assert_eq!(driver.primary_release(0), Err(Code::INVALID_CONTEXT));
    let context = driver.primary_retain(0).expect("a new life");
    driver
        .set_current_context(Some(context))
        .expect("makes current");
    assert_eq!(driver.address_range(buffer), Err(Code::INVALID_VALUE));
}

#[test]
fn an_attached_context_is_destroyed_by_the_last_detach() {
    let mut driver = fresh();
    driver.initialise(0).expect("initialises");
    assert_eq!(driver.attach_context(), Err(Code::INVALID_CONTEXT));
    let context = driver
        .create_context(0, ContextFlags::default())
        .expect("creates");
    assert_eq!(driver.attach_context(), Ok(context));
    driver.detach_context(context).expect("one is left");
    driver.check_context().expect("it is alive");
    driver.detach_context(context).expect("the last");
    assert_eq!(driver.known_context(context), Err(Code::INVALID_CONTEXT));
    assert_eq!(driver.current_context(), None);
    assert_eq!(driver.detach_context(context), Err(Code::INVALID_CONTEXT));
}

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
fn handles_of_one_context_are_invalid_in_another() {
    let mut driver = ready();
    let stream = driver.create_stream(0, 0).expect("a stream");
    let event = driver
        .create_event(EventFlags::from_bits(0).expect("flags"))
        .expect("an event");
    let function = function(&mut driver, "trapped");
    let other = driver
        .create_context(0, ContextFlags::default())
        .expect("another context");
    assert_eq!(driver.check_stream(stream), Err(Code::INVALID_HANDLE));
    assert_eq!(
        driver.record_event(event, StreamHandle::LEGACY),
        Err(Code::INVALID_HANDLE)
    );
    assert_eq!(
        driver.launch(&launch_of(function, &[])),
        Err(Code::INVALID_HANDLE)
    );
    driver.destroy_context(other).expect("destroys");
    assert_eq!(driver.check_stream(stream).map(|_| ()), Ok(()));
}

#[test]
fn every_thread_has_its_own_current_context() {
    let mut driver = ready();
    let here = thread::current().id();
    let there = thread::spawn(|| thread::current().id())
        .join()
        .expect("a thread");
    driver.begin_call(there, None);
    assert_eq!(driver.allocate(4), Err(Code::INVALID_CONTEXT));
    assert_eq!(driver.pop_context(), Err(Code::INVALID_CONTEXT));
    driver.begin_call(here, None);
    assert!(driver.allocate(4).is_ok());
}

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

#[test]
fn a_librarys_module_is_unloaded_only_with_the_library() {
    let mut driver = ready();
    let library = driver
        .load_library(Image::Ptx(PTX.as_bytes()), None)
        .expect("the library loads");
    let module = driver.library_module(library).expect("it has a module");
    assert_eq!(driver.unload_module(module), Err(Code::NOT_PERMITTED));
    assert_eq!(driver.library_module(library), Ok(module));
    driver.unload_library(library).expect("unloads");
    assert_eq!(driver.unload_module(module), Err(Code::INVALID_HANDLE));
}

#[test]
fn images_without_ptx_for_this_device_are_refused_with_a_reason() {
    let mut driver = ready();
    let refusal = driver
        .load_module(Image::MachineCode, None)
        .expect_err("no PTX");
    assert_eq!(refusal.code, Code::NO_BINARY_FOR_GPU);
    let refusal = driver
        .load_module(Image::Ptx(b"this is no PTX at all"), None)
        .expect_err("no PTX");
    assert_eq!(refusal.code, Code::INVALID_PTX);
    assert!(refusal.message.contains("1:"), "{}", refusal.message);
}

#[test]
fn the_sizes_of_parameters_come_from_the_parsed_text_and_not_from_comments() {
    let mut driver = ready();
    let text = |body: &str| format!(".version 8.0\n.target sm_80\n.address_size 64\n{body}\n");
    let posing = text(
        ".visible .entry k(.param .u64 a, .param .align 1 .b8 b[4000]) {\n// .entry k(.param .u64 a, .param .u32 b) {\nret;\n}",
    );
    let module = driver
        .load_module(Image::Ptx(posing.as_bytes()), None)
        .expect("loads");
    let kernel = driver.function(module, "k").expect("one kernel");
    let slots = driver.parameters(kernel).expect("its parameters");
    let sizes: Vec<usize> = slots.iter().map(|slot| slot.bytes).collect();
    assert_eq!(sizes, [8, 4000]);
    for refused in [
        text(
            ".visible .entry k(.param .u64 a) { ret; }\n.visible .entry k(.param .u32 a) { ret; }",
        ),
        text(".visible .entry k(.param .align 1 .b8 a[32765]) { ret; }"),
    ] {
        let refusal = driver
            .load_module(Image::Ptx(refused.as_bytes()), None)
            .expect_err(&refused);
        assert_eq!(refusal.code, Code::INVALID_PTX, "{}", refusal.message);
        assert!(refusal.message.contains('k'), "{}", refusal.message);
    }
}

#[test]
fn variables_have_addresses_and_their_initial_value() {
    let mut driver = ready();
    let module = load(&mut driver);
    let (address, bytes) = driver.variable(module, "counter").expect("the variable");
    assert_eq!(bytes, 4);
    let mut value = [0; 4];
    driver
        .download(address, &mut value, None)
        .expect("downloads");
    assert_eq!(u32::from_le_bytes(value), 7);
    assert_eq!(driver.variable(module, "nothing"), Err(Code::NOT_FOUND));
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

/// Bytes that a launch left in the L2 cache are not fetched again by the next launch; bytes that the host wrote are.
#[test]
fn counters_exclude_bytes_that_an_earlier_launch_left_in_the_cache() {
    let mut driver = ready();
    let function = function(&mut driver, "through_shared");
    let buffer = driver.allocate(128).expect("allocates");
    let parameters = buffer.to_le_bytes();
    let produced = |driver: &mut Driver| {
        let request = LaunchRequest {
            dynamic_shared: 128,
            ..launch_of(function, &parameters)
        };
        driver.launch(&request).expect("launches");
        let taken = ask(driver, r#"{"do":"take"}"#);
        let (_, rest) = taken
            .split_once(r#""produced_sectors_read":"#)
            .expect("the counter");
        rest.split(',').next().map(str::to_owned)
    };
    driver.fill(buffer, &[0], 128, None).expect("fills");
    assert_eq!(produced(&mut driver).as_deref(), Some("0"));
    assert_eq!(produced(&mut driver).as_deref(), Some("4"));
    driver.fill(buffer, &[0], 128, None).expect("fills");
    assert_eq!(produced(&mut driver).as_deref(), Some("0"));
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

#[test]
fn the_emulator_reports_unwritten_bytes() {
    let mut driver = ready();
    let buffer = driver.allocate(64).expect("allocates");
    driver.fill(buffer, &[0], 16, None).expect("fills");
    let written = |driver: &mut Driver| {
        ask(
            driver,
            &format!(r#"{{"do":"written","pointer":{buffer},"bytes":64}}"#),
        )
    };
    assert_eq!(written(&mut driver), r#"{"unwritten":48,"first":16}"#);
    driver.fill(buffer, &[0], 64, None).expect("fills");
    assert_eq!(written(&mut driver), r#"{"unwritten":0,"first":null}"#);
    ask(
        &mut driver,
        &format!(r#"{{"do":"forget","pointer":{},"bytes":4}}"#, buffer + 8),
    );
    assert_eq!(written(&mut driver), r#"{"unwritten":4,"first":8}"#);
    ask(
        &mut driver,
        &format!(r#"{{"do":"label","pointer":{buffer},"name":"q"}}"#),
    );
    ask(
        &mut driver,
        &format!(r#"{{"do":"begin","pointer":{}}}"#, buffer + 4),
    );
    assert_eq!(written(&mut driver), r#"{"unwritten":4,"first":8}"#);
    let described = ask(&mut driver, r#"{"do":"describe"}"#);
    assert!(described.starts_with(r#"{"version":1,"device":"l4","label":"uncalibrated""#));
}

#[test]
fn bad_requests_get_an_error_and_change_nothing() {
    let mut driver = ready();
    for request in [
        "",
        "{}",
        r#"{"do":"dance"}"#,
        r#"{"do":"label","pointer":1,"name":"x"}"#,
        r#"{"do":"begin","pointer":1}"#,
        r#"{"do":"written","pointer":1,"bytes":1}"#,
        r#"{"do":"configure","cheks":"off"}"#,
        r#"{"do":"configure","checks":"some"}"#,
        r#"{"do":"configure","fragments":"shuffled"}"#,
    ] {
        let answer = emulator::answer(&mut driver, request.as_bytes());
        assert!(!answer.accepted, "{request}");
        assert!(answer.json.starts_with(r#"{"error":""#), "{}", answer.json);
    }
}

#[test]
fn a_reply_that_was_not_delivered_is_kept() {
    let mut driver = ready();
    let function = function(&mut driver, "trapped");
    driver.launch(&launch_of(function, &[])).expect("launches");
    let unseen = emulator::answer(&mut driver, br#"{"do":"take"}"#);
    let seen = ask(&mut driver, r#"{"do":"take"}"#);
    assert_eq!(unseen.json, seen);
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
