//! Managed queues of stations: before the aggregate, by flow and delay, and by airtime.

use super::drive::*;
use super::saturation::reprinted;
use std::collections::BTreeMap;
use wavelane_base::{Ecn, FrameMeta, Instant, Machine, Seed, Span};
use wavelane_channel::wifi::{
    AIRTIME_STATIONS, AQL_MAX, Aggregate, Category, Cause, ConfigError, Phy, Reach, ReachMap, Rules, StationQueue,
    Wifi, WifiConfig, WifiEvent, port,
};
use wavelane_channel::{AqlTerms, CoDelTimes, Discipline, QueueLimit};

const HT: Phy = Phy::Ht { short_guard: false };

fn fq_codel(airtime: bool) -> StationQueue {
    let discipline = Discipline::FqCoDel(CoDelTimes::default());
    StationQueue { limit: QueueLimit::Packets(10_240), discipline, airtime, ring: 0, aql: None }
}

/// An access point, station 0, with this queue, among stations at these distances in dB from its noise.
fn access_point(queue: Option<StationQueue>, snr_db: &[i16], frames: u8) -> WifiConfig {
    let stations = snr_db.len() + 1;
    let cell = WifiConfig::new(HT, HT.mcs_rate(7).unwrap(), Rules::standard(), stations);
    let mut reach = ReachMap::full(stations);
    for (at, snr) in snr_db.iter().enumerate() {
        reach.set_both(0, at + 1, Reach { signal_db: *snr, ..Reach::FULL }).unwrap();
    }
    let aggregate = Some(Aggregate { frames, ..Aggregate::LARGEST });
    let queues: BTreeMap<_, _> = queue.map(|queue| (0, queue)).into_iter().collect();
    WifiConfig { aggregate, reach, queue: 400, noise_db: Some(0), adapts: true, queues, ..cell }
}

/// What a run of station 0 gave.
struct Gone {
    /// Packets that each station received in the measured part.
    received: Vec<u64>,
    /// How long frames of the sparse flow took from being handed in to being handed out.
    delays: Vec<Span>,
    shed: u64,
    marked: u64,
}

/// Keeps `depth` packets for each of `to` waiting in station 0; every 20 ms comes one packet more of a flow of its own
/// to the first of them.
fn downlink(config: &WifiConfig, to: &[usize], depth: u64, ecn: Ecn, (warm, measured): (u64, u64)) -> Gone {
    let mut wifi = Wifi::new(Seed(4), "air", config).unwrap();
    let (mut packet, mut buf) = ([0; PACKET], vec![0; 65_535]);
    let stations = config.reach.stations();
    let mut waits = vec![0; stations];
    let mut gone = Gone { received: vec![0; stations], delays: Vec::new(), shed: 0, marked: 0 };
    let mut sparse = Instant::ZERO;
    let (start, end) = (Instant::from_secs(warm), Instant::from_secs(warm + measured));
    let mut now = Instant::ZERO;
    while now < end {
        wifi.handle_timeout(now);
        while let Some(ready) = wifi.next_ready() {
            let sent = wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
            let station = usize::from(ready.0) / 256;
            let handed_in = u64::from_be_bytes(buf[..8].try_into().unwrap());
            if handed_in > 0 {
                gone.delays.push(now.since(Instant::from_nanos(handed_in)));
            } else if now >= start {
                gone.received[station] += 1;
                gone.marked += u64::from(sent.ecn == Ecn::Ce);
            }
        }
        while let Some(event) = wifi.poll_event() {
            let (to, octets) = match event {
                WifiEvent::Acknowledged { to, octets, .. } | WifiEvent::Sent { to, octets, .. } => (to, octets),
                WifiEvent::Dropped { to, octets, cause, .. } => {
                    gone.shed += u64::from(cause == Cause::Delay);
                    (to, octets)
                }
            };
            if octets == PACKET {
                waits[to] -= 1;
            }
        }
        for &station in to {
            while waits[station] < depth {
                waits[station] += 1;
                let meta = FrameMeta { flow: station as u64, ecn, ..FrameMeta::default() };
                wifi.handle_frame(now, port(0, station), &mut packet, meta);
            }
        }
        if now >= sparse {
            sparse = now.max(Instant::from_nanos(1)) + Span::from_millis(20);
            let mut small = [0; 200];
            small[..8].copy_from_slice(&now.max(Instant::from_nanos(1)).as_nanos().to_be_bytes());
            let meta = FrameMeta { flow: 999, ..FrameMeta::default() };
            wifi.handle_frame(now, port(0, to[0]), &mut small, meta);
        }
        let due = wifi.poll_timeout().map_or(sparse, |wakeup| wakeup.at.min(sparse));
        now = due.max(now + Span::from_nanos(1));
    }
    gone
}

fn worst(delays: &[Span]) -> f64 {
    let mut sorted: Vec<f64> = delays.iter().map(|d| d.as_secs_f64() * 1e3).collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() * 99 / 100]
}

/// A sparse flow behind 400 packets waits for all of them under drop-tail, for one or two aggregates under FQ-CoDel.
#[test]
fn a_sparse_flow_does_not_wait_behind_a_bulk_one() {
    let of = |queue, depth| downlink(&access_point(queue, &[30], 16), &[1], depth, Ecn::NotEct, (1, 5));
    let (fifo, fair) = (of(None, 390), of(Some(fq_codel(false)), 390));
    // 390 packets at 55 Mbit/s are 85 ms; an exchange of 16 packets is 3.5 ms.
    let (behind, ahead) = (worst(&fifo.delays), worst(&fair.delays));
    assert!(behind > 70.0, "{behind}");
    assert!(ahead < 3.0 * 3.5, "{ahead}");
    assert!(fair.delays.len() > 250 && fair.shed > 0, "{}", fair.shed);
}

/// What waits is taken out when an aggregate is sent, so aggregates are as long as behind drop-tail.
#[test]
fn a_managed_queue_does_not_shorten_aggregates() {
    let cubes = |queue| {
        let gone = downlink(&access_point(queue, &[30], 64), &[1], 150, Ecn::Ect0, (1, 4));
        (gone.received[1] as f64, gone.marked, gone.shed)
    };
    let (fifo, marked, _) = cubes(None);
    assert_eq!(marked, 0);
    for discipline in [Discipline::CoDel(CoDelTimes::default()), Discipline::FqCoDel(CoDelTimes::default())] {
        let (managed, marked, shed) = cubes(Some(StationQueue { discipline, ..fq_codel(false) }));
        assert!((managed / fifo - 1.0).abs() < 0.01, "{discipline:?}: {managed} of {fifo}");
        // The bulk flow's packets can be marked, so none of them is dropped.
        assert!(marked > 0 && shed <= 250, "{discipline:?}: {marked} {shed}");
    }
}

/// Two stations near and one far away: equal airtime carries (2k^2 + 5k + 2) / 9k of what equal numbers of frames do, with
/// k the ratio of their rates when alone.
#[test]
fn equal_airtime_undoes_the_anomaly_of_rates() {
    let run = |queue, snr: &[i16], to: &[usize], depth| {
        downlink(&access_point(queue, snr, 1), to, depth, Ecn::Ect0, (2, 10)).received
    };
    let mut rows = Vec::new();
    for far in [2, 8, 14] {
        let alone = |snr| run(None, &[snr], &[1], 100)[1] as f64;
        let k = alone(30) / alone(far);
        let all = [30, 30, far];
        let fifo: u64 = run(None, &all, &[1, 2, 3], 100).iter().sum();
        let shares = run(Some(fq_codel(true)), &all, &[1, 2, 3], 100);
        let (gain, wanted) =
            (shares.iter().sum::<u64>() as f64 / fifo as f64, (2.0 * k * k + 5.0 * k + 2.0) / (9.0 * k));
        rows.push(format!("| {far} | {k:.3} | {wanted:.3} | {gain:.3} |"));
        assert!((gain / wanted - 1.0).abs() < 0.05, "{far} dB, k {k}: {gain} for {wanted}, {shares:?}");
        // Each gets a third of what it has alone.
        for (station, snr) in (1..).zip(all) {
            let third = shares[station] as f64 * 3.0 / alone(snr);
            assert!((third - 1.0).abs() < 0.05, "station {station} at {snr} dB: {third}");
        }
    }
    reprinted(&rows);
}

/// A ring is out of the discipline's reach: behind one of 1,000 frames a sparse flow waits for what it holds for a near and
/// a far station; airtime queue limits keep that to a few aggregates, and take little of the throughput.
#[test]
fn airtime_queue_limits_bound_what_a_deep_ring_delays() {
    let run = |ring, aql| {
        let queue = StationQueue { ring, aql, ..fq_codel(true) };
        let gone = downlink(&access_point(Some(queue), &[30, 6], 16), &[1, 2], 390, Ecn::Ect0, (2, 8));
        (worst(&gone.delays), gone.received)
    };
    let (none, ring, limited) = (run(0, None), run(1_000, None), run(1_000, Some(AqlTerms::default())));
    let row = |ring: &str, (p99, received): &(f64, Vec<u64>)| {
        let carried = |station: usize| (received[station] as usize * PACKET * 8) as f64 / 8.0 / 1e6;
        format!("| {ring} | {p99:.1} | {:.1} | {:.1} |", carried(1), carried(2))
    };
    reprinted(&[row("none", &none), row("1,000 frames", &ring), row("1,000 frames, AQL", &limited)]);
    // 390 packets for each at 55 and about 8 Mbit/s.
    assert!(ring.0 > 400.0, "{}", ring.0);
    // At most 12 ms and one packet pending for each, answers, waits and failed frames on top.
    assert!(limited.0 < 60.0 && limited.0 < 0.2 * ring.0, "{} of {}", limited.0, ring.0);
    // Shares of the air are almost as without a ring; the ring alone makes them equal in frames.
    assert!((ring.1[1] as f64 / ring.1[2] as f64 - 1.0).abs() < 0.1, "{:?}", ring.1);
    for station in [1, 2] {
        let kept = limited.1[station] as f64 / none.1[station] as f64;
        assert!(kept > 0.85, "station {station}: {kept}");
    }
}

/// What is pending for a receiver, and for everybody, stays below its limit and one frame's time, and comes back whole.
#[test]
fn pending_airtime_is_bounded_and_given_back() {
    let queue = StationQueue { ring: 500, aql: Some(AqlTerms::default()), ..fq_codel(true) };
    let config = access_point(Some(queue), &[30, 6, 12], 16);
    let mut wifi = Wifi::new(Seed(4), "air", &config).unwrap();
    let (packet, mut buf) = ([0; PACKET], vec![0; 65_535]);
    let (mut now, mut most, mut most_for_all) = (Instant::ZERO, Span::ZERO, Span::ZERO);
    let pending = |wifi: &Wifi, to| wifi.airtime_pending(0, to, Category::BestEffort).unwrap();
    for round in 0..40_000_u64 {
        if round < 900 {
            for to in 0..4 {
                let meta = FrameMeta { flow: to as u64, ..FrameMeta::default() };
                wifi.handle_frame(now, port(0, to), &mut packet.clone(), meta);
            }
        }
        while let Some(ready) = wifi.next_ready() {
            wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
        }
        while wifi.poll_event().is_some() {}
        let all = (1..4).map(|to| pending(&wifi, to).0);
        assert_eq!(pending(&wifi, 1).1, all.clone().fold(Span::ZERO, |sum, one| sum + one));
        most = all.fold(most, Span::max);
        most_for_all = most_for_all.max(pending(&wifi, 0).0);
        let Some(due) = wifi.poll_timeout() else { break };
        now = due.at;
        wifi.handle_timeout(now);
    }
    // A packet at the slowest rate takes 2.1 ms.
    assert!((12_000..14_000).contains(&most.as_micros()), "{most}");
    assert!((50_000..52_200).contains(&most_for_all.as_micros()), "{most_for_all}");
    assert_eq!((wifi.waiting(0), pending(&wifi, 1), pending(&wifi, 0).0), (0, (Span::ZERO, Span::ZERO), Span::ZERO));
    assert_eq!(
        Wifi::new(Seed(4), "air", &access_point(None, &[30], 4)).unwrap().airtime_pending(0, 1, Category::Voice),
        None
    );
}

#[test]
fn impossible_queues_are_refused() {
    let refused = |station, queue| {
        let mut config = access_point(None, &[30], 4);
        config.queues.insert(station, queue);
        Wifi::new(Seed(1), "air", &config).err()
    };
    let fifo = StationQueue { discipline: Discipline::Fifo, ..fq_codel(false) };
    assert_eq!(refused(0, StationQueue { limit: QueueLimit::Packets(5), ..fifo }), None);
    assert_eq!(refused(2, fifo), Some(ConfigError::Unknown { station: 2, stations: 2 }));
    assert_eq!(refused(0, StationQueue { limit: QueueLimit::Packets(0), ..fifo }), Some(ConfigError::Queue(0)));
    assert_eq!(refused(1, StationQueue { limit: QueueLimit::Bounded, ..fifo }), Some(ConfigError::FramesOnly(1)));
    assert_eq!(refused(0, StationQueue { airtime: true, ..fifo }), Some(ConfigError::Airtime(0)));
    assert_eq!(refused(0, StationQueue { ring: 9, ..fifo }), Some(ConfigError::RingOfDropTail(0)));
    let limits = AqlTerms::default();
    for (airtime, ring) in [(false, 9), (true, 0)] {
        let queue = StationQueue { ring, aql: Some(limits), ..fq_codel(airtime) };
        assert_eq!(refused(0, queue), Some(ConfigError::AqlAlone(0)));
    }
    for wrong in [
        AqlTerms { low: Span::ZERO, ..limits },
        AqlTerms { low: Span::from_millis(13), ..limits },
        AqlTerms { high: AQL_MAX + Span::from_nanos(1), ..limits },
        AqlTerms { broadcast: Span::ZERO, ..limits },
    ] {
        let queue = StationQueue { ring: 9, aql: Some(wrong), ..fq_codel(true) };
        assert_eq!(refused(0, queue), Some(ConfigError::AqlTerms(0)));
    }
    let none = CoDelTimes { target: Span::ZERO, ..CoDelTimes::default() };
    let why = refused(0, StationQueue { discipline: Discipline::CoDel(none), ..fq_codel(false) });
    assert!(matches!(why, Some(ConfigError::ManagedQueue { station: 0, .. })), "{why:?}");
    let mut crowd = access_point(Some(fq_codel(true)), &[30; AIRTIME_STATIONS], 4);
    assert_eq!(crowd.check(), Err(ConfigError::Airtime(0)));
    crowd.queues.insert(0, fq_codel(false));
    assert_eq!(crowd.check(), Ok(()));
}

/// A ring is its own station's: others need not offer as much, nor does the one whose ring is kept short.
#[test]
fn only_a_station_with_an_unlimited_ring_is_offered_as_much() {
    let room = |aql| {
        let queue = StationQueue { ring: 1_000, aql, ..fq_codel(true) };
        let wifi = Wifi::new(Seed(4), "air", &access_point(Some(queue), &[30, 6], 16)).unwrap();
        [wifi.largest_burst(0), wifi.largest_burst(1)]
    };
    let (ring, limited) = (room(None), room(Some(AqlTerms::default())));
    assert!(
        ring[0] == 1_001 && ring[1] < 100 && limited[0] == ring[1] && limited[1] == ring[1],
        "{ring:?} {limited:?}"
    );
}
