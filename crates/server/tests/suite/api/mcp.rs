//! The server of the Model Context Protocol, driven line by line as an agent's program does.

use std::net::SocketAddr;

use axum::http::StatusCode;
use domain::api::CandidateDetail;
use domain::id::{CandidateId, RunId};
use domain::lease::{Lease, Report, ReportOutcome};
use domain::seeds::SeedFamily;
use domain::verdict::{Mismatch, Verdict, WrongElement};
use insta::assert_snapshot;
use serde_json::{Value, json};
use server::client::Client;
use server::mcp::Session;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::io::{ReadHalf, WriteHalf, split};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::service::{Service, report, without_identities};
use crate::fixtures;

/// An agent's program, connected to a server of its own.
struct Agent {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    asked: u32,
    _running: Vec<AbortOnDropHandle<()>>,
}

impl Agent {
    /// Serves the service on a loopback port, and connects an agent called `editor 1.2`.
    async fn connect(service: &Service, run: Option<RunId>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = service.router.clone();
        let http = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let mut agent = Self::of(address, run).await;
        agent._running.push(AbortOnDropHandle::new(http));
        agent
    }

    /// Connects an agent to a server whose service has this address.
    async fn of(address: SocketAddr, run: Option<RunId>) -> Self {
        let client = Client::new(&format!("http://{address}")).unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = split(theirs);
        let session = Session::new(client, run, None);
        let served = tokio::spawn(async move { session.serve(reader, writer).await.unwrap() });
        let (reader, writer) = split(ours);
        let mut agent = Self {
            lines: BufReader::new(reader).lines(),
            writer,
            asked: 0,
            _running: vec![AbortOnDropHandle::new(served)],
        };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "editor", "version": "1.2" },
        });
        let answer = agent.ask("initialize", hello).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
        assert_eq!(answer["result"]["serverInfo"]["name"], "kernelwright");
        let known = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        agent.write(&known).await;
        agent
    }

    async fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request and returns its answer.
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.write(&request).await;
        let line = self.lines.next_line().await.unwrap().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool and returns its text; fails if that is not an error exactly where one is wanted.
    async fn text(&mut self, tool: &str, arguments: Value, is_error: bool) -> String {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = self.ask("tools/call", params).await;
        let result = &answer["result"];
        assert_eq!(result["isError"], is_error, "{tool}: {answer}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.text(tool, arguments, false).await
    }

    async fn fail(&mut self, tool: &str, arguments: Value) -> String {
        self.text(tool, arguments, true).await
    }

    /// Reads a resource.
    async fn read(&mut self, uri: &str) -> Value {
        self.ask("resources/read", json!({ "uri": uri })).await
    }
}

/// The id of the candidate that an answer begins with.
fn candidate(text: &str) -> CandidateId {
    let id = text.split_whitespace().nth(1).unwrap();
    id.parse().unwrap()
}

/// A wrong output, with what its author must not learn of it.
fn incorrect() -> Verdict {
    Verdict::IncorrectOutput(Mismatch {
        case: "small".to_owned(),
        distribution: "normal".to_owned(),
        tensor: "y".to_owned(),
        reason: "the relative error 0.123456 is above 0.000777".to_owned(),
        relative_l2: Some(0.123_456),
        allowed_l2: 0.000_777,
        worst: Some(WrongElement {
            index: vec![17],
            found: "3".to_owned(),
            expected: "6".to_owned(),
        }),
        wrong: None,
    })
}

async fn send(service: &Service, lease: &Lease, report: &Report) {
    let path = format!("/api/v1/leases/{}/report", lease.job.uuid());
    let answer = service.post(&path, report).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
}

#[tokio::test]
async fn an_agent_goes_from_the_brief_to_an_accepted_kernel() {
    let (service, run, worker) = Service::running().await;
    let mut agent = Agent::connect(&service, Some(run)).await;

    let brief = agent.call("brief", json!({})).await;
    assert!(brief.contains("45 of 45 left"), "{brief}");
    assert!(brief.contains("Doubles a vector."), "{brief}");
    let rules = agent.call("brief", json!({ "part": "rules" })).await;
    let state = agent.call("brief", json!({ "part": "state" })).await;
    assert!(brief.contains(&rules) && brief.contains(&state));
    assert!(!rules.contains("of 45 left"), "{rules}");

    let wrong = json!({
        "source": fixtures::kernel("wide loads", 64),
        "hypothesis": "fewer instructions",
        "file": "wide.cu",
        "wait_seconds": 0,
    });
    let waiting = agent.call("submit", wrong.clone()).await;
    assert_snapshot!(without_identities(&waiting.replace("cand_", "")), @r#"
    candidate  [id 0] #1 "wide loads" by editor 1.2
    no verdict yet: it waits for a worker; ask again with the tool `verdict` and this candidate, and do not submit it again
    trials     44 of 45 left; 1 without a verdict yet; so far 1 accepted
    "#);
    let first = candidate(&waiting);
    let lease = service.lease(worker).await;
    send(&service, &lease, &report(&lease, incorrect())).await;
    let rejected = agent
        .call("verdict", json!({ "candidate": first.to_string() }))
        .await;
    assert_snapshot!(without_identities(&rejected.replace("cand_", "")), @r#"
    candidate  [id 0] #1 "wide loads" by editor 1.2
    verdict    incorrect_output: rejected: the output is wrong
    reason     y on case small, normal inputs
    reason     y[17] is 3, expected 6
    trials     44 of 45 left; so far 1 accepted, 1 incorrect_output
    "#);
    let key = lease.request.key.0.to_string();
    assert!(!rejected.contains(&key) && !brief.contains(&key));

    let again = agent.call("submit", wrong).await;
    assert!(
        again.contains(&format!("the run has this code as {first}")),
        "{again}"
    );

    let edits = "<<<<<<< SEARCH\ngrid = [\"cdiv(N, 128)\"]\n=======\ngrid = [\"cdiv(N, 128) + 0\"]\n>>>>>>> REPLACE\n";
    let edited = json!({ "edits": edits, "hypothesis": "a longer expression", "wait_seconds": 0 });
    let waiting = agent.call("submit", edited).await;
    let second = candidate(&waiting);
    service.judge(worker, 50.0).await;
    let text = agent
        .call("verdict", json!({ "candidate": second.to_string() }))
        .await;
    assert_snapshot!(without_identities(&text.replace("cand_", "")), @r#"
    candidate  [id 0] #3 "baseline" by editor 1.2
    verdict    accepted: 50.00000 us modelled, geometric mean over the score cases
    speedup    2.00x the baseline's speed; the best of the run
    time       small: 50.00000 us modelled
    trials     42 of 45 left; so far 2 accepted, 2 incorrect_output
    "#);
    let profile = agent
        .call("profile", json!({ "candidate": second.to_string() }))
        .await;
    assert_snapshot!(without_identities(&profile.replace("cand_", "")), @r#"
    candidate  [id 0]
    times are  modelled: times are from the emulated device's model, and no GPU was used
    time       small: 50.00000 us modelled
    lines      the work of each source line is not in this answer; `kernelwright profile FILE --task DIR` prints it on a machine with the task's folder
    "#);

    let detail: CandidateDetail = service
        .get(&format!("/api/v1/candidates/{}", second.uuid()))
        .await
        .read();
    assert_eq!(detail.summary.proposer, "editor 1.2");
    assert_eq!(detail.idea.unwrap().hypothesis, "a longer expression");
    assert!(detail.source.contains("cdiv(N, 128) + 0"));

    let found = agent
        .call("search_attempts", json!({ "verdict": "accepted" }))
        .await;
    assert!(found.contains(&second.to_string()), "{found}");
    assert!(!found.contains(&first.to_string()), "{found}");
    let nothing = json!({ "proposer": "nobody" });
    let nothing = agent.call("search_attempts", nothing).await;
    assert!(nothing.contains("none of those examined fits"), "{nothing}");
}

#[tokio::test]
async fn a_failure_on_hidden_inputs_shows_its_kind_only() {
    let (service, run, worker) = Service::running().await;
    let mut agent = Agent::connect(&service, Some(run)).await;
    let kernel = json!({
        "source": fixtures::kernel("wide loads", 64),
        "hypothesis": "fewer instructions",
        "wait_seconds": 0,
    });
    let id = candidate(&agent.call("submit", kernel).await);
    let lease = service.lease(worker).await;
    let mut hidden = report(&lease, incorrect());
    let ReportOutcome::Evaluated { evaluation } = &mut hidden.outcome else {
        panic!("a report of an evaluation");
    };
    evaluation.found_on = Some(SeedFamily::Gate);
    send(&service, &lease, &hidden).await;
    let verdict = agent
        .call("verdict", json!({ "candidate": id.to_string() }))
        .await;
    assert!(verdict.contains("on inputs that are not"), "{verdict}");
    for secret in ["0.123", "0.000777", "y[17]", "small", "stage"] {
        assert!(!verdict.contains(secret), "{secret}: {verdict}");
    }
    let found = agent.call("search_attempts", json!({})).await;
    assert!(!found.contains("0.123"), "{found}");
    let profile = agent
        .fail("profile", json!({ "candidate": id.to_string() }))
        .await;
    assert!(
        profile.contains("only accepted candidates are timed"),
        "{profile}"
    );
}

#[tokio::test]
async fn tools_have_precise_schemas_and_say_what_is_wrong_with_a_call() {
    let (service, run, _) = Service::running().await;
    let mut agent = Agent::connect(&service, None).await;
    let tools = agent.ask("tools/list", json!({})).await;
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_snapshot!(json!(names), @r#"["brief","submit","verdict","profile","search_attempts","list_runs","start_run"]"#);
    for tool in &tools {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        assert_eq!(schema["additionalProperties"], false, "{tool}");
        let properties = schema["properties"].as_object().unwrap();
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{name} of {tool}");
        }
    }
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["hypothesis"]));

    let kernel = fixtures::kernel("k", 64);
    let unknown = "01938e5a-0000-7000-8000-000000000001";
    for (tool, arguments, said) in [
        ("brief", json!({}), "pass `run` from `list_runs`"),
        (
            "brief",
            json!({ "run": unknown }),
            "list what is there first",
        ),
        ("brief", json!({ "rum": run }), "unknown field `rum`"),
        ("brief", json!({ "run": "seven" }), "UUID"),
        (
            "submit",
            json!({ "run": run, "source": kernel }),
            "hypothesis",
        ),
        (
            "submit",
            json!({ "run": run, "hypothesis": "h" }),
            "neither `source` nor `edits`",
        ),
        (
            "submit",
            json!({ "run": run, "hypothesis": "h", "source": kernel, "edits": "e" }),
            "both given",
        ),
        (
            "submit",
            json!({ "run": run, "hypothesis": "h", "edits": "<<<<<<< SEARCH\nnowhere\n=======\n>>>>>>> REPLACE" }),
            "nothing was submitted",
        ),
        (
            "search_attempts",
            json!({ "run": run, "verdict": "sad" }),
            "unknown variant `sad`",
        ),
        ("start_run", json!({ "task": "nothing" }), "nothing"),
        ("guess", json!({}), "there is no such tool"),
    ] {
        let text = agent.fail(tool, arguments.clone()).await;
        assert!(text.starts_with("failed to "), "{text}");
        assert!(text.contains(said), "{tool} {arguments}: {text}");
    }
    let detail = service.get(&format!("/api/v1/runs/{}", run.uuid())).await;
    assert!(detail.body.contains("\"trials\":0"), "{}", detail.body);

    let listed = agent.call("list_runs", json!({ "task": "scale" })).await;
    assert!(listed.contains(&run.to_string()), "{listed}");
    let none = agent.fail("list_runs", json!({ "task": "nothing" })).await;
    assert!(none.contains("no task \"nothing\""), "{none}");
    let started = agent
        .call("start_run", json!({ "task": "scale", "trials": 3 }))
        .await;
    assert!(started.contains("3 of 3 left"), "{started}");
    assert!(!started.contains(&run.to_string()), "{started}");
}

#[tokio::test]
async fn resources_are_what_a_proposer_may_read() {
    let (service, run, worker) = Service::running().await;
    let mut agent = Agent::connect(&service, Some(run)).await;
    let listed = agent.ask("resources/list", json!({})).await;
    let listed = listed["result"]["resources"].as_array().unwrap().clone();
    let names: Vec<_> = listed.iter().map(|resource| &resource["name"]).collect();
    assert_snapshot!(json!(names), @r#"["baseline.cu","context.md","insights.md","reference.cu","best.cu"]"#);
    for resource in &listed {
        let read = agent.read(resource["uri"].as_str().unwrap()).await;
        let text = read["result"]["contents"][0]["text"].as_str();
        assert!(text.is_some(), "{read}");
    }
    let kernel = service.submit(run, "wider", 64).await;
    service.judge(worker, 50.0).await;
    let best = agent.read(&format!("kernelwright://{run}/best.cu")).await;
    let text = &best["result"]["contents"][0]["text"];
    assert_eq!(text, &fixtures::kernel("wider", 64));
    let source = format!("kernelwright://candidate/{}", kernel.id);
    assert_eq!(
        &agent.read(&source).await["result"]["contents"][0]["text"],
        text
    );
    for wrong in [
        format!("kernelwright://{run}/task/task.toml"),
        format!("kernelwright://{run}/task/../../etc/passwd"),
        format!("kernelwright://{run}/secret"),
        "kernelwright://candidate/seven".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        let answer = agent.read(&wrong).await;
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("failed to read"), "{wrong}: {message}");
    }
}

#[tokio::test]
async fn an_agent_without_a_service_is_told_how_to_start_one() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let mut agent = Agent::of(address, None).await;
    let text = agent.fail("list_runs", json!({})).await;
    assert!(
        text.contains("start one with `kernelwright serve"),
        "{text}"
    );
}

/// Posts a message as an agent's program does, and returns status, session and the answer's JSON.
async fn post(
    url: &str,
    session: Option<&str>,
    headers: &[(&str, &str)],
    message: &Value,
) -> (StatusCode, Option<String>, Value) {
    let client = reqwest::Client::builder().build().unwrap();
    let mut request = client
        .post(url)
        .header("accept", "application/json, text/event-stream")
        .json(message);
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().await.unwrap();
    let status = response.status();
    let session = response.headers().get("mcp-session-id").cloned();
    let text = response.text().await.unwrap();
    // An answer is one event of a stream.
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let answer = data
        .filter_map(|data| serde_json::from_str(data).ok())
        .next_back();
    let session = session.map(|id| id.to_str().unwrap().to_owned());
    (status, session, answer.unwrap_or_default())
}

#[tokio::test]
async fn agents_connect_over_http_from_this_machine_only() {
    let (service, ..) = Service::running().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = listener.local_addr().unwrap();
    let router = service.router.clone();
    let _api = AbortOnDropHandle::new(tokio::spawn(async move {
        axum::serve(listener, router).await.unwrap();
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let session = Session::new(Client::new(&format!("http://{api}")).unwrap(), None, None);
    let serving = tokio::spawn(session.serve_http(listener, shutdown.clone()));

    let hello = |name: &str| {
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": name, "version": "1.2" } } })
    };
    for foreign in [
        ("origin", "https://elsewhere.example"),
        ("host", "elsewhere.example"),
    ] {
        let (status, session, _) = post(&url, None, &[foreign], &hello("page")).await;
        assert_eq!(
            (status, session),
            (StatusCode::FORBIDDEN, None),
            "{foreign:?}"
        );
    }
    let known = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let runs = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "list_runs", "arguments": {} } });
    let mut sessions = Vec::new();
    for name in ["editor", "terminal"] {
        let (status, session, answer) = post(&url, None, &[], &hello(name)).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["result"]["serverInfo"]["name"], "kernelwright");
        let session = session.unwrap();
        let (status, ..) = post(&url, Some(&session), &[], &known).await;
        assert_eq!(status, StatusCode::ACCEPTED);
        let (_, _, answer) = post(&url, Some(&session), &[], &runs).await;
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        sessions.push(session);
    }
    assert_ne!(
        sessions[0], sessions[1],
        "each agent has a session of its own"
    );
    shutdown.cancel();
    serving.await.unwrap().unwrap();
}
