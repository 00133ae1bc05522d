//! IP over a serial line, without peers: two gateways, and slirp in a shell account.

use super::{Cable, of_guide};
use crate::common::*;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use wavelane_host::netns::{ChildEnd, Netns};

const NOBODY: u32 = 65_534;

/// A gateway without peers, whose file is a gateway's and `serial`.
fn start(world: &World, name: &str, serial: &str) -> Daemon {
    let (ns, key) = if name == "a" { (&world.a, &world.keys[0]) } else { (&world.b, &world.keys[1]) };
    let config = write_config(&world.dir, name, key, "listen = \"127.0.0.1:4780\"", serial);
    let (command, log, control) = daemon_command(&config);
    let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let daemon = Daemon { child, log, control, own_folder: None };
    daemon.wait_log("listens on UDP");
    daemon
}

/// The table of `[serial]`.
fn serial(port: &str, keys: &str) -> String {
    format!("[serial]\ndevice = \"{port}\"\nrate = \"4 Mbit/s\"\n{keys}\n")
}

/// A server in `ns`, that takes as many bytes as the first eight say and sends them back.
fn give_back(ns: &Netns, at: &'static str) {
    let listener = ns.run(move || TcpListener::bind(at).unwrap()).unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            std::thread::spawn(move || {
                let mut size = [0; 8];
                stream.read_exact(&mut size).unwrap();
                let mut all = vec![0; u64::from_be_bytes(size) as usize];
                stream.read_exact(&mut all).unwrap();
                stream.write_all(&all).unwrap();
            });
        }
    });
}

/// `size` bytes up and the same down again.
fn up_and_down(ns: &Netns, to: &str, size: usize) {
    let to: SocketAddr = to.parse().unwrap();
    let mut stream = ns.run(move || TcpStream::connect_timeout(&to, PATIENCE).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let data = pattern(size, 11);
    stream.write_all(&(size as u64).to_be_bytes()).unwrap();
    stream.write_all(&data).unwrap();
    let mut back = vec![0; size];
    let mut got = 0;
    while got < size {
        match stream.read(&mut back[got..]) {
            Ok(len) if len > 0 => got += len,
            other => panic!("{got} of {size} bytes came back: {other:?}"),
        }
    }
    assert!(back == data, "other bytes came back");
}

fn carries(daemon: &Daemon) {
    wait_for("the line", || daemon.status().serial.is_some_and(|line| line.unused.is_none()));
}

#[test]
fn two_gateways_without_peers_carry_ip_by_every_framing() {
    let _alone = alone();
    if !root_or_skip("serial_ip") {
        return;
    }
    let world = World::new("serip");
    give_back(&world.b, "0.0.0.0:7");
    for framing in ["slip", "slip-1998", "cslip", "kiss", "ppp"] {
        let cable = Cable::new();
        let keys = |own: u8| format!("framing = \"{framing}\"\naddresses = [\"10.9.0.{own}/30\"]");
        let a = start(&world, "a", &serial(&cable.ports[0], &keys(1)));
        let b = start(&world, "b", &serial(&cable.ports[1], &keys(2)));
        [&a, &b].into_iter().for_each(carries);
        up_and_down(&world.a, "10.9.0.2:7", 50_000);
        // A report may be older than the last octets.
        let line = || a.status().serial.unwrap();
        wait_for("the octets to be counted", || line().bytes_out > 50_000 && line().bytes_in > 50_000);
        let line = line();
        // With a doubled END a frame also ends where the line pauses behind its first half, as a late processor makes it; TCP repairs that.
        if framing != "slip-1998" {
            assert_eq!(line.bad.iter().map(|cause| cause.value).sum::<u64>(), 0, "{framing}: {line:?}");
        }
        let said = a.status().to_string();
        assert!(said.contains(&format!("(4000 kbit/s, {framing}, MTU 1500) through serial0, 10.9.0.1")), "{said}");
    }
}

/// Writes the table of `[serial]` for a port.
type Table<'a> = &'a dyn Fn(&str) -> String;

/// A user's shell account on a machine with slirp.
fn slirp(world: &World, port: &str, words: &[&str]) -> Option<std::process::Child> {
    let terminal = || OpenOptions::new().read(true).write(true).open(port).unwrap();
    let mut command = Command::new("slirp-fullbolt");
    command.args(words).env("HOME", "/nonexistent").current_dir("/");
    command.stdin(terminal()).stdout(terminal()).stderr(Stdio::null());
    command.uid(NOBODY).gid(NOBODY);
    world.b.spawn(command, ChildEnd::Kill).unwrap().ok()
}

#[test]
fn slirp_in_a_shell_account_serves_by_slip_and_ppp() {
    let _alone = alone();
    if !root_or_skip("serial_slirp") {
        return;
    }
    if Command::new("slirp-fullbolt")
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .status()
        .is_err()
    {
        return eprintln!("SKIPPED (1 test): serial_slirp needs slirp (`apt-get install slirp`)");
    }
    // At the guide's rate 20 kB take 2 s each way.
    let all = std::env::var_os("WAVELANE_TEST_ALL").is_some();
    let (size, slow) = (if all { 1_000_000 } else { 200_000 }, 20_000);
    let world = World::new("slirp");
    give_back(&world.b, "127.0.0.1:7000");
    let fast = |port: &str, keys: &str| serial(port, &format!("{keys}\nroutes = [\"10.0.2.0/24\"]"));
    let by_slip = |port: &str| fast(port, "addresses = [\"10.0.2.15/24\"]");
    let by_ppp = |port: &str| fast(port, "framing = \"ppp\"");
    let by_guide = |port: &str| of_guide(4, port);
    let cases: [(&[&str], usize, Table<'_>); 3] =
        [(&["mtu 1500"], size, &by_slip), (&["ppp"], size, &by_ppp), (&["mtu 1500"], slow, &by_guide)];
    for (words, size, table) in cases {
        let cable = Cable::new();
        let mut far = slirp(&world, &cable.ports[1], words).unwrap();
        let a = start(&world, "a", &table(&cable.ports[0]));
        carries(&a);
        up_and_down(&world.a, "10.0.2.2:7000", size);
        // What status tells is put together a few times a second.
        wait_for(&format!("the counters of {words:?}"), || {
            let line = a.status().serial.unwrap();
            line.bytes_in > size as u64 && line.bytes_out > size as u64
        });
        let _ = far.kill();
        let _ = far.wait();
    }
}
