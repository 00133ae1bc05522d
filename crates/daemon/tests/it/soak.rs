//! Mixed load for minutes over a lossy link between two real gateways, or through a proxy: nothing is lost, and memory stays flat.
//!
//! Not part of the suite: `cargo test -p wavelane-daemon --test it soak -- --ignored --nocapture` runs two minutes of each,
//! `WAVELANE_SOAK_SECONDS=900` the full quarter of an hour; `make soak` has the proxies. The samples are left in `soak.csv` and
//! `soak-proxy.csv` of Cargo's folder for tests (`target/tmp`).

use crate::common::{Daemon, World, alone, echo, now, pattern, pause, resident, root_or_skip, wait_for};
use crate::proxy;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_host::netns::{ChildEnd, Netns};

/// Seconds of load unless `WAVELANE_SOAK_SECONDS` says otherwise.
const SECONDS: u64 = 120;
/// Part of the run after which buffers, tables and the allocator have found their size.
const WARM_UP: f64 = 0.25;
/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_secs(2);
/// The median of the last third of the samples after the warm-up may lie this far above that of the first.
const GROWTH_MAX: u64 = 1 << 20;
/// And the most resident memory at any time: far below the default pool, which such links do not fill.
const RESIDENT_MAX: u64 = (64 << 20) + (16 << 20);
/// Length of one transfer of the kind that begins anew.
const TRANSFER: usize = 2_000_000;

/// What one kind of traffic did.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    answered: AtomicU64,
}

impl Tally {
    fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }
    fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }
    fn both(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.answered.load(Ordering::Relaxed))
    }
}

/// Workers that go on until they are told to stop.
struct Load {
    world: Arc<World>,
    stop: Arc<AtomicBool>,
    kinds: Vec<(&'static str, Arc<Tally>, JoinHandle<()>)>,
}

impl Load {
    /// Repeats `act` every `every`.
    fn add(&mut self, kind: &'static str, every: Duration, mut act: impl FnMut(&World, &Tally) + Send + 'static) {
        let (world, stop, tally) = (Arc::clone(&self.world), Arc::clone(&self.stop), Arc::<Tally>::default());
        let theirs = Arc::clone(&tally);
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                act(&world, &theirs);
                pause(every);
            }
        };
        self.kinds.push((kind, tally, std::thread::spawn(work)));
    }
}

fn tcp(world: &World, port: u16) -> TcpStream {
    let stream = world.connect(&world.client, &format!("10.3.0.2:{port}")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A question and its answer, over a fresh connection.
fn exchange(world: &World, port: u16, question: &[u8]) -> Vec<u8> {
    let mut stream = tcp(world, port);
    stream.write_all(question).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

fn udp(ns: &Netns, address: &'static str) -> UdpSocket {
    let socket = ns.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket
}

/// Asks over UDP and waits for that very answer.
fn ask(socket: &UdpSocket, question: &[u8], tally: &Tally) {
    tally.sent();
    socket.send_to(question, "10.3.0.2:53").unwrap();
    let mut answer = [0; 2048];
    while let Ok((n, _)) = socket.recv_from(&mut answer) {
        if &answer[..n] == question {
            return tally.answered();
        }
    }
}

/// 20 Mbit/s each way, 3 % of our datagrams lost each way, and nothing else crosses.
fn make_lossy(world: &World) {
    for ns in [&world.a, &world.b] {
        world.sh(
            ns,
            "tc qdisc add dev wan0 root tbf rate 20mbit burst 20kb latency 100ms; \
             nft 'table inet world { \
             chain i { type filter hook input priority 0; udp dport 4780 numgen random mod 100 < 3 drop; }; \
             chain f { type filter hook forward priority 0; iifname \"wan0\" drop; oifname \"wan0\" drop; }; }'",
        );
    }
}

/// The servers, and everything that uses them.
fn start_load(world: &Arc<World>) -> Load {
    world.serve(7, echo);
    world.serve(20, |mut stream, _| {
        // Whether the upload came whole.
        let mut got = Vec::new();
        let whole = stream.read_to_end(&mut got).is_ok() && got == pattern(TRANSFER, 21);
        let _ = stream.write_all(if whole { b"whole" } else { b"damaged" });
    });
    world.serve(21, |mut stream, _| {
        let _ = stream.write_all(&pattern(TRANSFER, 20));
    });
    let datagrams = udp(&world.server, "10.3.0.2:53");
    datagrams.set_read_timeout(None).unwrap();
    std::thread::spawn(move || {
        let mut buf = [0; 2048];
        while let Ok((n, from)) = datagrams.recv_from(&mut buf) {
            let _ = datagrams.send_to(&buf[..n], from);
        }
    });
    let mut load = Load { world: Arc::clone(world), stop: Arc::default(), kinds: Vec::new() };
    let (up, down) = (pattern(TRANSFER, 21), pattern(TRANSFER, 20));
    load.add("uploads", Duration::ZERO, move |world, tally| {
        tally.sent();
        assert_eq!(exchange(world, 20, &up), b"whole");
        tally.answered();
    });
    load.add("downloads", Duration::ZERO, move |world, tally| {
        tally.sent();
        assert!(exchange(world, 21, b"") == down, "a download was damaged");
        tally.answered();
    });
    // One connection for the whole run, both ways at once.
    let (mut stream, mut round, block) = (None, 0_u64, pattern(60_000, 33));
    load.add("blocks over one connection", Duration::from_millis(50), move |world, tally| {
        let stream = stream.get_or_insert_with(|| tcp(world, 7));
        tally.sent();
        round += 1;
        stream.write_all(&round.to_be_bytes()).unwrap();
        stream.write_all(&block).unwrap();
        let mut back = vec![0; 8 + block.len()];
        stream.read_exact(&mut back).unwrap();
        assert!(back[..8] == round.to_be_bytes() && back[8..] == block, "block {round} was damaged");
        tally.answered();
    });
    let mut keys = None;
    load.add("keystrokes", Duration::from_millis(100), move |world, tally| {
        let stream = keys.get_or_insert_with(|| tcp(world, 7));
        tally.sent();
        stream.write_all(&[9; 64]).unwrap();
        stream.read_exact(&mut [0; 64]).unwrap();
        tally.answered();
    });
    let mut number = 0;
    load.add("short connections", Duration::from_millis(50), move |world, tally| {
        number += 1;
        let text = format!("connection {number}");
        tally.sent();
        assert_eq!(exchange(world, 7, text.as_bytes()), text.as_bytes());
        tally.answered();
    });
    let (mut stream, mut number) = (None, 0_u64);
    load.add("datagrams of one UDP flow", Duration::from_millis(20), move |world, tally| {
        let socket = stream.get_or_insert_with(|| udp(&world.client, "10.1.0.2:0"));
        number += 1;
        let mut question = [5; 400];
        question[..8].copy_from_slice(&number.to_be_bytes());
        ask(socket, &question, tally);
    });
    let mut number = 0_u64;
    load.add("questions from ports of their own", Duration::from_millis(200), move |world, tally| {
        number += 1;
        ask(&udp(&world.client, "10.1.0.2:0"), format!("question {number}").as_bytes(), tally);
    });
    load
}

fn median(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// Fails if memory grew after the warm-up; returns the two medians.
fn judge(name: &str, samples: &[u64]) -> (u64, u64) {
    let settled = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    let third = settled.len() / 3;
    let (first, last) = (median(&settled[..third]), median(&settled[settled.len() - third..]));
    let most = samples.iter().max().unwrap();
    assert!(last <= first + GROWTH_MAX, "{name} grew from {first} to {last} bytes");
    assert!(*most <= RESIDENT_MAX, "{name} took {most} bytes");
    (first, last)
}

/// How long the load lasts.
fn seconds() -> u64 {
    std::env::var("WAVELANE_SOAK_SECONDS").ok().map_or(SECONDS, |text| text.parse().unwrap())
}

/// Looks at each daemon's memory while the load lasts; the samples are left in a file of this name.
fn watch(loads: &[&Load], daemons: &[(&str, &Daemon)], file: &str) -> Vec<Vec<u64>> {
    let start = now();
    let mut samples = vec![Vec::new(); daemons.len()];
    let names: Vec<&str> = daemons.iter().map(|(name, _)| *name).collect();
    let mut table = format!("seconds,{}\n", names.join(","));
    while start.elapsed() < Duration::from_secs(seconds()) {
        pause(SAMPLE);
        let _ = write!(table, "{:.1}", start.elapsed().as_secs_f64());
        for (samples, (_, daemon)) in samples.iter_mut().zip(daemons) {
            samples.push(resident(daemon));
            let _ = write!(table, ",{}", samples[samples.len() - 1]);
        }
        table += "\n";
        let done = loads.iter().flat_map(|load| &load.kinds).any(|kind| kind.2.is_finished());
        assert!(!done, "a kind of traffic failed; see above");
    }
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(file), &table).unwrap();
    samples
}

/// Ends the load: what was sent was answered.
fn end(load: Load) {
    load.stop.store(true, Ordering::Relaxed);
    for (kind, tally, worker) in load.kinds {
        worker.join().unwrap();
        let (sent, answered) = tally.both();
        println!("{kind}: {answered} of {sent}");
        // TCP loses nothing; a datagram may be lost where repeating it would come too late.
        assert!(answered as f64 >= 0.99 * sent as f64 && sent > 0, "{kind}: {answered} of {sent}");
    }
}

#[test]
#[ignore = "takes minutes; see the head of this file"]
fn memory_stays_flat_under_mixed_load() {
    let _alone = alone();
    if !root_or_skip("memory_stays_flat_under_mixed_load") {
        return;
    }
    let world = World::new("soak");
    let tables = |n: u8| {
        format!("[intercept]\ninterfaces = [\"lan0\"]\n[tun]\naddresses = [\"10.9.0.{n}/24\", \"fd00:9::{n}/64\"]\n")
    };
    let b = world.start("b", "source = \"keep\"", &tables(2));
    let a = world.start("a", "source = \"keep\"", &tables(1));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    make_lossy(&world);
    let world = Arc::new(world);
    let load = start_load(&world);
    let mut pings = Command::new("ping");
    pings.args(["-q", "-i", "0.2", "-W", "2", "-w", &seconds().to_string(), "10.3.0.2"]).env("LC_ALL", "C");
    pings.stdout(std::process::Stdio::piped());
    let pings = world.client.spawn(pings, ChildEnd::Kill).unwrap();
    let daemons = [("a", &a), ("b", &b)];
    let samples = watch(&[&load], &daemons, "soak.csv");
    end(load);
    if let Ok(pings) = pings {
        let said = String::from_utf8_lossy(&pings.wait_with_output().unwrap().stdout).into_owned();
        let lost: f64 = said.split("% packet loss").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
        println!("pings: {lost} % lost");
        assert!(lost <= 1.0, "{said}");
    } else {
        eprintln!("SKIPPED (pings of the soak): no program ping");
    }
    for ((name, daemon), samples) in daemons.into_iter().zip(&samples) {
        let (first, last) = judge(name, samples);
        println!("{name}: {first} bytes resident after the warm-up, {last} at the end, {} samples", samples.len());
        wait_for("flows to close", || daemon.status().flows == 0 && daemon.status().door.connections == 0);
    }
}

/// A proxy of each engine, at the same time, before a link that loses 1 % of TCP each way; what is not split crosses as it is.
#[test]
#[ignore = "takes minutes; see the head of this file"]
fn a_proxys_memory_stays_flat_under_mixed_load() {
    let _alone = alone();
    if !root_or_skip("a_proxys_memory_stays_flat_under_mixed_load") {
        return;
    }
    const ENGINES: [&str; 2] = ["kernel", "userspace"];
    let worlds = ENGINES.map(|engine| Arc::new(World::new(&format!("soak{}", &engine[..1]))));
    let proxies: Vec<Daemon> =
        worlds.iter().zip(ENGINES).map(|(world, engine)| proxy::start(world, engine, "pool = \"64 MiB\"")).collect();
    let loads: Vec<Load> = worlds
        .iter()
        .map(|world| {
            for ns in [&world.a, &world.b] {
                world.sh(ns, "tc qdisc add dev wan0 root tbf rate 20mbit burst 20kb latency 100ms");
            }
            let lost = "iifname \"wan0\" meta l4proto tcp numgen random mod 100 < 1 drop";
            world.sh(
                &world.b,
                &format!(
                    "nft 'table inet world {{ chain f {{ type filter hook forward priority 0; {lost}; {}; }}; }}'",
                    lost.replace("iifname", "oifname")
                ),
            );
            start_load(world)
        })
        .collect();
    let daemons: Vec<(&str, &Daemon)> = ENGINES.into_iter().zip(&proxies).collect();
    let samples = watch(&loads.iter().collect::<Vec<_>>(), &daemons, "soak-proxy.csv");
    loads.into_iter().for_each(end);
    for ((engine, proxy), samples) in daemons.into_iter().zip(&samples) {
        let (first, last) = judge(engine, samples);
        println!("{engine}: {first} bytes resident after the warm-up, {last} at the end, {} samples", samples.len());
        wait_for("connections to close", || proxy::report(proxy).connections == 0);
        assert!(proxy::count(proxy, "connections_taken") > 100, "{}", proxy::report(proxy));
    }
}
