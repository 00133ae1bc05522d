//! The Linux kernel at an end of the link: a namespace, its TUN device, and programs on plain sockets.

use super::ahead::{Ahead, PIECE};
use super::{Duel, Inbox, Load, Shared, lock};
use crate::LabError;
use crate::content::Content;
use crate::driver::MTU;
use crate::tools;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::Instant;
use wavelane_host::netns::Netns;
use wavelane_host::realtime;
use wavelane_host::tun::Tun;

/// Packets that the device holds until the link's thread reads them; queueing happens in the link.
const TUN_RING: u32 = 4_000;
/// Interval at which a blocked program checks whether it must stop.
const GLANCE: Duration = Duration::from_millis(50);

/// A kernel and its programs.
pub(super) struct KernelSide {
    ns: Netns,
    pub(super) tun: Tun,
    control: &'static str,
    stop: Arc<AtomicBool>,
    programs: Vec<JoinHandle<std::io::Result<()>>>,
}

impl KernelSide {
    pub(super) fn new(duel: &Duel, end: usize, control: &'static str) -> Result<Self, LabError> {
        let ns = Netns::new(&format!("{}-duel-{end}", std::process::id()))?;
        let name = format!("wl_duel{end}");
        let device = name.clone();
        for scope in ["all", "default"] {
            let off = if duel.ipv6 { "0" } else { "1" };
            ns.sysctl(&format!("net/ipv6/conf/{scope}/disable_ipv6"), off)?;
            ns.sysctl(&format!("net/ipv4/conf/{scope}/rp_filter"), "0")?;
        }
        let tun = ns.run(move || Tun::open(&device))??;
        let (ours, theirs, bits) = (duel.ip(end), duel.ip(1 - end), if duel.ipv6 { 128 } else { 32 });
        let nodad = if duel.ipv6 { " nodad" } else { "" };
        tools::ip(
            &ns,
            &[
                "link set lo up".to_owned(),
                format!("link set {name} mtu {MTU} txqueuelen {TUN_RING} up"),
                format!("addr add {ours}/{bits} dev {name}{nodad}"),
                format!("route add {theirs}/{bits} dev {name}"),
            ],
        )?;
        Ok(Self { ns, tun, control, stop: Arc::default(), programs: Vec::new() })
    }

    fn spawn(&mut self, work: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), LabError> {
        let spawned = self.ns.run(move || std::thread::Builder::new().name("duel".into()).spawn(work))?;
        self.programs.push(spawned.map_err(LabError::io("cannot start a thread; raise the process limit"))?);
        Ok(())
    }

    /// Starts a reader per flow; all are listening when this returns.
    pub(super) fn receive(&mut self, duel: &Duel, inboxes: &[Shared], start: Instant) -> Result<(), LabError> {
        for (i, inbox) in inboxes.iter().enumerate() {
            let (control, address, window) = (self.control, duel.target(i), duel.window);
            let listener = self.ns.run(move || -> std::io::Result<Socket> {
                let socket = socket(control, address)?;
                if let Some(window) = window {
                    wavelane_host::tcp::limit_window(&socket, window)?;
                }
                socket.bind(&address.into())?;
                socket.listen(1)?;
                Ok(socket)
            })?;
            let listener = listener.map_err(LabError::io(format!("cannot listen on {address}")))?;
            let (stop, inbox) = (Arc::clone(&self.stop), Shared::clone(inbox));
            self.spawn(move || read_all(&listener, &inbox, &stop, start))?;
        }
        Ok(())
    }

    /// Starts a writer per flow.
    pub(super) fn send(&mut self, duel: &Duel, bodies: Vec<Content>, start: Instant) -> Result<(), LabError> {
        for (i, body) in bodies.into_iter().enumerate() {
            let (control, address, stop) = (self.control, duel.target(i), Arc::clone(&self.stop));
            let endless = matches!(duel.load, Load::Time(_));
            let body = Ahead::new(body)?;
            self.spawn(move || {
                crate::sockets::rest_until(start, || stop.load(Ordering::Relaxed));
                write_all(control, address, &body, &stop, endless)
            })?;
        }
        Ok(())
    }

    /// Ends the programs. Returns their error, unless they were stopped.
    pub(super) fn stop(&mut self) -> Result<(), LabError> {
        self.stop.store(true, Ordering::Relaxed);
        for program in self.programs.drain(..) {
            let outcome = program.join().map_err(|_| LabError::Failed {
                program: "a program of the duel".into(),
                said: "it panicked; the message is above".into(),
            })?;
            outcome.map_err(LabError::io("a program of the duel"))?;
        }
        Ok(())
    }

    /// Counters of the namespace.
    pub(super) fn counters(&self) -> Result<BTreeMap<String, u64>, LabError> {
        let mut all = BTreeMap::new();
        for file in ["snmp", "netstat"] {
            let text = self.ns.run(move || std::fs::read_to_string(format!("/proc/thread-self/net/{file}")))?;
            let text = text.map_err(LabError::io(format!("cannot read /proc/net/{file}")))?;
            all.extend(parse_counters(&text));
        }
        Ok(all)
    }

    /// Packets that the device dropped because the link did not read in time.
    pub(super) fn dropped(&self) -> Result<u64, LabError> {
        crate::world::tx_drops(&self.ns, self.tun.name())
    }
}

impl Drop for KernelSide {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// `Tcp: A B` above `Tcp: 1 2` (proc_net(5)) becomes `TcpA = 1`, `TcpB = 2`, as nstat(8) names them.
fn parse_counters(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let (Some((family, names)), Some((_, values))) = (pair[0].split_once(": "), pair[1].split_once(": ")) else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                all.insert(format!("{family}{name}"), value);
            }
        }
    }
    all
}

fn socket(control: &str, address: SocketAddr) -> std::io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_tcp_congestion(control.as_bytes())?;
    socket.set_read_timeout(Some(GLANCE))?;
    socket.set_write_timeout(Some(GLANCE))?;
    Ok(socket)
}

/// Whether an error only means that a wait was interrupted.
fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn read_all(listener: &Socket, inbox: &Shared, stop: &AtomicBool, start: Instant) -> std::io::Result<()> {
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(e) if is_pause(&e) && !stop.load(Ordering::Relaxed) => {}
            Err(e) if is_pause(&e) => return Ok(()),
            Err(e) => return Err(e),
        }
    };
    stream.set_read_timeout(Some(GLANCE))?;
    let mut buf = vec![0; PIECE];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut buf) {
            Ok(0) => {
                lock(inbox).ended = true;
                return Ok(());
            }
            Ok(n) => {
                let Inbox { received, .. } = &mut *lock(inbox);
                received.note(start, realtime::now(), &buf[..n]);
            }
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn write_all(
    control: &str,
    address: SocketAddr,
    body: &Ahead,
    stop: &AtomicBool,
    endless: bool,
) -> std::io::Result<()> {
    let mut stream = socket(control, address)?;
    // SO_SNDTIMEO also bounds connect().
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    stream.connect(&address.into())?;
    stream.set_write_timeout(Some(GLANCE))?;
    let used = stream.tcp_congestion()?;
    if !used.starts_with(control.as_bytes()) {
        return Err(std::io::Error::other(format!("the kernel uses another congestion control than {control}")));
    }
    while let Some(piece) = body.wait() {
        let mut at = 0;
        while at < piece.len() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match stream.write(&piece[at..]) {
                Ok(taken) => at += taken,
                Err(e) if is_pause(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    // Stays until the peer has received everything, so that the socket is not closed by the process's exit.
    let mut answer = [0; 16];
    while !endless && !stop.load(Ordering::Relaxed) {
        match stream.read(&mut answer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if is_pause(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_get_their_names_from_the_line_above() {
        let all = parse_counters("Tcp: RtoMin Retrans\nTcp: 200 7\nTcpExt: Timeouts\nTcpExt: 3\n");
        assert_eq!(all.get("TcpRetrans"), Some(&7));
        assert_eq!(all.get("TcpExtTimeouts"), Some(&3));
        assert_eq!(all.len(), 3);
    }
}
