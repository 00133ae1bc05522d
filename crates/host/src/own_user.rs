//! A user namespace of this process, so that somebody without privileges may make network namespaces, and names of hosts that only this
//! process and its programs see.

use crate::caps;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::io;
use std::path::Path;

/// Capabilities below 32 (linux/capability.h) over the namespaces made here that the programs started in them get: ports below 1024, devices
/// and routes, raw sockets, entering a namespace by its path, and the clock of a time namespace.
const PASSED_ON: [u8; 6] = [NET_BIND_SERVICE, caps::NET_ADMIN, caps::NET_RAW, SYS_PTRACE, SYS_ADMIN, SYS_TIME];
const NET_BIND_SERVICE: u8 = 10;
const SYS_PTRACE: u8 = 19;
const SYS_ADMIN: u8 = 21;
const SYS_TIME: u8 = 25;
const HOSTS: &str = "/etc/hosts";

/// Enters a user namespace in which this process keeps its user and group, with every capability over the namespaces it makes afterwards and
/// none over the host's. Call it before other threads exist: the kernel refuses it to a process with several.
pub fn enter() -> io::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // user_namespaces(7): without privileges a process maps its own ids only, and its group once setgroups(2) is given up.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    caps::pass_on(&PASSED_ON)
}

/// Shows `text` in the place of `/etc/hosts` to this process and what it starts, and to nobody else. `draft` is a path for a file that is
/// there only meanwhile. Call it before other threads exist.
pub fn hosts(text: &str, draft: &Path) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(draft)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))?;
    let shown = mount(Some(draft), HOSTS, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    // What is mounted stays without its name.
    fs::remove_file(draft)?;
    Ok(shown?)
}
