//! Which addresses this host claims on a link, and how: it says to listed clients that it has the routers' addresses, and to the routers that it
//! has the clients' (ARP, RFC 826; neighbour discovery, RFC 4861), so that what they send each other comes here. No socket and no clock.
//!
//! Hosts keep what they hear last: each word of a true owner is followed by ours, at once and once more when the owner's own answer must have
//! come. Claims go to known hosts alone, and never to all of the link. At the end each hears the truth, so whoever answers in a host's name is
//! believed only if that host does not answer the same question: nothing that a link address says proves whose it is.

use crate::config::width;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use wavelane_base::{Instant, IpPrefix, Span};
use wavelane_wire::ip::checksum;

/// A link address (IEEE 802).
pub type Mac = [u8; 6];

/// Clients that are known on a link; more are not told anything.
pub const HOSTS_MAX: usize = 1_024;
/// Messages that wait to be sent; more are lost, and said again later.
const OUT_MAX: usize = 4_096;
/// Messages a second, and at once: a storm of questions is not answered by a storm. Half is of renewals, which storms do not stop, and the
/// other of what is due to hosts' own words; of this the last part is of answers, which come too late if they wait.
const RATE: u64 = 200;
const BURST: u64 = 400;
const BURST_RENEWALS: u64 = RATE / 4;
const FOR_ANSWERS: u64 = BURST / 2;
/// Claims that are to be said again; of more the next renewal does it.
const AGAIN_MAX: usize = 4_096;
/// A claim is said again when the owner's answer to the same question must have come.
const AGAIN: Span = Span::from_millis(300);
/// Claims are renewed before caches that ask nobody end: those of Linux live 15 s at least (`base_reachable_time`). Of many clients a round takes
/// longer, and whose cache ends before asks the address it holds, which is ours.
const RENEW: Span = Span::from_secs(10);
/// How often each listed host is asked where it is, until it is known, and later.
const ASK: Span = Span::from_secs(1);
const ASK_KNOWN: Span = Span::from_secs(60);
/// By then whoever has an address has answered who asked for it: within less, and late by a busy radio.
const DECIDE: Span = Span::from_millis(500);
/// One that did not say anything for so long is told nothing more.
const FORGET: Span = Span::from_secs(300);

/// RFC 826: Ethernet, IPv4, lengths of their addresses.
const ARP_HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_LEN: usize = 28;
/// RFC 4861, section 4.
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ICMPV6: u8 = 58;
/// Router, solicited, override (RFC 4861, section 4.4).
const FLAG_ROUTER: u8 = 0x80;
const FLAG_SOLICITED: u8 = 0x40;
const FLAG_OVERRIDE: u8 = 0x20;

/// What a message on the link says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Who says it, if it names itself.
    sender: Option<IpAddr>,
    mac: Mac,
    /// Whose link address it asks for, or tells.
    about: IpAddr,
    /// Whom it tells.
    to: IpAddr,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It asks.
    Asks,
    /// It answers one.
    Answers,
    /// It tells all.
    Tells,
}

/// Reads a message of ARP that came from a link address. `None`: it is none, or names another sender.
pub fn read_arp(message: &[u8], from: Mac) -> Option<Heard> {
    let message = message.get(..ARP_LEN)?;
    let address = |at: usize| message[at..].first_chunk::<4>().map(|octets| Ipv4Addr::from(*octets));
    let (sender, target) = (address(14)?, address(24)?);
    if message[..6] != ARP_HEAD || message[8..14] != from || !is_station(from) {
        return None;
    }
    let named = (!sender.is_unspecified()).then_some(IpAddr::V4(sender));
    let (kind, about) = match (u16::from_be_bytes([message[6], message[7]]), sender == target) {
        (1 | 2, true) => (Kind::Tells, sender),
        (1, false) => (Kind::Asks, target),
        (2, false) => (Kind::Answers, sender),
        _ => return None,
    };
    Some(Heard { sender: named, mac: from, about: about.into(), to: target.into(), kind })
}

/// The same of a packet of neighbour discovery.
pub fn read_discovery(packet: &[u8], from: Mac) -> Option<Heard> {
    let address = |at: usize| packet.get(at..)?.first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
    let (sender, target, message) = (address(8)?, address(24)?, packet.get(40..)?);
    let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    let message = message.get(..len)?;
    // Only what did not cross a router counts (RFC 4861, section 7.1).
    if packet[0] >> 4 != 6 || packet[6] != ICMPV6 || packet[7] != 255 || len < 16 || !is_station(from) {
        return None;
    }
    if checksum(&[&packet[8..40], &(len as u32).to_be_bytes(), &[0, 0, 0, ICMPV6], message]) != 0 {
        return None;
    }
    let named = (!sender.is_unspecified()).then_some(IpAddr::V6(sender));
    let (kind, about) = match message[0] {
        SOLICITATION => (Kind::Asks, address(48)?),
        ADVERTISEMENT if target.is_multicast() => (Kind::Tells, address(48)?),
        ADVERTISEMENT => (Kind::Answers, address(48)?),
        ROUTER_ADVERTISEMENT => (Kind::Tells, sender),
        _ => return None,
    };
    // An advertisement is its owner's.
    let named = if message[0] == ADVERTISEMENT { Some(about.into()) } else { named };
    Some(Heard { sender: named, mac: from, about: about.into(), to: target.into(), kind })
}

/// One station's own address: no group, and not nobody's.
fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

/// A message of ARP: what it does, and the two ends it names.
fn arp(operation: u8, [sender, target]: [(Mac, Ipv4Addr); 2]) -> Vec<u8> {
    let mut message = ARP_HEAD.to_vec();
    message.extend([0, operation]);
    for (mac, address) in [sender, target] {
        message.extend(mac);
        message.extend(address.octets());
    }
    message
}

/// A packet of neighbour discovery about an address, with one link address in an option of that number.
fn discovery(
    kind: u8,
    flags: u8,
    (source, target): (Ipv6Addr, Ipv6Addr),
    about: Ipv6Addr,
    (option, mac): (u8, Mac),
) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(about.octets());
    message.extend([option, 1]);
    message.extend(mac);
    let len = message.len() as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([ICMPV6, 255]);
    packet.extend(source.octets());
    packet.extend(target.octets());
    let sum = checksum(&[&packet[8..40], &u32::from(len).to_be_bytes(), &[0, 0, 0, ICMPV6], &message]);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet.extend(message);
    packet
}

/// A host that is known.
#[derive(Clone, Copy, Debug)]
struct Host {
    mac: Mac,
    heard: Instant,
}

/// Who answered for a host's address from another link address.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    mac: Mac,
    /// When that was asked.
    asked: Instant,
    decided: Instant,
    /// A third did so, too: of two nobody knows which has it.
    is_one_of_many: bool,
}

/// What may be sent.
#[derive(Debug)]
struct Budget {
    /// In thousandths of a message. What belongs together is sent together, and owed then.
    left: i64,
    since: Instant,
    most: i64,
}

impl Budget {
    fn new(most: u64) -> Self {
        let most = most as i64 * 1_000;
        Self { left: most, since: Instant::ZERO, most }
    }
    /// Takes so many messages, if as many as are to be kept are left.
    fn take(&mut self, now: Instant, messages: usize, keep: u64) -> bool {
        let more = i64::try_from(now.since(self.since).as_nanos() / NANOS_EACH).unwrap_or(i64::MAX);
        if more > 0 {
            self.left = self.left.saturating_add(more).min(self.most);
            self.since = now;
        }
        let is_there = self.left >= (keep as i64 + 1) * 1_000;
        self.left -= if is_there { messages as i64 * 1_000 } else { 0 };
        is_there
    }
    /// When that will be so.
    fn at(&self, keep: u64) -> Instant {
        let lacks = u64::try_from((keep as i64 + 1) * 1_000 - self.left).unwrap_or(0);
        self.since + Span::from_nanos(lacks * NANOS_EACH)
    }
}

/// Before all hosts' addresses.
const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// How long a thousandth of a message takes at half of the rate.
const NANOS_EACH: u64 = 2 * 1_000_000 / RATE;

/// A message, whether it is of IPv6, and to whom.
pub type Message = (Vec<u8>, bool, Mac);

/// What is counted, by the names of the status.
pub type Counts = BTreeMap<&'static str, u64>;

/// See the module's description.
#[derive(Debug)]
pub struct Claims {
    own: Mac,
    /// This host's addresses on the link, to ask from: without one of IPv4, or of IPv6, its hosts are learnt when they are heard.
    own_at: (Option<Ipv4Addr>, Option<Ipv6Addr>),
    routers: Vec<IpAddr>,
    clients: Vec<IpPrefix>,
    hosts: BTreeMap<IpAddr, Host>,
    /// Who was asked lately by all of the link, and when.
    asked: BTreeMap<IpAddr, Instant>,
    /// Of known hosts alone.
    candidates: BTreeMap<IpAddr, Candidate>,
    /// Who is to be told again about whom.
    again: BTreeMap<(IpAddr, IpAddr), Instant>,
    /// When the next round of renewals begins, and whose turn was last in one that is not over.
    renew_at: Instant,
    renewed: Option<IpAddr>,
    /// Which listed addresses are asked next, and when.
    ask_at: Instant,
    listed: Vec<IpAddr>,
    out: VecDeque<Message>,
    renewals: Budget,
    /// For what hosts' own words ask for.
    words: Budget,
    /// What happened since it was last taken.
    pub counts: Counts,
}

impl Claims {
    /// On a link on which this host has that link address. With few listed clients each is looked for; of more those are
    /// known that are heard.
    pub fn new(own: Mac, routers: &[IpAddr], clients: &[IpPrefix]) -> Self {
        let size =
            |client: &IpPrefix| 1_u128.checked_shl(u32::from(width(client.address) - client.bits)).unwrap_or(u128::MAX);
        let few = clients.iter().fold(0, |sum: u128, client| sum.saturating_add(size(client))) <= HOSTS_MAX as u128;
        let each = clients.iter().filter(|_| few).flat_map(|client| {
            let at = |offset: u128| match client.address {
                IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from(u32::from(first).wrapping_add(offset as u32))),
                IpAddr::V6(first) => IpAddr::V6(Ipv6Addr::from(u128::from(first).wrapping_add(offset))),
            };
            (0..size(client)).map(at)
        });
        let listed = routers.iter().copied().chain(each).collect();
        Self {
            own,
            own_at: (None, None),
            routers: routers.to_vec(),
            clients: clients.to_vec(),
            hosts: BTreeMap::new(),
            asked: BTreeMap::new(),
            candidates: BTreeMap::new(),
            again: BTreeMap::new(),
            renew_at: Instant::ZERO,
            renewed: None,
            ask_at: Instant::ZERO,
            listed,
            out: VecDeque::new(),
            renewals: Budget::new(BURST_RENEWALS),
            words: Budget::new(BURST),
            counts: Counts::new(),
        }
    }
    /// How many clients, and how many of the routers, are known.
    pub fn known(&self) -> (usize, usize) {
        let routers = self.routers.iter().filter(|router| self.hosts.contains_key(router)).count();
        (self.hosts.len() - routers, routers)
    }
    fn is_router(&self, address: IpAddr) -> bool {
        self.routers.contains(&address)
    }
    fn is_client(&self, address: IpAddr) -> bool {
        !self.is_router(address) && self.clients.iter().any(|client| client.contains(address))
    }
    pub(super) fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }

    /// Takes this host's addresses on the link, as they are now.
    pub fn ask_from(&mut self, own: &[IpAddr]) {
        let four = own.iter().find_map(|address| if let IpAddr::V4(four) = address { Some(*four) } else { None });
        let six = own.iter().find_map(|address| if let IpAddr::V6(six) = address { Some(*six) } else { None });
        self.own_at = (four, six);
    }

    /// Takes what was heard on the link.
    pub fn handle(&mut self, now: Instant, heard: Heard) {
        if heard.mac == self.own {
            return;
        }
        let Some(sender) = heard.sender.filter(|sender| self.is_router(*sender) || self.is_client(*sender)) else {
            return;
        };
        let host = Host { mac: heard.mac, heard: now };
        match self.hosts.get(&sender).map(|known| known.mac) {
            Some(mac) if mac == heard.mac => {
                self.hosts.insert(sender, host);
            }
            // Whoever has it now answers when asked; the word of a stranger alone changes nothing.
            Some(mac) => {
                self.count("arp_changes");
                return match self.asked_lately(now, &heard) {
                    Some(asked) => self.stand(now, (sender, mac), asked, heard.mac),
                    None => self.ask_soon(now, sender),
                };
            }
            None if self.is_client(sender) && self.known().0 >= HOSTS_MAX => {
                return self.count("dropped_arp_hosts_full");
            }
            None => {
                self.hosts.insert(sender, host);
                let pairs = self.concerns(sender);
                self.tell(now, &pairs, true);
            }
        }
        match heard.kind {
            Kind::Asks if self.crosses(sender, heard.about) => {
                self.count("arp_answers");
                match self.words.take(now, 1, 0) {
                    true => self.claim(sender, heard.about, true),
                    false => self.count("dropped_arp_rate"),
                }
                // Whom it asked has heard where it is.
                self.tell(now, &[(sender, heard.about), (heard.about, sender)], false);
            }
            // All others on the link have heard it.
            Kind::Tells => {
                let others = self.hosts.keys().filter(|host| self.crosses(**host, sender));
                let pairs: Vec<_> = others.map(|host| (*host, sender)).collect();
                self.tell(now, &pairs, true);
            }
            Kind::Asks | Kind::Answers => {}
        }
    }
    /// When all of the link was asked from here what it answers, if it is such an answer.
    fn asked_lately(&self, now: Instant, heard: &Heard) -> Option<Instant> {
        let (four, six) = self.own_at;
        let to_us = four.map(IpAddr::V4) == Some(heard.to) || six.map(IpAddr::V6) == Some(heard.to);
        let asked = self.asked.get(&heard.about).filter(|at| now.since(**at) < ASK);
        asked.copied().filter(|_| heard.kind == Kind::Answers && to_us)
    }
    /// Somebody answers in a host's name.
    fn stand(&mut self, now: Instant, (host, old): (IpAddr, Mac), asked: Instant, mac: Mac) {
        if let Some(candidate) = self.candidates.get_mut(&host) {
            candidate.is_one_of_many |= candidate.mac != mac;
            return;
        }
        let candidate = Candidate { mac, asked, decided: now + DECIDE, is_one_of_many: false };
        self.candidates.insert(host, candidate);
        // What all are asked may be lost on its way to one.
        if self.words.take(now, 1, FOR_ANSWERS) {
            self.ask(now, host, Some(old));
        }
    }
    /// Takes candidates' addresses, unless who had them before spoke since that was asked.
    fn decide(&mut self, now: Instant) {
        let due: Vec<IpAddr> =
            self.candidates.iter().filter(|(_, of)| of.decided <= now).map(|(host, _)| *host).collect();
        for address in due {
            let Some(candidate) = self.candidates.remove(&address) else { continue };
            let Some(host) = self.hosts.get_mut(&address) else { continue };
            if candidate.is_one_of_many || host.heard >= candidate.asked {
                self.count("arp_contested");
                continue;
            }
            *host = Host { mac: candidate.mac, heard: now };
            let pairs = self.concerns(address);
            self.tell(now, &pairs, false);
        }
    }
    /// Whether what one of them sends the other is to come here.
    fn crosses(&self, one: IpAddr, other: IpAddr) -> bool {
        one.is_ipv4() == other.is_ipv4()
            && (self.is_router(one) && self.is_client(other) || self.is_client(one) && self.is_router(other))
    }
    /// Who is to hear about whom because of a host that is known: a client all routers, and these it.
    fn concerns(&self, host: IpAddr) -> Vec<(IpAddr, IpAddr)> {
        let others = self.hosts.keys().copied().filter(|other| self.crosses(host, *other));
        if self.is_client(host) {
            // It is told so of a router before that is known itself.
            let routers = self.routers.iter().copied().filter(|router| self.crosses(host, *router));
            return routers.map(|router| (host, router)).chain(others.map(|router| (router, host))).collect();
        }
        others.map(|client| (host, client)).collect()
    }
    /// Says these claims once more in a while, and at once, too, as far as that leaves room for answers.
    fn tell(&mut self, now: Instant, pairs: &[(IpAddr, IpAddr)], at_once: bool) {
        for pair in pairs.iter().filter(|(host, _)| self.hosts.contains_key(host)).copied().collect::<Vec<_>>() {
            if at_once && self.words.take(now, 1, FOR_ANSWERS) {
                self.claim(pair.0, pair.1, false);
            }
            if self.again.len() < AGAIN_MAX || self.again.contains_key(&pair) {
                self.again.insert(pair, now + AGAIN);
            } else {
                self.count("dropped_arp_rate");
            }
        }
    }
    /// Says to a host that an address is here.
    fn claim(&mut self, host: IpAddr, about: IpAddr, is_answer: bool) {
        let Some(mac) = self.hosts.get(&host).map(|host| host.mac) else { return };
        let message = self.word((host, mac), about, self.own, is_answer);
        self.send(message);
    }
    /// The word that an address has a link address.
    fn word(&self, (host, to): (IpAddr, Mac), about: IpAddr, at: Mac, is_answer: bool) -> Message {
        match (host, about) {
            (IpAddr::V4(host), IpAddr::V4(about)) if is_answer => (arp(2, [(at, about), (to, host)]), false, to),
            // Of this form it replaces what its hearer learnt within the last second, too (Linux' `locktime`).
            (_, IpAddr::V4(about)) => (arp(2, [(at, about), (at, about)]), false, to),
            (host, IpAddr::V6(about)) => {
                let host = if let IpAddr::V6(host) = host { host } else { Ipv6Addr::UNSPECIFIED };
                let router = if self.is_router(about.into()) { FLAG_ROUTER } else { 0 };
                let flags = FLAG_OVERRIDE | router | if is_answer { FLAG_SOLICITED } else { 0 };
                (discovery(ADVERTISEMENT, flags, (about, host), about, (2, at)), true, to)
            }
        }
    }
    /// Asks all of the link for it, if that leaves room for answers.
    fn ask_soon(&mut self, now: Instant, address: IpAddr) {
        match self.words.take(now, 1, FOR_ANSWERS) {
            true => self.ask(now, address, None),
            false => self.count("dropped_arp_rate"),
        }
    }
    /// Asks an address where it is, a known host or all of the link.
    fn ask(&mut self, now: Instant, address: IpAddr, to: Option<Mac>) {
        let message = match address {
            // From our own address: one that names nobody is a probe, which says that its sender wants the address (RFC 5227, section 2.1.1).
            IpAddr::V4(address) => {
                let Some(own) = self.own_at.0 else { return };
                let ends = [(self.own, own), ([0; 6], address)];
                (arp(1, ends), false, to.unwrap_or([u8::MAX; 6]))
            }
            IpAddr::V6(address) => {
                let Some(own) = self.own_at.1 else { return };
                let [.., a, b, c] = address.octets();
                // RFC 4291, section 2.7.1; RFC 2464, section 7.
                let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
                let target = if to.is_some() { address } else { group };
                let mac = to.unwrap_or([0x33, 0x33, 0xff, a, b, c]);
                (discovery(SOLICITATION, 0, (own, target), address, (1, self.own)), true, mac)
            }
        };
        if to.is_none() {
            self.asked.insert(address, now);
        }
        self.send(message);
    }
    fn send(&mut self, message: Message) {
        if self.out.len() >= OUT_MAX {
            return self.count("dropped_arp_rate");
        }
        self.out.push_back(message);
    }
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.decide(now);
        let due = self.again.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due.map(|(pair, at)| (*at, *pair)).collect();
        due.sort_unstable();
        for (_, pair) in due {
            if !self.words.take(now, 1, FOR_ANSWERS) {
                break;
            }
            self.again.remove(&pair);
            self.claim(pair.0, pair.1, false);
        }
        if self.renewed.is_none() && self.renew_at <= now {
            self.renew_at = now + RENEW;
            self.hosts.retain(|_, host| now.since(host.heard) < FORGET);
            self.asked.retain(|_, at| now.since(*at) < ASK);
            self.renewed = Some(FIRST);
        }
        while let Some(last) = self.renewed {
            let next = self.hosts.range((Bound::Excluded(last), Bound::Unbounded)).next();
            let Some((address, host)) = next.map(|(address, host)| (*address, *host)) else {
                self.renewed = None;
                break;
            };
            let is_router = self.is_router(address);
            let mut pairs = if is_router { Vec::new() } else { self.concerns(address) };
            pairs.retain(|(host, _)| self.hosts.contains_key(host));
            // Routers each time: whoever spoke in their name is corrected.
            let asks = is_router || now.since(host.heard) >= ASK_KNOWN;
            if !self.renewals.take(now, pairs.len() + usize::from(asks), 0) {
                break;
            }
            self.renewed = Some(address);
            pairs.into_iter().for_each(|(host, about)| self.claim(host, about, false));
            if asks {
                self.ask(now, address, (!is_router).then_some(host.mac));
            }
        }
        if self.ask_at <= now {
            self.ask_at = now + ASK;
            // All routers, and of the clients as many as a quarter of the rate lets.
            let missing = |address: &&IpAddr| !self.hosts.contains_key(address);
            let (routers, part) = (self.routers.len().min(self.listed.len()), (RATE / 4) as usize);
            let mut asked: Vec<IpAddr> = self.listed[..routers].iter().filter(missing).copied().collect();
            asked.extend(self.listed[routers..].iter().take(part).filter(missing));
            let turn = part.min(self.listed.len() - routers);
            self.listed[routers..].rotate_left(turn);
            asked.into_iter().for_each(|address| self.ask_soon(now, address));
        }
    }
    /// When there is something to do.
    pub fn poll_timeout(&self) -> Instant {
        let again = self.again.values().min().map(|at| (*at).max(self.words.at(FOR_ANSWERS)));
        let renew = self.renewed.map_or(self.renew_at, |_| self.renewals.at(0));
        let decided = self.candidates.values().map(|candidate| candidate.decided).min();
        again.into_iter().chain(decided).chain([renew]).fold(self.ask_at, Instant::min)
    }
    /// The next message to send.
    pub fn poll_message(&mut self) -> Option<Message> {
        self.out.pop_front()
    }
    /// Tells each what is true, whatever the rate: it is the last word.
    pub fn end(&self) -> Vec<Message> {
        let mac = |address: &IpAddr| self.hosts.get(address).map(|host| host.mac);
        let routers: Vec<(IpAddr, Mac)> =
            self.routers.iter().filter_map(|router| Some((*router, mac(router)?))).collect();
        let clients = self.hosts.iter().map(|(address, host)| (*address, host.mac));
        let pairs = clients.flat_map(|client| routers.iter().map(move |router| (client, *router)));
        pairs
            .filter(|((client, _), (router, _))| self.crosses(*client, *router))
            .flat_map(|(client, router)| {
                [self.word(client, router.0, router.1, false), self.word(router, client.0, client.1, false)]
            })
            .collect()
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
