//! UDP datagrams of programs elsewhere over a scenario's channel.

use crate::LabError;
use crate::driver::{MTU, Port, two};
use crate::sockets::rest_until;
use crate::world::{is_veth, start_channel};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use wavelane_base::{Instant, Span};
use wavelane_host::realtime;
use wavelane_host::udp::SingleUdp;
use wavelane_scenario::{Channel, Scenario};
use wavelane_wire::ip::{IPV4_HEADER_LEN, PROTOCOL_UDP};

/// Octets that IP and UDP (RFC 768) put around a datagram: the channel takes the time of the whole packet.
const AROUND: usize = IPV4_HEADER_LEN + 8;
/// How often the thread is asked for a fault.
const GLANCE: Span = Span::from_millis(50);
/// Time to live of the packets that a channel sees (RFC 1340: the recommended default).
const HOPS: u8 = 64;

/// So long the channel stays with a caller that was answered and is silent while one from another address calls: gateways that are idle speak
/// more often.
const CALLER_KEPT: Span = Span::from_secs(60);
/// The same where one from another port of its address calls, as a program that was started again does.
const PORT_KEPT: Span = Span::from_secs(3);

/// What had no way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unserved {
    /// Datagrams of callers besides the one that the channel serves, and the first such caller.
    pub others: (u64, Option<SocketAddr>),
    /// Datagrams that fill more than a packet of 1,500 octets, and the first one's length.
    pub too_long: (u64, usize),
}

/// One end: a socket, and the program beyond it.
#[derive(Debug)]
pub(crate) struct Datagrams {
    socket: SingleUdp,
    here: SocketAddr,
    /// Where what crossed goes: the program called, or the one that calls.
    other: Option<SocketAddr>,
    /// When the caller was heard last; `None` at the end of the program called.
    heard: Option<Instant>,
    /// Whether something came back while this one was the caller.
    came_back: bool,
    /// Whether this caller spoke after that: it is one of the two programs. What comes back may be said unasked.
    answered: bool,
    unserved: Arc<Mutex<Unserved>>,
}

impl Datagrams {
    /// The end that callers reach at `listen`.
    fn near(listen: SocketAddr) -> io::Result<Self> {
        let socket = SingleUdp::bind(listen)?;
        let (here, unserved) = (socket.local()?, Arc::default());
        Ok(Self { socket, here, other: None, heard: Some(Instant::ZERO), came_back: false, answered: false, unserved })
    }

    /// The end that calls `to`.
    fn far(to: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { [0; 16].into() };
        let socket = SingleUdp::bind((any, 0).into())?;
        socket.connect(to)?;
        let (here, unserved) = (socket.local()?, Arc::default());
        Ok(Self { socket, here, other: Some(to), heard: None, came_back: false, answered: false, unserved })
    }

    /// Whether a datagram of `from` belongs to the two programs between which the channel stands. The caller is whoever called last until it
    /// speaks after an answer, and from then on that one until it is silent.
    fn serves(&mut self, now: Instant, from: SocketAddr) -> bool {
        let Some(heard) = &mut self.heard else { return true };
        let kept = match self.other.filter(|caller| self.answered && *caller != from) {
            Some(caller) if caller.ip() == from.ip() => PORT_KEPT,
            Some(_) => CALLER_KEPT,
            None => Span::ZERO,
        };
        if kept > Span::ZERO && now.since(*heard) <= kept {
            return false;
        }
        self.came_back &= self.other == Some(from);
        self.answered = self.came_back;
        self.other = Some(from);
        *heard = now;
        true
    }

    fn note(&self, what: impl FnOnce(&mut Unserved)) {
        what(&mut self.unserved.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads a datagram as the packet that it was.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (len, from, tos) = match self.socket.receive(&mut buffer[AROUND..MTU]) {
            Ok(got) => got,
            // The other program is not there: what a datagram before this one met.
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) || is_icmp(&e) => {
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        if !self.serves(realtime::now(), from) {
            self.note(|of| of.others = (of.others.0 + 1, of.others.1.or(Some(from))));
            return Ok(None);
        }
        let whole = len + AROUND;
        if whole > MTU {
            self.note(|of| of.too_long = (of.too_long.0 + 1, if of.too_long.0 == 0 { len } else { of.too_long.1 }));
            return Ok(None);
        }
        let (header, udp) = buffer[..AROUND].split_at_mut(IPV4_HEADER_LEN);
        header.fill(0);
        header[0] = 0x45;
        header[1] = tos;
        header[2..4].copy_from_slice(&(whole as u16).to_be_bytes());
        header[8] = HOPS;
        header[9] = PROTOCOL_UDP;
        for (side, address) in [from, self.here].iter().enumerate() {
            // What a queue of flows tells them apart by; of an IPv6 address its end.
            let octets = match address.ip() {
                IpAddr::V4(v4) => v4.octets(),
                IpAddr::V6(v6) => Ipv4Addr::from_bits(v6.to_bits() as u32).octets(),
            };
            header[12 + 4 * side..16 + 4 * side].copy_from_slice(&octets);
            udp[2 * side..2 * side + 2].copy_from_slice(&address.port().to_be_bytes());
        }
        udp[4..6].copy_from_slice(&((len + 8) as u16).to_be_bytes());
        udp[6..].fill(0);
        Ok(Some(whole))
    }

    /// Hands on the datagram in a packet that crossed, with the TOS octet that the packet has then.
    pub(crate) fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let other = self.other.ok_or(ErrorKind::WouldBlock)?;
        self.came_back = true;
        match self.socket.send(&packet[AROUND..], other, packet[1]) {
            Err(e) if !is_icmp(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether an ICMP message about an earlier datagram is what the socket reports.
fn is_icmp(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable)
}

/// Where datagrams come from and go to, and over what.
#[derive(Clone, Debug)]
pub struct Crossing {
    /// The channel's name; `None` for the only one that is not the preset `ethernet`.
    pub channel: Option<String>,
    /// Where callers send to: the channel's first end.
    pub listen: SocketAddr,
    /// The program beyond its second end.
    pub to: SocketAddr,
}

impl Crossing {
    /// The channel it names.
    fn of<'a>(&self, scenario: &'a Scenario) -> Result<&'a Channel, LabError> {
        let names = || scenario.channels.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
        let mut bad = scenario.channels.iter().filter(|channel| match &self.channel {
            Some(name) => channel.name == *name,
            None => !is_veth(scenario, channel),
        });
        match (bad.next(), bad.next()) {
            (Some(channel), None) => Ok(channel),
            _ => Err(LabError::Topology(match &self.channel {
                Some(name) => format!("the scenario has no channel '{name}': it has {}", names()),
                None => format!("which channel is meant? Say --channel with one of {}", names()),
            })),
        }
    }
}

/// Refuses a way on which datagrams would come back to where they go in.
fn refuse_circle(listen: SocketAddr, to: SocketAddr) -> Result<(), LabError> {
    let refused = |why: &str| Err(LabError::Topology(format!("--to {to}: {why}")));
    if to.port() == 0 || to.ip().is_unspecified() {
        return refused("no program has this address: name its host and port, on this host 127.0.0.1");
    }
    let (heard, called) = (listen.ip().to_canonical(), to.ip().to_canonical());
    let everywhere = heard.is_unspecified() && (listen.is_ipv6() || called.is_ipv4());
    if listen.port() == to.port() && (heard == called || everywhere && wavelane_host::udp::is_own(to, None)) {
        return refused(&format!(
            "the channel itself listens there (--listen {listen}): choose another port for one of them"
        ));
    }
    Ok(())
}

/// What crossed and what did not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crossed {
    /// Octets of IP packets offered by callers and by the program called.
    pub offered: [u64; 2],
    /// For how long.
    pub lasted: Span,
    /// Of both ends.
    pub unserved: Unserved,
}

/// Carries datagrams until `stop` says so; `ready` is called once it does, with the channel's name and the address that it listens on, and
/// `unserved` when datagrams of a kind have no way for the first time.
pub fn carry(
    scenario: &Scenario,
    crossing: &Crossing,
    ready: impl FnOnce(&str, SocketAddr),
    unserved: impl Fn(&Unserved),
    stop: impl Fn() -> bool,
) -> Result<Crossed, LabError> {
    let channel = crossing.of(scenario)?;
    let refused =
        |address: SocketAddr| LabError::io(format!("cannot listen on UDP {address}: choose another --listen"));
    let near = Datagrams::near(crossing.listen).map_err(refused(crossing.listen))?;
    refuse_circle(near.here, crossing.to)?;
    let far = Datagrams::far(crossing.to).map_err(LabError::io(format!("cannot call --to {}", crossing.to)))?;
    let (here, kept) = (near.here, [Arc::clone(&near.unserved), Arc::clone(&far.unserved)]);
    let lost = || {
        let [near, far] = kept.each_ref().map(|kept| *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let longest = if near.too_long.0 > 0 { near.too_long.1 } else { far.too_long.1 };
        Unserved { others: near.others, too_long: (near.too_long.0 + far.too_long.0, longest) }
    };
    let ports = [Port::Datagrams(near), Port::Datagrams(far)];
    let running = start_channel(scenario, channel, scenario.seed, two(ports, [None, None]), [None; 2])?;
    let began = realtime::now();
    running.begin(began);
    ready(&channel.name, here);
    let mut told = Unserved::default();
    while !stop() {
        if let Some(fault) = running.fault() {
            return Err(LabError::Topology(fault));
        }
        let now = lost();
        let fresh = Unserved {
            others: if told.others.0 == 0 { now.others } else { (0, None) },
            too_long: if told.too_long.0 == 0 { now.too_long } else { (0, 0) },
        };
        if fresh != Unserved::default() {
            unserved(&fresh);
            told = now;
        }
        rest_until(realtime::now() + GLANCE, &stop);
    }
    Ok(Crossed { offered: running.offered(), lasted: realtime::now().since(began), unserved: lost() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_caller_stays_once_it_is_answered_until_it_is_silent() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (mut now, mut end) = (Instant::from_secs(1000), Datagrams::near(at("127.0.0.1:0")).unwrap());
        let [stray, caller, again, other] = ["127.0.0.1:9", "127.0.0.2:9", "127.0.0.2:10", "127.0.0.3:10"].map(at);
        assert!(end.serves(now, stray) && end.serves(now, again) && end.serves(now, caller), "nobody was answered");
        end.write(&[0; AROUND]).unwrap();
        assert!(end.serves(now, stray) && end.serves(now, caller), "what is said unasked answers no stray datagram");
        end.write(&[0; AROUND]).unwrap();
        assert!(end.serves(now, caller), "it speaks after an answer");
        for (silence, from) in [(PORT_KEPT, again), (CALLER_KEPT, other), (PORT_KEPT, stray)] {
            assert!(!end.serves(now + silence, from), "{from}");
        }
        now = now + PORT_KEPT + Span::from_nanos(1);
        assert!(end.serves(now, again), "started again");
        assert!(end.serves(now, caller), "what was not answered took no place");
        end.write(&[0; AROUND]).unwrap();
        assert!(end.serves(now, caller) && !end.serves(now, other));
        assert!(end.serves(now + CALLER_KEPT + Span::from_nanos(1), other));
        assert_eq!(end.other, Some(other));
    }

    #[test]
    fn tos_octets_cross_both_ways() {
        const SENT: u8 = 8;
        // Expedited forwarding (RFC 3246) with ECT(1).
        const SENT_WITH: u8 = 46 << 2 | 1;
        let text = include_str!("../../../scenarios/links/loss-20.toml")
            .replace("loss = { kind = \"random\", p = \"1/5\" }", "");
        let scenario = Scenario::parse(&text, std::path::Path::new(".")).unwrap();
        let [caller, called] = [(); 2].map(|()| SingleUdp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let to = called.local().unwrap();
        let crossing = Crossing { channel: None, listen: "127.0.0.1:0".parse().unwrap(), to };
        let (listens, at) = std::sync::mpsc::channel();
        let done = std::sync::atomic::AtomicBool::new(false);
        let until = realtime::now() + Span::from_secs(120);
        let wait = |socket: &SingleUdp| {
            loop {
                match socket.receive(&mut [0; 2000]) {
                    Ok(got) => return got,
                    Err(e) => assert!(e.kind() == ErrorKind::WouldBlock && realtime::now() < until, "{e}"),
                }
                rest_until(realtime::now() + Span::from_millis(1), || false);
            }
        };
        let stop = || done.load(std::sync::atomic::Ordering::Relaxed) || realtime::now() > until;
        let ready = |_: &str, here| listens.send(here).unwrap();
        let carries = || carry(&scenario, &crossing, ready, |of| panic!("{of:?}"), stop);
        std::thread::scope(|scope| {
            let running = scope.spawn(carries);
            let listen = at.recv().unwrap();
            let ways = [(&caller, &called), (&called, &caller)];
            let (mut to, mut marks) = (listen, Vec::new());
            for (from, at) in ways {
                (0..SENT).for_each(|_| from.send(&[0; 1472], to, SENT_WITH).unwrap());
                let got: Vec<_> = (0..SENT).map(|_| wait(at)).collect();
                marks.push(got.iter().map(|(len, _, tos)| (*len, *tos)).collect::<Vec<_>>());
                to = got[0].1;
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(marks.iter().flatten().all(|got| *got == (1472, SENT_WITH)), "{marks:?}");
            assert_eq!(running.join().unwrap().unwrap().offered, [u64::from(SENT) * 1500; 2]);
        });
    }

    #[test]
    fn a_way_that_leads_back_is_refused() {
        let leads_back = |listen: &str, to: &str| refuse_circle(listen.parse().unwrap(), to.parse().unwrap()).is_err();
        for (listen, to) in [
            ("127.0.0.1:9", "127.0.0.1:9"),
            ("0.0.0.0:9", "127.0.0.1:9"),
            ("[::]:9", "127.0.0.1:9"),
            ("127.0.0.1:9", "127.0.0.1:0"),
            ("127.0.0.1:9", "0.0.0.0:8"),
        ] {
            assert!(leads_back(listen, to), "{listen} -> {to}");
        }
        // The documentation's block (RFC 5737) is no host's own.
        for (listen, to) in [("127.0.0.1:9", "127.0.0.1:8"), ("0.0.0.0:9", "192.0.2.7:9"), ("0.0.0.0:9", "[::1]:9")] {
            assert!(!leads_back(listen, to), "{listen} -> {to}");
        }
    }
}
