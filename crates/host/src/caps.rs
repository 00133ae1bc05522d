//! The two capabilities that the transparent door needs, and dropping all others.
#![allow(unsafe_code, reason = "capset and the prctls about capabilities have no safe wrapper")]

/// CAP_NET_ADMIN (linux/capability.h): transparent sockets, marks, rules, queues.
pub const NET_ADMIN: u8 = 12;
/// CAP_NET_RAW (linux/capability.h): packets with headers written by us.
pub const NET_RAW: u8 = 13;

const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

fn get() -> std::io::Result<[Data; 2]> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut data = [Data::default(); 2];
    // SAFETY: version 3 writes exactly two `Data`; both pointers are live and writable.
    match unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) } {
        0 => Ok(data),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Whether this process holds `capability` (a number below 32).
pub fn has(capability: u8) -> bool {
    get().is_ok_and(|d| d[0].effective & (1 << capability) != 0)
}

fn set(data: &[Data; 2]) -> std::io::Result<()> {
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: version 3 reads exactly two `Data`; both pointers are live.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A prctl about one capability, or about none.
fn prctl(option: libc::c_int, which: libc::c_ulong, capability: u8) -> std::io::Result<()> {
    // SAFETY: the prctls used here take integers only.
    match unsafe { libc::prctl(option, which, libc::c_ulong::from(capability), 0, 0) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Passes `capabilities` (numbers below 32) on to the programs we start (`nft`, `ip`, `iptables`), which file capabilities on our own
/// binary would not do.
pub fn pass_on(capabilities: &[u8]) -> std::io::Result<()> {
    let mut data = get()?;
    for c in capabilities {
        data[0].inheritable |= 1 << c;
    }
    set(&data)?;
    const RAISE: libc::c_ulong = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
    capabilities.iter().try_for_each(|c| prctl(libc::PR_CAP_AMBIENT, RAISE, *c))
}

/// Permanently drops every capability but `kept` (numbers below 32): for this thread, the threads and the programs that it starts, whoever
/// owns those programs' files. Call it before other threads exist.
pub fn keep_only(kept: &[u8]) -> std::io::Result<()> {
    const CAPABILITIES_MAX: u8 = 64;
    const SETPCAP: u8 = 8;
    // Without CAP_SETPCAP the bounding set stays, so a set-user-id program could gain more capabilities, were it not for the last step.
    if has(SETPCAP) {
        for c in (0..CAPABILITIES_MAX).filter(|c| !kept.contains(c)) {
            // EINVAL: the kernel knows no higher capabilities.
            if prctl(libc::PR_CAPBSET_DROP, c.into(), 0).is_err() {
                break;
            }
        }
    }
    let mask = kept.iter().fold(0, |mask, c| mask | 1 << c);
    let held = get()?[0].permitted & mask;
    set(&[Data { effective: held, permitted: held, inheritable: held }, Data::default()])?;
    for c in kept.iter().filter(|c| held & (1 << **c) != 0) {
        prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong, *c)?;
    }
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)
}

/// Raises the soft limit on open files to the hard limit: every connection needs a descriptor.
pub fn raise_file_limit() -> std::io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live and writable.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is live.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// How many files this process may have open at once, by its hard limit.
pub fn file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is live and writable.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } {
        0 => limit.rlim_max,
        _ => u64::MAX,
    }
}

/// Whether a call failed because this process or the system has no descriptors or no memory left: an immediate retry fails again.
pub fn is_exhausted(why: &std::io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A line of this thread's status file (proc(5)).
    fn mine(field: &str) -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find_map(|l| l.strip_prefix(field)).unwrap().trim().to_owned()
    }

    #[test]
    fn children_inherit_the_dropped_capabilities() {
        if !crate::is_root() || !has(NET_ADMIN) {
            return eprintln!("SKIPPED (needs root): giving up capabilities");
        }
        // Capabilities are per thread.
        std::thread::spawn(|| {
            keep_only(&[NET_ADMIN]).unwrap();
            let only = format!("{:016x}", 1 << NET_ADMIN);
            for field in ["CapEff:", "CapPrm:", "CapInh:", "CapBnd:", "CapAmb:"] {
                assert_eq!(mine(field), only, "{field}");
            }
            let child = std::process::Command::new("grep").args(["CapEff", "/proc/self/status"]).output().unwrap();
            assert!(String::from_utf8_lossy(&child.stdout).contains(&only));
            assert!(!has(NET_RAW));
            keep_only(&[]).unwrap();
            assert_eq!(mine("CapPrm:"), format!("{:016x}", 0));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_kernel_and_proc_agree_about_our_capabilities() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:")).map(str::trim).unwrap_or("0");
        let bits = u64::from_str_radix(line, 16).unwrap_or(0);
        for c in [NET_ADMIN, NET_RAW, 0, 21] {
            assert_eq!(has(c), bits & (1 << c) != 0, "capability {c}");
        }
    }
}
