//! A server for search programs other than ours: the simulated author behind OpenAI's protocol, and the
//! recorded results as an evaluator.
//!
//! A run is a word in the path, so that several programs and seeds share a server:
//! - `GET /start` gives the text of the kernel that every run starts from.
//! - `POST /{run}/{seed}/v1/chat/completions` answers a prompt of `OpenEvolve` or `ShinkaEvolve`.
//! - `POST /{run}/{seed}/evaluate` takes the text of a kernel that the author wrote in this run, and answers
//!   with `speedup` over the baseline, 0 if it is rejected, and `told`, the words of our own prompts for what
//!   bounds the kernel or for its defect.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::author::{Author, Situation, Step, Written, write};
use super::landscape::Landscape;
use super::libraries::{Choices, Defect, Library, MARK};
use super::reader::mark;
use super::trial::Course;

/// Progress of a run, trial by trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Highest speedup after each trial.
    best: Vec<f64>,
    /// Simulated cost after each trial, US dollars.
    dollars: Vec<f64>,
    /// Whether each trial's kernel was accepted.
    accepted: Vec<bool>,
}

/// Records by the name of the program, then by seed.
pub type Records = BTreeMap<String, BTreeMap<u64, Record>>;

impl Record {
    /// The course of the first trials.
    ///
    /// # Errors
    /// If the run has fewer.
    pub fn course(&self, trials: usize) -> Result<Course> {
        let first = |count: &str| format!("the run has {count} trials, not {trials}");
        let best = self.best.get(..trials);
        let best = best.with_context(|| first(&self.best.len().to_string()))?;
        let accepted = self.accepted[..trials].iter().filter(|one| **one).count();
        Ok(Course {
            best: best.to_vec(),
            dollars: self.dollars[trials - 1],
            valid: accepted as f64 / trials as f64,
        })
    }
}

#[derive(Default)]
struct Run {
    written: HashMap<String, Written>,
    replies: u64,
    tokens: (u64, u64),
    record: Record,
}

struct Shared {
    author: Author,
    landscape: Landscape,
    runs: Mutex<BTreeMap<(String, u64), Run>>,
}

/// The server. It ends when it is dropped.
pub struct Opponents {
    /// Its address on the loopback interface.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

impl Opponents {
    /// Listens on a free port.
    ///
    /// # Errors
    /// If none can be bound, or the author writes no kernels for the task.
    pub async fn start(landscape: Landscape) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("listen on a loopback port")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            author: Author::of(&landscape.task)?,
            landscape,
            runs: Mutex::default(),
        });
        let router = Router::new()
            .route("/start", get(start))
            .route("/{run}/{seed}/v1/chat/completions", post(chat))
            .route("/{run}/{seed}/evaluate", post(evaluate))
            .with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the server of the simulated author failed: {error}");
            }
        });
        Ok(Self {
            address,
            shared,
            serving,
        })
    }

    /// The records of all runs so far.
    pub fn records(&self) -> Records {
        let mut records = Records::new();
        for ((name, seed), run) in &*self.shared.runs() {
            let of_program = records.entry(name.clone()).or_default();
            of_program.insert(*seed, run.record.clone());
        }
        records
    }
}

impl Drop for Opponents {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, BTreeMap<(String, u64), Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel that programs start from.
    fn start(&self) -> String {
        let library = self.author.library;
        library.compose(&library.baseline, None, "")
    }
}

async fn start(State(shared): State<Arc<Shared>>) -> String {
    fenced(&shared.start())
}

async fn chat(
    State(shared): State<Arc<Shared>>,
    Path((name, seed)): Path<(String, u64)>,
    Json(asked): Json<Value>,
) -> Json<Value> {
    let messages = asked["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |message: Option<&Value>| {
        let content = message.and_then(|message| message["content"].as_str());
        content.unwrap_or_default().to_owned()
    };
    let Author {
        library,
        parameters,
    } = &shared.author;
    let situation = read(library, &text(messages.first()), &text(messages.last()));
    let mut runs = shared.runs();
    let run = runs.entry((name, seed)).or_default();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    run.replies += 1;
    rng.set_stream(run.replies);
    let written = write(&shared.author, &situation, &mut rng);
    let kernels = situation.kernels.len() + situation.tried.len();
    run.tokens.0 += parameters.task_tokens + parameters.kernel_tokens * kernels as u64;
    run.tokens.1 += parameters.reply_tokens;
    let note = written.defect.map(|_| format!(", reply {}", run.replies));
    let text = library.compose(&written.choices, written.defect, &note.unwrap_or_default());
    run.written.insert(unfenced(&text), written);
    let content = format!(
        "<NAME>\nsimulated\n</NAME>\n\n<DESCRIPTION>\n{MARK}{}\n</DESCRIPTION>\n\n<CODE>\n```cuda\n{}```\n</CODE>\n",
        written.choices,
        fenced(&text)
    );
    Json(json!({
        "id": "simulated",
        "object": "chat.completion",
        "created": 0,
        "model": "simulated",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": content },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 },
    }))
}

async fn evaluate(
    State(shared): State<Arc<Shared>>,
    Path((name, seed)): Path<(String, u64)>,
    source: String,
) -> Result<Json<Value>, (StatusCode, String)> {
    let mut runs = shared.runs();
    let run = runs.entry((name, seed)).or_default();
    let source = unfenced(&source);
    if run.replies == 0 && source == unfenced(&shared.start()) {
        // The program's start is no trial, as in our runs.
        return Ok(Json(
            json!({ "speedup": 1.0, "told": bound(&shared, &shared.author.library.baseline) }),
        ));
    }
    let Some(written) = run.written.get(&source).copied() else {
        let message = "the author did not write this kernel in this run".to_owned();
        return Err((StatusCode::UNPROCESSABLE_ENTITY, message));
    };
    // Of a defect the words that the author looks for in our prompts; each report of ours names a line.
    let possible = |defect| shared.author.library.possible(&written.choices, defect);
    let (speedup, told) = match written.defect.map(possible) {
        Some(Defect::Race) => (
            0.0,
            "conflict without synchronisation: line 40 and line 42".to_owned(),
        ),
        Some(Defect::Compile) => (0.0, "does not compile: line 20: expected a `;`".to_owned()),
        Some(Defect::Wrong) => (0.0, "wrong results, written by line 60".to_owned()),
        None => (
            shared.landscape.speedup(&written.choices).unwrap_or(0.0),
            bound(&shared, &written.choices),
        ),
    };
    let record = &mut run.record;
    let fastest = record.best.last().copied().unwrap_or(1.0);
    record.best.push(fastest.max(speedup));
    record.accepted.push(speedup > 0.0);
    let cost = shared.author.parameters.dollars(run.tokens.0, run.tokens.1);
    record.dollars.push(cost);
    Ok(Json(json!({ "speedup": speedup, "told": told })))
}

fn bound(shared: &Shared, choices: &Choices) -> String {
    let outcome = shared.landscape.kernels.get(choices);
    let term = outcome.and_then(|outcome| outcome.bottleneck.as_deref());
    format!(
        "largest bottleneck (modelled): {}",
        term.unwrap_or("unknown")
    )
}

/// Lines around a kernel, between which `ShinkaEvolve` lets a model change it.
const FENCE: [&str; 2] = ["// EVOLVE-BLOCK-START", "// EVOLVE-BLOCK-END"];

fn fenced(kernel: &str) -> String {
    format!("{}\n{kernel}{}\n", FENCE[0], FENCE[1])
}

/// The kernel without the fence and the white space around it, which programs change.
fn unfenced(source: &str) -> String {
    let lines = source.lines().filter(|line| !FENCE.contains(&line.trim()));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The parts of a prompt of `OpenEvolve` or `ShinkaEvolve` that the author uses: the current program, what its evaluation
/// told, and the other programs with their scores, which stand before or behind their code. Those count as insights
/// and as tried.
#[must_use]
pub fn read(library: &Library, system: &str, prompt: &str) -> Situation {
    let mut current = library.baseline;
    let mut second = None;
    let mut shown: Vec<(Choices, Option<f64>)> = Vec::new();
    let (mut section, mut score_before) = (String::new(), None);
    let mut told = String::new();
    for line in prompt.lines() {
        if let Some(title) = line.strip_prefix("# ") {
            section = title.to_lowercase();
        } else if line.starts_with("## ") {
            score_before = None;
        } else if let Some((_, rest)) = line.split_once("(Score: ") {
            let end = rest.find([',', ')']).unwrap_or(rest.len());
            score_before = rest[..end].parse().ok();
        }
        let is_current = section.starts_with("current program");
        if is_current {
            told.push_str(line);
            told.push('\n');
        } else if let Some((_, score)) = line.split_once("Combined score to maximize: ")
            && let Some((_, last @ None)) = shown.last_mut()
        {
            *last = score.trim().parse().ok();
        }
        let Some(choices) = mark(line).filter(|_| line.starts_with("// ")) else {
            continue;
        };
        if is_current {
            current = choices;
            continue;
        }
        if section.starts_with("crossover") {
            second = Some(choices);
        }
        shown.push((choices, score_before));
    }
    let defect = if told.contains("does not compile") {
        Some(Defect::Compile)
    } else if told.contains("conflict without synchronisation") {
        Some(Defect::Race)
    } else if told.contains("wrong results") {
        Some(Defect::Wrong)
    } else {
        None
    };
    let step = if let Some(defect) = defect {
        Step::Repair(defect)
    } else if second.is_some() {
        Step::Merge
    } else if system.contains("completely different algorithm") {
        Step::Differ
    } else {
        Step::Improve
    };
    let bottleneck = told.split("largest bottleneck (modelled): ").nth(1);
    let bottleneck = bottleneck.and_then(|rest| rest.split_whitespace().next());
    let insights = shown.iter().filter_map(|(choices, score)| {
        let score = score.filter(|score| *score >= 1.0);
        Some((*choices, score?))
    });
    Situation {
        step,
        kernels: [Some(current), second].into_iter().flatten().collect(),
        bottleneck: bottleneck.map(str::to_owned),
        tried: shown.iter().map(|(choices, _)| *choices).collect(),
        insights: insights.collect(),
        names_line: true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::libraries::LIBRARIES;
    use super::*;

    fn choices(text: &str) -> Choices {
        text.parse().unwrap()
    }

    fn block(kernel: &str) -> String {
        let text = LIBRARIES[0].compose(&choices(kernel), None, "");
        format!("```cuda\n{}```\n", fenced(&text))
    }

    #[test]
    fn prompts_in_the_layout_of_openevolve_are_read() {
        let prompt = format!(
            "# Current Program Information\n## Last Execution Output\n### evaluator\n```\nlargest bottleneck \
             (modelled): dram_bytes\n```\n# Program Evolution History\n## Previous Attempts\n### Attempt 1\n\
             ## Top Performing Programs\n### Program 1 (Score: 12.5000)\n{}### Program 2 (Score: 0.0000)\n{}\
             ### Inspiration 1 (Score: 3.0000, Type: Diverse)\n{}# Current Program\n{}# Task\n```cuda\n```\n",
            block("1.0.0.0.0.0"),
            block("1.1.0.0.0.0"),
            block("2.0.0.0.0.0"),
            block("0.1.0.0.0.0"),
        );
        let found = read(&LIBRARIES[0], "", &prompt);
        let shown = ["1.0.0.0.0.0", "1.1.0.0.0.0", "2.0.0.0.0.0"].map(choices);
        let expected = Situation {
            step: Step::Improve,
            kernels: vec![choices("0.1.0.0.0.0")],
            bottleneck: Some("dram_bytes".to_owned()),
            insights: vec![(shown[0], 12.5), (shown[2], 3.0)],
            tried: shown.to_vec(),
            names_line: true,
        };
        assert_eq!(found, expected);
        let failed = prompt.replace("largest bottleneck (modelled): dram_bytes", "wrong results");
        assert_eq!(
            read(&LIBRARIES[0], "", &failed).step,
            Step::Repair(Defect::Wrong)
        );
    }

    #[test]
    fn prompts_in_the_layout_of_shinkaevolve_are_read() {
        let metrics =
            |score| format!("Performance metrics:\nCombined score to maximize: {score}\n\n");
        let prompt = format!(
            "# Prior programs\n\n{}{}Text feedback:\nlargest bottleneck (modelled): fp32\n\n{}{}\n# Current program\n\
             \n{}{}Here is additional text feedback:\n\nlargest bottleneck (modelled): special\n\n# Task\n",
            block("1.0.0.0.0.0"),
            metrics("12.50"),
            block("1.1.0.0.0.0"),
            metrics("2.00"),
            block("0.1.0.0.0.0"),
            metrics("1.10"),
        );
        let shown = ["1.0.0.0.0.0", "1.1.0.0.0.0"].map(choices);
        let expected = Situation {
            step: Step::Improve,
            kernels: vec![choices("0.1.0.0.0.0")],
            bottleneck: Some("special".to_owned()),
            insights: vec![(shown[0], 12.5), (shown[1], 2.0)],
            tried: shown.to_vec(),
            names_line: true,
        };
        assert_eq!(read(&LIBRARIES[0], "", &prompt), expected);
        let other = "Design a completely different algorithm";
        assert_eq!(read(&LIBRARIES[0], other, &prompt).step, Step::Differ);
        let cross = format!("# Crossover Inspiration Programs\n{}", block("2.0.0.0.0.0"));
        let found = read(&LIBRARIES[0], "", &(prompt + &cross));
        assert_eq!(found.step, Step::Merge);
        let both = ["0.1.0.0.0.0", "2.0.0.0.0.0"].map(choices);
        assert_eq!(found.kernels, both);
    }

    /// A program gets the author's kernels and their recorded results, and what it evaluates is on record.
    #[tokio::test]
    async fn a_run_is_recorded_trial_by_trial() -> Result<()> {
        let file = crate::repository().join("tests/simulated/softmax-f32.json");
        let landscape = Landscape::read(&file)?;
        let known = landscape.clone();
        let opponents = Opponents::start(landscape).await?;
        let run = format!("http://{}/program/3", opponents.address);
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()?;
        let evaluate = async |source: String| {
            let asked = client.post(format!("{run}/evaluate")).body(source).send();
            asked.await?.error_for_status()?.json::<Value>().await
        };
        let start = client
            .get(format!("http://{}/start", opponents.address))
            .send();
        let start = start.await?.text().await?;
        assert_eq!(evaluate(start.clone()).await?["speedup"], 1.0);
        let mut best = Vec::new();
        for _ in 0..4 {
            let prompt = json!({ "messages": [{ "role": "user", "content": format!("# Current Program\n{start}") }] });
            let asked = client
                .post(format!("{run}/v1/chat/completions"))
                .json(&prompt);
            let reply: Value = asked.send().await?.error_for_status()?.json().await?;
            let reply = reply["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned();
            let code = reply
                .split("```cuda\n")
                .nth(1)
                .unwrap()
                .split("```")
                .next()
                .unwrap();
            let found = evaluate(format!("  {code}\n")).await?;
            let written = code.lines().find_map(mark).unwrap();
            let speedup = found["speedup"].as_f64().unwrap();
            let recorded = known.speedup(&written).unwrap();
            let is_recorded = (speedup / recorded - 1.0).abs() < 1e-12;
            assert!(speedup == 0.0 || is_recorded, "{found}, not {recorded}");
            best.push(speedup.max(best.last().copied().unwrap_or(1.0)));
        }
        assert!(evaluate("a kernel of its own".to_owned()).await.is_err());
        let course = opponents.records()["program"][&3].course(4)?;
        let near = course.best.iter().zip(&best);
        assert!(
            near.into_iter()
                .all(|(one, other)| (one / other - 1.0).abs() < 1e-12)
        );
        assert_eq!(course.best.len(), best.len());
        assert!(course.dollars > 0.0);
        assert!(opponents.records()["program"][&3].course(5).is_err());
        Ok(())
    }
}
