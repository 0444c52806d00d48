//! Runs every command of the guide, `docs/guide`, as a reader does: page by page, in one folder.
//!
//! A fence says what a block is: `sh` runs to its end and must succeed, `sh exit-N` ends with that
//! code, `sh background` goes on until its page ends, `sh needs-...` and `sh builds` are counted
//! and not run. A `text` block shows what the block before it prints, with `...` for anything.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use lab::model::{Answer, Dialect, ScriptedModel};
use lab::{Finished, Lab, Process};

/// The pages in the order in which a reader meets them.
const PAGES: [&str; 14] = [
    "install.md",
    "first-task.md",
    "ship.md",
    "kernelbench.md",
    "verdicts.md",
    "models.md",
    "agents.md",
    "workers.md",
    "driver.md",
    "monitoring.md",
    "http.md",
    "configuration.md",
    "backup.md",
    "troubleshooting.md",
];

/// The address of a service and of a model's server in the guide. The lab's ports replace them.
const SERVICE: &str = "127.0.0.1:8787";
const MODEL: &str = "127.0.0.1:8080";

/// Programs of a reader's that blocks call. Where one is missing, the rest of a page from the first
/// block that calls it is not run; in CI that is an error.
const TOOLS: [&str; 4] = ["curl", "git", "jq", "python3"];

/// One fenced block of a page.
#[derive(Debug)]
struct Block {
    line: usize,
    kind: Kind,
    text: String,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// Ends with this exit code.
    Command(i32),
    Background,
    /// Not run, for this reason.
    LeftOut(String),
    /// Printed by the command before it.
    Output,
}

fn kind(fence: &str) -> Result<Option<Kind>> {
    Ok(Some(match fence.split_once(' ').unwrap_or((fence, "")) {
        ("sh", "") => Kind::Command(0),
        ("sh", "background") => Kind::Background,
        ("sh", mark) if mark.starts_with("needs-") || mark == "builds" => {
            Kind::LeftOut(mark.to_owned())
        }
        ("sh", mark) => {
            let code = mark.strip_prefix("exit-").context("an unknown mark")?;
            Kind::Command(code.parse()?)
        }
        ("text", _) => Kind::Output,
        _ => return Ok(None),
    }))
}

fn blocks(page: &str) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut skipping = false;
    for (index, line) in page.lines().enumerate() {
        let fence = line.strip_prefix("```");
        match (fence, &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(_), None) if skipping => skipping = false,
            (Some(fence), None) => match kind(fence).with_context(|| format!("fence {fence:?}"))? {
                Some(kind) => {
                    open = Some(Block {
                        line: index + 1,
                        kind,
                        text: String::new(),
                    });
                }
                None => skipping = true,
            },
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    ensure!(open.is_none(), "a block is not closed");
    Ok(blocks)
}

/// True if the expected lines stand in the output in this order. `...` stands for anything inside a
/// line, and between lines for any lines.
fn is_printed(expected: &str, output: &str) -> bool {
    let mut lines = output.lines();
    expected
        .lines()
        .filter(|line| *line != "...")
        .all(|wanted| {
            lines.any(|line| {
                let mut rest = line;
                wanted.split("...").map(str::trim).all(|part| {
                    rest.find(part)
                        .map(|at| rest = rest.get(at + part.len()..).unwrap_or_default())
                        .is_some()
                })
            })
        })
}

/// The tools that are not on the search path.
fn missing_tools() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    let is_here = |tool: &&str| folders.iter().any(|folder| folder.join(tool).is_file());
    TOOLS.into_iter().filter(|tool| !is_here(tool)).collect()
}

/// The folder in which a reader works, with what stays from block to block.
struct Reader {
    folder: PathBuf,
    lab: Lab,
    /// Ends with its page.
    workers: Vec<Process>,
    /// Replacements for the addresses in the guide.
    addresses: BTreeMap<&'static str, String>,
}

impl Reader {
    /// Runs a block in the shell, with the variables and the folder that earlier ones left.
    fn run(&self, text: &str) -> Result<Finished> {
        let program = lab::binary();
        let tools = program.parent().context("the program lies in a folder")?;
        let script = format!(
            "export PATH={}:\"$PATH\"; set -aeuo pipefail; cd {}; . ./.variables; cd \"$(cat .place)\"\n{text}\nplace=$PWD; cd {}; printf '%s' \"$place\" > .place; declare -p api run candidate digest 2>/dev/null > .variables || true",
            tools.display(),
            self.folder.display(),
            self.folder.display(),
        );
        lab::program(Path::new("bash"), &[], &["-c", &script])
    }

    fn new_page(&mut self) -> Result<()> {
        self.workers.clear();
        self.lab.stop();
        self.lab = Lab::with_data(self.folder.join(".kernelwright"))?;
        self.addresses.remove(SERVICE);
        std::fs::write(self.folder.join(".variables"), "")?;
        let place = self.folder.to_str().context("UTF-8")?;
        std::fs::write(self.folder.join(".place"), place)?;
        Ok(())
    }

    /// Starts a service, or a worker and waits until it has joined.
    async fn start(&mut self, command: &str) -> Result<()> {
        let words = command.split_whitespace().collect::<Vec<_>>();
        match *words.as_slice() {
            ["kernelwright", "serve", ref extra @ ..] => {
                let mut extra = extra.to_vec();
                if let ["--data", folder, ..] = *extra {
                    self.lab = Lab::with_data(self.folder.join(folder))?;
                    extra.drain(..2);
                }
                let models = self.folder.join("models.toml");
                if models.is_file() {
                    // The lab's service has another current folder than a reader's.
                    extra.extend(["--models", models.to_str().context("UTF-8")?]);
                }
                self.lab.serve(&extra).await?;
                let address = self.lab.address()?;
                let address = address.strip_prefix("http://").context("an address")?;
                self.addresses.insert(SERVICE, address.to_owned());
            }
            [
                "kernelwright",
                "worker",
                "join",
                _,
                "--name",
                name,
                "--data",
                _,
            ] => {
                let worker = self.lab.worker(name)?;
                self.lab.until_logged(&worker, "joined").await?;
                self.workers.push(worker);
            }
            _ => bail!("{command:?} is no service and no worker"),
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guide_does_what_the_guide_says() -> Result<()> {
    let pages = lab::repository().join("docs/guide");
    let kernel = std::fs::read_to_string(pages.join("first-task.md"))?;
    let kernel = kernel.split("cat > warp.cu <<'CUDA'\n").nth(1);
    let kernel = kernel.and_then(|rest| rest.split("\nCUDA\n").next());
    let reply = format!("```cuda\n{}\n```\n", kernel.context("the guide's kernel")?);
    let model = ScriptedModel::start(move |_| Answer::text(reply.clone())).await?;
    let entry = model.entry("local", Dialect::OpenAi, "");
    let endpoint = entry.split("http://").nth(1).context("an endpoint")?;
    let endpoint = endpoint.split(['/', '"']).next().context("an endpoint")?;

    let folder = tempfile::tempdir()?;
    let mut reader = Reader {
        folder: folder.path().to_owned(),
        lab: Lab::with_data(folder.path().join(".kernelwright"))?,
        workers: Vec::new(),
        addresses: BTreeMap::from([(MODEL, endpoint.to_owned())]),
    };
    let missing = missing_tools();
    ensure!(
        missing.is_empty() || std::env::var_os("CI").is_none(),
        "install {missing:?}: the guide calls them"
    );
    let mut left_out = Vec::new();
    for page in PAGES {
        let text = std::fs::read_to_string(pages.join(page))?;
        reader.new_page()?;
        let mut printed = String::new();
        let began = Instant::now();
        for block in blocks(&text).with_context(|| page.to_owned())? {
            let place = format!("docs/guide/{page}:{}", block.line);
            let calls = |tool: &&&str| {
                let mut words = block
                    .text
                    .split(|letter: char| !letter.is_ascii_alphanumeric());
                words.any(|word| word == **tool)
            };
            if let Some(tool) = missing.iter().find(calls) {
                println!("{place} and the rest of its page is not run: {tool} is missing");
                break;
            }
            let command = reader
                .addresses
                .iter()
                .fold(block.text.clone(), |text, (from, to)| {
                    text.replace(from, to)
                });
            match block.kind {
                Kind::LeftOut(why) => left_out.push(format!("{place} ({why})")),
                Kind::Background => reader.start(&command).await.context(place)?,
                Kind::Output => ensure!(
                    is_printed(&block.text, &printed),
                    "{place} shows\n{}but the commands print\n{printed}",
                    block.text
                ),
                Kind::Command(code) => {
                    let done = tokio::task::block_in_place(|| reader.run(&command));
                    let done = done.with_context(|| place.clone())?;
                    ensure!(
                        done.status.code() == Some(code),
                        "{place} ended with {}, not {code}:\n{}\n{}\n{}",
                        done.status,
                        block.text,
                        done.stdout,
                        done.stderr
                    );
                    printed = done.stdout;
                }
            }
        }
        println!("{page}: {} s", began.elapsed().as_secs());
    }
    println!(
        "marked and not run: {} blocks: {left_out:#?}",
        left_out.len()
    );
    ensure!(
        left_out.len() <= 6,
        "blocks that no test runs become more: {left_out:#?}"
    );
    Ok(())
}

#[test]
fn every_page_of_the_guide_is_read() -> Result<()> {
    let pages = std::fs::read_dir(lab::repository().join("docs/guide"))?;
    let mut names = Vec::new();
    for page in pages {
        names.push(page?.file_name().into_string().expect("names are text"));
    }
    names.retain(|name| name != "README.md" && name != "commands.md");
    names.sort();
    let mut known = PAGES.to_vec();
    known.sort_unstable();
    assert_eq!(names, known);
    Ok(())
}

/// Adds the names that begin with our prefix in the Rust files below a folder.
fn variables(folder: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            variables(&path, names)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            for rest in text.split("KERNELWRIGHT_").skip(1) {
                let is_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
                let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
                names.insert(format!(
                    "KERNELWRIGHT_{}",
                    rest.get(..end).unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

#[test]
fn every_environment_variable_is_documented() -> Result<()> {
    let root = lab::repository();
    let page = std::fs::read_to_string(root.join("docs/guide/configuration.md"))?;
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        variables(&entry?.path().join("src"), &mut names)?;
    }
    // A name that a test of the key store takes to be unset.
    names.remove("KERNELWRIGHT_NO_SUCH_KEY");
    let is_missing = |name: &&String| !page.contains(&format!("`{name}`"));
    let missing = names.iter().filter(is_missing).collect::<Vec<_>>();
    assert!(names.len() > 20, "{names:?}");
    assert_eq!(
        missing,
        Vec::<&String>::new(),
        "docs/guide/configuration.md"
    );
    Ok(())
}

#[test]
fn output_is_compared_in_order_and_with_gaps() {
    let output = "first 12 ms\nsecond\nthird";
    assert!(is_printed("first ... ms\nthird\n", output));
    assert!(is_printed("first...\n...\nthird\n", output));
    assert!(!is_printed("third\nfirst\n", output));
    assert!(!is_printed("fourth\n", output));
}
