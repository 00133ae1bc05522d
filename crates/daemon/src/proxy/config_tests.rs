#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

fn read(text: &str) -> Result<Settings, String> {
    parse(text, "x").map_err(|e| e.to_string())
}

/// A proxy with one more line, and a side with another.
fn with(line: &str, side: &str) -> String {
    format!("[proxy]\ninterfaces = [\"lan0\"]\n{line}\n[[proxy.side]]\nname = \"air\"\n{side}\n")
}

#[test]
fn an_interface_is_enough() {
    let proxy = read("[proxy]\ninterfaces = [\"lan0\"]").unwrap();
    assert_eq!((proxy.name.as_str(), proxy.connections_max, proxy.on_failure), ("proxy", 8_000, OnFailure::Open));
    assert_eq!(proxy.targets.len(), 2);
    assert!(proxy.sides.is_empty() && proxy.exempt == Exempt::default());
    assert!(is_proxy("[proxy]\ninterfaces = [") && !is_proxy("[gateway]\nname = \"x\"\n"));
}

#[test]
fn exemptions_are_networks_ports_and_code_points() {
    let proxy = read(&with("exempt = [\"10.0.0.0/8\", \"port 22\", \"dscp 46\", \"fd00::/8\"]", "")).unwrap();
    assert_eq!(
        (proxy.exempt.networks.len(), &proxy.exempt.ports[..], &proxy.exempt.dscps[..]),
        (2, &[22][..], &[46][..])
    );
    for wrong in ["port 0", "dscp 64", "port", "10.0.0.0", "10.7.0.9/16", "colour red"] {
        let said = read(&with(&format!("exempt = [{wrong:?}]"), "")).unwrap_err();
        assert!(said.contains(wrong), "{said}");
        assert!(wrong.contains('/') || said.contains("10.0.0.1/32") && said.contains("0 to 63"), "{said}");
    }
    let both = read(&with("targets = [\"10.0.0.0/8\"]\nexempt = [\"10.0.0.0/8\"]", "")).unwrap_err();
    assert!(both.contains("holds all of the target"), "{both}");
}

#[test]
fn what_this_version_lacks_is_refused_with_what_it_has() {
    for (line, words) in [
        ("engine = \"haproxy\"", &["haproxy", "\"kernel\"", "\"userspace\""][..]),
        ("engine = \"userspace\"\nconnections_max = 30001", &["connections_max", "30000"]),
        ("mode = \"mirror\"", &["mirror", "engine = \"userspace\"", "\"split\""]),
        ("mode = \"snoop\"", &["snoop", "engine = \"userspace\"", "\"split\""]),
        ("mode = \"tap\"", &["\"tap\" is none", "\"snoop\""]),
        ("placement = \"arp\"", &["proxy.routers", "is empty"]),
        ("placement = \"hub\"", &["\"hub\" is none", "\"bridge\", \"option\", \"tunnel\", \"arp\""]),
        ("placement = \"bridge\"\nengine = \"userspace\"", &["proxy.placement", "needs engine = \"kernel\""]),
        ("placement = \"option\"\nengine = \"userspace\"", &["proxy.placement", "needs engine = \"kernel\""]),
        ("placement = \"bridge\"\non_failure = \"closed\"", &["proxy.placement", "needs on_failure = \"open\""]),
        ("early = true", &["early"]),
        ("connections_max = 0", &["connections_max", "between"]),
        ("pool = \"1 kB\"", &["pool", "between"]),
        ("targets = []", &["targets"]),
        ("colour = 1", &["colour"]),
    ] {
        let said = read(&with(line, "")).unwrap_err();
        assert!(words.iter().all(|word| said.contains(word)), "{line}: {said}");
    }
    let tunnel = |peer: &str, networks: &str| format!("[[proxy.tunnel]]\npeer = \"{peer}\"\nnetworks = [{networks}]");
    let placed = "interfaces = [\"lan0\"]\nplacement = \"tunnel\"";
    for (tables, words) in [
        (String::new(), "hears nobody"),
        (tunnel("10.1.0.300", "\"10.9.0.0/24\""), "no IPv4 address of a host"),
        (tunnel("fd00::1", "\"10.9.0.0/24\""), "no IPv4 address of a host"),
        (tunnel("127.0.0.1", "\"10.9.0.0/24\""), "no IPv4 address of a host"),
        (tunnel("10.1.0.2", ""), "has 0 entries"),
        (tunnel("10.1.0.2", "\"fd00::/64\""), "of IPv6"),
        (tunnel("10.1.0.2", "\"127.0.0.0/8\""), "127.0.0.0/8 holds no hosts"),
        (tunnel("10.1.0.2", "\"224.0.0.0/4\""), "224.0.0.0/4 holds no hosts"),
        (tunnel("10.1.0.2", "\"10.9.0.0/24\", \"10.9.0.0/24\""), "10.9.0.0/24 twice"),
        (tunnel("10.1.0.2", "\"10.1.0.0/24\""), "holds the peer 10.1.0.2"),
        (tunnel("10.1.0.2", "\"0.0.0.0/0\""), "holds the peer 10.1.0.2"),
        (
            [tunnel("10.1.0.2", "\"10.9.0.0/24\""), tunnel("10.1.0.3", "\"10.9.0.7/32\"")].join("\n"),
            "each address is behind one",
        ),
        ([tunnel("10.1.0.2", "\"10.9.0.0/24\""), tunnel("10.1.0.2", "\"10.8.0.0/24\"")].join("\n"), "stands twice"),
        (
            (0..64).map(|n| tunnel(&format!("10.1.0.{n}"), "\"10.9.0.0/24\"")).collect::<Vec<_>>().join("\n"),
            "join networks",
        ),
    ] {
        let said = read(&format!("[proxy]\n{placed}\n{tables}")).unwrap_err();
        assert!(said.contains("proxy.tunnel") && said.contains(words), "{tables}: {said}");
    }
    let snoop = "engine = \"userspace\"\nmode = \"snoop\"";
    for (rest, words) in [
        (String::new(), "repairs only what is lost on the way to a side"),
        ("[[proxy.side]]\nname = \"air\"\nmss = 1000".into(), "'air' has knobs"),
    ] {
        let said = read(&format!("[proxy]\ninterfaces = [\"lan0\"]\n{snoop}\n{rest}")).unwrap_err();
        assert!(said.contains(words), "{said}");
    }
    for (networks, holds) in
        [("", true), ("networks = [\"10.1.0.0/24\"]", true), ("networks = [\"10.9.0.0/24\"]", false)]
    {
        let text = format!("[proxy]\ninterfaces = [\"lan0\"]\n{snoop}\n[[proxy.side]]\nname = \"air\"\n{networks}");
        assert_eq!(read(&text).unwrap().snoops(([10, 1, 0, 2], 5).into()), holds);
    }
    for (routers, clients, words) in [
        ("\"10.1.0.0/24\"", "\"10.1.0.0/24\"", "proxy.routers: '10.1.0.0/24' is no address of a host"),
        ("\"ff02::1\"", "\"10.1.0.0/24\"", "no address of a host"),
        ("\"0.0.0.0\"", "\"10.1.0.0/24\"", "no address of a host"),
        ("\"10.1.0.254\"", "", "proxy.clients: is empty"),
        ("\"10.1.0.254\"", "\"fd00::/64\"", "none of the IP version"),
        ("\"10.1.0.254\"", "\"10.1.0.254/32\"", "is a router"),
        ("\"10.1.0.0\", \"10.1.0.1\"", "\"10.1.0.0/31\"", "each of its addresses is a router"),
        ("\"10.1.0.254\", \"10.1.0.254\"", "\"10.1.0.0/24\"", "proxy.routers: 10.1.0.254 stands twice"),
        ("\"10.1.0.254\"", "\"10.1.0.0/24\", \"10.1.0.0/24\"", "proxy.clients: 10.1.0.0/24 stands twice"),
        ("\"10.1.0.254\"", "\"10.1.0.7\"", "not an address block"),
    ] {
        let said = read(&format!(
            "[proxy]\ninterfaces = [\"lan0\"]\nplacement = \"arp\"\nrouters = [{routers}]\nclients = [{clients}]"
        ));
        let said = said.unwrap_err();
        assert!(said.contains(words), "{routers} {clients}: {said}");
    }
    let said = read(&with("routers = [\"10.1.0.254\"]", "")).unwrap_err();
    assert!(said.contains("needs placement = \"arp\""), "{said}");
    let tables = tunnel("10.1.0.2", "\"10.9.0.0/24\"");
    let said = read(&format!("[proxy]\ninterfaces = [\"lan0\"]\n{tables}")).unwrap_err();
    assert!(said.contains("needs placement = \"tunnel\""), "{said}");
    assert!(read(&format!("[proxy]\n{placed}\nengine = \"userspace\"\n{tables}")).is_ok());
    for knob in [
        "ack_every = 4",
        "ack_delay = \"1 ms\"",
        "quick_acks = 0",
        "high = \"1 MiB\"",
        "low = \"1 MiB\"",
        "initial_window = 4",
        "rto_initial = \"1 s\"",
        "probe = \"1 s\"",
    ] {
        let said = read(&with("", knob)).unwrap_err();
        let name = knob.split(' ').next().unwrap();
        assert!(said.contains(name) && said.contains("\"userspace\""), "{said}");
    }
    let mirror = "engine = \"userspace\"\nmode = \"mirror\"";
    let said = read(&with(mirror, "freeze = \"one\"")).unwrap_err();
    assert!(said.contains("proxy.side: has no use with mode = \"mirror\"") && said.contains("\"split\""), "{said}");
    let alone = |line: &str| read(&format!("[proxy]\ninterfaces = [\"lan0\"]\n{mirror}\n{line}"));
    for line in ["connections_max = 1", "pool = \"1 MiB\""] {
        let (said, key) = (alone(line).unwrap_err(), line.split(' ').next().unwrap());
        assert!(said.contains(key) && said.contains("remove it"), "{said}");
    }
    assert!(alone("exempt = [\"port 22\", \"dscp 46\"]").unwrap().mode == Mode::Mirror);
    let lower = read(&with("engine = \"userspace\"", "high = \"1 MiB\"\nlow = \"2 MiB\"")).unwrap_err();
    assert!(lower.contains("proxy.side.low") && lower.contains("1048576 B: write a lower"), "{lower}");
    let vegas = read(&with("engine = \"userspace\"", "congestion = \"vegas\"")).unwrap_err();
    assert!(vegas.contains("bbr3") && vegas.contains("\"kernel\""), "{vegas}");
    let floor = read(&with("", "rto_min = \"201 ms\"")).unwrap_err();
    assert!(floor.contains("rto_min") && floor.contains("200 ms") && floor.contains("\"userspace\""), "{floor}");
    assert!(read(&with("engine = \"userspace\"", "rto_min = \"201 ms\"")).is_ok());
    assert!(read(&with("", "freeze = 1")).unwrap_err().contains("freeze"));
    assert!(read(&with("", "freeze = \"two\"")).unwrap_err().contains("unknown freeze 'two'"));
    let why = read(&with("", "freeze = \"one\"")).unwrap_err();
    assert!(why.contains("is no knob of engine = \"kernel\"") && why.contains("userspace"), "{why}");
    assert!(read(&with("engine = \"userspace\"", "freeze = \"three\"")).is_ok());
    let beside = format!("{}[gateway]\nname = \"x\"\n", with("", ""));
    assert!(read(&beside).unwrap_err().contains("[gateway]"));
}

#[test]
fn sides_have_knobs_and_networks_of_their_own() {
    let knobs = "networks = [\"10.9.0.0/16\"]\ncongestion = \"cubic\"\nmss = 1200\nbuffer = \"4 MiB\"\nrto_min = \"50 ms\"\nrto_max = \"2 s\"";
    let proxy = read(&with("", knobs)).unwrap();
    let side = &proxy.sides[0];
    assert_eq!((side.name.as_str(), &side.networks[..]), ("air", &["10.9.0.0/16".parse().unwrap()][..]));
    let tuning = side.tuning(Some("bbr"));
    assert_eq!((tuning.congestion.as_deref(), tuning.buffers.receive_max), (Some("cubic"), 4 << 20));
    assert_eq!(tuning.rto_min, Some(std::time::Duration::from_millis(50)));
    let intercept = proxy.rules(true).intercept.unwrap();
    let network = "10.9.0.0/16".parse().unwrap();
    assert_eq!(intercept.proxy.unwrap().clamps, [Clamp { network, but: Vec::new(), size: 1200 }]);
    for wrong in ["mss = 100", "buffer = \"1 kB\"", "rto_min = \"0 s\"", "rto_max = \"1 ms\"", "congestion = \"a b\""] {
        assert!(read(&with("", wrong)).is_err(), "{wrong}");
    }
    let host = read(&with("", "networks = [\"10.9.0.1/16\"]")).unwrap_err();
    assert!(host.contains("has bits set behind its prefix: write 10.9.0.0/16"), "{host}");
    let two = with("", "") + "[[proxy.side]]\nname = \"wire\"\nnetworks = [\"10.1.0.0/16\"]\n";
    assert!(read(&two).unwrap_err().contains("side 'air'"), "a side without networks is both");
}

#[test]
fn our_own_tcp_has_every_knob() {
    let knobs = "networks = [\"10.9.0.0/16\"]\ncongestion = \"reno\"\nmss = 1200\nbuffer = \"4 MiB\"\nrto_min = \"50 ms\"\nrto_max = \"2 s\"\n\
        rto_initial = \"3 s\"\nack_every = 4\nack_delay = \"100 ms\"\nquick_acks = 0\ninitial_window = 4\nhigh = \"64 KiB\"";
    let proxy = read(&with("engine = \"userspace\"", knobs)).unwrap();
    let (usual, towards) = proxy.own_tcp();
    let (network, side) = &towards[0];
    assert_eq!(
        (usual.congestion, usual.mss, *network),
        (CongestionControl::Bbr, 1_460, "10.9.0.0/16".parse().unwrap())
    );
    let expected = TcpConfig {
        mss: 1_200,
        receive_buffer: 4 << 20,
        receive_window_initial: None,
        send_buffer: 4 << 20,
        initial_window: 4,
        delayed_ack_count: 4,
        ack_when_read: false,
        delayed_ack_timer: Span::from_millis(100),
        quick_acks: 0,
        rto_initial: Span::from_secs(3),
        rto_floor: wavelane_tcp::RtoFloor::Total(Span::from_millis(50)),
        rto_max: Span::from_secs(2),
        ..usual_tcp(CongestionControl::NewReno)
    };
    assert_eq!(*side, expected);
    assert_eq!(proxy.sides[0].marks(), Some(Marks { high: 64 << 10, low: 48 << 10 }));
    let rules = proxy.rules(true).intercept.unwrap().proxy.unwrap();
    assert!(rules.clamps.is_empty() && rules.device.as_deref() == Some(DEVICE));
}

#[test]
fn the_rules_are_those_of_one_peer_with_every_target() {
    let proxy = read(&with("targets = [\"10.3.0.0/24\", \"::/0\"]\nexempt = [\"10.3.0.7/32\"]", "mss = 1000")).unwrap();
    let config = proxy.rules(false);
    assert_eq!(config.peers[0].routes, ["10.3.0.0/24".parse().unwrap()]);
    let of_six = |six: bool| if six { 980 } else { 1_000 };
    let clamps = config.intercept.unwrap().proxy.unwrap().clamps;
    assert!(clamps.iter().all(|of| of.size == of_six(of.network.address.is_ipv6())) && clamps.len() == 2);
}

/// The first side that holds an address counts, though the kernel takes the smallest size of all rules.
#[test]
fn the_first_side_that_holds_an_address_counts() {
    let sides = |second: &str, third: &str| {
        let side = |name: &str, more: &str| format!("[[proxy.side]]\nname = \"{name}\"\n{more}\n");
        with("", "networks = [\"10.8.0.0/24\"]\nmss = 1200") + &side("plain", second) + &side("rest", third)
    };
    let found = read(&sides("networks = [\"10.9.0.0/16\"]", "networks = [\"0.0.0.0/0\"]\nmss = 700")).unwrap();
    let clamps = found.rules(true).intercept.unwrap().proxy.unwrap().clamps;
    let but: Vec<IpPrefix> = ["10.8.0.0/24", "10.9.0.0/16"].map(|text| text.parse().unwrap()).into();
    assert_eq!((clamps.len(), &clamps[1].but, clamps[1].size), (2, &but, 700));
    let unused = read(&sides("networks = [\"10.8.0.0/25\"]", "networks = [\"0.0.0.0/0\"]")).unwrap_err();
    assert!(unused.contains("10.8.0.0/25") && unused.contains("side 'air' before it"), "{unused}");
    assert!(read(&with("", "").replace("\"air\"", "\"a\\nb\"")).unwrap_err().contains("is no name"));
    for (wrong, why) in [
        ("targets = [\"10.3.0.0/24\"]\nexempt = [\"10.0.0.0/8\"]", "holds all of the target 10.3.0.0/24"),
        ("targets = [\"10.3.0.0/24\"]\nexempt = [\"10.3.0.0/24\"]", "holds all of the target 10.3.0.0/24"),
    ] {
        let said = read(&with(wrong, "")).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_congestion_control_that_this_kernel_lacks_is_warned_of_before_the_start() {
    let file = std::env::temp_dir().join(format!("wavelane-{}-congestion.toml", std::process::id()));
    for (word, lacks) in [("nosuch", true), ("reno", false)] {
        std::fs::write(&file, with("", &format!("congestion = \"{word}\""))).unwrap();
        let said = crate::proxy::check(&file).unwrap();
        assert_eq!(said.contains("warning: this kernel refuses proxy.side.congestion of side 'air'"), lacks, "{said}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_pool_too_small_for_so_many_is_warned_of_before_the_start_and_a_proxy_has_no_peer_to_ask() {
    let file = std::env::temp_dir().join(format!("wavelane-{}-pool.toml", std::process::id()));
    let check = |line: &str, side: &str| {
        std::fs::write(&file, with(&format!("engine = \"userspace\"\n{line}"), side)).unwrap();
        crate::proxy::check(&file).unwrap()
    };
    for (line, side, warns) in [
        ("", "", None),
        ("connections_max = 30000", "", Some("a pool of 655360001 B")),
        ("connections_max = 30000\npool = \"655360001 B\"", "", None),
        ("connections_max = 8000", "mss = 8960", Some("a pool of 764586667 B")),
    ] {
        let said = check(line, side);
        let found = said.lines().find(|line| line.contains("`connections_max` is"));
        assert_eq!(found.is_some(), warns.is_some(), "{said}");
        assert!(warns.is_none_or(|pool| found.unwrap().contains(pool)), "{said}");
    }
    let least = "connections_max = 40\npool = \"1 MiB\"";
    for (line, side, warns) in [
        (
            least,
            "",
            "side 'air' has a `buffer` of 524288 B, of which `pool` lets a connection use 157286 B: a pool of 3670016 B",
        ),
        (least, "buffer = \"1 MiB\"", "use 157286 B: a pool of 7340032 B lets it use all"),
        ("pool = \"7340032 B\"\nconnections_max = 40", "buffer = \"1 MiB\"", ""),
        (
            least,
            "networks = [\"10.9.0.0/16\"]\nbuffer = \"64 KiB\"",
            "an end beyond all sides has a buffer of 524288 B",
        ),
        (
            least,
            "buffer = \"64 KiB\"\nhigh = \"16 KiB\"",
            "a `high` of 16384 B, of which `pool` lets a connection use 8192 B: a pool of 2113536 B",
        ),
        ("pool = \"2113536 B\"\nconnections_max = 40", "buffer = \"64 KiB\"\nhigh = \"16 KiB\"", ""),
    ] {
        let said = check(line, side);
        let found = said.lines().find(|line| line.contains("lets it use all"));
        assert!(
            found.map_or(warns.is_empty(), |line| !warns.is_empty() && line.contains(warns)),
            "{line}, {side}: {said}"
        );
        assert!(!said.contains("has room for them"), "{said}");
    }
    std::fs::write(&file, with("pool = \"1 MiB\"", "")).unwrap();
    let said = crate::proxy::check(&file).unwrap();
    assert!(said.contains("which need 46720000 B") && said.contains("a pool of 46720000 B has room"), "{said}");
    let why = crate::commands::check_with(&file, "b", None).unwrap_err().to_string();
    assert!(why.contains("a proxy has no peers"), "{why}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_link_that_has_none_of_those_listed_is_warned_of_before_the_start() {
    let file = std::env::temp_dir().join(format!("wavelane-{}-link.toml", std::process::id()));
    let own = wavelane_host::own_addresses().unwrap().into_iter().find(|own| own.is_ipv4() && !own.is_loopback());
    for router in own.into_iter().chain(["192.0.2.254".parse().unwrap()]) {
        let text = format!(
            "[proxy]\ninterfaces = [\"lo\"]\nplacement = \"arp\"\nrouters = [\"{router}\"]\nclients = [\"192.0.2.0/24\", \"127.0.0.0/30\"]"
        );
        std::fs::write(&file, text).unwrap();
        let said = crate::proxy::check(&file).unwrap();
        assert!(said.contains("names lo") && said.contains("has the network of the clients 192.0.2.0/24"), "{said}");
        assert!(!said.contains("clients 127.0.0.0/30:"), "{said}");
        assert_eq!(said.contains("is an address of this machine"), Some(router) == own, "{said}");
    }
    std::fs::remove_file(&file).unwrap();
}
