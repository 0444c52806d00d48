//! The number of machines: `start-workers`, and Google Cloud's group with `grow-group` and `leave-group`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lab::{Finished, Lab};

use crate::stand_in::{StandIn, environment};
use crate::{launch, run, settings, text};

/// Waits until three jobs are queued, and no worker has decided a device for them.
async fn until_three_jobs_wait(lab: &Lab) -> Result<()> {
    let metrics = lab.address()? + "/metrics";
    let began = Instant::now();
    loop {
        let text = reqwest::get(&metrics).await?.text().await?;
        if text.contains("kernelwright_jobs{state=\"queued\",device=\"\"} 3") {
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_secs(20), "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs a program of `docker` against the stand-in at an address.
async fn call(program: &str, address: &str, arguments: &[&str]) -> Result<Finished> {
    let environment = environment(address);
    let mut environment = environment
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect::<Vec<_>>();
    environment.push(("WANTED", "1"));
    run(program, &environment, arguments).await
}

async fn start_workers(settings: &Path, address: &str) -> Result<Finished> {
    call("docker/start-workers", address, &[text(settings)?]).await
}

fn ensure_failed(done: &Finished, words: &str) -> Result<()> {
    ensure!(
        done.status.code() == Some(1) && done.stderr.contains(words),
        "no {words:?}: {done:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_grows_with_the_queue_and_machines_leave_it() -> Result<()> {
    let (stand_in, address) = StandIn::start().await?;
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let values = format!(
        "SERVICE={}\nJOBS_PER_WORKER=1\nMAX_WORKERS=2\nSTART_COMMAND=\"docker/gce/grow-group {}\"\n",
        lab.address()?,
        lab.path().join("gce").display()
    );
    let group = settings(lab.path(), &values)?;
    let grow = || start_workers(&group, &address);

    let done = grow().await?;
    assert_eq!(done.stdout, "0 jobs, 0 workers wanted, 0 attached\n");
    for _ in 0..3 {
        launch(&lab).await?;
    }
    until_three_jobs_wait(&lab).await?;

    stand_in.cloud().refusal = Some("Quota 'NVIDIA_L4_GPUS' exceeded. Limit: 0.0 in region here.");
    let done = grow().await?;
    ensure_failed(&done, "with 403: Quota 'NVIDIA_L4_GPUS' exceeded")?;
    assert_eq!(stand_in.cloud().size, Some(0));

    stand_in.cloud().refusal = None;
    stand_in.cloud().failures = vec![
        ("ZONE_RESOURCE_POOL_EXHAUSTED", 1),
        ("ZONE_RESOURCE_POOL_EXHAUSTED", 9),
        ("QUOTA_EXCEEDED", 2),
        ("INTERNAL_ERROR", 11),
    ];
    let done = grow().await?;
    ensure!(
        done.status.success() && done.stdout.contains("from 0 to 2 machines"),
        "{done:?}"
    );
    let shortage = "no machine is free in a zone (2 attempts";
    ensure!(done.stderr.contains(shortage), "{done:?}");
    let quota = "1 machines were not made in 10 minutes: QUOTA_EXCEEDED";
    ensure!(done.stderr.contains(quota), "{done:?}");
    ensure!(!done.stderr.contains("INTERNAL_ERROR"), "{done:?}");
    assert_eq!(stand_in.cloud().size, Some(2));
    let done = grow().await?;
    ensure!(done.stdout.contains("2 machines are enough"), "{done:?}");

    // An idle machine leaves, and the group makes no other in its place.
    let leave = || call("docker/gce/leave-group", &address, &[]);
    let done = leave().await?;
    ensure!(done.status.success(), "{done:?}");
    let machine = "projects/team/zones/here-a/instances/workers-x1";
    assert_eq!(stand_in.cloud().left, [machine]);
    assert_eq!(stand_in.cloud().size, Some(1));
    stand_in.cloud().refusal = Some("Required 'compute.instanceGroupManagers.update' permission");
    ensure_failed(&leave().await?, "permission")?;
    stand_in.cloud().refusal = None;
    // One that no group made is stopped.
    stand_in.cloud().attributes.clear();
    let done = leave().await?;
    ensure!(done.status.success(), "{done:?}");
    assert_eq!(stand_in.cloud().stopped, ["workers-x1"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_starts_workers_gets_the_number_that_is_missing() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let started = lab.path().join("started");
    let values = format!(
        "SERVICE={}\nJOBS_PER_WORKER=2\nMAX_WORKERS=9\nDEVICE='Kernelwright emulated L4'\n\
         START_COMMAND='echo $JOBS jobs, $WANTED - $ATTACHED >>{}'\n",
        lab.address()?,
        started.display()
    );
    let path = settings(lab.path(), &values)?;
    let start = || start_workers(&path, "127.0.0.1:9");
    for _ in 0..3 {
        launch(&lab).await?;
    }
    until_three_jobs_wait(&lab).await?;
    let done = start().await?;
    assert_eq!(done.stdout, "3 jobs, 2 workers wanted, 0 attached\n");
    assert_eq!(std::fs::read_to_string(&started)?, "3 jobs, 2 - 0\n");
    // A command that fails is named.
    settings(lab.path(), &format!("{values}START_COMMAND='exit 7'\n"))?;
    ensure_failed(&start().await?, "START_COMMAND ended with 7: exit 7")?;
    settings(lab.path(), &values)?;

    // Workers of another device do not count.
    let other = [("KERNELWRIGHT_EMULATED_DEVICE", "a100")];
    let others = [
        lab.worker_with("one", &other)?,
        lab.worker_with("two", &other)?,
    ];
    lab.until_workers(|workers| workers.len() == 2).await?;
    let done = start().await?;
    ensure!(done.stdout.ends_with(" 0 attached\n"), "{done:?}");
    drop(others);
    let _same = lab.worker("three")?;
    lab.until_workers(|workers| workers.len() == 3).await?;
    let done = start().await?;
    ensure!(done.stdout.ends_with(" 1 attached\n"), "{done:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_prevents_machines_from_starting_is_said() -> Result<()> {
    let (stand_in, address) = StandIn::start().await?;
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let folder = lab.path().to_owned();
    let service = format!("SERVICE={}\n", lab.address()?);
    let start = async |values: &str| {
        let path = settings(&folder, &(service.clone() + values))?;
        start_workers(&path, &address).await
    };

    let token = folder.join("wrong.token");
    std::fs::write(&token, "wrong\n")?;
    // A service that asks for tokens.
    let wrong = format!(
        "SERVICE=http://{address}/service\nMETRICS_TOKEN_FILE={}\n",
        token.display()
    );
    let refused =
        "/metrics answered 401: METRICS_TOKEN_FILE needs a valid token of the scope viewer";
    ensure_failed(&start(&wrong).await?, refused)?;
    let missing = "METRICS_TOKEN_FILE=/nonexistent/token\n";
    ensure_failed(&start(missing).await?, "/nonexistent/token cannot be read")?;
    let unreachable = start("SERVICE=http://127.0.0.1:9\n").await?;
    ensure_failed(&unreachable, "failed to reach http://127.0.0.1:9/metrics")?;
    let elsewhere = start(&format!("SERVICE=http://{address}\n")).await?;
    ensure_failed(&elsewhere, "/metrics answered 404: check SERVICE")?;
    ensure_failed(&start("START_COMMAND=\n").await?, "has no START_COMMAND")?;

    let path = settings(&folder, "")?;
    let arguments = [text(&path)?];
    let grow = || call("docker/gce/grow-group", &address, &arguments);
    stand_in.cloud().size = None;
    let missing = grow().await?;
    ensure_failed(&missing, "instanceGroupManagers/workers' was not found")?;
    ensure_failed(&missing, "make the group with create-group")?;
    stand_in.cloud().has_account = false;
    ensure_failed(&grow().await?, "run it on a machine with a service account")
}
