//! The lessons of a run: the thoughts that helped and those that did not, as text for the prompts of later runs.

use std::collections::{BTreeMap, HashMap};

use super::selection::DistinctThoughts;
use super::{Entry, EntryState, InsightRecords, Operator, Steering};
use crate::brief::describe_verdict;
use crate::cleaning;
use crate::id::CandidateId;
use crate::margins::FASTER_MARGIN;
use crate::verdict::VerdictKind;

/// The most lessons of a kind. A prompt has room for few.
const MAX_LESSONS: usize = 12;
/// The longest thought, characters.
const MAX_THOUGHT: usize = 400;

/// Where the lessons come from, as their reader is told.
#[derive(Debug, Clone, Copy)]
pub struct LessonsOrigin<'a> {
    /// The run's name.
    pub run: &'a str,
    /// The task's name.
    pub task: &'a str,
    /// The device with its compute capability; none before the first evaluation.
    pub device: Option<&'a str>,
}

/// The outcomes of all candidates whose thoughts are nearly the same.
#[derive(Debug, Default)]
struct Tries {
    /// The thought in the words of the first of them.
    thought: String,
    /// Speedups over the parent that count as a gain.
    gains: Vec<f64>,
    /// The other outcomes, in words, with their numbers.
    others: BTreeMap<&'static str, usize>,
}

/// The lessons of a run in Markdown: at most twelve thoughts after which a candidate was faster than its parent,
/// those with the largest gain first, and at most twelve after which none was, those that were tried most often
/// first. Thoughts that say nearly the same count as one, with all of their outcomes, so that it can be seen where
/// these contradict each other. Empty if no candidate with a thought has a verdict.
pub fn lessons(records: &InsightRecords, steering: &Steering, origin: LessonsOrigin<'_>) -> String {
    let tries = tries(records, steering);
    let (mut helped, mut failed): (Vec<Tries>, Vec<Tries>) =
        tries.into_iter().partition(|tries| !tries.gains.is_empty());
    helped.sort_by(|one, other| other.best().total_cmp(&one.best()));
    failed.sort_by_key(|tries| std::cmp::Reverse(tries.number()));
    if helped.is_empty() && failed.is_empty() {
        return String::new();
    }
    let device = origin.device.map_or_else(String::new, |device| {
        format!(" on {}", cleaning::clean_line(device, 80))
    });
    let mut text = format!(
        "Found by the run \"{}\" of the task {}{device}. Thoughts are in the words of the candidates' authors.\n",
        cleaning::clean_line(origin.run, 120),
        cleaning::clean_line(origin.task, 80),
    );
    for (heading, lessons) in [("What helped", helped), ("What did not help", failed)] {
        if lessons.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{heading}:\n"));
        for lesson in lessons.iter().take(MAX_LESSONS) {
            text.push_str(&format!("- {} [{}]\n", lesson.thought, lesson.outcome()));
        }
    }
    text
}

/// The judged thoughts of a run's models and people, each with its tries.
fn tries(records: &InsightRecords, steering: &Steering) -> Vec<Tries> {
    let mut speedups: HashMap<CandidateId, f64> = records.earlier.clone();
    for entry in &records.entries {
        speedups.extend(entry.speedup().map(|speedup| (entry.id, speedup)));
    }
    let mut distinct = DistinctThoughts::default();
    let mut tries: BTreeMap<usize, Tries> = BTreeMap::new();
    for (place, entry) in records.entries.iter().enumerate() {
        let Some(thought) = told(entry, steering) else {
            continue;
        };
        let outcome = match &entry.state {
            EntryState::Accepted { .. } if records.refused.contains(&entry.id) => {
                Err("failed its confirmation")
            }
            EntryState::Accepted { speedup, .. } => {
                // A parent that failed, as a repair's did, or that is older than the records has no speedup.
                let Some(parent) = entry.parent.and_then(|parent| speedups.get(&parent)) else {
                    continue;
                };
                let gain = speedup / parent;
                if gain > 1.0 + FASTER_MARGIN {
                    Ok(gain)
                } else {
                    Err("not faster than its parent")
                }
            }
            // These say nothing about the idea.
            EntryState::Rejected(
                VerdictKind::Unsupported | VerdictKind::Inconclusive | VerdictKind::InvalidRun,
            ) => continue,
            EntryState::Rejected(kind) => Err(describe_verdict(*kind)),
            EntryState::Pending | EntryState::Abandoned { .. } => continue,
        };
        let Some(first) = distinct.add(place, thought) else {
            continue;
        };
        let own = tries.entry(first).or_default();
        if own.thought.is_empty() {
            own.thought = cleaning::clean_line(thought, MAX_THOUGHT);
        }
        match outcome {
            Ok(gain) => own.gains.push(gain),
            Err(words) => *own.others.entry(words).or_default() += 1,
        }
    }
    tries.into_values().collect()
}

/// The thought of a candidate as prompts show it; none where they show none.
fn told<'a>(entry: &'a Entry, steering: &'a Steering) -> Option<&'a str> {
    if entry.operator == Operator::Baseline || entry.duplicate || !steering.shows_insight(entry.id)
    {
        return None;
    }
    let corrected = steering.corrected_insight(entry.id);
    corrected.or(entry.thought.as_deref())
}

impl Tries {
    fn number(&self) -> usize {
        self.gains.len() + self.others.values().sum::<usize>()
    }

    fn best(&self) -> f64 {
        self.gains.iter().copied().fold(0.0, f64::max)
    }

    /// The outcomes in words.
    fn outcome(&self) -> String {
        let mut parts = Vec::new();
        match self.gains.len() {
            0 => {}
            1 => parts.push(format!("{:.2} times its parent's speed", self.best())),
            number => parts.push(format!(
                "{number} times faster than its parent, at best {:.2} times",
                self.best()
            )),
        }
        parts.extend(self.others.iter().map(|(words, number)| match number {
            1 => (*words).to_owned(),
            number => format!("{number} times {words}"),
        }));
        parts.join("; ")
    }
}
