//! Clients that read a kilobyte a second, by the thousand, and connections of which nothing moves.

use crate::common::{World, alone, echo, now, pause, pour, resident, root_or_skip, wait_for};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const LAN: &str = "interfaces = [\"lan0\"]";
/// What the lane carries, by the kernel's token bucket.
const SHAPE: &str = "tc qdisc add dev wan0 root tbf rate 40mbit burst 20kb latency 50ms";

/// Octets per second that a new download gets over ten seconds, its start not counted.
fn download(world: &World) -> f64 {
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    let (mut buf, start, mut got, mut from) = (vec![0; 64 << 10], now(), 0, None);
    while start.elapsed() < Duration::from_secs(12) {
        let n = stream.read(&mut buf).unwrap();
        if start.elapsed() >= Duration::from_secs(2) {
            from.get_or_insert_with(now);
            got += n;
        }
    }
    got as f64 / from.unwrap().elapsed().as_secs_f64()
}

#[test]
#[ignore = "make test-all: a minute and a half"]
fn slow_readers_leave_a_download_nine_tenths_of_the_rest() {
    let _alone = alone();
    if !root_or_skip("slow_readers_leave_a_download_nine_tenths_of_the_rest") {
        return;
    }
    let world = World::new("slow");
    let pool = 64_u64 << 20;
    let b = world.start("b", "source = \"keep\"\npool = \"64 MiB\"", "");
    let a = world.start("a", "pool = \"64 MiB\"", &format!("[intercept]\n{LAN}"));
    a.wait_log("peer 'b' is up");
    world.serve(7, |stream, _| pour(stream));
    world.sh(&world.b, SHAPE);
    let by_itself = download(&world);
    world.sh(&world.b, "tc qdisc del dev wan0 root");

    let mut slow: Vec<TcpStream> = (0..1_000).map(|_| world.connect(&world.client, "10.3.0.2:7").unwrap()).collect();
    let (stop, read) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let readers = std::thread::spawn({
        let (stop, read) = (Arc::clone(&stop), Arc::clone(&read));
        move || {
            let mut buf = [0; 1_000];
            while !stop.load(Ordering::Relaxed) {
                for stream in &mut slow {
                    read.fetch_add(stream.read(&mut buf).unwrap() as u64, Ordering::Relaxed);
                }
                // real time: 0 s, counted with the waits below
                pause(Duration::from_secs(1));
            }
        }
    });
    // Until the kernels' buffers on the way are full, they are no slow readers.
    // real time: 55 s, kernels' buffers fill, and two downloads are measured
    pause(Duration::from_secs(25));
    world.sh(&world.b, SHAPE);
    // real time: 3 s, of slow readers
    pause(Duration::from_secs(3));
    // A slow machine may not have filled them by then.
    let mut tries = (0..3).map(|_| {
        let before = (now(), read.load(Ordering::Relaxed));
        let beside = download(&world);
        let theirs = (read.load(Ordering::Relaxed) - before.1) as f64 / before.0.elapsed().as_secs_f64();
        println!("{by_itself:.0} octets/s alone, {beside:.0} beside a thousand that read {theirs:.0}");
        beside >= 0.9 * (by_itself - theirs)
    });
    let is_spared = tries.any(|spared| spared);
    for gateway in [&a, &b] {
        let (memory, buffered) = (resident(gateway), gateway.status().buffered_bytes);
        println!("{memory} bytes resident, {buffered} buffered, the pool is {pool}");
        println!("{} dropped for want of room", gateway.counter("dropped_hop_pool_full"));
        assert!(buffered <= pool / 2 + 1_000 * 4_096, "{buffered} bytes buffered, all one way; the pool is {pool}");
        // As in `stress.rs`: the pool, what a flow costs, and the program. The allocator keeps what was held at the most.
        assert!(memory <= pool + 1_000 * 4_096 + (8 << 20), "{memory} bytes resident, {buffered} buffered");
    }
    stop.store(true, Ordering::Relaxed);
    readers.join().unwrap();
    assert!(is_spared, "those who do not read cost a tenth of {by_itself:.0} octets/s each time");
}

#[test]
fn a_stalled_connection_is_reset_at_both_ends() {
    let _alone = alone();
    if !root_or_skip("a_stalled_connection_is_reset_at_both_ends") {
        return;
    }
    let world = World::new("idle");
    let (a, b) = world.start_both("idle = \"4 s\"", LAN);
    let ended = Arc::new(AtomicU64::new(0));
    world.serve(7, echo);
    world.serve(8, {
        let ended = Arc::clone(&ended);
        move |mut stream: TcpStream, _| {
            let reset = stream.read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
            ended.fetch_add(u64::from(reset), Ordering::Relaxed);
        }
    });
    let mut silent = world.connect(&world.client, "10.3.0.2:8").unwrap();
    let mut speaks = world.connect(&world.client, "10.3.0.2:7").unwrap();
    let start = now();
    while start.elapsed() < Duration::from_secs(10) {
        speaks.write_all(b"x").unwrap();
        speaks.read_exact(&mut [0]).unwrap();
        // real time: 10 s, a connection that stands still beside one that speaks
        pause(Duration::from_secs(1));
    }
    let error = silent.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    wait_for("the server's connection to be reset", || ended.load(Ordering::Relaxed) == 1);
    assert_eq!(a.counter("flows_idle") + b.counter("flows_idle"), 1);
}
