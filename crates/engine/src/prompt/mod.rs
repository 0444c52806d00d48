//! From a [`Context`] to what a model, or an outside proposer, is told.
//!
//! The wording lives in the templates of `prompts/`, as data; which parts a kind of prompt shows
//! and what is left out first when it is too long is decided in `view`. Nothing here knows runs,
//! rows or models: the same context gives the same prompt, byte for byte.

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

/// What is asked for.
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
            Self::External { .. } => "external",
        }
    }

    fn template(&self) -> &'static str {
        match self {
            Self::Free => "free.j2",
            Self::InsightInit | Self::FullInit => "insight.j2",
            Self::FullCrossover => "crossover.j2",
            Self::FullMutation => "mutation.j2",
            Self::Repair => "repair.j2",
            Self::External { .. } => "external.j2",
        }
    }
}

/// A prompt with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// What is said. The system message is the same for all prompts of a run that ask for the same
    /// kind of thing, so that a provider's cache of prompts pays.
    pub prompt: Prompt,
    /// The kind and the style, such as `full_crossover/standard`.
    pub template: String,
    /// A hash of every template that had a part in it.
    pub template_digest: Digest,
    /// What was left out for lack of room, in this order.
    pub dropped: Vec<String>,
}

/// Something more that is said in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The message.
    pub text: String,
    /// The template's name.
    pub template: String,
    /// A hash of it.
    pub digest: Digest,
}

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The context lacks what the kind shows.
    #[error("write a prompt of kind {kind}: its context lacks {what}")]
    Incomplete {
        /// The kind.
        kind: &'static str,
        /// What is missing.
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
        /// What the shortest form takes, estimated.
        needed: u64,
        /// What may be used.
        budget: u64,
    },
    /// A template is wrong.
    #[error("render the template {template}")]
    Template {
        /// Its name.
        template: &'static str,
        /// What is wrong with it.
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
        template_digest: templates::digest(&[SYSTEM, kind.template()]),
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

/// What the author of an unusable reply is told, once, in the same conversation.
pub fn reply_repair(why: &Unusable) -> Said {
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
    Said {
        text: templates::render(REPLY_REPAIR, &values)
            .expect("the template uses nothing that a kind of unusable reply lacks"),
        template: "reply_repair".to_owned(),
        digest: templates::digest(&[REPLY_REPAIR]),
    }
}
