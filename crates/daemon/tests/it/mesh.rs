//! Gateways in a diamond, a - {b, c} - d: the kernel's routing table says which way flows take, whoever writes it.

use crate::common::{
    Daemon, KeyPair, PATIENCE, alone, daemon_command, echo, folder, key_pair, pattern, pause, root_or_skip, wait_for,
    write_config,
};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;
use wavelane_host::netns::{ChildEnd, Netns};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
/// Cables: node, node; the first has .1 and the second .2 of 10.0.n.0/24.
const CABLES: [[usize; 2]; 4] = [[A, B], [A, C], [B, D], [C, D]];
const SERVER: &str = "10.9.4.9:7";
/// One slice of the client's stream, and how often one goes.
const SLICE: usize = 100_000;
const EVERY: Duration = Duration::from_millis(20);

struct Diamond {
    dir: PathBuf,
    spaces: [Netns; 4],
    keys: [KeyPair; 4],
}

fn sh(ns: &Netns, script: &str) -> String {
    let script = format!("set -e\n{script}");
    let out = ns.run(move || Command::new("sh").arg("-c").arg(script).output().unwrap()).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The address of `node` on the cable to `other`, and the interface.
fn end(node: usize, other: usize) -> (String, String) {
    let cable = CABLES.iter().position(|[x, y]| [*x, *y] == [node, other] || [*y, *x] == [node, other]).unwrap();
    let side = if CABLES[cable][0] == node { 1 } else { 2 };
    (format!("10.0.{cable}.{side}"), format!("to-{}", NAMES[other]))
}

fn neighbours(node: usize) -> [usize; 2] {
    if node == A || node == D { [B, C] } else { [A, D] }
}

impl Diamond {
    fn new(tag: &str) -> Self {
        let make = |n: &str| Netns::new(&format!("wl{}-{tag}-{n}", std::process::id())).unwrap();
        let world = Self { dir: folder(tag), spaces: NAMES.map(make), keys: NAMES.map(|_| key_pair()) };
        for ns in &world.spaces {
            sh(
                ns,
                "ip link set lo up; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
                 net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0",
            );
        }
        for [x, y] in CABLES {
            let ((ax, dx), (ay, dy)) = (end(x, y), end(y, x));
            let peer = world.spaces[y].path().display().to_string();
            sh(
                &world.spaces[x],
                &format!(
                    "ip link add {dx} type veth peer name {dy} netns {peer}; ip addr add {ax}/24 dev {dx}; ip link set {dx} up"
                ),
            );
            sh(&world.spaces[y], &format!("ip addr add {ay}/24 dev {dy}; ip link set {dy} up"));
        }
        sh(&world.spaces[D], "ip addr add 10.9.4.9/32 dev lo");
        let listener = world.spaces[D].run(|| TcpListener::bind(SERVER).unwrap()).unwrap();
        std::thread::spawn(move || {
            while let Ok((stream, from)) = listener.accept() {
                std::thread::spawn(move || echo(stream, from));
            }
        });
        world
    }

    fn route(&self, node: usize, next: usize) {
        let (via, _) = end(next, node);
        sh(&self.spaces[node], &format!("ip route replace 10.9.0.0/16 via {via}"));
    }

    /// Every node the same: the peers are named, and the kernel decides.
    fn start(&self, node: usize) -> Daemon {
        let mut rest = String::new();
        for other in neighbours(node) {
            let (address, key) = (end(other, node).0, &self.keys[other].public);
            rest += &format!(
                "[[peer]]\nname = \"{}\"\npublic_key = \"{key}\"\naddress = \"{address}:4780\"\nkeepalive = \"1 s\"\n\
                 routes = [\"10.9.0.0/16\"]\nallow_targets = [\"10.9.0.0/16\", \"10.9.4.9/32\"]\n",
                NAMES[other]
            );
        }
        if node == A {
            rest += "[intercept]\nlocal = true\n";
        }
        let config = write_config(&self.dir, NAMES[node], &self.keys[node], "routing = \"kernel\"", &rest);
        let (command, log, control) = daemon_command(&config);
        let child = self.spaces[node].spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("listens on UDP");
        daemon
    }

    fn start_all(&self) -> [Daemon; 4] {
        let daemons = [A, B, C, D].map(|node| self.start(node));
        for (node, daemon) in daemons.iter().enumerate() {
            neighbours(node).into_iter().for_each(|other| daemon.wait_log(&format!("peer '{}' is up", NAMES[other])));
        }
        daemons
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let server: SocketAddr = SERVER.parse().unwrap();
        let stream = self.spaces[A].run(move || TcpStream::connect_timeout(&server, PATIENCE)).unwrap()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Ok(stream)
    }
}

impl Drop for Diamond {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// What an application sends to the echo server and hears back, while the test goes on.
fn exchange(stream: TcpStream, size: usize) -> JoinHandle<()> {
    let mut back = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut heard = Vec::new();
        back.read_to_end(&mut heard).map(|_| heard)
    });
    std::thread::spawn(move || {
        let data = pattern(size, 9);
        let mut stream = stream;
        for slice in data.chunks(SLICE) {
            stream.write_all(slice).unwrap();
            pause(EVERY);
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let heard = reader.join().unwrap().unwrap();
        assert!(heard == data, "{} of {} bytes came back", heard.len(), data.len());
    })
}

#[test]
fn a_route_replaced_in_mid_flow_moves_it() {
    let _alone = alone();
    if !root_or_skip("a_route_replaced_in_mid_flow_moves_it") {
        return;
    }
    let world = Diamond::new("static");
    world.route(A, B);
    world.route(B, D);
    world.route(C, D);
    let [a, b, c, d] = world.start_all();
    let talk = exchange(world.connect().unwrap(), 10_000_000);
    wait_for("bytes by b", || b.counter("relayed_octets") > 500_000);
    assert_eq!(c.counter("flows_relayed"), 0);
    world.route(A, C);
    wait_for("bytes by c", || c.counter("relayed_octets") > 500_000);
    talk.join().unwrap();
    assert_eq!((a.counter("flows_moved"), a.counter("routing_changes")), (1, 1));
    assert_eq!(d.counter("connections_made"), 1, "the server saw one connection");
    let routing = a.status().routing.unwrap();
    assert_eq!((routing.table, routing.routes, routing.to_peers), (254, 1, 1));

    // A route to nowhere, or none: what begins is told at once.
    for change in ["ip route replace unreachable 10.9.4.0/24", "ip route del 10.9.4.0/24; ip route del 10.9.0.0/16"] {
        let before = a.counter("routing_changes");
        sh(&world.spaces[A], change);
        wait_for("the change to be read", || a.counter("routing_changes") > before);
        let why = world.connect().unwrap_err().kind();
        assert!([ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable].contains(&why), "{change}: {why}");
    }
}

/// Where a route vanishes under a flow the flow waits for the next, and goes on at once when it comes.
#[test]
fn a_flow_waits_for_its_routes_return() {
    let _alone = alone();
    if !root_or_skip("a_flow_waits_for_its_routes_return") {
        return;
    }
    let world = Diamond::new("wait");
    world.route(A, B);
    world.route(B, D);
    world.route(C, D);
    let [a, b, _c, d] = world.start_all();
    let talk = exchange(world.connect().unwrap(), 5_000_000);
    wait_for("bytes by b", || b.counter("relayed_octets") > 500_000);
    sh(&world.spaces[B], "ip route del 10.9.0.0/16");
    wait_for("the flow to lose its way", || a.status().flows_lost_way == 1);
    let before = a.counter("flows_resumed");
    world.route(A, C);
    wait_for("the flow to be taken up again", || a.status().flows_lost_way == 0);
    talk.join().unwrap();
    assert!(a.counter("flows_resumed") > before);
    assert_eq!(d.counter("connections_made"), 1);
}

/// A routing daemon; killed with its test.
struct Babel(Child);

impl Drop for Babel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn babel(world: &Diamond, node: usize) -> Babel {
    let mut command = Command::new("babeld");
    let file = |kind: &str| world.dir.join(format!("{}.babel-{kind}", NAMES[node]));
    command.arg("-I").arg(file("pid")).arg("-S").arg(file("state")).arg("-L").arg(file("log"));
    // A neighbour that misses two of these is gone.
    command.args(["-C", "default type wired hello-interval 0.5 update-interval 2"]);
    command.args(neighbours(node).map(|other| end(node, other).1));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Babel(world.spaces[node].spawn(command, ChildEnd::Kill).unwrap().unwrap())
}

/// The first node on the way from a, by the kernel's table.
fn first(world: &Diamond) -> Option<usize> {
    let route = sh(&world.spaces[A], "ip route show 10.9.4.9");
    [B, C].into_iter().find(|node| route.contains(&format!("via {} ", end(*node, A).0)))
}

#[test]
fn babeld_moves_a_flow_over_when_a_node_dies() {
    let _alone = alone();
    if !root_or_skip("babeld_moves_a_flow_over_when_a_node_dies") {
        return;
    }
    if Command::new("babeld").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return eprintln!(
            "SKIPPED (1 test): babeld_moves_a_flow_over_when_a_node_dies needs babeld: apt-get install babeld"
        );
    }
    let world = Diamond::new("babel");
    let mut babels: Vec<Babel> = [A, B, C, D].map(|node| babel(&world, node)).into();
    wait_for("babeld to find a way", || first(&world).is_some());
    let mut daemons = world.start_all();
    wait_for("the relays to know it", || [B, C].iter().all(|n| daemons[*n].status().routing.unwrap().to_peers > 0));
    let talk = exchange(world.connect().unwrap(), 30_000_000);
    // Both ways cost the same, so babeld may change its mind until it has heard all.
    let mut carries = None;
    wait_for("bytes by the way that babeld names", || {
        carries = first(&world).filter(|node| daemons[*node].counter("relayed_octets") > 500_000);
        carries.is_some()
    });
    let dead = carries.unwrap();
    let other = if dead == B { C } else { B };

    // It dies: nothing of it runs, and its kernel says nothing more.
    daemons[dead].kill();
    drop(babels.swap_remove(dead));
    sh(
        &world.spaces[dead],
        "nft add table inet dead; for hook in input output forward; do \
         nft add chain inet dead $hook \"{ type filter hook $hook priority 0; policy drop; }\"; done",
    );
    wait_for("babeld to name the other way", || first(&world) == Some(other));
    wait_for("bytes by the other way", || daemons[other].counter("relayed_octets") > 500_000);
    talk.join().unwrap();
    assert!(daemons[A].counter("flows_moved") + daemons[A].counter("flows_resumed") > 0);
    assert_eq!(daemons[D].counter("connections_made"), 1, "the server saw one connection");
}
