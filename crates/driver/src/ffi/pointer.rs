//! Pointers of C callers, wrapped at the boundary.
//!
//! No safe code can make one of these: they only arise as arguments of exported functions, where the caller vouches,
//! as the API demands, that a pointer is null or points to what the function's documentation says, for the duration
//! of the call. Under that contract the methods are safe, and null is answered with an error.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::code::Code;

/// Where a result goes.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result.
    pub fn set(self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller vouches for it; unaligned writes tolerate packed structures.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result if the caller wants it.
    pub fn offer(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// The place at an address that the caller gave as a number.
    pub fn at_address(address: u64) -> Self {
        Self(address as *mut T)
    }

    /// Reads what the caller put there first.
    pub fn get(self) -> Result<T, Code>
    where
        T: Copy,
    {
        In(self.0.cast_const()).get()
    }

    /// Refuses a missing place before anything is done.
    pub fn required(self) -> Result<Self, Code> {
        if self.0.is_null() {
            Err(Code::INVALID_VALUE)
        } else {
            Ok(self)
        }
    }
}

/// A value the caller points to, or an array of them.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the value.
    pub fn get(self) -> Result<T, Code> {
        self.at(0)
    }

    /// Reads an element of an array that has it.
    pub fn at(self, index: usize) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller vouches for an array that holds the index.
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

    /// Whether nothing was given.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// Host memory of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Host(*mut c_void);

impl Host {
    /// The bytes to read.
    pub fn bytes<'a>(self, count: usize) -> Result<&'a [u8], Code> {
        self.check(count)?;
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: not null and no longer than an object can be, so the caller vouches for `count` readable bytes.
        Ok(unsafe { slice::from_raw_parts(self.0.cast(), count) })
    }

    /// The bytes to write.
    pub fn bytes_mut<'a>(self, count: usize) -> Result<&'a mut [u8], Code> {
        self.check(count)?;
        if count == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as in `bytes`, for writing; the call lasts as long as the slice is used.
        Ok(unsafe { slice::from_raw_parts_mut(self.0.cast(), count) })
    }

    /// The memory `offset` bytes further on.
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
        Text(self.0 as *const c_char).get()
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
pub struct Text(*const c_char);

impl Text {
    /// The string.
    pub fn get<'a>(self) -> Result<&'a CStr, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, so the caller vouches for a string that ends.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The string, if it is UTF-8.
    pub fn str<'a>(self) -> Result<&'a str, Code> {
        self.get()?.to_str().map_err(|_| Code::INVALID_VALUE)
    }
}

/// Writes text into a caller's buffer, cut to fit, always terminated.
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
