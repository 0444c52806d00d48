//! Texts that deceive a reader, in every text of every message that the service takes.
//!
//! The messages are made from the API's own description, so that a new field is tried as soon as
//! it exists.

use std::collections::BTreeMap;

use domain::api::{CandidateDetail, EventKind, Submission};
use domain::digest::Digest;
use domain::health::HealthReport;
use domain::lease::{Receipt, Registration, Renewal, Report};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::events::Reader;
use super::service::{Service, accepted, report};
use crate::fixtures;

/// Colours, a title of the terminal, another direction, nothing, a tag and the end of the line.
const HOSTILE: &str =
    "a\u{1b}[31mb\u{1b}]0;t\u{7}c\u{202e}d\u{2066}e\u{200b}f\u{e0041}g\u{9b}2Jh\nerror: i\r\tj";
/// [`HOSTILE`] after cleaning to one line.
const CLEAN: &str = "abcdefgh error: i j";
/// Fields of the API that hold texts of several lines.
const OF_LINES: [&str; 6] = [
    "context",
    "insights",
    "parent_source",
    "source",
    "system",
    "text",
];

/// Values of the API's types with [`HOSTILE`] in every text.
struct Generator {
    schemas: Map<String, Value>,
    /// Alternatives chosen so far at each place, so that each is chosen in turn.
    chosen: BTreeMap<String, usize>,
    alternatives: BTreeMap<String, usize>,
}

impl Generator {
    fn new() -> Self {
        let description = serde_json::to_value(server::http::description()).unwrap();
        let schemas = description["components"]["schemas"].as_object().unwrap();
        Self {
            schemas: schemas.clone(),
            chosen: BTreeMap::new(),
            alternatives: BTreeMap::new(),
        }
    }

    /// Values of a type in which every alternative of every part occurs.
    fn all(&mut self, name: &str) -> Vec<Value> {
        let schema = self.schemas[name].clone();
        let mut values = Vec::new();
        loop {
            values.push(self.value(name, "", &schema));
            let is_complete = self
                .alternatives
                .iter()
                .all(|(place, most)| self.chosen[place] >= *most);
            if is_complete {
                return values;
            }
            assert!(values.len() < 2_000, "{name} has an endless description");
        }
    }

    fn choose(&mut self, place: &str, most: usize) -> usize {
        self.alternatives.insert(place.to_owned(), most);
        let count = self.chosen.entry(place.to_owned()).or_default();
        *count += 1;
        (*count - 1) % most
    }

    fn value(&mut self, place: &str, field: &str, schema: &Value) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            if name == "Digest" {
                return json!(Digest::of("content").to_string());
            }
            let schema = self.schemas[name].clone();
            return self.value(name, field, &schema);
        }
        for kind in ["oneOf", "anyOf"] {
            if let Some(alternatives) = schema[kind].as_array() {
                let alternatives: Vec<&Value> = alternatives
                    .iter()
                    .filter(|alternative| alternative["type"] != "null")
                    .collect();
                let chosen = self.choose(place, alternatives.len());
                return self.value(&format!("{place}|{chosen}"), field, alternatives[chosen]);
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            let mut whole = Map::new();
            for part in parts {
                let value = self.value(place, field, part);
                whole.extend(value.as_object().unwrap().clone());
            }
            return Value::Object(whole);
        }
        if let Some(values) = schema["enum"].as_array() {
            let chosen = self.choose(&format!("{place}.{field}"), values.len());
            return values[chosen].clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null").unwrap(),
            kind => kind,
        };
        match kind.as_str() {
            Some("string") => match schema["format"].as_str() {
                Some("uuid") => json!("00000000-0000-7000-8000-000000000001"),
                Some("date-time") => json!("2026-01-01T00:00:00Z"),
                _ => json!(HOSTILE),
            },
            Some("integer") => json!(1),
            Some("number") => json!(1.0),
            Some("boolean") => json!(true),
            Some("array") => self.array(place, field, schema),
            _ => self.object(place, schema),
        }
    }

    fn array(&mut self, place: &str, field: &str, schema: &Value) -> Value {
        if let Some(items) = schema["prefixItems"].as_array() {
            let items = items.iter();
            return items.map(|item| self.value(place, field, item)).collect();
        }
        let count = match field {
            "block" | "thread" | "grid" => 3,
            "place" if schema["items"]["type"] != "array" => 3,
            "celsius" | "counted_mhz" | "interval" | "modes" | "place" | "quartiles_us" => 2,
            _ => 1,
        };
        let values = (0..count).map(|_| self.value(place, field, &schema["items"]));
        values.collect()
    }

    fn object(&mut self, place: &str, schema: &Value) -> Value {
        let mut object = Map::new();
        if let Some(properties) = schema["properties"].as_object() {
            for (name, schema) in properties {
                let value = self.value(&format!("{place}.{name}"), name, schema);
                object.insert(name.clone(), value);
            }
        }
        if schema["additionalProperties"].is_object() {
            let value = self.value(place, "", &schema["additionalProperties"]);
            // Digests name the candidates that a device was lost to.
            let key = if place == "HealthReport.breaks" {
                Digest::of("content").to_string()
            } else {
                HOSTILE.to_owned()
            };
            object.insert(key, value);
        }
        Value::Object(object)
    }
}

/// Fails if a text below `value` deceives a reader.
fn assert_clean(whole: &str, field: &str, value: &Value) {
    match value {
        Value::String(text) => {
            let may_break = OF_LINES.contains(&field);
            let is_harmful = |c: char| {
                (c.is_control() && !(may_break && "\n\t".contains(c)))
                    || "\u{202e}\u{2066}\u{200b}\u{e0041}".contains(c)
            };
            assert!(!text.contains(is_harmful), "{field}: {text:?} in {whole}");
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| assert_clean(whole, field, item)),
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_clean(whole, "a key", &json!(name));
                assert_clean(whole, name, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn assert_answer_clean(body: &str) {
    let value: Value = serde_json::from_str(body).unwrap();
    assert_clean(body, "", &value);
}

/// Fails if cleaning leaves something of a value's texts, or if no value of the type has a text.
fn assert_cleaned<T: Serialize + DeserializeOwned>(name: &str) {
    let mut texts = 0;
    for value in Generator::new().all(name) {
        let message: T = serde_json::from_value(value.clone())
            .unwrap_or_else(|error| panic!("{name}: {error} in {value}"));
        let cleaned = serde_json::to_string(&domain::cleaning::clean_message(&message)).unwrap();
        texts += cleaned.matches(CLEAN).count();
        assert_answer_clean(&cleaned);
    }
    assert!(texts > 0, "{name}");
}

#[test]
fn every_text_of_every_message_is_cleaned() {
    assert_cleaned::<Report>("Report");
    assert_cleaned::<Registration>("Registration");
    assert_cleaned::<Renewal>("Renewal");
    assert_cleaned::<HealthReport>("HealthReport");
}

/// Everything that the service says about a run and its newest candidate.
async fn assert_pages_clean(
    service: &Service,
    run: domain::id::RunId,
    id: domain::id::CandidateId,
) {
    let (run, id) = (run.uuid(), id.uuid());
    for path in [
        format!("/api/v1/runs/{run}"),
        format!("/api/v1/runs/{run}/lineage"),
        format!("/api/v1/runs/{run}/candidates"),
        format!("/api/v1/runs/{run}/brief"),
        format!("/api/v1/candidates/{id}"),
        "/api/v1/workers".to_owned(),
        "/api/v1/devices".to_owned(),
    ] {
        let answer = service.get(&path).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.body);
        assert_answer_clean(&answer.body);
    }
    let source = service
        .get(&format!("/api/v1/candidates/{id}/source"))
        .await;
    assert_clean(&source.body, "source", &json!(source.body));
}

#[tokio::test]
async fn a_report_in_hostile_words_reaches_no_page_and_no_event() {
    for mut value in Generator::new().all("Evaluation") {
        let (service, run, worker) = Service::running().await;
        let mut events = Reader::open(&service, run, "", None).await;
        events.up_to_verdict().await;
        let submitted = service.submit(run, "blocks", 32).await;
        let lease = service.lease(worker).await;
        let honest = serde_json::to_value(report(&lease, accepted(50.0))).unwrap();
        let mut message = honest.clone();
        let honest = &honest["outcome"]["evaluation"];
        for field in ["evaluator", "stage", "task_version", "candidate_digest"] {
            value[field] = honest[field].clone();
        }
        // Times that do not compare with the baseline's are refused before any text of them is kept.
        if value["verdict"]["kind"] == "accepted" {
            value["verdict"]["timing"] = honest["verdict"]["timing"].clone();
        }
        message["outcome"]["evaluation"] = value;
        let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
        let receipt: Receipt = service.post(&path, &message).await.read();
        assert_eq!(receipt, Receipt::Accepted);
        for event in events.up_to_verdict().await {
            let event = serde_json::to_string(&event).unwrap();
            assert_answer_clean(&event);
        }
        assert_pages_clean(&service, run, submitted.id).await;
    }
}

#[tokio::test]
async fn a_submission_in_hostile_words_reaches_no_page_and_no_event() {
    let (service, run, worker) = Service::running().await;
    let mut events = Reader::open(&service, run, "", None).await;
    events.up_to_verdict().await;
    // In a string of TOML the characters can be written as escapes.
    let escaped = "a\\u001b[31mb\\u202ec\\u200bd\\ne";
    for (source, proposer, judged) in [
        (fixtures::kernel("title", 64), "abc\u{202e}d\u{200b}", true),
        (fixtures::kernel(escaped, 32), "test", true),
        (
            fixtures::kernel("x", 96) + "// \u{202e}a\u{200b}b\u{1b}[31m\n",
            "test",
            true,
        ),
        (
            format!("no kernel \u{202e}\u{1b}[31m\u{200b}\n{HOSTILE}"),
            "test",
            false,
        ),
    ] {
        let submission = Submission {
            source,
            file: None,
            parent: None,
            proposer: Some(proposer.to_owned()),
            hypothesis: Some(HOSTILE.to_owned()),
        };
        let path = format!("/api/v1/runs/{}/candidates", run.uuid());
        let answer = service.post(&path, &submission).await;
        assert!(answer.status.is_success(), "{}", answer.body);
        assert_answer_clean(&answer.body);
        let summary: domain::api::CandidateSummary = answer.read();
        if judged {
            service.judge(worker, 50.0).await;
        }
        for event in events.up_to_verdict().await {
            if let EventKind::Proposed { .. } = event.what {
                assert_answer_clean(&serde_json::to_string(&event).unwrap());
            }
        }
        let detail: CandidateDetail = service
            .get(&format!("/api/v1/candidates/{}", summary.id.uuid()))
            .await
            .read();
        assert!(!detail.source.contains('\u{202e}'), "{}", detail.source);
        assert_pages_clean(&service, run, summary.id).await;
    }
}
