//! Gateways beside what other programs do on the same hosts.

use crate::common::*;
use std::io::{Read, Write};
use std::sync::mpsc::channel;

const INTERCEPT: &str = "interfaces = [\"lan0\"]";

#[test]
fn urgent_octets_stay_in_the_stream_both_ways() {
    let _alone = alone();
    if !root_or_skip("urgent_octets") {
        return;
    }
    let world = World::new("oob");
    let (_a, _b) = world.start_both("", INTERCEPT);
    let (tell, told) = channel();
    // Urgent octets as telnet and FTP send them, read in line by both applications.
    let say = |stream: &std::net::TcpStream, word: &[u8]| {
        let socket = socket2::SockRef::from(stream);
        socket.send(&word[..2]).unwrap();
        socket.send_out_of_band(&word[2..3]).unwrap();
        socket.send(&word[3..]).unwrap();
    };
    world.serve(21, move |mut stream, _| {
        socket2::SockRef::from(&stream).set_out_of_band_inline(true).unwrap();
        stream.write_all(b"-").unwrap();
        let mut got = [0; 5];
        let read = stream.read_exact(&mut got);
        say(&stream, b"yz?wx");
        tell.send((read.is_ok(), got)).unwrap();
        let _ = stream.read(&mut got);
    });
    for target in ["10.3.0.2:21", "[fd00:3::2]:21"] {
        let mut stream = world.connect(&world.client, target).unwrap();
        socket2::SockRef::from(&stream).set_out_of_band_inline(true).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        say(&stream, b"ab!cd");
        let mut back = [0; 5];
        stream.read_exact(&mut back).unwrap();
        assert_eq!((told.recv_timeout(PATIENCE).unwrap(), &back), ((true, *b"ab!cd"), b"yz?wx"), "{target}");
    }
}

/// What of ours stands on gateway a, as the kernel's tools list it.
fn standing(world: &World) -> String {
    let script = "set +e; for f in -4 -6; do ip $f rule | grep -E '^478[0-9]:'; ip $f route show table 4780; ip $f route show table 4781; done; \
         nft -s list table inet wavelane_closed; iptables -t raw -S | grep WAVELANE; ip6tables -t raw -S | grep WAVELANE; \
         ip -o addr show dev wavelane0 | cut -d' ' -f2-7; ip link show wavelane0 | grep -oE ',UP|mtu [0-9]+'; true";
    let mut lines: Vec<String> = world.sh(&world.a, script).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn what_other_programs_take_away_is_put_back_and_told() {
    let _alone = alone();
    if !root_or_skip("state put back") {
        return;
    }
    let world = World::new("state");
    let tun = "[tun]\naddresses = [\"10.99.0.1/24\", \"fd00:99::1/64\"]";
    let (a, _b) = world.start_both("on_failure = \"closed\"", &format!("{INTERCEPT}\n{tun}"));
    world.serve(7, echo);
    let works = |after: &str| {
        let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap_or_else(|e| panic!("after {after}: {e}"));
        says(&mut stream).unwrap_or_else(|e| panic!("after {after}: {e}"));
    };
    works("the start");
    let whole = standing(&world);
    for (damage, told) in [
        // As systemd-networkd does when it restarts.
        ("ip rule del priority 4780; ip -6 rule del priority 4780", "policy rules"),
        // At once, before they are put back.
        (
            "for n in 1 2 3 4 5 6 7 8; do echo rule del priority 4782; done | ip -force -batch - 2>/dev/null || ip rule del priority 4781",
            "policy rules",
        ),
        ("ip route flush table 4780", "routes in our tables"),
        ("ip route flush table 4781; ip -6 route flush table 4781", "routes in our tables"),
        ("nft flush ruleset", "wavelane_closed"),
        ("iptables -t raw -F; iptables -t raw -X", "that hold SYNs"),
        ("iptables -t raw -F PREROUTING", "that hold SYNs"),
        ("iptables -t raw -I WAVELANE -j ACCEPT", "that hold SYNs"),
        ("ip link set wavelane0 down", "the device wavelane0, its MTU or its addresses"),
        ("ip address flush dev wavelane0", "the device wavelane0, its MTU or its addresses"),
        ("ip link set wavelane0 mtu 1300", "the device wavelane0, its MTU or its addresses"),
        (
            "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.wavelane0.rp_filter=1",
            "settings of the device wavelane0",
        ),
        // Too small for IPv6, which goes from the device with all that it had of it.
        ("ip link set wavelane0 mtu 900", "the device wavelane0, its MTU or its addresses"),
        // More than ours, which would be followed instead.
        (
            "ip route add 10.3.0.0/25 via 10.2.0.2 table 4781; ip route add blackhole 10.3.0.2 table 4781; ip -6 route add fd00:3::/64 via fd00:2::2 metric 5 table 4781",
            "routes in our tables",
        ),
        ("ip route add default via 10.2.0.2 metric 3 table 4780", "routes in our tables"),
        ("ip link del wavelane0", "the device wavelane0, its MTU or its addresses"),
        ("ip link del wavelane0; ip tuntap add wavelane0 mode tun", "the device wavelane0, its MTU or its addresses"),
    ] {
        let before = a.counter("state_put_back");
        world.sh(&world.a, damage);
        wait_for(damage, || a.counter("state_put_back") > before && standing(&world) == whole);
        a.wait_log(told);
        works(damage);
        // The device that was made anew is the one that is read.
        let packets = a.counter("packets_from_inside");
        world.sh(&world.client, "ping -c 1 -W 1 10.3.0.2 || true");
        wait_for("packets", || a.counter("packets_from_inside") > packets);
    }
    assert_eq!(a.counter("state_missing"), 0);
    let taken = a.counter("connections_taken");
    works("all");
    assert_eq!(a.counter("connections_taken"), taken + 1, "and not plainly");
    // The second means: without the policy rules nothing goes plainly, even while nobody puts them back.
    let stop = |signal: &str| {
        let pid = a.child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    stop("-STOP");
    world.sh(&world.a, "while ip rule del priority 4782 2>/dev/null; do :; done");
    let pinged = world.sh(&world.client, "ping -c 2 -i 0.2 -W 1 10.3.0.2 2>&1 || true");
    assert!(pinged.contains(" 0 received"), "{pinged}");
    stop("-CONT");
    wait_for("the rules to be back", || standing(&world) == whole);
}

/// Tools that hang keep neither packets nor connections waiting, and what they were to do is done once they answer.
#[test]
fn a_tool_that_hangs_is_killed_and_what_it_was_to_do_is_named_and_done_later() {
    let _alone = alone();
    if !root_or_skip("a hung tool") {
        return;
    }
    let world = World::new("hung");
    let (tools, hung) = (world.dir.join("bin"), world.dir.join("hung"));
    std::fs::create_dir(&tools).unwrap();
    for tool in ["ip", "nft"] {
        let path = world.sh(&world.a, &format!("command -v {tool}"));
        let text = format!("#!/bin/sh\n[ -e {} ] && exec sleep 100\nexec {} \"$@\"\n", hung.display(), path.trim());
        std::fs::write(tools.join(tool), text).unwrap();
        world.sh(&world.a, &format!("chmod +x {}", tools.join(tool).display()));
    }
    let config = world.write("a", Outside::V4, "on_failure = \"closed\"", &format!("[intercept]\n{INTERCEPT}\n[tun]"));
    let (mut command, log, control) = daemon_command(&config);
    command.env("PATH", format!("{}:{}", tools.display(), std::env::var("PATH").unwrap()));
    let _b = world.start("b", "source = \"keep\"", "");
    let child = world.a.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    let a = Daemon { child, log, control, own_folder: None };
    a.wait_log("peer 'b' is up");
    world.serve(7, echo);
    let whole = standing(&world);
    let mut stream = world.connect(&world.client, "10.3.0.2:7").unwrap();
    std::fs::write(&hung, "").unwrap();
    world.sh(&world.a, "while ip rule del priority 4782 2>/dev/null; do :; done");
    let mut goes_on = || {
        says(&mut stream).unwrap();
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
        let pinged = world.sh(&world.client, "ping -c 1 -W 0.2 10.3.0.2 2>&1 || true");
        assert!(pinged.contains(" 0 received"), "closed: {pinged}");
    };
    wait_for("word of what is missing", || {
        goes_on();
        a.counter("state_missing") > 0
    });
    a.wait_log("cannot be put back");
    a.wait_log("ip gave no answer in");
    std::fs::remove_file(&hung).unwrap();
    wait_for("the rules to be back", || standing(&world) == whole);
    // The process that owns the table.
    let owner = || world.sh(&world.a, &format!("pgrep -P {} -x nft", a.child.id())).trim().to_owned();
    let stopped = owner();
    world.sh(&world.a, &format!("kill -STOP {stopped}"));
    assert_eq!(a.reload(), None);
    assert_ne!(owner(), stopped, "another one owns it");
    says(&mut stream).unwrap();
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    assert_eq!(standing(&world), whole);
}

#[test]
fn one_ip_version_that_cannot_be_put_back_does_not_keep_the_other_away() {
    let _alone = alone();
    if !root_or_skip("IPv6 switched off") {
        return;
    }
    let world = World::new("nosix");
    let tun = "[tun]\naddresses = [\"10.99.0.1/24\", \"fd00:99::1/64\"]";
    let (a, _b) = world.start_both("on_failure = \"closed\"", &format!("{INTERCEPT}\n{tun}"));
    world.serve(7, echo);
    let whole = standing(&world);
    let four = || -> Vec<String> {
        let of = |line: &&str| !["fd00:", "pref medium", "inet6"].iter().any(|word| line.contains(word));
        let mut lines: Vec<String> = standing(&world).lines().filter(of).map(str::to_owned).collect();
        lines.dedup();
        lines
    };
    let (before, took) = (
        four(),
        "ip rule del priority 4780; ip rule del priority 4781; ip route flush table 4780; ip route flush table 4781",
    );
    let taken_away = |why: &str| {
        world.sh(&world.a, took);
        wait_for(why, || four() == before);
        says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    };
    let set =
        |key: &str, value: u8| world.sh(&world.a, &format!("sysctl -qw net.ipv6.conf.{key}.disable_ipv6={value}"));
    set("all", 1);
    a.wait_log("IPv6 is switched off on this host");
    taken_away("IPv4 while IPv6 is off");
    assert_eq!(a.counter("state_missing"), 0);
    set("all", 0);
    a.wait_log("IPv6 is switched on again");
    wait_for("all", || standing(&world) == whole);
    // Refused for ever: on one interface only.
    set("lo", 1);
    a.wait_log("cannot be put back");
    let failed = a.counter("state_missing");
    taken_away("IPv4 beside what fails");
    taken_away("IPv4 beside what fails, again");
    assert_eq!(a.counter("state_missing"), failed, "told once");
    assert_eq!(a.log().matches("cannot be put back").count() as u64, failed);
    set("lo", 0);
}

/// Our own datagrams never enter our own device, also while what leads there is made anew.
#[test]
fn rules_that_stand_are_not_taken_away_while_others_are_put_back() {
    let _alone = alone();
    if !root_or_skip("make before break") {
        return;
    }
    let world = World::new("gaps");
    let (a, _b) = world.start_both("", &format!("{INTERCEPT}\nlocal = true\n[tun]"));
    let heard = world.dir.join("rules");
    let mut command = std::process::Command::new("ip");
    command.args(["monitor", "rule"]).stdout(std::fs::File::create(&heard).unwrap());
    let mut monitor = world.a.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
    let hears = |mark: &str| {
        wait_for("word of rules", || {
            world.sh(&world.a, &format!("ip rule add fwmark {mark} lookup 99 priority 9; ip rule del priority 9"));
            std::fs::read_to_string(&heard).unwrap().contains(mark)
        });
    };
    hears("0x9");
    let before = a.counter("state_put_back");
    world.sh(&world.a, "ip rule del iif lan0 priority 4782");
    wait_for("the rule", || a.counter("state_put_back") > before);
    hears("0xa");
    let _ = monitor.kill();
    let _ = monitor.wait();
    let said = std::fs::read_to_string(&heard).unwrap();
    assert!(said.contains("4782:"), "{said}");
    assert!(!said.lines().any(|line| line.starts_with("Deleted 4781:")), "{said}");
}

#[test]
fn attached_networks_under_a_covering_route_stay_reachable() {
    let _alone = alone();
    if !root_or_skip("attached networks") {
        return;
    }
    let world = World::new("attached");
    // Another network beside the gateway, and one that comes later.
    world.cable(&world.a, "dmz0", "7.0.1", &world.server, "dmz0", "7.0.2");
    world.sh(&world.server, "ip route add 10.1.0.0/24 via 10.7.0.1; ip route add fd00:1::/64 via fd00:7::1");
    let config = world.write(
        "a",
        Outside::V4,
        "on_failure = \"closed\"",
        &format!("[intercept]\n{INTERCEPT}\nlocal = true\n[tun]"),
    );
    edit(&config, "\"10.3.0.0/24\", \"fd00:3::/64\"", "\"0.0.0.0/0\", \"::/0\"");
    let _b = world.start("b", "source = \"keep\"", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    world.serve(7, echo);
    let taken = a.counter("connections_taken");
    for (ns, target) in [(&world.client, "10.7.0.2:7"), (&world.client, "[fd00:7::2]:7"), (&world.a, "10.7.0.2:7")] {
        says(&mut world.connect(ns, target).unwrap()).unwrap();
    }
    let ping =
        |target: &str| world.sh(&world.client, &format!("ping -c 1 -W 2 {target} || true")).contains(" 1 received");
    assert!(ping("10.7.0.2"));
    world.cable(&world.a, "late0", "8.0.1", &world.server, "late0", "8.0.2");
    wait_for("the new network", || world.sh(&world.a, "ip route show table 4781").contains("throw 10.8.0.0/24"));
    wait_for("its TCP", || world.sh(&world.a, "nft list table inet wavelane").contains("10.8.1.0"));
    assert!(ping("10.8.0.2"));
    says(&mut world.connect(&world.client, "10.8.0.2:7").unwrap()).unwrap();
    assert_eq!(a.counter("connections_taken"), taken);
    a.wait_log("this host is attached to 10.8.0.0/24 (late0)");
    // A network that hands out public addresses takes none out of the tunnel by that, unless that is asked for.
    world.sh(&world.a, "ip addr add 198.51.100.1/24 dev dmz0; ip -6 addr add 2001:db8:9::1/64 dev dmz0 nodad");
    world.sh(&world.server, "ip addr add 198.51.100.2/24 dev dmz0");
    a.wait_log("warning: this host is attached to 198.51.100.0/24 (dmz0)");
    let routes = || world.sh(&world.a, "ip route show table 4781; ip -6 route show table 4781");
    wait_for("the word of it", || a.log().contains("2001:db8:9::/64 (dmz0)"));
    assert!(!routes().contains("198.51.100.") && !routes().contains("2001:db8:9:"), "{}", routes());
    assert!(world.connect(&world.client, "198.51.100.2:7").is_err());
    a.wait_log("peer 'b' does not let us reach 198.51.100.2:7");
    let taken = a.counter("connections_taken");
    edit(&config, "[gateway]", "[gateway]\nattached = \"all\"");
    assert_eq!(a.reload(), None);
    wait_for("its route", || routes().contains("throw 198.51.100.0/24"));
    a.wait_log("this host is attached to 198.51.100.0/24 (dmz0), 2001:db8:9::/64 (dmz0): what goes there goes plainly");
    says(&mut world.connect(&world.client, "198.51.100.2:7").unwrap()).unwrap();
    assert_eq!(a.counter("connections_taken"), taken);
}

#[test]
fn an_address_that_comes_after_the_start_is_waited_for() {
    let _alone = alone();
    if !root_or_skip("late address") {
        return;
    }
    let world = World::new("late");
    let _b = world.start("b", "", "");
    let config = world.write(
        "a",
        Outside::V4,
        "listen = \"10.2.0.9:4780\"\nmetrics = \"10.1.0.9:9478\"",
        "[[forward]]\nlisten = \"10.1.0.9:7\"\nto = \"10.3.0.2:7\"\nvia = \"b\"",
    );
    world.serve(7, echo);
    let a = world.spawn("a", &config);
    a.wait_log("address 10.2.0.9 is not this machine's now");
    a.wait_log("address 10.1.0.9 is not this machine's now, so no figures are served at 10.1.0.9:9478");
    world.sh(&world.a, "ip addr add 10.2.0.9/24 dev wan0; ip addr add 10.1.0.9/24 dev lan0");
    a.wait_log("address 10.2.0.9 is there");
    a.wait_log("address 10.1.0.9 is there: figures are served at 10.1.0.9:9478");
    let mut page = String::new();
    let mut asked = world.connect(&world.client, "10.1.0.9:9478").unwrap();
    asked.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    asked.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200 OK") && page.contains("wavelane_"), "{page}");
    a.wait_log("peer 'b' is up");
    says(&mut world.connect(&world.client, "10.1.0.9:7").unwrap()).unwrap();
}

#[test]
fn a_firewall_in_the_way_is_named_with_its_remedy() {
    let _alone = alone();
    if !root_or_skip("the host's firewall") {
        return;
    }
    let world = World::new("walls");
    // As ufw and Docker set them up.
    let strict = "iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT; iptables -A INPUT -p udp --dport 4780 -j ACCEPT; \
         iptables -P INPUT DROP; iptables -P FORWARD DROP";
    let (a, _b) = world.start_both("", &format!("{INTERCEPT}\n[tun]"));
    world.serve(7, echo);
    world.sh(&world.a, strict);
    a.wait_log("chain INPUT of table ip filter");
    a.wait_log("chain FORWARD of table ip filter");
    let said = a.status().to_string();
    assert!(said.contains("nft insert rule ip filter INPUT meta mark 0x574c0002 accept"), "{said}");
    let config = world.dir.join("a.toml");
    let checked = world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap();
    assert!(checked.contains("chain INPUT of table ip filter"), "{checked}");
    // The remedies, as the lines say.
    for line in a.status().hindrances {
        for remedy in line.split('`').filter(|part| part.starts_with("nft insert")) {
            world.sh(&world.a, remedy);
        }
    }
    wait_for("nothing in the way", || a.status().hindrances.is_empty());
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    // Single rules, one of them for some ports only.
    let single =
        "iptables -I INPUT -i lan0 -p tcp -m tcp --dport 1:1023 -j DROP; iptables -I FORWARD -i lan0 -j REJECT";
    world.sh(&world.a, single);
    a.wait_log("drops some of the connections that are taken from lan0");
    a.wait_log("drops packets between lan0 and wavelane0");
    for line in a.status().hindrances {
        for remedy in line.split('`').filter(|part| part.starts_with("nft insert")) {
            world.sh(&world.a, remedy);
        }
    }
    wait_for("nothing in the way again", || a.status().hindrances.is_empty());
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    // What we send, what is led away, what is dropped at the device, and another's policy rule.
    let around = "iptables -A OUTPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT; iptables -P OUTPUT DROP; \
         iptables -t nat -A PREROUTING -i lan0 -p tcp --dport 7 -j REDIRECT --to-ports 9; \
         nft add table netdev wall; nft 'add chain netdev wall in { type filter hook ingress device \"lan0\" priority 0; }'; \
         nft add rule netdev wall in ip protocol tcp drop; ip rule add pref 100 iif lan0 lookup 77";
    world.sh(&world.a, around);
    a.wait_log("'policy drop' in chain OUTPUT of table ip filter drops our datagrams to UDP port 4780 of peers");
    a.wait_log("of table ip nat leads away some of the connections that come from lan0");
    a.wait_log("of table netdev wall drops connections that come from lan0");
    a.wait_log("iif lan0 lookup 77");
    world.sh(&world.a, "ip rule del pref 100");
    for line in a.status().hindrances {
        for remedy in line.split('`').filter(|part| part.starts_with("nft insert")) {
            world.sh(&world.a, remedy);
        }
    }
    wait_for("nothing in the way at last", || a.status().hindrances.is_empty());
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
}

/// Rules before ours and beside the ways that a firewall for forwarded traffic thinks of.
#[test]
fn rules_before_ours_against_the_uplink_and_against_answers_are_named() {
    let _alone = alone();
    if !root_or_skip("rules before ours") {
        return;
    }
    let world = World::new("before");
    let (a, _b) = world.start_both("", INTERCEPT);
    world.serve(7, echo);
    let chain = |hook: &str| {
        format!(
            "nft add table inet wall; nft 'add chain inet wall it {{ type filter hook {hook}; }}'; nft add rule inet wall it "
        )
    };
    let device = "nft add table netdev wall; nft 'add chain netdev wall it { type filter hook ingress device \"wan0\" priority 0; }'; \
         nft add rule netdev wall it udp dport 4780 drop";
    let off = "nft delete table inet wall";
    for (set, told, lifted) in [
        (
            "iptables -t raw -I PREROUTING -i lan0 -p tcp --dport 7 -j ACCEPT".to_owned(),
            "lets some SYNs from lan0 pass unheld",
            "iptables -t raw -D PREROUTING -i lan0 -p tcp --dport 7 -j ACCEPT",
        ),
        (
            "iptables -t raw -I PREROUTING -j ACCEPT".to_owned(),
            "lets SYNs from lan0 pass unheld",
            "iptables -t raw -D PREROUTING -j ACCEPT; iptables -t raw -A PREROUTING -j ACCEPT",
        ),
        (
            device.to_owned(),
            "of table netdev wall drops datagrams of peers to UDP port 4780",
            "nft delete table netdev wall",
        ),
        (
            chain("prerouting priority raw") + "udp dport 4780 drop",
            "wall drops datagrams of peers to UDP port 4780",
            off,
        ),
        (
            chain("input priority 10") + "ip saddr 10.2.0.0/24 drop",
            "wall drops datagrams of peers to UDP port 4780",
            off,
        ),
        (chain("output priority 0") + "tcp sport 7 drop", "wall drops some of what we answer by lan0", off),
        (
            "iptables -t raw -I PREROUTING -s 10.1.0.2 -j ACCEPT".to_owned(),
            "lets some SYNs from lan0 pass unheld",
            "iptables -t raw -D PREROUTING -s 10.1.0.2 -j ACCEPT",
        ),
        (
            device.replace("ingress", "egress"),
            "of table netdev wall drops our datagrams to UDP port 4780 of peers",
            "nft delete table netdev wall",
        ),
        (
            "tc qdisc add dev wan0 clsact; tc filter add dev wan0 egress pref 9 u32 match ip protocol 6 0xff action mirred egress redirect dev lan0"
                .to_owned(),
            "a filter of tc at the egress of wan0 leads what it matches to lan0",
            "tc qdisc del dev wan0 clsact",
        ),
    ] {
        world.sh(&world.a, &set);
        wait_for(told, || a.status().hindrances.iter().any(|line| line.contains(told)));
        if set.starts_with("tc ") {
            let config = world.dir.join("a.toml");
            let checked = world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap();
            assert!(checked.contains(told), "{checked}");
        }
        world.sh(&world.a, lifted);
        wait_for(lifted, || a.status().hindrances.is_empty());
    }
    a.wait_log("lets SYNs from lan0 pass unheld");
    wait_for("the peer", || a.status().peers[0].up && !a.status().peers[0].given_back);
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
}

/// What is no rule that drops and yet breaks what is taken: checks of the reverse path, other marks, other ways, and what an interface may.
#[test]
fn settings_that_lead_astray_are_named_with_their_remedy() {
    let _alone = alone();
    if !root_or_skip("the host's ways") {
        return;
    }
    let world = World::new("astray");
    let (a, _b) = world.start_both("", &format!("{INTERCEPT}\n[tun]"));
    world.serve(7, echo);
    let works = || says(&mut world.connect(&world.client, "[fd00:3::2]:7").unwrap()).unwrap();
    // The first as firewalld has it. What other programs mark for themselves is no concern of ours.
    let around = "nft add table inet wall; nft 'add chain inet wall pre { type filter hook prerouting priority filter + 10; }'; \
         nft add rule inet wall pre meta nfproto ipv6 fib saddr . mark . iif oif missing drop; \
         iptables -t raw -A PREROUTING -m rpfilter --invert -j DROP; \
         nft add table ip marks; nft 'add chain ip marks pre { type filter hook prerouting priority mangle + 10; }'; \
         nft add rule ip marks pre iifname lan0 meta mark set ct mark; \
         ip rule add pref 100 to 10.0.0.0/8 lookup main; ip rule add pref 101 from 10.1.0.0/24 lookup 77; \
         ip rule add pref 102 fwmark 1 lookup 77; sysctl -qw net.ipv4.conf.lan0.forwarding=0";
    world.sh(&world.a, around);
    for told in [
        "in chain pre of table inet wall drops connections that are taken from lan0, which time out",
        "in chain PREROUTING of table ip raw drops packets of peers that come by wavelane0",
        "in chain pre of table ip marks changes the mark of connections that are taken from lan0",
        "the rule '100: from all to 10.0.0.0/8 lookup main'",
        "the rule '101: from 10.1.0.0/24 lookup 77'",
        "net.ipv4.conf.lan0.forwarding is 0",
    ] {
        a.wait_log(told);
    }
    assert!(!a.log().contains("fwmark 0x1 "), "{}", a.log());
    let config = world.dir.join("a.toml");
    let checked = world.a.run(move || wavelane_daemon::commands::check_config(&config).unwrap()).unwrap();
    for line in a.status().hindrances {
        assert!(checked.contains(&line), "{line} is not in: {checked}");
    }
    world.sh(&world.a, "ip rule del pref 100; ip rule del pref 101");
    let remedies = || {
        for line in a.status().hindrances {
            let runs = |part: &&str| part.starts_with("nft insert") || part.starts_with("sysctl -w");
            line.split('`').filter(runs).for_each(|remedy| drop(world.sh(&world.a, remedy)));
        }
    };
    remedies();
    wait_for("nothing in the way", || a.status().hindrances.is_empty());
    works();
    // Of a setting nobody gives notice.
    world.sh(&world.a, "sysctl -qw net.ipv4.conf.lan0.src_valid_mark=1");
    a.wait_log("net.ipv4.conf.lan0.src_valid_mark is 1");
    remedies();
    wait_for("nothing in the way again", || a.status().hindrances.is_empty());
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
}

#[test]
fn rules_of_the_older_iptables_are_read_too() {
    let _alone = alone();
    if !root_or_skip("iptables-legacy") {
        return;
    }
    let world = World::new("older");
    let rules = "iptables-legacy -A INPUT -i lan0 -p tcp -j DROP; iptables-legacy -P FORWARD DROP";
    if world.sh(&world.a, &format!("({rules}) 2>&1 && echo done || true")).trim() != "done" {
        return eprintln!("SKIPPED (1 test): this host has no iptables-legacy, or its kernel no ip_tables");
    }
    let (a, _b) = world.start_both("", &format!("{INTERCEPT}\n[tun]"));
    world.serve(7, echo);
    let said = a.status().hindrances.join("\n");
    assert!(said.contains("chain INPUT of table ip filter of iptables-legacy drops connections"), "{said}");
    assert!(said.contains("chain FORWARD of table ip filter of iptables-legacy drops what none"), "{said}");
    for line in a.status().hindrances {
        for remedy in line.split('`').filter(|part| part.starts_with("iptables-legacy ")) {
            world.sh(&world.a, remedy);
        }
    }
    wait_for("nothing in the way", || a.status().hindrances.is_empty());
    says(&mut world.connect(&world.client, "10.3.0.2:7").unwrap()).unwrap();
    // Their changes are seen without notice.
    world.sh(&world.a, "iptables-legacy -I INPUT -i lan0 -p tcp -j DROP");
    wait_for("word of it", || a.status().hindrances.len() == 1);
}

/// Neither side hangs, and both serve as many as they have descriptors for, are heard meanwhile, and serve others afterwards.
#[test]
fn with_few_descriptors_some_are_served_and_nothing_else_fails() {
    let _alone = alone();
    if !root_or_skip("few descriptors") {
        return;
    }
    let world = World::new("fds");
    world.serve(7, echo);
    let config = world.write("a", Outside::V4, "on_failure = \"closed\"", &format!("[intercept]\n{INTERCEPT}\n[tun]"));
    world.write("b", Outside::V4, "source = \"keep\"", "");
    let limited = |name: &str, files: &str| {
        let (_, log, control) = daemon_command(&world.dir.join(format!("{name}.toml")));
        let mut command = std::process::Command::new("prlimit");
        command.arg(format!("--nofile={files}:{files}")).arg(DAEMON).arg("--config");
        command.arg(log.with_extension("toml")).stderr(std::fs::File::create(&log).unwrap());
        let ns = if name == "a" { &world.a } else { &world.b };
        let child = ns.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap();
        Daemon { child, log, control, own_folder: None }
    };
    for (files_of_a, files_of_b) in [("128", "1024"), ("1024", "128")] {
        let (b, a) = (limited("b", files_of_b), limited("a", files_of_a));
        a.wait_log("peer 'b' is up");
        let target: std::net::SocketAddr = "10.3.0.2:7".parse().unwrap();
        let connect = move |_| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&target.into());
            socket
        };
        let many: Vec<socket2::Socket> = world.client.run(move || (0..60).map(connect).collect()).unwrap();
        let mut served = std::collections::BTreeSet::new();
        wait_for("some to be served", || {
            for (i, socket) in many.iter().enumerate() {
                let _ = socket.send(b"x");
                if (&mut &*socket).read(&mut [0; 64]).is_ok_and(|n| n > 0) {
                    served.insert(i);
                }
            }
            served.len() >= 12
        });
        let status = a.status();
        assert!(status.door.connections <= 32 && served.len() <= 32, "{} of {}", served.len(), status.door.connections);
        // What runs tools of the system still can.
        world.sh(&world.a, "ip rule del priority 4780");
        wait_for("the rule", || a.counter("state_put_back") == 1);
        drop(many);
        let after = || world.connect(&world.client, "10.3.0.2:7").and_then(|mut stream| says(&mut stream));
        wait_for("another", || after().is_ok());
        for daemon in [&a, &b] {
            let log = daemon.log();
            assert!(!log.contains("Too many open files") && !log.contains("IPv6 is switched off"), "{log}");
        }
    }
    edit(&config, "[gateway]", "[gateway]\nflows_max = 4096");
    let a = limited("a", "128");
    a.wait_log("flows_max = 4096, but this process may open files for 16 connections only");
}

/// Docker switches br_netfilter on: then the rules see what hosts on one bridge send each other.
#[test]
fn hosts_on_one_bridge_reach_each_other_under_a_route_for_everything() {
    let _alone = alone();
    if !root_or_skip("bridge neighbours") {
        return;
    }
    let world = World::new("bridge");
    world.sh(&world.a, "ip link add br0 type bridge; ip link set br0 up; ip addr add 10.8.0.1/24 dev br0");
    // Neighbours with public addresses, none of them in a network of the gateway.
    for (ns, port, address) in [(&world.client, "p1", "203.0.113.1"), (&world.server, "p2", "203.0.113.2")] {
        let pid = ns.path().display().to_string();
        world.sh(
            &world.a,
            &format!("ip link add {port} type veth peer name pub0 netns {pid}; ip link set {port} master br0 up"),
        );
        world.sh(ns, &format!("ip link set pub0 up; ip addr add {address}/24 dev pub0"));
    }
    if world.sh(&world.a, "sysctl -w net.bridge.bridge-nf-call-iptables=1 2>&1 || true").contains("cannot") {
        return eprintln!("SKIPPED (1 test): this kernel has no br_netfilter");
    }
    let rest = "[intercept]\ninterfaces = [\"lan0\", \"br0\"]\n[tun]";
    let config = world.write("a", Outside::V4, "on_failure = \"closed\"", rest);
    edit(&config, "\"10.3.0.0/24\", \"fd00:3::/64\"", "\"0.0.0.0/0\", \"::/0\"");
    let _b = world.start("b", "source = \"keep\"", "");
    let mut a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    world.serve(7, echo);
    let among = |when: &str| {
        let mut stream = world.connect(&world.client, "203.0.113.2:7").unwrap_or_else(|e| panic!("{when}: {e}"));
        says(&mut stream).unwrap_or_else(|e| panic!("{when}: {e}"));
        let pinged = world.sh(&world.client, "ping -c 1 -W 2 203.0.113.2 2>&1 || true");
        assert!(pinged.contains(" 1 received"), "{when}: {pinged}");
    };
    among("at the start");
    let said = a.status().hindrances.join("\n");
    assert!(said.contains("TCP that comes over the bridge br0 is taken twice"), "{said}");
    let whole = world.sh(&world.a, "nft -s list table inet wavelane_closed");
    assert!(whole.contains("ether daddr"), "{whole}");
    world.sh(&world.a, "nft flush ruleset");
    wait_for("the rules", || world.sh(&world.a, "nft -s list table inet wavelane_closed 2>&1 || true") == whole);
    among("after a flush");
    // The link addresses by which our own frames are told from others' are followed.
    world.sh(&world.a, "ip link set br0 address 02:00:00:00:00:77");
    wait_for("the new address", || {
        world.sh(&world.a, "nft list table inet wavelane_closed").contains("02:00:00:00:00:77")
    });
    among("after a change of address");
    // Switched off and on again.
    world.sh(&world.a, "sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0");
    wait_for("no such rule", || !world.sh(&world.a, "nft list table inet wavelane_closed").contains("ether daddr"));
    among("without br_netfilter");
    world.sh(&world.a, "sysctl -qw net.bridge.bridge-nf-call-iptables=1");
    wait_for("the rule", || world.sh(&world.a, "nft list table inet wavelane_closed").contains("ether daddr"));
    a.kill();
    among("while closed");
    world.sh(&world.client, "ip route add 198.51.100.0/24 via 203.0.113.9 dev pub0; ip addr add 10.8.0.2/24 dev pub0; ip route add 198.51.101.0/24 via 10.8.0.1");
    assert!(world.connect(&world.client, "198.51.101.7:7").is_err(), "what is routed is refused");
}

#[test]
fn what_a_peer_does_not_serve_is_told_to_the_side_that_asks() {
    let _alone = alone();
    if !root_or_skip("a refusal at the asking side") {
        return;
    }
    let world = World::new("asks");
    let config = world.write("a", Outside::V4, "", &format!("[intercept]\n{INTERCEPT}"));
    edit(&config, "\"10.3.0.0/24\"", "\"10.3.0.0/24\", \"203.0.113.0/24\"");
    let _b = world.start("b", "source = \"keep\"", "");
    let a = world.spawn("a", &config);
    a.wait_log("peer 'b' is up");
    assert!(world.connect(&world.client, "203.0.113.9:80").is_err());
    a.wait_log("peer 'b' does not let us reach 203.0.113.9:80");
    assert!(a.counter("refused_by_peer") > 0);
}

#[test]
fn connections_that_are_signed_end_to_end_are_left_unsplit() {
    let _alone = alone();
    if !root_or_skip("TCP-MD5") {
        return;
    }
    let world = World::new("md5");
    let (a, _b) = world.start_both("", INTERCEPT);
    // struct tcp_md5sig of linux/tcp.h.
    let signed = "import socket, struct, sys
def sign(s, peer):
    key = b'secret'
    address = struct.pack('=H2s4s120s', socket.AF_INET, b'', socket.inet_aton(peer), b'')
    try: s.setsockopt(socket.IPPROTO_TCP, 14, address + struct.pack('=BBHI80s', 0, 0, len(key), 0, key))
    except OSError: print('no TCP-MD5', flush=True); sys.exit()
s = socket.socket()
";
    let run = |ns: &wavelane_host::netns::Netns, script: String| {
        let mut command = std::process::Command::new("python3");
        command.arg("-c").arg(script).stdout(std::process::Stdio::piped());
        ns.spawn(command, wavelane_host::netns::ChildEnd::Kill).unwrap().unwrap()
    };
    let mut server = run(
        &world.server,
        format!(
            "{signed}sign(s, '10.1.0.2'); s.bind(('10.3.0.2', 179)); s.listen(); print('listens', flush=True); c, _ = s.accept(); c.send(b'signed'); c.recv(1)"
        ),
    );
    let mut said = [0; 7];
    server.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    if &said != b"listens" {
        let _ = server.wait();
        return eprintln!("SKIPPED (1 test): this kernel has no TCP-MD5");
    }
    let client = run(
        &world.client,
        format!(
            "{signed}sign(s, '10.3.0.2'); s.settimeout(8); s.connect(('10.3.0.2', 179)); print(s.recv(6).decode(), flush=True)"
        ),
    );
    let answer = client.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout).trim(), "signed");
    assert_eq!(a.counter("connections_taken"), 0);
    let _ = server.kill();
    let _ = server.wait();
}
