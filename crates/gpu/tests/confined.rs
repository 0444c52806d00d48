//! Test of the rights that remain for a process with NVIDIA's driver once it has a context. It is the only test of
//! its program, because a thread cannot regain the rights that it gave up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use gpu::confine::{self, Permissions, SystemCalls, nvidia_files};

fn refused<T>(what: io::Result<T>) -> bool {
    what.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn a_confined_driver_process_has_only_the_listed_rights() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::NamedTempFile::new().unwrap();
    fs::write(outside.path(), "kept").unwrap();
    let permissions = Permissions {
        read: nvidia_files::readable().collect(),
        write: vec![folder.path().to_owned()],
        control: nvidia_files::controllable(),
        calls: SystemCalls::Driver,
        restrict_files: true,
        memory_bytes: None,
        cpu_seconds: None,
    };
    let level = confine::apply(&permissions).unwrap();
    if level.files == confine::Files::Unavailable {
        eprintln!("NOT RUN: this kernel has no Landlock");
        return;
    }

    // The same accesses as the driver's: it reads about its own process, and starts threads that set their names.
    fs::read_to_string("/proc/self/maps").unwrap();
    fs::read_to_string("/proc/self/status").unwrap();
    let named = std::thread::spawn(|| {
        let own = PathBuf::from("/proc/thread-self").read_link()?;
        fs::write(Path::new("/proc").join(own).join("comm"), "cuda-worker")
    });
    named.join().unwrap().unwrap();
    UnixStream::pair().unwrap();
    fs::write(folder.path().join("saved"), "outputs").unwrap();

    assert!(refused(File::open("/etc/passwd")));
    assert!(refused(File::open("/proc/self/environ")));
    assert!(refused(OpenOptions::new().write(true).open("/dev/zero")));
    assert!(refused(File::open(outside.path())));
    assert!(refused(
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(outside.path())
    ));
    #[expect(clippy::disallowed_methods, reason = "what must not be possible")]
    let started = std::process::Command::new("/bin/true").status();
    assert!(started.is_err(), "{started:?}");
    assert_eq!(outside.as_file().metadata().unwrap().len(), 4);
}
