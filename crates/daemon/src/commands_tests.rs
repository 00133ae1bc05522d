#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::os::unix::fs::MetadataExt;

fn folder(tag: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("wavelane-commands-{tag}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn keygen_writes_a_private_file_and_never_overwrites() {
    let dir = folder("keygen");
    let args = KeygenArgs { out: Some(dir.join("new/k")) };
    let public = keygen(&args).unwrap();
    assert_eq!(std::fs::metadata(dir.join("new/k")).unwrap().mode() & 0o777, 0o600);
    let private = keys::read_key(&dir.join("new/k")).unwrap();
    assert_eq!(public.trim(), keys::to_base64(&keys::public_key(&private)));
    assert!(keygen(&args).unwrap_err().to_string().contains("not overwritten"));
    assert_eq!(keys::read_key(&dir.join("new/k")).unwrap(), private);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn init_writes_a_valid_file_without_link_keys() {
    let dir = folder("init");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.clone(),
        listen: "0.0.0.0:4780".into(),
        peer_name: "b".into(),
        serves: vec!["10.0.1.0/24".into()],
        peer_key: keys::to_base64(&[9; 32]),
        peer_address: Some("192.0.2.7:4780".into()),
        routes: vec!["10.0.3.0/24".into()],
        interfaces: vec!["lan0".into()],
        forwards: vec!["127.0.0.1:8080=10.0.3.2:80".into()],
        on_failure: "closed".into(),
        ..InitArgs::default()
    };
    let wrong = InitArgs { routes: vec!["10.0.3.0/99".into()], ..args.clone() };
    assert!(init(&wrong).is_err());
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "what is refused leaves nothing behind");
    for name in ["", "a/b", "../a", "-a", ".", "a b", "a\u{1b}[2J", "a\u{202e}b", "a\n", &"n".repeat(65)] {
        let of_us = init(&InitArgs { name: name.into(), ..args.clone() }).unwrap_err().to_string();
        let of_peer = init(&InitArgs { peer_name: name.into(), ..args.clone() }).unwrap_err().to_string();
        assert!(of_us.starts_with("--name '") && of_peer.starts_with("--peer-name '"), "{of_us} {of_peer}");
        assert!(!of_us.contains(['\u{1b}', '\u{202e}', '\n']) && of_us.len() < 300, "{of_us}");
    }
    for address in ["\u{1b}[31m:4780", "a b:4780", "\u{9b}31m:4780", "\u{202e}moc.a:4780"] {
        let why = init(&InitArgs { peer_address: Some(address.into()), ..args.clone() }).unwrap_err().to_string();
        assert!(why.contains("is not host:port"), "{why}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    let made = init(&args).unwrap();
    let summary = check_config(&made.config).unwrap();
    assert!(!summary.contains("goes plainly"), "{summary}");
    assert!(summary.contains(&made.public_key) && summary.contains("192.0.2.7:4780"), "{summary}");
    assert!(summary.contains("warning: interface lan0 does not exist"), "{summary}");
    let config = Config::load(&made.config).unwrap();
    assert_eq!(config.source, config::Source::Keep);
    assert_eq!(config.on_failure, config::OnFailure::Closed);
    assert_eq!(config.forwards.len(), 1);
    assert!(matches!(init(&args), Err(CommandError::Unwritable { .. })), "an old configuration stays");
    let text = std::fs::read_to_string(&made.config).unwrap();
    assert!(["rate", "loss", "delay", "rtt"].iter().all(|w| !text.contains(w)), "{text}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn of_parallel_inits_in_one_folder_one_succeeds() {
    const AT_ONCE: usize = 4;
    for round in 0..200 {
        let dir = folder(&format!("race{round}"));
        let args = InitArgs {
            name: "a".into(),
            dir: dir.clone(),
            listen: "0.0.0.0:4780".into(),
            peer_name: "b".into(),
            serves: vec!["none".into()],
            peer_key: keys::to_base64(&[9; 32]),
            on_failure: "open".into(),
            ..InitArgs::default()
        };
        let barrier = std::sync::Barrier::new(AT_ONCE);
        let one = || {
            barrier.wait();
            init(&args)
        };
        let made: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let done: Vec<&Initialised> = made.iter().flatten().collect();
        assert_eq!(done.len(), 1, "round {round}: {made:?}");
        let key = keys::read_key(&done[0].key).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert_eq!(keys::to_base64(&keys::public_key(&key)), done[0].public_key);
        assert!(Config::load(&done[0].config).is_ok());
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn init_writes_the_tun_table_on_request() {
    let dir = folder("tun");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.clone(),
        listen: "[::]:4780".into(),
        peer_name: "b".into(),
        serves: vec!["10.0.1.0/24".into()],
        peer_key: keys::to_base64(&[9; 32]),
        peer_address: Some("[2001:db8::7]:4780".into()),
        routes: vec!["10.0.3.0/24".into(), "fd00:3::/64".into()],
        interfaces: vec!["lan0".into()],
        on_failure: "open".into(),
        ..InitArgs::default()
    };
    let made = init(&args).unwrap();
    assert_eq!(Config::load(&made.config).unwrap().tun, None);
    assert!(std::fs::read_to_string(&made.config).unwrap().contains("# [tun]"));
    for (tun, addresses) in [(true, vec![]), (false, vec!["10.9.0.1/24".into(), "fd00:9::1/64".into()])] {
        std::fs::remove_file(&made.config).unwrap();
        let made = init(&InitArgs { tun, tun_addresses: addresses.clone(), ..args.clone() }).unwrap();
        let config = Config::load(&made.config).unwrap();
        assert_eq!(config.tun.unwrap().addresses.len(), addresses.len());
        let summary = check_config(&made.config).unwrap();
        assert!(summary.contains("[2001:db8::7]:4780") && summary.contains("fd00:3::/64"), "{summary}");
        assert!(summary.contains("wavelane0 (MTU 1400)"), "{summary}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn init_refuses_nonsense_before_it_writes_the_file() {
    let dir = folder("nonsense");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.clone(),
        peer_name: "b".into(),
        serves: vec!["10.0.1.0/24".into()],
        peer_key: "x".into(),
        ..InitArgs::default()
    };
    let why = init(&InitArgs { serves: Vec::new(), ..args.clone() }).unwrap_err().to_string();
    assert!(why.starts_with("--peer-key 'x' is not a public key: give the 44 characters"), "{why}");
    assert!(!dir.join("wavelaned.toml").exists());
    // A key that is in order, and nothing said of what may be reached.
    let args = InitArgs { peer_key: keys::to_base64(&[9; 32]), listen: "0.0.0.0:4780".into(), ..args };
    let args = InitArgs { on_failure: "open".into(), dir: dir.join("new"), ..args };
    let why = init(&InitArgs { serves: Vec::new(), ..args.clone() }).unwrap_err().to_string();
    assert!(why.contains("--serves PREFIX") && why.contains("--allow-target") && !why.contains('\n'), "{why}");
    assert!(!dir.join("new").exists(), "neither a folder nor a key");
    for wrong in [["10.0.1.1/24", "none"], ["none", "10.0.1.0/24"]] {
        let serves = wrong.map(String::from).to_vec();
        assert!(init(&InitArgs { serves, ..args.clone() }).is_err(), "{wrong:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_refused_init_names_its_flags_and_leaves_no_folder() {
    let dir = folder("flags");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.join("new/etc"),
        key: Some(dir.join("keys/own")),
        listen: "0.0.0.0:4780".into(),
        peer_name: "b".into(),
        serves: vec!["none".into()],
        peer_key: keys::to_base64(&[9; 32]),
        on_failure: "open".into(),
        ..InitArgs::default()
    };
    let why = |args: InitArgs| {
        let why = init(&args).unwrap_err().to_string();
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "{why}");
        assert!(!why.contains('\n') && !why.contains("[intercept]") && !why.contains("`routes`"), "{why}");
        why
    };
    assert!(why(InitArgs { tun: true, ..args.clone() }).contains("--interface NAME"));
    let address = vec!["10.9.0.1/24".into()];
    assert!(why(InitArgs { tun_addresses: address, ..args.clone() }).contains("--local"));
    assert!(why(InitArgs { tun: true, local: true, ..args.clone() }).contains("--route PREFIX"));
    let (tun_addresses, routes) = (vec!["10.9.0.1".into()], vec!["10.3.0.0/24".into()]);
    let bare = InitArgs { tun_addresses, routes, local: true, ..args.clone() };
    assert!(why(bare).starts_with("--tun-address '10.9.0.1' "));
    assert!(why(InitArgs { interfaces: vec!["lan0".into()], ..args.clone() }).starts_with("--interface "));
    why(InitArgs { on_failure: "perhaps".into(), ..args.clone() });
    for proxy in [false, true] {
        let routes = vec!["10.9.0.0/33".into()];
        let said = why(InitArgs { proxy, routes, interfaces: vec!["lan0".into()], ..args.clone() });
        assert!(said.starts_with("--route: '10.9.0.0/33' is not"), "{said}");
    }
    let said = why(InitArgs { serves: vec!["10.3.0.1/24".into()], ..args.clone() });
    assert!(said.starts_with("--serves: ") && said.contains("10.3.0.0/24"), "{said}");
    let said = why(InitArgs { allow_targets: vec!["x".into()], ..args.clone() });
    assert!(said.starts_with("--allow-target: "), "{said}");
    // What only the file's own checks find is said of the flag, and not of a line of a file that is not there.
    let called = |address: &str| InitArgs { peer_address: Some(address.into()), ..args.clone() };
    let lanes = |words: &[&str]| InitArgs { lanes: words.iter().map(|&word| word.into()).collect(), ..args.clone() };
    let tun = |address: &str| InitArgs {
        tun_addresses: vec![address.into()],
        routes: vec!["10.3.0.0/24".into()],
        local: true,
        ..args.clone()
    };
    let proxy = |interface: &str, on_failure: &str| InitArgs {
        proxy: true,
        interfaces: vec![interface.into()],
        on_failure: on_failure.into(),
        ..args.clone()
    };
    for (args, begins) in [
        (called("nowhere"), "--peer-address: 'nowhere' is not host:port"),
        (called("0.0.0.0:4780"), "--peer-address: '0.0.0.0:4780' is the unspecified address"),
        (called("[2001:db8::7]:4780"), "--peer-address: is of another IP version"),
        (InitArgs { listen: "x".into(), ..args.clone() }, "--listen: 'x' is not address:port"),
        (InitArgs { on_failure: "perhaps".into(), ..args.clone() }, "--on-failure"),
        (InitArgs { source: Some("x".into()), ..args.clone() }, "--source"),
        (InitArgs { forwards: vec!["1=2".into()], ..args.clone() }, "--forward: '1' is not address:port"),
        (lanes(&["192.0.2.7"]), "--lane '192.0.2.7': "),
        (lanes(&["a:1", "a:1"]), "--lane 'a:1': is the same path as lane 1"),
        (lanes(&["a:1", "b:2,local=x"]), "--lane 'b:2,local=x': local: 'x' is not address:port"),
        (lanes(&["local=192.0.2.1:4781,in"]), "--lane: nothing leads to the peer"),
        (
            lanes(&["a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", "h:1", "i:1"]),
            "--lane: peer 'b' has 9 lanes: give it 1 to 8",
        ),
        (lanes(&["b\nc:1"]), "--lane 'b\\nc:1': "),
        (lanes(&["a:1,device=x\ny"]), "--lane 'a:1,device=x\\ny': "),
        (called("b\nc"), "--peer-address: 'b\\nc' is not"),
        (lanes(&["a:1,in"]), "--lane 'a:1,in': address: nothing leaves"),
        (lanes(&["a:1,local=0.0.0.0:4780"]), "--lane 'a:1,local=0.0.0.0:4780': local: 0.0.0.0:4780 has the port of"),
        (InitArgs { peer_address: Some("a:1".into()), ..lanes(&["b:1"]) }, "--peer-address stands beside --lane: "),
        (tun("10.9.0.1/0"), "--tun-address '10.9.0.1/0' takes all there is"),
        (tun("10.9.0.0/24"), "--tun-address '10.9.0.0/24' is the network's own address"),
        (tun("10.9.0.255/24"), "--tun-address '10.9.0.255/24' is the broadcast address of its network"),
        (tun("10.9.0.3/30"), "--tun-address '10.9.0.3/30' is the broadcast address of its network"),
        (tun("224.0.0.1/24"), "--tun-address: 224.0.0.1 cannot be a host's address"),
        (proxy("a b", "open"), "--interface: 'a b' is not an interface name"),
        (proxy("lan0", "x"), "--on-failure"),
    ] {
        let said = why(args);
        assert!(said.starts_with(begins) && !said.contains("line ") && !said.contains("configuration"), "{said}");
    }
    // A folder that was there stays.
    std::fs::create_dir(dir.join("new")).unwrap();
    assert!(init(&InitArgs { peer_address: Some("nowhere".into()), ..args.clone() }).is_err());
    assert!(dir.join("new").exists() && !dir.join("new/etc").exists() && !dir.join("keys").exists());
    init(&args).unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_daemon_that_does_not_answer_yet_is_not_one_to_be_started() {
    let path = std::env::temp_dir().join(format!("wavelane-notyet-{}.sock", std::process::id()));
    for kind in [ErrorKind::WouldBlock, ErrorKind::TimedOut] {
        let said = CommandError::no_daemon(&path, kind.into()).to_string();
        assert!(said.contains("does not answer yet") && !said.contains("start it"), "{said}");
    }
    let said = CommandError::no_daemon(&path, ErrorKind::ConnectionRefused.into()).to_string();
    assert!(said.contains("start it"), "{said}");
}

#[test]
fn a_shaper_is_no_gateway_that_does_not_run() {
    let said = |found: &[&str], shapes: fn() -> bool| {
        let found: Vec<PathBuf> = found.iter().map(PathBuf::from).collect();
        only_one(&found, Path::new("/run/w"), shapes).map_err(|why| why.to_string())
    };
    assert_eq!(said(&["/run/w/a.sock"], || true), Ok("/run/w/a.sock".into()));
    assert!(said(&["a", "b"], || true).unwrap_err().contains("name one with --control PATH"));
    assert!(said(&[], || false).unwrap_err().contains("start wavelaned"));
    let shaper = said(&[], || true).unwrap_err();
    assert!(shaper.contains("no control socket") && shaper.contains("SIGHUP") && !shaper.contains("start wavelaned"));
}

#[test]
fn the_first_line_of_a_check_counts_the_warnings() {
    let said = |warnings: &[&str]| {
        let warnings: Vec<String> = warnings.iter().map(|&one| one.to_owned()).collect();
        checked(Path::new("a.toml"), "gateway 'a' is", "peer b\n".into(), &warnings)
    };
    assert_eq!(said(&[]), "a.toml: gateway 'a' is in order\npeer b\n");
    let two = said(&["x", "y"]);
    assert!(
        two.starts_with("a.toml: gateway 'a' is in order as a file; there are 2 warnings below\npeer b\n"),
        "{two}"
    );
    assert!(two.ends_with("warning: x\nwarning: y\n"), "{two}");
}

#[test]
fn status_without_a_daemon_names_a_remedy() {
    let args = StatusArgs { control: Some("/nonexistent/wavelane.sock".into()), ..StatusArgs::default() };
    let message = status(&args).unwrap_err().to_string();
    assert!(message.contains("--control") && !message.contains('\n'), "{message}");
}

#[test]
fn texts_of_whoever_holds_the_socket_are_cut_and_keep_to_their_line() {
    let long = format!("a\nb{}", "x".repeat(64 << 10));
    let format = status::FORMAT.to_owned();
    let report = status::Report { format, name: long, uptime_s: 7.5, ..status::Report::default() };
    let text = serde_json::to_string(&report).unwrap();
    let later = text.replace("wavelane-status/1", "wavelane-status/99");
    let said = read_report(Path::new("/socket"), &later).unwrap_err().to_string();
    assert!(said.contains("not a status document") && said.contains("of this version"), "{said}");
    let read = read_report(Path::new("/socket"), &text).unwrap();
    assert!(read.name.starts_with("a\\nbx") && read.name.chars().count() < TEXT_SHOWN + 40, "{}", read.name);
    assert!(!read.to_string().contains("a\nb"));
    assert_eq!(read.uptime_s, 7.5);
    let keys: serde_json::Value = readable("{\"a\\nb\": {\"c\\u001bd\": 1}}").unwrap();
    assert_eq!(keys.to_string(), r#"{"a\\nb":{"c\\u{1b}d":1}}"#);
}

#[test]
fn every_counter_has_words() {
    let report = status::Report {
        counters: vec![status::counter("dropped_syn_pair_full", 3), status::counter("dropped_bad_mac", 2)],
        ..status::Report::default()
    };
    let text = report.to_string();
    assert!(text.contains("one source has too many attempts") && text.contains("dropped bad mac"), "{text}");
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<status::Report>(&json).unwrap(), report);
}

#[test]
fn init_reports_its_key_and_the_missing_ip_version() {
    let dir = folder("key");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.join("etc"),
        listen: "[::]:4780".into(),
        key: Some(dir.join("keys/own")),
        peer_name: "b".into(),
        serves: vec!["10.0.1.0/24".into()],
        peer_key: keys::to_base64(&[9; 32]),
        routes: vec!["0.0.0.0/0".into()],
        on_failure: "open".into(),
        ..InitArgs::default()
    };
    let made = init(&args).unwrap();
    let said = made.to_string();
    assert_eq!(said.contains("note: while a peer is down"), args.local || !args.interfaces.is_empty(), "{said}");
    assert!(said.contains(&format!("made the new key {}\n", dir.join("keys/own").display())), "{said}");
    assert!(said.contains("note: peer 'b' has the route 0.0.0.0/0 and not ::/0: IPv6 goes another way"), "{said}");
    assert!(check_config(&made.config).unwrap().contains("note: peer 'b' has the route 0.0.0.0/0 and not ::/0"));
    std::fs::remove_file(&made.config).unwrap();
    let again = init(&InitArgs { routes: vec!["0.0.0.0/0".into(), "::/0".into()], ..args }).unwrap();
    assert_eq!((again.public_key, again.made_key), (made.public_key, false));
    assert!(
        !dir.join("etc/a.key").exists() && again.notes.iter().all(|note| note.contains("goes plainly")),
        "{:?}",
        again.notes
    );
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn check_looks_up_names_and_warns_without_refusing() {
    let dir = folder("names");
    let args = |address: &str| InitArgs {
        name: "a".into(),
        dir: dir.clone(),
        listen: "0.0.0.0:4780".into(),
        peer_name: "b".into(),
        serves: vec!["10.0.1.0/24".into()],
        peer_key: keys::to_base64(&[9; 32]),
        peer_address: Some(address.into()),
        on_failure: "open".into(),
        ..InitArgs::default()
    };
    let checked = |address: &str| {
        let made = init(&args(address)).unwrap();
        let text = check_config(&made.config).unwrap();
        std::fs::remove_file(&made.config).unwrap();
        text
    };
    assert!(checked("localhost:4780").contains("peer b at localhost:4780 (127.0.0.1:4780), routes none"));
    let text = checked("no-such-host.invalid:4780");
    assert!(text.contains("warning: peer 'b': no address for 'no-such-host.invalid:4780' now ("), "{text}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn init_writes_serves_and_check_warns_without_it() {
    let dir = folder("serves");
    let args = InitArgs {
        name: "a".into(),
        dir: dir.clone(),
        listen: "0.0.0.0:4780".into(),
        peer_name: "b".into(),
        peer_key: keys::to_base64(&[9; 32]),
        on_failure: "open".into(),
        ..InitArgs::default()
    };
    let lan: Vec<String> = vec!["10.0.1.0/24".into(), "fd00:1::/64".into()];
    let made = |serves: &[String], targets: &[String]| {
        let args = InitArgs { serves: serves.to_vec(), allow_targets: targets.to_vec(), ..args.clone() };
        let made = init(&args).unwrap();
        let (config, said) = (Config::load(&made.config).unwrap(), check_config(&made.config).unwrap());
        let text = std::fs::read_to_string(&made.config).unwrap();
        std::fs::remove_file(&made.config).unwrap();
        assert!(!said.contains("may reach nothing"), "{said}");
        (config.targets(&config.peers[0]).iter().map(config::prefix_text).collect::<Vec<_>>(), text)
    };
    let none = ["none".to_owned()];
    assert_eq!(made(&lan, &[]).0, lan);
    assert_eq!(made(&lan, &lan[..1]).0, lan[..1]);
    assert_eq!(made(&[], &lan).0, lan);
    assert_eq!(made(&none, &[]).0, Vec::<String>::new());
    // A file written by hand, with neither; a hub whose peers do not reach each other.
    let text = made(&none, &[]).1.replace("serves = []\n", "");
    let path = dir.join("wavelaned.toml");
    std::fs::write(&path, &text).unwrap();
    let said = check_config(&path).unwrap();
    assert!(said.contains("warning: peer 'b' may reach nothing") && said.contains("gateway.serves = ["), "{said}");
    assert!(said.contains("\npeer b calls us, routes "), "{said}");
    let lane = "[[peer.lane]]\nmedium = \"serial\"\ndevice = \"/dev/ttyS90\"\nrate = \"9600 bit/s\"\n";
    std::fs::write(&path, format!("{text}\n{lane}")).unwrap();
    let said = check_config(&path).unwrap();
    assert!(said.contains("\npeer b at /dev/ttyS90, routes "), "{said}");
    std::fs::write(&path, text.replace("[gateway]", "[gateway]\nseal = \"end-to-end\"")).unwrap();
    let said = check_config(&path).unwrap();
    assert!(said.contains("note: gateway.seal: no [[edge]] is named"), "{said}");
    let other = keys::to_base64(&[8; 32]);
    let hub = text.replace("routes = []", "routes = [\"10.0.2.0/24\"]\nallow_targets = [\"10.0.3.0/24\"]")
        + &format!("[[peer]]\nname = \"c\"\npublic_key = \"{other}\"\nroutes = [\"10.0.3.0/24\"]\n");
    std::fs::write(&path, hub.replace("[gateway]", "[gateway]\nserves = [\"10.0.1.0/24\"]")).unwrap();
    let said = check_config(&path).unwrap();
    assert!(said.contains("note: peer 'c' reaches what is in gateway.serves and nothing behind"), "{said}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn check_names_others_files_in_the_gateways_places() {
    let dir = folder("foreign");
    keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
    let file = dir.join("a.toml");
    let text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\nstate = \"x.txt\"\ncontrol = \"a.sock\"\n[[peer]]\nname = \"b\"\npublic_key = \"";
    std::fs::write(&file, format!("{text}{}\"\n", keys::to_base64(&[9; 32]))).unwrap();
    let warnings = || {
        let text = check_config(&file).unwrap();
        text.lines().filter(|l| l.contains("something else")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(warnings(), [""; 0]);
    let long = format!(
        "[gateway]\nname = \"a\"\nkey = \"a.key\"\n[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\n",
        "b".repeat(70_000),
        keys::to_base64(&[9; 32])
    );
    std::fs::write(dir.join("long.toml"), long).unwrap();
    let why = check_config(&dir.join("long.toml")).unwrap_err().to_string();
    assert!(why.contains("more octets)' is no name") && why.len() < 300, "{why}");
    std::fs::write(dir.join("x.txt"), "17\n").unwrap();
    std::fs::write(dir.join("x.txt.peers"), "").unwrap();
    assert_eq!(warnings(), [""; 0], "what a gateway left there");
    std::fs::write(dir.join("x.txt"), "dear diary\n").unwrap();
    std::fs::write(dir.join("x.txt.peers"), "dear diary\n").unwrap();
    let said = warnings();
    assert!(said.len() == 2 && said[0].contains("x.txt holds") && said[1].contains("x.txt.peers holds"), "{said:?}");
    std::fs::remove_dir_all(dir).unwrap();
}
