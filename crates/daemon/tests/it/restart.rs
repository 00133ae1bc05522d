//! A gateway that died and starts again: how soon its peer knows, and what it remembers of where that peer was.

use crate::common::*;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use wavelane_host::netns::ChildEnd;

const KEEP: &str = "source = \"keep\"";

#[test]
fn a_restart_of_the_far_gateway_is_noticed_within_a_second() {
    let _alone = alone();
    if !root_or_skip("down_restart") {
        return;
    }
    // Whoever knows or remembers the other's address calls it; otherwise the near one does, every second.
    for far in ["knows", "remembers", "forgets"] {
        let world = World::new(&format!("restart-{far}"));
        world.serve(7, echo);
        let address = "address = \"10.2.0.1:4780\"\n";
        let config = || {
            let config = world.write("b", Outside::V4, KEEP, "");
            let text = std::fs::read_to_string(&config).unwrap();
            std::fs::write(&config, if far == "knows" { text } else { text.replace(address, "") }).unwrap();
            config
        };
        let mut b = world.spawn("b", &config());
        let a = world.start("a", KEEP, "[intercept]\ninterfaces = [\"lan0\"]");
        a.wait_log("peer 'b' is up");
        let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
        says(&mut stream).unwrap();
        let kept = world.dir.join("b.epoch.peers");
        wait_for("what is kept", || far == "knows" || kept.exists());
        b.kill();
        a.wait_log("peer 'b' is down");
        if far == "forgets" {
            std::fs::remove_file(&kept).unwrap();
        }
        let _b = world.spawn("b", &config());
        let start = now();
        a.wait_log("'b' has restarted");
        // The near one calls every second.
        let limit = if far == "forgets" { 1_500 } else { 500 };
        assert!(start.elapsed() <= Duration::from_millis(limit), "{far}: {:?}", start.elapsed());
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

/// How long after the far gateway's restart the client's connection is reset and a new one works.
struct Noticed {
    reset: Duration,
    new: Duration,
}

/// Kills the far gateway `b` with `kill -9` and starts it again with `config`, while the client has a connection.
fn kill_and_restart(world: &World, b: &mut Daemon, config: &std::path::Path) -> Noticed {
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    says(&mut stream).unwrap();
    // Nothing is owed any more, so that the near gateway has no cause to wonder.
    pause(Duration::from_millis(300));
    b.kill();
    let start = now();
    *b = world.spawn("b", config);
    assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    let reset = start.elapsed();
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    Noticed { reset, new: start.elapsed() }
}

/// The near gateway `a` is behind a translator that lets in only answers and gives it ports as it likes, so the far one, `b`,
/// cannot know where it is. Gives back both, `b`'s configuration, and where it sees `a`.
fn translated(world: &World) -> (Daemon, Daemon, PathBuf, String) {
    world.serve(7, echo);
    world.sh(
        &world.a,
        "nft 'table ip translator { \
           chain post { type nat hook postrouting priority 100; oifname wan0 udp sport 4780 masquerade to :50000-59999 random; }; \
           chain i { type filter hook input priority 0; iifname wan0 udp dport 4780 ct state new drop; \
             iifname wan0 udp dport 50000-59999 drop; }; }'",
    );
    let config = world.write("b", Outside::V4, KEEP, "");
    edit(&config, "address = \"10.2.0.1:4780\"\n", "");
    let b = world.spawn("b", &config);
    let a = world.start("a", KEEP, "[intercept]\ninterfaces = [\"lan0\"]");
    a.wait_log("peer 'b' is up");
    b.wait_log("peer 'a' is up");
    let address = b.status().peers[0].address.clone().unwrap();
    assert!(address.starts_with("10.2.0.1:5"), "{address}");
    // A pipe that is still there would not be read to an end.
    let kept = world.dir.join("b.epoch.peers");
    wait_for("the place to be kept", || {
        kept.is_file() && std::fs::read_to_string(&kept).is_ok_and(|t| t.contains(&address))
    });
    (a, b, config, address)
}

/// Nobody may know yet that the far gateway was dead.
#[test]
fn a_restarted_gateway_calls_its_peers_last_address() {
    let _alone = alone();
    if !root_or_skip("restart_recall") {
        return;
    }
    let world = World::new("recall");
    let (a, mut b, config, _) = translated(&world);
    let mut slowest = Duration::ZERO;
    for round in 1..=5 {
        let took = kill_and_restart(&world, &mut b, &config);
        eprintln!("round {round}: reset after {:?}, a new connection after {:?}", took.reset, took.new);
        slowest = slowest.max(took.reset).max(took.new);
    }
    // The start itself takes some twenty calls of ip and nft. Left to itself, the near gateway would find out from its heartbeat, after 1.5 s
    // and a round of calls.
    assert!(slowest <= Duration::from_millis(1_500), "{slowest:?}");
    assert!(a.stayed_up(), "{}", a.log());
}

#[test]
fn a_bad_peers_file_costs_one_log_line() {
    let _alone = alone();
    if !root_or_skip("restart_spoilt") {
        return;
    }
    let world = World::new("spoilt");
    let (_a, mut b, config, address) = translated(&world);
    // A place where nobody is any more, a place of somebody else's, and what is no place at all, cost nothing.
    let kept = world.dir.join("b.epoch.peers");
    // A pipe that is still there would not be read to an end.
    let is_right = || kept.is_file() && std::fs::read_to_string(&kept).is_ok_and(|t| t.contains(&address));
    wait_for("the place", is_right);
    let path = kept.display();
    let cases = [
        (format!("sed -i s/{address}/10.2.0.77:4780/ {path}"), 0, true),
        (format!("sed -i s/{address}/10.3.0.2:7/ {path}"), 0, true),
        // What is another's, or may be, stays.
        (format!("chmod 0 {path}"), 1, true),
        (format!("rm {path}; echo dear diary > {path}"), 1, false),
        (format!("yes | head -c 1000000 > {path}"), 1, false),
        (format!("rm {path}; mkfifo {path}"), 1, false),
        (format!("rm {path}; ln -s /dev/zero {path}"), 1, false),
        (format!("rm {path}; mkdir {path}"), 1, false),
    ];
    for (spoil, said, is_ours) in cases {
        b.kill();
        world.sh(&world.b, &spoil);
        b = world.spawn("b", &config);
        // Where the place is wrong, the near gateway finds out when somebody asks it for something.
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        if is_ours {
            wait_for("the right place", is_right);
        }
        assert_eq!(b.log().lines().filter(|l| l.contains("b.epoch.peers")).count(), said, "{spoil}: {}", b.log());
        assert_eq!(is_right(), is_ours, "{spoil}");
    }
    // Nowhere to keep anything.
    b.kill();
    edit(&config, "[gateway]\n", "[gateway]\nstate = \"/proc/none/b.epoch\"\n");
    b = world.spawn("b", &config);
    let complains = |b: &Daemon| {
        b.wait_log("where peers without an address were last");
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        assert_eq!(b.log().matches("where peers without an address were last").count(), 1, "{}", b.log());
    };
    complains(&b);
    b.kill();
    let full = world.dir.join("full");
    std::fs::create_dir(&full).unwrap();
    edit(&config, "/proc/none", &full.display().to_string());
    let (daemon, log, control) = daemon_command(&config);
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=4k none \"$0\" && { yes > \"$0/fill\" 2>/dev/null; exec \"$@\"; }";
    command.args(["-m", "sh", "-c", script]).arg(&full).arg(daemon.get_program()).args(daemon.get_args());
    command.stdin(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let child = world.b.spawn(command, ChildEnd::Kill).unwrap().unwrap();
    b = Daemon { child, log, control, own_folder: None };
    complains(&b);
    b.wait_log("No space left");
    assert_eq!(b.stop(), Some(0));
}

#[test]
fn a_start_after_a_kill_waits_for_the_dead_nft() {
    let _alone = alone();
    if !root_or_skip("restart_leftover") {
        return;
    }
    let world = World::new("leftover");
    // As the nft of a daemon that was killed a moment ago.
    let mut leftover = Command::new("sh");
    leftover.args(["-c", "{ echo 'table inet wavelane { flags owner; }'; sleep 0.6; } | nft -i"]).stdout(Stdio::null());
    let mut leftover = world.b.spawn(leftover, ChildEnd::Kill).unwrap().unwrap();
    wait_for("its table", || world.sh(&world.b, "nft list tables").contains("inet wavelane"));
    let mut b = world.start("b", KEEP, "");
    assert!(leftover.wait().unwrap().success());
    assert_eq!(b.stop(), Some(0));
}
