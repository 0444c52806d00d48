//! `score-model`: the emulated device's time model against recorded measurements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use domain::plan::ResolvedLaunch;
use domain::role::LaunchFacts;
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, Evaluator, ModelError, Stop, Subject};
use worker::host::{Host, Settings};

use super::eval;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::ScoreModelArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::score::cache::{Cache, Recorded};
use crate::score::kernel::{self, Argument, Arguments, Geometry};
use crate::score::parts::{self, Bounds};
use crate::score::sessions::Session;
use crate::score::table::Table;
use crate::score::{ModelledResult, Score, Scored};

/// Parts of the names that drivers give devices, and the device files that model them. The first
/// that fits counts.
const KNOWN: [(&str, &str); 8] = [
    ("A4000", "a4000"),
    ("A6000", "a6000"),
    ("A100", "a100"),
    ("H100", "h100"),
    ("H200", "h200"),
    ("RTX 4090", "rtx4090"),
    ("RTX PRO 6000", "rtxpro6000"),
    ("L4", "l4"),
];

pub(super) async fn score(args: ScoreModelArgs) -> Ending {
    let sessions = sessions(&args)?;
    let several = args.sessions.is_some();
    let mut all_files = Vec::new();
    // All files are read before the first session is modelled, which may take an hour.
    for session in sessions {
        all_files.push(SessionFiles::read(session)?);
    }
    let folder = serve::open_work_folder(&args.folder.data)?;
    let cancellation = eval::cancellation()?;
    let interrupted = cancellation.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            interrupted.cancel();
        }
    });
    let root = folder.data().root().to_owned();
    let mut scores = Vec::new();
    for files in all_files {
        let (root, cancellation) = (root.clone(), cancellation.clone());
        let (blocks, limit) = (args.blocks, args.limit.unwrap_or(usize::MAX));
        let score =
            eval::blocking(move || files.score(&root, blocks, limit, &cancellation)).await??;
        if !args.json {
            print(&score.text())?;
        }
        scores.push(score);
    }
    match (several, args.json) {
        (true, true) => print_json(&Table::of(scores))?,
        (true, false) => print(&format!("\n{}", Table::of(scores).text()))?,
        (false, true) => print_json(&scores[0])?,
        (false, false) => {}
    }
    Ok(Outcome::Accepted)
}

/// The sessions that the arguments name or describe.
fn sessions(args: &ScoreModelArgs) -> Result<Vec<Session>, Failure> {
    if let (Some(list), Some(sources)) = (&args.sessions, &args.sources) {
        let folder = list.parent().unwrap_or(Path::new(""));
        return Session::read_all(&read(list)?, folder, sources, &args.only)
            .with_context(|| format!("use {}", list.display()))
            .map_err(Failure::input);
    }
    let (Some(cache), Some(source)) = (&args.cache, &args.source) else {
        unreachable!(
            "the command line has either a list of sessions or a cache file with its source"
        );
    };
    let block = <[String; 3]>::try_from(args.block.clone()).map_err(|names| {
        Failure::input(anyhow!(
            "read --block: {} names where three are needed, such as block_size_x,block_size_y,block_size_z",
            names.len()
        ))
    })?;
    Ok(vec![Session {
        name: None,
        cache: cache.clone(),
        source: source.clone(),
        arguments: args.arguments.clone(),
        folder: PathBuf::new(),
        problem: args.problem.clone(),
        block,
        grid_div_x: args.grid_div_x.clone(),
        grid_div_y: args.grid_div_y.clone(),
        grid_div_z: args.grid_div_z.clone(),
        device: args.device.clone(),
        parts: 1,
        two_parts: None,
        seen: None,
    }])
}

/// A session with the content of its files.
struct SessionFiles {
    session: Session,
    cache: Cache,
    /// The launch of a configuration; of work in parts that with one part and that with two.
    launches: Vec<Inputs>,
    geometry: Geometry,
    device: String,
}

/// The inputs of a launch besides its configuration.
struct Inputs {
    source: String,
    arguments: Arguments,
}

impl Inputs {
    fn read(source: &Path, arguments: &[Argument], folder: &Path) -> Result<Self, Failure> {
        Ok(Self {
            source: read(source)?,
            arguments: Arguments::read(arguments, folder)
                .map_err(|reason| Failure::input(anyhow!("{reason}")))?,
        })
    }
}

impl SessionFiles {
    fn read(session: Session) -> Result<Self, Failure> {
        let shown = session.cache.display();
        let cache = Cache::parse(&read(&session.cache)?)
            .with_context(|| format!("use {shown}"))
            .map_err(Failure::input)?;
        let geometry = session.geometry(&cache.problem);
        if geometry.problem.is_empty() {
            return Err(Failure::input(anyhow!(
                "find the problem's extents: {shown} does not say; give them with --problem, or as `problem` of the session"
            )));
        }
        let folder = &session.folder;
        let mut launches = vec![Inputs::read(&session.source, &session.arguments, folder)?];
        if let Some(two) = &session.two_parts {
            let source = two.source.as_ref().unwrap_or(&session.source);
            launches.push(Inputs::read(source, &two.arguments, folder)?);
        }
        Ok(Self {
            launches,
            device: device(&session, &cache)?,
            geometry,
            cache,
            session,
        })
    }

    fn score(
        &self,
        root: &Path,
        blocks: u64,
        limit: usize,
        cancellation: &Cancellation,
    ) -> Result<Score, Failure> {
        let mut settings = Settings::from_environment(root).map_err(Failure::infrastructure)?;
        settings.emulate = true;
        settings.emulated_device = Some(self.device.clone());
        let host = Host::discover(settings, cancellation).map_err(Failure::infrastructure)?;
        let evaluator = Evaluator::new(host).map_err(Failure::infrastructure)?;
        ModelledSession {
            evaluator: &evaluator,
            files: self,
            blocks,
            cancellation,
        }
        .all(limit)
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("read {}", path.display()))
        .map_err(Failure::input)
}

/// The device file that stands for the device that was measured.
fn device(session: &Session, cache: &Cache) -> Result<String, Failure> {
    if let Some(device) = &session.device {
        return Ok(device.clone());
    }
    KNOWN
        .iter()
        .find(|(part, _)| cache.device.contains(part))
        .map(|(_, id)| (*id).to_owned())
        .ok_or_else(|| {
            let known = KNOWN.map(|(_, id)| id).join(", ");
            let file = session.cache.display();
            Failure::input(anyhow!(
                "find the device: {file} names {:?}; say with --device, or as `device` of the session, which of {known} to \
                 model",
                cache.device
            ))
        })
}

/// The inputs that all configurations of a tuning session share.
struct ModelledSession<'a> {
    evaluator: &'a Evaluator,
    files: &'a SessionFiles,
    blocks: u64,
    cancellation: &'a Cancellation,
}

/// Checks that the bounds of a launch give the time that the device models, by the rule that continues them.
fn check_order(bounds: &Bounds, us: f64) -> Result<(), ConfigurationError> {
    let own = parts::time(bounds);
    if (own / us - 1.0).abs() < 0.01 {
        return Ok(());
    }
    Err(ConfigurationError::Fault(Failure::infrastructure(anyhow!(
        "continue the bounds of a launch: they give {own:.1} us where the device models {us:.1} us, so the emulated \
         driver is of another version than this program; use the libkernelwright_driver.so that was built with it"
    ))))
}

/// The reasons why a configuration has no modelled time.
enum ConfigurationError {
    /// It cannot be built or launched on this device.
    Refused(String),
    /// The infrastructure failed, which ends the command.
    Fault(Failure),
}

impl ModelledSession<'_> {
    /// Every configuration with a time, up to a number of them.
    fn all(&self, limit: usize) -> Result<Score, Failure> {
        let SessionFiles { session, cache, .. } = self.files;
        let recorded = &cache.configurations;
        let timed: Vec<(&Recorded, f64)> = recorded
            .iter()
            .filter_map(|recorded| Some((recorded, recorded.time_ms?)))
            .collect();
        let mut configurations = Vec::new();
        let name = session.name.as_ref().unwrap_or(&cache.kernel);
        let count = timed.len().min(limit);
        for (turn, (recorded, measured_ms)) in (1..).zip(timed.iter().take(limit)) {
            eprintln!("{name}, {}: {turn} of {count}", cache.device);
            let (modelled, refused) = match self.model(recorded) {
                Ok(result) => (Some(result), None),
                Err(ConfigurationError::Refused(reason)) => (None, Some(reason)),
                Err(ConfigurationError::Fault(fault)) => return Err(fault),
            };
            configurations.push(Scored {
                key: recorded.key.clone(),
                measured_ms: *measured_ms,
                refused,
                modelled,
            });
        }
        let device = self.evaluator.host().device();
        let mut score = Score {
            session: name.clone(),
            kernel: cache.kernel.clone(),
            measured_on: cache.device.clone(),
            modelled_as: device.name.clone(),
            parts: session.parts,
            seen: session.seen.clone(),
            unmeasured: recorded.len() - timed.len(),
            configurations,
            agreement: None,
        };
        score.compare();
        Ok(score)
    }

    /// Models the time of a configuration.
    fn model(&self, recorded: &Recorded) -> Result<ModelledResult, ConfigurationError> {
        let SessionFiles {
            launches, session, ..
        } = self.files;
        let first = self.launch(recorded, &launches[0])?;
        let mut bounds = first.modelled_terms;
        let time = first.modelled.ok_or_else(|| {
            ConfigurationError::Refused("the device gave no modelled time".to_owned())
        })?;
        if let Some(two) = launches.get(1) {
            check_order(&bounds, time.us)?;
            let second = self.launch(recorded, two)?;
            bounds = parts::continued(&bounds, &second.modelled_terms, session.parts);
        }
        let us = if launches.len() > 1 {
            parts::time(&bounds)
        } else {
            time.us
        };
        let (bottleneck, bound) = parts::largest(&bounds).unwrap_or_default();
        let count = |name: &str| first.counters.get(name).copied();
        Ok(ModelledResult {
            us,
            bottleneck: bottleneck.to_owned(),
            share: bound / us,
            thread_instructions: count("thread_instructions").unwrap_or_default(),
            sampling_error: count("sampling_error_permille").map(|error| error as f64 / 1000.0),
        })
    }

    /// Compiles a configuration and executes one launch of it.
    fn launch(
        &self,
        recorded: &Recorded,
        inputs: &Inputs,
    ) -> Result<LaunchFacts, ConfigurationError> {
        let refused = ConfigurationError::Refused;
        let Inputs { source, arguments } = inputs;
        let SessionFiles {
            geometry, cache, ..
        } = self.files;
        let (block, grid) = geometry.resolve(&recorded.values).map_err(refused)?;
        let named = (&geometry.block, block);
        let text = kernel::text(source, &recorded.values, named, grid);
        let host = self.evaluator.host();
        let recipe = CompilationInputs {
            source: &text,
            configuration: &BTreeMap::new(),
            headers: &BTreeMap::new(),
            architecture: &host.device().architecture(),
        };
        let compiled =
            self.evaluator
                .build(&recipe, self.cancellation)
                .map_err(|stop| match stop {
                    Stop::Verdict(verdict) => ConfigurationError::Refused(verdict.to_string()),
                    Stop::Fault(error) => ConfigurationError::Fault(Failure::infrastructure(error)),
                })?;
        let subject = Subject {
            compiled: &compiled,
            launch: ResolvedLaunch {
                kernel: cache.kernel.clone(),
                grid,
                block,
                shared_bytes: 0,
                cooperative: false,
                l2_persist: None,
                arguments: arguments.list.clone(),
            },
            buffers: arguments.buffers.clone(),
            values: arguments.values.clone(),
            blocks: self.blocks,
        };
        self.evaluator
            .model(&subject, self.cancellation)
            .map_err(|error| match error {
                ModelError::Launch(reason) => ConfigurationError::Refused(reason),
                ModelError::Fault(error) => {
                    ConfigurationError::Fault(Failure::infrastructure(error))
                }
            })
    }
}
