//! Random sequences of calls: no panic, no handle that is valid after its owner is destroyed, no leaked memory.

use kernelwright_driver::handle::{EventHandle, StreamHandle};
use kernelwright_driver::state::{ContextFlags, Driver, EventFlags};
use proptest::prelude::*;
use ptx::device::Device;

const MEMORY: u64 = 64 << 10;

#[derive(Debug, Clone)]
enum Call {
    Retain,
    Release,
    Reset,
    CreateContext,
    DestroyContext(usize),
    SetCurrent(usize),
    Pop,
    Allocate(u64),
    Free(usize),
    Fill(usize, u64),
    Copy(usize, usize, u64),
    CreateStream,
    DestroyStream(usize),
    CreateEvent(u32),
    DestroyEvent(usize),
    Record(usize, usize),
    Wait(usize, usize),
    Elapsed(usize, usize),
    Load,
    Synchronise,
}

fn call() -> impl Strategy<Value = Call> {
    let index = 0..4usize;
    prop_oneof![
        Just(Call::Retain),
        Just(Call::Release),
        Just(Call::Reset),
        Just(Call::CreateContext),
        index.clone().prop_map(Call::DestroyContext),
        index.clone().prop_map(Call::SetCurrent),
        Just(Call::Pop),
        (0..2 * MEMORY).prop_map(Call::Allocate),
        index.clone().prop_map(Call::Free),
        (index.clone(), any::<u64>()).prop_map(|(i, n)| Call::Fill(i, n)),
        (index.clone(), index.clone(), 0..64u64).prop_map(|(i, j, n)| Call::Copy(i, j, n)),
        Just(Call::CreateStream),
        index.clone().prop_map(Call::DestroyStream),
        (0..4u32).prop_map(Call::CreateEvent),
        index.clone().prop_map(Call::DestroyEvent),
        (index.clone(), index.clone()).prop_map(|(i, j)| Call::Record(i, j)),
        (index.clone(), index.clone()).prop_map(|(i, j)| Call::Wait(i, j)),
        (index.clone(), index).prop_map(|(i, j)| Call::Elapsed(i, j)),
        Just(Call::Load),
        Just(Call::Synchronise),
    ]
}

/// Handles and addresses that the calls returned so far, including invalid ones.
#[derive(Default)]
struct Returned {
    contexts: Vec<kernelwright_driver::handle::ContextHandle>,
    buffers: Vec<u64>,
    streams: Vec<StreamHandle>,
    events: Vec<EventHandle>,
}

fn pick<T: Copy>(returned: &[T], index: usize) -> Option<T> {
    returned.len().checked_sub(1 + index).map(|at| returned[at])
}

fn perform(driver: &mut Driver, returned: &mut Returned, call: &Call) -> Option<()> {
    match *call {
        Call::Retain => returned.contexts.push(driver.primary_retain(0).ok()?),
        Call::Release => driver.primary_release(0).ok()?,
        Call::Reset => driver.primary_reset(0).ok()?,
        Call::CreateContext => returned
            .contexts
            .push(driver.create_context(0, ContextFlags::default()).ok()?),
        Call::DestroyContext(i) => driver.destroy_context(pick(&returned.contexts, i)?).ok()?,
        Call::SetCurrent(i) => driver
            .set_current_context(Some(pick(&returned.contexts, i)?))
            .ok()?,
        Call::Pop => driver.pop_context().map(|_| ()).ok()?,
        Call::Allocate(bytes) => returned.buffers.push(driver.allocate(bytes).ok()?),
        Call::Free(i) => driver.free(pick(&returned.buffers, i)?).ok()?,
        Call::Fill(i, count) => driver
            .fill(pick(&returned.buffers, i)?, &[1, 2, 3, 4], count, None)
            .ok()?,
        Call::Copy(i, j, bytes) => driver
            .copy(
                pick(&returned.buffers, i)?,
                pick(&returned.buffers, j)? + 8,
                bytes,
                Some(pick(&returned.streams, 0).unwrap_or(StreamHandle::PER_THREAD)),
            )
            .ok()?,
        Call::CreateStream => returned.streams.push(driver.create_stream(0, 0).ok()?),
        Call::DestroyStream(i) => driver.destroy_stream(pick(&returned.streams, i)?).ok()?,
        Call::CreateEvent(flags) => {
            let flags = EventFlags::from_bits(flags).ok()?;
            returned.events.push(driver.create_event(flags).ok()?);
        }
        Call::DestroyEvent(i) => driver.destroy_event(pick(&returned.events, i)?).ok()?,
        Call::Record(i, j) => driver
            .record_event(pick(&returned.events, i)?, pick(&returned.streams, j)?)
            .ok()?,
        Call::Wait(i, j) => driver
            .wait_for_event(pick(&returned.streams, i)?, pick(&returned.events, j)?)
            .ok()?,
        Call::Elapsed(i, j) => {
            let elapsed = driver
                .elapsed(pick(&returned.events, i)?, pick(&returned.events, j)?)
                .ok()?;
            assert!(elapsed.is_finite());
        }
        Call::Load => {
            let text = b".version 8.0\n.target sm_80\n.address_size 64\n.global .u64 counter[9];\n";
            let image = kernelwright_driver::image::Image::Ptx(text);
            driver.load_module(image, None).map(|_| ()).ok()?;
        }
        Call::Synchronise => driver.synchronise_context().ok()?,
    }
    Some(())
}

proptest! {
    #[test]
    fn destroying_every_context_frees_all_memory(calls in proptest::collection::vec(call(), 0..60)) {
        let mut driver = Driver::new(Device::embedded("l4").expect("embedded"), MEMORY);
        driver.initialise(0).expect("initialises");
        let mut returned = Returned::default();
        for call in &calls {
            // Refused calls are part of the sequence.
            let _ = perform(&mut driver, &mut returned, call);
        }
        driver.primary_reset(0).expect("the device is there");
        for context in &returned.contexts {
            // Most are destroyed already.
            let _ = driver.destroy_context(*context);
        }
        for event in &returned.events {
            prop_assert!(driver.destroy_event(*event).is_err());
        }
        let context = driver.create_context(0, ContextFlags::default()).expect("a context");
        prop_assert_eq!(driver.memory_info().map(|(free, _)| free), Ok(MEMORY));
        driver.destroy_context(context).expect("alive");
    }
}
