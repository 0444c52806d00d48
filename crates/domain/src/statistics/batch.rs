//! Batch sizes: the number of executions that are timed together, of different inputs, and of sets
//! of buffers that they are spread over.

/// Times below this are measured in batches, because events are read to half a microsecond only.
const SHORT_US: f64 = 20.0;
/// The shortest duration of a batch, microseconds.
const BATCH_US: f64 = 200.0;
/// The most executions of a batch. As many empty launches of two microseconds take long enough that an
/// error of half a microsecond is below 1%.
const MOST: u32 = 32;
/// The least number of different inputs of a case. With fewer, a time that depends on its inputs would
/// hardly show it.
const FEWEST_DRAWS: u64 = 4;
/// The most memory of all the different inputs of a case in bytes, unless the fewest need more. Every
/// process that times makes all of them.
const DRAWS_BYTES: u64 = 64 << 20;
/// The least number of sets of buffers. With fewer, a kernel could find data that its last execution
/// left in the cache.
const FEWEST_SETS: u64 = 4;
/// The most sets that are made to fill a cache. If more were needed, the cache is flushed instead.
const MOST_SETS: u64 = 256;
/// The least size of all sets together in cache sizes, so that a set has left the cache before
/// its next turn.
const CACHES: u64 = 3;
/// As many times the size of the cache replace all of its contents, so that it need not be flushed.
const CACHES_WITHOUT_FLUSH: u64 = 4;

/// The part of the second level cache, as a divisor, that a warm batch's sets take together. From the
/// A100 on it has two partitions, and what multiprocessors of both read may be kept in each (NVIDIA
/// A100 Tensor Core GPU Architecture, "L2 cache").
const SHARE_OF_CACHE: u64 = 2;

/// The number of different inputs of a case whose tensors have `bytes` bytes.
pub fn input_draws(bytes: u64) -> u32 {
    let fitting = DRAWS_BYTES / bytes.max(1);
    let draws = fitting.clamp(FEWEST_DRAWS, u64::from(MOST));
    u32::try_from(draws).expect("no more than the longest batch")
}

/// Number of executions between two events, for a case whose quickest contender takes `us`
/// microseconds. It is one if `us` is not a valid time.
///
/// At most the number of different inputs, because what an execution leaves in shared or local memory is
/// there for the next one, which must not be able to use it as its answer.
pub fn batch_size(us: f64, draws: u32) -> u32 {
    let short = us > 0.0 && us < SHORT_US;
    if !short {
        return 1;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 1 to the longest batch"
    )]
    let executions = (BATCH_US / us).ceil().clamp(1.0, f64::from(draws.max(1))) as u32;
    executions
}

/// The longest batch whose sets of `bytes` bytes each fit into their share of a cache of `l2_bytes`. It
/// is at least one: of a set that does not fit, the cache holds a part.
pub fn max_warm_batch(bytes: u64, l2_bytes: u64) -> u32 {
    let fitting = l2_bytes / SHARE_OF_CACHE / bytes.max(1);
    u32::try_from(fitting.clamp(1, u64::from(MOST))).expect("no more than the longest batch")
}

/// Sets of buffers that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSets {
    /// The number of sets.
    pub count: u32,
    /// True if the cache has to be overwritten before each batch, because the sets do not fill it.
    pub flush: bool,
}

impl BufferSets {
    /// The sets of a case whose buffers have `bytes` bytes, for batches of `batch` executions on
    /// `draws` different inputs in turn, on a device with a cache of `l2_bytes`, in `room` bytes of
    /// memory.
    ///
    /// A batch has a set for each of its executions unless memory ends first. The number of sets is a
    /// multiple of `draws`, or less than it, so that consecutive executions have different inputs.
    pub fn plan(bytes: u64, batch: u32, draws: u32, l2_bytes: u64, room: u64) -> Self {
        let bytes = bytes.max(1);
        let plenty = (CACHES * l2_bytes).div_ceil(bytes);
        let filling = if plenty <= MOST_SETS { plenty } else { 0 };
        let draws = u64::from(draws.max(1));
        let wanted = FEWEST_SETS.max(u64::from(batch)).max(filling);
        let fitting = wanted.next_multiple_of(draws).min(room / bytes).max(1);
        let over = if fitting > draws { fitting % draws } else { 0 };
        let count = fitting - over;
        Self {
            count: u32::try_from(count).expect("no more than are ever made"),
            flush: count.saturating_mul(bytes) < CACHES_WITHOUT_FLUSH * l2_bytes,
        }
    }

    /// The sets of a case that is timed with a warm cache, which other sets need not fill.
    pub fn plan_warm(bytes: u64, batch: u32, draws: u32, room: u64) -> Self {
        Self {
            flush: false,
            ..Self::plan(bytes, batch, draws, 0, room)
        }
    }
}
