//! A model behind a local program: the prompt goes to its standard input, its standard output is the
//! reply. Command lines of large providers work this way without a key.

use std::collections::BTreeMap;
use std::process::Stdio;

use domain::model::{Prompt, Speaker, Usage};
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::config::CommandConfig;
use super::error::{LlmError, ModelServer, Phase};
use super::failure::printable;
use super::{CallRequest, Llm, Reply, ReplyEnd};

/// The most bytes of a reply.
const MAX_REPLY: u64 = 32 * 1024 * 1024;
/// Bytes of the standard error output that are read.
const MAX_ERRORS: u64 = 64 * 1024;
/// Variables that the program gets. The others may hold keys of other models.
const VARIABLES: &[&str] = &[
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A model behind a local program.
#[derive(Debug)]
pub(super) struct CommandModel {
    config: CommandConfig,
    slots: Semaphore,
}

impl CommandModel {
    pub(super) fn new(config: CommandConfig) -> Self {
        Self {
            slots: Semaphore::new(config.common.concurrency as usize),
            config,
        }
    }

    /// Returns true if the model was made with this configuration.
    pub(super) fn is_configured_as(&self, config: &CommandConfig) -> bool {
        self.config == *config
    }

    fn server(&self) -> ModelServer {
        ModelServer {
            model: self.config.common.name.clone(),
            host: format!("the program {}", self.config.program[0]),
        }
    }

    fn failed(&self, message: String, permanent: bool) -> LlmError {
        LlmError::Program {
            server: self.server(),
            message,
            permanent,
        }
    }

    async fn call(&self, request: &CallRequest) -> Result<Reply, LlmError> {
        let _slot = self
            .slots
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let limit = self.config.total;
        let started = Instant::now();
        let text = timeout(limit, self.run(&request.prompt))
            .await
            .map_err(|_| LlmError::Timeout {
                server: self.server(),
                phase: Phase::Total,
                limit,
            })??;
        Ok(Reply {
            usage: Usage {
                input: request.prompt.estimated_tokens(),
                output: (text.len() as u64).div_ceil(3),
                ..Usage::default()
            },
            usage_estimated: true,
            text,
            end: ReplyEnd::Complete,
            model: self.config.program[0].clone(),
            request_id: None,
            first_token: None,
            total: started.elapsed(),
            attempts: 1,
        })
    }

    /// Runs the program once. It is killed if the future is dropped.
    async fn run(&self, prompt: &Prompt) -> Result<String, LlmError> {
        let [program, arguments @ ..] = self.config.program.as_slice() else {
            return Err(self.failed("has no name".to_owned(), true));
        };
        let kept = VARIABLES
            .iter()
            .copied()
            .chain(self.config.pass_env.iter().map(String::as_str));
        let environment: BTreeMap<_, _> = kept
            .filter_map(|name| Some((name, std::env::var_os(name)?)))
            .collect();
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(environment)
            // No folder of the service is the program's own.
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.failed(format!("cannot be started: {error}"), true))?;
        let mut input = child.stdin.take().expect("standard input is piped");
        let output = child.stdout.take().expect("standard output is piped");
        let errors = child.stderr.take().expect("standard error is piped");
        let prompt = rendered(prompt);
        let write = async move {
            // A program may answer without reading all of its input.
            let _closed = input.write_all(prompt.as_bytes()).await;
        };
        let ((), output, errors) =
            tokio::join!(write, read(output, MAX_REPLY + 1), read(errors, MAX_ERRORS));
        let failed = |error: std::io::Error| self.failed(format!("failed: {error}"), false);
        let output = output.map_err(failed)?;
        if output.len() as u64 > MAX_REPLY {
            let message = format!("writes more than {MAX_REPLY} bytes");
            return Err(self.failed(message, true));
        }
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            let errors = errors.unwrap_or_default();
            let errors = printable(&String::from_utf8_lossy(&errors), None);
            return Err(self.failed(format!("ended with {status}: {errors}"), false));
        }
        String::from_utf8(output)
            .map_err(|_| self.failed("writes text that is not UTF-8".to_owned(), true))
    }
}

impl Llm for CommandModel {
    fn complete<'a>(&'a self, request: &'a CallRequest) -> BoxFuture<'a, Result<Reply, LlmError>> {
        Box::pin(self.call(request))
    }
}

async fn read(from: impl AsyncRead + Unpin, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// A conversation as one text: the system message first, earlier answers marked as such.
fn rendered(prompt: &Prompt) -> String {
    let mut text = prompt.system.trim_end().to_owned();
    for message in &prompt.messages {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        if message.speaker == Speaker::Assistant {
            text.push_str("Your earlier answer:\n\n");
        }
        text.push_str(message.text.trim_end());
    }
    text.push('\n');
    text
}
