//! The far end of a veth pair as a driver's ring (macvtap): what waits there still counts as waiting in the socket that sent it.
//!
//! A TUN device takes a packet from its socket at once (the kernel's `tun_net_xmit`); here it goes when it is read, as where a radio's
//! driver has sent it, so that SIOCOUTQ and a socket's limits mean what they mean there.
#![allow(unsafe_code, reason = "TUNSETIFF is an ioctl")]

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Octets of an Ethernet header: addresses and type (IEEE 802.3, 3.1).
const HEADER: usize = 14;
/// IPv4's type (RFC 894).
const IPV4: [u8; 2] = [0x08, 0x00];

/// The ring, which ends with its device.
#[derive(Debug)]
pub struct Tap {
    file: File,
    header: [u8; HEADER],
}

impl Tap {
    /// Opens the macvtap `interface`, whose character device is `device`, by a node at `node`, which is removed again. `neighbour` is the
    /// address of the pair's other end. Needs CAP_MKNOD.
    pub fn open(node: &Path, (major, minor): (u64, u64), interface: &str, neighbour: [u8; 6]) -> io::Result<Self> {
        mknod(node, SFlag::S_IFCHR, Mode::S_IRUSR | Mode::S_IWUSR, makedev(major, minor))?;
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(node);
        let _ = std::fs::remove_file(node);
        let file = file?;
        // SAFETY: an all-zero ifreq is a valid value of that C struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (slot, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *slot = byte as libc::c_char;
        }
        // Both fit into 16 bits (linux/if_tun.h).
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: `request` outlives the call, and TUNSETIFF reads and writes one ifreq.
        if unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut header = [0; HEADER];
        header[..6].copy_from_slice(&neighbour);
        header[6..12].copy_from_slice(&neighbour);
        header[12..].copy_from_slice(&IPV4);
        Ok(Self { file, header })
    }

    /// Reads one IPv4 packet; `None` when nothing is waiting.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(buf) {
            Ok(len) if len > HEADER && buf[12..HEADER] == IPV4 => {
                buf.copy_within(HEADER..len, 0);
                Ok(Some(len - HEADER))
            }
            // Nothing else is sent where ARP and IPv6 are off.
            Ok(_) => Ok(None),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Passes one packet to the neighbour.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        (&self.file).write_vectored(&[IoSlice::new(&self.header), IoSlice::new(packet)]).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether this process may make the node of such a device in `folder`.
pub fn may_open(folder: &Path) -> bool {
    // The null device, which every system has.
    let node = folder.join("null");
    let made = mknod(&node, SFlag::S_IFCHR, Mode::S_IRUSR, makedev(1, 3)).is_ok();
    let opened = made && File::open(&node).is_ok();
    let _ = std::fs::remove_file(&node);
    opened
}
