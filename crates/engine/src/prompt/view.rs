//! The values of a prompt's templates: the parts of the context that each kind of prompt shows, and
//! the order in which parts are left out of a prompt that is too long.

use domain::brief::{
    Attempt, CandidateBrief, Context, DeviceBrief, Feedback, Lesson, Repetition, Target, TaskBrief,
};
use domain::digest::Digest;
use domain::role::CPP_STANDARD;
use domain::search::PromptStyle;
use serde::Serialize;

use super::snippets::{self, OfferedSnippet};
use super::{Kind, PromptError, templates};

/// Entries of the history that outlive the first cut.
const RECENT: usize = 10;
/// Messages of the compiler that outlive the last cut.
const FIRST_DIAGNOSTICS: usize = 5;

/// The values of one prompt.
#[derive(Debug, Clone, Serialize)]
pub(super) struct View {
    kind: &'static str,
    style: PromptStyle,
    faithful: bool,
    /// True if an answer may be edits of the primary parent.
    edits: bool,
    task: TaskBrief,
    device: Option<DeviceBrief>,
    /// The compiler, once it is known.
    toolchain: Option<String>,
    cpp_standard: String,
    /// The smallest target that the best candidate has not reached.
    target: Option<Target>,
    seeds: String,
    /// Candidates with code, the best first.
    kernels: Vec<Kernel>,
    /// The number of parents among them.
    parents: usize,
    insights: Vec<Lesson>,
    snippets: Vec<OfferedSnippet>,
    /// Name of the kernel that they are for.
    bounded: String,
    duplicates: Vec<Repetition>,
    history: Vec<Attempt>,
    /// Texts of people, which are never left out.
    hints: Vec<String>,
    avoided: Vec<String>,
    trials_left: Option<u32>,
    /// The run and the parent of an outside proposer's submission; empty for a model.
    run: String,
    parent: String,
}

/// A candidate that is shown. One that is both the best and a parent is shown once.
#[derive(Debug, Clone, Serialize)]
struct Kernel {
    name: String,
    title: String,
    thought: Option<String>,
    /// None where it was left out for lack of room.
    code: Option<String>,
    time_us: Option<f64>,
    modelled: bool,
    speedup: Option<f64>,
    outcome: Option<Feedback>,
    notes: Vec<String>,
    is_best: bool,
    /// Its number among the parents, from 1.
    parent: Option<usize>,
    /// True if edits apply to it.
    is_primary: bool,
}

impl View {
    /// Selects the parts of a context that a kind of prompt shows.
    pub fn new(kind: &Kind, style: PromptStyle, context: &Context) -> Result<Self, PromptError> {
        let missing = |what| PromptError::Incomplete {
            kind: kind.name(),
            what,
        };
        let external = matches!(kind, Kind::External { .. });
        let needs_best = !external && !matches!(kind, Kind::Repair);
        if needs_best && context.best.is_none() {
            return Err(missing("the best candidate"));
        }
        let parents_needed = match kind {
            Kind::FullCrossover | Kind::EohExplore | Kind::EohCrossover => 2,
            Kind::FullMutation | Kind::Repair | Kind::EohImprove | Kind::EohRetune => 1,
            Kind::Free
            | Kind::InsightInit
            | Kind::FullInit
            | Kind::Funsearch
            | Kind::AiCudaEngineer
            | Kind::EohInit
            | Kind::External { .. } => 0,
        };
        if context.parents.len() < parents_needed {
            return Err(missing(if parents_needed == 2 {
                "two parents"
            } else {
                "a parent"
            }));
        }
        let (run, parent) = match kind {
            Kind::External { run, parent } => (run.to_string(), parent.to_string()),
            _ => Default::default(),
        };
        let mut view = Self {
            kind: kind.name(),
            style,
            faithful: context.faithful,
            edits: !context.faithful && !external,
            task: context.task.clone(),
            device: context.device.clone(),
            toolchain: context.toolchain.clone(),
            cpp_standard: CPP_STANDARD.to_uppercase(),
            target: next_target(context),
            seeds: context.seeds.clone(),
            kernels: kernels(kind, context),
            parents: context.parents.len().max(1),
            insights: context.insights.clone(),
            snippets: Vec::new(),
            bounded: String::new(),
            duplicates: context.duplicates.clone(),
            history: context.history.clone(),
            hints: context.hints.clone(),
            avoided: context.avoided.clone(),
            trials_left: context.trials_left,
            run,
            parent,
        };
        if *kind == Kind::Free {
            view.seeds.clear();
            view.insights.clear();
            view.history.clear();
            view.kernels.iter_mut().for_each(Kernel::bare);
        } else if *kind == Kind::Funsearch {
            view.seeds.clear();
            view.kernels.iter_mut().for_each(Kernel::bare);
        } else if kind.is_eoh() {
            view.seeds.clear();
            view.kernels.iter_mut().for_each(Kernel::without_outcome);
        } else if *kind == Kind::AiCudaEngineer || style == PromptStyle::TaskInsights {
            view.kernels.iter_mut().for_each(Kernel::without_profile);
        }
        if !context.faithful {
            view.offer_snippets();
        }
        Ok(view)
    }

    /// Offers code for what bounds the primary parent, where its profile is shown.
    fn offer_snippets(&mut self) {
        let primary = self.kernels.iter().find(|kernel| kernel.is_primary);
        let Some((kernel, code)) = primary.and_then(|kernel| Some((kernel, kernel.code.as_ref()?)))
        else {
            return;
        };
        let shown = kernel
            .outcome
            .as_ref()
            .filter(|outcome| !outcome.times.is_empty());
        if let Some(bottleneck) = shown.and_then(|outcome| outcome.bottleneck.as_deref()) {
            self.snippets = snippets::offer(bottleneck, code, &self.task, self.device.as_ref());
            self.bounded = kernel.name.clone();
        }
    }

    /// A hash of these templates and of the snippets that are shown.
    pub fn template_digest(&self, names: &[&str]) -> Digest {
        let shown = self.snippets.iter().map(|snippet| snippet.file);
        templates::digest(&names.iter().copied().chain(shown).collect::<Vec<_>>())
    }
}

fn next_target(context: &Context) -> Option<Target> {
    let reached = context.best.as_ref().and_then(|best| best.speedup);
    let reached = reached.unwrap_or(1.0);
    let open = |target: &&Target| target.speedup > reached;
    context.task.targets.iter().find(open).cloned()
}

/// The candidates that a kind shows, each once: the best, then the parents in order. Versions are in
/// the opposite order, the slowest first.
fn kernels(kind: &Kind, context: &Context) -> Vec<Kernel> {
    // A repair shows only the failed candidate, because the best candidate does not show how to correct it.
    let best = context.best.iter().filter(|_| *kind != Kind::Repair);
    let primary = context.primary().map(|shown| &shown.name);
    let is_best = |shown: &CandidateBrief| {
        context
            .best
            .as_ref()
            .is_some_and(|best| best.name == shown.name)
    };
    let mut kernels: Vec<Kernel> = Vec::new();
    for shown in best.chain(&context.parents) {
        if kernels.iter().any(|kernel| kernel.name == shown.name) {
            continue;
        }
        let parent = context
            .parents
            .iter()
            .position(|parent| parent.name == shown.name);
        kernels.push(Kernel {
            name: shown.name.clone(),
            title: shown.title.clone(),
            thought: shown.thought.clone(),
            code: Some(shown.source.clone()),
            time_us: shown.time_us,
            modelled: shown.modelled,
            speedup: shown.speedup,
            outcome: shown.outcome.clone(),
            notes: shown.notes.clone(),
            is_best: is_best(shown),
            parent: match parent {
                Some(index) => Some(index + 1),
                None if context.parents.is_empty() => Some(1),
                None => None,
            },
            is_primary: primary == Some(&shown.name),
        });
    }
    if matches!(kind, Kind::Funsearch | Kind::AiCudaEngineer) {
        kernels.reverse();
    }
    kernels
}

impl Kernel {
    /// The code alone, without what its author thought of it.
    fn bare(&mut self) {
        self.title.clear();
        self.thought = None;
        self.time_us = None;
        self.speedup = None;
        self.outcome = None;
        self.notes.clear();
        self.code = self.code.take().map(|code| without_idea(&code));
    }

    /// Idea and code, without times and verdict.
    fn without_outcome(&mut self) {
        self.time_us = None;
        self.speedup = None;
        self.outcome = None;
    }

    fn without_profile(&mut self) {
        if let Some(outcome) = &mut self.outcome {
            outcome.times.clear();
            outcome.counters.clear();
        }
    }
}

/// A source without the `[idea]` of its front matter.
fn without_idea(source: &str) -> String {
    let (mut front, mut idea) = (true, false);
    let mut kept = String::with_capacity(source.len());
    for line in source.split_inclusive('\n') {
        let bare = line.trim_end();
        if bare == "---*/" {
            (front, idea) = (false, false);
        } else if front && bare.starts_with('[') {
            idea = bare == "[idea]";
        }
        if !idea {
            kept.push_str(line);
        }
    }
    kept
}

/// A part of a prompt that can be left out.
pub(super) struct Cut {
    /// The name of the part, as recorded.
    pub what: &'static str,
    /// Leaves it out; false if there was nothing of it.
    pub make: fn(&mut View) -> bool,
}

/// The parts that are left out for lack of room, in this order, each step on top of those before it. The task,
/// the device, the answer's format, the verdicts and the primary parent's code always stay.
/// `docs/reference/prompts.md` lists the same, and a test holds the two together.
pub(super) const CUTS: &[Cut] = &[
    Cut {
        what: "counters",
        make: |view| clear_outcomes(view, |_| true, |outcome| &mut outcome.counters),
    },
    Cut {
        what: "attempts before the last ten",
        make: |view| {
            let old = view.history.len().saturating_sub(RECENT);
            view.history.drain(..old);
            old > 0
        },
    },
    Cut {
        what: "insights after the first",
        make: |view| {
            let more = view.insights.len() > 1;
            view.insights.truncate(1);
            more
        },
    },
    Cut {
        what: "code for what bounds the primary parent",
        make: |view| clear(&mut view.snippets),
    },
    Cut {
        what: "repetitions",
        make: |view| clear(&mut view.duplicates),
    },
    Cut {
        what: "thoughts behind kernels other than the primary parent",
        make: |view| {
            let others = others(view).filter_map(|kernel| kernel.thought.take());
            others.count() > 0
        },
    },
    Cut {
        what: "profiles of kernels other than the primary parent",
        make: |view| {
            clear_outcomes(
                view,
                |kernel| !kernel.is_primary,
                |outcome| &mut outcome.times,
            )
        },
    },
    Cut {
        what: "the reference's code",
        make: |view| !std::mem::take(&mut view.task.reference).is_empty(),
    },
    Cut {
        what: "lessons that came with the task",
        make: |view| !std::mem::take(&mut view.seeds).trim().is_empty(),
    },
    Cut {
        what: "the last ten attempts",
        make: |view| clear(&mut view.history),
    },
    Cut {
        what: "the primary parent's profile",
        make: |view| clear_outcomes(view, |_| true, |outcome| &mut outcome.times),
    },
    Cut {
        what: "the second parent's code",
        make: |view| {
            let second = others(view).filter(|kernel| !kernel.is_best);
            second.filter_map(|kernel| kernel.code.take()).count() > 0
        },
    },
    Cut {
        what: "the best kernel's code, where it is not the primary parent",
        make: |view| others(view).filter_map(|kernel| kernel.code.take()).count() > 0,
    },
    Cut {
        what: "the first insight",
        make: |view| clear(&mut view.insights),
    },
    Cut {
        what: "messages of the compiler after the first five",
        make: |view| {
            let mut cut = false;
            let outcomes = view
                .kernels
                .iter_mut()
                .filter_map(|kernel| kernel.outcome.as_mut());
            for untrusted in outcomes.filter_map(|outcome| outcome.diagnostics.as_mut()) {
                cut |= untrusted.lines.len() > FIRST_DIAGNOSTICS;
                untrusted.lines.truncate(FIRST_DIAGNOSTICS);
            }
            cut
        },
    },
];

fn others(view: &mut View) -> impl Iterator<Item = &mut Kernel> {
    view.kernels.iter_mut().filter(|kernel| !kernel.is_primary)
}

fn clear<T>(list: &mut Vec<T>) -> bool {
    let some = !list.is_empty();
    list.clear();
    some
}

fn clear_outcomes(
    view: &mut View,
    of: fn(&Kernel) -> bool,
    part: fn(&mut Feedback) -> &mut Vec<String>,
) -> bool {
    let mut cut = false;
    for kernel in view.kernels.iter_mut().filter(|kernel| of(kernel)) {
        if let Some(outcome) = &mut kernel.outcome {
            cut |= clear(part(outcome));
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_list_what_is_left_out_in_this_order() {
        let documents = include_str!("../../../../docs/reference/prompts.md");
        let listed = documents.lines().filter_map(|line| {
            let (number, what) = line.split_once(". ")?;
            number.parse::<usize>().is_ok().then_some(what)
        });
        let cuts = CUTS.iter().map(|cut| cut.what);
        assert_eq!(listed.collect::<Vec<_>>(), cuts.collect::<Vec<_>>());
    }
}
