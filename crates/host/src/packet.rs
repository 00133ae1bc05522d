//! Interface offloads: super-packets and incomplete checksums must not reach an emulated channel.
#![allow(unsafe_code, reason = "SIOCETHTOOL is an ioctl with a pointer inside its argument")]

use std::io;
use std::os::fd::AsRawFd;

/// One switchable offload of an interface (linux/ethtool.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// Checksums completed by the "hardware".
    TxChecksum,
    /// Scatter-gather, a precondition of segmentation offloads.
    ScatterGather,
    /// TCP segmentation.
    Tso,
    /// Generic segmentation.
    Gso,
    /// Generic receive merging.
    Gro,
}

impl Offload {
    /// All of them, in an order in which the kernel accepts switching them off.
    pub const ALL: [Self; 5] = [Self::Gro, Self::Gso, Self::Tso, Self::TxChecksum, Self::ScatterGather];

    fn commands(self) -> (u32, u32) {
        // (get, set), linux/ethtool.h
        match self {
            Self::TxChecksum => (0x16, 0x17),
            Self::ScatterGather => (0x18, 0x19),
            Self::Tso => (0x1e, 0x1f),
            Self::Gso => (0x23, 0x24),
            Self::Gro => (0x2b, 0x2c),
        }
    }
}

#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

fn ethtool(interface: &str, value: &mut EthtoolValue) -> io::Result<()> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
    }
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: an all-zero ifreq is a valid value of that C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *slot = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut *value).cast();
    // SAFETY: the name is zero-terminated, and ifru_data points at an ethtool_value that outlives the call; the commands used here read and
    // write exactly that struct.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Switches an offload of `interface`, in the calling thread's network namespace, on or off.
pub fn set_offload(interface: &str, offload: Offload, on: bool) -> io::Result<()> {
    ethtool(interface, &mut EthtoolValue { cmd: offload.commands().1, data: u32::from(on) })
}

/// Whether an offload of `interface`, in the calling thread's network namespace, is on.
pub fn offload(interface: &str, offload: Offload) -> io::Result<bool> {
    let mut value = EthtoolValue { cmd: offload.commands().0, data: 0 };
    ethtool(interface, &mut value)?;
    Ok(value.data != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};

    #[test]
    fn offloads_of_a_veth_can_be_switched_off() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): offload test");
            return;
        }
        let ns = Netns::new("t-veth").unwrap();
        ns.run(|| {
            let made = std::process::Command::new("ip")
                .args(["link", "add", "v0", "type", "veth", "peer", "name", "v1"])
                .status()
                .unwrap();
            assert!(made.success());
            assert!(offload("v0", Offload::Tso).unwrap(), "veth starts with TSO on");
            for kind in Offload::ALL {
                set_offload("v0", kind, false).unwrap();
                assert!(!offload("v0", kind).unwrap(), "{kind:?}");
            }
            assert!(set_offload("none", Offload::Tso, false).is_err());
        })
        .unwrap();
    }
}
