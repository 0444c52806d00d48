//! The two causes of an early end of an execution: an error of the device, which is a fact about what was executed,
//! or a failure of the role itself, which says nothing about it.

use domain::role::DeviceFault;

use crate::driver::DriverError;
use crate::role_error::RoleError;

/// Error of an execution.
#[derive(Debug)]
pub enum ExecuteError {
    /// The device or its driver refused or stopped a launch or a call. It belongs in the reply.
    Device(DeviceFault),
    /// The role cannot do its job. There is no reply.
    Role(RoleError),
}

impl From<DriverError> for ExecuteError {
    fn from(error: DriverError) -> Self {
        Self::Device(device_fault(error, None))
    }
}

impl From<RoleError> for ExecuteError {
    fn from(error: RoleError) -> Self {
        Self::Role(error)
    }
}

impl ExecuteError {
    /// Converts to the error of a role that cannot continue without this action.
    pub fn into_role_error(self, action: &str) -> RoleError {
        match self {
            Self::Device(DeviceFault {
                code, name, call, ..
            }) => RoleError::Driver {
                action: action.to_owned(),
                call,
                code,
                name,
            },
            Self::Role(error) => error,
        }
    }
}

/// Converts a driver's error to a fact for a reply, with the number of the launch that it belongs to.
pub fn device_fault(error: DriverError, launch: Option<u32>) -> DeviceFault {
    DeviceFault {
        code: error.code,
        name: error.name,
        call: error.call.to_owned(),
        launch,
        log: error.log,
    }
}
