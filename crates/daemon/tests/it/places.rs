//! Where peers are: names that nobody knows yet, that move and that nobody answers for; addresses that were asked; and causes.

use crate::common::*;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

/// Starts gateway `a` with files of `dir` in the place of the machine's `/etc/hosts` and `/etc/resolv.conf`.
fn spawn_with_names(world: &World, config: &Path, hosts: &Path, servers: &Path) -> Daemon {
    let (plain, log, control) = daemon_command(config);
    let mut command = Command::new("unshare");
    // The files are read where they are, so that they can change.
    let script = format!(
        "mount --bind {} /etc/hosts && mount --bind {} /etc/resolv.conf && exec \"$@\"",
        hosts.display(),
        servers.display()
    );
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.stderr(std::fs::File::create(&log).unwrap());
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let daemon = Daemon { child, log, control, own_folder: None };
    daemon.wait_log("listens on UDP");
    daemon
}

/// A configuration of `a` that knows `b` by `name`, and empty files of names.
fn by_name(world: &World, name: &str, extra: &str) -> (PathBuf, PathBuf, PathBuf) {
    let config = world.write("a", Outside::V4, "source = \"keep\"", "[intercept]\ninterfaces = [\"lan0\"]");
    let text = std::fs::read_to_string(&config).unwrap().replace("\"10.2.0.2:4780\"", &format!("\"{name}\"\n{extra}"));
    std::fs::write(&config, text).unwrap();
    let (hosts, servers) = (world.dir.join("hosts"), world.dir.join("resolv.conf"));
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    std::fs::write(&servers, "nameserver 127.0.0.1\n").unwrap();
    (config, hosts, servers)
}

/// Gateway `b`, which waits to be called.
fn start_called(world: &World) -> Daemon {
    start_called_with(world, "")
}

fn start_called_with(world: &World, rest: &str) -> Daemon {
    let config = world.write("b", Outside::V4, "source = \"keep\"", rest);
    let text = std::fs::read_to_string(&config).unwrap().replace("address = \"10.2.0.1:4780\"\n", "");
    std::fs::write(&config, text).unwrap();
    world.spawn("b", &config)
}

#[test]
fn names_are_followed_when_they_appear_or_change() {
    let _alone = alone();
    if !root_or_skip("names_followed") {
        return;
    }
    let world = World::new("names");
    let (config, hosts, servers) = by_name(&world, "shore.test:4780", "keepalive = \"1 s\"");
    let a = spawn_with_names(&world, &config, &hosts, &servers);
    a.wait_log("peer 'b' does not answer: no address for 'shore.test:4780'");
    let mut b = start_called(&world);
    std::fs::write(&hosts, "10.2.0.2 shore.test\n").unwrap();
    a.wait_log("peer 'b': shore.test:4780 is 10.2.0.2:4780");
    a.wait_log("peer 'b' is up");
    assert_eq!(a.status().peers[0].cause, None);
    // It moves, and has forgotten where we are.
    let peer_addresses = world.dir.join("b.epoch.peers");
    wait_for("b to write down where a is", || peer_addresses.exists());
    b.kill();
    std::fs::remove_file(peer_addresses).unwrap();
    world.sh(
        &world.b,
        "ip addr del 10.2.0.2/24 dev wan0; ip addr add 10.2.0.9/24 dev wan0; ip route replace 10.1.0.0/24 via 10.2.0.1",
    );
    let b = start_called(&world);
    std::fs::write(&hosts, "10.2.0.9 shore.test\n").unwrap();
    a.wait_log("peer 'b': shore.test:4780 is 10.2.0.9:4780");
    b.wait_log("peer 'a' is up");
    wait_for("a to find b again", || a.status().peers[0].up);
    assert_eq!(a.log().matches("no address for").count(), 1, "{}", a.log());
}

/// A rule at the device by which a peer is reached is named, although no file has the peer's address.
#[test]
fn drops_on_the_way_to_a_name_and_to_a_caller_are_named() {
    let _alone = alone();
    if !root_or_skip("drops on the way") {
        return;
    }
    let world = World::new("uplink");
    let (config, hosts, servers) = by_name(&world, "shore.test:4780", "");
    std::fs::write(&hosts, "10.2.0.2 shore.test\n").unwrap();
    let a = spawn_with_names(&world, &config, &hosts, &servers);
    let b = start_called_with(&world, "[intercept]\ninterfaces = [\"lan0\"]");
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    let wall = "nft add table netdev wall; nft 'add chain netdev wall it { type filter hook egress device \"wan0\" priority 0; }'; \
         nft add rule netdev wall it udp sport 9 drop; nft add rule netdev wall it ";
    for (daemon, host, rule, words) in [
        (&a, &world.a, "udp dport 4780 drop", "drops our datagrams to UDP port 4780 of peers"),
        (&b, &world.b, "udp sport 4780 drop", "drops our datagrams to peers that call us"),
    ] {
        world.sh(host, &format!("{wall}{rule}"));
        wait_for(words, || daemon.status().hindrances.iter().any(|line| line.contains(words)));
        world.sh(host, "nft delete table netdev wall");
        wait_for("no rule", || daemon.status().hindrances.is_empty());
    }
    // `check` finds the caller where it was last.
    world.sh(&world.b, &format!("{wall}udp sport 4780 drop"));
    wait_for("b to write down where a is", || world.dir.join("b.epoch.peers").exists());
    let config = world.dir.join("b.toml");
    let checked = world.b.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap();
    assert!(checked.contains("drops our datagrams to peers that call us"), "{checked}");
}

/// The longest of many exchanges of a byte over `stream` while `work` is done.
fn longest_exchange(mut stream: TcpStream, work: impl FnOnce() + Send) -> Duration {
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        let (mut longest, end) = (Duration::ZERO, now() + Duration::from_secs(4));
        while now() < end || !working.is_finished() {
            let asked = now();
            stream.write_all(b"x").unwrap();
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
            longest = longest.max(asked.elapsed());
            pause(Duration::from_millis(10));
        }
        longest
    })
}

#[test]
fn slow_lookups_and_tools_block_no_packets() {
    let _alone = alone();
    if !root_or_skip("dead_name_server") {
        return;
    }
    let world = World::new("slow");
    let (config, hosts, servers) = by_name(&world, "10.2.0.2:4780", "");
    // Nobody is there, and not even ARP fails.
    world.sh(&world.a, "ip neigh replace 10.2.0.77 lladdr 02:00:00:00:00:77 dev wan0");
    std::fs::write(&servers, "nameserver 10.2.0.77\n").unwrap();
    // A tool that takes three seconds, once it is told to.
    let (bin, slow) = (world.dir.join("bin"), world.dir.join("slow"));
    std::fs::create_dir(&bin).unwrap();
    let tool = bin.join("iptables-restore");
    std::fs::write(
        &tool,
        format!("#!/bin/sh\n[ -e {} ] && sleep 3\nexec /usr/sbin/iptables-restore \"$@\"\n", slow.display()),
    )
    .unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let b = world.start("b", "source = \"keep\"", "");
    let script = config.with_extension("sh");
    std::fs::write(
        &script,
        format!("export PATH={}:$PATH\nexec {DAEMON} --config {}\n", bin.display(), config.display()),
    )
    .unwrap();
    let (_, log, control) = daemon_command(&config);
    let mut command = Command::new("unshare");
    let mounts = format!(
        "mount --bind {} /etc/hosts && mount --bind {} /etc/resolv.conf && exec sh {}",
        hosts.display(),
        servers.display(),
        script.display()
    );
    command.args(["--mount", "sh", "-c", &mounts]).stderr(std::fs::File::create(&log).unwrap());
    let child = world.a.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    let a = Daemon { child, log, control, own_folder: None };
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    world.serve(80, echo);
    let stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    let more = format!(
        "[[peer]]\nname = \"c\"\npublic_key = \"{}\"\naddress = \"far.test:4780\"\nroutes = [\"10.77.0.0/16\"]\n[intercept]",
        key_pair().public
    );
    let text = std::fs::read_to_string(&config).unwrap().replace("[intercept]", &more);
    std::fs::write(&config, text).unwrap();
    std::fs::write(&slow, "").unwrap();
    let asked = now();
    let longest = longest_exchange(stream, || assert_eq!(a.reload(), None));
    assert!(asked.elapsed() >= Duration::from_secs(3), "the tool was slow");
    assert!(longest < Duration::from_millis(1_000), "{longest:?}");
    assert_eq!(a.status().peers.len(), 2);
}

#[test]
fn answers_leave_from_the_called_address() {
    let _alone = alone();
    if !root_or_skip("address_asked") {
        return;
    }
    let world = World::new("asked");
    world.sh(&world.b, "ip addr add 10.2.0.9/24 dev wan0");
    // What a did not ask for does not come in.
    world.sh(
        &world.a,
        "nft 'table ip t { chain i { type filter hook input priority 0; iifname wan0 ct state new drop; }; }'",
    );
    let b = start_called(&world);
    let (config, ..) = by_name(&world, "10.2.0.9:4780", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    world.serve(80, echo);
    let mut stream = world.connect(&world.client, "10.3.0.2:80").unwrap();
    stream.write_all(b"x").unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
    let report = a.status();
    assert_eq!(report.peers[0].address.as_deref(), Some("10.2.0.9:4780"));
    // Who speaks with whom, for how long, at both ends.
    for (report, peer) in [(report, "b"), (b.status(), "a")] {
        let [flow] = report.flow_list.as_slice() else { panic!("{report}") };
        assert!(flow.source.starts_with("10.1.0.2:") && flow.target == "10.3.0.2:80", "{flow:?}");
        assert_eq!((flow.peer.as_str(), flow.state.as_str(), flow.in_bytes, flow.out_bytes), (peer, "open", 1, 1));
        assert!(flow.age_s >= flow.state_s && report.peers[0].state_s > 0.0, "{flow:?}");
    }
}

#[test]
fn why_a_peer_does_not_answer_is_said_once_and_is_the_true_cause() {
    let _alone = alone();
    if !root_or_skip("causes") {
        return;
    }
    let world = World::new("causes");
    let cause = |said: &str, prepare: &str, clean: &str| {
        world.sh(&world.a, prepare);
        let (config, ..) = by_name(&world, "10.2.0.2:4780", "");
        let a = world.spawn("a", &config);
        a.wait_log(said);
        // real time: 12 s, in which a second line would be written, for each cause
        pause(Duration::from_secs(3));
        assert_eq!(a.log().matches("does not answer").count(), 1, "{}", a.log());
        assert!(a.status().to_string().contains(said), "{}", a.status());
        drop(a);
        world.sh(&world.a, clean);
    };
    cause("says that nothing listens on that UDP port", "true", "true");
    cause("this host has no way to 10.2.0.2:4780", "ip link set wan0 down", "ip link set wan0 up");
    cause(
        "this host may not send to 10.2.0.2:4780",
        "ip route add prohibit 10.2.0.2/32",
        "ip route del prohibit 10.2.0.2/32",
    );
    cause("carries no datagrams of", "ip link set wan0 mtu 100", "ip link set wan0 mtu 1500");
    let _deaf = world.b.run(|| UdpSocket::bind("0.0.0.0:4780").unwrap()).unwrap();
    cause("nothing comes back from 10.2.0.2:4780", "true", "true");
    drop(_deaf);
    // The peer calls, so its key is known not to be the one in our file.
    let (stranger, _b) = (key_pair(), world.start("b", "source = \"keep\"", ""));
    let (config, ..) = by_name(&world, "10.2.0.2:4780", "");
    let text = std::fs::read_to_string(&config).unwrap().replace(&world.keys[1].public, &stranger.public);
    std::fs::write(&config, text).unwrap();
    let a = world.spawn("a", &config);
    a.wait_log(&format!(
        "public_key is wrong here: the host at 10.2.0.2:4780 calls with the key {}",
        world.keys[1].public
    ));
    // real time: 6 s, in which a second line would be written
    pause(Duration::from_secs(6));
    assert_eq!(a.log().matches("does not answer").count(), 1, "{}", a.log());
}
