//! `test`: whether a kernel is right on every case and every input distribution.

use worker::evaluate::Depth;

use super::Subject;
use crate::cli::KernelArgs;
use crate::outcome::Ending;
use crate::report::test::{Tested, text};

pub(crate) async fn test(args: KernelArgs) -> Ending {
    let subject = Subject::open(&args).await?;
    let looked = subject
        .ask(|evaluator, request, progress, cancellation| {
            evaluator.evaluate_partially(request, Depth::Test, progress, cancellation)
        })
        .await?;
    let tested = Tested::new(looked);
    let ok = tested.against.is_none();
    subject.print_result(args.json, "test", ok, &tested, text)
}
