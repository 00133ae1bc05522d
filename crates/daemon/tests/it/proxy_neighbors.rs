//! A split proxy beside the router, to which both of a link's ends are led by what it says of addresses: client, proxy (a) and router (b) on one
//! switch, behind b the server.

use crate::common::placement::{Servers, datagram};
use crate::common::*;
use crate::proxy::{count, open, report, spawn};
use std::io::{ErrorKind, Read};
use std::process::Command;
use wavelane_host::netns::{ChildEnd, Netns};

/// Asks for many addresses as one host after the other, faster than anybody should answer: device, own address, router's.
const STORM: &str = r#"
import socket, sys
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
one.bind((sys.argv[1], 0x0806))
mac = one.getsockname()[4]
own, router = map(socket.inet_aton, sys.argv[2:4])
for n in range(5000):
    head = b"\xff" * 6 + mac + bytes.fromhex("0806000108000604")
    one.send(head + b"\0\1" + mac + own + bytes(6) + router)
    # Of others' addresses, and of none.
    one.send(head + b"\0\2" + mac + bytes([10, 1, 1 + (n >> 8), n & 255]) + mac + own)
    one.send(head[:-4] + bytes([n & 255, n >> 8]) * 2 + bytes(n % 30))
"#;

/// Answers the proxy in the router's name, all the time, first and last: device, proxy's address, router's, the link address of the proxy.
const FORGER: &str = r#"
import socket, sys, time
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
one.bind((sys.argv[1], 0x0806))
mac, to = bytes.fromhex("020000000099"), bytes.fromhex(sys.argv[4].replace(":", ""))
own, router = map(socket.inet_aton, sys.argv[2:4])
for n in range(30000):
    one.send(to + mac + bytes.fromhex("08060001080006040002") + mac + router + to + own)
    time.sleep(0.005)
"#;

/// Puts client, proxy and router on one switch; an unlisted host is there, too.
pub(crate) fn switch(world: &World) -> Netns {
    let switch = Netns::new(&format!("wl{}-arp-switch", std::process::id())).unwrap();
    world.sh(
        &switch,
        "ip link set lo up; ip link add br0 type bridge; ip link set br0 up; ip address add 10.1.0.9/24 dev br0",
    );
    world.sh(&world.client, "ip link del eth0");
    world.sh(&world.a, "ip link del wan0");
    for (ns, name, host) in [(&world.client, "eth0", 2), (&world.a, "lan0", 1), (&world.b, "lan1", 254)] {
        let port = format!("p{host}");
        world.sh(
            ns,
            &format!(
                "ip link add {name} type veth peer name {port} netns {}; ip address add 10.1.0.{host}/24 dev {name}; \
                 ip address add fd00:1::{host}/64 dev {name} nodad; ip link set {name} up",
                switch.path().display()
            ),
        );
        world.sh(&switch, &format!("ip link set {port} master br0 up"));
        if host != 254 {
            world.sh(ns, "ip route replace default via 10.1.0.254; ip -6 route replace default via fd00:1::254");
        }
    }
    world.sh(&world.b, "ip route flush 10.1.0.0/24 via 10.2.0.1 2>/dev/null || true");
    switch
}

/// Starts a proxy that claims addresses there.
pub(crate) fn start(world: &World, engine: &str) -> Daemon {
    let text = format!(
        "[proxy]\nengine = \"{engine}\"\nplacement = \"arp\"\ninterfaces = [\"lan0\"]\nrouters = [\"10.1.0.254\", \"fd00:1::254\"]\n\
         clients = [\"10.1.0.2/32\", \"fd00:1::2/128\"]\ncontrol = \"{}\"\n",
        world.dir.join("proxy.sock").display()
    );
    std::fs::write(world.dir.join("proxy.toml"), text).unwrap();
    let proxy = spawn(world);
    wait_for("client and router to be known", || {
        let seen = report(&proxy);
        seen.claims.first().is_some_and(|claims| (claims.clients, claims.routers) == (2, 2))
    });
    proxy
}

/// The link address of a device.
pub(crate) fn mac(world: &World, ns: &Netns, device: &str) -> String {
    world.sh(ns, &format!("ip -br link show {device}")).split_ascii_whitespace().nth(2).unwrap().to_owned()
}

/// Whether a host has that link address for another's address.
pub(crate) fn believes(world: &World, ns: &Netns, address: &str, mac: &str) -> bool {
    world.sh(ns, &format!("ip neigh show {address}")).contains(mac)
}

#[test]
fn hosts_of_a_link_are_led_here_and_told_the_truth_at_the_end() {
    let _alone = alone();
    if !root_or_skip("proxy_neighbors") {
        return;
    }
    let world = World::new("arp");
    let switch = switch(&world);
    let servers = Servers::start(&world);
    // All know each other before.
    for at in ["10.3.0.2:7", "[fd00:3::2]:7"] {
        wait_for("the way without a proxy", || {
            world.connect(&world.client, at).is_ok_and(|mut stream| says(&mut stream).is_ok())
        });
    }
    world.sh(&switch, "ping -c 1 -W 60 10.1.0.254");
    let [proxy_mac, router_mac, client_mac] =
        [(&world.a, "lan0"), (&world.b, "lan1"), (&world.client, "eth0")].map(|(ns, device)| mac(&world, ns, device));
    let led = |mac: [&str; 2]| {
        let routers = ["10.1.0.254", "fd00:1::254"].iter().all(|at| believes(&world, &world.client, at, mac[0]));
        routers && ["10.1.0.2", "fd00:1::2"].iter().all(|at| believes(&world, &world.b, at, mac[1]))
    };
    assert!(led([&router_mac, &client_mac]));
    let before = world.traces(&world.a);
    for engine in ["kernel", "userspace"] {
        let mut proxy = start(&world, engine);
        wait_for("both ends to be led here", || led([&proxy_mac, &proxy_mac]));
        for (at, host) in [("10.3.0.2", "10.1.0.2"), ("[fd00:3::2]", "fd00:1::2")] {
            let taken = count(&proxy, "connections_taken");
            assert_eq!(servers.there_and_back(&world, at), host);
            assert_eq!(count(&proxy, "connections_taken"), taken + 1, "{}", report(&proxy));
        }
        assert_eq!(datagram(&world.client, 1), Some(1));
        let seen = report(&proxy);
        assert_eq!((seen.placement.as_str(), seen.hindrances.len()), ("arp", 0), "{seen}");
        assert_eq!((seen.claims[0].clients, seen.claims[0].routers), (2, 2), "{seen}");
        // Who is not listed is told nothing.
        assert!(believes(&world, &switch, "10.1.0.254", &router_mac));
        // Whose cache is empty asks, and the router answers, too: the last word is ours.
        world.sh(&world.client, "ip neigh flush dev eth0; ping -c 1 -W 60 10.3.0.2; ping -c 1 -W 60 fd00:3::2");
        wait_for("the client to be led here again", || led([&proxy_mac, &proxy_mac]));
        std::fs::write(world.dir.join("storm.py"), STORM).unwrap();
        world.sh(&world.client, &format!("python3 {}/storm.py eth0 10.1.0.2 10.1.0.254", world.dir.display()));
        wait_for("an end to the answers", || count(&proxy, "dropped_arp_rate") > 0);
        assert!(count(&proxy, "dropped_arp_malformed") > 0, "{}", report(&proxy));
        wait_for("both ends to be led here after the storm", || led([&proxy_mac, &proxy_mac]));
        let taken = count(&proxy, "connections_taken");
        let mut stream = open(&world, &world.client, "10.3.0.2:7");
        assert_eq!(count(&proxy, "connections_taken"), taken + 1, "{}", report(&proxy));
        if engine == "kernel" {
            // Killed, this host forwards plainly what still comes.
            proxy.kill();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            wait_for("what is plain", || {
                world.connect(&world.client, "10.3.0.2:7").is_ok_and(|mut stream| says(&mut stream).is_ok())
            });
            proxy = spawn(&world);
            wait_for("the hosts to be known again", || report(&proxy).claims[0].clients == 2);
            stream = open(&world, &world.client, "10.3.0.2:7");
        }
        assert_eq!(proxy.stop(), Some(0));
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        wait_for("the truth", || led([&router_mac, &client_mac]));
        assert_eq!(world.traces(&world.a), before, "a stop leaves nothing behind");
    }
    // A proxy that is gone with its machine: caches end.
    let _gone = spawn(&world);
    wait_for("both ends to be led here", || led([&proxy_mac, &proxy_mac]));
    for ns in [&world.client, &world.b] {
        world.sh(ns, "for d in eth0 lan1; do sysctl -qw net.ipv4.neigh.$d.base_reachable_time_ms=1000 net.ipv4.neigh.$d.delay_first_probe_time=1 2>/dev/null || true; done");
    }
    world.sh(&world.a, "ip link set lan0 down");
    wait_for("the hosts to ask anew", || {
        world.connect(&world.client, "10.3.0.2:7").is_ok_and(|mut stream| says(&mut stream).is_ok())
    });
}

/// The last words are tried again on a link that is full, and it is said whom they did not reach where it takes nothing.
#[test]
fn the_last_words_reach_their_hosts_on_a_full_link_or_it_is_said_that_they_do_not() {
    let _alone = alone();
    if !root_or_skip("proxy_last_words") {
        return;
    }
    let world = World::new("arplast");
    let _switch = switch(&world);
    // All know each other before.
    wait_for("the way without a proxy", || {
        ["10.1.0.254", "fd00:1::254"]
            .iter()
            .all(|at| world.sh(&world.client, &format!("ping -c 1 -W 5 {at} || true")).contains(" 1 received"))
    });
    let [proxy_mac, router_mac, client_mac] =
        [(&world.a, "lan0"), (&world.b, "lan1"), (&world.client, "eth0")].map(|(ns, device)| mac(&world, ns, device));
    let led = |mac: [&str; 2]| {
        let routers = ["10.1.0.254", "fd00:1::254"].iter().all(|at| believes(&world, &world.client, at, mac[0]));
        routers && ["10.1.0.2", "fd00:1::2"].iter().all(|at| believes(&world, &world.b, at, mac[1]))
    };
    let queue = |limit: u32| format!("tc qdisc replace dev lan0 root tbf rate 64kbit burst 1600 limit {limit}");
    for (limit, reaches) in [(1_600, true), (10, false)] {
        let mut proxy = start(&world, "kernel");
        wait_for("both ends to be led here", || led([&proxy_mac, &proxy_mac]));
        world.sh(&world.a, &queue(limit));
        // Twenty times what the link takes, until the end of the test.
        let mut flood = Command::new("ping");
        flood.args(["-q", "-i", "0.002", "-s", "400", "-w", "120", "10.1.0.2"]).stdout(std::process::Stdio::null());
        let mut flood = world.a.spawn(flood, ChildEnd::Kill).unwrap().unwrap();
        wait_for("a full link", || {
            let said = world.sh(&world.a, "tc -s qdisc show dev lan0");
            said.split("dropped ")
                .nth(1)
                .and_then(|rest| rest.split(',').next()?.parse().ok())
                .is_some_and(|n: u64| n > 20)
        });
        assert_eq!(proxy.stop(), Some(0));
        let unsaid = proxy.log().contains("hosts could not be told who has the addresses");
        assert_eq!(unsaid, !reaches, "{}", proxy.log());
        flood.kill().unwrap();
        flood.wait().unwrap();
        world.sh(&world.a, "tc qdisc del dev lan0 root");
        if reaches {
            wait_for("the truth", || led([&router_mac, &client_mac]));
        }
    }
}

#[test]
fn hosts_follow_a_link_address_that_changes() {
    let _alone = alone();
    if !root_or_skip("proxy_neighbors_address") {
        return;
    }
    let world = World::new("arp-address");
    let switch = switch(&world);
    let mut proxy = start(&world, "userspace");
    for address in ["02:00:00:00:00:aa", "02:00:00:00:00:bb"] {
        world.sh(&world.a, &format!("ip link set lan0 address {address}"));
        wait_for("both ends to be led to the new address", || {
            // Who has not asked yet knows nothing.
            world.sh(&world.client, "ping -c 1 -W 1 10.3.0.2 || true");
            believes(&world, &world.client, "10.1.0.254", address) && believes(&world, &world.b, "10.1.0.2", address)
        });
    }
    // Who answers in the router's name, while it answers itself, is not believed.
    std::fs::write(world.dir.join("forger.py"), FORGER).unwrap();
    let router = mac(&world, &world.b, "lan1");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("exec python3 {}/forger.py br0 10.1.0.1 10.1.0.254 02:00:00:00:00:bb", world.dir.display()),
    ]);
    let mut forger = switch.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    wait_for("what is contested", || count(&proxy, "arp_contested") > 1);
    assert_eq!(proxy.stop(), Some(0));
    assert!(proxy.log().contains("stopped (SIGTERM from process "), "{}", proxy.log());
    wait_for("the truth", || believes(&world, &world.client, "10.1.0.254", &router));
    let _ = forger.kill();
    let _ = forger.wait();
}
