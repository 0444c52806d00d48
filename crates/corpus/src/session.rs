//! The operations of a case on a device, and the record of its results.
//!
//! A case allocates, launches and reads through a [`Session`], which names the buffers, records every result, and turns
//! errors of the device into a [`Failure`]. The device is behind [`Device`]: the emulated machine in tests, a CUDA
//! driver elsewhere.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::failure::Failure;

/// A device with one module loaded.
pub trait Device {
    /// Allocates `bytes` uninitialised bytes; `name` is for messages.
    ///
    /// # Errors
    /// The device's refusal, as for all functions here.
    fn allocate(&mut self, name: &str, bytes: usize) -> Result<u64, Failure>;

    /// Copies to the device.
    ///
    /// # Errors
    /// The device's refusal.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Failure>;

    /// Copies from the device, after everything launched.
    ///
    /// # Errors
    /// The device's error, or the error of an earlier launch.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Failure>;

    /// Address and size of a variable of the module.
    ///
    /// # Errors
    /// The device's refusal.
    fn variable(&mut self, name: &str) -> Result<(u64, usize), Failure>;

    /// Launches a kernel and waits for its end. On a device that checks launches a finding is an error, because no
    /// kernel of the corpus may get one.
    ///
    /// # Errors
    /// The device's refusal, the launch's fault, or a finding.
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Failure>;
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Name of the kernel.
    pub kernel: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    /// True if the blocks synchronise across the grid.
    pub cooperative: bool,
    /// The arguments in order.
    pub arguments: &'a [Arg],
}

/// A kernel argument.
#[derive(Debug, Clone, Copy)]
pub enum Arg {
    /// A device address.
    Pointer(u64),
    /// `int`.
    I32(i32),
    /// `float`.
    F32(f32),
    /// `double`.
    F64(f64),
}

impl Arg {
    /// The bytes of the argument in memory.
    pub fn bytes(self) -> Vec<u8> {
        match self {
            Self::Pointer(value) => value.to_le_bytes().to_vec(),
            Self::I32(value) => value.to_le_bytes().to_vec(),
            Self::F32(value) => value.to_le_bytes().to_vec(),
            Self::F64(value) => value.to_le_bytes().to_vec(),
        }
    }
}

/// A value that can be converted to and from bytes.
pub trait Plain: Copy {
    /// Number of bytes.
    const BYTES: usize;
    /// Appends the bytes in little-endian order.
    fn put(self, out: &mut Vec<u8>);
    /// The value of `BYTES` bytes.
    ///
    /// # Panics
    /// If the number of bytes is not `BYTES`.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($ty:ty),*) => {$(
        impl Plain for $ty {
            const BYTES: usize = size_of::<$ty>();
            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )*};
}

plain!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// All results of one case in the order of the reads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// Memory contents as they were read.
    pub reads: Vec<Read>,
    /// Numbers that were compared with a tolerance.
    pub compared: Vec<Compared>,
}

/// A range of memory as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Name of the buffer or variable.
    pub buffer: String,
    /// Bytes per element.
    pub element: usize,
    /// The content.
    pub bytes: Vec<u8>,
}

/// Numbers compared with the reference.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Name of the compared values.
    pub what: String,
    /// Largest error that is allowed, absolute or relative to a reference above 1.
    pub tolerance: f64,
    /// Largest error that was found, in the same measure.
    pub worst: f64,
    /// The numbers.
    pub values: Vec<f64>,
}

/// A device that a case works on.
pub struct Session<'a> {
    device: RefCell<&'a mut dyn Device>,
    names: RefCell<BTreeMap<u64, String>>,
    record: RefCell<Record>,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    /// A session on a device that has the case's module loaded.
    pub fn new(device: &'a mut dyn Device) -> Self {
        Self {
            device: RefCell::new(device),
            names: RefCell::default(),
            record: RefCell::default(),
        }
    }

    /// The record of the results.
    pub fn into_record(self) -> Record {
        self.record.into_inner()
    }

    /// Allocates a buffer with content.
    pub(crate) fn buffer<T: Plain>(&self, name: &str, values: &[T]) -> Result<u64, Failure> {
        let address = self.fresh(name, values.len() * T::BYTES)?;
        let mut bytes = Vec::with_capacity(values.len() * T::BYTES);
        for value in values {
            value.put(&mut bytes);
        }
        self.write(address, &bytes)?;
        Ok(address)
    }

    /// Allocates an uninitialised buffer.
    pub(crate) fn fresh(&self, name: &str, bytes: usize) -> Result<u64, Failure> {
        let address = self.device.borrow_mut().allocate(name, bytes)?;
        self.names.borrow_mut().insert(address, name.to_owned());
        Ok(address)
    }

    /// Overwrites the memory at an address.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.device.borrow_mut().write(address, bytes)
    }

    /// Address and size of a variable of the module.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, usize), Failure> {
        let variable = self.device.borrow_mut().variable(name)?;
        self.names.borrow_mut().insert(variable.0, name.to_owned());
        Ok(variable)
    }

    /// Reads the memory at an address.
    pub(crate) fn read<T: Plain>(&self, address: u64, count: usize) -> Result<Vec<T>, Failure> {
        let mut bytes = vec![0; count * T::BYTES];
        self.device.borrow_mut().read(address, &mut bytes)?;
        let values = bytes.chunks(T::BYTES).map(T::get).collect();
        let names = self.names.borrow();
        let buffer = names.range(..=address).next_back();
        self.record.borrow_mut().reads.push(Read {
            buffer: buffer.map_or_else(String::new, |(_, name)| name.clone()),
            element: T::BYTES,
            bytes,
        });
        Ok(values)
    }

    /// Launches a kernel and waits for it.
    pub(crate) fn launch(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[Arg],
    ) -> Result<(), Failure> {
        self.launch_with(kernel, grid, block, arguments, |_| {})
    }

    /// Launches a kernel with a change to the default configuration.
    pub(crate) fn launch_with(
        &self,
        kernel: &str,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &[Arg],
        change: impl FnOnce(&mut Launch<'_>),
    ) -> Result<(), Failure> {
        let mut launch = Launch {
            kernel,
            grid,
            block,
            shared_bytes: 0,
            cooperative: false,
            arguments,
        };
        change(&mut launch);
        self.device.borrow_mut().launch(&launch)
    }

    /// Fails with the index and both values unless all values are close: absolutely, or relative to an expected value
    /// above 1.
    pub(crate) fn close(
        &self,
        what: &str,
        got: &[f64],
        want: &[f64],
        tolerance: f64,
    ) -> Result<(), Failure> {
        if got.len() != want.len() {
            return Err(Failure::wrong(format!(
                "{what} has {} elements instead of {}",
                got.len(),
                want.len()
            )));
        }
        let error = |i: usize| (got[i] - want[i]).abs() / want[i].abs().max(1.0);
        // NaN counts as the largest error.
        let far = (0..got.len()).max_by(|a, b| error(*a).total_cmp(&error(*b)));
        let worst = far.map_or(0.0, error);
        self.record.borrow_mut().compared.push(Compared {
            what: what.to_owned(),
            tolerance,
            worst,
            values: got.to_vec(),
        });
        match far {
            Some(i) if worst.is_nan() || worst > tolerance => Err(Failure::wrong(format!(
                "{what}[{i}]: {} instead of {}",
                got[i], want[i]
            ))),
            _ => Ok(()),
        }
    }
}
