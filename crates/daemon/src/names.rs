//! Peers' and their lanes' names, looked up beside the packet path: at the start, at every reload, and again and again while a peer is silent.
//!
//! A name server may take a minute for an answer, or never give one. Each lookup has a thread of its own, which ends
//! with it; the packet thread only hears a bell.

use crate::config::{Config, Peer};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use wavelane_base::{Address, Instant, Span};

/// Most lookups at once; the others wait for their turn.
const LOOKUPS_MAX: usize = 8;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// First wait before a name is looked up again; doubles up to [`AGAIN_MAX`].
const AGAIN_FIRST: Span = Span::from_secs(1);
/// Longest wait before the name of a silent peer is looked up again.
const AGAIN_MAX: Span = Span::from_secs(60);
/// How long an address has to answer before another of the same name is tried.
const TRIAL: Span = Span::from_secs(5);

/// Finds the addresses of `host:port`.
type Lookup = fn(&str) -> io::Result<Vec<SocketAddr>>;

/// Asks the system, which may take its time.
pub(crate) fn look_up(text: &str) -> io::Result<Vec<SocketAddr>> {
    Ok(text.to_socket_addrs()?.take(ADDRESSES_MAX).collect())
}

/// Those that a socket bound to `listen` can reach: one bound to `[::]` has both IP versions.
pub(crate) fn usable(found: &[SocketAddr], listen: SocketAddr) -> Vec<SocketAddr> {
    let both = listen.is_ipv6() && listen.ip().is_unspecified();
    found.iter().copied().filter(|a| both || a.is_ipv4() == listen.is_ipv4()).collect()
}

/// What one lookup found.
struct Answer {
    text: String,
    found: io::Result<Vec<SocketAddr>>,
}

/// What a lookup changed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The peer is to be called there from now on.
    At(Address),
    /// Nothing was found; said once until something is.
    Nowhere(String),
}

/// The address of one lane to a peer.
#[derive(Debug)]
struct Entry {
    key: [u8; 32],
    /// The peer's place, and that of the lane among those out to it.
    way: (usize, usize),
    /// What its socket is bound to: which addresses it can reach.
    bound: SocketAddr,
    text: Option<String>,
    known: Option<Address>,
    /// Since when it is called there.
    tried: Instant,
    asking: bool,
    /// The lookup began before the peer answered: its result comes too late.
    late: bool,
    due: Option<Instant>,
    /// The peer answers: one lookup is enough.
    once: bool,
    wait: Span,
    complained: bool,
    /// Why the last lookup found nothing.
    failure: Option<String>,
}

/// The names of all peers' ways, in the configuration's order.
#[derive(Debug)]
pub(crate) struct Names {
    entries: Vec<Entry>,
    peers: usize,
    lookup: Lookup,
    running: usize,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    ring: UnixStream,
    /// Readable when there are answers.
    pub(crate) bell: UnixStream,
}

impl Names {
    /// Nothing is looked up before the first [`Names::tick`].
    pub(crate) fn new(now: Instant, config: &Config) -> io::Result<Self> {
        Self::with(now, config, look_up)
    }
    fn with(now: Instant, config: &Config, lookup: Lookup) -> io::Result<Self> {
        let (ring, bell) = UnixStream::pair()?;
        ring.set_nonblocking(true)?;
        bell.set_nonblocking(true)?;
        let (sender, answers) = channel();
        let mut names = Self { entries: Vec::new(), peers: 0, lookup, running: 0, sender, answers, ring, bell };
        names.arrange(now, config);
        Ok(names)
    }
    /// The peers are those of `config` now. What is known of a name stays, and it is looked up again.
    pub(crate) fn arrange(&mut self, now: Instant, config: &Config) {
        let mut before = std::mem::take(&mut self.entries);
        let mut entry = |peer: &Peer, way: (usize, usize), (text, bound): (Option<String>, SocketAddr)| {
            // Lanes before it may have come or gone.
            let same = |e: &Entry| e.key == peer.public_key && e.text == text && e.bound == bound;
            let here = |e: &Entry| same(e) && e.way.1 == way.1;
            if let Some(i) = before.iter().position(here).or_else(|| before.iter().position(same)) {
                let entry = before.swap_remove(i);
                let once = entry.is_name() && entry.due.is_none();
                let due = if once { Some(now) } else { entry.due };
                return Entry { way, due, once, ..entry };
            }
            let known = text.as_ref().and_then(|text| text.parse().ok());
            let due = (text.is_some() && known.is_none()).then_some(now);
            Entry {
                key: peer.public_key,
                way,
                bound,
                text,
                known,
                tried: now,
                asking: false,
                late: false,
                due,
                once: false,
                wait: AGAIN_FIRST,
                complained: false,
                failure: None,
            }
        };
        self.peers = config.peers.len();
        self.entries.clear();
        for (place, peer) in config.peers.iter().enumerate() {
            for (lane, told) in peer.places(config.listen).into_iter().enumerate() {
                self.entries.push(entry(peer, (place, lane), told));
            }
        }
    }
    /// Where each peer is to be called, by each lane out, as far as that is known.
    pub(crate) fn addresses(&self) -> Vec<Vec<Option<Address>>> {
        let mut all = vec![Vec::new(); self.peers];
        self.entries.iter().for_each(|e| all[e.way.0].push(e.known));
        all
    }
    /// Why the name of a lane out has no address, if a lookup found none.
    pub(crate) fn failure(&self, peer: usize, lane: usize) -> Option<&str> {
        self.entries.iter().find(|e| e.way == (peer, lane))?.failure.as_deref()
    }
    /// The peer does not answer: it may have another address by now.
    pub(crate) fn silent(&mut self, now: Instant, peer: usize) {
        self.entries.iter_mut().filter(|e| e.way.0 == peer).for_each(|e| e.silent(now));
    }
    /// The peer answers: its names are left alone.
    pub(crate) fn up(&mut self, peer: usize) {
        self.entries.iter_mut().filter(|e| e.way.0 == peer).for_each(Entry::up);
    }
    /// For a peer that answers, the lanes with names: `failed` says by which nothing comes back.
    pub(crate) fn look_at_lanes(&mut self, now: Instant, failed: impl Fn(usize, usize) -> Option<bool>) {
        for e in self.entries.iter_mut().filter(|e| e.is_name()) {
            match failed(e.way.0, e.way.1) {
                Some(true) => e.silent(now),
                Some(false) if e.due.is_some() => e.up(),
                _ => {}
            }
        }
    }
    /// Starts the lookups that are due, the longest due first.
    pub(crate) fn tick(&mut self, now: Instant) {
        let is_due = |e: &Entry| !e.asking && e.due.is_some_and(|due| due <= now);
        let mut due: Vec<usize> = (0..self.entries.len()).filter(|i| is_due(&self.entries[*i])).collect();
        due.sort_by_key(|i| self.entries[*i].due);
        for i in due {
            let Some(text) = self.entries[i].text.clone() else { continue };
            if self.entries.iter().any(|e| e.asking && e.text.as_ref() == Some(&text)) {
                // The answer that is awaited is for all lanes of that name.
                self.entries[i].asking = true;
                self.entries[i].again(now);
                continue;
            }
            if self.running >= LOOKUPS_MAX {
                return;
            }
            let (sender, ring, lookup) = (self.sender.clone(), self.ring.try_clone(), self.lookup);
            let work = move || {
                let found = lookup(&text);
                let _ = sender.send(Answer { text, found });
                // A bell that is full rings already.
                let _ = ring.and_then(|mut ring| ring.write(&[1]));
            };
            // If no thread starts it is tried again as if nothing had been found.
            let started = std::thread::Builder::new().name("lookup".into()).spawn(work).is_ok();
            self.running += usize::from(started);
            let e = &mut self.entries[i];
            e.asking = started;
            e.again(now);
        }
    }
    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let waiting = self.entries.iter().filter(|e| !e.asking && self.running < LOOKUPS_MAX);
        waiting.filter_map(|e| e.due).min()
    }
    /// What the lookups that have ended changed, by peer. Silent peers' names stay due.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<(usize, usize, News)> {
        while matches!(self.bell.read(&mut [0; 64]), Ok(n) if n > 0) {}
        let mut news = Vec::new();
        while let Ok(answer) = self.answers.try_recv() {
            self.running -= 1;
            let (all, why) = match answer.found {
                Ok(all) if all.is_empty() => (all, "no such name".into()),
                Ok(all) => {
                    let why = format!("only {all:?}, which its socket (`listen`, or the lane's `local`) cannot reach");
                    (all, why)
                }
                Err(e) => (Vec::new(), e.to_string()),
            };
            for e in self.entries.iter_mut().filter(|e| e.text.as_ref() == Some(&answer.text)) {
                e.asking = false;
                if std::mem::take(&mut e.late) {
                    continue;
                }
                let found = usable(&all, e.bound);
                let (peer, lane) = e.way;
                e.failure = found.is_empty().then(|| why.clone());
                if found.is_empty() {
                    if !std::mem::replace(&mut e.complained, true) {
                        news.push((peer, lane, News::Nowhere(why.clone())));
                    }
                } else {
                    news.extend(e.settle(now, &found).map(|at| (peer, lane, News::At(at))));
                }
            }
        }
        news
    }
}

impl Entry {
    fn is_name(&self) -> bool {
        self.text.as_ref().is_some_and(|text| text.parse::<Address>().is_err())
    }
    fn silent(&mut self, now: Instant) {
        if self.is_name() {
            self.due.get_or_insert(now);
            self.once = false;
            self.late = false;
        }
    }
    fn up(&mut self) {
        if self.known.is_some() {
            self.due = None;
            self.wait = AGAIN_FIRST;
            self.late = self.asking;
        }
    }
    fn again(&mut self, now: Instant) {
        self.due = if std::mem::take(&mut self.once) { None } else { Some(now + self.wait) };
        self.wait = self.wait.times(2).min(AGAIN_MAX);
    }
    /// Chooses among what was found; `Some` if that is another address than before.
    fn settle(&mut self, now: Instant, found: &[SocketAddr]) -> Option<Address> {
        let place = self.known.and_then(|known| found.iter().position(|a| Address::Ip(*a) == known));
        let choice = match place {
            // The next address is tried only if this one was given its time and did not answer.
            Some(i) if self.due.is_some() && now.since(self.tried) >= TRIAL => found[(i + 1) % found.len()],
            Some(i) => found[i],
            None => found[0],
        };
        self.complained = false;
        let choice = Address::Ip(choice);
        if self.known == Some(choice) {
            return None;
        }
        self.known = Some(choice);
        self.tried = now;
        self.known
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
