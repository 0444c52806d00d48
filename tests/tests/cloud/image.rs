//! Images and groups of machines: `bake-image` and `create-group`, with the stand-in for `gcloud`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use lab::Finished;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{run, settings, text};

/// The project of the cloud, and the folder with its settings.
struct Project {
    folder: TempDir,
    settings: PathBuf,
    path: String,
}

impl Project {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let programs = lab::repository().join("tests/cloud");
        let old = std::env::var("PATH")?;
        let project = Self {
            settings: settings(folder.path(), "SERVICE=https://kernels.example:8787\n")?,
            path: format!("{}:{old}", text(&programs)?),
            folder,
        };
        project.write(&json!({
            "project": "team",
            "zones": ["here-a", "here-b", "here-c", "there-a"],
            "machine": "g2-standard-4",
            "public_families": ["ubuntu-2404-lts-amd64"],
            "instances": {}, "images": {}, "templates": {}, "groups": {},
            // The greatest number of machines.
            "quota": null,
            // Zones without a free machine.
            "stocked_out": [],
            // The last line of a start-up script that fails.
            "script_fails": "",
            // Refusals by command.
            "refused": {},
        }))?;
        Ok(project)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("state.json")
    }

    fn read(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(self.file())?)?)
    }

    fn write(&self, state: &Value) -> Result<()> {
        Ok(std::fs::write(self.file(), state.to_string())?)
    }

    fn set(&self, key: &str, value: Value) -> Result<()> {
        let mut state = self.read()?;
        state[key] = value;
        self.write(&state)
    }

    /// The names of the project's resources of one kind.
    fn names(&self, kind: &str) -> Result<Vec<String>> {
        let state = self.read()?;
        let resources = state[kind].as_object().context("resources by name")?;
        Ok(resources.keys().cloned().collect())
    }

    async fn call(&self, program: &str) -> Result<Finished> {
        self.call_with(program, "30").await
    }

    /// Calls a program with the longest time that a machine gets to become an image.
    async fn call_with(&self, program: &str, minutes: &str) -> Result<Finished> {
        let environment = [
            ("PATH", self.path.as_str()),
            ("CLOUD_STATE", text(self.folder.path())?),
            ("BAKE_PAUSE", "0"),
            ("BAKE_MINUTES", minutes),
        ];
        let program = Path::new("docker/gce").join(program);
        run(text(&program)?, &environment, &[text(&self.settings)?]).await
    }

    /// Calls a program that must be refused with these words, and leave nothing in the project.
    async fn refuses(&self, program: &str, words: &[&str]) -> Result<Finished> {
        let done = self.call(program).await?;
        self.ensure_refused(done, words)
    }

    fn ensure_refused(&self, done: Finished, words: &[&str]) -> Result<Finished> {
        assert_eq!(done.status.code(), Some(1), "{done:?}");
        for words in words {
            ensure!(done.stderr.contains(words), "no {words:?}: {done:?}");
        }
        for kind in ["instances", "images", "templates", "groups"] {
            assert_eq!(self.names(kind)?, [""; 0], "{kind}: {done:?}");
        }
        Ok(done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_baked_in_a_zone_that_has_a_machine() -> Result<()> {
    let project = Project::new()?;
    project.set("stocked_out", json!(["here-a", "here-b"]))?;
    let done = project.call("bake-image").await?;
    ensure!(done.status.success(), "{done:?}");
    for zone in ["here-a", "here-b"] {
        let words = format!("bake-image: no machine is free in {zone}\n");
        ensure!(done.stderr.contains(&words), "{done:?}");
    }
    assert_eq!(project.names("images")?.len(), 1);
    assert_eq!(project.names("instances")?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_baked_leaves_nothing() -> Result<()> {
    let project = Project::new()?;
    project.set("stocked_out", json!(["here-a", "here-b", "here-c"]))?;
    let words = [
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        "no machine is free in a zone of here (here-a here-b here-c): try again later",
    ];
    project.refuses("bake-image", &words).await?;
    project.set("stocked_out", json!([]))?;

    project.set("quota", json!(0))?;
    let words = [
        "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 0.0",
        "the cloud refused to make a machine in here-a",
    ];
    let done = project.refuses("bake-image", &words).await?;
    ensure!(!done.stderr.contains("was not found"), "{done:?}");
    project.set("quota", Value::Null)?;

    project.set("public_families", json!([]))?;
    let words = ["images/family/ubuntu-2404-lts-amd64' was not found"];
    project.refuses("bake-image", &words).await?;
    project.set("public_families", json!(["ubuntu-2404-lts-amd64"]))?;

    project.set("machine", json!("other"))?;
    let words = ["no zone of here has machines of the type g2-standard-4"];
    project.refuses("bake-image", &words).await?;
    project.set("machine", json!("g2-standard-4"))?;

    // The machine's own words are shown before it is deleted.
    let reason = "kernelwright: failed: there is no gs://my-bucket/kernelwright.tar.gz";
    project.set("script_fails", json!(reason))?;
    let words = [reason, "the machine's start-up script failed"];
    project.refuses("bake-image", &words).await?;
    project.set("script_fails", json!("still at work"))?;
    let done = project.call_with("bake-image", "0").await?;
    let words = [
        "is not ready after 0 minutes",
        "startup-script: still at work",
    ];
    project.ensure_refused(done, &words)?;
    project.set("script_fails", json!(""))?;

    let refused =
        json!({ "compute images create": "Quota 'IMAGES' exceeded.  Limit: 2000.0 globally." });
    project.set("refused", refused)?;
    project
        .refuses("bake-image", &["Quota 'IMAGES' exceeded"])
        .await?;

    // A machine that cannot be deleted is named, because it costs money.
    let refused =
        json!({ "compute instances delete": "Required 'compute.instances.delete' permission" });
    project.set("refused", refused)?;
    let done = project.call("bake-image").await?;
    let machine = &project.names("instances")?[0];
    let words = format!("delete the machine {machine} in here-a");
    ensure!(done.stderr.contains(&words), "{done:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_made_and_gets_a_new_template() -> Result<()> {
    let project = Project::new()?;
    let done = project.call("create-group").await?;
    ensure!(done.status.success(), "{done:?}");
    ensure!(
        done.stderr.contains("there is no image of bake-image"),
        "{done:?}"
    );
    let first = project.names("templates")?;
    let state = project.read()?;
    let group = &state["groups"]["workers"];
    let zones = ["here-a", "here-b", "here-c"];
    let expected = json!({ "region": "here", "template": first[0], "size": 0, "zones": zones });
    assert_eq!(*group, expected);
    let template = &state["templates"][&first[0]];
    assert_eq!(template["model"], "SPOT");
    assert_eq!(template["family"], "ubuntu-2404-lts-amd64");
    let metadata = template["metadata"].as_object().context("metadata")?;
    for (name, value) in [
        ("kernelwright-service", "https://kernels.example:8787"),
        ("kernelwright-token-secret", "kernelwright-worker"),
        ("kernelwright-idle-minutes", "10"),
        ("kernelwright-clocks", ""),
    ] {
        assert_eq!(metadata[name], value, "{name}");
    }
    // The start-up script reads each of them, and no other.
    let script = metadata["startup-script"].as_str().context("a script")?;
    for name in metadata
        .keys()
        .filter_map(|name| name.strip_prefix("kernelwright-"))
    {
        ensure!(script.contains(&format!("$(setting {name})")), "{name}");
    }

    // With an image, and under another name: its name has seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    project.set(
        "images",
        json!({ "baked": { "family": "kernelwright-worker" } }),
    )?;
    let done = project.call("create-group").await?;
    ensure!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    let state = project.read()?;
    let template = state["groups"]["workers"]["template"].as_str();
    let template = template.context("a template")?;
    ensure!(template != first[0], "{template}");
    assert_eq!(
        state["templates"][template]["family"],
        "kernelwright-worker"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_cannot_be_made_leaves_nothing() -> Result<()> {
    let project = Project::new()?;
    for (command, words) in [
        (
            "compute images list",
            "Required 'compute.images.list' permission for 'projects/team'",
        ),
        (
            "compute instance-templates create",
            "The resource 'projects/team/global/instanceTemplates/workers-1' already exists",
        ),
        (
            "compute instance-groups managed create",
            "Quota 'INSTANCE_GROUP_MANAGERS' exceeded.  Limit: 100.0 in region here.",
        ),
        (
            "compute instance-groups managed list",
            "Required 'compute.instanceGroupManagers.list' permission",
        ),
    ] {
        project.set("refused", json!({ command: words }))?;
        project.refuses("create-group", &[words]).await?;
    }
    project.set("refused", json!({}))?;
    project.set("zones", json!(["there-a"]))?;
    let words = ["no zone of here has machines of the type g2-standard-4"];
    project.refuses("create-group", &words).await?;
    settings(project.folder.path(), "CLOCKS=fast\n")?;
    let words = ["CLOCKS=fast is neither a number of MHz nor tdp"];
    project.refuses("create-group", &words).await?;
    settings(project.folder.path(), "PROJECT=other\n")?;
    project
        .refuses(
            "create-group",
            &["The resource 'projects/other' was not found"],
        )
        .await?;
    Ok(())
}
