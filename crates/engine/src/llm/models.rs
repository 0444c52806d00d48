//! The models that runs may name: read from one file, or none.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use domain::model::ModelView;
use domain::problem::{Problem, Problems};

use super::Llm;
use super::cassette::{Player, Recording};
use super::config::{self, CassetteConfig, ModelConfig};
use super::http::HttpModel;

/// Named models. Clones share them, and with them their limits on rate and concurrency.
#[derive(Clone, Default)]
pub struct Models(Arc<BTreeMap<String, Entry>>);

struct Entry {
    view: ModelView,
    llm: Arc<dyn Llm>,
    /// The same model where it is one behind HTTP.
    http: Option<Arc<HttpModel>>,
}

impl Models {
    /// No models: runs that need none still work.
    pub fn none() -> Self {
        Self::default()
    }

    /// The models of a file, and the recordings it names. A key that is missing is not found
    /// out before its model is asked. The pauses between attempts derive from `jitter_seed`:
    /// draw one for each process, so that processes do not come back together.
    ///
    /// # Errors
    /// Every defect with its line.
    pub fn read(path: &Path, jitter_seed: u64) -> Result<Self, Problems> {
        let name = path.display().to_string();
        let text = text(&name, path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut entries = BTreeMap::new();
        let mut problems = Vec::new();
        let configs = config::read(&name, &text, folder)?;
        for (config, seed) in configs.into_iter().zip(jitter_seed..) {
            let entry = match config {
                ModelConfig::Http(config) => {
                    let view = config.view();
                    let model = Arc::new(HttpModel::new(*config, seed));
                    Ok(Entry {
                        view,
                        llm: Arc::clone(&model) as Arc<dyn Llm>,
                        http: Some(model),
                    })
                }
                ModelConfig::Cassette(config) => play(&config),
            };
            match entry {
                Ok(entry) => {
                    entries.insert(entry.view.name.clone(), entry);
                }
                Err(Problems(more)) => problems.extend(more),
            }
        }
        if problems.is_empty() {
            Ok(Self(Arc::new(entries)))
        } else {
            Err(Problems(problems))
        }
    }

    /// Models that are there already, under the names that their views give.
    pub fn of(models: impl IntoIterator<Item = (ModelView, Arc<dyn Llm>)>) -> Self {
        let entry = |(view, llm): (ModelView, _)| {
            let name = view.name.clone();
            let http = None;
            (name, Entry { view, llm, http })
        };
        Self(Arc::new(models.into_iter().map(entry).collect()))
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

    /// What a model's server has taught by refusing fields, in words, since this process began.
    pub fn learned(&self, name: &str) -> Vec<String> {
        let http = self.0.get(name).and_then(|entry| entry.http.as_ref());
        http.map(|model| model.learned()).unwrap_or_default()
    }

    /// Why a model's key cannot be had right now, and how to mend that; none if it can, or if
    /// none is needed.
    pub fn key_problem(&self, name: &str) -> Option<String> {
        let http = self.0.get(name).and_then(|entry| entry.http.as_ref());
        http.and_then(|model| model.key_problem())
    }
}

fn text(name: &str, path: &Path) -> Result<String, Problems> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot be read: {error}");
        Problem::whole(name, message, "check the path and its rights").into()
    })
}

fn play(config: &CassetteConfig) -> Result<Entry, Problems> {
    let name = config.file.display().to_string();
    let recording = Recording::parse(&name, &text(&name, &config.file)?)?;
    let first = recording.calls().next();
    let model = first.map_or_else(|| "recording".to_owned(), |call| call.model.clone());
    let mut view = config.basics.view("cassette", model, None);
    view.price = view.price.or(first.and_then(|call| call.price));
    let player = Player::new(view.name.clone(), recording, config.prompts);
    Ok(Entry {
        view,
        llm: Arc::new(player),
        http: None,
    })
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
