//! The description of a function for the contract tests: its arguments, the state that it requires, and its result.

use crate::code::Code;

/// The state that a function requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// None: it also works before initialisation.
    Nothing,
    /// An initialised driver.
    Driver,
    /// A context on the calling thread's stack, in any state.
    Current,
    /// A current context that exists and had no fault.
    Context,
}

/// The type of an argument, which determines its invalid values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// An address for a result.
    Out,
    /// An address for an optional result.
    OptionalOut,
    /// A pointer that is null in these tests.
    Null,
    /// A number of which all values are valid, as far as this function alone can tell.
    Number(u64),
    /// A size of a buffer in bytes: trusted if the buffer is the host's.
    Bytes(u64),
    /// The length of an array that another argument points to: trusted.
    Length(u64),
    /// A number of bytes of host memory to allocate.
    HostBytes,
    /// A valid number, and invalid ones with the error that each of them gets.
    OneOf(u64, &'static [(u64, u32)]),
    /// The ordinal of a device.
    Device,
    /// Host memory.
    Host,
    /// A context.
    Context,
    /// A context, or null for the current one.
    OptionalContext,
    /// A stream, or null for the default one.
    Stream,
    /// A stream that was created.
    CreatedStream,
    /// An event.
    Event,
    /// An event that was recorded.
    Recorded,
    /// A module.
    Module,
    /// A kernel of a module.
    Function,
    /// A library.
    Library,
    /// A kernel of a library.
    Kernel,
    /// A memory pool.
    Pool,
    /// A link without parts.
    Link,
    /// A link with a part.
    FilledLink,
    /// Device memory.
    Memory,
    /// Device or host memory, distinguished by the address.
    Either,
    /// Managed memory.
    Managed,
    /// Page-locked memory that the driver allocated.
    Pinned,
    /// Host memory that was registered.
    Registered,
    /// Host memory that was not registered.
    Unregistered,
    /// A valid text, and perhaps an invalid one, with its error.
    Name(&'static str, Option<&'static str>, u32),
    /// An image to load.
    Image,
    /// The parameters of a launch.
    Parameters,
    /// Properties of a memory pool.
    PoolProperties,
    /// Properties of physical memory.
    MemoryProperties,
    /// Access rights of a mapping.
    Access,
    /// A reserved range of two granules without mappings.
    Reserved,
    /// Physical memory of one granule that is not mapped.
    Physical,
    /// Addresses to which physical memory of one granule is mapped.
    Mapped,
    /// Parameters of a two-dimensional copy.
    Rectangle,
    /// The configuration of a launch with attributes.
    Description,
    /// An array with two attribute numbers.
    Attributes,
    /// An array with two addresses for attribute values.
    AttributeBuffers,
    /// A graph with a node of each kind.
    Graph,
    /// A graph with the same topology as the child graph of the node of kind 4.
    InnerGraph,
    /// A copy of the graph.
    GraphCopy,
    /// A node of the graph of any kind.
    AnyNode,
    /// A node of the kind with this number.
    Node(u32),
    /// An array that holds the node of the kind with this number.
    Nodes(u32),
    /// An executable of the graph.
    Executable,
    /// A user object to which the caller holds one reference.
    UserObject,
    /// A stream that is being captured.
    Captured,
    /// Parameters of a kernel node.
    KernelParams,
    /// Parameters of a copy node.
    CopyParams,
    /// Parameters of a fill node.
    FillParams,
    /// Parameters of a host call node.
    HostCallParams,
    /// Parameters of a node with its kind as the first field.
    AnyNodeParams,
    /// Parameters of an instantiation.
    InstantiateParams,
    /// The address of a capture mode.
    Mode,
    /// The path of a file to write.
    Path,
    /// A host function.
    HostFunction,
    /// A function from block size to shared memory, or null.
    SharedForBlock,
}

/// The test description of one function.
#[derive(Debug, Clone, Copy)]
pub struct FunctionContract {
    pub name: &'static str,
    pub needs: Needs,
    pub arguments: &'static [Argument],
    /// The result of a valid call.
    pub result: u32,
    /// Invalid arguments with another result than their type's: index of the argument, description of the value, and
    /// result.
    pub except: &'static [(usize, &'static str, u32)],
}

impl FunctionContract {
    pub const fn returns(mut self, code: u32) -> Self {
        self.result = code;
        self
    }

    pub const fn except(mut self, except: &'static [(usize, &'static str, u32)]) -> Self {
        self.except = except;
        self
    }
}

const fn row(name: &'static str, needs: Needs, arguments: &'static [Argument]) -> FunctionContract {
    FunctionContract {
        name,
        needs,
        arguments,
        result: 0,
        except: &[],
    }
}

pub const fn anytime(name: &'static str, arguments: &'static [Argument]) -> FunctionContract {
    row(name, Needs::Nothing, arguments)
}

pub const fn driver(name: &'static str, arguments: &'static [Argument]) -> FunctionContract {
    row(name, Needs::Driver, arguments)
}

pub const fn current(name: &'static str, arguments: &'static [Argument]) -> FunctionContract {
    row(name, Needs::Current, arguments)
}

pub const fn context(name: &'static str, arguments: &'static [Argument]) -> FunctionContract {
    row(name, Needs::Context, arguments)
}

/// A function of hardware that the emulated GPU does not have.
pub const fn unsupported(name: &'static str) -> FunctionContract {
    context(name, &[]).returns(Code::NOT_SUPPORTED.0)
}
