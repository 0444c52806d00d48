//! Calls of models: no call is made twice at once, no paid answer is lost, and a call without an
//! answer is no trial.

use std::collections::HashSet;
use std::time::Duration;

use domain::api::{CandidateState, EventKind, ForkOrigin, RunState, ShownCandidates};
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::model::{Ceiling, Dollars, Message, Prompt, Speaker, Usage};
use domain::search::{Draft, EntryState, Operator};
use store::{
    Answer, AnswerEffect, CurveDetail, DueCall, MAX_UNANSWERED, NewCall, NewDraft, NewRun, Store,
    StoreError, WrittenText,
};

use crate::fixture::{Lab, accepted, at, candidate, target, unread};
use crate::older::copy_to_version;

fn cents(cents: f64) -> Dollars {
    Dollars::new(cents / 100.0).expect("an amount")
}

fn call(text: &str) -> NewCall {
    NewCall {
        model: "m".to_owned(),
        seed: 7,
        temperature: 0.5,
        template: "init".to_owned(),
        template_digest: Digest::of("init"),
        prompt: Prompt {
            system: "You write kernels.".to_owned(),
            messages: vec![Message {
                speaker: Speaker::User,
                text: text.to_owned(),
            }],
        },
        dropped: vec!["counters".to_owned()],
        seen: ShownCandidates::default(),
        reserved: Ceiling {
            usage: Usage {
                input: 400,
                output: 600,
                ..Usage::default()
            },
            dollars: cents(2.0),
        },
    }
}

pub fn draft(operator: Operator, parents: &[CandidateId]) -> NewDraft {
    NewDraft {
        draft: Draft {
            trial: operator != Operator::Repair,
            operator,
            generation: 1,
            parents: parents.to_vec(),
            best: parents[0],
            insights: Vec::new(),
            duplicates: Vec::new(),
            attempts: Vec::new(),
            hints: Vec::new(),
            avoided: Vec::new(),
            model: "m".to_owned(),
            seed: 7,
        },
        title: "to be written".to_owned(),
        file: "candidate.cu".to_owned(),
        call: call("Write."),
    }
}

fn answer() -> Answer {
    Answer {
        text: "```cuda\n```".to_owned(),
        complete: true,
        usage: Usage {
            input: 300,
            cached: 100,
            cache_written: 0,
            output: 50,
        },
        usage_estimated: false,
        cost: Some(cents(1.0)),
        answered_by: "m-2026".to_owned(),
        request_id: Some("r1".to_owned()),
        first_token: Some(Duration::from_millis(200)),
        total: Duration::from_millis(1_500),
        attempts: 2,
    }
}

pub fn written(body: &str) -> AnswerEffect {
    let like = candidate(Operator::Init, None, body);
    AnswerEffect::Written {
        text: Box::new(WrittenText {
            title: body.to_owned(),
            source: like.source,
            identity: like.identity,
            configuration: like.configuration,
            idea: like.idea,
            verdict: None,
        }),
        notes: vec!["a note".to_owned()],
    }
}

pub async fn drafted(lab: &Lab, run: RunId, first: u32, drafts: &[NewDraft]) -> Vec<DueCall> {
    let recorded = lab.store.draft_all(run, first, 0, drafts, at(5)).await;
    assert!(recorded.expect("the run is open"));
    lab.store.due_calls(at(5)).await.expect("rows")
}

/// Records an answer. Returns true if it counted.
pub async fn reply(lab: &Lab, call: &DueCall, meaning: &AnswerEffect, now: i64) -> bool {
    let counted = lab.store.answer(call.id, &answer(), meaning, at(now)).await;
    counted.expect("rows")
}

async fn state_of(lab: &Lab, candidate: CandidateId) -> CandidateState {
    let summary = lab.store.summary(candidate).await.expect("rows");
    summary.expect("known").state
}

#[tokio::test]
async fn a_draft_is_a_candidate_that_waits_for_its_model() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    let [due] = due.as_slice() else {
        panic!("{due:?}")
    };
    assert_eq!((due.ordinal, due.turn, due.seed), (1, 0, 7));
    assert_eq!(due.prompt, call("Write.").prompt);
    let waiting = CandidateState::Drafting {
        model: "m".to_owned(),
        trouble: None,
    };
    assert_eq!(state_of(&lab, due.candidate).await, waiting);
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!(
        (view.trials, view.pending),
        (0, 1),
        "nothing is charged yet"
    );
    assert_eq!(view.spend.committed_tokens, 1_000);
    assert_eq!(view.spend.committed_dollars, cents(2.0));
    let snapshot = lab.store.snapshot(run).await.expect("rows");
    assert_eq!(snapshot.entries[1].state, EntryState::Pending);
    assert!(snapshot.entries[1].trial, "it is committed");
}

#[tokio::test]
async fn an_answer_becomes_a_candidate_with_a_job_and_is_accounted_for() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    assert!(reply(&lab, &due[0], &written("fast"), 6).await);
    assert!(
        !reply(&lab, &due[0], &written("other"), 7).await,
        "only the first answer counts"
    );

    let leased = lab.lease(worker, at(8)).await.expect("a job");
    assert_eq!(leased.candidate, due[0].candidate);
    assert!(leased.source.ends_with("fast\n"));
    lab.judge(&leased, accepted(50.0)).await;

    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!(view.trials, 1);
    assert_eq!(view.spend.calls, 1);
    assert_eq!(view.spend.usage, answer().usage);
    assert_eq!(view.spend.dollars, cents(1.0));
    assert_eq!(view.spend.committed_tokens, 0);
    assert_eq!(view.best.expect("accepted").title, "fast");
    let compared = lab.store.compared_run(run, CurveDetail::Costs).await;
    let curve = compared.expect("rows").curve;
    let costs = curve.iter().map(|point| point.spent.expect("asked for"));
    assert_eq!(
        costs.map(|spent| spent.dollars).collect::<Vec<_>>(),
        [cents(0.0), cents(1.0)]
    );
    assert!(lab.store.due_calls(at(9)).await.expect("rows").is_empty());

    let calls = lab.store.calls(due[0].candidate).await.expect("rows");
    let reply = calls[0].reply.as_ref().expect("answered");
    assert_eq!(reply.text, answer().text);
    assert_eq!((reply.cost, reply.attempts), (Some(cents(1.0)), 2));
    assert_eq!(reply.notes, ["a note"]);
    assert_eq!(reply.first_token_ms, Some(200.0));
}

#[tokio::test]
async fn an_unreadable_reply_is_asked_once_more_and_then_a_verdict() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    let candidate = due[0].candidate;
    let again = AnswerEffect::AskAgain {
        unusable: "no kernel".to_owned(),
        call: Box::new(call("Your reply has no kernel.")),
    };
    assert!(reply(&lab, &due[0], &again, 6).await);
    let second = lab.store.due_calls(at(6)).await.expect("rows");
    assert_eq!((second.len(), second[0].turn), (1, 1));
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!(view.trials, 1, "the first reply was paid for");

    let meaning = AnswerEffect::Unusable {
        unusable: "still no kernel".to_owned(),
        verdict: Box::new(unread()),
    };
    assert!(reply(&lab, &second[0], &meaning, 7).await);
    assert_eq!(state_of(&lab, candidate).await, CandidateState::Evaluated);
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!((view.trials, view.spend.calls), (1, 2));
    let calls = lab.store.calls(candidate).await.expect("rows");
    let unusable = |turn: usize| {
        let reply = calls[turn].reply.as_ref().expect("answered");
        reply.unusable.clone().expect("it held none")
    };
    assert_eq!(
        (unusable(0), unusable(1)),
        ("no kernel".to_owned(), "still no kernel".to_owned())
    );
}

#[tokio::test]
async fn what_was_written_before_is_a_duplicate_and_costs_a_trial() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let drafts = [
        draft(Operator::Init, &[baseline]),
        draft(Operator::Crossover, &[baseline, baseline]),
    ];
    let due = drafted(&lab, run, 1, &drafts).await;
    for call in &due {
        assert!(reply(&lab, call, &written("same"), 6).await);
    }
    let of = due[0].candidate;
    assert_eq!(
        state_of(&lab, due[1].candidate).await,
        CandidateState::Duplicate { of }
    );
    let leased = lab.lease(worker, at(7)).await.expect("one job");
    lab.judge(&leased, accepted(50.0)).await;
    assert!(lab.lease(worker, at(8)).await.is_none());
    let snapshot = lab.store.snapshot(run).await.expect("rows");
    assert!(snapshot.entries[2].duplicate && !snapshot.entries[1].duplicate);
    assert_eq!(snapshot.entries[1].state, snapshot.entries[2].state);
    assert_eq!(snapshot.entries[1].thought.as_deref(), Some("same"));
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!(view.trials, 2);
    let summary = lab.store.summary(due[1].candidate).await.expect("rows");
    assert_eq!(summary.expect("known").parents, [baseline, baseline]);
}

#[tokio::test]
async fn silence_is_waited_for_then_pauses_the_run_without_a_trial() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    for time in 1..=i64::from(MAX_UNANSWERED) {
        let now = at(10 * time);
        let failed =
            lab.store
                .unanswered(due[0].id, "it is overloaded", false, at(10 * time + 5), now);
        failed.await.expect("rows");
        let waiting = lab.store.due_calls(at(10 * time + 4)).await.expect("rows");
        assert!(waiting.is_empty());
        let paused = time == i64::from(MAX_UNANSWERED);
        let due = lab.store.due_calls(at(10 * time + 5)).await.expect("rows");
        assert_eq!(due.is_empty(), paused);
    }
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert!(
        matches!(&view.state, RunState::Paused { reason } if reason.contains("it is overloaded")),
        "{}",
        view.state
    );
    assert_eq!(view.trials, 0);
    let waiting = state_of(&lab, due[0].candidate).await;
    assert!(
        matches!(&waiting, CandidateState::Drafting { trouble: Some(why), .. } if why.contains("overloaded")),
        "{waiting:?}"
    );
    lab.store.resume(run, at(100)).await.expect("paused");
    let due = lab.store.due_calls(at(100)).await.expect("rows");
    assert_eq!(due.len(), 1, "resuming asks at once");
    lab.store
        .unanswered(due[0].id, "again", false, at(100), at(100))
        .await
        .expect("rows");
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!(view.state, RunState::Running, "the count starts anew");
}

#[tokio::test]
async fn trouble_that_waiting_does_not_mend_pauses_at_once() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    let failed = lab
        .store
        .unanswered(due[0].id, "the key is wrong", true, at(6), at(6));
    failed.await.expect("rows");
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert!(matches!(view.state, RunState::Paused { .. }));
}

#[tokio::test]
async fn a_decision_about_an_older_state_of_the_run_is_not_carried_out() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let drafts = [draft(Operator::Init, &[baseline])];
    assert!(
        lab.store
            .draft_all(run, 1, 0, &drafts, at(5))
            .await
            .expect("rows")
    );
    assert!(
        !lab.store
            .draft_all(run, 1, 0, &drafts, at(5))
            .await
            .expect("rows")
    );
    assert_eq!(
        lab.store.snapshot(run).await.expect("rows").entries.len(),
        2
    );
    lab.store.cancel(run, at(6)).await.expect("open");
    let refused = lab.store.draft_all(run, 2, 0, &drafts, at(7)).await;
    assert!(matches!(refused, Err(StoreError::WrongState { .. })));
}

#[tokio::test]
async fn a_verdict_wakes_the_search_and_a_draft_or_a_text_does_not() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let mut rows = lab.store.changed_run(run);
    let mut search = lab.store.changed_search(run);
    let mut woken = || {
        let woken = (rows.has_changed().unwrap(), search.has_changed().unwrap());
        rows.mark_unchanged();
        search.mark_unchanged();
        woken
    };
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    assert_eq!(woken(), (true, false));
    assert!(reply(&lab, &due[0], &written("a"), 6).await);
    assert_eq!(woken(), (true, false));
    let leased = lab.lease(worker, at(7)).await.expect("a job");
    lab.judge(&leased, accepted(50.0)).await;
    assert_eq!(woken(), (true, true));
}

#[tokio::test]
async fn what_nobody_waits_for_is_paid_for_and_changes_nothing_else() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let due = drafted(&lab, run, 1, &[draft(Operator::Init, &[baseline])]).await;
    let none = HashSet::new();
    let open = lab.store.open_calls(&none, Some(run), at(6)).await;
    assert!(open.expect("rows").waited_for.contains(&due[0].id));
    let given_up = lab.store.abandon_drafts(run, "time is up", at(6)).await;
    assert_eq!(given_up.expect("rows"), 1);
    let open = lab.store.open_calls(&none, Some(run), at(6)).await;
    assert!(open.expect("rows").waited_for.is_empty());
    assert!(lab.store.due_calls(at(7)).await.expect("rows").is_empty());
    assert!(!reply(&lab, &due[0], &written("late"), 8).await);
    assert!(lab.lease(worker, at(9)).await.is_none());
    let view = lab.store.run(run).await.expect("rows").expect("known");
    assert_eq!((view.trials, view.spend.calls), (0, 1));
    assert_eq!(view.spend.dollars, cents(1.0));
    assert_eq!(view.spend.committed_tokens, 0);
    let events = lab.store.events_after(run, 0, 1_000).await.expect("rows");
    let told = |what: &EventKind| matches!(what, EventKind::Abandoned { reason, .. } if reason == "time is up");
    assert!(events.iter().any(|event| told(&event.what)));
}

#[tokio::test]
async fn a_call_that_is_not_due_any_more_is_not_asked_again() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let drafts = [
        draft(Operator::Init, &[baseline]),
        draft(Operator::Init, &[baseline]),
        draft(Operator::Init, &[baseline]),
    ];
    let due = drafted(&lab, run, 1, &drafts).await;
    let begins = async |call: &DueCall, now| {
        let begun = lab.store.begin_request(call.id, at(now)).await;
        begun.expect("rows")
    };
    let [answered, failed, waiting] = due.as_slice() else {
        panic!("{due:?}")
    };
    for call in &due {
        assert!(begins(call, 6).await);
    }
    assert!(reply(&lab, answered, &written("fast"), 7).await);
    assert!(!begins(answered, 8).await, "it has been answered");
    let put_off = lab
        .store
        .unanswered(failed.id, "it is overloaded", false, at(20), at(8));
    put_off.await.expect("rows");
    assert!(!begins(failed, 9).await, "it has been put off");
    lab.store.pause(run, "a break", at(10)).await.expect("open");
    assert!(!begins(waiting, 11).await, "its run is paused");
}

#[tokio::test]
async fn a_request_interrupted_by_a_kill_is_shown_and_charged_at_most() {
    let lab = Lab::new().await;
    let (run, _, baseline) = lab.running(5).await;
    let drafts = [
        draft(Operator::Init, &[baseline]),
        draft(Operator::Init, &[baseline]),
    ];
    let due = drafted(&lab, run, 1, &drafts).await;
    let spend = async || {
        let view = lab.store.run(run).await.expect("rows").expect("known");
        view.spend
    };
    for expected in 0..3 {
        assert!(
            lab.store
                .begin_request(due[0].id, at(6))
                .await
                .expect("rows")
        );
        let spend = spend().await;
        assert_eq!(
            (spend.interrupted_calls, spend.committed_tokens),
            (expected, 2_000),
            "the latest request is under way"
        );
    }
    assert!(reply(&lab, &due[0], &written("fast"), 7).await);
    assert!(
        lab.store
            .begin_request(due[1].id, at(7))
            .await
            .expect("rows")
    );
    lab.store
        .abandon_drafts(run, "time is up", at(8))
        .await
        .expect("rows");
    let spend = spend().await;
    assert_eq!((spend.calls, spend.interrupted_calls), (1, 3));
    assert_eq!(spend.interrupted_tokens, 3_000);
    assert_eq!(spend.interrupted_dollars, cents(6.0));
    assert_eq!(spend.usage, answer().usage);
    let shown = lab.store.calls(due[0].candidate).await.expect("rows");
    assert_eq!(shown[0].interrupted, 2);
    let shown = lab.store.calls(due[1].candidate).await.expect("rows");
    assert_eq!(shown[0].interrupted, 1);
}

#[tokio::test]
async fn an_older_database_gets_the_totals_of_its_answered_calls() {
    let lab = Lab::sqlite().await;
    let (run, worker, baseline) = lab.running(5).await;
    let init = || draft(Operator::Init, &[baseline]);
    let due = drafted(&lab, run, 1, &[init(), init(), init()]).await;
    // Twice begun and once answered: the first request was interrupted.
    for call in [&due[0], &due[0], &due[1], &due[1]] {
        assert!(lab.store.begin_request(call.id, at(5)).await.expect("rows"));
    }
    assert!(reply(&lab, &due[0], &written("fast"), 6).await);
    let leased = lab.lease(worker, at(8)).await.expect("a job");
    lab.judge(&leased, accepted(50.0)).await;
    let spend = async |store: &store::Store| {
        let view = store.run(run).await.expect("rows").expect("known");
        view.spend
    };
    let before = spend(&lab.store).await;
    assert_eq!((before.calls, before.interrupted_calls), (1, 2));
    assert_eq!(before.committed_tokens, 2_000);

    let mut candidates = vec![baseline];
    candidates.extend(due.iter().map(|call| call.candidate));
    let path = copy_to_version(&lab, 10, &candidates).await;
    let migrated = Store::open(&path).await.expect("migrates");
    assert_eq!(spend(&migrated).await, before);
}

#[tokio::test]
async fn a_snapshot_after_an_earlier_one_is_the_same_as_a_whole_one() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let (mut known, mut settled) = (Vec::new(), 0);
    let mut compare = async |decided: usize| {
        let whole = lab.store.snapshot(run).await.expect("rows");
        let after = lab
            .store
            .snapshot_after(run, std::mem::take(&mut known), settled)
            .await
            .expect("rows");
        assert_eq!(after.entries, whole.entries);
        assert_eq!(after.spend, whole.spend);
        let pending = |entry: &domain::search::Entry| entry.state == EntryState::Pending;
        let found = whole.entries.iter().filter(|entry| !pending(entry)).count();
        assert_eq!(found, decided);
        settled = after.settled;
        known = after.entries;
    };
    compare(1).await;
    let init = || draft(Operator::Init, &[baseline]);
    let due = drafted(&lab, run, 1, &[init(), init(), init()]).await;
    compare(1).await;
    // The second is judged before the first, and the third turns out to repeat it.
    assert!(reply(&lab, &due[1], &written("fast"), 6).await);
    assert!(reply(&lab, &due[2], &written("fast"), 6).await);
    compare(1).await;
    let leased = lab.lease(worker, at(8)).await.expect("a job");
    lab.judge(&leased, accepted(50.0)).await;
    compare(3).await;
    lab.store
        .abandon_drafts(run, "nobody waits for it", at(9))
        .await
        .expect("rows");
    compare(4).await;
    lab.propose(run, &candidate(Operator::Submit, Some(baseline), "more"))
        .await;
    compare(4).await;
}

#[tokio::test]
async fn conversations_of_runs_that_ended_long_ago_are_removed() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(5).await;
    let drafts = [(); 2].map(|()| draft(Operator::Init, &[baseline]));
    let due = drafted(&lab, run, 1, &drafts).await;
    for (call, body) in due.iter().zip(["fast", "faster"]) {
        assert!(reply(&lab, call, &written(body), 6).await);
        let leased = lab.lease(worker, at(8)).await.expect("a job");
        lab.judge(&leased, accepted(50.0)).await;
    }
    // An open run keeps them, however old it is.
    assert_eq!(lab.store.remove_conversations(at(1_000)).await.unwrap(), []);
    lab.store.cancel(run, at(20)).await.unwrap();
    // What happens to the run after its end, such as a fork, does not put the removal off.
    let fork = NewRun {
        request: &lab.store.request(run).await.unwrap(),
        promotion: &target(),
        idempotency_key: None,
        actor: "ada",
        fork: Some(ForkOrigin {
            run,
            candidate: baseline,
            ordinal: 0,
        }),
    };
    lab.store.create_run(fork, at(500)).await.unwrap();
    let before = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!(lab.store.remove_conversations(at(20)).await.unwrap(), []);
    lab.store.ensure_conversations(run).await.unwrap();

    assert_eq!(lab.store.remove_conversations(at(21)).await.unwrap(), [run]);
    for (call, body) in due.iter().zip(["fast", "faster"]) {
        let shown = lab.store.calls(call.candidate).await.unwrap();
        let [shown] = shown.as_slice() else {
            panic!("{shown:?}")
        };
        assert!(shown.prompt.system.starts_with("removed"), "{shown:?}");
        assert_eq!(shown.prompt.messages, []);
        let reply = shown.reply.as_ref().unwrap();
        assert!(reply.text.starts_with("removed"), "{reply:?}");
        assert_eq!(reply.usage, answer().usage);
        // The code stays, although replies repeat it.
        let record = lab.store.candidate(call.candidate).await.unwrap().unwrap();
        assert!(
            record.source.ends_with(&format!("{body}\n")),
            "{}",
            record.source
        );
        assert!(record.evaluation.is_some());
    }
    let error = lab.store.ensure_conversations(run).await.unwrap_err();
    assert!(
        matches!(error, StoreError::ConversationsRemoved { .. }),
        "{error}"
    );
    assert_eq!(
        lab.store.run(run).await.unwrap().unwrap().spend,
        before.spend
    );
    assert_eq!(lab.store.remove_conversations(at(1_000)).await.unwrap(), []);
}
