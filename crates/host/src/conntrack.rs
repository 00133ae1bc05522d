//! Whether the kernel tracks a connection of TCP (kernel: nf_conntrack_netlink).

use crate::routes::{HEADER, NLM_F_REQUEST, NLMSG_ERROR, attribute, messages, u32_at};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

// linux/netfilter/nfnetlink.h and linux/netfilter/nfnetlink_conntrack.h
const MSG_NEW: u16 = 1 << 8;
const MSG_GET: u16 = 1 << 8 | 1;
const NESTED: u16 = 0x8000;
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
/// Of the sender; the other's follows it. IPv6's are two more.
const CTA_IP_SRC: u16 = 1;
/// Space for one entry.
const MESSAGE_ROOM: usize = 8_192;
/// Answers to earlier questions that are skipped.
const STALE_MAX: usize = 16;

/// A socket to ask by.
#[derive(Debug)]
pub struct Conntrack {
    fd: OwnedFd,
}

/// The question: an entry of which one direction goes from `source` to `target`.
fn question(source: SocketAddr, target: SocketAddr) -> Vec<u8> {
    let (mut ip, mut proto, mut tuple, mut all) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (place, end) in [source, target].into_iter().enumerate() {
        match end.ip() {
            IpAddr::V4(address) => attribute(&mut ip, CTA_IP_SRC + place as u16, &address.octets()),
            IpAddr::V6(address) => attribute(&mut ip, CTA_IP_SRC + 2 + place as u16, &address.octets()),
        }
    }
    attribute(&mut proto, CTA_PROTO_NUM, &[libc::IPPROTO_TCP as u8]);
    attribute(&mut proto, CTA_PROTO_SRC_PORT, &source.port().to_be_bytes());
    attribute(&mut proto, CTA_PROTO_DST_PORT, &target.port().to_be_bytes());
    attribute(&mut tuple, CTA_TUPLE_IP | NESTED, &ip);
    attribute(&mut tuple, CTA_TUPLE_PROTO | NESTED, &proto);
    let family = if source.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8;
    all.extend_from_slice(&[family, 0, 0, 0]);
    attribute(&mut all, CTA_TUPLE_ORIG | NESTED, &tuple);
    let total = u32::try_from(HEADER + all.len()).expect("questions are short");
    let mut out = total.to_ne_bytes().to_vec();
    out.extend_from_slice(&MSG_GET.to_ne_bytes());
    out.extend_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&all);
    out
}

impl Conntrack {
    /// Asks this thread's network namespace (needs CAP_NET_ADMIN).
    pub fn open() -> io::Result<Self> {
        let fd = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkNetFilter)?;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        Ok(Self { fd })
    }
    /// Whether the kernel knows a connection between two ends, whoever opened it. The answer is there when the question was taken.
    pub fn knows(&self, source: SocketAddr, target: SocketAddr) -> io::Result<bool> {
        let fd = self.fd.as_raw_fd();
        sendto(fd, &question(source, target), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut buf = vec![0; MESSAGE_ROOM];
        for _ in 0..STALE_MAX {
            let n = match recv(fd, &mut buf, MsgFlags::MSG_DONTWAIT) {
                Ok(n) => n,
                Err(Errno::EINTR) => continue,
                Err(e) => return Err(e.into()),
            };
            for (kind, _, body) in messages(&buf[..n]) {
                match kind {
                    MSG_NEW => return Ok(true),
                    NLMSG_ERROR => match u32_at(body, 0).map_or(0, u32::cast_signed) {
                        code if code == -libc::ENOENT => return Ok(false),
                        code => return Err(io::Error::from_raw_os_error(-code)),
                    },
                    _ => {}
                }
            }
        }
        Err(Errno::EBUSY.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::netns::Netns;

    #[test]
    fn a_connection_is_known_where_it_is_tracked() {
        if !crate::is_root() {
            eprintln!("SKIPPED (1 case): namespaces need root");
            return;
        }
        let ns = Netns::new("conntrack").unwrap();
        ns.run(|| {
            crate::nft::run("ip", &["link", "set", "lo", "up"], "").unwrap();
            for address in ["127.0.0.1:0", "[::1]:0"] {
                let rules = "table inet t { chain i { type filter hook input priority 0; ct state new accept; }; }";
                crate::nft::run("nft", &["-f", "-"], rules).unwrap();
                let listener = std::net::TcpListener::bind(address).unwrap();
                let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (own, other) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
                let asked = Conntrack::open().unwrap();
                assert!(asked.knows(own, other).unwrap() && asked.knows(other, own).unwrap());
                assert!(!asked.knows(own, SocketAddr::new(other.ip(), other.port() ^ 1)).unwrap());
            }
        })
        .unwrap();
    }
}
