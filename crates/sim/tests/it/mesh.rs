//! Chains and meshes of gateways: flows outlive relays, ways and partitions, and every byte arrives once, in order.

use crate::common::{direction, random_loss, secs, with_loss};
use wavelane_base::{Instant, Octets, Ratio, Seed, Span};
use wavelane_channel::cable::Direction;
use wavelane_channel::{CableConfig, Parameter};
use wavelane_gateway::GatewayEvent;
use wavelane_settings::Backpressure;
use wavelane_sim::{Deed, FlowEnd, FlowIndex, FlowSpec, Lie, Mesh, MeshSpec, NodeFaults, Work};

/// 0 and 5 over 1 and 2, or over 3 and 4.
const TWO_WAYS: [[usize; 2]; 6] = [[0, 1], [1, 2], [2, 5], [0, 3], [3, 4], [4, 5]];
const NEVER: Instant = Instant::FAR_FUTURE;

fn cable() -> CableConfig {
    CableConfig::symmetric(direction(20, 10, 100_000))
}

fn two_ways(seed: u64) -> Mesh {
    Mesh::new(Seed(seed), &MeshSpec::new(6, &TWO_WAYS, &cable()))
}

fn sealed_two_ways(seed: u64) -> Mesh {
    Mesh::new(Seed(seed), &MeshSpec { seal: true, ..MeshSpec::new(6, &TWO_WAYS, &cable()) })
}

fn add(mesh: &mut Mesh, from: usize, to: usize, work: Work, start: Instant) -> FlowIndex {
    let spec = mesh.flow(from, to, work, start).unwrap();
    mesh.engine.add_flow(spec)
}

/// The cables at `places` carry nothing in `[from, to)`.
fn cut(mesh: &mut Mesh, places: &[usize], from: Instant, to: Instant) {
    for &place in places {
        for way in Direction::BOTH {
            mesh.engine.set(mesh.links[place], way, Parameter::Outages(vec![(from, to)])).unwrap();
        }
    }
}

fn finish(mesh: &mut Mesh, limit: Instant) {
    let unfinished = |e: &wavelane_sim::Engine| (0..e.flow_count()).any(|f| e.log(FlowIndex(f)).end.is_none());
    let done = mesh.engine.run_while(limit, Span::from_millis(100), unfinished);
    let logs = (0..mesh.engine.flow_count()).map(|f| mesh.engine.log(FlowIndex(f)));
    let states: Vec<_> = logs.map(|log| (log.octets, log.end, log.last_byte)).collect();
    assert!(done, "at {limit:?} flows still run: {states:?}");
    for flow in (0..mesh.engine.flow_count()).map(FlowIndex) {
        let log = mesh.engine.log(flow);
        assert!(log.is_complete(), "flow {flow:?}: {:?}, damage {:?}, {} bytes", log.end, log.damage, log.octets);
        assert_eq!(log.server_resets, 0, "flow {flow:?}: its server saw a reset");
    }
}

/// Traffic of both directions between the far ends.
fn traffic(mesh: &mut Mesh) -> [FlowIndex; 3] {
    let down = add(mesh, 0, 5, Work::Download(Some(10_000_000)), Instant::ZERO);
    let up = add(mesh, 0, 5, Work::Upload(Some(10_000_000)), Instant::ZERO);
    let every = Span::from_millis(200);
    let echo = mesh.flow(0, 5, Work::Echo { every, random: false, size: 100, during: None }, Instant::ZERO).unwrap();
    [down, up, mesh.engine.add_flow(FlowSpec { stop: Some(secs(40)), ..echo })]
}

#[test]
fn five_hops_carry_as_much_as_one() {
    let chain = MeshSpec::new(5, &[[0, 1], [1, 2], [2, 3], [3, 4]], &with_loss(cable(), &random_loss(1, 50)));
    let mut mesh = Mesh::new(Seed(1), &chain);
    let down = add(&mut mesh, 0, 4, Work::Download(Some(10_000_000)), Instant::ZERO);
    finish(&mut mesh, secs(30));
    assert_eq!(mesh.next(0, 4), Some(1));
    assert!(mesh.count(2, "flows_relayed") == 1 && mesh.count(0, "flows_resumed") == 0);
    let mbit = mesh.engine.log(down).goodput().as_bps() as f64 / 1e6;
    assert!(mbit > 14.0, "{mbit} Mbit/s of 20");
}

/// Relays die at any moment, one whose neighbour is the edge and one behind it, for good, with or without memory.
#[test]
fn flows_leave_a_path_whose_relay_fails_for_good() {
    for (seed, dead) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        let mut mesh = two_ways(seed);
        traffic(&mut mesh);
        assert_eq!(mesh.next(0, 5), Some(1));
        let when = Instant::from_millis(700 + 450 * seed);
        mesh.engine.run_until(when);
        assert!(mesh.count(4, "flows_relayed") == 0, "nothing takes the other way before");
        cut(&mut mesh, if dead == 1 { &[0, 1] } else { &[1, 2] }, when, NEVER);
        if seed > 2 {
            mesh.engine.restart(mesh.nodes[dead]);
        }
        finish(&mut mesh, secs(60));
        assert_eq!(mesh.count(4, "flows_relayed"), 3, "seed {seed}: all three take the other way, once");
    }
}

#[test]
fn a_restarted_relay_loses_no_byte() {
    for (seed, forgets, away) in
        [(1, true, 1), (2, true, 2_000), (3, false, 2_000), (4, true, 20_000), (5, false, 20_000)]
    {
        let mut mesh = two_ways(seed);
        traffic(&mut mesh);
        mesh.engine.run_until(secs(2));
        cut(&mut mesh, &[0, 1], secs(2), secs(2) + Span::from_millis(away));
        if forgets {
            mesh.engine.restart(mesh.nodes[1]);
        }
        finish(&mut mesh, secs(70));
    }
}

/// A relay changes what it passes on, one that the edge asks or one behind it, from the start or later.
#[test]
fn sealed_flows_leave_a_relay_that_changes_octets() {
    for (seed, liar) in [(1, 1), (4, 2)] {
        let mut mesh = sealed_two_ways(seed);
        traffic(&mut mesh);
        mesh.engine.run_until(Instant::from_millis(400 * (seed - 1)));
        let corruption = Ratio::new(1, 10).unwrap();
        mesh.engine
            .set_faults(mesh.nodes[liar], NodeFaults { lie: Lie::corrupts(corruption), ..NodeFaults::default() });
        finish(&mut mesh, secs(60));
        let [found, other] = [0, 5].map(|edge| mesh.count(edge, "dropped_parcels_foreign"));
        assert!(found + other > 0, "seed {seed}");
        assert!(mesh.count(4, "flows_relayed") > 0, "seed {seed}: the other way is taken");
    }
}

/// A relay that loses its memory, and a partition, are no deceit.
#[test]
fn sealed_flows_outlive_relays_and_partitions() {
    for (seed, away) in [(1, 1), (2, 2_000)] {
        let mut mesh = sealed_two_ways(seed);
        traffic(&mut mesh);
        mesh.engine.run_until(secs(2));
        cut(&mut mesh, &[0, 1], secs(2), secs(2) + Span::from_millis(away));
        mesh.engine.restart(mesh.nodes[1]);
        finish(&mut mesh, secs(70));
        let distrusted =
            |edge: usize| mesh.count(edge, "dropped_parcels_foreign") + mesh.count(edge, "dropped_words_forged");
        assert_eq!([distrusted(0), distrusted(5)], [0, 0], "seed {seed}");
    }
    let mut mesh = sealed_two_ways(7);
    add(&mut mesh, 0, 5, Work::Download(Some(10_000_000)), Instant::ZERO);
    mesh.engine.run_until(secs(2));
    cut(&mut mesh, &[1, 4], secs(2), secs(242));
    finish(&mut mesh, secs(242 + 60));
}

/// Where both ways are cut nothing is given up, and data flows again soon after either is back.
#[test]
fn a_partition_of_minutes_is_waited_out() {
    for back in [&[1_usize][..], &[4], &[1, 4]] {
        let mut mesh = two_ways(7);
        let down = add(&mut mesh, 0, 5, Work::Download(Some(10_000_000)), Instant::ZERO);
        mesh.engine.run_until(secs(2));
        cut(&mut mesh, &[1, 4], secs(2), NEVER);
        mesh.engine.run_until(secs(242));
        assert!(mesh.engine.log(down).end.is_none());
        cut(&mut mesh, back, secs(2), secs(242));
        finish(&mut mesh, secs(242 + 60));
    }
}

#[test]
fn a_failed_direct_link_is_replaced_over_a_third_gateway() {
    let mut mesh = Mesh::new(Seed(8), &MeshSpec::new(3, &[[0, 1], [0, 2], [2, 1]], &cable()));
    let down = add(&mut mesh, 0, 1, Work::Download(Some(5_000_000)), Instant::ZERO);
    mesh.engine.run_until(secs(1));
    assert_eq!((mesh.next(0, 1), mesh.count(2, "flows_relayed")), (Some(1), 0));
    assert!(mesh.engine.log(down).octets > 500_000);
    cut(&mut mesh, &[0], secs(1), NEVER);
    finish(&mut mesh, secs(20));
    assert_eq!(mesh.count(2, "flows_relayed"), 1);
}

/// Ways come and go faster than flows settle, so remains of each way arrive while another is in use.
#[test]
fn flapping_paths_duplicate_nothing() {
    for seed in 1..=4 {
        let mut mesh = two_ways(seed);
        traffic(&mut mesh);
        for round in 0..8 {
            let at = secs(1 + 5 * round);
            mesh.engine.run_until(at);
            let dark: &[usize] = if round % 2 == 0 { &[1] } else { &[4] };
            cut(&mut mesh, dark, at, at + Span::from_millis(4_000 + 300 * seed));
        }
        finish(&mut mesh, secs(110));
        assert!(mesh.count(0, "flows_resumed") > 0);
    }
}

/// Whether the gateway knew of another way before or not.
#[test]
fn a_route_change_in_mid_flow_moves_it() {
    for knows in [true, false] {
        let mut mesh = two_ways(9);
        let mut config = mesh.engine.gateway(mesh.nodes[0]).config().clone();
        if !knows {
            config.detours.clear();
            mesh.engine.reload(mesh.nodes[0], config.clone());
        }
        let down = add(&mut mesh, 0, 5, Work::Download(Some(10_000_000)), Instant::ZERO);
        mesh.engine.run_until(secs(2));
        config.detours.clear();
        let (first, second) = config.peers.split_at_mut(1);
        core::mem::swap(&mut first[0].routes, &mut second[0].routes);
        mesh.engine.reload(mesh.nodes[0], config);
        assert!(mesh.engine.log(down).octets < 9_000_000);
        finish(&mut mesh, secs(20));
        assert_eq!((mesh.count(0, "flows_moved"), mesh.count(3, "flows_relayed")), (1, 1));
    }
}

/// All flows from `from` to `to` arrive whole although most ways lead over gateway 0, which lies.
fn get_past_the_liar(nodes: usize, joined: &[[usize; 2]], lie: Lie, [from, to]: [usize; 2]) {
    for seed in 1..=6 {
        let mut mesh = Mesh::new(Seed(seed), &MeshSpec { seal: true, ..MeshSpec::new(nodes, joined, &cable()) });
        mesh.engine.set_faults(mesh.nodes[0], NodeFaults { lie: Some(lie), ..NodeFaults::default() });
        add(&mut mesh, from, to, Work::Download(Some(50_000)), secs(5));
        add(&mut mesh, from, to, Work::Upload(Some(50_000)), secs(60));
        finish(&mut mesh, secs(110));
    }
}

#[test]
fn relays_do_not_pass_to_their_next_choices_in_step() {
    // Of 5's choices 0 and 4, and 4's choices 0 and 3, one combination is honest: 7, 5, 4, 3, 2, 6. Gateway 4 is also asked by 0.
    let joined = [[5, 7], [0, 5], [4, 5], [0, 1], [0, 4], [1, 6], [1, 2], [2, 6], [2, 3], [3, 4]];
    let always = |deed| Lie { deed, p: Ratio::ONE };
    get_past_the_liar(8, &joined, always(Deed::Corrupts), [7, 6]);
    get_past_the_liar(8, &joined, always(Deed::Withholds), [7, 6]);
}

#[test]
fn of_many_ways_the_honest_one_is_tried_in_time() {
    // Octets are withheld on about a dozen ways before an honest one comes up: at 3 s for each the flow would be over.
    let eight = [[0, 1], [0, 2], [0, 3], [0, 4], [0, 6], [0, 7], [1, 2], [2, 5], [3, 6], [3, 7], [4, 5], [4, 7]];
    let nine = [[0, 1], [0, 2], [0, 3], [0, 5], [0, 6], [0, 8], [1, 2], [1, 7], [2, 4], [3, 4], [3, 5], [6, 7], [7, 8]];
    let always = Lie { deed: Deed::Withholds, p: Ratio::ONE };
    get_past_the_liar(8, &eight, always, [6, 2]);
    get_past_the_liar(9, &nine, always, [5, 6]);
}

/// What has no way is told so at once, and what the edge forgot is reset at the other side.
#[test]
fn where_no_honest_way_exists_the_failure_is_clear() {
    let mut mesh = two_ways(10);
    cut(&mut mesh, &[1, 4], secs(1), NEVER);
    let late = add(&mut mesh, 0, 5, Work::Download(Some(1_000)), secs(20));
    mesh.engine.run_until(secs(40));
    let how = mesh.engine.log(late).end;
    assert!(matches!(how, Some((at, FlowEnd::Refused(Some(_)))) if at < secs(30)), "{how:?}");
    let mut mesh = two_ways(11);
    let down = add(&mut mesh, 0, 5, Work::Download(Some(10_000_000)), Instant::ZERO);
    mesh.engine.run_until(secs(2));
    mesh.engine.restart(mesh.nodes[5]);
    mesh.engine.run_until(secs(30));
    let how = mesh.engine.log(down).end;
    assert!(matches!(how, Some((_, FlowEnd::Reset(Some(_))))), "{how:?}");
    assert_eq!(mesh.engine.log(down).damage, None);
}

/// Paths that form a cycle, all turning the same way and each over a relay, with the smallest pools there are and far more flows than
/// these hold windows for: no full buffer may wait for another one.
#[test]
fn a_cycle_of_full_pools_does_not_deadlock() {
    const NODES: usize = 6;
    const POOL: u64 = 1 << 20;
    let ring: Vec<[usize; 2]> = (0..NODES).map(|node| [node, (node + 1) % NODES]).collect();
    let usual = Backpressure::Adaptive;
    for (lossy, backpressure, seed) in
        [(false, usual, 20), (true, usual, 21), (false, Backpressure::Blocks(1), 22), (true, Backpressure::Off, 23)]
    {
        let cable = CableConfig::symmetric(direction(20, 40, 200_000));
        let cable = if lossy { with_loss(cable, &random_loss(1, 20)) } else { cable };
        let spec = MeshSpec { pool: Octets::new(POOL), backpressure, ..MeshSpec::new(NODES, &ring, &cable) };
        let mut mesh = Mesh::new(Seed(seed), &spec);
        for (from, _) in (0..NODES).flat_map(|node| (0..6).map(move |flow| (node, flow))) {
            for work in [Work::Upload(Some(500_000)), Work::Download(Some(500_000))] {
                add(&mut mesh, from, (from + 2) % NODES, work, Instant::ZERO);
            }
        }
        let mut fullest = 0;
        for ms in (0..5_000).step_by(50) {
            mesh.engine.run_until(Instant::from_millis(ms));
            fullest = fullest.max(mesh.nodes.iter().map(|node| mesh.engine.status(*node).buffered).max().unwrap_or(0));
        }
        assert!(fullest > POOL / 4 * 3, "{fullest} of {POOL}: no pool was nearly full");
        finish(&mut mesh, secs(60));
        let relayed: u64 = (0..NODES).map(|node| mesh.count(node, "flows_relayed")).sum();
        assert_eq!(relayed, 72, "every flow crosses one relay");
    }
}

#[test]
fn neighbours_meet_before_anybody_needs_them_and_stay_together() {
    let mut mesh = two_ways(12);
    mesh.engine.run_until(secs(60));
    for node in &mesh.nodes {
        let events = mesh.engine.peer_events(*node);
        let met = |(at, event): &(Instant, GatewayEvent)| matches!(event, GatewayEvent::PeerUp(_)) && *at < secs(1);
        assert!(events.len() == 2 && events.iter().all(met), "{events:?}");
    }
}
