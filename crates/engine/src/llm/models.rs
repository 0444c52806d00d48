//! The models that runs may name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use domain::model::ModelView;

use super::Llm;

/// Named models. Clones share them, and with them their limits on rate and concurrency.
#[derive(Clone, Default)]
pub struct Models(Arc<BTreeMap<String, Entry>>);

struct Entry {
    view: ModelView,
    llm: Arc<dyn Llm>,
}

impl Models {
    /// No models: runs that need none still work.
    pub fn none() -> Self {
        Self::default()
    }

    /// Models that are there already, under the names that their views give.
    pub fn of(models: impl IntoIterator<Item = (ModelView, Arc<dyn Llm>)>) -> Self {
        let named = |(view, llm): (ModelView, _)| (view.name.clone(), Entry { view, llm });
        Self(Arc::new(models.into_iter().map(named).collect()))
    }

    /// What is known of each, by name.
    pub fn views(&self) -> Vec<ModelView> {
        self.0.values().map(|entry| entry.view.clone()).collect()
    }

    /// What is known of one.
    pub fn view(&self, name: &str) -> Option<&ModelView> {
        self.0.get(name).map(|entry| &entry.view)
    }

    /// The one to ask.
    pub fn llm(&self, name: &str) -> Option<Arc<dyn Llm>> {
        self.0.get(name).map(|entry| Arc::clone(&entry.llm))
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
