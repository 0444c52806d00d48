//! User objects: objects of the caller with a destructor, which runs when no caller and no graph refers to them any
//! more.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::handle::{GraphHandle, UserObjectHandle};
use crate::state::Driver;

use super::HostWork;

/// Most references in one call.
const MAX_REFERENCES: u32 = i32::MAX as u32;

/// A user object and its references.
#[derive(Debug)]
pub(super) struct UserObject {
    /// The destructor.
    destroy: HostWork,
    by_callers: u64,
    by_graphs: u64,
}

fn positive(count: u32) -> Result<u64, Code> {
    if (1..=MAX_REFERENCES).contains(&count) {
        Ok(u64::from(count))
    } else {
        Err(Code::INVALID_VALUE)
    }
}

impl Driver {
    /// Creates a user object with references that belong to the caller.
    ///
    /// # Errors
    /// Without a context, a destructor or a reference.
    pub fn create_user_object(
        &mut self,
        destroy: HostWork,
        references: u32,
    ) -> Result<UserObjectHandle, Code> {
        self.usable_context()?;
        if destroy.function == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let user_object = UserObject {
            destroy,
            by_callers: positive(references)?,
            by_graphs: 0,
        };
        let handle = UserObjectHandle::nth(self.next_serial());
        self.graphs.user_objects.insert(handle, user_object);
        Ok(handle)
    }

    fn user_object(&mut self, handle: UserObjectHandle) -> Result<&mut UserObject, Code> {
        self.usable_context()?;
        let user_object = self.graphs.user_objects.get_mut(&handle);
        user_object.ok_or(Code::INVALID_VALUE)
    }

    /// Adds references of a caller.
    ///
    /// # Errors
    /// When the handle is stale or the count is not positive.
    pub fn retain_user_object(&mut self, handle: UserObjectHandle, count: u32) -> Result<(), Code> {
        let user_object = self.user_object(handle)?;
        let sum = user_object.by_callers.checked_add(positive(count)?);
        user_object.by_callers = sum.ok_or(Code::INVALID_VALUE)?;
        Ok(())
    }

    /// Removes references of a caller.
    ///
    /// # Errors
    /// When the handle is stale or callers hold fewer references.
    pub fn release_user_object(
        &mut self,
        handle: UserObjectHandle,
        count: u32,
    ) -> Result<(), Code> {
        let user_object = self.user_object(handle)?;
        let left = user_object.by_callers.checked_sub(positive(count)?);
        user_object.by_callers = left.ok_or(Code::INVALID_VALUE)?;
        self.destroy_if_unreferenced(handle);
        Ok(())
    }

    /// Adds references of a graph: new ones, or ones moved from the caller.
    ///
    /// # Errors
    /// When a handle is stale or callers hold fewer references.
    pub fn add_graph_references(
        &mut self,
        graph: GraphHandle,
        handle: UserObjectHandle,
        count: u32,
        from_caller: bool,
    ) -> Result<(), Code> {
        self.graph_of_caller(graph)?;
        let user_object = self.user_object(handle)?;
        let count = positive(count)?;
        if from_caller {
            let left = user_object.by_callers.checked_sub(count);
            user_object.by_callers = left.ok_or(Code::INVALID_VALUE)?;
        }
        user_object.by_graphs += count;
        let graph = self.graphs.graphs.get_mut(&graph);
        *graph
            .expect("looked up above")
            .user_objects
            .entry(handle)
            .or_default() += count;
        Ok(())
    }

    /// Removes references of a graph.
    ///
    /// # Errors
    /// When a handle is stale or the graph holds fewer references.
    pub fn remove_graph_references(
        &mut self,
        graph: GraphHandle,
        handle: UserObjectHandle,
        count: u32,
    ) -> Result<(), Code> {
        self.graph_of_caller(graph)?;
        self.user_object(handle)?;
        let count = positive(count)?;
        let graph = self.graphs.graphs.get_mut(&graph);
        let held = graph
            .expect("looked up above")
            .user_objects
            .get_mut(&handle);
        let held = held.ok_or(Code::INVALID_VALUE)?;
        *held = held.checked_sub(count).ok_or(Code::INVALID_VALUE)?;
        self.drop_references(&BTreeMap::from([(handle, count)]));
        Ok(())
    }

    /// Adds the references of a graph that was copied.
    pub(super) fn add_copied_references(&mut self, references: &BTreeMap<UserObjectHandle, u64>) {
        for (handle, count) in references {
            if let Some(user_object) = self.graphs.user_objects.get_mut(handle) {
                user_object.by_graphs += count;
            }
        }
    }

    /// Removes the references of a graph that is dropped.
    pub(super) fn drop_references(&mut self, references: &BTreeMap<UserObjectHandle, u64>) {
        for (handle, count) in references {
            if let Some(user_object) = self.graphs.user_objects.get_mut(handle) {
                user_object.by_graphs -= count;
            }
            self.destroy_if_unreferenced(*handle);
        }
    }

    /// Schedules the destructor for the end of the current call if no references are left.
    fn destroy_if_unreferenced(&mut self, handle: UserObjectHandle) {
        let user_objects = &mut self.graphs.user_objects;
        let unreferenced = user_objects
            .get(&handle)
            .is_some_and(|user_object| user_object.by_callers + user_object.by_graphs == 0);
        if unreferenced && let Some(user_object) = user_objects.remove(&handle) {
            self.call_output.calls.push(user_object.destroy);
        }
    }
}
