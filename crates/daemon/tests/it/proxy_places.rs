//! A split proxy where it stands otherwise than as the router: on a bridge between the client and its router (b).

use crate::common::placement::{Servers, datagram};
use crate::common::*;
use crate::proxy::{count, open, report, spawn};
use std::io::{ErrorKind, Read, Write};
use std::sync::mpsc::channel;

/// Makes a bridge of what was a router: the client is in the network of the router b, on the other side of it.
pub(crate) fn bridge(world: &World) {
    world.sh(
        &world.a,
        "ip link add br0 type bridge; ip address flush dev lan0; ip address flush dev wan0; ip link set lan0 master br0; ip link set wan0 master br0; \
         ip link set br0 up; ip address add 10.2.0.1/24 dev br0; ip address add fd00:2::1/64 dev br0 nodad; \
         ip route replace 10.3.0.0/24 via 10.2.0.2; ip -6 route flush fd00:3::/64; ip route add fd00:3::/64 via fd00:2::2; \
         for call in iptables ip6tables arptables; do sysctl -qw net.bridge.bridge-nf-call-$call=0 2>/dev/null || true; done",
    );
    world.sh(
        &world.client,
        "ip address flush dev eth0; ip address add 10.2.0.5/24 dev eth0; ip address add fd00:2::5/64 dev eth0 nodad; \
         ip route replace default via 10.2.0.2; ip -6 route replace default via fd00:2::2",
    );
}

/// Starts a proxy on the bridge; `keys` go into `[proxy]`.
pub(crate) fn start(world: &World, keys: &str) -> Daemon {
    let control = world.dir.join("proxy.sock");
    let text = format!(
        "[proxy]\nplacement = \"bridge\"\ninterfaces = [\"br0\"]\ncontrol = \"{}\"\n{keys}\n",
        control.display()
    );
    std::fs::write(world.dir.join("proxy.toml"), text).unwrap();
    spawn(world)
}

/// Sends a first packet of TCP to 10.9.0.2 in a tagged frame: to which address, by which kind of tag (IEEE 802.1Q), in hex. Its source port is that
/// kind's number.
const TAGGED: &str = r#"
import socket, struct, sys
to, kind = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2], 16)
one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
one.bind(("eth0", 0))
ends = socket.inet_aton("10.9.0.1") + socket.inet_aton("10.9.0.2")
def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 65535) + (total >> 16)
    return ~total & 65535
def tcp(s):
    return struct.pack("!HHIIBBHHH", kind, 7, 1, 0, 0x50, 2, 65535, s, 0)
def ip(s):
    return struct.pack("!BBHHHBBH", 0x45, 0, 40, 1, 0, 64, 6, s) + ends
segment = tcp(summed(ends + struct.pack("!HH", 6, 20) + tcp(0)))
one.send(to + one.getsockname()[4] + struct.pack("!HHH", kind, 5, 0x0800) + ip(summed(ip(0))) + segment)
"#;

/// Writes the source ports of first packets to 10.9.0.2 into a file, in hex; the kernel took the tag off.
const HEARD: &str = r#"
import socket, sys
one = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
one.bind(("wan0", 3))
while True:
    packet = one.recv(65536)
    at = packet.find(socket.inet_aton("10.9.0.2"))
    if at >= 0:
        with open(sys.argv[1], "a") as file:
            print(packet[at + 4:at + 6].hex(), file=file)
"#;

#[test]
fn a_bridge_splits_what_passes_over_it_and_is_plain_without_the_process() {
    let _alone = alone();
    if !root_or_skip("proxy_bridge") {
        return;
    }
    let world = World::new("bridge");
    bridge(&world);
    let servers = Servers::start(&world);
    world.serve(22, echo);
    let before = world.traces(&world.a);
    let mut proxy = start(&world, "exempt = [\"port 22\"]");
    for (at, host) in [("10.3.0.2", "10.2.0.5"), ("[fd00:3::2]", "fd00:2::5")] {
        let taken = count(&proxy, "connections_taken");
        assert_eq!(servers.there_and_back(&world, at), host);
        assert_eq!(count(&proxy, "connections_taken"), taken + 1, "{}", report(&proxy));
        // What is exempt, and what is no TCP, stays on the bridge.
        says(&mut open(&world, &world.client, &format!("{at}:22"))).unwrap();
        assert_eq!(count(&proxy, "connections_taken"), taken + 1, "{}", report(&proxy));
    }
    // So does a VLAN, whose addresses are none of the bridge's.
    for (name, text) in [("heard.py", HEARD), ("tagged.py", TAGGED)] {
        std::fs::write(world.dir.join(name), text).unwrap();
    }
    let listed = world.sh(&world.b, "ip -br link show wan0");
    let to = listed.split_ascii_whitespace().nth(2).unwrap().to_owned();
    let script = format!("exec python3 {0}/heard.py {0}/heard", world.dir.display());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let mut hears = world.b.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    for kind in ["8100", "88a8"] {
        wait_for("a tagged frame to cross", || {
            world.sh(&world.client, &format!("python3 {}/tagged.py {to} {kind}", world.dir.display()));
            std::fs::read_to_string(world.dir.join("heard")).is_ok_and(|heard| heard.contains(kind))
        });
    }
    let _ = hears.kill();
    let _ = hears.wait();
    assert_eq!(datagram(&world.client, 1), Some(1));
    assert_eq!(
        (report(&proxy).placement.as_str(), report(&proxy).hindrances.len()),
        ("bridge", 0),
        "{}",
        report(&proxy)
    );
    // The bridge has another address, and another port: the rules follow.
    world.sh(&world.a, "ip link set br0 address 02:00:00:00:00:77; ip link set wan0 nomaster");
    wait_for("the rules to follow", || {
        let table = world.sh(&world.a, "nft list table bridge wavelane");
        table.contains("02:00:00:00:00:77") && !table.contains("wan0")
    });
    world.sh(&world.a, "ip link set wan0 master br0; ip route replace 10.3.0.0/24 via 10.2.0.2");
    wait_for("the port to be known", || world.sh(&world.a, "nft list table bridge wavelane").contains("wan0"));
    // A port with a name that no rule can hold is left out, and told of.
    world.sh(&world.a, "ip link add 'p\"1' type veth peer name p2; ip link set 'p\"1' master br0");
    proxy.wait_log("no nft rule can hold that name");
    let mut stream = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!(report(&proxy).connections, 1, "{}", report(&proxy));
    proxy.kill();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    wait_for("a plain bridge", || {
        world.connect(&world.client, "10.3.0.2:7").is_ok_and(|mut stream| says(&mut stream).is_ok())
    });
    // They go with the process that held them, a moment later.
    wait_for("the rules to go", || !world.sh(&world.a, "nft list tables").contains("bridge wavelane"));
    let mut again = spawn(&world);
    let _stream = open(&world, &world.client, "10.3.0.2:7");
    assert_eq!(count(&again, "connections_taken"), 1);
    assert_eq!(again.stop(), Some(0));
    world.sh(&world.a, "sysctl -qw net.ipv4.ip_forward=0");
    says(&mut open(&world, &world.client, "10.3.0.2:7")).unwrap();
    world.sh(&world.a, "sysctl -qw net.ipv4.ip_forward=1; ip link set br0 address 02:00:00:00:00:78");
    assert!(before.contains("br0") && !world.sh(&world.a, "nft list ruleset").contains("wavelane"));
}

/// Connects to an address of the proxy with an IP option, 158, of these octets in hex; says what came back for what was sent, or which error.
const BY_OPTION: &str = r#"
import errno, socket, sys
via, port, option = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
one = socket.socket()
one.settimeout(60)
try:
    if option:
        one.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, option + bytes(-len(option) % 4))
    one.connect((via, port))
    one.sendall(b"ask")
    one.shutdown(socket.SHUT_WR)
    got = b""
    while part := one.recv(65536):
        got += part
    print(len(got), got[:20].decode())
except OSError as e:
    print(errno.errorcode.get(e.errno, str(e)))
"#;

/// A program that knows of the option leads others to the proxy: what connects to its port 8080 goes on with it.
const FORWARDER: &str = r#"
import socket, sys, threading
via, port, option = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
door = socket.create_server(("127.0.0.1", 8080))
def pump(a, b):
    try:
        while part := a.recv(65536):
            b.sendall(part)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    near, _ = door.accept()
    far = socket.socket()
    far.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, option + bytes(-len(option) % 4))
    far.connect((via, port))
    threading.Thread(target=pump, args=(near, far), daemon=True).start()
    threading.Thread(target=pump, args=(far, near), daemon=True).start()
"#;

/// Starts a proxy whose clients name these targets in options; `keys` go into `[proxy]`.
pub(crate) fn start_option(world: &World, targets: &str, keys: &str) -> Daemon {
    let control = world.dir.join("proxy.sock");
    let text = format!(
        "[proxy]\nplacement = \"option\"\ninterfaces = [\"lan0\"]\ntargets = {targets}\ncontrol = \"{}\"\n{keys}\n",
        control.display()
    );
    std::fs::write(world.dir.join("proxy.toml"), text).unwrap();
    spawn(world)
}

#[test]
fn an_option_names_the_server_of_a_connection_to_the_proxy() {
    let _alone = alone();
    if !root_or_skip("proxy_option") {
        return;
    }
    let world = World::new("option");
    let (tell, told) = channel();
    world.serve(80, move |mut stream, from| {
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        stream.write_all(b"the server, ").unwrap();
        stream.write_all(&got).unwrap();
        tell.send(from.ip().to_string()).unwrap();
    });
    // A program on the proxy's own port, for those who name nobody.
    for port in [80, 22] {
        let own = world.a.run(move || std::net::TcpListener::bind(("10.1.0.1", port)).unwrap()).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = own.accept() {
                let _ = stream.write_all(b"a program here");
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
    }
    let before = world.traces(&world.a);
    let targets = "[\"10.3.0.0/24\", \"10.1.0.0/24\", \"127.0.0.0/8\"]";
    let mut proxy = start_option(&world, targets, "exempt = [\"port 22\"]");
    std::fs::write(world.dir.join("option.py"), BY_OPTION).unwrap();
    std::fs::write(world.dir.join("forwarder.py"), FORWARDER).unwrap();
    let ask = |port: u16, option: &str| {
        let script = format!("python3 {}/option.py 10.1.0.1 {port} '{option}'", world.dir.display());
        world.sh(&world.client, &script).trim().to_owned()
    };
    assert_eq!(ask(80, "9e060a030002"), "15 the server, ask", "{}", report(&proxy));
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "10.2.0.1", "from the proxy's own address");
    assert_eq!(count(&proxy, "connections_taken"), 1);
    assert_eq!(ask(81, "9e060a030002"), "ECONNREFUSED", "a port where nobody listens");
    assert_eq!(ask(80, ""), "14 a program here");
    // Where a connection may not be led: this very host, by any of its addresses, other networks; and options that name nobody.
    let denied = count(&proxy, "dropped_target_denied");
    for option in ["9e060a010001", "9e060a020001", "9e067f000001", "9e060a020002", "9e06e0000001", "9e0600000000"] {
        assert_eq!(ask(80, option), "EHOSTUNREACH", "{option}");
    }
    assert!(count(&proxy, "dropped_target_denied") >= denied + 6, "{}", report(&proxy));
    let answered = count(&proxy, "connections_taken");
    world.sh(&world.a, "ip route add local 10.3.0.77/32 dev lo");
    for port in [80, 81] {
        assert_eq!(ask(port, "9e060a03004d"), "EHOSTUNREACH", "an address of this host's by a route alone");
    }
    world.sh(&world.a, "ip route del local 10.3.0.77/32 dev lo");
    assert_eq!(count(&proxy, "connections_taken"), answered, "{}", report(&proxy));
    // An exempt port of a server is no way to this host's own.
    assert_eq!((ask(22, "9e060a030002").as_str(), ask(22, "").as_str()), ("EHOSTUNREACH", "14 a program here"));
    for option in ["9e050a0300", "9e080a0300020050", "0107030405060708", "9e020000"] {
        let got = ask(80, option);
        assert!(["14 a program here", "EINVAL", "ECONNREFUSED"].contains(&got.as_str()), "{option}: {got}");
    }
    assert_eq!(count(&proxy, "connections_taken"), 1, "{}", report(&proxy));
    // What a program that is told to forward carries for others.
    let script = format!("exec python3 {}/forwarder.py 10.1.0.1 80 9e060a030002", world.dir.display());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]);
    let mut forwarder = world.client.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    wait_for("the forwarder", || world.sh(&world.client, "ss -ltn").contains(":8080 "));
    let mut stream = world.connect(&world.client, "127.0.0.1:8080").unwrap();
    stream.write_all(&pattern(300_000, 2)).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got.len() == 300_012 && got[12..] == pattern(300_000, 2), "{} bytes", got.len());
    let _ = forwarder.kill();
    let _ = forwarder.wait();
    assert_eq!(count(&proxy, "connections_taken"), 2, "{}", report(&proxy));
    assert_eq!(proxy.stop(), Some(0));
    assert_eq!(world.traces(&world.a), before, "a stop leaves nothing behind");
}
