//! Telephony through two real gateways on a path with delay and loss, which no kernel here can make: a relay of our own
//! between the two does.

use crate::common::tunnel::*;
use crate::common::*;
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One way.
const DELAY: Duration = Duration::from_millis(50);
/// The relay beside gateway a, as a sees it, and where b's answers go.
const INNER: &str = "127.0.0.1:5000";
const OUTER: &str = "10.2.0.1:5001";
/// One in so many datagrams is lost, each way.
const LOST: u32 = 20;

/// Passes datagrams from one socket to the address of another, a fixed time later, but for those that are lost.
fn pass_on(from: UdpSocket, via: UdpSocket, to: &'static str, seed: u32, stop: Arc<AtomicBool>) {
    from.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (mut waiting, mut dice) = (VecDeque::<(Instant, Vec<u8>)>::new(), seed);
    let mut buf = [0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        if let Ok(n) = from.recv(&mut buf) {
            // A linear congruence (Numerical Recipes, section 7.1) does for independent losses.
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if (dice >> 8) % LOST != 0 {
                waiting.push_back((now() + DELAY, buf[..n].to_vec()));
            }
        }
        while waiting.front().is_some_and(|(at, _)| *at <= now()) {
            if let Some((_, datagram)) = waiting.pop_front() {
                let _ = via.send_to(&datagram, to);
            }
        }
    }
}

/// Both gateways with the relay between them. It ends with `stop`.
fn start_far_apart(world: &World, stop: &Arc<AtomicBool>) -> (Daemon, Daemon) {
    // Nothing may find the short way.
    let only = "nft 'table inet far { chain i { type filter hook input priority 0; iifname \"wan0\" udp dport 4780 udp sport 4780 drop; }; }'";
    world.sh(&world.a, only);
    world.sh(&world.b, only);
    let bind = |address: &'static str| world.a.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    let (inner, outer) = (bind(INNER), bind(OUTER));
    // What the relay sends to gateway a comes from where a sends to.
    let back = inner.try_clone().unwrap();
    let there = outer.try_clone().unwrap();
    for (from, via, to, seed) in [(inner, there, "10.2.0.2:4780", 1), (outer, back, "127.0.0.1:4780", 2)] {
        let stop = Arc::clone(stop);
        std::thread::spawn(move || pass_on(from, via, to, seed, stop));
    }
    let b = world.start("b", "source = \"keep\"", &tun("b", ""));
    let config = world.write("a", Outside::V4, "source = \"keep\"", &tun("a", ""));
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("10.2.0.2:4780", INNER)).unwrap();
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    (a, b)
}

#[test]
fn telephony_is_brought_back_by_symbols() {
    let _alone = alone();
    if !root_or_skip("telephony") {
        return;
    }
    const DATAGRAMS: usize = 1_500;
    let world = World::new("voice");
    let stop = Arc::new(AtomicBool::new(false));
    let (a, _b) = start_far_apart(&world, &stop);
    world.sh(
        &world.client,
        "nft 'table inet marks { chain o { type filter hook output priority 0; udp dport 6000 ip dscp set ef; }; }'",
    );
    let receiver = world.server.run(|| UdpSocket::bind("10.3.0.2:6000").unwrap()).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let sender = world.client.run(|| UdpSocket::bind("10.1.0.2:6000").unwrap()).unwrap();
    // Every 4 ms, six seconds long.
    let start = now();
    std::thread::spawn(move || {
        for i in 0..DATAGRAMS {
            let mut datagram = pattern(400, i as u32 + 1);
            datagram[..4].copy_from_slice(&(i as u32).to_be_bytes());
            sender.send_to(&datagram, "10.3.0.2:6000").unwrap();
            pause(Duration::from_millis(4 * (i as u64 + 1)).saturating_sub(start.elapsed()));
        }
    });
    let (mut seen, mut buf) = (vec![false; DATAGRAMS], [0; 2_000]);
    let mut delays = Vec::new();
    while let Ok(n) = receiver.recv(&mut buf) {
        let i = u32::from_be_bytes(buf[..4].try_into().unwrap()) as usize;
        assert!(buf[4..n] == pattern(400, i as u32 + 1)[4..], "datagram {i} was damaged");
        delays.push(start.elapsed().saturating_sub(Duration::from_millis(4 * i as u64)));
        assert!(!std::mem::replace(&mut seen[i], true), "datagram {i} came twice");
        if seen.iter().all(|s| *s) {
            break;
        }
    }
    let lost = seen.iter().filter(|s| !**s).count();
    let [repaired, symbols, repeated] =
        ["fec_repaired", "fec_symbols", "packets_repeated"].map(|name| a.counter(name) as usize);
    stop.store(true, Ordering::Relaxed);
    delays.sort();
    let [p50, p95, p99] = [50, 95, 99].map(|percent| delays[(delays.len() - 1) * percent / 100]);
    println!("one way p50 {p50:.1?} p95 {p95:.1?} p99 {p99:.1?}; {lost} of {DATAGRAMS} lost");
    println!("{symbols} symbols brought back {repaired}, {repeated} repeats");
    // One in twenty is lost on the way. Nearly all of it comes back by symbols; the few of the rest that are not too
    // late are repeated once. How long that took is the machine's business too, so delays are printed and not judged.
    assert!(lost * 100 <= DATAGRAMS, "{lost} of {DATAGRAMS} lost where the link loses 5 %");
    assert!(
        repaired * 50 >= DATAGRAMS && repaired > repeated,
        "{symbols} symbols, {repaired} repaired, {repeated} repeats"
    );
    assert!(symbols <= DATAGRAMS, "{symbols} symbols");
}
