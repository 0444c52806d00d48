//! `show`: a run as text: its state, its lineage, its winner and the winner's commit.

use std::fmt::Write as _;

use domain::api::{CandidateDetail, Lineage, RunView};
use serde::Serialize;

use super::address;
use super::follow::{print, print_json};
use super::run::outcome;
use crate::cli::ShowArgs;
use crate::client::Client;
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::{counted, plain};
use crate::tree;

/// Width of the lineage where the terminal's is not known, characters.
const WIDTH: usize = 140;

/// The result of `show`.
#[derive(Serialize)]
struct Shown<'a> {
    run: &'a RunView,
    lineage: Lineage,
    winner: Option<CandidateDetail>,
}

pub(super) async fn show(args: ShowArgs) -> Ending {
    let client = address::client(&args.service)?;
    let run = client.run(args.run).await?;
    if args.json {
        print_json(&Shown {
            lineage: client.lineage(run.id).await?,
            winner: winner(&client, &run).await?,
            run: &run,
        })?;
    } else {
        print(&report(&client, &run).await?)?;
    }
    Ok(if run.state.is_over() {
        outcome(&run)
    } else {
        Outcome::Accepted
    })
}

/// The best candidate with everything that is known of it.
async fn winner(client: &Client, run: &RunView) -> Result<Option<CandidateDetail>, Failure> {
    Ok(match &run.best {
        Some(best) => Some(client.candidate(best.candidate).await?),
        None => None,
    })
}

/// Renders a run for a terminal: state, candidates as a tree, and winner.
pub(super) async fn report(client: &Client, run: &RunView) -> Result<String, Failure> {
    let lineage = client.lineage(run.id).await?;
    let winner = winner(client, run).await?;
    let mut text = format!(
        "\n{} on {}: {}\n",
        plain(&run.name),
        plain(&run.task),
        plain(&run.state.to_string())
    );
    let verdicts = run.verdicts.iter();
    let verdicts: Vec<_> = verdicts
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let _infallible = writeln!(
        text,
        "{} of {}; {}\n",
        run.trials,
        counted(u64::from(run.budget.trials), "trial", "trials"),
        verdicts.join(", ")
    );
    if let Some(spent) = evaluation_text::spent(run) {
        let _infallible = writeln!(text, "{spent}\n");
    }
    text.push_str(&tree::render(&lineage, &run.state, WIDTH));
    text.push('\n');
    text.push_str(&evaluation_text::winner(run, winner.as_ref()));
    let _infallible = writeln!(text, "page       {}", client.run_page(run.id));
    Ok(text)
}
