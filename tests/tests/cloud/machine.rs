//! A machine from its first start to its worker: `install-worker`, as root in a mount namespace of its own.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use domain::digest::Digest;
use lab::Finished;
use tempfile::TempDir;

use crate::stand_in::{StandIn, environment};
use crate::{run, text};

const RELEASE: &str = "my-bucket/kernelwright.tar.gz";
const INSTALLER: &str = "compute-gpu-installation-us/installer/latest/cuda_installer.pyz";

/// Stands in for Google's installer of the driver. At first it installs a kernel and restarts the machine, whose end
/// also ends the start-up script.
const DRIVER_INSTALLER: &str = r#"
import os, pathlib, signal, subprocess, sys
machine = pathlib.Path(os.environ["MACHINE"])
assert sys.argv[1:] == ["install_driver", "--installation-mode=repo", "--installation-branch=prod"], sys.argv
if not (machine / "kernel").exists():
    (machine / "kernel").touch()
    os.kill(os.getppid(), signal.SIGTERM)
    sys.exit(143)
if (machine / "no-gpu").exists():
    sys.exit(0)
(machine / "driver").touch()
subprocess.run(["load-driver"], check=True)
"#;

/// A machine with its disk, and the cloud around it.
struct Machine {
    folder: TempDir,
    cloud: StandIn,
    environment: Vec<(&'static str, String)>,
}

impl Machine {
    /// A new machine with settings of a group; none where this host grants no mounts, which is an error in CI.
    async fn new() -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let (cloud, address) = StandIn::start().await?;
        let environment = environment(&address).into_iter();
        let environment = environment.chain([("RESTART_DELAY", "0".to_owned())]);
        let machine = Self {
            folder,
            cloud,
            environment: environment.collect(),
        };
        let granted = machine.start_with("true").await;
        let granted = granted.and_then(|done| {
            ensure!(done.status.success(), "{}", done.stderr);
            Ok(())
        });
        if let Err(why) = granted {
            ensure!(
                std::env::var_os("CI").is_none(),
                "no mount namespace: {why}"
            );
            println!("skipped: it needs root and a mount namespace: {why}");
            return Ok(None);
        }
        let release = machine.pack_release().await?;
        {
            let mut cloud = machine.cloud.cloud();
            let values = [
                ("service", "https://kernels.example:8787"),
                ("release", RELEASE),
                ("release-sha256", ""),
                ("token-secret", "kernelwright-worker"),
                ("ca-secret", ""),
                ("idle-minutes", "10"),
                ("dollars-per-hour", "0.28"),
                ("clocks", ""),
            ];
            for (name, value) in values {
                let name = format!("kernelwright-{name}");
                cloud.attributes.insert(name, value.to_owned());
            }
            cloud.objects.insert(RELEASE.to_owned(), release);
            let installer = DRIVER_INSTALLER.as_bytes().to_vec();
            cloud.objects.insert(INSTALLER.to_owned(), installer);
            // "the worker's token" and "an authority", each with a new line.
            for (name, value) in [
                ("kernelwright-worker", "dGhlIHdvcmtlcidzIHRva2VuCg=="),
                ("authority", "YW4gYXV0aG9yaXR5Cg=="),
            ] {
                cloud.secrets.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(Some(machine))
    }

    /// An archive as `docker/build-release` makes it, with programs that only say what they were called with.
    async fn pack_release(&self) -> Result<Vec<u8>> {
        let root = self.path("release");
        let kw = "#!/bin/sh\necho \"kw $* into $KERNELWRIGHT_CACHE\" >>\"$MACHINE/calls\"\n";
        for (file, content) in [
            ("usr/local/bin/kernelwright", "#!/bin/sh\n"),
            ("usr/local/lib/kernelwright/kw", kw),
            ("etc/systemd/system/kernelwright-worker.service", ""),
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().context("a folder")?)?;
            fs::write(&path, content)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let file = self.path("release.tar.gz");
        let arguments = ["-czf", text(&file)?, "-C", text(&root)?, "etc", "usr"];
        let packed = run("tar", &[], &arguments).await?;
        ensure!(packed.status.success(), "{packed:?}");
        Ok(fs::read(file)?)
    }

    /// A file of the test beside the machine's disk.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file on the machine's disk.
    fn on_disk(&self, path: &str) -> PathBuf {
        self.path("disk").join(path.trim_start_matches('/'))
    }

    fn set(&self, name: &str, value: &str) {
        let name = format!("kernelwright-{name}");
        let mut cloud = self.cloud.cloud();
        cloud.attributes.insert(name, value.to_owned());
    }

    async fn start_with(&self, command: &str) -> Result<Finished> {
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect::<Vec<_>>();
        let machine = lab::repository().join("tests/cloud/machine");
        let arguments = [
            "--mount",
            text(&machine)?,
            text(self.folder.path())?,
            command,
        ];
        run("unshare", &environment, &arguments).await
    }

    /// Starts the machine and returns what its start-up script printed, and the calls of programs that it made.
    async fn start(&self) -> Result<(Finished, String)> {
        let script = lab::repository().join("docker/gce/install-worker");
        let done = self.start_with(text(&script)?).await?;
        Ok((done, fs::read_to_string(self.path("calls"))?))
    }

    /// Starts the machine, whose script must succeed with these calls, one a line.
    async fn start_calls(&self, expected: &[&str]) -> Result<Finished> {
        let (done, calls) = self.start().await?;
        let expected = expected.iter().map(|line| format!("{line}\n"));
        ensure!(done.status.success(), "{done:?}");
        assert_eq!(calls, expected.collect::<String>(), "{done:?}");
        Ok(done)
    }

    /// Starts the machine, whose script must fail with these words and start no worker.
    async fn start_fails(&self, words: &str) -> Result<()> {
        let (done, calls) = self.start().await?;
        let failed = format!("kernelwright: failed: {words}");
        ensure!(
            done.status.code() == Some(1) && done.stderr.contains(&failed),
            "no {failed:?}: {done:?}"
        );
        ensure!(!calls.contains("systemctl"), "{calls}");
        Ok(())
    }

    /// Installs what an image of a driver has.
    fn install_driver(&self) -> Result<()> {
        fs::write(self.path("driver"), "")?;
        Ok(())
    }

    /// The group of the machine's users with this name.
    fn group(&self, name: &str) -> Result<u32> {
        let groups = fs::read_to_string(self.on_disk("etc/group"))?;
        let mut groups = groups.lines().map(|line| line.split(':'));
        let found = groups.find_map(|mut fields| {
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
        });
        found.with_context(|| format!("no group {name}"))
    }
}

const PERSISTENCE: &str = "nvidia-smi --persistence-mode=1";
const TOOLCHAIN: &str = "kw toolchain into /opt/kernelwright";
const RELOAD: &str = "systemctl daemon-reload";
const STARTED: &str = "systemctl start kernelwright-worker";

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_machine_becomes_a_worker() -> Result<()> {
    let Some(machine) = Machine::new().await? else {
        return Ok(());
    };
    // The driver is loaded before its configuration is read.
    fs::write(machine.path("early"), "")?;
    machine.set("ca-secret", "authority");

    // The installer restarts the machine for a kernel, which is no failure.
    let done = machine.start_calls(&[]).await?;
    ensure!(!done.stderr.contains("failed"), "{done:?}");
    let done = machine
        .start_calls(&["update-initramfs -u", "reboot "])
        .await?;
    ensure!(done.stdout.contains("restarting once"), "{done:?}");
    machine
        .start_calls(&[PERSISTENCE, TOOLCHAIN, RELOAD, STARTED])
        .await?;
    // Later starts install nothing.
    machine.start_calls(&[PERSISTENCE, RELOAD, STARTED]).await?;

    let token = machine.on_disk("etc/kernelwright/worker.token");
    assert_eq!(fs::read_to_string(&token)?, "the worker's token\n");
    let token = fs::metadata(token)?;
    assert_eq!(token.mode() & 0o777, 0o640);
    assert_eq!(
        (token.uid(), token.gid()),
        (0, machine.group("kernelwright")?)
    );
    let folder = fs::metadata(machine.on_disk("etc/kernelwright"))?;
    assert_eq!(folder.mode() & 0o777, 0o750);
    assert_eq!(folder.gid(), machine.group("kernelwright")?);
    assert_eq!(
        fs::read_to_string(machine.on_disk("etc/kernelwright/ca.pem"))?,
        "an authority\n"
    );
    assert_eq!(
        fs::read_to_string(machine.on_disk("etc/kernelwright/worker"))?,
        "KERNELWRIGHT_SERVICE=https://kernels.example:8787\n\
         KERNELWRIGHT_PREEMPTION_NOTICE=gce\n\
         KERNELWRIGHT_CA=/etc/kernelwright/ca.pem\n\
         KERNELWRIGHT_DOLLARS_PER_HOUR=0.28\n\
         KERNELWRIGHT_IDLE_MINUTES=10\n\
         KERNELWRIGHT_IDLE_COMMAND=/usr/local/lib/kernelwright/leave-group\n"
    );
    ensure!(machine.on_disk("usr/local/bin/kernelwright").exists());

    // A driver that goes on to allow profiling to root only restarts no machine again.
    fs::remove_file(machine.path("copy"))?;
    let done = machine.start_calls(&[PERSISTENCE, RELOAD, STARTED]).await?;
    ensure!(
        done.stdout.contains("evaluations have no counters"),
        "{done:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_baked_without_a_secret() -> Result<()> {
    let Some(machine) = Machine::new().await? else {
        return Ok(());
    };
    machine.set("bake", "true");
    machine.start_calls(&[]).await?;
    machine
        .start_calls(&[PERSISTENCE, TOOLCHAIN, "poweroff "])
        .await?;
    ensure!(!machine.on_disk("etc/kernelwright/worker.token").exists());

    // A machine of that image installs nothing, unless the group has another release by now.
    machine.cloud.cloud().attributes.remove("kernelwright-bake");
    machine.start_calls(&[PERSISTENCE, RELOAD, STARTED]).await?;
    let release = machine.cloud.cloud().objects[RELEASE].clone();
    machine.set("release-sha256", &Digest::of(release).to_string());
    machine
        .start_calls(&[PERSISTENCE, TOOLCHAIN, RELOAD, STARTED])
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_are_locked_where_the_driver_does_it() -> Result<()> {
    let Some(machine) = Machine::new().await? else {
        return Ok(());
    };
    machine.install_driver()?;
    fs::create_dir_all(machine.on_disk("etc/modprobe.d"))?;
    let allowed = "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n";
    fs::write(machine.on_disk("etc/modprobe.d/kernelwright.conf"), allowed)?;
    machine.set("clocks", "tdp");
    let lock = "nvidia-smi --lock-gpu-clocks=tdp,tdp";
    machine
        .start_calls(&[PERSISTENCE, TOOLCHAIN, lock, RELOAD, STARTED])
        .await?;
    // A refusal is said, and the worker starts: it watches the clocks.
    fs::write(machine.path("refuses"), "")?;
    machine.set("clocks", "1590");
    let lock = "nvidia-smi --lock-gpu-clocks=1590,1590";
    let done = machine
        .start_calls(&[PERSISTENCE, lock, RELOAD, STARTED])
        .await?;
    let words = "does not lock the clocks at 1590; they are only watched";
    ensure!(done.stdout.contains(words), "{done:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_does_not_become_a_worker_says_why_and_leaves_its_group() -> Result<()> {
    let Some(machine) = Machine::new().await? else {
        return Ok(());
    };
    let cloud = || machine.cloud.cloud();
    // Its first start ends with a restart for a kernel.
    machine.start_calls(&[]).await?;
    fs::write(machine.path("no-gpu"), "")?;
    machine
        .start_fails("Google's installer has installed no driver that finds a GPU")
        .await?;
    let installer = cloud().objects.remove(INSTALLER);
    machine
        .start_fails("Google's installer of the driver cannot be downloaded")
        .await?;
    cloud()
        .objects
        .insert(INSTALLER.to_owned(), installer.context("it was there")?);
    fs::remove_file(machine.path("no-gpu"))?;

    cloud().has_account = false;
    machine
        .start_fails("the machine has no service account")
        .await?;
    cloud().has_account = true;
    cloud().may_read = false;
    machine
        .start_fails("the service account workers@team.example may not read gs://my-bucket/kernelwright.tar.gz: give it the role roles/storage.objectViewer")
        .await?;
    cloud().may_read = true;
    machine.set("release", "my-bucket/other.tar.gz");
    machine
        .start_fails("there is no gs://my-bucket/other.tar.gz: upload the archive of docker/build-release, or correct RELEASE")
        .await?;
    let broken = b"no archive".to_vec();
    cloud()
        .objects
        .insert("my-bucket/other.tar.gz".to_owned(), broken);
    machine
        .start_fails("gs://my-bucket/other.tar.gz is not an archive")
        .await?;
    machine.set("release", RELEASE);
    machine.set("release-sha256", &"0".repeat(64));
    let digest = Digest::of(cloud().objects[RELEASE].clone());
    machine
        .start_fails(&format!(
            "gs://{RELEASE} has the SHA-256 digest {digest} and RELEASE_SHA256 is 0000"
        ))
        .await?;
    machine.set("release-sha256", "");

    // The release is installed from here on.
    machine.set("token-secret", "other");
    machine
        .start_fails("there is no secret other with a value: make it with gcloud secrets create, or correct TOKEN_SECRET")
        .await?;
    machine.set("token-secret", "kernelwright-worker");
    cloud().may_read = false;
    machine
        .start_fails("the service account workers@team.example may not read the secret kernelwright-worker: give it the role roles/secretmanager.secretAccessor")
        .await?;
    cloud().may_read = true;
    ensure!(!machine.on_disk("etc/kernelwright/worker.token").exists());
    cloud().attributes.remove("kernelwright-service");
    machine
        .start_fails("the machine has no kernelwright-service in its metadata")
        .await?;

    // Without its worker it would never be idle.
    assert_eq!(cloud().left, [""; 0]);
    let leave = fs::read_to_string(lab::repository().join("docker/gce/leave-group"))?;
    machine.set("leave-group", &leave);
    machine.start_fails("the lines above say why").await?;
    assert_eq!(
        cloud().left,
        ["projects/team/zones/here-a/instances/workers-x1"]
    );
    machine.set("bake", "true");
    machine.set("release", "my-bucket/none.tar.gz");
    machine.start_fails("there is no gs://").await?;
    assert_eq!(cloud().left.len(), 1, "bake-image deletes its machine");
    Ok(())
}
