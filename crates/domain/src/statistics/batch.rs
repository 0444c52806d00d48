//! How many executions are timed together, and over how many sets of buffers they are spread.

/// A time below this is too much the clock's own: events are read to half a microsecond.
const SHORT_US: f64 = 20.0;
/// What the executions of a batch take together, at least.
const BATCH_US: f64 = 200.0;
/// The longest batch: a launch takes about two microseconds, so that no more are ever needed.
const MOST: u32 = 128;
/// Fewer sets of buffers would let a kernel meet its own traces.
const FEWEST_SETS: u64 = 4;
/// More sets than this are not made to fill a cache; it is flushed instead.
const MOST_SETS: u64 = 256;
/// A cache of this many times its size has been passed by before a set comes round again.
const CACHES: u64 = 3;
/// And with this many nothing of it is left, so that flushing adds nothing.
const CACHES_WITHOUT_FLUSH: u64 = 4;

/// The part of the second level cache, as a divisor, that a warm batch's sets take together. From the
/// A100 on it has two partitions, and what multiprocessors of both read may be kept in each (NVIDIA
/// A100 Tensor Core GPU Architecture, "L2 cache").
const SHARE_OF_CACHE: u64 = 2;

/// Executions between two events, for a case whose quickest contender takes `us`. One for a time
/// that is none.
pub fn batch(us: f64) -> u32 {
    let short = us > 0.0 && us < SHORT_US;
    if !short {
        return 1;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the longest batch"
    )]
    let executions = (BATCH_US / us).ceil().clamp(1.0, f64::from(MOST)) as u32;
    executions
}

/// The longest batch whose sets of so many bytes are found in a cache of `l2_bytes`, at least one:
/// a set that does not fit is timed with as much of it as there is room for.
pub fn longest_warm(bytes: u64, l2_bytes: u64) -> u32 {
    let fitting = l2_bytes / SHARE_OF_CACHE / bytes.max(1);
    u32::try_from(fitting.clamp(1, u64::from(MOST))).expect("no more than the longest batch")
}

/// Sets of buffers that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSets {
    /// How many.
    pub count: u32,
    /// Whether the cache has to be overwritten before each batch, because they do not fill it.
    pub flush: bool,
}

impl BufferSets {
    /// The sets of a case whose buffers have so many bytes, for batches of so many executions, on
    /// a device with a cache of `l2_bytes`, in `room` bytes of memory.
    ///
    /// A batch has a set for each of its executions unless memory ends first.
    pub fn plan(bytes: u64, batch: u32, l2_bytes: u64, room: u64) -> Self {
        let bytes = bytes.max(1);
        let plenty = (CACHES * l2_bytes).div_ceil(bytes);
        let filling = if plenty <= MOST_SETS { plenty } else { 0 };
        let wanted = FEWEST_SETS.max(u64::from(batch)).max(filling);
        let count = wanted.min(room / bytes).max(1);
        Self {
            count: u32::try_from(count).expect("no more than are ever made"),
            flush: count.saturating_mul(bytes) < CACHES_WITHOUT_FLUSH * l2_bytes,
        }
    }

    /// The same for a case that is timed with a warm cache, which need not be filled with others.
    pub fn plan_warm(bytes: u64, batch: u32, room: u64) -> Self {
        Self {
            flush: false,
            ..Self::plan(bytes, batch, 0, room)
        }
    }
}
