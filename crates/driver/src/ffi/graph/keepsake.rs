//! User objects: what callers want to be kept while a graph is there.

use crate::code::Code;
use crate::ffi::entries;
use crate::ffi::pointer::{Host, Out};
use crate::handle::KeepsakeHandle;
use crate::state::HostWork;

use super::graph_of;

/// The one flag of creation, which must be set: nobody may wait for the destructor.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// The graph gets the caller's own references.
const MOVE: u32 = 1;

fn keepsake_of(object: Host) -> KeepsakeHandle {
    KeepsakeHandle(object.address())
}

entries! {
    /// Takes an object in.
    fn cuUserObjectCreate(object: Out<u64>, data: u64, destroy: u64, references: u32, flags: u32) |driver| {
        let object = object.required()?;
        driver.check_context()?;
        if flags != NO_DESTRUCTOR_SYNC {
            return Err(Code::INVALID_VALUE);
        }
        object.set(driver.create_keepsake(HostWork { function: destroy, data }, references)?.0)
    }

    /// Gives the caller more references.
    fn cuUserObjectRetain(object: Host, count: u32) |driver| {
        driver.retain_keepsake(keepsake_of(object), count)
    }

    /// Takes references back.
    fn cuUserObjectRelease(object: Host, count: u32) |driver| {
        driver.release_keepsake(keepsake_of(object), count)
    }

    /// Gives a graph references.
    fn cuGraphRetainUserObject(graph: Host, object: Host, count: u32, flags: u32) |driver| {
        driver.nodes_of(graph_of(graph))?;
        if flags > MOVE {
            return Err(Code::INVALID_VALUE);
        }
        driver.give_keepsake(graph_of(graph), keepsake_of(object), count, flags == MOVE)
    }

    /// Takes references from a graph.
    fn cuGraphReleaseUserObject(graph: Host, object: Host, count: u32) |driver| {
        driver.take_keepsake(graph_of(graph), keepsake_of(object), count)
    }
}
