//! Bytes that a node overheard before they are forwarded to it.

use super::*;
use wavelane_wire::datagram::{DATA_HEADER_LEN, TAG_LEN, kind, open_octets};

fn cell(count: usize, seals: bool, overhears: Ratio) -> Chain {
    let mut chain = Chain::new(count, 1);
    chain.seals = vec![seals; count];
    chain.overhears = Some(overhears);
    (0..count).for_each(|node| chain.boot(node));
    chain
}

fn half() -> Ratio {
    Ratio::new(1, 2).unwrap()
}

impl Chain {
    /// Octets that the second node had to send and did not, of all that it forwarded.
    fn saved(&self) -> (u64, u64) {
        (self.count(1, "hop_by_digest_octets"), self.count(1, "relayed_octets"))
    }
    fn distrusts(&self) -> u64 {
        let status = |node: &Gateway| node.status(self.now).peers.iter().map(|peer| peer.distrusted).sum::<u64>();
        self.nodes.iter().flatten().map(status).sum()
    }
}

#[test]
fn overheard_bytes_are_not_sent_again() {
    for (count, loss) in [(3, Ratio::ZERO), (4, Ratio::ZERO), (3, Ratio::new(1, 20).unwrap())] {
        let mut chain = cell(count, true, half());
        chain.loss = loss;
        chain.talk(noise(1, 3_000_000), noise(2, 300_000));
        assert!(chain.run(Span::from_secs(60), Chain::all_closed));
        chain.check_complete();
        let (saved, all) = chain.saved();
        // All upload, of which half was overheard; the answer was not.
        let share = saved as f64 / (all - 300_000) as f64;
        assert!((0.42..0.52).contains(&share), "{count} nodes, loss {loss:?}: {share}");
        assert_eq!((chain.distrusts(), chain.count(2, "overheard_missed")), (0, 0));
    }
}

#[test]
fn the_bytes_of_unsealed_flows_are_never_open() {
    let mut chain = cell(3, false, Ratio::ONE);
    chain.talk(noise(1, 500_000), Vec::new());
    let open = core::cell::Cell::new(false);
    let looks = |chain: &mut Chain| {
        open.set(open.get() || chain.pipe.values().any(|frame| frame.3[0] == kind::DATA_OPEN));
        chain.all_closed()
    };
    assert!(chain.run(Span::from_secs(60), looks));
    chain.check_complete();
    assert_eq!((open.get(), chain.saved().0, chain.count(2, "overheard_kept_octets")), (false, 0, 0));
}

#[test]
fn a_peer_that_does_not_overhear_gets_sealed_datagrams_only() {
    for without in [1, 2] {
        let mut chain = cell(3, true, Ratio::ONE);
        let mut config = chain.node(without).config().clone();
        config.overhear = false;
        chain.nodes[without] = Some(Gateway::new(chain.now, config, 9, Seed(7).entropy("other")).unwrap());
        chain.talk(noise(1, 500_000), Vec::new());
        let open = core::cell::Cell::new([false; 2]);
        let looks = |chain: &mut Chain| {
            let is_open = |to: usize| chain.pipe.values().any(|f| f.0 == to && f.1 == 0 && f.3[0] == kind::DATA_OPEN);
            let [first, second] = open.get();
            open.set([first || is_open(1), second || is_open(2)]);
            chain.all_closed()
        };
        assert!(chain.run(Span::from_secs(60), looks));
        chain.check_complete();
        assert_eq!(open.get(), [without == 2, false]);
        assert_eq!(chain.saved().0, 0);
    }
}

/// Somebody in the cell sends what looks like datagrams of the first node: new octets, octets of the flow with a bit changed, and
/// copies, under many names and as fast as the medium takes them.
#[test]
fn forged_octets_are_never_taken_and_leave_the_others_their_room() {
    let mut chain = cell(3, true, half());
    chain.talk(noise(1, 12_000_000), Vec::new());
    let (mut genuine, mut next) = (Vec::new(), 0_u64);
    let mut spare = noise(3, 1_000);
    let done = chain.run(Span::from_secs(60), |chain| {
        let mut heard = chain.pipe.values().filter(|frame| frame.1 == OVERHEARD && frame.3[0] == kind::DATA_OPEN);
        if let Some(frame) = heard.next_back() {
            genuine.clone_from(&frame.3);
        }
        let now = chain.now;
        for _ in 0..8 {
            next += 1;
            spare[..8].copy_from_slice(&next.to_be_bytes());
            let mut forged = vec![kind::DATA_OPEN; DATA_HEADER_LEN];
            forged.extend(&spare);
            forged.extend((spare.len() as u16).to_be_bytes());
            forged.extend([0; TAG_LEN]);
            chain.node(2).overhear(now, PortId(0), 1 + next % 40, &forged);
            if let Ok(open) = open_octets(&genuine) {
                let mut changed = genuine.clone();
                changed[open.start + next as usize % open.len()] ^= 1;
                chain.node(2).overhear(now, PortId(0), 1 + next % 40, &changed);
                chain.node(2).overhear(now, PortId(0), 2, &genuine);
                changed.truncate(next as usize % 60);
                chain.node(2).overhear(now, PortId(0), 0, &changed);
            }
        }
        let kept = chain.node(2).overheard.held();
        assert!(kept <= Config::default().cache.get() / 4, "{kept}");
        chain.all_closed()
    });
    assert!(done);
    chain.check_complete();
    let (saved, all) = chain.saved();
    assert!(saved as f64 / all as f64 > 0.1, "{saved} of {all}");
    assert_eq!((chain.distrusts(), chain.count(0, "flows_resumed")), (0, 0), "no honest relay is distrusted");
    assert!(chain.count(2, "dropped_overheard_crowded") > 0);
}

/// A relay whose neighbour reports octets that it does not keep sends them in the end.
#[test]
fn named_octets_that_are_gone_arrive_as_they_are() {
    let mut chain = cell(3, true, half());
    chain.talk(noise(1, 1_000_000), Vec::new());
    let mut turn = 0;
    let done = chain.run(Span::from_secs(60), |chain| {
        turn += 1;
        if turn % 50 == 0 {
            chain.node(2).overheard = Default::default();
        }
        chain.all_closed()
    });
    assert!(done);
    chain.check_complete();
    let (again, contradicted) = (chain.count(1, "hop_repair_octets"), chain.saved());
    assert!(again > 0, "{contradicted:?}");
}

/// A relay that lost blocks has them sent again by the hop before. What the next station overheard of them crosses that hop alone.
#[test]
fn overheard_bytes_of_lost_blocks_are_not_sent_on() {
    let mut chain = cell(3, true, half());
    let block_loss = Some((Ratio::new(1, 5).unwrap(), Seed(3)));
    chain.node(1).set_faults(Faults { tampering: None, block_loss });
    chain.talk(noise(1, 3_000_000), Vec::new());
    assert!(chain.run(Span::from_secs(120), Chain::all_closed));
    chain.check_complete();
    let again = chain.count(0, "hop_vtx_octets");
    let (saved, all) = chain.saved();
    let share = saved as f64 / all as f64;
    assert!(again > 300_000 && (0.42..0.52).contains(&share), "{share} of {all}, {again} sent again");
}

#[test]
fn overheard_bytes_are_saved_after_a_relay_restarted() {
    let mut chain = cell(3, true, half());
    chain.talk(noise(1, 3_000_000), Vec::new());
    chain.run(Span::from_millis(600), |_| false);
    chain.boot(1);
    assert!(chain.run(Span::from_secs(120), Chain::all_closed));
    chain.check_complete();
    let (saved, all) = chain.saved();
    let share = saved as f64 / all as f64;
    assert!(all > 1_000_000 && (0.42..0.52).contains(&share), "{share} of {all}");
}

/// What may go wrong goes wrong at once: losses, blocks lost by relays, relays that restart, readers that pause, stores that are
/// emptied, reports of what was never heard, and forged copies. Every flow arrives whole, and nobody is distrusted.
fn troubles(seed: u64) {
    let mut dice = Seed(seed).chance("troubles");
    let count = 3 + (dice.below(3) == 0) as usize;
    let mut chain = Chain::new(count, seed);
    chain.seals = vec![true; count];
    chain.overhears = Some(Ratio::new(1 + dice.below(4) as u32, 4).unwrap());
    chain.pool = [1 << 20, 2 << 20, 8 << 20][dice.below(3) as usize];
    (0..count).for_each(|node| chain.boot(node));
    chain.loss = Ratio::new(dice.below(8) as u32, 100).unwrap();
    let lossy = dice.below(2) == 0;
    let fault = |chain: &mut Chain, node: usize, n: u64| {
        if lossy {
            let block_loss = Some((Ratio::new(1, 8).unwrap(), Seed(seed + n)));
            chain.node(node).set_faults(Faults { tampering: None, block_loss });
        }
    };
    (1..count - 1).for_each(|node| fault(&mut chain, node, 0));
    for n in 0..1 + dice.below(4) {
        chain.talk(noise(seed + n, dice.below(1_500_000) as usize), noise(n, dice.below(200_000) as usize));
    }
    let mut pauses = dice.below(3);
    let mut restarts = dice.below(3);
    let forges = dice.below(2) == 0;
    let (mut genuine, mut turn) = (Vec::new(), 0_u64);
    let done = chain.run(Span::from_secs(400), |chain| {
        turn += 1;
        let now = chain.now;
        if turn % 200 == 0 && pauses > 0 && !chain.servers.is_empty() && dice.below(8) == 0 {
            pauses -= 1;
            let which = dice.below(chain.servers.len() as u64) as usize;
            chain.servers[which].reads_from = now + Span::from_millis(dice.below(4_000));
        }
        if turn % 100 == 0 && restarts > 0 && chain.servers.len() == chain.clients.len() && dice.below(10) == 0 {
            restarts -= 1;
            let node = 1 + dice.below(count as u64 - 2) as usize;
            chain.boot(node);
            fault(chain, node, restarts + 1);
        }
        if forges {
            let mut heard = chain.pipe.values().filter(|frame| frame.1 == OVERHEARD && frame.3[0] == kind::DATA_OPEN);
            if let Some(frame) = heard.next_back() {
                genuine.clone_from(&frame.3);
            }
            if let Ok(open) = open_octets(&genuine) {
                let mut changed = genuine.clone();
                let at = open.start + dice.below(open.len() as u64) as usize;
                changed[at] ^= 1;
                chain.node(2).overhear(now, PortId(0), dice.below(30), &changed);
                chain.node(2).overhear(now, PortId(0), dice.below(30), &genuine);
                if dice.below(20) == 0 {
                    let digest = wavelane_transport::session::digest_of(&genuine[open]);
                    chain.node(2).net.peers.blocks(PeerId(0)).note_heard(now, 3, &digest);
                }
            }
            if dice.below(100) == 0 {
                chain.node(2).overheard = Default::default();
            }
        }
        let kept = chain.node(2).overheard.held();
        assert!(kept <= Config::default().cache.get() / 4, "{kept}");
        chain.all_closed()
    });
    let fates: Vec<_> =
        chain.clients.iter().chain(&chain.servers).map(|t| (t.fate.clone(), t.heard.len(), t.written)).collect();
    assert!(done, "{seed}: {fates:?} {:?}", chain.nodes[1].as_ref().map(|n| n.status(chain.now).counters));
    chain.check_complete();
    // A relay that loses blocks again and again is distrusted for that.
    assert!(lossy || chain.distrusts() == 0, "{seed}");
}

#[test]
fn many_troubles_at_once_neither_change_bytes_nor_cost_trust() {
    (0..16).chain([477, 2306, 2769, 2781, 3160, 3180]).for_each(troubles);
}
