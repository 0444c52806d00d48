//! Requests from outside: new runs, and kernels that a person, script or agent submits.

use std::path::{Component, Path, PathBuf};

use domain::api::{CandidateSummary, PromotionTarget, RunRequest, RunView, Submission};
use domain::candidate::{Idea, KernelSource, MAX_SOURCE_BYTES};
use domain::causes::with_causes;
use domain::cleaning;
use domain::evaluation::{EVALUATOR_VERSION, Evaluation, EvaluationStage};
use domain::id::{CandidateId, RunId};
use domain::plan::Configuration;
use domain::problem::{Problem, Problems};
use domain::search::{Budget, Method, Operator};
use domain::task::Task;
use domain::verdict::Verdict;
use store::{NewCandidate, NewRun, Proposed, RunOutline, StoreError};

use crate::configured::can_write_values;
use crate::promote::repository::{self, RepositoryError};
use crate::{Engine, EngineError, model_choices};

const MAX_NAME: usize = 200;
/// The most tags of a run, and the most characters of one.
const MAX_TAGS: usize = 10;
const MAX_TAG: usize = 40;
/// The longest lessons of earlier runs, bytes. They are some 5,500 tokens, and every prompt carries them.
const MAX_LESSONS: usize = 16_384;
const DEFAULT_FILE: &str = "submission.cu";
const DEFAULT_PROPOSER: &str = "outside";

/// The answer to a request for a run.
#[derive(Debug, Clone)]
pub struct Created {
    /// The run.
    pub run: RunView,
    /// False if the idempotency key had made it before.
    pub fresh: bool,
}

impl Engine {
    /// Records a run. The same key always gives the same run.
    ///
    /// # Errors
    /// The request is wrong, the task is unknown, the key belongs to another request, or the
    /// database fails.
    pub async fn create_run(
        &self,
        mut request: RunRequest,
        idempotency_key: Option<&str>,
        actor: &str,
    ) -> Result<Created, EngineError> {
        let stored = self.store.task(&request.task).await?;
        let stored = stored.ok_or_else(|| StoreError::Unknown {
            subject: "task",
            id: request.task.clone(),
        })?;
        let task = Task::load(&stored.bundle).map_err(EngineError::Task)?;
        let mut problems = defects(&request, &task);
        problems.extend(model_choices::defects(&request, &self.models));
        problems.extend(self.promotion_defect(&request).await?);
        if !problems.is_empty() {
            return Err(EngineError::Invalid(Problems(problems)));
        }
        request.tags = ordered(request.tags);
        let promotion = match &request.promotion {
            Some(target) => target.clone(),
            None => self.default_target()?,
        };
        let new = NewRun {
            request: &request,
            promotion: &promotion,
            idempotency_key,
            actor,
            fork: None,
        };
        let created = self.store.create_run(new, self.now()).await?;
        Ok(Created {
            run: created.run,
            fresh: created.fresh,
        })
    }

    /// Replaces the tags of a run, whatever its state.
    ///
    /// # Errors
    /// A tag is none, the run is unknown, or the database fails.
    pub async fn set_tags(&self, run: RunId, tags: Vec<String>) -> Result<RunView, EngineError> {
        if let Some(problem) = tags_defect(&tags) {
            return Err(EngineError::Invalid(Problems(vec![problem])));
        }
        let tags = ordered(tags);
        Ok(self.store.set_tags(run, tags).await?)
    }

    /// Records a kernel from outside as a candidate of a run, and charges one trial for any verdict. A
    /// kernel that does not parse has its verdict at once.
    ///
    /// # Errors
    /// The text cannot be kept, the run or the parent is unknown, the run takes no more, or the
    /// database fails.
    pub async fn submit(
        &self,
        run: RunId,
        submission: Submission,
    ) -> Result<CandidateSummary, EngineError> {
        let outline = self.begun(run).await?;
        let task = self.task(outline.content).await?;
        let file = submission
            .file
            .clone()
            .unwrap_or_else(|| DEFAULT_FILE.to_owned());
        let problems = submission_defects(&file, &submission);
        if !problems.is_empty() {
            return Err(EngineError::Invalid(Problems(problems)));
        }
        let parent = match submission.parent {
            Some(parent) if outline.steering.banned.contains(&parent) => {
                return Err(EngineError::Refused {
                    why: format!(
                        "submit to run {run}: the parent {parent} is banned; name another one, or withdraw \
                         the ban"
                    ),
                });
            }
            Some(parent) => parent,
            None => best_or_baseline(&outline)?,
        };
        let known = self.store.summary(parent).await?;
        let generation = known.map_or(0, |parent| parent.generation + 1);
        let new = submitted(&task, file, parent, generation, submission);
        match self.store.propose(run, &new, self.now()).await? {
            Proposed::New(id) | Proposed::Known(id) => {
                let summary = self.store.summary(id).await?;
                summary.ok_or_else(|| {
                    EngineError::Store(StoreError::Unknown {
                        subject: "candidate",
                        id: id.to_string(),
                    })
                })
            }
            Proposed::OverBudget => Err(EngineError::Refused {
                why: format!(
                    "submit to run {run}: its trials are used up or it was asked to finish; \
                     create another run with a larger budget"
                ),
            }),
        }
    }

    /// Reads the run's outline after making sure that its baseline is proposed, so that every
    /// submission has a parent.
    pub(crate) async fn begun(&self, run: RunId) -> Result<RunOutline, EngineError> {
        let outline = self.store.outline(run).await?;
        if outline.baseline.is_some() {
            return Ok(outline);
        }
        self.step(run).await?;
        let outline = self.store.outline(run).await?;
        if outline.baseline.is_none() {
            return Err(EngineError::Refused {
                why: format!("use run {run} before it has begun: it is {}", outline.state),
            });
        }
        Ok(outline)
    }

    /// Checks the repository that the run is to promote to. It is checked at launch, because the
    /// promotion comes last, when everything else has been paid for.
    async fn promotion_defect(&self, request: &RunRequest) -> Result<Option<Problem>, EngineError> {
        let Some(target) = &request.promotion else {
            return Ok(None);
        };
        let path = PathBuf::from(&target.repository);
        if path.as_os_str().is_empty() || path == self.settings.default_repository {
            // An empty path is reported elsewhere, and the default repository is made when missing.
            return Ok(None);
        }
        if target.region.is_some() && target.path.is_none() {
            let fix = "give the path of the file that has the region";
            let message = "a region of no file";
            return Ok(Some(Problem::whole("promotion.region", message, fix)));
        }
        let (target, task) = (target.clone(), request.task.clone());
        let checked =
            tokio::task::spawn_blocking(move || repository::ensure_usable(&target, &task));
        let Err(error) = checked.await.map_err(EngineError::Interrupted)? else {
            return Ok(None);
        };
        let (field, fix) = match &error {
            RepositoryError::BaseMissing { .. } => (
                "promotion.base",
                "create the branch, name another base, or leave base out",
            ),
            RepositoryError::BadPath(_)
            | RepositoryError::FileMissing { .. }
            | RepositoryError::NotAFile { .. }
            | RepositoryError::InSubmodule { .. }
            | RepositoryError::InLfs(_)
            | RepositoryError::NotCommitted(_)
            | RepositoryError::NotText(_) => (
                "promotion.path",
                "name a committed text file of the repository, or leave path out",
            ),
            RepositoryError::NeedsRegion(_) | RepositoryError::Region { .. } => (
                "promotion.region",
                "name a region of the file: `// region: NAME`, the lines to replace, `// endregion`",
            ),
            RepositoryError::NamespaceBlocked { .. } => (
                "promotion.repository",
                "rename that branch with `git branch -m`",
            ),
            RepositoryError::ForeignOwned(_) => (
                "promotion.repository",
                "change the repository's owner, or add it to git's safe.directory",
            ),
            _ => (
                "promotion.repository",
                "name a git repository on the service's machine, create one there with `git init`, \
                 or leave promotion out",
            ),
        };
        let message = format!("failed to {}", with_causes(&error));
        Ok(Some(Problem::whole(field, message, fix)))
    }

    pub(crate) fn default_target(&self) -> Result<PromotionTarget, EngineError> {
        let repository = &self.settings.default_repository;
        let Some(path) = repository.to_str() else {
            return Err(EngineError::Refused {
                why: format!(
                    "use {} as the promotion target: its path is not UTF-8; choose another data \
                     folder",
                    repository.display()
                ),
            });
        };
        Ok(PromotionTarget {
            repository: path.to_owned(),
            base: None,
            path: None,
            region: None,
        })
    }
}

/// The newest pinned candidate, else the best so far, else the baseline.
pub(crate) fn best_or_baseline(outline: &RunOutline) -> Result<CandidateId, EngineError> {
    let pinned = outline.steering.newest_pin();
    let parent = pinned.or(outline.best).or(outline.baseline);
    parent.ok_or_else(|| EngineError::Refused {
        why: format!("find a parent in run {}: it has not begun", outline.run),
    })
}

/// The defect of a budget's share of the floor.
pub(crate) fn floor_defect(budget: &Budget) -> Option<Problem> {
    let percent = budget.floor_percent?;
    let message = "the share of the floor lies from 1 to 100 percent";
    let fix = "choose a value inside the range";
    (!(1..=100).contains(&percent)).then(|| Problem::whole("budget.floor_percent", message, fix))
}

/// The defects of a request for a run of `task`.
pub(crate) fn defects(request: &RunRequest, task: &Task) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |field: &str, message: String, fix: &str| {
        problems.push(Problem::whole(field, message, fix));
    };
    if request.budget.trials == 0 {
        let message = "a run without a trial tries nothing".to_owned();
        report("budget.trials", message, "allow at least one");
    }
    if request.budget.trials_without_gain == Some(0) {
        let message = "a run that ends after no trial without a gain tries nothing".to_owned();
        report("budget.trials_without_gain", message, "allow at least one");
    }
    if request.budget.wall_seconds == Some(0) {
        let message = "a run without time does nothing".to_owned();
        report("budget.wall_seconds", message, "allow at least one second");
    }
    if let Some(name) = &request.name
        && (name.trim().is_empty() || name.len() > MAX_NAME || name.contains(char::is_control))
    {
        let message = format!("a name has 1 to {MAX_NAME} printable bytes");
        report("name", message, "shorten it, or leave it out");
    }
    if let Some(start) = &request.start {
        let playbook = task.playbook.iter().map(|(file, _)| file.as_str());
        let known = std::iter::once("baseline.cu")
            .chain(playbook)
            .collect::<Vec<_>>();
        if request.method != Method::Sweep {
            let message = "only a sweep has a start file".to_owned();
            report("start", message, "leave it out, or choose the method sweep");
        } else if !known.contains(&start.as_str()) {
            let message = format!("the task has no file {start:?}");
            report("start", message, &format!("it has: {}", known.join(", ")));
        }
    }
    if request.lessons.len() > MAX_LESSONS {
        let message = format!(
            "the lessons have {} bytes, at most {MAX_LESSONS} are allowed",
            request.lessons.len()
        );
        report("lessons", message, "keep those that matter most");
    }
    if !request.lessons.is_empty() && !request.method.shows_lessons() {
        let message = format!("the method {} shows no lessons", request.method.as_str());
        report(
            "lessons",
            message,
            "leave them out, or choose a method that does, such as insight",
        );
    }
    if let Some((message, fix)) = nothing_to_try(request, task) {
        report("method", message, fix);
    }
    if let Some(target) = &request.promotion {
        if target.repository.is_empty() {
            let message = "the repository has no path".to_owned();
            report(
                "promotion.repository",
                message,
                "name a git repository on the service's machine, or leave promotion out",
            );
        }
        if target
            .path
            .as_deref()
            .is_some_and(|path| !is_tree_path(path))
        {
            let message = "the path is not one inside a repository".to_owned();
            report(
                "promotion.path",
                message,
                "give a relative path without . or .., such as kernels/attention.cu",
            );
        }
    }
    problems.extend(tags_defect(&request.tags));
    problems.extend(floor_defect(&request.budget));
    problems
}

/// The defect of a run's tags. They are written in addresses and filters, so that they have few characters.
fn tags_defect(tags: &[String]) -> Option<Problem> {
    let is_tag = |tag: &String| {
        let mut characters = tag.chars();
        let is_allowed = |c: char| c.is_alphanumeric() || "-_./:".contains(c);
        characters.all(is_allowed) && (1..=MAX_TAG).contains(&tag.chars().count())
    };
    let (message, fix) = if tags.len() > MAX_TAGS {
        let message = format!(
            "the run has {} tags, at most {MAX_TAGS} are allowed",
            tags.len()
        );
        (message, "keep those that find it again")
    } else {
        let wrong = tags.iter().find(|tag| !is_tag(tag))?;
        let message =
            format!("{wrong:?} is no tag: one has 1 to {MAX_TAG} letters, digits or -_./:");
        (message, "write a word without blanks, such as paper-2026")
    };
    Some(Problem::whole("tags", message, fix))
}

/// Each tag once, in alphabetical order.
fn ordered(mut tags: Vec<String>) -> Vec<String> {
    tags.sort();
    tags.dedup();
    tags
}

/// Returns a message and a fix if the method has nothing to try on this task.
fn nothing_to_try(request: &RunRequest, task: &Task) -> Option<(String, &'static str)> {
    let has_choices = |source: &KernelSource| {
        let mut tunables = source.plan().tunables.values();
        tunables.any(|tunable| tunable.choices.len() > 1)
    };
    let start = request.start.as_deref().unwrap_or("baseline.cu");
    let starts_at_baseline = start == "baseline.cu";
    let mut steps = task.playbook.iter();
    let step = steps.find(|(file, _)| file == start);
    let started = step.map_or(&task.baseline, |(_, source)| source);
    match request.method {
        Method::Playbook if task.playbook.is_empty() => Some((
            "the task has no playbook, so this method has nothing to try".to_owned(),
            "choose a method that asks a model, such as insight, external to submit candidates, \
             or sweep if the baseline has tunables; or add files to the task's playbook folder",
        )),
        Method::Sweep if starts_at_baseline && !has_choices(&task.baseline) => Some((
            "the baseline has no tunable with two choices, so a sweep of it has nothing to try"
                .to_owned(),
            "name a file of the playbook as start, declare tunables in the baseline, or choose \
             another method",
        )),
        Method::Sweep if !can_write_values(start, started) => Some((
            format!(
                "the tunables of {start} are written in a form in which values cannot be replaced"
            ),
            "declare each as NAME = { value = 8, choices = [8, 16] } in the table [tunables], and upload the task \
             again",
        )),
        _ => None,
    }
}

/// Returns true if a git tree can have a file at this path.
fn is_tree_path(path: &str) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
    !path.is_empty()
        && !path.ends_with('/')
        && !path.contains(['\0', '\n', '\\'])
        && Path::new(path).components().all(plain)
}

/// The defects because of which a submission is not recorded.
fn submission_defects(file: &str, submission: &Submission) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut report = |message: String, fix: &str| problems.push(Problem::whole(file, message, fix));
    if submission.source.len() > MAX_SOURCE_BYTES {
        let found = submission.source.len();
        let message = format!("the source has {found} bytes; at most {MAX_SOURCE_BYTES} are kept");
        report(message, "split off what is not device code");
    }
    let texts = [
        Some(&submission.source),
        submission.file.as_ref(),
        submission.proposer.as_ref(),
        submission.hypothesis.as_ref(),
    ];
    if texts.into_iter().flatten().any(|text| text.contains('\0')) {
        report("a NUL byte".to_owned(), "remove it");
    }
    let names = [submission.file.as_ref(), submission.proposer.as_ref()];
    if names
        .into_iter()
        .flatten()
        .any(|name| name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control))
    {
        let message = format!("file and proposer have 1 to {MAX_NAME} printable bytes");
        report(message, "shorten them, or leave them out");
    }
    problems
}

fn submitted(
    task: &Task,
    file: String,
    parent: CandidateId,
    generation: u32,
    submission: Submission,
) -> NewCandidate {
    let parsed = KernelSource::parse(&file, submission.source.as_str());
    let own = parsed.as_ref().ok().and_then(KernelSource::idea).cloned();
    let idea = match (own, submission.hypothesis) {
        (Some(idea), None) => Some(idea),
        (Some(idea), Some(hypothesis)) => Some(Idea { hypothesis, ..idea }),
        (None, Some(hypothesis)) => Some(Idea {
            title: file.clone(),
            hypothesis,
            gain: None,
        }),
        (None, None) => None,
    }
    .map(Idea::cleaned);
    let (source, identity, configuration, verdict) = match parsed {
        Ok(source) => {
            let configuration = source.plan().default_configuration();
            let identity = source.identity(&configuration);
            let text = source.text().to_owned();
            (text, Some(identity), configuration, None)
        }
        Err(problems) => {
            let verdict = Box::new(parse_rejected(task, problems));
            let source = cleaning::clean_text(&submission.source);
            (source, None, Configuration::new(), Some(verdict))
        }
    };
    NewCandidate {
        parent: Some(parent),
        further_parents: Vec::new(),
        operator: Operator::Submit,
        generation,
        proposer: one_line(submission.proposer.as_deref().unwrap_or(DEFAULT_PROPOSER)),
        title: one_line(idea.as_ref().map_or(&file, |idea| &idea.title)),
        file,
        source,
        identity,
        configuration,
        idea,
        trial: true,
        verdict,
    }
}

/// A title as lists and commits can show it.
pub(crate) fn one_line(title: &str) -> String {
    cleaning::clean_line(title, usize::MAX)
        .chars()
        .take(MAX_NAME)
        .collect()
}

/// The evaluation of a text that does not parse, and so reaches no worker.
pub(crate) fn parse_rejected(task: &Task, problems: Problems) -> Evaluation {
    Evaluation {
        verdict: Verdict::ParseRejected {
            problems: problems.0,
        },
        evaluator: EVALUATOR_VERSION,
        stage: EvaluationStage::Search,
        found_on: None,
        not_run: Vec::new(),
        prescreen: None,
        drawn_shapes: None,
        preconditions: None,
        sanitizers: None,
        task_version: task.version,
        candidate_digest: None,
        image_digest: None,
        device: None,
        toolchain: None,
        kernels: Vec::new(),
        gates: Vec::new(),
        checks: Vec::new(),
        launches: Vec::new(),
        floors: Vec::new(),
        measurement: None,
        diagnostics: Vec::new(),
        flags: Vec::new(),
        machine_code: None,
        hottest_lines: None,
        explanation: None,
        evidence: None,
        findings: Vec::new(),
        stages: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_inside_a_repository_are_taken() {
        let cases = [
            ("kernels/a.cu", true),
            ("a.cu", true),
            ("", false),
            ("/a.cu", false),
            ("../a.cu", false),
            ("a/../b.cu", false),
            ("kernels/", false),
            (".git/config", false),
            ("a/.GIT/b", false),
        ];
        for (path, fits) in cases {
            assert_eq!(is_tree_path(path), fits, "{path:?}");
        }
    }
}
