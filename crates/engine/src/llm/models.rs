//! The models that runs may name, read from one file and again when it changes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::model::ModelView;
use domain::problem::{Problem, Problems};
use tracing::{info, warn};

use super::Llm;
use super::cassette::{RecordedModel, Recording};
use super::command::CommandModel;
use super::config::{self, CassetteConfig, CommandConfig, HttpConfig, ModelConfig};
use super::http::HttpModel;

/// Named models. Clones share them, and with them their limits on rate and concurrency.
///
/// The file is read again at each use, so that a service knows the models that the file names now.
/// A model whose entry has not changed keeps its limits and what its server has taught. While the
/// file has defects, the last models without any stay in use.
#[derive(Clone, Default)]
pub struct Models(Arc<SharedModels>);

#[derive(Default)]
struct SharedModels {
    source: Option<ModelsFile>,
    loaded: Mutex<LoadedFile>,
}

/// The source of the models.
struct ModelsFile {
    /// The first of these that is a file is read.
    paths: Vec<PathBuf>,
    /// True if a missing file is a defect, false if it means no models.
    required: bool,
    jitter_seed: u64,
}

/// The models as they were read last.
#[derive(Default)]
struct LoadedFile {
    entries: Arc<ModelsByName>,
    /// The file's text, whether or not it has defects; none where there is no file.
    text: Option<(PathBuf, String)>,
    /// The defects because of which an earlier version of the file is in use.
    defects: Option<Problems>,
}

type ModelsByName = BTreeMap<String, LoadedModel>;

#[derive(Clone)]
struct LoadedModel {
    view: ModelView,
    llm: Arc<dyn Llm>,
    /// The same model where it is one behind HTTP.
    http: Option<Arc<HttpModel>>,
    /// The same model where it is a local program.
    command: Option<Arc<CommandModel>>,
}

impl Models {
    /// No models: runs that need none still work.
    pub fn none() -> Self {
        Self::default()
    }

    /// The models of a file, and the recordings it names. A missing key is reported by the first
    /// call. The pauses between attempts derive from `jitter_seed`: draw one for each process, so
    /// that processes do not come back together.
    ///
    /// # Errors
    /// Every defect with its line.
    pub fn read(path: &Path, jitter_seed: u64) -> Result<Self, Problems> {
        Self::open(ModelsFile {
            paths: vec![path.to_owned()],
            required: true,
            jitter_seed,
        })
    }

    /// The models of the first of `paths` that is a file; none while there is no such file. See
    /// [`Models::read`].
    ///
    /// # Errors
    /// Every defect with its line.
    pub fn find(paths: Vec<PathBuf>, jitter_seed: u64) -> Result<Self, Problems> {
        Self::open(ModelsFile {
            paths,
            required: false,
            jitter_seed,
        })
    }

    fn open(source: ModelsFile) -> Result<Self, Problems> {
        let mut loaded = LoadedFile::default();
        loaded.refresh(&source);
        match loaded.defects.take() {
            Some(defects) => Err(defects),
            None => Ok(Self(Arc::new(SharedModels {
                source: Some(source),
                loaded: Mutex::new(loaded),
            }))),
        }
    }

    /// Models that are there already, under the names that their views give.
    pub fn of(models: impl IntoIterator<Item = (ModelView, Arc<dyn Llm>)>) -> Self {
        let entry = |(view, llm): (ModelView, _)| {
            let name = view.name.clone();
            let (http, command) = (None, None);
            let entry = LoadedModel {
                view,
                llm,
                http,
                command,
            };
            (name, entry)
        };
        let loaded = LoadedFile {
            entries: Arc::new(models.into_iter().map(entry).collect()),
            ..LoadedFile::default()
        };
        Self(Arc::new(SharedModels {
            source: None,
            loaded: Mutex::new(loaded),
        }))
    }

    /// The public settings of every model, by name.
    pub fn views(&self) -> Vec<ModelView> {
        let entries = self.entries();
        entries.values().map(|entry| entry.view.clone()).collect()
    }

    /// The public settings of one model.
    pub fn view(&self, name: &str) -> Option<ModelView> {
        self.entries().get(name).map(|entry| entry.view.clone())
    }

    /// The one to ask.
    pub fn llm(&self, name: &str) -> Option<Arc<dyn Llm>> {
        self.entries().get(name).map(|entry| Arc::clone(&entry.llm))
    }

    /// The fields that a model's server refused since the model's entry was read, as text.
    pub fn learned(&self, name: &str) -> Vec<String> {
        let http = self.http(name);
        http.map(|model| model.learned()).unwrap_or_default()
    }

    /// The reason why a model's key cannot be read now, with how to fix that; none if it can be read
    /// or none is needed.
    pub fn key_problem(&self, name: &str) -> Option<String> {
        self.http(name).and_then(|model| model.key_problem())
    }

    /// The defects of the file as it is now, which keep its latest change from being used.
    pub fn defects(&self) -> Option<Problems> {
        self.loaded().defects.clone()
    }

    fn http(&self, name: &str) -> Option<Arc<HttpModel>> {
        let entries = self.entries();
        entries.get(name).and_then(|entry| entry.http.clone())
    }

    fn entries(&self) -> Arc<ModelsByName> {
        Arc::clone(&self.loaded().entries)
    }

    fn loaded(&self) -> MutexGuard<'_, LoadedFile> {
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = &self.0.source {
            loaded.refresh(source);
        }
        loaded
    }
}

impl ModelsFile {
    /// The file with its text; none where there is no file and none is required.
    fn text(&self) -> Result<Option<(PathBuf, String)>, Problems> {
        let found = self.paths.iter().find(|path| path.is_file());
        let required = self.paths.first().filter(|_| self.required);
        let Some(path) = found.or(required) else {
            return Ok(None);
        };
        let text = text(&path.display().to_string(), path)?;
        Ok(Some((path.clone(), text)))
    }
}

impl LoadedFile {
    /// Reads the file again if its text has changed since it was read last.
    fn refresh(&mut self, source: &ModelsFile) {
        let read = match source.text() {
            Ok(text) if text == self.text => return,
            Ok(None) => {
                self.text = None;
                Ok(ModelsByName::new())
            }
            Ok(Some((path, text))) => {
                let read = entries(&path, &text, source.jitter_seed, &self.entries);
                self.text = Some((path, text));
                read
            }
            Err(unreadable) => {
                self.text = None;
                Err(unreadable)
            }
        };
        match read {
            Ok(entries) => {
                let names = entries.keys().map(String::as_str).collect::<Vec<_>>();
                info!("models: {}", names.join(", "));
                self.entries = Arc::new(entries);
                self.defects = None;
            }
            Err(defects) => {
                if self.defects.as_ref().map(Problems::to_string) != Some(defects.to_string()) {
                    warn!(
                        "failed to read the models file, its earlier models stay in use: {defects}"
                    );
                }
                self.defects = Some(defects);
            }
        }
    }
}

/// The models that a text names. Those that `known` has with the same configuration are taken over.
fn entries(
    path: &Path,
    text: &str,
    jitter_seed: u64,
    known: &ModelsByName,
) -> Result<ModelsByName, Problems> {
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut entries = BTreeMap::new();
    let mut problems = Vec::new();
    let configs = config::read(&name, text, folder)?;
    for (config, seed) in configs.into_iter().zip(jitter_seed..) {
        let entry = match config {
            ModelConfig::Http(config) => Ok(ask_over_http(*config, seed, known)),
            ModelConfig::Command(config) => Ok(ask_program(config, known)),
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
        Ok(entries)
    } else {
        Err(Problems(problems))
    }
}

fn ask_over_http(config: HttpConfig, seed: u64, known: &ModelsByName) -> LoadedModel {
    let view = config.view();
    let same = known.get(&view.name).filter(|entry| {
        let http = entry.http.as_ref();
        http.is_some_and(|model| model.is_configured_as(&config))
    });
    if let Some(same) = same {
        return same.clone();
    }
    let model = Arc::new(HttpModel::new(config, seed));
    LoadedModel {
        view,
        llm: Arc::clone(&model) as Arc<dyn Llm>,
        http: Some(model),
        command: None,
    }
}

fn ask_program(config: CommandConfig, known: &ModelsByName) -> LoadedModel {
    let program = config.program.join(" ");
    let view = config.common.view("command", program, None);
    let same = known.get(&view.name).filter(|entry| {
        let command = entry.command.as_ref();
        command.is_some_and(|model| model.is_configured_as(&config))
    });
    if let Some(same) = same {
        return same.clone();
    }
    let model = Arc::new(CommandModel::new(config));
    LoadedModel {
        view,
        llm: Arc::clone(&model) as Arc<dyn Llm>,
        http: None,
        command: Some(model),
    }
}

fn text(name: &str, path: &Path) -> Result<String, Problems> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot be read: {error}");
        Problem::whole(name, message, "check the path and its rights").into()
    })
}

fn play(config: &CassetteConfig) -> Result<LoadedModel, Problems> {
    let name = config.file.display().to_string();
    let recording = Recording::parse(&name, &text(&name, &config.file)?)?;
    let first = recording.calls().next();
    let model = first.map_or_else(|| "recording".to_owned(), |call| call.model.clone());
    let mut view = config.common.view("cassette", model, None);
    view.price = view.price.or(first.and_then(|call| call.price));
    let player = RecordedModel::new(view.name.clone(), recording, config.prompts);
    Ok(LoadedModel {
        view,
        llm: Arc::new(player),
        http: None,
        command: None,
    })
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries().keys()).finish()
    }
}
