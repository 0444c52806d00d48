//! `bench`: a kernel's times beside the baseline's, once its outputs have been found right.

use super::Subject;
use crate::cli::KernelArgs;
use crate::outcome::Ending;
use crate::report::bench::{Benched, text};

pub(crate) async fn bench(args: KernelArgs) -> Ending {
    let subject = Subject::open(&args).await?;
    let (looked, timed) = subject
        .ask(|evaluator, request, progress, cancellation| {
            evaluator.measure(request, progress, cancellation)
        })
        .await?;
    let benched = Benched::new(looked, timed, &subject.device());
    let ok = benched.against.is_none();
    subject.say(args.json, "bench", ok, &benched, text)
}
