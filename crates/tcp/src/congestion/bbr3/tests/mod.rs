//! Acknowledgement by acknowledgement, on a path of 100 segments; each test names the section it holds the code to.

mod bounds;
mod control;
mod cycle;
mod law;
mod probe_rtt;
mod startup;
mod undo;

use super::states::State;
use super::*;

const MSS: u64 = 1_000;
const RTT: Span = Span::from_millis(100);
/// 1 MB/s: the product of this and the round trip is 100 segments.
const RATE: Rate = Rate::from_bps(8_000_000);
const PRODUCT: u64 = 100_000;
const INITIAL: u64 = 10 * MSS;

fn bbr3(dice: u32) -> Bbr3 {
    Bbr3::new(Instant::ZERO, MSS, INITIAL, true, dice)
}

/// One connection, and what the next acknowledgement will tell.
struct Rig {
    bbr: Bbr3,
    now: Instant,
    delivered: u64,
    position: u64,
    rate: Rate,
    rtt: Span,
    /// In flight after the next acknowledgement, and when what it delivers was sent.
    pipe: u64,
    sent_pipe: u64,
    octets: u64,
    app_limited: bool,
    repairing: bool,
    /// Bytes lost since what is delivered was sent.
    lost: u64,
    /// No shorter round trip comes, so that it is probed after a while.
    ages: bool,
}

impl Rig {
    fn new() -> Self {
        Self::of(bbr3(1))
    }
    fn of(bbr: Bbr3) -> Self {
        Self {
            bbr,
            now: Instant::ZERO,
            delivered: 0,
            position: 0,
            rate: RATE,
            rtt: RTT,
            pipe: PRODUCT,
            sent_pipe: PRODUCT,
            octets: 2 * MSS,
            app_limited: false,
            repairing: false,
            lost: 0,
            ages: false,
        }
    }

    fn acknowledge(&mut self, prior_delivered: u64) {
        self.delivered += self.octets;
        if !self.ages {
            self.bbr.model.probe_rtt_least_at = self.now;
        }
        let sample = RateSample {
            rate: Some(self.rate),
            delivered: self.sent_pipe,
            prior_delivered,
            in_flight: self.sent_pipe,
            lost: self.lost,
            app_limited: self.app_limited,
        };
        let acked = Acked {
            now: self.now,
            octets: self.octets,
            delivered: self.delivered,
            lost: 0,
            rtt: Some(self.rtt),
            smoothed: self.rtt,
            least: self.rtt,
            pipe: self.pipe,
            next: 0,
            una: 0,
            limited: true,
            sample: Some(sample),
            repairing: self.repairing,
        };
        self.bbr.on_ack(&acked, self.repairing);
    }
    /// One that belongs to the round trip that runs, as fast as the bandwidth brings it.
    fn ack(&mut self) {
        self.now += Span::from_millis(2);
        self.acknowledge(0);
    }
    fn acks(&mut self, n: usize) {
        (0..n).for_each(|_| self.ack());
    }
    /// One that begins a round trip.
    fn round(&mut self) {
        self.now += self.rtt;
        self.acknowledge(self.delivered);
    }
    fn rounds(&mut self, n: usize) {
        (0..n).for_each(|_| self.round());
    }
    /// A segment is marked lost that was sent with `in_flight` bytes on their way; `gap` separates it from the one before.
    fn lose(&mut self, in_flight: u64, lost: u64, gap: bool) {
        self.position += if gap { 2 * MSS } else { MSS };
        let (start, end) = (self.position, self.position + MSS);
        let (now, delivered, app_limited) = (self.now, self.delivered, self.app_limited);
        self.bbr.on_lost(&Lost { now, start, end, delivered, in_flight, lost, app_limited });
    }
    /// A loss and the recovery it begins.
    fn lose_one(&mut self) {
        self.lose(self.sent_pipe, MSS, true);
        self.bbr.on_congestion();
        self.repairing = true;
    }
    fn repaired(&mut self) {
        self.repairing = false;
        self.ack();
    }
    fn state(&self) -> State {
        self.bbr.state
    }

    fn drain() -> Self {
        let mut rig = Self::new();
        rig.pipe = 2 * PRODUCT;
        rig.sent_pipe = 2 * PRODUCT;
        rig.acks(100);
        rig.rounds(3);
        assert_eq!(rig.state(), State::Drain);
        rig
    }
    fn down() -> Self {
        let mut rig = Self::drain();
        // With an empty queue, the acknowledgement that ends Drain would end this too.
        rig.rounds(4);
        rig.sent_pipe = PRODUCT;
        assert_eq!(rig.state(), State::Down);
        rig
    }
    fn cruise() -> Self {
        let mut rig = Self::down();
        rig.pipe = PRODUCT;
        rig.ack();
        assert_eq!(rig.state(), State::Cruise);
        rig
    }
    /// The clock goes on until it is time to probe.
    fn wait_for_probe(&mut self) {
        for _ in 0..400 {
            if self.state() == State::Refill {
                return;
            }
            self.now += Span::from_millis(8);
            self.ack();
        }
        panic!("no probe in {:?}", self.state());
    }
    fn refill() -> Self {
        let mut rig = Self::cruise();
        rig.wait_for_probe();
        rig
    }
    fn up() -> Self {
        let mut rig = Self::refill();
        rig.round();
        assert_eq!(rig.state(), State::Up);
        rig
    }
    /// A probe that lost 3 of the 100 segments that were in flight with the last of them.
    fn too_high() -> Self {
        let mut rig = Self::up();
        for n in 1..=3 {
            rig.lose(PRODUCT, n * MSS, true);
        }
        assert_eq!(rig.state(), State::Down);
        rig
    }
}
