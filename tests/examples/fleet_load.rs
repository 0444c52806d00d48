//! Measurement of services with many workers. Prints what idle workers cost, and how long requests for leases and
//! reports take while the workers evaluate. Ends with an error if a job was lost or counted twice.
//!
//! The workers are tasks of this program that speak the protocol over HTTP. They evaluate nothing: each waits as long
//! as an evaluation takes and reports the evaluation that a real worker made of the baseline.
//!
//! `cargo build --release --package server --package driver && tests/postgres cargo run --release --package lab
//! --example fleet_load -- 1000 2 3000 20` for 1,000 workers, two services, 3,000 jobs and evaluations of 20 s on average.
//! A fifth number is that of clients that follow the run's events meanwhile.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use domain::api::{CandidateDetail, RunRequest, RunState, RunView, Submission};
use domain::candidate::KernelSource;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::id::{JobId, RunId, WorkerId};
use domain::lease::{HEARTBEAT_SECONDS, Receipt, Registered, Registration, Renewal};
use domain::plan::Configuration;
use domain::search::{Budget, Method};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use lab::Lab;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Value, json};

/// The time for which idle workers are watched.
const WATCHED: Duration = Duration::from_secs(60);
/// The time for which a service holds a request for a lease open.
const POLL: Duration = Duration::from_secs(20);
/// The interval between two lines about the progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// The interval between two renewals of a lease, as real workers have it.
const HEARTBEAT: Duration = Duration::from_secs(HEARTBEAT_SECONDS as u64);
/// The time after a run's end in which its last events arrive.
const LAST_EVENTS: Duration = Duration::from_secs(2);
/// Candidates that are submitted at a time.
const SUBMITTERS: usize = 8;
/// One lease in this many is abandoned, as by a machine that was pre-empted without notice.
const ONE_IN: u32 = 100;

/// The parts of a lease that a worker needs which evaluates nothing.
#[derive(Deserialize)]
struct Leased {
    job: JobId,
    attempt: i64,
    request: Request,
}

/// The candidate of a lease.
#[derive(Deserialize)]
struct Request {
    file: String,
    source: String,
    configuration: Configuration,
}

/// Times of requests in seconds, and the jobs whose reports counted.
#[derive(Default)]
struct Record {
    leases: Vec<f64>,
    renewals: Vec<f64>,
    reports: Vec<f64>,
    accepted: HashSet<JobId>,
    twice: u32,
    abandoned: u32,
}

/// The processes of the services: seconds of processor time and KiB of memory, each summed.
#[derive(Clone, Copy)]
struct Usage {
    seconds: f64,
    resident_kib: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let numbers = std::env::args().skip(1).map(|word| word.parse::<u32>());
    let numbers = numbers
        .collect::<Result<Vec<_>, _>>()
        .context("read the numbers")?;
    let (workers, services, jobs, seconds, listeners) = match numbers[..] {
        [workers, services, jobs, seconds] => (workers, services, jobs, seconds, 0),
        [workers, services, jobs, seconds, listeners] => {
            (workers, services, jobs, seconds, listeners)
        }
        _ => bail!(
            "give the numbers of workers, services and jobs, the seconds of an evaluation, and, if there are any, \
             the number of listeners"
        ),
    };
    let labs = start(services).await?;
    let (run, evaluation) = prepare(&labs[0], jobs).await?;
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    let fleet = Arc::new(Fleet {
        http,
        addresses: labs.iter().map(Lab::address).collect::<Result<_>>()?,
        evaluation,
        mean: Duration::from_secs(u64::from(seconds)),
        jobs,
        record: Mutex::default(),
    });

    let before = usage(&labs)?;
    let registered: Vec<WorkerId> = stream::iter(0..workers)
        .map(|index| register(&fleet, index))
        .buffered(SUBMITTERS)
        .try_collect()
        .await?;
    watch_idle(&fleet, &labs, &registered, before).await?;
    submit(&fleet, run, jobs).await?;
    let listening = (0..listeners as usize).map(|index| {
        let (fleet, count) = (Arc::clone(&fleet), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&count);
        let task = tokio::spawn(async move { fleet.listen(index, run, counted).await });
        (task, count)
    });
    let listening = listening.collect::<Vec<_>>();
    work(&fleet, &labs, &registered).await?;

    let view = labs[0].finished(run).await?;
    tokio::time::sleep(LAST_EVENTS).await;
    let mut counts = Vec::new();
    for (task, count) in listening {
        ensure!(!task.is_finished(), "a listener ended: {:?}", task.await?);
        task.abort();
        counts.push(count.load(Ordering::Relaxed));
    }
    if let (Some(least), Some(most)) = (counts.iter().min(), counts.iter().max()) {
        println!("\nEach of {listeners} listeners received {least} to {most} events.");
        ensure!(
            least == most && *least > u64::from(jobs),
            "events were lost"
        );
    }
    let verdicts = view.verdicts.values().sum::<u32>();
    let record = fleet.record.lock().expect("nobody panics with it");
    println!(
        "\n{} leases were abandoned. {} jobs were accepted twice. The run has {verdicts} verdicts and is {}.",
        record.abandoned, record.twice, view.state
    );
    ensure!(record.twice == 0, "jobs were accepted twice");
    ensure!(verdicts == jobs + 1, "jobs were lost");
    Ok(())
}

/// Starts services on one database: on Postgres where the environment names a server, else one on SQLite.
async fn start(services: u32) -> Result<Vec<Lab>> {
    let mut labs = vec![Lab::new()?];
    for _ in 1..services {
        labs.push(labs[0].beside()?);
    }
    let shared = labs[0].path().join("shared");
    let shared = shared.to_str().context("a path in UTF-8")?.to_owned();
    for lab in &mut labs {
        lab.serve(&["--shared", &shared]).await?;
    }
    Ok(labs)
}

/// Launches a run that takes candidates of others, and has a real worker evaluate its baseline.
async fn prepare(lab: &Lab, jobs: u32) -> Result<(RunId, Evaluation)> {
    let worker = lab.worker("real")?;
    let request = RunRequest {
        budget: Budget {
            trials: jobs,
            ..Budget::default()
        },
        ..RunRequest::new("softmax-f32", Method::External)
    };
    let run = lab.launch(&lab::small_softmax()?, &request).await?.id;
    let is_running = |run: &RunView| run.state == RunState::Running || run.state.is_over();
    lab.until(run, is_running).await?;
    let all = lab.candidates(run).await?;
    let baseline: CandidateDetail = lab.candidate(all[0].id).await?;
    drop(worker);
    let mut evaluation = baseline.evaluation.context("a verdict")?;
    evaluation.stage = EvaluationStage::Search;
    Ok((run, evaluation))
}

/// The simulated workers.
struct Fleet {
    http: reqwest::Client,
    /// Those of the services. Each worker speaks with one.
    addresses: Vec<String>,
    /// The evaluation that every worker reports.
    evaluation: Evaluation,
    /// The mean time of an evaluation.
    mean: Duration,
    jobs: u32,
    record: Mutex<Record>,
}

impl Fleet {
    async fn post(&self, worker: usize, path: &str, body: &Value) -> Result<Option<Value>> {
        let address = &self.addresses[worker % self.addresses.len()];
        let url = format!("{address}/api/v1/{path}");
        let response = self.http.post(&url).json(body).send().await?;
        let status = response.status();
        if status == reqwest::StatusCode::NO_CONTENT {
            return Ok(None);
        }
        let text = response.text().await?;
        ensure!(status.is_success(), "POST {url}: {status}: {text}");
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Follows the run's events, and counts them, until it is aborted.
    async fn listen(&self, index: usize, run: RunId, count: Arc<AtomicU64>) -> Result<()> {
        let address = &self.addresses[index % self.addresses.len()];
        let url = format!("{address}/api/v1/runs/{}/events", run.uuid());
        let response = self.http.get(&url).send().await?.error_for_status()?;
        let mut stream = response.bytes_stream();
        let mut line = Vec::new();
        while let Some(piece) = stream.next().await {
            for byte in piece? {
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                if line.starts_with(b"id:") {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                line.clear();
            }
        }
        bail!("{url} ended")
    }

    async fn lease(&self, index: usize, worker: WorkerId) -> Result<Option<Leased>> {
        let path = format!("workers/{}/lease?wait={}", worker.uuid(), POLL.as_secs());
        let lease = self.post(index, &path, &Value::Null).await?;
        Ok(lease.map(serde_json::from_value).transpose()?)
    }

    /// Takes jobs until all are judged.
    async fn work(&self, index: usize, worker: WorkerId) -> Result<()> {
        let mut rng = ChaCha8Rng::seed_from_u64(index as u64);
        while self.record().accepted.len() < self.jobs as usize {
            let began = Instant::now();
            let Some(leased) = self.lease(index, worker).await? else {
                continue;
            };
            self.record().leases.push(began.elapsed().as_secs_f64());
            let job = leased.job.uuid();
            let renewal = Renewal {
                attempt: leased.attempt,
                stage: "time".to_owned(),
            };
            let renewal = serde_json::to_value(renewal)?;
            let abandoned = rng.random_ratio(1, ONE_IN);
            // Uniform from zero to twice the mean.
            let mut left = self.mean.mul_f64(2.0 * rng.random::<f64>());
            while left > HEARTBEAT && !abandoned {
                tokio::time::sleep(HEARTBEAT).await;
                left -= HEARTBEAT;
                let renewing = format!("leases/{job}/renew");
                self.timed(
                    |record| &mut record.renewals,
                    self.post(index, &renewing, &renewal),
                )
                .await?;
            }
            tokio::time::sleep(left).await;
            if abandoned {
                self.record().abandoned += 1;
                continue;
            }
            let request = leased.request;
            let source = KernelSource::parse(&request.file, request.source)
                .map_err(|problems| anyhow::anyhow!("{problems}"))?;
            let digest = source.candidate_digest(&request.configuration);
            let mut evaluation = self.evaluation.clone();
            evaluation.candidate_digest = Some(digest);
            evaluation.image_digest = Some(digest);
            let outcome = json!({ "kind": "evaluated", "evaluation": evaluation });
            let report = json!({ "attempt": leased.attempt, "outcome": outcome });
            let reporting = format!("leases/{job}/report");
            let receipt = self
                .timed(
                    |record| &mut record.reports,
                    self.post(index, &reporting, &report),
                )
                .await?;
            let receipt: Receipt = serde_json::from_value(receipt.context("a receipt")?)?;
            let mut record = self.record();
            if receipt == Receipt::Accepted && !record.accepted.insert(leased.job) {
                record.twice += 1;
            }
        }
        Ok(())
    }

    /// Waits for a request and keeps the time that it took.
    async fn timed<T>(
        &self,
        times: impl FnOnce(&mut Record) -> &mut Vec<f64>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let began = Instant::now();
        let answer = request.await?;
        times(&mut self.record()).push(began.elapsed().as_secs_f64());
        Ok(answer)
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.lock().expect("nobody panics with it")
    }
}

async fn register(fleet: &Fleet, index: u32) -> Result<WorkerId> {
    let registration = Registration {
        name: format!("simulated-{index}"),
        device: fleet.evaluation.device.clone().context("a device")?,
        toolchain: fleet.evaluation.toolchain.clone().unwrap_or_default(),
        evaluator: EVALUATOR_VERSION,
        instance: Some(format!("simulated-{index}")),
        dollars_per_hour: None,
        declined: Vec::new(),
    };
    let body = serde_json::to_value(registration)?;
    let registered = fleet.post(index as usize, "workers", &body).await?;
    let registered: Registered = serde_json::from_value(registered.context("an identity")?)?;
    Ok(registered.worker)
}

/// Lets every worker ask for jobs while there are none.
async fn watch_idle(
    fleet: &Arc<Fleet>,
    labs: &[Lab],
    workers: &[WorkerId],
    before: Usage,
) -> Result<()> {
    let asking = workers.iter().copied().enumerate().map(|(index, worker)| {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move {
            loop {
                if let Err(error) = fleet.lease(index, worker).await {
                    return error;
                }
            }
        })
    });
    let asking = asking.collect::<Vec<_>>();
    // The first requests are over.
    tokio::time::sleep(POLL).await;
    let (begin, written) = (usage(labs)?, written_bytes()?);
    tokio::time::sleep(WATCHED).await;
    let (end, written_then) = (usage(labs)?, written_bytes()?);
    for task in asking {
        ensure!(!task.is_finished(), "a worker ended: {}", task.await?);
        task.abort();
    }
    let count = workers.len() as f64;
    println!(
        "{} workers without jobs, {} services, {} s: {:.1}% of one processor, {:.1} KiB of memory each, {} bytes written to the database's log each minute.\n",
        workers.len(),
        labs.len(),
        WATCHED.as_secs(),
        100.0 * (end.seconds - begin.seconds) / WATCHED.as_secs_f64(),
        end.resident_kib.saturating_sub(before.resident_kib) as f64 / count,
        written_then
            .zip(written)
            .map_or("unknown".to_owned(), |(then, written)| {
                ((then - written) * 60 / WATCHED.as_secs()).to_string()
            })
    );
    Ok(())
}

/// Fills the queue.
async fn submit(fleet: &Arc<Fleet>, run: RunId, jobs: u32) -> Result<()> {
    let baseline = lab::small_softmax()?;
    let baseline = baseline.files.get("baseline.cu").context("a baseline")?;
    let path = format!("runs/{}/candidates", run.uuid());
    let began = Instant::now();
    stream::iter(0..jobs)
        .map(|number| {
            // Another number makes it another kernel.
            let source = format!("{baseline}\n__device__ int number() {{ return {number}; }}\n");
            let (fleet, path) = (Arc::clone(fleet), path.clone());
            async move {
                let submission = Submission {
                    source,
                    file: None,
                    parent: None,
                    proposer: None,
                    hypothesis: None,
                };
                let body = serde_json::to_value(submission)?;
                fleet.post(number as usize, &path, &body).await.map(drop)
            }
        })
        .buffer_unordered(SUBMITTERS)
        .try_collect::<()>()
        .await?;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{jobs} candidates submitted, {SUBMITTERS} at a time: {:.0} a second.\n",
        f64::from(jobs) / seconds
    );
    Ok(())
}

/// Has the workers judge every job.
async fn work(fleet: &Arc<Fleet>, labs: &[Lab], workers: &[WorkerId]) -> Result<()> {
    let (before, began) = (usage(labs)?, Instant::now());
    let working = workers.iter().copied().enumerate().map(|(index, worker)| {
        let fleet = Arc::clone(fleet);
        tokio::spawn(async move { fleet.work(index, worker).await })
    });
    let mut working = futures::future::try_join_all(working);
    let ended = loop {
        match tokio::time::timeout(PROGRESS, &mut working).await {
            Ok(ended) => break ended,
            Err(_) => eprintln!("{} of {} jobs", fleet.record().accepted.len(), fleet.jobs),
        }
    };
    ended?.into_iter().collect::<Result<()>>()?;
    let (after, seconds) = (usage(labs)?, began.elapsed().as_secs_f64());
    let mut record = fleet.record();
    println!(
        "{} jobs judged in {seconds:.0} s: {:.0} a second, {:.1} ms of the services' processor time each, {:.0} MiB of memory together.\n",
        fleet.jobs,
        f64::from(fleet.jobs) / seconds,
        1000.0 * (after.seconds - before.seconds) / f64::from(fleet.jobs),
        after.resident_kib as f64 / 1024.0
    );
    println!("| request | count | median, ms | 99%, ms | longest, ms |");
    println!("|---|---|---|---|---|");
    let record = &mut *record;
    for (name, times) in [
        ("lease with a job", &mut record.leases),
        ("renewal", &mut record.renewals),
        ("report", &mut record.reports),
    ] {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (times.len() as f64 * share) as usize;
            1000.0
                * times
                    .get(index)
                    .or(times.last())
                    .copied()
                    .unwrap_or_default()
        };
        println!(
            "| {name} | {} | {:.1} | {:.1} | {:.1} |",
            times.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    Ok(())
}

/// Reads the processor time and the memory of all services.
fn usage(labs: &[Lab]) -> Result<Usage> {
    let mut sum = Usage {
        seconds: 0.0,
        resident_kib: 0,
    };
    for lab in labs {
        let told = std::fs::read(lab.data().join("server.json"))?;
        let told: Value = serde_json::from_slice(&told)?;
        let pid = told["pid"].as_u64().context("a process id")?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name of the program, in parentheses, may hold spaces.
        let fields = stat.rsplit(')').next().context("fields")?;
        let fields = fields.split_whitespace().collect::<Vec<_>>();
        let ticks = |index: usize| fields[index].parse::<f64>();
        sum.seconds += (ticks(11)? + ticks(12)?) / 100.0;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident = resident.and_then(|rest| rest.split_whitespace().next());
        sum.resident_kib += resident.context("VmRSS")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// Position in the log of the Postgres server that `tests/postgres` started; none without one.
fn written_bytes() -> Result<Option<u64>> {
    if std::env::var_os("KERNELWRIGHT_TEST_POSTGRES").is_none() {
        return Ok(None);
    }
    let query = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";
    let words = ["--dbname=postgres", "--tuples-only", "--command", query];
    let answer = lab::program("psql".as_ref(), &[], &words)?;
    ensure!(answer.status.success(), "psql: {}", answer.stderr);
    Ok(Some(answer.stdout.trim().parse()?))
}
