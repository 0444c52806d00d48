//! Element types of tensors, workspaces and scalars.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An element type, named as in task files and front matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// Signed byte.
    I8,
    /// Unsigned byte.
    U8,
    /// Signed 32-bit integer.
    I32,
    /// Unsigned 32-bit integer.
    U32,
    /// Signed 64-bit integer.
    I64,
}

impl Dtype {
    /// Size of one element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// The type of one element in CUDA C++.
    pub fn c_type(self) -> &'static str {
        match self {
            Self::F16 => "__half",
            Self::Bf16 => "__nv_bfloat16",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::I8 => "signed char",
            Self::U8 => "unsigned char",
            Self::I32 => "int",
            Self::U32 => "unsigned int",
            Self::I64 => "long long",
        }
    }

    /// The unit roundoff of a floating type: half the distance from 1 to the next value.
    #[inline]
    pub fn unit_roundoff(self) -> Option<f64> {
        match self {
            Self::F16 => Some(2_f64.powi(-11)),
            Self::Bf16 => Some(2_f64.powi(-8)),
            Self::F32 => Some(2_f64.powi(-24)),
            Self::F64 => Some(2_f64.powi(-53)),
            Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 => None,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
        })
    }
}
