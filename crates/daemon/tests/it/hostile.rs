//! Real gateways whose datagrams pass somebody who forges, replays and reorders, and whom strangers call.

use crate::common::{Daemon, World, alone, echo, pause, resident, root_or_skip, transfer_during};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wavelane_base::{Entropy, Instant, Machine, PortId};
use wavelane_daemon::keys;
use wavelane_gateway::{Config, Gateway, LaneConfig, PeerConfig};

/// Handshakes begun by strangers and never gone on with.
const OFFERS: usize = 1000;
/// Memory that hostility may cost a gateway, bytes.
const GROWTH_MAX: u64 = 8 << 20;
/// Processor time that [`OFFERS`] may cost, in ticks of 10 ms. Each one that is answered takes some multiplications on a
/// curve, in a build without optimisation.
const TICKS_MAX: u64 = 400;

/// What stands between the gateways: everything passes, and much passes twice, late or damaged.
struct Attacker {
    seen: VecDeque<Vec<u8>>,
    late: Option<(Vec<u8>, u32)>,
    count: usize,
}

impl Attacker {
    /// What is sent on in place of `datagram`.
    fn attack(&mut self, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.count += 1;
        let mut out = vec![datagram.to_vec()];
        if self.count.is_multiple_of(15) && self.late.is_none() {
            // It leaves behind the next three.
            self.late = out.pop().map(|datagram| (datagram, 3));
        } else if let Some((_, wait)) = &mut self.late {
            *wait -= 1;
            if *wait == 0 {
                out.extend(self.late.take().map(|late| late.0));
            }
        }
        if self.count.is_multiple_of(10) {
            out.extend(self.seen.get(self.count / 10 % 64).cloned());
        }
        if self.count.is_multiple_of(7) {
            // Headers stay, so that it reaches the session: a receipt, an acknowledgement or data, whatever it was.
            let mut forged = datagram.to_vec();
            let place = forged.len() / 2 + self.count % 8;
            if let Some(byte) = forged.get_mut(place) {
                *byte ^= 1 << (self.count % 8);
            }
            out.push(forged);
            out.push(datagram[..datagram.len().min(self.count % 40)].to_vec());
        }
        self.seen.push_back(datagram.to_vec());
        if self.seen.len() > 64 {
            self.seen.pop_front();
        }
        out
    }
}

/// Passes datagrams between `from` (whoever called last) and `to` until told to stop.
fn stand_between(near: UdpSocket, far: UdpSocket, stop: Arc<AtomicBool>) -> Vec<std::thread::JoinHandle<()>> {
    near.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    far.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let pass = |from: UdpSocket, to: UdpSocket, target: &'static str, stop: Arc<AtomicBool>| {
        std::thread::spawn(move || {
            let mut attacker = Attacker { seen: VecDeque::new(), late: None, count: 0 };
            let mut buf = [0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                let Ok((n, _)) = from.recv_from(&mut buf) else { continue };
                for datagram in attacker.attack(&buf[..n]) {
                    let _ = to.send_to(&datagram, target);
                }
            }
        })
    };
    vec![
        pass(near.try_clone().unwrap(), far.try_clone().unwrap(), "10.2.0.2:4780", Arc::clone(&stop)),
        pass(far, near, "10.2.0.1:4780", stop),
    ]
}

/// The first message of a handshake with the holder of `public_key`, by somebody it does not know.
fn offer(public_key: [u8; 32]) -> Vec<u8> {
    let now = Instant::ZERO;
    let peer = PeerConfig {
        name: "victim".into(),
        public_key,
        preshared_key: None,
        lanes: vec![LaneConfig::new(PortId(0), Some("10.2.0.2:4780".parse().unwrap()))],
        choice: wavelane_gateway::Choice::Bond,
        keepalive: None,
        allow_sources: None,
        allow_targets: Vec::new(),
        routes: Vec::new(),
    };
    let config = Config { private_key: keys::generate().unwrap(), peers: vec![peer], ..Config::default() };
    let entropy = Entropy::live(wavelane_host::entropy::fill);
    let mut gateway = Gateway::new(now, config, 1, entropy).unwrap();
    let mut buf = [0; 2048];
    let sent = gateway.poll_transmit(now, PortId(0), &mut buf, 1).unwrap();
    buf[..sent.len].to_vec()
}

/// Processor time so far in ticks of 10 ms: fields 14 and 15 of proc_pid_stat(5).
fn ticks(daemon: &Daemon) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.child.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn forged_replayed_and_reordered_datagrams_lose_nothing() {
    let _alone = alone();
    if !root_or_skip("forged_replayed_and_reordered_datagrams_lose_nothing") {
        return;
    }
    let world = World::new("hostile");
    // The only way between the gateways leads past the attacker, who sits at 10.2.0.2:4999.
    for ns in [&world.a, &world.b] {
        world.sh(
            ns,
            "nft 'table inet world { chain i { type filter hook input priority 0; \
             iifname \"wan0\" udp sport 4780 udp dport 4780 drop; }; }'",
        );
    }
    let bind = |address: &'static str| world.b.run(move || UdpSocket::bind(address).unwrap()).unwrap();
    let stop = Arc::<AtomicBool>::default();
    let attacking = stand_between(bind("10.2.0.2:4999"), bind("10.2.0.2:0"), Arc::clone(&stop));
    let b = world.start("b", "source = \"keep\"", "");
    let config = world.write("a", crate::common::Outside::V4, "", "[intercept]\ninterfaces = [\"lan0\"]");
    let text = std::fs::read_to_string(&config).unwrap().replace("10.2.0.2:4780", "10.2.0.2:4999");
    std::fs::write(&config, text).unwrap();
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    world.serve(7, echo);
    transfer_during(&world, 1_000_000, || ());

    let offers: Vec<Vec<u8>> = {
        let public_key = keys::public_key(&world.keys[1].private);
        (0..OFFERS).map(|_| offer(public_key)).collect()
    };
    let (memory, spent) = ([resident(&a), resident(&b)], ticks(&b));
    transfer_during(&world, 5_000_000, || {
        let callers =
            world.a.run(|| -> Vec<UdpSocket> { (0..50).map(|_| UdpSocket::bind("10.2.0.1:0").unwrap()).collect() });
        let callers = callers.unwrap();
        for (n, offer) in offers.iter().enumerate() {
            callers[n % callers.len()].send_to(offer, "10.2.0.2:4780").unwrap();
            pause(Duration::from_millis(1));
        }
    });
    let spent = ticks(&b) - spent;
    stop.store(true, Ordering::Relaxed);
    attacking.into_iter().for_each(|thread| thread.join().unwrap());

    for (name, gateway, before) in [("a", &a, memory[0]), ("b", &b, memory[1])] {
        let after = resident(gateway);
        assert!(after <= before + GROWTH_MAX, "gateway {name} grew from {before} to {after} bytes");
        for counter in ["dropped_forged", "dropped_replayed", "dropped_malformed"] {
            assert!(gateway.counter(counter) > 0, "gateway {name} counted no {counter}: {}", gateway.status());
        }
    }
    let names = ["dropped_unknown_peer", "dropped_cookie_needed", "dropped_overload"];
    let refused: u64 = names.iter().map(|name| b.counter(name)).sum();
    println!("{refused} offers refused ({:?}), {spent} ticks", names.map(|name| b.counter(name)));
    assert!(refused >= OFFERS as u64 * 9 / 10, "{refused} of {OFFERS} offers were refused: {}", b.status());
    assert!(spent <= TICKS_MAX, "{spent} ticks of 10 ms");
}
