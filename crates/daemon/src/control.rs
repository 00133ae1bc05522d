//! The control socket: a client that asks nothing gets one status document, others what they ask for.

use crate::request::Answer;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use wavelane_base::{Instant, Span};
use wavelane_host::files;
use wavelane_host::poller::{Poller, Watch};

/// A client that says nothing for so long asks for the status document, as those do that only read: `wavelane status` says so at once, by
/// closing its side. On a busy machine a client's request comes late.
const SILENCE: Span = Span::from_millis(250);
/// Most clients at once that have asked for something else; of more, the one that was silent for longest gives way.
const ASKING_MAX: usize = 32;
/// Most that have not said what they want. The next waits in the kernel, no longer than [`SILENCE`], so that each is answered.
const NEW_MAX: usize = 32;
/// No request is longer.
const LINE_MAX: usize = 4_096;
/// Reads of one client before it is another's turn; what is left is reported again.
const READS_MAX: usize = 8;

/// A socket file that only our user and root may open; removed when dropped.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and number of the file: at the end another may lie there.
    made: Option<(u64, u64)>,
    clients: Vec<Client>,
    /// The next client's number; none is used twice.
    next: u64,
    /// When those are looked for that may wait in the kernel: there was no place, or no descriptor.
    again: Option<Instant>,
}

/// Which client; its number is never another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(crate) u64);

#[derive(Debug)]
struct Client {
    id: ClientId,
    stream: UnixStream,
    /// What it has said of a line.
    said: Vec<u8>,
    /// Until when it may be silent; nothing once it has asked.
    silent_until: Option<Instant>,
    /// It has said a line.
    asks: bool,
    /// When it was last heard, or told something.
    active: Instant,
}

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    /// The status document.
    Status,
    /// What a line says.
    Line(String),
}

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error("another wavelaned answers at {0}: stop it, or give this one another `control` path")]
    Busy(PathBuf),
    #[error("{0} is there and is no socket of ours, so it is left alone: choose another `control` path, or remove it")]
    Foreign(PathBuf),
    #[error("cannot make the control socket {path}: {source}; choose another `control` path")]
    Io { path: PathBuf, source: io::Error },
}

impl Control {
    /// Makes the socket; what a daemon that was killed left is replaced.
    pub(crate) fn bind(path: &Path) -> Result<Self, ControlError> {
        let io = |source| ControlError::Io { path: path.into(), source };
        let listener = match files::listen_privately(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse && !files::is_own(path, FileTypeExt::is_socket) => {
                return Err(ControlError::Foreign(path.into()));
            }
            Err(e) if e.kind() == ErrorKind::AddrInUse => match UnixStream::connect(path) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path).map_err(io)?;
                    files::listen_privately(path).map_err(io)?
                }
                _ => return Err(ControlError::Busy(path.into())),
            },
            other => other.map_err(io)?,
        };
        listener.set_nonblocking(true).map_err(io)?;
        Ok(Self { listener, path: path.into(), made: identity(path), clients: Vec::new(), next: 0, again: None })
    }
    /// Takes waiting clients; `token` tells when one says something.
    pub(crate) fn accept(&mut self, now: Instant, poller: &Poller, token: u64) {
        let mut new = self.clients.iter().filter(|client| !client.asks).count();
        while let Some(stream) = self.first_waiting(now, new < NEW_MAX) {
            if stream.set_nonblocking(true).is_ok() && poller.add(&stream, token, Watch::Readable).is_ok() {
                let id = ClientId(self.next);
                self.next += 1;
                new += 1;
                let silent_until = Some(now + SILENCE);
                self.clients.push(Client { id, stream, said: Vec::new(), silent_until, asks: false, active: now });
            }
        }
    }
    /// Takes one client, or remembers that some may wait: the listener is reported by its arrivals only, lest it be reported all the time.
    fn first_waiting(&mut self, now: Instant, there_is_room: bool) -> Option<UnixStream> {
        self.again = Some(now + SILENCE);
        match there_is_room.then(|| self.listener.accept())? {
            Ok((stream, _)) => Some(stream),
            Err(e) => {
                self.again = self.again.filter(|_| e.kind() != ErrorKind::WouldBlock);
                None
            }
        }
    }
    /// Whether clients may wait for [`Control::accept`].
    pub(crate) fn may_wait(&self) -> bool {
        self.again.is_some()
    }
    /// What clients want now. Those that ended are forgotten.
    pub(crate) fn hear(&mut self, now: Instant) -> Vec<(ClientId, Wants)> {
        let mut wants = Vec::new();
        self.clients.retain_mut(|client| client.hear(now, &mut wants));
        self.make_room();
        wants
    }
    /// Ends those that asked, and have been silent for longer than [`ASKING_MAX`] others.
    fn make_room(&mut self) {
        let asking = || self.clients.iter().filter(|client| client.asks);
        let surplus = asking().count().saturating_sub(ASKING_MAX);
        let mut idle: Vec<(Instant, ClientId)> = asking().map(|client| (client.active, client.id)).collect();
        idle.sort_unstable();
        for (at, id) in idle.into_iter().take(surplus) {
            let why = format!("{ASKING_MAX} others have asked since this one last did: end some, and ask again");
            self.tell(at, id, &Answer::Refused(why).line());
            self.end(id);
        }
    }
    /// When a client has been silent for so long that it wants the status document.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|client| client.silent_until).chain(self.again).min()
    }
    /// Tells a client something; one that does not read is let go.
    pub(crate) fn tell(&mut self, now: Instant, id: ClientId, text: &str) {
        self.clients.retain_mut(|client| {
            if client.id != id {
                return true;
            }
            client.active = now;
            client.stream.write_all(text.as_bytes()).is_ok()
        });
    }
    /// Whether that client is still there.
    pub(crate) fn has(&self, id: ClientId) -> bool {
        self.clients.iter().any(|client| client.id == id)
    }
    /// Ends the connection.
    pub(crate) fn end(&mut self, id: ClientId) {
        self.clients.retain(|client| client.id != id);
    }
    /// Answers every waiting client. One that is too slow for its socket buffer gets a truncated document; we do not wait.
    pub(crate) fn answer(&mut self, now: Instant, mut document: impl FnMut() -> String) {
        while let Some(mut stream) = self.first_waiting(now, true) {
            if stream.set_nonblocking(true).is_ok() {
                let _ = stream.write_all(document().as_bytes());
            }
        }
    }
}

impl Client {
    /// Whether it is to be kept.
    fn hear(&mut self, now: Instant, wants: &mut Vec<(ClientId, Wants)>) -> bool {
        let mut part = [0; 1_024];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut part) {
                // Who reads alone says so at once by ending its own direction.
                Ok(0) if self.silent_until.take().is_some() => {
                    wants.push((self.id, Wants::Status));
                    return true;
                }
                Ok(0) => return false,
                Ok(n) => {
                    self.active = now;
                    self.said.extend_from_slice(&part[..n]);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
            while let Some(end) = self.said.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.said.drain(..=end).collect();
                self.silent_until = None;
                self.asks = true;
                wants.push((self.id, Wants::Line(String::from_utf8_lossy(&line).trim().to_owned())));
            }
            if self.said.len() > LINE_MAX {
                return false;
            }
        }
        if self.silent_until.take_if(|at| *at <= now).is_some() {
            wants.push((self.id, Wants::Status));
        }
        true
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.made.is_some() && self.made == identity(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn nothing_but_a_socket_of_ours_is_replaced_or_removed() {
        let dir = std::env::temp_dir().join(format!("wavelane-control-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let (key, link, path) = (dir.join("a.key"), dir.join("link"), dir.join("a.sock"));
        std::fs::write(&key, "secret").unwrap();
        symlink(&key, &link).unwrap();
        for foreign in [&key, &link, &dir] {
            assert!(matches!(Control::bind(foreign), Err(ControlError::Foreign(_))), "{}", foreign.display());
        }
        let control = Control::bind(&path).unwrap();
        std::fs::rename(&key, &path).unwrap();
        drop(control);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret", "it is not the socket that was made");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn who_asks_nothing_gets_the_status_document() {
        let path = std::env::temp_dir().join(format!("wavelane-clients-{}.sock", std::process::id()));
        let mut control = Control::bind(&path).unwrap();
        let poller = Poller::new().unwrap();
        let connect = |control: &mut Control, at| {
            let client = UnixStream::connect(&path).unwrap();
            control.accept(at, &poller, 7);
            client
        };
        let (start, late) = (Instant::from_secs(1), Instant::from_secs(1) + SILENCE);
        let mut silent = connect(&mut control, start);
        assert_eq!((control.hear(start), control.deadline()), (vec![], Some(late)));
        let wants = control.hear(late);
        let [(id, Wants::Status)] = wants[..] else { panic!("{wants:?}") };
        control.tell(late, id, "{}");
        control.end(id);
        let mut text = String::new();
        silent.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), control.deadline()), ("{}", None));
        let reader = connect(&mut control, start);
        reader.shutdown(std::net::Shutdown::Write).unwrap();
        let wants = control.hear(start);
        assert!(matches!(wants[..], [(_, Wants::Status)]), "{wants:?}");
        control.end(wants[0].0);
        // One that asks, in two parts, is heard again and again, and forgotten once it ends.
        let mut asks = connect(&mut control, start);
        asks.write_all(b"{\"ask\":").unwrap();
        assert_eq!(control.hear(start), []);
        asks.write_all(b"1}\nmore\n").unwrap();
        let lines = control.hear(late).into_iter().map(|(_, wants)| wants);
        assert_eq!(lines.collect::<Vec<_>>(), [Wants::Line("{\"ask\":1}".into()), Wants::Line("more".into())]);
        drop(asks);
        assert_eq!((control.hear(late), control.clients.len()), (vec![], 0));
        // No endless lines.
        let mut endless = connect(&mut control, start);
        endless.write_all(&[b'x'; LINE_MAX + 1_024]).unwrap();
        assert_eq!((control.hear(start), control.clients.len()), (vec![], 0));
    }

    #[test]
    fn clients_that_ask_and_stay_keep_nobody_out() {
        let path = std::env::temp_dir().join(format!("wavelane-many-{}.sock", std::process::id()));
        let mut control = Control::bind(&path).unwrap();
        let poller = Poller::new().unwrap();
        let at = |n: usize| Instant::from_secs(1) + SILENCE.times(n as u64);
        let ask = |control: &mut Control, n: usize| {
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(b"{}\n").unwrap();
            control.accept(at(n), &poller, 7);
            assert_eq!(control.hear(at(n)).len(), 1);
            client
        };
        let mut staying: Vec<UnixStream> = (0..ASKING_MAX).map(|n| ask(&mut control, n)).collect();
        // The first is heard again, so another has been silent for longest when one more asks.
        staying[0].write_all(b"{}\n").unwrap();
        assert_eq!(control.hear(at(ASKING_MAX)).len(), 1);
        let _more = ask(&mut control, ASKING_MAX + 1);
        assert_eq!(control.clients.len(), ASKING_MAX);
        let mut text = String::new();
        staying[1].read_to_string(&mut text).unwrap();
        assert!(text.starts_with("{\"refused\":\"32 others have asked"), "{text}");
        staying[0].set_nonblocking(true).unwrap();
        assert_eq!(staying[0].read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "it stays");
        // Who has not asked takes no place of those, and waits for one of its kind at most as long as it may be silent.
        let new: Vec<UnixStream> = (0..NEW_MAX + 3).map(|_| UnixStream::connect(&path).unwrap()).collect();
        control.accept(at(40), &poller, 7);
        assert_eq!(control.clients.len(), ASKING_MAX + NEW_MAX);
        for n in [41, 42] {
            let wants = control.hear(at(n));
            assert_eq!(wants.len(), if n == 41 { NEW_MAX } else { 3 });
            assert!(wants.iter().all(|(_, wants)| *wants == Wants::Status));
            wants.iter().for_each(|(id, _)| control.end(*id));
            control.accept(at(n), &poller, 7);
        }
        assert_eq!((new.len(), control.clients.len()), (NEW_MAX + 3, ASKING_MAX));
        assert!(!control.may_wait() && control.deadline().is_none());
    }

    #[test]
    fn while_there_is_no_room_the_listener_wakes_nobody() {
        let path = std::env::temp_dir().join(format!("wavelane-full-{}.sock", std::process::id()));
        let mut control = Control::bind(&path).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&control.listener, 1, Watch::Arrivals).unwrap();
        let at = |n: usize| Instant::from_secs(1) + SILENCE.times(n as u64);
        let silent: Vec<UnixStream> = (0..2 * NEW_MAX + 1).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut wakes = || poller.wait(Some(core::time::Duration::ZERO)).unwrap().len();
        let more = Poller::new().unwrap();
        assert_eq!(wakes(), 1);
        for n in 0..3 {
            control.accept(at(n), &more, 7);
            assert_eq!((wakes(), control.may_wait()), (0, n < 2), "those in the kernel are not forgotten");
            assert_eq!(control.deadline(), Some(at(n + 1)));
            let wants = control.hear(at(n + 1));
            assert_eq!(wants.len(), if n < 2 { NEW_MAX } else { 1 });
            wants.iter().for_each(|(id, _)| control.end(*id));
        }
        assert_eq!((silent.len(), control.deadline()), (2 * NEW_MAX + 1, None));
    }

    #[test]
    fn a_control_socket_of_a_dead_daemon_is_replaced() {
        let path = std::env::temp_dir().join(format!("wavelane-control-{}.sock", std::process::id()));
        drop(UnixListener::bind(&path).unwrap());
        let mut control = Control::bind(&path).unwrap();
        assert!(matches!(Control::bind(&path), Err(ControlError::Busy(_))));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut client = UnixStream::connect(&path).unwrap();
        control.answer(Instant::ZERO, || "{}".into());
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}");
        drop(control);
        assert!(!path.exists());
    }
}
