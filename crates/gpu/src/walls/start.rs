//! Starting a process inside namespaces and a control group of its own, in one step, so that it is
//! never outside of them. The standard library can start a process and cannot do this.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

use domain::role::walls::Namespace;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};

/// `CLONE_INTO_CGROUP` of the kernel's `sched.h`, for which the C library's type is too narrow.
const INTO_GROUP: u64 = 0x2_0000_0000;

/// What a process must have done before it is another program, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// To be made.
    Clone,
    /// To lead a group of its own.
    Group,
    /// To have its streams where programs look for them.
    Streams,
    /// To be somebody in its user namespace.
    Identity,
    /// To see nothing but its own processes.
    Mounts,
    /// To have no privilege inside either.
    Privileges,
    /// To be in its folder.
    Directory,
    /// To become the program.
    Program,
}

const STEPS: [Step; 8] = [
    Step::Clone,
    Step::Group,
    Step::Streams,
    Step::Identity,
    Step::Mounts,
    Step::Privileges,
    Step::Directory,
    Step::Program,
];

/// Why there is no process.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartError {
    pub(super) step: Step,
    pub(super) errno: Errno,
}

impl StartError {
    fn of(step: Step, error: &io::Error) -> Self {
        Self {
            step,
            errno: Errno::from_io_error(error).unwrap_or(Errno::IO),
        }
    }
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let doing = match self.step {
            Step::Clone => "making the process",
            Step::Group => "giving it a process group",
            Step::Streams => "giving it its streams",
            Step::Identity => "naming its user",
            Step::Mounts => "mounting its own /proc",
            Step::Privileges => "taking its privileges away",
            Step::Directory => "entering its folder",
            Step::Program => "executing the program",
        };
        write!(f, "{doing}: {}", io::Error::from(self.errno))
    }
}

/// A program as the system wants it: nothing is allocated between the new process's first breath
/// and its program's.
pub(super) struct Image {
    path: CString,
    directory: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Image {
    pub(super) fn new(
        executable: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
        directory: &Path,
    ) -> io::Result<Self> {
        let words = std::iter::once(executable.as_os_str())
            .chain(arguments.iter().map(OsString::as_os_str))
            .map(|word| CString::new(word.as_bytes()))
            .collect::<Result<_, _>>()?;
        let environment = environment
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            path: CString::new(executable.as_os_str().as_bytes())?,
            directory: CString::new(directory.as_os_str().as_bytes())?,
            arguments: words,
            environment,
        })
    }
}

/// What the new process is to be.
pub(super) struct Order<'a> {
    /// The namespaces it gets for itself.
    pub(super) namespaces: &'a [Namespace],
    /// The control group it begins in.
    pub(super) group: Option<BorrowedFd<'a>>,
    /// Its standard streams, each with a number above 2.
    pub(super) streams: Option<[BorrowedFd<'a>; 3]>,
    /// What it becomes. None for a process that only tries whether all the rest works.
    pub(super) image: Option<&'a Image>,
}

/// Makes a process: its number, and a descriptor that is readable once it has ended.
pub(super) fn start(order: &Order<'_>) -> Result<(Pid, OwnedFd), StartError> {
    let prepared = Prepared::new(order);
    let (report, theirs) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| StartError {
            step: Step::Clone,
            errno,
        })?;
    let mut flags = libc::CLONE_PIDFD as u64;
    flags |= order.namespaces.iter().map(|kind| flag(*kind)).sum::<u64>();
    if order.group.is_some() {
        flags |= INTO_GROUP;
    }
    let mut ended: c_int = -1;
    // SAFETY: all fields are integers, for which zero stands for "not asked for".
    let mut arguments: libc::clone_args = unsafe { mem::zeroed() };
    arguments.flags = flags;
    arguments.pidfd = &raw mut ended as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = order.group.map_or(0, |group| group.as_raw_fd() as u64);
    let signals = Signals::blocked();
    // SAFETY: the arguments have the size that is named and outlive the call. The new process has
    // a copy of this one's memory with one thread in it, and keeps to what is allowed there (below).
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut arguments,
            mem::size_of::<libc::clone_args>(),
        )
    };
    if pid == 0 {
        // SAFETY: this is the new process, and nothing of `prepared` has been released.
        unsafe { become_it(&prepared, theirs.as_raw_fd()) }
    }
    let error = io::Error::last_os_error();
    drop(signals);
    drop(theirs);
    let pid = c_int::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| ended >= 0) else {
        return Err(StartError::of(Step::Clone, &error));
    };
    // SAFETY: the kernel has just made this descriptor for us.
    let ended = unsafe { OwnedFd::from_raw_fd(ended) };
    match reported(&report) {
        None => Ok((pid, ended)),
        Some(refusal) => {
            // It is gone or going; what it reported says why.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(refusal)
        }
    }
}

/// What the process says before it is the program: nothing if all went well.
fn reported(report: &OwnedFd) -> Option<StartError> {
    let mut bytes = [0; 5];
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::read(report, &mut bytes[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Some(StartError {
                    step: Step::Clone,
                    errno,
                });
            }
        }
    }
    let [step, errno @ ..] = bytes;
    (read == bytes.len()).then(|| StartError {
        step: STEPS[usize::from(step).min(STEPS.len() - 1)],
        errno: Errno::from_raw_os_error(i32::from_le_bytes(errno)),
    })
}

fn flag(kind: Namespace) -> u64 {
    let flag = match kind {
        Namespace::User => libc::CLONE_NEWUSER,
        Namespace::Pid => libc::CLONE_NEWPID,
        Namespace::Mount => libc::CLONE_NEWNS,
        Namespace::Net => libc::CLONE_NEWNET,
        Namespace::Ipc => libc::CLONE_NEWIPC,
    };
    u64::from(flag.unsigned_abs())
}

/// All that the new process needs, in memory already.
struct Prepared<'a> {
    identity: Option<[(&'static CStr, CString); 3]>,
    mounts: bool,
    streams: Option<[RawFd; 3]>,
    image: Option<&'a Image>,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

impl<'a> Prepared<'a> {
    fn new(order: &Order<'a>) -> Self {
        let has = |kind| order.namespaces.contains(&kind);
        let identity = has(Namespace::User).then(|| {
            // Inside it has the number that it has outside, so that files keep their owner, and
            // nobody else has any.
            let user = rustix::process::geteuid().as_raw();
            let group = rustix::process::getegid().as_raw();
            let line = |text: String| CString::new(text).expect("digits and blanks");
            [
                (c"/proc/self/setgroups", line("deny".to_owned())),
                (c"/proc/self/gid_map", line(format!("{group} {group} 1"))),
                (c"/proc/self/uid_map", line(format!("{user} {user} 1"))),
            ]
        });
        let pointers = |words: &[CString]| {
            let words = words.iter().map(|word| word.as_ptr());
            words.chain([ptr::null()]).collect::<Vec<_>>()
        };
        Self {
            identity,
            mounts: has(Namespace::Mount),
            streams: order
                .streams
                .map(|streams| streams.map(|one| one.as_raw_fd())),
            image: order.image,
            arguments: order
                .image
                .map_or(Vec::new(), |image| pointers(&image.arguments)),
            environment: order
                .image
                .map_or(Vec::new(), |image| pointers(&image.environment)),
        }
    }
}

/// Every signal is held back while this lives: a handler of ours must not run in the new process,
/// which shares our descriptors.
struct Signals {
    before: libc::sigset_t,
}

impl Signals {
    fn blocked() -> Self {
        // SAFETY: both sets are written by the calls before they are read; blocking all signals
        // of the calling thread has no further condition.
        unsafe {
            let mut all: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the call that blocked them.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// The new process until it is another program.
///
/// # Safety
/// Only in a new process with one thread, whose memory is a copy of one that had several: nothing
/// here allocates, takes a lock or returns. `report` must be open.
unsafe fn become_it(prepared: &Prepared<'_>, report: RawFd) -> ! {
    let fail = |step: Step| -> ! {
        let errno = Errno::from_io_error(&io::Error::last_os_error());
        let errno = errno.map_or(0, Errno::raw_os_error).to_le_bytes();
        let bytes = [step as u8, errno[0], errno[1], errno[2], errno[3]];
        // SAFETY: the bytes outlive the write; the process ends here.
        unsafe {
            libc::write(report, bytes.as_ptr().cast::<c_void>(), bytes.len());
            libc::_exit(127)
        }
    };
    // SAFETY: every pointer is to a C string or an array that ends in null and outlives the calls;
    // the calls are those of the system alone.
    unsafe {
        if libc::setpgid(0, 0) != 0 {
            fail(Step::Group);
        }
        if let Some(streams) = prepared.streams {
            for (number, stream) in (0..).zip(streams) {
                if libc::dup2(stream, number) < 0 {
                    fail(Step::Streams);
                }
            }
        }
        if let Some(identity) = &prepared.identity {
            for (file, line) in identity {
                let file = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                let bytes = line.as_bytes();
                let text = bytes.as_ptr().cast::<c_void>();
                if file < 0 || libc::write(file, text, bytes.len()) != bytes.len().cast_signed() {
                    fail(Step::Identity);
                }
                libc::close(file);
            }
        }
        if prepared.mounts {
            let private = libc::MS_REC | libc::MS_SLAVE;
            let proc = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            let (none, root) = (ptr::null(), c"/".as_ptr());
            let (name, place) = (c"proc".as_ptr(), c"/proc".as_ptr());
            if libc::mount(none, root, none, private, ptr::null()) != 0
                || libc::mount(name, place, name, proc, ptr::null()) != 0
            {
                fail(Step::Mounts);
            }
        }
        if prepared.identity.is_some() {
            // Who is root inside is so in name only: its program gets no privilege for it.
            let bits = (libc::SECBIT_NOROOT | libc::SECBIT_NOROOT_LOCKED) as libc::c_ulong;
            if libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 {
                fail(Step::Privileges);
            }
        }
        // The role asks for this as well; until it has, nobody else would.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        let Some(image) = prepared.image else {
            libc::_exit(0);
        };
        if libc::chdir(image.directory.as_ptr()) != 0 {
            fail(Step::Directory);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::execve(
            image.path.as_ptr(),
            prepared.arguments.as_ptr(),
            prepared.environment.as_ptr(),
        );
        fail(Step::Program)
    }
}

/// Has the first process of a namespace end by the signals that end any other: the kernel keeps
/// from it what it has no handler for. It ends with the status of [`by_signal`].
pub fn heed_signals() {
    extern "C" fn end(signal: c_int) {
        // SAFETY: one call of the system, which does not return.
        unsafe { libc::_exit(128 + signal) }
    }
    let handler = end as extern "C" fn(c_int);
    for signal in HEEDED {
        // SAFETY: the handler makes one call, which is allowed in one.
        unsafe {
            libc::signal(signal, handler as libc::sighandler_t);
        }
    }
}

/// What ends a process by itself: `abort`, and its limit on processor time.
const HEEDED: [c_int; 2] = [libc::SIGABRT, libc::SIGXCPU];

/// The signal that a first process of a namespace means by its exit status, if it means one.
pub fn by_signal(status: i32) -> Option<i32> {
    HEEDED.into_iter().find(|signal| status == 128 + signal)
}
