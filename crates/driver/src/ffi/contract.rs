//! Tests of the contract of every exported function, called as C programs call it: the results of a valid call, of a
//! call with each argument invalid in each way, and of calls in each state of the process.
//!
//! `table` lists the arguments of every function; the ways in which an argument can be invalid follow from its type.
//! `scene` creates valid and invalid arguments. `fuzz` makes random calls in random order.
//!
//! The API trusts its callers in three things, so the tests never violate them: a pointer to host memory that is not
//! null points to as many bytes as the other arguments say, arrays have the length that their counts say, and texts
//! end with NUL.

mod fuzz;
mod graphs;
mod scene;
mod table;

use std::collections::BTreeSet;

use crate::code;

use super::proc_address;
use scene::{Scene, describe};
use table::{Argument, ENTRIES, Entry, Needs};

const NOT_INITIALIZED: u32 = code::Code::NOT_INITIALIZED.0;
const INVALID_CONTEXT: u32 = code::Code::INVALID_CONTEXT.0;
const CONTEXT_IS_DESTROYED: u32 = code::Code::CONTEXT_IS_DESTROYED.0;
const ILLEGAL_ADDRESS: u32 = code::Code::ILLEGAL_ADDRESS.0;

/// All functions of the table, and the unsupported ones.
fn entries() -> impl Iterator<Item = Entry> {
    let absent = super::absent::FUNCTIONS
        .iter()
        .map(|(name, _)| table::absent(name));
    let told = ENTRIES.iter().chain(graphs::ENTRIES);
    told.copied().chain(absent)
}

/// Collects unexpected results, so that one run reports all of them.
#[derive(Default)]
struct Surprises(Vec<String>);

impl Surprises {
    fn check(&mut self, what: &str, found: u32, expected: u32) {
        if found != expected {
            self.0.push(format!(
                "{what}: {}, not {}",
                describe(found),
                describe(expected)
            ));
        }
    }
}

impl Drop for Surprises {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{}", self.0.join("\n"));
        }
    }
}

#[test]
fn the_table_names_every_exported_function() {
    let exported: BTreeSet<&str> = proc_address::table().map(|(name, _)| name).collect();
    let told: Vec<&str> = entries().map(|entry| entry.name).collect();
    let unique: BTreeSet<&str> = told.iter().copied().collect();
    assert_eq!(unique, exported);
    assert_eq!(unique.len(), told.len(), "a function is told once");
}

#[test]
fn right_calls_get_their_answer() {
    let mut surprises = Surprises::default();
    for entry in entries() {
        let mut scene = Scene::ready();
        let arguments = scene.right_arguments(&entry);
        surprises.check(entry.name, scene.call(entry.name, &arguments), entry.answer);
    }
}

#[test]
fn each_wrong_argument_gets_the_documented_error() {
    let mut surprises = Surprises::default();
    for entry in entries() {
        for (place, argument) in entry.arguments.iter().enumerate() {
            let count = Scene::ready().wrongs(*argument).len();
            for index in 0..count {
                let mut scene = Scene::ready();
                let mut arguments = scene.right_arguments(&entry);
                let wrong = scene.wrongs(*argument).swap_remove(index);
                arguments[place] = wrong.value;
                let excepted = entry
                    .except
                    .iter()
                    .find(|(at, what, _)| *at == place && *what == wrong.what);
                let expected = excepted.map_or(wrong.code, |(.., code)| *code);
                surprises.check(
                    &format!("{} with {} as argument {place}", entry.name, wrong.what),
                    scene.call(entry.name, &arguments),
                    expected,
                );
                surprises.check(
                    &format!("a sound call after {} with {}", entry.name, wrong.what),
                    scene.call("cuCtxGetCurrent", &[scene.place()]),
                    0,
                );
            }
        }
    }
}

#[test]
fn nothing_but_a_few_answers_before_initialisation() {
    let mut surprises = Surprises::default();
    for entry in entries() {
        let mut scene = Scene::new();
        let arguments = vec![0; entry.arguments.len()];
        let found = scene.call(entry.name, &arguments);
        if entry.needs == Needs::Nothing {
            surprises.check(entry.name, u32::from(found == NOT_INITIALIZED), 0);
        } else {
            surprises.check(entry.name, found, NOT_INITIALIZED);
        }
        assert!(
            code::name(found).is_some(),
            "{} answered {found}",
            entry.name
        );
    }
}

#[test]
fn what_works_in_a_context_says_when_there_is_none() {
    let mut surprises = Surprises::default();
    for entry in entries() {
        let mut scene = Scene::ready();
        let arguments = scene.right_arguments(&entry);
        scene.must("cuCtxSetCurrent", &[0]);
        let expected = match entry.needs {
            Needs::Nothing | Needs::Driver => entry.answer,
            Needs::Current | Needs::Context => INVALID_CONTEXT,
        };
        surprises.check(entry.name, scene.call(entry.name, &arguments), expected);
    }
}

#[test]
fn what_works_in_a_context_says_when_it_is_gone() {
    let mut surprises = Surprises::default();
    for entry in entries().filter(|entry| entry.needs == Needs::Context) {
        let mut scene = Scene::ready();
        let arguments = scene.right_arguments(&entry);
        scene.must("cuDevicePrimaryCtxReset_v2", &[0]);
        let found = scene.call(entry.name, &arguments);
        surprises.check(entry.name, found, CONTEXT_IS_DESTROYED);
    }
}

#[test]
fn after_a_fault_everything_in_the_context_answers_with_it() {
    let mut surprises = Surprises::default();
    for entry in entries() {
        let mut scene = Scene::ready();
        let arguments = scene.right_arguments(&entry);
        scene.lose_the_device();
        let expected = match entry.needs {
            Needs::Context => ILLEGAL_ADDRESS,
            _ => entry.answer,
        };
        surprises.check(entry.name, scene.call(entry.name, &arguments), expected);
    }
}

/// Calls every function with zeros only, in every state of the process. Null pointers must not be dereferenced.
#[test]
fn no_function_follows_a_null_pointer() {
    for entry in entries() {
        let states: [fn() -> Scene; 3] = [Scene::new, Scene::initialised, Scene::ready];
        for state in states {
            let mut scene = state();
            let found = scene.call(entry.name, &vec![0; entry.arguments.len()]);
            assert!(
                code::name(found).is_some(),
                "{} answered {found}",
                entry.name
            );
        }
    }
}

/// Combinations of arguments that are invalid although each argument is valid.
#[test]
fn wrong_combinations_get_the_documented_error() {
    const INVALID_VALUE: u32 = code::Code::INVALID_VALUE.0;
    const INVALID_HANDLE: u32 = code::Code::INVALID_HANDLE.0;
    let mut surprises = Surprises::default();

    let mut scene = Scene::ready();
    let event = scene.right(Argument::Event);
    let odd = scene.right(Argument::Memory) + 1;
    surprises.check(
        "the time since an event that was never recorded",
        scene.call("cuEventElapsedTime_v2", &[scene.place(), event, event]),
        INVALID_HANDLE,
    );
    for (name, width) in [("cuMemsetD16_v2", 2), ("cuMemsetD32_v2", 4)] {
        surprises.check(
            &format!("{name} at an address that is no multiple of {width}"),
            scene.call(name, &[odd, 0, 4]),
            INVALID_VALUE,
        );
    }
    surprises.check(
        "freeing the middle of an allocation",
        scene.call("cuMemFree_v2", &[odd]),
        INVALID_VALUE,
    );
    surprises.check(
        "destroying the primary context",
        {
            let primary = scene.primary();
            scene.call("cuCtxDestroy_v2", &[primary])
        },
        INVALID_CONTEXT,
    );
    surprises.check(
        "destroying the default pool",
        {
            let place = scene.place();
            scene.must("cuDeviceGetDefaultMemPool", &[place, 0]);
            let pool = scene.answer();
            scene.call("cuMemPoolDestroy", &[pool])
        },
        INVALID_VALUE,
    );
    for (name, arguments) in [
        ("cuMemsetD2D8_v2", vec![odd, 0, 0, 0, u64::MAX]),
        ("cuMemsetD2D8_v2", vec![odd, 64, 0, 0, u64::MAX]),
    ] {
        surprises.check(
            &format!("{name} without a width"),
            scene.call(name, &arguments),
            0,
        );
    }
    let [freed, destination] = [scene.stale(Argument::Memory), scene.right(Argument::Memory)];
    surprises.check(
        "copying from freed memory to anywhere",
        scene.call("cuMemcpy", &[destination, freed, 16]),
        INVALID_VALUE,
    );
    let function = scene.right(Argument::Function);
    let parameters = scene.right(Argument::Parameters);
    surprises.check(
        "capturing the legacy stream",
        scene.call("cuStreamBeginCapture_v2", &[0, 0]),
        code::Code::STREAM_CAPTURE_UNSUPPORTED.0,
    );
    surprises.check(
        "a launch with both forms of parameters",
        scene.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 32, 1, 1, 0, 0, parameters, parameters],
        ),
        INVALID_VALUE,
    );
    surprises.check(
        "a block of more threads than a block has",
        scene.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 64, 32, 1, 0, 0, parameters, 0],
        ),
        INVALID_VALUE,
    );
    surprises.check(
        "a cooperative launch that does not fit the device",
        scene.call(
            "cuLaunchCooperativeKernel",
            &[function, 1 << 20, 1, 1, 1024, 1, 1, 0, 0, parameters],
        ),
        code::Code::COOPERATIVE_LAUNCH_TOO_LARGE.0,
    );
    let (event, stream) = (scene.right(Argument::Event), scene.right(Argument::Stream));
    scene.enter_another_context();
    surprises.check(
        "recording an event of another context",
        scene.call("cuEventRecord", &[event, 0]),
        INVALID_HANDLE,
    );
    surprises.check(
        "waiting for a stream of another context",
        scene.call("cuStreamSynchronize", &[stream]),
        INVALID_HANDLE,
    );
    surprises.check(
        "launching a kernel of another context",
        scene.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 32, 1, 1, 0, 0, parameters, 0],
        ),
        INVALID_HANDLE,
    );
}
