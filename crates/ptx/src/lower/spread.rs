//! Propagation of poison through each instruction.

use super::Detail;
use crate::code::{Op, Spread};

/// The rule by which poison passes from the operands of an instruction to its results.
pub(super) fn spread(op: Op, detail: &Detail) -> Spread {
    if let Detail::Lane(_, spread) = detail {
        return *spread;
    }
    match op {
        Op::Mov32
        | Op::Mov64
        | Op::MovP
        | Op::Not32
        | Op::Not64
        | Op::NotP
        | Op::Zext
        | Op::Trunc => Spread::Copy,
        Op::Sext => Spread::SignExtend,
        Op::And32 | Op::And64 | Op::AndP => Spread::And,
        Op::Or32 | Op::Or64 | Op::OrP => Spread::Or,
        Op::Xor32 | Op::Xor64 | Op::XorP => Spread::Xor,
        Op::Shl32 | Op::Shl64 => Spread::ShiftLeft,
        Op::ShrU32 | Op::ShrU64 => Spread::ShiftRight,
        Op::ShrS32 => Spread::ShiftRightSigned(32),
        Op::ShrS64 => Spread::ShiftRightSigned(64),
        Op::Select32 | Op::Select64 => Spread::Select,
        Op::Pack64 => Spread::Pack(32),
        Op::Pack32 => Spread::Pack(16),
        Op::Unpack64 => Spread::Unpack(32),
        Op::Unpack32 => Spread::Unpack(16),
        Op::Add32
        | Op::Sub32
        | Op::Mul32
        | Op::Mad32
        | Op::Neg32
        | Op::Add64
        | Op::Sub64
        | Op::Mul64
        | Op::Mad64
        | Op::MulWideS
        | Op::MulWideU
        | Op::MadWideS
        | Op::MadWideU => Spread::Upwards,
        Op::F32x2ToF16x2 | Op::F32x2ToBf16x2 => Spread::NarrowPair,
        Op::AddF16x2 | Op::SubF16x2 | Op::MulF16x2 | Op::MaxF16x2 | Op::MinF16x2 | Op::FmaF16x2 => {
            Spread::Halves
        }
        _ => Spread::All,
    }
}
