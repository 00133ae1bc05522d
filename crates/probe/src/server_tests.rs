#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
use super::*;
use crate::packet::{PROBE_MIN, QUESTION_LEN};
use proptest::prelude::*;
use wavelane_base::Seed;

const CLIENT: &str = "192.0.2.1:5000";
const NONCE: Nonce = [9; 8];

fn server(limits: Limits) -> Server {
    Server::new(limits, Seed(18).entropy("server"))
}

/// Sends a message as a client does and reads the answer.
fn ask(server: &mut Server, now: Instant, from: &str, message: Message) -> Option<Message> {
    let pad = if matches!(message, Message::Probe(_)) { PROBE_MIN } else { QUESTION_LEN };
    let (mut question, mut out) = ([0; 200], [0; 200]);
    let len = message.emit(&mut question, pad).unwrap();
    let answer = server.handle(now, now, from.parse().unwrap(), &question[..len], &mut out)?;
    assert!(answer.len <= len, "{message:?} of {len} octets drew {}", answer.len);
    Some(Message::parse(&out[..answer.len]).unwrap())
}

fn open(server: &mut Server, now: Instant, from: &str, nonce: Nonce) -> Result<(Token, Grant), Refusal> {
    let Some(Message::Cookie(_, cookie)) = ask(server, now, from, Message::Hello(nonce)) else { panic!("no cookie") };
    match ask(server, now, from, Message::Open(nonce, cookie, 30)) {
        Some(Message::Welcome(n, token, grant)) if n == nonce => Ok((token, grant)),
        Some(Message::Refused(_, why)) => Err(why),
        other => panic!("{other:?}"),
    }
}

fn probe(token: Token, train: u16, number: u32) -> Message {
    Message::Probe(Probe { token, train, dscp: 46, number, sent: 77 })
}

#[test]
fn a_session_takes_a_cookie_that_was_sent_to_that_very_address() {
    let mut s = server(Limits::default());
    let now = Instant::from_secs(100);
    let Some(Message::Cookie(nonce, cookie)) = ask(&mut s, now, CLIENT, Message::Hello(NONCE)) else { panic!() };
    assert_eq!((nonce, s.sessions()), (NONCE, 0), "nothing is remembered of a stranger");
    let mut wrong = cookie;
    wrong[15] ^= 1;
    for (from, nonce, cookie, later) in [
        ("192.0.2.2:5000", NONCE, cookie, 0),
        ("192.0.2.1:5001", NONCE, cookie, 0),
        (CLIENT, [8; 8], cookie, 0),
        (CLIENT, NONCE, wrong, 0),
        (CLIENT, NONCE, cookie, 20),
    ] {
        let at = now + Span::from_secs(later);
        assert_eq!(ask(&mut s, at, from, Message::Open(nonce, cookie, 30)), None, "{from} {later} s later");
    }
    assert_eq!((s.drops().bad_cookie, s.sessions()), (5, 0));
    let late = now + Span::from_secs(19);
    let Some(Message::Cookie(_, cookie)) = ask(&mut s, now + Span::from_secs(9), CLIENT, Message::Hello(NONCE)) else {
        panic!()
    };
    let again = || Message::Open(NONCE, cookie, 30);
    let first = ask(&mut s, late, CLIENT, again());
    assert!(matches!(first, Some(Message::Welcome(..))), "the slot before counts");
    assert_eq!(ask(&mut s, late, CLIENT, again()), first, "a repeated question draws the same answer");
    assert_eq!(s.sessions(), 1);
}

#[test]
fn probes_are_answered_in_order_and_copies_counted() {
    let mut s = server(Limits::default());
    let now = Instant::from_secs(1);
    let (token, _) = open(&mut s, now, CLIENT, NONCE).unwrap();
    let mut orders = Vec::new();
    for number in [0, 1, 4, 2, 4, 5, 4_000, 5, 3_999, u32::MAX, u32::MAX] {
        if let Some(Message::Echo(echo)) = ask(&mut s, now, CLIENT, probe(token, 1, number)) {
            assert_eq!((echo.probe.number, echo.probe.sent, echo.probe.dscp), (number, 77, 46));
            orders.push((number, echo.order, echo.window & 0b11_1111));
        }
    }
    let seen = [(0, 1, 1), (1, 2, 0b11), (4, 3, 0b1_1001), (2, 4, 0b1_1101), (5, 5, 0b11_1011)];
    assert_eq!(orders[..5], seen);
    assert_eq!(orders[5..], [(4_000, 6, 1), (3_999, 7, 0b11), (u32::MAX, 8, 1)]);
    let Some(Message::Counted(_, 1, tally)) = ask(&mut s, now, CLIENT, Message::Count(token, 1)) else { panic!() };
    assert_eq!(tally, Tally { received: 8, duplicates: 2, reordered: 2, refused: 1, loaded: 0, socket_drops: 0 });
    let Some(Message::Counted(_, 2, none)) = ask(&mut s, now, CLIENT, Message::Count(token, 2)) else { panic!() };
    assert_eq!(none, Tally::default());
}

/// A session is told what the socket dropped since it was opened, also when the kernel's count has wrapped.
#[test]
fn the_sockets_drops_are_told_apart_from_the_networks() {
    let mut s = server(Limits::default());
    let now = Instant::from_secs(1);
    s.note_socket_drops(u32::MAX - 4);
    let (token, _) = open(&mut s, now, CLIENT, NONCE).unwrap();
    let told = |s: &mut Server| match ask(s, now, CLIENT, Message::Count(token, 1)) {
        Some(Message::Counted(_, 1, tally)) => tally.socket_drops,
        other => panic!("{other:?}"),
    };
    assert_eq!(told(&mut s), 0);
    s.note_socket_drops(u32::MAX);
    assert_eq!(told(&mut s), 4);
    for _ in 0..2 {
        s.note_socket_drops(9);
        assert_eq!((told(&mut s), s.drops().socket), (14, (1 << 32) + 9));
    }
}

#[test]
fn only_the_client_is_served_and_only_until_its_time_is_over() {
    let mut s = server(Limits::default());
    let now = Instant::from_secs(1);
    let (token, grant) = open(&mut s, now, CLIENT, NONCE).unwrap();
    assert_eq!(grant.seconds, 30);
    assert_eq!(ask(&mut s, now, "192.0.2.1:5001", probe(token, 1, 0)), None);
    assert_eq!(ask(&mut s, now, CLIENT, probe([0; 16], 1, 0)), None);
    assert!(ask(&mut s, now, CLIENT, probe(token, 1, 0)).is_some());
    assert!(s.admit_load(now, "192.0.2.2".parse().unwrap(), &token).is_none());
    assert_eq!(ask(&mut s, now + Span::from_secs(30), CLIENT, probe(token, 1, 1)), None);
    assert!(s.admit_load(now + Span::from_secs(30), "192.0.2.1".parse().unwrap(), &token).is_none());
    s.expire(now + Span::from_secs(30));
    assert_eq!((s.sessions(), s.drops().no_session), (0, 3));
}

#[test]
fn rate_sessions_trains_time_bytes_and_connections_are_bounded() {
    let limits = Limits {
        sessions: 3,
        sessions_per_source: 2,
        hour_seconds: 60,
        hour_bytes: 1_000,
        probes_per_second: 10,
        connections: 1,
        strangers_per_second: 4,
        ..Limits::default()
    };
    let mut s = server(limits);
    let now = Instant::from_secs(1);
    let (token, _) = open(&mut s, now, CLIENT, NONCE).unwrap();
    let answered = (0..1_000).filter(|i| ask(&mut s, now, CLIENT, probe(token, 0, *i)).is_some()).count();
    assert_eq!(answered, 20, "two seconds' worth are saved up");
    let Some(Message::Counted(_, _, tally)) = ask(&mut s, now, CLIENT, Message::Count(token, 0)) else { panic!() };
    assert_eq!((tally.received, tally.refused), (20, 980), "what was refused is no loss on the way");
    let ip = "192.0.2.1".parse().unwrap();
    assert!(s.admit_load(now, ip, &token).is_some() && s.admit_load(now, ip, &token).is_none());
    s.end_load(now, &token);
    assert!(s.admit_load(now, ip, &token).is_some());
    assert!(s.count_load(now, &token, 600, 399) && !s.count_load(now, &token, 1, 0));
    assert_eq!(open(&mut s, now, CLIENT, [1; 8]), Err(Refusal::UsedUp), "bytes");
    open(&mut s, now, "192.0.2.2:1", [2; 8]).unwrap();
    open(&mut s, now, "192.0.2.2:2", [3; 8]).unwrap();
    assert_eq!(
        ask(&mut s, now, "192.0.2.9:1", Message::Hello(NONCE)),
        None,
        "four strangers had this second's answers"
    );
    // The time is told without a session, to so many a second.
    let time = |s: &mut Server| ask(s, now, "192.0.2.9:1", Message::Ask([7; 8]));
    assert!(matches!(time(&mut s), Some(Message::Time([7, ..], came, left)) if came == left && left == now.as_nanos()));
    assert_eq!((0..2_000).filter(|_| time(&mut s).is_some()).count(), 999);
    let later = now + Span::from_secs(1);
    assert_eq!(open(&mut s, later, "192.0.2.2:3", [4; 8]), Err(Refusal::TooMany));
    assert_eq!(open(&mut s, later, "192.0.2.3:3", [4; 8]), Err(Refusal::Full));
    ask(&mut s, later, CLIENT, Message::Close(token));
    assert_eq!(s.sessions(), 2);
}

#[test]
fn who_opens_and_says_nothing_gives_way() {
    let limits = Limits::default();
    let mut s = server(limits);
    let now = Instant::from_secs(100);
    // Sessions of eight sources, as many as there are; one of them probes.
    let tokens: Vec<Token> = (0..limits.sessions)
        .map(|i| open(&mut s, now, &format!("192.0.2.{}:{}", i / 4 + 1, i + 1), [i as u8; 8]).unwrap().0)
        .collect();
    assert_eq!(open(&mut s, now, "198.51.100.1:1", NONCE), Err(Refusal::Full));
    let later = now + GIVES_WAY_AFTER;
    assert!(ask(&mut s, later, "192.0.2.1:1", probe(tokens[0], 0, 0)).is_some());
    for i in 0..limits.sessions as u8 - 1 {
        open(&mut s, later, &format!("198.51.100.{}:1", i + 1), NONCE).unwrap();
    }
    assert_eq!(open(&mut s, later, "203.0.113.1:1", NONCE), Err(Refusal::Full), "all are busy now");
    assert!(ask(&mut s, later, "192.0.2.1:1", probe(tokens[0], 0, 1)).is_some(), "it was never silent");
    assert_eq!((s.sessions(), s.drops().silent), (limits.sessions, limits.sessions as u64 - 1));
}

#[test]
fn one_site_closes_the_server_to_nobody() {
    let mut s = server(Limits::default());
    let mut now = Instant::from_secs(100);
    let mut opened = 0_u32;
    // All networks of 64 bits within one of 52, a session of a second each, and more than there are places for sources.
    for i in 0..5_000_u32 {
        now += Span::from_millis(40);
        opened +=
            u32::from(open(&mut s, now, &format!("[2001:db8:{:x}:{:x}::1]:1", i / 4_096, i % 4_096), NONCE).is_ok());
    }
    assert!(opened > 100, "{opened}");
    assert!(open(&mut s, now, "192.0.2.1:1", NONCE).is_ok());
    assert!(open(&mut s, now, "[2001:db8:ffff::1]:1", NONCE).is_ok());
    // At one moment it has half of the places at most.
    let mut s = server(Limits::default());
    let at_once = (0..64).filter(|i| open(&mut s, now, &format!("[2001:db8:7:{i:x}::1]:1"), NONCE).is_ok()).count();
    assert_eq!(at_once, Limits::default().sessions / 2);
}

#[test]
fn trains_of_a_session_are_bounded() {
    let mut s = server(Limits::default());
    let now = Instant::from_secs(1);
    let (token, _) = open(&mut s, now, CLIENT, NONCE).unwrap();
    for train in 0..1_000 {
        let answer = ask(&mut s, now, CLIENT, probe(token, train, 0));
        assert_eq!(answer.is_some(), usize::from(train) < TRAINS_MAX, "train {train}");
    }
}

#[test]
fn a_silent_session_ends_and_returns_its_budget() {
    let mut s = server(Limits { hour_seconds: 300, ..Limits::default() });
    let now = Instant::from_secs(1);
    let cookie = |s: &mut Server, at| match ask(s, at, CLIENT, Message::Hello(NONCE)) {
        Some(Message::Cookie(_, cookie)) => cookie,
        other => panic!("{other:?}"),
    };
    let first = cookie(&mut s, now);
    assert!(matches!(ask(&mut s, now, CLIENT, Message::Open(NONCE, first, u16::MAX)), Some(Message::Welcome(..))));
    let later = now + IDLE_MAX;
    let second = cookie(&mut s, later);
    let again = ask(&mut s, later, CLIENT, Message::Open(NONCE, second, 200));
    assert!(matches!(again, Some(Message::Welcome(_, _, grant)) if grant.seconds == 200), "{again:?}");
    assert_eq!(s.sessions(), 1);
}

proptest! {
    /// Whatever a stranger sends: no session, no state, and never more octets than it sent.
    #[test]
    fn a_stranger_never_draws_more_than_it_sends(
        datagrams in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..100), 0u8..12, any::<bool>()), 1..60),
    ) {
        let mut s = server(Limits::default());
        let (mut asked, mut answered) = (0, 0);
        let mut out = [0; 2_000];
        for (mut datagram, kind, ours) in datagrams {
            if ours && datagram.len() >= 6 {
                datagram[..4].copy_from_slice(b"WLPR");
                datagram[4] = 1;
                datagram[5] = kind;
            }
            asked += datagram.len();
            let now = Instant::from_secs(1);
            if let Some(answer) = s.handle(now, now, CLIENT.parse().unwrap(), &datagram, &mut out) {
                prop_assert!(answer.len <= datagram.len());
                answered += answer.len;
            }
        }
        prop_assert!(answered <= asked && s.sessions() == 0);
    }
}

#[test]
fn limits_of_nothing_are_no_panic() {
    let limits = Limits { session_seconds: 0, ..Limits::default() };
    assert_eq!(open(&mut server(limits), Instant::ZERO, CLIENT, NONCE).unwrap().1.seconds, 1);
    let limits = Limits { hour_bytes: 0, ..Limits::default() };
    assert_eq!(open(&mut server(limits), Instant::ZERO, CLIENT, NONCE).map(drop), Err(Refusal::UsedUp));
}
