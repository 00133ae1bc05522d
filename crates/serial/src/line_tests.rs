use crate::ppp::{self, Agreed, Cause, FALLBACK_ADDRESS, PppEvent, REST};
use crate::{Fault, Framing, Line, LineConfig, Unsent};
use std::net::Ipv4Addr;
use wavelane_base::{Ecn, Instant, Seed, Span};
use wavelane_wire::ip::Udp4;
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::ppp::{Choice, Code, Control, ipcp, lcp, protocol};
use wavelane_wire::serial::{kiss, slip};

const HERE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(192, 168, 7, 2);

fn config(local: Option<Ipv4Addr>, remote: Option<Ipv4Addr>) -> LineConfig {
    LineConfig { ppp: ppp::Config { local, remote, ..ppp::Config::default() }, ..LineConfig::new(Framing::Ppp) }
}

fn udp(len: usize) -> Vec<u8> {
    let payload = vec![0xc0; len - 28];
    let (source, target) =
        ("192.168.7.1:7".parse().expect("well-formed"), "192.168.7.2:7".parse().expect("well-formed"));
    let mut packet = vec![0; len];
    Udp4 { source, target, ecn: Ecn::NotEct, payload: &payload }.emit(&mut packet).expect("well-formed");
    packet
}

/// Two ends and the line between them.
struct World {
    now: Instant,
    ends: [Line; 2],
    events: [Vec<PppEvent>; 2],
    got: [Vec<Vec<u8>>; 2],
    /// Whether octets pass.
    whole: bool,
}

impl World {
    fn new(a: &LineConfig, b: &LineConfig) -> Self {
        let ends = [Line::new(a, Seed(1).entropy("a")), Line::new(b, Seed(2).entropy("b"))];
        Self { now: Instant::from_secs(1), ends, events: Default::default(), got: Default::default(), whole: true }
    }
    fn up(a: &LineConfig, b: &LineConfig) -> Self {
        let mut world = Self::new(a, b);
        let now = world.now;
        world.ends.iter_mut().for_each(|end| end.line_up(now));
        world.settle();
        world
    }
    /// Carries what the ends say until they are silent. Returns the octets.
    fn settle(&mut self) -> usize {
        let mut carried = 0;
        for round in 0.. {
            assert!(round < 1_000, "they never fall silent");
            let mut octets = [Vec::new(), Vec::new()];
            for (end, out) in self.ends.iter_mut().zip(&mut octets) {
                end.poll_transmit(self.now, out);
            }
            for (end, events) in self.ends.iter_mut().zip(&mut self.events) {
                events.extend(core::iter::from_fn(|| end.poll_event()));
            }
            if octets.iter().all(Vec::is_empty) {
                return carried;
            }
            carried += octets[0].len() + octets[1].len();
            for (from, octets) in octets.into_iter().enumerate().filter(|_| self.whole) {
                let got = &mut self.got[1 - from];
                self.ends[1 - from].push(self.now, &octets, |packet| got.push(packet.to_vec()));
            }
        }
        carried
    }
    fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let due = self.ends.iter().filter_map(Line::poll_timeout).map(|due| due.at).min();
            match due.filter(|due| *due <= until) {
                Some(due) => {
                    assert!(due >= self.now, "a stale deadline");
                    self.now = due;
                    self.ends.iter_mut().for_each(|end| end.handle_timeout(due, |_| ()));
                    self.settle();
                }
                None => break self.now = until,
            }
        }
    }
    fn send(&mut self, from: usize, packet: &[u8]) -> usize {
        let mut out = Vec::new();
        self.ends[from].send(self.now, packet, &mut out).expect("the link is up");
        let got = &mut self.got[1 - from];
        self.ends[1 - from].push(self.now, &out, |packet| got.push(packet.to_vec()));
        out.len()
    }
}

#[test]
fn two_ends_agree_at_once_and_packets_take_the_octets_of_rfc_1662() {
    let world = &mut World::up(&config(Some(HERE), Some(THERE)), &config(Some(THERE), None));
    for (end, local, remote) in [(0, HERE, THERE), (1, THERE, HERE)] {
        let [PppEvent::Up(agreed)] = world.events[end][..] else { panic!("{:?}", world.events) };
        assert_eq!((agreed.local, agreed.remote, agreed.mtu), (local, remote, 1500));
        assert_eq!(agreed.style, Style::TRANSPARENT);
        assert!(agreed.vj_in.is_some() && agreed.vj_out.is_some());
    }
    let packet = udp(200);
    // A flag, the protocol's octet, the check sequence; what looks like a flag or an escape takes two.
    assert!((204..=210).contains(&world.send(0, &packet)));
    assert_eq!(world.got[1], [packet]);
    // An hour of nothing but echoes.
    world.run(Span::from_secs(3600));
    assert!(world.ends.iter().all(Line::is_up));
    assert_eq!(world.events[0].len() + world.events[1].len(), 2);
}

#[test]
fn an_end_without_an_address_is_given_one() {
    // As slirp and terminal servers do: 0.0.0.0 is answered with an address, configured or not.
    for (remote, given) in [(Some(THERE), THERE), (None, FALLBACK_ADDRESS)] {
        let world = World::up(&config(Some(HERE), remote), &config(None, None));
        let agreed = world.ends[1].agreed().expect("up");
        assert_eq!((agreed.local, agreed.remote), (given, HERE));
        assert_eq!(world.ends[0].agreed().expect("up").remote, given);
    }
    let world = &mut World::up(&config(None, None), &config(None, None));
    world.run(Span::from_secs(60));
    assert!(world.ends.iter().all(Line::is_up), "both fall back: {:?}", world.events);
}

#[test]
fn options_differ_where_the_ends_differ() {
    let mut a = config(Some(HERE), None);
    a.mtu = 576;
    a.ppp.accm = 0x000a_0000;
    a.ppp.vj_slots = None;
    let mut b = config(Some(THERE), None);
    b.ppp.compress_fields = false;
    let world = World::up(&a, &b);
    let (here, there) = (world.ends[0].agreed().expect("up"), world.ends[1].agreed().expect("up"));
    assert_eq!((here.mtu, there.mtu), (576, 576));
    assert_eq!((here.vj_in, here.vj_out, there.vj_in, there.vj_out), (None, None, None, None));
    assert_eq!(here.style, Style { accm: 0, acfc: false, pfc: false });
    assert_eq!(there.style, Style { accm: 0x000a_0000, acfc: true, pfc: true });
}

#[test]
fn addresses_on_which_the_ends_differ_are_given_up_and_tried_again() {
    let world = &mut World::up(&config(Some(HERE), Some(THERE)), &config(Some(HERE), None));
    assert_eq!(world.events[0], [PppEvent::Down(Cause::NoAgreement)], "{:?}", world.events);
    let octets = world.settle();
    world.run(REST.times(3));
    assert_eq!(octets, 0, "it rests");
    assert!(world.events[0].len() >= 2 && world.events[0].iter().all(|event| matches!(event, PppEvent::Down(_))));
}

#[test]
fn nobody_there_is_said_and_tried_again() {
    let world = &mut World::new(&config(Some(HERE), None), &config(Some(THERE), None));
    world.whole = false;
    let mut out = Vec::new();
    assert_eq!(world.ends[0].send(world.now, &udp(100), &mut out), Err(Unsent::Down));
    world.ends[0].line_up(world.now);
    world.run(Span::from_secs(29));
    assert_eq!(world.events[0], []);
    world.run(Span::from_secs(2));
    assert_eq!(world.events[0], [PppEvent::Down(Cause::NoAnswer)], "ten tries of three seconds");
    // The other end comes, on a line that passes: the rest ends it.
    world.whole = true;
    world.ends[1].line_up(world.now);
    world.run(REST);
    assert!(world.ends.iter().all(Line::is_up), "{:?}", world.events);
}

#[test]
fn a_dead_line_is_noticed_by_echoes_and_comes_back() {
    let world = &mut World::up(&config(Some(HERE), None), &config(Some(THERE), None));
    world.whole = false;
    world.run(Span::from_secs(41));
    for events in &world.events {
        assert!(matches!(events[..], [PppEvent::Up(_), PppEvent::Down(Cause::NoEcho)]), "{events:?}");
    }
    world.whole = true;
    world.run(Span::from_secs(30));
    assert!(world.ends.iter().all(Line::is_up), "{:?}", world.events);
}

#[test]
fn closing_is_said_to_the_other_end_and_opening_undoes_it() {
    let world = &mut World::up(&config(Some(HERE), None), &config(Some(THERE), None));
    world.ends[0].close(world.now);
    world.run(Span::from_secs(8));
    assert_eq!(world.events[0].last(), Some(&PppEvent::Down(Cause::ClosedHere)));
    assert_eq!(world.events[1].last(), Some(&PppEvent::Down(Cause::ClosedThere)));
    world.run(Span::from_secs(60));
    assert!(!world.ends[0].is_up());
    world.ends[0].open(world.now);
    world.run(Span::from_secs(60));
    assert!(world.ends.iter().all(Line::is_up), "{:?}", world.events);
    // Carrier lost in the middle of it all.
    world.ends.iter_mut().for_each(|end| end.line_down(world.now));
    world.settle();
    assert_eq!(world.events[0].last(), Some(&PppEvent::Down(Cause::LineDown)));
    world.run(Span::from_secs(100));
    assert_eq!(world.settle(), 0, "nothing is said on a line that is not there");
    world.ends.iter_mut().for_each(|end| end.line_up(world.now));
    world.settle();
    assert!(world.ends.iter().all(Line::is_up));
}

/// One end, and packets that a stranger writes.
struct Stranger {
    now: Instant,
    line: Line,
    got: Vec<Vec<u8>>,
}

impl Stranger {
    fn new() -> Self {
        let mut line = Line::new(&config(Some(HERE), Some(THERE)), Seed(3).entropy("line"));
        let now = Instant::from_secs(1);
        line.line_up(now);
        Self { now, line, got: Vec::new() }
    }
    /// What it answers.
    fn say(&mut self, number: u16, packet: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut octets = Vec::new();
        hdlc::put(Style::UNNEGOTIATED, number, packet, &mut octets);
        let got = &mut self.got;
        self.line.push(self.now, &octets, |packet| got.push(packet.to_vec()));
        self.said()
    }
    fn said(&mut self) -> Vec<(u16, Vec<u8>)> {
        let (mut out, mut said) = (Vec::new(), Vec::new());
        self.line.poll_transmit(self.now, &mut out);
        for frame in out.split(|&octet| octet == hdlc::FLAG).filter(|frame| !frame.is_empty()) {
            let mut plain = Vec::new();
            let mut octets = frame.iter();
            while let Some(&octet) = octets.next() {
                plain.push(if octet == hdlc::ESCAPE {
                    octets.next().expect("well-formed") ^ hdlc::FLIP
                } else {
                    octet
                });
            }
            assert!(hdlc::fcs_holds(&plain));
            let (number, start) = hdlc::protocol(&plain).expect("well-formed");
            said.push((number, plain[start..plain.len() - 2].to_vec()));
        }
        said
    }
    fn control(&mut self, number: u16, code: Code, id: u8, data: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut packet = Vec::new();
        Control { code: code as u8, id, data }.put(&mut packet);
        self.say(number, &packet)
    }
    /// Opens LCP and IPCP as a peer without a will of its own.
    fn open(&mut self) {
        let mut said = self.said();
        for _ in 0..4 {
            let mut next = Vec::new();
            for (number, packet) in said {
                let control = Control::parse(&packet).expect("well-formed");
                if control.code == Code::ConfigureRequest as u8 {
                    next.extend(self.control(number, Code::ConfigureAck, control.id, control.data));
                    let wish: &[u8] = if number == protocol::IPCP { &[3, 6, 192, 168, 7, 2] } else { &[] };
                    next.extend(self.control(number, Code::ConfigureRequest, 1, wish));
                }
            }
            said = next;
        }
        assert!(self.line.is_up());
    }
    fn events(&mut self) -> Vec<PppEvent> {
        core::iter::from_fn(|| self.line.poll_event()).collect()
    }
}

fn code(said: &[(u16, Vec<u8>)]) -> Vec<(u16, u8)> {
    said.iter().map(|(number, packet)| (*number, packet[0])).collect()
}

#[test]
fn endless_naks_end() {
    let mut stranger = Stranger::new();
    let mut said = stranger.said();
    let mut requests = 0;
    for round in 0_u32.. {
        let Some((_, packet)) = said.iter().find(|(_, packet)| packet[0] == Code::ConfigureRequest as u8) else {
            break;
        };
        requests += 1;
        let id = packet[1];
        let mut wish = Vec::new();
        Choice { kind: lcp::ACCM, value: &round.to_be_bytes() }.put(&mut wish);
        said = stranger.control(protocol::LCP, Code::ConfigureNak, id, &wish);
    }
    assert!((20..=45).contains(&requests), "{requests}");
    assert_eq!(stranger.events(), [PppEvent::Down(Cause::NoAgreement)]);
    assert_eq!(stranger.line.poll_timeout().expect("it rests").at, stranger.now + REST);
}

/// An end that wants no link says so as soon as it is asked for one.
#[test]
fn an_end_that_ends_each_negotiation_is_named() {
    let mut stranger = Stranger::new();
    let start = stranger.now;
    let mut events = stranger.events();
    while events.is_empty() {
        for (number, _) in stranger.said() {
            stranger.control(number, Code::TerminateRequest, 9, &[]);
        }
        events = stranger.events();
        stranger.now = stranger.line.poll_timeout().expect("it asks again").at;
        stranger.line.handle_timeout(stranger.now, |_| ());
    }
    assert_eq!(events, [PppEvent::Down(Cause::ClosedThere)]);
    assert!(stranger.now.since(start) < Span::from_secs(20), "{:?}", stranger.now.since(start));
}

#[test]
fn a_looped_line_is_named() {
    let mut line = Line::new(&config(Some(HERE), None), Seed(3).entropy("line"));
    let now = Instant::from_secs(1);
    line.line_up(now);
    let mut carried = 0;
    loop {
        let mut out = Vec::new();
        line.poll_transmit(now, &mut out);
        if out.is_empty() {
            break;
        }
        carried += out.len();
        assert!(carried < 10_000);
        line.push(now, &out, |_| panic!("no packet"));
    }
    assert_eq!(line.poll_event(), Some(PppEvent::Down(Cause::Looped)));
    assert!(line.poll_event().is_none());
}

#[test]
fn storms_are_answered_one_for_one_and_end() {
    let mut stranger = Stranger::new();
    stranger.open();
    assert!(matches!(stranger.events()[..], [PppEvent::Up(_)]));
    let mut said = 0;
    for id in 0..2_000_u32 {
        said += stranger.control(protocol::LCP, Code::ConfigureRequest, id as u8, &[]).len();
    }
    assert!(said <= 2_001, "{said} answers");
    assert_eq!(stranger.events(), [PppEvent::Down(Cause::Renegotiated)]);
    // The same with an answer to each of our requests, so that the link opens and closes.
    let mut stranger = Stranger::new();
    stranger.open();
    let mut opened = 0;
    for id in 0..2_000_u32 {
        for (number, packet) in stranger.control(protocol::LCP, Code::ConfigureRequest, id as u8, &[]) {
            let request = Control::parse(&packet).expect("well-formed");
            if request.code == Code::ConfigureRequest as u8 && number == protocol::LCP {
                stranger.control(number, Code::ConfigureAck, request.id, request.data);
                opened += 1;
            }
        }
    }
    assert!((10..100).contains(&opened), "{opened}: it gave up");
    assert_eq!(stranger.events().last(), Some(&PppEvent::Down(Cause::Renegotiated)));
    let mut stranger = Stranger::new();
    stranger.open();
    for id in 0..2_000_u32 {
        assert!(stranger.control(protocol::LCP, Code::TerminateRequest, id as u8, &[]).len() <= 1);
    }
    // It waits for the other end's silence, rests, then begins anew.
    for _ in 0..4 {
        stranger.now += REST;
        stranger.line.handle_timeout(stranger.now, |_| ());
    }
    assert_eq!(code(&stranger.said())[0], (protocol::LCP, Code::ConfigureRequest as u8));
}

#[test]
fn what_is_unknown_is_rejected_and_changes_nothing() {
    let mut stranger = Stranger::new();
    assert_eq!(stranger.said().len(), 1);
    assert_eq!(stranger.say(0x80fd, &[1, 1, 0, 4]), [], "no word about protocols before LCP is open");
    let mut stranger = Stranger::new();
    stranger.open();
    let said = stranger.say(0x80fd, &[1, 1, 0, 4]);
    assert_eq!(code(&said), [(protocol::LCP, Code::ProtocolReject as u8)]);
    assert_eq!(said[0].1[4..], [0x80, 0xfd, 1, 1, 0, 4]);
    assert_eq!(code(&stranger.say(protocol::LCP, &[99, 1, 0, 4])), [(protocol::LCP, Code::CodeReject as u8)]);
    assert_eq!(code(&stranger.say(protocol::IPCP, &[9, 1, 0, 4])), [(protocol::IPCP, Code::CodeReject as u8)]);
    let long = stranger.say(0x0031, &[7; 1400]);
    assert!(long[0].1.len() <= 128, "what is sent back fits any MRU");
    // Options of length 0, or past the end: the packet is no packet.
    for data in [&[1, 0, 5, 220][..], &[1, 9, 5, 220], &[1]] {
        assert_eq!(stranger.control(protocol::LCP, Code::ConfigureRequest, 9, data), []);
    }
    assert_eq!(stranger.say(protocol::LCP, &[1, 1, 0, 200]), [], "a length past the end");
    assert_eq!(stranger.say(protocol::LCP, &[]), []);
    // Answers to nothing.
    assert_eq!(stranger.control(protocol::LCP, Code::ConfigureAck, 200, &[]), []);
    assert_eq!(stranger.control(protocol::LCP, Code::ConfigureNak, 200, &[]), []);
    assert_eq!(stranger.control(protocol::LCP, Code::EchoReply, 1, &[0, 0, 0, 0]), []);
    let echo = stranger.control(protocol::LCP, Code::EchoRequest, 5, &[0, 0, 0, 0, 42]);
    assert_eq!((echo[0].1[0], echo[0].1[1], echo[0].1[8]), (Code::EchoReply as u8, 5, 42));
    assert!(stranger.line.is_up());
    assert!(matches!(stranger.events()[..], [PppEvent::Up(_)]));
}

#[test]
fn unwanted_options_are_rejected_and_unwanted_values_refused() {
    let mut stranger = Stranger::new();
    let _ = stranger.said();
    // A password is asked for: that is not known here.
    let said = stranger.control(protocol::LCP, Code::ConfigureRequest, 1, &[3, 4, 0xc0, 0x23, 1, 4, 0, 64]);
    assert_eq!(said, [(protocol::LCP, vec![4, 1, 0, 8, 3, 4, 0xc0, 0x23])]);
    let said = stranger.control(protocol::LCP, Code::ConfigureRequest, 2, &[1, 4, 0, 64]);
    assert_eq!(said, [(protocol::LCP, vec![3, 2, 0, 8, 1, 4, 0, 128])]);
    let mut stranger = Stranger::new();
    stranger.open();
    // Five Naks of the address, then it is rejected.
    for id in 0..6 {
        let said = stranger.control(protocol::IPCP, Code::ConfigureRequest, id, &[ipcp::ADDRESS, 6, 9, 9, 9, 9]);
        let answer = said.iter().find(|(_, packet)| packet[0] != Code::ConfigureRequest as u8).expect("an answer");
        assert_eq!(answer.1[0], if id < 5 { Code::ConfigureNak as u8 } else { Code::ConfigureReject as u8 });
    }
}

#[test]
fn rejects_of_what_is_needed_end_the_link_and_of_compression_do_not() {
    let mut stranger = Stranger::new();
    stranger.open();
    stranger.events();
    stranger.control(protocol::LCP, Code::ProtocolReject, 1, &[0x00, 0x2d, 0]);
    assert_eq!(stranger.events(), [PppEvent::Uncompressed]);
    stranger.control(protocol::LCP, Code::ProtocolReject, 2, &[0x80, 0x21, 0]);
    assert_eq!(stranger.events(), [PppEvent::Down(Cause::Rejected)]);
    let mut stranger = Stranger::new();
    stranger.open();
    stranger.events();
    stranger.control(protocol::LCP, Code::CodeReject, 1, &[1, 1, 0, 4]);
    assert_eq!(stranger.events(), [PppEvent::Down(Cause::Rejected)]);
}

#[test]
fn packets_pass_only_while_the_link_is_up() {
    let mut stranger = Stranger::new();
    let packet = udp(100);
    stranger.say(protocol::IPV4, &packet);
    assert!(stranger.got.is_empty());
    let mut stranger = Stranger::new();
    stranger.open();
    stranger.say(protocol::IPV4, &packet);
    assert_eq!(stranger.got, core::slice::from_ref(&packet));
    // Not IPv4, cut short, or with octets behind it; compressed before any full header.
    for wrong in [&packet[..99], &[packet.clone(), vec![0]].concat(), &[0x65; 60]] {
        stranger.say(protocol::IPV4, wrong);
    }
    stranger.say(protocol::VJ_COMPRESSED, &[0x0f, 1, 2]);
    let mut full = packet.clone();
    full[9] = 255;
    stranger.say(protocol::VJ_FULL, &full);
    assert_eq!(stranger.got.len(), 1);
    let counters = stranger.line.counters();
    assert_eq!((counters.bad(Fault::Packet), counters.bad(Fault::Header)), (3, 2));
    let mut out = Vec::new();
    let too_long = stranger.line.send(stranger.now, &udp(1501), &mut out);
    assert_eq!((too_long, out.len()), (Err(Unsent::TooLong), 0));
}

#[test]
fn ip_over_every_other_framing_needs_no_negotiation() {
    for framing in [Framing::Slip1998, Framing::Slip, Framing::Cslip, Framing::Kiss] {
        let config = LineConfig::new(framing);
        let world = &mut World::new(&config, &config);
        let packet = udp(600);
        world.send(0, &packet);
        world.now += Span::from_secs(1);
        let (ends, got, now) = (&mut world.ends, &mut world.got, world.now);
        ends[1].handle_timeout(now, |packet| got[1].push(packet.to_vec()));
        assert_eq!(world.got[1], [packet], "{framing}");
        // What is no packet does not go up.
        let mut wrong = vec![0x11; 100];
        wrong[..20].copy_from_slice(&udp(101)[..20]);
        let mut octets = Vec::new();
        match framing {
            Framing::Slip1998 => slip::put_doubled(&wrong, &mut octets),
            Framing::Kiss => kiss::put(0, &wrong, &mut octets),
            _ => slip::put(&wrong, &mut octets),
        }
        world.ends[1].push(world.now, &octets, |_| panic!("a wrong packet"));
        world.now += Span::from_secs(1);
        world.ends[1].handle_timeout(world.now, |_| panic!("a wrong packet"));
        let counters = world.ends[1].counters();
        assert_eq!((counters.bad(Fault::Packet), counters.bad_total()), (1, 1), "{framing}");
    }
}

#[test]
fn an_agreement_is_a_value() {
    let world = World::up(&config(Some(HERE), None), &config(Some(THERE), None));
    let Agreed { local, remote, .. } = world.ends[0].agreed().expect("up");
    assert_eq!((Some(local), remote), (world.ends[0].local(), THERE));
}

/// What a terminal server asks, PAP or CHAP with MD5: with the right secret the link comes up, and without one the reason is said.
#[test]
fn an_end_that_asks_who_this_is_is_told() {
    const PAP: &[u8] = &[3, 4, 0xc0, 0x23];
    const CHAP: &[u8] = &[3, 5, 0xc2, 0x23, 5];
    let login = Some(crate::ppp::Login { name: "me".into(), secret: "secret".into(), chap_only: false });
    let new = |login: Option<crate::ppp::Login>| {
        let mut end = Stranger::new();
        let plain = config(Some(HERE), Some(THERE));
        let config = LineConfig { ppp: ppp::Config { login, ..plain.ppp.clone() }, ..plain };
        end.line = Line::new(&config, Seed(3).entropy("line"));
        end.line.line_up(end.now);
        // Its own request, acknowledged.
        let asked = end.said();
        let asked = Control::parse(&asked[0].1).expect("well-formed");
        end.control(protocol::LCP, Code::ConfigureAck, asked.id, asked.data);
        end
    };
    // MD5 of the identifier 7, the secret and the challenge, as md5sum has it.
    let sum = 0x69e3_f29e_dd6c_7c31_41be_e6d3_f662_92b3_u128.to_be_bytes();
    for (option, is_chap) in [(PAP, false), (CHAP, true)] {
        let end = &mut new(login.clone());
        // MS-CHAP is refused in favour of what is known.
        let said = end.control(protocol::LCP, Code::ConfigureRequest, 1, &[3, 5, 0xc2, 0x23, 0x81]);
        assert!(said[0].1[0] == Code::ConfigureNak as u8 && said[0].1.ends_with(CHAP), "{said:?}");
        let said = end.control(protocol::LCP, Code::ConfigureRequest, 2, option);
        assert!(!said.iter().any(|(number, _)| *number == protocol::IPCP), "before the proof: {said:?}");
        let (number, id, yes) = if is_chap {
            let said = end.say(protocol::CHAP, &[&[1, 7, 0, 15][..], b"\x04who?server"].concat());
            let answer = &said[0].1;
            assert_eq!((said[0].0, &answer[..2], answer[4]), (protocol::CHAP, &[2, 7][..], 16));
            assert_eq!((&answer[5..21], &answer[21..]), (&sum[..], &b"me"[..]));
            (protocol::CHAP, 7, 3)
        } else {
            let (_, asked) = said.iter().find(|(number, _)| *number == protocol::PAP).expect("a name and a secret");
            assert_eq!(asked[4..], *b"\x02me\x06secret");
            (protocol::PAP, asked[1], 2)
        };
        assert!(end.say(number, &[yes, id ^ 1, 0, 4]).is_empty(), "another identifier is not ours");
        let said = end.say(number, &[yes, id, 0, 4]);
        assert!(said.iter().any(|(number, _)| *number == protocol::IPCP), "now addresses: {said:?}");
        assert!(end.say(number, &[yes, id, 0, 4]).is_empty(), "once");
    }
    // A wrong one ends the link, and so does silence.
    for fails in [true, false] {
        let end = &mut new(login.clone());
        end.control(protocol::LCP, Code::ConfigureRequest, 1, CHAP);
        end.say(protocol::CHAP, &[&[1, 7, 0, 9][..], b"\x04who?"].concat());
        if fails {
            end.say(protocol::CHAP, &[4, 7, 0, 4]);
        }
        while let Some(due) = end.line.poll_timeout().filter(|due| due.at < Instant::from_secs(60)) {
            end.now = due.at;
            end.line.handle_timeout(end.now, |_| {});
            end.said();
        }
        let cause = if fails { Cause::Refused { again: None } } else { Cause::Unauthenticated };
        assert_eq!(end.events().first(), Some(&PppEvent::Down(cause)), "{fails}");
    }
    // Without a name the question is refused, and the cause says what to set.
    let end = &mut new(None);
    let said = end.control(protocol::LCP, Code::ConfigureRequest, 1, PAP);
    assert_eq!(code(&said)[0].1, Code::ConfigureReject as u8);
    end.control(protocol::LCP, Code::ConfigureRequest, 2, &[]);
    end.control(protocol::LCP, Code::TerminateRequest, 3, b"");
    end.now += Span::from_secs(10);
    end.line.handle_timeout(end.now, |_| {});
    assert_eq!(end.events().first(), Some(&PppEvent::Down(Cause::Asked)));
}

/// A terminal server that opens LCP whenever it is asked to, wants PAP, and refuses what it is told: how often it was told, and what was reported.
fn refused_for(hours: u64, way: &str) -> (Vec<u64>, Vec<PppEvent>) {
    const PAP: &[u8] = &[3, 4, 0xc0, 0x23];
    let login = crate::ppp::Login { name: "me".into(), secret: "wrong".into(), chap_only: false };
    let plain = config(Some(HERE), Some(THERE));
    let config = LineConfig { ppp: ppp::Config { login: Some(login), ..plain.ppp.clone() }, ..plain };
    let mut end = Stranger::new();
    end.line = Line::new(&config, Seed(3).entropy("line"));
    end.line.line_up(end.now);
    let (mut told, mut said, mut asked) = (Vec::new(), end.said(), false);
    while end.now < Instant::from_secs(hours * 3_600) {
        let mut next = Vec::new();
        for (number, packet) in said {
            let control = Control::parse(&packet).expect("well-formed");
            match (number, control.code) {
                (protocol::LCP, 1) => {
                    next.extend(end.control(protocol::LCP, Code::ConfigureAck, control.id, control.data));
                    if !core::mem::take(&mut asked) {
                        next.extend(end.control(protocol::LCP, Code::ConfigureRequest, 1, PAP));
                    }
                }
                (protocol::LCP, 5) => next.extend(end.control(protocol::LCP, Code::TerminateAck, control.id, &[])),
                (protocol::PAP, _) => {
                    told.push(end.now.as_nanos() / 1_000_000_000);
                    next.extend(match way {
                        "nak" => end.say(protocol::PAP, &[3, control.id, 0, 5, 0]),
                        "terminate" => end.control(protocol::LCP, Code::TerminateRequest, 9, &[]),
                        _ => {
                            asked = true;
                            end.control(protocol::LCP, Code::ConfigureRequest, 9, PAP)
                        }
                    });
                }
                _ => {}
            }
        }
        if next.is_empty() {
            // It also tries by itself, now and then.
            let due = end.line.poll_timeout().map_or(end.now + Span::from_secs(60), |due| due.at);
            end.now = due.min(end.now + Span::from_secs(60)).max(end.now + Span::from_millis(1));
            end.line.handle_timeout(end.now, |_| {});
            next = end.said();
            if next.is_empty() {
                asked = true;
                next = end.control(protocol::LCP, Code::ConfigureRequest, 1, PAP);
            }
        }
        said = next;
    }
    (told, end.events())
}

#[test]
fn a_refused_secret_is_told_three_times_and_then_once_an_hour() {
    for way in ["nak", "terminate", "begin anew"] {
        let (told, events) = refused_for(3, way);
        assert!((4..=6).contains(&told.len()) && told[2] < 60, "{way}: {told:?}");
        assert!(told.windows(2).skip(2).all(|two| two[1] - two[0] >= 3_600), "{way}: {told:?}");
        let Some(PppEvent::Down(last)) = events.last() else { panic!("{events:?}") };
        assert!(
            matches!(*last, Cause::Refused { again: Some(again) } if again > Span::from_secs(3_500)),
            "{way}: {events:?}"
        );
        assert!(last.to_string().contains("; told again in "), "{last}");
    }
}

/// A line that goes and comes does not shorten the wait.
#[test]
fn a_port_that_comes_and_goes_tells_no_secret_sooner() {
    let login = crate::ppp::Login { name: "me".into(), secret: "wrong".into(), chap_only: false };
    let plain = config(Some(HERE), Some(THERE));
    let config = LineConfig { ppp: ppp::Config { login: Some(login), ..plain.ppp.clone() }, ..plain };
    let mut end = Stranger::new();
    end.line = Line::new(&config, Seed(3).entropy("line"));
    let mut asked = 0;
    for _ in 0..10 {
        end.line.line_up(end.now);
        let said = end.said();
        if let Some((_, packet)) = said.first() {
            let own = Control::parse(packet).expect("well-formed");
            end.control(protocol::LCP, Code::ConfigureAck, own.id, own.data);
            let said = end.control(protocol::LCP, Code::ConfigureRequest, 1, &[3, 4, 0xc0, 0x23]);
            let (_, of_pap) = said.iter().find(|(number, _)| *number == protocol::PAP).expect("the secret");
            asked += 1;
            let said = end.say(protocol::PAP, &[3, of_pap[1], 0, 5, 0]);
            let ends = said.iter().find(|(_, packet)| packet[0] == 5).expect("the link is ended").1[1];
            end.control(protocol::LCP, Code::TerminateAck, ends, &[]);
        }
        end.line.line_down(end.now);
        end.now += Span::from_secs(60);
    }
    assert_eq!(asked, 3);
    end.now += ppp::REFUSED_REST;
    end.line.line_up(end.now);
    assert!(!end.said().is_empty(), "after the wait it begins at once");
}

/// PAP numbers each request anew, and takes an answer to any of them; who refuses PAP says so and tells nothing.
#[test]
fn pap_numbers_its_requests_and_is_refused_where_chap_alone_is_wanted() {
    for chap_only in [false, true] {
        let login = crate::ppp::Login { name: "me".into(), secret: "secret".into(), chap_only };
        let plain = config(Some(HERE), Some(THERE));
        let config = LineConfig { ppp: ppp::Config { login: Some(login), ..plain.ppp.clone() }, ..plain };
        let mut end = Stranger::new();
        end.line = Line::new(&config, Seed(3).entropy("line"));
        end.line.line_up(end.now);
        let own = end.said();
        let own = Control::parse(&own[0].1).expect("well-formed");
        end.control(protocol::LCP, Code::ConfigureAck, own.id, own.data);
        let said = end.control(protocol::LCP, Code::ConfigureRequest, 1, &[3, 4, 0xc0, 0x23]);
        if chap_only {
            assert!(
                said[0].1[0] == Code::ConfigureNak as u8 && said[0].1.ends_with(&[3, 5, 0xc2, 0x23, 5]),
                "{said:?}"
            );
            for id in 2..20 {
                let said = end.control(protocol::LCP, Code::ConfigureRequest, id, &[3, 4, 0xc0, 0x23]);
                assert!(said.iter().all(|(number, packet)| *number == protocol::LCP && packet[0] != 2), "{said:?}");
            }
            end.control(protocol::LCP, Code::ConfigureRequest, 20, &[]);
            end.control(protocol::LCP, Code::TerminateRequest, 21, &[]);
            end.now += Span::from_secs(10);
            end.line.handle_timeout(end.now, |_| {});
            assert_eq!(end.events().first(), Some(&PppEvent::Down(Cause::AskedInPlainText)));
            continue;
        }
        let mut ids = vec![said.iter().find(|(number, _)| *number == protocol::PAP).expect("a request").1[1]];
        for _ in 0..2 {
            end.now += Span::from_secs(3);
            end.line.handle_timeout(end.now, |_| {});
            let said = end.said();
            assert_eq!(said[0].0, protocol::PAP);
            ids.push(said[0].1[1]);
        }
        assert!(ids.windows(2).all(|two| two[1] == two[0].wrapping_add(1)), "{ids:?}");
        assert!(end.say(protocol::PAP, &[2, ids[2].wrapping_add(1), 0, 5, 0]).is_empty(), "of no request");
        let said = end.say(protocol::PAP, &[2, ids[0], 0, 5, 0]);
        assert!(said.iter().any(|(number, _)| *number == protocol::IPCP), "an answer to the first counts: {said:?}");
    }
}
