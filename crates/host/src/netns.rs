//! Network namespaces that belong to this process and are removed with it.
//!
//! A namespace here has no name in the file system: it is held open by one worker thread that entered it with `unshare(2)`. However the
//! process ends (exit, panic, signal, `kill -9`), the thread ends with it, and the kernel then removes the namespace with all its
//! interfaces, routes, rules and sockets. No later clean-up is needed.
#![allow(unsafe_code, reason = "pre_exec runs a closure between fork and exec")]

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Why a namespace could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// `unshare(CLONE_NEWNET)` was refused.
    #[error("cannot create a network namespace ({0}): run as root, for example with sudo")]
    Unshare(io::Error),
    /// The thread that holds the namespace has ended or could not start.
    #[error("the thread holding namespace '{0}' is gone: this is a bug, its panic message is above")]
    WorkerGone(String),
    /// A kernel setting was refused.
    #[error("cannot write '{value}' to {path} ({error}): the namespace needs it; is /proc/sys mounted read-only?")]
    Sysctl {
        /// File under `/proc/sys`.
        path: String,
        /// The value to write.
        value: String,
        /// The kernel's answer.
        error: io::Error,
    },
}

type Job = Box<dyn FnOnce() + Send>;

/// An owned network namespace.
#[derive(Debug)]
pub struct Netns {
    name: String,
    path: PathBuf,
    // Both are `Some` until drop, which closes the queue first and then waits for the worker.
    jobs: Option<Sender<Job>>,
    worker: Option<JoinHandle<()>>,
}

impl Netns {
    /// A new, empty namespace with its loopback interface down. `name` is for messages and thread names only.
    pub fn new(name: &str) -> Result<Self, NetnsError> {
        let gone = || NetnsError::WorkerGone(name.to_owned());
        let (jobs, queue): (Sender<Job>, Receiver<Job>) = channel();
        let (ready, outcome) = channel::<Result<PathBuf, io::Error>>();
        let worker = std::thread::Builder::new()
            .name(format!("netns-{name}"))
            .spawn(move || {
                let entered = unshare(CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
                let tid = nix::unistd::gettid();
                let path = PathBuf::from(format!("/proc/{}/task/{tid}/ns/net", std::process::id()));
                let failed = entered.is_err();
                if ready.send(entered.map(|()| path)).is_err() || failed {
                    return;
                }
                for job in queue {
                    job();
                }
            })
            .map_err(NetnsError::Unshare)?;
        let path = outcome.recv().map_err(|_| gone())?.map_err(NetnsError::Unshare)?;
        Ok(Self { name: name.to_owned(), path, jobs: Some(jobs), worker: Some(worker) })
    }

    /// The name given at creation.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A path that names this namespace for tools such as `ip link ... netns PATH` or `nsenter --net=PATH`.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Opens a handle that keeps the namespace alive even after `self` is dropped.
    pub fn handle(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Runs `work` inside the namespace and waits for its result.
    ///
    /// Sockets and TUN devices that `work` opens belong to the namespace wherever they are used afterwards, and threads that it spawns stay
    /// inside. Jobs run in order, one at a time, so a job must not block long.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, NetnsError> {
        let gone = || NetnsError::WorkerGone(self.name.clone());
        let (done, result) = channel();
        let jobs = self.jobs.as_ref().ok_or_else(gone)?;
        jobs.send(Box::new(move || {
            // The caller waits below, so the receiver exists.
            let _ = done.send(work());
        }))
        .map_err(|_| gone())?;
        result.recv().map_err(|_| gone())
    }

    /// Starts `command` inside the namespace, in its own process group.
    ///
    /// The child gets `on_death` when the namespace's owner ends for whatever reason, so no child outlives this process; a terminal's
    /// Ctrl-C reaches only the owner, which ends its children in order.
    pub fn spawn(&self, mut command: Command, on_death: ChildEnd) -> Result<io::Result<Child>, NetnsError> {
        command.process_group(0);
        self.spawn_in_front(command, on_death)
    }

    /// The same in the process group of the namespace's owner: it may read the terminal, and Ctrl-C reaches both.
    pub fn spawn_in_front(&self, mut command: Command, on_death: ChildEnd) -> Result<io::Result<Child>, NetnsError> {
        let signal = match on_death {
            ChildEnd::Kill => Signal::SIGKILL,
            ChildEnd::Terminate => Signal::SIGTERM,
        };
        self.run(move || {
            // SAFETY: prctl(2) is async-signal-safe and touches no memory of the parent.
            unsafe { command.pre_exec(move || set_pdeathsig(signal).map_err(io::Error::from)) };
            command.spawn()
        })
    }

    /// Writes a network setting, such as `("net/ipv4/ip_forward", "1")`, inside the namespace.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), NetnsError> {
        let path = format!("/proc/sys/{key}");
        let (file, text) = (path.clone(), value.to_owned());
        self.run(move || std::fs::write(file, text))?.map_err(|error| NetnsError::Sysctl {
            path,
            value: value.to_owned(),
            error,
        })
    }
}

/// What happens to a child when the namespace's owner dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildEnd {
    /// SIGKILL: tools without state.
    Kill,
    /// SIGTERM: daemons that clean up when asked to end.
    Terminate,
}

impl Drop for Netns {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(worker) = self.worker.take() {
            // A worker that panicked has already reported it on stderr.
            let _ = worker.join();
        }
    }
}

/// Asks our child process `pid` to end in order (SIGTERM).
pub fn terminate(child: &Child) -> io::Result<()> {
    signal(child, Signal::SIGTERM)
}

/// Asks a child that [`Netns::spawn`] started, and what it has started since, to end in order (SIGTERM).
pub fn terminate_group(child: &Child) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), Signal::SIGTERM).map_err(io::Error::from)
}

/// Asks any process to end in order (SIGTERM).
pub fn terminate_process(pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).map_err(io::Error::from)
}

fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).map_err(io::Error::from)
}

/// Whether this process may create network namespaces and devices (effective CAP_NET_ADMIN and CAP_SYS_ADMIN).
pub fn may_administer_network() -> bool {
    const CAP_NET_ADMIN: u32 = 12;
    const CAP_SYS_ADMIN: u32 = 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let wanted = (1u64 << CAP_NET_ADMIN) | (1u64 << CAP_SYS_ADMIN);
    bits & wanted == wanted
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn allowed() -> bool {
        let yes = may_administer_network();
        if !yes {
            eprintln!("SKIPPED (needs root): network namespace tests");
        }
        yes
    }

    #[test]
    fn work_runs_inside_and_the_caller_stays_outside() {
        if !allowed() {
            return;
        }
        let inode = |path: &str| std::fs::metadata(path).unwrap().ino();
        let before = inode("/proc/thread-self/ns/net");
        let ns = Netns::new("t-inside").unwrap();
        let inside = ns.run(move || inode("/proc/thread-self/ns/net")).unwrap();
        assert_ne!(inside, before);
        assert_eq!(inode("/proc/thread-self/ns/net"), before);
        ns.sysctl("net/ipv4/ip_forward", "1").unwrap();
        let read = |ns: &Netns| ns.run(|| std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap()).unwrap();
        assert_eq!(read(&ns).trim(), "1");
        assert!(matches!(ns.sysctl("net/ipv4/no_such_key", "1"), Err(NetnsError::Sysctl { .. })));
        let other = Netns::new("t-other").unwrap();
        assert_eq!(read(&other).trim(), "0", "a setting must not leak into another namespace");
    }

    #[test]
    fn a_child_ends_with_the_namespace() {
        if !allowed() {
            return;
        }
        let ns = Netns::new("t-child").unwrap();
        let mut command = Command::new("sleep");
        command.arg("30");
        let mut child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let inode = std::fs::metadata(ns.path()).unwrap().ino();
        let theirs = std::fs::metadata(format!("/proc/{}/ns/net", child.id())).unwrap().ino();
        assert_eq!(inode, theirs);
        drop(ns);
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
