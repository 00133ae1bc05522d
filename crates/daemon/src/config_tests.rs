#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::keys;

struct Folder(PathBuf);
impl Folder {
    fn new(tag: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wavelane-config-{tag}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let _ = std::fs::remove_file(path.join("a.key"));
        keys::write_key(&path.join("a.key"), &[1; 32]).unwrap();
        Self(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(extra_gateway: &str, extra_peer: &str, rest: &str) -> String {
    let key = keys::to_base64(&[9; 32]);
    format!(
        "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n{extra_gateway}\n\
         [[peer]]\nname = \"b\"\npublic_key = \"{key}\"\nroutes = [\"10.0.3.0/24\", \"10.0.3.128/25\"]\n{extra_peer}\n{rest}\n"
    )
}

#[test]
fn a_plain_file_is_read_with_its_defaults() {
    let folder = Folder::new("plain");
    let c = Config::parse(&text("", "", ""), "x", &folder.0).unwrap();
    assert_eq!(c.listen, "0.0.0.0:4780".parse().unwrap());
    assert_eq!((c.on_failure, c.source), (OnFailure::Open, Source::Own));
    assert_eq!(c.route("10.0.3.7".parse().unwrap(), |_| false), Some(0));
    assert_eq!(c.route("10.0.4.7".parse().unwrap(), |_| false), None);
    assert_eq!(c.to_gateway(&[]).peers[0].name, "b");
}

fn edge(key: &str) -> String {
    format!("[[edge]]\nname = \"town\"\npublic_key = \"{key}\"\nroutes = [\"10.0.3.0/24\"]\n")
}

#[test]
fn edges_to_seal_for_reach_the_gateway() {
    let folder = Folder::new("edges");
    let of =
        |gateway: &str, rest: &str| Config::parse(&text(gateway, "", rest), "x", &folder.0).unwrap().to_gateway(&[]);
    let sealed = of("seal = \"end-to-end\"", &edge(&keys::to_base64(&[8; 32])));
    assert!(sealed.seal);
    let edge = &sealed.edges[0];
    assert_eq!((edge.name.as_str(), edge.public_key), ("town", [8; 32]));
    assert_eq!(edge.routes, ["10.0.3.0/24".parse().unwrap()]);
    let plain = of("", "");
    assert!(!plain.seal && plain.edges.is_empty());
}

#[test]
fn block_switching_is_chosen_as_in_the_simulator() {
    let folder = Folder::new("mechanisms");
    let of = |keys: &str| Config::parse(&text(keys, "", ""), "x", &folder.0).unwrap();
    let of_gateway = |keys: &str| {
        let c = of(keys).to_gateway(&[]);
        (
            c.backpressure,
            c.block.map(wavelane_base::Octets::get),
            c.rounds,
            c.withhold.map(|of| (of.at_once, of.everywhere)),
        )
    };
    use wavelane_settings::Backpressure;
    assert_eq!(of_gateway(""), (Backpressure::Adaptive, None, false, None));
    // UDP lanes are not withheld unless that is asked for.
    let preset = "preset = \"hop-2009\"\n";
    assert_eq!(of_gateway(preset), (Backpressure::Blocks(1), Some(1_000_000), true, Some((1, false))));
    let more = "withhold = 2\nblock = \"64 KiB\"\nrounds = false\nbackpressure = \"limit-2\"\n";
    let all = (Backpressure::Blocks(2), Some(65_536), false, Some((2, true)));
    assert_eq!((of_gateway(&(preset.to_owned() + more)), of_gateway(more)), (all, all));
    assert_eq!(of_gateway("withhold = 0").3, None);

    assert_eq!((of("").mechanisms_text(), of("").mechanisms_notes()), (None, None));
    let said = |keys: &str| (of(keys).mechanisms_text().unwrap(), of(keys).mechanisms_notes());
    let (line, note) = said(preset);
    assert_eq!(line, "experimental: preset = \"hop-2009\"");
    assert!(note.is_some_and(|note| note.contains("gateway.withhold = 1")));
    let (line, note) = said("withhold = 1");
    assert_eq!(line, "experimental: withhold = 1");
    assert!(note.is_some_and(|note| note.contains("at the peers")));
    assert_eq!(said("micro_blocks = false").1, None);
    let usual = "micro_blocks = true\nrounds = false\nbackpressure = \"adaptive\"\nwithhold = 0\ntries = \"evidence\"\nmtu_max = 1400\ncompress_headers = false";
    assert_eq!(of(usual).mechanisms_text(), None);
    assert_eq!(said(&(preset.to_owned() + "rounds = false")).0, "experimental: preset = \"hop-2009\", rounds = false");
}

#[test]
fn bad_configurations_are_refused_in_one_line() {
    let folder = Folder::new("wrong");
    let own = keys::to_base64(&keys::public_key(&[1; 32]));
    let cases = [
        (text("speed = 3", "", ""), "speed"),
        (text("seal = \"hops\"", "", ""), "end-to-end"),
        (text("preset = \"hop-2010\"", "", ""), "hop-2009"),
        (text("block = \"1 kB\"", "", ""), "gateway.block = 1 kB must lie between 4 KiB and 64 MiB"),
        (text("routing = \"kernel\"\nrouting_table = 4294967296", "", ""), "must lie between 1 and 4294967295"),
        (text("routing = \"kernel\"\nrouting_table = 0", "", ""), "the main one is 254"),
        (text("withhold = 256", "", ""), "must be 0, or lie between 1 and 255"),
        (text("", "", &edge(&keys::to_base64(&[8; 32]))), "gateway.seal"),
        (text("seal = \"end-to-end\"", "", &edge(&own)), "own key"),
        (text("seal = \"end-to-end\"", "", &edge("town")), "44 characters"),
        (text("pool = \"64MiB\"", "", ""), "one space and a unit"),
        (text("pool = \"1 kB\"", "", ""), "pool"),
        (text("on_failure = \"ajar\"", "", ""), "ajar"),
        (text("listen = \"4780\"", "", ""), "0.0.0.0:4780"),
        (text("listen = \"::1:4780\"", "", ""), "[::]:4780"),
        (text("", "address = \"192.0.2.1\"", ""), "host:port"),
        (text("", "allow_targets = [\"10.0.0.1/24\"]", ""), "10.0.0.0/24"),
        (text("serves = [\"10.0.0.1/24\"]", "", ""), "10.0.0.0/24"),
        (text("serves = [\"all\"]", "", ""), "gateway.serves"),
        (text("", "allow_targets = [\"fd00:1::/16\"]", ""), "fd00::/16"),
        (text("", "address = \"2001:db8::7:4780\"", ""), "[2001:db8::7]:4780"),
        (text("", "address = \"[2001:db8::7:4780\"", ""), "[2001:db8::7]:4780"),
        (text("", "split = false", ""), "add a [tun] table"),
        (text("", "", "[tun]"), "[intercept]"),
        (text("", "", "[intercept]\nlocal = true\n[tun]\nmtu = 576"), "between 1280 and 9000"),
        (text("", "", "[intercept]\nlocal = true\n[tun]\nname = \"a/b\""), "not an interface name"),
        (text("", "", "[intercept]\nlocal = true\n[tun]\naddresses = [\"10.9.0.1\"]"), "10.9.0.1/24"),
        (text("", "", "[intercept]\nlocal = true\n[tun]\naddresses = [\"127.0.0.1/8\"]"), "host's address"),
        (text("", "", "[intercept]\nlocal = true\n[tun]\nspeed = 1"), "speed"),
        (
            text(
                "",
                "split = false",
                "[[peer]]\nname = \"c\"\nroutes = [\"10.0.0.0/8\"]\npublic_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"\n\
                 [intercept]\nlocal = true\n[tun]",
            ),
            "overlaps",
        ),
        (text("", "controller = \"warp\"", ""), "cubic"),
        (text("", "preshared_key = \"none.key\"", ""), "keygen"),
        (text("", "", "[intercept]\ninterfaces = []"), "takes nothing"),
        (text("", "", "[intercept]\ninterfaces = [\"a b; flush ruleset\"]"), "not an interface name"),
        (text("", "", "[[forward]]\nlisten = \"127.0.0.1:1\"\nto = \"10.0.3.1:80\"\nvia = \"c\""), "there is b"),
        (
            text("", "", "[[peer]]\nname = \"b\"\npublic_key = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\""),
            "rename",
        ),
        (text("", "", &format!("[[peer]]\nname = \"c\"\npublic_key = \"{own}\"")), "own key"),
    ];
    for (text, part) in cases {
        let message = Config::parse(&text, "f.toml", &folder.0).expect_err(part).to_string();
        assert!(message.contains(part) && !message.contains('\n'), "wanted '{part}' in: {message}");
    }
    // Names stand on terminals, in files' names and in what a hook is told.
    let name = "x".repeat(65);
    for name in ["", "sho re", "sho\\nre", "\\u001B[2J", "sho\\u202Ere", "sho/re", "-shore", &name] {
        for (of, line) in [("\"a\"", 2), ("\"b\"", 7)] {
            let wrong = text("", "", "").replace(of, &format!("\"{name}\""));
            let message = Config::parse(&wrong, "f.toml", &folder.0).unwrap_err().to_string();
            let said = message.starts_with(&format!("f.toml, line {line}: ")) && message.contains("is no name: use");
            assert!(said && !message.contains(['\n', '\u{1b}', '\u{202e}']), "{message}");
        }
    }
    let missing = text("", "", "").replace("a.key", "z.key");
    let message = Config::parse(&missing, "x", &folder.0).unwrap_err().to_string();
    assert!(message.contains("keygen"), "{message}");
}

#[test]
fn an_unknown_key_names_its_line_and_what_may_be_meant() {
    let folder = Folder::new("line");
    let message = Config::parse(&text("speed = 3", "", ""), "f.toml", &folder.0).unwrap_err().to_string();
    assert!(message.starts_with("f.toml, line 5: unknown key 'speed' in [gateway]; use one of name, key"), "{message}");
}

#[test]
fn mistyped_keys_and_words_are_recognised_in_every_table() {
    let folder = Folder::new("typed");
    for (text, said) in [
        (
            text("micro_block = true", "", ""),
            "line 5: unknown key 'micro_block' in [gateway]; did you mean 'micro_blocks'?",
        ),
        (text("listne = \"[::]:1\"", "", ""), "line 5: unknown key 'listne' in [gateway]; did you mean 'listen'?"),
        (text("on_failure = \"opne\"", "", ""), "line 5: unknown on_failure 'opne'; did you mean 'open'?"),
        (text("seal = \"end-to-edn\"", "", ""), "line 5: unknown seal 'end-to-edn'; did you mean 'end-to-end'?"),
        (text("idle = \"1 ms\"", "", ""), "line 5: gateway.idle = 1 ms must lie between 1 s and 3600000 s"),
        (
            text("idle = \"never\"", "", ""),
            "line 5: gateway.idle: 'never' is not a time, such as \"50 ms\", or \"off\"",
        ),
        (text("", "rotues = []", ""), "line 10: unknown key 'rotues' in [peer]; did you mean 'routes'?"),
        (
            text("", "", "[[peer.lane]]\nadress = \"x\""),
            "line 12: unknown key 'adress' in [peer.lane]; did you mean 'address'?",
        ),
        (text("", "", "[tnu]"), "line 11: unknown key 'tnu' in the top level; did you mean 'tun'?"),
        (text("", "", "[tun]\nmut = 1400"), "line 12: unknown key 'mut' in [tun]; did you mean 'mtu'?"),
    ] {
        let message = Config::parse(&text, "f.toml", &folder.0).expect_err(said).to_string();
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn dangerous_targets_need_to_be_named_on_purpose() {
    let folder = Folder::new("targets");
    let own: Vec<IpAddr> = vec!["10.0.3.1".parse().unwrap(), "fd00:3::1".parse().unwrap()];
    let may = |allow: &str, target: &str| {
        let c = Config::parse(&text("", allow, ""), "x", &folder.0).unwrap();
        c.may_connect(0, target.parse().unwrap(), Some(&own))
    };
    let denied4 =
        ["127.0.0.1", "169.254.1.1", "169.254.169.254", "10.0.3.1", "0.0.0.0", "224.0.0.1", "255.255.255.255"];
    let denied6 = [
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "ff02::1",
        "fd00:3::1",
        "fd00:ec2::254",
        "::ffff:10.0.4.1",
        "::ffff:127.0.0.1",
        "::10.0.4.1",
    ];
    let all = "allow_targets = [\"0.0.0.0/0\", \"10.0.3.0/24\", \"169.254.0.0/16\", \"::/0\", \"fe80::/10\", \"fd00:3::/64\", \"::/96\"]";
    for denied in denied4.into_iter().chain(denied6) {
        assert!(!may(all, denied), "{denied}");
    }
    assert!(may(all, "fd00:3::2") && may(all, "2001:db8::1") && may("allow_targets = [\"::1/128\"]", "::1"));
    assert!(may("allow_targets = [\"fd00:3::1/128\"]", "fd00:3::1"));
    assert!(!may("allow_targets = [\"10.0.3.0/24\"]", "fd00:3::2") && !may("allow_targets = [\"::/0\"]", "10.0.3.2"));
    assert!(may("allow_targets = [\"127.0.0.1/32\"]", "127.0.0.1"));
    assert!(!may("allow_targets = [\"127.0.0.1/32\"]", "127.0.0.2"));
    assert!(may("allow_targets = [\"169.254.169.254/32\"]", "169.254.169.254"));
    assert!(may("allow_targets = [\"10.0.3.1/32\"]", "10.0.3.1"));
    assert!(!may("allow_targets = [\"10.0.3.0/24\"]", "10.0.4.1"));
    assert!(!may("allow_targets = []", "10.0.3.2"));
}

#[test]
fn allow_targets_overrides_serves() {
    let folder = Folder::new("serves");
    let may = |gateway: &str, peer: &str, target: &str, own: Option<&[IpAddr]>| {
        let c = Config::parse(&text(gateway, peer, ""), "x", &folder.0).unwrap();
        let targets = c.to_gateway(&[]).peers.remove(0).allow_targets;
        let target = target.parse().unwrap();
        assert!(
            !c.may_connect(0, target, own) || targets.iter().any(|p| p.contains(target)),
            "the machine is told, too"
        );
        c.may_connect(0, target, own)
    };
    let (serves, nobody) = ("serves = [\"10.0.1.0/24\"]", Some(&[][..]));
    assert!(!may("", "", "10.0.1.2", nobody), "who says nothing admits nobody");
    assert!(may(serves, "", "10.0.1.2", nobody) && !may(serves, "", "10.0.2.2", nobody));
    assert!(!may(serves, "allow_targets = [\"10.0.2.0/24\"]", "10.0.1.2", nobody));
    assert!(may(serves, "allow_targets = [\"10.0.2.0/24\"]", "10.0.2.2", nobody));
    assert!(!may(serves, "allow_targets = []", "10.0.1.2", nobody));
    // If the own addresses are not known, any may be one.
    assert!(!may(serves, "", "10.0.1.2", None));
    assert!(may(serves, "allow_targets = [\"10.0.1.2/32\"]", "10.0.1.2", None));
}

#[test]
fn kept_sources_default_to_the_routes() {
    let folder = Folder::new("sources");
    let of = |gateway: &str, peer: &str| {
        let c = Config::parse(&text(gateway, peer, ""), "x", &folder.0).unwrap().to_gateway(&[]);
        (c.keep_sources, c.peers[0].allow_sources.as_ref().map(Vec::len), c.serves.len())
    };
    assert_eq!(of("", ""), (false, None, 0));
    assert_eq!(of("source = \"keep\"\nserves = [\"10.0.1.0/24\"]", ""), (true, None, 1));
    assert_eq!(of("", "allow_sources = [\"10.0.4.0/24\"]"), (false, Some(1), 0));
}

#[test]
fn the_longest_route_wins() {
    let folder = Folder::new("route");
    let other = keys::to_base64(&[8; 32]);
    let rest = format!("[[peer]]\nname = \"c\"\npublic_key = \"{other}\"\nroutes = [\"10.0.0.0/8\", \"10.0.3.4/32\"]");
    let c = Config::parse(&text("", "", &rest), "x", &folder.0).unwrap();
    let route = |ip: &str| c.route(ip.parse().unwrap(), |_| false);
    assert_eq!(
        (route("10.0.3.200"), route("10.0.3.4"), route("10.9.9.9"), route("11.0.0.1")),
        (Some(0), Some(1), Some(1), None)
    );
}

#[test]
fn a_gateway_file_is_told_from_a_scenario() {
    assert!(is_gateway_config(&text("", "", "")));
    assert!(is_gateway_config("[gateway]\nname = "));
    assert!(!is_gateway_config("title = \"x\"\n[nodes]\na = \"gateway\""));
}

#[test]
fn the_caller_sends_keepalives_by_default() {
    let folder = Folder::new("keepalive");
    let keepalive = |extra: &str| Config::parse(&text("", extra, ""), "x", &folder.0).map(|c| c.peers[0].keepalive);
    assert_eq!(keepalive("address = \"192.0.2.7:4780\"").unwrap(), Some(KEEPALIVE));
    assert_eq!(keepalive("").unwrap(), None, "who is called is kept open by the caller");
    assert_eq!(keepalive("address = \"192.0.2.7:4780\"\nkeepalive = \"off\"").unwrap(), None);
    assert_eq!(keepalive("keepalive = \"10 s\"").unwrap(), Some(Span::from_secs(10)));
    for wrong in ["0 s", "2 h", "often"] {
        let why = keepalive(&format!("keepalive = \"{wrong}\"")).unwrap_err().to_string();
        assert!(why.contains("line 10: peer.keepalive"), "{why}");
    }
}

/// What is written is replaced or removed, drafts included: a key would be gone.
#[test]
fn what_is_written_is_nothing_that_is_read() {
    let folder = Folder::new("written");
    let file = |name: &str| folder.0.join(name);
    keys::write_key(&file("b.psk"), &[2; 32]).unwrap();
    let parse = |key: &str, gateway: &str| {
        let text = text(gateway, "preshared_key = \"b.psk\"", "").replace("a.key", key);
        Config::parse(&text, "x.toml", &folder.0).map_err(|why| why.to_string())
    };
    assert_eq!(parse("a.key", "").unwrap().reads[1..], [file("a.key"), file("b.psk")]);
    for (key, state) in
        [("a.key", "a.key"), ("s", "s"), ("s-lock", "s"), ("s-new", "s"), ("s.peers", "s"), ("s.peers-new", "s")]
    {
        std::fs::rename(file("a.key"), file(key)).unwrap();
        let why = parse(key, &format!("state = \"{state}\"")).unwrap_err();
        assert!(why.contains(&format!("{key} is read as well: name another path")), "{key}: {why}");
        std::fs::rename(file(key), file("a.key")).unwrap();
    }
    let why = parse("a.key", "state = \"b.psk\"").unwrap_err();
    assert!(why.contains("gateway.state: ") && why.contains("b.psk is read as well"), "{why}");
    let why = parse("a.key", "state = \"a.sock\"").unwrap_err();
    assert!(why.contains("a.sock, which is gateway.control"), "{why}");
}

#[test]
fn an_address_that_the_socket_cannot_reach_is_refused() {
    let folder = Folder::new("versions");
    let parse = |listen: &str, address: &str| {
        let extra = format!("address = \"{address}\"");
        Config::parse(&text(&format!("listen = \"{listen}\""), &extra, ""), "x", &folder.0).map(drop)
    };
    assert!(parse("0.0.0.0:4780", "[2001:db8::7]:4780").unwrap_err().to_string().contains("listen on [::]:4780"));
    assert!(parse("[::1]:4780", "192.0.2.7:4780").is_err());
    parse("[::]:4780", "192.0.2.7:4780").unwrap();
    parse("0.0.0.0:4780", "shore.example:4780").unwrap();
}

#[test]
fn impossible_lanes_are_refused_with_a_remedy() {
    let folder = Folder::new("lanes");
    let with = |lanes: &str| Config::parse(&text("", "", lanes), "x", &folder.0);
    for (lanes, why) in [
        ("[[peer.lane]]\ndirection = \"in\"", "nothing leads to the peer"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\ndirection = \"in\"", "remove its address"),
        ("[[peer.lane]]\naddress = \"far.example\"", "is not host:port"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:4780\"", "choose another port"),
        ("[[peer.lane]]\naddress = \"[2001:db8::1]:1\"", "listen on [::]:4780 for both"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\ndevice = \"a/b\"", "is not an interface name"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nspeed = 1", "unknown key 'speed' in [peer.lane]"),
        (
            &(1..=9).map(|n| format!("[[peer.lane]]\naddress = \"192.0.2.{n}:1\"\n")).collect::<String>(),
            "give it 1 to 8",
        ),
        (
            &"[[peer.lane]]\naddress = \"192.0.2.1:1\"\n".repeat(2),
            "line 13: peer 'b', lane 2: is the same path as lane 1",
        ),
        (
            "[[peer.lane]]\naddress = \"0.0.0.0:1\"",
            "line 11: peer 'b', lane 1: address: '0.0.0.0:1' is the unspecified",
        ),
        ("[[peer.lane]]\naddress = \"239.1.2.3:1\"", "a multicast address"),
        ("[[peer.lane]]\naddress = \"[ff02::1]:1\"\nlocal = \"[::]:7\"", "a multicast address"),
        ("[[peer.lane]]\naddress = \"255.255.255.255:1\"", "the broadcast address"),
        ("[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"lo\"", "leads to no station"),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"[::1]:4781\"",
            "is of IPv6 and the lane's address of IPv4",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"0.0.0.0:4781\"\n[[peer.lane]]\nlocal = \"127.0.0.1:4781\"",
            "lane 2: local: 127.0.0.1:4781 overlaps 0.0.0.0:4781 of peer 'b', lane 1",
        ),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nbulk = false", "no lane for bulk"),
        ("choice = \"delivery-1998\"\n[[peer.lane]]\naddress = \"192.0.2.1:1\"", "add a lane, or choose bond"),
        ("choice = \"cheapest\"", "pinned+fallback"),
        ("[[peer.lane]]\nmedium = \"ethernet\"", "needs the name of its interface"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nmark = 0", "0 is what every unmarked packet has"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nmark = 0x574c0001", "wavelaned's own marks"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\n[[peer.lane]]\ndirection = \"in\"\nmark = 7", "of what leaves"),
        ("[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\nmark = 7", "no routing rule sees"),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nmark = 7\n[intercept]\nlocal = true\n[tun]",
            "own mark keeps a lane's datagrams off the device",
        ),
        ("[[peer.lane]]\nmedium = \"token-ring\"", "ethernet"),
        (
            "[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\naddress = \"192.0.2.1:1\"",
            "no station's address",
        ),
        ("[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\ndirection = \"out\"", "nothing comes back"),
        ("[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\nlocal = \"0.0.0.0:0\"", "remove it"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nsmall = false", "no lane for small exchanges"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nbulk = false\nsmall = false", "carries nothing"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\npriority = 6", "Ethernet lanes alone"),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nradio = \"paced\"\nrate = \"54 Mbit/s\"",
            "shares the socket of gateway.listen",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"raw\"",
            "needs `rate`, the highest of its radio",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"plain\"\nrate = \"1 Mbit/s\"",
            "of serial lanes and radios alone: remove it, or add medium = \"serial\", or radio = \"paced\"",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"paced\"\nrate = \"1 bit/s\"",
            "is no radio's: write its highest",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"paced\"\nrate = \"900 Gbit/s\"",
            "between 1 Mbit/s and 100 Gbit/s",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"raw\"\nrate = \"6 Mbit/s\"\nstart_rate = \"1 Mbit/s\"",
            "start_rate: is a controller's",
        ),
        (
            "[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\nradio = \"raw\"\nrate = \"54 Mbit/s\"",
            "is of UDP lanes alone",
        ),
        ("[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\npriority = 8", "must lie between 0 and 7"),
        (
            "[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\n[[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\npriority = 6",
            "is 0 and 6 for device 'radio0'",
        ),
        (
            "controller = \"cubic\"\n[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"9600 bit/s\"",
            "is of the controller \"delay\"",
        ),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"fast\"", "is not a rate"),
        ("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"0 bit/s\"", "such as \"33.6 kbit/s\""),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"1 bit/s\"",
            "line 13: peer.lane.start_rate = 1 bit/s must lie between 300 bit/s and 4 Mbit/s: no line is slower",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"5 Mbit/s\"",
            "finds a higher rate itself, so remove it",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\n[[peer.lane]]\ndirection = \"in\"\nstart_rate = \"1 kbit/s\"",
            "nothing leaves by a lane",
        ),
        (
            "[[peer.lane]]\naddress = \"192.0.2.1:1\"\n[[peer.lane]]\ndirection = \"in\"\nmetered = true",
            "about what leaves",
        ),
    ] {
        let error = with(lanes).expect_err(lanes).to_string();
        assert!(error.contains(why), "{lanes}: {error}");
    }
    let radio =
        "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"192.0.2.9:5\"\nradio = \"raw\"\nrate = \"54 Mbit/s\"";
    let socket = with(radio).unwrap().peers[0].lanes[0].socket.clone().unwrap();
    assert_eq!(socket.radio_words().unwrap(), "radio raw at 54 Mbit/s");
    let wan =
        |device| format!("[[peer.lane]]\naddress = \"192.0.2.1:1\"\nlocal = \"0.0.0.0:4781\"\ndevice = \"{device}\"\n");
    with(&format!("{}{}", wan("wan0"), wan("wan1"))).expect("each device has the port");
    let why = Config::parse(&text("", "address = \"224.0.0.1:4780\"", ""), "x", &folder.0).unwrap_err().to_string();
    assert!(why.contains("peer 'b': address: '224.0.0.1:4780' is a multicast address"), "{why}");
    let config =
        with("[[peer.lane]]\naddress = \"192.0.2.1:1\"\n[[peer.lane]]\naddress = \"192.0.2.2:1\"\ndevice = \"wan1\"");
    let config = config.unwrap();
    let lanes = &config.to_gateway(&[]).peers[0].lanes;
    assert_eq!(lanes.iter().map(|lane| lane.port.0).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(config.peers[0].keepalive, Some(KEEPALIVE));
    let lanes = "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nstart_rate = \"33.6 kbit/s\"\n\
                 [[peer.lane]]\nmedium = \"ethernet\"\ndevice = \"radio0\"\nstart_rate = \"1200 bit/s\"\n[[peer.lane]]\naddress = \"192.0.2.2:1\"";
    let told = with(lanes).unwrap().to_gateway(&[]).peers.remove(0);
    let told: Vec<_> = told.lanes.iter().map(|lane| lane.knobs.start_rate.map(|rate| rate.as_bps())).collect();
    assert_eq!(told, [Some(33_600), Some(1_200), None]);
    let lanes = "[[peer.lane]]\naddress = \"192.0.2.1:1\"\nbulk = false\n[[peer.lane]]\naddress = \"192.0.2.2:1\"\nmetered = true";
    for (word, choice) in [
        ("bond", Choice::Bond),
        ("pinned", Choice::Pinned),
        ("pinned+fallback", Choice::PinnedFallback),
        ("delivery-1998", Choice::Delivery1998),
    ] {
        let peer = with(&format!("choice = \"{word}\"\n{lanes}")).unwrap().to_gateway(&[]).peers.remove(0);
        let told: Vec<_> = peer.lanes.iter().map(|lane| (lane.knobs.bulk, lane.knobs.metered)).collect();
        assert_eq!((peer.choice, told), (choice, vec![(false, false), (true, true)]));
    }
}

#[test]
fn packets_are_sent_again_as_the_file_says() {
    let folder = Folder::new("tries");
    let of = |gateway: &str| {
        let rest = "[tun]\naddresses = [\"10.9.0.1/24\"]\n[intercept]\ninterfaces = [\"lan0\"]\n";
        Config::parse(&text(gateway, "", rest), "x", &folder.0).unwrap().to_gateway(&[]).packets.unwrap().tries
    };
    assert_eq!((of(""), of("tries = \"1998\"")), (gateway::Tries::Evidence, gateway::Tries::Of1998));
}

#[test]
fn the_largest_packet_is_what_the_file_says() {
    let folder = Folder::new("mtu");
    let of = |gateway: &str| Config::parse(&text(gateway, "", ""), "x", &folder.0).map(|c| c.to_gateway(&[]).mtu_max);
    assert_eq!((of("").unwrap(), of("mtu_max = 1400").unwrap()), (1_500, 1_400));
    assert!(of("mtu_max = 1000").unwrap_err().to_string().contains("must lie between 1280 and 1500"));
}

#[test]
fn what_a_value_lacks_is_said_with_file_and_line() {
    let folder = Folder::new("lines");
    for (gateway, peer, rest, says) in [
        ("listen = \"0.0.0.0\"", "", "", "f, line 5: gateway.listen: '0.0.0.0' is not address:port"),
        (
            "",
            "preshared_key = \"a.key\"\nallow_targets = [\"10.0.0.1/8\"]",
            "",
            "f, line 11: peer 'b': allow_targets: '10.0.0.1/8' has bits set",
        ),
        ("", "", "[tun]\nmtu = 100\n[intercept]\nlocal = true", "f, line 12: tun.mtu = 100 must lie between"),
        (
            "",
            "",
            "[[peer.lane]]\nmedium = \"seriel\"",
            "f, line 11: peer 'b', lane 1: medium: 'seriel' is no medium; did you mean 'serial'?",
        ),
        ("", "", "[[peer.lane]]\nmedium = \"serial\"", "f, line 11: peer 'b', lane 1: device: is missing"),
    ] {
        let said = Config::parse(&text(gateway, peer, rest), "f", &folder.0).unwrap_err().to_string();
        assert!(said.starts_with(says), "{said}");
    }
}
