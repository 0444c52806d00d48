//! Writing on a disk without room. A file size limit of the process stands in for a full disk, so
//! this test has a process of its own.

#![expect(
    clippy::unwrap_used,
    reason = "the tests' own preparations fail the test too"
)]

use chrono::{DateTime, TimeDelta, Utc};
use domain::task::{Bundle, Task};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::Store;
use tokio::signal::unix::{SignalKind, signal};

/// Sent to a process that writes beyond its file size limit; it kills unless it is handled.
const SIGXFSZ: i32 = 25;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

fn bundle(context: &str) -> Bundle {
    const TASK: &str = "name = \"fill\"\ntitle = \"Fill a vector\"\n[dims]\nN = {}\n[[tensor]]\n\
        name = \"y\"\ndtype = \"f32\"\nshape = [\"N\"]\nrole = \"out\"\n[tolerance]\nclass = \"f32\"\n\
        [[case]]\nname = \"only\"\ndims = { N = 8 }\nuse = [\"check\", \"score\"]\n";
    const KERNEL: &str = "/*---\n[[launch]]\nkernel = \"k\"\ngrid = [1]\nblock = [32]\n\
        args = [\"y\"]\n---*/\nbody\n";
    let files = [
        ("task.toml", TASK),
        ("context.md", context),
        ("reference.cu", KERNEL),
        ("check.cu", KERNEL),
        ("baseline.cu", KERNEL),
    ];
    let file = |(path, text): (&str, &str)| (path.to_owned(), text.to_owned());
    Bundle {
        files: files.into_iter().map(file).collect(),
    }
}

async fn write(store: &Store, context: &str, seconds: i64) -> Result<(), store::StoreError> {
    let bundle = bundle(context);
    let task = Task::load(&bundle).unwrap();
    store.put_task(&task, &bundle, at(seconds)).await.map(drop)
}

fn limit_file_size(bytes: Option<u64>) {
    let hard = getrlimit(Resource::Fsize).maximum;
    let limit = Rlimit {
        current: bytes.or(hard),
        maximum: hard,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
}

#[tokio::test]
async fn the_writer_recovers_when_the_disk_has_room_again() {
    let _handled = signal(SignalKind::from_raw(SIGXFSZ)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let store = Store::open(&path).await.unwrap();
    write(&store, "with room", 0).await.unwrap();
    store.ensure_writable().await.unwrap();

    limit_file_size(Some(0));
    for _ in 0..3 {
        write(&store, "without room", 1).await.unwrap_err();
        store.ensure_writable().await.unwrap_err();
    }

    limit_file_size(None);
    store.ensure_writable().await.unwrap();
    write(&store, "with room again", 2).await.unwrap();
    let stored = store.task("fill").await.unwrap().unwrap();
    assert_eq!(stored.bundle, bundle("with room again"));
}
