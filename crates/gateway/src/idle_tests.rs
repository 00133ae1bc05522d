//! Flows without progress are reset at both sides; flows that wait for an outage's end are not.
use super::*;

const IDLE: Span = Span::from_secs(7_440);

fn impatient() -> Pair {
    let mut pair = Pair::new();
    for (me, peer, address) in [(1, 2, B), (2, 1, A)] {
        let config = Config { idle: Some(IDLE), ..config(me, peer, address) };
        pair.nodes[usize::from(me) - 1].reload(pair.now, config).unwrap();
    }
    pair
}

fn idle(pair: &Pair) -> u64 {
    let count = |node: &Gateway| node.status(pair.now).counters.iter().find(|c| c.0 == "flows_idle").unwrap().1;
    pair.nodes.iter().map(count).sum()
}

#[test]
fn a_flow_that_does_not_move_is_reset_at_both_sides_and_counted() {
    let mut pair = impatient();
    let (ours, theirs) = pair.connect();
    let wait = Span::from_secs(3_600);
    for _ in 0..4 {
        pair.nodes[0].write(pair.now, ours, b"?");
        pair.run(wait, |_| false);
        assert!(matches!(pair.nodes[1].read(pair.now, theirs, &mut [0; 9]), ReadOutcome::Data(1)));
    }
    assert_eq!(idle(&pair), 0);
    pair.run(IDLE + Span::from_secs(60), |_| false);
    assert!(pair.saw(0, |e| *e == GatewayEvent::Reset(ours, Reason::TimedOut)), "{:?}", pair.events[0]);
    assert!(pair.saw(1, |e| *e == GatewayEvent::Reset(theirs, Reason::TimedOut)), "{:?}", pair.events[1]);
    assert!(idle(&pair) >= 1);
    assert!(pair.nodes.iter().all(|node| node.status(pair.now).flows == 0));
}

#[test]
fn an_outage_longer_than_the_idle_limit_keeps_flows() {
    let mut pair = impatient();
    let (ours, theirs) = pair.connect();
    pair.path_mtu = 0;
    pair.nodes[0].write(pair.now, ours, b"still there?");
    pair.run(IDLE.times(3), |_| false);
    pair.path_mtu = usize::MAX;
    let mut heard = Vec::new();
    pair.run(Span::from_secs(120), |pair| {
        pair.read_all(1, theirs, &mut heard);
        heard.len() == 12
    });
    assert_eq!((heard.as_slice(), idle(&pair)), (b"still there?".as_slice(), 0));
}
