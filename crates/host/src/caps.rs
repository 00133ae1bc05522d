//! The two capabilities the transparent door needs.
#![allow(unsafe_code, reason = "capset and the ambient prctl have no safe wrapper")]

/// CAP_NET_ADMIN (linux/capability.h): transparent sockets, marks, rules, queues.
pub const NET_ADMIN: u8 = 12;
/// CAP_NET_RAW (linux/capability.h): packets written whole.
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

/// Hands `capabilities` (numbers below 32) on to the programs we start (`nft`, `ip`, `iptables`), which file
/// capabilities on our own binary would not do.
pub fn pass_on(capabilities: &[u8]) -> std::io::Result<()> {
    let mut data = get()?;
    for c in capabilities {
        data[0].inheritable |= 1 << c;
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    // SAFETY: version 3 reads exactly two `Data`; both pointers are live.
    if unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    for c in capabilities {
        let c = libc::c_ulong::from(*c);
        // SAFETY: this prctl takes integers only.
        if unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, c, 0, 0) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Raises the soft limit on open files to the hard one: every connection is a descriptor.
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

#[cfg(test)]
mod tests {
    use super::*;

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
