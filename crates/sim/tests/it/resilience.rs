//! Outages, rekeys, roaming and restarts: flows outlive what carries them, and never end as if complete.

use crate::common::{Direction, Pair, address, clean_demo, random_loss, secs, with_loss};
use std::cell::RefCell;
use std::rc::Rc;
use wavelane_base::{Instant, Span};
use wavelane_gateway::GatewayEvent;
use wavelane_sim::{FlowEnd, FlowIndex, FlowSpec, Point, Work};
use wavelane_wire::datagram::kind::HANDSHAKE_RESPONSE;
use wavelane_wire::ip::Udp4;

const RTT: Span = Span::from_millis(100);

/// The first moment at or after `from` at which the flow's receiver read something.
fn first_arrival(pair: &Pair, flow: FlowIndex, from: Instant) -> Instant {
    let arrivals = &pair.engine.log(flow).arrivals;
    let next = arrivals.iter().find(|(at, _)| *at >= from.as_nanos());
    Instant::from_nanos(next.expect("something arrives after the outage").0)
}

fn outage_of(outage: Span) {
    let (start, size) = (secs(3), 20_000_000);
    let back = start + outage;
    let mut pair = Pair::new(11, clean_demo());
    pair.outage(start, back);
    let down = pair.download(size);
    pair.engine.run_until(start + Span::from_millis(500));
    let before = pair.engine.log(down).octets;
    assert!(before > 1_000_000 && before < size, "the outage must fall into the download: {before} B before it");
    pair.finish(back + Span::from_secs(30));
    pair.assert_complete(down);
    let again = first_arrival(&pair, down, back).since(back);
    let limit = Span::from_millis(250) + RTT.times(2);
    assert!(again <= limit, "after an outage of {outage} data flows again only {again} after the link's return");
}

#[test]
fn a_download_survives_an_outage_of_30_seconds() {
    outage_of(Span::from_secs(30));
}

#[test]
fn a_download_survives_an_outage_of_5_minutes() {
    outage_of(Span::from_secs(300));
}

/// Keys are renewed every 120 s; 300 s of questions cross at least two renewals, each under heavy loss.
#[test]
fn rekeying_under_20_percent_loss_loses_nothing() {
    let mut pair = Pair::new(12, with_loss(clean_demo(), &random_loss(1, 5)));
    let every = Span::from_millis(100);
    let spec = pair.spec(Work::Echo { every, random: false, size: 64, during: None }, Instant::ZERO);
    let echo = pair.engine.add_flow(FlowSpec { stop: Some(secs(300)), ..spec });
    let answers = Rc::new(RefCell::new(Vec::new()));
    let seen = answers.clone();
    pair.engine.set_tap(Box::new(move |crossing| {
        let udp = Udp4::parse(crossing.packet).unwrap();
        if crossing.point == Point::Delivered && udp.payload.first() == Some(&HANDSHAKE_RESPONSE) {
            seen.borrow_mut().push(crossing.at);
        }
    }));
    pair.finish(secs(320));
    pair.assert_complete(echo);
    let log = pair.engine.log(echo);
    assert!(log.questions.len() >= 2_900, "only {} questions in 300 s", log.questions.len());
    assert!(log.questions.iter().all(|q| q.answered.is_some()), "a question has no answer");
    let renewed = |from, to| answers.borrow().iter().any(|at| (secs(from)..secs(to)).contains(at));
    assert!(renewed(100, 160) && renewed(220, 290), "keys were not renewed; answers at {:?}", answers.borrow());
    for node in [pair.a, pair.b] {
        let lost = |(_, event): &(Instant, GatewayEvent)| {
            matches!(event, GatewayEvent::PeerSilent(_) | GatewayEvent::PeerRestarted(_))
        };
        assert!(!pair.engine.peer_events(node).iter().any(lost), "{:?}", pair.engine.peer_events(node));
    }
}

/// How long a download of 10 MB takes if `change` happens at `at`.
fn duration_with(at: Instant, change: impl FnOnce(&mut Pair)) -> Span {
    let mut pair = Pair::new(13, clean_demo());
    let down = pair.download(10_000_000);
    pair.engine.run_until(at);
    let before = pair.engine.log(down).octets;
    assert!(before > 1_000_000 && before < 9_000_000, "the change must fall into the download: {before} B before it");
    change(&mut pair);
    pair.finish(secs(60));
    pair.assert_complete(down);
    pair.engine.log(down).last_byte.unwrap().since(Instant::ZERO)
}

/// What a receiver's move costs: it is noticed when its stream pauses, and its new address proves itself in a round trip.
const RECEIVER_MOVES: Span = Span::from_millis(250);

/// At several moments, because much depends on whether an acknowledgement was due just then.
#[test]
fn an_address_change_of_either_side_costs_about_two_round_trips() {
    let undisturbed = duration_with(secs(3), |_| {});
    for us in [0, 250, 1_000, 1_750] {
        let at = secs(3) + Span::from_micros(us);
        let sender = duration_with(at, |pair| pair.engine.readdress(pair.b, 0, address("198.51.100.2:4242")));
        let receiver = duration_with(at, |pair| pair.engine.readdress(pair.a, 0, address("198.51.100.1:4242")));
        for (who, moved, most) in [("sender", sender, RTT.times(2)), ("receiver", receiver, RECEIVER_MOVES)] {
            let cost = moved.saturating_sub(undisturbed);
            assert!(cost <= most, "the {who}'s move at {at:?} cost {cost}: {moved} instead of {undisturbed}");
        }
    }
}

#[test]
fn a_restarted_gateway_resets_its_flows_and_serves_new_ones() {
    for restarted_is_egress in [true, false] {
        let mut pair = Pair::new(14, clean_demo());
        let down = pair.download(20_000_000);
        let up = pair.add(Work::Upload(Some(20_000_000)), Instant::ZERO);
        pair.engine.run_until(secs(3));
        let node = if restarted_is_egress { pair.b } else { pair.a };
        pair.engine.restart(node);
        pair.engine.run_until(secs(8));
        for flow in [down, up] {
            let log = pair.engine.log(flow);
            let how = log.end.map(|(_, how)| how);
            assert!(matches!(how, Some(FlowEnd::Reset(_))), "flow {flow:?} of the dead gateway: {how:?}");
            assert_eq!(log.damage, None);
            assert!(log.octets < 20_000_000);
            assert_eq!(log.server_resets, 1, "flow {flow:?}: its server was not told");
        }
        let later = {
            let spec = pair.spec(Work::Download(Some(1_000_000)), Instant::ZERO);
            pair.engine.add_flow(FlowSpec { start: secs(8), ..spec })
        };
        pair.finish(secs(30));
        pair.assert_complete(later);
    }
}

/// Only one direction dies: acknowledgements stop while data still flows, then the reverse.
#[test]
fn a_one_way_outage_is_survived_too() {
    for dead in Direction::BOTH {
        let mut pair = Pair::new(15, clean_demo());
        let window = vec![(secs(2), secs(12))];
        pair.set(dead, wavelane_channel::Parameter::Outages(window));
        let down = pair.download(10_000_000);
        pair.finish(secs(60));
        pair.assert_complete(down);
        let again = first_arrival(&pair, down, secs(12)).since(secs(12));
        assert!(again <= Span::from_secs(1) + RTT.times(2), "{dead:?} dead: data flows again only after {again}");
    }
}

/// Both move while they cannot hear each other, so each knows only where the other was; then one comes home.
#[test]
fn two_moved_peers_reconnect_at_a_configured_address() {
    let mut pair = Pair::new(16, clean_demo());
    pair.outage(secs(2), secs(4));
    let down = pair.download(10_000_000);
    pair.engine.run_until(secs(1));
    pair.engine.readdress(pair.b, 0, address("192.0.2.2:4242"));
    pair.engine.run_until(secs(3));
    pair.engine.readdress(pair.a, 0, address("192.0.2.1:4343"));
    pair.engine.readdress(pair.b, 0, address("192.0.2.2:51820"));
    pair.finish(secs(60));
    pair.assert_complete(down);
}

/// One small question every 1.2 s is no outage: when a download follows, the lane is as fast as ever.
#[test]
fn a_trickle_does_not_wear_the_rate_down() {
    let mut pair = Pair::new(17, clean_demo());
    let (every, size) = (Span::from_millis(1_200), 1_000);
    let spec = pair.spec(Work::Echo { every, random: false, size, during: None }, Instant::ZERO);
    pair.engine.add_flow(FlowSpec { stop: Some(secs(60)), ..spec });
    let early = pair.download(5_000_000);
    let late = pair.add(Work::Download(Some(5_000_000)), secs(50));
    pair.finish(secs(90));
    let took = |flow| pair.engine.log(flow).goodput().as_bps() as f64 / 1e6;
    assert!(took(late) >= 0.9 * took(early), "after a trickle {:.2}, before {:.2} Mbit/s", took(late), took(early));
}
