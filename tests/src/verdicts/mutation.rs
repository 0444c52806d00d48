//! The list of changed kernels of a seed.

use std::collections::BTreeSet;

use super::Draws;
use super::rules::{HONEST, Only, Part, Rules, WRONG};
use super::subject::Subject;
use super::tokens::{self, Token};

/// Sizes at which kernels are often wrong, for numbers that rules draw.
const SIZES: [i64; 16] = [
    2, 16, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 300, 512, 777, 1024,
];
/// Draws of one item, after which it stays empty: few kernels have a site of every class.
const ATTEMPTS: u32 = 50;

/// The kind of kernel to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// By a rule of [`WRONG`].
    Wrong,
    /// By rules of [`HONEST`] alone.
    Honest,
}

/// One changed kernel.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Its position in the list of its seed and kind.
    pub item: u64,
    /// The kind that it is meant to be.
    pub kind: Kind,
    /// Index of its task among the subjects.
    pub subject: usize,
    /// File name of the kernel that was changed.
    pub base: String,
    /// Class of the last change, which the table counts.
    pub class: &'static str,
    /// Every change: class, line and replacement.
    pub changes: Vec<String>,
    /// Values of dims that the changes name: the oracle executes shapes with them.
    pub witnesses: Vec<i64>,
    /// The candidate file.
    pub text: String,
}

/// Makes the item of a seed's list; none if no rule fits in `ATTEMPTS` draws.
#[must_use]
pub fn mutant(subjects: &[Subject], kind: Kind, seed: u64, item: u64) -> Option<Mutant> {
    let stream = match kind {
        Kind::Wrong => seed,
        Kind::Honest => !seed,
    };
    let mut draws = Draws::of_item(stream, item);
    let subject = draws.below(subjects.len());
    let kernels: Vec<_> = subjects[subject].kernels.iter().collect();
    let (base, text) = *draws.choose(&kernels);
    let mut draft = Draft::new(&subjects[subject], text, &mut draws);
    match kind {
        Kind::Wrong => {
            if draws.below(4) == 0 {
                draft.change(HONEST, &mut draws)?;
            }
            if draws.below(5) == 0 {
                draft.change(WRONG, &mut draws)?;
            }
            draft.change(WRONG, &mut draws)?;
        }
        Kind::Honest => {
            for _ in 0..=draws.below(3) {
                draft.change(HONEST, &mut draws)?;
            }
        }
    }
    Some(Mutant {
        item,
        kind,
        subject,
        base: base.clone(),
        class: draft.class,
        text: draft.render(),
        changes: draft.changes,
        witnesses: draft.witnesses,
    })
}

/// The kernel of `subject` without changes.
#[must_use]
pub fn unchanged(subjects: &[Subject], subject: usize, base: &str) -> Option<Mutant> {
    let text = subjects.get(subject)?.kernels.get(base)?;
    let (plan, code) = split(text);
    Some(Mutant {
        item: 0,
        kind: Kind::Honest,
        subject,
        base: base.to_owned(),
        class: "unchanged",
        changes: Vec::new(),
        witnesses: Vec::new(),
        text: format!("{plan}{}", tokens::text(&tokens::tokens(code))),
    })
}

/// Splits a candidate behind its front matter.
fn split(text: &str) -> (&str, &str) {
    const FENCE: &str = "---*/\n";
    let end = text.find(FENCE).map_or(0, |at| at + FENCE.len());
    text.split_at(end)
}

/// A kernel while it is changed.
struct Draft<'a> {
    subject: &'a Subject,
    plan: Vec<Token>,
    code: Vec<Token>,
    preludes: BTreeSet<&'static str>,
    class: &'static str,
    changes: Vec<String>,
    witnesses: Vec<i64>,
}

impl<'a> Draft<'a> {
    /// The kernel with drawn values of its tunables.
    fn new(subject: &'a Subject, text: &str, draws: &mut Draws) -> Self {
        let (plan, code) = split(text);
        let mut chosen = String::new();
        let mut lines = plan.lines().peekable();
        while let Some(line) = lines.next() {
            let choices = lines
                .peek()
                .and_then(|next| next.strip_prefix("choices = ["));
            let choices = choices.filter(|_| line.starts_with("value = "));
            match choices {
                Some(choices) => {
                    let choices: Vec<&str> = choices.trim_end_matches(']').split(", ").collect();
                    chosen.push_str(&format!("value = {}\n", draws.choose(&choices)));
                }
                None => {
                    chosen.push_str(line);
                    chosen.push('\n');
                }
            }
        }
        // The fences are no comment for the tokens between them.
        let inside = chosen.strip_prefix("/*---\n").unwrap_or(&chosen);
        let inside = inside.strip_suffix("---*/\n").unwrap_or(inside);
        Self {
            subject,
            plan: tokens::tokens(inside),
            code: tokens::tokens(code),
            preludes: BTreeSet::new(),
            class: "",
            changes: Vec::new(),
            witnesses: Vec::new(),
        }
    }

    /// Applies one drawn change; none if no drawn rule has a site.
    fn change(&mut self, rules: &[Rules], draws: &mut Draws) -> Option<()> {
        for _ in 0..ATTEMPTS {
            let rule = draws.choose(rules);
            let change = draws.choose(rule.changes);
            if self.is_fit(rule.only) && self.apply(rule, *change, draws) {
                return Some(());
            }
        }
        None
    }

    fn is_fit(&self, only: Only) -> bool {
        let integer = self.subject.name.contains("-i");
        let plan = tokens::text(&self.plan);
        let blocks: Vec<&str> = plan
            .lines()
            .filter_map(|line| line.strip_prefix("block = ["))
            .collect();
        let one_axis = blocks.iter().all(|block| !block.contains(','));
        match only {
            Only::Any => true,
            Only::Float => !integer,
            Only::Integer => integer,
            Only::OneAxis => one_axis,
            Only::PairsOfWarps => {
                let value = |line: &str| line.trim_matches(['[', ']', '"', ' ']).to_owned();
                let tunable = |name: &str| {
                    let mut lines = plan
                        .lines()
                        .skip_while(|line| *line != format!("[tunables.{name}]"));
                    lines
                        .nth(1)
                        .and_then(|line| line.strip_prefix("value = ")?.parse::<i64>().ok())
                };
                one_axis
                    && blocks.iter().all(|block| {
                        let threads = match value(block).as_str() {
                            "THREADS" => tunable("THREADS"),
                            "WARPS * 32" => tunable("WARPS").map(|warps| warps * 32),
                            number => number.parse().ok(),
                        };
                        threads.is_some_and(|threads| threads % 64 == 0)
                    })
            }
        }
    }

    fn apply(
        &mut self,
        rule: &Rules,
        (pattern, template): (&str, &str),
        draws: &mut Draws,
    ) -> bool {
        let pattern = tokens::tokens(pattern);
        let pattern = &pattern[..pattern.len() - 1];
        let template = tokens::tokens(template);
        let mut template = template[..template.len() - 1].to_vec();
        let known = self.witnesses.len();
        if !self.fill_in(&mut template, draws) {
            return false;
        }
        let subject = match rule.part {
            Part::Plan => &mut self.plan,
            Part::Code | Part::WholeCode => &mut self.code,
        };
        let sites: Vec<_> = (0..subject.len())
            .filter_map(|at| Some((at, tokens::match_at(pattern, subject, at)?)))
            .collect();
        if sites.is_empty() {
            self.witnesses.truncate(known);
            return false;
        }
        let chosen = match rule.part {
            Part::WholeCode => sites,
            Part::Code | Part::Plan => vec![draws.choose(&sites).clone()],
        };
        let line = 1 + tokens::text(&subject[..chosen[0].0]).matches('\n').count();
        // From the last one back, so that positions before it stay true.
        for (at, (captures, end)) in chosen.iter().rev() {
            *subject = tokens::replace(subject, *at..*end, &template, captures);
        }
        self.class = rule.class;
        if !rule.prelude.is_empty() {
            self.preludes.insert(rule.prelude);
        }
        let part = if rule.part == Part::Plan {
            "plan"
        } else {
            "code"
        };
        let made = tokens::text(&template);
        let made = if made.trim().is_empty() {
            "nothing"
        } else {
            made.trim()
        };
        self.changes.push(format!(
            "{}: {part} line {line}: {} -> {made}",
            rule.class,
            tokens::text(pattern).trim(),
        ));
        true
    }

    /// Draws the numbers and names of a template; false if a dim is wanted and the code names none.
    fn fill_in(&mut self, template: &mut [Token], draws: &mut Draws) -> bool {
        let dims: Vec<String> = self
            .subject
            .task
            .free_dims
            .keys()
            .filter(|dim| self.code.iter().any(|token| token.text == **dim))
            .cloned()
            .collect();
        let size = if draws.below(2) == 0 {
            *draws.choose(&SIZES)
        } else {
            // Log-uniform from 1 to 2048.
            2_f64.powf(11.0 * draws.unit()).round() as i64
        };
        let high = size + 2 + (size as f64 * 3.0 * draws.unit()) as i64;
        for token in template {
            let text = match token.text.as_str() {
                "DRAWN_SMALL" => draws.below(40).to_string(),
                "DRAWN_DIM" => {
                    self.witnesses.extend([size - 1, size, size + 1]);
                    size.to_string()
                }
                "DRAWN_LOW" => size.to_string(),
                "DRAWN_HIGH" => {
                    self.witnesses.extend([size + 1, i64::midpoint(size, high)]);
                    high.to_string()
                }
                "DRAWN_NAME" if dims.is_empty() => return false,
                "DRAWN_NAME" => draws.choose(&dims).clone(),
                _ => continue,
            };
            token.text = text;
        }
        true
    }

    fn render(&self) -> String {
        let preludes: String = self.preludes.iter().copied().collect();
        format!(
            "/*---\n{}---*/\n{preludes}{}",
            tokens::text(&self.plan),
            tokens::text(&self.code)
        )
    }
}
