//! Where peers without a configured address were last, kept in a file across restarts.
//!
//! Such a peer calls us, and does not know that we lost its session until it has waited in vain. So a gateway that starts
//! calls it first, at its last address. The file is not trusted: an answer must be made with the peer's key, and a wrong
//! address costs it a few handshake messages. Disks may be slow, so a thread writes.

use crate::config::{Config, PEERS_MAX, PEERS_SUFFIX, Peer};
use crate::epoch::{LOOK_EVERY, RETRY_EVERY, remedy};
use crate::{keys, names};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use wavelane_base::{Address, Instant, Span};
use wavelane_host::files;

/// A key, two addresses and what is between them.
const LINE_MAX: usize = 160;
/// A longer file is something else.
const FILE_MAX: u64 = (LINE_MAX * (PEERS_MAX + 2)) as u64;
/// The file's first line.
const HEADER: &str =
    "# wavelaned: where peers without an address were last (key, address, our address); may be deleted\n";
/// Why a file stays as it is.
const OTHER: &str = "it holds something else";
/// The file is written no more often than this, however fast peers move.
const WRITE_EVERY: Span = Span::from_secs(10);

/// Where a peer was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerAddress {
    pub(crate) address: Address,
    /// By which of our addresses it was reached: what lies between may let only that through.
    pub(crate) local: Option<IpAddr>,
}

/// By public key.
type Places = BTreeMap<[u8; keys::KEY_LEN], PeerAddress>;

/// A write that is going on.
#[derive(Debug)]
struct Write {
    places: Places,
    thread: JoinHandle<io::Result<()>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PeerAddresses {
    path: PathBuf,
    /// Only configured peers without an address, so no more than there are of them.
    known: Places,
    /// What the file holds.
    kept: Places,
    writing: Option<Write>,
    /// Not written before.
    write_at: Instant,
    looked: Instant,
    complained: bool,
}

impl PeerAddresses {
    /// Reads what was kept beside the epoch file, and gives back a line for the log if that cannot be used.
    pub(crate) fn open(now: Instant, config: &Config) -> (Self, Option<String>) {
        let path = files::with_suffix(&config.state, PEERS_SUFFIX);
        let (kept, remark, complained) = match read(&path) {
            Ok((kept, 0)) => (kept, None, false),
            Ok((kept, strange)) => (kept, Some(strange_lines(&path, strange)), false),
            Err(e) => (Places::new(), Some(unreadable(&path, &e)), true),
        };
        let known = Places::new();
        let mut own = Self { path, known, kept, writing: None, write_at: now, looked: now, complained };
        own.known = own.kept.clone();
        own.arrange(config);
        (own, remark)
    }
    /// The peers are those of `config` now: others are forgotten.
    pub(crate) fn arrange(&mut self, config: &Config) {
        self.known.retain(|key, _| config.peers.iter().any(|p| is_kept(p) && p.public_key == *key));
    }
    /// Where to call the peer: it has no address, is known, and a socket bound to `listen` can send there.
    pub(crate) fn place(&self, peer: &Peer, listen: SocketAddr) -> Option<PeerAddress> {
        let place = self.known.get(&peer.public_key).filter(|_| is_kept(peer))?;
        is_callable(place.address, listen).then_some(*place)
    }
    /// The peer has proven that it is there.
    pub(crate) fn note(&mut self, peer: &Peer, place: PeerAddress) {
        // A line or a station needs no call.
        if is_kept(peer) && place.address.ip().is_some() {
            self.known.insert(peer.public_key, place);
        }
    }
    /// Time has passed: writes what is to be written. Gives back a line for the log.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<String> {
        self.looked = now;
        let mut failed = None;
        if let Some(write) = self.writing.take_if(|w| w.thread.is_finished()) {
            let ended = write.thread.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()));
            match ended {
                Ok(()) => (self.kept, self.complained) = (write.places, false),
                Err(e) => failed = Some(e),
            }
        }
        if failed.is_none() && self.is_due() && self.write_at <= now {
            self.write_at = now + WRITE_EVERY;
            let (path, places, text) = (self.path.clone(), self.known.clone(), text(&self.known));
            let work = move || write(&path, &text);
            match std::thread::Builder::new().name("addresses".into()).spawn(work) {
                Ok(thread) => self.writing = Some(Write { places, thread }),
                Err(e) => failed = Some(e),
            }
        }
        let why = failed?;
        self.write_at = now + RETRY_EVERY;
        let first = !std::mem::replace(&mut self.complained, true);
        first.then(|| {
            format!(
                "warning: cannot keep in {} where peers without an address were last ({why}), so after a restart we wait for their calls: {}",
                self.path.display(),
                remedy(&why)
            )
        })
    }
    fn is_due(&self) -> bool {
        self.writing.is_none() && self.known != self.kept
    }
    /// When [`PeerAddresses::tick`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let writing = self.writing.is_some().then(|| self.looked + LOOK_EVERY);
        writing.or_else(|| self.is_due().then_some(self.write_at))
    }
}

/// Where the peers that call us were last.
pub(crate) fn last(config: &Config) -> BTreeSet<IpAddr> {
    let (known, _) = PeerAddresses::open(Instant::ZERO, config);
    let places = config.peers.iter().filter_map(|peer| known.place(peer, config.listen)?.address.ip());
    places.map(|at| at.ip().to_canonical()).collect()
}

/// Who has an address in the configuration is called there.
fn is_kept(peer: &Peer) -> bool {
    peer.address.is_none()
}

/// Whether `address` can belong to a host, and has an IP version that our socket can reach.
fn is_callable(address: Address, listen: SocketAddr) -> bool {
    let Some(address) = address.ip() else { return false };
    let ip = address.ip().to_canonical();
    let nobodys = ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::from([255; 4]);
    address.port() != 0 && !nobodys && !names::usable(&[address], listen).is_empty()
}

/// What the file says, and how many of its lines say something else.
fn read(path: &Path) -> io::Result<(Places, usize)> {
    match files::read_small(path, FILE_MAX) {
        Ok(bytes) => match str::from_utf8(&bytes).ok().filter(|text| is_ours(text)) {
            Some(text) => Ok(parse(text)),
            None => Err(io::Error::new(ErrorKind::InvalidData, OTHER)),
        },
        Err(e) if e.kind() == ErrorKind::NotFound => Ok((Places::new(), 0)),
        Err(e) => Err(e),
    }
}

/// Whether we wrote it: our first line, or nothing but places.
fn is_ours(text: &str) -> bool {
    text.starts_with(HEADER) || text.lines().filter(|l| !l.is_empty()).all(|line| parse_line(line).is_some())
}

/// Whether something else is in the file's place, which stays.
pub(crate) fn is_foreign(path: &Path) -> bool {
    read(path).is_err_and(|e| e.kind() == ErrorKind::InvalidData)
}

/// Replaces what an earlier start wrote, and nothing else: what cannot be read may be anybody's.
fn write(path: &Path, text: &str) -> io::Result<()> {
    read(path).map_err(|why| io::Error::new(ErrorKind::AlreadyExists, why.to_string()))?;
    files::replace(path, text.as_bytes())
}

fn strange_lines(path: &Path, count: usize) -> String {
    format!("{count} lines in {} are no peer's address; they go when it is written next", path.display())
}

fn unreadable(path: &Path, why: &io::Error) -> String {
    format!(
        "warning: cannot read in {} where peers without an address were last ({why}), so we wait for their calls, and it is not written over: remove it if nobody needs it",
        path.display()
    )
}

/// What the lines say, and how many say something else. Their number is bounded by [`FILE_MAX`].
fn parse(text: &str) -> (Places, usize) {
    let (mut places, mut strange) = (Places::new(), 0);
    for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
        match parse_line(line) {
            Some((key, place)) if places.len() < PEERS_MAX => drop(places.insert(key, place)),
            _ => strange += 1,
        }
    }
    (places, strange)
}

fn parse_line(line: &str) -> Option<([u8; keys::KEY_LEN], PeerAddress)> {
    let mut words = line.split(' ');
    let key = keys::key_from_base64(words.next()?)?;
    let address = words.next()?.parse().ok()?;
    let local = words.next().map(|word| word.parse().ok());
    // A third word must be an address, and there is no fourth.
    let local = if local == Some(None) || words.next().is_some() { return None } else { local.flatten() };
    Some((key, PeerAddress { address, local }))
}

fn text(places: &Places) -> String {
    let line = |(key, place): (&[u8; keys::KEY_LEN], &PeerAddress)| {
        let local = place.local.map(|ip| format!(" {ip}")).unwrap_or_default();
        format!("{} {}{local}\n", keys::to_base64(key), place.address)
    };
    HEADER.to_owned() + &places.iter().map(line).collect::<String>()
}

#[cfg(test)]
#[path = "peer_addresses_tests.rs"]
mod tests;
