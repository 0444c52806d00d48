//! The result of building a kernel: its image, its resources, and tunables without effect.

use std::collections::BTreeMap;

use domain::device::Device;
use domain::digest::Digest;
use domain::evaluation::{GateOutcome, StageTime};
use domain::plan::Configuration;
use domain::problem::Problem;
use domain::role::KernelResources;
use domain::verdict::{Diagnostic, Verdict};
use serde::Serialize;
use worker::evaluate::PartialEvaluation;

use super::{against, took};
use crate::evaluation_text;
use crate::terminal::{line, plain};

/// A build.
#[derive(Debug, Serialize)]
pub struct Built {
    /// The verdict that rejects the kernel, as far as a build shows one.
    pub against: Option<Verdict>,
    /// Identity of source and tunable values.
    pub candidate_digest: Option<Digest>,
    /// Digest of what executes: code, constants and resources.
    pub image_digest: Option<Digest>,
    /// Digest of the file with the machine code.
    pub cubin_digest: Option<Digest>,
    /// Path of the machine code.
    pub cubin: Option<String>,
    /// Path of the PTX.
    pub ptx: Option<String>,
    /// Digest of the launches planned on every case.
    pub plans_digest: Option<Digest>,
    /// The compiler.
    pub toolchain: Option<String>,
    /// Each launched kernel's resources.
    pub kernels: Vec<KernelResources>,
    /// Gates that can be checked after a build.
    pub gates: Vec<GateOutcome>,
    /// Warnings of the compiler.
    pub diagnostics: Vec<Diagnostic>,
    /// Remarks of the source policy.
    pub flags: Vec<Problem>,
    /// Duration of each stage.
    pub stages: Vec<StageTime>,
    /// The choices of the tunables, where they were asked for.
    pub variants: Option<Variants>,
}

/// Every choice of every tunable, built one at a time.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Variants {
    /// Number of configurations built, the kernel's own values among them.
    pub built: usize,
    /// Choices that were not built, since there are too many.
    pub left_out: usize,
    /// Tunables of which no choice that builds changes image or launches.
    pub dead_knobs: Vec<String>,
    /// Values with the same image and launches, in groups of at least two.
    pub duplicates: Vec<Vec<String>>,
    /// Values that do not build, with what stands against them.
    pub rejected: BTreeMap<String, String>,
}

/// One choice of a tunable and the result of its build.
#[derive(Debug)]
pub struct Variant {
    /// The tunable; none for the kernel's own values.
    pub knob: Option<String>,
    /// Such as `BLOCK=64`.
    pub label: String,
    /// Image and launches, or what stands against it.
    pub outcome: Result<(Digest, Digest), String>,
}

impl Built {
    /// Makes the report from a partial evaluation.
    pub fn new(looked: PartialEvaluation, variants: Option<Variants>) -> Self {
        let image = looked.image.as_ref();
        let shown = |path: &std::path::Path| path.display().to_string();
        Self {
            candidate_digest: looked.candidate_digest,
            image_digest: image.map(|image| image.code_digest),
            cubin_digest: image.map(|image| image.cubin_digest),
            cubin: image.map(|image| shown(&image.cubin)),
            ptx: image.map(|image| shown(&image.ptx)),
            plans_digest: looked.plans,
            toolchain: looked.toolchain,
            kernels: looked.kernels,
            gates: looked.gates,
            diagnostics: looked.diagnostics,
            flags: looked.flags,
            stages: looked.stages,
            against: looked.against,
            variants,
        }
    }
}

impl Variant {
    /// Makes a variant from a partial evaluation.
    pub fn new(knob: Option<&str>, label: String, looked: &PartialEvaluation) -> Self {
        let built = looked.image.as_ref().zip(looked.plans);
        let outcome = match (&looked.against, built) {
            (None, Some((image, plans))) => Ok((image.code_digest, plans)),
            (against, _) => Err(against
                .as_ref()
                .map_or_else(|| "it has no image".to_owned(), ToString::to_string)),
        };
        Self {
            knob: knob.map(str::to_owned),
            label,
            outcome,
        }
    }
}

/// Groups variants with the same image and launches. The first is the kernel's own.
pub fn compare(variants: &[Variant], left_out: usize) -> Variants {
    let own = variants
        .first()
        .and_then(|first| first.outcome.as_ref().ok());
    let mut knobs: BTreeMap<&str, bool> = BTreeMap::new();
    let mut groups: Vec<((Digest, Digest), Vec<String>)> = Vec::new();
    let mut rejected = BTreeMap::new();
    for variant in variants {
        match &variant.outcome {
            Ok(outcome) => {
                match groups.iter_mut().find(|(known, _)| known == outcome) {
                    Some((_, labels)) => labels.push(variant.label.clone()),
                    None => groups.push((*outcome, vec![variant.label.clone()])),
                }
                if let Some(knob) = &variant.knob {
                    let dead = knobs.entry(knob).or_insert(true);
                    *dead &= own == Some(outcome);
                }
            }
            Err(why) => {
                rejected.insert(variant.label.clone(), why.clone());
            }
        }
    }
    Variants {
        built: variants.len() - rejected.len(),
        left_out,
        dead_knobs: knobs
            .into_iter()
            .filter(|(_, dead)| *dead)
            .map(|(knob, _)| knob.to_owned())
            .collect(),
        duplicates: groups
            .into_iter()
            .map(|(_, labels)| labels)
            .filter(|labels| labels.len() > 1)
            .collect(),
        rejected,
    }
}

/// Values of tunables in a few words; "as written" for none.
pub fn label(configuration: &Configuration) -> String {
    if configuration.is_empty() {
        return "as written".to_owned();
    }
    let values = configuration
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    values.collect::<Vec<_>>().join(" ")
}

/// Renders a build for a terminal.
pub fn text(built: &Built, device: &Device) -> String {
    let mut text = String::new();
    against(&mut text, built.against.as_ref(), "nothing: it builds");
    for diagnostic in built.diagnostics.iter().take(5) {
        let place = diagnostic.line.map(|line| format!("line {line}: "));
        let place = place.unwrap_or_default();
        text.push_str(&format!(
            "warning    {place}{}\n",
            line(&diagnostic.message, 240)
        ));
    }
    for flag in &built.flags {
        text.push_str(&format!("flag       {}\n", line(&flag.to_string(), 240)));
    }
    evaluation_text::resources(&mut text, &built.kernels);
    evaluation_text::gates(&mut text, &built.gates);
    for (name, digest) in [
        ("identity", built.candidate_digest),
        ("image", built.image_digest),
        ("cubin", built.cubin_digest),
    ] {
        if let Some(digest) = digest {
            text.push_str(&format!("{name:10} {digest}\n"));
        }
    }
    for (name, path) in [("", &built.cubin), ("ptx", &built.ptx)] {
        if let Some(path) = path {
            text.push_str(&format!("{name:10} {}\n", plain(path)));
        }
    }
    if let Some(variants) = &built.variants {
        knobs(&mut text, variants);
    }
    super::device(&mut text, device);
    if let Some(toolchain) = &built.toolchain {
        text.push_str(&format!("toolchain  {}\n", plain(toolchain)));
    }
    took(&mut text, &built.stages);
    text
}

fn knobs(text: &mut String, variants: &Variants) {
    text.push_str(&format!("variants   {} built", variants.built));
    if variants.left_out > 0 {
        text.push_str(&format!(", {} left out", variants.left_out));
    }
    text.push('\n');
    for knob in &variants.dead_knobs {
        text.push_str(&format!(
            "tunable    {}: no choice changes image or launches\n",
            plain(knob)
        ));
    }
    for labels in &variants.duplicates {
        text.push_str(&format!("the same   {}\n", plain(&labels.join(", "))));
    }
    for (label, why) in &variants.rejected {
        text.push_str(&format!(
            "rejected   {}: {}\n",
            plain(label),
            line(why, 200)
        ));
    }
}
