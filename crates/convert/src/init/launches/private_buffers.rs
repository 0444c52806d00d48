//! The buffers that become workspaces: host code allocates them and never reads them back.

use std::collections::{BTreeMap, BTreeSet};

use tree_sitter::Node;

use super::Finder;
use crate::init::Work;
use crate::init::source::{children, line_of};

impl<'s> Finder<'s, '_> {
    /// Finds the buffers that the launching function allocates and never copies back.
    pub(super) fn find_private_buffers(&mut self, work: &mut Work<'_>, host: Node<'s>) {
        let source = self.source;
        let calls = source
            .all(host)
            .into_iter()
            .filter(|node| node.kind() == "call_expression");
        let (mut allocated, mut read_back) = (BTreeMap::new(), BTreeSet::new());
        for call in calls {
            let function = call
                .child_by_field_name("function")
                .map_or("", |node| source.of(node));
            let list = call.child_by_field_name("arguments");
            let arguments = list.map(|list| children(list, true)).unwrap_or_default();
            if function.starts_with("cudaMalloc")
                && let Some(first) = arguments.first()
            {
                let names = source.all(*first).into_iter();
                let name = names.into_iter().rfind(|node| node.kind() == "identifier");
                if let Some(name) = name {
                    allocated.insert(source.of(name).to_owned(), line_of(call));
                }
            }
            if function.starts_with("cudaMemcpy") {
                read_back.extend(arguments.get(1).map(|from| self.root_name(*from)));
            }
        }
        for (root, line) in allocated {
            if let Some(buffer) = self.buffers.get(&root)
                && !read_back.contains(&root)
            {
                work.guess(
                    line,
                    format!("{buffer} is a workspace, because the launching function allocates it"),
                );
                self.plan.private.insert(buffer.clone());
            }
        }
    }
}
