//! Failed candidates by cause.

use domain::api::Share;
use domain::id::CandidateId;
use domain::verdict::{Diagnostic, Severity, Verdict, VerdictKind};

use crate::fixture::{Lab, accepted, at, report};

fn does_not_compile(line: u32, name: &str) -> Verdict {
    Verdict::CompileRejected {
        diagnostics: vec![Diagnostic {
            line: Some(line),
            severity: Severity::Error,
            message: format!("identifier \"{name}\" is undefined"),
        }],
    }
}

fn impossible() -> Verdict {
    Verdict::LaunchRejected {
        reason: "the block has 2048 threads".to_owned(),
    }
}

#[tokio::test]
async fn failures_of_one_cause_are_one_cluster_over_runs() {
    let lab = Lab::new().await;
    let mut last: Option<(domain::id::RunId, CandidateId)> = None;
    for _ in 0..2 {
        let (run, worker, baseline) = lab.running(9).await;
        for (body, verdict) in [
            ("a", does_not_compile(3, "x")),
            ("b", impossible()),
            ("c", does_not_compile(70, "y")),
            ("d", accepted(50.0)),
        ] {
            let candidate = lab.submit_new_code(run, baseline, body).await;
            let leased = lab.lease(worker, at(5)).await.unwrap();
            lab.judge(&leased, verdict).await;
            last = Some((run, candidate));
        }
    }
    let (run, _) = last.unwrap();
    let page = lab.store.failures(None, 0, 10).await.unwrap();
    assert_eq!((page.total, page.next), (6, None));
    let seen = page.clusters.iter().map(|cluster| {
        (
            cluster.verdict,
            cluster.cause.as_str(),
            cluster.count,
            cluster.runs,
        )
    });
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            (
                VerdictKind::CompileRejected,
                "identifier … is undefined",
                4,
                2
            ),
            (VerdictKind::LaunchRejected, "the block has N threads", 2, 2),
        ]
    );
    let own = lab.store.failures(Some(run), 0, 1).await.unwrap();
    assert_eq!((own.total, own.next.as_deref()), (3, Some("1")));
    let spans = own.spans.unwrap();
    assert_eq!((spans.from, spans.span_us, spans.spans), (at(4), 1, 24));
    assert_eq!(own.clusters[0].trend[..2], [2, 0], "all at one moment");
    let cluster = &own.clusters[0];
    assert_eq!((cluster.count, cluster.runs), (2, 1));
    let share = |name: &str| {
        vec![Share {
            name: name.to_owned(),
            count: 2,
        }]
    };
    assert_eq!(cluster.operators, share("submit"));
    assert_eq!(cluster.proposers, share("tests"));
    assert_eq!((cluster.first_seen, cluster.last_seen), (at(4), at(4)));
    let mut titles = cluster
        .examples
        .iter()
        .map(|example| example.title.as_str())
        .collect::<Vec<_>>();
    titles.sort_unstable();
    assert_eq!(titles, ["a", "c"]);
    let rest = lab.store.failures(Some(run), 1, 1).await.unwrap();
    assert_eq!(rest.clusters[0].verdict, VerdictKind::LaunchRejected);
    assert_eq!(rest.next, None);
}

#[tokio::test]
async fn the_candidates_of_a_cluster_are_paged_without_a_gap() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    let mut made = Vec::new();
    for (body, line) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        made.push(lab.submit(run, baseline, body).await);
        let leased = lab.lease(worker, at(5)).await.unwrap();
        lab.judge(&leased, does_not_compile(line, body)).await;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = lab
            .store
            .failure_members(
                Some(run),
                VerdictKind::CompileRejected,
                "identifier … is undefined",
                after,
                2,
            )
            .await
            .unwrap();
        assert!(
            page.candidates
                .iter()
                .all(|member| member.run == run && member.line.is_some())
        );
        seen.extend(page.candidates.iter().map(|member| member.candidate));
        let Some(next) = page.next else { break };
        let (at, id) = next.split_once('-').unwrap();
        after = Some((at.parse().unwrap(), id.parse().unwrap()));
    }
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    let none = lab
        .store
        .failure_members(None, VerdictKind::DataRace, "", None, 2)
        .await
        .unwrap();
    assert!(none.candidates.is_empty());
}

#[tokio::test]
async fn a_cluster_is_counted_by_equal_spans_of_time() {
    let lab = Lab::new().await;
    let none = lab.store.failures(None, 0, 10).await.unwrap();
    assert_eq!((none.total, none.spans), (0, None));

    let (run, worker, baseline) = lab.running(9).await;
    for (body, verdict, second) in [
        ("a", impossible(), 10),
        ("b", does_not_compile(3, "x"), 12),
        ("c", does_not_compile(3, "y"), 12),
        ("d", impossible(), 33),
    ] {
        lab.submit_new_code(run, baseline, body).await;
        let leased = lab.lease(worker, at(5)).await.unwrap();
        let report = report(&leased, verdict);
        let judged = lab.store.report(leased.job, &report, at(second)).await;
        judged.unwrap();
    }
    let page = lab.store.failures(Some(run), 0, 10).await.unwrap();
    let trends = page.clusters.iter().map(|cluster| {
        let counted = cluster.trend.iter().enumerate();
        let held = counted.filter(|(_, count)| **count > 0);
        held.map(|(span, count)| (span, *count)).collect::<Vec<_>>()
    });
    let [compiled, launched] = &trends.collect::<Vec<_>>()[..] else {
        panic!("two clusters");
    };
    assert_eq!(*compiled, [(2, 2)]);
    assert_eq!(*launched, [(0, 1), (23, 1)]);
}
