//! Messages to a supervisor such as systemd: ready, alive (watchdog), and the current status (sd_notify(3)).
//!
//! Without one that asked for it (`NOTIFY_SOCKET`) nothing is sent.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use wavelane_base::{Instant, Span};

/// The supervisor's socket, and how often it expects a message.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// How often a sign of life is due: twice within the time after which we count as stuck.
    every: Option<Span>,
    due: Option<Instant>,
}

impl Supervisor {
    /// The one that started this process, if it said so.
    pub(crate) fn of_this_process() -> Self {
        let variable = std::env::var_os;
        let watchdog = variable("WATCHDOG_USEC").filter(|_| {
            // It may be meant for another process of the same service (sd_watchdog_enabled(3)).
            variable("WATCHDOG_PID").is_none_or(|pid| pid.to_str() == Some(&std::process::id().to_string()))
        });
        let every = watchdog.and_then(|text| text.to_str()?.parse::<u64>().ok()).filter(|us| *us > 0);
        let socket = variable("NOTIFY_SOCKET").and_then(|path| connect(&path));
        let every = every.filter(|_| socket.is_some()).map(|us| Span::from_micros(us / 2));
        Self { socket, every, due: None }
    }
    /// Everything is in place.
    pub(crate) fn ready(&mut self, now: Instant, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
        self.due = self.every.map(|every| now + every);
    }
    /// The gateway is about to end, in order.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }
    /// Gives a sign of life if one is due. Called by the thread that moves packets, to prove that it still does.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.tell("WATCHDOG=1");
            self.due = self.every.map(|every| now + every);
        }
    }
    /// When the next sign of life is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }
    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // A supervisor that does not read is not waited for.
            let _ = socket.send(state.as_bytes());
        }
    }
}

fn connect(path: &OsStr) -> Option<UnixDatagram> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
        _ => SocketAddr::from_pathname(path).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn watchdog_messages_never_block() {
        let name = format!("wavelane-supervisor-{}", std::process::id());
        let theirs = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let heard = || {
            let mut buf = [0; 100];
            theirs.recv(&mut buf).map(|n| String::from_utf8_lossy(&buf[..n]).into_owned()).unwrap_or_default()
        };
        let socket = connect(OsStr::new(&format!("@{name}")));
        let mut s = Supervisor { socket, every: Some(Span::from_secs(5)), due: None };
        s.tick(Instant::from_secs(100));
        assert_eq!(heard(), "", "not before it is ready");
        s.ready(Instant::from_secs(100), "serves");
        assert_eq!(heard(), "READY=1\nSTATUS=serves");
        s.tick(Instant::from_secs(104));
        assert_eq!(heard(), "");
        s.tick(Instant::from_secs(105));
        assert_eq!((heard().as_str(), s.deadline()), ("WATCHDOG=1", Some(Instant::from_secs(110))));
        for _ in 0..10_000 {
            s.tell("WATCHDOG=1");
        }
        s.stopping();
    }

    #[test]
    fn an_idle_supervisor_has_no_deadline() {
        let mut s = Supervisor::default();
        s.ready(Instant::ZERO, "x");
        assert_eq!(s.deadline(), None);
    }
}
