//! A split proxy to which another host sends its packets within packets (RFC 2003): client and tunnel - proxy (a) - router (b) - server.

use crate::common::placement::{Servers, datagram};
use crate::common::*;
use crate::proxy::{count, open, report, spawn};
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command};
use wavelane_host::netns::{ChildEnd, Netns};

/// The other end of a tunnel: own address, the proxy's, the address within. The kernel writes the outer headers.
const END: &str = r#"
import fcntl, os, select, socket, struct, subprocess, sys
own, peer, inner = sys.argv[1:4]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454ca, struct.pack("16sH22x", b"ipip0", 0x1001))
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 4)
raw.bind((own, 0))
raw.setsockopt(socket.IPPROTO_IP, 10, 0)
for line in [f"address add {inner}/32 dev ipip0", "link set ipip0 mtu 1480 up", f"route add 10.3.0.0/24 dev ipip0 src {inner}"]:
    subprocess.run(["ip"] + line.split(), check=True)
while True:
    ready, _, _ = select.select([tun, raw], [], [])
    if tun in ready:
        packet = os.read(tun, 65536)
        # What the kernel says to IPv6's groups on every device stays here.
        if packet[0] >> 4 == 4:
            raw.sendto(packet, (peer, 0))
    if raw in ready:
        packet = raw.recv(65536)
        os.write(tun, packet[(packet[0] & 15) * 4:])
"#;

/// Sends what no other end of a tunnel should: each line of a file is a packet in hex, whose outer checksum the kernel writes.
const HOSTILE: &str = r#"
import socket, sys
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for line in open(sys.argv[1]):
    raw.sendto(bytes.fromhex(line), ("10.1.0.1", 0))
"#;

/// Starts a program in a namespace.
fn launch(world: &World, ns: &Netns, line: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("cd {}; exec {line}", world.dir.display())]);
    ns.spawn(command, ChildEnd::Kill).unwrap().unwrap()
}

/// Starts the other end, in the client's namespace, whose packets go to the server through it from then on.
pub(crate) fn other_end(world: &World) -> Child {
    world.sh(&world.b, "ip route add 10.9.0.0/24 via 10.2.0.1");
    std::fs::write(world.dir.join("end.py"), END).unwrap();
    let end = launch(world, &world.client, "python3 end.py 10.1.0.2 10.1.0.1 10.9.0.2");
    wait_for("the other end", || world.sh(&world.client, "ip route").contains("10.3.0.0/24 dev ipip0"));
    end
}

/// Starts a proxy that has a tunnel with it.
pub(crate) fn start(world: &World, engine: &str) -> Daemon {
    let text = format!(
        "[proxy]\nengine = \"{engine}\"\nplacement = \"tunnel\"\ninterfaces = [\"lan0\"]\ncontrol = \"{}\"\n\
         [[proxy.tunnel]]\npeer = \"10.1.0.2\"\nnetworks = [\"10.9.0.0/24\"]\n",
        world.dir.join("proxy.sock").display()
    );
    std::fs::write(world.dir.join("proxy.toml"), text).unwrap();
    spawn(world)
}

fn ended(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// An IPv4 header in front of a payload: what stands in its first octet, its protocol, its ends.
fn packet(first: u8, protocol: u8, [source, target]: [[u8; 4]; 2], payload: &[u8]) -> Vec<u8> {
    let words = usize::from(first & 15);
    let total = ((words * 4 + payload.len()) as u16).to_be_bytes();
    let mut packet = vec![first, 0, total[0], total[1], 0, 1, 0, 0, 64, protocol, 0, 0];
    packet.extend(source);
    packet.extend(target);
    packet.resize((words * 4).max(20), 1);
    let sum = wavelane_wire::ip::checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

#[test]
fn packets_of_a_tunnel_are_split_and_what_is_none_is_refused() {
    let _alone = alone();
    if !root_or_skip("proxy_tunnel") {
        return;
    }
    let world = World::new("iptunnel");
    let servers = Servers::start(&world);
    // As a network card does.
    let _ = world.client.run(|| wavelane_host::packet::set_offload("eth0", wavelane_host::packet::Offload::Gro, true));
    let _ = world.a.run(|| wavelane_host::packet::set_offload("lan0", wavelane_host::packet::Offload::Gro, true));
    let end = other_end(&world);
    std::fs::write(world.dir.join("hostile.py"), HOSTILE).unwrap();
    let before = world.traces(&world.a);
    for engine in ["kernel", "userspace"] {
        let mut proxy = start(&world, engine);
        let capture = launch(&world, &world.a, &format!("tcpdump -q -U -i lan0 -w {engine}.pcap ip proto 4"));
        let file = world.dir.join(format!("{engine}.pcap"));
        wait_for("the capture", || std::fs::metadata(&file).is_ok_and(|file| file.len() >= 24));
        assert_eq!(servers.there_and_back(&world, "10.3.0.2"), "10.9.0.2");
        assert_eq!(count(&proxy, "connections_taken"), 1, "{}", report(&proxy));
        // Other protocols pass, in fragments too.
        for octets in [1, 4_000] {
            assert_eq!(datagram(&world.client, octets), Some(octets));
        }
        ended(capture);
        if Command::new("tshark").arg("--version").output().is_err() {
            eprintln!("SKIPPED (not installed): tshark, for what a tunnel looks like");
        } else {
            let seen = |filter: &str| {
                let line = format!(
                    "cd {}; tshark -r {engine}.pcap -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -Y '{filter}' 2>/dev/null",
                    world.dir.display()
                );
                world.sh(&world.a, &line)
            };
            // Of a sum of zero the kernel writes the other zero, in UDP's manner (skb_checksum_help), which is as right and not known to it.
            let wrong = seen("ip.checksum.status == 0 || tcp.checksum.status == 0 && tcp.checksum != 0xffff");
            assert_eq!(wrong, "", "{engine}");
            for ends in ["ip.src == 10.1.0.2 && ip.dst == 10.1.0.1", "ip.src == 10.1.0.1 && ip.dst == 10.1.0.2"] {
                assert!(seen(&format!("{ends} && ip.proto == 4 && tcp")).lines().count() > 100);
            }
            let back = seen("ip.src == 10.1.0.1 && ip.src == 10.3.0.2 && ip.flags.df == 1 && ip.ttl == 64 && tcp");
            assert!(back.lines().count() > 100);
        }
        let (ours, theirs, inner, server) = ([10, 1, 0, 1], [10, 1, 0, 2], [10, 9, 0, 2], [10, 3, 0, 2]);
        let udp = packet(0x45, 17, [inner, server], &[0, 9, 0, 9, 0, 9, 0, 0, 1]);
        let tunnel = |peer, payload: &[u8]| packet(0x45, 4, [peer, ours], payload);
        let stranger = tunnel([10, 1, 0, 77], &udp);
        let source = tunnel(theirs, &packet(0x45, 17, [[10, 3, 0, 9], server], &udp[20..]));
        let own_source = tunnel(theirs, &packet(0x45, 17, [ours, server], &udp[20..]));
        let nested = tunnel(theirs, &packet(0x45, 4, [inner, ours], &udp));
        let six = tunnel(theirs, &packet(0x45, 41, [inner, ours], &udp));
        let with_options = tunnel(theirs, &packet(0x4f, 17, [inner, server], &udp[20..]));
        let cut: Vec<Vec<u8>> = (0..udp.len()).map(|len| tunnel(theirs, &udp[..len])).collect();
        let wanted = [
            ("dropped_tunnel_stranger", 1),
            ("dropped_tunnel_source", 2),
            ("dropped_tunnel_nested", 2),
            ("dropped_tunnel_malformed", cut.len() as u64),
        ];
        let all = [stranger, source, own_source, nested, six, with_options].into_iter().chain(cut);
        let hex = |packet: Vec<u8>| packet.iter().map(|octet| format!("{octet:02x}")).collect::<String>() + "\n";
        std::fs::write(world.dir.join("hostile"), all.map(hex).collect::<String>()).unwrap();
        world.sh(&world.client, &format!("cd {}; python3 hostile.py hostile", world.dir.display()));
        wait_for("refusals", || wanted.iter().all(|(name, n)| count(&proxy, name) >= *n));
        assert!(wanted.iter().all(|(name, n)| count(&proxy, name) == *n), "{}", report(&proxy));
        // A way that takes less: the routes follow, and what was open goes on.
        let mut stream = open(&world, &world.client, "10.3.0.2:7");
        world.sh(&world.a, "ip route add 10.1.0.2 dev lan0 mtu 1400");
        wait_for("the routes to follow", || report(&proxy).tunnels[0].mtu == 1_380);
        assert!(world.sh(&world.a, "ip route").contains("10.9.0.0/24 dev wavelane-tunnel"));
        // What another program takes away is put back.
        let route = || world.sh(&world.a, "ip -o route show 10.9.0.0/24");
        for damage in ["ip route del 10.9.0.0/24", "ip link set wavelane-tunnel down; ip link set wavelane-tunnel up"] {
            let (whole, before) = (route(), count(&proxy, "state_put_back"));
            assert!(whole.contains("mtu 1380"), "{whole}");
            world.sh(&world.a, damage);
            wait_for(damage, || count(&proxy, "state_put_back") > before && route() == whole);
        }
        proxy.wait_log("the device wavelane-tunnel, its MTU or the routes into it: another program took them away");
        let mut half = stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || half.write_all(&pattern(300_000, 3)).unwrap());
        let mut got = vec![0; 300_000];
        stream.read_exact(&mut got).unwrap();
        writer.join().unwrap();
        assert!(got == pattern(300_000, 3));
        world.sh(&world.a, "ip route del 10.1.0.2 dev lan0 mtu 1400");
        let seen = report(&proxy);
        assert_eq!((seen.placement.as_str(), seen.hindrances.len()), ("tunnel", 0), "{seen}");
        assert!(seen.tunnels[0].in_packets > 100 && seen.tunnels[0].out_packets > 100, "{seen}");
        // The last words cross the tunnel too.
        assert_eq!(proxy.stop(), Some(0));
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(world.traces(&world.a), before, "a stop leaves nothing behind");
    }
    ended(end);
}
