//! Why a peer does not answer: what can be found out from here, in one line with the remedy.
//!
//! Unanswered handshakes look alike whatever the cause, and the lanes' socket receives no ICMP, so that nobody can disturb it with forged
//! messages. A separate socket sends to the same address and port, and listens for what comes back.

use crate::keys;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use wavelane_host::udp;

/// Most examinations at once; a further peer is reported as silent, without more.
const EXAMINATIONS_MAX: usize = 8;
/// How long an ICMP message may take to come back.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// About as long as a first handshake message: a path that does not carry this carries no handshake.
const PROBE_LEN: usize = 170;

/// Why a peer cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Its name has no address.
    Nameless(String),
    /// This host has no route to it, or no address of its own for that.
    NoWay(String),
    /// This host's own firewall rules forbid it.
    Forbidden(String),
    /// Its host is there and nothing listens on the port.
    NothingListens,
    /// A router on the path reports that it cannot be reached.
    Unreachable(String),
    /// Handshakes do not fit through.
    TooSmall,
    /// It reports that it does not know our key.
    KeyThere,
    /// The host at its address calls us under another key.
    KeyHere([u8; 32]),
    /// Its answers cannot be decrypted.
    Preshared,
    /// Every lane to it, or every lane from it, lacks its device or address.
    NoLane(String),
    /// Its lanes are all serial lines; this says what their ports show.
    SilentLine(String),
    /// Nothing comes back.
    Silent,
    /// The same of a peer that has answered since our start, for its keys are right.
    Cut,
    /// Nothing arrives by the inbound lanes; this names them.
    NothingComes(String),
}

impl Cause {
    /// One line with the remedy. `address` is where it was looked for, `own` our public key in base64.
    pub(crate) fn text(&self, address: &str, own: &str) -> String {
        match self {
            Self::Nameless(why) => {
                format!(
                    "no address for '{address}' ({why}); it is asked for again: correct it, write the number, or check the name server"
                )
            }
            Self::NoWay(why) => {
                format!(
                    "this host has no way to {address} ({why}): check its own address, its routes and whether the link is up"
                )
            }
            Self::Forbidden(why) => {
                format!(
                    "this host may not send to {address} ({why}): a rule of its own firewall, or a route that prohibits, is in the way"
                )
            }
            Self::NothingListens => {
                format!(
                    "the host at {address} says that nothing listens on that UDP port: start wavelaned there, or correct the port"
                )
            }
            Self::Unreachable(why) => {
                format!(
                    "the way to {address} ends before it ({why}, says a router): check the address, or wait for the link"
                )
            }
            Self::TooSmall => {
                format!(
                    "the way to {address} carries no datagrams of {PROBE_LEN} bytes: raise the MTU of the interface"
                )
            }
            Self::KeyThere => {
                format!(
                    "the gateway at {address} does not know our public key: make it the public_key of this gateway there ({own})"
                )
            }
            Self::KeyHere(key) => format!(
                "public_key is wrong here: the host at {address} calls with the key {}; if that is the peer, write this one",
                keys::to_base64(key)
            ),
            Self::Preshared => {
                format!("the answers from {address} do not decrypt: give both sides the same preshared_key")
            }
            Self::NoLane(why) => {
                format!(
                    "no lane can be used ({why}): bring that back, or correct the [[peer.lane]] tables (`ip address`)"
                )
            }
            Self::SilentLine(why) => format!("nothing comes back from it ({why})"),
            Self::NothingComes(by) => format!(
                "nothing comes by {by}, by which alone it can answer what is sent to {address}: one of the two paths is cut or filtered, its address for that lane there is wrong, the host is off, or public_key here is not its own"
            ),
            Self::Cut => format!(
                "nothing comes back from {address} any more: the link is cut, a firewall is in the way, or the host is off; it is called until it answers"
            ),
            Self::Silent => format!(
                "nothing comes back from {address}: a firewall is in the way, the host is off, or public_key here is not its own (`wavelane check` there prints it)"
            ),
        }
    }
    /// What an error of the examining socket means.
    fn of(error: &io::Error) -> Self {
        // Without the error's number in brackets.
        let why = error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase();
        match error.kind() {
            ErrorKind::ConnectionRefused => Self::NothingListens,
            ErrorKind::NetworkUnreachable | ErrorKind::AddrNotAvailable | ErrorKind::NetworkDown => Self::NoWay(why),
            ErrorKind::PermissionDenied => Self::Forbidden(why),
            ErrorKind::HostUnreachable => Self::Unreachable(why),
            _ if udp::is_too_big(error) => Self::TooSmall,
            _ => Self::Silent,
        }
    }
}

/// Runs examinations in threads of their own.
#[derive(Debug)]
pub(crate) struct Examiner {
    running: usize,
    sender: Sender<(SocketAddr, Cause)>,
    results: Receiver<(SocketAddr, Cause)>,
    ring: UnixStream,
    /// Readable when there are results.
    pub(crate) bell: UnixStream,
}

impl Examiner {
    pub(crate) fn new() -> io::Result<Self> {
        let (ring, bell) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (sender, results) = channel();
        Ok(Self { running: 0, sender, results, ring, bell })
    }
    /// Begins to look for the cause of silence at `address`. False if too many such searches run.
    pub(crate) fn examine(&mut self, address: SocketAddr, mark: Option<u32>, device: Option<String>) -> bool {
        if self.running >= EXAMINATIONS_MAX {
            return false;
        }
        let Ok(mut ring) = self.ring.try_clone() else { return false };
        let sender = self.sender.clone();
        let work = move || {
            let cause = match udp::probe(address, mark, device.as_deref(), PROBE_LEN, PATIENCE) {
                Ok(()) => Cause::Silent,
                Err(e) => Cause::of(&e),
            };
            let _ = sender.send((address, cause));
            // A bell that is full rings already.
            let _ = ring.write(&[1]);
        };
        let started = std::thread::Builder::new().name("examine".into()).spawn(work).is_ok();
        self.running += usize::from(started);
        started
    }
    /// What was found, by address.
    pub(crate) fn take(&mut self) -> Vec<(SocketAddr, Cause)> {
        while matches!(io::Read::read(&mut self.bell, &mut [0; 64]), Ok(n) if n > 0) {}
        let found: Vec<_> = self.results.try_iter().collect();
        self.running -= found.len();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_one_line_with_the_address() {
        let why = String::from("network unreachable");
        let causes = [
            Cause::Nameless(why.clone()),
            Cause::NoWay(why.clone()),
            Cause::Forbidden(why.clone()),
            Cause::NothingListens,
            Cause::Unreachable(why),
            Cause::TooSmall,
            Cause::KeyThere,
            Cause::KeyHere([7; 32]),
            Cause::Preshared,
            Cause::NoLane("lane 1: device wan1 is not there".into()),
            Cause::SilentLine("lane 1: no octet arrives: the cable is out".into()),
            Cause::NothingComes("lane 2 (198.51.100.1:4781)".into()),
            Cause::Silent,
        ];
        for cause in causes {
            let text = cause.text("shore.example:4780", "KEY");
            assert!(
                text.contains("shore.example:4780") != matches!(cause, Cause::NoLane(_) | Cause::SilentLine(_))
                    && text.contains(": ")
                    && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn errors_are_told_apart() {
        let of = |code| Cause::of(&io::Error::from_raw_os_error(code));
        assert_eq!(of(111), Cause::NothingListens);
        assert_eq!(of(101), Cause::NoWay("network is unreachable".into()));
        assert_eq!(of(113), Cause::Unreachable("no route to host".into()));
        assert_eq!(of(1), Cause::Forbidden("operation not permitted".into()));
        assert_eq!(of(90), Cause::TooSmall);
    }
}
