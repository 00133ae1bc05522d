//! A chain of three gateways, and the middle one is killed.

use crate::common::{
    Daemon, KeyPair, PATIENCE, alone, daemon_command, echo, folder, key_pair, pattern, root_or_skip, write_config,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wavelane_host::netns::{ChildEnd, Netns};

const DOOR: &str = "127.0.0.1:9000";
const SERVER: &str = "10.3.0.9:7";
/// One slice of the client's stream, and how often one goes: 20 MB take 2.5 s.
const SLICE: usize = 160_000;
const EVERY: Duration = Duration::from_millis(20);

struct Chain {
    dir: PathBuf,
    spaces: [Netns; 3],
    keys: [KeyPair; 3],
}

fn sh(ns: &Netns, script: &str) {
    let script = format!("set -e\n{script}");
    let out = ns.run(move || Command::new("sh").arg("-c").arg(script).output().unwrap()).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

impl Chain {
    /// home - hill - town; only neighbours reach each other.
    fn new() -> Self {
        let make = |n: &str| Netns::new(&format!("wl{}-chain-{n}", std::process::id())).unwrap();
        let chain = Self {
            dir: folder("chain"),
            spaces: [make("home"), make("hill"), make("town")],
            keys: [key_pair(), key_pair(), key_pair()],
        };
        for (n, [x, y]) in [[0, 1], [1, 2]].into_iter().enumerate() {
            let peer = chain.spaces[y].path().display().to_string();
            sh(
                &chain.spaces[x],
                &format!(
                    "ip link set lo up; ip link add next type veth peer name back netns {peer}; \
                     ip addr add 192.0.{n}.1/24 dev next; ip link set next up"
                ),
            );
            sh(
                &chain.spaces[y],
                &format!("ip link set lo up; ip addr add 192.0.{n}.2/24 dev back; ip link set back up"),
            );
        }
        sh(&chain.spaces[2], "ip addr add 10.3.0.9/32 dev lo");
        chain
    }

    fn peer(&self, other: usize, address: &str, routes: &str) -> String {
        let name = ["home", "hill", "town"][other];
        let key = &self.keys[other].public;
        format!(
            "[[peer]]\nname = \"{name}\"\npublic_key = \"{key}\"\naddress = \"{address}:4780\"\nroutes = [{routes}]\n"
        )
    }

    fn config(&self, node: usize) -> PathBuf {
        let (name, rest) = match node {
            0 => {
                let forward = format!("[[forward]]\nlisten = \"{DOOR}\"\nto = \"{SERVER}\"\nvia = \"hill\"\n");
                ("home", self.peer(1, "192.0.0.2", "\"10.3.0.0/24\"") + &forward)
            }
            1 => {
                let town = self.peer(2, "192.0.1.2", "\"10.3.0.0/24\"");
                let home = self.peer(0, "192.0.0.1", "\"127.0.0.0/8\"") + "allow_targets = [\"10.3.0.0/24\"]\n";
                ("hill", home + &town)
            }
            _ => ("town", self.peer(1, "192.0.1.1", "") + "allow_targets = [\"10.3.0.9/32\"]\n"),
        };
        write_config(&self.dir, name, &self.keys[node], "", &rest)
    }

    fn start(&self, node: usize, config: &Path) -> Daemon {
        let (command, log, control) = daemon_command(config);
        let child = self.spaces[node].spawn(command, ChildEnd::Kill).unwrap().unwrap();
        let daemon = Daemon { child, log, control, own_folder: None };
        daemon.wait_log("listens on UDP");
        daemon
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_relay_killed_twice_in_mid_transfer_costs_no_byte() {
    let _alone = alone();
    if !root_or_skip("a_relay_killed_twice_in_mid_transfer_costs_no_byte") {
        return;
    }
    let chain = Chain::new();
    let listener = chain.spaces[2].run(|| TcpListener::bind(SERVER).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((stream, from)) = listener.accept() {
            std::thread::spawn(move || echo(stream, from));
        }
    });
    let configs = [chain.config(0), chain.config(1), chain.config(2)];
    let town = chain.start(2, &configs[2]);
    let mut hill = chain.start(1, &configs[1]);
    let home = chain.start(0, &configs[0]);
    home.wait_log("peer 'hill' is up");
    town.wait_log("peer 'hill' is up");

    let door: SocketAddr = DOOR.parse().unwrap();
    let mut stream = chain.spaces[0].run(move || TcpStream::connect_timeout(&door, PATIENCE).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let data = pattern(20_000_000, 7);
    let mut back = stream.try_clone().unwrap();
    let reader = std::thread::spawn(move || {
        let mut heard = Vec::new();
        back.read_to_end(&mut heard).map(|_| heard)
    });
    for (number, slice) in data.chunks(SLICE).enumerate() {
        if number == 20 {
            crate::common::wait_for("the flow at town", || {
                town.status().flow_list.first().is_some_and(|f| f.way.is_some())
            });
            let way = town.status().flow_list[0].way.clone().unwrap();
            assert_eq!((way.first.as_str(), way.relays, way.far), ("hill", Some(1), None));
        }
        if number == 30 || number == 80 {
            hill.kill();
            hill = chain.start(1, &configs[1]);
        }
        stream.write_all(slice).unwrap();
        crate::common::pause(EVERY);
    }
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let heard = reader.join().unwrap().unwrap();
    assert!(heard == data, "{} of {} bytes came back", heard.len(), data.len());
    assert!(home.counter("flows_resumed") >= 2, "{}", home.log());
    assert!(hill.counter("relayed_octets") > 1_000_000);
    assert_eq!(town.counter("connections_made"), 1, "the server saw one connection");
    crate::common::wait_for("everything to close", || {
        home.status().flows + town.status().flows + hill.status().flows_relayed == 0
    });
}
