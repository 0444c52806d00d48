//! Lists of candidates by filter and order, and long runs in columns.

use domain::api::{
    CandidateOrder, CandidateState, Curve, LineageColumns, LineageGenerations, PromotionState,
    PromotionStateName, RunRequest, RunState,
};
use domain::id::{CandidateId, RunId};
use domain::search::{Membership, Method, Operator};
use domain::verdict::{Verdict, VerdictKind};
use store::{CandidateQuery, LineageQuery};

use crate::calls::{draft, drafted, reply, written};
use crate::fixture::{DEVICE, Lab, accepted, at, candidate, request, rounded};

/// A run with candidates 1 to 5: `fast` in 20 us, `wrong`, a copy of `fast`, `faster` made from `fast`
/// in 10 us, and `new` without a verdict.
async fn judged() -> (Lab, RunId, [CandidateId; 6]) {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let judge = async |verdict| {
        let leased = lab.lease(worker, at(4)).await.unwrap();
        lab.judge(&leased, verdict).await;
    };
    let fast = lab.submit(run, baseline, "fast").await;
    judge(accepted(20.0)).await;
    let wrong = lab.submit(run, baseline, "wrong").await;
    let reason = String::new();
    judge(Verdict::LaunchRejected { reason }).await;
    let copy = lab.submit(run, baseline, "fast").await;
    let mut faster = candidate(Operator::Submit, Some(fast), "faster");
    faster.generation = 2;
    faster.further_parents = vec![baseline];
    faster.proposer = "someone".to_owned();
    faster.idea.as_mut().unwrap().hypothesis = "Wide loads help".to_owned();
    let faster = lab.propose(run, &faster).await;
    judge(accepted(10.0)).await;
    let new = lab.submit(run, fast, "new").await;
    (lab, run, [baseline, fast, wrong, copy, faster, new])
}

/// The ordinals of a whole list, read in pages of so many.
async fn ordinals(lab: &Lab, run: RunId, query: &CandidateQuery, limit: u32) -> Vec<u32> {
    let mut query = query.clone();
    let mut ordinals = Vec::new();
    loop {
        let page = lab.store.list_candidates(run, &query, limit).await.unwrap();
        assert!(page.candidates.len() <= limit as usize);
        ordinals.extend(page.candidates.iter().map(|candidate| candidate.ordinal));
        match page.next {
            Some(next) => query.after = Some(next.parse().unwrap()),
            None => return ordinals,
        }
    }
}

#[tokio::test]
async fn lists_are_filtered_and_ordered_in_pages() {
    let (lab, run, _) = judged().await;
    let all = CandidateQuery::default();
    let accepted = CandidateQuery {
        verdict: Some(VerdictKind::Accepted),
        ..all.clone()
    };
    let newest = CandidateQuery {
        order: CandidateOrder::Newest,
        ..all.clone()
    };
    let fastest = CandidateQuery {
        order: CandidateOrder::Fastest,
        ..all.clone()
    };
    let generation = CandidateQuery {
        generation: Some(1),
        ..all.clone()
    };
    let third = CandidateQuery {
        ordinal: Some(3),
        ..all.clone()
    };
    let baseline = CandidateQuery {
        operator: Some("baseline".to_owned()),
        ..all.clone()
    };
    let someone = CandidateQuery {
        proposer: Some("someone".to_owned()),
        ..all.clone()
    };
    let title = CandidateQuery {
        text: Some("FAST".to_owned()),
        ..newest.clone()
    };
    let thought = CandidateQuery {
        text: Some("wide LOADS".to_owned()),
        ..fastest.clone()
    };
    let both = CandidateQuery {
        verdict: Some(VerdictKind::LaunchRejected),
        generation: Some(2),
        ..all.clone()
    };
    let cases: [(&CandidateQuery, &[u32]); 11] = [
        (&all, &[0, 1, 2, 3, 4, 5]),
        (&accepted, &[0, 1, 3, 4]),
        (&newest, &[5, 4, 3, 2, 1, 0]),
        (&fastest, &[4, 1, 3, 0]),
        (&generation, &[1, 2, 3, 5]),
        (&third, &[3]),
        (&baseline, &[0]),
        (&someone, &[4]),
        (&title, &[4, 3, 1]),
        (&thought, &[4]),
        (&both, &[]),
    ];
    for (query, expected) in cases {
        for limit in [1, 2, 100] {
            let found = ordinals(&lab, run, query, limit).await;
            assert_eq!(found, expected, "{query:?} in pages of {limit}");
        }
    }
}

#[tokio::test]
async fn a_lineage_is_cut_by_generation_around_a_candidate_and_in_pages() {
    let (lab, run, _) = judged().await;
    let read = async |query: LineageQuery, limit| {
        let columns = lab.store.lineage_columns(run, &query, limit).await;
        columns.unwrap()
    };
    let whole = read(LineageQuery::default(), 9).await;
    let expected = LineageColumns {
        total: 6,
        last_generation: 2,
        best: Some(4),
        ordinals: vec![0, 1, 2, 3, 4, 5],
        generations: vec![0, 1, 1, 1, 2, 1],
        islands: Vec::new(),
        parents: vec![None, Some(0), Some(0), Some(0), Some(1), Some(1)],
        further_parents: vec![[4, 0]],
        operator_names: vec!["baseline".to_owned(), "submit".to_owned()],
        operators: vec![0, 1, 1, 1, 1, 1],
        outcome_names: ["accepted", "launch_rejected", "pending"]
            .map(str::to_owned)
            .to_vec(),
        outcomes: vec![0, 0, 1, 0, 0, 2],
        duplicates: vec![3],
        speedups: vec![Some(1.0), Some(5.0), None, Some(5.0), Some(10.0), None],
        seconds: vec![3, 3, 3, 1, 3, 1],
        next: None,
    };
    assert_eq!(whole, expected);
    let first = read(LineageQuery::default(), 4).await;
    assert_eq!(first.ordinals, [0, 1, 2, 3]);
    let after = first.next.map(|next| next.parse().unwrap());
    let rest = read(
        LineageQuery {
            after,
            ..LineageQuery::default()
        },
        4,
    )
    .await;
    assert_eq!((rest.ordinals.as_slice(), rest.next), (&[4, 5][..], None));
    let later = LineageQuery {
        from_generation: Some(2),
        ..LineageQuery::default()
    };
    assert_eq!(read(later, 9).await.ordinals, [4]);
    let earlier = LineageQuery {
        to_generation: Some(0),
        ..LineageQuery::default()
    };
    assert_eq!(read(earlier, 9).await.ordinals, [0]);
    for (around, relatives) in [
        (1, &[0, 1, 4, 5][..]),
        (2, &[0, 2]),
        (4, &[0, 1, 4]),
        (99, &[]),
    ] {
        let query = LineageQuery {
            around: Some(around),
            ..LineageQuery::default()
        };
        assert_eq!(read(query, 9).await.ordinals, relatives, "around {around}");
    }
}

#[tokio::test]
async fn totals_by_generation_and_the_curve_count_every_candidate() {
    let (lab, run, _) = judged().await;
    let generations = lab.store.lineage_generations(run).await.unwrap();
    let expected = LineageGenerations {
        total: 6,
        last_generation: 2,
        width: 1,
        generations: vec![0, 1, 2],
        first: vec![0, 1, 4],
        last: vec![0, 5, 4],
        candidates: vec![1, 4, 1],
        unjudged: vec![0, 1, 0],
        accepted: vec![1, 2, 1],
        fastest: vec![Some(1.0), Some(5.0), Some(10.0)],
        links: vec![[0, 1, 3], [1, 1, 1], [1, 2, 1]],
        path: vec![4, 1, 0],
    };
    assert_eq!(generations, expected);
    let curve = lab.store.curve(run, 400).await.unwrap();
    let expected = Curve {
        total: 6,
        width: 1,
        ordinals: vec![0, 1, 2, 3, 4, 5],
        accepted: vec![1, 1, 0, 1, 1, 0],
        fastest: vec![Some(1.0), Some(5.0), None, Some(5.0), Some(10.0), None],
        fastest_ordinals: vec![Some(0), Some(1), None, Some(3), Some(4), None],
        fastest_seconds: vec![Some(3), Some(3), None, Some(1), Some(3), None],
        best: vec![
            Some(1.0),
            Some(5.0),
            Some(5.0),
            Some(5.0),
            Some(10.0),
            Some(10.0),
        ],
    };
    assert_eq!(curve, expected);
    let view = lab.store.run(run).await.unwrap().unwrap();
    assert_eq!((view.trials, view.pending), (5, 1));
    let counts = view.verdicts.into_iter().collect::<Vec<_>>();
    let expected = [(VerdictKind::Accepted, 4), (VerdictKind::LaunchRejected, 1)];
    assert_eq!(counts, expected);
    let later = lab.store.events_after(run, view.last_event, 9).await;
    assert_eq!(later.unwrap(), []);
    let last = lab.store.events_after(run, view.last_event - 1, 9).await;
    assert_eq!(last.unwrap().len(), 1);
}

#[tokio::test]
async fn candidates_have_the_island_that_the_search_adds_them_to() {
    let lab = Lab::new().await;
    let request = RunRequest {
        method: Method::Funsearch,
        ..request(9)
    };
    let run = lab.run_as(&request).await;
    let first = candidate(Operator::Baseline, None, "baseline");
    let baseline = lab.propose(run, &first).await;
    for state in [RunState::CheckingBaseline, RunState::Running] {
        lab.store.advance(run, &state, at(2)).await.unwrap();
    }
    let add = async |operator, parent, body| {
        let new = candidate(operator, Some(parent), body);
        lab.propose(run, &new).await
    };
    let one = add(Operator::Improve, baseline, "one").await;
    let two = add(Operator::Improve, one, "two").await;
    let repaired = add(Operator::Repair, two, "repaired").await;
    let again = add(Operator::Repair, repaired, "again").await;
    add(Operator::Repair, baseline, "of the baseline").await;
    let drawn = |ordinal| match Membership::of(request.seed, ordinal, &Operator::Improve) {
        Membership::Island(island) => Some(island),
        other => panic!("drawn for {ordinal}, but got {other:?}"),
    };
    let expected = [None, drawn(1), drawn(2), drawn(2), drawn(2), None];
    let whole = LineageQuery::default();
    let columns = lab.store.lineage_columns(run, &whole, 9).await.unwrap();
    assert_eq!(columns.islands, expected);
    // The ancestors of these are in the slice before.
    let rest = LineageQuery {
        after: Some(3),
        ..whole
    };
    let columns = lab.store.lineage_columns(run, &rest, 9).await.unwrap();
    assert_eq!(columns.islands, expected[4..]);
    let page = lab.store.candidates(run, None, None, 9).await.unwrap();
    let islands = page.candidates.iter().map(|one| one.island);
    assert_eq!(islands.collect::<Vec<_>>(), expected);
    let alone = lab.store.summary(again).await.unwrap().unwrap();
    assert_eq!(alone.island, drawn(2));
}

#[tokio::test]
async fn promotions_are_listed_newest_first_with_what_they_wait_for() {
    let (lab, run, [_, fast, _, _, faster, _]) = judged().await;
    let store = &lab.store;
    let all = store.promotions(None, None, 9).await.unwrap();
    assert_eq!(all.promotions, []);
    let branch = "kernelwright/fill";
    let first = store.promote(run, "a person", fast, 1, branch, at(5)).await;
    let first = first.unwrap();
    assert_eq!(first.waits, None);
    let refused = PromotionState::Refused {
        reason: "slower".to_owned(),
    };
    let settled = store.settle_promotion(run, first.id, &refused, at(6)).await;
    settled.unwrap();
    store.pause(run, "for the night", at(7)).await.unwrap();
    let second = store
        .promote(run, "a person", faster, 4, branch, at(8))
        .await;
    let waits = second.unwrap().waits.unwrap();
    assert!(waits.contains("paused (for the night)"), "{waits}");

    let newest = store.promotions(None, None, 1).await.unwrap();
    let [entry] = &newest.promotions[..] else {
        panic!("a page of one, but got {newest:?}");
    };
    let names = (entry.task.as_str(), entry.title.as_str());
    assert_eq!((entry.run, names), (run, ("fill", "faster")));
    assert_eq!((entry.ordinal, entry.modelled), (4, true));
    assert_eq!(entry.speedup.map(rounded), Some(10.0));
    assert_eq!(entry.promotion.waits.as_ref(), Some(&waits));
    let before = newest.next.map(|next| next.parse().unwrap());
    let older = store.promotions(None, before, 1).await.unwrap();
    assert_eq!(older.next, None);
    assert_eq!(older.promotions[0].promotion.state, refused);
    let confirming = Some(PromotionStateName::Confirming);
    let open = store.promotions(confirming, None, 9).await.unwrap();
    assert_eq!(open.promotions, newest.promotions);

    store.resume(run, at(9)).await.unwrap();
    let resumed = store.run(run).await.unwrap().unwrap();
    assert_eq!(resumed.promotion.unwrap().waits, None);
}

#[tokio::test]
async fn a_curve_has_at_most_as_many_buckets_as_were_asked_for() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    for (place, time) in [50.0, 20.0, 40.0].into_iter().enumerate() {
        lab.submit(run, baseline, &format!("int a{place};")).await;
        let leased = lab.lease(worker, at(5)).await.unwrap();
        lab.judge(&leased, accepted(time)).await;
    }
    let best = async |buckets| {
        let curve = lab.store.curve(run, buckets).await.unwrap();
        (curve.width, curve.best)
    };
    assert_eq!(best(1).await, (4, vec![Some(5.0)]));
    assert_eq!(best(2).await, (2, vec![Some(2.0), Some(5.0)]));
    assert_eq!(best(3).await, (2, vec![Some(2.0), Some(5.0)]));
    assert_eq!(best(0).await, best(1).await);
}

#[tokio::test]
async fn a_run_without_candidates_has_empty_columns() {
    let lab = Lab::new().await;
    let run = lab.run(9).await;
    let query = LineageQuery::default();
    let columns = lab.store.lineage_columns(run, &query, 9).await.unwrap();
    assert_eq!(columns, LineageColumns::default());
    let generations = lab.store.lineage_generations(run).await.unwrap();
    assert_eq!((generations.width, generations.path), (1, Vec::new()));
    let curve = lab.store.curve(run, 400).await.unwrap();
    assert_eq!((curve.width, curve.best), (1, Vec::new()));
    let unknown = RunId::from(lab.worker("w", "d").await.uuid());
    assert!(lab.store.curve(unknown, 400).await.is_err());
}

/// Checks that the totals and the curve, which the store keeps, are those of a store that was just opened.
async fn assert_totals_are_current(lab: &Lab, run: RunId, after: &str) {
    let fresh = lab.reopen().await;
    let generations = lab.store.lineage_generations(run).await.unwrap();
    assert_eq!(
        generations,
        fresh.lineage_generations(run).await.unwrap(),
        "after {after}"
    );
    for buckets in [2, 400] {
        let curve = lab.store.curve(run, buckets).await.unwrap();
        let expected = fresh.curve(run, buckets).await.unwrap();
        assert_eq!(curve, expected, "after {after}");
    }
}

#[tokio::test]
async fn kept_totals_change_with_every_change_of_a_candidate() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(20).await;
    assert_totals_are_current(&lab, run, "the baseline").await;
    let fast = lab.submit(run, baseline, "fast").await;
    assert_totals_are_current(&lab, run, "a submission").await;
    let leased = lab.lease(worker, at(4)).await.unwrap();
    lab.judge(&leased, accepted(20.0)).await;
    assert_totals_are_current(&lab, run, "a verdict").await;
    lab.submit(run, baseline, "fast").await;
    assert_totals_are_current(&lab, run, "a copy").await;
    let faster = lab.submit(run, fast, "faster").await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    lab.judge(&leased, accepted(10.0)).await;
    assert_totals_are_current(&lab, run, "a new best").await;
    let due = drafted(&lab, run, 4, &[draft(Operator::Init, &[baseline])]).await;
    assert_totals_are_current(&lab, run, "a draft").await;
    reply(&lab, &due[0], &written("slow"), 6).await;
    assert_totals_are_current(&lab, run, "a reply").await;
    for now in 7..7 + i64::from(store::MAX_FAULTS) {
        let other = lab.worker(&format!("w{now}"), DEVICE).await;
        let leased = lab.lease(other, at(1000 * now)).await.unwrap();
        lab.fault(&leased, at(1000 * now)).await;
    }
    let abandoned = lab.store.summary(due[0].candidate).await.unwrap().unwrap();
    let state = abandoned.state;
    assert!(
        matches!(state, CandidateState::Abandoned { .. }),
        "{state:?}"
    );
    assert_totals_are_current(&lab, run, "faults").await;
    let promotion = lab
        .store
        .begin_promotion(run, faster, "b", at(20_000))
        .await
        .unwrap();
    let refused = PromotionState::Refused {
        reason: "slower".to_owned(),
    };
    lab.store
        .settle_promotion(run, promotion.id, &refused, at(20_001))
        .await
        .unwrap();
    assert_totals_are_current(&lab, run, "a refused promotion").await;
    let store = &lab.store;
    let ban = store.ban(run, "someone", fast, 1, true, at(20_002)).await;
    assert_totals_are_current(&lab, run, "a ban").await;
    store
        .withdraw(run, "someone", ban.unwrap().entry, at(20_003))
        .await
        .unwrap();
    assert_totals_are_current(&lab, run, "a withdrawn ban").await;
}
