//! User objects, whose destructors run when no caller and no graph refers to them any more.

use crate::code::Code;
use crate::ffi::entries;
use crate::ffi::pointer::{Host, Out};
use crate::handle::UserObjectHandle;
use crate::state::HostWork;

use super::graph_of;

/// The only flag of creation, which is mandatory: no call may wait for the destructor.
const NO_DESTRUCTOR_SYNC: u32 = 1;
/// Flag: move the caller's references to the graph.
const MOVE: u32 = 1;

fn user_object_of(object: Host) -> UserObjectHandle {
    UserObjectHandle(object.address())
}

entries! {
    /// Creates a user object.
    fn cuUserObjectCreate(object: Out<u64>, data: u64, destroy: u64, references: u32, flags: u32) |driver| {
        let object = object.required()?;
        driver.check_context()?;
        if flags != NO_DESTRUCTOR_SYNC {
            return Err(Code::INVALID_VALUE);
        }
        object.set(driver.create_user_object(HostWork { function: destroy, data }, references)?.0)
    }

    /// Adds references of the caller.
    fn cuUserObjectRetain(object: Host, count: u32) |driver| {
        driver.retain_user_object(user_object_of(object), count)
    }

    /// Removes references of the caller.
    fn cuUserObjectRelease(object: Host, count: u32) |driver| {
        driver.release_user_object(user_object_of(object), count)
    }

    /// Adds references of a graph.
    fn cuGraphRetainUserObject(graph: Host, object: Host, count: u32, flags: u32) |driver| {
        driver.nodes_of(graph_of(graph))?;
        if flags > MOVE {
            return Err(Code::INVALID_VALUE);
        }
        driver.add_graph_references(graph_of(graph), user_object_of(object), count, flags == MOVE)
    }

    /// Removes references of a graph.
    fn cuGraphReleaseUserObject(graph: Host, object: Host, count: u32) |driver| {
        driver.remove_graph_references(graph_of(graph), user_object_of(object), count)
    }
}
