//! A process with a fresh driver, which creates valid and invalid arguments for calls.

mod arguments;

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{LazyLock, MutexGuard};

use crate::code;
use crate::ffi::{proc_address, process};
use crate::state::Driver;

use super::entry::{Argument, FunctionContract};

/// Device memory of the driver in bytes.
pub const MEMORY: u64 = 64 << 20;
/// Size of every buffer in bytes, on the host and on the device.
pub const ROOM: usize = 64 << 10;
/// Most parameters of a function.
const MAX_ARGUMENTS: usize = 12;
/// The kernels that the tests load.
pub const PTX: &str = include_str!("../../../tests/ptx/basics.ptx");

/// A number that is neither a handle nor an address.
pub const GARBAGE: u64 = 0xdead_beef_0bad_f00d & !7;

type Function =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Addresses of the functions as numbers, so that threads may share them.
static FUNCTIONS: LazyLock<HashMap<&'static str, usize>> = LazyLock::new(|| {
    proc_address::table()
        .map(|(name, function)| (name, function as usize))
        .collect()
});

/// An invalid argument and the error that it must get.
#[derive(Debug, Clone, Copy)]
pub struct InvalidValue {
    pub what: &'static str,
    pub value: u64,
    pub code: u32,
}

/// A process with a driver in a known state. No other such process exists at the same time.
pub struct TestProcess {
    _guard: MutexGuard<'static, ()>,
    result: Box<[u64]>,
    host: Box<[u64]>,
    texts: HashMap<&'static str, CString>,
    parameters: Box<[u64]>,
    owned: Vec<Box<[u64]>>,
    test_graph: Option<TestGraph>,
}

/// A graph with a node of each kind, and its executable.
#[derive(Debug, Clone, Copy)]
struct TestGraph {
    graph: u64,
    inner: u64,
    /// Nodes by the number of their kind.
    nodes: [u64; 8],
    executable: u64,
}

/// The name of an error code, or the number if it has none.
pub fn describe(number: u32) -> String {
    code::name(number).map_or_else(
        || format!("{number}"),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn words(bytes: usize) -> Box<[u64]> {
    vec![0; bytes / 8].into_boxed_slice()
}

fn address_of(words: &[u64]) -> u64 {
    words.as_ptr().expose_provenance() as u64
}

impl TestProcess {
    /// Creates the state before initialisation.
    pub fn new() -> Self {
        let values = words(64);
        let parameters = vec![address_of(&values); 8].into_boxed_slice();
        Self {
            _guard: process::replace_driver(MEMORY),
            result: words(ROOM),
            host: words(ROOM),
            texts: HashMap::new(),
            parameters,
            owned: vec![values],
            test_graph: None,
        }
    }

    /// Creates the state after initialisation, without a context.
    pub fn initialised() -> Self {
        let mut test_process = Self::new();
        test_process.call_ok("cuInit", &[0]);
        test_process
    }

    /// Creates the state with the primary context current.
    pub fn ready() -> Self {
        let mut test_process = Self::initialised();
        let context = test_process.primary();
        test_process.call_ok("cuCtxSetCurrent", &[context]);
        test_process
    }

    /// The primary context, retained once more.
    pub fn primary(&mut self) -> u64 {
        self.create("cuDevicePrimaryCtxRetain", &[0])
    }

    /// Creates a context and makes it current.
    pub fn create_current_context(&mut self) -> u64 {
        self.create("cuCtxCreate_v2", &[0, 0])
    }

    /// Address that functions write their results to.
    pub fn result_address(&self) -> u64 {
        address_of(&self.result)
    }

    /// The result that the last function wrote.
    pub fn result(&self) -> u64 {
        // SAFETY: the value's own memory; volatile, because it was written through a number.
        unsafe { std::ptr::read_volatile(self.result.as_ptr()) }
    }

    /// Host memory of [`ROOM`] bytes.
    pub fn host(&self) -> u64 {
        address_of(&self.host)
    }

    /// Calls a function by name.
    pub fn call(&mut self, name: &str, arguments: &[u64]) -> u32 {
        let function = FUNCTIONS[name];
        let mut all = [0; MAX_ARGUMENTS];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = all;
        // SAFETY: the functions take only integers and pointers. In this ABI a caller may pass more and wider
        // arguments than a function takes. Pointers to host memory are null or point to this value's own memory.
        unsafe {
            let function: Function =
                std::mem::transmute(std::ptr::with_exposed_provenance::<c_void>(function));
            function(a, b, c, d, e, f, g, h, i, j, k, l)
        }
    }

    /// Calls a function and expects success.
    pub fn call_ok(&mut self, name: &str, arguments: &[u64]) {
        let found = self.call(name, arguments);
        assert_eq!(found, 0, "{name}: {}", describe(found));
    }

    /// Calls a function, expects success, and returns the value that it wrote to its first argument.
    fn create(&mut self, name: &str, rest: &[u64]) -> u64 {
        let arguments = [&[self.result_address()], rest].concat();
        self.call_ok(name, &arguments);
        self.result()
    }

    /// A NUL-terminated text that lives as long as this value.
    pub fn text(&mut self, text: &'static str) -> u64 {
        let owned = self
            .texts
            .entry(text)
            .or_insert_with(|| CString::new(text).expect("texts of tests hold no NUL"));
        owned.as_ptr().expose_provenance() as u64
    }

    /// Arguments of a valid call.
    pub fn valid_arguments(&mut self, entry: &FunctionContract) -> Vec<u64> {
        let arguments = entry.arguments.iter();
        arguments.map(|argument| self.valid(*argument)).collect()
    }

    /// An array with one handle.
    pub fn list(&mut self, handle: u64) -> u64 {
        self.own(Box::new([handle]))
    }

    /// The graph of this process, created at the first use.
    fn test_graph(&mut self) -> TestGraph {
        match self.test_graph {
            Some(test_graph) => test_graph,
            None => {
                let test_graph = self.create_test_graph();
                self.test_graph = Some(test_graph);
                test_graph
            }
        }
    }

    fn create_test_graph(&mut self) -> TestGraph {
        let graph = self.create("cuGraphCreate", &[0]);
        let inner = self.create("cuGraphCreate", &[0]);
        let [kernel, copy, fill, call, event] = [
            Argument::KernelParams,
            Argument::CopyParams,
            Argument::FillParams,
            Argument::HostCallParams,
            Argument::Event,
        ]
        .map(|plan| self.valid(plan));
        let nodes = [
            ("cuGraphAddKernelNode_v2", kernel),
            ("cuGraphAddMemcpyNode", copy),
            ("cuGraphAddMemsetNode", fill),
            ("cuGraphAddHostNode", call),
            ("cuGraphAddChildGraphNode", inner),
            ("cuGraphAddEmptyNode", 0),
            ("cuGraphAddEventWaitNode", event),
            ("cuGraphAddEventRecordNode", event),
        ]
        .map(|(name, plan)| self.create(name, &[graph, 0, 0, plan, 0]));
        let executable = self.create("cuGraphInstantiateWithFlags", &[graph, 0]);
        TestGraph {
            graph,
            inner,
            nodes,
            executable,
        }
    }

    fn own(&mut self, words: Box<[u64]>) -> u64 {
        let address = address_of(&words);
        self.owned.push(words);
        address
    }

    /// Limits launches to this many thread instructions.
    pub fn limit_launches(&self, budget: u64) {
        self.with_driver(|driver| driver.settings_mut().budget = Some(budget));
    }

    /// Numbers of objects that live in contexts: allocations, events, streams, modules, functions.
    pub fn objects(&self) -> [usize; 5] {
        self.with_driver(|driver| driver.objects())
    }

    /// Numbers of graphs, nodes, executables and captures.
    pub fn graph_objects(&self) -> [usize; 4] {
        self.with_driver(|driver| driver.graph_objects())
    }

    /// Numbers of libraries and mappings, and bytes of device memory in use.
    pub fn outside_contexts(&self) -> (usize, usize, u64) {
        self.with_driver(|driver| {
            let used = driver.machine().memory_in_use().0;
            (driver.library_count(), driver.mapping_count(), used)
        })
    }

    fn with_driver<R>(&self, question: impl FnOnce(&mut Driver) -> R) -> R {
        process::with_driver("a test's question", question).expect("the driver serves")
    }

    /// Runs a kernel that writes to an invalid address, and receives its error.
    pub fn corrupt_context(&mut self) {
        let module = self.valid(Argument::Module);
        let name = self.text("astray");
        let function = self.create("cuModuleGetFunction", &[module, name]);
        let memory = self.valid(Argument::Memory);
        let value = self.own(vec![memory].into_boxed_slice());
        let parameters = self.own(vec![value].into_boxed_slice());
        self.call_ok(
            "cuLaunchKernel",
            &[function, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0],
        );
        // A stream of the context may be captured; then it is not possible to wait for the context as a whole.
        let found = self.call("cuStreamSynchronize", &[0]);
        assert_eq!(found, code::Code::ILLEGAL_ADDRESS.0);
    }
}
