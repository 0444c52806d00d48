//! Runs whose candidates a model writes; the model is a script.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use domain::api::{CandidateState, CandidateSummary, RunRequest, RunState, RunView};
use domain::evaluation::EvaluationRequest;
use domain::id::RunId;
use domain::model::{Dollars, ModelView, Price, Prompt, ReplyEnd, Usage};
use domain::search::{Budget, Evolution, Method, ModelChoice, Operator, StopReason};
use domain::tuner::Strategy;
use domain::verdict::{Verdict, VerdictKind};
use engine::llm::{CallRequest, Llm, LlmError, ModelServer, Models, Position, Reply};
use engine::{Clock, EngineError};
use futures::future::BoxFuture;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::lab::{Lab, Script, WHO, accepted, body, kernel, rejected, request, value};

/// The model's answer to a call.
pub type Answers = fn(Position) -> Result<String, LlmError>;

pub struct ScriptedModel {
    answers: Mutex<Answers>,
    pub asked: AtomicUsize,
    pub heard: Mutex<BTreeMap<Position, Prompt>>,
}

impl Llm for ScriptedModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut heard = self.heard.lock().expect("nobody panics with it");
        heard.insert(request.position, request.prompt.clone());
        let answers = *self.answers.lock().expect("nobody panics with it");
        let text = answers(request.position);
        Box::pin(async move {
            let text = text?;
            Ok(Reply {
                usage: Usage {
                    input: 100,
                    output: text.len() as u64,
                    ..Usage::default()
                },
                text,
                end: ReplyEnd::Complete,
                usage_estimated: false,
                model: "scripted".to_owned(),
                request_id: None,
                first_token: None,
                total: Duration::from_millis(1),
                attempts: 1,
            })
        })
    }
}

pub fn model(answers: Answers) -> (Arc<ScriptedModel>, Models) {
    let model = Arc::new(ScriptedModel {
        answers: Mutex::new(answers),
        asked: AtomicUsize::new(0),
        heard: Mutex::default(),
    });
    let view = ModelView {
        name: "m".to_owned(),
        api: "openai".to_owned(),
        model: "scripted".to_owned(),
        host: None,
        price: Some(Price {
            input: Dollars::new(10.0).expect("an amount"),
            output: Dollars::new(10.0).expect("an amount"),
            ..Price::default()
        }),
        context_tokens: 100_000,
        max_output_tokens: 1_000,
        concurrency: 4,
    };
    let llm: Arc<dyn Llm> = model.clone();
    (model, Models::of([(view, llm)]))
}

/// Every method that asks models.
const ASKING: [Method; 10] = [
    Method::Free,
    Method::Insight,
    Method::Full,
    Method::Archive,
    Method::BestOf,
    Method::Refine,
    Method::Eoh,
    Method::Funsearch,
    Method::AiCudaEngineer,
    Method::Adaptive,
];

pub fn asking(method: Method, trials: u32) -> RunRequest {
    RunRequest {
        models: vec![ModelChoice {
            name: "m".to_owned(),
            weight: 1.0,
        }],
        evolution: Evolution {
            repairs: 0,
            ..Evolution::default()
        },
        ..request(method, trials)
    }
}

fn fenced(number: u32) -> String {
    format!(
        "```cuda\n{}```\n",
        kernel(&format!("version {number}"), &[])
    )
}

/// A kernel of its own for every candidate.
pub fn diligent(at: Position) -> Result<String, LlmError> {
    Ok(fenced(at.ordinal))
}

/// Later versions are faster; every seventh is wrong.
pub fn later_is_faster(request: &EvaluationRequest) -> Verdict {
    match body(request).strip_prefix("version ") {
        None => accepted(100.0),
        Some(number) => match number.parse::<u32>().expect("a number") {
            number if number % 7 == 0 => rejected("every seventh"),
            number => accepted(90.0 - f64::from(number)),
        },
    }
}

pub async fn candidates(lab: &Lab, run: RunId) -> Vec<CandidateSummary> {
    let page = lab.engine.store().candidates(run, None, None, 1_000).await;
    page.expect("rows").candidates
}

/// The run's candidates without ids and times.
pub async fn story(lab: &Lab, run: RunId) -> Vec<String> {
    let all = candidates(lab, run).await;
    let place = |id| all.iter().position(|candidate| candidate.id == id);
    all.iter()
        .map(|candidate| {
            let parents = candidate.parents.iter().map(|parent| place(*parent));
            format!(
                "{} {} {} {:?} {:?} {:?}",
                candidate.ordinal,
                candidate.operator.as_str(),
                candidate.title,
                candidate.verdict,
                candidate.speedup,
                parents.collect::<Vec<_>>(),
            )
        })
        .collect()
}

#[tokio::test]
async fn full_writes_a_candidate_per_trial_and_promotes_the_fastest() {
    let (model, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let trials = Budget::default().trials;
    let run = lab.launch(asking(Method::Full, trials)).await;
    let view = lab.drive(run, later_is_faster).await;
    assert_eq!(
        view.state,
        RunState::Completed {
            reason: StopReason::Trials
        }
    );
    assert_eq!(view.trials, trials);
    assert_eq!(model.asked.load(Ordering::SeqCst), trials as usize);
    assert_eq!(view.spend.calls, u64::from(trials));
    assert_eq!(view.spend.usage.input, 100 * u64::from(trials));
    let cost = view.spend.usage.total() as f64 * 10.0 / 1e6;
    assert_eq!(Some(view.spend.dollars), Dollars::new(cost));
    let best = view.best.expect("accepted");
    assert_eq!(best.title, format!("version {trials}"));
    assert!(view.promotion.is_some());
    let all = candidates(&lab, run).await;
    let crossed = all.iter().filter(|one| one.operator == Operator::Crossover);
    assert_eq!(crossed.clone().count(), 20);
    assert!(crossed.into_iter().all(|one| one.parents.len() == 2));
}

#[tokio::test]
async fn a_run_of_every_method_promotes_a_candidate() {
    for method in ASKING {
        let (_, models) = model(diligent);
        let lab = Lab::with_models(models).await;
        let run = lab.launch(asking(method, 9)).await;
        let view = lab.drive(run, later_is_faster).await;
        assert!(
            matches!(view.state, RunState::Completed { .. }),
            "{method:?}: {}",
            view.state
        );
        assert!(view.promotion.is_some(), "{method:?}");
        let expected = match method {
            Method::Full => Operator::Crossover,
            // All kernels are of one cell.
            Method::Archive => Operator::Mutation,
            Method::Refine | Method::Funsearch | Method::AiCudaEngineer => Operator::Improve,
            Method::Eoh => Operator::Retune,
            _ => Operator::Init,
        };
        let all = candidates(&lab, run).await;
        assert!(
            all.iter().any(|one| one.operator == expected),
            "{method:?} asks by {}",
            expected.as_str()
        );
    }
}

/// An engine that is dropped at random moments, its calls in the middle of being answered, leaves
/// rows from which the next one makes the same run.
#[tokio::test]
async fn an_engine_that_dies_anywhere_leaves_the_same_run_behind() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Full, 45)).await;
    let undisturbed = lab.drive(run, later_is_faster).await;
    let expected = story(&lab, run).await;

    let (model, models) = model(diligent);
    let mut lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Full, 45)).await;
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for _ in 0..2_000 {
        lab.engine.tick().await.expect("rows");
        if rng.random_bool(0.2) {
            lab.restart().await;
            continue;
        }
        lab.answered().await;
        lab.clock.advance(TimeDelta::seconds(1));
        if rng.random_bool(0.2) {
            lab.restart().await;
        }
        lab.work(later_is_faster).await;
        if lab.view(run).await.state.is_over() {
            break;
        }
    }
    let view = lab.view(run).await;
    assert!(view.state.is_over(), "{}", view.state);
    assert_eq!(story(&lab, run).await, expected);
    assert_eq!(view.spend.usage, undisturbed.spend.usage);
    assert_eq!(view.spend.dollars, undisturbed.spend.dollars);
    let asked = model.asked.load(Ordering::SeqCst) as u64;
    assert_eq!(
        view.spend.calls + view.spend.interrupted_calls,
        asked,
        "every request is counted"
    );
    let title = |view: &RunView| view.best.as_ref().map(|best| best.title.clone());
    assert_eq!(title(&view), title(&undisturbed));
}

pub fn overloaded(_: Position) -> Result<String, LlmError> {
    Err(LlmError::Overloaded {
        server: ModelServer {
            model: "m".to_owned(),
            host: "example.com".to_owned(),
        },
        retry_after: None,
        message: "too many kernels".to_owned(),
    })
}

fn locked(_: Position) -> Result<String, LlmError> {
    Err(LlmError::Auth {
        server: ModelServer {
            model: "m".to_owned(),
            host: "example.com".to_owned(),
        },
        status: 401,
        message: "no such key".to_owned(),
    })
}

fn refusing(_: Position) -> Result<String, LlmError> {
    Err(LlmError::Refused {
        server: ModelServer {
            model: "m".to_owned(),
            host: "example.com".to_owned(),
        },
        message: "it writes no kernels".to_owned(),
    })
}

#[tokio::test]
async fn a_model_that_does_not_answer_pauses_the_run_and_costs_no_trial() {
    let dead: [(Answers, &str); 3] = [
        (overloaded, "too many"),
        (locked, "no such key"),
        (refusing, "no kernels"),
    ];
    for (dead, word) in dead {
        let (model, models) = model(dead);
        let lab = Lab::with_models(models).await;
        let run = lab.launch(asking(Method::Insight, 10)).await;
        let view = lab.drive(run, later_is_faster).await;
        assert!(
            matches!(&view.state, RunState::Paused { reason } if reason.contains(word)),
            "{}",
            view.state
        );
        assert_eq!((view.trials, view.spend.calls), (0, 0));
        *model.answers.lock().expect("nobody panics with it") = diligent;
        let resumed = lab.engine.store().resume(run, lab.clock.now()).await;
        assert_eq!(resumed.expect("paused").state, RunState::Running);
        let view = lab.drive(run, later_is_faster).await;
        assert_eq!(view.trials, 10);
        assert!(view.state.is_over());
    }
}

#[tokio::test]
async fn a_model_that_is_no_longer_configured_pauses_the_run() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Free, 5)).await;
    let orphaned = lab.without_models().await;
    let view = orphaned.drive(run, later_is_faster).await;
    assert!(
        matches!(&view.state, RunState::Paused { reason } if reason.contains("\"m\"")),
        "{}",
        view.state
    );
}

fn prose_first(at: Position) -> Result<String, LlmError> {
    match (at.ordinal, at.turn) {
        (2, 0) => Ok("I would rather explain it.".to_owned()),
        (4, _) => Ok("I will not.".to_owned()),
        (ordinal, _) => Ok(fenced(ordinal)),
    }
}

#[tokio::test]
async fn a_reply_without_a_kernel_gets_one_more_turn_and_is_one_trial() {
    let (model, models) = model(prose_first);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Free, 5)).await;
    let view = lab.drive(run, later_is_faster).await;
    assert_eq!((view.trials, view.spend.calls), (5, 7));
    assert_eq!(view.verdicts[&VerdictKind::ParseRejected], 1);
    let all = candidates(&lab, run).await;
    assert_eq!(all[2].verdict, Some(VerdictKind::Accepted));
    assert_eq!(all[4].verdict, Some(VerdictKind::ParseRejected));

    let heard = model.heard.lock().expect("nobody panics with it").clone();
    let turn = |turn| Position { ordinal: 2, turn };
    let (first, second) = (&heard[&turn(0)], &heard[&turn(1)]);
    assert_eq!(second.messages[..1], first.messages[..1]);
    assert_eq!(second.messages[1].text, "I would rather explain it.");
    assert!(second.messages[2].text.contains("no kernel"));
    let detail = lab.engine.candidate(all[2].id).await.expect("rows");
    let calls = detail.expect("known").calls;
    assert_eq!(calls.len(), 2);
    assert!(
        calls[0]
            .reply
            .as_ref()
            .is_some_and(|reply| reply.unusable.is_some())
    );
}

fn always_the_same(_: Position) -> Result<String, LlmError> {
    Ok(fenced(3))
}

#[tokio::test]
async fn the_same_kernel_again_is_evaluated_once() {
    static EVALUATED: AtomicUsize = AtomicUsize::new(0);
    let counting: Script = |request| {
        EVALUATED.fetch_add(1, Ordering::SeqCst);
        later_is_faster(request)
    };
    let (_, models) = model(always_the_same);
    let lab = Lab::with_models(models).await;
    let run = lab.launch(asking(Method::Insight, 6)).await;
    let view = lab.drive(run, counting).await;
    assert_eq!(view.trials, 6);
    // The baseline, the kernel, and its confirmation.
    assert_eq!(EVALUATED.load(Ordering::SeqCst), 3);
    let all = candidates(&lab, run).await;
    let duplicates = all
        .iter()
        .filter(|one| matches!(one.state, CandidateState::Duplicate { .. }));
    assert_eq!(duplicates.count(), 5);
}

#[tokio::test]
async fn money_and_tokens_are_never_overspent() {
    // A call may cost a little more than a cent and does cost a fifth of one.
    let five_cents = Dollars::new(0.05).expect("an amount");
    let budgets = [
        (Some(five_cents), None, StopReason::Dollars),
        (None, Some(4_000), StopReason::Tokens),
    ];
    for (dollars, tokens, reason) in budgets {
        let (_, models) = model(diligent);
        let lab = Lab::with_models(models).await;
        let mut asked = asking(Method::Free, 45);
        asked.budget = Budget {
            dollars,
            tokens,
            ..asked.budget
        };
        let run = lab.launch(asked).await;
        let view = lab.drive(run, later_is_faster).await;
        assert_eq!(view.state, RunState::Completed { reason });
        assert!(
            view.trials > 0 && view.trials < Budget::default().trials,
            "{}",
            view.trials
        );
        assert!(dollars.is_none_or(|limit| view.spend.dollars <= limit));
        assert!(tokens.is_none_or(|limit| view.spend.usage.total() <= limit));
        assert!(view.promotion.is_some(), "what was found is promoted");
    }
}

#[tokio::test]
async fn a_failed_candidate_is_handed_back_with_its_verdict() {
    let (model, models) = model(|at| {
        // The seventh is wrong; its repair is not.
        Ok(fenced(if at.ordinal == 4 { 7 } else { at.ordinal }))
    });
    let lab = Lab::with_models(models).await;
    let mut asked = asking(Method::Free, 5);
    asked.evolution.repairs = 2;
    let run = lab.launch(asked).await;
    let view = lab.drive(run, later_is_faster).await;
    let all = candidates(&lab, run).await;
    assert_eq!((view.trials, all.len()), (5, 7));
    assert_eq!(all[6].operator, Operator::Repair);
    assert_eq!(all[6].parents, [all[4].id]);
    assert_eq!(all[6].verdict, Some(VerdictKind::Accepted));
    let heard = model.heard.lock().expect("nobody panics with it").clone();
    let prompt = &heard[&Position {
        ordinal: 6,
        turn: 0,
    }];
    let told = prompt.messages.last().expect("a message");
    assert!(told.text.contains("every seventh"), "{}", told.text);
}

#[tokio::test]
async fn a_chain_of_repairs_is_one_lineage_and_ends_after_two() {
    // The fourth is wrong, and so is its first repair; the eleventh and its repairs always are.
    let (model, models) = model(|at| {
        Ok(match at.ordinal {
            4 => fenced(7),
            6 => fenced(14),
            3 => fenced(21),
            7..=9 => fenced(7 * at.ordinal),
            other => fenced(other),
        })
    });
    let lab = Lab::with_models(models).await;
    let mut asked = asking(Method::Free, 5);
    asked.evolution = Evolution::default();
    let run = lab.launch(asked).await;
    let view = lab.drive(run, later_is_faster).await;
    let all = candidates(&lab, run).await;
    assert_eq!(view.trials, 5, "repairs are no trials");
    let chains: Vec<_> = all
        .iter()
        .filter(|candidate| candidate.operator == Operator::Repair)
        .map(|repair| {
            let parent = all.iter().find(|other| repair.parents == [other.id]);
            (repair.ordinal, parent.expect("a parent").ordinal)
        })
        .collect();
    // Both failures of the generation are handed back first, then both repairs that failed too.
    assert_eq!(chains, [(6, 3), (7, 4), (8, 6), (9, 7)]);
    assert_eq!(view.spend.calls, 9);
    let heard = model.heard.lock().expect("nobody panics with it").clone();
    let told = |ordinal| {
        let prompt: &Prompt = &heard[&Position { ordinal, turn: 0 }];
        prompt.messages.last().expect("a message").text.clone()
    };
    assert!(!told(6).contains("Repairs that failed"), "{}", told(6));
    assert!(told(8).contains("Repairs that failed"), "{}", told(8));
    assert!(told(8).contains("every seventh"), "{}", told(8));
}

/// A change that makes a valid request invalid.
type Change = fn(&mut RunRequest);

#[tokio::test]
async fn a_request_that_cannot_work_is_refused_with_every_reason() {
    let (_, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let refused = async |change: Change| {
        let mut asked = asking(Method::Full, 5);
        change(&mut asked);
        match lab.engine.create_run(asked, None, WHO).await {
            Err(EngineError::Invalid(problems)) => problems.to_string(),
            other => panic!("{other:?}"),
        }
    };
    let cases: [(Change, &str); 10] = [
        (|asked| asked.models.clear(), "needs a model"),
        (
            |asked| asked.models[0].name = "n".to_owned(),
            "name one of: m",
        ),
        (|asked| asked.models[0].weight = 0.0, "weights"),
        (|asked| asked.models.push(asked.models[0].clone()), "twice"),
        (|asked| asked.evolution.generations = 0, "generations"),
        (|asked| asked.evolution.temperature = 3.0, "temperature"),
        (|asked| asked.method = Method::Sweep, "asks no model"),
        (
            |asked| {
                asked.method = Method::Playbook;
                asked.models.clear();
                asked.evolution.strategy = Strategy::Greedy;
            },
            "the method playbook asks no model",
        ),
        (
            |asked| asked.lessons = "x".repeat(16_385),
            "at most 16384 are allowed",
        ),
        (
            |asked| {
                asked.method = Method::Free;
                asked.lessons = "Use float4.".to_owned();
            },
            "the method free shows no lessons",
        ),
    ];
    for (change, word) in cases {
        let problems = refused(change).await;
        assert!(problems.contains(word), "{problems}");
    }
}

#[tokio::test]
async fn a_preview_says_what_the_first_call_of_the_next_run_says() {
    for method in ASKING {
        let (model, models) = model(diligent);
        let lab = Lab::with_models(models).await;
        let before = lab.engine.preview(&asking(method, 3)).await;
        assert!(!before.expect("a prompt").unknown.is_empty());
        let run = lab.launch(asking(method, 3)).await;
        lab.drive(run, later_is_faster).await;
        let preview = lab.engine.preview(&asking(method, 3)).await;
        let preview = preview.expect("a prompt");
        let heard = model.heard.lock().expect("nobody panics with it").clone();
        let first = Position {
            ordinal: 1,
            turn: 0,
        };
        assert_eq!(preview.prompt, heard[&first]);
        assert_eq!((preview.unknown.len(), preview.calls), (0, 3));
        let mut mended = asking(method, 3);
        mended.evolution.repairs = 2;
        let preview = lab.engine.preview(&mended).await.expect("a prompt");
        assert_eq!(preview.calls, 9, "each may be repaired twice");
    }
}

#[tokio::test]
async fn lessons_of_a_run_stand_in_the_prompts_of_the_next() {
    let (model, models) = model(diligent);
    let lab = Lab::with_models(models).await;
    let first = lab.launch(asking(Method::Full, 8)).await;
    assert_eq!(lab.engine.lessons(first).await.expect("a text"), "");
    lab.drive(first, later_is_faster).await;
    let lessons = lab.engine.lessons(first).await.expect("a text");
    assert!(lessons.contains("What helped:\n- "), "{lessons}");
    assert!(lessons.contains("What did not help:\n- "), "{lessons}");
    for method in [Method::Full, Method::Insight, Method::BestOf] {
        let mut asked = asking(method, 3);
        asked.lessons.clone_from(&lessons);
        let preview = lab.engine.preview(&asked).await.expect("a prompt");
        assert!(preview.prompt.system.contains(lessons.trim()), "{method:?}");
        model.heard.lock().expect("nobody panics with it").clear();
        let next = lab.launch(asked).await;
        lab.drive(next, later_is_faster).await;
        let heard = model.heard.lock().expect("nobody panics with it").clone();
        assert_eq!(heard.len(), 3);
        for prompt in heard.values() {
            assert!(prompt.system.contains(lessons.trim()), "{method:?}");
        }
    }
    let mut outside = request(Method::External, 3);
    outside.lessons.clone_from(&lessons);
    let outside = lab.launch(outside).await;
    let brief = lab.engine.brief(outside).await.expect("a brief");
    assert!(brief.prompt.system.contains(lessons.trim()));
    assert!(brief.insights.contains(lessons.trim()));
}

/// A kernel with a tile that the tuner may choose.
fn tiled(at: Position) -> Result<String, LlmError> {
    let body = format!("version {}", at.ordinal);
    let text = kernel(&body, &[("TILE", &[16, 32, 64])]);
    Ok(format!("```cuda\n{text}```\n"))
}

/// Later versions are faster, and so are tiles of 32.
fn tile_helps(request: &EvaluationRequest) -> Verdict {
    match body(request).strip_prefix("version ") {
        None => accepted(100.0),
        Some(number) => {
            let number: f64 = number.parse().expect("a number");
            let tile = if value(request, "TILE") == 32 {
                20.0
            } else {
                0.0
            };
            accepted(90.0 - number - tile)
        }
    }
}

#[tokio::test]
async fn the_tuner_sweeps_what_models_write_and_charges_nothing() {
    let mut stories = Vec::new();
    for seed in [None, Some(5)] {
        let (_, models) = model(tiled);
        let mut lab = Lab::with_models(models).await;
        let mut asked = asking(Method::BestOf, 8);
        asked.evolution.sweep_percent = 50;
        let run = lab.launch(asked).await;
        if let Some(seed) = seed {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for _ in 0..40 {
                lab.engine.tick().await.expect("rows");
                lab.answered().await;
                if rng.random_bool(0.5) {
                    lab.restart().await;
                }
                lab.work(tile_helps).await;
            }
        }
        let view = lab.drive(run, tile_helps).await;
        assert_eq!((view.trials, view.spend.calls), (8, 8));
        let all = candidates(&lab, run).await;
        let swept = all.iter().filter(|one| one.operator == Operator::Sweep);
        let count = swept.clone().count();
        assert!(
            (3..=all.len() / 2).contains(&count),
            "{count} of {}",
            all.len()
        );
        let best = view.best.expect("accepted");
        assert_eq!(best.title, "TILE=32");
        assert!(view.promotion.is_some());
        stories.push(story(&lab, run).await);
    }
    assert_eq!(stories[0], stories[1]);
}
