//! Paths that drop large packets: the handshake succeeds, bytes arrive, and the operator is told why.

use super::*;

/// Transfers `octets` from A to B and as many back; returns how long that took.
fn exchange(pair: &mut Pair, octets: usize, within: Span) -> Span {
    let (ours, theirs) = pair.connect();
    let data: Vec<u8> = (0..octets as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (began, flows) = (pair.now, [ours, theirs]);
    let (mut written, mut ended, mut heard) = ([0; 2], [false; 2], [Vec::new(), Vec::new()]);
    let done = pair.run(within, |p| {
        (0..2).fold(true, |done, side| {
            written[side] += p.nodes[side].write(p.now, flows[side], &data[written[side]..]);
            if written[side] == octets && !std::mem::replace(&mut ended[side], true) {
                p.nodes[side].shutdown(p.now, flows[side]);
            }
            let from = side;
            let mut got = std::mem::take(&mut heard[from]);
            let outcome = p.read_all(1 - side, flows[1 - side], &mut got);
            heard[from] = got;
            done & (outcome == ReadOutcome::End)
        })
    });
    let held = [heard[0].len(), heard[1].len()];
    assert!(done, "{held:?} of {octets} octets each way after {within}: {:?}", pair.nodes[0].status(pair.now).peers);
    assert!(heard.iter().all(|got| *got == data));
    pair.now.since(began)
}

#[test]
fn a_path_mtu_below_the_base_carries_flows_with_a_notice() {
    for (path_mtu, loss) in [(576, 0), (576, 20), (600, 0), (1_000, 0), (1_000, 20), (1_199, 0)] {
        let mut pair = Pair::new();
        pair.path_mtu = path_mtu;
        pair.loss = Ratio::new(loss, 100).unwrap();
        exchange(&mut pair, 1_000_000, Span::from_secs(if loss > 0 { 120 } else { 30 }));
        // Both ends may be up the search's last step.
        pair.run(Span::from_secs(5), |_| false);
        for node in 0..2 {
            let status = pair.nodes[node].status(pair.now);
            let peer = &status.peers[0];
            assert!(peer.up && peer.path_mtu <= path_mtu && peer.path_mtu >= 576, "{path_mtu}: {}", peer.path_mtu);
            let cause = peer.path_mtu_cause.as_deref().unwrap_or_default();
            assert!(cause.contains("are lost on the way"), "{path_mtu}: {cause:?}");
            let known = if peer.path_mtu == 576 { "none of more than 576" } else { "smaller ones arrive" };
            assert!(cause.contains(known), "{path_mtu}: {cause:?}");
        }
        let told = |e: &GatewayEvent| matches!(e, GatewayEvent::PathMtu { place: Some(0), text, .. } if text.contains("are lost on the way"));
        assert_eq!(pair.events[0].iter().filter(|e| told(e)).count(), 1, "said once");
        // A repaired path is used in full again.
        pair.path_mtu = 1_500;
        pair.run(Span::from_secs(75), |_| false);
        let peer = &pair.nodes[0].status(pair.now).peers[0];
        assert!(peer.path_mtu > 1_200 && peer.path_mtu_cause.is_none(), "{}", peer.path_mtu);
    }
}

#[test]
fn a_path_mtu_that_falls_below_the_base_is_detected() {
    let mut pair = Pair::new();
    exchange(&mut pair, 500_000, Span::from_secs(10));
    assert_eq!(pair.nodes[0].status(pair.now).peers[0].path_mtu, 1_500);
    pair.path_mtu = 900;
    pair.events = [Vec::new(), Vec::new()];
    let took = exchange(&mut pair, 500_000, Span::from_secs(30));
    assert!(took < Span::from_secs(15), "{took}");
}

#[test]
fn loss_of_a_fifth_does_not_shrink_a_path() {
    let mut pair = Pair::new();
    pair.loss = Ratio::new(1, 5).unwrap();
    for _ in 0..5 {
        exchange(&mut pair, 500_000, Span::from_secs(60));
        pair.events = [Vec::new(), Vec::new()];
        for node in &pair.nodes {
            let peer = &node.status(pair.now).peers[0];
            assert!(peer.path_mtu >= 1_200 && peer.path_mtu_cause.is_none(), "{}", peer.path_mtu);
        }
    }
}
