//! A proxy to which hosts of a link are led by its claims on their routers' addresses, and these by claims on theirs (see `claims`): the sockets.

use super::beside::{Told, Work};
use super::claims::{Claims, Mac, Message, read_arp, read_discovery};
use super::config::Settings;
use super::places::Claimed;
use super::status;
use std::io;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::NodeClock;
use wavelane_host::neighbors::{NeighborSocket, Protocol};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::routes::{Device, devices};
use wavelane_host::{addresses_of, interface_index};

/// Messages of a link that are read before anything else is looked after; more wait in a socket, whose room is bounded.
const MESSAGES_PER_TURN: usize = 64;
/// How often links are looked for that are not there, or are others by now.
const LOOK_EVERY: Span = Span::from_secs(1);
/// The longest message: an advertisement fills a packet of its link.
const ROOM: usize = 2_048;
/// How often each is told the truth at the end: nobody confirms it.
const LAST_WORDS: usize = 2;
/// How long the link may take for that, of all interfaces: who stops us waits for it.
const LAST_WORDS_WAIT: Span = Span::from_secs(2);

/// One link.
struct Link {
    name: String,
    /// While it is there.
    open: Option<Open>,
}

/// What claims name of a link's device. If it changes they say what is false.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Own {
    index: u32,
    ethernet: Mac,
}

struct Open {
    own: Own,
    arp: NeighborSocket,
    /// `None` where there is no IPv6.
    discovery: Option<NeighborSocket>,
    claims: Claims,
}

/// See the module's description.
pub(super) struct Neighbors {
    claimed: Claimed,
    links: Vec<Link>,
    look_at: Instant,
    buffer: Vec<u8>,
}

impl Own {
    fn of(name: &str, devices: &[Device]) -> Option<Self> {
        let index = interface_index(name)?;
        let ethernet = devices.iter().find(|device| device.index == index)?.ethernet?;
        Some(Self { index, ethernet })
    }
}

impl Open {
    fn new(name: &str, own: Own, claimed: &Claimed) -> io::Result<Self> {
        let claims = Claims::new(own.ethernet, &claimed.routers, &claimed.clients);
        let arp = NeighborSocket::open(name, Protocol::Arp)?;
        Ok(Self { own, arp, discovery: NeighborSocket::open(name, Protocol::Discovery).ok(), claims })
    }
    fn turn(&mut self, now: Instant, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..MESSAGES_PER_TURN {
            let Some((len, from)) = self.arp.receive(buffer)? else { break };
            match read_arp(&buffer[..len], from) {
                Some(heard) => self.claims.handle(now, heard),
                None => self.claims.count("dropped_arp_malformed"),
            }
        }
        for _ in 0..MESSAGES_PER_TURN {
            let Some((len, from)) = self.discovery.as_ref().map(|s| s.receive(buffer)).transpose()?.flatten() else {
                break;
            };
            // Solicitations of routers are none of these.
            if let Some(heard) = read_discovery(&buffer[..len], from) {
                self.claims.handle(now, heard);
            }
        }
        self.claims.handle_timeout(now);
        while let Some(message) = self.claims.poll_message() {
            self.send(&message);
        }
        Ok(())
    }
    fn send(&self, (message, is_six, to): &Message) {
        let socket = if *is_six { self.discovery.as_ref() } else { Some(&self.arp) };
        // What is lost is said again.
        let _ = socket.map(|socket| socket.send(message, *to));
    }
    /// Waits for a link that is busy. Returns whether it was sent.
    fn send_until(&self, (message, is_six, to): &Message, until: Instant) -> bool {
        let socket = if *is_six { self.discovery.as_ref() } else { Some(&self.arp) };
        socket.is_some_and(|socket| socket.send_within(message, *to, || NodeClock.until(until)).is_ok())
    }
}

impl Neighbors {
    pub(super) fn new(settings: &Settings) -> Self {
        let link = |name: &String| Link { name: name.clone(), open: None };
        Self {
            claimed: settings.claimed.clone(),
            links: settings.interfaces.iter().map(link).collect(),
            look_at: Instant::ZERO,
            buffer: vec![0; ROOM],
        }
    }
}

impl Work for Neighbors {
    fn watch(&self, _: &Poller) -> io::Result<()> {
        Ok(())
    }
    fn prepare(&mut self, now: Instant, poller: &Poller) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        let Ok(devices) = devices() else { return };
        for (place, link) in self.links.iter_mut().enumerate() {
            let own = Own::of(&link.name, &devices);
            if let Some(open) = link.open.as_mut().filter(|open| Some(open.own) == own) {
                open.claims.ask_from(&addresses_of(&link.name));
                continue;
            }
            // One that is no Ethernet, or is gone again, is looked for again.
            link.open = own.and_then(|own| Open::new(&link.name, own, &self.claimed).ok());
            if let Some(open) = &mut link.open {
                open.claims.ask_from(&addresses_of(&link.name));
                let _ = poller.add(&open.arp, place as u64, Watch::Readable);
                let _ = open.discovery.as_ref().map(|socket| poller.add(socket, place as u64, Watch::Readable));
            }
        }
    }
    fn turn(&mut self, now: Instant, told: &mut Told) -> io::Result<()> {
        let Self { claimed, links, buffer, .. } = self;
        told.claims.clear();
        for link in links {
            // A link that goes down says so once.
            if let Some(open) = &mut link.open
                && open.turn(now, buffer).is_err()
            {
                told.one("arp_link_lost");
            }
            let known = link.open.as_ref().map_or((0, 0), |open| open.claims.known());
            told.claims.push(status::Claims {
                interface: link.name.clone(),
                clients: known.0,
                routers: known.1,
                routers_listed: claimed.routers.len(),
            });
            if let Some(open) = &mut link.open {
                for (name, n) in std::mem::take(&mut open.claims.counts) {
                    *told.counts.entry(name).or_default() += n;
                }
            }
        }
        Ok(())
    }
    fn deadline(&self) -> Instant {
        let open = self.links.iter().filter_map(|link| link.open.as_ref());
        open.map(|open| open.claims.poll_timeout()).chain([self.look_at]).min().unwrap_or(self.look_at)
    }
    fn end(&mut self, now: Instant, told: &mut Told) {
        let until = now + LAST_WORDS_WAIT;
        let (mut all, mut lost) = (0, 0);
        for open in self.links.iter().filter_map(|link| link.open.as_ref()) {
            let truth = open.claims.end();
            all += truth.len();
            for time in 0..LAST_WORDS {
                let unsaid = truth.iter().filter(|message| !open.send_until(message, until)).count();
                lost += if time == 0 { unsaid } else { 0 };
            }
        }
        told.last = (lost > 0).then(|| {
            format!("{lost} of {all} hosts could not be told who has the addresses that were claimed here, as the link takes nothing: they ask when their caches end, or after `ip neigh flush`")
        });
    }
}
