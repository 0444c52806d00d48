//! `show`: a run as text: its state, its lineage, its winner and the winner's commit.

use std::fmt::Write as _;

use domain::api::RunView;

use super::address;
use super::follow::print;
use super::run::outcome;
use crate::cli::ShowArgs;
use crate::client::Client;
use crate::evaluation_text;
use crate::outcome::{Ending, Failure, Outcome};
use crate::terminal::plain;
use crate::tree;

/// Width of the lineage where the terminal's is not known, characters.
const WIDTH: usize = 140;

pub(super) async fn show(args: ShowArgs) -> Ending {
    let client = address::client(&args.service)?;
    let run = client.run(args.run).await?;
    print(&report(&client, &run).await?)?;
    Ok(if run.state.is_over() {
        outcome(&run)
    } else {
        Outcome::Accepted
    })
}

/// Renders a run for a terminal: state, candidates as a tree, and winner.
pub(super) async fn report(client: &Client, run: &RunView) -> Result<String, Failure> {
    let lineage = client.lineage(run.id).await?;
    let winner = match &run.best {
        Some(best) => Some(client.candidate(best.candidate).await?),
        None => None,
    };
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
        "{} of {} trials; {}\n",
        run.trials,
        run.budget.trials,
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
