//! The packet service over bad links: datagrams of our own, and end hosts' unsplit TCP.

use crate::common::{address, clean_demo, direction, gateway_config, millis, random_loss, secs, with_loss};
use crate::swarm::all;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_gateway::{Config, PacketConfig, PeerId};
use wavelane_sim::{ChannelId, Engine, FlowSpec, NodeClock, NodeId, Plug, Work};
use wavelane_tcp::Config as TcpConfig;
use wavelane_wire::ip::checksum;

const INNER_MTU: usize = 1_400;
/// Addresses behind the two gateways.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 10);

/// Two gateways that carry packets over one cable.
pub(crate) struct Tunnel {
    pub(crate) engine: Engine,
    pub(crate) gateways: [NodeId; 2],
    pub(crate) air: ChannelId,
}

fn packet_config(me: u8, peer: u8, peer_address: &str, route: &str) -> Config {
    let mut config = gateway_config(me, peer, address(peer_address));
    config.peers[0].routes = vec![route.parse().unwrap()];
    config.packets = Some(PacketConfig { inner_mtu: INNER_MTU, pool: 16 << 20, ..PacketConfig::default() });
    config
}

impl Tunnel {
    pub(crate) fn new(seed: u64, cable: CableConfig) -> Self {
        let mut engine = Engine::new(Seed(seed));
        let clocks =
            [NodeClock::new(Span::from_secs(1_000), 20).unwrap(), NodeClock::new(Span::from_millis(7), -20).unwrap()];
        let config = [
            packet_config(1, 2, "192.0.2.2:51820", "10.1.0.0/16"),
            packet_config(2, 1, "192.0.2.1:51820", "10.0.0.0/16"),
        ];
        let [near, far] = config;
        let a = engine.add_gateway("a", clocks[0], near).unwrap();
        let b = engine.add_gateway("b", clocks[1], far).unwrap();
        let plug = |node, at: &str| Plug { node, address: Some(address(at)) };
        let air = engine.connect("air", cable, plug(a, "192.0.2.1:51820"), plug(b, "192.0.2.2:51820")).unwrap();
        Self { engine, gateways: [a, b], air }
    }

    /// Joins an end host to the inside of each gateway: the near one is the client.
    fn with_hosts(mut self, tcp: &TcpConfig) -> (Self, [NodeId; 2]) {
        let lan = || CableConfig::symmetric(direction(1_000, 0, 10_000_000));
        let hosts = [(NEAR, FAR, "client"), (FAR, NEAR, "server")].map(|(here, there, name)| {
            let host = self.engine.add_host(name, here, NodeClock::new(Span::ZERO, 0).unwrap(), tcp.clone());
            (host, there)
        });
        for (side, (host, there)) in hosts.into_iter().enumerate() {
            let ends = (Plug { node: host, address: None }, Plug { node: self.gateways[side], address: None });
            let cable = self.engine.connect(&format!("lan {side}"), lan(), ends.0, ends.1).unwrap();
            self.engine.route(host, there, cable);
        }
        self.engine.listen(hosts[1].0, SocketAddr::from((FAR, 80)));
        (self, hosts.map(|(host, _)| host))
    }

    pub(crate) fn counter(&self, side: usize, name: &str) -> u64 {
        let counters = self.engine.status(self.gateways[side]).counters;
        counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

/// A UDP packet from `NEAR` to `FAR` (or back) whose payload begins with `serial`.
pub(crate) fn udp(back: bool, port: u16, serial: u64, len: usize, dscp: u8) -> Vec<u8> {
    let (source, target) = if back { (FAR, NEAR) } else { (NEAR, FAR) };
    let mut payload = vec![0xa5; len.max(8)];
    payload[..8].copy_from_slice(&serial.to_be_bytes());
    let (udp_len, total) = ((8 + payload.len()) as u16, (28 + payload.len()) as u16);
    let mut out = vec![0x45, dscp << 2];
    out.extend(total.to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    out.extend(source.octets());
    out.extend(target.octets());
    let sum = checksum(&[&out]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(port.to_be_bytes());
    out.extend(5_000u16.to_be_bytes());
    out.extend(udp_len.to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

/// Port and serial of such a packet.
pub(crate) fn read(packet: &[u8]) -> (u16, u64) {
    let port = u16::from_be_bytes([packet[20], packet[21]]);
    (port, u64::from_be_bytes(packet[28..36].try_into().unwrap()))
}

/// Sends datagrams of `len` bytes every `every` for `seconds`, waits, and gives each one's delay.
fn stream(tunnel: &mut Tunnel, every: Span, len: usize, seconds: u64) -> (u64, BTreeMap<u64, Span>) {
    let (mut sent, mut times) = (0u64, BTreeMap::new());
    let mut delays = BTreeMap::new();
    let (begin, mut last) = (tunnel.engine.now(), None);
    let mut collect = |tunnel: &mut Tunnel, times: &BTreeMap<u64, Instant>| {
        for (at, node, packet) in tunnel.engine.take_packets() {
            assert_eq!(node, tunnel.gateways[1]);
            let (_, serial) = read(&packet);
            assert_eq!(packet[8], 63, "one hop is taken");
            let again = delays.insert(serial, at.since(times[&serial]));
            assert_eq!(again, None, "datagram {serial} came twice");
            last = last.max(Some(serial));
        }
    };
    while tunnel.engine.now() < begin + Span::from_secs(seconds) {
        tunnel.engine.send_packet(tunnel.gateways[0], &udp(false, 4_000, sent, len, 0));
        times.insert(sent, tunnel.engine.now());
        sent += 1;
        tunnel.engine.run_until(tunnel.engine.now() + every);
        collect(tunnel, &times);
    }
    tunnel.engine.run_until(tunnel.engine.now() + Span::from_secs(5));
    collect(tunnel, &times);
    (sent, delays)
}

#[test]
fn without_loss_nothing_is_retransmitted_at_any_rtt() {
    for (one_way_ms, every_us, len) in [
        (2, 1_000, 1_000),
        (50, 1_000, 1_000),
        (300, 1_000, 1_000),
        (50, 100_000, 64),
        (300, 100_000, 64),
        (2, 100_000, 64),
    ] {
        let cable = CableConfig::symmetric(direction(20, one_way_ms, 250_000));
        let mut tunnel = Tunnel::new(1, cable);
        let (sent, delays) = stream(&mut tunnel, Span::from_micros(every_us), len, 15);
        let repeated = tunnel.counter(0, "packets_repeated");
        let what = format!("{one_way_ms} ms, {len} B every {every_us} us: {sent} sent, {repeated} repeated");
        println!("{what}, {} arrived", delays.len());
        assert!(repeated * 200 < sent, "{what}");
        assert!(delays.len() as u64 * 1_000 >= sent * 999, "{what}, {} arrived", delays.len());
    }
}

#[test]
fn losses_are_repaired_within_a_round_trip_and_a_half() {
    let mut tunnel = Tunnel::new(2, with_loss(clean_demo(), &random_loss(1, 20)));
    // The lossy handshake and the first round trip do not count.
    stream(&mut tunnel, Span::from_millis(2), 500, 2);
    let (sent, delays) = stream(&mut tunnel, Span::from_millis(2), 500, 20);
    let mut sorted: Vec<Span> = delays.values().copied().collect();
    sorted.sort();
    println!(
        "{sent} sent, {} arrived, p50 {} p95 {} p99 {}; repaired {}, unrepaired {}",
        sorted.len(),
        sorted[sorted.len() / 2],
        sorted[sorted.len() * 95 / 100],
        sorted[sorted.len() * 99 / 100],
        tunnel.counter(0, "packets_repaired"),
        tunnel.counter(0, "packets_unrepaired"),
    );
    assert!(sorted.len() as u64 * 1_000 >= sent * 998);
    assert!(sorted[sorted.len() * 99 / 100] < Span::from_millis(250));
}

#[test]
fn an_overload_of_udp_waits_at_most_a_tenth_of_a_second() {
    for (loss, least) in [(None, 0.9), (Some(random_loss(3, 100)), 0.8)] {
        let cable = CableConfig::symmetric(direction(20, 25, 1_000_000));
        let cable = loss.as_ref().map_or(cable.clone(), |loss| with_loss(cable, loss));
        let mut tunnel = Tunnel::new(5, cable);
        // What the lane learns first does not count.
        stream(&mut tunnel, Span::from_millis(2), 500, 2);
        // 30 Mbit/s of IP.
        let (sent, delays) = stream(&mut tunnel, Span::from_micros(341), 1_250, 12);
        let mut sorted: Vec<Span> = delays.values().copied().collect();
        sorted.sort();
        let [p50, p95, longest] = [50, 95, 100].map(|p| sorted[(sorted.len() - 1) * p / 100]);
        let share = sorted.len() as f64 / sent as f64 * 1.5;
        println!(
            "loss {}: {:.3} of the link used, p50 {p50} p95 {p95} longest {longest}; dropped for age {}, by CoDel {}",
            loss.is_some(),
            share,
            tunnel.counter(0, "dropped_packets_queue_age"),
            tunnel.counter(0, "dropped_packets_queue_delay"),
        );
        // The wait, the way (25 ms), what the lane itself holds, and with loss two rounds of repeats.
        let way = Span::from_millis(if loss.is_some() { 25 + 20 + 140 } else { 25 + 20 });
        assert!(p95 <= Span::from_millis(100) + way, "{p95}");
        assert!(loss.is_some() || longest <= Span::from_millis(100) + way, "{longest}");
        assert!(share >= least, "{share}");
        assert!(tunnel.counter(0, "dropped_packets_queue_age") > 0);
    }
}

/// What the gateway on `side` sent for the first time, and what repair added to it.
fn octets(tunnel: &Tunnel, side: usize) -> [u64; 2] {
    ["first_octets", "repair_octets"].map(|name| tunnel.counter(side, name))
}

/// A download by CUBIC end to end: goodput from 3 s to 30 s in Mbit/s, the sender's share of repeats, and that of repair
/// in what its gateway sent.
fn unsplit(seed: u64, cable: CableConfig) -> (f64, f64, f64) {
    let tcp = TcpConfig { nagle: false, ..TcpConfig::default() };
    let (mut tunnel, [client, server]) = Tunnel::new(seed, cable).with_hosts(&tcp);
    let flow = tunnel.engine.add_flow(FlowSpec {
        node: client,
        peer: PeerId(0),
        source: SocketAddr::from((NEAR, 40_000)),
        target: SocketAddr::from((FAR, 80)),
        work: Work::Download(None),
        start: millis(500),
        stop: Some(secs(30)),
        source_rate: None,
        reader_pause: None,
    });
    tunnel.engine.run_until(millis(29_900));
    let sender = tunnel.engine.connections(server).pop().expect("the connection is open").counters;
    assert_eq!(sender.segments > 0, tunnel.counter(0, "packets_to_inside") > 0);
    tunnel.engine.run_until(secs(31));
    let log = tunnel.engine.log(flow);
    assert_eq!(log.damage, None);
    let mbit = log.goodput_between(secs(3), secs(30)).as_bps() as f64 / 1e6;
    let repeats = sender.retransmits as f64 / sender.segments as f64;
    let [first, repair] = octets(&tunnel, 1);
    let repair = repair as f64 / first as f64;
    println!(
        "seed {seed}: {mbit:.2} Mbit/s, TCP repeats {:.3} %, repair share {repair:.3}, {} copies refused, {} holds expired",
        repeats * 100.0,
        tunnel.counter(1, "packets_copies_refused"),
        tunnel.counter(0, "packets_hold_expired"),
    );
    (mbit, repeats, repair)
}

#[test]
fn unsplit_cubic_without_loss_fills_the_link() {
    let (mbit, repeats, repair) = unsplit(3, clean_demo());
    assert!(mbit > 17.0 && repeats < 0.005 && repair < 0.02, "{mbit:.2} {repeats} {repair}");
}

#[test]
fn unsplit_cubic_at_five_percent_loss_gets_most_of_the_limit() {
    // What the medium leaves: 20 Mbit/s x (1 - 1/20).
    const LIMIT: f64 = 19.0;
    let runs: Vec<_> = (3..if all() { 8 } else { 5 })
        .map(|seed| unsplit(seed, with_loss(clean_demo(), &random_loss(1, 20))))
        .collect();
    let mean = runs.iter().map(|run| run.0).sum::<f64>() / runs.len() as f64;
    assert!(mean >= 0.7 * LIMIT, "{mean:.2} of {LIMIT} Mbit/s");
    assert!(runs.iter().all(|run| run.1 < 0.005), "{runs:?}");
    // The budget is 2 x 1/20 and 2 %; two sendings of every repeat lie within it.
    assert!(runs.iter().all(|run| run.2 <= 0.12), "{runs:?}");
}

#[test]
fn forbidden_packets_are_dropped_and_wrong_targets_answered() {
    let mut tunnel = Tunnel::new(4, clean_demo());
    let far = packet_config(2, 1, "192.0.2.1:51820", "10.0.0.0/16");
    let mut engine = Engine::new(Seed(4));
    let mut strict = far;
    strict.peers[0].allow_targets = vec!["10.1.9.0/24".parse().unwrap()];
    let mut near = packet_config(1, 2, "192.0.2.2:51820", "10.1.0.0/16");
    near.peers[0].allow_sources = Some(vec!["10.1.0.0/16".parse().unwrap()]);
    strict.packets = strict.packets.map(|p| PacketConfig { address4: Some(Ipv4Addr::new(10, 1, 0, 1)), ..p });
    let clock = NodeClock::new(Span::ZERO, 0).unwrap();
    let (a, b) = (engine.add_gateway("a", clock, near).unwrap(), engine.add_gateway("b", clock, strict).unwrap());
    let plug = |node, at: &str| Plug { node, address: Some(address(at)) };
    engine.connect("air", clean_demo(), plug(a, "192.0.2.1:51820"), plug(b, "192.0.2.2:51820")).unwrap();
    tunnel.engine = engine;
    tunnel.gateways = [a, b];
    tunnel.engine.send_packet(a, &udp(false, 4_000, 1, 100, 0));
    tunnel.engine.run_until(secs(3));
    let out = tunnel.engine.take_packets();
    assert_eq!(tunnel.counter(1, "dropped_packets_target_not_allowed"), 1);
    let (_, node, error) = out.first().expect("the sender is told");
    assert_eq!((out.len(), *node, error[9], &error[12..20]), (1, a, 1, &[10, 1, 0, 1, 10, 0, 0, 10][..]));
    assert_eq!(error[20..22], [3, 13], "administratively prohibited");
    // A source that this peer may not speak for is dropped without a word.
    let mut forged = udp(false, 4_000, 2, 100, 0);
    forged[12] = 11;
    forged[10..12].fill(0);
    let sum = checksum(&[&forged[..20]]);
    forged[10..12].copy_from_slice(&sum.to_be_bytes());
    tunnel.engine.send_packet(a, &forged);
    tunnel.engine.run_until(secs(6));
    assert_eq!(tunnel.counter(1, "dropped_packets_source_not_allowed"), 1);
    assert!(tunnel.engine.take_packets().is_empty());
}

#[test]
fn an_unused_packet_service_changes_nothing_for_blocks() {
    use crate::common::Pair;
    let run = |service: bool| {
        let mut pair = Pair::new(5, with_loss(clean_demo(), &random_loss(1, 20)));
        if service {
            let mut engine = Engine::new(Seed(5));
            let clocks = [
                NodeClock::new(Span::from_secs(1_000), 20).unwrap(),
                NodeClock::new(Span::from_millis(7), -20).unwrap(),
            ];
            let (at_a, at_b) = ("192.0.2.1:51820", "192.0.2.2:51820");
            let a = engine.add_gateway("a", clocks[0], packet_config(1, 2, at_b, "10.1.0.0/16")).unwrap();
            let b = engine.add_gateway("b", clocks[1], packet_config(2, 1, at_a, "10.0.0.0/16")).unwrap();
            let plug = |node, at: &str| Plug { node, address: Some(address(at)) };
            let cable = with_loss(clean_demo(), &random_loss(1, 20));
            pair.air = engine.connect("air", cable, plug(a, at_a), plug(b, at_b)).unwrap();
            engine.listen(b, crate::common::server());
            pair.engine = engine;
            pair.a = a;
            pair.b = b;
        }
        let flow = pair.download(3_000_000);
        pair.finish(secs(30));
        pair.engine.log(flow).last_byte
    };
    // The service has timers of its own, and a lane that is asked at other moments may send a packet one place earlier.
    let times = [run(false), run(true)].map(|at| at.expect("it ended").since(Instant::ZERO).as_secs_f64());
    assert!((times[0] / times[1] - 1.0).abs() < 0.002, "{times:?}");
}

#[test]
fn blocks_and_packets_share_a_lane_evenly() {
    let mut tunnel = Tunnel::new(6, clean_demo());
    let [a, b] = tunnel.gateways;
    tunnel.engine.listen(b, crate::common::server());
    let flow = tunnel.engine.add_flow(FlowSpec {
        node: a,
        peer: PeerId(0),
        source: SocketAddr::from((NEAR, 40_000)),
        target: crate::common::server(),
        work: Work::Upload(None),
        start: Instant::ZERO,
        stop: Some(secs(20)),
        source_rate: None,
        reader_pause: None,
    });
    // Datagrams at one and a half times the lane's rate.
    let (mut serial, mut octets) = (0, 0u64);
    while tunnel.engine.now() < secs(20) {
        tunnel.engine.send_packet(a, &udp(false, 4_000, serial, 1_200, 0));
        serial += 1;
        tunnel.engine.run_until(tunnel.engine.now() + Span::from_micros(330));
        let arrived = tunnel.engine.take_packets();
        octets += arrived.iter().filter(|p| p.0 >= secs(5)).map(|p| p.2.len() as u64).sum::<u64>();
    }
    tunnel.engine.run_until(secs(21));
    let blocks = tunnel.engine.log(flow).goodput_between(secs(5), secs(20)).as_bps() as f64 / 1e6;
    let packets = octets as f64 * 8.0 / 15.0 / 1e6;
    println!("blocks {blocks:.2} Mbit/s, packets {packets:.2} Mbit/s");
    assert!((blocks / packets - 1.0).abs() < 0.1 && blocks + packets > 16.0, "{blocks:.2} and {packets:.2} Mbit/s");
}

/// A scenario's unsplit stack: every end keeps its TCP, and the preset of 1998 repairs too.
#[test]
fn a_scenario_leaves_tcp_whole() {
    let text = |tries: &str| {
        format!(
            "title = \"t\"\nseed = 1\nduration = \"20 s\"\nstacks = [\"wavelane+unsplit\", \"tcp-cubic\"]\n[nodes]\nc = \"endpoint\"\na = \"gateway\"\n\
             b = \"gateway\"\ns = \"endpoint\"\n[gateways.a]\ntries = \"{tries}\"\n[gateways.b]\ntries = \"{tries}\"\n[channels.lan]\npreset = \"ethernet\"\n\
             between = [\"c\", \"a\"]\n[channels.wan]\npreset = \"ethernet\"\nbetween = [\"b\", \"s\"]\n[channels.air]\nbetween = [\"a\", \"b\"]\n\
             forward = {{ rate = \"2 Mbit/s\", delay = \"25 ms\", queue = \"50 packets\", loss = {{ kind = \"random\", p = \"1/10\" }} }}\n\
             reverse = \"same\"\n[flows.page]\napp = \"download\"\nfrom = \"c\"\nto = \"s\"\nsize = \"2 MB\"\n"
        )
    };
    let run = |tries: &str, stack: &str| {
        let scenario = wavelane_scenario::Scenario::parse(&text(tries), std::path::Path::new(".")).unwrap();
        crate::common::run_scenario(&scenario, wavelane_scenario::Stack::from_word(stack).unwrap(), 1)
    };
    let plain = run("evidence", "tcp-cubic");
    assert!(!plain.flows[0].completed && plain.packets.is_none(), "{:?}", plain.flows[0].octets);
    for tries in ["evidence", "1998"] {
        let raw = run(tries, "wavelane+unsplit");
        assert_eq!(raw.flows[0].intact, Some(true), "{tries}");
        let packets = raw.packets.unwrap();
        assert!(packets.sent > 1_400 && packets.repeated > 100, "{tries}: {packets:?}");
    }
    // Most headers are compressed, unless either gateway does not take that.
    let raw = run("evidence", "wavelane+unsplit").packets.unwrap();
    assert!(raw.compressed * 10 > raw.sent * 8, "{raw:?}");
    for gateway in ["[gateways.a]", "[gateways.b]"] {
        let plain = text("evidence").replace(gateway, &format!("{gateway}\ncompress-headers = false"));
        let scenario = wavelane_scenario::Scenario::parse(&plain, std::path::Path::new(".")).unwrap();
        let stack = wavelane_scenario::Stack::from_word("wavelane+unsplit").unwrap();
        let raw = crate::common::run_scenario(&scenario, stack, 1);
        assert_eq!((raw.flows[0].intact, raw.packets.unwrap().compressed), (Some(true), 0), "{gateway}");
    }
    // What has no TCP, or two ways in, is left out with the reason.
    let why = |text: &str| {
        let scenario = wavelane_scenario::Scenario::parse(text, std::path::Path::new(".")).unwrap();
        let review = wavelane_run::Backend::review(&wavelane_sim::SimBackend, &scenario);
        format!("{review:?}")
    };
    assert!(why(&text("1998").replace("from = \"c\"", "from = \"a\"")).contains("which has no TCP to leave whole"));
    let two = text("1998")
        .replace("[nodes]\n", "[nodes]\nd = \"endpoint\"\n")
        .replace("[flows.page]", "[channels.more]\npreset = \"ethernet\"\nbetween = [\"d\", \"a\"]\n[flows.page]");
    assert!(why(&two).contains("has several channels to endpoints"));
}
