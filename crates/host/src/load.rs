//! TCP sockets of a measurement: selectable congestion control, little unsent data, and the kernel's statistics of them.

use crate::udp::{get_words, set_int};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Initial limit of unsent bytes in the kernel: data queued behind them waits in this host and not on the path.
const NOT_SENT: u32 = 16 << 10;
const BACKLOG: libc::c_int = 256;

/// Connects to `target` with the congestion control `congestion` (empty: the system's default).
pub fn connect(target: SocketAddr, congestion: &str, patience: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    if !congestion.is_empty() {
        socket.set_tcp_congestion(congestion.as_bytes())?;
    }
    socket.connect_timeout(&target.into(), patience)?;
    let stream = TcpStream::from(socket);
    prepare(&stream)?;
    Ok(stream)
}

/// Configures a connected socket: no delay and little unsent data.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    hold_unsent(stream, NOT_SENT)
}

/// Sets the limit of unsent bytes in the kernel.
pub fn hold_unsent(stream: &TcpStream, octets: u32) -> io::Result<()> {
    let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
    set_int(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, octets)
}

/// Listens for connections; `[::]` accepts both IP versions.
pub fn listen(local: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM.cloexec().nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if local.is_ipv6() {
        socket.set_only_v6(!local.ip().is_unspecified())?;
    }
    socket.bind(&local.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Sets the congestion control. `PermissionDenied` for one that only root may use, `NotFound` for one the kernel lacks.
pub fn set_congestion(stream: &TcpStream, name: &str) -> io::Result<()> {
    SockRef::from(stream).set_tcp_congestion(name.as_bytes())
}

/// Whether this process may use that congestion control; see [`set_congestion`].
pub fn try_congestion(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.cloexec(), Some(Protocol::TCP))?;
    socket.set_tcp_congestion(name.as_bytes())
}

/// The congestion control in use.
pub fn congestion(stream: &TcpStream) -> io::Result<String> {
    let name = SockRef::from(stream).tcp_congestion()?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// Bytes written and not sent; zero if the kernel does not report it. It can exceed the limit of [`hold_unsent`] by a super-packet of 64
/// KiB, since the kernel checks that limit only where a packet begins.
pub fn unsent(stream: &TcpStream) -> u32 {
    // Offset in `struct tcp_info` of linux/tcp.h: tcpi_notsent_bytes.
    const NOT_SENT_BYTES: usize = 144;
    let mut info = [0; NOT_SENT_BYTES / 4 + 1];
    get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).map_or(0, |()| info[NOT_SENT_BYTES / 4])
}

/// Bytes that the peer has acknowledged since the connection began; zero if the kernel does not report it.
pub fn acknowledged(stream: &TcpStream) -> u64 {
    // Offset in `struct tcp_info` of linux/tcp.h: tcpi_bytes_acked, of 64 bits.
    const ACKNOWLEDGED: usize = 120;
    let mut info = [0; ACKNOWLEDGED / 4 + 2];
    let at = ACKNOWLEDGED / 4;
    get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).map_or(0, |()| {
        let mut octets = [0; 8];
        octets[..4].copy_from_slice(&info[at].to_ne_bytes());
        octets[4..].copy_from_slice(&info[at + 1].to_ne_bytes());
        u64::from_ne_bytes(octets)
    })
}

/// Bytes sent and not acknowledged, by the kernel's count of segments; zero if it does not report it.
pub fn in_flight(stream: &TcpStream) -> u32 {
    // Offsets in `struct tcp_info` of linux/tcp.h: tcpi_snd_mss, tcpi_unacked.
    const SEGMENT: usize = 16;
    const UNACKNOWLEDGED: usize = 24;
    let mut info = [0; UNACKNOWLEDGED / 4 + 1];
    match get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info) {
        Some(()) => info[SEGMENT / 4].saturating_mul(info[UNACKNOWLEDGED / 4]),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_congestion_control_is_set_or_refused() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let target = listener.local_addr().unwrap();
        let patience = Duration::from_secs(5);
        let ours = connect(target, "reno", patience).unwrap();
        assert_eq!(congestion(&ours).unwrap(), "reno");
        assert!(connect(target, "no_such_thing", patience).is_err());
        assert_eq!(in_flight(&ours), 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the kernel tells nobody when an acknowledgement comes")]
    fn acknowledged_counts_delivered_bytes() {
        use std::io::{Read, Write};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = connect(listener.local_addr().unwrap(), "", Duration::from_secs(5)).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        ours.write_all(&[1; 5_000]).unwrap();
        theirs.read_exact(&mut [0; 5_000]).unwrap();
        let arrived = |_| {
            std::thread::sleep(Duration::from_millis(20));
            // The kernel also counts the SYN.
            (5_000..=5_001).contains(&acknowledged(&ours))
        };
        assert!((0..100).any(arrived), "{}", acknowledged(&ours));
    }
}
