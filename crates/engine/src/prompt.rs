//! Renders a [`Context`] as the prompt of a model or of a proposer outside.
//!
//! The texts are the templates in `prompts/`. The module `view` decides which parts a kind of prompt
//! shows, and which parts are left out of one that is too long. The same context gives the same
//! prompt, byte for byte.

mod snippets;
mod templates;
mod view;

use domain::brief::Context;
use domain::digest::Digest;
use domain::id::{CandidateId, RunId};
use domain::model::{Message, Prompt, Speaker};
use domain::reply::Unusable;
use domain::search::PromptStyle;
use minijinja::value::{Serde, Value};
use serde::Serialize;

use view::{CUTS, View};

/// The kind of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A faster kernel than the best, from its code alone.
    Free,
    /// A faster kernel than the best, with its profile and insights.
    InsightInit,
    /// The first kernels of a population; says the same as [`Kind::InsightInit`].
    FullInit,
    /// A kernel that merges two parents.
    FullCrossover,
    /// A kernel that differs from its parent.
    FullMutation,
    /// A kernel that mends its parent.
    Repair,
    /// The next version after up to two kernels of an island, of which the code is shown.
    Funsearch,
    /// The next version after the five fastest kernels, with their thoughts and times.
    AiCudaEngineer,
    /// The first kernels of EoH's population.
    EohInit,
    /// EoH's operator E1: another form than two parents.
    EohExplore,
    /// EoH's operator E2: a new form of the idea that two parents share.
    EohCrossover,
    /// EoH's operator M1: a changed version of a parent.
    EohImprove,
    /// EoH's operator M2: other parameters of a parent.
    EohRetune,
    /// A kernel from outside the service.
    External {
        /// The run it is for.
        run: RunId,
        /// The candidate it starts from.
        parent: CandidateId,
    },
}

impl Kind {
    /// A word for records and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::InsightInit => "insight_init",
            Self::FullInit => "full_init",
            Self::FullCrossover => "full_crossover",
            Self::FullMutation => "full_mutation",
            Self::Repair => "repair",
            Self::Funsearch => "funsearch",
            Self::AiCudaEngineer => "ai_cuda_engineer",
            Self::EohInit => "eoh_init",
            Self::EohExplore => "eoh_explore",
            Self::EohCrossover => "eoh_crossover",
            Self::EohImprove => "eoh_improve",
            Self::EohRetune => "eoh_retune",
            Self::External { .. } => "external",
        }
    }

    fn is_eoh(&self) -> bool {
        matches!(
            self,
            Self::EohInit
                | Self::EohExplore
                | Self::EohCrossover
                | Self::EohImprove
                | Self::EohRetune
        )
    }

    fn template(&self) -> &'static str {
        match self {
            Self::Free => "free.j2",
            Self::InsightInit | Self::FullInit => "insight.j2",
            Self::FullCrossover => "crossover.j2",
            Self::FullMutation => "mutation.j2",
            Self::Repair => "repair.j2",
            Self::Funsearch | Self::AiCudaEngineer => "versions.j2",
            Self::EohInit
            | Self::EohExplore
            | Self::EohCrossover
            | Self::EohImprove
            | Self::EohRetune => "eoh.j2",
            Self::External { .. } => "external.j2",
        }
    }
}

/// A prompt with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The prompt. The system message is the same for all prompts of a run of one kind, so that a
    /// provider's prompt cache has it.
    pub prompt: Prompt,
    /// The kind and the style, such as `full_crossover/standard`.
    pub template: String,
    /// A hash of every template that had a part in it.
    pub template_digest: Digest,
    /// The parts that were left out for lack of room, in this order.
    pub dropped: Vec<String>,
}

/// A further message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowUp {
    /// The message.
    pub text: String,
    /// The template's name.
    pub template: String,
    /// A hash of it.
    pub digest: Digest,
}

/// The reason why a prompt cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The context lacks a value that the kind shows.
    #[error("write a prompt of kind {kind}: its context lacks {what}")]
    Incomplete {
        /// The kind.
        kind: &'static str,
        /// The missing part.
        what: &'static str,
    },
    /// It does not fit, whatever is left out.
    #[error(
        "fit a prompt of kind {kind} into {budget} tokens: {} too many are left when all is left \
         out that may be; allow longer prompts or choose a model with a larger context",
        .needed - .budget
    )]
    TooLong {
        /// The kind.
        kind: &'static str,
        /// Estimated tokens of the shortest form.
        needed: u64,
        /// The limit in tokens.
        budget: u64,
    },
    /// A template is wrong.
    #[error("render the template {template}")]
    Template {
        /// Its name.
        template: &'static str,
        /// The template engine's error.
        #[source]
        source: minijinja::Error,
    },
}

/// Writes a prompt of at most `budget_tokens` by [`Prompt::estimated_tokens`], leaving out what
/// matters least if it would be longer.
///
/// # Errors
/// The context lacks something that the kind shows, or even the shortest form is too long.
pub fn render(
    kind: &Kind,
    style: PromptStyle,
    context: &Context,
    budget_tokens: u64,
) -> Result<Rendered, PromptError> {
    let mut view = View::new(kind, style, context)?;
    let template_digest = view.template_digest(&[SYSTEM, kind.template()]);
    let mut prompt = write(kind, &view)?;
    let mut dropped = Vec::new();
    for cut in CUTS {
        if prompt.estimated_tokens() <= budget_tokens {
            break;
        }
        if (cut.make)(&mut view) {
            dropped.push(cut.what.to_owned());
            prompt = write(kind, &view)?;
        }
    }
    let needed = prompt.estimated_tokens();
    if needed > budget_tokens {
        return Err(PromptError::TooLong {
            kind: kind.name(),
            needed,
            budget: budget_tokens,
        });
    }
    Ok(Rendered {
        prompt,
        template: format!("{}/{}", kind.name(), style.as_str()),
        template_digest,
        dropped,
    })
}

const SYSTEM: &str = "system.j2";
const REPLY_REPAIR: &str = "reply_repair.j2";

fn write(kind: &Kind, view: &View) -> Result<Prompt, PromptError> {
    let values = Value::from(Serde(view));
    let text = |template| {
        templates::render(template, &values)
            .map_err(|source| PromptError::Template { template, source })
    };
    Ok(Prompt {
        system: text(SYSTEM)?,
        messages: vec![Message {
            speaker: Speaker::User,
            text: text(kind.template())?,
        }],
    })
}

/// Renders the message that asks the author of an unusable reply again.
pub fn reply_repair(why: &Unusable) -> FollowUp {
    #[derive(Serialize)]
    struct Values<'a> {
        sentence: String,
        #[serde(flatten)]
        unusable: &'a Unusable,
    }
    let values = Value::from(Serde(Values {
        sentence: why.to_string(),
        unusable: why,
    }));
    FollowUp {
        text: templates::render(REPLY_REPAIR, &values)
            .expect("the template uses nothing that a kind of unusable reply lacks"),
        template: "reply_repair".to_owned(),
        digest: templates::digest(&[REPLY_REPAIR]),
    }
}
