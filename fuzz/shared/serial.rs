//! A line at the mercy of its other end: octets, whole frames of well-formed control packets, silence, carrier and packets of
//! our own. Nothing panics, what goes up is an IP packet while the link is up, and what waits is bounded.

use wavelane_base::{Instant, Seed, Span};
use wavelane_serial::ppp::PppEvent;
use wavelane_serial::{Framer, Framing, Line, LineConfig};
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::ppp::{Code, Control, protocol};

/// The most octets that one step may make the line say: a few control packets, all escaped.
const SAID_MAX: usize = 16 * 2 * 1600;

/// The first octet is the framing, for which any octets follow: as a lane's, then as IP's.
pub(crate) fn decoders(input: &[u8]) {
    let Some((first, octets)) = input.split_first() else { return };
    let framing = Framing::ALL[usize::from(*first) % Framing::ALL.len()];
    let mut now = Instant::from_secs(1);
    let (mut framer, mut line) = (Framer::new(framing), Line::new(&LineConfig::new(framing), Seed(1).entropy("fuzz")));
    let mut taken = 0;
    for piece in octets.chunks(7) {
        now += Span::from_millis(1);
        framer.push(now, piece, |packet| taken += packet.len());
        line.push(now, piece, |packet| assert!(is_ip(packet)));
    }
    now += Span::from_secs(1);
    framer.handle_timeout(now, |packet| taken += packet.len());
    line.handle_timeout(now, |packet| assert!(is_ip(packet)));
    assert!(taken <= octets.len(), "more came out than went in");
    // Whatever came before, the second of two frames arrives.
    let (mut two, mut last) = (Vec::new(), Vec::new());
    framer.frame(now, b"first", &mut two);
    framer.frame(now, b"second", &mut two);
    framer.push(now, &two, |packet| last = packet.to_vec());
    framer.handle_timeout(now + Span::from_secs(1), |packet| last = packet.to_vec());
    assert_eq!(last, b"second");
    assert!(framer.counters().octets == (octets.len() + two.len()) as u64);
}

fn is_ip(packet: &[u8]) -> bool {
    matches!(packet.first().map(|first| first >> 4), Some(4 | 6)) && packet.len() >= 20
}

struct Driver<'a> {
    line: Line,
    now: Instant,
    input: &'a [u8],
    /// Identifiers of our latest requests, which an attacker on the line reads.
    seen: [(u8, Vec<u8>); 2],
    was_up: bool,
}

/// Steps of a peer that knows what is out: a code, an identifier and options from the input, or what was asked. Returns whether
/// the link was up at some time.
pub(crate) fn ppp(input: &[u8]) -> bool {
    let mut config = LineConfig::new(Framing::Ppp);
    let first = input.first().copied().unwrap_or(0);
    config.ppp.local = (first & 1 == 1).then_some([192, 0, 2, 1].into());
    config.ppp.remote = (first & 2 == 2).then_some([192, 0, 2, 2].into());
    config.ppp.vj_slots = (first & 4 == 0).then_some(first | 1);
    let line = Line::new(&config, Seed(u64::from(first)).entropy("fuzz"));
    let input = input.get(1..).unwrap_or_default();
    let mut driver = Driver { line, now: Instant::from_secs(1), input, seen: Default::default(), was_up: false };
    driver.line.line_up(driver.now);
    while !driver.input.is_empty() {
        driver.listen();
        driver.step();
    }
    driver.listen();
    // Left alone, it rests or asks; it never spins.
    for _ in 0..100 {
        let Some(due) = driver.line.poll_timeout() else { break };
        assert!(due.at > driver.now, "a stale deadline: {due:?}");
        driver.now = due.at;
        driver.line.handle_timeout(driver.now, |_| panic!("a packet from nowhere"));
        driver.listen();
    }
    driver.was_up
}

impl Driver<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.input.split_first().map_or((0, self.input), |(first, rest)| (*first, rest));
        self.input = rest;
        first
    }
    fn bytes(&mut self) -> Vec<u8> {
        let len = usize::from(self.byte() % 24).min(self.input.len());
        let (now, rest) = self.input.split_at(len);
        self.input = rest;
        now.to_vec()
    }

    fn listen(&mut self) {
        let mut out = Vec::new();
        self.line.poll_transmit(self.now, &mut out);
        assert!(out.len() <= SAID_MAX, "{} octets at once", out.len());
        for frame in out.split(|&octet| octet == hdlc::FLAG) {
            let mut plain = Vec::new();
            let mut octets = frame.iter();
            while let Some(&octet) = octets.next() {
                plain.push(if octet == hdlc::ESCAPE { octets.next().expect("whole") ^ hdlc::FLIP } else { octet });
            }
            let Ok((number, start)) = hdlc::protocol(&plain) else { continue };
            let control = Control::parse(&plain[start..]).expect("what is said is well-formed");
            if control.code == Code::ConfigureRequest as u8 {
                self.seen[usize::from(number == protocol::IPCP)] = (control.id, control.data.to_vec());
            }
        }
        while let Some(event) = self.line.poll_event() {
            self.was_up |= matches!(event, PppEvent::Up(_));
        }
        assert!(!self.line.is_up() || self.line.agreed().is_some());
    }

    fn say(&mut self, number: u16, packet: &[u8]) {
        let mut octets = Vec::new();
        hdlc::put(Style::UNNEGOTIATED, number, packet, &mut octets);
        let up = self.line.is_up();
        self.line.push(self.now, &octets, |packet| assert!(up && is_ip(packet)));
    }

    fn step(&mut self) {
        let kind = self.byte();
        let which = usize::from(kind >> 7);
        let number = [protocol::LCP, protocol::IPCP][which];
        match kind & 0x0f {
            0 => {
                let id = self.seen[which].0;
                let (code, data) = (Code::ConfigureAck as u8, self.seen[which].1.clone());
                self.control(number, code, id, &data);
            }
            1 | 2 => {
                let (id, data) = (self.seen[which].0, self.bytes());
                self.control(number, 2 + (kind & 0x0f), id, &data);
            }
            3..=5 => {
                let (id, data) = (self.byte(), self.bytes());
                self.control(number, Code::ConfigureRequest as u8, id, &data);
            }
            6 | 7 => {
                let (code, id, data) = (self.byte() % 14, self.byte(), self.bytes());
                self.control(number, code, id, &data);
            }
            8 => {
                let (number, data) = (u16::from(self.byte()) << 8 | u16::from(self.byte() | 1), self.bytes());
                self.say(number & 0xfeff, &data);
            }
            9 => {
                let data = self.bytes();
                let number = [protocol::IPV4, protocol::VJ_FULL, protocol::VJ_COMPRESSED][usize::from(kind >> 5) % 3];
                self.say(number, &data);
            }
            10 => {
                let octets = self.bytes();
                let up = self.line.is_up();
                self.line.push(self.now, &octets, |packet| assert!(up && is_ip(packet)));
            }
            11 | 12 => {
                let steps = u64::from(self.byte());
                self.now += Span::from_millis(50).times(steps);
                self.line.handle_timeout(self.now, |_| panic!("a packet from nowhere"));
            }
            13 => {
                self.line.line_down(self.now);
                self.line.line_up(self.now);
            }
            14 => {
                self.line.close(self.now);
                self.line.open(self.now);
            }
            _ => {
                let mut out = Vec::new();
                let sent = self.line.send(self.now, &[0x45; 40], &mut out);
                assert_eq!(sent.is_ok(), self.line.is_up());
            }
        }
    }

    fn control(&mut self, number: u16, code: u8, id: u8, data: &[u8]) {
        let mut packet = Vec::new();
        Control { code, id, data }.put(&mut packet);
        self.say(number, &packet);
    }
}
