//! `build`: a kernel to its image, by content; and which of its knobs do nothing.

use domain::plan::Configuration;
use worker::evaluate::Depth;

use super::Subject;
use crate::cli::BuildArgs;
use crate::outcome::{Ending, Failure};
use crate::report::build::{Built, Variant, Variants, compare, label, text};

/// The most choices that are built.
const MAX_VARIANTS: usize = 48;

pub(crate) async fn build(args: BuildArgs) -> Ending {
    let subject = Subject::open(&args.kernel).await?;
    let looked = subject
        .ask(|evaluator, request, progress, cancellation| {
            evaluator.evaluate_partially(request, Depth::Build, progress, cancellation)
        })
        .await?;
    let variants = if args.variants && looked.against.is_none() {
        let own = Variant::new(None, label(&subject.configuration), &looked);
        Some(variants(&subject, own).await?)
    } else {
        None
    };
    let built = Built::new(looked, variants);
    let ok = built.against.is_none();
    subject.print_result(args.kernel.json, "build", ok, &built, text)
}

/// Every choice of every tunable, one at a time, the others as they are.
async fn variants(subject: &Subject, own: Variant) -> Result<Variants, Failure> {
    let Some(kernel) = subject.kernel() else {
        return Ok(Variants::default());
    };
    let Ok(values) = kernel.configure(&subject.configuration) else {
        return Ok(Variants::default());
    };
    let mut choices: Vec<(String, Configuration)> = Vec::new();
    for (name, tunable) in &kernel.plan().tunables {
        for &choice in &tunable.choices {
            if values.get(name) != Some(&choice) {
                let mut changed = subject.configuration.clone();
                changed.insert(name.clone(), choice);
                choices.push((name.clone(), changed));
            }
        }
    }
    let left_out = choices.len().saturating_sub(MAX_VARIANTS);
    let mut variants = vec![own];
    for (knob, configuration) in choices.into_iter().take(MAX_VARIANTS) {
        let request = subject.request(&configuration)?;
        let looked = subject
            .ask_about(request, |evaluator, request, progress, cancellation| {
                evaluator.evaluate_partially(request, Depth::Build, progress, cancellation)
            })
            .await?;
        variants.push(Variant::new(Some(&knob), label(&configuration), &looked));
    }
    Ok(compare(&variants, left_out))
}
