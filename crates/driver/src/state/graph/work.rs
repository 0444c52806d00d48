//! The work of graph nodes and streams as plain data: checked when it is recorded, executed at every launch.

use std::ops::Range;

use crate::code::Code;
use crate::handle::{EventHandle, FunctionHandle, GraphHandle, StreamHandle};
use crate::state::{Dimensions, Driver, LaunchRequest};

/// One piece of work of a stream or a graph node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A node without work, which only joins dependencies.
    Empty,
    /// A kernel launch.
    Kernel(KernelWork),
    /// A copy between two locations.
    Copy(CopyWork),
    /// A fill of device memory.
    Fill(FillWork),
    /// A call of a host function.
    Host(HostWork),
    /// All work of another graph, which the node owns.
    Child(GraphHandle),
    /// The recording of an event.
    Record(EventHandle),
    /// A wait for an event.
    Wait(EventHandle),
}

impl Work {
    /// The kind, as the API numbers it (`CUgraphNodeType`).
    #[must_use]
    pub fn kind(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
        }
    }

    /// The kind, as a label for drawings.
    #[must_use]
    pub fn title(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Copy(_) => "copy",
            Self::Fill(_) => "fill",
            Self::Host(_) => "host call",
            Self::Child(_) => "graph",
            Self::Empty => "empty",
            Self::Wait(_) => "wait for event",
            Self::Record(_) => "record event",
        }
    }
}

/// A launch without its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelWork {
    /// The kernel.
    pub function: FunctionHandle,
    /// Grid and block.
    pub dimensions: Dimensions,
    /// Dynamic shared memory per block in bytes.
    pub dynamic_shared: u32,
    /// The parameter block.
    pub parameters: Vec<u8>,
    /// True if all blocks must be resident at once.
    pub cooperative: bool,
    /// The addresses whose accesses persist in the L2 cache.
    pub persisting: Range<u64>,
}

impl KernelWork {
    /// The same launch on a stream.
    #[must_use]
    pub fn on(&self, stream: StreamHandle) -> LaunchRequest<'_> {
        LaunchRequest {
            function: self.function,
            dimensions: self.dimensions,
            dynamic_shared: self.dynamic_shared,
            stream,
            parameters: &self.parameters,
            cooperative: self.cooperative,
            persisting: self.persisting.clone(),
        }
    }
}

/// The memory that one side of a copy lies in (`CUmemorytype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryType {
    /// Host memory.
    Host,
    /// Device memory.
    Device,
    /// Determined by the address.
    Unified,
}

/// The location of one side of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLocation {
    /// The memory that it lies in.
    pub memory_type: MemoryType,
    /// Address that the offset is relative to.
    pub base: u64,
    /// Offset in bytes, rows and slices.
    pub offset: [usize; 3],
    /// Distance between rows in bytes; zero for contiguous rows.
    pub pitch: usize,
    /// Distance between slices in rows; zero for contiguous slices.
    pub rows: usize,
}

impl CopyLocation {
    /// A location with contiguous rows.
    #[must_use]
    pub fn linear(memory_type: MemoryType, base: u64) -> Self {
        Self {
            memory_type,
            base,
            offset: [0; 3],
            pitch: 0,
            rows: 0,
        }
    }
}

/// A copy of a box of bytes, rows and slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyWork {
    /// The location to read.
    pub source: CopyLocation,
    /// The location to write.
    pub destination: CopyLocation,
    /// Bytes of a row, rows of a slice, and slices.
    pub extent: [usize; 3],
}

impl CopyWork {
    /// A copy of bytes that are contiguous on both sides.
    #[must_use]
    pub fn linear(destination: CopyLocation, source: CopyLocation, bytes: usize) -> Self {
        Self {
            source,
            destination,
            extent: [bytes, 1, 1],
        }
    }

    /// Returns true if there is nothing to copy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extent.contains(&0)
    }

    /// Address of a row's first byte.
    ///
    /// # Errors
    /// When the address overflows.
    pub fn row(&self, location: &CopyLocation, slice: usize, row: usize) -> Result<u64, Code> {
        let [width, height, _] = self.extent;
        let or = |given: usize, dense: usize| if given == 0 { dense } else { given };
        let [x, y, z] = location.offset;
        z.checked_add(slice)
            .and_then(|slices| slices.checked_mul(or(location.rows, height)))
            .and_then(|rows| rows.checked_add(y)?.checked_add(row))
            .and_then(|rows| rows.checked_mul(or(location.pitch, width)))
            .and_then(|offset| offset.checked_add(x))
            .and_then(|offset| location.base.checked_add(offset as u64))
            .ok_or(Code::INVALID_VALUE)
    }
}

/// A fill of rows with a repeated value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillWork {
    /// Address of the first byte.
    pub address: u64,
    /// Distance between rows in bytes; without meaning for a single row.
    pub pitch: usize,
    /// The value; only its lowest `element` bytes are used.
    pub value: u32,
    /// Size of the value in bytes: 1, 2 or 4.
    pub element: u32,
    /// Values per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
}

impl FillWork {
    /// Size of a row in bytes.
    ///
    /// # Errors
    /// When the size of the value is invalid, or rows would overlap.
    pub fn row_bytes(&self) -> Result<usize, Code> {
        if !matches!(self.element, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = self.width.checked_mul(self.element as usize);
        let bytes = bytes.ok_or(Code::INVALID_VALUE)?;
        if self.height > 1 && self.pitch < bytes {
            return Err(Code::INVALID_VALUE);
        }
        Ok(bytes)
    }

    /// Address of a row's first byte.
    ///
    /// # Errors
    /// When the address overflows.
    pub fn row(&self, row: usize) -> Result<u64, Code> {
        (row as u64)
            .checked_mul(self.pitch as u64)
            .and_then(|offset| self.address.checked_add(offset))
            .ok_or(Code::INVALID_VALUE)
    }
}

/// A host function and its argument, as numbers, because only the C layer may call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostWork {
    /// Address of the function.
    pub function: u64,
    /// The function's argument.
    pub data: u64,
}

impl Driver {
    /// Checks recorded work with the checks of immediate execution.
    ///
    /// # Errors
    /// As the same work on a stream.
    pub fn check_work(&self, work: &Work) -> Result<(), Code> {
        match work {
            Work::Empty => Ok(()),
            Work::Kernel(kernel) => self.check_kernel(&kernel.on(StreamHandle::LEGACY)),
            Work::Copy(copy) => self.check_copy(copy),
            Work::Fill(fill) => self.check_fill(fill),
            Work::Host(host) if host.function == 0 => Err(Code::INVALID_VALUE),
            Work::Host(_) => Ok(()),
            Work::Child(graph) => self.graph_of_caller(*graph).map(|_| ()),
            Work::Record(event) | Work::Wait(event) => self.check_event(*event),
        }
    }

    fn check_copy(&self, copy: &CopyWork) -> Result<(), Code> {
        let [width, height, depth] = copy.extent;
        for location in [&copy.source, &copy.destination] {
            if location.pitch != 0 && location.pitch < width
                || location.rows != 0 && location.rows < height
            {
                return Err(Code::INVALID_VALUE);
            }
            if copy.is_empty() {
                continue;
            }
            let first = copy.row(location, 0, 0)?;
            let last = copy.row(location, depth - 1, height - 1)?;
            let end = last.checked_add(width as u64).ok_or(Code::INVALID_VALUE)?;
            match self.classify(first) {
                Some((_, base, bytes)) if end - base <= bytes => {}
                None if location.memory_type == MemoryType::Host => {}
                None if location.memory_type == MemoryType::Unified
                    && !self.is_stale(first)
                    && first != 0 => {}
                _ => return Err(Code::INVALID_VALUE),
            }
        }
        Ok(())
    }

    fn check_fill(&self, fill: &FillWork) -> Result<(), Code> {
        let bytes = fill.row_bytes()?;
        if bytes == 0 || fill.height == 0 {
            return Ok(());
        }
        if !fill.address.is_multiple_of(u64::from(fill.element)) {
            return Err(Code::INVALID_VALUE);
        }
        let last = fill.row(fill.height - 1)?;
        let end = last.checked_add(bytes as u64).ok_or(Code::INVALID_VALUE)?;
        match self.classify(fill.address) {
            Some((_, base, size)) if end - base <= size => Ok(()),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}
