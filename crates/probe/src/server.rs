//! The server as a machine: for every incoming datagram at most one answer, never longer than the request.
//!
//! It keeps no state about a sender until that has repeated a cookie sent to its address.

use crate::limits::{Bucket, Buckets, Budgets, Limits, SECONDS_SAVED, site_of, source_of};
use crate::packet::{Cookie, Echo, Grant, Message, Nonce, Probe, Refusal, Tally, Token};
use ring::hmac;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::{Entropy, Instant, Span};

/// Maximum number of trains in one session; probes of further ones are dropped.
pub const TRAINS_MAX: usize = 256;
/// A cookie is valid in the time slot in which it was made and in the next.
const COOKIE_SLOT: Span = Span::from_secs(10);
/// This many numbers below the highest are distinguished from copies, in words of 64.
const WINDOW_WORDS: usize = 16;
/// A session ends after this time without a datagram or connection.
const IDLE_MAX: Span = Span::from_secs(60);
/// A session, or a measurement over HTTP, that says nothing for this long gives way to another where all places are taken: probes come
/// several times a second, and a client whose session is gone opens another.
const GIVES_WAY_AFTER: Span = Span::from_secs(5);
/// A measurement over HTTP ends after this time without a request of load.
const VISIT_PAUSE: Span = Span::from_secs(10);

/// An answer, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// Octets written.
    pub len: usize,
    /// The differentiated-services code point to send it with.
    pub dscp: u8,
}

/// Counters of datagrams without an answer, and of refused connections and requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// Not of this protocol, or malformed.
    pub malformed: u64,
    /// Cookies that were not ours, expired, or of another address.
    pub bad_cookie: u64,
    /// Without a session, or from an address other than its client's.
    pub no_session: u64,
    /// Unverified senders beyond the rate.
    pub strangers: u64,
    /// Probes beyond a session's rate or trains.
    pub too_many: u64,
    /// Times that accepting was paused because there were no descriptors left.
    pub pauses: u64,
    /// Connections closed at once: no slot, thread or descriptor left.
    pub no_place: u64,
    /// Connections without a request that lost their slot to others.
    pub gave_way: u64,
    /// HTTP requests beyond a source's rate.
    pub requests: u64,
    /// Silent measurements that lost their place to others.
    pub silent: u64,
    /// Datagrams that the socket dropped before they were read.
    pub socket: u64,
}

impl Drops {
    /// Connections and requests among them.
    pub fn of_connections(&self) -> u64 {
        self.pauses + self.no_place + self.gave_way + self.requests
    }
}

#[derive(Debug, Default)]
struct Train {
    tally: Tally,
    highest: u32,
    window: [u64; WINDOW_WORDS],
}

#[derive(Debug)]
struct Session {
    client: SocketAddr,
    nonce: Nonce,
    grant: Grant,
    opened: Instant,
    seen: Instant,
    trains: BTreeMap<u16, Train>,
    bucket: Bucket,
    connections: u8,
    received: u64,
    moved: u64,
    /// The socket's drop count when it was opened.
    socket_drops: u64,
}

/// HTTP load of a source, where there are no sessions: it lasts from its first request of load until there was none for [`VISIT_PAUSE`].
#[derive(Debug)]
struct Visit {
    until: Instant,
    seen: Instant,
    requests: u8,
}

/// Limits of a connection of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admission {
    /// It must end by then.
    pub until: Instant,
}

/// Most answers a second to who only asks for the time, all senders together: fifty shapers that ask every 50 ms.
const TIMES_PER_SECOND: u32 = 1_000;

/// The server.
pub struct Server {
    limits: Limits,
    key: hmac::Key,
    entropy: Entropy,
    sessions: BTreeMap<Token, Session>,
    visits: BTreeMap<IpAddr, Visit>,
    budgets: Budgets,
    strangers: Bucket,
    times: Bucket,
    requests: Buckets,
    drops: Drops,
}

impl Server {
    /// A server without sessions.
    pub fn new(limits: Limits, mut entropy: Entropy) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        Self {
            times: Bucket::full(Instant::ZERO, TIMES_PER_SECOND.into(), 1),
            strangers: Bucket::full(Instant::ZERO, limits.strangers_per_second.into(), 1),
            limits,
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            entropy,
            sessions: BTreeMap::new(),
            visits: BTreeMap::new(),
            budgets: Budgets::default(),
            requests: Buckets::default(),
            drops: Drops::default(),
        }
    }

    /// Current number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
    /// The drop counters.
    pub fn drops(&self) -> Drops {
        self.drops
    }
    /// Takes over the kernel's drop count of the socket, which wraps.
    pub fn note_socket_drops(&mut self, count: u32) {
        self.drops.socket += u64::from(count.wrapping_sub(self.drops.socket as u32));
    }
    pub(crate) fn drops_mut(&mut self) -> &mut Drops {
        &mut self.drops
    }

    /// Processes a datagram that arrived at `arrived`, not after `now`, and writes its answer into `out`.
    pub fn handle(
        &mut self,
        now: Instant,
        arrived: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut [u8],
    ) -> Option<Answer> {
        let Ok(message) = Message::parse(datagram) else {
            self.drops.malformed += 1;
            return None;
        };
        let (answer, dscp, len) = match message {
            Message::Hello(nonce) => (self.hello(now, from, nonce)?, 0, 0),
            Message::Open(nonce, cookie, seconds) => (self.open(now, from, nonce, cookie, seconds)?, 0, 0),
            Message::Probe(probe) => (self.probe(now, arrived, from, probe)?, probe.dscp, datagram.len()),
            Message::Count(token, train) => {
                let dropped = self.drops.socket;
                let session = self.session(now, from, &token)?;
                let mut tally = session.trains.get(&train).map_or(Tally::default(), |train| train.tally);
                tally.loaded = session.received;
                tally.socket_drops = u32::try_from(dropped.saturating_sub(session.socket_drops)).unwrap_or(u32::MAX);
                (Message::Counted(token, train, tally), 0, 0)
            }
            Message::Close(token) => {
                self.session(now, from, &token)?;
                self.end(now, &token);
                return None;
            }
            Message::Ask(nonce) => {
                if !self.times.take(now) {
                    self.drops.strangers += 1;
                    return None;
                }
                (Message::Time(nonce, arrived.as_nanos(), now.as_nanos()), 0, 0)
            }
            Message::Time(..)
            | Message::Cookie(..)
            | Message::Welcome(..)
            | Message::Refused(..)
            | Message::Echo(_)
            | Message::Counted(..) => {
                // Two servers must not answer each other.
                self.drops.malformed += 1;
                return None;
            }
        };
        let room = out.len().min(datagram.len());
        // A request longer than any of ours gets no answer.
        match answer.emit(&mut out[..room], len) {
            Ok(len) => Some(Answer { len, dscp }),
            Err(_) => {
                self.drops.malformed += 1;
                None
            }
        }
    }

    /// Removes expired state.
    pub fn expire(&mut self, now: Instant) {
        let over = |s: &Session| now >= s.until() || (s.connections == 0 && now.since(s.seen) >= IDLE_MAX);
        let ended: Vec<Token> = self.sessions.iter().filter(|(_, s)| over(s)).map(|(token, _)| *token).collect();
        ended.iter().for_each(|token| self.end(now, token));
        let over = |v: &Visit| v.requests == 0 && (now >= v.until || now.since(v.seen) >= VISIT_PAUSE);
        let left: Vec<IpAddr> = self.visits.iter().filter(|(_, v)| over(v)).map(|(source, _)| *source).collect();
        left.into_iter().for_each(|source| self.end_visit(now, source));
    }

    fn end(&mut self, now: Instant, token: &Token) {
        if let Some(session) = self.sessions.remove(token) {
            let unused = session.until().since(now).as_nanos() / 1_000_000_000;
            self.budgets.give_back(source_of(session.client.ip()), unused);
        }
    }

    fn hello(&mut self, now: Instant, from: SocketAddr, nonce: Nonce) -> Option<Message> {
        if !self.strangers.take(now) {
            self.drops.strangers += 1;
            return None;
        }
        Some(Message::Cookie(nonce, self.cookie(slot_of(now), from, nonce)))
    }

    fn cookie(&self, slot: u64, from: SocketAddr, nonce: Nonce) -> Cookie {
        let mut context = hmac::Context::with_key(&self.key);
        match from.ip().to_canonical() {
            IpAddr::V4(v4) => context.update(&v4.octets()),
            IpAddr::V6(v6) => context.update(&v6.octets()),
        }
        context.update(&from.port().to_be_bytes());
        context.update(&nonce);
        context.update(&slot.to_be_bytes());
        let tag = context.sign();
        let mut cookie = [0; 16];
        cookie.copy_from_slice(&tag.as_ref()[..16]);
        cookie
    }

    fn open(&mut self, now: Instant, from: SocketAddr, nonce: Nonce, cookie: Cookie, seconds: u16) -> Option<Message> {
        let slot = slot_of(now);
        let ours = [Some(slot), slot.checked_sub(1)].into_iter().flatten();
        // Compared in constant time: guessing a cookie octet by octet would allow spoofed addresses.
        let mut matches = false;
        for slot in ours {
            let expected = self.cookie(slot, from, nonce);
            matches |= expected.iter().zip(cookie).fold(0, |odd, (a, b)| odd | (a ^ b)) == 0;
        }
        if !matches {
            self.drops.bad_cookie += 1;
            return None;
        }
        self.expire(now);
        // The answer was lost: it is repeated.
        if let Some((token, session)) = self.sessions.iter().find(|(_, s)| s.client == from && s.nonce == nonce) {
            return Some(Message::Welcome(nonce, *token, session.grant));
        }
        Some(match self.admit(now, from, nonce, seconds) {
            Ok((token, grant)) => Message::Welcome(nonce, token, grant),
            Err(refusal) => Message::Refused(nonce, refusal),
        })
    }

    fn admit(&mut self, now: Instant, from: SocketAddr, nonce: Nonce, seconds: u16) -> Result<(Token, Grant), Refusal> {
        let source = source_of(from.ip());
        self.room(now, source)?;
        let seconds = seconds.min(self.limits.session_seconds).max(1);
        let bytes = self.budgets.take_time(now, source, seconds.into(), &self.limits)?;
        let grant = Grant {
            seconds,
            probes_per_second: self.limits.probes_per_second,
            connections: self.limits.connections,
            bytes,
        };
        let mut token = [0; 16];
        self.entropy.fill(&mut token);
        let session = Session {
            client: from,
            nonce,
            grant,
            opened: now,
            seen: now,
            trains: BTreeMap::new(),
            bucket: Bucket::full(now, self.limits.probes_per_second.into(), SECONDS_SAVED),
            connections: 0,
            received: 0,
            moved: 0,
            socket_drops: self.drops.socket,
        };
        self.sessions.insert(token, session);
        Ok((token, grant))
    }

    /// Makes room for one more measurement of `source`, if that is possible: a source has a few places, a site half of them, and
    /// whoever has been silent for longest gives way.
    fn room(&mut self, now: Instant, source: IpAddr) -> Result<(), Refusal> {
        let site = site_of(source);
        self.room_within(now, self.limits.sessions_per_source, |other| other == source).ok_or(Refusal::TooMany)?;
        let of_site = (self.limits.sessions / 2).max(self.limits.sessions_per_source);
        self.room_within(now, of_site, |other| site_of(other) == site).ok_or(Refusal::TooMany)?;
        self.room_within(now, self.limits.sessions, |_| true).ok_or(Refusal::Full)
    }

    /// The same among the sources that `among` names, which have `most` places.
    fn room_within(&mut self, now: Instant, most: usize, among: impl Fn(IpAddr) -> bool) -> Option<()> {
        let sessions = || self.sessions.iter().filter(|(_, s)| among(source_of(s.client.ip())));
        let visits = || self.visits.iter().filter(|(source, _)| among(**source));
        if sessions().count() + visits().count() < most {
            return Some(());
        }
        let session = sessions().min_by_key(|(_, s)| s.seen).map(|(token, s)| (s.seen, *token));
        let visit = visits().min_by_key(|(_, v)| v.seen).map(|(source, v)| (v.seen, *source));
        let silent = |seen: Instant| now.since(seen) >= GIVES_WAY_AFTER;
        match (session, visit) {
            (Some((seen, token)), _) if silent(seen) && visit.is_none_or(|(other, _)| seen <= other) => {
                self.end(now, &token);
            }
            (_, Some((seen, source))) if silent(seen) => self.end_visit(now, source),
            _ => return None,
        }
        self.drops.silent += 1;
        Some(())
    }

    fn end_visit(&mut self, now: Instant, source: IpAddr) {
        if let Some(visit) = self.visits.remove(&source) {
            self.budgets.give_back(source, visit.until.since(now).as_nanos() / 1_000_000_000);
        }
    }

    /// Whether an HTTP request from `from` is answered: each source has a rate limit over all its connections.
    pub fn admit_question(&mut self, now: Instant, from: IpAddr) -> bool {
        let admitted = self.requests.take(now, source_of(from), self.limits.requests_per_second.into());
        self.drops.requests += u64::from(!admitted);
        admitted
    }

    /// Admits a request from `from` for load over HTTP; returns its deadline. Its bytes must be counted, and its end reported.
    pub fn admit_request(&mut self, now: Instant, from: IpAddr) -> Result<Admission, Refusal> {
        self.expire(now);
        let source = source_of(from);
        if !self.visits.contains_key(&source) {
            self.room(now, source)?;
            let seconds = u64::from(self.limits.session_seconds);
            self.budgets.take_time(now, source, seconds, &self.limits)?;
            self.visits.insert(source, Visit { until: now + Span::from_secs(seconds), seen: now, requests: 0 });
        }
        let visit = self.visits.get_mut(&source).ok_or(Refusal::Full)?;
        if visit.requests >= self.limits.connections || now >= visit.until {
            return Err(Refusal::TooMany);
        }
        visit.requests += 1;
        visit.seen = now;
        Ok(Admission { until: visit.until })
    }

    /// Counts load over HTTP; false if its request must end.
    pub fn count_request(&mut self, now: Instant, from: IpAddr, octets: u64) -> bool {
        let source = source_of(from);
        let Some(visit) = self.visits.get_mut(&source) else { return false };
        visit.seen = now;
        let in_time = now < visit.until;
        self.budgets.take_bytes(source, octets, &self.limits) && in_time
    }

    /// Reports the end of an admitted request.
    pub fn end_request(&mut self, now: Instant, from: IpAddr) {
        if let Some(visit) = self.visits.get_mut(&source_of(from)) {
            visit.requests = visit.requests.saturating_sub(1);
            visit.seen = now;
        }
    }

    /// The session with that token if the datagram comes from its client and it has not expired.
    fn session(&mut self, now: Instant, from: SocketAddr, token: &Token) -> Option<&mut Session> {
        let found = self.sessions.get_mut(token).filter(|s| s.client == from && now < s.until());
        match found {
            Some(session) => {
                session.seen = now;
                Some(session)
            }
            None => {
                self.drops.no_session += 1;
                None
            }
        }
    }

    fn probe(&mut self, now: Instant, arrived: Instant, from: SocketAddr, probe: Probe) -> Option<Message> {
        let session = self.session(now, from, &probe.token)?;
        let known = session.trains.contains_key(&probe.train) || session.trains.len() < TRAINS_MAX;
        let allowed = session.bucket.take(now);
        let loaded = session.received;
        let answered = known.then(|| session.trains.entry(probe.train).or_default()).and_then(|train| {
            let counts = allowed && train.count(probe.number);
            let echo = Echo {
                probe,
                received: arrived.as_nanos(),
                answered: now.as_nanos(),
                order: train.tally.received,
                highest: train.highest,
                window: train.window[0],
                loaded,
            };
            if !allowed {
                train.tally.refused = train.tally.refused.saturating_add(1);
            }
            counts.then_some(Message::Echo(echo))
        });
        if !allowed || !known {
            self.drops.too_many += 1;
        }
        answered
    }

    /// Admits a connection from `from` for the session's load, if it belongs to that client and the limit allows.
    pub fn admit_load(&mut self, now: Instant, from: IpAddr, token: &Token) -> Option<Admission> {
        let session = self.sessions.get_mut(token)?;
        let theirs = source_of(session.client.ip()) == source_of(from) && now < session.until();
        if !theirs || session.connections >= session.grant.connections || session.moved >= session.grant.bytes {
            return None;
        }
        session.connections += 1;
        session.seen = now;
        Some(Admission { until: session.until() })
    }

    /// Counts load; false if the connection must end.
    pub fn count_load(&mut self, now: Instant, token: &Token, received: u64, sent: u64) -> bool {
        let Some(session) = self.sessions.get_mut(token) else { return false };
        session.received = session.received.saturating_add(received);
        let moved = received.saturating_add(sent);
        session.moved = session.moved.saturating_add(moved);
        session.seen = now;
        let within = session.moved < session.grant.bytes && now < session.until();
        self.budgets.take_bytes(source_of(session.client.ip()), moved, &self.limits) && within
    }

    /// Counts octets received while a connection was being closed, so that they also count towards the source's budget.
    pub fn count_drained(&mut self, from: IpAddr, octets: u64) {
        self.budgets.take_bytes(source_of(from), octets, &self.limits);
    }

    /// Reports the end of an admitted connection.
    pub fn end_load(&mut self, now: Instant, token: &Token) {
        if let Some(session) = self.sessions.get_mut(token) {
            session.connections = session.connections.saturating_sub(1);
            session.seen = now;
        }
    }
}

fn slot_of(now: Instant) -> u64 {
    now.as_nanos() / COOKIE_SLOT.as_nanos()
}

impl Session {
    fn until(&self) -> Instant {
        self.opened + Span::from_secs(self.grant.seconds.into())
    }
}

impl Train {
    /// Counts a probe's arrival; false if it is a copy, or too old to decide.
    fn count(&mut self, number: u32) -> bool {
        let first = self.tally.received == 0;
        if first || number > self.highest {
            let ahead = if first { u64::MAX } else { u64::from(number - self.highest) };
            self.shift(ahead);
            self.highest = number;
            self.window[0] |= 1;
        } else {
            let back = (self.highest - number) as usize;
            let Some(word) = self.window.get_mut(back / 64) else {
                self.tally.refused = self.tally.refused.saturating_add(1);
                return false;
            };
            let bit = 1 << (back % 64);
            if *word & bit != 0 {
                self.tally.duplicates = self.tally.duplicates.saturating_add(1);
                return false;
            }
            *word |= bit;
            self.tally.reordered = self.tally.reordered.saturating_add(1);
        }
        self.tally.received = self.tally.received.saturating_add(1);
        true
    }

    /// Shifts the window by `ahead` higher numbers.
    fn shift(&mut self, ahead: u64) {
        let words = usize::try_from(ahead / 64).unwrap_or(WINDOW_WORDS).min(WINDOW_WORDS);
        let bits = ahead % 64;
        for i in (0..WINDOW_WORDS).rev() {
            let low = i.checked_sub(words).map_or(0, |from| self.window[from]);
            let lower = i.checked_sub(words + 1).map_or(0, |from| self.window[from]);
            self.window[i] = if bits == 0 { low } else { low << bits | lower >> (64 - bits) };
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
