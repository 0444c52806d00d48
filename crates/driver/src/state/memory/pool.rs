//! Memory pools and their attributes.

use crate::code::Code;
use crate::handle::PoolHandle;
use crate::state::Driver;

/// A memory pool. All pools allocate from one heap; the attributes are kept and returned.
#[derive(Debug, Default)]
pub(in crate::state) struct Pool {
    is_default: bool,
    reuse: [u32; 3],
    release_threshold: u64,
}

/// Attributes of a pool, by the type of their value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolAttribute {
    /// One of the three reuse switches.
    Reuse(usize),
    /// Number of bytes to keep before memory is released.
    ReleaseThreshold,
    /// Bytes reserved or used, current or maximum; resetting the maxima has no effect.
    Usage,
}

impl PoolAttribute {
    /// The attribute with this number.
    ///
    /// # Errors
    /// `INVALID_VALUE` when there is none.
    pub fn from_number(number: u32) -> Result<Self, Code> {
        match number {
            1..=3 => Ok(Self::Reuse(number as usize - 1)),
            4 => Ok(Self::ReleaseThreshold),
            5..=8 => Ok(Self::Usage),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

impl Driver {
    /// The device's default pool.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn default_pool(&mut self, ordinal: i32) -> Result<PoolHandle, Code> {
        self.check_device(ordinal)?;
        if let Some((handle, _)) = self.pools.iter().find(|(_, pool)| pool.is_default) {
            return Ok(*handle);
        }
        let handle = PoolHandle::nth(self.next_serial());
        self.pools.insert(
            handle,
            Pool {
                is_default: true,
                reuse: [1; 3],
                release_threshold: 0,
            },
        );
        Ok(handle)
    }

    /// The device's current pool.
    ///
    /// # Errors
    /// For a wrong device.
    pub fn device_pool(&mut self, ordinal: i32) -> Result<PoolHandle, Code> {
        let default = self.default_pool(ordinal)?;
        Ok(self.current_pool.unwrap_or(default))
    }

    /// Sets the device's current pool.
    ///
    /// # Errors
    /// For a wrong device or a stale pool.
    pub fn set_device_pool(&mut self, ordinal: i32, pool: PoolHandle) -> Result<(), Code> {
        self.check_device(ordinal)?;
        self.pool(pool)?;
        self.current_pool = Some(pool);
        Ok(())
    }

    /// Creates a pool.
    ///
    /// # Errors
    /// When the driver is not initialised.
    pub fn create_pool(&mut self) -> Result<PoolHandle, Code> {
        self.check_initialised()?;
        let handle = PoolHandle::nth(self.next_serial());
        self.pools.insert(
            handle,
            Pool {
                reuse: [1; 3],
                ..Pool::default()
            },
        );
        Ok(handle)
    }

    /// Destroys a created pool. If it was current, the default pool becomes current.
    ///
    /// # Errors
    /// When the handle is stale or the default pool's.
    pub fn destroy_pool(&mut self, pool: PoolHandle) -> Result<(), Code> {
        if self.pool(pool)?.is_default {
            return Err(Code::INVALID_VALUE);
        }
        self.pools.remove(&pool);
        if self.current_pool == Some(pool) {
            self.current_pool = None;
        }
        Ok(())
    }

    /// Reads an attribute of a pool.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn pool_attribute(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64, Code> {
        let pool = self.pool(pool)?;
        Ok(match attribute {
            PoolAttribute::Reuse(index) => u64::from(pool.reuse[index]),
            PoolAttribute::ReleaseThreshold => pool.release_threshold,
            PoolAttribute::Usage => self.machine.memory_in_use().0,
        })
    }

    /// Sets an attribute of a pool.
    ///
    /// # Errors
    /// When the handle is stale.
    pub fn set_pool_attribute(
        &mut self,
        pool: PoolHandle,
        attribute: PoolAttribute,
        value: u64,
    ) -> Result<(), Code> {
        let pool = self.pools.get_mut(&pool).ok_or(Code::INVALID_VALUE)?;
        match attribute {
            PoolAttribute::Reuse(index) => pool.reuse[index] = u32::from(value != 0),
            PoolAttribute::ReleaseThreshold => pool.release_threshold = value,
            PoolAttribute::Usage => {}
        }
        Ok(())
    }

    /// Checks a pool handle.
    ///
    /// # Errors
    /// When it is stale.
    pub fn check_pool(&self, pool: PoolHandle) -> Result<(), Code> {
        self.pool(pool).map(|_| ())
    }

    pub(super) fn pool(&self, pool: PoolHandle) -> Result<&Pool, Code> {
        self.check_initialised()?;
        self.pools.get(&pool).ok_or(Code::INVALID_VALUE)
    }
}
