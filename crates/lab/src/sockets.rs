//! Sockets of the lab's own applications, made inside a namespace with a pinned congestion control.

use crate::{LabError, mptcp};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_run::buffers;
use wavelane_scenario::Scenario;

/// Least unsent bytes a sender's kernel may hold beyond what the congestion window allows (TCP_NOTSENT_LOWAT): enough to keep the link
/// busy, little enough that the link's backpressure reaches the application.
const NOTSENT_MIN: u32 = 128 << 10;
/// Where half of the path's product is more, that: over a satellite 128 KiB cost a BBR a fifteenth of its goodput.
const NOTSENT_OF_PRODUCT: u64 = 2;

/// Unsent bytes that the scenario's senders may hold.
pub(crate) fn unsent(scenario: &Scenario) -> u32 {
    let half = buffers::product(scenario) / NOTSENT_OF_PRODUCT;
    u32::try_from(half).unwrap_or(u32::MAX).max(NOTSENT_MIN)
}
/// Backlog of a listener.
const BACKLOG: i32 = 64;
/// Buffer of a probing socket: an outage of a minute must not block it.
const PROBE_BUFFER: usize = 1 << 20;
/// Maximum time without progress in a server's write: longer than any run that still counts.
const WRITE_PATIENCE: Duration = Duration::from_secs(120);

/// Interval at which a waiting thread checks whether it must stop.
const GLANCE: Span = Span::from_millis(20);
/// A non-blocking connect() is in progress (errno(3)).
const EINPROGRESS: i32 = 115;

/// `control` is the name of a congestion control, after [`mptcp::WORD`] where the connection may take several paths.
fn socket(control: &str) -> std::io::Result<Socket> {
    let (control, protocol) = match control.strip_prefix(mptcp::WORD) {
        Some(control) => (control, Protocol::MPTCP),
        None => (control, Protocol::TCP),
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(control.as_bytes())?;
    Ok(socket)
}

/// A listener inside `ns`; sockets it accepts inherit the congestion control `control`.
pub(crate) fn listen(ns: &Netns, address: SocketAddr, control: &str) -> Result<TcpListener, LabError> {
    listen_holding(ns, address, control, NOTSENT_MIN)
}

/// The same, for senders that may hold so many unsent bytes.
pub(crate) fn listen_holding(
    ns: &Netns,
    address: SocketAddr,
    control: &str,
    unsent: u32,
) -> Result<TcpListener, LabError> {
    let control = control.to_owned();
    let made = ns.run(move || -> std::io::Result<TcpListener> {
        let socket = socket(&control)?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_notsent_lowat(unsent)?;
        socket.set_write_timeout(Some(WRITE_PATIENCE))?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    })?;
    made.map_err(LabError::io(format!("cannot listen on {address} in node {}", ns.name())))
}

/// A connection made by the calling thread, which must already be inside the namespace. Abandoned at `deadline` or when `stop` returns
/// true.
pub(crate) fn connect(
    address: SocketAddr,
    control: &str,
    deadline: Instant,
    stop: impl Fn() -> bool,
) -> std::io::Result<TcpStream> {
    let socket = socket(control)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_send_buffer_size(PROBE_BUFFER)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(e) if e.raw_os_error() != Some(EINPROGRESS) => return Err(e),
        _ => {}
    }
    loop {
        let now = realtime::now();
        if realtime::wait_writable(socket.as_fd(), deadline.min(now + GLANCE))? {
            break;
        }
        if now >= deadline || stop() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// The congestion control a connection really uses.
pub(crate) fn control_of(stream: &TcpStream) -> String {
    let name = socket2::SockRef::from(stream).tcp_congestion().unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}

/// The address `ip:port`.
pub(crate) fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

/// Lets the calling thread sleep until `deadline` of the traffic's schedule, or until `stop` returns true.
pub(crate) fn rest_until(deadline: Instant, stop: impl Fn() -> bool) -> bool {
    loop {
        let now = realtime::now();
        if now >= deadline {
            return true;
        }
        if stop() {
            return false;
        }
        // Woken early or interrupted: the loop checks the clock again.
        let _ = realtime::wait(&[], deadline.min(now + GLANCE));
    }
}
