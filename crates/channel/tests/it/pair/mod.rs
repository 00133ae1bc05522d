//! Bluetooth links and cellular bearers: the machine's laws, closed forms, and that nothing is lost or overtaken.

use wavelane_base::laws::{Script, Stimulus, check};
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Rate, Ratio, Seed, Span};
use wavelane_channel::bluetooth::{Bluetooth, BluetoothConfig, Packets, Quality, Scheduler};
use wavelane_channel::cellular::{BearerConfig, CELLULAR_PRESETS, Cellular, CellularConfig, Gaps, Promotion};

const ENDS: [PortId; 2] = [PortId(0), PortId(1)];

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// Frames at both ports, in bursts with silences between.
fn script<M>(seconds: u64) -> Script<M> {
    let mut dice = Seed(7).chance("script");
    let mut steps = Vec::new();
    let mut now = Instant::ZERO;
    while now < at(seconds * 1_000) {
        let most = if dice.below(20) == 0 { 3_000_000_000 } else { 30_000_000 };
        now += Span::from_nanos(dice.below(most));
        let (port, octets) = (ENDS[dice.below(2) as usize], 20 + dice.below(1_480) as usize);
        steps.push((now, Stimulus::Frame(port, vec![dice.below(256) as u8; octets], FrameMeta::default())));
    }
    Script { steps, ports: ENDS.to_vec(), end: now + Span::from_secs(20) }
}

#[test]
fn bluetooth_keeps_the_laws() {
    let quality = Quality {
        good: Span::from_secs(1),
        bad: Span::from_millis(700),
        in_good: Ratio::new(1, 100_000).unwrap(),
        in_bad: Ratio::new(1, 1_000).unwrap(),
    };
    let scheduler = Scheduler::Wandering { asymmetric: Span::from_secs(1), symmetric: Span::from_secs(1) };
    let config =
        BluetoothConfig { packets: Packets::Cqddr, scheduler, quality: Some(quality), ..BluetoothConfig::default() };
    check(|| Bluetooth::new(Seed(1), "air", config).unwrap(), &script(20));
}

#[test]
fn cellular_keeps_the_laws() {
    for (_, preset) in CELLULAR_PRESETS {
        check(|| Cellular::new(Seed(1), "air", preset()).unwrap(), &script(20));
    }
}

/// What machine and port say of the frames handed in there.
struct Load<M> {
    machine: M,
    waiting: fn(&M, PortId) -> usize,
}

impl<M: Machine> Load<M> {
    /// Keeps `port` busy with frames of `octets` from `from` on, and answers each `every`th that arrives with one of `back` octets.
    /// Returns the frames that arrive between the times, and checks that they come in order.
    fn run(
        &mut self,
        port: PortId,
        octets: usize,
        (from, until): (Instant, Instant),
        back: Option<(u32, usize)>,
    ) -> u32 {
        let (mut now, mut number, mut next, mut arrived, mut all) = (Instant::ZERO, 0_u32, 0_u32, 0, 0_u32);
        let far = ENDS[usize::from(port.0 == 0)];
        let mut buffer = vec![0; 2_000];
        while now < until {
            while (self.waiting)(&self.machine, port) < 5 {
                let mut frame = vec![0; octets];
                frame[..4].copy_from_slice(&number.to_be_bytes());
                number += 1;
                self.machine.handle_frame(now, port, &mut frame, FrameMeta::default());
            }
            while let Some(sent) = self.machine.poll_transmit(now, far, &mut buffer, 1) {
                assert_eq!((sent.len, &buffer[..4]), (octets, next.to_be_bytes().as_slice()), "in order and whole");
                next += 1;
                arrived += u32::from(now >= from);
                all += 1;
                if let Some((_, octets)) = back.filter(|(every, _)| all.is_multiple_of(*every)) {
                    self.machine.handle_frame(now, far, &mut vec![1; octets], FrameMeta::default());
                }
            }
            while self.machine.poll_transmit(now, port, &mut buffer, 1).is_some() {}
            now = self.machine.poll_timeout().unwrap().at;
            self.machine.handle_timeout(now);
        }
        arrived
    }
}

/// kbit/s of datagrams of 1,470 bytes from the master, and of segments of 1,460 with an acknowledgement for each second one.
fn kbit_of(config: BluetoothConfig) -> [f64; 2] {
    [(1_498, 1_470.0, None), (1_500, 1_460.0, Some((2, 40)))].map(|(octets, payload, back)| {
        let machine = Bluetooth::new(Seed(1), "air", config).unwrap();
        let mut load = Load { machine, waiting: Bluetooth::waiting };
        f64::from(load.run(ENDS[0], octets, (at(1_000), at(31_000)), back)) * payload * 8.0 / 30.0 / 1e3
    })
}

/// 1,470 B of data are 1,517 B in L2CAP and BNEP: four DH5 of 339 B and a DH3, 28 slots with the replies; seven DM5 of 224 B, 42;
/// with five slots for every reply 48. An acknowledgement of 59 B in a DH3 makes every second reply two slots longer.
#[test]
fn bluetooth_carries_what_its_slots_do() {
    let of = |packets, scheduler| kbit_of(BluetoothConfig { packets, scheduler, ..BluetoothConfig::default() });
    let near = |found: f64, wanted: f64| assert!((found / wanted - 1.0).abs() < 0.003, "{found} for {wanted}");
    let [udp, tcp] = of(Packets::Dh, Scheduler::Asymmetric);
    near(udp, 672.0);
    near(tcp, 1_460.0 * 8.0 * 2.0 / (58.0 * 0.625));
    near(of(Packets::Dm, Scheduler::Asymmetric)[0], 448.0);
    near(of(Packets::Dh, Scheduler::Symmetric)[0], 392.0);
}

/// A repetition costs a turn: at a bit error ratio of 1e-4 a DH5 arrives with probability 0.760, a DH3 of 165 bytes with 0.877.
#[test]
fn bluetooth_repeats_what_was_lost() {
    let p = Ratio::new(1, 10_000).unwrap();
    let quality = Quality { good: Span::from_secs(1), bad: Span::from_secs(1), in_good: p, in_bad: p };
    let [udp, _] = kbit_of(BluetoothConfig { quality: Some(quality), ..BluetoothConfig::default() });
    let slots = 4.0 * 6.0 / 0.760 + 4.0 / 0.877;
    let wanted = 1_470.0 * 8.0 / (slots * 0.625);
    assert!((udp / wanted - 1.0).abs() < 0.02, "{udp} for {wanted}");
    let coded = BluetoothConfig { quality: Some(quality), packets: Packets::Dm, ..BluetoothConfig::default() };
    assert!(kbit_of(coded)[0] > 440.0);
}

#[test]
fn an_idle_slave_waits_for_a_poll() {
    let mut link = Bluetooth::new(Seed(1), "air", BluetoothConfig::default()).unwrap();
    let mut arrived = Vec::new();
    let mut buffer = vec![0; 2_000];
    link.handle_frame(at(1_003), ENDS[1], &mut [0; 100], FrameMeta::default());
    for ms in 1_003..1_060 {
        link.handle_timeout(at(ms));
        arrived.extend(link.poll_transmit(at(ms), ENDS[0], &mut buffer, 1).map(|_| ms));
    }
    // Polled every 25 ms and the two slots of a poll.
    assert!(arrived.len() == 1 && (1_004..=1_003 + 27 + 3).contains(&arrived[0]), "{arrived:?}");
}

fn bearer(kbit: u64) -> BearerConfig {
    let rate = Rate::from_bps(kbit * 1_000);
    BearerConfig { rate, slowest: rate, ..BearerConfig::default() }
}

fn arrivals(config: CellularConfig, (from, until): (u64, u64)) -> u32 {
    let machine = Cellular::new(Seed(1), "air", config).unwrap();
    Load { machine, waiting: Cellular::waiting }.run(ENDS[0], 1_250, (at(from), at(until)), None)
}

/// 1,250 bytes take 10 ms at 1 Mbit/s; with a tenth of the blocks repeated, a ninth more.
#[test]
fn a_bearer_carries_its_rate_less_what_it_repeats() {
    let plain = CellularConfig { forward: bearer(1_000), ..CellularConfig::default() };
    assert!((999..=1_001).contains(&arrivals(plain, (1_000, 11_000))));
    let block_loss = Ratio::new(1, 10).unwrap();
    let lossy = BearerConfig { block: 50, block_loss, tries: 40, ..bearer(1_000) };
    let found = arrivals(CellularConfig { forward: lossy, ..plain }, (1_000, 101_000));
    assert!((8_950..=9_050).contains(&found), "{found}");
    let half = BearerConfig { slowest: Rate::from_bps(500_000), hold: Span::from_millis(100), ..bearer(1_500) };
    let found = arrivals(CellularConfig { forward: half, ..plain }, (1_000, 101_000));
    assert!((9_700..=10_300).contains(&found), "{found}");
}

#[test]
fn a_bearer_stalls_as_it_is_told() {
    let plain = CellularConfig { forward: bearer(1_000), ..CellularConfig::default() };
    let gaps = Gaps { every: Span::from_secs(1), lasts: Span::from_millis(200) };
    let found = arrivals(CellularConfig { handover: Some(gaps), ..plain }, (1_000, 11_000));
    assert!((795..=805).contains(&found), "{found}");
    let spikes = Gaps { every: Span::from_secs(4), lasts: Span::from_secs(1) };
    let found = arrivals(CellularConfig { spikes: Some(spikes), ..plain }, (1_000, 1_001_000));
    assert!((76_000..=84_000).contains(&found), "{found}");
    // The first frame waits for a channel: 260 ms, 10 on the air, 20 of delay.
    let promotion = Promotion { idle: Span::from_secs(5), takes: Span::from_millis(260) };
    let config = CellularConfig { promotion: Some(promotion), ..plain };
    assert_eq!((arrivals(config, (0, 290)), arrivals(config, (0, 291))), (0, 1));
}

#[test]
fn what_is_given_up_is_counted() {
    let block_loss = Ratio::new(1, 2).unwrap();
    let forward = BearerConfig { block_loss, tries: 3, ..bearer(1_000) };
    let config = CellularConfig { forward, ..CellularConfig::default() };
    let mut bearer = Cellular::new(Seed(1), "air", config).unwrap();
    let mut buffer = vec![0; 2_000];
    let (mut arrived, mut now) = (0, Instant::ZERO);
    for _ in 0..1_000 {
        bearer.handle_frame(now, ENDS[0], &mut [0; 1_000], FrameMeta::default());
        now += Span::from_millis(200);
        bearer.handle_timeout(now);
        arrived += u64::from(bearer.poll_transmit(now, ENDS[1], &mut buffer, 1).is_some());
    }
    let counters = bearer.counters(ENDS[0]);
    assert_eq!((counters.offered.frames, counters.delivered.frames), (1_000, arrived));
    assert_eq!(counters.given_up.frames, 1_000 - arrived);
    assert!((90..=160).contains(&counters.given_up.frames), "an eighth: {}", counters.given_up.frames);
}
