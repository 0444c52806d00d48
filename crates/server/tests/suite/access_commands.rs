//! Tokens, TLS and profiles through the program itself.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use domain::access::TokenView;
use serde_json::Value;
use tempfile::TempDir;

use crate::authority::Authority;
use crate::fixtures::task;

/// The program in a folder of its own, without settings of whoever runs the tests.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test is a user who starts the program"
    )]
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .env("HOME", self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The message of a command that must fail with the code.
    fn fail(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        String::from_utf8(output.stderr).unwrap()
    }

    fn succeed_json(&self, arguments: &[&str]) -> Value {
        let text = self.succeed(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    fn create_token(&self, name: &str, scope: &str) -> String {
        let file = self.path(&format!("{name}.token"));
        self.succeed(&[
            "token", "create", "--name", name, "--scope", scope, "--output", &file,
        ]);
        file
    }
}

/// A service that is killed when dropped.
struct Service {
    child: Child,
    /// The address that it logged.
    address: String,
}

impl Service {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = folder.command(&arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            let length = log.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "the service ended early");
            if let Some((_, rest)) = line.split_once("serving ") {
                break rest.split(' ').next().unwrap().to_owned();
            }
        };
        // A full pipe would stop the service.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Self { child, address }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_token_is_shown_once_listed_and_revoked() {
    let folder = Folder::new();
    let file = folder.create_token("ada", "admin");
    let secret = std::fs::read_to_string(&file).unwrap();
    assert!(secret.starts_with("kw_"), "{secret}");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let printed = folder.succeed(&["token", "create", "--name", "bob", "--scope", "viewer"]);
    assert_eq!(printed.len(), secret.len(), "{printed}");
    let again = folder.fail(2, &["token", "create", "--name", "bob", "--scope", "user"]);
    assert!(again.contains("revoke that one first"), "{again}");
    let taken = folder.fail(
        2,
        &[
            "token", "create", "--name", "cleo", "--scope", "user", "--output", &file,
        ],
    );
    assert!(taken.contains("name a file that does not exist"), "{taken}");
    let listed = folder.succeed(&["token", "list"]);
    assert!(
        listed.contains("ada") && !listed.contains("kw_"),
        "{listed}"
    );
    folder.succeed(&["token", "revoke", "bob"]);
    let tokens: Vec<TokenView> =
        serde_json::from_str(&folder.succeed(&["token", "list", "--json"])).unwrap();
    let state: Vec<_> = tokens
        .iter()
        .map(|token| (token.name.as_str(), token.revoked_at.is_some()))
        .collect();
    assert_eq!(state, [("bob", true), ("ada", false)]);
    let unknown = folder.fail(2, &["token", "revoke", "cleo"]);
    assert!(unknown.contains("find token cleo"), "{unknown}");
}

#[test]
fn an_address_that_others_reach_needs_encryption_and_a_token() {
    let folder = Folder::new();
    let plain = folder.fail(2, &["serve", "--listen", "0.0.0.0:0"]);
    for part in ["--tls-cert", "--behind-proxy", "ssh -L"] {
        assert!(plain.contains(part), "{plain}");
    }
    let proxied = ["serve", "--listen", "127.0.0.1:0", "--behind-proxy"];
    let without = folder.fail(2, &proxied);
    assert!(
        without.contains("token create --name NAME --scope admin"),
        "{without}"
    );
    // A revoked token is none.
    folder.create_token("ada", "admin");
    folder.succeed(&["token", "revoke", "ada"]);
    folder.fail(2, &proxied);
}

#[test]
fn commands_reach_a_service_over_tls_with_their_token() {
    let folder = Folder::new();
    let authority = Authority::new();
    authority.write("127.0.0.1", 2100);
    let file = |path: &Path| path.to_str().unwrap().to_owned();
    let (chain, key) = (file(&authority.chain()), file(&authority.key()));
    let ca = folder.path("ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    let viewer = folder.create_token("bob", "viewer");
    let service = Service::start(&folder, &["--tls-cert", &chain, "--tls-key", &key]);
    let url = service.address.as_str();
    assert!(url.starts_with("https://"), "{url}");
    let list = ["worker", "list", "--json", "--server", url, "--ca", &ca];
    let bare = folder.fail(2, &list);
    assert!(bare.contains("--token-file FILE"), "{bare}");
    let given = [&list[..], &["--token-file", &viewer]].concat();
    assert_eq!(folder.succeed(&given).trim(), "[]");
    let drain = [
        "worker",
        "drain",
        "ada",
        "--server",
        url,
        "--ca",
        &ca,
        "--token-file",
        &viewer,
    ];
    assert!(folder.fail(2, &drain).contains("no worker of this name"));
    let unknown = "work_01938e5a-0000-7000-8000-000000000001";
    let mut by_id = drain;
    by_id[2] = unknown;
    let narrow = folder.fail(2, &by_id);
    assert!(narrow.contains("scope admin"), "{narrow}");
    let untrusted = folder.fail(
        3,
        &["worker", "list", "--server", url, "--token-file", &viewer],
    );
    assert!(untrusted.contains("trust the service"), "{untrusted}");

    // On the service's machine, its data folder names an address that needs no certificate.
    let here = ["worker", "list", "--json", "--token-file", &viewer];
    assert_eq!(folder.succeed(&here).trim(), "[]");

    let config = folder.path("config.toml");
    let profile =
        format!("[profiles.team]\nurl = {url:?}\ntoken_file = \"bob.token\"\nca = \"ca.pem\"\n");
    std::fs::write(&config, profile).unwrap();
    let asked = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = folder.command(&[&["worker", "list", "--json"], arguments].concat());
        command.env("KERNELWRIGHT_CONFIG", &config);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), message)
    };
    let nowhere = "http://127.0.0.1:1";
    let (server, profile) = ("KERNELWRIGHT_SERVER", "KERNELWRIGHT_PROFILE");
    assert_eq!(asked(&["--profile", "team"], &[]).0, Some(0));
    assert_eq!(asked(&[], &[(profile, "team")]).0, Some(0));
    // An option has precedence over the other option's variable; two of a kind contradict each other.
    assert_eq!(
        asked(&["--profile", "team"], &[(server, nowhere)]).0,
        Some(0)
    );
    let (code, message) = asked(&["--server", nowhere], &[(profile, "team")]);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains(nowhere), "{message}");
    for (arguments, variables) in [
        (&["--server", nowhere, "--profile", "team"][..], &[][..]),
        (&[], &[(server, nowhere), (profile, "team")]),
    ] {
        let (code, message) = asked(arguments, variables);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("leave out --server"), "{message}");
    }
    let moved = folder.path("moved.token");
    std::fs::rename(&viewer, &moved).unwrap();
    let (code, message) = asked(&["--profile", "team"], &[]);
    assert_eq!(code, Some(2), "{message}");
    let named = message.contains(&viewer) && message.contains("the profile");
    assert!(named, "{message}");
    std::fs::rename(&moved, &viewer).unwrap();

    folder.succeed(&["token", "revoke", "bob"]);
    let revoked = folder.fail(2, &given);
    assert!(revoked.contains("was revoked at"), "{revoked}");
}

#[test]
fn a_token_is_not_sent_as_plain_text_to_other_machines() {
    let folder = Folder::new();
    let token = folder.create_token("bob", "viewer");
    let arguments = [
        "worker",
        "list",
        "--server",
        "http://kernels.example:8787",
        "--token-file",
        &token,
    ];
    let error = folder.fail(2, &arguments);
    assert!(error.contains("use an https:// address"), "{error}");
    std::fs::set_permissions(&token, Permissions::from_mode(0o640)).unwrap();
    let error = folder.fail(2, &arguments);
    let advised = error.contains("mode 640") && error.contains(&format!("chmod 600 {token}"));
    assert!(advised, "{error}");
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&token, "something else").unwrap();
    let error = folder.fail(2, &arguments);
    assert!(
        error.contains("bob.token") && error.contains("hexadecimal digits"),
        "{error}"
    );
}

/// The data folder names the service, which asks for no token.
#[test]
fn tasks_and_runs_are_managed_from_the_command_line() {
    let folder = Folder::new();
    let secret = folder.path("secret");
    std::fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    // Nothing listens at this address.
    let webhooks = folder.path("hooks.toml");
    let endpoint = "[endpoints.team]\nurl = \"http://127.0.0.1:1/\"\nsecret_file = \"secret\"\n\
         events = [\"run.finished\"]\n";
    std::fs::write(&webhooks, endpoint).unwrap();
    let _service = Service::start(&folder, &["--webhooks", &webhooks]);
    let events = folder.succeed(&["webhook", "list"]);
    assert!(events.contains("every event was delivered"), "{events}");
    for (name, text) in task().files {
        let file = folder.path(&format!("scale/{name}"));
        std::fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    assert!(folder.succeed(&["task", "list"]).contains("task upload"));
    let uploaded = folder.succeed_json(&["task", "upload", "scale"]);
    assert_eq!(folder.succeed_json(&["tasks", "list"])[0], uploaded);
    let start = ["run", "scale", "--method", "external", "--name"];
    let runs = ["one", "two", "three"].map(|name| {
        let run = folder.succeed_json(&[&start[..], &[name]].concat());
        run["id"].as_str().unwrap().to_owned()
    });
    let shown = folder.succeed_json(&["task", "show", "scale"]);
    assert_eq!(shown["task"]["version"], uploaded["version"]);
    assert_eq!(shown["versions"][0]["open_runs"], 3);
    let text = folder.succeed(&["task", "show", "scale"]);
    assert!(text.contains("Doubles a vector"), "{text}");
    let unknown = folder.fail(2, &["task", "show", "sca/le?"]);
    assert!(unknown.contains("sca/le?"), "{unknown}");

    let one = runs[0].as_str();
    for (change, state) in [
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "created"),
        ("resume", "created"),
        ("cancel", "cancelled"),
        ("cancel", "cancelled"),
    ] {
        let run = folder.succeed_json(&["runs", change, one]);
        let now = run["state"]["state"].as_str().unwrap();
        // Between two commands the engine may have begun with the baseline.
        let expected = now == state || (state, now) == ("created", "checking_baseline");
        assert!(expected, "{change}: {now}");
    }
    let events = folder.succeed_json(&["webhook", "list"]);
    assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    assert_eq!(events[0]["type"], "run.finished");
    assert!(folder.succeed(&["webhook", "list"]).contains("team"));
    let over = folder.fail(2, &["runs", "pause", one]);
    assert!(
        over.contains("pause run") && over.contains("it is cancelled"),
        "{over}"
    );
    let text = folder.succeed(&["runs", "finish", &runs[1]]);
    assert!(text.contains(&runs[1]), "{text}");

    let listed = |arguments: &[&str]| {
        let page = folder.succeed_json(&[&["runs", "list"], arguments].concat());
        let ids = page["runs"].as_array().unwrap().iter();
        let ids = ids.map(|run| run["id"].as_str().unwrap().to_owned());
        (
            ids.collect::<Vec<_>>(),
            page["next"].as_str().map(str::to_owned),
        )
    };
    let newest_first = runs.iter().rev().cloned().collect::<Vec<_>>();
    assert_eq!(listed(&["--task", "scale"]), (newest_first.clone(), None));
    let (page, next) = listed(&["--limit", "2"]);
    assert_eq!(page, newest_first[..2]);
    assert_eq!(listed(&["--cursor", &next.unwrap()]).0, newest_first[2..]);
    assert_eq!(listed(&["--state", "cancelled"]).0, [one]);
    let text = folder.succeed(&["runs", "list", "--state", "cancelled"]);
    assert!(text.contains(one) && text.contains("one"), "{text}");
    folder.fail(2, &["runs", "list", "--task", "nothing"]);
    folder.fail(2, &["runs", "list", "--state", "asleep"]);
    let shown = folder.run(&["show", one, "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["run"]["id"], one);
    assert!(shown["lineage"]["nodes"].is_array(), "{shown}");
}

#[test]
fn shells_get_scripts_that_complete_commands() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.succeed(&["completions", shell]);
        let complete = ["kernelwright", "runs", "profile", "checking_baseline"];
        for word in complete {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
}
