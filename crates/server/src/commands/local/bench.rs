//! `bench`: a kernel's times beside the baseline's, once its outputs have been found right; and
//! beside those of the task's rivals, where that is asked for.

use super::Subject;
use crate::cli::BenchArgs;
use crate::outcome::Ending;
use crate::report::bench::{Benched, Rivals, text};

pub(crate) async fn bench(args: BenchArgs) -> Ending {
    let subject = Subject::open(&args.kernel).await?;
    let (looked, timed) = subject
        .ask(|evaluator, request, progress, cancellation| {
            evaluator.measure(request, progress, cancellation)
        })
        .await?;
    let mut benched = Benched::new(looked, timed, &subject.device());
    let ok = benched.against.is_none();
    benched.rivals = if ok && args.rivals {
        let found = subject.ask(|evaluator, request, progress, cancellation| {
            evaluator.rivals(request, &tensors::inputs::bytes, progress, cancellation)
        });
        Rivals::Asked(found.await?)
    } else {
        Rivals::NotAsked(subject.task.rivals.len())
    };
    subject.print_result(args.kernel.json, "bench", ok, &benched, text)
}
