//! Tokens, TLS and profiles through the program itself.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use domain::access::TokenView;
use tempfile::TempDir;

use crate::authority::Authority;

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
    let mut by_profile = folder.command(&["worker", "list", "--json", "--profile", "team"]);
    let output = by_profile.env("KERNELWRIGHT_CONFIG", &config).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");

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
    std::fs::write(&token, "something else").unwrap();
    let error = folder.fail(2, &arguments);
    assert!(
        error.contains("bob.token") && error.contains("hexadecimal digits"),
        "{error}"
    );
}
