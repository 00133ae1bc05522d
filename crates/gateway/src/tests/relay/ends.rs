//! Flows that end while relays restart, several times and several of them: at random moments, and when an application just heard
//! the end.

use super::*;

/// No flow is reported as reset, lost or doubled, and all are over soon after the last trouble.
fn ends(seed: u64) {
    let mut dice = Seed(seed).chance("ends");
    let count = 3 + dice.below(3) as usize;
    let mut chain = Chain::new(count, seed);
    chain.seals = vec![dice.below(2) == 0; count];
    chain.overhears = (dice.below(3) == 0).then(|| Ratio::new(1, 2).unwrap());
    (0..count).for_each(|node| chain.boot(node));
    chain.loss = Ratio::new(dice.below(3) as u32 * 8, 100).unwrap();
    for n in 0..1 + dice.below(3) {
        let mut size = || [0, 1, 400, 5_000, 60_000][dice.below(5) as usize];
        let client = chain.talk(noise(seed + n, size()), noise(n, size()));
        if dice.below(3) == 0 {
            chain.clients[client].reads_from = chain.now + Span::from_millis(dice.below(10_000));
        }
    }
    let (mut crashes, mut next) = (1 + dice.below(6), chain.now);
    let (mut seen, mut ended, mut trouble_until) = (0, 0, chain.now);
    // A relay that is away, and when it returns.
    let mut away: Option<(usize, Instant)> = None;
    loop {
        let slice = Span::from_micros(1 << dice.below(19));
        let closed = chain.run(slice, Chain::all_closed);
        while seen < chain.servers.len() {
            if dice.below(3) == 0 {
                chain.servers[seen].reads_from = chain.now + Span::from_millis(dice.below(10_000));
            }
            seen += 1;
        }
        if let Some((node, _)) = away.filter(|(_, at)| *at <= chain.now || closed) {
            chain.boot(node);
            away = None;
            trouble_until = chain.now;
        }
        if closed {
            break;
        }
        let talks = || chain.clients.iter().chain(&chain.servers);
        let fates: Vec<_> = talks().map(|talk| (&talk.fate, talk.heard.len(), talk.end)).collect();
        assert!(fates.iter().all(|f| matches!(f.0, None | Some(GatewayEvent::Closed(_)))), "{seed}: {fates:?}");
        trouble_until = talks().fold(trouble_until, |last, talk| last.max(talk.reads_from));
        assert!(chain.now <= trouble_until + Span::from_secs(30), "{seed}: {fates:?}");
        let ends = talks().filter(|talk| talk.end).count();
        let just_ended = core::mem::replace(&mut ended, ends) < ends;
        if crashes > 0 && away.is_none() && (just_ended && dice.below(2) == 0 || chain.now >= next) {
            crashes -= 1;
            next = chain.now + Span::from_micros(1 << dice.below(24));
            let node = 1 + dice.below(count as u64 - 2) as usize;
            // A new flow would be refused.
            if dice.below(4) == 0 && chain.servers.len() == chain.clients.len() {
                chain.nodes[node] = None;
                away = Some((node, chain.now + Span::from_millis(dice.below(6_000))));
            } else {
                chain.boot(node);
            }
            trouble_until = away.map_or(chain.now, |(_, at)| at);
        }
    }
    assert_eq!(chain.incoming, chain.clients.len(), "{seed}");
    // The servers may come in another order.
    let all = |talks: &[Talk], what: fn(&Talk) -> &Vec<u8>| {
        let mut all: Vec<Vec<u8>> = talks.iter().map(|talk| what(talk).clone()).collect();
        all.sort();
        all
    };
    assert!(all(&chain.clients, |talk| &talk.data) == all(&chain.servers, |talk| &talk.heard), "{seed}");
    assert!(all(&chain.servers, |talk| &talk.data) == all(&chain.clients, |talk| &talk.heard), "{seed}");
    chain.run(Span::from_secs(20), |_| false);
    for n in 0..count {
        let now = chain.now;
        let status = chain.node(n).status(now);
        let held = (status.flows, status.flows_relayed, status.buffered, chain.node(n).relays.len());
        assert_eq!(held, (0, 0, 0, 0), "{seed}: {:?}", status.counters);
        let wrong = ["dropped_words_forged", "dropped_parcels_foreign", "hop_protocol_errors"];
        assert_eq!(wrong.map(|what| chain.count(n, what)), [0; 3], "{seed}");
    }
}

#[test]
fn flows_end_well_while_relays_restart() {
    (0..60).for_each(ends);
}
