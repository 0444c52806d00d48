//! Starting a process directly inside namespaces and a control group, so that it never runs outside of them. The
//! standard library cannot do this.

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

/// `CLONE_INTO_CGROUP` of the kernel's `sched.h`; the C library's type is too narrow for it.
const INTO_GROUP: u64 = 0x2_0000_0000;

/// The steps of a new process before it executes its program, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// The process is created.
    Clone,
    /// The process becomes the leader of its own process group.
    Group,
    /// Its streams get the numbers 0 to 2.
    Streams,
    /// Its user is mapped in its user namespace.
    Identity,
    /// Its own /proc is mounted, so that it sees only its own processes.
    Mounts,
    /// It gives up its privileges inside the user namespace.
    Privileges,
    /// It enters its working directory.
    Directory,
    /// It executes the program.
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

/// The reason why no process was started.
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

/// A program in the form that the system calls need, because nothing may be allocated between the creation of the
/// process and the start of its program.
pub(super) struct ExecImage {
    path: CString,
    directory: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl ExecImage {
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

/// The parameters of a new process.
pub(super) struct ProcessOptions<'a> {
    /// Its new namespaces.
    pub(super) namespaces: &'a [Namespace],
    /// The control group that it starts in.
    pub(super) group: Option<BorrowedFd<'a>>,
    /// Its standard streams, each with a descriptor number above 2.
    pub(super) streams: Option<[BorrowedFd<'a>; 3]>,
    /// The program to execute; none for a process that only tests whether everything else works.
    pub(super) image: Option<&'a ExecImage>,
}

/// Creates a process. Returns its number, and a descriptor that becomes readable when it has ended.
pub(super) fn start(options: &ProcessOptions<'_>) -> Result<(Pid, OwnedFd), StartError> {
    let prepared = ProcessSetup::new(options);
    let (report, theirs) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| StartError {
            step: Step::Clone,
            errno,
        })?;
    let mut flags = libc::CLONE_PIDFD as u64;
    flags |= options
        .namespaces
        .iter()
        .map(|kind| flag(*kind))
        .sum::<u64>();
    if options.group.is_some() {
        flags |= INTO_GROUP;
    }
    let mut ended: c_int = -1;
    // SAFETY: all fields are integers, for which zero means "not requested".
    let mut arguments: libc::clone_args = unsafe { mem::zeroed() };
    arguments.flags = flags;
    arguments.pidfd = &raw mut ended as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    arguments.cgroup = options.group.map_or(0, |group| group.as_raw_fd() as u64);
    let signals = BlockedSignals::blocked();
    // SAFETY: the arguments have the size that is given and outlive the call. The new process has a copy of this
    // one's memory with one thread in it, and does only what is allowed there (see `run_child`).
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw mut arguments,
            mem::size_of::<libc::clone_args>(),
        )
    };
    if pid == 0 {
        // SAFETY: this is the new process, and nothing of `prepared` has been released.
        unsafe { run_child(&prepared, theirs.as_raw_fd()) }
    }
    let error = io::Error::last_os_error();
    drop(signals);
    drop(theirs);
    let pid = c_int::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| ended >= 0) else {
        return Err(StartError::of(Step::Clone, &error));
    };
    // SAFETY: the kernel has just created this descriptor for this call.
    let ended = unsafe { OwnedFd::from_raw_fd(ended) };
    match read_report(&report) {
        None => Ok((pid, ended)),
        Some(refusal) => {
            // The process has ended or is ending; its report gives the reason.
            let _ = waitpid(Some(pid), WaitOptions::empty());
            Err(refusal)
        }
    }
}

/// The error that the process reported before it executed the program; none if there was none.
fn read_report(report: &OwnedFd) -> Option<StartError> {
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

/// All data that the new process needs, allocated in advance.
struct ProcessSetup<'a> {
    identity: Option<[(&'static CStr, CString); 3]>,
    mounts: bool,
    streams: Option<[RawFd; 3]>,
    image: Option<&'a ExecImage>,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

impl<'a> ProcessSetup<'a> {
    fn new(options: &ProcessOptions<'a>) -> Self {
        let has = |kind| options.namespaces.contains(&kind);
        let identity = has(Namespace::User).then(|| {
            // Inside, the user has the same number as outside, so that files keep their owner, and no other user has
            // a number.
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
            streams: options
                .streams
                .map(|streams| streams.map(|one| one.as_raw_fd())),
            image: options.image,
            arguments: options
                .image
                .map_or(Vec::new(), |image| pointers(&image.arguments)),
            environment: options
                .image
                .map_or(Vec::new(), |image| pointers(&image.environment)),
        }
    }
}

/// All signals are blocked while this value exists, because a signal handler must not run in the new process, which
/// shares the descriptors.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    fn blocked() -> Self {
        // SAFETY: both sets are written by the calls before they are read; blocking all signals of the calling thread
        // has no further condition.
        unsafe {
            let mut all: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self { before }
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set was filled in by the call that blocked the signals.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}

/// Runs the new process until it executes its program.
///
/// # Safety
/// This function may only be called in a new process with one thread, whose memory is a copy of a process that had
/// several: nothing here allocates, takes a lock or returns. `report` must be open.
unsafe fn run_child(prepared: &ProcessSetup<'_>, report: RawFd) -> ! {
    let fail = |step: Step| -> ! {
        let errno = Errno::from_io_error(&io::Error::last_os_error());
        let errno = errno.map_or(0, Errno::raw_os_error).to_le_bytes();
        let bytes = [step as u8, errno[0], errno[1], errno[2], errno[3]];
        // SAFETY: the bytes outlive the write, and the process ends here.
        unsafe {
            libc::write(report, bytes.as_ptr().cast::<c_void>(), bytes.len());
            libc::_exit(127)
        }
    };
    // SAFETY: every pointer refers to a C string or to an array that ends with null, and outlives the calls; only
    // system calls are made.
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
            // Root inside the namespace gets no privilege when it executes the program.
            let bits = (libc::SECBIT_NOROOT | libc::SECBIT_NOROOT_LOCKED) as libc::c_ulong;
            if libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 {
                fail(Step::Privileges);
            }
        }
        // The role requests this as well; until then no other mechanism would end it with its parent.
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

/// Handles the signals that end a process from inside. The kernel does not deliver a signal without a handler to the
/// first process of a PID namespace. The handler exits with a status that [`signal_from_status`] reads.
pub fn handle_signals() {
    extern "C" fn end(signal: c_int) {
        // SAFETY: one system call, which does not return.
        unsafe { libc::_exit(128 + signal) }
    }
    let handler = end as extern "C" fn(c_int);
    for signal in HANDLED_SIGNALS {
        // SAFETY: the handler makes one call, which signal handlers may make.
        unsafe {
            libc::signal(signal, handler as libc::sighandler_t);
        }
    }
}

/// Signals by which a process ends itself: `abort`, and its limit of processor time.
const HANDLED_SIGNALS: [c_int; 2] = [libc::SIGABRT, libc::SIGXCPU];

/// The signal that caused the exit status of the first process of a namespace; none for other statuses.
pub fn signal_from_status(status: i32) -> Option<i32> {
    HANDLED_SIGNALS
        .into_iter()
        .find(|signal| status == 128 + signal)
}
