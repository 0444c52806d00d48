//! Reading of a real prompt as the simulated author does, and its reply.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::author::{Author, Situation, Step, write};
use super::libraries::{Choices, Defect, Library, MARK};

/// The reply to a prompt. `seed` decides everything that the author draws.
#[must_use]
pub fn reply(author: &Author, prompt: &str, seed: u64) -> String {
    let situation = read(author.library, prompt);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let written = write(author, &situation, &mut rng);
    // Two kernels with the same defect differ, so that a repair that failed is not taken for its parent.
    let note = written.defect.map(|_| format!(", reply {seed}"));
    let text = author
        .library
        .compose(&written.choices, written.defect, &note.unwrap_or_default());
    format!("```cuda\n{text}```\n")
}

/// The parts of a prompt's last message that the author uses.
#[must_use]
pub fn read(library: &Library, prompt: &str) -> Situation {
    let mut kernels = Vec::new();
    let mut primary = 0;
    let mut tried = Vec::new();
    let mut insights = Vec::new();
    let mut bottleneck = None;
    let mut section = "";
    for line in prompt.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            section = title;
        } else if line.starts_with("## ") && !section.starts_with("What") {
            // A kernel without a mark is the task's baseline.
            kernels.push(library.baseline);
        } else if line.starts_with("Edits apply") {
            primary = kernels.len().saturating_sub(1);
        }
        if let Some(name) = line.split("largest bottleneck (modelled): ").nth(1) {
            let name = name.split(' ').next().unwrap_or_default();
            bottleneck.get_or_insert_with(|| name.to_owned());
        }
        let Some(choices) = mark(line) else { continue };
        if section.starts_with("What was tried") || section.starts_with("Already tried") {
            tried.push(choices);
        } else if section.starts_with("Insights") {
            let speedup = line
                .split(" times")
                .next()
                .and_then(|text| text.rsplit(' ').next());
            let speedup = speedup.and_then(|number| number.parse().ok());
            insights.extend(speedup.map(|speedup: f64| (choices, speedup)));
        } else if line.starts_with("// ")
            && let Some(last) = kernels.last_mut()
        {
            *last = choices;
        }
    }
    if primary < kernels.len() {
        let first = kernels.remove(primary);
        kernels.insert(0, first);
    }
    Situation {
        step: step(prompt),
        kernels,
        bottleneck,
        tried,
        insights,
        names_line: prompt.contains("line "),
    }
}

/// The choices behind the mark of a kernel in a line.
pub(super) fn mark(line: &str) -> Option<Choices> {
    let text = line.split(MARK).nth(1)?;
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())]
        .trim_end_matches('.')
        .parse()
        .ok()
}

fn step(prompt: &str) -> Step {
    if prompt.contains("# A kernel that failed") {
        let defect = if prompt.contains("does not compile") {
            Defect::Compile
        } else if prompt.contains("conflict without synchronisation") {
            Defect::Race
        } else {
            Defect::Wrong
        };
        return Step::Repair(defect);
    }
    let asked = prompt.split("# What to do").last().unwrap_or_default();
    if asked.contains("merges their strengths") || asked.contains("idea that both parents share") {
        Step::Merge
    } else if asked.contains("totally different from both") {
        Step::Explore
    } else if asked.contains("substantially different") {
        Step::Differ
    } else if asked.contains("Find the parameters") {
        Step::Retune
    } else {
        Step::Improve
    }
}
