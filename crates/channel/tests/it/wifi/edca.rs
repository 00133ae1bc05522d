//! EDCA: TXOP bursts and frames without acknowledgement to the microsecond, internal collisions, priorities.

use super::bianchi::{Cell, two_classes};
use super::drive::*;
use super::saturation::reprinted;
use wavelane_base::{Class, FrameMeta, Instant, Machine, Seed, Span, Transmit};
use wavelane_channel::wifi::{
    Access, BusySlot, Category, Edca, Handling, Phy, Reach, ReachMap, Rules, Tally, Wifi, WifiConfig, WifiEvent, port,
};

const OFDM: Phy = Phy::Ofdm;
const HR: Phy = Phy::HrDsss { short_preamble: false };

fn of(category: Category) -> Handling {
    Handling { category, ..Handling::default() }
}
fn with_edca((phy, tenths): (Phy, u64), rules: Rules, stations: usize, edca: Edca) -> WifiConfig {
    WifiConfig { edca: Some(edca), ..cell((phy, tenths), rules, stations) }
}

/// A cell whose flows are kept backlogged, and what it reports.
struct Busy {
    wifi: Wifi,
    flows: Vec<(usize, usize, Handling)>,
    depth: usize,
    buf: Vec<u8>,
}
impl Busy {
    fn new(seed: u64, config: &WifiConfig, flows: &[(usize, usize, Handling)], depth: usize) -> Self {
        let wifi = Wifi::new(Seed(seed), "air", config).unwrap();
        let mut busy = Self { wifi, flows: flows.to_vec(), depth, buf: vec![0; 4_096] };
        busy.fill(us(1_000));
        busy
    }
    fn fill(&mut self, now: Instant) {
        for &(from, to, handling) in &self.flows {
            while self.wifi.waiting_in(from, handling.category) < self.depth {
                self.wifi.hand_in(now, port(from, to), &[0; PACKET], FrameMeta::default(), handling);
            }
        }
    }
    /// The reports of the next deadline.
    fn step(&mut self, events: &mut Vec<WifiEvent>) -> Instant {
        let now = self.wifi.poll_timeout().unwrap().at;
        self.wifi.handle_timeout(now);
        while let Some(ready) = self.wifi.next_ready() {
            self.wifi.poll_transmit(now, ready, &mut self.buf, 1).unwrap();
        }
        events.clear();
        events.extend(core::iter::from_fn(|| self.wifi.poll_event()));
        if !events.is_empty() {
            self.fill(now);
        }
        now
    }
    fn run(mut self, end: Instant) -> Vec<Tally> {
        let mut events = Vec::new();
        while self.step(&mut events) < end {}
        (0..256).map_while(|s| (s < self.stations()).then(|| *self.wifi.tally(s))).collect()
    }
    fn stations(&self) -> usize {
        1 + self.flows.iter().map(|(from, to, _)| *from.max(to)).max().unwrap()
    }
    /// When frames ended, acknowledgement counted, as seen by the sender.
    fn ends(mut self, count: usize) -> Vec<Instant> {
        let (mut ends, mut events) = (Vec::new(), Vec::new());
        while ends.len() < count {
            self.step(&mut events);
            ends.extend(events.iter().map(|event| match event {
                WifiEvent::Acknowledged { at, .. } | WifiEvent::Sent { at, .. } => *at,
                WifiEvent::Dropped { .. } => panic!("{event:?}"),
            }));
        }
        ends
    }
}

/// A lone station with a backlog: within a burst exchanges are SIFS apart, as many as the limit holds; between bursts
/// lie AIFS and a back-off of whole slots, uniform from 0 to CWmin.
fn burst((phy, tenths): (Phy, u64), handling: Handling, exchange: u64, limit: u64, aifs: u64) {
    let (sifs, slot) = (phy.sifs().as_micros(), phy.slot().as_micros());
    let edca = Edca::standard(phy);
    let access = edca.access[handling.category as usize];
    assert_eq!(access.txop, Span::from_micros(limit));
    let whole = 1 + (limit - exchange) / (exchange + sifs);
    let config = with_edca((phy, tenths), Rules::standard(), 2, edca);
    let ends = Busy::new(1, &config, &[(0, 1, handling)], 40).ends(4_000);
    assert_eq!(ends[0], us(1_000 + exchange), "{phy} {handling:?}");
    let (mut in_burst, mut gaps) = (1, vec![0u32; access.cw_min as usize + 1]);
    for pair in ends.windows(2) {
        let apart = pair[1].since(pair[0]).as_nanos();
        if apart == (sifs + exchange) * 1_000 {
            in_burst += 1;
            continue;
        }
        assert_eq!(in_burst, whole, "{phy} {handling:?}");
        in_burst = 1;
        let slots = apart.checked_sub((aifs + exchange) * 1_000).unwrap();
        assert_eq!(slots % (slot * 1_000), 0);
        gaps[(slots / slot / 1_000) as usize] += 1;
    }
    let expected = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
    let chi: f64 = gaps.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
    // 0.001 points for 3, 7, 15 and 31 degrees of freedom.
    let bound = [(4, 16.3), (8, 24.3), (16, 37.7), (32, 61.1)].iter().find(|(n, _)| *n == gaps.len()).unwrap().1;
    assert!(chi < bound, "{chi} {gaps:?}");
}

#[test]
fn bursts_fill_the_txop_limit_to_the_microsecond() {
    // 1,500 + 38 bytes: 252 us at 54 Mbit/s (58 symbols), 1,311 at 11 (192 + 1,118.5 rounded up); ACK 28 and 248 us.
    let (a, b) = (252 + 16 + 28, 1_311 + 10 + 248);
    burst(OFDM_54, of(Category::Voice), a, 2_080, 16 + 2 * 9);
    burst(OFDM_54, of(Category::Video), a, 4_096, 16 + 2 * 9);
    burst(OFDM_54, of(Category::BestEffort), a, 2_528, 16 + 3 * 9);
    burst(OFDM_54, of(Category::Background), a, 2_528, 16 + 7 * 9);
    burst(HR_11, of(Category::Voice), b, 3_264, 10 + 2 * 20);
    burst(HR_11, of(Category::Video), b, 6_016, 10 + 2 * 20);
    burst(HR_11, of(Category::BestEffort), b, 3_264, 10 + 3 * 20);
    burst(HR_11, of(Category::Background), b, 3_264, 10 + 7 * 20);
    let no_ack = |category| Handling { no_ack: true, ..of(category) };
    burst(OFDM_54, no_ack(Category::Video), 252, 4_096, 34);
    burst(HR_11, no_ack(Category::BestEffort), 1_311, 3_264, 70);
}

#[test]
fn frames_not_marked_for_it_do_not_join_a_burst() {
    let single = Handling { txop: false, ..of(Category::Video) };
    let config = with_edca(OFDM_54, Rules::standard(), 2, Edca::standard(OFDM));
    let ends = Busy::new(1, &config, &[(0, 1, single)], 9).ends(500);
    assert!(ends.windows(2).all(|pair| pair[1].since(pair[0]).as_micros() >= 34 + 296));
    // What a node asks of its port.
    let asked = Transmit { class: Class::Micro, no_ack: true, txop: true, ..Transmit::default() };
    assert_eq!(
        Handling::from(&asked),
        Handling { category: Category::Video, no_ack: true, guarded: false, txop: true }
    );
}

const GUARDED: Handling = Handling { category: Category::BestEffort, no_ack: true, guarded: true, txop: true };

/// The first frame of a burst has its ACK, the others have none.
#[test]
fn a_guarded_burst_begins_with_an_acknowledged_frame() {
    let config = with_edca(HR_11, Rules::standard(), 2, Edca::standard(HR));
    let ends = Busy::new(1, &config, &[(0, 1, GUARDED)], 9).ends(1_000);
    // 3,264 us hold 1,311 + 10 + 248 and then 10 + 1,311.
    assert_eq!(ends[0], us(1_000 + 1_569));
    let follows = |pair: &[Instant]| pair[1].since(pair[0]) == Span::from_micros(1_321);
    assert!(ends.chunks(2).all(follows) && !ends[1..].chunks_exact(2).any(follows));
    let mut busy = Busy::new(1, &config, &[(0, 1, GUARDED)], 9);
    let mut events = Vec::new();
    while busy.step(&mut events) < Instant::from_secs(1) {}
    let Tally { acknowledged, unacknowledged, .. } = *busy.wifi.tally(0);
    assert!(acknowledged.abs_diff(unacknowledged) <= 1 && acknowledged > 200, "{acknowledged} {unacknowledged}");
}

/// The head of a burst is guarded once: longer than the threshold it follows an RTS, and has no ACK of its own.
#[test]
fn a_guarded_head_behind_an_rts_has_no_acknowledgement() {
    let config = WifiConfig { rts_threshold: PACKET, ..with_edca(HR_11, Rules::standard(), 2, Edca::standard(HR)) };
    let tallies = Busy::new(1, &config, &[(0, 1, GUARDED)], 9).run(Instant::from_secs(1));
    let Tally { acknowledged, unacknowledged, rts_sent, .. } = tallies[0];
    assert!(acknowledged == 0 && rts_sent > 200 && unacknowledged >= rts_sent - 1, "{:?}", tallies[0]);
}

/// Two senders that do not hear each other: unguarded bursts collide all the time, guarded ones are covered by the ACK's Duration.
#[test]
fn guarded_bursts_of_hidden_senders_get_through() {
    let mut config = with_edca(HR_11, Rules::standard(), 3, Edca::standard(HR));
    config.edca.as_mut().unwrap().access[Category::BestEffort as usize].txop = Span::from_micros(8_000);
    config.reach.set_both(0, 2, Reach::default()).unwrap();
    let delivered = |handling: Handling| {
        let tallies = Busy::new(1, &config, &[(0, 1, handling), (2, 1, handling)], 9).run(Instant::from_secs(10));
        (tallies[1].received, tallies[0].data_sent + tallies[2].data_sent)
    };
    let (raw, guarded) = (delivered(Handling { guarded: false, ..GUARDED }), delivered(GUARDED));
    assert!(guarded.0 > 2 * raw.0, "{guarded:?} {raw:?}");
    assert!(guarded.0 * 10 > guarded.1 * 7, "{guarded:?}");
}

/// Mean goodput of one station that sends without acknowledgement and without bursts: DIFS, CWmin / 2 slots, frame.
#[test]
fn the_cycle_without_acknowledgement_is_difs_back_off_and_frame() {
    for (phy, frame, difs, slot, cw) in [(OFDM_54, 248.0, 34.0, 9.0, 15.0), (HR_11, 1_310.0, 50.0, 20.0, 31.0)] {
        let flow = (0, 1, Handling { no_ack: true, ..Handling::default() });
        let ends = Busy::new(3, &cell(phy, Rules::standard(), 2), &[flow], 3).ends(40_000);
        let mean = ends[39_999].since(ends[0]).as_secs_f64() * 1e6 / 39_999.0;
        let expected = frame + difs + cw / 2.0 * slot;
        // Deviation of a uniform back-off over 40,000 cycles.
        let sigma = slot * ((cw + 1.0) * (cw + 1.0) / 12.0_f64).sqrt() / 40_000f64.sqrt();
        assert!((mean - expected).abs() < 4.0 * sigma, "{mean} {expected}");
    }
}

/// With DCF's parameters in every category EDCA is DCF, draw for draw.
#[test]
fn edca_with_equal_parameters_equals_dcf() {
    for rules in [Rules::standard(), Rules::ns3_3_44(), Rules::bianchi_2000()] {
        for phy in [OFDM_54, HR_11] {
            let dcf = cell(phy, rules, 11);
            let (cw_min, cw_max) = dcf.windows();
            let edca =
                Edca { access: [Access { aifsn: 2, cw_min, cw_max, txop: Span::ZERO }; 4], busy_slot: rules.busy_slot };
            // The QoS Control field made up for.
            let same = with_edca(phy, Rules { overhead: rules.overhead - 2, ..rules }, 11, edca);
            let flows: Vec<_> = (1..=10).map(|s| (s, 0, Handling::default())).collect();
            let run = |config| Busy::new(7, config, &flows, 3).run(Instant::from_secs(3));
            assert_eq!(run(&dcf), run(&same), "{}", rules.name);
        }
    }
}

/// Sharing one ear must be a matter of speed alone under EDCA as well.
#[test]
fn categories_that_share_an_ear_behave_the_same() {
    for rules in [Rules::standard(), Rules::ns3_3_44(), Rules::bianchi_2000()] {
        let shared = with_edca(OFDM_54, rules, 9, Edca::standard(OFDM));
        let mut apart = shared.clone();
        for (from, to) in (0..9).flat_map(|a| (0..9).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            apart.reach.set(from, to, Reach { signal_db: (from * 9 + to) as i16, ..Reach::FULL }).unwrap();
        }
        let kinds = |s: usize| (0..=s % 4).map(move |k| (s, 0, of(Category::ALL[k])));
        let flows: Vec<_> = (1..9).flat_map(kinds).collect();
        let run = |config| Busy::new(5, config, &flows, 4).run(Instant::from_secs(2));
        assert_eq!(run(&shared), run(&apart), "{}", rules.name);
    }
}

/// Two categories of one station never meet on the air: the higher goes, the lower backs off as after a collision.
#[test]
fn categories_of_one_station_collide_inside_it() {
    let mut edca = Edca::standard(OFDM);
    edca.access.iter_mut().for_each(|access| *access = Access { txop: Span::ZERO, ..edca_dcf() });
    let config = with_edca(OFDM_54, Rules::standard(), 3, edca);
    // Told apart by their receivers.
    let flows = [(2, 0, of(Category::Voice)), (2, 1, of(Category::Video))];
    let tallies = Busy::new(1, &config, &flows, 3).run(Instant::from_secs(20));
    let (high, low) = (tallies[0].received as f64, tallies[1].received as f64);
    assert_eq!(tallies[2].ack_missing, 0);
    // The higher one always draws from CWmin; the lower one's window doubles, as it would against another station.
    let rate = tallies[2].internal_collisions as f64 / (low + tallies[2].internal_collisions as f64);
    assert!((0.05..0.15).contains(&rate), "{rate}");
    assert!(high > 1.05 * low && high < 1.5 * low, "{high} {low}");
}
fn edca_dcf() -> Access {
    Access { aifsn: 2, cw_min: 15, cw_max: 1_023, txop: Span::ZERO }
}

/// Priorities by window and by AIFS against the saturation model with two classes.
#[test]
fn two_categories_share_as_the_two_class_model() {
    let model = Cell { slot: 9.0, sifs: 16.0, data: 248.0, ack: 28.0, cw_min: 15 };
    let mut rows = Vec::new();
    // Windows of the classes, AIFSN of the lower, stations of each.
    for (cw, aifsn, stations) in
        [((15, 31), 2, 2), ((15, 31), 2, 5), ((15, 31), 2, 10), ((15, 15), 3, 5), ((15, 15), 4, 5), ((15, 31), 4, 10)]
    {
        let expected = two_classes([stations, stations], [cw.0, cw.1], u32::from(aifsn) - 2, &model, PAYLOAD);
        let mut edca = Edca::standard(OFDM);
        edca.access[Category::Video as usize] = Access { cw_min: cw.0, ..edca_dcf() };
        edca.access[Category::BestEffort as usize] = Access { aifsn, cw_min: cw.1, ..edca_dcf() };
        edca.busy_slot = BusySlot::Counts;
        let rules = Rules::bianchi_2000();
        let rules = Rules { overhead: rules.overhead - 2, ..rules };
        let n = stations as usize;
        let config = with_edca(OFDM_54, rules, 2 * n + 2, edca);
        let high = (2..n + 2).map(|s| (s, 0, of(Category::Video)));
        let flows: Vec<_> = high.chain((n + 2..2 * n + 2).map(|s| (s, 1, of(Category::BestEffort)))).collect();
        let seconds = 60;
        let tallies = Busy::new(1, &config, &flows, 3).run(Instant::from_secs(seconds));
        let mbps = |sink: usize| tallies[sink].received as f64 * (PAYLOAD * 8) as f64 / seconds as f64 / 1e6;
        let got = [mbps(0), mbps(1)];
        let off = [0, 1].map(|class| (got[class] / expected[class] - 1.0) * 100.0);
        rows.push(format!(
            "| {} and {} | 2 and {aifsn} | {stations} each | {:.3} and {:.3} | {:.3} and {:.3} | {:+.1} and {:+.1} |",
            cw.0, cw.1, expected[0], expected[1], got[0], got[1], off[0], off[1]
        ));
        assert!(off.iter().all(|off| off.abs() < 3.0), "{rows:#?}");
    }
    reprinted(&rows);
}

/// A third station that hears the receiver only: it cannot sense the sender's frames, but the Duration of each ACK
/// keeps it quiet until the next ACK, so only the first frame of a burst is at risk.
#[test]
fn acknowledgements_announce_the_rest_of_a_burst() {
    let mut reach = ReachMap::none(4);
    for (a, b) in [(0, 1), (1, 2), (2, 3)] {
        reach.set_both(a, b, Reach::FULL).unwrap();
    }
    let mut edca = Edca::standard(OFDM);
    edca.access[Category::Video as usize] = Access { txop: Span::from_millis(30), ..edca_dcf() };
    let config = WifiConfig { reach, ..with_edca((OFDM, 60), Rules::standard(), 4, edca) };
    // Station 0 bursts to station 1; station 2, hidden from 0, now and then sends a short frame to station 3.
    let mut busy = Busy::new(1, &config, &[(0, 1, of(Category::Video))], 40);
    let (mut events, mut next, mut dice) = (Vec::new(), us(5_000), Seed(1).chance("hidden"));
    let (mut last_ack, mut missing, mut firsts) = (Instant::ZERO, 0, 0);
    while missing < 200 {
        if busy.wifi.poll_timeout().unwrap().at > next {
            busy.wifi.hand_in(next, port(2, 3), &[0; 100], FrameMeta::default(), of(Category::Voice));
            next += dice.exponential(Span::from_millis(40));
        }
        let now = busy.step(&mut events);
        if busy.wifi.tally(0).ack_missing > missing {
            missing = busy.wifi.tally(0).ack_missing;
            // The frame lasted 2,076 us, its ACK was awaited for SIFS, a slot and 20 us of preamble.
            let begun = now.since(last_ack).as_micros() - (16 + 9 + 20) - 2_076;
            firsts += u64::from(begun >= 34);
        }
        for event in &events {
            if let WifiEvent::Acknowledged { at, from: 0, .. } = event {
                last_ack = *at;
            }
        }
    }
    let acknowledged = busy.wifi.tally(0).acknowledged;
    // What begins within aCCATime of an ACK, 4 us of each 2,152, does not hear it.
    assert!(firsts >= 198 && acknowledged > 10 * firsts, "{firsts} {acknowledged}");
}

#[test]
fn broadcasts_go_once_at_a_basic_rate() {
    for (phy, micros) in [(OFDM_54, 2_072), (HR_11, 12_480), ((Phy::Dsss, 20), 12_480)] {
        let mut wifi = Wifi::new(Seed(1), "air", &cell(phy, Rules::standard(), 5)).unwrap();
        wifi.handle_frame(us(1_000), port(2, 2), &mut [9; 1_500], FrameMeta::default());
        let (mut buf, mut heard) = (vec![0; 4_096], Vec::new());
        let end = us(1_000 + micros);
        while let Some(wakeup) = wifi.poll_timeout() {
            wifi.handle_timeout(wakeup.at);
            while let Some(ready) = wifi.next_ready() {
                assert_eq!(wakeup.at, end);
                let transmit = wifi.poll_transmit(wakeup.at, ready, &mut buf, 1).unwrap();
                assert_eq!(buf[..transmit.len], [9; 1_500]);
                heard.push(ready);
            }
        }
        assert_eq!(wifi.poll_event(), Some(WifiEvent::Sent { at: end, from: 2, to: 2, octets: 1_500 }));
        heard.sort_unstable();
        assert_eq!(heard, [0, 1, 3, 4].map(|listener| port(listener, 2)));
        assert_eq!((wifi.tally(2).data_sent, wifi.tally(2).unacknowledged), (1, 1));
    }
    // Without ACKs there is no retransmission, and the window stays the smallest, collisions or not.
    let flows: Vec<_> = (0..6).map(|s| (s, s, Handling::default())).collect();
    let config =
        WifiConfig { broadcast_rate: Some(mbit(240)), rts_threshold: 0, ..cell(OFDM_54, Rules::standard(), 6) };
    let tallies = Busy::new(1, &config, &flows, 3).run(Instant::from_secs(5));
    assert!(tallies.iter().all(|t| t.data_sent - t.unacknowledged <= 1 && t.rts_sent + t.ack_missing == 0));
    let (sent, received) = (tallies.iter().map(|t| t.data_sent).sum::<u64>(), tallies[0].received);
    let own = tallies[0].data_sent;
    assert!(received < sent - own, "some collide");
}

#[test]
fn impossible_categories_are_refused_with_a_remedy() {
    let refused = |change: &dyn Fn(&mut WifiConfig)| {
        let mut config = with_edca(OFDM_54, Rules::standard(), 3, Edca::standard(OFDM));
        change(&mut config);
        Wifi::new(Seed(1), "air", &config).map(|_| ()).unwrap_err().to_string()
    };
    let edit = |config: &mut WifiConfig, to: Access| config.edca.as_mut().unwrap().access[3] = to;
    let aifsn = refused(&|config| edit(config, Access { aifsn: 1, ..edca_dcf() }));
    assert_eq!(aifsn, "AIFSN 1 of Voice is outside 2 to 15: choose one inside");
    let txop = refused(&|config| edit(config, Access { txop: Span::from_secs(3), ..edca_dcf() }));
    assert!(txop.contains("TXOP limit of 3") && txop.contains("choose a shorter one"), "{txop}");
    assert!(refused(&|config| edit(config, Access { cw_min: 4, ..edca_dcf() })).contains("power of two"));
    assert!(refused(&|config| config.cw = Some((15, 1_023))).contains("leave this out"));
    assert!(refused(&|config| config.broadcast_rate = Some(mbit(10))).contains("broadcast rate: 1 Mbit/s is not"));
    assert_eq!(
        Edca::standard(HR).access[3],
        Access { aifsn: 2, cw_min: 7, cw_max: 15, txop: Span::from_micros(3_264) }
    );
}
