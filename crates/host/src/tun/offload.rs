//! A TUN interface that exchanges super-packets with the kernel.
#![allow(unsafe_code, reason = "TUNSETOFFLOAD and writev are system calls without a safe wrapper here")]

use super::header::{VNET_LEN, VnetHeader};
use super::merge::Merger;
use super::plain::{TunError, open};
use super::split::split;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

// linux/if_tun.h
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;
const TSO: libc::c_uint = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
/// The longest packet, and the kernel's header before it.
const READ_ROOM: usize = VNET_LEN + 65_535;

/// Counters. Packets are of at most one MTU; reads and writes are system calls.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Packets received from the kernel.
    pub packets_in: u64,
    /// Reads needed for them.
    pub reads: u64,
    /// Packets accepted by the kernel.
    pub packets_out: u64,
    /// Writes needed for them.
    pub writes: u64,
    /// Packets with contradictory headers.
    pub malformed: u64,
    /// Writes that the kernel refused.
    pub refused: u64,
}

/// The interface. It exists in the network namespace of the thread that opened it and vanishes on drop.
#[derive(Debug)]
pub struct OffloadTun {
    file: File,
    name: String,
    /// Whether packets carry the kernel's header; without it, every call transfers one packet.
    vnet: bool,
    udp: bool,
    read: Vec<u8>,
    scratch: Vec<u8>,
    merger: Merger,
    counts: Counts,
}

impl OffloadTun {
    /// Creates the interface `name`, non-blocking; with `offload`, with as many offloads as the kernel supports.
    pub fn open(name: &str, offload: bool) -> Result<Self, TunError> {
        let file = open(name, if offload { libc::IFF_VNET_HDR } else { 0 })?;
        let refused = |e| TunError::Create(name.to_owned(), e);
        let mut udp = false;
        if offload {
            // USO was added in Linux 6.2; without it UDP arrives one datagram at a time.
            udp = set_offload(&file, TSO | TUN_F_USO4 | TUN_F_USO6).is_ok();
            if !udp {
                set_offload(&file, TSO).map_err(refused)?;
            }
        }
        Ok(Self {
            file,
            name: name.to_owned(),
            vnet: offload,
            udp,
            read: vec![0; READ_ROOM],
            scratch: Vec::new(),
            merger: Merger::default(),
            counts: Counts::default(),
        })
    }
    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Whether UDP datagrams also come as super-packets.
    pub fn has_udp_offload(&self) -> bool {
        self.udp
    }
    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
    /// Reads at most `reads_max` packets or super-packets and passes the packets in them to `take`, with complete checksums. Returns
    /// whether nothing is left.
    pub fn receive(&mut self, reads_max: usize, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        for _ in 0..reads_max {
            let len = match (&self.file).read(&mut self.read) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            self.counts.reads += 1;
            let (header, packet) = self.read[..len].split_at_mut(if self.vnet { VNET_LEN.min(len) } else { 0 });
            let about = if self.vnet { VnetHeader::parse(header) } else { Some(VnetHeader::default()) };
            let split = about.map(|about| split(about, packet, &mut self.scratch, &mut take));
            match split {
                Some(Ok(packets)) => self.counts.packets_in += packets as u64,
                _ => self.counts.malformed += 1,
            }
        }
        Ok(false)
    }
    /// Passes one packet to the kernel, as if it had arrived on the interface, at the latest with [`OffloadTun::flush`]. Consecutive TCP
    /// segments of one flow are merged.
    pub fn queue(&mut self, packet: &[u8]) {
        self.counts.packets_out += 1;
        let (file, vnet, counts) = (&self.file, self.vnet, &mut self.counts);
        let mut write = |about: VnetHeader, bytes: &[u8]| put(file, vnet, about, bytes, counts);
        if vnet {
            self.merger.push(packet, &mut write);
        } else {
            write(VnetHeader::default(), packet);
        }
    }
    /// Passes all waiting packets to the kernel.
    pub fn flush(&mut self) {
        let (file, vnet, counts) = (&self.file, self.vnet, &mut self.counts);
        self.merger.flush(&mut |about, bytes| put(file, vnet, about, bytes, counts));
    }
}

/// Writes one packet or super-packet. The kernel's queue is unbounded; it refuses only what it cannot use, such as anything while the
/// interface is down.
fn put(mut file: &File, vnet: bool, about: VnetHeader, bytes: &[u8], counts: &mut Counts) {
    let header = about.bytes();
    let parts = [IoSlice::new(if vnet { &header } else { &[] }), IoSlice::new(bytes)];
    counts.writes += 1;
    if file.write_vectored(&parts).is_err() {
        counts.refused += 1;
    }
}

fn set_offload(file: &File, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its flags by value.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(flags)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl AsFd for OffloadTun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
#[path = "offload_tests.rs"]
mod tests;
