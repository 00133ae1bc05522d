//! A lane's packet socket: datagrams directly in Ethernet frames, without IP, ARP or routes.
//!
//! Short frames are padded to the medium's minimum length, so a datagram is preceded by its length.
#![allow(unsafe_code, reason = "packet sockets and their addresses have no safe wrapper")]

use crate::media::udp::ancillary::{Ancillary, CONTROL_ROOM, Control};
use crate::media::udp::stamps::{Reading, Stamps};
use crate::media::udp::{Datagram, SOCKET_BUFFER, Sent, set_int};
use nix::net::if_::if_nametoindex;
use socket2::{Domain, Socket, Type};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use wavelane_base::{Address, Carrier, Ecn};

/// The EtherType of our frames: the first for local experiments (IEEE Std 802-2014, section 9.2.4).
pub const ETHERTYPE: u16 = 0x88b5;
/// Bytes before a datagram in a frame: its length.
const LENGTH_OCTETS: usize = 2;
/// The longest accepted frame payload.
const FRAME_ROOM: usize = 9_216;
/// Frames read in one call.
const FRAMES: usize = 16;

/// Added by the kernel to a user priority (IEEE Std 802.1D-2004, annex G) so that Wi-Fi uses it unchanged: for a packet socket's frames it
/// reads the priority from nowhere else (`cfg80211_classify8021d`).
const WIFI_PRIORITY: libc::c_int = 256;
/// The highest user priority.
pub const PRIORITY_MAX: u8 = 7;

/// What it does to a datagram: the length before it. A station takes 1,500 octets as every Ethernet device does, so 576 pass.
pub const CARRIER: Carrier =
    Carrier { overhead: LENGTH_OCTETS, mtu_floor: 576, mtu_max: FRAME_ROOM, batch: FRAME_ROOM, radio: None };

/// A station's address.
pub type Mac = [u8; 6];

/// The socket, bound to one device.
pub struct EtherLane {
    socket: Socket,
    index: libc::c_int,
    buffer: Vec<u8>,
    stamps: Stamps,
}

impl EtherLane {
    /// Opens the socket (needs CAP_NET_RAW). It receives only frames of our EtherType to this device's address, and sends with this user
    /// priority, from 0 to [`PRIORITY_MAX`]: on Wi-Fi it selects the access category, on a VLAN its egress map may put it into the tag.
    pub fn open(device: &str, priority: u8) -> io::Result<Self> {
        let index = libc::c_int::try_from(if_nametoindex(device)?).map_err(|_| io::ErrorKind::InvalidInput)?;
        // With protocol zero it receives nothing before it is bound.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM.cloexec().nonblocking(), None)?;
        socket.set_recv_buffer_size(SOCKET_BUFFER)?;
        socket.set_send_buffer_size(SOCKET_BUFFER)?;
        set_int(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        if priority > 0 {
            let priority = WIFI_PRIORITY + libc::c_int::from(priority.min(PRIORITY_MAX));
            set_int(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)?;
        }
        let name = station(index, Mac::default());
        // SAFETY: `name` is a sockaddr_ll of that length, which the kernel only reads.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), name_len()) };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { socket, index, buffer: vec![0; FRAME_ROOM], stamps: Stamps::new(Reading::take()) })
    }
    /// The index of its device.
    pub fn index(&self) -> u32 {
        self.index.unsigned_abs()
    }
    /// Reads a few waiting frames, passes the datagram of each to `take`, and returns their number.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        for got in 0..FRAMES {
            let mut name = station(0, Mac::default());
            let mut control = Control([0; CONTROL_ROOM]);
            let mut iov = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
            // SAFETY: all-zero is a valid value of this C structure.
            let mut header: libc::msghdr = unsafe { mem::zeroed() };
            header.msg_name = (&raw mut name).cast();
            header.msg_namelen = name_len();
            header.msg_iov = &raw mut iov;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = CONTROL_ROOM as _;
            // SAFETY: every pointer set above refers to memory that outlives the call and is of the stated length.
            let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
            let Ok(len) = usize::try_from(len) else {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(error);
                }
                self.stamps.drained();
                return Ok(got);
            };
            self.stamps.read(Reading::take());
            let waited = self.stamps.waited(Ancillary::of(&header).stamp);
            let whole = header.msg_flags & libc::MSG_TRUNC == 0 && name.sll_halen == 6;
            let Some(bytes) = whole.then(|| datagram_of(&mut self.buffer[..len])).flatten() else { continue };
            let [a, b, c, d, e, f, ..] = name.sll_addr;
            let from = Address::Station([a, b, c, d, e, f]);
            take(Datagram { bytes, segment: None, from, at: None, ecn: Ecn::NotEct, waited });
        }
        Ok(FRAMES)
    }
    /// Passes `bytes` to the kernel: one datagram, or several of `segment` bytes each, of which the last may be shorter. Only a
    /// station's address is valid on this medium.
    pub fn send(&mut self, bytes: &[u8], segment: Option<u16>, to: Address) -> Sent {
        let size = segment.map_or(bytes.len(), usize::from).max(1);
        let Address::Station(mac) = to else {
            return Sent { done: bytes.len(), lost: bytes.chunks(size).count() as u64, ..Sent::default() };
        };
        let mut sent = Sent::default();
        for datagram in bytes.chunks(size) {
            match self.offer(datagram, mac) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return sent,
                Err(e) if crate::media::udp::is_too_big(&e) => sent.too_big += 1,
                Err(_) => sent.lost += 1,
            }
            sent.done += datagram.len();
        }
        sent
    }
    fn offer(&self, datagram: &[u8], mac: Mac) -> io::Result<()> {
        let Ok(length) = u16::try_from(datagram.len()) else { return Err(io::ErrorKind::InvalidInput.into()) };
        let (length, name) = (length.to_be_bytes(), station(self.index, mac));
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut parts = [part(&length), part(datagram)];
        // SAFETY: all-zero is a valid value of this C structure.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = (&raw const name).cast_mut().cast();
        header.msg_namelen = name_len();
        header.msg_iov = parts.as_mut_ptr();
        header.msg_iovlen = parts.len() as _;
        // SAFETY: `header` points at live memory of the stated lengths; the kernel does not write to it.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if sent >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Whether an error means that no packet socket can be opened at all: a filter of address families on this process, or a kernel without
/// packet sockets. A missing permission does not count.
pub fn is_forbidden(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

/// Whether this process can open packet sockets, apart from the permission.
pub fn is_available() -> bool {
    Socket::new(Domain::PACKET, Type::DGRAM.cloexec(), None).err().is_none_or(|error| !is_forbidden(&error))
}

impl AsFd for EtherLane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The datagram in a frame's payload, if it is complete.
fn datagram_of(payload: &mut [u8]) -> Option<&mut [u8]> {
    let (length, rest) = payload.split_at_mut_checked(LENGTH_OCTETS)?;
    rest.get_mut(..usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// A station on a device, as the kernel writes it (packet(7)).
fn station(index: libc::c_int, mac: Mac) -> libc::sockaddr_ll {
    // SAFETY: all-zero is a valid value of this C structure.
    let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
    name.sll_family = libc::AF_PACKET as _;
    name.sll_protocol = ETHERTYPE.to_be();
    name.sll_ifindex = index;
    name.sll_halen = 6;
    name.sll_addr[..6].copy_from_slice(&mac);
    name
}

fn name_len() -> libc::socklen_t {
    mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::netns::{Netns, may_administer_network};

    const A: Mac = [2, 0, 0, 0, 0, 0xa];
    const B: Mac = [2, 0, 0, 0, 0, 0xb];

    #[test]
    fn a_frames_length_field_is_bounded_by_the_frame() {
        assert_eq!(datagram_of(&mut [0, 2, 7, 8, 0, 0]), Some(&mut [7, 8][..]), "padding is left out");
        assert_eq!(datagram_of(&mut [0, 3, 7, 8]), None);
        assert_eq!(datagram_of(&mut [0]), None);
        assert_eq!(datagram_of(&mut []), None);
        assert_eq!(datagram_of(&mut [0, 0, 9]), Some(&mut [][..]));
    }

    /// Waits until the kernel has set up the queues of a device: a busy machine does so later, and until then drops what is sent.
    fn wait_for_device(name: &str) {
        let is_up = || {
            let out = std::process::Command::new("ip").args(["link", "show", name]).output().unwrap();
            String::from_utf8_lossy(&out.stdout).contains("state UP")
        };
        for _ in 0..500 {
            if is_up() {
                return;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        panic!("{name} does not come up");
    }

    /// Reads until `datagrams` have come: a veth pair hands over in a softirq, which a busy machine defers.
    fn received(lane: &mut EtherLane, datagrams: usize) -> Vec<(Vec<u8>, Address)> {
        let mut got = Vec::new();
        for _ in 0..5_000 {
            lane.receive(|d| got.push((d.bytes.to_vec(), d.from))).unwrap();
            if got.len() >= datagrams {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        got
    }

    #[test]
    fn datagrams_of_every_length_cross_a_veth_pair_without_ip() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): Ethernet lanes test");
            return;
        }
        let ns = Netns::new("t-ether").unwrap();
        ns.run(|| {
            for line in [
                "link add e0 address 02:00:00:00:00:0a type veth peer name e1 address 02:00:00:00:00:0b",
                "link set e0 up",
                "link set e1 up",
            ] {
                assert!(std::process::Command::new("ip").args(line.split(' ')).status().unwrap().success(), "{line}");
            }
            ["e0", "e1"].iter().for_each(|name| wait_for_device(name));
            let (mut a, mut b) = (EtherLane::open("e0", 0).unwrap(), EtherLane::open("e1", 0).unwrap());
            assert!(EtherLane::open("none", 0).is_err());
            for len in [1, 40, 44, 45, 1_000, 1_498] {
                let bytes = vec![len as u8; len];
                let sent = a.send(&bytes, None, Address::Station(B));
                assert_eq!(sent, Sent { done: len, ..Sent::default() });
                assert_eq!(received(&mut b, 1), [(bytes, Address::Station(A))]);
            }
            assert_eq!(b.receive(|_| panic!("nothing came")).unwrap(), 0);
            // Several at once, one too long for the medium, and an address of another medium.
            assert_eq!(a.send(&[1; 250], Some(100), Address::Station(B)).done, 250);
            let lengths: Vec<usize> = received(&mut b, 3).iter().map(|(bytes, _)| bytes.len()).collect();
            assert_eq!(lengths, [100, 100, 50]);
            assert_eq!(a.send(&[1; 1_499], None, Address::Station(B)).too_big, 1);
            assert_eq!(a.send(&[1; 9], None, "192.0.2.1:4780".parse().unwrap()).lost, 1);
        })
        .unwrap();
    }

    #[test]
    fn frames_carry_their_lanes_priority() {
        if !may_administer_network() {
            eprintln!("SKIPPED (needs root): Ethernet priorities test");
            return;
        }
        let ns = Netns::new("t-ether-prio").unwrap();
        ns.run(|| {
            let sh = |line: &str| {
                let out = std::process::Command::new("sh").args(["-c", line]).output().unwrap();
                assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
                String::from_utf8_lossy(&out.stdout).into_owned()
            };
            sh("ip link add e0 type veth peer name e1 address 02:00:00:00:00:0b; ip link set e0 up; ip link set e1 up");
            wait_for_device("e0");
            // nft writes a priority as a class of tc: 0x106 is 256 and 6.
            sh("nft 'table netdev t { chain e { type filter hook egress device e0 priority 0; ether type 0x88b5 jump c; }; \
                chain c { meta priority 0:106 counter comment \"six\"; meta priority 0:0 counter comment \"none\"; }; }'");
            for (priority, frames) in [(6, 3), (0, 2)] {
                let mut lane = EtherLane::open("e0", priority).unwrap();
                (0..frames).for_each(|_| assert_eq!(lane.send(&[1; 100], None, Address::Station(B)).done, 100));
            }
            let seen = sh("nft list table netdev t");
            let packets = |comment: &str| {
                let line = seen.lines().find(|line| line.contains(comment)).unwrap();
                line.split("packets ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
            };
            assert_eq!((packets("six"), packets("none")), ("3".into(), "2".into()), "{seen}");
        })
        .unwrap();
    }
}
