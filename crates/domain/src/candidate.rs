//! One candidate: CUDA C++ device code with its launch plan in the head comment.
//!
//! [`KernelSource::parse`] is the only way in. What it lets through is text of bounded size
//! without NUL, with a plan that is well-formed; nothing downstream checks that again.

mod constants;
mod front_matter;
mod locals;
mod normalized;
mod technique;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::technique::Technique;

use self::front_matter::Front;
use crate::cleaning;
use crate::digest::Digest;
use crate::plan::{Configuration, LaunchPlan};
use crate::problem::{Problem, Problems};
use crate::splice;
use crate::verdict::VerdictKind;

/// The longest source in bytes: 256 KiB.
pub const MAX_SOURCE_BYTES: usize = 256 << 10;
const OPENING: &str = "/*---";
const CLOSING: &str = "---*/";
/// The most characters of a title or a hypothesis that are kept.
const MAX_IDEA_CHARACTERS: usize = 4000;

/// A parsed candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSource {
    text: String,
    /// The TOML between the two fences, as offsets into `text`.
    front: Range<usize>,
    /// Offset of the line after the closing fence.
    body_offset: usize,
    plan: LaunchPlan,
    idea: Option<Idea>,
    step: Option<PlaybookStep>,
    expect: Option<Expectation>,
    notes: Vec<String>,
}

/// Digests by which candidates of the same code are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// [`KernelSource::candidate_digest`].
    pub digest: Digest,
    /// The same; comments, layout and names of local variables do not count.
    pub text: Digest,
    /// The launches and workspaces alone: with the digest of the compiled code, they are what executes.
    pub launches: Digest,
}

/// The author's expectation, written down before anything is measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Idea {
    /// A few words for lists and commit messages.
    pub title: String,
    /// The reason why it should be faster.
    #[serde(default)]
    pub hypothesis: String,
    /// Expected speedup over the parent, lowest and highest, as ratios.
    #[serde(default)]
    pub gain: Option<[f64; 2]>,
}

impl Idea {
    /// The idea with its texts on one clean line each.
    pub fn cleaned(self) -> Self {
        Self {
            title: cleaning::clean_line(&self.title, MAX_IDEA_CHARACTERS),
            hypothesis: cleaning::clean_line(&self.hypothesis, MAX_IDEA_CHARACTERS),
            gain: self.gain,
        }
    }
}

/// The front matter's table that makes a candidate a step of a playbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaybookStep {
    /// The phase it belongs to, as named in the task file.
    pub phase: String,
    /// Tunables to sweep once the step is kept.
    #[serde(default)]
    pub sweep: Vec<String>,
}

/// The verdict a deliberately broken variant must get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// The verdict.
    pub verdict: VerdictKind,
    /// The driver's error code, where the verdict carries one.
    #[serde(default)]
    pub code: Option<u32>,
}

/// A structural edit of a source: one change, such as the unrolling of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// The change in a few words, such as "unroll the loop in line 30 by 4". No two edits of a source
    /// have the same.
    pub name: String,
    /// The changed source.
    pub source: KernelSource,
}

impl KernelSource {
    /// Parses a candidate file; `file` is its name in problems. Characters that a reader cannot see are
    /// removed, so that the compiler, people and models get the same text.
    ///
    /// # Errors
    /// Every defect of the text and of its front matter, each with line and column.
    pub fn parse(file: &str, text: impl Into<String>) -> Result<Self, Problems> {
        let text = text.into().replace("\r\n", "\n").replace('\r', "\n");
        if text.len() > MAX_SOURCE_BYTES {
            let message = format!(
                "the source has {} bytes; at most {MAX_SOURCE_BYTES} are read",
                text.len()
            );
            return Err(Problem::whole(file, message, "split off what is not device code").into());
        }
        if let Some(offset) = text.find('\0') {
            return Err(Problem::at(file, &text, offset, "a NUL byte", "remove it").into());
        }
        let text = cleaning::clean_source(&text);
        let front = find_front_matter(file, &text)?;
        let Front {
            mut plan,
            idea,
            step,
            expect,
            mut notes,
        } = front_matter::read(file, &text[front.clone()])?;
        let body_offset = next_line(&text, front.end);
        plan.constants = constants::find(&plan, &text[body_offset..]);
        notes.extend(plan.constants.iter().map(|(name, value)| {
            format!("{name} = {value} in the plan was taken from the code's definition of {name}")
        }));
        Ok(Self {
            body_offset,
            front,
            plan,
            idea: idea.map(Idea::cleaned),
            step,
            expect,
            notes,
            text,
        })
    }

    /// The whole text, with `\n` line ends.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The front matter: the lines between the two fences, from line 2 on.
    pub fn front_matter(&self) -> &str {
        &self.text[self.front.clone()]
    }

    /// The code: the lines after the closing fence.
    pub fn body(&self) -> &str {
        &self.text[self.body_offset..]
    }

    /// The text that is handed to the compiler: the code, after an empty line for each line of the
    /// front matter, so that lines keep their numbers. Nothing that stands in the front matter can
    /// become part of the program, however it is written.
    pub fn compiler_input(&self) -> String {
        let lines = self.text[..self.body_offset].matches('\n').count();
        "\n".repeat(lines) + self.body()
    }

    /// The launch plan.
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// The author's idea, if stated.
    pub fn idea(&self) -> Option<&Idea> {
        self.idea.as_ref()
    }

    /// Playbook facts, if the file is a step of one.
    pub fn step(&self) -> Option<&PlaybookStep> {
        self.step.as_ref()
    }

    /// The verdict a broken variant must get.
    pub fn expectation(&self) -> Option<&Expectation> {
        self.expect.as_ref()
    }

    /// One sentence for each place where the front matter departs from the documented form and was
    /// read all the same.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The digest that identifies the program and the way it is launched: exactly the bytes that the
    /// compiler gets, the steps and workspaces of the plan, and the values of the tunables, which the
    /// compiler gets as options. The idea does not count, except for its number of lines, on which
    /// `__LINE__` depends.
    pub fn candidate_digest(&self, configuration: &Configuration) -> Digest {
        self.digest_with(&self.compiler_input(), configuration)
    }

    /// The digests by which candidates of the same code are found.
    pub fn identity(&self, configuration: &Configuration) -> Identity {
        let macros = || configuration.keys().chain(self.plan.constants.keys());
        let text = normalized::normalized(self.body())
            .map(|code| locals::with_numbered_locals(&code, macros()))
            .unwrap_or_else(|| self.compiler_input());
        let launched: Configuration = configuration
            .iter()
            .filter(|(name, _)| self.plan.depends_on(name))
            .map(|(name, value)| (name.clone(), *value))
            .collect();
        Identity {
            digest: self.candidate_digest(configuration),
            text: self.digest_with(&text, configuration),
            launches: self.digest_with(&format!("{:?}", self.plan.constants), &launched),
        }
    }

    fn digest_with(&self, code: &str, configuration: &Configuration) -> Digest {
        let plan = format!("{:?}", (&self.plan.steps, &self.plan.workspaces));
        let values = configuration
            .iter()
            .map(|(name, value)| format!("{name}={value};"))
            .collect::<String>();
        Digest::of_parts([code.as_bytes(), plan.as_bytes(), values.as_bytes()])
    }

    /// The configuration with `overrides` applied to the declared values.
    ///
    /// # Errors
    /// A [`Problem`] for a name that is no tunable or a value that is no choice.
    pub fn configure(&self, overrides: &Configuration) -> Result<Configuration, Problem> {
        let mut configuration = self.plan.default_configuration();
        for (name, value) in overrides {
            let Some(tunable) = self.plan.tunables.get(name) else {
                let known = self
                    .plan
                    .tunables
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ");
                let message = format!("the source declares no tunable {name:?}");
                return Err(Problem::whole(
                    "configuration",
                    message,
                    format!("it declares: {known}"),
                ));
            };
            if !tunable.choices.contains(value) {
                let message = format!(
                    "{name} = {value} is not among its choices {:?}",
                    tunable.choices
                );
                return Err(Problem::whole(
                    "configuration",
                    message,
                    "choose one of them",
                ));
            }
            configuration.insert(name.clone(), *value);
        }
        Ok(configuration)
    }
}

/// Finds the TOML between the two fences, each of which is a whole line; offsets into `text`.
fn find_front_matter(file: &str, text: &str) -> Result<Range<usize>, Problem> {
    let problem = |offset, message, fix| Err(Problem::at(file, text, offset, message, fix));
    let first = text.lines().next().unwrap_or_default();
    if first.trim_end() != OPENING {
        let fix = "begin with a line /*--- and end the front matter with a line ---*/";
        return if first.starts_with(OPENING) {
            problem(
                OPENING.len(),
                "the opening line of the front matter holds more than /*---",
                fix,
            )
        } else {
            problem(0, "the file does not begin with its launch plan", fix)
        };
    }
    let start = next_line(text, 0);
    let mut end = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim_end() == CLOSING {
            return Ok(start..end);
        }
        if ends_comment(&text[end..], line.len()) {
            return problem(
                end,
                "the head comment ends inside the front matter",
                "write the closing line as ---*/ alone on its line",
            );
        }
        end += line.len();
    }
    problem(
        0,
        "the front matter is never closed",
        "end it with a line ---*/",
    )
}

/// The offset of the line after the one that `offset` stands on.
fn next_line(text: &str, offset: usize) -> usize {
    text[offset..]
        .find('\n')
        .map_or(text.len(), |at| offset + at + 1)
}

/// Returns true if a `*` within the first `within` bytes of `text` is followed by a `/`, directly or
/// after line continuations, which a compiler resolves before it looks for comments.
fn ends_comment(text: &str, within: usize) -> bool {
    text[..within].match_indices('*').any(|(at, _)| {
        let mut rest = &text[at + 1..];
        while let Some(after) = splice::strip_splice(rest) {
            rest = after;
        }
        rest.starts_with('/')
    })
}

/// Returns true if `name` can be a C identifier of at most 64 characters.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.len() <= 64
}
