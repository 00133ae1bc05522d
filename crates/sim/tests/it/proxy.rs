//! A split proxy in one box: two sockets and no link in between.

use crate::common::{direction, run_scenario, secs};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use wavelane_base::{Instant, Seed, Span};
use wavelane_channel::CableConfig;
use wavelane_door::{PairConfig, pool_parts};
use wavelane_gateway::PeerId;
use wavelane_run::{Backend, StackRaw};
use wavelane_scenario::{Scenario, Stack};
use wavelane_sim::{
    ChannelId, Engine, FlowEnd, FlowIndex, FlowSpec, NodeClock, NodeId, Plug, ProxyConfig, SimBackend, Work,
};
use wavelane_tcp::{Config as TcpConfig, memory_own};

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 10);
const PROXY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 10);

/// A client, a proxy or a router, and a server.
struct World {
    engine: Engine,
    client: NodeId,
    middle: NodeId,
    wired: ChannelId,
    flows: u16,
}

impl World {
    fn new(split: bool, wired: CableConfig, air: CableConfig) -> Self {
        let tcp = || TcpConfig { nagle: false, ..TcpConfig::default() };
        Self::with(split.then(|| ProxyConfig::new(tcp())), wired, air)
    }

    fn with(proxy: Option<ProxyConfig>, wired: CableConfig, air: CableConfig) -> Self {
        let mut engine = Engine::new(Seed(1));
        let clock = |ms| NodeClock::new(Span::from_millis(ms), 20).unwrap();
        let tcp = || TcpConfig { nagle: false, ..TcpConfig::default() };
        let client = engine.add_host("client", CLIENT, clock(1), tcp());
        let server = engine.add_host("server", SERVER, clock(2), tcp());
        let middle = match proxy {
            Some(proxy) => {
                let host = engine.add_host("proxy", PROXY, clock(3), tcp());
                engine.split_at(host, proxy);
                host
            }
            None => engine.add_router("router"),
        };
        let plug = |node| Plug { node, address: None };
        let air = engine.connect("air", air, plug(client), plug(middle)).unwrap();
        let wired = engine.connect("wired", wired, plug(middle), plug(server)).unwrap();
        engine.route(middle, CLIENT, air);
        engine.route(middle, SERVER, wired);
        engine.route(client, SERVER, air);
        engine.route(server, CLIENT, wired);
        engine.listen(server, SocketAddr::from((SERVER, 80)));
        Self { engine, client, middle, wired, flows: 0 }
    }

    fn add(&mut self, work: Work, port: u16, start: Instant) -> FlowIndex {
        self.add_reader(work, port, start, None)
    }

    fn add_reader(
        &mut self,
        work: Work,
        port: u16,
        start: Instant,
        reader_pause: Option<(Instant, Instant)>,
    ) -> FlowIndex {
        self.flows += 1;
        self.engine.add_flow(FlowSpec {
            node: self.client,
            peer: PeerId(0),
            source: SocketAddr::from((CLIENT, 40_000 + self.flows)),
            target: SocketAddr::from((SERVER, port)),
            work,
            start,
            stop: None,
            source_rate: None,
            reader_pause,
        })
    }
}

fn near() -> CableConfig {
    CableConfig::symmetric(direction(10, 2, 60_000))
}

fn far() -> CableConfig {
    CableConfig::symmetric(direction(100, 50, 500_000))
}

#[test]
fn bodies_cross_whole_in_both_directions_and_end_in_order() {
    let mut world = World::new(true, far(), near());
    let down = world.add(Work::Download(Some(4_000_000)), 80, secs(1));
    let up = world.add(Work::Upload(Some(4_000_000)), 80, secs(1));
    world.engine.run_until(secs(30));
    for flow in [down, up] {
        let log = world.engine.log(flow);
        assert_eq!((log.end.map(|(_, how)| how), log.damage), (Some(FlowEnd::Complete), None));
        assert_eq!((log.octets, log.server_resets), (4_000_000, 0));
    }
    assert!(world.engine.cable(world.wired).counters(crate::common::Direction::Forward).offered.frames > 1_000);
}

/// The client's SYN waits for the server's answer, which takes the round trip of both cables.
#[test]
fn a_connection_is_accepted_only_after_the_server_and_refused_as_without_a_proxy() {
    for split in [true, false] {
        let mut world = World::new(split, far(), near());
        let open = world.add(Work::Download(Some(1_000)), 80, secs(1));
        let refused = world.add(Work::Download(Some(1_000)), 81, secs(2));
        world.engine.run_until(secs(10));
        let log = world.engine.log(open);
        let took = log.accepted.unwrap().since(log.connected.unwrap());
        assert!((Span::from_millis(104)..Span::from_millis(110)).contains(&took), "{split}: {took:?}");
        let (at, how) = world.engine.log(refused).end.unwrap();
        assert_eq!(how, FlowEnd::Refused(None), "{split}");
        assert!(at.since(secs(2)) < Span::from_millis(110), "{split}: {at:?}");
    }
}

/// Loss beside the client is repaired over its short round trip, not over the whole path: the reason for a split.
#[test]
fn loss_on_the_near_side_costs_its_own_round_trip_only() {
    let octets = |split| {
        let air = crate::common::with_loss(near(), &crate::common::bursts());
        let mut world = World::new(split, far(), air);
        let flow = world.add(Work::Download(None), 80, secs(1));
        world.engine.run_until(secs(31));
        world.engine.log(flow).octets
    };
    let (split, whole) = (octets(true), octets(false));
    assert!(split > 2 * whole, "{split} octets with the proxy, {whole} without");
}

/// The least pool that a file may have, with buffers from the least to a thousand times the pool: while forty readers have stopped it
/// holds no more than the pool, or what `check` says that so many hold whatever the others do, and others go on both ways.
#[test]
fn the_least_pool_carries_beside_readers_that_stopped() {
    const POOL: usize = 1 << 20;
    let (pool, memory) = pool_parts(POOL);
    for buffer in [16 << 10, 512 << 10, POOL, 4 * POOL, 1 << 30] {
        let tcp = TcpConfig { nagle: false, receive_buffer: buffer, send_buffer: buffer, ..TcpConfig::default() };
        let each = 4 * memory_own([&tcp]);
        let mut proxy = ProxyConfig::new(tcp);
        proxy.pair = PairConfig { room: 128 << 10, flows_max: 8_000, pool };
        proxy.memory = memory;
        let mut world = World::with(Some(proxy), far(), near());
        let ever = Some((Instant::ZERO, secs(1_000)));
        for n in 0..40 {
            world.add_reader(Work::Download(Some(2_000_000)), 80, Instant::from_millis(50 * n), ever);
        }
        let body = [Work::Download(Some(1_000_000)), Work::Upload(Some(1_000_000))];
        let live = body.map(|work| world.add(work, 80, secs(5)));
        let mut most = 0;
        let step = Span::from_millis(20);
        world.engine.run_while(secs(120), step, |engine| {
            most = most.max(engine.proxy_waiting(world.middle).unwrap_or(0));
            live.iter().any(|flow| engine.log(*flow).end.is_none())
        });
        for flow in live {
            let log = world.engine.log(flow);
            assert!(log.is_complete(), "buffers of {buffer}: {} octets, {:?}", log.octets, log.end);
        }
        eprintln!("buffers of {buffer}: {most} octets wait at the most, over at {:?}", world.engine.now());
        assert!(most <= POOL.max(42 * each + pool), "buffers of {buffer}: {most} octets");
        assert!(each > 16_384 || most <= POOL, "buffers of {buffer}: {most} octets");
    }
}

#[test]
fn the_same_seed_gives_the_same_packets() {
    let digest = || {
        let mut world = World::new(true, far(), near());
        world.add(Work::Download(Some(1_000_000)), 80, secs(1));
        world.engine.run_until(secs(10));
        world.engine.digest()
    };
    assert_eq!(digest(), digest());
}

/// A wired path of 100 ms, a proxy, and 10 ms of air that loses one packet in a hundred; relays have programs of their own.
fn chain(extra: &str) -> String {
    format!(
        r#"
duration = "20 s"
stacks = ["tcp-cubic", "tcp-cubic+split", "tcp-hop-by-hop", "tcp-bbr+split"]
[nodes]
mobile = "endpoint"
p = "gateway"
q = "gateway"
server = "endpoint"
[channels.air]
between = ["mobile", "p"]
forward = {{ rate = "20 Mbit/s", delay = "5 ms", queue = "50 kB", loss = {{ kind = "random", p = "1/100" }} }}
reverse = "same"
[channels.wire]
between = ["p", "q"]
forward = {{ rate = "100 Mbit/s", delay = "50 ms", queue = "1 MB" }}
reverse = "same"
[channels.lan]
preset = "ethernet"
between = ["q", "server"]
[flows.page]
app = "download"
from = "mobile"
to = "server"
[flows.own]
app = "echo"
from = "p"
to = "server"
every = "100 ms"
[flows.voice]
app = "ping"
from = "mobile"
to = "server"
every = "100 ms"
{extra}
"#
    )
}

fn run(text: &str, stack: &str) -> StackRaw {
    let scenario = Scenario::parse(text, Path::new(".")).unwrap();
    run_scenario(&scenario, Stack::from_word(stack).unwrap(), 1)
}

/// Both proxies split, a program on one is reached, and what is not TCP passes.
#[test]
fn gateways_under_a_split_stack_are_proxies() {
    let plain = run(&chain(""), "tcp-cubic");
    let split = run(&chain(""), "tcp-cubic+split");
    let other = run(&chain(""), "tcp-hop-by-hop");
    assert_eq!(split.flows[0].arrivals, other.flows[0].arrivals, "one stack by two names");
    let octets = |raw: &StackRaw| raw.flows[0].octets;
    assert!(octets(&split) > 3 * octets(&plain), "{} octets split, {} not", octets(&split), octets(&plain));
    for raw in [&plain, &split] {
        assert_eq!(raw.flows[0].intact, Some(true));
        let answered = |flow: usize| raw.flows[flow].probes.iter().filter(|probe| probe.rtt_ns.is_some()).count();
        assert!(answered(1) > 150 && answered(2) > 150, "{} and {}", answered(1), answered(2));
    }
}

/// BBR fills the air alone although the stack's CUBIC does not: the side counts, whoever opened the connection.
#[test]
fn a_side_has_a_congestion_control_of_its_own() {
    let side = |node: &str| chain(&format!("[gateways.p]\nsides = [{{ nodes = [\"{node}\"], congestion = \"bbr\" }}]"));
    let octets = |text: &str, stack| run(text, stack).flows[0].octets;
    let (bbr, air) = (octets(&chain(""), "tcp-bbr+split"), octets(&side("mobile"), "tcp-cubic+split"));
    let (cubic, wire) = (octets(&chain(""), "tcp-cubic+split"), octets(&side("server"), "tcp-cubic+split"));
    assert!(air as f64 > 0.95 * bbr as f64, "{air} octets with BBR on the air, {bbr} everywhere");
    assert!((wire as f64) < 0.9 * bbr as f64 && (cubic as f64) < 0.9 * bbr as f64, "{wire} {cubic} {bbr}");
}

#[test]
fn a_split_stack_without_a_proxy_on_the_way_is_omitted_with_the_reason() {
    let why = |text: &str| {
        let review = SimBackend.review(&Scenario::parse(text, Path::new(".")).unwrap());
        let (_, treatment) = review.stacks.into_iter().find(|(stack, _)| stack.split().is_some()).unwrap();
        format!("{treatment:?}")
    };
    assert_eq!(why(&chain("")), "Imposed");
    let routers = chain("")
        .replace("from = \"p\"", "from = \"mobile\"")
        .replace("p = \"gateway\"", "p = \"router\"")
        .replace("q = \"gateway\"", "q = \"router\"");
    assert!(why(&routers).contains("no TCP crosses a gateway"), "{}", why(&routers));
}

/// TCP stays end to end, and what the air loses is sent again from the gateway beside it: the sender hardly learns of it.
#[test]
fn a_snoop_repairs_the_loss_behind_it_for_an_end_to_end_sender() {
    let side = |p: &str, q: &str| {
        let of = |gateway: &str, node: &str| format!("[gateways.{gateway}]\nsides = [{{ nodes = [\"{node}\"] }}]\n");
        chain(&(of("p", p) + &of("q", q)))
    };
    let octets = |text: &str, stack: &str| {
        let raw = run(text, stack);
        let answered = |flow: usize| raw.flows[flow].probes.iter().filter(|probe| probe.rtt_ns.is_some()).count();
        assert!(raw.flows[0].intact == Some(true) && answered(1) > 150 && answered(2) > 150);
        raw.flows[0].octets
    };
    let plain = octets(&chain(""), "tcp-cubic");
    let snooped = octets(&side("mobile", "server"), "tcp-cubic+snoop");
    assert!(snooped > 2 * plain, "{snooped} octets with the snoop, {plain} without");
    assert_eq!(octets(&side("mobile", "server"), "tcp-cubic+snoop"), snooped, "the same seed, the same bytes");
    // Without sides losses on the way to either end are repaired; towards the server alone there are none.
    assert!(octets(&chain(""), "tcp-cubic+snoop") > 2 * plain);
    let idle = octets(&side("server", "server"), "tcp-cubic+snoop");
    assert!(idle < 2 * plain, "{idle} octets with nothing to repair, {plain} without");
}
