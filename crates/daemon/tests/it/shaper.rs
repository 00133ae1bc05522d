//! A shaper between real kernels: what it leaves of the delay beside an upload, and what it leaves behind.

use crate::common::*;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_base::Span;
use wavelane_daemon::shaper::cure;
use wavelane_host::netns::{ChildEnd, Netns};
use wavelane_host::realtime;
use wavelane_host::tun::Tun;

/// An answer that has not come by then is lost.
const LATEST: Duration = Duration::from_secs(10);

/// A world whose server takes uploads and echoes datagrams.
struct Home {
    world: World,
    taken: Arc<AtomicU64>,
}

impl Drop for Home {
    /// What a cure started outlives whoever asked for it.
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.world.dir.join("cure/shaper.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

impl Home {
    fn new(tag: &str) -> Self {
        let world = World::new(tag);
        // Linux's usual congestion control, whatever this machine's is.
        world.sh(&world.client, "ip route replace 10.3.0.0/24 via 10.1.0.1 congctl cubic");
        let taken = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&taken);
        world.serve(9, move |mut stream, _| {
            let mut buf = vec![0; 65_536];
            while let Ok(n @ 1..) = stream.read(&mut buf) {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
        });
        let echo = world.server.run(|| UdpSocket::bind("10.3.0.2:7").unwrap()).unwrap();
        std::thread::spawn(move || {
            let mut buf = [0; 100];
            while let Ok((n, from)) = echo.recv_from(&mut buf) {
                let _ = echo.send_to(&buf[..n], from);
            }
        });
        Self { world, taken }
    }

    /// The median round trip in milliseconds during `seconds`.
    fn ping(&self, seconds: u64) -> f64 {
        median(&self.trips(seconds))
    }

    /// The round trips in milliseconds of datagrams, one every 10 ms, during `seconds`, as they were sent.
    fn trips(&self, seconds: u64) -> Vec<f64> {
        let socket = self.world.client.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        socket.connect("10.3.0.2:7").unwrap();
        let (start, mut sent, mut trips, mut back) = (now(), Vec::new(), Vec::new(), 0);
        let mut answer = [0; 8];
        while start.elapsed() < Duration::from_secs(seconds) || back < sent.len() && start.elapsed() < LATEST {
            if start.elapsed() < Duration::from_secs(seconds) {
                socket.send(&(sent.len() as u64).to_be_bytes()).unwrap();
                sent.push(now());
                // A lost one counts as slower than any.
                trips.push(f64::INFINITY);
            }
            let next = now() + Duration::from_millis(10);
            while let Some(left) = next.checked_duration_since(now()).filter(|left| !left.is_zero()) {
                socket.set_read_timeout(Some(left)).unwrap();
                if socket.recv(&mut answer).is_ok() {
                    let number = u64::from_be_bytes(answer) as usize;
                    trips[number] = sent[number].elapsed().as_secs_f64() * 1e3;
                    back += 1;
                }
            }
        }
        trips
    }

    /// Uploads; gives the median round trip beside it and the goodput in Mbit/s, both after `settle` seconds.
    fn upload(&self, settle: u64, seconds: u64) -> (f64, f64) {
        let (trips, goodput) = self.uploaded(settle, seconds);
        (median(&trips), goodput)
    }

    /// The same with every round trip.
    fn uploaded(&self, settle: u64, seconds: u64) -> (Vec<f64>, f64) {
        let mut stream = self.world.connect(&self.world.client, "10.3.0.2:9").unwrap();
        let stop = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
        // real time: 112 s, uploads whose delay is measured, in all tests of this file
        pause(Duration::from_secs(settle));
        let (start, before) = (now(), self.taken.load(Ordering::Relaxed));
        let trips = self.trips(seconds);
        let octets = self.taken.load(Ordering::Relaxed) - before;
        let goodput = octets as f64 * 8e-6 / start.elapsed().as_secs_f64();
        let _ = stop.shutdown(std::net::Shutdown::Both);
        sender.join().unwrap();
        (trips, goodput)
    }

    fn start(&self, keys: &str) -> Daemon {
        let config: PathBuf = self.world.dir.join("shaper.toml");
        std::fs::write(&config, format!("[[shaper]]\ninterface = \"wan0\"\n{keys}\n")).unwrap();
        let (command, log, control) = daemon_command(&config);
        let child = self.world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("wan0: shaped by");
        daemon
    }

    fn traces(&self) -> String {
        self.world.traces(&self.world.a) + &self.world.sh(&self.world.a, "tc qdisc show; tc class show dev wan0")
    }
}

/// Of so many per cent none is larger.
fn percentile(of: &[f64], percent: usize) -> f64 {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

fn median(of: &[f64]) -> f64 {
    percentile(of, 50)
}

const FIFO: &str = "tc qdisc replace dev wan0 root tbf rate 6mbit burst 3200 latency 1s";

/// The aim of the study `latency` at 6 Mbit/s: at most 10 ms more than idle, at 95 % of a FIFO's goodput.
#[test]
fn a_ping_passes_an_upload_that_keeps_its_goodput() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shaper");
    let idle = home.ping(1);
    home.world.sh(&home.world.a, FIFO);
    let (fifo_trip, fifo_goodput) = home.upload(3, 4);
    home.world.sh(&home.world.a, "tc qdisc del dev wan0 root");
    let before = home.traces();
    // 14 octets of Ethernet, which the kernel's tbf counts.
    let mut daemon = home.start("rate = \"6 Mbit/s\"\noverhead = 14\nhow = \"path\"");
    assert!(fifo_trip > 100.0, "the FIFO made no queue: {fifo_trip} ms");
    println!("idle {idle:.2} ms; FIFO {fifo_trip:.1} ms at {fifo_goodput:.3} Mbit/s");
    // The way is so short that 5 ms of queue are three packets: a machine that lets any of the programs wait for longer
    // leaves the line idle, which is not the shaper's doing.
    let mut runs = Vec::new();
    let met = (0..3).any(|_| {
        let (trip, goodput) = home.upload(3, 4);
        println!("shaped {trip:.2} ms at {goodput:.3} Mbit/s");
        runs.push((trip, goodput));
        trip <= idle + 10.0 && goodput >= 0.95 * fifo_goodput
    });
    assert!(met, "{runs:?} beside {idle} ms idle, FIFO's {fifo_goodput} Mbit/s");
    assert_eq!(daemon.stop(), Some(0));
    assert_eq!(home.traces(), before);
}

/// After SIGKILL traffic passes unshaped; the next start finds what was left, and an orderly stop leaves nothing.
#[test]
fn nothing_is_left_behind() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shleft");
    let before = home.traces();
    for (keys, trace) in [
        ("rate = \"20 Mbit/s\"\nhow = \"path\"", "WAVELANE_SHAPER"),
        ("rate = \"20 Mbit/s\"\nhow = \"tbf\"", "tbf 574c:"),
    ] {
        let mut killed = home.start(keys);
        assert!(home.ping(1) < 1_000.0);
        assert!(home.traces().contains(trace), "{}", home.traces());
        killed.kill();
        assert!(home.ping(1) < 1_000.0, "no packet passes any more");
        let count = || home.traces().matches(trace).count();
        let left = count();
        let mut daemon = home.start(keys);
        assert_eq!(count(), left, "once each, and no more");
        assert!(home.ping(1) < 1_000.0);
        assert_eq!(daemon.stop(), Some(0));
        assert_eq!(home.traces(), before);
    }
}

/// A line that is dialled anew is another interface of the same name, without the kernel's discipline.
#[test]
fn an_interface_that_comes_back_is_shaped_again() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shback");
    let up = "ip link add line0 type veth peer name line1; ip link set line0 up";
    home.world.sh(&home.world.a, up);
    let config = home.world.dir.join("line.toml");
    std::fs::write(&config, "[[shaper]]\ninterface = \"line0\"\nrate = \"5 Mbit/s\"\nhow = \"tbf\"\n").unwrap();
    let (command, log, control) = daemon_command(&config);
    let child = home.world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let mut daemon = Daemon { child, log, control, own_folder: None };
    daemon.wait_log("line0: shaped by tbf");
    home.world.sh(&home.world.a, "ip link set line0 down; ip link set line0 name line3");
    daemon.wait_log("line0: the interface is gone");
    home.world.sh(&home.world.a, "ip link set line3 name line0");
    daemon.wait_log("line0: the interface has its name again, and is shaped");
    home.world.sh(&home.world.a, "ip link del line0");
    home.world.sh(&home.world.a, up);
    daemon.wait_log("line0: the interface was made anew, and is shaped again");
    let listing = home.world.sh(&home.world.a, "tc qdisc show dev line0");
    assert!(listing.contains("tbf 574c:") && listing.contains("rate 5Mbit"), "{listing}");
    // One on which somebody else set something meanwhile stays as it is.
    // It is set before the interface has that name: the daemon looks once a second, and could be first.
    let foreign = "ip link set line0 down && ip link set line0 name line4 && ip link add line2 type veth peer name line5 && \
                   tc qdisc add dev line2 root handle 1: pfifo && \
                   ip link set line2 name line0 && ip link set line0 up";
    home.world.sh(&home.world.a, foreign);
    daemon.wait_log("cannot be shaped");
    assert!(home.world.sh(&home.world.a, "tc qdisc show dev line0").contains("pfifo 1:"));
    assert_eq!(daemon.stop(), Some(0));
    assert!(home.world.sh(&home.world.a, "tc qdisc show dev line0").contains("pfifo 1:"));
    let renamed = home.world.sh(&home.world.a, "tc qdisc show dev line4");
    assert!(!renamed.contains("574c:"), "{renamed}");
}

/// Network managers take away what they did not set, and firewalls flush.
#[test]
fn what_other_programs_take_away_is_shaped_again() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shtaken");
    let in_a = |script: &str| home.world.sh(&home.world.a, script);
    let set = || in_a("tc qdisc show dev wan0").contains("tbf 574c:");
    let mut daemon = home.start("rate = \"5 Mbit/s\"\nhow = \"tbf\"");
    // A reload has the level of the log alone.
    let file = home.world.dir.join("shaper.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (log, rate, said) in [
        ("info", "5", "Z wavelaned: info: reloaded"),
        ("error", "6", "Z wavelaned: warning: reload refused: a shaper's tables cannot change"),
        ("x", "5", "shaper.toml, line 1: unknown log 'x'"),
    ] {
        std::fs::write(&file, format!("log = \"{log}\"\n{}", text.replace("5 Mbit", &format!("{rate} Mbit")))).unwrap();
        daemon.hang_up();
        daemon.wait_log(said);
    }
    in_a("tc qdisc del dev wan0 root");
    wait_for("the discipline", set);
    daemon.wait_log("wan0: another program took its queueing discipline away, and it is set again");
    // Another's stays, and is named.
    in_a("tc qdisc replace dev wan0 root handle 1: pfifo");
    daemon.wait_log("wan0: it cannot be shaped now: wan0 has a queueing discipline of its own (pfifo 1:)");
    in_a("tc qdisc del dev wan0 root");
    wait_for("the discipline again", set);
    assert_eq!(daemon.stop(), Some(0));
    let mut daemon = home.start("rate = \"5 Mbit/s\"\nhow = \"path\"");
    let rules = || in_a("iptables -w -t mangle -S; ip6tables -w -t mangle -S");
    let whole = rules();
    assert_eq!(whole.matches("-j WAVELANE_SHAPER").count(), 2, "{whole}");
    for damage in [
        "nft flush ruleset",
        "iptables -w -t mangle -F POSTROUTING",
        "ip6tables -t mangle -F WAVELANE_SHAPER",
        // The second may come too late: then the chain is in use again.
        "iptables -w -t mangle -F; iptables -w -t mangle -X || true",
    ] {
        in_a(damage);
        wait_for(damage, || rules() == whole);
    }
    daemon.wait_log("WAVELANE_SHAPER (mangle): another program took it away, and it is put back");
    assert_eq!(daemon.stop(), Some(0));
}

#[test]
fn a_reflector_that_is_silent_is_named() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shmute");
    let keys = "rate = \"auto\"\nrate_min = \"1 Mbit/s\"\nrate_max = \"9 Mbit/s\"\nhow = \"tbf\"\nreflector = ";
    let mut daemon = home.start(&format!("{keys}\"10.3.0.99\""));
    daemon.wait_log("the reflector does not answer");
    home.world.sh(&home.world.server, "ip addr add 10.3.0.99/32 dev lo");
    daemon.wait_log("the reflector answers again");
    let log = daemon.log();
    assert!(!log.contains("timestamps"), "an outage says nothing of timestamps: {log}");
    assert_eq!(daemon.stop(), Some(0));
}

/// The link behind is slower than the shaper begins; the delay says so, and the queue comes back here.
#[test]
fn an_automatic_rate_finds_the_link() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shauto");
    // Behind the gateway, where nobody can sort: 3 Mbit/s, a second deep.
    home.world.sh(&home.world.b, "tc qdisc replace dev lan0 root tbf rate 3mbit burst 3200 latency 1s");
    let (alone, _) = home.upload(3, 2);
    // real time: 1 s, until the queue is empty
    pause(Duration::from_secs(1));
    let auto = "rate = \"auto\"\nrate_min = \"1 Mbit/s\"\nrate_idle = \"6 Mbit/s\"\nrate_max = \"20 Mbit/s\"\n\
                reflector = \"10.3.0.2\"\nhow = \"path\"";
    let mut daemon = home.start(auto);
    // Each change of the rate is told with its cause, if that is asked for.
    let file = home.world.dir.join("shaper.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("log = \"debug\"\n{text}")).unwrap();
    daemon.hang_up();
    daemon.wait_log("reloaded");
    let (trip, goodput) = home.upload(6, 4);
    daemon.wait_log("Mbit/s: a queue, for the delay is ");
    daemon.wait_log("Z wavelaned: debug: wan0: from 6.00 to ");
    println!("3 Mbit/s behind: alone {alone:.0} ms; followed {trip:.1} ms at {goodput:.2} Mbit/s");
    assert!(alone > 200.0, "the FIFO made no queue: {alone} ms");
    assert!(trip < 0.5 * alone && trip < 120.0, "{trip} ms beside {alone} ms without");
    assert!(goodput > 1.0, "{goodput} Mbit/s");
    assert_eq!(daemon.stop(), Some(0));
}

/// A link whose rate and delay move as they were recorded: devices at both ends, and a thread between them.
struct Recorded {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Packets that wait before it, as in the study.
const RECORDED_QUEUE: usize = 1_000;
/// What a packet takes of an opportunity to send, each of 1,500 octets.
const OPPORTUNITY: i64 = 1_500;

impl Recorded {
    /// In place of the cable between the gateways. What leaves `a` is the link's; the way back has its delay alone.
    fn between(world: &World) -> Self {
        for ns in [&world.a, &world.b] {
            world.sh(ns, "ip link del wan0 2>/dev/null || true");
        }
        let open = |ns: &Netns, number: u8, far: u8| {
            let tun = ns.run(|| Tun::open("wan0")).unwrap().unwrap();
            world.sh(ns, &format!("ip addr add 10.2.0.{number}/24 dev wan0; ip link set wan0 mtu 1500 up; ip route replace 10.{far}.0.0/24 dev wan0"));
            tun
        };
        let (near, far) = (open(&world.a, 1, 3), open(&world.b, 2, 1));
        let lines = |name: &str| -> Vec<u64> {
            let path = format!("{}/../../scenarios/traces/{name}.gz", env!("CARGO_MANIFEST_DIR"));
            let text = Command::new("gzip").args(["-dc", &path]).output().unwrap().stdout;
            String::from_utf8(text).unwrap().lines().map(|line| line.parse().unwrap()).collect()
        };
        let (chances, delays) = (lines("leocc-starlink.down"), lines("leocc-starlink.delay"));
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (start, mut used, mut credit) = (realtime::now(), 0, 0_i64);
            let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
            let mut under_way: [VecDeque<(u64, Vec<u8>)>; 2] = Default::default();
            let mut buffer = [0; 2_048];
            while !stopped.load(Ordering::Relaxed) {
                let now = realtime::now();
                let us = now.since(start).as_nanos() / 1_000;
                let delay = 1_000 * delays[(us / 10_000) as usize % delays.len()];
                while let Ok(Some(len)) = near.read(&mut buffer) {
                    if queue.len() < RECORDED_QUEUE {
                        queue.push_back(buffer[..len].to_vec());
                    }
                }
                while let Ok(Some(len)) = far.read(&mut buffer) {
                    under_way[1].push_back((us + delay, buffer[..len].to_vec()));
                }
                while chances.get(used).is_some_and(|ms| ms * 1_000 <= us) {
                    used += 1;
                    credit = (credit + OPPORTUNITY).min(OPPORTUNITY);
                    while credit > 0
                        && let Some(packet) = queue.pop_front()
                    {
                        credit -= packet.len() as i64;
                        under_way[0].push_back((us + delay, packet));
                    }
                    credit = credit.min(0);
                }
                for (way, tun) in under_way.iter_mut().zip([&far, &near]) {
                    while way.front().is_some_and(|(at, _)| *at <= us) {
                        let _ = tun.write(&way.pop_front().unwrap().1);
                    }
                }
                let _ = realtime::wait(&[near.as_fd(), far.as_fd()], now + Span::from_micros(500));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// As Starlink has it: no ICMP timestamp passes the carrier's translator, and rate and delay are another every moment. A probe server has
/// the time as well. The study `latency` has the same in virtual time, with sharper bounds.
#[test]
fn through_a_carriers_translator_a_probe_server_steers_over_a_recording() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shcgnat");
    let world = &home.world;
    let link = Recorded::between(world);
    world.sh(
        &world.b,
        "nft add table ip carrier; nft 'add chain ip carrier to { type nat hook postrouting priority srcnat; }'; \
         nft add rule ip carrier to oifname lan0 ip saddr 10.1.0.0/24 snat to 10.3.0.1; nft add rule ip carrier to oifname lan0 ip saddr 10.2.0.1 snat to 10.3.0.1; \
         nft 'add chain ip carrier no { type filter hook forward priority 0; }'; \
         nft add rule ip carrier no icmp type '{ timestamp-request, timestamp-reply }' drop",
    );
    // A probe server's answers (docs/protocol/probe.md), by a clock that is 37 s ahead.
    let server = world.server.run(|| UdpSocket::bind("10.3.0.2:4783").unwrap()).unwrap();
    std::thread::spawn(move || {
        let mut question = [0; 100];
        while let Ok((72, from)) = server.recv_from(&mut question) {
            let at = (realtime::now() + Span::from_secs(37)).as_nanos().to_be_bytes();
            let answer = [&question[..5], &[12], &question[6..14], &at, &at].concat();
            let _ = server.send_to(&answer, from);
        }
    });
    // A build for tests beside a suite has not the processor for what the study keeps (0.97): an optimised one is judged, where whoever
    // starts it says that nothing else runs (decision 38).
    let is_judged = std::env::var_os("WAVELANE_QUIET").is_some();
    let unloaded = if is_judged {
        // real time: 5 s, to the place of the recording that the uploads meet
        pause(Duration::from_secs(5));
        home.trips(10)
    } else {
        home.trips(2)
    };
    let idle = median(&unloaded);
    // From its beginning each time: half a minute on the recording has two thirds of the rate.
    drop(link);
    let link = Recorded::between(world);
    let (alone_ms, alone_mbit) = home.upload(5, 10);
    drop(link);
    let link = Recorded::between(world);
    let auto = "rate = \"auto\"\nrate_min = \"5 Mbit/s\"\nrate_idle = \"25 Mbit/s\"\nrate_max = \"150 Mbit/s\"\n\
                reflector = \"10.3.0.2:4783\"\nhow = \"path\"";
    let mut daemon = home.start(auto);
    let (trips, goodput) = home.uploaded(5, 10);
    let added: Vec<f64> = trips.iter().zip(&unloaded).map(|(loaded, idle)| loaded - idle).collect();
    let (trip, added) = (median(&trips), percentile(&added, 95));
    println!(
        "recorded: idle {idle:.1} ms; alone {alone_ms:.1} ms at {alone_mbit:.1} Mbit/s; followed {trip:.1} ms at {goodput:.1} Mbit/s, {:.3} of it; 95 % add at most {added:.1} ms",
        goodput / alone_mbit
    );
    assert!(!daemon.log().contains("timestamps"), "{}", daemon.log());
    assert!(alone_ms > idle + 50.0, "the link made no queue: {alone_ms} ms, idle {idle} ms");
    assert!(trip - idle < 0.5 * (alone_ms - idle), "{trip} ms beside {alone_ms} ms without, idle {idle} ms");
    let least = if is_judged { 0.93 } else { 0.6 };
    assert!(goodput > least * alone_mbit, "{goodput} of {alone_mbit} Mbit/s");
    assert!(!is_judged || added <= 30.0, "95 % add at most {added} ms");
    assert_eq!(daemon.stop(), Some(0));
    drop(link);
}

/// A gateway is a reflector for its peers' houses.
#[test]
fn a_peers_gateway_tells_the_time_and_strangers_hear_nothing() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shgate");
    let world = &home.world;
    let (_a, b) = world.start_both("", "interfaces = [\"lan0\"]");
    let mut question = [0; 72];
    question[..14].copy_from_slice(b"WLPR\x01\x0babcdefgh");
    let ask = |ns: &Netns| {
        let socket = ns.run(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        socket.connect("10.2.0.2:4780").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(&question).unwrap();
        socket
    };
    let mut answer = [0; 100];
    let len = ask(&world.a).recv(&mut answer).unwrap();
    assert_eq!((len, &answer[..14]), (30, &b"WLPR\x01\x0cabcdefgh"[..]));
    let time = |at: usize| u64::from_be_bytes(answer[at..at + 8].try_into().unwrap());
    assert!(time(14) <= time(22), "{answer:?}");
    // From another address it is no datagram of ours, and gets none.
    let (before, stranger) = (b.counter("dropped_malformed"), ask(&world.server));
    wait_for("the stranger's question", || b.counter("dropped_malformed") > before);
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut answer).is_err() && b.counter("times_told") == 1);
    let auto = "rate = \"auto\"\nrate_min = \"1 Mbit/s\"\nrate_max = \"20 Mbit/s\"\nreflector = \"10.2.0.2:4780\"\nhow = \"path\"";
    let mut daemon = home.start(auto);
    wait_for("the shaper's questions", || b.counter("times_told") > 50);
    assert!(!daemon.log().contains("reflector"), "{}", daemon.log());
    assert_eq!(daemon.stop(), Some(0));
}

/// What `wavelane cure --yes` starts goes with `--undo`, also if it was killed meanwhile.
#[test]
fn a_cure_is_applied_and_taken_back() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shcure");
    let before = home.traces();
    let found = cure::Measured { rise_ms: 300.0, goodput_bps: 5e6 };
    let wish = cure::Wish { interface: "wan0".into(), inwards: false, found };
    let text = cure::file_text(&cure::propose(&[wish]), None);
    let file = home.world.dir.join("cure/shaper.toml");
    let apply = || {
        let (file, text) = (file.clone(), text.clone());
        home.world.a.run(move || cure::apply(&file, &text, &|_| ())).unwrap()
    };
    let undo = || {
        let file = file.clone();
        home.world.a.run(move || cure::undo(&file)).unwrap()
    };
    for (killed, noted) in [(false, true), (true, true), (false, false)] {
        let said = apply().unwrap();
        assert!(said.contains("wan0: shaped by") && said.contains("4.66 Mbit/s"), "{said}");
        assert_ne!(home.traces(), before);
        assert!(home.ping(1) < 1_000.0);
        assert!(apply().unwrap_err().to_string().contains("--undo"), "not twice");
        if killed {
            let pid = std::fs::read_to_string(file.with_extension("pid")).unwrap();
            assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
            wait_for("its end", || {
                std::fs::read(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default().is_empty()
            });
        }
        if !noted {
            // Whoever started it was killed before it could write this.
            std::fs::remove_file(file.with_extension("pid")).unwrap();
        }
        undo().unwrap();
        assert_eq!(home.traces(), before);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
        assert!(undo().is_err());
    }
    // One that does not start leaves nothing and says why.
    let wrong = file.clone();
    let why = home
        .world
        .a
        .run(move || cure::apply(&wrong, "[[shaper]]\ninterface = \"no0\"\nrate = \"1 Mbit/s\"\n", &|_| ()));
    assert!(why.unwrap().unwrap_err().to_string().contains("no interface no0"));
    assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 0);
    // In a namespace of its own every machine can be asked by what it would shape.
    assert!(["cake", "fq_codel", "path", "tbf"].contains(&cure::means_here().unwrap().as_str()));
}

#[test]
fn check_names_a_discipline_that_this_kernel_lacks() {
    let _alone = alone();
    if !root_or_skip("check of a shaper") {
        return;
    }
    let world = World::new("shapercheck");
    let path = world.dir.join("shaper.toml");
    for (how, tool) in [("cake", "cake bandwidth 5mbit"), ("tbf", "tbf rate 5mbit burst 16kb latency 50ms")] {
        std::fs::write(&path, format!("[[shaper]]\ninterface = \"lan0\"\nrate = \"5 Mbit/s\"\nhow = \"{how}\"\n"))
            .unwrap();
        let tried = world.sh(
            &world.a,
            &format!("tc qdisc add dev lan0 root {tool} 2>/dev/null && tc qdisc del dev lan0 root && echo has || true"),
        );
        let file = path.clone();
        let said = world.a.run(move || wavelane_daemon::commands::check_config(&file).unwrap()).unwrap();
        let warned = said.contains(&format!("lan0 cannot be shaped by {how} on this host"));
        assert_eq!(warned, !tried.contains("has"), "{said}");
        assert_eq!(
            said.lines().next().is_some_and(|first| first.contains("there is a warning below")),
            warned,
            "{said}"
        );
    }
}

#[test]
fn a_refused_shaper_start_names_a_remedy() {
    let _alone = alone();
    if !root_or_skip("shaper") {
        return;
    }
    let home = Home::new("shno");
    let refused = |interface: &str, keys: &str| {
        let config = home.world.dir.join("refused.toml");
        std::fs::write(&config, format!("[[shaper]]\ninterface = \"{interface}\"\nrate = \"5 Mbit/s\"\n{keys}\n"))
            .unwrap();
        let (command, log, _) = daemon_command(&config);
        let mut child = home.world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2));
        std::fs::read_to_string(log).unwrap()
    };
    assert!(refused("nowhere0", "").contains("ip link"));
    assert!(refused("wan0", "how = \"auto\"\nrise = \"9 ms\"").contains("remove them"));
    home.world.sh(&home.world.a, FIFO);
    let said = refused("wan0", "how = \"tbf\"");
    assert!(said.contains("tc qdisc del dev wan0 root"), "{said}");
    // What somebody else set stays.
    assert!(home.traces().contains("tbf"));
    let _one = home.start("rate = \"5 Mbit/s\"\nhow = \"path\"");
    assert!(refused("lan0", "").contains("another wavelaned"));
}
