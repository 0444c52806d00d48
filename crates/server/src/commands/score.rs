//! `score-model`: the emulated device's time model against recorded measurements.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use domain::plan::ResolvedLaunch;
use worker::cancel::Cancellation;
use worker::evaluate::{CompilationInputs, Evaluator, ModelError, Stop, Subject};
use worker::host::{Host, Settings};

use super::eval;
use super::follow::{print, print_json};
use super::serve;
use crate::cli::ScoreModelArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::score::cache::{Cache, Recorded};
use crate::score::kernel::{self, Arguments, Geometry};
use crate::score::{ModelledResult, Score, Scored};

/// Parts of the names that drivers give devices, and the device files that model them. The first
/// that fits counts.
const KNOWN: [(&str, &str); 7] = [
    ("A4000", "a4000"),
    ("A6000", "a6000"),
    ("A100", "a100"),
    ("H100", "h100"),
    ("H200", "h200"),
    ("RTX 4090", "rtx4090"),
    ("L4", "l4"),
];

pub(super) async fn score(args: ScoreModelArgs) -> Ending {
    let cache = Cache::parse(&read(&args.cache)?)
        .with_context(|| format!("use {}", args.cache.display()))
        .map_err(Failure::input)?;
    let source = read(&args.source)?;
    let arguments =
        Arguments::read(&args.arguments).map_err(|reason| Failure::input(anyhow!("{reason}")))?;
    let device = device(&args, &cache)?;
    let geometry = geometry(&args, &cache)?;
    let folder = serve::open_work_folder(&args.folder.data)?;
    let cancellation = eval::cancellation()?;
    let interrupted = cancellation.clone();
    tokio::spawn(async move {
        if serve::stop_requested().await.is_ok() {
            interrupted.cancel();
        }
    });
    let (root, json) = (folder.data().root().to_owned(), args.json);
    let work = move || -> Result<Score, Failure> {
        let mut settings = Settings::from_environment(&root).map_err(Failure::infrastructure)?;
        settings.emulate = true;
        settings.emulated_device = Some(device);
        let host = Host::discover(settings, &cancellation).map_err(Failure::infrastructure)?;
        let evaluator = Evaluator::new(host).map_err(Failure::infrastructure)?;
        ModelledSession {
            evaluator: &evaluator,
            cache: &cache,
            source: &source,
            geometry: &geometry,
            arguments: &arguments,
            blocks: args.blocks,
            cancellation: &cancellation,
        }
        .all(args.limit.unwrap_or(usize::MAX))
    };
    let score = eval::blocking(work).await??;
    if json {
        print_json(&score)?;
    } else {
        print(&score.text())?;
    }
    Ok(Outcome::Accepted)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .with_context(|| format!("read {}", path.display()))
        .map_err(Failure::input)
}

/// The device file that stands for the device that was measured.
fn device(args: &ScoreModelArgs, cache: &Cache) -> Result<String, Failure> {
    if let Some(device) = &args.device {
        return Ok(device.clone());
    }
    KNOWN
        .iter()
        .find(|(part, _)| cache.device.contains(part))
        .map(|(_, id)| (*id).to_owned())
        .ok_or_else(|| {
            let known = KNOWN.map(|(_, id)| id).join(", ");
            Failure::input(anyhow!(
                "find the device: the cache names {:?}; say with --device which of {known} to model",
                cache.device
            ))
        })
}

fn geometry(args: &ScoreModelArgs, cache: &Cache) -> Result<Geometry, Failure> {
    let problem = if args.problem.is_empty() {
        cache.problem.clone()
    } else {
        args.problem.clone()
    };
    if problem.is_empty() {
        return Err(Failure::input(anyhow!(
            "find the problem's extents: the cache does not say; give them with --problem"
        )));
    }
    let block = <[String; 3]>::try_from(args.block.clone()).map_err(|names| {
        Failure::input(anyhow!(
            "read --block: {} names where three are needed",
            names.len()
        ))
    })?;
    Ok(Geometry {
        block,
        problem,
        divisors: [
            args.grid_div_x.clone(),
            args.grid_div_y.clone(),
            args.grid_div_z.clone(),
        ],
    })
}

/// The inputs that all configurations of a tuning session share: evaluator, source, geometry and arguments.
struct ModelledSession<'a> {
    evaluator: &'a Evaluator,
    cache: &'a Cache,
    source: &'a str,
    geometry: &'a Geometry,
    arguments: &'a Arguments,
    blocks: u64,
    cancellation: &'a Cancellation,
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
        let recorded = &self.cache.configurations;
        let timed: Vec<(&Recorded, f64)> = recorded
            .iter()
            .filter_map(|recorded| Some((recorded, recorded.time_ms?)))
            .collect();
        let mut configurations = Vec::new();
        for (recorded, measured_ms) in timed.iter().take(limit) {
            tracing::info!("{}", recorded.key);
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
            kernel: self.cache.kernel.clone(),
            measured_on: self.cache.device.clone(),
            modelled_as: device.name.clone(),
            unmeasured: recorded.len() - timed.len(),
            configurations,
            agreement: None,
        };
        score.compare();
        Ok(score)
    }

    /// Compiles a configuration and models its time.
    fn model(&self, recorded: &Recorded) -> Result<ModelledResult, ConfigurationError> {
        let refused = ConfigurationError::Refused;
        let (block, grid) = self.geometry.resolve(&recorded.values).map_err(refused)?;
        let named = (&self.geometry.block, block);
        let text = kernel::text(self.source, &recorded.values, named, grid);
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
                kernel: self.cache.kernel.clone(),
                grid,
                block,
                shared_bytes: 0,
                cooperative: false,
                arguments: self.arguments.list.clone(),
            },
            buffers: self.arguments.buffers.clone(),
            values: self.arguments.values.clone(),
            blocks: self.blocks,
        };
        let launch =
            self.evaluator
                .model(&subject, self.cancellation)
                .map_err(|error| match error {
                    ModelError::Launch(reason) => ConfigurationError::Refused(reason),
                    ModelError::Fault(error) => {
                        ConfigurationError::Fault(Failure::infrastructure(error))
                    }
                })?;
        let count = |name: &str| launch.counters.get(name).copied();
        let time = launch
            .modelled
            .as_ref()
            .ok_or_else(|| refused("the device gave no modelled time".to_owned()))?;
        Ok(ModelledResult {
            us: time.us,
            bottleneck: time.bottleneck.clone(),
            share: time.share,
            thread_instructions: count("thread_instructions").unwrap_or_default(),
            sampling_error: count("sampling_error_permille").map(|error| error as f64 / 1000.0),
        })
    }
}
