//! Tests of the contract of every exported function, called as C programs call it: the results of a valid call, of a
//! call with each argument invalid in each way, and of calls in each state of the process.
//!
//! `table` lists the arguments of every function, by the types of `entry`; the ways in which an argument can be invalid follow from its type.
//! `test_process` creates valid and invalid arguments. `fuzz` makes random calls in random order.
//!
//! The API trusts its callers in three things, so the tests never violate them: a pointer to host memory that is not
//! null points to as many bytes as the other arguments say, arrays have the length that their counts say, and texts
//! end with NUL.

mod entry;
mod fuzz;
mod graphs;
mod table;
mod test_process;

use std::collections::BTreeSet;

use crate::code;

use super::proc_address;
use entry::{Argument, FunctionContract, Needs};
use table::ENTRIES;
use test_process::{TestProcess, describe};

const NOT_INITIALIZED: u32 = code::Code::NOT_INITIALIZED.0;
const INVALID_CONTEXT: u32 = code::Code::INVALID_CONTEXT.0;
const CONTEXT_IS_DESTROYED: u32 = code::Code::CONTEXT_IS_DESTROYED.0;
const ILLEGAL_ADDRESS: u32 = code::Code::ILLEGAL_ADDRESS.0;

/// All functions of the table, and the unsupported ones.
fn entries() -> impl Iterator<Item = FunctionContract> {
    let unsupported = super::unsupported::FUNCTIONS
        .iter()
        .map(|(name, _)| entry::unsupported(name));
    let listed = ENTRIES.iter().chain(graphs::ENTRIES);
    listed.copied().chain(unsupported)
}

/// Collects unexpected results, so that one run reports all of them.
#[derive(Default)]
struct UnexpectedResults(Vec<String>);

impl UnexpectedResults {
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

impl Drop for UnexpectedResults {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{}", self.0.join("\n"));
        }
    }
}

#[test]
fn the_table_contains_every_exported_function_once() {
    let exported: BTreeSet<&str> = proc_address::table().map(|(name, _)| name).collect();
    let listed: Vec<&str> = entries().map(|entry| entry.name).collect();
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(unique, exported);
    assert_eq!(unique.len(), listed.len(), "a function is listed once");
}

#[test]
fn valid_calls_get_their_result() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries() {
        let mut test_process = TestProcess::ready();
        let arguments = test_process.valid_arguments(&entry);
        unexpected.check(
            entry.name,
            test_process.call(entry.name, &arguments),
            entry.result,
        );
    }
}

#[test]
fn each_invalid_argument_gets_the_documented_error() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries() {
        for (position, argument) in entry.arguments.iter().enumerate() {
            let count = TestProcess::ready().invalid_values(*argument).len();
            for index in 0..count {
                let mut test_process = TestProcess::ready();
                let mut arguments = test_process.valid_arguments(&entry);
                let invalid = test_process.invalid_values(*argument).swap_remove(index);
                arguments[position] = invalid.value;
                let excepted = entry
                    .except
                    .iter()
                    .find(|(at, what, _)| *at == position && *what == invalid.what);
                let expected = excepted.map_or(invalid.code, |(.., code)| *code);
                unexpected.check(
                    &format!(
                        "{} with {} as argument {position}",
                        entry.name, invalid.what
                    ),
                    test_process.call(entry.name, &arguments),
                    expected,
                );
                unexpected.check(
                    &format!("a valid call after {} with {}", entry.name, invalid.what),
                    test_process.call("cuCtxGetCurrent", &[test_process.result_address()]),
                    0,
                );
            }
        }
    }
}

#[test]
fn only_listed_functions_work_before_initialisation() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries() {
        let mut test_process = TestProcess::new();
        let arguments = vec![0; entry.arguments.len()];
        let found = test_process.call(entry.name, &arguments);
        if entry.needs == Needs::Nothing {
            unexpected.check(entry.name, u32::from(found == NOT_INITIALIZED), 0);
        } else {
            unexpected.check(entry.name, found, NOT_INITIALIZED);
        }
        assert!(
            code::name(found).is_some(),
            "{} answered {found}",
            entry.name
        );
    }
}

#[test]
fn functions_that_need_a_context_fail_without_one() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries() {
        let mut test_process = TestProcess::ready();
        let arguments = test_process.valid_arguments(&entry);
        test_process.call_ok("cuCtxSetCurrent", &[0]);
        let expected = match entry.needs {
            Needs::Nothing | Needs::Driver => entry.result,
            Needs::Current | Needs::Context => INVALID_CONTEXT,
        };
        unexpected.check(
            entry.name,
            test_process.call(entry.name, &arguments),
            expected,
        );
    }
}

#[test]
fn functions_that_need_a_context_fail_after_its_destruction() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries().filter(|entry| entry.needs == Needs::Context) {
        let mut test_process = TestProcess::ready();
        let arguments = test_process.valid_arguments(&entry);
        test_process.call_ok("cuDevicePrimaryCtxReset_v2", &[0]);
        let found = test_process.call(entry.name, &arguments);
        unexpected.check(entry.name, found, CONTEXT_IS_DESTROYED);
    }
}

#[test]
fn after_a_fault_every_function_of_the_context_returns_its_error() {
    let mut unexpected = UnexpectedResults::default();
    for entry in entries() {
        let mut test_process = TestProcess::ready();
        let arguments = test_process.valid_arguments(&entry);
        test_process.corrupt_context();
        let expected = match entry.needs {
            Needs::Context => ILLEGAL_ADDRESS,
            _ => entry.result,
        };
        unexpected.check(
            entry.name,
            test_process.call(entry.name, &arguments),
            expected,
        );
    }
}

/// Calls every function with zeros only, in every state of the process. Null pointers must not be dereferenced.
#[test]
fn no_function_dereferences_a_null_pointer() {
    for entry in entries() {
        let states: [fn() -> TestProcess; 3] = [
            TestProcess::new,
            TestProcess::initialised,
            TestProcess::ready,
        ];
        for state in states {
            let mut test_process = state();
            let found = test_process.call(entry.name, &vec![0; entry.arguments.len()]);
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
fn invalid_combinations_get_the_documented_error() {
    const INVALID_VALUE: u32 = code::Code::INVALID_VALUE.0;
    const INVALID_HANDLE: u32 = code::Code::INVALID_HANDLE.0;
    let mut unexpected = UnexpectedResults::default();

    let mut test_process = TestProcess::ready();
    let event = test_process.valid(Argument::Event);
    let odd = test_process.valid(Argument::Memory) + 1;
    unexpected.check(
        "the time since an event that was never recorded",
        test_process.call(
            "cuEventElapsedTime_v2",
            &[test_process.result_address(), event, event],
        ),
        INVALID_HANDLE,
    );
    for (name, width) in [("cuMemsetD16_v2", 2), ("cuMemsetD32_v2", 4)] {
        unexpected.check(
            &format!("{name} at an address that is no multiple of {width}"),
            test_process.call(name, &[odd, 0, 4]),
            INVALID_VALUE,
        );
    }
    unexpected.check(
        "freeing the middle of an allocation",
        test_process.call("cuMemFree_v2", &[odd]),
        INVALID_VALUE,
    );
    unexpected.check(
        "destroying the primary context",
        {
            let primary = test_process.primary();
            test_process.call("cuCtxDestroy_v2", &[primary])
        },
        INVALID_CONTEXT,
    );
    unexpected.check(
        "destroying the default pool",
        {
            let address = test_process.result_address();
            test_process.call_ok("cuDeviceGetDefaultMemPool", &[address, 0]);
            let pool = test_process.result();
            test_process.call("cuMemPoolDestroy", &[pool])
        },
        INVALID_VALUE,
    );
    for (name, arguments) in [
        ("cuMemsetD2D8_v2", vec![odd, 0, 0, 0, u64::MAX]),
        ("cuMemsetD2D8_v2", vec![odd, 64, 0, 0, u64::MAX]),
    ] {
        unexpected.check(
            &format!("{name} without a width"),
            test_process.call(name, &arguments),
            0,
        );
    }
    let [freed, destination] = [
        test_process.stale(Argument::Memory),
        test_process.valid(Argument::Memory),
    ];
    unexpected.check(
        "copying from freed memory to anywhere",
        test_process.call("cuMemcpy", &[destination, freed, 16]),
        INVALID_VALUE,
    );
    let function = test_process.valid(Argument::Function);
    let parameters = test_process.valid(Argument::Parameters);
    unexpected.check(
        "capturing the legacy stream",
        test_process.call("cuStreamBeginCapture_v2", &[0, 0]),
        code::Code::STREAM_CAPTURE_UNSUPPORTED.0,
    );
    unexpected.check(
        "a launch with both forms of parameters",
        test_process.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 32, 1, 1, 0, 0, parameters, parameters],
        ),
        INVALID_VALUE,
    );
    unexpected.check(
        "a block of more threads than a block has",
        test_process.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 64, 32, 1, 0, 0, parameters, 0],
        ),
        INVALID_VALUE,
    );
    unexpected.check(
        "a cooperative launch that does not fit the device",
        test_process.call(
            "cuLaunchCooperativeKernel",
            &[function, 1 << 20, 1, 1, 1024, 1, 1, 0, 0, parameters],
        ),
        code::Code::COOPERATIVE_LAUNCH_TOO_LARGE.0,
    );
    let (event, stream) = (
        test_process.valid(Argument::Event),
        test_process.valid(Argument::Stream),
    );
    test_process.create_current_context();
    unexpected.check(
        "recording an event of another context",
        test_process.call("cuEventRecord", &[event, 0]),
        INVALID_HANDLE,
    );
    unexpected.check(
        "waiting for a stream of another context",
        test_process.call("cuStreamSynchronize", &[stream]),
        INVALID_HANDLE,
    );
    unexpected.check(
        "launching a kernel of another context",
        test_process.call(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 32, 1, 1, 0, 0, parameters, 0],
        ),
        INVALID_HANDLE,
    );
}
