//! Contexts and the current context of each thread.

use std::thread;

use kernelwright_driver::code::Code;
use kernelwright_driver::handle::{ContextHandle, StreamHandle};
use kernelwright_driver::state::{ContextFlags, EventFlags};

use super::{fresh, function, launch_of, ready};

#[test]
fn nothing_works_before_initialisation_or_without_a_context() {
    let mut driver = fresh();
    assert_eq!(driver.check_device(0), Err(Code::NOT_INITIALIZED));
    assert_eq!(driver.allocate(4), Err(Code::NOT_INITIALIZED));
    assert_eq!(driver.initialise(1), Err(Code::INVALID_VALUE));
    driver.initialise(0).expect("initialises");
    assert_eq!(driver.check_device(1), Err(Code::INVALID_DEVICE));
    assert_eq!(driver.allocate(4), Err(Code::INVALID_CONTEXT));
    assert_eq!(
        driver.set_current_context(Some(ContextHandle(77))),
        Err(Code::INVALID_CONTEXT)
    );
}

#[test]
fn the_primary_context_exists_while_it_is_retained() {
    let mut driver = ready();
    let again = driver.primary_retain(0).expect("retains");
    assert_eq!(driver.current_context(), Some(again));
    let buffer = driver.allocate(16).expect("allocates");
    driver.primary_release(0).expect("one left");
    assert!(driver.address_range(buffer).is_ok());
    driver.primary_release(0).expect("none left");
    assert_eq!(driver.allocate(4), Err(Code::CONTEXT_IS_DESTROYED));
    assert_eq!(driver.primary_release(0), Err(Code::INVALID_CONTEXT));
    let context = driver.primary_retain(0).expect("a new life");
    driver
        .set_current_context(Some(context))
        .expect("makes current");
    assert_eq!(driver.address_range(buffer), Err(Code::INVALID_VALUE));
}

#[test]
fn an_attached_context_is_destroyed_by_the_last_detach() {
    let mut driver = fresh();
    driver.initialise(0).expect("initialises");
    assert_eq!(driver.attach_context(), Err(Code::INVALID_CONTEXT));
    let context = driver
        .create_context(0, ContextFlags::default())
        .expect("creates");
    assert_eq!(driver.attach_context(), Ok(context));
    driver.detach_context(context).expect("one is left");
    driver.check_context().expect("it is alive");
    driver.detach_context(context).expect("the last");
    assert_eq!(driver.known_context(context), Err(Code::INVALID_CONTEXT));
    assert_eq!(driver.current_context(), None);
    assert_eq!(driver.detach_context(context), Err(Code::INVALID_CONTEXT));
}

#[test]
fn handles_of_one_context_are_invalid_in_another() {
    let mut driver = ready();
    let stream = driver.create_stream(0, 0).expect("a stream");
    let event = driver
        .create_event(EventFlags::from_bits(0).expect("flags"))
        .expect("an event");
    let function = function(&mut driver, "trapped");
    let other = driver
        .create_context(0, ContextFlags::default())
        .expect("another context");
    assert_eq!(driver.check_stream(stream), Err(Code::INVALID_HANDLE));
    assert_eq!(
        driver.record_event(event, StreamHandle::LEGACY),
        Err(Code::INVALID_HANDLE)
    );
    assert_eq!(
        driver.launch(&launch_of(function, &[])),
        Err(Code::INVALID_HANDLE)
    );
    driver.destroy_context(other).expect("destroys");
    assert_eq!(driver.check_stream(stream).map(|_| ()), Ok(()));
}

#[test]
fn every_thread_has_its_own_current_context() {
    let mut driver = ready();
    let here = thread::current().id();
    let there = thread::spawn(|| thread::current().id())
        .join()
        .expect("a thread");
    driver.begin_call(there, None);
    assert_eq!(driver.allocate(4), Err(Code::INVALID_CONTEXT));
    assert_eq!(driver.pop_context(), Err(Code::INVALID_CONTEXT));
    driver.begin_call(here, None);
    assert!(driver.allocate(4).is_ok());
}
