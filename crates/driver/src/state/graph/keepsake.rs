//! User objects: objects of the caller with a destructor, which runs when no caller and no graph refers to them any
//! more.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::handle::{GraphHandle, KeepsakeHandle};
use crate::state::Driver;

use super::HostWork;

/// Most references in one call.
const MOST: u32 = i32::MAX as u32;

/// A user object and its references.
#[derive(Debug)]
pub(super) struct Keepsake {
    /// The destructor.
    destroy: HostWork,
    by_callers: u64,
    by_graphs: u64,
}

fn positive(count: u32) -> Result<u64, Code> {
    if (1..=MOST).contains(&count) {
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
    pub fn create_keepsake(
        &mut self,
        destroy: HostWork,
        references: u32,
    ) -> Result<KeepsakeHandle, Code> {
        self.usable()?;
        if destroy.function == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let keepsake = Keepsake {
            destroy,
            by_callers: positive(references)?,
            by_graphs: 0,
        };
        let handle = KeepsakeHandle::nth(self.next_serial());
        self.graphs.keepsakes.insert(handle, keepsake);
        Ok(handle)
    }

    fn keepsake(&mut self, handle: KeepsakeHandle) -> Result<&mut Keepsake, Code> {
        self.usable()?;
        let keepsake = self.graphs.keepsakes.get_mut(&handle);
        keepsake.ok_or(Code::INVALID_VALUE)
    }

    /// Adds references of a caller.
    ///
    /// # Errors
    /// When the handle is stale or the count is not positive.
    pub fn retain_keepsake(&mut self, handle: KeepsakeHandle, count: u32) -> Result<(), Code> {
        let keepsake = self.keepsake(handle)?;
        let sum = keepsake.by_callers.checked_add(positive(count)?);
        keepsake.by_callers = sum.ok_or(Code::INVALID_VALUE)?;
        Ok(())
    }

    /// Removes references of a caller.
    ///
    /// # Errors
    /// When the handle is stale or callers hold fewer references.
    pub fn release_keepsake(&mut self, handle: KeepsakeHandle, count: u32) -> Result<(), Code> {
        let keepsake = self.keepsake(handle)?;
        let left = keepsake.by_callers.checked_sub(positive(count)?);
        keepsake.by_callers = left.ok_or(Code::INVALID_VALUE)?;
        self.bury(handle);
        Ok(())
    }

    /// Adds references of a graph: new ones, or ones moved from the caller.
    ///
    /// # Errors
    /// When a handle is stale or callers hold fewer references.
    pub fn give_keepsake(
        &mut self,
        graph: GraphHandle,
        handle: KeepsakeHandle,
        count: u32,
        from_caller: bool,
    ) -> Result<(), Code> {
        self.graph_of_caller(graph)?;
        let keepsake = self.keepsake(handle)?;
        let count = positive(count)?;
        if from_caller {
            let left = keepsake.by_callers.checked_sub(count);
            keepsake.by_callers = left.ok_or(Code::INVALID_VALUE)?;
        }
        keepsake.by_graphs += count;
        let graph = self.graphs.graphs.get_mut(&graph);
        *graph
            .expect("looked up above")
            .keepsakes
            .entry(handle)
            .or_default() += count;
        Ok(())
    }

    /// Removes references of a graph.
    ///
    /// # Errors
    /// When a handle is stale or the graph holds fewer references.
    pub fn take_keepsake(
        &mut self,
        graph: GraphHandle,
        handle: KeepsakeHandle,
        count: u32,
    ) -> Result<(), Code> {
        self.graph_of_caller(graph)?;
        self.keepsake(handle)?;
        let count = positive(count)?;
        let graph = self.graphs.graphs.get_mut(&graph);
        let held = graph.expect("looked up above").keepsakes.get_mut(&handle);
        let held = held.ok_or(Code::INVALID_VALUE)?;
        *held = held.checked_sub(count).ok_or(Code::INVALID_VALUE)?;
        self.drop_references(&BTreeMap::from([(handle, count)]));
        Ok(())
    }

    /// Adds the references of a graph that was copied.
    pub(super) fn add_references(&mut self, references: &BTreeMap<KeepsakeHandle, u64>) {
        for (handle, count) in references {
            if let Some(keepsake) = self.graphs.keepsakes.get_mut(handle) {
                keepsake.by_graphs += count;
            }
        }
    }

    /// Removes the references of a graph that is dropped.
    pub(super) fn drop_references(&mut self, references: &BTreeMap<KeepsakeHandle, u64>) {
        for (handle, count) in references {
            if let Some(keepsake) = self.graphs.keepsakes.get_mut(handle) {
                keepsake.by_graphs -= count;
            }
            self.bury(*handle);
        }
    }

    /// Schedules the destructor for the end of the current call if no references are left.
    fn bury(&mut self, handle: KeepsakeHandle) {
        let keepsakes = &mut self.graphs.keepsakes;
        let forgotten = keepsakes
            .get(&handle)
            .is_some_and(|keepsake| keepsake.by_callers + keepsake.by_graphs == 0);
        if forgotten && let Some(keepsake) = keepsakes.remove(&handle) {
            self.said.calls.push(keepsake.destroy);
        }
    }
}
