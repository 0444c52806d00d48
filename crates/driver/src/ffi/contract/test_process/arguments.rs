//! Valid, stale and invalid values of arguments.

use crate::code;
use crate::ffi::contract::entry::Argument;

use super::{GARBAGE, InvalidValue, PTX, ROOM, TestProcess, address_of, words};

impl TestProcess {
    /// Creates a valid value of an argument.
    pub fn valid(&mut self, argument: Argument) -> u64 {
        match argument {
            Argument::Out | Argument::OptionalOut => self.result_address(),
            Argument::Null | Argument::Device => 0,
            Argument::Number(value) | Argument::Bytes(value) | Argument::Length(value) => value,
            Argument::HostBytes => 64,
            Argument::OneOf(value, _) => value,
            Argument::Host => self.host(),
            Argument::Context | Argument::OptionalContext => {
                let context = self.create_current_context();
                self.call_ok("cuCtxPopCurrent_v2", &[0]);
                context
            }
            Argument::Stream | Argument::CreatedStream => self.create("cuStreamCreate", &[0]),
            Argument::Event => self.create("cuEventCreate", &[0]),
            Argument::Recorded => {
                let event = self.valid(Argument::Event);
                self.call_ok("cuEventRecord", &[event, 0]);
                event
            }
            Argument::Module => {
                let image = self.text(PTX);
                self.create("cuModuleLoadData", &[image])
            }
            Argument::Function => {
                let module = self.valid(Argument::Module);
                let name = self.text("axpy");
                self.create("cuModuleGetFunction", &[module, name])
            }
            Argument::Library => {
                let image = self.text(PTX);
                self.create("cuLibraryLoadData", &[image, 0, 0, 0, 0, 0, 0])
            }
            Argument::Kernel => {
                let library = self.valid(Argument::Library);
                let name = self.text("axpy");
                self.create("cuLibraryGetKernel", &[library, name])
            }
            Argument::Pool => {
                let properties = self.valid(Argument::PoolProperties);
                self.create("cuMemPoolCreate", &[properties])
            }
            Argument::Link => {
                let address = self.result_address();
                self.call_ok("cuLinkCreate_v2", &[0, 0, 0, address]);
                self.result()
            }
            Argument::FilledLink => {
                let link = self.valid(Argument::Link);
                let (image, bytes) = (self.text(PTX), PTX.len() as u64);
                self.call_ok("cuLinkAddData_v2", &[link, 1, image, bytes, 0, 0, 0, 0]);
                link
            }
            Argument::Memory | Argument::Either => self.create("cuMemAlloc_v2", &[ROOM as u64]),
            Argument::Managed => self.create("cuMemAllocManaged", &[ROOM as u64, 1]),
            Argument::Pinned => self.create("cuMemHostAlloc", &[ROOM as u64, 0]),
            Argument::Unregistered => self.own(words(4096)),
            Argument::Registered => {
                let memory = self.valid(Argument::Unregistered);
                self.call_ok("cuMemHostRegister_v2", &[memory, 4096, 0]);
                memory
            }
            Argument::Name(valid, _, _) => self.text(valid),
            Argument::Image => self.text(PTX),
            Argument::Parameters => address_of(&self.parameters),
            Argument::PoolProperties => {
                // Pinned, not shared with other processes, on device 0; the rest of the structure is zero.
                let mut properties = words(88);
                properties[0] = 1;
                properties[1] = 1;
                self.own(properties)
            }
            Argument::MemoryProperties => {
                // Pinned, not shared with other processes, on device 0; the rest of the structure is zero.
                let mut properties = words(32);
                properties[0] = 1;
                properties[1] = 1;
                self.own(properties)
            }
            // Device 0, for reading and writing.
            Argument::Access => self.own(vec![1, 3].into_boxed_slice()),
            Argument::Reserved => self.create("cuMemAddressReserve", &[4 << 20, 0, 0, 0]),
            Argument::Physical => {
                let properties = self.valid(Argument::MemoryProperties);
                self.create("cuMemCreate", &[2 << 20, properties, 0])
            }
            Argument::Mapped => {
                let address = self.valid(Argument::Reserved);
                let memory = self.valid(Argument::Physical);
                self.call_ok("cuMemMap", &[address, 2 << 20, 0, memory, 0]);
                address
            }
            Argument::Rectangle => self.rectangle(),
            Argument::Description => {
                // Grid 1x1x1, block 32x1x1, no shared memory, the default stream, no attributes.
                let mut description = words(64);
                description[0] = 1 | 1 << 32;
                description[1] = 1 | 32 << 32;
                description[2] = 1 | 1 << 32;
                self.own(description)
            }
            Argument::Graph => self.test_graph().graph,
            Argument::InnerGraph => self.test_graph().inner,
            Argument::GraphCopy => {
                let graph = self.test_graph().graph;
                self.create("cuGraphClone", &[graph])
            }
            Argument::AnyNode => self.test_graph().nodes[5],
            Argument::Node(kind) => self.test_graph().nodes[kind as usize],
            Argument::Nodes(kind) => {
                let node = self.test_graph().nodes[kind as usize];
                self.list(node)
            }
            Argument::Executable => self.test_graph().executable,
            Argument::Captured => {
                let stream = self.create("cuStreamCreate", &[1]);
                self.call_ok("cuStreamBeginCapture_v2", &[stream, 2]);
                stream
            }
            Argument::UserObject => {
                let destroy = self.valid(Argument::HostFunction);
                self.create("cuUserObjectCreate", &[0, destroy, 1, 1])
            }
            Argument::KernelParams => {
                // Grid 1x1x1, block 32x1x1, no shared memory; null for the library's kernel and the context after it.
                let function = self.valid(Argument::Function);
                let [grid, between, block] = [1 | 1 << 32, 1 | 32 << 32, 1 | 1 << 32];
                let parameters = address_of(&self.parameters);
                self.own(Box::new([
                    function, grid, between, block, 0, parameters, 0, 0, 0,
                ]))
            }
            Argument::CopyParams => {
                // Two slices of three rows of eight bytes from the host to the device.
                let (host, device) = (self.host(), self.valid(Argument::Memory));
                let side = |kind, host, device| [0, 0, 0, 0, kind, host, device, 0, 0, 16, 4];
                let sides = [side(1, host, 0), side(2, 0, device)].concat();
                self.own([sides, vec![8, 3, 2]].concat().into_boxed_slice())
            }
            Argument::FillParams => {
                let device = self.valid(Argument::Memory);
                self.own(Box::new([device, 0, 7 | 4 << 32, 4, 1]))
            }
            Argument::HostCallParams => {
                let function = self.valid(Argument::HostFunction);
                self.own(Box::new([function, 0]))
            }
            Argument::AnyNodeParams => {
                let function = self.valid(Argument::HostFunction);
                let mut plan = words(256);
                plan[..3].copy_from_slice(&[3, 0, function]);
                self.own(plan)
            }
            Argument::InstantiateParams => self.own(words(32)),
            Argument::Mode => self.own(Box::new([2])),
            Argument::Path => self.text("/dev/null"),
            Argument::Attributes => self.own(vec![2 | 3 << 32].into_boxed_slice()),
            Argument::AttributeBuffers => {
                let address = self.result_address();
                self.own(vec![address; 2].into_boxed_slice())
            }
            Argument::HostFunction => (nothing as extern "C" fn(u64)) as usize as u64,
            Argument::SharedForBlock => (none as extern "C" fn(i32) -> usize) as usize as u64,
        }
    }

    /// Creates a handle or address and makes it invalid.
    pub fn stale(&mut self, argument: Argument) -> u64 {
        let value = match argument {
            Argument::AnyNode => self.create_test_graph().nodes[5],
            Argument::Node(kind) => self.create_test_graph().nodes[kind as usize],
            Argument::Executable => self.create_test_graph().executable,
            Argument::Graph | Argument::InnerGraph => self.create("cuGraphCreate", &[0]),
            other => self.valid(other),
        };
        let undo = match argument {
            Argument::AnyNode | Argument::Node(_) => "cuGraphDestroyNode",
            Argument::Executable => "cuGraphExecDestroy",
            Argument::Graph | Argument::InnerGraph | Argument::GraphCopy => "cuGraphDestroy",
            Argument::Captured => "cuStreamDestroy_v2",
            Argument::UserObject => {
                self.call_ok("cuUserObjectRelease", &[value, 1]);
                return value;
            }
            Argument::Context | Argument::OptionalContext => "cuCtxDestroy_v2",
            Argument::Stream | Argument::CreatedStream => "cuStreamDestroy_v2",
            Argument::Event | Argument::Recorded => "cuEventDestroy_v2",
            Argument::Module => "cuModuleUnload",
            Argument::Library => "cuLibraryUnload",
            Argument::Pool => "cuMemPoolDestroy",
            Argument::Link | Argument::FilledLink => "cuLinkDestroy",
            Argument::Memory | Argument::Managed => "cuMemFree_v2",
            Argument::Pinned => "cuMemFreeHost",
            Argument::Registered => "cuMemHostUnregister",
            Argument::Function => {
                let address = self.result_address();
                self.call_ok("cuFuncGetModule", &[address, value]);
                let module = self.result();
                self.call_ok("cuModuleUnload", &[module]);
                return value;
            }
            Argument::Kernel => {
                let library = self.valid(Argument::Library);
                let name = self.text("axpy");
                let kernel = self.create("cuLibraryGetKernel", &[library, name]);
                self.call_ok("cuLibraryUnload", &[library]);
                return kernel;
            }
            Argument::Reserved => {
                self.call_ok("cuMemAddressFree", &[value, 4 << 20]);
                return value;
            }
            Argument::Mapped => {
                self.call_ok("cuMemUnmap", &[value, 2 << 20]);
                return value;
            }
            Argument::Physical => "cuMemRelease",
            other => panic!("{other:?} does not go stale"),
        };
        self.call_ok(undo, &[value]);
        value
    }

    /// All invalid values of one argument.
    pub fn invalid_values(&mut self, argument: Argument) -> Vec<InvalidValue> {
        const VALUE: u32 = code::Code::INVALID_VALUE.0;
        const HANDLE: u32 = code::Code::INVALID_HANDLE.0;
        const CONTEXT: u32 = code::Code::INVALID_CONTEXT.0;
        const DEVICE: u32 = code::Code::INVALID_DEVICE.0;
        const REGISTERED: u32 = code::Code::HOST_MEMORY_NOT_REGISTERED.0;
        let invalid = |what, value, code| InvalidValue { what, value, code };
        let null = |code| invalid("null", 0, code);
        match argument {
            Argument::Out
            | Argument::Host
            | Argument::Parameters
            | Argument::Unregistered
            | Argument::PoolProperties
            | Argument::MemoryProperties
            | Argument::Access
            | Argument::Rectangle
            | Argument::Description
            | Argument::Attributes
            | Argument::AttributeBuffers
            | Argument::Either
            | Argument::KernelParams
            | Argument::CopyParams
            | Argument::FillParams
            | Argument::HostCallParams
            | Argument::AnyNodeParams
            | Argument::InstantiateParams
            | Argument::Mode
            | Argument::HostFunction => vec![null(VALUE)],
            Argument::Nodes(kind) => {
                let stale = self.stale(Argument::Node(kind));
                vec![
                    null(VALUE),
                    invalid("an array of garbage", self.list(GARBAGE), VALUE),
                    invalid("an array of a destroyed node", self.list(stale), VALUE),
                ]
            }
            Argument::Path => vec![
                null(VALUE),
                invalid(
                    "no such folder",
                    self.text("/no/such/folder/graph"),
                    code::Code::OPERATING_SYSTEM.0,
                ),
            ],
            Argument::Graph
            | Argument::InnerGraph
            | Argument::GraphCopy
            | Argument::AnyNode
            | Argument::Node(_)
            | Argument::UserObject
            | Argument::Executable => {
                let mut invalid_values = vec![
                    null(VALUE),
                    invalid("garbage", GARBAGE, VALUE),
                    invalid("a destroyed one", self.stale(argument), VALUE),
                    invalid("a stream", self.valid(Argument::Stream), VALUE),
                ];
                if matches!(argument, Argument::Node(_)) {
                    let other = self.valid(Argument::AnyNode);
                    invalid_values.push(invalid("a node of another kind", other, VALUE));
                }
                invalid_values
            }
            Argument::Captured => {
                const STATE: u32 = code::Code::ILLEGAL_STATE.0;
                let free = self.valid(Argument::Stream);
                vec![
                    invalid("the legacy stream", 0, STATE),
                    invalid("a stream that is not captured", free, STATE),
                    invalid("garbage", GARBAGE, HANDLE),
                    invalid("a destroyed one", self.stale(argument), HANDLE),
                ]
            }
            Argument::OptionalOut
            | Argument::Null
            | Argument::Number(_)
            | Argument::Bytes(_)
            | Argument::Length(_)
            | Argument::SharedForBlock => Vec::new(),
            Argument::HostBytes => vec![
                invalid("no bytes", 0, VALUE),
                invalid("more than there is", 1 << 60, code::Code::OUT_OF_MEMORY.0),
                invalid("the largest number", u64::MAX, code::Code::OUT_OF_MEMORY.0),
            ],
            Argument::OneOf(_, invalid_values) => invalid_values
                .iter()
                .map(|&(value, code)| invalid(number_text(value), value, code))
                .collect(),
            Argument::Device => vec![
                invalid("a second device", 1, DEVICE),
                invalid("device -1", u64::from(u32::MAX), DEVICE),
            ],
            Argument::Name(_, bad, code) => {
                let mut invalid_values = vec![null(VALUE)];
                if let Some(bad) = bad {
                    invalid_values.push(invalid("another name", self.text(bad), code));
                }
                invalid_values
            }
            Argument::Image => vec![
                null(VALUE),
                invalid(
                    "machine code",
                    self.text("\x7fELF\x02\x01\x01"),
                    code::Code::NO_BINARY_FOR_GPU.0,
                ),
                invalid("no text", self.text(""), code::Code::INVALID_IMAGE.0),
                invalid(
                    "no PTX",
                    self.text("int main() {}"),
                    code::Code::INVALID_PTX.0,
                ),
                invalid(
                    "PTX of another GPU",
                    self.text(".version 8.0\n.target sm_100\n.address_size 64\n"),
                    code::Code::NO_BINARY_FOR_GPU.0,
                ),
            ],
            Argument::Memory
            | Argument::Managed
            | Argument::Reserved
            | Argument::Physical
            | Argument::Mapped => vec![
                null(VALUE),
                invalid("garbage", GARBAGE, VALUE),
                invalid("freed memory", self.stale(argument), VALUE),
                invalid("a handle", self.valid(Argument::Event), VALUE),
            ],
            Argument::Pinned => vec![
                null(VALUE),
                invalid("garbage", GARBAGE, VALUE),
                invalid("freed memory", self.stale(argument), VALUE),
                invalid("device memory", self.valid(Argument::Memory), VALUE),
            ],
            Argument::Registered => vec![
                null(REGISTERED),
                invalid("garbage", GARBAGE, REGISTERED),
                invalid("given back", self.stale(argument), REGISTERED),
                invalid("allocated memory", self.valid(Argument::Pinned), REGISTERED),
            ],
            Argument::Context | Argument::OptionalContext => {
                let mut invalid_values = vec![
                    invalid("garbage", GARBAGE, CONTEXT),
                    invalid("a destroyed one", self.stale(argument), CONTEXT),
                    invalid("a stream", self.valid(Argument::Stream), CONTEXT),
                ];
                if argument == Argument::Context {
                    invalid_values.push(null(CONTEXT));
                }
                invalid_values
            }
            Argument::Pool => vec![
                null(VALUE),
                invalid("garbage", GARBAGE, VALUE),
                invalid("a destroyed one", self.stale(argument), VALUE),
                invalid("a stream", self.valid(Argument::Stream), VALUE),
            ],
            Argument::Stream => vec![
                invalid("garbage", GARBAGE, HANDLE),
                invalid("a destroyed one", self.stale(argument), HANDLE),
                invalid("an event", self.valid(Argument::Event), HANDLE),
            ],
            Argument::CreatedStream
            | Argument::Event
            | Argument::Recorded
            | Argument::Module
            | Argument::Function
            | Argument::Library
            | Argument::Kernel
            | Argument::Link
            | Argument::FilledLink => vec![
                null(HANDLE),
                invalid("garbage", GARBAGE, HANDLE),
                invalid("a destroyed one", self.stale(argument), HANDLE),
                invalid("a context", self.primary(), HANDLE),
            ],
        }
    }

    /// Parameters of a copy of three rows of eight bytes from the host to the device (`CUDA_MEMCPY2D`).
    fn rectangle(&mut self) -> u64 {
        let (host, device) = (self.host(), self.valid(Argument::Memory));
        let side = |kind: u64, host: u64, device: u64| [0, 0, kind, host, device, 0, 16];
        let sides = [side(1, host, 0), side(2, 0, device)].concat();
        self.own([sides, vec![8, 3]].concat().into_boxed_slice())
    }
}

/// A number as text in messages; only the numbers that occur.
fn number_text(value: u64) -> &'static str {
    match value {
        0 => "0",
        1 => "1",
        value if value == u64::from(u32::MAX) => "-1",
        u64::MAX => "the largest number",
        value if value < 1 << 16 => "another number",
        _ => "too large a number",
    }
}

extern "C" fn nothing(_: u64) {}

/// A caller's function that itself calls the driver.
extern "C" fn none(_threads: i32) -> usize {
    let function: extern "C" fn(crate::ffi::pointer::Out<u64>) -> u32 =
        crate::ffi::context::cuCtxGetCurrent;
    let mut context = 0_u64;
    // SAFETY: an `Out` is a pointer.
    let address =
        unsafe { std::mem::transmute::<*mut u64, crate::ffi::pointer::Out<u64>>(&raw mut context) };
    assert_eq!(function(address), 0);
    0
}
