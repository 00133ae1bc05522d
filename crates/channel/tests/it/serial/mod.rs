//! A serial line against its closed forms, and the laws of every machine.

use proptest::prelude::*;
use wavelane_base::laws::{Script, Stimulus, check};
use wavelane_base::{FrameMeta, Instant, Machine, PortId, Rate, Ratio, Seed, Span};
use wavelane_channel::serial::{MODEM_DELAY, ReceiverCounters};
use wavelane_channel::{
    Coding, Direction, Gain, LossConfig, QueueLimit, Serial, SerialConfig, SerialDirection, SerialError, Uart,
};

const A: PortId = PortId(0);
const B: PortId = PortId(1);
/// An acknowledgement as SLIP frames it.
const ACK: usize = 41;

fn way(bps: u64) -> SerialDirection {
    SerialDirection { rate: Rate::from_bps(bps), ..SerialDirection::default() }.settled(Span::ZERO)
}

fn line(forward: SerialDirection) -> Serial {
    Serial::new(Seed(1), "up", &SerialConfig { forward, reverse: way(115_200) }).unwrap()
}

/// Hands in `frames` at the start, each as long as `octets`, and gives what the far end has of them, and when.
fn drive(serial: &mut Serial, frames: usize, octets: usize) -> Vec<(Instant, Vec<u8>)> {
    for n in 0..frames {
        serial.handle_frame(Instant::ZERO, A, &mut vec![n as u8; octets], FrameMeta::default());
    }
    let mut out = Vec::new();
    while let Some(wakeup) = serial.poll_timeout() {
        serial.handle_timeout(wakeup.at);
        while let Some((port, octets)) = serial.take_ready(wakeup.at) {
            assert_eq!(port, B);
            out.push((wakeup.at, octets));
        }
    }
    out
}

fn received(serial: &Serial) -> ReceiverCounters {
    *serial.receiver(Direction::Forward)
}

#[test]
fn an_octet_takes_ten_bits_or_a_modems_eight() {
    let gain = |hundredths| Coding::V42bis(Gain::from_hundredths(hundredths).unwrap());
    let cases = [
        (9_600, Coding::Async, 960.0),
        (64_000, Coding::Sync, 8_000.0),
        (33_600, Coding::V42, 4_200.0),
        (33_600, gain(200), 8_400.0),
        // No more than the computer's own line carries.
        (33_600, gain(400), 11_520.0),
    ];
    for (bps, coding, per_s) in cases {
        let modem = matches!(coding, Coding::V42 | Coding::V42bis(_));
        let config = SerialDirection { coding, ..way(bps) }.settled(Span::from_millis(3));
        assert_eq!(config.way_delay(), Span::from_millis(3));
        let came = drive(&mut line(config), 100, ACK);
        let expected = (100 * ACK) as f64 / per_s + 3e-3 + if modem { MODEM_DELAY.as_secs_f64() } else { 0.0 };
        let last = came.last().unwrap().0.as_secs_f64();
        assert!((last - expected).abs() < 1e-6, "{coding:?}: {last} {expected}");
        assert!(came.iter().enumerate().all(|(n, (_, octets))| *octets == vec![n as u8; ACK]));
    }
}

/// `n` octets of ten bits each are whole with (1 - p)^(10 n).
#[test]
fn noise_leaves_frames_whole_as_often_as_their_bits_say() {
    for (num, den) in [(1, 100_000), (1, 1_000), (1, 100)] {
        let noise = Ratio::new(num, den).unwrap();
        let config = SerialDirection { noise, ..way(115_200) };
        let mut serial = line(config);
        let came = drive(&mut serial, 4_000, ACK);
        let whole = came.iter().enumerate().filter(|(n, (_, octets))| *octets == vec![*n as u8; ACK]).count() as f64;
        let p = (1.0 - noise.as_f64()).powi(10 * ACK as i32);
        let deviation = (4_000.0 * p * (1.0 - p)).sqrt();
        assert!((whole - 4_000.0 * p).abs() < 4.0 * deviation.max(1.0), "{noise}: {whole} of {}", 4_000.0 * p);
        let counters = received(&serial);
        // Of ten bits two are start and stop.
        let (octets, bits) = (counters.octets as f64, 1.0 - noise.as_f64());
        let framing = octets * (1.0 - bits.powi(2));
        assert!((counters.framing as f64 - framing).abs() < 4.0 * framing.sqrt().max(1.0), "{noise}: {counters:?}");
        assert_eq!(counters.overrun, 0);
    }
}

/// A receiver of one octet whose service takes up to `s` loses the octet that comes meanwhile with p = 1 - t / s, t being an octet's
/// time: of all octets p / (1 + p).
#[test]
fn a_receiver_is_overrun_as_often_as_its_service_is_late() {
    let t = 10.0 / 115_200.0;
    for micros in [80, 86, 88, 100, 150] {
        let uart = Some(Uart::new(1, Span::from_micros(micros)));
        let mut serial = line(SerialDirection { uart, ..way(115_200) });
        drive(&mut serial, 2_000, ACK);
        let p = (1.0 - t / (micros as f64 * 1e-6)).max(0.0);
        let counters = received(&serial);
        let expected = counters.octets as f64 * p / (1.0 + p);
        assert!(
            (counters.overrun as f64 - expected).abs() <= 4.0 * expected.sqrt(),
            "{micros}: {counters:?} {expected}"
        );
    }
    // Sixteen octets last 1.39 ms, of which the interrupt leaves twelve.
    for (fifo, micros, lost) in [(16, 1_000, false), (16, 1_600, true), (32, 1_600, false)] {
        let uart = Some(Uart::new(fifo, Span::from_micros(micros)));
        let mut serial = line(SerialDirection { uart, ..way(115_200) });
        drive(&mut serial, 2_000, ACK);
        assert_eq!(received(&serial).overrun > 0, lost, "{fifo} {micros}");
    }
}

#[test]
fn a_full_queue_refuses_before_anything_is_sent() {
    let mut config = way(9_600);
    config.cable.queue = QueueLimit::Packets(3);
    let mut serial = line(config);
    let came = drive(&mut serial, 10, ACK);
    assert_eq!((came.len(), serial.refused(Direction::Forward)), (4, 6));
    assert!(serial.has_room(came[3].0, A, ACK));
}

#[test]
fn what_a_line_cannot_be_is_refused_with_a_remedy() {
    let refused = |forward: SerialDirection| {
        let config = SerialConfig { forward, reverse: way(9_600) };
        Serial::new(Seed(1), "up", &config).err().map(|error: SerialError| error.to_string()).unwrap_or_default()
    };
    assert!(refused(way(10)).contains("use a line's rate"));
    let uart = Some(Uart { fifo: 16, trigger: 17, service: Span::ZERO });
    assert!(refused(SerialDirection { uart, ..way(9_600) }).contains("use a fifo of 1 to"));
    let noise = Ratio::new(1, 100).unwrap();
    let modem = SerialDirection { noise, coding: Coding::V42, ..way(33_600) }.settled(Span::ZERO);
    assert!(refused(modem).contains("remove noise"));
    let mut altered = way(9_600);
    altered.cable.duplicate = noise;
    assert!(refused(altered).contains("leave the rest to a cable"));
}

fn everything() -> SerialConfig {
    let mut forward = SerialDirection {
        noise: Ratio::new(1, 500).unwrap(),
        uart: Some(Uart::new(4, Span::from_micros(400))),
        ..way(57_600)
    }
    .settled(Span::from_millis(7));
    forward.cable.loss = LossConfig::Random { p: Ratio::new(1, 9).unwrap() };
    forward.cable.queue = QueueLimit::Packets(20);
    SerialConfig { reverse: SerialDirection { uart: None, ..forward.clone() }, forward }
}

#[test]
fn laws() {
    let mut steps: Vec<(Instant, Stimulus<Serial>)> = Vec::new();
    for n in 0..300u64 {
        let frame = vec![n as u8; 20 + (n * 37 % 90) as usize];
        let at = Instant::from_micros(n * 5_300 + n * n % 11);
        steps.push((at, Stimulus::Frame(PortId((n % 3 / 2) as u16), frame, FrameMeta::default())));
    }
    let script = Script { steps, ports: vec![A, B], end: Instant::from_secs(3) };
    check(|| Serial::new(Seed(3), "up", &everything()).unwrap(), &script);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is sent, no octet is invented, and every octet off the line is there, taken or overrun.
    #[test]
    fn octets_are_conserved(frames in proptest::collection::vec(0usize..300, 0..40), fifo in 1u32..40, micros in 0u64..3_000) {
        let uart = Some(Uart::new(fifo, Span::from_micros(micros)));
        let mut serial = line(SerialDirection { uart, noise: Ratio::new(1, 300).unwrap(), ..way(38_400) });
        let mut sent = 0;
        for (n, len) in frames.iter().enumerate() {
            serial.handle_frame(Instant::ZERO, A, &mut vec![n as u8; *len], FrameMeta::default());
            sent += len;
        }
        let mut came = 0;
        while let Some(wakeup) = serial.poll_timeout() {
            serial.handle_timeout(wakeup.at);
            while let Some((_, octets)) = serial.take_ready(wakeup.at) {
                came += octets.len();
            }
        }
        let counters = received(&serial);
        prop_assert_eq!(counters.octets, sent as u64);
        prop_assert!(came as u64 <= counters.octets - counters.overrun.max(counters.framing));
        prop_assert!(came as u64 + counters.overrun + counters.framing >= counters.octets);
    }
}
