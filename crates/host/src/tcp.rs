//! TCP sockets of the gateway's door: bounded buffers, no delay, and linger zero until changed.

use crate::udp::{get_words, set_int};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Send buffer of each door socket, and the maximum of its receive buffer (the kernel doubles both for its bookkeeping). It bounds the
/// bytes that wait outside our own queues.
pub const SOCKET_BUFFER: usize = 256 << 10;
/// Maximum memory of a door socket's receive buffer; nearly all of it can be payload.
pub const RECEIVE_MAX: usize = 2 * SOCKET_BUFFER;
/// The same until [`set_receive_room`]: four times the window that the kernel promises in the handshake. Segments take up to three times
/// their bytes.
pub const RECEIVE_FIRST: usize = 256 << 10;
/// Memory of a receive buffer that ran dry for each byte that was in it, at the most: a segment of 536 octets lies in a page of its own
/// with many cards, and the kernel opens a window by halves.
pub const RECEIVE_PER_BYTE: usize = 16;
/// No window of usual buffers is larger: a window scale of 3.
#[cfg(test)]
const WINDOW_MAX: libc::c_int = RECEIVE_MAX as libc::c_int - 1;
/// Options of newer kernels (linux/tcp.h): the least and the greatest retransmission timeout.
const TCP_RTO_MAX_MS: libc::c_int = 44;
/// See [`TCP_RTO_MAX_MS`].
const TCP_RTO_MIN_US: libc::c_int = 45;
/// The kernel gives a connection up after fifteen tries (`tcp_retries2`), so a lower [`TCP_RTO_MAX_MS`] would end it sooner: at 1 s after an
/// outage of 15 s. With a greatest timeout it is given up after this long without an answer instead, or with a closed window (TCP_USER_TIMEOUT).
const GIVEN_UP_AFTER: Duration = Duration::from_secs(2 * 3600);
/// Which buffers were set by hand (asm-generic/socket.h), and its value for the send buffer alone (linux/socket.h).
const SO_BUF_LOCK: libc::c_int = 72;
/// See [`SO_BUF_LOCK`].
const SOCK_SNDBUF_LOCK: libc::c_int = 1;
/// Unsent bytes in the kernel below which a socket counts as writable.
pub const NOT_SENT_LOW_WATER: i32 = 64 << 10;
/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 1024;

/// How much the kernel may hold for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffers {
    /// Bytes of the send buffer.
    pub send: usize,
    /// Maximum memory of the receive buffer.
    pub receive_max: usize,
    /// Whether it is no larger than the application's way here needs; else it always has its maximum.
    pub adapts: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { send: SOCKET_BUFFER, receive_max: RECEIVE_MAX, adapts: true }
    }
}

impl Buffers {
    /// The largest window that the receive buffer can announce.
    fn window_max(self) -> libc::c_int {
        libc::c_int::try_from(self.receive_max - 1).unwrap_or(libc::c_int::MAX)
    }
}

/// What is set on a connection's socket besides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    /// The congestion control, by the kernel's name; `None` keeps the kernel's default.
    pub congestion: Option<String>,
    /// Least retransmission timeout.
    pub rto_min: Option<Duration>,
    /// Greatest.
    pub rto_max: Option<Duration>,
    /// What it may hold.
    pub buffers: Buffers,
}

impl Tuning {
    /// Sets it on a socket; the error names what the kernel refused.
    pub fn apply(&self, stream: &TcpStream) -> Result<(), (&'static str, io::Error)> {
        let number = |n: u128| libc::c_int::try_from(n).unwrap_or(libc::c_int::MAX);
        if let Some(name) = &self.congestion {
            SockRef::from(stream).set_tcp_congestion(name.as_bytes()).map_err(|e| ("congestion", e))?;
        }
        if let Some(span) = self.rto_min {
            set_int(stream, libc::IPPROTO_TCP, TCP_RTO_MIN_US, number(span.as_micros())).map_err(|e| ("rto_min", e))?;
        }
        if let Some(span) = self.rto_max {
            set_int(stream, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, number(span.as_millis())).map_err(|e| ("rto_max", e))?;
        }
        if self.buffers.send != SOCKET_BUFFER {
            let set = set_buffer(stream, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, self.buffers.send);
            set.map_err(|e| ("buffer", e))?;
        }
        Ok(())
    }
    /// The same on a client's connection, which also outlives outages. Not on one to a server: the option stands in the place of the
    /// keepalive's count of tries, by which a dead server is noticed.
    pub fn apply_to_client(&self, stream: &TcpStream) -> Result<(), (&'static str, io::Error)> {
        self.apply(stream)?;
        if self.rto_max.is_some() {
            let longest = libc::c_int::try_from(GIVEN_UP_AFTER.as_millis()).unwrap_or(libc::c_int::MAX);
            set_int(stream, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, longest).map_err(|e| ("rto_max", e))?;
        }
        Ok(())
    }
    /// Whether this kernel takes it, by a socket that is closed again.
    pub fn probe(&self) -> Result<(), (&'static str, io::Error)> {
        let socket =
            Socket::new(Domain::IPV4, Type::STREAM.cloexec(), Some(Protocol::TCP)).map_err(|e| ("socket", e))?;
        self.apply(&TcpStream::from(socket))
    }
}

/// Sets a buffer beyond the system's limit where we may (CAP_NET_ADMIN), else up to it.
fn set_buffer(
    socket: &impl std::os::fd::AsRawFd,
    plain: libc::c_int,
    forced: libc::c_int,
    octets: usize,
) -> io::Result<()> {
    let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
    set_int(socket, libc::SOL_SOCKET, forced, octets).or_else(|_| set_int(socket, libc::SOL_SOCKET, plain, octets))
}

/// Configures a door socket: no delay, bounded buffers, and a close that resets.
///
/// Linger 0 stays until [`end_orderly`], so a crash resets the application's connection and never ends its stream early.
pub fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    set_manners(&SockRef::from(stream))?;
    set_receive_room(stream, RECEIVE_FIRST, Buffers::default())
}

/// What a listener's connections inherit of [`prepare`].
fn set_manners(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_keepalive(true)?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT_LOW_WATER)
}

/// A connection that waits at a listener of this module, and whose it is; as [`prepare`] would leave it, in fewer calls.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, from) = listener.accept()?;
    stream.set_nonblocking(true)?;
    set_receive_room(&stream, RECEIVE_FIRST, Buffers::default())?;
    Ok((stream, from))
}

/// After so much silence a server is asked whether it is there ...
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);
/// ... this often ...
const KEEPALIVE_TRIES: u32 = 3;
/// ... at this interval: a server that died is noticed within a minute and a half, although nothing is sent to it. An application's
/// own keepalive ends at the gateway near it. Clients are asked as rarely as the kernel does: one that sleeps stays connected.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// After so much silence a server is asked, at this interval, so often.
pub const SERVER_WATCH: (Duration, Duration, u32) = (KEEPALIVE_AFTER, KEEPALIVE_EVERY, KEEPALIVE_TRIES);

fn server_watch() -> TcpKeepalive {
    let (after, every, tries) = SERVER_WATCH;
    TcpKeepalive::new().with_time(after).with_interval(every).with_retries(tries)
}

/// Makes the coming close end the stream in order instead of resetting it.
pub fn end_orderly(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(None)
}

/// Limits the receive buffer to `octets` of memory from now on, including its current contents; `buffers` says what it may grow to.
pub fn set_receive_room(stream: &TcpStream, octets: usize, buffers: Buffers) -> io::Result<()> {
    // The kernel doubles the given value (socket(7), SO_RCVBUF).
    if octets > RECEIVE_MAX {
        set_buffer(stream, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, octets / 2)?;
    } else {
        SockRef::from(stream).set_recv_buffer_size(octets / 2)?;
    }
    // It clamps the window to what the buffer holds when it first sees how much memory a segment takes (`tcp_measure_rcv_mss`), and a larger
    // buffer does not raise that.
    set_int(stream, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, buffers.window_max())
}

/// Limits the advertised receive window to `octets`, and provides the buffer for it; sockets that a listener accepts inherit it. Needs
/// CAP_NET_ADMIN where `net.core.rmem_max` is less.
pub fn limit_window(socket: &Socket, octets: u32) -> io::Result<()> {
    let octets = i32::try_from(octets).map_err(io::Error::other)?;
    // The kernel doubles the given value (socket(7), SO_RCVBUF), and counts headers and slack.
    set_int(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)?;
    set_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, octets)
}

/// The kernel's statistics of a socket's receiving side.
#[derive(Clone, Copy, Debug)]
pub struct Receiving {
    /// Smoothed RTT to the application.
    pub round_trip: Duration,
    /// Length of incoming segments, as estimated by the kernel.
    pub segment: usize,
    /// Memory used by waiting bytes.
    pub held: usize,
}

/// See [`Receiving`]; `None` if the kernel does not report it.
pub fn receiving(stream: &TcpStream) -> Option<Receiving> {
    // Offsets in `struct tcp_info` of linux/tcp.h: tcpi_rcv_mss, tcpi_rtt.
    const SEGMENT: usize = 20;
    const ROUND_TRIP: usize = 68;
    // Index into SO_MEMINFO's answer: SK_MEMINFO_RMEM_ALLOC of linux/sock_diag.h.
    const HELD: usize = 0;
    let (mut info, mut memory) = ([0; ROUND_TRIP / 4 + 1], [0; HELD + 1]);
    get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    get_words(stream, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut memory)?;
    Some(Receiving {
        round_trip: Duration::from_micros(info[ROUND_TRIP / 4].into()),
        segment: info[SEGMENT / 4] as usize,
        held: memory[HELD] as usize,
    })
}

/// How a connection goes, for people.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Health {
    /// Smoothed RTT.
    pub round_trip: Duration,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Segments of the congestion window.
    pub window: u32,
}

/// See [`Health`]; `None` if the kernel does not report it.
pub fn health(stream: &TcpStream) -> Option<Health> {
    // Offsets in `struct tcp_info` of linux/tcp.h: tcpi_rtt, tcpi_snd_cwnd, tcpi_total_retrans.
    const ROUND_TRIP: usize = 68;
    const WINDOW: usize = 80;
    const RETRANSMITS: usize = 100;
    let mut info = [0; RETRANSMITS / 4 + 1];
    get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let round_trip = Duration::from_micros(info[ROUND_TRIP / 4].into());
    Some(Health { round_trip, retransmits: info[RETRANSMITS / 4], window: info[WINDOW / 4] })
}

/// Whether the peer has not yet acknowledged all bytes, or the end, that we wrote; if so, a number that changes when it acknowledges some.
/// `None` also once the connection is over.
pub fn undelivered(stream: &TcpStream) -> Option<u32> {
    // Offsets in `struct tcp_info` of linux/tcp.h: tcpi_state, tcpi_unacked, tcpi_bytes_acked (its low half, in either byte order: only a
    // change matters), tcpi_notsent_bytes. And TCP_CLOSE of net/tcp_states.h.
    const STATE: usize = 0;
    const UNACKNOWLEDGED: usize = 24;
    const ACKNOWLEDGED: usize = 120;
    const NOT_SENT: usize = 144;
    const CLOSED: u8 = 7;
    let mut info = [0; NOT_SENT / 4 + 1];
    get_words(stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    let waits = info[UNACKNOWLEDGED / 4] > 0 || info[NOT_SENT / 4] > 0;
    let over = info[STATE].to_ne_bytes()[0] == CLOSED;
    (waits && !over).then(|| info[ACKNOWLEDGED / 4] ^ info[ACKNOWLEDGED / 4 + 1])
}

/// Bounds the buffers of a socket before its handshake.
///
/// The kernel promises half of the receive buffer in the handshake (`tcp_select_initial_window`), whatever the SYN's 16 bits show, and keeps
/// to that when the buffer becomes smaller: it would drop what it invited. The window scale is fixed here too. Unless the buffer was set by
/// hand it follows the clamp: a scale for more than [`RECEIVE_MAX`] would have the windows of small buffers in steps too large for them.
fn bound_buffers(socket: &Socket, buffers: Buffers) -> io::Result<()> {
    // Urgent octets stay where they stand in the stream (RFC 6093, section 5); otherwise the kernel takes them out. Before the
    // handshake, because a second urgent octet takes the first one's place for good; accepted sockets inherit it.
    socket.set_out_of_band_inline(true)?;
    socket.set_recv_buffer_size(RECEIVE_FIRST / 4)?;
    socket.set_send_buffer_size(buffers.send.min(SOCKET_BUFFER))?;
    set_int(socket, libc::SOL_SOCKET, SO_BUF_LOCK, SOCK_SNDBUF_LOCK)
        .and_then(|()| set_int(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, buffers.window_max()))
        // A kernel before 5.14 promises more than the first buffer holds; a window scale for 64 KiB would cost more.
        .or_else(|_| socket.set_recv_buffer_size(SOCKET_BUFFER))
}

/// A listener for plain forwards.
pub fn listen(local: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM.cloexec().nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if local.is_ipv6() {
        // Each family has its own listener, so that one cannot implicitly take the other's address.
        socket.set_only_v6(true)?;
        // An address may come after the start (ip(7), IP_FREEBIND).
        socket.set_freebind_v6(true)?;
    } else {
        socket.set_freebind_v4(true)?;
    }
    listen_on(socket, local, Buffers::default())
}

/// A listener for connections that nftables' TPROXY delivers (IP_TRANSPARENT; needs CAP_NET_ADMIN). Its answers carry `mark`.
pub fn listen_transparent(local: SocketAddr, mark: u32, buffers: Buffers) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(local), Type::STREAM.cloexec().nonblocking(), Some(Protocol::TCP))?;
    set_transparent(&socket, local)?;
    socket.set_mark(mark)?;
    listen_on(socket, local, buffers)
}

/// Lets the socket use addresses that are not this host's.
fn set_transparent(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    match local {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
        SocketAddr::V6(_) => set_int(socket, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1),
    }
}

fn listen_on(socket: Socket, local: SocketAddr, buffers: Buffers) -> io::Result<TcpListener> {
    bound_buffers(&socket, buffers)?;
    set_manners(&socket)?;
    socket.bind(&local.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Starts a connection to `target`, from `source` if one is given (IP_TRANSPARENT; needs CAP_NET_ADMIN), else from our own address. When
/// writable, it is established or has failed: ask [`TcpStream::take_error`].
pub fn connect(target: SocketAddr, source: Option<SocketAddr>, mark: Option<u32>) -> io::Result<TcpStream> {
    connect_with(target, source, mark, Buffers::default())
}

/// The same with other buffers.
pub fn connect_with(
    target: SocketAddr,
    source: Option<SocketAddr>,
    mark: Option<u32>,
    buffers: Buffers,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM.cloexec().nonblocking(), Some(Protocol::TCP))?;
    bound_buffers(&socket, buffers)?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    if let Some(source) = source {
        set_transparent(&socket, source)?;
        // The application's own port if it is free here, else any; only the address matters.
        socket.set_reuse_address(true)?;
        if socket.bind(&source.into()).is_err() {
            socket.bind(&SocketAddr::new(source.ip(), 0).into())?;
        }
    }
    let started = match socket.connect(&target.into()) {
        Err(e) if e.raw_os_error() == Some(libc::EADDRNOTAVAIL) && source.is_some_and(|s| s.port() != 0) => {
            let own_port = source.map(|s| SocketAddr::new(s.ip(), 0));
            return connect_with(target, own_port, mark, buffers);
        }
        other => other,
    };
    match started {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => {
            set_manners(&socket)?;
            socket.set_tcp_keepalive(&server_watch())?;
            let stream = TcpStream::from(socket);
            set_receive_room(&stream, RECEIVE_FIRST, Buffers::default())?;
            Ok(stream)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_close_resets_until_the_end_was_orderly() {
        for orderly in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let ours = connect(listener.local_addr().unwrap(), None, None).unwrap();
            let (mut theirs, _) = listener.accept().unwrap();
            if orderly {
                end_orderly(&ours).unwrap();
            }
            drop(ours);
            let read = theirs.read(&mut [0; 8]);
            match orderly {
                true => assert_eq!(read.unwrap(), 0),
                false => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionReset),
            }
        }
    }

    #[test]
    fn an_accepted_connection_is_set_as_a_prepared_one() {
        let set = |stream: &TcpStream| {
            let socket = SockRef::from(stream);
            let mut low_water = [0];
            get_words(stream, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &mut low_water).unwrap();
            let buffers = (socket.recv_buffer_size().unwrap(), socket.send_buffer_size().unwrap());
            let manners = (socket.tcp_nodelay().unwrap(), socket.linger().unwrap(), socket.keepalive().unwrap());
            (buffers, manners, low_water, socket.nonblocking().unwrap(), socket.out_of_band_inline().unwrap())
        };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = listen(address.parse().unwrap()) else { continue };
            let clients = [(); 2].map(|()| TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (accepted, from) = accept(&listener).unwrap();
            assert!(clients.iter().any(|client| client.local_addr().unwrap() == from));
            let (prepared, _) = listener.accept().unwrap();
            prepare(&prepared).unwrap();
            assert_eq!(set(&accepted), set(&prepared), "{address}");
            assert_eq!(accept(&listener).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn urgent_octets_stay_in_the_stream() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = listen(address.parse().unwrap()) else { continue };
            let ours = connect(listener.local_addr().unwrap(), None, None).unwrap();
            let (theirs, _) = listener.accept().unwrap();
            prepare(&theirs).unwrap();
            for (mut from, mut to) in [(&ours, &theirs), (&theirs, &ours)] {
                for (octets, urgent) in [(b"ab", false), (b"c!", true), (b"d?", true), (b"ef", false)] {
                    match urgent {
                        true => _ = SockRef::from(from).send_out_of_band(octets).unwrap(),
                        false => from.write_all(octets).unwrap(),
                    }
                }
                to.set_nonblocking(false).unwrap();
                let mut got = [0; 8];
                to.read_exact(&mut got).unwrap();
                assert_eq!(&got, b"abc!d?ef", "{address}");
                to.set_nonblocking(true).unwrap();
            }
        }
    }

    #[test]
    fn a_silent_server_is_asked_whether_it_is_there() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let ours = connect(listener.local_addr().unwrap(), None, None).unwrap();
        let socket = SockRef::from(&ours);
        assert!(socket.keepalive().unwrap());
        let longest = socket.tcp_keepalive_time().unwrap() + KEEPALIVE_EVERY * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(longest, Duration::from_secs(90));
    }

    #[test]
    fn the_buffers_are_bounded() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let stream = connect(listener.local_addr().unwrap(), None, None).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.send_buffer_size().unwrap() <= 2 * SOCKET_BUFFER);
        assert_eq!(socket.recv_buffer_size().unwrap(), RECEIVE_FIRST);
        set_receive_room(&stream, 40_000, Buffers::default()).unwrap();
        assert_eq!(socket.recv_buffer_size().unwrap(), 40_000);
    }

    #[test]
    fn the_handshake_promises_no_more_than_the_first_buffer_holds() {
        // Offset of tcpi_rcv_wnd in `struct tcp_info` of linux/tcp.h.
        const WINDOW: usize = 232;
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let ours = connect(listener.local_addr().unwrap(), None, None).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        for stream in [ours, theirs] {
            let mut info = [0; WINDOW / 4 + 1];
            if get_words(&stream, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info).is_none() {
                eprintln!("SKIPPED (part of 1 test): this kernel's tcp_info has no receive window");
                return;
            }
            let promised = info[WINDOW / 4] as usize;
            assert!((30_000..=RECEIVE_FIRST / 3).contains(&promised), "{promised}");
        }
    }

    #[test]
    fn bytes_before_the_first_buffer_do_not_limit_the_window() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let sender = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // A small segment, then a full one: the kernel estimates the memory that a segment takes.
        sender.set_tcp_mss(1_400).unwrap();
        sender.connect(&listener.local_addr().unwrap().into()).unwrap();
        for size in [1_000, 1_400, 20_000] {
            sender.send(&vec![7; size]).unwrap();
        }
        let (door, _) = listener.accept().unwrap();
        prepare(&door).unwrap();
        for room in [RECEIVE_FIRST, 40_000, RECEIVE_MAX] {
            set_receive_room(&door, room, Buffers::default()).unwrap();
            let mut clamp = [0];
            get_words(&door, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &mut clamp).unwrap();
            assert_eq!(clamp, [WINDOW_MAX as u32], "{room}");
        }
    }

    #[test]
    fn the_kernel_reports_unsent_bytes() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let ours = connect(listener.local_addr().unwrap(), None, None).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        let before = receiving(&ours).unwrap();
        assert!(before.held == 0 && before.segment > 0 && before.round_trip < Duration::from_secs(1), "{before:?}");
        theirs.write_all(&[0; 10_000]).unwrap();
        assert!((10_000..100_000).contains(&receiving(&ours).unwrap().held));
    }
}
