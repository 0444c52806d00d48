//! Node parameters in the memory layout of the API, with conversions from and to [`Work`].

use crate::code::Code;
use crate::ffi::launch;
use crate::ffi::memory::BoxCopy;
use crate::ffi::pointer::{Host, In};
use crate::handle::{EventHandle, FunctionHandle, GraphHandle, NodeHandle};
use crate::state::{Dimensions, Driver, FillWork, HostWork, KernelWork, Work};

/// A kernel launch (`CUDA_KERNEL_NODE_PARAMS_v1`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelParams {
    function: Host,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    values: In<Host>,
    extra: In<u64>,
}

/// A kernel launch with a library's kernel and a context, either of which may be null (`CUDA_KERNEL_NODE_PARAMS_v2`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct KernelParamsV2 {
    launch: KernelParams,
    kernel: Host,
    context: Host,
}

impl From<KernelParams> for KernelParamsV2 {
    fn from(launch: KernelParams) -> Self {
        Self {
            launch,
            kernel: Host::at_address(0),
            context: Host::at_address(0),
        }
    }
}

impl KernelParamsV2 {
    /// The work of the node. Attributes are kept from `before`.
    pub fn work(&self, driver: &Driver, before: Option<&Work>) -> Result<Work, Code> {
        let KernelParams {
            function,
            grid,
            block,
            dynamic_shared,
            values,
            extra,
        } = self.launch;
        let named = if function.address() == 0 {
            self.kernel
        } else {
            function
        };
        let function = FunctionHandle(named.address());
        let (cooperative, persisting) = match before {
            Some(Work::Kernel(before)) => (before.cooperative, before.persisting.clone()),
            _ => (false, 0..0),
        };
        Ok(Work::Kernel(KernelWork {
            function,
            dimensions: Dimensions { grid, block },
            dynamic_shared,
            parameters: launch::parameter_block(driver, function, values, extra)?,
            cooperative,
            persisting,
        }))
    }

    /// The launch of a node, with the addresses of its parameters.
    pub fn of(driver: &mut Driver, node: NodeHandle) -> Result<Self, Code> {
        let values = driver.parameter_addresses(node)?;
        let Work::Kernel(work) = driver.work_of(node)? else {
            return Err(Code::INVALID_VALUE);
        };
        let launch = KernelParams {
            function: Host::at_address(work.function.0),
            grid: work.dimensions.grid,
            block: work.dimensions.block,
            dynamic_shared: work.dynamic_shared,
            values: In::at_address(values),
            extra: In::at_address(0),
        };
        Ok(launch.into())
    }

    /// The fields of the first version.
    pub fn without_context(self) -> KernelParams {
        self.launch
    }
}

/// A fill (`CUDA_MEMSET_NODE_PARAMS`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct FillParams {
    address: u64,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

impl FillParams {
    /// The work of the node.
    pub fn work(&self) -> Work {
        Work::Fill(FillWork {
            address: self.address,
            pitch: self.pitch,
            value: self.value,
            element: self.element,
            width: self.width,
            height: self.height,
        })
    }

    /// The fill of a node.
    pub fn of(work: &Work) -> Result<Self, Code> {
        let Work::Fill(fill) = work else {
            return Err(Code::INVALID_VALUE);
        };
        Ok(Self {
            address: fill.address,
            pitch: fill.pitch,
            value: fill.value,
            element: fill.element,
            width: fill.width,
            height: fill.height,
        })
    }
}

/// A host call (`CUDA_HOST_NODE_PARAMS`).
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct HostCallParams {
    function: u64,
    data: u64,
}

impl HostCallParams {
    /// The work of the node.
    pub fn work(self) -> Work {
        Work::Host(HostWork {
            function: self.function,
            data: self.data,
        })
    }

    /// The host call of a node.
    pub fn of(work: &Work) -> Result<Self, Code> {
        let Work::Host(HostWork { function, data }) = *work else {
            return Err(Code::INVALID_VALUE);
        };
        Ok(Self { function, data })
    }
}

/// Parameters of a node of any kind (`CUgraphNodeParams`): the kind, and 232 bytes whose layout depends on it.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct AnyNodeParams(In<u32>);

/// Byte offset of the part that depends on the kind.
const KIND_PART: usize = 16;
/// Byte offset of a copy's parameters in that part: after flags, padding and a context.
const COPY_PART: usize = 16;

impl AnyNodeParams {
    /// Reads the work of the node.
    pub fn work(self, driver: &Driver, before: Option<&Work>) -> Result<Work, Code> {
        let own = Host::at_address(self.0.address().wrapping_add(KIND_PART as u64));
        let handle = || In::<u64>::at_address(own.address()).get();
        Ok(match self.0.get()? {
            0 => {
                let launch: In<KernelParamsV2> = In::at_address(own.address());
                return launch.get()?.work(driver, before);
            }
            1 => {
                let plan: In<BoxCopy> = In::at_address(own.offset(COPY_PART).address());
                Work::Copy(plan.get()?.work()?)
            }
            2 => In::<FillParams>::at_address(own.address()).get()?.work(),
            3 => In::<HostCallParams>::at_address(own.address())
                .get()?
                .work(),
            4 => Work::Child(GraphHandle(handle()?)),
            5 => Work::Empty,
            6 => Work::Wait(EventHandle(handle()?)),
            7 => Work::Record(EventHandle(handle()?)),
            8..=14 => return Err(Code::NOT_SUPPORTED),
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}
