//! The laws of machines, on full and partly hidden cells under every set of rules.

use super::drive::*;
use proptest::prelude::*;
use wavelane_base::laws::{Script, Stimulus, check, check_memory};
use wavelane_base::{Chance, Ecn, FrameMeta, Instant, Machine, PortId, Ratio, Seed, Span};
use wavelane_channel::wifi::{
    Aggregate, BitErrors, CaptureEffect, Category, Cause, Edca, ErrorsPer, Fec, FecCode, FecFrames, Handling, Phy,
    RTS_NEVER, Reach, ReachMap, Rules, StationQueue, Width, Wifi, WifiConfig, WifiEvent, port,
};
use wavelane_channel::{AqlTerms, CoDelTimes, Discipline, QueueLimit};

/// A cell drawn from the dice: any PHY, any rules, any reach.
fn any_cell(dice: &mut Chance) -> WifiConfig {
    let stations = 2 + dice.below(6) as usize;
    let phy = [OFDM_54, HR_11, ERP_54][dice.below(3) as usize];
    let rules = [Rules::standard(), Rules::ns3_3_44(), Rules::ns2_2001(), Rules::bianchi_2000()];
    let mut config = cell(phy, rules[dice.below(4) as usize], stations);
    if dice.below(3) > 0 {
        config.reach = ReachMap::none(stations);
        for (from, to) in (0..stations).flat_map(|a| (0..stations).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            let kinds = [Reach::FULL, Reach::FULL, Reach::SENSED, Reach::LOUD, Reach::HARMFUL, Reach::default()];
            let signal_db = dice.below(30) as i16;
            config.reach.set(from, to, Reach { signal_db, ..kinds[dice.below(6) as usize] }).unwrap();
        }
    }
    config.edca = (dice.below(2) == 0).then(|| Edca::standard(config.phy));
    config.rts_threshold = [0, 500, RTS_NEVER][dice.below(3) as usize];
    config.capture = (dice.below(3) == 0).then_some(CaptureEffect { margin_db: 6, mid_frame: dice.below(2) == 0 });
    config.queue = 1 + dice.below(8) as usize;
    config.errors = (dice.below(3) == 0).then_some(BitErrors {
        good: Span::from_millis(5),
        bad: Span::from_millis(2),
        in_good: Ratio::new(1, 1_000_000).unwrap(),
        in_bad: Ratio::new(1, 100).unwrap(),
        per: [ErrorsPer::Cell, ErrorsPer::Receiver, ErrorsPer::Station { hub: 0 }][dice.below(3) as usize],
    });
    if config.errors.is_some() && dice.below(2) == 0 {
        let code = [FecCode::RESIDUAL_31_22, FecCode::RS_31_22, FecCode::RS_255_181][dice.below(3) as usize];
        let frames = [FecFrames::Data, FecFrames::All][dice.below(2) as usize];
        config.fec = Some(Fec { code, frames, feedback: Span::from_millis(dice.below(3)) });
    }
    if config.fec.is_none() && dice.below(3) == 0 {
        let ht = Phy::Ht { short_guard: dice.below(2) == 0 };
        let width = [Width::Mhz20, Width::Mhz40, Width::Mhz80][dice.below(3) as usize];
        let vht = Phy::Vht { width, streams: 1 + dice.below(2) as u8, short_guard: dice.below(2) == 0 };
        let phy = [ht, vht][dice.below(2) as usize];
        let frames = [1, 3, 64][dice.below(3) as usize];
        let aggregate = (dice.below(4) > 0).then_some(Aggregate { frames, ..Aggregate::LARGEST });
        config = WifiConfig { phy, rate: phy.mcs_rate(dice.below(8) as u8).unwrap(), aggregate, ..config };
        config.noise_db = (dice.below(2) == 0).then(|| dice.below(40) as i16 - 20);
        config.adapts = config.aggregate.is_some() && dice.below(2) == 0;
    }
    if dice.below(6) == 0 {
        let (phy, rules) = (Phy::wavelan(Span::from_micros(700)), Rules::wavelan_1995());
        config = WifiConfig {
            phy,
            rules,
            rate: mbit(20),
            rts_threshold: RTS_NEVER,
            edca: None,
            aggregate: None,
            noise_db: None,
            adapts: false,
            ..config
        };
    }
    for station in 0..stations {
        if dice.below(3) == 0 {
            config.queues.insert(station, any_queue(dice));
        }
    }
    config
}

/// A queue that is full or overdue now and then.
fn any_queue(dice: &mut Chance) -> StationQueue {
    let times = CoDelTimes { target: Span::from_millis(1), interval: Span::from_millis(5) };
    let target = Span::from_millis(1);
    let discipline = match dice.below(5) {
        0 => Discipline::Fifo,
        1 => Discipline::CoDel(times),
        2 => Discipline::FqCoDel(times),
        3 => Discipline::Pie(target),
        _ => Discipline::DualPi2(target),
    };
    let airtime = matches!(discipline, Discipline::CoDel(_) | Discipline::FqCoDel(_)) && dice.below(2) == 0;
    let ring = if discipline != Discipline::Fifo && dice.below(2) == 0 { 1 + dice.below(40) } else { 0 };
    let aql = (airtime && ring > 0 && dice.below(2) == 0).then(AqlTerms::default);
    StationQueue { limit: QueueLimit::Packets(1 + dice.below(20)), discipline, airtime, ring, aql }
}

/// A handling that the bytes of a frame decide.
fn any_handling(bytes: &[u8]) -> Handling {
    let (size, number) = (bytes.len(), bytes[7]);
    Handling {
        category: Category::ALL[size % 4],
        no_ack: number % 4 == 0,
        txop: size % 3 > 0,
        guarded: number % 8 == 0,
    }
}

/// Frames at random times between random stations.
fn any_traffic(dice: &mut Chance, stations: usize, frames: u64) -> Vec<(Instant, PortId, Vec<u8>)> {
    let mut now = Instant::ZERO;
    let frame = |number| {
        // Several at one instant, soon after each other, or after a silence.
        now += Span::from_micros([0, dice.below(400), dice.below(20_000)][dice.below(3) as usize]);
        let from = dice.below(stations as u64) as usize;
        // Itself is everybody.
        let to = (from + dice.below(stations as u64) as usize) % stations;
        let mut bytes = vec![0; 8 + dice.below(1_500) as usize];
        bytes[..8].copy_from_slice(&u64::to_be_bytes(number));
        (now, port(from, to), bytes)
    };
    (0..frames).map(frame).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cells_keep_the_laws(seed: u64) {
        let mut dice = Seed(seed).chance("contract");
        let config = any_cell(&mut dice);
        let stations = config.reach.stations();
        let traffic = any_traffic(&mut dice, stations, 120);
        let steps = traffic.into_iter().map(|(at, port, bytes)| (at, Stimulus::Frame(port, bytes, FrameMeta::default())));
        let ports = (0..stations).flat_map(|a| (0..stations).map(move |b| port(a, b)));
        let script = Script { steps: steps.collect(), ports: ports.collect(), end: Instant::from_secs(5) };
        check(|| Wifi::new(Seed(seed), "air", &config).unwrap(), &script);
    }

    #[test]
    fn nothing_appears_vanishes_or_is_repeated(seed: u64) {
        conserves(seed)?;
    }
}

/// Broadcast frames of one category that wait for the airtime of another's are sent once that is over.
#[test]
fn a_category_released_by_another_contends() {
    conserves(11_660_204_900_821_752_522).unwrap();
}

/// Every frame is acknowledged, dropped or still waiting; what arrives was sent, once, to that station, in order.
fn conserves(seed: u64) -> Result<(), TestCaseError> {
    let mut dice = Seed(seed).chance("conservation");
    let config = any_cell(&mut dice);
    let stations = config.reach.stations();
    let traffic = any_traffic(&mut dice, stations, 300);
    let mut wifi = Wifi::new(Seed(seed), "air", &config).unwrap();
    let (mut buf, mut offers) = (vec![0; 4_096], traffic.iter().peekable());
    let mut last = vec![None; stations * stations * 16];
    let (mut acknowledged, mut sent, mut dropped, mut arrived) = (0, 0, 0, 0);
    loop {
        let next = [wifi.poll_timeout().map(|w| w.at), offers.peek().map(|o| o.0)].into_iter().flatten().min();
        let Some(now) = next else { break };
        wifi.handle_timeout(now);
        while let Some((_, port, bytes)) = offers.next_if(|(at, ..)| *at <= now) {
            let meta = FrameMeta { ecn: Ecn::Ect0, flow: u64::from(bytes[7] % 2), ..FrameMeta::default() };
            wifi.hand_in(now, *port, bytes, meta, any_handling(bytes));
        }
        while let Some(ready) = wifi.next_ready() {
            let transmit = wifi.poll_transmit(now, ready, &mut buf, 1).unwrap();
            let from = usize::from(ready.0) % 256;
            let managed = config.queues.get(&from).is_some_and(StationQueue::is_managed);
            prop_assert!(transmit.ecn == Ecn::Ect0 || managed && transmit.ecn == Ecn::Ce);
            let number = u64::from_be_bytes(buf[..8].try_into().unwrap()) as usize;
            let to = usize::from(ready.0) / 256;
            let sent_at = traffic[number].1;
            let to_all = sent_at == port(from, from);
            prop_assert!(to_all || sent_at == port(from, to));
            prop_assert_eq!(&traffic[number].2[..], &buf[..transmit.len]);
            prop_assert!(config.reach.get(from, to).decode);
            // In order within a category, or where the queue looks at flows within a flow of it; what is for everybody may
            // have a queue of its own there.
            let category = any_handling(&traffic[number].2).category as usize;
            let flow = if managed { number % 2 + 2 * usize::from(to_all) } else { 0 };
            let lane = ((from * stations + to) * 4 + category) * 4 + flow;
            prop_assert!(last[lane].replace(number).is_none_or(|before| before < number));
            arrived += 1;
        }
        while let Some(event) = wifi.poll_event() {
            match event {
                WifiEvent::Acknowledged { .. } => acknowledged += 1,
                WifiEvent::Sent { .. } => sent += 1,
                WifiEvent::Dropped { .. } => dropped += 1,
            }
        }
    }
    // Nothing is left to do, so nothing may still wait.
    prop_assert_eq!((0..stations).map(|s| wifi.waiting(s)).sum::<usize>(), 0);
    prop_assert_eq!(acknowledged + sent + dropped, traffic.len());
    prop_assert!(arrived >= acknowledged);
    Ok(())
}

/// A station without frames, with its tables of others and what it keeps for the air.
const STATION_MEMORY: u64 = 64 << 10;
/// The table of FQ-CoDel's 1,024 queues of a station.
const FLOWS_MEMORY: u64 = 256 << 10;

/// Five stations, each offered ten times what the cell carries, for two seconds. What waits is bounded by the queues.
#[test]
fn a_flooded_cell_stays_within_its_memory() {
    let standard = cell(OFDM_54, Rules::standard(), 5);
    let times = CoDelTimes::default();
    let managed = |discipline| {
        let queue = StationQueue { limit: QueueLimit::Packets(20), discipline, airtime: false, ring: 0, aql: None };
        let queues = (0..5).map(|station| (station, queue)).collect();
        WifiConfig { queues, ..standard.clone() }
    };
    let plain = WifiConfig { queue: 20, ..standard.clone() };
    let fair = managed(Discipline::FqCoDel(times));
    for (config, table) in [(plain, 0), (managed(Discipline::CoDel(times)), 0), (fair, FLOWS_MEMORY)] {
        let packet = |n: u64| {
            let from = (n % 5) as usize;
            let mut bytes = vec![0; 1_500];
            bytes[..8].copy_from_slice(&u64::to_be_bytes(n));
            let meta = FrameMeta { flow: n / 5 % 7, ..FrameMeta::default() };
            (Instant::from_micros(20 * n), Stimulus::Frame(port(from, (from + 1) % 5), bytes, meta))
        };
        let ports = (0..5).flat_map(|a| (0..5).map(move |b| port(a, b))).collect();
        let script = Script { steps: (0..100_000).map(packet).collect(), ports, end: Instant::from_secs(3) };
        // As much again for tables that grow by doubling.
        let limit = 2 * 5 * 20 * 1_600 + 5 * (STATION_MEMORY + table);
        let make = || Wifi::new(Seed(9), "law", &config).unwrap();
        check_memory(make, &script, limit, |work| allocation_counter::measure(work).bytes_max);
    }
}

#[test]
fn a_full_queue_and_a_frame_too_long_are_reported() {
    let config = WifiConfig { queue: 2, ..cell(OFDM_54, Rules::standard(), 2) };
    let mut wifi = Wifi::new(Seed(1), "air", &config).unwrap();
    for len in [100, 100, 100, 2_297, 2_296] {
        wifi.handle_frame(Instant::ZERO, port(0, 1), &mut vec![0; len], FrameMeta::default());
    }
    let causes: Vec<_> = core::iter::from_fn(|| wifi.poll_event())
        .map(|event| match event {
            WifiEvent::Dropped { cause, octets, .. } => (cause, octets),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(causes, [(Cause::QueueFull, 100), (Cause::TooLong, 2_297), (Cause::QueueFull, 2_296)]);
}

#[test]
fn a_batch_is_taken_apart() {
    let mut wifi = Wifi::new(Seed(1), "air", &cell(OFDM_54, Rules::standard(), 2)).unwrap();
    let meta = FrameMeta { segment: Some(1_000), ..FrameMeta::default() };
    wifi.handle_frame(Instant::ZERO, port(0, 1), &mut [0; 2_500], meta);
    assert_eq!(wifi.waiting(0), 3);
}

#[test]
#[should_panic(expected = "the wiring names a port of station 2 towards 0 in a cell of 2")]
fn an_unconnected_port_is_a_wiring_error() {
    let mut wifi = Wifi::new(Seed(1), "air", &cell(OFDM_54, Rules::standard(), 2)).unwrap();
    wifi.handle_frame(Instant::ZERO, port(2, 0), &mut [0; 10], FrameMeta::default());
}
