//! A run whose model is the simulated author behind HTTP: it reads real prompts, and the evaluator finds
//! what the recorded results say.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result};
use domain::api::{RunRequest, RunState};
use domain::search::{Budget, Method, ModelChoice, Operator, StopReason};
use domain::verdict::VerdictKind;
use lab::Lab;
use lab::model::{Answer, Dialect, ScriptedModel};
use lab::simulated::author::{Author, Step};
use lab::simulated::landscape::Landscape;
use lab::simulated::libraries::{Choices, MARK};
use lab::simulated::reader::{read, reply};

#[tokio::test(flavor = "multi_thread")]
async fn the_simulated_author_reads_prompts_and_its_kernels_are_as_recorded() -> Result<()> {
    let author = Author::of("softmax-f32")?;
    let library = author.library;
    let server = ScriptedModel::start(move |asked| {
        let seed = asked.body["seed"].as_u64().unwrap_or_default();
        Answer::text(reply(&author, asked.last(), seed))
    })
    .await?;
    let mut lab = Lab::new()?;
    std::fs::create_dir_all(lab.data())?;
    let entry = server.entry("simulated", Dialect::OpenAi, "max_output_tokens = 4000");
    std::fs::write(lab.data().join("models.toml"), entry)?;
    lab.serve(&["--with-local-worker"]).await?;
    let request = RunRequest {
        budget: Budget {
            trials: 12,
            ..Budget::default()
        },
        seed: 3,
        models: vec![ModelChoice {
            name: "simulated".to_owned(),
            weight: 1.0,
        }],
        ..RunRequest::new(library.task, Method::Full)
    };
    let run = lab.launch(&lab::task(library.task)?, &request).await?;
    let run = lab.finished(run.id).await?;
    let reason = StopReason::Trials;
    assert_eq!(run.state, RunState::Completed { reason });

    let situations = server.asked();
    let situations = situations.iter().map(|asked| read(library, asked.last()));
    let situations = situations.collect::<Vec<_>>();
    let holds = |what: &dyn Fn(&lab::simulated::author::Situation) -> bool| {
        situations.iter().filter(|one| what(one)).count()
    };
    assert!(holds(&|one| one.bottleneck.is_some()) > 5);
    assert!(holds(&|one| one.step == Step::Merge && one.kernels.len() > 1) > 0);
    assert!(holds(&|one| !one.tried.is_empty()) > 0);
    assert!(holds(&|one| !one.insights.is_empty()) > 0);

    let file = lab::repository().join("tests/simulated/softmax-f32.json");
    let landscape = Landscape::read(&file)?;
    let mut accepted = 0;
    for candidate in lab.candidates(run.id).await? {
        if candidate.operator == Operator::Baseline {
            continue;
        }
        let source = lab.candidate(candidate.id).await?.source;
        let mark = source.split(&format!("// {MARK}")).nth(1);
        let mark = mark
            .and_then(|rest| rest.lines().next())
            .context("a mark")?;
        let choices: Choices = mark.split(',').next().unwrap_or_default().parse()?;
        if candidate.verdict == Some(VerdictKind::Accepted) {
            let us = landscape.kernels.get(&choices).and_then(|found| found.us);
            let us = us.with_context(|| format!("{choices} is not recorded as accepted"))?;
            let found = candidate.time_us.context("a time")?;
            assert!((found / us - 1.0).abs() < 0.01, "{choices}: {found} {us}");
            accepted += 1;
        }
    }
    assert!(accepted > 5, "{accepted}");
    Ok(())
}
