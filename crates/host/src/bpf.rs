//! Programs that links of BPF put where packets pass: no list of rules, filters or XDP shows them.
#![allow(unsafe_code, reason = "bpf(2) has no safe wrapper here")]

use std::io;

/// Programs that are named of one place; the kernel allows 64 (BPF_MPROG_MAX, kernel/bpf/mprog.c).
const NAMED_MAX: usize = 64;
/// BPF_PROG_QUERY (linux/bpf.h, as all below).
const QUERY: libc::c_int = 16;

/// Where a program stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ProgramPlace {
    /// What comes by a device (BPF_TCX_INGRESS).
    Ingress = 46,
    /// What leaves by it (BPF_TCX_EGRESS).
    Egress = 47,
}

/// The part of `union bpf_attr` that a query reads and writes.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    place: u32,
    flags: u32,
    attached: u32,
    programs: u64,
    count: u32,
    pad: u32,
    /// Flags of each program, links and theirs, and the revision, which are not asked for.
    unused: [u64; 4],
}

/// The numbers of the programs at one end of a device (tcx), in their order. Needs CAP_NET_ADMIN and Linux 6.6.
pub fn at_device(index: u32, place: ProgramPlace) -> io::Result<Vec<u32>> {
    let mut programs = [0u32; NAMED_MAX];
    let mut query = Query {
        target: index,
        place: place as u32,
        programs: programs.as_mut_ptr() as u64,
        count: NAMED_MAX as u32,
        ..Query::default()
    };
    let len = size_of::<Query>();
    // SAFETY: the kernel reads and writes `len` octets of `query`, which is live, and writes at most `count` numbers into `programs`, which is
    // live and has room for them.
    match unsafe { libc::syscall(libc::SYS_bpf, QUERY, &raw mut query, len) } {
        0 => Ok(programs[..(query.count as usize).min(NAMED_MAX)].to_vec()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    /// BPF_PROG_LOAD and BPF_LINK_CREATE.
    const LOAD: libc::c_int = 5;
    const LINK: libc::c_int = 28;
    /// BPF_PROG_TYPE_SCHED_CLS.
    const OF_DEVICES: u32 = 3;

    fn made<T>(what: libc::c_int, of: &T) -> io::Result<OwnedFd> {
        // SAFETY: `of` is live and of the stated length, and so is what it points at.
        let fd = unsafe { libc::syscall(libc::SYS_bpf, what, &raw const *of, size_of::<T>()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    #[test]
    fn programs_of_links_are_seen_while_they_stand() {
        if !may_administer_network() {
            println!("SKIPPED (not root): programs of links");
            return;
        }
        let seen = Netns::new("bpf").unwrap().run(|| {
            let index = crate::interface_index("lo").unwrap();
            let at = |place| at_device(index, place);
            if let Err(e) = at(ProgramPlace::Ingress) {
                println!("SKIPPED (this kernel has no tcx: {e}): programs of links");
                return None;
            }
            assert_eq!(at(ProgramPlace::Ingress).unwrap(), []);
            // r0 = 2 (TC_ACT_SHOT); exit
            let code = [0x0000_0002_0000_00b7u64, 0x95];
            let program = [OF_DEVICES as u64 | 2 << 32, code.as_ptr() as u64, c"GPL".as_ptr() as u64, 0, 0, 0, 0, 0, 0];
            let program = match made(LOAD, &program) {
                Ok(program) => program,
                Err(e) => {
                    println!("SKIPPED (no program may be loaded: {e}): programs of links");
                    return None;
                }
            };
            let link = [program.as_raw_fd() as u32, index, ProgramPlace::Ingress as u32, 0, 0, 0, 0, 0, 0, 0];
            let link = made(LINK, &link).unwrap();
            let stands = at(ProgramPlace::Ingress).unwrap();
            let other = at(ProgramPlace::Egress).unwrap();
            drop(link);
            Some((stands.len(), other.len(), at(ProgramPlace::Ingress).unwrap().len()))
        });
        if let Some(seen) = seen.unwrap() {
            assert_eq!(seen, (1, 0, 0));
        }
    }
}
