//! From the text of a file of models to checked settings, with every defect located.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::decode_message::{self, Syntax};
use domain::model::Price;
use domain::problem::{Problem, Problems};
use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::{
    Backoff, CassetteConfig, CommandConfig, CommonSettings, HttpConfig, ModelConfig, Prompts,
    Temperature, Timeouts, TokenLimitField,
};
use crate::llm::dialect::{self, Dialect, Features};
use crate::llm::key::KeySource;

const SEE: &str = "see docs/reference/models.md for the keys of a model";

/// The default of `context_tokens`.
const CONTEXT_TOKENS: u64 = 128_000;
/// The default of `max_output_tokens`; half the context where that is less.
const OUTPUT_TOKENS: u64 = 16_384;
const CONCURRENCY: u32 = 4;
const ATTEMPTS: u32 = 5;
const CONNECT: Duration = Duration::from_secs(10);
// Models that reason before they answer may send nothing for minutes.
const FIRST_TOKEN: Duration = Duration::from_secs(300);
const IDLE: Duration = Duration::from_secs(120);
const TOTAL: Duration = Duration::from_secs(900);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// No setting in seconds is above a day.
const MAX_SECONDS: f64 = 86_400.0;

/// The api of a recording.
const CASSETTE: &str = "cassette";
/// The api of a local program.
const COMMAND: &str = "command";

/// Fields that we set ourselves.
const OURS: &[&str] = &[
    "model",
    "messages",
    "system",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "seed",
    "n",
    "reasoning_effort",
    "contents",
    "systemInstruction",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    api: Spanned<String>,
    endpoint: Option<Spanned<String>>,
    model: Option<Spanned<String>>,
    key: Option<Spanned<IgnoredAny>>,
    key_env: Option<Spanned<String>>,
    key_file: Option<Spanned<String>>,
    price: Option<Price>,
    context_tokens: Option<Spanned<u64>>,
    max_output_tokens: Option<Spanned<u64>>,
    concurrency: Option<Spanned<u32>>,
    requests_per_minute: Option<Spanned<u32>>,
    tokens_per_minute: Option<Spanned<u64>>,
    temperature: Option<Spanned<RawTemperature>>,
    token_limit_field: Option<Spanned<TokenLimitField>>,
    reasoning_effort: Option<Spanned<String>>,
    #[serde(default)]
    extra: BTreeMap<Spanned<String>, Value>,
    stream: Option<Spanned<bool>>,
    timeouts: Option<Spanned<RawTimeouts>>,
    attempts: Option<Spanned<u32>>,
    backoff: Option<Spanned<RawBackoff>>,
    file: Option<Spanned<String>>,
    strict: Option<Spanned<bool>>,
    program: Option<Spanned<Vec<String>>>,
    pass_env: Option<Spanned<Vec<String>>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or \"never\"")]
enum RawTemperature {
    Number(f64),
    Word(String),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawTimeouts {
    connect: Option<Spanned<f64>>,
    first_token: Option<Spanned<f64>>,
    idle: Option<Spanned<f64>>,
    total: Option<Spanned<f64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawBackoff {
    base: Option<Spanned<f64>>,
    longest: Option<Spanned<f64>>,
}

/// Reads the text of the file `name`, which lies in `folder`.
pub(in crate::llm) fn read(
    name: &str,
    text: &str,
    folder: &Path,
) -> Result<Vec<ModelConfig>, Problems> {
    let mut reader = Reader {
        name,
        text,
        folder,
        problems: Vec::new(),
    };
    let models = reader.file();
    if reader.problems.is_empty() {
        Ok(models)
    } else {
        reader
            .problems
            .sort_by_key(|problem| (problem.line, problem.column));
        Err(Problems(reader.problems))
    }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    folder: &'a Path,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn report_at(&mut self, offset: usize, message: impl Into<String>, fix: impl Into<String>) {
        self.problems
            .push(Problem::at(self.name, self.text, offset, message, fix));
    }

    fn report<T>(&mut self, at: &Spanned<T>, message: impl Into<String>, fix: impl Into<String>) {
        self.report_at(at.span().start, message, fix);
    }

    /// Reports a syntax error by its message alone, because the error's full text would repeat the
    /// line and any secret in it.
    fn report_syntax(&mut self, error: &toml::de::Error, start: usize) {
        let offset = error.span().map_or(start, |span| span.start);
        let message = decode_message::describe(error.message(), Syntax::Toml);
        self.report_at(offset, message, SEE);
    }

    fn file(&mut self) -> Vec<ModelConfig> {
        let text = self.text;
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                self.report_syntax(&error, 0);
                return Vec::new();
            }
        };
        let mut models = Vec::new();
        for (key, value) in table {
            let DeValue::Table(entries) = value.into_inner() else {
                self.report(&key, format!("unknown key {:?}", key.get_ref()), SEE);
                continue;
            };
            if key.get_ref() != "models" {
                let message = format!("unknown table {:?}", key.get_ref());
                self.report(&key, message, "name each model in a table [models.NAME]");
                continue;
            }
            for (name, value) in entries {
                models.extend(self.model(&name, value));
            }
        }
        models
    }

    fn model(
        &mut self,
        name: &Spanned<impl AsRef<str>>,
        value: Spanned<DeValue<'_>>,
    ) -> Option<ModelConfig> {
        let label = name.get_ref().as_ref();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if label.is_empty() || label.len() > 64 || !label.chars().all(fits) {
            let fix = "use at most 64 letters, digits, '-', '_' and '.'";
            self.report(name, "not a model's name", fix);
        }
        let raw = match ModelTable::deserialize(ValueDeserializer::from(value)) {
            Ok(raw) => raw,
            Err(error) => {
                self.report_syntax(&error, name.span().start);
                return None;
            }
        };
        if let Some(key) = &raw.key {
            let fix = "name the variable or the file that holds it with key_env or key_file, and take this key out of use: it has been written to a file";
            self.report(key, "a key is never written here", fix);
        }
        let common = self.common(label, &raw);
        let api = raw.api.get_ref().as_str();
        if api == CASSETTE {
            return self.cassette(name, &raw, common);
        }
        if api == COMMAND {
            return self.command(name, &raw, common);
        }
        if let Some(dialect) = dialect::find(api) {
            return self.http(name, raw, common, dialect);
        }
        let known = dialect::DIALECTS.map(|dialect| format!("{:?}", dialect.name()));
        let message = format!("unknown api {api:?}");
        let fix = format!(
            "write {}, {COMMAND:?} or {CASSETTE:?}; most servers speak {}",
            known.join(", "),
            known[0]
        );
        self.report(&raw.api, message, fix);
        None
    }

    fn common(&mut self, name: &str, raw: &ModelTable) -> CommonSettings {
        let context_tokens = self.positive(&raw.context_tokens).unwrap_or(CONTEXT_TOKENS);
        let max_output_tokens = self
            .positive(&raw.max_output_tokens)
            .unwrap_or(OUTPUT_TOKENS.min(context_tokens / 2));
        if max_output_tokens >= context_tokens
            && let Some(at) = raw
                .max_output_tokens
                .as_ref()
                .or(raw.context_tokens.as_ref())
        {
            let message = format!(
                "a reply of {max_output_tokens} tokens leaves no room for a prompt in {context_tokens}"
            );
            self.report(
                at,
                message,
                "lower max_output_tokens, or raise context_tokens",
            );
        }
        CommonSettings {
            name: name.to_owned(),
            price: raw.price,
            context_tokens,
            max_output_tokens,
            concurrency: self.positive(&raw.concurrency).unwrap_or(CONCURRENCY),
        }
    }

    fn http(
        &mut self,
        name: &Spanned<impl AsRef<str>>,
        raw: ModelTable,
        common: CommonSettings,
        dialect: &'static dyn Dialect,
    ) -> Option<ModelConfig> {
        self.belongs(&raw.file, "file", "cassette");
        self.belongs(&raw.strict, "strict", "cassette");
        self.belongs(&raw.program, "program", COMMAND);
        self.belongs(&raw.pass_env, "pass_env", COMMAND);
        let features = dialect.features();
        if !features.token_limit_field {
            let others = names_of(|features| features.token_limit_field);
            self.belongs(&raw.token_limit_field, "token_limit_field", &others);
        }
        if !features.reasoning_effort {
            let others = names_of(|features| features.reasoning_effort);
            self.belongs(&raw.reasoning_effort, "reasoning_effort", &others);
        }
        let key = self.key(&raw);
        let url = match &raw.endpoint {
            Some(endpoint) => {
                let model = raw.model.as_ref().map_or("", |model| model.get_ref());
                let stream = raw.stream.as_ref().is_none_or(|stream| *stream.get_ref());
                let url = self.endpoint(endpoint, &key);
                url.map(|url| dialect::request_url(dialect, &url, model, stream))
            }
            None => {
                let fix = format!("such as endpoint = {:?}", dialect.example_endpoint());
                self.report(name, "the model has no endpoint", fix);
                None
            }
        };
        let model = match raw.model {
            Some(model) if !model.get_ref().is_empty() => Some(model.into_inner()),
            _ => {
                let fix = "add model = \"...\", as its server calls it";
                self.report(name, "the model has no server's name", fix);
                None
            }
        };
        let extra = raw
            .extra
            .into_iter()
            .filter_map(|(field, value)| {
                if OURS.contains(&field.get_ref().as_str()) {
                    let message = format!("{:?} is set by Kernelwright", field.get_ref());
                    self.report(
                        &field,
                        message,
                        "use the model's own key for it, or leave it out",
                    );
                    None
                } else {
                    Some((field.into_inner(), value))
                }
            })
            .collect();
        let timeouts = raw.timeouts.map(Spanned::into_inner).unwrap_or_default();
        let backoff = raw.backoff.map(Spanned::into_inner).unwrap_or_default();
        Some(ModelConfig::Http(Box::new(HttpConfig {
            temperature: self.temperature(raw.temperature.as_ref()),
            requests_per_minute: self.positive(&raw.requests_per_minute),
            tokens_per_minute: self.positive(&raw.tokens_per_minute),
            attempts: self.positive(&raw.attempts).unwrap_or(ATTEMPTS),
            timeouts: Timeouts {
                connect: self.seconds(&timeouts.connect, CONNECT),
                first_token: self.seconds(&timeouts.first_token, FIRST_TOKEN),
                idle: self.seconds(&timeouts.idle, IDLE),
                total: self.seconds(&timeouts.total, TOTAL),
            },
            backoff: Backoff {
                base: self.seconds(&backoff.base, FIRST_PAUSE),
                longest: self.seconds(&backoff.longest, LONGEST_PAUSE),
            },
            common,
            dialect,
            url: url?,
            model: model?,
            key,
            token_limit_field: raw.token_limit_field.map(Spanned::into_inner),
            reasoning_effort: raw.reasoning_effort.map(Spanned::into_inner),
            extra,
            stream: raw.stream.is_none_or(Spanned::into_inner),
        })))
    }

    fn cassette(
        &mut self,
        name: &Spanned<impl AsRef<str>>,
        raw: &ModelTable,
        common: CommonSettings,
    ) -> Option<ModelConfig> {
        self.belongs(&raw.timeouts, "timeouts", &names_of(|_| true));
        self.belongs(&raw.program, "program", COMMAND);
        self.belongs(&raw.pass_env, "pass_env", COMMAND);
        self.belongs_to_http(raw);
        let Some(file) = &raw.file else {
            let fix = "add file = \"...\", a path relative to this file";
            self.report(name, "the recording has no file", fix);
            return None;
        };
        let strict = raw.strict.as_ref().is_none_or(|strict| *strict.get_ref());
        Some(ModelConfig::Cassette(CassetteConfig {
            common,
            file: self.path(file),
            prompts: if strict {
                Prompts::Recorded
            } else {
                Prompts::Any
            },
        }))
    }

    fn command(
        &mut self,
        name: &Spanned<impl AsRef<str>>,
        raw: &ModelTable,
        common: CommonSettings,
    ) -> Option<ModelConfig> {
        self.belongs(&raw.file, "file", CASSETTE);
        self.belongs(&raw.strict, "strict", CASSETTE);
        self.belongs_to_http(raw);
        let timeouts = raw.timeouts.as_ref().map(Spanned::get_ref);
        let limits = timeouts.map(|limits| {
            let http = names_of(|_| true);
            self.belongs(&limits.connect, "timeouts.connect", &http);
            self.belongs(&limits.first_token, "timeouts.first_token", &http);
            self.belongs(&limits.idle, "timeouts.idle", &http);
            self.seconds(&limits.total, TOTAL)
        });
        let words = raw.program.as_ref().map(Spanned::get_ref);
        let words = words.filter(|words| words.first().is_some_and(|word| !word.is_empty()));
        let Some(program) = words else {
            let fix = "add program = [\"...\", \"...\"], the program and its arguments; it gets the prompt on \
                       its standard input";
            self.report(name, "the model has no program", fix);
            return None;
        };
        let pass_env = raw.pass_env.as_ref();
        Some(ModelConfig::Command(CommandConfig {
            common,
            program: program.clone(),
            pass_env: pass_env.map_or_else(Vec::new, |names| names.get_ref().clone()),
            total: limits.unwrap_or(TOTAL),
        }))
    }

    /// Reports the settings that only a model behind HTTP has.
    fn belongs_to_http(&mut self, raw: &ModelTable) {
        let http = names_of(|_| true);
        let http = http.as_str();
        self.belongs(&raw.endpoint, "endpoint", http);
        self.belongs(&raw.model, "model", http);
        self.belongs(&raw.key_env, "key_env", http);
        self.belongs(&raw.key_file, "key_file", http);
        self.belongs(&raw.requests_per_minute, "requests_per_minute", http);
        self.belongs(&raw.tokens_per_minute, "tokens_per_minute", http);
        self.belongs(&raw.temperature, "temperature", http);
        self.belongs(&raw.token_limit_field, "token_limit_field", http);
        self.belongs(&raw.reasoning_effort, "reasoning_effort", http);
        self.belongs(&raw.stream, "stream", http);
        self.belongs(&raw.attempts, "attempts", http);
        self.belongs(&raw.backoff, "backoff", http);
        if let Some((field, _)) = raw.extra.first_key_value() {
            self.report(
                field,
                format!("extra belongs to a model with api {http}"),
                "leave it out",
            );
        }
    }

    fn belongs<T>(&mut self, field: &Option<Spanned<T>>, name: &str, api: &str) {
        if let Some(field) = field {
            let message = format!("{name} belongs to a model with api {api}");
            self.report(field, message, "leave it out, or change api");
        }
    }

    fn positive<T: Copy + Default + PartialEq>(&mut self, field: &Option<Spanned<T>>) -> Option<T> {
        let field = field.as_ref()?;
        if *field.get_ref() == T::default() {
            self.report(
                field,
                "0 would let nothing through",
                "write a number from 1",
            );
        }
        Some(*field.get_ref())
    }

    fn seconds(&mut self, field: &Option<Spanned<f64>>, default: Duration) -> Duration {
        let Some(field) = field else {
            return default;
        };
        let seconds = *field.get_ref();
        if seconds > 0.0 && seconds <= MAX_SECONDS {
            return Duration::from_secs_f64(seconds);
        }
        let fix = format!("write a number of seconds above 0 and up to {MAX_SECONDS}");
        self.report(field, format!("{seconds} s is not a limit"), fix);
        default
    }

    fn temperature(&mut self, field: Option<&Spanned<RawTemperature>>) -> Temperature {
        let Some(field) = field else {
            return Temperature::Requested;
        };
        match field.get_ref() {
            RawTemperature::Number(number) if (0.0..=2.0).contains(number) => {
                Temperature::Fixed(*number)
            }
            RawTemperature::Word(word) if word == "never" => Temperature::Never,
            _ => {
                let fix = "write a number from 0 to 2, or \"never\" for a model that takes none";
                self.report(field, "not a temperature", fix);
                Temperature::Requested
            }
        }
    }

    fn key(&mut self, raw: &ModelTable) -> KeySource {
        match (&raw.key_env, &raw.key_file) {
            (None, None) => KeySource::None,
            (Some(_), Some(file)) => {
                self.report(file, "the key has two sources", "keep key_env or key_file");
                KeySource::None
            }
            (Some(variable), None) => {
                let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                let name = variable.get_ref();
                if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
                    // The text may be the key itself, so it is not repeated.
                    let fix = "write a name in capitals, such as OPENAI_API_KEY; the key itself never goes here";
                    self.report(variable, "not the name of an environment variable", fix);
                }
                KeySource::Variable(name.clone())
            }
            (None, Some(file)) => KeySource::File(self.path(file)),
        }
    }

    fn path(&mut self, field: &Spanned<String>) -> PathBuf {
        let text = field.get_ref();
        match text.strip_prefix("~/") {
            Some(rest) => match std::env::home_dir() {
                Some(home) => home.join(rest),
                None => {
                    self.report(
                        field,
                        "this user has no home folder",
                        "write the whole path",
                    );
                    PathBuf::from(text)
                }
            },
            None => self.folder.join(text),
        }
    }

    fn endpoint(&mut self, field: &Spanned<String>, key: &KeySource) -> Option<Url> {
        let url = match Url::parse(field.get_ref()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => url,
            _ => {
                let fix = "write it whole, such as https://api.openai.com/v1";
                self.report(field, "not an HTTP address", fix);
                return None;
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            let fix = "take it out and use key_env or key_file";
            self.report(field, "an address with a password in it", fix);
            return None;
        }
        if url.scheme() == "http" && *key != KeySource::None && !is_loopback(&url) {
            let fix = "use https, or leave the key out for a server that asks for none";
            self.report(field, "the key would cross the network unencrypted", fix);
            return None;
        }
        Some(url)
    }
}

/// The protocols with these features, as a message names them.
fn names_of(has: impl Fn(Features) -> bool) -> String {
    let dialects = dialect::DIALECTS.into_iter();
    let names = dialects
        .filter(|dialect| has(dialect.features()))
        .map(Dialect::name);
    names.collect::<Vec<_>>().join(" or ")
}

/// Returns true if the address is on this machine's loopback interface.
pub(in crate::llm) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
