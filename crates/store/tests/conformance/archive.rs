//! The cell of a candidate in an archive.

use domain::candidate::Technique;
use domain::evaluation::BoundingResource;
use domain::search::{Cell, Operator};
use domain::timing::{ModelledLaunch, Timing};
use domain::verdict::Verdict;

use crate::calls::{draft, drafted, reply, written};
use crate::fixture::{Lab, accepted, at, report};

/// An acceptance with a modelled time that device memory bounds.
fn bound_by_memory() -> Verdict {
    let mut verdict = accepted(50.0);
    if let Verdict::Accepted(acceptance) = &mut verdict
        && let Timing::Modelled { cases, .. } = &mut acceptance.timing
    {
        cases[0].launches = vec![ModelledLaunch {
            kernel: "k".to_owned(),
            us: 50.0,
            launch_us: 2.0,
            bottleneck: "dram_bytes".to_owned(),
            share: 0.9,
        }];
    }
    verdict
}

#[tokio::test]
async fn an_entry_has_the_technique_of_its_text_and_the_bound_of_its_verdict() {
    let lab = Lab::new().await;
    let (run, worker, baseline) = lab.running(9).await;
    lab.submit(run, baseline, "__shared__ float tile[32];")
        .await;
    let leased = lab.lease(worker, at(5)).await.unwrap();
    let verdict = report(&leased, bound_by_memory());
    lab.store.report(leased.job, &verdict, at(6)).await.unwrap();
    let drafts = [draft(Operator::Init, &[baseline])];
    let due = drafted(&lab, run, 2, &drafts).await;
    let cell = async |place: usize| {
        let snapshot = lab.store.snapshot(run).await.unwrap();
        snapshot.entries[place].cell
    };
    assert_eq!(cell(2).await, Cell::default());
    assert!(reply(&lab, &due[0], &written("__shfl_sync(1, 2, 3);"), 7).await);

    let written = Cell {
        technique: Some(Technique::WarpExchange),
        bound: None,
    };
    let judged = Cell {
        technique: Some(Technique::SharedMemory),
        bound: Some(BoundingResource::Memory),
    };
    assert_eq!(cell(1).await, judged);
    assert_eq!(cell(2).await, written);
}
