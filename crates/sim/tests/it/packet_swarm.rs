//! The packet service in worlds that the seed draws: nothing twice, nothing foreign, memory bounded, and a healed link
//! carries again. `WAVELANE_SWARM_SEEDS` and `WAVELANE_SWARM_FIRST` choose seeds as in `swarm`.

use crate::common::Direction;
use crate::packets::{Tunnel, read, udp};
use crate::swarm::{all, heal_cable, number, one_in, some_direction, some_loss, spread};
use std::collections::{BTreeMap, BTreeSet};
use wavelane_base::{Chance, Instant, Rate, Seed, Span};
use wavelane_channel::{CableConfig, Parameter};

/// Seeds tried when nothing is asked for.
const SEEDS: u64 = 40;
/// As many in `make test`.
const FEW_SEEDS: u64 = 15;
const FAULTY: Span = Span::from_secs(8);
/// How long after the link healed packets must cross again: a restart is found out by then.
const REUNION: Span = Span::from_secs(5);
/// Packets that must all cross the healed link.
const PROOF: u64 = 20;

/// One stream of datagrams.
struct Stream {
    back: bool,
    port: u16,
    len: usize,
    every: Span,
    dscp: u8,
    next: Instant,
    sent: u64,
}

fn some_stream(dice: &mut Chance, port: u16) -> Stream {
    Stream {
        back: one_in(dice, 2),
        port: if one_in(dice, 5) { 53 } else { port },
        len: spread(dice, 8, 1_372) as usize,
        every: Span::from_micros(spread(dice, 300, 200_000)),
        dscp: if one_in(dice, 4) { 46 } else { 0 },
        next: Instant::from_millis(dice.below(1_000)),
        sent: 0,
    }
}

/// What arrived, by direction, port and serial.
type Arrived = BTreeSet<(bool, u16, u64)>;

fn collect(tunnel: &mut Tunnel, streams: &[Stream], arrived: &mut Arrived) {
    for (_, node, packet) in tunnel.engine.take_packets() {
        let back = node == tunnel.gateways[0];
        // The sender is told of a peer that does not answer: host unreachable.
        if packet[9] == 1 && packet[20..22] == [3, 1] {
            continue;
        }
        let (port, serial) = read(&packet);
        let known = streams.iter().any(|s| {
            let mut wanted = udp(s.back, s.port, serial, s.len, s.dscp);
            // One hop less, and the checksum that follows from it.
            wanted[8] = 63;
            wanted[10] = packet[10];
            wanted[11] = packet[11];
            s.back == back && s.port == port && serial < s.sent && wanted == packet
        });
        assert!(known, "a packet nobody sent: port {port}, serial {serial}");
        assert!(arrived.insert((back, port, serial)), "port {port}, serial {serial} came twice");
    }
    for node in tunnel.gateways {
        let (held, config) = (tunnel.engine.status(node).packets_buffered, tunnel.engine.gateway(node).config());
        assert!(held <= config.packets.unwrap().pool as u64, "a gateway holds {held} bytes of packets");
    }
}

fn run_until(tunnel: &mut Tunnel, streams: &mut [Stream], arrived: &mut Arrived, end: Instant) {
    loop {
        let next = streams.iter().enumerate().min_by_key(|(_, s)| s.next).map(|(i, s)| (i, s.next));
        let Some((i, at)) = next.filter(|(_, at)| *at < end) else { break };
        tunnel.engine.run_until(at);
        let s = &mut streams[i];
        let packet = udp(s.back, s.port, s.sent, s.len, s.dscp);
        s.sent += 1;
        s.next = at + s.every;
        tunnel.engine.send_packet(tunnel.gateways[usize::from(s.back)], &packet);
        collect(tunnel, streams, arrived);
    }
    tunnel.engine.run_until(end);
    collect(tunnel, streams, arrived);
}

fn break_something(dice: &mut Chance, tunnel: &mut Tunnel, restarts: &mut u64) {
    let direction = if one_in(dice, 2) { Direction::Forward } else { Direction::Reverse };
    let now = tunnel.engine.now();
    let parameter = match dice.below(6) {
        0 => Parameter::Rate(Some(Rate::from_bps(spread(dice, 200_000, 50_000_000)))),
        1 => Parameter::Delay(Span::from_millis(spread(dice, 1, 300))),
        2 => Parameter::Loss(some_loss(dice)),
        3 => Parameter::Outages(vec![(now, now + Span::from_millis(spread(dice, 50, 4_000)))]),
        4 if *restarts < 2 => {
            *restarts += 1;
            let node = tunnel.gateways[usize::from(one_in(dice, 2))];
            return tunnel.engine.restart(node);
        }
        _ => return,
    };
    tunnel.engine.set(tunnel.air, direction, parameter).unwrap();
}

fn run(seed: u64) {
    let mut dice = Seed(seed).chance("packet swarm");
    let config = CableConfig { forward: some_direction(&mut dice), reverse: some_direction(&mut dice) };
    let mut tunnel = Tunnel::new(seed, config);
    let mut by_port: BTreeMap<(bool, u16), Stream> = BTreeMap::new();
    for n in 0..1 + dice.below(6) {
        let stream = some_stream(&mut dice, 4_000 + n as u16);
        by_port.entry((stream.back, stream.port)).or_insert(stream);
    }
    let (mut streams, mut arrived) = (by_port.into_values().collect::<Vec<_>>(), Arrived::new());
    let mut restarts = 0;
    while tunnel.engine.now() < Instant::ZERO + FAULTY {
        let next = tunnel.engine.now() + Span::from_millis(spread(&mut dice, 20, 1_000));
        run_until(&mut tunnel, &mut streams, &mut arrived, next);
        break_something(&mut dice, &mut tunnel, &mut restarts);
    }
    heal_cable(&mut tunnel.engine, tunnel.air);
    let reunion = tunnel.engine.now() + REUNION;
    streams.iter_mut().for_each(|stream| stream.next = Instant::FAR_FUTURE);
    // A gateway that lost its memory is detected only by a request.
    for back in [false, true] {
        let (next, every) = (tunnel.engine.now(), Span::from_millis(200));
        streams.push(Stream { back, port: 9, len: 100, every, dscp: 0, next, sent: 0 });
    }
    run_until(&mut tunnel, &mut streams, &mut arrived, reunion);
    let first: Vec<u64> = streams.iter().map(|stream| stream.sent).collect();
    let proven = reunion + Span::from_millis(200).times(PROOF);
    run_until(&mut tunnel, &mut streams, &mut arrived, proven);
    streams.iter_mut().for_each(|stream| stream.next = Instant::FAR_FUTURE);
    run_until(&mut tunnel, &mut streams, &mut arrived, proven + Span::from_secs(5));
    for (stream, first) in streams.iter().zip(first).filter(|(stream, _)| stream.port == 9) {
        let missing: Vec<u64> =
            (first..stream.sent).filter(|serial| !arrived.contains(&(stream.back, 9, *serial))).collect();
        assert!(missing.is_empty(), "back {}: {missing:?} of {first}..{} did not cross", stream.back, stream.sent);
    }
    assert_eq!(tunnel.engine.take_packets().len(), 0);
    for side in 0..2 {
        let status = tunnel.engine.status(tunnel.gateways[side]);
        assert_eq!(status.packets_buffered, 0, "something is left");
    }
}

#[test]
fn packet_swarm() {
    let (first, count) =
        (number("WAVELANE_SWARM_FIRST", 1), number("WAVELANE_SWARM_SEEDS", if all() { SEEDS } else { FEW_SEEDS }));
    for seed in first..first + count {
        if let Err(why) = std::panic::catch_unwind(|| run(seed)) {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!(
                "seed {seed}: {why}\nreplay: WAVELANE_SWARM_FIRST={seed} WAVELANE_SWARM_SEEDS=1 \
                 cargo test -p wavelane-sim --test it packet_swarm"
            );
        }
    }
}
