//! IP over a serial line, without peers: two gateways, and slirp in a shell account.

use super::{Cable, costs_little, of_guide};
use crate::common::*;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wavelane_base::Span;
use wavelane_daemon::commands::NetcheckArgs;
use wavelane_host::netns::{ChildEnd, Netns};
use wavelane_host::realtime;
use wavelane_wire::serial::hdlc::{self, Style};
use wavelane_wire::serial::ppp::{Control, protocol};

const NOBODY: u32 = 65_534;

/// A gateway without peers, whose file is a gateway's and `serial`.
pub(super) fn start(world: &World, name: &str, serial: &str) -> Daemon {
    let (ns, key) = if name == "a" { (&world.a, &world.keys[0]) } else { (&world.b, &world.keys[1]) };
    let config = write_config(&world.dir, name, key, "listen = \"127.0.0.1:4780\"", serial);
    let (command, log, control) = daemon_command(&config);
    let child = ns.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let daemon = Daemon { child, log, control, own_folder: None };
    daemon.wait_log("listens on UDP");
    daemon
}

/// The table of `[serial]`.
pub(super) fn serial(port: &str, keys: &str) -> String {
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

pub(super) fn carries(daemon: &Daemon) {
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
        // PPP tells who the other end is; the others need a network that holds it.
        let bits = if framing == "ppp" { 32 } else { 30 };
        let keys = |own: u8| format!("framing = \"{framing}\"\naddresses = [\"10.9.0.{own}/{bits}\"]");
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

/// Addresses, routes and the device itself.
#[test]
fn what_other_programs_take_from_the_lines_device_is_put_back() {
    let _alone = alone();
    if !root_or_skip("serial_watch") {
        return;
    }
    let world = World::new("serwat");
    give_back(&world.b, "0.0.0.0:7");
    for (framing, keys) in [
        ("slip", "addresses = [\"10.9.0.N/30\", \"fd00:9::N/64\"]\nroutes = [\"10.7.0.0/16\", \"fd00:7::/32\"]"),
        ("ppp", "peer = \"10.9.0.M\"\naddresses = [\"10.9.0.N/32\"]\nroutes = [\"10.7.0.0/16\"]"),
    ] {
        let cable = Cable::new();
        let keys = |own: u8| {
            let keys = keys.replace('N', &own.to_string()).replace('M', &(3 - own).to_string());
            format!("framing = \"{framing}\"\n{keys}")
        };
        let a = start(&world, "a", &serial(&cable.ports[0], &keys(1)));
        let b = start(&world, "b", &serial(&cable.ports[1], &keys(2)));
        [&a, &b].into_iter().for_each(carries);
        up_and_down(&world.a, "10.9.0.2:7", 5_000);
        let standing = || {
            let listing = "ip -o addr show serial0; ip -4 route show dev serial0; ip -6 route show dev serial0; ip -o link show serial0";
            let all = world.sh(&world.a, &format!("({listing}) 2>/dev/null || true"));
            // Its number, and what the kernel calls the state of one that another program made.
            let all = all.replace(" state UP ", " state UNKNOWN ");
            let mut lines: Vec<String> =
                all.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest).trim().into()).collect();
            lines.sort();
            lines
        };
        let whole = standing();
        assert!(whole.iter().any(|line| line.starts_with("10.7.0.0/16")), "{whole:?}");
        for (nth, (damage, told)) in [
            ("ip addr del 10.9.0.1 dev serial0; true", "the address 10.9.0.1"),
            ("ip addr flush dev serial0", "the address 10.9.0.1"),
            ("ip route flush dev serial0; true", "the route 10.7.0.0/16"),
            ("ip route del 10.7.0.0/16", "the route 10.7.0.0/16"),
            ("ip link set serial0 down", "the state up"),
            ("ip link set serial0 mtu 900", "the MTU 1500"),
            ("ip link set serial0 down; ip link set serial0 name elsewhere0", "the device serial0 itself"),
            ("ip link del serial0", "the device serial0 itself"),
            ("ip link del serial0; ip tuntap add serial0 mode tun 2>/dev/null || true", "the device serial0 itself"),
        ]
        .into_iter()
        .enumerate()
        {
            let before = a.counter("state_put_back");
            // Two prefixes of one address, for iproute2 wants the one that stands.
            world.sh(
                &world.a,
                &damage.replace("10.9.0.1 ", if framing == "ppp" { "10.9.0.1/32 " } else { "10.9.0.1/30 " }),
            );
            wait_for(damage, || a.counter("state_put_back") > before && standing() == whole);
            up_and_down(&world.a, "10.9.0.2:7", 5_000);
            wait_for("the status", || a.status().serial.is_some_and(|line| line.unused.is_none()));
            // Of more only the count is sure.
            assert!(nth > 2 || a.log().contains(told), "{told}: {}", a.log());
        }
    }
}

fn has_slirp() -> bool {
    let mut command = Command::new("slirp-fullbolt");
    command.arg("-h").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

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
    if !has_slirp() {
        return eprintln!("SKIPPED (1 test): serial_slirp needs slirp (`apt-get install slirp`)");
    }
    // At the guide's rate 20 kB take 2 s each way.
    let all = std::env::var_os("WAVELANE_TEST_ALL").is_some();
    let (size, slow) = (if all { 1_000_000 } else { 200_000 }, 20_000);
    let world = World::new("slirp");
    give_back(&world.b, "127.0.0.1:7000");
    let fast = |port: &str, keys: &str| serial(port, &format!("{keys}\nroutes = [\"10.0.2.0/24\"]"));
    let by_slip = |port: &str| fast(port, "addresses = [\"10.0.2.15/24\"]");
    let by_cslip = |port: &str| fast(port, "framing = \"cslip\"\naddresses = [\"10.0.2.15/24\"]");
    let by_ppp = |port: &str| fast(port, "framing = \"ppp\"");
    let by_guide = |port: &str| of_guide(4, port);
    // Without `compress` slirp's PPP has no compressed headers.
    let cases: [(&[&str], usize, Table<'_>); 5] = [
        (&["mtu 1500"], size, &by_slip),
        (&["mtu 1500", "compress"], size, &by_cslip),
        (&["ppp"], size, &by_ppp),
        (&["ppp", "compress"], size, &by_ppp),
        (&["mtu 1500"], slow, &by_guide),
    ];
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

/// A terminal server at the end of a cable: wants PAP and refuses what it is told, or asks for nothing; what it was told.
struct PppServer {
    told: Arc<Mutex<Vec<(u16, u8)>>>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl PppServer {
    fn new(port: &str) -> Self {
        let settings = wavelane_host::tty::PortSettings { rate: 4_000_000, hardware_flow: false, carrier: false };
        let tty = wavelane_host::tty::Tty::open(port, settings).unwrap();
        let (told, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (heard, stopped) = (Arc::clone(&told), Arc::clone(&stop));
        let serve = move || {
            let (mut frame, mut asked) = (Vec::new(), false);
            while !stopped.load(Ordering::Relaxed) {
                let _ = realtime::wait(&[tty.as_fd()], realtime::now() + Span::from_millis(20));
                let mut octets = [0; 256];
                let Ok(Some(len)) = tty.read(&mut octets) else { continue };
                for octet in &octets[..len] {
                    if *octet != hdlc::FLAG {
                        frame.push(*octet);
                        continue;
                    }
                    let plain = unescaped(&std::mem::take(&mut frame));
                    let Ok((number, start)) = hdlc::protocol(&plain) else { continue };
                    let Ok(control) = Control::parse(&plain[start..plain.len().max(start + 2) - 2]) else { continue };
                    heard.lock().unwrap().push((number, control.code));
                    let say = |number, code, id, data: &[u8]| {
                        let (mut packet, mut out) = (Vec::new(), Vec::new());
                        Control { code, id, data }.put(&mut packet);
                        hdlc::put(Style::UNNEGOTIATED, number, &packet, &mut out);
                        let _ = tty.write(&out);
                    };
                    match (number, control.code) {
                        (protocol::LCP, 1) => {
                            say(protocol::LCP, 2, control.id, control.data);
                            asked = true;
                            say(protocol::LCP, 1, 1, &[3, 4, 0xc0, 0x23]);
                        }
                        (protocol::LCP, 5) => say(protocol::LCP, 6, control.id, &[]),
                        (protocol::PAP, _) if asked => say(protocol::PAP, 3, control.id, &[0]),
                        _ => {}
                    }
                }
            }
        };
        Self { told, stop, thread: Some(std::thread::spawn(serve)) }
    }
    /// How often it was told so.
    fn told(&self, number: u16, code: u8) -> usize {
        self.told.lock().unwrap().iter().filter(|told| **told == (number, code)).count()
    }
}

impl Drop for PppServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn unescaped(frame: &[u8]) -> Vec<u8> {
    let mut octets = frame.iter();
    std::iter::from_fn(|| {
        let octet = *octets.next()?;
        if octet == hdlc::ESCAPE { octets.next().map(|octet| octet ^ hdlc::FLIP) } else { Some(octet) }
    })
    .collect()
}

/// A refused secret is said in `status` and by `netcheck`, and not told again and again; an orderly stop ends the link with a word.
#[test]
fn a_refused_secret_is_said_and_an_orderly_stop_ends_the_link() {
    let _alone = alone();
    if !root_or_skip("serial_refused") {
        return;
    }
    let world = World::new("refused");
    let cable = Cable::new();
    let secret = world.dir.join("isp.secret");
    std::fs::write(&secret, "wrong\r\n").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let server = PppServer::new(&cable.ports[1]);
    let keys = "framing = \"ppp\"\nuser = \"me\"\nsecret_file = \"isp.secret\"";
    let a = start(&world, "a", &serial(&cable.ports[0], keys));
    let unused = || a.status().serial.unwrap().unused.unwrap_or_default();
    wait_for("the refusal", || unused().contains("PPP is down: the other end refuses our name and secret"));
    assert_eq!(server.told(protocol::PAP, 1), 1);
    let found = wavelane_daemon::commands::netcheck(&NetcheckArgs { control: Some(a.control.clone()), peer: None });
    let found = found.unwrap();
    assert!(
        !found.sound && found.text.contains("wrong nothing passes: PPP is down: the other end refuses"),
        "{found:?}"
    );
    drop(a);
    drop(server);
    // Without a wish for a name: up, and closed with a word on SIGTERM.
    let cable = Cable::new();
    let [mut a, mut b] = [("a", 0), ("b", 1)].map(|(name, end)| {
        let keys = format!("framing = \"ppp\"\naddresses = [\"10.9.0.{}/30\"]", end + 1);
        start(&world, name, &serial(&cable.ports[end], &keys))
    });
    [&a, &b].into_iter().for_each(carries);
    assert_eq!(a.stop(), Some(0));
    b.wait_log("PPP is down: the other end closed the link");
    // Nobody is left to answer.
    assert_eq!(b.stop(), Some(0));
}

/// How much of the guide's 115.2 kbit/s a shell account's uploads use: the port is never idle while something waits.
#[test]
fn slirp_uses_the_whole_rate_of_a_line() {
    let _alone = alone();
    if !root_or_skip("serial_slirp_rate") {
        return;
    }
    if !has_slirp() {
        return eprintln!("SKIPPED (1 test): serial_slirp_rate needs slirp (`apt-get install slirp`)");
    }
    let world = World::new("slirprate");
    give_back(&world.b, "127.0.0.1:7000");
    let cable = Cable::new();
    let mut far = slirp(&world, &cable.ports[1], &["mtu 1500"]).unwrap();
    let a = start(&world, "a", &of_guide(4, &cable.ports[0]));
    carries(&a);
    let to = "10.0.2.2:7000".parse().unwrap();
    let mut stream = world.a.run(move || TcpStream::connect_timeout(&to, PATIENCE).unwrap()).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&100_000_u64.to_be_bytes()).unwrap();
    stream.write_all(&pattern(60_000, 11)).unwrap();
    wait_for("the line to be filled", || cable.carried()[0] > 12_000);
    let (before, from, spent) = (cable.carried()[0], now(), processor_s(&a));
    // real time: 3 s, in which the line takes 34,560 octets
    pause(std::time::Duration::from_secs(3));
    let (sent, seconds) = (cable.carried()[0] - before, from.elapsed().as_secs_f64());
    let of_a_core = (processor_s(&a) - spent) / seconds;
    let used = sent as f64 * 10.0 / 115_200.0 / seconds;
    // 0.95 on an idle machine: slirp's window is small, so that each wait of a busy one is the line's too.
    assert!((0.9..=1.05).contains(&used), "{used:.3} of the rate, {sent} octets in {seconds:.3} s");
    // Other load raises it.
    if std::env::var_os("WAVELANE_TEST_ALL").is_some() {
        costs_little(of_a_core, &format!("{sent} octets"));
    }
    let _ = far.kill();
    let _ = far.wait();
}
