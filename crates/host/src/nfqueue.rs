//! NFQUEUE: packets that a firewall rule passes to us for a verdict (kernel: nfnetlink_queue).
//!
//! Written here rather than taken from the `nfq` crate because the readiness loop needs the descriptor, children
//! must not inherit it (an inherited queue would outlive us and defeat `--queue-bypass`), and a held packet must
//! cost a few bytes, not a netlink buffer.
#![allow(unsafe_code, reason = "NETLINK_NO_ENOBUFS is set with the raw setsockopt")]

use crate::routes::attribute;
use crate::udp::set_int;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// linux/netfilter/nfnetlink.h and linux/netfilter/nfnetlink_queue.h
const SUBSYSTEM_QUEUE: u16 = 3;
const MSG_PACKET: u16 = 0;
const MSG_VERDICT: u16 = 1;
const MSG_CONFIG: u16 = 2;
const CFG_CMD: u16 = 1;
const CFG_PARAMS: u16 = 2;
const CFG_QUEUE_MAXLEN: u16 = 3;
const CMD_BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const ATTR_PACKET_HDR: u16 = 1;
const ATTR_VERDICT_HDR: u16 = 2;
const ATTR_MARK: u16 = 3;
const ATTR_PAYLOAD: u16 = 10;
const VERDICT_DROP: u32 = 0;
const VERDICT_ACCEPT: u32 = 1;
// linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const NLA_TYPE_MASK: u16 = 0x3fff;
const HEADER: usize = 16;
const GENERIC: usize = 4;

/// Bytes copied of each packet: the longest IPv4 and TCP headers.
const COPY_RANGE: u32 = 120;
/// Maximum number of packets waiting for verdicts; more are dropped.
const QUEUE_LENGTH: u32 = 8_192;
/// Space for one message: attributes and [`COPY_RANGE`] bytes.
const MESSAGE_ROOM: usize = 8_192;

/// A packet waiting in the kernel for its verdict. Dropping this value leaves it waiting; give it to
/// [`NfQueue::accept`] or [`NfQueue::discard`].
#[derive(PartialEq, Eq, Debug)]
pub struct HeldPacket {
    id: u32,
}

/// A received packet: the handle, its firewall mark and the first bytes of its IP header.
#[derive(Debug)]
pub struct Queued {
    /// The handle for the verdict.
    pub held: HeldPacket,
    /// The firewall mark.
    pub mark: u32,
    /// IP header and the bytes after it, up to 120 bytes.
    pub head: Vec<u8>,
}

/// One bound queue.
#[derive(Debug)]
pub struct NfQueue {
    fd: OwnedFd,
    number: u16,
}

fn message(kind: u16, flags: u16, queue: u16, attributes: &[u8]) -> Vec<u8> {
    let total = u32::try_from(HEADER + GENERIC + attributes.len()).expect("messages here are short");
    let mut out = Vec::with_capacity(total as usize);
    out.extend_from_slice(&total.to_ne_bytes());
    out.extend_from_slice(&(SUBSYSTEM_QUEUE << 8 | kind).to_ne_bytes());
    out.extend_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&queue.to_be_bytes());
    out.extend_from_slice(attributes);
    out
}

impl NfQueue {
    /// Binds queue `number` of this network namespace (needs CAP_NET_ADMIN). EBUSY or EPERM: the queue is in use.
    pub fn bind(number: u16) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        set_int(&fd, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1)?;
        let queue = Self { fd, number };
        let mut attributes = Vec::new();
        attribute(&mut attributes, CFG_CMD, &[CMD_BIND, 0, 0, libc::AF_INET as u8]);
        queue.configure(&attributes)?;
        let mut attributes = Vec::new();
        let mut parameters = COPY_RANGE.to_be_bytes().to_vec();
        parameters.push(COPY_PACKET);
        attribute(&mut attributes, CFG_PARAMS, &parameters);
        attribute(&mut attributes, CFG_QUEUE_MAXLEN, &QUEUE_LENGTH.to_be_bytes());
        queue.configure(&attributes)?;
        Ok(queue)
    }
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        sendto(self.fd.as_raw_fd(), bytes, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        Ok(())
    }
    /// Sends a configuration and waits for the kernel's answer, which comes within the call.
    fn configure(&self, attributes: &[u8]) -> io::Result<()> {
        self.send(&message(MSG_CONFIG, NLM_F_ACK, self.number, attributes))?;
        let mut buf = [0; MESSAGE_ROOM];
        loop {
            let n = recv(self.fd.as_raw_fd(), &mut buf, MsgFlags::empty())?;
            if u16_at(&buf[..n], 4) == Some(NLMSG_ERROR) {
                let code = u32_at(&buf[..n], HEADER).map_or(0, |c| c.cast_signed());
                return if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) };
            }
        }
    }
    /// Sets the socket buffer for packets not yet received to `octets`, as the kernel counts them: its default fits only some hundred
    /// packets, however large they are.
    pub fn set_room(&self, octets: usize) -> io::Result<()> {
        let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
        set_int(&self.fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)
    }
    /// The next waiting packet, or `None`.
    pub fn receive(&self) -> io::Result<Option<Queued>> {
        let mut buf = [0; MESSAGE_ROOM];
        loop {
            match recv(self.fd.as_raw_fd(), &mut buf, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => {
                    if let Some(queued) = parse(&buf[..n]) {
                        return Ok(Some(queued));
                    }
                }
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }
    /// Lets the packet pass.
    pub fn accept(&self, held: HeldPacket) -> io::Result<()> {
        self.verdict(held, VERDICT_ACCEPT)
    }
    /// Drops the packet.
    pub fn discard(&self, held: HeldPacket) -> io::Result<()> {
        self.verdict(held, VERDICT_DROP)
    }
    /// Lets the packet pass with this firewall mark.
    pub fn accept_marked(&self, held: HeldPacket, mark: u32) -> io::Result<()> {
        self.judge(held, VERDICT_ACCEPT, Some(mark))
    }
    fn verdict(&self, held: HeldPacket, verdict: u32) -> io::Result<()> {
        self.judge(held, verdict, None)
    }
    fn judge(&self, held: HeldPacket, verdict: u32, mark: Option<u32>) -> io::Result<()> {
        let mut attributes = Vec::new();
        let value = [verdict.to_be_bytes(), held.id.to_be_bytes()].concat();
        attribute(&mut attributes, ATTR_VERDICT_HDR, &value);
        mark.iter().for_each(|mark| attribute(&mut attributes, ATTR_MARK, &mark.to_be_bytes()));
        self.send(&message(MSG_VERDICT, 0, self.number, &attributes))
    }
}

impl AsFd for NfQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn parse(bytes: &[u8]) -> Option<Queued> {
    if u16_at(bytes, 4)? != SUBSYSTEM_QUEUE << 8 | MSG_PACKET {
        return None;
    }
    let end = (u32_at(bytes, 0)? as usize).min(bytes.len());
    let (mut id, mut mark, mut head) = (None, 0, Vec::new());
    let mut at = HEADER + GENERIC;
    while at + 4 <= end {
        let length = usize::from(u16_at(bytes, at)?);
        let value = bytes.get(at + 4..at + length)?;
        match u16_at(bytes, at + 2)? & NLA_TYPE_MASK {
            ATTR_PACKET_HDR => id = Some(u32::from_be(u32_at(value, 0)?)),
            ATTR_MARK => mark = u32::from_be(u32_at(value, 0)?),
            ATTR_PAYLOAD => head = value.to_vec(),
            _ => {}
        }
        at += length.next_multiple_of(4);
    }
    Some(Queued { held: HeldPacket { id: id? }, mark, head })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_message_is_taken_apart_and_short_ones_are_refused() {
        let mut attributes = Vec::new();
        attribute(&mut attributes, ATTR_PACKET_HDR, &[0, 0, 1, 2, 8, 0, 0]);
        attribute(&mut attributes, ATTR_MARK, &7u32.to_be_bytes());
        attribute(&mut attributes, ATTR_PAYLOAD, b"hello");
        let bytes = message(MSG_PACKET, 0, 9, &attributes);
        let queued = parse(&bytes).expect("a whole message");
        assert_eq!((queued.held.id, queued.mark, queued.head.as_slice()), (258, 7, b"hello".as_slice()));
        for cut in 0..bytes.len() {
            // Must never panic; yields a packet only if its header is complete.
            let id = parse(&bytes[..cut]).map(|q| q.held.id);
            assert!(id.is_none() || id == Some(258));
        }
        assert!(parse(&message(MSG_VERDICT, 0, 9, &attributes)).is_none());
    }
}
