//! Follows a run to its end and shows how it goes: one line that changes on a terminal, plain
//! lines elsewhere, JSON where it was asked for.

use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use anyhow::Context;
use domain::api::{Event, EventKind, RunState, RunView};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::client::stream::Events;
use crate::client::{Client, ClientError};
use crate::outcome::Failure;
use crate::progress::Progress;
use crate::terminal::clock;

/// Interval at which the changing line is drawn while no event arrives.
const TICK: Duration = Duration::from_millis(500);

/// The form of the progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// For people: a live line on a terminal, plain lines elsewhere.
    Text,
    /// Each event as a line of JSON.
    Json,
}

/// The event at which following ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The end of the run.
    Over,
    /// The end of the run or a pause, because the caller does not resume it.
    OverOrPaused,
}

/// Follows a run; the answer is the run as it then stands.
pub(super) async fn follow(
    client: &Client,
    run: RunView,
    style: Style,
    until: Until,
) -> Result<RunView, Failure> {
    let ends = |run: &RunView| {
        run.state.is_over()
            || until == Until::OverOrPaused && matches!(run.state, RunState::Paused { .. })
    };
    let mut run = run;
    if ends(&run) {
        return Ok(run);
    }
    let mut events = listen(client, &run);
    let mut progress = Progress::of(&run);
    let screen = Screen::new(style);
    let mut tick = tokio::time::interval(TICK);
    while !ends(&run) {
        screen.headline(&progress);
        let event = tokio::select! {
            _ = tick.tick() => continue,
            event = events.next() => event?,
        };
        let line = progress.absorb(&event);
        screen.event(&event, line)?;
        if changes_the_run(&event) {
            run = client.run(run.id).await?;
            progress.refresh(&run);
        }
    }
    screen.clear();
    Ok(run)
}

/// Returns true if the run has to be read again after an event. Stages and proposals are frequent, and
/// the event itself has everything that they change.
fn changes_the_run(event: &Event) -> bool {
    !matches!(
        event.what,
        EventKind::Stage { .. } | EventKind::Proposed { .. }
    )
}

struct Incoming {
    events: mpsc::Receiver<Result<Event, ClientError>>,
    _reader: AbortOnDropHandle<()>,
}

/// Reads in a task of its own, so that waiting for the clock never interrupts a connection.
fn listen(client: &Client, run: &RunView) -> Incoming {
    let mut source = Events::after(client, run.id, 0);
    let (sender, events) = mpsc::channel(64);
    let reader = tokio::spawn(async move {
        loop {
            let event = source.next().await;
            let failed = event.is_err();
            if sender.send(event).await.is_err() || failed {
                return;
            }
        }
    });
    Incoming {
        events,
        _reader: AbortOnDropHandle::new(reader),
    }
}

impl Incoming {
    async fn next(&mut self) -> Result<Event, Failure> {
        match self.events.recv().await {
            Some(event) => Ok(event?),
            None => Err(Failure::infrastructure(anyhow::anyhow!(
                "follow the run: its events ended without a reason"
            ))),
        }
    }
}

struct Screen {
    style: Style,
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Screen {
    fn new(style: Style) -> Self {
        let live = style == Style::Text && io::stderr().is_terminal();
        let bar = live.then(|| {
            let shape = ProgressStyle::with_template("{spinner} {wide_msg}")
                .expect("the template is well-formed");
            ProgressBar::new_spinner().with_style(shape)
        });
        Self {
            style,
            bar,
            started: Instant::now(),
        }
    }

    fn headline(&self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            let elapsed = clock(self.started.elapsed().as_secs());
            bar.set_message(format!("{elapsed}  {}", progress.headline()));
            bar.tick();
        }
    }

    fn event(&self, event: &Event, line: Option<String>) -> Result<(), Failure> {
        if self.style == Style::Json {
            return print_json(event);
        }
        let Some(line) = line else { return Ok(()) };
        let elapsed = clock(self.started.elapsed().as_secs());
        match &self.bar {
            Some(bar) => bar.println(format!("{elapsed}  {line}")),
            None => eprintln!("{elapsed}  {line}"),
        }
        Ok(())
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Prints a hint if no worker is attached, because a waiting run looks like a working one.
pub(super) async fn hint_without_workers(client: &Client) -> Result<(), Failure> {
    if client.health().await?.workers == 0 {
        let url = client.address();
        eprintln!("no worker has joined {url} yet; start one: kernelwright worker join {url}");
    }
    Ok(())
}

/// One value as one line of JSON on standard output.
pub(super) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .context("write the answer as JSON")
        .map_err(Failure::infrastructure)?;
    print(&format!("{text}\n"))
}

/// Text on standard output. A reader that went away, such as `head`, is no trouble.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("write to standard output");
            Err(Failure::infrastructure(error))
        }
        _ => Ok(()),
    }
}
