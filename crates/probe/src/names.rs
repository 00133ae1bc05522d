//! Name resolution with a timeout: a name server may take a minute for an answer, or never give one.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use wavelane_base::Span;
use wavelane_host::clock::since_boot;

/// Timeout of a lookup. The system's own default is five seconds for each name server, twice.
const PATIENCE: Duration = Duration::from_secs(10);
/// Polling interval of the stop flag.
const TURN: Duration = Duration::from_millis(50);
/// Maximum number of addresses tried for a name.
const ADDRESSES_MAX: usize = 4;

/// Resolves `host`, which is a name or an address. Ends early with [`io::ErrorKind::Interrupted`] when `stop` is set.
pub fn look_up(host: &str, port: u16, stop: &AtomicBool) -> io::Result<Vec<SocketAddr>> {
    let asked = (host.to_owned(), port);
    within(move || Ok(asked.to_socket_addrs()?.take(ADDRESSES_MAX).collect()), PATIENCE, stop)
}

/// A lookup cannot be cancelled, so it has its own thread, which is abandoned on timeout.
fn within(
    lookup: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    patience: Duration,
    stop: &AtomicBool,
) -> io::Result<Vec<SocketAddr>> {
    let (tell, told) = channel();
    std::thread::Builder::new().name("lookup".into()).spawn(move || drop(tell.send(lookup())))?;
    let until = since_boot() + Span::from_nanos(patience.as_nanos() as u64);
    loop {
        match told.recv_timeout(TURN) {
            Ok(Ok(found)) if found.is_empty() => return Err(io::Error::other("it has no address")),
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("its lookup broke off")),
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                return Err(io::ErrorKind::Interrupted.into());
            }
            Err(RecvTimeoutError::Timeout) if since_boot() >= until => {
                let why = format!(
                    "no name server answered within {} s: check this host's connection and its /etc/resolv.conf, or name an address",
                    patience.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
    use super::*;
    use std::sync::Arc;

    /// A lookup that ends when the other half is dropped.
    fn silent() -> (impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static, std::sync::mpsc::Sender<()>) {
        let (end, ended) = channel::<()>();
        let wait = move || {
            let _ = ended.recv();
            Ok(Vec::new())
        };
        (wait, end)
    }

    #[test]
    fn an_address_is_its_own_answer() {
        let found = look_up("::1", 7, &AtomicBool::new(false)).unwrap();
        assert_eq!(found, ["[::1]:7".parse().unwrap()]);
    }

    #[test]
    fn silence_ends_by_the_clock() {
        let (lookup, _end) = silent();
        let why = within(lookup, Duration::from_millis(100), &AtomicBool::new(false)).unwrap_err();
        assert!(why.kind() == io::ErrorKind::TimedOut && why.to_string().contains("resolv.conf"), "{why}");
    }

    #[test]
    fn silence_ends_by_the_flag() {
        let (lookup, _end) = silent();
        let stop = Arc::new(AtomicBool::new(true));
        let why = within(lookup, Duration::from_secs(3_600), &stop).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn no_address_is_an_error() {
        let why = within(|| Ok(Vec::new()), PATIENCE, &AtomicBool::new(false)).unwrap_err();
        assert!(why.to_string().contains("no address"), "{why}");
    }
}
