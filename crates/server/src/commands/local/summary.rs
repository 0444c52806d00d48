//! `summary`: the history of a file, from the record alone.

use engine::promote::worktree;
use store::Store;

use super::super::follow::{print, print_json};
use super::super::serve;
use crate::cli::SummaryArgs;
use crate::outcome::{Ending, Failure, Outcome};
use crate::report::step::{history, table};
use crate::report::{Report, SCHEMA};

pub(crate) async fn summary(args: SummaryArgs) -> Ending {
    let (folder, path) = worktree::place(&args.file).map_err(Failure::input)?;
    let data = serve::open_existing(&args.folder.data)?;
    let store = Store::open(data.database())
        .await
        .map_err(Failure::infrastructure)?;
    let iterations = store
        .iterations(&folder.display().to_string(), &path)
        .await
        .map_err(Failure::infrastructure)?;
    let entries = history(&iterations);
    if args.json {
        print_json(&Report {
            schema: SCHEMA,
            verb: "summary",
            ok: true,
            file: Some(path),
            task: None,
            evaluator: domain::evaluation::EVALUATOR_VERSION,
            device: None,
            result: entries,
        })?;
    } else {
        print(&table(&entries))?;
    }
    Ok(Outcome::Accepted)
}
