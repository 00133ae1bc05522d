//! What a gateway is put through: many flows, stopped readers, a stopped process, rules and MTU changed under it.

use crate::common::{
    Daemon, Outside, PATIENCE, World, alone, daemon_command, echo, now, pause, pour, resident, root_or_skip,
    transfer_during, wait_for,
};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

/// Bytes that each flow may hold however full the pool is: the least credit, one parcel.
const FLOW_FLOOR: u64 = 4096;
/// Resident memory besides buffers: the program and the tables of a thousand flows.
const BESIDE_POOL: u64 = 8 << 20;
/// A full pool takes up to twice its bytes (`docs/guide/gateway.md`, the unit's memory limit): buffers grow by doubling.
const BUFFER_SPARE: u64 = 2;
const LAN: &str = "interfaces = [\"lan0\"]";

fn signal(daemon: &Daemon, name: &str) {
    assert!(Command::new("kill").args([name, &daemon.child.id().to_string()]).status().unwrap().success());
}

#[test]
#[ignore = "make test-all: two minutes"]
fn nine_hundred_stopped_readers_cost_a_hundred_others_nothing() {
    let _alone = alone();
    if !root_or_skip("nine_hundred_stopped_readers_cost_a_hundred_others_nothing") {
        return;
    }
    let world = World::new("stopped");
    let pools = [32_u64 << 20, 64 << 20];
    let b = world.start("b", "source = \"keep\"\npool = \"64 MiB\"", "");
    let a = world.start("a", "pool = \"32 MiB\"", &format!("[intercept]\n{LAN}"));
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    world.serve(7, |stream, _| pour(stream));
    let open = || world.connect(&world.client, "10.3.0.2:7").unwrap();

    let heard = |streams: Vec<TcpStream>, time: Duration| -> Vec<u64> {
        let total: Vec<Arc<AtomicU64>> = streams.iter().map(|_| Arc::default()).collect();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let readers: Vec<_> = streams
            .into_iter()
            .zip(&total)
            .map(|(mut stream, total)| {
                let (total, stop) = (Arc::clone(total), Arc::clone(&stop));
                std::thread::spawn(move || {
                    let mut buf = [0; 16_384];
                    while !stop.load(Ordering::Relaxed) {
                        let Ok(n) = stream.read(&mut buf) else { break };
                        total.fetch_add(n as u64, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        // The start, when every buffer on the way fills, is not counted.
        // real time: 22 s, the start that is not counted, and what is
        pause(Duration::from_secs(2));
        let before: Vec<u64> = total.iter().map(|t| t.load(Ordering::Relaxed)).collect();
        pause(time);
        let after: Vec<u64> = total.iter().map(|t| t.load(Ordering::Relaxed)).collect();
        stop.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        after.iter().zip(before).map(|(after, before)| after - before).collect()
    };
    let stopped: Vec<TcpStream> = (0..900).map(|_| open()).collect();
    // They fill what they may and stand still, but for a question now and then whether there is room again.
    let start = now();
    let mut carried = 0;
    while b.counter("datagrams_sent") > carried + 1000 {
        carried = b.counter("datagrams_sent");
        assert!(start.elapsed() < 2 * PATIENCE, "datagrams still go although nobody reads: {carried}");
        // real time: 10 s, until nine hundred readers stand still
        pause(Duration::from_secs(2));
    }
    // What the others share: 40 Mbit/s, by the kernel's token bucket.
    world.sh(&world.b, "tc qdisc add dev wan0 root tbf rate 40mbit burst 20kb latency 50ms");
    // Long beside the second or two for which a late wake-up of a busy machine is taken for a queue.
    let time = Duration::from_secs(20);
    let fair = 40_000_000.0 / 8.0 * time.as_secs_f64() * (1_400.0 / 1_500.0) / 100.0;
    // A machine that is busy with something else may cost one try its share, not every one.
    let mut shares = (0..3).map(|_| {
        let sum: u64 = heard((0..100).map(|_| open()).collect(), time).iter().sum();
        let mean = sum as f64 / 100.0;
        println!("a reader got {mean:.0} bytes of its fair share of {fair:.0}");
        mean / fair
    });
    assert!(shares.any(|share| share >= 0.9), "a reader got less than its fair share of {fair:.0} bytes, three times");
    for (gateway, pool) in [&a, &b].into_iter().zip(pools) {
        let buffered = gateway.status().buffered_bytes;
        assert!(buffered <= pool + 1000 * FLOW_FLOOR, "{buffered} bytes buffered, the pool is {pool}");
        let memory = resident(gateway);
        println!("{memory} bytes resident, {buffered} buffered, the pool is {pool}");
        let most = BUFFER_SPARE * pool + 1000 * FLOW_FLOOR + BESIDE_POOL;
        assert!(memory <= most, "{memory} bytes resident, the pool is {pool}");
    }
    drop(stopped);
}

#[test]
#[ignore = "make test-all: 5,000 connections"]
fn five_thousand_short_connections_leave_nothing_behind() {
    let _alone = alone();
    if !root_or_skip("five_thousand_short_connections_leave_nothing_behind") {
        return;
    }
    let world = World::new("short");
    let (a, b) = world.start_both("", LAN);
    world.serve(7, echo);
    let world = Arc::new(world);
    let round = |count: usize| {
        let workers: Vec<_> = (0..8)
            .map(|worker| {
                let world = Arc::clone(&world);
                std::thread::spawn(move || {
                    for n in 0..count / 8 {
                        let text = format!("{worker} {n}");
                        let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
                        stream.write_all(text.as_bytes()).unwrap();
                        stream.shutdown(std::net::Shutdown::Write).unwrap();
                        let mut back = String::new();
                        stream.read_to_string(&mut back).unwrap();
                        assert_eq!(back, text);
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    };
    round(1000);
    let before = [resident(&a), resident(&b)];
    round(4000);
    for (gateway, before) in [&a, &b].into_iter().zip(before) {
        wait_for("flows to close", || gateway.status().flows == 0 && gateway.status().door.connections == 0);
        let after = resident(gateway);
        assert!(after <= before + (4 << 20), "memory grew from {before} to {after} bytes over 4,000 connections");
        let open = std::fs::read_dir(format!("/proc/{}/fd", gateway.child.id())).unwrap().count();
        assert!(open < 40, "{open} files open");
    }
    assert_eq!(a.counter("connections_closed"), 5000);
}

/// The folder of a control group, removed with it.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A control group below this process's own that may use so much memory; none where the machine has no such groups.
fn memory_group(octets: u64) -> Option<Group> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let (root, ours, limit) = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next()?, fields.next()?) {
            ("", path) => Some(("/sys/fs/cgroup", path, "memory.max")),
            ("memory", path) => Some(("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes")),
            _ => None,
        }
        .filter(|(root, path, limit)| Path::new(root).join(path.trim_start_matches('/')).join(limit).exists())
    })?;
    let folder =
        Path::new(root).join(ours.trim_start_matches('/')).join(format!("wavelane-test-{}", std::process::id()));
    std::fs::create_dir(&folder).ok()?;
    let group = Group(folder);
    std::fs::write(group.0.join(limit), octets.to_string()).ok()?;
    Some(group)
}

/// A connection that is begun and not waited for.
fn attempt(target: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
    let _ = socket.connect(&target.into());
    socket
}

/// The kernel ends a process that goes beyond its group's memory.
#[test]
fn a_gateway_of_64_mebibytes_outlives_thousands_of_flows_that_nobody_reads() {
    let _alone = alone();
    if !root_or_skip("a_gateway_of_64_mebibytes_outlives_thousands_of_flows_that_nobody_reads") {
        return;
    }
    let Some(group) = memory_group(64 << 20) else {
        println!("SKIPPED (no control group for memory): a gateway of 64 MiB");
        return;
    };
    let world = World::new("small");
    let b = world.start("b", "source = \"keep\"", "");
    let config = world.write("a", Outside::V4, "", &format!("[intercept]\n{LAN}"));
    let (daemon, log, control) = daemon_command(&config);
    let mut command = Command::new("sh");
    command.args(["-c", "echo $$ >\"$0/cgroup.procs\" && exec \"$@\""]).arg(&group.0);
    command.arg(daemon.get_program()).args(daemon.get_args()).stdin(Stdio::null());
    command.stderr(std::fs::File::create(&log).unwrap());
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let mut a = Daemon { child, log, control, own_folder: None };
    a.wait_log("peer 'b' is up");
    // More than the kernels' buffers on the way take while nobody reads.
    world.serve(7, |mut stream, _| {
        let _ = stream.write_all(&vec![b'x'; 512 << 10]);
        let _ = stream.read(&mut [0]);
    });
    world.serve(8, echo);
    let mut speaks = world.connect(&world.client, "10.3.0.2:8").unwrap();
    let target = SocketAddr::from(([10, 3, 0, 2], 7));
    // As many as the table has places for, and then attempts that are dropped and counted.
    let open = || world.client.run(move || TcpStream::connect_timeout(&target, Duration::from_secs(5))).unwrap();
    let flows: Vec<TcpStream> = (0..3_000).map_while(|_| open().ok()).collect();
    assert!(flows.len() >= 1_000, "{} flows came to be:\n{}", flows.len(), a.log());
    let attempts = world.client.run(move || -> Vec<Socket> { (0..1_500).map(|_| attempt(target)).collect() }).unwrap();
    wait_for("the pool to be full, or all readers to stand still", || {
        let before = a.status().buffered_bytes;
        // real time: 1 s, buffers that no longer grow
        pause(Duration::from_secs(1));
        a.status().buffered_bytes == before
    });
    let (memory, buffered) = (resident(&a), a.status().buffered_bytes);
    println!(
        "{memory} bytes resident, {buffered} buffered, {} attempts dropped",
        a.counter("dropped_syn_flow_table_full")
    );
    assert!(a.counter("dropped_syn_flow_table_full") > 1_000);
    speaks.write_all(b"x").unwrap();
    speaks.read_exact(&mut [0]).unwrap();
    assert_eq!(a.child.try_wait().unwrap(), None, "{}", a.log());
    drop((flows, attempts, b));
    assert_eq!(a.stop(), Some(0));
}

#[test]
fn a_gateway_survives_sigstop_for_20_s() {
    let _alone = alone();
    if !root_or_skip("a_gateway_survives_sigstop_for_20_s") {
        return;
    }
    let world = World::new("sigstop");
    let (_a, b) = world.start_both("", LAN);
    world.serve(7, echo);
    transfer_during(&world, 10_000_000, || {
        signal(&b, "-STOP");
        // real time: 20 s, the process is stopped
        pause(Duration::from_secs(20));
        signal(&b, "-CONT");
    });
}

#[test]
fn rules_return_after_a_foreign_flush() {
    let _alone = alone();
    if !root_or_skip("rules_return_after_a_foreign_flush") {
        return;
    }
    let world = World::new("flush");
    let (a, _b) = world.start_both("", LAN);
    world.serve(7, echo);
    transfer_during(&world, 10_000_000, || {
        world.sh(&world.a, "nft flush ruleset");
    });
    // New connections are taken again once the daemon has noticed.
    let taken = a.counter("connections_taken");
    let start = now();
    loop {
        if let Ok(mut stream) = world.connect(&world.client, "10.3.0.2:7") {
            let _ = stream.write_all(b"x");
        }
        if a.counter("connections_taken") > taken {
            break;
        }
        assert!(start.elapsed() < 2 * PATIENCE, "not taken any more:\n{}", a.log());
        pause(Duration::from_millis(200));
    }
}

#[test]
fn a_path_mtu_that_falls_in_mid_flow_is_detected() {
    let _alone = alone();
    if !root_or_skip("a_path_mtu_that_falls_in_mid_flow_is_detected") {
        return;
    }
    let world = World::new("mtu");
    let (a, b) = world.start_both("", LAN);
    world.serve(7, echo);
    // First in silence, as a tunnel on the way would: nobody says that packets are too long.
    transfer_during(&world, 5_000_000, || {
        world.sh(
            &world.b,
            "nft 'add table ip narrow; add chain ip narrow in { type filter hook prerouting priority -400; }; \
             add rule ip narrow in iifname wan0 meta length > 1400 drop'",
        );
    });
    assert!(a.status().peers[0].path_mtu <= 1400, "{}", a.status().peers[0].path_mtu);
    // Then the device itself refuses to send them.
    transfer_during(&world, 5_000_000, || {
        world.sh(&world.b, "ip link set wan0 mtu 1300");
    });
    assert!(b.status().peers[0].path_mtu <= 1300, "{}", b.status().peers[0].path_mtu);
}

/// A card whose UDP segmentation is broken: what leaves in a batch is lost, and what leaves alone arrives.
#[test]
fn a_path_that_loses_batches_is_used_without_them() {
    let _alone = alone();
    if !root_or_skip("a_path_that_loses_batches") {
        return;
    }
    let world = World::new("batches");
    // Between two namespaces a batch stays one packet.
    world.sh(
        &world.b,
        "nft 'add table ip narrow; add chain ip narrow in { type filter hook prerouting priority -400; }; \
         add rule ip narrow in iifname wan0 udp dport 4780 meta length > 1500 drop'",
    );
    let (a, _b) = world.start_both("", LAN);
    world.serve(7, echo);
    transfer_during(&world, 5_000_000, || {});
    a.wait_log("packets that leave in batches are lost on the way");
    wait_for("packets of more than the base", || a.status().peers[0].path_mtu > 1_200);
    let found = &a.status().peers[0];
    assert!(found.path_mtu_cause.as_deref().unwrap_or_default().contains("tx-udp-segmentation"), "{}", a.log());
}

/// A tunnel on the way that carries 700 bytes, or the least an IPv4 host must take, and says nothing of it.
#[test]
fn a_path_mtu_below_1200_carries_flows_and_packets() {
    let _alone = alone();
    if !root_or_skip("a_path_below_1200") {
        return;
    }
    for path_mtu in [700, 576] {
        let world = World::new("narrow");
        for ns in [&world.a, &world.b] {
            // A batch that the card would cut would pass whole.
            world.sh(
                ns,
                &format!(
                    "ip link set wan0 gso_max_segs 1; nft 'add table ip narrow; \
                     add chain ip narrow in {{ type filter hook prerouting priority -400; }}; \
                     add rule ip narrow in iifname wan0 udp dport 4780 meta length > {path_mtu} drop'"
                ),
            );
        }
        let tun = |n: u8| format!("{LAN}\n[tun]\naddresses = [\"10.9.0.{n}/24\"]");
        let b = world.start("b", "source = \"keep\"", &format!("[intercept]\n{}", tun(2)));
        let a = world.start("a", "source = \"keep\"", &format!("[intercept]\n{}", tun(1)));
        a.wait_log("peer 'b' is up");
        world.serve(7, echo);
        transfer_during(&world, 3_000_000, || {});
        for (daemon, peer) in [(&a, "b"), (&b, "a")] {
            // A transfer may be over before the search has proved what is lost.
            wait_for("the cause of the small path MTU", || daemon.status().peers[0].path_mtu_cause.is_some());
            let status = daemon.status();
            let found = &status.peers[0];
            assert!(found.up && (576..=path_mtu).contains(&found.path_mtu), "{status}");
            assert!(found.path_mtu_cause.as_deref().unwrap_or_default().contains("smaller MTU"), "{status}");
            assert!(status.to_string().contains("are lost on the way"), "{status}");
            daemon.wait_log("are lost on the way");
            let log = daemon.log();
            assert_eq!(log.matches("are lost on the way").count(), 1, "peer {peer}:\n{log}");
            assert!(!log.contains("key and ours do not match"), "the keys are right:\n{log}");
        }
        // A packet of the inside's MTU crosses in pieces.
        let said = world.sh(&world.client, "LC_ALL=C ping -c 10 -i 0.1 -W 2 -M do -s 1372 10.3.0.2 2>&1 || true");
        assert!(said.contains(" 10 received"), "{said}");
    }
}
