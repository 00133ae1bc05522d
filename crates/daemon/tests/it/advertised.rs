//! What a gateway says on the networks that it is plugged into, and what it lets through: in 1998 a router that took itself for one of
//! another network advertised that network's addresses, forwarded what came for them, and took the network down.

use crate::common::tunnel::*;
use crate::common::*;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use wavelane_host::netns::Netns;

/// Every protocol, in network byte order (packet(7), ETH_P_ALL).
const ALL: i32 = 3_u16.to_be() as i32;
/// What no peer serves, although the far gateway's kernel has a route to it.
const UNLISTED: [&str; 2] = ["10.99.0.0/16", "fd00:99::/64"];

/// All frames of a namespace.
struct Watch {
    stop: std::sync::Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Watch {
    fn new(ns: &Netns) -> Self {
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(ALL))).unwrap();
        let mut socket = ns.run(open).unwrap();
        socket.set_recv_buffer_size(4 << 20).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut frames, mut frame) = (Vec::new(), [0; 2_048]);
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(len) = socket.read(&mut frame) {
                    frames.push(frame[..len].to_vec());
                }
            }
            frames
        });
        Self { stop, thread }
    }
    fn frames(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// The hardware address of an interface.
fn mac(world: &World, ns: &Netns, interface: &str) -> Vec<u8> {
    let said = world.sh(ns, &format!("ip -o link show {interface}"));
    let text = said.split("link/ether ").nth(1).unwrap().split(' ').next().unwrap();
    text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect()
}

fn four(frame: &[u8], at: usize) -> Ipv4Addr {
    <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into()
}

fn six(frame: &[u8], at: usize) -> Ipv6Addr {
    <[u8; 16]>::try_from(&frame[at..at + 16]).unwrap().into()
}

/// Why a gateway whose network is `net` may not have sent this frame to the host there.
fn wrong(frame: &[u8], host: &[u8], net: u8) -> Option<String> {
    let addresses = [[10, net, 0, 1], [10, 2, 0, 1], [10, 2, 0, 2], [10, 9, 0, 1], [10, 9, 0, 2]];
    let own = |address: Ipv4Addr| addresses.contains(&address.octets());
    let own_six = |address: Ipv6Addr| {
        let segments = address.segments();
        segments[0] == 0xFE80 || segments[..2] == [0xFD00, net.into()] && segments[7] == 1
    };
    let is_to_host = frame[..6] == *host;
    match (frame[12], frame[13]) {
        // ARP claims its sender's address; what is asked for says nothing.
        (8, 6) => (!own(four(frame, 28))).then(|| format!("it claims {} by ARP", four(frame, 28))),
        (8, 0) => match (frame[23], frame[34]) {
            (1, 5 | 9) => Some("an ICMP redirect or router advertisement".into()),
            (1 | 6 | 17, _) if is_to_host && four(frame, 30).octets() == [10, net, 0, 2] => None,
            _ => Some(format!("protocol {} to {}", frame[23], four(frame, 30))),
        },
        (0x86, 0xDD) => match (frame[20], frame[54]) {
            (58, 134 | 137) => Some("a router's advertisement or redirect".into()),
            (58, 133 | 135) => None,
            (58, 136) => (!own_six(six(frame, 62))).then(|| format!("it claims {}", six(frame, 62))),
            // Which groups its kernel listens to.
            (0, _) if frame[62] == 143 => None,
            (58 | 6 | 17, _) if is_to_host => None,
            _ => Some(format!("protocol {} to {}", frame[20], six(frame, 38))),
        },
        kind => Some(format!("an unknown type {kind:02x?}")),
    }
}

fn is_unlisted(frame: &[u8]) -> bool {
    match (frame[12], frame[13]) {
        (8, 0) => [26, 30].iter().any(|at| four(frame, *at).octets()[..2] == [10, 99]),
        (0x86, 0xDD) => [22, 38].iter().any(|at| six(frame, *at).segments()[..2] == [0xFD00, 0x99]),
        _ => false,
    }
}

/// Captures on both networks: nothing is advertised, no foreign address is claimed, and what the far gateway does not serve never leaves
/// it, whatever the near one takes for its network.
#[test]
fn a_gateway_advertises_nothing_and_forwards_nothing_unlisted() {
    let _alone = alone();
    if !root_or_skip("advertised") || !has("ping", "advertised") {
        return;
    }
    let world = World::new("advert");
    world.serve(7, echo);
    world.sh(&world.server, "ip addr add 10.99.0.1/32 dev lo; ip addr add fd00:99::1/128 dev lo");
    world.sh(&world.b, "ip route add 10.99.0.0/16 via 10.3.0.2; ip route add fd00:99::/64 via fd00:3::2");
    // It is there: the far gateway itself reaches it.
    assert_eq!(received(&ping(&world, &world.b, "-c 1 -W 30 10.99.0.1")), 1);
    world.sh(&world.a, "ip route add 10.99.0.0/16 via 10.2.0.2; ip route add fd00:99::/64 via fd00:2::2");
    let watched = [(&world.client, &world.a, 1), (&world.server, &world.b, 3)];
    let watches = watched.map(|(ns, ..)| Watch::new(ns));
    let b = world.spawn("b", &world.write("b", Outside::V4, "source = \"keep\"", &tun("b", "")));
    let a = world.write("a", Outside::V4, "source = \"keep\"", &tun("a", ""));
    edit(&a, "routes = [", &format!("routes = [\"{}\", \"{}\", ", UNLISTED[0], UNLISTED[1]));
    let a = world.spawn("a", &a);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    only_the_lane(&world, 0);

    let one = |target: &str, wait_s| received(&ping(&world, &world.client, &format!("-c 1 -W {wait_s} {target}")));
    for target in ["10.3.0.2", "fd00:3::2"] {
        assert_eq!(one(target, 30), 1, "{target} is served");
    }
    transfer_during(&world, 20_000, || {});
    for target in ["10.99.0.1", "fd00:99::1"] {
        assert_eq!(one(target, 2), 0, "{target} is not");
    }
    for target in ["10.99.0.1:7", "[fd00:99::1]:7"] {
        assert!(world.connect(&world.client, target).is_err(), "{target}");
    }
    // Addresses of the gateways' own networks that nobody has: neighbours are asked for, and no gateway answers in their place.
    ping(&world, &world.client, "-c 1 -W 1 10.1.0.77");
    ping(&world, &world.server, "-c 1 -W 1 fd00:3::77");

    for ((ns, gateway, net), watch) in watched.into_iter().zip(watches) {
        let (host, gateway) = (mac(&world, ns, "eth0"), mac(&world, gateway, "lan0"));
        let frames = watch.frames();
        let said: Vec<&Vec<u8>> = frames.iter().filter(|frame| frame.len() >= 14 && frame[6..12] == *gateway).collect();
        assert!(said.len() > 8, "{} of {} frames are the gateway's", said.len(), frames.len());
        let wrong: Vec<String> = said.iter().filter_map(|frame| wrong(frame, &host, net)).collect();
        assert!(wrong.is_empty(), "network {net}: {wrong:?}");
        let passed = said.iter().filter(|frame| is_unlisted(frame)).count();
        assert!(net == 1 || passed == 0, "{passed} packets for an unlisted network were forwarded");
    }
}
