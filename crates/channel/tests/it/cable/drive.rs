//! Drives a cable the way an engine does, and keeps what comes out.

use wavelane_base::{FrameMeta, Instant, Machine, PortId, Rate, Ratio, Seed, Span};
use wavelane_channel::{Cable, CableConfig, CableEvent, Cause, Direction, DirectionConfig, Parameter};

pub(crate) const A: PortId = PortId(0);
pub(crate) const B: PortId = PortId(1);

/// A frame that came out: when, and its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) bytes: Vec<u8>,
}

impl Arrival {
    /// The number that [`frame`] wrote.
    pub(crate) fn number(&self) -> u64 {
        u64::from_be_bytes(self.bytes[..8].try_into().unwrap())
    }
}

/// What a run gave, forward direction only.
pub(crate) struct Outcome {
    pub(crate) cable: Cable,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) drops: Vec<(Cause, u64)>,
}

impl Outcome {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.arrivals.iter().map(Arrival::number).collect()
    }
    pub(crate) fn lost(&self, cause: Cause) -> Vec<u64> {
        self.drops.iter().filter(|(c, _)| *c == cause).map(|(_, number)| *number).collect()
    }
    pub(crate) fn dropped(&self, cause: Cause) -> u64 {
        self.cable.counters(Direction::Forward).dropped(cause).frames
    }
}

pub(crate) fn ms(n: u64) -> Instant {
    Instant::from_millis(n)
}
pub(crate) fn us(n: u64) -> Instant {
    Instant::from_micros(n)
}
pub(crate) fn ratio(num: u32, den: u32) -> Ratio {
    Ratio::new(num, den).unwrap()
}
pub(crate) fn mbit(n: u64) -> Option<Rate> {
    Some(Rate::from_bps(n * 1_000_000))
}

/// A frame of `len` bytes (at least 8) that starts with `number`.
pub(crate) fn frame(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// `count` frames of `len` bytes, the first at `start`, one every `every`.
pub(crate) fn steady(count: u64, len: usize, start: Instant, every: Span) -> Vec<(Instant, Vec<u8>)> {
    (0..count).map(|n| (start + every.times(n), frame(n, len))).collect()
}

pub(crate) fn cable(seed: u64, forward: DirectionConfig) -> Cable {
    Cable::new(Seed(seed), "x", CableConfig { forward, reverse: DirectionConfig::default() }).unwrap()
}

/// Sends `offers` from side a, applies `changes` to the forward direction, and runs until nothing is left.
pub(crate) fn drive(
    seed: u64,
    config: DirectionConfig,
    offers: &[(Instant, Vec<u8>)],
    changes: &[(Instant, Parameter)],
) -> Outcome {
    let mut out = Outcome { cable: cable(seed, config), arrivals: Vec::new(), drops: Vec::new() };
    let (mut offers, mut changes) = (offers.iter().peekable(), changes.iter().peekable());
    loop {
        let deadline = out.cable.poll_timeout().map(|wakeup| wakeup.at);
        let next = [deadline, offers.peek().map(|o| o.0), changes.peek().map(|c| c.0)].into_iter().flatten().min();
        let Some(now) = next else { break };
        out.cable.handle_timeout(now);
        while let Some((_, parameter)) = changes.next_if(|(at, _)| *at <= now) {
            out.cable.set(now, Direction::Forward, parameter.clone()).unwrap();
        }
        while let Some((_, bytes)) = offers.next_if(|(at, _)| *at <= now) {
            out.cable.handle_frame(now, A, &mut bytes.clone(), FrameMeta::default());
        }
        drain(&mut out, now);
        let held = out.cable.holding(Direction::Forward);
        assert!(out.cable.counters(Direction::Forward).balances(held), "octets appear or vanish at {now:?}");
    }
    out
}

fn drain(out: &mut Outcome, now: Instant) {
    let mut buf = [0; 65_535];
    while let Some(transmit) = out.cable.poll_transmit(now, B, &mut buf, 1) {
        out.arrivals.push(Arrival { at: now, bytes: buf[..transmit.len].to_vec() });
    }
    while let Some(CableEvent::Dropped { cause, number, .. }) = out.cable.poll_event() {
        out.drops.push((cause, number));
    }
}
