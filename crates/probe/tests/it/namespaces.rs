//! The probe between two hosts with a router whose queue is known, judged by ping and by the packets the router dropped.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::clock::{since_boot, wall_nanos};
use wavelane_host::netns::{ChildEnd, Netns, may_administer_network};
use wavelane_host::poller::{Poller, Watch};
use wavelane_host::tun::Tun;
use wavelane_probe::document::{ProbeDocument, QueueAt};
use wavelane_probe::limits::Limits;
use wavelane_probe::plan::{Measurement, Plan, StageKind};
use wavelane_probe::{drive, figures, serve};

const SERVER: &str = "10.91.2.2";
/// The router's address on the client's side.
const DESK: &str = "10.91.1.1";
/// The payload of a probe, which tells it from questions.
const SIZE: usize = 100;

/// client - router - server, 10 Mbit/s and 300 ms of FIFO each way.
struct World {
    client: Netns,
    router: Netns,
    server: Netns,
}

fn run(ns: &Netns, line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let shown = line.to_owned();
    ns.run(move || {
        let out = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{shown}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    })
    .unwrap()
}

fn feed(ns: &Netns, program: &'static str, text: &'static str) {
    ns.run(move || {
        use std::io::Write;
        let mut child = Command::new(program).args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    })
    .unwrap();
}

fn missing() -> Option<&'static str> {
    let there = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|out| out.status.success())
    };
    if !may_administer_network() {
        return Some("root to make network namespaces");
    }
    ["ip", "tc", "nft", "ping", "ethtool"].into_iter().find(|program| !there(program))
}

impl World {
    fn new() -> Self {
        let ns = |name| Netns::new(name).unwrap();
        let (client, router, server) = (ns("probe-c"), ns("probe-r"), ns("probe-s"));
        for (host, own, net) in [(&client, "c0", 1), (&server, "s0", 2)] {
            let peer = format!("r{net}");
            run(&router, &format!("ip link add {peer} type veth peer name {own} netns {}", host.path().display()));
            run(&router, &format!("ip addr add 10.91.{net}.1/24 dev {peer}"));
            run(host, &format!("ip addr add 10.91.{net}.2/24 dev {own}"));
            for (ns, dev) in [(&router, peer.as_str()), (host, own)] {
                run(ns, &format!("ip link set {dev} up"));
                run(ns, &format!("ethtool -K {dev} tso off gso off gro off"));
            }
            run(host, &format!("ip route add default via 10.91.{net}.1"));
            run(
                &router,
                &format!("tc qdisc replace dev {peer} root handle 1: tbf rate 10mbit burst 6000 limit 375000"),
            );
            // Counted in packets, so that small ones are dropped, too: 250 of 1514 octets are 300 ms.
            run(&router, &format!("tc qdisc replace dev {peer} parent 1: handle 10: pfifo limit 250"));
        }
        router.sysctl("net/ipv4/ip_forward", "1").unwrap();
        // One answer a second and host is few in phases as short as these.
        for ns in [&router, &server] {
            ns.sysctl("net/ipv4/icmp_ratelimit", "100").unwrap();
        }
        Self { client, router, server }
    }

    /// Counts probes before the router's queues and behind them.
    fn count_probes(&self) {
        feed(
            &self.router,
            "nft",
            "table ip c { chain f { type filter hook forward priority 0;\n\
             udp dport 4783 udp length 108 counter\nudp sport 4783 udp length 108 counter\n}\n}\n",
        );
        feed(
            &self.server,
            "nft",
            "table ip c { chain f { type filter hook input priority 0;\nudp dport 4783 udp length 108 counter\n}\n}\n",
        );
        feed(
            &self.client,
            "nft",
            "table ip c { chain f { type filter hook input priority 0;\nudp sport 4783 udp length 108 counter\n}\n}\n",
        );
    }

    /// Packets from the client to the server take so much longer: a TUN device gives back late what it is given.
    fn delay(&self, by: Span, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        let tun = self.router.run(|| Tun::open("late0").unwrap()).unwrap();
        run(&self.router, "ip link set late0 up");
        run(&self.router, "ip rule add iif r1 lookup 100");
        run(&self.router, "ip route add default dev late0 table 100");
        for device in ["all", "late0"] {
            self.router.sysctl(&format!("net/ipv4/conf/{device}/rp_filter"), "0").unwrap();
        }
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            let mut poller = Poller::new().unwrap();
            poller.add(&tun, 0, Watch::Readable).unwrap();
            let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
            let mut room = [0; 2_048];
            while !stop.load(Ordering::Relaxed) {
                let due = waiting.front().map_or(Span::from_millis(50), |(due, _)| due.since(since_boot()));
                poller.wait(Some(Duration::from_nanos(due.as_nanos()))).unwrap();
                while let Some(n) = tun.read(&mut room).unwrap() {
                    waiting.push_back((since_boot() + by, room[..n].to_vec()));
                }
                while waiting.front().is_some_and(|(due, _)| *due <= since_boot()) {
                    let (_, packet) = waiting.pop_front().unwrap();
                    tun.write(&packet).unwrap();
                }
            }
        })
    }

    /// Serves until the flag is set.
    fn serve(&self, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        Self::serve_in(&self.server, SERVER, stop)
    }

    fn serve_in(ns: &Netns, at: &'static str, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        let (told, ready) = channel();
        let theirs = Arc::clone(stop);
        let start = move || {
            std::thread::spawn(move || {
                let listen: SocketAddr = format!("{at}:{}", serve::PORT).parse().unwrap();
                serve::serve(listen, Limits::default(), None, theirs, |_| {
                    let _ = told.send(());
                })
                .unwrap();
            })
        };
        let thread = ns.run(start).unwrap();
        ready.recv().unwrap();
        thread
    }

    fn measure(&self, plan: Plan) -> Measurement {
        let measure =
            move || std::thread::spawn(move || drive::measure(&plan, &AtomicBool::new(false), &mut |_| ()).unwrap());
        self.client.run(measure).unwrap().join().unwrap()
    }
}

fn counters(ns: &Netns) -> Vec<u64> {
    let text = run(ns, "nft list ruleset");
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).filter(|w| w[0] == "packets").map(|w| w[1].parse().unwrap()).collect()
}

fn plan(stages: &[(StageKind, u64)]) -> Plan {
    Plan {
        target: format!("{SERVER}:{}", serve::PORT).parse().unwrap(),
        stages: stages.iter().map(|(kind, ms)| (*kind, Span::from_millis(*ms))).collect(),
        interval: Span::from_millis(10),
        size: SIZE,
        dscps: vec![46],
        congestion: "cubic".into(),
        streams: 2,
        ramp: Span::from_millis(300),
        hops: true,
        vantage: None,
    }
}

/// Round trips of ping in the part of a stage that counts: (time of day at the answer, milliseconds) as ping prints them.
fn ping_median(m: &Measurement, kind: StageKind, pings: &[(f64, f64)], wall_less_boot: i128) -> f64 {
    let stage = m.stages.iter().find(|stage| stage.kind == kind).unwrap();
    let skip = stage.to.since(stage.from).scale(1, 3).min(Span::from_secs(2));
    let wall = |at: Instant| (i128::from(at.as_nanos()) + wall_less_boot) as f64 / 1e9;
    let window = wall(stage.from + skip)..wall(stage.to);
    let mut within: Vec<f64> =
        pings.iter().filter(|(at, ms)| window.contains(&(at - ms / 1e3))).map(|(_, ms)| *ms).collect();
    within.sort_by(f64::total_cmp);
    assert!(within.len() > 30, "{} pings during {}", within.len(), kind.word());
    within[within.len() / 2]
}

#[test]
fn the_bloat_of_a_router_is_found_measured_and_placed() {
    if let Some(what) = missing() {
        return eprintln!("SKIPPED (1 test): the_bloat_of_a_router_is_found_measured_and_placed needs {what}");
    }
    let world = World::new();
    world.count_probes();
    let stop = Arc::new(AtomicBool::new(false));
    let server = world.serve(&stop);
    let mut ping = Command::new("ping");
    ping.args(["-D", "-n", "-i", "0.02", "-w", "25", SERVER]).stdout(Stdio::piped());
    let mut ping = world.client.spawn(ping, ChildEnd::Kill).unwrap().unwrap();
    let reader = std::thread::spawn({
        let out = ping.stdout.take().unwrap();
        move || std::io::read_to_string(out).unwrap()
    });
    let wall_less_boot = i128::from(wall_nanos()) - i128::from(since_boot().as_nanos());
    let stages = [
        (StageKind::Idle, 2_000),
        (StageKind::Down, 6_000),
        (StageKind::Rest, 1_500),
        (StageKind::Up, 6_000),
        (StageKind::Rest, 1_500),
        (StageKind::After, 1_000),
    ];
    let m = world.measure(plan(&stages));
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
    ping.kill().unwrap();
    ping.wait().unwrap();
    let pings: Vec<(f64, f64)> = reader.join().unwrap().lines().filter_map(answered).collect();
    let d: ProbeDocument = figures::document(SERVER, &m);
    let phase = |word: &str| d.phases.iter().find(|p| p.phase == word).unwrap().clone();
    println!("{}", d.to_json());

    for (kind, word) in [(StageKind::Idle, "idle"), (StageKind::Down, "down"), (StageKind::Up, "up")] {
        let (ours, theirs) = (phase(word).foreign_p50_ms.unwrap(), ping_median(&m, kind, &pings, wall_less_boot));
        let bound = (0.1 * theirs).max(5.0);
        assert!((ours - theirs).abs() <= bound, "{word}: {ours} ms, ping says {theirs} ms");
    }
    for p in [phase("down"), phase("up")] {
        assert_eq!(p.congestion_control, ["cubic"], "{p:?}");
        // 1448 of 1514 octets of a frame, which is what tbf counts, less probes and pings.
        assert!((8.5e6..9.6e6).contains(&p.goodput_bps.unwrap()), "{p:?}");
        assert!(p.rise_ms.unwrap() > 100.0 && p.self_p50_ms.unwrap() > 100.0 && p.rpm.unwrap() < 600.0, "{p:?}");
        assert!(p.classes[0].dscp == 46 && p.classes[0].foreign_p50_ms.is_some(), "{p:?}");
    }
    assert!(["C", "D"].contains(&d.grade.unwrap()), "{:?}", d.grade);
    assert!(d.bloat_ratio.unwrap() > 10.0);
    // One way is loaded at a time. Both clocks are one here, so the truth is that the other way stays empty.
    assert!(phase("down").owd_down_p50_ms.unwrap() > 100.0 && phase("down").owd_up_p50_ms.unwrap() < 5.0, "{d:?}");
    assert!(phase("up").owd_up_p50_ms.unwrap() > 100.0 && phase("up").owd_down_p50_ms.unwrap() < 5.0, "{d:?}");

    // The probes of every stage and class, in the queues' own counts.
    let sent: usize = m.trains.iter().map(|t| t.samples.len()).sum();
    let received: u64 = m.trains.iter().map(|t| u64::from(t.tally.unwrap().received)).sum();
    let back = m.trains.iter().flat_map(|t| &t.samples).filter(|s| s.echo.is_some()).count();
    let (forward, server, client) = (counters(&world.router), counters(&world.server), counters(&world.client));
    assert_eq!((sent as u64, received), (forward[0], server[0]), "the way there: dropped {}", forward[0] - server[0]);
    assert_eq!((received, back as u64), (forward[1], client[0]), "the way back: dropped {}", forward[1] - client[0]);

    // Downwards the queue is where the router sends to the client: hop 1. Upwards where it sends to the server: hop 1 too.
    let at = d.queue_at.unwrap();
    assert!(at.hop == Some(1) && at.what.contains("10.91."), "{at:?}");
}

/// The queue towards the client stands on the way from the second vantage, the one towards the server behind it.
#[test]
fn a_second_vantage_tells_on_which_side_the_queue_is() {
    if let Some(what) = missing() {
        return eprintln!("SKIPPED (1 test): a_second_vantage_tells_on_which_side_the_queue_is needs {what}");
    }
    let world = World::new();
    let stop = Arc::new(AtomicBool::new(false));
    let late = world.delay(Span::from_millis(10), &stop);
    let servers = [world.serve(&stop), World::serve_in(&world.router, DESK, &stop)];
    let found = |kind: StageKind, vantage: &str| -> (ProbeDocument, QueueAt) {
        let vantage = Some(("desk".to_owned(), format!("{vantage}:{}", serve::PORT).parse().unwrap()));
        let m = world.measure(Plan { dscps: Vec::new(), vantage, ..plan(&[(StageKind::Idle, 2_000), (kind, 5_000)]) });
        let d = figures::document(SERVER, &m);
        let at = d.queue_at.clone().unwrap_or_else(|| panic!("no queue: {}", d.to_json()));
        println!("{}: {at:?}, {:?}, rise {:?}", kind.word(), d.vantage, d.phases[1].rise_ms);
        (d, at)
    };
    let (d, at) = found(StageKind::Down, DESK);
    assert!((at.hop, at.by) == (Some(1), "vantage") && at.what.contains("on the way from desk"), "{at:?}");
    let near = d.vantage.unwrap();
    let idle = (near.phases[0].p50_ms.unwrap(), d.phases[0].foreign_p50_ms.unwrap());
    assert!(idle.0 < 5.0 && idle.1 > 10.0, "{idle:?}");
    assert!(near.phases[1].rise_ms.unwrap() > 100.0, "{near:?}");
    let (d, at) = found(StageKind::Up, DESK);
    assert!(at.by.starts_with("vantage") && at.what.contains("beyond desk"), "{at:?}");
    assert!(d.vantage.unwrap().phases[1].rise_ms.unwrap() < 50.0);
    // A vantage at the same place as the target decides nothing.
    let (_, at) = found(StageKind::Up, SERVER);
    assert!(at.by == "hops" && at.doubt.as_ref().unwrap().contains("no nearer than"), "{at:?}");
    stop.store(true, Ordering::Relaxed);
    servers.into_iter().chain([late]).for_each(|thread| thread.join().unwrap());
}

/// `[1700000000.123456] 64 bytes from 10.91.2.2: icmp_seq=1 ttl=63 time=0.108 ms`
fn answered(line: &str) -> Option<(f64, f64)> {
    let at = line.strip_prefix('[')?.split(']').next()?.parse().ok()?;
    let ms = line.split("time=").nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some((at, ms))
}

#[test]
fn a_firewall_that_drops_tcp_is_told_as_the_cause() {
    if let Some(what) = missing() {
        return eprintln!("SKIPPED (1 test): a_firewall_that_drops_tcp_is_told_as_the_cause needs {what}");
    }
    let world = World::new();
    feed(
        &world.server,
        "nft",
        "table ip d { chain i { type filter hook input priority 0;\ntcp dport 4783 drop\n}\n}\n",
    );
    let stop = Arc::new(AtomicBool::new(false));
    let server = world.serve(&stop);
    let m = world.measure(plan(&[(StageKind::Idle, 500), (StageKind::Down, 2_000)]));
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap();
    let said =
        m.notes.iter().filter(|note| note.contains("there was no load down: no connection was made in 2 s")).count();
    assert!(said == 1 && m.notes.iter().any(|note| note.contains("stops TCP")), "{:?}", m.notes);
}
