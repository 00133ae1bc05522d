#![allow(clippy::unwrap_used, reason = "tests")]
use super::*;

const OWN: Mac = [2, 0, 0, 0, 0, 1];
const OWN_AT: [u8; 4] = [10, 1, 0, 1];
const CLIENT: (Mac, [u8; 4]) = ([2, 0, 0, 0, 0, 2], [10, 1, 0, 2]);
const ROUTER: (Mac, [u8; 4]) = ([2, 0, 0, 0, 0, 3], [10, 1, 0, 254]);
const ALL: Mac = [u8::MAX; 6];

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn claims(clients: &[&str]) -> Claims {
    let clients: Vec<IpPrefix> = clients.iter().map(|text| text.parse().unwrap()).collect();
    let routers = [IpAddr::from(ROUTER.1), "fd00:1::254".parse().unwrap()];
    let mut claims = Claims::new(OWN, &routers, &clients);
    claims.ask_from(&["10.1.0.1".parse().unwrap(), "fd00:1::1".parse().unwrap()]);
    claims
}

fn out(claims: &mut Claims) -> Vec<Message> {
    std::iter::from_fn(|| claims.poll_message()).collect()
}

/// Says to the machine what a host says by ARP.
fn says(claims: &mut Claims, now: Instant, operation: u8, from: (Mac, [u8; 4]), to: (Mac, [u8; 4])) {
    let message = arp(operation, [(from.0, from.1.into()), (to.0, to.1.into())]);
    claims.handle(now, read_arp(&message, from.0).unwrap());
}

/// That an address is at a link address, as a host hears it.
fn heard(message: &Message) -> (IpAddr, Mac, Mac) {
    let (bytes, is_six, to) = message;
    if *is_six {
        let heard = read_discovery(bytes, OWN).unwrap();
        let option: Mac = bytes[66..72].try_into().unwrap();
        return (heard.about, option, *to);
    }
    let at: Mac = bytes[8..14].try_into().unwrap();
    (IpAddr::from(<[u8; 4]>::try_from(&bytes[14..18]).unwrap()), at, *to)
}

#[test]
fn both_ends_are_claimed_renewed_and_told_the_truth_and_nobody_else_is() {
    let mut c = claims(&["10.1.0.2/32", "fd00:1::2/128"]);
    c.handle_timeout(at(0));
    let asked = out(&mut c);
    assert_eq!(asked.iter().filter(|(_, six, to)| !six && *to == ALL).count(), 2, "client and router are looked for");
    // A question that named nobody would be a probe, which a host that is about to take the address yields to.
    assert!(asked.iter().all(|(message, six, _)| *six || message[14..18] == OWN_AT));
    let mut silent = claims(&["10.1.0.2/32"]);
    silent.ask_from(&[]);
    silent.handle_timeout(at(0));
    assert_eq!(out(&mut silent), []);
    assert_eq!(asked.iter().filter(|(_, six, to)| *six && to[..2] == [0x33, 0x33]).count(), 2);
    // Both answer.
    says(&mut c, at(10), 2, CLIENT, (OWN, OWN_AT));
    assert_eq!(c.known(), (1, 0));
    says(&mut c, at(11), 2, ROUTER, (OWN, OWN_AT));
    let mut said: Vec<_> = out(&mut c).iter().map(heard).collect();
    said.sort();
    said.dedup();
    let both = [(CLIENT.1.into(), OWN, ROUTER.0), (ROUTER.1.into(), OWN, CLIENT.0)];
    assert_eq!(said, both, "each hears it of the other");
    c.handle_timeout(at(400));
    assert!(!out(&mut c).is_empty(), "once more");
    // A question for the other is answered, for anybody else not.
    says(&mut c, at(1_000), 1, CLIENT, ([0; 6], ROUTER.1));
    assert_eq!(out(&mut c).iter().map(heard).collect::<Vec<_>>(), [both[1]]);
    says(&mut c, at(1_000), 1, CLIENT, ([0; 6], [10, 1, 0, 9]));
    let stranger = ([2, 0, 0, 0, 0, 9], [10, 1, 0, 9]);
    says(&mut c, at(1_000), 1, stranger, ([0; 6], ROUTER.1));
    assert_eq!(out(&mut c), []);
    assert_eq!(c.known(), (1, 1));
    // The router tells all of itself: each that is known is told otherwise.
    says(&mut c, at(1_100), 1, ROUTER, ([0; 6], ROUTER.1));
    assert_eq!(out(&mut c).iter().map(heard).collect::<Vec<_>>(), [both[1]]);
    // Another that says that it is the router is asked, and nothing is believed yet.
    says(&mut c, at(1_200), 1, ([2, 0, 0, 0, 0, 9], ROUTER.1), ([0; 6], CLIENT.1));
    assert_eq!((out(&mut c).len(), c.counts["arp_changes"]), (1, 1));
    let truth: Vec<_> = c.end().iter().map(heard).collect();
    assert_eq!(truth, [(ROUTER.1.into(), ROUTER.0, CLIENT.0), (CLIENT.1.into(), CLIENT.0, ROUTER.0)]);
    c.handle_timeout(at(12_000));
    assert!(out(&mut c).iter().map(heard).any(|said| said == both[0]), "renewed");
    c.handle_timeout(at(400_000));
    assert_eq!(c.known(), (0, 0), "forgotten");
}

#[test]
fn neighbour_discovery_is_claimed_by_the_same_rules() {
    let mut c = claims(&["fd00:1::/64"]);
    let (client, router): (Ipv6Addr, Ipv6Addr) = ("fd00:1::2".parse().unwrap(), "fd00:1::254".parse().unwrap());
    let ask = |from, to, mac| discovery(SOLICITATION, 0, (from, to), to, (1, mac));
    c.handle(at(0), read_discovery(&ask(client, router, CLIENT.0), CLIENT.0).unwrap());
    c.handle(at(0), read_discovery(&ask(router, client, ROUTER.0), ROUTER.0).unwrap());
    let said: Vec<_> = out(&mut c);
    let wanted = [(router.into(), OWN, CLIENT.0), (client.into(), OWN, ROUTER.0)];
    assert!(wanted.iter().all(|wanted| said.iter().any(|message| heard(message) == *wanted)), "{said:?}");
    let flags =
        |about: Ipv6Addr| said.iter().filter(|m| heard(m).0 == IpAddr::V6(about)).map(|m| m.0[44]).max().unwrap();
    assert_eq!((flags(router), flags(client)), (0xe0, 0x60), "router, solicited, override");
    // Who asks whether an address is free names nobody (RFC 4862).
    let probe = ask(Ipv6Addr::UNSPECIFIED, client, CLIENT.0);
    c.handle(at(9), read_discovery(&probe, CLIENT.0).unwrap());
    assert_eq!(out(&mut c), []);
    let mut wrong = ask(client, router, CLIENT.0);
    assert!(read_discovery(&wrong, ALL).is_none(), "a group is no station");
    wrong[7] = 254;
    assert!(read_discovery(&wrong, CLIENT.0).is_none(), "it crossed a router");
    wrong[7] = 255;
    wrong[50] ^= 1;
    assert!(read_discovery(&wrong, CLIENT.0).is_none(), "its checksum");
    for len in 0..wrong.len() {
        assert!(read_discovery(&wrong[..len], CLIENT.0).is_none());
    }
}

#[test]
fn a_storm_fills_no_table_and_is_answered_at_a_rate() {
    let mut c = claims(&["10.0.0.0/8"]);
    says(&mut c, at(0), 2, ROUTER, (OWN, OWN_AT));
    for n in 0..20_000_u32 {
        let [_, b, c_, d] = n.to_be_bytes();
        let host = ([2, 1, 0, b, c_, d], [10, 2 + b, c_, d]);
        says(&mut c, at(u64::from(n) / 20), 1, host, ([0; 6], ROUTER.1));
    }
    let sent = out(&mut c).len();
    assert!((BURST as usize..BURST as usize + RATE as usize + 1).contains(&sent), "{sent} in a second");
    assert!(c.known().0 <= HOSTS_MAX && c.again.len() <= AGAIN_MAX);
    assert!(c.counts["dropped_arp_hosts_full"] > 10_000 && c.counts["dropped_arp_rate"] > 0);
    for (message, from) in
        [(&[0; 28][..], CLIENT.0), (&[], CLIENT.0), (&arp(1, [(OWN, [10, 1, 0, 1].into()); 2]), CLIENT.0)]
    {
        assert_eq!(read_arp(message, from), None);
    }
}

#[test]
fn many_clients_are_renewed_in_turn_and_questions_are_answered_meanwhile() {
    const CLIENTS: usize = 1_000;
    let mut c = claims(&["10.1.0.0/16"]);
    let host = |n: usize| ([2, 1, 0, 0, (n >> 8) as u8, n as u8], [10, 1, 1 + (n >> 8) as u8, n as u8]);
    says(&mut c, at(0), 2, ROUTER, (OWN, OWN_AT));
    (0..CLIENTS).for_each(|n| says(&mut c, at(0), 1, host(n), ([0; 6], host(n).1)));
    assert_eq!(c.known(), (CLIENTS, 1));
    let (mut now, mut told, mut of_them) = (at(0), BTreeMap::new(), BTreeMap::new());
    let (mut sent, mut asked, mut answered) = (0, 0, 0);
    while now < at(60_000) {
        now = c.poll_timeout().max(now + Span::from_micros(1)).min(at(60_000));
        c.handle_timeout(now);
        // Each tenth of a second one asks, and the router now and then tells all of itself.
        if now >= at(asked * 100) {
            let mut all = out(&mut c);
            says(&mut c, now, 1, host(asked as usize % CLIENTS), ([0; 6], ROUTER.1));
            let answer = (IpAddr::from(ROUTER.1), OWN, host(asked as usize % CLIENTS).0);
            let said = out(&mut c);
            answered += u64::from(said.iter().map(heard).any(|said| said == answer));
            all.extend(said);
            c.out.extend(all);
            asked += 1;
            if asked % 200 == 0 {
                says(&mut c, now, 1, ROUTER, ([0; 6], ROUTER.1));
            }
        }
        for said in out(&mut c).iter().map(heard) {
            sent += 1;
            let last = told.insert(said, now).unwrap_or_default();
            let gap: &mut Span = of_them.entry(said).or_default();
            *gap = now.since(last).max(*gap);
        }
    }
    assert_eq!(answered, asked, "each question is answered at once");
    for n in 0..CLIENTS {
        for (about, to) in [(ROUTER.1, host(n).0), (host(n).1, ROUTER.0)] {
            let gap = of_them.get(&(about.into(), OWN, to)).copied().unwrap_or(Span::from_secs(60));
            let last = told.get(&(about.into(), OWN, to)).copied().unwrap_or_default();
            let longest = gap.max(now.since(last));
            assert!(longest < Span::from_secs(24), "{n}: not told about {about:?} for {longest:?}");
        }
    }
    assert!(sent <= (BURST + BURST_RENEWALS + 60 * RATE) as usize + 10, "{sent} in a minute");
}

/// Has the machine ask for a host, as it does when a strange word comes in its name, and answers from these link addresses.
fn contested(c: &mut Claims, now: u64, answers: &[(Mac, u64)]) {
    let stranger = ([2, 0, 0, 0, 0, 8], ROUTER.1);
    says(c, at(now), 1, stranger, ([0; 6], CLIENT.1));
    assert!(out(c).iter().any(|(_, _, to)| *to == ALL), "all of the link is asked");
    for (mac, after) in answers {
        says(c, at(now + after), 2, (*mac, ROUTER.1), (OWN, OWN_AT));
    }
    out(c);
}

#[test]
fn who_answers_in_a_hosts_name_is_believed_only_if_that_host_is_silent() {
    const FORGER: Mac = [2, 0, 0, 0, 0, 9];
    const OTHER: Mac = [2, 0, 0, 0, 0, 10];
    let mut c = claims(&["10.1.0.2/32"]);
    c.handle_timeout(at(0));
    says(&mut c, at(10), 2, CLIENT, (OWN, OWN_AT));
    says(&mut c, at(10), 2, ROUTER, (OWN, OWN_AT));
    let truth = |c: &Claims| c.end().iter().map(heard).find(|said| said.2 == CLIENT.0).map(|said| said.1);
    // First, last, and without an end, beside the router's own answer.
    for n in 0..100 {
        let now = 1_000 + n * 1_000;
        contested(&mut c, now, &[(FORGER, 1), (ROUTER.0, 2), (FORGER, 3), (FORGER, 200), (FORGER, 490)]);
        for after in [500, 510, 999] {
            c.handle_timeout(at(now + after));
            assert_eq!(truth(&c), Some(ROUTER.0));
            assert!(out(&mut c).iter().all(|(_, _, to)| *to != FORGER), "and is told nothing");
            // The router answers each question of its own renewal, too.
            for mac in [FORGER, ROUTER.0, FORGER] {
                says(&mut c, at(now + after), 2, (mac, ROUTER.1), (OWN, OWN_AT));
            }
        }
    }
    assert!(c.counts["arp_contested"] >= 100);
    c.handle_timeout(at(110_000));
    // The router is asked by itself, too: one question of all may be lost.
    contested(&mut c, 120_000, &[]);
    says(&mut c, at(120_001), 2, (FORGER, ROUTER.1), (OWN, OWN_AT));
    assert!(out(&mut c).iter().any(|(_, _, to)| *to == ROUTER.0));
    // Of two that answer for a silent host neither is believed.
    contested(&mut c, 130_000, &[(FORGER, 1), (OTHER, 2)]);
    c.handle_timeout(at(130_600));
    assert_eq!(truth(&c), Some(ROUTER.0));
    // Who answers alone has the address, but not before half a second.
    contested(&mut c, 140_000, &[(OTHER, 1)]);
    c.handle_timeout(at(140_400));
    assert_eq!((truth(&c), c.poll_timeout()), (Some(ROUTER.0), at(140_501)));
    c.handle_timeout(at(140_501));
    assert_eq!(truth(&c), Some(OTHER));
    c.handle_timeout(at(140_900));
    assert!(out(&mut c).iter().map(heard).any(|said| said == (CLIENT.1.into(), OWN, OTHER)), "and is led here");
    // A word without a question changes nothing, and storms of forged names keep nothing.
    let before = c.candidates.len();
    (0..5_000_u64).for_each(|n| {
        let mac = [2, 0, 0, 1, (n >> 8) as u8, n as u8];
        says(&mut c, at(150_000 + n), 2, (mac, ROUTER.1), (OWN, OWN_AT));
        c.handle_timeout(at(150_000 + n));
    });
    assert!(before + c.candidates.len() <= 1 && truth(&c) == Some(OTHER));
}
