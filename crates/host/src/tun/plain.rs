//! TUN devices without offloads: one plain IP packet per read and write.
#![allow(unsafe_code, reason = "TUNSETIFF is an ioctl")]

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The device used to create TUN interfaces.
pub const TUN_CONTROL: &str = "/dev/net/tun";

/// Whether this process may open the device; a user without privileges may where the distribution lets everybody.
pub fn may_open() -> bool {
    OpenOptions::new().read(true).write(true).open(Path::new(TUN_CONTROL)).is_ok()
}

/// Longest interface name, without the terminating zero (IFNAMSIZ - 1).
pub const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Why a TUN device could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The control device is missing or not accessible.
    #[error("cannot open /dev/net/tun ({0}): load the tun module (modprobe tun) and run as root")]
    Control(io::Error),
    /// The kernel refused the interface.
    #[error("cannot create TUN interface '{0}' ({1}): run as root and choose a name that is not in use")]
    Create(String, io::Error),
    /// The name does not fit into the kernel's field.
    #[error("interface name '{0}' is longer than 15 bytes or empty: choose a shorter one")]
    Name(String),
}

/// A TUN interface. It exists in the network namespace of the thread that opened it and vanishes on drop.
#[derive(Debug)]
pub struct Tun {
    file: File,
    name: String,
}

impl Tun {
    /// Creates the interface `name`, non-blocking, without packet-information or virtio headers and without
    /// offloads: packets arrive with complete checksums and at most one MTU long.
    pub fn open(name: &str) -> Result<Self, TunError> {
        Ok(Self { file: open(name, 0)?, name: name.to_owned() })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one packet; `None` when nothing is waiting. A packet longer than `buf` is truncated by the kernel.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buf) {
            Ok(len) => Ok(Some(len)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Passes one packet to the kernel as if it had arrived on the interface.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write(packet).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens the interface with `more` flags in addition to those of a plain one.
pub(super) fn open(name: &str, more: libc::c_int) -> Result<File, TunError> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(TunError::Name(name.to_owned()));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(Path::new(TUN_CONTROL))
        .map_err(TunError::Control)?;
    // SAFETY: an all-zero ifreq is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *slot = byte as libc::c_char;
    }
    // All of them fit into 16 bits (linux/if_tun.h).
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | more) as libc::c_short;
    // SAFETY: `request` outlives the call, and TUNSETIFF reads and writes one ifreq.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
        return Err(TunError::Create(name.to_owned(), io::Error::last_os_error()));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};
    use crate::realtime;
    use std::net::UdpSocket;
    use std::process::Command;
    use wavelane_base::Span;

    #[test]
    fn packets_pass_both_ways_inside_the_namespace() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): TUN test");
            return;
        }
        let ns = Netns::new("t-tun").unwrap();
        let tun = ns.run(|| Tun::open("wl-test0")).unwrap().unwrap();
        let socket = ns
            .run(|| {
                for line in ["link set wl-test0 up", "addr add 10.9.0.1/30 dev wl-test0"] {
                    assert!(Command::new("ip").args(line.split(' ')).status().unwrap().success());
                }
                UdpSocket::bind("10.9.0.1:7000").unwrap()
            })
            .unwrap();
        socket.send_to(b"hello", "10.9.0.2:9").unwrap();
        let mut buf = [0; 2048];
        let deadline = realtime::now() + Span::from_secs(5);
        // The kernel also sends IPv6 router solicitations, so look for ours.
        let len = loop {
            assert!(realtime::now() < deadline, "no packet within 5 s");
            match tun.read(&mut buf).unwrap() {
                Some(len) if buf[0] >> 4 == 4 => break len,
                Some(_) => {}
                None => drop(realtime::wait(&[tun.as_fd()], deadline).unwrap()),
            }
        };
        assert_eq!(len, 33);
        assert_eq!(&buf[28..33], b"hello");
        // With source and destination swapped, the packet is an answer from 10.9.0.2:9; sums over swapped fields are unchanged.
        let (src, dst): ([u8; 4], [u8; 4]) = (buf[12..16].try_into().unwrap(), buf[16..20].try_into().unwrap());
        buf[12..16].copy_from_slice(&dst);
        buf[16..20].copy_from_slice(&src);
        let (sport, dport): ([u8; 2], [u8; 2]) = (buf[20..22].try_into().unwrap(), buf[22..24].try_into().unwrap());
        buf[20..22].copy_from_slice(&dport);
        buf[22..24].copy_from_slice(&sport);
        tun.write(&buf[..len]).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let mut answer = [0; 64];
        let (len, from) = socket.recv_from(&mut answer).unwrap();
        assert_eq!((&answer[..len], from.to_string().as_str()), (&b"hello"[..], "10.9.0.2:9"));
    }

    #[test]
    fn a_name_the_kernel_would_cut_is_refused() {
        assert!(matches!(Tun::open("a-name-far-too-long"), Err(TunError::Name(_))));
        assert!(matches!(Tun::open(""), Err(TunError::Name(_))));
    }
}
