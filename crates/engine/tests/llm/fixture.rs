//! A scripted server with the models that ask it, and a plain request, for all tests.

use std::sync::Arc;

use domain::model::{Message, Prompt, Speaker};
use engine::llm::{CallRequest, Llm, LlmError, Models, Position, Reply};
use lab::model::{Answer, Dialect, Request, ScriptedModel};
use tempfile::TempDir;

pub const DIALECTS: [Dialect; 3] = [Dialect::OpenAi, Dialect::Anthropic, Dialect::Gemini];

/// Every transport: each protocol, streamed and in one piece.
pub const TRANSPORTS: [Transport; 6] = [
    Transport(Dialect::OpenAi, true),
    Transport(Dialect::OpenAi, false),
    Transport(Dialect::Anthropic, true),
    Transport(Dialect::Anthropic, false),
    Transport(Dialect::Gemini, true),
    Transport(Dialect::Gemini, false),
];

#[derive(Debug, Clone, Copy)]
pub struct Transport(pub Dialect, pub bool);

/// A server and a model that asks it.
pub struct ModelFixture {
    pub server: ScriptedModel,
    pub models: Models,
    _folder: TempDir,
}

impl ModelFixture {
    /// `more` are further lines of the model's entry.
    pub async fn new(
        transport: Transport,
        more: &str,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let server = ScriptedModel::start(script).await.unwrap();
        let Transport(dialect, stream) = transport;
        let entry = server.entry("m", dialect, &format!("stream = {stream}\n{more}"));
        let (models, folder) = read(&entry);
        Self {
            server,
            models,
            _folder: folder,
        }
    }

    pub fn llm(&self) -> Arc<dyn Llm> {
        self.models.llm("m").unwrap()
    }

    pub async fn ask(&self) -> Result<Reply, LlmError> {
        self.llm().complete(&request()).await
    }
}

/// The models of a file with this text.
pub fn read(text: &str) -> (Models, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("models.toml");
    std::fs::write(&path, text).unwrap();
    let models = Models::read(&path, 1).unwrap_or_else(|problems| panic!("{problems}"));
    (models, folder)
}

pub fn request() -> CallRequest {
    CallRequest {
        prompt: Prompt {
            system: "You write CUDA kernels.".to_owned(),
            messages: vec![Message {
                speaker: Speaker::User,
                text: "Make this one faster.".to_owned(),
            }],
        },
        temperature: Some(1.0),
        max_output_tokens: Some(1000),
        seed: Some(7),
        position: Position {
            ordinal: 3,
            turn: 0,
        },
    }
}
