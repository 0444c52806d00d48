//! Limits on how many calls are under transport.

use std::sync::Arc;

use lab::model::{Answer, Dialect, Gate};

use crate::fixture::{ModelFixture, Transport, request};

#[tokio::test]
async fn no_more_calls_than_configured_are_under_way() {
    let gate = Gate::default();
    let closed = gate.clone();
    let fixture = ModelFixture::new(
        Transport(Dialect::OpenAi, true),
        "concurrency = 3",
        move |_| Answer::text("ok").behind(&closed),
    )
    .await;
    let llm = fixture.llm();
    let calls: Vec<_> = (0..10)
        .map(|seed| {
            let llm = Arc::clone(&llm);
            tokio::spawn(async move {
                let mut request = request();
                request.seed = Some(seed);
                llm.complete(&request).await.map(|reply| reply.text)
            })
        })
        .collect();
    while fixture.server.count() < 3 {
        tokio::task::yield_now().await;
    }
    gate.open();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "ok");
    }
    assert_eq!((fixture.server.count(), fixture.server.peak()), (10, 3));
}

#[tokio::test]
async fn a_call_that_is_given_up_makes_room_for_the_next() {
    let fixture = ModelFixture::new(
        Transport(Dialect::OpenAi, true),
        "concurrency = 1",
        |asked| match asked.repeat {
            0 => Answer::silence(),
            _ => Answer::text("ok"),
        },
    )
    .await;
    let llm = fixture.llm();
    let given_up = tokio::spawn(async move { llm.complete(&request()).await.map(drop) });
    while fixture.server.count() == 0 {
        tokio::task::yield_now().await;
    }
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_eq!(fixture.ask().await.unwrap().text, "ok");
}
