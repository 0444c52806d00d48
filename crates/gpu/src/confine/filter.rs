//! System call filters.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use crate::role_error::RoleError;

/// Sets of system calls by the work of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCalls {
    /// Only files, memory, threads and clocks: no sockets, no new processes, no signals to other processes. For all
    /// roles except those that use a real driver.
    Computing,
    /// As `Computing`, and starting programs, which inherit the filter. For a tool that is a program.
    Tool,
    /// All except those that reach other processes, the network or the kernel's configuration, because NVIDIA does
    /// not document the calls that its driver uses.
    Driver,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Installs the filter on this thread and all threads and processes that it starts. A refused call fails with
/// `EPERM`, so that library code that only tests for a feature continues.
pub(super) fn install(calls: SystemCalls) -> Result<(), RoleError> {
    let (allow, refuse) = (
        SeccompAction::Allow,
        SeccompAction::Errno(errno(libc::EPERM)),
    );
    match calls {
        SystemCalls::Computing => apply(allowed_for_computing()?, refuse, allow)?,
        SystemCalls::Tool => {
            let mut allowed = allowed_for_computing()?;
            allowed.extend(allowed_for_starting_programs()?);
            apply(allowed, refuse, allow)?;
        }
        SystemCalls::Driver => apply(forbidden_to_drivers()?, allow, refuse)?,
    }
    // The arguments of clone3 are in memory, where a filter cannot see them. Without clone3 the C library starts
    // threads through clone, whose arguments are checked.
    let clone3 = Rules::from([(libc::SYS_clone3, vec![])]);
    apply(
        clone3,
        SeccompAction::Allow,
        SeccompAction::Errno(errno(libc::ENOSYS)),
    )
}

fn apply(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> Result<(), RoleError> {
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|error| RoleError::Confinement(format!("filter system calls: {error}")))?;
    let program: BpfProgram = SeccompFilter::new(rules, otherwise, matched, architecture)
        .and_then(TryInto::try_into)
        .map_err(|error| {
            RoleError::Confinement(format!("build the system call filter: {error}"))
        })?;
    seccompiler::apply_filter(&program)
        .map_err(|error| RoleError::Confinement(format!("install the system call filter: {error}")))
}

fn errno(code: i32) -> u32 {
    code.unsigned_abs()
}

/// The system calls for computing, with conditions where a call can do more.
fn allowed_for_computing() -> Result<Rules, RoleError> {
    let always = [
        // Files.
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_pread64,
        libc::SYS_pwrite64,
        libc::SYS_lseek,
        libc::SYS_openat,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_statfs,
        libc::SYS_fstatfs,
        libc::SYS_getdents64,
        libc::SYS_readlinkat,
        libc::SYS_faccessat,
        libc::SYS_faccessat2,
        libc::SYS_getcwd,
        libc::SYS_fcntl,
        libc::SYS_flock,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_pipe2,
        libc::SYS_mkdirat,
        libc::SYS_unlinkat,
        libc::SYS_renameat,
        libc::SYS_renameat2,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_fsync,
        libc::SYS_fdatasync,
        libc::SYS_fchmod,
        libc::SYS_copy_file_range,
        libc::SYS_sendfile,
        libc::SYS_umask,
        // Memory.
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_mincore,
        libc::SYS_memfd_create,
        // Threads and this process.
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_get_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_rseq,
        libc::SYS_membarrier,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getrusage,
        libc::SYS_sysinfo,
        libc::SYS_uname,
        libc::SYS_getcpu,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_restart_syscall,
        // Signals to this process.
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        // Time and random numbers.
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_times,
        libc::SYS_getrandom,
        libc::SYS_ppoll,
        libc::SYS_clone3,
    ];
    let mut rules: Rules = always.into_iter().map(|call| (call, vec![])).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(
        [
            libc::SYS_open,
            libc::SYS_stat,
            libc::SYS_lstat,
            libc::SYS_access,
            libc::SYS_readlink,
            libc::SYS_mkdir,
            libc::SYS_rmdir,
            libc::SYS_unlink,
            libc::SYS_rename,
            libc::SYS_dup2,
            libc::SYS_pipe,
            libc::SYS_poll,
            libc::SYS_time,
            libc::SYS_arch_prctl,
        ]
        .map(|call| (call, vec![])),
    );

    let own_process = u64::from(std::process::id());
    let threads = unsigned(libc::CLONE_THREAD);
    rules.extend([
        // A new thread, but never a new process.
        (
            libc::SYS_clone,
            vec![rule(0, SeccompCmpOp::MaskedEq(threads), threads)?],
        ),
        // `abort` in this process.
        (
            libc::SYS_tgkill,
            vec![rule(0, SeccompCmpOp::Eq, own_process)?],
        ),
        // Reading a limit, but never setting one.
        (libc::SYS_prlimit64, vec![rule(2, SeccompCmpOp::Eq, 0)?]),
        // Names of threads and of memory ranges.
        (
            libc::SYS_prctl,
            vec![
                rule(0, SeccompCmpOp::Eq, unsigned(libc::PR_SET_NAME))?,
                rule(0, SeccompCmpOp::Eq, unsigned(libc::PR_GET_NAME))?,
                rule(0, SeccompCmpOp::Eq, unsigned(libc::PR_SET_VMA))?,
                // The second filter and Landlock need these; they can only remove rights.
                rule(0, SeccompCmpOp::Eq, unsigned(libc::PR_SET_NO_NEW_PRIVS))?,
                rule(0, SeccompCmpOp::Eq, unsigned(libc::PR_SET_SECCOMP))?,
            ],
        ),
        (libc::SYS_seccomp, vec![]),
    ]);
    Ok(rules)
}

/// The further system calls to start a program, read its output, and wait for its end.
fn allowed_for_starting_programs() -> Result<Rules, RoleError> {
    let always = [
        libc::SYS_clone,
        libc::SYS_vfork,
        libc::SYS_execve,
        libc::SYS_wait4,
        libc::SYS_waitid,
    ];
    let mut rules: Rules = always.into_iter().map(|call| (call, vec![])).collect();
    // Two pipes are read alternately without blocking.
    let without_waiting = rule(1, SeccompCmpOp::Eq, libc::FIONBIO)?;
    rules.insert(libc::SYS_ioctl, vec![without_waiting]);
    Ok(rules)
}

/// System calls that no driver needs once its context exists.
fn forbidden_to_drivers() -> Result<Rules, RoleError> {
    let never = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_open,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_delete_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        // An older Landlock does not restrict this call.
        libc::SYS_truncate,
    ];
    let mut rules: Rules = never.into_iter().map(|call| (call, vec![])).collect();
    // The driver uses local sockets to communicate with its daemons, and no others.
    let local = unsigned(libc::AF_UNIX);
    rules.insert(libc::SYS_socket, vec![rule(0, SeccompCmpOp::Ne, local)?]);
    // The driver starts threads, but no processes.
    let threads = unsigned(libc::CLONE_THREAD);
    rules.insert(
        libc::SYS_clone,
        vec![rule(0, SeccompCmpOp::MaskedEq(threads), 0)?],
    );
    #[cfg(target_arch = "x86_64")]
    rules.extend([libc::SYS_fork, libc::SYS_vfork].map(|call| (call, vec![])));
    Ok(rules)
}

/// A condition on one argument, as a 32-bit comparison.
fn rule(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, RoleError> {
    let length = if value == 0 {
        // Zero is compared with 64 bits, because it stands for a null pointer.
        SeccompCmpArgLen::Qword
    } else {
        SeccompCmpArgLen::Dword
    };
    SeccompCondition::new(argument, length, comparison, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| RoleError::Confinement(format!("build the system call filter: {error}")))
}

fn unsigned(constant: i32) -> u64 {
    u64::from(constant.unsigned_abs())
}
