//! The end of a worker: it is idle, or its machine stops or is taken.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lab::{Lab, Process};

use crate::launch;
use crate::stand_in::StandIn;

/// The time within which a worker that is told to stop has finished or returned its job.
const PROMISE: Duration = Duration::from_secs(25);

/// Checks that a worker ends in time and without an error, and that another one evaluates its candidate.
async fn ensure_handed_back(lab: &Lab, told: Instant, worker: Process) -> Result<()> {
    let status = worker.ended().await?;
    let took = told.elapsed();
    let log = worker.log();
    ensure!(status.success(), "{status}: {log}");
    ensure!(took < PROMISE, "it took {took:?}: {log}");
    ensure!(log.contains("handing the lease back"), "{log}");
    let begun = log.rsplit_once("evaluating cand_").context("a candidate")?;
    let candidate: String = begun
        .1
        .chars()
        .take_while(|letter| letter.is_ascii_alphanumeric())
        .collect();
    drop(worker);
    let another = lab.worker("another")?;
    lab.until_logged(&another, &format!("evaluating cand_{candidate}"))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_on_a_machine_that_is_taken_hands_its_job_back_in_time() -> Result<()> {
    let (stand_in, address) = StandIn::start().await?;
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let environment = [
        ("KERNELWRIGHT_PREEMPTION_NOTICE", "gce"),
        ("GCE_METADATA_HOST", address.as_str()),
    ];
    let spot = lab.worker_with("spot", &environment)?;
    launch(&lab).await?;
    lab.until_logged(&spot, "evaluating cand_").await?;
    stand_in.cloud().preempted = true;
    let told = Instant::now();
    lab.until_logged(&spot, "this machine is about to be taken")
        .await?;
    ensure_handed_back(&lab, told, spot).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_gets_sigterm_hands_its_job_back_in_time() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let stopped = lab.worker("stopped")?;
    launch(&lab).await?;
    lab.until_logged(&stopped, "evaluating cand_").await?;
    let told = Instant::now();
    stopped.terminate()?;
    ensure_handed_back(&lab, told, stopped).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_runs_its_command() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let note = lab.path().join("note");
    let command = format!("echo stopped >{}", note.display());
    let start = |name: &str, command: &str| {
        let environment = [
            // Two seconds.
            ("KERNELWRIGHT_IDLE_MINUTES", "0.0333"),
            ("KERNELWRIGHT_IDLE_COMMAND", command),
        ];
        lab.worker_with(name, &environment)
    };
    let idle = start("idle", &command)?;
    let status = idle.ended().await?;
    ensure!(status.success(), "{status}: {}", idle.log());
    assert_eq!(std::fs::read_to_string(&note)?, "stopped\n");
    drop(idle);

    // A unit with `Restart=on-failure` starts this one again.
    let failing = start("failing", "exit 3")?;
    let status = failing.ended().await?;
    assert_eq!(status.code(), Some(3), "{}", failing.log());
    let words = "run the command \"exit 3\" of --idle-command: it ended with exit status: 3";
    ensure!(failing.log().contains(words), "{}", failing.log());
    Ok(())
}
