//! What the door offers to a sender in front of a slow line, with real kernels.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;
use common::*;
use socket2::SockRef;
use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Segments of their own, each in memory of its own, as most network cards deliver them.
const NO_OFFLOAD: &str = "ethtool -K eth0 tso off gso off sg off tx off > /dev/null";
const LINE: &str = "tc qdisc replace dev wan0 root tbf rate 128kbit burst 3200 latency 4s";
/// How long the uploads are watched: 131 kB in the flow and what waits in the socket pass first, 16 s in all.
const WATCHED: Duration = Duration::from_secs(24);
/// Longest time without an arrival. A segment takes 0.1 s; retransmission timeouts that back off leave pauses of 4 to 28 s.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A kernel that drops what the door's window invited leaves the sender to its retransmission timer.
#[test]
fn an_upload_over_a_slow_line_does_not_pause() {
    let _alone = alone();
    if !root_or_skip("door_window") || !tunnel::has("ethtool", "door_window") {
        return;
    }
    let uploads = ["bbr", "cubic"].map(|name| std::thread::spawn(move || upload(name)));
    let results = uploads.map(|upload| upload.join().unwrap());
    println!("{results:?}");
    for (name, pause, dropped) in results.into_iter().flatten() {
        assert_eq!(dropped, 0, "{name}: segments that were invited and dropped");
        assert!(pause <= PAUSE_MAX, "{name}: nothing arrived for {pause:?}");
    }
}

/// Uploads with this congestion control. Returns the longest pause of the arrivals, and how many segments the gateway's kernel dropped
/// although its window allowed them.
fn upload(congestion_control: &'static str) -> Option<(&'static str, Duration, u64)> {
    let world = World::new(congestion_control);
    world.sh(&world.client, NO_OFFLOAD);
    world.sh(&world.a, LINE);
    let _gateways = world.start_both("source = \"keep\"", "interfaces = [\"lan0\"]");
    let (tell, told) = channel();
    world.serve(9, move |mut stream, _| {
        let mut buffer = vec![0; 65_536];
        while let Ok(1..) = stream.read(&mut buffer) {
            let _ = tell.send(());
        }
    });
    let mut stream = world.connect(&world.client, "10.3.0.2:9").unwrap();
    if SockRef::from(&stream).set_tcp_congestion(congestion_control.as_bytes()).is_err() {
        eprintln!("SKIPPED (part of 1 test): door_window needs this kernel to have {congestion_control}");
        return None;
    }
    stream.set_write_timeout(None).unwrap();
    let stop = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || while stream.write_all(&[7; 16_384]).is_ok() {});
    let (start, mut last, mut pause) = (now(), now(), Duration::ZERO);
    while start.elapsed() < WATCHED {
        let arrived = told.recv_timeout(Duration::from_millis(100)).is_ok();
        pause = pause.max(last.elapsed());
        if arrived {
            last = now();
        }
    }
    let dropped = counter(&world, "TCPRcvQDrop");
    stop.shutdown(std::net::Shutdown::Both).unwrap();
    writer.join().unwrap();
    Some((congestion_control, pause, dropped))
}

/// A counter of the near gateway's kernel.
fn counter(world: &World, name: &str) -> u64 {
    let said = world.sh(&world.a, "cat /proc/net/netstat");
    let mut lines = said.lines().filter(|line| line.starts_with("TcpExt:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|n| n == name).unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}
