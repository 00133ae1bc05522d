#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

fn config(rest: &str) -> Config {
    let dir = std::env::temp_dir().join(format!("wavelane-single-{}-{}", std::process::id(), rest.len()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    crate::keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
    let text = format!(
        "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"{}\"\nroutes = [\"10.3.0.0/24\", \"10.4.0.0/24\"]\n{rest}",
        crate::keys::to_base64(&[9; 32])
    );
    let config = Config::parse(&text, "x", &dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    config
}

/// What is said of these rules at a hook, beside chains that they lead to.
fn said(config: &Config, hook: &str, rules: &[&str]) -> Vec<String> {
    said_at(config, &format!("{hook} priority filter"), rules)
}

fn said_at(config: &Config, hook: &str, rules: &[&str]) -> Vec<String> {
    let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
    let listing = format!(
        "table ip filter {{\n\tset x {{\n\t\ttype ipv4_addr\n\t}}\n\n\tchain BASE {{\n\t\ttype filter hook {hook}; policy accept;\n{rules}\t}}\n\n\tchain FOREIGN {{\n\t\tfib daddr type local return\n\t\tlimit rate 3/minute counter log prefix \"[X] drop \"\n\t\tcounter drop\n\t}}\n\n\tchain BANS {{\n\t\tip saddr 192.0.2.7 drop\n\t\treturn\n\t}}\n\n\tchain LOOP {{\n\t\tjump LOOP\n\t\tjump LOOP\n\t}}\n}}\n"
    );
    findings(config, (&listing, Kind::Nft), &[], &[], &Reached::new())
}

#[test]
fn single_rules_that_eat_what_is_taken_are_named() {
    let lan = config("[intercept]\ninterfaces = [\"lan0\"]");
    for (rules, some) in [
        (&["iifname \"lan0\" counter drop"][..], false),
        (
            &[
                "ct state established,related accept",
                "meta l4proto tcp counter packets 1 bytes 40 reject with tcp reset",
            ],
            false,
        ),
        (&["iifname { \"lan0\", \"lan1\" } tcp dport { 22, 80-90 } log prefix \"a drop \" drop comment \"x\""], true),
        (&["iifname \"lan*\" tcp dport 80 accept", "iifname \"lan*\" drop"], false),
        (&["ip daddr 10.3.0.0/24 drop"], true),
        (&["ip daddr 10.0.0.0/8 ip protocol tcp ct state new drop"], false),
        (&["iifname != \"lo\" jump FOREIGN"], false),
        (&["tcp dport 22 jump BANS", "goto FOREIGN"], false),
        (&["meta mark 0x574c0001 accept", "meta mark & 0xffff0000 == 0x574c0000 drop"], false),
    ] {
        let found = said(&lan, "input", rules);
        assert_eq!(found.len(), 1, "{rules:?}: {found:?}");
        assert!(found[0].contains("`nft insert rule ip filter BASE meta mark 0x574c0002 accept`"), "{found:?}");
        assert_eq!(found[0].contains("drops some of the connections"), some, "{found:?}");
    }
    for rules in [
        &["meta mark 0x574c0002 accept", "iifname \"lan0\" drop"][..],
        &["meta mark & 0xffff0000 == 0x574c0000 accept", "iifname \"lan0\" drop"],
        &["meta mark 0x574c0002/16 counter accept", "iifname \"lan0\" drop"],
        &["iifname \"wan0\" drop", "iifname != \"lan0\" drop", "oifname \"x\" ip saddr 10.0.0.1 drop"],
        &["ct state invalid drop", "meta l4proto sctp drop", "icmp type echo-request drop", "ip saddr @x drop"],
        &["ct state vmap { established : accept, invalid : drop }", "tcp flags & (syn | fin) == (syn | fin) drop"],
        &["limit rate over 10/second drop", "fib daddr type broadcast drop", "ip daddr 10.3.0.7 drop"],
        &["iifname vmap { \"lo\" : accept, \"lan0\" : jump BANS }", "meta l4proto { tcp, udp } drop"],
        // Which sources that is, is not known.
        &["ip saddr 10.1.0.0/24 accept", "iifname \"lan0\" drop"],
        &["jump BANS", "jump LOOP", "jump NOWHERE", "ip daddr 192.0.2.0/24 drop"],
    ] {
        assert_eq!(said(&lan, "input", rules), [""; 0], "{rules:?}");
    }
}

#[test]
fn rules_against_the_lanes_and_the_device_are_named() {
    let tun = config("[intercept]\ninterfaces = [\"lan0\"]\n[tun]");
    let found = said(&tun, "input", &["udp dport 4780 drop"]);
    assert!(found.len() == 1 && found[0].contains("BASE udp dport 4780 accept"), "{found:?}");
    assert_eq!(said(&tun, "input", &["udp dport 4780 accept", "meta l4proto udp drop"]), [""; 0]);
    assert_eq!(said(&tun, "input", &["udp dport != 4780 drop"]), [""; 0]);
    assert_eq!(said(&tun, "input", &["ct state vmap { established : accept }", "udp dport 4000-5000 drop"]), [""; 0]);
    let found = said(&tun, "input", &["iifname \"lo\" accept", "udp dport 4780 drop"]);
    assert_eq!(found.len(), 1, "a peer's datagrams come by no loopback device: {found:?}");
    for hook in ["prerouting priority raw", "prerouting priority filter"] {
        let found = said_at(&tun, hook, &["fib daddr type local udp dport 4000-5000 counter drop"]);
        assert!(found.len() == 1 && found[0].contains("drops datagrams of peers to UDP port 4780"), "{found:?}");
        assert!(found[0].contains("BASE udp dport 4780 accept`"), "{found:?}");
        assert_eq!(
            said_at(&tun, hook, &["udp dport 53 drop", "udp sport 4780 drop"]),
            [""; 0],
            "whose port, is not known"
        );
    }
    let dropped = ["ct state invalid drop", "iifname \"lan0\" meta l4proto tcp counter drop"];
    let found = said_at(&tun, "prerouting priority raw", &dropped);
    assert!(found.len() == 1 && found[0].contains("that come from lan0 before they are taken; run"), "{found:?}");
    assert!(found[0].contains("BASE iifname \"lan0\" meta l4proto tcp accept`"), "{found:?}");
    let found = said(&tun, "prerouting", &dropped);
    assert!(found.len() == 1 && found[0].contains("that are taken from lan0, which time out; run"), "{found:?}");
    for passes in [
        "iifname \"lan0\" tcp dport 25 drop",
        "iifname \"wan0\" drop",
        "fib daddr . iif type != { local, unicast } drop",
        "fib saddr . mark oif missing drop",
        "counter meta mark set mark or 0x4000",
        "meta mark set meta mark & 0x00ffffff",
        "tcp dport 25 meta mark set 0x00000007",
    ] {
        assert_eq!(said(&tun, "prerouting", &[passes]), [""; 0], "{passes}");
    }
    // Checks of the reverse path, as nft's users, `iptables -m rpfilter` and firewalld (IPv6_rpfilter=strict) have them.
    let lan = config("[intercept]\ninterfaces = [\"lan0\"]");
    for check in ["fib saddr . mark . iif oif missing drop", "fib saddr . mark . iif check missing counter drop"] {
        let found = said_at(&lan, "prerouting priority filter + 10", &[check]);
        assert!(found.len() == 1 && found[0].contains("taken from lan0"), "{found:?}");
        assert!(found[0].contains("BASE meta mark 0x574c0002 accept`"), "{found:?}");
        assert_eq!(said_at(&lan, "prerouting priority mangle - 10", &[check]), [""; 0], "it is not marked by then");
        assert_eq!(said(&lan, "prerouting", &[&format!("meta nfproto ipv6 {check}")]), [""; 0]);
    }
    assert_eq!(said(&lan, "prerouting", &["fib saddr . iif oif 0 counter drop"]), [""; 0]);
    let found = said_at(&tun, "prerouting priority raw", &["fib saddr . iif oif 0 counter drop"]);
    assert!(found.len() == 1 && found[0].contains("drops packets of peers that come by wavelane0"), "{found:?}");
    assert!(found[0].contains("BASE iifname \"wavelane0\" accept`"), "{found:?}");
    for change in ["iifname \"lan0\" counter meta mark set ct mark", "meta mark set 0x00000007"] {
        let found = said_at(&lan, "prerouting priority mangle + 10", &[change]);
        assert!(found.len() == 1 && found[0].contains("changes the mark of connections that are taken"), "{found:?}");
        assert_eq!(said_at(&lan, "prerouting priority raw", &[change]), [""; 0]);
    }
    let asleep = "table ip off {\n\tflags dormant\n\tchain in {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tudp dport 4780 drop\n\t}\n}";
    assert_eq!(findings(&tun, (asleep, Kind::Nft), &[], &[], &Reached::new()), [""; 0]);
    assert_eq!(
        findings(&tun, (&asleep.replace("\tflags dormant\n", ""), Kind::Nft), &[], &[], &Reached::new()).len(),
        1
    );
    let calls = config("address = \"192.0.2.1:4780\"\n[intercept]\ninterfaces = [\"lan0\"]");
    assert_eq!(said(&calls, "input", &["ct state established accept", "meta l4proto udp drop"]), [""; 0]);
    for rule in ["ip saddr 192.0.2.0/24 drop", "ip saddr { 198.51.100.7, 192.0.2.1 } drop", "udp sport 4780 drop"] {
        for hook in ["input", "prerouting"] {
            let found = said(&calls, hook, &[rule]);
            assert!(found.len() == 1 && found[0].contains("drops datagrams of peers"), "{rule} {found:?}");
        }
    }
    for passes in
        ["ip saddr 198.51.100.0/24 drop", "ip saddr != 192.0.2.1 drop", "udp sport 53 drop", "ct state new drop"]
    {
        assert_eq!(
            said(&calls, "prerouting priority raw", &[&format!("meta l4proto udp {passes}")]),
            [""; 0],
            "{passes}"
        );
    }
    let found = said(&tun, "forward", &["iifname \"lan0\" reject with icmp port-unreachable"]);
    assert!(found.len() == 1 && found[0].contains("BASE oifname \"wavelane0\" accept`"), "{found:?}");
    let found = said(&tun, "forward", &["ip saddr 10.0.0.0/8 oifname \"lan0\" drop"]);
    assert!(found.len() == 1 && found[0].contains("packets between lan0 and wavelane0"), "{found:?}");
    assert_eq!(said(&tun, "forward", &["tcp dport 25 drop", "iifname \"docker0\" drop"]), [""; 0]);
}

#[test]
fn what_we_send_and_what_is_led_away_is_named() {
    let calls =
        config("address = \"192.0.2.1:4780\"\nallow_targets = [\"10.1.0.0/24\"]\n[intercept]\ninterfaces = [\"lan0\"]");
    for hook in ["output", "postrouting"] {
        let found = said(&calls, hook, &["udp dport 4780 drop"]);
        assert!(found.len() == 1 && found[0].contains("our datagrams to UDP port 4780 of peers"), "{found:?}");
        assert!(found[0].contains("BASE meta mark 0x574c0001 accept`"), "{found:?}");
        let found = said(&calls, hook, &["oifname \"lan0\" meta l4proto tcp drop"]);
        assert!(found.len() == 1 && found[0].contains("what we answer by lan0"), "{found:?}");
        for passes in [
            &["oifname \"lo\" drop", "ct state invalid drop", "tcp dport 25 drop", "udp dport 53 drop"][..],
            &["meta mark 0x574c0001 accept", "drop"],
        ] {
            assert_eq!(said(&calls, hook, passes), [""; 0], "{passes:?}");
        }
    }
    for (rule, what) in [
        ("tcp sport 443 counter reject with tcp reset", "drops some of what we answer by lan0"),
        ("ip saddr 10.3.0.128/25 drop", "drops some of what we answer by lan0"),
        ("ip saddr != 10.9.9.1 ip protocol tcp drop", "drops what we answer by lan0"),
        ("udp sport 4780 drop", "drops our datagrams to UDP port 4780 of peers"),
    ] {
        let found = said(&calls, "output", &[rule]);
        assert!(found.len() == 1 && found[0].contains(what), "{rule}: {found:?}");
    }
    // What is forwarded meets these, too, and is meant.
    assert_eq!(
        said(&calls, "postrouting", &["tcp sport 443 drop", "ip saddr 10.3.0.7 drop", "tcp sport 25 drop"]),
        [""; 0]
    );
    assert_eq!(said(&config("[intercept]\ninterfaces = [\"lan0\"]"), "output", &["udp dport 4780 drop"]), [""; 0]);
    // As of ufw's `deny outgoing`.
    let denied = |rules: &str| {
        let listing = format!(
            "table ip filter {{\n\tchain OUTPUT {{\n\t\ttype filter hook output priority filter; policy drop;\n\t\toifname \"lo\" accept\n\t\tct state related,established accept\n{rules}\t}}\n}}\n"
        );
        findings(&calls, (&listing, Kind::Nft), &[], &[], &Reached::new())
    };
    let found = denied("");
    assert!(found.len() == 2 && found.iter().all(|line| line.contains("'policy drop' in chain OUTPUT")), "{found:?}");
    assert_eq!(denied("\t\tmeta mark 0x574c0001 accept\n"), [""; 0]);
    assert_eq!(
        denied("\t\tudp dport 4780 accept\n\t\ttcp dport { 80, 443 } accept\n"),
        [""; 0],
        "as the operator means it"
    );
    // At a device, and where rules lead elsewhere.
    let lan = config("[intercept]\ninterfaces = [\"lan0\"]");
    let at = |family: &str, device: &str, rule: &str| {
        let (hook, family) = family.split_once(' ').unwrap_or(("ingress", family));
        let listing = format!(
            "table {family} f {{\n\tchain in {{\n\t\ttype filter hook {hook} device \"{device}\" priority filter; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
        );
        findings(&lan, (&listing, Kind::Nft), &[], &[], &Reached::new())
    };
    for family in ["netdev", "inet"] {
        let found = at(family, "lan0", "ip protocol tcp drop");
        assert!(found.len() == 1 && found[0].contains("that come from lan0 before they are taken"), "{found:?}");
    }
    assert_eq!(at("netdev", "wan0", "ip protocol tcp drop"), [""; 0]);
    assert_eq!(at("netdev", "lan0", "ip saddr 192.0.2.7 drop"), [""; 0]);
    let found = at("egress netdev", "lan0", "ip protocol tcp counter drop");
    assert!(found.len() == 1 && found[0].contains("drops what we answer by lan0"), "{found:?}");
    assert!(found[0].contains("`nft insert rule netdev f in meta mark 0x574c0001 accept`"), "{found:?}");
    for passes in ["udp dport 4780 drop", "tcp sport 443 drop", "meta mark 0x574c0001 accept"] {
        assert_eq!(at("egress netdev", "lan0", passes), [""; 0], "{passes}");
    }
    assert_eq!(at("egress netdev", "wan0", "ip protocol tcp drop"), [""; 0]);
    // Several devices, as different releases of nft print them.
    for (devices, is_named) in [
        ("devices = { lan0, wan0 }", true),
        ("devices = { \"wan0\", \"lan0\" }", true),
        ("devices = { wan0, wan1 }", false),
        ("devices = { \"wan0\", \"lan01\" }", false),
    ] {
        for hook in ["ingress", "egress"] {
            let listing = format!(
                "table netdev t {{\n\tchain e {{\n\t\ttype filter hook {hook} {devices} priority filter; policy drop;\n\t}}\n}}\n"
            );
            let found = findings(&lan, (&listing, Kind::Nft), &[], &[], &Reached::new());
            assert_eq!(found.iter().any(|line| line.contains("lan0")), is_named, "{hook} {devices}: {found:?}");
        }
    }
    let led = |rule: &str| {
        let listing = format!(
            "table ip nat {{\n\tchain PREROUTING {{\n\t\ttype nat hook prerouting priority dstnat; policy accept;\n\t\t{rule}\n\t}}\n}}\n"
        );
        findings(&lan, (&listing, Kind::Nft), &[], &[], &Reached::new())
    };
    let found = led("iifname \"lan0\" tcp dport 80 counter packets 0 bytes 0 redirect to :3128");
    assert!(found.len() == 1 && found[0].contains("leads away some of the connections"), "{found:?}");
    let remedy = "nat PREROUTING iifname \"lan0\" ip daddr { 10.3.0.0/24, 10.4.0.0/24 } accept`";
    assert!(found[0].contains(remedy), "{found:?}");
    assert_eq!(led("ip daddr 10.0.0.0/8 ip protocol tcp dnat to 10.9.9.9").len(), 1);
    for passes in [
        "iifname \"wan0\" tcp dport 80 dnat to 10.0.0.2:80",
        "fib daddr type local tcp dport 80 redirect to :8080",
        "udp dport 53 redirect to :5353",
        "ip daddr 192.0.2.1 tcp dport 80 dnat to 10.0.0.2",
    ] {
        assert_eq!(led(passes), [""; 0], "{passes}");
    }
}

/// As `iptables -t raw` has them: ours at the end.
#[test]
fn what_lets_syns_pass_before_ours_is_named() {
    let lan = config("[intercept]\ninterfaces = [\"lan0\", \"lan1\"]");
    let around = ["10.1.0.0/24 dev lan0 proto kernel", "10.5.0.0/24 dev lan1 proto kernel"];
    let around: Vec<Attachment> = around.iter().filter_map(|line| Attachment::parse(line)).collect();
    let with = |before: &str, between: &str, after: &str| {
        let jump = |name: &str| {
            format!(
                "\t\tiifname \"{name}\" meta l4proto tcp tcp flags & (fin | syn | rst | ack) == syn counter jump WAVELANE\n"
            )
        };
        let listing = format!(
            "table ip raw {{\n\tchain WAVELANE {{\n\t\tip daddr 10.3.0.0/24 counter queue flags bypass to 4780\n\t}}\n\n\tchain OWN {{\n\t\tcounter accept\n\t}}\n\n\tchain PREROUTING {{\n\t\ttype filter hook prerouting priority raw; policy accept;\n\t\t{before}\n{}\t\t{between}\n{}\t\t{after}\n\t}}\n}}\n",
            jump("lan0"),
            jump("lan1")
        );
        findings(&lan, (&listing, Kind::Nft), &[], &around, &Reached::new())
    };
    for (rule, some) in [
        ("counter accept", false),
        ("ip saddr 10.1.0.7 accept", true),
        ("ip saddr { 10.1.0.7, 192.0.2.7 } tcp dport 80 counter return", true),
        ("ip saddr 10.1.0.0/24 accept", false),
        ("iifname \"lan0\" accept", false),
        ("meta l4proto tcp jump OWN", false),
        ("ip daddr 10.0.0.0/8 tcp dport { 80, 443 } counter goto OWN", true),
        ("iifname \"lan*\" ip daddr 10.3.0.0/24 accept", true),
        ("meta l4proto tcp counter return", false),
        ("tcp dport 443 return", true),
    ] {
        let found = with(rule, "", "");
        assert!(
            found[0].starts_with(&format!("the rule '{rule}' stands before ours in chain PREROUTING")),
            "{found:?}"
        );
        let of = |name: &str| found.iter().find(|line| line.contains(&format!("SYNs from {name} pass unheld")));
        assert!(of("lan0").is_some_and(|line| line.contains("lets some SYNs") == some), "{rule}: {found:?}");
        let of_one = rule.contains("\"lan0\"") || rule.contains(" 10.1.0.");
        assert_eq!(of("lan1").is_some(), !of_one, "{rule}: {found:?}");
    }
    let found = with("ip saddr 10.1.0.9 drop\n\t\tip saddr 10.1.0.7 accept", "", "");
    assert!(found.len() == 1 && found[0].starts_with("the rule 'ip saddr 10.1.0.7 accept' stands"), "{found:?}");
    let found = with("", "counter accept", "");
    assert!(found.len() == 1 && found[0].contains("iptables -t raw -A PREROUTING"), "{found:?}");
    for passes in
        ["ip saddr 192.0.2.7 accept", "iifname \"wan0\" accept", "udp dport 53 accept", "tcp dport 80 notrack"]
    {
        assert_eq!(with(passes, passes, "counter accept"), [""; 0], "{passes}");
    }
}

/// Peers with a name, and those that call us, come by devices that only the running gateway knows.
#[test]
fn rules_at_the_device_by_which_a_peer_without_a_written_address_is_reached_are_named() {
    let rules = ["iifname \"lo\" udp dport 4780 drop"];
    let listing = format!(
        "table ip wall {{\n\tchain it {{\n\t\ttype filter hook input priority filter; policy accept;\n\t\t{}\n\t}}\n}}\ntable netdev wall {{\n\tchain out {{\n\t\ttype filter hook egress device \"lo\" priority filter; policy accept;\n\t\tmeta l4proto udp drop\n\t}}\n}}\n",
        rules[0]
    );
    for (address, words) in [
        ("", "our datagrams to peers that call us"),
        ("address = \"b.example:4780\"\n", "our datagrams to UDP port 4780"),
    ] {
        let config = config(&format!("{address}[intercept]\ninterfaces = [\"lan0\"]"));
        let said = |reached: &Reached| findings(&config, (&listing, Kind::Nft), &[], &[], reached);
        assert_eq!(said(&Reached::new()), [""; 0], "{address}");
        let found = said(&Reached::from([[127, 0, 0, 1].into()]));
        assert!(found.len() == 2 && found[0].contains("drops datagrams of peers to UDP port 4780"), "{found:?}");
        assert!(found[1].contains(words), "{found:?}");
    }
    // Nothing is known of the ports of those that call.
    let calls = config("[intercept]\ninterfaces = [\"lan0\"]");
    let found = said(&calls, "output", &["ct state established udp sport 4780 drop"]);
    assert!(found.len() == 1 && found[0].contains("our datagrams to peers that call us"), "{found:?}");
    assert_eq!(said(&calls, "output", &["udp dport 53 drop", "ct state new drop"]), [""; 0]);
}
