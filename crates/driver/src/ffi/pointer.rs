//! Wrappers of pointers that C callers pass.
//!
//! Safe code cannot create these values from valid Rust references; they arise as arguments of exported functions.
//! The caller guarantees, as the API demands, that a pointer is null or points to the data that the function's
//! documentation names, for the duration of the call. Under that contract the methods are safe. Null is answered with
//! an error.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::code::Code;

/// The address that a result is written to.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub fn set(self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller guarantees that it can be written; an unaligned write allows packed
        // structures.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub fn set_if_given(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// The output location at an address that the caller gave as a number.
    pub fn at_address(address: u64) -> Self {
        Self(address as *mut T)
    }

    /// Reads the value that the caller stored there.
    pub fn get(self) -> Result<T, Code>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// Refuses null before the call has any effect.
    pub fn required(self) -> Result<Self, Code> {
        if self.0.is_null() {
            Err(Code::INVALID_VALUE)
        } else {
            Ok(self)
        }
    }
}

/// A pointer to a value of the caller, or to an array of values.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the value.
    pub fn get(self) -> Result<T, Code> {
        self.at(0)
    }

    /// Reads an element of an array. The caller of the API guarantees that the array has it.
    pub fn at(self, index: usize) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller guarantees an array that holds the index.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }

    /// The value at an address that the caller gave as a number.
    pub fn at_address(address: u64) -> Self {
        Self(address as *const T)
    }

    /// The address as a number.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// Returns true if the pointer is null.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// Memory of the host that belongs to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Host(*mut c_void);

impl Host {
    /// The bytes, for reading.
    pub fn bytes<'a>(self, count: usize) -> Result<&'a [u8], Code> {
        self.check(count)?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: not null and no longer than an object can be, so the caller guarantees `count` readable bytes.
        Ok(unsafe { slice::from_raw_parts(self.0.cast(), count) })
    }

    /// The bytes, for writing.
    pub fn bytes_mut<'a>(self, count: usize) -> Result<&'a mut [u8], Code> {
        self.check(count)?;
        if count == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `bytes`, for writing; the slice is not used after the call.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.cast(), count) })
    }

    /// The memory `offset` bytes after this.
    pub fn offset(self, offset: usize) -> Self {
        Self(self.0.wrapping_byte_add(offset))
    }

    /// The address as a number.
    pub fn address(self) -> u64 {
        self.0 as u64
    }

    /// The memory at an address that the caller gave as a number.
    pub fn at_address(address: u64) -> Self {
        Self(address as *mut c_void)
    }

    /// The text that starts here and ends before the first NUL.
    pub fn text<'a>(self) -> Result<&'a CStr, Code> {
        CallerString(self.0 as *const c_char).get()
    }

    fn check(self, count: usize) -> Result<(), Code> {
        if (self.0.is_null() && count > 0) || count > isize::MAX as usize {
            Err(Code::INVALID_VALUE)
        } else {
            Ok(())
        }
    }
}

/// A C string of the caller.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct CallerString(*const c_char);

impl CallerString {
    /// The string.
    pub fn get<'a>(self) -> Result<&'a CStr, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller guarantees a string that ends with NUL.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The string, if it is UTF-8.
    pub fn str<'a>(self) -> Result<&'a str, Code> {
        self.get()?.to_str().map_err(|_| Code::INVALID_VALUE)
    }
}

/// Writes text into a caller's buffer, truncated if necessary and always terminated with NUL.
pub fn write_text(buffer: Host, capacity: usize, text: &str) -> Result<(), Code> {
    let bytes = buffer.bytes_mut(capacity)?;
    let Some(room) = capacity.checked_sub(1) else {
        return Err(Code::INVALID_VALUE);
    };
    let count = text.len().min(room);
    bytes[..count].copy_from_slice(&text.as_bytes()[..count]);
    bytes[count] = 0;
    Ok(())
}
