#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;
use crate::keys;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Configurations of peers at these addresses.
fn config(addresses: &[&str]) -> Config {
    // Of this call alone, for tests may run beside each other in one process.
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("wavelane-names-{}-{call}", std::process::id()));
    let _ = std::fs::create_dir_all(&dir);
    let _ = keys::write_key(&dir.join("a.key"), &[1; 32]);
    let mut text = "[gateway]\nname = \"a\"\nkey = \"a.key\"\ncontrol = \"a.sock\"\n".to_string();
    for (i, address) in addresses.iter().enumerate() {
        let public = keys::to_base64(&[i as u8 + 9; 32]);
        text += &format!("[[peer]]\nname = \"p{i}\"\npublic_key = \"{public}\"\naddress = \"{address}\"\n");
    }
    let config = Config::parse(&text, "x", &dir);
    let _ = std::fs::remove_dir_all(&dir);
    config.unwrap()
}

fn at(s: u64) -> Instant {
    Instant::from_secs(s)
}

/// Runs what is due and waits for the answers.
fn round(names: &mut Names, now: Instant) -> Vec<(usize, usize, News)> {
    names.tick(now);
    let mut news = Vec::new();
    while names.running > 0 {
        names.bell.set_nonblocking(false).unwrap();
        let _ = names.bell.read(&mut [0; 1]);
        names.bell.set_nonblocking(true).unwrap();
        news.extend(names.take(now));
    }
    news
}

fn place(text: &str) -> Address {
    Address::Ip(address(text))
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn an_unknown_name_is_retried_and_logged_once() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let lookup: Lookup = |_| match ASKED.fetch_add(1, Ordering::Relaxed) {
        0..3 => Err(io::Error::other("Temporary failure in name resolution")),
        _ => Ok(vec!["[2001:db8::7]:4780".parse().unwrap(), "192.0.2.7:4780".parse().unwrap()]),
    };
    let mut names = Names::with(at(0), &config(&["shore.example:4780", "192.0.2.9:4780"]), lookup).unwrap();
    assert_eq!(names.addresses(), [[None], [Some(place("192.0.2.9:4780"))]]);
    assert_eq!(round(&mut names, at(0)), [(0, 0, News::Nowhere("Temporary failure in name resolution".into()))]);
    let mut now = at(0);
    let mut waits = Vec::new();
    let news = loop {
        let due = names.deadline().unwrap();
        waits.push(due.since(now));
        now = due;
        let news = round(&mut names, now);
        if !news.is_empty() {
            break news;
        }
    };
    assert_eq!(waits, [1, 2, 4].map(Span::from_secs));
    assert_eq!(news, [(0, 0, News::At(place("192.0.2.7:4780")))], "of the IP version that the socket speaks");
    names.up(0);
    assert_eq!(names.deadline(), None, "a peer that answers has its name left alone");
}

#[test]
fn a_silent_peer_is_tried_at_its_other_addresses() {
    static NOW: Mutex<Vec<SocketAddr>> = Mutex::new(Vec::new());
    let lookup: Lookup = |_| Ok(NOW.lock().unwrap().clone());
    let set = |texts: &[&str]| *NOW.lock().unwrap() = texts.iter().map(|t| address(t)).collect();
    set(&["192.0.2.1:4780", "192.0.2.2:4780"]);
    let mut names = Names::with(at(0), &config(&["shore.example:4780"]), lookup).unwrap();
    assert_eq!(round(&mut names, at(0)), [(0, 0, News::At(place("192.0.2.1:4780")))]);
    // It has not answered yet: its first address has five seconds, then the next has.
    assert_eq!(round(&mut names, at(1)), []);
    assert_eq!(round(&mut names, at(6)), [(0, 0, News::At(place("192.0.2.2:4780")))]);
    names.up(0);
    assert_eq!(round(&mut names, at(1_000)), []);
    // It moved.
    set(&["192.0.2.3:4780"]);
    names.silent(at(2_000), 0);
    assert_eq!(round(&mut names, at(2_000)), [(0, 0, News::At(place("192.0.2.3:4780")))]);
    // However long it is silent, a name server is asked once a minute at the most.
    let mut now = at(3_000);
    for _ in 0..20 {
        round(&mut names, now);
        now = names.deadline().unwrap();
    }
    round(&mut names, now);
    assert_eq!(names.deadline().unwrap().since(now), AGAIN_MAX);
}

#[test]
fn a_reload_keeps_addresses_and_repeats_lookups() {
    let lookup: Lookup = |text| Ok(vec![address(if text.starts_with("a.") { "192.0.2.1:1" } else { "192.0.2.2:2" })]);
    let mut names = Names::with(at(0), &config(&["a.example:1", "b.example:2"]), lookup).unwrap();
    round(&mut names, at(0));
    names.up(0);
    names.up(1);
    names.arrange(at(10), &config(&["a.example:1", "a.example:3", "192.0.2.8:4"]));
    assert_eq!(names.addresses(), [[Some(place("192.0.2.1:1"))], [None], [Some(place("192.0.2.8:4"))]]);
    assert_eq!(round(&mut names, at(10)), [(1, 0, News::At(place("192.0.2.1:1")))]);
    names.up(1);
    assert_eq!(names.deadline(), None);
}

#[test]
fn lookups_that_never_end_are_few() {
    let lookup: Lookup = |_| {
        std::thread::park();
        Ok(Vec::new())
    };
    let many: Vec<String> = (0..40).map(|i| format!("h{i}.example:4780")).collect();
    let texts: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut names = Names::with(at(0), &config(&texts), lookup).unwrap();
    names.tick(at(0));
    assert_eq!(names.running, LOOKUPS_MAX);
    assert_eq!(names.deadline(), None, "the others wait for one of them to end, not for a time");
}

#[test]
fn every_name_has_its_turn_however_slow_the_server_is() {
    let lookup: Lookup = |_| Ok(vec![address("192.0.2.1:1")]);
    let many: Vec<String> = (0..5 * LOOKUPS_MAX).map(|i| format!("h{i}.example:1")).collect();
    let texts: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut names = Names::with(at(0), &config(&texts), lookup).unwrap();
    // As many as run at once end in a minute, when the first are due again.
    let told: usize = (0..5).map(|minute| round(&mut names, at(60 * minute)).len()).sum();
    assert_eq!(told, many.len());
}

#[test]
fn a_late_lookup_leads_no_peer_away_that_answers() {
    static MOVED: AtomicUsize = AtomicUsize::new(0);
    let lookup: Lookup = |_| Ok(vec![address(["192.0.2.1:1", "192.0.2.2:2"][MOVED.load(Ordering::Relaxed)])]);
    let mut names = Names::with(at(0), &config(&["shore.example:1"]), lookup).unwrap();
    assert_eq!(round(&mut names, at(0)), [(0, 0, News::At(place("192.0.2.1:1")))]);
    names.up(0);
    MOVED.store(1, Ordering::Relaxed);
    names.silent(at(10), 0);
    names.tick(at(10));
    names.up(0);
    assert_eq!(round(&mut names, at(11)), []);
    assert_eq!(names.addresses(), [[Some(place("192.0.2.1:1"))]]);
    names.silent(at(20), 0);
    assert_eq!(round(&mut names, at(20)), [(0, 0, News::At(place("192.0.2.2:2")))]);
}

#[test]
fn a_silent_lanes_name_is_looked_up_again() {
    static MOVED: AtomicUsize = AtomicUsize::new(0);
    let lookup: Lookup = |text| {
        let moved = if text.starts_with("sat.") { 0 } else { MOVED.load(Ordering::Relaxed) };
        Ok(vec![address(["192.0.2.1:1", "192.0.2.2:2"][moved]), address("[2001:db8::1]:1")])
    };
    let mut config = config(&["sat.example:1"]);
    let lane = |name: &str, local: Option<&str>| crate::config::PeerLane {
        address: Some(name.into()),
        socket: local.map(|local| crate::config::LaneSocket {
            local: address(local),
            device: None,
            medium: crate::config::LaneMedium::default(),
            priority: 0,
            mark: None,
            line: None,
            dial: None,
            radio: None,
        }),
        ..crate::config::PeerLane::default()
    };
    config.peers[0].address = None;
    config.peers[0].lanes = vec![lane("sat.example:1", None), lane("lte.example:1", None)];
    config.peers[0].lanes.push(lane("lte.example:1", Some("[::1]:0")));
    let mut names = Names::with(at(0), &config, lookup).unwrap();
    let first = || News::At(place("192.0.2.1:1"));
    let mut news = round(&mut names, at(0));
    news.sort_by_key(|(_, lane, _)| *lane);
    assert_eq!(news, [(0, 0, first()), (0, 1, first()), (0, 2, News::At(place("[2001:db8::1]:1")))]);
    names.up(0);
    assert_eq!(names.deadline(), None);
    MOVED.store(1, Ordering::Relaxed);
    names.look_at_lanes(at(10), |_, lane| Some(lane == 1));
    assert_eq!(round(&mut names, at(10)), [(0, 1, News::At(place("192.0.2.2:2")))]);
    let four = address("192.0.2.2:2");
    assert_eq!(names.addresses(), [[Some(place("192.0.2.1:1")), Some(four.into()), Some(place("[2001:db8::1]:1"))]]);
    names.look_at_lanes(at(11), |_, _| Some(false));
    assert_eq!(names.deadline(), None, "all answer");
}
