//! Runs generator, oracle and evaluator over a seed's list, and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Result;
use domain::digest::Digest;
use domain::evaluation::EVALUATOR_VERSION;
use domain::statistics::binomial_bounds;
use serde::{Deserialize, Serialize};

use super::judgement::{Judge, Judgement};
use super::mutation::{Kind, Mutant, mutant};
use super::oracle::{Proof, prove};
use super::subject::Subject;

/// Items drawn for each kernel that is wanted, at most: the oracle may prove few of them.
const ITEMS_PER_KERNEL: u64 = 12;

/// The result of one item of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ItemResult {
    /// No rule fitted, or an earlier item has the same text.
    Empty,
    /// It does not compile, or its plan has no values.
    Unbuilt,
    /// The oracle did not prove what it was meant to be.
    Unproven {
        /// The oracle's words.
        why: String,
    },
    /// It was proven and judged.
    Judged {
        /// The oracle's proof; empty for an honest kernel.
        proof: String,
        /// The evaluator's words.
        judgement: Judgement,
    },
}

/// One item with its result: a line of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the evaluator.
    #[serde(default)]
    pub evaluator: u32,
    /// Seed of the list.
    pub seed: u64,
    /// Wrong or honest.
    pub kind: Kind,
    /// Position in the list.
    pub item: u64,
    /// Task and kernel that was changed.
    pub base: String,
    /// Class of the last change.
    pub class: String,
    /// Every change.
    pub changes: Vec<String>,
    /// First digits of the text's digest, so that a list of older rules is not taken for this one.
    pub digest: String,
    /// The candidate's text, where it was misjudged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Its result.
    #[serde(flatten)]
    pub result: ItemResult,
}

impl Record {
    /// True if the evaluator took a wrong kernel for right, or a right one for wrong.
    #[must_use]
    pub fn is_misjudged(&self) -> bool {
        match &self.result {
            ItemResult::Judged { judgement, .. } => {
                judgement.accepted == (self.kind == Kind::Wrong)
            }
            _ => false,
        }
    }
}

/// Items to be judged.
#[derive(Debug, Clone, Copy)]
pub struct RatesRequest {
    /// Wrong or honest.
    pub kind: Kind,
    /// Seed of the list.
    pub seed: u64,
    /// Kernels that are to be proven and judged.
    pub wanted: u64,
}

/// Makes, proves and judges kernels until `order.wanted` are judged, with one thread for each judge. `known` has the
/// records of an earlier call, which are not made again; `done` is told every new one. Records come in the order of
/// the list.
///
/// # Errors
/// A fault of the infrastructure.
pub fn run(
    subjects: &[Subject],
    judges: &[Judge],
    order: RatesRequest,
    known: &[Record],
    done: &(dyn Fn(&Record) + Sync),
) -> Result<Vec<Record>> {
    let known: BTreeMap<u64, &Record> = known
        .iter()
        .filter(|record| record.evaluator == EVALUATOR_VERSION)
        .filter(|record| record.seed == order.seed && record.kind == order.kind)
        .map(|record| (record.item, record))
        .collect();
    let (next, judged, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let records = Mutex::new(Vec::new());
    let work = |judge: &Judge| -> Result<()> {
        while judged.load(Ordering::SeqCst) < order.wanted && !failed.load(Ordering::SeqCst) {
            let item = next.fetch_add(1, Ordering::SeqCst);
            if item >= order.wanted * ITEMS_PER_KERNEL {
                break;
            }
            let Some(mutant) = mutant(subjects, order.kind, order.seed, item) else {
                continue;
            };
            let digest = first_digits(&mutant.text);
            let record = match known.get(&item) {
                Some(known) if known.digest == digest => (*known).clone(),
                _ => {
                    let made = settle(subjects, judge, order, &mutant, digest);
                    let record = made.inspect_err(|_| failed.store(true, Ordering::SeqCst))?;
                    done(&record);
                    record
                }
            };
            if matches!(record.result, ItemResult::Judged { .. }) {
                judged.fetch_add(1, Ordering::SeqCst);
            }
            records
                .lock()
                .expect("no thread panics with it")
                .push(record);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = judges
            .iter()
            .map(|judge| scope.spawn(move || work(judge)))
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.expect("a thread of this function does not panic")
        })
    })?;
    let mut records = records.into_inner().expect("no thread panics with it");
    records.sort_by_key(|record| record.item);
    // Two items of one text are one kernel, and threads may have judged one more than was wanted.
    let mut seen = BTreeSet::new();
    let mut left = order.wanted;
    records.retain_mut(|record| {
        if !seen.insert(record.digest.clone()) {
            record.result = ItemResult::Empty;
        }
        let judged = matches!(record.result, ItemResult::Judged { .. });
        if judged && left == 0 {
            return false;
        }
        left -= u64::from(judged);
        true
    });
    Ok(records)
}

/// The first 16 digits of a text's digest. All of them would be half of a list's compressed size.
fn first_digits(text: &str) -> String {
    let digest = Digest::of(text).to_string();
    digest[..16].to_owned()
}

fn settle(
    subjects: &[Subject],
    judge: &Judge,
    order: RatesRequest,
    mutant: &Mutant,
    digest: String,
) -> Result<Record> {
    let subject = &subjects[mutant.subject];
    let mut record = Record {
        evaluator: EVALUATOR_VERSION,
        seed: order.seed,
        kind: order.kind,
        item: mutant.item,
        base: format!("{}/{}", subject.name, mutant.base),
        class: mutant.class.to_owned(),
        changes: mutant.changes.clone(),
        digest,
        text: None,
        result: ItemResult::Unbuilt,
    };
    let Some(ptx) = judge.compile(mutant)? else {
        return Ok(record);
    };
    let proof = match (prove(subject, mutant, &ptx, judge.limits()), order.kind) {
        (Proof::Wrong(why), Kind::Wrong) => why,
        (Proof::Right, Kind::Honest) => String::new(),
        (Proof::Right, Kind::Wrong) => {
            record.result = ItemResult::Unproven {
                why: "right in every execution".to_owned(),
            };
            return Ok(record);
        }
        (Proof::Wrong(why) | Proof::Open(why), _) => {
            record.result = ItemResult::Unproven { why };
            return Ok(record);
        }
    };
    let judgement = judge.judge(subject, mutant, order.seed)?;
    record.result = ItemResult::Judged { proof, judgement };
    if record.is_misjudged() {
        record.text = Some(mutant.text.clone());
    }
    Ok(record)
}

/// Counts of one class.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    made: u32,
    unbuilt: u32,
    unproven: u32,
    judged: u32,
    by_search: u32,
    misjudged: u32,
}

/// The bounds of a rate of misjudgements, percent. Both tails together are 5%.
fn bounds(counts: &Counts) -> [f64; 2] {
    match counts.judged {
        0 => [0.0, 100.0],
        judged => binomial_bounds(counts.misjudged, judged, 0.025).map(|bound| 100.0 * bound),
    }
}

/// The table of one kind by class, with the rate of misjudgements and its bounds, as Markdown.
#[must_use]
pub fn table(kind: Kind, records: &[Record]) -> String {
    let mut classes: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut total = Counts::default();
    for record in records
        .iter()
        .filter(|record| record.kind == kind && record.result != ItemResult::Empty)
    {
        let class = classes.entry(&record.class).or_default();
        for counts in [class, &mut total] {
            counts.made += 1;
            match &record.result {
                ItemResult::Empty => {}
                ItemResult::Unbuilt => counts.unbuilt += 1,
                ItemResult::Unproven { .. } => counts.unproven += 1,
                ItemResult::Judged { judgement, .. } => {
                    counts.judged += 1;
                    counts.by_search +=
                        u32::from(judgement.accepted_by_search == (kind == Kind::Wrong));
                    counts.misjudged += u32::from(record.is_misjudged());
                }
            }
        }
    }
    let (meant, misjudged) = match kind {
        Kind::Wrong => ("wrong", "accepted"),
        Kind::Honest => ("right", "refused"),
    };
    let mut text = format!(
        "| change | made | not compiled | not proven {meant} | proven {meant} and judged | {misjudged} by the search | \
         {misjudged} | 95% bounds |\n|---|---|---|---|---|---|---|---|\n"
    );
    let row = |text: &mut String, name: &str, counts: &Counts| {
        let Counts {
            made,
            unbuilt,
            unproven,
            judged,
            by_search,
            misjudged,
        } = counts;
        let [low, high] = bounds(counts);
        writeln!(
            text,
            "| {name} | {made} | {unbuilt} | {unproven} | {judged} | {by_search} | {misjudged} | {low:.2}% to {high:.2}% |"
        )
        .expect("a String can be written to");
    };
    for (name, counts) in &classes {
        row(&mut text, name, counts);
    }
    row(&mut text, "**all**", &total);
    if total.judged > 0 {
        let [low, high] = bounds(&total);
        let rate = f64::from(total.misjudged) / f64::from(total.judged);
        writeln!(
            text,
            "\n{} of {} {meant} kernels {misjudged}: {:.2}% (95%: {:.2}% to {:.2}%)",
            total.misjudged,
            total.judged,
            100.0 * rate,
            low,
            high
        )
        .expect("a String can be written to");
    }
    text
}
