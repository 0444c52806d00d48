//! A run's calls as a recording: everything that models were asked and answered is in the
//! records, so that any run can be replayed without them.

use domain::id::RunId;
use domain::model::ReplyEnd;
use store::StoreError;

use crate::llm::cassette::{self, Call, Header, Origin, RecordedReply};
use crate::{Engine, EngineError};

impl Engine {
    /// The recording of a run's calls that were answered, in the format that a model of the kind
    /// `cassette` replays.
    ///
    /// # Errors
    /// The run is unknown, its conversations were removed, or the database fails.
    pub async fn recording(&self, run: RunId) -> Result<String, EngineError> {
        let view = self.store.run(run).await?;
        let view = view.ok_or_else(|| StoreError::Unknown {
            subject: "run",
            id: run.to_string(),
        })?;
        self.store.ensure_conversations(run).await?;
        let header = Header {
            cassette: cassette::VERSION,
            task: view.task.clone(),
            task_version: view.task_version,
            run: self.store.request(run).await?,
            models: view
                .models
                .iter()
                .filter_map(|choice| self.models.view(&choice.name))
                .collect(),
            origin: Origin::Recorded,
        };
        let mut calls = Vec::new();
        for (ordinal, candidate) in self.store.called(run).await? {
            for call in self.store.calls(candidate).await? {
                let Some(reply) = call.reply else { continue };
                calls.push(Call {
                    ordinal,
                    turn: call.turn,
                    prompt_digest: cassette::prompt_digest(&call.prompt),
                    model: reply.answered_by,
                    reply: RecordedReply {
                        text: reply.text,
                        end: if reply.complete {
                            ReplyEnd::Complete
                        } else {
                            ReplyEnd::Length
                        },
                        usage: reply.usage,
                        usage_estimated: reply.usage_estimated,
                    },
                    price: self.models.view(&call.model).and_then(|view| view.price),
                });
            }
        }
        Ok(cassette::lines(&header, calls).collect())
    }
}
