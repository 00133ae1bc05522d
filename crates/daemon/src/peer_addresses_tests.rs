#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use std::os::unix::fs::PermissionsExt;

/// A folder with a configuration of three peers: the first has an address.
fn config(tag: &str) -> (PathBuf, Config) {
    let dir = std::env::temp_dir().join(format!("wavelane-addresses-{}-{tag}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    keys::write_key(&dir.join("a.key"), &[1; 32]).unwrap();
    let mut text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\nstate = \"a.epoch\"\n".to_string();
    for i in 0..3 {
        let address = if i == 0 { "address = \"192.0.2.1:4780\"\n" } else { "" };
        text += &format!("[[peer]]\nname = \"p{i}\"\npublic_key = \"{}\"\n{address}", key_text(i));
    }
    let config = Config::parse(&text, "x", &dir).unwrap();
    (dir, config)
}

fn key_text(i: u8) -> String {
    keys::to_base64(&[i + 9; 32])
}

fn at(s: u64) -> Instant {
    Instant::from_secs(s)
}

fn place(address: &str, local: Option<&str>) -> PeerAddress {
    PeerAddress { address: address.parse().unwrap(), local: local.map(|ip| ip.parse().unwrap()) }
}

/// Ticks at `now` until no write is going on.
fn settle(peer_addresses: &mut PeerAddresses, now: Instant) -> Vec<String> {
    let mut said: Vec<String> = peer_addresses.tick(now).into_iter().collect();
    while peer_addresses.writing.is_some() {
        std::thread::yield_now();
        said.extend(peer_addresses.tick(now));
    }
    said
}

fn open(config: &Config) -> (PeerAddresses, Option<String>) {
    PeerAddresses::open(at(0), config)
}

#[test]
fn remembered_addresses_survive_a_restart() {
    let (dir, mut config) = config("kept");
    let listen = "[::]:4780".parse().unwrap();
    let (mut w, remark) = open(&config);
    assert_eq!((remark, w.deadline()), (None, None));
    assert_eq!(settle(&mut w, at(0)), [""; 0]);
    assert!(!dir.join("a.epoch.peers").exists(), "nothing is written of nobody");
    let here = place("198.51.100.7:60001", Some("192.0.2.9"));
    let there = place("[2001:db8::7]:4780", None);
    for (peer, place) in config.peers.iter().zip([here, here, there]) {
        w.note(peer, place);
    }
    assert_eq!(w.deadline(), Some(at(0)), "the first is written at once");
    assert_eq!(settle(&mut w, at(1)), [""; 0]);
    assert_eq!(w.deadline(), None);
    let file = dir.join("a.epoch.peers");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (mut w, remark) = open(&config);
    assert_eq!(remark, None);
    let places = |w: &PeerAddresses, config: &Config, listen| -> Vec<_> {
        config.peers.iter().map(|p| w.place(p, listen)).collect()
    };
    assert_eq!(places(&w, &config, listen), [None, Some(here), Some(there)]);
    assert_eq!(places(&w, &config, "0.0.0.0:4780".parse().unwrap()), [None, Some(here), None], "no socket for it");
    // A peer that was removed is removed from the file, too, and so is one that has an address now.
    config.peers.truncate(2);
    config.peers[1].address = Some("192.0.2.2:4780".into());
    w.arrange(&config);
    assert_eq!(places(&w, &config, listen), [None, None]);
    settle(&mut w, at(20));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), HEADER);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_peer_that_moves_all_the_time_is_written_every_ten_seconds() {
    let (dir, config) = config("rate");
    let (mut w, _) = open(&config);
    let mut writes = 0;
    for s in 0..100 {
        w.note(&config.peers[1], place(&format!("198.51.100.7:{}", 1000 + s), None));
        let before = w.kept.clone();
        settle(&mut w, at(s));
        writes += u32::from(w.kept != before);
        assert!(w.deadline().is_none_or(|next| next <= at(s) + WRITE_EVERY));
    }
    assert_eq!(writes, 10);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_unusable_file_is_one_line() {
    let (dir, config) = config("hostile");
    let file = dir.join("a.epoch.peers");
    let good = format!("{} 198.51.100.7:60001", key_text(1));
    let key = key_text(1);
    let listen = config.listen;
    let cases: [(&str, Vec<u8>); 11] = [
        ("longer than", vec![b'x'; FILE_MAX as usize + 1]),
        ("something else", vec![0xff; 100]),
        ("something else", b"dear diary\n".to_vec()),
        ("something else", format!("# peers\n{good}\n").into()),
        ("1 lines", b"nonsense\n".to_vec()),
        ("1 lines", format!("{key}\n").into()),
        ("1 lines", format!("{key} somewhere:1\n").into()),
        ("1 lines", format!("{key} 198.51.100.7:1 192.0.2.1 more\n").into()),
        ("1 lines", format!("{key} 198.51.100.7:1 more\n").into()),
        ("1 lines", format!("{} 198.51.100.7:1\n", &key[1..]).into()),
        ("2 lines", format!("\0\n{good}\n\u{7}{good}").into()),
    ];
    for (word, bytes) in cases {
        let bytes = if word.contains("lines") { [HEADER.as_bytes(), &bytes].concat() } else { bytes };
        std::fs::write(&file, &bytes).unwrap();
        let (mut w, remark) = open(&config);
        let remark = remark.unwrap();
        assert!(remark.contains(word) && !remark.contains('\n') && remark.len() < 400, "{remark}");
        assert_eq!(w.place(&config.peers[1], listen).is_some(), word == "2 lines");
        // What is another's stays, and nothing more is said.
        w.note(&config.peers[1], place("198.51.100.8:1", None));
        assert_eq!(settle(&mut w, at(1)), [""; 0]);
        assert_eq!(std::fs::read(&file).unwrap() == bytes, !word.contains("lines"), "{word}");
    }
    // Places where nobody can be.
    for address in ["0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1", "198.51.100.7:0", "[2001:db8::1]:1", "[ff02::1]:1"]
    {
        std::fs::write(&file, format!("{key} {address}\n")).unwrap();
        let (w, remark) = open(&config);
        assert_eq!((remark, w.place(&config.peers[1], listen)), (None, None), "{address}");
    }
    // More peers than there may be.
    let many: String = (0..=PEERS_MAX)
        .map(|i| {
            let mut key = [7; 32];
            key[..8].copy_from_slice(&(i as u64).to_be_bytes());
            format!("{} 198.51.100.7:1\n", keys::to_base64(&key))
        })
        .collect();
    std::fs::write(&file, many).unwrap();
    let (w, remark) = open(&config);
    assert!(w.known.is_empty() && w.kept.len() == PEERS_MAX && remark.unwrap().starts_with("1 lines"));
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_full_disk_is_logged_once_and_retried() {
    let (dir, mut config) = config("full");
    config.state = "/proc/none/a.epoch".into();
    let (mut w, remark) = open(&config);
    assert_eq!(remark, None);
    w.note(&config.peers[1], place("198.51.100.7:1", None));
    let said = settle(&mut w, at(0));
    assert!(said.len() == 1 && said[0].contains("`state`") && !said[0].contains('\n'), "{said:?}");
    assert_eq!(w.deadline(), Some(at(0) + RETRY_EVERY));
    assert_eq!(settle(&mut w, at(10)), [""; 0]);
    assert_eq!(w.deadline(), Some(at(20)));
    // What lies there instead is reported at the start, and then no more.
    config.state = dir.join("a.epoch");
    std::fs::create_dir(dir.join("a.epoch.peers")).unwrap();
    let (mut w, remark) = open(&config);
    assert!(remark.unwrap().contains("no plain file"));
    w.note(&config.peers[1], place("198.51.100.7:1", None));
    assert_eq!(settle(&mut w, at(0)), [""; 0]);
    std::fs::remove_dir(dir.join("a.epoch.peers")).unwrap();
    assert_eq!(settle(&mut w, at(10)), [""; 0]);
    assert_eq!((w.complained, w.deadline()), (false, None));
    std::fs::remove_dir_all(dir).unwrap();
}
