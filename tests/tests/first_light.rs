//! End-to-end tests of playbook and external runs over HTTP, from the launch to the git branch.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use domain::api::{
    CandidateDetail, CandidateState, CandidateSummary, PromotionState, RunRequest, RunState,
    RunView,
};
use domain::search::{Method, Operator, StopReason};
use domain::task::Bundle;
use domain::verdict::VerdictKind;
use lab::Lab;
use serde_json::Value;

fn request(task: &str, method: Method) -> RunRequest {
    RunRequest {
        seed: 1,
        ..RunRequest::new(task, method)
    }
}

fn by_file<'a>(candidates: &'a [CandidateSummary], part: &str) -> Result<&'a CandidateSummary> {
    candidates
        .iter()
        .find(|candidate| matches!(&candidate.operator, Operator::Step { file } if file.contains(part)))
        .with_context(|| format!("no step {part}"))
}

fn time_of(detail: &CandidateDetail, case: &str) -> Result<f64> {
    let evaluation = detail.evaluation.as_ref().context("an evaluation")?;
    let acceptance = evaluation.verdict.acceptance().context("accepted")?;
    let cases = acceptance.timing.cases();
    let time = cases
        .iter()
        .find(|time| time.case == case)
        .context("the case is scored")?;
    Ok(time.us)
}

fn ctas_per_sm(detail: &CandidateDetail, case: &str) -> Result<f64> {
    let evaluation = detail.evaluation.as_ref().context("an evaluation")?;
    let gate = evaluation
        .gates
        .iter()
        .find(|gate| gate.subject.as_str() == "ctas_per_sm" && gate.case.as_deref() == Some(case))
        .context("the gate is recorded for the case")?;
    Ok(gate.found)
}

/// The first three steps of the attention playbook and the fastest one, on tensor cores. `library` evaluates every step.
const ATTENTION_STEPS: [&str; 4] = [
    "playbook/01-shared-tiles.cu",
    "playbook/02-lanes-per-row.cu",
    "playbook/03-kv-split.cu",
    "playbook/12-flash-schedule.cu",
];

/// Tunables of those steps that keep their own value, so that the run has a third of the configurations.
const FIXED: [&str; 4] = ["LANES", "BLOCK_N", "TILE", "CTAS_PER_SM"];

/// A kernel whose tunables of these names have one choice.
fn with_fixed(text: &str, names: &[&str]) -> String {
    let (mut tunable, mut value) = ("", "");
    let lines = text.lines().map(|line| {
        if let Some(name) = line.strip_prefix("[tunables.") {
            tunable = name.trim_end_matches(']');
        } else if let Some(own) = line.strip_prefix("value = ") {
            value = own;
        } else if line.starts_with("choices = ") && names.contains(&tunable) {
            return format!("choices = [{value}]\n");
        }
        format!("{line}\n")
    });
    lines.collect()
}

#[tokio::test]
async fn an_attention_run_ends_on_a_branch_with_its_evidence() -> Result<()> {
    let lab = Lab::with_worker().await?;
    let mut bundle = lab::small_attention()?;
    let is_wanted = |path: &str| !path.starts_with("playbook/") || ATTENTION_STEPS.contains(&path);
    bundle.files.retain(|path, _| is_wanted(path));
    for path in [ATTENTION_STEPS[2], ATTENTION_STEPS[3]] {
        let text = bundle.files.get_mut(path).context("a step")?;
        *text = with_fixed(text, &FIXED);
    }
    let run = lab
        .launch(&bundle, &request("attention-f16", Method::Playbook))
        .await?;
    let run = lab.finished(run.id).await?;
    ensure!(
        matches!(run.state, RunState::Completed { .. }),
        "{}\n{}",
        run.state,
        lab.service_log()
    );

    let candidates = lab.candidates(run.id).await?;
    let accepted = candidates
        .iter()
        .filter(|c| c.verdict == Some(VerdictKind::Accepted))
        .count();
    let tried = |wanted: &str| {
        let of_it = candidates.iter().filter(|c| c.operator.as_str() == wanted);
        of_it.count()
    };
    assert_eq!(tried("step"), ATTENTION_STEPS.len());
    // Their number depends on the steps that are swept, and so on modelled times.
    assert!(tried("sweep") >= 8, "{} configurations", tried("sweep"));
    assert!(accepted >= 5, "{accepted} accepted");
    for candidate in &candidates {
        let root = candidate.operator == Operator::Baseline;
        assert_eq!(candidate.parents.is_empty(), root, "{candidate:?}");
        assert!(candidate.verdict.is_some(), "{candidate:?}");
        let detail = lab.candidate(candidate.id).await?;
        assert!(detail.evaluation.is_some(), "{candidate:?} has no evidence");
        assert!(
            candidate.time_us.is_none() || candidate.modelled,
            "an emulated time is modelled"
        );
    }

    let tiled = lab.candidate(by_file(&candidates, "tiles")?.id).await?;
    let split = lab.candidate(by_file(&candidates, "kv-split")?.id).await?;
    assert!(
        time_of(&split, "starved")? < time_of(&tiled, "starved")?,
        "KV-split wins where blocks are few"
    );
    assert!(
        ctas_per_sm(&split, "starved")? > ctas_per_sm(&tiled, "starved")?,
        "and the gate shows why"
    );

    let promotion = run.promotion.context("a promotion")?;
    let PromotionState::Committed { commit } = &promotion.state else {
        panic!("{promotion:?}")
    };
    assert!(
        promotion
            .branch
            .starts_with("kernelwright-modelled/attention-f16/"),
        "{}",
        promotion.branch
    );
    let repository = git2::Repository::open_bare(&promotion.repository)?;
    let tip = repository
        .find_branch(&promotion.branch, git2::BranchType::Local)?
        .get()
        .peel_to_commit()?;
    assert_eq!(tip.id().to_string(), *commit);
    let winner = lab.candidate(promotion.candidate).await?;
    let entry = tip
        .tree()?
        .get_path(std::path::Path::new("kernels/attention-f16.cu"))?;
    assert_eq!(
        repository.find_blob(entry.id())?.content(),
        winner.source.as_bytes()
    );
    let message = tip.message().context("UTF-8")?.to_owned();
    for trailer in [
        "Candidate: ",
        "Parent: ",
        "Task-Version: ",
        "Device: ",
        "Speedup: ",
        "Verdict-Digest: ",
    ] {
        assert!(
            message.contains(&format!("\n{trailer}")),
            "{trailer}in {message}"
        );
    }
    assert!(message.contains("modelled"), "{message}");
    assert!(
        winner
            .confirmation
            .is_some_and(|confirmation| confirmation.verdict.acceptance().is_some())
    );

    // The next run of its kind is estimated from it.
    let server = lab.address()?;
    let estimate = ["run", "attention-f16", "--estimate", "--server", &server];
    let estimated = lab::kernelwright(&estimate)?;
    ensure!(estimated.status.success(), "{}", estimated.stderr);
    let words = "45 trials of attention-f16 by playbook, by 1 ended run; the middle half took:";
    ensure!(estimated.stdout.starts_with(words), "{}", estimated.stdout);
    let words = "calls           0 to 0, median 0";
    ensure!(estimated.stdout.contains(words), "{}", estimated.stdout);
    let another = [&estimate[..], &["--method", "sweep"]].concat();
    let unknown = lab::kernelwright(&another)?;
    ensure!(
        unknown.stdout.contains("nothing is estimated"),
        "{}",
        unknown.stdout
    );

    // A search of tunables begins with the fastest configurations of this run.
    let (of_run, step) = (run.id.to_string(), ATTENTION_STEPS[3]);
    let sweep = ["run", "attention-f16", "--method", "sweep", "--start", step];
    let rest = [
        "--configurations-of",
        &of_run,
        "--json",
        "--server",
        &server,
    ];
    let begun = lab::kernelwright(&[&sweep[..], &rest[..]].concat())?;
    ensure!(begun.status.success(), "{}", begun.stderr);
    let begun: domain::api::RunView = serde_json::from_str(&begun.stdout)?;
    let first = begun.evolution.first_configurations;
    assert_eq!(first.len(), 8);
    assert_eq!(first[0], winner.summary.configuration);
    Ok(())
}

#[tokio::test]
async fn a_separate_worker_evaluates_a_submitted_candidate() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let _worker = lab.worker("bench")?;
    let bundle = lab::small_softmax()?;
    let task = domain::task::Task::load(&bundle)?;
    let run = lab
        .launch(&bundle, &request("softmax-f32", Method::External))
        .await?;
    let run = lab
        .until(run.id, |view| view.state == RunState::Running)
        .await?;

    let server = lab.address()?;
    let taught = [
        "run",
        "softmax-f32",
        "--method",
        "external",
        "--lessons-of",
        "latest",
        "--server",
        &server,
    ];
    let untaught = lab::kernelwright(&taught)?;
    assert_eq!(untaught.status.code(), Some(2));
    let why = "no run of softmax-f32 has any";
    assert!(untaught.stderr.contains(why), "{}", untaught.stderr);

    let brief: domain::api::Brief = lab.get(&format!("/runs/{}/brief", run.id.uuid())).await?;
    assert!(brief.parent_source.contains("__global__"));
    let (file, step) = &task.playbook[0];
    let good = serde_json::json!({ "source": step.text(), "file": file, "proposer": "lab", "parent": brief.parent });
    let good: CandidateSummary = lab
        .post(&format!("/runs/{}/candidates", run.id.uuid()), &good)
        .await?;
    let bad = serde_json::json!({ "source": "__global__ void k() {}", "proposer": "lab" });
    let bad: CandidateSummary = lab
        .post(&format!("/runs/{}/candidates", run.id.uuid()), &bad)
        .await?;
    assert_eq!(bad.verdict, Some(VerdictKind::ParseRejected));

    lab.until(run.id, |view| view.pending == 0).await?;
    let judged = lab.candidate(good.id).await?.summary;
    assert_eq!(judged.verdict, Some(VerdictKind::Accepted), "{judged:?}");
    assert_eq!(judged.proposer, "lab");
    let _: serde_json::Value = lab
        .post(&format!("/runs/{}/finish", run.id.uuid()), &())
        .await?;
    let done = lab.finished(run.id).await?;
    assert_eq!(
        done.state,
        RunState::Completed {
            reason: StopReason::Requested
        }
    );
    assert_eq!(done.trials, 2);

    let pupil = lab::kernelwright(&taught)?;
    assert_eq!(pupil.status.code(), Some(0), "{}", pupil.stderr);
    let told = format!("with the lessons of {}", run.id);
    assert!(pupil.stderr.contains(&told), "{}", pupil.stderr);

    // Its kin learns from it, and a task of another family is told why it cannot.
    for task in ["softmax-f16", "scan-f32"] {
        let _: serde_json::Value = lab.post("/tasks", &lab::task(task)?).await?;
    }
    let of_family = |task| {
        let run = ["run", task, "--method", "external", "--server", &server];
        lab::kernelwright(&[&run[..], &["--lessons-of", "family"]].concat())
    };
    let kin = of_family("softmax-f16")?;
    assert_eq!(kin.status.code(), Some(0), "{}", kin.stderr);
    assert!(kin.stderr.contains(&told), "{}", kin.stderr);
    let stranger = of_family("scan-f32")?;
    assert_eq!(stranger.status.code(), Some(2));
    let why = "its task.toml names no family";
    assert!(stranger.stderr.contains(why), "{}", stranger.stderr);
    Ok(())
}

/// Two workers of one host have the same name. The second one joins while the first one evaluates, and takes
/// over none of its work, which a service that told workers apart by name alone would give it.
#[tokio::test]
async fn two_workers_of_one_name_share_the_work_without_a_second_attempt() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let _first = lab.worker_in("first", "bench", &[])?;
    let bundle = lab::small_softmax()?;
    let task = domain::task::Task::load(&bundle)?;
    let run = lab
        .launch(&bundle, &request("softmax-f32", Method::External))
        .await?;
    let run = lab
        .until(run.id, |view| view.state == RunState::Running)
        .await?;
    let mut submitted = Vec::new();
    for (file, step) in task.playbook.iter().take(3) {
        let candidate =
            serde_json::json!({ "source": step.text(), "file": file, "proposer": "lab" });
        let candidate: CandidateSummary = lab
            .post(&format!("/runs/{}/candidates", run.id.uuid()), &candidate)
            .await?;
        submitted.push(candidate.id);
    }
    lab.until_workers(|workers| workers.iter().any(|worker| worker.evaluating.is_some()))
        .await?;
    let _second = lab.worker_in("second", "bench", &[])?;
    lab.until_workers(|workers| workers.len() == 2).await?;
    lab.until(run.id, |view| view.pending == 0).await?;

    let workers: Vec<domain::api::WorkerView> = lab.get("/workers").await?;
    let names: Vec<_> = workers.iter().map(|worker| worker.name.as_str()).collect();
    assert_eq!(names, ["bench", "bench"]);
    assert!(workers.iter().all(|worker| worker.alive), "{workers:?}");
    for id in submitted {
        let judged = lab.candidate(id).await?.summary;
        assert_eq!(judged.verdict, Some(VerdictKind::Accepted), "{judged:?}");
    }
    let exported = lab
        .text(&format!("/runs/{}/export?format=jsonl", run.id.uuid()))
        .await?;
    assert!(exported.contains("\"evaluated\""), "{exported}");
    assert!(!exported.contains("\"requeued\""), "{exported}");
    Ok(())
}

/// Submits a kernel at the command line, waits for its verdict, and returns it with the exit code.
fn submit_and_wait(
    lab: &Lab,
    run: domain::id::RunId,
    folder: &Path,
    source: &str,
) -> Result<(Option<i32>, CandidateDetail)> {
    let file = folder.join("kernel.cu");
    std::fs::write(&file, source)?;
    let (run, address) = (run.uuid().to_string(), lab.address()?);
    let file = file.to_str().context("UTF-8")?;
    let finished = lab::kernelwright(&[
        "submit", &run, file, "--wait", "--json", "--server", &address,
    ])?;
    let detail = serde_json::from_str(&finished.stdout)
        .with_context(|| format!("{}{}", finished.stdout, finished.stderr))?;
    Ok((finished.status.code(), detail))
}

#[tokio::test]
async fn a_wrong_program_does_not_get_the_verdict_of_a_similar_text() -> Result<()> {
    const SUM: &str = "    const float inverse = 1.0f / join_block(mass, Sum());\n";
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let _worker = lab.worker("bench")?;
    let bundle = lab::small_softmax()?;
    let task = domain::task::Task::load(&bundle)?;
    let run = lab
        .launch(&bundle, &request("softmax-f32", Method::External))
        .await?
        .id;
    lab.until(run, |view| view.state == RunState::Running)
        .await?;
    let folder = tempfile::tempdir()?;
    let submit = |source: &str| submit_and_wait(&lab, run, folder.path(), source);

    let step = task.playbook[0].1.text();
    ensure!(step.contains(SUM), "the step changed: {step}");
    // The halves make the results right again, unless the comment before continues on their line.
    let halved = |note: &str, factor: &str| {
        let code = format!(
            "    float inverse = 2.0f / join_block(mass, Sum());  // {note}\n    inverse *= {factor};\n"
        );
        step.replacen(SUM, &code, 1)
    };
    let right = halved("twice too large", "0.5f");
    let (code, original) = submit(&right)?;
    assert_eq!(code, Some(0), "{original:?}");
    assert_eq!(original.summary.verdict, Some(VerdictKind::Accepted));

    // Comments are no part of a program: the copy is found, and gets no evaluation of its own.
    let (_, copy) = submit(&halved("too large", "0.5f"))?;
    let of = original.summary.id;
    assert_eq!(copy.summary.state, CandidateState::Duplicate { of });

    let line_number = |text: &str| {
        let line = text.lines().position(|line| line.contains("__LINE__"));
        line.map(|line| line + 1).context("the line is there")
    };
    let number = line_number(&halved("", "__LINE__"))?;
    let numbered = halved("", &format!("__LINE__ == {number} ? 0.5f : 1.0f"));
    let (code, detail) = submit(&numbered)?;
    assert_eq!(code, Some(0), "{detail:?}");

    for (what, wrong, verdict) in [
        (
            "a line continuation in a comment",
            halved("twice too large \\", "0.5f"),
            VerdictKind::IncorrectOutput,
        ),
        (
            "blanks behind the backslash",
            halved("twice too large \\ \t", "0.5f"),
            VerdictKind::IncorrectOutput,
        ),
        (
            "one more empty line",
            numbered.replacen("---*/\n", "---*/\n\n", 1),
            VerdictKind::IncorrectOutput,
        ),
        (
            "code beside the opening fence",
            right.replacen("/*---\n", "/*--- */\n#define expf(x) 0.0f\n/*\n", 1),
            VerdictKind::ParseRejected,
        ),
        (
            "code in the prose of the idea",
            right.replacen(
                "hypothesis = \"\"\"\n",
                "hypothesis = \"\"\"\n*\\\n/\n#define expf(x) 0.0f\n/*\n",
                1,
            ),
            VerdictKind::ParseRejected,
        ),
    ] {
        ensure!(wrong != right, "{what} changes the text");
        let (code, detail) = submit(&wrong)?;
        assert_eq!(code, Some(1), "{what}: {detail:?}");
        assert_eq!(detail.summary.verdict, Some(verdict), "{what}: {detail:?}");
        assert_ne!(
            detail.summary.state,
            CandidateState::Duplicate { of },
            "{what}"
        );
        assert_eq!(detail.summary.verdict_of, None, "{what}");
    }
    Ok(())
}

#[tokio::test]
async fn a_worker_retries_while_its_device_does_not_answer() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let plan = lab.path().join("plan.toml");
    std::fs::write(
        &plan,
        "[[fault]]\ncall = \"cuInit\"\nnth = \"every\"\ndo = { error = 999 }\n",
    )?;
    let worker = lab.worker_with(
        "bench",
        &[("KERNELWRIGHT_FAULT_PLAN", plan.to_str().context("UTF-8")?)],
    )?;
    lab.until_logged(&worker, "trying again").await?;
    std::fs::write(&plan, "")?;
    lab.until_logged(&worker, "joined ").await?;
    assert!(
        worker.log().contains("failed to use the device"),
        "{}",
        worker.log()
    );
    Ok(())
}

#[tokio::test]
async fn a_wait_fails_with_the_log_of_a_worker_that_ended() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&[]).await?;
    let bundle = lab::small_softmax()?;
    let run = lab
        .launch(&bundle, &request("softmax-f32", Method::External))
        .await?;
    // Without a compiler the worker ends at once.
    let _worker = lab.worker_with("bench", &[("KERNELWRIGHT_NVRTC", "/nowhere")])?;
    let error = lab.until(run.id, |_| false).await.unwrap_err().to_string();
    assert!(
        error.starts_with("the worker bench ended with exit status: 3: "),
        "{error}"
    );
    assert!(error.contains("libnvrtc"), "{error}");
    Ok(())
}

/// Results of a run without ids and times.
async fn results(lab: &Lab, run: domain::id::RunId) -> Result<Vec<String>> {
    let candidates = lab.candidates(run).await?;
    let ordinals: BTreeMap<_, _> = candidates.iter().map(|c| (c.id, c.ordinal)).collect();
    Ok(candidates
        .iter()
        .map(|c| {
            let parents = c
                .parents
                .iter()
                .map(|parent| ordinals[parent])
                .collect::<Vec<_>>();
            format!(
                "{} {parents:?} {:?} {:?} {:?} {:?}",
                c.ordinal, c.operator, c.configuration, c.verdict, c.time_us
            )
        })
        .collect())
}

/// A playbook run that ends by itself, with the results of its candidates.
async fn undisturbed_run(bundle: &Bundle, request: &RunRequest) -> Result<(RunView, Vec<String>)> {
    let lab = Lab::with_worker().await?;
    let run = lab.launch(bundle, request).await?;
    let run = lab.finished(run.id).await?;
    let results = results(&lab, run.id).await?;
    Ok((run, results))
}

/// The same run on a service that is killed ten times. The lab holds its promotion.
async fn killed_run(bundle: &Bundle, request: &RunRequest) -> Result<(Lab, RunView, Vec<String>)> {
    use rand::{RngExt as _, SeedableRng as _};

    let mut lab = Lab::with_worker().await?;
    let run = lab.launch(bundle, request).await?;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(20);
    for kill in 0..10 {
        // A drawn number of verdicts after the last kill. Where the run is between two verdicts is
        // left to chance: nothing is asserted about it.
        let further = rng.random_range(0..3);
        let judged = |run: &RunView| run.verdicts.values().sum::<u32>();
        let now: RunView = lab.get(&format!("/runs/{}", run.id.uuid())).await?;
        let wanted = judged(&now) + further;
        lab.until(run.id, |run| run.state.is_over() || judged(run) >= wanted)
            .await?;
        lab.stop();
        lab.serve(&["--with-local-worker"])
            .await
            .with_context(|| format!("restart {kill}"))?;
    }
    let run = lab.finished(run.id).await?;
    let results = results(&lab, run.id).await?;
    Ok((lab, run, results))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playbook_run_killed_ten_times_ends_as_if_undisturbed() -> Result<()> {
    let bundle = lab::small_softmax()?;
    let request = request("softmax-f32", Method::Playbook);
    // Both systems wait for processes much of the time, so they run side by side.
    let ((undisturbed, expected), (_lab, disturbed, results)) = tokio::try_join!(
        undisturbed_run(&bundle, &request),
        killed_run(&bundle, &request)
    )?;
    assert_eq!(results, expected);
    assert_eq!(disturbed.trials, undisturbed.trials);
    assert_eq!(disturbed.verdicts, undisturbed.verdicts);
    assert_eq!(
        disturbed.best.map(|best| best.title),
        undisturbed.best.map(|best| best.title)
    );
    let promotion = disturbed.promotion.context("a promotion")?;
    let repository = git2::Repository::open_bare(&promotion.repository)?;
    let tip = repository
        .find_branch(&promotion.branch, git2::BranchType::Local)?
        .get()
        .peel_to_commit()?;
    assert_eq!(tip.parent_count(), 0, "the winner was committed once");
    Ok(())
}

/// Every candidate's evidence is in the bucket and nowhere on the service's machine; the service gives it out.
#[tokio::test]
#[ignore = "needs an object store: tests/objects cargo nextest run -p lab --run-ignored all"]
async fn evidence_is_kept_in_a_bucket() -> Result<()> {
    let bucket = std::env::var("KERNELWRIGHT_TEST_BUCKET")? + "/lab";
    let mut lab = Lab::new()?;
    lab.serve(&["--evidence-bucket", &bucket]).await?;
    let _worker = lab.worker("bench")?;
    let run = lab
        .launch(
            &lab::small_softmax()?,
            &request("softmax-f32", Method::Playbook),
        )
        .await?;
    let run = lab.finished(run.id).await?;
    ensure!(run.best.is_some(), "no winner\n{}", lab.service_log());

    let mut evidence = Vec::new();
    for candidate in lab.candidates(run.id).await? {
        let detail = lab.candidate(candidate.id).await?;
        let evaluations = [detail.evaluation, detail.confirmation];
        let found = evaluations.iter().flatten().filter_map(|one| one.evidence);
        evidence.extend(found);
    }
    ensure!(evidence.len() > 2, "baseline, winner and confirmation");
    let elsewhere = lab.path().join("elsewhere");
    let elsewhere = elsewhere.to_str().context("a UTF-8 path")?;
    let server = lab.address()?;
    for digest in &evidence {
        // A worker sends evidence beside its next evaluation.
        let began = std::time::Instant::now();
        while lab.text(&format!("/evidence/{digest}")).await.is_err() {
            ensure!(began.elapsed().as_secs() < 60, "{}", lab.service_log());
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let digest = digest.to_string();
        let fetch = [
            "evidence", "fetch", &digest, "--server", &server, "--data", elsewhere,
        ];
        let fetched = lab::kernelwright(&fetch)?;
        ensure!(fetched.status.success(), "{}", fetched.stderr);
    }
    ensure!(!lab.data().join("evidence").exists());

    let data = lab.data();
    let data = data.to_str().context("a UTF-8 path")?;
    let shown = lab::kernelwright(&[
        "storage",
        "--evidence-bucket",
        &bucket,
        "--json",
        "--data",
        data,
    ])?;
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout)?;
    assert_eq!(shown["bucket"]["bundles"], evidence.len());
    Ok(())
}

/// A team that outgrew SQLite copies its database with one command, and its runs are there on Postgres.
#[tokio::test]
#[ignore = "needs a Postgres server: tests/postgres cargo nextest run -p lab --run-ignored all"]
async fn a_team_moves_to_postgres_with_its_runs() -> Result<()> {
    let mut team = Lab::new()?;
    let mut before = Lab::with_data(team.data())?;
    before.serve(&[]).await?;
    let run = before
        .launch(
            &lab::small_softmax()?,
            &request("softmax-f32", Method::External),
        )
        .await?;
    before.stop();

    let data = team.data();
    let data = data.to_str().context("a UTF-8 path")?;
    let url = team.database().context("a Postgres database")?.to_owned();
    let place = ["--data", data, "--database", &url];
    let command = |words: &[&str]| lab::kernelwright(&[words, &place].concat());
    let copied = command(&["database", "copy", "--json"])?;
    ensure!(copied.status.success(), "{}", copied.stderr);
    let copied: Value = serde_json::from_str(&copied.stdout)?;
    let tables = copied["tables"].as_array().context("tables")?;
    let runs = tables.iter().find(|table| table["table"] == "runs");
    assert_eq!(runs.context("the table of runs")?["rows"], 1);
    let again = command(&["database", "copy"])?;
    assert_eq!(again.status.code(), Some(2), "{}", again.stderr);
    ensure!(again.stderr.contains("already"), "{}", again.stderr);
    let migrated = command(&["database", "migrate"])?;
    ensure!(migrated.status.success(), "{}", migrated.stderr);

    team.serve(&[]).await?;
    let moved: RunView = team.get(&format!("/runs/{}", run.id.uuid())).await?;
    assert_eq!((moved.id, moved.name), (run.id, run.name));
    Ok(())
}

/// Programs that collect logs find the ids of what a line is about.
#[tokio::test]
async fn a_log_in_json_has_the_ids_as_fields() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.serve(&["--log-json"]).await?;
    let _worker = lab.worker("bench")?;
    lab.until_workers(|workers| !workers.is_empty()).await?;
    let log = lab.service_log();
    let lines = log.lines().map(serde_json::from_str::<Value>);
    let lines = lines.collect::<Result<Vec<_>, _>>().context(log.clone())?;
    let words = "registered worker";
    let registered = lines.iter().find(|line| {
        let message = line["message"].as_str();
        message.is_some_and(|message| message.contains(words))
    });
    let registered = registered.with_context(|| format!("no line says {words:?}: {log}"))?;
    let id = registered["worker.id"].as_str().context("an id")?;
    ensure!(id.starts_with("work_"), "{registered}");
    assert_eq!(registered["level"], "INFO");
    assert_eq!(registered["span"]["http.path"], "/api/v1/workers");
    Ok(())
}
